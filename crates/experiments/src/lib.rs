//! Experiments as files: what a paper measured, measured again under virtual time.
//!
//! A [plan](plan) names a [model](model::Model), gives its parameters (a list is a sweep), and says what
//! is expected: the values of a paper, its bounds, or other columns of the result. [`run()`](run::run) does the
//! [sweep] on all cores and writes
//!
//! | file | what is in it |
//! |---|---|
//! | `points.csv` | every point's parameters and what was measured there |
//! | `verdicts.csv` | every expected value, ours, the tolerance, and whether ours is inside |
//! | `NAME.svg` | each figure of the plan, with the expected values beside ours |
//! | `plan.toml` | the plan as it was run |
//!
//! A sweep can be cut into shards for several machines; [`merge`](run::merge) joins them, and what it
//! writes is the same to the byte as without shards. [`document`] tells all results on one page.
//!
//! Models so far: [`turboswitch`], which drives the production mechanism of `twinpath-parking`;
//! [`pisa`], a switch's pipeline cycle by cycle; and [`state_cache`], which packets find their flow's
//! state at the switch.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod chart;
pub mod document;
mod error;
pub mod model;
pub mod pisa;
pub mod plan;
mod results;
pub mod run;
pub mod state_cache;
pub mod sweep;
pub mod testbed;
pub mod traffic;
pub mod turboswitch;
pub mod two_paths;
pub mod verdict;

pub use error::{ExperimentError, PlanError};
pub use plan::Plan;
pub use run::{Options, Outcome, Scale};
pub use sweep::Shard;
