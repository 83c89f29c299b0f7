//! Runs a chain's fast programs on one packet.

use crate::compile::{Code, Compiled, Do, REGISTERS, compile, holds};
use std::ops::Range;
use std::sync::Arc;
use twinpath_core::key::KeyKind;
use twinpath_core::key_value::{operation, write_reply};
use twinpath_core::program::{
    EndpointRow, Exit, FastProgram, Field, Operation, PacketEnd, WINDOW_BYTES, WindowMatcher,
};
use twinpath_core::wire::layout::{Layout, Transport};
use twinpath_core::wire::{fields, kv, rewrite};
use twinpath_core::{Direction, DropReason, Frame, Instant, Keyed};

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

/// What the programs decide.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Out, after [`Interpreter::commit`].
    Forward,
    /// Back to the sender, after [`Interpreter::commit`].
    Reply,
    /// Dropped; the state words of [`Interpreter::words`] count.
    Drop(DropReason),
    /// To the cores; nothing has changed.
    Complex,
}

/// Rewrites that one packet can have; a program with more makes the packet complex.
const MAX_CHANGES: usize = 8;

#[derive(Copy, Clone)]
enum Change {
    End(PacketEnd, u8, u32),
    Mac(u8, u32),
    Reply { status: u8, first: u8, length: u32 },
}

/// The fused programs of a chain, with the registers they run on.
pub struct Interpreter {
    codes: [Code; 2],
    words: usize,
    temporaries: Range<usize>,
    fields: Vec<Field>,
    registers: Box<[u32; REGISTERS]>,
    tables: Vec<Vec<EndpointRow>>,
    window: Option<Arc<dyn WindowMatcher>>,
    changes: [Change; MAX_CHANGES],
    change_count: usize,
    started: Instant,
}

impl Interpreter {
    /// Fuses the programs of a chain, in its order.
    ///
    /// # Errors
    /// Programs that contradict themselves or do not fit together.
    pub fn new(programs: &[FastProgram]) -> Result<Self, CompileError> {
        let Compiled {
            codes,
            words,
            temporaries,
            initial,
            fields,
        } = compile(programs)?;
        Ok(Self {
            codes,
            words,
            temporaries,
            fields,
            registers: Box::new(initial),
            tables: programs
                .iter()
                .flat_map(|program| program.tables.iter().map(|table| table.rows.clone()))
                .collect(),
            window: only_window(programs)?,
            changes: [Change::Mac(0, 0); MAX_CHANGES],
            change_count: 0,
            started: Instant::ZERO,
        })
    }

    /// Tells when the run began; rows of endpoint tables end relative to it.
    pub fn start(&mut self, now: Instant) {
        self.started = now;
    }

    /// State words of the chain.
    pub fn word_count(&self) -> usize {
        self.words
    }

    /// Whether the packet is complex whatever its flow's state.
    pub fn is_always_complex(&mut self, packet: &PacketView<'_>) -> bool {
        self.load_fields(packet);
        self.matches_always_complex(packet.direction)
    }

    fn matches_always_complex(&self, direction: Direction) -> bool {
        let code = &self.codes[direction.index()];
        code.always_complex
            .iter()
            .any(|tests| self.all_hold(code, tests))
    }

    /// Runs the programs on a packet with the flow's state words. Neither is changed: the new
    /// words are in [`Self::words`], the packet changes with [`Self::commit`].
    #[inline]
    pub fn run(&mut self, packet: &PacketView<'_>, words: &[u32]) -> Outcome {
        self.registers[..self.words].copy_from_slice(words);
        self.load_fields(packet);
        self.registers[self.temporaries.clone()].fill(0);
        self.change_count = 0;
        if self.matches_always_complex(packet.direction) {
            return Outcome::Complex;
        }
        for function in 0..self.codes[packet.direction.index()].functions.len() {
            match self.run_function(packet, function) {
                Exit::Continue => {}
                Exit::Drop(reason) => return Outcome::Drop(reason),
                Exit::Reply => return Outcome::Reply,
                Exit::Escalate => return Outcome::Complex,
            }
        }
        Outcome::Forward
    }

    #[inline]
    fn run_function(&mut self, packet: &PacketView<'_>, function: usize) -> Exit {
        let direction = packet.direction.index();
        let function = self.codes[direction].functions[function].clone();
        if !self.perform(packet, function.prologue) {
            return Exit::Escalate;
        }
        for step in function.steps {
            let code = &self.codes[direction];
            let step = &code.steps[step];
            if self.all_hold(code, &step.tests) {
                let (exit, doings) = (step.exit, step.doings.clone());
                return if exit != Exit::Escalate && self.perform(packet, doings) {
                    exit
                } else {
                    Exit::Escalate
                };
            }
        }
        Exit::Escalate
    }

    #[inline]
    fn all_hold(&self, code: &Code, tests: &Range<usize>) -> bool {
        code.tests[tests.clone()].iter().all(|test| {
            let left = self.at(test.a).wrapping_sub(self.at(test.b)) & test.mask;
            holds(test.comparison, left, self.at(test.with))
        })
    }

    #[inline(always)]
    fn at(&self, register: u8) -> u32 {
        self.registers[usize::from(register)]
    }

    /// Does what a step says; false if it turns out that only the cores can.
    #[inline]
    fn perform(&mut self, packet: &PacketView<'_>, doings: Range<usize>) -> bool {
        let direction = packet.direction.index();
        for index in doings {
            let doing = self.codes[direction].doings[index];
            let possible = match doing {
                Do::Compute {
                    to,
                    operation,
                    a,
                    b,
                } => {
                    self.registers[usize::from(to)] = calculate(operation, self.at(a), self.at(b));
                    true
                }
                Do::Rewrite { end, table, row } => {
                    self.plan_row(packet, table, self.at(row), |table, row| {
                        Change::End(end, table, row)
                    })
                }
                Do::RewriteMac { table, row } => {
                    self.plan_row(packet, table, self.at(row), Change::Mac)
                }
                Do::StoreValue { first, words } => {
                    self.store_value(packet, usize::from(first), usize::from(words))
                }
                Do::ReplyValue {
                    status,
                    first,
                    length,
                } => self.plan(Change::Reply {
                    status,
                    first,
                    length: self.at(length),
                }),
            };
            if !possible {
                return false;
            }
        }
        true
    }

    fn plan_row(
        &mut self,
        packet: &PacketView<'_>,
        table: u8,
        row: u32,
        change: impl Fn(u8, u32) -> Change,
    ) -> bool {
        let Some(entry) = self.tables[usize::from(table)].get(row as usize) else {
            return false;
        };
        let elapsed = packet.now.0.saturating_sub(self.started.0);
        elapsed < entry.until.0 && self.plan(change(table, row))
    }

    fn plan(&mut self, change: Change) -> bool {
        let Some(place) = self.changes.get_mut(self.change_count) else {
            return false;
        };
        *place = change;
        self.change_count += 1;
        true
    }

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

    /// The state words after [`Self::run`].
    #[inline(always)]
    pub fn words(&self) -> &[u32] {
        &self.registers[..self.words]
    }

    /// Applies the planned changes to the packet that [`Self::run`] last decided on. Returns
    /// whether all of them could be made (an address family that differs cannot).
    #[inline]
    pub fn commit(&mut self, frame: &mut Frame, layout: &Layout) -> bool {
        let mut done = true;
        for change in 0..self.change_count {
            done &= match self.changes[change] {
                Change::End(end, table, row) => self.rewrite_end(frame, layout, end, table, row),
                Change::Mac(table, row) => self.rewrite_mac(frame, table, row),
                Change::Reply {
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
            };
        }
        done
    }

    #[inline]
    fn rewrite_end(
        &self,
        frame: &mut Frame,
        layout: &Layout,
        end: PacketEnd,
        table: u8,
        row: u32,
    ) -> bool {
        let Some(row) = self.tables[usize::from(table)].get(row as usize) else {
            return false;
        };
        match end {
            PacketEnd::Source => {
                rewrite::set_source(frame.bytes_mut(), layout, row.endpoint).is_ok()
            }
            PacketEnd::Destination => {
                rewrite::set_destination(frame.bytes_mut(), layout, row.endpoint).is_ok()
            }
        }
    }

    fn rewrite_mac(&self, frame: &mut Frame, table: u8, row: u32) -> bool {
        let Some(row) = self.tables[usize::from(table)].get(row as usize) else {
            return false;
        };
        let Some(place) = frame.bytes_mut().first_chunk_mut::<6>() else {
            return false;
        };
        *place = row.mac.0;
        true
    }

    #[inline]
    fn load_fields(&mut self, packet: &PacketView<'_>) {
        let tcp = tcp_header(packet);
        for index in 0..self.fields.len() {
            let field = self.fields[index];
            self.registers[self.words + field as usize] = self.field(packet, tcp, field);
        }
    }

    #[inline(always)]
    fn field(&self, packet: &PacketView<'_>, tcp: Option<&[u8; 20]>, field: Field) -> u32 {
        match field {
            Field::Direction => packet.direction as u32,
            Field::Protocol => u32::from(packet.layout.protocol),
            Field::TcpFlags => tcp.map_or(0, |header| u32::from(header[13])),
            Field::TcpSequence => tcp.map_or(0, |header| {
                u32::from_be_bytes([header[4], header[5], header[6], header[7]])
            }),
            Field::TcpAcknowledgement => tcp.map_or(0, |header| {
                u32::from_be_bytes([header[8], header[9], header[10], header[11]])
            }),
            Field::TcpWindow => tcp.map_or(0, |header| {
                u32::from(u16::from_be_bytes([header[14], header[15]]))
            }),
            Field::PayloadLength => payload_length(packet.layout),
            Field::SegmentLength => tcp.map_or(0, |header| {
                payload_length(packet.layout)
                    + u32::from(header[13] & 1)
                    + u32::from(header[13] >> 1 & 1)
            }),
            Field::NowTicks => packet.now.ticks(),
            Field::AliasRow => packet.keyed.alias_row,
            Field::WindowMatch => self.inspect(packet),
            Field::KvOperation => kv_view(packet).map_or(0, |view| operation(&view)),
            Field::KvValueLength => kv_view(packet).map_or(0, |view| view.value().len() as u32),
        }
    }

    fn inspect(&self, packet: &PacketView<'_>) -> u32 {
        let Some(window) = &self.window else { return 0 };
        let payload = fields::payload(packet.bytes, packet.layout);
        window.inspect(&payload[..payload.len().min(WINDOW_BYTES)])
    }
}

fn only_window(programs: &[FastProgram]) -> Result<Option<Arc<dyn WindowMatcher>>, CompileError> {
    let mut with_window = programs.iter().filter(|program| program.window.is_some());
    let first = with_window.next();
    match (first, with_window.next()) {
        (Some(first), Some(second)) => Err(CompileError::TwoWindows {
            first: first.name,
            second: second.name,
        }),
        _ => Ok(first.and_then(|program| program.window.clone())),
    }
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

fn kv_view<'a>(packet: &PacketView<'a>) -> Option<kv::KvView<'a>> {
    match packet.keyed.key.kind() {
        KeyKind::Entry => kv::KvView::new(fields::payload(packet.bytes, packet.layout)).ok(),
        _ => None,
    }
}

#[inline(always)]
fn calculate(operation: Operation, a: u32, b: u32) -> u32 {
    match operation {
        Operation::Add => a.wrapping_add(b),
        Operation::Subtract => a.wrapping_sub(b),
        Operation::And => a & b,
        Operation::Or => a | b,
        Operation::Xor => a ^ b,
        Operation::ShiftLeft => a.wrapping_shl(b),
        Operation::ShiftRight => a.wrapping_shr(b),
        Operation::Minimum => a.min(b),
        Operation::Maximum => a.max(b),
        Operation::Later => {
            if (a.wrapping_sub(b) as i32) < 0 {
                b
            } else {
                a
            }
        }
    }
}
