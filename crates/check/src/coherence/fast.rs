//! The fast path as the checker sees it: `coherence::fast` around one slot, without packets'
//! bytes, table, sketch and clocks. Transitions are production's ([`Slot::step`]); what is here
//! only chooses the event and carries out the action, function by function as there.

use super::class::Class;
use super::invariants::Invariant;
use super::rules::Rules;
use super::state::{Flow, Frame, State};
use super::value::Value;
use twinpath_coherence::fsm::{Action, Backoff, Event, Fsm, Slot};
use twinpath_link::Message;

impl State {
    /// `StateStage::packet`.
    pub fn arrive(&mut self, rules: &Rules, flow: Flow, class: Class) {
        self.started = true;
        self.last_packet += 1;
        self.meet(rules, flow, self.last_packet, class);
    }

    fn meet(&mut self, rules: &Rules, flow: Flow, packet: u8, class: Class) {
        match self.fsm_of(flow) {
            None => self.without_slot(rules, flow, packet, class),
            Some(Fsm::Active) => self.active(rules, flow, packet, class),
            Some(_) => self.waiting(rules, flow, packet, class),
        }
    }

    fn active(&mut self, rules: &Rules, flow: Flow, packet: u8, class: Class) {
        match self.step(rules, event(class)) {
            Action::Update => self.update(rules, flow, packet, class),
            _ => self.punt(Message::WriteBack, flow, packet),
        }
    }

    fn update(&mut self, rules: &Rules, flow: Flow, packet: u8, class: Class) {
        self.value.push(rules.digit(packet));
        self.applied(rules, flow, packet);
        if class == Class::Last {
            self.value = Value::NOTHING;
            self.truth(flow).history = Value::NOTHING;
        }
        self.leaves(flow, packet);
    }

    fn waiting(&mut self, rules: &Rules, flow: Flow, packet: u8, class: Class) {
        let message = match self.step(rules, event(class)) {
            Action::Pull => Message::Pull,
            Action::WriteBack => Message::WriteBack,
            Action::Wait => return self.wait(rules, packet, class),
            _ => Message::Plain,
        };
        self.punt(message, flow, packet);
    }

    /// `FastPath::wait_for_state`.
    fn wait(&mut self, rules: &Rules, packet: u8, class: Class) {
        self.waiting.push((packet, class));
        if self.waiting.len() > rules.scope.waiting.into() && self.slot.waits {
            self.step(rules, Event::Crowded);
        }
        self.release_waiting(rules);
    }

    /// `FastPath::release_waiting`: packets that wait for nothing any more arrive once more.
    fn release_waiting(&mut self, rules: &Rules) {
        let Some(flow) = self.key.filter(|_| !self.slot.waits) else {
            return;
        };
        for (packet, class) in std::mem::take(&mut self.waiting) {
            self.meet(rules, flow, packet, class);
        }
    }

    fn without_slot(&mut self, rules: &Rules, flow: Flow, packet: u8, class: Class) {
        let event = event(class);
        if event != (Event::Simple { hot: true }) || self.slot.fsm != Fsm::Initial {
            return self.punt(Message::Plain, flow, packet);
        }
        (self.key, self.slot) = (Some(flow), Slot::default());
        self.step(rules, event);
        self.punt(Message::Pull, flow, packet);
    }

    /// `StateStage::transition`. Production's clocks are left out: a deadline or a time to live
    /// may pass whenever the state has one.
    fn step(&mut self, rules: &Rules, event: Event) -> Action {
        let generation = &mut self.generation;
        let next_generation = || {
            *generation += 1;
            *generation
        };
        let backoff = Backoff {
            rearms: rules.scope.rearms,
            waits: rules.scope.waiting > 0,
        };
        let action = self
            .slot
            .step(event, backoff, next_generation, &rules.safeguards);
        // A pause only keeps a flow from pulling, which the checker may decide for every packet
        // anyway (cold ones do not pull).
        (self.slot.pause, self.slot.pauses) = (0, 0);
        action
    }

    /// `StateStage::header`, and the ring.
    fn punt(&mut self, message: Message, flow: Flow, packet: u8) {
        let mut frame = Frame::new(message, flow, packet);
        if matches!(message, Message::Pull | Message::WriteBack) {
            frame.generation = self.slot.generation;
        }
        if message == Message::WriteBack {
            (frame.epoch, frame.value) = (self.slot.epoch, self.value);
        }
        self.to_worker.send(frame);
    }

    /// `FastPath::returned`: the message meets the slot, then the packet leaves, then those that waited
    /// for the message go on. An answer that
    /// finds the ring full is lost.
    pub fn returned(&mut self, rules: &Rules, frame: &Frame) {
        let answer = self.message(rules, frame);
        if frame.packet != 0 {
            self.leaves(frame.flow, frame.packet);
        }
        self.release_waiting(rules);
        match answer {
            Some(message) if self.to_worker.frames.len() < rules.scope.to_worker.into() => {
                self.punt(message, frame.flow, 0)
            }
            _ => {}
        }
    }

    /// `StateStage::message`.
    fn message(&mut self, rules: &Rules, frame: &Frame) -> Option<Message> {
        let event = match frame.message {
            Message::State => Event::State(frame.generation),
            Message::Decline => Event::Decline(frame.generation),
            Message::Acknowledge => Event::Acknowledge(frame.generation),
            Message::Recall => return self.recall(rules, frame),
            _ => return None,
        };
        if self.key != Some(frame.flow) {
            return None;
        }
        let before = self.slot;
        match self.step(rules, event) {
            Action::Install => self.install(frame, before),
            Action::Free => self.freed(frame, before),
            _ => {}
        }
        None
    }

    fn install(&mut self, frame: &Frame, before: Slot) {
        (self.slot.epoch, self.value) = (frame.epoch, frame.value);
        let generation = self.slot.generation;
        self.truth(frame.flow).install(generation);
        self.require(
            frame.generation == before.generation,
            Invariant::NoCrossTalk,
        );
    }

    fn freed(&mut self, frame: &Frame, before: Slot) {
        self.require(
            frame.generation == before.generation,
            Invariant::NoCrossTalk,
        );
        let imported = self.truth(frame.flow).was_ever_done(before.generation);
        self.require(
            imported || before.fsm != Fsm::Frozen,
            Invariant::FreedAfterImport,
        );
    }

    /// `StateStage::recall`.
    fn recall(&mut self, rules: &Rules, frame: &Frame) -> Option<Message> {
        match self.fsm_of(frame.flow) {
            None | Some(Fsm::Initial) => Some(Message::Plain),
            Some(Fsm::Active) if self.slot.generation == frame.generation => {
                let action = self.step(rules, Event::Idle);
                (action == Action::OwnWriteBack).then_some(Message::WriteBack)
            }
            _ => None,
        }
    }

    /// `StateStage::look_at_timer` for a slot that has been idle.
    pub fn idle(&mut self, rules: &Rules) {
        self.timer(rules, Event::Idle);
    }

    /// `StateStage::look_at_timer` for a slot whose deadline has passed.
    pub fn deadline(&mut self, rules: &Rules) {
        self.timer(rules, Event::Deadline);
    }

    fn timer(&mut self, rules: &Rules, event: Event) {
        let Some(flow) = self.key else { return };
        if self.step(rules, event) == Action::OwnWriteBack {
            self.punt(Message::WriteBack, flow, 0);
        }
        self.release_waiting(rules);
    }
}

/// `StateStage::event_without_state`, and what the programs say where there is state.
fn event(class: Class) -> Event {
    match class {
        Class::Simple => Event::Simple { hot: true },
        Class::Cold | Class::Last => Event::Simple { hot: false },
        Class::Complex => Event::Complex,
    }
}
