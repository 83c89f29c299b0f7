//! The few rules that most packets meet, looked at before any mask is tried.
//!
//! All rules that match a packet are right, so one that is hot may answer whatever is in the table
//! besides. Of the rules that searches find a sample takes the place of those that were hot
//! before: a rule of half the packets is soon among them, and stays or comes back.

use super::{MatchKey, equal_masked, masked};

/// Rules that are looked at.
const HOT: usize = 2;
/// One in so many hits of a search takes the place of a hot rule.
const SAMPLED: u32 = 16;
/// Scatters the numbers of hits, so that no rhythm of packets keeps step with the sample.
const SCATTER: u32 = 0x9e37_79b1;

/// A rule, as it matches.
#[derive(Copy, Clone)]
struct Rule<const N: usize> {
    mask: MatchKey<N>,
    value: MatchKey<N>,
    id: u32,
}

/// Rules that were hit of late.
pub(super) struct HotRules<const N: usize> {
    rules: [Option<Rule<N>>; HOT],
    /// Hits of searches.
    found: u32,
}

impl<const N: usize> HotRules<N> {
    pub const fn new() -> Self {
        Self {
            rules: [None; HOT],
            found: 0,
        }
    }

    /// The id of a hot rule that matches.
    #[inline(always)]
    pub fn find(&self, key: &MatchKey<N>) -> Option<u32> {
        let mut rules = self.rules.iter().flatten();
        let rule = rules.find(|rule| equal_masked(key, &rule.mask, &rule.value))?;
        Some(rule.id)
    }

    /// A search has found a rule for a key.
    #[inline(always)]
    pub fn found(&mut self, key: &MatchKey<N>, mask: &MatchKey<N>, id: u32) {
        self.found = self.found.wrapping_add(1);
        let scattered = self.found.wrapping_mul(SCATTER);
        if scattered < u32::MAX / SAMPLED {
            let place = scattered as usize % HOT;
            let (mask, value) = (*mask, masked(key, mask));
            self.rules[place] = Some(Rule { mask, value, id });
        }
    }

    /// A rule is gone, or another one has taken its place.
    pub fn forget(&mut self, id: u32) {
        for rule in &mut self.rules {
            rule.take_if(|rule| rule.id == id);
        }
    }
}
