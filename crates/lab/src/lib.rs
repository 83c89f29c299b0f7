//! Virtual time: faults, checkers and the protocol's model check.
#![forbid(unsafe_code)]

pub mod check;
pub mod faults;
