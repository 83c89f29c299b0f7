//! Whoever follows packets hears from the walk itself what becomes of them, step by step.
//!
//! A [`Watch`] is given to a node's machine and workers ([`Node::watch`](crate::Node::watch)). The
//! functions that treat packets one by one tell it what they do; while somebody watches, packets
//! that would pass an element in one loop with others pass it singly. A packet is known by its
//! buffer, and while its payload is parked by that of its header too.

mod functions;
mod look;

pub(crate) use functions::Functions;
pub use look::{PacketLook, Quantity};
pub(crate) use look::{entry_look, rule_look};

use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twinpath_core::Frame;
use twinpath_core::wire::Address;
use twinpath_dash::pipeline::Note;
use twinpath_link::Header;
use twinpath_rulecache::RuleName;

/// A step of a packet's walk, named after the function that takes it where one function does.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum TraceStep {
    /// The packet's headers and direction were found.
    LookAhead {
        /// When it arrived, ns on the packet clock.
        time_ns: u64,
        /// The number of the port that it came in by.
        port: u16,
        /// `original` or `reply`: in which order it passes the elements; absent if it enters none.
        direction: Option<&'static str>,
        /// The packet as it arrived.
        packet: PacketLook,
    },
    /// It met an element on the fast path.
    Meet(Box<Meeting>),
    /// It met an element in the loop that serves a lane, which tells no more: only where that is
    /// followed, and not each packet.
    Pass {
        /// The element.
        element: u8,
    },
    /// It waits for a rule to become active, or for the state of its flow.
    Hold {
        /// The element.
        element: u8,
    },
    /// It was handed to a worker.
    Punt {
        /// The element that it is for.
        element: u8,
        /// The worker.
        worker: usize,
        /// What the fast path says with it.
        message: MessageLook,
    },
    /// Its payload waits on the fast path's side, and its header goes alone.
    Park {
        /// Bytes of payload.
        bytes: u16,
    },
    /// Its payload waits in remote memory, and its header goes alone.
    Split {
        /// Bytes of payload.
        bytes: u16,
    },
    /// It met an element on its worker.
    Receive {
        /// The element.
        element: u8,
        /// What happened there.
        slow_path: SlowLook,
    },
    /// A function had kept it, and let it go: it met those behind, which have dropped it.
    Release {
        /// The element.
        element: u8,
        /// What happened there.
        slow_path: SlowLook,
    },
    /// Virtual reassembly in front of an element looked for its datagram, and had no place for it, or
    /// gave it up.
    Gather {
        /// The element.
        element: u8,
    },
    /// It has waited on its worker for rules to go, and has met the functions now.
    Resume {
        /// The element.
        element: u8,
    },
    /// It is on the fast path again.
    Returned {
        /// What came with it.
        message: MessageLook,
    },
    /// It goes on alone, with what is behind an element.
    GoOn {
        /// The element that it has passed.
        element: u8,
    },
    /// It has passed the last element, and waits for its payload or for packets before it.
    HoldBack,
    /// It may leave now.
    PassParking {
        /// Whether it found its payload again.
        has_joined: bool,
    },
    /// It may leave now: its payload is back from remote memory, or those before it have left.
    Merge {
        /// Whether it found its payload again.
        has_payload: bool,
    },
    /// It is dropped.
    Drop {
        /// The reason's name in reports.
        reason: &'static str,
    },
    /// It leaves.
    PutOut {
        /// Whether it goes back to the sender of the request that it answers.
        is_reply: bool,
        /// The port that it leaves by, if there are several or a function said so.
        egress: Option<u16>,
        /// The packet as it leaves.
        packet: PacketLook,
    },
}

/// What a packet met on the fast path at one element.
#[derive(Clone, Debug, Serialize)]
pub struct Meeting {
    /// The element's number, in chain order from 0.
    pub element: u8,
    /// The flow, as elements with flow state know it.
    pub flow: String,
    /// What was found: a rule, a slot, or nothing and why.
    pub found: TableLookup,
    /// What was decided, in words.
    pub decision: String,
    /// The packet behind the element, if that changed it.
    pub packet: Option<PacketLook>,
}

/// What the fast path has for a packet.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TableLookup {
    /// The element is on the slow path alone.
    Nothing,
    /// A packet that never meets a rule.
    NotPlain,
    /// No rule matches.
    NoRule,
    /// This rule.
    Rule(Box<TracedRule>),
    /// A DPU: what stages have found, up to its table of flows.
    Dash(Vec<StageLook>),
    /// The flow has no slot.
    NoSlot,
    /// This slot.
    Slot(SlotLook),
}

/// What a stage of a DPU has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageLook {
    /// The stage, or its table.
    pub stage: &'static str,
    /// What was looked up there, and the entry that was found.
    pub entry: String,
    /// What follows.
    pub action: String,
}

impl StageLook {
    /// Those of a DPU's notes.
    pub(crate) fn of_notes(notes: Vec<Note>) -> Vec<Self> {
        let look = |note: Note| Self {
            stage: note.stage,
            entry: note.entry,
            action: note.action,
        };
        notes.into_iter().map(look).collect()
    }

    /// The last that decides about a packet, as an entry of the function's table.
    pub(crate) fn deciding(stages: &[Self]) -> Option<EntryLook> {
        let mut stages = stages.iter().rev();
        let last = stages.find(|look| look.stage != Note::DECISION)?;
        Some(EntryLook {
            function: twinpath_nf::dash::NAME.into(),
            text: Some(format!("{}: {}: {}", last.stage, last.entry, last.action)),
            ..EntryLook::default()
        })
    }
}

/// A rule that the fast path has.
#[derive(Clone, Debug, Serialize)]
pub struct TracedRule {
    /// Its number.
    pub id: u32,
    /// Which rule of that number it is.
    pub generation: u32,
    /// The rule, as the book of the slow path has it.
    #[serde(flatten)]
    pub rule: Option<RuleLook>,
}

impl TracedRule {
    /// A rule of which no more is known than its name.
    pub(crate) fn named(name: RuleName) -> Self {
        Self {
            id: name.id,
            generation: name.generation,
            rule: None,
        }
    }

    /// Whether both are the same rule.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.id, self.generation) == (other.id, other.generation)
    }
}

/// A slot of the state table.
#[derive(Clone, Debug, Serialize)]
pub struct SlotLook {
    /// Where the slot is in its life, before the packet.
    pub state: &'static str,
    /// And behind it.
    pub state_after: &'static str,
    /// The state words, before and behind the packet; all zero while the workers hold them.
    pub words: Vec<WordChange>,
    /// What each function's fast program did, up to the one that did not let the packet go on;
    /// none while the workers hold the words, or for packets that no program sees.
    pub programs: Vec<ProgramLook>,
    /// The rule by which packets of the flow are dropped, where a function with such rules has banned it.
    pub rule: Option<EntryLook>,
}

/// What a fast program did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramLook {
    /// The function.
    pub function: String,
    /// The step that was taken; absent if the conditions of none held.
    pub step: Option<&'static str>,
    /// Where the packet went then.
    pub exit: String,
}

/// What the paths tell each other with a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageLook {
    /// The message's name.
    pub message: &'static str,
    /// Of the pull that it belongs to, or the write-back; 0 if there is none.
    pub generation: u32,
    /// Which life of the worker it is from, or was; 0 if that does not matter.
    pub epoch: u32,
    /// The flow's state words, if it carries them.
    pub words: Vec<WordChange>,
    /// Bytes of payload that stay behind: the packet travels as a header.
    pub parked_bytes: u16,
}

/// What a packet met on the slow path at one element.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowLook {
    /// Functions whose decisions are cached.
    Rules(Box<RulesRun>),
    /// Functions that share flow state.
    State(Box<StateRun>),
    /// A DPU, or its policies.
    Dash(Box<DashRun>),
}

/// What a DPU did on the slow path.
#[derive(Clone, Debug, Serialize)]
pub struct DashRun {
    /// Its stages, in order.
    pub stages: Vec<StageLook>,
    /// What became of the packet here.
    pub outcome: String,
}

impl SlowLook {
    /// What became of the packet.
    pub fn outcome(&self) -> &str {
        match self {
            Self::Rules(run) => &run.outcome,
            Self::State(run) => &run.outcome,
            Self::Dash(run) => &run.outcome,
        }
    }
}

/// A run through functions whose decisions are cached.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RulesRun {
    /// The functions, in the order that the packet met them.
    pub functions: Vec<FunctionLook>,
    /// What became of the packet here.
    pub outcome: String,
    /// The rule that it makes.
    pub rule: Option<RuleLook>,
    /// Why it makes none.
    pub no_rule: Option<NoRule>,
    /// Whether the rule is cached now, and why.
    pub selection: String,
    /// Packets that functions made because of it.
    pub replies: Vec<PacketLook>,
}

/// What one function did.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionLook {
    /// The function.
    pub name: String,
    /// What it examined of the packet that no function before it had.
    pub examined: Vec<Quantity>,
    /// What it wrote.
    pub written: Vec<FieldChange>,
    /// The entries of its table that decided.
    pub entries: Vec<EntryLook>,
    /// What it decided.
    pub verdict: String,
}

/// A field that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// The field.
    pub field: &'static str,
    /// Its value before.
    pub old: String,
    /// Its value behind the function.
    pub new: String,
}

/// An entry of a function's table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EntryLook {
    /// The function.
    pub function: String,
    /// The function's number for it.
    pub entry: u32,
    /// Where it is a rule of a list: its number, counted from 1.
    pub rule: Option<usize>,
    /// What it is, on one line, if the function says so.
    pub text: Option<String>,
    /// The line of the service file that it is in.
    pub line: Option<usize>,
    /// It ends when it was not used for longer than this, if it ends.
    pub idle: Option<String>,
    /// Where the packets go that it has decided about.
    #[serde(skip)]
    pub(crate) destination: Option<Address>,
}

/// A rule in words.
#[derive(Clone, Debug, Serialize)]
pub struct RuleLook {
    /// The bits that are compared, and what they must be.
    pub matches: Vec<Quantity>,
    /// The mask over the packet's key, as hexadecimal words.
    pub mask: String,
    /// The value, the same way.
    pub value: String,
    /// What is written.
    pub rewrites: Vec<String>,
    /// What becomes of the packet.
    pub fate: String,
    /// The least time to live of packets that it is for, if it counts that down.
    pub least_time_to_live: Option<u16>,
    /// It ends when it was not used for longer than this.
    pub idle: Option<String>,
    /// The entries that it came from.
    pub entries: Vec<EntryLook>,
}

/// Why a packet makes no rule.
#[derive(Clone, Debug, Serialize)]
pub struct NoRule {
    /// The reason's name in reports.
    pub name: &'static str,
    /// Which packets it is about.
    pub meaning: &'static str,
}

/// A run through functions that share flow state.
#[derive(Clone, Debug, Serialize)]
pub struct StateRun {
    /// The packet as it comes.
    #[serde(skip)]
    pub(crate) packet: Vec<u8>,
    /// The port that it came in by.
    #[serde(skip)]
    pub(crate) ingress: u16,
    /// The function that dropped it, if one did.
    pub function: Option<String>,
    /// The rule of a list that decides about new connections of such packets, where a function with
    /// such rules has denied it, or has let it open one; or the one by which the flow is banned.
    pub rule: Option<EntryLook>,
    /// The flow's state words on the slow path, before and behind the packet.
    pub words: Vec<WordChange>,
    /// What became of the packet here.
    pub outcome: String,
    /// Packets that functions made because of it.
    pub replies: Vec<PacketLook>,
}

impl StateRun {
    /// Whether a function knew nothing of the flow before the packet, and does now.
    pub(crate) fn opens_at(&self, function: &str) -> bool {
        let is_known = |value: Option<u32>| value.is_some_and(|value| value != 0);
        let words = || self.words.iter().filter(|word| word.function == *function);
        !words().any(|word| is_known(word.before)) && words().any(|word| is_known(word.after))
    }
}

/// A word of a flow's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WordChange {
    /// The function that it belongs to.
    pub function: String,
    /// Its name.
    pub name: &'static str,
    /// Its value before; absent if there was no flow.
    pub before: Option<u32>,
    /// Its value behind the packet.
    pub after: Option<u32>,
    /// With the first of a function's words what it chose for the packet, and why, if it chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
}

/// What an element's functions and state words are called.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The functions, in order.
    pub functions: Vec<String>,
    /// The words, each with its function.
    pub words: Vec<(String, &'static str)>,
}

/// Follows packets through a node.
#[derive(Clone, Debug)]
pub struct Watch {
    /// By element.
    elements: Arc<[Names]>,
    log: Arc<Mutex<Log>>,
    follows_loop: bool,
}

#[derive(Debug)]
struct Log {
    /// Packets that are followed, by their numbers in the order of arrival.
    packets: Range<u64>,
    /// The numbers of those inside, by the buffers that they are in.
    buffers: HashMap<usize, u64>,
    steps: Vec<(u64, TraceStep)>,
}

impl Log {
    fn tell(&mut self, ordinal: u64, step: TraceStep) {
        if step.is_last() {
            self.buffers.retain(|_, other| *other != ordinal);
        }
        self.steps.push((ordinal, step));
    }
}

impl Watch {
    /// Follows packets with these numbers in the order of arrival, through elements of these names.
    pub fn new(elements: Vec<Names>, packets: Range<u64>) -> Self {
        let log = Log {
            packets,
            buffers: HashMap::new(),
            steps: Vec::new(),
        };
        Self {
            elements: elements.into(),
            log: Arc::new(Mutex::new(log)),
            follows_loop: false,
        }
    }

    /// Packets pass elements as if nobody followed them, in the loop that serves a lane. Of those
    /// that do, only that is told.
    #[must_use]
    pub fn of_loop(self) -> Self {
        Self {
            follows_loop: true,
            ..self
        }
    }

    /// Whether packets pass one by one, so that all can be told of each.
    pub(crate) fn follows_each(&self) -> bool {
        !self.follows_loop
    }

    /// Follows others of those that are still to arrive.
    pub fn follow(&self, packets: Range<u64>) {
        self.log().packets = packets;
    }

    /// The steps since the last call, each with its packet's number.
    pub fn take(&self) -> Vec<(u64, TraceStep)> {
        std::mem::take(&mut self.log().steps)
    }

    /// What elements and words are called.
    pub fn elements(&self) -> &[Names] {
        &self.elements
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These arrive, the first with this number.
    #[cold]
    pub(crate) fn arrive(&self, frames: &[Frame], first: u64) {
        let mut log = self.log();
        for (ordinal, frame) in (first..).zip(frames) {
            match log.packets.contains(&ordinal) {
                true => log.buffers.insert(frame.buffer(), ordinal),
                false => log.buffers.remove(&frame.buffer()),
            };
        }
    }

    /// What was in one buffer is in a frame, too.
    #[cold]
    pub(crate) fn part(&self, buffer: usize, frame: &Frame) {
        let mut log = self.log();
        match log.buffers.get(&buffer).copied() {
            Some(ordinal) => log.buffers.insert(frame.buffer(), ordinal),
            None => log.buffers.remove(&frame.buffer()),
        };
    }

    /// The number of the packet that is in a buffer, if it is followed.
    #[cold]
    pub(crate) fn follows(&self, buffer: usize) -> Option<u64> {
        self.log().buffers.get(&buffer).copied()
    }

    /// What is in a buffer takes a step. With the last one it leaves its buffers.
    #[cold]
    pub(crate) fn tell(&self, buffer: usize, step: impl FnOnce() -> TraceStep) {
        let mut log = self.log();
        if let Some(ordinal) = log.buffers.get(&buffer).copied() {
            log.tell(ordinal, step());
        }
    }

    /// A packet takes a step that it was [found](Self::follows) before: by now another packet may be
    /// in its buffer.
    #[cold]
    pub(crate) fn tell_of(&self, ordinal: u64, step: impl FnOnce() -> TraceStep) {
        self.log().tell(ordinal, step());
    }

    /// A message in words.
    pub(crate) fn message(&self, header: &Header, frame: &Frame) -> MessageLook {
        let words = Some(header.words()).filter(|words| !words.is_empty());
        MessageLook {
            message: header.message.name(),
            generation: header.generation,
            epoch: header.epoch,
            words: match words {
                Some(_) => self.words(header.element, words, words),
                None => Vec::new(),
            },
            parked_bytes: frame.metadata().parked_bytes,
        }
    }

    /// Words of an element before and behind a packet, by name.
    pub(crate) fn words(
        &self,
        element: u8,
        before: Option<&[u32]>,
        after: Option<&[u32]>,
    ) -> Vec<WordChange> {
        let value =
            |words: Option<&[u32]>, place: usize| words.and_then(|words| words.get(place).copied());
        let names = self.elements.get(usize::from(element));
        let words = names.into_iter().flat_map(|names| &names.words).enumerate();
        words
            .map(|(place, (function, name))| WordChange {
                function: function.clone(),
                name,
                before: value(before, place),
                after: value(after, place),
                choice: None,
            })
            .collect()
    }
}

impl TraceStep {
    /// A drop.
    pub(crate) fn drop(reason: twinpath_core::DropReason) -> Self {
        let reason = reason.name();
        Self::Drop { reason }
    }

    /// Whether no step follows.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Drop { .. } | Self::PutOut { .. })
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::LookAhead { .. } => "look_ahead",
            Self::Meet(_) => "meet",
            Self::Pass { .. } => "pass",
            Self::Hold { .. } => "hold",
            Self::Punt { .. } => "punt",
            Self::Park { .. } => "park",
            Self::Split { .. } => "split",
            Self::Receive { .. } => "receive",
            Self::Release { .. } => "release",
            Self::Gather { .. } => "gather",
            Self::Resume { .. } => "resume",
            Self::Returned { .. } => "returned",
            Self::GoOn { .. } => "go_on",
            Self::HoldBack => "hold_back",
            Self::PassParking { .. } => "pass_parking",
            Self::Merge { .. } => "merge",
            Self::Drop { .. } => "drop",
            Self::PutOut { .. } => "put_out",
        }
    }
}
