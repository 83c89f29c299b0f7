//! Network interfaces of a Linux host as ports of a node.
//!
//! A [`Port`] gives bursts of frames in buffers of the node's pool and takes bursts that leave. It
//! starts no thread; [`wait`] blocks until one of several has something, so that an idle node takes
//! no processor. What lies beneath is a driver:
//!
//! | driver | what it is | offloads |
//! |---|---|---|
//! | [`packet`] | AF_PACKET sockets: any interface, whatever else uses it | told by the kernel: half-made checksums are completed, segments that are larger than the MTU pass whole and are cut by the kernel or the card |
//! | [`xdp`] | AF_XDP sockets on all queues: the kernel's network stack is left out, packets are the port's alone | none: on a pair of virtual interfaces, where checksums may be half made, they are [completed](offload) |
//! | [`tap`] | an interface of its own, for programs on this host | as AF_PACKET |
//!
//! One packet's way in: the driver's socket → a buffer of the pool → [`offload`] (checksum, size of
//! segments, tag) → the burst. And out: the node's frame → a queue → [`Port::flush`] → the socket.
//!
//! Several threads may share an interface: each opens its [`Part`] of it, which has some of its queues.
//!
//! Sockets may be [kept](descriptor_store) while one process ends and the next one begins.
//!
//! Nothing here waits for room: what the kernel does not take is dropped and counted
//! ([`PortCounters`]). An interface that goes down or disappears is told once, tried again, and
//! taken up when it is back.

mod addresses;
mod all_stations;
mod carrier;
mod changed_setting;
mod claim;
mod counters;
pub mod descriptor_store;
mod filter;
pub mod interface;
mod master;
mod messages;
pub mod offload;
pub mod packet;
mod part;
mod port;
mod program;
mod stripping;
mod sys;
pub mod tap;
mod umem;
pub mod xdp;

pub use addresses::{
    KernelAddress, kernel_addresses, kernel_forwards, kernel_takes_advertisements,
};
pub use counters::PortCounters;
pub use descriptor_store::DescriptorStore;
pub use master::Master;
pub use part::Part;
pub use port::{Driver, OpenError, Port, PortConfig, State, wait};
pub use program::HostPrefix;
pub use sys::peer_groups;
pub use xdp::{Copying, Flood};
