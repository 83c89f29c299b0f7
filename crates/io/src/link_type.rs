//! Turns what a capture holds into Ethernet frames.
//!
//! A packet captured without an Ethernet header gets one: zero addresses (or
//! the source address that the Linux cooked header recorded) and the EtherType
//! that belongs to its payload. A packet whose kind cannot be told is not
//! lost: it gets the reserved EtherType `0xffff` and the data plane counts it
//! as it counts any other unknown frame.

/// What the error about an unsupported link type offers instead.
pub(crate) const SUPPORTED_LINK_TYPES: &str = "1 (Ethernet), 101, 12, 14, 228 and 229 (raw IP), \
     0 and 108 (BSD loopback), 113 and 276 (Linux cooked)";

/// The LINKTYPE number of Ethernet.
pub(crate) const LINK_TYPE_ETHERNET: u32 = 1;

pub(crate) const ETHERNET_HEADER_LEN: usize = 14;

const ETHER_TYPE_IPV4: u16 = 0x0800;
const ETHER_TYPE_IPV6: u16 = 0x86dd;
const ETHER_TYPE_UNKNOWN: u16 = 0xffff;
/// Below this value the field is a length, not a type (IEEE 802.3).
const ETHER_TYPE_MIN: u16 = 0x0600;
const MAX_802_3_LEN: usize = 1500;

/// Linux's numbers for payloads that carry an 802.3 length instead of a type.
const PROTOCOL_802_3: u16 = 1;
const PROTOCOL_802_2: u16 = 4;

/// Linux device types whose protocol field is no EtherType.
const FRAME_RELAY: u16 = 770;
const RADIOTAP: u16 = 803;
const NETLINK: u16 = 824;

const LOOPBACK_HEADER_LEN: usize = 4;
const SLL_HEADER_LEN: usize = 16;
const SLL2_HEADER_LEN: usize = 20;

type MacAddress = [u8; 6];
const NO_ADDRESS: MacAddress = [0; 6];

/// What stands at the front of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkType {
    Ethernet,
    RawIp,
    /// Address family in the byte order of the machine that captured.
    Null,
    /// Address family in network byte order.
    Loop,
    LinuxCooked,
    LinuxCooked2,
}

impl LinkType {
    /// The link type of that LINKTYPE number, if it can become Ethernet.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(LinkType::Null),
            1 => Some(LinkType::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(LinkType::RawIp),
            108 => Some(LinkType::Loop),
            113 => Some(LinkType::LinuxCooked),
            276 => Some(LinkType::LinuxCooked2),
            _ => None,
        }
    }

    /// How `packet`, as captured, becomes an Ethernet frame.
    pub(crate) fn framing(self, packet: &[u8]) -> Framing {
        let framing = match self {
            LinkType::Ethernet => Some(Framing {
                strip: 0,
                header: None,
            }),
            LinkType::RawIp => Some(Framing::new(0, NO_ADDRESS, ip_ether_type(packet))),
            LinkType::Null => loopback(packet, host_order_family),
            LinkType::Loop => loopback(packet, u32::from_be_bytes),
            LinkType::LinuxCooked => linux_cooked(packet),
            LinkType::LinuxCooked2 => linux_cooked_2(packet),
        };
        framing.unwrap_or(Framing::new(0, NO_ADDRESS, ETHER_TYPE_UNKNOWN))
    }
}

/// Bytes to take from the front of a packet and the header to put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Framing {
    strip: usize,
    header: Option<[u8; ETHERNET_HEADER_LEN]>,
}

impl Framing {
    fn new(strip: usize, source: MacAddress, ether_type: u16) -> Self {
        let mut header = [0; ETHERNET_HEADER_LEN];
        header[6..12].copy_from_slice(&source);
        header[12..14].copy_from_slice(&ether_type.to_be_bytes());
        Self {
            strip,
            header: Some(header),
        }
    }

    /// The length after framing of a packet that was `len` bytes long.
    pub(crate) fn framed_len(&self, len: usize) -> usize {
        len.saturating_sub(self.strip) + self.header.map_or(0, |header| header.len())
    }

    /// Writes the framed packet to the front of `buffer`, which must hold
    /// [`Self::framed_len`] bytes; a shorter one is filled as far as it goes.
    pub(crate) fn copy(&self, packet: &[u8], buffer: &mut [u8]) {
        let header = self.header.as_ref().map_or(&[][..], |header| &header[..]);
        let payload = packet.get(self.strip..).unwrap_or_default();
        let (front, rest) = buffer.split_at_mut(header.len().min(buffer.len()));
        copy_prefix(header, front);
        copy_prefix(payload, rest);
    }
}

fn copy_prefix(from: &[u8], to: &mut [u8]) {
    let len = from.len().min(to.len());
    to[..len].copy_from_slice(&from[..len]);
}

fn ip_ether_type(packet: &[u8]) -> u16 {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => ETHER_TYPE_IPV4,
        Some(6) => ETHER_TYPE_IPV6,
        _ => ETHER_TYPE_UNKNOWN,
    }
}

fn loopback(packet: &[u8], decode: fn([u8; 4]) -> u32) -> Option<Framing> {
    let family = decode(*packet.first_chunk()?);
    Some(Framing::new(
        LOOPBACK_HEADER_LEN,
        NO_ADDRESS,
        family_ether_type(family),
    ))
}

/// Families are small numbers, so the order in which one looks large is wrong.
fn host_order_family(bytes: [u8; 4]) -> u32 {
    let family = u32::from_le_bytes(bytes);
    if family > 0xffff {
        family.swap_bytes()
    } else {
        family
    }
}

/// AF_INET is 2 everywhere; AF_INET6 differs: Linux 10, Windows 23, NetBSD and
/// OpenBSD 24, FreeBSD 28, macOS 30.
fn family_ether_type(family: u32) -> u16 {
    match family {
        2 => ETHER_TYPE_IPV4,
        10 | 23 | 24 | 28 | 30 => ETHER_TYPE_IPV6,
        _ => ETHER_TYPE_UNKNOWN,
    }
}

fn linux_cooked(packet: &[u8]) -> Option<Framing> {
    let header: &[u8; SLL_HEADER_LEN] = packet.first_chunk()?;
    let [_, _, d0, d1, l0, l1, a0, a1, a2, a3, a4, a5, _, _, p0, p1] = *header;
    let source = source_address(u16::from_be_bytes([l0, l1]), [a0, a1, a2, a3, a4, a5]);
    let payload_len = packet.len() - SLL_HEADER_LEN;
    let ether_type = cooked_ether_type([d0, d1], [p0, p1], payload_len);
    Some(Framing::new(SLL_HEADER_LEN, source, ether_type))
}

fn linux_cooked_2(packet: &[u8]) -> Option<Framing> {
    let header: &[u8; SLL2_HEADER_LEN] = packet.first_chunk()?;
    let [
        p0,
        p1,
        _,
        _,
        _,
        _,
        _,
        _,
        d0,
        d1,
        _,
        length,
        a0,
        a1,
        a2,
        a3,
        a4,
        a5,
        _,
        _,
    ] = *header;
    let source = source_address(u16::from(length), [a0, a1, a2, a3, a4, a5]);
    let payload_len = packet.len() - SLL2_HEADER_LEN;
    let ether_type = cooked_ether_type([d0, d1], [p0, p1], payload_len);
    Some(Framing::new(SLL2_HEADER_LEN, source, ether_type))
}

fn source_address(length: u16, address: MacAddress) -> MacAddress {
    if usize::from(length) == address.len() {
        address
    } else {
        NO_ADDRESS
    }
}

fn cooked_ether_type(device: [u8; 2], protocol: [u8; 2], payload_len: usize) -> u16 {
    let protocol = u16::from_be_bytes(protocol);
    match u16::from_be_bytes(device) {
        FRAME_RELAY | RADIOTAP | NETLINK => ETHER_TYPE_UNKNOWN,
        _ if protocol >= ETHER_TYPE_MIN => protocol,
        _ if matches!(protocol, PROTOCOL_802_3 | PROTOCOL_802_2) => length_field(payload_len),
        _ => ETHER_TYPE_UNKNOWN,
    }
}

fn length_field(payload_len: usize) -> u16 {
    match u16::try_from(payload_len) {
        Ok(len) if payload_len <= MAX_802_3_LEN => len,
        _ => ETHER_TYPE_UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u32, packet: &[u8]) -> Vec<u8> {
        let framing = LinkType::from_number(number).unwrap().framing(packet);
        let mut buffer = vec![0xaa; framing.framed_len(packet.len())];
        framing.copy(packet, &mut buffer);
        buffer
    }

    fn expected(source: MacAddress, ether_type: u16, payload: &[u8]) -> Vec<u8> {
        [&[0; 6][..], &source, &ether_type.to_be_bytes(), payload].concat()
    }

    const V4: [u8; 3] = [0x45, 1, 2];
    const V6: [u8; 3] = [0x60, 1, 2];

    #[test]
    fn ethernet_passes_through_even_when_it_is_too_short() {
        for packet in [&[][..], &[1, 2, 3], &[9; 60]] {
            assert_eq!(frame(1, packet), packet);
        }
    }

    #[test]
    fn raw_ip_goes_by_its_version() {
        for number in [12, 14, 101, 228, 229] {
            assert_eq!(frame(number, &V4), expected(NO_ADDRESS, 0x0800, &V4));
            assert_eq!(frame(number, &V6), expected(NO_ADDRESS, 0x86dd, &V6));
            assert_eq!(
                frame(number, &[0x10]),
                expected(NO_ADDRESS, 0xffff, &[0x10])
            );
            assert_eq!(frame(number, &[]), expected(NO_ADDRESS, 0xffff, &[]));
        }
    }

    #[test]
    fn null_family_is_found_in_either_byte_order() {
        for (family, ether_type) in [
            (2_u32, 0x0800),
            (24, 0x86dd),
            (28, 0x86dd),
            (30, 0x86dd),
            (7, 0xffff),
        ] {
            for header in [family.to_le_bytes(), family.to_be_bytes()] {
                let packet = [&header[..], &V4].concat();
                assert_eq!(frame(0, &packet), expected(NO_ADDRESS, ether_type, &V4));
            }
        }
    }

    #[test]
    fn loop_family_is_in_network_order_only() {
        assert_eq!(
            frame(108, &[0, 0, 0, 2, 0x45]),
            expected(NO_ADDRESS, 0x0800, &[0x45])
        );
        assert_eq!(
            frame(108, &[2, 0, 0, 0, 0x45]),
            expected(NO_ADDRESS, 0xffff, &[0x45])
        );
        assert_eq!(
            frame(108, &[0, 0, 0]),
            expected(NO_ADDRESS, 0xffff, &[0, 0, 0])
        );
    }

    fn sll(device: u16, address_len: u16, protocol: u16) -> Vec<u8> {
        let mut header = vec![0, 4];
        header.extend(device.to_be_bytes());
        header.extend(address_len.to_be_bytes());
        header.extend([1, 2, 3, 4, 5, 6, 7, 8]);
        header.extend(protocol.to_be_bytes());
        header
    }

    fn sll2(device: u16, address_len: u8, protocol: u16) -> Vec<u8> {
        let mut header = protocol.to_be_bytes().to_vec();
        header.extend([0, 0, 0, 0, 0, 9]);
        header.extend(device.to_be_bytes());
        header.extend([4, address_len, 1, 2, 3, 4, 5, 6, 7, 8]);
        header
    }

    #[test]
    fn cooked_headers_give_source_address_and_type() {
        let address = [1, 2, 3, 4, 5, 6];
        for protocol in [0x0800, 0x86dd, 0x8100, 0x0806] {
            let packet = [sll(1, 6, protocol), V4.to_vec()].concat();
            assert_eq!(frame(113, &packet), expected(address, protocol, &V4));
            let packet = [sll2(1, 6, protocol), V4.to_vec()].concat();
            assert_eq!(frame(276, &packet), expected(address, protocol, &V4));
        }
    }

    #[test]
    fn cooked_headers_without_ethernet_address_or_type() {
        assert_eq!(
            frame(113, &sll(772, 8, 0x0800)),
            expected(NO_ADDRESS, 0x0800, &[])
        );
        assert_eq!(
            frame(276, &sll2(772, 0, 0x0800)),
            expected(NO_ADDRESS, 0x0800, &[])
        );
        let address = [1, 2, 3, 4, 5, 6];
        for (device, protocol, ether_type) in [
            (824, 0x0800, 0xffff),
            (1, 4, 3),
            (1, 1, 3),
            (1, 0x0c, 0xffff),
        ] {
            let packet = [sll(device, 6, protocol), V4.to_vec()].concat();
            assert_eq!(frame(113, &packet), expected(address, ether_type, &V4));
        }
    }

    #[test]
    fn a_cooked_header_that_is_cut_off_is_kept_as_unknown() {
        let packet = &sll(1, 6, 0x0800)[..15];
        assert_eq!(frame(113, packet), expected(NO_ADDRESS, 0xffff, packet));
        let packet = &sll2(1, 6, 0x0800)[..19];
        assert_eq!(frame(276, packet), expected(NO_ADDRESS, 0xffff, packet));
    }
}
