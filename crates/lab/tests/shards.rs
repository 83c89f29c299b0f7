//! A service over many shards: what must be so is.

use twinpath_lab::model::Model;
use twinpath_lab::shards::Shards;

/// What is measured at a point, with times that are easy to reckon with.
fn measured(text: &str) -> impl Fn(&str) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let mut costs = String::from("what,ns\n");
    for shards in [2, 4, 8] {
        costs += &format!("assign-{shards},20\ngive-60-{shards},40\ntake-60-{shards},60\n");
    }
    std::fs::write(folder.path().join("c.csv"), costs).expect("room");
    let text =
        format!("costs = 'c.csv'\npackets = 100_000\nring_packets = 64\nwork_ns = 100\n{text}");
    let table = toml::from_str(&text).expect("a table");
    let row = Shards.run(&table, folder.path()).expect("a good point");
    move |name| {
        let index = Shards
            .columns()
            .iter()
            .position(|column| column.name == name);
        row[index.expect("a column")]
    }
}

#[test]
fn one_shard_does_nothing_but_its_work() {
    let found = measured("shards = 1");
    assert!((found("bound_mpps") - 10.0).abs() < 1e-6);
    assert!((found("output_mpps") / 10.0 - 1.0).abs() < 0.05);
    assert_eq!(found("handed_share"), 0.0);
}

/// With queues by chance three of four packets belong to another shard, and each of these costs 100 ns.
#[test]
fn what_is_handed_over_costs_both_ends() {
    let found = measured("shards = 4");
    assert!((found("handed_share") - 0.75).abs() < 0.02);
    let each_ns = 20.0 + 100.0 + 0.75 * 100.0;
    let even = 4e3 / each_ns;
    assert!(
        (found("output_mpps") / even - 1.0).abs() < 0.06,
        "{}",
        found("output_mpps")
    );
    let with_transfer = measured("shards = 4\ntransfer_ns = 100");
    assert!(with_transfer("output_mpps") < 0.8 * found("output_mpps"));
}

#[test]
fn queues_of_owners_need_no_handing_over() {
    let found = measured("shards = 8\nqueues = 'owner'");
    assert_eq!(found("handed_share"), 0.0);
    assert!(found("output_mpps") > 0.9 * 8e3 / 120.0);
}

/// Two hosts that exchange much are one shard's work.
#[test]
fn one_pair_of_hosts_is_not_divided() {
    let found = measured("shards = 8\nqueues = 'owner'\npairs = 1");
    assert_eq!(found("busiest_share"), 8.0);
    assert!((found("output_mpps") / (1e3 / 120.0) - 1.0).abs() < 0.05);
}

#[test]
fn what_was_not_measured_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("c.csv"), "what,ns\nassign-2,1\n").expect("room");
    for (text, field) in [
        ("shards = 2", "costs"),
        ("shards = 2\ncosts = 'c.csv'", "shards"),
        ("shards = 0\ncosts = 'c.csv'", "shards"),
        ("work_ns = 0\ncosts = 'c.csv'", "work_ns"),
    ] {
        let table = toml::from_str(text).expect("a table");
        let error = Shards.check(&table, folder.path()).expect_err(text);
        assert_eq!(error.field.as_deref(), Some(field), "{text}");
    }
}
