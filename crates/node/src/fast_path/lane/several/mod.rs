//! The lane of chains of several elements: flow state, with rules before it, behind it, or both.
//!
//! What packets will meet is looked for in advance: first at their first element, then, with the
//! ends that they will have behind it, at the others. Then they walk one after the other through
//! all elements: what one meets may depend on what another, which goes the other way, has done
//! before.

mod foresight;
mod pass;
mod way;

pub(in crate::fast_path) use way::Way;

use super::forwarded;
use crate::fast_path::batch::{Batch, Lookups};
use crate::fast_path::{FastPath, Io};
use crate::place::Place;
use foresight::Prospect;
use twinpath_coherence::PlainPacket;
use twinpath_core::Frame;
use twinpath_fastpath::Outcome;
use twinpath_rulecache::Decision;

/// What is known of a batch's plain packets, by number in the batch; what follows is of earlier
/// ones.
#[derive(Default)]
pub struct LongLane {
    prospects: Vec<Prospect>,
    packets: Vec<PlainPacket>,
    /// At the element behind flow state, by direction. Those at the first element are with those of
    /// packets that are not plain.
    behind: [Lookups; 2],
}

/// Why a packet leaves the lane.
enum Left {
    /// It is not plain.
    NotPlain,
    /// Rules have decided something else than that it goes on.
    Rules(Place, Decision),
    /// Programs have, or nothing has happened to it and it is complex.
    State(Place, Outcome),
}

impl FastPath {
    /// The walk of a batch through a chain of several elements.
    pub(in crate::fast_path) fn walk_several(
        &mut self,
        ways: [Way; 2],
        frames: &mut Vec<Frame>,
        batch: &mut Batch,
        io: &mut Io<'_>,
    ) {
        let mut lane = std::mem::take(&mut batch.long_lane);
        batch.make_room(frames.len());
        batch.lookups.iter_mut().for_each(Lookups::clear);
        self.counts.packets_in += frames.len() as u64;
        self.counts.bytes_in += self.tell_ends(ways, frames, batch, &mut lane);
        self.look_ahead(ways, frames, &mut batch.lookups, &mut lane);
        self.look_up(batch);
        self.look_behind(ways, frames, &mut lane);
        let mut done = 0;
        loop {
            let (passed, left) = self.pass_several(ways, frames, done, &batch.lookups, &mut lane);
            io.out
                .departures
                .extend(frames.drain(..passed).map(forwarded));
            let Some(left) = left else { break };
            let (frame, number) = (frames.remove(0), done + passed);
            self.leave_several(frame, number, left, &lane, batch, io);
            done = number + 1;
        }
        batch.long_lane = lane;
    }

    /// A packet leaves the lane, and goes on as any packet does.
    #[inline(never)]
    fn leave_several(
        &mut self,
        mut frame: Frame,
        number: usize,
        left: Left,
        lane: &LongLane,
        batch: &Batch,
        io: &mut Io<'_>,
    ) {
        let (packet, prospect) = (&lane.packets[number], &lane.prospects[number]);
        if let Left::NotPlain = left {
            return self.enter(frame, batch, number, io);
        }
        frame.set_direction(prospect.direction);
        let layout = packet.plain.layout();
        match left {
            Left::NotPlain => {}
            Left::Rules(place, decision) => {
                let Some(stage) = self.rules(place.element) else {
                    return self.hand_to_cores(frame, &layout, place, io);
                };
                let key = stage.plain_key(&frame, packet.plain, place.direction);
                self.rules_have(decision, frame, &layout, place, key, io);
            }
            Left::State(place, Outcome::Complex) => {
                self.at_state(frame, &packet.parsed(), place, io);
            }
            Left::State(_, Outcome::Drop(reason)) => self.drop(frame, reason, io),
            Left::State(_, outcome) => self.depart(frame, outcome == Outcome::Reply, io),
        }
    }
}

impl LongLane {
    fn make_room(&mut self, frames: usize) {
        if self.packets.len() < frames {
            self.packets.resize(frames, PlainPacket::default());
            self.prospects.resize(frames, Prospect::default());
        }
    }
}
