//! A switch with DPUs: the box does what its parts promise.

use std::path::PathBuf;
use toml::Table;
use twinpath_lab::model::Model;
use twinpath_lab::smart_switch::SmartSwitch;

fn plans() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plans")
}

fn table(text: &str) -> Table {
    let mut table: Table = toml::from_str(text).expect("a table");
    let testbed = table.entry("testbed");
    testbed.or_insert("testbeds/smartswitch.toml".into());
    table
}

/// What is measured at a point, by name.
fn measured(text: &str) -> impl Fn(&str) -> f64 {
    let row = SmartSwitch
        .run(&table(text), &plans())
        .expect("a good point");
    move |name| {
        let columns = SmartSwitch.columns().iter();
        let index = columns
            .map(|column| column.name)
            .position(|column| column == name);
        row[index.expect("a column")]
    }
}

fn refused(text: &str) -> String {
    let error = SmartSwitch.check(&table(text), &plans()).expect_err(text);
    format!("{}: {error}", error.field.as_deref().unwrap_or_default())
}

#[test]
fn packets_of_known_flows_leave_unless_there_are_too_many() {
    let below = measured("load = 0.9\nduration_us = 200\nflows = 320");
    assert_eq!(below("lost_share"), 0.0);
    assert_eq!(below("judged_share"), 0.0);
    assert!((below("output_mpps") / (0.9 * 49.3) - 1.0).abs() < 0.05);
    let above = measured("load = 1.5\nduration_us = 400\nflows = 320\nwarm_up = 0.5");
    assert!(above("lost_share") > 0.3, "{}", above("lost_share"));
    assert!((above("output_mpps") / 49.3 - 1.0).abs() < 0.01);
}

/// A connection's first packet alone is judged, and both directions of it pass.
#[test]
fn connections_are_judged_once() {
    let found = measured("connection_load = 0.5\nduration_us = 3000\nwarm_up = 0.5");
    assert_eq!((found("lost_share"), found("failed_share")), (0.0, 0.0));
    assert!((found("judged_share") - 1.0 / 8.0).abs() < 0.01);
    assert!((found("connections_m_per_s") / (0.5 * 2.47) - 1.0).abs() < 0.1);
}

#[test]
fn every_dpu_has_its_enis_and_no_other() {
    let even = measured("load = 0.5\ndpus = 4\nenis = 8\nduration_us = 200\nflows = 32");
    assert_eq!(even("lost_share"), 0.0);
    assert!(even("busiest_share") < 1.1);
    // Five ENIs on four DPUs: one has two.
    let uneven = measured("load = 0.5\ndpus = 4\nenis = 5\nduration_us = 200\nflows = 32");
    assert!(
        (uneven("busiest_share") - 1.6).abs() < 0.1,
        "{}",
        uneven("busiest_share")
    );
    let alone =
        measured("load = 1.0\ndpus = 4\nenis = 1\nduration_us = 400\nflows = 32\nwarm_up = 0.5");
    assert!((alone("output_mpps") / 49.3 - 1.0).abs() < 0.02);
    assert!((alone("output_mpps") / alone("even_mpps") - 1.0).abs() < 0.02);
}

/// Access lists, routes and mappings are all in a DPU's tables.
#[test]
fn policies_take_memory() {
    let small = measured("load = 0.1\nduration_us = 10");
    let large = measured(
        "load = 0.1\nduration_us = 10\nacl_rules = 64_000\nroutes = 32_000\nmappings = 16_000",
    );
    assert!(large("policy_mb") > 10.0 * small("policy_mb"));
    // An entry is a cache line, a flow has two, and of three places two are taken.
    assert!(
        (192.0..260.0).contains(&large("flow_bytes")),
        "{}",
        large("flow_bytes")
    );
}

#[test]
fn a_run_is_the_same_again_and_another_seed_is_another() {
    let run = |seed: u32| {
        let text = format!("load = 0.8\nconnection_load = 0.5\nduration_us = 300\nseed = {seed}");
        SmartSwitch.run(&table(&text), &plans()).expect("a point")
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn what_cannot_run_is_refused_with_its_name() {
    for (text, told) in [
        ("dpus = 0", "dpus: must be 1 to 64"),
        ("frame_bytes = 60", "frame_bytes: must be"),
        ("load = -1", "load: must be"),
        ("load = 0.0", "load: nothing comes"),
        ("pipeline = 'software'", "costs: missing"),
        ("costs = 'measured/nothing.csv'", "costs: "),
        (
            "testbed = 'testbeds/switchnic.toml'",
            "testbed: it has no DPUs",
        ),
        ("'dpu.speed' = 3", "dpu.speed: the testbed has no number"),
        (
            "mappings = 32\nflows = 4_000_000",
            "flows: more than the ports",
        ),
        ("load = 5\ndpus = 64\nduration_us = 1e6", "duration_us: "),
    ] {
        let error = refused(text);
        assert!(error.contains(told), "{error}");
    }
}
