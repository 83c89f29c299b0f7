//! The Internet checksum: sums over bytes, pseudo-headers, and incremental repair (RFC 1071,
//! RFC 1624).
//!
//! A *sum* is a `u64` that grows without folding: sums of several even-sized parts are simply
//! added. [`fold`] brings it to 16 bits; the checksum on the wire is its complement.

use std::ops::{Add, AddAssign};

use crate::address::Address;

/// The ones-complement sum of `bytes` as big-endian 16-bit words; an odd last byte counts as the
/// high half of a word. At most 2^32 bytes.
#[must_use]
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    // The sum does not depend on byte order (RFC 1071 §2), so words are added as the machine
    // reads them, and the 16 bits that remain are swapped once.
    let (chunks, rest) = bytes.as_chunks::<8>();
    let mut total = 0;
    for chunk in chunks {
        let pair = u64::from_ne_bytes(*chunk);
        total += (pair >> 32) + (pair & 0xffff_ffff);
    }
    let mut last = [0; 8];
    for (slot, byte) in last.iter_mut().zip(rest) {
        *slot = *byte;
    }
    let pair = u64::from_ne_bytes(last);
    u64::from(u16::from_be(fold(
        total + (pair >> 32) + (pair & 0xffff_ffff),
    )))
}

/// Folds a sum to 16 bits with end-around carry.
#[must_use]
#[inline(always)]
pub const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

/// The checksum that belongs on the wire for a sum.
#[must_use]
#[inline(always)]
pub const fn finish(sum: u64) -> u16 {
    !fold(sum)
}

/// Like [`finish`], for UDP: a computed zero is sent as `0xffff`, for zero means "no checksum".
#[must_use]
#[inline(always)]
pub const fn finish_udp(sum: u64) -> u16 {
    match finish(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// Whether the checksum of an IPv4 header without options holds.
#[must_use]
#[inline(always)]
pub fn is_valid_header(header: &[u8; 20]) -> bool {
    // Ones' complement sums are the same in either byte order, and may be taken in wide words.
    let word = |at: usize| {
        let bytes = header[at..].first_chunk();
        bytes.map_or(0, |bytes| u64::from(u32::from_ne_bytes(*bytes)))
    };
    fold(word(0) + word(4) + word(8) + word(12) + word(16)) == 0xffff
}

/// The checksum of `bytes`, whose own checksum field is zero.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    finish(sum(bytes))
}

/// The sum of IPv6's pseudo-header; `length` is the transport header and payload in bytes.
#[must_use]
#[inline]
pub const fn pseudo_header_v6(source: u128, destination: u128, protocol: u8, length: u32) -> u64 {
    words(source) + words(destination) + protocol as u64 + length as u64
}

/// The sum of the pseudo-header of either version. The `ffff` of a v4-mapped address is zero in
/// ones-complement arithmetic, so IPv6's sum serves both.
#[must_use]
#[inline]
pub const fn pseudo_header(
    source: Address,
    destination: Address,
    protocol: u8,
    length: u32,
) -> u64 {
    pseudo_header_v6(source.0, destination.0, protocol, length)
}

/// What a change of covered bytes does to a sum. Changes add up, and one change can be applied
/// to several checksums. Each changed number must start at an even offset of what is summed.
///
/// A sum of 16-bit words, few enough that 32 bits hold it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Delta(u32);

impl Delta {
    /// Nothing changed.
    pub const NONE: Self = Self(0);

    /// A 16-bit word changed.
    #[must_use]
    #[inline(always)]
    pub const fn of16(old: u16, new: u16) -> Self {
        Self((old != new) as u32 * (!old as u32 + new as u32))
    }

    /// A 32-bit number changed.
    #[must_use]
    #[inline(always)]
    pub const fn of32(old: u32, new: u32) -> Self {
        let halves = (!old >> 16) + (!old & 0xffff) + (new >> 16) + (new & 0xffff);
        Self((old != new) as u32 * halves)
    }

    /// A 128-bit number changed.
    #[must_use]
    #[inline(always)]
    pub const fn of128(old: u128, new: u128) -> Self {
        if old == new {
            return Self::NONE;
        }
        Self(fold(words(!old) + words(new)) as u32)
    }

    /// The checksum after the change: RFC 1624, equation 3. A checksum over unchanged bytes stays
    /// as it is, even one that nobody computes so (`0xffff`).
    #[must_use]
    #[inline(always)]
    pub const fn apply(self, checksum: u16) -> u16 {
        match self.0 {
            0 => checksum,
            _ => !Self(!checksum as u32 + self.0).folded(),
        }
    }

    #[inline(always)]
    const fn folded(self) -> u16 {
        let once = (self.0 >> 16) + (self.0 & 0xffff);
        ((once >> 16) + (once & 0xffff)) as u16
    }

    /// Like [`apply`](Self::apply) for UDP: an absent checksum stays absent, and a computed zero
    /// becomes `0xffff`.
    #[must_use]
    #[inline(always)]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 {
            return 0;
        }
        match self.apply(checksum) {
            0 => 0xffff,
            mended => mended,
        }
    }
}

/// A [`Delta`] that is kept to be applied to many packets: folded, and as a checksum lies in a
/// packet, so that applying it swaps no bytes. A sum of 16-bit words with the carry added at the
/// bottom is the same in either order of bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KeptDelta(u16);

impl KeptDelta {
    /// The change, to be kept.
    #[must_use]
    #[inline(always)]
    pub const fn of(delta: Delta) -> Self {
        Self(delta.folded().to_be())
    }

    /// As a number, in the machine's order of bytes.
    #[must_use]
    #[inline(always)]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The change that [`Self::bits`] gave.
    #[must_use]
    #[inline(always)]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Mends a checksum where it lies, as [`Delta::apply`] does.
    #[inline(always)]
    pub const fn mend(self, checksum: &mut [u8; 2]) {
        let sum = !u16::from_ne_bytes(*checksum) as u32 + self.0 as u32;
        // Both are at most 0xffff, so that folding once is enough.
        let folded = (sum >> 16) + (sum & 0xffff);
        *checksum = (!(folded as u16)).to_ne_bytes();
    }

    /// Mends a checksum where it lies, as [`Delta::apply_udp`] does.
    #[inline(always)]
    pub const fn mend_udp(self, checksum: &mut [u8; 2]) {
        if let [0, 0] = checksum {
            return;
        }
        self.mend(checksum);
        if let [0, 0] = checksum {
            *checksum = [0xff; 2];
        }
    }
}

impl Add for Delta {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Delta {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

const fn words(number: u128) -> u64 {
    let (high, low) = ((number >> 64) as u64, number as u64);
    (high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 §4.1, word by word.
    fn slow_fold(bytes: &[u8]) -> u16 {
        let mut total: u32 = 0;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)), 0xddf2);
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        // §4: one's complement of 0xcd7a and a change from 0x5555 to 0x3285 give zero.
        assert_eq!(Delta::of16(0x5555, 0x3285).apply(0xdd2f), 0x0000);
    }

    #[test]
    fn udp_zero_means_absent() {
        assert_eq!(finish_udp(0xffff), 0xffff);
        assert_eq!(Delta::of16(1, 2).apply_udp(0), 0);
        assert_eq!(Delta::of16(0x5555, 0x3285).apply_udp(0xdd2f), 0xffff);
    }

    #[test]
    fn nothing_changed_keeps_any_checksum() {
        for checksum in [0, 1, 0xfffe, 0xffff] {
            assert_eq!(Delta::of16(7, 7).apply(checksum), checksum);
            assert_eq!(Delta::of32(7, 7).apply(checksum), checksum);
            assert_eq!(Delta::of128(7, 7).apply(checksum), checksum);
        }
    }

    #[test]
    fn largest_sums_fold() {
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(fold(0xffff_fffe_0001), 0xffff);
        assert_eq!(fold(0), 0);
        assert_eq!(fold(sum(&[0xff; 65_535])), 0xff00);
    }

    proptest! {
        #[test]
        fn sum_is_the_slow_sum(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(fold(sum(&bytes)), slow_fold(&bytes));
        }

        #[test]
        fn sums_of_even_parts_add_up(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0..100usize,
        ) {
            let cut = (cut * 2).min(bytes.len() / 2 * 2);
            let parts = sum(&bytes[..cut]) + sum(&bytes[cut..]);
            prop_assert_eq!(fold(parts), fold(sum(&bytes)));
        }

        #[test]
        fn adjusting_is_recomputing(
            mut bytes in proptest::collection::vec(any::<u8>(), 16..64),
            new in any::<[u8; 16]>(),
        ) {
            prop_assume!(bytes[16..].iter().any(|byte| *byte != 0));
            let old: [u8; 16] = bytes[..16].try_into().unwrap();
            let before = checksum(&bytes);
            let half = |octets: [u8; 16]| u16::from_be_bytes([octets[0], octets[1]]);
            let word = |octets: [u8; 16]| u32::from_be_bytes(octets[..4].try_into().unwrap());
            let all = u128::from_be_bytes;

            bytes[..2].copy_from_slice(&new[..2]);
            prop_assert_eq!(Delta::of16(half(old), half(new)).apply(before), checksum(&bytes));
            bytes[..4].copy_from_slice(&new[..4]);
            prop_assert_eq!(Delta::of32(word(old), word(new)).apply(before), checksum(&bytes));
            bytes[..16].copy_from_slice(&new);
            prop_assert_eq!(Delta::of128(all(old), all(new)).apply(before), checksum(&bytes));
        }

        #[test]
        fn kept_deltas_do_the_same(
            checksum in prop_oneof![Just(0u16), Just(0xffff), any::<u16>()],
            words in proptest::collection::vec((any::<u16>(), any::<u16>()), 0..6),
            is_turn in any::<bool>(),
        ) {
            // Turns: changes that are nothing but whose sum is not zero.
            let back = words.iter().map(|(old, new)| Delta::of16(*new, *old));
            let mut delta = words.iter().fold(Delta::NONE, |sum, (old, new)| sum + Delta::of16(*old, *new));
            if is_turn {
                back.for_each(|turn| delta += turn);
            }
            let kept = KeptDelta::from_bits(KeptDelta::of(delta).bits());
            let mut mended = checksum.to_be_bytes();
            kept.mend(&mut mended);
            prop_assert_eq!(u16::from_be_bytes(mended), delta.apply(checksum));
            let mut mended = checksum.to_be_bytes();
            kept.mend_udp(&mut mended);
            prop_assert_eq!(u16::from_be_bytes(mended), delta.apply_udp(checksum));
        }

        #[test]
        fn deltas_add_up(
            checksum in 0..0xffffu16,
            a in any::<(u16, u16)>(),
            b in any::<(u128, u128)>(),
        ) {
            let (first, second) = (Delta::of16(a.0, a.1), Delta::of128(b.0, b.1));
            let at_once = (first + second).apply(checksum);
            prop_assert_eq!(at_once, second.apply(first.apply(checksum)));
        }
    }
}
