//! Several requesters that share a server: the shards of a switch.
//!
//! A server's queue pairs are dealt to them in turn, and with a queue pair its part of the memory, so
//! each has rings, sequences and lives of its own and shares nothing with others but the link. A
//! queue pair's number is in whatever the server sends to it, so any shard can tell whose a frame is.

use super::INDEX_MASK;
use crate::registration::{self, Message};
use twinpath_core::wire::roce::is_roce;
use twinpath_core::wire::{Layout, dissect};

/// Which of so many requesters.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub number: u16,
    /// At least 1.
    pub of: u16,
}

/// For whom a server has sent a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The shard of this number.
    Shard(u16),
    /// All of them.
    All,
    /// Nobody in particular: it is none of a server's.
    Any,
}

impl Receiver {
    /// For which of so many shards a frame is that came by a link to servers.
    #[must_use]
    pub fn of(frame: &[u8], shards: u16) -> Self {
        if registration::is_registration(frame) {
            return match Message::read(frame) {
                Ok(Message::QueuePair(answer)) => Self::Shard(answer.index % shards.max(1)),
                Ok(Message::Memory(_)) => Self::All,
                Ok(Message::Restore(_)) | Err(_) => Self::Any,
            };
        }
        match dissect(frame) {
            Ok(layout) if is_roce(frame, &layout) => {
                let index = queue_pair(frame, &layout);
                index.map_or(Self::Any, |index| Self::Shard(index % shards.max(1)))
            }
            _ => Self::Any,
        }
    }
}

/// Which of the server's queue pairs a RoCE packet is for. Whether its ICRC holds is for that one to
/// find out.
fn queue_pair(frame: &[u8], layout: &Layout) -> Option<u16> {
    const NUMBER_AT: usize = 4;
    let transport = frame.get(usize::from(layout.payload)..)?;
    let number = transport.get(NUMBER_AT..)?.first_chunk()?;
    Some((u32::from_be_bytes(*number) & INDEX_MASK) as u16)
}

impl Shard {
    /// The only one.
    pub const ONLY: Self = Self { number: 0, of: 1 };

    /// The server's number of a queue pair of this shard.
    pub(super) const fn index(self, own: u16) -> u16 {
        own * self.of + self.number
    }

    /// This shard's number of a queue pair of the server's, if it is this shard's.
    pub(super) fn own(self, index: u64) -> Option<usize> {
        let of = u64::from(self.of);
        let is_own = index % of == u64::from(self.number);
        is_own.then(|| usize::try_from(index / of).ok()).flatten()
    }

    /// How many of the server's first so many queue pairs are this shard's.
    pub(super) const fn count(self, all: u16) -> u16 {
        all.saturating_sub(self.number).div_ceil(self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_pair_is_of_one_shard() {
        for of in 1..9 {
            for all in 0..40 {
                let shards = (0..of).map(|number| Shard { number, of });
                let mut seen = vec![0; usize::from(all)];
                for shard in shards {
                    for own in 0..shard.count(all) {
                        let index = shard.index(own);
                        seen[usize::from(index)] += 1;
                        assert_eq!(shard.own(index.into()), Some(own.into()));
                    }
                }
                assert!(seen.iter().all(|&count| count == 1), "{all} of {of}");
            }
        }
    }
}
