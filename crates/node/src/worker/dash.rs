//! A DPU on the slow path: its policies, and all of it where there is no fast path.

use super::{SlowElement, Worker};
use crate::fast_path::done;
use crate::watch::{DashRun, SlowLook, StageLook, TraceStep, Watch};
use twinpath_coherence::slow::Outgoing;
use twinpath_core::{Decision, DropReason, FlowKey, Frame, Instant, Pools};
use twinpath_dash::Dpu;
use twinpath_dash::messages::{answer_bytes, read_arrival};
use twinpath_dash::pipeline::Note;
use twinpath_link::{Header, Message};

/// A DPU.
pub struct SlowDash {
    dpu: Dpu,
}

impl SlowDash {
    /// One with its policies.
    pub const fn new(dpu: Dpu) -> Self {
        Self { dpu }
    }

    /// The DPU. Where the fast path has its flows, there are none here, and nothing is counted.
    pub const fn dpu(&self) -> &Dpu {
        &self.dpu
    }

    pub(super) const fn dpu_mut(&mut self) -> &mut Dpu {
        &mut self.dpu
    }

    pub(super) fn age(&mut self, now: Instant) {
        self.dpu.tick(now);
    }
}

impl Worker {
    /// The DPU that is an element of the chain.
    pub fn dash(&self) -> Option<&SlowDash> {
        self.elements.iter().find_map(|element| match element {
            SlowElement::Dash(dash) => Some(dash.as_ref()),
            _ => None,
        })
    }

    /// The same, if packets meet no other.
    pub(crate) fn whole_dash(&self) -> Option<&SlowDash> {
        self.whole_walk.as_ref().and_then(|_| self.dash())
    }

    fn dash_at(&mut self, element: u8) -> Option<&mut SlowDash> {
        match self.elements.get_mut(usize::from(element))? {
            SlowElement::Dash(dash) => Some(dash),
            _ => None,
        }
    }

    /// Whoever follows the packet is told what it meets here.
    #[cold]
    fn tell_dash(&self, watch: &Watch, header: &Header, frame: &Frame) {
        let Some(dash) = self.dash() else { return };
        let (bytes, now) = (frame.bytes(), frame.timestamp());
        let dpu = &dash.dpu;
        let (arrival, mut notes) = match header.message {
            Message::Question => (read_arrival(header.words()), Vec::new()),
            _ => (dpu.arrival(bytes), dpu.story(bytes, now)),
        };
        let is_judged = |note: &Note| note.action.contains("judge");
        let is_asked = notes.is_empty() || notes.last().is_some_and(is_judged);
        if let Some(arrival) = arrival.filter(|_| is_asked) {
            notes.extend(dpu.policy_story(&arrival));
        }
        let outcome = notes
            .last()
            .map_or_else(String::new, |note| note.action.clone());
        watch.tell(frame.buffer(), || TraceStep::Receive {
            element: header.element,
            slow_path: SlowLook::Dash(Box::new(DashRun {
                stages: StageLook::of_notes(notes),
                outcome,
            })),
        });
    }

    /// A packet meets a DPU's policies, or all of a DPU.
    pub(super) fn meet_dash(&mut self, header: &Header, frame: Frame, pools: &mut Pools) {
        if let Some(watch) = &self.watch
            && header.has_packet
            && watch.follows(frame.buffer()).is_some()
        {
            self.tell_dash(watch, header, &frame);
        }
        match (header.message, header.has_packet) {
            (Message::Question, true) => self.answer(header, frame, pools),
            (Message::Plain, true) => self.pass_dpu(header, frame, pools),
            _ => self.drop(frame, DropReason::BadLinkFrame, pools),
        }
    }

    /// The answer goes back in front of its packet. Without a buffer for it the packet asks again.
    fn answer(&mut self, header: &Header, frame: Frame, pools: &mut Pools) {
        let arrival = read_arrival(header.words());
        let (Some(arrival), Some(dash)) = (arrival, self.dash_at(header.element)) else {
            return self.drop(frame, DropReason::BadLinkFrame, pools);
        };
        let bytes = answer_bytes(&dash.dpu.answer(&arrival));
        match pools.take_filled(&bytes) {
            Some(body) => self.put(Message::Answer, header.slot, body),
            None => self.counts.no_buffer += 1,
        }
        self.put(Message::Return, header.slot, frame);
    }

    fn pass_dpu(&mut self, header: &Header, mut frame: Frame, pools: &mut Pools) {
        let Some(dash) = self.dash_at(header.element) else {
            return self.drop(frame, DropReason::BadLinkFrame, pools);
        };
        let now = frame.timestamp();
        let (buffer, start) = frame.with_headroom();
        let verdict = dash.dpu.process(buffer, start, now);
        match done(verdict, &mut frame) {
            Decision::Drop(reason) => self.drop_at(Some(header.element), frame, reason, pools),
            decision => {
                self.put(Message::Return, header.slot, frame);
                if let (Decision::Reply, Some(last)) = (decision, self.outgoing.last_mut()) {
                    last.header.is_reply = true;
                }
            }
        }
    }

    fn put(&mut self, message: Message, slot: u32, frame: Frame) {
        let mut header = Header::new(message, FlowKey::default());
        (header.has_packet, header.timestamp) = (message == Message::Return, frame.timestamp());
        header.slot = slot;
        let frame = Some(frame);
        self.outgoing.push(Outgoing { header, frame });
    }
}
