//! A worker's thread, and the rings between it and the machine's.

use super::Backoff;
use crate::command::Question;
use crate::fast_path::BATCH;
use crate::live_drops::LiveDrops;
use crate::machine::{Answer, Progress, WorkerCommand};
use crate::worker::Worker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use twinpath_core::{DropCounters, Frame, Instant, Pools};
use twinpath_link::ring::{RingReceiver, RingSender, ring};
use twinpath_link::{Sender, number};

/// What both threads see.
struct Shared {
    /// The number of the last frame that the worker has finished with; its returns are in the ring
    /// before this changes.
    finished: AtomicU32,
    /// The oldest packet that waits there for rules to go.
    waiting_since: AtomicU64,
    /// The packet clock of live traffic.
    now: AtomicU64,
    /// What the worker dropped so far.
    drops: LiveDrops,
    /// How often it has crashed.
    restarts: AtomicU64,
}

/// Something that a worker does between two frames.
enum Task {
    Command(WorkerCommand),
    Question(Question, Instant),
}

/// The machine's end.
pub(super) struct Seat {
    to_worker: RingSender,
    pub from_worker: RingReceiver,
    tasks: mpsc::Sender<Task>,
    pub answers: mpsc::Receiver<Answer>,
    shared: Arc<Shared>,
}

/// The worker's end.
pub(super) struct End {
    from_machine: RingReceiver,
    to_machine: RingSender,
    tasks: mpsc::Receiver<Task>,
    answers: mpsc::Sender<Answer>,
    shared: Arc<Shared>,
    is_over: Arc<AtomicBool>,
}

/// Both ends of the link to a worker.
pub(super) fn seat(ring_frames: usize, is_over: &Arc<AtomicBool>) -> (Seat, End) {
    let (to_worker, from_machine) = ring(ring_frames);
    let (to_machine, from_worker) = ring(ring_frames);
    let (task_sender, tasks) = mpsc::channel();
    let (answer_sender, answers) = mpsc::channel();
    let shared = Arc::new(Shared {
        finished: AtomicU32::new(0),
        waiting_since: AtomicU64::new(u64::MAX),
        now: AtomicU64::new(0),
        drops: LiveDrops::default(),
        restarts: AtomicU64::new(0),
    });
    let seat = Seat {
        to_worker,
        from_worker,
        tasks: task_sender,
        answers,
        shared: Arc::clone(&shared),
    };
    let end = End {
        from_machine,
        to_machine,
        tasks,
        answers: answer_sender,
        shared,
        is_over: Arc::clone(is_over),
    };
    (seat, end)
}

impl Seat {
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

    pub fn progress(&self) -> Progress {
        // That a packet waits is told before the frame that it came with is finished.
        let finished = self.shared.finished.load(Ordering::Acquire);
        let waiting_since = self.shared.waiting_since.load(Ordering::Acquire);
        Progress {
            finished,
            waiting_since,
        }
    }

    pub fn publish_time(&self, now: Instant) {
        self.shared.now.store(now.0, Ordering::Release);
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

/// A worker's thread.
pub(super) struct WorkerThread<'a> {
    worker: &'a mut Worker,
    pools: &'a mut Pools,
    end: End,
    numbers: Sender,
    returns: Vec<Frame>,
}

impl<'a> WorkerThread<'a> {
    pub fn new(worker: &'a mut Worker, pools: &'a mut Pools, end: End) -> Self {
        Self {
            worker,
            pools,
            end,
            numbers: Sender::default(),
            returns: Vec::new(),
        }
    }

    pub fn run(mut self) {
        let mut frames = Vec::with_capacity(BATCH);
        let mut idle = Backoff::default();
        loop {
            let is_over = self.end.is_over.load(Ordering::Acquire);
            let now = Instant(self.end.shared.now.load(Ordering::Acquire));
            self.end.from_machine.receive(&mut frames, BATCH);
            let is_idle = !self.do_tasks() && frames.is_empty();
            if is_idle {
                if is_over {
                    return;
                }
                self.let_time_pass(now);
                idle.wait();
                continue;
            }
            idle = Backoff::default();
            self.worker
                .receive_burst(&mut frames, self.pools, &mut self.returns);
            self.give_back();
            let shared = &self.end.shared;
            shared.drops.publish(&self.worker.drops());
            shared
                .restarts
                .store(self.worker.restarts(), Ordering::Relaxed);
        }
    }

    /// Nothing older than `now` is in the ring.
    fn let_time_pass(&mut self, now: Instant) {
        if self.worker.next_deadline().is_some_and(|due| due <= now) {
            self.worker.advance(now, self.pools, &mut self.returns);
            self.give_back();
        }
    }

    /// Returns whether there were any.
    fn do_tasks(&mut self) -> bool {
        let mut any = false;
        while let Ok(task) = self.end.tasks.try_recv() {
            any = true;
            match task {
                // Whoever asked what cannot be answered hears no answer.
                Task::Question(question, now) => {
                    let _ = catch_unwind(AssertUnwindSafe(|| question(self.worker, now)));
                }
                Task::Command(command) => {
                    let answer = self.worker.execute(command, self.pools, &mut self.returns);
                    self.give_back();
                    // If nobody listens any more the run is over.
                    let _ = self.end.answers.send(answer);
                }
            }
        }
        any
    }

    /// What the worker put out goes back, and then how far it is.
    fn give_back(&mut self) {
        for mut frame in self.returns.drain(..) {
            number(&mut frame, self.numbers.number());
            let mut idle = Backoff::default();
            while let Err(refused) = self.end.to_machine.send(frame) {
                if self.end.to_machine.is_abandoned() {
                    return;
                }
                frame = refused;
                idle.wait();
            }
        }
        let Progress {
            finished,
            waiting_since,
        } = self.worker.progress();
        let shared = &self.end.shared;
        shared.waiting_since.store(waiting_since, Ordering::Release);
        shared.finished.store(finished, Ordering::Release);
    }
}
