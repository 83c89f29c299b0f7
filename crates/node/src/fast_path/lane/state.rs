//! The lane of chains that are all flow state.
//!
//! First all packets are parsed and hashed, then all tags are looked at; then programs run and
//! rewrite one packet after the other.

use super::forwarded;
use crate::fast_path::batch::{Batch, prefetch_ahead};
use crate::fast_path::{FastElement, FastPath, Io};
use crate::place::Place;
use twinpath_coherence::PlainPacket;
use twinpath_core::wire::layout::Plain;
use twinpath_core::{Direction, Frame, Steering};
use twinpath_fastpath::Outcome;
use twinpath_fastpath::state_table::NO_SLOT;

/// What is known of a batch's plain packets.
#[derive(Default)]
pub struct StateLane {
    /// By number in the batch; what follows is of earlier ones.
    packets: Vec<PlainPacket>,
    /// Whether some of the batch are not plain.
    has_others: bool,
}

impl FastPath {
    /// The walk of a batch through a chain that is all flow state.
    pub(in crate::fast_path) fn walk_state(
        &mut self,
        frames: &mut Vec<Frame>,
        batch: &mut Batch,
        io: &mut Io<'_>,
    ) {
        let mut lane = std::mem::take(&mut batch.state_lane);
        batch.make_room(frames.len());
        self.counts.packets_in += frames.len() as u64;
        let bytes_in = self.find_plain(frames, batch, &mut lane);
        self.counts.bytes_in += bytes_in;
        self.fetch_slots(frames.len(), batch, &mut lane);
        let mut done = 0;
        loop {
            let (passed, outcome) = self.walk_plain(frames, &lane.packets[done..]);
            self.counts.fast_packets += passed as u64;
            self.counts.fast_bytes += match (done, frames.len() - passed) {
                (0, 0) => bytes_in,
                _ => bytes_of(&frames[..passed]),
            };
            io.out
                .departures
                .extend(frames.drain(..passed).map(forwarded));
            if frames.is_empty() {
                break;
            }
            let (frame, number) = (frames.remove(0), done + passed);
            self.leave_state(frame, number, outcome, &lane, batch, io);
            done = number + 1;
        }
        batch.state_lane = lane;
    }

    /// Parses and hashes all frames. Returns their bytes.
    #[inline(never)]
    fn find_plain(&self, frames: &[Frame], batch: &mut Batch, lane: &mut StateLane) -> u64 {
        let Some(stage) = self.stage() else { return 0 };
        let mut bytes_in = 0;
        if lane.packets.len() < frames.len() {
            lane.packets.resize(frames.len(), PlainPacket::default());
        }
        let finder = stage.finder();
        let mut has_others = false;
        for (number, (frame, packet)) in frames.iter().zip(&mut lane.packets).enumerate() {
            prefetch_ahead(frames, number);
            bytes_in += frame.len() as u64;
            match find_flow(&self.steering, frame, packet) {
                true => finder.prefetch_tags(packet.hash),
                false => {
                    has_others = true;
                    self.prepare_flow(frame, number, batch);
                }
            }
        }
        lane.has_others = has_others;
        bytes_in
    }

    /// Looks at tags, and fetches the slots that probably hold the flows.
    #[inline]
    fn fetch_slots(&self, frames: usize, batch: &mut Batch, lane: &mut StateLane) {
        let Some(stage) = self.stage() else { return };
        let packets = &mut lane.packets[..frames];
        stage.fetch_plain(packets);
        if lane.has_others {
            let others = packets
                .iter()
                .enumerate()
                .filter(|(_, other)| !other.is_plain);
            others.for_each(|(number, _)| batch.fetch_slot(number, stage));
        }
    }

    /// Lets packets walk until one leaves the lane. Returns how many have passed, and what was
    /// decided about the one after them.
    #[inline]
    fn walk_plain(&mut self, frames: &mut [Frame], packets: &[PlainPacket]) -> (usize, Outcome) {
        let Some(FastElement::State(stage)) = self.elements.first_mut() else {
            return (0, Outcome::Complex);
        };
        stage.plain_packets(frames, packets)
    }

    /// What was decided about a packet that leaves the lane is done; nothing has happened to one
    /// that is complex.
    #[inline(never)]
    fn leave_state(
        &mut self,
        frame: Frame,
        number: usize,
        outcome: Outcome,
        lane: &StateLane,
        batch: &Batch,
        io: &mut Io<'_>,
    ) {
        match outcome {
            Outcome::Drop(reason) => self.drop(frame, reason, io),
            Outcome::Forward | Outcome::Reply => {
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

#[inline(never)]
fn bytes_of(frames: &[Frame]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
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
    packet.hash = packet.flow.key.hash(steering.seed());
    true
}
