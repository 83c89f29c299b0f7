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
/// EtherType of the older, vendor-made outer tag.
pub const ETHER_LEGACY_VLAN: u16 = 0x9100;

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

/// Whether this EtherType announces a VLAN tag.
#[must_use]
#[inline(always)]
pub const fn is_vlan(ether_type: u16) -> bool {
    matches!(
        ether_type,
        ETHER_VLAN | ETHER_SERVICE_VLAN | ETHER_LEGACY_VLAN
    )
}
