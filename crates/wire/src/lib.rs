//! Everything Twinpath knows about bytes on the wire.
//!
//! A packet arrives as a slice of bytes that starts with an Ethernet header. [`layout::dissect`]
//! walks its headers once and answers with a [`Layout`]: twenty bytes that say where the IP
//! header, the transport header and the payload begin, and what they are. Everybody after that
//! works with the pair of frame and layout:
//!
//! * [`fields`] reads addresses, ports, sequence numbers and the payload,
//! * [`rewrite`] changes them in place and mends every checksum that covers them,
//! * [`kv`] reads and writes the key-value protocol inside a UDP payload, [`roce`] the packets of
//!   RDMA there,
//! * [`tunnel`] finds and writes Ethernet frames inside VXLAN and NVGRE, [`translate`] turns packets
//!   of one IP version into the other's.
//!
//! Where a single header matters, each protocol has a file ([`ethernet`], [`vlan`], [`ipv4`],
//! [`ipv6`], [`tcp`], [`udp`], [`icmp`]) with two types: a *view* borrows bytes after one length
//! check and reads fields out of them; a *representation* is plain data that was checked once and
//! can be emitted into a buffer. [`build::PacketBuilder`] puts representations together to whole
//! frames for tests and traffic generation.
//!
//! IPv4 and IPv6 share one code path wherever they can: an [`Address`] is one 128-bit number, in
//! which IPv4 addresses are the v4-mapped block `::ffff:0:0/96`. An IPv6 packet that carries such
//! an address is refused as malformed, so no two different packets look alike.
//!
//! A file imports from those of lower layers alone (`tests/layers.rs`), besides a folder's from each
//! other: what can be wrong and what kinds of headers there are; bytes, checksums and options; the
//! single headers; what stands in front of IP; [`layout`]; [`fields`]; [`verify`]; [`rewrite`]; [`build`].
//!
//! Nothing here allocates (except the builder's `to_vec`), panics on input, keeps state or looks
//! at a clock. Whatever is wrong with a frame is one value of [`Malformed`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod address;
pub mod arp;
pub mod build;
pub mod build_error;
mod bytes;
pub mod checksum;
pub mod ethernet;
pub mod fields;
pub mod fragment;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod kinds;
pub mod kv;
pub mod layout;
mod link;
pub mod malformed;
pub mod neighbor;
pub mod options;
pub mod protocol;
pub mod rewrite;
pub mod roce;
pub mod tcp;
pub mod translate;
pub mod tunnel;
pub mod udp;
pub mod unicast;
pub mod verify;
pub mod vlan;

pub use address::{Address, AddressError, Endpoint, MacAddress};
pub use build::PacketBuilder;
pub use build_error::BuildError;
pub use kinds::{Fragment, Network, Transport, Unparsed};
pub use layout::{Inner, Layout, dissect};
pub use malformed::Malformed;
pub use rewrite::RewriteError;
pub use verify::{verify_inner_ipv4_checksum, verify_ipv4_checksum, verify_transport_checksum};
