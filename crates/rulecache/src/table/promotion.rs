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
//! While it is under way, packets of other flows may go to the slow path past active rules of theirs
//! (a FIN, where a rule looks at TCP flags). Those rules' packets are held from then on, and the rules
//! are of the next promotion: the one under way waits for no more than it began with. So no rule waits for
//! more than two marks, whatever other connections send.
//!
//! If more packets arrive than may be held, the promotion is given up: the packets go to the slow path
//! in order, and half as many rules are promoted together next; a rule for which alone too many
//! arrive is gone. With each promotion that succeeds twice as many may go together again. If one of its
//! rules is cleared, the packets that waited for that rule alone go to the slow path too.

use super::{RuleTable, TableConfig};
use crate::key::MatchKey;
use crate::message::{CacheMessage, Gone, NewRule, RuleId, RuleName, Uses};
use crate::slots::State;
use crate::variants::Variants;
use std::collections::VecDeque;
use twinpath_classify::masked::MaskedLimits;
use twinpath_core::wire::layout::Layout;
use twinpath_core::{Decision, Frame, Instant};

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
    /// Those that become active when the mark is answered.
    ids: Vec<RuleId>,
    /// Those whose packets are held as well, until the next mark is.
    later: Vec<RuleId>,
    held: VecDeque<Held>,
    /// Those that wait for the next promotion.
    pending: VecDeque<RuleName>,
    /// Most that are promoted together.
    together: usize,
    mark: u32,
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
            later: Vec::new(),
            held: VecDeque::new(),
            pending: VecDeque::new(),
            together: config.promoted_together,
            mark: 0,
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

    /// A rule's packets are held from now on: until everything that has been punted by now has come
    /// back, if `is_punted`, and at least until those are released that are held already. Returns whether
    /// there was room.
    pub fn join(&mut self, id: RuleId, mask: &MatchKey, value: &MatchKey, is_punted: bool) -> bool {
        if !self.holding.insert(id, mask, value) {
            return false;
        }
        if self.ids.is_empty() {
            self.begin();
        }
        // A mark that is still to be sent goes behind all that has been punted.
        let is_in_time = self.is_due || !is_punted && self.later.is_empty();
        match is_in_time {
            true => self.ids.push(id),
            false => self.later.push(id),
        }
        true
    }

    /// Only an answer to a mark that is sent from now on counts.
    fn begin(&mut self) {
        self.mark = self.mark.wrapping_add(1) & !FRAGMENT_MARKS;
        self.is_due = true;
    }

    /// The rules that have waited for the next promotion are those of the one that begins.
    fn go_on(&mut self) {
        self.ids.append(&mut self.later);
        if !self.ids.is_empty() {
            self.begin();
        }
    }

    fn remove(&mut self, id: RuleId, mask: &MatchKey, value: &MatchKey) {
        self.holding.remove(id, mask, value);
        for ids in [&mut self.ids, &mut self.later] {
            ids.retain(|&other| other != id);
        }
    }

    /// Takes out the packets that may be held for a rule, in their order.
    fn take_held_for(&mut self, mask: &MatchKey, value: &MatchKey) -> VecDeque<Held> {
        let mask = mask.without(&MatchKey::WITHIN_FLOW);
        let all = std::mem::take(&mut self.held).into_iter();
        let (its, others) = all.partition(|held| held.key.of_flow().matches(&mask, value));
        self.held = others;
        its
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
        self.punt_held(effects);
        self.behind.give_up(effects);
    }

    fn give_up(&mut self, effects: &mut Vec<Effect>) {
        let mut ids = std::mem::take(&mut self.promotion.ids);
        ids.append(&mut self.promotion.later);
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
                if self.promotion.ids.is_empty() {
                    self.promotion.go_on();
                }
                let mut held = self.promotion.take_held_for(&mask, &value);
                self.release(&mut held, effects);
                if self.promotion.ids.is_empty() {
                    self.start_next();
                }
            }
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
        self.promotion.together = (2 * self.promotion.together).min(self.config.promoted_together);
        for id in std::mem::take(&mut self.promotion.ids) {
            self.activate(id);
        }
        self.promotion.go_on();
        let mut held = std::mem::take(&mut self.promotion.held);
        self.release(&mut held, effects);
        self.start_next();
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

    /// Begins the next promotion with the rules that wait, while its mark has not been sent.
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
    use crate::field::Field;
    use twinpath_core::wire::tcp::flags;
    use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};
    use twinpath_core::{Direction, Pool};

    const CLIENT: [u8; 4] = [10, 0, 0, 1];

    /// A segment of a client's connection.
    fn segment(port: u16, flags: u8) -> Held {
        let (from, to) = (Endpoint::v4(CLIENT, port), Endpoint::v4([192, 0, 2, 1], 80));
        let packet = PacketBuilder::tcp(from, to)
            .flags(flags)
            .to_vec()
            .expect("short");
        let frame = Pool::new(1, 1500).take_filled(&packet).expect("room");
        let layout = dissect(&packet).expect("a packet");
        let key = MatchKey::of(&packet, &layout, 1, Direction::Original).expect("plain");
        Held { frame, layout, key }
    }

    /// What forwards a connection's segments, but its FIN.
    fn rule_of(port: u16) -> NewRule {
        let mask = MatchKey::EXACT.or(&Field::TcpFlags.place(flags::FIN.into()));
        NewRule {
            mask,
            value: segment(port, flags::ACK).key.and(&mask),
            action: crate::action::Action::unpack(&[0; 8]).expect("forward"),
            used: Instant::ZERO,
        }
    }

    /// A packet meets the rules; if it is to be held it is.
    fn meets(table: &mut RuleTable, mut packet: Held, effects: &mut Vec<Effect>) -> Decision {
        let (found, now) = (table.find(&packet.key), packet.frame.timestamp());
        let bytes = packet.frame.bytes_mut();
        let decision = table.packet(&packet.key, found, bytes, &packet.layout, now);
        if decision == Decision::Hold {
            table.hold(packet, effects);
        }
        decision
    }

    /// The mark that is sent now, if one is.
    fn mark(table: &mut RuleTable) -> Option<u32> {
        let mut effects = Vec::new();
        table.tick(Instant::ZERO, Instant::ZERO, &mut effects);
        effects.iter().find_map(|effect| match effect {
            Effect::Send(CacheMessage::Mark(mark)) => Some(*mark),
            _ => None,
        })
    }

    /// Connections that end take rules out of use, and nobody who waits for another rule waits for them.
    #[test]
    fn a_fin_of_one_connection_delays_no_other() {
        let mut table = RuleTable::new(TableConfig::default());
        let mut effects = Vec::new();
        let name = |id| RuleName { id, generation: 1 };
        let add = |id, port| CacheMessage::Add(name(id), Box::new(rule_of(port)));
        let ending = [1000, 1001, 1002];
        for (id, port) in (0..).zip(ending) {
            table.message(&add(id, port), &mut effects);
            let mark = mark(&mut table).expect("due");
            table.message(&CacheMessage::Marked(mark), &mut effects);
        }
        assert_eq!(table.active(), ending.len());

        table.message(&add(7, 2000), &mut effects);
        let first = mark(&mut table).expect("due");
        let other = meets(&mut table, segment(2000, flags::ACK), &mut effects);
        assert_eq!(other, Decision::Hold);
        for port in ending {
            let fin = meets(
                &mut table,
                segment(port, flags::ACK | flags::FIN),
                &mut effects,
            );
            assert_eq!(fin, Decision::Punt);
            assert_eq!(mark(&mut table), None, "one is under way");
        }
        let behind = meets(&mut table, segment(ending[0], flags::ACK), &mut effects);
        assert_eq!(behind, Decision::Hold, "behind its own FIN");

        effects.clear();
        table.message(&CacheMessage::Marked(first), &mut effects);
        let gone_on = |effects: &[Effect]| -> Vec<bool> {
            let released = effects.iter().filter_map(|effect| match effect {
                Effect::Release(held, decision) => Some((held, decision)),
                Effect::Send(_) => None,
            });
            let is_other = |key: &MatchKey| key.matches(&rule_of(2000).mask, &rule_of(2000).value);
            released
                .inspect(|(_, decision)| assert_eq!(**decision, Decision::FORWARD))
                .map(|(held, _)| is_other(&held.key))
                .collect()
        };
        assert_eq!(gone_on(&effects), [true]);
        assert_eq!(table.active(), 1);

        effects.clear();
        let second = mark(&mut table).expect("those that were left");
        assert_ne!(second, first);
        table.message(&CacheMessage::Marked(second), &mut effects);
        assert_eq!(gone_on(&effects), [false]);
        assert_eq!(table.active(), 1 + ending.len());
        assert_eq!(table.held(), 0);
    }

    /// A rule that is cleared while packets wait sends those to the slow path that waited for it, and no
    /// others.
    #[test]
    fn a_rule_that_goes_delays_no_other() {
        let mut table = RuleTable::new(TableConfig::default());
        let mut effects = Vec::new();
        let name = |id| RuleName { id, generation: 1 };
        for (id, port) in [(0, 1000), (1, 1001), (2, 1002)] {
            let rule = Box::new(rule_of(port));
            table.message(&CacheMessage::Add(name(id), rule), &mut effects);
        }
        // The first was alone when it came; the others begin when it is active.
        let alone = mark(&mut table).expect("due");
        table.message(&CacheMessage::Marked(alone), &mut effects);
        let both = mark(&mut table).expect("due");
        for port in [1001, 1002] {
            let decision = meets(&mut table, segment(port, flags::ACK), &mut effects);
            assert_eq!(decision, Decision::Hold);
        }
        effects.clear();
        table.message(&CacheMessage::Clear(name(1)), &mut effects);
        let punted = |effect: &Effect| matches!(effect, Effect::Release(_, Decision::Punt));
        assert_eq!(effects.iter().filter(|effect| punted(effect)).count(), 1);
        assert_eq!(table.held(), 1);
        table.message(&CacheMessage::Marked(both), &mut effects);
        assert_eq!((table.held(), table.active()), (0, 2));
    }

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
