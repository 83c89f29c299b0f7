//! The four rings that a socket shares with the kernel. Each has one producer and one consumer, who
//! tell each other how far they are in two counters that only grow.

use crate::sys::Mapping;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring of entries, each a number or a descriptor of a packet.
pub struct Ring<T> {
    _memory: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    /// Our own counter, ahead of what we have told.
    own: u32,
    /// The other's, as we last saw it.
    others: u32,
}

// SAFETY: the memory is the ring's alone on this side.
unsafe impl<T> Send for Ring<T> {}

/// What we are to a ring.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// We put entries.
    Producer,
    /// We take them.
    Consumer,
}

const NEEDS_WAKEUP: u32 = 1;

impl<T: Copy> Ring<T> {
    /// Maps a ring of so many entries, a power of two. It goes on where whoever was on our side before
    /// has left off.
    ///
    /// # Errors
    /// What the system says.
    pub fn map(
        socket: &OwnedFd,
        page: u64,
        offsets: &libc::xdp_ring_offset,
        entries: u32,
        side: Side,
    ) -> io::Result<Self> {
        let size = entries as usize * size_of::<T>();
        let memory = Mapping::of(socket, offsets.desc as usize + size, page as libc::off_t)?;
        let counter = |offset: u64| memory.at(offset as usize, 4).cast();
        let (producer, consumer) = (counter(offsets.producer), counter(offsets.consumer));
        let put = Self::counter(producer).load(Ordering::Acquire);
        let taken = Self::counter(consumer).load(Ordering::Acquire);
        Ok(Self {
            producer,
            consumer,
            flags: counter(offsets.flags),
            entries: memory.at(offsets.desc as usize, size).cast(),
            mask: entries - 1,
            own: match side {
                Side::Producer => put,
                Side::Consumer => taken,
            },
            others: match side {
                Side::Producer => taken,
                Side::Consumer => put,
            },
            _memory: memory,
        })
    }

    fn counter(place: NonNull<AtomicU32>) -> &'static AtomicU32 {
        // SAFETY: an aligned counter inside the mapping, which lives as long as the ring; the
        // reference does not leave the methods below.
        unsafe { place.as_ref() }
    }

    /// Whether the kernel wants to be told when there is something.
    pub fn needs_wakeup(&self) -> bool {
        Self::counter(self.flags).load(Ordering::Relaxed) & NEEDS_WAKEUP != 0
    }

    /// As producer: entries that can be put now.
    pub fn room(&mut self) -> u32 {
        self.others = Self::counter(self.consumer).load(Ordering::Acquire);
        self.mask + 1 - self.own.wrapping_sub(self.others)
    }

    /// As producer: puts an entry; false if there is no room. [`Self::submit`] makes it seen.
    pub fn put(&mut self, entry: T) -> bool {
        if !self.has_room() {
            return false;
        }
        // SAFETY: the index is masked, and between the counters the entry is ours.
        unsafe {
            self.entries
                .add((self.own & self.mask) as usize)
                .write(entry)
        };
        self.own = self.own.wrapping_add(1);
        true
    }

    /// As producer: whether the consumer has all that was submitted.
    pub fn is_drained(&mut self) -> bool {
        self.room() == self.mask + 1
    }

    /// As producer: whether an entry can be put now.
    pub fn has_room(&mut self) -> bool {
        self.own.wrapping_sub(self.others) <= self.mask || self.room() > 0
    }

    /// As producer: what was put and the other side has not taken yet. As consumer: what the other side has
    /// put and was not taken.
    pub fn waiting(&self, side: Side) -> impl Iterator<Item = T> {
        let (from, to) = match side {
            Side::Producer => (self.count_taken(), self.own),
            Side::Consumer => (self.own, self.count_put()),
        };
        // SAFETY: the index is masked; between the counters the producer does not write.
        let entry = |at: u32| unsafe { self.entries.add((at & self.mask) as usize).read() };
        (0..to.wrapping_sub(from)).map(move |place| entry(from.wrapping_add(place)))
    }

    /// How many entries this side has put or taken since the ring was made, modulo 2^32.
    pub fn count(&self) -> u32 {
        self.own
    }

    /// As producer: how many entries the other side has taken since the ring was made, modulo 2^32.
    pub fn count_taken(&self) -> u32 {
        Self::counter(self.consumer).load(Ordering::Acquire)
    }

    /// As consumer: how many the other side has put, likewise.
    pub fn count_put(&self) -> u32 {
        Self::counter(self.producer).load(Ordering::Acquire)
    }

    /// As producer: the other side may take what was put.
    pub fn submit(&mut self) {
        Self::counter(self.producer).store(self.own, Ordering::Release);
    }

    /// As consumer: takes an entry. [`Self::release`] gives its place back.
    pub fn take(&mut self) -> Option<T> {
        if self.own == self.others {
            self.others = Self::counter(self.producer).load(Ordering::Acquire);
            if self.own == self.others {
                return None;
            }
        }
        // SAFETY: the index is masked, and between the counters the entry is ours.
        let entry = unsafe { self.entries.add((self.own & self.mask) as usize).read() };
        self.own = self.own.wrapping_add(1);
        Some(entry)
    }

    /// As consumer: the other side may have the places of what was taken.
    pub fn release(&mut self) {
        Self::counter(self.consumer).store(self.own, Ordering::Release);
    }
}
