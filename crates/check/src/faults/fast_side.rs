//! What happens at the fast path.

use super::record::happened::{Brief, Happened};
use super::record::packet::{PacketHistory, Place};
use super::record::step::Cause;
use super::rule::Rule;
use super::scenario::kind::Kind;
use super::scenario::resources::PLENTY;
use super::simulation::Simulation;
use super::world::agenda::Next;
use super::world::frame::{Cargo, number_of};
use super::world::line::{Sending, Transit};
use super::world::line_id::LineId;
use super::world::source::is_inside;
use twinpath_core::wire::{dissect, fields};
use twinpath_core::{Direction, DropReason, Frame, Side};
use twinpath_link::{Header, Message};
use twinpath_node::{Departure, Via};

/// Packets that come when all else is over, at most.
const MOST_TRICKLED: u32 = 64;

impl Simulation {
    /// Packets arrive, a few at once; while the machine takes none they wait.
    pub(super) fn arrive(&mut self) {
        let room = self.machine.room() as u64;
        if room == 0 {
            self.has_waiting_packets = true;
            return;
        }
        let traffic = &self.scenario.traffic;
        let (burst, rate) = (self.most_together(), traffic.gap_ns);
        let count = room.min(1 + self.arrivals.below(burst));
        let mut numbers = Vec::new();
        let is_over = (0..count).any(|_| !self.take_packet(&mut numbers));
        self.process(&numbers);
        self.change_or_not();
        self.tick();
        if is_over {
            let grace = self.arrivals.below(10 * rate + 1);
            return self.plan_next(grace, Next::Calm);
        }
        let is_silent = self
            .arrivals
            .permille(self.scenario.traffic.silence_permille);
        let silence = u64::from(is_silent) * self.scenario.traffic.silence_ns;
        let gap = self.arrivals.below(rate + 1);
        self.plan_next(gap + silence, Next::Arrival);
        self.plan_mishaps();
    }

    /// Where rings are short packets come one by one: it shows which found no room.
    fn most_together(&self) -> u64 {
        match self.scenario.resources.ring_frames < PLENTY {
            true => 1,
            false => self.scenario.traffic.burst.max(1).into(),
        }
    }

    fn plan_next(&mut self, after: u64, next: Next) {
        self.next_arrival = self.now + after;
        self.agenda.add(self.next_arrival, next);
    }

    /// The next packet comes in. False if there is none.
    fn take_packet(&mut self, numbers: &mut Vec<u32>) -> bool {
        let number = self.history.arrived() + 1;
        if number > self.scenario.traffic.packets {
            return false;
        }
        let Some((kind, bytes)) = self.source.next(number) else {
            return false;
        };
        self.take_this(number, (kind, bytes), numbers);
        true
    }

    /// A packet comes in.
    fn take_this(&mut self, number: u32, (kind, bytes): (Kind, Vec<u8>), numbers: &mut Vec<u32>) {
        self.coverage.packets += 1;
        let (flow, side) = self.steer(&bytes);
        self.note(Happened::Arrives {
            packet: number,
            flow,
            kind,
        });
        let frame = self.machine.pools().take_filled(&bytes);
        let at = self.packet_now();
        let direction = way(&bytes);
        self.admit_client(&bytes);
        let place = if frame.is_some() {
            Place::FastPath
        } else {
            Place::Dropped
        };
        self.history.arrive(PacketHistory {
            flow,
            kind,
            side,
            at,
            made: bytes.clone(),
            bytes,
            place,
            copies: 0,
            is_applied: false,
            direction,
            passed: 0,
            client: None,
            is_parked: false,
            was_held: !self.scenario.functions.tell_what_they_hold(),
            ordinal: self.machine.arrived() + numbers.len() as u64,
            seen: self.turn + 1,
        });
        match frame {
            Some(frame) => self.admit(frame, number, numbers),
            None => self.turn_away(number),
        }
    }

    /// When all else is over packets go on to come, one at a time, until rules are at rest: what
    /// they wait for is asked for again when packets pass.
    pub(super) fn trickle(&mut self) {
        let is_over = self.trickled >= MOST_TRICKLED;
        if is_over || self.rules_are_at_rest() {
            if self.seed.is_multiple_of(2) {
                self.agenda.add(self.now, Next::Stop);
            }
            return;
        }
        let number = self.history.arrived() + 1;
        let packet = self.source.trickle(number);
        let mut numbers = Vec::new();
        self.take_this(number, packet, &mut numbers);
        self.process(&numbers);
        self.tick();
        self.trickled += 1;
        let later = self.now + self.scenario.time_between_trickles();
        self.agenda.add(later, Next::Trickle);
    }

    fn steer(&mut self, bytes: &[u8]) -> (Option<usize>, Side) {
        let layout = dissect(bytes).ok();
        let Some(keyed) = layout.and_then(|layout| self.steering.key(bytes, &layout)) else {
            return (None, Side::Low);
        };
        let hash = keyed.key.hash(self.seed);
        let worker = self.machine.path().worker(hash);
        (
            Some(self.history.admit(keyed.key, hash, worker)),
            keyed.side,
        )
    }

    fn admit(&mut self, mut frame: Frame, number: u32, numbers: &mut Vec<u32>) {
        frame.set_timestamp(self.packet_now());
        frame.set_received_ns(number.into());
        self.batch.push(frame);
        numbers.push(number);
    }

    fn turn_away(&mut self, number: u32) {
        self.note(Happened::NoBuffer { packet: number });
        self.machine.count_drop(DropReason::NoBuffer);
        self.tally.dropped_fast += 1;
        self.coverage.no_buffer += 1;
    }

    fn process(&mut self, numbers: &[u32]) {
        let flow = |&number: &u32| self.history.packet(number)?.flow;
        let flows = numbers.iter().filter_map(flow).collect();
        self.begin(Cause::Packets(flows));
        if self.follows_walks() {
            numbers.iter().for_each(|&number| self.goes_inside(number));
        }
        self.note_walkers();
        let refused = self.refused();
        let clock = self.clock();
        self.machine.receive(&mut self.batch, clock, &mut self.out);
        let refused = self.refused() - refused;
        self.coverage.ring_full += refused;
        match self.follows_walks() {
            true => self.follow_walks(),
            false => self.settle(numbers, refused > 0),
        }
        self.check();
    }

    /// Finds out what became of each packet of a batch.
    fn settle(&mut self, numbers: &[u32], is_refused: bool) {
        let mut departures = std::mem::take(&mut self.out.departures);
        let punts = std::mem::take(&mut self.out.frames);
        let punted: Vec<u32> = punts.iter().map(|(_, frame)| number_of(frame)).collect();
        // Packets of a flow have an order among them, but for those that go back as answers.
        let class = |departure: &Departure| {
            let packet = self.history.packet(number_of(&departure.frame));
            (packet.and_then(|packet| packet.flow), departure.is_reply)
        };
        departures.sort_by_key(class);
        let is_in_order = departures
            .is_sorted_by_key(|departure| (class(departure), number_of(&departure.frame)));
        for &number in numbers {
            let is_this = |departure: &Departure| number_of(&departure.frame) == number;
            if let Some(place) = departures.iter().position(is_this) {
                let departure = departures.swap_remove(place);
                self.apply_fast(number);
                self.leave(departure, Place::FastPath);
            } else if !punted.contains(&number) {
                self.note(Happened::DroppedFast { packet: number });
                self.tally.dropped_fast += 1;
                if !is_refused {
                    self.apply_fast(number);
                }
                let step = &mut self.step;
                self.history
                    .moves(number, &[Place::FastPath], Place::Dropped, step);
            }
        }
        if !departures.is_empty() || !is_in_order {
            let what = "the fast path puts out what it was not given, or in another order".into();
            self.step.fault(Rule::Conserved, what);
        }
        for (worker, frame) in punts {
            self.send(LineId::to_worker(worker), frame);
        }
    }

    /// Packets that found no room on the link.
    pub(super) fn refused(&self) -> u64 {
        self.machine.path().drops().of(DropReason::PuntRingFull)
    }

    fn apply_fast(&mut self, number: u32) {
        if self.scenario.functions.is_ledger() {
            self.history.applies_fast(number, &mut self.step);
        }
    }

    /// A packet leaves.
    pub(super) fn leave(&mut self, departure: Departure, from: Place) {
        let number = number_of(&departure.frame);
        let is_fast = departure.via == Via::Fast;
        self.note(Happened::Leaves {
            packet: number,
            is_fast,
        });
        self.coverage.left_fast += u64::from(is_fast);
        self.coverage.left_slow += u64::from(!is_fast);
        let as_it_came = self.is_as_it_came(number, &departure);
        self.history
            .moves(number, &[from], Place::Left, &mut self.step);
        self.history.leaves(number, as_it_came, &mut self.step);
        self.source.hear(number, departure.frame.bytes());
        self.machine.pools().give(departure.frame);
    }

    fn is_as_it_came(&self, number: u32, departure: &Departure) -> bool {
        let Some(packet) = self.history.packet(number) else {
            return false;
        };
        packet.kind == Kind::Generated
            || self.follows_walks()
            || (departure.is_reply == (packet.kind == Kind::Reply)
                && departure.frame.bytes() == packet.bytes)
    }

    /// The machine is told the time.
    pub(super) fn tick(&mut self) {
        self.begin(Cause::Tick);
        let before = self.machine.path().counts().no_own_buffer;
        let refused = self.refused();
        self.note_walkers();
        let clock = self.clock();
        self.machine.advance(clock, &mut self.out);
        let lacks_buffer = self.machine.path().counts().no_own_buffer > before;
        (self.step.is_sweep, self.step.lacks_buffer) = (true, lacks_buffer);
        self.coverage.ring_full += self.refused() - refused;
        self.follow_out();
        self.check();
    }

    /// The run is to end.
    pub(super) fn stop(&mut self) {
        self.note(Happened::Stops);
        self.is_stopping = true;
        self.machine.stop(&mut self.out);
        self.tick();
    }

    /// A frame comes back from a worker.
    pub(super) fn returned(&mut self, line: LineId, ticket: u64) {
        let Some((transit, gap)) = self.take_off(line, ticket) else {
            return;
        };
        let Transit {
            cargo,
            mut frame,
            is_overtaken,
            ..
        } = transit;
        let is_about_state = Some(cargo.element) == self.scenario.elements.state();
        let flow = self.history.flow_of(&cargo.key);
        self.begin(Cause::Returned {
            flow: flow.filter(|_| is_about_state),
            message: cargo.message,
            generation: cargo.generation,
            is_overtaken,
        });
        if let Some(packet) = cargo
            .packet
            .filter(|_| self.follows_walks() && !is_overtaken)
        {
            let step = &mut self.step;
            self.history
                .moves(packet, &[Place::Back], Place::FastPath, step);
            self.goes_inside(packet);
        }
        self.note_walkers();
        self.tamper_on_return(line, &cargo, &mut frame);
        let (before, refused) = (*self.machine.path().counts(), self.refused());
        let clock = self.clock();
        self.machine
            .returned(line.worker, &mut vec![frame], clock, &mut self.out);
        self.coverage.ring_full += self.refused() - refused;
        if self.knows_epoch(line.worker) {
            self.bindings.former_rules_are_gone(self.turn);
        }
        let counts = self.machine.path().counts();
        let counted = (
            counts.link_reordered - before.link_reordered,
            counts.link_lost - before.link_lost,
        );
        self.check_numbers(line, counted, is_overtaken, gap);
        self.follow_out();
        self.check();
    }

    /// Whether the fast path has heard of a worker's present life.
    pub(super) fn knows_epoch(&self, worker: usize) -> bool {
        let known = self.machine.path().epoch(worker);
        known == 0 || known == self.workers[worker].epoch()
    }

    /// A receiver must drop and count frames that were overtaken, and count those missing.
    pub(super) fn check_numbers(
        &mut self,
        line: LineId,
        (reordered, lost): (u64, u64),
        is_overtaken: bool,
        gap: u32,
    ) {
        if (reordered, lost) != (u64::from(is_overtaken), u64::from(gap)) {
            let what = format!(
                "{line}: {reordered} overtaken and {lost} missing were counted, there were {} and {gap}",
                u64::from(is_overtaken)
            );
            self.step.fault(Rule::LinkChecked, what);
        }
    }

    /// Takes a frame off a line, with the number of frames missing before it.
    pub(super) fn take_off(&mut self, line: LineId, ticket: u64) -> Option<(Transit, u32)> {
        let newest = self.line(line).newest;
        let mut overtaken = Vec::new();
        let transit = self
            .line(line)
            .receive(ticket, |cargo| overtaken.push(cargo.clone()))?;
        for cargo in &overtaken {
            self.gone(cargo);
        }
        let says = Brief::of(&transit.cargo, self.history.flow_of(&transit.cargo.key));
        let number = transit.number;
        if transit.is_overtaken {
            self.coverage.frames_overtaken += 1;
            self.note(Happened::Overtaken { line, number, says });
            return Some((transit, 0));
        }
        self.note(Happened::Received { line, number, says });
        self.off_the_link(&transit.cargo);
        let gap = number - newest - 1;
        Some((transit, gap))
    }

    /// A frame will never be received.
    pub(super) fn gone(&mut self, cargo: &Cargo) {
        self.off_the_link(cargo);
        let packet = cargo
            .packet
            .and_then(|packet| self.history.packet_mut(packet));
        if let Some(packet) = packet {
            let is_under_way = matches!(packet.place, Place::ToWorker | Place::Back);
            if packet.copies == 0 && is_under_way {
                packet.place = Place::Lost;
            }
        }
    }

    fn off_the_link(&mut self, cargo: &Cargo) {
        if let Some(packet) = cargo
            .packet
            .and_then(|packet| self.history.packet_mut(packet))
        {
            packet.copies = packet.copies.saturating_sub(1);
        }
        if let Some(flow) = self.history.flow_of(&cargo.key) {
            let comes_first = self.must_come_first(cargo);
            let behind = &mut self.history.flows[flow].behind;
            *behind = behind.saturating_sub(usize::from(comes_first));
        }
    }

    /// Sends a frame, as a driver of production does: what is not sent has no number.
    pub(super) fn send(&mut self, line: LineId, mut frame: Frame) {
        let Some(cargo) = Cargo::of(&frame) else {
            let what = format!("{line}: a frame without a header");
            return self.step.fault(Rule::LinkChecked, what);
        };
        let says = Brief::of(&cargo, self.history.flow_of(&cargo.key));
        if self.tamper_on_sending(line, &cargo, &mut frame) {
            drop(frame);
            return self.lost(line, 0, says, &cargo);
        }
        let now = self.now;
        let place = &mut self.lines[line.worker][usize::from(line.is_back)];
        let sent_as = sequence_of(&frame).filter(|_| !line.is_back);
        match place.send(frame, (cargo.clone(), sent_as), now, &mut self.spare) {
            Sending::Carried { number, at, double } => {
                self.carried(line, number, says, &cargo, at, double)
            }
            Sending::Lost { number, frame } => {
                drop(frame);
                self.lost(line, number, says, &cargo);
            }
        }
    }

    fn carried(
        &mut self,
        line: LineId,
        number: u32,
        says: Brief,
        cargo: &Cargo,
        (due, ticket): (u64, u64),
        double: Option<(u64, u64)>,
    ) {
        let copies = 1 + usize::from(double.is_some());
        self.coverage.frames_doubled += u64::from(double.is_some());
        self.note(Happened::Sent {
            line,
            number,
            says,
            due,
            twice: double.is_some(),
        });
        let place = if line.is_back {
            Place::Back
        } else {
            Place::ToWorker
        };
        self.packet_goes(cargo, line, place);
        if let Some(packet) = cargo
            .packet
            .and_then(|packet| self.history.packet_mut(packet))
        {
            packet.copies += copies;
        }
        if let Some(flow) = self.history.flow_of(&cargo.key) {
            let comes_first = self.must_come_first(cargo);
            self.history.flows[flow].behind += copies * usize::from(comes_first);
        }
        self.agenda.add(due, Next::Frame { line, ticket });
        if let Some((due, ticket)) = double {
            self.agenda.add(due, Next::Frame { line, ticket });
        }
    }

    /// Whether the workers have to process it before the fast path may hold the flow's state.
    fn must_come_first(&self, cargo: &Cargo) -> bool {
        let is_about_state = Some(cargo.element) == self.scenario.elements.state();
        is_about_state && matches!(cargo.message, Message::Plain | Message::Pull)
    }

    fn lost(&mut self, line: LineId, number: u32, says: Brief, cargo: &Cargo) {
        self.coverage.frames_lost += 1;
        self.note(Happened::Lost { line, number, says });
        self.packet_goes(cargo, line, Place::Lost);
    }

    fn packet_goes(&mut self, cargo: &Cargo, line: LineId, to: Place) {
        let from = if line.is_back {
            Place::AtWorker
        } else {
            Place::FastPath
        };
        if let Some(packet) = cargo.packet {
            self.history.moves(packet, &[from], to, &mut self.step);
        }
    }
}

/// Which way a packet goes through a chain with rules: clients are inside.
fn way(bytes: &[u8]) -> Direction {
    let source = dissect(bytes).map(|layout| fields::source(bytes, &layout));
    match source {
        Ok(source) if !is_inside(source) => Direction::Reply,
        _ => Direction::Original,
    }
}

/// The number that the machine gave a frame; none for one that is forged.
fn sequence_of(frame: &Frame) -> Option<u32> {
    let header = Header::read(frame.bytes()).ok()?;
    Some(header.sequence).filter(|&number| number != 0)
}
