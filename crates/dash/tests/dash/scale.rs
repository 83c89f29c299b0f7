//! The whole configuration of two DPUs of the public scale test.

use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use twinpath_dash::Files;
use twinpath_dash::config::{Configuration, Store};
use twinpath_dash::objects::{Key, Table};

type File = (PathBuf, Vec<u8>);

/// The files of a DPU, in the order of their numbers; `None` where they are absent.
fn files(dpu: &str) -> Option<Vec<File>> {
    let archive = twinpath_captures::shared("dash")?.join(format!("{dpu}.tar.gz"));
    let archive = std::fs::File::open(archive).expect("an archive");
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    let entries = archive.entries().expect("a list of files");
    let mut files: Vec<File> = entries
        .map(|entry| {
            let mut entry = entry.expect("a file");
            let path = entry.path().expect("a name").into_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("its bytes");
            (path, bytes)
        })
        .filter(|(path, _)| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    Some(files)
}

fn read(files: &[File]) -> Files {
    let mut read = Files::default();
    for (path, bytes) in files {
        read.add_text(path.clone(), bytes);
    }
    read
}

/// All files at once.
fn store(files: &[File]) -> Store {
    let mut store = Store::default();
    store.apply(read(files).changes);
    store
}

/// One file after the other.
fn store_by_file(files: &[File]) -> Store {
    let mut store = Store::default();
    for file in files {
        store.apply(read(std::slice::from_ref(file)).changes);
    }
    store
}

fn counts(configuration: &Configuration) -> Vec<(&'static str, usize)> {
    let tables = Table::ALL.iter();
    tables
        .map(|table| (table.name(), configuration.count(*table)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

#[test]
fn every_object_is_read_and_in_force() {
    let Some(files) = files("dpu0") else { return };
    let read = read(&files);
    assert_eq!((read.paths.len(), read.problems.len()), (65, 0));
    let store = store(&files);
    assert_eq!(store.waiting().count() + store.leaving().count(), 0);
    assert_eq!(
        counts(&store.snapshot().configuration),
        [
            ("DASH_APPLIANCE_TABLE", 1),
            ("DASH_VNET_TABLE", 32),
            ("DASH_ROUTING_TYPE_TABLE", 4),
            ("DASH_QOS_TABLE", 32),
            ("DASH_ACL_GROUP_TABLE", 320),
            ("DASH_ROUTE_GROUP_TABLE", 32),
            ("DASH_ROUTE_TABLE", 20480),
            ("DASH_VNET_MAPPING_TABLE", 20512),
            ("DASH_ENI_TABLE", 32),
            ("DASH_ENI_ROUTE_TABLE", 32),
        ]
    );
}

#[test]
fn files_come_in_any_order() {
    let Some(files) = files("dpu1") else { return };
    let expected = store(&files).snapshot();
    let mut runner = TestRunner::new(Config::with_cases(8));
    let orders = Just(files).prop_shuffle();
    let outcome = runner.run(&orders, |files| {
        let store = store_by_file(&files);
        prop_assert_eq!(store.waiting().count(), 0);
        prop_assert!(store.snapshot().configuration == expected.configuration);
        Ok(())
    });
    outcome.expect("the same in any order");
}

#[test]
fn two_dpus_in_one_are_told_apart() {
    let (Some(zero), Some(one)) = (files("dpu0"), files("dpu1")) else {
        return;
    };
    let all: Vec<_> = zero.iter().chain(&one).cloned().collect();
    let store = store(&all);
    assert_eq!(store.waiting().count(), 0);
    let snapshot = store.snapshot();
    assert_eq!(snapshot.configuration.count(Table::Eni), 64);
}

#[test]
fn what_many_share_is_kept_once() {
    let Some(files) = files("dpu0") else { return };
    let costs = store(&files).snapshot().configuration.costs();
    assert_eq!((costs.routes.number, costs.mappings.number), (20480, 20512));
    let (route, mapping) = (costs.routes.bytes_each(), costs.mappings.bytes_each());
    assert!(route.is_some_and(|bytes| bytes < 25.0), "{route:?}");
    assert!(mapping.is_some_and(|bytes| bytes < 40.0), "{mapping:?}");
}

#[test]
fn a_change_of_one_eni_touches_no_other() {
    let Some(files) = files("dpu0") else { return };
    let mut store = store(&files);
    let before = store.snapshot();
    let mut text = Files::default();
    let route = r#"{"DASH_ROUTE_TABLE:route-group-7:9.9.9.0/24": {"routing_type": "drop"}}"#;
    text.add_text("change".into(), route.as_bytes());
    let applied = store.apply(text.changes);
    let touched: Vec<_> = applied.touched.enis().map(|eni| eni.as_str()).collect();
    assert_eq!(touched, ["eni-7"]);
    let after = store.snapshot();
    let group = |number: u32| format!("route-group-{number}").as_str().into();
    let differ = (1..=32).filter(|number| {
        let group = group(*number);
        let tables = [&before, &after].map(|one| one.configuration.route_groups.get(&group));
        let [Some(old), Some(new)] = tables else {
            panic!("no {group}");
        };
        !std::sync::Arc::ptr_eq(old, new)
    });
    assert_eq!(differ.collect::<Vec<_>>(), [7]);
    assert!(after.configuration.contains(&Key::RouteGroup(group(7))));
}
