//! A network card: what it can do a second, and the bus to the host.

use super::{Lost, Port, Server, Through};
use crate::time::{Rate, Time};

/// A card that handles so many packets a second and moves them over a bus.
#[derive(Clone, Debug)]
pub struct Nic {
    packet_time: Time,
    ring: u64,
    engine: Server,
    bus: Port,
    dma_latency: Time,
    lost: u64,
}

impl Nic {
    /// A card of so many packets a second with a ring of `ring` packets, a bus of `bus` bits a second,
    /// and `dma_latency` from the card to where the core sees the packet.
    pub fn new(packets_per_s: f64, ring: u64, bus: Rate, dma_latency: Time) -> Self {
        Self {
            packet_time: Time::from_ns_f64(1e9 / packets_per_s),
            ring,
            engine: Server::default(),
            // The ring bounds what waits: nothing is lost on the bus.
            bus: Port::new(bus, u64::MAX),
            dma_latency,
            lost: 0,
        }
    }

    /// When a packet that arrives now is in the host's memory, or on the wire on the way back.
    ///
    /// # Errors
    /// The ring is full.
    pub fn transfer(&mut self, now: Time, bytes: u32) -> Through {
        if self.engine.wait(now).0 / self.packet_time.0.max(1) >= self.ring {
            self.lost += 1;
            return Err(Lost::QueueFull);
        }
        let handled = self.engine.serve(now, self.packet_time);
        Ok(self.bus.send(handled, bytes)? + self.dma_latency)
    }

    /// Packets that found the ring full.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_packets_are_bound_by_their_number_and_large_ones_by_the_bus() {
        let mut nic = Nic::new(100e6, 2, Rate::from_gbps(80.0), Time::from_ns(900));
        assert_eq!(nic.transfer(Time::ZERO, 64).unwrap().ns(), 10 + 6 + 900);
        assert_eq!(nic.transfer(Time::ZERO, 1000).unwrap().ns(), 20 + 100 + 900);
        assert_eq!(nic.transfer(Time::ZERO, 64), Err(Lost::QueueFull));
        assert_eq!(nic.lost(), 1);
    }
}
