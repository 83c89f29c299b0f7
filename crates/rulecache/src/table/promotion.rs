//! How a rule becomes active without anything overtaking, and what else the workers ask for.
//!
//! When a rule arrives, packets of its flows may still be on their way to the slow path and back. So
//! at first, packets that it matches are *held*; a MARK goes down the link behind all punted
//! packets; the workers answer MARKED behind everything of its flows that they have sent out by then; and
//! only then the rule becomes active, and the held packets leave in order. That is one round trip.
//!
//! Each rule has a mark of its own, so none waits for packets of other rules' flows, wherever these are:
//! neither on the link nor at a worker. One for many flows does not wait for packets of these at a worker
//! either: if one waits there, the worker has the rule taken out. Many rules may be on their way to be active; those whose answers
//! come together become active together.
//!
//! A packet that is held may differ from those for which its flow has an active rule (a FIN, where a
//! rule looks at TCP flags). That rule's packets are held then too, and it becomes active again in the
//! same instant as the rule that the packet waits for: if each went its own way, they would hold up one
//! another's packets in turns. If the packet goes to the slow path instead, the rule has a mark that goes
//! behind it.
//!
//! If more packets arrive than may be held, all rules that become active give up: the packets go to the
//! slow path in order, and half as many rules may become active at a time from then on; a rule for which
//! alone too many arrive is gone. With each rule that becomes active one more may. If a rule is cleared,
//! the packets that waited for that rule alone go to the slow path too.

use super::{RuleTable, TableConfig};
use crate::key::MatchKey;
use crate::message::{CacheMessage, Gone, NewRule, RuleId, RuleName, Uses};
use crate::slots::State;
use crate::variants::Variants;
use std::collections::VecDeque;
use std::time::Duration;
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

/// What is sent behind packets that go to the slow path, and when.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// In the message and in its answer.
    pub number: u32,
    /// None if it is to be sent.
    sent: Option<Instant>,
}

impl Mark {
    /// One that is to be sent.
    pub const fn new(number: u32) -> Self {
        Self { number, sent: None }
    }

    /// Whether an answer with this number is to it.
    pub const fn is_answered_by(&self, number: u32) -> bool {
        self.sent.is_some() && self.number == number
    }

    /// Whether it is to be sent now: for the first time, or since there was no answer for so long.
    pub fn is_due(&self, now: Instant, timeout: Duration) -> bool {
        now >= self.late_at(timeout)
    }

    /// When it is to be sent again.
    pub fn late_at(&self, timeout: Duration) -> Instant {
        self.sent.map_or(Instant::ZERO, |sent| sent + timeout)
    }

    /// It is sent. Returns whether it was before.
    pub fn send(&mut self, now: Instant) -> bool {
        self.sent.replace(now).is_some()
    }
}

/// A rule that is becoming active.
struct Becoming {
    id: RuleId,
    /// What it waits for.
    mark: Mark,
    /// The mark is another rule's.
    is_shared: bool,
    is_answered: bool,
}

/// The rules that are becoming active.
pub(crate) struct Promotion {
    /// Those whose packets are held. Bits that differ within a flow are left out: all packets of
    /// the flow stay in order.
    holding: Variants,
    /// The same rules, in the order in which they began.
    rules: Vec<Becoming>,
    /// Some of them have been answered.
    has_answers: bool,
    /// Some of their marks are to be sent.
    has_due: bool,
    /// No mark is late before.
    late_at: Instant,
    held: VecDeque<Held>,
    /// Those that wait until fewer are becoming active.
    pending: VecDeque<RuleName>,
    /// Most that become active at a time, unless active rules must do so again.
    together: usize,
    next_mark: u32,
}

impl Promotion {
    pub fn new(config: &TableConfig) -> Self {
        // Half of the room is for those that are active and must become so again.
        let rules = 2 * config.promoted_together;
        let limits = MaskedLimits {
            rules,
            masks: rules,
        };
        Self {
            holding: Variants::new(limits, config.rules(), config.seed),
            rules: Vec::with_capacity(rules),
            has_answers: false,
            has_due: false,
            late_at: Instant::NEVER,
            held: VecDeque::new(),
            pending: VecDeque::new(),
            together: config.promoted_together,
            next_mark: 0,
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

    /// A rule's packets are held from now on, until everything of its flows that has been punted by now
    /// has come back. Returns whether there was room.
    pub fn join(&mut self, id: RuleId, mask: &MatchKey, value: &MatchKey) -> bool {
        let mark = self.new_mark();
        self.wait_for(id, (mask, value), (mark, false))
    }

    /// An active rule's packets are held from now on, behind a packet that waits for another rule of its flow:
    /// until that rule becomes active. Returns whether there was room.
    pub fn join_behind(
        &mut self,
        key: &MatchKey,
        id: RuleId,
        mask: &MatchKey,
        value: &MatchKey,
    ) -> bool {
        let first = self.holding.find(key);
        let is_first = |rule: &&Becoming| Some(rule.id) == first;
        match self.rules.iter().find(is_first).map(|rule| rule.mark) {
            Some(mark) => self.wait_for(id, (mask, value), (mark, true)),
            None => self.join(id, mask, value),
        }
    }

    fn wait_for(
        &mut self,
        id: RuleId,
        (mask, value): (&MatchKey, &MatchKey),
        (mark, is_shared): (Mark, bool),
    ) -> bool {
        let has_room = self.holding.insert(id, mask, value);
        if has_room {
            self.rules.push(Becoming {
                id,
                mark,
                is_shared,
                is_answered: false,
            });
        }
        has_room
    }

    /// Only an answer to a mark that is sent from now on counts.
    fn new_mark(&mut self) -> Mark {
        self.next_mark = self.next_mark.wrapping_add(1) & !FRAGMENT_MARKS;
        self.has_due = true;
        Mark::new(self.next_mark)
    }

    /// A rule's packets are no longer held for it. Rules that shared its mark have nothing to wait for: of
    /// their flows nothing has been punted.
    fn remove(&mut self, id: RuleId, mask: &MatchKey, value: &MatchKey) {
        self.holding.remove(id, mask, value);
        let Some(place) = self.rules.iter().position(|rule| rule.id == id) else {
            return;
        };
        let gone = self.rules.remove(place);
        if !gone.is_shared {
            self.let_go(gone.mark.number);
        }
    }

    /// Rules that wait for a mark may become active.
    fn let_go(&mut self, number: u32) {
        for rule in &mut self.rules {
            if rule.mark.number == number {
                rule.is_answered = true;
                self.has_answers = true;
            }
        }
    }

    /// Everything that was punted before this mark, of the flows of the rule that sent it, has come back.
    fn answered(&mut self, number: u32) {
        let is_asked = |rule: &Becoming| !rule.is_shared && rule.mark.is_answered_by(number);
        if self.rules.iter().any(is_asked) {
            self.let_go(number);
        }
    }

    /// Whether a mark is to be sent.
    fn is_due(&self, now: Instant) -> bool {
        self.has_due || now >= self.late_at && !self.rules.is_empty()
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
        let mut rules = std::mem::take(&mut self.promotion.rules);
        let is_alone = rules.len() == 1;
        self.promotion.together = (rules.len() / 2).max(1);
        for Becoming { id, .. } in rules.drain(..).rev() {
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
        self.promotion.rules = rules;
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
            CacheMessage::Marked(mark) if mark & FRAGMENT_MARKS != 0 => {
                self.fragments_are_back(*mark, effects);
            }
            CacheMessage::Marked(mark) => self.promotion.answered(*mark),
            // Those go the other way.
            CacheMessage::Installed(_)
            | CacheMessage::Gone(..)
            | CacheMessage::Used(..)
            | CacheMessage::Mark(..)
            | CacheMessage::FlowMark(..) => {}
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
            self.start_next();
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
                let mut held = self.promotion.take_held_for(&mask, &value);
                self.release(&mut held, effects);
                self.start_next();
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

    /// Rules whose packets have all come back become active, and packets that waited for them go on.
    fn activate_answered(&mut self, effects: &mut Vec<Effect>) {
        if !std::mem::take(&mut self.promotion.has_answers) {
            return;
        }
        let mut rules = std::mem::take(&mut self.promotion.rules);
        let before = rules.len();
        rules.retain(|rule| {
            if rule.is_answered {
                self.activate(rule.id);
            }
            !rule.is_answered
        });
        let more = self.promotion.together + before - rules.len();
        self.promotion.together = more.min(self.config.promoted_together);
        self.promotion.rules = rules;
        let mut held = std::mem::take(&mut self.promotion.held);
        self.release(&mut held, effects);
        self.start_next();
    }

    /// A flow's fragments that were punted before the mark have come back, and what waited behind them goes
    /// on.
    fn fragments_are_back(&mut self, mark: u32, effects: &mut Vec<Effect>) {
        if let Some(mut held) = self.behind.take_passed(mark) {
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

    /// Rules that wait begin to become active, as many as may at a time.
    fn start_next(&mut self) {
        while self.promotion.rules.len() < self.promotion.together
            && let Some(name) = self.promotion.pending.pop_front()
        {
            let is_current = self.name(name.id) == name;
            if is_current && self.slots.state(name.id) == State::Pending {
                let (mask, value) = self.slots.matched(name.id);
                let has_room = self.promotion.join(name.id, &mask, &value);
                self.begin_holding(name.id, has_room);
            }
        }
    }

    /// A rule's packets are held, if there is room for it.
    pub(super) fn begin_holding(&mut self, id: RuleId, has_room: bool) {
        match has_room {
            true => self.slots.set_state(id, State::Holding),
            false => {
                self.counters.no_room += 1;
                self.quarantine(id, Gone::NoRoom);
            }
        }
    }

    /// Does what is due: call it after each batch of packets, when those punted are on the link,
    /// and after messages, for then rules become active that were answered. Reports keep the time of packets (`now`), marks that of the `link`.
    pub fn tick(&mut self, now: Instant, link: Instant, effects: &mut Vec<Effect>) {
        self.activate_answered(effects);
        self.tell_marks(link, effects);
        let timeout = self.config.mark_timeout;
        self.behind.tell_marks(link, timeout, effects);
        while let Some(name) = self.notices.pop_front() {
            let is_gone = self.slots.state(name.id) == State::Quarantined;
            if is_gone && self.name(name.id) == name {
                effects.push(Effect::Send(self.gone(name)));
            }
        }
        self.report(now, effects);
    }

    fn tell_marks(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if !self.promotion.is_due(now) {
            return;
        }
        let timeout = self.config.mark_timeout;
        let promotion = &mut self.promotion;
        (promotion.has_due, promotion.late_at) = (false, Instant::NEVER);
        for rule in promotion.rules.iter_mut().filter(|rule| !rule.is_shared) {
            if rule.mark.is_due(now, timeout) {
                self.counters.marks_repeated += u64::from(rule.mark.send(now));
                let generation = self.slots.generation(rule.id);
                let name = RuleName {
                    id: rule.id,
                    generation,
                };
                effects.push(Effect::Send(CacheMessage::Mark(rule.mark.number, name)));
            }
            promotion.late_at = promotion.late_at.min(rule.mark.late_at(timeout));
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
    use std::collections::BTreeMap;
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

    /// The marks that are sent now, by rule.
    fn marks(table: &mut RuleTable, effects: &mut Vec<Effect>) -> BTreeMap<RuleId, u32> {
        table.tick(Instant::ZERO, Instant::ZERO, effects);
        let sent = effects.iter().filter_map(|effect| match effect {
            Effect::Send(CacheMessage::Mark(mark, rule)) => Some((rule.id, *mark)),
            _ => None,
        });
        let sent = sent.collect();
        effects.retain(|effect| !matches!(effect, Effect::Send(_)));
        sent
    }

    /// Answers to marks come.
    fn answer<'a>(
        table: &mut RuleTable,
        marks: impl IntoIterator<Item = &'a u32>,
        effects: &mut Vec<Effect>,
    ) {
        for &mark in marks {
            table.message(&CacheMessage::Marked(mark), effects);
        }
        table.tick(Instant::ZERO, Instant::ZERO, effects);
    }

    /// The ports of the packets that were released, and what became of them.
    fn released(effects: &mut Vec<Effect>) -> Vec<(u16, Decision)> {
        let released = effects.drain(..).filter_map(|effect| match effect {
            Effect::Release(held, decision) => {
                Some((Field::SourcePort.of(&held.key) as u16, decision))
            }
            Effect::Send(_) => None,
        });
        released.collect()
    }

    fn name(id: RuleId) -> RuleName {
        RuleName { id, generation: 1 }
    }

    fn add(table: &mut RuleTable, id: RuleId, rule: NewRule, effects: &mut Vec<Effect>) {
        let message = CacheMessage::Add(name(id), Box::new(rule));
        table.message(&message, effects);
    }

    /// Each rule waits for its own mark: those of other flows may be behind packets that wait.
    #[test]
    fn a_rule_waits_for_no_other() {
        let (mut table, mut effects) = (RuleTable::new(TableConfig::default()), Vec::new());
        for (id, port) in [(0, 1000), (1, 1001)] {
            add(&mut table, id, rule_of(port), &mut effects);
        }
        let marks = marks(&mut table, &mut effects);
        for port in [1000, 1001] {
            let decision = meets(&mut table, segment(port, flags::ACK), &mut effects);
            assert_eq!(decision, Decision::Hold);
        }
        answer(&mut table, [&marks[&1]], &mut effects);
        assert_eq!(released(&mut effects), [(1001, Decision::FORWARD)]);
        answer(&mut table, [&marks[&0]], &mut effects);
        assert_eq!(released(&mut effects), [(1000, Decision::FORWARD)]);
        assert_eq!((table.active(), table.held()), (2, 0));
    }

    /// Connections that end take rules out of use, and nobody who waits for another rule waits for them.
    #[test]
    fn a_fin_of_one_connection_delays_no_other() {
        let (mut table, mut effects) = (RuleTable::new(TableConfig::default()), Vec::new());
        let ending = [1000, 1001, 1002];
        for (id, port) in (0..).zip(ending) {
            add(&mut table, id, rule_of(port), &mut effects);
        }
        let first = marks(&mut table, &mut effects);
        answer(&mut table, first.values(), &mut effects);
        assert_eq!(table.active(), ending.len());

        add(&mut table, 7, rule_of(2000), &mut effects);
        let own = marks(&mut table, &mut effects);
        let other = meets(&mut table, segment(2000, flags::ACK), &mut effects);
        assert_eq!(other, Decision::Hold);
        for port in ending {
            let fin = segment(port, flags::ACK | flags::FIN);
            assert_eq!(meets(&mut table, fin, &mut effects), Decision::Punt);
        }
        let behind = marks(&mut table, &mut effects);
        assert_eq!(behind.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
        let next = meets(&mut table, segment(ending[0], flags::ACK), &mut effects);
        assert_eq!(next, Decision::Hold, "behind its own FIN");

        answer(&mut table, own.values(), &mut effects);
        assert_eq!(released(&mut effects), [(2000, Decision::FORWARD)]);
        answer(&mut table, first.values(), &mut effects);
        assert_eq!(table.active(), 1, "those marks went before");
        answer(&mut table, behind.values(), &mut effects);
        assert_eq!(released(&mut effects), [(ending[0], Decision::FORWARD)]);
        assert_eq!((table.active(), table.held()), (1 + ending.len(), 0));
    }

    /// The rules for a flow's FIN and for all else: where packets of both kinds take turns, and one rule comes
    /// later, both become active together.
    #[test]
    fn rules_of_one_flow_do_not_hold_up_each_other_in_turns() {
        let (mut table, mut effects) = (RuleTable::new(TableConfig::default()), Vec::new());
        let ending = flags::ACK | flags::FIN;
        let mask = Field::TcpFlags
            .place(flags::FIN.into())
            .or(&MatchKey::ALWAYS);
        let rule_for = |flags| NewRule {
            mask,
            value: segment(1000, flags).key.and(&mask),
            ..rule_of(1000)
        };
        add(&mut table, 0, rule_for(flags::ACK), &mut effects);
        let first = marks(&mut table, &mut effects);
        answer(&mut table, first.values(), &mut effects);
        add(&mut table, 1, rule_for(ending), &mut effects);
        let second = marks(&mut table, &mut effects);
        for flags in [ending, flags::ACK, ending, flags::ACK] {
            let decision = meets(&mut table, segment(1000, flags), &mut effects);
            assert_eq!(decision, Decision::Hold);
        }
        assert_eq!(table.active(), 0);
        assert!(marks(&mut table, &mut effects).is_empty(), "one is enough");
        answer(&mut table, second.values(), &mut effects);
        assert_eq!(released(&mut effects).len(), 4);
        assert_eq!(table.active(), 2);
    }

    /// Who shared the mark of a rule that is gone goes on, and waits for the packets that go to the slow path
    /// then.
    #[test]
    fn a_mark_that_is_gone_is_not_waited_for() {
        let (mut table, mut effects) = (RuleTable::new(TableConfig::default()), Vec::new());
        let ending = flags::ACK | flags::FIN;
        let mut of_fin = rule_of(1000);
        of_fin.value = segment(1000, ending).key.and(&of_fin.mask);
        add(&mut table, 0, rule_of(1000), &mut effects);
        let first = marks(&mut table, &mut effects);
        answer(&mut table, first.values(), &mut effects);
        add(&mut table, 1, of_fin, &mut effects);
        let second = marks(&mut table, &mut effects);
        for flags in [ending, flags::ACK] {
            let decision = meets(&mut table, segment(1000, flags), &mut effects);
            assert_eq!(decision, Decision::Hold);
        }
        table.message(&CacheMessage::Clear(name(1)), &mut effects);
        let third = marks(&mut table, &mut effects);
        assert_eq!(released(&mut effects), [(1000, Decision::Punt)]);
        answer(&mut table, second.values(), &mut effects);
        assert_eq!((table.active(), table.held()), (0, 1));
        answer(&mut table, [&third[&0]], &mut effects);
        assert_eq!(released(&mut effects), [(1000, Decision::FORWARD)]);
        assert_eq!((table.active(), table.held()), (1, 0));
    }

    /// Marks and their answers may be lost; those that were answered are not sent again.
    #[test]
    fn a_mark_is_sent_again_until_it_is_answered() {
        let config = TableConfig::default();
        let (mut table, mut effects) = (RuleTable::new(config), Vec::new());
        for (id, port) in [(0, 1000), (1, 1001)] {
            add(&mut table, id, rule_of(port), &mut effects);
        }
        let sent = marks(&mut table, &mut effects);
        answer(&mut table, [&sent[&0]], &mut effects);
        assert!(marks(&mut table, &mut effects).is_empty());
        table.tick(
            Instant::ZERO,
            Instant::ZERO + config.mark_timeout,
            &mut effects,
        );
        let again = CacheMessage::Mark(sent[&1], name(1));
        let is_again =
            |effect: &Effect| matches!(effect, Effect::Send(message) if *message == again);
        assert!(
            effects.len() == 1 && effects.iter().all(is_again),
            "{effects:?}"
        );
        assert_eq!(table.counters().marks_repeated, 1);
    }

    /// A rule that is cleared while packets wait sends those to the slow path that waited for it, and no
    /// others.
    #[test]
    fn a_rule_that_goes_delays_no_other() {
        let (mut table, mut effects) = (RuleTable::new(TableConfig::default()), Vec::new());
        for (id, port) in [(1, 1001), (2, 1002)] {
            add(&mut table, id, rule_of(port), &mut effects);
        }
        let both = marks(&mut table, &mut effects);
        for port in [1001, 1002] {
            let decision = meets(&mut table, segment(port, flags::ACK), &mut effects);
            assert_eq!(decision, Decision::Hold);
        }
        table.message(&CacheMessage::Clear(name(1)), &mut effects);
        assert_eq!(released(&mut effects), [(1001, Decision::Punt)]);
        assert_eq!(table.held(), 1);
        answer(&mut table, both.values(), &mut effects);
        assert_eq!((table.held(), table.active()), (0, 1));
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
        let sent = marks(&mut table, &mut effects);
        answer(&mut table, sent.values(), &mut effects);
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
