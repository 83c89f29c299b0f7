//! Programs of the kernel's machine, written with labels.

/// A register: 0 holds results, 1 to 5 arguments, 6 to 9 outlive calls, 10 is the stack's end.
pub type Register = u8;

/// How wide a load or store is.
#[derive(Copy, Clone, Debug)]
pub enum Width {
    Byte,
    Half,
    Word,
}

/// When a jump is taken.
#[derive(Copy, Clone, Debug)]
pub enum When {
    Equal,
    NotEqual,
    AtLeast,
}

/// A program that is being written. Jumps go forward only.
#[derive(Default)]
pub struct Assembler {
    code: Vec<[u8; 8]>,
    /// Jumps whose targets are still to come.
    open: Vec<(usize, &'static str)>,
}

/// One instruction: what, registers (source above destination), offset, number.
const fn instruction(code: u8, registers: u8, offset: i16, number: i32) -> [u8; 8] {
    let (o, n) = (offset.to_ne_bytes(), number.to_ne_bytes());
    [code, registers, o[0], o[1], n[0], n[1], n[2], n[3]]
}

impl Assembler {
    /// The program's bytes, and how many instructions they are.
    pub fn finish(self) -> (Vec<u8>, u32) {
        debug_assert!(self.open.is_empty(), "{:?}", self.open);
        let count = self.code.len() as u32;
        (self.code.concat(), count)
    }

    fn put(&mut self, code: u8, to: Register, from: Register, offset: i16, number: i32) {
        let registers = from << 4 | to;
        self.code.push(instruction(code, registers, offset, number));
    }

    /// `to = from`.
    pub fn copy(&mut self, to: Register, from: Register) {
        self.put(0xbf, to, from, 0, 0);
    }

    /// `to = number`.
    pub fn set(&mut self, to: Register, number: i32) {
        self.put(0xb7, to, 0, 0, number);
    }

    /// `to += number`.
    pub fn add(&mut self, to: Register, number: i32) {
        self.put(0x07, to, 0, 0, number);
    }

    /// `to &= number`.
    pub fn and(&mut self, to: Register, number: i32) {
        self.put(0x57, to, 0, 0, number);
    }

    /// The lower 16 bits of `to` in the order of the network.
    pub fn put_in_network_order(&mut self, to: Register) {
        const HALF: i32 = 16;
        self.put(0xdc, to, 0, 0, HALF);
    }

    /// `to = from[offset]`.
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        let code = match width {
            Width::Word => 0x61,
            Width::Half => 0x69,
            Width::Byte => 0x71,
        };
        self.put(code, to, from, offset, 0);
    }

    /// `to[offset] = from`, 32 bits.
    pub fn store(&mut self, to: Register, offset: i16, from: Register) {
        self.put(0x63, to, from, offset, 0);
    }

    /// `to[offset] = from`, 16 bits.
    pub fn store_half(&mut self, to: Register, offset: i16, from: Register) {
        self.put(0x6b, to, from, offset, 0);
    }

    /// `to[offset] = number`, 32 bits.
    pub fn store_number(&mut self, to: Register, offset: i16, number: i32) {
        self.put(0x62, to, 0, offset, number);
    }

    /// `to` = the map with this descriptor.
    pub fn load_map(&mut self, to: Register, descriptor: i32) {
        const IS_DESCRIPTOR: Register = 1;
        self.put(0x18, to, IS_DESCRIPTOR, 0, descriptor);
        self.put(0, 0, 0, 0, 0);
    }

    /// Calls a function of the kernel's.
    pub fn call(&mut self, function: i32) {
        self.put(0x85, 0, 0, 0, function);
    }

    /// Calls a function of the kernel's that has no number of its own, by its number among the kernel's
    /// types.
    pub fn call_typed(&mut self, function: i32) {
        const IS_TYPED: Register = 2;
        self.put(0x85, 0, IS_TYPED, 0, function);
    }

    /// Returns register 0.
    pub fn exit(&mut self) {
        self.put(0x95, 0, 0, 0, 0);
    }

    /// Goes to a label.
    pub fn jump(&mut self, label: &'static str) {
        self.open.push((self.code.len(), label));
        self.put(0x05, 0, 0, 0, 0);
    }

    /// Goes to a label if a register compares so with a number.
    pub fn jump_if(&mut self, one: Register, when: When, number: i32, label: &'static str) {
        self.open.push((self.code.len(), label));
        let code = match when {
            When::Equal => 0x15,
            When::NotEqual => 0x55,
            When::AtLeast => 0x35,
        };
        self.put(code, one, 0, 0, number);
    }

    /// Goes to a label if one register is greater than another.
    pub fn jump_if_greater(&mut self, one: Register, other: Register, label: &'static str) {
        self.open.push((self.code.len(), label));
        self.put(0x2d, one, other, 0, 0);
    }

    /// A label is here.
    pub fn label(&mut self, label: &'static str) {
        let here = self.code.len();
        let code = &mut self.code;
        self.open.retain(|&(from, to)| {
            if to == label {
                // Counted from the instruction behind the jump.
                let distance = (here - from - 1) as i16;
                code[from][2..4].copy_from_slice(&distance.to_ne_bytes());
            }
            to != label
        });
    }
}
