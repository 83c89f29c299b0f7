//! What is known of a TCP connection: enough to tell which time-out it has.
//!
//! Neither a reset nor a FIN from outside is taken at its word: whoever is off the path can send one. But
//! what the host inside sends is its own, and cached rules tell the numbers of the last segment that they
//! translated. So there are numbers that nobody off the path knows.
//!
//! An ICMP error that quotes a segment of the host is asked for its number (RFC 5927 §4.1): it lies no farther
//! from that of the host's last segment than the largest window that the other end can grant, in front of the
//! host's FIN, and is that of its SYN while it has sent nothing else.
//!
//! - A reset of the host makes a connection transitory, and the next segment that is none makes it what
//!   it was before (RFC 7857 §2.2, RFC 6146 §3.5.2.2).
//! - So does a reset from outside with the number that the host expects, which is what it has acknowledged
//!   last (RFC 5961 §3.2), or behind the host's FIN one that acknowledges the FIN. Another shortens nothing.
//! - A FIN from outside counts when the host has sent its own, and one acknowledges the other, or the host
//!   acknowledges that from outside later.

use crate::firewall::window_scale;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_core::{Instant, Packet};
use twinpath_rulecache::TcpProgress;

/// Which way a packet goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum NatDirection {
    /// From the host inside that has the session.
    Out = 0,
    /// To it.
    In = 1,
}

/// What counts of a segment. Of one without SYN, FIN and RST numbers count only where the host has sent it:
/// what a rule that handles others tells.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub flags: u8,
    pub sequence: u32,
    /// The sequence number behind it.
    pub end: u32,
    pub acknowledgement: u32,
    /// Of a SYN the shift of its sender's windows.
    pub shift: u8,
}

impl Segment {
    /// One without SYN, FIN and RST.
    pub fn plain(flags: u8, progress: TcpProgress) -> Self {
        Self {
            flags,
            sequence: progress.sequence,
            acknowledgement: progress.acknowledgement,
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
            shift: window_scale(packet).unwrap_or(0),
        }
    }

    /// Whether it acknowledges all that an end has sent with its FIN.
    const fn acknowledges(self, fin: Fin) -> bool {
        self.flags & ACK != 0 && self.acknowledgement == fin.end
    }
}

/// Most bytes that are under way (RFC 7323 §2.3).
const LARGEST_WINDOW: u32 = 1 << 30;
/// The largest window without a shift.
const UNSHIFTED: u32 = 0xffff;

/// What the host's last segment without SYN, FIN and RST said, and when it came.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct LastSegment {
    at: Instant,
    progress: TcpProgress,
}

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
    /// What the host has said last, by segments that rules handled too.
    told: Option<LastSegment>,
    /// That of the other end's windows.
    shift: Option<u8>,
}

impl Tcp {
    /// The state after a segment that came at `now`.
    #[must_use]
    pub fn after(self, way: NatDirection, segment: Segment, now: Instant) -> Self {
        let mut after = self.after_flags(way, segment);
        if way == NatDirection::Out && segment.flags & (SYN | FIN | RST) == 0 {
            let progress = TcpProgress {
                sequence: segment.sequence,
                acknowledgement: segment.acknowledgement,
            };
            after.hear(progress, now);
        }
        after
    }

    /// The host has said so by then, in a segment that a rule may have handled.
    pub fn hear(&mut self, progress: TcpProgress, at: Instant) {
        if self.told.is_none_or(|before| before.at <= at) {
            self.told = Some(LastSegment { at, progress });
        }
    }

    /// Whether this is the same as another, but for what rules tell.
    pub fn agrees_with(self, other: Self) -> bool {
        let told = None;
        Self { told, ..self } == Self { told, ..other }
    }

    fn after_flags(mut self, way: NatDirection, segment: Segment) -> Self {
        if segment.flags & RST != 0 {
            self.hear_reset(way, segment);
            return self;
        }
        if segment.flags & SYN != 0 {
            // The host opens anew: it has taken the reset.
            let takes_reset = way == NatDirection::Out && self.doubtful_reset;
            if self.is_closing() || self.reset || takes_reset {
                self = Self::default();
            }
            if way == NatDirection::In && self.is_first_from_outside(segment) {
                self.shift = Some(segment.shift);
            }
            let is_first = way == NatDirection::Out && !self.established;
            self.opens_with = is_first.then_some(segment.sequence).or(self.opens_with);
            self.heard[way as usize] = true;
            return self;
        }
        if way == NatDirection::Out {
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

    /// Whether a SYN from outside answers that of the host, or comes before it has sent anything.
    fn is_first_from_outside(&self, segment: Segment) -> bool {
        let acknowledged = segment.acknowledgement.wrapping_sub(1);
        match segment.flags & ACK {
            0 => !self.heard[NatDirection::Out as usize],
            _ => self.opens_with == Some(acknowledged),
        }
    }

    /// Whether a reset counts.
    fn believes(self, way: NatDirection, reset: Segment) -> bool {
        let fin = self.fins[NatDirection::Out as usize];
        let last = self.told.map(|told| told.progress.acknowledgement);
        let acknowledged = [last, fin.map(|fin| fin.acknowledgement)];
        way == NatDirection::Out
            || acknowledged.contains(&Some(reset.sequence))
            || fin.is_some_and(|fin| reset.acknowledges(fin))
    }

    fn hear_reset(&mut self, way: NatDirection, segment: Segment) {
        match self.believes(way, segment) {
            true => self.reset = true,
            false => self.doubtful_reset = true,
        }
    }

    /// Whichever way the second one goes, it tells whether the one from outside is the other end's.
    fn hear_fin(&mut self, way: NatDirection, segment: Segment) {
        self.fins[way as usize] = Some(Fin::of(segment));
        let other = match way {
            NatDirection::Out => NatDirection::In,
            NatDirection::In => NatDirection::Out,
        };
        let fin = self.fins[other as usize];
        self.closing |= fin.is_some_and(|fin| segment.acknowledges(fin));
    }

    /// Whether a segment of the host with this number may be under way.
    pub fn can_have_sent(self, sequence: u32) -> bool {
        let window = self.window();
        if let Some(first) = self.opens_with {
            return sequence == first;
        }
        if let Some(fin) = self.fins[NatDirection::Out as usize] {
            return fin.end.wrapping_sub(sequence) <= window;
        }
        let Some(LastSegment { progress, .. }) = self.told else {
            return false;
        };
        let farthest = progress.sequence.wrapping_sub(window);
        // The last one may have been sent again, and be the oldest of those that are under way.
        sequence.wrapping_sub(farthest) <= 2 * window
    }

    /// Whether that depends on segments that rules may have handled.
    pub fn depends_on_last_segment(self) -> bool {
        self.opens_with.is_none() && self.fins[NatDirection::Out as usize].is_none()
    }

    /// The largest window that the other end can grant.
    fn window(self) -> u32 {
        let shifted = |shift: u8| UNSHIFTED << shift;
        self.shift.map_or(LARGEST_WINDOW, shifted)
    }

    /// Whether one end alone has been heard.
    pub const fn is_half_open(self) -> bool {
        self.heard[NatDirection::Out as usize] != self.heard[NatDirection::In as usize]
    }

    /// Whether both ends may send.
    pub fn is_established(self) -> bool {
        self.established && !self.is_closing() && !self.reset
    }

    /// Whether the host's FIN and that from outside are known to be of one connection.
    fn is_closing(self) -> bool {
        let [Some(_), Some(fin)] = self.fins else {
            return false;
        };
        let acknowledges = |told: LastSegment| told.progress.acknowledgement == fin.end;
        self.closing || self.told.is_some_and(acknowledges)
    }

    /// Whether both ends have sent FIN.
    fn has_both_fins(self) -> bool {
        self.fins.iter().all(Option::is_some)
    }

    /// Whether what becomes of a segment with these flags depends on what rules tell of the last segments:
    /// a reset from outside is held against that.
    pub fn asks_for_last_segment(self, way: NatDirection, flags: u8) -> bool {
        way == NatDirection::In && flags & RST != 0 && !self.reset
    }

    /// Whether segments without flags, which have changed nothing so far, do so after this one: they
    /// must not pass by rules then. A reset from outside that does not count changes nothing for them.
    pub fn is_undone_by(self, way: NatDirection, segment: Segment) -> bool {
        match segment.flags & (SYN | RST) {
            0 => false,
            SYN => {
                let takes_reset = way == NatDirection::Out && self.doubtful_reset;
                self.has_both_fins() || self.reset || takes_reset
            }
            _ => !self.reset && self.believes(way, segment),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NatDirection::{In, Out};
    use super::*;

    /// A segment of a host that has sent and received up to 100 bytes before it, and is to be
    /// acknowledged up to there.
    const fn segment(flags: u8) -> Segment {
        Segment {
            flags: flags | ACK,
            sequence: 100,
            end: if flags & FIN != 0 { 101 } else { 100 },
            acknowledgement: 100,
            shift: 0,
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
            shift: 0,
        }
    }

    fn established(segments: &[(NatDirection, Segment)]) -> bool {
        let state = segments
            .iter()
            .fold(Tcp::default(), |state, &(way, segment)| {
                state.after(way, segment, Instant(0))
            });
        state.is_established()
    }

    /// Behind a segment each way.
    fn goes_on(more: &[(NatDirection, Segment)]) -> bool {
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
        for number in [99, 101] {
            let near = Segment {
                sequence: number,
                ..segment(RST)
            };
            assert!(goes_on(&[(In, near)]), "another number");
        }
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
    fn a_reset_from_outside_with_the_number_that_the_host_expects_counts() {
        assert!(!goes_on(&[(In, segment(RST))]));
        assert!(goes_on(&[(In, segment(RST)), (In, segment(0))]), "goes on");
        let data = Segment {
            acknowledgement: 150,
            ..segment(0)
        };
        assert!(goes_on(&[(Out, data), (In, segment(RST))]), "no longer");
        let next = Segment {
            sequence: 150,
            ..segment(RST)
        };
        assert!(!goes_on(&[(Out, data), (In, next)]));
    }

    #[test]
    fn fins_that_cross_count_once_the_host_acknowledges() {
        let crossed = [(Out, segment(FIN)), (In, segment(FIN))];
        assert!(goes_on(&crossed));
        assert!(!goes_on(&[&crossed[..], &[(Out, last(0))]].concat()));
    }

    #[test]
    fn a_quoted_segment_is_near_the_hosts_last_one() {
        let syn = |shift| Segment { shift, ..last(SYN) };
        for (shift, window) in [
            (None, LARGEST_WINDOW),
            (Some(0), 0xffff),
            (Some(7), 0xffff << 7),
        ] {
            let mut tcp = Tcp::default();
            if let Some(shift) = shift {
                tcp = tcp.after(Out, segment(SYN), Instant(0));
                assert!(tcp.can_have_sent(100) && !tcp.can_have_sent(101));
                // Somebody else's.
                tcp = tcp.after(
                    In,
                    Segment {
                        acknowledgement: 9,
                        ..syn(14)
                    },
                    Instant(0),
                );
                tcp = tcp.after(In, syn(shift), Instant(0));
            }
            assert!(!Tcp::default().can_have_sent(100), "it has sent nothing");
            tcp = tcp.after(Out, segment(0), Instant(0));
            for (distance, expected) in [(0, true), (window, true), (window + 1, false)] {
                for number in [100u32.wrapping_add(distance), 100u32.wrapping_sub(distance)] {
                    assert_eq!(tcp.can_have_sent(number), expected, "{shift:?} {distance}");
                }
            }
            tcp.hear(
                TcpProgress {
                    sequence: 1 << 31,
                    acknowledgement: 100,
                },
                Instant(1),
            );
            assert!(tcp.can_have_sent(1 << 31) && !tcp.can_have_sent(100));
            tcp.hear(
                TcpProgress {
                    sequence: 100,
                    acknowledgement: 100,
                },
                Instant(0),
            );
            assert!(!tcp.can_have_sent(100), "an older one");
        }
    }

    #[test]
    fn a_host_that_has_taken_a_reset_opens_anew() {
        let again = [(In, forged(RST)), (Out, segment(SYN))];
        assert!(!goes_on(&again));
        let answered = [(In, segment(SYN)), (Out, segment(0))];
        assert!(goes_on(&[&again[..], &answered].concat()));
    }
}
