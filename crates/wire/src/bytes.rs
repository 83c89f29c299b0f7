//! Reads and writes of big-endian numbers at an offset. Outside the slice a read gives zero and
//! a write does nothing, so a frame paired with a foreign layout can never cause a panic.

use crate::build_error::BuildError;

/// The first `N` bytes of `out`, to write a header into.
pub(crate) fn header_mut<const N: usize>(out: &mut [u8]) -> Result<&mut [u8; N], BuildError> {
    out.first_chunk_mut().ok_or(BuildError::BufferTooSmall)
}

/// The `N` bytes at `at`, if they are all there.
#[inline(always)]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    // One comparison where the compiler knows that the sum cannot overflow, as with offsets that
    // come from a layout.
    bytes.get(at..at.checked_add(N)?)?.first_chunk().copied()
}

/// The byte at `at`, or zero.
#[inline(always)]
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// The 16-bit number at `at`, or zero.
#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    array_at(bytes, at).map_or(0, u16::from_be_bytes)
}

/// The 32-bit number at `at`, or zero.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    array_at(bytes, at).map_or(0, u32::from_be_bytes)
}

/// The 64-bit number at `at`, or zero.
#[inline(always)]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    array_at(bytes, at).map_or(0, u64::from_be_bytes)
}

/// The 128-bit number at `at`, or zero.
#[inline(always)]
pub(crate) fn u128_at(bytes: &[u8], at: usize) -> u128 {
    array_at(bytes, at).map_or(0, u128::from_be_bytes)
}

/// Writes `value` at `at` if there is room for all of it.
#[inline(always)]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(slot) = bytes.get_mut(at..at.saturating_add(N)) {
        slot.copy_from_slice(&value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_inside_and_outside() {
        let bytes = [1, 2, 3, 4, 5];
        assert_eq!(u16_at(&bytes, 3), 0x0405);
        assert_eq!(u16_at(&bytes, 4), 0);
        assert_eq!(u32_at(&bytes, 1), 0x0203_0405);
        assert_eq!(u32_at(&bytes, usize::MAX), 0);
        assert_eq!(u8_at(&bytes, 5), 0);
        assert_eq!(u128_at(&bytes, 0), 0);
    }

    #[test]
    fn writes_all_or_nothing() {
        let mut bytes = [0; 4];
        put(&mut bytes, 3, [1, 2]);
        assert_eq!(bytes, [0; 4]);
        put(&mut bytes, 2, [1, 2]);
        assert_eq!(bytes, [0, 0, 1, 2]);
        put(&mut bytes, usize::MAX - 1, [1, 2]);
        put(&mut bytes, usize::MAX, [1, 2]);
        assert_eq!(bytes, [0, 0, 1, 2]);
    }
}
