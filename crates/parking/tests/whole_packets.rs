//! Parked packets leave as if the cores had seen them whole, whatever the way to the cores does.
//!
//! A small world with a seed: packets of several flows arrive, the way to the cores and back loses,
//! doubles, delays and reorders headers, slots are few and the queue is short. The oracle is the
//! same function applied to whole packets.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use twinpath_core::hash::hash_lanes;
use twinpath_core::wire::rewrite::{set_destination, set_ttl};
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};
use twinpath_core::{Frame, Instant, Pool};
use twinpath_parking::fast::{Output, Returned, Sent};
use twinpath_parking::slow::Visitor;
use twinpath_parking::{
    Config, Correction, Late, Multicast, Order, Small, Stage, Stats, Target, Variant,
};

/// What happens in one step of the world.
#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive {
        flow: u8,
        payload_bytes: u16,
        tcp: bool,
    },
    /// The cores take one of the frames on the way, not always the first.
    Cores {
        pick: u8,
        fate: Fate,
    },
    /// One of the answers on the way arrives.
    Answer {
        pick: u8,
        doubled: bool,
    },
    Dequeue,
    Wait {
        ns: u16,
    },
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Process,
    Lose,
    Decline,
}

fn event() -> impl Strategy<Value = Event> {
    let fate =
        prop_oneof![8 => Just(Fate::Process), 1 => Just(Fate::Lose), 1 => Just(Fate::Decline)];
    prop_oneof![
        4 => (0u8..3, 0u16..1400, any::<bool>())
            .prop_map(|(flow, payload_bytes, tcp)| Event::Arrive { flow, payload_bytes, tcp }),
        4 => (any::<u8>(), fate).prop_map(|(pick, fate)| Event::Cores { pick, fate }),
        4 => (any::<u8>(), prop::bool::weighted(0.1))
            .prop_map(|(pick, doubled)| Event::Answer { pick, doubled }),
        5 => Just(Event::Dequeue),
        1 => (0u16..3000).prop_map(|ns| Event::Wait { ns }),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let order = prop_oneof![
        Just(Order::None),
        Just(Order::ByFlow {
            partitions: 2,
            window: 64
        })
    ];
    (order, any::<bool>(), 0usize..4, 1u32..12, any::<bool>()).prop_map(
        |(order, bypass, variant, slots, cores_choose_port)| Config {
            variant: [
                Variant::Recirculation,
                fixed(Late::Again),
                fixed(Late::Discard),
                follow(),
            ][variant]
                .clone(),
            order,
            small: match bypass && order == Order::None {
                true => Small::Bypass,
                false => Small::Token,
            },
            cores_choose_port: cores_choose_port && variant < 2,
            limit_bytes: 9000,
            slots,
            patience: Duration::from_nanos(5000),
            ..Config::default()
        },
    )
}

fn multicast(target: Target, late: Late) -> Variant {
    Variant::Multicast(Multicast {
        target,
        gain: 0.7,
        correction: Correction::Exact,
        drain_bps: 8_000_000_000,
        most_copies: 3,
        late,
    })
}

fn fixed(late: Late) -> Variant {
    multicast(Target::Fixed { bytes: 4000 }, late)
}

fn follow() -> Variant {
    let target = Target::Follow {
        quantile: 0.9,
        margin_bytes: 100,
        first_bytes: 1000,
    };
    multicast(target, Late::Again)
}

fn packet(number: u32, flow: u8, payload_bytes: u16, tcp: bool) -> Vec<u8> {
    let end = |text: &str| text.parse::<Endpoint>().expect("an endpoint");
    let source = Endpoint {
        port: 1000 + u16::from(flow),
        ..end("10.0.0.1:1")
    };
    let builder = match tcp {
        true => PacketBuilder::tcp(source, end("10.0.0.2:80")).seq(number),
        false => PacketBuilder::udp(source, end("10.0.0.2:53")),
    };
    let payload: Vec<u8> = (0..payload_bytes)
        .map(|index| (hash_lanes([number.into(), index.into(), 0, 0, 0], 1)) as u8)
        .collect();
    builder.payload(&payload).to_vec().expect("a packet")
}

/// The function on the cores: a rewrite, and for some flows a header that grows by a tunnel's
/// worth of bytes.
fn function(packet: &mut Vec<u8>) {
    let layout = dissect(packet).expect("a packet that looks whole");
    let grows = packet[usize::from(layout.l4) + 1] & 1 == 1;
    let backend = "192.168.7.9:8080".parse().expect("an endpoint");
    set_destination(packet, &layout, backend).expect("a packet with ports");
    set_ttl(packet, &layout, 17).expect("an IP packet");
    if grows {
        packet.splice(..0, [0xee; 50]);
    }
}

/// The function on a frame, header only or not: it cannot tell.
fn on_cores(frame: &mut Frame) {
    let mut packet = frame.bytes().to_vec();
    function(&mut packet);
    let grown = packet.len() - frame.len();
    frame.push_front(grown).expect("headroom");
    frame.bytes_mut().copy_from_slice(&packet);
}

struct World {
    stage: Stage,
    pool: Pool,
    now: Instant,
    to_cores: Vec<Frame>,
    to_switch: Vec<Frame>,
    expected: BTreeMap<u64, (u8, Vec<u8>)>,
    left: Vec<u64>,
    in_queue: usize,
    arrived: u64,
    refused: u64,
}

const FRAMES: usize = 256;

impl World {
    fn new(config: Config) -> Self {
        Self {
            stage: Stage::new(config).expect("a good configuration"),
            pool: Pool::new(FRAMES, 2048),
            now: Instant(1),
            to_cores: Vec::new(),
            to_switch: Vec::new(),
            expected: BTreeMap::new(),
            left: Vec::new(),
            in_queue: 0,
            arrived: 0,
            refused: 0,
        }
    }

    fn step(&mut self, event: Event) {
        self.now.0 += 100;
        match event {
            Event::Arrive {
                flow,
                payload_bytes,
                tcp,
            } => self.arrive(flow, payload_bytes, tcp),
            Event::Cores { pick, fate } => self.cores(pick, fate),
            Event::Answer { pick, doubled } => self.answer(pick, doubled),
            Event::Dequeue => self.dequeue(),
            Event::Wait { ns } => self.now.0 += u64::from(ns),
        }
        let reading = self.stage.reading(self.now);
        self.stage.learn(reading);
    }

    fn arrive(&mut self, flow: u8, payload_bytes: u16, tcp: bool) {
        let number = self.arrived;
        self.arrived += 1;
        let mut whole = packet(number as u32, flow, payload_bytes, tcp);
        let mut frame = self.pool.take_filled(&whole).expect("a buffer");
        frame.set_ordinal(number);
        let layout = dissect(&whole).expect("a packet");
        let hash = hash_lanes([flow.into(), 0, 0, 0, 0], 9);
        match self
            .stage
            .packet(frame, &layout, hash, self.now, &mut self.pool)
        {
            Sent::ToCores(frame) => {
                function(&mut whole);
                self.expected.insert(number, (flow, whole));
                self.to_cores.push(frame);
            }
            Sent::Refused(..) => self.refused += 1,
        }
    }

    fn cores(&mut self, pick: u8, fate: Fate) {
        let Some(mut frame) = take(&mut self.to_cores, pick) else {
            return;
        };
        let visitor = Visitor::welcome(&mut frame).expect("a tag");
        let answers = match fate {
            Fate::Lose => false,
            Fate::Decline => visitor.decline(&mut frame),
            Fate::Process => {
                on_cores(&mut frame);
                visitor.farewell(&mut frame)
            }
        };
        if answers {
            self.to_switch.push(frame);
        }
    }

    fn answer(&mut self, pick: u8, doubled: bool) {
        let Some(frame) = take(&mut self.to_switch, pick) else {
            return;
        };
        if doubled {
            let mut copy = self.pool.take_filled(frame.bytes()).expect("a buffer");
            copy.set_ordinal(frame.ordinal());
            // Two of a whole packet are two packets also without parking.
            if copy.bytes()[1] != 1 {
                self.to_switch.push(copy);
            }
        }
        if let Returned::Depart(packet) = self.stage.returned(frame, self.now) {
            self.check(&packet);
        }
    }

    fn dequeue(&mut self) {
        match self.stage.dequeue(self.now) {
            Some(Output::Depart(packet, _)) => self.check(&packet),
            Some(Output::Again(resident)) => self.stage.recirculated(resident),
            Some(Output::HeaderTooLong(..)) => panic!("50 bytes fit"),
            Some(Output::Ended(..) | Output::Copy) | None => (),
        }
        self.in_queue = usize::from(self.stage.head_bytes().is_some());
    }

    fn check(&mut self, packet: &Frame) {
        let number = packet.ordinal();
        let (_, expected) = &self.expected[&number];
        assert!(
            packet.bytes() == expected,
            "packet {number} is not what it should be"
        );
        self.left.push(number);
    }

    /// Answers all that is on its way, and lets the queue run empty.
    fn settle(&mut self) {
        while !self.to_cores.is_empty() {
            self.cores(0, Fate::Process);
        }
        while !self.to_switch.is_empty() {
            self.answer(0, false);
        }
        for _ in 0..10_000 {
            self.now.0 += 100;
            self.dequeue();
            if self.in_queue == 0 {
                break;
            }
        }
    }
}

fn take(frames: &mut Vec<Frame>, pick: u8) -> Option<Frame> {
    let index = usize::from(pick).checked_rem(frames.len())?;
    Some(frames.remove(index))
}

fn is_in_order(world: &World) -> bool {
    let mut last = BTreeMap::new();
    world.left.iter().all(|number| {
        let (flow, _) = &world.expected[number];
        last.insert(*flow, *number)
            .is_none_or(|before| before < *number)
    })
}

fn keeps_order(config: &Config) -> bool {
    let passes_once = matches!(&config.variant, Variant::Multicast(m) if m.late == Late::Discard);
    config.order != Order::None || (passes_once && config.small == Small::Token)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn packets_are_those_of_cores_that_see_them_whole(
        config in config(),
        events in prop::collection::vec(event(), 1..300),
    ) {
        let ordered = keeps_order(&config);
        let mut world = World::new(config);
        for event in events {
            world.step(event);
        }
        world.settle();

        let once: BTreeSet<u64> = world.left.iter().copied().collect();
        prop_assert_eq!(once.len(), world.left.len(), "a packet left twice");
        prop_assert!(!ordered || is_in_order(&world), "a flow lost its order: {:?}", world.left);
        let stats: Stats = *world.stage.stats();
        prop_assert_eq!(world.stage.head_bytes(), None, "the queue never ends");
        prop_assert_eq!(stats.parked, stats.ended());
        prop_assert_eq!(stats.refused() + world.stage.counts().no_buffer, world.refused);
        prop_assert_eq!(world.stage.counts().bad_tag, 0);
        drop((world.to_cores, world.to_switch));
        prop_assert_eq!(world.pool.available(), FRAMES, "a buffer is missing");
    }
}

/// Without faults nothing is lost: the property above would hold, too, if all were dropped.
#[test]
fn without_faults_every_packet_leaves() {
    let config = Config {
        limit_bytes: 1 << 20,
        ..Config::default()
    };
    let mut world = World::new(config);
    for number in 0..100u16 {
        let (flow, tcp) = ((number % 3) as u8, number % 2 == 0);
        world.step(Event::Arrive {
            flow,
            payload_bytes: number * 13,
            tcp,
        });
    }
    world.settle();
    assert_eq!(world.left.len(), 100);
}
