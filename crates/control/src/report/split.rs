//! Packets that were split, and the memory servers, as the report has them.

use super::units;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use twinpath_remote::fast::Counters as SplitCounts;

/// Packets that were split, and where their payloads waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitFigures {
    /// What became of packets.
    #[serde(flatten)]
    pub counts: SplitCounts,
    /// The memory servers, in the order of the service file; memory of the process itself is one.
    pub servers: Vec<MemoryServerFigures>,
}

/// A memory server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryServerFigures {
    /// Its name.
    pub name: String,
    /// Whether it takes payloads.
    pub is_up: bool,
    /// The share of its flows that it takes, in thousandths: less while its link is busy. Of several
    /// shards the least.
    pub share_per_mille: u64,
    /// What its link carried when it was last looked at, in bits a second.
    pub rate_bps: u64,
    /// What went wrong last, in words.
    pub last_error: Option<String>,
    /// How long ago that was, in milliseconds.
    #[serde(default)]
    pub last_error_age_ms: Option<u64>,
    /// All that was counted of it, by name.
    pub counters: BTreeMap<String, u64>,
    /// Its queue pairs; memory of the process itself has none.
    pub queue_pairs: Vec<QueuePairFigures>,
}

/// A queue pair of a memory server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePairFigures {
    /// Its number at the server.
    pub number: u16,
    /// Whether it takes payloads.
    pub is_up: bool,
    /// Payloads that were sent by it.
    pub writes: u64,
    /// Payloads that were asked for by it.
    pub reads: u64,
    /// Payloads that came back by it.
    pub payloads: u64,
    /// Lives that have begun.
    pub lives: u64,
    /// Lives that ended by an error.
    pub errors: u64,
    /// Why the last of them ended.
    pub last_error: Option<String>,
}

impl SplitFigures {
    /// Adds what was counted in another shard. Servers of one name are one.
    pub fn add(&mut self, other: &Self) {
        let most_slots = self.counts.most_slots.max(other.counts.most_slots);
        self.counts.add(&other.counts);
        self.counts.most_slots = most_slots;
        for server in &other.servers {
            match self.servers.iter_mut().find(|own| own.name == server.name) {
                Some(own) => own.add(server),
                None => self.servers.push(server.clone()),
            }
        }
    }

    /// How many servers take payloads.
    pub fn servers_up(&self) -> usize {
        self.servers.iter().filter(|server| server.is_up).count()
    }
}

impl MemoryServerFigures {
    fn add(&mut self, other: &Self) {
        self.is_up |= other.is_up;
        self.share_per_mille = self.share_per_mille.min(other.share_per_mille);
        let age = |of: &Self| of.last_error_age_ms.unwrap_or(u64::MAX);
        if self.last_error.is_none() || other.last_error.is_some() && age(other) < age(self) {
            self.last_error.clone_from(&other.last_error);
            self.last_error_age_ms = other.last_error_age_ms;
        }
        self.rate_bps = self.rate_bps.saturating_add(other.rate_bps);
        for (name, count) in &other.counters {
            let own = self.counters.entry(name.clone()).or_default();
            *own = own.saturating_add(*count);
        }
        self.queue_pairs.extend(other.queue_pairs.iter().cloned());
        self.queue_pairs.sort_by_key(|pair| pair.number);
    }

    /// Payloads that were asked for and lost.
    pub fn lost(&self) -> u64 {
        let whys = [
            "lost_write",
            "lost_timeout",
            "lost_mismatch",
            "lost_server",
            "reads_unknown",
        ];
        let counts = whys.iter().map(|why| self.counter(why));
        counts.fold(0, u64::saturating_add)
    }

    /// Payloads that were asked for, and have neither come nor been lost; memory of the process itself
    /// gives each back at once.
    pub fn outstanding(&self) -> u64 {
        let ended = self.counter("payloads").saturating_add(self.lost());
        match self.queue_pairs.is_empty() {
            true => 0,
            false => self.counter("reads").saturating_sub(ended),
        }
    }

    /// What went wrong last, and how long ago.
    pub fn last_error_told(&self) -> Option<String> {
        let error = self.last_error.as_ref()?;
        Some(match self.last_error_age_ms {
            Some(age) => format!("{error} ({} s ago)", units::count(age / 1000)),
            None => error.clone(),
        })
    }

    /// A counter by its name; 0 if there is none.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(up: bool, writes: u64) -> SplitFigures {
        SplitFigures {
            counts: SplitCounts {
                packets: writes,
                missing: 1,
                most_slots: writes,
                ..SplitCounts::default()
            },
            servers: vec![MemoryServerFigures {
                name: "store".into(),
                is_up: up,
                share_per_mille: 100 * writes,
                counters: BTreeMap::from([("writes".into(), writes)]),
                queue_pairs: [5 - writes as u16, 9]
                    .map(|number| QueuePairFigures {
                        number,
                        ..QueuePairFigures::default()
                    })
                    .into(),
                ..MemoryServerFigures::default()
            }],
        }
    }

    #[test]
    fn shards_are_added() {
        let mut sum = split(false, 3);
        sum.add(&split(true, 4));
        assert_eq!((sum.counts.packets, sum.counts.lost()), (7, 2));
        assert_eq!((sum.counts.most_slots, sum.servers.len()), (4, 1));
        assert_eq!((sum.servers[0].counter("writes"), sum.servers_up()), (7, 1));
        assert_eq!(sum.servers[0].share_per_mille, 300);
        let numbers = sum.servers[0].queue_pairs.iter().map(|pair| pair.number);
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 9, 9]);
    }
}
