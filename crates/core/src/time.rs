//! Time as an argument.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time: nanoseconds since the epoch of whatever clock the run uses (a capture's, the
/// machine's monotonic one, or the laboratory's virtual one).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// How many low bits of nanoseconds a [tick](Instant::ticks) drops: a tick lasts 2^26 ns, 67 ms.
pub const TICK_SHIFT: u32 = 26;

/// What is ahead by no more lies in the future, and not eight years in the past: 13 months.
const FUTURE_TICKS: u32 = 1 << 29;

impl Instant {
    /// The earliest instant.
    pub const ZERO: Self = Self(0);
    /// Later than every event: the deadline of what has none.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time in 32-bit ticks of 67 ms, as flow state words hold it.
    ///
    /// A switch register is 32 bits wide; at this resolution it wraps after nine years, so that a
    /// capture that spans years still ages its flows correctly.
    #[inline]
    pub const fn ticks(self) -> u32 {
        (self.0 >> TICK_SHIFT) as u32
    }

    /// How many [ticks](Self::ticks) have passed since `earlier`; zero if it lies in the future (up to
    /// a year), as for a packet that another one of its flow, which arrived later, has overtaken.
    #[inline]
    pub const fn ticks_since(self, earlier: u32) -> u32 {
        let passed = self.ticks().wrapping_sub(earlier);
        match passed > u32::MAX - FUTURE_TICKS {
            true => 0,
            false => passed,
        }
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in [ticks](Instant::ticks), rounded up, so that a time-out never comes early.
pub fn ticks_of(duration: Duration) -> u32 {
    let ticks = duration.as_nanos().div_ceil(1 << TICK_SHIFT);
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, later: Duration) -> Self {
        let nanos = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn sub(self, earlier: Duration) -> Self {
        let nanos = u64::try_from(earlier.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_round_durations_up_and_instants_down() {
        assert_eq!(Instant((1 << TICK_SHIFT) - 1).ticks(), 0);
        assert_eq!(Instant(5 << TICK_SHIFT).ticks_since(3), 2);
        assert_eq!(Instant(5 << TICK_SHIFT).ticks_since(6), 0);
        assert_eq!(Instant(1 << TICK_SHIFT).ticks_since(u32::MAX), 2);
        assert_eq!(Instant(1 << TICK_SHIFT).ticks(), 1);
        assert_eq!(ticks_of(Duration::from_nanos(1)), 1);
        assert_eq!(ticks_of(Duration::from_nanos((1 << TICK_SHIFT) + 1)), 2);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
        assert_eq!(Instant(5) - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant(5).since(Instant(9)), Duration::ZERO);
    }
}
