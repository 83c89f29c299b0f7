//! Packets between hosts inside that belong to two shards: from the element that translates addresses
//! they leave for the receiver's shard, and there enter at the same element.

use super::{FastPath, Io};
use crate::departure::{Departure, Via};
use crate::position::Position;
use twinpath_core::adjacency::BACK;
use twinpath_core::wire::{Address, dissect, fields};
use twinpath_core::{Direction, DropReason, Frame, Metadata};
use twinpath_rulecache::Sides;

/// The elements at which packets of other shards enter: each by the external addresses that its first
/// function has.
#[derive(Default)]
pub struct Joints(Vec<(Sides, u8)>);

impl Joints {
    /// These elements, by their numbers.
    pub fn new(elements: Vec<(Sides, u8)>) -> Self {
        Self(elements)
    }

    /// Where a packet to this address enters.
    fn of(&self, destination: Address) -> Option<Position> {
        let has =
            |(sides, _): &&(Sides, u8)| sides.direction(destination, 0) == Direction::Original;
        let (_, element) = self.0.iter().find(has)?;
        Some(Position {
            element: *element,
            direction: Direction::Original,
        })
    }
}

impl FastPath {
    /// The same, which packets of other shards enter here.
    #[must_use]
    pub fn with_joints(self, joints: Joints) -> Self {
        Self { joints, ..self }
    }

    /// Packets of other shards enter here from now on.
    pub(crate) fn set_joints(&mut self, joints: Joints) {
        self.joints = joints;
    }

    /// A packet leaves for another shard. It is counted there, unless the slow path has seen it.
    pub(super) fn leave_across(&mut self, frame: Frame, io: &mut Io<'_>) {
        let via = match frame.metadata().was_on_slow_path {
            true => Via::Slow,
            false => {
                self.counts.gone_across_packets += 1;
                self.counts.gone_across_bytes += frame.len() as u64;
                Via::Fast
            }
        };
        io.out.departures.push(Departure::new(frame, via, false));
    }

    /// A packet has come from another shard, and enters behind all that have arrived so far.
    pub(super) fn take_across(&mut self, mut frame: Frame, io: &mut Io<'_>) {
        let at = self.under_way.latest().max(frame.timestamp());
        frame.set_timestamp(at);
        frame.set_ordinal(self.under_way.arrived());
        self.under_way.arrive(1, at);
        let was_on_slow_path = frame.metadata().was_on_slow_path;
        if !was_on_slow_path {
            self.counts.come_across_packets += 1;
            self.counts.come_across_bytes += frame.len() as u64;
        }
        frame.set_metadata(Metadata {
            direction: Direction::Original,
            egress: Some(BACK),
            was_on_slow_path,
            ..Metadata::default()
        });
        if let Some(watch) = &self.watch {
            watch.arrive(std::slice::from_ref(&frame), frame.ordinal());
        }
        let layout = dissect(frame.bytes()).ok().filter(|layout| layout.is_ip());
        let destination = layout.map(|layout| fields::destination_address(frame.bytes(), &layout));
        match destination.and_then(|destination| self.joints.of(destination)) {
            Some(position) => self.walk_alone(frame, Some(position), io),
            // The chain has become another one meanwhile.
            None => self.drop(frame, DropReason::AnotherChain, io),
        }
    }
}
