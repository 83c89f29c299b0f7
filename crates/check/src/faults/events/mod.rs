//! What happens in a run: each event takes the world a step on, follows in the record what came of
//! it, and has it checked.

pub mod arrivals;
mod changes;
pub mod fast_path;
mod link;
mod outputs;
pub mod reports;
mod run;
mod sabotage;
mod sending;
pub mod slow_path;
mod tampering;
mod tampering_with_rules;

pub use run::Run;
pub use sabotage::{Sabotage, Saboteur};
