//! Another configuration in mid-traffic.

use super::*;
use crate::napt::NewNapt;
use twinpath_core::wire::tcp::flags::SYN;

fn change(bench: &mut Bench, text: &str) {
    let config: Config = toml::from_str(text).expect("a valid configuration");
    bench.reconfigure::<Napt>(0, NewNapt::new(&config, 9));
}

fn text(external: &[&str], more: &str) -> String {
    let external: Vec<String> = external.iter().map(|text| format!("\"{text}\"")).collect();
    let external = external.join(", ");
    format!("inside = [\"10.0.0.0/8\", \"fd00::/8\"]\nexternal = [{external}]\n{more}")
}

/// The external endpoints of some hosts inside.
fn sources(bench: &mut Bench, seconds: u64) -> Vec<Endpoint> {
    let sent =
        (1..=8).map(|host| udp(bench, &format!("10.0.0.{host}:5000"), "8.8.8.8:53", seconds));
    sent.map(|sent| sent.expect("translated").0).collect()
}

#[test]
fn bindings_move_with_their_addresses_and_end_with_them() {
    let (a, b, c) = ("192.0.2.1", "192.0.2.2", "192.0.2.3");
    let mut bench = bench(&text(&[a, b], ""));
    let before = sources(&mut bench, 0);
    let of_b: Vec<bool> = before
        .iter()
        .map(|source| source.address == end("192.0.2.2:0").address)
        .collect();
    assert!(of_b.contains(&true) && of_b.contains(&false));
    change(&mut bench, &text(&[c, b], ""));
    let kept = of_b.iter().filter(|is_b| **is_b).count() as u64;
    let rules_kept = bench.rules() as u64;
    assert_eq!((rules_kept, bench.counter(0, "bindings")), (kept, kept));
    for (host, (&source, &is_b)) in (1..).zip(before.iter().zip(&of_b)) {
        let answer = ends(send(
            &mut bench,
            PacketBuilder::udp(end("8.8.8.8:53"), source),
            1,
        ));
        match (is_b, source.address == end("192.0.2.1:0").address) {
            (true, _) => assert_eq!(
                answer,
                Ok((end("8.8.8.8:53"), Endpoint::v4([10, 0, 0, host], 5000)))
            ),
            (false, _) => assert_eq!(answer, Ok((end("8.8.8.8:53"), source)), "not ours any more"),
        }
    }
    let after = sources(&mut bench, 2);
    assert!(
        after
            .iter()
            .all(|source| source.address != end("192.0.2.1:0").address)
    );
    for (host, (before, after)) in before.iter().zip(&after).enumerate() {
        assert!(!of_b[host] || before == after, "a live binding stays");
    }
    let different: std::collections::HashSet<_> = after.iter().collect();
    assert_eq!(different.len(), after.len());
}

/// Half-open connections are found at addresses that have other numbers now.
#[test]
fn half_open_connections_give_way_at_addresses_that_move() {
    let few = "ports = \"2000-2005\"\nports_per_host = 6\n";
    let mut bench = bench(&text(&["192.0.2.1"], few));
    let open = |bench: &mut Bench, host: u8| {
        let from = Endpoint::v4([10, 0, 0, host], 5000);
        let packet = PacketBuilder::tcp(from, end("8.8.8.8:80")).flags(SYN);
        ends(send(bench, packet, 0)).map(|(from, _)| from)
    };
    let taken: Vec<_> = (1..=6).map(|host| open(&mut bench, host)).collect();
    change(&mut bench, &text(&["2001:db8::1", "192.0.2.1"], few));
    for (host, before) in (7..).zip(taken) {
        assert_eq!(open(&mut bench, host), before, "in the same order");
    }
}

#[test]
fn hosts_that_are_no_longer_inside_lose_their_bindings() {
    let mut bench = bench(BASIC);
    sources(&mut bench, 0);
    assert_eq!(bench.counter(0, "bindings"), 8);
    change(&mut bench, &BASIC.replace("10.0.0.0/8", "10.0.0.0/30"));
    assert_eq!(bench.counter(0, "bindings"), 3);
    let unlisted = udp(&mut bench, "10.0.0.7:5000", "8.8.8.8:53", 1);
    assert_eq!(unlisted, Ok((end("10.0.0.7:5000"), end("8.8.8.8:53"))));
}

#[test]
fn time_outs_and_limits_hold_from_the_change_on() {
    let mut bench = bench(BASIC);
    sources(&mut bench, 0);
    sources(&mut bench, 1);
    assert_eq!(bench.hits, 8);
    change(
        &mut bench,
        &text(
            &["192.0.2.1", "2001:db8::1"],
            "sessions = 4\ntimeouts = { udp = '3s' }",
        ),
    );
    assert_eq!(bench.counter(0, "sessions"), 8);
    let late = udp(&mut bench, "8.8.8.8:53", "192.0.2.1:5000", 5);
    assert_eq!(late, Err(DropReason::Unsolicited), "idle for four seconds");
    bench.tick(at(5));
    assert_eq!(bench.counter(0, "sessions"), 0);
    let sent = (1..=5).map(|port| udp(&mut bench, &format!("10.0.0.1:{port}"), "8.8.8.8:1", 5));
    let sent: Vec<bool> = sent.map(|sent| sent.is_ok()).collect();
    assert_eq!(sent, [true, true, true, true, false]);
}

#[test]
fn stricter_filtering_shuts_out_whom_nobody_has_sent_to() {
    let mut bench = bench(BASIC);
    udp(&mut bench, "10.0.0.1:5000", "8.8.8.8:53", 0).expect("translated");
    for _ in 0..2 {
        udp(&mut bench, "9.9.9.9:1", "192.0.2.1:5000", 0).expect("anyone may");
    }
    change(
        &mut bench,
        &format!("filtering = 'address_dependent'\n{BASIC}"),
    );
    let other = udp(&mut bench, "9.9.9.9:1", "192.0.2.1:5000", 0);
    assert_eq!(other, Err(DropReason::Unsolicited));
    let again = udp(&mut bench, "10.0.0.1:5000", "8.8.8.8:53", 1).expect("translated");
    assert_eq!(again.0, end("192.0.2.1:5000"), "the binding is there");
    udp(&mut bench, "8.8.8.8:7", "192.0.2.1:5000", 1).expect("sent to");
}

/// RFC 6888 REQ-6: some destinations are reached without translation.
#[test]
fn some_destinations_see_hosts_as_they_are() {
    let text = format!("untranslated = ['172.16.0.0/12', '2001:db8:7::/48']\n{BASIC}");
    let mut bench = bench(&text);
    for (from, to) in [
        ("10.0.0.1:7", "172.16.0.9:53"),
        ("[fd00::1]:7", "[2001:db8:7::9]:53"),
    ] {
        for _ in 0..3 {
            let left = udp(&mut bench, from, to, 0);
            assert_eq!(left, Ok((end(from), end(to))));
            assert_eq!(udp(&mut bench, to, from, 0), Ok((end(to), end(from))));
        }
    }
    assert_eq!(bench.counter(0, "bindings"), 0);
    let (source, _) = udp(&mut bench, "10.0.0.1:7", "172.32.0.9:53", 0).expect("translated");
    assert_eq!(source.address, end("192.0.2.1:0").address);
    change(&mut bench, BASIC);
    let (source, _) = udp(&mut bench, "10.0.0.1:7", "172.16.0.9:53", 0).expect("translated");
    assert_eq!(source.address, end("192.0.2.1:0").address);
    for (prefix, inside) in [("10.1.0.0/16", "10.0.0.0/8"), ("0.0.0.0/0", "10.0.0.0/8")] {
        let text = format!("untranslated = ['{prefix}']\n{BASIC}");
        let error = toml::from_str::<Config>(&text)
            .expect_err("overlaps")
            .to_string();
        assert!(error.contains(prefix) && error.contains(inside), "{error}");
    }
}
