use super::*;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::protocol;
use twinpath_core::wire::tcp::flags::SYN;

const REFUSED: Result<(Endpoint, Endpoint), DropReason> = Err(DropReason::Unsolicited);

/// RFC 4787 REQ-3 a, REQ-4.
#[test]
fn a_port_is_kept_or_another_of_its_parity_is_given() {
    let mut bench = bench(BASIC);
    for (inside, port) in [
        ("10.0.0.1:5001", 5001),
        ("10.0.0.1:6000", 6000),
        ("10.0.0.1:53", 53),
    ] {
        let (source, to) = udp(&mut bench, inside, "8.8.8.8:53", 0).expect("translated");
        assert_eq!(
            (source, to),
            (Endpoint::v4([192, 0, 2, 1], port), end("8.8.8.8:53"))
        );
    }
    for (inside, parity, low) in [
        ("10.0.0.2:5001", 1, false),
        ("10.0.0.2:6000", 0, false),
        ("10.0.0.2:53", 1, true),
    ] {
        let (source, _) = udp(&mut bench, inside, "8.8.8.8:53", 0).expect("translated");
        assert_eq!(
            (source.port % 2, source.port < 1024),
            (parity, low),
            "{source}"
        );
        assert_ne!(source.port, end(inside).port);
    }
    let v6 = udp(&mut bench, "[fd00::1]:5001", "[2001:db8:9::1]:1", 0).expect("translated");
    assert_eq!(v6.0, end("[2001:db8::1]:5001"));
}

/// RFC 4787 REQ-1, REQ-8, RFC 6888 REQ-7.
#[test]
fn mapping_is_independent_of_the_other_end_and_filtering_as_configured() {
    let answers = |filtering: &str| {
        let mut bench = bench(&format!("filtering = '{filtering}'\n{BASIC}"));
        for _ in 0..3 {
            let one = udp(&mut bench, "10.0.0.1:5000", "8.8.8.8:53", 0)
                .expect("translated")
                .0;
            let other = udp(&mut bench, "10.0.0.1:5000", "9.9.9.9:53", 0)
                .expect("translated")
                .0;
            assert_eq!(one, other);
        }
        assert!(bench.hits > 2);
        let mut results = Vec::new();
        for from in ["8.8.8.8:53", "8.8.8.8:54", "7.7.7.7:53"] {
            let first = udp(&mut bench, from, "192.0.2.1:5000", 0);
            assert_eq!(
                first,
                udp(&mut bench, from, "192.0.2.1:5000", 0),
                "cached or not"
            );
            if let Ok(ends) = first {
                assert_eq!(ends, (end(from), end("10.0.0.1:5000")));
            }
            results.push(first.is_ok());
        }
        results
    };
    assert_eq!(answers("endpoint_independent"), [true, true, true]);
    let default = toml::from_str::<Config>(BASIC).expect("valid");
    let named = format!("filtering = 'endpoint_independent'\n{BASIC}");
    assert_eq!(default, toml::from_str(&named).expect("valid"));
    assert_eq!(answers("address_dependent"), [true, true, false]);
    assert_eq!(answers("address_and_port_dependent"), [true, false, false]);
}

/// RFC 7857 §5, §6: what UDP has opened is nothing to TCP, and the other way round.
#[test]
fn mappings_and_filters_are_of_one_protocol() {
    let mut bench = bench(BASIC);
    let (host, server, external) = ("10.0.0.1:5000", "8.8.8.8:53", "192.0.2.1:5000");
    let tcp = |from, to| PacketBuilder::tcp(end(from), end(to)).flags(SYN);
    udp(&mut bench, host, server, 0).expect("a binding of UDP");
    let asked = send(&mut bench, tcp(server, external), 0);
    assert_eq!(asked.packet, Err(DropReason::Unsolicited), "none of TCP");
    send(&mut bench, tcp(host, "9.9.9.9:80"), 0)
        .packet
        .expect("a binding of TCP");
    assert_eq!(bench.counter(0, "bindings_created"), 2);
    send(&mut bench, tcp(server, external), 0)
        .packet
        .expect("now there is one");
}

#[test]
fn what_nobody_asked_for_is_cached_until_somebody_does() {
    let mut bench = bench(BASIC);
    for _ in 0..3 {
        assert_eq!(udp(&mut bench, "8.8.8.8:53", "192.0.2.1:5000", 0), REFUSED);
    }
    assert_eq!(bench.hits, 2);
    udp(&mut bench, "10.0.0.1:5000", "8.8.8.8:53", 1).expect("translated");
    assert!(bench.waits > 0, "the rules had to go first");
    assert!(udp(&mut bench, "8.8.8.8:53", "192.0.2.1:5000", 1).is_ok());
    assert_eq!(bench.counter(0, "unsolicited"), 3);
}

/// What a rule came from is told by its ends.
#[test]
fn entries_are_told_in_words() {
    let mut bench = bench(BASIC);
    udp(&mut bench, "10.0.0.1:7", "8.8.8.8:53", 0).expect("translated");
    let napt = bench.function::<Napt>(0);
    let told = |entry| napt.entry(entry).map(|entry| entry.text);
    let session = super::super::function::session_entry(1);
    let expected = "udp 10.0.0.1:7 as 192.0.2.1:7";
    assert_eq!(told(session).as_deref(), Some(expected));
    let slot = napt
        .external
        .slot(end("192.0.2.1:9"), crate::records::Kind::Tcp);
    let expected = "no session of tcp 192.0.2.1:9";
    assert_eq!(told(slot.expect("ours").0).as_deref(), Some(expected));
    assert_eq!(told(session + 7), None);
}

#[test]
fn others_pass() {
    let mut bench = bench(&BASIC.replace(", \"2001:db8::1\"", ""));
    for (from, to) in [
        ("10.0.0.1:5000", "10.9.9.9:53"),
        ("7.7.7.7:1", "8.8.8.8:2"),
        ("7.7.7.7:1", "10.0.0.1:2"),
        ("[fd00::1]:1", "[2001::1]:2"),
    ] {
        let passed = udp(&mut bench, from, to, 0);
        assert_eq!(passed, Ok((end(from), end(to))));
    }
    assert_eq!(bench.counter(0, "bindings"), 0);
}

/// RFC 4787 REQ-9: with the external endpoint as source.
#[test]
fn hosts_inside_reach_each_other_by_their_external_endpoints() {
    for filtering in ["address_dependent", "address_and_port_dependent"] {
        let mut bench = bench(&format!("filtering = '{filtering}'\n{BASIC}"));
        udp(&mut bench, "10.0.0.2:2222", "8.8.8.8:53", 0).expect("translated");
        for _ in 0..3 {
            let filtered = udp(&mut bench, "10.0.0.1:1111", "192.0.2.1:2222", 0);
            assert_eq!(filtered, REFUSED, "nothing has been sent to it");
        }
        assert!(bench.hits > 0, "by a rule at last");
        for _ in 0..2 {
            let let_in = udp(&mut bench, "10.0.0.2:2222", "192.0.2.1:1111", 0);
            assert_eq!(let_in, Ok((end("192.0.2.1:2222"), end("10.0.0.1:1111"))));
            let back = udp(&mut bench, "10.0.0.1:1111", "192.0.2.1:2222", 0);
            assert_eq!(back, Ok((end("192.0.2.1:1111"), end("10.0.0.2:2222"))));
        }
        assert_eq!(
            udp(&mut bench, "10.0.0.1:1111", "192.0.2.1:9", 0),
            REFUSED,
            "nobody's"
        );
    }
    let mut open = super::bench(BASIC);
    udp(&mut open, "10.0.0.2:2222", "8.8.8.8:53", 0).expect("translated");
    for _ in 0..2 {
        let hairpin = udp(&mut open, "10.0.0.1:1111", "192.0.2.1:2222", 0);
        assert_eq!(hairpin, Ok((end("192.0.2.1:1111"), end("10.0.0.2:2222"))));
        let back = udp(&mut open, "10.0.0.2:2222", "192.0.2.1:1111", 0);
        assert_eq!(back, Ok((end("192.0.2.1:2222"), end("10.0.0.1:1111"))));
    }
    assert!(open.hits >= 2);
}

/// RFC 4787 REQ-5, REQ-6, RFC 7857 §7.
#[test]
fn hits_in_either_direction_keep_a_binding() {
    let mut bench = bench(BASIC);
    udp(&mut bench, "10.0.0.1:5000", "8.8.8.8:53", 0).expect("translated");
    for seconds in [0, 250, 500, 750] {
        udp(&mut bench, "8.8.8.8:53", "192.0.2.1:5000", seconds).expect("let in");
    }
    assert_eq!(bench.hits, 3);
    bench.tick(at(1000));
    let kept = udp(&mut bench, "10.0.0.1:5000", "8.8.8.8:53", 1050);
    assert_eq!(kept.expect("translated").0, end("192.0.2.1:5000"));
    assert_eq!((bench.counter(0, "bindings_created"), bench.waits), (1, 1));
    udp(&mut bench, "8.8.8.8:53", "192.0.2.1:5000", 1350).expect("300 s after that");
    assert_eq!(
        udp(&mut bench, "8.8.8.8:53", "192.0.2.1:5000", 1651),
        REFUSED,
        "301 s later"
    );
    assert_eq!(bench.counter(0, "bindings"), 0);
}

/// RFC 4787 REQ-2, RFC 6888 REQ-2, RFC 7857 §4.
#[test]
fn a_host_keeps_one_external_address_unless_told_otherwise() {
    let text = r#"
        inside = ["10.0.0.0/8"]
        external = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
        ports = "5000-5003"
        assignment = "preserve"
    "#;
    let mut used = std::collections::HashSet::new();
    for host in 1..20 {
        let mut bench = bench(text);
        let mut addresses = std::collections::HashSet::new();
        for port in 6000..6006 {
            let from = Endpoint::v4([10, 0, 0, host], port);
            let sent = send(&mut bench, PacketBuilder::udp(from, end("8.8.8.8:1")), 0);
            match ends(sent) {
                Ok((source, _)) => _ = addresses.insert(source.address),
                Err(reason) => assert_eq!((reason, port >= 6004), (DropReason::NoPort, true)),
            }
        }
        assert_eq!(
            (addresses.len(), bench.counter(0, "ports_exhausted")),
            (1, 2)
        );
        used.extend(addresses);
    }
    assert_eq!(used.len(), 3, "hosts are spread");
    let mut bench = bench(&format!("pooling = 'arbitrary'\n{text}"));
    for port in 6000..6012 {
        let from = Endpoint::v4([10, 0, 0, 1], port);
        assert!(
            ends(send(
                &mut bench,
                PacketBuilder::udp(from, end("8.8.8.8:1")),
                0
            ))
            .is_ok()
        );
    }
    assert_eq!(
        udp(&mut bench, "10.0.0.1:7000", "8.8.8.8:1", 0),
        Err(DropReason::NoPort)
    );
    assert!(
        udp(&mut bench, "10.0.0.1:7000", "8.8.8.8:1", 301).is_ok(),
        "others have expired"
    );
}

#[test]
fn a_full_table_makes_room_of_what_has_expired() {
    let mut bench = bench(&format!("sessions = 2\n{BASIC}"));
    for port in 1..=2 {
        udp(&mut bench, &format!("10.0.0.1:{port}"), "8.8.8.8:1", 0).expect("translated");
    }
    let full = udp(&mut bench, "10.0.0.1:3", "8.8.8.8:1", 299);
    assert_eq!(full, Err(DropReason::SessionTableFull));
    // Rules of both outlive them: one of them goes.
    assert!(udp(&mut bench, "10.0.0.1:3", "8.8.8.8:1", 301).is_ok());
    assert_eq!(bench.counter(0, "sessions_exhausted"), 1);
}

/// What seems to be over and has been used by rules since is not.
#[test]
fn a_full_table_ends_no_session_that_rules_use() {
    let mut bench = bench(&format!("sessions = 2\n{BASIC}"));
    for port in [1, 2, 1, 2] {
        udp(&mut bench, &format!("10.0.0.1:{port}"), "8.8.8.8:1", 0).expect("translated");
    }
    for port in [1, 2] {
        let late = udp(&mut bench, &format!("10.0.0.1:{port}"), "8.8.8.8:1", 200);
        late.expect("by a rule");
    }
    assert_eq!(bench.hits, 4);
    let full = udp(&mut bench, "10.0.0.1:3", "8.8.8.8:1", 400);
    assert_eq!(full, Err(DropReason::SessionTableFull));
    assert_eq!(bench.rules(), 2, "both stay");
    assert!(udp(&mut bench, "10.0.0.1:3", "8.8.8.8:1", 501).is_ok());
}

/// RFC 5508 REQ-1: to whomever they go.
#[test]
fn echoes_are_translated_by_their_identifier() {
    let mut bench = bench(BASIC);
    for host in 1..3 {
        let from = Endpoint::v4([10, 0, 0, host], 77);
        let request = PacketBuilder::icmp_echo(from, end("8.8.8.8:0"));
        let (source, _) = ends(send(&mut bench, request, 0)).expect("translated");
        assert_eq!(source.port == 77, host == 1);
        let other = PacketBuilder::icmp_echo(from, end("9.9.9.9:0"));
        let (same, _) = ends(send(&mut bench, other, 0)).expect("translated");
        assert_eq!(same, source);
        let reply =
            PacketBuilder::icmp_echo(Endpoint::new(end("8.8.8.8:0").address, source.port), source);
        for _ in 0..2 {
            let (_, to) = ends(send(&mut bench, reply.echo_reply(), 0)).expect("let in");
            assert_eq!(to, from);
        }
    }
    assert_eq!(bench.hits, 2);
}

/// RFC 5508 REQ-7, RFC 7857 §12: a host inside asks another by what stands for it, a mapping or a whole address. The
/// request bears what stands for the sender, by which the answer comes back; so does an error.
#[test]
fn hosts_inside_answer_each_others_echoes() {
    let whole = "forward = [{ external = '192.0.2.9', to = '10.0.0.9' }]\n";
    for (external, asked) in [("192.0.2.1:500", "10.0.0.2"), ("192.0.2.9:500", "10.0.0.9")] {
        let mut bench = bench(&format!("{whole}{BASIC}"));
        let (shown, asks) = (end(external), end("10.0.0.1:500"));
        for host in [end("10.0.0.2:500"), asks] {
            send(
                &mut bench,
                PacketBuilder::icmp_echo(host, end("8.8.8.8:0")),
                0,
            );
        }
        for _ in 0..3 {
            let request = send(&mut bench, PacketBuilder::icmp_echo(asks, shown), 0);
            let (received, _) = request.departed();
            let (from, to) = ends(request).expect("reaches it");
            assert_eq!(
                (from.address, to.address),
                (
                    end("192.0.2.1:0").address,
                    end(&format!("{asked}:0")).address
                )
            );
            assert_ne!(to.port, 500, "that is the other's");
            let answer = PacketBuilder::icmp_echo(to, from).echo_reply();
            assert_eq!(
                ends(send(&mut bench, answer, 0)),
                Ok((Endpoint::new(shown.address, 500), asks))
            );
            let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 1 }, &received);
            let error = error.to_vec().expect("fits");
            let (bytes, layout) = bench.process(&error, 0, at(0)).departed();
            assert_eq!(fields::destination(&bytes, &layout).address, asks.address);
            assert_eq!(fields::inner_source(&bytes, &layout), Some(asks));
        }
        assert_eq!(bench.hits, 0, "rules cannot tell requests");
        assert_eq!(bench.counter(0, "hairpinned"), 6);
    }
}

/// RFC 7857 §7.1: who is kept out keeps nothing alive.
#[test]
fn what_is_dropped_keeps_nothing_alive() {
    let mut bench = bench(&format!("filtering = 'address_dependent'\n{BASIC}"));
    udp(&mut bench, "10.0.0.1:5000", "8.8.8.8:53", 0).expect("translated");
    for seconds in [100, 200, 300] {
        let kept_out = udp(&mut bench, "7.7.7.7:53", "192.0.2.1:5000", seconds);
        assert_eq!(kept_out, REFUSED);
    }
    assert_eq!(
        udp(&mut bench, "8.8.8.8:53", "192.0.2.1:5000", 301),
        REFUSED
    );
}

/// RFC 5508 REQ-2, RFC 7857 §11.
#[test]
fn echoes_keep_a_mapping_for_a_minute() {
    let mut bench = bench(BASIC);
    let request = PacketBuilder::icmp_echo(end("10.0.0.1:77"), end("8.8.8.8:0"));
    send(&mut bench, request, 0).packet.expect("translated");
    let reply = PacketBuilder::icmp_echo(end("8.8.8.8:77"), end("192.0.2.1:77")).echo_reply();
    send(&mut bench, reply, 60).packet.expect("let in");
    assert!(send(&mut bench, reply, 121).packet.is_err());
}

/// RFC 5508 REQ-11.
#[test]
fn what_has_no_ports_is_dropped() {
    let mut bench = bench(BASIC);
    let gre = PacketBuilder::raw(
        protocol::GRE,
        end("10.0.0.1:0").address,
        end("8.8.8.8:0").address,
    );
    let part = gre.payload_len(64).fragment(0, true);
    assert_eq!(send(&mut bench, part, 0).packet, Err(DropReason::Fragment));
    assert_eq!(
        send(&mut bench, gre, 0).packet,
        Err(DropReason::UntranslatableProtocol)
    );
    let gre = PacketBuilder::raw(
        protocol::GRE,
        end("10.0.0.1:0").address,
        end("10.0.0.2:0").address,
    );
    assert!(send(&mut bench, gre, 0).packet.is_ok(), "not translated");
    // RFC 5508 REQ-11: a request for a timestamp.
    let request = [
        13, 0, 0xf2, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let ends_of = [end("10.0.0.1:0"), end("8.8.8.8:0")].map(|end| end.address);
    let request = PacketBuilder::raw(protocol::ICMP, ends_of[0], ends_of[1]).payload(&request);
    let request = request.to_vec().expect("fits");
    let asked = bench.process(&request, 0, at(0)).packet;
    assert_eq!(asked, Err(DropReason::UntranslatableProtocol));
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&protocol::ETHER_ARP.to_be_bytes());
    assert!(bench.process(&arp, 0, at(0)).packet.is_ok());
    assert_eq!(bench.counter(0, "untranslatable"), 3);
    let options = PacketBuilder::udp(end("10.0.0.1:1"), end("8.8.8.8:1")).ipv4_options(&[1; 4]);
    assert_eq!(
        ends(send(&mut bench, options, 0)),
        Ok((end("192.0.2.1:1"), end("8.8.8.8:1")))
    );
}

/// RFC 4787 REQ-7: networks of one number on both sides are refused.
#[test]
fn a_wrong_configuration_says_what_was_expected() {
    for (extra, expected) in [
        ("ports = '9-1'", "expected a range from 1 to 65535"),
        ("sessions = 0", "sessions = 0 is not from 1 to"),
        ("timeouts = { udp = 'soon' }", "expected a duration"),
        (
            "timeouts = { tcp_established = '1m' }",
            "tcp_transitory = 4m is longer",
        ),
        ("filtering = 'none'", "address_dependent"),
    ] {
        let message = toml::from_str::<Config>(&format!("{extra}\n{BASIC}"))
            .expect_err(extra)
            .to_string();
        assert!(message.contains(expected), "{message}");
    }
    for (from, to, expected) in [
        ("192.0.2.1", "10.1.1.1", "lies within 10.0.0.0/8"),
        ("\"2001:db8::1\"", "\"192.0.2.1\"", "is in external twice"),
        (
            "\"192.0.2.1\", \"2001:db8::1\"",
            "",
            "0 addresses in external",
        ),
        ("10.0.0.0/8", "10.0.0.1/8", "meant was perhaps 10.0.0.0/8"),
        ("192.0.2.1", "here", "\"here\" is"),
    ] {
        let message = toml::from_str::<Config>(&BASIC.replace(from, to))
            .expect_err(to)
            .to_string();
        assert!(message.contains(expected), "{message}");
    }
}
