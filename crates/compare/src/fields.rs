//! Which header fields and payload bytes of two packets differ, in words.

use std::fmt::{self, Display, Formatter};
use twinpath_core::wire::{
    Address, Layout, MacAddress, Network, Transport, dissect, ipv4, ipv6, tcp,
};

use crate::normal::Normal;

/// Something that differs between two packets, with its value in each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// What it is called: `time to live`, `payload from byte 12 on`.
    pub name: String,
    /// In A.
    pub a: String,
    /// In B.
    pub b: String,
}

impl Field {
    pub(crate) fn new(name: impl Display, a: impl Display, b: impl Display) -> Self {
        Self {
            name: name.to_string(),
            a: a.to_string(),
            b: b.to_string(),
        }
    }
}

/// How a field's value is written.
#[derive(Copy, Clone)]
enum Form {
    Number,
    Hex,
    Mac,
    V4,
    V6,
}
use Form::{Hex, Mac, Number, V4, V6};

/// Name, first bit within the header, bits, form.
type Spec = (&'static str, usize, usize, Form);

const ETHERNET: [Spec; 2] = [
    ("destination MAC address", 0, 48, Mac),
    ("source MAC address", 48, 48, Mac),
];
const IPV4: [Spec; 13] = [
    ("version", 0, 4, Number),
    ("header length in words", 4, 4, Number),
    ("DSCP", 8, 6, Number),
    ("ECN", 14, 2, Number),
    ("total length", 16, 16, Number),
    ("identification", 32, 16, Hex),
    ("fragmentation flags", 48, 3, Hex),
    ("fragment offset in units of 8 bytes", 51, 13, Number),
    ("time to live", 64, 8, Number),
    ("protocol", 72, 8, Number),
    ("header checksum", 80, 16, Hex),
    ("source address", 96, 32, V4),
    ("destination address", 128, 32, V4),
];
const IPV6: [Spec; 8] = [
    ("version", 0, 4, Number),
    ("traffic class", 4, 8, Hex),
    ("flow label", 12, 20, Hex),
    ("payload length", 32, 16, Number),
    ("next header", 48, 8, Number),
    ("hop limit", 56, 8, Number),
    ("source address", 64, 128, V6),
    ("destination address", 192, 128, V6),
];
const TCP: [Spec; 10] = [
    ("source port", 0, 16, Number),
    ("destination port", 16, 16, Number),
    ("sequence number", 32, 32, Number),
    ("acknowledgement number", 64, 32, Number),
    ("TCP header length in words", 96, 4, Number),
    ("reserved TCP bits", 100, 4, Hex),
    ("TCP flags", 104, 8, Hex),
    ("window", 112, 16, Number),
    ("TCP checksum", 128, 16, Hex),
    ("urgent pointer", 144, 16, Number),
];
const UDP: [Spec; 4] = [
    ("source port", 0, 16, Number),
    ("destination port", 16, 16, Number),
    ("UDP length", 32, 16, Number),
    ("UDP checksum", 48, 16, Hex),
];
const ICMP: [Spec; 4] = [
    ("ICMP type", 0, 8, Number),
    ("ICMP code", 8, 8, Number),
    ("ICMP checksum", 16, 16, Hex),
    ("rest of the ICMP header", 32, 32, Hex),
];

/// What differs of the headers around two packets.
fn outer_headers(a: &Normal<'_>, b: &Normal<'_>, found: &mut Vec<Field>) {
    let before = found.len();
    let layout = |packet: &Normal<'_>| dissect(&[packet.outer, packet.bytes].concat());
    match (layout(a), layout(b)) {
        (Ok(in_a), Ok(in_b)) => headers(&Cut(a.outer, in_a), &Cut(b.outer, in_b), found),
        _ => bytes("headers", a.outer, b.outer, found),
    }
    for field in &mut found[before..] {
        field.name.insert_str(0, "outer ");
    }
}

/// Everything that differs between two packets of a flow.
pub(crate) fn differing(a: &Normal<'_>, b: &Normal<'_>) -> Vec<Field> {
    let mut found = Vec::new();
    if a.outer != b.outer {
        outer_headers(a, b, &mut found);
    }
    match (a.layout, b.layout) {
        (Some(in_a), Some(in_b)) => headers(&Cut(a.bytes, in_a), &Cut(b.bytes, in_b), &mut found),
        _ => bytes("frame", a.bytes, b.bytes, &mut found),
    }
    if a.names.any() {
        let checksums = found
            .iter_mut()
            .filter(|field| field.name.ends_with("checksum"));
        checksums.for_each(|field| field.name += " with names blanked");
    }
    found
}

/// A frame and where its headers begin.
struct Cut<'f>(&'f [u8], Layout);

impl<'f> Cut<'f> {
    fn between(&self, from: usize, to: usize) -> &'f [u8] {
        let to = to.min(self.0.len());
        self.0.get(from..to).unwrap_or(&[])
    }

    fn ip_header_bytes(&self) -> usize {
        match self.1.network {
            Network::V4 => ipv4::HEADER_BYTES,
            Network::V6 => ipv6::HEADER_BYTES,
            Network::None => 0,
        }
    }

    fn link(&self) -> &'f [u8] {
        self.between(0, 12)
    }

    fn tags(&self) -> &'f [u8] {
        self.between(12, self.1.l3.into())
    }

    fn ip(&self) -> &'f [u8] {
        self.between(self.1.l3.into(), self.options_at())
    }

    fn options_at(&self) -> usize {
        usize::from(self.1.l3) + self.ip_header_bytes()
    }

    fn ip_options(&self) -> &'f [u8] {
        self.between(self.options_at(), self.1.l4.into())
    }

    fn transport(&self) -> &'f [u8] {
        self.between(self.1.l4.into(), self.tcp_options_at())
    }

    fn tcp_options_at(&self) -> usize {
        match self.1.transport {
            Transport::Tcp => usize::from(self.1.l4) + tcp::HEADER_BYTES,
            _ => self.1.payload.into(),
        }
    }

    fn tcp_options(&self) -> &'f [u8] {
        self.between(self.tcp_options_at(), self.1.payload.into())
    }

    fn payload(&self) -> &'f [u8] {
        self.between(self.1.payload.into(), self.1.end as usize)
    }

    fn padding(&self) -> &'f [u8] {
        self.between(self.1.end as usize, self.0.len())
    }
}

fn headers(a: &Cut<'_>, b: &Cut<'_>, found: &mut Vec<Field>) {
    specified(&ETHERNET, a.link(), b.link(), found);
    bytes("tags, labels and EtherType", a.tags(), b.tags(), found);
    specified(ip_fields(a.1.network), a.ip(), b.ip(), found);
    let options = match a.1.network {
        Network::V6 => "IPv6 extension headers",
        _ => "IPv4 options",
    };
    bytes(options, a.ip_options(), b.ip_options(), found);
    if a.1.transport != b.1.transport {
        let rest = |cut: &Cut<'_>| cut.between(cut.1.l4.into(), cut.0.len()).to_vec();
        return bytes("rest of the packet", &rest(a), &rest(b), found);
    }
    specified(
        transport_fields(a.1.transport),
        a.transport(),
        b.transport(),
        found,
    );
    bytes("TCP options", a.tcp_options(), b.tcp_options(), found);
    bytes("payload", a.payload(), b.payload(), found);
    bytes("Ethernet padding", a.padding(), b.padding(), found);
}

const fn ip_fields(network: Network) -> &'static [Spec] {
    match network {
        Network::V4 => &IPV4,
        Network::V6 => &IPV6,
        Network::None => &[],
    }
}

const fn transport_fields(transport: Transport) -> &'static [Spec] {
    match transport {
        Transport::Tcp => &TCP,
        Transport::Udp => &UDP,
        Transport::Icmp | Transport::Icmp6 => &ICMP,
        Transport::None | Transport::Other => &[],
    }
}

fn specified(specs: &[Spec], a: &[u8], b: &[u8], found: &mut Vec<Field>) {
    for &(name, first, count, form) in specs {
        let [a, b] = [a, b].map(|header| bits(header, first, count));
        if a != b {
            found.push(Field::new(name, form.told(a), form.told(b)));
        }
    }
}

/// A number of up to 128 bits in a header.
fn bits(header: &[u8], first: usize, count: usize) -> u128 {
    (first..first + count).fold(0, |number, bit| {
        let byte = header.get(bit / 8).copied().unwrap_or(0);
        number << 1 | u128::from(byte >> (7 - bit % 8) & 1)
    })
}

impl Form {
    fn told(self, value: u128) -> String {
        match self {
            Number => value.to_string(),
            Hex => format!("{value:#x}"),
            Mac => {
                let [.., a, b, c, d, e, f] = value.to_be_bytes();
                MacAddress([a, b, c, d, e, f]).to_string()
            }
            V4 => Address::from_v4((value as u32).to_be_bytes()).to_string(),
            V6 => Address(value).to_string(),
        }
    }
}

/// Bytes that are shown from the first that differs.
const SHOWN_BYTES: usize = 8;

fn bytes(name: &str, a: &[u8], b: &[u8], found: &mut Vec<Field>) {
    if a.len() != b.len() {
        let length = |bytes: &[u8]| format!("{} bytes", bytes.len());
        found.push(Field::new(
            format_args!("length of {name}"),
            length(a),
            length(b),
        ));
    }
    if let Some(at) = a.iter().zip(b).position(|(a, b)| a != b) {
        let shown = |bytes: &[u8]| Shown(&bytes[at..]).to_string();
        let name = format_args!("{name} from byte {at} on");
        found.push(Field::new(name, shown(a), shown(b)));
    }
}

/// The first bytes as hexadecimal digits.
struct Shown<'b>(&'b [u8]);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().take(SHOWN_BYTES).enumerate() {
            let blank = if index > 0 { " " } else { "" };
            write!(f, "{blank}{byte:02x}")?;
        }
        match self.0.len() > SHOWN_BYTES {
            true => f.write_str(" ..."),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_widths_are_read() {
        let header: Vec<u8> = (0..36).map(|byte| byte * 7).collect();
        for first in [0, 3, 8, 51, 180] {
            for count in [1, 4, 13, 16, 48, 100] {
                let expected =
                    (first..first + count).map(|bit| header[bit / 8] >> (7 - bit % 8) & 1);
                let found = bits(&header, first, count);
                let digits = (0..count).rev().map(|bit| (found >> bit) as u8 & 1);
                assert!(digits.eq(expected), "{first} {count}");
            }
        }
        assert_eq!(bits(&[], 0, 128), 0);
    }

    #[test]
    fn every_bit_of_a_header_is_in_a_field() {
        let tables: [(&[Spec], usize); 6] = [
            (&ETHERNET, 12),
            (&IPV4, ipv4::HEADER_BYTES),
            (&IPV6, ipv6::HEADER_BYTES),
            (&TCP, tcp::HEADER_BYTES),
            (&UDP, 8),
            (&ICMP, 8),
        ];
        for (specs, header_bytes) in tables {
            let end = specs.iter().try_fold(0, |at, &(name, first, count, _)| {
                if at == first {
                    Ok(first + count)
                } else {
                    Err(name)
                }
            });
            assert_eq!(end, Ok(8 * header_bytes));
        }
    }

    #[test]
    fn values_are_written_as_people_read_them() {
        assert_eq!(Number.told(7), "7");
        assert_eq!(Hex.told(0x12), "0x12");
        assert_eq!(Mac.told(0x0200_0000_0001), "02:00:00:00:00:01");
        assert_eq!(V4.told(0x0a00_0001), "10.0.0.1");
        assert_eq!(V6.told(1), "::1");
        assert_eq!(Shown(&[1, 0xab]).to_string(), "01 ab");
        assert_eq!(Shown(&[0; 9]).to_string(), "00 00 00 00 00 00 00 00 ...");
    }
}
