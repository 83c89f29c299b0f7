//! Fast programs: what a network function does on the fast path, as data.
//!
//! A program is a short list of guarded [`Step`]s over the flow's 32-bit state words, fields of
//! the packet and temporaries. The first step whose conditions all hold is taken: its actions
//! run, then its [`Exit`] says where the packet goes. If no step holds, the packet is *complex*
//! and escalates to the slow path with the flow's state. A step that escalates changes nothing.
//!
//! The shape is what a match-action switch can do: a condition compares `(a - b) & mask` with a
//! value, as a stateful ALU does; there are no loops and no pointers. A
//! [`budget`](https://docs.rs/twinpath-fastpath) says how many words, conditions and steps a
//! given device has.
//!
//! **Zero is absence.** A flow whose words are all zero is the same as a flow that is not known:
//! every program must behave so, and every slow function too.

use crate::guarantee::Guarantees;
use crate::wire::{Endpoint, MacAddress};
use crate::{DropReason, Instant};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A field of the packet, or of what the parser and the clock say about it. All are 32 bits.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Field {
    /// 0 from the flow's opener, 1 towards it.
    Direction,
    /// IP protocol number after extension headers.
    Protocol,
    /// TCP flags (the low eight bits of the flag field).
    TcpFlags,
    /// TCP sequence number.
    TcpSequence,
    /// TCP acknowledgement number.
    TcpAcknowledgement,
    /// TCP window, unscaled.
    TcpWindow,
    /// Bytes of transport payload.
    PayloadLength,
    /// Sequence space that a TCP segment takes: payload, and one each for SYN and FIN.
    SegmentLength,
    /// The packet's arrival time in [ticks](crate::Instant::ticks).
    NowTicks,
    /// The row of the endpoint that the packet's source stands for, plus one; 0 for none.
    AliasRow,
    /// What the window matcher says of the first 64 payload bytes: 0 nothing, 1 partial, 2 full.
    WindowMatch,
    /// Key-value operation as [`key_value::operation`](crate::key_value::operation) has it; 0 for
    /// what is no key-value request.
    KvOperation,
    /// Bytes of the key-value request's value.
    KvValueLength,
    /// 1 if the checksums of the IPv4 header and of what it carries hold, or there is none to hold.
    ChecksumsHold,
    /// Bytes of the IP packet, from its first header on.
    PacketLength,
    /// The low half of the packet's arrival time in nanoseconds.
    NowLow,
    /// The high half of it.
    NowHigh,
}

impl Field {
    /// How many fields there are.
    pub const COUNT: usize = 17;

    /// Every field.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Direction,
        Self::Protocol,
        Self::TcpFlags,
        Self::TcpSequence,
        Self::TcpAcknowledgement,
        Self::TcpWindow,
        Self::PayloadLength,
        Self::SegmentLength,
        Self::NowTicks,
        Self::AliasRow,
        Self::WindowMatch,
        Self::KvOperation,
        Self::KvValueLength,
        Self::ChecksumsHold,
        Self::PacketLength,
        Self::NowLow,
        Self::NowHigh,
    ];
}

/// Where a value comes from or goes to.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// One of the flow's state words.
    Word(u8),
    /// A field of the packet (read only).
    Field(Field),
    /// A temporary, zero when the program starts; it lives for one packet.
    Temporary(u8),
    /// A number (read only).
    Constant(u32),
}

/// How a condition compares.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less, unsigned.
    Less,
    /// At most, unsigned.
    AtMost,
    /// Greater, unsigned.
    Greater,
    /// At least, unsigned.
    AtLeast,
    /// At most, as signed numbers: for differences of sequence numbers.
    SignedAtMost,
    /// At least, as signed numbers.
    SignedAtLeast,
}

/// Holds if `(a - b) & mask` compares with `with`. The subtraction wraps.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Minuend.
    pub a: Operand,
    /// Subtrahend.
    pub b: Operand,
    /// Bits that count.
    pub mask: u32,
    /// How to compare.
    pub comparison: Comparison,
    /// What to compare with.
    pub with: Operand,
}

impl Condition {
    /// `a` compared with `with`.
    pub const fn of(a: Operand, comparison: Comparison, with: Operand) -> Self {
        Self {
            a,
            b: Operand::Constant(0),
            mask: u32::MAX,
            comparison,
            with,
        }
    }

    /// `a - b` compared with a number.
    pub const fn difference(a: Operand, b: Operand, comparison: Comparison, with: u32) -> Self {
        Self {
            a,
            b,
            mask: u32::MAX,
            comparison,
            with: Operand::Constant(with),
        }
    }

    /// `a & mask` equals a number.
    pub const fn bits(a: Operand, mask: u32, equal: u32) -> Self {
        Self {
            a,
            b: Operand::Constant(0),
            mask,
            comparison: Comparison::Equal,
            with: Operand::Constant(equal),
        }
    }
}

/// Arithmetic of an update. All of it wraps.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `a + b`
    Add,
    /// `a - b`
    Subtract,
    /// `a & b`
    And,
    /// `a | b`
    Or,
    /// `a ^ b`
    Xor,
    /// `a << b` (b modulo 32)
    ShiftLeft,
    /// `a >> b` (b modulo 32)
    ShiftRight,
    /// The smaller, unsigned.
    Minimum,
    /// The larger, unsigned.
    Maximum,
    /// Of two sequence numbers the later one.
    Later,
    /// `a * b`, its low half. Few devices can.
    Multiply,
}

/// Which end of the packet a rewrite changes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum PacketEnd {
    /// Source address and port.
    Source,
    /// Destination address and port.
    Destination,
}

/// What a step does.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// `to = a operation b`; `to` is a word or a temporary.
    Compute {
        /// Where the result goes.
        to: Operand,
        /// What is computed.
        operation: Operation,
        /// Left operand.
        a: Operand,
        /// Right operand.
        b: Operand,
    },
    /// Rewrites one end of the packet to a row of an endpoint table, mending checksums. A row
    /// that does not exist, or is gone, makes the packet complex.
    Rewrite {
        /// Which end.
        end: PacketEnd,
        /// Index into [`FastProgram::tables`].
        table: u8,
        /// The row.
        row: Operand,
    },
    /// Rewrites the destination Ethernet address to that of a row. A row that does not exist, or
    /// is gone, makes the packet complex.
    RewriteMac {
        /// Index into [`FastProgram::tables`].
        table: u8,
        /// The row.
        row: Operand,
    },
    /// Stores the key-value request's value in words from `first` on, zero-padded over `words`.
    StoreValue {
        /// First word.
        first: u8,
        /// How many words there are.
        words: u8,
    },
    /// Turns the packet into the reply to its key-value request: swapped ends, reply bit, status,
    /// and `length` bytes of value from words from `first` on.
    ReplyValue {
        /// Status code of the key-value protocol.
        status: u8,
        /// First word.
        first: u8,
        /// Bytes of value.
        length: Operand,
    },
}

/// `to = value`.
pub const fn set(to: Operand, value: Operand) -> Action {
    Action::Compute {
        to,
        operation: Operation::Or,
        a: value,
        b: Operand::Constant(0),
    }
}

/// `to = a operation b`.
pub const fn compute(to: Operand, operation: Operation, a: Operand, b: Operand) -> Action {
    Action::Compute {
        to,
        operation,
        a,
        b,
    }
}

/// Where a packet goes after a step.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// On to the next function, and out after the last.
    Continue,
    /// Dropped.
    Drop(DropReason),
    /// Back to the sender, past all other functions.
    Reply,
    /// To the slow path, with the state unchanged.
    Escalate,
}

/// One guarded step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the step is for, in a few words: shown by `explain`.
    pub name: &'static str,
    /// All must hold.
    pub when: Vec<Condition>,
    /// Done in order.
    pub then: Vec<Action>,
    /// Where the packet goes.
    pub exit: Exit,
}

/// A state word's name and meaning, shown by `explain`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Short name.
    pub name: &'static str,
    /// What it holds.
    pub meaning: &'static str,
}

/// One row of action data: where a rewrite sends a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EndpointRow {
    /// Address and port.
    pub endpoint: Endpoint,
    /// Ethernet address, where rewrites need it.
    pub mac: MacAddress,
    /// From when on the row is gone, in packet time counted from the run's start: a packet that
    /// comes later and would use it is complex. [`Instant::NEVER`] for rows that stay.
    pub until: Instant,
}

/// Rows that rewrites refer to: on a switch an exact-match table from row to action data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointTable {
    /// Table name.
    pub name: &'static str,
    /// The endpoints; a row is never reused for another endpoint while flows may refer to it.
    pub rows: Vec<EndpointRow>,
}

/// Looks at the first 64 bytes of a payload, as a switch's ternary memory would.
pub trait WindowMatcher: Send + Sync {
    /// 0 nothing, 1 partial match; of a full match 2, with what the matcher says of it in the bits above.
    /// `window` is at most 64 bytes.
    fn inspect(&self, window: &[u8]) -> u32;
    /// Ternary entries, 64 bytes wide, that a switch needs for it.
    fn ternary_entries(&self) -> usize;
}

/// Bytes of payload that a [`WindowMatcher`] sees.
pub const WINDOW_BYTES: usize = 64;

/// What one network function does on the fast path.
#[derive(Clone, Default)]
pub struct FastProgram {
    /// The function's name.
    pub name: Cow<'static, str>,
    /// The flow's state words.
    pub words: Vec<Word>,
    /// Temporaries used.
    pub temporaries: u8,
    /// Actions on temporaries, done before any step.
    pub prologue: Vec<Action>,
    /// The steps; the first that holds is taken.
    pub steps: Vec<Step>,
    /// Packets that no value of the state makes simple: if all conditions of any of these hold
    /// the packet is complex. They may only look at fields.
    pub always_complex: Vec<Vec<Condition>>,
    /// Tables that rewrites refer to.
    pub tables: Vec<EndpointTable>,
    /// The window matcher, if the program reads [`Field::WindowMatch`].
    pub window: Option<Arc<dyn WindowMatcher>>,
    /// What the function gives and needs, and so where answers meet it.
    pub guarantees: Guarantees,
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Direction => "direction",
            Self::Protocol => "ip.protocol",
            Self::TcpFlags => "tcp.flags",
            Self::TcpSequence => "tcp.sequence",
            Self::TcpAcknowledgement => "tcp.acknowledgement",
            Self::TcpWindow => "tcp.window",
            Self::PayloadLength => "payload.length",
            Self::SegmentLength => "tcp.segment_length",
            Self::NowTicks => "now",
            Self::AliasRow => "source.alias",
            Self::WindowMatch => "window.match",
            Self::KvOperation => "kv.operation",
            Self::KvValueLength => "kv.value_length",
            Self::ChecksumsHold => "checksums.hold",
            Self::PacketLength => "ip.length",
            Self::NowLow => "now.ns.low",
            Self::NowHigh => "now.ns.high",
        })
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(index) => write!(formatter, "word[{index}]"),
            Self::Field(field) => write!(formatter, "{field}"),
            Self::Temporary(index) => write!(formatter, "t{index}"),
            Self::Constant(value) if *value > 0xffff => write!(formatter, "{value:#x}"),
            Self::Constant(value) => write!(formatter, "{value}"),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.comparison {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::Greater => ">",
            Comparison::AtLeast => ">=",
            Comparison::SignedAtMost => "<=s",
            Comparison::SignedAtLeast => ">=s",
        };
        let left = if self.b == Operand::Constant(0) {
            self.a.to_string()
        } else {
            format!("({} - {})", self.a, self.b)
        };
        match (self.a, self.with) {
            _ if self.mask == u32::MAX => write!(formatter, "{left} {sign} {}", self.with),
            _ if self.mask == 0 => write!(formatter, "0 {sign} {}", self.with),
            (Operand::Field(Field::TcpFlags), Operand::Constant(value)) => {
                formatter.write_str(&flags_in_words(self.mask, value, sign))
            }
            (_, with) => {
                let (first, last) = (self.mask.trailing_zeros(), 31 - self.mask.leading_zeros());
                let is_one_run = self.mask.count_ones() == last - first + 1;
                match with {
                    Operand::Constant(value) if is_one_run && first == last => {
                        write!(formatter, "bit {first} of {left} {sign} {}", value >> first)
                    }
                    Operand::Constant(value) if is_one_run => write!(
                        formatter,
                        "bits {first} to {last} of {left} {sign} {}",
                        value >> first
                    ),
                    with => write!(formatter, "({left} & {:#x}) {sign} {with}", self.mask),
                }
            }
        }
    }
}

/// TCP flags by their bits (RFC 9293 §3.1).
const FLAGS: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];

/// A comparison of some flags with a value.
fn flags_in_words(mask: u32, value: u32, sign: &str) -> String {
    let names = |bits: u32, word: &str| {
        let set = FLAGS.iter().enumerate();
        let set = set.filter(|(bit, _)| bits & 1 << bit != 0);
        let names: Vec<&str> = set.map(|(_, name)| *name).collect();
        names.join(word)
    };
    match (sign, value) {
        ("==", 0) => format!("tcp.flags without {}", names(mask, ", ")),
        ("!=", 0) => format!("tcp.flags with {}", names(mask, " or ")),
        ("==", all) if all == mask => format!("tcp.flags with {}", names(mask, " and ")),
        ("==", some) => format!(
            "tcp.flags with {} alone of {}",
            names(some, " and "),
            names(mask, ", ")
        ),
        ("!=", some) => format!(
            "tcp.flags other than {} alone of {}",
            names(some, " and "),
            names(mask, ", ")
        ),
        _ => format!("(tcp.flags & {mask:#x}) {sign} {value:#x}"),
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Compute {
                to,
                operation: Operation::Or,
                a,
                b: Operand::Constant(0),
            } => write!(formatter, "{to} = {a}"),
            Self::Compute {
                to,
                operation,
                a,
                b,
            } => {
                let text = match operation {
                    Operation::Add => "+",
                    Operation::Subtract => "-",
                    Operation::And => "&",
                    Operation::Or => "|",
                    Operation::Xor => "^",
                    Operation::ShiftLeft => "<<",
                    Operation::ShiftRight => ">>",
                    Operation::Minimum => "min",
                    Operation::Maximum => "max",
                    Operation::Later => "later",
                    Operation::Multiply => "*",
                };
                write!(formatter, "{to} = {a} {text} {b}")
            }
            Self::Rewrite {
                end: PacketEnd::Source,
                table,
                row,
            } => write!(formatter, "source = table[{table}][{row}]"),
            Self::Rewrite {
                end: PacketEnd::Destination,
                table,
                row,
            } => write!(formatter, "destination = table[{table}][{row}]"),
            Self::RewriteMac { table, row } => {
                write!(formatter, "destination.mac = table[{table}][{row}]")
            }
            Self::StoreValue { first, words } => {
                write!(formatter, "word[{first}..{}] = kv.value", first + words)
            }
            Self::ReplyValue {
                status,
                first,
                length,
            } => write!(
                formatter,
                "reply(status {status}, {length} bytes from word[{first}])"
            ),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Continue => formatter.write_str("continue"),
            Self::Drop(reason) => write!(formatter, "drop ({})", reason.name()),
            Self::Reply => formatter.write_str("reply"),
            Self::Escalate => formatter.write_str("escalate"),
        }
    }
}

impl fmt::Debug for FastProgram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FastProgram")
            .field("name", &self.name)
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for FastProgram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.name)?;
        for (index, word) in self.words.iter().enumerate() {
            writeln!(formatter, "  word[{index}] {}: {}", word.name, word.meaning)?;
        }
        for conditions in &self.always_complex {
            writeln!(
                formatter,
                "  always complex: {}",
                joined(conditions, " and ")
            )?;
        }
        for action in &self.prologue {
            writeln!(formatter, "  first: {action}")?;
        }
        for step in &self.steps {
            writeln!(
                formatter,
                "  {}: when {}",
                step.name,
                if step.when.is_empty() {
                    "always".into()
                } else {
                    joined(&step.when, " and ")
                }
            )?;
            for action in &step.then {
                writeln!(formatter, "      {action}")?;
            }
            writeln!(formatter, "      {}", step.exit)?;
        }
        writeln!(formatter, "  otherwise: escalate")
    }
}

fn joined<T: fmt::Display>(items: &[T], separator: &str) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(separator)
}
