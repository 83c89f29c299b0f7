//! Access control lists with the statistics that ClassBench found in real ones.

use twinpath_core::wire::{Address, protocol};

use super::Random;
use super::routes::within;
use crate::Prefix;
use crate::acl::{Headers, PortRange, Rule};

/// What kind of list: the three families of ClassBench (Taylor and Turner, 2007).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Style {
    /// Access control: destinations and often sources are specific, source ports are open.
    AccessControl,
    /// A firewall: one of the two addresses is often open, ports of both ends are ranges.
    Firewall,
    /// Packet filters of a Linux host: between the two.
    Filter,
}

impl Style {
    /// All three.
    pub const ALL: [Self; 3] = [Self::AccessControl, Self::Firewall, Self::Filter];

    const fn any_source_in_1000(self) -> u64 {
        match self {
            Self::AccessControl => 40,
            Self::Firewall => 350,
            Self::Filter => 150,
        }
    }

    const fn any_destination_in_1000(self) -> u64 {
        match self {
            Self::AccessControl => 5,
            Self::Firewall => 250,
            Self::Filter => 100,
        }
    }

    const fn lengths(self) -> &'static [(u8, u32)] {
        match self {
            Self::AccessControl => &[
                (16, 2),
                (20, 3),
                (22, 5),
                (23, 10),
                (24, 25),
                (27, 5),
                (28, 10),
                (30, 10),
                (32, 60),
            ],
            Self::Firewall => &[
                (8, 3),
                (12, 2),
                (16, 10),
                (20, 5),
                (24, 30),
                (26, 5),
                (28, 5),
                (32, 50),
            ],
            Self::Filter => &[
                (8, 1),
                (14, 2),
                (16, 8),
                (19, 4),
                (24, 25),
                (29, 10),
                (32, 60),
            ],
        }
    }

    const fn source_ports(self) -> &'static [(Ports, u32)] {
        match self {
            Self::AccessControl => &[(Ports::Any, 99), (Ports::Exact, 1)],
            Self::Firewall => &[
                (Ports::Any, 65),
                (Ports::High, 12),
                (Ports::Range, 3),
                (Ports::Exact, 20),
            ],
            Self::Filter => &[
                (Ports::Any, 75),
                (Ports::High, 10),
                (Ports::Range, 5),
                (Ports::Exact, 10),
            ],
        }
    }

    const fn destination_ports(self) -> &'static [(Ports, u32)] {
        match self {
            Self::AccessControl => &[
                (Ports::Any, 30),
                (Ports::High, 8),
                (Ports::Range, 10),
                (Ports::Exact, 52),
            ],
            Self::Firewall => &[
                (Ports::Any, 45),
                (Ports::High, 10),
                (Ports::Range, 10),
                (Ports::Exact, 35),
            ],
            Self::Filter => &[
                (Ports::Any, 50),
                (Ports::High, 8),
                (Ports::Range, 7),
                (Ports::Exact, 35),
            ],
        }
    }
}

#[derive(Copy, Clone, Debug)]
enum Ports {
    Any,
    High,
    Range,
    Exact,
}

const WELL_KNOWN: [u16; 16] = [
    80, 443, 53, 22, 25, 110, 123, 143, 161, 389, 445, 1433, 1521, 3306, 5432, 8080,
];

/// `count` rules, a share of `v6_in_100` of them IPv6, most specific ones first as people write
/// them. Sites (networks of some hundred hosts) occur in many rules.
#[must_use]
pub fn rules(count: usize, style: Style, v6_in_100: u64, seed: u64) -> Vec<Rule> {
    let mut random = Random::new(seed);
    let sites = |random: &mut Random| -> Vec<u64> {
        let organisations: Vec<u64> = (0..20).map(|_| random.bits()).collect();
        (0..count / 12 + 4)
            .map(|_| organisations[random.below(20) as usize] & 0xff00 | random.bits() & !0xff00)
            .collect()
    };
    let (sources, destinations) = (sites(&mut random), sites(&mut random));
    let mut rules: Vec<Rule> = (0..count)
        .map(|_| {
            let v6 = random.below(100) < v6_in_100;
            let mut prefix = |sites: &[u64], any_in_1000| match random.below(1000) < any_in_1000 {
                true => Prefix::ANY,
                false => site_prefix(&mut random, sites, style, v6),
            };
            let source = prefix(&sources, style.any_source_in_1000());
            let destination = prefix(&destinations, style.any_destination_in_1000());
            with_ports(&mut random, style, source, destination)
        })
        .collect();
    rules.sort_by_key(|rule| {
        let bits = u16::from(rule.source.length()) + u16::from(rule.destination.length());
        // Mostly in order of how specific they are, but not quite.
        std::cmp::Reverse(bits / 24)
    });
    rules
}

fn site_prefix(random: &mut Random, sites: &[u64], style: Style, v6: bool) -> Prefix {
    let site = sites[random.below(sites.len() as u64) as usize];
    let length = random.weighted(style.lengths()).unwrap_or(32);
    let host = random.below(256);
    if v6 {
        let network = 0x2001_0db8u128 << 96 | u128::from(site as u32) << 64;
        return Prefix::covering(
            Address(network | u128::from(host)),
            (length + 32).min(64) + if length == 32 { 64 } else { 0 },
        );
    }
    // The first byte of an address comes from the site's organisation.
    let number =
        ((site >> 8 & 0xff) as u32 % 223) << 24 | (site >> 32) as u32 & 0x00ff_ff00 | host as u32;
    Prefix::covering(Address::from_v4(number.to_be_bytes()), length)
}

fn with_ports(random: &mut Random, style: Style, source: Prefix, destination: Prefix) -> Rule {
    let kinds = [
        (Some(protocol::TCP), 65),
        (Some(protocol::UDP), 22),
        (Some(protocol::ICMP), 4),
        (None, 9),
    ];
    let protocol = random.weighted(&kinds).unwrap_or(None);
    let has_ports = matches!(protocol, Some(protocol::TCP | protocol::UDP));
    let mut ports = |kinds: &[(Ports, u32)]| match random.weighted(kinds) {
        Some(kind) if has_ports => port_range(random, kind),
        _ => PortRange::ANY,
    };
    Rule {
        source,
        destination,
        source_ports: ports(style.source_ports()),
        destination_ports: ports(style.destination_ports()),
        protocol,
    }
}

fn port_range(random: &mut Random, kind: Ports) -> PortRange {
    let first = match random.below(3) {
        0 => random.below(60_000) as u16,
        _ => WELL_KNOWN[random.below(16) as usize],
    };
    match kind {
        Ports::Any => PortRange::ANY,
        Ports::High => PortRange::new(1024, u16::MAX),
        Ports::Exact => PortRange::new(first, first),
        Ports::Range => PortRange::new(first, first.saturating_add(random.below(2_000) as u16)),
    }
}

/// Headers of which nine in ten are made to match some rule (which may not be the first they
/// match), and the rest come from anywhere.
#[must_use]
pub fn headers(rules: &[Rule], count: usize, seed: u64) -> Vec<Headers> {
    let mut random = Random::new(seed);
    (0..count)
        .map(
            |_| match rules.get(random.below(rules.len() as u64) as usize) {
                Some(rule) if random.below(10) > 0 => matching(rule, &mut random),
                _ => matching(&Rule::ANY, &mut random),
            },
        )
        .collect()
}

fn matching(rule: &Rule, random: &mut Random) -> Headers {
    let v4 = [rule.source, rule.destination]
        .iter()
        .all(|prefix| prefix.versions().includes(true));
    let mut address = |prefix: &Prefix| match (*prefix == Prefix::ANY, v4) {
        (false, _) => within(prefix, random),
        (true, true) => Address::from_v4((random.bits() as u32).to_be_bytes()),
        (true, false) => Address(0x2001 << 112 | u128::from(random.bits())),
    };
    let (source, destination) = (address(&rule.source), address(&rule.destination));
    let mut port = |range: PortRange| {
        let span = u64::from(range.last() - range.first()) + 1;
        range.first() + random.below(span) as u16
    };
    Headers {
        source,
        destination,
        source_port: port(rule.source_ports),
        destination_port: port(rule.destination_ports),
        protocol: rule.protocol.unwrap_or(protocol::TCP),
    }
}
