//! The table of flow state: registers that packets insert into, update and delete from, without
//! a control plane (SwitchNIC §5.1).
//!
//! A slot lies whole in one cache line, or in several that are neighbours:
//!
//! | numbers of 32 bits | what |
//! |---|---|
//! | 0-3 | the key: of a connection over IPv4, or of an entry, all of it |
//! | 4 | which kind of key that is; 0 if none was ever here |
//! | 5-9 | the mechanism's control part |
//! | 10- | the state words, six in the first line |
//!
//! So a hit waits for one read of memory, or two where state is larger. Keys of other kinds, which
//! are rare, lie beside. A bucket's slots have 16-bit tags, which are compared at once to tell
//! which slot is worth fetching; they only save look-ups: a hit is always decided by the full key.
//!
//! One way per bucket is what a switch ASIC has. Several ways make collisions rare in software,
//! and a flow that finds its bucket full goes to a second choice: a table that is half full would
//! otherwise turn away one flow in 140, each of whose packets costs as much as ten hits.

mod line;

use crate::few_words::are_zero;
use line::{Line, ShortKey};
use twinpath_core::FlowKey;
use twinpath_core::key::V4Key;
use twinpath_core::memory::{ZeroedArray, bring, equal_tags, prefetch};

pub use line::{Control, Held};

/// Most ways that a bucket may have.
pub const MAX_WAYS: usize = 8;

/// A slot's number.
pub type SlotId = u32;

/// No slot: what [`Finder::prefetch_slot`] hints at when no tag fits.
pub const NO_SLOT: SlotId = SlotId::MAX;

/// A fixed number of slots in set-associative buckets.
pub struct StateTable {
    /// Of each bucket the tags of all ways, the first in the lowest bits.
    tags: ZeroedArray<u128>,
    /// Of each slot as many as `stride`.
    lines: ZeroedArray<Line>,
    /// By slot: its key, if it is none of those that lie in the slot.
    whole_keys: ZeroedArray<[u64; 5]>,
    /// Whether there was ever such a key.
    has_whole_keys: bool,
    buckets: u64,
    way_bits: u32,
    stride: usize,
    word_count: usize,
}

impl StateTable {
    /// A table of at least `slots` slots in buckets of `ways` (1 to [`MAX_WAYS`], a power of
    /// two), with `words` state words each. All slots start zeroed.
    pub fn new(slots: usize, ways: usize, words: usize) -> Self {
        let ways = ways.clamp(1, MAX_WAYS).next_power_of_two();
        let buckets = slots.div_ceil(ways).max(1);
        let slots = buckets * ways;
        let stride = line::lines_for(words);
        Self {
            tags: ZeroedArray::new(buckets),
            lines: ZeroedArray::new(slots * stride),
            whole_keys: ZeroedArray::new(slots),
            has_whole_keys: false,
            buckets: buckets as u64,
            way_bits: ways.trailing_zeros(),
            stride,
            word_count: words,
        }
    }

    /// Takes the memory of all slots now, before packets could wait for it (see
    /// [`ZeroedArray::touch`](twinpath_core::memory::ZeroedArray::touch)).
    pub fn touch(&mut self) {
        self.tags.touch();
        self.lines.touch();
        self.whole_keys.touch();
    }

    /// Number of slots.
    #[inline]
    pub fn slots(&self) -> usize {
        self.whole_keys.len()
    }

    /// Slots per bucket.
    pub fn ways(&self) -> usize {
        1 << self.way_bits
    }

    /// State words per slot.
    pub fn word_count(&self) -> usize {
        self.word_count
    }

    /// Memory that the table takes when full, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.tags) + size_of_val(&*self.lines) + size_of_val(&*self.whole_keys)
    }

    /// The buckets that may hold a flow with this hash, the one of first choice first. With one
    /// way there is no other.
    #[inline]
    fn choices(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let others = usize::from(self.way_bits > 0);
        let second = bucket(hash >> 16, self.buckets);
        std::iter::once(bucket(hash, self.buckets)).chain(std::iter::repeat_n(second, others))
    }

    /// What a batch of look-ups needs.
    #[inline(always)]
    pub fn finder(&self) -> Finder<'_> {
        Finder {
            tags: &self.tags,
            lines: &self.lines,
            whole_keys: match self.has_whole_keys {
                true => &self.whole_keys,
                false => &[],
            },
            buckets: self.buckets,
            way_bits: self.way_bits,
            stride: self.stride,
        }
    }

    /// Slots of a bucket whose tag fits, and perhaps others: the key decides.
    #[inline(always)]
    fn candidates(&self, bucket: usize, hash: u64) -> impl Iterator<Item = usize> + '_ {
        let ways = Ways::with_tag(self.tags[bucket], tag(hash));
        ways.map(move |way| bucket << self.way_bits | way)
    }

    /// The slot that holds this key, or held it last.
    #[inline]
    pub fn find(&self, key: &FlowKey, hash: u64) -> Option<SlotId> {
        let short = ShortKey::of(key);
        self.choices(hash)
            .flat_map(|bucket| self.candidates(bucket, hash))
            .find(|&slot| self.holds(slot, key, short))
            .map(|slot| slot as SlotId)
    }

    /// [`Self::find`], quicker where `hint` is the slot.
    #[inline(always)]
    pub fn find_near(&self, hint: SlotId, key: &FlowKey, hash: u64) -> Option<SlotId> {
        if self.contains(hint) && self.holds(hint as usize, key, ShortKey::of(key)) {
            return Some(hint);
        }
        self.find(key, hash)
    }

    #[inline(always)]
    fn holds(&self, slot: usize, key: &FlowKey, short: Option<ShortKey>) -> bool {
        let line = self.line(slot);
        match short {
            Some(short) => line::holds(line, short),
            None => line::holds_whole(line) && self.whole_key(slot) == *key,
        }
    }

    #[inline(always)]
    fn whole_key(&self, slot: usize) -> FlowKey {
        FlowKey(self.whole_keys[slot])
    }

    /// A slot's first line.
    #[inline(always)]
    fn line(&self, slot: usize) -> &Line {
        &self.lines[slot * self.stride]
    }

    #[inline(always)]
    fn line_mut(&mut self, slot: SlotId) -> &mut Line {
        &mut self.lines[slot as usize * self.stride]
    }

    /// The first slot of the hash's buckets for which `is_free` holds.
    pub fn vacant(&self, hash: u64, mut is_free: impl FnMut(&Control) -> bool) -> Option<SlotId> {
        self.choices(hash)
            .flat_map(|bucket| bucket << self.way_bits..(bucket + 1) << self.way_bits)
            .find(|&slot| is_free(&self.control(slot as SlotId)))
            .map(|slot| slot as SlotId)
    }

    /// Makes a slot hold a key. What it held before is gone.
    pub fn assign(&mut self, slot: SlotId, key: &FlowKey, hash: u64) {
        let (bucket, way) = (
            slot as usize >> self.way_bits,
            slot as usize & (self.ways() - 1),
        );
        let tags = &mut self.tags[bucket];
        *tags = *tags & !(0xffff << (16 * way)) | u128::from(tag(hash)) << (16 * way);
        let short = ShortKey::of(key);
        line::set_key(self.line_mut(slot), short);
        if short.is_none() {
            self.whole_keys[slot as usize] = key.0;
            self.has_whole_keys = true;
        }
    }

    /// The key that a slot holds, or held last; of zeros if it never held any.
    #[inline]
    pub fn key(&self, slot: SlotId) -> FlowKey {
        match line::key(self.line(slot as usize)) {
            Some(key) => key,
            None => self.whole_key(slot as usize),
        }
    }

    /// The mechanism's part.
    #[inline(always)]
    pub fn control(&self, slot: SlotId) -> Control {
        line::control(self.line(slot as usize))
    }

    /// Sets the mechanism's part.
    #[inline(always)]
    pub fn set_control(&mut self, slot: SlotId, control: Control) {
        line::set_control(self.line_mut(slot), control);
    }

    /// The mechanism's part and the flow's state words, to change.
    #[inline(always)]
    pub fn parts_mut(&mut self, slot: SlotId) -> Held<'_> {
        let start = slot as usize * self.stride;
        let numbers = self.lines[start..start + self.stride].as_flattened_mut();
        Held::of(numbers, self.word_count).expect("as many lines as its words take")
    }

    /// [`Self::parts_mut`] of a slot that is there and holds this key.
    #[inline(always)]
    pub fn held(&mut self, slot: SlotId, key: &FlowKey) -> Option<Held<'_>> {
        let holds = self.contains(slot) && self.holds(slot as usize, key, ShortKey::of(key));
        holds.then(|| self.parts_mut(slot))
    }

    /// [`Self::held`] for a connection over IPv4, if any of its words is not zero.
    #[inline(always)]
    pub fn known(&mut self, slot: SlotId, key: V4Key) -> Option<Held<'_>> {
        let numbers = match self.stride {
            1 => self.lines.get_mut(slot as usize)?.as_mut_slice(),
            stride => {
                let start = slot as usize * stride;
                self.lines
                    .get_mut(start..start + stride)?
                    .as_flattened_mut()
            }
        };
        if !line::holds(numbers.first_chunk()?, ShortKey::v4(key)) {
            return None;
        }
        let held = Held::of(numbers, self.word_count)?;
        match are_zero(held.words) {
            true => None,
            false => Some(held),
        }
    }

    /// The flow's state words.
    #[inline(always)]
    pub fn words(&self, slot: SlotId) -> &[u32] {
        let start = slot as usize * self.stride;
        let numbers = self.lines[start..start + self.stride].as_flattened();
        &numbers[line::FIRST_WORD..line::FIRST_WORD + self.word_count]
    }

    /// The flow's state words, to change.
    #[inline(always)]
    pub fn words_mut(&mut self, slot: SlotId) -> &mut [u32] {
        self.parts_mut(slot).words
    }

    /// Whether a slot number from outside (the link) is one of ours.
    pub fn contains(&self, slot: SlotId) -> bool {
        (slot as usize) < self.slots()
    }
}

/// A table as look-ups of a whole batch see it.
#[derive(Copy, Clone)]
pub struct Finder<'a> {
    tags: &'a [u128],
    lines: &'a [Line],
    /// None, if no slot ever had one.
    whole_keys: &'a [[u64; 5]],
    buckets: u64,
    way_bits: u32,
    stride: usize,
}

impl Finder<'_> {
    /// Phase one of a batch: fetch the tags.
    #[inline(always)]
    pub fn prefetch_tags(&self, hash: u64) {
        if let Some(tags) = self.tags.get(bucket(hash, self.buckets)) {
            prefetch(tags);
        }
    }

    /// Phase two: compare tags; fetch the slot that probably holds the flow, and return it, for
    /// [`StateTable::find_near`].
    #[inline(always)]
    pub fn prefetch_slot(&self, hash: u64) -> SlotId {
        let Some(slot) = self.first_candidate(hash) else {
            return NO_SLOT;
        };
        self.prefetch(slot as SlotId);
        slot as SlotId
    }

    /// Fetches a slot.
    #[inline(always)]
    pub fn prefetch(&self, slot: SlotId) {
        let slot = slot as usize;
        self.prefetch_line(slot * self.stride);
        if self.stride > 1 {
            self.prefetch_line(slot * self.stride + 1);
        }
        if let Some(key) = self.whole_keys.get(slot) {
            prefetch(key);
        }
    }

    /// Whether slots are likely to lie in memory, not in a cache near the processor.
    #[inline(always)]
    pub const fn is_large(&self) -> bool {
        self.lines.len() > LINES_IN_CACHE
    }

    /// Brings a slot that was fetched (see [`bring`](twinpath_core::memory::bring)).
    #[inline(always)]
    pub fn bring(&self, slot: SlotId) {
        if let Some(line) = self.lines.get(slot as usize * self.stride) {
            bring(line);
        }
    }

    #[inline(always)]
    fn prefetch_line(&self, number: usize) {
        if let Some(line) = self.lines.get(number) {
            prefetch(line);
        }
    }

    /// The first of the candidates in the bucket of first choice.
    #[inline(always)]
    fn first_candidate(&self, hash: u64) -> Option<usize> {
        let bucket = bucket(hash, self.buckets);
        let way = Ways::with_tag(*self.tags.get(bucket)?, tag(hash)).next()?;
        Some(bucket << self.way_bits | way)
    }
}

/// What half a MiB holds: caches of the second level are that large at least.
const LINES_IN_CACHE: usize = (512 << 10) / 64;

/// The bucket that a hash falls into first.
#[inline(always)]
const fn bucket(hash: u64, buckets: u64) -> usize {
    ((hash as u32 as u64 * buckets) >> 32) as usize
}

/// Never zero, so that a slot that was never used matches nothing.
#[inline(always)]
const fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

/// Ways of a bucket, two bits each, of which the lower counts.
struct Ways(u32);

impl Ways {
    /// Those with this tag.
    #[inline(always)]
    fn with_tag(tags: u128, tag: u16) -> Self {
        Self(equal_tags(tags, tag))
    }
}

impl Iterator for Ways {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let way = self.0.trailing_zeros() / 2;
        self.0 &= !(3 << (2 * way));
        Some(way as usize)
    }
}

#[cfg(test)]
mod tests;
