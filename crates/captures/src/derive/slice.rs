//! A part of some conversations that one rule can tell from the rest.

use crate::profile::{Conversation, networks::subnet};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use twinpath_classify::Prefix;
use twinpath_wire::{Endpoint, protocol};

/// One way of a conversation, as a rule sees its packets.
#[derive(Copy, Clone, Debug)]
pub(super) struct OneDirection {
    pub protocol: u8,
    pub from: Endpoint,
    pub to: Endpoint,
    pub packets: u64,
}

impl OneDirection {
    /// What the first packet looks like.
    pub fn first(conversation: &Conversation) -> Self {
        Self {
            protocol: conversation.protocol(),
            from: conversation.source,
            to: conversation.destination,
            packets: conversation.packets,
        }
    }

    /// What the client's packets look like.
    pub fn asking(conversation: &Conversation) -> Self {
        Self {
            from: conversation.client,
            to: conversation.server,
            ..Self::first(conversation)
        }
    }

    pub fn is_v4(&self) -> bool {
        self.from.address.is_v4()
    }

    fn has_ports(&self) -> bool {
        matches!(self.protocol, protocol::TCP | protocol::UDP)
    }
}

/// What a rule says of the packets that it matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matches {
    pub protocol: u8,
    pub from: Option<Prefix>,
    pub to: Option<Prefix>,
    pub from_port: Option<RangeInclusive<u16>>,
    pub to_port: Option<RangeInclusive<u16>>,
}

impl Matches {
    /// What goes the other way; both ends may be one host.
    pub fn answers(way: &OneDirection) -> Self {
        let port = |end: Endpoint| way.has_ports().then_some(end.port..=end.port);
        Self {
            protocol: way.protocol,
            from: Some(way.to.address.into()),
            to: Some(way.from.address.into()),
            from_port: port(way.to),
            to_port: port(way.from),
        }
    }

    pub fn includes(&self, way: &OneDirection) -> bool {
        let has = |prefix: Option<Prefix>, end: Endpoint| {
            prefix.is_none_or(|prefix| prefix.includes(end.address))
        };
        let spans = |ports: &Option<RangeInclusive<u16>>, end: Endpoint| {
            ports.as_ref().is_none_or(|ports| ports.contains(&end.port))
        };
        self.protocol == way.protocol
            && has(self.from, way.from)
            && has(self.to, way.to)
            && spans(&self.from_port, way.from)
            && spans(&self.to_port, way.to)
    }
}

/// As the keys of a rule.
impl fmt::Display for Matches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            protocol::TCP => f.write_str("protocol = \"tcp\"")?,
            protocol::UDP => f.write_str("protocol = \"udp\"")?,
            number => write!(f, "protocol = {number}")?,
        }
        for (name, prefix) in [("from", self.from), ("to", self.to)] {
            prefix.map_or(Ok(()), |prefix| write!(f, ", {name} = \"{prefix}\""))?;
        }
        for (name, ports) in [("from_port", &self.from_port), ("to_port", &self.to_port)] {
            if let Some(ports) = ports {
                write!(f, ", {name} = \"{}-{}\"", ports.start(), ports.end())?;
            }
        }
        Ok(())
    }
}

/// So many of a hundred packets are to be denied: enough to see it, and not what most are.
const WANTED_PERCENT: u64 = 15;

/// What tells some of the ways, all of one protocol and IP version, from the others: the second
/// busiest network and port that they go to, a range of the ports that they go to or come from, or
/// one host; of these what is nearest to the part wanted. `None` if nothing tells them apart.
pub(super) fn slice(ways: &[OneDirection]) -> Option<Matches> {
    let protocol = ways.first()?.protocol;
    let has_ports = ways[0].has_ports();
    let to_port = |way: &OneDirection| way.to.port;
    let from_port = |way: &OneDirection| way.from.port;
    let ports =
        |port: &dyn Fn(&OneDirection) -> u16| has_ports.then(|| upper_part(ways, port)).flatten();
    let some = |matches: Matches| Matches {
        protocol,
        ..matches
    };
    let candidates = [
        second_busiest(ways, has_ports),
        ports(&to_port).map(|to_port| Matches {
            to_port: Some(to_port),
            ..Matches::default()
        }),
        ports(&from_port).map(|from_port| Matches {
            from_port: Some(from_port),
            ..Matches::default()
        }),
        Some(Matches {
            to: Some(ways[0].to.address.into()),
            ..Matches::default()
        }),
        Some(Matches {
            from: Some(ways[0].from.address.into()),
            ..Matches::default()
        }),
    ];
    let candidates = candidates.into_iter().flatten().map(some);
    let distance = |matches: &Matches| Some(percent(matches, ways)?.abs_diff(WANTED_PERCENT));
    let split = candidates.filter_map(|matches| Some((distance(&matches)?, matches)));
    let nearest = split.min_by_key(|(distance, _)| *distance);
    nearest.map(|(_, matches)| matches)
}

/// How many of a hundred packets a rule matches, if it matches some and not all.
fn percent(matches: &Matches, ways: &[OneDirection]) -> Option<u64> {
    let all: u64 = ways.iter().map(|way| way.packets).sum();
    let matched = ways.iter().filter(|way| matches.includes(way));
    let matched: u64 = matched.map(|way| way.packets).sum();
    (0 < matched && matched < all).then(|| 100 * matched / all)
}

/// The subnet and port with the second most packets to it, and the ports around.
fn second_busiest(ways: &[OneDirection], has_ports: bool) -> Option<Matches> {
    let mut packets = BTreeMap::<(String, u16), (u64, Prefix)>::new();
    for way in ways {
        let network = subnet(way.to.address);
        let port = if has_ports { way.to.port } else { 0 };
        packets
            .entry((network.to_string(), port))
            .or_insert((0, network))
            .0 += way.packets;
    }
    let mut targets: Vec<_> = packets.into_iter().collect();
    targets.sort_by_key(|(_, (packets, _))| Reverse(*packets));
    let ((_, port), (_, network)) = targets.into_iter().nth(1)?;
    Some(Matches {
        to: Some(network),
        to_port: has_ports.then_some(port & !7..=port | 7),
        ..Matches::default()
    })
}

/// The highest ports, with a quarter of the packets or more.
fn upper_part(
    ways: &[OneDirection],
    port: &dyn Fn(&OneDirection) -> u16,
) -> Option<RangeInclusive<u16>> {
    let mut packets = BTreeMap::<u16, u64>::new();
    ways.iter()
        .for_each(|way| *packets.entry(port(way)).or_default() += way.packets);
    let all: u64 = packets.values().sum();
    let (last, _) = packets.last_key_value()?;
    let mut so_far = 0;
    let first = packets.iter().rev().find(|(_, packets)| {
        so_far += **packets;
        4 * so_far >= all
    });
    first.map(|(first, _)| *first..=*last)
}

/// The ways by IP version and protocol, the busiest first.
pub(super) fn by_protocol(ways: impl Iterator<Item = OneDirection>) -> Vec<Vec<OneDirection>> {
    let mut groups = BTreeMap::<(bool, u8), Vec<OneDirection>>::new();
    ways.for_each(|way| {
        groups
            .entry((way.is_v4(), way.protocol))
            .or_default()
            .push(way)
    });
    let mut groups: Vec<_> = groups.into_values().collect();
    let packets = |group: &Vec<OneDirection>| group.iter().map(|way| way.packets).sum::<u64>();
    groups.sort_by_key(|group| Reverse(packets(group)));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(from: &str, to: &str, packets: u64) -> OneDirection {
        OneDirection {
            protocol: protocol::TCP,
            from: from.parse().expect("an endpoint"),
            to: to.parse().expect("an endpoint"),
            packets,
        }
    }

    #[test]
    fn the_second_busiest_server_is_a_part() {
        let ways = [
            way("10.0.0.1:4000", "192.0.2.1:80", 10),
            way("10.0.0.1:4001", "192.0.3.1:443", 5),
            way("10.0.0.1:4002", "192.0.4.1:25", 1),
        ];
        let matches = slice(&ways).expect("a part");
        assert_eq!(
            matches.to_string(),
            "protocol = \"tcp\", to = \"192.0.3.0/24\", to_port = \"440-447\""
        );
        assert_eq!(ways.map(|way| matches.includes(&way)), [false, true, false]);
    }

    #[test]
    fn connections_of_two_hosts_differ_in_the_ports_that_they_come_from() {
        let ways = [
            way("10.0.0.1:4000", "192.0.2.1:80", 2),
            way("10.0.0.1:4001", "192.0.2.1:80", 2),
            way("10.0.0.1:4002", "192.0.2.1:80", 2),
        ];
        let matches = slice(&ways).expect("a part");
        assert_eq!(matches.from_port, Some(4002..=4002));
    }

    #[test]
    fn one_connection_has_no_parts() {
        assert_eq!(slice(&[way("10.0.0.1:4000", "192.0.2.1:80", 9)]), None);
        assert_eq!(slice(&[]), None);
    }
}
