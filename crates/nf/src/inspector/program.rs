//! What the inspector does on the fast path.
//!
//! A packet passes if the workers would let it pass and keep nothing of it but its length: it has no
//! payload; as much of its direction as is to be inspected has been; or all of it is seen in the
//! window, it is the next of its stream, and nothing begins in it that a rule looks for.

use super::config::Config;
use super::gate::{Gate, GateOutcome};
use super::state::{
    BANNED, CLOSED, CONFIRMED, DATAGRAMS, FLAGS, LAST_SEEN, NEXT, START, STREAMING, WORDS,
    banned_by, done, finished, missing, picked_up, tracked,
};
use std::sync::Arc;
use twinpath_core::program::{
    Comparison, Condition, Exit, FastProgram, Field, Operand, Operation, Step, WINDOW_BYTES,
    WindowMatcher, compute, set,
};
use twinpath_core::wire::protocol;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_core::{Direction, DropReason};

/// A full match; above it stands the rule as among the flags of a flow that it bans.
const FULL: u32 = 2;

impl WindowMatcher for Gate {
    fn inspect(&self, window: &[u8]) -> u32 {
        match Gate::inspect(self, window) {
            GateOutcome::None => 0,
            GateOutcome::Partial => 1,
            GateOutcome::Full(item) => FULL | banned_by(self.rule_of(item)),
        }
    }

    fn ternary_entries(&self) -> usize {
        self.tcam_entries()
    }
}

/// Neither banned, nor is anything half seen, missing or unknown, nor is the flow half-open.
const STREAM: u32 = BANNED
    | STREAMING
    | CLOSED
    | CONFIRMED
    | DATAGRAMS
    | missing(Direction::Original)
    | missing(Direction::Reply)
    | picked_up(Direction::Original)
    | picked_up(Direction::Reply);

/// A connection of which nothing is to be said; `more` flags are set of those in `mask`.
fn stream(mask: u32, more: u32) -> Condition {
    flags(STREAM | mask, CONFIRMED | more)
}

/// Not banned, and datagrams.
fn datagrams(mask: u32) -> Condition {
    flags(BANNED | DATAGRAMS | mask, DATAGRAMS | mask)
}

/// The program for a gate.
///
/// With `knows_beginnings` the first bytes of each stream are for the workers, whatever they are.
pub(super) fn program(config: &Config, gate: Arc<Gate>, knows_beginnings: bool) -> FastProgram {
    let (fresh, known) = (
        fresh(config.stream_timeout.ticks()),
        fresh(config.datagram_timeout.ticks()),
    );
    let mut steps = vec![
        banned(config.ban_timeout.ticks()),
        pass(
            "nothing to inspect",
            vec![is(payload(), 0), flags(u32::MAX, 0)],
        ),
        stay(
            "nothing to inspect of a stream",
            vec![is(payload(), 0), stream(0, 0), fresh],
        ),
    ];
    for way in Direction::BOTH {
        steps.extend([
            stay(
                "all that is to be inspected has been",
                vec![goes(way), stream(done(way), done(way)), fresh],
            ),
            stay(
                "all that is to be inspected of datagrams has been",
                vec![goes(way), datagrams(done(way)), known],
            ),
            nothing_seen(way, config, fresh, knows_beginnings),
            ban(way, config, fresh),
        ]);
    }
    steps.extend([
        pass(
            "datagram with nothing to be seen",
            datagram(flags(u32::MAX, 0)).to_vec(),
        ),
        pass(
            "datagram with nothing to be seen, of a known flow",
            datagram(datagrams(0)).into_iter().chain([known]).collect(),
        ),
    ]);
    FastProgram {
        name: super::NAME.into(),
        words: WORDS.to_vec(),
        steps,
        always_complex: vec![vec![opens_or_ends()]],
        window: Some(gate),
        guarantees: config.guarantees(),
        ..FastProgram::default()
    }
}

const fn word(index: usize) -> Operand {
    Operand::Word(index as u8)
}

const NOW: Operand = Operand::Field(Field::NowTicks);

const fn payload() -> Operand {
    Operand::Field(Field::PayloadLength)
}

fn is(operand: Operand, value: u32) -> Condition {
    Condition::of(operand, Comparison::Equal, Operand::Constant(value))
}

fn at_most(operand: Operand, value: u32) -> Condition {
    Condition::of(operand, Comparison::AtMost, Operand::Constant(value))
}

fn flags(mask: u32, equal: u32) -> Condition {
    Condition::bits(word(FLAGS), mask, equal)
}

fn fresh(timeout_ticks: u32) -> Condition {
    Condition::difference(NOW, word(LAST_SEEN), Comparison::AtMost, timeout_ticks)
}

fn goes(way: Direction) -> Condition {
    is(Operand::Field(Field::Direction), way as u32)
}

fn pass(name: &'static str, when: Vec<Condition>) -> Step {
    Step {
        name,
        when,
        then: Vec::new(),
        exit: Exit::Continue,
    }
}

fn opens_or_ends() -> Condition {
    Condition {
        a: Operand::Field(Field::TcpFlags),
        b: Operand::Constant(0),
        mask: u32::from(SYN | FIN | RST),
        comparison: Comparison::NotEqual,
        with: Operand::Constant(0),
    }
}

fn banned(timeout_ticks: u32) -> Step {
    Step {
        name: "banned flow",
        when: vec![flags(BANNED, BANNED), fresh(timeout_ticks)],
        then: vec![set(word(LAST_SEEN), NOW)],
        exit: Exit::Drop(DropReason::Banned),
    }
}

/// A packet of a flow that is known passes.
fn stay(name: &'static str, when: Vec<Condition>) -> Step {
    Step {
        then: vec![set(word(LAST_SEEN), NOW)],
        ..pass(name, when)
    }
}

/// The packet's first bytes are its stream's next, and to be inspected.
fn is_next(way: Direction, config: &Config, fresh: Condition) -> [Condition; 6] {
    let (next, ack) = (word(NEXT + way.index()), u32::from(ACK));
    let deepest = config.depth.bytes().saturating_sub(WINDOW_BYTES as u32);
    [
        goes(way),
        Condition::difference(
            Operand::Field(Field::TcpSequence),
            next,
            Comparison::Equal,
            0,
        ),
        Condition::bits(Operand::Field(Field::TcpFlags), ack, ack),
        // Data behind a FIN says that it was none, which the workers note.
        stream(tracked(way) | done(way) | finished(way), tracked(way)),
        Condition::difference(next, word(START + way.index()), Comparison::Less, deepest),
        fresh,
    ]
}

fn nothing_seen(way: Direction, config: &Config, fresh: Condition, knows_beginnings: bool) -> Step {
    let seen = [
        is(Operand::Field(Field::WindowMatch), 0),
        at_most(payload(), WINDOW_BYTES as u32),
    ];
    let [next, start] = [NEXT, START].map(|first| word(first + way.index()));
    let is_behind = Condition::difference(next, start, Comparison::NotEqual, 0);
    Step {
        name: "nothing begins in the window",
        when: seen
            .into_iter()
            .chain(is_next(way, config, fresh))
            .chain(knows_beginnings.then_some(is_behind))
            .collect(),
        then: vec![
            compute(next, Operation::Add, next, payload()),
            set(word(LAST_SEEN), NOW),
        ],
        exit: Exit::Continue,
    }
}

fn ban(way: Direction, config: &Config, fresh: Condition) -> Step {
    let seen = Operand::Field(Field::WindowMatch);
    Step {
        name: "full match in the window",
        when: std::iter::once(Condition::bits(seen, FULL, FULL))
            .chain(is_next(way, config, fresh))
            .collect(),
        then: vec![
            compute(
                word(FLAGS),
                Operation::Add,
                seen,
                Operand::Constant((BANNED | CONFIRMED) - FULL),
            ),
            set(word(LAST_SEEN), NOW),
        ],
        exit: Exit::Drop(DropReason::Banned),
    }
}

fn datagram(known: Condition) -> [Condition; 4] {
    let tcp = Operand::Constant(u32::from(protocol::TCP));
    [
        Condition::of(Operand::Field(Field::Protocol), Comparison::NotEqual, tcp),
        is(Operand::Field(Field::WindowMatch), 0),
        at_most(payload(), WINDOW_BYTES as u32),
        known,
    ]
}
