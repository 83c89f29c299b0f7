//! How a chain becomes another while packets flow, and how a run comes to its end.
//!
//! | phase | packets | goes on when |
//! |---|---|---|
//! | coming home | flow | the fast path has given back the state of all flows |
//! | quiescing | wait at their ports | nothing is under way, and no rule's use is unreported |
//! | asking | wait at their ports | all workers have done what they were told |
//!
//! A change brings flows home if functions that share flow state change, quiesces, has workers let
//! go of what functions keep if it must and quiesces again, and then both paths take their new
//! elements. A stop quiesces, has workers let all deadlines come, and quiesces again. Neither waits
//! for longer than its time: a change is then given up and nothing has changed, a run just ends.

use super::{Answer, Machine, Order, Output};
use crate::replacement::{Leftovers, Replacement};
use std::sync::Arc;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_core::Instant;
use twinpath_rulecache::ChangeError;

/// What became of a command.
pub enum Outcome {
    /// The chain is another.
    Changed(Changed),
    /// It is not: the replacement comes back.
    Refused(Box<Replacement>, Refusal),
    /// The run is over.
    Stopped {
        /// Whether all that was under way has come to its end.
        is_drained: bool,
    },
}

/// A chain has been replaced.
pub struct Changed {
    /// How long no packet was taken.
    pub pause: Duration,
    /// Why functions refused their new configuration; those go on with the old one.
    pub refused: Vec<ChangeError>,
    /// The old chain's remains, to be freed where that disturbs nobody.
    pub left: Leftovers,
}

/// Why a chain has not been replaced; nothing has changed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The link loses what should bring it home, or is always full.
    #[error("the state of flows did not come back from the fast path in time; nothing has changed")]
    FlowsAway,
    /// Packets were under way for too long.
    #[error("packets were still under way after {} s; nothing has changed", MOST_WAIT.as_secs())]
    NotQuiet,
    /// Another change, or the end, is under way.
    #[error("another change is being made; nothing has changed")]
    Busy,
    /// Nobody is there to make it.
    #[error("the run is over")]
    Over,
}

/// How long a phase may take.
const MOST_WAIT: Duration = Duration::from_secs(5);

/// Messages that ask flows home leave so much of a link's room to packets.
const ROOM_FOR_PACKETS: usize = 4;

/// What the machine does besides forwarding.
#[derive(Default)]
pub(super) struct Phase(Option<Task>);

struct Task {
    goal: Goal,
    step: Step,
    /// When the step began, on the link's clock.
    since: Option<Instant>,
    /// When packets began to wait.
    paused: Option<Instant>,
    refused: Vec<ChangeError>,
    left: Leftovers,
    /// The run is to end behind it.
    then_stops: bool,
}

enum Goal {
    Change(Box<Replacement>),
    Stop,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Step {
    ComingHome,
    /// Nothing new comes in; then workers are told the next.
    Quiescing(Next),
    /// Answers that are still to come, and what workers were told.
    Asking(usize, Next),
}

/// What workers are told next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Next {
    Release,
    Replace,
    Finish,
    /// Nothing more: the run is over.
    End,
}

impl Phase {
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// Whether packets need not wait.
    #[inline]
    pub fn takes_packets(&self) -> bool {
        let flows = |task: &Task| task.step == Step::ComingHome;
        self.0.as_ref().is_none_or(flows)
    }
}

impl Task {
    fn new(goal: Goal, step: Step) -> Self {
        Self {
            goal,
            step,
            since: None,
            paused: None,
            refused: Vec::new(),
            left: Leftovers::default(),
            then_stops: false,
        }
    }

    fn goes_to(&mut self, step: Step) {
        (self.step, self.since) = (step, None);
    }

    /// Whether the step has taken too long.
    fn is_late(&mut self, now: Instant) -> bool {
        now.since(*self.since.get_or_insert(now)) > MOST_WAIT
    }
}

impl Machine {
    /// Another chain is wanted.
    ///
    /// # Errors
    /// Something else is under way; the replacement comes back.
    pub fn change(&mut self, replacement: Box<Replacement>) -> Result<(), Box<Replacement>> {
        if !self.phase.is_idle() {
            return Err(replacement);
        }
        let step = match replacement.brings_flows_home {
            true => Step::ComingHome,
            false => Step::Quiescing(first_order(&replacement)),
        };
        self.phase = Phase(Some(Task::new(Goal::Change(replacement), step)));
        Ok(())
    }

    /// The run is to end. A change that was under way is given up, unless workers have been told to
    /// make it: then the end comes behind it.
    pub fn stop(&mut self, out: &mut Output) {
        match self.phase.0.take() {
            Some(mut task) if matches!(task.step, Step::Asking(..)) => {
                task.then_stops = matches!(task.goal, Goal::Change(_));
                self.phase = Phase(Some(task));
            }
            Some(task) => {
                self.give_up(task, Refusal::Over, out);
                self.begin_stop();
            }
            None => self.begin_stop(),
        }
    }

    fn begin_stop(&mut self) {
        let task = Task::new(Goal::Stop, Step::Quiescing(Next::Finish));
        self.phase = Phase(Some(task));
    }

    /// A worker has done what it was told, and all that it gave back has been handed in.
    pub fn answered(&mut self, worker: usize, answer: Answer, clock: Clock, out: &mut Output) {
        let Some(mut task) = self.phase.0.take() else {
            return;
        };
        match answer {
            Answer::Done => {}
            Answer::Replaced(refused, left) => {
                task.refused.extend(refused);
                task.left.add(left);
            }
            // Only the first worker may have rules, so nothing has changed.
            Answer::Refused(plans) => {
                if let Goal::Change(replacement) = &mut task.goal {
                    replacement.cores[worker] = plans;
                }
                let stops = task.then_stops;
                self.give_up(task, Refusal::NotQuiet, out);
                if stops {
                    self.begin_stop();
                }
                return;
            }
        }
        if let Step::Asking(awaited, next) = task.step {
            match awaited.saturating_sub(1) {
                0 => return self.all_answered(task, next, clock, out),
                awaited => task.step = Step::Asking(awaited, next),
            }
        }
        self.phase = Phase(Some(task));
    }

    fn all_answered(&mut self, mut task: Task, told: Next, clock: Clock, out: &mut Output) {
        let stops = task.then_stops;
        let next = match told {
            Next::Release if stops => None,
            Next::Release => Some(Next::Replace),
            Next::Finish => Some(Next::End),
            Next::Replace | Next::End => None,
        };
        match next {
            Some(next) => {
                task.goes_to(Step::Quiescing(next));
                self.phase = Phase(Some(task));
            }
            None if told == Next::Release => self.give_up(task, Refusal::Over, out),
            None => self.changed(task, clock, out),
        }
        if stops {
            self.begin_stop();
        }
        self.go_on(clock, out);
    }

    /// Goes on with what is to be done, as far as it goes.
    pub(super) fn go_on(&mut self, clock: Clock, out: &mut Output) {
        let Some(task) = self.phase.0.take() else {
            return;
        };
        match task.step {
            Step::ComingHome => self.bring_home(task, clock, out),
            Step::Quiescing(next) => self.quiesce(task, next, clock, out),
            Step::Asking(..) => self.phase = Phase(Some(task)),
        }
    }

    fn bring_home(&mut self, mut task: Task, clock: Clock, out: &mut Output) {
        let room = |link: &super::Link| link.room() / ROOM_FOR_PACKETS;
        let room = self.links.iter().map(room).min().unwrap_or(0).max(1);
        let (pools, punts) = (&mut self.pools, &mut self.out);
        let are_home = self.path.bring_flows_home(room, clock, pools, punts);
        self.put_out(out);
        if are_home && let Goal::Change(replacement) = &task.goal {
            task.goes_to(Step::Quiescing(first_order(replacement)));
        } else if task.is_late(clock.link) {
            return self.give_up(task, Refusal::FlowsAway, out);
        }
        self.phase = Phase(Some(task));
        if are_home {
            self.go_on(clock, out);
        }
    }

    fn quiesce(&mut self, mut task: Task, next: Next, clock: Clock, out: &mut Output) {
        task.paused.get_or_insert(clock.link);
        let is_over = self.settle(&task, clock, out);
        let is_late = task.is_late(clock.link);
        if is_over || is_late && matches!(task.goal, Goal::Stop) {
            return self.tell(task, next, !is_late, out);
        }
        match is_late {
            true => self.give_up(task, Refusal::NotQuiet, out),
            false => self.phase = Phase(Some(task)),
        }
    }

    /// Lets what is inside leave. Returns whether nothing is.
    fn settle(&mut self, task: &Task, clock: Clock, out: &mut Output) -> bool {
        let (pools, punts) = (&mut self.pools, &mut self.out);
        let is_settled = match task.goal {
            Goal::Stop => self.path.give_all_back(clock, pools, punts),
            Goal::Change(_) => self.path.settle_rules(clock, pools, punts),
        };
        self.put_out(out);
        if !is_settled || !self.links.iter().all(super::Link::is_quiet) {
            return false;
        }
        // All headers that will come are back: their payloads follow.
        if self.path.parking().is_some() {
            self.pass_parking(Instant::NEVER, out);
        }
        self.is_quiet()
    }

    /// Workers are told the next, or there is nothing more to tell.
    fn tell(&mut self, mut task: Task, next: Next, is_drained: bool, out: &mut Output) {
        let order = |now: Instant| match next {
            Next::Release => Order::Release(now),
            _ => Order::Finish,
        };
        let now = self.path.under_way().latest();
        let workers = self.links.len();
        match (next, &mut task.goal) {
            (Next::Replace, Goal::Change(replacement)) => {
                for (worker, plans) in replacement.cores.iter_mut().enumerate() {
                    let order = Order::Replace {
                        plans: std::mem::take(plans),
                        blueprint: Arc::clone(&replacement.blueprint),
                        steering: replacement.steering.clone(),
                        now,
                    };
                    out.orders.push((worker, order));
                }
            }
            (Next::End, _) => return out.outcomes.push(Outcome::Stopped { is_drained }),
            _ => {
                let orders = (0..workers).map(|worker| (worker, order(now)));
                out.orders.extend(orders);
            }
        }
        task.goes_to(Step::Asking(workers, next));
        self.phase = Phase(Some(task));
    }

    /// All workers have the new chain; so has the fast path.
    fn changed(&mut self, mut task: Task, clock: Clock, out: &mut Output) {
        let Goal::Change(replacement) = task.goal else {
            return;
        };
        let Replacement {
            sides,
            steering,
            fast,
            pools,
            ..
        } = *replacement;
        self.path.replace(sides, steering, fast, &mut task.left);
        if let Some(pools) = pools {
            task.left.add(self.pools.grow_to(pools));
        }
        let paused = task.paused.unwrap_or(clock.link);
        out.outcomes.push(Outcome::Changed(Changed {
            pause: clock.link.since(paused),
            refused: task.refused,
            left: task.left,
        }));
    }

    fn give_up(&mut self, task: Task, why: Refusal, out: &mut Output) {
        self.path.keep_flows();
        if let Goal::Change(replacement) = task.goal {
            out.outcomes.push(Outcome::Refused(replacement, why));
        }
    }
}

/// What workers are told first.
fn first_order(replacement: &Replacement) -> Next {
    match replacement.releases_packets {
        true => Next::Release,
        false => Next::Replace,
    }
}
