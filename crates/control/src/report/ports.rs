//! What network interfaces counted.

use super::counts::counts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A port. Frames and bytes as they are exchanged with the kernel: a frame that a host or card is
/// still to cut counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFigures {
    /// Its name in the service file.
    pub name: String,
    /// Its interface.
    pub device: String,
    /// How packets were exchanged with it.
    pub driver: String,
    /// Who copied packets between the driver and the node, with AF_XDP: `zero_copy` if nobody did, `copy`
    /// if the kernel did, in both directions. Empty otherwise.
    #[serde(default)]
    pub mode: String,
    /// Whether packets came and went when this was told: at the end of the run, in a report.
    #[serde(default)]
    pub is_up: bool,
    /// Frames that came.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that came while the kernel had no room for them.
    pub receive_missed: u64,
    /// Frames that the kernel had for the node and that nobody read: the run ended, or the interface was
    /// gone.
    #[serde(default)]
    pub receive_unread: u64,
    /// Frames for which there was no buffer.
    pub receive_no_buffer: u64,
    /// Frames that are longer than the longest buffer.
    pub receive_too_long: u64,
    /// Frames of which the kernel told what cannot be.
    pub receive_malformed: u64,
    /// Frames that left.
    pub transmitted_packets: u64,
    /// Their bytes.
    pub transmitted_bytes: u64,
    /// Frames that the kernel did not take: its queue was full, or the interface down.
    pub transmit_refused: u64,
    /// Frames that are longer than the MTU.
    pub transmit_too_long: u64,
    /// Frames that came by AF_XDP and were copied to another buffer of the node, for few were left where
    /// they lay.
    #[serde(default)]
    pub copied_received: u64,
    /// Frames that were copied to a buffer from which AF_XDP sends, for they lay elsewhere.
    #[serde(default)]
    pub copied_transmitted: u64,
    /// How often the interface went down or disappeared.
    pub outages: u64,
}

impl PortFigures {
    /// Adds what another shard counted at the same port.
    pub fn add(&mut self, other: &Self) {
        self.is_up &= other.is_up;
        for (own, more) in [
            (&mut self.received_packets, other.received_packets),
            (&mut self.received_bytes, other.received_bytes),
            (&mut self.receive_missed, other.receive_missed),
            (&mut self.receive_unread, other.receive_unread),
            (&mut self.receive_no_buffer, other.receive_no_buffer),
            (&mut self.receive_too_long, other.receive_too_long),
            (&mut self.receive_malformed, other.receive_malformed),
            (&mut self.transmitted_packets, other.transmitted_packets),
            (&mut self.transmitted_bytes, other.transmitted_bytes),
            (&mut self.transmit_refused, other.transmit_refused),
            (&mut self.transmit_too_long, other.transmit_too_long),
            (&mut self.copied_received, other.copied_received),
            (&mut self.copied_transmitted, other.copied_transmitted),
        ] {
            *own += more;
        }
        // A shard without a queue does not know; of the others, the worst.
        if self.mode.is_empty() || other.mode == "copy" {
            self.mode.clone_from(&other.mode);
        }
        // All see the same outages.
        self.outages = self.outages.max(other.outages);
    }

    /// Frames that were lost here, either way.
    pub const fn lost(&self) -> u64 {
        self.receive_missed
            + self.receive_unread
            + self.receive_no_buffer
            + self.receive_too_long
            + self.receive_malformed
            + self.transmit_refused
            + self.transmit_too_long
    }
}

counts! {
    /// Packets that were lost at a node's ports: before they came in, or when they had left. No drop
    /// counter has them.
    PortLosses {
        /// Frames that came while the kernel had no room for them.
        receive_missed,
        /// Frames that the kernel had for the node and that nobody read: the run ended, or an interface was
        /// gone.
        #[serde(default)]
        receive_unread,
        /// Frames for which there was no buffer.
        receive_no_buffer,
        /// Frames that are longer than the longest buffer.
        receive_too_long,
        /// Frames of which the kernel told what cannot be.
        receive_malformed,
        /// Frames or datagrams that the kernel did not take.
        transmit_refused,
        /// Frames that are longer than the MTU of the port that they were to leave by.
        transmit_too_long,
        /// Packets whose neighbour's MAC address was not to be had.
        without_neighbor,
        /// Packets that another shard did not take in time, before they came in or when they had left.
        between_shards,
    }
}

counts! {
    /// What a shard exchanged with the network and with other shards.
    ShardFigures {
        /// Packets that came by the shard's own queues.
        received_packets,
        /// Of these, packets that were another shard's and went to it.
        handed_over,
        /// Packets that left by a queue of another shard.
        left_elsewhere,
        /// Packets between hosts inside of two shards that went on in another, the receiver's.
        crossed,
        /// Packets for another shard that was behind: they were dropped.
        ring_full,
        /// Packets of another shard's queues for which there was no buffer.
        no_buffer,
        /// Packets that another shard had handed over when the run ended.
        left_behind,
        /// Frames of memory servers that came by the shard's own queues, and went to another.
        server_frames_handed_over,
        /// Of memory servers' frames those that another shard did not take in time: payloads are asked
        /// for again.
        server_frames_lost,
    }
}

impl ShardFigures {
    /// Packets that were lost on the way from or to another shard.
    pub const fn lost(&self) -> u64 {
        self.ring_full + self.no_buffer + self.left_behind
    }
}

impl PortLosses {
    /// Those that there are, by name.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let losses = [
            ("receive_missed", self.receive_missed),
            ("receive_unread", self.receive_unread),
            ("receive_no_buffer", self.receive_no_buffer),
            ("receive_too_long", self.receive_too_long),
            ("receive_malformed", self.receive_malformed),
            ("transmit_refused", self.transmit_refused),
            ("transmit_too_long", self.transmit_too_long),
            ("without_neighbor", self.without_neighbor),
            ("between_shards", self.between_shards),
        ];
        let losses = losses.into_iter().filter(|(_, count)| *count > 0);
        losses
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }

    /// Packets that did not come in.
    pub const fn before_coming_in(&self) -> u64 {
        self.receive_missed
            + self.receive_unread
            + self.receive_no_buffer
            + self.receive_too_long
            + self.receive_malformed
    }

    /// Packets that had passed the chain and did not leave.
    pub const fn when_leaving(&self) -> u64 {
        self.transmit_refused + self.transmit_too_long + self.without_neighbor
    }

    /// Whether nothing was lost.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_shards_the_worst_mode_is_told() {
        let mode = |modes: &[&str]| {
            let mut sum = PortFigures::default();
            for mode in modes {
                sum.add(&PortFigures {
                    mode: str::to_owned(mode),
                    copied_received: 1,
                    ..PortFigures::default()
                });
            }
            (sum.mode, sum.copied_received)
        };
        assert_eq!(mode(&["", "zero_copy", ""]), ("zero_copy".into(), 3));
        assert_eq!(
            mode(&["zero_copy", "copy", "zero_copy"]),
            ("copy".into(), 3)
        );
    }
}
