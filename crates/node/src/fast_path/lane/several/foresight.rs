//! What packets will probably meet, looked for in advance.

use super::{LongLane, Way};
use crate::fast_path::batch::{Batch, Lookups, prefetch_ahead};
use crate::fast_path::{FastElement, FastPath, RuleStage};
use twinpath_coherence::PlainPacket;
use twinpath_core::wire::layout::{Plain, PlainEnds};
use twinpath_core::{Direction, Frame};
use twinpath_rulecache::{FlowKey, MatchKey, RuleTable};

/// A flow at an element with rules.
#[derive(Copy, Clone, Default)]
pub struct AtRules {
    pub flow: FlowKey,
    /// Where the search for its rule begins.
    pub home: u32,
    pub rule: Rule,
}

impl AtRules {
    /// The line where the flow has its rule is on its way.
    #[inline(always)]
    pub fn of(stage: &RuleStage, flow: FlowKey) -> Self {
        Self {
            flow,
            home: stage.table.fetch(flow),
            rule: Rule::Own,
        }
    }
}

/// What is known of a flow's rule in advance.
#[derive(Copy, Clone, Default)]
pub enum Rule {
    /// It may have one of its own.
    #[default]
    Own,
    /// It has none of its own, and meets one that many meet.
    Hot,
    /// It has none of its own; this is its number among the look-ups of its direction.
    LookedUp(u8),
}

impl Rule {
    /// Of a packet whose flow has none of its own.
    #[inline(always)]
    fn beside_flows(key: MatchKey, table: &RuleTable, lookups: &mut Lookups) -> Self {
        match table.is_hot(&key) {
            true => Self::Hot,
            false => Self::LookedUp(lookups.add(key)),
        }
    }
}

/// What a plain packet will probably meet.
#[derive(Copy, Clone, Default)]
pub struct Prospect {
    pub direction: Direction,
    /// As it arrived.
    pub ends: PlainEnds,
    /// As it comes to flow state.
    pub ends_at_state: PlainEnds,
    pub before: AtRules,
    pub behind: AtRules,
}

impl FastPath {
    /// Parses all frames; the lines where their flows have rules at the first element are on their
    /// way. Returns their bytes.
    #[inline(never)]
    pub(super) fn tell_ends(
        &self,
        ways: [Way; 2],
        frames: &[Frame],
        batch: &mut Batch,
        lane: &mut LongLane,
    ) -> u64 {
        let (mut bytes_in, sides) = (0, self.sides.of_v4());
        lane.make_room(frames.len());
        for (number, frame) in frames.iter().enumerate() {
            prefetch_ahead(frames, number);
            let bytes = frame.bytes();
            bytes_in += bytes.len() as u64;
            let packet = &mut lane.packets[number];
            let Some(plain) = Plain::of(bytes) else {
                packet.is_plain = false;
                self.prepare_met(frame, number, batch);
                continue;
            };
            (packet.plain, packet.is_plain) = (plain, true);
            let prospect = &mut lane.prospects[number];
            prospect.ends = plain.ends(bytes);
            let source = (prospect.ends.addresses >> 32) as u32;
            prospect.direction = sides.direction(source);
            let way = ways[prospect.direction.index()];
            if let Some(stage) = self.rules_at(way.before) {
                prospect.before = foresee(stage, prospect.ends, bytes, plain, way);
            }
        }
        bytes_in
    }

    /// What the other elements will show to packets is on its way.
    #[inline(never)]
    pub(super) fn look_ahead(
        &self,
        ways: [Way; 2],
        frames: &[Frame],
        lookups: &mut [Lookups; 2],
        lane: &mut LongLane,
    ) {
        let Some(stage) = self.stage() else { return };
        let finder = stage.finder();
        let packets = &mut lane.packets[..frames.len()];
        for ((frame, packet), prospect) in frames.iter().zip(&mut *packets).zip(&mut lane.prospects)
        {
            if !packet.is_plain {
                continue;
            }
            let way = ways[prospect.direction.index()];
            prospect.ends_at_state = match self.rules_at(way.before) {
                Some(stage) => {
                    let lookups = &mut lookups[prospect.direction.index()];
                    ends_behind(stage, prospect, frame, packet.plain, lookups)
                }
                None => prospect.ends,
            };
            self.tell_flow(prospect.ends_at_state, packet);
            finder.prefetch_tags(packet.hash);
            if let Some(stage) = self.rules_at(way.behind) {
                let ends = prospect.ends_at_state;
                prospect.behind = foresee(stage, ends, frame.bytes(), packet.plain, way);
            }
        }
        stage.fetch_plain(packets);
    }

    /// Looks up rules of more than one flow at the element behind flow state.
    pub(super) fn look_behind(&mut self, ways: [Way; 2], frames: &[Frame], lane: &mut LongLane) {
        for way in ways {
            let lookups = &mut lane.behind[way.direction.index()];
            lookups.clear();
            let Some(FastElement::Rules(stage)) = way
                .behind
                .and_then(|behind| self.elements.get_mut(usize::from(behind)))
            else {
                continue;
            };
            if !stage.table.has_others() {
                continue;
            }
            let known = lane.packets.iter().zip(&mut lane.prospects);
            for (frame, (packet, prospect)) in frames.iter().zip(known) {
                let AtRules { flow, home, .. } = prospect.behind;
                if packet.is_plain
                    && prospect.direction == way.direction
                    && !stage.table.knows(flow, home)
                {
                    let key = stage.plain_key(frame, packet.plain, way.direction);
                    let key = key.with_ends(prospect.ends_at_state);
                    prospect.behind.rule = Rule::beside_flows(key, &stage.table, lookups);
                }
            }
            lookups.find_in(&mut stage.table);
        }
    }

    /// The flow of a plain packet that comes to flow state with these ends.
    #[inline(always)]
    pub(super) fn tell_flow(&self, ends: PlainEnds, packet: &mut PlainPacket) {
        packet.flow = self.steering.key_of_ends(ends, packet.plain.protocol());
        packet.hash = packet.flow.key.hash(self.steering.seed());
    }

    #[inline(always)]
    fn rules_at(&self, element: Option<u8>) -> Option<&RuleStage> {
        match self.elements.get(usize::from(element?))? {
            FastElement::Rules(stage) => Some(stage),
            _ => None,
        }
    }
}

/// The flow of a packet that comes to an element with these ends. The line where it has its rule
/// is on its way.
#[inline(always)]
fn foresee(stage: &RuleStage, ends: PlainEnds, bytes: &[u8], plain: Plain, way: Way) -> AtRules {
    AtRules::of(stage, stage.flow_key_of(ends, bytes, plain, way.direction))
}

/// The ends that a packet will have behind the rules that it meets first. If its flow has none of
/// its own there, those of more are looked up.
#[inline(always)]
fn ends_behind(
    stage: &RuleStage,
    prospect: &mut Prospect,
    frame: &Frame,
    plain: Plain,
    lookups: &mut Lookups,
) -> PlainEnds {
    let AtRules { flow, home, .. } = prospect.before;
    if let Some(after) = stage.table.ends_after(flow, home) {
        return after;
    }
    if stage.table.has_others() {
        let key = stage.plain_key(frame, plain, prospect.direction);
        prospect.before.rule = Rule::beside_flows(key, &stage.table, lookups);
    }
    prospect.ends
}
