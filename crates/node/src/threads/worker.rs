//! A worker's thread, and the rings between it and the machine's.

use super::backoff::Backoff;
use super::returns::WorkerOutput;
use crate::command::{Question, WorkerAction};
use crate::fast_path::BATCH;
use crate::health::Heartbeat;
use crate::live_drops::LiveDrops;
use crate::machine::{Progress, Time, WorkerAnswer, WorkerCommand};
use crate::worker::Worker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use twinpath_core::{DropCounters, Frame, Instant, Pools};
use twinpath_link::ring::{RingReceiver, RingSender, ring};

/// Something that one thread says and another looks at: what is new costs a lock that is free, what
/// is not a read.
#[derive(Default)]
struct Latest<T> {
    version: AtomicU64,
    value: Mutex<T>,
}

impl<T: Copy + PartialEq> Latest<T> {
    fn say(&self, value: T) {
        let mut known = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != value {
            *known = value;
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// What was said since a version; that becomes the present one.
    fn news(&self, since: &mut u64) -> Option<T> {
        let version = self.version.load(Ordering::Acquire);
        if *since == version {
            return None;
        }
        *since = version;
        Some(*self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What both threads see.
#[derive(Default)]
struct Shared {
    /// How far the worker is; its returns are in the ring before this changes.
    progress: Latest<Progress>,
    /// What time it is for the worker.
    time: Latest<Time>,
    /// What the worker dropped so far.
    drops: LiveDrops,
    /// How often it has crashed.
    restarts: AtomicU64,
}

/// Something that a worker does between two frames.
enum Task {
    Command(WorkerCommand),
    Question(Question, Instant),
    WorkerAction(WorkerAction),
}

/// Whoever asked what cannot be answered hears no answer.
pub(super) fn answer(question: Question, worker: &Worker, now: Instant) {
    let _ = catch_unwind(AssertUnwindSafe(|| question(worker, now)));
}

/// As [`answer`].
pub(super) fn give(take: WorkerAction, worker: &mut Worker) {
    let _ = catch_unwind(AssertUnwindSafe(|| take(worker)));
}

/// The machine's end.
pub(super) struct WorkerLink {
    to_worker: RingSender,
    pub from_worker: RingReceiver,
    tasks: mpsc::Sender<Task>,
    answers: mpsc::Receiver<WorkerAnswer>,
    shared: Arc<Shared>,
    progress: Progress,
    /// Of what was heard of progress.
    version: u64,
    /// What time the worker has been told.
    time: Time,
}

/// The worker's end.
pub(super) struct End {
    from_machine: RingReceiver,
    to_machine: RingSender,
    tasks: mpsc::Receiver<Task>,
    answers: mpsc::Sender<WorkerAnswer>,
    shared: Arc<Shared>,
    is_over: Arc<AtomicBool>,
}

/// Both ends of the link to a worker.
pub(super) fn worker_link(ring_frames: usize, is_over: &Arc<AtomicBool>) -> (WorkerLink, End) {
    let (to_worker, from_machine) = ring(ring_frames);
    let (to_machine, from_worker) = ring(ring_frames);
    let (task_sender, tasks) = mpsc::channel();
    let (answer_sender, answers) = mpsc::channel();
    let shared = Arc::new(Shared::default());
    let worker_link = WorkerLink {
        to_worker,
        from_worker,
        tasks: task_sender,
        answers,
        shared: Arc::clone(&shared),
        progress: Progress::default(),
        version: 0,
        time: Time::default(),
    };
    let end = End {
        from_machine,
        to_machine,
        tasks,
        answers: answer_sender,
        shared,
        is_over: Arc::clone(is_over),
    };
    (worker_link, end)
}

impl WorkerLink {
    /// The machine sends no more than the ring holds.
    pub fn send(&mut self, frame: Frame) {
        let sent = self.to_worker.send(frame);
        debug_assert!(sent.is_ok(), "the link knows how much room there is");
    }

    /// A worker that is gone answers nobody, and whoever asked hears that.
    pub fn tell(&self, command: WorkerCommand) {
        let _ = self.tasks.send(Task::Command(command));
    }

    pub fn ask(&self, question: Question, now: Instant) {
        let _ = self.tasks.send(Task::Question(question, now));
    }

    pub fn take(&self, take: WorkerAction) {
        let _ = self.tasks.send(Task::WorkerAction(take));
    }

    pub fn tell_time(&mut self, time: Time) {
        if self.time != time {
            self.time = time;
            self.shared.time.say(time);
        }
    }

    pub fn drops(&self) -> DropCounters {
        self.shared.drops.read()
    }

    pub fn restarts(&self) -> u64 {
        self.shared.restarts.load(Ordering::Relaxed)
    }

    /// Whether nothing has come back.
    pub fn is_empty(&self) -> bool {
        self.from_worker.is_empty()
    }

    /// Whether the worker has gone, and left nothing.
    pub fn is_left(&self) -> bool {
        self.from_worker.is_abandoned() && self.from_worker.is_empty()
    }
}

impl WorkerOutput for WorkerLink {
    fn answers(&mut self) -> Vec<WorkerAnswer> {
        self.answers.try_iter().collect()
    }

    fn progress(&mut self) -> Progress {
        if let Some(progress) = self.shared.progress.news(&mut self.version) {
            self.progress = progress;
        }
        self.progress
    }

    fn frames(&mut self, into: &mut Vec<Frame>) {
        self.from_worker.receive(into, usize::MAX);
    }
}

impl End {
    /// Puts a frame into the ring; gives it back if there is no room.
    pub fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        self.to_machine.send(frame)
    }

    /// Says how far the worker is: behind all that it gave back.
    pub fn say_progress(&self, progress: Progress) {
        self.shared.progress.say(progress);
    }

    /// Says what came of a command, behind that. If nobody listens any more the run is over.
    pub fn say_answer(&self, answer: WorkerAnswer) {
        let _ = self.answers.send(answer);
    }
}

/// A worker's thread.
pub(super) struct WorkerThread<'a> {
    worker: &'a mut Worker,
    pools: &'a mut Pools,
    end: End,
    returns: Vec<Frame>,
    /// Of what was heard of the time.
    version: u64,
    heartbeat: WorkerHeartbeat,
}

/// What a worker's thread shows of itself.
pub(super) struct WorkerHeartbeat {
    heartbeat: Arc<Heartbeat>,
    number: usize,
}

impl WorkerHeartbeat {
    pub fn new(heartbeat: &Arc<Heartbeat>, number: usize) -> Self {
        let heartbeat = Arc::clone(heartbeat);
        Self { heartbeat, number }
    }
}

impl<'a> WorkerThread<'a> {
    pub fn new(
        worker: &'a mut Worker,
        pools: &'a mut Pools,
        end: End,
        heartbeat: WorkerHeartbeat,
    ) -> Self {
        Self {
            worker,
            pools,
            end,
            returns: Vec::new(),
            version: 0,
            heartbeat,
        }
    }

    pub fn run(mut self) {
        let mut frames = Vec::with_capacity(BATCH);
        let mut idle = Backoff::default();
        loop {
            let WorkerHeartbeat { heartbeat, number } = &self.heartbeat;
            heartbeat.worker_turns(*number);
            let is_over = self.end.is_over.load(Ordering::Acquire);
            let time = self.end.shared.time.news(&mut self.version);
            self.end.from_machine.receive(&mut frames, BATCH);
            if let Some(time) = time {
                self.worker.advance(time, self.pools, &mut self.returns);
                self.give_back();
                self.publish();
            }
            let is_idle = !self.do_tasks() && frames.is_empty();
            if is_idle {
                if is_over {
                    return;
                }
                idle.wait();
                continue;
            }
            idle.end();
            self.worker
                .receive_burst(&mut frames, self.pools, &mut self.returns);
            self.give_back();
            self.publish();
        }
    }

    /// What was dropped, and how often the worker has crashed, shows to others.
    fn publish(&self) {
        let shared = &self.end.shared;
        shared.drops.publish(&self.worker.drops());
        let restarts = self.worker.restarts();
        shared.restarts.store(restarts, Ordering::Relaxed);
        let WorkerHeartbeat { heartbeat, number } = &self.heartbeat;
        heartbeat.worker_restarts(*number, restarts);
    }

    /// Returns whether there were any.
    fn do_tasks(&mut self) -> bool {
        let mut any = false;
        while let Ok(task) = self.end.tasks.try_recv() {
            any = true;
            match task {
                Task::Question(question, now) => answer(question, self.worker, now),
                Task::WorkerAction(take) => give(take, self.worker),
                Task::Command(command) => {
                    let answer = self.worker.execute(command, self.pools, &mut self.returns);
                    self.give_back();
                    self.end.say_answer(answer);
                }
            }
        }
        any
    }

    /// What the worker put out goes back, and then how far it is.
    fn give_back(&mut self) {
        for mut frame in self.returns.drain(..) {
            let mut idle = Backoff::default();
            while let Err(refused) = self.end.send(frame) {
                if self.end.to_machine.is_abandoned() {
                    return;
                }
                frame = refused;
                idle.wait();
            }
        }
        self.end.say_progress(self.worker.progress());
    }
}
