//! What a machine has workers do besides receiving frames.

use crate::replacement::{CorePlan, Leftovers};
use crate::worker::{Blueprint, Worker};
use twinpath_core::{Frame, Instant, Pools, Steering};
use twinpath_rulecache::ChangeError;

/// What a worker is to do.
pub enum Order {
    /// Let go of all packets that functions keep: the chain is about to change.
    Release(Instant),
    /// Take another chain, made of the old one's elements and functions and new ones.
    Replace {
        /// The new elements.
        plans: Vec<CorePlan>,
        /// What makes them after a crash.
        blueprint: Blueprint,
        /// How packets are assigned to flows.
        steering: Steering,
        /// The packet clock.
        now: Instant,
    },
    /// Let all deadlines come: the run ends.
    Finish,
}

/// What a worker says to that.
pub enum Answer {
    /// It is done.
    Done,
    /// The chain is another. Functions that refused their new configuration go on with the old one;
    /// what is left of the old chain may be freed where that disturbs nobody.
    Replaced(Vec<ChangeError>, Leftovers),
    /// Packets wait for rules to go: nothing has changed.
    Refused(Vec<CorePlan>),
}

impl Worker {
    /// Does what it is told. Frames for the fast path are appended to `returns`.
    pub fn execute(&mut self, order: Order, pools: &mut Pools, returns: &mut Vec<Frame>) -> Answer {
        match order {
            Order::Release(now) => {
                self.release(now, pools, returns);
                Answer::Done
            }
            Order::Finish => {
                self.advance(Instant::NEVER, pools, returns);
                Answer::Done
            }
            Order::Replace {
                plans,
                blueprint,
                steering,
                now,
            } => match self.replace(plans, blueprint, steering, now) {
                Ok((refused, left)) => Answer::Replaced(refused, left),
                Err(plans) => Answer::Refused(plans),
            },
        }
    }
}
