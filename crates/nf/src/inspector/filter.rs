//! A quick look at a window that rules out most of them.
//!
//! A literal cannot begin in a window unless one of its first few *grams*, of
//! up to four bytes, stands at a sampled place: with grams taken at the first
//! `stride` offsets of each literal, looking at every `stride`-th place is
//! enough. The last place is a sampled one, so this holds for a literal that
//! the window cuts off, too. The looks do not depend on each other, which an
//! automaton's steps do.
//!
//! Bit 5 of each byte is ignored, so one gram serves both cases of a letter.

use twinpath_core::program::WINDOW_BYTES;

/// log2 of the number of bits in the first table.
const BITS: u32 = 17;
const WORDS: usize = 1 << (BITS - 6);
/// Grams are loaded as four bytes, and cut down to `gram_mask` if need be.
pub(super) const GRAM_BYTES: usize = 4;
const MAX_STRIDE: usize = 4;
const FOLD: u32 = 0x2020_2020;

// With the last gram's place sampled, none near the end need a look of its own.
const _: () = assert!((WINDOW_BYTES - GRAM_BYTES).is_multiple_of(MAX_STRIDE));

/// A set of grams.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    /// A bit for each hash of a gram.
    bits: Box<[u64; WORDS]>,
    /// The grams, hashed with open addressing; 0 is no gram, since folding
    /// sets a bit in every one. A power of two long, at most half full.
    grams: Box<[u32]>,
    gram_mask: u32,
    gram_bytes: usize,
    stride: usize,
}

impl Filter {
    /// Every literal must have a byte.
    pub(super) fn new<'r>(literals: impl Iterator<Item = &'r [u8]> + Clone) -> Self {
        let shortest = literals
            .clone()
            .map(<[u8]>::len)
            .min()
            .unwrap_or(GRAM_BYTES);
        let gram_bytes = shortest.min(GRAM_BYTES);
        let stride = match shortest - gram_bytes {
            0 => 1,
            1 | 2 => 2,
            _ => MAX_STRIDE,
        };
        let gram_mask = u32::MAX >> (8 * (GRAM_BYTES - gram_bytes));
        let count = literals.clone().count() * stride;
        let mut filter = Self {
            bits: Box::new([0; WORDS]),
            grams: vec![0; (2 * count).next_power_of_two()].into(),
            gram_mask,
            gram_bytes,
            stride,
        };
        for gram in literals.flat_map(|literal| literal.windows(gram_bytes).take(stride)) {
            filter.insert(padded(gram));
        }
        filter
    }

    fn insert(&mut self, gram: u32) {
        let gram = self.folded(gram);
        let bit = bit_of(gram);
        self.bits[bit / 64] |= 1 << (bit % 64);
        self.grams[self.slot_of(gram)] = gram;
    }

    /// A place in `window` before which no literal begins, whole or cut off
    /// at the end with [`GRAM_BYTES`] or more of its bytes; none if no
    /// literal begins anywhere.
    #[inline]
    pub(super) fn first_place(&self, window: &[u8]) -> Option<usize> {
        let Ok(full) = <&[u8; WINDOW_BYTES]>::try_from(window) else {
            return self.first_anywhere(window);
        };
        let hit = match (self.gram_bytes, self.stride) {
            (GRAM_BYTES, MAX_STRIDE) => self.first_sampled::<MAX_STRIDE>(full),
            (GRAM_BYTES, 2) => self.first_sampled::<2>(full),
            (GRAM_BYTES, _) => self.first_sampled::<1>(full),
            _ => return self.first_anywhere(window),
        };
        hit.map(|place| place.saturating_sub(self.stride - 1))
    }

    /// A plain loop over a fixed length, which the compiler unrolls.
    #[inline]
    fn first_sampled<const STRIDE: usize>(&self, window: &[u8; WINDOW_BYTES]) -> Option<usize> {
        let mut place = 0;
        while place <= WINDOW_BYTES - GRAM_BYTES {
            if self.contains(gram_at(window, place)) {
                return Some(place);
            }
            place += STRIDE;
        }
        None
    }

    /// Looks at every place; for windows that are not full, and for literals
    /// so short that nothing can be skipped.
    fn first_anywhere(&self, window: &[u8]) -> Option<usize> {
        window
            .windows(self.gram_bytes)
            .position(|gram| self.contains(padded(gram)))
    }

    #[inline]
    fn contains(&self, gram: u32) -> bool {
        let gram = self.folded(gram);
        let bit = bit_of(gram);
        self.bits[bit / 64] >> (bit % 64) & 1 != 0 && self.is_gram(gram)
    }

    #[inline(never)]
    fn is_gram(&self, gram: u32) -> bool {
        self.grams[self.slot_of(gram)] == gram
    }

    #[inline]
    fn folded(&self, gram: u32) -> u32 {
        (gram | FOLD) & self.gram_mask
    }

    /// Where a gram stands, or would stand.
    fn slot_of(&self, gram: u32) -> usize {
        let mask = self.grams.len() - 1;
        let mut slot = gram.wrapping_mul(0x85eb_ca6b) as usize >> 7 & mask;
        while self.grams[slot] != 0 && self.grams[slot] != gram {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

#[inline]
fn bit_of(gram: u32) -> usize {
    (gram.wrapping_mul(0x9e37_79b1) >> (32 - BITS)) as usize
}

/// The four bytes at a place.
#[inline]
fn gram_at(window: &[u8; WINDOW_BYTES], place: usize) -> u32 {
    u32::from_le_bytes([
        window[place],
        window[place + 1],
        window[place + 2],
        window[place + 3],
    ])
}

/// Up to four bytes as a number, with zeros behind.
#[inline]
fn padded(bytes: &[u8]) -> u32 {
    match *bytes {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]),
        [a, b] => u32::from_le_bytes([a, b, 0, 0]),
        [a] => u32::from_le_bytes([a, 0, 0, 0]),
        _ => 0,
    }
}
