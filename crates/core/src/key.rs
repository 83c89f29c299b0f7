//! What a flow is called.

use crate::hash::HashKey;
use crate::wire::{Address, Endpoint};

/// What kind of conversation a key names.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum KeyKind {
    /// Two endpoints and a protocol.
    #[default]
    Connection = 0,
    /// Two addresses and a protocol: fragments, whose ports are not in every packet.
    Fragments = 1,
    /// An entry of the key-value store.
    Entry = 2,
}

/// Which of a key's two ends a packet came from.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Side {
    /// The end with the smaller address and port.
    #[default]
    Low = 0,
    /// The other end.
    High = 1,
}

impl Side {
    /// The opposite end.
    pub const fn other(self) -> Self {
        match self {
            Self::Low => Self::High,
            Self::High => Self::Low,
        }
    }

    /// The end with this number (0 or 1), as flags on the link and in tables hold it.
    pub const fn from_bit(high: bool) -> Self {
        if high { Self::High } else { Self::Low }
    }
}

/// The canonical name of a flow: equal for both directions of a connection, for IPv4 and IPv6
/// alike (IPv4 addresses are mapped into IPv6's space). 40 bytes, compared in full.
///
/// Words: 0-1 the low end's address, 2-3 the high end's, 4 from the top: low port, high port,
/// protocol, kind; the rest is zero.
#[derive(Copy, Clone, Debug, Default, Eq, Hash, PartialOrd, Ord)]
#[expect(
    clippy::derived_hash_with_manual_eq,
    reason = "the same words are equal"
)]
pub struct FlowKey(pub [u64; 5]);

/// In line, where an array would be compared by a call.
impl PartialEq for FlowKey {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        let different = (0..5).fold(0, |bits, word| bits | (self.0[word] ^ other.0[word]));
        different == 0
    }
}

/// The lower half of an IPv4 address in IPv6's space, without the address.
const V4_MAPPED: u64 = 0xffff_0000_0000;

/// Bytes of a key on the link.
pub const KEY_BYTES: usize = 40;

impl FlowKey {
    /// The key of a connection between two endpoints, and the side that `source` is.
    #[inline(always)]
    pub fn connection(source: Endpoint, destination: Endpoint, protocol: u8) -> (Self, Side) {
        Self::between(source, destination, protocol, KeyKind::Connection)
    }

    /// The key of what has no ports in every packet, and the side that `source` is.
    pub fn fragments(source: Address, destination: Address, protocol: u8) -> (Self, Side) {
        let end = |address| Endpoint { address, port: 0 };
        Self::between(end(source), end(destination), protocol, KeyKind::Fragments)
    }

    /// The key of a key-value entry.
    pub fn entry(key: [u8; 16]) -> Self {
        let number = u128::from_be_bytes(key);
        Self([
            (number >> 64) as u64,
            number as u64,
            0,
            0,
            (KeyKind::Entry as u64) << 16,
        ])
    }

    #[inline(always)]
    fn between(
        source: Endpoint,
        destination: Endpoint,
        protocol: u8,
        kind: KeyKind,
    ) -> (Self, Side) {
        let source_is_low =
            (source.address.0, source.port) <= (destination.address.0, destination.port);
        let (low, high) = if source_is_low {
            (source, destination)
        } else {
            (destination, source)
        };
        let last = u64::from(low.port) << 48
            | u64::from(high.port) << 32
            | u64::from(protocol) << 24
            | (kind as u64) << 16;
        let key = Self([
            (low.address.0 >> 64) as u64,
            low.address.0 as u64,
            (high.address.0 >> 64) as u64,
            high.address.0 as u64,
            last,
        ]);
        (key, Side::from_bit(!source_is_low))
    }

    /// One end of a connection.
    pub fn end(&self, side: Side) -> Endpoint {
        let (word, shift) = match side {
            Side::Low => (0, 48),
            Side::High => (2, 32),
        };
        let address = Address(u128::from(self.0[word]) << 64 | u128::from(self.0[word + 1]));
        Endpoint {
            address,
            port: (self.0[4] >> shift) as u16,
        }
    }

    /// The transport protocol; 0 for a key-value entry.
    pub const fn protocol(&self) -> u8 {
        (self.0[4] >> 24) as u8
    }

    /// What the key names.
    pub const fn kind(&self) -> KeyKind {
        match (self.0[4] >> 16) as u8 {
            0 => KeyKind::Connection,
            1 => KeyKind::Fragments,
            _ => KeyKind::Entry,
        }
    }

    /// The key-value entry's key.
    pub fn entry_key(&self) -> [u8; 16] {
        (u128::from(self.0[0]) << 64 | u128::from(self.0[1])).to_be_bytes()
    }

    /// The hash that tables, sketches and the choice of worker use.
    #[inline(always)]
    pub const fn hash(&self, under: &HashKey) -> u64 {
        under.hash(self.0)
    }

    /// Writes the key as it travels on the link, big-endian.
    #[inline]
    pub fn write(&self, out: &mut [u8; KEY_BYTES]) {
        for (place, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *place = word.to_be_bytes();
        }
    }

    /// Reads a key from the link.
    #[inline]
    pub fn read(bytes: &[u8; KEY_BYTES]) -> Self {
        let mut words = [0; 5];
        for (word, place) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_be_bytes(*place);
        }
        Self(words)
    }
}

/// The [`FlowKey`] of a connection over IPv4, without what is the same in all of them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct V4Key {
    /// The low end's address, the high end's.
    addresses: u64,
    /// The last word of the whole key.
    rest: u64,
}

impl V4Key {
    /// [`FlowKey::connection`] of IPv4 endpoints: source address before destination address, and
    /// ports likewise, as [`Plain`](crate::wire::layout::Plain) tells them.
    #[inline(always)]
    pub const fn connection(addresses: u64, ports: u32, protocol: u8) -> (Self, Side) {
        let (turned_addresses, turned_ports) = (addresses.rotate_left(32), ports.rotate_left(16));
        // Numbers whose halves differ compare as their first halves do.
        let is_high =
            addresses > turned_addresses || addresses == turned_addresses && ports > turned_ports;
        let (addresses, ports) = match is_high {
            true => (turned_addresses, turned_ports),
            false => (addresses, ports),
        };
        let rest = (ports as u64) << 32 | (protocol as u64) << 24;
        (Self { addresses, rest }, Side::from_bit(is_high))
    }

    /// The same key, if it is one of a connection over IPv4.
    #[inline(always)]
    pub const fn of(key: &FlowKey) -> Option<Self> {
        let [zero, low, nought, high, rest] = key.0;
        let is_mapped = (low ^ V4_MAPPED | high ^ V4_MAPPED) >> 32 == 0;
        // Not even a kind.
        match is_mapped && zero | nought | rest & 0xff_ffff == 0 {
            true => Some(Self {
                addresses: low << 32 | high & 0xffff_ffff,
                rest,
            }),
            false => None,
        }
    }

    /// The whole key.
    #[inline(always)]
    pub const fn whole(self) -> FlowKey {
        let (low, high) = (self.addresses >> 32, self.addresses & 0xffff_ffff);
        FlowKey([0, V4_MAPPED | low, 0, V4_MAPPED | high, self.rest])
    }

    /// What tells it from other such keys.
    #[inline(always)]
    pub const fn words(self) -> [u64; 2] {
        [self.addresses, self.rest]
    }

    /// The key with these [words](Self::words).
    #[inline(always)]
    pub const fn from_words([addresses, rest]: [u64; 2]) -> Self {
        Self { addresses, rest }
    }

    /// [`FlowKey::hash`] of the whole key.
    #[inline(always)]
    pub const fn hash(self, under: &HashKey) -> u64 {
        let (low, high) = (self.addresses >> 32, self.addresses & 0xffff_ffff);
        under.hash_mapped([low, high, self.rest], V4_MAPPED)
    }
}

impl std::fmt::Display for FlowKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind() {
            KeyKind::Entry => write!(
                formatter,
                "entry {:032x}",
                u128::from_be_bytes(self.entry_key())
            ),
            _ => write!(
                formatter,
                "{} - {} protocol {}",
                self.end(Side::Low),
                self.end(Side::High),
                self.protocol()
            ),
        }
    }
}

/// A flow's hash, another for each way that its packets go.
#[inline(always)]
#[must_use]
pub const fn one_way(hash: u64, side: Side) -> u64 {
    hash ^ (side as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What the parser makes of a packet before any table is asked.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyed {
    /// The flow.
    pub key: FlowKey,
    /// The end that the packet came from. An ICMP error counts as coming from the end that its
    /// quoted packet was sent to.
    pub side: Side,
    /// What the packet is to its flow.
    pub role: Role,
    /// The row of the endpoint that the source stands for, plus one; 0 for none (see
    /// [`Steering`](crate::Steering)).
    pub alias_row: u32,
}

/// What a packet is to its flow.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// One of its packets.
    #[default]
    Member = 0,
    /// A fragment.
    Fragment = 1,
    /// An ICMP error that quotes one of its packets.
    Error = 2,
}

impl Role {
    /// The role with this number, as the link carries it.
    pub const fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::Fragment,
            2 => Self::Error,
            _ => Self::Member,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn endpoint() -> impl Strategy<Value = Endpoint> {
        (any::<u128>(), any::<u32>(), any::<bool>(), any::<u16>()).prop_map(
            |(v6, v4, is_v4, port)| {
                let address = if is_v4 {
                    Address::from_v4(v4.to_be_bytes())
                } else {
                    Address(v6)
                };
                Endpoint { address, port }
            },
        )
    }

    proptest! {
        #[test]
        fn both_directions_have_one_key(a in endpoint(), b in endpoint(), protocol: u8, seed: u64) {
            let (there, from_a) = FlowKey::connection(a, b, protocol);
            let (back, from_b) = FlowKey::connection(b, a, protocol);
            prop_assert_eq!(there, back);
            let under = HashKey::new(seed);
            prop_assert_eq!(there.hash(&under), back.hash(&under));
            prop_assert_eq!(there.end(from_a), a);
            prop_assert_eq!(there.end(from_a.other()), b);
            prop_assert!(a == b || from_a != from_b);
            prop_assert_eq!(there.protocol(), protocol);
        }

        #[test]
        fn v4_connections_are_connections(a: ([u8; 4], u16), b: ([u8; 4], u16), near: bool, protocol: u8, seed: u64) {
            let b = if near { (a.0, b.1) } else { b };
            let endpoint = |end: ([u8; 4], u16)| Endpoint::v4(end.0, end.1);
            let number = |end: ([u8; 4], u16)| u64::from(u32::from_be_bytes(end.0));
            let ports = u32::from(a.1) << 16 | u32::from(b.1);
            let (key, side) = V4Key::connection(number(a) << 32 | number(b), ports, protocol);
            let whole = FlowKey::connection(endpoint(a), endpoint(b), protocol);
            prop_assert_eq!((key.whole(), side), whole);
            prop_assert_eq!(V4Key::of(&whole.0), Some(key));
            prop_assert_eq!(V4Key::from_words(key.words()), key);
            let under = HashKey::new(seed);
            prop_assert_eq!(key.hash(&under), whole.0.hash(&under));
        }

        /// Each bit that is the same in all such keys counts.
        #[test]
        fn other_keys_are_none_over_v4(a: [u8; 4], b: [u8; 4], word in 0..5usize, bit in 0..64u32) {
            let (mut key, _) = FlowKey::connection(Endpoint::v4(a, 1), Endpoint::v4(b, 2), 6);
            key.0[word] ^= 1 << bit;
            let expected = match word {
                0 | 2 => None,
                1 | 3 => (bit < 32).then_some(key),
                _ => (bit >= 24).then_some(key),
            };
            prop_assert_eq!(V4Key::of(&key).map(V4Key::whole), expected);
        }

        #[test]
        fn keys_survive_the_link(a in endpoint(), b in endpoint(), protocol: u8) {
            let (key, _) = FlowKey::connection(a, b, protocol);
            let mut bytes = [0; KEY_BYTES];
            key.write(&mut bytes);
            prop_assert_eq!(FlowKey::read(&bytes), key);
        }

        #[test]
        fn kinds_never_collide(name: [u8; 16], a in endpoint(), b in endpoint()) {
            let entry = FlowKey::entry(name);
            prop_assert_eq!(entry.entry_key(), name);
            prop_assert_eq!(entry.kind(), KeyKind::Entry);
            let (fragments, _) = FlowKey::fragments(a.address, b.address, 6);
            let (connection, _) = FlowKey::connection(a, b, 6);
            prop_assert_ne!(entry, fragments);
            prop_assert_ne!(connection, fragments);
        }
    }
}
