//! One connection and a reassembler, driven by hand.

use crate::reassembler::{Config, Reassembler};
use std::time::Duration;
use twinpath_core::steering::opener;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{
    Endpoint, PacketBuilder, dissect, verify_ipv4_checksum, verify_transport_checksum,
};
use twinpath_core::{Direction, DropCounters, Instant, Packet, Pools, Side, Steering};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};

/// Ordinary buffers of a bench.
pub const BUFFERS: usize = 400;

/// The two ends.
pub fn ends(v6: bool) -> (Endpoint, Endpoint) {
    let texts = if v6 {
        ["[2001:db8::1]:4000", "[2001:db8::2]:80"]
    } else {
        ["10.0.0.1:4000", "10.0.0.2:80"]
    };
    let [client, server] = texts.map(|text| text.parse().expect("an endpoint"));
    (client, server)
}

/// A segment to send, or one that came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub way: Direction,
    pub sequence: u32,
    pub flags: u8,
    pub payload: Vec<u8>,
    /// What it acknowledges; if nothing is said, all that the other end has sent.
    pub acknowledged: Option<u32>,
}

impl Sent {
    /// A data segment.
    pub fn data(way: Direction, sequence: u32, payload: &[u8]) -> Self {
        Self {
            way,
            sequence,
            flags: flags::ACK,
            payload: payload.to_vec(),
            acknowledged: None,
        }
    }

    /// The SYN (from the opener) or SYN with ACK before `first`.
    pub fn syn(way: Direction, first: u32) -> Self {
        let syn_flags = if way == Direction::Original {
            flags::SYN
        } else {
            flags::SYN | flags::ACK
        };
        Self {
            way,
            sequence: first.wrapping_sub(1),
            flags: syn_flags,
            payload: Vec::new(),
            acknowledged: None,
        }
    }

    /// The frame with valid checksums.
    pub fn frame(&self, v6: bool, acknowledged: u32) -> Vec<u8> {
        let (client, server) = ends(v6);
        let (source, destination) = if self.way == Direction::Original {
            (client, server)
        } else {
            (server, client)
        };
        let builder = PacketBuilder::tcp(source, destination)
            .seq(self.sequence)
            .ack(acknowledged)
            .flags(self.flags);
        builder
            .payload(&self.payload)
            .padded()
            .to_vec()
            .expect("a frame")
    }
}

/// A segment that came out, and when.
#[derive(Clone, Debug)]
pub struct Released {
    pub sent: Sent,
    pub released: Instant,
    pub ordinal: u64,
}

/// One connection's state and everything a chain would keep for it.
pub struct Bench {
    pub function: Reassembler,
    pub words: [u32; 4],
    pub handle: u32,
    pub initiator: Option<Side>,
    /// Which way its first segment went.
    opener: Option<Direction>,
    pub now: Instant,
    pub pools: Pools,
    pub drops: DropCounters,
    pub ordinal: u64,
    /// Segments that other connections hold.
    pub held_by_others: usize,
    v6: bool,
}

impl Bench {
    pub fn new(config: &Config, v6: bool) -> Self {
        Self {
            function: Reassembler::new(config),
            words: [0; 4],
            handle: 0,
            initiator: None,
            opener: None,
            now: Instant(1 << 40),
            pools: Pools::new(BUFFERS, 4),
            drops: DropCounters::default(),
            ordinal: 0,
            held_by_others: 0,
            v6,
        }
    }

    pub fn send(&mut self, sent: &Sent) -> Vec<Released> {
        let is_first = sent.way == *self.opener.get_or_insert(sent.way);
        let known = self.words[if is_first { 2 } else { 1 }];
        let acknowledged = sent.acknowledged.unwrap_or(known);
        let frame = sent.frame(self.v6, acknowledged);
        self.send_frame(&frame)
    }

    /// Takes a frame in, at the present time.
    pub fn packet(&mut self, bytes: &[u8]) -> Packet {
        let mut frame = self.pools.take_filled(bytes).expect("a buffer");
        frame.set_timestamp(self.now);
        frame.set_ordinal(self.ordinal);
        self.ordinal += 1;
        let layout = dissect(bytes).expect("well-formed");
        let keyed = Steering::new(1).key(bytes, &layout).expect("an IP packet");
        let initiator = *self.initiator.get_or_insert(opener(bytes, &layout, &keyed));
        let direction = if keyed.side == initiator {
            Direction::Original
        } else {
            Direction::Reply
        };
        Packet {
            frame,
            layout,
            direction,
            role: keyed.role,
            alias_row: 0,
        }
    }

    pub fn send_frame(&mut self, bytes: &[u8]) -> Vec<Released> {
        let packet = self.packet(bytes);
        self.handle(packet)
    }

    /// Sends a frame that comes out unchanged, and says what came out.
    pub fn pass_through(&mut self, bytes: &[u8]) -> Vec<u8> {
        let packet = self.packet(bytes);
        let [out] = &mut self.outputs(packet)[..] else {
            panic!("one packet comes out")
        };
        out.bytes().to_vec()
    }

    /// What a chain does with a packet.
    pub fn handle(&mut self, packet: Packet) -> Vec<Released> {
        let packets = self.outputs(packet);
        packets
            .into_iter()
            .map(|packet| self.seen(packet))
            .collect()
    }

    fn outputs(&mut self, packet: Packet) -> Vec<Packet> {
        self.forget_if_expired();
        self.with_flow(self.now, |function, flow, out| {
            function.handle(packet, flow, out)
        })
    }

    fn forget_if_expired(&mut self) {
        if self.function.is_expired(&self.words, self.now) {
            assert_eq!(self.handle, 0, "nothing may be held of a flow that expires");
            self.words.fill(0);
        }
    }

    /// Lets time pass; timers fire when they are due.
    pub fn pass(&mut self, time: Duration) -> Vec<Released> {
        let until = self.now + time;
        let mut seen = Vec::new();
        while self.deadline() <= until {
            let due = self.deadline();
            let packets = self.with_flow(due, |function, flow, out| function.wake(flow, out));
            seen.extend(packets.into_iter().map(|packet| self.seen(packet)));
        }
        self.now = until;
        seen
    }

    /// The chain is about to change.
    pub fn release(&mut self) -> Vec<Released> {
        let packets = self.with_flow(self.now, |function, flow, out| function.release(flow, out));
        packets
            .into_iter()
            .map(|packet| self.seen(packet))
            .collect()
    }

    fn with_flow(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Reassembler, &mut Flow<'_>, &mut Outbox<'_>),
    ) -> Vec<Packet> {
        let (client, server) = ends(self.v6);
        let key = twinpath_core::FlowKey::connection(client, server, 6).0;
        let initiator = self.initiator.get_or_insert(Side::Low);
        let (mut onward, mut replies) = (Vec::new(), Vec::new());
        let mut flow = Flow {
            key: &key,
            initiator,
            words: &mut self.words,
            handle: &mut self.handle,
            now,
        };
        let mut out = Outbox::new(&mut onward, &mut replies, &mut self.drops, &mut self.pools);
        act(&mut self.function, &mut flow, &mut out);
        assert!(replies.is_empty());
        self.check_state();
        onward
    }

    pub fn deadline(&self) -> Instant {
        self.function.deadline(self.handle)
    }

    fn check_state(&self) {
        assert_eq!(
            self.function.is_pending(&self.words, self.handle),
            self.handle != 0
        );
        assert_eq!(
            self.handle != 0,
            self.function.held_segments() > self.held_by_others,
            "a handle means that something is held"
        );
        assert!(
            self.words[0] != 0 || self.words == [0; 4],
            "without flags there is nothing: {:?}",
            self.words
        );
        assert!(
            self.handle == 0 || self.deadline() != Instant::NEVER,
            "what is held has a timer"
        );
    }

    /// Reads a packet that came out, checks it, and gives its buffer back.
    pub fn seen(&mut self, packet: Packet) -> Released {
        let bytes = packet.bytes();
        let layout = dissect(bytes).expect("what comes out is well-formed");
        assert_eq!(layout, packet.layout, "the layout still fits");
        assert!(
            verify_ipv4_checksum(bytes, &layout) && verify_transport_checksum(bytes, &layout),
            "checksums hold"
        );
        let (client, server) = ends(self.v6);
        let way = if packet.source() == client {
            Direction::Original
        } else {
            Direction::Reply
        };
        assert_eq!(
            packet.destination(),
            if way == Direction::Original {
                server
            } else {
                client
            }
        );
        let (sequence, tcp_flags, payload) = (
            packet.tcp_sequence(),
            packet.tcp_flags(),
            packet.payload().to_vec(),
        );
        let seen = Released {
            sent: Sent {
                way,
                sequence,
                flags: tcp_flags,
                payload,
                acknowledged: None,
            },
            released: packet.timestamp(),
            ordinal: packet.frame.ordinal(),
        };
        self.pools.give(packet.frame);
        seen
    }

    /// At the end every buffer is at home again, apart from those that hold something.
    pub fn assert_no_buffer_lost(&mut self) {
        let held = self.function.held_segments();
        assert_eq!(self.pools.small().available() + held, BUFFERS);
        assert_eq!(self.pools.large().available(), 4);
    }
}
