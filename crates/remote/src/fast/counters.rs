//! What a stage counts.

use crate::counters::counters;

counters! {
    /// What a stage has counted. Each time that a packet went to the slow path it is in `packets` or in one
    /// of those that begin with `whole`; of the split each comes to one end of those behind them.
    =>
    /// Packets whose payload was written, and whose header went alone.
    packets,
    /// Whole: shorter than the threshold, or less payload than what names it.
    whole_small,
    /// Whole: no TCP or UDP packet in one piece, or one whose time to live ends.
    whole_unsuited,
    /// Whole: of a class that is never split.
    whole_class,
    /// Whole: a function of the chain needs payloads.
    whole_chain,
    /// Whole: no buffer for the header.
    whole_no_buffer,
    /// Whole: no header slot that could be used.
    whole_no_slot,
    /// Whole: no server takes payloads, or the flow's share of them is backed off.
    whole_no_server,
    /// Whole: the flow's queue pair is being restored.
    whole_down,
    /// Whole: too many requests were under way.
    whole_window,
    /// Whole: no room in remote memory.
    whole_no_memory,
    /// Whole: the payload is longer than a packet of the link to the server.
    whole_too_long,
    /// Left with their payload.
    merged,
    /// A function, or the fast path, dropped the packet.
    declined,
    /// Their header did not come back before their slot was needed, or at all.
    missing,
    /// The payload was written and did not come back, for whatever reason.
    payload_lost,
    /// The payload lost its place in remote memory before it was asked for, or was never there.
    payload_gone,
    /// The payload could not be asked for: too many were, or its server is gone.
    payload_refused,
    /// The payload had not come when too many packets waited for others.
    payload_late,
    /// The new header was too long for the room in front of the payload.
    header_too_long,
    /// Headers that came when their slot was another's.
    headers_stale,
    /// Of these, headers of packets that were dropped.
    dropped_late,
    /// Headers that came a second time.
    headers_doubled,
    /// Whole packets that waited for others of their flow.
    followers,
    /// Later fragments that left while nothing was known of their datagrams, and so of their flows.
    fragments_alone,
    /// Bytes that did not go to the slow path.
    bytes,
    /// Most header slots that were in use at any time.
    most_slots,
    /// Frames that came from a port of memory servers, and were of none.
    other_frames,
    /// Events at servers that nobody was told of, for want of room.
    events_lost,
}

impl Counters {
    /// Packets that went to the slow path whole.
    #[must_use]
    pub const fn whole(&self) -> u64 {
        self.whole_small
            .saturating_add(self.whole_unsuited)
            .saturating_add(self.whole_class)
            .saturating_add(self.whole_chain)
            .saturating_add(self.whole_no_buffer)
            .saturating_add(self.whole_no_slot)
            .saturating_add(self.whole_no_server)
            .saturating_add(self.whole_down)
            .saturating_add(self.whole_window)
            .saturating_add(self.whole_no_memory)
            .saturating_add(self.whole_too_long)
    }

    /// Packets that came to an end after they were split.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.merged
            .saturating_add(self.declined)
            .saturating_add(self.lost())
    }

    /// Split packets that were lost.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.missing
            .saturating_add(self.payload_lost)
            .saturating_add(self.payload_gone)
            .saturating_add(self.payload_refused)
            .saturating_add(self.payload_late)
            .saturating_add(self.header_too_long)
    }
}
