//! What a worker is told besides frames, and what it says to that.

use super::rules::Prepared;
use super::{Blueprint, Moment, SlowPlan, WholeWalk, Worker};
use crate::deferred_free::DeferredFree;
use twinpath_core::{Frame, Instant, Named, Pools};
use twinpath_rulecache::RuleFunction;

/// How far a worker has come, as it tells the fast path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of the last frame that it has finished with: all that came of it and of those
    /// before is on its way back.
    pub finished: u32,
    /// The ordinal of the oldest packet that waits there for rules to go; `u64::MAX` if none does.
    pub waiting_since: u64,
    /// The earliest time of those packets; [`Instant::NEVER`] if none waits.
    pub oldest_waiting: Instant,
    /// Deadlines of functions have come up to this one, and what they let go of is on its way back.
    pub passed: Moment,
    /// The next.
    pub next_deadline: Moment,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            finished: 0,
            waiting_since: u64::MAX,
            oldest_waiting: Instant::NEVER,
            passed: Moment::START,
            next_deadline: Moment::NEVER,
        }
    }
}

/// What a worker is to do.
pub enum WorkerCommand {
    /// Get ready for another chain: take out the cached rules that changes concern, and let go of
    /// packets that functions keep.
    Prepare {
        /// The new elements.
        plans: Vec<SlowPlan>,
        /// Whether functions let go of packets.
        releases_packets: bool,
        /// The packet clock.
        now: Instant,
    },
    /// Take the chain that was prepared, made of the old one's elements and functions and new
    /// ones.
    Replace {
        /// The new elements.
        plans: Vec<SlowPlan>,
        /// What makes them after a crash.
        blueprint: Blueprint,
        /// How packets pass the new elements, for a worker that they all pass.
        walk: Box<WholeWalk>,
        /// How many chains there were before.
        chain: u16,
        /// The packet clock.
        now: Instant,
    },
    /// Go on with the chain that there is, though another was prepared.
    Keep,
    /// The run ends though packets wait here, or are kept: they are lost.
    GiveUp,
}

/// What a worker says to that.
pub enum WorkerAnswer {
    /// It is done.
    Done,
    /// It is ready for another chain, which comes back.
    Prepared(Vec<SlowPlan>),
    /// The chain is another.
    Replaced(Replaced),
    /// It is not, and nothing has changed: packets wait for rules to go, rules do not go, or the
    /// chain is not the one that was to be changed. The plans come back.
    Refused(Vec<SlowPlan>),
    /// It has crashed while it got ready, and begun anew with the chain that there is. The plans
    /// come back.
    Crashed(Vec<SlowPlan>),
}

/// What has become of a worker's chain.
#[derive(Default)]
pub struct Replaced {
    /// The worker's life: rules of a former one are none of its new chain's.
    pub epoch: u32,
    /// Cached rules that went.
    pub rules_gone: usize,
    /// Cached rules that stayed.
    pub rules_kept: usize,
    /// Functions that the new chain does not have.
    pub left: Vec<Named<dyn RuleFunction>>,
    /// What else is left of the old chain, to be freed where that disturbs nobody.
    pub to_free: DeferredFree,
}

impl Worker {
    /// Does what it is told. Frames for the fast path are appended to `returns`.
    pub fn execute(
        &mut self,
        command: WorkerCommand,
        pools: &mut Pools,
        returns: &mut Vec<Frame>,
    ) -> WorkerAnswer {
        match command {
            WorkerCommand::Prepare {
                plans,
                releases_packets,
                now,
            } => {
                if releases_packets {
                    self.release(now, pools, returns);
                }
                match self.prepare(&plans, now, pools, returns) {
                    Prepared::Ready => WorkerAnswer::Prepared(plans),
                    Prepared::NotThere => WorkerAnswer::Refused(plans),
                    Prepared::Crashed => WorkerAnswer::Crashed(plans),
                }
            }
            WorkerCommand::Keep => {
                self.end_changes();
                WorkerAnswer::Done
            }
            WorkerCommand::GiveUp => {
                self.count_left_inside();
                WorkerAnswer::Done
            }
            WorkerCommand::Replace {
                plans,
                blueprint,
                walk,
                chain,
                now,
            } => match self.replace(plans, blueprint, *walk, now) {
                Ok(replaced) => {
                    self.chain = chain;
                    WorkerAnswer::Replaced(replaced)
                }
                Err(plans) => WorkerAnswer::Refused(plans),
            },
        }
    }
}
