//! A port: bytes wait for their turn on the wire.

use super::{QueueFull, Server, Through};
use crate::time::{Rate, Time};

/// A queue with a limit in front of a wire.
#[derive(Clone, Debug)]
pub struct Port {
    rate: Rate,
    limit_bytes: u64,
    wire_bytes: u32,
    wire: Server,
}

impl Port {
    /// A port of this rate that queues up to `limit_bytes`, the packet on the wire included.
    pub fn new(rate: Rate, limit_bytes: u64) -> Self {
        Self {
            rate,
            limit_bytes,
            wire_bytes: 0,
            wire: Server::default(),
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
            return Err(QueueFull);
        }
        Ok(self.wire.serve(now, self.rate.time_of(queued)))
    }

    /// Bytes that wait or are on the wire.
    fn backlog_bytes(&self, now: Time) -> u64 {
        self.rate.bytes_in(self.wire.wait(now))
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
        assert_eq!(port.send(Time::ZERO, 1000), Err(QueueFull));
        assert_eq!(port.backlog_bytes(Time::from_ns(500)), 1500);
        assert_eq!(port.send(Time::from_ns(500), 1000), Ok(Time::from_ns(3000)));
    }

    #[test]
    fn small_packets_pay_for_the_wire() {
        let mut port = Port::new(Rate::from_gbps(100.0), 1 << 20).with_wire_bytes(20);
        assert_eq!(port.send(Time::ZERO, 64), Ok(Time(84 * 80)));
    }
}
