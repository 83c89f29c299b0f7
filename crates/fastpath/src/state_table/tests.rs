use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn key(number: u64) -> FlowKey {
    FlowKey([number, 1, 2, 3, 4])
}

proptest! {
    /// Random insertions and updates, mirrored in a map of what fits in each bucket.
    #[test]
    fn behaves_like_a_map(ways in prop::sample::select(vec![1usize, 2, 4, 8]), operations in prop::collection::vec((0u64..300, any::<u32>()), 1..500)) {
        let mut table = StateTable::new(64, ways, 3);
        let mut reference: HashMap<u64, u32> = HashMap::new();
        for (number, value) in operations {
            let (key, hash) = (key(number), key(number).hash(7));
            let slot = table.find(&key, hash).or_else(|| {
                let slot = table.vacant(hash, |control| control[0] == 0)?;
                table.assign(slot, &key, hash);
                table.set_control(slot, [1, 0, 0, 0, 0]);
                Some(slot)
            });
            if let Some(slot) = slot {
                table.words_mut(slot).copy_from_slice(&[value, 0, value]);
                reference.insert(number, value);
            } else {
                prop_assert!(!reference.contains_key(&number));
            }
        }
        prop_assert!(reference.len() <= table.slots());
        for (number, value) in reference {
            let slot = table.find(&key(number), key(number).hash(7)).expect("was inserted");
            let hash = key(number).hash(7);
            prop_assert_eq!(table.find_near(table.finder().prefetch_slot(hash), &key(number), hash), Some(slot));
            prop_assert_eq!(table.find_near(NO_SLOT, &key(number), hash), Some(slot));
            let held = table.held(slot, &key(number)).map(|held| (*held.control, held.words.to_vec()));
            prop_assert_eq!(held, Some(([1, 0, 0, 0, 0], vec![value, 0, value])));
            prop_assert!(table.held(slot, &key(number + 300)).is_none());
            prop_assert!(table.held(NO_SLOT, &key(number)).is_none());
            prop_assert_eq!(table.words(slot), &[value, 0, value][..]);
            prop_assert_eq!(table.key(slot), key(number));
        }
    }
}

/// The share of uniform flows that find a slot with one way per bucket is (1 - e^-x) / x.
#[test]
fn half_full_with_eight_ways_it_turns_hardly_any_flow_away() {
    let mut table = StateTable::new(65_536, 8, 1);
    let turned_away = (0..32_768)
        .filter(|&number| {
            let hash = key(number).hash(3);
            let slot = table.vacant(hash, |control| control[0] == 0);
            if let Some(slot) = slot {
                table.assign(slot, &key(number), hash);
                table.set_control(slot, [1, 0, 0, 0, 0]);
            }
            slot.is_none()
        })
        .count();
    assert!(turned_away < 10, "{turned_away} flows turned away");
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
            let hash = key(number).hash(3);
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
