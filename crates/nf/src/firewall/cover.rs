//! Rules that no packet meets, because one before decides all of theirs.

use super::rule::{Action, Ports, Prefix, Rule, Versions};
use crate::descriptor::ConfigWarning;
use twinpath_core::wire::{Address, protocol};

/// Most pairs of rules that are compared: of long lists only the first rules are looked at.
const MOST_PAIRS: usize = 4_000_000;

/// What to tell of rules, in order, that no packet meets.
pub(crate) fn unreachable_rules(rules: &[Rule]) -> Vec<ConfigWarning> {
    let mut pairs = 0;
    let mut warnings = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        pairs += number;
        if pairs > MOST_PAIRS {
            break;
        }
        let Some(versions) = versions(rule) else {
            continue;
        };
        let before = &rules[..number];
        if let Some(place) = before.iter().position(|one| covers(one, rule, versions)) {
            warnings.push(warning(number, place, &rules[place]));
        }
    }
    warnings
}

fn warning(number: usize, place: usize, earlier: &Rule) -> ConfigWarning {
    let has_ports = !(earlier.from_port.are_any() && earlier.to_port.are_any());
    let but = match (earlier.action, has_ports) {
        (Action::Allow, true) => ", but for fragments, which have no ports",
        _ => "",
    };
    let place = place + 1;
    ConfigWarning {
        keys: vec!["rules".into(), number.to_string()],
        message: format!(
            "no packet comes to this rule: rule {place} ({earlier}) decides all that it would match{but}"
        ),
    }
}

/// Whether one rule matches all packets, of these IP versions, that the other does.
fn covers(one: &Rule, other: &Rule, of: Versions) -> bool {
    let same_or_any =
        |one: &Option<Box<str>>, other: &Option<Box<str>>| one.is_none() || one == other;
    let has_protocol = one.protocol.0.is_none() || one.protocol == other.protocol;
    same_or_any(&one.ingress, &other.ingress)
        && has_protocol
        && prefix_covers(&one.from, &other.from, of)
        && prefix_covers(&one.to, &other.to, of)
        && ports_cover(&one.from_port, &other.from_port)
        && ports_cover(&one.to_port, &other.to_port)
}

/// The IP versions of packets that a rule may match.
fn versions(rule: &Rule) -> Option<Versions> {
    let of_protocol = match rule.protocol.0 {
        Some(protocol::ICMP) => Versions::V4,
        Some(protocol::ICMP6) => Versions::V6,
        _ => Versions::Both,
    };
    rule.from.versions.and(rule.to.versions)?.and(of_protocol)
}

fn prefix_covers(one: &Prefix, other: &Prefix, of: Versions) -> bool {
    let (other, one_mask) = (of_versions(*other, of), one.mask);
    let has_versions = one.versions == Versions::Both || one.versions == of;
    has_versions
        && one_mask & other.mask == one_mask
        && (one.network.0 ^ other.network.0) & one_mask == 0
}

/// Any address of IPv4 is one of the block that it is mapped into.
fn of_versions(prefix: Prefix, of: Versions) -> Prefix {
    match (of, prefix.mask) {
        (Versions::V4, 0) => Prefix {
            network: Address::UNSPECIFIED_V4,
            mask: u128::MAX << 32,
            versions: Versions::V4,
        },
        _ => prefix,
    }
}

fn ports_cover(one: &Ports, other: &Ports) -> bool {
    let is_within = |range: &std::ops::RangeInclusive<u16>| {
        let mut ranges = one.ranges().iter();
        ranges.any(|wide| wide.contains(range.start()) && wide.contains(range.end()))
    };
    one.are_any() || (!other.are_any() && other.ranges().iter().all(is_within))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable(rules: &[&str]) -> Vec<(String, String)> {
        let rules: Vec<Rule> = rules
            .iter()
            .map(|text| {
                text.parse()
                    .unwrap_or_else(|error| panic!("{text}: {error}"))
            })
            .collect();
        let told = unreachable_rules(&rules).into_iter();
        told.map(|warning| (warning.keys.join("."), warning.message))
            .collect()
    }

    #[test]
    fn rules_that_an_earlier_one_covers_are_told() {
        for [earlier, later] in [
            ["allow", "deny protocol tcp to_port 25"],
            [
                "deny from 10.0.0.0/8",
                "allow protocol udp from 10.1.0.0/16",
            ],
            [
                "deny protocol tcp to_port 20-30,80",
                "allow protocol tcp to_port 25,80",
            ],
            ["deny from 0.0.0.0/0", "allow protocol icmp"],
            ["deny from ::/0", "allow protocol icmp6 to 2001:db8::1"],
            ["deny from 0.0.0.0/0 to 10.0.0.0/8", "allow to 10.0.0.0/8"],
            ["deny", "allow ingress lan"],
            ["deny protocol tcp", "deny protocol tcp"],
        ] {
            let told = unreachable(&[earlier, later]);
            let [(keys, message)] = &told[..] else {
                panic!("{earlier}, {later}: {told:?}")
            };
            assert_eq!(keys, "rules.1");
            assert!(
                message.contains(&format!("rule 1 ({earlier})")),
                "{message}"
            );
        }
    }

    #[test]
    fn rules_that_some_packet_may_meet_are_not() {
        for [earlier, later] in [
            ["deny protocol tcp to_port 25", "allow protocol tcp"],
            [
                "deny protocol tcp to_port 25",
                "allow protocol tcp to_port 24-25",
            ],
            ["deny from 10.1.0.0/16", "allow from 10.0.0.0/8"],
            ["deny from 0.0.0.0/0", "allow"],
            ["deny from 0.0.0.0/0", "allow from ::/0"],
            ["deny ingress lan", "allow"],
            ["deny ingress lan", "allow ingress wan"],
            ["deny protocol tcp", "allow protocol udp"],
        ] {
            assert_eq!(unreachable(&[earlier, later]), [], "{earlier}, {later}");
        }
        let fragments = unreachable(&["allow to_port 80-90", "deny to_port 80"]);
        assert!(
            fragments[0]
                .1
                .ends_with("but for fragments, which have no ports")
        );
    }

    #[test]
    fn lists_of_any_length_are_told_of_soon() {
        let rules: Vec<Rule> = (0..100_000u32)
            .map(|host| {
                let [_, a, b, c] = host.to_be_bytes();
                format!("deny from 10.{a}.{b}.{c}").parse().expect("a rule")
            })
            .collect();
        assert_eq!(unreachable_rules(&rules), []);
    }
}
