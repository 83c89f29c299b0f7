//! Where the data plane is put to the test, in time that is not real.
//!
//! [`coherence`] searches every interleaving of the coherence protocol, on the transition functions of
//! production, in a world of two flows and one slot. [`faults`] runs the whole data plane of
//! production in a large world, where chance decides what goes wrong, and a seed decides chance.
//! The first is complete but small, the second large but a sample; they check the same invariants.
#![forbid(unsafe_code)]

pub mod coherence;
pub mod faults;
