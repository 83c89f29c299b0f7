//! What a bystander knows of the gates' entries: which version was in force when, and who used it.

use super::gate::{Changed, MOST_ENTRIES, Why};
use std::ops::RangeInclusive;
use std::time::Duration;
use twinpath_core::Instant;

/// One version of an entry.
#[derive(Copy, Clone, Debug, Default)]
struct Version {
    number: u32,
    /// The turn from which on it is in force.
    since: u64,
    /// The last use that was seen.
    last_use: Option<Instant>,
    /// The cores found it idle at this time.
    found_idle: Option<Instant>,
    /// The cores have crashed: until this turn there may be rules of it.
    lingers_until: u64,
}

/// All versions of an entry so far, in order.
struct Entry(Vec<Version>);

/// Every gate's entries.
pub(super) struct Entries {
    gates: [Vec<Entry>; 2],
    idle: [Option<Duration>; 2],
}

/// A packet's use of an entry, in a version.
#[derive(Copy, Clone, Debug)]
pub(super) struct Use {
    pub gate: usize,
    pub entry: u32,
    pub version: u32,
    pub at: Instant,
}

impl Entries {
    pub fn new(idle: [Option<Duration>; 2]) -> Self {
        let entries = || (0..MOST_ENTRIES).map(|_| Entry(vec![Version::default()]));
        Self {
            gates: [entries().collect(), entries().collect()],
            idle,
        }
    }

    /// An entry has changed. Says what is wrong with that.
    pub fn change(&mut self, changed: &Changed, turn: u64) -> Result<(), String> {
        let idle = self.idle[changed.gate];
        let Entry(versions) = &mut self.gates[changed.gate][changed.entry as usize];
        let mut is_alive = None;
        if let (Why::Idle { now }, Some(last)) = (changed.why, versions.last_mut()) {
            last.found_idle = Some(now);
            is_alive = last.last_use.filter(|&at| !is_over(now, at, idle));
        }
        if let (Why::Anew, Some(last)) = (changed.why, versions.last_mut()) {
            last.lingers_until = u64::MAX;
        }
        versions.push(Version {
            number: changed.version,
            since: turn,
            ..Version::default()
        });
        is_alive.map_or(Ok(()), |at| {
            Err(format!("{changed:?}, but a packet of {at:?} used it"))
        })
    }

    /// The versions in force at some time in these turns.
    pub fn in_force(
        &self,
        gate: usize,
        entry: u32,
        turns: RangeInclusive<u64>,
    ) -> impl Iterator<Item = u32> {
        let Entry(versions) = &self.gates[gate][entry as usize];
        let first = versions
            .iter()
            .rposition(|version| version.since < *turns.start())
            .unwrap_or(0);
        let (former, now) = versions.split_at(first);
        let (since, until) = turns.into_inner();
        let lingering = former
            .iter()
            .filter(move |version| version.lingers_until >= since);
        let now = now.iter().filter(move |version| version.since <= until);
        lingering.chain(now).map(|version| version.number)
    }

    /// Tables are gone whose last reports may have been lost on the link.
    pub fn uses_may_be_lost(&mut self) {
        let versions = self
            .gates
            .iter_mut()
            .flatten()
            .flat_map(|Entry(versions)| versions);
        versions.for_each(|version| version.last_use = None);
    }

    /// The fast path has heard that the cores have crashed, or the chain has changed: there are no
    /// rules of a former gate.
    pub fn former_rules_are_gone(&mut self, turn: u64) {
        let versions = self
            .gates
            .iter_mut()
            .flatten()
            .flat_map(|Entry(versions)| versions);
        versions
            .filter(|version| version.lingers_until == u64::MAX)
            .for_each(|version| version.lingers_until = turn);
    }

    /// A packet has used an entry. Says what is wrong with that.
    pub fn uses(&mut self, used: Use) -> Result<(), String> {
        let idle = self.idle[used.gate];
        let Entry(versions) = &mut self.gates[used.gate][used.entry as usize];
        let mut versions = versions.iter_mut().rev();
        let Some(version) = versions.find(|version| version.number == used.version) else {
            return Ok(());
        };
        version.last_use = version.last_use.max(Some(used.at));
        match version.found_idle {
            Some(now) if !is_over(now, used.at, idle) => {
                Err(format!("{used:?}, but at {now:?} it was found idle"))
            }
            _ => Ok(()),
        }
    }

    /// Since when an entry has been idle too long for a use on the fast path, as far as uses were
    /// seen: the last of them.
    pub fn idle_since(&self, used: &Use) -> Option<Instant> {
        let Entry(versions) = &self.gates[used.gate][used.entry as usize];
        let version = versions
            .iter()
            .rfind(|version| version.number == used.version)?;
        let is_too_late = |&last: &Instant| is_over(used.at, last, self.idle[used.gate]);
        version.last_use.filter(is_too_late)
    }
}

/// Whether a last use is longer ago than the idle time-out.
fn is_over(now: Instant, last: Instant, idle: Option<Duration>) -> bool {
    idle.is_some_and(|idle| now.since(last) > idle)
}
