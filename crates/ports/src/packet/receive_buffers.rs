//! Buffers that wait for what comes.

use crate::messages::BURST;
use twinpath_core::pool::{LARGE_PACKET_BYTES, SMALL_PACKET_BYTES};
use twinpath_core::{Frame, Pools};

/// Most long buffers that wait.
const MOST_LONG: usize = 16;
/// Long buffers that are left to others.
const LEFT_LONG: usize = 64;

/// Ordinary buffers, and long ones in front of them while most of what comes is long, as segments that the
/// kernel has put together: what goes on beside a buffer has to be copied once more.
#[derive(Default)]
pub(super) struct ReceiveBuffers {
    long: Vec<Frame>,
    ordinary: Vec<Frame>,
    /// Whether most of what came last was long.
    expects_long: bool,
    /// Long ones that were [prepared](Self::prepare) last.
    prepared_long: usize,
}

impl ReceiveBuffers {
    /// Up to so many, the long ones first.
    pub fn prepare(&mut self, most: usize, pools: &mut Pools) -> impl Iterator<Item = &mut Frame> {
        let most = most.min(BURST);
        match self.expects_long {
            true => {
                let spare = pools.large().available().saturating_sub(LEFT_LONG);
                let wanted = MOST_LONG.min(most).saturating_sub(self.long.len());
                let new = (0..wanted.min(spare)).map_while(|_| pools.take(LARGE_PACKET_BYTES));
                self.long.extend(new);
            }
            false => self.long.drain(..).for_each(|frame| pools.give(frame)),
        }
        self.prepared_long = self.long.len().min(most);
        let ordinary = most - self.prepared_long;
        let missing = ordinary.saturating_sub(self.ordinary.len());
        let new = (0..missing).map_while(|_| pools.take(SMALL_PACKET_BYTES));
        self.ordinary.extend(new);
        let long = self.long.iter_mut().take(self.prepared_long);
        long.chain(self.ordinary.iter_mut().take(ordinary))
    }

    /// The first `count` of those that were prepared.
    pub fn filled(&mut self, count: usize) -> impl Iterator<Item = Frame> {
        let long = self.prepared_long.min(count);
        let ordinary = self.ordinary.drain(..count - long);
        self.long.drain(..long).chain(ordinary)
    }

    /// So many frames came, and so many of them were long.
    pub fn note(&mut self, count: usize, long: usize) {
        if count > 0 {
            self.expects_long = 2 * long > count;
        }
    }
}

/// A short frame that came in a long buffer, in an ordinary one if there is one.
pub(super) fn moved(long: Frame, len: usize, pools: &mut Pools) -> Frame {
    let Some(mut frame) = pools.take(len) else {
        return long;
    };
    frame.set_len(len);
    frame.bytes_mut().copy_from_slice(&long.bytes()[..len]);
    pools.give(long);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prepares so many, of which the first `count` are filled with as many long frames.
    fn round(
        buffers: &mut ReceiveBuffers,
        pools: &mut Pools,
        (most, count, long): (usize, usize, usize),
    ) -> Vec<usize> {
        let rooms = buffers.prepare(most, pools).map(|frame| frame.room());
        let rooms: Vec<usize> = rooms.collect();
        let filled: Vec<Frame> = buffers.filled(count).collect();
        buffers.note(count, long);
        let taken: Vec<usize> = filled.iter().map(Frame::room).collect();
        assert_eq!(taken, rooms[..count], "in the order of the messages");
        filled.into_iter().for_each(|frame| pools.give(frame));
        rooms
    }

    #[test]
    fn long_buffers_wait_while_most_that_comes_is_long() {
        let mut pools = Pools::new(100, 100);
        let mut buffers = ReceiveBuffers::default();
        let is_long = |room: &&usize| **room >= LARGE_PACKET_BYTES;
        let long = |rooms: Vec<usize>| rooms.iter().filter(is_long).count();
        assert_eq!(long(round(&mut buffers, &mut pools, (8, 4, 2))), 0);
        assert_eq!(long(round(&mut buffers, &mut pools, (8, 4, 3))), 0);
        assert_eq!(long(round(&mut buffers, &mut pools, (40, 0, 0))), MOST_LONG);
        assert_eq!(long(round(&mut buffers, &mut pools, (8, 3, 1))), 8);
        assert_eq!(long(round(&mut buffers, &mut pools, (8, 0, 0))), 0);
        assert_eq!(pools.large().available(), 100, "none waits in vain");
    }

    #[test]
    fn others_find_long_buffers() {
        let mut pools = Pools::new(100, LEFT_LONG + 1);
        let mut buffers = ReceiveBuffers {
            expects_long: true,
            ..ReceiveBuffers::default()
        };
        assert_eq!(buffers.prepare(40, &mut pools).count(), 40);
        assert_eq!(pools.large().available(), LEFT_LONG);
    }

    #[test]
    fn short_frames_do_not_keep_long_buffers() {
        let mut pools = Pools::new(1, 2);
        let mut long = pools.take(LARGE_PACKET_BYTES).expect("there is one");
        long.set_len(LARGE_PACKET_BYTES);
        long.bytes_mut()[..3].copy_from_slice(b"abc");
        let short = moved(long, 3, &mut pools);
        assert_eq!((short.bytes(), pools.large().available()), (&b"abc"[..], 2));
        let long = pools.take(LARGE_PACKET_BYTES).expect("there is one");
        let kept = moved(long, 3, &mut pools);
        assert!(kept.room() >= LARGE_PACKET_BYTES, "there is no other");
    }
}
