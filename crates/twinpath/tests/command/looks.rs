//! `twinpath flows`, `bindings`, `backends` and `counters`, against a service that runs.

use crate::folder::Folder;
use crate::operator::Running;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

const GATEWAY: &str = "[service]\nname = \"gateway\"\nchain = [\"acl\", \"firewall\", \"napt\", \"monitor\"]\n\
    inside = [\"10.0.0.0/8\"]\n\
    [acl]\ndefault = \"allow\"\nrules = [\n\
    { action = \"deny\", protocol = \"icmp\" },\n{ action = \"allow\", from = \"10.0.0.0/8\" },\n]\n\
    [firewall]\ndefault = \"allow\"\n\
    [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n\
    [rule_cache]\nwindow = \"50ms\"\nthreshold = 0\n\
    [traffic]\nflows = 20\narrivals = { process = \"poisson\", rate_pps = 5000.0 }\n";

const BALANCED: &str = "[service]\nname = \"edge\"\nchain = [\"load_balancer\"]\n\
    [[load_balancer.services]]\nvip = \"192.0.2.1:80\"\nprotocol = \"tcp\"\n\
    backends = [{ endpoint = \"10.1.0.2:8080\" }, { endpoint = \"10.1.0.3:8080\" }]\n\
    [traffic]\nflows = 20\narrivals = { process = \"poisson\", rate_pps = 2000.0 }\n\
    [traffic.hosts]\nservices = [{ address = \"192.0.2.1\", port = 80, protocol = \"tcp\" }]\n";

fn json(running: &Running, arguments: &[&str]) -> Vec<Value> {
    let all = [arguments, &["--json"]].concat();
    let said = running.ask_until(&all, |said| said.code == Some(0));
    serde_json::from_str(&said.out).expect("JSON")
}

#[test]
fn flows_are_shown_with_their_path_and_state() {
    let running = Running::start_as(GATEWAY);
    let on_the_fast_path = ["flows", "--function", "firewall"];
    running.ask_until(&on_the_fast_path, |said| said.out.contains("fast path"));
    let flows = json(&running, &on_the_fast_path);
    assert!(flows.len() <= 20 && !flows.is_empty());
    for flow in &flows {
        assert_eq!(flow["functions"][0], "firewall");
        assert_eq!(flow["state"][0][0], "firewall", "{flow}");
        assert!(flow["unused_ns"].as_u64().is_some(), "{flow}");
    }
    // Of the same packets, behind the translation.
    let counted = json(
        &running,
        &[
            "flows",
            "--function",
            "monitor",
            "--address",
            "198.51.100.1",
        ],
    );
    let packets = |flow: &Value| flow["packets"].as_u64().expect("counted");
    assert!(counted.iter().map(packets).sum::<u64>() > 0);
    assert!(counted.iter().all(|flow| flow["path"].is_null()));
    // One of them, by its ends.
    let end = flows[0]["ends"][0].as_str().expect("an endpoint");
    let (address, port) = end.rsplit_once(':').expect("address and port");
    let one = json(
        &running,
        &[
            "flows",
            "--address",
            address,
            "--port",
            port,
            "--function",
            "firewall",
        ],
    );
    assert!(
        one.iter()
            .all(|flow| flow["ends"].to_string().contains(end))
    );
    let most = running.ask(&["flows", "--most", "1"]);
    assert!(
        most.out.ends_with("1 flow, and there are more\n"),
        "{most:?}"
    );
    // There are more, as was asked for: that is nothing to warn of.
    let largest = running.ask(&["flows", "--function", "monitor", "--largest", "1"]);
    assert!(
        largest.out.ends_with("1 flow, and there are more\n"),
        "{largest:?}"
    );
    assert!(!largest.err.contains("warning"), "{largest:?}");
    let backends = running.ask(&["backends"]);
    let none = "0 backends: no load balancer in this chain has any\n";
    assert_eq!((backends.code, backends.out.as_str()), (Some(1), none));
    let nothing = running.ask(&["flows", "--address", "203.0.113.99"]);
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(1), "0 flows\n"));
    let wrong = running.ask(&["flows", "--function", "fire"]);
    assert!(
        wrong
            .err
            .contains("expected a function of the chain: acl, firewall, napt, monitor")
    );
    running.stop();
}

/// The environment names the socket where nobody says it.
#[test]
fn the_socket_may_be_named_by_the_environment() {
    let running = Running::start_as(BALANCED);
    let ask = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twinpath"));
        command.arg("bindings").current_dir(running.folder.path(""));
        command.envs(variables.iter().copied());
        command.output().expect("it is there")
    };
    running.ask_until(&["bindings"], |said| said.code == Some(1));
    let unnamed = ask(&[]);
    assert_eq!(unnamed.status.code(), Some(2), "{unnamed:?}");
    let said = ask(&[("TWINPATH_CONTROL", "edge.sock")]);
    let none = "0 bindings: no translation in this chain has any\n";
    assert_eq!(String::from_utf8_lossy(&said.stdout), none, "{said:?}");
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    running.stop();
}

#[test]
fn bindings_tell_who_was_behind_an_address() {
    let running = Running::start_as(GATEWAY);
    let bindings = json(&running, &["bindings"]);
    let external = bindings[0]["external"].as_str().expect("an endpoint");
    assert!(external.starts_with("198.51.100.1:"), "{external}");
    let port = external.rsplit(':').next().expect("a port");
    let found = json(
        &running,
        &["bindings", "--address", "198.51.100.1", "--port", port],
    );
    assert!(
        found
            .iter()
            .any(|one| one["internal"] == bindings[0]["internal"])
    );
    running.stop();
}

/// Packets that cached rules handled count too.
#[test]
fn counters_are_those_of_both_paths() {
    let running = Running::start_as(GATEWAY);
    let counted = |wanted: u64| {
        let enough = move |said: &crate::folder::Said| {
            let rules: Result<Vec<Value>, _> = serde_json::from_str(&said.out);
            let rules = rules.unwrap_or_default();
            rules.len() == 3
                && rules[1]["packets"]
                    .as_u64()
                    .is_some_and(|hits| hits > wanted)
        };
        let said = running.ask_until(&["counters", "--function", "acl", "--json"], enough);
        serde_json::from_str::<Vec<Value>>(&said.out).expect("JSON")
    };
    let rules = counted(1000);
    assert_eq!(
        (&rules[0]["packets"], &rules[0]["rule"]),
        (&0.into(), &1.into())
    );
    assert!(
        rules[2]["text"]
            .as_str()
            .is_some_and(|text| text.contains("default"))
    );
    let folder = running.stop();
    let report = folder.report("r");
    let acl = &report.functions[0].counters;
    assert!(acl["allowed"] >= 1000);
    assert!(
        report.rules.elements[0].counts.table.hits > 0,
        "some on the fast path"
    );
}

/// Of a firewall those packets count that open a connection or are denied, on all workers.
#[test]
fn rules_of_a_firewall_count_what_they_decide() {
    let service = "[service]\nchain = [\"firewall\"]\n\
        [firewall]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"icmp\" }]\n\
        [slow_path]\nworkers = 2\n\
        [traffic]\nflows = 20\narrivals = { process = \"poisson\", rate_pps = 5000.0 }\n";
    let running = Running::start_as(service);
    let counters = |said: &crate::folder::Said| -> Vec<Value> {
        serde_json::from_str(&said.out).unwrap_or_default()
    };
    let decided = |said: &crate::folder::Said| {
        let counters = counters(said);
        counters.len() == 2 && counters[1]["packets"].as_u64() >= Some(20)
    };
    let said = running.ask_until(&["counters", "--json"], decided);
    let counters = counters(&said);
    assert_eq!(
        (&counters[0]["rule"], &counters[0]["packets"]),
        (&1.into(), &0.into())
    );
    assert_eq!(counters[1]["text"], "the default: allow");
    let report = running.stop().report("r");
    assert!(report.functions[0].counters["connections_opened"] >= 20);
}

/// Of an inspector each rule tells how many packets it has let pass as an alert, or begun a ban with.
#[test]
fn rules_of_an_inspector_count_what_they_find() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("a.rules");
    std::fs::write(
        &rules,
        "seen alert regex \"(?s).\"\nnever ban literal \"no such text is sent\"\n",
    )
    .expect("written");
    let service = format!(
        "[service]\nchain = [\"inspector\"]\n[inspector]\nrules = {:?}\ngaps = \"inspect\"\n\
         [traffic]\nflows = 20\narrivals = {{ process = \"poisson\", rate_pps = 5000.0 }}\n",
        rules.to_string_lossy()
    );
    let running = Running::start_as(&service);
    let counters = |said: &crate::folder::Said| -> Vec<Value> {
        serde_json::from_str(&said.out).unwrap_or_default()
    };
    let has_found = |said: &crate::folder::Said| {
        let counters = counters(said);
        counters.len() == 2 && counters[0]["packets"].as_u64() >= Some(20)
    };
    let said = running.ask_until(
        &["counters", "--function", "inspector", "--json"],
        has_found,
    );
    let counters = counters(&said);
    let text = counters[0]["text"].as_str().expect("the rule");
    assert!(
        text.starts_with("rule seen (") && text.contains("a.rules:1)"),
        "{text}"
    );
    assert_eq!(counters[1]["packets"], 0);
    let report = running.stop().report("r");
    assert!(report.functions[0].counters["alerts"] >= 20);
}

#[test]
fn backends_tell_their_connections() {
    let running = Running::start_as(BALANCED);
    let said = running.ask_until(&["backends", "--json"], |said| {
        let backends: Result<Vec<Value>, _> = serde_json::from_str(&said.out);
        let has = |one: &Value| one["connections"].as_u64().is_some_and(|count| count > 0);
        backends.is_ok_and(|all| all.len() == 2 && all.iter().any(has))
    });
    let backends: Vec<Value> = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(backends[0]["service"], "192.0.2.1:80/tcp", "{said:?}");
    for backend in &backends {
        let count = |name: &str| backend[name].as_u64().expect("a count");
        assert!(count("opened") >= count("connections"), "{backend}");
    }
    running.stop();
}

const THREE: &str = "[service]\nname = \"edge\"\nchain = [\"load_balancer\"]\n\
    [[load_balancer.services]]\nvip = \"192.0.2.1:80\"\nprotocol = \"tcp\"\n\
    backends = [{ endpoint = \"10.1.0.2:8080\" }, { endpoint = \"10.1.0.3:8080\" }, { endpoint = \"10.1.0.4:8080\" }]\n\
    [traffic]\nflows = 90\narrivals = { process = \"poisson\", rate_pps = 2000.0 }\n\
    [traffic.hosts]\nservices = [{ address = \"192.0.2.1\", port = 80, protocol = \"tcp\" }]\n";

/// Behind a change that gives backends other places connections are told with theirs at once, though no
/// packet of them has come since.
#[test]
fn connections_stay_with_their_backends_when_another_goes() {
    let folder = Folder::with("edge.toml", THREE);
    let to = ["--packets", "400", "--out", "a.pcap"];
    folder.succeed(&[&["generate", "--service", "edge.toml"][..], &to].concat());
    let made = Command::new("mkfifo").arg(folder.path("in")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let running = Running::start_in(folder, &["--in", "in"]);
    let mut pipe = OpenOptions::new()
        .write(true)
        .open(running.folder.path("in"))
        .expect("a reader");
    let packets = running.folder.read("a.pcap");
    pipe.write_all(&packets).expect("all is read");
    let connections = || -> Vec<(String, u64)> {
        let backends = json(&running, &["backends"]).into_iter();
        let one = |one: Value| {
            let endpoint = one["backend"].as_str().expect("an endpoint");
            (
                endpoint.to_owned(),
                one["connections"].as_u64().expect("a count"),
            )
        };
        backends.map(one).collect()
    };
    // All that was written has been taken.
    let mut known = connections();
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = connections();
        if now == known && now.iter().all(|(_, count)| *count > 5) {
            break;
        }
        known = now;
    }
    let gone = &known[0].0;
    let words = [
        "change",
        "backend",
        "remove",
        gone,
        "--service",
        "192.0.2.1:80/tcp",
    ];
    let said = running.ask(&words);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(connections(), known[1..]);
    drop(pipe);
    running.stop();
}

const DIRECT: &str = r#"
[service]
name = "edge"
chain = ["load_balancer"]
[[load_balancer.services]]
vip = "192.0.2.1:80"
protocol = "tcp"
return = "direct"
backends = [
    { endpoint = "10.1.0.2:8080", mac = "02:00:00:00:00:02" },
    { endpoint = "10.1.0.4:8080", mac = "02:00:00:00:00:04", weight = 2 },
]
[traffic]
flows = 20
arrivals = { process = "poisson", rate_pps = 2000.0 }
[traffic.hosts]
services = [{ address = "192.0.2.1", port = 80, protocol = "tcp" }]
"#;

/// What is told of a backend in JSON is what a change of it takes; people read it in one piece.
#[test]
fn backends_in_json_are_what_a_change_takes() {
    let running = Running::start_as(DIRECT);
    let told = || json(&running, &["backends"]);
    let last = told().swap_remove(1);
    let text = |name: &str| last[name].as_str().expect(name);
    let (endpoint, service, mac) = (text("backend"), text("service"), text("mac"));
    assert_eq!((endpoint, mac), ("10.1.0.4:8080", "02:00:00:00:00:04"));
    let weight = last["weight"].to_string();
    assert_eq!(weight, "2");
    let change = |what: &str, flags: &[&str]| {
        let words = ["change", "backend", what, endpoint, "--service", service];
        let said = running.ask(&[&words[..], flags].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
    };
    let none = running.ask(&["drops", "--reason", "denied"]);
    assert_eq!(
        none.out, "no packet has been dropped as denied\n",
        "{none:?}"
    );
    change("drain", &[]);
    let drained: Vec<bool> = told().iter().map(|one| one["is_drained"] == true).collect();
    assert_eq!(drained, [false, true]);
    let shown = running.ask(&["backends"]).out;
    let words = "10.1.0.4:8080 weight 2 mac 02:00:00:00:00:04 drained of 192.0.2.1:80/tcp  ";
    assert!(shown.contains(words), "{shown}");
    change("remove", &[]);
    assert_eq!(told().len(), 1);
    change("add", &["--mac", mac, "--weight", &weight]);
    let again = told().swap_remove(1);
    for same in ["backend", "service", "mac", "weight", "is_drained"] {
        assert_eq!(again[same], last[same], "{again}");
    }
    running.stop();
}
