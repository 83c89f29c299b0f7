//! Exact match: rules by addresses, ports and protocol, direction and shape.
//!
//! Open addressing, one cache line per place, at most half of them taken: a hit usually reads one
//! line and nothing else. Removing shifts back what follows, so that no traces are left.
//!
//! A rule may also look at bits that differ within a flow (TCP flags, the port of arrival): they
//! are its *guard*. There is one rule for a flow; a second one with another guard has to go
//! elsewhere.

use crate::key::{KeyWords, MatchKey};
use crate::message::RuleId;
use twinpath_core::HashKey;
use twinpath_core::memory::{CacheLine, ZeroedArray};
use twinpath_core::probing::{self, Places};

/// The word of a place that holds the rule's number plus one; 0 if the place is free.
const RULE: usize = 5;
/// Mask and value of the guard.
const GUARD: usize = 6;
const GUARD_VALUE: usize = 7;

/// The words of a key that are compared.
type Compared = [u64; 5];

/// A fixed number of rules.
pub(crate) struct ExactTable {
    places: ZeroedArray<CacheLine>,
    limit: usize,
    len: usize,
    guarded: usize,
    hash_key: HashKey,
}

/// Why a rule was not added.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There are as many rules as there may be, or too many lie in its way.
    Full,
    /// The flow has a rule with another guard.
    Taken,
}

#[inline(always)]
const fn compared(key: &KeyWords) -> Compared {
    let [a, b, c, d, last, _] = *key;
    [a, b, c, d, last & MatchKey::EXACT.0[4]]
}

/// The bits of a key that differ within a flow, in one word.
#[inline(always)]
const fn within_flow(key: &KeyWords) -> u64 {
    let [.., flags, ingress] = MatchKey::WITHIN_FLOW.0;
    key[4] & flags | key[5] & ingress
}

impl ExactTable {
    pub fn new(limit: usize, seed: u64) -> Self {
        Self {
            places: ZeroedArray::new(2 * limit + 1),
            limit,
            len: 0,
            guarded: 0,
            hash_key: HashKey::new(seed),
        }
    }

    /// Takes the memory now.
    pub fn touch(&mut self) {
        self.places.touch();
    }

    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether any rule has a guard.
    #[inline(always)]
    pub const fn has_guards(&self) -> bool {
        self.guarded > 0
    }

    pub fn memory_bytes(&self) -> usize {
        self.places.len() * size_of::<CacheLine>()
    }

    /// Where the search for a key begins.
    #[inline(always)]
    fn home(&self, key: Compared) -> usize {
        let hash = self.hash_key.hash(key) >> 32;
        ((hash * self.places.len() as u64) >> 32) as usize
    }

    /// The place of a key, or the free one where the search for it ends. There is always one.
    #[inline(always)]
    fn search(&self, key: Compared) -> usize {
        let mut place = self.home(key);
        loop {
            let words = &self.places[place].0;
            let different = (0..5).fold(0, |bits, word| bits | (words[word] ^ key[word]));
            if different == 0 || words[RULE] == 0 {
                return place;
            }
            place = probing::next(place, self.places.len());
        }
    }

    /// The rule that packets with a key meet.
    #[inline]
    pub fn find(&self, key: &KeyWords) -> Option<RuleId> {
        let words = &self.places[self.search(compared(key))].0;
        let is_kept_out = (within_flow(key) ^ words[GUARD_VALUE]) & words[GUARD] != 0;
        rule_in(words).filter(|_| !is_kept_out)
    }

    /// The rule of a key's flow, whatever its guard.
    pub fn find_any(&self, key: &KeyWords) -> Option<RuleId> {
        rule_in(&self.places[self.search(compared(key))].0)
    }

    /// Adds a rule; returns the one of the same packets if there was one.
    pub fn insert(
        &mut self,
        mask: &KeyWords,
        value: &KeyWords,
        id: RuleId,
    ) -> Result<Option<RuleId>, Refused> {
        let (key, guard) = (compared(value), within_flow(mask));
        let guard_value = within_flow(value) & guard;
        let place = self.search(key);
        let has_room = self.len < self.limit && self.may_take(place);
        let words = &mut self.places[place].0;
        let before = rule_in(words);
        match before {
            None if !has_room => return Err(Refused::Full),
            Some(_) if (words[GUARD], words[GUARD_VALUE]) != (guard, guard_value) => {
                return Err(Refused::Taken);
            }
            Some(_) => {}
            None => {
                self.len += 1;
                self.guarded += usize::from(guard != 0);
            }
        }
        words[..5].copy_from_slice(&key);
        (words[RULE], words[GUARD], words[GUARD_VALUE]) = (u64::from(id) + 1, guard, guard_value);
        Ok(before)
    }

    /// Removes a rule; false if it is not there.
    pub fn remove(&mut self, value: &KeyWords, id: RuleId) -> bool {
        let key = compared(value);
        let place = self.search(key);
        let words = &self.places[place].0;
        if rule_in(words) != Some(id) {
            return false;
        }
        self.len -= 1;
        self.guarded -= usize::from(words[GUARD] != 0);
        let gap = self.close_gap(place);
        self.places[gap].0 = [0; 8];
        true
    }
}

impl Places for ExactTable {
    fn places(&self) -> usize {
        self.places.len()
    }

    fn is_taken(&self, place: usize) -> bool {
        self.places[place].0[RULE] != 0
    }

    fn home_of(&self, place: usize) -> usize {
        let [a, b, c, d, last, ..] = self.places[place].0;
        self.home([a, b, c, d, last])
    }

    fn move_to(&mut self, from: usize, to: usize) {
        self.places[to].0 = self.places[from].0;
    }
}

#[inline(always)]
const fn rule_in(words: &[u64; 8]) -> Option<RuleId> {
    match words[RULE] {
        0 => None,
        number => Some((number - 1) as RuleId),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// A rule of a flow for packets with one value of some TCP flags; guard 0 looks at none.
    fn rule(flow: u64, guard: u64) -> (KeyWords, KeyWords) {
        let (mask, value) = [(0, 0), (7, 0), (7, 2), (0xff, 0)][guard as usize];
        let key = |flags: u64| [flow, 1, 2, 3, 4 << 32 | flags << 16, 0];
        let mut words = MatchKey::EXACT.0;
        words[4] |= mask << 16;
        (words, key(value))
    }

    fn packet(flow: u64, flags: u64) -> KeyWords {
        [flow, 1, 2, 3, 4 << 32 | flags << 16, 9 << 48]
    }

    fn admits(guard: u64, flags: u64) -> bool {
        [true, flags & 7 == 0, flags & 7 == 2, flags == 0][guard as usize]
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(
            seed: u64,
            limit in 1usize..40,
            steps in prop::collection::vec((0u64..50, 0u64..4, any::<bool>()), 1..400),
        ) {
            let mut table = ExactTable::new(limit, seed);
            let mut reference: HashMap<u64, (u64, u32)> = HashMap::new();
            for (step, (flow, guard, add)) in (0u32..).zip(steps) {
                let (mask, value) = rule(flow, guard);
                let known = reference.get(&flow).copied();
                let expected = match known {
                    None if reference.len() >= limit => Err(Refused::Full),
                    Some((other, _)) if other != guard => Err(Refused::Taken),
                    known => Ok(known.map(|(_, id)| id)),
                };
                if add {
                    prop_assert_eq!(table.insert(&mask, &value, step), expected);
                    if expected.is_ok() {
                        reference.insert(flow, (guard, step));
                    }
                } else {
                    prop_assert!(!table.remove(&value, step), "another number");
                    let id = known.map_or(step, |(_, id)| id);
                    prop_assert_eq!(table.remove(&value, id), reference.remove(&flow).is_some());
                }
                prop_assert_eq!(table.len(), reference.len());
                prop_assert_eq!(table.has_guards(), reference.values().any(|(guard, _)| *guard > 0));
            }
            for flow in 0..50 {
                let known = reference.get(&flow).copied();
                for flags in [0, 2, 8, 18] {
                    let key = packet(flow, flags);
                    let expected = known.filter(|(guard, _)| admits(*guard, flags));
                    prop_assert_eq!(table.find(&key), expected.map(|(_, id)| id));
                    prop_assert_eq!(table.find_any(&key), known.map(|(_, id)| id));
                }
            }
        }
    }
}
