//! The lane of chains that are all rules.
//!
//! First all packets are parsed and tell their flows, and the lines where flows have their rules
//! are fetched. Rules that are not of one flow alone are looked up for those that have none there.
//! Then packets are rewritten one after the other.

use super::forwarded;
use crate::fast_path::batch::{Batch, Lookups, prefetch_ahead};
use crate::fast_path::{FastElement, FastPath, Io, RuleStage};
use crate::place::Place;
use twinpath_core::wire::layout::Plain;
use twinpath_core::{Direction, Frame};
use twinpath_rulecache::sides::SidesV4;
use twinpath_rulecache::{Decision, FlowKey};

/// A plain packet in front of the rules.
#[derive(Copy, Clone, Default)]
struct AtRules {
    plain: Plain,
    is_plain: bool,
    direction: Direction,
    /// Its number among the look-ups of its direction plus one; 0 if it is not there.
    number: u8,
    /// Where the search for its flow begins.
    home: u32,
    flow: FlowKey,
}

/// What is known of a batch's plain packets.
#[derive(Default)]
pub struct RuleLane {
    /// By number in the batch; what follows is of earlier ones.
    packets: Vec<AtRules>,
}

impl FastPath {
    /// The walk of a batch through a chain that is all rules.
    pub(in crate::fast_path) fn walk_rules(
        &mut self,
        frames: &mut Vec<Frame>,
        batch: &mut Batch,
        io: &mut Io<'_>,
    ) {
        let mut lane = std::mem::take(&mut batch.rule_lane);
        batch.make_room(frames.len());
        batch.lookups.iter_mut().for_each(Lookups::clear);
        self.counts.packets_in += frames.len() as u64;
        self.counts.bytes_in += self.tell_flows(frames, batch, &mut lane);
        self.look_up_others(frames, batch, &mut lane);
        let mut done = 0;
        loop {
            let (passed, decision) = self.pass_rules(frames, &lane.packets[done..], &batch.lookups);
            io.out
                .departures
                .extend(frames.drain(..passed).map(forwarded));
            if frames.is_empty() {
                break;
            }
            let (frame, number) = (frames.remove(0), done + passed);
            match decision {
                Some(decision) => self.leave_rules(frame, lane.packets[number], decision, io),
                None => self.enter(frame, batch, number, io),
            }
            done = number + 1;
        }
        batch.rule_lane = lane;
    }

    /// Parses all frames, and finds out about their flows. Returns their bytes.
    #[inline(never)]
    fn tell_flows(&self, frames: &[Frame], batch: &mut Batch, lane: &mut RuleLane) -> u64 {
        let Some(FastElement::Rules(stage)) = self.elements.first() else {
            return 0;
        };
        let (mut bytes_in, sides) = (0, self.sides.of_v4());
        lane.packets
            .resize(frames.len().max(lane.packets.len()), AtRules::default());
        for (number, (frame, packet)) in frames.iter().zip(&mut lane.packets).enumerate() {
            prefetch_ahead(frames, number);
            let bytes = frame.bytes();
            bytes_in += bytes.len() as u64;
            let plain = Plain::of(bytes);
            match plain {
                Some(plain) => *packet = told(stage, sides, bytes, plain),
                None => {
                    packet.is_plain = false;
                    self.prepare_met(frame, number, batch);
                }
            }
        }
        bytes_in
    }

    /// Looks up rules of more than one flow, and what packets that are not plain will meet.
    #[inline]
    fn look_up_others(&mut self, frames: &[Frame], batch: &mut Batch, lane: &mut RuleLane) {
        if let Some(FastElement::Rules(stage)) = self.elements.first()
            && stage.table.has_others()
        {
            show_keys(stage, frames, &mut lane.packets, &mut batch.lookups);
        }
        self.look_up(batch);
    }

    /// Lets packets meet the rules until one does not go on at once. Returns how many have passed,
    /// and what was decided about the one after them: nothing if it is not plain.
    #[inline(never)]
    fn pass_rules(
        &mut self,
        frames: &mut [Frame],
        packets: &[AtRules],
        lookups: &[Lookups; 2],
    ) -> (usize, Option<Decision>) {
        let Some(FastElement::Rules(stage)) = self.elements.first_mut() else {
            return (0, None);
        };
        let (mut passed, mut bytes) = (0, 0);
        let mut decision = None;
        for (frame, packet) in frames.iter_mut().zip(packets) {
            decision = packet.is_plain.then(|| meet(stage, frame, packet, lookups));
            let Some(Decision::Forward { egress }) = decision else {
                break;
            };
            if egress.is_some() {
                frame.set_egress(egress);
            }
            bytes += frame.len() as u64;
            passed += 1;
        }
        self.counts.fast_packets += passed as u64;
        self.counts.fast_bytes += bytes;
        (passed, decision)
    }

    /// A packet that the rules did not let go on at once.
    #[inline(never)]
    fn leave_rules(
        &mut self,
        mut frame: Frame,
        packet: AtRules,
        decision: Decision,
        io: &mut Io<'_>,
    ) {
        let Some(stage) = self.rules(0) else { return };
        let key = stage.plain_key(&frame, packet.plain, packet.direction);
        let place = Place::first(packet.direction, 1);
        frame.set_direction(packet.direction);
        self.rules_have(decision, frame, &packet.plain.layout(), place, key, io);
    }
}

/// A plain packet and its flow. The line where the flow has its rule is on its way.
#[inline(always)]
fn told(stage: &RuleStage, sides: SidesV4<'_>, bytes: &[u8], plain: Plain) -> AtRules {
    let source = (plain.addresses(bytes) >> 32) as u32;
    let direction = sides.direction(source);
    let flow = stage.flow_key(bytes, plain, direction);
    AtRules {
        plain,
        is_plain: true,
        direction,
        number: 0,
        home: stage.table.fetch(flow),
        flow,
    }
}

/// Puts the keys of plain packets whose flows have no rule where they are looked up.
#[inline(never)]
fn show_keys(
    stage: &RuleStage,
    frames: &[Frame],
    packets: &mut [AtRules],
    lookups: &mut [Lookups; 2],
) {
    for (frame, packet) in frames.iter().zip(packets) {
        if packet.is_plain && !stage.table.knows(packet.flow, packet.home) {
            let key = stage.plain_key(frame, packet.plain, packet.direction);
            packet.number = 1 + lookups[packet.direction.index()].add(key);
        }
    }
}

/// A packet meets the rule of its flow, or else another.
#[inline(always)]
fn meet(
    stage: &mut RuleStage,
    frame: &mut Frame,
    packet: &AtRules,
    lookups: &[Lookups; 2],
) -> Decision {
    let now = frame.timestamp();
    let flow = (packet.flow, packet.home);
    let met = stage
        .table
        .plain_packet(flow, frame.bytes_mut(), packet.plain, now);
    met.unwrap_or_else(|| meet_other(stage, frame, packet, lookups))
}

#[inline(never)]
fn meet_other(
    stage: &mut RuleStage,
    frame: &mut Frame,
    packet: &AtRules,
    lookups: &[Lookups; 2],
) -> Decision {
    let (now, layout) = (frame.timestamp(), packet.plain.layout());
    let (key, found) = match packet.number.checked_sub(1) {
        Some(number) => {
            let (key, found) = lookups[packet.direction.index()].at(number);
            (*key, found)
        }
        None => {
            let key = stage.plain_key(frame, packet.plain, packet.direction);
            (key, stage.table.find(&key))
        }
    };
    stage
        .table
        .packet(&key, found, frame.bytes_mut(), &layout, now)
}
