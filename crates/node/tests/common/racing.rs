//! Packets that race: nobody waits for what caused them, threads take turns as they like. Each
//! element logs the order in which it took packets; its functions alone, fed in that order, must
//! give the same packets.
//!
//! Whoever follows packets ([`twinpath_node::watch`]) is told of each step when it is taken, by all
//! threads in one order. A packet that is handed on takes its next step later, so what that order
//! says of any two packets that met the same state is the order in which they met it.

use super::{Outcome, by_flow, draws, lossless, reported};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use twinpath_compare::blank_drawn;
use twinpath_control::live::Live;
use twinpath_control::report::Report;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::fragments::{FragmentOutcome, Fragments};
use twinpath_core::key::Role;
use twinpath_core::wire::{Fragment, dissect};
use twinpath_core::{Direction, FlowKey, Frame, HashKey, Instant, Pools, Side, Steering};
use twinpath_io::{CaptureError, Trace};
use twinpath_link::{Header, Message, Sender, attach, detach, number};
use twinpath_node::arrivals::Pacing;
use twinpath_node::causality::{Causality, Scope};
use twinpath_node::command::no_commands;
use twinpath_node::machine::{Moment, Time};
use twinpath_node::observe::Observer;
use twinpath_node::sink::Sink;
use twinpath_node::source::Source;
use twinpath_node::watch::{PacketLook, SlowLook, TraceStep};
use twinpath_node::wiring::needs_ports;
use twinpath_node::{Departure, Limits, Node, build, threads};

/// What a race is run with.
#[derive(Copy, Clone, Debug)]
pub struct Scarcity {
    /// Frames that may be under way to each worker.
    pub ring_frames: usize,
    /// Buffers for packets that arrive.
    pub buffers: usize,
    /// Whether nothing may be lost for want of either.
    pub is_lossless: bool,
    /// How far packets that arrive may be ahead of packets under way, if that is bounded.
    pub ahead: Option<Duration>,
}

impl Scarcity {
    /// As much as a capture needs.
    pub const NONE: Self = Self::of(1024, 1 << 14);

    /// A run that loses nothing, with so much.
    pub const fn of(ring_frames: usize, buffers: usize) -> Self {
        Self {
            ring_frames,
            buffers,
            is_lossless: true,
            ahead: Some(Duration::from_micros(50)),
        }
    }
}

impl fmt::Display for Scarcity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loses = if self.is_lossless { "" } else { ", losing" };
        write!(
            f,
            "rings {}, buffers {}{loses}",
            self.ring_frames, self.buffers
        )
    }
}

/// What a race came to.
pub struct Race {
    steps: Vec<(u64, TraceStep)>,
    /// What functions sent of their own.
    replies: Vec<Vec<u8>>,
    /// How many elements the chain has.
    pub elements: usize,
    pub report: Report,
}

#[derive(Default)]
struct Replies(Vec<Vec<u8>>);

impl Sink for Replies {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        if departure.is_reply {
            self.0.push(departure.frame.bytes().to_vec());
        }
        Ok(())
    }
}

/// Runs packets through both paths on threads; they enter as soon as there is room.
pub fn race(service: &Service, trace: &Trace, scarcity: Scarcity) -> Race {
    let mut service = lossless(service, Paths::Both, Execution::Threads);
    service.link.ring_frames = scarcity.ring_frames;
    let mut node = build(&service, Paths::Both).unwrap_or_else(|error| panic!("{error}"));
    node.machine.set_limits(Limits {
        ring_frames: scarcity.ring_frames,
        is_lossless: scarcity.is_lossless,
        is_replay: true,
    });
    *node.machine.pools() = Pools::new(scarcity.buffers, scarcity.buffers.div_ceil(8));
    let watch = node.watch_loop(0..u64::MAX);
    let pacing = Pacing {
        is_lossless: scarcity.is_lossless,
        is_paced: false,
        most_ahead: scarcity.ahead,
    };
    let (mut sink, mut observer) = (Replies::default(), Observer::new(Live::hidden()));
    threads::run(
        &mut node,
        &mut Source::trace(super::copy(trace)),
        Causality::new(Scope::Nothing),
        &mut sink,
        &mut observer,
        pacing,
        &no_commands(),
        &AtomicBool::new(false),
    )
    .expect("memory never fails");
    Race {
        steps: watch.take(),
        replies: sink.0,
        elements: watch.elements().len(),
        report: reported(observer, &node),
    }
}

/// What happened to a packet, in the order in which it happened to all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Arrived(Arrival),
    /// An element took it, on the fast path or on a worker.
    Taken {
        element: u8,
        on_fast_path: bool,
    },
    /// It was lost for want of room.
    Lost,
    /// For this reason.
    Dropped(&'static str),
    /// Dropped in front of the functions of an element.
    Refused,
    Left(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Arrival {
    at: Instant,
    port: u16,
    /// None if it enters no element.
    direction: Option<Direction>,
    bytes: Vec<u8>,
}

/// How many packets a race shows to have met elements where.
#[derive(Clone, Debug, Default)]
pub struct Logged {
    /// On the fast path, and on workers, by element.
    pub taken: Vec<[u64; 2]>,
    /// Packets for which there was no room.
    pub lost: u64,
    /// How often an element took a packet before one that had arrived before it.
    pub overtaken: u64,
}

/// As a column of the table that the tests print.
impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (element, [fast, slow]) in self.taken.iter().enumerate() {
            write!(f, "element {element}: {fast} fast, {slow} slow; ")?;
        }
        write!(f, "{} overtaken, {} lost", self.overtaken, self.lost)
    }
}

impl Race {
    /// How often packets passed an element in the loop that serves a lane.
    pub fn passed_in_loop(&self) -> usize {
        let steps = self.steps.iter();
        steps
            .filter(|(_, step)| matches!(step, TraceStep::Pass { .. }))
            .count()
    }

    fn events(&self) -> Vec<(u64, Event)> {
        // Packets that wait on the fast path for a rule of this element.
        let mut held = HashMap::new();
        let mut events = Vec::new();
        for (packet, step) in &self.steps {
            let was_held = held.remove(packet);
            let taken = |element, on_fast_path| Event::Taken {
                element,
                on_fast_path,
            };
            match step {
                TraceStep::LookAhead { .. } => {
                    events.push((*packet, Event::Arrived(arrival(step))));
                }
                TraceStep::Meet(met) if meets(&met.decision) => {
                    events.push((*packet, taken(met.element, true)));
                }
                TraceStep::Pass { element } => events.push((*packet, taken(*element, true))),
                TraceStep::Hold { element } => _ = held.insert(*packet, *element),
                TraceStep::GoOn { .. } => {
                    events.extend(was_held.map(|element| (*packet, taken(element, true))));
                }
                TraceStep::Receive { element, slow_path } if has_run(slow_path) => {
                    events.push((*packet, taken(*element, false)));
                }
                TraceStep::Resume { element } => events.push((*packet, taken(*element, false))),
                TraceStep::Drop { reason } if IN_FRONT.contains(reason) => {
                    events.push((*packet, Event::Refused));
                }
                TraceStep::Drop { reason } if LOSSES.contains(reason) => {
                    events.push((*packet, Event::Lost));
                }
                TraceStep::Drop { reason } => {
                    events.extend(was_held.map(|element| (*packet, taken(element, true))));
                    events.push((*packet, Event::Dropped(reason)));
                }
                TraceStep::PutOut {
                    packet: look,
                    is_reply: false,
                    ..
                } => events.push((*packet, Event::Left(bytes_of(&look.hex)))),
                _ => {}
            }
        }
        events
    }

    /// Fails with the first packet that is not what the functions of the element alone make of it,
    /// fed in the order in which the element took packets.
    pub fn assert_linearizable(&self, service: &Service, may_lose: bool, what: &str) -> Logged {
        let events = self.events();
        let mut alone = Alone::new(service, self.elements);
        for (place, (packet, event)) in events.iter().enumerate() {
            if let Err(why) = alone.happens(*packet, event) {
                let before = related(&events[..=place], *packet);
                panic!("{what}: packet {packet} {why}; packets of its flow before:\n{before}");
            }
        }
        alone.end();
        let rest: Vec<_> = alone.packets.keys().collect();
        assert!(rest.is_empty(), "{what}: packets {rest:?} have not left");
        let mut replies = [self.replies.clone(), std::mem::take(&mut alone.replies)];
        if alone.draws {
            let all = replies.iter_mut().flatten();
            all.for_each(|reply| blank_drawn(reply));
        }
        replies.iter_mut().for_each(|all| all.sort());
        assert!(replies[0] == replies[1], "{what}: what functions answered");
        assert!(may_lose || alone.logged.lost == 0, "{what}: packets lost");
        alone.logged
    }

    /// Fails if packets of a flow and direction left in another order than they arrived in.
    pub fn assert_in_order(&self, what: &str) {
        let mut flows = HashMap::new();
        let mut last = BTreeMap::<(FlowKey, Side, Role), u64>::new();
        for (packet, event) in self.events() {
            match event {
                Event::Arrived(arrival) => _ = flows.insert(packet, flow_of(&arrival.bytes)),
                Event::Left(_) => {
                    let Some(flow) = flows[&packet] else {
                        continue;
                    };
                    let before = last.insert(flow, packet);
                    let is_in_order = before.is_none_or(|before| before < packet);
                    assert!(is_in_order, "{what}: {packet} left behind {before:?}");
                }
                _ => {}
            }
        }
    }

    /// What it came to, but for times and ports of the packets.
    pub fn outcome(&self) -> Outcome {
        Outcome {
            packets: Vec::new(),
            flows: by_flow(self.left()),
            ports: BTreeMap::new(),
            report: self.report.clone(),
        }
    }

    /// What left of the packets that came in.
    fn left(&self) -> Vec<Vec<u8>> {
        let events = self.events().into_iter();
        let left = events.filter_map(|(_, event)| match event {
            Event::Left(bytes) => Some(bytes),
            _ => None,
        });
        left.collect()
    }

    /// How many packets left that are not among those of another run, whatever identifications were
    /// drawn.
    pub fn differs_from(&self, other: &Outcome) -> usize {
        let mut others = HashMap::<Vec<u8>, usize>::new();
        for packet in other.flows.values().flatten() {
            *others.entry(undrawn(packet)).or_default() += 1;
        }
        let is_other = |bytes: &&Vec<u8>| match others.get_mut(&undrawn(bytes)) {
            Some(rest) if *rest > 0 => {
                *rest -= 1;
                false
            }
            _ => true,
        };
        let left = self.left();
        left.iter().filter(is_other).count()
    }
}

/// A packet without identifications that may have been drawn.
fn undrawn(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    blank_drawn(&mut bytes);
    bytes
}

/// Reasons for which a fragment is dropped in front of an element that needs ports.
const IN_FRONT: [&str; 3] = ["fragment_misfit", "fragment_alone", "fragment_backlog_full"];

/// Reasons for which a packet is dropped that no function has.
const LOSSES: [&str; 3] = ["punt_ring_full", "no_buffer", "rule_backlog_full"];

fn arrival(step: &TraceStep) -> Arrival {
    let TraceStep::LookAhead {
        time_ns,
        port,
        direction,
        packet,
    } = step
    else {
        panic!("a packet arrives first: {step:?}");
    };
    Arrival {
        at: Instant(*time_ns),
        port: *port,
        direction: direction.map(|direction| match direction {
            "original" => Direction::Original,
            _ => Direction::Reply,
        }),
        bytes: bytes_of(&packet.hex),
    }
}

/// Whether a packet that met an element on the fast path was dealt with there.
fn meets(decision: &str) -> bool {
    !["held", "to the slow path"].contains(&decision)
}

/// Whether functions have met the packet; else it waits for rules to go.
fn has_run(slow_path: &SlowLook) -> bool {
    !slow_path.outcome().starts_with("waits")
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |digit: u8| (digit as char).to_digit(16).expect("hexadecimal") as u8;
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// What happened last to packets of the flow of one.
fn related(events: &[(u64, Event)], packet: u64) -> String {
    let arrivals = events.iter().filter_map(|(packet, event)| match event {
        Event::Arrived(arrival) => Some((*packet, arrival)),
        _ => None,
    });
    let arrivals: HashMap<u64, &Arrival> = arrivals.collect();
    let key = |packet: &u64| flow_of(&arrivals[packet].bytes).map(|(key, ..)| key);
    let mut lines = Vec::new();
    for (other, event) in events
        .iter()
        .filter(|(other, _)| key(other) == key(&packet))
    {
        lines.push(match event {
            Event::Arrived(arrival) => {
                let headers = PacketLook::of(&arrival.bytes).headers;
                format!("{other} at {}: {}", arrival.at.0, headers.join("; "))
            }
            Event::Left(bytes) => format!("{other} left: {} bytes", bytes.len()),
            _ => format!("{other} {event:?}"),
        });
    }
    let last = lines.split_off(lines.len().saturating_sub(30));
    last.join("\n")
}

fn flow_of(bytes: &[u8]) -> Option<(FlowKey, Side, Role)> {
    let layout = dissect(bytes).ok()?;
    let keyed = Steering::new(0).key(bytes, &layout)?;
    Some((keyed.key, keyed.side, keyed.role))
}

/// The elements of a chain, each with its functions alone on a server.
struct Alone {
    node: Node,
    numbers: Sender,
    /// What tells fragments' flows, by element.
    fragments: HashMap<u8, Fragments>,
    arrivals: HashMap<u64, Arrival>,
    /// Packets as they are behind the last element that has taken them.
    /// The reassembler may make several of one.
    packets: HashMap<u64, Vec<Vec<u8>>>,
    /// The last packet that each element took.
    latest: Vec<u64>,
    /// By packet: the element that took it last.
    passed: HashMap<u64, u8>,
    replies: Vec<Vec<u8>>,
    /// Functions have let go of what they kept.
    has_ended: bool,
    /// Whether a function draws identifications: each path has others.
    draws: bool,
    logged: Logged,
}

impl Alone {
    fn new(service: &Service, elements: usize) -> Self {
        let mut service = lossless(service, Paths::Both, Execution::Virtual);
        // With nothing on the fast path the workers have all state.
        service.rule_cache.enabled = false;
        service.slow_path.workers = 1;
        let mut node = build(&service, Paths::Both).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(node.workers[0].elements().len(), elements);
        node.workers[0].start(Instant::ZERO);
        Self {
            node,
            numbers: Sender::default(),
            fragments: (0..)
                .zip(needs_ports(&service))
                .filter(|(_, needs)| *needs)
                .map(|(element, _)| (element, Fragments::new(HashKey::new(1))))
                .collect(),
            arrivals: HashMap::new(),
            packets: HashMap::new(),
            latest: vec![0; elements],
            passed: HashMap::new(),
            replies: Vec::new(),
            has_ended: false,
            draws: draws(&service),
            logged: Logged {
                taken: vec![[0; 2]; elements],
                ..Logged::default()
            },
        }
    }

    /// Something happened to a packet; the error says what the functions alone make of it.
    fn happens(&mut self, packet: u64, event: &Event) -> Result<(), String> {
        match event {
            Event::Arrived(arrival) => {
                self.packets.insert(packet, vec![arrival.bytes.clone()]);
                self.arrivals.insert(packet, arrival.clone());
            }
            Event::Taken {
                element,
                on_fast_path,
            } => {
                self.logged.taken[usize::from(*element)][usize::from(!on_fast_path)] += 1;
                let latest = &mut self.latest[usize::from(*element)];
                self.logged.overtaken += u64::from(packet < *latest);
                *latest = packet.max(*latest);
                let bytes = self.in_hand(packet);
                let [bytes] = &bytes[..] else {
                    return Err(format!(
                        "is {bytes:02x?} in front of element {element} alone"
                    ));
                };
                self.take(packet, *element, bytes);
            }
            Event::Lost => {
                self.logged.lost += 1;
                let lost = self.in_hand(packet);
                lost.iter().for_each(|bytes| self.pass_by(packet, bytes));
            }
            Event::Refused => _ = self.packets.remove(&packet),
            Event::Dropped(_) => {
                // Broken headers are nobody's.
                let enters = self.arrivals[&packet].direction.is_some();
                let kept = self.packets.remove(&packet).filter(|_| enters);
                if kept.is_some() {
                    return Err("goes on after functions alone".into());
                }
            }
            Event::Left(bytes) => {
                let expected = self.in_hand(packet);
                // Whoever follows packets is told of one part.
                if !self.are_among(bytes, &expected) {
                    return Err(format!("is {expected:02x?} after functions alone"));
                }
            }
        }
        Ok(())
    }

    /// Whether a packet is one of those that functions alone have made.
    fn are_among(&self, bytes: &[u8], expected: &[Vec<u8>]) -> bool {
        if !self.draws {
            return expected.iter().any(|one| one == bytes);
        }
        let bytes = undrawn(bytes);
        expected.iter().any(|one| undrawn(one) == bytes)
    }

    /// A packet as it is between elements; no more if it has been taken up.
    fn in_hand(&mut self, packet: u64) -> Vec<Vec<u8>> {
        if !self.packets.contains_key(&packet) {
            self.end();
        }
        self.packets.remove(&packet).unwrap_or_default()
    }

    /// A packet that was lost has told the element in front of which it was what it is a part of.
    fn pass_by(&mut self, packet: u64, bytes: &[u8]) {
        let layout = dissect(bytes).expect("it entered elements");
        let element = self.next_element(packet);
        let fragments = element.and_then(|element| self.fragments.get_mut(&element));
        if let (true, Some(fragments)) = (layout.fragment != Fragment::Whole, fragments) {
            let frame = self.node.machine.pools().take_filled(bytes);
            let mut frame = frame.expect("a buffer");
            frame.set_timestamp(self.arrivals[&packet].at);
            fragments.meet(frame, &layout);
        }
    }

    /// The element that a packet is in front of.
    fn next_element(&self, packet: u64) -> Option<u8> {
        let passed = self.passed.get(&packet).copied();
        let last = self.latest.len() as u8 - 1;
        match (self.arrivals[&packet].direction?, passed) {
            (Direction::Original, None) => Some(0),
            (Direction::Original, Some(passed)) => Some(passed + 1),
            (Direction::Reply, None) => Some(last),
            (Direction::Reply, Some(passed)) => passed.checked_sub(1),
        }
    }

    /// The functions of an element meet a packet.
    fn take(&mut self, packet: u64, element: u8, bytes: &[u8]) {
        self.passed.insert(packet, element);
        let arrival = &self.arrivals[&packet];
        let frame = self.node.machine.pools().take_filled(bytes);
        let mut frame = frame.expect("a buffer");
        frame.set_timestamp(arrival.at);
        frame.set_received_ns(packet);
        frame.set_ordinal(packet);
        frame.set_port(arrival.port);
        frame.set_direction(arrival.direction.expect("it enters elements"));
        let layout = dissect(bytes).expect("it enters elements");
        let steering = self.node.machine.path().steering().at(element);
        let keyed = match self.fragments.get_mut(&element) {
            Some(fragments) if layout.fragment != Fragment::Whole => {
                let FragmentOutcome::Known(placed) = fragments.meet(frame, &layout) else {
                    panic!("functions meet no fragment before the first of its datagram");
                };
                frame = placed;
                fragments.key(bytes, &layout, steering)
            }
            _ => steering.key(bytes, &layout),
        };
        let keyed = keyed.unwrap_or_default();
        let mut header = Header::of_packet(Message::Plain, &frame, &keyed);
        header.element = element;
        attach(&mut frame, &header).expect("headroom");
        number(&mut frame, self.numbers.number());
        let mut returns = Vec::new();
        let (worker, pools) = (&mut self.node.workers[0], &mut self.node.worker_pools[0]);
        worker.receive(frame, pools, &mut returns);
        self.come_back(returns);
    }

    /// The run is over: functions let go of what they kept.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            let mut returns = Vec::new();
            let (worker, pools) = (&mut self.node.workers[0], &mut self.node.worker_pools[0]);
            let (passed, now) = (Moment::NEVER, Instant::NEVER);
            worker.advance(Time { passed, now }, pools, &mut returns);
            self.come_back(returns);
        }
    }

    /// What the functions of an element give back.
    fn come_back(&mut self, returns: Vec<Frame>) {
        for mut frame in returns {
            let header = detach(&mut frame).expect("a header");
            let bytes = frame.bytes().to_vec();
            match (header.has_packet, header.is_reply) {
                (true, false) => self
                    .packets
                    .entry(frame.received_ns())
                    .or_default()
                    .push(bytes),
                (true, true) => self.replies.push(bytes),
                (false, _) => {}
            }
            self.node.machine.pools().give(frame);
        }
    }
}
