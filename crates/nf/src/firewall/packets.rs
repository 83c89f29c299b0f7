//! The packets that rules match, as cuboids that can be cut from each other.

use super::rule::{Ports, Prefix, Rule, Versions};
use twinpath_core::wire::{Address, protocol};

/// What rules tell packets apart by: the port that they come in by, version and protocol, source,
/// destination, and the ports of both.
const DIMENSIONS: usize = 6;

/// First and last of a range.
type Range = (u128, u128);

const ALL_PORTS: Range = (0, u16::MAX as u128);

/// Packets whose numbers lie in a range for each dimension.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Cuboid([Range; DIMENSIONS]);

impl Cuboid {
    /// Whether a packet is in both.
    pub fn meets(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        pairs.all(|(one, other)| one.0 <= other.1 && other.0 <= one.1)
    }

    /// Adds what is left without another, dimension by dimension.
    fn add_without(mut self, taken: &Self, left: &mut Vec<Self>) {
        if !self.meets(taken) {
            left.push(self);
            return;
        }
        for (dimension, &(first, last)) in taken.0.iter().enumerate() {
            let (from, to) = self.0[dimension];
            if from < first {
                left.push(self.with(dimension, (from, first - 1)));
            }
            if to > last {
                left.push(self.with(dimension, (last + 1, to)));
            }
            self.0[dimension] = (from.max(first), to.min(last));
        }
    }

    fn with(mut self, dimension: usize, range: Range) -> Self {
        self.0[dimension] = range;
        self
    }
}

/// What is left of pieces without those packets.
pub(super) fn without(pieces: &[Cuboid], taken: &Cuboid) -> Vec<Cuboid> {
    let mut left = Vec::with_capacity(pieces.len());
    for piece in pieces {
        piece.add_without(taken, &mut left);
    }
    left
}

/// All packets, as far as rules tell them apart.
pub(super) struct Space<'r> {
    /// The names of the ports that packets come in by.
    ports: Vec<&'r str>,
    /// Whether there are others.
    has_more: bool,
}

impl<'r> Space<'r> {
    /// Packets that come in by ports of these names; by any if there are no names.
    pub fn of(rules: &'r [Rule], ports: &'r [String]) -> Self {
        let mut names: Vec<&str> = ports.iter().map(String::as_str).collect();
        if ports.is_empty() {
            names.extend(rules.iter().filter_map(|rule| rule.ingress.as_deref()));
            names.sort_unstable();
            names.dedup();
        }
        Self {
            ports: names,
            has_more: ports.is_empty(),
        }
    }

    /// The pieces that a rule's packets make up, unless there are too many.
    pub fn pieces(&self, rule: &Rule, most: usize) -> Option<Vec<Cuboid>> {
        let (from_ports, to_ports) = (ranges(&rule.from_port), ranges(&rule.to_port));
        let kinds = kinds(rule);
        if kinds.len() * from_ports.len() * to_ports.len() > most {
            return None;
        }
        let mut pieces = Vec::new();
        for &(version, protocols) in &kinds {
            for &from_port in &from_ports {
                for &to_port in &to_ports {
                    pieces.push(Cuboid([
                        self.ingress(rule),
                        protocols,
                        addresses(&rule.from, version),
                        addresses(&rule.to, version),
                        from_port,
                        to_port,
                    ]));
                }
            }
        }
        Some(pieces)
    }

    /// A cuboid around a rule's packets.
    pub fn around(&self, rule: &Rule) -> Cuboid {
        let (kinds, ports) = (kinds(rule), |ports| hull(ranges(ports)));
        let of_prefix = |prefix| hull(kinds.iter().map(|kind| addresses(prefix, kind.0)));
        Cuboid([
            self.ingress(rule),
            hull(kinds.iter().map(|kind| kind.1)),
            of_prefix(&rule.from),
            of_prefix(&rule.to),
            ports(&rule.from_port),
            ports(&rule.to_port),
        ])
    }

    fn ingress(&self, rule: &Rule) -> Range {
        let most = self.ports.len() - usize::from(!self.has_more && !self.ports.is_empty());
        let number = |name: &str| self.ports.iter().position(|port| *port == name);
        match rule.ingress.as_deref() {
            Some(name) => {
                let number = number(name).unwrap_or(most) as u128;
                (number, number)
            }
            None => (0, most as u128),
        }
    }
}

/// The smallest range around ranges.
fn hull(ranges: impl IntoIterator<Item = Range>) -> Range {
    let ranges = ranges.into_iter();
    let both = ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    both.unwrap_or((1, 0))
}

/// Versions and protocols of a rule's packets, as ranges of numbers; one with ports speaks of TCP
/// and UDP alone.
fn kinds(rule: &Rule) -> Vec<(Versions, Range)> {
    let has_ports = !(rule.from_port.are_any() && rule.to_port.are_any());
    let protocols: &[Range] = match (rule.protocol.0, has_ports) {
        (Some(number), _) => &[(number.into(), number.into())],
        (None, false) => &[(0, u8::MAX as u128)],
        (None, true) => &PROTOCOLS_WITH_PORTS,
    };
    let versions = match versions(rule) {
        Some(Versions::Both) => vec![(Versions::V4, 0), (Versions::V6, 256)],
        Some(Versions::V4) => vec![(Versions::V4, 0)],
        Some(Versions::V6) => vec![(Versions::V6, 256)],
        None => Vec::new(),
    };
    let of_version = |(version, base): (Versions, u128)| {
        let each = protocols.iter();
        each.map(move |range| (version, (base + range.0, base + range.1)))
    };
    versions.into_iter().flat_map(of_version).collect()
}

const PROTOCOLS_WITH_PORTS: [Range; 2] = [
    (protocol::TCP as u128, protocol::TCP as u128),
    (protocol::UDP as u128, protocol::UDP as u128),
];

/// The addresses of a version that a prefix has.
fn addresses(prefix: &Prefix, version: Versions) -> Range {
    let (first, mask) = match (version, prefix.mask) {
        (Versions::V4, 0) => (Address::UNSPECIFIED_V4.0, u128::MAX << 32),
        _ => (prefix.network.0, prefix.mask),
    };
    (first, first | !mask)
}

/// Ports as ranges that lie apart.
fn ranges(ports: &Ports) -> Vec<Range> {
    if ports.are_any() {
        return vec![ALL_PORTS];
    }
    let each = ports.ranges().iter();
    let mut sorted: Vec<Range> = each
        .map(|range| ((*range.start()).into(), (*range.end()).into()))
        .collect();
    sorted.sort_unstable();
    let mut apart: Vec<Range> = Vec::new();
    for (first, last) in sorted {
        match apart.last_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => apart.push((first, last)),
        }
    }
    apart
}

/// The IP versions of packets that a rule may match.
pub(super) fn versions(rule: &Rule) -> Option<Versions> {
    let of_protocol = match rule.protocol.0 {
        Some(protocol::ICMP) => Versions::V4,
        Some(protocol::ICMP6) => Versions::V6,
        _ => Versions::Both,
    };
    rule.from.versions.and(rule.to.versions)?.and(of_protocol)
}
