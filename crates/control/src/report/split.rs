//! Packets that were split, and the memory servers, as the report has them.

use super::counts::counts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

counts! {
    /// What happened to packets for the slow path where payloads wait in remote memory. Each time that
    /// a packet went to the slow path it is in `packets` or in one that begins with `whole`.
    SplitCounts {
        /// Packets whose payload was written, and whose header went alone.
        packets,
        /// Bytes that did not go to the slow path.
        bytes,
        /// Packets that travelled whole: too short.
        whole_small,
        /// Packets that travelled whole: fragments, neither TCP nor UDP, or a time to live that ends.
        whole_unsuited,
        /// Packets that travelled whole: of a class that is never split.
        whole_class,
        /// Packets that travelled whole: a function of the chain needs payloads.
        whole_chain,
        /// Packets that travelled whole: no buffer for their header.
        whole_no_buffer,
        /// Packets that travelled whole: no header slot.
        whole_no_slot,
        /// Packets that travelled whole: no server takes payloads of their flow.
        whole_no_server,
        /// Packets that travelled whole: their queue pair was down.
        whole_down,
        /// Packets that travelled whole: too many requests were under way.
        whole_window,
        /// Packets that travelled whole: no room in remote memory.
        whole_no_memory,
        /// Packets that travelled whole: longer than a packet to the server may be.
        whole_too_long,
        /// Of the split, those that left with their payload.
        merged,
        /// Of the split, those that a function dropped.
        declined,
        /// Of the split, those whose header did not come back.
        missing,
        /// Of the split, those whose payload did not come back.
        payload_lost,
        /// Of the split, those whose payload had lost its place before it was asked for.
        payload_gone,
        /// Of the split, those whose payload could not be asked for, because too many were.
        payload_refused,
        /// Of the split, those whose header did not fit in front of their payload.
        header_too_long,
        /// Headers that came when their slot was another's.
        headers_stale,
        /// Of these, headers of packets that were dropped.
        dropped_late,
        /// Headers that came a second time.
        headers_doubled,
        /// Whole packets that waited because they must not overtake others.
        followers,
        /// Whole packets that should have, and were dropped for want of room.
        followers_refused,
        /// Most header slots that were in use at any time.
        most_slots,
        /// Frames at ports of memory servers that were none of theirs.
        other_frames,
        /// Events at servers that nobody was told of.
        events_lost,
    }
}

impl SplitCounts {
    /// Packets that travelled whole.
    pub const fn whole(&self) -> u64 {
        self.whole_small
            + self.whole_unsuited
            + self.whole_class
            + self.whole_chain
            + self.whole_no_buffer
            + self.whole_no_slot
            + self.whole_no_server
            + self.whole_down
            + self.whole_window
            + self.whole_no_memory
            + self.whole_too_long
    }

    /// Split packets that were lost.
    pub const fn lost(&self) -> u64 {
        self.missing
            + self.payload_lost
            + self.payload_gone
            + self.payload_refused
            + self.header_too_long
    }
}

/// Packets that were split, and where their payloads waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// What became of packets.
    #[serde(flatten)]
    pub counts: SplitCounts,
    /// The memory servers, in the order of the service file; memory of the process itself is one.
    pub servers: Vec<MemoryServer>,
}

/// A memory server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryServer {
    /// Its name.
    pub name: String,
    /// Whether it takes payloads.
    pub is_up: bool,
    /// The share of its flows that it takes, in thousandths: less while its link is busy.
    pub share_per_mille: u64,
    /// What its link carried when it was last looked at, in bits a second.
    pub rate_bps: u64,
    /// What went wrong last, in words.
    pub last_error: Option<String>,
    /// All that was counted of it, by name.
    pub counters: BTreeMap<String, u64>,
    /// Its queue pairs, by number; memory of the process itself has none.
    pub queue_pairs: Vec<QueuePair>,
}

/// A queue pair of a memory server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePair {
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

impl Split {
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

impl MemoryServer {
    fn add(&mut self, other: &Self) {
        self.is_up |= other.is_up;
        self.rate_bps = self.rate_bps.saturating_add(other.rate_bps);
        for (name, count) in &other.counters {
            let own = self.counters.entry(name.clone()).or_default();
            *own = own.saturating_add(*count);
        }
        self.queue_pairs.extend(other.queue_pairs.iter().cloned());
    }

    /// A counter by its name; 0 if there is none.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(up: bool, writes: u64) -> Split {
        Split {
            counts: SplitCounts {
                packets: writes,
                missing: 1,
                most_slots: writes,
                ..SplitCounts::default()
            },
            servers: vec![MemoryServer {
                name: "store".into(),
                is_up: up,
                counters: BTreeMap::from([("writes".into(), writes)]),
                ..MemoryServer::default()
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
    }
}
