use super::{Config, Reframer};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;
use twinpath_core::key::Role;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};
use twinpath_core::{Direction, DropCounters, FlowKey, Instant, Packet, Pools, Side};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};

fn config(text: &str) -> Config {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A reframer with some flows, and what left: when, of which flow, way and number.
struct Bench {
    reframer: Reframer,
    flows: Vec<(u32, u32)>,
    pools: Pools,
    left: Vec<(u64, u16, Direction, u16)>,
}

impl Bench {
    fn new(text: &str, flows: usize) -> Self {
        Self {
            reframer: Reframer::new(&config(text)),
            flows: vec![(0, 0); flows],
            pools: Pools::new(256, 4),
            left: Vec::new(),
        }
    }

    fn act(
        &mut self,
        number: u16,
        now: u64,
        act: impl FnOnce(&mut Reframer, &mut Flow<'_>, &mut Outbox<'_>),
    ) {
        let (mut onward, mut replies, mut drops) =
            (Vec::new(), Vec::new(), DropCounters::default());
        let (word, handle) = &mut self.flows[usize::from(number)];
        let mut out = Outbox::new(&mut onward, &mut replies, &mut drops, &mut self.pools);
        let mut flow = Flow {
            key: &FlowKey::default(),
            initiator: &mut Side::Low,
            words: std::slice::from_mut(word),
            handle,
            now: Instant(now),
        };
        act(&mut self.reframer, &mut flow, &mut out);
        assert_eq!(drops.nonzero().count(), 0, "nothing is lost");
        assert_eq!(*word == 0, *handle == 0, "a word tells that packets wait");
        for packet in onward {
            let (flow, number) = (packet.source().port, packet.destination().port);
            self.left.push((now, flow, packet.direction, number));
            self.pools.give(packet.frame);
        }
    }

    /// The `number`-th packet of a flow. Deadlines of all flows up to now come first.
    fn send(&mut self, flow: u16, way: Direction, number: u16, now: u64) {
        self.wake_up_to(now);
        let ends = [flow, number].map(|port| Endpoint::v4([10, 0, 0, 1], port));
        let bytes = PacketBuilder::udp(ends[0], ends[1])
            .payload(&[0; 72])
            .to_vec();
        let bytes = bytes.expect("a packet");
        let packet = Packet {
            layout: dissect(&bytes).expect("a packet"),
            frame: self.pools.take_filled(&bytes).expect("room"),
            direction: way,
            role: Role::Member,
            alias_row: 0,
        };
        self.act(flow, now, |reframer, flow, out| {
            reframer.handle(packet, flow, out)
        });
    }

    fn wake_up_to(&mut self, now: u64) {
        loop {
            let deadlines = self
                .flows
                .iter()
                .map(|(_, handle)| self.reframer.deadline(*handle));
            let (at, flow) = deadlines.zip(0..).min().expect("flows");
            if at.0 > now {
                return;
            }
            self.act(flow, at.0, |reframer, flow, out| reframer.wake(flow, out));
        }
    }

    fn counter(&self, wanted: &str) -> u64 {
        let mut found = 0;
        self.reframer
            .counters(&mut |name, value| found += if name == wanted { value } else { 0 });
        found
    }
}

/// Two flows mixed: each leaves in one run when its window ends.
#[test]
fn mixed_flows_leave_in_runs() {
    let mut bench = Bench::new("window = \"30us\"", 2);
    let there = Direction::Original;
    for number in 0..3 {
        bench.send(0, there, number, u64::from(number) * 2000);
        bench.send(1, there, number, u64::from(number) * 2000 + 1000);
    }
    bench.wake_up_to(40_000);
    let run = |at, flow| (0..3).map(move |number| (at, flow, there, number));
    let expected: Vec<_> = run(30_000, 0).chain(run(31_000, 1)).collect();
    assert_eq!(bench.left, expected);
    assert_eq!((bench.counter("runs"), bench.counter("packets")), (2, 6));
}

#[test]
fn full_lines_leave_at_once() {
    for (limit, full, early) in [
        ("batch = 3", 2, 0),
        ("most_bytes_per_flow = 350", 0, 1),
        ("most_packets = 3", 0, 1),
    ] {
        let mut bench = Bench::new(&format!("window = \"1ms\"\n{limit}"), 1);
        (0..6).for_each(|number| bench.send(0, Direction::Original, number, 5));
        let counters = [bench.counter("full_runs"), bench.counter("early_runs")];
        assert_eq!(counters, [full, early], "{limit}");
        bench.wake_up_to(u64::MAX - 1);
        let numbers: Vec<_> = bench.left.iter().map(|left| left.3).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5], "{limit}");
    }
}

#[test]
fn windows_have_bounds() {
    for (window, is_right) in [
        ("0us", false),
        ("1ns", true),
        ("10ms", true),
        ("11ms", false),
    ] {
        let read = toml::from_str::<Config>(&format!("window = \"{window}\""));
        assert_eq!(read.is_ok(), is_right, "{window}");
    }
    assert!(toml::from_str::<Config>("batch = 0").is_err());
    for key in ["most_packets", "most_long_packets"] {
        assert!(toml::from_str::<Config>(&format!("{key} = 1_048_576")).is_ok());
        let many = toml::from_str::<Config>(&format!("{key} = 1_048_577")).expect_err("too many");
        let expected = "1048577 packets are too many: at most 1048576";
        assert!(many.to_string().contains(expected), "{many}");
    }
}

proptest! {
    /// Whatever comes, nothing is lost or held for longer than the window, and the order of each flow
    /// and direction stays.
    #[test]
    fn order_of_each_flow_and_direction_holds(
        window in 1..100u64,
        batch in 1..9u32,
        most in 1..20u32,
        packets in prop::collection::vec((0..4u16, any::<bool>(), 0..40u64), 1..200),
    ) {
        let mut bench = Bench::new(&format!("window = \"{window}us\"\nbatch = {batch}\nmost_packets = {most}"), 4);
        let (mut now, mut sent) = (0, HashMap::<_, Vec<u64>>::new());
        for (flow, back, wait) in packets {
            now += wait * 1000;
            let way = Direction::BOTH[usize::from(back)];
            let times = sent.entry((flow, way)).or_default();
            times.push(now);
            let number = times.len() as u16;
            bench.send(flow, way, number, now);
        }
        bench.wake_up_to(u64::MAX - 1);
        let window = Duration::from_micros(window).as_nanos() as u64;
        for ((flow, way), times) in sent {
            let left: Vec<_> = bench.left.iter().filter(|left| (left.1, left.2) == (flow, way)).collect();
            prop_assert_eq!(left.len(), times.len());
            for (number, (left, came)) in (1..).zip(left.into_iter().zip(times)) {
                prop_assert_eq!(left.3, number);
                prop_assert!((came..=came + window).contains(&left.0));
            }
        }
        prop_assert_eq!(bench.reframer.kept_packets(), 0);
    }
}
