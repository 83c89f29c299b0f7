//! Bounded rings between threads.

use twinpath_core::Frame;

/// The sending end of a ring.
pub struct RingSender(rtrb::Producer<Frame>);

/// The receiving end of a ring.
pub struct RingReceiver(rtrb::Consumer<Frame>);

/// A ring for at most `capacity` frames from one thread to one other.
pub fn ring(capacity: usize) -> (RingSender, RingReceiver) {
    let (producer, consumer) = rtrb::RingBuffer::new(capacity.max(1));
    (RingSender(producer), RingReceiver(consumer))
}

impl RingSender {
    /// Sends a frame.
    ///
    /// # Errors
    /// Gives the frame back if the ring is full.
    #[inline]
    pub fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        self.0
            .push(frame)
            .map_err(|rtrb::PushError::Full(frame)| frame)
    }

    /// Whether the receiving end is gone.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}

impl RingReceiver {
    /// Moves up to `limit` frames into `into`; returns how many.
    #[inline]
    pub fn receive(&mut self, into: &mut Vec<Frame>, limit: usize) -> usize {
        let available = self.0.slots().min(limit);
        let Ok(chunk) = self.0.read_chunk(available) else {
            return 0;
        };
        into.extend(chunk);
        available
    }

    /// Whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the sending end is gone; frames may still wait.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::Pool;

    #[test]
    fn a_full_ring_gives_the_frame_back() {
        let mut pool = Pool::new(3, 64);
        let (mut sender, mut receiver) = ring(2);
        for byte in 0..2u8 {
            sender
                .send(pool.take_filled(&[byte]).expect("room"))
                .expect("room in the ring");
        }
        let refused = sender.send(pool.take_filled(&[2]).expect("room"));
        assert_eq!(refused.expect_err("the ring is full").bytes(), &[2]);
        let mut frames = Vec::new();
        assert_eq!(receiver.receive(&mut frames, 8), 2);
        assert_eq!(
            frames
                .iter()
                .map(|frame| frame.bytes()[0])
                .collect::<Vec<_>>(),
            [0, 1]
        );
    }
}
