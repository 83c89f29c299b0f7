//! The zero-loss test of DASH's paper in small, in real time: connections that stay open while others come and
//! go at half of what the machine can open, and policies change; nothing is lost and no connection broken. `cargo
//! xtask record zero-loss MINUTES` runs it, and keeps its figures.

use crate::folder::Folder;
use crate::operator::Running;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use twinpath_control::report::Report;

/// How many minutes it takes, if somebody wants other than two.
const MINUTES: &str = "TWINPATH_ZERO_LOSS_MINUTES";
/// The folder to which the page is written, if somebody wants it.
const OUT: &str = "TWINPATH_MEASURED_OUT";

/// ENIs, each in a network of its own.
const ENIS: u32 = 8;
/// Whom each ENI's machine talks to, in each IP version.
const PEERS: u32 = 200;
/// Access lists for each direction and IP version, and their rules.
const LISTS: u32 = 5;
const RULES: u32 = 1_000;
/// Connections that stay, and all that are open at a time.
const LASTING: u64 = 5_000;
const OPEN: u64 = 15_000;
/// Packets to each connection that is opened: six of its own, as a short TCP connection has, and three of
/// those that stay.
const PACKETS_EACH: f64 = 9.0;
/// Packets by which the machine's rate is found.
const MEASURED: u64 = 1_000_000;
/// Between two changes of policy.
const CHANGE_EVERY: Duration = Duration::from_secs(2);

/// An object that is set; its fields are JSON.
fn item(table: &str, key: &str, fields: &str) -> String {
    format!(r#"{{"DASH_{table}_TABLE:{key}": {{{fields}}}, "OP": "SET"}}"#)
}

fn mapping(eni: u32, address: &str, more: &str) -> String {
    let fields = format!(r#""routing_type": "vnet_encap", {more}"#);
    item("VNET_MAPPING", &format!("net{eni}:{address}"), &fields)
}

/// Where peers are: they move with each change.
fn mappings(change: u32) -> Vec<String> {
    let peers = (0..ENIS).flat_map(|eni| (1..=PEERS).map(move |peer| (eni, peer)));
    let addresses = |peer: u32| [format!("10.2.0.{peer}"), format!("fd02::{peer:x}")];
    peers
        .flat_map(|(eni, peer)| addresses(peer).map(|address| (eni, peer, address)))
        .map(|(eni, peer, address)| {
            let host = format!(r#""underlay_ip": "100.{}.0.{peer}""#, change % 200);
            mapping(eni, &address, &host)
        })
        .collect()
}

/// Lists of an IP version, each of which has denials that nothing meets, and then lets all pass. What is denied
/// is something else with each change.
fn lists(version: u32, change: u32) -> Vec<String> {
    let group = |list: u32| {
        let name = format!("list{version}-{list}");
        let of_version = format!(r#""ip_version": "ipv{version}""#);
        let rule = |number: u32| {
            let nobody = match version {
                4 => format!("172.{}.{}.0/24", 16 + number / 256, number % 256),
                _ => format!("fd99:{number:x}::/64"),
            };
            let port = 1 + change % 1_000;
            let fields = format!(
                r#""priority": {number}, "action": "deny", "terminating": true, "src_addr": "{nobody}", "dst_port": "{port}""#
            );
            item("ACL_RULE", &format!("{name}:{number}"), &fields)
        };
        let passes = r#""priority": 10000, "action": "allow", "terminating": false"#;
        let first = [item("ACL_GROUP", &name, &of_version)];
        let last = [item("ACL_RULE", &format!("{name}:all"), passes)];
        let rules: Vec<_> = (1..=RULES).map(rule).collect();
        [&first[..], &rules, &last].concat()
    };
    (1..=LISTS).flat_map(group).collect()
}

/// What changes: every peer moves, and every rule is another one.
fn change(number: u32) -> Vec<String> {
    [mappings(number), lists(4, number), lists(6, number)].concat()
}

fn eni(number: u32) -> Vec<String> {
    let (name, net, group) = (
        format!("eni{number}"),
        format!("net{number}"),
        format!("group{number}"),
    );
    let (mac, host, vni) = (
        format!("02:00:00:00:05:{number:02x}"),
        format!("25.1.1.{}", number + 1),
        1000 + number,
    );
    let route = |prefix: &str| {
        let fields = format!(r#""routing_type": "vnet", "vnet": "{net}""#);
        item("ROUTE", &format!("{group}:{prefix}"), &fields)
    };
    let own = format!(r#""underlay_ip": "{host}", "mac_address": "{mac}""#);
    let mut all = vec![
        item("VNET", &net, &format!(r#""vni": {vni}"#)),
        item(
            "ENI",
            &name,
            &format!(
                r#""eni_id": "{name}", "mac_address": "{mac}", "underlay_ip": "{host}",
                   "admin_state": "enabled", "vnet": "{net}""#
            ),
        ),
        item("ROUTE_GROUP", &group, r#""guid": "routes""#),
        route("10.2.0.0/16"),
        route("fd02::/64"),
        item("ENI_ROUTE", &name, &format!(r#""group_id": "{group}""#)),
        item(
            "ROUTE_RULE",
            &format!("{name}:{vni}:100.0.0.0/8"),
            r#""action_type": "decap", "priority": 1, "pa_validation": false"#,
        ),
        mapping(number, "10.0.0.7", &own),
        mapping(number, "fd01::7", &own),
    ];
    for list in 1..=LISTS {
        let groups =
            format!(r#""v4_acl_group_id": "list4-{list}", "v6_acl_group_id": "list6-{list}""#);
        for direction in ["ACL_IN", "ACL_OUT"] {
            all.push(item(direction, &format!("{name}:{list}"), &groups));
        }
    }
    all
}

fn written(items: &[String]) -> Vec<u8> {
    format!("[{}]", items.join(",\n")).into_bytes()
}

fn configuration() -> Vec<u8> {
    let encap = r#""action_name": "a", "action_type": "staticencap", "encap_type": "vxlan""#;
    let first = [
        item("APPLIANCE", "1", r#""sip": "10.1.0.5", "vm_vni": 2001"#),
        item("ROUTING_TYPE", "vnet_encap", encap),
    ];
    let enis: Vec<_> = (0..ENIS).flat_map(eni).collect();
    written(&[&first[..], &lists(4, 0), &lists(6, 0), &enis, &mappings(0)].concat())
}

/// A DPU whose traffic comes at a rate, or as fast as it takes it.
fn service(pace: &str, packets: Option<u64>, rate: f64) -> String {
    let packets = packets.map_or_else(String::new, |count| format!("packets = {count}\n"));
    let churn = rate / PACKETS_EACH * 60.0;
    format!(
        "[service]\nname = \"dpu\"\nchain = [\"dash\"]\n\
         [dash]\nconfig = [\"config.json\"]\nflows = 1_000_000\nmtu = 9_100\n\
         [run]\npace = \"{pace}\"\n\
         [traffic]\n{packets}arrivals = {{ process = \"constant\", rate_pps = {rate:.1} }}\n\
         flows = {OPEN}\nlasting_flows = {LASTING}\nchurn_per_minute = {churn:.1}\n\
         popularity = {{ distribution = \"uniform\" }}\ntcp_share = 0.7\n\
         packet_size = {{ kind = \"fixed\", frame_bytes = 128 }}\nmtu_bytes = 1450\n\
         [traffic.hosts]\nclients = 1\nipv6_share = 0.3\nserver_ports = [80, 443, 5000]\n"
    )
}

fn folder(service: &str) -> Folder {
    let folder = Folder::with("edge.toml", service);
    folder.write("config.json", &configuration());
    folder
}

fn opened(report: &Report) -> u64 {
    let dash = report.dash.as_ref().expect("a DPU");
    dash.enis.iter().map(|eni| eni.flows_created).sum()
}

/// Packets that the machine passes in a second, and connections that it opens then.
fn rate() -> (f64, f64) {
    let folder = folder(&service("lossless", Some(MEASURED), 1e6));
    folder.succeed(&["run", "edge.toml", "--report", "r"]);
    let report = folder.report("r");
    let seconds = report.run.duration_wall_ns as f64 / 1e9;
    assert_eq!(report.totals.packets_out, MEASURED, "{:?}", report.drops);
    (MEASURED as f64 / seconds, opened(&report) as f64 / seconds)
}

#[test]
#[ignore = "takes two minutes, or as long as somebody says, of the whole machine"]
fn nothing_is_lost_while_policies_change() {
    let minutes = std::env::var(MINUTES).ok();
    let minutes = minutes.and_then(|minutes| minutes.parse().ok());
    let time = Duration::from_secs_f64(60.0 * minutes.unwrap_or(2.0));
    let (packets_a_second, opens_a_second) = rate();
    println!("{packets_a_second:.0} packets and {opens_a_second:.0} connections a second");
    let folder = folder(&service("live", None, packets_a_second / 2.0));
    for number in 0..2 {
        folder.write(
            &format!("change{number}.json"),
            &written(&change(number + 1)),
        );
    }
    let running = Running::start_in(folder, &[]);
    let is_there = |said: &crate::folder::Said| said.code == Some(0);
    running.ask_until(&["dash", "enis"], is_there);
    let (began, mut changes) = (Instant::now(), 0);
    while began.elapsed() < time {
        std::thread::sleep(CHANGE_EVERY);
        let file = format!("change{}.json", changes % 2);
        let said = running.ask(&["dash", "apply", &file]);
        assert!(said.out.starts_with("changed: dash"), "{said:?}");
        changes += 1;
    }
    let seconds = began.elapsed().as_secs_f64();
    let report = running.stop().report("r");
    let page = page(
        &report,
        [packets_a_second, opens_a_second],
        seconds,
        changes,
    );
    println!("{page}");
    if let Some(folder) = std::env::var_os(OUT).map(PathBuf::from) {
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("zero_loss.md"), page).expect("it can be written");
    }
    let rejudged = |dash: &twinpath_control::report::Dash| {
        let flows = dash.enis.iter().map(|eni| eni.flows_resimulated);
        flows.sum::<u64>()
    };
    let judged_anew = report.dash.as_ref().map_or(0, rejudged);
    let least = LASTING * u64::from(changes.saturating_sub(1));
    assert!(
        judged_anew >= least,
        "{judged_anew} of {least}: each change meets each that stays"
    );
    assert!(report.drops.is_empty(), "{:?}", report.drops);
    assert_eq!(report.totals.packets_out, report.totals.packets_in);
}

fn page(report: &Report, [packets, opens]: [f64; 2], seconds: f64, changes: u32) -> String {
    let mut text = format!(
        "A DPU of {ENIS} ENIs, {LISTS} access lists of {RULES} rules for each packet that opens a connection, both \
         IP versions, on both paths with threads. Of {OPEN} connections {LASTING} stay open. Packets and new connections \
         come at half of what it takes where nothing is waited for (with the generator on the same machine), and all \
         {} mappings of peers and all rules change {} s after the change before is there.\n\n| | |\n|---|---|\n",
        mappings(0).len(),
        CHANGE_EVERY.as_secs()
    );
    let totals = &report.totals;
    let lost: u64 = report.drops.values().sum();
    for (name, value) in [
        (
            "passed where nothing is waited for",
            format!("{packets:.0} packets/s, {opens:.0} connections/s"),
        ),
        ("time", format!("{seconds:.0} s")),
        ("came", format!("{} packets", totals.packets_in)),
        ("left", format!("{} packets", totals.packets_out)),
        ("connections opened", opened(report).to_string()),
        ("changes of policy", changes.to_string()),
        ("dropped", lost.to_string()),
        (
            "on the fast path alone",
            format!(
                "{:.1} %",
                100.0 * report.fast.packets as f64 / totals.packets_in.max(1) as f64
            ),
        ),
    ] {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    text
}
