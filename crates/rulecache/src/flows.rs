//! Rules of one TCP or UDP flow over IPv4: nearly all that there are, each whole in one cache
//! line, with the counts of its uses.
//!
//! | word | bits from the top |
//! |---|---|
//! | 0 | source address 32, destination address 32 |
//! | 1 | as in the key: ports 32, protocol 8, zero 8, direction 8, shape 8 |
//! | 2 | new source address 32, new destination address 32 |
//! | 3 | new ports 32, changes of the checksums of the IP header and of the transport's 32 |
//! | 4 | sequence number of the last TCP segment 32, egress port or reason to drop 16, place of the MAC addresses 8, of the idle time-out 8 |
//! | 5 | last use, ns |
//! | 6 | packets 28, bytes 36 |
//! | 7 | acknowledgement number of the last TCP segment 32, TTL decrements 8, marks 8, guard: TCP flags looked at 8, and what they must be 8 |
//!
//! Open addressing, at most a quarter of the lines taken: with fewer lines more searches go on to a
//! second one, which nobody has fetched. Word 1 of a free line is zero. What there are
//! few different ones of (next hops, time-outs) lies in small tables beside, and so does the number of
//! the rule, which no hit asks for.

use crate::action::{self, ActionWords, macs_in, written_in};
use crate::field::Field;
use crate::headers::{Macs, NewHeaders, changes_in};
use crate::key::{self, KeyWords, MatchKey};
use crate::message::{RuleId, Uses};
use crate::progress::TcpProgress;
use crate::shared::Shared;
use twinpath_core::memory::{CacheLine, ZeroedArray, prefetch};
use twinpath_core::probing::{self, Places};
use twinpath_core::wire::layout::{Plain, PlainEnds};
use twinpath_core::wire::protocol;
use twinpath_core::{Decision, Direction, DropReason, HashKey, Instant};

/// A line of the table.
pub(crate) type Line = [u64; 8];

/// Memory is taken for those alone that are used.
const LINES_PER_RULE: usize = 4;

/// Of the counts of packets and bytes, which a hit adds to at once.
const PACKETS_SHIFT: u32 = 36;
const BYTES: u64 = (1 << PACKETS_SHIFT) - 1;
/// The half of a word without the number of a TCP segment.
const LOWER: u64 = u32::MAX as u64;
const MARKS_SHIFT: u32 = 16;
/// Packets are dropped.
const DROP: u64 = 1 << MARKS_SHIFT;
/// A function has chosen where they leave.
const EGRESS: u64 = 2 << MARKS_SHIFT;
/// It was hit since the last report.
const HIT: u64 = 4 << MARKS_SHIFT;
/// Packets that are not atomic get another identification.
const NUMBERS: u64 = 8 << MARKS_SHIFT;
/// The numbers of the last TCP segment are reported.
const TELLS: u64 = 16 << MARKS_SHIFT;
/// Packets stay as they are, and nobody asks for their numbers.
const COUNTS_ALONE: u64 = 32 << MARKS_SHIFT;

/// A TCP or UDP flow over IPv4 as it goes one way through the chain: what rules of one flow are found
/// by.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LineKey {
    addresses: u64,
    rest: u64,
    /// TCP flags.
    flags: u8,
}

impl LineKey {
    /// The same as [`MatchKey::of_plain`] says, made at once.
    #[inline(always)]
    pub fn of_plain(frame: &[u8], (plain, ends): (Plain, PlainEnds), direction: Direction) -> Self {
        Self {
            flags: plain.tcp_flags(frame),
            ..Self::of_ends(ends, plain.protocol(), direction)
        }
    }

    /// The same, but for TCP flags, of a packet with these ends: enough to tell where its rule is.
    #[inline(always)]
    pub const fn of_ends(ends: PlainEnds, protocol: u8, direction: Direction) -> Self {
        Self {
            addresses: ends.addresses,
            rest: key::rest_of_a_flow(ends.ports, protocol, direction),
            flags: 0,
        }
    }

    /// `None` for what is not TCP or UDP over IPv4.
    #[inline(always)]
    pub const fn of(words: &KeyWords) -> Option<Self> {
        // The shape of such packets is zero.
        match words[4] as u8 {
            0 => Some(Self {
                addresses: words[1] << 32 | words[3] & 0xffff_ffff,
                rest: words[4] & MatchKey::EXACT.0[4],
                flags: (words[4] >> 16) as u8,
            }),
            _ => None,
        }
    }

    const fn in_line(line: &Line) -> Self {
        Self {
            addresses: line[0],
            rest: line[1],
            flags: 0,
        }
    }

    /// Whether a line holds the flow's rule.
    #[inline(always)]
    const fn is_in(self, line: &Line) -> bool {
        (line[0] ^ self.addresses) | (line[1] ^ self.rest) == 0
    }

    /// Whether the line's rule looks at no TCP flags, or at such as the packet has.
    #[inline(always)]
    const fn is_let_in(self, line: &Line) -> bool {
        let (mask, value) = ((line[7] >> 8) as u8, line[7] as u8);
        (self.flags ^ value) & mask == 0
    }
}

/// A fixed number of rules.
pub(crate) struct FlowTable {
    lines: ZeroedArray<CacheLine>,
    /// By rule: its line plus one; 0 if it is not here.
    line_of: ZeroedArray<u32>,
    /// By line.
    rule_of: ZeroedArray<RuleId>,
    macs: Shared<Macs>,
    /// In ns; [`u64::MAX`] for none.
    idle: Shared<u64>,
    len: usize,
    guarded: usize,
    hash_key: HashKey,
}

/// What a line says of a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The packet meets the rule.
    Meets,
    /// The rule's idle time-out has passed.
    Idle,
    /// The line holds no rule that the packet meets.
    Another,
}

impl FlowTable {
    /// A table for so many rules, whose numbers are below `ids`.
    pub fn new(limit: usize, ids: usize, seed: u64) -> Self {
        let lines = (LINES_PER_RULE * limit + 1).min(u32::MAX as usize >> 1);
        Self {
            lines: ZeroedArray::new(lines),
            line_of: ZeroedArray::new(ids),
            rule_of: ZeroedArray::new(lines),
            macs: Shared::new(),
            idle: Shared::new(),
            len: 0,
            guarded: 0,
            hash_key: HashKey::new(seed),
        }
    }

    /// Takes the memory now.
    pub fn touch(&mut self) {
        self.lines.touch();
        self.line_of.touch();
        self.rule_of.touch();
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
        self.lines.len() * size_of::<CacheLine>()
            + (self.line_of.len() + self.rule_of.len()) * size_of::<u32>()
    }

    #[inline(always)]
    fn home(&self, key: LineKey) -> usize {
        let hash = self.hash_key.hash([key.addresses, key.rest]);
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }

    /// Where the search for a key begins; what lies there is on its way.
    #[inline(always)]
    pub fn prefetch(&self, key: LineKey) -> u32 {
        let home = self.home(key);
        prefetch(&self.lines[home]);
        home as u32
    }

    /// What is read of a line is on its way.
    #[inline(always)]
    pub fn prefetch_line(&self, place: u32) {
        if let Some(line) = self.lines.get(place as usize) {
            prefetch(line);
        }
    }

    /// Whether a line, if there is one, holds the rule that packets with this key meet.
    pub fn is_met(&self, place: u32, key: LineKey) -> bool {
        let line = self.lines.get(place as usize);
        line.is_some_and(|CacheLine(line)| key.is_in(line) && key.is_let_in(line))
    }

    /// The line of a key, or the free one where the search for it ends. There is always one.
    #[inline(always)]
    fn search(&self, key: LineKey) -> usize {
        let mut place = self.home(key);
        loop {
            let line = &self.lines[place].0;
            if key.is_in(line) || line[1] == 0 {
                return place;
            }
            place = self.next(place);
        }
    }

    #[inline(always)]
    fn next(&self, place: usize) -> usize {
        probing::next(place, self.lines.len())
    }

    /// The line whose rule a packet that arrived at `now` may use, searched from where
    /// [`Self::prefetch`] said, or from where it was before.
    #[inline(always)]
    pub fn usable_from(&self, near: u32, key: LineKey, now: Instant) -> Option<u32> {
        let mut place = near as usize;
        loop {
            let line = &self.lines.get(place)?.0;
            if key.is_in(line) {
                let is_usable = key.is_let_in(line) && !self.is_idle(line, now);
                return is_usable.then_some(place as u32);
            }
            if line[1] == 0 {
                return None;
            }
            place = self.next(place);
        }
    }

    #[inline(always)]
    fn is_idle(&self, line: &Line, now: Instant) -> bool {
        now.0.saturating_sub(line[5]) > *self.idle.at(line[4] as u8)
    }

    /// The line whose rule a packet meets.
    #[inline(always)]
    pub fn find(&self, key: LineKey) -> Option<u32> {
        let place = self.search(key);
        let line = &self.lines[place].0;
        (line[1] != 0 && key.is_let_in(line)).then_some(place as u32)
    }

    /// The rule of a flow, whatever its guard.
    pub fn rule_of(&self, key: LineKey) -> Option<RuleId> {
        let place = self.search(key);
        (self.lines[place].0[1] != 0).then(|| self.rule_of[place])
    }

    /// The rule of a line that was found.
    pub fn rule_at(&self, place: u32) -> RuleId {
        self.rule_of[place as usize]
    }

    /// Whether a packet that arrived at `now` meets the rule of a line. It is looked at anew: since
    /// it was found, other packets of its batch may have taken rules out.
    #[inline(always)]
    pub fn look(&self, place: u32, key: LineKey, now: Instant) -> Look {
        let line = &self.lines[place as usize].0;
        if !key.is_in(line) || !key.is_let_in(line) {
            Look::Another
        } else if self.is_idle(line, now) {
            Look::Idle
        } else {
            Look::Meets
        }
    }

    /// A line, to be read.
    #[inline(always)]
    pub fn line(&self, place: u32) -> &Line {
        &self.lines[place as usize].0
    }

    /// Counts a packet, with its numbers if it is a TCP segment, at a line, and says what becomes of it:
    /// it goes on or is dropped.
    #[inline(always)]
    pub fn count(
        &mut self,
        place: u32,
        (bytes, progress): (usize, Option<TcpProgress>),
        now: Instant,
    ) -> Decision {
        let line = &mut self.lines[place as usize].0;
        line[5] = line[5].max(now.0);
        // Reports take the counts out, long before there are so many.
        line[6] = line[6].saturating_add(1 << PACKETS_SHIFT | bytes as u64);
        line[7] |= HIT;
        if let Some(TcpProgress {
            sequence,
            acknowledgement,
        }) = progress
        {
            line[4] = line[4] & LOWER | u64::from(sequence) << 32;
            line[7] = line[7] & LOWER | u64::from(acknowledgement) << 32;
        }
        let where_to = (line[4] >> 16) as u16;
        match line[7] & (DROP | EGRESS) {
            0 => Decision::FORWARD,
            EGRESS => Decision::Forward {
                egress: Some(where_to),
            },
            _ => drop_for(where_to),
        }
    }

    /// The MAC addresses that a line's rule writes; `None` for none.
    #[inline(always)]
    pub fn macs(&self, line: &Line) -> Option<&Macs> {
        match (line[4] >> 8) as u8 {
            0 => None,
            place => Some(self.macs.at(place)),
        }
    }

    /// How the rule was used since its uses were last taken; `None` if it is not here.
    pub fn uses(&self, id: RuleId) -> Option<Uses> {
        let line = &self.lines[self.line_of_rule(id)?].0;
        Some(Uses {
            packets: line[6] >> PACKETS_SHIFT,
            bytes: line[6] & BYTES,
            last: Instant(line[5]),
            progress: progress_told(line),
        })
    }

    /// Takes the counts of a rule's uses out, to be added up elsewhere; `None` if it is not here,
    /// or was not used since.
    pub fn take_uses(&mut self, id: RuleId) -> Option<Uses> {
        let (uses, place) = (self.uses(id)?, self.line_of_rule(id)?);
        let line = &mut self.lines[place].0;
        let was_hit = line[7] & HIT != 0;
        line[6] = 0;
        line[7] &= !HIT;
        was_hit.then_some(uses)
    }

    /// What will be read of a rule is on its way.
    pub fn prefetch_rule(&self, id: RuleId) {
        if let Some(line) = self.line_of_rule(id) {
            prefetch(&self.lines[line]);
        }
    }

    fn line_of_rule(&self, id: RuleId) -> Option<usize> {
        (*self.line_of.get(id as usize)? as usize).checked_sub(1)
    }

    /// Adds a rule for a flow that has none, if it is one for this table: its action is settled,
    /// it looks at nothing but TCP flags besides the flow, and not too many lie in its way.
    /// Returns whether it was added.
    pub fn insert(
        &mut self,
        id: RuleId,
        (mask, value): (&MatchKey, &MatchKey),
        action: &ActionWords,
        last: Instant,
    ) -> bool {
        let Some(key) = LineKey::of(&value.0) else {
            return false;
        };
        let guard = (mask.0[4] >> 16) as u8;
        if mask.0[5] != 0 || self.rule_of(key).is_some() {
            return false;
        }
        let place = self.search(key);
        if !self.may_take(place) {
            return false;
        }
        let Some((mac, idle)) = self.share(action) else {
            return false;
        };
        let shared = u64::from(mac) << 8 | u64::from(idle);
        let guards = u64::from(guard) << 8 | u64::from(key.flags & guard);
        self.lines[place].0 = line(key, action, shared, guards, last);
        self.line_of[id as usize] = place as u32 + 1;
        self.rule_of[place] = id;
        self.len += 1;
        self.guarded += usize::from(guard != 0);
        true
    }

    /// Places of MAC addresses and idle time-out, if there are any left.
    fn share(&mut self, action: &ActionWords) -> Option<(u8, u8)> {
        let mac = match macs_in(action) {
            none if none.written.is_none() => 0,
            macs => self.macs.add(macs)?,
        };
        let idle_ns = if action[7] == 0 { u64::MAX } else { action[7] };
        let idle = self.idle.add(idle_ns);
        if idle.is_none() && mac != 0 {
            self.macs.remove(mac);
        }
        Some((mac, idle?))
    }

    /// Removes a rule; returns its uses since they were last taken, or `None` if it is not here.
    pub fn remove(&mut self, id: RuleId) -> Option<Uses> {
        let uses = self.uses(id)?;
        let place = self.line_of_rule(id)?;
        let line = &self.lines[place].0;
        let (mac, idle) = ((line[4] >> 8) as u8, line[4] as u8);
        self.len -= 1;
        self.guarded -= usize::from((line[7] >> 8) as u8 != 0);
        if mac != 0 {
            self.macs.remove(mac);
        }
        self.idle.remove(idle);
        self.line_of[id as usize] = 0;
        let gap = self.close_gap(place);
        self.lines[gap].0 = [0; 8];
        Some(uses)
    }
}

impl Places for FlowTable {
    fn places(&self) -> usize {
        self.lines.len()
    }

    fn is_taken(&self, place: usize) -> bool {
        self.lines[place].0[1] != 0
    }

    fn home_of(&self, place: usize) -> usize {
        self.home(LineKey::in_line(&self.lines[place].0))
    }

    fn move_to(&mut self, from: usize, to: usize) {
        let line = self.lines[from].0;
        self.lines[to].0 = line;
        let rule = self.rule_of[from];
        self.rule_of[to] = rule;
        self.line_of[rule as usize] = to as u32 + 1;
    }
}

/// How often a line's rule counts the time to live down.
#[inline(always)]
pub(crate) const fn decrements(line: &Line) -> u8 {
    (line[7] >> 24) as u8
}

/// Whether a line's rule does nothing to packets but to count them, and drop them or not.
#[inline(always)]
pub(crate) const fn counts_alone(line: &Line) -> bool {
    line[7] & COUNTS_ALONE != 0
}

/// Whether a line's rule has an identification drawn for packets that are not atomic.
#[inline(always)]
pub(crate) const fn numbers(line: &Line) -> bool {
    line[7] & NUMBERS != 0
}

/// The headers that a line's rule makes.
#[inline(always)]
pub(crate) const fn new_headers(line: &Line) -> NewHeaders {
    NewHeaders {
        addresses: line[2],
        ports: (line[3] >> 32) as u32,
        decrements: decrements(line),
        changes: changes_in(line[3]),
    }
}

#[inline(never)]
fn drop_for(reason: u16) -> Decision {
    let reason = DropReason::all().nth(usize::from(reason));
    // A rule's reason was checked when it was read.
    reason.map_or(Decision::FORWARD, Decision::Drop)
}

/// The numbers of the last TCP segment since uses were last taken, of a rule that tells them.
const fn progress_told(line: &Line) -> Option<TcpProgress> {
    let is_tcp = key::protocol_of_rest(line[1]) == protocol::TCP;
    match is_tcp && line[7] & TELLS != 0 && line[6] != 0 {
        true => Some(TcpProgress {
            sequence: (line[4] >> 32) as u32,
            acknowledgement: (line[7] >> 32) as u32,
        }),
        false => None,
    }
}

/// A line for a settled action.
fn line(key: LineKey, action: &ActionWords, shared: u64, guards: u64, last: Instant) -> Line {
    let verdict = action[5] & 0xff;
    let (mark, where_to) = match verdict {
        0 if written_in(action).has(Field::Egress) => (EGRESS, action[4] >> 16 & 0xffff),
        0 => (0, 0),
        reason => (DROP, reason - 1),
    };
    let numbers = match written_in(action).has(Field::Identification) {
        true => NUMBERS,
        false => 0,
    };
    let tells = match action::tells_progress(action) {
        true => TELLS,
        false => 0,
    };
    let decrements = action[5] >> 8 & 0xff;
    let is_written = written_in(action)
        .iter()
        .any(|field| field != Field::Egress);
    let counts_alone = match is_written || decrements | tells != 0 {
        true => 0,
        false => COUNTS_ALONE,
    };
    [
        key.addresses,
        key.rest,
        action[2],
        action[4] >> 32 << 32 | action[0],
        where_to << 16 | shared,
        last.0,
        0,
        decrements << 24 | mark | numbers | tells | counts_alone | guards,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Action, Rewrites, settle};
    use crate::field::Fields;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::time::Duration;
    use twinpath_core::probing::LONGEST_RUN;
    use twinpath_core::wire::{Endpoint, MacAddress};

    /// A flow's key, as of a packet with these TCP flags.
    fn key(flow: u64, flags: u64) -> MatchKey {
        let ends = 0xffff_0a00_0000 | flow >> 4;
        MatchKey([
            0,
            ends,
            0,
            0xffff_0a01_0101,
            (flow & 15) << 48 | 80 << 32 | 6 << 24 | flags << 16,
            0,
        ])
    }

    fn plain_key(key: &MatchKey) -> LineKey {
        LineKey::of(&key.0).expect("TCP over IPv4")
    }

    fn action(id: u64, guard: u64) -> (MatchKey, MatchKey, Action) {
        let mut mask = MatchKey::EXACT;
        mask.0[4] |= guard << 16;
        let rewrites = Rewrites {
            written: Fields::of(&[Field::SourcePort, Field::SourceMac, Field::Egress]),
            source: Endpoint::v4([1, 2, 3, 4], id as u16),
            source_mac: MacAddress([2, 0, 0, 0, 0, (id % 5) as u8]),
            egress: id as u16,
            ..Rewrites::default()
        };
        let drop = match id % 7 {
            0 => Some(DropReason::Denied),
            _ => None,
        };
        let idle = Some(Duration::from_secs(id % 3)).filter(|idle| !idle.is_zero());
        (
            mask,
            MatchKey::NONE,
            Action {
                rewrites,
                drop,
                idle,
                tells_progress: id.is_multiple_of(2),
            },
        )
    }

    /// Nothing else may be left out for packets that are counted alone.
    #[test]
    fn a_rule_that_changes_nothing_counts_alone() {
        let counts = |change: &dyn Fn(&mut Action)| {
            let mut action = Action {
                rewrites: Rewrites::default(),
                drop: None,
                idle: None,
                tells_progress: false,
            };
            change(&mut action);
            let (mask, value) = (MatchKey::EXACT, key(7, 0));
            let mut table = FlowTable::new(1, 1, 0);
            let words = settle(&action, &mask, &value);
            assert!(table.insert(0, (&mask, &value), &words, Instant(0)));
            counts_alone(table.line(table.find(plain_key(&value)).expect("there")))
        };
        let writes = |field| counts(&move |action| action.rewrites.written.add(field));
        assert!(counts(&|_| ()));
        assert!(counts(&|action| action.drop = Some(DropReason::Denied)));
        assert!(!counts(&|action| action.rewrites.decrements = 1));
        assert!(!counts(&|action| action.tells_progress = true));
        assert!(writes(Field::Egress));
        for field in [
            Field::SourceAddress,
            Field::DestinationPort,
            Field::DestinationMac,
            Field::Identification,
        ] {
            assert!(!writes(field), "{field:?}");
        }
    }

    #[derive(Default)]
    struct Expected {
        id: u32,
        guard: u64,
        uses: Uses,
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert { flow: u64, guard: u64 },
        Remove(u64),
        Packet { flow: u64, flags: u64 },
        Take(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let flow = 0u64..40;
        let guard = prop::sample::select(vec![0, 0, 7]);
        let flags = prop::sample::select(vec![0x10, 0x10, 0x10, 0x12]);
        prop_oneof![
            3 => (flow.clone(), guard).prop_map(|(flow, guard)| Step::Insert { flow, guard }),
            1 => flow.clone().prop_map(Step::Remove),
            6 => (flow.clone(), flags).prop_map(|(flow, flags)| Step::Packet { flow, flags }),
            1 => flow.prop_map(Step::Take),
        ]
    }

    proptest! {
        /// Few lines, so that searches are long and run past the end.
        #[test]
        fn behaves_like_a_map(seed: u64, steps in prop::collection::vec(step(), 1..400)) {
            const LIMIT: usize = 20;
            let mut table = FlowTable::new(LIMIT, 1000, seed);
            let mut reference: HashMap<u64, Expected> = HashMap::new();
            for (number, step) in (1u32..).zip(steps) {
                let now = Instant(u64::from(number) * 100_000_000);
                match step {
                    Step::Insert { flow, guard } => {
                        let (mask, _, action) = action(number.into(), guard);
                        let value = key(flow, 0);
                        let words = settle(&action, &mask, &value);
                        let is_new = !reference.contains_key(&flow);
                        if reference.len() < LIMIT {
                            prop_assert_eq!(table.insert(number, (&mask, &value), &words, now), is_new);
                            reference.entry(flow).or_insert(Expected {
                                id: number,
                                guard,
                                uses: Uses { last: now, ..Uses::default() },
                            });
                        }
                    }
                    Step::Remove(flow) => {
                        let expected = reference.remove(&flow);
                        let id = expected.as_ref().map_or(999, |expected| expected.id);
                        prop_assert_eq!(table.remove(id), expected.map(|expected| expected.uses));
                    }
                    Step::Packet { flow, flags } => {
                        let key = plain_key(&key(flow, flags));
                        let expected = reference.get_mut(&flow);
                        prop_assert_eq!(table.rule_of(key), expected.as_ref().map(|rule| rule.id));
                        let expected = expected.filter(|rule| rule.guard & flags == 0);
                        let found = table.find(key);
                        prop_assert_eq!(found.map(|place| table.rule_at(place)), expected.as_ref().map(|rule| rule.id));
                        if let (Some(place), Some(rule)) = (found, expected) {
                            let idle = u64::from(rule.id % 3) * 1_000_000_000;
                            let is_idle = idle > 0 && now.0 - rule.uses.last.0 > idle;
                            let look = if is_idle { Look::Idle } else { Look::Meets };
                            prop_assert_eq!(table.look(place, key, now), look);
                            let progress = TcpProgress { sequence: number, acknowledgement: number << 9 };
                            let progress = Some(progress);
                            let verdict = match rule.id % 7 {
                                0 => Decision::Drop(DropReason::Denied),
                                _ => Decision::Forward { egress: Some(rule.id as u16) },
                            };
                            prop_assert_eq!(table.count(place, (60, progress), now), verdict);
                            let macs = table.macs(table.line(place)).expect("a source MAC");
                            prop_assert_eq!(u32::from(macs.bytes[11]), rule.id % 5);
                            rule.uses.packets += 1;
                            rule.uses.bytes += 60;
                            rule.uses.last = now;
                            rule.uses.progress = progress.filter(|_| rule.id.is_multiple_of(2));
                        }
                    }
                    Step::Take(flow) => {
                        let Some(rule) = reference.get_mut(&flow) else { continue };
                        let expected = (rule.uses.packets > 0).then_some(rule.uses);
                        prop_assert_eq!(table.take_uses(rule.id), expected);
                        rule.uses = Uses { last: rule.uses.last, ..Uses::default() };
                    }
                }
                prop_assert_eq!(table.len(), reference.len());
                prop_assert_eq!(table.has_guards(), reference.values().any(|rule| rule.guard > 0));
                for rule in reference.values() {
                    prop_assert_eq!(table.uses(rule.id), Some(rule.uses));
                }
            }
        }
    }

    /// Neighbouring clients and ports, the worst realistic case, fill lines as by chance.
    #[test]
    fn neighbours_spread_over_lines() {
        const PARTS: usize = 4096;
        for seed in [0, 1, 0x0123_4567_89ab_cdef] {
            let table = FlowTable::new(1 << 15, 1, seed);
            let part = |home: usize| home * PARTS / table.lines.len();
            for step in [1u64, 16, 256, 4096] {
                let mut load = vec![0u32; PARTS];
                for flow in 0..65_536 {
                    load[part(table.home(plain_key(&key(flow * step, 0))))] += 1;
                }
                let variance = load
                    .iter()
                    .map(|&n| (f64::from(n) - 16.0).powi(2))
                    .sum::<f64>()
                    / PARTS as f64;
                assert!((12.0..20.0).contains(&variance), "{variance}, by chance 16");
            }
        }
    }

    /// Flows whose lines are the same under one seed: a run of them is bounded, and under another
    /// seed they are like others.
    #[test]
    fn chosen_flows_are_bounded_under_their_seed_and_spread_under_another() {
        const LIMIT: usize = 1 << 12;
        let [mut own, mut other] = [1, 2].map(|seed| FlowTable::new(LIMIT, LIMIT, seed));
        let part = |home: usize| home / (own.lines.len() / 64);
        let at_part = |flow: &u64| part(own.home(plain_key(&key(*flow, 0)))) == 0;
        let flows: Vec<u64> = (0..).filter(at_part).take(LIMIT).collect();
        let put = |table: &mut FlowTable| {
            let all = flows.iter().zip(0..);
            let put = all.filter(|&(&flow, id)| {
                let (mask, _, action) = action(1, 0);
                let value = key(flow, 0);
                let words = settle(&action, &mask, &value);
                table.insert(id, (&mask, &value), &words, Instant(0))
            });
            put.count()
        };
        let looks = |table: &FlowTable, flow: u64| {
            let key = plain_key(&key(flow, 0));
            let distance = table.search(key) + table.lines.len() - table.home(key);
            distance % table.lines.len()
        };
        let most = |table: &FlowTable| flows.iter().map(|&flow| looks(table, flow)).max();
        let in_one_run = 256 + LONGEST_RUN;
        assert!(put(&mut own) <= in_one_run);
        assert!(most(&own) <= Some(LONGEST_RUN), "{:?}", most(&own));
        assert_eq!(put(&mut other), LIMIT);
        assert!(most(&other) < Some(16), "{:?}", most(&other));
        (0..LIMIT as u32).for_each(|id| _ = own.remove(id));
        assert_eq!(own.len(), 0);
        assert!(own.lines.iter().all(|line| line.0[1] == 0));
    }

    #[test]
    fn what_does_not_fit_a_line_is_refused() {
        let mut table = FlowTable::new(8, 8, 1);
        let (mask, _, action) = action(1, 0);
        let value = key(1, 0);
        let words = settle(&action, &mask, &value);
        let mut v6 = value;
        v6.0[4] |= 1;
        assert!(!table.insert(0, (&mask, &v6), &words, Instant(0)));
        let by_port = mask.or(&Field::Ingress.mask());
        assert!(!table.insert(0, (&by_port, &value), &words, Instant(0)));
        assert!(table.insert(0, (&mask, &value), &words, Instant(0)));
        assert!(
            !table.insert(1, (&mask, &value), &words, Instant(0)),
            "one rule for a flow"
        );
    }
}
