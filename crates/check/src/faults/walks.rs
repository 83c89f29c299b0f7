//! How packets walk through a chain with rules: wherever one comes out, it is what the functions
//! that it has passed make of it alone, by bindings that were in force when it passed.
//!
//! A packet that went into the fast path and has not come out is *inside*: it is held for a rule,
//! or it was dropped. How many it is of each is known, but of which only later.

use super::functions::account::Account;
use super::record::happened::Happened;
use super::record::packet::{PacketHistory, Place};
use super::rule::Rule;
use super::simulation::Simulation;
use super::world::frame::{behind_header, number_of};
use super::world::line_id::LineId;
use twinpath_core::wire::Endpoint;
use twinpath_core::{Direction, Frame};
use twinpath_link::Header;
use twinpath_node::Departure;

/// Where a packet came out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Out {
    /// It leaves.
    Leaves,
    /// It goes to the slow path.
    Punted,
    /// It comes from the slow path.
    FromWorker,
}

/// A packet that came out.
pub(super) struct Sight {
    pub number: u32,
    /// How many elements it has passed.
    pub passed: usize,
    pub out: Out,
    /// Bytes that are not there but parked.
    pub parked: usize,
}

impl Simulation {
    /// Whether packets may stay inside the fast path.
    pub(super) fn follows_walks(&self) -> bool {
        self.has_rules() || self.has_parking()
    }

    pub(super) fn has_rules(&self) -> bool {
        self.scenario.elements.have_rules()
    }

    /// A packet goes into the fast path.
    pub(super) fn goes_inside(&mut self, number: u32) {
        self.inside.insert(number);
        self.tally.inside_fast += 1;
    }

    /// What is inside may meet the state of its flow in this step.
    pub(super) fn note_walkers(&mut self) {
        let flow = |&number: &u32| self.history.packet(number)?.flow;
        self.step.walkers = self.inside.iter().filter_map(flow).collect();
    }

    /// Follows what the fast path puts out.
    pub(super) fn follow_walks(&mut self) {
        let departures = std::mem::take(&mut self.out.departures);
        let punts = std::mem::take(&mut self.out.frames);
        let left = departures.iter().map(|departure| {
            let number = number_of(&departure.frame);
            (number, self.length_of_way(number))
        });
        let punted = punts.iter().filter_map(|(_, frame)| self.punted_at(frame));
        self.apply_crossed(left.chain(punted).collect());
        for departure in departures {
            self.leaves_chain(departure);
        }
        for (worker, frame) in punts {
            if let Some((number, passed)) = self.punted_at(&frame) {
                let sight = Sight {
                    number,
                    passed,
                    out: Out::Punted,
                    parked: parked_of(&frame),
                };
                self.come_out(sight, behind_header(&frame));
            }
            self.send(LineId::to_worker(worker), frame);
        }
    }

    fn leaves_chain(&mut self, departure: Departure) {
        let number = number_of(&departure.frame);
        let sight = Sight {
            number,
            passed: self.length_of_way(number),
            out: Out::Leaves,
            parked: departure.frame.trip().parked_bytes.into(),
        };
        self.come_out(sight, departure.frame.bytes());
        self.leave(departure, Place::FastPath);
    }

    /// How many elements a packet passes that leaves; what is no IP passes none.
    fn length_of_way(&self, number: u32) -> usize {
        let flow = self.history.packet(number).and_then(|packet| packet.flow);
        flow.map_or(0, |_| self.scenario.elements.list().len())
    }

    /// The packet on a frame for the slow path, and how many elements it has passed.
    fn punted_at(&self, frame: &Frame) -> Option<(u32, usize)> {
        let header = Header::read(frame.bytes()).ok()?;
        let elements = self.scenario.elements;
        let passed = elements.position(header.element, header.trip.direction);
        header.has_packet.then(|| (number_of(frame), passed))
    }

    /// Packets that have passed the flow state on the fast path were applied there, in order. Some
    /// of them have not come out: they are held at a later element, or were dropped. What the
    /// slots have tells.
    fn apply_crossed(&mut self, came_out: Vec<(u32, usize)>) {
        if !self.scenario.functions.is_ledger() {
            return;
        }
        self.look_at_slots();
        let crossed = self.crossed(came_out);
        for flow in 0..self.history.flows.len() {
            let is_its_own = |&number: &u32| {
                let packet = self.history.packet(number);
                packet.is_some_and(|packet| packet.flow == Some(flow))
            };
            let seen: Vec<u32> = crossed.iter().copied().filter(is_its_own).collect();
            if !seen.is_empty() || self.has_more_than_is_known(flow) {
                self.explain(flow, seen);
            }
        }
    }

    /// Of packets that came out, those that have passed the flow state meanwhile.
    fn crossed(&self, mut came_out: Vec<(u32, usize)>) -> Vec<u32> {
        let elements = self.scenario.elements;
        let has_crossed = |packet: &PacketHistory, passed| {
            let position = elements
                .state()
                .map(|state| elements.position(state, packet.direction));
            let newly = packet.passed..passed;
            !packet.is_applied && position.is_some_and(|position| newly.contains(&position))
        };
        came_out.retain(|&(number, passed)| {
            let packet = self.history.packet(number);
            packet.is_some_and(|packet| has_crossed(packet, passed))
        });
        let mut crossed: Vec<u32> = came_out.into_iter().map(|(number, _)| number).collect();
        crossed.sort_unstable();
        crossed
    }

    /// Applies to a flow what its slot shows to have been applied, `seen` at least.
    fn explain(&mut self, flow: usize, seen: Vec<u32>) {
        let explained = self.applied_unseen(flow, &seen);
        let (dropped, applied) = explained.unwrap_or((Vec::new(), seen.clone()));
        for packet in dropped {
            // One that closes a closed account leaves no trace, and may still come out.
            if !self.closes(packet) {
                self.vanish(packet);
            }
        }
        for packet in applied {
            if self.closes_late(flow, packet) {
                continue;
            }
            self.history.applies_fast(packet, &mut self.step);
            let kind = self.history.packet(packet).map(|packet| packet.kind);
            if kind.is_some_and(|kind| kind.is_dropped()) && !seen.contains(&packet) {
                self.vanish(packet);
            }
        }
    }

    fn unapplied(&self, flow: Option<usize>) -> impl Iterator<Item = u32> {
        let packets = self.inside.iter().copied();
        packets.filter(move |&number| {
            let packet = self.history.packet(number);
            packet.is_some_and(|packet| packet.flow == flow && !packet.is_applied)
        })
    }

    /// A packet inside turns out to have been dropped.
    fn vanish(&mut self, number: u32) {
        self.inside.remove(&number);
        self.note(Happened::DroppedFast { packet: number });
        self.justify_drop(number);
        let step = &mut self.step;
        self.history
            .moves(number, &[Place::FastPath], Place::Dropped, step);
    }

    /// A packet comes out of the fast path or of the slow path.
    fn come_out(&mut self, sight: Sight, bytes: &[u8]) {
        let Sight {
            number,
            passed,
            out,
            parked,
        } = sight;
        if out != Out::FromWorker {
            self.tally.inside_fast -= 1;
            self.inside.remove(&number);
        }
        if let Err(what) = self.is_as_alone(&sight, bytes) {
            let rule = match self.has_parking() && out == Out::Leaves {
                true => Rule::Whole,
                false => Rule::AsAlone,
            };
            let what = format!("packet {number} comes out {what}");
            self.step.fault(rule, what);
        }
        if out == Out::Leaves && parked != 0 {
            let what = format!("the header of packet {number} leaves alone");
            self.step.fault(Rule::Whole, what);
        }
        self.judge_translation(&sight, bytes);
        let turn = self.turn;
        if let Some(packet) = self.history.packet_mut(number) {
            (packet.passed, packet.seen) = (passed, turn);
            packet.client = end_of(bytes, packet.direction);
            packet.is_parked = parked != 0;
        }
    }

    /// A frame comes back from a worker.
    pub(super) fn comes_from_worker(&mut self, frame: &Frame) {
        let Ok(header) = Header::read(frame.bytes()) else {
            return;
        };
        if !self.follows_walks() || !header.has_packet {
            return;
        }
        let elements = self.scenario.elements;
        let sight = Sight {
            number: number_of(frame),
            passed: elements.position(header.element, header.trip.direction) + 1,
            out: Out::FromWorker,
            parked: header.trip.parked_bytes.into(),
        };
        self.come_out(sight, behind_header(frame));
    }

    fn closes(&self, number: u32) -> bool {
        let packet = self.history.packet(number);
        packet.is_some_and(|packet| packet.kind.closes())
    }

    /// A packet that closes an account which is closed changes nothing: when it did that is only
    /// known if it comes out at once.
    fn closes_late(&mut self, flow: usize, number: u32) -> bool {
        let last = self.history.flows[flow].last_applied;
        match self.history.packet_mut(number) {
            Some(packet) if packet.kind.closes() && number < last => {
                packet.is_applied = true;
                true
            }
            _ => false,
        }
    }

    fn has_more_than_is_known(&self, flow: usize) -> bool {
        let known = &self.history.flows[flow];
        self.is_at_fast_path(known)
            && Account::among(self.words_of(known)) != Some(known.truth.account)
    }

    /// Which packets inside explain what the slot has: those dropped in front of it, as few as
    /// can be of each direction, and those applied. All of `seen` were.
    fn applied_unseen(&self, flow: usize, seen: &[u32]) -> Option<(Vec<u32>, Vec<u32>)> {
        let last = self.history.flows[flow].last_applied;
        let may_be_applied = |&number: &u32| number > last || !self.closes(number);
        let candidates: Vec<u32> = self.unapplied(Some(flow)).filter(may_be_applied).collect();
        let of = |direction| {
            let is_its = |number: &&u32| {
                let packet = self.history.packet(**number);
                packet.is_some_and(|packet| packet.direction == direction)
            };
            let packets: Vec<u32> = candidates.iter().filter(is_its).copied().collect();
            packets
        };
        let (there, back) = (of(Direction::Original), of(Direction::Reply));
        for dropped_there in 0..=there.len() {
            for dropped_back in 0..=back.len() {
                let dropped = [&there[..dropped_there], &back[..dropped_back]].concat();
                let is_left = |number: &&u32| !dropped.contains(number);
                let left: Vec<u32> = candidates.iter().filter(is_left).copied().collect();
                if let Some(applied) = self.explaining(flow, &left, seen) {
                    return Some((dropped, left[..applied].to_vec()));
                }
            }
        }
        None
    }

    /// How many packets explain what the slot has, if they were applied one after the other.
    fn explaining(&self, flow: usize, packets: &[u32], seen: &[u32]) -> Option<usize> {
        let known = &self.history.flows[flow];
        let has = Account::among(self.words_of(known))?;
        let mut truth = known.truth.clone();
        for (place, &number) in packets.iter().enumerate() {
            let packet = self.history.packet(number)?;
            if packet.kind.is_complex() || number < known.last_applied {
                return None;
            }
            truth.take(number, packet, self.history.expiry_ticks);
            let applied = &packets[..=place];
            let has_seen = seen.iter().all(|packet| applied.contains(packet));
            if has_seen && truth.account == has {
                return Some(place + 1);
            }
        }
        None
    }
}

/// Bytes of a frame's packet that are parked.
fn parked_of(frame: &Frame) -> usize {
    let header = Header::read(frame.bytes());
    header.map_or(0, |header| header.trip.parked_bytes.into())
}

/// The client's end of a packet over IPv4, also of one whose payload is parked.
pub(super) fn end_of(bytes: &[u8], direction: Direction) -> Option<Endpoint> {
    let (address, port) = match direction {
        Direction::Original => (26, 34),
        Direction::Reply => (30, 36),
    };
    let address = bytes.get(address..)?.first_chunk()?;
    let port = bytes.get(port..)?.first_chunk()?;
    Some(Endpoint::v4(*address, u16::from_be_bytes(*port)))
}
