//! The testbed around the node changes when things happen and what is lost, and nothing else.

use super::TwoPaths;
use super::parameters::Parameters;
use super::world::run_tapped;
use crate::model::{Model, ParameterError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Table;
use twinpath_core::wire::{dissect, fields, rewrite};

fn plans() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans")
}

fn table(text: &str) -> Table {
    let mut table: Table = toml::from_str(text).expect(text);
    let testbed = table.entry("testbed");
    testbed.or_insert("testbeds/switchnic.toml".into());
    let device = table.entry("device");
    device.or_insert("software".into());
    table
}

struct Found(Vec<f64>);

impl Found {
    fn of(&self, column: &str) -> f64 {
        let columns = TwoPaths.columns();
        let index = columns.iter().position(|c| c.name == column);
        self.0[index.expect(column)]
    }
}

fn run(text: &str) -> Found {
    let row = TwoPaths.run(&table(text), &plans());
    Found(row.unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn refused(text: &str) -> ParameterError {
    let checked = TwoPaths.check(&table(text), &plans());
    checked.expect_err(text)
}

/// What left, in order, by its source.
fn output(text: &str) -> BTreeMap<String, Vec<Vec<u8>>> {
    let parameters = Parameters::read(&table(text), &plans()).expect(text);
    let setting = parameters.setting().expect(text);
    let mut flows: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    let mut tap = |departure: &twinpath_node::Departure| {
        let mut bytes = departure.frame.bytes().to_vec();
        let layout = dissect(&bytes).expect("well formed");
        let source = fields::source(&bytes, &layout).to_string();
        if text.contains("napt") && !fields::is_atomic(&bytes, &layout) {
            // Each path draws another.
            rewrite::set_identification(&mut bytes, &layout, 0).expect("IPv4");
        }
        flows.entry(source).or_default().push(bytes);
    };
    run_tapped(&setting, 1.0, &mut tap).expect(text);
    flows
}

/// Packets still inside at the end are missing, none is in the wrong place, and none is another's.
fn assert_same(
    text: &str,
    all: &BTreeMap<String, Vec<Vec<u8>>>,
    oracle: &BTreeMap<String, Vec<Vec<u8>>>,
) {
    let count =
        |flows: &BTreeMap<String, Vec<Vec<u8>>>| flows.values().map(Vec::len).sum::<usize>();
    assert!(
        count(all).abs_diff(count(oracle)) < 400,
        "{text}: {} {}",
        count(all),
        count(oracle)
    );
    for (source, found) in all {
        let Some(expected) = oracle.get(source) else {
            assert!(found.len() < 3, "{text}: {source}");
            continue;
        };
        let common = found.len().min(expected.len());
        assert!(found[..common] == expected[..common], "{text}: {source}");
    }
}

#[test]
fn devices_change_neither_packets_nor_their_order() {
    // So slow that nothing is lost: what follows a lost segment would wait for it to the end.
    let common = "input_gbps = 5\npackets = 40_000\nflows = 300\nzipf = 0.99\nframe_bytes = 200\narrivals = 'bursty'\nhot_packets = 1\nwindow_ms = 0.5\nthreshold = 1\nwarm_up = 0\nchurn_per_minute = 1e7\nidle_windows = 50\n";
    for (chain, systems) in [
        ("load_balancer", &["two_paths", "header_split"][..]),
        ("reassembler", &["two_paths", "read_only_cache"][..]),
        ("firewall", &["two_paths"][..]),
        ("inspector", &["two_paths"][..]),
    ] {
        let text = |system: &str| {
            format!("{common}chain = '{chain}'\nsystem = '{system}'\ncomplex_share = 0.01")
        };
        let oracle = output(&text("server_only"));
        assert!(oracle.len() > 250);
        for system in systems {
            let text = text(system);
            assert_same(&text, &output(&text), &oracle);
        }
    }
    let text = |system: &str| {
        format!(
            "{common}chain = 'acl+napt'\nsystem = '{system}'\ntestbed = 'testbeds/sfcache.toml'\nstage_cores = '4+4'"
        )
    };
    let (cached, oracle) = (text("rule_cache"), text("server_only"));
    assert_same(&cached, &output(&cached), &output(&oracle));
}

#[test]
fn every_packet_leaves_or_is_counted_as_lost() {
    for text in [
        "chain = 'reassembler'\ninput_gbps = 100\nzipf = 0\nflows = 100_000\ncores = 1",
        "chain = 'load_balancer'\nsystem = 'server_only'\ninput_gbps = 200",
        "chain = 'load_balancer'\nsystem = 'rule_cache'\ninput_gbps = 300\nflows = 100_000",
        "chain = 'kv_store'\nsystem = 'read_only_cache'\nwrite_share = 0.5\ninput_mpps = 100\nflows = 10",
    ] {
        // A store's keys are written first.
        let warm_up = if text.contains("kv_store") {
            0.001
        } else {
            0.0
        };
        let found = run(&format!("{text}\npackets = 60_000\nwarm_up = {warm_up:?}"));
        let whole = found.of("output_mpps") / found.of("offered_mpps") + found.of("lost_share");
        assert!(found.of("lost_share") > 0.05, "{text}: nothing is lost");
        // What is in queues at the end is neither.
        assert!((0.7..1.001).contains(&whole), "{text}: {whole}");
    }
}

#[test]
fn the_fast_path_takes_as_long_as_the_pipeline_and_the_slow_one_as_its_parts() {
    let text =
        "chain = 'load_balancer'\ninput_gbps = 1\nflows = 10\npackets = 5000\nhot_packets = 1";
    let fast = run(text);
    assert!(fast.of("fast_share") > 0.99 && fast.of("latency_p50_us") == 0.35);
    let slow = run(&format!("{text}\nsystem = 'server_only'"));
    // Pipeline, two times 1048 B at 100 Gb/s, the round trip, the core.
    let expected = 0.35 + 2.0 * 0.08384 + 6.0 + 0.218;
    assert!(
        (slow.of("latency_p50_us") - expected).abs() < 0.01,
        "{}",
        slow.of("latency_p50_us")
    );
    let split = run(&format!("{text}\nsystem = 'header_split'"));
    // Headers of 64 B there and back, and 4 us for the payload.
    let expected = 0.35 + 2.0 * 0.00704 + 6.0 + 0.218 + 4.0;
    assert!(
        (split.of("latency_p50_us") - expected).abs() < 0.01,
        "{}",
        split.of("latency_p50_us")
    );
}

#[test]
fn a_cache_that_is_only_read_answers_no_write() {
    let text = "chain = 'kv_store'\ninput_mpps = 1\nflows = 100\nzipf = 0\nhot_packets = 1\npackets = 40_000\nways = 8";
    let share = |more: &str| run(&format!("{text}\n{more}")).of("fast_share");
    let read_only = "system = 'read_only_cache'\nwrite_share";
    assert!(share("write_share = 1.0") > 0.99);
    assert_eq!(share(&format!("{read_only} = 1.0")), 0.0);
    let half = share(&format!("{read_only} = 0.5"));
    assert!((0.1..0.5).contains(&half), "{half}");
    assert!(share(&format!("{read_only} = 0.0")) > 0.99);
}

/// A connection of which one end alone is heard stays half-open: each of its packets goes to the cores.
#[test]
fn an_inspector_that_hears_both_ends_has_a_fast_path() {
    let text = "chain = 'inspector'\ninput_mpps = 2\nflows = 100\nhot_packets = 1\npackets = 40_000\nwarm_up = 0.75";
    let share = |more: &str| run(&format!("{text}\n{more}")).of("fast_share");
    assert_eq!(share("answers = false"), 0.0);
    let both = share("answers = true");
    assert!(both > 0.3, "{both}");
}

/// While a store's keys are written once each, nothing is asked for.
#[test]
fn measuring_begins_behind_what_a_store_is_filled_with() {
    let text = "chain = 'kv_store'\ninput_mpps = 2\nflows = 10_000\nwarm_up = 0.5\npackets";
    let error = refused(&format!("{text} = 19_000"));
    assert_eq!(error.field.as_deref(), Some("packets"));
    assert!(error.message.contains("10000 keys"), "{error}");
    TwoPaths
        .check(&table(&format!("{text} = 20_000")), &plans())
        .expect("behind it");
}

#[test]
fn the_agents_rate_bounds_the_rules() {
    let text = "chain = 'load_balancer'\nsystem = 'rule_cache'\ninput_gbps = 20\nframe_bytes = 200\nflows = 20_000\nzipf = 0\nwindow_ms = 5\nthreshold = 1\nidle_windows = 200\npackets = 1_000_000\nwarm_up = 0";
    let found = run(text);
    assert!(found.of("requests_refused") > 0.0);
    let per_s = found.of("entries_per_s");
    assert!((40_000.0..50_001.0).contains(&per_s), "{per_s}");
    assert!(found.of("rules") <= found.of("rules_selected"));
}

#[test]
fn a_chain_is_replaced_without_loss() {
    let text = "testbed = 'testbeds/sfcache.toml'\nchain = 'acl'\nreplace_chain = 'acl+napt'\nreplace_at_ms = 5\nsystem = 'rule_cache'\ninput_gbps = 10\npackets = 20_000\nwarm_up = 0\nwindow_ms = 1\nthreshold = 1\nidle_windows = 100";
    let found = run(text);
    assert!(found.of("interruption_us") > 1.0 && found.of("interruption_us") < 100.0);
    assert!(found.of("waited_packets") >= 1.0 && found.of("lost_share") == 0.0);
    let flows = output(text);
    // Behind the translation packets come from its addresses, before it from the hosts' own.
    let translated = flows
        .keys()
        .filter(|source| source.starts_with("198.51.100."))
        .count();
    assert!(translated > 50 && flows.len() - translated > 50);
}

/// Packets do not wait while flows come home, only until those inside have left.
#[test]
fn flow_state_comes_home_before_packets_wait() {
    let text = "chain = 'firewall'\nreplace_chain = 'firewall+inspector'\nreplace_at_ms = 5\nsystem = 'two_paths'\ninput_gbps = 20\npackets = 50_000\nflows = 5000\nhot_packets = 1\nwarm_up = 0";
    let found = run(text);
    assert_eq!(found.of("lost_share"), 0.0);
    let interruption_us = found.of("interruption_us");
    assert!(
        (1.0..100.0).contains(&interruption_us),
        "{interruption_us} us"
    );
    assert!(found.of("waited_packets") >= 1.0);
}

#[test]
fn the_highest_rate_is_where_losses_begin() {
    let text = "chain = 'load_balancer'\nsystem = 'server_only'\nrate = 'highest'\ninput_gbps = 400\npackets = 60_000\nflows = 10_000";
    let found = run(text);
    // The port to the server carries 100 Gb/s, and its queue some more for so short a run.
    assert!(
        (95.0..130.0).contains(&found.of("output_gbps")),
        "{}",
        found.of("output_gbps")
    );
    assert!(found.of("lost_share") <= 0.001);
}

#[test]
fn what_cannot_run_is_refused_by_name() {
    let good = "input_gbps = 1\n";
    for (text, field) in [
        ("chain = 'firewal'", "chain"),
        ("chain = 'reassembler'\nsystem = 'rule_cache'", "system"),
        ("chain = 'acl'\nsystem = 'read_only_cache'", "system"),
        ("on = 'gpu'", "on"),
        ("stage_cores = '1+2+3'", "stage_cores"),
        ("cores = 0", "cores"),
        ("cores = 64\ndevices = 2", "devices"),
        ("testbed = 'testbeds/none.toml'", "testbed"),
        ("write_share = 2.0", "write_share"),
        (
            "system = 'header_split'\ntestbed = 'testbeds/sfcache.toml'",
            "system",
        ),
        ("replace_chain = 'inspektor'", "replace_chain"),
        ("slots = 0", "slots"),
        ("hot_packets = 0", "hot_packets"),
        ("threshold = 0", "threshold"),
        ("matches_per_s = 0", "matches_per_s"),
        ("frame_bytes = 20_000", "frame_bytes"),
        ("ways = 3", "ways"),
        ("'agent.entries_per_s' = 0", "agent.entries_per_s"),
        ("'agent.speed' = 1", "agent.speed"),
        ("'agent.entries' = 'x'", "agent.entries"),
        ("chain = 'firewall'\ndevice = 'asic'", "device"),
        ("chain = 'kv_store'\ndevice = 'asic'", "device"),
        ("ways = 2\ndevice = 'asic'", "device"),
    ] {
        let error = refused(&format!("{good}{text}"));
        assert_eq!(error.field.as_deref(), Some(field), "{text}: {error}");
    }
    assert_eq!(
        refused("input_mpps = 2000").field.as_deref(),
        Some("input_mpps")
    );
    assert_eq!(refused("flows = 10").field.as_deref(), Some("input_gbps"));
    let without = TwoPaths.check(&toml::from_str("flows = 10").expect("a table"), &plans());
    assert_eq!(
        without.expect_err("no testbed").field.as_deref(),
        Some("testbed")
    );
}

/// A switch is charged for what its fast path runs; what only the cores run costs it nothing.
#[test]
fn a_switch_has_room_for_what_its_budget_allows() {
    let remarks = |text: &str| {
        let text = format!("input_gbps = 1\ndevice = 'asic'\n{text}");
        TwoPaths.check(&table(&text), &plans()).expect(&text);
        TwoPaths.remarks(&table(&text), &plans())
    };
    for chain in ["load_balancer", "reassembler"] {
        let told = remarks(&format!("chain = '{chain}'"));
        assert!(told[0].contains("fits the budget"), "{told:?}");
    }
    assert!(remarks("chain = 'firewall'\nsystem = 'server_only'").is_empty());
    let software = table("input_gbps = 1\nchain = 'firewall'");
    let told = TwoPaths.remarks(&software, &plans());
    assert!(
        told[0].contains("software") && told[0].contains("11 state words"),
        "{told:?}"
    );
}

/// A number of the devices that a plan sets is the one that holds.
#[test]
fn a_plan_can_set_a_number_of_its_devices() {
    let text = "chain = 'load_balancer'\nsystem = 'server_only'\ninput_gbps = 1\nflows = 10\npackets = 5000";
    let latency = |more: &str| run(&format!("{text}\n{more}")).of("latency_p50_us");
    let longer = latency("'server.packet_ns' = 1218") - latency("");
    assert!((longer - 1.0).abs() < 0.01, "{longer}");
}

/// A capture that is replayed at a constant rate has no bursts, and its flows are the same.
#[test]
fn packets_of_the_open_model_can_come_evenly() {
    let text = "testbed = 'testbeds/sfcache.toml'\nchain = 'napt+load_balancer'\nsystem = 'server_only'\ninput_gbps = 39\n\
                flow_model = 'open'\nflow_sizes = 'traffic/internet-flows.txt'\nhistory_s = 10\nframe_bytes = 870\npackets = 40_000";
    let [flows, even] = ["flows", "even"].map(|pace| run(&format!("{text}\npace = '{pace}'")));
    assert!(
        (even.of("offered_gbps") - 39.0).abs() < 0.1,
        "{}",
        even.of("offered_gbps")
    );
    assert!(flows.of("latency_p99_us") > even.of("latency_p99_us"));
}
