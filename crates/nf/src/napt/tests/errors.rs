use super::*;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::tcp::flags::{ACK, FIN, SYN};

const PORT: IcmpError = IcmpError::Unreachable { code: 3 };

/// Ends of the error and of the packet that it quotes.
type AllEnds = [Endpoint; 4];

fn error(bench: &mut Bench, offending: &[u8], from: Option<&str>) -> Result<AllEnds, DropReason> {
    let mut packet = PacketBuilder::icmp_error(PORT, offending);
    if let Some(from) = from {
        packet = packet.source_address(end(from).address);
    }
    let frame = packet.to_vec().expect("fits");
    let outcome = bench.process(&frame, 0, at(0));
    outcome.packet.as_ref().map_err(|reason| *reason)?;
    let (bytes, layout) = outcome.departed();
    let (source, destination) = ends_of(&bytes, &layout);
    let inner =
        fields::inner_source(&bytes, &layout).zip(fields::inner_destination(&bytes, &layout));
    let (inner_source, inner_destination) = inner.expect("quoted");
    Ok([source, destination, inner_source, inner_destination])
}

fn packet(from: &str, to: &str) -> Vec<u8> {
    PacketBuilder::udp(end(from), end(to))
        .payload_len(9)
        .to_vec()
        .expect("fits")
}

fn all(ends: [&str; 4]) -> Result<AllEnds, DropReason> {
    Ok(ends.map(end))
}

/// RFC 5508 REQ-4: of a server and of a router on the way.
#[test]
fn errors_from_outside_reach_the_host_inside() {
    let mut bench = bench(BASIC);
    let sent = bench
        .process(&packet("10.0.0.1:5000", "8.8.8.8:53"), 0, at(0))
        .departed()
        .0;
    let from_server = error(&mut bench, &sent, None);
    assert_eq!(
        from_server,
        all(["8.8.8.8:0", "10.0.0.1:0", "10.0.0.1:5000", "8.8.8.8:53"])
    );
    let from_router = error(&mut bench, &sent, Some("7.7.7.7:0"));
    assert_eq!(
        from_router,
        all(["7.7.7.7:0", "10.0.0.1:0", "10.0.0.1:5000", "8.8.8.8:53"])
    );
    let unknown = error(&mut bench, &packet("192.0.2.1:5002", "8.8.8.8:53"), None);
    assert_eq!(unknown, Err(DropReason::IcmpSession));
    assert_eq!(bench.counter(0, "errors_translated"), 2);
    assert_eq!(bench.counter(0, "errors_dropped"), 1);
}

/// RFC 5382 REQ-9: about a segment, too.
#[test]
fn errors_about_connections_reach_the_host_inside() {
    let mut bench = bench(BASIC);
    let (host, server) = ("10.0.0.1:5000", "8.8.8.8:80");
    let opening = PacketBuilder::tcp(end(host), end(server)).flags(SYN);
    let opening = opening.to_vec().expect("fits");
    let sent = bench.process(&opening, 0, at(0)).departed().0;
    let told = error(&mut bench, &sent, Some("7.7.7.7:0"));
    assert_eq!(told, all(["7.7.7.7:0", "10.0.0.1:0", host, server]));
}

/// RFC 5927 §4.1: a quoted segment of a host is one that it has sent, as far as is known.
#[test]
fn errors_quote_what_the_host_has_sent() {
    let mut bench = bench(BASIC);
    let (host, server) = ("10.0.0.1:5000", "8.8.8.8:80");
    let send = |bench: &mut Bench, flags, number: u32| {
        let segment = PacketBuilder::tcp(end(host), end(server)).flags(flags);
        let frame = segment.seq(number).ack(9).to_vec().expect("fits");
        bench.process(&frame, 0, at(0)).departed().0
    };
    let answer = |bench: &mut Bench, flags| {
        let external = end("192.0.2.1:5000");
        let segment = PacketBuilder::tcp(end(server), external).flags(flags);
        let frame = segment.seq(8).ack(101).to_vec().expect("fits");
        assert!(bench.process(&frame, 0, at(0)).packet.is_ok());
    };
    let quoting = |bench: &mut Bench, number: u32| {
        let segment = PacketBuilder::tcp(end("192.0.2.1:5000"), end(server)).flags(ACK);
        let frame = segment.seq(number).to_vec().expect("fits");
        error(bench, &frame, Some("7.7.7.7:0")).map(|_| ())
    };
    let refused = Err(DropReason::IcmpQuote);
    send(&mut bench, SYN, 100);
    for (number, expected) in [
        (100, Ok(())),
        (99, refused),
        (101, refused),
        (1 << 31, refused),
    ] {
        assert_eq!(quoting(&mut bench, number), expected, "{number}");
    }
    // Somebody outside changes nothing of that.
    answer(&mut bench, SYN | ACK);
    answer(&mut bench, ACK);
    assert_eq!(quoting(&mut bench, 5000), refused);
    send(&mut bench, ACK, 101);
    for (number, expected) in [
        (100, Ok(())),
        (5000, Ok(())),
        (101 + 0xffff, Ok(())),
        (102 + 0xffff, refused),
        (1 << 31, refused),
    ] {
        assert_eq!(quoting(&mut bench, number), expected, "{number}");
    }
    // By rules, and far beyond the window, which the server's SYN has not scaled.
    let (hits, rules) = (bench.hits, bench.rules() + 1);
    (1..=20).for_each(|part| _ = send(&mut bench, ACK, part * 10_000));
    assert_eq!(bench.hits, hits + 19);
    for (number, expected) in [(200_000, Ok(())), (140_000, Ok(())), (101, refused)] {
        assert_eq!(quoting(&mut bench, number), expected, "{number}");
        assert_eq!(bench.rules(), rules, "an error takes none");
    }
    send(&mut bench, ACK | FIN, 300_000);
    for (number, expected) in [
        (300_000, Ok(())),
        (250_000, Ok(())),
        (200_000, refused),
        (1 << 31, refused),
        (300_100, refused),
    ] {
        assert_eq!(quoting(&mut bench, number), expected, "{number}");
    }
    assert_eq!(bench.counter(0, "icmp_errors_out_of_window"), 10);
}

/// RFC 5508 REQ-5.
#[test]
fn errors_from_inside_show_nothing_of_it() {
    let mut bench = bench(BASIC);
    bench.process(&packet("10.0.0.1:5000", "8.8.8.8:53"), 0, at(0));
    let received = bench
        .process(&packet("8.8.8.8:53", "192.0.2.1:5000"), 0, at(0))
        .departed()
        .0;
    let from_host = error(&mut bench, &received, None);
    assert_eq!(
        from_host,
        all(["192.0.2.1:0", "8.8.8.8:0", "8.8.8.8:53", "192.0.2.1:5000"])
    );
    for router in ["10.9.9.9:0", "203.0.113.254:0"] {
        let from_router = error(&mut bench, &received, Some(router));
        assert_eq!(from_router, from_host);
    }
}

/// RFC 5508 REQ-7, RFC 7857 §12: with the external address as source.
#[test]
fn errors_between_hosts_inside() {
    let mut bench = bench(BASIC);
    bench.process(&packet("10.0.0.2:2222", "8.8.8.8:53"), 0, at(0));
    let received = bench
        .process(&packet("10.0.0.1:1111", "192.0.2.1:2222"), 0, at(0))
        .departed()
        .0;
    let back = error(&mut bench, &received, None);
    assert_eq!(
        back,
        all([
            "192.0.2.1:0",
            "10.0.0.1:0",
            "10.0.0.1:1111",
            "192.0.2.1:2222"
        ])
    );
}

/// RFC 5508 REQ-6, RFC 7857 §7.1.
#[test]
fn errors_keep_nothing_alive_and_pass_where_nothing_is_translated() {
    let mut bench = bench(BASIC);
    let past = error(&mut bench, &packet("7.7.7.7:1", "8.8.8.8:53"), None);
    assert_eq!(
        past,
        all(["8.8.8.8:0", "7.7.7.7:0", "7.7.7.7:1", "8.8.8.8:53"])
    );
    let sent = bench
        .process(&packet("10.0.0.1:5000", "8.8.8.8:53"), 0, at(0))
        .departed()
        .0;
    let frame = PacketBuilder::icmp_error(PORT, &sent)
        .to_vec()
        .expect("fits");
    assert!(bench.process(&frame, 0, at(300)).packet.is_ok());
    assert!(bench.process(&frame, 0, at(301)).packet.is_err());
}

/// RFC 4787 REQ-12, RFC 5382 REQ-10, RFC 5508 REQ-6: a session lives as long as without the error.
#[test]
fn errors_end_nothing() {
    let (host, server, external) = (
        end("10.0.0.1:5000"),
        end("8.8.8.8:53"),
        end("192.0.2.1:5000"),
    );
    let tcp = |from, to, flags| PacketBuilder::tcp(from, to).flags(flags);
    let opened = [
        tcp(host, server, SYN),
        tcp(server, external, SYN | ACK),
        tcp(host, server, ACK),
    ];
    for (said, answer, last) in [
        (
            vec![PacketBuilder::udp(host, server)],
            PacketBuilder::udp(server, external),
            300,
        ),
        (opened.to_vec(), tcp(server, external, ACK), 7000),
    ] {
        let mut bench = bench(BASIC);
        let mut left = Vec::new();
        for packet in said {
            left = bench
                .process(&packet.to_vec().expect("fits"), 0, at(0))
                .departed()
                .0;
        }
        assert!(error(&mut bench, &left, None).is_ok());
        let answer = answer.to_vec().expect("fits");
        assert!(
            bench.process(&answer, 0, at(last)).packet.is_ok(),
            "after {last} s"
        );
    }
}

/// Whoever is outside must not reach a host inside by its own address, whatever it quotes.
/// (RFC 5508 REQ-4.)
#[test]
fn errors_straight_to_hosts_inside_are_dropped() {
    let mut bench = bench(BASIC);
    let sent = bench
        .process(&packet("10.0.0.1:5000", "8.8.8.8:53"), 0, at(0))
        .departed()
        .0;
    for quoted in [
        packet("10.0.0.1:5000", "8.8.8.8:53"),
        packet("10.0.0.2:1", "8.8.8.8:53"),
        packet("10.0.0.1:1", "10.0.0.2:2"),
    ] {
        let dropped = error(&mut bench, &quoted, Some("8.8.8.8:0"));
        assert_eq!(dropped, Err(DropReason::IcmpSession));
    }
    let v6 = packet("[fd00::1]:1", "[2001:db8:8::8]:53");
    assert_eq!(error(&mut bench, &v6, None), Err(DropReason::IcmpSession));
    let quoted = packet("10.0.0.1:5000", "8.8.8.8:53");
    let whole = PacketBuilder::icmp_error(PORT, &quoted);
    let first = whole.fragment(0, true).to_vec().expect("fits");
    let outcome = bench.process(&first, 0, at(0));
    assert_eq!(outcome.packet, Err(DropReason::Fragment), "nor in parts");
    assert_eq!(bench.counter(0, "errors_dropped"), 5);
    assert!(error(&mut bench, &sent, None).is_ok());
}

/// RFC 5508 REQ-3: checksums of the error and of the header that it quotes.
#[test]
fn errors_that_do_not_answer_for_themselves_are_dropped() {
    let mut bench = bench(&BASIC.replace("192.0.2.1\"", "192.0.2.1\", \"192.0.2.2\""));
    let sent = bench
        .process(&packet("10.0.0.1:5000", "8.8.8.8:53"), 0, at(0))
        .departed()
        .0;
    let good = PacketBuilder::icmp_error(PORT, &sent);
    let good = good.to_vec().expect("fits");
    let layout = twinpath_core::wire::dissect(&good).expect("well formed");
    let (quote, message) = (usize::from(layout.payload), usize::from(layout.l4));
    // To another external address than the one that has sent the quoted packet.
    let mut other = good.clone();
    let external = end("192.0.2.1:0").address == fields::destination(&good, &layout).address;
    let there = if external {
        "192.0.2.2:0"
    } else {
        "192.0.2.1:0"
    };
    twinpath_core::wire::rewrite::set_destination(&mut other, &layout, end(there)).expect("IPv4");
    let mut damaged = good.clone();
    damaged[message + 2] ^= 1;
    // The quoted header's checksum, with an outer one that holds.
    let mut damaged_quote = good.clone();
    damaged_quote[quote + 8] ^= 1;
    twinpath_core::wire::rewrite::refresh_checksums(&mut damaged_quote, &layout).expect("whole");
    let gateway = end("8.8.8.1:0").address;
    let redirect = IcmpError::Redirect { code: 1, gateway };
    let redirect = PacketBuilder::icmp_error(redirect, &sent)
        .to_vec()
        .expect("fits");
    for (frame, reason) in [
        (other, DropReason::IcmpRecipient),
        (damaged, DropReason::BadChecksum),
        (damaged_quote, DropReason::IcmpQuote),
        (redirect, DropReason::IcmpType),
    ] {
        let outcome = bench.process(&frame, 0, at(0));
        assert_eq!(outcome.packet, Err(reason));
    }
    assert!(bench.process(&good, 0, at(0)).packet.is_ok());
    assert_eq!(bench.counter(0, "errors_dropped"), 4);
    assert_eq!(bench.counter(0, "errors_translated"), 1);
}
