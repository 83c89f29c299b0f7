//! What was asked and answered about neighbours.

use serde::{Deserialize, Serialize};

/// Counts of address resolution (ARP, RFC 826; neighbour discovery, RFC 4861) at all ports.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighborFigures {
    /// Neighbours that are known, or asked for.
    pub known: u64,
    /// Questions that the node asked.
    pub questions: u64,
    /// Questions of others that it answered.
    pub answers: u64,
    /// Neighbours that did not answer, or not any more.
    pub unanswered: u64,
    /// Packets that waited for a neighbour which did not answer.
    pub unanswered_drops: u64,
    /// Packets that later ones pushed out of a neighbour's queue.
    pub backlog_drops: u64,
    /// Packets for neighbours that could not be asked for: too many were.
    pub unresolved_drops: u64,
    /// Packets to where the port has no address to ask from.
    pub no_address_drops: u64,
    /// Messages of others that claim one of the node's own addresses.
    pub conflicts: u64,
    /// Neighbours that had to make room for others.
    pub evictions: u64,
}

impl NeighborFigures {
    /// Packets that did not leave.
    pub const fn lost(&self) -> u64 {
        self.unanswered_drops + self.backlog_drops + self.unresolved_drops + self.no_address_drops
    }
}
