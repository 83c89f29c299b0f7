//! The tables against a list of routes.

use super::*;
use crate::samples;
use proptest::prelude::*;
use std::collections::HashMap;

const LIMITS: RouteLimits = RouteLimits { v4: 500, v6: 500 };

/// The obvious table.
#[derive(Default)]
struct Reference(HashMap<(Address, u8, bool), u32>);

impl Reference {
    fn keys(prefix: Prefix) -> impl Iterator<Item = (Address, u8, bool)> {
        [true, false]
            .into_iter()
            .filter(move |&v4| prefix.versions().includes(v4))
            .map(move |v4| (prefix.network(), prefix.length(), v4))
            .map(|(network, length, v4)| match (length, v4) {
                (0, true) => (Address::UNSPECIFIED_V4, 0, true),
                _ => (network, length, v4),
            })
    }

    fn insert(&mut self, prefix: Prefix, next_hop: u32) {
        Self::keys(prefix).for_each(|key| _ = self.0.insert(key, next_hop));
    }

    fn remove(&mut self, prefix: Prefix) {
        Self::keys(prefix).for_each(|key| _ = self.0.remove(&key));
    }

    fn lookup(&self, address: Address) -> Option<u32> {
        (0..=128u8).rev().find_map(|length| {
            let prefix = Prefix::covering(address, length);
            let key = (prefix.network(), length, address.is_v4());
            self.0.get(&key).copied()
        })
    }
}

fn address() -> impl Strategy<Value = Address> {
    let v4 = (0..4u32, 0..8u32, 0..4u32, 0..4u32)
        .prop_map(|(a, b, c, d)| Address::from_v4((a << 30 | b << 15 | c << 7 | d).to_be_bytes()));
    let v6 = (0..4u128, 0..8u128, 0..4u128, 0..4u128)
        .prop_map(|(a, b, c, d)| Address(a << 126 | b << 108 | c << 62 | d));
    prop_oneof![
        v4,
        v6,
        any::<u32>().prop_map(|bits| Address::from_v4(bits.to_be_bytes()))
    ]
}

fn prefix() -> impl Strategy<Value = Prefix> {
    prop_oneof![
        1 => Just(Prefix::ANY),
        20 => (address(), 0..=32u8).prop_map(|(address, length)| Prefix::covering(address, length)),
        10 => (address(), 0..=128u8).prop_map(|(address, length)| Prefix::covering(address, length)),
    ]
}

/// The answer, the guarantee of the bits examined, and that one bit less would not do unless the
/// routes around happen to lead to the same next hop.
fn check(
    table: &RouteTable,
    reference: &Reference,
    one: Address,
    others: &[Address],
) -> Result<(), TestCaseError> {
    let expected = reference.lookup(one);
    prop_assert_eq!(table.lookup(one), expected, "{}", one);
    let decision = table.lookup_examined(one);
    prop_assert_eq!(decision.next_hop, expected);
    let route = table.route(one);
    prop_assert_eq!(route.map(|(_, next_hop)| next_hop), expected);
    prop_assert!(route.is_none_or(|(prefix, _)| prefix.includes(one)));
    let longer = |length| Prefix::covering(one, length);
    let is_longest = |(prefix, next_hop): (Prefix, u32)| {
        let more = (prefix.length()..=128).map(longer);
        more.filter(|more| more.versions() == prefix.versions())
            .all(|more| table.covering(more) == Some(next_hop))
    };
    prop_assert!(route.is_none_or(is_longest));
    let mask = u128::leading(u32::from(decision.examined_bits));
    for other in others {
        let blended = Address(one.0 & mask | other.0 & !mask);
        prop_assert_eq!(
            reference.lookup(blended),
            expected,
            "{} and {}",
            one,
            blended
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn stays_right_while_routes_come_and_go(
        steps in prop::collection::vec((prefix(), prop::option::of(0..4u32)), 1..150),
        addresses in prop::collection::vec(address(), 1..30),
    ) {
        let mut table = RouteTable::new(LIMITS);
        let mut reference = Reference::default();
        let mut known = Vec::new();
        for (mut prefix, next_hop) in steps {
            if next_hop.is_none() && !known.is_empty() {
                prefix = known[prefix.network().0 as usize % known.len()];
            }
            known.push(prefix);
            let first = Reference::keys(prefix).find_map(|key| reference.0.get(&key).copied());
            match next_hop {
                Some(next_hop) => {
                    let v4_or_only = Reference::keys(prefix).next();
                    let before = v4_or_only.and_then(|key| reference.0.get(&key).copied());
                    prop_assert_eq!(table.insert(prefix, next_hop), Ok(before));
                    reference.insert(prefix, next_hop);
                }
                None => {
                    prop_assert_eq!(table.remove(prefix), first);
                    reference.remove(prefix);
                }
            }
            prop_assert_eq!(table.len(), reference.0.len());
        }
        for &one in &addresses {
            check(&table, &reference, one, &addresses)?;
        }
    }

    /// No fewer bits than examined would do in a table where all next hops differ, save for those
    /// that show the version.
    #[test]
    fn no_bit_too_many(
        prefixes in prop::collection::vec(prefix(), 1..40),
        one in any::<u32>(),
    ) {
        let mut table = RouteTable::new(LIMITS);
        for (number, prefix) in prefixes.iter().filter(|prefix| prefix.versions() == Versions::V4).enumerate() {
            table.insert(*prefix, number as u32).expect("fits");
        }
        let one = Address::from_v4(one.to_be_bytes());
        let bits = table.lookup_examined(one).examined_bits;
        if bits > MAPPED_BITS {
            let wider = u128::leading(u32::from(bits) - 1);
            let decides = prefixes.iter().any(|prefix| {
                let inside = prefix.network().0 & wider == one.0 & wider;
                prefix.versions() == Versions::V4 && prefix.length() + MAPPED_BITS >= bits && inside
            });
            prop_assert!(decides, "{} bits of {}", bits, one);
        }
    }
}

#[test]
fn realistic_routes() {
    let mut routes = samples::routes_v4(20_000, 1);
    routes.extend(samples::routes_v6(5_000, 1));
    let mut table = RouteTable::new(RouteLimits {
        v4: 20_000,
        v6: 5_000,
    });
    let mut reference = Reference::default();
    for &(prefix, next_hop) in &routes {
        assert_eq!(table.insert(prefix, next_hop), Ok(None));
        reference.insert(prefix, next_hop);
    }
    assert_eq!(table.len(), routes.len());
    let addresses = samples::addresses(&routes, 4_000, 2);
    for (index, &one) in addresses.iter().enumerate() {
        check(&table, &reference, one, &addresses[index / 20 * 20..][..20]).expect("as the list");
    }
    for &(prefix, next_hop) in &routes {
        assert_eq!(table.remove(prefix), Some(next_hop));
    }
    assert!(table.is_empty());
    assert_eq!((table.v4.taken(), table.v6.taken()), ((0, 0), (0, 0)));
}

/// What is told of a route before it is there is what it takes then.
#[test]
fn routes_take_what_is_told() {
    for count in [100_000, 300_000] {
        let limits = RouteLimits {
            v4: count,
            v6: count,
        };
        for (routes, told) in [
            (samples::routes_v4(count, 1), ROUTE_BYTES_V4),
            (samples::routes_v6(count, 1), ROUTE_BYTES_V6),
        ] {
            let mut table = RouteTable::new(limits);
            let empty = table.memory_bytes();
            for (prefix, next_hop) in &routes {
                table.insert(*prefix, *next_hop).expect("room");
            }
            let (taken, told) = (table.memory_bytes() - empty, told * routes.len());
            assert!(taken.abs_diff(told) < told / 5, "{taken}, told {told}");
        }
    }
}

/// Churn must not use up the memory reserved.
#[test]
fn memory_settles_under_churn() {
    let routes = samples::routes_v4(20_000, 3);
    let mut table = RouteTable::new(RouteLimits { v4: 10_000, v6: 0 });
    let mut random = samples::Random::new(4);
    let mut present = vec![false; routes.len()];
    let mut after = Vec::new();
    for round in 0..6 {
        for _ in 0..100_000 {
            let index = random.below(routes.len() as u64) as usize;
            let (prefix, next_hop) = routes[index];
            if present[index] {
                assert_eq!(table.remove(prefix), Some(next_hop));
                present[index] = false;
            } else if table.insert(prefix, next_hop).is_ok() {
                present[index] = true;
            }
        }
        after.push((round, table.memory_bytes()));
    }
    let (early, late) = (after[1].1, after[5].1);
    assert!(late < early + early / 10, "{after:?}");
}

#[test]
fn a_full_table_refuses_but_changes_what_it_has() {
    let mut table = RouteTable::new(RouteLimits { v4: 1, v6: 1 });
    let prefix = |text: &str| text.parse::<Prefix>().expect("a prefix");
    assert_eq!(table.insert(prefix("10.0.0.0/24"), 1), Ok(None));
    assert_eq!(
        table.insert(prefix("10.0.1.0/24"), 1),
        Err(RouteError::TooMany(1))
    );
    assert_eq!(table.insert(prefix("10.0.0.0/24"), 2), Ok(Some(1)));
    assert_eq!(table.insert(Prefix::ANY, 3), Err(RouteError::TooMany(1)));
    assert_eq!(table.insert(prefix("::/0"), 4), Ok(None));
    assert_eq!(
        table.lookup("10.0.0.9".parse().expect("an address")),
        Some(2)
    );
    assert_eq!(table.lookup("10.0.2.9".parse().expect("an address")), None);
    assert_eq!(table.lookup("::1".parse().expect("an address")), Some(4));
}

#[test]
fn scattered_routes_that_need_more_memory_than_there_is_are_refused_cleanly() {
    let mut table = RouteTable::new(RouteLimits { v4: 0, v6: 2_000 });
    let mut random = samples::Random::new(9);
    let mut held = Vec::new();
    for _ in 0..2_000 {
        let address = Address(u128::from(random.bits()) << 64 | u128::from(random.bits()));
        if table.insert(address.into(), 7).is_ok() {
            held.push(address);
        }
    }
    assert_eq!(table.len(), held.len());
    assert!(held.iter().all(|&address| table.lookup(address) == Some(7)));
    assert!(
        held.iter()
            .all(|&address| table.remove(address.into()) == Some(7))
    );
    assert_eq!(table.v6.taken(), (0, 0));
}
