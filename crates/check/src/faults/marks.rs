//! What packets bear that have passed elements with rules: whether it is what the functions alone
//! would have made of them, by entries as they were when the packets passed.

use super::elements::Element;
use super::entries::Use;
use super::gate::{Mark, denies};
use super::history::PacketHistory;
use super::invariants::Rule;
use super::simulation::Simulation;
use super::walks::{Out, Sight};
use std::time::Duration;
use twinpath_core::wire::{dissect, rewrite};

/// Marks of one gate on a packet's way.
pub(super) struct Passed {
    gate: usize,
    /// How many elements are in front of it.
    pub position: usize,
    /// Another gate of the same element comes behind it.
    is_in_front: bool,
}

impl Simulation {
    /// Somebody on the way of a packet that was dropped must have wanted that.
    pub(super) fn justify_drop(&mut self, number: u32) {
        let Some(packet) = self.history.packet(number) else {
            return;
        };
        let turns = packet.seen..=self.turn;
        let entry = |gate| self.entry_of(gate, packet);
        let may_deny = |passed: &Passed| {
            let mut versions =
                self.entries
                    .in_force(passed.gate, entry(passed.gate), turns.clone());
            versions.any(denies)
        };
        let is_denied = self.gates_of(packet).iter().any(may_deny);
        let is_parking_short = self.has_parking() && self.drops_for_parking() > 0;
        let may_be_lost = packet.is_parked || is_parking_short || self.refused() > 0;
        let is_dropped_there = packet.flow.is_none() || packet.kind.is_dropped() || may_be_lost;
        if !is_denied && !is_dropped_there {
            let what =
                format!("packet {number} was dropped on the fast path, and nobody wanted that");
            self.step.fault(Rule::InForce, what);
        }
    }

    /// The gates on a packet's way.
    pub(super) fn gates_of(&self, packet: &PacketHistory) -> Vec<Passed> {
        let mut gates = Vec::new();
        let elements = self.scenario.elements.passed(packet.direction);
        for (position, element) in elements.enumerate() {
            if let Element::Rules(numbers) = element {
                gates.extend(numbers.iter().map(|&gate| Passed {
                    gate,
                    position,
                    is_in_front: numbers.len() > 1,
                }));
            }
        }
        gates
    }

    fn entry_of(&self, gate: usize, packet: &PacketHistory) -> u32 {
        packet.client & (self.scenario.rules.gates[gate].entries - 1)
    }

    /// What passed some gates bears their marks, in some version, and is otherwise as it came but
    /// for its time to live.
    pub(super) fn is_as_alone(
        &self,
        packet: &PacketHistory,
        passed: usize,
        bytes: &[u8],
        parked: usize,
    ) -> Result<(), String> {
        if packet.flow.is_none() {
            return match bytes == packet.bytes {
                true => Ok(()),
                false => Err("changed".into()),
            };
        }
        let mut expected = packet.bytes.clone();
        let gates = self.gates_of(packet);
        let done = gates.iter().filter(|gate| gate.position < passed);
        for Passed { gate, .. } in done {
            let seen = Mark::read(*gate, bytes);
            let mark = Mark {
                gate: *gate as u8,
                entry: self.entry_of(*gate, packet) as u8,
                version: seen.map_or(0, |mark| mark.version),
            };
            mark.write(&mut expected);
            count_down(&mut expected);
        }
        let expected = &expected[..expected.len().saturating_sub(parked)];
        match bytes == expected {
            true => Ok(()),
            false => Err(format!("as {bytes:02x?}, expected {expected:02x?}")),
        }
    }

    /// A mark must be of a version that was in force when the packet passed the gate.
    pub(super) fn judge_mark(&mut self, sight: &Sight, passed: &Passed, bytes: &[u8]) {
        let gate = passed.gate;
        let (Some(mark), Some(packet)) =
            (Mark::read(gate, bytes), self.history.packet(sight.number))
        else {
            return;
        };
        let entry = self.entry_of(gate, packet);
        let since = match self.was_just_passed(sight, passed, packet) {
            true => self.turn,
            false => packet.seen,
        };
        let versions = self.entries.in_force(gate, entry, since..=self.turn);
        let versions: Vec<u32> = versions.filter(|&version| !denies(version)).collect();
        if !versions.contains(&mark.version) {
            let what = format!(
                "packet {} leaves gate {gate} by version {} of entry {entry}, of {versions:?}",
                sight.number, mark.version
            );
            return self.step.fault(Rule::InForce, what);
        }
        let used = Use {
            gate,
            entry,
            version: mark.version,
            at: packet.at,
        };
        self.judge_use(sight, used);
    }

    /// Whether a packet passed a gate in this step: it cannot have been held behind it.
    fn was_just_passed(&self, sight: &Sight, passed: &Passed, packet: &PacketHistory) -> bool {
        if sight.out == Out::FromCores {
            return !passed.is_in_front;
        }
        if sight.out == Out::Leaves && self.has_parking() {
            return false;
        }
        let end = sight.passed + usize::from(sight.out == Out::Punted);
        let mut behind = self
            .scenario
            .elements
            .passed(packet.direction)
            .take(end)
            .skip(passed.position + 1);
        !behind.any(|element| element != Element::State)
    }

    fn judge_use(&mut self, sight: &Sight, used: Use) {
        let late = self
            .entries
            .idle_since(&used)
            .filter(|_| sight.out != Out::FromCores);
        if let Some(last) = late
            && !self.may_have_been_used(&used, sight.number)
        {
            let what = format!("packet {}: {used:?} since {last:?}", sight.number);
            self.step.fault(Rule::AliveInUse, what);
        }
        if let Err(what) = self.entries.uses(used) {
            self.step.fault(Rule::AliveInUse, what);
        }
    }

    /// Whether another packet may have used the entry shortly before, unseen.
    fn may_have_been_used(&self, used: &Use, number: u32) -> bool {
        let idle = self.scenario.rules.gates[used.gate].idle;
        let idle = idle.unwrap_or(Duration::ZERO);
        let mut others = (1u32..).zip(self.history.packets());
        others.any(|(other, packet)| {
            other != number
                && packet.flow.is_some()
                && packet.at <= used.at
                && used.at.since(packet.at) <= idle
                && self.entry_of(used.gate, packet) == used.entry
        })
    }
}

fn count_down(frame: &mut [u8]) {
    if let Ok(layout) = dissect(frame) {
        let ttl = twinpath_core::wire::fields::ttl(frame, &layout);
        // A packet that could not be counted down is dropped, and does not come out.
        let _ = rewrite::set_ttl(frame, &layout, ttl.saturating_sub(1));
    }
}
