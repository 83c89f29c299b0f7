//! Which flow a packet belongs to.
//!
//! Mostly its addresses, ports and protocol say so. Two things make it a matter of configuration:
//! the key-value store's flows are its keys, and where a load balancer sees the return traffic of
//! its backends, a packet *from a backend* belongs to the connection that the client opened *to
//! the service*. The balancer tells steering which endpoints stand for which service (an alias),
//! so that both directions of a rewritten connection have one key, one slot and one worker.

use crate::hash::HashKey;
use crate::key::{FlowKey, Keyed, Role, Side, V4Key};
use crate::wire::fields;
use crate::wire::layout::{Fragment, Layout, Network, Plain, PlainEnds, Transport};
use crate::wire::{Address, Endpoint, icmp, kv};

/// One endpoint that stands for another.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The endpoint that packets come from: a backend.
    pub from: Endpoint,
    /// The transport protocol.
    pub protocol: u8,
    /// The endpoint that its flows are known by: the service.
    pub stands_for: Endpoint,
    /// The row of `from` in the owner's endpoint table.
    pub row: u32,
}

/// The flow of a plain packet: a [`Keyed`] in less room.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PlainKey {
    /// The flow's key.
    pub key: V4Key,
    /// The end that sent the packet.
    pub side: Side,
    /// As in [`Keyed`].
    pub alias_row: u32,
}

impl PlainKey {
    /// The same as for any packet.
    #[must_use]
    pub const fn whole(&self) -> Keyed {
        Keyed {
            key: self.key.whole(),
            side: self.side,
            role: Role::Member,
            alias_row: self.alias_row,
        }
    }
}

/// Why aliases cannot be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteeringError {
    /// One endpoint under two services: a packet from it could belong to either.
    #[error(
        "endpoint {endpoint} (protocol {protocol}) stands for both {first} and {second}: packets from it could belong to either"
    )]
    Ambiguous {
        /// The endpoint.
        endpoint: Endpoint,
        /// Its protocol.
        protocol: u8,
        /// One service.
        first: Endpoint,
        /// The other.
        second: Endpoint,
    },
    /// Functions whose flows are keyed differently in one chain.
    #[error(
        "a key-value store's flows are its keys; it cannot share a chain with functions whose flows are connections"
    )]
    MixedKeys,
}

/// How packets are assigned to flows.
#[derive(Clone, Debug, Default)]
pub struct Steering {
    kv_port: Option<u16>,
    slots: Vec<Option<Alias>>,
    /// Bits by hash: an endpoint whose bit is not set stands for itself. It has many more bits
    /// than there are aliases, and takes fewer cache lines than the table.
    filter: Vec<u64>,
    /// The IPv4 addresses of aliases lie between these: nearly every endpoint is told apart by
    /// that alone.
    v4_range: V4Range,
    aliases: usize,
    hash_key: HashKey,
    /// Elements of a chain that tell flows in ways of their own.
    elements: Vec<Self>,
}

/// The first of a range of IPv4 addresses and the distance to the last; at first an empty one.
#[derive(Copy, Clone, Debug)]
struct V4Range {
    first: u64,
    span: u64,
}

impl Default for V4Range {
    fn default() -> Self {
        let first = u64::MAX;
        Self { first, span: 0 }
    }
}

impl V4Range {
    fn include(&mut self, address: u64) {
        *self = match self.first {
            u64::MAX => Self {
                first: address,
                span: 0,
            },
            first => Self {
                first: first.min(address),
                span: (first + self.span).max(address) - first.min(address),
            },
        };
    }

    #[inline(always)]
    const fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.first) <= self.span
    }
}

impl Steering {
    /// Flows by addresses, ports and protocol alone, hashed under `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            hash_key: HashKey::new(seed),
            ..Self::default()
        }
    }

    /// Makes UDP packets to `port` that carry the key-value protocol belong to their key.
    pub fn with_kv_port(mut self, port: u16) -> Self {
        self.kv_port = Some(port);
        self
    }

    /// Lets each element of a chain tell flows in a way of its own. Where several have flow state,
    /// an endpoint that stands for another at one of them has been rewritten at the next.
    pub fn with_elements(mut self, elements: Vec<Self>) -> Self {
        self.elements = elements;
        self
    }

    /// How packets are assigned to flows at an element of the chain.
    #[inline]
    pub fn at(&self, element: u8) -> &Self {
        self.elements.get(usize::from(element)).unwrap_or(self)
    }

    /// What flows are hashed under.
    #[inline(always)]
    pub const fn hash_key(&self) -> &HashKey {
        &self.hash_key
    }

    /// Adds aliases.
    ///
    /// # Errors
    /// An endpoint that stands for two services.
    pub fn with_aliases(mut self, aliases: &[Alias]) -> Result<Self, SteeringError> {
        for alias in aliases {
            self.add(*alias)?;
        }
        Ok(self)
    }

    /// The aliases, in no order.
    pub fn aliases(&self) -> impl Iterator<Item = &Alias> {
        self.slots.iter().flatten()
    }

    fn add(&mut self, alias: Alias) -> Result<(), SteeringError> {
        if let Some(known) = self.alias(alias.from, alias.protocol) {
            if known.stands_for == alias.stands_for {
                return Ok(());
            }
            let (endpoint, protocol) = (alias.from, alias.protocol);
            return Err(SteeringError::Ambiguous {
                endpoint,
                protocol,
                first: known.stands_for,
                second: alias.stands_for,
            });
        }
        if self.slots.len() < 4 * (self.aliases + 1) {
            self.grow();
        }
        self.place(alias);
        self.aliases += 1;
        Ok(())
    }

    fn grow(&mut self) {
        let size = (8 * (self.aliases + 1)).next_power_of_two();
        self.filter = vec![0; size.div_ceil(FILTER_SHARE)];
        let old = std::mem::replace(&mut self.slots, vec![None; size]);
        old.into_iter()
            .flatten()
            .for_each(|alias| self.place(alias));
    }

    fn place(&mut self, alias: Alias) {
        let mask = self.slots.len() - 1;
        let hash = self.alias_hash(alias.from, alias.protocol);
        if alias.from.address.is_v4() {
            self.v4_range.include(u64::from(alias.from.address.word(3)));
        }
        let (place, bit) = self.filter_place(hash);
        self.filter[place] |= bit;
        let mut index = hash & mask;
        while self.slots[index].is_some() {
            index = (index + 1) & mask;
        }
        self.slots[index] = Some(alias);
    }

    /// The word and the bit of a hash in the filter.
    #[inline(always)]
    fn filter_place(&self, hash: usize) -> (usize, u64) {
        let place = (hash / 64) & self.filter.len().wrapping_sub(1);
        (place, 1 << (hash % 64))
    }

    /// Whether an IPv4 endpoint, as [`Plain::ends`] has it, may stand for another.
    #[inline(always)]
    fn may_be_alias(&self, end: u64, protocol: u8) -> bool {
        self.v4_range.has(end >> 16) && self.passes_filter(self.v4_alias_hash(end, protocol))
    }

    fn alias_hash(&self, end: Endpoint, protocol: u8) -> usize {
        let [high, low] = [(end.address.0 >> 64) as u64, end.address.0 as u64];
        let rest = u64::from(end.port) | u64::from(protocol) << 16;
        self.hash_key.hash([high, low, rest]) as usize
    }

    /// [`Self::alias_hash`] of an IPv4 endpoint as [`fields::v4_ends`] has it.
    #[inline(always)]
    fn v4_alias_hash(&self, end: u64, protocol: u8) -> usize {
        let (low, port) = (0xffff_0000_0000 | end >> 16, end & 0xffff);
        let rest = port | u64::from(protocol) << 16;
        self.hash_key.hash([0, low, rest]) as usize
    }

    #[inline(always)]
    fn passes_filter(&self, hash: usize) -> bool {
        let (place, bit) = self.filter_place(hash);
        self.filter.get(place).is_some_and(|word| word & bit != 0)
    }

    /// What an endpoint stands for. The table is at most a quarter full, so this ends soon.
    #[inline]
    fn alias(&self, from: Endpoint, protocol: u8) -> Option<&Alias> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut index = self.alias_hash(from, protocol) & mask;
        while let Some(alias) = &self.slots[index] {
            if alias.from == from && alias.protocol == protocol {
                return Some(alias);
            }
            index = (index + 1) & mask;
        }
        None
    }

    /// The flow of a packet; `None` for what is not IP.
    #[inline(always)]
    pub fn key(&self, frame: &[u8], layout: &Layout) -> Option<Keyed> {
        let ordinary = layout.fragment == Fragment::Whole
            && layout.inner.is_none()
            && layout.network != Network::None
            && !reports_error(frame, layout);
        if !ordinary {
            return self.unusual_key(frame, layout);
        }
        if let Some(port) = self.kv_port
            && let Some(keyed) = entry_key(frame, layout, port)
        {
            return Some(keyed);
        }
        Some(
            self.v4_key(frame, layout)
                .or_else(|| self.v6_key(frame, layout))
                .unwrap_or_else(|| self.any_key(frame, layout)),
        )
    }

    /// The flow of a packet with IPv4 ends whose source stands for nothing but itself.
    #[inline(always)]
    fn v4_key(&self, frame: &[u8], layout: &Layout) -> Option<Keyed> {
        let (source, destination) = fields::v4_ends(frame, layout)?;
        if self.may_be_alias(source, layout.protocol) {
            return None;
        }
        let addresses = source >> 16 << 32 | destination >> 16;
        let ports = source << 16 | destination & 0xffff;
        let (key, side) = V4Key::connection(addresses, ports as u32, layout.protocol);
        Some(Keyed {
            key: key.whole(),
            side,
            role: Role::Member,
            alias_row: 0,
        })
    }

    /// Whether the flows of all plain packets are connections, so that [`Self::plain_key`] finds
    /// what [`Self::key`] does.
    #[must_use]
    pub fn are_connections(&self) -> bool {
        self.kv_port.is_none()
    }

    /// The flow of a plain packet, where [these are connections](Self::are_connections).
    #[inline(always)]
    pub fn plain_key(&self, frame: &[u8], plain: Plain) -> PlainKey {
        self.key_of_ends(plain.ends(frame), plain.protocol())
    }

    /// The flow of a plain packet with these ends.
    #[inline(always)]
    pub fn key_of_ends(&self, ends: PlainEnds, protocol: u8) -> PlainKey {
        let (mut addresses, mut ports) = (ends.addresses, ends.ports);
        let mut alias_row = 0;
        if self.v4_range.has(addresses >> 32) {
            (addresses, ports, alias_row) = self.resolve_v4(addresses, ports, protocol);
        }
        let (key, side) = V4Key::connection(addresses, ports, protocol);
        PlainKey {
            key,
            side,
            alias_row,
        }
    }

    #[inline(never)]
    fn resolve_v4(&self, addresses: u64, ports: u32, protocol: u8) -> (u64, u32, u32) {
        let end = addresses >> 32 << 16 | u64::from(ports >> 16);
        if !self.passes_filter(self.v4_alias_hash(end, protocol)) {
            return (addresses, ports, 0);
        }
        let endpoint = Endpoint::v4(((end >> 16) as u32).to_be_bytes(), end as u16);
        let (end, row) = self.resolve(endpoint, protocol);
        let address = u64::from(end.address.word(3));
        (
            address << 32 | addresses & 0xffff_ffff,
            u32::from(end.port) << 16 | ports & 0xffff,
            row,
        )
    }

    /// The flow of a packet with IPv6 ends where no endpoint stands for another.
    #[inline(always)]
    fn v6_key(&self, frame: &[u8], layout: &Layout) -> Option<Keyed> {
        if self.aliases > 0 {
            return None;
        }
        let (addresses, ports) = fields::v6_ends(frame, layout)?;
        let (source, destination) = v6_endpoints(addresses, ports);
        let (key, side) = FlowKey::connection(source, destination, layout.protocol);
        Some(Keyed {
            key,
            side,
            role: Role::Member,
            alias_row: 0,
        })
    }

    #[inline(never)]
    fn any_key(&self, frame: &[u8], layout: &Layout) -> Keyed {
        let (source, destination) = (
            fields::source(frame, layout),
            fields::destination(frame, layout),
        );
        let (source, alias_row) = self.resolve(source, layout.protocol);
        let (key, side) = FlowKey::connection(source, destination, layout.protocol);
        Keyed {
            key,
            side,
            role: Role::Member,
            alias_row,
        }
    }

    #[inline]
    fn resolve(&self, end: Endpoint, protocol: u8) -> (Endpoint, u32) {
        match self.alias(end, protocol) {
            Some(alias) => (alias.stands_for, alias.row + 1),
            None => (end, 0),
        }
    }

    /// The flow of a fragment whose datagram has these ports.
    pub fn key_of_fragment(
        &self,
        frame: &[u8],
        layout: &Layout,
        [from, to]: [u16; 2],
        protocol: u8,
    ) -> Keyed {
        let source = Endpoint::new(fields::source_address(frame, layout), from);
        let destination = Endpoint::new(fields::destination_address(frame, layout), to);
        let (source, alias_row) = self.resolve(source, protocol);
        let (key, side) = FlowKey::connection(source, destination, protocol);
        Keyed {
            key,
            side,
            role: Role::Fragment,
            alias_row,
        }
    }

    #[cold]
    fn unusual_key(&self, frame: &[u8], layout: &Layout) -> Option<Keyed> {
        if layout.network == Network::None {
            return None;
        }
        if layout.fragment != Fragment::Whole {
            let (source, destination) = (
                fields::source(frame, layout),
                fields::destination(frame, layout),
            );
            let (key, side) =
                FlowKey::fragments(source.address, destination.address, layout.protocol);
            return Some(Keyed {
                key,
                side,
                role: Role::Fragment,
                alias_row: 0,
            });
        }
        let Some(inner) = layout.inner else {
            return Some(quoteless_error(frame, layout));
        };
        let source = self
            .resolve(fields::inner_source(frame, layout)?, inner.protocol)
            .0;
        let destination = self
            .resolve(fields::inner_destination(frame, layout)?, inner.protocol)
            .0;
        let (key, quoted_from) = FlowKey::connection(source, destination, inner.protocol);
        Some(Keyed {
            key,
            side: quoted_from.other(),
            role: Role::Error,
            alias_row: 0,
        })
    }
}

/// The ends of a packet over IPv6.
#[inline(always)]
const fn v6_endpoints([source, destination]: [Address; 2], ports: u32) -> (Endpoint, Endpoint) {
    (
        Endpoint::new(source, (ports >> 16) as u16),
        Endpoint::new(destination, ports as u16),
    )
}

/// Whether an ICMP message reports an error, or is a redirect.
#[inline(always)]
fn reports_error(frame: &[u8], layout: &Layout) -> bool {
    matches!(layout.transport, Transport::Icmp | Transport::Icmp6)
        && fields::icmp_kind(frame, layout).is_some_and(|(kind, _)| {
            let is_redirect = layout.network == Network::V6 && kind == icmp::v6::REDIRECT;
            is_redirect || icmp::is_error(layout.network, kind)
        })
}

/// An ICMP error whose quote cannot be read is about no connection, and no packet of one: else who
/// has exchanged anything by ICMP could send any.
fn quoteless_error(frame: &[u8], layout: &Layout) -> Keyed {
    let (source, destination) = (
        fields::source_address(frame, layout),
        fields::destination_address(frame, layout),
    );
    let (key, side) = FlowKey::fragments(source, destination, layout.protocol);
    Keyed {
        key,
        side,
        role: Role::Error,
        alias_row: 0,
    }
}

/// The flow of a key-value request to `port`.
fn entry_key(frame: &[u8], layout: &Layout, port: u16) -> Option<Keyed> {
    if layout.transport != Transport::Udp || fields::destination_port(frame, layout) != port {
        return None;
    }
    let view = kv::KvView::new(fields::payload(frame, layout))
        .ok()
        .filter(|view| !view.is_reply())?;
    Some(Keyed {
        key: FlowKey::entry(view.key()),
        side: Side::Low,
        role: Role::Member,
        alias_row: 0,
    })
}

/// The end that opens a flow of which nothing is known but this packet: the one it comes from,
/// unless it is plainly an answer (SYN with ACK, a packet from a backend of a balanced service, an
/// ICMP error about a packet that went the other way).
pub fn opener(frame: &[u8], layout: &Layout, keyed: &Keyed) -> Side {
    const SYN_ACK: u8 = 0x12;
    let is_answer = keyed.alias_row != 0
        || keyed.role == Role::Error
        || (layout.transport == Transport::Tcp
            && fields::tcp_flags(frame, layout) & SYN_ACK == SYN_ACK);
    if is_answer {
        keyed.side.other()
    } else {
        keyed.side
    }
}

/// Words of the filter: one for so many slots of the table.
const FILTER_SHARE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{PacketBuilder, dissect};
    use proptest::prelude::*;

    fn endpoint() -> impl Strategy<Value = Endpoint> {
        (0..4u8, 0..4u16, any::<bool>()).prop_map(|(host, port, v4)| Endpoint {
            address: match v4 {
                true => crate::wire::Address::from_v4([10, 0, 0, host]),
                false => crate::wire::Address(1 << 120 | u128::from(host)),
            },
            port,
        })
    }

    proptest! {
        /// A packet's key is that of its ends, each resolved by looking at every alias.
        #[test]
        fn keys_are_those_of_resolved_ends(
            from in prop::collection::vec(endpoint(), 0..20),
            ends in [endpoint(), endpoint()],
            udp: bool,
        ) {
            let service = Endpoint::v4([10, 9, 9, 9], 80);
            let aliases: Vec<Alias> = (0..).zip(from).map(|(row, from)| {
                Alias { from, protocol: 6, stands_for: service, row }
            }).collect();
            let steering = Steering::new(0).with_aliases(&aliases).unwrap();
            let [source, mut destination] = ends;
            if source.address.is_v4() != destination.address.is_v4() {
                destination.address = source.address;
            }
            let builder = if udp { PacketBuilder::udp(source, destination) } else { PacketBuilder::tcp(source, destination) };
            let frame = builder.to_vec().unwrap();
            let keyed = steering.key(&frame, &dissect(&frame).unwrap()).unwrap();
            let protocol = if udp { 17 } else { 6 };
            let known = aliases.iter().find(|alias| alias.from == source && alias.protocol == protocol);
            let (key, side) = FlowKey::connection(known.map_or(source, |alias| alias.stands_for), destination, protocol);
            prop_assert_eq!((keyed.key, keyed.side, keyed.role), (key, side, Role::Member));
            prop_assert_eq!(keyed.alias_row, known.map_or(0, |alias| alias.row + 1));
            let hash = steering.alias_hash(source, protocol);
            prop_assert!(known.is_none() || steering.passes_filter(hash));
            if let Some(plain) = Plain::of(&frame) {
                let PlainKey { key, side, alias_row } = steering.plain_key(&frame, plain);
                prop_assert_eq!((key.whole(), side, alias_row), (keyed.key, keyed.side, keyed.alias_row));
            }
        }
    }

    /// Were the filter always full it would be no use.
    #[test]
    fn few_others_pass_the_filter() {
        let aliases: Vec<Alias> = (0..100u8)
            .map(|host| Alias {
                from: Endpoint::v4([10, 254, 0, host], 8080),
                protocol: 6,
                stands_for: Endpoint::v4([10, 9, 9, 9], 80),
                row: 0,
            })
            .collect();
        let steering = Steering::new(0).with_aliases(&aliases).unwrap();
        let others = (0..10_000u32).filter(|&client| {
            let address = client.wrapping_mul(2_654_435_761).to_be_bytes();
            steering.passes_filter(steering.alias_hash(Endpoint::v4(address, client as u16), 6))
        });
        assert!(others.count() < 400);
    }
}
