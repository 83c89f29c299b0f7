//! Translates a chain's code for one direction.
//!
//! Every test and every action is straight code on the flow's words where they lie; a value that
//! an action computes goes to a register or to the context, and words are written only where a
//! packet leaves, so that one which escalates has changed nothing.
#![deny(unsafe_code)]

use super::instructions::{Binary, Instructions, Jump, Location, register};
use super::{Context, Planned, SPARE, answer};
use crate::compile::{
    Code, Compiled, FIRST_WORD, FunctionCode, Instruction, MAX_REWRITES, Opcode, Passes, StepCode,
    Test, calculate,
};
use dynasmrt::DynamicLabel;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use twinpath_core::program::{Comparison, Exit, Field};
use twinpath_core::{Direction, DropReason, Instant};

/// Something that only the interpreter does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Unsupported;

/// A table's rows, as code needs to know them.
pub(super) struct Rows {
    /// Rows of the tables before.
    pub first: usize,
    pub count: usize,
    /// Until when each row is there, unless all stay.
    pub until: Option<Box<[u64]>>,
}

/// Reasons that code drops for, by their number in what it answers.
pub(super) type Reasons = Vec<DropReason>;

/// Writes one direction's code.
pub(super) struct Translator<'a> {
    pub instructions: &'a mut Instructions,
    pub compiled: &'a Compiled,
    pub tables: &'a [Rows],
    pub direction: Direction,
    pub reasons: &'a mut Reasons,
    /// Where packets go that are complex.
    pub complex: DynamicLabel,
    /// Words of functions that have let the packet on: their numbers, and where the values wait.
    pub waiting: Vec<(u8, Location)>,
    /// Places of the context in use.
    pub spare_used: usize,
}

/// What is known at one point of the code.
#[derive(Clone)]
struct Scope {
    /// Registers of the interpreter whose value is not where it was at the start.
    moved: BTreeMap<u8, Location>,
    written: BTreeSet<u8>,
    free_register: Option<u8>,
    spare_used: usize,
    /// Changes planned so far, if that is the same on every way to here.
    planned: Option<usize>,
}

impl Translator<'_> {
    /// Writes it all.
    pub fn translate(mut self, code: &Code) -> Result<(), Unsupported> {
        let rewrites = |code: &Code| {
            code.instructions()
                .any(|instruction| instruction.opcode.rewrites())
        };
        if self.compiled.codes.iter().any(rewrites) {
            self.plan_nothing();
        }
        self.always_complex(code);
        let mut planned = Some(0);
        for (number, function) in code.functions.iter().enumerate() {
            let next = (number + 1 < code.functions.len()).then(|| self.instructions.label());
            planned = self.function(function, planned, next)?;
            if let Some(next) = next {
                self.instructions.bind(next);
            }
        }
        if code.functions.is_empty() {
            self.instructions.leave(answer::FORWARD);
        }
        self.instructions.bind(self.complex);
        self.instructions.leave(answer::COMPLEX);
        Ok(())
    }

    fn always_complex(&mut self, code: &Code) {
        let scope = Scope::new(None, self.spare_used);
        for tests in &code.always_complex {
            let Some(open) = self.open_tests(&scope, tests) else {
                continue;
            };
            let Some((last, others)) = open.split_last() else {
                return self.instructions.go(self.complex);
            };
            let next = self.instructions.label();
            for test in others {
                self.test(&scope, test, false, next);
            }
            self.test(&scope, last, true, self.complex);
            self.instructions.bind(next);
        }
    }

    /// Writes a function's steps. `next` is where packets go on; `None` after the last function.
    /// Returns how many changes are planned then.
    fn function(
        &mut self,
        function: &FunctionCode,
        planned: Option<usize>,
        next: Option<DynamicLabel>,
    ) -> Result<Option<usize>, Unsupported> {
        let mut scope = Scope::new(planned, self.spare_used);
        let waiting = match next {
            Some(_) => self.places_to_wait(function)?,
            None => Vec::new(),
        };
        scope.spare_used = self.spare_used;
        for instruction in &function.prologue {
            self.compute(&mut scope, instruction)?;
        }
        let mut planned_after = BTreeSet::new();
        let mut is_open = true;
        for step in &function.steps {
            let Some(tests) = self.open_tests(&scope, &step.tests) else {
                continue;
            };
            let otherwise = self.instructions.label();
            for test in &tests {
                self.test(&scope, test, false, otherwise);
            }
            let mut scope = scope.clone();
            let on = next.map(|next| (next, &waiting[..]));
            if self.step(&mut scope, step, on)? {
                planned_after.insert(scope.planned);
            }
            self.instructions.bind(otherwise);
            if tests.is_empty() {
                is_open = false;
                break;
            }
        }
        if is_open {
            self.instructions.go(self.complex);
        }
        self.waiting.extend(waiting);
        Ok(match planned_after.len() {
            1 => planned_after.pop_first().flatten(),
            _ => None,
        })
    }

    /// Places for the words that a function may write, where they wait for the packet to leave.
    fn places_to_wait(
        &mut self,
        function: &FunctionCode,
    ) -> Result<Vec<(u8, Location)>, Unsupported> {
        let steps = function.steps.iter().flat_map(|step| &step.instructions);
        let written: BTreeSet<u8> = function
            .prologue
            .iter()
            .chain(steps)
            .filter(|instruction| !instruction.opcode.rewrites())
            .map(|instruction| instruction.to)
            .filter(|&register| self.is_word(register))
            .collect();
        written
            .into_iter()
            .map(|word| Ok((word, spare(&mut self.spare_used)?)))
            .collect()
    }

    /// Writes what a step does and how it ends. Returns whether packets go on to a next function.
    fn step(
        &mut self,
        scope: &mut Scope,
        step: &StepCode,
        on: Option<(DynamicLabel, &[(u8, Location)])>,
    ) -> Result<bool, Unsupported> {
        if step.exit == Exit::Escalate {
            self.instructions.go(self.complex);
            return Ok(false);
        }
        let before = scope.planned;
        for instruction in &step.instructions {
            match instruction.opcode.rewrites() {
                true => self.plan(scope, instruction)?,
                false => self.compute(scope, instruction)?,
            }
        }
        if let Some(planned) = scope.planned
            && scope.planned != before
        {
            self.plan_count(planned);
        }
        match (step.exit, on) {
            (Exit::Continue, Some((next, waiting))) => {
                for &(word, place) in waiting {
                    let value = self.place(scope, word);
                    self.store(place, value);
                }
                self.instructions.go(next);
                return Ok(true);
            }
            (Exit::Continue, None) => self.leave(scope, answer::FORWARD),
            (Exit::Reply, _) => self.leave(scope, answer::REPLY),
            (Exit::Drop(reason), _) => {
                let number = self.reasons.len() as u32;
                self.reasons.push(reason);
                self.leave(scope, answer::FIRST_DROP + number);
            }
            (Exit::Escalate, _) => {}
        }
        Ok(false)
    }

    /// Writes the words and returns.
    fn leave(&mut self, scope: &Scope, answer: u32) {
        for (word, value) in self.waiting.clone() {
            self.store(self.home(word), value);
        }
        for &word in &scope.written {
            let value = self.place(scope, word);
            self.store(self.home(word), value);
        }
        self.instructions.leave(answer);
    }

    fn store(&mut self, to: Location, value: Location) {
        if let Location::Memory { base, offset } = to
            && value != to
        {
            self.instructions.store(base, offset, value);
        }
    }

    fn plan_nothing(&mut self) {
        self.plan_count(0);
        let first = offset_of!(Context, rewrites) + offset_of!(Planned, what);
        let nothing = Location::Constant(0);
        self.instructions
            .store(register::CONTEXT, first as i32, nothing);
    }

    fn plan_count(&mut self, count: usize) {
        let offset = offset_of!(Context, planned) as i32;
        let count = Location::Constant(count as u32);
        self.instructions.store(register::CONTEXT, offset, count);
    }

    /// Plans a rewrite to a row, which must be there.
    fn plan(&mut self, scope: &mut Scope, instruction: &Instruction) -> Result<(), Unsupported> {
        let planned = scope.planned.ok_or(Unsupported)?;
        if planned >= MAX_REWRITES {
            self.instructions.go(self.complex);
            return Ok(());
        }
        let rows = self
            .tables
            .get(usize::from(instruction.to))
            .ok_or(Unsupported)?;
        let row = self.place(scope, instruction.a);
        let count = Location::Constant(u32::try_from(rows.count).map_err(|_| Unsupported)?);
        self.instructions.compare(row, count);
        let is_outside = Jump {
            comparison: Comparison::AtLeast,
            when: true,
        };
        self.instructions.jump(is_outside, self.complex);
        if let Some(until) = &rows.until {
            let elapsed = offset_of!(Context, elapsed) as i32;
            self.instructions
                .jump_if_at_least(elapsed, until.as_ptr(), row, self.complex);
        }
        let change = offset_of!(Context, rewrites) + planned * size_of::<Planned>();
        let what = Location::Constant(instruction.opcode as u32);
        let first = u32::try_from(rows.first).map_err(|_| Unsupported)?;
        let row = match first {
            0 => row,
            _ => {
                let instructions = &mut self.instructions;
                instructions.load(register::SCRATCH, row);
                instructions.binary(Binary::Add, register::SCRATCH, Location::Constant(first));
                Location::Register(register::SCRATCH)
            }
        };
        let mut store = |field, value| {
            self.instructions
                .store(register::CONTEXT, (change + field) as i32, value);
        };
        store(offset_of!(Planned, row), row);
        store(offset_of!(Planned, what), what);
        scope.planned = Some(planned + 1);
        Ok(())
    }

    fn compute(&mut self, scope: &mut Scope, instruction: &Instruction) -> Result<(), Unsupported> {
        let (a, b) = (
            self.place(scope, instruction.a),
            self.place(scope, instruction.b),
        );
        let value = match (simplified(instruction.opcode, a, b), a) {
            (Some(place), _) if !is_in_table(place) => place,
            (Some(place), _) => self.copied(scope, place)?,
            (None, _) => self.calculated(scope, instruction.opcode, a, b)?,
        };
        scope.moved.insert(instruction.to, value);
        if self.is_word(instruction.to) {
            scope.written.insert(instruction.to);
        }
        Ok(())
    }

    /// Words in the table are overwritten at the end, in any order: none may be read then.
    fn copied(&mut self, scope: &mut Scope, place: Location) -> Result<Location, Unsupported> {
        self.filled_place(scope, |instructions, to| instructions.load(to, place))
    }

    fn calculated(
        &mut self,
        scope: &mut Scope,
        opcode: Opcode,
        a: Location,
        b: Location,
    ) -> Result<Location, Unsupported> {
        if opcode.copies_payload() {
            return Err(Unsupported);
        }
        self.filled_place(scope, |instructions, to| {
            instructions.load(to, a);
            match opcode {
                Opcode::Add => instructions.binary(Binary::Add, to, b),
                Opcode::Subtract => instructions.binary(Binary::Subtract, to, b),
                Opcode::And => instructions.binary(Binary::And, to, b),
                Opcode::Or => instructions.binary(Binary::Or, to, b),
                Opcode::Xor => instructions.binary(Binary::Xor, to, b),
                Opcode::ShiftLeft => instructions.shift_left(to, b),
                Opcode::ShiftRight => instructions.shift_right(to, b),
                Opcode::Minimum => instructions.minimum(to, b),
                Opcode::Maximum => instructions.maximum(to, b),
                Opcode::Multiply => instructions.multiply(to, b),
                _ => instructions.later(to, b),
            }
        })
    }

    /// A place that holds nothing else, filled by `write` through a register.
    fn filled_place(
        &mut self,
        scope: &mut Scope,
        write: impl FnOnce(&mut Instructions, u8),
    ) -> Result<Location, Unsupported> {
        if let Some(free) = scope.free_register.take() {
            write(self.instructions, free);
            return Ok(Location::Register(free));
        }
        let place = spare(&mut scope.spare_used)?;
        write(self.instructions, register::SCRATCH);
        self.store(place, Location::Register(register::SCRATCH));
        Ok(place)
    }

    /// The tests of a conjunction that have to be made; `None` if one of them never passes.
    fn open_tests<'t>(&self, scope: &Scope, tests: &'t [Test]) -> Option<Vec<&'t Test>> {
        let mut open = Vec::with_capacity(tests.len());
        for test in tests {
            match self.decided(scope, test) {
                Some(true) => {}
                Some(false) => return None,
                None => open.push(test),
            }
        }
        Some(open)
    }

    fn decided(&self, scope: &Scope, test: &Test) -> Option<bool> {
        let constant = |register| match self.place(scope, register) {
            Location::Constant(value) => Some(value),
            _ => None,
        };
        let left = constant(test.a)?.wrapping_sub(constant(test.b)?) & test.mask;
        let with = match test.passes {
            Passes::Within { .. } => 0,
            Passes::Compared { with, .. } => constant(with)?,
        };
        Some(test.passes.holds(left, |_| with))
    }

    /// Jumps if the test passes, or if it does not.
    fn test(&mut self, scope: &Scope, test: &Test, when: bool, to: DynamicLabel) {
        let comparison = match test.passes {
            Passes::Compared { comparison, with } => {
                let with = self.place(scope, with);
                self.compare_left(scope, test, with);
                comparison
            }
            Passes::Within { low, span: 0 } => {
                self.compare_with_constant(scope, test, low);
                Comparison::Equal
            }
            Passes::Within { low, span } if span == u32::MAX - 1 => {
                self.compare_with_constant(scope, test, low.wrapping_sub(1));
                Comparison::NotEqual
            }
            Passes::Within { low: 0, span } => {
                self.compare_left(scope, test, Location::Constant(span));
                Comparison::AtMost
            }
            Passes::Within { low, span } => {
                self.load_left(scope, test);
                let instructions = &mut self.instructions;
                instructions.binary(Binary::Subtract, register::SCRATCH, Location::Constant(low));
                instructions.binary(Binary::Compare, register::SCRATCH, Location::Constant(span));
                Comparison::AtMost
            }
        };
        self.instructions.jump(Jump { comparison, when }, to);
    }

    /// Compares for equality alone.
    fn compare_with_constant(&mut self, scope: &Scope, test: &Test, value: u32) {
        let (a, b) = (self.place(scope, test.a), self.place(scope, test.b));
        match (b, test.mask, value) {
            (Location::Constant(0), mask, 0) if mask != u32::MAX => {
                self.instructions.test_bits(a, mask);
            }
            (_, u32::MAX, 0) => self.instructions.compare(a, b),
            _ => self.compare_left(scope, test, Location::Constant(value)),
        }
    }

    fn compare_left(&mut self, scope: &Scope, test: &Test, with: Location) {
        let (a, b) = (self.place(scope, test.a), self.place(scope, test.b));
        if b == Location::Constant(0) && test.mask == u32::MAX {
            return self.instructions.compare(a, with);
        }
        self.load_left(scope, test);
        self.instructions
            .compare(Location::Register(register::SCRATCH), with);
    }

    /// `(a - b) & mask`, in the scratch register.
    fn load_left(&mut self, scope: &Scope, test: &Test) {
        let (a, b) = (self.place(scope, test.a), self.place(scope, test.b));
        self.instructions.load(register::SCRATCH, a);
        if b != Location::Constant(0) {
            self.instructions
                .binary(Binary::Subtract, register::SCRATCH, b);
        }
        if test.mask != u32::MAX {
            let mask = Location::Constant(test.mask);
            self.instructions
                .binary(Binary::And, register::SCRATCH, mask);
        }
    }

    /// Where the value of one of the interpreter's registers is.
    fn place(&self, scope: &Scope, number: u8) -> Location {
        if let Some(place) = scope.moved.get(&number) {
            return *place;
        }
        match Field::ALL.get(usize::from(number)) {
            Some(&field) => self.field(field),
            None if self.is_word(number) => self.home(number),
            // A constant, or a temporary, which is zero at first.
            None => Location::Constant(self.compiled.initial[usize::from(number)]),
        }
    }

    fn field(&self, field: Field) -> Location {
        match field {
            Field::Direction => Location::Constant(self.direction as u32),
            Field::TcpFlags => Location::TcpFlags,
            Field::TcpSequence => Location::TcpLong(4),
            Field::TcpAcknowledgement => Location::TcpLong(8),
            Field::TcpWindow => Location::TcpWindow,
            Field::PayloadLength => Location::Register(register::PAYLOAD_LENGTH),
            Field::NowTicks => Location::Register(register::NOW),
            Field::AliasRow => Location::Register(register::ALIAS_ROW),
            Field::Protocol
            | Field::SegmentLength
            | Field::WindowMatch
            | Field::KvOperation
            | Field::KvValueLength
            | Field::ChecksumsHold
            | Field::PacketLength
            | Field::NowLow
            | Field::NowHigh => Location::Memory {
                base: register::CONTEXT,
                offset: (offset_of!(Context, fields) + 4 * field as usize) as i32,
            },
        }
    }

    fn is_word(&self, number: u8) -> bool {
        (FIRST_WORD..FIRST_WORD + self.compiled.words).contains(&usize::from(number))
    }

    /// A word's place in the table.
    fn home(&self, word: u8) -> Location {
        Location::Memory {
            base: register::WORDS,
            offset: 4 * (i32::from(word) - FIRST_WORD as i32),
        }
    }
}

impl Scope {
    fn new(planned: Option<usize>, spare_used: usize) -> Self {
        Self {
            moved: BTreeMap::new(),
            written: BTreeSet::new(),
            free_register: Some(register::VALUE),
            spare_used,
            planned,
        }
    }
}

const fn is_in_table(place: Location) -> bool {
    matches!(
        place,
        Location::Memory {
            base: register::WORDS,
            ..
        }
    )
}

/// One more place of the context.
fn spare(used: &mut usize) -> Result<Location, Unsupported> {
    let number = *used;
    if number >= SPARE {
        return Err(Unsupported);
    }
    *used += 1;
    Ok(Location::Memory {
        base: register::CONTEXT,
        offset: (offset_of!(Context, spare) + 4 * number) as i32,
    })
}

/// What needs no instruction: arithmetic on constants, and copies.
fn simplified(opcode: Opcode, a: Location, b: Location) -> Option<Location> {
    use Opcode::{Add, Or, ShiftLeft, ShiftRight, Subtract, Xor};
    if opcode.copies_payload() {
        return None;
    }
    match (a, b) {
        (Location::Constant(a), Location::Constant(b)) => {
            Some(Location::Constant(calculate(opcode, a, b)))
        }
        (_, Location::Constant(0)) => {
            matches!(opcode, Add | Or | ShiftLeft | ShiftRight | Subtract | Xor).then_some(a)
        }
        (Location::Constant(0), _) => matches!(opcode, Add | Or | Xor).then_some(b),
        _ => None,
    }
}

impl Rows {
    /// What code needs to know of a table.
    pub fn new(first: usize, until: impl ExactSizeIterator<Item = Instant>) -> Self {
        let until: Box<[u64]> = until.map(|until| until.0).collect();
        let ends = until.iter().any(|&until| until != Instant::NEVER.0);
        Self {
            first,
            count: until.len(),
            until: ends.then_some(until),
        }
    }
}
