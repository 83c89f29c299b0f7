//! The configuration of a DPU, as it is asked for piece by piece and as packets meet it.
//!
//! A [`Store`] takes [changes](crate::objects::Change) in any order. What refers to something that
//! is not there waits for it; what cannot be is refused, and tried again when that changes; what
//! others refer to is deleted when they are gone. What is in force is a [`Configuration`], in which
//! nothing refers to what is not there. It is published as a [`Snapshot`], a whole batch of changes
//! at a time: so packets meet what was before a batch or what is after it.
//!
//! Snapshots share what has not changed. Each has an epoch, and knows for each ENI in which epoch
//! it was [touched](Touched) last: a flow that was decided before is decided again with its next
//! packet.

mod adopt;
mod configuration;
mod costs;
mod each;
mod false_ways;
mod interned;
mod obstacle;
mod one_version;
#[cfg(test)]
mod place_tests;
mod shadowed;
mod shared_map;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod touched;
mod unfiltered;
#[cfg(test)]
mod version_tests;
mod warnings;
mod without_effect;

pub use configuration::Configuration;
pub use costs::Costs;
pub use obstacle::{NOT_THERE, Obstacle, Why};
pub use shared_map::SharedMap;
pub use store::{Applied, Limits, Origin, Snapshot, Store, Waiting};
pub use tables::{
    AclTable, ByPrefix, Differing, EniTable, InboundMatch, MeterTable, PortMapTable, RouteTable,
    Stages, VnetTable,
};
pub use touched::Touched;
pub use warnings::Warning;
