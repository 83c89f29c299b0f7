//! Buffers that are used again, sorted by size so that a short frame never
//! holds on to a long buffer.

const MIN_CAPACITY_BYTES: usize = 64;
/// Capacities of 64 bytes, 128, and so on to 256 KiB; longer ones are let go.
const CLASSES: usize = 13;

/// Empty buffers waiting for a frame.
pub(crate) struct Recycler {
    classes: [Vec<Vec<u8>>; CLASSES],
    idle_bytes: usize,
    limit_bytes: usize,
}

impl Recycler {
    /// Keeps idle buffers of at most `limit_bytes` altogether.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            classes: Default::default(),
            idle_bytes: 0,
            limit_bytes,
        }
    }

    /// A buffer that holds `frame`.
    pub(crate) fn filled(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut buffer = self.take(capacity_for(frame.len()));
        buffer.extend_from_slice(frame);
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if self.idle_bytes + capacity > self.limit_bytes {
            return;
        }
        if let Some(class) = self.classes.get_mut(class_of(capacity)) {
            buffer.clear();
            class.push(buffer);
            self.idle_bytes += capacity;
        }
    }

    fn take(&mut self, capacity: usize) -> Vec<u8> {
        let idle = self.classes.get_mut(class_of(capacity)).and_then(Vec::pop);
        match idle {
            Some(buffer) => {
                self.idle_bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(capacity),
        }
    }
}

fn capacity_for(len: usize) -> usize {
    len.max(MIN_CAPACITY_BYTES).next_power_of_two()
}

/// The class whose every buffer holds at least `capacity` rounded down to a power of two.
fn class_of(capacity: usize) -> usize {
    (capacity.max(MIN_CAPACITY_BYTES) / MIN_CAPACITY_BYTES).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_buffer_is_used_again_for_its_size_only() {
        let mut recycler = Recycler::new(1 << 20);
        let first = recycler.filled(&[1; 100]);
        let address = first.as_ptr();
        recycler.put(first);
        let short = recycler.filled(&[2; 60]);
        assert_ne!(short.as_ptr(), address);
        let again = recycler.filled(&[3; 128]);
        assert_eq!((again.as_ptr(), &again[..]), (address, &[3; 128][..]));
    }

    #[test]
    fn idle_buffers_stay_within_the_limit() {
        let mut recycler = Recycler::new(1000);
        let buffers: Vec<Vec<u8>> = (0..100).map(|_| recycler.filled(&[0; 60])).collect();
        buffers.into_iter().for_each(|buffer| recycler.put(buffer));
        assert!(
            recycler.idle_bytes <= 1000 && recycler.idle_bytes >= 15 * 64,
            "{}",
            recycler.idle_bytes
        );
        for _ in 0..100 {
            recycler.filled(&[0; 60]);
        }
        assert_eq!(recycler.idle_bytes, 0);
    }

    #[test]
    fn buffers_of_any_length_hold_their_frame() {
        let mut recycler = Recycler::new(1 << 20);
        for len in [0, 1, 63, 64, 65, 9000, 262_144, 262_145, 700_000] {
            for _ in 0..2 {
                let buffer = recycler.filled(&vec![7; len]);
                assert_eq!(buffer, vec![7; len]);
                recycler.put(buffer);
            }
        }
    }
}
