//! Which rules are worth a place: count-min selection (SFCache §III-E).
//!
//! Every table entry counts its matches per evaluation window. A rule is as hot as the least of
//! its entries' counts. The paper's Algorithm 1 reads and resets the previous window's count in
//! the packet that is first at an entry in a window, so that of all rules which share an entry (a
//! default route) only one a window is ever considered. Here an entry keeps the previous window's
//! count beside the current one, and a rule is selected at *its own* first packet in a window.

use crate::key::MatchKey;
use crate::matches::MatchCounts;
use crate::recording::{EntryId, Recording};
use std::time::Duration;
use twinpath_core::{HashKey, Instant};

/// Configuration of the selection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SelectionConfig {
    /// Length of an evaluation window on the packet clock.
    pub window: Duration,
    /// A rule is selected with more matches than this in the previous window.
    pub threshold: u32,
    /// Entries that are counted at a time, 16 bytes each. One that was not used in this window or
    /// the last gives its place to another. With more in use, those used least are counted too
    /// low or not at all; of an entry that is not counted no rule is hot.
    pub entries: usize,
    /// Rules that are remembered as selected in a window (rounded up to a power of two); two that
    /// fall together may be selected twice.
    pub judged: usize,
    /// What entries and rules are hashed under.
    pub seed: u64,
}

/// Entries that are counted for each rule that there may be: rules have a few, and entries of
/// rules that are not hot enough are counted too.
const ENTRIES_PER_RULE: usize = 16;
/// Entries that are counted at least.
const LEAST_ENTRIES: usize = 1 << 12;

impl SelectionConfig {
    /// A selection for so many rules.
    pub fn for_rules(rules: usize) -> Self {
        Self {
            window: Duration::from_secs(1),
            threshold: 1,
            entries: rules.saturating_mul(ENTRIES_PER_RULE).max(LEAST_ENTRIES),
            judged: rules.saturating_mul(2).max(LEAST_ENTRIES),
            seed: 0,
        }
    }
}

/// Counters of the selection.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectionCounters {
    /// Packets whose recording makes a rule.
    pub cacheable: u64,
    /// Rules found hot enough, each once in a window.
    pub selected: u64,
    /// Uses of entries that found no place to be counted in.
    pub uncounted: u64,
}

/// Decides, packet by packet, which rules are hot.
pub struct Selection {
    config: SelectionConfig,
    window: Window,
    matches: MatchCounts,
    /// The window in which a rule was selected last, and some bits of its hash.
    judged: Vec<(u32, u32)>,
    hash_key: HashKey,
    counters: SelectionCounters,
}

impl Selection {
    /// A selection that has seen nothing yet.
    pub fn new(config: SelectionConfig) -> Self {
        let judged = config.judged.max(1).next_power_of_two();
        Self {
            config,
            window: Window::of(config.window),
            matches: MatchCounts::new(config.entries, config.seed),
            judged: vec![(0, 0); judged],
            hash_key: HashKey::new(config.seed),
            counters: SelectionCounters::default(),
        }
    }

    pub(crate) fn touch(&mut self) {
        self.matches.touch();
    }

    /// Counters so far.
    pub fn counters(&self) -> SelectionCounters {
        self.counters
    }

    /// An entry decided on a packet that will be counted soon.
    #[inline]
    pub(crate) fn prefetch(&self, entry: EntryId) {
        self.matches.prefetch(entry);
    }

    /// Counts a packet's use of its entries, if it makes a rule. If that is to be cached, returns
    /// how hot it is: matches in the previous window.
    #[inline]
    pub fn packet(&mut self, recording: &Recording, now: Instant) -> Option<u32> {
        if recording.obstacle().is_some() {
            return None;
        }
        self.counters.cacheable += 1;
        let window = self.window.at(now);
        let dependencies = recording.dependencies().as_slice();
        let mut hotness = u32::MAX;
        for dependency in dependencies {
            hotness = hotness.min(self.count(dependency.entry, window));
        }
        if dependencies.is_empty() {
            let hash = self.rule_hash(recording);
            hotness = self.count(itself(hash), window);
        }
        // Which rule it is takes longer to tell than whether it is hot.
        if hotness <= self.config.threshold || !self.is_first(recording, window) {
            return None;
        }
        self.counters.selected += 1;
        Some(hotness)
    }

    #[inline(always)]
    fn count(&mut self, entry: EntryId, window: u32) -> u32 {
        let previous = self.matches.count(entry, window);
        self.counters.uncounted += u64::from(previous.is_none());
        previous.unwrap_or(0)
    }

    fn is_first(&mut self, recording: &Recording, window: u32) -> bool {
        let hash = self.rule_hash(recording);
        let place = hash as usize & (self.judged.len() - 1);
        let name = (window, (hash >> 32) as u32);
        std::mem::replace(&mut self.judged[place], name) != name
    }

    /// A hash of a rule: its mask and the packet's bits within.
    fn rule_hash(&self, recording: &Recording) -> u64 {
        let MatchKey(mask) = *recording.mask();
        let MatchKey([a, b, c, d, e, f]) = recording.original().and(recording.mask());
        let mask = self.hash_key.hash(mask);
        self.hash_key.hash([a, b, c, d, e, f, mask])
    }
}

/// The window of the last packet.
#[derive(Copy, Clone, Debug)]
struct Window {
    length_ns: u64,
    begin_ns: u64,
    /// Counted from 1.
    number: u32,
}

impl Window {
    fn of(length: Duration) -> Self {
        Self {
            length_ns: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(1),
            begin_ns: 0,
            number: 1,
        }
    }

    /// The number of the window that an instant lies in.
    #[inline(always)]
    fn at(&mut self, now: Instant) -> u32 {
        if now.0.wrapping_sub(self.begin_ns) >= self.length_ns {
            self.turn(now);
        }
        self.number
    }

    #[cold]
    fn turn(&mut self, now: Instant) {
        let number = now.0 / self.length_ns;
        self.begin_ns = number * self.length_ns;
        self.number = (number as u32).wrapping_add(1).max(1);
    }
}

/// A rule that came from no entry is counted itself, under a number that no function has: a chain
/// has fewer.
const fn itself(hash: u64) -> EntryId {
    EntryId {
        function: u8::MAX,
        entry: hash as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::recording::Dependency;
    use std::collections::HashMap;

    const DEFAULT_ROUTE: EntryId = EntryId {
        function: 1,
        entry: 0,
    };

    fn config() -> SelectionConfig {
        SelectionConfig {
            window: Duration::from_secs(1),
            threshold: 5,
            entries: 100,
            judged: 1024,
            seed: 1,
        }
    }

    /// A flow with an entry of its own, and a route that all share.
    fn flow(number: u32) -> Recording {
        let key = Field::SourceAddress.place(number.into());
        let mut recording = Recording::new(Some(key));
        recording.examine(Field::SourceAddress.mask());
        for entry in [
            EntryId {
                function: 0,
                entry: number,
            },
            DEFAULT_ROUTE,
        ] {
            recording.depend(Dependency {
                entry,
                ..Dependency::default()
            });
        }
        recording
    }

    /// Flows 0 to 9, of which those below 7 send 10 packets a second and the others 2.
    fn traffic(seconds: u64) -> Vec<(u32, Instant)> {
        let mut packets = Vec::new();
        for second in 0..seconds {
            for part in 0..10 {
                let senders = (0..10).filter(|&flow| flow < 7 || part % 5 == 0);
                let now = Instant(second * 1_000_000_000 + part * 1_000_000);
                packets.extend(senders.map(|flow| (flow, now)));
            }
        }
        packets
    }

    /// Algorithm 1 as printed.
    #[derive(Default)]
    struct AsPrinted(HashMap<EntryId, (u32, u32)>);

    impl AsPrinted {
        fn packet(&mut self, recording: &Recording, window: u32) -> Option<u32> {
            let mut least = u32::MAX;
            for dependency in recording.dependencies().as_slice() {
                let (wid, mpw) = self.0.entry(dependency.entry).or_default();
                if window > *wid {
                    least = if window == *wid + 1 {
                        least.min(*mpw)
                    } else {
                        1
                    };
                    (*wid, *mpw) = (window, 1);
                } else {
                    (least, *mpw) = (0, *mpw + 1);
                }
            }
            (least > 5 && least < u32::MAX).then_some(least)
        }
    }

    #[test]
    fn a_shared_default_route_hides_no_rule() {
        let mut selection = Selection::new(config());
        let mut printed = AsPrinted::default();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (number, now) in traffic(2) {
            let recording = flow(number);
            if let Some(hotness) = selection.packet(&recording, now) {
                assert_eq!(hotness, 10);
                ours.push(number);
            }
            let window = 1 + (now.0 / 1_000_000_000) as u32;
            theirs.extend(printed.packet(&recording, window).map(|_| number));
        }
        ours.sort_unstable();
        assert_eq!(ours, (0..7).collect::<Vec<_>>(), "each hot rule once");
        assert!(theirs.len() <= 1, "as printed: one a window");
        assert_eq!(selection.counters().selected, 7);
    }

    #[test]
    fn an_idle_window_in_between_forgets() {
        let mut selection = Selection::new(config());
        let send = |selection: &mut Selection, second: u64| {
            let now = Instant(second * 1_000_000_000);
            (0..20).find_map(|_| selection.packet(&flow(1), now))
        };
        assert_eq!(send(&mut selection, 0), None);
        assert_eq!(send(&mut selection, 1), Some(20));
        assert_eq!(send(&mut selection, 3), None);
        assert_eq!(send(&mut selection, 4), Some(20));
    }

    /// With room for four entries, two flows and the route are counted among many others.
    #[test]
    fn few_hot_rules_are_found_among_many_others_with_little_room() {
        let few = SelectionConfig {
            entries: 4,
            ..config()
        };
        let mut selection = Selection::new(few);
        let mut selected = std::collections::BTreeSet::new();
        for second in 0..3 {
            for number in 2..200 {
                let now = Instant(second * 1_000_000_000);
                for flow_number in [0, 1, number] {
                    if selection.packet(&flow(flow_number), now).is_some() {
                        selected.insert((second, flow_number));
                    }
                }
            }
        }
        let expected = [(1, 0), (1, 1), (2, 0), (2, 1)];
        assert_eq!(selected.into_iter().collect::<Vec<_>>(), expected);
        assert!(selection.counters().uncounted > 0);
    }

    #[test]
    fn what_makes_no_rule_is_not_counted() {
        let mut selection = Selection::new(config());
        let mut refused = flow(1);
        refused.obstruct(crate::recording::Obstacle::Payload);
        for second in 0..3 {
            let now = Instant(second * 1_000_000_000);
            (0..20).for_each(|_| assert_eq!(selection.packet(&refused, now), None));
            assert_eq!(selection.packet(&flow(1), now), None);
        }
        assert_eq!(selection.counters().cacheable, 3);
    }

    #[test]
    fn windows_are_told_by_the_clock() {
        let mut window = Window::of(Duration::from_millis(200));
        for now_ms in [0, 199, 200, 200, 399, 1000, 1001, 1, 50_000] {
            let number = window.at(Instant(now_ms * 1_000_000));
            assert_eq!(u64::from(number), now_ms / 200 + 1);
        }
    }
}
