//! A service spread over shards: each is a whole node with threads of its own, which has some of the
//! connections and shares nothing with others that packets change.
//!
//! A packet's [`Partition`] says which shard it belongs to. A shard's node is built from
//! [its share](share()) of the service. Where packets come from a capture or a generator, each shard
//! reads that by itself and takes its [`Part`](crate::source::Part); what leaves all of them is
//! [`Merged`] in the order of time; packets between hosts inside of two shards go [`Across`]. Where
//! packets come from network interfaces, each shard has some of their queues, and there is a [`Handoff`]
//! for packets that come by another's. A run with all its shards is in [`run`](crate::run).

mod across;
mod handoff;
mod merged;
mod partition;
mod share;

pub use across::Across;
pub use handoff::Handoff;
pub use merged::{Merged, MergedEnd};
pub use partition::{Crossing, CurrentPartition, Partition};
pub use share::share;
