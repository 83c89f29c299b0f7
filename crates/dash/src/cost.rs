//! What things cost in memory.

use std::iter::Sum;

/// How many of something there are, and what they cost.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How many.
    pub number: usize,
    /// Bytes of all of them together.
    pub bytes: usize,
}

impl Cost {
    /// Bytes of one; `None` if there are none.
    #[must_use]
    pub fn bytes_each(&self) -> Option<f64> {
        (self.number > 0).then(|| self.bytes as f64 / self.number as f64)
    }

    /// How many a memory of so many bytes would hold, if nothing else were in it.
    #[must_use]
    pub fn fitting(&self, memory_bytes: u64) -> Option<u64> {
        self.bytes_each()
            .map(|each| (memory_bytes as f64 / each) as u64)
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), |all, more| Self {
            number: all.number + more.number,
            bytes: all.bytes + more.bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_follows_from_what_one_costs() {
        let cost = Cost {
            number: 4,
            bytes: 64,
        };
        assert_eq!(cost.bytes_each(), Some(16.0));
        assert_eq!(cost.fitting(32_000), Some(2_000));
        assert_eq!(Cost::default().fitting(32_000), None);
    }
}
