//! The first bits of an address: a flat table, and the short prefixes that fill it.

use std::collections::BTreeMap;

use twinpath_core::memory::ZeroedArray;

/// What the flat table says of the addresses that begin with some bits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct FlatEntry {
    /// The next hop of the longest short prefix that covers them.
    pub next_hop: Option<u32>,
    /// The node for the bits that follow, or 0.
    pub node: u32,
}

/// Length plus one of the prefix that an entry's next hop is from, above the node's number.
const LENGTH_SHIFT: u32 = 27;
/// More nodes than this cannot be told apart.
pub(super) const MAX_NODES: usize = 1 << LENGTH_SHIFT;

/// A flat table over the first `bits` bits, each entry a next hop and (length, node).
pub(super) struct Flat {
    entries: ZeroedArray<[u32; 2]>,
    /// The short prefixes themselves, by length and bits.
    short: BTreeMap<(u32, u32), u32>,
    /// A bit for each short prefix, numbered as in a heap: whether there is anything longer
    /// below it.
    below: ZeroedArray<u64>,
    bits: u32,
}

impl Flat {
    /// An empty table over at most 30 bits.
    pub fn new(bits: u32) -> Self {
        Self {
            entries: ZeroedArray::new(1 << bits),
            short: BTreeMap::new(),
            below: ZeroedArray::new(1 << bits.saturating_sub(6)),
            bits,
        }
    }

    #[inline(always)]
    pub fn entry(&self, index: usize) -> FlatEntry {
        let [next_hop, link] = self.entries[index];
        FlatEntry {
            next_hop: (link >> LENGTH_SHIFT != 0).then_some(next_hop),
            node: link & (MAX_NODES as u32 - 1),
        }
    }

    /// Sets the node of an entry.
    pub fn set_node(&mut self, index: usize, node: u32) {
        let link = &mut self.entries[index][1];
        *link = *link & !(MAX_NODES as u32 - 1) | node;
        self.update_below(self.bits, index as u32);
    }

    pub fn get(&self, length: u32, prefix: u32) -> Option<u32> {
        self.short.get(&(length, prefix)).copied()
    }

    /// Sets the next hop of a short prefix, given by its `length` bits as a number.
    pub fn insert(&mut self, length: u32, prefix: u32, next_hop: u32) -> Option<u32> {
        let before = self.short.insert((length, prefix), next_hop);
        self.fill(
            length,
            prefix,
            length + 1,
            |old| old <= length + 1,
            next_hop,
        );
        self.update_below(length, prefix);
        before
    }

    /// Removes a short prefix.
    pub fn remove(&mut self, length: u32, prefix: u32) -> Option<u32> {
        let before = self.short.remove(&(length, prefix))?;
        let covering = (0..length).rev().find_map(|shorter| {
            let next_hop = self.get(shorter, prefix >> (length - shorter))?;
            Some((shorter + 1, next_hop))
        });
        let (mark, next_hop) = covering.unwrap_or((0, 0));
        self.fill(length, prefix, mark, |old| old == length + 1, next_hop);
        self.update_below(length, prefix);
        Some(before)
    }

    /// Gives the entries that a prefix covers a next hop and a mark (its length plus one), if
    /// their present mark is one to `replace`.
    fn fill(
        &mut self,
        length: u32,
        prefix: u32,
        mark: u32,
        replace: impl Fn(u32) -> bool,
        next_hop: u32,
    ) {
        let size = 1 << (self.bits - length);
        let first = prefix as usize * size;
        for [hop, link] in &mut self.entries[first..first + size] {
            if replace(*link >> LENGTH_SHIFT) {
                *hop = next_hop;
                *link = *link & (MAX_NODES as u32 - 1) | mark << LENGTH_SHIFT;
            }
        }
    }

    /// How many of the first bits decide the answer for addresses of an entry without a node.
    pub fn deciding_bits(&self, index: usize) -> u32 {
        let anything_below = |&length: &u32| {
            let heap = 1 << length | index >> (self.bits - length);
            self.below[heap / 64] >> (heap % 64) & 1 != 0
        };
        // Everything that covers something has it below, too.
        (0..self.bits).take_while(anything_below).count() as u32
    }

    /// Corrects the bits of everything that covers a prefix which came or went.
    fn update_below(&mut self, length: u32, prefix: u32) {
        let mut heap = 1usize << length | prefix as usize;
        while heap > 1 {
            heap /= 2;
            let anything = self.is_used(2 * heap) || self.is_used(2 * heap + 1);
            let bit = 1 << (heap % 64);
            let word = &mut self.below[heap / 64];
            if (*word & bit != 0) == anything {
                return;
            }
            *word ^= bit;
        }
    }

    /// Whether there is a prefix, a node or anything below at a place of the heap.
    fn is_used(&self, heap: usize) -> bool {
        let length = heap.ilog2();
        let prefix = heap - (1 << length);
        if self.short.contains_key(&(length, prefix as u32)) {
            return true;
        }
        match length == self.bits {
            true => self.entry(prefix).node != 0,
            false => self.below[heap / 64] >> (heap % 64) & 1 != 0,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        // A node of the map holds up to eleven entries and is two thirds full on average.
        self.entries.len() * 8 + self.below.len() * 8 + self.short.len() * 18
    }
}
