//! Profiles of small captures whose content is known.

use super::*;
use twinpath_wire::tcp::flags::{ACK, PSH, SYN};
use twinpath_wire::{Endpoint, PacketBuilder};

fn end(text: &str) -> Endpoint {
    text.parse().expect("an endpoint")
}

/// A capture with a packet every millisecond.
#[derive(Default)]
struct Capture(Trace);

impl Capture {
    fn tcp(&mut self, from: &str, to: &str, flags: u8, seq: u32, payload: &[u8]) {
        let packet = PacketBuilder::tcp(end(from), end(to)).flags(flags).seq(seq);
        self.push(&packet.payload(payload));
    }

    fn udp(&mut self, from: &str, to: &str, payload: &[u8]) {
        self.push(&PacketBuilder::udp(end(from), end(to)).payload(payload));
    }

    fn push(&mut self, packet: &PacketBuilder<'_>) {
        let at_ns = self.0.len() as u64 * 1_000_000;
        self.0.push(at_ns, &packet.to_vec().expect("a packet"));
    }

    fn profile(&self) -> Profile {
        Profile::of(&self.0)
    }
}

#[test]
fn clients_are_told_by_their_syn_or_by_well_known_ports() {
    let mut capture = Capture::default();
    capture.tcp("192.0.2.1:4000", "10.0.0.1:5000", SYN | ACK, 0, b"");
    capture.tcp("192.0.2.1:443", "10.0.0.2:5000", ACK, 0, b"");
    capture.udp("10.0.0.3:5000", "192.0.2.1:53", b"question");
    let profile = capture.profile();
    let clients: HashSet<Endpoint> = profile.conversations.iter().map(|all| all.client).collect();
    let expected = ["10.0.0.1:5000", "10.0.0.2:5000", "10.0.0.3:5000"].map(end);
    assert_eq!(clients, HashSet::from(expected));
}

#[test]
fn inside_are_busy_clients_but_not_all_of_them() {
    let mut capture = Capture::default();
    for _ in 0..30 {
        capture.udp("10.0.0.1:5000", "192.0.2.1:53", b"question");
    }
    for _ in 0..10 {
        capture.udp("192.0.2.77:6000", "10.0.0.9:53", b"question");
    }
    let inside = capture.profile().inside;
    assert!(
        networks::is_in(&inside, end("10.0.0.1:1").address),
        "{inside:?}"
    );
    assert!(
        !networks::is_in(&inside, end("192.0.2.77:1").address),
        "{inside:?}"
    );
    assert!(
        !networks::is_in(&inside, end("192.0.2.1:1").address),
        "{inside:?}"
    );
}

#[test]
fn fresh_networks_do_not_occur() {
    let mut capture = Capture::default();
    capture.udp("100.0.7.1:5000", "100.1.0.1:53", b"");
    capture.udp("[2001:db8::1]:5000", "[2001:db8:1::1]:53", b"");
    let Fresh { v4, v6 } = capture.profile().fresh;
    assert_eq!(
        (v4.to_string(), v6.to_string()),
        ("100.2.0.0/16".into(), "2001:db8:2::/48".into())
    );
}

#[test]
fn segments_ahead_and_repeated_are_counted() {
    let mut capture = Capture::default();
    let (client, server) = ("10.0.0.1:5000", "192.0.2.1:80");
    capture.tcp(client, server, SYN, 99, b"");
    capture.tcp(client, server, ACK | PSH, 100, b"0123456789");
    capture.tcp(client, server, ACK | PSH, 100, b"0123456789");
    capture.tcp(client, server, ACK | PSH, 130, b"ahead");
    let counts = capture.profile().counts;
    assert_eq!((counts.tcp, counts.ahead, counts.repeated), (4, 1, 1));
}

#[test]
fn signatures_occur_and_bans_only_after_alerts() {
    let mut capture = Capture::default();
    for number in 0..40_u32 {
        let payload = format!(
            "packet number {number} carries something else, {}",
            number * 7919
        );
        capture.udp(
            &format!("10.0.0.{number}:5000"),
            "192.0.2.1:53",
            payload.as_bytes(),
        );
    }
    let signatures = capture.profile().signatures;
    let first = |bytes: &[u8]| {
        let mut payloads = capture.0.iter().map(|frame| &frame.frame[42..]);
        payloads.position(|payload| payload.windows(bytes.len()).any(|window| window == bytes))
    };
    let last_alert = signatures.alerts.iter().map(|alert| first(alert)).max();
    let first_ban = signatures.bans.iter().map(|ban| first(ban)).min();
    assert!(last_alert.flatten() < first_ban.flatten(), "{signatures:?}");
    assert!(
        signatures.alerts.iter().all(|alert| first(alert).is_some()),
        "{signatures:?}"
    );
}

#[test]
fn bytes_across_a_border_are_found() {
    let mut capture = Capture::default();
    let (client, server) = ("10.0.0.1:5000", "192.0.2.1:80");
    let mut seq = 0;
    for payload in [
        &b"GET /index.html HT"[..],
        b"TP/1.1 and so forth",
        b"more of it",
        b"the last of it",
    ] {
        capture.tcp(client, server, ACK | PSH, seq, payload);
        seq += payload.len() as u32;
    }
    let spanning = capture.profile().signatures.spanning;
    let [span] = spanning.as_slice() else {
        panic!("{spanning:?}");
    };
    assert!(span.adjoin, "{span:?}");
    let whole = b"GET /index.html HTTP/1.1 and so forthmore of itthe last of it";
    let both = [span.before.as_slice(), &span.after].concat();
    assert!(
        whole.windows(both.len()).any(|window| window == both),
        "{span:?}"
    );
}

#[test]
fn what_is_not_there_is_told() {
    let mut capture = Capture::default();
    capture.udp("10.0.0.1:5000", "192.0.2.1:53", b"question");
    let profile = capture.profile();
    assert!(
        profile
            .reassembler()
            .is_err_and(|lacking| lacking.to_string().contains("no TCP"))
    );
    assert!(Profile::of(&Trace::new()).service(&["acl"]).is_err());
    assert!(profile.service(&["no_such"]).is_err());
}

#[test]
fn requests_have_the_times_and_ends_of_the_capture() {
    let mut capture = Capture::default();
    capture.udp("10.0.0.1:5000", "192.0.2.1:53", b"question");
    capture.udp("192.0.2.1:53", "10.0.0.1:5000", b"answer");
    let requests = crate::key_value_requests(&capture.0);
    let again = crate::key_value_requests(&capture.0);
    assert!(requests.len() == 2 && requests == again);
    for (number, frame) in (0..).zip(requests.iter()) {
        let layout = dissect(frame.frame).expect("a request");
        assert_eq!(frame.timestamp_ns, number * 1_000_000);
        assert_eq!(fields::source(frame.frame, &layout), end("10.0.0.1:5000"));
        assert_eq!(
            fields::destination(frame.frame, &layout),
            end("192.0.2.1:19286")
        );
    }
}
