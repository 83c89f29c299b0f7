//! Any bytes as a configuration of a DPU: read or told, twice into the same store, and what is in
//! force refers to nothing that is not there.

use twinpath_dash::config::{Limits, Origin, Store};
use twinpath_dash::json;
use twinpath_dash::objects::{Change, Table};

/// One input.
pub fn run(bytes: &[u8]) {
    let reading = json::read(bytes);
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
    for problem in &reading.problems {
        assert!((1..=lines).contains(&problem.line));
        assert!(!problem.to_string().is_empty());
    }
    let changes: Vec<(Change, Origin)> = reading
        .changes
        .into_iter()
        .map(|(change, line)| (change, Origin { file: 0, line }))
        .collect();
    let mut store = Store::new(Limits { waiting: 8, enis: 4 });
    let first = store.apply(changes.clone());
    check(&store);
    let reversed: Vec<_> = changes.iter().rev().cloned().collect();
    let second = store.apply(reversed);
    check(&store);
    assert!(second.epoch >= first.epoch);
    store.replace(changes);
    check(&store);
}

fn check(store: &Store) {
    let snapshot = store.snapshot();
    let configuration = &snapshot.configuration;
    let mut objects = 0;
    configuration.for_each(&mut |object| {
        objects += 1;
        object.references(&mut |_, to| assert!(configuration.contains(&to)));
        assert!(object.impossible().is_none());
        assert_eq!(configuration.get(&object.key()), Some(object));
    });
    let counted: usize = Table::ALL
        .iter()
        .map(|table| configuration.count(*table))
        .sum();
    assert_eq!(counted, objects);
    assert!(store.waiting().count() <= 8);
    assert!(configuration.count(Table::Eni) <= 4);
    let leaving: Vec<_> = store.leaving().map(|(key, _)| key).collect();
    let referring = store.referring(leaving.iter().copied(), 1);
    for key in leaving {
        assert!(!referring[key].is_empty());
    }
}
