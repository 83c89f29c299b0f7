//! A switch: a pipeline and its ports.

use super::{Lost, Port, Through};
use crate::time::Time;

/// A pipeline that takes every packet the same time, and ports with queues behind it.
#[derive(Clone, Debug)]
pub struct Switch {
    latency: Time,
    ports: Vec<Port>,
    loopback_latency: Time,
}

/// What became of the copies of one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// When each that was not lost has left.
    pub through: Vec<Time>,
    /// How many were lost.
    pub lost: u64,
}

impl Switch {
    /// A switch whose pipeline takes `latency`, and whose ports in loopback mode add
    /// `loopback_latency` before a packet is at the pipeline again.
    pub fn new(latency: Time, ports: Vec<Port>, loopback_latency: Time) -> Self {
        Self {
            latency,
            ports,
            loopback_latency,
        }
    }

    /// When a packet that arrives now has left by this port.
    ///
    /// # Errors
    /// There is no such port, or its queue is full.
    pub fn forward(&mut self, now: Time, port: usize, bytes: u32) -> Through {
        let latency = self.latency;
        let port = self.ports.get_mut(port).ok_or(Lost::NoPort)?;
        port.send(now + latency, bytes)
    }

    /// When a packet that is sent round by this port is at the pipeline again.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn recirculate(&mut self, now: Time, port: usize, bytes: u32) -> Through {
        let left = self.forward(now, port, bytes)?;
        Ok(left + self.loopback_latency)
    }

    /// Sends one copy by each of these ports; a port may be named several times.
    pub fn multicast(&mut self, now: Time, ports: &[usize], bytes: u32) -> Copies {
        let mut copies = Copies::default();
        for port in ports {
            match self.forward(now, *port, bytes) {
                Ok(time) => copies.through.push(time),
                Err(_) => copies.lost += 1,
            }
        }
        copies
    }

    /// How long a packet is after it was cut to its first `kept_bytes`.
    pub fn truncate(bytes: u32, kept_bytes: u32) -> u32 {
        bytes.min(kept_bytes)
    }

    /// A port.
    pub fn port(&self, port: usize) -> Option<&Port> {
        self.ports.get(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;

    fn switch() -> Switch {
        let port = Port::new(Rate::from_gbps(8.0), 2500);
        Switch::new(
            Time::from_ns(400),
            vec![port.clone(), port],
            Time::from_ns(50),
        )
    }

    #[test]
    fn a_packet_passes_the_pipeline_and_its_port() {
        let mut switch = switch();
        assert_eq!(switch.forward(Time::ZERO, 1, 1000), Ok(Time::from_ns(1400)));
        assert_eq!(switch.forward(Time::ZERO, 2, 1000), Err(Lost::NoPort));
        assert_eq!(
            switch.recirculate(Time::ZERO, 0, 1000),
            Ok(Time::from_ns(1450))
        );
    }

    #[test]
    fn copies_are_counted_as_far_as_there_is_room() {
        let copies = switch().multicast(Time::ZERO, &[0, 0, 0, 1], 1000);
        assert_eq!((copies.through.len(), copies.lost), (3, 1));
        assert_eq!(Switch::truncate(1000, 64), 64);
    }
}
