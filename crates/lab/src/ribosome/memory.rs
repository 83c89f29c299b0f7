//! A memory server: the link to it, its card with queue pairs, and what executes requests.

use super::parameters::Setting;
use crate::testbed::RdmaPreset;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Frame, Instant, Pools};
use twinpath_engine::devices::{Port, QueueFull, Server, Through};
use twinpath_engine::{Rate, Time};
use twinpath_remote::server::Config;
use twinpath_remote::{MemoryServer, requester, responder};

/// The most payload of a packet (Ribosome's published program: path MTU 4096).
const MTU: u16 = 4096;
/// Memory of each queue pair.
const QUEUE_PAIR_BYTES: usize = 1 << 18;
/// Payloads of a queue pair that an account is kept of.
const RECORDS: usize = 1 << 10;

/// Where a request's fields are: behind Ethernet, IPv4 and UDP.
const BTH: usize = 14 + 20 + 8;
const RETH: usize = BTH + 12;
const READ_REQUEST: u8 = 0x0c;

/// A server's addresses; number 255 is the switch.
fn addresses(number: u8) -> (MacAddress, Address) {
    let mac = MacAddress([2, 0, 0, 0, 1, number]);
    (mac, Address::from_v4([10, 255, 0, number]))
}

/// The switch's end of the connection to a server.
pub(super) fn requester_config(server: usize, rdma: &RdmaPreset, seed: u64) -> requester::Config {
    let (mac, ip) = addresses(255);
    requester::Config {
        queue_pairs: rdma.queue_pairs.count() as u16,
        mtu: MTU,
        records: RECORDS,
        ..requester::Config::new(server as u16, mac, ip, seed)
    }
}

/// What a request is to a card.
struct Request {
    queue_pair: usize,
    /// What it writes.
    written: u64,
    is_read: bool,
}

impl Request {
    fn of(frame: &[u8]) -> Self {
        let is_read = frame.get(BTH) == Some(&READ_REQUEST);
        let number = frame.get(BTH + 5..BTH + 8).unwrap_or(&[0; 3]);
        let index = u16::from_be_bytes([number[1], number[2]]) & (responder::MAX_QUEUE_PAIRS - 1);
        let length = frame.get(RETH + 12..RETH + 16);
        let bytes = length.and_then(|bytes| bytes.first_chunk().copied());
        Self {
            queue_pair: index.into(),
            written: match is_read {
                true => 0,
                false => bytes.map_or(0, u32::from_be_bytes).into(),
            },
            is_read,
        }
    }
}

/// A server with its link.
pub(super) struct Machine {
    server: MemoryServer,
    there: Port,
    back: Port,
    inbound: Server,
    outbound: Server,
    queue_pairs: Vec<Server>,
    payload: Rate,
    request: Time,
    buffer_bytes: u64,
    queue_pair: Time,
    read: Time,
    out: Vec<Frame>,
}

impl Machine {
    pub(super) fn new(number: usize, setting: &Setting) -> Self {
        let (rdma, switch) = (&setting.rdma, &setting.testbed.switch);
        let (mac, ip) = addresses(number as u8);
        let queue_pairs = rdma.queue_pairs.count();
        let config = Config {
            server: number as u16,
            memory_bytes: queue_pairs * QUEUE_PAIR_BYTES,
            responder: responder::Config {
                mac,
                ip,
                mtu: MTU,
                queue_pairs: queue_pairs as u16,
                reads: rdma.reads.count() as u8,
                message_bytes: MTU.into(),
            },
            seed: setting.parameters.traffic.seed + number as u64,
        };
        let port = || {
            let limit = (switch.port_queue_kb.value() * 1e3) as u64;
            Port::new(Rate::from_gbps(rdma.port_gbps.value()), limit)
                .with_wire_bytes(switch.wire_bytes.count() as u32)
        };
        Self {
            server: MemoryServer::new(config, Instant::ZERO),
            there: port(),
            back: port(),
            inbound: Server::default(),
            outbound: Server::default(),
            queue_pairs: vec![Server::default(); queue_pairs],
            payload: Rate::from_gbps(rdma.payload_gbps.value()),
            request: Time::from_ns_f64(1e3 / rdma.capacity_mops.value()),
            buffer_bytes: (rdma.buffer_kb.value() * 1e3) as u64,
            queue_pair: Time::from_ns_f64(rdma.queue_pair_ns.value()),
            read: Time::from_ns_f64(rdma.read_ns.value()),
            out: Vec::new(),
        }
    }

    /// When a frame that the switch sends now has arrived.
    pub(super) fn cross(&mut self, now: Time, bytes: u32) -> Through {
        self.there.send(now, bytes)
    }

    /// When a request that has arrived is executed.
    ///
    /// # Errors
    /// The card has no room for it.
    pub(super) fn take(&mut self, now: Time, frame: &[u8]) -> Through {
        if self.payload.bytes_in(self.inbound.wait(now)) > self.buffer_bytes {
            return Err(QueueFull);
        }
        let Request {
            queue_pair,
            written,
            is_read,
        } = Request::of(frame);
        let moving = self.payload.time_of(written).max(self.request);
        let taken = self.inbound.serve(now, moving);
        let busy = if is_read { self.queue_pair } else { Time::ZERO };
        let last = self.queue_pairs.len() - 1;
        Ok(self.queue_pairs[queue_pair.min(last)].serve(taken, busy))
    }

    /// Executes a request. Answers come with the time at which they are at the switch; those that find no
    /// room on the way are lost, and counted.
    pub(super) fn execute(
        &mut self,
        now: Time,
        frame: &[u8],
        pools: &mut Pools,
        answers: &mut Vec<(Time, Frame)>,
    ) -> u64 {
        const MOST: usize = 64;
        let instant = Instant(now.ns());
        self.server.receive(frame, instant);
        let mut out = std::mem::take(&mut self.out);
        self.server.transmit(instant, pools, &mut out, MOST);
        let mut lost = 0;
        for frame in out.drain(..) {
            match self.goes(now, frame.len() as u32) {
                Ok(at) => answers.push((at, frame)),
                Err(_) => {
                    lost += 1;
                    pools.give(frame);
                }
            }
        }
        self.out = out;
        lost
    }

    fn goes(&mut self, now: Time, bytes: u32) -> Through {
        let moved = self.outbound.serve(now, self.payload.time_of(bytes.into()));
        self.back.send(moved + self.read, bytes)
    }

    /// Frames about registration, which take no time here.
    pub(super) fn register(&mut self, frame: Option<&[u8]>, pools: &mut Pools) -> Vec<Frame> {
        if let Some(frame) = frame {
            self.server.receive(frame, Instant::ZERO);
            return Vec::new();
        }
        let mut out = Vec::new();
        self.server.transmit(Instant::ZERO, pools, &mut out, 0);
        out
    }
}
