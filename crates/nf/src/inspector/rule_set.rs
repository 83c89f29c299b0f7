//! Which rules a scan reported, each once.

use super::limits::MAX_RULES;
use super::rules::RuleIndex;

/// A set of rules, of fixed size, to collect what a scan reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    words: [u64; MAX_RULES / 64],
}

impl RuleSet {
    /// The empty set.
    pub fn new() -> Self {
        Self {
            words: [0; MAX_RULES / 64],
        }
    }

    /// Adds a rule and tells whether it is new. What is not a rule's index
    /// ([`MAX_RULES`] and above) is not added.
    pub fn insert(&mut self, rule: RuleIndex) -> bool {
        let (word, bit) = (usize::from(rule) / 64, 1 << (rule % 64));
        let Some(word) = self.words.get_mut(word) else {
            return false;
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Makes the set empty.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Whether no rule is in it.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The rules in it, lowest index first.
    pub fn iter(&self) -> impl Iterator<Item = RuleIndex> {
        let is_in = |rule: &RuleIndex| self.words[usize::from(*rule) / 64] >> (rule % 64) & 1 != 0;
        (0..MAX_RULES as RuleIndex).filter(is_in)
    }
}

impl Default for RuleSet {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_each_rule_once() {
        let mut set = RuleSet::new();
        assert!(set.insert(4095) && set.insert(7) && !set.insert(7) && !set.insert(4096));
        assert_eq!(set.iter().collect::<Vec<_>>(), [7, 4095]);
        set.clear();
        assert!(set.is_empty());
    }
}
