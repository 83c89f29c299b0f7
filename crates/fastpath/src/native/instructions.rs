//! Single instructions on operands that may lie anywhere.
#![deny(unsafe_code)]
#![expect(
    clippy::useless_conversion,
    reason = "what the assembler's macro expands to"
)]

use dynasmrt::x64::Assembler;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};
use twinpath_core::program::Comparison;

/// The registers that have a fixed use, by their numbers.
pub(super) mod register {
    /// Scratch.
    pub const SCRATCH: u8 = 0;
    /// The packet's time in ticks.
    pub const NOW: u8 = 1;
    /// The [`Context`](super::super::Context).
    pub const CONTEXT: u8 = 2;
    /// The flow's state words.
    pub const WORDS: u8 = 7;
    /// The row that the source stands for, plus one.
    pub const ALIAS_ROW: u8 = 8;
    /// Bytes of payload.
    pub const PAYLOAD_LENGTH: u8 = 9;
    /// Free for values.
    pub const VALUE: u8 = 10;
    /// Scratch for second operands.
    pub const SECOND: u8 = 11;
}
use register::{SCRATCH, SECOND};

/// Where a value lies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    Constant(u32),
    Register(u8),
    /// At an offset from a register.
    Memory {
        base: u8,
        offset: i32,
    },
    /// The flags of the TCP header, to which `rsi` points.
    TcpFlags,
    /// A big-endian number in the TCP header.
    TcpLong(i32),
    TcpWindow,
}

/// What is done with two operands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    And,
    Or,
    Xor,
    Compare,
    Test,
}

/// What a jump depends on: how the operands of the last comparison compare.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Jump {
    pub comparison: Comparison,
    /// Whether to jump if they do so, or if they do not.
    pub when: bool,
}

/// Writes instructions one after the other.
pub(super) struct Instructions(pub Assembler);

impl Instructions {
    /// `to = from`. Spoils the processor's flags.
    pub fn load(&mut self, to: u8, from: Location) {
        let ops = &mut self.0;
        match from {
            Location::Constant(0) => dynasm!(ops; .arch x64; xor Rd(to), Rd(to)),
            Location::Constant(value) => dynasm!(ops; .arch x64; mov Rd(to), value as i32),
            Location::Register(from) => dynasm!(ops; .arch x64; mov Rd(to), Rd(from)),
            Location::Memory { base, offset } => {
                dynasm!(ops; .arch x64; mov Rd(to), [Rq(base) + offset]);
            }
            Location::TcpFlags => dynasm!(ops; .arch x64; movzx Rd(to), BYTE [rsi + 13]),
            Location::TcpLong(at) => {
                dynasm!(ops; .arch x64; mov Rd(to), [rsi + at]; bswap Rd(to));
            }
            Location::TcpWindow => {
                dynasm!(ops; .arch x64; movzx Rd(to), WORD [rsi + 14]; rol Rw(to), 8);
            }
        }
    }

    /// Stores at an offset from a register.
    pub fn store(&mut self, base: u8, offset: i32, from: Location) {
        match from {
            Location::Constant(value) => {
                dynasm!(self.0; .arch x64; mov DWORD [Rq(base) + offset], value as i32);
            }
            Location::Register(from) => {
                dynasm!(self.0; .arch x64; mov [Rq(base) + offset], Rd(from));
            }
            _ => {
                self.load(SCRATCH, from);
                self.store(base, offset, Location::Register(SCRATCH));
            }
        }
    }

    /// `to = to operation with`.
    pub fn binary(&mut self, operation: Binary, to: u8, with: Location) {
        match with {
            Location::Constant(value) => self.with_constant(operation, to, value as i32),
            Location::Register(with) => self.with_register(operation, to, with),
            Location::Memory { base, offset } => self.with_memory(operation, to, base, offset),
            Location::TcpFlags | Location::TcpLong(_) | Location::TcpWindow => {
                self.load(SECOND, with);
                self.with_register(operation, to, SECOND);
            }
        }
    }

    fn with_constant(&mut self, operation: Binary, to: u8, value: i32) {
        let ops = &mut self.0;
        match operation {
            Binary::Add => dynasm!(ops; .arch x64; add Rd(to), value),
            Binary::Subtract => dynasm!(ops; .arch x64; sub Rd(to), value),
            Binary::And => dynasm!(ops; .arch x64; and Rd(to), value),
            Binary::Or => dynasm!(ops; .arch x64; or Rd(to), value),
            Binary::Xor => dynasm!(ops; .arch x64; xor Rd(to), value),
            Binary::Compare => dynasm!(ops; .arch x64; cmp Rd(to), value),
            Binary::Test => dynasm!(ops; .arch x64; test Rd(to), value),
        }
    }

    fn with_register(&mut self, operation: Binary, to: u8, with: u8) {
        let ops = &mut self.0;
        match operation {
            Binary::Add => dynasm!(ops; .arch x64; add Rd(to), Rd(with)),
            Binary::Subtract => dynasm!(ops; .arch x64; sub Rd(to), Rd(with)),
            Binary::And => dynasm!(ops; .arch x64; and Rd(to), Rd(with)),
            Binary::Or => dynasm!(ops; .arch x64; or Rd(to), Rd(with)),
            Binary::Xor => dynasm!(ops; .arch x64; xor Rd(to), Rd(with)),
            Binary::Compare => dynasm!(ops; .arch x64; cmp Rd(to), Rd(with)),
            Binary::Test => dynasm!(ops; .arch x64; test Rd(to), Rd(with)),
        }
    }

    fn with_memory(&mut self, operation: Binary, to: u8, base: u8, offset: i32) {
        let ops = &mut self.0;
        match operation {
            Binary::Add => dynasm!(ops; .arch x64; add Rd(to), [Rq(base) + offset]),
            Binary::Subtract => dynasm!(ops; .arch x64; sub Rd(to), [Rq(base) + offset]),
            Binary::And => dynasm!(ops; .arch x64; and Rd(to), [Rq(base) + offset]),
            Binary::Or => dynasm!(ops; .arch x64; or Rd(to), [Rq(base) + offset]),
            Binary::Xor => dynasm!(ops; .arch x64; xor Rd(to), [Rq(base) + offset]),
            Binary::Compare => dynasm!(ops; .arch x64; cmp Rd(to), [Rq(base) + offset]),
            Binary::Test => dynasm!(ops; .arch x64; test [Rq(base) + offset], Rd(to)),
        }
    }

    /// Compares, for [`Self::jump`].
    pub fn compare(&mut self, left: Location, right: Location) {
        match (left, right) {
            (Location::Register(left), _) => self.binary(Binary::Compare, left, right),
            (Location::Memory { base, offset }, Location::Constant(value)) => {
                dynasm!(self.0; .arch x64; cmp DWORD [Rq(base) + offset], value as i32);
            }
            _ => {
                self.load(SCRATCH, left);
                self.binary(Binary::Compare, SCRATCH, right);
            }
        }
    }

    /// Compares some bits with zero, for [`Self::jump`].
    pub fn test_bits(&mut self, left: Location, mask: u32) {
        match left {
            Location::TcpFlags => {
                // There are no higher bits.
                dynasm!(self.0; .arch x64; test BYTE [rsi + 13], mask as i8);
            }
            Location::Memory { base, offset } => {
                dynasm!(self.0; .arch x64; test DWORD [Rq(base) + offset], mask as i32);
            }
            Location::Register(left) => self.with_constant(Binary::Test, left, mask as i32),
            _ => {
                self.load(SCRATCH, left);
                self.with_constant(Binary::Test, SCRATCH, mask as i32);
            }
        }
    }

    pub fn jump(&mut self, Jump { comparison, when }: Jump, to: DynamicLabel) {
        let ops = &mut self.0;
        match (comparison, when) {
            (Comparison::Equal, true) | (Comparison::NotEqual, false) => {
                dynasm!(ops; .arch x64; je =>to);
            }
            (Comparison::NotEqual, true) | (Comparison::Equal, false) => {
                dynasm!(ops; .arch x64; jne =>to);
            }
            (Comparison::Less, true) | (Comparison::AtLeast, false) => {
                dynasm!(ops; .arch x64; jb =>to);
            }
            (Comparison::AtLeast, true) | (Comparison::Less, false) => {
                dynasm!(ops; .arch x64; jae =>to);
            }
            (Comparison::AtMost, true) | (Comparison::Greater, false) => {
                dynasm!(ops; .arch x64; jbe =>to);
            }
            (Comparison::Greater, true) | (Comparison::AtMost, false) => {
                dynasm!(ops; .arch x64; ja =>to);
            }
            (Comparison::SignedAtMost, true) => dynasm!(ops; .arch x64; jle =>to),
            (Comparison::SignedAtMost, false) => dynasm!(ops; .arch x64; jg =>to),
            (Comparison::SignedAtLeast, true) => dynasm!(ops; .arch x64; jge =>to),
            (Comparison::SignedAtLeast, false) => dynasm!(ops; .arch x64; jl =>to),
        }
    }

    pub fn go(&mut self, to: DynamicLabel) {
        dynasm!(self.0; .arch x64; jmp =>to);
    }

    pub fn label(&mut self) -> DynamicLabel {
        self.0.new_dynamic_label()
    }

    pub fn bind(&mut self, label: DynamicLabel) {
        dynasm!(self.0; .arch x64; =>label);
    }

    /// The end: returns a number.
    pub fn leave(&mut self, answer: u32) {
        self.load(SCRATCH, Location::Constant(answer));
        dynasm!(self.0; .arch x64; ret);
    }

    /// `to <<= by`, with the number of places in a register (modulo 32, as programs have it).
    pub fn shift_left(&mut self, to: u8, by: Location) {
        if let Location::Constant(places) = by {
            return dynasm!(self.0; .arch x64; shl Rd(to), (places & 31) as i8);
        }
        self.load(SECOND, by);
        // Only `cl` can hold a number of places, and `rcx` holds the time.
        dynasm!(self.0; .arch x64; xchg ecx, r11d; shl Rd(to), cl; xchg ecx, r11d);
    }

    /// `to >>= by`, likewise.
    pub fn shift_right(&mut self, to: u8, by: Location) {
        if let Location::Constant(places) = by {
            return dynasm!(self.0; .arch x64; shr Rd(to), (places & 31) as i8);
        }
        self.load(SECOND, by);
        dynasm!(self.0; .arch x64; xchg ecx, r11d; shr Rd(to), cl; xchg ecx, r11d);
    }

    /// `to = with` if `to` is larger.
    pub fn minimum(&mut self, to: u8, with: Location) {
        self.load(SECOND, with);
        dynasm!(self.0; .arch x64; cmp Rd(to), r11d; cmova Rd(to), r11d);
    }

    /// `to = with` if `to` is smaller.
    pub fn maximum(&mut self, to: u8, with: Location) {
        self.load(SECOND, with);
        dynasm!(self.0; .arch x64; cmp Rd(to), r11d; cmovb Rd(to), r11d);
    }

    /// `to = with` if `to - with` is negative.
    pub fn later(&mut self, to: u8, with: Location) {
        self.load(SECOND, with);
        dynasm!(self.0; .arch x64; cmp Rd(to), r11d; cmovs Rd(to), r11d);
    }

    /// `to *= with`, the low half of it.
    pub fn multiply(&mut self, to: u8, with: Location) {
        self.load(SECOND, with);
        dynasm!(self.0; .arch x64; imul Rd(to), r11d);
    }

    /// Jumps if the 64-bit number at `offset` of the context is at least the `row`-th of `numbers`.
    pub fn jump_if_at_least(
        &mut self,
        offset: i32,
        numbers: *const u64,
        row: Location,
        to: DynamicLabel,
    ) {
        self.load(SCRATCH, row);
        dynasm!(self.0; .arch x64
            ; mov r11, QWORD numbers as i64
            ; mov r11, [r11 + rax * 8]
            ; cmp [rdx + offset], r11
            ; jae =>to
        );
    }
}
