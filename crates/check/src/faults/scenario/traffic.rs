//! What arrives in a run, and when.

use super::kind::Kind;
use crate::faults::draw::Draw;

/// What arrives, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Packets in all.
    pub packets: u32,
    /// Flows that they belong to.
    pub flows: u32,
    /// Whether half of the packets belong to the first flow.
    pub has_favourite: bool,
    /// Most time between two arrivals, by the link's clock.
    pub gap_ns: u64,
    /// Most packets that arrive together.
    pub burst: u32,
    /// Arrivals in a thousand that a silence comes before.
    pub silence_permille: u64,
    /// How long a silence is.
    pub silence_ns: u64,
    /// How much faster the packet clock goes than that of the link, as when a capture is replayed.
    pub clock_rate: u64,
    /// Kinds of packets, with weights.
    pub mix: Vec<(Kind, u32)>,
    /// How long the ledger holds a packet at most, by the packet clock.
    pub hold_ns: u64,
    /// After how many ticks of silence the ledger forgets a flow.
    pub expiry_ticks: u32,
}

impl Traffic {
    /// A few packets of one flow, simple and complex ones, about as far apart as a frame's delay.
    pub(super) fn shrink(&mut self, packets: u32, delay_ns: u64, clock_rate: u64) {
        (self.packets, self.flows, self.burst) = (packets, 1, 1);
        (self.gap_ns, self.silence_permille) = (2 * delay_ns, 0);
        self.clock_rate = clock_rate;
        self.mix = vec![(Kind::Simple, 3), (Kind::Complex, 1)];
    }

    /// Traffic of any sort.
    pub(super) fn drawn(draw: &mut Draw, delay_ns: u64) -> Self {
        let silence_ns = draw.pick(&[20 * delay_ns, 1_000_000, 300_000_000, 61_000_000_000]);
        Self {
            packets: draw.between(60, 300) as u32,
            flows: draw.pick(&[1, 2, 3, 5, 8, 16, 24]),
            has_favourite: draw.flip(),
            gap_ns: (16 * delay_ns) >> draw.below(8),
            burst: draw.pick(&[1, 1, 2, 8]),
            silence_permille: draw.sometimes(3, &[5, 20, 60]),
            silence_ns,
            clock_rate: draw.pick(&[1, 1, 1, 1000]),
            mix: mix(draw),
            hold_ns: delay_ns << draw.below(5),
            expiry_ticks: draw.between(3, 8) as u32,
        }
    }
}

fn mix(draw: &mut Draw) -> Vec<(Kind, u32)> {
    let mut mix = vec![(Kind::Simple, 100)];
    for kind in Kind::LEDGER {
        if kind != Kind::Simple && draw.flip() {
            mix.push((kind, draw.pick(&[1, 5, 20])));
        }
    }
    mix
}
