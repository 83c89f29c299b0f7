//! A port: bytes wait for their turn on the wire.

use super::{Lost, Server, Through};
use crate::time::{Rate, Time};

/// A queue with a limit in front of a wire.
#[derive(Clone, Debug)]
pub struct Port {
    rate: Rate,
    limit_bytes: u64,
    wire_bytes: u32,
    wire: Server,
    stats: PortStats,
}

/// What a port has counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets accepted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
}

impl Port {
    /// A port of this rate that queues up to `limit_bytes`, the packet on the wire included.
    pub fn new(rate: Rate, limit_bytes: u64) -> Self {
        Self {
            rate,
            limit_bytes,
            wire_bytes: 0,
            wire: Server::default(),
            stats: PortStats::default(),
        }
    }

    /// The same port on a wire where each packet takes so many bytes more than it has: 20 for Ethernet's
    /// preamble and gap, 24 with the checksum.
    #[must_use]
    pub fn with_wire_bytes(mut self, bytes: u32) -> Self {
        self.wire_bytes = bytes;
        self
    }

    /// When the last bit of a packet that is queued now has left.
    ///
    /// # Errors
    /// The queue has no room.
    pub fn send(&mut self, now: Time, bytes: u32) -> Through {
        let queued = u64::from(bytes + self.wire_bytes);
        if self.backlog_bytes(now) + queued > self.limit_bytes {
            self.stats.dropped += 1;
            self.stats.dropped_bytes += u64::from(bytes);
            return Err(Lost::QueueFull);
        }
        self.stats.packets += 1;
        self.stats.bytes += u64::from(bytes);
        Ok(self.wire.serve(now, self.rate.time_of(queued)))
    }

    /// Bytes that wait or are on the wire.
    pub fn backlog_bytes(&self, now: Time) -> u64 {
        self.rate.bytes_in(self.wire.wait(now))
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// What it has counted.
    pub fn stats(&self) -> &PortStats {
        &self.stats
    }

    /// Time on the wire.
    pub fn busy(&self) -> Time {
        self.wire.busy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_queue_up_to_the_limit() {
        let mut port = Port::new(Rate::from_gbps(8.0), 2500);
        assert_eq!(port.send(Time::ZERO, 1000), Ok(Time::from_ns(1000)));
        assert_eq!(port.send(Time::ZERO, 1000), Ok(Time::from_ns(2000)));
        assert_eq!(port.send(Time::ZERO, 1000), Err(Lost::QueueFull));
        assert_eq!(port.backlog_bytes(Time::from_ns(500)), 1500);
        assert_eq!(port.send(Time::from_ns(500), 1000), Ok(Time::from_ns(3000)));
        let stats = port.stats();
        assert_eq!((stats.packets, stats.dropped_bytes), (3, 1000));
    }

    #[test]
    fn small_packets_pay_for_the_wire() {
        let mut port = Port::new(Rate::from_gbps(100.0), 1 << 20).with_wire_bytes(20);
        assert_eq!(port.send(Time::ZERO, 64), Ok(Time(84 * 80)));
    }
}
