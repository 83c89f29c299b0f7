//! A connection as eleven state words: what the two paths share.

use std::fmt;
use twinpath_core::program::Word;
use twinpath_core::{Direction, Instant};
use twinpath_slowpath::Eviction;

use super::segment::Segment;
use super::tcp_state::{End, SegmentKind, TcpState, Transition, transition};
use super::window::{Half, Windows};

/// The word that holds scales, phase and opener; see [`WORDS`].
pub const STATE: u8 = 0;
/// The word that holds the time of the last packet.
pub const LAST_SEEN: u8 = 1;
/// The word that holds the idle time-out.
pub const TIMEOUT: u8 = 2;
/// The words that hold [`Half::end`], by direction.
pub const END: [u8; 2] = [3, 7];
/// The words that hold [`Half::limit`], by direction.
pub const LIMIT: [u8; 2] = [4, 8];
/// The words that hold [`Half::window`], by direction.
pub const WINDOW: [u8; 2] = [5, 9];
/// The words that hold [`Half::acknowledged`], by direction.
pub const ACKNOWLEDGED: [u8; 2] = [6, 10];

/// Bits of a window scale in the state word: the original direction's are the lowest, the reply
/// direction's are next. A shift takes its amount modulo 32, so that the word itself, or the word
/// shifted by this, is the amount.
pub const SCALE_BITS: u32 = 5;
/// Where the phase begins in the state word.
pub const PHASE_SHIFT: u32 = 2 * SCALE_BITS;
/// The phase's bits in the state word.
pub const PHASE_MASK: u32 = 0xf << PHASE_SHIFT;
/// Set in the state word if the connection was opened in reply direction: the flow is known to
/// other functions, which saw another packet first.
pub const OPENED_BY_REPLY: u32 = 1 << 14;
/// Set in the state word for [`Half::has_gap`], by direction.
pub const GAP: [u32; 2] = [1 << 15, 1 << 16];
/// Set in the state word for [`Half::has_fin`], by direction.
pub const FIN: [u32; 2] = [1 << 17, 1 << 18];

/// Names and meanings of the words.
pub const WORDS: [Word; 11] = [
    Word {
        name: "state",
        meaning: "window scales (bits 0-4 original, 5-9 reply), phase (10-13), opener (14), gaps (15, 16), FINs behind them (17, 18)",
    },
    Word {
        name: "last_seen",
        meaning: "arrival of the last packet that counted, in ticks of 67 ms",
    },
    Word {
        name: "timeout",
        meaning: "how long the connection may be idle in its phase, in ticks",
    },
    Word {
        name: "original_end",
        meaning: "highest sequence number sent in original direction",
    },
    Word {
        name: "original_limit",
        meaning: "highest sequence number that may be sent in original direction",
    },
    Word {
        name: "original_window",
        meaning: "largest window offered in original direction, in bytes",
    },
    Word {
        name: "original_acknowledged",
        meaning: "highest sequence number of original direction that was acknowledged",
    },
    Word {
        name: "reply_end",
        meaning: "highest sequence number sent in reply direction",
    },
    Word {
        name: "reply_limit",
        meaning: "highest sequence number that may be sent in reply direction",
    },
    Word {
        name: "reply_window",
        meaning: "largest window offered in reply direction, in bytes",
    },
    Word {
        name: "reply_acknowledged",
        meaning: "highest sequence number of reply direction that was acknowledged",
    },
];

/// What stage a connection, or what passes for one, is in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A TCP connection.
    Tcp(TcpState),
    /// A pseudo-connection of which only the opener was heard.
    Unreplied,
    /// A pseudo-connection that was answered, whose opener has not gone on since.
    Answered,
    /// A pseudo-connection whose opener has gone on after an answer.
    Replied,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp(state) => state.name(),
            Self::Unreplied => "unreplied",
            Self::Answered => "answered",
            Self::Replied => "replied",
        })
    }
}

impl Phase {
    const ANSWERED: u32 = 13;
    const UNREPLIED: u32 = 14;
    const REPLIED: u32 = 15;

    /// The phase as it stands in the state word.
    pub const fn bits(self) -> u32 {
        let number = match self {
            Self::Tcp(state) => state as u32,
            Self::Answered => Self::ANSWERED,
            Self::Unreplied => Self::UNREPLIED,
            Self::Replied => Self::REPLIED,
        };
        number << PHASE_SHIFT
    }

    /// When a connection in this stage may be forgotten to make room for others.
    pub const fn eviction(self) -> Eviction {
        match self {
            Self::Tcp(state) if state.is_half_open() => Eviction::HalfOpen,
            Self::Tcp(state) if state.is_over() => Eviction::WhenFull,
            Self::Unreplied | Self::Answered => Eviction::HalfOpen,
            Self::Tcp(_) | Self::Replied => Eviction::Never,
        }
    }

    /// Whether the fast program has a step for it.
    pub const fn is_simple(self) -> bool {
        match self {
            Self::Tcp(state) => matches!(state, TcpState::Established),
            Self::Answered => false,
            Self::Unreplied | Self::Replied => true,
        }
    }

    fn from_bits(word: u32) -> Option<Self> {
        match (word & PHASE_MASK) >> PHASE_SHIFT {
            0 => None,
            Self::ANSWERED => Some(Self::Answered),
            Self::UNREPLIED => Some(Self::Unreplied),
            Self::REPLIED => Some(Self::Replied),
            number => TcpState::ALL.get(number as usize).copied().map(Self::Tcp),
        }
    }
}

/// A connection that is known.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its stage.
    pub phase: Phase,
    /// The direction of its first packet.
    pub opener: Direction,
    /// When its last packet came, in ticks.
    pub last_seen: u32,
    /// How long it may be idle, in ticks.
    pub timeout: u32,
    /// TCP's sequence numbers; zeros for other protocols.
    pub windows: Windows,
}

impl Connection {
    /// Reads the words; `None` if nothing is known of the flow.
    pub fn load(words: &[u32]) -> Option<Self> {
        let words: &[u32; WORDS.len()] = words.first_chunk()?;
        let state = words[usize::from(STATE)];
        let phase = Phase::from_bits(state)?;
        let word = |index: u8| words[usize::from(index)];
        let half = |index: usize| Half {
            end: word(END[index]),
            limit: word(LIMIT[index]),
            window: word(WINDOW[index]),
            acknowledged: word(ACKNOWLEDGED[index]),
            has_gap: state & GAP[index] != 0,
            has_fin: state & FIN[index] != 0,
        };
        let scale = |shift: u32| (state >> shift & ((1 << SCALE_BITS) - 1)) as u8;
        Some(Self {
            phase,
            opener: if state & OPENED_BY_REPLY == 0 {
                Direction::Original
            } else {
                Direction::Reply
            },
            last_seen: word(LAST_SEEN),
            timeout: word(TIMEOUT),
            windows: Windows {
                halves: [half(0), half(1)],
                scales: [scale(0), scale(SCALE_BITS)],
            },
        })
    }

    /// Writes the words.
    pub fn store(&self, words: &mut [u32]) {
        let Some(words) = words.first_chunk_mut::<{ WORDS.len() }>() else {
            return;
        };
        let [original, reply] = self.windows.halves;
        *words = [
            self.state_word(),
            self.last_seen,
            self.timeout,
            original.end,
            original.limit,
            original.window,
            original.acknowledged,
            reply.end,
            reply.limit,
            reply.window,
            reply.acknowledged,
        ];
    }

    fn state_word(&self) -> u32 {
        let [original, reply] = self.windows.scales.map(u32::from);
        let opener = if self.opener == Direction::Reply {
            OPENED_BY_REPLY
        } else {
            0
        };
        let marks = |index: usize| {
            let half = &self.windows.halves[index];
            (u32::from(half.has_gap) * GAP[index]) | (u32::from(half.has_fin) * FIN[index])
        };
        original | reply << SCALE_BITS | self.phase.bits() | opener | marks(0) | marks(1)
    }

    /// Whether its idle time-out has passed. Packets that are a little out of order in time do
    /// not expire it.
    pub fn is_expired(&self, now: Instant) -> bool {
        now.ticks_since(self.last_seen) > self.timeout
    }

    /// The end that sends in this direction.
    pub fn sender(&self, direction: Direction) -> End {
        if direction == self.opener {
            End::Opener
        } else {
            End::Responder
        }
    }

    /// TCP's state; none for other protocols.
    pub fn tcp_state(&self) -> TcpState {
        match self.phase {
            Phase::Tcp(state) => state,
            Phase::Unreplied | Phase::Answered | Phase::Replied => TcpState::None,
        }
    }

    /// TCP's state in which a segment comes: a FIN behind a gap counts once the other end
    /// acknowledges it.
    pub fn state_at(&self, segment: &Segment) -> TcpState {
        let (state, direction) = (self.tcp_state(), segment.direction.other());
        let half = &self.windows.halves[direction.index()];
        match transition(state, self.sender(direction), SegmentKind::Fin) {
            Transition::To(next) if half.has_fin && segment.acknowledgement == Some(half.end) => {
                next
            }
            _ => state,
        }
    }

    /// What a segment's flags make of it here: a FIN counts as data where it is not the next of its
    /// end.
    pub fn kind_of(&self, segment: &Segment) -> SegmentKind {
        match segment.kind {
            SegmentKind::Fin if !self.windows.is_next(segment) => SegmentKind::Ack,
            kind => kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn phase() -> impl Strategy<Value = Phase> {
        prop_oneof![
            (1..TcpState::ALL.len()).prop_map(|index| Phase::Tcp(TcpState::ALL[index])),
            Just(Phase::Unreplied),
            Just(Phase::Answered),
            Just(Phase::Replied),
        ]
    }

    proptest! {
        #[test]
        fn what_is_stored_is_loaded(phase in phase(), by_reply: bool, numbers: [u32; 10], scales in [0..=15u8, 0..=15u8], marks: [[bool; 2]; 2]) {
            let [last_seen, timeout, a, b, c, d, e, f, g, h] = numbers;
            let half = |end, limit, window, acknowledged, [has_gap, has_fin]: [bool; 2]| {
                Half { end, limit, window, acknowledged, has_gap, has_fin }
            };
            let halves = [half(a, b, c, d, marks[0]), half(e, f, g, h, marks[1])];
            let opener = if by_reply { Direction::Reply } else { Direction::Original };
            let connection = Connection { phase, opener, last_seen, timeout, windows: Windows { halves, scales } };
            let mut words = [0; WORDS.len()];
            connection.store(&mut words);
            prop_assert!(words[0] != 0, "zero is absence");
            prop_assert_eq!(Connection::load(&words), Some(connection));
        }

        #[test]
        fn expiry_counts_from_the_last_packet(last_seen: u32, timeout in 1..1u32 << 30, idle in 0..1u32 << 30) {
            let connection = Connection {
                phase: Phase::Replied,
                opener: Direction::Original,
                last_seen,
                timeout,
                windows: Windows::default(),
            };
            let now = Instant(u64::from(last_seen.wrapping_add(idle)) << twinpath_core::time::TICK_SHIFT);
            prop_assert_eq!(connection.is_expired(now), idle > timeout);
        }
    }

    #[test]
    fn zero_words_are_no_connection() {
        assert_eq!(Connection::load(&[0; WORDS.len()]), None);
        assert_eq!(Connection::load(&[]), None);
    }
}
