use super::Ribosome;
use crate::model::Model;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans")
}

/// What a short run measures, by name.
fn run(parameters: &str) -> impl Fn(&str) -> f64 + use<> {
    let text = format!("testbed = \"testbeds/ribosome.toml\"\n{USUAL}");
    let mut table: toml::Table = toml::from_str(&text).expect("a table");
    table.extend(toml::from_str::<toml::Table>(parameters).expect("a table"));
    let row = Ribosome.run(&table, &folder());
    let row = row.unwrap_or_else(|error| panic!("{parameters}: {error}"));
    move |name| {
        let columns = Ribosome.columns();
        let index = columns.iter().position(|column| column.name == name);
        row[index.unwrap_or_else(|| panic!("no {name}"))]
    }
}

const USUAL: &str = "packets = 20000\nflows = 5000\nzipf = 0.0\narrivals = \"poisson\"\n";

#[test]
fn a_row_has_a_value_for_each_column() {
    let text = format!("testbed = \"testbeds/ribosome.toml\"\n{USUAL}input_gbps = 10");
    let table = toml::from_str(&text).expect("a table");
    let row = Ribosome.run(&table, &folder()).expect("a run");
    assert_eq!(row.len(), Ribosome.columns().len());
}

/// Whatever the system, what comes leaves, once and in order per flow, while nothing is full.
#[test]
fn nothing_is_lost_where_there_is_room() {
    for system in ["split", "whole", "sram", "parking"] {
        let value = run(&format!("system = \"{system}\"\ninput_gbps = 40"));
        for of_none in ["lost_share", "reordered_share", "link_lost_share"] {
            assert_eq!(value(of_none), 0.0, "{system}: {of_none}");
        }
        let carried = value("output_gbps") / value("offered_gbps");
        assert!((0.98..1.02).contains(&carried), "{system}: {carried}");
    }
}

/// Headers alone go to the cores, payloads there and back, each once.
#[test]
fn a_split_packet_takes_the_packets_that_it_must() {
    let value = run("input_gbps = 40");
    assert_eq!(value("whole_share"), 0.0);
    assert!(
        (value("nf_bits") - 76.0 * 8.0).abs() < 2.0,
        "{}",
        value("nf_bits")
    );
    for (name, expected) in [
        ("nf_packets", 1.0),
        ("rdma_payloads_rx", 1.0),
        ("rdma_payloads_tx", 1.0),
        ("rdma_rx", 2.0),
        ("switch_tx", 4.0),
    ] {
        let found = value(name);
        assert!((found - expected).abs() < 0.01, "{name}: {found}");
    }
}

/// A queue pair that serves its READs one after the other bounds a flow, and nothing else does.
#[test]
fn one_flow_is_bounded_by_its_queue_pair() {
    let value = run("input_gbps = 10\nflows = 1\nthreshold_bytes = 72");
    let split = value("offered_gbps") * (1.0 - value("whole_share") - value("lost_share"));
    assert!((2.2..2.8).contains(&split), "{split}");
    let value = run("input_gbps = 10\nflows = 1\n\"rdma.queue_pair_ns\" = 100");
    assert_eq!(value("whole_share") + value("lost_share"), 0.0);
}

/// A card with less room than it is sent loses frames, and production tells which payloads are lost.
#[test]
fn what_a_card_loses_is_told() {
    let value = run("input_gbps = 40\nservers = 1\n\"rdma.payload_gbps\" = 10");
    assert!(value("link_lost_share") > 0.05);
    assert!(value("lost_share") > 0.05);
    let done = value("output_mpps") + value("offered_mpps") * value("lost_share");
    assert!(
        done <= value("offered_mpps") * 1.05,
        "none is counted twice"
    );
}

#[test]
fn a_busy_link_is_left_alone() {
    let of = |back_off: &str, time_s: u32| {
        run(&format!(
            "input_gbps = 28\nflows = 2000\nzipf = 0.0\npackets = 10000000\nwarm_up = 0.75\n\
             second_ms = 1\nunsplit_gbps_per_s = 2\nback_off = \"{back_off}\"\ntime_s = {time_s}"
        ))
    };
    let before = of("on_off", 10);
    assert_eq!(
        (before("server1_share"), before("backed_off_at_s")),
        (1.0, 0.0)
    );
    let after = of("on_off", 20);
    assert_eq!((after("server1_share"), after("server1_gbps")), (0.0, 0.0));
    assert!(after("backed_off_at_s") > 15.0 && after("others_gbps") > before("others_gbps"));
    let shared = of("proportional", 20);
    assert!(shared("server1_share") > 0.0 && shared("server1_share") < 1.0);
}

#[test]
fn functions_of_no_testbed_and_parameters_out_of_range_are_told() {
    let wrong = |parameters: &str| {
        let text = format!("testbed = \"testbeds/ribosome.toml\"\ninput_gbps = 1\n{parameters}");
        let table = toml::from_str(&text).expect("a table");
        Ribosome.run(&table, &folder()).expect_err(parameters).field
    };
    for (parameters, field) in [
        ("function = \"inspector\"", "function"),
        ("servers = 0", "servers"),
        ("nf_servers = 65", "nf_servers"),
        ("second_ms = 0.0", "second_ms"),
        ("time_s = 1", "time_s"),
        ("\"rdma.queue_pairs\" = 0", "rdma.queue_pairs"),
        ("window_us = 20000.0", "window_us"),
    ] {
        assert_eq!(wrong(parameters).as_deref(), Some(field), "{parameters}");
    }
}
