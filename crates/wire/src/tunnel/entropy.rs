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
        return mix([number(source.0), number(destination.0), 0, 0, 0]);
    }
    let source = fields::source_address(frame, layout).0;
    let destination = fields::destination_address(frame, layout).0;
    let ports = match layout.fragment {
        Fragment::Whole => {
            u64::from(fields::source_port(frame, layout)) << 16
                | u64::from(fields::destination_port(frame, layout))
        }
        _ => 0,
    };
    mix([
        source as u64,
        (source >> 64) as u64,
        destination as u64,
        (destination >> 64) as u64,
        ports << 8 | u64::from(layout.protocol),
    ])
}

fn number(octets: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = octets;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// The finaliser of SplitMix64 over words that are added one after the other.
fn mix(words: [u64; 5]) -> u32 {
    let mixed = words.into_iter().fold(0x9e37_79b9_7f4a_7c15, |state, word| {
        let mut mixed: u64 = state ^ word;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    });
    (mixed >> 32) as u32
}
