//! The reassembler, driven over a capture.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use twinpath_core::key::Role;
use twinpath_core::steering::opener;
use twinpath_core::wire::layout::Transport;
use twinpath_core::wire::tcp::flags::{RST, SYN};
use twinpath_core::wire::{
    Layout, dissect, fields, verify_ipv4_checksum, verify_transport_checksum,
};
use twinpath_core::{
    Direction, DropCounters, FlowKey, Instant, Keyed, Packet, Pools, Side, Steering,
};
use twinpath_io::{CaptureError, CaptureReader, Next, Trace};
use twinpath_nf::reassembler::{Config, Reassembler};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};

/// A TCP segment, in or out.
pub struct Segment {
    /// The number of the packet in the capture.
    pub ordinal: usize,
    pub stream: (FlowKey, Side),
    pub sequence: u32,
    pub flags: u8,
    pub payload: Vec<u8>,
    pub valid: bool,
}

impl Segment {
    fn read(bytes: &[u8], layout: &Layout, keyed: &Keyed, ordinal: usize) -> Self {
        Self {
            ordinal,
            stream: (keyed.key, keyed.side),
            sequence: fields::tcp_seq(bytes, layout),
            flags: fields::tcp_flags(bytes, layout),
            payload: fields::payload(bytes, layout).to_vec(),
            valid: verify_ipv4_checksum(bytes, layout) && verify_transport_checksum(bytes, layout),
        }
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sequence number of the first byte: a SYN stands before it.
    pub fn first(&self) -> u32 {
        self.sequence.wrapping_add(u32::from(self.has(SYN)))
    }

    pub fn end(&self) -> u32 {
        self.first().wrapping_add(self.payload.len() as u32)
    }

    /// Whether it has bytes of the stream. Data in a RST is text for people.
    pub fn has_data(&self) -> bool {
        !self.payload.is_empty() && !self.has(RST)
    }
}

#[derive(Default)]
struct Known {
    words: [u32; 4],
    handle: u32,
    initiator: Side,
}

/// A minute of a chain: flows, their timers, and one function.
struct Driver {
    function: Reassembler,
    flows: HashMap<FlowKey, Known>,
    /// When flows are to be woken, and each flow's own idea of it.
    timers: BTreeSet<(Instant, FlowKey)>,
    pools: Pools,
    drops: DropCounters,
    output: Vec<Segment>,
}

impl Driver {
    fn new(config: &Config) -> Self {
        Self {
            function: Reassembler::new(config),
            flows: HashMap::new(),
            timers: BTreeSet::new(),
            pools: Pools::new(24_000, 600),
            drops: DropCounters::default(),
            output: Vec::new(),
        }
    }

    fn send(&mut self, bytes: &[u8], layout: Layout, keyed: &Keyed, ordinal: usize, now: Instant) {
        let mut frame = self.pools.take_filled(bytes).expect("enough buffers");
        frame.set_timestamp(now);
        frame.set_ordinal(ordinal as u64);
        let known = self.flows.entry(keyed.key).or_default();
        if self.function.is_expired(&known.words, now) {
            known.words = [0; 4];
        }
        if known.handle == 0 && known.words == [0; 4] {
            known.initiator = opener(bytes, &layout, keyed);
        }
        let direction = if known.initiator == keyed.side {
            Direction::Original
        } else {
            Direction::Reply
        };
        let packet = Packet {
            frame,
            layout,
            direction,
            role: Role::Member,
            alias_row: 0,
        };
        self.with_flow(keyed.key, now, |function, flow, out| {
            function.handle(packet, flow, out)
        });
    }

    /// Timers fire in order, up to `now`.
    fn advance(&mut self, now: Instant) {
        while let Some((due, key)) = self.timers.first().copied().filter(|timer| timer.0 <= now) {
            self.timers.pop_first();
            self.with_flow(key, due, |function, flow, out| function.wake(flow, out));
        }
    }

    fn with_flow(
        &mut self,
        key: FlowKey,
        now: Instant,
        act: impl FnOnce(&mut Reassembler, &mut Flow<'_>, &mut Outbox<'_>),
    ) {
        let known = self.flows.get_mut(&key).expect("a known flow");
        let (mut onward, mut replies) = (Vec::new(), Vec::new());
        let before = self.function.deadline(known.handle);
        self.timers.remove(&(before, key));
        let mut flow = Flow {
            key: &key,
            initiator: &mut known.initiator,
            words: &mut known.words,
            handle: &mut known.handle,
            now,
        };
        act(
            &mut self.function,
            &mut flow,
            &mut Outbox::new(&mut onward, &mut replies, &mut self.drops, &mut self.pools),
        );
        let deadline = self.function.deadline(known.handle);
        if deadline != Instant::NEVER {
            self.timers.insert((deadline, key));
        }
        for packet in onward {
            self.receive(packet);
        }
    }

    fn receive(&mut self, packet: Packet) {
        let (bytes, ordinal) = (packet.bytes(), packet.frame.ordinal() as usize);
        assert_eq!(dissect(bytes), Ok(packet.layout), "packet {ordinal}");
        let keyed = Steering::new(0)
            .key(bytes, &packet.layout)
            .expect("an IP packet");
        self.output
            .push(Segment::read(bytes, &packet.layout, &keyed, ordinal));
        self.pools.give(packet.frame);
    }
}

/// Runs all whole TCP packets of a capture. Returns what went in, what came out, and the function.
pub fn run(trace: &Trace, config: &Config) -> (Vec<Segment>, Vec<Segment>, Reassembler) {
    let mut driver = Driver::new(config);
    let mut input = Vec::new();
    let mut clock = Instant::ZERO;
    for record in trace.iter() {
        clock = clock.max(Instant(record.timestamp_ns));
        let Ok(layout) = dissect(record.frame) else {
            continue;
        };
        let Some(keyed) = Steering::new(0).key(record.frame, &layout) else {
            continue;
        };
        if layout.transport == Transport::Tcp && keyed.role == Role::Member {
            driver.advance(clock);
            driver.send(record.frame, layout, &keyed, input.len(), clock);
            input.push(Segment::read(record.frame, &layout, &keyed, input.len()));
        }
    }
    driver.advance(Instant(u64::MAX - 1));
    assert_eq!(
        driver.function.held_segments(),
        0,
        "the last timers release everything"
    );
    (input, driver.output, driver.function)
}

/// The whole packets of a capture: one of them ends in the middle of a record.
pub fn load(path: &Path) -> Trace {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let mut buffer = vec![0; 1 << 20];
    let mut trace = Trace::new();
    loop {
        match reader.next_into(&mut buffer) {
            Ok(Next::Frame(record)) => {
                trace.push(record.timestamp_ns, &buffer[..record.captured_len])
            }
            Ok(Next::Oversized(_)) => panic!("a packet of more than a mebibyte"),
            Ok(Next::End) | Err(CaptureError::Truncated { .. }) => return trace,
            Err(error) => panic!("{error}"),
        }
    }
}
