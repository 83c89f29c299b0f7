//! Numbers that name the next header: EtherTypes and IP protocol numbers.

/// EtherType of IPv4.
pub const ETHER_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ETHER_ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const ETHER_IPV6: u16 = 0x86dd;
/// EtherType of an IEEE 802.1Q tag.
pub const ETHER_VLAN: u16 = 0x8100;
/// EtherType of an IEEE 802.1ad service tag (the outer one of QinQ).
pub const ETHER_SERVICE_VLAN: u16 = 0x88a8;
/// The least EtherType of older, vendor-made outer tags; the others are 0x9200 and 0x9300.
pub const ETHER_LEGACY_VLAN: u16 = 0x9100;
/// EtherType of an MPLS label stack (RFC 3032; RFC 5332 for the second).
pub const ETHER_MPLS: u16 = 0x8847;
/// EtherType of an MPLS label stack whose first label is the sender's choice.
pub const ETHER_MPLS_UPSTREAM: u16 = 0x8848;
/// EtherType of PPPoE's discovery (RFC 2516).
pub const ETHER_PPPOE_DISCOVERY: u16 = 0x8863;
/// EtherType of a PPPoE session.
pub const ETHER_PPPOE_SESSION: u16 = 0x8864;
/// The least EtherType: what is below is a length, or nothing.
pub const MIN_ETHER_TYPE: u16 = 0x0600;
/// The most that is a length (IEEE 802.3), behind which LLC follows.
pub const MAX_LLC_BYTES: u16 = 1500;

/// IPv6 hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// ICMP for IPv4.
pub const ICMP: u8 = 1;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// IPv6 routing header.
pub const ROUTING: u8 = 43;
/// IPv6 fragment header.
pub const FRAGMENT: u8 = 44;
/// GRE.
pub const GRE: u8 = 47;
/// Encapsulating security payload.
pub const ESP: u8 = 50;
/// Authentication header.
pub const AUTHENTICATION: u8 = 51;
/// ICMP for IPv6.
pub const ICMP6: u8 = 58;
/// IPv6 destination options.
pub const DESTINATION_OPTIONS: u8 = 60;
/// SCTP.
pub const SCTP: u8 = 132;
/// IPv6 mobility header (RFC 6275).
pub const MOBILITY: u8 = 135;
/// Host identity protocol (RFC 7401).
pub const HOST_IDENTITY: u8 = 139;
/// Shim6 (RFC 5533).
pub const SHIM6: u8 = 140;
/// For experiments (RFC 3692); in IPv6 an extension header.
pub const EXPERIMENT: u8 = 253;
/// The other number for experiments.
pub const OTHER_EXPERIMENT: u8 = 254;

/// Whether this EtherType announces a VLAN tag.
#[must_use]
#[inline(always)]
pub const fn is_vlan(ether_type: u16) -> bool {
    matches!(
        ether_type,
        ETHER_VLAN | ETHER_SERVICE_VLAN | ETHER_LEGACY_VLAN | 0x9200 | 0x9300
    )
}
