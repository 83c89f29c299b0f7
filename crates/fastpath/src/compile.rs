//! Turns fast programs into code over one small register file.
//!
//! All operands of a chain's programs become indices into 256 registers: the packet's fields
//! first, at fixed places, then state words, temporaries and constants. What can be decided once is
//! decided here and not per packet: what depends only on the direction, comparisons with constants
//! (which become intervals), and temporaries that nobody could see the old value of.

use std::borrow::Cow;
use std::ops::Range;
use twinpath_core::Direction;
use twinpath_core::guarantee::reply_order;
use twinpath_core::program::{
    Action, Comparison, Condition, Exit, FastProgram, Field, Operand, Operation, PacketEnd,
};

/// Registers in the file; operands are one byte.
pub(crate) const REGISTERS: usize = 256;

/// Rewrites that one packet can have; a program with more makes the packet complex.
pub(crate) const MAX_REWRITES: usize = 8;

/// The first state word's register; fields have those in front.
pub(crate) const FIRST_WORD: usize = 20;

const _: () = assert!(Field::COUNT <= FIRST_WORD);

/// Why programs cannot be fused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// More words, temporaries and constants than registers.
    #[error(
        "the chain's programs need more than 256 registers (state words, fields, temporaries, constants)"
    )]
    Registers,
    /// A program writes to a field or a constant.
    #[error(
        "program {program}: an action writes to something that is not a state word or a temporary"
    )]
    NotWritable {
        /// The program.
        program: Cow<'static, str>,
    },
    /// A prologue does more than arithmetic.
    #[error("program {program}: its prologue may only compute")]
    Prologue {
        /// The program.
        program: Cow<'static, str>,
    },
    /// A program names a word, temporary or table that it does not declare.
    #[error(
        "program {program}: refers to a state word, temporary or table that it does not declare"
    )]
    Undeclared {
        /// The program.
        program: Cow<'static, str>,
    },
    /// Two programs with a window matcher: a switch has one.
    #[error(
        "programs {first} and {second} both inspect payloads; one chain can have one inspector"
    )]
    TwoWindows {
        /// One of them.
        first: Cow<'static, str>,
        /// The other.
        second: Cow<'static, str>,
    },
}

/// Looks at `(a - b) & mask`.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Test {
    pub a: u8,
    pub b: u8,
    pub mask: u32,
    pub passes: Passes,
}

/// When a test passes.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Passes {
    /// From `low` on over `span` more values, wrapping: every comparison with a constant is one.
    Within { low: u32, span: u32 },
    /// In comparison with a register.
    Compared { comparison: Comparison, with: u8 },
}

/// What one instruction does; `to`, `a` and `b` are its operands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Add,
    Subtract,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Minimum,
    Maximum,
    Later,
    Multiply,
    /// Rewrites the source to row `a` of table `to`.
    RewriteSource,
    /// Rewrites the destination to row `a` of table `to`.
    RewriteDestination,
    /// Rewrites the destination Ethernet address to that of row `a` of table `to`.
    RewriteMac,
    /// Stores the request's value in `b` registers from `to` on.
    StoreValue,
    /// Replies with status `to`, value from register `a` on, as many bytes as register `b` says.
    ReplyValue,
}

/// One instruction.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Instruction {
    pub opcode: Opcode,
    pub to: u8,
    pub a: u8,
    pub b: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct StepCode {
    /// What it is for.
    pub name: &'static str,
    pub tests: Box<[Test]>,
    pub instructions: Box<[Instruction]>,
    pub exit: Exit,
}

#[derive(Clone, Debug)]
pub(crate) struct FunctionCode {
    /// The program's name.
    pub name: Cow<'static, str>,
    pub prologue: Box<[Instruction]>,
    pub steps: Box<[StepCode]>,
}

/// The programs of a chain, in the order of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub functions: Vec<FunctionCode>,
    /// Conjunctions of tests on fields, any of which makes a packet complex whatever the state.
    pub always_complex: Vec<Box<[Test]>>,
}

/// Where one program's words, temporaries and tables lie among those of the chain.
#[derive(Copy, Clone)]
struct Offsets<'a> {
    program: &'a FastProgram,
    first_word: usize,
    first_temporary: usize,
    first_table: usize,
}

/// What compiling yields.
pub(crate) struct Compiled {
    pub codes: [Code; 2],
    pub words: usize,
    /// The register file before the first packet: constants in place, all else zero.
    pub initial: [u32; REGISTERS],
    pub uses: Uses,
}

/// Which of the packet's fields that take work to find are used.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Uses {
    pub protocol: bool,
    pub segment_length: bool,
    pub tcp_flags: bool,
    pub tcp_numbers: bool,
    pub payload: bool,
    pub checksums: bool,
    pub packet_length: bool,
    pub nanoseconds: bool,
}

impl Uses {
    fn note(&mut self, field: Field) {
        match field {
            Field::Protocol => self.protocol = true,
            Field::TcpFlags => self.tcp_flags = true,
            Field::SegmentLength => (self.tcp_flags, self.segment_length) = (true, true),
            Field::TcpSequence | Field::TcpAcknowledgement | Field::TcpWindow => {
                self.tcp_numbers = true;
            }
            Field::WindowMatch | Field::KvOperation | Field::KvValueLength => self.payload = true,
            Field::ChecksumsHold => self.checksums = true,
            Field::PacketLength => self.packet_length = true,
            Field::NowLow | Field::NowHigh => self.nanoseconds = true,
            Field::Direction | Field::PayloadLength | Field::NowTicks | Field::AliasRow => {}
        }
    }
}

struct Compiler {
    temporaries: Range<usize>,
    constants: Vec<u32>,
    uses: Uses,
}

/// Compiles a chain's programs for both directions.
pub(crate) fn compile(programs: &[FastProgram]) -> Result<Compiled, CompileError> {
    let places = place(programs);
    let words: usize = programs.iter().map(|program| program.words.len()).sum();
    let temporaries: usize = programs
        .iter()
        .map(|program| usize::from(program.temporaries))
        .sum();
    let first_temporary = FIRST_WORD + words;
    let mut compiler = Compiler {
        temporaries: first_temporary..first_temporary + temporaries,
        constants: Vec::new(),
        uses: Uses::default(),
    };
    let original = compiler.direction(places.iter(), Direction::Original)?;
    let guarantees: Vec<_> = programs.iter().map(|program| program.guarantees).collect();
    let answers = reply_order(&guarantees);
    let answers = answers.iter().map(|&place| &places[place]);
    let reply = compiler.direction(answers, Direction::Reply)?;
    Ok(Compiled {
        codes: [original, reply],
        words,
        initial: compiler.initial_registers(),
        uses: compiler.uses,
    })
}

fn place(programs: &[FastProgram]) -> Vec<Offsets<'_>> {
    let mut first_word = FIRST_WORD;
    let mut first_temporary = programs
        .iter()
        .fold(first_word, |next, program| next + program.words.len());
    let mut first_table = 0;
    let mut places = Vec::with_capacity(programs.len());
    for program in programs {
        places.push(Offsets {
            program,
            first_word,
            first_temporary,
            first_table,
        });
        first_word += program.words.len();
        first_temporary += usize::from(program.temporaries);
        first_table += program.tables.len();
    }
    places
}

impl Compiler {
    fn direction<'a>(
        &mut self,
        places: impl Iterator<Item = &'a Offsets<'a>>,
        direction: Direction,
    ) -> Result<Code, CompileError> {
        let mut code = Code::default();
        for place in places {
            for conditions in &place.program.always_complex {
                code.always_complex
                    .extend(self.tests(place, conditions, direction)?);
            }
            code.functions.push(self.function(place, direction)?);
        }
        Ok(code)
    }

    fn function(
        &mut self,
        place: &Offsets<'_>,
        direction: Direction,
    ) -> Result<FunctionCode, CompileError> {
        let prologue = self.prologue(place)?;
        let mut steps = Vec::with_capacity(place.program.steps.len());
        for step in &place.program.steps {
            if let Some(tests) = self.tests(place, &step.when, direction)? {
                steps.push(StepCode {
                    name: step.name,
                    tests,
                    instructions: self.instructions(place, &step.then)?,
                    exit: step.exit,
                });
            }
        }
        let mut cleared = self.temporaries_to_clear(&prologue, &steps)?;
        cleared.extend(prologue);
        Ok(FunctionCode {
            name: place.program.name.clone(),
            prologue: cleared.into(),
            steps: steps.into(),
        })
    }

    fn prologue(&mut self, place: &Offsets<'_>) -> Result<Box<[Instruction]>, CompileError> {
        let only_computes = |action: &Action| matches!(action, Action::Compute { .. });
        if !place.program.prologue.iter().all(only_computes) {
            return Err(CompileError::Prologue {
                program: place.program.name.clone(),
            });
        }
        self.instructions(place, &place.program.prologue)
    }

    /// What sets those temporaries to zero that could show a former packet's value.
    fn temporaries_to_clear(
        &mut self,
        prologue: &[Instruction],
        steps: &[StepCode],
    ) -> Result<Vec<Instruction>, CompileError> {
        let zero = u8::try_from(self.constant(0)).map_err(|_| CompileError::Registers)?;
        Ok(self
            .temporaries
            .clone()
            .filter_map(|register| u8::try_from(register).ok())
            .filter(|&register| reads_before_writing(register, prologue, steps))
            .map(|to| Instruction {
                opcode: Opcode::Or,
                to,
                a: zero,
                b: zero,
            })
            .collect())
    }

    /// The tests for a conjunction; `None` if the direction alone makes it false.
    fn tests(
        &mut self,
        place: &Offsets<'_>,
        conditions: &[Condition],
        direction: Direction,
    ) -> Result<Option<Box<[Test]>>, CompileError> {
        let mut tests = Vec::with_capacity(conditions.len());
        for condition in conditions {
            match decided(condition, direction) {
                Some(true) => {}
                Some(false) => return Ok(None),
                None => tests.push(Test {
                    a: self.register(place, condition.a)?,
                    b: self.register(place, condition.b)?,
                    mask: condition.mask,
                    passes: self.passes(place, condition)?,
                }),
            }
        }
        Ok(Some(tests.into()))
    }

    fn passes(
        &mut self,
        place: &Offsets<'_>,
        condition: &Condition,
    ) -> Result<Passes, CompileError> {
        let comparison = condition.comparison;
        if let Operand::Constant(value) = condition.with
            && let Some((low, span)) = interval(comparison, value)
        {
            return Ok(Passes::Within { low, span });
        }
        let with = self.register(place, condition.with)?;
        Ok(Passes::Compared { comparison, with })
    }

    fn instructions(
        &mut self,
        place: &Offsets<'_>,
        actions: &[Action],
    ) -> Result<Box<[Instruction]>, CompileError> {
        actions
            .iter()
            .map(|action| self.instruction(place, action))
            .collect()
    }

    fn instruction(
        &mut self,
        place: &Offsets<'_>,
        action: &Action,
    ) -> Result<Instruction, CompileError> {
        let (opcode, to, a, b) = match *action {
            Action::Compute {
                to,
                operation,
                a,
                b,
            } => {
                if !matches!(to, Operand::Word(_) | Operand::Temporary(_)) {
                    return Err(CompileError::NotWritable {
                        program: place.program.name.clone(),
                    });
                }
                let to = self.register(place, to)?;
                let (a, b) = (self.register(place, a)?, self.register(place, b)?);
                (opcode(operation), to, a, b)
            }
            Action::Rewrite { end, table, row } => {
                let opcode = match end {
                    PacketEnd::Source => Opcode::RewriteSource,
                    PacketEnd::Destination => Opcode::RewriteDestination,
                };
                let row = self.register(place, row)?;
                (opcode, table_index(place, table)?, row, row)
            }
            Action::RewriteMac { table, row } => {
                let row = self.register(place, row)?;
                (Opcode::RewriteMac, table_index(place, table)?, row, row)
            }
            Action::StoreValue { first, words } => {
                self.register(place, Operand::Word((first + words).saturating_sub(1)))?;
                let first = self.register(place, Operand::Word(first))?;
                (Opcode::StoreValue, first, first, words)
            }
            Action::ReplyValue {
                status,
                first,
                length,
            } => {
                let first = self.register(place, Operand::Word(first))?;
                (
                    Opcode::ReplyValue,
                    status,
                    first,
                    self.register(place, length)?,
                )
            }
        };
        Ok(Instruction { opcode, to, a, b })
    }

    fn register(&mut self, place: &Offsets<'_>, operand: Operand) -> Result<u8, CompileError> {
        let undeclared = CompileError::Undeclared {
            program: place.program.name.clone(),
        };
        let index = match operand {
            Operand::Word(word) if usize::from(word) < place.program.words.len() => {
                place.first_word + usize::from(word)
            }
            Operand::Temporary(temporary) if temporary < place.program.temporaries => {
                place.first_temporary + usize::from(temporary)
            }
            Operand::Word(_) | Operand::Temporary(_) => return Err(undeclared),
            Operand::Field(field) => {
                self.uses.note(field);
                field as usize
            }
            Operand::Constant(value) => self.constant(value),
        };
        u8::try_from(index).map_err(|_| CompileError::Registers)
    }

    fn constant(&mut self, value: u32) -> usize {
        let known = self
            .constants
            .iter()
            .position(|&constant| constant == value);
        self.temporaries.end
            + known.unwrap_or_else(|| {
                self.constants.push(value);
                self.constants.len() - 1
            })
    }

    fn initial_registers(&self) -> [u32; REGISTERS] {
        let mut registers = [0; REGISTERS];
        for (register, &constant) in registers[self.temporaries.end..]
            .iter_mut()
            .zip(&self.constants)
        {
            *register = constant;
        }
        registers
    }
}

fn table_index(place: &Offsets<'_>, table: u8) -> Result<u8, CompileError> {
    let known = usize::from(table) < place.program.tables.len();
    let index = place.first_table + usize::from(table);
    if known {
        u8::try_from(index).map_err(|_| CompileError::Registers)
    } else {
        Err(CompileError::Undeclared {
            program: place.program.name.clone(),
        })
    }
}

const fn opcode(operation: Operation) -> Opcode {
    match operation {
        Operation::Add => Opcode::Add,
        Operation::Subtract => Opcode::Subtract,
        Operation::And => Opcode::And,
        Operation::Or => Opcode::Or,
        Operation::Xor => Opcode::Xor,
        Operation::ShiftLeft => Opcode::ShiftLeft,
        Operation::ShiftRight => Opcode::ShiftRight,
        Operation::Minimum => Opcode::Minimum,
        Operation::Maximum => Opcode::Maximum,
        Operation::Later => Opcode::Later,
        Operation::Multiply => Opcode::Multiply,
    }
}

/// Whether a packet could see the value that `register` had before it.
fn reads_before_writing(register: u8, prologue: &[Instruction], steps: &[StepCode]) -> bool {
    let first_use = |instructions: &[Instruction]| {
        instructions
            .iter()
            .find_map(|instruction| instruction.uses(register))
    };
    match first_use(prologue) {
        Some(first) => first == Use::Read,
        None => steps.iter().any(|step| {
            step.tests.iter().any(|test| test.reads(register))
                || first_use(&step.instructions) == Some(Use::Read)
        }),
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Use {
    Read,
    Written,
}

impl Code {
    /// Everything that it may do.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.functions.iter().flat_map(|function| {
            let steps = function.steps.iter().flat_map(|step| &step.instructions);
            function.prologue.iter().chain(steps)
        })
    }
}

impl Test {
    fn reads(&self, register: u8) -> bool {
        self.a == register
            || self.b == register
            || matches!(self.passes, Passes::Compared { with, .. } if with == register)
    }
}

impl Opcode {
    /// Whether it rewrites the packet to a row of a table.
    pub const fn rewrites(self) -> bool {
        matches!(
            self,
            Self::RewriteSource | Self::RewriteDestination | Self::RewriteMac
        )
    }

    /// Whether it moves payload between packet and state.
    pub const fn copies_payload(self) -> bool {
        matches!(self, Self::StoreValue | Self::ReplyValue)
    }
}

impl Instruction {
    /// How it uses a temporary's register first.
    fn uses(&self, register: u8) -> Option<Use> {
        let (reads, writes) = match self.opcode {
            // Values lie in state words, never in temporaries.
            Opcode::StoreValue => return None,
            Opcode::RewriteSource | Opcode::RewriteDestination | Opcode::RewriteMac => {
                ([self.a, self.a], None)
            }
            Opcode::ReplyValue => ([self.b, self.b], None),
            _ => ([self.a, self.b], Some(self.to)),
        };
        if reads.contains(&register) {
            return Some(Use::Read);
        }
        (writes == Some(register)).then_some(Use::Written)
    }
}

/// The values that compare so with a constant: a first one and how many follow. `None` if there
/// are none.
fn interval(comparison: Comparison, value: u32) -> Option<(u32, u32)> {
    const LEAST: u32 = i32::MIN as u32;
    const MOST: u32 = i32::MAX as u32;
    Some(match comparison {
        Comparison::Equal => (value, 0),
        Comparison::NotEqual => (value.wrapping_add(1), u32::MAX - 1),
        Comparison::Less => (0, value.checked_sub(1)?),
        Comparison::AtMost => (0, value),
        Comparison::Greater => (value.checked_add(1)?, u32::MAX - value - 1),
        Comparison::AtLeast => (value, u32::MAX - value),
        Comparison::SignedAtMost => (LEAST, value.wrapping_sub(LEAST)),
        Comparison::SignedAtLeast => (value, MOST.wrapping_sub(value)),
    })
}

/// The value of a condition on nothing but the direction.
fn decided(condition: &Condition, direction: Direction) -> Option<bool> {
    let value = |operand| match operand {
        Operand::Field(Field::Direction) => Some(direction as u32),
        Operand::Constant(value) => Some(value),
        _ => None,
    };
    let left = value(condition.a)?.wrapping_sub(value(condition.b)?) & condition.mask;
    Some(holds(condition.comparison, left, value(condition.with)?))
}

impl Passes {
    /// Whether `left` passes, given what it is compared with.
    #[inline(always)]
    pub fn holds(self, left: u32, register: impl FnOnce(u8) -> u32) -> bool {
        match self {
            Self::Within { low, span } => left.wrapping_sub(low) <= span,
            Self::Compared { comparison, with } => holds(comparison, left, register(with)),
        }
    }
}

/// Arithmetic; what is none gives zero.
#[inline(always)]
pub(crate) fn calculate(opcode: Opcode, a: u32, b: u32) -> u32 {
    match opcode {
        Opcode::Add => a.wrapping_add(b),
        Opcode::Subtract => a.wrapping_sub(b),
        Opcode::And => a & b,
        Opcode::Or => a | b,
        Opcode::Xor => a ^ b,
        Opcode::ShiftLeft => a.wrapping_shl(b),
        Opcode::ShiftRight => a.wrapping_shr(b),
        Opcode::Minimum => a.min(b),
        Opcode::Maximum => a.max(b),
        Opcode::Later if (a.wrapping_sub(b) as i32) < 0 => b,
        Opcode::Later => a,
        Opcode::Multiply => a.wrapping_mul(b),
        _ => 0,
    }
}

/// Whether `left` compares with `right`.
#[inline(always)]
fn holds(comparison: Comparison, left: u32, right: u32) -> bool {
    match comparison {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => left < right,
        Comparison::AtMost => left <= right,
        Comparison::Greater => left > right,
        Comparison::AtLeast => left >= right,
        Comparison::SignedAtMost => left as i32 <= right as i32,
        Comparison::SignedAtLeast => left as i32 >= right as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Comparison; 8] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::AtMost,
        Comparison::Greater,
        Comparison::AtLeast,
        Comparison::SignedAtMost,
        Comparison::SignedAtLeast,
    ];

    fn number() -> impl Strategy<Value = u32> {
        let edges = vec![
            0,
            1,
            i32::MAX as u32,
            i32::MIN as u32,
            u32::MAX - 1,
            u32::MAX,
        ];
        prop_oneof![any::<u32>(), prop::sample::select(edges)]
    }

    proptest! {
        #[test]
        fn intervals_are_comparisons(left in number(), right in number(), near in -2i32..3) {
            for left in [left, right.wrapping_add_signed(near)] {
                for comparison in ALL {
                    let within = interval(comparison, right)
                        .is_some_and(|(low, span)| left.wrapping_sub(low) <= span);
                    prop_assert_eq!(within, holds(comparison, left, right), "{:?}", comparison);
                }
            }
        }
    }
}
