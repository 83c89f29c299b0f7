//! The workers as the checker sees them: `coherence::slow` without packets' bytes and chains. Who
//! may write is decided by production ([`Grant`]); what is here only carries it out, function by
//! function as there. What a network function does is not decided here but searched: pass, drop,
//! hold, end of flow, work pending.

use super::invariants::Invariant;
use super::rules::Rules;
use super::state::{Flow, Frame, Record, State};
use super::truth::Imported;
use super::value::Value;
use twinpath_coherence::grant::Import;
use twinpath_link::Message;

/// What the network function does with a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outcome {
    /// Applies it and lets it out.
    Pass,
    /// Applies it and lets it out, but declines the pull that it carries.
    Decline,
    /// There is no room for another flow.
    Refuse,
    /// Applies it and drops it.
    Drop,
    /// Keeps it back, to be applied with the flow's next packet or by a timer.
    Hold,
    /// Applies it and lets it out; the flow is over, its value zero.
    End,
}

impl State {
    /// `SlowFlows::receive`.
    pub fn receive(&mut self, rules: &Rules, frame: &Frame, outcome: Outcome) {
        let known = self.records[frame.flow as usize];
        let admits = frame.packet != 0 || frame.message == Message::WriteBack;
        let Some(mut record) = known.or(admits.then(Record::default)) else {
            return;
        };
        if outcome == Outcome::Refuse {
            return self.refuse(frame);
        }
        let taken = self.take_message(rules, frame, &mut record);
        self.truth(frame.flow).decide(record.value);
        let mut out = Departing::default();
        if frame.packet != 0 {
            self.run(rules, frame, outcome, &mut record, &mut out);
        }
        let message = answer(frame, taken, outcome, &mut record);
        self.emit(frame, message, &record, out);
        self.keep_or_forget(frame.flow, record);
    }

    /// `SlowFlows::refuse`: the packet is dropped; a frozen value is not acknowledged.
    fn refuse(&mut self, request: &Frame) {
        if request.message == Message::Pull {
            let mut decline = Frame::new(Message::Decline, request.flow, 0);
            decline.generation = request.generation;
            self.to_fast.send(decline);
        }
    }

    fn take_message(
        &mut self,
        rules: &Rules,
        frame: &Frame,
        record: &mut Record,
    ) -> Option<Import> {
        match frame.message {
            Message::WriteBack => {
                let same_life = frame.epoch == self.epoch;
                let import =
                    record
                        .grant
                        .write_back(frame.generation, same_life, &rules.safeguards);
                if import == Import::Take {
                    record.value = frame.value;
                    self.imported(frame);
                }
                Some(import)
            }
            Message::Pull => None,
            _ => {
                record.grant.plain();
                None
            }
        }
    }

    fn imported(&mut self, frame: &Frame) {
        let truth = self.truth[frame.flow as usize];
        self.require(truth.installed == frame.generation, Invariant::NoCrossTalk);
        self.require(!truth.is_done(frame.generation), Invariant::OneImport);
        self.truth(frame.flow).imported = Imported::Now;
    }

    /// `SlowFlows::run`. What was held before comes out first.
    fn run(
        &mut self,
        rules: &Rules,
        frame: &Frame,
        outcome: Outcome,
        record: &mut Record,
        out: &mut Departing,
    ) {
        if outcome == Outcome::Hold {
            record.held = frame.packet;
            return;
        }
        self.release(rules, frame.flow, record, out);
        record.value.push(rules.digit(frame.packet));
        self.applied(rules, frame.flow, frame.packet);
        match outcome {
            Outcome::Drop => return,
            Outcome::End => {
                record.value = Value::NOTHING;
                self.truth(frame.flow).history = Value::NOTHING;
            }
            _ => {}
        }
        out.push(frame.packet);
    }

    fn release(&mut self, rules: &Rules, flow: Flow, record: &mut Record, out: &mut Departing) {
        let packet = std::mem::take(&mut record.held);
        if packet != 0 {
            record.value.push(rules.digit(packet));
            self.applied(rules, flow, packet);
            out.push(packet);
        }
    }

    /// `SlowFlows::emit`: the message goes on the last packet that leaves, or alone.
    fn emit(&mut self, request: &Frame, message: Message, record: &Record, out: Departing) {
        let (before, last) = out.split();
        if before != 0 {
            self.to_fast
                .send(Frame::new(Message::Return, request.flow, before));
        }
        if message == Message::Return && last == 0 {
            return;
        }
        let mut frame = Frame::new(message, request.flow, last);
        if message != Message::Return {
            frame.generation = request.generation;
        }
        if message == Message::State {
            (frame.epoch, frame.value) = (self.epoch, record.value);
        }
        self.to_fast.send(frame);
    }

    /// `SlowFlows::forget_if_worthless`.
    fn keep_or_forget(&mut self, flow: Flow, record: Record) {
        let is_zero = record.value.is_nothing() && record.held == 0;
        let forgets = is_zero && record.grant.may_forget();
        self.records[flow as usize] = (!forgets).then_some(record);
    }

    /// `SlowFlows::age_one` for a flow that may not be forgotten and has long been silent.
    pub fn send_recall(&mut self, flow: Flow, generation: u32) {
        let mut frame = Frame::new(Message::Recall, flow, 0);
        frame.generation = generation;
        self.to_fast.send(frame);
    }

    /// `SlowFlows::wake`: the network function changes the flow because time has passed. A packet
    /// that was held is applied and comes out.
    pub fn wake(&mut self, rules: &Rules, flow: Flow) {
        let Some(mut record) = self.records[flow as usize] else {
            return;
        };
        if !record.grant.is_ours() {
            return;
        }
        let mut out = Departing::default();
        if record.held == 0 {
            let digit = rules.timer_digit();
            record.value.push(digit);
            self.truth(flow).history.push(digit);
        }
        self.release(rules, flow, &mut record, &mut out);
        let (_, last) = out.split();
        if last != 0 {
            self.to_fast.send(Frame::new(Message::Return, flow, last));
        }
        self.keep_or_forget(flow, record);
    }

    /// `SlowFlows::age_one` for a flow whose state has expired.
    pub fn expire(&mut self, flow: Flow) {
        let Some(mut record) = self.records[flow as usize] else {
            return;
        };
        if !record.grant.is_ours() || record.held != 0 {
            return;
        }
        record.value = Value::NOTHING;
        self.truth(flow).history = Value::NOTHING;
        self.keep_or_forget(flow, record);
    }

    /// The workers crash and start again: `Worker::restart`. The link goes on; its rings may or
    /// may not have survived.
    pub fn crash(&mut self, loses_to_worker: bool, loses_to_fast: bool) {
        for flow in Flow::ALL {
            let keeps_value = self.is_at_fast_path(flow);
            self.truth(flow).crash(keeps_value);
        }
        self.records = [None; 2];
        self.epoch += 1;
        if loses_to_worker {
            self.to_worker.frames.clear();
        }
        if loses_to_fast {
            self.to_fast.frames.clear();
        }
    }
}

/// `SlowFlows::answer`.
fn answer(frame: &Frame, taken: Option<Import>, outcome: Outcome, record: &mut Record) -> Message {
    if taken.is_some() {
        return Message::Acknowledge;
    }
    if frame.message != Message::Pull {
        return Message::Return;
    }
    let is_pending = outcome == Outcome::Decline || record.held != 0;
    match record.grant.pull(frame.generation, is_pending) {
        true => Message::State,
        false => Message::Decline,
    }
}

/// The packets that leave in one step: at most the one held and the one that came.
#[derive(Copy, Clone, Debug, Default)]
struct Departing {
    before: u8,
    last: u8,
}

impl Departing {
    fn push(&mut self, packet: u8) {
        (self.before, self.last) = (self.last, packet);
    }

    fn split(self) -> (u8, u8) {
        (self.before, self.last)
    }
}
