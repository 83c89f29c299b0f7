//! `twinpath trace`

use crate::folder::Folder;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use twinpath_core::Instant;
use twinpath_core::wire::PacketBuilder;
use twinpath_io::CaptureWriter;
use twinpath_io::blocks::{self, StreamedPacket};

const TRANSLATION: &str = r#"
[service]
name = "x"
chain = ["acl", "firewall", "napt", "router"]
[acl]
default = "allow"
rules = [{ action = "deny", protocol = "udp", to_port = 23 }]
[firewall]
default = "deny"
rules = [{ action = "allow", from = "10.0.0.0/8" }]
[napt]
inside = ["10.0.0.0/8"]
external = ["198.51.100.1"]
assignment = "preserve"
[router]
address = "198.51.100.254"
next_hops = [
    { name = "uplink", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 7 },
]
routes = [{ to = "0.0.0.0/0", via = "uplink" }]
[rule_cache]
window = "10ms"
threshold = 0
"#;

fn udp(from: &str, to: &str) -> PacketBuilder<'static> {
    PacketBuilder::udp(from.parse().expect("an end"), to.parse().expect("an end"))
}

fn outbound() -> Vec<u8> {
    udp("10.0.0.9:5000", "192.0.2.1:53").to_vec().expect("fits")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A capture of one packet a millisecond.
fn capture(path: &Path, packets: &[Vec<u8>]) {
    let mut writer = CaptureWriter::create(path).expect("a capture");
    for (number, packet) in (0..).zip(packets) {
        let at = Instant(number * 1_000_000);
        writer.write(at.0, packet).expect("written");
    }
    writer.finish().expect("finished");
}

fn traced(folder: &Folder, arguments: &[&str]) -> Value {
    let said = folder.succeed(&[&["trace", "x.toml", "--json"], arguments].concat());
    serde_json::from_str(&said.out).expect("JSON")
}

/// The steps of a trace that have this name.
fn steps<'a>(told: &'a Value, name: &str) -> Vec<&'a Value> {
    let steps = told["steps"].as_array().expect("a list");
    steps.iter().filter(|step| step["step"] == name).collect()
}

/// The names of all steps, in order.
fn walk(told: &Value) -> Vec<&str> {
    texts(&told["steps"], "step")
}

/// The texts of one key in a list.
fn texts<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    let items = list.as_array().expect("a list");
    items
        .iter()
        .map(|item| item[key].as_str().expect("text"))
        .collect()
}

#[test]
fn the_first_packet_of_a_flow_is_followed_through_every_function() {
    let folder = Folder::with("x.toml", TRANSLATION);
    let told = traced(&folder, &["--hex", &hex(&outbound())]);
    assert_eq!(told["steps"][0]["direction"], "original");
    let at_element = ["meet", "punt", "receive", "returned", "go_on"];
    let at_all = [at_element; 4].concat();
    assert_eq!(
        walk(&told),
        [&["look_ahead"][..], &at_all, &["put_out"]].concat()
    );
    let (met, slow_path) = (steps(&told, "meet"), steps(&told, "receive"));

    assert_eq!(met[0]["found"], "no_rule");
    let list = &slow_path[0]["slow_path"]["rules"]["functions"][0];
    assert_eq!(list["verdict"], "forward");
    // That its port is another decides, whatever else the rule says.
    assert_eq!(texts(&list["examined"], "what"), ["destination port 53"]);
    assert_eq!(list["examined"][0]["bits"], 16);

    assert_eq!(met[1]["found"], "no_slot");
    let words = &slow_path[1]["slow_path"]["state"]["words"][0];
    assert_eq!(words["name"], "state");
    assert!(words["after"].as_u64() > Some(0), "{words}");

    let translation = &slow_path[2]["slow_path"]["rules"];
    let last = &slow_path[3]["slow_path"]["rules"];
    let [napt, router] = [&translation["functions"][0], &last["functions"][0]];
    assert_eq!(napt["name"], "napt");
    assert_eq!(napt["written"][0]["field"], "source address");
    assert_eq!(napt["written"][0]["old"], "10.0.0.9");
    assert_eq!(napt["written"][0]["new"], "198.51.100.1");
    let changed = texts(&napt["written"], "field");
    assert!(changed.contains(&"identification"), "{changed:?}");
    let rule = translation["rule"].to_string();
    assert!(rule.contains("identification drawn, if DF is 0"), "{rule}");
    let changed = texts(&router["written"], "field");
    for field in ["destination MAC address", "egress port", "time to live"] {
        assert!(changed.contains(&field), "{field}: {changed:?}");
    }
    let entries = texts(&translation["rule"]["entries"], "function");
    assert!(entries.contains(&"napt"), "{entries:?}");
    let selection = last["selection"].as_str().expect("text");
    assert!(selection.starts_with("not cached now"), "{selection}");

    let end = &told["end"];
    assert_eq!(
        (&end["fate"], &end["egress"]),
        (&"leaves".into(), &7.into())
    );
    let headers = end["packet"]["headers"][1].as_str().expect("IPv4");
    assert!(
        headers.starts_with("IPv4 198.51.100.1 > 192.0.2.1"),
        "{headers}"
    );
}

/// What a trace says of a packet is what a run does with it.
#[test]
fn a_packet_of_a_capture_meets_what_those_before_it_have_left() {
    let folder = Folder::with("x.toml", TRANSLATION);
    let packets = vec![outbound(); 60];
    capture(&folder.path("in.pcap"), &packets);
    let told = |number: &str| traced(&folder, &["--in", "in.pcap", "--packet", number]);

    let second = told("2");
    let received = steps(&second, "receive");
    for (place, function) in [(2, "napt"), (3, "router")] {
        let rule = &received[place]["slow_path"]["rules"]["rule"];
        let entries = texts(&rule["entries"], "function");
        assert!(entries.contains(&function), "{entries:?}");
    }
    let last = &received[3]["slow_path"]["rules"];
    assert_eq!(last["rule"]["least_time_to_live"], 2);
    assert_eq!(last["rule"]["fate"], "forward");

    let late = told("60");
    assert_eq!(
        walk(&late),
        ["look_ahead", "meet", "meet", "meet", "meet", "put_out"]
    );
    let met = steps(&late, "meet");
    for place in [0, 2, 3] {
        let rule = &met[place]["found"]["rule"];
        assert!(rule["id"].is_u64() && rule["matches"].is_array(), "{rule}");
    }
    let slot = &met[1]["found"]["slot"];
    assert_eq!(
        (&slot["state"], &slot["state_after"]),
        (&"active".into(), &"active".into())
    );
    let program = &slot["programs"][0];
    assert_eq!(program["function"], "firewall");
    assert!(program["step"].is_string(), "{program}");
    assert_eq!(program["exit"], "goes on");
    assert_eq!(late["end"]["was_on_slow_path"], false);

    let service = folder.path("x.toml").to_string_lossy().into_owned();
    folder.run_both_ways(&service, "in.pcap");
    let left: Vec<_> = folder.flows("both.pcap").into_values().flatten().collect();
    assert_eq!(left.len(), 60);
    for told in [second, late] {
        let told = told["end"]["packet"]["hex"].as_str().expect("a packet");
        assert!(left.iter().any(|(_, bytes)| hex(bytes) == told), "{told}");
    }
}

const BALANCED: &str = r#"
[service]
name = "x"
chain = ["load_balancer"]
[[load_balancer.services]]
vip = "192.0.2.1:53"
protocol = "udp"
backends = [
    { endpoint = "10.1.0.1:53" },
    { endpoint = "10.1.0.2:53" },
    { endpoint = "10.1.0.3:53", drained = true },
]
"#;

/// Which backend, and whether it was hashed or remembered, on either path.
#[test]
fn a_balancer_tells_its_choice() {
    let folder = Folder::with("x.toml", BALANCED);
    capture(&folder.path("in.pcap"), &vec![outbound(); 60]);
    let told = |number: &str| traced(&folder, &["--in", "in.pcap", "--packet", number]);
    let choice = |words: &Value| words[0]["choice"].as_str().expect("a choice").to_owned();
    let first = told("1");
    let hashed = choice(&steps(&first, "receive")[0]["slow_path"]["state"]["words"]);
    let why = "of 192.0.2.1:53/udp, chosen for a new connection, by consistent hashing: \
        2 backends take new connections, by their weights";
    assert!(
        hashed.starts_with("backend 10.1.0.") && hashed.ends_with(why),
        "{hashed}"
    );
    let last = told("60");
    assert_eq!(walk(&last), ["look_ahead", "meet", "put_out"]);
    let known = choice(&steps(&last, "meet")[0]["found"]["slot"]["words"]);
    let (backend, _) = hashed.split_once(", ").expect("a reason");
    let why = "as the flow's entry says: the connection was given to it before";
    assert_eq!(known, format!("{backend}, {why}"));
    let text = folder.succeed(&["trace", "x.toml", "--in", "in.pcap", "--packet", "60"]);
    let line = format!("    load_balancer: {known}\n");
    assert!(text.out.contains(&line), "{}", text.out);
}

/// A run that drew its seed is followed with that.
#[test]
fn a_choice_is_that_of_the_seed() {
    let folder = Folder::with("x.toml", BALANCED);
    let chosen = |seed: u64| {
        let seed = seed.to_string();
        let told = traced(&folder, &["--hex", &hex(&outbound()), "--seed", &seed]);
        let words = &steps(&told, "receive")[0]["slow_path"]["state"]["words"];
        words[0]["choice"].as_str().expect("a choice").to_owned()
    };
    let chosen: BTreeSet<String> = (0..16).map(chosen).collect();
    assert_eq!(chosen.len(), 2, "each backend by some: {chosen:?}");
}

/// But for a router, which decides last in both directions.
#[test]
fn a_reply_passes_the_elements_in_reverse() {
    let folder = Folder::with("x.toml", TRANSLATION);
    let answer = udp("192.0.2.1:53", "198.51.100.1:5000").to_vec();
    capture(
        &folder.path("in.pcap"),
        &[outbound(), answer.expect("fits")],
    );
    let told = traced(&folder, &["--in", "in.pcap", "--packet", "2"]);
    assert_eq!(told["steps"][0]["direction"], "reply");
    let met = steps(&told, "meet");
    let elements: Vec<_> = met.iter().map(|step| &step["element"]).collect();
    assert_eq!(elements, [2, 1, 0, 3]);
    let napt = &steps(&told, "receive")[0]["slow_path"]["rules"]["functions"][0];
    assert_eq!(napt["written"][0]["new"], "10.0.0.9", "{napt}");
    assert_eq!(told["end"]["fate"], "leaves");
}

#[test]
fn what_is_denied_ends_where_it_is_denied() {
    let folder = Folder::with("x.toml", TRANSLATION);
    let denied = udp("10.0.0.9:5000", "192.0.2.1:23").to_vec().expect("fits");
    let said = folder.succeed(&["trace", "x.toml", "--hex", &hex(&denied)]);
    for expected in [
        "packet 1\nlook_ahead: ",
        "  UDP 5000 > 23\n",
        "  direction: original\n",
        "\nmeet element 0: acl\n",
        "  fast path: no rule matches\n  decision: to the slow path\npunt: to worker 0, as PLAIN\n",
        "\nreceive element 0: acl\n",
        "    acl: drop (",
        "destination port 23 (16 bits)",
        "    rule\n      matches destination port 23 (16 bits), protocol udp (8 bits)\n",
        "      depends on acl rule 1: deny protocol udp to_port 23 (line 7)\n",
        "\ndrop: ",
        "\nend: is dropped: ",
    ] {
        assert!(said.out.contains(expected), "{expected:?} in\n{}", said.out);
    }
    assert!(!said.out.contains("element 1"), "{}", said.out);
}

#[test]
fn a_fragment_makes_no_rule_and_that_is_told() {
    let folder = Folder::with("x.toml", TRANSLATION);
    let fragment = udp("10.0.0.9:5000", "192.0.2.1:53").payload_len(64);
    let fragment = fragment.fragment(0, true).to_vec().expect("fits");
    let told = traced(&folder, &["--hex", &hex(&fragment)]);
    assert_eq!(steps(&told, "meet")[0]["found"], "not_plain");
    let rules = &steps(&told, "receive")[0]["slow_path"]["rules"];
    assert_eq!(rules["no_rule"]["name"], "not_plain");
}

#[test]
fn a_malformed_packet_meets_no_element() {
    let folder = Folder::with("x.toml", TRANSLATION);
    let told = traced(&folder, &["--hex", "0102"]);
    assert_eq!(walk(&told), ["look_ahead", "drop"]);
    assert!(told["steps"][0]["direction"].is_null());
    let fate = told["end"]["fate"].as_str().expect("text");
    assert!(fate.starts_with("is dropped: "), "{fate}");
}

/// All that is dropped is listed, with what decided: a rule of a list, cached or not, one of a firewall,
/// and what no function dropped.
#[test]
fn all_drops_are_listed_with_what_decided() {
    let folder = Folder::with("x.toml", TRANSLATION);
    let denied = udp("10.0.0.9:5000", "192.0.2.1:23").to_vec().expect("fits");
    let stranger = udp("192.0.2.7:53", "198.51.100.1:9")
        .to_vec()
        .expect("fits");
    let other = udp("10.0.0.8:5000", "192.0.2.1:23").to_vec().expect("fits");
    let mut packets = vec![outbound(), other, vec![1, 2], stranger];
    packets.extend(vec![denied; 60]);
    packets.push(outbound());
    capture(&folder.path("in.pcap"), &packets);
    let list = ["trace", "x.toml", "--dropped", "in.pcap"];
    let said = folder.succeed(&[&list[..], &["--json"]].concat());
    let told: Value = serde_json::from_str(&said.out).expect("JSON");
    let drops = told.as_array().expect("a list");
    assert_eq!(drops.len(), 63, "{}", said.out);
    let found = |number: u64| {
        let mut drops = drops.iter();
        drops
            .find(|drop| drop["number"] == number)
            .expect("it is dropped")
    };
    for number in [2, 5, 64] {
        let drop = found(number);
        assert_eq!(
            (&drop["reason"], &drop["function"]),
            (&"denied".into(), &"acl".into())
        );
        let entry = &drop["entry"];
        assert_eq!(entry["text"], "deny protocol udp to_port 23", "{drop}");
        assert_eq!((&entry["rule"], &entry["line"]), (&1.into(), &7.into()));
    }
    assert!(found(3)["function"].is_null());
    assert!(found(4)["function"].is_string(), "{}", found(4));
    let said = folder.succeed(&[&list[..], &["--flow", "udp 10.0.0.9:* 192.0.2.1:23"]].concat());
    assert!(said.out.ends_with("\n60 of 65 packets\n"), "{}", said.out);
    let expected = "    denied by acl rule 1: deny protocol udp to_port 23 (line 7)\n";
    assert_eq!(said.out.matches(expected).count(), 60, "{}", said.out);
    folder.fail(
        &[&list[..], &["--flow", "udp 10.0.0.9"]].concat(),
        "expected a protocol and two ends",
    );
}

#[test]
fn a_firewalls_rule_is_told() {
    let service = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n\
        rules = [\n{ action = \"deny\", to_port = 25 },\n{ action = \"deny\", to_port = 23 },\n]\n";
    let folder = Folder::with("x.toml", service);
    let denied = udp("10.0.0.9:5000", "192.0.2.1:23").to_vec().expect("fits");
    let said = folder.succeed(&["trace", "x.toml", "--hex", &hex(&denied)]);
    let expected = "    by firewall rule 2: deny to_port 23 (line 7)\n";
    assert!(said.out.contains(expected), "{}", said.out);
    capture(&folder.path("in.pcap"), &[outbound(), denied]);
    let said = folder.succeed(&["trace", "x.toml", "--dropped", "in.pcap"]);
    assert!(
        said.out
            .contains("    denied by firewall rule 2: deny to_port 23 (line 7)\n1 of 2"),
        "{}",
        said.out
    );
}

/// A route that leads nowhere is told by its prefix, on the slow path and cached.
#[test]
fn a_routers_route_is_told() {
    let service = TRANSLATION.replace(
        "routes = [",
        "routes = [{ to = \"10.0.0.0/8\", via = \"uplink\" },\n\
         { to = \"203.0.113.0/24\", via = \"discard\" },\n",
    );
    let folder = Folder::with("x.toml", &service);
    let nowhere = udp("10.0.0.9:5000", "203.0.113.5:53")
        .to_vec()
        .expect("fits");
    let packets = vec![nowhere.clone(); 60];
    capture(&folder.path("in.pcap"), &packets);
    let said = folder.succeed(&["trace", "x.toml", "--dropped", "in.pcap"]);
    let expected = "    no_route by router: route 203.0.113.0/24 via discard (line 21)\n";
    assert_eq!(said.out.matches(expected).count(), 60, "{}", said.out);
    let said = folder.succeed(&["trace", "x.toml", "--hex", &hex(&outbound())]);
    let expected = "depends on router: route 0.0.0.0/0 via uplink (line 22)\n";
    assert!(said.out.contains(expected), "{}", said.out);
}

/// The rule that has banned a flow is told of each of its packets, whichever path has found it.
#[test]
fn an_inspectors_rule_is_told() {
    let service = "[service]\nchain = [\"inspector\"]\n[inspector]\nrules = \"a.rules\"\ngaps = \"inspect\"\n";
    let folder = Folder::with("x.toml", service);
    let rules = "# own\nplain ban literal \"evil\"\nlong ban regex \"wick[e]+d\"\n\
                 drop udp any any -> any any (content:\"bad\"; sid:77;)\n";
    folder.write("a.rules", rules.as_bytes());
    let said = |host: u8, payload: &'static [u8]| {
        let packet = udp(&format!("10.0.0.{host}:5000"), "192.0.2.1:53");
        packet.payload(payload).to_vec().expect("fits")
    };
    let packets = [
        said(1, b"so evil"),
        said(2, b"so wickeeed"),
        said(3, b"too bad"),
        said(1, b"nothing"),
        said(2, b"nothing"),
        said(4, b"nothing"),
        said(1, b"nothing"),
    ];
    capture(&folder.path("in.pcap"), &packets);
    let told = folder
        .succeed(&["trace", "x.toml", "--dropped", "in.pcap"])
        .out;
    for (expected, times) in [
        ("a.rules:2): ban literal \"evil\"\n", 3),
        ("a.rules:3): ban regex \"wick[e]+d\"\n", 2),
        (
            "a.rules:4): drop udp any any -> any any (content:\"bad\"; sid:77;)\n",
            1,
        ),
    ] {
        assert_eq!(told.matches(expected).count(), times, "{expected}: {told}");
    }
    assert_eq!(
        told.matches("    banned by inspector: rule plain (")
            .count(),
        3,
        "{told}"
    );
    assert!(told.ends_with("\n6 of 7 packets\n"), "{told}");
}

fn dropped(folder: &Folder) -> Vec<Value> {
    let said = folder.succeed(&["trace", "x.toml", "--dropped", "in.pcap", "--json"]);
    serde_json::from_str(&said.out).expect("JSON")
}

/// A packet that a function keeps, and that is dropped when others have come, is listed with the rule.
#[test]
fn what_is_dropped_after_it_was_kept_is_listed() {
    let service =
        "[service]\nchain = [\"reassembler\", \"inspector\"]\n[inspector]\nrules = \"a.rules\"\n";
    let folder = Folder::with("x.toml", service);
    folder.write("a.rules", b"word ban literal \"FORBIDDEN\"\n");
    let [client, server] = ["10.0.0.9:5000", "192.0.2.1:80"];
    let segment = |from: &str, to: &str, seq, ack, flags, payload: &'static [u8]| {
        let ends = [from, to].map(|end| end.parse().expect("an end"));
        let segment = PacketBuilder::tcp(ends[0], ends[1]).seq(seq).ack(ack);
        let segment = segment.flags(flags).payload(payload);
        segment.to_vec().expect("fits")
    };
    let (syn, ack) = (0x02, 0x10);
    let packets = [
        segment(client, server, 99, 0, syn, b""),
        segment(server, client, 499, 100, syn | ack, b""),
        segment(client, server, 100, 500, ack, b""),
        segment(server, client, 504, 100, ack, b"BIDDEN"),
        segment(server, client, 500, 100, ack, b"xFOR"),
    ];
    capture(&folder.path("in.pcap"), &packets);
    let drops = dropped(&folder);
    let [drop] = &drops[..] else {
        panic!("one drop: {drops:?}");
    };
    assert_eq!(
        (&drop["number"], &drop["reason"], &drop["function"]),
        (&4.into(), &"banned".into(), &"inspector".into())
    );
    let text = drop["entry"]["text"].as_str().expect("the rule");
    assert!(text.starts_with("rule word (a.rules:1)"), "{text}");
}

/// What a function has no room for is told with its name, and what virtual reassembly drops with those
/// that it stands in front of.
#[test]
fn drops_for_want_of_room_and_of_fragments_name_functions() {
    let service = "[service]\nchain = [\"napt\"]\n[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\nports = \"5000-5001\"\n";
    let folder = Folder::with("x.toml", service);
    let packet = |port| udp(&format!("10.0.0.9:{port}"), "192.0.2.1:53").to_vec();
    let packets: Vec<_> = (5000..5010)
        .map(|port| packet(port).expect("fits"))
        .collect();
    capture(&folder.path("in.pcap"), &packets);
    let drops = dropped(&folder);
    assert!(!drops.is_empty());
    for drop in drops {
        let (reason, function) = (&drop["reason"], &drop["function"]);
        assert_eq!((reason, function), (&"no_port".into(), &"napt".into()));
    }
    let folder = Folder::with("x.toml", "[service]\nchain = [\"firewall\"]\n[firewall]\n");
    let fragment = udp("10.0.0.9:5000", "192.0.2.1:53").payload_len(64);
    let fragment = fragment.fragment(32, true).to_vec().expect("fits");
    capture(&folder.path("in.pcap"), &[fragment.clone(), fragment]);
    let said = folder
        .succeed(&["trace", "x.toml", "--dropped", "in.pcap"])
        .out;
    for expected in [
        "    fragment_misfit in front of firewall\n",
        "    fragment_alone in front of firewall\n",
    ] {
        assert!(said.contains(expected), "{expected:?} in {said}");
    }
}

/// Nor only the one that denies: what lets a connection be opened is told where it is.
#[test]
fn the_rule_that_lets_a_connection_be_opened_is_told() {
    let service = "[service]\nchain = [\"firewall\"]\n[firewall]\n\
        rules = [\n{ action = \"deny\", to_port = 25 },\n{ action = \"allow\", to_port = 53 },\n]\n";
    let folder = Folder::with("x.toml", service);
    let allowed = udp("10.0.0.9:5000", "192.0.2.1:53").to_vec().expect("fits");
    let said = folder.succeed(&["trace", "x.toml", "--hex", &hex(&allowed)]);
    let expected = "    opened by firewall rule 2: allow to_port 53 (line 6)\n";
    assert!(said.out.contains(expected), "{}", said.out);
}

/// A packet that is given as bytes comes in where its source is, or where it is said to.
#[test]
fn the_port_that_a_packet_comes_in_by_is_said() {
    let service = "[service]\nchain = [\"acl\"]\nports = [\"lan\", \"wan\"]\ninside_ports = [\"lan\"]\n\
        [acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", ingress = \"wan\" }]\n";
    let folder = Folder::with("x.toml", service);
    let packet = hex(&outbound());
    let end = |port: &str| {
        let told = traced(&folder, &["--hex", &packet, "--port", port]);
        told["end"]["fate"].clone()
    };
    assert_eq!(end("lan"), "leaves");
    assert_eq!(end("wan"), "is dropped: denied");
    folder.fail(
        &["trace", "x.toml", "--hex", &packet, "--port", "dmz"],
        "the service names no port dmz: expected one of its ports (lan, wan)",
    );
    let none = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";
    Folder::with("x.toml", none).fail(
        &["trace", "x.toml", "--hex", &packet, "--port", "dmz"],
        "the service names no port dmz: expected no port, for the service names none",
    );
}

/// Between two ports no function has to choose one.
#[test]
fn the_port_that_a_packet_leaves_by_is_told() {
    let service = "[service]\nchain = [\"firewall\"]\nports = [\"lan\", \"wan\"]\n\
        [firewall]\ndefault = \"allow\"\n";
    let folder = Folder::with("x.toml", service);
    let said = folder.succeed(&["trace", "x.toml", "--hex", &hex(&outbound())]);
    let expected = "put_out: 42 bytes, egress port: wan\n";
    assert!(said.out.contains(expected), "{}", said.out);
    capture(&folder.path("in.pcap"), &[outbound()]);
    let zeroth = ["trace", "x.toml", "--in", "in.pcap", "--packet", "0"];
    folder.fail(&zeroth, "0 is not in 1..");
}

/// Of several functions that share flow state the one is named that dropped the packet, on the slow path
/// as on the fast.
#[test]
fn of_two_firewalls_the_one_that_drops_is_told() {
    let service = "[service]\nchain = [\"outer\", \"inner\"]\n\
        [outer]\nfunction = \"firewall\"\ndefault = \"allow\"\nrules = [{ action = \"deny\", to_port = 25 }]\n\
        [inner]\nfunction = \"firewall\"\ndefault = \"allow\"\nrules = [{ action = \"deny\", to_port = 23 }]\n";
    let folder = Folder::with("x.toml", service);
    let to = |port: &str| {
        let packet = udp("10.0.0.9:5000", &format!("192.0.2.1:{port}"));
        packet.to_vec().expect("fits")
    };
    let mut packets = vec![to("25"), to("23"), to("53")];
    packets.extend(vec![to("23"); 4]);
    capture(&folder.path("in.pcap"), &packets);
    let said = folder.succeed(&["trace", "x.toml", "--dropped", "in.pcap", "--json"]);
    let told: Value = serde_json::from_str(&said.out).expect("JSON");
    let drops = told.as_array().expect("a list");
    let functions: Vec<_> = drops.iter().map(|one| one["function"].as_str()).collect();
    let (outer, inner) = (Some("outer"), Some("inner"));
    assert_eq!(
        functions,
        [outer, inner, inner, inner, inner, inner],
        "{told}"
    );
    let entry = &drops[1]["entry"];
    assert_eq!(
        (&entry["rule"], &entry["line"]),
        (&1.into(), &10.into()),
        "{told}"
    );
    let said = folder.succeed(&["trace", "x.toml", "--hex", &hex(&to("23"))]);
    let expected = "    by inner rule 1: deny to_port 23 (line 10)\n";
    assert!(said.out.contains(expected), "{}", said.out);
}

/// The header crosses the link alone, and the packet leaves whole.
#[test]
fn a_parked_payload_is_followed() {
    let service = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n[parking]\n";
    let folder = Folder::with("x.toml", service);
    let packet = udp("10.0.0.9:5000", "192.0.2.1:53").payload_len(900);
    let packet = packet.to_vec().expect("fits");
    let told = traced(&folder, &["--hex", &hex(&packet)]);
    assert_eq!(steps(&told, "park")[0]["bytes"], 900);
    let returned = &steps(&told, "returned")[0]["message"];
    assert_eq!(returned["parked_bytes"], 900, "{told}");
    assert_eq!(steps(&told, "pass_parking")[0]["has_joined"], true);
    assert_eq!(told["end"]["packet"]["hex"], hex(&packet));
}

/// The same where it waits in remote memory.
#[test]
fn a_split_packet_is_followed() {
    let service = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n[split]\n";
    let folder = Folder::with("x.toml", service);
    let packet = udp("10.0.0.9:5000", "192.0.2.1:53").payload_len(900);
    let packet = packet.to_vec().expect("fits");
    let told = traced(&folder, &["--hex", &hex(&packet)]);
    assert_eq!(steps(&told, "split")[0]["bytes"], 900);
    let returned = &steps(&told, "returned")[0]["message"];
    assert_eq!(returned["parked_bytes"], 900, "{told}");
    assert_eq!(steps(&told, "merge")[0]["has_payload"], true);
    assert_eq!(told["end"]["packet"]["hex"], hex(&packet));
}

#[test]
fn chains_of_one_kind_are_traced_too() {
    let rules = TRANSLATION.replace("\"firewall\", ", "").replace(
        "[firewall]\ndefault = \"deny\"\nrules = [{ action = \"allow\", from = \"10.0.0.0/8\" }]\n",
        "",
    );
    let folder = Folder::with("x.toml", &rules);
    let told = traced(&folder, &["--hex", &hex(&outbound())]);
    assert_eq!(steps(&told, "meet").len(), 1);
    let state = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"deny\"\n";
    let folder = Folder::with("x.toml", state);
    let told = traced(&folder, &["--hex", &hex(&outbound())]);
    assert!(
        told["end"]["fate"]
            .as_str()
            .is_some_and(|fate| fate.starts_with("is dropped: "))
    );
    let folder = Folder::with("x.toml", &format!("{TRANSLATION}[run]\npaths = \"slow\"\n"));
    let told = traced(&folder, &["--hex", &hex(&outbound())]);
    assert_eq!(steps(&told, "meet")[0]["found"], "nothing");
    assert_eq!(steps(&told, "receive").len(), 4);
    assert_eq!(told["end"]["fate"], "leaves");
}

#[test]
fn what_cannot_be_traced_is_told() {
    let folder = Folder::with("x.toml", TRANSLATION);
    capture(&folder.path("in.pcap"), &[outbound(), outbound()]);
    let fail = |arguments: &[&str], why| {
        folder.fail(&[&["trace", "x.toml"], arguments].concat(), why);
    };
    fail(
        &["--hex", "0g"],
        "--hex: 'g' at character 2 is no hexadecimal digit",
    );
    fail(
        &["--hex", "012"],
        "--hex: 3 digits: expected two for each byte",
    );
    fail(
        &["--in", "in.pcap", "--packet", "3"],
        "there is no packet 3: the capture has 2",
    );
    fail(&["--in", "in.pcap"], "--packet");
    fail(&["--in", "in.pcap", "--packet", "0"], "invalid value '0'");
    fail(&[], "--hex");
    fail(&["--in", "no.pcap", "--packet", "1"], "no.pcap");
}

/// A capture as `twinpath capture` writes it: each packet comes, and leaves by the other port.
fn capture_of_both_ways(path: &Path, packets: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    blocks::begin(&["inside".into(), "outside".into()], &mut bytes);
    for (number, packet) in (0..).zip(packets) {
        for (interface, is_outbound) in [(0, false), (1, true)] {
            let told = StreamedPacket {
                interface,
                timestamp_ns: number * 1_000_000,
                bytes: packet,
                length: packet.len() as u32,
                is_outbound,
                comment: "",
            };
            blocks::packet(&told, &mut bytes);
        }
    }
    std::fs::write(path, bytes).expect("a file");
}

/// What left did not come: a run takes the other packets, a trace counts them, and both say so.
#[test]
fn packets_that_a_capture_says_left_are_skipped() {
    let text = "[service]\nchain = [\"monitor\"]\nports = [\"inside\", \"outside\"]\n";
    let folder = Folder::with("x.toml", text);
    let packets: Vec<_> = (1..4u16)
        .map(|port| {
            let to = format!("192.0.2.1:{port}");
            udp("10.0.0.9:5000", &to).to_vec().expect("fits")
        })
        .collect();
    capture_of_both_ways(&folder.path("a.pcapng"), &packets);
    let warned = "warning: 3 packets are marked as outbound in the capture";
    let said = folder.succeed(&["run", "x.toml", "--in", "a.pcapng", "--report", "r"]);
    assert!(said.err.contains(warned), "{said:?}");
    assert_eq!(folder.report("r").totals.packets_in, 3);
    let trace = ["trace", "x.toml", "--in", "a.pcapng", "--packet"];
    let said = folder.succeed(&[&trace[..], &["3"]].concat());
    assert!(said.out.contains("UDP 5000 > 3"), "{said:?}");
    assert!(said.out.contains("bytes, port inside, at "), "{said:?}");
    assert!(said.err.contains(warned), "{said:?}");
    let said = folder.run(&[&trace[..], &["4"]].concat());
    assert!(said.err.contains("the capture has 3"), "{said:?}");
    assert!(said.err.contains(warned), "{said:?}");
}
