use std::collections::HashMap;

use proptest::prelude::*;
use twinpath_classify::Prefix;
use twinpath_core::wire::{Address, protocol};

use super::*;
use crate::objects::{PortRange, Range};

/// What a rule means, read off its fields.
fn matches(rule: &AclRule, headers: &Headers, tags: &HashMap<TagName, PrefixList>) -> bool {
    let address = |address: Address, list: &PrefixList, names: &[TagName]| {
        let is_in_tag = |name: &TagName| tags.get(name).is_some_and(|tag| tag.includes(address));
        list.is_empty() && names.is_empty() || list.includes(address) || names.iter().any(is_in_tag)
    };
    let port = |ranges: &[PortRange], end: usize| {
        let contains = |ports: [u16; 2]| ranges.iter().any(|range| range.contains(ports[end]));
        ranges.is_empty() || headers.ports.is_some_and(contains)
    };
    address(headers.source, &rule.src_addr, &rule.src_tag)
        && address(headers.destination, &rule.dst_addr, &rule.dst_tag)
        && port(&rule.src_port, 0)
        && port(&rule.dst_port, 1)
        && (rule.protocols.is_empty() || rule.protocols.contains(&headers.protocol))
}

fn address(is_v4: bool, low: u8) -> Address {
    // Few addresses, also at both ends of the space.
    match (is_v4, low) {
        (true, 0..=15) => Address::from_v4([10, 0, 0, low]),
        (true, _) => Address::from_v4([255, 255, 255, low]),
        (false, 0..=15) => Address(0x2001_0db8 << 96 | u128::from(low)),
        (false, _) => Address(u128::MAX - u128::from(31 - low)),
    }
}

fn prefix(is_v4: bool) -> impl Strategy<Value = Prefix> {
    let longest: u8 = if is_v4 { 32 } else { 128 };
    let length = prop_oneof![Just(0u8), Just(8), longest - 4..=longest];
    (0u8..32, length).prop_map(move |(low, length)| Prefix::covering(address(is_v4, low), length))
}

fn list(is_v4: bool) -> impl Strategy<Value = PrefixList> {
    let some = prop::collection::vec(prefix(is_v4), 0..4);
    some.prop_map(|prefixes| prefixes.into_iter().collect())
}

fn tag_names() -> impl Strategy<Value = Box<[TagName]>> {
    let name = prop::sample::select(vec!["one", "two", "missing"]);
    let none_or_some = prop_oneof![3 => Just(0), 1 => 1..3usize];
    none_or_some.prop_flat_map(move |count| {
        prop::collection::vec(name.clone().prop_map(TagName::from), count)
            .prop_map(Vec::into_boxed_slice)
    })
}

fn port_ranges() -> impl Strategy<Value = Box<[PortRange]>> {
    let end = || prop_oneof![0u16..6, Just(u16::MAX)];
    let range = (end(), end())
        .prop_map(|(one, other)| Range::new(one.min(other), one.max(other)).expect("in order"));
    prop::collection::vec(range, 0..3).prop_map(Vec::into_boxed_slice)
}

prop_compose! {
    fn rule(is_v4: bool)(
        priority in 0u32..4,
        permits in any::<bool>(),
        terminating in any::<bool>(),
        protocols in prop::collection::vec(prop::sample::select(vec![1u8, 6, 17, 255]), 0..3),
        (src_addr, dst_addr) in (list(is_v4), list(is_v4)),
        (src_tag, dst_tag) in (tag_names(), tag_names()),
        (src_port, dst_port) in (port_ranges(), port_ranges()),
    ) -> AclRule {
        AclRule {
            priority,
            action: if permits { AclAction::Permit } else { AclAction::Deny },
            terminating,
            protocols: protocols.into(),
            src_addr,
            dst_addr,
            src_tag,
            dst_tag,
            src_port,
            dst_port,
        }
    }
}

prop_compose! {
    fn headers(is_v4: bool)(
        source in 0u8..32,
        destination in 0u8..32,
        ports in prop::option::of(prop::array::uniform2(prop_oneof![0u16..7, Just(u16::MAX)])),
        protocol in prop::sample::select(vec![0u8, 1, 6, 17, 255]),
    ) -> Headers {
        Headers {
            source: address(is_v4, source),
            destination: address(is_v4, destination),
            ports,
            protocol,
        }
    }
}

fn compare(
    is_v4: bool,
    rules: Vec<AclRule>,
    tags: Vec<PrefixList>,
    packets: &[Headers],
) -> Result<(), TestCaseError> {
    let mut rules: Vec<(AclRuleId, AclRule)> = rules
        .into_iter()
        .enumerate()
        .map(|(number, rule)| (format!("{number:02}").as_str().into(), rule))
        .collect();
    rules.sort_by_key(|(_, rule)| rule.priority);
    let names = ["one", "two"].map(TagName::from);
    let tags: HashMap<_, _> = names.into_iter().zip(tags).collect();
    let version = if is_v4 { IpVersion::V4 } else { IpVersion::V6 };
    // In one part, and in several.
    let tables = [RULES_OF_A_PART, 64].map(|of_a_part| {
        let tag = |name: &TagName| tags.get(name);
        AclTable::in_parts("group".into(), version, &rules, &tag, of_a_part)
    });
    prop_assert_eq!(tables[1].parts.len() > 1, rules.len() > 64);
    let both = |packet| tables.iter().map(move |table| (packet, table));
    for (packet, table) in packets.iter().flat_map(both) {
        let first = rules
            .iter()
            .position(|(_, rule)| matches(rule, packet, &tags));
        let expected = first.map(|place| found(place as u32, &rules[place].1));
        prop_assert_eq!(table.lookup(packet), expected);
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_first_rule_that_matches_is_found_in_ipv4(
        rules in prop::collection::vec(rule(true), 0..200),
        tags in prop::collection::vec(list(true), 2),
        packets in prop::collection::vec(headers(true), 20),
    ) {
        compare(true, rules, tags, &packets)?;
    }

    #[test]
    fn the_first_rule_that_matches_is_found_in_ipv6(
        rules in prop::collection::vec(rule(false), 0..200),
        tags in prop::collection::vec(list(false), 2),
        packets in prop::collection::vec(headers(false), 20),
    ) {
        compare(false, rules, tags, &packets)?;
    }
}

#[test]
fn packets_of_the_other_version_match_nothing() {
    let any = AclRule {
        priority: 1,
        action: AclAction::Permit,
        terminating: true,
        protocols: [].into(),
        src_addr: PrefixList::default(),
        dst_addr: PrefixList::default(),
        src_tag: [].into(),
        dst_tag: [].into(),
        src_port: [].into(),
        dst_port: [].into(),
    };
    let table = AclTable::new("group".into(), IpVersion::V4, &[("1".into(), any)], &|_| {
        None
    });
    let packet = |is_v4: bool| Headers {
        source: address(is_v4, 1),
        destination: address(is_v4, 2),
        ports: Some([1, 2]),
        protocol: protocol::UDP,
    };
    assert!(table.lookup(&packet(true)).is_some());
    assert_eq!(table.lookup(&packet(false)), None);
}

/// A hundred prefixes by a hundred prefixes, a thousand times, in little more than their starts.
#[test]
fn lists_by_lists_take_no_more_than_lists() {
    let prefixes = |from: u32| -> PrefixList {
        let network = |at: u32| Address(Address::UNSPECIFIED_V4.0 | u128::from((from + at) * 512));
        (0..100)
            .map(|at| Prefix::covering(network(at), 24))
            .collect()
    };
    let rules: Vec<_> = (0..1000u32)
        .map(|number| {
            let rule = AclRule {
                priority: number,
                action: AclAction::Permit,
                terminating: false,
                protocols: [6].into(),
                src_addr: prefixes(number * 100),
                dst_addr: prefixes(number * 100),
                src_tag: [].into(),
                dst_tag: [].into(),
                src_port: [].into(),
                dst_port: [Range::one(number as u16)].into(),
            };
            (AclRuleId::from("rule"), rule)
        })
        .collect();
    let table = AclTable::new("group".into(), IpVersion::V4, &rules, &|_| None);
    let bytes_per_prefix = table.memory_bytes() / 200_000;
    assert!(bytes_per_prefix <= 20, "{bytes_per_prefix} bytes a prefix");
    let packet = Headers {
        source: Address::from_v4([0, 195, 130, 7]),
        destination: Address::from_v4([0, 195, 130, 9]),
        ports: Some([5, 250]),
        protocol: protocol::TCP,
    };
    assert_eq!(table.lookup(&packet).map(|found| found.place), Some(250));
}

/// Rules of prefixes that lie over each other, drawn by a number.
fn overlapping(count: u32) -> Vec<(AclRuleId, AclRule)> {
    let mut drawn = 1u32;
    let mut draw = || {
        drawn = drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        drawn
    };
    let mut prefixes = || -> PrefixList {
        let mut prefix = |_| {
            let address = Address::from_v4(draw().to_be_bytes());
            Prefix::covering(address, 6 + (draw() >> 24) as u8 % 16)
        };
        (0..12).map(&mut prefix).collect()
    };
    let rule = |priority: u32| AclRule {
        priority,
        action: AclAction::Permit,
        terminating: true,
        protocols: [].into(),
        src_addr: prefixes(),
        dst_addr: prefixes(),
        src_tag: [].into(),
        dst_tag: [].into(),
        src_port: [].into(),
        dst_port: [Range::one(priority as u16)].into(),
    };
    (0..count)
        .map(rule)
        .map(|rule| ("rule".into(), rule))
        .collect()
}

/// So many rules that there are two sets of parts: the last of them are found, and parts without the
/// packet's port are not asked.
#[test]
fn of_many_parts_few_are_asked() {
    let rules = overlapping(5_000);
    let nothing = |_: &TagName| None;
    let table = AclTable::in_parts("group".into(), IpVersion::V4, &rules, &nothing, 64);
    assert_eq!(table.parts.len(), 5_000_usize.div_ceil(64) + 2);
    let (_, last) = rules.last().expect("some");
    let first = |list: &PrefixList| list.iter().next().expect("one of twelve").network();
    let packet = Headers {
        source: first(&last.src_addr),
        destination: first(&last.dst_addr),
        ports: Some([1, 4_999]),
        protocol: protocol::UDP,
    };
    assert_eq!(table.lookup(&packet).map(|found| found.place), Some(4_999));
    let [one, other] = [79, 80].map(|place| table.parts[place].all_that_match(&packet).count());
    assert_eq!((one, other), (0, 1));
}

/// Whatever lies over what, twice as many rules take twice the memory; and those far behind are found.
#[test]
fn memory_grows_with_the_rules_and_not_with_their_square() {
    let tables = [4_000, 8_000].map(|count| {
        let rules = overlapping(count);
        (
            AclTable::new("group".into(), IpVersion::V4, &rules, &|_| None),
            rules,
        )
    });
    let [small, large] = [&tables[0].0, &tables[1].0].map(AclTable::memory_bytes);
    assert!(large < small * 5 / 2, "{small} and {large} bytes");
    let (table, rules) = &tables[1];
    for place in [0, 1_023, 1_024, 5_000, 7_999] {
        let (_, rule) = &rules[place];
        let first = |list: &PrefixList| list.iter().next().expect("one of twelve").network();
        let packet = Headers {
            source: first(&rule.src_addr),
            destination: first(&rule.dst_addr),
            ports: Some([1, place as u16]),
            protocol: protocol::UDP,
        };
        let found = table.lookup(&packet).map(|found| found.place);
        assert_eq!(found, Some(place as u32));
    }
}
