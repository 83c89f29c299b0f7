//! `twinpath explain`

use crate::folder::Folder;

const SERVICE: &str = "[service]\nname = \"x\"\nchain = [\"firewall\", \"reassembler\"]\n[firewall]\n[fast_path]\nslots = 1000\nways = 4\n";

#[test]
fn programs_devices_and_memory_are_told() {
    let folder = Folder::with("x.toml", SERVICE);
    let said = folder.succeed(&["explain", "x.toml"]);
    let verdict = "x can run: it fits its device (software)\n  both paths:      firewall, reassembler\n\n\
        x: firewall -> reassembler\n\nWhat runs where\n  firewall       shares flow state  each packet may move";
    assert!(said.out.starts_with(verdict), "{}", said.out);
    assert!(!said.out.contains("word[0]"), "{}", said.out);
    let said = folder.succeed(&["explain", "x.toml", "--programs"]);
    for expected in [
        "x: firewall -> reassembler\n",
        "  word[0] state: ",
        "tcp.flags other than ACK alone of FIN, SYN, RST, ACK",
        "bits 10 to 13 of word[0] == ",
        "  always complex: ip.protocol == 6 and",
        "  otherwise: escalate",
        "fragments, and ICMP errors about a flow",
        "flows with fewer than 2 packets in about 100ms",
        "  software (this service's)  fits: ",
        "  asic                       does not fit: ",
        "1,000 slots in 250 buckets of 4",
        "\nMemory: ",
        " when all tables and buffers are full, most of it for packets (",
        " % of           250 flows",
        "Workers\n  workers: 1, each with up to 1,048,576 flows of ",
    ] {
        assert!(said.out.contains(expected), "{expected:?} in\n{}", said.out);
    }
}

#[test]
fn a_chain_that_does_not_fit_its_device_is_a_negative_answer() {
    let folder = Folder::with(
        "x.toml",
        &SERVICE.replace("[fast_path]", "[fast_path]\ndevice = \"asic\""),
    );
    let said = folder.run(&["explain", "x.toml"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let verdict = "x cannot run: it does not fit its device (asic): ";
    assert!(said.out.starts_with(verdict), "{said:?}");
    for expected in [
        "\n  it could with device = \"software\" in [fast_path]\n",
        "\n  it could on the slow path alone: paths = \"slow\" in [run]\n\n",
        "  asic (this service's)      does not fit: ",
    ] {
        assert!(said.out.contains(expected), "{expected:?} in {said:?}");
    }
    let json = folder.run(&["explain", "x.toml", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(told["verdict"]["can_run"], false);
    assert_eq!(told["verdict"]["device"], "asic");
    assert!(told["verdict"]["refusal"].is_string(), "{told}");
}

/// Without a fast path a device need not have room.
#[test]
fn on_the_slow_path_alone_no_device_is_asked() {
    let text = SERVICE.replace(
        "[fast_path]",
        "[run]\npaths = \"slow\"\n[fast_path]\ndevice = \"asic\"",
    );
    let said = Folder::with("x.toml", &text).succeed(&["explain", "x.toml"]);
    let verdict = "x can run: everything runs on the slow path, since the file has paths = \"slow\"\n  slow path alone: firewall, reassembler\n\n";
    assert!(said.out.starts_with(verdict), "{}", said.out);
}

#[test]
fn json_says_the_same() {
    let said = Folder::with("x.toml", SERVICE).succeed(&["explain", "x.toml", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(told["functions"][0]["name"], "firewall");
    assert_eq!(told["functions"][1]["steps"][0]["exit"], "continue");
    assert_eq!(told["devices"][1]["refusal"], serde_json::Value::Null);
    assert!(told["devices"][0]["refusal"].is_string());
    assert_eq!(told["state_tables"][0]["buckets"], 250);
    let memory = &told["memory"];
    let parts = memory["parts"].as_array().expect("a list").iter();
    let sum: u64 = parts.filter_map(|part| part["bytes"].as_u64()).sum();
    assert_eq!(memory["bytes"].as_u64(), Some(sum));
}

#[test]
fn a_wrong_file_is_told_with_its_place() {
    let folder = Folder::with(
        "x.toml",
        "[service]\nchain = [\"reassembler\"]\n[fast_path]\nways = 3\n",
    );
    folder.fail(
        &["explain", "x.toml"],
        "error: x.toml:4:8: 3 ways: expected 1, 2, 4 or 8",
    );
}

const TRANSLATION: &str = r#"
[acl]
default = "allow"
[napt]
inside = ["10.0.0.0/8"]
external = ["192.0.2.1"]
[monitor]
[rule_cache]
exact = 1000
masked = 24
window = "1s"
threshold = 3
"#;

fn with_rules(chain: &str) -> Folder {
    let tables = TRANSLATION.to_owned()
        + if chain.contains("firewall") {
            "[firewall]\n"
        } else {
            ""
        };
    let text = format!("[service]\nname = \"x\"\nchain = [{chain}]\n{tables}");
    Folder::with("x.toml", &text)
}

const BESIDE_STATE: &str = r#""acl", "firewall", "napt", "monitor""#;
const RULES_ALONE: &str = r#""acl", "napt", "monitor""#;

#[test]
fn rules_beside_flow_state_are_told() {
    let said = with_rules(BESIDE_STATE).succeed(&["explain", "x.toml"]);
    for expected in [
        "x: acl -> firewall -> napt -> monitor\n",
        "  acl            cached as rules    addresses, ports and protocol decide",
        "  firewall       shares flow state  each packet may move",
        "  from inside  [acl] -> (firewall) -> [napt -> monitor]\n",
        "  all others   [monitor -> napt] -> (firewall) -> [acl]\n  inside: 10.0.0.0/8, as their sources say\n",
        "  tables: 2, each with 1,000 rules for whole flows and 24 others with up to 64 masks\n",
        "used more than 3 times in the window of 1s before",
        "  not_plain              fragments, ICMP errors",
        "cause before effect",
        "  software (this service's)  fits: ",
        "Workers\n  workers: 1",
    ] {
        assert!(said.out.contains(expected), "{expected:?} in\n{}", said.out);
    }
}

/// Functions that share flow state meet what a connection's opener sends in the order of the chain,
/// whichever side that comes from; and its answers in another.
#[test]
fn the_order_within_an_element_is_told() {
    let functions = "[firewall]\n[monitor]\n[inspector]\nrules = \"a.rules\"\n";
    let others = |chain: &str| {
        let text = format!("[service]\nchain = [{chain}]\ninside = [\"10.0.0.0/8\"]\n{functions}");
        let folder = Folder::with("x.toml", &text);
        folder.write("a.rules", b"word ban literal \"b\"\n");
        let said = folder.succeed(&["explain", "x.toml"]).out;
        let words = ["all others", "its answers pass"];
        let lines = said.lines().map(str::trim);
        let lines = lines.filter(|line| words.iter().any(|word| line.contains(word)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        others("\"firewall\", \"reassembler\", \"inspector\", \"monitor\""),
        ["all others   [monitor] -> (firewall -> reassembler -> inspector)"]
    );
    assert_eq!(
        others("\"firewall\", \"reframer\", \"monitor\""),
        [
            "all others   [monitor] -> (firewall -> reframer)",
            "(firewall -> reframer) is the order for what a connection's opener sends, from either side; its answers pass (reframer -> firewall)"
        ]
    );
}

/// Of what is probably not meant so, with its line; it is explained all the same.
#[test]
fn what_is_probably_not_meant_is_told() {
    let folder = Folder::with(
        "x.toml",
        "[service]\nchain = [\"acl\"]\n[acl]\nrules = [\n    { action = \"deny\" },\n    { action = \"allow\", protocol = \"tcp\" },\n]\n[monitor]\n",
    );
    for command in [
        &["explain", "x.toml"][..],
        &["run", "x.toml", "--in", "a.pcap"],
    ] {
        folder.write("a.pcap", &EMPTY_CAPTURE);
        let said = folder.succeed(command);
        for expected in [
            "warning: x.toml:6:5: no packet comes to this rule: rule 1 (deny)",
            "warning: x.toml:8:2: the chain has no monitor: this table is not used",
        ] {
            assert!(said.err.contains(expected), "{expected:?} in\n{}", said.err);
        }
    }
}

/// A header of a pcap file, without packets.
const EMPTY_CAPTURE: [u8; 24] = [
    0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0,
];

/// A balancer's state fits a switch; a firewall's, in an element of its own, does not.
const APART: &str = r#"
[service]
name = "x"
chain = ["balancer", "guard", "edge"]
[balancer]
function = "load_balancer"
services = [{ vip = "192.0.2.1:80", protocol = "tcp", backends = [{ endpoint = "10.1.0.1:80" }] }]
[guard]
function = "acl"
default = "allow"
[edge]
function = "firewall"
"#;

#[test]
fn flow_state_apart_is_told_by_name() {
    let said = Folder::with("x.toml", APART).succeed(&["explain", "x.toml"]);
    for expected in [
        "x: balancer -> guard -> edge\n",
        "  guard (acl)    cached as rules ",
        "  edge (firewall) shares flow state ",
        "(balancer) -> [guard] -> (edge)",
        "\nState table of balancer\n",
        "\nState table of edge\n",
        "; no room beside that for edge",
    ] {
        assert!(said.out.contains(expected), "{expected:?} in\n{}", said.out);
    }
    let small = format!("{APART}[fast_path]\ndevice = \"asic\"\n");
    let said = Folder::with("x.toml", &small).succeed(&["explain", "x.toml"]);
    let expected = "edge (firewall) on the slow path   the device has no room";
    assert!(said.out.contains(expected), "{}", said.out);
    let verdict = "x can run: it fits its device (asic), but for the flow state of edge\n  \
        both paths:      balancer, guard\n  slow path alone: edge\n\n";
    assert!(said.out.starts_with(verdict), "{}", said.out);
}

/// Of two elements with flow state one has no room on the device: which one is told in words and to
/// programs, the others stay where they are; and that everything is, if the file says so.
#[test]
fn which_element_is_on_the_slow_path_is_told() {
    let places = |text: &str| {
        let folder = Folder::with("x.toml", text);
        let said = folder.succeed(&["explain", "x.toml"]).out;
        let told = folder.succeed(&["explain", "x.toml", "--json"]).out;
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        let places = [0, 1, 2].map(|place| told["places"][place]["place"].clone());
        (said, places)
    };
    let (said, found) = places(&format!("{APART}[fast_path]\ndevice = \"asic\"\n"));
    assert_eq!(found, ["shared", "rules", "slow_path"]);
    for (element, place) in [
        ("balancer (load_balancer)", "shares flow state"),
        ("guard (acl)", "cached as rules"),
        ("edge (firewall)", "on the slow path"),
    ] {
        let line = said.lines().find(|line| line.trim().starts_with(element));
        assert!(line.is_some_and(|line| line.contains(place)), "{said}");
    }
    assert!(!said.contains("everything runs on the slow path"), "{said}");
    let (said, found) = places(&format!("{APART}[run]\npaths = \"slow\"\n"));
    assert_eq!(found, ["slow_path"; 3]);
    assert!(
        said.contains(" can run: everything runs on the slow path"),
        "{said}"
    );
}

#[test]
fn a_chain_without_flow_state_has_no_state_table() {
    let said = with_rules(RULES_ALONE).succeed(&["explain", "x.toml"]);
    assert!(
        said.out.contains("[acl -> napt -> monitor]"),
        "{}",
        said.out
    );
    assert!(said.out.contains("  tables: 1, "), "{}", said.out);
    let verdict = "x can run: it has no flow state that a device must have room for\n  both paths:      acl, napt, monitor\n\n";
    assert!(said.out.starts_with(verdict), "{}", said.out);
    for absent in ["State table", "Devices", "programs", "Workers\n"] {
        assert!(!said.out.contains(absent), "{absent:?} in\n{}", said.out);
    }
}

#[test]
fn json_has_rules_and_state_only_where_there_are_any() {
    let told = |folder: Folder| -> serde_json::Value {
        let said = folder.succeed(&["explain", "x.toml", "--json"]);
        serde_json::from_str(&said.out).expect("JSON")
    };
    let alone = told(with_rules(RULES_ALONE));
    assert!(alone["state_tables"].is_null() && alone["slow_path"].is_null());
    assert_eq!(alone["places"][1]["place"], "rules");
    assert_eq!(
        alone["rules"]["elements"]["reply"][0]["functions"][0],
        "monitor"
    );
    assert_eq!(alone["rules"]["no_rule"][0]["name"], "not_plain");
    let bytes = &alone["rules"]["cache"]["bytes_per_table"];
    assert!(
        bytes.as_u64().is_some_and(|bytes| bytes > 100_000),
        "{bytes}"
    );
    let both = told(with_rules(BESIDE_STATE));
    assert_eq!(both["functions"][0]["name"], "firewall");
    assert_eq!(both["rules"]["cache"]["tables"], 2);
    let state = told(Folder::with("x.toml", SERVICE));
    assert!(state["rules"].is_null() && state["state_tables"].is_array());
}

#[test]
fn what_the_file_keeps_on_the_slow_path_is_told() {
    let folder = with_rules(RULES_ALONE);
    let text = String::from_utf8(folder.read("x.toml")).expect("UTF-8");
    folder.write(
        "off.toml",
        text.replace("[rule_cache]", "[rule_cache]\nenabled = false")
            .as_bytes(),
    );
    let said = folder.succeed(&["explain", "off.toml"]);
    assert!(
        said.out
            .contains("on the slow path   [rule_cache] has enabled = false"),
        "{}",
        said.out
    );
}

/// Rules in Suricata's words that cannot be honoured are told with their lines, wherever warnings are.
#[test]
fn rules_that_are_left_out_are_told() {
    let service = "[service]\nchain = [\"inspector\"]\n[inspector]\ngaps = \"inspect\"\nrules = \"a.rules\"\n";
    let folder = Folder::with("x.toml", service);
    let header = "alert tcp any any -> any any";
    let rules = format!(
        "word ban literal \"b\"\n{header} (content:\"a\"; http_uri; sid:1;)\n\
         {header} (content:\"abc\"; sid:2;)\n{header} (content:\"a\"; flowbits:set,x; sid:3;)\n"
    );
    folder.write("a.rules", rules.as_bytes());
    for command in ["explain", "validate"] {
        let said = folder.succeed(&[command, "x.toml"]);
        for expected in [
            "warning: x.toml:5:1: 2 of 4 rules are left out (flowbits 1, http_uri 1):\n",
            "\n  a.rules:2:",
            "\n  a.rules:4:",
        ] {
            assert!(
                said.err.contains(expected),
                "{command}: {expected:?} in {said:?}"
            );
        }
    }
    folder.write("x.toml", format!("{service}strict = true\n").as_bytes());
    folder.fail(&["explain", "x.toml"], "a.rules:2:");
}

/// Each function says why it may see headers only, or why it may not.
#[test]
fn what_functions_see_of_split_packets_is_told() {
    let tables = "[firewall]\n[reassembler]\n";
    let service = |chain: &str, more: &str| {
        format!("[service]\nname = \"x\"\nchain = [{chain}]\n{tables}[split]\n{more}")
    };
    let folder = Folder::with(
        "x.toml",
        &service("\"firewall\"", "never = [{ dscp = 46 }]\n"),
    );
    let said = folder.succeed(&["explain", "x.toml"]);
    for expected in [
        "Only headers go to the slow path of packets from 128 bytes on\n",
        "  firewall         headers only: judges connections by addresses",
        "  payloads wait in this process, 8,192 at most\n",
        ", and a class that is never split",
    ] {
        assert!(said.out.contains(expected), "{expected:?} in\n{}", said.out);
    }
    folder.write(
        "x.toml",
        service("\"firewall\", \"reassembler\"", "").as_bytes(),
    );
    let said = folder.succeed(&["explain", "x.toml"]);
    for expected in [
        "No packet is split: a function of the chain needs payloads\n",
        "  firewall         headers only: ",
        "  reassembler      whole packets: ",
    ] {
        assert!(said.out.contains(expected), "{expected:?} in\n{}", said.out);
    }
    assert!(
        said.err.contains("no packet is split: reassembler"),
        "{}",
        said.err
    );
    let json = folder.succeed(&["explain", "x.toml", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(told["split"]["is_split"], false);
    assert_eq!(told["split"]["functions"][1]["sees_headers_only"], false);
    let server = "[[split.servers]]\nname = \"m\"\nnumber = 3\ndevice = \"eth2\"\nown_address = \"169.254.0.1/24\"\n\
        [ports]\nleft = { device = \"eth0\" }\nright = { device = \"eth1\" }\n";
    folder.write("x.toml", service("\"firewall\"", server).as_bytes());
    let said = folder.succeed(&["explain", "x.toml"]);
    let expected = "    m: number 3 at eth2, 8 queue pairs\n";
    assert!(said.out.contains(expected), "{}", said.out);
}

/// A function that wants every packet has none on the fast path, nor have those that share flow state with
/// it; others keep theirs.
#[test]
fn who_wants_every_packet_is_on_the_slow_path() {
    let service = |chain: &str, more: &str| {
        format!(
            "[service]\nname = \"x\"\nchain = [{chain}]\ninside = [\"10.0.0.0/8\"]\n[acl]\ndefault = \"allow\"\n{more}"
        )
    };
    let limiter = "[rate_limiter]\nrate_pps = 100\n";
    let by_source = format!("{limiter}per = \"source\"\n");
    let cases = [
        (
            "\"acl\", \"firewall\", \"reframer\"",
            "[firewall]\n".to_owned(),
            ["acl", "firewall, reframer"],
            "it shares flow state with reframer, which wants all packets on the slow path",
        ),
        (
            "\"acl\", \"rate_limiter\"",
            by_source,
            ["acl", "rate_limiter"],
            "flows of a network take from one bucket, and the slow path holds those",
        ),
    ];
    for (chain, more, [both, slow], why) in cases {
        let folder = Folder::with("x.toml", &service(chain, &more));
        let said = folder.succeed(&["explain", "x.toml"]).out;
        let both = format!("  both paths:      {both}\n");
        let slow = format!("  slow path alone: {slow}\n");
        for expected in [&*both, &*slow, why, "x can run: it fits its device"] {
            assert!(said.contains(expected), "{expected:?} in\n{said}");
        }
    }
    let folder = Folder::with("x.toml", &service("\"acl\", \"rate_limiter\"", limiter));
    let said = folder.succeed(&["explain", "x.toml"]).out;
    assert!(
        said.contains("  both paths:      acl, rate_limiter\n"),
        "{said}"
    );
}
