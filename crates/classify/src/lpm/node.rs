//! Five bits of an address: which prefixes end in them, and which lead on.

/// Bits of an address that a node covers.
pub(super) const STRIDE: u32 = 5;

/// A node as it lies in memory: half a cache line.
pub(super) type NodeWords = [u64; 4];

/// A place within a node: a prefix of 0 to 5 bits. Numbered 1 for none, 2 and 3 for one bit, and
/// so on up to 63, as in a binary heap.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct PrefixNumber(pub u32);

impl PrefixNumber {
    /// The place of the last `length` of the bits before `end` of an address's five.
    pub const fn new(bits: usize, length: u32) -> Self {
        Self(1 << length | bits as u32)
    }

    const fn bit(self) -> u64 {
        1 << self.0
    }
}

/// For each value of the five bits, the places that cover it, save the one of no bits.
const COVERING: [u64; 32] = {
    let mut covering = [0; 32];
    let mut value = 0;
    while value < 32 {
        let mut place = 32 | value as u64;
        while place > 1 {
            covering[value] |= 1 << place;
            place >>= 1;
        }
        value += 1;
    }
    covering
};

/// For each place, the longer ones that it covers.
const BELOW: [u64; 64] = {
    let mut below = [0; 64];
    let mut place = 31;
    while place > 0 {
        let (left, right) = (2 * place, 2 * place + 1);
        below[place] = below[left] | below[right] | 1 << left | 1 << right;
        place -= 1;
    }
    below
};

/// Word 0: the places at which a prefix ends. Word 1: the values which lead on (low half) and the
/// first child (high half). Word 2: the first next hop.
#[derive(Copy, Clone, Debug)]
pub(super) struct Node {
    pub prefixes: u64,
    pub values: u32,
    pub children: u32,
    pub results: u32,
}

/// How many bits are set before this one.
#[inline(always)]
pub(super) const fn rank(bits: u64, bit: u32) -> u32 {
    (bits & ((1 << bit) - 1)).count_ones()
}

impl Node {
    pub const EMPTY: Self = Self {
        prefixes: 0,
        values: 0,
        children: 0,
        results: 0,
    };

    #[inline(always)]
    pub const fn read(words: &NodeWords) -> Self {
        Self {
            prefixes: words[0],
            values: words[1] as u32,
            children: (words[1] >> 32) as u32,
            results: words[2] as u32,
        }
    }

    pub const fn write(self) -> NodeWords {
        let links = (self.children as u64) << 32 | self.values as u64;
        [self.prefixes, links, self.results as u64, 0]
    }

    pub const fn is_empty(&self) -> bool {
        self.prefixes == 0 && self.values == 0
    }

    /// The places at which prefixes end that cover the value; the last is the longest.
    #[inline(always)]
    pub const fn covering(&self, value: usize) -> u64 {
        self.prefixes & COVERING[value & 31]
    }

    /// Whether a prefix ends at a place.
    pub const fn ends_at(&self, place: PrefixNumber) -> bool {
        self.prefixes & place.bit() != 0
    }

    /// Where the next hop of a place is, or would be, kept.
    #[inline(always)]
    pub const fn result(&self, place: PrefixNumber) -> u32 {
        self.results + rank(self.prefixes, place.0)
    }

    /// The child for a value, if it leads on.
    #[inline(always)]
    pub const fn child(&self, value: usize) -> Option<u32> {
        if self.values >> (value & 31) & 1 == 0 {
            None
        } else {
            Some(self.child_place(value))
        }
    }

    /// Where the child for a value is, or would be, kept.
    #[inline(always)]
    pub const fn child_place(&self, value: usize) -> u32 {
        let before = self.values & ((1 << (value & 31)) - 1);
        self.children + before.count_ones()
    }

    pub const fn prefix_count(&self) -> usize {
        self.prefixes.count_ones() as usize
    }

    pub const fn child_count(&self) -> usize {
        self.values.count_ones() as usize
    }

    /// How many of the five bits of a value that does not lead on decide the answer: the fewest
    /// such that no prefix ends below them and nothing leads on.
    pub fn deciding_bits(&self, value: usize) -> u32 {
        let decides = |length: u32| {
            let place = PrefixNumber::new(value >> (STRIDE - length), length);
            let below = BELOW[place.0 as usize];
            // A value is the place of five bits; below a shorter one they are in the upper half.
            let values = (below | place.bit()) >> 32;
            self.prefixes & below == 0 && u64::from(self.values) & values == 0
        };
        (0..STRIDE)
            .find(|&length| decides(length))
            .unwrap_or(STRIDE)
    }

    pub const fn with_prefix(mut self, place: PrefixNumber) -> Self {
        self.prefixes |= place.bit();
        self
    }

    pub const fn without_prefix(mut self, place: PrefixNumber) -> Self {
        self.prefixes &= !place.bit();
        self
    }

    pub const fn with_value(mut self, value: usize) -> Self {
        self.values |= 1 << (value & 31);
        self
    }

    pub const fn without_value(mut self, value: usize) -> Self {
        self.values &= !(1 << (value & 31));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_a_heap() {
        assert_eq!(PrefixNumber::new(0b10110, 5), PrefixNumber(54));
        assert_eq!(
            COVERING[0b10110],
            1 << 54 | 1 << 27 | 1 << 13 | 1 << 6 | 1 << 3
        );
        assert_eq!(BELOW[31], 1 << 62 | 1 << 63);
        assert_eq!(BELOW[1], u64::MAX << 2);
        assert_eq!(BELOW[54], 0);
    }

    #[test]
    fn a_node_reads_back_and_counts() {
        let node = Node {
            children: 100,
            results: 7,
            ..Node::EMPTY
        };
        let node = node
            .with_prefix(PrefixNumber(3))
            .with_prefix(PrefixNumber(54))
            .with_value(9)
            .with_value(31);
        let node = Node::read(&node.write());
        assert_eq!(node.covering(0b10110), 1 << 54 | 1 << 3);
        assert_eq!(node.covering(0b10111), 1 << 3);
        assert_eq!(node.covering(0), 0);
        assert_eq!(node.result(PrefixNumber(54)), 8);
        assert_eq!(
            (node.child(31), node.child(9), node.child(8)),
            (Some(101), Some(100), None)
        );
        assert!(
            node.without_prefix(PrefixNumber(3))
                .without_prefix(PrefixNumber(54))
                .without_value(9)
                .without_value(31)
                .is_empty()
        );
    }

    #[test]
    fn fewest_bits_decide() {
        let node = Node::EMPTY
            .with_prefix(PrefixNumber::new(0b10110, 5))
            .with_value(0);
        assert_eq!(node.deciding_bits(0b10110), 5);
        assert_eq!(node.deciding_bits(0b10101), 4);
        assert_eq!(node.deciding_bits(0b11000), 2);
        assert_eq!(node.deciding_bits(0b00001), 5);
        assert_eq!(node.deciding_bits(0b01000), 2);
    }
}
