//! What can be wrong with a frame.

use thiserror::Error;

macro_rules! malformed {
    ($($(#[doc = $doc:literal])+ $variant:ident, $name:literal => $text:literal,)+) => {
        /// Why a frame was refused. One byte wide, so that it fits a drop reason.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
        #[repr(u8)]
        pub enum Malformed {
            $($(#[doc = $doc])+ #[error($text)] $variant,)+
        }

        impl Malformed {
            /// Every value, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name, as counters and reports print it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What it means, in a sentence or two.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc,)+).trim_ascii_start(),)+
                }
            }
        }
    };
}

malformed! {
    /// Fewer than 14 bytes.
    TruncatedEthernet, "truncated_ethernet" => "frame shorter than an Ethernet header",
    /// A tag was announced but its four bytes are not all there.
    TruncatedVlan, "truncated_vlan" => "frame ends inside a VLAN tag",
    /// More than four VLAN tags.
    TooManyVlanTags, "too_many_vlan_tags" => "more VLAN tags than are followed",
    /// Fewer than 20 bytes of IPv4 header, or fewer than its own length says.
    TruncatedIpv4, "truncated_ipv4" => "frame ends inside the IPv4 header",
    /// EtherType IPv4, but another version in the header.
    Ipv4Version, "ipv4_version" => "IPv4 header with another version",
    /// Header length below 20 bytes.
    Ipv4HeaderLength, "ipv4_header_length" => "IPv4 header length below 20 bytes",
    /// Total length longer than the frame or shorter than the header.
    Ipv4TotalLength, "ipv4_total_length" => "IPv4 total length longer than the frame or shorter than the header",
    /// Header checksum does not hold. Dissection does not look; only reported when asked.
    Ipv4Checksum, "ipv4_checksum" => "IPv4 header checksum does not hold",
    /// IPv4 options that run over their end or have an impossible length.
    Ipv4Options, "ipv4_options" => "malformed IPv4 options",
    /// An authentication header over IPv4 that is too short, or ends outside the packet.
    Ipv4Authentication, "ipv4_authentication" => "malformed authentication header",
    /// Fewer than 40 bytes of IPv6 header.
    TruncatedIpv6, "truncated_ipv6" => "frame ends inside the IPv6 header",
    /// EtherType IPv6, but another version in the header.
    Ipv6Version, "ipv6_version" => "IPv6 header with another version",
    /// Payload length longer than the frame.
    Ipv6PayloadLength, "ipv6_payload_length" => "IPv6 payload length longer than the frame",
    /// Too many extension headers, one out of place, or one that ends outside the packet.
    Ipv6Extensions, "ipv6_extensions" => "too many or malformed IPv6 extension headers",
    /// A v4-mapped address in an IPv6 header, which no packet may carry (RFC 6890).
    Ipv6MappedAddress, "ipv6_mapped_address" => "v4-mapped address in an IPv6 header",
    /// A fragment that reaches beyond the largest possible datagram.
    FragmentBounds, "fragment_bounds" => "fragment reaches beyond 65535 bytes",
    /// Fewer than 20 bytes of TCP header.
    TruncatedTcp, "truncated_tcp" => "packet ends inside the TCP header",
    /// Data offset below 20 bytes or beyond the packet.
    TcpHeaderLength, "tcp_header_length" => "TCP data offset below 20 bytes or beyond the packet",
    /// TCP options that run over their end or have an impossible length.
    TcpOptions, "tcp_options" => "malformed TCP options",
    /// Fewer than 8 bytes of UDP header.
    TruncatedUdp, "truncated_udp" => "packet ends inside the UDP header",
    /// UDP length below 8 bytes or beyond the packet.
    UdpLength, "udp_length" => "UDP length below 8 bytes or beyond the packet",
    /// Fewer than 8 bytes of ICMP header.
    TruncatedIcmp, "truncated_icmp" => "packet ends inside the ICMP header",
    /// TCP, UDP or ICMP checksum does not hold. Only reported when asked.
    TransportChecksum, "transport_checksum" => "transport checksum does not hold",
    /// Longer than 65,553 bytes, the longest IP packet behind an Ethernet header.
    Oversized, "oversized" => "frame longer than any IP datagram with its Ethernet header",
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
    fn names_are_those_of_counters() {
        let names: std::collections::BTreeSet<_> = Malformed::ALL
            .iter()
            .map(|malformed| malformed.name())
            .collect();
        assert_eq!(names.len(), Malformed::ALL.len(), "each has its own");
        for malformed in Malformed::ALL {
            let is_in_name = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
            assert!(malformed.name().bytes().all(is_in_name), "{malformed:?}");
            assert!(!malformed.to_string().is_empty());
        }
    }
}
