//! Whether two captures hold the same packets.
//!
//! The server-only path is the oracle: whatever both paths put out must be what the slow path alone put
//! out, byte for byte and in order *per flow and direction*. [`Comparison`] answers that question
//! for two captures, or for packets in memory, and tells the first [`Difference`] in words.
//!
//! # Flows and directions
//! Packets with the same addresses, ports and protocol, as they stand in the packet, are one flow
//! in one direction. Fragments go by their datagram: only its first one has ports, so whoever knows
//! them may treat each datagram as its own flow's. ICMP errors go by the packet that they quote. Frames without IP, and those whose headers
//! are malformed, go by EtherType. Between flows, and between directions, no order is compared.
//!
//! With [`Options::inner`] packets in tunnels (VXLAN, NVGRE) are those inside: their flow is that of the
//! innermost packet, of its two MAC addresses too, for tenants may use the same addresses. The headers
//! around it are compared as well, but for fields that do not count.
//!
//! # Renaming
//! Which free external port an address translation takes is nobody's business. With
//! [`Renaming`] the *names* within given external addresses (protocol, address, and port or echo
//! identifier) may differ, up to a one-to-one renaming that holds as long as a binding lives:
//!
//! 1. Wherever a name stands in a packet (source, destination, source or destination of what an
//!    ICMP error quotes) it is blanked, and every checksum that covers it is mended, so that a
//!    checksum that was wrong stays wrong.
//! 2. What a name said from one long silence to the next is the *life* of one binding: for each
//!    blanked flow the sequence of its blanked packets.
//! 3. Lives of A and B are paired one to one, and paired ones must say the same, to the last byte.
//!    Lives that say the same are interchangeable, and are paired in order of their first packets.
//!    A name has one life at a time, so a name of one capture that stands for two bindings of the
//!    other finds no partner.
//! 4. A packet in which several names stand is part of the lives of all; their partners must have
//!    one and the same packet in its place.
//!
//! With the names go the identifications of datagrams over IPv4 from external addresses that are not
//! atomic (RFC 6864): a translation draws a number for each, and each path from numbers of its own.
//! Those of whole packets are blanked, and those that ICMP errors quote of anybody. Fragments get one that follows from what their datagram's
//! first one says, so that those which belong together still must.
//!
//! This takes time and memory in proportion to the number of packets (of which only digests of 128
//! bits are kept), and never accepts a pairing that is not a renaming. What is assumed:
//!
//! - A binding is over when its name has been silent, in the direction in which the name can be
//!   seen, for [`Renaming::binding_idle`]. If bindings end earlier and their names are used anew
//!   within that time, a difference is told although there may be none. A binding that is silent
//!   for longer may have another name afterwards, and order between two lives is not compared.
//!   Silence is told by the timestamps, which are taken to be about the same in both captures: what
//!   one name says with a silence in one capture and without one in the other is one life in both.
//! - Which host inside stands behind a name cannot be seen in packets that have left, only what the
//!   name said. Answers are compared at the hosts inside, whose addresses are never renamed.
//! - A later fragment belongs to the name in the first fragment of its datagram if that came
//!   before; if not, and for protocols without ports, the name is the address alone.
//! - The order between fragments of several names is not compared.
//! - A packet in which two names stand is where caution wins: if several lives say the same, a
//!   difference may be told although another pairing would fit.
//!
//! ```
//! use twinpath_compare::{Comparison, Options};
//!
//! let frame = [0; 60];
//! let packets = [(1, &frame[..]), (2, &frame[..])];
//! let comparison = Comparison::new(Options::default());
//! let same = comparison.compare(packets.into_iter(), packets.into_iter());
//! assert_eq!(same.unwrap().packets, 2);
//! let different = comparison.compare(packets.into_iter(), packets.into_iter().take(1));
//! assert_eq!(
//!     different.unwrap_err().to_string(),
//!     "in frames of EtherType 0x0000, packet 2 of the flow (packet 2 of A) is missing in B, \
//!      which has 1 packet of it"
//! );
//! ```
#![forbid(unsafe_code)]

mod comparison;
mod datagram;
mod difference;
mod digest;
mod drawn;
mod fields;
mod flow;
mod ids;
mod index;
mod lives;
mod merged;
mod names;
mod normal;
mod options;
mod packets;
mod protocol;
mod silences;
mod streams;
mod tunnels;
mod words;

pub use comparison::{Comparison, Summary};
pub use difference::{Between, Capture, Difference, FlowText, Mention, Problem};
pub use fields::Field;
pub use ids::blank_drawn;
pub use options::{DEFAULT_BINDING_IDLE, Inner, NoSuchField, Options, OuterField, Renaming};
