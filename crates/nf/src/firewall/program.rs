//! What the firewall does on the fast path.
//!
//! Data and acknowledgements of an established connection that lie in its windows and leave no gap,
//! unless a FIN came behind one, and packets of pseudo-connections. The program's bounds are those of [`super::window`], except that an
//! acknowledgement may be no further behind than 66,000 bytes: one that lags more is rare and goes
//! to the slow path, which allows more where the windows are large.

use twinpath_core::guarantee::Guarantee;
use twinpath_core::program::{
    Action, Comparison, Condition, Exit, FastProgram, Field, Operand, Operation, Step, compute, set,
};
use twinpath_core::wire::protocol;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_core::{Direction, Guarantees};

use super::NAME;
use super::config::Verify;
use super::connection::{
    ACKNOWLEDGED, END, FIN as FIN_BEHIND_A_GAP, GAP, LAST_SEEN, LIMIT, OPENED_BY_REPLY, PHASE_MASK,
    Phase, SCALE_BITS, STATE, TIMEOUT, WINDOW, WORDS,
};
use super::tcp_state::TcpState;
use super::window::MIN_ACKNOWLEDGEMENT_REACH;

/// The sequence number after the segment.
const SEGMENT_END: Operand = Operand::Temporary(0);
const SCRATCH: Operand = Operand::Temporary(1);
const ACKNOWLEDGEMENT: Operand = Operand::Field(Field::TcpAcknowledgement);

/// Segments that it lets pass are what their connection's state allows.
pub(super) const GUARANTEES: Guarantees = Guarantees {
    gives: Some(Guarantee::Checked),
    needs: [None; 2],
};

/// Builds the program; no more of a configuration matters than what is verified.
pub fn program(verify: Verify) -> FastProgram {
    let mut always_complex = vec![
        no_plain_segment(),
        closes_gap(Direction::Original),
        closes_gap(Direction::Reply),
    ];
    if verify.of_all() {
        always_complex.push(vec![is_broken()]);
    }
    FastProgram {
        name: NAME.into(),
        words: WORDS.to_vec(),
        temporaries: 2,
        prologue: vec![compute(
            SEGMENT_END,
            Operation::Add,
            Operand::Field(Field::TcpSequence),
            Operand::Field(Field::SegmentLength),
        )],
        steps: vec![
            established("established, original direction", Direction::Original),
            established("established, reply direction", Direction::Reply),
            Step {
                name: "answered",
                when: vec![in_phase(Phase::Replied), is_fresh()],
                then: vec![stay_fresh()],
                exit: Exit::Continue,
            },
            Step {
                name: "not answered yet",
                when: unanswered(),
                then: vec![stay_fresh()],
                exit: Exit::Continue,
            },
        ],
        always_complex,
        guarantees: GUARANTEES,
        ..FastProgram::default()
    }
}

/// A packet with a wrong checksum, which the workers drop.
fn is_broken() -> Condition {
    Condition::of(
        Operand::Field(Field::ChecksumsHold),
        Comparison::Equal,
        Operand::Constant(0),
    )
}

/// TCP segments that are more, or less, than data or an acknowledgement.
fn no_plain_segment() -> Vec<Condition> {
    let flags = Condition {
        a: Operand::Field(Field::TcpFlags),
        b: Operand::Constant(0),
        mask: (SYN | FIN | RST | ACK).into(),
        comparison: Comparison::NotEqual,
        with: Operand::Constant(ACK.into()),
    };
    vec![
        Condition::of(
            Operand::Field(Field::Protocol),
            Comparison::Equal,
            Operand::Constant(protocol::TCP.into()),
        ),
        flags,
    ]
}

/// All is acknowledged of an end that has left a gap: the workers take note of it.
fn closes_gap(direction: Direction) -> Vec<Condition> {
    let receiver = direction.other().index();
    vec![
        Condition::bits(Operand::Word(STATE), GAP[receiver], GAP[receiver]),
        going(direction),
        Condition::difference(
            Operand::Word(END[receiver]),
            ACKNOWLEDGEMENT,
            Comparison::Equal,
            0,
        ),
    ]
}

fn established(name: &'static str, direction: Direction) -> Step {
    let (sender, receiver) = (direction.index(), direction.other().index());
    Step {
        name,
        when: in_window(direction, sender, receiver),
        then: advance(sender, receiver),
        exit: Exit::Continue,
    }
}

fn in_window(direction: Direction, sender: usize, receiver: usize) -> Vec<Condition> {
    vec![
        going(direction),
        Condition::bits(
            Operand::Word(STATE),
            PHASE_MASK | FIN_BEHIND_A_GAP[0] | FIN_BEHIND_A_GAP[1],
            Phase::Tcp(TcpState::Established).bits(),
        ),
        is_fresh(),
        is_at_most(Operand::Field(Field::TcpSequence), END[sender]),
        is_at_most(SEGMENT_END, LIMIT[sender]),
        behind_by_at_most(SEGMENT_END, END[sender], WINDOW[receiver]),
        is_at_most(ACKNOWLEDGEMENT, END[receiver]),
        Condition::difference(
            Operand::Word(ACKNOWLEDGED[receiver]),
            ACKNOWLEDGEMENT,
            Comparison::SignedAtMost,
            MIN_ACKNOWLEDGEMENT_REACH,
        ),
    ]
}

fn advance(sender: usize, receiver: usize) -> Vec<Action> {
    let [end, window, limit, acknowledged] = [
        END[sender],
        WINDOW[sender],
        LIMIT[receiver],
        ACKNOWLEDGED[receiver],
    ]
    .map(Operand::Word);
    let mut actions = scaled_window(sender);
    actions.extend([
        compute(SCRATCH, Operation::Maximum, SCRATCH, Operand::Constant(1)),
        compute(window, Operation::Maximum, window, SCRATCH),
        compute(SCRATCH, Operation::Add, SCRATCH, ACKNOWLEDGEMENT),
        compute(limit, Operation::Later, limit, SCRATCH),
        compute(
            acknowledged,
            Operation::Later,
            acknowledged,
            ACKNOWLEDGEMENT,
        ),
        compute(end, Operation::Later, end, SEGMENT_END),
        stay_fresh(),
    ]);
    actions
}

/// The scale stands in the state word's lowest bits, or is shifted there: a shift takes no others.
fn scaled_window(sender: usize) -> Vec<Action> {
    let window = Operand::Field(Field::TcpWindow);
    match sender {
        0 => vec![compute(
            SCRATCH,
            Operation::ShiftLeft,
            window,
            Operand::Word(STATE),
        )],
        _ => vec![
            compute(
                SCRATCH,
                Operation::ShiftRight,
                Operand::Word(STATE),
                Operand::Constant(SCALE_BITS),
            ),
            compute(SCRATCH, Operation::ShiftLeft, window, SCRATCH),
        ],
    }
}

/// Only the opener was heard so far, and it is the opener again. Where the connection was opened
/// in reply direction the workers do this.
fn unanswered() -> Vec<Condition> {
    let phase = Condition::bits(
        Operand::Word(STATE),
        PHASE_MASK | OPENED_BY_REPLY,
        Phase::Unreplied.bits(),
    );
    vec![going(Direction::Original), phase, is_fresh()]
}

fn going(direction: Direction) -> Condition {
    Condition::of(
        Operand::Field(Field::Direction),
        Comparison::Equal,
        Operand::Constant(direction as u32),
    )
}

fn in_phase(phase: Phase) -> Condition {
    Condition::bits(Operand::Word(STATE), PHASE_MASK, phase.bits())
}

/// The idle time-out has not passed.
fn is_fresh() -> Condition {
    Condition {
        a: Operand::Field(Field::NowTicks),
        b: Operand::Word(LAST_SEEN),
        mask: u32::MAX,
        comparison: Comparison::SignedAtMost,
        with: Operand::Word(TIMEOUT),
    }
}

fn stay_fresh() -> Action {
    set(Operand::Word(LAST_SEEN), Operand::Field(Field::NowTicks))
}

/// `number` is at most the number in a word.
fn is_at_most(number: Operand, word: u8) -> Condition {
    Condition::difference(Operand::Word(word), number, Comparison::SignedAtLeast, 0)
}

/// `number` lies before the number in one word by at most what another holds.
fn behind_by_at_most(number: Operand, word: u8, reach: u8) -> Condition {
    Condition {
        a: Operand::Word(word),
        b: number,
        mask: u32::MAX,
        comparison: Comparison::SignedAtMost,
        with: Operand::Word(reach),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_fastpath::{Budget, BudgetError};

    #[test]
    fn software_runs_it_and_a_switch_asic_cannot() {
        let placement = Budget::software()
            .place(&[program(Verify::State)], 1)
            .expect("within the limits");
        assert_eq!(placement.words, 11);
        let refusal = Budget::asic()
            .place(&[program(Verify::State)], 1)
            .expect_err("windows take too many words");
        assert!(
            matches!(refusal, BudgetError::Words { have: 11, .. }),
            "{refusal}"
        );
    }

    #[test]
    fn without_a_connection_everything_is_complex() {
        for step in program(Verify::State).steps {
            let on_state = step
                .when
                .iter()
                .filter(|condition| condition.a == Operand::Word(STATE));
            assert!(
                on_state.clone().count() == 1
                    && on_state
                        .clone()
                        .all(|condition| condition.with != Operand::Constant(0))
            );
        }
    }
}
