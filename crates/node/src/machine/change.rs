//! How a chain becomes another while packets flow, and how a run comes to its end.
//!
//! | step | packets | goes on when |
//! |---|---|---|
//! | coming home | flow | the fast path has given back the state of all flows |
//! | quiescing | wait at their ports | nothing is under way, no rule's use is unreported, and no deadline that workers were told of is still to come |
//! | asking | wait at their ports | all workers have done what they were told |
//!
//! A change brings flows home if they cannot stay where they are, and quiesces. It has workers get
//! ready, which take out cached rules that the change concerns and let go of what functions keep,
//! and quiesces again: then those rules are gone from both paths. At last both paths take their new
//! elements. A change that takes too long is given up, and nothing has changed.
//!
//! A stop quiesces until no deadline is left: functions let go of what they keep when its time comes,
//! as they would with more packets behind, and it passes what is behind them before the next
//! deadline comes. It takes as long as something comes back and ever less is inside; where that ends, and
//! something still waits, it is lost and counted.

use super::{Machine, Output, Replacement};
use crate::deferred_free::DeferredFree;
use crate::worker::{Replaced, SlowPlan, WholeWalk, WorkerAnswer, WorkerCommand};
use std::sync::Arc;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_core::{Instant, Named};
use twinpath_rulecache::RuleFunction;

/// What became of a command.
pub enum ChangeOutcome {
    /// The chain is another.
    Changed(Changed),
    /// It is not: the replacement comes back.
    Refused(Box<Replacement>, ChangeRefusal),
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
    /// Cached rules that went.
    pub rules_gone: usize,
    /// Cached rules that stayed.
    pub rules_kept: usize,
    /// Functions that the new chain does not have: what they had may still be told.
    pub left: Vec<Named<dyn RuleFunction>>,
    /// The old chain's other remains, to be freed where that disturbs nobody.
    pub to_free: DeferredFree,
}

/// Why a chain has not been replaced; it is as it was.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefusal {
    /// The link loses what should bring it home, or is always full.
    #[error("the state of flows did not come back from the fast path in time; nothing has changed")]
    FlowsAway,
    /// Packets were under way for too long.
    #[error("packets were still under way after {} s; nothing has changed", MOST_WAIT.as_secs())]
    NotQuiet,
    /// What it knew is lost, and it has begun anew.
    #[error(
        "a function crashed when it was asked what the change concerns: its worker has begun anew with the chain that there was"
    )]
    Crashed,
    /// Another change, or the end, is under way.
    #[error("another change is being made; nothing has changed")]
    Busy,
    /// There is no time yet at which it could be made.
    #[error("no packet has come yet, and the run begins with the first; nothing has changed")]
    NotBegun,
    /// Nobody is there to make it.
    #[error("the run is over")]
    Over,
}

/// How long a step may take; at the end of a run, how long nothing comes back before what waits is
/// given up.
const MOST_WAIT: Duration = Duration::from_secs(5);

/// What is on the link may take so long; and at the end of a run, so long no less may be inside, whatever
/// comes back.
const MOST_ON_LINK: Duration = Duration::from_secs(600);

/// Messages that ask flows home leave so much of a link's room to packets.
const ROOM_FOR_PACKETS: usize = 4;

/// What the machine does besides forwarding.
#[derive(Default)]
pub(super) struct CurrentTask(Option<Task>);

struct Task {
    goal: Goal,
    step: ChangeStep,
    /// When the step began, on the link's clock.
    since: Option<Instant>,
    /// When packets began to wait.
    paused: Option<Instant>,
    /// The least that was inside so far at the end of a run, and since when.
    least_inside: Option<(usize, Instant)>,
    /// What workers have told of their new chains.
    replaced: Replaced,
    /// Why the change is not made, if workers have still to be told.
    refusal: Option<ChangeRefusal>,
    /// Whether the run is to end when this is over.
    then_stops: bool,
}

enum Goal {
    Change(Box<Replacement>),
    Stop,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ChangeStep {
    ComingHome,
    /// Nothing new comes in; then workers are told the next.
    Quiescing(Next),
    /// Answers that are still to come, and what workers were told.
    Asking(usize, Next),
}

/// What workers are told next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Next {
    Prepare,
    Replace,
    /// The change that was prepared is not made.
    Keep,
    /// Nothing more: the run is over.
    End,
    /// The same, while packets wait that can go nowhere.
    GiveUp,
}

impl CurrentTask {
    /// Whether nothing more comes in.
    #[inline]
    pub fn is_ending(&self) -> bool {
        let is_stop = |task: &Task| matches!(task.goal, Goal::Stop);
        self.0.as_ref().is_some_and(is_stop)
    }

    #[inline]
    pub fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// Whether workers are taking another chain: until the fast path has it, too, functions let go of
    /// nothing that they keep, for it would walk the chain that goes.
    #[inline]
    pub fn is_replacing(&self) -> bool {
        let is_told = |task: &Task| matches!(task.step, ChangeStep::Asking(_, Next::Replace));
        self.0.as_ref().is_some_and(is_told)
    }

    /// Whether packets need not wait.
    #[inline]
    pub fn takes_packets(&self) -> bool {
        let flows = |task: &Task| task.step == ChangeStep::ComingHome;
        self.0.as_ref().is_none_or(flows)
    }
}

impl Task {
    fn new(goal: Goal, step: ChangeStep) -> Self {
        Self {
            goal,
            step,
            since: None,
            paused: None,
            least_inside: None,
            replaced: Replaced::default(),
            refusal: None,
            then_stops: false,
        }
    }

    fn goes_to(&mut self, step: ChangeStep) {
        (self.step, self.since) = (step, None);
    }

    /// A worker gives back what it was told of.
    fn take_back(&mut self, worker: usize, plans: Vec<SlowPlan>) {
        if let Goal::Change(replacement) = &mut self.goal {
            replacement.slow[worker] = plans;
        }
    }

    /// Whether there is less inside than there was, or was not long ago: what comes back may be the same again
    /// and again.
    fn has_less_inside(&mut self, inside: usize, now: Instant) -> bool {
        let (least, since) = self.least_inside.unwrap_or((usize::MAX, now));
        self.least_inside = Some(match inside < least {
            true => (inside, now),
            false => (least, since),
        });
        inside < least || now.since(since) <= MOST_ON_LINK
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
        if !self.current_task.is_idle() {
            return Err(replacement);
        }
        let step = match replacement.brings_flows_home {
            true => ChangeStep::ComingHome,
            false => ChangeStep::Quiescing(first_command(&replacement)),
        };
        self.current_task = CurrentTask(Some(Task::new(Goal::Change(replacement), step)));
        Ok(())
    }

    /// The run is to end. A change that was under way is given up, or comes to its end if workers
    /// are told of it already.
    pub fn stop(&mut self, out: &mut Output) {
        match self.current_task.0.take() {
            Some(mut task) if matches!(task.step, ChangeStep::Asking(..)) => {
                task.then_stops = matches!(task.goal, Goal::Change(_));
                self.current_task = CurrentTask(Some(task));
                return;
            }
            Some(task) => self.give_up(task, ChangeRefusal::Over, out),
            None => {}
        }
        self.begin_to_stop();
    }

    fn begin_to_stop(&mut self) {
        let task = Task::new(Goal::Stop, ChangeStep::Quiescing(Next::End));
        self.current_task = CurrentTask(Some(task));
    }

    /// A worker has done what it was told, and all that it gave back has been handed in.
    pub fn answered(
        &mut self,
        worker: usize,
        answer: WorkerAnswer,
        clock: Clock,
        out: &mut Output,
    ) {
        let Some(mut task) = self.current_task.0.take() else {
            return;
        };
        match answer {
            WorkerAnswer::Done => {}
            WorkerAnswer::Replaced(replaced) => {
                // A worker that has crashed since it got ready has not taken out what concerns the
                // change, and perhaps nothing of its new life has come yet.
                let (pools, punts) = (&mut self.pools, &mut self.out);
                self.path
                    .hear_epoch(worker, replaced.epoch, clock, pools, punts);
                self.put_out(out);
                task.replaced.add(replaced);
            }
            WorkerAnswer::Prepared(plans) => task.take_back(worker, plans),
            WorkerAnswer::Refused(plans) => {
                task.take_back(worker, plans);
                task.refusal = Some(ChangeRefusal::NotQuiet);
            }
            WorkerAnswer::Crashed(plans) => {
                task.take_back(worker, plans);
                task.refusal = Some(ChangeRefusal::Crashed);
            }
        }
        if let ChangeStep::Asking(awaited, next) = task.step {
            match awaited.saturating_sub(1) {
                0 => return self.all_answered(task, next, clock, out),
                awaited => task.step = ChangeStep::Asking(awaited, next),
            }
        }
        self.current_task = CurrentTask(Some(task));
    }

    fn all_answered(&mut self, mut task: Task, told: Next, clock: Clock, out: &mut Output) {
        // Only the one worker of a chain with rules refuses, so nothing has changed.
        let is_over = task.then_stops && told == Next::Prepare;
        let refusal = task.refusal.or(is_over.then_some(ChangeRefusal::Over));
        let next = match (told, refusal) {
            (Next::Prepare, None) => Next::Replace,
            (Next::GiveUp, _) => return self.end(false, out),
            _ => return self.end_change(task, refusal, clock, out),
        };
        task.goes_to(ChangeStep::Quiescing(next));
        self.current_task = CurrentTask(Some(task));
        self.go_on(clock, out);
    }

    /// The chain is another, or will not be.
    fn end_change(
        &mut self,
        task: Task,
        why_not: Option<ChangeRefusal>,
        clock: Clock,
        out: &mut Output,
    ) {
        let then_stops = task.then_stops;
        match why_not {
            Some(why) => self.give_up(task, why, out),
            None => self.changed(task, clock, out),
        }
        if then_stops {
            self.begin_to_stop();
            self.go_on(clock, out);
        }
    }

    /// Goes on with what is to be done, as far as it goes.
    pub(super) fn go_on(&mut self, clock: Clock, out: &mut Output) {
        let Some(task) = self.current_task.0.take() else {
            return;
        };
        match task.step {
            ChangeStep::ComingHome => self.bring_home(task, clock, out),
            ChangeStep::Quiescing(next) => self.quiesce(task, next, clock, out),
            ChangeStep::Asking(..) => self.current_task = CurrentTask(Some(task)),
        }
    }

    fn bring_home(&mut self, mut task: Task, clock: Clock, out: &mut Output) {
        let room = |link: &super::Link| link.room() / ROOM_FOR_PACKETS;
        let room = self.links.iter().map(room).min().unwrap_or(0).max(1);
        let (pools, punts) = (&mut self.pools, &mut self.out);
        let are_home = self.path.bring_flows_home(room, clock, pools, punts);
        self.put_out(out);
        if are_home && let Goal::Change(replacement) = &task.goal {
            task.goes_to(ChangeStep::Quiescing(first_command(replacement)));
        } else if task.is_late(clock.link) {
            return self.give_up(task, ChangeRefusal::FlowsAway, out);
        }
        self.current_task = CurrentTask(Some(task));
        if are_home {
            self.go_on(clock, out);
        }
    }

    fn quiesce(&mut self, mut task: Task, next: Next, clock: Clock, out: &mut Output) {
        task.paused.get_or_insert(clock.link);
        self.is_changing = matches!(task.goal, Goal::Change(_));
        let is_over = self.settle(&task, clock, out);
        if is_over {
            return self.tell(task, next, out);
        }
        if matches!(task.goal, Goal::Stop) {
            let began = *task.since.get_or_insert(clock.link);
            let inside = self.path.count_inside();
            let is_less = task.has_less_inside(inside, clock.link);
            return match is_less && self.may_hear(began, clock.link) {
                true => self.current_task = CurrentTask(Some(task)),
                false => self.tell(task, Next::GiveUp, out),
            };
        }
        match (task.is_late(clock.link), next) {
            (false, _) => self.current_task = CurrentTask(Some(task)),
            (true, Next::Replace) => {
                task.refusal = Some(ChangeRefusal::NotQuiet);
                self.tell(task, Next::Keep, out);
            }
            (true, _) => self.give_up(task, ChangeRefusal::NotQuiet, out),
        }
    }

    /// Whether something may still come back.
    fn may_hear(&self, began: Instant, now: Instant) -> bool {
        let most = match self.links.iter().any(super::Link::has_in_flight) {
            true => MOST_ON_LINK,
            false => MOST_WAIT,
        };
        now.since(self.last_return.max(began)) <= most
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
        // No header comes from the slow path any more: their payloads follow.
        if self.path.parking().is_some() {
            self.pass_all_parking(out);
        }
        let are_over = match task.goal {
            Goal::Change(_) => self.have_told_deadlines_come(),
            Goal::Stop => self.have_deadlines_come(),
        };
        let is_over = are_over && self.is_quiet();
        if is_over {
            // Headers that are not back now are lost.
            self.let_split_pass(clock, out);
        }
        is_over
    }

    /// Workers are told the next, or there is nothing more to tell.
    fn tell(&mut self, mut task: Task, next: Next, out: &mut Output) {
        let now = self.path.under_way().latest();
        let workers = self.links.len();
        match (next, &mut task.goal) {
            (Next::End, _) => return self.end(true, out),
            (Next::GiveUp, _) => {
                self.path.count_left_inside();
                let commands = (0..workers).map(|worker| (worker, WorkerCommand::GiveUp));
                out.commands.extend(commands);
            }
            (_, Goal::Change(replacement)) => {
                let chain = self.path.next_chain();
                let commands = (0..workers).map(|worker| {
                    (
                        worker,
                        worker_command(replacement, worker, next, chain, now),
                    )
                });
                out.commands.extend(commands);
            }
            (_, Goal::Stop) => debug_assert!(false, "a stop has no change to make"),
        }
        task.goes_to(ChangeStep::Asking(workers, next));
        self.current_task = CurrentTask(Some(task));
    }

    /// The run is over.
    fn end(&mut self, is_drained: bool, out: &mut Output) {
        self.has_drained = is_drained;
        self.path.give_up_fragments();
        out.outcomes.push(ChangeOutcome::Stopped { is_drained });
    }

    /// All workers have the new chain; so has the fast path.
    fn changed(&mut self, mut task: Task, clock: Clock, out: &mut Output) {
        self.is_changing = false;
        let Goal::Change(replacement) = task.goal else {
            return;
        };
        let Replacement {
            admission,
            joints,
            egress_check,
            splits,
            verifies,
            steering,
            order,
            fast,
            needs_ports,
            pools,
            ..
        } = *replacement;
        let Replaced {
            rules_gone,
            rules_kept,
            ref mut to_free,
            ..
        } = task.replaced;
        self.path
            .replace(admission, steering, (fast, order, &needs_ports), to_free);
        self.path.set_joints(joints);
        self.path.set_egress_check(egress_check);
        self.path.set_splitting(splits);
        self.path.set_verifying(verifies);
        if let Some(pools) = pools {
            to_free.add(self.pools.grow_to(pools));
        }
        let paused = task.paused.unwrap_or(clock.link);
        out.outcomes.push(ChangeOutcome::Changed(Changed {
            pause: clock.link.since(paused),
            rules_gone,
            rules_kept,
            left: task.replaced.left,
            to_free: task.replaced.to_free,
        }));
    }

    fn give_up(&mut self, task: Task, why: ChangeRefusal, out: &mut Output) {
        self.is_changing = false;
        self.path.keep_flows();
        if let Goal::Change(replacement) = task.goal {
            out.outcomes.push(ChangeOutcome::Refused(replacement, why));
        }
    }
}

/// What workers are told first.
fn first_command(replacement: &Replacement) -> Next {
    match replacement.needs_preparation() {
        true => Next::Prepare,
        false => Next::Replace,
    }
}

/// What a worker is told of a change.
fn worker_command(
    replacement: &mut Replacement,
    worker: usize,
    next: Next,
    chain: u16,
    now: Instant,
) -> WorkerCommand {
    if next == Next::Keep {
        return WorkerCommand::Keep;
    }
    let plans = std::mem::take(&mut replacement.slow[worker]);
    match next {
        Next::Prepare => WorkerCommand::Prepare {
            plans,
            releases_packets: replacement.releases_packets,
            now,
        },
        _ => WorkerCommand::Replace {
            plans,
            blueprint: Arc::clone(&replacement.blueprint),
            walk: Box::new(WholeWalk {
                steering: replacement.steering.clone(),
                order: replacement.order,
            }),
            chain,
            now,
        },
    }
}

impl Replaced {
    fn add(&mut self, other: Self) {
        self.rules_gone += other.rules_gone;
        self.rules_kept += other.rules_kept;
        self.left.extend(other.left);
        self.to_free.add(other.to_free);
    }
}
