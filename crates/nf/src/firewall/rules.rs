//! Which rule decides about a new connection.
//!
//! The first rule that matches decides, in the order of the configuration. When the rules are
//! compiled each goes into the lists of the protocols and IP versions that it can match at all,
//! so that a packet is compared only with rules that its protocol does not rule out, address
//! masks first.

use std::ops::RangeInclusive;

use twinpath_core::wire::layout::{Layout, Transport};
use twinpath_core::wire::{Address, fields, protocol};

use super::rule::{Action, Rule, port_number};

/// What rules see of the first packet of a connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FirstPacket {
    /// Its sender.
    pub source: Address,
    /// Where it goes.
    pub destination: Address,
    /// IP protocol number.
    pub protocol: u8,
    /// Its ports, source and destination, if its protocol has some. Rules that name ports match no
    /// others.
    pub ports: Option<(u16, u16)>,
    /// The number of the node's port that it came in by.
    pub ingress: u16,
}

impl FirstPacket {
    /// What rules see of this one.
    pub fn of(packet: &[u8], layout: &Layout, ingress: u16) -> Self {
        let source = fields::source(packet, layout);
        let destination = fields::destination(packet, layout);
        let ports = match layout.transport {
            Transport::Tcp | Transport::Udp => Some((source.port, destination.port)),
            _ => None,
        };
        Self {
            source: source.address,
            destination: destination.address,
            protocol: layout.protocol,
            ports,
            ingress,
        }
    }
}

/// Rules, compiled for matching.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    lists: [Vec<Entry>; 2 * CLASSES],
}

#[derive(Clone, Debug)]
struct Entry {
    /// Its place among the rules, counted from 0.
    place: u32,
    source: Masked,
    destination: Masked,
    /// Of protocols without a list of their own.
    protocol: Option<u8>,
    source_ports: Box<[RangeInclusive<u16>]>,
    destination_ports: Box<[RangeInclusive<u16>]>,
    /// The number of the port that packets come in by, if it matters.
    ingress: Option<u16>,
    action: Action,
}

#[derive(Copy, Clone, Debug)]
struct Masked {
    mask: u128,
    value: u128,
}

/// Protocols that have lists of their own, and the rest.
const CLASSES: usize = 5;
const OWN_LISTS: [u8; CLASSES - 1] = [
    protocol::TCP,
    protocol::UDP,
    protocol::ICMP,
    protocol::ICMP6,
];
/// The list of the rest.
const REST: usize = CLASSES - 1;

/// What no port has as its number.
const NO_PORT: u16 = u16::MAX;

impl RuleSet {
    /// Compiles rules for a node with ports of these names, by number.
    pub fn new(rules: &[Rule], ports: &[String]) -> Self {
        let mut set = Self::default();
        for (index, list) in set.lists.iter_mut().enumerate() {
            let (class, v4) = (index / 2, index % 2 == 0);
            *list = (0..)
                .zip(rules)
                .filter(|(_, rule)| belongs(rule, class, v4))
                .map(|(place, rule)| Entry::new(place, rule, class, ports))
                .collect();
        }
        set
    }

    /// What the first rule that matches says; `None` if none does.
    pub fn decide(&self, packet: &FirstPacket) -> Option<Action> {
        self.deciding(packet).map(|(_, action)| action)
    }

    /// The same, with the place of the rule, counted from 0.
    pub fn deciding(&self, packet: &FirstPacket) -> Option<(u32, Action)> {
        let class = OWN_LISTS
            .iter()
            .position(|&own| own == packet.protocol)
            .unwrap_or(REST);
        let list = &self.lists[2 * class + usize::from(!packet.source.is_v4())];
        list.iter()
            .find(|entry| entry.matches(packet))
            .map(|entry| (entry.place, entry.action))
    }
}

fn belongs(rule: &Rule, class: usize, v4: bool) -> bool {
    let protocol = match OWN_LISTS.get(class) {
        Some(&own) => rule.protocol.includes(own),
        None => rule
            .protocol
            .0
            .is_none_or(|number| !OWN_LISTS.contains(&number)),
    };
    protocol && rule.from.versions.includes(v4) && rule.to.versions.includes(v4)
}

impl Entry {
    fn new(place: u32, rule: &Rule, class: usize, ports: &[String]) -> Self {
        let number = |name: &str| port_number(name, ports).unwrap_or(NO_PORT);
        Self {
            place,
            source: Masked {
                mask: rule.from.mask,
                value: rule.from.network.0,
            },
            destination: Masked {
                mask: rule.to.mask,
                value: rule.to.network.0,
            },
            protocol: rule.protocol.0.filter(|_| class == REST),
            source_ports: rule.from_port.ranges().into(),
            destination_ports: rule.to_port.ranges().into(),
            ingress: rule.ingress.as_deref().map(number),
            action: rule.action,
        }
    }

    fn matches(&self, packet: &FirstPacket) -> bool {
        self.destination.includes(packet.destination)
            && self.source.includes(packet.source)
            && self.protocol.is_none_or(|number| number == packet.protocol)
            && self.ingress.is_none_or(|number| number == packet.ingress)
            && self.matches_ports(packet.ports)
    }

    fn matches_ports(&self, ports: Option<(u16, u16)>) -> bool {
        if self.source_ports.is_empty() && self.destination_ports.is_empty() {
            return true;
        }
        ports.is_some_and(|(source, destination)| {
            includes(&self.destination_ports, destination) && includes(&self.source_ports, source)
        })
    }
}

impl Masked {
    fn includes(self, address: Address) -> bool {
        address.0 & self.mask == self.value
    }
}

/// Whether a port lies in one of the ranges; no ranges stand for all ports.
fn includes(ranges: &[RangeInclusive<u16>], port: u16) -> bool {
    ranges.is_empty() || ranges.iter().any(|range| range.contains(&port))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Rules {
        rules: Vec<Rule>,
    }

    fn rules(text: &str) -> Vec<Rule> {
        toml::from_str::<Rules>(text).expect("good rules").rules
    }

    /// The first rule that matches, found by reading them one after the other as text.
    fn by_hand(written: &[Text], packet: &FirstPacket) -> Option<Action> {
        written
            .iter()
            .find(|rule| rule.matches(packet))
            .map(|rule| rule.action)
    }

    #[derive(Clone, Debug)]
    struct Text {
        action: Action,
        protocol: Option<u8>,
        from: Option<(IpAddr, u8)>,
        to: Option<(IpAddr, u8)>,
        from_port: Option<(u16, u16)>,
        to_port: Option<(u16, u16)>,
        ingress: Option<u16>,
    }

    /// The names of the node's ports.
    fn ports() -> Vec<String> {
        ["port0", "port1"].map(str::to_owned).into()
    }

    impl Text {
        fn matches(&self, packet: &FirstPacket) -> bool {
            if self.ingress.is_some_and(|port| port != packet.ingress) {
                return false;
            }
            if self
                .protocol
                .is_some_and(|number| number != packet.protocol)
            {
                return false;
            }
            if !shares_bits(self.from, packet.source.to_ip())
                || !shares_bits(self.to, packet.destination.to_ip())
            {
                return false;
            }
            match packet.ports {
                _ if self.from_port.is_none() && self.to_port.is_none() => true,
                None => false,
                Some((source, destination)) => {
                    let within = |range: Option<(u16, u16)>, port| {
                        range.is_none_or(|(first, last)| first <= port && port <= last)
                    };
                    within(self.from_port, source) && within(self.to_port, destination)
                }
            }
        }

        fn toml(&self) -> String {
            let mut parts = vec![format!(
                "action = \"{}\"",
                if self.action == Action::Allow {
                    "allow"
                } else {
                    "deny"
                }
            )];
            parts.extend(self.ingress.map(|port| format!("ingress = \"port{port}\"")));
            parts.extend(self.protocol.map(|number| format!("protocol = {number}")));
            for (name, prefix) in [("from", self.from), ("to", self.to)] {
                parts.extend(
                    prefix.map(|(address, length)| format!("{name} = \"{address}/{length}\"")),
                );
            }
            for (name, range) in [("from_port", self.from_port), ("to_port", self.to_port)] {
                parts.extend(range.map(|(first, last)| format!("{name} = \"{first}-{last}\"")));
            }
            format!("{{ {} }}", parts.join(", "))
        }
    }

    fn shares_bits(prefix: Option<(IpAddr, u8)>, address: IpAddr) -> bool {
        let bits = |octets: &[u8]| {
            octets
                .iter()
                .flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1))
                .collect::<Vec<_>>()
        };
        match (prefix, address) {
            (None, _) => true,
            (Some((IpAddr::V4(network), length)), IpAddr::V4(address)) => {
                bits(&network.octets())[..length.into()] == bits(&address.octets())[..length.into()]
            }
            (Some((IpAddr::V6(network), length)), IpAddr::V6(address)) => {
                bits(&network.octets())[..length.into()] == bits(&address.octets())[..length.into()]
            }
            _ => false,
        }
    }

    /// Few addresses that differ in first and last bits, so that prefixes of all lengths matter.
    fn address(v4: bool) -> impl Strategy<Value = IpAddr> {
        (0..4u128, 0..4u128).prop_map(move |(high, low)| match v4 {
            true => IpAddr::V4(((high << 30 | low) as u32).into()),
            false => IpAddr::V6((0x2001_0db8 << 96 | high << 62 | low).into()),
        })
    }

    fn prefix(v4: bool) -> impl Strategy<Value = Option<(IpAddr, u8)>> {
        let most: u8 = if v4 { 32 } else { 128 };
        let cut = move |(address, length): (IpAddr, u8)| match address {
            IpAddr::V4(v4) => (
                IpAddr::V4(
                    (v4.to_bits() & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0))
                        .into(),
                ),
                length,
            ),
            IpAddr::V6(v6) => (
                IpAddr::V6(
                    (v6.to_bits() & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0))
                        .into(),
                ),
                length,
            ),
        };
        proptest::option::of((address(v4), 0..=most).prop_map(cut))
    }

    fn range() -> impl Strategy<Value = Option<(u16, u16)>> {
        proptest::option::of((0..6u16, 0..6u16).prop_map(|(a, b)| (a.min(b), a.max(b))))
    }

    fn text() -> impl Strategy<Value = Text> {
        let prefixes = any::<bool>().prop_flat_map(|v4| (prefix(v4), prefix(v4)));
        let protocol = proptest::option::of(prop::sample::select(vec![1u8, 6, 17, 47, 58]));
        let ingress = proptest::option::of(0..2u16);
        (any::<bool>(), protocol, prefixes, range(), range(), ingress).prop_filter_map(
            "a rule that can match",
            |(allow, protocol, (from, to), from_port, to_port, ingress)| {
                let action = if allow { Action::Allow } else { Action::Deny };
                let rule = Text {
                    action,
                    protocol,
                    from,
                    to,
                    from_port,
                    to_port,
                    ingress,
                };
                let has_range = rule.from_port.is_some() || rule.to_port.is_some();
                let is_v4 =
                    |prefix: Option<(IpAddr, u8)>| prefix.map(|(address, _)| address.is_ipv4());
                let wrong_icmp = [is_v4(from), is_v4(to)]
                    .into_iter()
                    .flatten()
                    .any(|v4| protocol == Some(if v4 { 58 } else { 1 }));
                let possible = !(wrong_icmp || has_range && matches!(protocol, Some(1 | 47 | 58)));
                possible.then_some(rule)
            },
        )
    }

    fn packet() -> impl Strategy<Value = FirstPacket> {
        let ends = any::<bool>().prop_flat_map(|v4| (address(v4), address(v4)));
        let protocol = prop::sample::select(vec![1u8, 6, 17, 47, 58, 132]);
        (ends, protocol, 0..6u16, 0..6u16, 0..3u16).prop_map(
            |((source, destination), protocol, from, to, ingress)| {
                let ports = matches!(protocol, 6 | 17).then_some((from, to));
                FirstPacket {
                    source: source.into(),
                    destination: destination.into(),
                    protocol,
                    ports,
                    ingress,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn decides_as_a_reader_would(written in prop::collection::vec(text(), 0..12), packets in prop::collection::vec(packet(), 1..40)) {
            let lines: Vec<_> = written.iter().map(Text::toml).collect();
            let set = RuleSet::new(&rules(&format!("rules = [{}]", lines.join(", "))), &ports());
            for packet in packets {
                prop_assert_eq!(set.decide(&packet), by_hand(&written, &packet), "{:?}", packet);
            }
        }
    }

    fn tcp(source: &str, destination: &str, port: u16) -> FirstPacket {
        FirstPacket {
            source: source.parse().expect("address"),
            destination: destination.parse().expect("address"),
            protocol: 6,
            ports: Some((40_000, port)),
            ingress: 0,
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let set = RuleSet::new(
            &rules(
                r#"rules = [
                { action = "deny", from = "10.9.0.0/16" },
                { action = "allow", protocol = "tcp", from = "10.0.0.0/8", to_port = "80,443,8000-8100" },
            ]"#,
            ),
            &[],
        );
        assert_eq!(
            set.decide(&tcp("10.9.1.1", "192.0.2.1", 80)),
            Some(Action::Deny)
        );
        assert_eq!(
            set.decide(&tcp("10.8.1.1", "192.0.2.1", 8050)),
            Some(Action::Allow)
        );
        assert_eq!(set.decide(&tcp("10.8.1.1", "192.0.2.1", 8101)), None);
        assert_eq!(
            set.decide(&FirstPacket {
                protocol: 17,
                ..tcp("10.8.1.1", "192.0.2.1", 80)
            }),
            None
        );
    }

    #[test]
    fn all_of_ipv6_is_none_of_ipv4() {
        let set = RuleSet::new(
            &rules(r#"rules = [{ action = "allow", from = "::/0" }]"#),
            &[],
        );
        assert_eq!(set.decide(&tcp("10.0.0.1", "10.0.0.2", 1)), None);
        assert_eq!(
            set.decide(&tcp("2001:db8::1", "2001:db8::2", 1)),
            Some(Action::Allow)
        );
    }
}
