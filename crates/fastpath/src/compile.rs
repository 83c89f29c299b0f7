//! Turns fast programs into code over one small register file.
//!
//! All operands of a chain's programs become indices into 256 registers: state words first, then
//! the packet's fields, temporaries and constants. What depends only on the direction is decided
//! here, once per direction, so that the interpreter never looks at it.

use std::ops::Range;
use twinpath_core::Direction;
use twinpath_core::program::{
    Action, Comparison, Condition, Exit, FastProgram, Field, Operand, Operation, PacketEnd,
};

/// Registers in the file; operands are one byte.
pub(crate) const REGISTERS: usize = 256;

/// Why programs cannot be fused.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
        program: &'static str,
    },
    /// A program names a word, temporary or table that it does not declare.
    #[error(
        "program {program}: refers to a state word, temporary or table that it does not declare"
    )]
    Undeclared {
        /// The program.
        program: &'static str,
    },
    /// Two programs with a window matcher: a switch has one.
    #[error(
        "programs {first} and {second} both inspect payloads; one chain can have one inspector"
    )]
    TwoWindows {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct Test {
    pub a: u8,
    pub b: u8,
    pub with: u8,
    pub comparison: Comparison,
    pub mask: u32,
}

#[derive(Copy, Clone, Debug)]
pub(crate) enum Do {
    Compute {
        to: u8,
        operation: Operation,
        a: u8,
        b: u8,
    },
    Rewrite {
        end: PacketEnd,
        table: u8,
        row: u8,
    },
    RewriteMac {
        table: u8,
        row: u8,
    },
    StoreValue {
        first: u8,
        words: u8,
    },
    ReplyValue {
        status: u8,
        first: u8,
        length: u8,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct StepCode {
    pub tests: Range<usize>,
    pub doings: Range<usize>,
    pub exit: Exit,
}

#[derive(Clone, Debug)]
pub(crate) struct FunctionCode {
    pub prologue: Range<usize>,
    pub steps: Range<usize>,
}

/// The programs of a chain, in the order of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub tests: Vec<Test>,
    pub doings: Vec<Do>,
    pub steps: Vec<StepCode>,
    pub functions: Vec<FunctionCode>,
    /// Conjunctions of tests on fields, any of which makes a packet complex whatever the state.
    pub always_complex: Vec<Range<usize>>,
}

/// Where one program's words, temporaries and tables lie among those of the chain.
#[derive(Copy, Clone)]
struct Place<'a> {
    program: &'a FastProgram,
    first_word: usize,
    first_temporary: usize,
    first_table: usize,
}

/// What compiling yields.
pub(crate) struct Compiled {
    pub codes: [Code; 2],
    pub words: usize,
    pub temporaries: Range<usize>,
    /// The register file before a packet: constants in place, all else zero.
    pub initial: [u32; REGISTERS],
    pub fields: Vec<Field>,
}

struct Compiler {
    words: usize,
    constants_start: usize,
    constants: Vec<u32>,
    uses: [bool; Field::COUNT],
    code: Code,
}

/// Compiles a chain's programs for both directions.
pub(crate) fn compile(programs: &[FastProgram]) -> Result<Compiled, CompileError> {
    let places = place(programs);
    let words = programs
        .iter()
        .map(|program| program.words.len())
        .sum::<usize>();
    let first_temporary = words + Field::COUNT;
    let constants_start = first_temporary
        + programs
            .iter()
            .map(|program| usize::from(program.temporaries))
            .sum::<usize>();
    let mut compiler = Compiler {
        words,
        constants_start,
        constants: Vec::new(),
        uses: [false; Field::COUNT],
        code: Code::default(),
    };
    let original = compiler.direction(places.iter(), Direction::Original)?;
    let reply = compiler.direction(places.iter().rev(), Direction::Reply)?;
    Ok(Compiled {
        codes: [original, reply],
        words,
        temporaries: first_temporary..constants_start,
        initial: compiler.initial_registers(),
        fields: Field::ALL
            .into_iter()
            .filter(|&field| compiler.uses[field as usize])
            .collect(),
    })
}

fn place(programs: &[FastProgram]) -> Vec<Place<'_>> {
    let mut first_word = 0;
    let mut first_temporary = programs
        .iter()
        .map(|program| program.words.len())
        .sum::<usize>()
        + Field::COUNT;
    let mut first_table = 0;
    let mut places = Vec::with_capacity(programs.len());
    for program in programs {
        places.push(Place {
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
        places: impl Iterator<Item = &'a Place<'a>>,
        direction: Direction,
    ) -> Result<Code, CompileError> {
        for place in places {
            self.function(place, direction)?;
        }
        Ok(std::mem::take(&mut self.code))
    }

    fn function(&mut self, place: &Place<'_>, direction: Direction) -> Result<(), CompileError> {
        for conditions in &place.program.always_complex {
            if let Some(tests) = self.tests(place, conditions, direction)? {
                self.code.always_complex.push(tests);
            }
        }
        let prologue = self.doings(place, &place.program.prologue)?;
        let first_step = self.code.steps.len();
        for step in &place.program.steps {
            if let Some(tests) = self.tests(place, &step.when, direction)? {
                let doings = self.doings(place, &step.then)?;
                self.code.steps.push(StepCode {
                    tests,
                    doings,
                    exit: step.exit,
                });
            }
        }
        let steps = first_step..self.code.steps.len();
        self.code.functions.push(FunctionCode { prologue, steps });
        Ok(())
    }

    /// The tests for a conjunction; `None` if the direction alone makes it false.
    fn tests(
        &mut self,
        place: &Place<'_>,
        conditions: &[Condition],
        direction: Direction,
    ) -> Result<Option<Range<usize>>, CompileError> {
        let start = self.code.tests.len();
        for condition in conditions {
            match decided(condition, direction) {
                Some(true) => {}
                Some(false) => {
                    self.code.tests.truncate(start);
                    return Ok(None);
                }
                None => {
                    let test = Test {
                        a: self.register(place, condition.a)?,
                        b: self.register(place, condition.b)?,
                        with: self.register(place, condition.with)?,
                        comparison: condition.comparison,
                        mask: condition.mask,
                    };
                    self.code.tests.push(test);
                }
            }
        }
        Ok(Some(start..self.code.tests.len()))
    }

    fn doings(
        &mut self,
        place: &Place<'_>,
        actions: &[Action],
    ) -> Result<Range<usize>, CompileError> {
        let start = self.code.doings.len();
        for action in actions {
            let doing = self.doing(place, action)?;
            self.code.doings.push(doing);
        }
        Ok(start..self.code.doings.len())
    }

    fn doing(&mut self, place: &Place<'_>, action: &Action) -> Result<Do, CompileError> {
        Ok(match *action {
            Action::Compute {
                to,
                operation,
                a,
                b,
            } => {
                if !matches!(to, Operand::Word(_) | Operand::Temporary(_)) {
                    return Err(CompileError::NotWritable {
                        program: place.program.name,
                    });
                }
                Do::Compute {
                    to: self.register(place, to)?,
                    operation,
                    a: self.register(place, a)?,
                    b: self.register(place, b)?,
                }
            }
            Action::Rewrite { end, table, row } => Do::Rewrite {
                end,
                table: table_index(place, table)?,
                row: self.register(place, row)?,
            },
            Action::RewriteMac { table, row } => Do::RewriteMac {
                table: table_index(place, table)?,
                row: self.register(place, row)?,
            },
            Action::StoreValue { first, words } => {
                self.register(place, Operand::Word((first + words).saturating_sub(1)))?;
                Do::StoreValue {
                    first: self.register(place, Operand::Word(first))?,
                    words,
                }
            }
            Action::ReplyValue {
                status,
                first,
                length,
            } => Do::ReplyValue {
                status,
                first: self.register(place, Operand::Word(first))?,
                length: self.register(place, length)?,
            },
        })
    }

    fn register(&mut self, place: &Place<'_>, operand: Operand) -> Result<u8, CompileError> {
        let undeclared = CompileError::Undeclared {
            program: place.program.name,
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
                self.uses[field as usize] = true;
                self.words + field as usize
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
        self.constants_start
            + known.unwrap_or_else(|| {
                self.constants.push(value);
                self.constants.len() - 1
            })
    }

    fn initial_registers(&self) -> [u32; REGISTERS] {
        let mut registers = [0; REGISTERS];
        for (register, &constant) in registers[self.constants_start..]
            .iter_mut()
            .zip(&self.constants)
        {
            *register = constant;
        }
        registers
    }
}

fn table_index(place: &Place<'_>, table: u8) -> Result<u8, CompileError> {
    let known = usize::from(table) < place.program.tables.len();
    let index = place.first_table + usize::from(table);
    if known {
        u8::try_from(index).map_err(|_| CompileError::Registers)
    } else {
        Err(CompileError::Undeclared {
            program: place.program.name,
        })
    }
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

/// Whether `left` compares with `right`.
#[inline(always)]
pub(crate) fn holds(comparison: Comparison, left: u32, right: u32) -> bool {
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
