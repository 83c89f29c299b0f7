//! Large zeroed memory on huge pages.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The alignment and granularity of a huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

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
// SAFETY: zero where each element is, and `Copy` because its elements are.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

/// One cache line of eight 64-bit lanes: what large tables are made of, so that an entry never
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
    layout: Layout,
}

// SAFETY: the array owns its memory like a boxed slice does.
unsafe impl<T: Zeroable + Send> Send for ZeroedArray<T> {}
// SAFETY: shared access is shared access to a slice.
unsafe impl<T: Zeroable + Sync> Sync for ZeroedArray<T> {}

impl<T: Zeroable> ZeroedArray<T> {
    /// An array of `len` zeroed elements. Aborts when memory is out, as any allocation does.
    pub fn new(len: usize) -> Self {
        let layout = layout_for::<T>(len);
        // SAFETY: `layout_for` never returns a layout of size zero.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(raw.cast::<T>()) else {
            handle_alloc_error(layout)
        };
        advise_huge(raw, layout);
        Self { start, len, layout }
    }
}

fn layout_for<T>(len: usize) -> Layout {
    let bytes = len
        .checked_mul(size_of::<T>())
        .expect("a table's size fits the address space")
        .max(1);
    let align = if bytes >= HUGE_PAGE {
        HUGE_PAGE
    } else {
        align_of::<T>().max(64)
    };
    Layout::from_size_align(bytes, align).expect("a table's size fits the address space")
}

/// Asks for huge pages; that the kernel may not have them is no error.
pub(crate) fn advise_huge(start: *mut u8, layout: Layout) {
    if layout.size() >= HUGE_PAGE {
        // SAFETY: the range was just allocated with this layout; the advice changes no content.
        unsafe { libc::madvise(start.cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
}

/// Allocates zeroed memory for `layout`, on huge pages when large.
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 0, "an empty region has no memory");
    // SAFETY: the size is not zero.
    let raw = unsafe { alloc_zeroed(layout) };
    let Some(start) = NonNull::new(raw) else {
        handle_alloc_error(layout)
    };
    advise_huge(raw, layout);
    start
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

impl<T: Zeroable> Drop for ZeroedArray<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; elements need no drop.
        unsafe { dealloc(self.start.as_ptr().cast(), self.layout) }
    }
}

/// Asks the processor to fetch the cache line at `reference`.
#[inline(always)]
pub fn prefetch<T>(reference: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of a valid reference reads nothing architecturally.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(reference).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = reference;
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
