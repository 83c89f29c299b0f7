//! Cached rules, as the report has them: what happened on the fast path's
//! tables, and what the workers did to fill them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{counts::counts, units};

/// Cached rules of all elements of the chain whose decisions are cached. Empty
/// if the chain has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The sum over all elements.
    pub total: RuleCounters,
    /// The elements, in chain order.
    pub elements: Vec<RuleElement>,
}

/// One element: functions in a row whose decisions are cached together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleElement {
    /// The functions' names, in chain order.
    pub functions: Vec<String>,
    /// What happened.
    pub counts: RuleCounters,
}

/// What happened to rules, on both paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCounters {
    /// The fast path's table.
    pub table: RuleTableCounters,
    /// The workers' run through the functions.
    pub slow_path: SlowRuleCounters,
    /// Packets that made no rule, by the reason.
    pub obstacles: BTreeMap<String, u64>,
    /// Which rules were found hot.
    pub selection: RuleSelectionCounters,
    /// The book of cached rules.
    pub manager: RuleManagerCounters,
}

counts! {
    /// The table of rules on the fast path: `capacity` and `active` at the end
    /// of the run, all else since the start.
    RuleTableCounters {
        /// Rules that it can hold.
        capacity,
        /// Rules that packets meet.
        active,
        /// Packets that met a rule.
        hits,
        /// Packets without one.
        misses,
        /// Packets whose time to live did not allow their rule.
        guarded,
        /// Packets that waited for a rule to become active, or for a fragment of their flow to return.
        held,
        /// Of them, those that went to the slow path after all.
        held_then_punted,
        /// Rules that became active.
        activated,
        /// Active rules that had to wait for a packet of their flow to return.
        demoted,
        /// Rules taken out because of their idle time-out.
        idle,
        /// Rules taken out because more packets arrived than may be held.
        hold_full,
        /// Rules for which there was no room.
        no_room,
        /// Marks that were repeated.
        marks_repeated,
        /// Fragments that packets of their flow did not wait for: too many flows had some on the slow
        /// path.
        fragments_alone,
    }
}

counts! {
    /// The workers' run through the functions.
    SlowRuleCounters {
        /// Packets that came.
        packets,
        /// Packets that waited until rules were gone or reported.
        waited,
        /// Packets dropped because too many waited.
        overflowed,
        /// Packets dropped because their function waited for what was settled.
        stuck,
    }
}

counts! {
    /// Which rules were found hot.
    RuleSelectionCounters {
        /// Packets whose way through the functions makes a rule.
        cacheable,
        /// Rules found hot.
        selected,
    }
}

counts! {
    /// The book of cached rules on the slow path.
    RuleManagerCounters {
        /// Rules sent to the fast path.
        added,
        /// Rules taken out for hotter ones.
        replaced,
        /// Rules taken out because nobody used them.
        aged,
        /// Rules taken out because an entry that they came from changed.
        invalidated,
        /// Rules that the fast path took out itself.
        gone,
        /// Requests sent again.
        repeated,
    }
}

impl Rules {
    /// Adds what happened in another node of the same chain.
    pub fn add(&mut self, other: Self) {
        for (place, element) in other.elements.into_iter().enumerate() {
            self.total.add(&element.counts);
            match self.elements.get_mut(place) {
                Some(own) => own.counts.add(&element.counts),
                None => self.elements.push(element),
            }
        }
    }

    /// Adds an element at the end.
    pub fn push(&mut self, element: RuleElement) {
        self.total.add(&element.counts);
        self.elements.push(element);
    }

    /// Whether the chain makes no rules.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }
}

impl RuleCounters {
    fn add(&mut self, other: &Self) {
        self.table.add(&other.table);
        self.slow_path.add(&other.slow_path);
        self.selection.add(&other.selection);
        self.manager.add(&other.manager);
        for (name, count) in &other.obstacles {
            let sum = self.obstacles.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
}

impl RuleTableCounters {
    /// Packets that met a rule, as a fraction of those that were looked up.
    pub fn hit_ratio(&self) -> f64 {
        units::fraction(self.hits, self.looked_up())
    }

    /// Packets that were looked up.
    pub fn looked_up(&self) -> u64 {
        self.hits
            .saturating_add(self.misses)
            .saturating_add(self.guarded)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::rules;
    use super::*;

    #[test]
    fn the_total_is_the_sum_of_the_elements() {
        let (rules, zero) = (rules(), RuleCounters::default());
        let [first, second] = [0, 1].map(|place| &rules.elements[place].counts);
        assert!(rules.total.table.hits > first.table.hits);
        let manager = first.manager.aged + second.manager.aged;
        assert_eq!(rules.total.manager.aged, manager);
        let of = |counts: &RuleCounters| counts.obstacles.get("not_plain").copied();
        let sum = of(first).unwrap_or(0) + of(second).unwrap_or(0);
        assert_eq!(of(&rules.total), Some(sum));
        assert_eq!(zero.table.hit_ratio(), 0.0);
    }
}
