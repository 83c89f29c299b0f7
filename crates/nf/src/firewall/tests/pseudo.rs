//! What is no TCP: datagrams, echoes, ICMP errors, other protocols.

use std::time::Duration;

use twinpath_core::DropReason::{BadChecksum, Denied, InvalidState};
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::rewrite::refresh_checksums;
use twinpath_core::wire::tcp::flags::{ACK, SYN};
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect};
use twinpath_core::{DropReason, Instant};

use super::talk::{A, B, START, Twins, a, verdict};

/// A's network may talk to anybody, but over UDP to DNS only.
const INSIDE_OUT: &str = r#"rules = [
    { action = "allow", protocol = "udp", from = "10.0.0.0/8", to_port = "53" },
    { action = "allow", protocol = "tcp", from = "10.0.0.0/8" },
    { action = "allow", protocol = "icmp", from = "10.0.0.0/8" },
    { action = "allow", protocol = "icmp6", from = "2001:db8::/32" },
    { action = "allow", protocol = 47, from = "10.0.0.0/8" },
]"#;

const DNS: Endpoint = Endpoint::v4([192, 0, 2, 1], 53);

fn at(seconds: u64) -> Instant {
    START + Duration::from_secs(seconds)
}

fn udp(source: Endpoint, destination: Endpoint) -> Vec<u8> {
    PacketBuilder::udp(source, destination)
        .payload_len(20)
        .to_vec()
        .expect("a packet")
}

fn echo(source: Endpoint, destination: Endpoint, reply: bool) -> Vec<u8> {
    let builder = PacketBuilder::icmp_echo(source, destination);
    if reply {
        builder.echo_reply().to_vec().expect("a packet")
    } else {
        builder.to_vec().expect("a packet")
    }
}

/// Processes packets at their seconds and compares what becomes of them.
fn expect(config: &str, packets: &[(u64, Vec<u8>, Result<(), DropReason>)]) -> Twins {
    let mut twins = Twins::new(config);
    for (number, (seconds, frame, expected)) in packets.iter().enumerate() {
        let fate = twins.process(frame, at(*seconds));
        assert_eq!(verdict(&fate, frame), *expected, "packet {}", number + 1);
    }
    twins
}

#[test]
fn answers_to_udp_pass_while_the_question_is_remembered() {
    let (question, answer) = (udp(A, DNS), udp(DNS, A));
    let twins = expect(
        INSIDE_OUT,
        &[
            (0, answer.clone(), Err(Denied)),
            (0, question.clone(), Ok(())),
            (29, question.clone(), Ok(())),
            (58, answer.clone(), Ok(())),
            (230, answer.clone(), Ok(())),
            (400, question.clone(), Ok(())),
            (581, answer.clone(), Err(Denied)),
            (600, question.clone(), Ok(())),
            (631, answer, Err(Denied)),
            (631, udp(A, B), Err(Denied)),
        ],
    );
    assert_eq!(
        twins.simple(),
        1,
        "what the opener sends until it is answered; it goes on once, and nothing follows in time"
    );
    assert_eq!(twins.counter("connections_opened"), 2);
}

#[test]
fn echoes_are_told_apart_by_their_identifier() {
    let outside = Endpoint::new(B.address, A.port);
    let other = |end: Endpoint| Endpoint::new(end.address, 7);
    expect(
        INSIDE_OUT,
        &[
            (0, echo(outside, A, true), Err(Denied)),
            (0, echo(A, outside, false), Ok(())),
            (1, echo(outside, A, true), Ok(())),
            (1, echo(A, outside, false), Ok(())),
            (1, echo(other(outside), other(A), true), Err(Denied)),
            (32, echo(outside, A, true), Err(Denied)),
        ],
    );
}

#[test]
fn echo_replies_open_nothing_without_pick_up() {
    let config = "default = \"allow\"\npick_up = false";
    expect(
        config,
        &[
            (0, echo(B, A, true), Err(InvalidState)),
            (0, echo(B, A, false), Ok(())),
        ],
    );
}

#[test]
fn ipv6_is_treated_alike() {
    let end = |text: &str| text.parse::<Endpoint>().expect("an endpoint");
    let (inside, outside) = (end("[2001:db8::1]:99"), end("[2001:db9::1]:99"));
    expect(
        INSIDE_OUT,
        &[
            (0, echo(outside, inside, false), Err(Denied)),
            (0, echo(inside, outside, false), Ok(())),
            (0, echo(outside, inside, true), Ok(())),
            (0, udp(inside, outside), Err(Denied)),
        ],
    );
}

#[test]
fn icmp_errors_pass_with_the_connection_that_they_are_about() {
    let (question, syn) = (udp(A, DNS), a(SYN, 999, 0).frame());
    let unreachable = |frame: &[u8]| {
        let router = Address::from_v4([198, 51, 100, 1]);
        PacketBuilder::icmp_error(IcmpError::Unreachable { code: 1 }, frame)
            .source_address(router)
            .to_vec()
            .expect("a packet")
    };
    let twins = expect(
        "default = \"allow\"",
        &[
            (0, unreachable(&question), Err(Denied)),
            (0, unreachable(&syn), Err(Denied)),
            (0, question.clone(), Ok(())),
            (0, syn.clone(), Ok(())),
            (1, unreachable(&question), Ok(())),
            (1, unreachable(&syn), Ok(())),
            (31, unreachable(&question), Err(Denied)),
        ],
    );
    assert_eq!(
        (
            twins.counter("icmp_errors_related"),
            twins.counter("icmp_errors_unrelated")
        ),
        (2, 3)
    );
}

#[test]
fn icmp_errors_about_nothing_known_need_a_rule_of_their_own() {
    let error = PacketBuilder::icmp_error(IcmpError::TimeExceeded { code: 0 }, &udp(A, DNS))
        .to_vec()
        .expect("a packet");
    expect("default = \"allow\"", &[(0, error.clone(), Err(Denied))]);
    let rule = r#"rules = [{ action = "allow", protocol = "icmp", to = "10.0.0.0/8" }]"#;
    let twins = expect(rule, &[(0, error.clone(), Ok(())), (0, error, Ok(()))]);
    assert_eq!(
        twins.counter("connections_opened"),
        0,
        "an error opens no connection"
    );
}

#[test]
fn icmp_errors_that_quote_nothing_readable_need_a_rule_too() {
    let mut error = PacketBuilder::icmp_error(IcmpError::TimeExceeded { code: 0 }, &udp(A, DNS))
        .to_vec()
        .expect("a packet");
    error[14 + 20 + 8] = 0x00;
    let layout = dissect(&error).expect("a packet");
    refresh_checksums(&mut error, &layout).expect("sound");
    expect("default = \"allow\"", &[(0, error, Err(Denied))]);
}

#[test]
fn other_protocols_are_conversations_between_addresses() {
    let gre = |source: Endpoint, destination: Endpoint| {
        PacketBuilder::raw(47, source.address, destination.address)
            .payload_len(40)
            .to_vec()
            .expect("a packet")
    };
    let esp = PacketBuilder::raw(50, A.address, B.address)
        .payload_len(40)
        .to_vec()
        .expect("a packet");
    let twins = expect(
        INSIDE_OUT,
        &[
            (0, gre(B, A), Err(Denied)),
            (0, gre(A, B), Ok(())),
            (500, gre(B, A), Ok(())),
            (1000, gre(B, A), Ok(())),
            (1601, gre(B, A), Err(Denied)),
            (1601, esp, Err(Denied)),
        ],
    );
    assert_eq!(twins.simple(), 0, "nobody goes on after the answer");
}

#[test]
fn time_outs_are_configured() {
    let config = "default = \"allow\"\npick_up = false\n[timeouts]\ntcp_transitory = \"5s\"\nudp_unreplied = \"1s\"\n";
    let twins = expect(
        config,
        &[
            (0, a(SYN, 999, 0).frame(), Ok(())),
            (6, a(ACK, 1000, 5000).frame(), Err(InvalidState)),
            (6, udp(A, DNS), Ok(())),
            (8, udp(A, DNS), Ok(())),
        ],
    );
    assert_eq!(twins.counter("connections_opened"), 3);
}

/// Other time-outs hold from a connection's next packet on.
#[test]
fn time_outs_change() {
    const SLOW: &str = "default = \"allow\"\ntimeouts = { udp_replied = \"60s\" }";
    const QUICK: &str = "timeouts = { udp_replied = \"2s\", udp_unreplied = \"2s\" }";
    let mut twins = Twins::new(SLOW);
    let passes = |twins: &mut Twins, seconds, frame: &[u8]| {
        let fate = twins.process(frame, at(seconds));
        verdict(&fate, frame).is_ok()
    };
    assert!(passes(&mut twins, 0, &udp(A, DNS)));
    assert!(passes(&mut twins, 0, &udp(DNS, A)));
    assert!(passes(&mut twins, 0, &udp(B, DNS)));
    twins.reconfigure(QUICK);
    assert!(passes(&mut twins, 29, &udp(B, DNS)), "30 s until now");
    assert!(passes(&mut twins, 50, &udp(A, DNS)), "60 s until now");
    assert!(passes(&mut twins, 51, &udp(DNS, A)));
    assert!(!passes(&mut twins, 54, &udp(DNS, A)), "2 s from now on");
    assert!(!passes(&mut twins, 54, &udp(B, DNS)));
}

/// First packets, first answers and what follows them are verified, in both IP versions; then the fast
/// path forwards what comes, whatever its checksum.
#[test]
fn broken_datagrams_open_nothing() {
    let broken = |mut frame: Vec<u8>| {
        let last = frame.len() - 1;
        frame[last] ^= 1;
        frame
    };
    let (a, b): (Endpoint, Endpoint) = (
        Endpoint::new(Address(0x2001_0db8 << 96 | 1), 4000),
        Endpoint::new(Address(0x2001_0db8_0002 << 80 | 1), 53),
    );
    for (a, b) in [(A, DNS), (a, b)] {
        let (question, answer) = (udp(a, b), udp(b, a));
        let lines = [
            (0, broken(question.clone()), Err(BadChecksum)),
            (0, answer.clone(), Err(Denied)),
            (0, question.clone(), Ok(())),
            (0, broken(answer.clone()), Err(BadChecksum)),
            (0, answer, Ok(())),
            (0, broken(question.clone()), Err(BadChecksum)),
            (0, question.clone(), Ok(())),
            (0, broken(question), Ok(())),
        ];
        let rules = format!(
            "rules = [{{ action = \"allow\", protocol = \"udp\", from = \"{}\" }}]",
            a.address
        );
        let twins = expect(&rules, &lines);
        assert_eq!(twins.counter("packets_with_bad_checksum"), 3);
        assert_eq!(twins.simple(), 1);
    }
}
