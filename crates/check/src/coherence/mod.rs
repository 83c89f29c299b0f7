//! Exhaustive check of the coherence protocol.
//!
//! Two flows share one slot of the fast path; a link carries frames to the slow path and back. Every
//! order in which packets arrive, frames are delivered, lost or overtaken, timers run out, the
//! network function passes, drops or holds packets, and the workers crash, is searched, and in
//! every state the eight [`Invariant`]s of the protocol are checked.
//!
//! **Production decides.** Every transition is made by the functions that the data plane runs:
//! [`Slot::step`](twinpath_coherence::fsm::Slot::step) on the fast path,
//! [`Grant`](twinpath_coherence::Grant) on the slow path, [`Receiver`](twinpath_link::Receiver) on
//! both ends of the link. Around them stand thin copies of the wrappers `coherence::fast` and
//! `coherence::slow`, function by function, without packets' bytes: they choose events, compare
//! keys, and carry actions out.
//!
//! **The network function's value is the list of packets it has applied**, so that a lost,
//! doubled or reordered update shows. A bystander keeps the true list; the two are compared in
//! every state.
//!
//! **Runs are of any length.** Only the frames in flight are bounded. States that differ only in
//! names are one state (see `rename`), which makes their number finite; so "holds" speaks of all
//! runs with any number of packets, losses, time-outs and crashes, not of runs up to a length.
//!
//! **After a crash of the slow path** a flow whose value is the fast path's (ACTIVE, or FROZEN and
//! not imported) must go on as if nothing had happened. Any other flow was in the slow path's hands
//! and is reset: it goes on from nothing, unless a copy of its last frozen value, or of the value
//! just granted, is still under way or in the slot and comes first; then it goes on from there.
//! Which of the two, the first frame of the flow decides, and from then on it is held to it.
//!
//! What is not searched: more than one slot, core or fast path; wrap-around of generations and
//! epochs; the pause after repeated cancellations (the next hot packet may pull at once, which
//! includes it); which end opened a flow, which travels with the value. States are told apart by
//! 64-bit fingerprints, so that with some millions of them the chance to miss one is about one
//! in a million.

mod checks;
mod class;
mod fast;
mod invariants;
mod model;
mod rename;
mod rules;
mod scope;
mod search;
mod slow;
mod state;
mod story;
#[cfg(test)]
mod tests;
mod truth;
mod value;

pub use invariants::Invariant;
pub use scope::{Budget, Scope, UNLIMITED};

use rules::Rules;
use std::fmt;
use std::time::Duration;
use twinpath_coherence::safeguards::{Safeguard, Without};

/// How far a search has come.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Steps taken.
    pub steps: usize,
    /// Different states seen.
    pub states: usize,
    /// Longest way on which a state was first met.
    pub depth: usize,
    /// Time since the search began.
    pub elapsed: Duration,
    /// Whether this is the last report.
    pub is_done: bool,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every invariant holds in every state.
    Holds {
        /// Steps taken; several lead to each state.
        steps: usize,
        /// Different states.
        states: usize,
        /// Longest way on which a state was first met: with one thread, the longest of the shortest
        /// ways.
        depth: usize,
    },
    /// A shortest way to break an invariant.
    Broken {
        /// The invariant, the most telling if several break at once.
        invariant: Invariant,
        /// What happens, step by step, in words.
        steps: Vec<String>,
        /// How the invariant is broken in the end, in words.
        outcome: String,
        /// What comes of it: the shortest way on to a value that is wrong for good, and how; empty
        /// if it is wrong already or no such way is near.
        consequence: Vec<String>,
    },
    /// The search gave up at its limit of steps without finding anything.
    Unfinished {
        /// Steps taken.
        steps: usize,
        /// Different states seen.
        states: usize,
    },
}

/// Checks the protocol, with all safeguards or without one of them.
pub fn check(scope: &Scope, without: Option<Safeguard>) -> Verdict {
    check_and_report(scope, without, |_| {})
}

/// Like [`check`], with a report of progress about every 100 ms and one at the end.
pub fn check_and_report(
    scope: &Scope,
    without: Option<Safeguard>,
    progress: impl FnMut(Progress) + Send,
) -> Verdict {
    let rules = Rules {
        scope: scope.clamped(),
        safeguards: Without(without),
        renames: true,
    };
    search::search(rules, progress).unwrap_or_else(|found| story::tell(&rules, &found))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds {
                steps,
                states,
                depth,
            } => write!(
                f,
                "all {} invariants hold in all {states} states ({steps} steps searched, none further than {depth} from the start)",
                Invariant::ALL.len()
            ),
            Self::Broken {
                invariant,
                steps,
                outcome,
                consequence,
            } => {
                number(f, steps, 1)?;
                write!(f, "This breaks invariant {invariant}.\n{outcome}")?;
                let Some((harm, onward)) = consequence.split_last() else {
                    return Ok(());
                };
                writeln!(f, "\nWhat comes of it:")?;
                number(f, onward, steps.len() + 1)?;
                write!(f, "{harm}")
            }
            Self::Unfinished { steps, states } => write!(
                f,
                "unfinished: nothing found in {states} states ({steps} steps), but there are more"
            ),
        }
    }
}

fn number(f: &mut fmt::Formatter<'_>, steps: &[String], first: usize) -> fmt::Result {
    (first..)
        .zip(steps)
        .try_for_each(|(number, step)| writeln!(f, "{number:>3}. {step}"))
}
