//! The straight way through: plain packets of flows whose state is here, in a chain that is all
//! flow state.
//!
//! A batch is worked on in columns, so that the processor overlaps what it does for several
//! packets: first parse and hash all, then look at all tags, then let them walk in order of
//! arrival. A packet that needs anything else leaves the lane for [the walk of any
//! packet](super::FastPath::process), at its turn.

use super::batch::{Batch, prefetch_ahead};
use super::{Departure, FastElement, FastPath, Io, Via};
use crate::place::Place;
use twinpath_coherence::PlainPacket;
use twinpath_core::wire::layout::Plain;
use twinpath_core::{Direction, Frame, Steering};
use twinpath_fastpath::Outcome;
use twinpath_fastpath::state_table::NO_SLOT;

/// What is known of a batch's plain packets.
#[derive(Default)]
pub(super) struct Lane {
    /// By number in the batch; what follows is of earlier ones.
    packets: Vec<PlainPacket>,
}

impl FastPath {
    /// Whether the chain has a lane for plain packets.
    #[inline]
    pub(super) fn has_lane(&self) -> bool {
        match self.elements.as_slice() {
            [FastElement::State(stage)] => {
                self.sides.is_one_way() && self.steering.are_connections() && stage.serves_plain()
            }
            _ => false,
        }
    }

    /// The walk of a batch through a chain that has a lane.
    pub(super) fn process_lane(
        &mut self,
        frames: &mut Vec<Frame>,
        batch: &mut Batch,
        io: &mut Io<'_>,
    ) {
        let mut lane = std::mem::take(&mut batch.lane);
        batch.make_room(frames.len());
        self.counts.packets_in += frames.len() as u64;
        self.counts.bytes_in += self.find_plain(frames, batch, &mut lane);
        self.fetch_slots(frames.len(), batch, &mut lane);
        let mut done = 0;
        loop {
            let (passed, outcome) = self.walk_plain(frames, &mut lane.packets[done..]);
            let bytes = self.rewrite_plain(&mut frames[..passed], &lane.packets[done..]);
            self.counts.fast_packets += passed as u64;
            self.counts.fast_bytes += bytes;
            let forwarded = |frame| Departure {
                frame,
                via: Via::Fast,
                is_reply: false,
            };
            io.out
                .departures
                .extend(frames.drain(..passed).map(forwarded));
            if frames.is_empty() {
                break;
            }
            let (frame, number) = (frames.remove(0), done + passed);
            self.leave_lane(frame, number, outcome, &lane, batch, io);
            done = number + 1;
        }
        batch.lane = lane;
    }

    /// Parses and hashes all frames. Returns their bytes.
    #[inline(never)]
    fn find_plain(&self, frames: &[Frame], batch: &mut Batch, lane: &mut Lane) -> u64 {
        let Some(stage) = self.stage() else { return 0 };
        let mut bytes_in = 0;
        if lane.packets.len() < frames.len() {
            lane.packets.resize(frames.len(), PlainPacket::default());
        }
        for (number, (frame, packet)) in frames.iter().zip(&mut lane.packets).enumerate() {
            prefetch_ahead(frames, number);
            bytes_in += frame.len() as u64;
            match find_flow(&self.steering, frame, packet) {
                true => stage.prefetch_tags(packet.hash),
                false => self.prepare_flow(frame, number, batch),
            }
        }
        bytes_in
    }

    /// Looks at tags, and fetches the slots that probably hold the flows.
    #[inline(never)]
    fn fetch_slots(&self, frames: usize, batch: &mut Batch, lane: &mut Lane) {
        let Some(stage) = self.stage() else { return };
        for (number, packet) in lane.packets.iter_mut().take(frames).enumerate() {
            match packet.is_plain {
                true => packet.suspect = stage.prefetch_slot(packet.hash),
                false => batch.fetch_slot(number, stage),
            }
        }
    }

    /// Lets packets walk until one leaves the lane. Returns how many have passed, and what was
    /// decided about the one after them.
    #[inline(never)]
    fn walk_plain(
        &mut self,
        frames: &mut [Frame],
        packets: &mut [PlainPacket],
    ) -> (usize, Outcome) {
        let Some(FastElement::State(stage)) = self.elements.first_mut() else {
            return (0, Outcome::Complex);
        };
        let mut passed = 0;
        for (frame, packet) in frames.iter_mut().zip(packets) {
            let outcome = stage.plain_packet(frame, packet);
            if outcome != Outcome::Forward {
                return (passed, outcome);
            }
            passed += 1;
        }
        (passed, Outcome::Forward)
    }

    /// Rewrites packets that have passed. Returns their bytes.
    #[inline(never)]
    fn rewrite_plain(&self, frames: &mut [Frame], packets: &[PlainPacket]) -> u64 {
        let Some(stage) = self.stage() else { return 0 };
        let mut bytes = 0;
        for (frame, packet) in frames.iter_mut().zip(packets) {
            stage.rewrite_plain(frame, packet);
            bytes += frame.len() as u64;
        }
        bytes
    }

    /// What was decided about a packet that leaves the lane is done; nothing has happened to one
    /// that is complex.
    #[inline(never)]
    fn leave_lane(
        &mut self,
        mut frame: Frame,
        number: usize,
        outcome: Outcome,
        lane: &Lane,
        batch: &Batch,
        io: &mut Io<'_>,
    ) {
        match outcome {
            Outcome::Drop(reason) => self.drop(frame, reason, io),
            Outcome::Forward | Outcome::Reply => {
                let packets = &lane.packets[number..];
                self.rewrite_plain(std::slice::from_mut(&mut frame), packets);
                self.depart(frame, outcome == Outcome::Reply, io);
            }
            Outcome::Complex if lane.packets[number].is_plain => {
                let place = Place::first(Direction::Original, 1);
                self.at_state(frame, &lane.packets[number].parsed(), place, io);
            }
            Outcome::Complex => self.enter(frame, batch, number, io),
        }
    }
}

/// Finds the flow of a frame, if it is plain.
#[inline(always)]
fn find_flow(steering: &Steering, frame: &Frame, packet: &mut PlainPacket) -> bool {
    let bytes = frame.bytes();
    let Some(plain) = Plain::of(bytes) else {
        packet.suspect = NO_SLOT;
        packet.is_plain = false;
        return false;
    };
    // Each as soon as it is known, so that registers are free again.
    packet.plain = plain;
    packet.is_plain = true;
    packet.flow = steering.plain_key(bytes, plain);
    packet.hash = packet.flow.key.whole().hash(steering.seed());
    true
}
