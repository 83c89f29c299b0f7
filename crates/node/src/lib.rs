//! Composition: a service file becomes a fast path, workers and the rings between them.
//!
//! [`wiring`] shows a packet's whole walk on one screen. The same [`FastPath`] and [`Worker`] run
//! under [`virtual_time`], in one thread and perfectly repeatable, and under [`threads`], each on
//! a thread of its own.
#![forbid(unsafe_code)]

pub mod fast_path;
pub mod worker;

pub use fast_path::{BATCH, Departure, FastOutput, FastPath, Via};
pub use worker::Worker;
