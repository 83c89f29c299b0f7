use super::*;
use crate::firewall::rule::{Action, Rule};
use crate::two_caches::{Bench, Outcome};
use proptest::prelude::*;
use twinpath_core::wire::{Endpoint, PacketBuilder, protocol};
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::{Reconfigure, RuleFunction};

fn config(text: &str) -> Config {
    Config {
        ports: PORTS.map(str::to_owned).into(),
        ..toml::from_str(text).expect("a valid configuration")
    }
}

/// The node's ports.
const PORTS: [&str; 3] = ["lan", "uplink", "peer"];

fn bench(config: &Config, rules: usize) -> Bench {
    let prepared = Prepared::new(config).expect("not too many");
    let function: Box<dyn RuleFunction> = Box::new(AccessList::new(prepared));
    Bench::cached(vec![function], rules)
}

fn end(text: &str) -> Endpoint {
    text.parse().expect(text)
}

fn passes(bench: &mut Bench, packet: PacketBuilder<'_>) -> bool {
    passes_from(bench, packet, 0)
}

fn passes_from(bench: &mut Bench, packet: PacketBuilder<'_>, ingress: u16) -> bool {
    let frame = packet.to_vec().expect("fits");
    match bench.process(&frame, ingress, Instant(1)) {
        Outcome {
            packet: Ok((bytes, None)),
            ..
        } => bytes == frame,
        Outcome { packet, .. } => {
            assert_eq!(packet, Err(DropReason::Denied));
            false
        }
    }
}

const WEB: &str = r#"
    rules = [
        { action = "deny", protocol = "tcp", to_port = 25 },
        { action = "allow", protocol = "tcp", from = "10.0.0.0/8", to_port = "80,8000-8100" },
        { action = "allow", protocol = "icmp" },
    ]"#;

#[test]
fn the_first_rule_that_matches_decides() {
    let mut bench = bench(&config(WEB), 4);
    let tcp = |from: &str, port| PacketBuilder::tcp(end(from), Endpoint::v4([1, 1, 1, 1], port));
    for _ in 0..3 {
        assert!(passes(&mut bench, tcp("10.0.0.1:5", 8050)));
        assert!(!passes(&mut bench, tcp("10.0.0.1:5", 25)));
        assert!(!passes(&mut bench, tcp("11.0.0.1:5", 80)));
        assert!(passes(
            &mut bench,
            PacketBuilder::icmp_echo(end("9.0.0.1:25"), end("8.0.0.1:0"))
        ));
    }
    bench.tell_all();
    assert_eq!(bench.hits, 8);
    let list = bench.function::<AccessList>(0);
    let hits: Vec<u64> = list.rules().map(|(_, hits)| hits).collect();
    assert_eq!((hits, list.default_hits()), (vec![3, 3, 3], 3));
    assert_eq!(
        (bench.counter(0, "allowed"), bench.counter(0, "denied")),
        (6, 6)
    );
}

#[test]
fn fragments_meet_rules_with_ports() {
    for (mode, expected) in [("strict", [false, false]), ("lenient", [true, true])] {
        let mut bench = bench(&config(&format!("fragments = '{mode}'\n{WEB}")), 4);
        let packet = PacketBuilder::tcp(end("10.0.0.1:5"), end("1.1.1.1:80")).payload_len(64);
        let first = passes(&mut bench, packet.fragment(0, true));
        let later = passes(&mut bench, packet.fragment(64, false));
        assert_eq!([first, later], expected, "{mode}");
        let mail = PacketBuilder::tcp(end("10.0.0.1:5"), end("1.1.1.1:25")).payload_len(64);
        assert!(!passes(&mut bench, mail.fragment(0, true)), "{mode}");
    }
}

#[test]
fn a_wrong_configuration_says_what_was_expected() {
    let message = toml::from_str::<Config>("rules = [{ action = 'allow', to_port = 'x' }]");
    let message = message.expect_err("no port").to_string();
    assert!(
        message.contains("expected a port from 0 to 65535"),
        "{message}"
    );
    let ports: Vec<String> = (0..64).map(|port| (port * 2).to_string()).collect();
    let wide = format!(
        "{{ action = 'allow', from_port = '{0}', to_port = '{0}' }},",
        ports.join(",")
    );
    let message = toml::from_str::<Config>(&format!("rules = [{}]", wide.repeat(130)));
    let message = message.expect_err("too many").to_string();
    assert!(message.contains("pairs of port ranges"), "{message}");
}

/// The rules one after the other, as written.
fn reference(config: &Config, headers: &(u8, u8, u16, u16, u8), ingress: u16) -> bool {
    let &(from, to, from_port, to_port, protocol) = headers;
    let in_range = |ports: &crate::firewall::rule::Ports, port| {
        ports.are_any()
            || (protocol == protocol::TCP || protocol == protocol::UDP)
                && ports.ranges().iter().any(|range| range.contains(&port))
    };
    let covers = |prefix: &crate::firewall::rule::Prefix, host| {
        Endpoint::v4([10, 0, host, 1], 0).address.0 & prefix.mask == prefix.network.0
    };
    let port = PORTS[usize::from(ingress)];
    let first = config.rules.0.iter().find(|rule| {
        rule.ingress.as_deref().is_none_or(|name| name == port)
            && rule.protocol.includes(protocol)
            && covers(&rule.from, from)
            && covers(&rule.to, to)
            && in_range(&rule.from_port, from_port)
            && in_range(&rule.to_port, to_port)
    });
    first.map_or(config.default, |rule| rule.action) == Action::Allow
}

fn packet(headers: &(u8, u8, u16, u16, u8)) -> PacketBuilder<'static> {
    let &(from, to, from_port, to_port, protocol) = headers;
    let from = Endpoint::v4([10, 0, from, 1], from_port);
    let to = Endpoint::v4([10, 0, to, 1], to_port);
    match protocol {
        protocol::TCP => PacketBuilder::tcp(from, to),
        protocol::UDP => PacketBuilder::udp(from, to),
        _ => PacketBuilder::icmp_echo(from, to),
    }
}

fn any_rule() -> impl Strategy<Value = String> {
    let prefix = prop_oneof![
        Just("any".to_owned()),
        (0u8..8).prop_map(|host| format!("10.0.{host}.1")),
        (0u8..4).prop_map(|net| format!("10.0.{}.0/23", net * 2)),
        Just("10.0.0.0/8".to_owned()),
    ];
    let ports = prop_oneof![
        Just("any".to_owned()),
        (0u16..20).prop_map(|port| port.to_string()),
        (0u16..20, 0u16..20, 20u16..40).prop_map(|(a, b, c)| format!("{a},{b}-{c}")),
    ];
    let protocol = prop::sample::select(vec!["any", "tcp", "udp"]);
    let action = prop::sample::select(vec!["allow", "deny"]);
    let ingress = prop::sample::select(vec!["", "", ", ingress = 'lan'", ", ingress = 'uplink'"]);
    (action, ingress, protocol, prefix.clone(), prefix, ports.clone(), ports).prop_map(
        |(action, ingress, protocol, from, to, from_port, to_port)| {
            format!(
                "{{ action = '{action}'{ingress}, protocol = '{protocol}', from = '{from}', to = '{to}', from_port = '{from_port}', to_port = '{to_port}' }}"
            )
        },
    )
}

fn any_headers() -> impl Strategy<Value = (u8, u8, u16, u16, u8)> {
    let protocols = vec![protocol::TCP, protocol::UDP, protocol::ICMP];
    (
        0u8..8,
        0u8..8,
        0u16..40,
        0u16..40,
        prop::sample::select(protocols),
    )
}

proptest! {
    #[test]
    fn decides_as_the_rules_read_one_by_one(
        rules in prop::collection::vec(any_rule(), 0..12),
        extra in any_rule(),
        place in 0usize..12,
        headers in prop::collection::vec((any_headers(), 0u16..3, 0u8..10), 1..60),
        default in prop::sample::select(vec!["allow", "deny"]),
    ) {
        let mut config = config(&format!("default = '{default}'\nrules = [{}]", rules.join(",")));
        #[derive(serde::Deserialize)]
        struct One { rule: Rule }
        let extra = toml::from_str::<One>(&format!("rule = {extra}")).expect("valid").rule;
        let mut bench = bench(&config, 6);
        for (headers, ingress, change) in &headers {
            let (len, former) = (config.rules.0.len(), config.clone());
            match *change {
                0 => config.rules.0.insert(place.min(len), extra.clone()),
                1 if len > 0 => _ = config.rules.0.remove(place % len),
                2 => config.rules.0.reverse(),
                3 if len > 0 => config.rules.0.rotate_left(1),
                4 => config.default = if config.default == Action::Allow { Action::Deny } else { Action::Allow },
                _ => {}
            }
            if config != former {
                let list = NewList::between(&former, &config).expect("not too many");
                bench.reconfigure::<AccessList>(0, list);
            }
            let expected = reference(&config, headers, *ingress);
            prop_assert_eq!(passes_from(&mut bench, packet(headers), *ingress), expected);
        }
        bench.tell_all();
        let counted = bench.counter(0, "allowed") + bench.counter(0, "denied");
        prop_assert_eq!(counted, headers.len() as u64);
    }
}

const SPOOFED: &str = r#"
    default = "allow"
    rules = [
        { action = "deny", ingress = "uplink", from = "10.0.0.0/8" },
        { action = "deny", ingress = "uplink", from = "fd00::/8" },
    ]"#;

/// Packets that differ in nothing but the port that they come in by, of both IP versions, and what
/// has no key.
#[test]
fn a_rule_may_be_for_packets_of_one_port() {
    let mut bench = bench(&config(SPOOFED), 8);
    let v4 = PacketBuilder::udp(end("10.0.0.1:5"), end("192.0.2.1:53"));
    let v6 = PacketBuilder::udp(end("[fd00::1]:5"), end("[2001:db8::1]:53"));
    let fragment = v4.payload_len(64).fragment(64, false);
    let packets = [v4, v6, fragment, v4.vlan(7), v4.ipv4_options(&[1; 4])];
    for packet in packets {
        for _ in 0..2 {
            let passed = [0, 1, 2].map(|port| passes_from(&mut bench, packet, port));
            assert_eq!(passed, [true, false, true], "{packet:?}");
        }
    }
    bench.tell_all();
    assert!(bench.hits >= 6, "each plain packet is cached by port");
    let list = bench.function::<AccessList>(0);
    assert_eq!(
        list.rules().map(|(_, hits)| hits).collect::<Vec<_>>(),
        [8, 2]
    );
}

/// Cached rules are for packets of any port, and no more than before, if the list asks for none.
#[test]
fn a_list_without_ingress_tells_no_ports_apart() {
    let mut bench = bench(&config(WEB), 8);
    let packet = PacketBuilder::tcp(end("10.0.0.1:5"), end("1.1.1.1:80"));
    for port in 0..3 {
        assert!(passes_from(&mut bench, packet, port));
    }
    assert_eq!((bench.rules(), bench.hits), (1, 2));
}

#[test]
fn a_rule_with_ingress_is_read_and_written_on_a_line() {
    let line = "deny ingress lan protocol tcp from 10.0.0.0/8 to_port 25";
    let rule: Rule = line.parse().expect("a rule");
    assert_eq!(rule.to_string(), line);
    let config = config("");
    assert!(config.with_rules(vec![rule]).is_ok());
    let unknown = "deny ingress wan".parse().expect("a rule");
    let error = config.with_rules(vec![unknown]).expect_err("no such port");
    assert_eq!(
        error.to_string(),
        "no port is called \"wan\": expected one that ports = [...] in [service] names (lan, uplink, peer)"
    );
}

/// Of the cached rules those go that came from what is gone, or that packets of a new rule meet
/// unless something before it has decided about them; hits stay with their rules.
#[test]
fn a_change_of_one_rule_leaves_others_alone() {
    let former = config(WEB);
    let mut bench = bench(&former, 8);
    let hosts = ["10.0.0.1:5", "10.9.0.1:5", "11.0.0.1:5"];
    let tcp = |from: &str, port| PacketBuilder::tcp(end(from), Endpoint::v4([1, 1, 1, 1], port));
    let meet_all = |bench: &mut Bench| -> Vec<bool> {
        let ports = hosts
            .iter()
            .flat_map(|from| [25, 80].map(|port| tcp(from, port)));
        ports.map(|packet| passes(bench, packet)).collect()
    };
    let before = meet_all(&mut bench);
    assert_eq!(before, [false, true, false, true, false, false]);
    let (rules, hits) = (bench.rules(), bench.hits);
    let mut changed = former.clone();
    changed.rules.0.insert(
        0,
        "deny protocol tcp from 10.9.0.0/16 to_port 80"
            .parse()
            .expect("a rule"),
    );
    let list = NewList::between(&former, &changed).expect("few");
    bench.reconfigure::<AccessList>(0, list);
    assert!(
        bench.rules() < rules && bench.rules() > 0,
        "{} of {rules}",
        bench.rules()
    );
    assert_eq!(
        meet_all(&mut bench),
        [false, true, false, false, false, false]
    );
    assert!(bench.hits > hits, "some are cached still");
    let rules = bench.rules();
    let list = NewList::between(&changed, &former).expect("few");
    bench.reconfigure::<AccessList>(0, list);
    assert!(bench.rules() < rules);
    assert_eq!(meet_all(&mut bench), before);
    bench.tell_all();
    let list = bench.function::<AccessList>(0);
    let hits: Vec<u64> = list.rules().map(|(_, hits)| hits).collect();
    assert_eq!((hits, list.default_hits()), (vec![9, 5, 0], 3));
    assert_eq!(bench.counter(0, "denied"), 13);
}

/// Entries keep their numbers when a rule is put before theirs; an operator counts places.
#[test]
fn entries_are_known_by_their_places() {
    let former = config(WEB);
    let mut changed = former.clone();
    let rule = "deny protocol udp".parse().expect("a rule");
    changed.rules.0.insert(0, rule);
    let mut list = AccessList::new(Prepared::new(&former).expect("few"));
    let place =
        |list: &AccessList, entry| list.entry(entry).and_then(|text| text.rule).unwrap_or(0);
    let numbers = |list: &AccessList| [0, 1, 2, 3, 4].map(|entry| place(list, entry));
    assert_eq!(numbers(&list), [0, 1, 2, 3, 0]);
    let mut new = NewList::between(&former, &changed).expect("few");
    list.apply(&mut new);
    assert_eq!(numbers(&list), [0, 2, 3, 4, 1]);
    let mut new = NewList::between(&changed, &former).expect("few");
    list.apply(&mut new);
    assert_eq!(numbers(&list), [0, 1, 2, 3, 0]);
}
