//! Memory servers at the other end of links on which anything may happen, under virtual time.

use super::{Leaving, Outcome, lossless, packets_of, reported, undrawn_flows};
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_control::live::Live;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Frame, Instant, Pools};
use twinpath_io::Trace;
use twinpath_node::causality::{Causality, Scope};
use twinpath_node::observe::Observer;
use twinpath_node::source::Source;
use twinpath_node::virtual_time::{Peers, VirtualRun};
use twinpath_node::{Limits, NodeConfig, wiring};
use twinpath_remote::responder;
use twinpath_remote::server::Config as ServerConfig;
use twinpath_remote::simulated::{Faults, Rack, Tally};

/// What happens to a server of the rack by somebody's will.
#[derive(Copy, Clone, Debug)]
pub enum Act {
    Kill(usize),
    Revive(usize),
    /// The key that the server has announced fits nothing any more.
    Withdraw(usize),
}

/// The rack, and what is done to it at which time.
struct Servers {
    rack: Rack,
    acts: VecDeque<(Instant, Act)>,
    /// How often somebody has listened to them.
    heard: u64,
}

/// A run that listens to its servers more often does not come to its end.
const MOST_HEARD: u64 = 2_000_000;

impl Peers for Servers {
    fn send(&mut self, port: u16, frame: &[u8], now: Instant) {
        self.rack.send(port, frame, now);
    }

    fn next(&self) -> Instant {
        let act = self.acts.front().map_or(Instant::NEVER, |(at, _)| *at);
        act.min(self.rack.next())
    }

    fn take(&mut self, now: Instant, pools: &mut Pools, frames: &mut Vec<Frame>) {
        self.heard += 1;
        assert!(self.heard < MOST_HEARD, "the run stands still at {now:?}");
        while let Some(&(at, act)) = self.acts.front()
            && at <= now
        {
            self.acts.pop_front();
            match act {
                Act::Kill(number) => self.rack.kill(number),
                Act::Revive(number) => self.rack.revive(number, now),
                Act::Withdraw(number) => self.rack.withdraw_memory(number),
            }
        }
        self.rack.pass(now, |port, bytes| {
            if let Some(mut frame) = pools.take_filled(bytes) {
                frame.set_port(port);
                frames.push(frame);
            }
        });
    }
}

/// A service whose packets come from memory, and which has memory servers nevertheless: `[split]` as it
/// is in a file with network interfaces.
pub fn service_with_servers(text: &str, split: &str) -> Service {
    const LIVE: &str = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n\
        [ports]\nleft = { device = \"left\" }\nright = { device = \"right\" }\n";
    Service {
        split: super::service(&format!("{LIVE}{split}")).split,
        ..super::service(text)
    }
}

/// What is said of two servers in a service file, each at an interface of its own.
pub fn servers(is_v4: bool) -> String {
    let server = |number: u8| {
        let own = match is_v4 {
            true => format!("10.9.{number}.1/24"),
            false => format!("fd09::{number}:1/112"),
        };
        format!(
            "[[split.servers]]\nname = \"memory-{number}\"\nnumber = {number}\ndevice = \"eth{number}\"\nown_address = \"{own}\"\n"
        )
    };
    server(1) + &server(2)
}

/// The other end of such a server.
fn config(number: u8, is_v4: bool, memory_bytes: usize) -> ServerConfig {
    ServerConfig {
        server: number.into(),
        memory_bytes,
        responder: responder::Config {
            mac: MacAddress([2, 9, 9, 9, 9, number]),
            ip: match is_v4 {
                true => Address::from_v4([10, 9, number, 2]),
                false => Address(0xfd09 << 112 | u128::from(number) << 16 | 2),
            },
            mtu: 4096,
            queue_pairs: 4,
            reads: 16,
            message_bytes: 1 << 16,
        },
        seed: 0,
    }
}

/// How a run with memory servers is.
#[derive(Clone, Debug)]
pub struct Remote {
    pub seed: u64,
    pub faults: Faults,
    pub is_v4: bool,
    /// Of each server.
    pub memory_bytes: usize,
    /// When what is done to servers, from the run's first packet.
    pub acts: Vec<(Duration, Act)>,
    /// Whether nothing may be lost for want of room.
    pub is_lossless: bool,
    /// Whether packets wait for what caused them.
    pub is_causal: bool,
}

impl Remote {
    pub const SOUND: Self = Self {
        seed: 1,
        faults: Faults::NONE,
        is_v4: true,
        memory_bytes: 1 << 20,
        acts: Vec::new(),
        is_lossless: true,
        is_causal: true,
    };
}

/// Runs a service without servers where what finds no room on the link is dropped.
pub fn run_lossy(service: &Service, trace: &Trace, paths: Paths) -> (Outcome, Tally) {
    let remote = Remote {
        is_lossless: false,
        ..Remote::SOUND
    };
    run_with_servers(service, trace, paths, &remote)
}

/// Runs a service, whose two servers are [those](servers), under virtual time.
pub fn run_with_servers(
    service: &Service,
    trace: &Trace,
    paths: Paths,
    remote: &Remote,
) -> (Outcome, Tally) {
    let service = lossless(service, paths, Execution::Virtual);
    let mut node = NodeConfig::of(&service, paths)
        .and_then(|config| config.build())
        .unwrap_or_else(|error| panic!("{error}"));
    node.machine.set_limits(Limits {
        ring_frames: service.link.ring_frames,
        is_lossless: remote.is_lossless,
        is_replay: false,
    });
    node.machine.set_server_links(
        &[1, 2].map(|last| MacAddress([2, 0, 0, 0, 0, last])),
        &[4200; 2],
    );
    let began = trace.iter().next().map_or(0, |packet| packet.timestamp_ns);
    let began = Instant(began);
    let mut rack = Rack::new(remote.seed, remote.faults);
    for (port, number) in [(0, 1), (1, 2)] {
        rack.add(
            port,
            config(number, remote.is_v4, remote.memory_bytes),
            began,
        );
    }
    let acts = remote
        .acts
        .iter()
        .map(|(after, act)| (began + *after, *act));
    let mut servers = Servers {
        rack,
        acts: acts.collect(),
        heard: 0,
    };
    let (mut sink, mut observer) = (Leaving::default(), Observer::new(Live::hidden()));
    let round_trip = service.link.round_trip.duration();
    let causality = match remote.is_causal {
        true => wiring::causality(&service).expect("a sound service"),
        false => Causality::new(Scope::Nothing),
    };
    VirtualRun::new(&mut node, &mut sink, &mut observer, round_trip)
        .with_peers(&mut servers)
        .run(&mut Source::trace(super::copy(trace)), causality)
        .expect("memory never fails");
    let outcome = Outcome {
        flows: undrawn_flows(&service, packets_of(&sink)),
        packets: sink.packets,
        ports: sink.ports,
        report: reported(observer, &node),
    };
    (outcome, servers.rack.tally())
}
