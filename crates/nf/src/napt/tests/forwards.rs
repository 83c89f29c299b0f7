//! What always stands for the same: forwards, whole addresses, blocks of ports.

use super::*;
use crate::napt::NewNapt;
use twinpath_core::wire::protocol;
use twinpath_core::wire::tcp::flags::{ACK, SYN};

const FORWARDING: &str = r#"
    inside = ["10.0.0.0/8", "fd00::/8"]
    external = ["192.0.2.1", "2001:db8::1"]
    filtering = "address_and_port_dependent"
    forward = [
        { protocol = "tcp", external = "192.0.2.1:8080-8089", to = "10.0.0.5:80" },
        { protocol = "udp", external = "192.0.2.1:53", to = "10.0.0.5:5353" },
        { protocol = "tcp", external = "[2001:db8::1]:80", to = "[fd00::5]:80" },
        { protocol = "udp", external = "192.0.2.7:9", to = "10.0.0.6:9" },
        { external = "192.0.2.9", to = "10.0.0.9" },
    ]
"#;

fn tcp(
    bench: &mut Bench,
    from: &str,
    to: &str,
    flags: u8,
) -> Result<(Endpoint, Endpoint), DropReason> {
    ends(send(
        bench,
        PacketBuilder::tcp(end(from), end(to)).flags(flags),
        0,
    ))
}

fn both(from: &str, to: &str) -> Result<(Endpoint, Endpoint), DropReason> {
    Ok((end(from), end(to)))
}

#[test]
fn anyone_reaches_a_forwarded_port_and_hears_from_it() {
    let mut bench = bench(FORWARDING);
    for (from, external, to) in [
        ("8.8.8.8:1", "192.0.2.1:8080", "10.0.0.5:80"),
        ("8.8.8.8:1", "192.0.2.1:8089", "10.0.0.5:89"),
        ("[2001:db8:8::8]:1", "[2001:db8::1]:80", "[fd00::5]:80"),
        ("8.8.8.8:1", "192.0.2.9:22", "10.0.0.9:22"),
    ] {
        assert_eq!(
            tcp(&mut bench, from, external, ACK),
            Err(DropReason::Unsolicited)
        );
        assert_eq!(tcp(&mut bench, from, external, SYN), both(from, to));
        assert_eq!(tcp(&mut bench, to, from, SYN | ACK), both(external, from));
        for _ in 0..3 {
            assert_eq!(tcp(&mut bench, from, external, ACK), both(from, to));
            assert_eq!(tcp(&mut bench, to, from, ACK), both(external, from));
        }
    }
    assert!(bench.hits >= 8, "by rules at last");
    for (external, to) in [
        ("192.0.2.1:53", "10.0.0.5:5353"),
        ("192.0.2.7:9", "10.0.0.6:9"),
        ("192.0.2.9:53", "10.0.0.9:53"),
    ] {
        let (from, other) = ("8.8.8.8:1", "7.7.7.7:1");
        assert_eq!(udp(&mut bench, from, external, 0), both(from, to));
        assert_eq!(
            udp(&mut bench, to, other, 0),
            both(external, other),
            "the same for all"
        );
    }
    assert_eq!(
        tcp(&mut bench, "8.8.8.8:1", "192.0.2.1:8090", SYN),
        Err(DropReason::Unsolicited)
    );
    assert_eq!(
        tcp(&mut bench, "8.8.8.8:1", "192.0.2.7:9", SYN),
        Err(DropReason::Unsolicited)
    );
}

#[test]
fn hosts_inside_reach_forwarded_ports_as_others_do() {
    let mut bench = bench(FORWARDING);
    let (sent, to) = tcp(&mut bench, "10.0.0.1:5", "192.0.2.1:8080", SYN).expect("hairpinned");
    assert_eq!(to, end("10.0.0.5:80"));
    let back = tcp(&mut bench, "10.0.0.5:80", &sent.to_string(), SYN | ACK);
    assert_eq!(back, both("192.0.2.1:8080", "10.0.0.1:5"));
    let own = tcp(&mut bench, "10.0.0.5:80", "192.0.2.9:22", SYN);
    assert_eq!(
        own,
        both("192.0.2.1:8080", "10.0.0.9:22"),
        "from one to another"
    );
}

#[test]
fn forwarded_ports_are_given_to_nobody_else() {
    let text = FORWARDING.replace(
        "external = [\"192.0.2.1\"",
        "ports = '8080-8090'\nexternal = [\"192.0.2.1\"",
    );
    let mut bench = bench(&text);
    let sent = tcp(&mut bench, "10.0.0.1:8080", "8.8.8.8:1", SYN).expect("one is left");
    assert_eq!(sent.0, end("192.0.2.1:8090"));
    tcp(&mut bench, "8.8.8.8:1", "192.0.2.1:8090", SYN | ACK).expect("asked for");
    let other = tcp(&mut bench, "10.0.0.1:8081", "8.8.8.8:1", SYN);
    assert_eq!(other, Err(DropReason::NoPort));
}

#[test]
fn a_whole_address_stands_for_a_host_with_all_that_it_sends() {
    let mut bench = bench(FORWARDING);
    let [inside, outside, external] =
        ["10.0.0.9:0", "8.8.8.8:0", "192.0.2.9:0"].map(|text| end(text).address);
    let gre = PacketBuilder::raw(protocol::GRE, inside, outside);
    let (bytes, layout) = send(&mut bench, gre, 0).departed();
    assert_eq!(ends_of(&bytes, &layout).0.address, external);
    let back = PacketBuilder::raw(protocol::GRE, outside, external);
    let (bytes, layout) = send(&mut bench, back, 0).departed();
    assert_eq!(ends_of(&bytes, &layout).1.address, inside);
    let echo = PacketBuilder::icmp_echo(end("8.8.8.8:7"), end("192.0.2.9:7"));
    let echoed = ends(send(&mut bench, echo, 0));
    assert_eq!(echoed, both("8.8.8.8:7", "10.0.0.9:7"), "it may be asked");
    let parts = PacketBuilder::udp(end("8.8.8.8:1"), end("192.0.2.9:2")).payload_len(100);
    let later = parts.fragment(48, false).to_vec().expect("fits");
    let (bytes, layout) = bench.process(&later, 0, at(0)).departed();
    assert_eq!(ends_of(&bytes, &layout).1.address, inside, "in any order");
    assert_eq!(bench.counter(0, "untranslatable"), 0);
}

#[test]
fn contradictions_are_refused() {
    let error = |from: &str, to: &str| {
        let text = FORWARDING.replace(from, to);
        toml::from_str::<Config>(&text)
            .expect_err("refused")
            .to_string()
    };
    for (from, to, expected) in [
        ("192.0.2.1:53\"", "192.0.2.1\"", "expected \"192.0.2.1:80\""),
        ("10.0.0.5:5353", "10.0.0.5", "expected \"10.0.0.1:80\""),
        ("10.0.0.5:5353", "[fd00::5]:5353", "different IP versions"),
        (
            "to = \"10.0.0.5:80\"",
            "to = \"10.0.0.5:65530\"",
            "do not go as far",
        ),
        ("10.0.0.9\"", "11.0.0.9\"", "in no prefix of inside"),
        ("192.0.2.7:9", "192.0.2.9:9", "is forwarded twice"),
        ("10.0.0.6:9", "10.0.0.5:5353", "has two external endpoints"),
        ("192.0.2.9\"", "192.0.2.1\"", "cannot be in external"),
        (
            "192.0.2.9\"",
            "192.0.2.9:80\"",
            "has a port: expected a protocol",
        ),
        ("udp", "icmp", "expected tcp or udp"),
        (
            "192.0.2.7:9",
            "127.0.0.1:9",
            "127.0.0.1: expected the address of a host",
        ),
        (
            "\"192.0.2.1\",",
            "\"224.0.0.1\",",
            "224.0.0.1 in external: expected",
        ),
        (
            "\"192.0.2.1\",",
            "\"255.255.255.255\",",
            "expected the address of a host",
        ),
        (
            "\"192.0.2.1\",",
            "\"192.0.2.1\", \"::\",",
            ":: in external: expected",
        ),
        (
            "\"192.0.2.1\",",
            "\"192.0.2.1\", \"::ffff:192.0.2.2\",",
            "meant was perhaps 192.0.2.2",
        ),
    ] {
        let error = error(from, to);
        assert!(error.contains(expected), "{error}");
    }
}

pub(super) fn change(bench: &mut Bench, text: &str) {
    let config: Config = toml::from_str(text).expect("a valid configuration");
    bench.reconfigure::<Napt>(0, NewNapt::new(&config, 7));
}

#[test]
fn forwards_come_and_go_while_packets_flow() {
    let without = FORWARDING.replace(
        "{ protocol = \"udp\", external = \"192.0.2.1:53\", to = \"10.0.0.5:5353\" },",
        "",
    );
    let mut bench = bench(&without);
    for _ in 0..3 {
        udp(&mut bench, "8.8.8.8:1", "192.0.2.1:53", 0).expect_err("not yet");
        udp(&mut bench, "10.0.0.5:5353", "8.8.8.8:1", 0).expect("by another port");
        udp(&mut bench, "8.8.8.8:1", "192.0.2.9:53", 0).expect("a whole address");
    }
    assert!(bench.hits > 4);
    change(&mut bench, FORWARDING);
    for _ in 0..3 {
        let reached = udp(&mut bench, "8.8.8.8:1", "192.0.2.1:53", 0);
        assert_eq!(reached, both("8.8.8.8:1", "10.0.0.5:5353"));
        let sent = udp(&mut bench, "10.0.0.5:5353", "8.8.8.8:1", 0);
        assert_eq!(
            sent,
            both("192.0.2.1:53", "8.8.8.8:1"),
            "not the one that it had"
        );
        udp(&mut bench, "8.8.8.8:1", "192.0.2.9:53", 0).expect("stays");
    }
    change(&mut bench, &without);
    udp(&mut bench, "8.8.8.8:2", "192.0.2.1:53", 0).expect_err("no more");
}

const BLOCKS: &str = r#"
    inside = ["10.0.0.0/30", "10.1.0.0/30", "fd00::/126"]
    external = ["192.0.2.0/31", "2001:db8::1"]
    ports = "1024-5119"
    blocks = { size = 1024, assignment = "deterministic" }
"#;

/// RFC 7422: who had a port can be computed.
/// RFC 6888 REQ-3, REQ-13, REQ-14.
#[test]
fn a_host_has_a_block_that_follows_from_its_address() {
    let mut bench = bench(BLOCKS);
    let hosts = [
        "10.0.0.0",
        "10.0.0.1",
        "10.0.0.3",
        "10.1.0.0",
        "10.1.0.3",
        "[fd00::2]",
    ];
    let blocks = [
        ("192.0.2.0:0", 1024),
        ("192.0.2.0:0", 2048),
        ("192.0.2.0:0", 4096),
        ("192.0.2.1:0", 1024),
        ("192.0.2.1:0", 4096),
        ("[2001:db8::1]:0", 3072),
    ];
    for (host, (external, first)) in hosts.into_iter().zip(blocks) {
        let server = match host.contains(':') {
            true => "[2001:db8:8::8]:53",
            false => "8.8.8.8:53",
        };
        let mut ports = std::collections::HashSet::new();
        for port in 500..1524 {
            let (source, _) = udp(&mut bench, &format!("{host}:{port}"), server, 0).expect("sent");
            assert_eq!(source.address, end(external).address);
            assert!(
                (first..first + 1024).contains(&source.port),
                "{host} {source}"
            );
            ports.insert(source.port);
        }
        assert_eq!(ports.len(), 1024, "all of its block");
        let more = udp(&mut bench, &format!("{host}:9999"), server, 0);
        assert!(
            matches!(more, Err(DropReason::NoPort | DropReason::HostLimit)),
            "{more:?}"
        );
    }
    for (from, to, expected) in [
        ("1024,", "0,", "blocks of 0 ports"),
        ("1024,", "4097,", "blocks of 4097 ports"),
        (
            "10.1.0.0/30",
            "10.1.0.0/29",
            "12 hosts inside, but 8 blocks",
        ),
        ("192.0.2.0/31", "192.0.0.0/16", "more than 4096 addresses"),
    ] {
        let text = BLOCKS.replace(from, to);
        let error = toml::from_str::<Config>(&text)
            .expect_err("refused")
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn other_blocks_end_what_lies_outside_of_them() {
    let mut bench = bench(&BLOCKS.replace("1024,", "512,"));
    let (before, _) = udp(&mut bench, "10.0.0.1:1", "8.8.8.8:53", 0).expect("sent");
    assert!((1536..2048).contains(&before.port), "{before}");
    change(&mut bench, BLOCKS);
    let (after, _) = udp(&mut bench, "10.0.0.1:1", "8.8.8.8:53", 0).expect("sent");
    assert!((2048..3072).contains(&after.port), "{after}");
    assert_eq!(bench.counter(0, "bindings"), 1);
}
