//! The machine, driven by hand: bursts of any size, tiny rings, frames that are lost or come twice,
//! changes of the chain in between. It keeps what it promises to whoever drives it: no more frames
//! under way than a ring holds, no departure older than it said, no packet twice, and an end.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::service::{Paths, Service};
use twinpath_core::{Frame, Instant};
use twinpath_node::machine::{ChangeOutcome, Progress, Time, WorkerAnswer, WorkerCommand};
use twinpath_node::replacement::Replacement;
use twinpath_node::{Limits, Node, Output, build};

/// Flow state that both paths share, over two workers.
const SHARED: &str = "[service]\nchain = [\"firewall\", \"reassembler\"]\n\
    [fast_path]\nslots = 8\nhot_packets = 1\n[slow_path]\nflows = 64\nworkers = 2\n[firewall]\ndefault = \"allow\"\n";

/// The same, behind another list.
const SHARED_AFTER: &str = "[service]\nchain = [\"firewall\", \"reassembler\"]\n\
    [fast_path]\nslots = 8\nhot_packets = 1\n[slow_path]\nflows = 64\nworkers = 2\n\
    [firewall]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"udp\", to_port = 53 }]\n";

/// Decisions that are cached as rules, before flow state; packets are split.
const CACHED: &str = "[service]\nchain = [\"acl\", \"napt\", \"firewall\"]\n\
    [fast_path]\nslots = 8\nhot_packets = 1\n[slow_path]\nflows = 64\n\
    [rule_cache]\nexact = 4\nmasked = 4\nmasks = 2\nheld = 4\nwindow = \"1ms\"\nthreshold = 0\n\
    [acl]\ndefault = \"allow\"\n[firewall]\ndefault = \"allow\"\n\
    [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\nsessions = 64\n\
    [split]\nthreshold_bytes = 60\nheader_slots = 4\nstore = { payloads = 4 }\n";

/// The same without translation.
const CACHED_AFTER: &str = "[service]\nchain = [\"acl\", \"firewall\"]\ninside = [\"10.0.0.0/8\"]\n\
    [fast_path]\nslots = 8\nhot_packets = 1\n[slow_path]\nflows = 64\n\
    [rule_cache]\nexact = 4\nmasked = 4\nmasks = 2\nheld = 4\nwindow = \"1ms\"\nthreshold = 0\n\
    [acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"udp\", to_port = 53 }]\n\
    [firewall]\ndefault = \"allow\"\n\
    [split]\nthreshold_bytes = 60\nheader_slots = 4\nstore = { payloads = 4 }\n";

/// Building a chain takes longer than all else here.
const MOST_CHANGES: usize = 2;

/// After so much time a machine has given up whatever it waits for.
const MOST_STEPS: usize = 2000;
const STEP: Duration = Duration::from_millis(20);

fn service(text: &str) -> Service {
    Service::parse(text, Path::new("fuzz.toml")).expect("a valid service")
}

/// What is under way to a worker.
enum There {
    Frame(Frame),
    Time(Time),
    Command(WorkerCommand),
}

/// What is under way from it.
enum Back {
    Frame(Frame),
    Progress(Progress),
    WorkerAnswer(WorkerAnswer),
}

/// What happens to the next frame that a worker gives back.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Mishap {
    None,
    Lost,
    Doubled,
}

impl Mishap {
    fn of(bits: u8) -> Self {
        [Self::None, Self::None, Self::Lost, Self::Doubled][usize::from(bits & 3)]
    }
}

struct Driver {
    /// What runs, and what it becomes next.
    services: [Service; 2],
    node: Node,
    limits: Limits,
    now: Instant,
    there: Vec<VecDeque<There>>,
    back: Vec<VecDeque<Back>>,
    /// What time workers have been told, or will be.
    told: Time,
    burst: Vec<Frame>,
    out: Output,
    mishap: Mishap,
    /// Whether a frame was lost: then an end may come by time alone.
    has_lost: bool,
    left: BTreeSet<u64>,
    arrived: u64,
    is_changing: bool,
    is_over: Option<bool>,
}

impl Driver {
    fn new(services: [Service; 2], limits: Limits) -> Self {
        let mut node = build(&services[0], Paths::Both).expect("a valid service");
        let now = Instant(1_000_000_000);
        node.machine.set_limits(limits);
        node.machine.start(now);
        node.workers.iter_mut().for_each(|worker| worker.start(now));
        let workers = node.workers.len();
        Self {
            services,
            node,
            limits,
            now,
            there: (0..workers).map(|_| VecDeque::new()).collect(),
            back: (0..workers).map(|_| VecDeque::new()).collect(),
            told: Time::default(),
            burst: Vec::new(),
            out: Output::default(),
            mishap: Mishap::None,
            has_lost: false,
            left: BTreeSet::new(),
            arrived: 0,
            is_changing: false,
            is_over: None,
        }
    }

    fn clock(&self) -> Clock {
        Clock {
            packet: self.now,
            link: self.now,
        }
    }

    /// A packet joins the burst that comes next.
    fn packet(&mut self, bytes: &[u8]) {
        let mut full = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        full.extend_from_slice(bytes);
        let Some(mut frame) = self.node.machine.pools().take_filled(&full) else {
            return;
        };
        frame.set_timestamp(self.now);
        frame.set_received_ns(self.arrived);
        self.arrived += 1;
        self.burst.push(frame);
    }

    /// As much of the burst as there is room for goes in.
    fn receive(&mut self) {
        let clock = self.clock();
        let room = self.node.machine.room().min(self.burst.len());
        let mut now: Vec<Frame> = self.burst.drain(..room).collect();
        self.node.machine.receive(&mut now, clock, &mut self.out);
        assert!(now.is_empty(), "a burst is emptied");
        self.put_out();
    }

    fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
        let clock = self.clock();
        self.node.machine.advance(clock, &mut self.out);
        self.put_out();
    }

    fn put_out(&mut self) {
        for departure in std::mem::take(&mut self.out.departures) {
            let frame = departure.frame;
            let is_new = departure.is_reply || self.left.insert(frame.received_ns());
            assert!(is_new, "packet {} left twice", frame.received_ns());
            self.node.machine.pools().give(frame);
        }
        for (worker, frame) in std::mem::take(&mut self.out.frames) {
            self.there[worker].push_back(There::Frame(frame));
        }
        let time = self.node.machine.time();
        if std::mem::replace(&mut self.told, time) != time {
            self.there.iter_mut().for_each(|there| tell(there, time));
        }
        for (worker, command) in std::mem::take(&mut self.out.commands) {
            self.there[worker].push_back(There::Command(command));
        }
        for outcome in std::mem::take(&mut self.out.outcomes) {
            match outcome {
                ChangeOutcome::Stopped { is_drained } => self.is_over = Some(is_drained),
                ChangeOutcome::Changed(_) => {
                    self.is_changing = false;
                    self.services.swap(0, 1);
                }
                ChangeOutcome::Refused(..) => self.is_changing = false,
            }
        }
        let frames = |there: &VecDeque<There>| {
            there
                .iter()
                .filter(|what| matches!(what, There::Frame(_)))
                .count()
        };
        let most = self.there.iter().map(frames).max().unwrap_or(0);
        assert!(most <= self.limits.ring_frames, "{most} frames in a ring");
    }

    /// One thing arrives at each end of each link.
    fn carry(&mut self) {
        for worker in 0..self.there.len() {
            if let Some(what) = self.there[worker].pop_front() {
                self.arrive(worker, what);
            }
            if let Some(what) = self.back[worker].pop_front() {
                self.come_back(worker, what);
            }
        }
    }

    fn arrive(&mut self, worker: usize, what: There) {
        let mut returns = Vec::new();
        let (slow, pools) = (
            &mut self.node.workers[worker],
            &mut self.node.worker_pools[worker],
        );
        let answer = match what {
            There::Frame(frame) => {
                slow.receive(frame, pools, &mut returns);
                None
            }
            There::Time(time) => {
                slow.advance(time, pools, &mut returns);
                None
            }
            There::Command(command) => Some(slow.execute(command, pools, &mut returns)),
        };
        self.send_back(worker, returns);
        self.back[worker].extend(answer.map(Back::WorkerAnswer));
    }

    fn send_back(&mut self, worker: usize, returns: Vec<Frame>) {
        self.back[worker].extend(returns.into_iter().map(Back::Frame));
        let progress = self.node.workers[worker].progress();
        if let Some(Back::Progress(_)) = self.back[worker].back() {
            self.back[worker].pop_back();
        }
        self.back[worker].push_back(Back::Progress(progress));
    }

    fn come_back(&mut self, worker: usize, what: Back) {
        let floor = self.node.machine.oldest();
        let (clock, out) = (self.clock(), &mut self.out);
        match what {
            Back::Frame(_) if self.mishap == Mishap::Lost => {
                (self.mishap, self.has_lost) = (Mishap::None, true);
                return;
            }
            Back::Frame(frame) => {
                let twin = (self.mishap == Mishap::Doubled)
                    .then(|| copy(&frame, &mut self.node))
                    .flatten();
                if twin.is_some() {
                    self.mishap = Mishap::None;
                }
                let mut frames = std::iter::once(frame).chain(twin).collect();
                self.node.machine.returned(worker, &mut frames, clock, out);
            }
            Back::Progress(progress) => self.node.machine.progress(worker, progress, out),
            Back::WorkerAnswer(answer) => self.node.machine.answered(worker, answer, clock, out),
        }
        let is_fresh = self
            .out
            .departures
            .iter()
            .all(|departure| departure.frame.timestamp() >= floor);
        assert!(is_fresh, "a departure is older than {floor:?}");
        assert!(self.node.machine.oldest() >= floor, "the floor sinks");
        self.put_out();
    }

    /// Returns whether a change has begun.
    fn change(&mut self) -> bool {
        if self.is_changing {
            return false;
        }
        let [from, to] = &self.services;
        let replacement = Replacement::between(from, to).expect("only the chain differs");
        self.is_changing = true;
        assert!(
            self.node.machine.change(Box::new(replacement)).is_ok(),
            "nothing else is under way"
        );
        self.advance(Duration::ZERO);
        true
    }

    /// Everything arrives, and packets that waited for room go in. Only of the time, which goes on,
    /// somebody always has to hear yet.
    fn settle(&mut self) {
        let is_time = |what: &There| matches!(what, There::Time(_));
        let is_progress = |what: &Back| matches!(what, Back::Progress(_));
        for _ in 0..MOST_STEPS {
            let is_there = self.there.iter().flatten().all(is_time);
            let is_back = self.back.iter().flatten().all(is_progress);
            if is_there && is_back && self.burst.is_empty() && !self.is_changing {
                return;
            }
            self.carry();
            self.receive();
            self.advance(STEP);
        }
        let (packets, there, back) = (self.burst.len(), self.there[0].len(), self.back[0].len());
        panic!(
            "{packets} packets wait to come in, {there} to worker 0, {back} from it; a change: {}",
            self.is_changing
        );
    }

    fn finish(mut self) {
        self.mishap = Mishap::None;
        self.settle();
        self.node.machine.stop(&mut self.out);
        for _ in 0..MOST_STEPS {
            if self.is_over.is_some() {
                break;
            }
            self.advance(STEP);
            self.carry();
        }
        let is_drained = self.is_over.expect("the run ends");
        assert!(
            is_drained || self.has_lost,
            "nothing was lost, and something is still under way"
        );
        let pools = self.node.machine.pools();
        let (free, all) = (pools.small().available(), pools.small().frames());
        assert!(
            free == all || self.has_lost,
            "{} buffers have not come home",
            all - free
        );
    }
}

/// What time it is replaces what nobody has heard yet, as it does between threads.
fn tell(there: &mut VecDeque<There>, time: Time) {
    if let Some(There::Time(_)) = there.back() {
        there.pop_back();
    }
    there.push_back(There::Time(time));
}

/// The same frame again, with its number: a link that delivers twice.
fn copy(frame: &Frame, node: &mut Node) -> Option<Frame> {
    let mut twin = node.machine.pools().take_filled(frame.bytes())?;
    twin.set_timestamp(frame.timestamp());
    twin.set_received_ns(frame.received_ns());
    twin.set_ordinal(frame.ordinal());
    twin.set_metadata(frame.metadata());
    Some(twin)
}

fn limits(bits: u8) -> Limits {
    Limits {
        ring_frames: 1 + usize::from(bits & 15),
        is_lossless: bits & 16 != 0,
        is_replay: false,
    }
}

// The first byte chooses the service, the second the limits. Then for each packet: what happens
// after it, its length, itself.
/// One input.
pub fn run(bytes: &[u8]) {
    let [choice, ring, rest @ ..] = bytes else {
        return;
    };
    let services = match choice & 1 {
        0 => [SHARED, SHARED_AFTER],
        _ => [CACHED, CACHED_AFTER],
    };
    let mut driver = Driver::new(services.map(service), limits(*ring));
    let (mut bytes, mut changes) = (rest, 0);
    while let [action, len, rest @ ..] = bytes {
        let (packet, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        driver.packet(packet);
        if action & 1 != 0 {
            driver.receive();
        }
        if action & 2 != 0 {
            driver.carry();
        }
        if driver.mishap == Mishap::None {
            driver.mishap = Mishap::of(action >> 2);
        }
        driver.advance(Duration::from_micros(if action & 16 != 0 {
            1000
        } else {
            1
        }));
        if action & 32 != 0 && changes < MOST_CHANGES && driver.change() {
            changes += 1;
        }
        if action & 64 != 0 {
            driver.advance(Duration::from_millis(600));
        }
        if action & 128 != 0 {
            driver.settle();
        }
        bytes = rest;
    }
    driver.finish();
}
