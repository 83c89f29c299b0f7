//! What the state table takes of a chip.

/// Bits of one SRAM block.
const BLOCK_BITS: u64 = 128 * 1024;
/// Rows and width of one TCAM block.
const TCAM_ROWS: u32 = 512;
const TCAM_BITS: u32 = 44;

/// What one pipeline of a chip has.
#[derive(Clone, Copy, Debug)]
pub struct Chip {
    /// Match-action stages.
    pub stages: u32,
    /// Stateful ALUs of a stage.
    pub stateful_alus_per_stage: u32,
    /// Hash distribution units of a stage.
    pub hash_units_per_stage: u32,
    /// SRAM blocks of a stage.
    pub sram_blocks_per_stage: u32,
    /// TCAM blocks of a stage.
    pub tcam_blocks_per_stage: u32,
}

impl Chip {
    /// Tofino. Stages, SRAM (10 Mbit a stage) and TCAM (528 Ktrit a stage) are SFCache §IV's. The units of
    /// a stage are our assumption; with them all three shares of SwitchNIC §6.5 are whole numbers:
    /// 53 of 72 hash units, 31 of 48 stateful ALUs, 136 of 960 SRAM blocks.
    pub const TOFINO: Self = Self {
        stages: 12,
        stateful_alus_per_stage: 4,
        hash_units_per_stage: 6,
        sram_blocks_per_stage: 80,
        tcam_blocks_per_stage: 24,
    };

    /// All stateful ALUs.
    pub fn stateful_alus(&self) -> u32 {
        self.stages * self.stateful_alus_per_stage
    }

    /// All hash distribution units.
    pub fn hash_units(&self) -> u32 {
        self.stages * self.hash_units_per_stage
    }

    /// All SRAM blocks.
    pub fn sram_blocks(&self) -> u32 {
        self.stages * self.sram_blocks_per_stage
    }

    /// All TCAM blocks.
    pub fn tcam_blocks(&self) -> u32 {
        self.stages * self.tcam_blocks_per_stage
    }
}

/// A state table as SwitchNIC §5.1 has it.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Entries.
    pub entries: u32,
    /// 32-bit words of a key.
    pub key_words: u32,
    /// 32-bit words of a value.
    pub value_words: u32,
    /// Whether key and value are there twice (§4.4).
    pub is_doubled: bool,
    /// Registers of sketches and timers beside it (§5.2).
    pub sketch_columns: u32,
}

/// What a table takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Stages with registers.
    pub stages: u32,
    /// Stateful ALUs.
    pub stateful_alus: u32,
    /// Hash distribution units.
    pub hash_units: u32,
    /// SRAM blocks.
    pub sram_blocks: u32,
}

/// One-bit columns for the state machine (SwitchNIC §5.1).
const FLAGS: u32 = 5;

impl Table {
    /// One stateful ALU and one hash distribution unit for each column, for its index; blocks for the
    /// bits, and one more for each column, as stateful memory needs it to write while it reads. Columns of
    /// sketches, whose sizes the paper does not give, have the one block that a register needs at least.
    pub fn usage(&self) -> Usage {
        let copies = if self.is_doubled { 2 } else { 1 };
        let words = copies * (self.key_words + self.value_words);
        let columns = words + FLAGS + self.sketch_columns;
        let blocks = |bits: u64| (bits * u64::from(self.entries)).div_ceil(BLOCK_BITS) as u32 + 1;
        Usage {
            stages: columns.div_ceil(Chip::TOFINO.stateful_alus_per_stage),
            stateful_alus: columns,
            hash_units: columns,
            sram_blocks: words * blocks(32) + FLAGS * blocks(1) + self.sketch_columns * 2,
        }
    }
}

/// TCAM blocks for so many rules over a key of so many bits.
pub fn tcam_blocks(rules: u32, key_bits: u32) -> u32 {
    rules.div_ceil(TCAM_ROWS) * key_bits.div_ceil(TCAM_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_the_papers_are_whole_numbers_of_units() {
        let chip = Chip::TOFINO;
        let percent =
            |units: u32, of: u32| (f64::from(units) * 1e4 / f64::from(of)).round() / 100.0;
        assert_eq!(percent(53, chip.hash_units()), 73.61);
        assert_eq!(percent(31, chip.stateful_alus()), 64.58);
        assert_eq!(percent(136, chip.sram_blocks()), 14.17);
        assert_eq!(percent(tcam_blocks(5000, 104), chip.tcam_blocks()), 10.42);
    }

    #[test]
    fn the_table_of_the_paper_fits_with_room_for_its_sketches() {
        let table = Table {
            entries: 32_768,
            key_words: 4,
            value_words: 1,
            is_doubled: true,
            sketch_columns: 0,
        };
        let usage = table.usage();
        assert_eq!((usage.stateful_alus, usage.sram_blocks), (15, 100));
        let usage = Table {
            sketch_columns: 16,
            ..table
        }
        .usage();
        assert_eq!((usage.stateful_alus, usage.sram_blocks), (31, 132));
    }
}
