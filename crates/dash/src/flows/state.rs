//! How far a connection has come, as far as that says when it is over.

use twinpath_core::time::ticks_of;
use twinpath_core::wire::{protocol, tcp::flags};

use crate::settings::IdleTimes;

/// What has been seen of a connection; of what is not TCP nothing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct State(u8);

impl State {
    /// The end that did not open it has sent something.
    const ANSWERED: u8 = 1;
    /// The end that opened it has sent its last segment.
    const FIN_FORWARD: u8 = 2;
    /// The other end has.
    const FIN_REVERSE: u8 = 4;
    /// One of them has reset it.
    const RESET: u8 = 8;

    /// The state that an entry holds.
    #[must_use]
    #[inline]
    pub const fn of(bits: u8) -> Self {
        Self(bits)
    }

    /// The same as bits.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The state after a segment with these flags.
    #[must_use]
    #[inline]
    pub const fn after(self, tcp_flags: u8, is_forward: bool) -> Self {
        let mut bits = self.0;
        if !is_forward {
            bits |= Self::ANSWERED;
        }
        if tcp_flags & flags::FIN != 0 {
            bits |= match is_forward {
                true => Self::FIN_FORWARD,
                false => Self::FIN_REVERSE,
            };
        }
        if tcp_flags & flags::RST != 0 {
            bits |= Self::RESET;
        }
        Self(bits)
    }

    /// Whether a connection is over but for what is still under way: it was reset, or both ends have
    /// sent their last segments. One end alone may be done long before the other.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        const BOTH: u8 = State::FIN_FORWARD | State::FIN_REVERSE;
        self.0 & Self::RESET != 0 || self.0 & BOTH == BOTH
    }

    /// How far it has come, in a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match (self.has_ended(), self.0 & Self::ANSWERED) {
            (true, _) => "ended",
            (false, 0) => "opened",
            (false, _) => "answered",
        }
    }

    const fn is_transitory(self) -> bool {
        self.has_ended() || self.0 & Self::ANSWERED == 0
    }
}

/// Times without a packet, in ticks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IdleTicks {
    tcp: u32,
    tcp_transitory: u32,
    udp: u32,
    other: u32,
}

impl IdleTicks {
    /// Whole ticks, rounded up.
    #[must_use]
    pub fn new(times: &IdleTimes) -> Self {
        Self {
            tcp: ticks_of(times.tcp),
            tcp_transitory: ticks_of(times.tcp_transitory),
            udp: ticks_of(times.udp),
            other: ticks_of(times.other),
        }
    }

    /// After how many ticks a flow is over.
    #[must_use]
    #[inline]
    pub const fn of(&self, number: u8, state: State) -> u32 {
        match number {
            protocol::TCP if state.is_transitory() => self.tcp_transitory,
            protocol::TCP => self.tcp,
            protocol::UDP => self.udp,
            _ => self.other,
        }
    }
}

/// Whether a segment opens a connection.
#[must_use]
#[inline]
pub const fn opens(tcp_flags: u8) -> bool {
    tcp_flags & (flags::SYN | flags::ACK | flags::RST | flags::FIN) == flags::SYN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_ends_with_both_last_segments_or_a_reset() {
        let open = State::default()
            .after(flags::SYN, true)
            .after(flags::SYN | flags::ACK, false);
        assert!(!open.is_transitory());
        let half = open.after(flags::FIN | flags::ACK, true);
        assert!(!half.has_ended() && !half.is_transitory());
        assert!(!half.after(flags::FIN, true).has_ended(), "the same again");
        assert!(half.after(flags::FIN | flags::ACK, false).has_ended());
        assert!(open.after(flags::RST, false).has_ended());
        assert!(State::default().after(flags::SYN, true).is_transitory());
    }

    #[test]
    fn first_segments_alone_open() {
        assert!(opens(flags::SYN));
        for other in [
            0,
            flags::ACK,
            flags::SYN | flags::ACK,
            flags::SYN | flags::RST,
            flags::FIN,
        ] {
            assert!(!opens(other));
        }
    }
}
