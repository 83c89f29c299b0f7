//! What can be wrong with a frame.

use thiserror::Error;

macro_rules! malformed {
    ($($(#[doc = $doc:literal])+ $name:ident => $text:literal,)+) => {
        /// Why a frame was refused. One byte wide, so that it fits a drop reason.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
        #[repr(u8)]
        pub enum Malformed {
            $($(#[doc = $doc])+ #[error($text)] $name,)+
        }

        impl Malformed {
            /// Every value, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The variant's name, as counters and reports print it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// What it means, in a sentence or two.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc,)+).trim_ascii_start(),)+
                }
            }
        }
    };
}

malformed! {
    /// Fewer than 14 bytes.
    TruncatedEthernet => "frame shorter than an Ethernet header",
    /// A tag was announced but its four bytes are not all there.
    TruncatedVlan => "frame ends inside a VLAN tag",
    /// More than [`MAX_VLAN_TAGS`](crate::layout::MAX_VLAN_TAGS) tags.
    TooManyVlanTags => "more VLAN tags than are followed",
    /// Fewer than 20 bytes of IPv4 header, or fewer than its own length says.
    TruncatedIpv4 => "frame ends inside the IPv4 header",
    /// EtherType IPv4, but another version in the header.
    Ipv4Version => "IPv4 header with another version",
    /// Header length below 20 bytes.
    Ipv4HeaderLength => "IPv4 header length below 20 bytes",
    /// Total length longer than the frame or shorter than the header.
    Ipv4TotalLength => "IPv4 total length longer than the frame or shorter than the header",
    /// Header checksum does not hold. Dissection does not look; only reported when asked.
    Ipv4Checksum => "IPv4 header checksum does not hold",
    /// IPv4 options that run over their end or have an impossible length.
    Ipv4Options => "malformed IPv4 options",
    /// Fewer than 40 bytes of IPv6 header.
    TruncatedIpv6 => "frame ends inside the IPv6 header",
    /// EtherType IPv6, but another version in the header.
    Ipv6Version => "IPv6 header with another version",
    /// Payload length longer than the frame.
    Ipv6PayloadLength => "IPv6 payload length longer than the frame",
    /// Too many extension headers, one out of place, or one that ends outside the packet.
    Ipv6Extensions => "too many or malformed IPv6 extension headers",
    /// A v4-mapped address in an IPv6 header, which no packet may carry (RFC 6890).
    Ipv6MappedAddress => "v4-mapped address in an IPv6 header",
    /// A fragment that reaches beyond the largest possible datagram.
    FragmentBounds => "fragment reaches beyond 65535 bytes",
    /// Fewer than 20 bytes of TCP header.
    TruncatedTcp => "packet ends inside the TCP header",
    /// Data offset below 20 bytes or beyond the packet.
    TcpHeaderLength => "TCP data offset below 20 bytes or beyond the packet",
    /// TCP options that run over their end or have an impossible length.
    TcpOptions => "malformed TCP options",
    /// Fewer than 8 bytes of UDP header.
    TruncatedUdp => "packet ends inside the UDP header",
    /// UDP length below 8 bytes or beyond the packet.
    UdpLength => "UDP length below 8 bytes or beyond the packet",
    /// Fewer than 8 bytes of ICMP header.
    TruncatedIcmp => "packet ends inside the ICMP header",
    /// TCP, UDP or ICMP checksum does not hold. Only reported when asked.
    TransportChecksum => "transport checksum does not hold",
    /// Longer than [`MAX_FRAME_BYTES`](crate::layout::MAX_FRAME_BYTES).
    Oversized => "frame longer than any IP datagram with its Ethernet header",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_order_of_the_numbers() {
        for (number, malformed) in Malformed::ALL.iter().enumerate() {
            assert_eq!(*malformed as usize, number);
        }
        assert_eq!(size_of::<Malformed>(), 1);
    }

    #[test]
    fn names_are_the_variants_names() {
        for malformed in Malformed::ALL {
            assert_eq!(malformed.name(), format!("{malformed:?}"));
            assert!(!malformed.to_string().is_empty());
        }
    }
}
