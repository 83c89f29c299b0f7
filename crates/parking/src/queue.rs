//! A port's queue, counted in bytes.

use std::collections::VecDeque;

/// First in, first out, with the bytes that it holds.
#[derive(Debug)]
pub(crate) struct ByteQueue<T> {
    items: VecDeque<(u32, T)>,
    bytes: u64,
    enqueued_bytes: u64,
}

impl<T> ByteQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            items: VecDeque::new(),
            bytes: 0,
            enqueued_bytes: 0,
        }
    }

    pub(crate) fn push(&mut self, bytes: u32, item: T) {
        self.items.push_back((bytes, item));
        self.bytes += u64::from(bytes);
        self.enqueued_bytes += u64::from(bytes);
    }

    pub(crate) fn pop(&mut self) -> Option<(u32, T)> {
        let (bytes, item) = self.items.pop_front()?;
        self.bytes -= u64::from(bytes);
        Some((bytes, item))
    }

    /// What was taken out goes back to the head.
    pub(crate) fn put_back(&mut self, bytes: u32, item: T) {
        self.items.push_front((bytes, item));
        self.bytes += u64::from(bytes);
    }

    pub(crate) fn head_bytes(&self) -> Option<u32> {
        self.items.front().map(|(bytes, _)| *bytes)
    }

    /// What waits, in order.
    pub(crate) fn items(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|(_, item)| item)
    }

    /// Bytes waiting.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets waiting.
    pub(crate) fn packets(&self) -> usize {
        self.items.len()
    }

    /// All bytes that ever joined.
    pub(crate) fn enqueued_bytes(&self) -> u64 {
        self.enqueued_bytes
    }
}
