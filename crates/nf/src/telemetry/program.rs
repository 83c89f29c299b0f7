//! What telemetry does on the fast path: it counts.

use super::state::{
    FIRST, FLAGS, KNOWN, LAST, MOST_BYTES, UNIT_SHIFT, WORDS, bytes, flags_at, packets, units_of,
};
use super::{Config, NAME};
use twinpath_core::Direction;
use twinpath_core::program::{
    Comparison, Condition, Exit, FastProgram, Field, Operand, Operation, Step, Word, compute, set,
};

const fn word(name: &'static str, meaning: &'static str) -> Word {
    Word { name, meaning }
}

const NAMES: [Word; WORDS] = [
    word(
        "flags",
        "whether there is a record, and the TCP flags of either end",
    ),
    word(
        "first",
        "time of the record's first packet, in units of 2^20 ns",
    ),
    word("last", "time of its last packet"),
    word("packets_original", "packets of the opener"),
    word("packets_reply", "packets of the other end"),
    word("bytes_original", "bytes of the opener"),
    word("bytes_reply", "bytes of the other end"),
];

/// The time in units.
const NOW: Operand = Operand::Temporary(0);
const PART: Operand = Operand::Temporary(1);
const TEMPORARIES: u8 = 2;

const fn of(word: usize) -> Operand {
    Operand::Word(word as u8)
}

/// The program for a configuration.
pub(super) fn program(config: &Config) -> FastProgram {
    let shift = Operand::Constant;
    let [low, high] = [Field::NowLow, Field::NowHigh].map(Operand::Field);
    FastProgram {
        name: NAME.into(),
        words: NAMES.to_vec(),
        temporaries: TEMPORARIES,
        prologue: vec![
            compute(NOW, Operation::ShiftRight, low, shift(UNIT_SHIFT)),
            compute(PART, Operation::ShiftLeft, high, shift(32 - UNIT_SHIFT)),
            compute(NOW, Operation::Or, NOW, PART),
        ],
        steps: Direction::BOTH.map(|way| counted(way, config)).to_vec(),
        ..FastProgram::default()
    }
}

/// A packet of a record that goes on.
fn counted(way: Direction, config: &Config) -> Step {
    let lasts = |since, most| Condition::difference(NOW, of(since), Comparison::AtMost, most);
    let most = Operand::Constant(MOST_BYTES);
    Step {
        name: match way {
            Direction::Original => "counted from the opener",
            Direction::Reply => "counted towards the opener",
        },
        when: vec![
            Condition::of(
                Operand::Field(Field::Direction),
                Comparison::Equal,
                Operand::Constant(way as u32),
            ),
            Condition::bits(of(FLAGS), KNOWN, KNOWN),
            lasts(LAST, units_of(config.idle.duration())),
            lasts(FIRST, units_of(config.active.duration())),
            Condition::of(of(bytes(way)), Comparison::AtMost, most),
        ],
        then: vec![
            compute(
                PART,
                Operation::ShiftLeft,
                Operand::Field(Field::TcpFlags),
                Operand::Constant(flags_at(way)),
            ),
            compute(of(FLAGS), Operation::Or, of(FLAGS), PART),
            set(of(LAST), NOW),
            compute(
                of(packets(way)),
                Operation::Add,
                of(packets(way)),
                Operand::Constant(1),
            ),
            compute(
                of(bytes(way)),
                Operation::Add,
                of(bytes(way)),
                Operand::Field(Field::PacketLength),
            ),
        ],
        exit: Exit::Continue,
    }
}
