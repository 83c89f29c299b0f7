use super::*;
use crate::records::Count;
use crate::two_caches::Bench;
use proptest::prelude::*;
use std::collections::HashMap;
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_core::{FlowKey, Instant};
use twinpath_rulecache::RuleFunction;

fn monitor(text: &str) -> Monitor {
    Monitor::new(&toml::from_str(text).expect("a valid configuration"), 1)
}

fn bench(text: &str, rules: usize) -> Bench {
    let function: Box<dyn RuleFunction> = Box::new(monitor(text));
    Bench::cached(vec![function], rules)
}

fn end(host: u8, port: u16) -> Endpoint {
    Endpoint::v4([10, 0, 0, host], port)
}

fn udp(from: u8, to: u8, payload: usize) -> Vec<u8> {
    let packet = PacketBuilder::udp(end(from, 1000), end(to, 2000)).payload_len(payload);
    packet.to_vec().expect("fits")
}

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

#[test]
fn both_directions_of_a_flow_are_counted_apart() {
    let mut bench = bench("", 0);
    let forth = PacketBuilder::udp(end(1, 7), end(2, 9)).to_vec().unwrap();
    let back = PacketBuilder::udp(end(2, 9), end(1, 7)).payload_len(100);
    bench.process(&forth, 0, at(1));
    bench.process(&back.to_vec().unwrap(), 0, at(2));
    let record = *bench.function::<Monitor>(0).flows().next().expect("a flow");
    assert_eq!(
        record.sent[0],
        Count {
            packets: 1,
            bytes: 42
        }
    );
    assert_eq!(
        record.sent[1],
        Count {
            packets: 1,
            bytes: 142
        }
    );
    assert_eq!((record.first, record.last), (at(1), at(2)));
    assert_eq!(bench.counter(0, "flows"), 1);
}

#[test]
fn fragments_count_as_a_flow_without_ports() {
    let mut bench = bench("", 0);
    let whole = PacketBuilder::udp(end(1, 7), end(2, 9)).payload_len(64);
    for frame in [whole.fragment(0, true), whole.fragment(64, false)] {
        bench.process(&frame.to_vec().unwrap(), 0, at(1));
    }
    let record = *bench.function::<Monitor>(0).flows().next().expect("a flow");
    assert_eq!(record.sent[0].packets, 2);
    assert_eq!(record.key, FlowKey::connection(end(1, 0), end(2, 0), 17).0);
}

#[test]
fn flows_end_when_idle_and_without_rules() {
    let mut bench = bench("idle = '10s'", 8);
    bench.process(&udp(1, 2, 0), 0, at(0));
    bench.process(&udp(1, 2, 0), 0, at(8));
    assert_eq!(bench.hits, 1);
    bench.tick(at(30));
    assert_eq!(bench.counter(0, "flows"), 1, "a rule still counts for it");
    bench.free(0, [2]);
    bench.tick(at(18));
    assert_eq!(bench.counter(0, "flows"), 1, "not idle for long enough");
    bench.tick(at(19));
    assert_eq!(bench.counter(0, "flows"), 0);
    let record = bench.function::<Monitor>(0).take_ended().expect("ended");
    assert_eq!(record.sent[0].packets, 2);
    assert_eq!(bench.function::<Monitor>(0).take_ended(), None);
}

#[test]
fn what_finds_no_room_is_counted_together() {
    let mut bench = bench("flows = 1", 8);
    for _ in 0..3 {
        bench.process(&udp(1, 2, 0), 0, at(0));
        bench.process(&udp(1, 3, 0), 0, at(0));
    }
    bench.tell_all();
    assert_eq!(bench.hits, 4);
    assert_eq!(bench.counter(0, "overflow_packets"), 3);
    assert_eq!(bench.counter(0, "packets"), 6);
}

#[test]
fn a_wrong_configuration_says_what_was_expected() {
    for (text, expected) in [
        ("flows = 0", "flows = 0 is not from 1 to 16000000"),
        ("idle = '1ms'", "not between 1s and 30d"),
        ("by = 'colour'", "connection"),
        ("speed = 1", "unknown field"),
    ] {
        let message = toml::from_str::<Config>(text).expect_err(text).to_string();
        assert!(message.contains(expected), "{message}");
    }
}

proptest! {
    /// Whatever is cached and whenever it is told, the numbers are those of a map that sees all.
    #[test]
    fn counts_as_if_it_saw_every_packet(
        by in prop::sample::select(vec!["connection", "hosts", "source", "destination"]),
        packets in prop::collection::vec((0u8..4, 0u8..4, 0usize..3, any::<bool>()), 1..60),
        rules in 0usize..4,
    ) {
        let mut bench = bench(&format!("by = '{by}'"), rules);
        let mut reference: HashMap<(u8, u8), Count> = HashMap::new();
        for (from, to, payload, tells) in packets {
            let frame = udp(from, to, payload);
            bench.process(&frame, 0, at(1));
            if tells {
                bench.tell_all();
            }
            let name = match by {
                "source" => (from, 0),
                "destination" => (0, to),
                _ => (from, to),
            };
            reference.entry(name).or_default().add(1, frame.len() as u64);
        }
        bench.tell_all();
        let monitor = bench.function::<Monitor>(0);
        let mut sent = 0;
        for ((from, to), count) in &reference {
            let name = match by {
                "connection" => FlowKey::connection(end(*from, 1000), end(*to, 2000), 17),
                "hosts" => FlowKey::fragments(end(*from, 0).address, end(*to, 0).address, 0),
                "source" => FlowKey::fragments(end(*from, 0).address, twinpath_core::wire::Address::UNSPECIFIED_V6, 0),
                _ => FlowKey::fragments(end(*to, 0).address, twinpath_core::wire::Address::UNSPECIFIED_V6, 0),
            };
            let record = monitor.flows().find(|record| record.key == name.0).expect("known");
            let side = if by == "destination" { 0 } else { name.1 as usize };
            if from != to || by != "hosts" {
                prop_assert_eq!(record.sent[side], *count);
            }
            sent += count.packets;
        }
        prop_assert_eq!(monitor.total().packets, sent);
        prop_assert_eq!(monitor.flows().map(|record| record.sent[0].packets + record.sent[1].packets).sum::<u64>(), sent);
    }

    #[test]
    fn idle_flows_end_once(gaps in prop::collection::vec(0u64..20, 1..40)) {
        let mut bench = bench("idle = '10s'", 0);
        let (mut now, mut ended) = (0, 0);
        for (index, gap) in gaps.iter().enumerate() {
            if index > 0 && *gap > 10 {
                ended += 1;
            }
            now += gap;
            bench.tick(at(now));
            bench.process(&udp(1, 2, 0), 0, at(now));
        }
        prop_assert_eq!(bench.counter(0, "flows_ended"), ended);
    }
}

fn change(bench: &mut Bench, text: &str) {
    let config = toml::from_str(text).expect("a valid configuration");
    bench.reconfigure::<Monitor>(0, NewMonitor::new(&config, 1));
}

#[test]
fn counts_go_on_with_another_configuration() {
    let mut bench = bench("flows = 1", 8);
    for round in 0..3 {
        bench.process(&udp(1, 2, 10), 0, at(round));
        bench.process(&udp(3, 4, 10), 0, at(round));
    }
    assert_eq!(bench.hits, 4);
    change(&mut bench, "flows = 2\nidle = \"1s\"");
    assert_eq!(bench.rules(), 1, "that of the flow without room is gone");
    assert_eq!(bench.counter(0, "overflow_packets"), 3);
    bench.process(&udp(1, 2, 10), 0, at(4));
    bench.process(&udp(3, 4, 10), 0, at(4));
    bench.tell_all();
    let first = *bench.function::<Monitor>(0).flows().next().expect("a flow");
    assert_eq!((first.sent[0].packets, first.first), (4, at(0)));
    assert_eq!(bench.counter(0, "flows"), 2);
    assert_eq!(bench.counter(0, "packets"), 8);
    // Less room than flows: those that are there stay, no others come.
    change(&mut bench, "flows = 1\nidle = \"1s\"");
    bench.process(&udp(3, 4, 10), 0, at(4));
    bench.process(&udp(5, 6, 10), 0, at(4));
    bench.tell_all();
    assert_eq!(bench.counter(0, "flows"), 2);
    assert_eq!(bench.counter(0, "overflow_packets"), 4);
}

#[test]
fn flows_told_apart_in_another_way_begin_anew() {
    let mut bench = bench("", 8);
    for port in 0..4 {
        let packet = PacketBuilder::udp(end(1, port), end(2, 9))
            .to_vec()
            .unwrap();
        bench.process(&packet, 0, at(1));
        bench.process(&packet, 0, at(2));
    }
    change(&mut bench, "by = \"hosts\"");
    assert_eq!(bench.rules(), 0);
    assert_eq!(bench.counter(0, "flows"), 0);
    assert_eq!(bench.counter(0, "flows_ended"), 4);
    for port in 0..4 {
        let packet = PacketBuilder::udp(end(1, port), end(2, 9))
            .to_vec()
            .unwrap();
        bench.process(&packet, 0, at(3));
    }
    bench.tell_all();
    assert_eq!(bench.counter(0, "flows"), 1);
    assert_eq!(bench.counter(0, "packets"), 12);
    let monitor = bench.function::<Monitor>(0);
    let ended: Vec<u64> = std::iter::from_fn(|| monitor.take_ended())
        .map(|record| record.sent[0].packets)
        .collect();
    assert_eq!(ended, [2; 4]);
}
