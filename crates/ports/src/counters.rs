//! What a port counts.

/// What a port counts. Frames and bytes as they are exchanged with the kernel, before frames are cut.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames that came.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that came while there was no room for them in the kernel.
    pub receive_missed: u64,
    /// Frames that the kernel had for us and that nobody read before the port was closed.
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
    /// Frames that came by AF_XDP and were copied to another buffer, for few were left where they lay.
    pub receive_copied: u64,
    /// Frames that were copied to a buffer from which AF_XDP sends, for they lay elsewhere.
    pub transmit_copied: u64,
    /// How often the interface went down or disappeared.
    pub outages: u64,
}

impl PortCounters {
    pub(crate) fn received(&mut self, bytes: usize) {
        self.received_packets += 1;
        self.received_bytes += bytes as u64;
    }

    pub(crate) fn transmitted(&mut self, bytes: usize) {
        self.transmitted_packets += 1;
        self.transmitted_bytes += bytes as u64;
    }

    /// Frames that were lost at the port, whatever the reason.
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
