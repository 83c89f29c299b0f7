//! A configuration ready to take effect.

use super::super::backends::Backends;
use super::super::config::{Config, Protocol};
use super::super::connection::{Connection, Kind};
use super::course::Addresses;
use std::time::Duration;

/// A configuration with its lookup tables filled, which takes milliseconds for each service.
pub struct Prepared {
    pub(super) backends: Backends,
    pub(super) addresses: Addresses,
    pub(super) timeouts: IdleTimes,
    pub(super) pick_up: bool,
    pub(super) most: usize,
}

impl Prepared {
    /// Fills the tables.
    pub fn new(config: &Config) -> Self {
        let backends = Backends::new(config);
        Self {
            addresses: Addresses::new(&backends),
            backends,
            timeouts: IdleTimes::new(config),
            pick_up: config.pick_up,
            most: config.connections.0,
        }
    }
}

/// How long connections are remembered after their last packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct IdleTimes {
    tcp: Duration,
    closing: Duration,
    udp: Duration,
}

impl IdleTimes {
    fn new(config: &Config) -> Self {
        Self {
            tcp: config.tcp_timeout.duration(),
            closing: config.closing_timeout.duration(),
            udp: config.udp_timeout.duration(),
        }
    }

    /// Of a connection as it stands.
    pub fn of(&self, state: &Connection) -> Duration {
        match state.closed {
            true => self.closing,
            false => self.of_open(state.kind),
        }
    }

    /// How long a rule may be idle: no longer than any state that its connection may come to
    /// allows.
    pub fn of_rules(&self, kind: Kind) -> Duration {
        self.of_open(kind).min(self.closing_of(kind))
    }

    fn of_open(&self, kind: Kind) -> Duration {
        match kind {
            Kind::Service(Protocol::Tcp, _) => self.tcp,
            Kind::Service(Protocol::Udp, _) | Kind::Passing => self.udp,
        }
    }

    fn closing_of(&self, kind: Kind) -> Duration {
        match kind {
            Kind::Service(Protocol::Tcp, _) => self.closing,
            _ => self.udp,
        }
    }
}
