//! The lane of chains that are all rules.
//!
//! First all packets are parsed and show their keys, then all rules are looked up; then packets
//! are rewritten one after the other.

use super::forwarded;
use crate::fast_path::batch::{Batch, Lookups, prefetch_ahead};
use crate::fast_path::{FastElement, FastPath, Io, RuleStage};
use crate::place::Place;
use twinpath_core::wire::layout::Plain;
use twinpath_core::{Direction, Frame};
use twinpath_rulecache::Decision;

/// A plain packet in front of the rules.
#[derive(Copy, Clone, Default)]
struct AtRules {
    plain: Plain,
    is_plain: bool,
    direction: Direction,
    /// Among the look-ups of its direction.
    number: u8,
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
        self.counts.bytes_in += self.show_keys(frames, batch, &mut lane);
        self.look_up(batch);
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
                Some(decision) => {
                    self.leave_rules(frame, lane.packets[number], decision, &batch.lookups, io);
                }
                None => self.enter(frame, batch, number, io),
            }
            done = number + 1;
        }
        batch.rule_lane = lane;
    }

    /// Parses all frames, and puts what they show to the rules where it is looked up. Returns
    /// their bytes.
    #[inline(never)]
    fn show_keys(&self, frames: &[Frame], batch: &mut Batch, lane: &mut RuleLane) -> u64 {
        let Some(FastElement::Rules(stage)) = self.elements.first() else {
            return 0;
        };
        let mut bytes_in = 0;
        lane.packets
            .resize(frames.len().max(lane.packets.len()), AtRules::default());
        for (number, (frame, packet)) in frames.iter().zip(&mut lane.packets).enumerate() {
            prefetch_ahead(frames, number);
            bytes_in += frame.len() as u64;
            let plain = Plain::of(frame.bytes());
            packet.is_plain = plain.is_some();
            match plain {
                Some(plain) => self.show_key(stage, frame, plain, packet, &mut batch.lookups),
                None => self.prepare_met(frame, number, batch),
            }
        }
        bytes_in
    }

    #[inline(always)]
    fn show_key(
        &self,
        stage: &RuleStage,
        frame: &Frame,
        plain: Plain,
        packet: &mut AtRules,
        lookups: &mut [Lookups; 2],
    ) {
        let direction = self.direction(frame, &plain.layout());
        (packet.plain, packet.direction) = (plain, direction);
        let key = stage.plain_key(frame, plain, direction);
        packet.number = lookups[direction.index()].add(key);
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
        lookups: &[Lookups; 2],
        io: &mut Io<'_>,
    ) {
        let (key, _) = lookups[packet.direction.index()].at(packet.number);
        let place = Place::first(packet.direction, 1);
        frame.set_direction(packet.direction);
        self.rules_have(decision, frame, &packet.plain.layout(), place, *key, io);
    }
}

/// A packet meets the rule that was found for it.
#[inline(always)]
fn meet(
    stage: &mut RuleStage,
    frame: &mut Frame,
    packet: &AtRules,
    lookups: &[Lookups; 2],
) -> Decision {
    let (key, found) = lookups[packet.direction.index()].at(packet.number);
    let now = frame.timestamp();
    let layout = packet.plain.layout();
    stage
        .table
        .packet(key, found, frame.bytes_mut(), &layout, now)
}
