//! `twinpath dash check`.

use crate::folder::{Folder, Said};
use serde_json::Value;
use std::collections::BTreeSet;
use twinpath_nf::dash::MAX_FLOWS;

const ENIS: &str = r#"[
    {"DASH_ENI_TABLE:eni-1": {"mac_address": "00:1A:C5:00:00:01", "vnet": "vnet-1", "admin_state": "enabled", "underlay_ip": "20.0.0.1"}, "OP": "SET"},
    {"DASH_ROUTE_GROUP_TABLE:routes": {"guid": "a", "version": "1"}, "OP": "SET"},
    {"DASH_ROUTE_TABLE:routes:10.0.0.0/8": {"action_type": "vnet", "vnet": "vnet-1"}, "OP": "SET"},
    {"DASH_ENI_ROUTE_TABLE:eni-1": {"group_id": "routes"}, "OP": "SET"}
]
"#;

/// What else packets need.
const REST: &str = r#"[
    {"DASH_APPLIANCE_TABLE:dpu": {"sip": "10.1.0.5", "vm_vni": 2001}, "OP": "SET"},
    {"DASH_ROUTE_RULE_TABLE:eni-1:1001:20.0.0.0/24": {"action_type": "decap"}, "OP": "SET"}
]
"#;

const NETWORKS: &str = r#"[
    {"DASH_VNET_TABLE:vnet-1": {"vni": "1001"}, "OP": "SET"},
    {"DASH_ROUTING_TYPE_TABLE:vnet_encap": {"action_type": "staticencap", "encap_type": "vxlan"}, "OP": "SET"},
    {"DASH_VNET_MAPPING_TABLE:vnet-1:10.0.0.1": {"routing_type": "vnet_encap", "underlay_ip": "20.0.0.1"}, "OP": "SET"},
    {"DASH_VNET_MAPPING_TABLE:vnet-1:10.0.0.2": {"routing_type": "vnet_encap", "underlay_ip": "20.0.0.1"}, "OP": "SET"}
]
"#;

fn folder(files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new();
    for (name, text) in files {
        folder.write(name, text.as_bytes());
    }
    folder
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out).expect("JSON")
}

#[test]
fn a_whole_configuration_is_told_by_table_eni_and_cost() {
    // The ENIs come first by name, and wait for what comes with the networks.
    let folder = folder(&[("a.json", ENIS), ("b.json", NETWORKS), ("c.json", REST)]);
    let said = folder.run(&["dash", "check", "."]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.err, "");
    for line in [
        "3 files, 10 objects in force, no error\n",
        "DASH_VNET_MAPPING_TABLE                        2",
        "eni-1  vnet-1  00:1a:c5:00:00:01  enabled           1          2",
        "32.0 GB would hold",
        "too few to tell",
    ] {
        assert!(said.out.contains(line), "{line:?} in {}", said.out);
    }
    let told = json(&folder.run(&[
        "dash", "check", "a.json", "b.json", "--json", "--memory", "1",
    ]));
    assert_eq!(told["is_complete"], true);
    assert_eq!(told["memory"]["of_bytes"], 1_000_000_000);
    let mappings = &told["memory"]["costs"][1];
    assert_eq!(
        (&mappings["what"], &mappings["number"]),
        (&"mappings".into(), &2.into())
    );
    let [configured, compiled] = ["configured_bytes", "compiled_bytes"].map(|what| {
        let bytes = mappings[what].as_f64().expect("a number");
        assert!(bytes > 0.0, "{what}");
        bytes
    });
    let each = mappings["bytes_each"].as_f64().expect("a number");
    assert_eq!(2.0 * each, configured + compiled);
    let fit = mappings["would_fit"].as_f64().expect("a number");
    assert!((fit * each - 1e9).abs() < 2.0 * each);
}

#[test]
fn check_and_explain_say_the_same_of_flows() {
    let folder = folder(&[("a.json", ENIS)]);
    let costs = |memory: &str| {
        let said = folder.run(&["dash", "check", "a.json", "--json", "--memory", memory]);
        let told = json(&said);
        let costs = told["memory"]["costs"].as_array().expect("a list");
        costs
            .iter()
            .find(|cost| cost["what"] == "flows")
            .expect("flows")
            .clone()
    };
    let flows = costs("1");
    let each = flows["bytes_each"].as_f64().expect("a number");
    let fit = flows["would_fit"].as_f64().expect("a number");
    assert!((fit * each - 1e9).abs() < 2.0 * each, "{flows}");
    // No service takes more of them.
    assert_eq!(costs("1000")["would_fit"], MAX_FLOWS);
    let number = &flows["number"];
    let service = format!("[service]\nchain = [\"dash\"]\n[dash]\nflows = {number}\n");
    folder.write("dpu.toml", service.as_bytes());
    let explained = json(&folder.run(&["explain", "dpu.toml", "--json"]));
    let parts = explained["memory"]["parts"].as_array().expect("a list");
    let table = parts
        .iter()
        .find(|part| part["what"] == "the table of dash");
    assert_eq!(table.expect("a table")["bytes"], flows["compiled_bytes"]);
}

#[test]
fn what_is_missing_is_named_with_all_that_waits_for_it() {
    let folder = folder(&[("a.json", ENIS)]);
    let said = folder.run(&["dash", "check", "a.json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    for line in [
        "a.json:2: DASH_ENI_TABLE:eni-1: vnet: waits for DASH_VNET_TABLE:vnet-1, which is not there",
        "a.json:5: DASH_ENI_ROUTE_TABLE:eni-1: key: waits for DASH_ENI_TABLE:eni-1, which waits, too",
        "1 file, 1 object in force, 3 waiting\n",
    ] {
        assert!(said.out.contains(line), "{line:?} in {}", said.out);
    }
    let told = json(&folder.run(&["dash", "check", "a.json", "--json"]));
    let waiting = told["waiting"].as_array().expect("a list");
    assert_eq!(waiting.len(), 3);
    let route = waiting.iter().find(|object| object["line"] == 4);
    assert_eq!(
        route.expect("a route")["because_of"],
        "DASH_VNET_TABLE:vnet-1"
    );
}

#[test]
fn errors_have_file_line_object_and_field() {
    let wrong = r#"[
    {"DASH_VNET_TABLE:vnet-1": {
        "vnii": 7}, "OP": "SET"}
]"#;
    let folder = folder(&[("wrong.json", wrong), ("b.json", NETWORKS)]);
    let said = folder.run(&["dash", "check", "wrong.json", "b.json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let line =
        "error: wrong.json:3: DASH_VNET_TABLE:vnet-1: vnii: no such field; did you mean vni?";
    assert!(said.err.contains(line), "{}", said.err);
    // Nor is it missing.
    assert!(!said.err.contains("vni: missing"), "{}", said.err);
    let told = json(&folder.run(&["dash", "check", "wrong.json", "--json"]));
    let error = &told["errors"][0];
    assert_eq!(
        (&error["file"], &error["field"]),
        (&"wrong.json".into(), &"vnii".into())
    );
    assert_eq!(error["line"], 3);
}

/// Whoever reads that something is not there is told where to look.
#[test]
fn what_became_of_a_missing_object_is_told() {
    let wrong = r#"[
    {"DASH_ENI_TABLE:eni-1": {"mac_address": "02:00:00:00:00:01", "vnet": "vnte-1"}, "OP": "SET"},
    {"DASH_VNET_TABLE:red": {"vni": "x"}, "OP": "SET"},
    {"DASH_ENI_TABLE:eni-2": {"mac_address": "02:00:00:00:00:02", "vnet": "red"}, "OP": "SET"},
    {"DASH_ENI_TABLE:eni-3": {"mac_address": "02:00:00:00:00:03", "vnet": "vnet-1"}, "OP": "SET"},
    {"DASH_ENI_TABLE:eni-4": {"mac_address": "02:00:00:00:00:03", "vnet": "vnet-1"}, "OP": "SET"},
    {"DASH_ENI_TABLE:eni-5": {"mac_address": "02:00:00:00:00:05", "vnet": "vnet-2"}, "OP": "SET"},
    {"DASH_ROUTE_RULE_TABLE:eni-4:1001:20.0.0.0/24": {"action_type": "decap"}, "OP": "SET"}
]
"#;
    let folder = folder(&[("a.json", wrong), ("b.json", NETWORKS)]);
    let said = folder.run(&["dash", "check", "a.json", "b.json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    for line in [
        "a.json:2: DASH_ENI_TABLE:eni-1: vnet: waits for DASH_VNET_TABLE:vnte-1, which is not there; did you mean DASH_VNET_TABLE:vnet-1?\n",
        "a.json:4: DASH_ENI_TABLE:eni-2: vnet: waits for DASH_VNET_TABLE:red, which has an error (a.json:3)\n",
        "a.json:8: DASH_ROUTE_RULE_TABLE:eni-4:1001:20.0.0.0/24: key: waits for DASH_ENI_TABLE:eni-4, which is refused\n",
        // Other numbers are other things.
        "a.json:7: DASH_ENI_TABLE:eni-5: vnet: waits for DASH_VNET_TABLE:vnet-2, which is not there\n",
    ] {
        assert!(said.out.contains(line), "{line:?} in {}", said.out);
    }
}

/// A configuration of which something is refused is not without error.
#[test]
fn what_is_refused_is_not_called_right() {
    let same = r#"[
    {"DASH_VNET_TABLE:vnet-1": {"vni": "1001"}, "OP": "SET"},
    {"DASH_ENI_TABLE:eni-1": {"mac_address": "02:00:00:00:00:01", "vnet": "vnet-1"}, "OP": "SET"},
    {"DASH_ENI_TABLE:eni-2": {"mac_address": "02:00:00:00:00:01", "vnet": "vnet-1"}, "OP": "SET"}
]
"#;
    let folder = folder(&[("a.json", same)]);
    let said = folder.run(&["dash", "check", "a.json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.out.contains("2 objects in force, 1 refused"),
        "{said:?}"
    );
    assert!(!said.out.contains("no error"), "{said:?}");
}

#[test]
fn what_is_deleted_and_referred_to_is_named() {
    let delete = r#"[{"DASH_VNET_TABLE:vnet-1": {}, "OP": "DEL"}]"#;
    let folder = folder(&[("a.json", ENIS), ("b.json", NETWORKS), ("c.json", delete)]);
    let said = folder.run(&["dash", "check", "a.json", "b.json", "c.json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let line = "c.json:1: DASH_VNET_TABLE:vnet-1: deleted, but still in force: referred to by DASH_ROUTE_TABLE:routes:10.0.0.0/8, DASH_VNET_MAPPING_TABLE:vnet-1:10.0.0.1, DASH_VNET_MAPPING_TABLE:vnet-1:10.0.0.2 and more\n";
    assert!(said.out.contains(line), "{}", said.out);
}

/// Each warning has its place, that of objects of which there are millions, too.
#[test]
fn what_is_doubtful_is_told_with_its_place() {
    const DOUBTFUL: &str = r#"[
    {"DASH_ENI_TABLE:nope": {}, "OP": "DEL"},
    {"DASH_VNET_MAPPING_TABLE:vnet-1:10.0.0.3": {"routing_type": "vnet_encap", "underlay_ip": "2001:db8::1"}, "OP": "SET"}
]
"#;
    let files = [
        ("a.json", ENIS),
        ("b.json", NETWORKS),
        ("c.json", REST),
        ("d.json", DOUBTFUL),
    ];
    let folder = folder(&files);
    let said = folder.succeed(&["dash", "check", "a.json", "b.json", "c.json", "d.json"]);
    for warning in [
        "d.json:2: DASH_ENI_TABLE:nope: deleted, and not there",
        "d.json:3: DASH_VNET_MAPPING_TABLE:vnet-1:10.0.0.3: underlay_ip: of another IP version",
    ] {
        assert!(said.err.contains(warning), "{said:?}");
    }
}

#[test]
fn a_file_that_is_not_there_is_no_answer() {
    let folder = Folder::new();
    let said = folder.run(&["dash", "check", "nowhere.json"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("cannot read nowhere.json"), "{said:?}");
    let said = folder.run(&["dash", "check", "."]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.err
            .contains("no file in it whose name ends with .json"),
        "{said:?}"
    );
}

/// What cannot be is told with its place, and what was expected.
#[test]
fn addresses_of_no_host_and_backends_of_nobody_are_refused() {
    const SERVICES: &str = r#"[
    {"DASH_NAT_POOL_TABLE:a": {"addresses": "203.0.113.1,255.255.255.255"}, "OP": "SET"},
    {"DASH_NAT_POOL_TABLE:b": {"addresses": "127.0.0.1"}, "OP": "SET"},
    {"DASH_NAT_POOL_TABLE:c": {"addresses": "ff02::1"}, "OP": "SET"},
    {"DASH_LOAD_BALANCER_TABLE:vnet-1:10.0.0.9:tcp:80": {"backends": ["10.0.0.1:80", "0.0.0.0:80"]}, "OP": "SET"},
    {"DASH_LOAD_BALANCER_TABLE:vnet-1:10.0.0.9:udp:53": {"backends": ["10.0.0.1:53", "10.0.0.3:53"]}, "OP": "SET"}
]
"#;
    let folder = folder(&[("a.json", NETWORKS), ("b.json", SERVICES)]);
    let said = folder.run(&["dash", "check", "."]);
    assert_eq!(said.code, Some(1), "{said:?}");
    for wrong in [
        "b.json:2: DASH_NAT_POOL_TABLE:a: addresses: 255.255.255.255: the broadcast address: expected that of one host",
        "b.json:3: DASH_NAT_POOL_TABLE:b: addresses: 127.0.0.1: a loopback address",
        "b.json:4: DASH_NAT_POOL_TABLE:c: addresses: ff02::1: a multicast address: expected that of one host",
        "b.json:5: DASH_LOAD_BALANCER_TABLE:vnet-1:10.0.0.9:tcp:80: backends: 0.0.0.0: the address of no host",
    ] {
        assert!(said.err.contains(wrong), "{wrong:?} in {}", said.err);
    }
    let waits = "b.json:6: DASH_LOAD_BALANCER_TABLE:vnet-1:10.0.0.9:udp:53: backends: waits for DASH_VNET_MAPPING_TABLE:vnet-1:10.0.0.3, which is not there";
    assert!(said.out.contains(waits), "{}", said.out);
}

/// All that an object waits for is told, by what it waits for, and not the first thing alone.
#[test]
fn all_that_is_missing_is_told_at_once() {
    const ENI: &str = r#"[
    {"DASH_ENI_TABLE:eni": {"mac_address": "02:00:00:00:00:01", "vnet": "blue", "qos": "fast"}, "OP": "SET"}
]
"#;
    let folder = folder(&[("a.json", ENI)]);
    let said = folder.run(&["dash", "check", "a.json"]);
    for line in [
        "a.json:2: DASH_ENI_TABLE:eni: vnet: waits for DASH_VNET_TABLE:blue, which is not there\n",
        "a.json:2: DASH_ENI_TABLE:eni: qos: waits for DASH_QOS_TABLE:fast, which is not there\n",
        "1 file, 0 objects in force, 1 waiting\n",
    ] {
        assert!(said.out.contains(line), "{line:?} in {}", said.out);
    }
    let told = json(&folder.run(&["dash", "check", "a.json", "--json"]));
    let also = &told["waiting"][0]["also"][0];
    assert_eq!(
        (&also["field"], &also["because_of"]),
        (&"qos".into(), &"DASH_QOS_TABLE:fast".into())
    );
}

/// The keys of all that JSON holds, with `[]` for the members of lists.
fn keys(value: &Value, at: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let path = match at {
                    "" => key.clone(),
                    at => format!("{at}.{key}"),
                };
                keys(value, &path, all);
                all.insert(path);
            }
        }
        Value::Array(members) => members
            .iter()
            .for_each(|member| keys(member, &format!("{at}[]"), all)),
        _ => {}
    }
}

/// What programs read is on a page of the manual, key by key.
#[test]
fn the_page_has_each_key_of_the_json() {
    const PAGE: &str = include_str!("../../../../docs/dash-check.md");
    const WRONG: &str = r#"[
    {"DASH_VNET_TABLE:x": {}, "OP": "SET"},
    {"DASH_ENI_TABLE:late": {"mac_address": "02:00:00:00:00:09", "vnet": "none", "qos": "none"}, "OP": "SET"},
    {"DASH_VNET_TABLE:vnet-1": {}, "OP": "DEL"},
    {"DASH_ENI_TABLE:nope": {}, "OP": "DEL"}
]
"#;
    let folder = folder(&[
        ("a.json", ENIS),
        ("b.json", NETWORKS),
        ("c.json", REST),
        ("d.json", WRONG),
    ]);
    let told = json(&folder.run(&["dash", "check", ".", "--json"]));
    let mut found = BTreeSet::new();
    keys(&told, "", &mut found);
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter_map(|row| row.split('`').next());
    let rows: BTreeSet<String> = rows.map(ToOwned::to_owned).collect();
    assert_eq!(found, rows);
}
