//! Chains in a switch's pipeline: three ways, their stages, memory and latency (SFCache §V-G).
//!
//! | way | what a chain of `functions` functions takes |
//! |---|---|
//! | native | its functions' tables, one after the other |
//! | SFCache | the same seven stages for any chain: match gives an index, tables of fields rewrite by it (§IV-A) |
//! | P4SFC | two modules in the pipeline; a packet goes round for each two functions more |
//!
//! Stages and memory are worked out from the tables; times from the stages. The paper's Fig. 13 has no
//! values in its text, so its times here are assumptions whose order is what counts.

use crate::model::{Column, Model, ParameterError};
use crate::pisa::resources::{Chip, tcam_blocks};
use serde::Deserialize;
use std::path::Path;
use toml::Table;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct SfcPipeline;

/// Parameters, each with its source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Functions of the chain (SFCache Fig. 13).
    pub functions: u32,
    /// Entries of the exact match (SFCache §IV-A: 15,000).
    pub exact_entries: u32,
    /// Entries of the ternary match (SFCache §IV-A: 5000).
    pub ternary_entries: u32,
    /// Tables that rewrite a field each: addresses and ports of both ends, protocol, MAC addresses, time to
    /// live (SFCache §IV-A). Their number is our assumption.
    pub rewrite_tables: u32,
    /// Stages of one of P4SFC's modules (SFCache Table V: 12 for two).
    pub module_stages: u32,
    /// Stages that a function takes on its own: between the 7 / 4 and 7 / 5 that SFCache §V-G's statement
    /// on five functions allows.
    pub function_stages: f64,
    /// A pass without any stage, ns. Our assumption: with twelve stages, about SwitchNIC's 350 ns.
    pub base_ns: f64,
    /// A stage, ns. Our assumption.
    pub stage_ns: f64,
    /// From the end of a pass to the start of the next, ns. Our assumption.
    pub recirculation_ns: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            functions: 2,
            exact_entries: 15_000,
            ternary_entries: 5_000,
            rewrite_tables: 7,
            module_stages: 6,
            function_stages: 1.5,
            base_ns: 200.0,
            stage_ns: 12.5,
            recirculation_ns: 100.0,
        }
    }
}

const fn column(name: &'static str, meaning: &'static str) -> Column {
    Column { name, meaning }
}

const COLUMNS: [Column; 12] = [
    column("native_ns", "latency of the functions' own tables"),
    column("sfcache_ns", "latency of SFCache's pipeline"),
    column("p4sfc_ns", "latency of P4SFC's, rounds included"),
    column("native_stages", "stages of the functions' own tables"),
    column("sfcache_stages", "stages of SFCache's pipeline"),
    column("p4sfc_stages", "stages of P4SFC's two modules"),
    column(
        "sfcache_sram_share",
        "SRAM blocks of SFCache's tables, of those of the chip",
    ),
    column(
        "p4sfc_sram_share",
        "SRAM blocks of P4SFC's, of those of the chip",
    ),
    column(
        "sfcache_tcam_share",
        "TCAM blocks of SFCache's ternary match, of those of the chip",
    ),
    column(
        "p4sfc_passes",
        "times that a packet passes P4SFC's pipeline",
    ),
    column(
        "sram_saving_share",
        "SRAM that SFCache saves against P4SFC, of P4SFC's",
    ),
    column(
        "native_against_sfcache",
        "latency of the functions' own tables, against SFCache's",
    ),
];

/// Rows and width of one SRAM block.
const BLOCK_ROWS: u32 = 1024;
const BLOCK_BITS: u32 = 128;
/// Bits of a connection's addresses, ports and protocol.
const KEY_BITS: u32 = 104;
/// Bits of a rule's index and port, and what an entry has besides: version and validity.
const RESULT_BITS: u32 = 25;
const OVERHEAD_BITS: u32 = 4;
/// A field to be rewritten, with the index that it is found by.
const REWRITE_BITS: u32 = 64;
/// Hash tables are not filled to the last place.
const FILLED: f64 = 0.9;
/// P4SFC's modules that fit (SFCache §V-G).
const MODULES: u32 = 2;

impl Model for SfcPipeline {
    fn name(&self) -> &'static str {
        "sfc_pipeline"
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn check(&self, parameters: &Table, _folder: &Path) -> Result<(), ParameterError> {
        Parameters::read(parameters).map(drop)
    }

    fn run(&self, parameters: &Table, _folder: &Path) -> Result<Vec<f64>, ParameterError> {
        Ok(Parameters::read(parameters)?.row())
    }
}

impl Parameters {
    fn read(table: &Table) -> Result<Self, ParameterError> {
        let parameters: Self = table.clone().try_into()?;
        let entries = |count: u32| count <= 1_000_000;
        let time = |ns: f64| (0.0..=1e6).contains(&ns);
        let checks = [
            (
                (1..=64).contains(&parameters.functions),
                "functions",
                "1 to 64",
            ),
            (
                entries(parameters.exact_entries),
                "exact_entries",
                "at most a million",
            ),
            (
                entries(parameters.ternary_entries),
                "ternary_entries",
                "at most a million",
            ),
            (
                parameters.rewrite_tables <= 64,
                "rewrite_tables",
                "at most 64",
            ),
            (
                (1..=64).contains(&parameters.module_stages),
                "module_stages",
                "1 to 64",
            ),
            (
                (0.0..=64.0).contains(&parameters.function_stages),
                "function_stages",
                "0 to 64",
            ),
            (time(parameters.base_ns), "base_ns", "0 to a millisecond"),
            (
                time(parameters.stage_ns) && parameters.stage_ns > 0.0,
                "stage_ns",
                "above 0 and at most a millisecond",
            ),
            (
                time(parameters.recirculation_ns),
                "recirculation_ns",
                "0 to a millisecond",
            ),
        ];
        let wrong = checks.into_iter().find(|(holds, ..)| !holds);
        wrong.map_or(Ok(parameters), |(_, field, range)| {
            Err(ParameterError::new(field, format!("must be {range}")))
        })
    }

    fn row(&self) -> Vec<f64> {
        let chip = Chip::TOFINO;
        let pass = |stages: f64| self.base_ns + self.stage_ns * stages;
        let native = f64::from(self.functions) * self.function_stages;
        let sfcache = f64::from(self.sfcache_stages());
        let p4sfc = f64::from(MODULES * self.module_stages);
        let passes = f64::from(self.functions.div_ceil(MODULES));
        let share = |blocks: u32| f64::from(blocks) / f64::from(chip.sram_blocks());
        let tcam = tcam_blocks(self.ternary_entries, KEY_BITS);
        vec![
            pass(native),
            pass(sfcache),
            passes * pass(p4sfc) + (passes - 1.0) * self.recirculation_ns,
            native,
            sfcache,
            p4sfc,
            share(self.sfcache_sram()),
            share(self.p4sfc_sram()),
            f64::from(tcam) / f64::from(chip.tcam_blocks()),
            passes,
            1.0 - f64::from(self.sfcache_sram()) / f64::from(self.p4sfc_sram()),
            pass(native) / pass(sfcache),
        ]
    }

    /// Each table waits for the one before: the exact match, the ternary one (in as many stages as its
    /// memory takes), dropping, redirection, the EtherType; and all rewrites at a time.
    fn sfcache_stages(&self) -> u32 {
        let tcam = tcam_blocks(self.ternary_entries, KEY_BITS);
        1 + tcam.div_ceil(Chip::TOFINO.tcam_blocks_per_stage) + 1 + 1 + 1 + 1
    }

    fn rules(&self) -> u32 {
        self.exact_entries + self.ternary_entries
    }

    fn sfcache_sram(&self) -> u32 {
        let ternary_results = blocks(self.ternary_entries, RESULT_BITS);
        hashed(self.exact_entries, match_bits()) + ternary_results + self.rewrites()
    }

    /// Each module matches and rewrites on its own, all in SRAM.
    fn p4sfc_sram(&self) -> u32 {
        MODULES * (hashed(self.rules(), match_bits()) + self.rewrites())
    }

    fn rewrites(&self) -> u32 {
        self.rewrite_tables * hashed(self.rules(), REWRITE_BITS)
    }
}

fn match_bits() -> u32 {
    KEY_BITS + RESULT_BITS + OVERHEAD_BITS
}

/// Blocks for a table of so many entries of so many bits: several to a row, or several blocks wide.
fn blocks(entries: u32, bits: u32) -> u32 {
    match BLOCK_BITS / bits {
        0 => entries.div_ceil(BLOCK_ROWS) * bits.div_ceil(BLOCK_BITS),
        to_a_row => entries.div_ceil(BLOCK_ROWS * to_a_row),
    }
}

fn hashed(entries: u32, bits: u32) -> u32 {
    blocks((f64::from(entries) / FILLED) as u32, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_take_the_stages_that_the_paper_counts() {
        let parameters = Parameters::default();
        assert_eq!(parameters.sfcache_stages(), 7);
        assert_eq!(
            (blocks(1024, 128), blocks(1025, 129), blocks(4096, 32)),
            (1, 4, 1)
        );
    }

    #[test]
    fn chains_of_more_than_two_functions_go_round() {
        let passes = |functions| {
            let row = Parameters {
                functions,
                ..Parameters::default()
            }
            .row();
            row[9]
        };
        assert_eq!([1, 2, 3, 4, 5].map(passes), [1.0, 1.0, 2.0, 2.0, 3.0]);
    }
}
