use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use twinpath_core::probing::LONGEST_RUN;

fn key(number: u64) -> FlowKey {
    FlowKey([number, 0, 0, 0, 1])
}

/// Few distinct hashes, so that runs collide and gaps must be closed right.
fn hash(number: u64) -> u64 {
    ((number % 13) << 32) | (number % 7)
}

/// However many flows fall on one place, none costs more than so many looks; those that find no
/// room are turned away, and go when others go.
#[test]
fn flows_on_one_place_are_bounded() {
    let mut store = FlowStore::<()>::new(10_000, 1, 0);
    let key = |number| FlowKey([number, 0, 0, 0, 0]);
    let taken: Vec<_> = (0..2000)
        .filter(|&number| store.find_or_insert(&key(number), number << 32).is_some())
        .collect();
    assert_eq!(taken.len(), LONGEST_RUN);
    assert_eq!(store.crowded(), 2000 - taken.len() as u64);
    assert!(store.find(&key(1999), 1999 << 32).is_none());
    let gone = store.find(&key(7), 7 << 32).expect("taken");
    store.remove(gone);
    assert!(store.find_or_insert(&key(1999), 1999 << 32).is_some());
    for number in taken.into_iter().filter(|&number| number != 7) {
        assert!(store.find(&key(number), number << 32).is_some());
    }
}

proptest! {
    #[test]
    fn behaves_like_a_map(operations in prop::collection::vec((0u64..60, any::<u32>(), any::<bool>()), 1..600)) {
        let mut store: FlowStore<u32> = FlowStore::new(40, 2, 1);
        let mut reference: HashMap<u64, u32> = HashMap::new();
        for (number, value, removes) in operations {
            if removes {
                if let Some(id) = store.find(&key(number), hash(number)) {
                    store.remove(id);
                }
                reference.remove(&number);
            } else if let Some(id) = store.find_or_insert(&key(number), hash(number)) {
                let record = store.record(id);
                prop_assert_eq!(record.words[1], reference.get(&number).copied().unwrap_or(0));
                record.words[1] = value;
                *record.tag = value;
                reference.insert(number, value);
            } else {
                prop_assert_eq!(reference.len(), 40, "refused while not full");
                prop_assert!(!reference.contains_key(&number));
            }
            prop_assert_eq!(store.len(), reference.len());
        }
        for number in 0..60 {
            let found = store.find(&key(number), hash(number)).map(|id| store.record(id).words[1]);
            prop_assert_eq!(found, reference.get(&number).copied());
        }
        prop_assert_eq!(store.ids().count(), reference.len());
    }
}

/// Whether a chunk is moved when it is asked for or in its turn makes no difference.
#[test]
fn flows_are_moved_to_another_shape_once() {
    let mut store: FlowStore<u32> = FlowStore::new(3 * CHUNK, 2, 1);
    let place = |number| (key(number), (number << 32) | (2 * number));
    for number in 0..2500 {
        let (key, hash) = place(number);
        let id = store.find_or_insert(&key, hash).expect("room");
        let record = store.record(id);
        (record.words[1], record.handles[0]) = (number as u32, 7);
    }
    let gone = store.find(&place(9).0, place(9).1).expect("there");
    store.remove(gone);
    store.reshape(3, 2);
    let mut moved = 0;
    let mut follow = |old: &[u32], had: &[u32], new: &mut [u32], has: &mut [u32]| {
        assert_eq!((old.len(), had, new.len()), (2, &[7][..], 3));
        (new[2], has[1]) = (old[1], had[0]);
        moved += 1;
    };
    let asked = store.find(&place(1500).0, place(1500).1).expect("there");
    store.move_chunk(asked, &mut follow);
    store.move_chunk(asked, &mut follow);
    assert_eq!(store.record(asked).words, [0, 0, 1500]);
    while let Some(id) = store.to_move() {
        store.move_chunk(id, &mut follow);
    }
    assert_eq!(moved, 2499);
    for number in (0..2500).filter(|&number| number != 9) {
        let (key, hash) = place(number);
        let id = store.find(&key, hash).expect("still there");
        let record = store.record(id);
        assert_eq!(record.words, [0, 0, number as u32]);
        assert_eq!(record.handles, [0, 7]);
    }
    let id = store.find_or_insert(&place(9).0, place(9).1).expect("room");
    assert_eq!(store.record(id).words, [0; 3]);
}

#[test]
fn incarnations_tell_a_new_flow_in_an_old_place() {
    let mut store: FlowStore<()> = FlowStore::new(1, 0, 0);
    let id = store.find_or_insert(&key(1), 1).expect("room");
    let incarnation = store.incarnation(id);
    assert!(store.lives(id, incarnation));
    store.remove(id);
    assert!(!store.lives(id, incarnation));
    assert_eq!(store.find_or_insert(&key(2), 2), Some(id));
    assert!(!store.lives(id, incarnation));
}
