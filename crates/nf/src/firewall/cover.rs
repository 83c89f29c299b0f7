//! Rules that no packet meets, because those before decide all of theirs, one alone or several
//! together.

use super::config::Config;
use super::packets::{Cuboid, Space, versions, without};
use super::rule::{Action, Ports, Prefix, Rule, Versions};
use crate::descriptor::ConfigWarning;
use twinpath_core::wire::Address;

/// Most pairs of rules that are compared: of longer lists only the first rules are looked at.
const MOST_PAIRS: usize = 60_000_000;
/// Most pieces that a rule, or what is left of one, may have; of one that has more it is not asked
/// whether several rules cover it.
const MOST_PIECES: usize = 512;
/// Most cuts of pieces in all; beyond it only single rules are looked for.
const MOST_CUTS: usize = 4_000_000;
/// Most rules that a warning names.
const MOST_NAMED: usize = 4;

/// What to tell of rules, in order, that no packet meets. `ports` are the names of the node's ports.
pub(crate) fn unreachable_rules(rules: &[Rule], ports: &[String]) -> Vec<ConfigWarning> {
    let space = Space::of(rules, ports);
    let mut search = Search {
        rules,
        around: rules.iter().map(|rule| space.around(rule)).collect(),
        space,
        cuts: 0,
    };
    let (mut pairs, mut warnings) = (0, Vec::new());
    for number in 0..rules.len() {
        pairs += number;
        if pairs > MOST_PAIRS {
            break;
        }
        if let Some(places) = search.covering(number) {
            warnings.push(warning(number, &places, rules));
        }
    }
    warnings
}

/// Looks for rules that cover others, as long as that is not too much work.
struct Search<'r> {
    rules: &'r [Rule],
    space: Space<'r>,
    /// The smallest cuboid around the packets of each rule.
    around: Vec<Cuboid>,
    cuts: usize,
}

impl Search<'_> {
    /// The places of the rules that decide all packets of a later one: of one that does so alone, or of
    /// all that take some of what the rules before them leave.
    fn covering(&mut self, number: usize) -> Option<Vec<usize>> {
        let (rule, around) = (&self.rules[number], self.around[number]);
        let versions = versions(rule)?;
        let mut left = self.space.pieces(rule, MOST_PIECES);
        let mut takers = Vec::new();
        for place in 0..number {
            if !self.around[place].meets(&around) {
                continue;
            }
            let earlier = &self.rules[place];
            if covers(earlier, rule, versions) {
                return Some(vec![place]);
            }
            let Some(pieces) = left.as_ref().filter(|_| self.cuts < MOST_CUTS) else {
                continue;
            };
            let rest = cut(pieces, &self.space, earlier);
            self.cuts += pieces.len();
            if rest.as_ref().is_some_and(|rest| rest != pieces) {
                takers.push(place);
            }
            if rest.as_ref().is_some_and(Vec::is_empty) {
                return Some(takers);
            }
            left = rest;
        }
        None
    }
}

/// Connections to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Their protocol, as rules name it; `None` for any.
    pub protocol: Option<String>,
    /// The address.
    pub to: Address,
    /// The first and the last port, of those that there are; `None` for all.
    pub ports: Option<(u16, u16)>,
}

impl Config {
    /// Whether every connection is denied that opens so, from hosts that are not inside and by those of
    /// the node's ports; by any if there are none. False where that would be much to find out.
    pub fn denies(
        &self,
        opening: &Opening,
        inside: &[twinpath_classify::Prefix],
        by: &[String],
    ) -> bool {
        let space = Space::of(self.rules(), &self.ports);
        let outside = outside(opening, inside, by, &space);
        let Some(mut left) = outside.filter(|outside| !outside.is_empty()) else {
            return false;
        };
        for rule in self.rules() {
            let Some(rest) = cut(&left, &space, rule) else {
                return false;
            };
            if rule.action == Action::Allow && rest != left {
                return false;
            }
            left = rest;
        }
        left.is_empty() || self.default == Action::Deny
    }
}

/// The packets that open those connections.
fn outside(
    opening: &Opening,
    inside: &[twinpath_classify::Prefix],
    by: &[String],
    space: &Space<'_>,
) -> Option<Vec<Cuboid>> {
    let protocol = opening.protocol.as_ref();
    let protocol = protocol.map_or(String::new(), |protocol| format!(" protocol {protocol}"));
    let ports = opening
        .ports
        .map(|(first, last)| format!(" to_port {first}-{last}"));
    let to = format!("{protocol} to {}{}", opening.to, ports.unwrap_or_default());
    let rules = match by {
        [] => vec![format!("deny{to}")],
        by => by
            .iter()
            .map(|port| format!("deny ingress {port}{to}"))
            .collect(),
    };
    let mut all = Vec::new();
    for rule in rules {
        all.extend(space.pieces(&rule.parse().ok()?, MOST_PIECES)?);
    }
    for prefix in inside {
        let rule = format!("deny from {prefix}").parse().ok()?;
        all = cut(&all, space, &rule)?;
    }
    Some(all)
}

/// What a rule leaves of pieces; `None` if there are too many of them.
fn cut(pieces: &[Cuboid], space: &Space<'_>, rule: &Rule) -> Option<Vec<Cuboid>> {
    let mut left = pieces.to_vec();
    for taken in space.pieces(rule, MOST_PIECES)? {
        left = without(&left, &taken);
        if left.len() > MOST_PIECES {
            return None;
        }
    }
    Some(left)
}

/// `places` has one place at least.
fn warning(number: usize, places: &[usize], rules: &[Rule]) -> ConfigWarning {
    let named = &places[..places.len().min(MOST_NAMED)];
    let each = named
        .iter()
        .map(|&place| format!("{} ({})", place + 1, rules[place]));
    let mut names: Vec<String> = each.collect();
    if places.len() > named.len() {
        names.push(format!("{} more", places.len() - named.len()));
    }
    let last = names.pop().unwrap_or_default();
    let deciders = match names.is_empty() {
        true => format!("rule {last} decides"),
        false => format!("rules {} and {last} decide", names.join(", ")),
    };
    let but = match places.iter().any(|&place| needs_ports(&rules[place])) {
        true => ", but for fragments, which have no ports",
        false => "",
    };
    let keys = |place: usize| vec!["rules".into(), place.to_string()];
    ConfigWarning {
        keys: keys(number),
        message: format!("no packet comes to this rule: {deciders} all that it would match{but}"),
        because: named.iter().map(|&place| keys(place)).collect(),
        elsewhere: None,
    }
}

/// Whether a rule allows packets by their ports, so that it allows no fragments.
fn needs_ports(rule: &Rule) -> bool {
    rule.action == Action::Allow && !(rule.from_port.are_any() && rule.to_port.are_any())
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
    use super::super::rules::{FirstPacket, RuleSet};
    use super::*;
    use proptest::prelude::*;

    fn unreachable(rules: &[&str]) -> Vec<(String, String)> {
        let rules: Vec<Rule> = rules
            .iter()
            .map(|text| {
                text.parse()
                    .unwrap_or_else(|error| panic!("{text}: {error}"))
            })
            .collect();
        let told = unreachable_rules(&rules, &[]).into_iter();
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
        assert_eq!(unreachable_rules(&rules, &[]), []);
    }

    #[test]
    fn rules_that_several_earlier_ones_cover_together_are_told() {
        for (rules, expected) in [
            (
                &[
                    "deny from 10.0.0.0/9",
                    "allow to_port 7",
                    "deny from 10.128.0.0/9",
                    "allow from 10.0.0.0/8",
                ][..],
                "rules 1 (deny from 10.0.0.0/9), 2 (allow to_port 7) and 3 (deny from 10.128.0.0/9) decide all that it would match, but for fragments, which have no ports",
            ),
            (
                &["deny from 0.0.0.0/0", "deny from ::/0", "allow"],
                "rules 1 (deny from 0.0.0.0/0) and 2 (deny from ::/0) decide all",
            ),
            (
                &[
                    "deny protocol tcp to_port 0-99",
                    "deny to_port 100-65535",
                    "allow protocol tcp to_port 90-110",
                ],
                "rules 1 (deny protocol tcp to_port 0-99) and 2 (deny to_port 100-65535) decide all",
            ),
            (
                &[
                    "deny to_port 20-30,31-40",
                    "allow protocol udp to_port 25-35",
                ],
                "rule 1 (deny to_port 20-30,31-40) decides all",
            ),
            (
                &[
                    "deny to 10.0.0.0/32",
                    "deny to 10.0.0.1",
                    "deny to 10.0.0.2",
                    "deny to 10.0.0.3",
                    "deny to 10.0.0.4/30",
                    "allow to 10.0.0.0/29",
                ],
                "and 1 more decide all",
            ),
        ] {
            let told = unreachable(rules);
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].0, format!("rules.{}", rules.len() - 1));
            assert!(told[0].1.contains(expected), "{told:?}");
        }
        // A port that no rule names is another, unless all ports are known.
        let by_port = ["deny ingress lan", "deny ingress wan", "allow"];
        assert_eq!(unreachable(&by_port), []);
        let rules = by_port.map(|rule| rule.parse().expect("a rule"));
        let ports = ["lan", "wan"].map(str::to_owned);
        assert_eq!(unreachable_rules(&rules, &ports).len(), 1);
    }

    /// A default that many rules come before, one by one, and halves that cover what is between.
    #[test]
    fn ten_thousand_rules_are_told_of_soon() {
        let host = |host: u32| {
            let [_, a, b, c] = host.to_be_bytes();
            format!("10.{a}.{b}.{c}")
        };
        let mut texts: Vec<String> = (0..9_990u32)
            .map(|number| format!("deny protocol tcp to {} to_port 80,443", host(number * 3)))
            .collect();
        texts.extend((0..4).map(|_| "allow to 10.0.0.0/8".to_owned()));
        texts.push("deny from 10.0.0.0/9".into());
        texts.push("deny from 10.128.0.0/9".into());
        texts.push("allow from 10.0.0.0/8 to 192.0.2.1".into());
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let before = std::time::Instant::now();
        let told: Vec<String> = unreachable(&texts).into_iter().map(|told| told.0).collect();
        // Measured at 0.1 s; a machine that does other things too takes a few times that.
        assert!(before.elapsed() < std::time::Duration::from_secs(20));
        assert_eq!(
            told,
            ["rules.9991", "rules.9992", "rules.9993", "rules.9996"]
        );
    }

    /// Of a small universe every packet that rules tell apart: by port of arrival, protocol, addresses
    /// of both versions and ports.
    fn universe() -> Vec<FirstPacket> {
        const ADDRESSES: [&str; 7] = [
            "10.0.0.0",
            "10.0.0.1",
            "10.0.0.2",
            "10.0.0.3",
            "11.0.0.1",
            "2001:db8::1",
            "2001:db8::2",
        ];
        const KINDS: [(u8, Option<u16>); 9] = [
            (1, None),
            (6, Some(0)),
            (6, Some(1)),
            (6, Some(9)),
            (17, Some(0)),
            (17, Some(1)),
            (17, Some(9)),
            (47, None),
            (132, None),
        ];
        let addresses = ADDRESSES.map(|text| text.parse::<Address>().expect(text));
        let mut all = Vec::new();
        for ingress in 0..2 {
            for source in addresses {
                for destination in addresses {
                    for (protocol, port) in KINDS {
                        let is_possible = source.is_v4() == destination.is_v4()
                            && (protocol != 1 || source.is_v4());
                        all.extend(is_possible.then_some(FirstPacket {
                            source,
                            destination,
                            protocol,
                            ports: port.map(|port| (1, port)),
                            ingress,
                        }));
                    }
                }
            }
        }
        all
    }

    fn any_rule() -> impl Strategy<Value = String> {
        let prefix = |key: &'static str| {
            prop::sample::select(vec![
                "",
                "",
                "10.0.0.0/30",
                "10.0.0.0/31",
                "10.0.0.2/31",
                "10.0.0.1",
                "0.0.0.0/0",
                "::/0",
                "2001:db8::1",
            ])
            .prop_map(move |prefix| match prefix {
                "" => String::new(),
                prefix => format!(" {key} {prefix}"),
            })
        };
        let ingress = prop::sample::select(vec!["", "", " ingress lan", " ingress wan"]);
        let kind = prop::sample::select(vec![
            "",
            "",
            " protocol tcp",
            " protocol udp",
            " protocol icmp",
            " protocol 47",
            " to_port 1",
            " to_port 2-65535",
            " to_port 0",
            " protocol tcp to_port 0-1",
            " protocol udp to_port 2,3-65535",
        ]);
        let action = prop::sample::select(vec!["allow", "deny"]);
        (action, ingress, prefix("from"), prefix("to"), kind).prop_map(
            |(action, ingress, from, to, kind)| format!("{action}{ingress}{from}{to}{kind}"),
        )
    }

    proptest! {
        /// A rule is told if and only if no packet meets it before the others.
        #[test]
        fn rules_are_told_that_no_packet_meets(texts in prop::collection::vec(any_rule(), 1..12)) {
            let rules: Vec<Rule> = texts.iter().filter_map(|text| text.parse().ok()).collect();
            let ports = ["lan", "wan"].map(str::to_owned);
            let sets: Vec<RuleSet> = rules
                .iter()
                .map(|rule| RuleSet::new(std::slice::from_ref(rule), &ports))
                .collect();
            let mut is_met = vec![false; rules.len()];
            for packet in universe() {
                if let Some(first) = sets.iter().position(|set| set.decide(&packet).is_some()) {
                    is_met[first] = true;
                }
            }
            let told = unreachable_rules(&rules, &ports);
            let told: Vec<String> = told.into_iter().map(|told| told.keys[1].clone()).collect();
            for (number, rule) in rules.iter().enumerate() {
                prop_assert_eq!(told.contains(&number.to_string()), !is_met[number], "{} {}", number, rule);
            }
        }
    }
}
