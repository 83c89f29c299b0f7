//! Token buckets in 32-bit arithmetic, the same for both paths.
//!
//! A bucket is told by the time at which it will be full again (the theoretical arrival time of the
//! generic cell rate algorithm, ITU-T I.371): a packet moves it on by what it takes, and conforms if
//! that is then no farther away than a whole burst takes to fill up.

use std::time::Duration;
use twinpath_core::Instant;
use twinpath_core::time::TICK_SHIFT;

/// Times that are told apart lie within this many units: twice as many are told apart by their sign.
const MOST_UNITS: u128 = 1 << 30;

/// The finest unit is a quarter of a nanosecond: with it a few ticks of flow state are still fewer than
/// half of all 32-bit numbers.
const FINEST: i32 = -2;

/// Bytes of the longest IP packet.
const LONGEST_PACKET: u64 = 65_535;

/// What a second of a bucket is made of.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Rate {
    /// Bits a second, and bytes of a burst.
    Bits { per_second: u64, burst_bytes: u64 },
    /// Packets a second, and packets of a burst.
    Packets { per_second: u64, burst: u64 },
}

/// What a packet takes of its bucket.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// So many units, whatever its length.
    Packet(u32),
    /// Units for its bytes: `bytes * factor / 2^shift`, rounded up.
    Bytes { factor: u32, shift: u32 },
}

/// Buckets of one rate.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Meter {
    /// A unit of time is 2^`unit` nanoseconds.
    pub unit: i32,
    pub cost: Cost,
    /// Units that an empty bucket takes to be full.
    pub depth: u32,
    /// Bytes of the longest packet that passes. Where units are coarse, a longer one may take no more.
    pub longest_packet: u32,
    /// Units that a packet may wait.
    pub longest_delay: u32,
    /// After so many ticks of silence a bucket is full.
    pub full_ticks: u32,
}

impl Rate {
    /// Nanoseconds in which a bucket gets as much as so many bytes, or packets, take; rounded up.
    const fn nanoseconds(self, amount: u64) -> u128 {
        let (per_one, per_second) = match self {
            Self::Bits { per_second, .. } => (8, per_second),
            Self::Packets { per_second, .. } => (1, per_second),
        };
        (amount as u128 * per_one * 1_000_000_000).div_ceil(per_second as u128)
    }

    /// Bytes of the longest packet that a full bucket has enough for.
    fn longest_packet(self) -> u32 {
        match self {
            Self::Bits { burst_bytes, .. } => burst_bytes.min(LONGEST_PACKET) as u32,
            Self::Packets { .. } => LONGEST_PACKET as u32,
        }
    }

    /// The farthest in the future that a bucket may be full, in nanoseconds.
    fn horizon(self, longest_delay: Duration) -> u128 {
        let longest = match self {
            Self::Bits { burst_bytes, .. } => self.nanoseconds(burst_bytes + LONGEST_PACKET + 1),
            Self::Packets { burst, .. } => self.nanoseconds(burst + 1),
        };
        longest + longest_delay.as_nanos()
    }
}

impl Meter {
    /// Buckets of a rate, in whose lines packets wait for at most so long.
    pub fn new(rate: Rate, longest_delay: Duration) -> Self {
        let horizon = rate.horizon(longest_delay);
        let mut unit = FINEST;
        while horizon > unit_nanoseconds(MOST_UNITS, unit) {
            unit += 1;
        }
        let (cost, burst) = match rate {
            Rate::Bits {
                per_second,
                burst_bytes,
            } => (cost_of_bytes(per_second, unit), burst_bytes),
            Rate::Packets { per_second, burst } => (cost_of_packet(per_second, unit), burst),
        };
        Self {
            unit,
            cost,
            depth: cost.of_many(burst),
            longest_packet: rate.longest_packet(),
            longest_delay: units(longest_delay.as_nanos(), unit) as u32,
            full_ticks: (horizon.div_ceil(1 << TICK_SHIFT) + 1) as u32,
        }
    }

    /// After so long a silence a bucket is full.
    pub const fn full_after(&self) -> Duration {
        Duration::from_nanos((self.full_ticks as u64) << TICK_SHIFT)
    }

    /// A time in units.
    pub const fn units(&self, at: Instant) -> u64 {
        match self.unit {
            0.. => at.0 >> self.unit,
            _ => at.0 << -self.unit,
        }
    }

    /// The same, as far as 32 bits tell it.
    pub const fn now(&self, at: Instant) -> u32 {
        self.units(at) as u32
    }

    /// The first nanosecond that is so many units after a time.
    pub const fn after(&self, at: Instant, ahead: u32) -> Instant {
        let ahead = ahead as u64;
        Instant(match self.unit {
            0.. => {
                let units = (at.0 >> self.unit).saturating_add(ahead);
                units.saturating_mul(1 << self.unit)
            }
            _ => at.0.saturating_add(ahead.div_ceil(1 << -self.unit)),
        })
    }

    /// What a packet of so many bytes takes.
    pub const fn cost(&self, bytes: u32) -> u32 {
        self.cost.of(bytes)
    }
}

impl Cost {
    pub const fn of(self, bytes: u32) -> u32 {
        match self {
            Self::Packet(units) => units,
            Self::Bytes { factor, shift } => {
                (bytes.wrapping_mul(factor).wrapping_add(round(shift))) >> shift
            }
        }
    }

    /// What so many bytes, or packets, take together.
    const fn of_many(self, amount: u64) -> u32 {
        match self {
            Self::Packet(units) => (amount * units as u64) as u32,
            Self::Bytes { factor, shift } => {
                ((amount * factor as u64 + round(shift) as u64) >> shift) as u32
            }
        }
    }
}

/// What makes a number that loses `shift` bits be rounded up.
pub(super) const fn round(shift: u32) -> u32 {
    (1 << shift) - 1
}

/// So many nanoseconds in units of 2^`unit` of them.
const fn units(nanoseconds: u128, unit: i32) -> u128 {
    match unit {
        0.. => nanoseconds >> unit,
        _ => nanoseconds << -unit,
    }
}

/// So many units in nanoseconds.
const fn unit_nanoseconds(units: u128, unit: i32) -> u128 {
    match unit {
        0.. => units << unit,
        _ => units >> -unit,
    }
}

fn cost_of_packet(per_second: u64, unit: i32) -> Cost {
    let scaled = units_up(1_000_000_000, per_second.into(), unit, 0);
    Cost::Packet(scaled as u32)
}

/// The factor has as many bits as it may: with the most bytes it is still a number of 32.
fn cost_of_bytes(per_second: u64, unit: i32) -> Cost {
    let factor = |shift| units_up(8_000_000_000, per_second.into(), unit, shift);
    let fits = |shift: &u32| factor(*shift) <= LONGEST_PACKET.into();
    let shift = (0..=16).rev().find(fits).unwrap_or(0);
    Cost::Bytes {
        factor: factor(shift) as u32,
        shift,
    }
}

/// `nanoseconds / per`, in units times 2^`shift`, rounded up.
fn units_up(nanoseconds: u128, per: u128, unit: i32, shift: u32) -> u128 {
    let (scaled, per) = match unit {
        0.. => (nanoseconds << shift, per << unit),
        _ => (nanoseconds << shift << -unit, per),
    };
    scaled.div_ceil(per)
}
