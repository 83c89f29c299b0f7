//! A cable.

use super::{Lost, Through};
use crate::time::Time;

/// Carries any number of packets at a time; the rate is its [port](super::Port)'s.
#[derive(Clone, Debug)]
pub struct Link {
    /// How long light and transceivers take.
    pub latency: Time,
    /// The longest packet, in bytes.
    pub mtu_bytes: u32,
}

impl Link {
    /// When a packet that is sent now is at the other end.
    ///
    /// # Errors
    /// It is too long.
    pub fn carry(&self, now: Time, bytes: u32) -> Through {
        match bytes <= self.mtu_bytes {
            true => Ok(now + self.latency),
            false => Err(Lost::TooLong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_packets_are_lost() {
        let link = Link {
            latency: Time(7),
            mtu_bytes: 1500,
        };
        assert_eq!(link.carry(Time(1), 1500), Ok(Time(8)));
        assert_eq!(link.carry(Time(1), 1501), Err(Lost::TooLong));
    }
}
