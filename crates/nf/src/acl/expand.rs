//! Rules as the classifier has them.

use crate::firewall::rule::{Action, Ports, Rule, Versions, has_ports};
use twinpath_classify::Prefix;
use twinpath_classify::acl::{PortRange, Rule as Expanded};
use twinpath_core::wire::protocol;

/// How many rules of the classifier a rule makes.
pub(super) fn expanded_count(rule: &Rule) -> usize {
    let ranges = |ports: &Ports| ports.ranges().len().max(1);
    protocols(rule).len() * ranges(&rule.from_port) * ranges(&rule.to_port)
}

/// How many it makes for packets that lack ports; see [`expand_portless`].
pub(super) fn portless_count(rule: &Rule, opened: Action) -> usize {
    match !has_port_lists(rule) || rule.action == opened {
        true => protocols(rule).len(),
        false => 0,
    }
}

/// The rule for packets that have their ports.
pub(super) fn expand(rule: &Rule) -> Vec<Expanded> {
    let mut all = Vec::new();
    for &protocol in &protocols(rule) {
        for source_ports in ranges(&rule.from_port) {
            for destination_ports in ranges(&rule.to_port) {
                all.push(Expanded {
                    source: prefix(&rule.from),
                    destination: prefix(&rule.to),
                    source_ports,
                    destination_ports,
                    protocol,
                });
            }
        }
    }
    all
}

/// The rule for packets that lack them: one with the action that is `opened` matches whatever its
/// ports, another is left out.
pub(super) fn expand_portless(rule: &Rule, opened: Action) -> Vec<Expanded> {
    if !has_port_lists(rule) {
        return expand(rule);
    }
    if rule.action != opened {
        return Vec::new();
    }
    let portless = |&protocol: &Option<u8>| Expanded {
        source: prefix(&rule.from),
        destination: prefix(&rule.to),
        protocol,
        ..Expanded::ANY
    };
    protocols(rule).iter().map(portless).collect()
}

fn has_port_lists(rule: &Rule) -> bool {
    !(rule.from_port.are_any() && rule.to_port.are_any())
}

/// The protocols that a rule speaks of, of which one with ports speaks one by one.
fn protocols(rule: &Rule) -> Vec<Option<u8>> {
    match rule.protocol.0 {
        None if has_port_lists(rule) => vec![Some(protocol::TCP), Some(protocol::UDP)],
        Some(number) if has_port_lists(rule) && !has_ports(number) => Vec::new(),
        one => vec![one],
    }
}

fn ranges(ports: &Ports) -> Vec<PortRange> {
    if ports.are_any() {
        return vec![PortRange::ANY];
    }
    let range =
        |range: &std::ops::RangeInclusive<u16>| PortRange::new(*range.start(), *range.end());
    ports.ranges().iter().map(range).collect()
}

/// All packets that a rule may match, and perhaps some more: its ports are one range.
pub(super) fn packets(rule: &Rule) -> Expanded {
    let around = |ports: &Ports| {
        let ranges = ports.ranges();
        let first = ranges.iter().map(|range| *range.start()).min();
        let last = ranges.iter().map(|range| *range.end()).max();
        PortRange::new(first.unwrap_or(0), last.unwrap_or(u16::MAX))
    };
    Expanded {
        source: prefix(&rule.from),
        destination: prefix(&rule.to),
        source_ports: around(&rule.from_port),
        destination_ports: around(&rule.to_port),
        protocol: rule.protocol.0,
    }
}

/// The firewall's prefix as the classifier's.
fn prefix(prefix: &crate::firewall::rule::Prefix) -> Prefix {
    let length = prefix.mask.count_ones() as u8;
    match prefix.versions {
        Versions::Both => Prefix::ANY,
        Versions::V4 => Prefix::covering(prefix.network, length.saturating_sub(96)),
        Versions::V6 => Prefix::covering(prefix.network, length),
    }
}
