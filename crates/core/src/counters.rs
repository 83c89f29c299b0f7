//! Counted drops.

use crate::DropReason;

/// How many packets were dropped, by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::COUNT]);

impl Default for DropCounters {
    fn default() -> Self {
        Self([0; DropReason::COUNT])
    }
}

impl DropCounters {
    /// Counts one drop.
    pub fn count(&mut self, reason: DropReason) {
        self.add(reason, 1);
    }

    /// Counts this many drops.
    pub fn add(&mut self, reason: DropReason, count: u64) {
        self.0[reason.index()] += count;
    }

    /// Drops for one reason.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason.index()]
    }

    /// All drops.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds another set of counters to this one.
    pub fn absorb(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Reasons that occurred, with their counts.
    pub fn nonzero(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::all()
            .zip(self.0.iter().copied())
            .filter(|&(_, count)| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_reason() {
        let mut drops = DropCounters::default();
        drops.count(DropReason::Denied);
        drops.count(DropReason::Denied);
        let mut more = DropCounters::default();
        more.count(DropReason::Banned);
        drops.absorb(&more);
        assert_eq!(drops.of(DropReason::Denied), 2);
        assert_eq!(drops.total(), 3);
        assert_eq!(drops.nonzero().count(), 2);
    }
}
