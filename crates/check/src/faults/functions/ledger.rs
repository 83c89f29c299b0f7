//! A network function made to be checked: each flow's words are an account of the packets that
//! were applied to it, in order.
//!
//! Three words: a digest in which every packet's number and direction leaves a mark that depends
//! on its place, how many there were, and when the last came. Packets say by their TCP flags what
//! happens to them; their number is the TCP sequence number.
//!
//! | flag | on the fast path | on the slow path |
//! |---|---|---|
//! | none | entered, leaves | the same |
//! | FIN | entered, dropped | the same |
//! | ECE | entered, leaves as a reply | the same |
//! | RST | the account is closed: all words zero | the same |
//! | CWR | complex if the number of packets entered is odd, else entered | entered |
//! | SYN | always complex | as the other flags say |
//! | PSH | always complex | held, and entered before the flow's next packet or when its time is up |
//!
//! While a packet is held the flow is pending. After some ticks without a packet the account
//! expires.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use twinpath_core::program::{
    Action, Comparison, Condition, Exit, FastProgram, Field, Operand, Operation, Step, Word,
    compute, set,
};
use twinpath_core::wire::tcp::flags;
use twinpath_core::{DropReason, FlowKey, Instant, Packet};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox, Slab};

/// State words of a flow.
pub const WORDS: usize = 3;
const DIGEST: usize = 0;
const COUNT: usize = 1;
/// Where an account has the time of its last packet.
pub const LAST: usize = 2;

/// What a packet's direction adds to the digest, as a shift.
pub const DIRECTION_SHIFT: u32 = 20;

/// Frames that one worker's ledger holds at most.
pub const MOST_HELD: usize = 8;

/// What the slow function did, in order: what the simulation listens to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A packet is held; the account before that.
    Held {
        flow: (u8, FlowKey),
        packet: u32,
        found: [u32; WORDS],
    },
    /// A packet was entered; the account before that.
    Entered {
        flow: (u8, FlowKey),
        packet: u32,
        found: [u32; WORDS],
    },
    /// A packet that was held is lost because the flow was forgotten.
    Forgotten { packet: u32 },
}

/// Where notes are collected.
pub type Notes = Arc<Mutex<Vec<Note>>>;

impl Note {
    /// The flow that it is about, if it has one: the element's number and the key there.
    pub fn flow(&self) -> Option<(u8, FlowKey)> {
        match *self {
            Self::Held { flow, .. } | Self::Entered { flow, .. } => Some(flow),
            Self::Forgotten { .. } => None,
        }
    }
}

/// Takes the notes out.
pub fn take_notes(notes: &Notes) -> Vec<Note> {
    std::mem::take(&mut notes.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The function.
pub struct Ledger {
    hold: Duration,
    expiry_ticks: u32,
    held: Slab<VecDeque<Packet>>,
    held_frames: usize,
    /// The element that it is in.
    element: u8,
    notes: Notes,
}

impl Ledger {
    /// A ledger in this element that holds packets for so long, and says what it does.
    pub fn new(hold: Duration, expiry_ticks: u32, (element, notes): (u8, &Notes)) -> Self {
        Self {
            hold,
            expiry_ticks,
            held: Slab::new(MOST_HELD),
            held_frames: 0,
            element,
            notes: Arc::clone(notes),
        }
    }

    fn note(&self, note: Note) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(note);
    }

    fn hold(&mut self, packet: Packet, flow: &mut Flow<'_>) {
        self.note(Note::Held {
            flow: (self.element, *flow.key),
            packet: packet.tcp_sequence(),
            found: found(flow),
        });
        flow.words[LAST] = packet.timestamp().ticks();
        self.held_frames += 1;
        match self.held.at_mut(*flow.handle) {
            Some(queue) => queue.push_back(packet),
            None => {
                let queue = VecDeque::from([packet]);
                *flow.handle = self.held.insert(queue).unwrap_or_default();
            }
        }
    }

    fn let_go(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let queue = self.held.remove(std::mem::take(flow.handle));
        for packet in queue.into_iter().flatten() {
            self.held_frames -= 1;
            let last = flow.words[LAST];
            self.enter(packet, last, flow, out);
        }
    }

    fn enter(&mut self, packet: Packet, last: u32, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let (number, flags) = (packet.tcp_sequence(), packet.tcp_flags());
        self.note(Note::Entered {
            flow: (self.element, *flow.key),
            packet: number,
            found: found(flow),
        });
        if flags & flags::RST != 0 {
            flow.words.fill(0);
        } else {
            flow.words[DIGEST] = flow.words[DIGEST]
                .wrapping_mul(31)
                .wrapping_add(number)
                .wrapping_add((packet.direction as u32) << DIRECTION_SHIFT);
            flow.words[COUNT] += 1;
            flow.words[LAST] = last;
        }
        if flags & flags::FIN != 0 {
            out.drop(packet, DropReason::Denied);
        } else if flags & flags::ECE != 0 {
            out.reply(packet);
        } else {
            out.forward(packet);
        }
    }
}

fn found(flow: &Flow<'_>) -> [u32; WORDS] {
    [flow.words[DIGEST], flow.words[COUNT], flow.words[LAST]]
}

impl NetworkFunction for Ledger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn program(&self) -> FastProgram {
        program(self.expiry_ticks)
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if packet.tcp_flags() & flags::PSH != 0 && self.held_frames < MOST_HELD {
            return self.hold(packet, flow);
        }
        self.let_go(flow, out);
        let now = packet.timestamp().ticks();
        self.enter(packet, now, flow, out);
    }

    fn deadline(&self, handle: u32) -> Instant {
        let first = self.held.at(handle).and_then(VecDeque::front);
        first.map_or(Instant::NEVER, |packet| packet.timestamp() + self.hold)
    }

    fn wake(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.let_go(flow, out);
    }

    fn release(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.let_go(flow, out);
    }

    fn kept_packets(&self) -> usize {
        self.held_frames
    }

    fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
        let new = (new as &mut dyn Any).downcast_ref::<Self>();
        if let Some(new) = new {
            (self.hold, self.expiry_ticks) = (new.hold, new.expiry_ticks);
        }
        new.is_some()
    }

    fn is_pending(&self, _words: &[u32], handle: u32) -> bool {
        handle != 0
    }

    fn is_expired(&self, words: &[u32], now: Instant) -> bool {
        now.ticks_since(words[LAST]) > self.expiry_ticks
    }

    fn forget(&mut self, handle: u32) {
        for packet in self.held.remove(handle).into_iter().flatten() {
            self.held_frames -= 1;
            self.note(Note::Forgotten {
                packet: packet.tcp_sequence(),
            });
        }
    }

    fn most_held_frames(&self) -> usize {
        MOST_HELD
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("held", self.held_frames as u64);
    }
}

const fn word(place: usize) -> Operand {
    Operand::Word(place as u8)
}

const NOW: Operand = Operand::Field(Field::NowTicks);

fn flag(flag: u8) -> Condition {
    let flags = Operand::Field(Field::TcpFlags);
    Condition::bits(flags, flag.into(), flag.into())
}

fn program(expiry_ticks: u32) -> FastProgram {
    let step = |name, when, then, exit| Step {
        name,
        when,
        then,
        exit,
    };
    let is_known = Condition::of(word(COUNT), Comparison::NotEqual, Operand::Constant(0));
    let is_old = Condition::difference(NOW, word(LAST), Comparison::Greater, expiry_ticks);
    let is_odd = Condition::bits(word(COUNT), 1, 1);
    let close = [DIGEST, COUNT, LAST].map(|place| set(word(place), Operand::Constant(0)));
    FastProgram {
        name: "ledger".into(),
        words: words(),
        temporaries: 2,
        steps: vec![
            step("expired", vec![is_known, is_old], vec![], Exit::Escalate),
            step(
                "odd",
                vec![flag(flags::CWR), is_odd],
                vec![],
                Exit::Escalate,
            ),
            step(
                "close",
                vec![flag(flags::RST)],
                close.to_vec(),
                Exit::Continue,
            ),
            step(
                "drop",
                vec![flag(flags::FIN)],
                entry(),
                Exit::Drop(DropReason::Denied),
            ),
            step("reply", vec![flag(flags::ECE)], entry(), Exit::Reply),
            step("enter", vec![], entry(), Exit::Continue),
        ],
        always_complex: vec![vec![flag(flags::SYN)], vec![flag(flags::PSH)]],
        ..FastProgram::default()
    }
}

fn words() -> Vec<Word> {
    [
        ("digest", "packets entered, in order"),
        ("count", "how many they are"),
        ("last", "when the last came, in ticks"),
    ]
    .map(|(name, meaning)| Word { name, meaning })
    .to_vec()
}

/// `digest = digest * 31 + number + direction << 20; count += 1; last = now`.
fn entry() -> Vec<Action> {
    let (times_31, mark) = (Operand::Temporary(0), Operand::Temporary(1));
    let constant = Operand::Constant;
    let direction = Operand::Field(Field::Direction);
    let number = Operand::Field(Field::TcpSequence);
    vec![
        compute(times_31, Operation::ShiftLeft, word(DIGEST), constant(5)),
        compute(times_31, Operation::Subtract, times_31, word(DIGEST)),
        compute(
            mark,
            Operation::ShiftLeft,
            direction,
            constant(DIRECTION_SHIFT),
        ),
        compute(times_31, Operation::Add, times_31, mark),
        compute(word(DIGEST), Operation::Add, times_31, number),
        compute(word(COUNT), Operation::Add, word(COUNT), constant(1)),
        set(word(LAST), NOW),
    ]
}
