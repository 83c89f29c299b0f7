//! What kind of headers a packet has.

/// Which IP version a frame carries.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Network {
    /// Neither: ARP and the like.
    None,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Which transport header is there.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Transport {
    /// No header: not IP, or a later fragment.
    None,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP for IPv4.
    Icmp,
    /// ICMP for IPv6.
    Icmp6,
    /// Something that is not looked into; [`Layout::protocol`](crate::layout::Layout::protocol) says what.
    Other,
}

/// Which part of a datagram a packet is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fragment {
    /// All of it.
    Whole,
    /// The first part, with the transport header.
    First,
    /// Another part, without a transport header.
    Later,
}

impl Fragment {
    /// Classifies a fragment by its offset and whether more follow.
    #[must_use]
    #[inline(always)]
    pub const fn of(offset_bytes: u32, more: bool) -> Self {
        match (offset_bytes, more) {
            (0, false) => Self::Whole,
            (0, true) => Self::First,
            _ => Self::Later,
        }
    }
}
