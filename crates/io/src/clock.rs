//! How an interface of a pcapng file counts time.

use crate::interface::Resolution;

const NS_PER_S: u128 = 1_000_000_000;
/// Ten to this power is the largest that fits, with a timestamp, in 128 bits.
const MAX_DECIMAL_EXPONENT: u32 = 38;
/// This bit of the option tells powers of two from powers of ten.
const POWER_OF_TWO: u8 = 0x80;

/// Turns timestamps of an interface into nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) resolution: Resolution,
    /// Seconds since 1970 at which the interface counts zero.
    pub(crate) offset_s: i64,
}

impl Clock {
    /// The clock of an interface that says nothing of it.
    pub(crate) const DEFAULT: Self = Self {
        resolution: Resolution::MICROSECONDS,
        offset_s: 0,
    };

    /// Sets the resolution from the option's byte.
    pub(crate) fn set_resolution(&mut self, option: u8) {
        let exponent = option & !POWER_OF_TWO;
        self.resolution = match option & POWER_OF_TWO {
            0 => Resolution::Decimal(exponent),
            _ => Resolution::Binary(exponent),
        };
    }

    /// Nanoseconds since 1970, limited to what 64 bits hold.
    pub(crate) fn to_ns(self, units: u64) -> u64 {
        let since_offset_ns = self.scale_to_ns(units);
        let offset_ns = u128::from(self.offset_s.unsigned_abs()) * NS_PER_S;
        let ns = match self.offset_s {
            0.. => since_offset_ns.saturating_add(offset_ns),
            _ => since_offset_ns.saturating_sub(offset_ns),
        };
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn scale_to_ns(self, units: u64) -> u128 {
        let scaled = u128::from(units) * NS_PER_S;
        match self.resolution {
            Resolution::Decimal(exponent) => {
                scaled / 10_u128.pow(u32::from(exponent).min(MAX_DECIMAL_EXPONENT))
            }
            Resolution::Binary(exponent) => scaled.checked_shr(exponent.into()).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_scale_without_overflow() {
        let clock = |option, offset_s| {
            let mut clock = Clock {
                offset_s,
                ..Clock::DEFAULT
            };
            clock.set_resolution(option);
            clock
        };
        assert_eq!(clock(6, 0), Clock::DEFAULT);
        assert_eq!(clock(6, 0).to_ns(1), 1_000);
        assert_eq!(clock(9, 0).to_ns(u64::MAX), u64::MAX);
        assert_eq!(clock(12, 0).to_ns(1_999), 1);
        assert_eq!(clock(0, 0).to_ns(3), 3_000_000_000);
        assert_eq!(clock(0, 0).to_ns(u64::MAX), u64::MAX);
        assert_eq!(clock(0x7f, 0).to_ns(u64::MAX), 0);
        assert_eq!(clock(0xff, 0).to_ns(u64::MAX), 0);
        assert_eq!(clock(0x80, 0).to_ns(2), 2_000_000_000);
        assert_eq!(clock(9, -1).to_ns(1_500_000_000), 500_000_000);
        assert_eq!(clock(9, -2).to_ns(1_500_000_000), 0);
        assert_eq!(clock(9, i64::MIN).to_ns(0), 0);
        assert_eq!(clock(9, i64::MAX).to_ns(0), u64::MAX);
    }
}
