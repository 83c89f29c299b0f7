//! What is known of a TCP connection: enough to tell which time-out it has.
//!
//! Neither a reset nor a FIN from outside is taken at its word. Whoever is off the path can send one,
//! and its sequence number cannot be held against the last segments: those that cached rules translated
//! are unknown here. But segments with SYN, FIN or RST never pass by rules, and those of the host inside
//! are its own. So the host's FIN tells two numbers that nobody off the path knows: what the other end
//! sends last must acknowledge it, or be what the host acknowledges with it.
//!
//! An ICMP error that quotes a segment of the host is asked for its number where that is known: while the host
//! has sent nothing but its SYN, and behind its FIN.
//!
//! - A reset of the host makes a connection transitory, and the next segment that is none makes it what
//!   it was before (RFC 7857 §2.2, RFC 6146 §3.5.2.2).
//! - A FIN from outside counts when the host has sent its own, and one acknowledges the other.
//! - A reset from outside counts behind the host's FIN, if it has the number that the host expected then,
//!   or acknowledges the FIN. Another shortens nothing: a host that has taken it says nothing more, and
//!   neither does one that has not heard of it.

use twinpath_core::Packet;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};

/// Which way a packet goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the host inside that has the session.
    Out = 0,
    /// To it.
    In = 1,
}

/// What counts of a segment; its numbers only with SYN, FIN or RST.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub flags: u8,
    pub sequence: u32,
    /// The sequence number behind it.
    pub end: u32,
    pub acknowledgement: u32,
}

impl Segment {
    /// One without SYN, FIN and RST.
    pub fn plain(flags: u8) -> Self {
        Self {
            flags,
            ..Self::default()
        }
    }

    /// One with these flags of SYN, FIN and RST.
    pub fn marked(flags: u8, packet: &Packet) -> Self {
        let sequence = packet.tcp_sequence();
        let bytes = packet.layout.payload_bytes() as u32 + u32::from(flags & FIN != 0);
        Self {
            flags: flags | packet.tcp_flags() & ACK,
            sequence,
            end: sequence.wrapping_add(bytes),
            acknowledgement: packet.tcp_acknowledgement(),
        }
    }

    /// Whether it acknowledges all that an end has sent with its FIN.
    const fn acknowledges(self, fin: Fin) -> bool {
        self.flags & ACK != 0 && self.acknowledgement == fin.end
    }
}

/// Most bytes that are under way (RFC 7323 §2.3).
const LARGEST_WINDOW: u32 = 1 << 30;

/// What the FIN of an end has told.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Fin {
    end: u32,
    acknowledgement: u32,
}

impl Fin {
    const fn of(segment: Segment) -> Self {
        Self {
            end: segment.end,
            acknowledgement: segment.acknowledgement,
        }
    }
}

/// A connection's state; of other protocols it means nothing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tcp {
    heard: [bool; 2],
    /// By way.
    fins: [Option<Fin>; 2],
    established: bool,
    closing: bool,
    /// The sequence number of the host's SYN, for as long as it has sent nothing else.
    opens_with: Option<u32>,
    /// The last segment was a reset that counts.
    reset: bool,
    /// There was a reset from outside that does not.
    doubtful_reset: bool,
}

impl Tcp {
    /// The state after a segment.
    #[must_use]
    pub fn after(mut self, way: Way, segment: Segment) -> Self {
        if segment.flags & RST != 0 {
            self.hear_reset(way, segment);
            return self;
        }
        if segment.flags & SYN != 0 {
            // The host opens anew: it has taken the reset.
            let takes_reset = way == Way::Out && self.doubtful_reset;
            if self.closing || self.reset || takes_reset {
                self = Self::default();
            }
            let is_first = way == Way::Out && !self.established;
            self.opens_with = is_first.then_some(segment.sequence).or(self.opens_with);
            self.heard[way as usize] = true;
            return self;
        }
        if way == Way::Out {
            self.opens_with = None;
        }
        self.reset = false;
        self.heard[way as usize] = true;
        self.established |= self.heard == [true; 2];
        if segment.flags & FIN != 0 {
            self.hear_fin(way, segment);
        }
        self
    }

    fn hear_reset(&mut self, way: Way, segment: Segment) {
        let is_expected =
            |fin: Fin| segment.acknowledges(fin) || segment.sequence == fin.acknowledgement;
        match way {
            Way::Out => self.reset = true,
            Way::In if self.fins[Way::Out as usize].is_some_and(is_expected) => self.reset = true,
            Way::In => self.doubtful_reset = true,
        }
    }

    /// Whichever way the second one goes, it tells whether the one from outside is the other end's.
    fn hear_fin(&mut self, way: Way, segment: Segment) {
        self.fins[way as usize] = Some(Fin::of(segment));
        let other = match way {
            Way::Out => Way::In,
            Way::In => Way::Out,
        };
        let fin = self.fins[other as usize];
        self.closing |= fin.is_some_and(|fin| segment.acknowledges(fin));
    }

    /// Whether a segment of the host with this number may be under way. In between its SYN and its FIN
    /// nothing is known of it: its segments pass by rules.
    pub fn can_have_sent(self, sequence: u32) -> bool {
        let fin = self.fins[Way::Out as usize];
        match (self.opens_with, fin) {
            (Some(first), _) => sequence == first,
            (None, Some(fin)) => fin.end.wrapping_sub(sequence) <= LARGEST_WINDOW,
            (None, None) => true,
        }
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
            SYN => self.closing || self.reset || self.doubtful_reset,
            _ => !self.reset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Way::{In, Out};
    use super::*;

    /// A segment of a host that has sent and received up to 100 bytes before it, and is to be
    /// acknowledged up to there.
    const fn segment(flags: u8) -> Segment {
        Segment {
            flags: flags | ACK,
            sequence: 100,
            end: if flags & FIN != 0 { 101 } else { 100 },
            acknowledgement: 100,
        }
    }

    /// The same, which acknowledges a FIN.
    const fn last(flags: u8) -> Segment {
        Segment {
            acknowledgement: 101,
            ..segment(flags)
        }
    }

    /// From somebody who knows no number.
    const fn forged(flags: u8) -> Segment {
        Segment {
            flags: flags | ACK,
            sequence: 77_777,
            end: 77_778,
            acknowledgement: 1,
        }
    }

    fn established(segments: &[(Way, Segment)]) -> bool {
        let state = segments
            .iter()
            .fold(Tcp::default(), |state, &(way, segment)| {
                state.after(way, segment)
            });
        state.is_established()
    }

    /// Behind a segment each way.
    fn goes_on(more: &[(Way, Segment)]) -> bool {
        established(&[&[(Out, segment(0)), (In, segment(0))], more].concat())
    }

    #[test]
    fn established_from_the_third_segment_to_the_last_fin() {
        let all = [
            (Out, segment(SYN)),
            (In, segment(SYN)),
            (Out, segment(0)),
            (In, segment(0)),
            (Out, segment(FIN)),
            (In, last(FIN)),
        ];
        let expected = [false, false, true, true, true, false];
        for (count, expected) in (1..).zip(expected) {
            assert_eq!(established(&all[..count]), expected, "{count} segments");
        }
        let both_open = [(In, segment(SYN)), (Out, segment(SYN)), (In, segment(0))];
        assert!(established(&both_open));
        assert!(goes_on(&[]), "picked up");
        assert!(!goes_on(&[(In, segment(FIN)), (Out, last(FIN))]));
    }

    #[test]
    fn a_reset_of_the_host_counts_unless_it_goes_on() {
        assert!(!goes_on(&[(Out, segment(RST))]));
        assert!(goes_on(&[(Out, segment(RST)), (In, segment(0))]));
        let closed = [(Out, segment(FIN)), (In, last(FIN)), (In, last(RST))];
        assert!(!goes_on(&[&closed[..], &[(Out, segment(0))]].concat()));
    }

    #[test]
    fn what_anybody_may_send_from_outside_does_not() {
        assert!(goes_on(&[(In, segment(RST))]), "nobody can tell");
        assert!(goes_on(&[(In, forged(RST)), (In, forged(SYN))]));
        for fin in [forged(FIN), segment(FIN)] {
            assert!(goes_on(&[(In, fin)]), "half closed at most");
        }
        let half_closed = (Out, segment(FIN));
        for forged in [forged(FIN), forged(RST)] {
            assert!(goes_on(&[half_closed, (In, forged)]));
            assert!(goes_on(&[(In, forged), half_closed]));
        }
        let exact = Segment {
            flags: RST,
            ..segment(0)
        };
        for reset in [last(RST), exact] {
            assert!(!goes_on(&[half_closed, (In, reset)]), "the other end's");
        }
    }

    #[test]
    fn a_host_that_has_taken_a_reset_opens_anew() {
        let again = [(In, segment(RST)), (Out, segment(SYN))];
        assert!(!goes_on(&again));
        let answered = [(In, segment(SYN)), (Out, segment(0))];
        assert!(goes_on(&[&again[..], &answered].concat()));
    }
}
