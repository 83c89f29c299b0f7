//! What happens to some packets only, and what must still come because of it.

use crate::config::TrafficConfig;
use crate::packet::{Direction, PacketKind};
use crate::random::{Chance, Random, streams};

/// Late segments: the randomness that picks them, and how many are owed.
#[derive(Debug, Clone)]
pub(crate) struct Lateness {
    pub(crate) random: Random,
    pub(crate) delay_packets: u64,
    pub(crate) held: u64,
}

/// Something that happens to some packets.
#[derive(Debug, Clone)]
pub(crate) struct Oddity {
    chance: Chance,
    random: Random,
}

/// The rest of a datagram whose first fragment has been sent.
#[derive(Debug, Clone)]
pub(crate) struct SecondFragment {
    pub(crate) bytes: Vec<u8>,
    pub(crate) packet: Option<Packet>,
}

/// A packet without its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) len: usize,
    pub(crate) flow: u64,
    pub(crate) kind: PacketKind,
    pub(crate) direction: Direction,
}

impl Lateness {
    pub(crate) fn new(config: &TrafficConfig, seed: u64) -> Option<Self> {
        (config.tcp.out_of_order_share > 0.0).then(|| Self {
            random: Random::stream(seed, streams::LATENESS),
            delay_packets: config.tcp.out_of_order_delay_packets.into(),
            held: 0,
        })
    }
}

impl Oddity {
    pub(crate) fn new(share: f64, seed: u64, stream: u64) -> Self {
        Self {
            chance: Chance::new(share),
            random: Random::stream(seed, stream),
        }
    }

    pub(crate) fn happens(&mut self) -> bool {
        self.chance.draw(&mut self.random)
    }
}

impl SecondFragment {
    pub(crate) fn new(longest: usize) -> Self {
        Self {
            bytes: vec![0; longest],
            packet: None,
        }
    }

    pub(crate) fn take(&mut self, buffer: &mut [u8]) -> Option<Packet> {
        let packet = self.packet.take()?;
        let bytes = self.bytes.get(..packet.len)?;
        buffer.get_mut(..packet.len)?.copy_from_slice(bytes);
        Some(packet)
    }
}
