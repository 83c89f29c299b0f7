//! Parked payloads, as the report has them.

use super::counts::counts;
use serde::{Deserialize, Serialize};

counts! {
    /// What happened to packets for the slow path where payloads wait on the fast path's side. Each time
    /// that a packet went to the slow path it is in one of the first six.
    Parking {
        /// Packets whose payload was parked.
        parked,
        /// Packets that crossed whole: too little payload.
        whole_small,
        /// Packets that crossed whole: fragments, neither TCP nor UDP, or a time to live that ends.
        whole_unsuited,
        /// Packets that crossed whole: no room in the queue, or no slot.
        whole_no_room,
        /// Packets that crossed whole: no buffer for their header.
        whole_no_buffer,
        /// Packets that were dropped: no room in the queue, or no slot.
        refused,
        /// Of the parked, those that left with their header.
        departed,
        /// Of the parked, those whose packet was dropped by a function.
        declined,
        /// Of the parked, those that were given up, because no header came back in time.
        missing,
        /// Of the parked, those whose header did not fit in front of them.
        header_too_long,
        /// Headers that came back after their payload had been given up, or twice.
        stale,
        /// Of these, headers of packets that a function had dropped.
        dropped_late,
        /// Whole packets that waited in the queue because they must not overtake others.
        followers,
        /// Whole packets that should have, and were dropped for want of room.
        followers_refused,
        /// Later fragments that left while nothing was known of their datagrams.
        fragments_alone,
        /// Times that a payload went round.
        recirculations,
        /// Of these, passes to reach another port.
        port_passes,
        /// Copies that the controller put into the queue.
        copies,
        /// Packets that came while the queue's limit was below what the workers' latency asks for.
        target_beyond_buffer,
        /// Bytes that did not cross the link to the slow path.
        parked_bytes,
        /// Most bytes that were in the queue at any time.
        most_queue_bytes,
        /// Bytes that the queue may hold.
        limit_bytes,
    }
}
