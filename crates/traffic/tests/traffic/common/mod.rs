//! What the end-to-end tests share: runs, a strict connection tracker, and a
//! reassembler that is too simple to be wrong.
#![allow(dead_code, missing_docs)]

use std::collections::{BTreeMap, HashMap};

use twinpath_traffic::{
    Direction, Generated, Generator, GeneratorCounters, PacketKind, TrafficConfig,
};
use twinpath_wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_wire::{Endpoint, Layout, dissect, fields};
use twinpath_wire::{verify_ipv4_checksum, verify_transport_checksum};

pub type Packet = (Generated, Vec<u8>);

/// Reads a configuration from the text that a service file would hold.
pub fn config(text: &str) -> TrafficConfig {
    toml::from_str(text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

pub fn run(config: &TrafficConfig, seed: u64) -> Vec<Packet> {
    run_with_stats(config, seed).0
}

pub fn run_with_stats(config: &TrafficConfig, seed: u64) -> (Vec<Packet>, GeneratorCounters) {
    let mut generator = Generator::new(config, seed).expect("a valid configuration");
    let packets = packets_of(&mut generator);
    (packets, generator.counters())
}

/// The packets that are still to come.
pub fn packets_of(generator: &mut Generator) -> Vec<Packet> {
    let mut buffer = vec![0; generator.frame_bytes_max()];
    let next = || {
        let generated = generator.next_into(&mut buffer)?;
        Some((generated, buffer[..generated.len].to_vec()))
    };
    std::iter::from_fn(next).collect()
}

/// Dissects a frame and checks its checksums and the direction it was said to have.
pub fn checked_layout((generated, frame): &Packet) -> Layout {
    let layout = dissect(frame).unwrap_or_else(|why| panic!("{generated:?}: {why}"));
    assert!(verify_ipv4_checksum(frame, &layout), "{generated:?}");
    assert!(verify_transport_checksum(frame, &layout), "{generated:?}");
    layout
}

/// Client and server of a packet.
pub fn ends((generated, frame): &Packet, layout: &Layout) -> (Endpoint, Endpoint) {
    let (source, destination) = (
        fields::source(frame, layout),
        fields::destination(frame, layout),
    );
    match generated.direction {
        Direction::ToServer => (source, destination),
        Direction::ToClient => (destination, source),
    }
}

/// The data of each direction of each flow, by its place in the stream.
#[derive(Default)]
pub struct Streams {
    first: HashMap<(u64, Direction), u32>,
    segments: HashMap<(u64, Direction), BTreeMap<u32, Vec<u8>>>,
    pub late: u64,
    pub data: u64,
}

impl Streams {
    /// Takes the TCP data of a run whose connections begin with handshakes.
    pub fn collect(packets: &[Packet]) -> Self {
        let mut streams = Self::default();
        packets.iter().for_each(|packet| streams.add(packet));
        streams
    }

    fn add(&mut self, packet: &Packet) {
        let (generated, frame) = packet;
        let layout = checked_layout(packet);
        let stream = (generated.flow, generated.direction);
        match generated.kind {
            PacketKind::TcpSyn | PacketKind::TcpSynAck => {
                let first = fields::tcp_seq(frame, &layout).wrapping_add(1);
                assert_eq!(self.first.insert(stream, first), None, "one SYN each way");
            }
            PacketKind::TcpData => {
                let offset = fields::tcp_seq(frame, &layout).wrapping_sub(self.first[&stream]);
                let segments = self.segments.entry(stream).or_default();
                self.data += 1;
                self.late += u64::from(segments.keys().next_back() > Some(&offset));
                let bytes = fields::payload(frame, &layout).to_vec();
                assert!(segments.insert(offset, bytes).is_none(), "data sent twice");
            }
            _ => {}
        }
    }

    /// Each stream put together; panics at a gap or an overlap.
    pub fn reassembled(&self) -> HashMap<(u64, Direction), Vec<u8>> {
        let join = |segments: &BTreeMap<u32, Vec<u8>>| {
            segments
                .iter()
                .fold(Vec::new(), |mut stream, (offset, bytes)| {
                    assert_eq!(stream.len(), *offset as usize, "a gap or an overlap");
                    stream.extend_from_slice(bytes);
                    stream
                })
        };
        self.segments
            .iter()
            .map(|(stream, segments)| (*stream, join(segments)))
            .collect()
    }
}

/// A stateful firewall that lets nothing pass that is not exactly right.
#[derive(Default)]
pub struct StrictTracker {
    connections: HashMap<(Endpoint, Endpoint), Connection>,
    pub opened: u64,
    pub closed: u64,
}

#[derive(Default, Clone, Copy)]
struct Connection {
    sides: [Side; 2],
    stage: u8,
}

/// What one side has sent and promised.
#[derive(Default, Clone, Copy)]
struct Side {
    /// After the last byte sent, FIN and SYN counted.
    end: u32,
    /// After the last byte that it lets the other side send.
    allows: u32,
    /// The most it has acknowledged.
    acknowledged: Option<u32>,
    fin: Option<u32>,
}

const SYN_SEEN: u8 = 1;
const SYN_ACK_SEEN: u8 = 2;
const OPEN: u8 = 3;

/// Whether `a` is not after `b` in sequence space.
fn not_after(a: u32, b: u32) -> bool {
    b.wrapping_sub(a) as i32 >= 0
}

impl StrictTracker {
    pub fn see(&mut self, packet: &Packet) {
        let layout = checked_layout(packet);
        let (generated, frame) = packet;
        let key = ends(packet, &layout);
        let flags = fields::tcp_flags(frame, &layout);
        if flags & (SYN | ACK) == SYN {
            assert_eq!(generated.direction, Direction::ToServer);
            assert!(
                !self.connections.contains_key(&key),
                "a SYN in a live connection"
            );
            self.opened += 1;
        }
        let connection = self.connections.entry(key).or_default();
        connection.see(generated, frame, &layout);
        if flags & RST != 0 || connection.is_over() {
            self.connections.remove(&key);
            self.closed += 1;
        }
    }
}

impl Connection {
    fn see(&mut self, generated: &Generated, frame: &[u8], layout: &Layout) {
        let flags = fields::tcp_flags(frame, layout);
        let (sequence, ack) = (
            fields::tcp_seq(frame, layout),
            fields::tcp_ack(frame, layout),
        );
        let payload = fields::payload(frame, layout).len() as u32;
        let length = payload + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let [mine, other] = match generated.direction {
            Direction::ToServer => [0, 1],
            Direction::ToClient => [1, 0],
        };
        self.advance_stage(generated, flags, sequence);
        let end = sequence.wrapping_add(length);
        let (sender, peer) = (self.sides[mine], self.sides[other]);
        if self.stage > SYN_ACK_SEEN {
            assert!(
                not_after(end, peer.allows),
                "beyond the window: {generated:?}"
            );
            assert!(
                sender.fin.is_none_or(|fin| not_after(end, fin)),
                "data after the FIN"
            );
        }
        if flags & ACK != 0 {
            assert!(
                not_after(ack, peer.end),
                "acknowledges what was never sent: {generated:?}"
            );
            // A late segment acknowledges what had arrived at its time.
            let long_ago = |most: u32| !not_after(most.wrapping_sub(u16::MAX.into()), ack);
            assert!(!sender.acknowledged.is_some_and(long_ago), "{generated:?}");
        }
        let window = u32::from(fields::tcp_window(frame, layout));
        let sender = &mut self.sides[mine];
        if flags & ACK != 0 && sender.acknowledged.is_none_or(|most| not_after(most, ack)) {
            (sender.acknowledged, sender.allows) = (Some(ack), ack.wrapping_add(window));
        }
        if length > 0 && (self.stage <= SYN_ACK_SEEN || not_after(sender.end, end)) {
            sender.end = end;
        }
        if flags & FIN != 0 {
            sender.fin = Some(end);
        }
    }

    /// The three first packets, and nothing else, in their order.
    fn advance_stage(&mut self, generated: &Generated, flags: u8, sequence: u32) {
        match (self.stage, flags & (SYN | ACK), generated.direction) {
            (0, SYN, Direction::ToServer) => self.stage = SYN_SEEN,
            (SYN_SEEN, 0x12, Direction::ToClient) => self.stage = SYN_ACK_SEEN,
            (SYN_ACK_SEEN, ACK, Direction::ToServer) => {
                assert_eq!(sequence, self.sides[0].end);
                self.stage = OPEN;
            }
            (OPEN, ACK, _) => {}
            _ => panic!("stage {}: {generated:?}", self.stage),
        }
    }

    /// Both FINs were sent and acknowledged.
    fn is_over(&self) -> bool {
        let [client, server] = self.sides;
        let done = |side: Side| side.fin.is_some();
        done(client)
            && done(server)
            && client.fin == server.acknowledged
            && server.fin == client.acknowledged
    }
}
