//! A DPU as a service: `twinpath run` with configurations, captures and steps.

use crate::folder::Folder;
use crate::operator::Running;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use twinpath_control::report::units;
use twinpath_dash::samples::vectors::{
    Compare, capture, folder, names, settings_written, steps, wanted_counters, wanted_device_drops,
};

pub const SERVICE: &str = "[service]\nname = \"dpu\"\nchain = [\"dash\"]\n\n[dash]\n";

/// The files of a vector, and a list of steps that runs it.
pub fn copied(name: &str) -> Folder {
    // What JSON says of a field TOML says, too.
    let settings = settings_written(name);
    let settings = settings
        .iter()
        .map(|(key, value)| format!("{key} = {value}\n"));
    let service = format!("{SERVICE}{}", settings.collect::<String>());
    let copy = Folder::with("dpu.toml", &service);
    let mut list = Vec::new();
    for (number, step) in steps(name).iter().enumerate() {
        for file in ["config.json", "in.pcap"] {
            let bytes = std::fs::read(step.join(file)).expect("a vector's file");
            copy.write(&format!("{number}-{file}"), &bytes);
        }
        // A string and a list say the same.
        let config = match number % 2 {
            0 => serde_json::json!(format!("{number}-config.json")),
            _ => serde_json::json!([format!("{number}-config.json")]),
        };
        list.push(serde_json::json!({
            "config": config,
            "in": format!("{number}-in.pcap"),
            "out": format!("{number}-out.pcap"),
        }));
    }
    copy.write("steps.json", Value::from(list).to_string().as_bytes());
    copy
}

fn check_packets(wanted: &Path, sent: &Path, compare: &Compare, what: &str) {
    let frames = capture(sent);
    compare.check_all(frames.iter().map(|(_, frame)| frame.as_slice()));
    let [wanted, sent] = [wanted, sent].map(|path| {
        let packets = capture(path).into_iter();
        let counting = packets.map(|(_, packet)| compare.counting(&packet));
        counting.collect::<Vec<_>>()
    });
    for (number, (sent, wanted)) in sent.iter().zip(&wanted).enumerate() {
        assert_eq!(sent, wanted, "{what}: packet {number}");
    }
    assert_eq!(sent.len(), wanted.len(), "{what}: so many left");
}

fn check_counters(wanted: &Value, eni: &Value, what: &str) {
    for (name, count) in wanted["counters"].as_object().into_iter().flatten() {
        let counted = &eni[format!("SAI_ENI_STAT_{name}")];
        assert_eq!(counted, count, "{what}: {name}");
    }
    if let Some(drops) = wanted.get("drops") {
        assert_eq!(&eni["drops"], drops, "{what}");
    }
    for (class, bytes) in wanted["meters"].as_object().into_iter().flatten() {
        let meter = &eni["meters"][class];
        let names =
            ["OUTBOUND", "INBOUND"].map(|way| format!("SAI_METER_BUCKET_ENTRY_STAT_{way}_BYTES"));
        let counts: Vec<_> = names.iter().map(|name| meter[name].clone()).collect();
        assert_eq!(&Value::from(counts), bytes, "{what}: class {class}");
    }
}

/// Runs a vector. Returns how many of its packets needed no policies.
fn run(name: &str, ways: &[&str]) -> u64 {
    let what = format!("{name} {ways:?}");
    let copy = copied(name);
    let arguments = [
        "run",
        "dpu.toml",
        "--steps",
        "steps.json",
        "--counters",
        "counters.json",
    ];
    copy.succeed(&[&arguments[..], ways].concat());
    let compare = Compare::read(&folder().join(name));
    let told: Value = serde_json::from_slice(&copy.read("counters.json")).expect("JSON");
    let (mut fast, steps) = (0, steps(name));
    for (number, step) in steps.iter().enumerate() {
        let sent = copy.path(&format!("{number}-out.pcap"));
        let what = format!("{what}, step {}", number + 1);
        let wanted = step.join("expected.pcap");
        check_packets(&wanted, &sent, &compare, &what);
        // Whoever has no test of ours says it so.
        if !capture(&wanted).is_empty() {
            let fields = folder().join(name).join("compare.json");
            let files = [&sent, &wanted, &fields].map(|path| path.to_string_lossy());
            copy.succeed(&["compare", &files[0], &files[1], "--fields", &files[2]]);
        }
        fast += told[number]["fast_packets"].as_u64().expect("a number");
        assert_eq!(told[number]["waiting"], Value::Array(Vec::new()), "{what}");
        // What came has left, or is told of as dropped.
        let sums = ["packets_in", "packets_out"].map(|field| {
            let upto = told.as_array().expect("steps").iter().take(number + 1);
            upto.filter_map(|step| step[field].as_u64()).sum::<u64>()
        });
        let dropped = told[number]["all_drops"].as_object().expect("drops");
        let dropped: u64 = dropped.values().filter_map(Value::as_u64).sum();
        assert!(sums[0] <= sums[1] + dropped, "{what}: {sums:?}, {dropped}");
    }
    let last = &told[steps.len() - 1];
    if let Some(wanted) = wanted_device_drops(name) {
        assert_eq!(last["drops"], wanted, "{what}: of no ENI");
    }
    for (eni, wanted) in wanted_counters(name) {
        let what = format!("{what}, {eni}");
        check_counters(&wanted, &last["enis"][&eni], &what);
    }
    let enis = last["enis"].as_object().expect("ENIs");
    let received = enis
        .values()
        .map(|eni| eni["SAI_ENI_STAT_RX_PACKETS"].as_u64());
    assert!(
        received.flatten().sum::<u64>() > 0,
        "{what}: no ENI got a packet"
    );
    fast
}

/// Vectors of which no packet stays on the fast path, by their names over IPv4: each packet is a flow of its
/// own, but in `settings`, where segments that open nothing are judged and no flow is made.
const NEVER_FAST: [&str; 13] = [
    "acl",
    "acl_inbound",
    "inner_vlan_passes",
    "mtu",
    "mtu_without_df",
    "outer_vlan",
    "port_map_must_match",
    "private_link_nsg",
    "routes",
    "settings",
    "trusted_vni",
    "tunnel_endpoints",
    "udp_checksums",
];

/// The name of a vector over IPv4.
fn over_v4(name: &str) -> &str {
    match name {
        "over_v6" => name,
        _ => name.trim_end_matches("_over_v6"),
    }
}

#[test]
fn every_vector_passes_on_both_paths_and_on_the_slow_one() {
    let names = names();
    let mut never_fast = BTreeSet::new();
    for name in &names {
        let twin = format!("{}_over_v6", over_v4(name));
        let has_twin = name == "over_v6" || names.contains(&twin);
        assert!(has_twin, "{name} is not there over IPv6");
        let fast = run(name, &["--execution", "virtual"]);
        run(name, &[]);
        let slow = run(name, &["--paths", "slow", "--execution", "virtual"]);
        assert_eq!(slow, 0, "{name}: the oracle has no fast path");
        if fast == 0 {
            never_fast.insert(over_v4(name));
        }
    }
    assert_eq!(never_fast, BTreeSet::from(NEVER_FAST));
}

#[test]
fn a_run_over_another_dpus_packets_says_so() {
    let copy = copied("vnet");
    let config = String::from_utf8(copy.read("0-config.json")).expect("text");
    let mut objects: Value = serde_json::from_str(&config).expect("JSON");
    for object in objects.as_array_mut().expect("a list") {
        for (_, fields) in object.as_object_mut().expect("an entry") {
            if let Some(sip) = fields.get_mut("sip") {
                *sip = "10.99.0.1".into();
            }
        }
    }
    copy.write("other.json", objects.to_string().as_bytes());
    let said = |config: &str| {
        let run = ["run", "dpu.toml", "--dash", config, "--in", "0-in.pcap"];
        copy.run(&[&run[..], &["--no-report"]].concat()).err
    };
    let told = "no packet was for this DPU (dash_vip_miss): its appliance's sip is 10.99.0.1;";
    let other = said("other.json");
    assert!(other.contains(told), "{other}");
    let own = said("0-config.json");
    assert!(!own.contains("no packet was for this DPU"), "{own}");
}

#[test]
fn explain_and_validate_take_another_configuration() {
    let copy = copied("vnet");
    let named = format!("{SERVICE}config = [\"0-config.json\"]\n");
    copy.write("named.toml", named.as_bytes());
    let explained = |words: &[&str]| copy.run(&[&["explain"], words].concat()).out;
    let taken = explained(&["dpu.toml", "--dash", "0-config.json"]);
    assert_eq!(taken, explained(&["named.toml"]));
    assert_ne!(taken, explained(&["dpu.toml"]));
    copy.succeed(&["validate", "dpu.toml", "--dash", "0-config.json"]);
    let wrong = "[\n{\"DASH_VNET_TABLE:v\": {\"vni\": \"x\"}, \"OP\": \"SET\"}]";
    copy.write("wrong.json", wrong.as_bytes());
    let why = "wrong.json:2: DASH_VNET_TABLE:v: vni: ";
    for command in ["explain", "validate"] {
        copy.fail(&[command, "dpu.toml", "--dash", "wrong.json"], why);
    }
}

#[test]
fn what_is_wrong_with_steps_is_told_with_its_place() {
    let folder = Folder::with("dpu.toml", SERVICE);
    for (text, why) in [
        ("[\n  {\"in\": 7}\n]", "steps.json:2:"),
        ("{\"in\": \"a.pcap\"}", "steps.json:1:"),
        (
            "[{\"inn\": \"a.pcap\"}]",
            "unknown field `inn`, expected one of `config`, `in`, `out`",
        ),
        (
            "[{\"config\": 7, \"in\": \"a.pcap\"}]",
            "expected the path of a file of configuration, or a list of such paths",
        ),
        ("[]", "steps.json:1:1: no steps"),
        (
            "[\n  {\"out\": \"b.pcap\"}\n]",
            "steps.json:2:19: a step with `out` and without `in` has no packets to write",
        ),
        ("[{\"in\": \"{prot}.pcap\"}]", "a step's in:"),
        ("[{\"in\": \"{port}.pcap\"}]", "the service names no ports"),
        ("[{\"config\": \"no.json\"}]", "no.json"),
        ("[{\"in\": \"no.pcap\"}]", "no.pcap"),
        (
            "[{\"in\": \"a.pcap\", \"out\": \"dpu.toml\"}]",
            "a file that steps write and a file that steps read",
        ),
        (
            "[{\"in\": \"a.pcap\", \"out\": \"a.pcap\"}]",
            "a file that steps write and a file that steps read",
        ),
    ] {
        folder.write("steps.json", text.as_bytes());
        folder.fail(&["run", "dpu.toml", "--steps", "steps.json"], why);
    }
    let wrong = "[\n{\"DASH_VNET_TABLE:v\": {\"vni\": \"x\"}, \"OP\": \"SET\"}]";
    folder.write("wrong.json", wrong.as_bytes());
    folder.write("steps.json", b"[{\"config\": \"wrong.json\"}]");
    folder.fail(
        &["run", "dpu.toml", "--steps", "steps.json"],
        "wrong.json:2: DASH_VNET_TABLE:v: vni: ",
    );
    folder.write("acl.toml", b"[service]\nchain = [\"acl\"]\n[acl]\n");
    folder.fail(
        &["run", "acl.toml", "--steps", "steps.json"],
        "the service has no DPU",
    );
}

/// A capture for each port is read and written, and the names that they come to are what may not be
/// written twice.
#[test]
fn a_steps_paths_may_stand_for_a_capture_for_each_port() {
    let folder = copied("vnet");
    let service = SERVICE.replace("name = \"dpu\"", "ports = [\"net\"]");
    folder.write("dpu.toml", service.as_bytes());
    let steps = r#"[{"config": "0-config.json", "in": "0-in.pcap", "out": "whole.pcap"}]"#;
    folder.write("steps.json", steps.as_bytes());
    let run = ["run", "dpu.toml", "--steps", "steps.json"];
    folder.succeed(&run);
    let packets = folder.read("0-in.pcap");
    folder.write("in-net.pcap", &packets);
    let of_ports =
        r#"[{"config": "0-config.json", "in": "in-{port}.pcap", "out": "out-{port}.pcap"}]"#;
    folder.write("steps.json", of_ports.as_bytes());
    folder.succeed(&run);
    let [whole, of_port] = ["whole.pcap", "out-net.pcap"].map(|name| {
        let packets = capture(&folder.path(name)).into_iter();
        packets.map(|(_, packet)| packet).collect::<Vec<_>>()
    });
    assert!(!whole.is_empty() && whole == of_port);
    let over_itself = r#"[{"in": "in-{port}.pcap", "out": "in-net.pcap"}]"#;
    folder.write("steps.json", over_itself.as_bytes());
    folder.fail(&run, "a file that steps write and a file that steps read");
}

#[test]
fn a_configuration_on_the_command_line_takes_the_place_of_the_files() {
    let folder = copied("vnet");
    let service = format!("{SERVICE}config = [\"none.json\"]\n");
    folder.write("dpu.toml", service.as_bytes());
    folder.write("none.json", b"[]");
    let run = ["run", "dpu.toml", "--in", "0-in.pcap", "--report", "report"];
    let nothing = [&run[..], &["--out", "nothing.pcap"]].concat();
    folder.succeed(&nothing);
    assert_eq!(folder.report("report").totals.packets_out, 0);
    let said = [&run[..], &["--out", "said.pcap", "--dash", "0-config.json"]].concat();
    let said = folder.succeed(&said);
    assert!(said.out.contains("eni1"), "{}", said.out);
    let report = folder.report("report");
    let dash = report.dash.expect("a DPU");
    let eni = &dash.enis[0];
    assert!(report.totals.packets_out > 0 && eni.outbound.sent_packets > 0);
    let compare = Compare::read(&steps("vnet")[0]);
    let wanted = steps("vnet")[0].join("expected.pcap");
    check_packets(&wanted, &folder.path("said.pcap"), &compare, "vnet");
    folder.fail(
        &[
            "run",
            "dpu.toml",
            "--in",
            "0-in.pcap",
            "--dash",
            "nowhere.json",
        ],
        "nowhere.json",
    );
}

#[test]
fn what_is_wrong_in_a_dpus_table_is_told_with_its_place() {
    let folder = Folder::new();
    let wrong = "[\n{\"DASH_VNET_TABLE:v\": {\"vni\": \"x\"}, \"OP\": \"SET\"},\n{\"DASH_VNETS_TABLE:w\": {}, \"OP\": \"DEL\"}]";
    folder.write("wrong.json", wrong.as_bytes());
    for (table, why) in [
        (
            "config = [\"wrong.json\"]",
            "wrong.json:2: DASH_VNET_TABLE:v: vni: ",
        ),
        // All mistakes, not the first alone.
        (
            "config = [\"wrong.json\"]",
            "wrong.json:3: DASH_VNETS_TABLE:w: ",
        ),
        ("config = [\"no.json\"]", "cannot read"),
        ("flows = 0", "flows = 0 is not from 1 to"),
        ("stray_tcp = \"keep\"", "expected `drop` or `judge`"),
        ("mtu = 99", "mtu = 99 is not from 1280 to 65535"),
    ] {
        let service = format!("[service]\nchain = [\"dash\"]\n[dash]\n{table}\n");
        folder.write("dpu.toml", service.as_bytes());
        folder.fail(&["run", "dpu.toml"], why);
    }
    let both = "[service]\nchain = [\"firewall\", \"dash\"]\n[firewall]\n[dash]\n";
    folder.write("dpu.toml", both.as_bytes());
    folder.fail(&["run", "dpu.toml"], "which is a chain of its own");
}

/// The example, with as much traffic as one asks for.
fn example(packets: &str) -> String {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let text = std::fs::read_to_string(format!("{examples}/dpu.toml")).expect("the example");
    let config = format!("config = [\"{examples}/dpu.json\", \"{examples}/dpu-v6.json\"]");
    let text = text.replace("config = [\"dpu.json\", \"dpu-v6.json\"]", &config);
    text.replace("packets = 200_000\n", packets)
}

/// How long a flow has been idle is told by the clock, while no packet comes.
#[test]
fn idle_flows_are_told_while_nothing_comes() {
    let rare = example("").replace("rate_pps = 40_000", "rate_pps = 0.01");
    let rare = rare.replace("churn_per_minute = 60_000", "churn_per_minute = 0");
    // Of which the first packet opens a flow, which not every seed's does.
    let seed = ["--seed", "2"];
    let running = Running::start_in(Folder::with("edge.toml", &rare), &seed);
    running.ask_until(&["dash", "flows", "--unused", "1s"], |said| {
        said.code == Some(0)
    });
}

#[test]
fn a_running_dpu_is_looked_at_and_changed() {
    let slow = example("").replace("rate_pps = 40_000", "rate_pps = 4_000");
    let endless = slow.replace("churn_per_minute = 60_000", "churn_per_minute = 6_000");
    let running = Running::start_as(&endless);
    let values = |arguments: &[&str]| -> Vec<Value> {
        let all = [arguments, &["--json"]].concat();
        let said = running.ask_until(&all, |said| said.code == Some(0));
        serde_json::from_str(&said.out).expect("JSON")
    };
    let flows = values(&["dash", "flows", "--eni", "blue-1", "--most", "5"]);
    assert!((1..=5).contains(&flows.len()));
    assert!(
        flows.iter().all(|flow| flow["eni"] == "blue-1"),
        "{flows:?}"
    );
    let to_https = [
        "dash",
        "flows",
        "--flow",
        "tcp *:* *:443",
        "--most",
        "20000",
    ];
    let https = values(&to_https);
    let is_https = |flow: &Value| {
        let end = |name: &str| flow[name].as_str().is_some_and(|end| end.ends_with(":443"));
        flow["protocol"] == 6 && (end("source") || end("destination"))
    };
    assert!(https.iter().all(is_https), "{https:?}");
    // Commands for any function know what a DPU is.
    let flows = values(&["flows", "--function", "dash", "--most", "5"]);
    assert!((1..=5).contains(&flows.len()));
    for flow in &flows {
        assert_eq!(
            (&flow["functions"][0], &flow["path"]),
            (&"dash".into(), &"fast".into())
        );
        let state = flow["state"][0][1].as_str().expect("a state");
        assert!(
            state.contains("bound") && state.contains("VXLAN from"),
            "{flow}"
        );
    }
    let counters = values(&["counters"]);
    let is_told = |text: &str| counters.iter().any(|one| one["text"] == text);
    assert!(is_told("ENI blue-1: outbound, left"), "{counters:?}");
    let page = running.ask(&["top", "--once", "--every", "100ms"]);
    for told in ["  DPU    6 ENIs, ", "  ENI blue-1 ", "  dash           "] {
        assert!(page.out.contains(told), "{told}: {}", page.out);
    }
    let rules = running.ask(&["rules"]);
    assert!(rules.out.contains("`twinpath flows` shows"), "{rules:?}");
    let none = running.ask(&["dash", "flows", "--unused", "1h"]);
    assert_eq!((none.code, none.out.as_str()), (Some(1), "0 flows\n"));
    for asked in ["flows", "enis", "counters", "meters"] {
        let said = running.ask(&["dash", asked, "--eni", "nope"]);
        assert_eq!(said.code, Some(2), "{asked}: {said:?}");
        assert!(said.err.contains("no ENI \"nope\""), "{asked}: {said:?}");
    }
    let said = running.ask(&["dash", "flows", "--address", "10.0.0.0/24"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let hint = "expected an address; `flows` takes networks as --flow \"any 10.0.0.0/24 *\"";
    assert!(said.err.contains(hint), "{said:?}");
    let some = ["dash", "flows", "--flow", "any 10.0.0.0/8 *", "--most", "5"];
    running.ask_until(&some, |said| said.code == Some(0));
    // Programs get what is done to packets part by part.
    let some = values(&[
        "dash",
        "flows",
        "--flow",
        "any 10.0.0.0/8 *",
        "--most",
        "50",
    ]);
    let tunnels = some
        .iter()
        .flat_map(|flow| flow["action"]["tunnels"].as_array());
    let mut tunnels = tunnels.flatten();
    let is_told = |tunnel: &Value| tunnel["encapsulation"] == "VXLAN" && tunnel["key"].is_u64();
    assert!(tunnels.any(is_told), "{some:?}");
    // Of UDP it is known that it is there.
    let udp = values(&["dash", "flows", "--flow", "udp * *", "--most", "5"]);
    assert!(udp.iter().all(|flow| flow["state"] == "open"), "{udp:?}");
    let said = running.ask(&["dash", "flows", "--most", "5"]);
    assert!(
        said.out.contains(" s\n") || said.out.contains("ms\n"),
        "{said:?}"
    );
    let said = running.ask(&["dash", "counters"]);
    assert!(said.out.contains("\npackets of no ENI: "), "{said:?}");
    let said = running.ask(&["dash", "enis"]);
    assert!(said.out.contains(" resimulated "), "{said:?}");
    let enis = values(&["dash", "enis"]);
    assert_eq!(enis.len(), 6);
    let said = running.ask(&["dash", "counters", "--eni", "red-2"]);
    assert!(
        said.out.contains("SAI_ENI_STAT_OUTBOUND_TX_PACKETS"),
        "{said:?}"
    );
    let metered = values(&["dash", "meters", "--class", "1"]);
    assert!(
        metered.iter().all(|meter| meter["class"] == 1),
        "{metered:?}"
    );
    // A port is closed while connections to it are open.
    let deny = r#"[{"DASH_ACL_RULE_TABLE:out:3": {"priority": 5, "action": "deny", "terminating": true, "dst_port": "443"}, "OP": "SET"}]"#;
    running.folder.write("deny.json", deny.as_bytes());
    let said = running.ask(&["dash", "apply", "deny.json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.starts_with("changed: dash; "), "{said:?}");
    // A DPU has flows, and no cached rules.
    let told =
        " went on: those that it touches are judged anew with their next packet; packets waited";
    assert!(
        said.out.contains(told) && !said.out.contains("rule"),
        "{said:?}"
    );
    let said = running.ask(&["dash", "meters", "--class", "foo"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let expected = "expected the number of a metering class, such as 1";
    assert!(said.err.contains(expected), "{said:?}");
    // What cannot change is named, with its place.
    let other = endless
        .replace("flows = 100_000", "flows = 100_001")
        .replace("mtu = 9_100", "mtu = 9_000");
    running.folder.write("other.toml", other.as_bytes());
    let said = running.ask(&["apply", "other.toml"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let line = 1 + other
        .lines()
        .position(|line| line.starts_with("flows = 100_001"))
        .expect("there");
    let why = format!(
        "other.toml:{line}:1: dash: flows, mtu differ from the running service's: expected the same"
    );
    assert!(said.err.contains(&why), "{why}: {said:?}");
    let denied = |said: &crate::folder::Said| said.out.contains("dropped (acl_outbound)");
    running.ask_until(&["dash", "counters"], denied);
    let rejudged = |said: &crate::folder::Said| {
        said.out
            .contains("SAI_ENI_STAT_FLOW_UPDATED_BY_RESIMULATION")
            && said.out.contains("SAI_ENI_STAT_FLOW_DELETED")
    };
    running.ask_until(&["dash", "counters"], rejudged);
    running.folder.write(
        "wrong.json",
        b"[\n{\"DASH_VNET_TABLE:v\": {}, \"OP\": \"SET\"},\n{\"DASH_NET_TABLE:w\": {}, \"OP\": \"DEL\"}]",
    );
    // All mistakes, not the first alone.
    let said = running.ask(&["dash", "apply", "wrong.json"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    for mistake in [
        "wrong.json:2: DASH_VNET_TABLE:v: ",
        "wrong.json:3: DASH_NET_TABLE:w: ",
    ] {
        assert!(said.err.contains(mistake), "{said:?}");
    }
    // What has to wait is told.
    let waits = r#"[{"DASH_ROUTE_TABLE:none:10.9.0.0/16": {"action_type": "drop"}, "OP": "SET"}]"#;
    running.folder.write("waits.json", waits.as_bytes());
    let said = running.ask(&["dash", "apply", "waits.json"]);
    assert!(
        said.out
            .contains("\nwaits: DASH_ROUTE_TABLE:none:10.9.0.0/16: "),
        "{said:?}"
    );
    // What is not there to be deleted, and what will not work, are warnings.
    let doubtful = r#"[{"DASH_ENI_TABLE:nope": {}, "OP": "DEL"}, {"DASH_ROUTING_TYPE_TABLE:direct": {"items": [{"action_name": "a", "action_type": "drop"}]}, "OP": "SET"}]"#;
    running.folder.write("doubtful.json", doubtful.as_bytes());
    let said = running.ask(&["dash", "apply", "doubtful.json"]);
    for warning in [
        "warning: DASH_ENI_TABLE:nope: deleted, and not there",
        "warning: DASH_ROUTING_TYPE_TABLE:direct: items: drop has no effect here",
    ] {
        assert!(said.err.contains(warning), "{said:?}");
    }
    // So is what is to be deleted, with what it waits for.
    let delete = br#"[{"DASH_VNET_TABLE:blue": {}, "OP": "DEL"}]"#;
    running.folder.write("delete.json", delete);
    let said = running.ask(&["dash", "apply", "delete.json"]);
    assert!(said.out.starts_with("nothing changes now\n"), "{said:?}");
    let waits = "\nwaits: DASH_VNET_TABLE:blue: deleted once nothing refers to it; DASH_ROUTE_TABLE:blue-routes:10.0.0.0/16, ";
    assert!(said.out.contains(waits), "{said:?}");
    // The service file says what it was, and nothing waits any more.
    let said = running.ask(&["apply", "edge.toml"]);
    assert!(said.out.starts_with("changed: dash; "), "{said:?}");
    for forgotten in [
        "\nforgotten: DASH_ROUTE_TABLE:none:10.9.0.0/16: waited, and the service file does not say it\n",
        "\nforgotten: DASH_VNET_TABLE:blue: was to be deleted, and the service file says it\n",
    ] {
        assert!(said.out.contains(forgotten), "{said:?}");
    }
    let said = running.ask(&["apply", "edge.toml"]);
    assert_eq!(said.out, "nothing to change\n");
    let folder = running.stop();
    let report = folder.report("r");
    // How long it ran, and so the share of connections that go on, depends on the host.
    assert!(report.fast.packets > 50, "{:?}", report.fast);
}

/// A service with these objects, a file of the examples' if they are none, and generated packets.
fn generating(objects: Option<&str>) -> Folder {
    let config = match objects {
        Some(_) => "own.json".into(),
        None => format!("{}/../../examples/dpu.json", env!("CARGO_MANIFEST_DIR")),
    };
    let service = format!(
        "{SERVICE}config = [{config:?}]\n[traffic]\npackets = 3000\nflows = 200\ntcp_share = 0.6\n\
         fragment_share = 0.05\nicmp_error_share = 0.05\n\
         tcp = {{ out_of_order_share = 0.01, reset_share = 0.05 }}\n\
         hosts = {{ clients = 1, ipv6_share = 0.4 }}\n"
    );
    let folder = Folder::with("dpu.toml", &service);
    folder.write("own.json", objects.unwrap_or("[]").as_bytes());
    folder
}

/// What waits, and what will not work, is told as `dash check` tells it, with its line of its own file.
#[test]
fn what_waits_and_warnings_are_told_at_their_lines() {
    let folder = Folder::with("dpu.toml", &format!("{SERVICE}config = [\"a.json\"]\n"));
    folder.write(
        "a.json",
        br#"[{"DASH_VNET_TABLE:blue": {"vni": 1001}, "OP": "SET"},
{"DASH_ENI_TABLE:one": {"mac_address": "02:00:00:00:00:01", "vnet": "red"}, "OP": "SET"},
{"DASH_ENI_ROUTE_TABLE:one": {"group_id": "g"}, "OP": "SET"},
{"DASH_ROUTE_GROUP_TABLE:g": {}, "OP": "SET"},
{"DASH_VNET_TABLE:green": {"vni": 1001}, "OP": "SET"}]"#,
    );
    let told = [
        "a.json:2: DASH_ENI_TABLE:one: vnet: waits for DASH_VNET_TABLE:red, which is not there\n",
        "a.json:3: DASH_ENI_ROUTE_TABLE:one: key: waits for DASH_ENI_TABLE:one, which waits, too\n",
        "a.json:5: DASH_VNET_TABLE:green: vni: DASH_VNET_TABLE:blue has it, too",
    ];
    let said = folder.succeed(&["validate", "dpu.toml"]);
    let checked = folder.run(&["dash", "check", "a.json"]);
    for line in told {
        assert!(said.err.contains(line), "{line} in {said:?}");
        let all = format!("{}{}", checked.out, checked.err);
        assert!(
            all.contains(line.trim_end_matches('\n')),
            "{line} in {checked:?}"
        );
    }
    let json = folder.succeed(&["validate", "dpu.toml", "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    let lines = json["warnings"].as_array().expect("a list").iter();
    let lines = lines.filter(|warning| {
        let file = warning["file"].as_str().expect("a path");
        file.ends_with("a.json")
    });
    let lines: Vec<_> = lines
        .filter_map(|warning| warning["line"].as_u64())
        .collect();
    assert_eq!(lines, [2, 3, 5]);
}

/// As on the command line; and a mistake is told at the text that names its folder.
#[test]
fn a_folder_stands_for_its_files_in_a_dpus_table() {
    let service =
        |folder: &str| format!("{SERVICE}config = [\"{folder}\"]\n[traffic]\npackets = 10\n");
    let folder = Folder::with("dpu.toml", &service("dpu0"));
    let fail = |why: &str| folder.fail(&["run", "dpu.toml", "--no-report"], why);
    fail("dpu0");
    std::fs::create_dir(folder.path("dpu0")).expect("a folder");
    folder.write("dpu0/readme.txt", b"no JSON");
    fail("expected a file, or a folder with files whose names end with .json; there is none in it");
    let examples = format!("{}/../../examples", env!("CARGO_MANIFEST_DIR"));
    for name in ["dpu.json", "dpu-v6.json"] {
        let bytes = std::fs::read(format!("{examples}/{name}")).expect("an example");
        folder.write(&format!("dpu0/{name}"), &bytes);
    }
    for named in ["dpu0", "dpu0/"] {
        folder.write("dpu.toml", service(named).as_bytes());
        let said = folder.succeed(&["validate", "dpu.toml"]);
        assert!(said.out.contains("nothing is wrong"), "{said:?}");
        assert!(!said.err.contains("wait"), "{said:?}");
    }
    folder.write(
        "dpu0/z.json",
        b"[\n{\"DASH_VNET_TABLE:v\": {}, \"OP\": \"SET\"}]",
    );
    let said = fail("dpu.toml:6:");
    assert!(
        said.err.contains("dpu0/z.json:2: DASH_VNET_TABLE:v: "),
        "{said:?}"
    );
}

/// Where machines talk over IPv4 alone all flows are of it, and none is left out.
#[test]
fn as_many_packets_are_generated_for_a_dpu_as_are_asked_for() {
    let folder = generating(None);
    let told = "no ENI can send over IPv6: all generated flows are of IPv4";
    let out = ["--packets", "1000", "--out", "s.pcap"];
    let said = folder.succeed(&[&["generate", "--service", "dpu.toml"][..], &out].concat());
    assert!(said.out.starts_with("s.pcap: 1,000 packets, "), "{said:?}");
    assert!(said.err.contains(told), "{said:?}");
    assert_eq!(capture(&folder.path("s.pcap")).len(), 1000);
    let said = folder.succeed(&["validate", "dpu.toml"]);
    assert!(said.err.contains(told), "{said:?}");
    assert!(said.out.contains("nothing is wrong, 1 warning"), "{said:?}");
    let run = ["--execution", "virtual", "--report", "r"];
    let said = folder.succeed(&[&["run", "dpu.toml"][..], &run].concat());
    assert!(said.err.contains(told), "{said:?}");
    let report: Value = serde_json::from_slice(&folder.read("r/report.json")).expect("JSON");
    assert_eq!(report["totals"]["packets_in"], 3000);
}

/// Packets are in no tunnels then, and dropped: what is missing is told.
#[test]
fn a_dpu_of_which_no_eni_can_send_is_told_what_it_lacks() {
    let objects = [
        r#"{"DASH_APPLIANCE_TABLE:a": {"sip": "10.1.0.5", "vm_vni": 2001}, "OP": "SET"}"#,
        r#"{"DASH_VNET_TABLE:blue": {"vni": 1001, "guid": "1f29fb80-265b-2e63-4d03-c0a3f41cd99e"}, "OP": "SET"}"#,
        r#"{"DASH_ENI_TABLE:eni1": {"eni_id": "eni1", "mac_address": "02:00:00:00:01:01", "vnet": "blue", "underlay_ip": "20.0.1.1", "admin_state": "enabled"}, "OP": "SET"}"#,
        r#"{"DASH_VNET_MAPPING_TABLE:blue:10.0.0.1": {"routing_type": "vnet_encap", "underlay_ip": "20.0.1.1", "mac_address": "02:00:00:00:01:01"}, "OP": "SET"}"#,
        r#"{"DASH_ROUTE_GROUP_TABLE:g": {"guid": "g", "version": "1"}, "OP": "SET"}"#,
        r#"{"DASH_ROUTE_TABLE:g:10.0.0.0/16": {"routing_type": "vnet", "vnet": "blue"}, "OP": "SET"}"#,
        r#"{"DASH_ENI_ROUTE_TABLE:eni1": {"group_id": "g"}, "OP": "SET"}"#,
        r#"{"DASH_VNET_MAPPING_TABLE:blue:10.0.0.2": {"routing_type": "vnet_encap", "underlay_ip": "20.0.1.2"}, "OP": "SET"}"#,
    ];
    let types = r#"{"DASH_ROUTING_TYPE_TABLE:vnet": {"action_name": "look", "action_type": "maprouting"}, "OP": "SET"}, {"DASH_ROUTING_TYPE_TABLE:vnet_encap": {"action_name": "tunnel", "action_type": "staticencap", "encap_type": "vxlan"}, "OP": "SET"}"#;
    let with = |count: usize| {
        let some = [&[types], &objects[..count]].concat().join(",\n");
        generating(Some(&format!("[{some}]")))
    };
    for (count, lack) in [
        (0, "DASH_APPLIANCE_TABLE says no sip"),
        (2, "there is none"),
        (
            3,
            "eni1 has its MAC address 02:00:00:00:01:01 in no mapping of its network blue",
        ),
        (4, "eni1 has no group of routes"),
        (7, "eni1 has no route to a network with mappings of others"),
    ] {
        let folder = with(count);
        let told = format!(
            "no ENI can send generated packets, so that they come in no tunnel and are dropped: {lack}\n"
        );
        let said = folder.succeed(&["validate", "dpu.toml"]);
        assert!(said.err.contains(&told), "{said:?}");
        let run = ["--execution", "virtual", "--no-report"];
        let said = folder.succeed(&[&["run", "dpu.toml"][..], &run].concat());
        assert!(said.err.contains(&told), "{said:?}");
    }
    let said = with(objects.len()).succeed(&["validate", "dpu.toml"]);
    assert!(!said.err.contains("no ENI can send generated"), "{said:?}");
}

#[test]
fn a_dpu_is_explained() {
    let folder = Folder::with("dpu.toml", &example(""));
    let said = folder.succeed(&["explain", "dpu.toml"]);
    for told in [
        "it is a DPU, with room for 100,000 flows",
        "A DPU of 6 ENIs",
        "0 waiting",
        "kept as flows",
        "access lists, routes, mappings",
    ] {
        assert!(said.out.contains(told), "{told:?} in {}", said.out);
    }
}

/// What is to be deleted and is still referred to is told as what waits is.
#[test]
fn steps_tell_of_deletions_that_wait() {
    let folder = copied("acl");
    folder.write("dpu.toml", SERVICE.as_bytes());
    let deletion = br#"[{"DASH_VNET_TABLE:Vnet1": {}, "OP": "DEL"}]"#;
    folder.write("delete.json", deletion);
    let list = br#"[{"config": "0-config.json"}, {"config": "delete.json"}]"#;
    folder.write("steps.json", list);
    let words = ["--steps", "steps.json", "--counters", "told.json"];
    let said = folder.succeed(&[&["run", "dpu.toml"][..], &words].concat());
    let told: Value = serde_json::from_slice(&folder.read("told.json")).expect("JSON");
    let waits = "DASH_VNET_TABLE:Vnet1: deleted once nothing refers to it";
    assert_eq!(told[1]["waiting"], Value::from(vec![waits]), "{said:?}");
    assert_eq!(told[0]["waiting"], Value::Array(Vec::new()));
}

/// The bytes that are told are those of the frames that are written, tunnels and all.
#[test]
fn generated_bytes_are_those_of_the_frames() {
    let folder = generating(None);
    let words = [
        "--service",
        "dpu.toml",
        "--packets",
        "50",
        "--out",
        "g.pcap",
    ];
    let said = folder.succeed(&[&["generate"][..], &words].concat());
    let bytes = folder.read("g.pcap").len() - 24 - 50 * 16;
    let told = format!("50 packets, {} in frames", units::bytes(bytes as u64));
    let all = format!("{}{}", said.out, said.err);
    assert!(all.contains(&told), "{told}: {all}");
}
