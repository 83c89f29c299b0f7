//! Numbers read from their most significant bit: what prefixes are made of.

use std::fmt::Debug;
use std::ops::{BitAnd, BitOr, BitXor, Not, Shl, Shr};

/// An unsigned number as wide as an address of one IP version.
pub(crate) trait Word:
    Copy
    + Default
    + Debug
    + Ord
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// How many bits it has.
    const BITS: u32;
    /// All bits set.
    const MAX: Self;

    /// The lowest bits of a wider number.
    fn from_low(number: u128) -> Self;

    /// A number of 16 bits in the most significant ones.
    fn from_top16(number: u16) -> Self;

    /// The lowest bits as an index.
    fn low(self) -> usize;

    /// How many of the first bits are zero.
    fn zeros(self) -> u32;

    /// How many of the first bits are equal.
    #[inline(always)]
    fn common(self, other: Self) -> u32 {
        (self ^ other).zeros()
    }

    /// A mask of the first `count` bits.
    #[inline(always)]
    fn leading(count: u32) -> Self {
        if count == 0 {
            Self::default()
        } else {
            Self::MAX << (Self::BITS - count)
        }
    }

    /// The `width` bits after the first `start`, as a number; `width` is not zero.
    #[inline(always)]
    fn bits(self, start: u32, width: u32) -> usize {
        ((self << start) >> (Self::BITS - width)).low()
    }
}

impl Word for u32 {
    const BITS: u32 = 32;
    const MAX: Self = Self::MAX;

    #[inline(always)]
    fn from_low(number: u128) -> Self {
        number as Self
    }

    #[inline(always)]
    fn from_top16(number: u16) -> Self {
        Self::from(number) << 16
    }

    #[inline(always)]
    fn low(self) -> usize {
        self as usize
    }

    #[inline(always)]
    fn zeros(self) -> u32 {
        self.leading_zeros()
    }
}

impl Word for u128 {
    const BITS: u32 = 128;
    const MAX: Self = Self::MAX;

    #[inline(always)]
    fn from_low(number: u128) -> Self {
        number
    }

    #[inline(always)]
    fn from_top16(number: u16) -> Self {
        Self::from(number) << 112
    }

    #[inline(always)]
    fn low(self) -> usize {
        self as usize
    }

    #[inline(always)]
    fn zeros(self) -> u32 {
        self.leading_zeros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_count_from_the_top() {
        assert_eq!(0xc0a8_0101u32.bits(8, 8), 0xa8);
        assert_eq!((0x2001_0db8u128 << 96).bits(16, 16), 0x0db8);
        assert_eq!(<u32 as Word>::leading(0), 0);
        assert_eq!(<u32 as Word>::leading(9), 0xff80_0000);
        assert_eq!(<u128 as Word>::leading(128), u128::MAX);
        assert_eq!(0xc0a8_0101u32.common(0xc0a8_8101), 16);
        assert_eq!(<u128 as Word>::from_top16(1).bits(0, 16), 1);
    }
}
