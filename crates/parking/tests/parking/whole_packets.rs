//! Parked packets leave as if the workers had seen them whole, whatever the way to the slow path does.
//!
//! A small world with a seed: packets of several flows arrive, the way to the slow path and back loses,
//! doubles, delays and reorders headers, slots are few and the queue is short. The oracle is the
//! same function applied to whole packets.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use twinpath_core::HashKey;
use twinpath_core::split::{
    DepartingFrame, Left, Outgoing, Output, PayloadStage, Sent, cut, stretch,
};
use twinpath_core::wire::rewrite::{set_destination, set_ttl};
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};
use twinpath_core::{Frame, Instant, Metadata, Pools};
use twinpath_parking::{
    BufferCounters, Config, Correction, Late, Multicast, Order, ParkingStage, PortConfig, Small,
    Target, Variant,
};

/// What happens in one step of the world.
#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive {
        flow: u8,
        payload_bytes: u16,
        tcp: bool,
    },
    /// The workers take one of the frames on the way, not always the first.
    SlowFlows {
        pick: u8,
        fate: Fate,
    },
    /// One of the answers on the way arrives.
    Answer {
        pick: u8,
        doubled: bool,
    },
    /// The port goes on for a while.
    Pass {
        ns: u16,
    },
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
        4 => (any::<u8>(), fate).prop_map(|(pick, fate)| Event::SlowFlows { pick, fate }),
        4 => (any::<u8>(), prop::bool::weighted(0.1))
            .prop_map(|(pick, doubled)| Event::Answer { pick, doubled }),
        5 => (0u16..3000).prop_map(|ns| Event::Pass { ns }),
        1 => (0u16..3000).prop_map(|ns| Event::Wait { ns }),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let order = prop_oneof![Just(Order::None), Just(Order::AsReturned)];
    (order, 0usize..4, 1u32..12, any::<bool>()).prop_map(
        |(order, variant, slots, slow_path_chooses_port)| Config {
            variant: [
                Variant::Recirculation,
                fixed(Late::Again),
                fixed(Late::Discard),
                follow(),
            ][variant]
                .clone(),
            order,
            small: Small::Bypass,
            slow_path_chooses_port: slow_path_chooses_port && variant < 2,
            limit_bytes: 9000,
            slots,
            header_timeout: Duration::from_nanos(5000),
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
        .map(|index| (HashKey::new(1).hash([number.into(), index.into()])) as u8)
        .collect();
    builder.payload(&payload).to_vec().expect("a packet")
}

/// The function on the slow path: a rewrite, and for some flows a header that grows by a tunnel's
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
fn on_slow_path(frame: &mut Frame) {
    let mut packet = frame.bytes().to_vec();
    function(&mut packet);
    let grown = packet.len() - frame.len();
    frame.push_front(grown).expect("headroom");
    frame.bytes_mut().copy_from_slice(&packet);
}

struct World {
    stage: ParkingStage,
    pool: Pools,
    now: Instant,
    to_worker: Vec<Frame>,
    to_switch: Vec<Frame>,
    expected: BTreeMap<u64, (u8, Vec<u8>)>,
    /// Headers and whole packets in the order in which the chain was through with them.
    finished: Vec<u64>,
    left: Vec<u64>,
    arrived: u64,
    dropped: u64,
}

const FRAMES: usize = 256;

impl World {
    fn new(config: Config, drops_overflow: bool) -> Self {
        let port = PortConfig {
            rate_bps: 8_000_000_000,
            reading_interval: Duration::from_nanos(100),
            drops_overflow,
        };
        Self {
            stage: ParkingStage::new(config, port).expect("a good configuration"),
            pool: Pools::new(FRAMES, 1),
            now: Instant(1),
            to_worker: Vec::new(),
            to_switch: Vec::new(),
            expected: BTreeMap::new(),
            finished: Vec::new(),
            left: Vec::new(),
            arrived: 0,
            dropped: 0,
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
            Event::SlowFlows { pick, fate } => self.slow(pick, fate),
            Event::Answer { pick, doubled } => self.answer(pick, doubled),
            Event::Pass { ns } => {
                self.now.0 += u64::from(ns);
                self.pass(self.now);
            }
            Event::Wait { ns } => self.now.0 += u64::from(ns),
        }
    }

    fn arrive(&mut self, flow: u8, payload_bytes: u16, tcp: bool) {
        let number = self.arrived;
        self.arrived += 1;
        let mut whole = packet(number as u32, flow, payload_bytes, tcp);
        let mut frame = self.pool.take_filled(&whole).expect("a buffer");
        frame.set_ordinal(number);
        let layout = dissect(&whole).expect("a packet");
        let outgoing = Outgoing {
            frame,
            layout: &layout,
            flow: 0,
            has_state: false,
        };
        let sent = self.stage.send(outgoing, self.now, &mut self.pool);
        match sent {
            Sent::Header(frame) | Sent::Whole(frame) => {
                function(&mut whole);
                self.expected.insert(number, (flow, whole));
                self.to_worker.push(frame);
            }
            Sent::Refused(frame) => self.drop(frame),
        }
    }

    fn drop(&mut self, frame: Frame) {
        self.dropped += 1;
        self.pool.give(frame);
    }

    fn slow(&mut self, pick: u8, fate: Fate) {
        let Some(mut frame) = take(&mut self.to_worker, pick) else {
            return;
        };
        let is_header = frame.metadata().parked_bytes != 0;
        match fate {
            // A header's payload counts, when it has waited in vain.
            Fate::Lose if is_header => return,
            Fate::Lose => return self.drop(frame),
            Fate::Decline | Fate::Process => (),
        }
        assert!(stretch(&mut frame), "it fits");
        if let Fate::Process = fate {
            on_slow_path(&mut frame);
            assert!(cut(&mut frame), "nothing was cut off");
            return self.to_switch.push(frame);
        }
        let (ticket, parked_bytes) = (frame.ticket(), frame.metadata().parked_bytes);
        self.drop(frame);
        if is_header {
            let mut notice = self.pool.take(0).expect("a buffer");
            notice.set_metadata(Metadata {
                parked_bytes,
                ..notice.metadata()
            });
            notice.set_ticket(ticket);
            self.to_switch.push(notice);
        }
    }

    fn answer(&mut self, pick: u8, doubled: bool) {
        let Some(mut frame) = take(&mut self.to_switch, pick) else {
            return;
        };
        let is_header = frame.metadata().parked_bytes != 0;
        // Two of a whole packet are two packets also without parking. Of notices that come late one
        // each is counted.
        if doubled && is_header && frame.len() > 0 {
            let mut copy = self.pool.take_filled(frame.bytes()).expect("a buffer");
            copy.set_ordinal(frame.ordinal());
            copy.set_metadata(frame.metadata());
            copy.set_ticket(frame.ticket());
            self.to_switch.push(copy);
        }
        if is_header && frame.len() == 0 {
            return self.stage.dropped(frame.ticket(), self.now);
        }
        assert!(stretch(&mut frame), "it fits");
        let number = frame.ordinal();
        let hash = HashKey::new(9).hash([self.expected[&number].0.into()]);
        let departing = DepartingFrame {
            frame,
            is_reply: false,
        };
        match self.stage.leave(departing, hash, self.now, &mut self.pool) {
            Left::Now(departing) => {
                self.finished.push(number);
                self.check(&departing.frame);
            }
            Left::Waits => self.finished.push(number),
            Left::Dropped(frame, _) => self.drop(frame),
            Left::Stale => (),
        }
    }

    fn pass(&mut self, until: Instant) {
        while let Some((at, output)) = self.stage.pass(until) {
            assert!(at <= until);
            match output {
                Output::Packet(departing, spare) => {
                    self.check(&departing.frame);
                    self.pool.give(departing.frame);
                    spare.into_iter().for_each(|frame| self.pool.give(frame));
                }
                Output::Freed(frame) => self.pool.give(frame),
                Output::Lost(frame, _) => self.drop(frame),
                Output::HeaderTooLong(..) => panic!("50 bytes fit"),
            }
        }
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
        while !self.to_worker.is_empty() {
            self.slow(0, Fate::Process);
        }
        while !self.to_switch.is_empty() {
            self.answer(0, false);
        }
        self.pass(Instant::NEVER);
    }
}

fn take(frames: &mut Vec<Frame>, pick: u8) -> Option<Frame> {
    let index = usize::from(pick).checked_rem(frames.len())?;
    Some(frames.remove(index))
}

/// What the chain was through with first leaves first, in each flow.
fn is_in_order(world: &World) -> bool {
    let of_flow = |numbers: &[u64], flow: u8| -> Vec<u64> {
        let gone: BTreeSet<u64> = world.left.iter().copied().collect();
        let of_flow = |number: &&u64| world.expected[number].0 == flow && gone.contains(number);
        numbers.iter().filter(of_flow).copied().collect()
    };
    (0..3).all(|flow| of_flow(&world.finished, flow) == of_flow(&world.left, flow))
}

/// Where nothing goes round, the queue's order is that of arrival, and the workers of this world
/// change the order of packets.
fn keeps_order(config: &Config) -> bool {
    let passes_once = matches!(&config.variant, Variant::Multicast(m) if m.late == Late::Discard);
    config.order != Order::None && !passes_once
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn packets_are_those_of_a_slow_path_that_sees_them_whole(
        config in config(),
        drops_overflow: bool,
        events in prop::collection::vec(event(), 1..300),
    ) {
        let ordered = keeps_order(&config);
        let mut world = World::new(config, drops_overflow);
        for event in events {
            world.step(event);
        }
        world.settle();

        let once: BTreeSet<u64> = world.left.iter().copied().collect();
        prop_assert_eq!(once.len(), world.left.len(), "a packet left twice");
        prop_assert!(!ordered || is_in_order(&world), "a flow lost its order: {:?}", world.left);
        let (stats, counts): (BufferCounters, _) = (*world.stage.buffer().counters(), *world.stage.counters());
        prop_assert!(world.stage.is_empty(), "the queue never ends");
        prop_assert_eq!(stats.parked, stats.ended());
        prop_assert_eq!(stats.refused(), counts.refused + counts.no_room);
        prop_assert_eq!(stats.parked + counts.whole() + counts.refused, world.arrived);
        prop_assert_eq!(world.arrived + counts.dropped_late, world.left.len() as u64 + world.dropped);
        drop((world.to_worker, world.to_switch));
        prop_assert_eq!(world.pool.small().available(), FRAMES, "a buffer is missing");
    }
}

/// Without faults nothing is lost: the property above would hold, too, if all were dropped.
#[test]
fn without_faults_every_packet_leaves() {
    let config = Config {
        limit_bytes: 1 << 20,
        ..Config::default()
    };
    let mut world = World::new(config, false);
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
    assert!(world.stage.buffer().counters().departed > 90);
}

/// Rounds in which nothing happens are counted, not made.
#[test]
fn a_long_wait_costs_no_time() {
    let config = Config {
        header_timeout: Duration::from_secs(3600),
        ..Config::default()
    };
    let mut world = World::new(config, false);
    world.step(Event::Arrive {
        flow: 1,
        payload_bytes: 1000,
        tcp: true,
    });
    let hour = Instant(3_599_000_000_000);
    assert!(world.stage.pass(hour).is_none());
    // One byte a nanosecond.
    let passes = world.stage.buffer().counters().recirculations;
    assert!((3_598_000_000..3_600_000_000).contains(&passes), "{passes}");
    world.now = hour;
    world.settle();
    assert_eq!(world.left.len(), 1);
}
