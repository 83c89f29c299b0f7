//! Ethernet frames inside IP packets: VXLAN (RFC 7348) and NVGRE (RFC 7637).
//!
//! ```text
//! VXLAN | Ethernet | IPv4 or IPv6 | UDP to 4789 | flags, VNI 8   | inner Ethernet ...
//! NVGRE | Ethernet | IPv4 or IPv6 |             | GRE with key 8 | inner Ethernet ...
//! ```
//! [`Tunnel::read`] finds the inner frame of one that was dissected; taking the outer headers off is
//! to go on with those bytes alone, which are dissected by themselves. [`Outer::emit`] writes headers
//! in front of a frame that lies in its place already, so that none is copied; two layers are two
//! calls, the inner one first. What congestion the outer headers met goes into the inner one with
//! [`ecn`], and [`entropy`] is what spreads the flows inside over the paths of the network outside.

pub mod ecn;
mod entropy;
mod push;
mod read;

pub use entropy::{SourcePorts, entropy, entropy_of};
pub use push::{Outer, Varying};
pub use read::{Tunnel, TunnelMalformed};

use crate::ethernet;

/// The UDP port that says VXLAN.
pub const VXLAN_PORT: u16 = 4789;
/// Flags, VNI and what is reserved.
pub const VXLAN_HEADER_BYTES: usize = 8;
/// Flags, protocol, virtual subnet and flow.
pub const NVGRE_HEADER_BYTES: usize = 8;
/// VNIs and virtual subnets have 24 bits.
pub const MAX_KEY: u32 = (1 << 24) - 1;
/// The least that is inside.
pub const MIN_INNER_BYTES: usize = ethernet::HEADER_BYTES;

/// VXLAN's flag that there is a VNI.
const HAS_VNI: u8 = 0x08;
/// GRE's flags and version: a key and nothing else.
const HAS_KEY: u16 = 0x2000;
/// GRE's protocol of Ethernet frames.
const TRANSPARENT_ETHERNET: u16 = 0x6558;

/// How frames travel in IP packets.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Encapsulation {
    /// In UDP, with a VNI.
    Vxlan,
    /// In GRE, with a virtual subnet and the number of a flow as its key.
    Nvgre,
}
