//! Buckets that flows of a network share.

use super::buckets::measured;
use super::*;
use crate::two_paths::Path;
use proptest::prelude::*;
use std::collections::HashMap;
use twinpath_core::DropReason;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_slowpath::{Common, NetworkFunction};

fn end(address: &str, port: u16) -> Endpoint {
    Endpoint::new(address.parse().expect("an address"), port)
}

/// How many of five packets between two addresses pass, each of another flow.
fn passing(path: &mut Path<RateLimiter>, from: &str, to: &str, at: Instant) -> usize {
    let passes = |port: &u16| {
        let packet = datagram([end(from, *port), end(to, 53)], 100);
        path.process(&packet, at).onward.len() == 1
    };
    (1000..1005).filter(passes).count()
}

const TWO_AT_ONCE: &str = "rate_pps = 10\nburst_packets = 2\n";

#[test]
fn all_flows_of_a_network_take_from_one_bucket() {
    let text = format!("per = \"source\"\nv4_prefix_bits = 24\nv6_prefix_bits = 48\n{TWO_AT_ONCE}");
    let mut path = Path::both(limiter(&text), START);
    let mut pass = |from, to| passing(&mut path, from, to, START);
    assert_eq!(pass("10.0.0.1", "192.0.2.1"), 2);
    assert_eq!(pass("10.0.0.200", "192.0.2.9"), 0, "the same network");
    assert_eq!(pass("10.0.1.1", "192.0.2.1"), 2, "another");
    assert_eq!(pass("192.0.2.1", "10.0.0.1"), 2, "what comes back");
    assert_eq!(pass("2001:db8:1:2::3", "2001:db8:9::1"), 2);
    assert_eq!(pass("2001:db8:1:ffff::4", "2001:db8:8::1"), 0);
    assert_eq!(pass("2001:db8:2::3", "2001:db8:9::1"), 2);
    assert_eq!(
        passing(&mut path, "10.0.0.7", "192.0.2.1", at(100_000_500)),
        1
    );
    assert_eq!(path.simple, 0, "the slow path has the buckets");
}

#[test]
fn the_network_that_packets_go_to_may_tell() {
    let text = format!("per = \"destination\"\nv4_prefix_bits = 0\n{TWO_AT_ONCE}");
    let mut path = Path::both(limiter(&text), START);
    let mut pass = |from, to| passing(&mut path, from, to, START);
    assert_eq!(pass("10.0.0.1", "192.0.2.1"), 2);
    assert_eq!(pass("10.7.0.1", "203.0.113.1"), 0, "all of IPv4");
    assert_eq!(pass("fd00::1", "2001:db8:1:2::3"), 2);
    assert_eq!(pass("fd00::1", "2001:db8:1:2::4"), 0, "64 bits");
    assert_eq!(pass("fd00::1", "2001:db8:1:3::4"), 2);
}

/// An error takes from the network that it is of; from a flow, which whoever sends it may choose, it takes
/// nothing.
#[test]
fn errors_take_from_networks_alone() {
    let flow = [end("10.0.0.1", 4000), end("192.0.2.1", 53)];
    let packet = datagram(flow, 100);
    let error = IcmpError::Unreachable { code: 3 };
    let told = PacketBuilder::icmp_error(error, &packet).to_vec();
    let told = told.expect("short");
    for (per, errors, left) in [("source", 2, [0, 1]), ("flow", 5, [5, 5])] {
        let text = format!("per = \"{per}\"\n{TWO_AT_ONCE}");
        let mut path = Path::both(limiter(&text), START);
        assert_eq!(path.process(&packet, START).onward.len(), 1);
        let passed = (0..5).map(|_| path.process(&told, START).onward.len());
        assert_eq!(passed.sum::<usize>(), errors, "{per}");
        let other = passing(&mut path, "192.0.2.1", "10.0.0.1", START);
        let own = passing(&mut path, "10.0.0.1", "192.0.2.1", START);
        assert_eq!([other, own], left, "{per}");
    }
}

/// Workers have them together, and one that begins anew finds them as they were.
#[test]
fn workers_share_buckets() {
    let text = format!("per = \"source\"\n{TWO_AT_ONCE}");
    let common = Common::default();
    let worker = |name: &str| {
        let mut limiter = limiter(&text);
        limiter.share(name, &common);
        Path::slow(limiter, START)
    };
    let [mut one, mut other, mut third] = ["limit", "limit", "elsewhere"].map(worker);
    let pass = |path: &mut Path<RateLimiter>| passing(path, "10.0.0.1", "192.0.2.1", START);
    assert_eq!([pass(&mut one), pass(&mut other)], [2, 0]);
    assert_eq!(pass(&mut third), 2, "another function has its own");
    assert_eq!(pass(&mut worker("limit")), 0, "after a crash");
}

#[test]
fn where_places_are_taken_the_rest_has_one_together() {
    let text = format!("per = \"source\"\nmost_prefixes = 4\n{TWO_AT_ONCE}");
    let mut path = Path::both(limiter(&text), START);
    let host = |number: u16| format!("10.0.{}.{}", number >> 8, number & 255);
    let mut pass = |number| passing(&mut path, &host(number), "192.0.2.1", START);
    let each: Vec<_> = (0..100).map(&mut pass).collect();
    assert_eq!(
        each[..5],
        [2, 2, 2, 2, 2],
        "four have their own, and the first of the rest"
    );
    assert!(each[5..].iter().all(|&passed| passed == 0), "{each:?}");
    assert_eq!(pass(0), 0, "nobody takes another's");
    assert_eq!(path.counter("crowded"), 96 * 5);
    // When buckets are full again their places are free.
    assert_eq!(
        passing(&mut path, &host(77), "192.0.2.1", at(1_000_000_000)),
        2
    );
    assert_eq!(path.counter("crowded"), 96 * 5);
}

/// Excess of one flow waits for what another has taken.
#[test]
fn flows_of_a_network_wait_for_each_other() {
    let text = "per = \"source\"\nrate_pps = 1000\nburst_packets = 1\nexcess = \"delay\"\n";
    let common = Common::default();
    let limiter = |_| {
        let mut limiter = limiter(text);
        limiter.share("limit", &common);
        Path::slow(limiter, START)
    };
    let mut paths = [0, 1].map(limiter);
    let packet = |port| datagram([end("10.0.0.1", port), end("192.0.2.1", 53)], 100);
    assert_eq!(paths[0].process(&packet(1), START).onward.len(), 1);
    for port in 2..6 {
        let fate = paths[usize::from(port % 2)].process(&packet(port), START);
        assert!(fate.onward.is_empty() && fate.drops.is_empty());
    }
    assert_eq!(paths.each_ref().map(|path| path.counter("delayed")), [2, 2]);
}

#[test]
fn another_way_to_tell_buckets_begins_with_full_ones() {
    let text = |per: &str| format!("{per}{TWO_AT_ONCE}");
    let (flow, source, wide) = (
        text(""),
        text("per = \"source\"\n"),
        text("per = \"source\"\nv4_prefix_bits = 8\n"),
    );
    let mut path = Path::both(limiter(&flow), START);
    let packet = datagram(ends(false, 0), 100);
    for next in [&source, &wide, &flow, &source] {
        let passed = (0..5).filter(|_| path.process(&packet, START).onward.len() == 1);
        assert_eq!(passed.count(), 2, "{next}");
        path.reconfigure(limiter(next));
    }
    let passed = (0..5).filter(|_| path.process(&packet, START).onward.len() == 1);
    assert_eq!(passed.count(), 2);
}

#[test]
fn what_is_wrong_with_prefixes_is_told_at_its_key() {
    let cases = [
        ("v4_prefix_bits = 24", "v4_prefix_bits", "goes with per"),
        ("most_prefixes = 24", "most_prefixes", "goes with per"),
        (
            "per = \"source\"\nv4_prefix_bits = 33",
            "v4_prefix_bits",
            "v4_prefix_bits = 33: expected 0 to 32",
        ),
        (
            "per = \"source\"\nv6_prefix_bits = 129",
            "v6_prefix_bits",
            "v6_prefix_bits = 129: expected 0 to 128",
        ),
        (
            "per = \"destination\"\nmost_prefixes = 0",
            "most_prefixes",
            "most_prefixes = 0: expected 1 to 1048576",
        ),
    ];
    for (text, key, message) in cases {
        let text = format!("{text}\nrate_pps = 5");
        let raw = toml::from_str::<crate::rate_limiter::config::RawConfig>(&text).expect("keys");
        let error = Config::try_from(raw).expect_err(&text);
        assert_eq!(error.key, key, "{text}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

proptest! {
    /// Each network gets what a flow of all its packets would get.
    #[test]
    fn a_network_gets_what_one_flow_gets(
        packets in prop::collection::vec((0..3u8, 0..4u8, 28..1500u32, 0..3_000_000u64), 1..200),
    ) {
        let text = "per = \"source\"\nv4_prefix_bits = 24\nrate_bps = 8_000_000\nburst_bytes = 4000\n";
        let mut path = Path::both(limiter(text), START);
        let (mut now, mut each) = (0, HashMap::<u8, (Vec<_>, Vec<bool>)>::new());
        for (network, host, bytes, wait) in packets {
            now += wait;
            let from = Endpoint::v4([10, 0, network, host], 4000);
            let packet = datagram([from, end("192.0.2.1", 53)], bytes as usize);
            let fate = path.process(&packet, at(now));
            let reason = [(DropReason::RateLimited, 1)];
            let passed = fate.onward.len() == 1;
            prop_assert!(passed || fate.drops == reason);
            let (sent, found) = each.entry(network).or_default();
            sent.push((now, bytes));
            found.push(passed);
        }
        for (sent, found) in each.values() {
            prop_assert_eq!(&measured(&config(text).meter(), sent), found);
        }
    }
}
