//! A chain's programs as x86-64 machine code, made when the service is built.
//!
//! The code does what the [interpreter](crate::interpreter) would do, on the flow's words where
//! they lie in the state table and on the packet where its headers were found. What it cannot do
//! (copying values between payload and state, functions of which several rewrite packets in ways
//! that depend on each other) stays with the interpreter, and so does every other processor.
//!
//! This is the one place of the crate with `unsafe` code: calling what was generated. Its memory
//! is written first and made executable then, never both.

mod instructions;
mod translate;

#[cfg(test)]
mod tests;

use crate::compile::{Compiled, MAX_REWRITES, Opcode};
use dynasmrt::x64::Assembler;
use dynasmrt::{AssemblyOffset, DynasmApi, ExecutableBuffer};
use instructions::Instructions;
use translate::{Reasons, Rows, Translator, Unsupported};
use twinpath_core::Direction;
use twinpath_core::program::{EndpointRow, Exit, Field};

/// Values that code can keep outside registers.
const SPARE: usize = 256;

/// What code answers.
mod answer {
    pub const FORWARD: u32 = 0;
    pub const REPLY: u32 = 1;
    pub const COMPLEX: u32 = 2;
    /// Dropped for the first of the reasons; the others follow.
    pub const FIRST_DROP: u32 = 3;
}

/// A rewrite that code decided on.
#[derive(Copy, Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Planned {
    what: u32,
    row: u32,
}

impl Planned {
    /// Whether it is none, as by default: no opcode that rewrites has the number zero.
    #[inline(always)]
    pub const fn is_nothing(&self) -> bool {
        self.what == 0
    }

    /// Which opcode planned it.
    #[inline(always)]
    pub const fn is(&self, opcode: Opcode) -> bool {
        self.what == opcode as u32
    }

    /// The row, counted through all tables.
    #[inline(always)]
    pub const fn row(&self) -> u32 {
        self.row
    }
}

/// Memory that code and its caller share.
#[repr(C)]
struct Context {
    planned: u32,
    /// Where nothing is planned the first is nothing.
    rewrites: [Planned; MAX_REWRITES],
    /// Nanoseconds since the run began.
    elapsed: u64,
    /// Fields that are not passed in registers, each at its number.
    fields: [u32; Field::COUNT],
    spare: [u32; SPARE],
}

/// The flow's words, the TCP header, the context, the time in ticks, the row that the source
/// stands for plus one, and bytes of payload.
type Entry =
    unsafe extern "sysv64" fn(*mut u32, *const [u8; 20], *mut Context, u32, u32, u32) -> u32;

/// What a packet shows to code.
pub(crate) struct Input<'a> {
    /// Which way it goes.
    pub direction: Direction,
    /// Its TCP header; zeros if it has none.
    pub tcp: &'a [u8; 20],
    /// Its time in ticks.
    pub now_ticks: u32,
    /// The row that its source stands for, plus one.
    pub alias_row: u32,
    /// Bytes of payload.
    pub payload_length: u32,
}

/// What code answered.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Answer(u32);

impl Answer {
    /// Whether the packet goes on.
    #[inline(always)]
    pub const fn is_forward(self) -> bool {
        self.0 == answer::FORWARD
    }
}

/// The machine code of a chain.
pub(crate) struct Native {
    entries: [Entry; 2],
    words: usize,
    reasons: Reasons,
    context: Box<Context>,
    needs_more: bool,
    // What `entries` point into, and what that code points into.
    _code: ExecutableBuffer,
    _rows: Vec<Rows>,
}

impl Native {
    /// Makes the code; `None` if it takes the interpreter, or if the system grants no executable
    /// memory.
    pub fn new(compiled: &Compiled, tables: &[Vec<EndpointRow>]) -> Option<Self> {
        let mut first = 0;
        let rows = tables.iter().map(|rows| {
            let known = Rows::new(first, rows.iter().map(|row| row.until));
            first += rows.len();
            known
        });
        let rows: Vec<Rows> = rows.collect();
        let mut instructions = Instructions(Assembler::new().ok()?);
        let mut reasons = Vec::new();
        let starts = Direction::BOTH.map(|direction| {
            translate(direction, compiled, &rows, &mut instructions, &mut reasons)
        });
        let [original, reply] = starts.map(Result::ok);
        let (original, reply) = (original?, reply?);
        let code = instructions.0.finalize().ok()?;
        let entries = [original, reply].map(|start| {
            // SAFETY: the translator wrote a function of this type at `start`, which is in the
            // buffer; `_code` keeps it there for as long as `self` lives.
            unsafe { std::mem::transmute::<*const u8, Entry>(code.ptr(start)) }
        });
        Some(Self {
            entries,
            words: compiled.words,
            reasons,
            context: Box::new(Context {
                planned: 0,
                rewrites: [Planned::default(); MAX_REWRITES],
                elapsed: 0,
                fields: [0; Field::COUNT],
                spare: [0; SPARE],
            }),
            needs_more: rows.iter().any(|rows| rows.until.is_some())
                || compiled.uses.protocol
                || compiled.uses.segment_length
                || compiled.uses.payload
                || compiled.uses.checksums
                || compiled.uses.packet_length
                || compiled.uses.nanoseconds,
            _code: code,
            _rows: rows,
        })
    }

    /// Sets a field that does not come with [`Input`].
    #[inline(always)]
    pub fn set_field(&mut self, field: Field, value: u32) {
        self.context.fields[field as usize] = value;
    }

    /// Whether code needs more than [`Input`]: the fields of [`Self::set_field`], or
    /// [`Self::set_elapsed`].
    #[inline(always)]
    pub fn needs_more(&self) -> bool {
        self.needs_more
    }

    /// Sets for how long the run has lasted, in nanoseconds.
    #[inline(always)]
    pub fn set_elapsed(&mut self, elapsed: u64) {
        // Rows that stay are there until the last number.
        self.context.elapsed = elapsed.min(u64::MAX - 1);
    }

    /// Decides on a packet. Changes the words unless the packet is complex.
    ///
    /// # Panics
    /// If the words are not the chain's.
    #[inline(always)]
    pub fn run(&mut self, input: &Input<'_>, words: &mut [u32]) -> Answer {
        // The lengths themselves, if they were told, would be kept for every packet.
        assert!(words.len() == self.words, "words of another chain");
        let entry = self.entries[input.direction.index()];
        // SAFETY: the code reads and writes the chain's words, as many as asserted above; reads
        // the twenty bytes of `tcp`; reads and writes the context, at offsets that `offset_of`
        // gave, with indices that the translator checked; and reads rows' ends at an index that
        // it compares with their number. All of them are borrowed or owned here. It keeps the
        // calling convention's registers and uses no stack.
        let answer = unsafe {
            entry(
                words.as_mut_ptr(),
                input.tcp,
                &raw mut *self.context,
                input.now_ticks,
                input.alias_row,
                input.payload_length,
            )
        };
        Answer(answer)
    }

    /// What an answer says.
    #[inline(always)]
    pub fn exit(&self, answer: Answer) -> Exit {
        match answer.is_forward() {
            true => Exit::Continue,
            false => self.other_exit(answer.0),
        }
    }

    #[inline(never)]
    fn other_exit(&self, answer: u32) -> Exit {
        let reason = |number| self.reasons.get(number as usize).copied();
        match answer {
            answer::REPLY => Exit::Reply,
            answer::COMPLEX => Exit::Escalate,
            drop => Exit::Drop(
                reason(drop - answer::FIRST_DROP).expect("code answers with a number it was given"),
            ),
        }
    }

    /// The rewrites that the last packet needs.
    #[inline(always)]
    pub fn planned(&self) -> &[Planned] {
        let count = self.context.planned as usize;
        &self.context.rewrites[..count.min(MAX_REWRITES)]
    }

    /// The first of them, or nothing; `None` if there are several.
    #[inline(always)]
    pub fn only_planned(&self) -> Option<Planned> {
        match self.context.planned {
            0 | 1 => Some(self.context.rewrites[0]),
            _ => None,
        }
    }
}

fn translate(
    direction: Direction,
    compiled: &Compiled,
    tables: &[Rows],
    instructions: &mut Instructions,
    reasons: &mut Reasons,
) -> Result<AssemblyOffset, Unsupported> {
    let start = instructions.0.offset();
    let complex = instructions.label();
    Translator {
        instructions,
        compiled,
        tables,
        direction,
        reasons,
        complex,
        waiting: Vec::new(),
        spare_used: 0,
    }
    .translate(&compiled.codes[direction.index()])?;
    Ok(start)
}
