//! The tree against the list read one rule after the other.

use super::*;
use crate::Prefix;
use crate::samples::{self, Style};
use proptest::prelude::*;

/// Few addresses that differ in first, middle and last bits, so that prefixes of all lengths
/// matter.
fn address(v4: bool) -> impl Strategy<Value = Address> {
    (0..4u128, 0..4u128, 0..4u128).prop_map(move |(high, middle, low)| match v4 {
        true => Address::from_v4(((high << 30 | middle << 14 | low) as u32).to_be_bytes()),
        false => Address(high << 126 | middle << 62 | low),
    })
}

fn prefix(v4: bool) -> impl Strategy<Value = Prefix> {
    let lengths = prop::sample::select(match v4 {
        true => vec![0u8, 1, 2, 8, 16, 17, 18, 31, 32],
        false => vec![0u8, 1, 2, 32, 64, 65, 66, 127, 128],
    });
    prop_oneof![
        1 => Just(Prefix::ANY),
        4 => (address(v4), lengths).prop_map(|(address, length)| Prefix::covering(address, length)),
    ]
}

fn range() -> impl Strategy<Value = PortRange> {
    let port = || prop_oneof![0..6u16, 1020..1030u16, 65530..=65535u16];
    prop_oneof![
        1 => Just(PortRange::ANY),
        2 => (port(), port()).prop_map(|(one, other)| PortRange::new(one, other)),
        2 => port().prop_map(|port| PortRange::new(port, port)),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let prefixes = any::<bool>().prop_flat_map(|v4| (prefix(v4), prefix(v4)));
    let protocol = prop::option::of(prop::sample::select(vec![1u8, 6, 17, 47]));
    (prefixes, range(), range(), protocol).prop_map(
        |((source, destination), from, to, protocol)| Rule {
            source,
            destination,
            source_ports: from,
            destination_ports: to,
            protocol,
        },
    )
}

fn headers() -> impl Strategy<Value = Headers> {
    let port = || prop_oneof![0..8u16, 1019..1031u16, 65529..=65535u16, any::<u16>()];
    let mixed = any::<bool>().prop_flat_map(|v4| (address(v4), address(v4)));
    let protocol = prop::sample::select(vec![1u8, 6, 17, 47, 132]);
    (mixed, port(), port(), protocol).prop_map(|((source, destination), from, to, protocol)| {
        Headers {
            source,
            destination,
            source_port: from,
            destination_port: to,
            protocol,
        }
    })
}

/// `one` where bits were examined, `other` elsewhere.
fn blend(examined: &Examined, one: &Headers, other: &Headers) -> Headers {
    let address =
        |mask: u128, one: Address, other: Address| Address(one.0 & mask | other.0 & !mask);
    let port = |mask: u16, one: u16, other: u16| one & mask | other & !mask;
    Headers {
        source: address(examined.source, one.source, other.source),
        destination: address(examined.destination, one.destination, other.destination),
        source_port: port(examined.source_port, one.source_port, other.source_port),
        destination_port: port(
            examined.destination_port,
            one.destination_port,
            other.destination_port,
        ),
        protocol: one.protocol & examined.protocol | other.protocol & !examined.protocol,
    }
}

/// Checks the answer, and that each header of `others` gets it too where no bit was examined.
fn check(
    acl: &Acl,
    rules: &[Rule],
    one: &Headers,
    others: &[Headers],
) -> Result<(), TestCaseError> {
    let expected = linear::first_match(rules, one);
    prop_assert_eq!(acl.lookup(one), expected, "{:?}", one);
    let mut examined = Examined::default();
    prop_assert_eq!(acl.lookup_examined(one, &mut examined), expected);
    for other in others {
        let blended = blend(&examined, one, other);
        prop_assert!(examined.agree(one, &blended));
        prop_assert_eq!(
            linear::first_match(rules, &blended),
            expected,
            "{:?} agrees with {:?} on {:x?}",
            blended,
            one,
            examined
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn decides_as_the_list_does(
        rules in prop::collection::vec(rule(), 0..60),
        packets in prop::collection::vec(headers(), 1..40),
    ) {
        let acl = Acl::new(&rules, 100).expect("fits");
        for packet in &packets {
            check(&acl, &rules, packet, &packets)?;
        }
    }

    #[test]
    fn stays_right_while_rules_come_and_go(
        first in prop::collection::vec(rule(), 0..30),
        steps in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(rule())), 1..80),
        packets in prop::collection::vec(headers(), 1..12),
    ) {
        let mut rules = first.clone();
        let mut acl = Acl::new(&first, 1000).expect("fits");
        for (place, change) in steps {
            match change {
                Some(rule) => {
                    let index = place.index(rules.len() + 1);
                    rules.insert(index, rule);
                    prop_assert_eq!(acl.insert(index, rule), Ok(()));
                }
                None if rules.is_empty() => prop_assert_eq!(acl.remove(0), None),
                None => {
                    let index = place.index(rules.len());
                    prop_assert_eq!(acl.remove(index), Some(rules.remove(index)));
                }
            }
            for packet in &packets {
                prop_assert_eq!(acl.lookup(packet), linear::first_match(&rules, packet));
            }
        }
        for packet in &packets {
            check(&acl, &rules, packet, &packets)?;
        }
        prop_assert_eq!(acl.len(), rules.len());
        prop_assert!((0..rules.len()).all(|index| acl.rule(index) == rules.get(index)));
    }

    /// Bits known before may spare others, but the guarantee holds for all together.
    #[test]
    fn bits_known_before_count(
        rules in prop::collection::vec(rule(), 1..40),
        one in headers(),
        others in prop::collection::vec(headers(), 1..40),
        known in (0..=128u32, 0..=128u32, 0..=16u32, 0..=16u32),
    ) {
        let acl = Acl::new(&rules, 100).expect("fits");
        let mut examined = Examined {
            source: u128::leading(known.0),
            destination: u128::leading(known.1),
            source_port: (u32::leading(known.2) >> 16) as u16,
            destination_port: (u32::leading(known.3) >> 16) as u16,
            protocol: 0,
        };
        let answer = acl.lookup_examined(&one, &mut examined);
        for other in &others {
            prop_assert_eq!(acl.lookup(&blend(&examined, &one, other)), answer);
        }
    }
}

#[test]
fn realistic_lists() {
    for (seed, style) in Style::ALL.into_iter().enumerate() {
        let seed = seed as u64;
        let rules = samples::rules(2_000, style, 30, seed);
        let acl = Acl::new(&rules, 10_000).expect("fits");
        let packets = samples::headers(&rules, 2_000, seed);
        let matched = packets.iter().filter(|one| acl.lookup(one).is_some());
        assert!(matched.count() > 1_500);
        for (index, packet) in packets.iter().enumerate() {
            let others = &packets[index / 20 * 20..][..20];
            check(&acl, &rules, packet, others).expect("like the list");
        }
    }
}

#[test]
fn realistic_lists_that_change() {
    let rules = samples::rules(1_500, Style::Filter, 30, 7);
    let packets = samples::headers(&rules, 300, 7);
    let mut acl = Acl::new(&[], 10_000).expect("fits");
    let mut list = Vec::new();
    let mut random = samples::Random::new(1);
    for &rule in &rules {
        let index = random.below(list.len() as u64 + 1) as usize;
        list.insert(index, rule);
        acl.insert(index, rule).expect("fits");
    }
    for left in (0..rules.len()).rev() {
        if left % 250 == 249 {
            for packet in &packets {
                check(&acl, &list, packet, &packets[..20]).expect("like the list");
            }
        }
        let index = random.below(list.len() as u64) as usize;
        assert_eq!(acl.remove(index), Some(list.remove(index)));
    }
    assert_eq!(acl.v4.entries.taken() + acl.v6.entries.taken(), 0);
    assert_eq!(acl.v4.links.taken() + acl.v6.links.taken(), 0);
    assert_eq!(acl.v4.cuts.taken() + acl.v6.cuts.taken(), 0);
}

#[test]
fn many_insertions_in_one_place_are_numbered_anew() {
    let mut rules = vec![Rule::ANY; 2];
    let mut acl = Acl::new(&rules, 2000).expect("fits");
    for number in 0..500 {
        let rule = Rule {
            destination_ports: PortRange::new(number, number),
            ..Rule::ANY
        };
        for index in [1, 0] {
            rules.insert(index, rule);
            acl.insert(index, rule).expect("fits");
        }
    }
    for destination_port in 0..600 {
        let packet = Headers {
            source: Address::from_v4([10, 0, 0, 1]),
            destination: Address::from_v4([10, 0, 0, 2]),
            source_port: 1,
            destination_port,
            protocol: 6,
        };
        assert_eq!(acl.lookup(&packet), linear::first_match(&rules, &packet));
    }
}

/// The masks an operator would expect.
#[test]
fn examines_little() {
    let rule = |source: &str, destination: &str, ports: PortRange, protocol| Rule {
        source: source.parse().expect("a prefix"),
        destination: destination.parse().expect("a prefix"),
        destination_ports: ports,
        protocol,
        ..Rule::ANY
    };
    let rules = [
        rule("10.0.0.0/8", "any", PortRange::new(80, 80), Some(6)),
        rule("any", "192.0.2.0/24", PortRange::ANY, None),
    ];
    let acl = Acl::new(&rules, 10).expect("fits");
    let packet = Headers {
        source: Address::from_v4([12, 1, 2, 3]),
        destination: Address::from_v4([192, 0, 2, 1]),
        source_port: 4000,
        destination_port: 80,
        protocol: 6,
    };
    let mut examined = Examined::default();
    assert_eq!(acl.lookup_examined(&packet, &mut examined), Some(1));
    // 10 and 12 differ in the sixth bit.
    assert_eq!(examined.source, u128::leading(96 + 6));
    assert_eq!(examined.destination, u128::leading(96 + 24));
    assert_eq!((examined.source_port, examined.destination_port), (0, 0));
    assert_eq!(examined.protocol, 0);
}

#[test]
fn versions_do_not_mix() {
    let acl = Acl::new(&[Rule::ANY], 1).expect("fits");
    let (v4, v6) = (Address::from_v4([1, 2, 3, 4]), Address(1));
    let packet = |source, destination| Headers {
        source,
        destination,
        source_port: 0,
        destination_port: 0,
        protocol: 6,
    };
    assert_eq!(acl.lookup(&packet(v4, v6)), None);
    assert_eq!(acl.lookup(&packet(v6, v4)), None);
    assert_eq!(acl.lookup(&packet(v6, v6)), Some(0));
    let mut examined = Examined::default();
    assert_eq!(acl.lookup_examined(&packet(v4, v4), &mut examined), Some(0));
    assert_eq!(examined.source, u128::leading(96));
}

#[test]
fn a_full_list_refuses() {
    assert_eq!(
        Acl::new(&[Rule::ANY; 3], 2).map(|acl| acl.len()),
        Err(AclError::Full(2))
    );
    let mut acl = Acl::new(&[Rule::ANY], 2).expect("fits");
    assert_eq!(
        acl.insert(2, Rule::ANY),
        Err(AclError::Position { index: 2, len: 1 })
    );
    assert_eq!(acl.insert(1, Rule::ANY), Ok(()));
    assert_eq!(acl.insert(1, Rule::ANY), Err(AclError::Full(2)));
    assert_eq!(acl.remove(2), None);
}

/// What is told of a rule before it is there is about what it takes then.
#[test]
fn rules_take_about_what_is_told() {
    for style in Style::ALL {
        for count in [1000, 10_000] {
            for v6_in_100 in [0, 50] {
                let rules = samples::rules(count, style, v6_in_100, 1);
                let acl = Acl::new(&rules, count).expect("room");
                let each = acl.memory_bytes() / rules.len();
                let about = RULE_BYTES * 2 / 5..RULE_BYTES * 6 / 5;
                assert!(about.contains(&each), "{style:?} {count}: {each} bytes");
            }
        }
    }
}
