//! How far a worker is, when several cores work on what it was sent.
//!
//! A machine hears of the last frame of which all has been handed in that came of it and of those
//! before. Here frames overtake each other on the cores, what comes of one is back when it is back,
//! and devices lose some: so each is counted by itself.

use std::collections::{BTreeMap, VecDeque};

/// The frames that one worker was sent, by the machine's numbers.
#[derive(Debug, Default)]
pub(super) struct Finishing {
    /// Of the frames after the last that is finished, in order: the frame itself until the worker
    /// is done with it, and what has come of it and is on its way back.
    open: VecDeque<u32>,
    /// The number of the last frame that is finished, with all before it.
    last: u32,
    /// While what came of a frame is on its way: the oldest packet that had waited at the worker
    /// until that frame came.
    waited: BTreeMap<u32, u64>,
}

impl Finishing {
    /// The machine has sent its next frame.
    pub(super) fn sent(&mut self) {
        self.open.push_back(1);
    }

    /// A worker takes a frame, while packets since this one wait there for rules to go; `u64::MAX`
    /// if none does.
    pub(super) fn received(&mut self, sequence: u32, waited_since: u64) {
        if waited_since != u64::MAX {
            self.waited.insert(sequence, waited_since);
        }
    }

    /// Something that came of a frame sets out for the machine.
    pub(super) fn goes(&mut self, sequence: u32) {
        if let Some(open) = self.open_of(sequence) {
            *open += 1;
        }
    }

    /// The frame, or something that came of it, is done with or lost. Returns how far the worker is,
    /// if it is further.
    pub(super) fn comes(&mut self, sequence: u32) -> Option<u32> {
        let open = self.open_of(sequence)?;
        *open = open.saturating_sub(1);
        if *open == 0 {
            self.waited.remove(&sequence);
        }
        let before = self.last;
        while self.open.front() == Some(&0) {
            self.open.pop_front();
            self.last = self.last.wrapping_add(1);
        }
        (self.last != before).then_some(self.last)
    }

    /// The oldest packet that may be on its way back, of those that had waited at the worker.
    pub(super) fn waited_since(&self) -> u64 {
        self.waited.values().min().copied().unwrap_or(u64::MAX)
    }

    fn open_of(&mut self, sequence: u32) -> Option<&mut u32> {
        let place = sequence.wrapping_sub(self.last).wrapping_sub(1);
        self.open.get_mut(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_as_far_as_the_first_frame_that_is_not_finished() {
        let mut finishing = Finishing::default();
        (0..3).for_each(|_| finishing.sent());
        finishing.goes(2);
        assert_eq!(finishing.comes(2), None, "what came of it is on its way");
        assert_eq!(finishing.comes(3), None);
        assert_eq!(finishing.comes(1), Some(1));
        assert_eq!(finishing.comes(2), Some(3));
        finishing.sent();
        assert_eq!(finishing.comes(4), Some(4));
        assert_eq!(finishing.comes(4), None, "once");
    }

    #[test]
    fn packets_that_waited_count_until_they_are_back() {
        let mut finishing = Finishing::default();
        (0..2).for_each(|_| finishing.sent());
        finishing.received(1, u64::MAX);
        finishing.received(2, 17);
        assert_eq!(finishing.waited_since(), 17);
        finishing.goes(2);
        finishing.comes(2);
        assert_eq!(finishing.waited_since(), 17);
        finishing.comes(2);
        assert_eq!(finishing.waited_since(), u64::MAX);
    }
}
