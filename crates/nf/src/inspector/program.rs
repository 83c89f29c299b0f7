//! What the inspector does on the fast path.

use super::config::Config;
use super::gate::{Gate, GateOutcome};
use std::sync::Arc;
use twinpath_core::DropReason;
use twinpath_core::program::{
    Comparison, Condition, Exit, FastProgram, Field, Operand, Step, WindowMatcher, Word, set,
};

/// Word 0: what is known of the flow.
pub(super) const VERDICT: usize = 0;
/// Word 1: when it last mattered, in ticks.
pub(super) const LAST_SEEN: usize = 1;
/// In word 0: the flow is banned.
pub(super) const BANNED: u32 = 1;
/// In word 0: an occurrence may be half seen; the workers hold the stream's state.
pub(super) const STREAMING: u32 = 2;

const WORDS: [Word; 2] = [
    Word {
        name: "verdict",
        meaning: "1 banned, 2 an occurrence is half seen, 0 nothing",
    },
    Word {
        name: "last_seen",
        meaning: "time of the last packet that mattered, in ticks",
    },
];

impl WindowMatcher for Gate {
    fn inspect(&self, window: &[u8]) -> u32 {
        match Gate::inspect(self, window) {
            GateOutcome::None => 0,
            GateOutcome::Partial => 1,
            GateOutcome::Full(_) => 2,
        }
    }

    fn ternary_entries(&self) -> usize {
        self.tcam_entries()
    }
}

/// The program for a gate.
pub(super) fn program(config: &Config, gate: Arc<Gate>) -> FastProgram {
    FastProgram {
        name: super::NAME.into(),
        words: WORDS.to_vec(),
        steps: vec![clean(), shallow_match(), banned(config.ban_timeout.ticks())],
        window: Some(gate),
        ..FastProgram::default()
    }
}

const fn verdict() -> Operand {
    Operand::Word(VERDICT as u8)
}

const fn last_seen() -> Operand {
    Operand::Word(LAST_SEEN as u8)
}

fn is(operand: Operand, value: u32) -> Condition {
    Condition::of(operand, Comparison::Equal, Operand::Constant(value))
}

fn clean() -> Step {
    Step {
        name: "nothing seen",
        when: vec![is(Operand::Field(Field::WindowMatch), 0), is(verdict(), 0)],
        then: Vec::new(),
        exit: Exit::Continue,
    }
}

fn shallow_match() -> Step {
    Step {
        name: "full match in the window",
        when: vec![is(Operand::Field(Field::WindowMatch), 2), is(verdict(), 0)],
        then: vec![
            set(verdict(), Operand::Constant(BANNED)),
            set(last_seen(), Operand::Field(Field::NowTicks)),
        ],
        exit: Exit::Drop(DropReason::Banned),
    }
}

fn banned(timeout_ticks: u32) -> Step {
    let now = Operand::Field(Field::NowTicks);
    Step {
        name: "banned flow",
        when: vec![
            is(verdict(), BANNED),
            Condition::difference(now, last_seen(), Comparison::AtMost, timeout_ticks),
        ],
        then: vec![set(last_seen(), now)],
        exit: Exit::Drop(DropReason::Banned),
    }
}
