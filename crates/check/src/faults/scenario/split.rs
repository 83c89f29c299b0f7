//! Payloads that wait in remote memory while their headers are on the slow path.

use crate::faults::draw::Draw;
use std::time::Duration;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_node::wiring::{ServerConfig, SplitConfig};
use twinpath_remote::simulated::Faults;
use twinpath_remote::{fast, requester, responder, server};

/// The splitter, and where payloads wait.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitSettings {
    /// What is split, and in what order packets leave.
    pub stage: fast::Config,
    /// Payloads that wait in the process, if there are no servers.
    pub store_payloads: usize,
    /// Memory servers.
    pub servers: u16,
    /// Payloads that the ring of a queue pair holds.
    pub ring_payloads: usize,
    /// Requests of a queue pair that may be under way.
    pub requests: usize,
    /// What goes wrong at servers and on the links to them.
    pub faults: Faults,
}

/// Queue pairs of each server.
const QUEUE_PAIRS: u16 = 2;

impl SplitSettings {
    /// Any memory: of the process, or of servers that fail.
    pub(super) fn drawn(draw: &mut Draw, delay_ns: u64) -> Self {
        let round_trip = Duration::from_nanos(2 * delay_ns);
        let is_short = draw.one_in(3);
        let servers = draw.pick(&[0, 1, 2]);
        Self {
            stage: fast::Config {
                threshold_bytes: draw.pick(&[1, 60, 100]),
                least_payload_bytes: draw.pick(&[1, 10, 20]),
                header_slots: match is_short {
                    true => draw.between(1, 4) as usize,
                    false => 256,
                },
                header_timeout: round_trip * draw.pick(&[0, 1, 8, 1000]),
                followers: if draw.one_in(3) { 1 } else { 256 },
                ..fast::Config::default()
            },
            store_payloads: draw.pick(&[1, 4, 256]),
            servers,
            ring_payloads: draw.pick(&[1, 4, 256]),
            requests: draw.pick(&[4, 64]),
            faults: match draw.one_in(4) {
                true => Faults::NONE,
                false => Faults {
                    has_few_buffers: false,
                    ..Faults::drawn(draw.below(1 << 20))
                },
            },
        }
    }

    /// What the node is built from.
    pub(crate) fn config(&self, seed: u64) -> SplitConfig {
        let server = |number: u16| ServerConfig {
            name: format!("memory-{number}"),
            port: number,
            requester: requester::Config {
                queue_pairs: QUEUE_PAIRS,
                records: self.ring_payloads,
                window: self.requests,
                ..requester::Config::new(number, mac(0), ip(1), seed ^ u64::from(number))
            },
        };
        SplitConfig {
            stage: self.stage.clone(),
            is_active: true,
            servers: (0..self.servers).map(server).collect(),
            store_payloads: self.store_payloads,
        }
    }

    /// The other end of each server.
    pub(crate) fn server(number: u16) -> server::Config {
        server::Config {
            server: number,
            memory_bytes: 1 << 16,
            responder: responder::Config {
                mac: mac(number as u8 + 1),
                ip: ip(2 + number as u8),
                mtu: 4096,
                queue_pairs: QUEUE_PAIRS,
                reads: 4,
                message_bytes: 1 << 14,
            },
            seed: 0,
        }
    }
}

fn mac(last: u8) -> MacAddress {
    MacAddress([2, 9, 9, 9, 9, last])
}

fn ip(last: u8) -> Address {
    Address::from_v4([10, 9, 0, last])
}
