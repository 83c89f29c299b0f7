//! The interpreter says what is right.
#![deny(unsafe_code)]

use crate::{Interpreter, PacketView, PlainView};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::sync::Arc;
use twinpath_core::Guarantees;
use twinpath_core::program::{
    Action, Comparison, Condition, EndpointRow, EndpointTable, Exit, FastProgram, Field, Operand,
    Operation, PacketEnd, Step, WindowMatcher, Word, compute,
};
use twinpath_core::time::TICK_SHIFT;
use twinpath_core::wire::layout::Plain;
use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, dissect};
use twinpath_core::{Direction, DropReason, Frame, Instant, Pools, Steering};

const WORDS: u8 = 3;
const TEMPORARIES: u8 = 3;
/// Programs refer to rows at and a little beyond this.
const ROWS: u32 = 4;

/// Few different numbers, so that things are equal often, and the edges.
fn number() -> impl Strategy<Value = u32> {
    let edges = vec![0x10, 0x12, i32::MAX as u32, i32::MIN as u32, u32::MAX];
    prop_oneof![4 => 0..8u32, 1 => any::<u32>(), 1 => prop::sample::select(edges)]
}

fn place() -> impl Strategy<Value = Operand> {
    prop_oneof![
        (0..WORDS).prop_map(Operand::Word),
        (0..TEMPORARIES).prop_map(Operand::Temporary)
    ]
}

fn unchanging() -> impl Strategy<Value = Operand> {
    prop_oneof![
        prop::sample::select(Field::ALL.to_vec()).prop_map(Operand::Field),
        number().prop_map(Operand::Constant)
    ]
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![place(), unchanging()]
}

fn condition(operand: BoxedStrategy<Operand>) -> impl Strategy<Value = Condition> {
    let comparisons = vec![
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::AtMost,
        Comparison::Greater,
        Comparison::AtLeast,
        Comparison::SignedAtMost,
        Comparison::SignedAtLeast,
    ];
    (
        operand.clone(),
        prop_oneof![Just(Operand::Constant(0)), operand.clone()],
        prop_oneof![Just(u32::MAX), number()],
        prop::sample::select(comparisons),
        prop_oneof![number().prop_map(Operand::Constant), operand],
    )
        .prop_map(|(a, b, mask, comparison, with)| Condition {
            a,
            b,
            mask,
            comparison,
            with,
        })
}

fn arithmetic() -> impl Strategy<Value = Action> {
    let operations = vec![
        Operation::Add,
        Operation::Subtract,
        Operation::And,
        Operation::Or,
        Operation::Xor,
        Operation::ShiftLeft,
        Operation::ShiftRight,
        Operation::Minimum,
        Operation::Maximum,
        Operation::Later,
        Operation::Multiply,
    ];
    (
        place(),
        prop::sample::select(operations),
        operand(),
        prop_oneof![2 => operand(), 1 => Just(Operand::Constant(0))],
    )
        .prop_map(|(to, operation, a, b)| compute(to, operation, a, b))
}

fn rewrite() -> impl Strategy<Value = Action> {
    let row = || prop_oneof![(0..ROWS + 1).prop_map(Operand::Constant), operand()];
    prop_oneof![
        (any::<bool>(), 0..2u8, row()).prop_map(|(source, table, row)| Action::Rewrite {
            end: if source {
                PacketEnd::Source
            } else {
                PacketEnd::Destination
            },
            table,
            row
        }),
        (0..2u8, row()).prop_map(|(table, row)| Action::RewriteMac { table, row })
    ]
}

fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        6 => Just(Exit::Continue),
        1 => Just(Exit::Drop(DropReason::Denied)),
        1 => Just(Exit::Drop(DropReason::Banned)),
        1 => Just(Exit::Reply),
        1 => Just(Exit::Escalate),
    ]
}

fn step(rewrites: usize) -> impl Strategy<Value = Step> {
    let action = prop_oneof![3 => arithmetic().boxed(), rewrites as u32 => rewrite().boxed()];
    (
        prop::collection::vec(condition(operand().boxed()), 0..3),
        prop::collection::vec(action, 0..7),
        exit(),
    )
        .prop_map(|(when, then, exit)| Step {
            name: "step",
            when,
            then,
            exit,
        })
}

fn table() -> impl Strategy<Value = EndpointTable> {
    let until = prop_oneof![2 => Just(u64::MAX), 1 => 0..6u64];
    prop::collection::vec(
        (any::<[u8; 4]>(), any::<u16>(), until),
        0..ROWS as usize + 1,
    )
    .prop_map(|rows| EndpointTable {
        name: "table",
        rows: rows
            .into_iter()
            .map(|(address, port, until)| EndpointRow {
                endpoint: Endpoint::v4(address, port),
                mac: MacAddress([port as u8; 6]),
                until: Instant(until),
            })
            .collect(),
    })
}

/// Says something about the payload.
struct FirstByte;

impl WindowMatcher for FirstByte {
    fn inspect(&self, window: &[u8]) -> u32 {
        window.first().map_or(0, |&byte| u32::from(byte) % 3)
    }
    fn ternary_entries(&self) -> usize {
        1
    }
}

fn program(rewrites: usize) -> impl Strategy<Value = FastProgram> {
    (
        prop::collection::vec(arithmetic(), 0..3),
        prop::collection::vec(step(rewrites), 0..5),
        prop::collection::vec(
            prop::collection::vec(condition(unchanging().boxed()), 1..4),
            0..2,
        ),
        [table(), table()],
    )
        .prop_map(|(prologue, steps, always_complex, tables)| FastProgram {
            guarantees: Guarantees::NONE,
            name: "random".into(),
            words: vec![
                Word {
                    name: "word",
                    meaning: ""
                };
                WORDS.into()
            ],
            temporaries: TEMPORARIES,
            prologue,
            steps,
            always_complex,
            tables: tables.into(),
            window: None,
        })
}

/// Up to three programs, of which mostly one rewrites.
fn chain() -> impl Strategy<Value = Vec<FastProgram>> {
    let programs = prop_oneof![
        program(1).prop_map(|program| vec![program]),
        (program(0), program(1)).prop_map(|(first, second)| vec![first, second]),
        (program(1), program(0), program(0)).prop_map(|(a, b, c)| vec![a, b, c]),
        (program(1), program(1)).prop_map(|(first, second)| vec![first, second]),
    ];
    programs.prop_map(|mut programs| {
        programs[0].window = Some(Arc::new(FirstByte));
        programs
    })
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    (
        any::<bool>(),
        number(),
        number(),
        prop_oneof![Just(0x10u8), any::<u8>()],
        0..5u16,
        0..9usize,
    )
        .prop_map(|(tcp, sequence, acknowledgement, flags, window, bytes)| {
            let (from, to) = (
                Endpoint::v4([10, 0, 0, 1], 4000),
                Endpoint::v4([10, 0, 0, 2], 80),
            );
            let builder = match tcp {
                true => PacketBuilder::tcp(from, to)
                    .seq(sequence)
                    .ack(acknowledgement)
                    .flags(flags)
                    .window(window),
                false => PacketBuilder::udp(from, to),
            };
            builder
                .payload(&[bytes as u8; 9][..bytes])
                .to_vec()
                .expect("a packet")
        })
}

/// Few different ticks, and rows that end within the first.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..8u64,
        (0..8u64, 0..8u64).prop_map(|(ticks, ns)| ticks << TICK_SHIFT | ns),
        any::<u64>()
    ]
}

type Outcome = (Exit, Vec<u32>, Vec<u8>);

/// What an engine makes of a packet: all ways of running it must be the same.
fn seen(
    engine: &mut Interpreter,
    bytes: &[u8],
    words: &[u32],
    direction: Direction,
    now: Instant,
    alias_row: u32,
) -> Outcome {
    let layout = dissect(bytes).expect("a valid packet");
    let mut keyed = Steering::new(0).key(bytes, &layout).expect("an IP packet");
    keyed.alias_row = alias_row;
    let view = PacketView {
        bytes,
        layout: &layout,
        keyed: &keyed,
        direction,
        now,
    };
    let exit = engine.run(&view, words);
    let after = match exit {
        Exit::Escalate => words.to_vec(),
        _ => engine.words().to_vec(),
    };
    let mut in_place = words.to_vec();
    assert_eq!(engine.run_in_place(&view, &mut in_place), exit);
    assert_eq!(in_place, after, "a complex packet changes nothing");
    let mut frame: Frame = Pools::new(1, 1).take_filled(bytes).expect("room");
    if matches!(exit, Exit::Continue | Exit::Reply) {
        assert!(engine.commit(&mut frame, &layout));
    }
    let seen = (exit, after, frame.bytes().to_vec());
    if let Some(in_batch) = seen_in_batch(engine, &view, words) {
        assert_eq!(in_batch, seen);
    }
    seen
}

/// What it makes of a packet that is one of a batch of plain ones, if it serves those.
fn seen_in_batch(
    engine: &mut Interpreter,
    view: &PacketView<'_>,
    words: &[u32],
) -> Option<Outcome> {
    let plain = Plain::of(view.bytes).expect("TCP or UDP over IPv4");
    let plain = PlainView {
        plain,
        direction: view.direction,
        alias_row: view.keyed.alias_row,
    };
    let mut frame: Frame = Pools::new(1, 1).take_filled(view.bytes).expect("room");
    frame.set_timestamp(view.now);
    let mut words = words.to_vec();
    let mut programs = engine.plain_programs()?;
    let exit = programs.run(&mut frame, plain, &mut words);
    Some((exit, words, frame.bytes().to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// One chain meets several packets, so that nothing of one shows in the next.
    #[test]
    fn machine_code_does_what_the_interpreter_does(
        chain in chain(),
        packets in prop::collection::vec(
            (packet(), prop::collection::vec(number(), 9), any::<bool>(), time(), 0..3u32),
            1..12,
        ),
    ) {
        let mut native = Interpreter::new(&chain).expect("a valid chain");
        let mut interpreter = Interpreter::without_machine_code(&chain).expect("a valid chain");
        for engine in [&mut native, &mut interpreter] {
            engine.start(Instant(1));
        }
        for (bytes, words, reply, now, alias_row) in packets {
            let words = &words[..native.word_count()];
            let direction = Direction::BOTH[usize::from(reply)];
            let [a, b] = [&mut native, &mut interpreter]
                .map(|engine| seen(engine, &bytes, words, direction, Instant(now), alias_row));
            prop_assert_eq!(a, b);
        }
    }
}

/// Machine code is what most chains get: otherwise the comparison would be one of the interpreter
/// with itself.
#[test]
fn most_chains_become_machine_code() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let made = (0..200)
        .filter(|_| {
            let chain = chain().new_tree(&mut runner).expect("a chain").current();
            Interpreter::new(&chain)
                .expect("a valid chain")
                .has_machine_code()
        })
        .count();
    assert!(made > 120, "{made} of 200");
}

/// Packet time may be anything, also the last number there is.
#[test]
fn rows_that_stay_are_there_at_the_end_of_time() {
    let mut program = FastProgram {
        name: "stays".into(),
        words: vec![Word {
            name: "word",
            meaning: "",
        }],
        steps: vec![Step {
            name: "rewrite",
            when: vec![],
            then: vec![Action::Rewrite {
                end: PacketEnd::Source,
                table: 0,
                row: Operand::Constant(0),
            }],
            exit: Exit::Continue,
        }],
        ..FastProgram::default()
    };
    let row = |until| EndpointRow {
        endpoint: Endpoint::v4([1, 2, 3, 4], 5),
        mac: MacAddress([0; 6]),
        until,
    };
    program.tables = vec![EndpointTable {
        name: "rows",
        rows: vec![row(Instant::NEVER), row(Instant(3))],
    }];
    let bytes = PacketBuilder::udp(Endpoint::v4([1; 4], 1), Endpoint::v4([2; 4], 2))
        .to_vec()
        .expect("a packet");
    for mut engine in [
        Interpreter::new(std::slice::from_ref(&program)).expect("valid"),
        Interpreter::without_machine_code(std::slice::from_ref(&program)).expect("valid"),
    ] {
        let seen = seen(
            &mut engine,
            &bytes,
            &[1],
            Direction::Original,
            Instant::NEVER,
            0,
        );
        assert_eq!(seen.0, Exit::Continue);
    }
}
