//! Large zeroed memory on huge pages.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The alignment and granularity of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Types for which all-zero bytes are a valid value and which need no drop.
///
/// # Safety
/// An implementor must be valid when its memory is all zero, and be `Copy`.
pub unsafe trait Zeroable: Copy {}
// SAFETY: plain integers.
unsafe impl Zeroable for u8 {}
// SAFETY: plain integers.
unsafe impl Zeroable for u16 {}
// SAFETY: plain integers.
unsafe impl Zeroable for u32 {}
// SAFETY: plain integers.
unsafe impl Zeroable for u64 {}
// SAFETY: every bit pattern is a number.
unsafe impl Zeroable for u128 {}
// SAFETY: zero where each element is, and `Copy` because its elements are.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

/// One cache line of eight 64-bit words: what large tables are made of, so that an entry never
/// straddles two lines.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct CacheLine(pub [u64; 8]);

// SAFETY: plain integers.
unsafe impl Zeroable for CacheLine {}

/// A zeroed array of fixed length whose pages are taken only when they are touched, on huge pages
/// where the system has them: a table for a million flows costs no page walks and, while it is
/// nearly empty, no memory.
pub struct ZeroedArray<T: Zeroable> {
    start: NonNull<T>,
    len: usize,
    /// What is given back with the array.
    _memory: Memory,
}

/// Where an array's memory is from.
enum Memory {
    Allocator(NonNull<u8>, Layout),
    /// On the heap, so that who counts allocations counts this one.
    Mapping(Box<Mapping>),
}

// SAFETY: the array owns its memory like a boxed slice does.
unsafe impl<T: Zeroable + Send> Send for ZeroedArray<T> {}
// SAFETY: shared access is shared access to a slice.
unsafe impl<T: Zeroable + Sync> Sync for ZeroedArray<T> {}

impl<T: Zeroable> ZeroedArray<T> {
    /// An array of `len` zeroed elements. Aborts when memory is out, as any allocation does.
    pub fn new(len: usize) -> Self {
        let (layout, align) = layout_for::<T>(len);
        let memory = Memory::zeroed(layout);
        let allocation = memory.start();
        let offset = allocation.as_ptr().align_offset(align);
        // SAFETY: for large arrays the layout has a huge page more than the elements take, which
        // is more than the offset; others are aligned already, so that the offset is zero.
        let start = unsafe { allocation.add(offset) };
        advise_huge(start.as_ptr(), len * size_of::<T>());
        Self {
            start: start.cast(),
            len,
            _memory: memory,
        }
    }
}

impl<T: Zeroable> ZeroedArray<T> {
    /// Takes the array's memory now, that is, as much as is quickly taken: a huge page costs
    /// milliseconds when it is touched for the first time, which no packet should wait for. What
    /// lies beyond is taken in passing.
    pub fn touch(&mut self) {
        const MOST_BYTES: usize = 256 << 20;
        const PAGE: usize = 4096;
        let step = (PAGE / size_of::<T>().max(1)).max(1);
        let most = MOST_BYTES / size_of::<T>().max(1);
        for element in self.iter_mut().take(most).step_by(step) {
            let same = *element;
            // SAFETY: the reference is valid for writes, and what is written was there before.
            unsafe { std::ptr::write_volatile(element, same) };
        }
    }
}

/// Arrays of as many bytes are mappings of their own, whose pages nobody has touched. The allocator gives
/// such pages only as long as it has nothing that is free: what it got back it hands out again, filled with
/// zeros, and so takes all pages, small ones, before huge ones are asked for.
const MAPPED: usize = 128 << 10;

impl Memory {
    /// Memory of a layout whose size is not zero. Aborts when there is none.
    fn zeroed(layout: Layout) -> Self {
        let found = match layout.size() >= MAPPED {
            true => Mapping::new(layout.size()).map(|mapping| Self::Mapping(Box::new(mapping))),
            false => {
                // SAFETY: the size is not zero.
                let start = NonNull::new(unsafe { alloc_zeroed(layout) });
                start.map(|start| Self::Allocator(start, layout))
            }
        };
        found.unwrap_or_else(|| handle_alloc_error(layout))
    }

    fn start(&self) -> NonNull<u8> {
        match self {
            Self::Allocator(start, _) => *start,
            Self::Mapping(mapping) => mapping.start,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Self::Allocator(start, layout) = self {
            // SAFETY: allocated in `zeroed` with this layout.
            unsafe { dealloc(start.as_ptr(), *layout) }
        }
    }
}

/// Pages from the system.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> Option<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a private mapping at an address that the kernel chooses is nobody else's.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        let start = (start != libc::MAP_FAILED).then(|| start.cast());
        start
            .and_then(NonNull::new)
            .map(|start| Self { start, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and whoever had it is gone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// What to allocate for an array, and where it starts in there: at the next multiple of the
/// second. A large array has room to be aligned to huge pages within its allocation; a mapping begins with a
/// page, which is enough for any other.
fn layout_for<T>(len: usize) -> (Layout, usize) {
    const FITS: &str = "a table's size fits the address space";
    let bytes = len.checked_mul(size_of::<T>()).expect(FITS);
    let own = align_of::<T>().max(64);
    let (room, align) = match bytes >= HUGE_PAGE {
        true => (bytes.checked_add(HUGE_PAGE).expect(FITS), HUGE_PAGE),
        false => (bytes.max(1), own),
    };
    let layout = Layout::from_size_align(room, own);
    (layout.expect(FITS), align)
}

/// Asks for huge pages; that the kernel may not have them is no error.
fn advise_huge(start: *mut u8, bytes: usize) {
    if bytes >= HUGE_PAGE {
        // SAFETY: the range was just allocated; the advice changes no content.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
    }
}

impl<T: Zeroable> Clone for ZeroedArray<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T: Zeroable> Deref for ZeroedArray<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` points at `len` initialised elements owned by `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> DerefMut for ZeroedArray<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// Reads what lies at `reference`, so that it is in the cache. A processor may give a prefetch up, as
/// where it would have to look an address's translation up; several reads in a row are certain, and
/// overlap.
#[inline(always)]
pub fn bring<T>(reference: &T) {
    // SAFETY: a byte of a valid reference, and any bits are a byte's.
    let _ = unsafe {
        std::ptr::from_ref(reference)
            .cast::<std::mem::MaybeUninit<u8>>()
            .read_volatile()
    };
}

/// Asks the processor to fetch the cache line at `reference`.
#[inline(always)]
pub fn prefetch<T>(reference: &T) {
    prefetch_at(std::ptr::from_ref(reference).cast());
}

/// The same of all cache lines of a value.
#[inline]
pub fn prefetch_all<T>(value: &T) {
    let first = std::ptr::from_ref(value).cast::<u8>();
    for at in (0..size_of::<T>()).step_by(size_of::<CacheLine>()) {
        prefetch_at(first.wrapping_add(at));
    }
}

/// The same of a line that may be somebody else's, or nobody's.
#[inline(always)]
pub fn prefetch_at(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing architecturally, wherever it points.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Which of the eight 16-bit tags of a number equal another: two bits each, the lowest tag in
/// the lowest bits.
#[inline(always)]
#[must_use]
pub fn equal_tags(tags: u128, tag: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE2.
    unsafe {
        use std::arch::x86_64::{
            _mm_cmpeq_epi16, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi16,
        };
        let tags = _mm_set_epi64x((tags >> 64) as i64, tags as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi16(tags, _mm_set1_epi16(tag as i16))) as u32
    }
    #[cfg(not(target_arch = "x86_64"))]
    equal_tags_anywhere(tags, tag)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn equal_tags_anywhere(tags: u128, tag: u16) -> u32 {
    let bits = |number: u32| match (tags >> (16 * number)) as u16 == tag {
        true => 3 << (2 * number),
        false => 0,
    };
    (0..8).fold(0, |found, number| found | bits(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident memory of the process, where the system says it.
    fn resident_bytes() -> Option<usize> {
        let text = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: usize = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(pages * 4096)
    }

    #[test]
    fn large_arrays_are_aligned_and_take_memory_only_where_touched() {
        let before = resident_bytes();
        let mut array = ZeroedArray::<CacheLine>::new(1 << 23);
        assert!(
            std::ptr::from_ref(&array[0])
                .addr()
                .is_multiple_of(HUGE_PAGE)
        );
        array[1 << 22].0[3] = 5;
        assert_eq!((array[1 << 22].0[3], array[(1 << 23) - 1].0[7]), (5, 0));
        if let (Some(before), Some(after)) = (before, resident_bytes()) {
            assert!(
                after < before + (256 << 20),
                "half of the array was touched"
            );
        }
    }

    /// Also where the allocator has memory that an earlier array gave back.
    #[test]
    fn no_array_takes_what_an_earlier_one_touched() {
        let grows = || {
            let mut array = ZeroedArray::<CacheLine>::new(1 << 18);
            array.touch();
            drop(array);
            let before = resident_bytes();
            let array = ZeroedArray::<CacheLine>::new(1 << 18);
            let grown = resident_bytes().zip(before);
            assert_eq!(array[(1 << 18) - 1].0[7], 0);
            grown.is_some_and(|(after, before)| after >= before + (12 << 20))
        };
        assert!((0..50).any(|_| !grows()), "all of 16 MiB were touched");
    }

    /// Other tests may give memory back at the same time, but not each time.
    #[test]
    fn touching_takes_memory_and_changes_nothing() {
        let grows = || {
            let mut array = ZeroedArray::<CacheLine>::new(1 << 19);
            array[77].0[1] = 9;
            let before = resident_bytes();
            array.touch();
            assert_eq!((array[77].0[1], array[(1 << 19) - 1].0[7]), (9, 0));
            let grown = resident_bytes().zip(before);
            grown.is_none_or(|(after, before)| after >= before + (24 << 20))
        };
        assert!((0..50).any(|_| grows()), "32 MiB were hardly touched");
    }

    #[test]
    fn arrays_start_zeroed_and_hold_what_is_written() {
        for len in [0, 1, 1000, 3_000_000] {
            let mut array = ZeroedArray::<u32>::new(len);
            assert_eq!(array.len(), len);
            assert!(array.iter().all(|&element| element == 0));
            if let Some(last) = array.last_mut() {
                *last = 7;
                assert_eq!(array[len - 1], 7);
            }
        }
    }

    #[test]
    fn equal_tags_are_found() {
        for tags in [0, u128::MAX, 0x0001_0002_0003_0001_0001_ffff_8000_0001] {
            for tag in [0, 1, 2, 3, 0x8000, 0xffff] {
                assert_eq!(equal_tags(tags, tag), equal_tags_anywhere(tags, tag));
            }
        }
        assert_eq!(equal_tags(0x0005_0000_0005, 5), 0b11_00_11);
    }
}
