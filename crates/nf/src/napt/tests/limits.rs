//! What a host, or whoever is outside, may take.

use super::*;
use twinpath_core::wire::tcp::flags::{ACK, SYN};
use twinpath_core::wire::{icmp, verify_transport_checksum};

const FEW: &str = "ports_per_host = 3\nerrors_per_second = 2\n";

/// RFC 6888 REQ-4.
#[test]
fn a_host_gets_no_more_ports_than_it_may_have() {
    for (hosts, server) in [
        (["10.0.0.1", "10.0.0.2"], "8.8.8.8:53"),
        (["[fd00::1]", "[fd00:0:0:1::1]"], "[2001:db8:8::8]:53"),
    ] {
        let mut bench = bench(&format!("{FEW}{BASIC}"));
        let [host, other] = hosts;
        for port in 1..=3 {
            udp(&mut bench, &format!("{host}:{port}"), server, 0).expect("a port");
        }
        let one_more = |bench: &mut Bench, host: &str, seconds| {
            udp(bench, &format!("{host}:4"), server, seconds)
        };
        assert_eq!(one_more(&mut bench, host, 1), Err(DropReason::HostLimit));
        one_more(&mut bench, other, 1).expect("another host has its own");
        let tcp = PacketBuilder::tcp(end(&format!("{host}:4")), end(server)).flags(SYN);
        assert!(ends(send(&mut bench, tcp, 1)).is_ok(), "of each protocol");
        assert_eq!(bench.counter(0, "host_ports_exhausted"), 1);
        // One is used by rules, the others are over.
        for seconds in [200, 201, 202] {
            udp(&mut bench, &format!("{host}:1"), server, seconds).expect("translated");
        }
        one_more(&mut bench, host, 301).expect("in place of one that is over");
        udp(&mut bench, &format!("{host}:5"), server, 301).expect("and of another");
        let sixth = udp(&mut bench, &format!("{host}:6"), server, 301);
        assert_eq!(sixth, Err(DropReason::HostLimit), "the first is alive");
    }
}

/// RFC 6888 REQ-4: a network of IPv6 is one host, which may take any of its addresses.
#[test]
fn all_addresses_of_a_network_of_ipv6_have_the_ports_of_one_host() {
    for (prefix, is_one) in [("", true), ("per_host_v6_prefix = 128\n", false)] {
        let mut bench = bench(&format!("{FEW}{prefix}{BASIC}"));
        let mut open = |address: u32| {
            let host = format!("[fd00::{address}]:1");
            udp(&mut bench, &host, "[2001:db8:8::8]:53", 0)
        };
        assert!((1..=3).all(|address| open(address).is_ok()));
        assert_eq!(open(4) == Err(DropReason::HostLimit), is_one);
    }
    let mut bench = bench(&format!("sessions = 400\n{BASIC}"));
    let server = end("[2001:db8:8::8]:80");
    let mut open = |address: u32| {
        let host = end(&format!("[fd00::{address:x}]:1000"));
        let packet = PacketBuilder::tcp(host, server).flags(SYN);
        send(&mut bench, packet, 0).packet.map(|_| ())
    };
    let refused = (1..=256).filter(|&address| open(address).is_err());
    assert_eq!(refused.count(), 256 - 100, "and its sessions");
}

/// RFC 6888 REQ-4: by default, too.
#[test]
fn one_host_cannot_take_all_ports_of_its_address() {
    let text = BASIC.replace("preserve", "random");
    let mut bench = bench(&format!("ports = '1024-3071'\n{text}"));
    let mut taken = 0;
    for port in 1024..=3071 {
        let packet = PacketBuilder::udp(Endpoint::v4([10, 0, 0, 1], port), end("8.8.8.8:53"));
        taken += u32::from(send(&mut bench, packet, 0).packet.is_ok());
    }
    assert_eq!(taken, 2048 / 4, "a quarter, if nobody says otherwise");
    udp(&mut bench, "10.0.0.2:1024", "8.8.8.8:53", 0).expect("others find some");
}

/// RFC 5508 REQ-8, RFC 6888 REQ-11: "communication administratively prohibited", not too often, and
/// only to hosts inside.
#[test]
fn hosts_are_told_that_they_get_no_more() {
    for (host, server, code) in [
        ("10.0.0.1", "8.8.8.8:53", (3, 13)),
        ("[fd00::1]", "[2001:db8:8::8]:53", (1, 1)),
    ] {
        let mut bench = bench(&format!("{FEW}{BASIC}"));
        for port in 1..=3 {
            udp(&mut bench, &format!("{host}:{port}"), server, 0).expect("a port");
        }
        let refused = PacketBuilder::udp(end(&format!("{host}:4")), end(server));
        for count in 1..=3 {
            let outcome = send(&mut bench, refused, 1);
            assert_eq!(outcome.packet, Err(DropReason::HostLimit));
            assert_eq!(
                outcome.replies.len(),
                usize::from(count < 3),
                "two in a second"
            );
            let Some(error) = outcome.replies.first() else {
                continue;
            };
            let layout = twinpath_core::wire::dissect(error).expect("well formed");
            assert_eq!(fields::icmp_kind(error, &layout), Some(code));
            assert!(icmp::is_error(layout.network, code.0));
            assert!(verify_transport_checksum(error, &layout));
            let told = fields::destination(error, &layout).address;
            assert_eq!(told, end(&format!("{host}:0")).address);
            let quoted = fields::inner_source(error, &layout);
            assert_eq!(quoted, Some(end(&format!("{host}:4"))));
        }
        assert_eq!(bench.counter(0, "errors_sent"), 2);
        assert_eq!(bench.counter(0, "errors_limited"), 1);
    }
    let mut silent = bench(&format!("{FEW}{BASIC}").replace("second = 2", "second = 0"));
    for port in 1..=4 {
        let packet = PacketBuilder::udp(Endpoint::v4([10, 0, 0, 1], port), end("8.8.8.8:53"));
        assert!(send(&mut silent, packet, 1).replies.is_empty());
    }
}

/// RFC 6888 REQ-5: a host that opens as many sessions as it can leaves room for others; what has been silent for too
/// long counts no more.
#[test]
fn one_host_does_not_fill_the_table() {
    let mut bench = bench(&format!("sessions = 400\n{BASIC}"));
    let mut open = |from: Endpoint, number: u8, seconds| {
        let to = Endpoint::v4([8, 8, 8, number], 80);
        let packet = PacketBuilder::tcp(from, to).flags(SYN);
        send(&mut bench, packet, seconds).packet.map(|_| ())
    };
    let greedy = |number: u8| Endpoint::v4([10, 0, 0, 1], 1000 + u16::from(number % 4));
    let refused = (0..=255).filter(|&number| open(greedy(number), number, 0).is_err());
    assert_eq!(refused.count(), 256 - 100);
    let other = Endpoint::v4([10, 0, 0, 2], 1000);
    assert_eq!(open(other, 1, 0), Ok(()));
    assert_eq!(open(greedy(1), 255, 239), Err(DropReason::HostLimit));
    assert_eq!(open(greedy(1), 255, 241), Ok(()));
    assert_eq!(bench.counter(0, "host_sessions_exhausted"), 157);
}

/// Whoever knows of a binding that lets anyone in could fill the table of sessions.
/// RFC 6888 REQ-5, RFC 5508 REQ-9: nobody outside is told.
#[test]
fn others_open_no_more_sessions_to_a_binding_than_they_may() {
    let mut bench = bench(&format!("sessions_per_binding = 3\n{BASIC}"));
    let mut outcome = |from: Endpoint, to: &str, flags, seconds| {
        let packet = PacketBuilder::tcp(from, end(to)).flags(flags);
        send(&mut bench, packet, seconds)
    };
    let mut tcp = |from, to: &str, flags, seconds| outcome(from, to, flags, seconds).packet;
    tcp(end("10.0.0.1:80"), "8.8.8.8:80", SYN, 0).expect("a binding");
    let stranger = |number| Endpoint::v4([7, 7, 7, number], 1);
    for number in 1..=2 {
        tcp(stranger(number), "192.0.2.1:80", SYN, 100).expect("anyone may");
    }
    let third = tcp(stranger(3), "192.0.2.1:80", SYN, 100);
    assert_eq!(third, Err(DropReason::HostLimit));
    tcp(end("10.0.0.1:80"), "9.9.9.9:80", SYN, 100).expect("the host itself may have more");
    let third = tcp(stranger(3), "192.0.2.1:80", SYN, 300);
    assert_eq!(third, Err(DropReason::HostLimit), "three are there");
    let hears = outcome(stranger(3), "192.0.2.1:80", SYN, 300).replies;
    assert!(hears.is_empty(), "nobody outside hears of it");
    let mut tcp = |from, to: &str, flags, seconds| outcome(from, to, flags, seconds).packet;
    tcp(end("10.0.0.1:80"), "9.9.9.9:80", SYN, 300).expect("the binding stays");
    tcp(stranger(3), "192.0.2.1:80", SYN, 341).expect("those have been silent for too long");
    tcp(stranger(3), "192.0.2.1:80", ACK, 341).expect("it is there");
    assert_eq!(bench.counter(0, "binding_sessions_exhausted"), 3);
}

/// RFC 6056 §3.3.3: the ports that one host gets say nothing about those of another, and those under
/// another seed are others.
/// RFC 7857 §8, §9, RFC 6888 REQ-15.
#[test]
fn ports_cannot_be_foreseen() {
    let text = BASIC.replace("preserve", "random");
    let ports = |seed: u64| -> Vec<u16> {
        let config: Config = toml::from_str(&text).expect("valid");
        let mut bench = Bench::plain(vec![Box::new(Napt::new(&config, seed))]);
        let ports = (0..100).map(|number| {
            let packet = PacketBuilder::udp(
                Endpoint::v4([10, 0, 0, 1], 5000 + number),
                end("8.8.8.8:53"),
            );
            ends(send(&mut bench, packet, 0)).expect("sent").0.port
        });
        ports.collect()
    };
    let (one, other) = (ports(1), ports(2));
    let is_same = one.iter().zip(&other).filter(|(one, other)| one == other);
    assert!(is_same.count() < 5);
    let is_next = one
        .windows(2)
        .filter(|pair| pair[0].abs_diff(pair[1]) < 100);
    assert!(is_next.count() < 10, "{one:?}");
    let is_kept = (5000..)
        .zip(&one)
        .filter(|(inside, outside)| inside == *outside);
    assert!(is_kept.count() < 5);
    let has_parity = (5000..)
        .zip(&one)
        .filter(|(inside, outside)| inside % 2 == *outside % 2);
    let has_parity = has_parity.count();
    assert!((20..80).contains(&has_parity), "{has_parity} of 100");
    let is_odd = one.iter().filter(|port| **port % 2 == 1).count();
    assert!((20..80).contains(&is_odd));
    assert!(one.iter().all(|port| *port >= 1024));
}

/// Six external ports, and connections of many hosts.
struct Crowd(Bench);

impl Crowd {
    const SERVER: &str = "8.8.8.8:80";

    fn new(settings: &str) -> Self {
        Self(bench(&format!(
            "ports = '2000-2005'\nports_per_host = 6\n{settings}{BASIC}"
        )))
    }

    fn host(number: u8) -> Endpoint {
        Endpoint::v4([10, 0, 0, number], 5000)
    }

    /// The port with which a host's segment leaves.
    fn sends(&mut self, number: u8, flags: u8, seconds: u64) -> Result<u16, DropReason> {
        let packet = PacketBuilder::tcp(Self::host(number), end(Self::SERVER)).flags(flags);
        ends(send(&mut self.0, packet, seconds)).map(|(from, _)| from.port)
    }

    /// The host that the server's segment comes to.
    fn answers(&mut self, port: u16, flags: u8, seconds: u64) -> Result<Endpoint, DropReason> {
        let to = Endpoint::v4([192, 0, 2, 1], port);
        let packet = PacketBuilder::tcp(end(Self::SERVER), to).flags(flags);
        ends(send(&mut self.0, packet, seconds)).map(|(_, to)| to)
    }

    fn forgotten(&mut self) -> u64 {
        self.0.counter(0, "half_open_forgotten")
    }
}

/// Segments that nobody answers keep nobody out, and connections that are open stay.
#[test]
fn half_open_connections_give_way_where_no_port_is_left() {
    let mut crowd = Crowd::new("");
    let open = crowd.sends(1, SYN, 0).expect("a port");
    crowd.answers(open, SYN | ACK, 0).expect("asked for");
    let taken: Vec<u16> = (2..=6)
        .map(|number| crowd.sends(number, SYN, 1).expect("a port"))
        .collect();
    // Which one opened first counts, not which one was heard last.
    crowd.sends(2, SYN, 2).expect("once more");
    assert_eq!(crowd.sends(7, SYN, 3), Ok(taken[0]));
    assert_eq!(crowd.forgotten(), 1);
    assert_eq!(crowd.answers(taken[0], SYN | ACK, 3), Ok(Crowd::host(7)));
    assert_eq!(crowd.answers(taken[1], SYN | ACK, 3), Ok(Crowd::host(3)));
    // Answered ones are passed over.
    assert_eq!(crowd.sends(8, SYN, 4), Ok(taken[2]));
    for (number, port) in [(5, taken[3]), (6, taken[4]), (8, taken[2])] {
        assert_eq!(crowd.answers(port, SYN | ACK, 5), Ok(Crowd::host(number)));
    }
    assert_eq!(
        crowd.sends(9, SYN, 6),
        Err(DropReason::NoPort),
        "all are open"
    );
    assert_eq!(crowd.sends(1, ACK, 6), Ok(open));
    assert_eq!(crowd.forgotten(), 2);
}

/// A host's data that nobody answers make rules, which go first.
#[test]
fn half_open_connections_that_have_rules_give_way_too() {
    let mut crowd = Crowd::new("");
    for number in 1..=6 {
        for flags in [SYN, ACK, ACK, ACK] {
            crowd.sends(number, flags, 1).expect("a port");
        }
    }
    assert_eq!((crowd.0.hits, crowd.0.rules()), (6, 6));
    for number in 7..=12 {
        crowd.sends(number, SYN, 2).expect("in place of another");
    }
    assert_eq!(crowd.forgotten(), 6);
}

/// A low port is none for a newcomer with a high one.
#[test]
fn half_open_connections_at_ports_of_others_stay() {
    let mut crowd = Crowd::new("");
    let low = PacketBuilder::tcp(end("10.0.0.99:80"), end(Crowd::SERVER)).flags(SYN);
    let low = ends(send(&mut crowd.0, low, 0)).expect("a port").0.port;
    assert!(low < 1024);
    let taken: Vec<u16> = (1..=6)
        .map(|number| crowd.sends(number, SYN, 1).expect("a port"))
        .collect();
    for (number, port) in (7..).zip(&taken) {
        assert_eq!(crowd.sends(number, SYN, 2), Ok(*port));
    }
    assert!(crowd.answers(low, SYN | ACK, 3).is_ok());
}

/// A port that several connections have is free when the last of them has given way.
#[test]
fn half_open_connections_of_one_port_give_way_together() {
    let mut crowd = Crowd::new("");
    let mut open = |from: Endpoint, server: u8| {
        let packet = PacketBuilder::tcp(from, Endpoint::v4([8, 8, 8, server], 80)).flags(SYN);
        ends(send(&mut crowd.0, packet, 1)).map(|_| ())
    };
    for (number, server) in (1..=6).flat_map(|number| (1..=4).map(move |server| (number, server))) {
        assert_eq!(open(Crowd::host(number), server), Ok(()));
    }
    assert_eq!(open(Crowd::host(7), 1), Ok(()));
    assert_eq!(crowd.forgotten(), 4);
}

#[test]
fn half_open_connections_give_way_where_the_table_is_full() {
    let mut crowd = Crowd::new("sessions = 4\nsessions_per_host = 4\n");
    let open = crowd.sends(1, SYN, 0).expect("a port");
    crowd.answers(open, SYN | ACK, 0).expect("asked for");
    for number in 2..=4 {
        crowd.sends(number, SYN, 1).expect("room");
    }
    let datagram = udp(&mut crowd.0, "10.0.0.5:53", "8.8.8.8:53", 2);
    assert!(datagram.is_ok(), "{datagram:?}");
    assert_eq!(crowd.forgotten(), 1);
    crowd.sends(6, SYN, 2).expect("room");
    assert_eq!(crowd.sends(1, ACK, 3), Ok(open));
    assert_eq!(crowd.forgotten(), 2);
}
