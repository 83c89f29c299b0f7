//! The switch around the node's fast path: time, ports, numbers on the link.

use twinpath_coherence::Clock;
use twinpath_core::Instant;
use twinpath_engine::Time;

/// Packet time of a run's start: zero means that something never happened.
const START_NS: u64 = 1_000_000_000;

/// The packet clock.
pub(super) fn instant(now: Time) -> Instant {
    Instant(START_NS + now.ns())
}

/// Both clocks.
pub(super) fn clock(now: Time) -> Clock {
    let instant = instant(now);
    Clock {
        packet: instant,
        link: instant,
    }
}
