//! An explanation as text.

use super::{
    DeviceFit, Explanation, Function, MemoryFacts, ShardFacts, SlowFacts, StateTableFacts,
    TableFacts, Use,
};
use std::fmt::{self, Display, Formatter};
use twinpath_control::report::units;

/// An explanation, and whether the fast programs are shown with it.
pub struct ExplanationText<'a> {
    pub explanation: &'a Explanation,
    pub has_programs: bool,
}

impl Display for ExplanationText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all = self.explanation;
        writeln!(f, "{}", all.verdict)?;
        writeln!(f, "{}: {}", all.service, all.chain.join(" -> "))?;
        writeln!(f, "\nWhat runs where")?;
        all.places
            .iter()
            .try_for_each(|place| writeln!(f, "{place}"))?;
        writeln!(f, "\n{}", all.memory)?;
        let ShardFacts { count, told_by } = &all.shards;
        if *count > 1 {
            writeln!(
                f,
                "\n{count} shards, each a node of its own. A packet belongs to one by"
            )?;
            told_by
                .iter()
                .try_for_each(|what| writeln!(f, "  {what}"))?;
        }
        if let Some(rules) = &all.rules {
            writeln!(f, "\n{rules}")?;
        }
        if let Some(parking) = &all.parking {
            writeln!(f, "\n{parking}")?;
        }
        if let Some(split) = &all.split {
            writeln!(f, "\n{split}")?;
        }
        if let Some(kernel) = &all.kernel {
            writeln!(f, "\n{kernel}")?;
        }
        if let Some(dpu) = &all.dpu {
            writeln!(f, "\n{dpu}")?;
        }
        match all.functions.is_empty() {
            true => Ok(()),
            false => self.flow_state(f),
        }
    }
}

impl ExplanationText<'_> {
    fn flow_state(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all = self.explanation;
        writeln!(f, "\nDevices")?;
        all.devices
            .iter()
            .try_for_each(|device| writeln!(f, "{device}"))?;
        writeln!(f, "\nFlow state: what the fast path leaves to the workers")?;
        all.slow_path_only
            .iter()
            .try_for_each(|reason| writeln!(f, "  {reason}"))?;
        let is_alone = all.state_tables.len() == 1;
        for StateTableFacts { functions, table } in &all.state_tables {
            match is_alone {
                true => writeln!(f, "\nState table")?,
                false => writeln!(f, "\nState table of {}", functions.join(", "))?,
            }
            writeln!(f, "{table}")?;
        }
        if let Some(slow_path) = &all.slow_path {
            writeln!(f, "{slow_path}")?;
        }
        if !self.has_programs {
            return Ok(());
        }
        writeln!(
            f,
            "\nThe fast path runs these programs; words are a flow's state\n"
        )?;
        all.functions
            .iter()
            .try_for_each(|function| writeln!(f, "{function}"))
    }
}

impl Display for MemoryFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bytes = units::bytes(self.bytes);
        write!(f, "Memory: {bytes} when all tables and buffers are full")?;
        match self.parts.first() {
            Some(most) => {
                let bytes = units::bytes(most.bytes);
                write!(f, ", most of it for {} ({bytes})", most.what)
            }
            None => Ok(()),
        }
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.listing)?;
        for (index, table) in self.tables.iter().enumerate() {
            writeln!(
                f,
                "  table[{index}] {}: {} rows",
                table.name,
                units::count(table.rows as u64)
            )?;
        }
        match self.ternary_entries {
            0 => Ok(()),
            entries => writeln!(
                f,
                "  window matcher: {} ternary entries",
                units::count(entries as u64)
            ),
        }
    }
}

impl Display for DeviceFit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let chosen = if self.is_chosen {
            " (this service's)"
        } else {
            ""
        };
        let name = format!("{}{chosen}", self.device);
        match &self.refusal {
            Some(refusal) => write!(f, "  {name:<26} does not fit: {refusal}"),
            None => {
                let uses: Vec<_> = self.uses.iter().map(ToString::to_string).collect();
                write!(f, "  {name:<26} fits: {}", uses.join(", "))?;
                match self.without_room.as_slice() {
                    [] => Ok(()),
                    names => write!(f, "; no room beside that for {}", names.join(", ")),
                }
            }
        }
    }
}

impl Display for Use {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { what, used, limit } = *self;
        match what.strip_suffix(" bytes") {
            Some(of) => write!(
                f,
                "{} of {} of {of}",
                units::bytes(used as u64),
                units::bytes(limit as u64)
            ),
            None => write!(
                f,
                "{} of {} {what}",
                units::count(used as u64),
                units::count(limit as u64)
            ),
        }
    }
}

impl Display for TableFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [slots, buckets] = [self.slots, self.buckets].map(|number| units::count(number as u64));
        writeln!(
            f,
            "  {slots} slots in {buckets} buckets of {}; {} words and {} bytes a slot, {} in all",
            self.ways,
            self.words_per_slot,
            self.bytes_per_slot,
            units::bytes(self.bytes as u64)
        )?;
        writeln!(f, "  if all flows want a slot, it has one for")?;
        for residence in &self.residence {
            writeln!(
                f,
                "  {:>9} of {:>13} flows",
                units::percent(residence.share),
                units::count(residence.flows as u64)
            )?;
        }
        Ok(())
    }
}

impl Display for SlowFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [flows, frames] = [self.flows_per_worker, self.most_held_frames]
            .map(|number| units::count(number as u64));
        let full = units::bytes(self.bytes_when_full as u64);
        writeln!(f, "Workers")?;
        writeln!(
            f,
            "  workers: {}, each with up to {flows} flows of {} bytes, {full} when full",
            self.workers, self.bytes_per_flow
        )?;
        write!(
            f,
            "  beside that, functions hold at most {frames} frames a worker"
        )
    }
}
