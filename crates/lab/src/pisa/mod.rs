//! A PISA pipeline, cycle by cycle: what it takes to freeze a flow's state at once (SwitchNIC §4.4).
//!
//! A packet moves one stage a cycle and can touch a stage's registers only while it is there. Whether
//! it is complex is known only once the flow's state was read; by then it has passed the indicator that
//! says who owns the state, and the packets behind it pass that indicator, too, before anything can change it.
//! Three ways to freeze are built on the same [machine](pipeline):
//!
//! | `freeze` | how | what goes wrong |
//! |---|---|---|
//! | `recirculate` | the complex packet leaves with the state it read; a copy goes round and sets the indicator | packets in between change a state that the cores have taken over: two packets get the same value |
//! | `recirculate_first` | the complex packet goes round, sets the indicator, and only then leaves with the state | nothing is lost, but the packet was overtaken by those in between |
//! | `duplicate` | a second indicator and a second copy of the state in later stages | nothing |
//!
//! The state is a counter, and every packet is to be told a value of its own, in order of arrival.
//! So a violation shows as a value that two packets were told, or as a flow's values out of order.
//! What the table takes of a chip is worked out in [`resources`].

mod cores;
mod parameters;
pub mod pipeline;
mod program;
mod read_values;
pub mod resources;
mod world;

pub use parameters::{Freeze, Parameters};

use crate::model::{Column, Model, ParameterError};
use resources::{Chip, Table as StateTable};
use std::path::Path;
use toml::Table;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Pisa;

const fn column(name: &'static str, meaning: &'static str) -> Column {
    Column { name, meaning }
}

const COLUMNS: [Column; 12] = [
    column(
        "doubled_values",
        "values that a packet was told although another had been told it (CI3)",
    ),
    column(
        "doubled_per_freeze",
        "the same for each time that a state was frozen",
    ),
    column(
        "overtaken",
        "packets that were told a lower value than an earlier packet of their flow",
    ),
    column(
        "overtaken_per_freeze",
        "the same for each time that a state was frozen",
    ),
    column(
        "freezes",
        "times that a complex packet found its flow's state at the switch",
    ),
    column("fast_share", "packets that did not visit the cores"),
    column("cycles", "cycles until the last packet had its value"),
    column("table_stages", "stages with registers of the table"),
    column("alu_share", "stateful ALUs, of those of the chip"),
    column(
        "hash_share",
        "hash distribution units, of those of the chip",
    ),
    column("sram_share", "SRAM blocks, of those of the chip"),
    column("sram_blocks", "SRAM blocks"),
];

impl Model for Pisa {
    fn name(&self) -> &'static str {
        "pisa"
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn check(&self, parameters: &Table, _folder: &Path) -> Result<(), ParameterError> {
        Parameters::read(parameters).map(|_| ())
    }

    fn run(&self, parameters: &Table, _folder: &Path) -> Result<Vec<f64>, ParameterError> {
        let parameters = Parameters::read(parameters)?;
        let outcome = world::run(&parameters);
        let table = StateTable {
            entries: parameters.entries,
            key_words: parameters.key_words,
            value_words: parameters.value_words,
            is_doubled: parameters.freeze == Freeze::Duplicate,
            sketch_columns: parameters.sketch_columns,
        };
        let (chip, used) = (Chip::TOFINO, table.usage());
        let freezes = outcome.freezes.max(1) as f64;
        Ok(vec![
            outcome.doubled as f64,
            outcome.doubled as f64 / freezes,
            outcome.overtaken as f64,
            outcome.overtaken as f64 / freezes,
            outcome.freezes as f64,
            outcome.fast as f64 / parameters.packets as f64,
            outcome.cycles as f64,
            f64::from(used.stages),
            f64::from(used.stateful_alus) / f64::from(chip.stateful_alus()),
            f64::from(used.hash_units) / f64::from(chip.hash_units()),
            f64::from(used.sram_blocks) / f64::from(chip.sram_blocks()),
            f64::from(used.sram_blocks),
        ])
    }
}
