//! What a packet shows to the rules.
//!
//! | word | bits from the top |
//! |---|---|
//! | 0, 1 | source address |
//! | 2, 3 | destination address |
//! | 4 | source port 16, destination port 16, protocol 8, TCP flags 8, direction 8, shape 8 |
//! | 5 | port that the packet arrived on 16, zero 48 |
//!
//! IPv4 addresses are mapped into IPv6's space. An ICMP echo has its identifier in place of both
//! ports.

use twinpath_core::wire::layout::{Fragment, Layout, Network, Plain, PlainEnds, Transport};
use twinpath_core::wire::{Address, Endpoint, fields, icmp, protocol};
use twinpath_core::{Direction, FlowKey, Side};

/// Words of a key.
pub const WORDS: usize = 6;

/// A key as bare words, as the tables take it.
pub type KeyWords = [u64; WORDS];

/// What a packet shows to the rules, or a mask over it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatchKey(pub KeyWords);

/// Bits of the shape word.
mod shape {
    /// IPv6.
    pub const V6: u8 = 1;
    /// An ICMP echo: the identifier stands for both ports.
    pub const ECHO: u8 = 2;
    /// Of an echo: it is the answer.
    pub const REPLY: u8 = 4;
    /// A fragment, which meets no rule.
    pub const FRAGMENT: u8 = 8;
}

/// The lower half of an IPv4 address in IPv6's space, without the address.
const V4_MAPPED: u64 = 0xffff_0000_0000;

const DIRECTION_SHIFT: u32 = 8;
const FLAGS_SHIFT: u32 = 16;
const PROTOCOL_SHIFT: u32 = 24;

/// Word 4 of a TCP or UDP flow over IPv4, TCP flags left out.
#[inline(always)]
pub(crate) const fn rest_of_a_flow(ports: u32, protocol: u8, direction: Direction) -> u64 {
    (ports as u64) << 32
        | (protocol as u64) << PROTOCOL_SHIFT
        | (direction as u64) << DIRECTION_SHIFT
}

/// Whether word 4 is of a TCP or UDP flow over IPv6.
#[inline(always)]
pub(crate) const fn is_flow_over_v6(rest: u64) -> bool {
    rest as u8 == shape::V6
}

/// The TCP flags in word 4.
#[inline(always)]
pub(crate) const fn tcp_flags_of(rest: u64) -> u8 {
    (rest >> FLAGS_SHIFT) as u8
}

/// The protocol in a word that [`rest_of_a_flow`] made.
#[inline(always)]
pub(crate) const fn protocol_of_rest(rest: u64) -> u8 {
    (rest >> PROTOCOL_SHIFT) as u8
}

impl MatchKey {
    /// No bit.
    pub const NONE: Self = Self([0; WORDS]);

    /// Direction and shape: in every rule's mask, because what a rewrite means depends on them.
    pub const ALWAYS: Self = Self([0, 0, 0, 0, 0xffff, 0]);

    /// The mask of an exact match: addresses, ports and protocol, direction and shape.
    pub const EXACT: Self = Self([
        u64::MAX,
        u64::MAX,
        u64::MAX,
        u64::MAX,
        !(0xff << FLAGS_SHIFT),
        0,
    ]);

    /// The mask of addresses, ports and protocol.
    pub(crate) const ENDS: Self = Self([
        u64::MAX,
        u64::MAX,
        u64::MAX,
        u64::MAX,
        !0xffff_ffff | 0xff << PROTOCOL_SHIFT,
        0,
    ]);

    /// Bits in which packets of one flow may differ: TCP flags and the port of arrival.
    pub const WITHIN_FLOW: Self = Self([0, 0, 0, 0, 0xff << FLAGS_SHIFT, u64::MAX << 48]);

    /// The key of a packet that arrived on port `ingress` and goes through the chain this way
    /// (see [`Sides::key_direction`](crate::Sides::key_direction)). `None` for what is not plain: only whole TCP, UDP and ICMP echo packets meet the
    /// rules.
    #[inline(always)]
    pub fn of(frame: &[u8], layout: &Layout, ingress: u16, direction: Direction) -> Option<Self> {
        match fields::v4_ends(frame, layout) {
            Some(ends) if layout.fragment == Fragment::Whole => {
                let ends = PlainEnds::of(ends);
                Some(Self::of_v4(ends, frame, layout, ingress, direction))
            }
            Some(_) => None,
            None => Self::of_any(frame, layout, ingress, direction),
        }
    }

    /// [`Self::of`] a plain packet: there always is one.
    #[inline(always)]
    pub fn of_plain(frame: &[u8], plain: Plain, ingress: u16, direction: Direction) -> Self {
        Self::of_v4(
            plain.ends(frame),
            frame,
            &plain.layout(),
            ingress,
            direction,
        )
    }

    /// What nearly every packet is: TCP or UDP over IPv4.
    #[inline(always)]
    fn of_v4(
        ends: PlainEnds,
        frame: &[u8],
        layout: &Layout,
        ingress: u16,
        direction: Direction,
    ) -> Self {
        let flags = fields::tcp_flags(frame, layout);
        let rest = rest_of_a_flow(ends.ports, layout.protocol, direction);
        Self([
            0,
            V4_MAPPED | ends.addresses >> 32,
            0,
            V4_MAPPED | ends.addresses & 0xffff_ffff,
            rest | u64::from(flags) << FLAGS_SHIFT,
            u64::from(ingress) << 48,
        ])
    }

    #[inline]
    fn of_any(frame: &[u8], layout: &Layout, ingress: u16, direction: Direction) -> Option<Self> {
        match fields::v6_ends(frame, layout) {
            Some(ends) if layout.fragment == Fragment::Whole => {
                Some(Self::of_v6(ends, frame, layout, ingress, direction))
            }
            _ => Self::of_unusual(frame, layout, ingress, direction),
        }
    }

    #[inline(always)]
    fn of_v6(
        ([source, destination], ports): ([Address; 2], u32),
        frame: &[u8],
        layout: &Layout,
        ingress: u16,
        direction: Direction,
    ) -> Self {
        let flags = fields::tcp_flags(frame, layout);
        let rest = rest_of_a_flow(ports, layout.protocol, direction);
        Self([
            (source.0 >> 64) as u64,
            source.0 as u64,
            (destination.0 >> 64) as u64,
            destination.0 as u64,
            rest | u64::from(flags) << FLAGS_SHIFT | u64::from(shape::V6),
            u64::from(ingress) << 48,
        ])
    }

    #[inline(never)]
    fn of_unusual(
        frame: &[u8],
        layout: &Layout,
        ingress: u16,
        direction: Direction,
    ) -> Option<Self> {
        let shape = shape_of(frame, layout)?;
        let source = fields::source(frame, layout);
        let destination = fields::destination(frame, layout);
        let flags = fields::tcp_flags(frame, layout);
        let mut key = Self::of_ends(source, destination);
        key.0[4] |= u64::from(layout.protocol) << PROTOCOL_SHIFT
            | u64::from(flags) << FLAGS_SHIFT
            | (direction as u64) << DIRECTION_SHIFT
            | u64::from(shape);
        key.0[5] = u64::from(ingress) << 48;
        Some(key)
    }

    /// What a fragment of a TCP segment or UDP datagram shows, whose datagram has these ports and this
    /// protocol: its flow, and that no rule is for it.
    #[inline(never)]
    pub fn of_fragment(
        frame: &[u8],
        layout: &Layout,
        (ports, protocol): ([u16; 2], u8),
        ingress: u16,
        direction: Direction,
    ) -> Option<Self> {
        let version = match layout.network {
            Network::V4 => 0,
            Network::V6 => shape::V6,
            Network::None => return None,
        };
        let is_known = matches!(protocol, protocol::TCP | protocol::UDP);
        if layout.fragment == Fragment::Whole || !is_known {
            return None;
        }
        let [source, destination] = ports;
        let mut key = Self::of_ends(
            Endpoint::new(fields::source_address(frame, layout), source),
            Endpoint::new(fields::destination_address(frame, layout), destination),
        );
        key.0[4] |= u64::from(protocol) << PROTOCOL_SHIFT
            | u64::from(fields::tcp_flags(frame, layout)) << FLAGS_SHIFT
            | (direction as u64) << DIRECTION_SHIFT
            | u64::from(version | shape::FRAGMENT);
        key.0[5] = u64::from(ingress) << 48;
        Some(key)
    }

    /// Whether it is a fragment's.
    #[inline(always)]
    pub const fn is_fragment(&self) -> bool {
        self.0[4] as u8 & shape::FRAGMENT != 0
    }

    /// What a whole packet of a fragment's flow shows.
    #[must_use]
    pub const fn as_whole(mut self) -> Self {
        self.0[4] &= !(shape::FRAGMENT as u64);
        self
    }

    /// What all packets of a flow and direction have in common, fragments too.
    #[must_use]
    pub fn of_flow(&self) -> Self {
        self.as_whole().without(&Self::WITHIN_FLOW)
    }

    /// What any IP packet would show if it were plain: for people to read, not for tables.
    pub fn shown(frame: &[u8], layout: &Layout, ingress: u16) -> Self {
        let ends = (
            fields::source(frame, layout),
            fields::destination(frame, layout),
        );
        let mut key = Self::of_ends(ends.0, ends.1);
        let version = if layout.network == Network::V6 {
            shape::V6
        } else {
            0
        };
        key.0[4] |= u64::from(layout.protocol) << PROTOCOL_SHIFT
            | u64::from(fields::tcp_flags(frame, layout)) << FLAGS_SHIFT
            | u64::from(shape_of(frame, layout).unwrap_or(version));
        key.0[5] = u64::from(ingress) << 48;
        key
    }

    /// The [`ENDS`](Self::ENDS) of packets that a flow's end on this side sends.
    pub(crate) fn of_flow_key((flow, side): (FlowKey, Side)) -> Self {
        let mut key = Self::of_ends(flow.end(side), flow.end(side.other()));
        key.0[4] |= u64::from(flow.protocol()) << PROTOCOL_SHIFT;
        key
    }

    /// The flow and direction of packets that show this.
    pub(crate) fn flow_key(&self) -> (FlowKey, Side) {
        let end = |word: usize, port: u64| {
            let address = u128::from(self.0[word]) << 64 | u128::from(self.0[word + 1]);
            Endpoint::new(Address(address), port as u16)
        };
        let rest = self.0[4];
        let (source, destination) = (end(0, rest >> 48), end(2, rest >> 32));
        FlowKey::connection(source, destination, protocol_of_rest(rest))
    }

    #[inline(always)]
    const fn of_ends(source: Endpoint, destination: Endpoint) -> Self {
        Self([
            (source.address.0 >> 64) as u64,
            source.address.0 as u64,
            (destination.address.0 >> 64) as u64,
            destination.address.0 as u64,
            (source.port as u64) << 48 | (destination.port as u64) << 32,
            0,
        ])
    }

    /// As a mask: whether it has all bits of [`Self::EXACT`], so that it is one flow's.
    #[inline(always)]
    pub fn is_of_a_flow(&self) -> bool {
        Self::EXACT.without(self).is_none()
    }

    /// The bits that are in both.
    #[inline(always)]
    #[must_use]
    pub fn and(&self, mask: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & mask.0[word]))
    }

    /// The bits that are in either.
    #[inline(always)]
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// The bits that are not in the other.
    #[inline(always)]
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Whether there is no bit.
    #[inline(always)]
    pub fn is_none(&self) -> bool {
        self.0.iter().fold(0, |bits, word| bits | word) == 0
    }

    /// Whether this key equals a rule's value in the bits of its mask.
    #[inline(always)]
    pub fn matches(&self, mask: &Self, value: &Self) -> bool {
        let different = (0..WORDS).fold(0, |bits, word| {
            bits | (self.0[word] ^ value.0[word]) & mask.0[word]
        });
        different == 0
    }

    /// Which way the packet goes through the chain, if that counts.
    #[inline(always)]
    pub const fn direction(&self) -> Direction {
        Direction::BOTH[(self.0[4] >> DIRECTION_SHIFT & 1) as usize]
    }

    /// Whether the packet is an ICMP echo, whose identifier stands for both ports.
    #[inline(always)]
    pub const fn is_echo(&self) -> bool {
        self.0[4] as u8 & shape::ECHO != 0
    }

    /// Whether the packet is IPv6.
    #[inline(always)]
    pub const fn is_v6(&self) -> bool {
        self.0[4] as u8 & shape::V6 != 0
    }
}

/// The kind of packet, as far as it changes what a rewrite does; `None` if it is not plain.
#[inline(always)]
fn shape_of(frame: &[u8], layout: &Layout) -> Option<u8> {
    let version = match layout.network {
        Network::V4 => 0,
        Network::V6 => shape::V6,
        Network::None => return None,
    };
    if layout.fragment != Fragment::Whole {
        return None;
    }
    match layout.transport {
        Transport::Tcp | Transport::Udp => Some(version),
        Transport::Icmp | Transport::Icmp6 => Some(version | echo_shape(frame, layout)?),
        Transport::None | Transport::Other => None,
    }
}

fn echo_shape(frame: &[u8], layout: &Layout) -> Option<u8> {
    let (kind, _) = fields::icmp_kind(frame, layout)?;
    let is_reply = match layout.network {
        Network::V6 => kind == icmp::v6::ECHO_REPLY,
        _ => kind == icmp::v4::ECHO_REPLY,
    };
    let reply = if is_reply { shape::REPLY } else { 0 };
    icmp::is_echo(layout.network, kind).then_some(shape::ECHO | reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use twinpath_core::Steering;
    use twinpath_core::wire::icmp::IcmpError;
    use twinpath_core::wire::{PacketBuilder, dissect};

    fn key(frame: &[u8]) -> Option<MatchKey> {
        MatchKey::of(
            frame,
            &dissect(frame).expect("well formed"),
            7,
            Direction::Reply,
        )
    }

    fn ends() -> (Endpoint, Endpoint) {
        let (from, to) = ("10.0.0.1:4000", "10.0.0.2:80");
        (from.parse().expect("v4"), to.parse().expect("v4"))
    }

    #[test]
    fn fields_have_their_places() {
        let (from, to) = ends();
        let frame = PacketBuilder::tcp(from, to).flags(0x12).to_vec();
        let key = key(&frame.expect("fits")).expect("plain");
        assert_eq!(key.0[1], 0xffff_0a00_0001);
        assert_eq!(key.0[3], 0xffff_0a00_0002);
        assert_eq!(key.0[4], 0x0fa0_0050_0612_0100);
        assert_eq!(key.0[5], 7 << 48);
        assert_eq!(key.direction(), Direction::Reply);
        assert!(!key.is_echo() && !key.is_v6());
    }

    /// Errors and fragments find their flow by addresses and ports.
    #[test]
    fn a_key_tells_the_flow_that_addresses_and_ports_tell() {
        let v4 = |host, port| Endpoint::v4([10, 0, 0, host], port);
        let v6 = |host, port| Endpoint::new(Address(0x2001_0db8_u128 << 96 | host), port);
        let packets = [
            PacketBuilder::tcp(v4(1, 1000), v4(2, 80)),
            PacketBuilder::udp(v4(2, 53), v4(1, 1000)),
            PacketBuilder::icmp_echo(v4(1, 7), v4(2, 0)).echo_reply(),
            PacketBuilder::tcp(v6(1, 1000), v6(2, 80)),
            PacketBuilder::udp(v6(2, 53), v6(1, 1000)),
            PacketBuilder::icmp_echo(v6(1, 7), v6(2, 0)),
        ];
        for packet in packets {
            let bytes = packet.to_vec().expect("a packet");
            let layout = dissect(&bytes).expect("well formed");
            for direction in [Direction::Original, Direction::Reply] {
                let key = MatchKey::of(&bytes, &layout, 3, direction).expect("it has one");
                let keyed = Steering::default().key(&bytes, &layout).expect("IP");
                let flow = key.flow_key();
                assert_eq!(flow, (keyed.key, keyed.side), "{layout:?}");
                assert_eq!(MatchKey::of_flow_key(flow), key.and(&MatchKey::ENDS));
            }
        }
    }

    proptest! {
        #[test]
        fn the_quick_way_to_a_key_agrees_with_the_other(
            is_v6: bool, source: ([u8; 4], u16), destination: ([u8; 4], u16),
            flags: Option<u8>, options: bool, more: bool, offset: bool, ingress: u16, is_reply: bool,
        ) {
            let direction = Direction::BOTH[usize::from(is_reply)];
            let end = |(address, port): ([u8; 4], u16)| match is_v6 {
                false => Endpoint::v4(address, port),
                true => {
                    let low = u128::from(u32::from_be_bytes(address));
                    Endpoint::new(Address(0xfd00 << 112 | low << 40 | low), port)
                }
            };
            let (from, to) = (end(source), end(destination));
            let mut packet = match flags {
                Some(flags) => PacketBuilder::tcp(from, to).flags(flags),
                None => PacketBuilder::udp(from, to),
            };
            packet = packet.payload_len(64);
            if options && !is_v6 {
                packet = packet.ipv4_options(&[1, 1, 1, 0]);
            }
            if more || offset {
                packet = packet.fragment(if offset { 40 } else { 0 }, more);
            }
            let frame = packet.to_vec().expect("fits");
            let layout = dissect(&frame).expect("well formed");
            let quick = MatchKey::of(&frame, &layout, ingress, direction);
            prop_assert_eq!(quick, MatchKey::of_unusual(&frame, &layout, ingress, direction));
            prop_assert_eq!(quick.is_some(), !(more || offset));
        }
    }

    #[test]
    fn an_echo_has_its_identifier_for_both_ports() {
        let (from, to) = ends();
        let request = PacketBuilder::icmp_echo(from, to).to_vec().expect("fits");
        let reply = PacketBuilder::icmp_echo(from, to).echo_reply().to_vec();
        let (request, reply) = (key(&request), key(&reply.expect("fits")));
        let request = request.expect("plain");
        assert_eq!(request.0[4] >> 32, 0x0fa0_0fa0);
        assert!(request.is_echo());
        assert_ne!(Some(request), reply);
    }

    #[test]
    fn only_plain_packets_have_a_key() {
        let (from, to) = ends();
        let plain = PacketBuilder::udp(from, to).payload_len(30);
        let frames = [
            plain.fragment(0, true),
            plain.fragment(8, false),
            PacketBuilder::raw(47, from.address, to.address),
        ];
        for frame in frames {
            assert_eq!(key(&frame.to_vec().expect("fits")), None);
        }
        let frame = plain.to_vec().expect("fits");
        let layout = dissect(&frame).expect("well formed");
        let shown = MatchKey::shown(&frame, &layout, 7);
        assert_eq!(
            MatchKey::of(&frame, &layout, 7, Direction::Original),
            Some(shown)
        );
        let error = PacketBuilder::icmp_error(IcmpError::TimeExceeded { code: 0 }, &frame);
        assert_eq!(key(&error.to_vec().expect("fits")), None);
    }
}
