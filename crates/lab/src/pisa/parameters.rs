//! What a plan can say of the pipeline.

use crate::model::ParameterError;
use serde::Deserialize;
use toml::Table;

/// Parameters, each with its source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Seed of arrivals, flows and of which packets are complex.
    pub seed: u64,
    /// Packets that arrive. Our choice.
    pub packets: u64,
    /// Flows, each with a slot of its own: collisions are another question.
    pub flows: u32,
    /// How a state is frozen (SwitchNIC §4.4).
    pub freeze: Freeze,
    /// Mean distance of two packets, in cycles; 1 is the most that a pipeline takes.
    pub gap_cycles: f64,
    /// Share of complex packets (SwitchNIC §6.4 sweeps 1e-5 to 1e-1).
    pub complex_share: f64,
    /// Stages of the pipeline (SFCache §IV: 12 in each of Tofino's pipelines).
    pub stages: usize,
    /// From the end of the pipeline to its beginning, in cycles. Our assumption.
    pub loopback_cycles: u64,
    /// To the cores and back, in cycles. SwitchNIC §6.4 has 4 us; at one cycle a nanosecond, our
    /// assumption.
    pub cores_cycles: u64,
    /// Entries of the table (SwitchNIC §6.5: 32k).
    pub entries: u32,
    /// 32-bit words of a key: a flow's five-tuple takes 4.
    pub key_words: u32,
    /// 32-bit words of a flow's state. Our assumption.
    pub value_words: u32,
    /// Registers of sketches and timers beside the table (SwitchNIC §5.2). The paper gives no number.
    pub sketch_columns: u32,
}

/// `freeze`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Freeze {
    /// A copy of the complex packet goes round.
    Recirculate,
    /// The complex packet itself goes round first.
    RecirculateFirst,
    /// A second indicator and a second state.
    Duplicate,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            seed: 1,
            packets: 100_000,
            flows: 16,
            freeze: Freeze::Duplicate,
            gap_cycles: 2.0,
            complex_share: 0.001,
            stages: 12,
            loopback_cycles: 100,
            cores_cycles: 4000,
            entries: 32_768,
            key_words: 4,
            value_words: 1,
            sketch_columns: 0,
        }
    }
}

impl Parameters {
    pub(crate) fn read(table: &Table) -> Result<Self, ParameterError> {
        let parameters: Self = table.clone().try_into()?;
        parameters.check()?;
        Ok(parameters)
    }

    fn check(&self) -> Result<(), ParameterError> {
        let checks = [
            (
                (1..=100_000_000).contains(&self.packets),
                "packets",
                "1 to 100 million",
            ),
            (
                (1..=1 << 20).contains(&self.flows),
                "flows",
                "1 to a million",
            ),
            (
                (1.0..=1e6).contains(&self.gap_cycles),
                "gap_cycles",
                "1 to a million",
            ),
            (
                (0.0..=1.0).contains(&self.complex_share),
                "complex_share",
                "0 to 1",
            ),
            ((6..=64).contains(&self.stages), "stages", "6 to 64"),
            (
                (1..=1_000_000).contains(&self.loopback_cycles),
                "loopback_cycles",
                "1 to a million",
            ),
            (
                (1..=1_000_000).contains(&self.cores_cycles),
                "cores_cycles",
                "1 to a million",
            ),
            (
                (1..=1 << 24).contains(&self.entries),
                "entries",
                "1 to 16 million",
            ),
            ((1..=16).contains(&self.key_words), "key_words", "1 to 16"),
            (
                (1..=36).contains(&self.value_words),
                "value_words",
                "1 to 36",
            ),
            (self.sketch_columns <= 64, "sketch_columns", "at most 64"),
        ];
        let wrong = checks.into_iter().find(|(holds, ..)| !holds);
        wrong.map_or(Ok(()), |(_, field, range)| {
            Err(ParameterError::new(field, format!("must be {range}")))
        })
    }
}
