//! Masked match: rules of a mask and a value over a packet's match key.
//!
//! A [`MatchKey`] is what a packet shows to the rules: an array of 64-bit words into which the
//! owner lays the fields, always the same way. A rule matches a key that equals its value in the
//! bits of its mask. Rules with the same mask form a *subtable*; looking up means to mask the key
//! as each subtable does and to look for it by its hash (tuple space search).
//!
//! # Any match is the right one
//! There are no priorities. The rule cache makes rules such that two which overlap agree on what
//! happens to the packets that both match. So the first hit ends the search, whatever its
//! subtable, and the order of subtables is free: those with more hits move forward, one place at
//! a hit, so that frequent packets try few masks.
//!
//! # One store for all
//! The rules of all subtables lie in one open-addressing table of fixed size, in which the number
//! of the subtable is part of the key. Nothing ever grows or is rehashed, and the memory is known
//! beforehand; the price is that small subtables are spread over a large table. Buckets are runs
//! of seven 16-bit tags and a count of entries that went past it for want of room, eight numbers
//! that are compared at once. The count ends unsuccessful searches (nearly all of them) after one
//! bucket, and makes removal leave no traces.
//!
//! # Cost
//! A miss costs each subtable a hash and a bucket of tags, so that it is linear in the number of
//! distinct masks: keep those few (the bits that [`crate::acl`] and [`crate::lpm`] examine are
//! leading bits for this reason). Inserting and removing are one search, besides finding the mask
//! among the distinct ones.

mod hot;
mod store;
#[cfg(test)]
mod tests;

use thiserror::Error;

use hot::HotRules;
use store::Store;
use twinpath_core::HashKey;

/// Most distinct masks a table may be made for.
pub const MAX_MASKS: usize = 4096;
/// Most rules a table may be made for.
pub const MAX_RULES: usize = 1 << 26;

/// After so many hits all counts are halved, so that masks which were hot long ago give way.
const HITS_PER_AGE: u32 = 1 << 16;

/// Most subtables whose tags are fetched at the same time.
const AHEAD: usize = 8;

/// What a packet shows to rules, or one of their masks or values.
pub type MatchKey<const N: usize> = [u64; N];

/// How much a table may hold.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MaskedLimits {
    /// Rules, at most [`MAX_RULES`].
    pub rules: usize,
    /// Distinct masks, at most [`MAX_MASKS`].
    pub masks: usize,
}

/// Why a rule was not inserted.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There are as many rules as there may be.
    #[error("a table of {0} rules is full")]
    TooManyRules(usize),
    /// The rule's mask is new, and there are as many distinct masks as there may be.
    #[error("a table with {0} distinct masks takes no rule with another one")]
    TooManyMasks(usize),
    /// Too many others lie where the rule would.
    #[error("too many rules lie where this one would")]
    Crowded,
}

/// How often rules were refused, by reason.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// For want of room for rules.
    pub too_many_rules: u64,
    /// For want of room for masks.
    pub too_many_masks: u64,
    /// For want of room where they would lie.
    pub crowded: u64,
}

/// A rule that matched.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The id it was inserted with.
    pub id: u32,
    /// How many masks were tried, this one included; 0 if the rule is hot.
    pub masks_tried: u32,
}

/// Rules by mask and value.
pub struct MaskedTable<const N: usize> {
    /// In the order in which they are searched.
    subtables: Vec<Subtable<N>>,
    free_numbers: Vec<u32>,
    store: Store<N>,
    hot: HotRules<N>,
    limits: MaskedLimits,
    hash_key: HashKey,
    /// Hits since the counts were halved.
    hits: u32,
    refusals: Refusals,
}

#[derive(Copy, Clone, Debug)]
struct Subtable<const N: usize> {
    mask: MatchKey<N>,
    /// What its rules are stored under.
    number: u32,
    hits: u32,
    rules: u32,
}

impl<const N: usize> MaskedTable<N> {
    /// An empty table. The seed keeps outsiders from choosing packets whose hashes collide.
    #[must_use]
    pub fn new(limits: MaskedLimits, seed: u64) -> Self {
        let limits = MaskedLimits {
            rules: limits.rules.min(MAX_RULES),
            masks: limits.masks.min(MAX_MASKS),
        };
        Self {
            subtables: Vec::with_capacity(limits.masks),
            free_numbers: (0..limits.masks as u32).rev().collect(),
            store: Store::new(limits.rules),
            hot: HotRules::new(),
            limits,
            hash_key: HashKey::new(seed),
            hits: 0,
            refusals: Refusals::default(),
        }
    }

    /// The id of a rule that matches the key; the subtable it was found in gains a hit.
    #[inline]
    pub fn lookup(&mut self, key: &MatchKey<N>) -> Option<Hit> {
        if let Some(hit) = self.find_hot(key) {
            return Some(hit);
        }
        let hit = self.search(key)?;
        let place = hit.masks_tried as usize - 1;
        self.hot.found(key, &self.subtables[place].mask, hit.id);
        self.count_hit(place);
        Some(hit)
    }

    #[inline(always)]
    fn find_hot(&self, key: &MatchKey<N>) -> Option<Hit> {
        let id = self.hot.find(key)?;
        let masks_tried = 0;
        Some(Hit { id, masks_tried })
    }

    /// The same without counting.
    #[must_use]
    #[inline]
    pub fn find(&self, key: &MatchKey<N>) -> Option<Hit> {
        self.find_hot(key).or_else(|| self.search(key))
    }

    /// Tries one mask after the other.
    fn search(&self, key: &MatchKey<N>) -> Option<Hit> {
        // The first masks are likely to hit, so that little is fetched ahead for them.
        let mut place = 0;
        let mut ahead = 1;
        while place < self.subtables.len() {
            let group = &self.subtables[place..self.subtables.len().min(place + ahead)];
            if let Some(hit) = self.find_among(group, place, key) {
                return Some(hit);
            }
            place += group.len();
            ahead = (ahead * 2).min(AHEAD);
        }
        None
    }

    /// Searches at most [`AHEAD`] subtables, whose tags are all on their way before the first is
    /// looked at.
    #[inline(always)]
    fn find_among(&self, group: &[Subtable<N>], place: usize, key: &MatchKey<N>) -> Option<Hit> {
        let mut hashes = [0; AHEAD];
        for (hash, subtable) in hashes.iter_mut().zip(group) {
            *hash = self.hash(&masked(key, &subtable.mask), subtable.number);
            self.store.prefetch(*hash);
        }
        for (within, (subtable, hash)) in group.iter().zip(hashes).enumerate() {
            let found = self.store.find(hash, |value, number| {
                number == subtable.number && equal_masked(key, &subtable.mask, value)
            });
            if let Some(slot) = found {
                return Some(Hit {
                    id: self.store.id(slot),
                    masks_tried: (place + within) as u32 + 1,
                });
            }
        }
        None
    }

    #[inline(always)]
    fn count_hit(&mut self, place: usize) {
        self.subtables[place].hits += 1;
        self.move_forward(place);
        self.age(1);
    }

    /// Moves a subtable past the one before it if it has had more hits.
    #[inline(always)]
    fn move_forward(&mut self, place: usize) {
        if place > 0 && self.subtables[place].hits > self.subtables[place - 1].hits {
            self.subtables.swap(place - 1, place);
        }
    }

    #[inline(always)]
    fn age(&mut self, hits: u32) {
        self.hits += hits;
        if self.hits >= HITS_PER_AGE {
            self.hits = 0;
            self.subtables
                .iter_mut()
                .for_each(|subtable| subtable.hits /= 2);
        }
    }

    /// Adds a rule, or gives the one with this mask and value a new id; returns the id it had.
    /// Bits of the value beyond the mask do not matter.
    ///
    /// # Errors
    /// If the table is full; this is counted, and nothing has changed.
    pub fn insert(
        &mut self,
        mask: &MatchKey<N>,
        value: &MatchKey<N>,
        id: u32,
    ) -> Result<Option<u32>, Refusal> {
        let value = masked(value, mask);
        let place = self.place(mask);
        if let Some(slot) = place.and_then(|place| self.slot(place, &value)) {
            let before = self.store.set_id(slot, id);
            self.hot.forget(before);
            return Ok(Some(before));
        }
        if self.store.len() >= self.limits.rules {
            self.refusals.too_many_rules += 1;
            return Err(Refusal::TooManyRules(self.limits.rules));
        }
        let Some(place) = place.or_else(|| self.add_subtable(mask)) else {
            self.refusals.too_many_masks += 1;
            return Err(Refusal::TooManyMasks(self.limits.masks));
        };
        let number = self.subtables[place].number;
        if !self
            .store
            .insert(self.hash(&value, number), &value, number, id)
        {
            self.refusals.crowded += 1;
            self.drop_if_empty(place);
            return Err(Refusal::Crowded);
        }
        self.subtables[place].rules += 1;
        Ok(None)
    }

    /// Removes the rule with this mask and value; returns its id.
    pub fn remove(&mut self, mask: &MatchKey<N>, value: &MatchKey<N>) -> Option<u32> {
        let value = masked(value, mask);
        let place = self.place(mask)?;
        let slot = self.slot(place, &value)?;
        let hash = self.hash(&value, self.subtables[place].number);
        let id = self.store.remove(hash, slot);
        self.hot.forget(id);
        self.subtables[place].rules -= 1;
        self.drop_if_empty(place);
        Some(id)
    }

    fn drop_if_empty(&mut self, place: usize) {
        if self.subtables[place].rules == 0 {
            let gone = self.subtables.remove(place);
            self.free_numbers.push(gone.number);
        }
    }

    /// The hash of a value in a subtable.
    #[inline(always)]
    fn hash(&self, value: &MatchKey<N>, number: u32) -> u64 {
        self.hash_key.hash_with(value, number.into())
    }

    /// Where in the order of search a mask stands.
    fn place(&self, mask: &MatchKey<N>) -> Option<usize> {
        self.subtables
            .iter()
            .position(|subtable| subtable.mask == *mask)
    }

    fn slot(&self, place: usize, value: &MatchKey<N>) -> Option<usize> {
        let Subtable { number, .. } = self.subtables[place];
        let hash = self.hash(value, number);
        self.store.find(hash, |other, other_number| {
            other_number == number && other == value
        })
    }

    fn add_subtable(&mut self, mask: &MatchKey<N>) -> Option<usize> {
        let number = self.free_numbers.pop()?;
        self.subtables.push(Subtable {
            mask: *mask,
            number,
            hits: 0,
            rules: 0,
        });
        Some(self.subtables.len() - 1)
    }

    /// How many rules there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The distinct masks with the number of their rules, in the order of search.
    pub fn masks(&self) -> impl Iterator<Item = (&MatchKey<N>, u32)> {
        self.subtables
            .iter()
            .map(|subtable| (&subtable.mask, subtable.rules))
    }

    /// How often rules were refused.
    #[must_use]
    pub const fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Memory taken when full, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.store.memory_bytes() + self.subtables.capacity() * size_of::<Subtable<N>>()
    }
}

/// The key's bits within the mask.
#[inline(always)]
fn masked<const N: usize>(key: &MatchKey<N>, mask: &MatchKey<N>) -> MatchKey<N> {
    std::array::from_fn(|word| key[word] & mask[word])
}

/// Whether a key equals a masked value in the bits of a mask.
#[inline(always)]
fn equal_masked<const N: usize>(
    key: &MatchKey<N>,
    mask: &MatchKey<N>,
    value: &MatchKey<N>,
) -> bool {
    let differing = (0..N).fold(0, |bits, word| {
        bits | (key[word] & mask[word] ^ value[word])
    });
    differing == 0
}
