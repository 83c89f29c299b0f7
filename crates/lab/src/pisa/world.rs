//! The pipeline, a way round, the cores, and packets that arrive.

use super::cores::Cores;
use super::parameters::{Freeze, Parameters};
use super::pipeline::Pipeline;
use super::program::{Found, Kind, Packet, StateTable};
use super::read_values::ReadValues;
use std::collections::VecDeque;
use twinpath_traffic::random::{Chance, Random, RandomSource};

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) doubled: u64,
    pub(crate) overtaken: u64,
    pub(crate) freezes: u64,
    pub(crate) fast: u64,
    pub(crate) cycles: u64,
}

struct World<'a> {
    parameters: &'a Parameters,
    table: StateTable,
    pipeline: Pipeline<Packet>,
    cores: Cores,
    /// On the way round, and on the way to the cores, with the cycle of arrival.
    loopback: VecDeque<(u64, Packet)>,
    to_cores: VecDeque<(u64, Packet)>,
    to_switch: VecDeque<(u64, Packet)>,
    next_arrival: f64,
    arrived: u64,
    random: Random,
    complex: Chance,
    told: ReadValues,
    freezes: u64,
    fast: u64,
}

/// Runs until every packet has been told its value.
pub(crate) fn run(parameters: &Parameters) -> Outcome {
    let mut world = World {
        parameters,
        table: StateTable::new(parameters.freeze, parameters.flows),
        pipeline: Pipeline::new(parameters.stages),
        cores: Cores::new(parameters.flows),
        loopback: VecDeque::new(),
        to_cores: VecDeque::new(),
        to_switch: VecDeque::new(),
        next_arrival: 0.0,
        arrived: 0,
        random: Random::stream(parameters.seed, 0),
        complex: Chance::new(parameters.complex_share),
        told: ReadValues::new(parameters.flows),
        freezes: 0,
        fast: 0,
    };
    while world.told.count() < parameters.packets {
        world.tick();
    }
    let (freezes, fast, cycles) = (world.freezes, world.fast, world.pipeline.cycle());
    let (doubled, overtaken) = world.told.violations();
    Outcome {
        doubled,
        overtaken,
        freezes,
        fast,
        cycles,
    }
}

impl World<'_> {
    fn tick(&mut self) {
        let cycle = self.pipeline.cycle();
        self.serve_cores(cycle);
        // What comes round or back goes first, as on a chip: new packets wait at their port.
        let next = due(&mut self.loopback, cycle)
            .or_else(|| due(&mut self.to_switch, cycle))
            .or_else(|| self.arrival(cycle));
        if let Some(packet) = self.pipeline.tick(next, &mut self.table) {
            self.leave(packet, cycle);
        }
    }

    fn arrival(&mut self, cycle: u64) -> Option<Packet> {
        if self.arrived == self.parameters.packets || self.next_arrival > cycle as f64 {
            return None;
        }
        // One cycle at least, and exponentially distributed above that.
        let above = self.parameters.gap_cycles - 1.0;
        self.next_arrival += 1.0 + self.random.exponential(above);
        let number = self.arrived;
        self.arrived += 1;
        Some(Packet {
            flow: self.random.below(self.parameters.flows.into()) as u32,
            number,
            is_complex: self.complex.draw(&mut self.random),
            kind: Kind::New,
            found: Found::Nothing,
            value: None,
            write_back: None,
        })
    }

    fn serve_cores(&mut self, cycle: u64) {
        let Some(packet) = due(&mut self.to_cores, cycle) else {
            return;
        };
        let (value, answer) = self.cores.process(&packet);
        self.told.tell(packet.flow, packet.number, value);
        if let Some(kind) = answer {
            let back = cycle + self.parameters.cores_cycles.div_ceil(2);
            self.to_switch.push_back((back, message(&packet, kind)));
        }
    }

    fn leave(&mut self, packet: Packet, cycle: u64) {
        if matches!(packet.kind, Kind::Install { .. } | Kind::Acknowledge { .. }) {
            return;
        }
        if matches!(packet.kind, Kind::Freeze { is_copy: true, .. }) {
            return;
        }
        if let Some(value) = packet.value {
            self.fast += 1;
            self.told.tell(packet.flow, packet.number, value);
            return;
        }
        self.leave_for_cores(packet, cycle);
    }

    fn leave_for_cores(&mut self, packet: Packet, cycle: u64) {
        let found_active = match (self.parameters.freeze, packet.found) {
            // With a second indicator it is frozen by now.
            (Freeze::Duplicate, Found::Frozen { .. }) => {
                self.freezes += u64::from(packet.is_complex);
                None
            }
            (_, Found::Active { generation }) => {
                self.freezes += 1;
                Some(generation)
            }
            _ => None,
        };
        let round = cycle + self.parameters.loopback_cycles;
        match (self.parameters.freeze, found_active) {
            (Freeze::Recirculate, Some(generation)) => {
                let is_copy = true;
                let copy = message(
                    &packet,
                    Kind::Freeze {
                        generation,
                        is_copy,
                    },
                );
                self.loopback.push_back((round, copy));
            }
            (Freeze::RecirculateFirst, Some(generation)) => {
                let is_copy = false;
                let again = message(
                    &packet,
                    Kind::Freeze {
                        generation,
                        is_copy,
                    },
                );
                self.loopback.push_back((round, again));
                return;
            }
            _ => (),
        }
        let there = cycle + self.parameters.cores_cycles / 2;
        self.to_cores.push_back((there, packet));
    }
}

/// What goes through the pipeline because of a packet.
fn message(packet: &Packet, kind: Kind) -> Packet {
    Packet {
        kind,
        found: Found::Nothing,
        value: None,
        write_back: None,
        ..*packet
    }
}

fn due(line: &mut VecDeque<(u64, Packet)>, cycle: u64) -> Option<Packet> {
    let is_due = line.front().is_some_and(|(at, _)| *at <= cycle);
    let first = is_due.then(|| line.pop_front()).flatten();
    first.map(|(_, packet)| packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(freeze: Freeze, seed: u64, change: impl FnOnce(&mut Parameters)) -> Outcome {
        let mut parameters = Parameters {
            freeze,
            seed,
            packets: 20_000,
            flows: 64,
            complex_share: 0.01,
            cores_cycles: 60,
            ..Parameters::default()
        };
        change(&mut parameters);
        run(&parameters)
    }

    #[test]
    fn with_the_duplicate_every_packet_is_told_its_own_value_in_order() {
        for seed in 0..20 {
            let found = outcome(Freeze::Duplicate, seed, |p| {
                p.gap_cycles = 1.0 + seed as f64
            });
            assert!(found.freezes > 30 && found.fast > 1000, "{found:?}");
            assert_eq!((found.doubled, found.overtaken), (0, 0), "seed {seed}");
        }
    }

    #[test]
    fn without_it_packets_in_between_are_told_the_same_values() {
        let found = outcome(Freeze::Recirculate, 1, |p| p.gap_cycles = 1.0);
        assert!(found.doubled > found.freezes / 2, "{found:?}");
    }

    #[test]
    fn going_round_first_loses_nothing_but_the_order() {
        let found = outcome(Freeze::RecirculateFirst, 1, |p| p.gap_cycles = 1.0);
        assert_eq!(found.doubled, 0, "{found:?}");
        assert!(found.overtaken > found.freezes, "{found:?}");
    }

    /// A flow whose packets are farther apart than the way round is long is safe either way.
    #[test]
    fn there_is_no_violation_where_there_is_no_packet_in_between() {
        for freeze in [Freeze::Recirculate, Freeze::RecirculateFirst] {
            let found = outcome(freeze, 1, |p| (p.gap_cycles, p.packets) = (500.0, 5000));
            assert!(found.freezes > 5, "{found:?}");
            assert!(found.doubled + found.overtaken < 10, "{found:?}");
        }
    }
}
