//! Rules by what they match apart from bits that differ within a flow (TCP flags, the port of
//! arrival). Several rules may be variants of one.

use crate::key::MatchKey;
use crate::message::RuleId;
use twinpath_classify::masked::{MaskedLimits, MaskedTable};
use twinpath_core::memory::ZeroedArray;

/// No other variant.
const NONE: u32 = 0;

/// A set of rules in which any variant of a packet's rule is found.
pub(crate) struct Variants {
    /// The first of each list of variants.
    first: MaskedTable<6>,
    /// By rule: the next variant's number plus one.
    next: ZeroedArray<u32>,
    len: usize,
}

impl Variants {
    /// A set of rules with numbers below `ids`.
    pub fn new(limits: MaskedLimits, ids: usize, seed: u64) -> Self {
        Self {
            first: MaskedTable::new(limits, seed),
            next: ZeroedArray::new(ids),
            len: 0,
        }
    }

    /// Takes the memory now.
    pub fn touch(&mut self) {
        self.next.touch();
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a rule that is not there. Returns whether there was room.
    pub fn insert(&mut self, id: RuleId, mask: &MatchKey, value: &MatchKey) -> bool {
        let mask = mask.without(&MatchKey::WITHIN_FLOW);
        let Ok(before) = self.first.insert(&mask.0, &value.0, id) else {
            return false;
        };
        self.next[id as usize] = before.map_or(NONE, |before| before + 1);
        self.len += 1;
        true
    }

    /// Removes a rule that is there.
    pub fn remove(&mut self, id: RuleId, mask: &MatchKey, value: &MatchKey) {
        let mask = mask.without(&MatchKey::WITHIN_FLOW);
        let Some(first) = self.first.remove(&mask.0, &value.0) else {
            return;
        };
        self.len -= 1;
        let first = match first == id {
            true => self.next[id as usize],
            false => {
                self.unlink(first, id);
                first + 1
            }
        };
        if first != NONE {
            // Room was made just now.
            let _ = self.first.insert(&mask.0, &value.0, first - 1);
        }
    }

    fn unlink(&mut self, first: RuleId, id: RuleId) {
        let mut before = first as usize;
        while self.next[before] != NONE && self.next[before] != id + 1 {
            before = self.next[before] as usize - 1;
        }
        self.next[before] = self.next[id as usize];
    }

    /// A rule of which this packet's would be a variant.
    #[inline]
    pub fn find(&self, key: &MatchKey) -> Option<RuleId> {
        self.first.find(&key.0).map(|hit| hit.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn finds_a_rule_while_one_is_there(steps in prop::collection::vec((0u32..12, any::<bool>()), 1..200)) {
            let limits = MaskedLimits { rules: 12, masks: 12 };
            let mut variants = Variants::new(limits, 12, 1);
            let mut reference = BTreeSet::new();
            // Rules 0, 3, 6, 9 are variants of one another, and so on.
            let mask = Field::SourcePort.mask().or(&Field::TcpFlags.mask());
            let value = |id: u32| {
                Field::SourcePort.place((id % 3).into()).or(&Field::TcpFlags.place(id.into()))
            };
            for (id, add) in steps {
                if add && reference.insert(id) {
                    prop_assert!(variants.insert(id, &mask, &value(id)));
                } else if !add && reference.remove(&id) {
                    variants.remove(id, &mask, &value(id));
                }
                prop_assert_eq!(variants.len(), reference.len());
                for kind in 0..3 {
                    let found = variants.find(&value(kind + 30));
                    let expected = reference.iter().any(|id| id % 3 == kind);
                    prop_assert_eq!(found.is_some(), expected);
                    prop_assert!(found.is_none_or(|id| id % 3 == kind && reference.contains(&id)));
                }
            }
        }
    }
}
