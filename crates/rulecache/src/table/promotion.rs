//! How a rule becomes active without anything overtaking, and what else the workers ask for.
//!
//! When a rule arrives, packets of its flows may still be on their way to the slow path and back. So
//! at first, packets that it matches are *held*; a MARK goes down the link behind all punted
//! packets; the workers answer MARKED behind everything that they have sent out by then; and only
//! then the rule becomes active, and the held packets leave in order. That is one round trip.
//!
//! One such promotion is under way at a time, of many rules together; rules that arrive meanwhile
//! wait for the next. So it does not matter that a held packet may match several of them: all
//! become active in the same instant.
//!
//! If more packets arrive than may be held, the promotion is given up: the packets go to the slow path
//! in order, and half as many rules are promoted together next; a rule for which alone too many
//! arrive is gone. With each promotion that succeeds twice as many may go together again. If one of its rules is cleared, the packets go to the slow path
//! too, and the others wait for a new mark.

use super::{RuleTable, TableConfig};
use crate::key::MatchKey;
use crate::message::{CacheMessage, Gone, NewRule, RuleId, RuleName, Uses};
use crate::slots::State;
use crate::variants::Variants;
use std::collections::VecDeque;
use twinpath_classify::masked::MaskedLimits;
use twinpath_core::wire::layout::Layout;
use twinpath_core::{Decision, Frame, Instant};

/// A promotion whose mark is renewed more often than this (and once for each of its rules) is
/// given up, so that nobody is held for long.
const MAX_RENEWALS: u32 = 32;

/// Rules whose uses are fetched while others are reported.
const REPORTED_AHEAD: u32 = 16;

/// A packet that waits for a rule to become active.
#[derive(Debug)]
pub struct Held {
    /// The packet.
    pub frame: Frame,
    /// Where its headers are.
    pub layout: Layout,
    /// Its key.
    pub key: MatchKey,
}

/// What the table wants done, in this order.
#[derive(Debug)]
pub enum Effect {
    /// Send this to the slow path, behind all packets punted before.
    Send(CacheMessage),
    /// A held packet goes on; never with [`Decision::Hold`].
    Release(Held, Decision),
}

/// Tells marks behind fragments from those of rules that become active.
pub(super) const FRAGMENT_MARKS: u32 = 1 << 31;

/// The rules that are becoming active.
pub(crate) struct Promotion {
    /// Those whose packets are held. Bits that differ within a flow are left out: all packets of
    /// the flow stay in order.
    holding: Variants,
    ids: Vec<RuleId>,
    held: VecDeque<Held>,
    /// Those that wait for the next promotion.
    pending: VecDeque<RuleName>,
    /// Most that are promoted together.
    together: usize,
    mark: u32,
    /// How often the mark was renewed since the promotion began.
    renewals: u32,
    /// The mark is to be sent.
    is_due: bool,
    sent: Instant,
}

impl Promotion {
    pub fn new(config: &TableConfig) -> Self {
        let limits = MaskedLimits {
            rules: config.promoted_together,
            masks: config.promoted_together,
        };
        Self {
            holding: Variants::new(limits, config.rules(), config.seed),
            ids: Vec::new(),
            held: VecDeque::new(),
            pending: VecDeque::new(),
            together: config.promoted_together,
            mark: 0,
            renewals: 0,
            is_due: false,
            sent: Instant::ZERO,
        }
    }

    /// Whether a packet without an active rule must be held.
    #[inline(always)]
    pub fn concerns(&self, key: &MatchKey) -> bool {
        !self.holding.is_empty() && self.holding.find(key).is_some()
    }

    /// Whether packets of this one's flow are held.
    pub fn holds_of_flow(&self, key: &MatchKey) -> bool {
        let flow = key.of_flow();
        self.held.iter().any(|held| held.key.of_flow() == flow)
    }

    /// A rule's packets are held from now on; with `anew`, until everything that has been punted
    /// by now has come back. Returns whether there was room.
    pub fn join(&mut self, id: RuleId, mask: &MatchKey, value: &MatchKey, anew: bool) -> bool {
        let has_room = self.holding.insert(id, mask, value);
        if has_room {
            self.ids.push(id);
        }
        if has_room && anew {
            self.renew_mark();
        }
        has_room
    }

    /// Only an answer to a mark that is sent from now on counts.
    fn renew_mark(&mut self) {
        self.mark = self.mark.wrapping_add(1) & !FRAGMENT_MARKS;
        self.renewals += 1;
        self.is_due = true;
    }

    fn remove(&mut self, id: RuleId, mask: &MatchKey, value: &MatchKey) {
        self.holding.remove(id, mask, value);
        self.ids.retain(|&other| other != id);
    }
}

impl RuleTable {
    /// Keeps a packet for which [`Decision::Hold`] was given. If no more can be kept, it and all
    /// others go to the slow path.
    pub fn hold(&mut self, held: Held, effects: &mut Vec<Effect>) {
        self.counters.held += 1;
        self.keep(held, effects);
        if self.promotion.held.len() > self.config.held {
            self.give_up(effects);
        }
    }

    /// A packet waits for a fragment of its flow, or for a rule.
    fn keep(&mut self, held: Held, effects: &mut Vec<Effect>) {
        match !self.behind.is_empty() && self.waits_behind(&held.key) {
            true => self.behind.hold(held, self.config.held, effects),
            false => self.promotion.held.push_back(held),
        }
    }

    /// Packets that are being held.
    pub fn held(&self) -> usize {
        self.promotion.held.len() + self.behind.held()
    }

    /// The workers have begun another life and know of no rule: all are gone, and the packets held
    /// for them go to the slow path.
    pub fn forget_all(&mut self, effects: &mut Vec<Effect>) {
        for id in 0..std::mem::take(&mut self.used_ids) {
            match self.slots.state(id) {
                State::Active => self.take_out_active(id),
                State::Holding => {
                    let (mask, value) = self.slots.matched(id);
                    self.promotion.remove(id, &mask, &value);
                }
                State::Free | State::Pending | State::Quarantined => {}
            }
            // Any generation is higher.
            self.slots.quarantine_unseen(id, 0);
        }
        self.hand = 0;
        self.notices.clear();
        self.promotion.pending.clear();
        self.promotion.renewals = 0;
        self.punt_held(effects);
        self.behind.give_up(effects);
    }

    fn give_up(&mut self, effects: &mut Vec<Effect>) {
        self.promotion.renewals = 0;
        let ids = std::mem::take(&mut self.promotion.ids);
        let is_alone = ids.len() == 1;
        self.promotion.together = (ids.len() / 2).max(1);
        for id in ids.into_iter().rev() {
            let (mask, value) = self.slots.matched(id);
            self.promotion.holding.remove(id, &mask, &value);
            match is_alone {
                true => {
                    self.quarantine(id, Gone::HoldFull);
                    self.counters.hold_full += 1;
                }
                false => {
                    self.slots.set_state(id, State::Pending);
                    self.promotion.pending.push_front(self.name(id));
                }
            }
        }
        self.punt_held(effects);
        self.start_next();
    }

    fn punt_held(&mut self, effects: &mut Vec<Effect>) {
        self.counters.held_then_punted += self.promotion.held.len() as u64;
        let held = self.promotion.held.drain(..);
        effects.extend(held.map(|held| Effect::Release(held, Decision::Punt)));
    }

    /// Takes a message from the slow path. Anything that is due afterwards comes with
    /// [`Self::tick`].
    pub fn message(&mut self, message: &CacheMessage, effects: &mut Vec<Effect>) {
        match message {
            CacheMessage::Add(name, rule) => self.add(*name, rule, effects),
            CacheMessage::Clear(name) => self.clear(*name, effects),
            CacheMessage::Query(name) => self.query(*name, effects),
            CacheMessage::Marked(mark) => self.marked(*mark, effects),
            // Those go the other way.
            CacheMessage::Installed(_)
            | CacheMessage::Gone(..)
            | CacheMessage::Used(..)
            | CacheMessage::Mark(_) => {}
        }
    }

    fn add(&mut self, name: RuleName, rule: &NewRule, effects: &mut Vec<Effect>) {
        let id = name.id;
        if id as usize >= self.slots.len() {
            let unknown = CacheMessage::Gone(name, Uses::default(), Gone::NoSuchId);
            return effects.push(Effect::Send(unknown));
        }
        if name.generation > self.slots.generation(id) {
            self.take_out(id, Gone::Cleared, effects);
            self.slots.store(id, name.generation, rule);
            self.used_ids = self.used_ids.max(id + 1);
            self.queue(name);
            if self.promotion.ids.is_empty() {
                self.start_next();
            }
        }
        self.answer(name, effects);
    }

    /// Lets a rule wait for the next promotion. Names whose rule is gone are swept out before they
    /// are more than there can be rules.
    fn queue(&mut self, name: RuleName) {
        let slots = &self.slots;
        if self.promotion.pending.len() >= slots.len() {
            let is_current = |name: &RuleName| {
                slots.generation(name.id) == name.generation
                    && slots.state(name.id) == State::Pending
            };
            self.promotion.pending.retain(is_current);
        }
        self.promotion.pending.push_back(name);
    }

    /// Says how a rule stands; nothing to somebody who asks about one that is long replaced.
    fn answer(&mut self, name: RuleName, effects: &mut Vec<Effect>) {
        if name.generation != self.slots.generation(name.id) {
            return;
        }
        let message = match self.slots.state(name.id) {
            State::Quarantined | State::Free => self.gone(name),
            _ => CacheMessage::Installed(name),
        };
        effects.push(Effect::Send(message));
    }

    fn gone(&self, name: RuleName) -> CacheMessage {
        let (uses, why) = (self.uses(name.id), self.slots.reason(name.id));
        CacheMessage::Gone(name, uses, why)
    }

    fn clear(&mut self, name: RuleName, effects: &mut Vec<Effect>) {
        let id = name.id;
        if id as usize >= self.slots.len() {
            let unknown = CacheMessage::Gone(name, Uses::default(), Gone::NoSuchId);
            return effects.push(Effect::Send(unknown));
        }
        let known = self.slots.generation(id);
        if name.generation == known {
            self.take_out(id, Gone::Cleared, effects);
        } else if name.generation > known {
            self.take_out(id, Gone::Cleared, effects);
            self.slots.quarantine_unseen(id, name.generation);
            self.used_ids = self.used_ids.max(id + 1);
        }
        self.answer(name, effects);
    }

    /// Takes a rule out wherever it stands: the match first, then the rest.
    fn take_out(&mut self, id: RuleId, why: Gone, effects: &mut Vec<Effect>) {
        match self.slots.state(id) {
            State::Free | State::Quarantined => {}
            // It is passed over when its turn comes.
            State::Pending => self.slots.quarantine(id, why),
            State::Active => {
                self.take_out_active(id);
                self.slots.quarantine(id, why);
            }
            State::Holding => {
                let (mask, value) = self.slots.matched(id);
                self.promotion.remove(id, &mask, &value);
                self.slots.quarantine(id, why);
                self.hold_anew(effects);
            }
        }
    }

    /// A held packet may have waited for a rule that is gone: all go to the slow path, and the rules
    /// that are left wait for these too.
    fn hold_anew(&mut self, effects: &mut Vec<Effect>) {
        self.punt_held(effects);
        if self.promotion.ids.is_empty() {
            self.start_next();
        } else {
            self.promotion.renew_mark();
        }
    }

    fn query(&mut self, name: RuleName, effects: &mut Vec<Effect>) {
        if name.id as usize >= self.slots.len() {
            let unknown = CacheMessage::Gone(name, Uses::default(), Gone::NoSuchId);
            return effects.push(Effect::Send(unknown));
        }
        let generation = self.slots.generation(name.id);
        let message = if name.generation > generation {
            // Its ADD is lost or still to come: it has not been used.
            CacheMessage::Used(name, Uses::default())
        } else if name.generation < generation {
            return;
        } else if self.slots.state(name.id) == State::Quarantined {
            self.gone(name)
        } else {
            CacheMessage::Used(name, self.uses(name.id))
        };
        effects.push(Effect::Send(message));
    }

    /// Everything punted before the mark has come back.
    fn marked(&mut self, mark: u32, effects: &mut Vec<Effect>) {
        if mark & FRAGMENT_MARKS != 0 {
            return self.fragments_are_back(mark, effects);
        }
        let is_awaited = !self.promotion.ids.is_empty() && !self.promotion.is_due;
        if !is_awaited || mark != self.promotion.mark {
            return;
        }
        self.promotion.renewals = 0;
        self.promotion.together = (2 * self.promotion.together).min(self.config.promoted_together);
        for id in std::mem::take(&mut self.promotion.ids) {
            self.activate(id);
        }
        let mut held = std::mem::take(&mut self.promotion.held);
        self.release(&mut held, effects);
        if self.promotion.ids.is_empty() {
            self.start_next();
        }
    }

    /// Fragments that were punted before the mark have come back, and what waited behind them goes on.
    fn fragments_are_back(&mut self, mark: u32, effects: &mut Vec<Effect>) {
        while let Some(mut held) = self.behind.take_passed(mark) {
            self.release(&mut held, effects);
            self.behind.give_back(held);
        }
    }

    fn activate(&mut self, id: RuleId) {
        let (mask, value) = self.slots.matched(id);
        self.promotion.holding.remove(id, &mask, &value);
        if self.put_in_active(id) {
            self.counters.activated += 1;
        } else {
            self.counters.no_room += 1;
            self.quarantine(id, Gone::NoRoom);
        }
    }

    /// Packets that were held meet the rules as if they arrived now. One of them may make a rule wait
    /// again, or be a fragment, and packets behind it wait with it.
    fn release(&mut self, packets: &mut VecDeque<Held>, effects: &mut Vec<Effect>) {
        while let Some(mut held) = packets.pop_front() {
            let (found, now) = (self.find(&held.key), held.frame.timestamp());
            let bytes = held.frame.bytes_mut();
            match self.packet(&held.key, found, bytes, &held.layout, now) {
                Decision::Hold => self.keep(held, effects),
                decision => {
                    self.counters.held_then_punted += u64::from(decision == Decision::Punt);
                    effects.push(Effect::Release(held, decision));
                }
            }
        }
    }

    /// Begins the next promotion with the rules that wait.
    fn start_next(&mut self) {
        while self.promotion.ids.len() < self.promotion.together
            && let Some(name) = self.promotion.pending.pop_front()
        {
            let is_current = self.name(name.id) == name;
            if is_current && self.slots.state(name.id) == State::Pending {
                self.start(name.id);
            }
        }
    }

    fn start(&mut self, id: RuleId) {
        let (mask, value) = self.slots.matched(id);
        if self.promotion.join(id, &mask, &value, true) {
            self.slots.set_state(id, State::Holding);
        } else {
            self.counters.no_room += 1;
            self.quarantine(id, Gone::NoRoom);
        }
    }

    /// Says what is due: call it after each batch of packets, when those punted are on the link,
    /// and after messages. Reports keep the time of packets (`now`), marks that of the `link`.
    pub fn tick(&mut self, now: Instant, link: Instant, effects: &mut Vec<Effect>) {
        if self.promotion.renewals > MAX_RENEWALS + self.config.promoted_together as u32 {
            self.give_up(effects);
        }
        self.tell_mark(link, effects);
        let timeout = self.config.mark_timeout;
        self.behind.tell_mark(link, timeout, effects);
        while let Some(name) = self.notices.pop_front() {
            let is_gone = self.slots.state(name.id) == State::Quarantined;
            if is_gone && self.name(name.id) == name {
                effects.push(Effect::Send(self.gone(name)));
            }
        }
        self.report(now, effects);
    }

    fn tell_mark(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let promotion = &mut self.promotion;
        if promotion.ids.is_empty() {
            return;
        }
        let is_late = now.since(promotion.sent) >= self.config.mark_timeout;
        if promotion.is_due || is_late {
            self.counters.marks_repeated += u64::from(!promotion.is_due);
            promotion.is_due = false;
            promotion.sent = now;
            effects.push(Effect::Send(CacheMessage::Mark(promotion.mark)));
        }
    }

    /// A hand moves over the rules once in the report interval.
    fn report(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let ids = u128::from(self.used_ids);
        let interval = self.config.report_interval.as_nanos().max(1);
        let elapsed = now.since(self.reported_until).as_nanos().min(interval);
        let due = (ids * elapsed / interval) as u32;
        if due == 0 && ids > 0 {
            return;
        }
        self.reported_until = now;
        for _ in 0..due {
            self.hand = (self.hand + 1) % self.used_ids;
            // What is far ahead is not waited for.
            let ahead = self.hand.wrapping_add(REPORTED_AHEAD) % self.used_ids;
            self.flows.prefetch_rule(ahead);
            self.report_one(self.hand, effects);
        }
    }

    fn report_one(&mut self, id: RuleId, effects: &mut Vec<Effect>) {
        // One that waits to become active again was used before.
        let is_in_use = matches!(self.slots.state(id), State::Active | State::Holding);
        if is_in_use && self.take_hit(id) {
            let message = CacheMessage::Used(self.name(id), self.uses(id));
            effects.push(Effect::Send(message));
        }
    }

    /// Reports every rule that was used since its last report, as when a run ends.
    pub fn report_all(&mut self, effects: &mut Vec<Effect>) {
        (0..self.used_ids).for_each(|id| self.report_one(id, effects));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After the workers have begun another life their generations begin at 1 again.
    #[test]
    fn rules_of_another_life_are_taken_whatever_there_was() {
        let mut table = RuleTable::new(TableConfig::default());
        let name = |id, generation| RuleName { id, generation };
        let mut effects = Vec::new();
        let rule = NewRule {
            mask: MatchKey::ALWAYS,
            value: MatchKey::default(),
            action: crate::action::Action::unpack(&[0; 8]).expect("forward"),
            used: Instant::ZERO,
        };
        table.message(&CacheMessage::Add(name(0, 7), Box::new(rule)), &mut effects);
        table.message(&CacheMessage::Clear(name(5, 9)), &mut effects);
        let mark = table.promotion.mark;
        table.message(&CacheMessage::Marked(mark), &mut effects);
        table.forget_all(&mut effects);
        effects.clear();
        for id in [0, 5] {
            let again = CacheMessage::Add(name(id, 1), Box::new(rule));
            table.message(&again, &mut effects);
        }
        let installed =
            |effect: &Effect| matches!(effect, Effect::Send(CacheMessage::Installed(_)));
        assert!(
            effects.iter().all(installed) && effects.len() == 2,
            "{effects:?}"
        );
        assert_eq!(table.active(), 0);
    }

    /// Whoever asks about a number that the table does not have is told so.
    #[test]
    fn numbers_that_there_are_not_are_told_as_such() {
        let mut table = RuleTable::new(TableConfig {
            exact: 2,
            masked: 2,
            masks: 1,
            ..TableConfig::default()
        });
        let name = |generation| RuleName { id: 4, generation };
        for message in [
            CacheMessage::Query(name(0)),
            CacheMessage::Query(name(7)),
            CacheMessage::Clear(name(0)),
            CacheMessage::Clear(name(7)),
        ] {
            let mut effects = Vec::new();
            table.message(&message, &mut effects);
            let is_told = matches!(
                effects.as_slice(),
                [Effect::Send(CacheMessage::Gone(_, _, Gone::NoSuchId))]
            );
            assert!(is_told, "{message:?}: {effects:?}");
        }
    }
}
