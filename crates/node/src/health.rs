//! Whether a run is well: its threads show that they go on, and somebody looks.
//!
//! A [`Heartbeat`] is what the threads of a run write and nobody waits for: a number that each thread
//! raises in every turn of its loop, how often workers have crashed, which ports are down, whether
//! routes of the kernel have no room. A [`HealthMonitor`] reads it ten times a second from a thread of
//! its own and tells the [`Health`] that follows: `/healthz` answers with it, and the watchdog of the
//! system is told of it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant as WallClock};
use twinpath_ports::State;

/// How far a run is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Tables and buffers are being made.
    #[default]
    Starting = 0,
    /// Packets may come.
    Ready = 1,
    /// Nothing more is taken in.
    Stopping = 2,
}

impl Phase {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
        }
    }
}

/// A thread's count of turns, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct TurnCounter(AtomicU64);

impl TurnCounter {
    /// One thread writes.
    fn raise(&self) {
        let turns = self.0.load(Ordering::Relaxed);
        self.0.store(turns.wrapping_add(1), Ordering::Relaxed);
    }

    fn turns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct WorkerCounts {
    turns: TurnCounter,
    restarts: AtomicU64,
}

#[derive(Debug)]
struct PortStatus {
    name: String,
    /// A [`State`].
    state: AtomicU8,
}

impl PortStatus {
    /// What is wrong with it.
    fn problem(&self) -> Option<String> {
        let state = self.state.load(Ordering::Relaxed);
        let what = [
            (State::Down, "is down"),
            (State::Taken, "has an interface that another process has"),
            (
                State::Mastered,
                "has an interface that a bridge or the like takes packets from",
            ),
        ];
        let (_, what) = what.into_iter().find(|(one, _)| *one as u8 == state)?;
        Some(format!("port {} {what}", self.name))
    }
}

/// What the threads of a run show of themselves.
#[derive(Debug, Default)]
pub struct Heartbeat {
    phase: AtomicU8,
    machine: TurnCounter,
    workers: Box<[WorkerCounts]>,
    ports: Box<[PortStatus]>,
    lacks_routes: AtomicBool,
}

impl Heartbeat {
    /// Of a run with so many workers, and ports of these names.
    pub fn new(workers: usize, ports: &[String]) -> Self {
        let port = |name: &String| PortStatus {
            name: name.clone(),
            state: AtomicU8::new(State::Up as u8),
        };
        Self {
            workers: (0..workers).map(|_| WorkerCounts::default()).collect(),
            ports: ports.iter().map(port).collect(),
            ..Self::default()
        }
    }

    /// The run is as far as this. It never goes back.
    pub fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }

    /// How far the run is.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Stopping,
        }
    }

    /// The machine's thread has made another turn.
    #[inline]
    pub fn machine_turns(&self) {
        self.machine.raise();
    }

    /// A worker's thread has made another turn.
    #[inline]
    pub fn worker_turns(&self, worker: usize) {
        if let Some(worker) = self.workers.get(worker) {
            worker.turns.raise();
        }
    }

    /// All threads have, as nobody has anything to do yet.
    pub fn all_turn(&self) {
        self.machine_turns();
        (0..self.workers.len()).for_each(|worker| self.worker_turns(worker));
    }

    /// A worker has crashed so often.
    pub fn worker_restarts(&self, worker: usize, restarts: u64) {
        if let Some(worker) = self.workers.get(worker) {
            worker.restarts.store(restarts, Ordering::Relaxed);
        }
    }

    /// Whether packets come and go at a port.
    pub fn port(&self, port: usize, state: State) {
        if let Some(port) = self.ports.get(port) {
            port.state.store(state as u8, Ordering::Relaxed);
        }
    }

    /// Whether routes of the kernel are missing, for which there is no room.
    pub fn lacks_routes(&self, lacks: bool) {
        self.lacks_routes.store(lacks, Ordering::Relaxed);
    }

    fn turns(&self) -> impl Iterator<Item = u64> + '_ {
        let workers = self.workers.iter().map(|worker| worker.turns.turns());
        std::iter::once(self.machine.turns()).chain(workers)
    }
}

/// How a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// How far it is.
    pub phase: Phase,
    /// Whether a thread of the data plane stands still: then the process had better begin anew.
    pub is_stuck: bool,
    /// How often workers have crashed, all together.
    pub restarts: u64,
    /// What is wrong, in words.
    pub problems: Vec<String>,
}

impl Health {
    /// Whether packets pass as they should.
    pub fn is_good(&self) -> bool {
        self.phase == Phase::Ready && self.problems.is_empty()
    }
}

/// What is wrong where the kernel has more routes than a router.
const LACKING_ROUTES: &str =
    "some of the kernel's routes are missing: there are more than most_routes of the router";

/// A thread that has made no turn for so long stands still.
const STILL: Duration = Duration::from_secs(2);

/// A worker that crashed so often within this time keeps crashing.
const MANY_CRASHES: u64 = 3;
const CRASH_TIME: Duration = Duration::from_secs(60);

/// How often health is checked.
const INTERVAL: Duration = Duration::from_millis(100);

/// Most crashes that are remembered one by one, of each worker.
const MOST_CRASHES: usize = 16;

/// What is known of a thread.
struct Thread {
    name: String,
    turns: u64,
    moved: WallClock,
    restarts: u64,
    crashes: VecDeque<WallClock>,
}

/// Checks a node, or each of several.
struct Checker {
    nodes: Vec<Vec<Thread>>,
}

impl Checker {
    fn new(heartbeats: &[Arc<Heartbeat>], now: WallClock) -> Self {
        let node = |(number, heartbeat): (usize, &Arc<Heartbeat>)| {
            let of = match heartbeats.len() {
                1 => String::new(),
                _ => format!(" of shard {number}"),
            };
            let thread = |(place, turns): (usize, u64)| Thread {
                name: match place.checked_sub(1) {
                    None => format!("the machine's thread{of}"),
                    Some(worker) => format!("worker {worker}{of}"),
                },
                turns,
                moved: now,
                restarts: 0,
                crashes: VecDeque::new(),
            };
            heartbeat.turns().enumerate().map(thread).collect()
        };
        let nodes = heartbeats.iter().enumerate().map(node).collect();
        Self { nodes }
    }

    fn check(&mut self, heartbeats: &[Arc<Heartbeat>], now: WallClock) -> Health {
        let phases = heartbeats.iter().map(|heartbeat| heartbeat.phase());
        let mut health = Health {
            // The run is as far as the shard that is behind, until one stops.
            phase: match phases.clone().any(|phase| phase == Phase::Stopping) {
                true => Phase::Stopping,
                false => phases.min_by_key(|phase| *phase as u8).unwrap_or_default(),
            },
            ..Health::default()
        };
        for (threads, heartbeat) in self.nodes.iter_mut().zip(heartbeats) {
            check_node(threads, heartbeat, now, &mut health);
        }
        // All see the same interfaces.
        let ports = heartbeats.iter().take(1).flat_map(|one| &one.ports);
        health
            .problems
            .extend(ports.filter_map(PortStatus::problem));
        let lacks = |heartbeat: &Arc<Heartbeat>| heartbeat.lacks_routes.load(Ordering::Relaxed);
        if heartbeats.iter().any(lacks) {
            health.problems.push(LACKING_ROUTES.to_owned());
        }
        health
    }
}

fn check_node(threads: &mut [Thread], heartbeat: &Heartbeat, now: WallClock, health: &mut Health) {
    for (thread, turns) in threads.iter_mut().zip(heartbeat.turns()) {
        // Nobody turns before the run begins, nor when a worker has ended.
        if thread.turns != turns || health.phase != Phase::Ready {
            (thread.turns, thread.moved) = (turns, now);
        }
        if now.saturating_duration_since(thread.moved) > STILL {
            health.is_stuck = true;
            let name = &thread.name;
            health.problems.push(format!("{name} stands still"));
        }
    }
    for (thread, worker) in threads.iter_mut().skip(1).zip(&heartbeat.workers) {
        let restarts = worker.restarts.load(Ordering::Relaxed);
        health.restarts = health.restarts.saturating_add(restarts);
        if thread.keeps_crashing(restarts, now) {
            let name = &thread.name;
            health.problems.push(format!("{name} keeps crashing"));
        }
    }
}

impl Thread {
    fn keeps_crashing(&mut self, restarts: u64, now: WallClock) -> bool {
        let new = restarts.saturating_sub(self.restarts) as usize;
        self.restarts = restarts;
        self.crashes
            .extend(std::iter::repeat_n(now, new.min(MOST_CRASHES)));
        let too_many = self.crashes.len().saturating_sub(MOST_CRASHES);
        self.crashes.drain(..too_many);
        let is_old = |at: &WallClock| now.saturating_duration_since(*at) > CRASH_TIME;
        while self.crashes.front().is_some_and(is_old) {
            self.crashes.pop_front();
        }
        self.crashes.len() as u64 >= MANY_CRASHES
    }
}

/// Hears how a run is, ten times a second.
pub type OnHealth = Box<dyn FnMut(&Health) + Send>;

/// Checks heartbeats until dropped.
pub struct HealthMonitor {
    known: Arc<Mutex<Health>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HealthMonitor {
    /// Begins to check at all shards, and tells what it sees.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn begin(heartbeats: Vec<Arc<Heartbeat>>, mut tell: OnHealth) -> std::io::Result<Self> {
        let (known, is_over) = (Arc::<Mutex<Health>>::default(), Arc::default());
        let (seen, over) = (Arc::clone(&known), Arc::<AtomicBool>::clone(&is_over));
        let watch = move || {
            let mut checker = Checker::new(&heartbeats, WallClock::now());
            while !over.load(Ordering::Acquire) {
                let health = checker.check(&heartbeats, WallClock::now());
                tell(&health);
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = health;
                std::thread::park_timeout(INTERVAL);
            }
            for heartbeat in &heartbeats {
                heartbeat.enter(Phase::Stopping);
            }
            tell(&checker.check(&heartbeats, WallClock::now()));
        };
        let thread = Builder::new().name("health".into()).spawn(watch)?;
        Ok(Self {
            known,
            is_over,
            thread: Some(thread),
        })
    }

    /// What was seen last: for whoever asks at any time.
    pub fn known(&self) -> Arc<Mutex<Health>> {
        Arc::clone(&self.known)
    }
}

impl Drop for HealthMonitor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: WallClock, seconds: u64) -> WallClock {
        start + Duration::from_secs(seconds)
    }

    fn heartbeat() -> [Arc<Heartbeat>; 1] {
        [Arc::new(Heartbeat::new(
            2,
            &["inside".into(), "outside".into()],
        ))]
    }

    #[test]
    fn a_run_is_good_once_it_is_ready_and_until_it_stops() {
        let (heartbeats, start) = (heartbeat(), WallClock::now());
        let heartbeat = &heartbeats[0];
        let mut checker = Checker::new(&heartbeats, start);
        for (phase, is_good) in [
            (Phase::Starting, false),
            (Phase::Ready, true),
            (Phase::Stopping, false),
            // It does not come back.
            (Phase::Ready, false),
        ] {
            heartbeat.enter(phase);
            heartbeat.all_turn();
            assert_eq!(
                checker.check(&heartbeats, start).is_good(),
                is_good,
                "{phase:?}"
            );
        }
    }

    #[test]
    fn a_thread_that_stands_still_is_told_until_it_goes_on() {
        let (heartbeats, start) = (heartbeat(), WallClock::now());
        let heartbeat = &heartbeats[0];
        let mut checker = Checker::new(&heartbeats, start);
        // While tables are made nothing turns, however long that takes.
        assert!(!checker.check(&heartbeats, after(start, 60)).is_stuck);
        heartbeat.enter(Phase::Ready);
        heartbeat.all_turn();
        assert!(!checker.check(&heartbeats, after(start, 61)).is_stuck);
        heartbeat.machine_turns();
        heartbeat.worker_turns(0);
        let health = checker.check(&heartbeats, after(start, 64));
        assert!(health.is_stuck);
        assert_eq!(health.problems, ["worker 1 stands still"]);
        heartbeat.all_turn();
        assert!(checker.check(&heartbeats, after(start, 65)).is_good());
    }

    /// A run of several shards is as well as the worst of them.
    #[test]
    fn each_shard_is_looked_at() {
        let heartbeats = [heartbeat(), heartbeat()].concat();
        let start = WallClock::now();
        let mut checker = Checker::new(&heartbeats, start);
        heartbeats[0].enter(Phase::Ready);
        assert_eq!(checker.check(&heartbeats, start).phase, Phase::Starting);
        heartbeats[1].enter(Phase::Ready);
        heartbeats.iter().for_each(|heartbeat| heartbeat.all_turn());
        assert!(checker.check(&heartbeats, start).is_good());
        heartbeats[0].all_turn();
        heartbeats[1].worker_turns(1);
        heartbeats[1].machine_turns();
        let health = checker.check(&heartbeats, after(start, 3));
        assert_eq!(health.problems, ["worker 0 of shard 1 stands still"]);
        heartbeats[1].enter(Phase::Stopping);
        assert_eq!(checker.check(&heartbeats, start).phase, Phase::Stopping);
    }

    #[test]
    fn one_crash_is_no_trouble_many_in_a_minute_are() {
        let (heartbeats, start) = (heartbeat(), WallClock::now());
        let heartbeat = &heartbeats[0];
        heartbeat.enter(Phase::Ready);
        let mut checker = Checker::new(&heartbeats, start);
        for (second, restarts, is_good) in
            [(1, 1, true), (20, 2, true), (30, 3, false), (62, 3, true)]
        {
            heartbeat.all_turn();
            heartbeat.worker_restarts(1, restarts);
            let health = checker.check(&heartbeats, after(start, second));
            assert_eq!(health.is_good(), is_good, "{second}: {health:?}");
        }
        // However many there are at once.
        heartbeat.all_turn();
        heartbeat.worker_restarts(1, u64::MAX);
        assert!(!checker.check(&heartbeats, after(start, 63)).is_good());
    }

    #[test]
    fn a_port_that_is_down_or_anothers_is_named() {
        let (heartbeats, start) = (heartbeat(), WallClock::now());
        let heartbeat = &heartbeats[0];
        heartbeat.enter(Phase::Ready);
        heartbeat.port(7, State::Down);
        for (state, expected) in [
            (State::Down, &["port outside is down"][..]),
            (
                State::Taken,
                &["port outside has an interface that another process has"],
            ),
            (
                State::Mastered,
                &["port outside has an interface that a bridge or the like takes packets from"],
            ),
            (State::Up, &[]),
        ] {
            heartbeat.port(1, state);
            let health = Checker::new(&heartbeats, start).check(&heartbeats, start);
            assert_eq!(health.problems, expected);
            assert!(!health.is_stuck);
        }
    }

    #[test]
    fn routes_without_room_are_told_until_there_is_some() {
        let (heartbeats, start) = (heartbeat(), WallClock::now());
        heartbeats[0].enter(Phase::Ready);
        let mut checker = Checker::new(&heartbeats, start);
        for lacks in [true, false] {
            heartbeats[0].lacks_routes(lacks);
            let health = checker.check(&heartbeats, start);
            assert_eq!(health.is_good(), !lacks);
            assert_eq!(health.problems.len(), usize::from(lacks));
        }
    }

    #[test]
    fn whoever_listens_hears_the_end() {
        let heartbeats = heartbeat().to_vec();
        let heard: Arc<Mutex<Vec<Phase>>> = Arc::default();
        let log = Arc::clone(&heard);
        let tell = Box::new(move |health: &Health| log.lock().expect("sound").push(health.phase));
        heartbeats[0].enter(Phase::Ready);
        drop(HealthMonitor::begin(heartbeats, tell).expect("a thread"));
        let heard = heard.lock().expect("sound");
        assert_eq!(heard.last(), Some(&Phase::Stopping));
    }
}
