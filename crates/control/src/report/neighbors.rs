//! What was asked and answered about neighbours.

use super::counts::counts;
use serde::{Deserialize, Serialize};

counts! {
    /// Counts of address resolution (ARP, RFC 826; neighbour discovery, RFC 4861) at all ports.
    NeighborFigures {
        /// Neighbours that are known, or asked for.
        known,
        /// Questions that the node asked.
        questions,
        /// Questions of others that it answered.
        answers,
        /// Neighbours that did not answer, or not any more.
        unanswered,
        /// Packets that waited for a neighbour which did not answer.
        unanswered_drops,
        /// Packets that later ones pushed out of a neighbour's queue.
        backlog_drops,
        /// Packets for neighbours that could not be asked for: too many were.
        unresolved_drops,
        /// Packets to where the port has no address to ask from.
        no_address_drops,
        /// Messages of others that claim one of the node's own addresses.
        conflicts,
        /// Neighbours that had to make room for others.
        evictions,
        /// Packets that had to wait for a neighbour's answer, whatever became of them.
        waited,
        /// Times that one of the addresses that the node answers for was announced.
        announcements,
    }
}

impl NeighborFigures {
    /// Packets that did not leave.
    pub const fn lost(&self) -> u64 {
        self.unanswered_drops + self.backlog_drops + self.unresolved_drops + self.no_address_drops
    }
}
