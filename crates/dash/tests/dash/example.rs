//! The configuration to start from.

use std::path::PathBuf;

use twinpath_dash::Files;
use twinpath_dash::config::Store;
use twinpath_dash::objects::Table;

#[test]
fn the_example_is_whole() {
    let path = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/dpu.json"
    ));
    let files = Files::read(&[path]).expect("the example");
    assert_eq!(files.problems, []);
    let all = files.changes.len();
    let mut store = Store::default();
    store.apply(files.changes);
    assert_eq!(store.waiting().count() + store.leaving().count(), 0);
    let snapshot = store.snapshot();
    let configuration = &snapshot.configuration;
    let objects = Table::ALL.iter().map(|table| configuration.count(*table));
    assert_eq!(objects.sum::<usize>(), all);
    let (vnets, enis) = (
        configuration.count(Table::Vnet),
        configuration.count(Table::Eni),
    );
    assert_eq!((vnets, enis), (2, 6));
    assert_eq!(configuration.warnings(), []);
}
