//! Rules of one TCP or UDP flow: nearly all that there are, each with the counts of its uses in
//! [one cache line](line), [over IPv4](v4) or [over IPv6](v6).
//!
//! Open addressing, with [several lines](FlowOfLine::LINES_PER_RULE) for each rule that there may be.
//! One word of a line is zero if it is free. What there are few different ones of (next hops,
//! time-outs) lies in small tables beside, and so does the number of the rule.

mod both;
mod line;
mod v4;
mod v6;

pub(crate) use both::{FlowTables, Place};
pub(crate) use line::{FlowOfLine, Line, counts_alone, decrements, numbers, tells};
pub use v4::LineKey;
pub(crate) use v4::new_headers;

use crate::action::ActionWords;
use crate::headers::Macs;
use crate::key::MatchKey;
use crate::message::{RuleId, Uses};
use crate::progress::TcpProgress;
use crate::shared::Shared;
use std::marker::PhantomData;
use twinpath_core::memory::{CacheLine, ZeroedArray, prefetch};
use twinpath_core::probing::{self, Places};
use twinpath_core::{Decision, HashKey, Instant};

/// The lines of both versions together are numbered below 2^31.
const MOST_LINES: usize = u32::MAX as usize >> 2;

/// A fixed number of rules over one IP version.
pub(crate) struct FlowTable<K> {
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
    flows: PhantomData<K>,
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

impl<K: FlowOfLine> FlowTable<K> {
    /// A table for so many rules, whose numbers are below `ids`.
    pub fn new(limit: usize, ids: usize, seed: u64) -> Self {
        let lines = (K::LINES_PER_RULE * limit + 1).min(MOST_LINES);
        Self {
            lines: ZeroedArray::new(lines),
            line_of: ZeroedArray::new(ids),
            rule_of: ZeroedArray::new(lines),
            macs: Shared::new(),
            idle: Shared::new(),
            len: 0,
            guarded: 0,
            hash_key: HashKey::new(seed),
            flows: PhantomData,
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

    /// Lines, free ones included.
    #[inline(always)]
    pub fn lines(&self) -> u32 {
        self.lines.len() as u32
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
    fn home(&self, key: K) -> usize {
        let hash = key.hash(&self.hash_key);
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }

    /// Where the search for a key begins; what lies there is on its way.
    #[inline(always)]
    pub fn prefetch(&self, key: K) -> u32 {
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
    pub fn is_met(&self, place: u32, key: K) -> bool {
        let line = self.lines.get(place as usize);
        line.is_some_and(|CacheLine(line)| key.is_in(line) && line::lets_in(line, key.flags()))
    }

    /// The line of a key, or the free one where the search for it ends. There is always one.
    #[inline(always)]
    fn search(&self, key: K) -> usize {
        let mut place = self.home(key);
        loop {
            let line = &self.lines[place].0;
            if key.is_in(line) || line[K::REST] == 0 {
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
    pub fn usable_from(&self, near: u32, key: K, now: Instant) -> Option<u32> {
        let mut place = near as usize;
        loop {
            let line = &self.lines.get(place)?.0;
            if key.is_in(line) {
                let is_usable = line::lets_in(line, key.flags()) && !self.is_idle(line, now);
                return is_usable.then_some(place as u32);
            }
            if line[K::REST] == 0 {
                return None;
            }
            place = self.next(place);
        }
    }

    #[inline(always)]
    fn is_idle(&self, line: &Line, now: Instant) -> bool {
        now.0.saturating_sub(line::last_use(line)) > *self.idle.at(K::choice(line) as u8)
    }

    /// The line whose rule a packet meets.
    #[inline(always)]
    pub fn find(&self, key: K) -> Option<u32> {
        let place = self.search(key);
        let line = &self.lines[place].0;
        (line[K::REST] != 0 && line::lets_in(line, key.flags())).then_some(place as u32)
    }

    /// The rule of a flow, whatever its guard.
    pub fn rule_of(&self, key: K) -> Option<RuleId> {
        let place = self.search(key);
        (self.lines[place].0[K::REST] != 0).then(|| self.rule_of[place])
    }

    /// The rule of a line that was found.
    pub fn rule_at(&self, place: u32) -> RuleId {
        self.rule_of[place as usize]
    }

    /// Whether a packet that arrived at `now` meets the rule of a line. It is looked at anew: since
    /// it was found, other packets of its batch may have taken rules out.
    #[inline(always)]
    pub fn look(&self, place: u32, key: K, now: Instant) -> Look {
        let line = &self.lines[place as usize].0;
        if !key.is_in(line) || !line::lets_in(line, key.flags()) {
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

    /// Counts a packet at a line, and says what becomes of it: it goes on or is dropped.
    #[inline(always)]
    pub fn count(&mut self, place: u32, bytes: usize, now: Instant) -> Decision {
        line::count::<K>(&mut self.lines[place as usize].0, bytes, now)
    }

    /// The MAC addresses that a line's rule writes; `None` for none.
    #[inline(always)]
    pub fn macs(&self, line: &Line) -> Option<&Macs> {
        match (K::choice(line) >> 8) as u8 {
            0 => None,
            place => Some(self.macs.at(place)),
        }
    }

    /// How the rule was used since its uses were last taken; `None` if it is not here.
    pub fn uses(&self, id: RuleId) -> Option<Uses> {
        let line = &self.lines[self.line_of_rule(id)?].0;
        Some(line::uses::<K>(line))
    }

    /// Takes the counts of a rule's uses out, to be added up elsewhere; `None` if it is not here,
    /// or was not used since.
    pub fn take_uses(&mut self, id: RuleId) -> Option<Uses> {
        let (uses, place) = (self.uses(id)?, self.line_of_rule(id)?);
        line::take(&mut self.lines[place].0).then_some(uses)
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

    /// Adds a rule for a flow that has none, if it is one for this table: a line can hold its action,
    /// it looks at nothing but TCP flags besides the flow, and not too many lie in its way.
    /// Returns whether it was added.
    pub fn insert(
        &mut self,
        id: RuleId,
        (mask, value): (&MatchKey, &MatchKey),
        action: &ActionWords,
        last: Instant,
    ) -> bool {
        let Some(key) = K::of(&value.0) else {
            return false;
        };
        let guard = (mask.0[4] >> 16) as u8;
        if mask.0[5] != 0 || !K::takes(action) || self.rule_of(key).is_some() {
            return false;
        }
        let place = self.search(key);
        if !self.may_take(place) {
            return false;
        }
        let Some(shared) = self.share(action) else {
            return false;
        };
        self.lines[place].0 = line::line(key, action, shared, guard, last);
        self.line_of[id as usize] = place as u32 + 1;
        self.rule_of[place] = id;
        self.len += 1;
        self.guarded += usize::from(guard != 0);
        true
    }

    /// Places of MAC addresses and idle time-out, if there are any left.
    fn share(&mut self, action: &ActionWords) -> Option<(u8, u8)> {
        let mac = match K::macs(action) {
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
        let [.., mac, idle] = K::choice(line).to_be_bytes();
        self.len -= 1;
        self.guarded -= usize::from(line::has_guard(line));
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

impl FlowTable<LineKey> {
    /// Keeps at a line the numbers of a TCP segment.
    #[inline(always)]
    pub fn note(&mut self, place: u32, progress: TcpProgress) {
        v4::note(&mut self.lines[place as usize].0, progress);
    }
}

impl<K: FlowOfLine> Places for FlowTable<K> {
    fn places(&self) -> usize {
        self.lines.len()
    }

    fn is_taken(&self, place: usize) -> bool {
        self.lines[place].0[K::REST] != 0
    }

    fn home_of(&self, place: usize) -> usize {
        self.home(K::in_line(&self.lines[place].0))
    }

    fn move_to(&mut self, from: usize, to: usize) {
        let line = self.lines[from].0;
        self.lines[to].0 = line;
        let rule = self.rule_of[from];
        self.rule_of[to] = rule;
        self.line_of[rule as usize] = to as u32 + 1;
    }
}

#[cfg(test)]
mod tests;
