//! How much packets of one flow follow each other.
//!
//! The paper takes its spatial locality factor from Reframer's paper. Two ways of counting it are told
//! apart here: packets of a run without another flow's packet between them, and packets of a flow among 32
//! packets in a row, as a receiver takes them at a time.

use std::collections::HashSet;

/// Packets that a receiver takes at a time.
const BATCH: usize = 32;

/// Counts as packets come.
#[derive(Debug, Default)]
pub(super) struct Locality {
    last: Option<u64>,
    packets: u64,
    runs: u64,
    batch: HashSet<u64>,
    in_batch: usize,
    batches: u64,
    flows_of_batches: u64,
}

impl Locality {
    pub(super) fn packet(&mut self, flow: u64) {
        self.packets += 1;
        self.runs += u64::from(self.last.replace(flow) != Some(flow));
        self.batch.insert(flow);
        self.in_batch += 1;
        if self.in_batch == BATCH {
            self.batches += 1;
            self.flows_of_batches += self.batch.len() as u64;
            self.batch.clear();
            self.in_batch = 0;
        }
    }

    /// Packets of a run, mean.
    pub(super) fn run(&self) -> f64 {
        self.packets as f64 / self.runs.max(1) as f64
    }

    /// Packets of a flow of those of a batch, mean.
    pub(super) fn batch(&self) -> f64 {
        (self.batches * BATCH as u64) as f64 / self.flows_of_batches.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_others_between_end_a_run_but_not_a_batch() {
        let mut locality = Locality::default();
        for round in 0..16 {
            locality.packet(round % 2);
            locality.packet(2 + round % 2);
        }
        assert_eq!((locality.run(), locality.batch()), (1.0, 8.0));
        let mut locality = Locality::default();
        (0..32).for_each(|packet| locality.packet(packet / 2));
        assert_eq!((locality.run(), locality.batch()), (2.0, 2.0));
    }
}
