//! Overload with real threads that share one core, and two: goodput does not collapse however much
//! more is offered than the slow path carries, and packets that find all they need on the fast path
//! lose nothing.
//!
//! There is no absolute time in what is asserted. Time here is the processor time that this process
//! has had: it stands still while others have the processor, so what is offered and what is carried
//! are those of a machine of its own. Loads take turns within one run, and of each load the median
//! of its turns counts.

use crate::common::burners::bind_to;
use crate::common::service;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as WallClock};
use twinpath_control::live::Live;
use twinpath_control::service::Paths;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_core::{DropReason, Instant};
use twinpath_io::CaptureError;
use twinpath_node::arrivals::Pacing;
use twinpath_node::causality::{Causality, Scope};
use twinpath_node::command::no_commands;
use twinpath_node::observe::{Observer, Tallies};
use twinpath_node::sink::Sink;
use twinpath_node::source::{Feed, FeedItem, Source};
use twinpath_node::{Departure, Limits, Node, Via, build, threads};

const GATEWAY: &str = r#"
[service]
chain = ["acl", "firewall", "napt", "router"]
inside = ["10.0.0.0/8"]
[fast_path]
hot_packets = 3
time_to_live = "1h"
[slow_path]
flows = 65536
[link]
ring_frames = RING
[rule_cache]
window = "20ms"
threshold = 1
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

/// Newcomers for which the entrance has room, as a network card's ring, and packets of known flows. These
/// have room of their own, as where a card has a ring for what must not wait behind others: what a ring
/// that all share loses is lost in front of both paths, and says nothing of either.
const ENTRANCE: usize = 1024;
/// What comes of known flows in most of a second: who is behind by that is behind for good.
const ENTRANCE_OF_KNOWN: usize = 16 * ENTRANCE;
/// Frames of the ring to the slow path. Fewer newcomers are inside at once while it is found out how many
/// it carries.
const USUAL_RING: u64 = 1024;
const SMALL_RING: u64 = 128;

/// Packets that each known flow sends together until all are hits, and the pause behind them: the
/// next one would cancel what makes it a hit.
const IN_A_ROW: u32 = 3;
const PAUSE_NS: u64 = 1_000_000;
/// So many times.
const MOST_ROWS: u32 = 5000;

/// All newcomers come by once, and then it is counted how many are carried.
const MET_NS: u64 = 350_000_000;
const TRIED_NS: u64 = 150_000_000;
/// How often it is looked at which newcomers were lost meanwhile: when none has left for so long.
const DRAIN_NS: u64 = 20_000_000;
const DRAINED: Duration = Duration::from_millis(5);
const TURN_NS: u64 = 40_000_000;
/// Of a turn, while what the one before has left in the rings comes out.
const SETTLING_NS: u64 = 15_000_000;
const ROUNDS: usize = 15;
/// In multiples of what the slow path carries.
const LOADS: [u64; 5] = [1, 2, 4, 7, 10];

/// What is offered at a time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// As many newcomers as the slow path carries; then they are counted.
    Tried {
        is_counted: bool,
    },
    /// A load, by its place.
    Load {
        load: usize,
        round: usize,
        is_settled: bool,
    },
    Over,
}

impl Phase {
    fn at(now_ns: u64) -> Self {
        match now_ns.checked_sub(MET_NS + TRIED_NS) {
            None => Self::Tried {
                is_counted: now_ns >= MET_NS,
            },
            Some(ns) => Self::in_turns(ns),
        }
    }

    /// Every other round goes through the loads backwards: none is always behind the same one.
    fn in_turns(ns: u64) -> Self {
        let turn = (ns / TURN_NS) as usize;
        let (round, place) = (turn / LOADS.len(), turn % LOADS.len());
        if round >= ROUNDS {
            return Self::Over;
        }
        Self::Load {
            load: match round % 2 {
                0 => place,
                _ => LOADS.len() - 1 - place,
            },
            round,
            is_settled: ns % TURN_NS >= SETTLING_NS,
        }
    }
}

/// How much processor time all threads of this process have had.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Packets of one kind.
#[derive(Copy, Clone, Debug, Default)]
struct Count {
    offered: u64,
    taken: u64,
    left: u64,
    last_left: Option<WallClock>,
}

impl Count {
    /// Whether none has left for so long that the rest must be lost.
    fn is_drained(&self) -> bool {
        self.last_left.is_none_or(|at| at.elapsed() > DRAINED)
    }
}

/// Known flows become known.
#[derive(Copy, Clone, Debug, Default)]
struct Warming {
    rows: u32,
    next_ns: u64,
    /// Packets that were hits before the last row.
    fast: u64,
}

/// Newcomers of one load, in each of its turns.
#[derive(Copy, Clone, Debug, Default)]
struct Carried {
    offered: [u64; ROUNDS],
    left: [u64; ROUNDS],
}

impl Carried {
    /// Of what was offered in a turn, and of what left.
    fn medians(&self) -> [u64; 2] {
        [self.offered, self.left].map(|mut turns| {
            turns.sort_unstable();
            turns[ROUNDS / 2]
        })
    }
}

/// Traffic that comes at its time, whoever is ready for it.
struct Load {
    /// When all known flows were known.
    began_ns: u64,
    /// Frames of the ring.
    ring: u64,
    now_ns: u64,
    /// The same by a clock on the wall.
    began: WallClock,
    wall_ns: u64,
    warming: Option<Warming>,
    known: Count,
    seldom: Count,
    known_fast: u64,
    loads: [Carried; LOADS.len()],
    /// Newcomers that the slow path carried while that was tried.
    tried: u64,
    /// Packets of known flows that were lost before all were hits.
    lost_before: u64,
    /// Newcomers that were lost until all had left last, and when that is to be looked at again.
    lost: u64,
    next_drain_ns: u64,
    entrance: VecDeque<bool>,
    /// Newcomers, and packets of known flows, at the entrance.
    waiting: [usize; 2],
    /// Packets that are due, in parts.
    due: [f64; 2],
    next: [u32; 2],
}

impl Load {
    fn new(ring: u64) -> Self {
        Self {
            began_ns: 0,
            ring,
            now_ns: 0,
            began: WallClock::now(),
            wall_ns: 0,
            warming: Some(Warming::default()),
            known: Count::default(),
            seldom: Count::default(),
            known_fast: 0,
            loads: [Carried::default(); LOADS.len()],
            tried: 0,
            lost_before: 0,
            lost: 0,
            next_drain_ns: DRAIN_NS,
            entrance: VecDeque::with_capacity(2 * ENTRANCE),
            waiting: [0; 2],
            due: [0.0; 2],
            next: [0; 2],
        }
    }

    /// Packets a second that the slow path carries.
    fn capacity(&self) -> f64 {
        self.tried as f64 * 1e9 / TRIED_NS as f64
    }

    /// What has come since the last turn is at the entrance, or missed.
    fn arrive(&mut self) {
        match self.warming {
            Some(warming) => self.warm(warming),
            None => self.load(),
        }
    }

    /// When all of a row are through, the next one comes, until all of it were hits.
    fn warm(&mut self, mut warming: Warming) {
        let now_ns = processor_ns();
        // One that is lost comes again with the next row.
        let is_through = self.known.left == self.known.offered || self.known.is_drained();
        if !is_through || now_ns < warming.next_ns {
            return;
        }
        let row = IN_A_ROW * u32::from(KNOWN);
        if self.known_fast - warming.fast == u64::from(row) {
            (self.warming, self.began_ns) = (None, now_ns);
            self.began = WallClock::now();
            self.lost_before = self.known.offered - self.known.left;
            (self.known, self.known_fast) = (Count::default(), 0);
            return;
        }
        assert!(warming.rows < MOST_ROWS, "flows do not become known");
        warming.rows += 1;
        (warming.next_ns, warming.fast) = (now_ns + PAUSE_NS, self.known_fast);
        self.warming = Some(warming);
        (0..row).for_each(|_| self.offer(true));
        self.known.last_left = Some(WallClock::now());
    }

    fn load(&mut self) {
        let now_ns = processor_ns() - self.began_ns;
        let passed = (now_ns - self.now_ns) as f64 / 1e9;
        self.now_ns = now_ns;
        self.wall_ns = self.began.elapsed().as_nanos() as u64;
        let rates = match Phase::at(now_ns) {
            Phase::Tried { .. } => {
                self.due[1] = self.room_to_try() as f64;
                [20_000.0, 0.0]
            }
            Phase::Load { load, .. } => [20_000.0, self.capacity() * LOADS[load] as f64],
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

    /// How many newcomers come in while it is found out how many are carried. Now and then none does until
    /// all have left: which of them were lost is known then.
    fn room_to_try(&mut self) -> u64 {
        let waiting = self.waiting[0] as u64;
        if self.now_ns >= self.next_drain_ns {
            if waiting > 0 || !self.seldom.is_drained() {
                return 0;
            }
            self.lost = self.seldom.taken - self.seldom.left;
            self.next_drain_ns = self.now_ns + DRAIN_NS;
        }
        let gone = self.seldom.left + self.lost;
        let inside = self.seldom.taken.saturating_sub(gone);
        (self.ring * 3 / 4).saturating_sub(inside + waiting)
    }

    fn offer(&mut self, is_known: bool) {
        if let (false, Some((load, round))) = (is_known, self.turn()) {
            self.loads[load].offered[round] += 1;
        }
        self.of(is_known).offered += 1;
        let waiting = &mut self.waiting[usize::from(is_known)];
        let room = if is_known {
            ENTRANCE_OF_KNOWN
        } else {
            ENTRANCE
        };
        if *waiting < room {
            *waiting += 1;
            self.entrance.push_back(is_known);
        }
    }

    /// The load and its round that packets count for now.
    fn turn(&self) -> Option<(usize, usize)> {
        match Phase::at(self.now_ns) {
            Phase::Load {
                load,
                round,
                is_settled: true,
            } => Some((load, round)),
            _ => None,
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

/// Both ends of the node: packets come by a source of production, which takes them when they come.
#[derive(Clone)]
struct Ends {
    load: Arc<Mutex<Load>>,
    began: WallClock,
}

impl Ends {
    fn new(ring: u64) -> Self {
        Self {
            load: Arc::new(Mutex::new(Load::new(ring))),
            began: WallClock::now(),
        }
    }

    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On the packet clock.
    fn now_ns(&self) -> u64 {
        1_000_000_000 + self.began.elapsed().as_nanos() as u64
    }
}

impl Feed for Ends {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        let mut load = self.load();
        load.arrive();
        let Some(is_known) = load.entrance.pop_front() else {
            let is_over = Phase::at(load.now_ns) == Phase::Over;
            return Ok(if is_over {
                FeedItem::End
            } else {
                FeedItem::Nothing
            });
        };
        load.waiting[usize::from(is_known)] -= 1;
        load.of(is_known).taken += 1;
        let packet = load.packet(is_known);
        buffer[..packet.len()].copy_from_slice(&packet);
        Ok(FeedItem::Packet {
            timestamp_ns: self.now_ns(),
            len: packet.len(),
            ingress: 0,
        })
    }

    fn now(&mut self) -> Option<Instant> {
        Some(Instant(self.now_ns()))
    }
}

impl Sink for Ends {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        self.load().leaves(departure);
        Ok(())
    }
}

impl Load {
    fn leaves(&mut self, departure: &Departure) {
        let bytes = departure.frame.bytes();
        let layout = dissect(bytes).expect("what went in is sound");
        let is_known = fields::destination(bytes, &layout).port == KNOWN_PORT;
        let count = self.of(is_known);
        (count.left, count.last_left) = (count.left + 1, Some(WallClock::now()));
        self.known_fast += u64::from(is_known && departure.via == Via::Fast);
        let is_counted = Phase::at(self.now_ns) == Phase::Tried { is_counted: true };
        self.tried += u64::from(!is_known && is_counted);
        if let (false, Some((load, round))) = (is_known, self.turn()) {
            self.loads[load].left[round] += 1;
        }
    }
}

/// What the slow path carries of each load, of the best.
const LEAST_GOODPUT: f64 = 0.9;
/// The same where others had much of the cores: what they take from one of our threads and not from
/// the other makes turns differ more than loads do.
const LEAST_AMONG_OTHERS: f64 = 0.6;
/// Of the cores' time, what the process has had if it was as good as alone.
const ALONE_SHARE: f64 = 0.8;

/// What the slow path carries with a small ring, of what it carries with the usual one.
const LEAST_WITH_SMALL_RING: f64 = 0.5;

/// Others that share caches and cores may still disturb a load for longer than half of its turns.
/// What collapses does so each time.
const ATTEMPTS: usize = 5;

/// The tests of this file take turns: they share the processor time that they measure.
static ALONE: Mutex<()> = Mutex::new(());

fn does_not_collapse(cores: usize, ring: u64) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    if !bind_to(cores) {
        assert!(!is_ci, "there are no {cores} cores, and CI is true");
        return eprintln!("skipped: there are no {cores} cores");
    }
    let (mut holds, mut was_alone) = (false, false);
    for _ in 0..ATTEMPTS {
        let Attempt { least, goodput, .. } = attempt(cores, ring);
        match &goodput {
            Ok(()) => println!("each load has {least} of the best, as was asked"),
            Err(why) => println!("{why}, where {least} was asked"),
        }
        // What holds where less was asked counts only where nobody sees to it that others are quiet.
        let is_alone = least == LEAST_GOODPUT;
        was_alone |= is_alone;
        holds |= goodput.is_ok() && (is_alone || !is_ci);
        if holds {
            break;
        }
    }
    assert!(
        was_alone || !is_ci,
        "{LEAST_GOODPUT} was never asked, for others had much of the cores, and CI is true"
    );
    assert!(holds, "goodput falls under load, each time");
}

/// What came of all loads.
struct Attempt {
    /// What part of the best was asked of each load.
    least: f64,
    /// Where goodput falls, if it does.
    goodput: Result<(), String>,
    /// Packets a second that the slow path carries.
    capacity: f64,
}

/// Fails where anything is lost that should not be.
fn attempt(cores: usize, ring: u64) -> Attempt {
    let service = service(&GATEWAY.replace("RING", &ring.to_string()));
    let mut node = build(&service, Paths::Both).expect("sound");
    node.machine.set_limits(Limits {
        ring_frames: service.link.ring_frames,
        is_lossless: false,
        is_replay: false,
    });
    let ends = Ends::new(ring);
    offer(&mut node, &ends);
    let load = ends.load();
    let mut drops = node.machine.path().drops().clone();
    drops.absorb(&Tallies::of(&node.workers).drops);
    let drops: Vec<_> = drops.nonzero().collect();
    load.show(cores);
    println!("drops: {drops:?}");
    load.assert_hits_lose_nothing();
    let lost = load.lost_before + load.seldom.taken - load.seldom.left;
    // What the machine's thread does not come to take is lost at the entrance.
    let punts = (DropReason::PuntRingFull, lost);
    assert_eq!(drops, Vec::from_iter((lost > 0).then_some(punts)));
    let least = match load.share_of(cores) > ALONE_SHARE {
        true => LEAST_GOODPUT,
        false => LEAST_AMONG_OTHERS,
    };
    Attempt {
        least,
        goodput: load.goodput_stays(least),
        capacity: load.capacity(),
    }
}

/// All loads, one after the other.
fn offer(node: &mut Node, ends: &Ends) {
    // As what a socket brings: packets are due when they come.
    let pacing = Pacing {
        is_lossless: false,
        is_paced: false,
        most_ahead: None,
    };
    let (mut source, mut sink) = (Source::new(ends.clone()), ends.clone());
    threads::run(
        node,
        &mut source,
        Causality::new(Scope::Nothing),
        &mut sink,
        &mut Observer::new(Live::hidden()),
        pacing,
        &no_commands(),
        &AtomicBool::new(false),
    )
    .expect("memory never fails");
}

impl Load {
    fn assert_hits_lose_nothing(&self) {
        let known = self.known;
        assert!(
            self.known_fast * 10 > known.left * 9,
            "hits are to be tried"
        );
        assert_eq!(
            (known.taken, known.left),
            (known.offered, known.offered),
            "packets of known flows are lost"
        );
    }

    /// Each load is carried as well as the best, or as far as it goes.
    fn goodput_stays(&self, least: f64) -> Result<(), String> {
        assert!(self.tried > 1000, "nothing to compare with");
        let best = self.loads.iter().map(|count| count.medians()[1]).max();
        let best = best.unwrap_or(0);
        for (times, count) in LOADS.iter().zip(&self.loads) {
            let [offered, left] = count.medians();
            if (left as f64) < best.min(offered) as f64 * least {
                return Err(format!("{left} of {best} at {times} times what is carried"));
            }
        }
        Ok(())
    }

    /// The share of the time of so many cores that the process has had.
    fn share_of(&self, cores: usize) -> f64 {
        self.now_ns as f64 / (self.wall_ns as f64 * cores as f64)
    }

    fn show(&self, cores: usize) {
        let capacity = self.capacity();
        let share = self.share_of(cores);
        println!(
            "{cores} cores, of which we had {share:.2}, ring of {}: the slow path carries {capacity:.0} a second",
            self.ring
        );
        for (times, count) in LOADS.iter().zip(&self.loads) {
            let [offered, left] = count.medians();
            println!("{times:>2} times: {left} of {offered}; {:?}", count.left);
        }
        let (known, fast) = (self.known, self.known_fast);
        println!("known: {known:?}, {fast} on the fast path");
    }
}

#[test]
fn on_one_core() {
    does_not_collapse(1, USUAL_RING);
}

/// On a core that they share, a worker has its turn when its ring is full: the slow path carries about as
/// much with a small ring as with the usual one. If it waited for its turn, it would carry one ring full
/// for each.
#[test]
fn on_one_core_with_a_small_ring() {
    does_not_collapse(1, SMALL_RING);
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !bind_to(1) {
        return;
    }
    let carries_enough = |_| {
        let [small, usual] = [SMALL_RING, USUAL_RING].map(|ring| attempt(1, ring).capacity);
        small > usual * LEAST_WITH_SMALL_RING
    };
    assert!((0..ATTEMPTS).any(carries_enough), "each time too little");
}

#[test]
fn on_two_cores() {
    does_not_collapse(2, USUAL_RING);
}
