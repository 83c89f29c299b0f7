//! Which packets find their flow's state at the switch (SwitchNIC §6.2 and §6.4).
//!
//! Where a flow may lie is decided by production's [`StateTable`](twinpath_fastpath::state_table::StateTable)
//! with its hash, one way to a bucket as on the chip. How states come and go is a small model of the
//! protocol: a flow that was seen often enough asks for its state, has it a round trip later unless another
//! of its packets came in between, keeps it until a complex packet or a long silence, and is frozen
//! for a round trip then. Packets come at line rate. What the cores can carry is not modelled: the
//! measure is the share of packets that need them.

mod world;

use crate::model::{Column, Misfit, Model};
use serde::Deserialize;
use std::path::Path;
use toml::Table;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct StateCache;

/// Parameters, each with its source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Seed of flows and of which packets are complex.
    pub seed: u64,
    /// Packets; the second half of them is measured. Our choice.
    pub packets: u64,
    /// Flows (SwitchNIC §6: 1000 to a million).
    pub flows: u64,
    /// Exponent of Zipf's law (§6: 0.99), or 0 for flows that are all alike.
    pub zipf: f64,
    /// Entries of the table (§6.2, §6.4.1: 30k; §6.5: 32k).
    pub slots: usize,
    /// Ways of a bucket (§5.1: a hash table, so 1).
    pub ways: usize,
    /// Share of complex packets (§6: 1e-5 to 1e-1).
    pub complex_share: f64,
    /// Length of packets in bytes (§6.4: 1024).
    pub packet_bytes: f64,
    /// Rate at which they come (§6.4.1: 100 Gb/s).
    pub line_gbps: f64,
    /// To the cores and back (§6.2: 4 us).
    pub round_trip_us: f64,
    /// What the switch itself takes (§6.1: 350 ns).
    pub fast_ns: f64,
    /// Packets after which a flow is worth a slot (§5.2: a threshold that is not given). Our assumption.
    pub hot_packets: u32,
    /// Silence after which a slot is given up (§5.2: a time that is not given). Our assumption.
    pub time_to_live_us: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            seed: 1,
            packets: 4_000_000,
            flows: 100_000,
            zipf: 0.99,
            slots: 30_000,
            ways: 1,
            complex_share: 0.0,
            packet_bytes: 1024.0,
            line_gbps: 100.0,
            round_trip_us: 4.0,
            fast_ns: 350.0,
            hot_packets: 4,
            time_to_live_us: 100_000.0,
        }
    }
}

const fn column(name: &'static str, meaning: &'static str) -> Column {
    Column { name, meaning }
}

const COLUMNS: [Column; 6] = [
    column("fast_share", "packets that need no core"),
    column(
        "resident_share",
        "flows whose state is at the switch in the end",
    ),
    column(
        "closed_form",
        "what a full table of one way holds of uniform flows: (1 - exp(-x)) / x of x flows a slot",
    ),
    column(
        "cancelled_share",
        "requests for a state that another packet cancelled",
    ),
    column("latency_ns", "mean latency, if the cores take no time"),
    column("pulls_per_s", "states that moved to the switch"),
];

impl Model for StateCache {
    fn name(&self) -> &'static str {
        "state_cache"
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn check(&self, parameters: &Table, _folder: &Path) -> Result<(), Misfit> {
        Parameters::read(parameters).map(|_| ())
    }

    fn run(&self, parameters: &Table, _folder: &Path) -> Result<Vec<f64>, Misfit> {
        let parameters = Parameters::read(parameters)?;
        let outcome = world::run(&parameters);
        let measured = (parameters.packets - parameters.packets / 2) as f64;
        let fast = outcome.fast as f64 / measured;
        let (pulls, cancelled) = (outcome.pulls as f64, outcome.cancelled as f64);
        let seconds = measured * parameters.packet_ns() / 1e9;
        let load = parameters.flows as f64 / parameters.slots as f64;
        Ok(vec![
            fast,
            outcome.resident as f64 / parameters.flows as f64,
            (1.0 - libm::exp(-load)) / load,
            cancelled / pulls.max(1.0),
            parameters.fast_ns + (1.0 - fast) * parameters.round_trip_us * 1e3,
            (pulls - cancelled) / seconds,
        ])
    }
}

impl Parameters {
    fn read(table: &Table) -> Result<Self, Misfit> {
        let parameters: Self = table.clone().try_into()?;
        parameters.check()?;
        Ok(parameters)
    }

    fn check(&self) -> Result<(), Misfit> {
        let above_zero = |value: f64| value > 0.0 && value <= 1e9;
        let checks = [
            (
                (10..=1_000_000_000).contains(&self.packets),
                "packets",
                "10 to a thousand million",
            ),
            (
                (1..=10_000_000).contains(&self.flows),
                "flows",
                "1 to 10 million",
            ),
            ((0.0..=4.0).contains(&self.zipf), "zipf", "0 to 4"),
            (
                (1..=10_000_000).contains(&self.slots),
                "slots",
                "1 to 10 million",
            ),
            (matches!(self.ways, 1 | 2 | 4 | 8), "ways", "1, 2, 4 or 8"),
            (
                (0.0..=1.0).contains(&self.complex_share),
                "complex_share",
                "0 to 1",
            ),
            (above_zero(self.packet_bytes), "packet_bytes", "above 0"),
            (above_zero(self.line_gbps), "line_gbps", "above 0"),
            (above_zero(self.round_trip_us), "round_trip_us", "above 0"),
            (above_zero(self.fast_ns), "fast_ns", "above 0"),
            (self.hot_packets > 0, "hot_packets", "above 0"),
            (
                above_zero(self.time_to_live_us),
                "time_to_live_us",
                "above 0",
            ),
        ];
        let wrong = checks.into_iter().find(|(holds, ..)| !holds);
        wrong.map_or(Ok(()), |(_, field, range)| {
            Err(Misfit::new(field, format!("must be {range}")))
        })
    }

    fn packet_ns(&self) -> f64 {
        self.packet_bytes * 8.0 / self.line_gbps
    }
}
