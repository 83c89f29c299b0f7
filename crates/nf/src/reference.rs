//! Fast programs run in the obvious, slow way: what tests of the functions hold them against.
//!
//! Nothing is precompiled and nothing is clever. A run works on copies and changes words and
//! packet at its end, unless the packet turns out to be complex.

use twinpath_core::program::{Action, Comparison, Condition, EndpointRow, Exit, FastProgram, Field, Operand, Operation, PacketEnd, WINDOW_BYTES};
use twinpath_core::wire::{kv, rewrite};
use twinpath_core::{Instant, Packet};

/// Runs a program on a packet and the flow's words, which both change unless the answer is
/// [`Exit::Escalate`]. `started` is when the run began: rows of endpoint tables end relative to
/// it.
pub(crate) fn run(program: &FastProgram, words: &mut [u32], packet: &mut Packet, started: Instant) -> Exit {
    let mut trial = Trial { program, packet, started, words: words.to_vec(), temporaries: vec![0; program.temporaries.into()], changes: Vec::new() };
    let exit = trial.decide().unwrap_or(Exit::Escalate);
    let Trial { words: new_words, changes, .. } = trial;
    if exit != Exit::Escalate {
        words.copy_from_slice(&new_words);
        changes.into_iter().for_each(|change| change.apply(packet));
    }
    exit
}

/// Whether the packet is complex whatever the state.
pub(crate) fn is_always_complex(program: &FastProgram, packet: &Packet) -> bool {
    let trial = Trial { program, packet, started: Instant::ZERO, words: Vec::new(), temporaries: Vec::new(), changes: Vec::new() };
    program.always_complex.iter().any(|conditions| trial.all_hold(conditions))
}

/// What a packet will go through if it does not escalate.
enum Change {
    End(PacketEnd, EndpointRow),
    Mac(EndpointRow),
    Reply { status: u8, value: Vec<u8> },
}

struct Trial<'a> {
    program: &'a FastProgram,
    packet: &'a Packet,
    started: Instant,
    words: Vec<u32>,
    temporaries: Vec<u32>,
    changes: Vec<Change>,
}

impl Trial<'_> {
    /// `None` if an action cannot be done here.
    fn decide(&mut self) -> Option<Exit> {
        if is_always_complex(self.program, self.packet) {
            return None;
        }
        for action in &self.program.prologue {
            self.perform(action)?;
        }
        let step = self.program.steps.iter().find(|step| self.all_hold(&step.when))?;
        for action in &step.then {
            self.perform(action)?;
        }
        Some(step.exit)
    }

    fn all_hold(&self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| self.holds(condition))
    }

    fn holds(&self, condition: &Condition) -> bool {
        let left = self.value(condition.a).wrapping_sub(self.value(condition.b)) & condition.mask;
        let right = self.value(condition.with);
        match condition.comparison {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => left < right,
            Comparison::AtMost => left <= right,
            Comparison::Greater => left > right,
            Comparison::AtLeast => left >= right,
            Comparison::SignedAtMost => left.cast_signed() <= right.cast_signed(),
            Comparison::SignedAtLeast => left.cast_signed() >= right.cast_signed(),
        }
    }

    fn value(&self, operand: Operand) -> u32 {
        match operand {
            Operand::Word(index) => self.words[usize::from(index)],
            Operand::Field(field) => self.field(field),
            Operand::Temporary(index) => self.temporaries[usize::from(index)],
            Operand::Constant(value) => value,
        }
    }

    fn field(&self, field: Field) -> u32 {
        let packet = self.packet;
        let syn_and_fin = u32::from(packet.tcp_flags() & 1) + u32::from(packet.tcp_flags() >> 1 & 1);
        match field {
            Field::Direction => packet.direction as u32,
            Field::Protocol => packet.layout.protocol.into(),
            Field::TcpFlags => packet.tcp_flags().into(),
            Field::TcpSequence => packet.tcp_sequence(),
            Field::TcpAcknowledgement => packet.tcp_acknowledgement(),
            Field::TcpWindow => packet.tcp_window().into(),
            Field::PayloadLength => packet.layout.payload_bytes() as u32,
            Field::SegmentLength if packet.is_tcp() => packet.layout.payload_bytes() as u32 + syn_and_fin,
            Field::SegmentLength => 0,
            Field::NowTicks => packet.timestamp().ticks(),
            Field::AliasRow => packet.alias_row,
            Field::WindowMatch => self.inspect(),
            Field::KvOperation => self.request().map_or(0, |request| request.op() as u32),
            Field::KvValueLength => self.request().map_or(0, |request| request.value().len() as u32),
        }
    }

    fn inspect(&self) -> u32 {
        let payload = self.packet.payload();
        let seen = &payload[..payload.len().min(WINDOW_BYTES)];
        self.program.window.as_ref().map_or(0, |window| window.inspect(seen))
    }

    /// The key-value request that the packet carries. Only a key-value store's program asks.
    fn request(&self) -> Option<kv::KvView<'_>> {
        kv::KvView::new(self.packet.payload()).ok()
    }

    fn perform(&mut self, action: &Action) -> Option<()> {
        match *action {
            Action::Compute { to, operation, a, b } => {
                let result = calculate(operation, self.value(a), self.value(b));
                match to {
                    Operand::Word(index) => self.words[usize::from(index)] = result,
                    Operand::Temporary(index) => self.temporaries[usize::from(index)] = result,
                    _ => panic!("an action writes to {to}"),
                }
            }
            Action::Rewrite { end, table, row } => {
                let row = self.row(table, row)?;
                (row.endpoint.address.is_v4() == self.packet.source().address.is_v4()).then_some(())?;
                self.changes.push(Change::End(end, row));
            }
            Action::RewriteMac { table, row } => {
                let row = self.row(table, row)?;
                self.changes.push(Change::Mac(row));
            }
            Action::StoreValue { first, words } => self.store(first.into(), words.into())?,
            Action::ReplyValue { status, first, length } => {
                let all: Vec<u8> = self.words[usize::from(first)..].iter().flat_map(|word| word.to_be_bytes()).collect();
                let value = all.get(..self.value(length) as usize)?.to_vec();
                self.request()?;
                self.changes.push(Change::Reply { status, value });
            }
        }
        Some(())
    }

    /// A row that exists and is not gone.
    fn row(&self, table: u8, row: Operand) -> Option<EndpointRow> {
        let row = *self.program.tables[usize::from(table)].rows.get(self.value(row) as usize)?;
        let elapsed_ns = self.packet.timestamp().0.saturating_sub(self.started.0);
        (elapsed_ns < row.until.0).then_some(row)
    }

    fn store(&mut self, first: usize, words: usize) -> Option<()> {
        let mut value = self.request().map_or(Vec::new(), |request| request.value().to_vec());
        if value.len() > 4 * words {
            return None;
        }
        value.resize(4 * words, 0);
        for (word, bytes) in self.words[first..].iter_mut().zip(value.as_chunks().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        Some(())
    }
}

fn calculate(operation: Operation, a: u32, b: u32) -> u32 {
    match operation {
        Operation::Add => a.wrapping_add(b),
        Operation::Subtract => a.wrapping_sub(b),
        Operation::And => a & b,
        Operation::Or => a | b,
        Operation::Xor => a ^ b,
        Operation::ShiftLeft => a << (b % 32),
        Operation::ShiftRight => a >> (b % 32),
        Operation::Minimum => a.min(b),
        Operation::Maximum => a.max(b),
        Operation::Later if a.wrapping_sub(b).cast_signed() < 0 => b,
        Operation::Later => a,
    }
}

impl Change {
    fn apply(self, packet: &mut Packet) {
        match self {
            Self::End(PacketEnd::Source, row) => assert!(packet.set_source(row.endpoint), "families were compared"),
            Self::End(PacketEnd::Destination, row) => assert!(packet.set_destination(row.endpoint), "families were compared"),
            Self::Mac(row) => packet.frame.bytes_mut()[..6].copy_from_slice(&row.mac.0),
            Self::Reply { status, value } => write_reply(packet, status, &value),
        }
    }
}

/// Makes a request its reply: takes it apart and writes a new message.
fn write_reply(packet: &mut Packet, status: u8, value: &[u8]) {
    let mut message = packet.payload()[..kv::HEADER_BYTES].to_vec();
    message[kv::OP_AT] |= kv::REPLY_BIT;
    message[kv::STATUS_AT] = status;
    message[kv::VALUE_LENGTH_AT] = value.len() as u8;
    message.extend(value);
    let start = usize::from(packet.layout.payload);
    assert!(packet.frame.set_len(start + message.len()), "a reply fits an ordinary buffer");
    let bytes = packet.frame.bytes_mut();
    bytes[start..].copy_from_slice(&message);
    rewrite::swap_endpoints(bytes, &packet.layout).expect("the layout fits");
    rewrite::set_udp_payload_length(bytes, &mut packet.layout, message.len()).expect("room was made");
    rewrite::refresh_checksums(bytes, &packet.layout).expect("the layout fits");
}
