//! Flows over IPv6 in lines: a packet that is only counted asks for nothing else, and one that is
//! rewritten for the [action](crate::slots) besides.
//!
//! | word | bits from the top |
//! |---|---|
//! | 0 to 3 | source address, destination address |
//! | 4 | as in the key: ports 32, protocol 8, zero 8, direction 8, shape 8 |
//! | 7 | choice 32, as of [all](super::line) |

use super::line::{FlowOfLine, Line};
use crate::action::ActionWords;
use crate::headers::Macs;
use crate::key::{self, KeyWords, MatchKey};
use crate::progress::TcpProgress;
use twinpath_core::HashKey;

/// A TCP or UDP flow over IPv6 as it goes one way through the chain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineKeyV6 {
    words: [u64; 5],
    /// TCP flags.
    flags: u8,
}

impl FlowOfLine for LineKeyV6 {
    const REST: usize = 4;

    /// Few services have as many flows over IPv6 as rules, and each line takes as much memory.
    const LINES_PER_RULE: usize = 2;

    #[inline(always)]
    fn of(words: &KeyWords) -> Option<Self> {
        let [a, b, c, d, rest, _] = *words;
        key::is_flow_over_v6(rest).then(|| Self {
            words: [a, b, c, d, rest & MatchKey::EXACT.0[4]],
            flags: key::tcp_flags_of(rest),
        })
    }

    #[inline(always)]
    fn flags(self) -> u8 {
        self.flags
    }

    fn in_line(line: &Line) -> Self {
        let [a, b, c, d, rest, ..] = *line;
        let words = [a, b, c, d, rest];
        Self { words, flags: 0 }
    }

    #[inline(always)]
    fn is_in(self, line: &Line) -> bool {
        let different = (0..5).fold(0, |bits, word| bits | (line[word] ^ self.words[word]));
        different == 0
    }

    #[inline(always)]
    fn hash(self, under: &HashKey) -> u64 {
        under.hash(self.words)
    }

    fn line(self, _: &ActionWords, choice: u32) -> Line {
        let [a, b, c, d, rest] = self.words;
        [a, b, c, d, rest, 0, 0, u64::from(choice) << 32]
    }

    #[inline(always)]
    fn choice(line: &Line) -> u32 {
        (line[7] >> 32) as u32
    }

    /// They lie with the action.
    fn macs(_: &ActionWords) -> Macs {
        Macs::default()
    }

    fn takes(_: &ActionWords) -> bool {
        true
    }

    /// They lie with the action.
    fn progress(_: &Line) -> Option<TcpProgress> {
        None
    }
}
