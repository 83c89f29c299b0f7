use super::state::MOST_BYTES;
use super::{Config, Telemetry};
use crate::largest_flows::LargestFlows;
use crate::records::{Count, FlowRecord};
use crate::two_paths::Path;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use twinpath_core::wire::tcp::flags::{ACK, FIN, PSH, SYN};
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_core::{FlowKey, Instant, Side};
use twinpath_fastpath::Budget;
use twinpath_slowpath::NetworkFunction;

const START: Instant = Instant(1_700_000_000_123_456_789);

fn config(text: &str) -> Config {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn ends(v6: bool, number: u16) -> [Endpoint; 2] {
    let [from, to] = match v6 {
        false => ["10.0.0.1", "192.0.2.1"],
        true => ["fd00::1", "2001:db8::1"],
    };
    let end = |address: &str, port| Endpoint::new(address.parse().expect("an address"), port);
    [end(from, 4000 + number), end(to, 80)]
}

fn segment([from, to]: [Endpoint; 2], flags: u8, bytes: usize) -> Vec<u8> {
    let payload = vec![1; bytes];
    let built = PacketBuilder::tcp(from, to).flags(flags).payload(&payload);
    built.to_vec().expect("a packet")
}

fn after(milliseconds: u64) -> Instant {
    START + Duration::from_millis(milliseconds)
}

/// The record of a flow that has not ended.
fn record(path: &Path<Telemetry>, [one, other]: [Endpoint; 2], now: Instant) -> Option<FlowRecord> {
    let (key, side) = FlowKey::connection(one, other, 6);
    super::state::record(&key, side, path.words(&key), now)
}

#[test]
fn packets_bytes_flags_and_times_of_both_directions() {
    for v6 in [false, true] {
        let there = ends(v6, 1);
        let [a, b] = there;
        let mut path = Path::both(Telemetry::new(&Config::default()), START);
        let headers = if v6 { 60 } else { 40 };
        for (ends, flags, bytes, at) in [
            ([a, b], SYN, 0, 0),
            ([b, a], SYN | ACK, 0, 10),
            ([a, b], ACK | PSH, 100, 20),
            ([b, a], ACK, 1000, 30),
            ([b, a], ACK | FIN, 7, 2000),
        ] {
            let fate = path.process(&segment(ends, flags, bytes), after(at));
            assert_eq!(fate.onward.len(), 1);
        }
        let record = record(&path, there, after(2500)).expect("known");
        let (_, opener) = FlowKey::connection(a, b, 6);
        let of = |side: Side| (record.sent[side as usize], record.tcp_flags[side as usize]);
        let count = |packets, bytes| Count { packets, bytes };
        assert_eq!(of(opener), (count(2, 2 * headers + 100), SYN | ACK | PSH));
        assert_eq!(
            of(opener.other()),
            (count(3, 3 * headers + 1007), SYN | ACK | FIN)
        );
        let near = |time: Instant, at: u64| after(at).0 - time.0 < 1 << 20;
        assert!(
            near(record.first, 0) && near(record.last, 2000),
            "{record:?}"
        );
        assert_eq!(
            path.simple, 4,
            "the first packet alone is for the slow path"
        );
    }
}

#[test]
fn a_record_ends_when_its_flow_was_idle_or_has_gone_on_for_long() {
    let there = ends(false, 1);
    let packet = segment(there, ACK, 10);
    let telemetry = Telemetry::new(&config("idle = \"2s\"\nactive = \"5s\""));
    let mut path = Path::both(telemetry, START);
    for second in 0..12 {
        path.process(&packet, after(1000 * second));
    }
    let ended: Vec<_> = std::iter::from_fn(|| path.function.take_ended()).collect();
    let packets = ended
        .iter()
        .map(|record| record.sent[0].packets + record.sent[1].packets);
    assert_eq!(
        packets.collect::<Vec<_>>(),
        [6, 6][..1],
        "a record of five seconds"
    );
    assert_eq!(path.counter("records_started"), 2);
    assert!(path.function.is_expired(
        path.words(&FlowKey::connection(there[0], there[1], 6).0),
        after(14_000)
    ));
}

/// 32 bits do not wrap: a record has room for the packet that ends it.
#[test]
fn a_record_ends_before_its_bytes_wrap() {
    let there = ends(false, 1);
    let packet = segment(there, ACK, 60_000);
    let mut path = Path::both(Telemetry::new(&Config::default()), START);
    let packets = u64::from(MOST_BYTES) / 60_040 + 3;
    for number in 0..packets {
        path.process(&packet, START + Duration::from_micros(number));
    }
    let ended = path.function.take_ended().expect("one has ended");
    let total = ended.sent[0].bytes + ended.sent[1].bytes;
    let rest = record(&path, there, after(60)).expect("another has begun");
    let rest = rest.sent[0].bytes + rest.sent[1].bytes;
    assert!(total > u64::from(MOST_BYTES) && total < 1 << 32);
    assert_eq!(total + rest, packets * 60_040);
}

#[test]
fn a_switch_asic_counts() {
    let program = super::program::program(&Config::default());
    let placed = Budget::asic().place(&[program], 32_768);
    assert!(placed.is_ok(), "{placed:?}");
}

#[test]
fn the_number_of_largest_flows_has_bounds() {
    for (top, is_right) in [(0, false), (1, true), (1000, true), (1001, false)] {
        assert_eq!(
            toml::from_str::<Config>(&format!("top = {top}")).is_ok(),
            is_right
        );
    }
}

proptest! {
    /// Simple means equal; and whatever the records are, no packet is missing in them or counted twice.
    #[test]
    fn both_paths_count_every_packet_once(
        packets in prop::collection::vec((0..3u16, any::<bool>(), any::<bool>(), any::<u8>(), 0..1400usize, -100..2500i64), 1..150),
    ) {
        let config = config("idle = \"1s\"\nactive = \"4s\"");
        let mut paths = [Path::slow(Telemetry::new(&config), START), Path::both(Telemetry::new(&config), START)];
        let (mut now, mut sent) = (START, BTreeMap::<_, Count>::new());
        for &(number, v6, back, flags, bytes, wait) in &packets {
            now = Instant(now.0.saturating_add_signed(wait * 1_000_000));
            let mut ends = ends(v6, number);
            if back {
                ends.reverse();
            }
            let packet = segment(ends, flags, bytes);
            let (key, side) = FlowKey::connection(ends[0], ends[1], 6);
            let count = sent.entry((key, side)).or_default();
            count.packets += 1;
            count.bytes += packet.len() as u64 - 14;
            let [slow, both] = paths.each_mut().map(|path| path.process(&packet, now));
            prop_assert_eq!(slow, both);
        }
        let mut flows: Vec<_> = sent.keys().map(|(key, _)| *key).collect();
        flows.dedup();
        for path in &mut paths {
            let counted = path.counter("ended_packets");
            let open = flows.iter().filter_map(|key| super::state::record(key, Side::Low, path.words(key), now));
            let open: u64 = open.flat_map(|record| record.sent).map(|count| count.packets).sum();
            // Words that expired were cleared without a record by whoever drives the paths here.
            prop_assert!(counted + open <= packets.len() as u64);
        }
        let [slow, both] = paths.each_mut().map(|path| {
            std::iter::from_fn(|| path.function.take_ended()).collect::<Vec<_>>()
        });
        prop_assert_eq!(slow, both);
    }

    /// Against all flows: none is missing that has more than its share, and none has too little.
    #[test]
    fn the_largest_flows_are_found(bytes in prop::collection::vec((0..400u16, 1..10_000u64), 1..600)) {
        let (mut largest, mut all) = (LargestFlows::new(2), BTreeMap::<FlowKey, u64>::new());
        for (number, bytes) in bytes {
            let [one, other] = ends(false, number);
            let key = FlowKey::connection(one, other, 6).0;
            *all.entry(key).or_default() += bytes;
            let sent = [Count { packets: 1, bytes }, Count::default()];
            let (first, last, tcp_flags) = (START, START, [0; 2]);
            largest.add(&FlowRecord { key, first, last, sent, tcp_flags });
        }
        let (told, total) = (largest.top(usize::MAX), all.values().sum::<u64>());
        prop_assert!(told.len() <= 32 && told.is_sorted_by_key(|flow| std::cmp::Reverse(flow.count.bytes)));
        let share = total / 32;
        for (key, bytes) in &all {
            let found = told.iter().find(|flow| flow.key == *key);
            prop_assert!(found.is_some() || *bytes <= share, "{bytes} of {total}");
            if let Some(flow) = found {
                prop_assert!(flow.count.bytes >= *bytes && flow.count.bytes - flow.excess <= *bytes);
                prop_assert!(flow.excess <= share);
            }
        }
    }
}
