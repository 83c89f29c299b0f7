//! Any packets of a few conversations: both IP versions, tags, fragments, ICMP errors, TCP with any
//! flags, malformed frames, in both directions. What one end answers depends on what has left, as
//! on a wire.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;
use twinpath_core::wire::build::Extension;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::kv::{self, KvOp, KvRepr};
use twinpath_core::wire::tcp::flags::{ACK, FIN, PSH, RST, SYN, URG};
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect, fields, rewrite};

/// Conversations that there may be.
const FLOWS: usize = 32;

/// Bytes of every segment, so that what comes twice comes whole.
const SEGMENT_BYTES: usize = 40;

/// The router's own addresses: what comes from there is no end's packet.
const ROUTER: [&str; 2] = ["192.0.2.254", "2001:db8::fe"];

/// Where a balancer sends.
const BACKENDS: [&str; 4] = ["192.0.2.128", "192.0.2.129", "2001:db8::80", "2001:db8::81"];

/// What a packet is to be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The next segment, datagram or echo.
    Next,
    /// A segment behind the next one.
    Ahead,
    /// The last segment again.
    Again,
    /// A segment with these flags.
    Flags(u8),
    FirstFragment,
    LaterFragment,
    /// The next one, in the last hop of its life.
    Dying,
    /// An ICMP error about what came last from the other end.
    Error(bool),
    /// The next one, broken in some way.
    Broken(u8),
}

/// A packet to be.
#[derive(Copy, Clone)]
pub struct Event {
    pub flow: usize,
    /// Whether the end that did not begin sends it.
    pub is_answer: bool,
    pub shape: Shape,
    payload: u8,
    /// Since the packet before.
    pub gap: Duration,
}

impl fmt::Debug for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            flow,
            is_answer,
            shape,
            payload,
            gap,
        } = self;
        let way = if *is_answer { "back" } else { "forth" };
        write!(
            formatter,
            "flow {flow} {way}, {shape:?}, payload {payload}, after {gap:?}"
        )
    }
}

impl Event {
    /// Whether the packet is no part of its flow's order, but may tell the flow's functions something.
    pub fn races_with_flow(&self) -> bool {
        matches!(
            self.shape,
            Shape::Error(_) | Shape::FirstFragment | Shape::LaterFragment
        )
    }

    /// Whether the packet is what hosts usually send.
    pub fn is_usual(&self) -> bool {
        matches!(
            self.shape,
            Shape::Next | Shape::Ahead | Shape::Again | Shape::Flags(_)
        )
    }

    /// The number of the port that the packet comes in by.
    pub fn port(&self) -> u16 {
        let begins_outside = Flow::of(self.flow).begins_outside;
        u16::from(begins_outside != self.is_answer)
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let flags = prop::sample::select(vec![
        FIN | ACK,
        RST,
        RST | ACK,
        SYN,
        SYN | ACK,
        PSH | URG | ACK,
        0,
        SYN | FIN,
    ]);
    prop_oneof![
        60 => Just(Shape::Next),
        3 => Just(Shape::Ahead),
        3 => Just(Shape::Again),
        4 => flags.prop_map(Shape::Flags),
        2 => Just(Shape::FirstFragment),
        2 => Just(Shape::LaterFragment),
        2 => Just(Shape::Dying),
        3 => any::<bool>().prop_map(Shape::Error),
        4 => any::<u8>().prop_map(Shape::Broken),
    ]
}

fn gap() -> impl Strategy<Value = Duration> {
    prop_oneof![
        30 => (0..200u64).prop_map(Duration::from_micros),
        3 => (0..200u64).prop_map(Duration::from_millis),
        1 => Just(Duration::from_millis(60)),
        1 => prop_oneof![Just(10), Just(400)].prop_map(Duration::from_secs),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let flow = prop_oneof![3 => 0..4usize, 1 => 0..FLOWS];
    let parts = (flow, prop::bool::weighted(0.4), shape(), any::<u8>(), gap());
    parts.prop_map(|(flow, is_answer, shape, payload, gap)| Event {
        flow,
        is_answer,
        shape,
        payload,
        gap,
    })
}

/// Packets of conversations, of which the first few say most; those begin at any of all.
pub fn any_events() -> impl Strategy<Value = Vec<Event>> {
    (0..FLOWS, vec(event(), 1..400)).prop_map(|(first, mut events)| {
        for event in &mut events {
            event.flow = (event.flow * 5 + first) % FLOWS;
        }
        events
    })
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
    Echo,
    Other,
}

/// A conversation's ends and how its packets are wrapped.
struct Flow {
    protocol: Protocol,
    /// The end that begins, and the other.
    ends: [Endpoint; 2],
    tags: usize,
    /// What stands in front of IP in place of tags.
    link: &'static [u8],
    begins_outside: bool,
    /// Whether TCP begins with a handshake.
    opens: bool,
}

impl Flow {
    fn of(number: usize) -> Self {
        use Protocol::{Echo, Other, Tcp, Udp};
        let protocol = [Tcp, Udp, Tcp, Udp, Tcp, Udp, Echo, Tcp][number % 8];
        let protocol = if number == 30 { Other } else { protocol };
        let is_v6 = number % 3 == 2;
        let is_balanced = number % 4 >= 2;
        let host = number / 8 % 4 + 1;
        let port = [80, 53, 443, 1003][number / 4 % 4];
        let service_port = if protocol == Udp { 53 } else { 80 };
        let inside = match is_v6 {
            true => format!("[fd00::{host}]:{}", 1000 + number),
            false => format!("10.0.0.{host}:{}", 1000 + number),
        };
        let outside = match (is_v6, is_balanced) {
            (true, true) => format!("[2001:db8:1::1]:{service_port}"),
            (true, false) => format!("[2001:db8::{}]:{port}", number % 4),
            (false, true) => format!("203.0.113.1:{service_port}"),
            (false, false) => format!("192.0.2.{}:{port}", number % 4),
        };
        let mut ends = [inside, outside].map(|text| text.parse().expect("an endpoint"));
        let begins_outside = number % 16 == 13;
        if begins_outside {
            ends.reverse();
        }
        Self {
            protocol,
            ends,
            tags: [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2][number % 11],
            link: match (number % 13, is_v6) {
                (3, false) => &[0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x21],
                (3, true) => &[0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x57],
                (7, _) => &[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64],
                (9, false) => &[0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x00],
                (9, true) => &[0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd],
                _ => &[],
            },
            begins_outside,
            opens: number % 5 != 4,
        }
    }
}

/// How far a conversation is.
#[derive(Default)]
struct Talk {
    /// Packets so far.
    packets: u32,
    /// By end: the next byte of its stream.
    next: [u32; 2],
    datagrams: u32,
    /// By end: the number of its last packet that the other end may answer.
    last: [Option<u64>; 2],
}

/// Whether a packet to an address is left out.
type LeftOut = fn(&Event, Address) -> bool;

/// Makes packets of events, one after another.
pub struct Wire {
    talks: HashMap<usize, Talk>,
    /// Whether packets to such an address are left out.
    left_out: Vec<LeftOut>,
}

impl Wire {
    /// Before the first packet, for a chain of these functions. Nobody sends past a translation or a
    /// balancer to where these send: of two flows that leave as one, packets are in no order.
    pub fn before(chain: &[&str]) -> Self {
        let all: [(&str, LeftOut); 3] = [
            // A host's answers are to where its packets come from, once any has come.
            ("napt", |event, to| {
                event.is_answer && event.port() == 1 && is_inside(to)
            }),
            ("nptv6", |event, to| {
                event.port() == 1 && to.0 >> 112 == 0xfd00
            }),
            ("load_balancer", |_, to| {
                BACKENDS.iter().any(|backend| backend.parse() == Ok(to))
            }),
        ];
        let left_out = all
            .into_iter()
            .filter(|(function, _)| chain.contains(function));
        Self {
            talks: HashMap::new(),
            left_out: left_out.map(|(_, is_left_out)| is_left_out).collect(),
        }
    }

    /// The packet that an event's sender has seen, by its number.
    pub fn seen(&self, event: &Event) -> Option<u64> {
        let talk = self.talks.get(&event.flow)?;
        talk.last[usize::from(!event.is_answer)]
    }

    /// Whether the other end has sent something since the event's sender did.
    pub fn turns(&self, event: &Event) -> bool {
        let end = usize::from(event.is_answer);
        let talk = self.talks.get(&event.flow);
        talk.is_some_and(|talk| talk.last[1 - end] > talk.last[end])
    }

    /// The packet, after what its sender has seen of the other end.
    pub fn packet(&mut self, number: u64, event: &Event, left: &BTreeMap<u64, Vec<u8>>) -> Vec<u8> {
        let flow = Flow::of(event.flow);
        let seen = self.seen(event).and_then(|number| left.get(&number));
        let seen = seen.filter(|packet| !is_of_router(packet));
        let talk = self.talks.entry(event.flow).or_default();
        let mut packet = match (event.shape, seen) {
            (Shape::Error(is_far), Some(seen)) => error_about(seen, is_far),
            _ => talk.packet(&flow, event),
        };
        let is_error = matches!(event.shape, Shape::Error(_));
        if let Some(seen) = seen
            && !is_error
        {
            address_to_sender_of(&mut packet, seen);
        }
        let is_left_out = is_to(&packet, |to| self.left_out.iter().any(|of| of(event, to)));
        if is_left_out {
            packet.fill(0);
        }
        if !is_error && event.shape != Shape::Dying {
            talk.last[usize::from(event.is_answer)] = Some(number);
        }
        if let Shape::Broken(how) = event.shape {
            break_it(&mut packet, how);
        }
        packet
    }
}

/// Whether an address is one of the hosts'.
fn is_inside(address: Address) -> bool {
    let is_v4 = address.is_v4() && address.0 as u32 >> 16 == 10 << 8;
    is_v4 || address.0 >> 112 == 0xfd00
}

impl Talk {
    fn packet(&mut self, flow: &Flow, event: &Event) -> Vec<u8> {
        let end = usize::from(event.is_answer);
        let (from, to) = (flow.ends[end], flow.ends[1 - end]);
        let payload = payload(event, flow, from);
        self.packets += 1;
        let builder = match flow.protocol {
            Protocol::Tcp => self.segment(flow, event, from, to),
            Protocol::Udp => PacketBuilder::udp(from, to).payload(&payload),
            Protocol::Echo if event.is_answer => {
                let to = Endpoint::new(to.address, to.port);
                let from = Endpoint::new(from.address, to.port);
                PacketBuilder::icmp_echo(from, to).echo_reply()
            }
            Protocol::Echo => PacketBuilder::icmp_echo(from, to).seq(self.packets),
            Protocol::Other => PacketBuilder::raw(47, from.address, to.address).payload(&payload),
        };
        let builder = match flow.protocol {
            Protocol::Tcp if self.has_data(event) => builder.payload(&payload[..SEGMENT_BYTES]),
            _ => builder,
        };
        let tags = 100..100 + flow.tags as u16;
        let builder = tags.fold(builder, PacketBuilder::vlan).link(flow.link);
        self.wrapped(builder, flow, event).to_vec().expect("short")
    }

    /// Whether a segment is more than flags.
    fn has_data(&self, event: &Event) -> bool {
        self.packets > 3 && !matches!(event.shape, Shape::Flags(_)) && event.payload % 8 != 7
    }

    fn segment(
        &mut self,
        flow: &Flow,
        event: &Event,
        from: Endpoint,
        to: Endpoint,
    ) -> PacketBuilder<'static> {
        let end = usize::from(event.is_answer);
        let bytes = SEGMENT_BYTES as u32;
        if self.packets <= 3 && flow.opens {
            self.next[end] = [1000, 500_000][end];
        }
        let flags = match (self.packets, event.shape, flow.opens) {
            (_, Shape::Flags(flags), _) => flags,
            (1, _, true) => SYN,
            (2, _, true) => SYN | ACK,
            _ => ACK,
        };
        let next = self.next[end];
        let seq = match event.shape {
            Shape::Ahead => next.wrapping_add(bytes),
            Shape::Again => next.wrapping_sub(bytes),
            _ => next,
        };
        let takes_place = u32::from(flags & (SYN | FIN) != 0);
        if !matches!(event.shape, Shape::Ahead | Shape::Again) {
            let data = if self.has_data(event) { bytes } else { 0 };
            self.next[end] = next.wrapping_add(data + takes_place);
        }
        PacketBuilder::tcp(from, to)
            .seq(seq)
            .ack(self.next[1 - end])
            .flags(flags)
    }

    fn wrapped<'a>(
        &mut self,
        builder: PacketBuilder<'a>,
        flow: &Flow,
        event: &Event,
    ) -> PacketBuilder<'a> {
        let has_options = event.payload % 11 == 7;
        let builder = match (has_options, flow.ends[0].address.is_v4()) {
            (false, _) => builder,
            (true, true) => builder.ipv4_options(&[0x94, 4, 0, 0]),
            (true, false) => builder.ipv6_extension(Extension::Destination, 1),
        };
        match event.shape {
            Shape::FirstFragment => {
                self.datagrams += 1;
                builder.identification(self.datagrams).fragment(0, true)
            }
            Shape::LaterFragment => builder.identification(self.datagrams).fragment(800, false),
            Shape::Dying => builder.ttl(1),
            _ => builder,
        }
    }
}

fn payload(event: &Event, flow: &Flow, from: Endpoint) -> Vec<u8> {
    if flow.protocol == Protocol::Udp && event.payload % 3 == 1 {
        return request(event.payload / 3, from);
    }
    let said = ["", "look at me", "forbidden", "half of it", "the whole", ""];
    let said = said[usize::from(event.payload / 4) % 64 % said.len().max(6)];
    let is_rare = event.payload.is_multiple_of(4);
    let mut payload = if is_rare {
        said.as_bytes().to_vec()
    } else {
        Vec::new()
    };
    payload.resize(SEGMENT_BYTES + usize::from(event.payload % 4) * 100, b'.');
    payload
}

/// A request for a key-value store about an entry of the sender's own.
fn request(choice: u8, from: Endpoint) -> Vec<u8> {
    let op = [KvOp::Get, KvOp::Get, KvOp::Put, KvOp::Delete][usize::from(choice % 4)];
    let mut key = [0; kv::KEY_BYTES];
    key[..2].copy_from_slice(&from.port.to_be_bytes());
    key[2] = choice / 4 % 4;
    let value: &[u8] = if op == KvOp::Put { &[choice; 21] } else { &[] };
    let request = KvRepr::request(op, u32::from(choice), key, value);
    let mut bytes = vec![0; request.message_bytes()];
    request.emit(&mut bytes).expect("there is room");
    bytes
}

fn is_of_router(packet: &[u8]) -> bool {
    let source = dissect(packet).map(|layout| fields::source(packet, &layout).address);
    let own = ROUTER.map(|text| text.parse::<std::net::IpAddr>().expect("an address").into());
    source.is_ok_and(|source| own.contains(&source))
}

/// An ICMP error about a packet that has left: from the host that it was for, or one on the way.
fn error_about(packet: &[u8], is_far: bool) -> Vec<u8> {
    let kind = match is_far {
        true => IcmpError::Unreachable { code: 3 },
        false => IcmpError::TimeExceeded { code: 0 },
    };
    PacketBuilder::icmp_error(kind, packet)
        .to_vec()
        .unwrap_or_else(|_| packet.to_vec())
}

/// The other end knows the sender by the address that it saw.
fn address_to_sender_of(packet: &mut [u8], seen: &[u8]) {
    let (Ok(layout), Ok(seen_layout)) = (dissect(packet), dissect(seen)) else {
        return;
    };
    if layout.protocol != seen_layout.protocol {
        return;
    }
    let (source, destination) = (
        fields::source(seen, &seen_layout),
        fields::destination(seen, &seen_layout),
    );
    // Later fragments have no ports, and frames that are broken have no ends.
    _ = rewrite::set_source(packet, &layout, destination);
    _ = rewrite::set_destination(packet, &layout, source);
}

/// Whether a packet's destination is such an address.
fn is_to(packet: &[u8], is_such: impl Fn(Address) -> bool) -> bool {
    dissect(packet).is_ok_and(|layout| is_such(fields::destination(packet, &layout).address))
}

fn break_it(packet: &mut Vec<u8>, how: u8) {
    let l3 = packet.len().min(14);
    match how % 8 {
        0 => packet.truncate(usize::from(how)),
        1 => packet.truncate(packet.len() - 1),
        2 => packet[l3] = how,
        3 => packet[l3 - 2] ^= how,
        4 => *packet.last_mut().expect("not empty") ^= how,
        // Somewhere in the checksums and addresses of IPv4.
        5 => packet[l3 + 10] ^= how,
        6 => packet[l3 + 12 + usize::from(how % 8)] ^= how,
        _ => packet.fill(how),
    }
}
