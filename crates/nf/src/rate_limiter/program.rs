//! What the limiter does on the fast path.

use super::NAME;
use super::config::{Config, Excess};
use super::meter::{Cost, Meter, round};
use super::state::{FLAGS, WORDS, full_at, last_seen, seen, waiting};
use twinpath_core::program::{
    Action, Comparison, Condition, Exit, FastProgram, Field, Operand, Operation, Step, Word,
    compute, set,
};
use twinpath_core::{Direction, DropReason};

/// The names and meanings of the words.
const NAMES: [Word; WORDS] = [
    Word {
        name: "flags",
        meaning: "which directions have a bucket, and of which packets wait",
    },
    Word {
        name: "full_original",
        meaning: "when the opener's bucket will be full, in units of the limiter",
    },
    Word {
        name: "seen_original",
        meaning: "time of the opener's last packet, in ticks",
    },
    Word {
        name: "full_reply",
        meaning: "when the other end's bucket will be full",
    },
    Word {
        name: "seen_reply",
        meaning: "time of the other end's last packet",
    },
];

/// The time in units.
const NOW: Operand = Operand::Temporary(0);
/// What the packet takes, if that depends on its bytes.
const TAKES: Operand = Operand::Temporary(1);
/// How full the bucket must be for it: units in which a burst fills up, without those that the packet takes.
const SLACK: Operand = Operand::Temporary(2);
/// For what is computed in between.
const PART: Operand = Operand::Temporary(3);
/// The bucket before the packet.
const BEFORE: Operand = Operand::Temporary(4);
const TEMPORARIES: u8 = 5;

const TICKS: Operand = Operand::Field(Field::NowTicks);

/// The program for a configuration.
pub(super) fn program(config: &Config, meter: &Meter) -> FastProgram {
    if config.prefixes.is_some() {
        return for_slow_path();
    }
    let steps = Direction::BOTH
        .into_iter()
        .flat_map(|way| match config.directions.include(way) {
            true => limited(way, config, meter),
            false => vec![unlimited(way, config)],
        });
    FastProgram {
        name: NAME.into(),
        words: NAMES.to_vec(),
        temporaries: TEMPORARIES,
        prologue: [time(meter), cost(meter)].concat(),
        steps: steps.collect(),
        ..FastProgram::default()
    }
}

/// Every packet is for the slow path.
fn for_slow_path() -> FastProgram {
    let zero = Operand::Constant(0);
    FastProgram {
        name: NAME.into(),
        words: NAMES.to_vec(),
        always_complex: vec![vec![Condition::of(zero, Comparison::Equal, zero)]],
        ..FastProgram::default()
    }
}

/// The time in units: some of the bits of its halves.
fn time(meter: &Meter) -> Vec<Action> {
    let [low, high] = [Field::NowLow, Field::NowHigh].map(Operand::Field);
    let shift = |by: i32| Operand::Constant(by.unsigned_abs());
    match meter.unit {
        0 => vec![set(NOW, low)],
        ..0 => vec![compute(NOW, Operation::ShiftLeft, low, shift(meter.unit))],
        1.. => vec![
            compute(NOW, Operation::ShiftRight, low, shift(meter.unit)),
            compute(PART, Operation::ShiftLeft, high, shift(32 - meter.unit)),
            compute(NOW, Operation::Or, NOW, PART),
        ],
    }
}

fn cost(meter: &Meter) -> Vec<Action> {
    let Cost::Bytes { factor, shift } = meter.cost else {
        return Vec::new();
    };
    let [factor, rounding, shift] = [factor, round(shift), shift].map(Operand::Constant);
    let bytes = Operand::Field(Field::PacketLength);
    vec![
        compute(TAKES, Operation::Multiply, bytes, factor),
        compute(TAKES, Operation::Add, TAKES, rounding),
        compute(TAKES, Operation::ShiftRight, TAKES, shift),
        compute(
            SLACK,
            Operation::Subtract,
            Operand::Constant(meter.depth),
            TAKES,
        ),
    ]
}

/// What a packet takes, and the slack that it leaves.
fn operands(meter: &Meter) -> (Operand, Operand) {
    match meter.cost {
        Cost::Packet(units) => (
            Operand::Constant(units),
            Operand::Constant(meter.depth.wrapping_sub(units)),
        ),
        Cost::Bytes { .. } => (TAKES, SLACK),
    }
}

fn limited(way: Direction, config: &Config, meter: &Meter) -> Vec<Step> {
    let full = Operand::Word(full_at(way) as u8);
    let (takes, slack) = operands(meter);
    let fits = Condition::of(
        Operand::Field(Field::PacketLength),
        Comparison::AtMost,
        Operand::Constant(meter.longest_packet),
    );
    let before = compute(BEFORE, Operation::Later, full, NOW);
    let within = Step {
        name: named(
            way,
            [
                "from the opener, within the rate",
                "towards the opener, within the rate",
            ],
        ),
        when: [filling(way, meter), vec![fits, has_room(full, slack)]].concat(),
        then: vec![
            before,
            compute(full, Operation::Add, BEFORE, takes),
            seen_now(way),
        ],
        exit: Exit::Continue,
    };
    let from_full = Step {
        name: named(
            way,
            [
                "from the opener, after a pause",
                "towards the opener, after a pause",
            ],
        ),
        when: [paused(way, config, meter), vec![fits]].concat(),
        then: vec![compute(full, Operation::Add, NOW, takes), seen_now(way)],
        exit: Exit::Continue,
    };
    let excess = Step {
        name: named(
            way,
            ["from the opener, excess", "towards the opener, excess"],
        ),
        when: filling(way, meter),
        then: vec![compute(full, Operation::Later, full, NOW), seen_now(way)],
        exit: Exit::Drop(DropReason::RateLimited),
    };
    match config.excess {
        Excess::Drop => vec![within, from_full, excess],
        Excess::Delay => vec![within, from_full],
    }
}

const fn named(way: Direction, names: [&'static str; 2]) -> &'static str {
    names[way.index()]
}

/// The bucket has been seen so lately that it may not be full.
fn filling(way: Direction, meter: &Meter) -> Vec<Condition> {
    let seen = Operand::Word(last_seen(way) as u8);
    let [goes, is_there] = has_bucket(way);
    let lately = Condition::difference(TICKS, seen, Comparison::AtMost, meter.full_ticks);
    vec![goes, is_there, lately]
}

/// It is full, and its flow is not forgotten.
fn paused(way: Direction, config: &Config, meter: &Meter) -> Vec<Condition> {
    let seen = Operand::Word(last_seen(way) as u8);
    let [goes, is_there] = has_bucket(way);
    let silent = |comparison, ticks| Condition::difference(TICKS, seen, comparison, ticks);
    vec![
        goes,
        is_there,
        silent(Comparison::Greater, meter.full_ticks),
        silent(Comparison::AtMost, config.idle_timeout.ticks()),
    ]
}

/// A packet of a direction that has a bucket, and of which no packet waits.
fn has_bucket(way: Direction) -> [Condition; 2] {
    let flags = Operand::Word(FLAGS as u8);
    [
        goes(way),
        Condition::bits(flags, seen(way) | waiting(way), seen(way)),
    ]
}

fn goes(way: Direction) -> Condition {
    Condition::of(
        Operand::Field(Field::Direction),
        Comparison::Equal,
        Operand::Constant(way as u32),
    )
}

/// The bucket is not farther from full than that.
const fn has_room(full: Operand, slack: Operand) -> Condition {
    Condition {
        a: full,
        b: NOW,
        mask: u32::MAX,
        comparison: Comparison::SignedAtMost,
        with: slack,
    }
}

const fn seen_now(way: Direction) -> Action {
    set(Operand::Word(last_seen(way) as u8), TICKS)
}

/// Without a bucket, too, who opened the flow is remembered.
fn unlimited(way: Direction, config: &Config) -> Step {
    let seen = Operand::Word(last_seen(way) as u8);
    let [goes, is_there] = has_bucket(way);
    let idle_ticks = config.idle_timeout.ticks();
    let lately = Condition::difference(TICKS, seen, Comparison::AtMost, idle_ticks);
    Step {
        name: named(
            way,
            [
                "from the opener, unlimited",
                "towards the opener, unlimited",
            ],
        ),
        when: vec![goes, is_there, lately],
        then: vec![seen_now(way)],
        exit: Exit::Continue,
    }
}
