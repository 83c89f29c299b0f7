//! What happens at the slow path.

use super::functions::account::Account;
use super::functions::ledger::{Note, take_notes};
use super::look::flows_of;
use super::record::happened::{Brief, Happened};
use super::record::packet::Place;
use super::record::step::{Cause, WrittenBack};
use super::rule::Rule;
use super::simulation::Simulation;
use super::world::agenda::Next;
use super::world::frame::Cargo;
use super::world::line::Transit;
use super::world::line_id::LineId;
use twinpath_core::DropReason;
use twinpath_link::{Header, Message};

/// What a worker had counted before a step.
pub(super) struct Before {
    imports: u64,
    dropped: u64,
    reordered: u64,
    lost: u64,
}

impl Simulation {
    pub(super) fn plan_mishaps(&mut self) {
        let faults = self.scenario.workers;
        let workers = self.workers.len() as u64;
        let soon = 20 * self.scenario.to_worker.delay_ns;
        if self.mishaps.permille(faults.crash_permille) {
            let worker = self.mishaps.below(workers) as usize;
            let at = self.now + self.mishaps.below(soon);
            self.agenda.add(at, Next::Crash { worker });
        }
        if self.mishaps.permille(faults.pause_permille) {
            let worker = self.mishaps.below(workers) as usize;
            let at = self.now + self.mishaps.below(soon);
            self.agenda.add(at, Next::Pause { worker });
        }
    }

    /// A frame gets to the end of a line. A worker that pauses lets it lie.
    pub(super) fn frame(&mut self, line: LineId, ticket: u64) {
        if line.is_back {
            return self.returned(line, ticket);
        }
        let worker = line.worker;
        if self.now < self.paused_until[worker] || !self.waiting[worker].is_empty() {
            return self.waiting[worker].push_back(ticket);
        }
        self.receive(worker, ticket);
    }

    pub(super) fn pause(&mut self, worker: usize) {
        if self.is_calm {
            return;
        }
        let until = self.now + self.mishaps.below(self.scenario.workers.pause_ns + 1);
        self.paused_until[worker] = self.paused_until[worker].max(until);
        self.coverage.pauses += 1;
        self.note(Happened::Paused { worker, until });
        self.agenda.add(until, Next::Resume { worker });
    }

    pub(super) fn resume(&mut self, worker: usize) {
        if self.now < self.paused_until[worker] {
            return;
        }
        self.note(Happened::Resumed { worker });
        for ticket in std::mem::take(&mut self.waiting[worker]) {
            self.receive(worker, ticket);
        }
    }

    fn receive(&mut self, worker: usize, ticket: u64) {
        let Some((transit, gap)) = self.take_off(LineId::to_worker(worker), ticket) else {
            return;
        };
        let Transit {
            cargo,
            mut frame,
            is_overtaken,
            ..
        } = transit;
        let is_about_state = Some(cargo.element) == self.scenario.elements.state();
        let flow = self
            .history
            .flow_of(&cargo.key)
            .filter(|_| is_about_state && !is_overtaken);
        self.begin(Cause::Received { flow, worker });
        self.tamper_at_worker(worker, &cargo, &mut frame);
        if !is_overtaken {
            self.check_write_back(&cargo, flow, frame.bytes());
            self.enters(worker, &cargo);
        }
        let before = self.before(worker);
        self.workers[worker].receive(frame, &mut self.worker_pools[worker], &mut self.returns);
        let counts = self.workers[worker].link_counts();
        let counted = (
            counts.reordered - before.reordered,
            counts.lost - before.lost,
        );
        self.check_numbers(LineId::to_worker(worker), counted, is_overtaken, gap);
        self.after(worker, &before, flow.map(|flow| (flow, &cargo)));
        self.check();
    }

    fn enters(&mut self, worker: usize, cargo: &Cargo) {
        if let Some(packet) = cargo.packet {
            self.tally.inside[worker] += 1;
            let step = &mut self.step;
            self.history
                .moves(packet, &[Place::ToWorker], Place::AtWorker, step);
        }
    }

    /// What a write-back brings must be what the slot was frozen with.
    fn check_write_back(&mut self, cargo: &Cargo, flow: Option<usize>, bytes: &[u8]) {
        let (Some(flow), Ok(header)) = (flow, Header::read(bytes)) else {
            return;
        };
        if cargo.message == Message::WriteBack {
            self.step.written_back.push(WrittenBack {
                flow,
                generation: cargo.generation,
                is_what_was_frozen: header.words() == self.history.flows[flow].frozen,
            });
        }
    }

    pub(super) fn before(&self, worker: usize) -> Before {
        let worker = &self.workers[worker];
        let (drops, counts) = (worker.drops(), worker.link_counts());
        Before {
            imports: flows_of(worker).map_or(0, |flows| flows.stats().imports),
            dropped: drops.total() - drops.of(DropReason::LinkReordered),
            reordered: counts.reordered,
            lost: counts.lost,
        }
    }

    /// Follows what a worker did: with a frame, or because a deadline passed.
    pub(super) fn after(
        &mut self,
        worker: usize,
        before: &Before,
        received: Option<(usize, &Cargo)>,
    ) {
        let now = self.before(worker);
        if let Some((flow, cargo)) = received.filter(|_| now.imports > before.imports) {
            let generation = cargo.generation;
            self.note(Happened::Imported { flow, generation });
            self.history.imports(flow, generation, &mut self.step);
        }
        self.hear(worker, received);
        self.follow_bindings();
        self.tally.inside[worker] -= (now.dropped - before.dropped) as i64;
        for frame in std::mem::take(&mut self.returns) {
            let has_packet = Cargo::of(&frame).is_some_and(|cargo| cargo.packet.is_some());
            self.tally.inside[worker] -= i64::from(has_packet);
            self.comes_from_worker(&frame);
            self.send(LineId::from_worker(worker), frame);
        }
        if self.scenario.functions.is_ledger() {
            self.find_refused(received);
        }
    }

    /// Listens to what the ledger says it did.
    fn hear(&mut self, worker: usize, received: Option<(usize, &Cargo)>) {
        let mut heard = std::mem::take(&mut self.heard);
        take_notes(&self.notes, &mut heard);
        if let Some((flow, cargo)) = received {
            let is_known = self.at_worker(flow).is_some();
            let is_touched = heard.iter().any(|note| note.key() == Some(&cargo.key));
            if is_known || is_touched {
                self.history.flows[flow].decide(cargo);
            }
        }
        for note in heard.drain(..) {
            self.follow(worker, note, received);
        }
        self.heard = heard;
    }

    fn follow(&mut self, worker: usize, note: Note, received: Option<(usize, &Cargo)>) {
        match note {
            Note::Held { packet, found, .. } => {
                self.note(Happened::Held { packet });
                self.coverage.held += 1;
                let now = self.packet_now();
                self.history
                    .holds(packet, Account(found), now, &mut self.step);
            }
            Note::Entered { packet, found, .. } => {
                self.note(Happened::Entered { packet });
                self.coverage.woken += u64::from(received.is_none());
                let now = self.packet_now();
                self.history
                    .applies(packet, Account(found), now, &mut self.step);
                let kind = self.history.packet(packet).map(|packet| packet.kind);
                if kind.is_some_and(|kind| kind.is_dropped()) {
                    let step = &mut self.step;
                    self.history
                        .moves(packet, &[Place::AtWorker], Place::Dropped, step);
                }
            }
            Note::Forgotten { packet } => {
                self.note(Happened::Forgotten { packet });
                self.tally.inside[worker] -= 1;
                let what = format!("packet {packet} was held and is forgotten uncounted");
                self.step.fault(Rule::Conserved, what);
            }
        }
    }

    /// A packet that the ledger has not heard of was refused: there was no room for its flow.
    fn find_refused(&mut self, received: Option<(usize, &Cargo)>) {
        let Some((flow, number)) = received.and_then(|(flow, cargo)| Some((flow, cargo.packet?)))
        else {
            return;
        };
        let held = &self.history.flows[flow].truth.held;
        let is_held = held.iter().any(|&(packet, _)| packet == number);
        let Some(packet) = self.history.packet_mut(number) else {
            return;
        };
        if packet.place == Place::AtWorker && !is_held && !packet.is_applied {
            packet.place = Place::Dropped;
            self.coverage.flow_table_full += 1;
        }
    }

    /// A deadline passes at a worker.
    pub(super) fn wake(&mut self, worker: usize) {
        if self.now < self.paused_until[worker] {
            return;
        }
        let deadline = self.workers[worker].next_deadline();
        let Some(deadline) = deadline.filter(|&at| at <= self.packet_now()) else {
            return;
        };
        self.begin(Cause::Woken { worker });
        self.note(Happened::Woken { worker });
        let before = self.before(worker);
        // Nothing older is on its way.
        let deadline = match self.lines[worker][0].is_empty() {
            true => deadline.max(self.packet_now()),
            false => deadline,
        };
        self.workers[worker].advance(deadline, &mut self.worker_pools[worker], &mut self.returns);
        self.after(worker, &before, None);
        self.check();
    }

    /// A worker loses all it knows and starts again. Its rings may survive, each for itself.
    pub(super) fn crash(&mut self, worker: usize) {
        if self.is_calm {
            return;
        }
        self.begin(Cause::Crashed { worker });
        self.coverage.crashes += 1;
        self.count_worker(worker);
        let inside = self.tally.inside[worker];
        for flow in 0..self.history.flows.len() {
            if self.history.flows[flow].worker == worker {
                let keeps = self.is_at_fast_path(&self.history.flows[flow]);
                self.history.flows[flow].crash(keeps);
            }
        }
        self.lose_what_is_inside(worker);
        let before = self.workers[worker].drops();
        let (now, pools) = (self.packet_now(), &mut self.worker_pools[worker]);
        self.workers[worker].crash(now, pools, &mut self.returns);
        let mut expected = before.clone();
        expected.add(DropReason::WorkerCrashed, inside.max(0) as u64);
        let counted = self.workers[worker].drops();
        if counted != expected {
            let what = format!(
                "worker {worker} crashes with {inside} packets in its hands, and goes from {before:?} to {counted:?}"
            );
            self.step.fault(Rule::Conserved, what);
        }
        let after = self.before(worker);
        self.after(worker, &after, None);
        let epoch = self.workers[worker].epoch();
        self.note(Happened::Crashed { worker, epoch });
        for line in [LineId::to_worker(worker), LineId::from_worker(worker)] {
            if self.mishaps.flip() {
                self.lose_ring(line);
            }
        }
        self.check();
    }

    fn lose_what_is_inside(&mut self, worker: usize) {
        self.tally.inside[worker] = 0;
        let flows = &self.history.flows;
        let is_here = |flow: Option<usize>| flow.is_some_and(|flow| flows[flow].worker == worker);
        let lost: Vec<u32> = (1u32..)
            .zip(self.history.packets())
            .filter(|(_, packet)| packet.place == Place::AtWorker && is_here(packet.flow))
            .map(|(number, _)| number)
            .collect();
        for number in lost {
            if let Some(packet) = self.history.packet_mut(number) {
                packet.place = Place::Lost;
            }
        }
    }

    fn lose_ring(&mut self, line: LineId) {
        let frames = self.line(line).lose_all();
        for transit in frames {
            let number = transit.number;
            let says = Brief::of(&transit.cargo, self.history.flow_of(&transit.cargo.key));
            self.note(Happened::LostInCrash { line, number, says });
            if !transit.is_overtaken {
                self.gone(&transit.cargo);
            }
        }
    }
}
