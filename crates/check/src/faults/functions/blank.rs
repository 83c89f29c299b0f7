//! Functions beside the ledger that do nothing: to see that chains keep words apart.

use super::ledger::WORDS;
use twinpath_core::program::{FastProgram, Word};
use twinpath_core::{Instant, Packet};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};

/// A function that shifts the ledger's words and does nothing else: its own stay zero.
#[derive(Copy, Clone)]
pub struct Blank {
    words: usize,
}

/// Words of a blank in front of the ledger, and behind it.
const BLANK_IN_FRONT: usize = 2;
const BLANK_BEHIND: usize = 1;

impl Blank {
    /// The one that stands in front.
    pub const IN_FRONT: Self = Self {
        words: BLANK_IN_FRONT,
    };
    /// The one that stands behind.
    pub const BEHIND: Self = Self {
        words: BLANK_BEHIND,
    };
}

/// How many words come before the ledger's, which the number of all tells.
pub fn places_in_front(words: usize) -> Option<usize> {
    match words {
        WORDS => Some(0),
        _ if words == WORDS + BLANK_BEHIND => Some(0),
        _ if words == WORDS + BLANK_IN_FRONT => Some(BLANK_IN_FRONT),
        _ => None,
    }
}

impl NetworkFunction for Blank {
    fn name(&self) -> &'static str {
        "blank"
    }

    fn program(&self) -> FastProgram {
        let (name, meaning) = ("blank", "always zero");
        FastProgram {
            name: "blank".into(),
            words: vec![Word { name, meaning }; self.words],
            ..FastProgram::default()
        }
    }

    fn handle(&mut self, packet: Packet, _flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        out.forward(packet);
    }

    fn is_expired(&self, _words: &[u32], _now: Instant) -> bool {
        false
    }

    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}
