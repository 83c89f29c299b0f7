//! Both directions of a connection, rewritten and restored.

use super::*;
use twinpath_core::DropReason;
use twinpath_wire::fragment::cut;
use twinpath_wire::tcp::flags;
use twinpath_wire::{MacAddress, PacketBuilder, protocol};

fn tcp(from: Endpoint, to: Endpoint, tcp_flags: u8) -> Vec<u8> {
    PacketBuilder::tcp(from, to)
        .flags(tcp_flags)
        .payload(b"data")
        .to_vec()
        .expect("valid")
}

fn udp(from: Endpoint, to: Endpoint) -> Vec<u8> {
    PacketBuilder::udp(from, to)
        .payload(b"data!")
        .to_vec()
        .expect("valid")
}

#[test]
fn the_client_sees_the_service_and_the_backend_the_client() {
    let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.1:80"));
    let mut paths = paths(SERVICES);
    let (from, backend) = ends(process(&mut paths, &tcp(client, vip, flags::SYN), at(0)));
    assert_eq!(from, client);
    assert_eq!(backend.address.octets4()[..3], [10, 1, 0]);
    for (millis, tcp_flags) in [
        (1, flags::SYN | flags::ACK),
        (2, flags::ACK),
        (3, flags::ACK | flags::PSH),
    ] {
        let answer = ends(process(
            &mut paths,
            &tcp(backend, client, tcp_flags),
            at(millis),
        ));
        assert_eq!(answer, (vip, client));
        let sent = ends(process(
            &mut paths,
            &tcp(client, vip, flags::ACK),
            at(millis),
        ));
        assert_eq!(sent, (client, backend));
    }
    assert_eq!(
        paths[1].simple, 3,
        "all but the handshake's three packets, and the backend's first data, are simple"
    );
}

#[test]
fn a_rewritten_and_restored_packet_is_the_original() {
    let (client, vip) = (
        endpoint("[2001:db8:9::1]:4000"),
        endpoint("[2001:db8::1]:53"),
    );
    let mut paths = paths(SERVICES);
    let question = udp(client, vip);
    let (sent, layout) = forwarded(process(&mut paths, &question, at(0)));
    let backend = fields::destination(&sent, &layout);
    assert_ne!(sent, question);
    let mut restored = sent.clone();
    twinpath_core::wire::rewrite::set_destination(&mut restored, &layout, vip)
        .expect("same family");
    assert_eq!(restored, question, "nothing else was touched");
    let (answer, _) = forwarded(process(&mut paths, &udp(backend, client), at(1)));
    assert_eq!(
        answer,
        udp(vip, client),
        "as if the service itself had answered"
    );
}

#[test]
fn a_direct_return_changes_the_mac_address_only() {
    let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.2:80"));
    let mut paths = paths(SERVICES);
    for (millis, tcp_flags) in [(0, flags::SYN), (1, flags::ACK)] {
        let packet = tcp(client, vip, tcp_flags);
        let (sent, _) = forwarded(process(&mut paths, &packet, at(millis)));
        assert!(matches!(
            fields::destination_mac(&sent),
            MacAddress([2, 0, 0, 0, 1, 2 | 3])
        ));
        assert_eq!(sent[6..], packet[6..]);
    }
    let answer = tcp(vip, client, flags::ACK);
    assert_eq!(process(&mut paths, &answer, at(2)).onward, [answer]);
    assert_eq!(paths[1].simple, 1, "all but the client's first two packets");
}

#[test]
fn other_traffic_passes_unchanged_and_is_simple_from_its_second_packet() {
    let (a, b) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.1:81"));
    let mut paths = paths(SERVICES);
    let echo = PacketBuilder::icmp_echo(a, endpoint("192.0.2.1:0"))
        .to_vec()
        .expect("valid");
    for millis in 0..3 {
        for packet in [udp(a, b), tcp(b, a, flags::ACK), echo.clone()] {
            assert_eq!(process(&mut paths, &packet, at(millis)).onward, [packet]);
        }
    }
    assert_eq!(paths[1].simple, 6);
}

#[test]
fn packets_of_a_backend_that_belong_to_no_connection_pass_unchanged() {
    let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.1:80"));
    let mut paths = paths(SERVICES);
    let early = tcp(endpoint("10.1.0.2:8080"), client, flags::ACK);
    let fate = process(&mut paths, &early, at(0));
    assert_eq!((&fate.onward, fate.words), (&vec![early], vec![0, 0]));
    let (_, backend) = ends(process(&mut paths, &tcp(client, vip, flags::SYN), at(1)));
    for other in ["10.1.0.2:8080", "10.1.0.3:8081", "10.1.0.4:8082"].map(endpoint) {
        let packet = tcp(other, client, flags::ACK);
        let unchanged = process(&mut paths, &packet, at(2)).onward == [packet];
        assert_eq!(unchanged, other != backend);
    }
    assert_eq!(paths[0].counter("unexpected_replies"), 3);
}

/// All parts go to one backend and come back from it, in whatever order, so that they fit together.
#[test]
fn fragments_go_with_their_datagram() {
    let v4 = ["198.51.100.7:40000", "192.0.2.1:80"].map(endpoint);
    let v6 = ["[2001:db8:9::1]:4000", "[2001:db8::1]:53"].map(endpoint);
    for [client, vip] in [v4, v6] {
        let whole = |from, to| {
            let builder = match client.address.is_v4() {
                true => PacketBuilder::tcp(from, to),
                false => PacketBuilder::udp(from, to),
            };
            builder.payload_len(1000).to_vec().expect("valid")
        };
        let parts = |whole: &[u8]| {
            cut(whole, &dissect(whole).expect("valid"), 400, 7).expect("long enough")
        };
        let mut paths = paths(SERVICES);
        let (sent, _) = forwarded(process(&mut paths, &whole(client, vip), at(0)));
        let backend = fields::destination(&sent, &dissect(&sent).expect("valid"));
        for (packet, expected) in [
            (whole(client, vip), whole(client, backend)),
            (whole(backend, client), whole(vip, client)),
        ] {
            let mut passed = Vec::new();
            for part in parts(&packet).iter().rev() {
                let fate = process(&mut paths, part, at(1));
                assert_eq!(fate.drops, []);
                passed.extend(fate.onward);
            }
            passed.sort();
            let mut expected = parts(&expected);
            expected.sort();
            assert_eq!(passed, expected);
        }
    }
}

#[test]
fn fragments_without_a_first_one_wait_in_vain() {
    let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.1:80"));
    let mut paths = paths(SERVICES);
    let later = PacketBuilder::tcp(client, vip)
        .payload_len(64)
        .fragment(64, false)
        .to_vec()
        .expect("valid");
    let fate = process(&mut paths, &later, at(0));
    assert_eq!((fate.drops, fate.onward), (vec![], vec![]));
    let fate = process(&mut paths, &later, at(6000));
    assert_eq!(fate.drops, [(DropReason::FragmentAlone, 1)]);
}

#[test]
fn connections_end_and_begin_anew() {
    let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.1:80"));
    let mut paths = paths(&format!("closing_timeout = \"1s\"\n{SERVICES}"));
    let (_, backend) = ends(process(&mut paths, &tcp(client, vip, flags::SYN), at(0)));
    process(
        &mut paths,
        &tcp(client, vip, flags::FIN | flags::ACK),
        at(1),
    );
    for _ in 0..2 {
        process(&mut paths, &tcp(backend, client, flags::ACK), at(2));
    }
    assert_eq!(
        paths[1].simple, 1,
        "half-closed connections stay on the fast path"
    );
    process(
        &mut paths,
        &tcp(backend, client, flags::FIN | flags::ACK),
        at(3),
    );
    let last = PacketBuilder::tcp(client, vip).flags(flags::ACK).to_vec();
    process(&mut paths, &last.expect("valid"), at(4));
    assert_eq!(paths[1].simple, 1, "closed ones do not");
    let unknown = process(&mut paths, &tcp(backend, client, flags::ACK), at(2000));
    assert_eq!(unknown.words, [0, 0], "forgotten after closing_timeout");
    process(&mut paths, &tcp(client, vip, flags::SYN), at(2001));
    process(&mut paths, &tcp(client, vip, flags::RST), at(2002));
    process(&mut paths, &tcp(client, vip, flags::SYN), at(2003));
    assert_eq!(
        paths[0].counter("new_connections"),
        3,
        "a SYN after RST is a new connection"
    );
}

#[test]
fn silence_ends_a_connection_and_a_clock_that_steps_back_does_not() {
    let (client, vip) = (
        endpoint("[2001:db8:9::1]:4000"),
        endpoint("[2001:db8::1]:53"),
    );
    let mut paths = paths(&format!("udp_timeout = \"2s\"\n{SERVICES}"));
    for millis in [0, 1900, 3800, 3700, 5000] {
        process(&mut paths, &udp(client, vip), at(millis));
    }
    assert_eq!(paths[0].counter("new_connections"), 1);
    process(&mut paths, &udp(client, vip), at(7200));
    assert_eq!(paths[0].counter("new_connections"), 2);
}

#[test]
fn a_restarted_balancer_keeps_connections_unless_told_otherwise() {
    let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.1:80"));
    let mut before = paths(SERVICES);
    let (_, backend) = ends(process(&mut before, &tcp(client, vip, flags::SYN), at(0)));
    let mut after = paths(SERVICES);
    let (_, same) = ends(process(&mut after, &tcp(client, vip, flags::ACK), at(0)));
    assert_eq!((same, after[0].counter("picked_up")), (backend, 1));
    let mut strict = paths(&format!("pick_up = false\n{SERVICES}"));
    let fate = process(&mut strict, &tcp(client, vip, flags::ACK), at(0));
    assert_eq!(fate.drops, [(DropReason::InvalidState, 1)]);
    assert_eq!(strict[0].words(&key(client, vip, protocol::TCP)), [0, 0]);
}

#[test]
fn the_program_has_steps_for_the_services_that_there_are() {
    let names = |text: &str| -> Vec<_> {
        super::super::program::program(&config(text))
            .steps
            .iter()
            .map(|step| step.name)
            .collect()
    };
    assert_eq!(
        names(SERVICES),
        [
            "to the backend",
            "to the client",
            "to the backend",
            "to the client",
            "to the backend's MAC address",
            "direct answer",
            "no service"
        ]
    );
    let one = "services = [{ vip = \"192.0.2.1:80\", protocol = \"tcp\", backends = [{ endpoint = \"10.0.0.1:80\" }] }]";
    assert_eq!(
        names(one),
        ["to the backend", "to the client", "no service"]
    );
}

/// A connection that nobody answers, or whose client does not go on, is forgotten early; one that
/// both ends take part in is not.
#[test]
fn half_open_connections_are_forgotten_early() {
    let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.1:80"));
    let syn = |paths: &mut _, millis| {
        let opening = tcp(client, vip, flags::SYN);
        ends(process(paths, &opening, at(millis))).1
    };
    let opened = |paths: &[_; 2]| {
        let [slow, _]: &[crate::two_paths::Path<LoadBalancer>; 2] = paths;
        slow.counter("new_connections")
    };
    let late = 40_000;
    let mut unanswered = paths(SERVICES);
    syn(&mut unanswered, 0);
    syn(&mut unanswered, late);
    assert_eq!(opened(&unanswered), 2);
    let mut unconfirmed = paths(SERVICES);
    let backend = syn(&mut unconfirmed, 0);
    let answer = tcp(backend, client, flags::SYN | flags::ACK);
    process(&mut unconfirmed, &answer, at(1));
    syn(&mut unconfirmed, late);
    assert_eq!(opened(&unconfirmed), 2);
    let mut established = paths(SERVICES);
    let backend = syn(&mut established, 0);
    let answer = tcp(backend, client, flags::SYN | flags::ACK);
    process(&mut established, &answer, at(1));
    process(&mut established, &tcp(client, vip, flags::ACK), at(2));
    let fate = process(&mut established, &tcp(client, vip, flags::ACK), at(late));
    assert_eq!(ends(fate).1, backend);
    assert_eq!(opened(&established), 1);
}
