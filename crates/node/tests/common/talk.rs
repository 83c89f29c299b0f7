//! One TCP connection, one of whose ends tries to get something past an inspector, and the other end
//! as it takes what reaches it.

use std::collections::BTreeMap;
use twinpath_core::wire::fragment::{self, cut};
use twinpath_core::wire::layout::{Fragment, Network, Transport};
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN, URG};
use twinpath_core::wire::{
    Endpoint, PacketBuilder, dissect, fields, verify_ipv4_checksum, verify_transport_checksum,
};
use twinpath_io::Trace;

/// The first data byte's number, of the end that evades and of the other. Numbers wrap soon.
pub const FIRST: [u32; 2] = [u32::MAX - 40, 7000];

/// Segments that the victim sends where both have talked, and bytes of each.
const SEGMENTS: u32 = 25;
const SEGMENT_BYTES: u32 = 40;

/// Who evades whom.
#[derive(Copy, Clone, Debug)]
pub struct Ends {
    pub v6: bool,
    /// It is the connection's opener.
    pub opener_evades: bool,
    /// The other one has sent it much before, so that their flow is on the fast path.
    pub have_talked: bool,
}

impl Ends {
    /// Those that have just met, and those that have talked.
    pub const ALL: [Self; 8] = [
        Self::new(false, true, false),
        Self::new(false, false, false),
        Self::new(true, true, false),
        Self::new(true, false, false),
        Self::new(false, true, true),
        Self::new(false, false, true),
        Self::new(true, true, true),
        Self::new(true, false, true),
    ];

    /// Those that have just met.
    pub fn strangers() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|ends| !ends.have_talked)
    }

    const fn new(v6: bool, opener_evades: bool, have_talked: bool) -> Self {
        Self {
            v6,
            opener_evades,
            have_talked,
        }
    }

    fn endpoints(self) -> [Endpoint; 2] {
        let texts = match self.v6 {
            false => ["10.0.0.1:4000", "10.0.0.2:80"],
            true => ["[2001:db8::1]:4000", "[2001:db8::2]:80"],
        };
        let [client, server] = texts.map(|text| text.parse().expect("an endpoint"));
        match self.opener_evades {
            true => [client, server],
            false => [server, client],
        }
    }
}

/// A segment of the end that evades.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Relative to its first data byte.
    pub offset: i64,
    pub payload: Vec<u8>,
    pub flags: u8,
    /// The checksum does not hold.
    pub broken: bool,
}

impl Sent {
    pub fn data(offset: i64, payload: &[u8]) -> Self {
        Self {
            offset,
            payload: payload.to_vec(),
            flags: ACK,
            broken: false,
        }
    }

    pub fn with(self, flags: u8) -> Self {
        Self {
            flags: self.flags | flags,
            ..self
        }
    }

    pub fn broken(self) -> Self {
        Self {
            broken: true,
            ..self
        }
    }

    fn packet(&self, ends: Ends, acknowledged: u32) -> Vec<u8> {
        let [evader, victim] = ends.endpoints();
        let number = FIRST[0].wrapping_add(self.offset as u32);
        let mut packet = PacketBuilder::tcp(evader, victim)
            .seq(number)
            .ack(FIRST[1].wrapping_add(acknowledged))
            .flags(self.flags)
            .window(8192)
            .payload(&self.payload)
            .to_vec()
            .expect("a packet");
        if self.flags & URG != 0 {
            mark_first_byte(&mut packet);
        }
        if self.broken {
            let layout = dissect(&packet).expect("sound");
            packet[usize::from(layout.l4) + 16] ^= 0x55;
        }
        packet
    }
}

/// The urgent pointer says the first byte.
fn mark_first_byte(packet: &mut [u8]) {
    let layout = dissect(packet).expect("sound");
    let at = usize::from(layout.l4) + 18;
    packet[at..at + 2].copy_from_slice(&1u16.to_be_bytes());
    twinpath_core::wire::rewrite::refresh_checksums(packet, &layout).expect("sound");
}

/// A connection's packets, from its handshake on or from the middle.
pub struct Talk {
    pub ends: Ends,
    pub trace: Trace,
    /// No FIN reaches the victim.
    pub fins_get_lost: bool,
    /// Whether the victim has [gone on](Self::go_on).
    pub goes_on: bool,
    now: u64,
    /// Bytes that the victim has sent.
    said: u32,
}

impl Talk {
    /// Nobody has seen it begin.
    pub fn in_the_middle(ends: Ends) -> Self {
        Self {
            ends,
            trace: Trace::new(),
            fins_get_lost: false,
            goes_on: false,
            now: 1_000_000_000,
            said: 0,
        }
    }

    pub fn new(ends: Ends) -> Self {
        let mut talk = Self::in_the_middle(ends);
        let [evader, victim] = ends.endpoints();
        let before = FIRST.map(|first| first.wrapping_sub(1));
        let syn = |from, to, number| PacketBuilder::tcp(from, to).seq(number).window(8192);
        let packets = match ends.opener_evades {
            true => [
                syn(evader, victim, before[0]).flags(SYN),
                syn(victim, evader, before[1])
                    .ack(FIRST[0])
                    .flags(SYN | ACK),
            ],
            false => [
                syn(victim, evader, before[1]).flags(SYN),
                syn(evader, victim, before[0])
                    .ack(FIRST[1])
                    .flags(SYN | ACK),
            ],
        };
        for packet in packets {
            talk.push(&packet.to_vec().expect("a packet"));
        }
        if !ends.opener_evades {
            talk.answer(0);
        }
        if ends.have_talked {
            (0..SEGMENTS).for_each(|_| talk.hear());
        }
        talk
    }

    /// The victim sends something, which is acknowledged.
    fn hear(&mut self) {
        let [evader, victim] = self.ends.endpoints();
        let packet = PacketBuilder::tcp(victim, evader)
            .seq(FIRST[1].wrapping_add(self.said))
            .ack(FIRST[0])
            .flags(ACK)
            .window(8192)
            .payload(&[b'.'; SEGMENT_BYTES as usize])
            .to_vec();
        self.push(&packet.expect("a packet"));
        self.said += SEGMENT_BYTES;
        self.send(&Sent::data(0, b""));
    }

    fn push(&mut self, packet: &[u8]) {
        self.now += 2_000_000;
        self.trace.push(self.now, packet);
    }

    pub fn send(&mut self, sent: &Sent) {
        self.send_acknowledging(sent, 0);
    }

    /// The same, with the acknowledgement of so many bytes of the other end.
    pub fn send_acknowledging(&mut self, sent: &Sent, bytes: u32) {
        let packet = sent.packet(self.ends, self.said.wrapping_add(bytes));
        self.push(&packet);
    }

    /// The same in fragments with at most so many bytes of data.
    pub fn send_in_fragments(&mut self, sent: &Sent, most: usize, is_reversed: bool) {
        let packet = sent.packet(self.ends, self.said);
        let layout = dissect(&packet).expect("sound");
        let identification = self.trace.len() as u32;
        let mut parts = cut(&packet, &layout, most, identification).expect("whole");
        if is_reversed {
            parts.reverse();
        }
        parts.iter().for_each(|part| self.push(part));
    }

    pub fn wait_ms(&mut self, milliseconds: u64) {
        self.now += milliseconds * 1_000_000;
    }

    /// The other end acknowledges what is before an offset.
    pub fn answer(&mut self, offset: u32) {
        let [evader, victim] = self.ends.endpoints();
        let packet = PacketBuilder::tcp(victim, evader)
            .seq(FIRST[1].wrapping_add(self.said))
            .ack(FIRST[0].wrapping_add(offset))
            .flags(ACK)
            .window(8192)
            .to_vec();
        self.push(&packet.expect("a packet"));
    }

    /// The victim goes on to say what it has: enough for the fast path to have its share.
    pub fn go_on(&mut self, offset: u32) {
        (0..20).for_each(|_| self.answer(offset));
        self.goes_on = true;
    }

    /// Some packets, as the victim takes them.
    pub fn received<'p>(&self, packets: impl Iterator<Item = &'p [u8]>) -> Vec<u8> {
        let [evader, _] = self.ends.endpoints();
        let mut datagrams = Datagrams::default();
        let mut receiver = Receiver {
            hears_no_fin: self.fins_get_lost,
            ..Receiver::default()
        };
        for packet in packets {
            let Some(packet) = datagrams.take(packet) else {
                continue;
            };
            let packet = packet.as_slice();
            let layout = dissect(packet).expect("sound");
            if layout.transport == Transport::Tcp && fields::source(packet, &layout) == evader {
                receiver.take(packet);
            }
        }
        receiver.stream
    }
}

/// Packets of several connections, by their time.
#[allow(dead_code)]
pub fn together(talks: &[&Talk]) -> Trace {
    let frames = talks.iter().flat_map(|talk| talk.trace.iter());
    let mut frames: Vec<_> = frames.collect();
    frames.sort_by_key(|frame| frame.timestamp_ns);
    let mut trace = Trace::new();
    for frame in frames {
        trace.push(frame.timestamp_ns, frame.frame);
    }
    trace
}

/// A part of a datagram, and its frame.
type Parts = Vec<(fragment::Part, Vec<u8>)>;

/// Puts fragments together: of each datagram the first copy of each part.
#[derive(Default)]
struct Datagrams(BTreeMap<(bool, u32), Parts>);

impl Datagrams {
    /// A packet, or the datagram that it makes whole.
    fn take(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let layout = dissect(packet).expect("sound");
        if layout.fragment == Fragment::Whole {
            return Some(packet.to_vec());
        }
        let part = fragment::part(packet, &layout)?;
        let is_v6 = layout.network == Network::V6;
        let parts = self.0.entry((is_v6, part.identification)).or_default();
        if parts.iter().all(|(known, _)| known.offset != part.offset) {
            parts.push((part, packet.to_vec()));
        }
        parts.sort_by_key(|(part, _)| part.offset);
        let mut end = 0;
        for (part, _) in parts.iter() {
            if part.offset != end {
                return None;
            }
            end = part.end();
        }
        parts.last()?.0.is_last.then(|| whole(parts))
    }
}

/// The datagram of all its parts, in order.
fn whole(parts: &[(fragment::Part, Vec<u8>)]) -> Vec<u8> {
    let data = parts
        .iter()
        .flat_map(|(part, packet)| &packet[part.data_at..]);
    let data: Vec<u8> = data.copied().collect();
    let first = &parts[0].1;
    let layout = dissect(first).expect("sound");
    let [source, destination] = [
        fields::source(first, &layout),
        fields::destination(first, &layout),
    ];
    PacketBuilder::raw(layout.protocol, source.address, destination.address)
        .payload(&data)
        .to_vec()
        .expect("a packet")
}

/// A TCP receiver too simple to be wrong: bytes by their place, the first copy of each, up to the
/// first that is missing. It takes nothing that no receiver takes.
#[derive(Default)]
struct Receiver {
    bytes: BTreeMap<i64, u8>,
    stream: Vec<u8>,
    end: Option<i64>,
    is_reset: bool,
    hears_no_fin: bool,
}

/// It takes nothing farther ahead.
const WINDOW: i64 = 1 << 20;

impl Receiver {
    fn take(&mut self, packet: &[u8]) {
        let layout = dissect(packet).expect("sound");
        let flags = fields::tcp_flags(packet, &layout);
        let number = fields::tcp_seq(packet, &layout).wrapping_sub(FIRST[0]);
        let offset = i64::from(number as i32);
        let next = self.stream.len() as i64;
        let holds =
            verify_ipv4_checksum(packet, &layout) && verify_transport_checksum(packet, &layout);
        let is_near = (-WINDOW..=WINDOW).contains(&(offset - next));
        if !holds || !is_near || self.is_reset || flags & SYN != 0 {
            return;
        }
        if flags & RST != 0 {
            self.is_reset = offset == next;
            return;
        }
        if flags & ACK == 0 {
            return;
        }
        let payload = fields::payload(packet, &layout);
        for (place, byte) in (offset..).zip(payload) {
            if place >= next && self.end.is_none_or(|end| place < end) {
                self.bytes.entry(place).or_insert(*byte);
            }
        }
        if flags & FIN != 0 && !self.hears_no_fin {
            self.end.get_or_insert(offset + payload.len() as i64);
        }
        while let Some(byte) = self.bytes.remove(&(self.stream.len() as i64)) {
            self.stream.push(byte);
        }
    }
}
