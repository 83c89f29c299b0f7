//! Parked payloads, as the report has them.

use serde::{Deserialize, Serialize};

/// What happened to packets for the slow path where payloads wait on the fast path's side. Each time
/// that a packet went to the slow path it is in one of the first six.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parking {
    /// Packets whose payload was parked.
    pub parked: u64,
    /// Packets that crossed whole: too little payload.
    pub whole_small: u64,
    /// Packets that crossed whole: fragments, neither TCP nor UDP, or a time to live that ends.
    pub whole_unsuited: u64,
    /// Packets that crossed whole: no room in the queue, or no slot.
    pub whole_no_room: u64,
    /// Packets that crossed whole: no buffer for their header.
    pub whole_no_buffer: u64,
    /// Packets that were dropped: no room in the queue, or no slot.
    pub refused: u64,
    /// Of the parked, those that left with their header.
    pub departed: u64,
    /// Of the parked, those whose packet was dropped by a function.
    pub declined: u64,
    /// Of the parked, those that were given up, because no header came back in time.
    pub missing: u64,
    /// Of the parked, those whose header did not fit in front of them.
    pub header_too_long: u64,
    /// Headers that came back after their payload had been given up, or twice.
    pub stale: u64,
    /// Of these, headers of packets that a function had dropped.
    pub dropped_late: u64,
    /// Whole packets that waited in the queue because they must not overtake others.
    pub followers: u64,
    /// Whole packets that should have, and were dropped for want of room.
    pub followers_refused: u64,
    /// Times that a payload went round.
    pub recirculations: u64,
    /// Of these, passes to reach another port.
    pub port_passes: u64,
    /// Copies that the controller put into the queue.
    pub copies: u64,
    /// Packets that came while the queue's limit was below what the workers' latency asks for.
    pub target_beyond_buffer: u64,
    /// Bytes that did not cross the link to the slow path.
    pub parked_bytes: u64,
    /// Most bytes that were in the queue at any time.
    pub most_queue_bytes: u64,
    /// Bytes that the queue may hold.
    pub limit_bytes: u64,
}
