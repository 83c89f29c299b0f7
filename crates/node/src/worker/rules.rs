//! Elements whose decisions are cached, on the slow path.

use super::watched::tell_of_rules;
use super::{SlowElement, SlowPlan, TICK, Worker};
use crate::watch::Functions;
use twinpath_coherence::slow::Outgoing;
use twinpath_core::wire::dissect;
use twinpath_core::{DropReason, FlowKey, Frame, Instant, Packet, Pools};
use twinpath_link::{Header, Message};
use twinpath_rulecache::message::{MAX_MESSAGE_BYTES, messages};
use twinpath_rulecache::{Output, Reconfiguration, SlowRules};

/// How far a worker is with getting ready for a change.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// Rules that it concerns are going.
    Ready,
    /// A function that is to change is not there.
    NotThere,
    /// A function has panicked.
    Crashed,
}

impl Worker {
    /// A packet, or what the fast path tells of rules, meets an element whose decisions are
    /// cached.
    pub(super) fn meet_rules(&mut self, header: &Header, frame: Frame, pools: &mut Pools) {
        match header.message {
            Message::RuleReport => self.take_reports(header, frame, pools),
            _ if header.has_packet => self.take_packet(header, frame, pools),
            _ => return self.drop(frame, DropReason::BadLinkFrame, pools),
        }
        self.put_out(header.element, header.timestamp, pools);
    }

    pub(super) fn rules_at(&mut self, element: u8) -> Option<&mut SlowRules> {
        match self.elements.get_mut(usize::from(element))? {
            SlowElement::Rules(rules) => Some(rules),
            SlowElement::Flows(_) | SlowElement::Dash(_) => None,
        }
    }

    /// Takes out the cached rules that changes of functions concern. A function that panics when it
    /// is asked which those are is a [crash](Self::crash).
    pub(crate) fn prepare(
        &mut self,
        plans: &[SlowPlan],
        now: Instant,
        pools: &mut Pools,
        returns: &mut Vec<Frame>,
    ) -> Prepared {
        self.rules_taken_out = 0;
        let mut are_there = false;
        let is_done = self.guarded(|worker| are_there = worker.begin_changes(plans, now, pools));
        if !is_done {
            self.count_crash(None);
            self.begin_anew(now, pools, returns);
        }
        self.put_on_the_link(pools, returns);
        let prepared = match (is_done, are_there) {
            (true, true) => return Prepared::Ready,
            (true, false) => Prepared::NotThere,
            (false, _) => Prepared::Crashed,
        };
        self.end_changes();
        prepared
    }

    /// Returns whether the functions are there.
    fn begin_changes(&mut self, plans: &[SlowPlan], now: Instant, pools: &mut Pools) -> bool {
        let mut are_there = true;
        for plan in plans {
            let SlowPlan::ChangeRules(element, changes) = plan else {
                continue;
            };
            for (place, change) in changes {
                are_there &= self.begin_change(*element as u8, *place, change, now, pools);
            }
        }
        are_there
    }

    fn begin_change(
        &mut self,
        element: u8,
        place: u8,
        change: &Reconfiguration,
        now: Instant,
        pools: &mut Pools,
    ) -> bool {
        let mut outputs = std::mem::take(&mut self.outputs);
        let rules = self.rules_at(element);
        let begun = rules.map(|rules| rules.begin_change(place, change, now, &mut outputs));
        self.outputs = outputs;
        self.put_out(element, now, pools);
        let taken_out = begun.and_then(Result::ok);
        self.rules_taken_out += taken_out.unwrap_or(0);
        taken_out.is_some()
    }

    /// Rules are admitted again: changes have been made, or will not be.
    pub(crate) fn end_changes(&mut self) {
        self.rules_taken_out = 0;
        for element in 0..self.elements.len() as u8 {
            self.rules_at(element).map(SlowRules::end_changes);
        }
    }

    fn take_packet(&mut self, header: &Header, frame: Frame, pools: &mut Pools) {
        let layout = match dissect(frame.bytes()) {
            Ok(layout) => layout,
            Err(malformed) => return self.drop(frame, DropReason::Malformed(malformed), pools),
        };
        let packet = Packet {
            layout,
            direction: frame.metadata().direction,
            role: header.role,
            alias_row: 0,
            frame,
        };
        let outputs = &mut self.outputs;
        let Some(SlowElement::Rules(rules)) = self.elements.get_mut(usize::from(header.element))
        else {
            return;
        };
        let buffer = packet.frame.buffer();
        let followed = self.watch.as_ref();
        let followed = followed.and_then(|watch| Some((watch, watch.follows(buffer)?)));
        match followed {
            Some((watch, ordinal)) => {
                let mut functions = Functions::new(rules.functions());
                rules.packet_probed(packet, pools, outputs, &mut functions);
                tell_of_rules(watch, (buffer, ordinal, header.element), functions, outputs);
                self.told = Some(buffer);
            }
            None => rules.packet(packet, pools, outputs),
        }
    }

    /// What is told of rules of a former life is answered with the present one's epoch: then they
    /// go.
    fn take_reports(&mut self, header: &Header, frame: Frame, pools: &mut Pools) {
        if header.epoch != self.epoch {
            let header = Header::new(Message::RuleRequest, FlowKey::default());
            let frame = Some(empty(frame));
            return self.outgoing.push(Outgoing { header, frame });
        }
        for message in messages(frame.bytes()) {
            match (message, self.elements.get_mut(usize::from(header.element))) {
                (Ok(message), Some(SlowElement::Rules(rules))) => {
                    rules.message(&message, header.timestamp, pools, &mut self.outputs);
                }
                _ => self.drops.count(DropReason::BadLinkFrame),
            }
        }
        pools.give(frame);
    }

    /// Lets time pass for rules, now and then.
    pub(super) fn tick_rules(&mut self, now: Instant, pools: &mut Pools) {
        if now.since(self.ticked) < TICK {
            return;
        }
        self.ticked = now;
        for element in 0..self.elements.len() as u8 {
            if let Some(SlowElement::Rules(rules)) = self.elements.get_mut(usize::from(element)) {
                rules.tick(now, pools, &mut self.outputs);
            }
            self.put_out(element, now, pools);
        }
        self.walk_on(pools);
    }

    /// What the element put out goes on the link in the same order.
    pub(super) fn put_out(&mut self, element: u8, now: Instant, pools: &mut Pools) {
        let mut outputs = std::mem::take(&mut self.outputs);
        let first = self.outgoing.len();
        for output in outputs.drain(..) {
            self.tell_resumed(&output, element);
            match output {
                Output::Depart(packet, egress) => self.outgoing.push(departing(packet, egress)),
                Output::Drop(packet, reason) => {
                    self.drop_at(Some(element), packet.frame, reason, pools);
                }
                Output::Reply(frame) => self.outgoing.push(reply(frame, now, self.received_ns)),
                Output::Send(message) => {
                    let body = self.body(first, element, now, pools);
                    if !body.is_some_and(|frame| append(frame, &message)) {
                        self.counts.no_buffer += 1;
                    }
                }
            }
        }
        self.outgoing[first..]
            .iter_mut()
            .for_each(|outgoing| outgoing.header.element = element);
        (self.outputs, self.told) = (outputs, None);
    }

    /// The frame that the next message travels in: the one before, if nothing went out since and
    /// there is room.
    fn body(
        &mut self,
        first: usize,
        element: u8,
        now: Instant,
        pools: &mut Pools,
    ) -> Option<&mut Frame> {
        let has_room = self.outgoing[first..].last().is_some_and(|last| {
            last.header.message == Message::RuleRequest
                && last
                    .frame
                    .as_ref()
                    .is_some_and(|frame| frame.len() + MAX_MESSAGE_BYTES <= BODY_BYTES)
        });
        if !has_room {
            let mut header = Header::new(Message::RuleRequest, FlowKey::default());
            (header.element, header.timestamp) = (element, now);
            self.outgoing.push(Outgoing {
                header,
                frame: Some(pools.take(BODY_BYTES)?),
            });
        }
        self.outgoing.last_mut()?.frame.as_mut()
    }
}

fn empty(mut frame: Frame) -> Frame {
    frame.set_len(0);
    frame
}

/// Bytes of messages that travel in one frame.
const BODY_BYTES: usize = 1400;

fn append(frame: &mut Frame, message: &twinpath_rulecache::CacheMessage) -> bool {
    let (len, bytes) = (frame.len(), message.bytes());
    frame.set_len(len + bytes) && message.write(&mut frame.bytes_mut()[len..]).is_some()
}

fn departing(packet: Packet, egress: Option<u16>) -> Outgoing {
    let mut frame = packet.frame;
    let mut metadata = frame.metadata();
    metadata.egress = egress.or(metadata.egress);
    frame.set_metadata(metadata);
    outgoing(frame, false)
}

/// Whatever a function made is as old as what caused it. It passes the elements before this one.
fn reply(mut frame: Frame, now: Instant, received_ns: u64) -> Outgoing {
    frame.set_timestamp(now);
    frame.set_received_ns(received_ns);
    outgoing(frame, true)
}

fn outgoing(frame: Frame, is_reply: bool) -> Outgoing {
    let mut header = Header::new(Message::Return, FlowKey::default());
    (header.has_packet, header.is_reply, header.timestamp) = (true, is_reply, frame.timestamp());
    Outgoing {
        header,
        frame: Some(frame),
    }
}
