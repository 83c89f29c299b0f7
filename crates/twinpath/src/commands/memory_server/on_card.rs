//! A memory server whose requests an RDMA card executes.

use super::{Arguments, Figures};
use crate::error::MemoryServerError;
use twinpath_control::report::units;
use twinpath_core::Instant;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_ports::Port;
use twinpath_remote::server::MemoryServer;
use twinpath_verbs::{Card, Config, Device};

/// A server whose memory the card has registered.
pub fn open(
    arguments: &Arguments,
    device: Device,
    port: &Port,
    seed: u64,
) -> Result<MemoryServer<Card>, MemoryServerError> {
    let bytes = arguments.memory.0;
    let (card, memory) = Card::open(Config {
        device,
        interface: port.interface().index,
        mac: MacAddress(port.interface().mac),
        address: arguments.address.map(Address::from),
        memory_bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        mtu: arguments.mtu,
        queue_pairs: arguments.queue_pairs,
        server: arguments.server,
        incarnation: (seed >> 32) as u32,
    })?;
    let mtu = memory.mtu;
    match bytes < u64::from(mtu) {
        true => Err(MemoryServerError::TooLittle { bytes, mtu }),
        false => Ok(MemoryServer::with_endpoint(card, memory, Instant::ZERO)),
    }
}

impl Figures for Card {
    fn figures(&self) -> String {
        let connected = self.connected() as u64;
        format!("{} queue pairs connected", units::count(connected))
    }

    /// What the card counts, under its own names.
    fn counted(&self) -> Vec<(String, u64)> {
        self.counters().into_iter().collect()
    }
}
