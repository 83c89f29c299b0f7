//! A rule as the leaves of a tree hold it, for addresses of one IP version.

use super::rule::PortRange;
use super::{Headers, Rule};
use crate::word::Word;

/// How many fields a packet has.
pub(super) const FIELDS: usize = 5;
/// Room for fields in a point: a power of two, so that a field's number needs no check.
pub(super) const PLACES: usize = 8;
/// Numbers of the fields.
pub(super) const SOURCE: usize = 0;
pub(super) const DESTINATION: usize = 1;
pub(super) const SOURCE_PORT: usize = 2;
pub(super) const DESTINATION_PORT: usize = 3;
pub(super) const PROTOCOL: usize = 4;

/// How many bits a field has.
pub(super) const fn field_bits<A: Word>(field: usize) -> u32 {
    match field {
        SOURCE | DESTINATION => A::BITS,
        SOURCE_PORT | DESTINATION_PORT => 16,
        _ => 8,
    }
}

/// A packet as a point: each field in the first bits of a word, so that all fields are prefixes
/// and ranges of the same type.
#[derive(Copy, Clone)]
pub(super) struct Point<A> {
    pub fields: [A; PLACES],
    source_port: u16,
    destination_port: u16,
    protocol: u8,
}

impl<A: Word> Point<A> {
    pub fn new(headers: &Headers) -> Self {
        Self {
            fields: [
                A::from_low(headers.source.0),
                A::from_low(headers.destination.0),
                A::from_top16(headers.source_port),
                A::from_top16(headers.destination_port),
                A::from_top16(u16::from(headers.protocol) << 8),
                A::default(),
                A::default(),
                A::default(),
            ],
            source_port: headers.source_port,
            destination_port: headers.destination_port,
            protocol: headers.protocol,
        }
    }
}

/// A rule in a leaf: half a cache line for IPv4, one for IPv6.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<A> {
    source: A,
    destination: A,
    source_ports: PortRange,
    destination_ports: PortRange,
    /// Smaller labels win.
    pub label: u32,
    /// Where the rule itself is kept.
    pub slot: u32,
    source_bits: u8,
    destination_bits: u8,
    protocol: u8,
    protocol_mask: u8,
    /// Whether the leaf ends here.
    pub is_last: bool,
}

impl<A: Word> Entry<A> {
    pub fn new(rule: &Rule, label: u32, slot: u32) -> Self {
        Self {
            source: A::from_low(rule.source.network().0),
            destination: A::from_low(rule.destination.network().0),
            source_ports: rule.source_ports,
            destination_ports: rule.destination_ports,
            label,
            slot,
            source_bits: rule.source.length(),
            destination_bits: rule.destination.length(),
            protocol: rule.protocol.unwrap_or(0),
            protocol_mask: if rule.protocol.is_some() { 0xff } else { 0 },
            is_last: false,
        }
    }

    /// What fills the unused places of a table.
    pub fn vacant() -> Self {
        Self::new(&Rule::ANY, u32::MAX, u32::MAX)
    }

    #[inline(always)]
    pub fn matches(&self, point: &Point<A>) -> bool {
        point.fields[DESTINATION].common(self.destination) >= u32::from(self.destination_bits)
            && point.fields[SOURCE].common(self.source) >= u32::from(self.source_bits)
            && self.destination_ports.includes(point.destination_port)
            && (point.protocol ^ self.protocol) & self.protocol_mask == 0
            && self.source_ports.includes(point.source_port)
    }

    /// The first and the last value that match in a field.
    pub fn interval(&self, field: usize) -> (A, A) {
        let prefix = |value: A, bits: u8| (value, value | !A::leading(u32::from(bits)));
        let ports = |range: PortRange| {
            let low16 = !A::leading(16);
            (
                A::from_top16(range.first()),
                A::from_top16(range.last()) | low16,
            )
        };
        match field {
            SOURCE => prefix(self.source, self.source_bits),
            DESTINATION => prefix(self.destination, self.destination_bits),
            SOURCE_PORT => ports(self.source_ports),
            DESTINATION_PORT => ports(self.destination_ports),
            _ => prefix(
                A::from_top16(u16::from(self.protocol) << 8),
                self.protocol_mask.count_ones() as u8,
            ),
        }
    }

    /// For each field, how many of its leading bits show whether the point matches in it, and
    /// whether it does.
    pub fn deciding_bits(&self, point: &Point<A>) -> [(u32, bool); FIELDS] {
        let prefix = |field: usize, value: A, bits: u8| {
            let shared = point.fields[field].common(value);
            let matches = shared >= u32::from(bits);
            (if matches { u32::from(bits) } else { shared + 1 }, matches)
        };
        let ports = |range: PortRange, port| (range.deciding_bits(port), range.includes(port));
        let protocol_matches = (point.protocol ^ self.protocol) & self.protocol_mask == 0;
        [
            prefix(SOURCE, self.source, self.source_bits),
            prefix(DESTINATION, self.destination, self.destination_bits),
            ports(self.source_ports, point.source_port),
            ports(self.destination_ports, point.destination_port),
            (self.protocol_mask.count_ones(), protocol_matches),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fill_half_a_line_and_a_line() {
        assert_eq!(size_of::<Entry<u32>>(), 32);
        assert_eq!(size_of::<Entry<u128>>(), 64);
    }
}
