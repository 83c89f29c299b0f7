//! The constrained switch.
//!
//! What a match-action pipeline offers, and nothing more: a [`StateTable`] of registers that
//! packets read and write, a count-min [`Sketch`] that tells frequent flows from rare ones, an
//! [`Interpreter`] for the network functions' fast programs (which runs them as machine code where
//! it can), and a [`budget`] that refuses programs which a given device could not run.
//!
//! This room knows no protocol between the paths: which state lives here and when is the
//! business of the mechanisms, which build on these parts.
// Calling generated machine code takes `unsafe`; only `native` may.
#![deny(unsafe_code)]

pub mod budget;
mod compile;
pub mod few_words;
pub mod interpreter;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod native;
#[cfg(not(target_arch = "x86_64"))]
#[path = "native_absent.rs"]
mod native;
pub mod sketch;
pub mod state_table;

pub use budget::{Budget, BudgetError, Placement};
pub use interpreter::{Interpreter, PacketView, PlainPrograms, PlainView, StepTaken};
pub use sketch::Sketch;
pub use state_table::StateTable;
