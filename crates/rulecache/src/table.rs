//! The table of cached rules on the fast path (SFCache §III-C).
//!
//! # A packet's way
//! 1. The exact match (all addresses and ports, and TCP flags as far as a rule looks at them) and
//!    the masked match give a rule's number.
//! 2. By number: an idle rule is taken out, a packet whose time to live does not allow the rule's
//!    decrements is punted, all others are counted, rewritten, and forwarded or dropped.
//! 3. A packet without a rule is held if a rule for it is being made active (see
//!    [`crate::promotion`]), else punted.
//!
//! # Order within a flow
//! Packets of a flow that were punted come back later than those that meet a rule. So a rule
//! becomes active only behind them; and a packet that is punted although other packets of its
//! flow have an active rule (it differs in TCP flags or in the port of arrival) makes that rule
//! wait for the packet's return.

use crate::action::{self, Fate};
use crate::exact::{ExactTable, Refused};
use crate::key::{Lanes, MatchKey};
use crate::message::{Gone, RuleId, RuleName, Uses};
use crate::promotion::Promotion;
use crate::slots::{Slots, State, Usable};
use crate::variants::Variants;
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_classify::masked::{BATCH, MaskedLimits, MaskedTable};
use twinpath_core::wire::fields;
use twinpath_core::wire::layout::Layout;
use twinpath_core::{DropReason, Instant};

/// How much a table holds, and its times.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// Rules that match all addresses and ports.
    pub exact: usize,
    /// Rules with other masks.
    pub masked: usize,
    /// Distinct masks of those.
    pub masks: usize,
    /// Packets that may be held while rules become active.
    pub held: usize,
    /// Rules that become active together, at most.
    pub promoted_together: usize,
    /// A MARK is repeated after so long.
    pub mark_timeout: Duration,
    /// Each rule in use is reported once in so long.
    pub report_interval: Duration,
    /// Keeps outsiders from choosing packets that collide.
    pub seed: u64,
}

impl Default for TableConfig {
    fn default() -> Self {
        Self {
            exact: 32_768,
            masked: 8192,
            masks: 64,
            held: 1024,
            promoted_together: 256,
            mark_timeout: Duration::from_millis(10),
            report_interval: Duration::from_millis(500),
            seed: 0,
        }
    }
}

impl TableConfig {
    /// Rules of both kinds: their numbers are smaller than this.
    pub const fn rules(&self) -> usize {
        self.exact + self.masked
    }
}

/// What becomes of a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It was rewritten and leaves the segment, by this port if a function said so.
    Forward {
        /// The port that it leaves by.
        egress: Option<u16>,
    },
    /// It is dropped.
    Drop(DropReason),
    /// It must wait: give it to [`RuleTable::hold`].
    Hold,
    /// It is for the cores.
    Punt,
}

/// What happened in the table.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Packets that met a rule.
    pub hits: u64,
    /// Packets without one.
    pub misses: u64,
    /// Packets whose time to live did not allow the rule.
    pub guarded: u64,
    /// Packets that were held.
    pub held: u64,
    /// Held packets that went to the cores after all.
    pub held_in_vain: u64,
    /// Rules that became active.
    pub activated: u64,
    /// Active rules that had to wait for a packet of their flow to return.
    pub demoted: u64,
    /// Rules taken out because of their idle time-out.
    pub idle: u64,
    /// Rules taken out because more packets arrived than may be held.
    pub hold_full: u64,
    /// Rules for which there was no room.
    pub no_room: u64,
    /// Marks that were repeated.
    pub marks_repeated: u64,
}

/// There are as many rules or masks as there may be.
struct NoRoom;

/// The rules that packets meet on the fast path.
pub struct RuleTable {
    pub(crate) config: TableConfig,
    pub(crate) slots: Slots,
    exact: ExactTable,
    masked: MaskedTable<6>,
    /// Active rules of the masked match whose mask has bits that differ within a flow.
    sensitive: Variants,
    pub(crate) promotion: Promotion,
    /// Rules taken out unasked, to be reported.
    pub(crate) notices: VecDeque<RuleName>,
    pub(crate) counters: TableCounters,
    /// Numbers below this have been used.
    pub(crate) used_ids: u32,
    pub(crate) hand: u32,
    pub(crate) reported_until: Instant,
}

impl RuleTable {
    /// An empty table.
    pub fn new(config: TableConfig) -> Self {
        let rules = config.rules();
        let limits = |rules, masks| MaskedLimits { rules, masks };
        let seed = config.seed;
        Self {
            config,
            slots: Slots::new(rules),
            exact: ExactTable::new(config.exact, seed),
            masked: MaskedTable::new(limits(config.masked, config.masks), seed),
            sensitive: Variants::new(limits(config.masked, config.masks), rules, seed),
            promotion: Promotion::new(&config),
            notices: VecDeque::new(),
            counters: TableCounters::default(),
            used_ids: 0,
            hand: 0,
            reported_until: Instant::ZERO,
        }
    }

    /// Counters so far.
    pub fn counters(&self) -> TableCounters {
        self.counters
    }

    /// Rules that packets meet, those that wait to become active not counted.
    pub fn active(&self) -> usize {
        self.exact.len() + self.masked.len()
    }

    /// Rules that there may be.
    pub const fn capacity(&self) -> usize {
        self.config.rules()
    }

    /// Memory that the table takes when full, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes() + self.exact.memory_bytes() + self.masked.memory_bytes()
    }

    /// A rule's generation and uses, if it is active.
    pub fn active_rule(&self, id: RuleId) -> Option<(RuleName, Uses)> {
        let is_active = (id as usize) < self.slots.len() && self.slots.state(id) == State::Active;
        is_active.then(|| (self.name(id), self.slots.uses(id)))
    }

    pub(crate) fn name(&self, id: RuleId) -> RuleName {
        let generation = self.slots.generation(id);
        RuleName { id, generation }
    }

    /// The rules of several packets, as many as the shorter of the two slices holds. Reads of
    /// memory overlap, and what [`Self::packet`] will read of the rules is on its way.
    pub fn find_batch(&mut self, keys: &[MatchKey], found: &mut [Option<RuleId>]) {
        for (keys, found) in keys.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            let count = keys.len().min(found.len());
            self.find_some(&keys[..count], &mut found[..count]);
        }
    }

    fn find_some(&mut self, keys: &[MatchKey], found: &mut [Option<RuleId>]) {
        let mut homes = [0; BATCH];
        for (home, key) in homes.iter_mut().zip(keys) {
            *home = self.exact.prefetch(&key.0);
        }
        let mut missing = 0;
        for ((found, key), home) in found.iter_mut().zip(keys).zip(homes) {
            *found = self.exact.find_from(home, &key.0);
            match *found {
                Some(id) => self.slots.prefetch(id),
                None => missing += 1,
            }
        }
        if missing > 0 && !self.masked.is_empty() {
            self.find_masked(keys, found);
        }
    }

    /// The masked match of those keys that the exact one has not found.
    #[inline(never)]
    fn find_masked(&mut self, keys: &[MatchKey], found: &mut [Option<RuleId>]) {
        let (mut missing, mut places) = ([Lanes::default(); BATCH], [0; BATCH]);
        let mut count = 0;
        for (place, (key, found)) in keys.iter().zip(found.iter()).enumerate() {
            if found.is_none() {
                (missing[count], places[count]) = (key.0, place);
                count += 1;
            }
        }
        let mut hits = [None; BATCH];
        self.masked
            .lookup_batch(&missing[..count], &mut hits[..count]);
        for (place, hit) in places[..count].iter().zip(hits) {
            found[*place] = hit.map(|hit| hit.id);
            if let Some(hit) = hit {
                self.slots.prefetch(hit.id);
            }
        }
    }

    /// The rule of one packet.
    #[inline]
    pub fn find(&mut self, key: &MatchKey) -> Option<RuleId> {
        let exact = self.exact.find(&key.0);
        exact.or_else(|| self.masked.lookup(&key.0).map(|hit| hit.id))
    }

    /// Decides on a packet that arrived at `now`, with what [`Self::find_batch`] or
    /// [`Self::find`] has found since the last message was taken, and rewrites it.
    #[inline(always)]
    pub fn packet(
        &mut self,
        key: &MatchKey,
        found: Option<RuleId>,
        frame: &mut [u8],
        layout: &Layout,
        now: Instant,
    ) -> Decision {
        let Some(id) = self.usable(found, key, now) else {
            return self.miss(key);
        };
        let decrements = action::decrements_in(self.slots.action(id));
        if decrements > 0 && fields::ttl(frame, layout) <= decrements {
            self.counters.guarded += 1;
            return Decision::Punt;
        }
        self.counters.hits += 1;
        self.slots.count(id, frame.len(), now);
        let lanes = self.slots.action(id);
        if let Some(Fate::Drop(reason)) = action::fate_of(lanes) {
            return Decision::Drop(reason);
        }
        action::apply(lanes, frame, layout);
        let egress = action::egress_in(lanes);
        Decision::Forward { egress }
    }

    /// The rule that was found if it may be used; an idle one is taken out, so that whatever is
    /// found next is the same for all packets to come.
    #[inline(always)]
    fn usable(&mut self, found: Option<RuleId>, key: &MatchKey, now: Instant) -> Option<RuleId> {
        let id = found?;
        match self.slots.usable(id, now) {
            Usable::Yes => Some(id),
            why => self.find_other(id, why, key, now),
        }
    }

    #[cold]
    fn find_other(
        &mut self,
        mut id: RuleId,
        mut why: Usable,
        key: &MatchKey,
        now: Instant,
    ) -> Option<RuleId> {
        // Every turn but the first takes a rule out, so this ends.
        while why != Usable::Yes {
            if why == Usable::Idle {
                self.counters.idle += 1;
                self.take_out_active(id);
                self.quarantine(id, Gone::Idle);
            }
            id = self.find(key)?;
            why = self.slots.usable(id, now);
        }
        Some(id)
    }

    fn miss(&mut self, key: &MatchKey) -> Decision {
        let is_held = self.promotion.concerns(key);
        if self.exact.has_guards() || !self.sensitive.is_empty() {
            self.demote_variants(key, !is_held);
        }
        if is_held {
            return Decision::Hold;
        }
        self.counters.misses += 1;
        Decision::Punt
    }

    /// A packet is held or goes to the cores: active rules for others of its flow wait with it,
    /// or for its return.
    fn demote_variants(&mut self, key: &MatchKey, is_punted: bool) {
        while let Some(id) = self.variant(key) {
            self.take_out_active(id);
            let (mask, value) = self.slots.matched(id);
            if self.promotion.join(id, &mask, &value, is_punted) {
                self.counters.demoted += 1;
                self.slots.set_state(id, State::Holding);
            } else {
                self.counters.no_room += 1;
                self.quarantine(id, Gone::NoRoom);
            }
        }
    }

    /// An active rule for packets that differ from this one in nothing but bits that differ within
    /// a flow.
    fn variant(&self, key: &MatchKey) -> Option<RuleId> {
        let exact = self.exact.find_any(&key.0);
        exact.or_else(|| self.sensitive.find(key))
    }

    /// Lets packets meet a rule. Returns whether there was room.
    pub(crate) fn put_in_active(&mut self, id: RuleId) -> bool {
        let (mask, value) = self.slots.matched(id);
        let exact = match mask.is_of_a_flow() {
            true => self.exact.insert(&mask.0, &value.0, id),
            false => Err(Refused::Taken),
        };
        let before = match exact {
            Ok(before) => before,
            Err(Refused::Full) => return false,
            Err(Refused::Taken) => match self.put_in_masked(id, &mask, &value) {
                Ok(before) => before,
                Err(NoRoom) => return false,
            },
        };
        // Another rule for the same packets gives way; the cores do not send one.
        if let Some(other) = before {
            self.quarantine(other, Gone::NoRoom);
        }
        self.slots.set_state(id, State::Active);
        true
    }

    fn put_in_masked(
        &mut self,
        id: RuleId,
        mask: &MatchKey,
        value: &MatchKey,
    ) -> Result<Option<RuleId>, NoRoom> {
        let is_sensitive = !mask.and(&MatchKey::WITHIN_FLOW).is_none();
        if is_sensitive && !self.sensitive.insert(id, mask, value) {
            return Err(NoRoom);
        }
        let before = self.masked.insert(&mask.0, &value.0, id);
        // It is no longer there, or this one never was.
        let out = before.unwrap_or(Some(id));
        if let Some(out) = out.filter(|_| is_sensitive) {
            self.sensitive.remove(out, mask, value);
        }
        before.map_err(|_| NoRoom)
    }

    pub(crate) fn take_out_active(&mut self, id: RuleId) {
        let (mask, value) = self.slots.matched(id);
        if mask.is_of_a_flow() && self.exact.remove(&value.0, id) {
            return;
        }
        self.masked.remove(&mask.0, &value.0);
        if !mask.and(&MatchKey::WITHIN_FLOW).is_none() {
            self.sensitive.remove(id, &mask, &value);
        }
    }

    /// A rule that is in no table any more is kept with its uses until its number is used again.
    pub(crate) fn quarantine(&mut self, id: RuleId, why: Gone) {
        self.slots.quarantine(id, why);
        self.notices.push_back(self.name(id));
    }
}
