//! Buffers that somebody outside has for a while: the kernel, which receives into them and sends from
//! them.
//!
//! Behind the buffers lies a mark for each that says who has it, so that a buffer is never both lent and
//! a [`Frame`], however wrong what comes back is. The marks are in memory that outlives the process
//! ([`MemoryFile`]): the next one finds who has what. Every buffer that a borrower can reach is marked
//! if whoever lends hands over after [`Pool::lend`], and has got back before [`Pool::take_back`].

use super::{BOOKKEEPING, Buffer, Frame, OVERHEAD, PackedMetadata, Pool, Region, Stride};
use crate::memory::prefetch_at;
use crate::memory_file::MemoryFile;
use std::num::NonZeroU16;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering, compiler_fence};

/// Who may have buffers of a pool: a number that whoever lends chooses.
pub type Borrower = NonZeroU16;

const MARK_BYTES: usize = size_of::<AtomicU16>();

impl Pool {
    /// How long a file is that so many buffers of so many bytes fit, with their marks.
    pub const fn file_bytes(frames: usize, buffer_bytes: usize) -> usize {
        frames * (buffer_bytes + MARK_BYTES)
    }

    /// A pool whose buffers lie in a file, one every `buffer_bytes`: a multiple of 64, and more than
    /// [`OVERHEAD`]. What a former process has lent of it is still lent.
    ///
    /// # Panics
    /// The length of a buffer is none that is possible.
    pub fn in_file(memory: MemoryFile, buffer_bytes: usize) -> Self {
        assert!(buffer_bytes.is_multiple_of(64) && buffer_bytes > OVERHEAD);
        let frames = memory.len() / (buffer_bytes + MARK_BYTES);
        let region = Region::new(memory.start(), frames, memory);
        let mut pool = Self::over(region, frames, Stride::of(buffer_bytes));
        pool.is_lending = true;
        while let Some(buffer) = pool.fresh_buffer() {
            if pool.borrower(pool.fresh - 1).is_none() {
                pool.free.push(buffer);
            }
        }
        pool
    }

    /// Where its buffers lie, and how many bytes they are.
    pub fn buffers(&self) -> (NonNull<u8>, usize) {
        (self.region.start, self.frames * self.stride.bytes)
    }

    /// Whether a frame is one of this pool's.
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        let region = frame.region();
        region.is_some_and(|region| Arc::ptr_eq(region, &self.region))
    }

    /// Lends a frame's buffer. Returns where in the pool's memory the packet begins, in bytes.
    ///
    /// # Errors
    /// The frame is another pool's, or this one does not lend: here it is.
    #[inline]
    pub fn lend(&mut self, frame: Frame, to: Borrower) -> Result<usize, Frame> {
        let begin = frame.buffer().wrapping_sub(self.region.start.addr().get());
        if !self.owns(&frame) || !self.mark(begin / self.stride.bytes, to.get()) {
            return Err(frame);
        }
        let head = frame.book().head as usize;
        // Who has it is said by its mark alone.
        let _ = frame.into_raw();
        Ok(begin + BOOKKEEPING + head)
    }

    /// A buffer comes back, with a packet of so many bytes at this place in the pool's memory. `None` if
    /// it was not lent to this borrower, or the packet is not inside of it.
    #[inline]
    pub fn take_back(&mut self, place: usize, bytes: usize, from: Borrower) -> Option<Frame> {
        let number = self.number_at(place);
        let head = (place % self.stride.bytes).checked_sub(BOOKKEEPING)?;
        let fits = head.checked_add(bytes)? <= self.stride.capacity as usize;
        if !fits || self.borrower(number) != Some(from) {
            return None;
        }
        self.mark(number, 0);
        let mut frame = Frame(self.buffer(number).0);
        let book = frame.book_mut();
        (book.head, book.len, book.segment_bytes) = (head as u32, bytes as u32, 0);
        book.metadata = PackedMetadata::default();
        Some(frame)
    }

    /// Asks the processor to fetch what it takes to take a buffer back.
    #[inline]
    pub fn expect_back(&self, place: usize) {
        let begin = place - place % self.stride.bytes;
        prefetch_at(self.region.start.as_ptr().wrapping_add(begin));
    }

    /// The number of the buffer that a place in the pool's memory is in.
    #[inline]
    pub fn number_at(&self, place: usize) -> usize {
        place / self.stride.bytes
    }

    /// How many buffers a borrower has.
    pub fn lent(&self, to: Borrower) -> usize {
        self.numbers_lent(to).count()
    }

    /// The numbers of the buffers that a borrower has.
    pub fn numbers_lent(&self, to: Borrower) -> impl Iterator<Item = usize> {
        (0..self.fresh).filter(move |&number| self.borrower(number) == Some(to))
    }

    /// Buffers come back whose borrower is gone, or has never got them: those of its that `is_back` says
    /// by their numbers. Nobody must write to them any more. Returns how many.
    pub fn reclaim(&mut self, from: Borrower, is_back: impl Fn(usize) -> bool) -> usize {
        let lent = self.numbers_lent(from);
        let back: Vec<_> = lent.filter(|&number| is_back(number)).collect();
        for number in &back {
            let frame = self.take_back(number * self.stride.bytes + BOOKKEEPING, 0, from);
            frame.into_iter().for_each(|frame| self.give(frame));
        }
        back.len()
    }

    /// The mark of a buffer that has come into being.
    #[inline]
    fn mark_of(&self, number: usize) -> Option<&AtomicU16> {
        let is_there = self.is_lending && number < self.fresh;
        is_there.then(|| {
            let at = self.frames * self.stride.bytes + number * MARK_BYTES;
            // SAFETY: inside the region, behind its buffers; aligned, as a buffer's length is even. Marks
            // are only ever seen as atomics.
            unsafe { AtomicU16::from_ptr(self.region.start.add(at).cast().as_ptr()) }
        })
    }

    #[inline]
    fn borrower(&self, number: usize) -> Option<Borrower> {
        let mark = self.mark_of(number)?.load(Ordering::Relaxed);
        Borrower::new(mark)
    }

    /// Says who has a buffer. Returns whether it has a mark.
    #[inline]
    fn mark(&self, number: usize, borrower: u16) -> bool {
        let mark = self.mark_of(number);
        // Whoever goes on after a process that was killed finds marks and rings as the program wrote
        // them: in that order.
        compiler_fence(Ordering::SeqCst);
        mark.inspect(|mark| mark.store(borrower, Ordering::Relaxed));
        compiler_fence(Ordering::SeqCst);
        mark.is_some()
    }

    /// A buffer that has come into being.
    #[inline]
    fn buffer(&self, number: usize) -> Buffer {
        debug_assert!(number < self.fresh);
        // SAFETY: callers have looked that it has a mark, so it is inside the region.
        Buffer(unsafe { self.region.start.add(number * self.stride.bytes) }.cast())
    }

    /// Nobody lends any more: what is lent no longer holds the region.
    pub(super) fn write_off_lent(&mut self) {
        for number in 0..self.fresh {
            if self.borrower(number).is_some() {
                let mut buffer = self.buffer(number);
                // SAFETY: a buffer that is lent is nobody's here; the pool still holds the region.
                drop(unsafe { buffer.0.as_mut() }.home.take());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::HEADROOM;

    const BYTES: usize = 4096;

    fn borrower(number: u16) -> Borrower {
        Borrower::new(number).expect("not zero")
    }

    fn pool(frames: usize) -> (Pool, MemoryFile) {
        let memory = MemoryFile::new(Pool::file_bytes(frames, BYTES)).expect("memory");
        let copy = again(&memory);
        (Pool::in_file(memory, BYTES), copy)
    }

    fn again(memory: &MemoryFile) -> MemoryFile {
        let descriptor = memory.descriptor().try_clone().expect("a copy");
        MemoryFile::of(descriptor, memory.len()).expect("as long")
    }

    #[test]
    fn what_a_borrower_wrote_is_a_frame_with_room_in_front() {
        let (mut pool, memory) = pool(2);
        let frame = pool.take().expect("free");
        let place = pool.lend(frame, borrower(3)).expect("ours");
        assert_eq!(place % BYTES, BOOKKEEPING + HEADROOM);
        // SAFETY: inside, and lent, so nobody else refers to it.
        unsafe { memory.start().add(place).write_bytes(9, 60) };
        assert_eq!((pool.lent(borrower(3)), pool.available()), (1, 1));
        let mut frame = pool.take_back(place, 60, borrower(3)).expect("lent");
        assert_eq!(frame.bytes(), [9; 60]);
        assert!(frame.push_front(HEADROOM).is_some());
        drop(frame);
        assert_eq!((pool.lent(borrower(3)), pool.available()), (0, 2));
    }

    #[test]
    fn nothing_comes_back_that_was_not_lent() {
        let (mut pool, _) = pool(2);
        let (frame, kept) = (pool.take().expect("free"), pool.take().expect("free"));
        let place = pool.lend(frame, borrower(1)).expect("ours");
        let of_kept = kept.buffer() - pool.region.start.addr().get() + BOOKKEEPING;
        assert!(pool.take_back(of_kept, 0, borrower(1)).is_none(), "a frame");
        assert!(pool.take_back(place, 1, borrower(2)).is_none(), "another's");
        assert!(pool.take_back(place, BYTES, borrower(1)).is_none(), "long");
        assert!(pool.take_back(2 * BYTES + 64, 0, borrower(1)).is_none());
        assert!(pool.take_back(usize::MAX, 0, borrower(1)).is_none());
        assert!(
            pool.take_back(place / BYTES * BYTES, 0, borrower(1))
                .is_none()
        );
        assert!(pool.take_back(place, 1, borrower(1)).is_some());
        assert!(pool.take_back(place, 1, borrower(1)).is_none(), "twice");
    }

    #[test]
    fn a_frame_of_another_pool_is_not_lent() {
        let ((mut one, _), (mut other, _)) = (pool(1), pool(1));
        let frame = other.take_filled(b"x").expect("free");
        let frame = one.lend(frame, borrower(1)).expect_err("not its own");
        assert_eq!(frame.bytes(), b"x");
        let mut without_marks = Pool::new(1, 64);
        let frame = without_marks.take_filled(b"y").expect("free");
        let frame = without_marks
            .lend(frame, borrower(1))
            .expect_err("it does not lend");
        assert_eq!(frame.bytes(), b"y");
    }

    #[test]
    fn the_next_process_finds_what_is_lent() {
        let (mut pool, memory) = pool(4);
        let mut lend = |to| {
            let frame = pool.take().expect("free");
            pool.lend(frame, borrower(to)).expect("ours")
        };
        let (first, second) = (lend(1), lend(2));
        let kept = pool.take().expect("free");
        let mut next = Pool::in_file(memory, BYTES);
        assert_eq!(next.available(), 2, "what was only a frame is free");
        assert!(next.take_back(first, 0, borrower(1)).is_some());
        let number = next.number_at(second);
        assert_eq!(next.numbers_lent(borrower(2)).collect::<Vec<_>>(), [number]);
        assert_eq!(next.reclaim(borrower(2), |one| one != number), 0);
        assert_eq!(next.reclaim(borrower(2), |_| true), 1);
        assert_eq!(next.available(), 4);
        // Bookkeeping is the next one's now.
        std::mem::forget((kept, pool));
    }

    /// As with memory of its own: frames outlive their pool, and what is lent keeps nothing alive.
    #[test]
    fn a_pool_goes_while_frames_are_out_and_lent() {
        let (mut pool, _) = pool(3);
        let frame = pool.take_filled(b"x").expect("free");
        let lent = pool.take().expect("free");
        pool.lend(lent, borrower(1)).expect("ours");
        let region = Arc::downgrade(&pool.region);
        drop(pool);
        assert_eq!((frame.bytes(), region.strong_count()), (&b"x"[..], 1));
        drop(frame);
        assert_eq!(region.strong_count(), 0);
    }
}
