//! Fast programs run in the obvious, slow way: what tests of the functions hold them against.
//!
//! Nothing is precompiled and nothing is clever. A run works on copies and changes words and
//! packet at its end, unless the packet turns out to be complex.

use twinpath_core::program::{
    Action, Comparison, Condition, EndpointRow, Exit, FastProgram, Field, Operand, Operation,
    PacketEnd, WINDOW_BYTES,
};
use twinpath_core::wire::{ethernet, kv, rewrite};
use twinpath_core::{Instant, Packet};

/// Runs a program on a packet and the flow's words, which both change unless the answer is
/// [`Exit::Escalate`]. `started` is when the run began: rows of endpoint tables end relative to
/// it.
pub(crate) fn run(
    program: &FastProgram,
    words: &mut [u32],
    packet: &mut Packet,
    started: Instant,
) -> Exit {
    let mut trial = Trial {
        program,
        packet,
        started,
        words: words.to_vec(),
        temporaries: vec![0; program.temporaries.into()],
        rewrites: Vec::new(),
    };
    let exit = trial.decide().unwrap_or(Exit::Escalate);
    let Trial {
        words: new_words,
        rewrites,
        ..
    } = trial;
    if exit != Exit::Escalate {
        words.copy_from_slice(&new_words);
        rewrites.into_iter().for_each(|change| change.apply(packet));
    }
    exit
}

/// Whether the packet is complex whatever the state.
pub(crate) fn is_always_complex(program: &FastProgram, packet: &Packet) -> bool {
    let trial = Trial {
        program,
        packet,
        started: Instant::ZERO,
        words: Vec::new(),
        temporaries: Vec::new(),
        rewrites: Vec::new(),
    };
    program
        .always_complex
        .iter()
        .any(|conditions| trial.all_hold(conditions))
}

/// What a packet will go through if it does not escalate.
enum Rewrite {
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
    rewrites: Vec<Rewrite>,
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
        let step = self
            .program
            .steps
            .iter()
            .find(|step| self.all_hold(&step.when))?;
        for action in &step.then {
            self.perform(action)?;
        }
        Some(step.exit)
    }

    fn all_hold(&self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| self.holds(condition))
    }

    fn holds(&self, condition: &Condition) -> bool {
        let left = self
            .value(condition.a)
            .wrapping_sub(self.value(condition.b))
            & condition.mask;
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
        let syn_and_fin =
            u32::from(packet.tcp_flags() & 1) + u32::from(packet.tcp_flags() >> 1 & 1);
        match field {
            Field::Direction => packet.direction as u32,
            Field::Protocol => packet.layout.protocol.into(),
            Field::TcpFlags => packet.tcp_flags().into(),
            Field::TcpSequence => packet.tcp_sequence(),
            Field::TcpAcknowledgement => packet.tcp_acknowledgement(),
            Field::TcpWindow => packet.tcp_window().into(),
            Field::PayloadLength => packet.layout.payload_bytes() as u32,
            Field::SegmentLength if packet.is_tcp() => {
                packet.layout.payload_bytes() as u32 + syn_and_fin
            }
            Field::SegmentLength => 0,
            Field::NowTicks => packet.timestamp().ticks(),
            Field::AliasRow => packet.alias_row,
            Field::WindowMatch => self.inspect(),
            Field::KvOperation => self
                .request()
                .map_or(0, |request| twinpath_core::key_value::operation(&request)),
            Field::KvValueLength => self
                .request()
                .map_or(0, |request| request.value().len() as u32),
            Field::ChecksumsHold => packet.checksums_hold().into(),
            Field::PacketLength => packet.packet_bytes(),
            Field::NowLow => packet.timestamp().0 as u32,
            Field::NowHigh => (packet.timestamp().0 >> 32) as u32,
        }
    }

    fn inspect(&self) -> u32 {
        let payload = self.packet.payload();
        let seen = &payload[..payload.len().min(WINDOW_BYTES)];
        self.program
            .window
            .as_ref()
            .map_or(0, |window| window.inspect(seen))
    }

    /// The key-value request that the packet carries. Only a key-value store's program asks.
    fn request(&self) -> Option<kv::KvView<'_>> {
        kv::KvView::new(self.packet.payload()).ok()
    }

    fn perform(&mut self, action: &Action) -> Option<()> {
        match *action {
            Action::Compute {
                to,
                operation,
                a,
                b,
            } => {
                let result = calculate(operation, self.value(a), self.value(b));
                match to {
                    Operand::Word(index) => self.words[usize::from(index)] = result,
                    Operand::Temporary(index) => self.temporaries[usize::from(index)] = result,
                    _ => panic!("an action writes to {to}"),
                }
            }
            Action::Rewrite { end, table, row } => {
                let row = self.row(table, row)?;
                (row.endpoint.address.is_v4() == self.packet.source().address.is_v4())
                    .then_some(())?;
                self.rewrites.push(Rewrite::End(end, row));
            }
            Action::RewriteMac { table, row } => {
                let row = self.row(table, row)?;
                self.rewrites.push(Rewrite::Mac(row));
            }
            Action::StoreValue { first, words } => self.store(first.into(), words.into())?,
            Action::ReplyValue {
                status,
                first,
                length,
            } => {
                let all: Vec<u8> = self.words[usize::from(first)..]
                    .iter()
                    .flat_map(|word| word.to_be_bytes())
                    .collect();
                let value = all.get(..self.value(length) as usize)?.to_vec();
                self.request()?;
                self.rewrites.push(Rewrite::Reply { status, value });
            }
        }
        Some(())
    }

    /// A row that exists and is not gone.
    fn row(&self, table: u8, row: Operand) -> Option<EndpointRow> {
        let row = *self.program.tables[usize::from(table)]
            .rows
            .get(self.value(row) as usize)?;
        let elapsed_ns = self.packet.timestamp().0.saturating_sub(self.started.0);
        (elapsed_ns < row.until.0).then_some(row)
    }

    fn store(&mut self, first: usize, words: usize) -> Option<()> {
        let mut value = self
            .request()
            .map_or(Vec::new(), |request| request.value().to_vec());
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
        Operation::Multiply => a.wrapping_mul(b),
    }
}

impl Rewrite {
    fn apply(self, packet: &mut Packet) {
        match self {
            Self::End(PacketEnd::Source, row) => {
                assert!(packet.set_source(row.endpoint), "families were compared")
            }
            Self::End(PacketEnd::Destination, row) => assert!(
                packet.set_destination(row.endpoint),
                "families were compared"
            ),
            Self::Mac(row) => assert!(
                ethernet::set_destination(packet.frame.bytes_mut(), row.mac),
                "frames have headers"
            ),
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
    assert!(
        packet.frame.set_len(start + message.len()),
        "a reply fits an ordinary buffer"
    );
    let bytes = packet.frame.bytes_mut();
    bytes[start..].copy_from_slice(&message);
    rewrite::swap_endpoints(bytes, &packet.layout).expect("the layout fits");
    rewrite::set_udp_payload_length(bytes, &mut packet.layout, message.len())
        .expect("room was made");
    rewrite::refresh_checksums(bytes, &packet.layout).expect("the layout fits");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use twinpath_core::key::Role;
    use twinpath_core::program::{Step, Word};
    use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};
    use twinpath_core::{Direction, DropReason, Pools, Steering};
    use twinpath_fastpath::{Interpreter, PacketView};

    const WORDS: u8 = 3;
    const TEMPORARIES: u8 = 2;

    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![0..40u32, any::<u32>(), Just(1 << 31)]
    }

    fn field() -> impl Strategy<Value = Operand> {
        prop::sample::select(Field::ALL.to_vec()).prop_map(Operand::Field)
    }

    fn place() -> impl Strategy<Value = Operand> {
        prop_oneof![
            (0..WORDS).prop_map(Operand::Word),
            (0..TEMPORARIES).prop_map(Operand::Temporary)
        ]
    }

    fn operand() -> impl Strategy<Value = Operand> {
        prop_oneof![place(), field(), number().prop_map(Operand::Constant)]
    }

    fn condition(
        operand: impl Strategy<Value = Operand> + Clone,
    ) -> impl Strategy<Value = Condition> {
        use Comparison::{
            AtLeast, AtMost, Equal, Greater, Less, NotEqual, SignedAtLeast, SignedAtMost,
        };
        let all = vec![
            Equal,
            NotEqual,
            Less,
            AtMost,
            Greater,
            AtLeast,
            SignedAtMost,
            SignedAtLeast,
        ];
        let mask = prop_oneof![Just(u32::MAX), number()];
        (
            operand.clone(),
            operand.clone(),
            mask,
            prop::sample::select(all),
            operand,
        )
            .prop_map(|(a, b, mask, comparison, with)| Condition {
                a,
                b,
                mask,
                comparison,
                with,
            })
    }

    fn action() -> impl Strategy<Value = Action> {
        use Operation::{
            Add, And, Later, Maximum, Minimum, Or, ShiftLeft, ShiftRight, Subtract, Xor,
        };
        let all = vec![
            Add, And, Later, Maximum, Minimum, Or, ShiftLeft, ShiftRight, Subtract, Xor,
        ];
        (place(), prop::sample::select(all), operand(), operand()).prop_map(
            |(to, operation, a, b)| Action::Compute {
                to,
                operation,
                a,
                b,
            },
        )
    }

    fn step() -> impl Strategy<Value = Step> {
        let exit = prop::sample::select(vec![
            Exit::Continue,
            Exit::Reply,
            Exit::Drop(DropReason::Denied),
            Exit::Escalate,
        ]);
        (
            prop::collection::vec(condition(operand().boxed()), 0..3),
            prop::collection::vec(action(), 0..4),
            exit,
        )
            .prop_map(|(when, then, exit)| Step {
                name: "a step",
                when,
                then,
                exit,
            })
    }

    fn program() -> impl Strategy<Value = FastProgram> {
        let fields = prop_oneof![field(), number().prop_map(Operand::Constant)].boxed();
        let always_complex =
            prop::collection::vec(prop::collection::vec(condition(fields), 1..3), 0..2);
        (
            prop::collection::vec(action(), 0..3),
            prop::collection::vec(step(), 0..4),
            always_complex,
        )
            .prop_map(|(prologue, steps, always_complex)| FastProgram {
                name: "random".into(),
                words: vec![
                    Word {
                        name: "a word",
                        meaning: "anything"
                    };
                    WORDS.into()
                ],
                temporaries: TEMPORARIES,
                prologue,
                steps,
                always_complex,
                ..FastProgram::default()
            })
    }

    fn packet() -> impl Strategy<Value = Vec<u8>> {
        (
            any::<bool>(),
            number(),
            number(),
            any::<u8>(),
            any::<u16>(),
            0..100usize,
        )
            .prop_map(|(tcp, sequence, acknowledgement, flags, window, bytes)| {
                let (source, destination) = (
                    Endpoint::v4([10, 0, 0, 1], 1000),
                    Endpoint::v4([10, 0, 0, 2], 2000),
                );
                let builder = match tcp {
                    true => PacketBuilder::tcp(source, destination)
                        .seq(sequence)
                        .ack(acknowledgement)
                        .flags(flags)
                        .window(window),
                    false => PacketBuilder::udp(source, destination),
                };
                builder.payload_len(bytes).to_vec().expect("a packet")
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn the_interpreter_does_the_same(program in program(), bytes in packet(), words: [u32; WORDS as usize], reply: bool, now: u64) {
            let layout = dissect(&bytes).expect("a valid packet");
            let keyed = Steering::new(0).key(&bytes, &layout).expect("an IP packet");
            let direction = if reply { Direction::Reply } else { Direction::Original };
            let mut interpreter = Interpreter::new(std::slice::from_ref(&program)).expect("a valid program");
            let decided = interpreter.run(&PacketView { bytes: &bytes, layout: &layout, keyed: &keyed, direction, now: Instant(now) }, &words);

            let mut frame = Pools::new(1, 1).take_filled(&bytes).expect("room");
            frame.set_timestamp(Instant(now));
            let mut packet = Packet { frame, layout, direction, role: Role::Member, alias_row: 0 };
            let mut slow_words = words;
            let exit = run(&program, &mut slow_words, &mut packet, Instant::ZERO);

            prop_assert_eq!(decided, exit);
            if exit == Exit::Escalate {
                prop_assert_eq!(slow_words, words, "what escalates changes nothing");
            } else {
                prop_assert_eq!(interpreter.words(), &slow_words[..]);
            }
        }
    }
}
