//! Flows over IPv4 in lines: each line holds all that a hit asks for.
//!
//! | word | bits from the top |
//! |---|---|
//! | 0 | source address 32, destination address 32 |
//! | 1 | as in the key: ports 32, protocol 8, zero 8, direction 8, shape 8 |
//! | 2 | new source address 32, new destination address 32 |
//! | 3 | new ports 32, changes of the checksums of the IP header and of the transport's 32 |
//! | 4 | sequence number of the last TCP segment 32, choice 32 |
//! | 7 | acknowledgement number of the last TCP segment 32, as of [all](super::line) |

use super::line::{FlowOfLine, Line, decrements, is_used, tells};
use crate::action::{self, ActionWords, macs_in};
use crate::headers::{Macs, NewHeaders, changes_in};
use crate::key::{self, KeyWords, MatchKey};
use crate::progress::TcpProgress;
use twinpath_core::wire::layout::{Plain, PlainEnds};
use twinpath_core::wire::protocol;
use twinpath_core::{Direction, HashKey};

/// The half of a word without the number of a TCP segment.
const LOWER: u64 = u32::MAX as u64;

/// A TCP or UDP flow over IPv4 as it goes one way through the chain: what rules of one flow are found
/// by.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LineKey {
    addresses: u64,
    rest: u64,
    /// TCP flags.
    flags: u8,
}

impl LineKey {
    /// The same as [`MatchKey::of_plain`] says, made at once.
    #[inline(always)]
    pub fn of_plain(frame: &[u8], (plain, ends): (Plain, PlainEnds), direction: Direction) -> Self {
        Self {
            flags: plain.tcp_flags(frame),
            ..Self::of_ends(ends, plain.protocol(), direction)
        }
    }

    /// The same, but for TCP flags, of a packet with these ends: enough to tell where its rule is.
    #[inline(always)]
    pub const fn of_ends(ends: PlainEnds, protocol: u8, direction: Direction) -> Self {
        Self {
            addresses: ends.addresses,
            rest: key::rest_of_a_flow(ends.ports, protocol, direction),
            flags: 0,
        }
    }
}

impl FlowOfLine for LineKey {
    const REST: usize = 1;

    const LINES_PER_RULE: usize = 4;

    #[inline(always)]
    fn of(words: &KeyWords) -> Option<Self> {
        // The shape of such packets is zero.
        match words[4] as u8 {
            0 => Some(Self {
                addresses: words[1] << 32 | words[3] & 0xffff_ffff,
                rest: words[4] & MatchKey::EXACT.0[4],
                flags: key::tcp_flags_of(words[4]),
            }),
            _ => None,
        }
    }

    #[inline(always)]
    fn flags(self) -> u8 {
        self.flags
    }

    fn in_line(line: &Line) -> Self {
        Self {
            addresses: line[0],
            rest: line[1],
            flags: 0,
        }
    }

    #[inline(always)]
    fn is_in(self, line: &Line) -> bool {
        (line[0] ^ self.addresses) | (line[1] ^ self.rest) == 0
    }

    #[inline(always)]
    fn hash(self, under: &HashKey) -> u64 {
        under.hash([self.addresses, self.rest])
    }

    fn line(self, action: &ActionWords, choice: u32) -> Line {
        let headers = action[4] >> 32 << 32 | action[0];
        let choice = u64::from(choice);
        [
            self.addresses,
            self.rest,
            action[2],
            headers,
            choice,
            0,
            0,
            0,
        ]
    }

    #[inline(always)]
    fn choice(line: &Line) -> u32 {
        line[4] as u32
    }

    fn macs(action: &ActionWords) -> Macs {
        macs_in(action)
    }

    fn takes(action: &ActionWords) -> bool {
        action::is_settled(action)
    }

    fn progress(line: &Line) -> Option<TcpProgress> {
        let is_tcp = key::protocol_of_rest(line[1]) == protocol::TCP;
        (is_tcp && tells(line) && is_used(line)).then(|| TcpProgress {
            sequence: (line[4] >> 32) as u32,
            acknowledgement: (line[7] >> 32) as u32,
        })
    }
}

/// Keeps the numbers of a TCP segment.
#[inline(always)]
pub(super) fn note(line: &mut Line, progress: TcpProgress) {
    line[4] = line[4] & LOWER | u64::from(progress.sequence) << 32;
    line[7] = line[7] & LOWER | u64::from(progress.acknowledgement) << 32;
}

/// The headers that a line's rule makes.
#[inline(always)]
pub(crate) const fn new_headers(line: &Line) -> NewHeaders {
    NewHeaders {
        addresses: line[2],
        ports: (line[3] >> 32) as u32,
        decrements: decrements(line),
        changes: changes_in(line[3]),
    }
}
