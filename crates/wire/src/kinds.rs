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

macro_rules! unparsed {
    ($($(#[doc = $doc:literal])+ $name:ident => $text:literal,)+) => {
        /// What a frame carries in which no IP packet was found.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Unparsed {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Unparsed {
            /// Every value, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// What counters and reports call it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What it is, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc,)+).trim_ascii_start(),)+
                }
            }
        }
    };
}

unparsed! {
    /// ARP.
    Arp => "unparsed_arp",
    /// IEEE 802.3 with LLC, as spanning trees have it, and no IP packet behind SNAP.
    Llc => "unparsed_llc",
    /// An MPLS label stack with something else than an IP packet, or a deeper one than is followed.
    Mpls => "unparsed_mpls",
    /// PPPoE's discovery, or a session with something else than an IP packet.
    Pppoe => "unparsed_pppoe",
    /// Any other EtherType.
    EtherType => "unparsed_ether_type",
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
