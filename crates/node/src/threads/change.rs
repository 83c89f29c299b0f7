//! What an operator wants of a running node: to know something, or another chain.

use super::{FastThread, Patience, WorkerTask};
use crate::replacement::{Leftovers, Replacement};
use crate::sink::Sink;
use crate::worker::Worker;
use std::sync::mpsc;
use std::time::{Duration, Instant as WallClock};
use twinpath_core::{Frame, Instant, Pools};
use twinpath_io::CaptureError;
use twinpath_rulecache::ChangeError;

/// What became of a wish for another chain: it has been replaced, or the wish comes back.
pub type Replaced = Result<Done, (Box<Replacement>, NotNow)>;

/// A chain has been replaced.
pub struct Done {
    /// How long no packet was taken.
    pub pause: Duration,
    /// Why functions refused their new configuration; those go on with the old one.
    pub refused: Vec<ChangeError>,
    /// The old chain's remains.
    pub left: Leftovers,
}

/// Why a chain has not been replaced; nothing has changed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    /// It may be tried again soon.
    #[error("packets kept waiting for rules to go; nothing has changed")]
    Rules,
    /// The link loses what should bring it home, or is always full.
    #[error("the state of flows did not come back from the fast path in time; nothing has changed")]
    Flows,
    /// The workers are gone.
    #[error("the run is over")]
    Over,
}

/// What an operator wants of a run.
pub enum Command {
    /// Something that the first worker knows.
    AskWorker(WorkerTask),
    /// Another chain.
    Replace(Box<Replacement>, mpsc::Sender<Replaced>),
}

/// Where a run hears what its operator wants.
pub type Commands = mpsc::Receiver<Command>;

/// A run without an operator.
pub fn no_commands() -> Commands {
    mpsc::channel().1
}

/// How long flows may take to come home.
const PATIENCE: Duration = Duration::from_secs(5);

/// A change that waits until the fast path has given back what it must.
pub(super) struct Change {
    replacement: Box<Replacement>,
    answer: mpsc::Sender<Replaced>,
    since: WallClock,
}

impl<S: Sink> FastThread<'_, S> {
    /// Does what the operator wants, one thing after the other.
    pub(super) fn obey(&mut self) -> Result<(), CaptureError> {
        if let Some(change) = self.change.take() {
            return self.go_on_with(change);
        }
        match self.commands.try_recv() {
            Ok(Command::AskWorker(task)) => {
                // A worker that is gone answers nobody, and whoever asked hears that.
                let _ = self.lanes[0].tasks.send(task);
                Ok(())
            }
            Ok(Command::Replace(replacement, answer)) => self.go_on_with(Change {
                replacement,
                answer,
                since: WallClock::now(),
            }),
            Err(_) => Ok(()),
        }
    }

    /// Packets go on while the fast path gives state back; then the chain is replaced.
    fn go_on_with(&mut self, change: Change) -> Result<(), CaptureError> {
        if change.replacement.brings_flows_home && !self.bring_flows_home()? {
            if change.since.elapsed() < PATIENCE {
                self.change = Some(change);
                return Ok(());
            }
            self.fast_path.keep_flows();
            let refused = Err((change.replacement, NotNow::Flows));
            // Whoever has gone away hears nothing.
            let _ = change.answer.send(refused);
            return Ok(());
        }
        let replaced = self.replace(change.replacement)?;
        if replaced.is_err() {
            self.fast_path.keep_flows();
        }
        let _ = change.answer.send(replaced);
        Ok(())
    }

    /// Leaves most of the link to packets, so that none finds it full because of this.
    fn bring_flows_home(&mut self) -> Result<bool, CaptureError> {
        let under_way = self.lanes.iter().map(|lane| lane.in_flight.len()).max();
        let room = (self.tempo.ring_frames / 4).saturating_sub(under_way.unwrap_or(0));
        let clock = self.clock();
        let are_home = self
            .fast_path
            .bring_flows_home(room, clock, self.pools, &mut self.output);
        self.put_out()?;
        Ok(are_home)
    }

    /// Takes another chain while nothing is under way.
    fn replace(&mut self, mut replacement: Box<Replacement>) -> Result<Replaced, CaptureError> {
        let began = WallClock::now();
        self.come_to_rest()?;
        if replacement.releases_packets {
            self.release()?;
        }
        let now = self.packet_clock;
        let mut refused = Vec::new();
        let mut left = Leftovers::default();
        for worker in 0..self.lanes.len() {
            let plans = std::mem::take(&mut replacement.cores[worker]);
            let steering = replacement.steering.clone();
            let replaced = self.ask(worker, move |worker, _, _| {
                worker.replace(plans, steering, now)
            })?;
            match replaced {
                Some(Ok((why, remains))) => {
                    refused.extend(why);
                    left.add(remains);
                }
                // Only the first worker may have rules, so nothing has changed.
                Some(Err(plans)) => {
                    replacement.cores[worker] = plans;
                    return Ok(Err((replacement, NotNow::Rules)));
                }
                None => return Ok(Err((replacement, NotNow::Over))),
            }
        }
        let Replacement {
            sides,
            steering,
            fast,
            pools,
            ..
        } = *replacement;
        self.fast_path
            .replace(sides, steering, fast, &mut left);
        if let Some(pools) = pools {
            left.add(self.pools.grow_to(pools));
        }
        let pause = began.elapsed();
        Ok(Ok(Done {
            pause,
            refused,
            left,
        }))
    }

    /// Lets everything that is under way leave.
    fn come_to_rest(&mut self) -> Result<(), CaptureError> {
        let tempo = self.tempo;
        self.tempo.is_lossless = true;
        loop {
            let clock = self.clock();
            let is_settled = self
                .fast_path
                .settle_rules(clock, self.pools, &mut self.output);
            self.put_out()?;
            self.wait_for_cores(Instant::NEVER)?;
            if is_settled {
                self.tempo = tempo;
                // All headers that will come are back: their payloads follow.
                return self.pass_parking(Instant::NEVER);
            }
        }
    }

    /// What functions keep leaves through the chain as it is.
    fn release(&mut self) -> Result<(), CaptureError> {
        let now = self.packet_clock;
        self.ask_all(move |worker, pools, returns| worker.release(now, pools, returns))?;
        self.come_to_rest()
    }

    /// Has all workers do something, and takes what they give back.
    pub(super) fn ask_all(
        &mut self,
        act: impl FnOnce(&mut Worker, &mut Pools, &mut Vec<Frame>) + Send + Clone + 'static,
    ) -> Result<(), CaptureError> {
        for worker in 0..self.lanes.len() {
            self.ask(worker, act.clone())?;
            // What it gives back is in the ring when the worker takes another task.
            self.ask(worker, |_, _, _| {})?;
        }
        self.take_returns()?;
        self.put_out()
    }

    /// Has a worker do something; `None` if it is gone. What comes back meanwhile goes on.
    fn ask<T: Send + 'static>(
        &mut self,
        worker: usize,
        act: impl FnOnce(&mut Worker, &mut Pools, &mut Vec<Frame>) -> T + Send + 'static,
    ) -> Result<Option<T>, CaptureError> {
        let (answer, answered) = mpsc::channel();
        let task: WorkerTask = Box::new(move |worker, pools, returns| {
            let _ = answer.send(act(worker, pools, returns));
        });
        if self.lanes[worker].tasks.send(task).is_err() {
            return Ok(None);
        }
        let mut patience = Patience::default();
        loop {
            match answered.try_recv() {
                Ok(done) => return Ok(Some(done)),
                Err(mpsc::TryRecvError::Disconnected) => return Ok(None),
                Err(mpsc::TryRecvError::Empty) => {
                    self.take_returns()?;
                    self.put_out()?;
                    patience.wait();
                }
            }
        }
    }
}
