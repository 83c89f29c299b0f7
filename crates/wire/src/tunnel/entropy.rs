use crate::address::Address;
use crate::fields;
use crate::layout::{Fragment, Layout, Network};

/// From which UDP ports VXLAN is sent: those that agree with `base` in all but the lowest `bits`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SourcePorts {
    /// The first of them.
    pub base: u16,
    /// How many of the lowest bits the inner flow chooses, at most 16.
    pub bits: u8,
}

impl Default for SourcePorts {
    /// The dynamic ports, as RFC 7348 §5 recommends.
    fn default() -> Self {
        Self {
            base: 0xc000,
            bits: 14,
        }
    }
}

impl SourcePorts {
    /// The port for an inner flow's [`entropy`].
    #[must_use]
    #[inline]
    pub const fn port(self, entropy: u32) -> u16 {
        let chosen = match self.bits {
            bits @ 0..16 => (1 << bits) - 1,
            _ => u16::MAX,
        };
        self.base & !chosen | (entropy >> 16) as u16 & chosen
    }
}

/// A number that is the same for all packets of a flow and direction, and all bits of which depend
/// on all that names the flow. All fragments of a datagram have the same, made of its addresses
/// alone; a frame that is not IP has that of its stations.
///
/// Whoever sends packets can make flows that share it. It chooses among paths outside, nothing else:
/// tables have [keyed hashes](https://docs.rs/twinpath-core).
#[must_use]
pub fn entropy(frame: &[u8], layout: &Layout) -> u32 {
    if layout.network == Network::None {
        let (source, destination) = (fields::source_mac(frame), fields::destination_mac(frame));
        return mix([number(source.0), 0, number(destination.0), 0], 0);
    }
    let ports = match layout.fragment {
        Fragment::Whole => [
            fields::source_port(frame, layout),
            fields::destination_port(frame, layout),
        ],
        _ => [0; 2],
    };
    let source = fields::source_address(frame, layout);
    let destination = fields::destination_address(frame, layout);
    entropy_of([source, destination], ports, layout.protocol)
}

/// The [`entropy`] of packets with these addresses, ports and protocol.
#[must_use]
#[inline(always)]
pub const fn entropy_of(addresses: [Address; 2], ports: [u16; 2], protocol: u8) -> u32 {
    let [source, destination] = addresses;
    let words = [
        source.0 as u64,
        (source.0 >> 64) as u64,
        destination.0 as u64,
        (destination.0 >> 64) as u64,
    ];
    let ports = (ports[0] as u64) << 16 | ports[1] as u64;
    mix(words, ports << 8 | protocol as u64)
}

const fn number(octets: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = octets;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Products of pairs, folded: odd numbers without a pattern keep factors from being zero.
#[inline(always)]
const fn mix([a, b, c, d]: [u64; 4], last: u64) -> u32 {
    let low = fold(a ^ 0x9e37_79b9_7f4a_7c15, c ^ 0xbf58_476d_1ce4_e5b9);
    let high = fold(b ^ 0x94d0_49bb_1331_11eb, d ^ 0xd6e8_feb8_6659_fd93);
    let mixed = fold(
        low ^ high.rotate_left(32) ^ last,
        0xa076_1d64_78bd_642f ^ last.rotate_left(17),
    );
    (mixed >> 32) as u32
}

#[inline(always)]
const fn fold(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    product as u64 ^ (product >> 64) as u64
}
