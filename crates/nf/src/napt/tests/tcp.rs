use super::*;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};

fn tcp(
    bench: &mut Bench,
    from: &str,
    to: &str,
    flags: u8,
    seconds: u64,
) -> Result<(Endpoint, Endpoint), DropReason> {
    let segment = PacketBuilder::tcp(end(from), end(to)).flags(flags);
    ends(send(bench, segment, seconds))
}

/// Both ends have sent nothing but their SYN, and acknowledge each other's FIN with their own if it
/// comes second.
fn fin(bench: &mut Bench, from: &str, to: &str, is_second: bool, seconds: u64) {
    let segment = PacketBuilder::tcp(end(from), end(to)).flags(FIN | ACK);
    // Nine bytes and the FIN.
    let segment = segment.seq(1).ack(if is_second { 11 } else { 1 });
    ends(send(bench, segment, seconds)).expect("closes");
}

const HOST: &str = "10.0.0.1:5000";
const SERVER: &str = "8.8.8.8:80";
const EXTERNAL: &str = "192.0.2.1:5000";

fn connect(bench: &mut Bench, seconds: u64) {
    tcp(bench, HOST, SERVER, SYN, seconds).expect("opens");
    tcp(bench, SERVER, EXTERNAL, SYN | ACK, seconds).expect("answers");
    tcp(bench, HOST, SERVER, ACK, seconds).expect("established");
}

#[test]
fn only_plain_segments_of_an_established_connection_are_cached() {
    let mut bench = bench(BASIC);
    connect(&mut bench, 0);
    assert_eq!(bench.hits, 0);
    for _ in 0..3 {
        tcp(&mut bench, HOST, SERVER, ACK, 0).expect("data");
        tcp(&mut bench, SERVER, EXTERNAL, ACK, 0).expect("data");
    }
    assert_eq!(bench.hits, 4);
    for flags in [SYN, FIN | ACK, RST] {
        tcp(&mut bench, HOST, SERVER, flags, 0).expect("translated");
        tcp(&mut bench, SERVER, EXTERNAL, flags, 0).expect("translated");
    }
    assert_eq!(bench.hits, 4);
}

/// RFC 5382 REQ-5, RFC 7857 §2.1.
#[test]
fn time_outs_are_those_of_the_state() {
    let mut bench = bench(BASIC);
    connect(&mut bench, 0);
    assert!(tcp(&mut bench, SERVER, EXTERNAL, ACK, 7440).is_ok());
    assert!(
        tcp(&mut bench, SERVER, EXTERNAL, ACK, 14_881).is_err(),
        "one second too late"
    );
    connect(&mut bench, 20_000);
    fin(&mut bench, HOST, SERVER, false, 20_000);
    assert!(
        tcp(&mut bench, SERVER, EXTERNAL, ACK, 21_000).is_ok(),
        "half closed"
    );
    fin(&mut bench, SERVER, EXTERNAL, true, 21_000);
    assert!(tcp(&mut bench, HOST, SERVER, ACK, 21_240).is_ok());
    assert!(tcp(&mut bench, SERVER, EXTERNAL, ACK, 21_481).is_err());
    tcp(&mut bench, HOST, SERVER, SYN, 30_000).expect("opens");
    assert!(
        tcp(&mut bench, SERVER, EXTERNAL, SYN | ACK, 30_241).is_err(),
        "never answered"
    );
    let mut bench = super::bench(&format!("timeouts = {{ tcp_transitory = '5m' }}\n{BASIC}"));
    tcp(&mut bench, HOST, SERVER, SYN, 0).expect("opens");
    assert!(tcp(&mut bench, SERVER, EXTERNAL, SYN | ACK, 300).is_ok());
}

/// A reset of the host shortens the connection's life only if both ends are silent after it (RFC 7857
/// §2.2).
/// The same holds for RFC 6146 §3.5.2.2.
#[test]
fn a_reset_that_nobody_takes_ends_nothing() {
    let mut bench = bench(BASIC);
    for (from, to) in [(SERVER, EXTERNAL), (HOST, SERVER)] {
        connect(&mut bench, 0);
        for _ in 0..3 {
            tcp(&mut bench, HOST, SERVER, ACK, 0).expect("data, by rules at last");
            tcp(&mut bench, SERVER, EXTERNAL, ACK, 0).expect("data");
        }
        tcp(&mut bench, from, to, RST, 0).expect("translated");
        for _ in 0..3 {
            tcp(&mut bench, HOST, SERVER, ACK, 100).expect("goes on");
        }
        let late = tcp(&mut bench, SERVER, EXTERNAL, ACK, 7000);
        assert!(late.is_ok(), "established as before");
        bench = super::bench(BASIC);
    }
    connect(&mut bench, 0);
    tcp(&mut bench, HOST, SERVER, RST, 0).expect("translated");
    let over = tcp(&mut bench, SERVER, EXTERNAL, ACK, 241);
    assert!(over.is_err(), "both have been silent for four minutes");
}

/// Anybody outside can send as many as he likes, so that none of them may take a rule.
#[test]
fn what_does_not_count_leaves_rules_in_place() {
    let mut bench = bench(BASIC);
    connect(&mut bench, 0);
    for _ in 0..2 {
        tcp(&mut bench, HOST, SERVER, ACK, 0).expect("data");
        tcp(&mut bench, SERVER, EXTERNAL, ACK, 0).expect("data");
    }
    let rules = bench.rules();
    assert_eq!(rules, 2);
    for number in 77_000..77_005 {
        let forged = PacketBuilder::tcp(end(SERVER), end(EXTERNAL)).seq(number);
        for flags in [RST, SYN, RST | ACK] {
            ends(send(&mut bench, forged.flags(flags), 1)).expect("translated");
            assert_eq!(bench.rules(), rules, "{flags:#x}");
        }
        let hits = bench.hits;
        tcp(&mut bench, HOST, SERVER, ACK, 2).expect("by a rule");
        tcp(&mut bench, SERVER, EXTERNAL, ACK, 2).expect("by a rule");
        assert_eq!(bench.hits, hits + 2);
    }
    // The host takes one of them, and opens anew: now it counts.
    tcp(&mut bench, HOST, SERVER, SYN, 3).expect("opens");
    assert_eq!(bench.rules(), 0);
}

/// RFC 7857 §2.2, RFC 6146 §3.5.2.2: a reset or a FIN from outside may be anybody's: it does not shorten a connection's life, however
/// long both ends are silent, unless it has the numbers that the host's own FIN has told.
#[test]
fn nobody_outside_shortens_a_connection() {
    let forged = |flags| {
        let segment = PacketBuilder::tcp(end(SERVER), end(EXTERNAL)).flags(flags);
        segment.seq(99_999).ack(77_777)
    };
    let late = |bench: &mut Bench| tcp(bench, SERVER, EXTERNAL, ACK, 300);
    for flags in [RST, RST | ACK, FIN | ACK] {
        for host_ends in [false, true] {
            let mut bench = bench(BASIC);
            connect(&mut bench, 0);
            if host_ends {
                fin(&mut bench, HOST, SERVER, false, 0);
            }
            send(&mut bench, forged(flags), 0).departed();
            assert_eq!(late(&mut bench), Ok((end(SERVER), end(HOST))), "{flags}");
        }
        let mut bench = bench(BASIC);
        connect(&mut bench, 0);
        send(&mut bench, forged(flags), 0).departed();
        fin(&mut bench, HOST, SERVER, false, 0);
        assert!(late(&mut bench).is_ok(), "{flags}");
    }
    let mut bench = bench(BASIC);
    connect(&mut bench, 0);
    fin(&mut bench, HOST, SERVER, false, 0);
    let exact = PacketBuilder::tcp(end(SERVER), end(EXTERNAL)).flags(RST);
    send(&mut bench, exact.seq(1), 0).departed();
    assert!(late(&mut bench).is_err(), "the server's own");
}

/// RFC 7857 §2.2, RFC 6146 §3.5.2.2, RFC 5961 §3.2: a reset from outside counts at the number that the host
/// expects, also where rules have translated all that tells of it; data brings the connection back.
#[test]
fn a_reset_with_the_number_that_the_host_expects_counts() {
    let data = |bench: &mut Bench, number: u32| {
        let segment = PacketBuilder::tcp(end(HOST), end(SERVER)).flags(ACK);
        send(bench, segment.seq(100).ack(number), 0).departed();
    };
    let reset = |bench: &mut Bench, number: u32| {
        let segment = PacketBuilder::tcp(end(SERVER), end(EXTERNAL)).flags(RST);
        send(bench, segment.seq(number), 0).departed();
    };
    for (number, ends) in [
        (50_000, true),
        (49_999, false),
        (50_001, false),
        (1000, false),
    ] {
        for goes_on in [false, true] {
            let mut bench = bench(BASIC);
            connect(&mut bench, 0);
            let hits = bench.hits;
            (1..=50).for_each(|part| data(&mut bench, part * 1000));
            assert!(bench.hits > hits + 40, "by rules");
            reset(&mut bench, number);
            if goes_on {
                data(&mut bench, 50_000);
            }
            let late = tcp(&mut bench, SERVER, EXTERNAL, ACK, 300);
            assert_eq!(late.is_err(), ends && !goes_on, "{number} {goes_on}");
        }
    }
}

/// RFC 7857 §2.2: both ends send FIN at once; each is acknowledged by a segment without flags.
#[test]
fn connections_whose_fins_cross_are_over() {
    for acknowledges in [false, true] {
        let mut bench = bench(BASIC);
        connect(&mut bench, 0);
        fin(&mut bench, HOST, SERVER, false, 0);
        fin(&mut bench, SERVER, EXTERNAL, false, 0);
        let number = if acknowledges { 11 } else { 1 };
        for _ in 0..3 {
            let last = PacketBuilder::tcp(end(HOST), end(SERVER)).flags(ACK);
            send(&mut bench, last.seq(11).ack(number), 0).departed();
        }
        let late = tcp(&mut bench, SERVER, EXTERNAL, ACK, 300);
        assert_eq!(late.is_err(), acknowledges);
    }
}

/// RFC 5382 REQ-1, REQ-7: one external endpoint whoever the server is, and no other host's.
#[test]
fn connections_of_one_endpoint_have_one_mapping() {
    let mut bench = bench(BASIC);
    for server in [SERVER, "8.8.8.8:81", "9.9.9.9:443"] {
        let opened = tcp(&mut bench, HOST, server, SYN, 0);
        assert_eq!(opened, Ok((end(EXTERNAL), end(server))));
    }
    let mut taken = std::collections::HashSet::from([end(EXTERNAL)]);
    for host in 2..200 {
        let from = format!("10.0.0.{host}:5000");
        let (source, _) = tcp(&mut bench, &from, SERVER, SYN, 0).expect("opens");
        assert!(taken.insert(source), "{source} is another's");
    }
}

/// RFC 5382 REQ-2, REQ-3, REQ-4.
#[test]
fn connections_from_outside_need_a_binding_and_a_filter_that_lets_them_in() {
    let other = "7.7.7.7:99";
    let same_host = "8.8.8.8:99";
    for (filtering, expected) in [
        ("endpoint_independent", [true, true]),
        ("address_dependent", [true, false]),
        ("address_and_port_dependent", [false, false]),
    ] {
        let mut bench = bench(&format!("filtering = '{filtering}'\n{BASIC}"));
        let unexpected = PacketBuilder::tcp(end(other), end(EXTERNAL)).flags(SYN);
        let outcome = send(&mut bench, unexpected, 0);
        assert!(outcome.packet.is_err(), "no binding");
        assert!(outcome.replies.is_empty(), "and no word");
        tcp(&mut bench, HOST, SERVER, SYN, 0).expect("opens");
        assert!(
            tcp(&mut bench, other, EXTERNAL, ACK, 0).is_err(),
            "opens nothing"
        );
        let let_in = [same_host, other].map(|from| tcp(&mut bench, from, EXTERNAL, SYN, 0).is_ok());
        assert_eq!(let_in, expected, "{filtering}");
        assert!(
            tcp(&mut bench, SERVER, EXTERNAL, SYN, 0).is_ok(),
            "simultaneous open"
        );
    }
}

#[test]
fn mid_stream_is_picked_up_or_not() {
    let mut bench = bench(BASIC);
    assert!(tcp(&mut bench, HOST, SERVER, ACK, 0).is_ok());
    assert_eq!(
        tcp(&mut bench, "10.0.0.2:1", SERVER, RST, 0),
        Err(DropReason::InvalidState)
    );
    let mut strict = super::bench(&format!("pick_up = false\n{BASIC}"));
    assert_eq!(
        tcp(&mut strict, HOST, SERVER, ACK, 0),
        Err(DropReason::InvalidState)
    );
    assert_eq!(
        tcp(&mut strict, HOST, SERVER, SYN | ACK, 0),
        Err(DropReason::InvalidState)
    );
    assert!(tcp(&mut strict, HOST, SERVER, SYN, 0).is_ok());
    assert_eq!(strict.counter(0, "not_picked_up"), 2);
}

/// RFC 5382 REQ-8: with the external endpoint as source.
#[test]
fn connections_between_hosts_inside() {
    let mut bench = bench(BASIC);
    tcp(&mut bench, "10.0.0.2:80", SERVER, SYN, 0).expect("a binding");
    let there = (HOST, "192.0.2.1:80");
    let back = ("10.0.0.2:80", EXTERNAL);
    for (way, flags) in [
        (there, SYN),
        (back, SYN | ACK),
        (there, ACK),
        (back, ACK),
        (there, ACK),
    ] {
        let (source, _) = tcp(&mut bench, way.0, way.1, flags, 0).expect("translated");
        let external = if way == there { EXTERNAL } else { there.1 };
        assert_eq!(source, end(external));
    }
    let hits = bench.hits;
    tcp(&mut bench, there.0, there.1, ACK, 0).expect("cached");
    assert_eq!(bench.hits, hits + 1);
    let own = tcp(&mut bench, HOST, EXTERNAL, SYN, 0);
    assert_eq!(own, Ok((end(EXTERNAL), end(HOST))), "to itself");
}
