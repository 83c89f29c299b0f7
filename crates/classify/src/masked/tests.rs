//! The table against a list of rules.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const LIMITS: MaskedLimits = MaskedLimits {
    rules: 60,
    masks: 6,
};

fn mask() -> impl Strategy<Value = [u64; 3]> {
    let word = || prop::sample::select(vec![0u64, 1, 3, 0xff00_0000_0000_0000, u64::MAX]);
    [word(), word(), word()]
}

fn key() -> impl Strategy<Value = [u64; 3]> {
    let word = || prop::sample::select(vec![0u64, 1, 2, 0x0100_0000_0000_0003, u64::MAX]);
    [word(), word(), word()]
}

type Reference = HashMap<([u64; 3], [u64; 3]), u32>;

fn matching(reference: &Reference, key: &[u64; 3]) -> Vec<u32> {
    reference
        .iter()
        .filter(|((mask, value), _)| masked(key, mask) == *value)
        .map(|(_, &id)| id)
        .collect()
}

proptest! {
    /// Random rules overlap and disagree, so any that matches is a right answer.
    #[test]
    fn finds_a_rule_that_matches_if_there_is_one(
        steps in prop::collection::vec((mask(), key(), prop::option::weighted(0.7, any::<u32>())), 1..200),
        keys in prop::collection::vec(key(), 1..80),
        seed: u64,
    ) {
        let mut table = MaskedTable::<3>::new(LIMITS, seed);
        let mut reference = Reference::new();
        for (mask, value, id) in steps {
            let rule = (mask, masked(&value, &mask));
            let is_known = table.masks().any(|(other, _)| *other == mask);
            match id {
                None => prop_assert_eq!(table.remove(&mask, &value), reference.remove(&rule)),
                Some(id) if reference.contains_key(&rule) => {
                    prop_assert_eq!(table.insert(&mask, &value, id), Ok(reference.insert(rule, id)));
                }
                Some(id) if reference.len() == LIMITS.rules => {
                    prop_assert_eq!(table.insert(&mask, &value, id), Err(Refusal::TooManyRules(60)));
                }
                Some(id) if !is_known && table.masks().count() == LIMITS.masks => {
                    prop_assert_eq!(table.insert(&mask, &value, id), Err(Refusal::TooManyMasks(6)));
                }
                Some(id) => {
                    prop_assert_eq!(table.insert(&mask, &value, id), Ok(None));
                    reference.insert(rule, id);
                }
            }
            prop_assert_eq!(table.len(), reference.len());
            for key in &keys[..keys.len().min(4)] {
                let expected = matching(&reference, key);
                let hit = table.lookup(key).map(|hit| hit.id);
                prop_assert_eq!(hit.is_some(), !expected.is_empty());
                prop_assert!(hit.is_none_or(|id| expected.contains(&id)));
            }
        }
        for key in &keys {
            let expected = matching(&reference, key);
            let hit = table.find(key).map(|hit| hit.id);
            prop_assert_eq!(hit.is_some(), !expected.is_empty());
            prop_assert!(hit.is_none_or(|id| expected.contains(&id)));
        }
    }
}

#[test]
fn a_table_filled_to_the_brim_finds_every_rule_and_empties_without_traces() {
    let limits = MaskedLimits {
        rules: 20_000,
        masks: 2,
    };
    let mut table = MaskedTable::<2>::new(limits, 5);
    let masks = [[u64::MAX, 0], [u64::MAX, u64::MAX]];
    for round in 0..4u64 {
        for number in 0..20_000 {
            let mask = &masks[number as usize % 2];
            assert_eq!(
                table.insert(mask, &[number, round], number as u32),
                Ok(None)
            );
        }
        assert_eq!(
            table.insert(&masks[0], &[1 << 40, 0], 1),
            Err(Refusal::TooManyRules(20_000))
        );
        assert_eq!(table.refusals().too_many_rules, round + 1);
        for number in 0..20_000 {
            assert_eq!(
                table.find(&[number, round]).map(|hit| hit.id),
                Some(number as u32)
            );
        }
        for number in 0..20_000 {
            let mask = &masks[number as usize % 2];
            assert_eq!(table.remove(mask, &[number, round]), Some(number as u32));
        }
        assert!(table.is_empty() && table.masks().count() == 0);
        assert!((0..20_000).all(|number| table.find(&[number, round]).is_none()));
    }
}

/// Rules that look at one bit and a byte: so many that few of them are hot at a time.
fn rules_by_bit(bits: u32) -> MaskedTable<1> {
    let limits = MaskedLimits {
        rules: 256 * bits as usize,
        masks: bits as usize,
    };
    let mut table = MaskedTable::<1>::new(limits, 1);
    for number in 0..256 * bits {
        let (mask, value) = (0xff00 | 1 << (number >> 8), key_with(number >> 8, number));
        table.insert(&[mask], &value, number).expect("fits");
    }
    table
}

fn key_with(bit: u32, byte: u32) -> [u64; 1] {
    [u64::from(byte & 0xff) << 8 | 1 << bit]
}

#[test]
fn masks_with_hits_move_forward() {
    let mut table = rules_by_bit(8);
    let tried = |table: &MaskedTable<1>, bit| {
        let hit = table.search(&key_with(bit, 0));
        hit.map(|hit| hit.masks_tried)
    };
    assert_eq!(tried(&table, 7), Some(8));
    for byte in 0..20 {
        table.lookup(&key_with(7, byte));
    }
    assert_eq!(tried(&table, 7), Some(1));
    assert_eq!(table.find(&[0]), None);
    for byte in 0..40 {
        table.lookup(&key_with(0, byte));
    }
    assert_eq!(tried(&table, 0), Some(1));
    let counts: u32 = table.masks().map(|(_, rules)| rules).sum();
    assert_eq!(counts, 8 * 256);
}

/// However hot a mask was, one that is hot now overtakes it soon.
#[test]
fn old_hits_are_forgotten() {
    let mut table = rules_by_bit(2);
    for number in 0..100 * HITS_PER_AGE {
        table.lookup(&key_with(0, number));
    }
    let until_first = (0..).find(|&number| {
        table.lookup(&key_with(1, number));
        let hit = table.search(&key_with(1, number));
        hit.is_some_and(|hit| hit.masks_tried == 1)
    });
    assert!(until_first.is_some_and(|hits| hits < 2 * HITS_PER_AGE));
}

/// A rule that many packets meet is found before any mask is tried, also beside others, until it
/// is gone.
#[test]
fn hot_rules_are_found_first() {
    let mut table = rules_by_bit(4);
    let hot = key_with(2, 9);
    for number in 0..400 {
        table.lookup(&hot);
        table.lookup(&key_with(number % 4, number));
    }
    let is_hot = |table: &MaskedTable<1>| table.find_hot(&hot).is_some();
    assert!((0..40).any(|number| {
        table.lookup(&key_with(number % 4, number));
        is_hot(&table)
    }));
    assert_eq!(table.find(&hot).map(|hit| hit.id), Some(2 * 256 + 9));
    assert_eq!(table.lookup(&hot).map(|hit| hit.id), Some(521));
    assert_eq!(table.lookup(&[0]), None);
    table.insert(&[0xff04], &hot, 7).expect("fits");
    assert_eq!(table.find(&hot).map(|hit| hit.id), Some(7));
    table.remove(&[0xff04], &hot);
    assert_eq!(table.find(&hot), None);
}

#[test]
fn a_table_for_nothing_refuses() {
    let mut table = MaskedTable::<1>::new(MaskedLimits { rules: 0, masks: 0 }, 1);
    assert_eq!(table.insert(&[1], &[1], 1), Err(Refusal::TooManyRules(0)));
    assert_eq!(table.lookup(&[1]), None);
    assert_eq!(table.remove(&[1], &[1]), None);
}
