//! Packets walk through all elements of the lane, one after the other.

use super::foresight::{AtRules, Prospect, Rule};
use super::{Left, LongLane, Way};
use crate::fast_path::batch::Lookups;
use crate::fast_path::{FastElement, FastPath, RuleStage};
use crate::place::Place;
use twinpath_coherence::PlainPacket;
use twinpath_core::Frame;
use twinpath_core::wire::layout::Plain;
use twinpath_fastpath::Outcome;
use twinpath_fastpath::state_table::NO_SLOT;
use twinpath_rulecache::Decision;

impl FastPath {
    /// Lets packets walk until one leaves the lane. Returns how many have passed, and why the one
    /// after them left, if there is one.
    #[inline(never)]
    pub(super) fn pass_several(
        &mut self,
        ways: [Way; 2],
        frames: &mut [Frame],
        first: usize,
        at_first: &[Lookups; 2],
        lane: &mut LongLane,
    ) -> (usize, Option<Left>) {
        let (mut passed, mut bytes, mut left) = (0, 0, None);
        let packets = lane.packets[first..].iter_mut();
        let known = packets.zip(&lane.prospects[first..]);
        for (frame, (packet, prospect)) in frames.iter_mut().zip(known) {
            let direction = prospect.direction.index();
            let (way, lookups) = (
                ways[direction],
                [&at_first[direction], &lane.behind[direction]],
            );
            left = match packet.is_plain {
                true => self.pass_each(way, frame, packet, prospect, lookups).err(),
                false => Some(Left::NotPlain),
            };
            if left.is_some() {
                break;
            }
            bytes += frame.len() as u64;
            passed += 1;
        }
        self.counts.fast_packets += passed as u64;
        self.counts.fast_bytes += bytes;
        (passed, left)
    }

    /// A packet walks through all elements.
    #[inline(always)]
    fn pass_each(
        &mut self,
        way: Way,
        frame: &mut Frame,
        packet: &mut PlainPacket,
        prospect: &Prospect,
        [at_first, behind_state]: [&Lookups; 2],
    ) -> Result<(), Left> {
        if let Some(before) = way.before {
            let place = way.place(before);
            self.pass_rules_at(place, frame, packet.plain, (prospect.before, at_first))?;
        }
        let place = way.place(way.state);
        self.pass_state(place, frame, packet, prospect)?;
        if let Some(behind) = way.behind {
            let place = way.place(behind);
            self.pass_rules_at(place, frame, packet.plain, (prospect.behind, behind_state))?;
        }
        Ok(())
    }

    #[inline(always)]
    fn pass_rules_at(
        &mut self,
        place: Place,
        frame: &mut Frame,
        plain: Plain,
        (foreseen, lookups): (AtRules, &Lookups),
    ) -> Result<(), Left> {
        let Some(stage) = self.rules(place.element) else {
            return Err(Left::NotPlain);
        };
        let flow = stage.flow_key(frame.bytes(), plain, place.direction);
        let AtRules { home, rule, .. } = match flow == foreseen.flow {
            true => foreseen,
            false => AtRules::of(stage, flow),
        };
        let now = frame.timestamp();
        let met = stage
            .table
            .plain_packet((flow, home), frame.bytes_mut(), plain, now);
        let known = (rule, lookups);
        match met.unwrap_or_else(|| meet_other(stage, frame, plain, place, known)) {
            Decision::Forward { egress } => {
                if egress.is_some() {
                    frame.set_egress(egress);
                }
                Ok(())
            }
            decision => Err(Left::Rules(place, decision)),
        }
    }

    #[inline(always)]
    fn pass_state(
        &mut self,
        place: Place,
        frame: &mut Frame,
        packet: &mut PlainPacket,
        prospect: &Prospect,
    ) -> Result<(), Left> {
        let ends = packet.plain.ends(frame.bytes());
        if ends != prospect.ends_at_state {
            self.tell_flow(ends, packet);
            packet.suspect = NO_SLOT;
        }
        let Some(FastElement::State(stage)) = self.elements.get_mut(usize::from(place.element))
        else {
            return Err(Left::NotPlain);
        };
        match stage.plain_packet(frame, packet) {
            Outcome::Forward => Ok(()),
            outcome => Err(Left::State(place, outcome)),
        }
    }
}

/// A packet whose flow has no rule of its own; others may have been looked up.
#[inline(never)]
fn meet_other(
    stage: &mut RuleStage,
    frame: &mut Frame,
    plain: Plain,
    place: Place,
    (rule, lookups): (Rule, &Lookups),
) -> Decision {
    let key = stage.plain_key(frame, plain, place.direction);
    let found = match rule {
        Rule::LookedUp(number) => lookups.at(number).1,
        Rule::Hot => stage.table.find_beside_flows(&key),
        Rule::Own => stage.table.find(&key),
    };
    let now = frame.timestamp();
    let bytes = frame.bytes_mut();
    stage.table.packet(&key, found, bytes, &plain.layout(), now)
}
