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
//! writes is the same to the byte as without shards. [`reproduction`] keeps all results, tells them on one
//! page, and checks that the page is current.
//!
//! Models so far: [`two_paths`], the production node on a paper's devices, with the systems that papers
//! compare with; [`turboswitch`], which drives the production mechanism of `twinpath-parking`;
//! [`ribosome`], which drives the stages of `twinpath-remote` and `twinpath-parking` and memory servers;
//! [`pisa`], a switch's pipeline cycle by cycle; [`sfc_pipeline`], what chains take of a pipeline;
//! [`smart_switch`], DPUs behind a switch that run the production DASH; [`shards`], a service over many
//! cores; and [`measured`], what a bench has measured on the code itself.
//!
//! Devices are in [`testbed`] files, every number with its evidence; [`traffic`] is what plans ask for.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bars;
mod chart;
pub mod document;
mod error;
pub mod measured;
mod measured_costs;
pub mod model;
mod number;
pub mod pisa;
pub mod plan;
pub mod registry;
pub mod reproduction;
mod results;
pub mod ribosome;
pub mod run;
pub mod sfc_pipeline;
pub mod shards;
pub mod smart_switch;
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
