//! `twinpath validate`, and what `run` and `explain` say of the same files.

use crate::folder::Folder;
use serde_json::Value;

const WRONG: &str = r#"[service]
name = "x"
chain = ["acl", "router", "firewal"]
ports = ["site", "uplink"]
colour = 7
[acl]
default = "alow"
rules = [
    { action = "deny", to_port = 25 },
    { action = "deny", to_prt = 80 },
    { action = "allow", from = "10.0.0.0/33" },
    { action = "deny", ingress = "uplnk" },
]
[router]
routes_file = "a.routes"
next_hops = [
    { name = "up", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = "upink" },
]
[fast_path]
slot = 1000
ways = 3
[linq]
ring_frames = 1
"#;

/// Each mistake, at its own line.
const MISTAKES: [(usize, &str); 11] = [
    (3, "no function is called firewal"),
    (5, "unknown field `colour`"),
    (7, "unknown variant `alow`"),
    (10, "unknown field `to_prt`"),
    (11, "\"10.0.0.0/33\": the prefix length"),
    (12, "no port is called \"uplnk\""),
    (15, "a.routes"),
    (17, "no port is called \"upink\""),
    (20, "unknown field `slot`"),
    (21, "3 ways: expected 1, 2, 4 or 8"),
    (22, "this table is for nothing"),
];

fn found(folder: &Folder, name: &str) -> (Option<i32>, Value) {
    let said = folder.run(&["validate", name, "--json"]);
    (said.code, serde_json::from_str(&said.out).expect("JSON"))
}

#[test]
fn all_mistakes_are_told_at_once_each_at_its_line() {
    let folder = Folder::with("x.toml", WRONG);
    let (code, told) = found(&folder, "x.toml");
    assert_eq!((code, &told["is_valid"]), (Some(1), &Value::Bool(false)));
    let errors = told["errors"].as_array().expect("a list");
    let found: Vec<(u64, &str)> = errors
        .iter()
        .map(|error| {
            (
                error["line"].as_u64().unwrap_or(0),
                error["message"].as_str().unwrap_or(""),
            )
        })
        .collect();
    for (line, expected) in MISTAKES {
        let is_there = found
            .iter()
            .any(|(at, message)| *at == line as u64 && message.contains(expected));
        assert!(is_there, "{line}: {expected:?} in {found:#?}");
    }
    assert_eq!(found.len(), MISTAKES.len(), "{found:#?}");
    let meant = |expected: &str| found.iter().any(|(_, message)| message.ends_with(expected));
    for meant_name in ["firewall", "allow", "to_port", "uplink", "slots", "link"] {
        assert!(
            meant(&format!("did you mean {meant_name}?")),
            "{meant_name} in {found:#?}"
        );
    }
}

#[test]
fn explain_and_run_find_the_same() {
    let folder = Folder::with("x.toml", WRONG);
    let validated = folder.run(&["validate", "x.toml"]);
    assert_eq!(validated.code, Some(1));
    assert!(
        validated.out.ends_with("x.toml: 11 mistakes\n"),
        "{validated:?}"
    );
    for command in [&["explain", "x.toml"][..], &["run", "x.toml"]] {
        let said = folder.run(command);
        assert_eq!(
            (said.code, &said.err),
            (Some(2), &validated.err),
            "{command:?}"
        );
        assert_eq!(said.err.matches("error: x.toml:").count(), 11);
    }
}

#[test]
fn what_is_right_is_said_to_be() {
    let folder = Folder::with("x.toml", "[service]\nchain = [\"reassembler\"]\n");
    let said = folder.succeed(&["validate", "x.toml"]);
    assert_eq!(said.out, "x.toml: nothing is wrong\n");
    let (code, told) = found(&folder, "x.toml");
    assert_eq!((code, &told["is_valid"]), (Some(0), &Value::Bool(true)));
    folder.fail(
        &["validate", "y.toml"],
        "error: y.toml: No such file or directory",
    );
}

/// What is probably not meant so is told, and is no mistake; beside mistakes too.
#[test]
fn warnings_are_told_and_are_no_mistakes() {
    let text = "[service]\nchain = [\"acl\"]\n[acl]\nrules = [\n    { action = \"deny\" },\n    { action = \"allow\", protocol = \"tcp\" },\n]\n[monitor]\n";
    let folder = Folder::with("x.toml", text);
    let said = folder.succeed(&["validate", "x.toml"]);
    assert_eq!(said.out, "x.toml: nothing is wrong, 2 warnings\n");
    for expected in [
        "warning: x.toml:6:5: no packet comes to this rule: rule 1 (deny)",
        "warning: x.toml:8:2: the chain has no monitor: this table is not used",
    ] {
        assert!(said.err.contains(expected), "{expected:?} in {said:?}");
    }
    let (code, told) = found(&folder, "x.toml");
    assert_eq!((code, &told["is_valid"]), (Some(0), &Value::Bool(true)));
    assert_eq!(told["errors"], Value::Array(Vec::new()));
    let warnings = &told["warnings"];
    assert_eq!(
        (&warnings[0]["line"], &warnings[1]["line"]),
        (&6.into(), &8.into())
    );
    let text = text.replace("acl", "firewall");
    let text = text + "[slow_path]\nworkers = 64\nflows = 268435456\n";
    folder.write("x.toml", text.as_bytes());
    let said = folder.run(&["validate", "x.toml"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(said.out, "x.toml: 1 mistake, 2 warnings\n", "{said:?}");
}

/// A mistake in a file that the service names is found by whoever looks at the service.
#[test]
fn broken_files_are_found() {
    let routed = "[service]\nchain = [\"inspector\", \"router\"]\ninside = [\"10.0.0.0/8\"]\n\
        [router]\nroutes_file = \"a.routes\"\n\
        next_hops = [{ name = \"up\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = 1 }]\n\
        [inspector]\ngaps = \"inspect\"\nrules = \"a.rules\"\n";
    let folder = Folder::with("x.toml", routed);
    folder.write("a.routes", b"10.0.0.0/8 up\n10.1.0.0/16 upp\n");
    folder.write("a.rules", b"no rule\n");
    for command in ["validate", "explain", "run"] {
        let said = folder.run(&[command, "x.toml"]);
        assert!(
            said.err.contains("error: x.toml:5:1: "),
            "{command}: {said:?}"
        );
        assert!(
            said.err.contains("a.routes:2: \"upp\" is no next hop"),
            "{command}: {said:?}"
        );
    }
    folder.write("a.routes", b"10.0.0.0/8 up\n");
    for command in ["validate", "explain", "run"] {
        let said = folder.run(&[command, "x.toml"]);
        assert!(said.err.contains("a.rules:1:"), "{command}: {said:?}");
    }
}

/// What is wrong with a list as a whole is told at its key.
#[test]
fn checks_of_a_whole_list_point_at_it() {
    let text = "[service]\nchain = [\"napt\"]\n\n[napt]\ninside = []\nexternal = [\"192.0.2.1\"]\n";
    let folder = Folder::with("x.toml", text);
    folder.fail(
        &["explain", "x.toml"],
        "error: x.toml:5:1: 0 prefixes in inside: expected 1 to",
    );
    let text = "[service]\nchain = [\"router\"]\n\n[router]\nnext_hops = []\n";
    folder.write("x.toml", text.as_bytes());
    folder.fail(
        &["explain", "x.toml"],
        "error: x.toml:5:1: 0 next hops: expected 1 to",
    );
}

/// What a missing bracket makes of the rest is not told.
#[test]
fn the_first_mistake_of_the_language_is_told() {
    let folder = Folder::with(
        "x.toml",
        "[service]\nchain = [\"acl\"\nname = \"x\nseed == 1\n",
    );
    let said = folder.run(&["validate", "x.toml"]);
    assert_eq!(said.code, Some(1));
    assert_eq!(said.err.matches("error: x.toml:").count(), 1, "{said:?}");
    assert!(said.err.contains("x.toml:3:"), "{said:?}");
}

/// Before anything is taken, the sum is told, and what it is made of.
#[test]
fn sizes_that_no_machine_has_are_refused_with_their_sum() {
    let text = "[service]\nchain = [\"firewall\"]\n[firewall]\n[slow_path]\nworkers = 64\nflows = 268435456\n[traffic]\npackets = 1\n";
    let folder = Folder::with("x.toml", text);
    for command in ["validate", "explain", "run"] {
        let said = folder.run(&[command, "x.toml"]);
        assert!(
            said.err
                .contains("error: x.toml:6:1: the service may take "),
            "{command}: {said:?}"
        );
        for expected in [
            "of memory, and this machine has ",
            "the workers' flows of firewall: 17,179,869,184 flows",
            "the state table of firewall: 32,768 slots",
        ] {
            assert!(said.err.contains(expected), "{expected:?}: {said:?}");
        }
    }
}

/// What is wrong with an entry of a list is told at the entry, all at once.
#[test]
fn entries_of_a_translation_are_told_at_their_lines() {
    let text = r#"[service]
chain = ["napt", "nat64", "acl"]
inside = ["10.0.0.0/8", "2001:db8:1::/48"]
[napt]
inside = ["10.0.0.0/8"]
external = [
    "192.0.2.1",
    "224.0.0.1",
    "10.0.0.7",
    "192.0.2.0/31",
]
forward = [
    { protocol = "tcp", external = "192.0.2.1:80", to = "10.0.0.5:80" },
    { protocol = "tcp", external = "192.0.2.1:80", to = "10.0.0.6:80" },
    { external = "192.0.2.9", to = "11.0.0.9" },
    { external = "127.0.0.1", to = "10.0.0.8" },
    { protocol = "tcp", external = "10.0.0.4:81", to = "10.0.0.6:81" },
]
sessions = 0
[nat64]
inside = ["2001:db8:1::/48"]
external = [
    "198.51.100.1",
    "0.0.0.0",
]
[[nat64.forward]]
external = "198.51.100.9"
to = "2001:db8:1::9"
[[nat64.forward]]
external = "198.51.100.9"
to = "2001:db8:1::8"
[acl]
default = "allow"
rules = [
    { action = "deny", from = "10.0.0.1" },
    { action = "deny", from = "::ffff:10.0.0.1" },
]
"#;
    let folder = Folder::with("x.toml", text);
    let (_, told) = found(&folder, "x.toml");
    let errors = told["errors"].as_array().expect("a list").iter();
    let found: Vec<(u64, String)> = errors
        .map(|error| {
            let message = error["message"].as_str().unwrap_or("");
            (error["line"].as_u64().unwrap_or(0), message.to_owned())
        })
        .collect();
    let expected = [
        (8, "224.0.0.1 in external: expected the address of a host"),
        (9, "10.0.0.7 in external lies within 10.0.0.0/8 in inside"),
        (10, "192.0.2.1 is in external twice"),
        (14, "192.0.2.1:80 is forwarded twice"),
        (15, "11.0.0.9 is in no prefix of inside"),
        (16, "127.0.0.1: expected the address of a host"),
        (17, "10.0.0.4 in external lies within 10.0.0.0/8 in inside"),
        (19, "sessions = 0 is not from 1 to"),
        (24, "0.0.0.0 in external: expected the address of a host"),
        (29, "198.51.100.9:0 is forwarded twice"),
        (36, "which no packet has: write \"10.0.0.1\""),
    ];
    let is_told = |(line, message): &(u64, &str)| {
        let mut found = found.iter();
        found.any(|(at, told)| at == line && told.contains(message))
    };
    for one in &expected {
        assert!(is_told(one), "{one:?} in {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

/// An interface that is not there is told with its port and line; the file may be for another machine.
#[test]
fn interfaces_that_are_not_there_are_told() {
    let text = "[service]\nchain = [\"monitor\"]\n[ports]\n\
        one = { device = \"none77\", addresses = [\"192.0.2.1/24\"] }\n\
        two = { device = \"none78\", driver = \"tap\" }\n";
    let folder = Folder::with("x.toml", text);
    let said = folder.run(&["validate", "x.toml"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        said.out, "x.toml: nothing is wrong, 1 warning\n",
        "{said:?}"
    );
    let told = "warning: x.toml:4:9: this machine has no interface none77: port one";
    assert!(said.err.contains(told), "{said:?}");
    let said = folder.run(&["explain", "x.toml"]);
    assert!(said.err.contains(told), "{said:?}");
    let said = folder.run(&["run", "x.toml"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let told = "error: x.toml:4:9: port one: interface none77: cannot open it by ";
    assert!(said.err.contains(told), "{said:?}");
    assert!(
        said.err.contains("(this host has ") && said.err.contains("lo"),
        "{said:?}"
    );
}

/// A processor that is not there is told by all that read the file as a run does.
#[test]
fn processors_that_are_not_there_are_told() {
    let text = "[service]\nchain = [\"monitor\"]\n[run]\ncpus = [1023]\n";
    let folder = Folder::with("x.toml", text);
    for command in ["validate", "explain", "run"] {
        let said = folder.run(&[command, "x.toml"]);
        let told = "error: x.toml:4:1: this process may not run on processor 1023";
        assert!(said.err.contains(told), "{command}: {said:?}");
        assert_ne!(said.code, Some(0), "{command}: {said:?}");
    }
}

/// A bump in the wire that lets no ARP through.
#[test]
fn ports_without_addresses_that_drop_arp_are_told() {
    let text = "[service]\nchain = [\"monitor\"]\n[ports]\n\
        one = { device = \"one\", driver = \"tap\" }\ntwo = { device = \"two\", driver = \"tap\" }\n";
    let folder = Folder::with("x.toml", text);
    let said = folder.run(&["validate", "x.toml"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let told = "ARP is dropped (unparsed_arp) and no port answers it";
    assert!(said.err.contains(told), "{said:?}");
}

/// A time without quotes, too little, and a list that lacks what is wrong in it: each once.
#[test]
fn values_of_the_wrong_kind_are_told_with_the_right_one() {
    let text = "[service]\nchain = [\"firewall\", \"napt\"]\n[firewall]\n\
        per_host_connections = 0\ntimeouts = { tcp_established = 3600 }\n\
        [napt]\ninside = \"10.0.0.0/8\"\nexternal = [\"10.0.0.0/33\"]\n";
    let folder = Folder::with("x.toml", text);
    let said = folder.run(&["validate", "x.toml"]);
    assert_eq!(said.err.matches("error: ").count(), 4, "{said:?}");
    for told in [
        "x.toml:4:24: expected a whole number from 1 to 4294967295, found 0",
        "x.toml:5:32: expected a time, such as \"3600s\", found 3600",
        "x.toml:7:10: expected a list in [ ], found \"10.0.0.0/8\"",
        "x.toml:8:12: \"10.0.0.0/33\" is no prefix: its length 33 is more than 32",
    ] {
        assert!(said.err.contains(told), "{told}: {said:?}");
    }
}
