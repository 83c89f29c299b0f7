//! Packets that go on in another shard, where each shard reads all packets by itself.
//!
//! There a packet must come to the receiver's shard as if that had read it: behind all that come before
//! it, and in front of all that come after. Each shard sees by itself which packets of others may
//! [cross](super::Crossing) to it, so it waits in front of each until the sender's shard says that it is through with
//! it, and takes what has come. Whoever has read least waits for nobody, so this ends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twinpath_core::{Frame, Instant, Metadata, Pools};

/// One shard's end of it.
#[derive(Clone)]
pub struct Across {
    own: u16,
    shards: Arc<[Place]>,
}

/// What others know of a shard.
#[derive(Default)]
struct Place {
    /// It is through with its packets that were read before so many; [`u64::MAX`] at its end.
    through: AtomicU64,
    arrived: Mutex<VecDeque<Crossed>>,
}

/// A packet that has crossed.
struct Crossed {
    /// Its sender's shard had read so many packets.
    behind: u64,
    at: Instant,
    port: u16,
    was_on_slow_path: bool,
    bytes: Vec<u8>,
}

impl Place {
    fn arrived(&self) -> MutexGuard<'_, VecDeque<Crossed>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Across {
    /// The ends of so many shards.
    pub fn all(shards: u16) -> Vec<Self> {
        let places: Arc<[Place]> = (0..shards).map(|_| Place::default()).collect();
        let end = |own| Self {
            own,
            shards: Arc::clone(&places),
        };
        (0..shards).map(end).collect()
    }

    fn own(&self) -> &Place {
        &self.shards[usize::from(self.own)]
    }

    /// A packet goes on in another shard, this one having read so many. Returns whether that still takes
    /// some.
    pub fn send(&self, shard: u16, frame: &Frame, behind: u64) -> bool {
        let to = self.shards.get(usize::from(shard));
        let Some(to) = to.filter(|_| self.own().through.load(Ordering::Acquire) != u64::MAX) else {
            return false;
        };
        to.arrived().push_back(Crossed {
            behind,
            at: frame.timestamp(),
            port: frame.port(),
            was_on_slow_path: frame.metadata().was_on_slow_path,
            bytes: frame.bytes().to_vec(),
        });
        true
    }

    /// This shard is through with its packets that were read before so many.
    pub fn tell_through(&self, before: u64) {
        self.own().through.fetch_max(before, Ordering::AcqRel);
    }

    /// Whether a shard is through with a packet, told by how many were read before it.
    pub fn is_through(&self, shard: u16, before: u64) -> bool {
        let shard = self.shards.get(usize::from(shard));
        shard.is_none_or(|shard| shard.through.load(Ordering::Acquire) > before)
    }

    /// Whether all other shards are.
    pub fn are_through(&self, before: u64) -> bool {
        let mut others = (0..self.shards.len() as u16).filter(|&shard| shard != self.own);
        others.all(|shard| self.is_through(shard, before))
    }

    /// When the first packet crossed that may be taken where so many have been read.
    pub fn first(&self, read: u64) -> Option<Instant> {
        let arrived = self.own().arrived();
        let mut due = arrived.iter().filter(|crossed| crossed.behind <= read);
        due.next().map(|crossed| crossed.at)
    }

    /// Takes the packets that may be taken where so many have been read, at most `most`, as far as there
    /// are buffers.
    pub fn take(&self, read: u64, most: usize, pools: &mut Pools, frames: &mut Vec<Frame>) {
        let mut arrived = self.own().arrived();
        let mut place = 0;
        let full = frames.len() + most;
        while frames.len() < full
            && let Some(crossed) = arrived.get(place)
        {
            if crossed.behind > read {
                place += 1;
                continue;
            }
            let Some(mut frame) = pools.take_filled(&crossed.bytes) else {
                return;
            };
            frame.set_timestamp(crossed.at);
            frame.set_port(crossed.port);
            frame.set_metadata(Metadata {
                was_on_slow_path: crossed.was_on_slow_path,
                ..Metadata::default()
            });
            arrived.remove(place);
            frames.push(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(pools: &mut Pools, number: u8) -> Frame {
        let mut frame = pools.take_filled(&[number; 60]).expect("room");
        frame.set_timestamp(Instant(number.into()));
        frame.set_port(1);
        frame
    }

    fn taken(end: &Across, read: u64, pools: &mut Pools) -> Vec<u8> {
        let mut frames = Vec::new();
        end.take(read, 64, pools, &mut frames);
        let numbers = frames.iter().map(|frame| frame.bytes()[0]).collect();
        frames.drain(..).for_each(|frame| pools.give(frame));
        numbers
    }

    /// What crossed behind later packets is not taken before these have been read.
    #[test]
    fn packets_come_when_it_is_their_turn() {
        let [one, two, three] = Across::all(3).try_into().ok().expect("three");
        let mut pools = Pools::new(16, 1);
        for (from, number, behind) in [(&one, 7, 9), (&two, 3, 4), (&two, 4, 4)] {
            let frame = packet(&mut pools, number);
            assert!(from.send(2, &frame, behind));
            pools.give(frame);
        }
        assert!(taken(&three, 3, &mut pools).is_empty());
        assert_eq!(three.first(8), Some(Instant(3)));
        assert_eq!(taken(&three, 8, &mut pools), [3, 4]);
        assert_eq!(taken(&three, 9, &mut pools), [7]);
        assert_eq!((three.first(u64::MAX), one.first(u64::MAX)), (None, None));
    }

    #[test]
    fn whoever_is_through_sends_nothing_more() {
        let [one, two] = Across::all(2).try_into().ok().expect("two");
        let mut pools = Pools::new(16, 1);
        one.tell_through(5);
        one.tell_through(4);
        assert!(two.is_through(0, 4) && !two.is_through(0, 5) && !two.are_through(5));
        one.tell_through(u64::MAX);
        assert!(two.are_through(u64::MAX - 1));
        let frame = packet(&mut pools, 1);
        assert!(!one.send(1, &frame, 9) && two.send(0, &frame, 9));
        pools.give(frame);
    }
}
