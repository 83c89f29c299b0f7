//! One packet through every element and function of a service, as it would go: the production
//! code runs, and what it looks at and changes is written down.
//!
//! A packet of a capture meets the state that all packets before it have left, under virtual time.

mod look;
mod watcher;

pub use look::{PacketLook, Quantity};
pub(crate) use look::{entry_look, rule_look};
pub(crate) use watcher::Watcher;

use crate::observe::Observer;
use crate::sink::Exit;
use crate::source::{Read, Source};
use crate::virtual_time::VirtualRun;
use crate::wiring::{self, BuildError};
use serde::Serialize;
use twinpath_control::live::Live;
use twinpath_control::service::{Instance, Service};
use twinpath_core::Instant;
use twinpath_core::program::Word;
use twinpath_core::wire::malformed::Malformed;
use twinpath_io::CaptureError;

/// A packet's way through a service.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    /// Packets that were run before it.
    pub packets_before: u64,
    /// When it arrived, ns on the packet clock.
    pub time_ns: u64,
    /// The packet as it arrived.
    pub arrived: PacketLook,
    /// `original` or `reply`: in which order it passes the elements; absent if it enters none.
    pub direction: Option<&'static str>,
    /// The elements that it met, in order.
    pub stages: Vec<Stage>,
    /// What became of it.
    pub end: End,
}

/// An element of the chain that a packet met.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// The element's number, in chain order from 0.
    pub element: u8,
    /// Its functions, in chain order.
    pub functions: Vec<String>,
    /// The flow, as elements with flow state know it.
    pub flow: String,
    /// What happened on the fast path.
    pub fast: FastLook,
    /// What happened on the cores, if it went there.
    pub cores: Option<CoresLook>,
}

/// What a packet met on the fast path at one element.
#[derive(Clone, Debug, Serialize)]
pub struct FastLook {
    /// What was found: a rule, a slot, or nothing and why.
    pub found: Found,
    /// What was decided, in words.
    pub decision: String,
}

/// What the fast path has for a packet.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// The element is on the cores alone.
    Nothing,
    /// A packet that never meets a rule.
    NotPlain,
    /// No rule matches.
    NoRule,
    /// This rule.
    Rule(Box<RuleLook>),
    /// The flow has no slot.
    NoSlot,
    /// This slot.
    Slot(SlotLook),
}

/// A slot of the state table.
#[derive(Clone, Debug, Serialize)]
pub struct SlotLook {
    /// Where the slot is in its life, before the packet.
    pub state: &'static str,
    /// And behind it.
    pub state_after: &'static str,
    /// The state words, before and behind the packet; all zero while the cores hold them.
    pub words: Vec<WordChange>,
    /// What each function's fast program did, up to the one that did not let the packet go on;
    /// none while the cores hold the words, or for packets that no program sees.
    pub programs: Vec<ProgramLook>,
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

/// What a packet met on the cores at one element.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CoresLook {
    /// Functions whose decisions are cached.
    Rules(RulesRun),
    /// Functions that share flow state.
    State(StateRun),
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
    pub written: Vec<Change>,
    /// The entries of its table that decided.
    pub entries: Vec<EntryLook>,
    /// What it decided.
    pub verdict: String,
}

/// A field that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The field.
    pub field: &'static str,
    /// Its value before.
    pub old: String,
    /// Its value behind the function.
    pub new: String,
}

/// An entry of a function's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryLook {
    /// The function.
    pub function: String,
    /// The function's number for it.
    pub entry: u32,
    /// It ends when it was not used for longer than this, if it ends.
    pub idle: Option<String>,
}

/// A rule in words.
#[derive(Clone, Debug, Serialize)]
pub struct RuleLook {
    /// The bits that are compared, and what they must be.
    pub matches: Vec<Quantity>,
    /// The mask over the packet's key, as hexadecimal lanes.
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
    /// What the fast path said to the cores with the packet.
    pub message: &'static str,
    /// What the cores said with it when it went back.
    pub answer: Option<&'static str>,
    /// The flow's state words on the cores, before and behind the packet.
    pub words: Vec<WordChange>,
    /// What became of the packet here.
    pub outcome: String,
    /// Packets that functions made because of it.
    pub replies: Vec<PacketLook>,
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
}

/// What became of a packet.
#[derive(Clone, Debug, Serialize)]
pub struct End {
    /// In words.
    pub fate: String,
    /// The packet as it leaves, if it does.
    pub packet: Option<PacketLook>,
    /// The port that it leaves by, if a function said so.
    pub egress: Option<u16>,
    /// Whether it has been on the cores.
    pub was_on_cores: bool,
}

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The service cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The capture ends before.
    #[error("there is no packet {number}: the capture has {packets}")]
    NoSuchPacket {
        /// The one that was asked for, counted from 1.
        number: u64,
        /// How many there are.
        packets: u64,
    },
    /// No buffer is so large.
    #[error(
        "the packet is longer than the {} bytes that a buffer has",
        crate::source::BUFFER_BYTES
    )]
    TooLong,
    /// The fast path would drop it before any function.
    #[error("the packet is malformed: {0}; it is dropped before any function")]
    Malformed(Malformed),
}

/// Traces one packet, given as bytes from Ethernet on, through a service that has seen no other.
///
/// # Errors
/// See [`TraceError`].
pub fn trace_bytes(service: &Service, bytes: &[u8]) -> Result<Trace, TraceError> {
    if bytes.len() > crate::source::BUFFER_BYTES {
        return Err(TraceError::TooLong);
    }
    with_run(service, |run, names| {
        run.traced(Instant::ZERO, bytes, names)
    })
}

/// Traces the packet with this number, counted from 1, when all before it have been run.
///
/// # Errors
/// See [`TraceError`].
pub fn trace_packet(
    service: &Service,
    source: &mut Source,
    number: u64,
) -> Result<Trace, TraceError> {
    let causality = wiring::causality(service)?;
    with_run(service, |run, names| {
        let before = number.saturating_sub(1);
        source.limit(Some(before));
        run.run_source(source, causality)?;
        let read = before - source.left().unwrap_or(0);
        source.limit(None);
        match source.read()? {
            Read::Packet(at) if read == before => {
                let mut trace = run.traced(at, source.bytes(), names)?;
                trace.packets_before = before;
                Ok(trace)
            }
            Read::TooLong if read == before => Err(TraceError::TooLong),
            _ => Err(TraceError::NoSuchPacket {
                number,
                packets: read,
            }),
        }
    })
}

/// What elements and words are called.
pub(crate) struct Names {
    /// The functions of each element.
    pub elements: Vec<Vec<String>>,
    /// The functions and names of a flow's state words at each element.
    pub words: Vec<Vec<(String, &'static str)>>,
}

impl Names {
    fn of(service: &Service) -> Result<Self, BuildError> {
        let name = |instance: &Instance| instance.name.to_string();
        let elements = wiring::elements(service).map(|element| element.iter().map(name).collect());
        let words = wiring::elements(service).map(|element| {
            let programs = wiring::element_chain(service, element)?.programs();
            let words = programs.iter().flat_map(|program| {
                let name = |word: &Word| (program.name.to_string(), word.name);
                program.words.iter().map(name)
            });
            Ok(words.collect())
        });
        Ok(Self {
            elements: elements.collect(),
            words: words.collect::<Result<_, BuildError>>()?,
        })
    }

    /// Words of an element before and behind a packet, by name.
    pub fn words(
        &self,
        element: u8,
        before: Option<&[u32]>,
        after: Option<&[u32]>,
    ) -> Vec<WordChange> {
        let value =
            |words: Option<&[u32]>, place| words.and_then(|words| words.get(place).copied());
        let words = self.words[usize::from(element)].iter().enumerate();
        words
            .map(|(place, (function, name))| WordChange {
                function: function.clone(),
                name,
                before: value(before, place),
                after: value(after, place),
            })
            .collect()
    }
}

fn with_run(
    service: &Service,
    act: impl FnOnce(&mut VirtualRun<'_, Exit>, &Names) -> Result<Trace, TraceError>,
) -> Result<Trace, TraceError> {
    let names = Names::of(service)?;
    let mut node = wiring::build(service, service.run.paths)?;
    let (mut exit, mut observer) = (Exit::Nowhere, Observer::new(Live::hidden()));
    let round_trip = service.link.round_trip.duration();
    let mut run = VirtualRun::new(&mut node, &mut exit, &mut observer, round_trip);
    act(&mut run, &names)
}
