//! Runs a chain's fast programs on one packet.
//!
//! Where there is [machine code](crate::native) for the chain it runs instead; callers see no
//! difference.

use crate::compile::{
    Code, Compiled, FIRST_WORD, FunctionCode, Instruction, MAX_REWRITES, Opcode, REGISTERS,
    StepCode, Test, Uses, calculate, compile,
};
use crate::few_words::copy_few;
use crate::native::{Answer, Input, Native, Planned};
use std::borrow::Cow;
use std::sync::Arc;
use twinpath_core::key::KeyKind;
use twinpath_core::key_value::{operation, write_reply};
use twinpath_core::program::{
    EndpointRow, Exit, FastProgram, Field, PacketEnd, WINDOW_BYTES, WindowMatcher,
};
use twinpath_core::wire::layout::{Layout, Plain, Transport};
use twinpath_core::wire::rewrite::NewEndpoint;
use twinpath_core::wire::{
    MacAddress, ethernet, fields, kv, rewrite, verify_ipv4_checksum, verify_transport_checksum,
};
use twinpath_core::{Direction, Frame, Instant, Keyed};

pub use crate::compile::CompileError;

/// A packet as the fast path sees it after parsing.
#[derive(Copy, Clone, Debug)]
pub struct PacketView<'a> {
    /// Its bytes, from Ethernet on.
    pub bytes: &'a [u8],
    /// Where its headers are.
    pub layout: &'a Layout,
    /// Its flow.
    pub keyed: &'a Keyed,
    /// Which way it goes.
    pub direction: Direction,
    /// When it arrived.
    pub now: Instant,
}

/// What [`PlainPrograms::run`] has to know of a packet besides its bytes.
#[derive(Copy, Clone, Debug)]
pub struct PlainView {
    /// What it was found to be.
    pub plain: Plain,
    /// Which way it goes.
    pub direction: Direction,
    /// The row that its source stands for, plus one; 0 for none.
    pub alias_row: u32,
}

/// What one program does with a packet, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepTaken {
    /// The program.
    pub program: Cow<'static, str>,
    /// The first of its steps whose conditions all hold; `None` if there is none.
    pub step: Option<&'static str>,
    /// Where the packet goes. A step whose actions turn out to be impossible escalates.
    pub exit: Exit,
}

#[derive(Copy, Clone)]
enum Rewrite {
    End(PacketEnd, u8, u32),
    Mac(u8, u32),
    Reply { status: u8, first: u8, length: u32 },
}

/// The fused programs of a chain, with the machine they run on.
pub struct Interpreter {
    codes: [Code; 2],
    words: usize,
    uses: Uses,
    window: Option<Arc<dyn WindowMatcher>>,
    machine: Machine,
    native: Option<Native>,
}

impl Interpreter {
    /// Fuses the programs of a chain, in its order, to machine code where that is possible.
    ///
    /// # Errors
    /// Programs that contradict themselves or do not fit together.
    pub fn new(programs: &[FastProgram]) -> Result<Self, CompileError> {
        Self::build(programs, Native::new)
    }

    /// The same without machine code.
    ///
    /// # Errors
    /// As [`Self::new`].
    #[cfg(test)]
    pub fn without_machine_code(programs: &[FastProgram]) -> Result<Self, CompileError> {
        Self::build(programs, |_, _| None)
    }

    fn build(
        programs: &[FastProgram],
        native: impl FnOnce(&Compiled, &[Vec<EndpointRow>]) -> Option<Native>,
    ) -> Result<Self, CompileError> {
        let compiled = compile(programs)?;
        let tables: Vec<_> = programs
            .iter()
            .flat_map(|program| program.tables.iter().map(|table| table.rows.clone()))
            .collect();
        Ok(Self {
            native: native(&compiled, &tables),
            codes: compiled.codes,
            words: compiled.words,
            uses: compiled.uses,
            window: only_window(programs)?,
            machine: Machine::new(compiled.initial, &tables),
        })
    }

    /// Whether the programs run as machine code.
    #[cfg(test)]
    pub fn has_machine_code(&self) -> bool {
        self.native.is_some()
    }

    /// Tells when the run began; rows of endpoint tables end relative to it.
    pub fn start(&mut self, now: Instant) {
        self.machine.started = now;
    }

    /// State words of the chain.
    pub fn word_count(&self) -> usize {
        self.words
    }

    /// Whether the packet is complex whatever its flow's state.
    pub fn is_always_complex(&mut self, packet: &PacketView<'_>) -> bool {
        self.load_fields(packet);
        let code = &self.codes[packet.direction.index()];
        self.machine.matches_always_complex(code)
    }

    /// Runs the programs on a packet with the flow's state words, and tells how it leaves the last
    /// one. Neither is changed: the new words are in [`Self::words`], and count unless the packet
    /// is [complex](Exit::Escalate); one that goes on or back changes with [`Self::commit`].
    pub fn run(&mut self, packet: &PacketView<'_>, words: &[u32]) -> Exit {
        copy_few(
            &mut self.machine.registers[FIRST_WORD..FIRST_WORD + self.words],
            words,
        );
        match &mut self.native {
            Some(native) => {
                let words = &mut self.machine.registers[FIRST_WORD..FIRST_WORD + self.words];
                run_native(
                    native,
                    self.uses,
                    self.window.as_deref(),
                    self.machine.started,
                    packet,
                    words,
                )
            }
            None => self.interpret(packet),
        }
    }

    /// Runs the programs on a packet and the flow's state words, which change unless the packet
    /// is complex. The packet changes with [`Self::commit`].
    #[inline]
    pub fn run_in_place(&mut self, packet: &PacketView<'_>, words: &mut [u32]) -> Exit {
        if let Some(native) = &mut self.native {
            let window = self.window.as_deref();
            return run_native(
                native,
                self.uses,
                window,
                self.machine.started,
                packet,
                words,
            );
        }
        let packet = *packet;
        let exit = self.run(&packet, words);
        if exit != Exit::Escalate {
            copy_few(words, self.words());
        }
        exit
    }

    /// What each program does, in order, with a packet and the flow's state words, up to the one
    /// that does not let it go on. Nothing changes.
    pub fn steps_taken(&mut self, packet: &PacketView<'_>, words: &[u32]) -> Vec<StepTaken> {
        copy_few(
            &mut self.machine.registers[FIRST_WORD..FIRST_WORD + self.words],
            words,
        );
        self.load_fields(packet);
        self.machine.rewrite_count = 0;
        let mut taken = Vec::new();
        for function in &self.codes[packet.direction.index()].functions {
            let (step, exit) = self.machine.run(function, packet);
            taken.push(StepTaken {
                program: function.name.clone(),
                step: step.map(|step| step.name),
                exit,
            });
            if exit != Exit::Continue {
                break;
            }
        }
        taken
    }

    /// [`Self::run`] on the words that are in the registers.
    fn interpret(&mut self, packet: &PacketView<'_>) -> Exit {
        self.load_fields(packet);
        self.machine.rewrite_count = 0;
        let code = &self.codes[packet.direction.index()];
        if self.machine.matches_always_complex(code) {
            return Exit::Escalate;
        }
        for function in &code.functions {
            let exit = self.machine.run(function, packet).1;
            if exit != Exit::Continue {
                return exit;
            }
        }
        Exit::Continue
    }

    /// The state words after [`Self::run`].
    #[inline(always)]
    pub fn words(&self) -> &[u32] {
        &self.machine.registers[FIRST_WORD..FIRST_WORD + self.words]
    }

    /// Applies the planned rewrites to the packet that [`Self::run`] last decided on. Returns
    /// whether all of them could be made (an address family that differs cannot).
    #[inline]
    pub fn commit(&mut self, frame: &mut Frame, layout: &Layout) -> bool {
        match &self.native {
            Some(native) => self.machine.commit_planned(native, frame, layout),
            None => self.machine.commit(frame, layout),
        }
    }

    /// The programs as the packets of a batch meet them, plain ones in a shorter way. `None` without machine code, and where programs
    /// look into payloads: then [`Self::run_in_place`] and [`Self::commit`] do the same.
    #[inline(always)]
    pub fn plain_programs(&mut self) -> Option<PlainPrograms<'_>> {
        if self.uses.payload {
            return None;
        }
        Some(PlainPrograms {
            native: self.native.as_mut()?,
            machine: &self.machine,
            uses: self.uses,
        })
    }

    #[inline(always)]
    fn load_fields(&mut self, packet: &PacketView<'_>) {
        let payload_length = payload_length(packet.layout);
        let mut set = |field: Field, value| self.machine.registers[field as usize] = value;
        set(Field::Direction, packet.direction as u32);
        set(Field::Protocol, u32::from(packet.layout.protocol));
        set(Field::PayloadLength, payload_length);
        set(Field::NowTicks, packet.now.ticks());
        set(Field::AliasRow, packet.keyed.alias_row);
        set(Field::PacketLength, packet_length(packet.layout));
        let [low, high] = halves(packet.now);
        set(Field::NowLow, low);
        set(Field::NowHigh, high);
        if self.uses.tcp_flags || self.uses.tcp_numbers {
            let tcp = tcp_header(packet);
            let header = tcp.unwrap_or(&[0; 20]);
            set(Field::TcpFlags, u32::from(header[13]));
            set(Field::SegmentLength, segment_length(tcp, payload_length));
            if self.uses.tcp_numbers {
                let long = |at: usize| u32_of(header, at);
                set(Field::TcpSequence, long(4));
                set(Field::TcpAcknowledgement, long(8));
                set(Field::TcpWindow, long(12) & 0xffff);
            }
        }
        if self.uses.checksums {
            let hold = checksums_hold(packet.bytes, packet.layout);
            self.machine.registers[Field::ChecksumsHold as usize] = hold;
        }
        if self.uses.payload {
            self.load_payload(packet);
        }
    }

    #[inline(never)]
    fn load_payload(&mut self, packet: &PacketView<'_>) {
        for (field, value) in payload_fields(packet, self.window.as_deref()) {
            self.machine.registers[field as usize] = value;
        }
    }
}

/// The programs of a chain as the packets of a batch meet them, plain ones in a shorter way.
pub struct PlainPrograms<'a> {
    native: &'a mut Native,
    machine: &'a Machine,
    uses: Uses,
}

impl PlainPrograms<'_> {
    /// As [`Interpreter::run_in_place`], for a packet that is not plain.
    #[inline(always)]
    pub fn decide(&mut self, packet: &PacketView<'_>, words: &mut [u32]) -> Exit {
        run_native(
            self.native,
            self.uses,
            None,
            self.machine.started,
            packet,
            words,
        )
    }

    /// As [`Interpreter::commit`].
    #[inline(always)]
    pub fn commit(&self, frame: &mut Frame, layout: &Layout) -> bool {
        self.machine.commit_planned(self.native, frame, layout)
    }

    /// Runs the programs on a packet, and rewrites it if it goes on. Unless it is complex the words
    /// change too.
    #[inline(always)]
    pub fn run(&mut self, frame: &mut Frame, view: PlainView, words: &mut [u32]) -> Exit {
        if view.plain.is_udp() {
            return self.run_udp(frame, view, words);
        }
        let Some(tcp) = view.plain.tcp_header(frame.bytes()) else {
            return Exit::Escalate;
        };
        let answer = self.answer(frame, view, tcp, words);
        self.act(answer, frame, view.plain)
    }

    /// Cold is only where its code lies.
    #[cold]
    #[inline(never)]
    fn run_udp(&mut self, frame: &mut Frame, view: PlainView, words: &mut [u32]) -> Exit {
        let answer = self.answer(frame, view, &[0; 20], words);
        self.act(answer, frame, view.plain)
    }

    #[inline(always)]
    fn answer(
        &mut self,
        frame: &Frame,
        view: PlainView,
        tcp: &[u8; 20],
        words: &mut [u32],
    ) -> Answer {
        let now = frame.timestamp();
        if self.native.needs_more() {
            self.set_more(frame, view.plain, tcp);
        }
        let input = Input {
            direction: view.direction,
            tcp,
            now_ticks: now.ticks(),
            alias_row: view.alias_row,
            payload_length: view.plain.payload_bytes(),
        };
        self.native.run(&input, words)
    }

    #[inline(always)]
    fn act(&self, answer: Answer, frame: &mut Frame, plain: Plain) -> Exit {
        match (answer.is_forward(), self.native.only_planned()) {
            (true, Some(change)) => {
                if !change.is_nothing() {
                    self.machine.rewrite_plain(change, frame.bytes_mut(), plain);
                }
                Exit::Continue
            }
            _ => self.other_exit(answer, frame, plain),
        }
    }

    /// Sets what code does not get in registers.
    #[inline(never)]
    fn set_more(&mut self, frame: &Frame, plain: Plain, tcp: &[u8; 20]) {
        let elapsed = frame.timestamp().0.saturating_sub(self.machine.started.0);
        let tcp = (!plain.is_udp()).then_some(tcp);
        self.native.set_elapsed(elapsed);
        for (field, value) in [
            (Field::Protocol, plain.protocol().into()),
            (
                Field::SegmentLength,
                segment_length(tcp, plain.payload_bytes()),
            ),
            (Field::PacketLength, plain.packet_bytes()),
        ] {
            self.native.set_field(field, value);
        }
        if self.uses.nanoseconds {
            set_time(self.native, frame.timestamp());
        }
        if self.uses.checksums {
            self.set_checksums(frame, plain);
        }
    }

    /// Apart, for the registers that it takes.
    #[inline(never)]
    fn set_checksums(&mut self, frame: &Frame, plain: Plain) {
        let hold = checksums_hold(frame.bytes(), &plain.layout());
        self.native.set_field(Field::ChecksumsHold, hold);
    }

    #[inline(never)]
    fn other_exit(&self, answer: Answer, frame: &mut Frame, plain: Plain) -> Exit {
        let exit = self.native.exit(answer);
        if matches!(exit, Exit::Continue | Exit::Reply) {
            for change in self.native.planned() {
                self.machine
                    .rewrite_plain(*change, frame.bytes_mut(), plain);
            }
        }
        exit
    }
}

/// An [`EndpointRow`] as rewrites need it.
struct Row {
    endpoint: NewEndpoint,
    mac: MacAddress,
    until: Instant,
}

impl Row {
    fn new(row: &EndpointRow) -> Self {
        Self {
            endpoint: NewEndpoint::new(row.endpoint),
            mac: row.mac,
            until: row.until,
        }
    }
}

impl Row {
    /// Writes its MAC address; false if the frame has no room for one.
    #[inline(always)]
    fn write_mac(&self, bytes: &mut [u8]) -> bool {
        ethernet::set_destination(bytes, self.mac)
    }
}

/// Registers, tables and planned rewrites: what code runs on.
struct Machine {
    registers: Box<[u32; REGISTERS]>,
    /// The rows of all tables.
    rows: Vec<Row>,
    /// Where each table's rows begin, and where the last one's end.
    starts: Vec<usize>,
    rewrites: [Rewrite; MAX_REWRITES],
    rewrite_count: usize,
    started: Instant,
}

impl Machine {
    fn new(initial: [u32; REGISTERS], tables: &[Vec<EndpointRow>]) -> Self {
        let ends = tables.iter().scan(0, |end, rows| {
            *end += rows.len();
            Some(*end)
        });
        Self {
            registers: Box::new(initial),
            rows: tables.iter().flatten().map(Row::new).collect(),
            starts: std::iter::once(0).chain(ends).collect(),
            rewrites: [Rewrite::Mac(0, 0); MAX_REWRITES],
            rewrite_count: 0,
            started: Instant::ZERO,
        }
    }

    #[inline(always)]
    fn matches_always_complex(&self, code: &Code) -> bool {
        code.always_complex.iter().any(|tests| self.all_pass(tests))
    }

    #[inline(always)]
    fn run<'a>(
        &mut self,
        function: &'a FunctionCode,
        packet: &PacketView<'_>,
    ) -> (Option<&'a StepCode>, Exit) {
        for instruction in &function.prologue {
            let value = calculate(
                instruction.opcode,
                self.at(instruction.a),
                self.at(instruction.b),
            );
            self.registers[usize::from(instruction.to)] = value;
        }
        let taken = function
            .steps
            .iter()
            .find(|step| self.all_pass(&step.tests));
        let exit = match taken {
            Some(step)
                if step.exit != Exit::Escalate && self.perform(&step.instructions, packet) =>
            {
                step.exit
            }
            _ => Exit::Escalate,
        };
        (taken, exit)
    }

    #[inline(always)]
    fn all_pass(&self, tests: &[Test]) -> bool {
        tests.iter().all(|test| {
            let left = self.at(test.a).wrapping_sub(self.at(test.b)) & test.mask;
            test.passes.holds(left, |register| self.at(register))
        })
    }

    #[inline(always)]
    fn at(&self, register: u8) -> u32 {
        self.registers[usize::from(register)]
    }

    /// Does what a step says; false if it turns out that only the workers can.
    #[inline(always)]
    fn perform(&mut self, instructions: &[Instruction], packet: &PacketView<'_>) -> bool {
        for &Instruction { opcode, to, a, b } in instructions {
            let (left, right) = (self.at(a), self.at(b));
            let possible = match opcode {
                Opcode::RewriteSource => {
                    self.plan_row(packet, to, left, Rewrite::End(PacketEnd::Source, to, left))
                }
                Opcode::RewriteDestination => self.plan_row(
                    packet,
                    to,
                    left,
                    Rewrite::End(PacketEnd::Destination, to, left),
                ),
                Opcode::RewriteMac => self.plan_row(packet, to, left, Rewrite::Mac(to, left)),
                Opcode::StoreValue => self.store_value(packet, usize::from(to), usize::from(b)),
                Opcode::ReplyValue => self.plan(Rewrite::Reply {
                    status: to,
                    first: a,
                    length: right,
                }),
                _ => {
                    self.registers[usize::from(to)] = calculate(opcode, left, right);
                    true
                }
            };
            if !possible {
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn plan_row(&mut self, packet: &PacketView<'_>, table: u8, row: u32, change: Rewrite) -> bool {
        self.row_is_there(packet, table, row) && self.plan(change)
    }

    #[inline(always)]
    fn row_is_there(&self, packet: &PacketView<'_>, table: u8, row: u32) -> bool {
        let elapsed = packet.now.0.saturating_sub(self.started.0);
        self.row(table, row)
            .is_some_and(|entry| elapsed < entry.until.0 || entry.until == Instant::NEVER)
    }

    #[inline(always)]
    fn row(&self, table: u8, row: u32) -> Option<&Row> {
        let table = usize::from(table);
        let (start, end) = (*self.starts.get(table)?, *self.starts.get(table + 1)?);
        self.rows.get(start..end)?.get(row as usize)
    }

    #[inline(always)]
    fn plan(&mut self, change: Rewrite) -> bool {
        let Some(place) = self.rewrites.get_mut(self.rewrite_count) else {
            return false;
        };
        *place = change;
        self.rewrite_count += 1;
        true
    }

    #[inline(never)]
    fn store_value(&mut self, packet: &PacketView<'_>, first: usize, words: usize) -> bool {
        let payload = fields::payload(packet.bytes, packet.layout);
        let value = kv::KvView::new(payload).map_or(&[][..], |view| view.value());
        let place = &mut self.registers[first..first + words];
        place.fill(0);
        for (word, bytes) in place.iter_mut().zip(value.chunks(4)) {
            let mut padded = [0; 4];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u32::from_be_bytes(padded);
        }
        value.len() <= 4 * words
    }

    #[inline(always)]
    fn commit(&self, frame: &mut Frame, layout: &Layout) -> bool {
        let rewrites = &self.rewrites[..self.rewrite_count.min(MAX_REWRITES)];
        rewrites.iter().fold(true, |done, rewrite| {
            done & match *rewrite {
                Rewrite::End(end, table, row) => self.rewrite_end(frame, layout, end, table, row),
                Rewrite::Mac(table, row) => self.rewrite_mac(frame.bytes_mut(), table, row),
                Rewrite::Reply {
                    status,
                    first,
                    length,
                } => write_reply(
                    frame,
                    layout,
                    status,
                    &self.registers[usize::from(first)..],
                    length as usize,
                )
                .is_some(),
            }
        })
    }

    #[inline(always)]
    fn commit_planned(&self, native: &Native, frame: &mut Frame, layout: &Layout) -> bool {
        match native.planned() {
            [] => true,
            [change] => self.rewrite_planned(change, frame, layout),
            changes => self.rewrite_all(changes, frame, layout),
        }
    }

    #[inline(never)]
    fn rewrite_all(&self, changes: &[Planned], frame: &mut Frame, layout: &Layout) -> bool {
        let rewrite = |change| self.rewrite_planned(change, frame, layout);
        changes
            .iter()
            .map(rewrite)
            .fold(true, |all, done| all & done)
    }

    #[inline(always)]
    fn rewrite_planned(&self, change: &Planned, frame: &mut Frame, layout: &Layout) -> bool {
        let Some(row) = self.rows.get(change.row() as usize) else {
            return false;
        };
        let bytes = frame.bytes_mut();
        if change.is(Opcode::RewriteDestination) {
            rewrite::set_destination_to(bytes, layout, &row.endpoint).is_ok()
        } else if change.is(Opcode::RewriteSource) {
            rewrite::set_source_to(bytes, layout, &row.endpoint).is_ok()
        } else {
            row.write_mac(bytes)
        }
    }

    #[inline(always)]
    fn rewrite_end(
        &self,
        frame: &mut Frame,
        layout: &Layout,
        end: PacketEnd,
        table: u8,
        row: u32,
    ) -> bool {
        let Some(row) = self.row(table, row) else {
            return false;
        };
        let bytes = frame.bytes_mut();
        match end {
            PacketEnd::Source => rewrite::set_source_to(bytes, layout, &row.endpoint).is_ok(),
            PacketEnd::Destination => {
                rewrite::set_destination_to(bytes, layout, &row.endpoint).is_ok()
            }
        }
    }

    fn rewrite_mac(&self, bytes: &mut [u8], table: u8, row: u32) -> bool {
        self.row(table, row).is_some_and(|row| row.write_mac(bytes))
    }

    /// [`Self::rewrite_planned`] for a plain packet.
    #[inline(always)]
    fn rewrite_plain(&self, change: Planned, bytes: &mut [u8], plain: Plain) {
        let Some(row) = self.rows.get(change.row() as usize) else {
            return;
        };
        // As for every packet: an end of another IP version stays as it is.
        let _ = if change.is(Opcode::RewriteDestination) {
            rewrite::set_plain_destination_to(bytes, plain, &row.endpoint).is_ok()
        } else if change.is(Opcode::RewriteSource) {
            rewrite::set_plain_source_to(bytes, plain, &row.endpoint).is_ok()
        } else {
            row.write_mac(bytes)
        };
    }
}

#[inline(always)]
fn run_native(
    native: &mut Native,
    uses: Uses,
    window: Option<&dyn WindowMatcher>,
    started: Instant,
    packet: &PacketView<'_>,
    words: &mut [u32],
) -> Exit {
    let payload_length = payload_length(packet.layout);
    let tcp = match uses.tcp_flags || uses.tcp_numbers {
        true => tcp_header(packet),
        false => None,
    };
    if native.needs_more() {
        // A copy, made only where it is needed, keeps the view itself in registers.
        let packet = *packet;
        set_more(native, uses, window, started, &packet, tcp);
    }
    let input = Input {
        direction: packet.direction,
        tcp: tcp.unwrap_or(&[0; 20]),
        now_ticks: packet.now.ticks(),
        alias_row: packet.keyed.alias_row,
        payload_length,
    };
    let answer = native.run(&input, words);
    native.exit(answer)
}

/// Sets what code does not get in registers.
#[inline(never)]
fn set_more(
    native: &mut Native,
    uses: Uses,
    window: Option<&dyn WindowMatcher>,
    started: Instant,
    packet: &PacketView<'_>,
    tcp: Option<&[u8; 20]>,
) {
    native.set_elapsed(packet.now.0.saturating_sub(started.0));
    native.set_field(Field::Protocol, packet.layout.protocol.into());
    let segment = segment_length(tcp, payload_length(packet.layout));
    native.set_field(Field::SegmentLength, segment);
    if uses.checksums {
        let hold = checksums_hold(packet.bytes, packet.layout);
        native.set_field(Field::ChecksumsHold, hold);
    }
    native.set_field(Field::PacketLength, packet_length(packet.layout));
    set_time(native, packet.now);
    if uses.payload {
        for (field, value) in payload_fields(packet, window) {
            native.set_field(field, value);
        }
    }
}

fn payload_fields(
    packet: &PacketView<'_>,
    window: Option<&dyn WindowMatcher>,
) -> [(Field, u32); 3] {
    let view = kv_view(packet);
    let window = window.map_or(0, |window| {
        let payload = fields::payload(packet.bytes, packet.layout);
        window.inspect(&payload[..payload.len().min(WINDOW_BYTES)])
    });
    [
        (Field::KvOperation, view.map_or(0, |view| operation(&view))),
        (
            Field::KvValueLength,
            view.map_or(0, |view| view.value().len() as u32),
        ),
        (Field::WindowMatch, window),
    ]
}

fn checksums_hold(frame: &[u8], layout: &Layout) -> u32 {
    let hold = verify_ipv4_checksum(frame, layout) && verify_transport_checksum(frame, layout);
    u32::from(hold)
}

/// Sequence space. Without a TCP header there is none.
#[inline(always)]
fn segment_length(tcp: Option<&[u8; 20]>, payload_length: u32) -> u32 {
    tcp.map_or(0, |header| {
        let flags = u32::from(header[13]);
        payload_length + (flags & 1) + (flags >> 1 & 1)
    })
}

fn only_window(programs: &[FastProgram]) -> Result<Option<Arc<dyn WindowMatcher>>, CompileError> {
    let mut with_window = programs.iter().filter(|program| program.window.is_some());
    let first = with_window.next();
    match (first, with_window.next()) {
        (Some(first), Some(second)) => Err(CompileError::TwoWindows {
            first: first.name.clone(),
            second: second.name.clone(),
        }),
        _ => Ok(first.and_then(|program| program.window.clone())),
    }
}

#[inline(always)]
fn u32_of(header: &[u8; 20], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[inline(always)]
fn tcp_header<'a>(packet: &PacketView<'a>) -> Option<&'a [u8; 20]> {
    match packet.layout.transport {
        Transport::Tcp => packet
            .bytes
            .get(usize::from(packet.layout.l4)..)?
            .first_chunk(),
        _ => None,
    }
}

#[inline(always)]
fn payload_length(layout: &Layout) -> u32 {
    layout.end.saturating_sub(u32::from(layout.payload))
}

#[inline(always)]
fn packet_length(layout: &Layout) -> u32 {
    layout.end.saturating_sub(u32::from(layout.l3))
}

/// The low half of a time in nanoseconds, and the high one.
#[inline(always)]
const fn halves(now: Instant) -> [u32; 2] {
    [now.0 as u32, (now.0 >> 32) as u32]
}

#[inline(always)]
fn set_time(native: &mut Native, now: Instant) {
    let [low, high] = halves(now);
    native.set_field(Field::NowLow, low);
    native.set_field(Field::NowHigh, high);
}

fn kv_view<'a>(packet: &PacketView<'a>) -> Option<kv::KvView<'a>> {
    match packet.keyed.key.kind() {
        KeyKind::Entry => kv::KvView::new(fields::payload(packet.bytes, packet.layout)).ok(),
        _ => None,
    }
}
