//! A rate limiter: a token bucket for each flow and direction, or for each network (Ribosome §4).
//!
//! A bucket holds as much as a burst, and fills up at the rate. A packet that finds as much in it as it
//! takes (its bytes, or one) takes that and passes; what finds less is *excess*, and is dropped, or
//! delayed until the bucket has enough. So over any time a flow gets what its rate gives in that time,
//! and a burst.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [rate_limiter]
//! rate_bps = 20_000_000
//! burst_bytes = 64_000
//! excess = "delay"
//! longest_delay = "20ms"
//! ```
//!
//! # Buckets of networks
//! With `per = "source"` all packets from one network take from the same bucket, whatever flow they are
//! of, and with `per = "destination"` all to one network do. What counts as one network is said by
//! `v4_prefix_bits` and `v6_prefix_bits`: by default an IPv4 address, and 64 bits of an IPv6 address.
//! Who wants more than one limit puts several rate limiters into the chain, under names of their own.
//!
//! ```toml
//! [rate_limiter]
//! per = "source"
//! v4_prefix_bits = 24
//! v6_prefix_bits = 48
//! rate_bps = 100_000_000
//! ```
//! All workers have these buckets together, and all shards, each of which takes in its own time: under
//! virtual time, where shards do not wait for each other, what passes depends on how far each is. All
//! packets go to the slow path, with those of functions that share the element.
//!
//! A bucket that is full again is forgotten. So a network has one of its own as long as at most
//! `most_prefixes` are in use at a time, or a little less, for the places of some may all be taken
//! earlier. What finds no place takes from a bucket that all such networks have together
//! (`crowded`): whoever sends from many networks gets what one gets, and keeps no other from its own.
//!
//! # What is counted
//! A packet's bytes are those of its IP packet, whatever is in front of it. Fragments belong to the
//! flow that the first of their datagram tells. An ICMP error takes from the bucket of the
//! network that it is from, or for; from that of a flow it takes nothing, and passes: whoever sends it says
//! which flow it is about.
//!
//! Time is that of packets' arrival, in whole units of a power of two nanoseconds, a quarter of one at
//! least, as fine as the burst allows in 32 bits. What a packet takes is rounded up to a unit: a flow
//! never gets more than its rate, and at 10 Gb/s and below at most one in a hundred less, mostly one in
//! ten thousand. Both paths compute with the same ones, so the same packets
//! pass on either, to the nanosecond.
//!
//! # Excess
//! With `excess = "drop"` it is dropped (`rate_limited`). With `"delay"` it waits in a line of its flow and
//! direction, and leaves the moment that the bucket has enough, stamped with that time: the order of
//! the flow and direction stays. What would wait longer than `longest_delay`, or finds as many packets or bytes of
//! its flow in line as may be, is dropped (`rate_limited`), and takes nothing from the bucket; what
//! finds as many packets of all flows in line as may be is dropped for want of room (`buffer_full`). A packet that
//! is longer than the burst never passes.
//!
//! Where packets are split (`[split]`) it is headers that wait here; their payloads wait in remote memory,
//! and a header's slot is in use all the while. So `header_timeout` there should be longer than
//! `longest_delay`, else another packet may get the slot, and the late one is dropped
//! (`header_missing`).
//!
//! # On the fast path
//! Five state words: for each direction, limited or not, the time at which its bucket will be full, and when it was
//! last seen. Packets within the rate pass on the fast path, and excess that is dropped is dropped there. What
//! takes bytes needs a product, which a switch does not have: there a limiter of packets alone
//! runs on the fast path. Buckets of networks are on the slow path alone. A direction's first packet, and delayed excess, are for the slow path. While anything of
//! a flow waits all of its packets go there.
//!
//! # Flows that are forgotten
//! An idle flow is forgotten after `idle_timeout`, by when its buckets are full: that changes nothing.
//! Where there is no room for another flow, that which has been silent for longest gives its place, unless
//! something of it waits, and its buckets are full when it comes back. What a worker knew when it
//! crashed is gone, likewise. Buckets of networks are remembered then.
//!
//! # Changes
//! With another rate, burst or time all buckets are full again. What waits leaves first, in
//! order.
//!
//! # Counters
//! They are of packets that the slow path had; what the fast path dropped is counted with the others by its
//! reason, `rate_limited`.
//!
//! | counter | meaning |
//! |---|---|
//! | `conforming` | packets within the rate |
//! | `passed` | packets of a direction that is not limited, and ICMP errors where buckets are flows' |
//! | `delayed`, `released` | packets that began to wait, and those that had waited and left |
//! | `dropped` | excess that was dropped |
//! | `too_late` | of it, what would have waited longer than `longest_delay`, or is longer than the burst |
//! | `line_full` | of it, what found its flow's line full |
//! | `buffer_full` | packets that found all lines together full, dropped for want of room |
//! | `crowded` | packets whose network had no bucket of its own |
//! | `forgotten` | packets in line that were lost with their flow when the workers were reset |

mod config;
mod counters;
mod descriptor;
mod function;
mod meter;
mod prefixes;
mod program;
mod state;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, Directions, Excess, Per};
pub use counters::Counters;
pub use descriptor::FUNCTION;
pub use function::RateLimiter;

/// The function's name.
pub const NAME: &str = "rate_limiter";
