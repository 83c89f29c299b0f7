//! Overload with real threads that share one core, and two: goodput does not collapse however much
//! more is offered than the slow path carries, and packets that find all they need on the fast path
//! lose nothing once they have been taken in.
//!
//! There is no absolute time in what is asserted: loads take turns every few milliseconds within one
//! run, so that whatever else the machine does meets all of them alike, and their packets are counted
//! against each other. The margin is that of a machine which others use too.

mod common;

use common::service;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use twinpath_control::live::Live;
use twinpath_control::report::PortLosses;
use twinpath_control::service::Paths;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_core::{DropReason, Frame, Instant, Pools};
use twinpath_io::CaptureError;
use twinpath_node::arrivals::{Filled, Tempo};
use twinpath_node::command::no_commands;
use twinpath_node::machine::Machine;
use twinpath_node::observe::{Observer, Tallies};
use twinpath_node::threads::{PacketIo, run_on};
use twinpath_node::{Departure, Limits, Via, build};

const GATEWAY: &str = r#"
[service]
chain = ["acl", "firewall", "napt", "router"]
inside = ["10.0.0.0/8"]
[fast_path]
hot_packets = 3
[slow_path]
flows = 65536
[link]
ring_frames = 1024
[rule_cache]
window = "5ms"
threshold = 2
idle_windows = 255
[acl]
default = "allow"
rules = [{ action = "deny", protocol = "tcp", to_port = 25 }]
[firewall]
default = "allow"
[napt]
inside = ["10.0.0.0/8"]
external = ["198.51.100.1", "198.51.100.2"]
[router]
next_hops = [{ name = "up", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 0 }]
routes = [{ to = "0.0.0.0/0", via = "up" }]
"#;

/// Flows whose every packet is a hit once they are known.
const KNOWN: u16 = 32;
/// Flows that come by so seldom that no packet of theirs is one.
const SELDOM: u32 = 40_000;
const KNOWN_PORT: u16 = 53;
const SELDOM_PORT: u16 = 443;

/// Frames for which the entrance has room, as a network card's ring.
const ENTRANCE: usize = 1024;
/// Frames that are taken in a turn.
const BURST: usize = 64;
/// Newcomers that are inside at once while it is found out how many the slow path carries.
const TRIED_AT_ONCE: u64 = 1024;

const WARM_NS: u64 = 150_000_000;
const TRIED_NS: u64 = 150_000_000;
const TURN_NS: u64 = 40_000_000;
const ROUNDS: usize = 6;
/// In multiples of what the slow path carries.
const LOADS: [u64; 5] = [1, 2, 4, 7, 10];

/// What is offered at a time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Packets of known flows become hits.
    Warm,
    /// As many newcomers as the slow path carries.
    Tried,
    /// A load, by its place.
    Load(usize),
    Over,
}

impl Phase {
    fn at(wall_ns: u64) -> Self {
        match wall_ns {
            0..WARM_NS => Self::Warm,
            _ if wall_ns < WARM_NS + TRIED_NS => Self::Tried,
            _ => {
                let turn = (wall_ns - WARM_NS - TRIED_NS) / TURN_NS;
                match (turn as usize) < ROUNDS * LOADS.len() {
                    true => Self::Load(turn as usize % LOADS.len()),
                    false => Self::Over,
                }
            }
        }
    }
}

/// Packets of one kind.
#[derive(Copy, Clone, Debug, Default)]
struct Count {
    offered: u64,
    taken: u64,
    left: u64,
}

/// Newcomers of one load.
#[derive(Copy, Clone, Debug, Default)]
struct Carried {
    offered: u64,
    left: u64,
}

/// Traffic that comes at its time, whoever is ready for it.
struct Load {
    wall_ns: u64,
    known: Count,
    seldom: Count,
    known_fast: u64,
    loads: [Carried; LOADS.len()],
    /// Newcomers that the slow path carried while that was tried.
    tried: u64,
    entrance: VecDeque<bool>,
    /// Packets that are due, in parts.
    due: [f64; 2],
    next: [u32; 2],
}

impl Load {
    fn new() -> Self {
        Self {
            wall_ns: 0,
            known: Count::default(),
            seldom: Count::default(),
            known_fast: 0,
            loads: [Carried::default(); LOADS.len()],
            tried: 0,
            entrance: VecDeque::with_capacity(ENTRANCE),
            due: [0.0; 2],
            next: [0; 2],
        }
    }

    /// Packets a second that the slow path carries.
    fn capacity(&self) -> f64 {
        self.tried as f64 * 1e9 / TRIED_NS as f64
    }

    /// What has come since the last turn is at the entrance, or missed.
    fn arrive(&mut self, wall_ns: u64) {
        let passed = wall_ns.saturating_sub(self.wall_ns) as f64 / 1e9;
        self.wall_ns = wall_ns;
        let rates = match Phase::at(wall_ns) {
            Phase::Warm => [20_000.0, 0.0],
            Phase::Tried => {
                let inside = self.seldom.taken - self.seldom.left;
                let more = TRIED_AT_ONCE.saturating_sub(inside + self.entrance.len() as u64);
                self.due[1] = more as f64;
                [20_000.0, 0.0]
            }
            Phase::Load(load) => [20_000.0, self.capacity() * LOADS[load] as f64],
            Phase::Over => return,
        };
        for (due, rate) in self.due.iter_mut().zip(rates) {
            *due += rate * passed;
        }
        // The two are mixed as they would be on a wire.
        let mut left = self.due.map(|due| due as u64);
        self.due = self.due.map(f64::fract);
        while left != [0, 0] {
            for (kind, more) in [true, false].into_iter().zip(mixed(&mut left)) {
                (0..more).for_each(|_| self.offer(kind));
            }
        }
    }

    fn offer(&mut self, is_known: bool) {
        if let (false, Phase::Load(load)) = (is_known, Phase::at(self.wall_ns)) {
            self.loads[load].offered += 1;
        }
        self.of(is_known).offered += 1;
        if self.entrance.len() < ENTRANCE {
            self.entrance.push_back(is_known);
        }
    }

    fn of(&mut self, is_known: bool) -> &mut Count {
        match is_known {
            true => &mut self.known,
            false => &mut self.seldom,
        }
    }

    fn packet(&mut self, is_known: bool) -> Vec<u8> {
        let next = &mut self.next[usize::from(is_known)];
        *next = next.wrapping_add(1);
        let (from, port) = match is_known {
            true => {
                let number = 1000 + (*next % u32::from(KNOWN)) as u16;
                (Endpoint::v4([10, 0, 0, 1], number), KNOWN_PORT)
            }
            false => {
                let number = *next % SELDOM;
                let [_, _, high, low] = number.to_be_bytes();
                (Endpoint::v4([10, 1, high, low], 2000), SELDOM_PORT)
            }
        };
        let packet = PacketBuilder::udp(from, Endpoint::v4([192, 0, 2, 1], port));
        packet.payload_len(64).to_vec().expect("short")
    }
}

/// The next few of both kinds: one of the rarer, and as many of the others as there are for each.
fn mixed(left: &mut [u64; 2]) -> [u64; 2] {
    let rarer = left.iter().copied().filter(|&left| left > 0).min();
    let rarer = rarer.unwrap_or(1);
    let next = left.map(|left| left.div_ceil(rarer));
    *left = [left[0] - next[0], left[1] - next[1]];
    next
}

impl PacketIo for Load {
    fn first(&mut self) -> Result<Option<Instant>, CaptureError> {
        Ok(Some(Instant(1_000_000_000)))
    }

    fn is_over(&self) -> bool {
        false
    }

    fn fill(
        &mut self,
        machine: &mut Machine,
        now: Instant,
        received_ns: u64,
        burst: &mut Vec<Frame>,
    ) -> Result<Filled, CaptureError> {
        self.arrive(received_ns);
        let most = machine.room().min(BURST);
        while burst.len() < most
            && let Some(is_known) = self.entrance.pop_front()
        {
            let packet = self.packet(is_known);
            let Some(mut frame) = machine.pools().take_filled(&packet) else {
                break;
            };
            frame.set_timestamp(now);
            frame.set_received_ns(received_ns);
            self.of(is_known).taken += 1;
            burst.push(frame);
        }
        Ok(match Phase::at(received_ns) {
            Phase::Over => Filled::End,
            _ => Filled::Some,
        })
    }

    fn leaves(&mut self, departure: Departure, pools: &mut Pools) -> Result<(), CaptureError> {
        let bytes = departure.frame.bytes();
        let layout = dissect(bytes).expect("what went in is sound");
        let is_known = fields::destination(bytes, &layout).port == KNOWN_PORT;
        self.of(is_known).left += 1;
        match (is_known, Phase::at(self.wall_ns)) {
            (true, _) => self.known_fast += u64::from(departure.via == Via::Fast),
            (false, Phase::Tried) => self.tried += 1,
            (false, Phase::Load(load)) => self.loads[load].left += 1,
            _ => {}
        }
        pools.give(departure.frame);
        Ok(())
    }

    fn advance(&mut self, _: Instant, _: &mut Pools) -> Result<(), CaptureError> {
        Ok(())
    }

    fn rest(&mut self, longest: Duration) {
        std::thread::sleep(longest.min(Duration::from_micros(50)));
    }

    fn losses(&self) -> PortLosses {
        PortLosses::default()
    }
}

/// This thread, and those that it starts, run on so many cores. `false` if there are not so many.
fn bind_to(cores: usize) -> bool {
    let all = sched_getaffinity(None).expect("it can always be asked for");
    let mut some = CpuSet::new();
    let there = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core));
    there.take(cores).for_each(|core| some.set(core));
    sched_setaffinity(None, &some).expect("fewer cores are always permitted");
    some.count() as usize == cores
}

/// What the slow path carries of the highest load, of the best: on a machine of its own it is nine
/// tenths.
const LEAST_GOODPUT: f64 = 0.7;

fn does_not_collapse(cores: usize) {
    if !bind_to(cores) {
        return eprintln!("skipped: there are no {cores} cores");
    }
    let service = service(GATEWAY);
    let mut node = build(&service, Paths::Both).expect("sound");
    node.machine.set_limits(Limits {
        ring_frames: service.link.ring_frames,
        is_lossless: false,
        is_replay: false,
    });
    let tempo = Tempo {
        is_lossless: false,
        is_paced: true,
        most_ahead: None,
    };
    let (mut load, mut observer) = (Load::new(), Observer::new(Live::hidden()));
    run_on(
        &mut node,
        &mut load,
        &mut observer,
        tempo,
        &no_commands(),
        &AtomicBool::new(false),
    )
    .expect("memory never fails");
    println!(
        "{cores} cores: the slow path carries {:.0} a second",
        load.capacity()
    );
    for (times, count) in LOADS.iter().zip(&load.loads) {
        println!("{times:>2} times: {count:?}");
    }
    println!(
        "known: {:?}, {} on the fast path",
        load.known, load.known_fast
    );
    let mut drops = node.machine.path().drops().clone();
    drops.absorb(&Tallies::of(&node.workers).drops);
    let drops: Vec<_> = drops.nonzero().collect();
    println!("drops: {drops:?}");
    assert!(load.tried > 1000, "nothing to compare with");
    assert!(
        load.known_fast * 10 > load.known.left * 9,
        "hits are to be tried"
    );
    // A hit meets no ring: what is lost in front of a full one was none.
    let taken = load.known.taken + load.seldom.taken;
    let lost = taken - load.known.left - load.seldom.left;
    assert_eq!(drops, [(DropReason::PuntRingFull, lost)]);
    let known_lost = load.known.taken - load.known.left;
    assert!(
        known_lost * 100 <= load.known.taken,
        "{known_lost} packets of known flows were none"
    );
    let best = load.loads.iter().map(|count| count.left).max().unwrap_or(0);
    let least = best as f64 * LEAST_GOODPUT;
    let highest = load.loads[LOADS.len() - 1].left as f64;
    assert!(highest >= least, "{highest} of {best} at the best load");
}

#[test]
fn on_one_core() {
    does_not_collapse(1);
}

#[test]
fn on_two_cores() {
    does_not_collapse(2);
}
