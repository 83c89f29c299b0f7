//! Picoseconds and rates.

use std::ops::{Add, AddAssign, Sub};

/// A point in time, or a duration, in picoseconds: 213 days fit.
///
/// A byte at 100 Gb/s takes 80 ps, at 1.6 Tb/s 5 ps: whole numbers, so that nothing rounds.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// So many nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// So many nanoseconds, to the nearest picosecond; none if negative.
    pub fn from_ns_f64(ns: f64) -> Self {
        Self((ns * 1e3).round() as u64)
    }

    /// So many microseconds, to the nearest picosecond; none if negative.
    pub fn from_us_f64(us: f64) -> Self {
        Self((us * 1e6).round() as u64)
    }

    /// In nanoseconds, rounded down.
    pub const fn ns(self) -> u64 {
        self.0 / 1_000
    }

    /// In microseconds.
    pub fn us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In seconds.
    pub fn s_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// How long after `earlier`; zero if before.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Self;
    /// Zero if `other` is later.
    fn sub(self, other: Self) -> Self {
        self.since(other)
    }
}

/// Bits a second.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

impl Rate {
    /// So many gigabits a second.
    pub fn from_gbps(gbps: f64) -> Self {
        Self((gbps * 1e9).round() as u64)
    }

    /// In bits a second.
    pub fn bps_f64(self) -> f64 {
        self.0 as f64
    }

    /// How long so many bytes take, rounded up to a picosecond. Nothing passes at a rate of zero:
    /// then it is for ever.
    pub fn time_of(self, bytes: u64) -> Time {
        let bits_ps = u128::from(bytes) * 8_000_000_000_000;
        let time = match self.0 {
            0 => u128::MAX,
            rate => bits_ps.div_ceil(rate.into()),
        };
        Time(u64::try_from(time).unwrap_or(u64::MAX))
    }

    /// How many bytes pass in this time, rounded down.
    pub fn bytes_in(self, time: Time) -> u64 {
        let bits_ps = u128::from(time.0) * u128::from(self.0);
        u64::try_from(bits_ps / 8_000_000_000_000).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time() {
        let rate = Rate::from_gbps(100.0);
        assert_eq!(rate.time_of(1), Time(80));
        assert_eq!(rate.time_of(250_000), Time::from_us_f64(20.0));
        assert_eq!(rate.bytes_in(Time::from_us_f64(20.0)), 250_000);
        assert_eq!(Rate(3).time_of(1), Time(2_666_666_666_667));
        assert_eq!(Rate(0).time_of(1), Time(u64::MAX));
    }

    #[test]
    fn time_does_not_go_below_zero() {
        assert_eq!(Time(3) - Time(5), Time::ZERO);
        assert_eq!(Time::from_ns_f64(-1.0), Time::ZERO);
        assert_eq!(Time::from_ns(2).ns(), 2);
    }
}
