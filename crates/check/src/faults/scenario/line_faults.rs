//! What goes wrong on the link.

use crate::faults::draw::Draw;

/// What one direction of the link does to frames.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LineFaults {
    /// Least delay.
    pub delay_ns: u64,
    /// Most that is added to it.
    pub jitter_ns: u64,
    /// Frames in a thousand that are much delayed, with all behind them.
    pub spike_permille: u64,
    /// By how much at most.
    pub spike_ns: u64,
    /// Frames in a thousand that are lost.
    pub loss_permille: u64,
    /// Frames in a thousand with which a loss of many begins.
    pub outage_permille: u64,
    /// How many at most.
    pub outage_frames: u64,
    /// Frames in a thousand that are delivered twice.
    pub duplicate_permille: u64,
    /// Frames in a thousand that others overtake.
    pub overtaken_permille: u64,
}

impl LineFaults {
    /// Any of them, or none.
    pub(super) fn drawn(draw: &mut Draw, delay_ns: u64) -> Self {
        Self {
            delay_ns,
            jitter_ns: draw.sometimes(2, &[delay_ns / 4, delay_ns, 4 * delay_ns]),
            spike_permille: draw.sometimes(3, &[2, 10, 40]),
            spike_ns: delay_ns * draw.between(2, 60),
            loss_permille: draw.sometimes(2, &[2, 20, 100, 300]),
            outage_permille: draw.sometimes(4, &[2, 10]),
            outage_frames: draw.between(2, 40),
            duplicate_permille: draw.sometimes(4, &[5, 50, 200]),
            overtaken_permille: draw.sometimes(4, &[5, 50, 200]),
        }
    }
}
