//! Frames of a queue are numbered, so that reordering and loss show.

/// Numbers the frames of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sender {
    next: u32,
}

impl Sender {
    /// The number for the next frame. The first is 1.
    #[inline]
    pub fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }
}

/// What the number of an arriving frame says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The expected frame, or a later one after `lost` frames that will not be accepted any more.
    InOrder {
        /// Frames missing in between.
        lost: u32,
    },
    /// Older than a frame already received: it must be dropped.
    Reordered,
}

/// Checks the numbers of one queue's frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Receiver {
    last: u32,
}

impl Receiver {
    /// The number of the last frame that was accepted; 0 if none was.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// Judges the next arriving frame by its number; differences wrap.
    #[inline]
    pub fn judge(&mut self, sequence: u32) -> Arrival {
        let ahead = sequence.wrapping_sub(self.last);
        if ahead == 0 || ahead > u32::MAX / 2 {
            return Arrival::Reordered;
        }
        self.last = sequence;
        Arrival::InOrder { lost: ahead - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_counted_and_reordering_detected() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.judge(1), Arrival::InOrder { lost: 0 });
        assert_eq!(receiver.judge(4), Arrival::InOrder { lost: 2 });
        assert_eq!(receiver.judge(3), Arrival::Reordered);
        assert_eq!(
            receiver.judge(4),
            Arrival::Reordered,
            "a duplicate is no news"
        );
        assert_eq!(receiver.judge(5), Arrival::InOrder { lost: 0 });
    }

    #[test]
    fn numbers_wrap() {
        let (mut sender, mut receiver) = (
            Sender { next: u32::MAX - 1 },
            Receiver { last: u32::MAX - 1 },
        );
        for _ in 0..4 {
            assert_eq!(
                receiver.judge(sender.number()),
                Arrival::InOrder { lost: 0 }
            );
        }
    }
}
