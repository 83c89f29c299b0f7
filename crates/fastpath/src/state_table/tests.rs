use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use twinpath_core::HashKey;

/// Flows of all kinds, and such as differ in their kind alone.
fn key(number: u64) -> FlowKey {
    let flow = number / 4;
    match number % 4 {
        0 => FlowKey([flow, 1, 2, 3, 4]),
        1 => FlowKey([0, 0xffff_0000_0000 | flow, 0, 0xffff_0000_0001, 0x06 << 24]),
        2 => FlowKey([flow << 32 | 1, 0x06 << 24, 0, 0, 2 << 16]),
        _ => FlowKey([
            0,
            0xffff_0000_0000 | flow,
            0,
            0xffff_0000_0001,
            0x0601 << 16,
        ]),
    }
}

/// What a plain packet finds in a slot.
fn known(table: &mut StateTable, slot: SlotId, key: &FlowKey) -> Option<(Control, Vec<u32>)> {
    let held = table.known(slot, V4Key::of(key)?)?;
    Some((*held.control, held.words.to_vec()))
}

proptest! {
    /// Random insertions and updates, mirrored in a map of what fits in each bucket.
    #[test]
    fn behaves_like_a_map(
        ways in prop::sample::select(vec![1usize, 2, 4, 8]),
        words in prop::sample::select(vec![1usize, 2, 6, 7, 22, 23, 70]),
        operations in prop::collection::vec((0u64..300, any::<u32>()), 1..500),
    ) {
        let mut table = StateTable::new(64, ways, words);
        let mut reference: HashMap<u64, u32> = HashMap::new();
        let value_words = |value: u32| (0..words as u32).map(|at| value.rotate_left(at)).collect::<Vec<_>>();
        for (number, value) in operations {
            let (key, hash) = (key(number), key(number).hash(&HashKey::new(7)));
            let slot = table.find(&key, hash).or_else(|| {
                let slot = table.vacant(hash, |control| control[0] == 0)?;
                table.assign(slot, &key, hash);
                table.set_control(slot, [1, 2, 3, 4, 5]);
                Some(slot)
            });
            if let Some(slot) = slot {
                table.words_mut(slot).copy_from_slice(&value_words(value));
                reference.insert(number, value);
            } else {
                prop_assert!(!reference.contains_key(&number));
            }
        }
        prop_assert!(reference.len() <= table.slots());
        for (number, value) in reference {
            let (own, other) = (key(number), key(number + 300));
            let hash = own.hash(&HashKey::new(7));
            let slot = table.find(&own, hash).expect("was inserted");
            for hint in [table.finder().prefetch_slot(hash), slot, NO_SLOT] {
                prop_assert_eq!(table.find_near(hint, &own, hash), Some(slot));
            }
            let parts = ([1, 2, 3, 4, 5], value_words(value));
            let held = table.held(slot, &own).map(|held| (*held.control, held.words.to_vec()));
            prop_assert_eq!(held.as_ref(), Some(&parts));
            let is_known = V4Key::of(&own).is_some() && value != 0;
            prop_assert_eq!(known(&mut table, slot, &own), is_known.then_some(parts));
            for absent in [other, key(number ^ 1), key(number ^ 2)] {
                prop_assert!(table.held(slot, &absent).is_none());
                prop_assert_eq!(known(&mut table, slot, &absent), None);
            }
            prop_assert!(table.held(NO_SLOT, &own).is_none());
            prop_assert_eq!(known(&mut table, NO_SLOT, &own), None);
            prop_assert_eq!(table.words(slot), &value_words(value)[..]);
            prop_assert_eq!(table.key(slot), own);
        }
    }
}

/// A slot goes from one kind of flow to another, as slots do.
#[test]
fn a_slot_holds_the_key_that_it_was_last_given() {
    let mut table = StateTable::new(1, 1, 2);
    assert_eq!(table.key(0), FlowKey::default(), "never used");
    assert!(known(&mut table, 0, &key(1)).is_none());
    for number in [0, 1, 2, 3, 1, 0, 5, 7, 2, 6, 3, 0] {
        let own = key(number);
        table.assign(0, &own, own.hash(&HashKey::new(7)));
        assert_eq!(table.key(0), own);
        for other in 0..8 {
            let found = table.find(&key(other), own.hash(&HashKey::new(7)));
            assert_eq!(found, (other == number).then_some(0));
        }
    }
}

/// The share of uniform flows that find a slot with one way per bucket is (1 - e^-x) / x.
#[test]
fn half_full_with_eight_ways_it_turns_hardly_any_flow_away() {
    let mut table = StateTable::new(65_536, 8, 1);
    let turned_away = (0..32_768)
        .filter(|&number| {
            let hash = key(number).hash(&HashKey::new(3));
            let slot = table.vacant(hash, |control| control[0] == 0);
            if let Some(slot) = slot {
                table.assign(slot, &key(number), hash);
                table.set_control(slot, [1, 0, 0, 0, 0]);
            }
            slot.is_none()
        })
        .count();
    // By chance about eight.
    assert!(turned_away < 20, "{turned_away} flows turned away");
}

#[test]
fn one_way_keeps_as_many_flows_as_theory_says() {
    for (slots, flows) in [
        (32_768usize, 10_000u64),
        (32_768, 32_768),
        (32_768, 100_000),
    ] {
        let mut table = StateTable::new(slots, 1, 1);
        let mut resident = 0u64;
        for number in 0..flows {
            let hash = key(number).hash(&HashKey::new(3));
            if let Some(slot) = table.vacant(hash, |control| control[0] == 0) {
                table.assign(slot, &key(number), hash);
                table.set_control(slot, [1, 0, 0, 0, 0]);
                resident += 1;
            }
        }
        let load = flows as f64 / slots as f64;
        let expected = (1.0 - (-load).exp()) / load;
        let share = resident as f64 / flows as f64;
        assert!(
            (share - expected).abs() < 0.01,
            "{share} instead of {expected}"
        );
    }
}
