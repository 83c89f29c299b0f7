//! How many packets came to which end.

/// Counts since the buffer was made. Every packet ends in exactly one of the groups below.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferCounters {
    /// Payloads that joined the queue.
    pub parked: u64,
    /// Refused: the payload did not fit into the queue.
    pub queue_full: u64,
    /// Refused: no slot was free.
    pub no_slot: u64,
    /// Refused: the partition had too many packets under way.
    pub window_full: u64,

    /// Left with their new header.
    pub departed: u64,
    /// Given up: the workers dropped the packet.
    pub declined: u64,
    /// Given up: no header in time; it was lost, or the workers are slower than that.
    pub expired: u64,
    /// Given up: the header was not back when the payload came out, and there is no second pass.
    pub late: u64,

    /// Whole packets that joined the queue because they must not overtake others.
    pub followers: u64,
    /// Whole packets that should have, but found no room.
    pub followers_refused: u64,

    /// Times that a payload went to the tail of the queue again.
    pub recirculations: u64,
    /// Of these, times that a joined packet went once more to reach its port.
    pub port_passes: u64,
    /// Copies put into the queue.
    pub copies: u64,
    /// Bytes of these.
    pub copy_bytes: u64,
    /// Packets for which the controller wanted more copies than one packet may have: small ones.
    pub copies_limited: u64,
    /// Packets for which copies were left out because the queue was near its limit.
    pub copies_no_room: u64,
    /// Packets that came while the target was beyond the buffer.
    pub target_beyond_buffer: u64,

    /// Headers that came back in time to be kept.
    pub headers: u64,
    /// Headers that came a second time.
    pub headers_doubled: u64,
    /// Headers whose payload is not there any more.
    pub headers_stale: u64,
}

impl BufferCounters {
    /// Packets that were refused.
    pub fn refused(&self) -> u64 {
        self.queue_full + self.no_slot + self.window_full
    }

    /// Packets that came to an end after they were parked.
    pub fn ended(&self) -> u64 {
        self.departed + self.declined + self.expired + self.late
    }
}
