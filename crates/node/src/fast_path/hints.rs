//! Where the elements of a chain have found a flow's packets before.
//!
//! In a chain of several elements each finds a flow in tables of its own, under a key that depends
//! on what those before have rewritten. So that all of a packet's reads of memory can be under way
//! before it walks, the places where an earlier packet of its flow was found are kept here, by the
//! headers with which packets arrive. They are hints: an element looks whether what lies there is
//! the packet's, and searches if not. A hint that is lost or wrong costs time alone.

use twinpath_core::memory::{CacheLine, ZeroedArray, prefetch};
use twinpath_fastpath::state_table::{NO_SLOT, SlotId};

/// Elements of a chain that hints are kept for.
const HINTED: usize = 4;

/// Hints in a cache line.
const WAYS: usize = 4;

/// By element, where it found a flow; 0 where that is not known.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints([u32; HINTED]);

impl Hints {
    /// Of the first element alone.
    #[inline(always)]
    pub const fn of_first(place: u32) -> Self {
        Self([place, 0, 0, 0])
    }

    /// That of an element.
    #[inline(always)]
    pub fn at(&self, element: u8) -> u32 {
        self.0.get(usize::from(element)).copied().unwrap_or(0)
    }

    /// Sets that of an element.
    #[inline(always)]
    pub fn set(&mut self, element: u8, place: u32) {
        if let Some(hint) = self.0.get_mut(usize::from(element)) {
            *hint = place;
        }
    }

    /// Those of all elements.
    #[inline(always)]
    pub fn each(&self) -> impl Iterator<Item = u32> {
        self.0.into_iter()
    }

    /// As two words of a line: 24 bits of a tag, and 26 of each hint.
    #[inline(always)]
    const fn words(self, tag: u32) -> [u64; 2] {
        let [one, two, three, four] = self.0;
        let (one, two, three, four) = (packed(one), packed(two), packed(three), packed(four));
        [
            (tag as u64) << TAG_SHIFT | one << 14 | two >> 12,
            two << 52 | three << 26 | four,
        ]
    }

    #[inline(always)]
    const fn of_words(one: u64, other: u64) -> Self {
        Self([
            unpacked(one >> 14),
            unpacked(one << 12 | other >> 52),
            unpacked(other >> 26),
            unpacked(other),
        ])
    }
}

/// Where a line has a way's tag, in the first of its words.
const TAG_SHIFT: u32 = 40;

/// The lower bits of a hint, of which its upmost is another: which table it is of.
const PLACE: u32 = (1 << 25) - 1;

/// A hint in 26 bits; nothing if it does not fit, which takes a table of 33 million places.
#[inline(always)]
const fn packed(hint: u32) -> u64 {
    match hint & !PLACE & (u32::MAX >> 1) {
        0 => (hint & PLACE | (hint >> 31) << 25) as u64,
        _ => 0,
    }
}

#[inline(always)]
const fn unpacked(bits: u64) -> u32 {
    bits as u32 & PLACE | (bits as u32 >> 25 & 1) << 31
}

/// A slot as a hint.
#[inline(always)]
pub(super) const fn of_slot(slot: SlotId) -> u32 {
    slot.wrapping_add(1)
}

/// The slot of a hint.
#[inline(always)]
pub(super) const fn slot_of(hint: u32) -> SlotId {
    const { assert!(NO_SLOT == SlotId::MAX) };
    hint.wrapping_sub(1)
}

/// Hints by hash: four in a cache line, each with a tag that is not zero.
pub struct HintTable {
    lines: ZeroedArray<CacheLine>,
}

impl HintTable {
    /// A table for about so many flows.
    pub fn new(flows: usize) -> Self {
        // Half full, lines that turn a flow out are few.
        let lines = (2 * flows).div_ceil(WAYS).clamp(1, u32::MAX as usize);
        Self {
            lines: ZeroedArray::new(lines),
        }
    }

    /// Takes the memory now.
    pub fn touch(&mut self) {
        self.lines.touch();
    }

    /// What is known of a flow is on its way.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        if let Some(line) = self.lines.get(self.line(hash)) {
            prefetch(line);
        }
    }

    /// What is known of a flow.
    #[inline(always)]
    pub fn get(&self, hash: u64) -> Option<Hints> {
        let CacheLine(words) = self.lines.get(self.line(hash))?;
        let tag = tag(hash);
        let way = (0..WAYS).find(|way| words[2 * way] >> TAG_SHIFT == u64::from(tag))?;
        Some(Hints::of_words(words[2 * way], words[2 * way + 1]))
    }

    /// Keeps what is known of a flow, in the place of what was, of another's if there is no room.
    #[inline(never)]
    pub fn put(&mut self, hash: u64, hints: Hints) {
        let place = self.line(hash);
        let Some(CacheLine(words)) = self.lines.get_mut(place) else {
            return;
        };
        let tag = tag(hash);
        let with = |tag: u32| (0..WAYS).find(|way| words[2 * way] >> TAG_SHIFT == u64::from(tag));
        let way = with(tag)
            .or_else(|| with(0))
            .unwrap_or(tag as usize >> 1 & (WAYS - 1));
        [words[2 * way], words[2 * way + 1]] = hints.words(tag);
    }

    #[inline(always)]
    fn line(&self, hash: u64) -> usize {
        ((hash as u32 as u64 * self.lines.len() as u64) >> 32) as usize
    }
}

/// Never zero, which is that of a free place.
#[inline(always)]
const fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32 & 0xff_ffff | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// What is found is what was put last; most is found while no more is put than fits.
        #[test]
        fn finds_what_was_put(flows in prop::collection::vec((any::<u32>(), any::<[u32; 4]>()), 1..200)) {
            let mut table = HintTable::new(200);
            let mut last = HashMap::new();
            // Each with a tag of its own.
            let flows: Vec<_> = (0u64..).zip(flows)
                .map(|(number, (line, hints))| {
                    (number << 33 | u64::from(line), hints.map(|hint| hint & (1 << 31 | PLACE)))
                })
                .collect();
            for (hash, hints) in &flows {
                table.prefetch(*hash);
                table.put(*hash, Hints(*hints));
                last.insert(*hash, Hints(*hints));
                prop_assert_eq!(table.get(*hash), Some(Hints(*hints)));
            }
            let found = last.iter().filter(|(hash, _)| table.get(**hash).is_some());
            prop_assert!(found.clone().count() * 10 >= last.len() * 9);
            for (hash, hints) in found {
                prop_assert_eq!(table.get(*hash), Some(*hints));
            }
        }
    }

    #[test]
    fn each_element_has_its_hint() {
        let mut hints = Hints::of_first(7);
        hints.set(2, 9);
        hints.set(3, 1 << 31 | PLACE);
        hints.set(4, 11);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|element| hints.at(element)),
            [7, 0, 9, 1 << 31 | PLACE, 0]
        );
        hints.set(1, PLACE + 1);
        let [one, other] = hints.words(1);
        hints.set(1, 0);
        assert_eq!(
            Hints::of_words(one, other),
            hints,
            "what does not fit is not known"
        );
        assert_eq!(HintTable::new(4).get(5), None);
    }
}
