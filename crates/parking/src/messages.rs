//! What stands in front of a header on its way to the cores and back.
//!
//! | byte | what |
//! |---|---|
//! | 0 | [`MAGIC`] |
//! | 1 | kind: 0 a header, 1 a whole packet, 2 dropped |
//! | 2-3 | zero |
//! | 4-7 | slot |
//! | 8-11 | generation |
//! | 12-19 | when it was parked, ns |
//! | 20-23 | bytes of payload that are parked |
//!
//! Numbers are big-endian.

use crate::ticket::Ticket;
use twinpath_core::{Frame, Instant};

/// First byte of a tag.
pub const MAGIC: u8 = 0x5b;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 24;

/// A tag, checked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The header of a parked payload follows.
    Header(Parked),
    /// A whole packet follows: nothing of it is parked.
    Whole,
    /// The cores dropped the packet of this payload.
    Dropped(Parked),
}

/// What is parked of a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Its ticket.
    pub ticket: Ticket,
    /// Its length in bytes.
    pub payload_bytes: u32,
}

/// A frame that should start with a tag does not.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no parking tag")]
pub struct NoTag;

const NOBODY: Parked = Parked {
    ticket: Ticket {
        slot: 0,
        generation: 0,
        parked_at: Instant::ZERO,
    },
    payload_bytes: 0,
};

impl Tag {
    /// The tag's bytes.
    pub fn encode(self) -> [u8; TAG_BYTES] {
        let (kind, parked) = match self {
            Self::Header(parked) => (0, parked),
            Self::Whole => (1, NOBODY),
            Self::Dropped(parked) => (2, parked),
        };
        let mut out = [0; TAG_BYTES];
        (out[0], out[1]) = (MAGIC, kind);
        out[4..8].copy_from_slice(&parked.ticket.slot.to_be_bytes());
        out[8..12].copy_from_slice(&parked.ticket.generation.to_be_bytes());
        out[12..20].copy_from_slice(&parked.ticket.parked_at.0.to_be_bytes());
        out[20..].copy_from_slice(&parked.payload_bytes.to_be_bytes());
        out
    }

    /// Reads the tag that `bytes` start with.
    ///
    /// # Errors
    /// They do not.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoTag> {
        let tag: &[u8; TAG_BYTES] = bytes.first_chunk().ok_or(NoTag)?;
        let [MAGIC, kind, 0, 0, rest @ ..] = *tag else {
            return Err(NoTag);
        };
        let parked = Parked::decode(rest);
        match kind {
            0 => Ok(Self::Header(parked)),
            1 if parked == NOBODY => Ok(Self::Whole),
            2 => Ok(Self::Dropped(parked)),
            _ => Err(NoTag),
        }
    }

    /// Puts the tag in front of a frame. Returns whether there was room.
    pub fn attach(self, frame: &mut Frame) -> bool {
        let front = frame.push_front(TAG_BYTES);
        front
            .map(|front| front.copy_from_slice(&self.encode()))
            .is_some()
    }

    /// Takes the tag off a frame's front.
    ///
    /// # Errors
    /// There is none.
    pub fn detach(frame: &mut Frame) -> Result<Self, NoTag> {
        let tag = Self::decode(frame.bytes())?;
        frame.pull_front(TAG_BYTES);
        Ok(tag)
    }
}

impl Parked {
    fn decode(bytes: [u8; TAG_BYTES - 4]) -> Self {
        let word = |at: usize| {
            let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            u32::from_be_bytes(word)
        };
        Self {
            ticket: Ticket {
                slot: word(0),
                generation: word(4),
                parked_at: Instant(u64::from(word(8)) << 32 | u64::from(word(12))),
            },
            payload_bytes: word(16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tags() -> impl Strategy<Value = Tag> {
        let parked = any::<(u32, u32, u64, u32)>();
        (0..3usize, parked).prop_map(
            |(kind, (slot, generation, at, payload_bytes)): (usize, _)| {
                let ticket = Ticket {
                    slot,
                    generation,
                    parked_at: Instant(at),
                };
                let parked = Parked {
                    ticket,
                    payload_bytes,
                };
                [Tag::Header(parked), Tag::Whole, Tag::Dropped(parked)][kind]
            },
        )
    }

    proptest! {
        #[test]
        fn a_tag_reads_back(tag in tags()) {
            prop_assert_eq!(Tag::decode(&tag.encode()), Ok(tag));
        }

        /// Whatever decodes, encodes to the same bytes.
        #[test]
        fn bytes_that_are_no_tag_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..32), kind in 0u8..4, set: bool) {
            if let (true, [first, second, third, fourth, ..]) = (set, &mut bytes[..]) {
                (*first, *second, *third, *fourth) = (MAGIC, kind, 0, 0);
            }
            if let Ok(tag) = Tag::decode(&bytes) {
                prop_assert_eq!(&tag.encode()[..], &bytes[..TAG_BYTES]);
            }
        }
    }
}
