//! What is known of a TCP connection: enough to tell which time-out it has.
//!
//! A reset is not taken at its word. Whoever is off the path can send one, and no sequence number
//! can be checked: those of segments that cached rules translated are unknown here. So a reset
//! makes a connection transitory, and the next segment that is none makes it what it was before
//! (RFC 7857 §2.2, RFC 6146 §3.5.2.2).

use twinpath_core::wire::tcp::flags::{FIN, RST, SYN};

/// Which way a packet goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the host inside that has the session.
    Out = 0,
    /// To it.
    In = 1,
}

/// A connection's state; of other protocols it means nothing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tcp {
    heard: [bool; 2],
    finished: [bool; 2],
    established: bool,
    closing: bool,
    /// The last segment was a reset.
    reset: bool,
}

impl Tcp {
    /// The state after a segment.
    #[must_use]
    pub fn after(mut self, way: Way, flags: u8) -> Self {
        if flags & RST != 0 {
            self.reset = true;
            return self;
        }
        if flags & SYN != 0 {
            if self.closing || self.reset {
                self = Self::default();
            }
            self.heard[way as usize] = true;
            return self;
        }
        self.reset = false;
        self.heard[way as usize] = true;
        self.established |= self.heard == [true; 2];
        self.finished[way as usize] |= flags & FIN != 0;
        self.closing |= self.finished == [true; 2];
        self
    }

    /// Whether both ends may send.
    pub fn is_established(self) -> bool {
        self.established && !self.closing && !self.reset
    }

    /// Whether segments without flags, which have changed nothing so far, do so after one with
    /// these: they must not pass by rules then.
    pub fn is_undone_by(self, flags: u8) -> bool {
        match flags & (SYN | RST) {
            0 => false,
            SYN => self.closing || self.reset,
            _ => !self.reset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::tcp::flags::ACK;

    fn established(segments: &[(Way, u8)]) -> bool {
        let state = segments
            .iter()
            .fold(Tcp::default(), |state, &(way, flags)| {
                state.after(way, flags)
            });
        state.is_established()
    }

    #[test]
    fn established_from_the_third_segment_to_the_last_fin() {
        use Way::{In, Out};
        let all = [
            (Out, SYN),
            (In, SYN | ACK),
            (Out, ACK),
            (In, ACK),
            (Out, FIN | ACK),
            (In, FIN | ACK),
        ];
        let expected = [false, false, true, true, true, false];
        for (count, expected) in (1..).zip(expected) {
            assert_eq!(established(&all[..count]), expected, "{count} segments");
        }
        assert!(established(&[(In, SYN), (Out, SYN | ACK), (In, ACK)]));
        assert!(established(&[(Out, ACK), (In, ACK)]), "picked up");
        for way in [Out, In] {
            let reset = [(Out, ACK), (In, ACK), (way, RST)];
            assert!(!established(&reset), "a reset of its own accord");
            let goes_on = [(Out, ACK), (In, ACK), (way, RST), (Out, ACK)];
            assert!(established(&goes_on), "nobody took it");
        }
        let closed = [(Out, ACK), (In, FIN), (Out, FIN), (In, RST), (Out, ACK)];
        assert!(!established(&closed));
        let again = [
            (Out, ACK),
            (In, ACK),
            (In, RST),
            (Out, SYN),
            (In, SYN | ACK),
            (Out, ACK),
        ];
        assert!(established(&again), "a new connection");
    }
}
