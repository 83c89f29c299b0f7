//! What is behind the switch: frames on their way to the cores, there, and back.

use super::super::control_plane::Passed;
use super::super::cores::{At, Whose};
use super::super::switch::clock;
use super::{Event, Testbed};
use twinpath_core::Frame;
use twinpath_core::wire::dissect;
use twinpath_engine::{Agenda, Time};
use twinpath_link::{Header, Message, number};
use twinpath_node::machine::Progress;

/// A frame on its way to a core.
pub(super) struct Crossing {
    frame: Frame,
    /// The machine's number of it.
    sequence: u32,
    whose: Whose,
    at: At,
    bytes: u32,
    ticket: u64,
}

/// A report of rules, which waits for the packets before it.
pub(super) struct Report {
    worker: usize,
    frame: Frame,
    sequence: u32,
}

/// A frame on its way back.
pub(super) struct Return {
    worker: usize,
    frame: Frame,
    /// The machine's number of the frame that it came of; none if a timer made it, or an order.
    cause: Option<u32>,
}

impl Testbed<'_> {
    pub(super) fn punt(
        &mut self,
        worker: usize,
        frame: Frame,
        now: Time,
        agenda: &mut Agenda<Event>,
    ) {
        let Ok(header) = Header::read(frame.bytes()) else {
            return self.lose(frame);
        };
        self.finishing[worker].sent();
        let mut bytes = (frame.len() - header.bytes()) as u32;
        if let Some(store) = &self.store {
            bytes = bytes.min(store.header_bytes);
        }
        let whose = Whose {
            worker,
            hash: self.flow_hash(&frame.bytes()[header.bytes()..]),
        };
        let at = At {
            element: header.element,
            stage: 0,
        };
        match self.bank.cross(now, worker, bytes) {
            Err(_) => {
                self.lose(frame);
                self.finish(worker, header.sequence);
            }
            Ok(arrived) => {
                self.under_way += 1;
                let crossing = Crossing {
                    frame,
                    sequence: header.sequence,
                    whose,
                    at,
                    bytes,
                    ticket: u64::MAX,
                };
                agenda.at(arrived, Event::AtCores(crossing));
            }
        }
    }

    /// The hash of a packet's flow; 0 of what is no packet.
    fn flow_hash(&self, packet: &[u8]) -> u64 {
        let keyed = dissect(packet)
            .ok()
            .and_then(|layout| self.steering.key(packet, &layout));
        keyed.map_or(0, |keyed| keyed.key.hash(self.steering.hash_key()))
    }

    /// Reports of rules must not overtake packets, which several cores work on.
    pub(super) fn at_cores(&mut self, mut crossing: Crossing, agenda: &mut Agenda<Event>) {
        if crossing.ticket == u64::MAX {
            if Header::read(crossing.frame.bytes()).is_ok_and(|h| h.message == Message::RuleReport)
            {
                self.barrier.wait(Report {
                    worker: crossing.whose.worker,
                    frame: crossing.frame,
                    sequence: crossing.sequence,
                });
                return self.free(agenda);
            }
            crossing.ticket = self.barrier.enter();
        }
        let now = agenda.now();
        match self
            .bank
            .work(now, crossing.at, crossing.whose, crossing.bytes)
        {
            Err(_) => {
                self.barrier.done(crossing.ticket);
                self.under_way -= 1;
                self.lose(crossing.frame);
                self.finish(crossing.whose.worker, crossing.sequence);
                self.free(agenda);
            }
            Ok(done) => {
                crossing.at.stage += 1;
                let is_last = crossing.at.stage >= self.bank.stages(crossing.at.element);
                let event = if is_last { Event::Done } else { Event::AtCores };
                agenda.at(done, event(crossing));
            }
        }
    }

    pub(super) fn done(&mut self, crossing: Crossing, agenda: &mut Agenda<Event>) {
        let worker = crossing.whose.worker;
        self.receive(worker, crossing.frame, crossing.sequence, agenda);
        self.barrier.done(crossing.ticket);
        self.free(agenda);
    }

    /// What has waited for packets before it is received.
    fn free(&mut self, agenda: &mut Agenda<Event>) {
        while let Some(report) = self.barrier.next_free() {
            self.receive(report.worker, report.frame, report.sequence, agenda);
        }
    }

    fn receive(
        &mut self,
        worker: usize,
        mut frame: Frame,
        sequence: u32,
        agenda: &mut Agenda<Event>,
    ) {
        self.under_way -= 1;
        // Several cores reorder what the machine has numbered.
        number(&mut frame, self.numbers[worker].0.number());
        let waited_since = self.waiting_since(worker);
        self.finishing[worker].received(sequence, waited_since);
        let pools = &mut self.node.worker_pools[worker];
        self.node.workers[worker].receive(frame, pools, &mut self.returns);
        self.send_back(worker, Some(sequence), agenda);
        self.finish(worker, sequence);
    }

    /// What a worker has given back, because of a frame with this number, a timer or an order.
    pub(super) fn send_back(
        &mut self,
        worker: usize,
        cause: Option<u32>,
        agenda: &mut Agenda<Event>,
    ) {
        let mut returns = std::mem::take(&mut self.returns);
        for frame in returns.drain(..) {
            let header = Header::read(frame.bytes()).map_or(0, |header| header.bytes());
            let mut bytes = (frame.len() - header) as u32;
            if let Some(store) = &self.store {
                bytes = bytes.min(store.header_bytes);
            }
            match self.bank.come_back(agenda.now(), worker, bytes) {
                Ok(at) => {
                    let back = Return {
                        worker,
                        frame,
                        cause,
                    };
                    self.goes(&back);
                    agenda.at(at, Event::Back(back));
                }
                Err(_) => self.lose(frame),
            }
        }
        self.returns = returns;
    }

    /// A frame sets out for the machine.
    fn goes(&mut self, back: &Return) {
        self.under_way += 1;
        if let Some(sequence) = back.cause {
            self.finishing[back.worker].goes(sequence);
        }
    }

    /// Something that came of a frame has been handed in, or lost. The machine is told how far the
    /// worker is, if it is further.
    fn finish(&mut self, worker: usize, sequence: u32) {
        if let Some(finished) = self.finishing[worker].comes(sequence) {
            let waiting_since = self.waiting_since(worker);
            let progress = Progress {
                finished,
                waiting_since: waiting_since.min(self.finishing[worker].waited_since()),
                ..self.node.workers[worker].progress()
            };
            // Where frames may be lost none waits for room, so nothing comes out.
            let out = &mut self.output;
            self.node.machine.progress(worker, progress, out);
        }
    }

    /// The oldest packet that waits at a worker for rules to go.
    fn waiting_since(&self, worker: usize) -> u64 {
        self.node.workers[worker].progress().waiting_since
    }

    /// Workers hear what time it is, whenever that is another.
    pub(super) fn tell_time(&mut self, agenda: &mut Agenda<Event>) {
        let time = self.node.machine.time();
        if std::mem::replace(&mut self.told, time) == time {
            return;
        }
        for worker in 0..self.node.workers.len() {
            let pools = &mut self.node.worker_pools[worker];
            self.node.workers[worker].advance(time, pools, &mut self.returns);
            self.send_back(worker, None, agenda);
        }
    }

    pub(super) fn back(&mut self, back: Return, agenda: &mut Agenda<Event>) {
        let Some(control_plane) = &mut self.control_plane else {
            return self.returned(back, agenda);
        };
        let Return {
            worker,
            frame,
            cause,
        } = back;
        let pools = &mut self.node.worker_pools[worker];
        let returns = |frame| Return {
            worker,
            frame,
            cause,
        };
        match control_plane.pass(frame, agenda.now(), pools) {
            Passed::Now(frame) => self.returned(returns(frame), agenda),
            Passed::Parted(rest, late) => {
                if let Some(rest) = rest.map(returns) {
                    self.goes(&rest);
                    self.returned(rest, agenda);
                }
                if let Some((at, frame)) = late {
                    let late = returns(frame);
                    self.goes(&late);
                    agenda.at(at, Event::Written(late));
                }
                self.has_come(worker, cause);
            }
        }
    }

    /// The control plane has done what is in a frame.
    pub(super) fn written(&mut self, back: Return, agenda: &mut Agenda<Event>) {
        if let Some(control_plane) = &mut self.control_plane {
            control_plane.written(&back.frame);
        }
        self.returned(back, agenda);
    }

    fn returned(&mut self, back: Return, agenda: &mut Agenda<Event>) {
        let Return {
            worker,
            mut frame,
            cause,
        } = back;
        number(&mut frame, self.numbers[worker].1.number());
        self.batch.push(frame);
        let (clock, out) = (clock(agenda.now()), &mut self.output);
        let machine = &mut self.node.machine;
        machine.returned(worker, &mut self.batch, clock, out);
        self.put_out(agenda);
        self.has_come(worker, cause);
    }

    /// A frame that set out for the machine is no longer under way.
    fn has_come(&mut self, worker: usize, cause: Option<u32>) {
        self.under_way -= 1;
        if let Some(sequence) = cause {
            self.finish(worker, sequence);
        }
    }
}
