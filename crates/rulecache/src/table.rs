//! The table of cached rules on the fast path (SFCache §III-C).
//!
//! # A packet's way
//! 1. The exact match (all addresses and ports, and TCP flags as far as a rule looks at them) and
//!    the masked match give a rule's number.
//! 2. By number: an idle rule is taken out, a packet whose time to live does not allow the rule's
//!    decrements is punted, all others are counted, rewritten, and forwarded or dropped.
//! 3. A packet without a rule is held if a rule for it is being made active (see
//!    `table/promotion.rs`), else punted.
//!
//! # Order within a flow
//! Packets of a flow that were punted come back later than those that meet a rule. So a rule
//! becomes active only behind them; and a packet that is punted although other packets of its
//! flow have an active rule (it differs in TCP flags or in the port of arrival) makes that rule
//! wait for the packet's return. Behind a fragment, which meets no rule, whole packets of its flow wait
//! for its return (see `table/behind.rs`).

mod behind;
mod packet;
mod promotion;

pub use promotion::{Effect, Held};

use crate::exact::{ExactTable, Refused};
use crate::flows::FlowTables;
use crate::key::MatchKey;
use crate::message::{Gone, RuleId, RuleName, Uses};
use crate::slots::{Slots, State};
use crate::variants::Variants;
use behind::Behind;
use promotion::Promotion;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;
use twinpath_classify::masked::{MaskedLimits, MaskedTable};
use twinpath_core::{Identifications, Instant, Share};

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
    /// Which identifications its rules draw.
    pub identifications: Share,
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
            identifications: Share::FAST_PATH,
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

/// What happened in the table.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Packets that met a rule.
    pub hits: u64,
    /// Packets without one.
    pub misses: u64,
    /// Packets whose time to live did not allow the rule.
    pub guarded: u64,
    /// Packets that were held, for rules or behind fragments.
    pub held: u64,
    /// Held packets that went to the slow path after all.
    pub held_then_punted: u64,
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
    /// Fragments that packets of their flow may overtake: too many flows had some on the slow path.
    pub fragments_alone: u64,
    /// Marks that were repeated.
    pub marks_repeated: u64,
}

/// What was found for a packet, to be given to [`RuleTable::packet`]. It takes four bytes, also
/// where there may be none.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Found(NonZeroU32);

/// Marks a line of the tables of flows; others are rules.
const LINE: u32 = 1 << 31;

impl Found {
    /// What [`Self::bits`] said; `None` for 0.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match NonZeroU32::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// As a number, which is never 0.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0.get()
    }

    #[inline(always)]
    const fn at(number: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(number))
    }

    #[inline(always)]
    const fn number(self) -> u32 {
        self.0.get() - 1
    }

    /// A line of the tables of flows, or else a rule.
    #[inline(always)]
    const fn place(self) -> Result<u32, RuleId> {
        match self.number() & LINE {
            0 => Err(self.number()),
            _ => Ok(self.number() & !LINE),
        }
    }
}

/// There are as many rules or masks as there may be.
struct NoRoom;

/// The rules that packets meet on the fast path.
pub struct RuleTable {
    config: TableConfig,
    slots: Slots,
    /// Of the rules that match all addresses and ports, those that fit there; others are in the
    /// next.
    flows: FlowTables,
    exact: ExactTable,
    masked: MaskedTable<6>,
    /// Active rules of the masked match whose mask has bits that differ within a flow.
    sensitive: Variants,
    promotion: Promotion,
    /// Packets behind fragments of their flow.
    behind: Behind,
    /// For packets whose rules have one drawn.
    identifications: Identifications,
    /// Rules taken out unasked, to be reported.
    notices: VecDeque<RuleName>,
    counters: TableCounters,
    /// Numbers below this have been used.
    used_ids: u32,
    hand: u32,
    reported_until: Instant,
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
            flows: FlowTables::new(config.exact, rules, seed),
            exact: ExactTable::new(config.exact, seed),
            masked: MaskedTable::new(limits(config.masked, config.masks), seed),
            sensitive: Variants::new(limits(config.masked, config.masks), rules, seed),
            promotion: Promotion::new(&config),
            behind: Behind::default(),
            identifications: Identifications::new(config.identifications, seed),
            notices: VecDeque::new(),
            counters: TableCounters::default(),
            used_ids: 0,
            hand: 0,
            reported_until: Instant::ZERO,
        }
    }

    /// Takes the memory of rules now, before packets could wait for it (see
    /// [`ZeroedArray::touch`](twinpath_core::memory::ZeroedArray::touch)).
    pub fn touch(&mut self) {
        self.slots.touch();
        self.flows.touch();
        self.exact.touch();
        self.sensitive.touch();
    }

    /// Counters so far.
    pub fn counters(&self) -> TableCounters {
        self.counters
    }

    /// Rules that packets meet, those that wait to become active not counted.
    pub fn active(&self) -> usize {
        self.flows.len() + self.exact.len() + self.masked.len()
    }

    /// Rules that there may be.
    pub const fn capacity(&self) -> usize {
        self.config.rules()
    }

    /// Keeps outsiders from choosing packets that collide.
    pub const fn seed(&self) -> u64 {
        self.config.seed
    }

    /// Whether there are any rules but those of one TCP or UDP flow.
    #[inline(always)]
    pub const fn has_others(&self) -> bool {
        self.exact.len() > 0 || !self.masked.is_empty()
    }

    /// Memory that the table takes when full, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
            + self.flows.memory_bytes()
            + self.exact.memory_bytes()
            + self.masked.memory_bytes()
            + self.identifications.memory_bytes()
    }

    /// A rule's generation and uses, if it is active.
    pub fn active_rule(&self, id: RuleId) -> Option<(RuleName, Uses)> {
        let is_active = (id as usize) < self.slots.len() && self.slots.state(id) == State::Active;
        is_active.then(|| (self.name(id), self.uses(id)))
    }

    /// The number of a rule that was just found.
    pub fn rule(&self, found: Found) -> RuleId {
        let at_line = |line| self.flows.rule_at(line);
        found.place().map_or_else(|id| id, at_line)
    }

    fn name(&self, id: RuleId) -> RuleName {
        let generation = self.slots.generation(id);
        RuleName { id, generation }
    }

    /// How a rule was used since it was made.
    fn uses(&self, id: RuleId) -> Uses {
        let (told, since) = (self.slots.uses(id), self.flows.uses(id));
        since.map_or(told, |since| Uses {
            packets: told.packets + since.packets,
            bytes: told.bytes + since.bytes,
            last: told.last.max(since.last),
            progress: since.progress.or(told.progress),
        })
    }

    /// Whether a rule was hit since this was last asked.
    fn take_hit(&mut self, id: RuleId) -> bool {
        match self.flows.take_uses(id) {
            Some(uses) => {
                self.slots.add_uses(id, uses);
                self.slots.take_hit(id);
                true
            }
            None => self.slots.take_hit(id),
        }
    }

    /// The rule of a packet in the table of exact matches.
    #[inline]
    fn find_exact(&self, key: &MatchKey) -> Option<Found> {
        if self.exact.len() == 0 {
            return None;
        }
        let id = self.exact.find(&key.0)?;
        self.slots.prefetch(id);
        Some(Found::at(id))
    }

    /// The rule of one packet.
    #[inline]
    pub fn find(&mut self, key: &MatchKey) -> Option<Found> {
        self.flow_rule(key).or_else(|| self.find_beside_flows(key))
    }

    /// The same for a packet whose flow has no rule of its own.
    #[inline]
    fn find_beside_flows(&mut self, key: &MatchKey) -> Option<Found> {
        self.find_exact(key)
            .or_else(|| self.masked.lookup(&key.0).map(|hit| Found::at(hit.id)))
    }

    /// [`Self::find`], quicker for a packet that still meets the rule which an earlier one of its
    /// flow has met.
    #[inline]
    pub fn find_again(&mut self, earlier: Option<Found>, key: &MatchKey) -> Option<Found> {
        match earlier.filter(|earlier| self.meets(*earlier, key)) {
            Some(found) => Some(found),
            None => self.find(key),
        }
    }

    /// Whether a packet meets a rule that was found for another. No two rules contradict, so any
    /// that it meets is right.
    #[inline]
    pub fn meets(&self, found: Found, key: &MatchKey) -> bool {
        match found.place() {
            Ok(line) => self.flows.is_met(line, key),
            Err(id) => self.slots.is_met(id, key),
        }
    }

    /// The rule of one flow that a packet with this key meets, uncounted.
    #[inline]
    pub fn flow_rule(&self, key: &MatchKey) -> Option<Found> {
        Some(Found::at(self.flows.find(key)? | LINE))
    }

    /// What a packet will read of the rule that an earlier one of its flow has met is on its way.
    #[inline(always)]
    pub fn prefetch(&self, found: Found) {
        match found.place() {
            Ok(line) => self.flows.prefetch_line(line),
            Err(id) => self.slots.prefetch(id),
        }
    }

    /// Lets packets meet a rule. Returns whether there was room.
    fn put_in_active(&mut self, id: RuleId) -> bool {
        let (mask, value) = self.slots.matched(id);
        let exact = match mask.is_of_a_flow() {
            true => self.put_in_exact(id, &mask, &value),
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
        // Another rule for the same packets gives way; the workers do not send one.
        if let Some(other) = before {
            self.quarantine(other, Gone::NoRoom);
        }
        self.slots.set_state(id, State::Active);
        true
    }

    /// Among the rules of flows, of which each has one.
    fn put_in_exact(
        &mut self,
        id: RuleId,
        mask: &MatchKey,
        value: &MatchKey,
    ) -> Result<Option<RuleId>, Refused> {
        let known = self.flows.rule_of(value);
        let mut before = None;
        if let Some(known) = known {
            if self.slots.matched(known) != (*mask, *value) {
                return Err(Refused::Taken);
            }
            self.take_out_active(known);
            before = Some(known);
        }
        if self.flows.len() + self.exact.len() >= self.config.exact {
            // A rule that is there may be replaced.
            return match self.exact.find_any(&value.0) {
                Some(_) => self.exact.insert(&mask.0, &value.0, id),
                None => Err(Refused::Full),
            };
        }
        let action = self.slots.action(id);
        let last = self.slots.uses(id).last;
        let has_rule = self.exact.find_any(&value.0).is_some();
        if !has_rule && self.flows.insert(id, (mask, value), action, last) {
            return Ok(before);
        }
        Ok(self.exact.insert(&mask.0, &value.0, id)?.or(before))
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

    fn take_out_active(&mut self, id: RuleId) {
        if let Some(uses) = self.flows.remove(id) {
            return self.slots.add_uses(id, uses);
        }
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
    fn quarantine(&mut self, id: RuleId, why: Gone) {
        self.slots.quarantine(id, why);
        self.notices.push_back(self.name(id));
    }
}
