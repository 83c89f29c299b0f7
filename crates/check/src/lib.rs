//! Where the data plane is put to the test, in time that is not real.
//!
//! [`coherence`] searches every interleaving of the coherence protocol, on the transition functions of
//! production, in a world of two flows and one slot. [`faults`] runs the whole data plane of
//! production in a large world, where chance decides what goes wrong, and a seed decides chance.
//! The first is complete but small, the second large but a sample; they check the same invariants. Between
//! them, small runs of the whole data plane are [searched](faults::search) in every order of events, but
//! for a bound on how often one leaves the order of time.
#![forbid(unsafe_code)]

pub mod coherence;
pub mod faults;
