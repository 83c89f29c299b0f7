//! Where everything is in a frame: the one walk over its headers.

mod plain;
mod walk;

use crate::bytes::u16_at;
use crate::link;
use crate::malformed::Malformed;

pub use crate::kinds::{Fragment, Network, Transport, Unparsed};
pub use crate::link::{MAX_MPLS_LABELS, MAX_VLAN_TAGS};
pub use plain::{Plain, PlainEnds};

/// The longest frame: an untagged or once-tagged Ethernet header and the largest IP datagram.
pub const MAX_FRAME_BYTES: usize = 65_535 + 18;
/// How much of an offending packet's transport header an ICMP error must quote to be of use.
pub const MIN_INNER_TRANSPORT_BYTES: usize = 8;

/// Where the headers of a frame begin; all offsets count bytes from its first.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
// In this order and without reordering the compiler needs fewer stores for a plain packet.
#[repr(C)]
pub struct Layout {
    /// The IP header, behind tags, labels and the like; without one what stands behind VLAN tags.
    pub l3: u16,
    /// The transport header; the data of a later fragment.
    pub l4: u16,
    /// What follows the transport header; equal to [`l4`](Self::l4) where there is none.
    pub payload: u16,
    /// End of the IP datagram, without Ethernet padding; end of the frame if it is not IP.
    pub end: u32,
    /// IP version.
    pub network: Network,
    /// Transport header.
    pub transport: Transport,
    /// IP protocol number, after IPv6 extension headers; zero if not IP.
    pub protocol: u8,
    /// Which part of a datagram this is.
    pub fragment: Fragment,
    /// The packet that an ICMP error complains about.
    pub inner: Option<Inner>,
}

/// Where the headers of the packet inside an ICMP error begin.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The inner IP header.
    pub l3: u16,
    /// The inner transport header, of which at least
    /// [`MIN_INNER_TRANSPORT_BYTES`] are there.
    pub l4: u16,
    /// IP version, the same as the outer one.
    pub network: Network,
    /// IP protocol number, after IPv6 extension headers.
    pub protocol: u8,
}

const _: () = assert!(size_of::<Layout>() <= 32);

impl Default for Layout {
    /// The layout of an empty frame, which is not IP.
    fn default() -> Self {
        Self {
            l3: 0,
            l4: 0,
            payload: 0,
            end: 0,
            network: Network::None,
            transport: Transport::None,
            protocol: 0,
            fragment: Fragment::Whole,
            inner: None,
        }
    }
}

impl Layout {
    /// The same layout, moved field by field. Where `dissect` is inlined this keeps the layout of
    /// a plain packet in registers: otherwise both paths would share one place in memory, written
    /// in small pieces and at once read in large ones, which stalls the processor.
    #[inline(always)]
    const fn taken_apart(self) -> Self {
        let Self {
            l3,
            l4,
            payload,
            end,
            network,
            transport,
            protocol,
            fragment,
            inner,
        } = self;
        let inner = match inner {
            Some(Inner {
                l3,
                l4,
                network,
                protocol,
            }) => Some(Inner {
                l3,
                l4,
                network,
                protocol,
            }),
            None => None,
        };
        Self {
            l3,
            l4,
            payload,
            end,
            network,
            transport,
            protocol,
            fragment,
            inner,
        }
    }

    /// Whether the frame carries IPv4 or IPv6.
    #[must_use]
    #[inline(always)]
    pub const fn is_ip(&self) -> bool {
        !matches!(self.network, Network::None)
    }

    /// Bytes of payload after the transport header, as far as the IP datagram goes.
    #[must_use]
    #[inline(always)]
    pub const fn payload_bytes(&self) -> usize {
        self.end.saturating_sub(self.payload as u32) as usize
    }
}

/// Walks the headers of `frame`, which starts with Ethernet.
///
/// Up to [`MAX_VLAN_TAGS`] tags are followed, and behind them up to [`MAX_MPLS_LABELS`] labels, a
/// PPPoE session, or LLC and SNAP. A frame in which no IP packet is found so is fine and has
/// [`Network::None`] (see [`unparsed`]). Checksums are not looked at, see [`crate::verify`].
///
/// # Errors
/// Whatever is wrong with the headers up to and including the transport header. What an ICMP
/// error quotes is never an error: it is only missing from [`Layout::inner`].
#[inline]
pub fn dissect(frame: &[u8]) -> Result<Layout, Malformed> {
    match dissect_plain(frame) {
        Some(layout) => Ok(layout),
        None => {
            look_closer();
            Ok(walk::dissect_any(frame)?.taken_apart())
        }
    }
}

/// [`dissect`] for the one kind of frame that nearly all are: IPv4 without options behind one tag at
/// most, whole, with TCP or UDP. `None` for every other, be it good or bad.
#[inline(always)]
#[must_use]
pub fn dissect_plain(frame: &[u8]) -> Option<Layout> {
    Plain::of(frame).map(Plain::layout)
}

/// [`dissect`] for a frame that is known not to be [plain](dissect_plain): TCP and UDP over IPv6 first.
///
/// # Errors
/// As there.
#[inline(always)]
pub fn dissect_other(frame: &[u8]) -> Result<Layout, Malformed> {
    match plain::plain_v6(frame) {
        Some(layout) => Ok(layout),
        None => {
            look_closer();
            Ok(walk::walk(frame)?.taken_apart())
        }
    }
}

/// Tells the compiler that the plain path is to be the straight one. (Were the general path itself
/// marked cold, it would be built for size.)
#[cold]
const fn look_closer() {}

/// The EtherType after all VLAN tags, for frames that are not IP.
#[must_use]
pub fn ether_type(frame: &[u8], layout: &Layout) -> u16 {
    u16_at(frame, usize::from(layout.l3).wrapping_sub(2))
}

/// Whether a frame's IP packet stands behind MPLS labels, which say nothing of the way back.
#[must_use]
pub fn has_labels(frame: &[u8]) -> bool {
    link::has_labels(frame)
}

/// What a frame carries in which no IP packet was found; `None` if one was.
#[must_use]
pub fn unparsed(frame: &[u8], layout: &Layout) -> Option<Unparsed> {
    let is_unparsed = layout.network == Network::None;
    is_unparsed.then(|| link::unparsed(frame, layout.l3.into()))
}
