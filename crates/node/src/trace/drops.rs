//! All packets of a capture that a service drops, and what decided.

use super::TraceError;
use super::book::Book;
use crate::arrivals::Arrivals;
use crate::exit::Exit;
use crate::observe::Observer;
use crate::source::Source;
use crate::virtual_time::{PACING, VirtualRun};
use crate::watch::{EntryLook, PacketLook, SlowLook, StageLook, TableLookup, TraceStep};
use crate::wiring;
use serde::Serialize;
use std::collections::HashMap;
use twinpath_control::live::Live;
use twinpath_control::service::Service;
use twinpath_core::DropReason;

/// A packet that is dropped.
#[derive(Clone, Debug, Serialize)]
pub struct Dropped {
    /// Its number among those that enter, counted from 1.
    pub number: u64,
    /// When it arrived, ns on the packet clock.
    pub time_ns: u64,
    /// The packet as it arrived.
    pub packet: PacketLook,
    /// The reason's name in reports.
    pub reason: &'static str,
    /// The function that dropped it; absent if none did.
    pub function: Option<String>,
    /// The functions of the element in front of which its fragments were gathered, where that dropped
    /// it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_front_of: Vec<String>,
    /// The rule, or other entry of its table, by which it did.
    pub entry: Option<EntryLook>,
}

/// A packet inside: as it arrived, and which function has decided last, by what.
struct Inside {
    time_ns: u64,
    packet: PacketLook,
    decided: Decided,
}

#[derive(Default)]
struct Decided {
    /// The element that it met last, if that was on the fast path.
    element: Option<u8>,
    function: Option<String>,
    entry: Option<EntryLook>,
    /// Why the function has dropped it, if it says so.
    reason: Option<String>,
    /// The element in front of which its fragments were gathered, and it was not needed.
    gathered: Option<u8>,
}

/// Runs a capture under virtual time, and calls `each` with every packet that is dropped, in the order
/// in which they are. Returns how many packets entered.
///
/// # Errors
/// See [`TraceError`].
pub fn trace_drops(
    service: &Service,
    source: &mut Source,
    mut each: impl FnMut(Dropped),
) -> Result<u64, TraceError> {
    let mut node = wiring::build(service, service.run.paths)?;
    let watch = node.watch(0..u64::MAX);
    let book = Book::new(service, watch.elements());
    let (mut exit, mut observer) = (Exit::Nowhere, Observer::new(Live::hidden()));
    let round_trip = service.link.round_trip.duration();
    let mut arrivals = Arrivals::new(source, wiring::causality(service)?, PACING);
    let (mut inside, mut entered) = (HashMap::new(), 0);
    VirtualRun::new(&mut node, &mut exit, &mut observer, round_trip).follow_all(
        &mut arrivals,
        &watch,
        |ordinal, step, node| {
            entered += u64::from(matches!(step, TraceStep::LookAhead { .. }));
            let step = book.completed(step, node);
            each_drop(&book, &mut inside, ordinal, step, &mut each);
        },
    )?;
    Ok(entered)
}

fn each_drop(
    book: &Book<'_>,
    inside: &mut HashMap<u64, Inside>,
    ordinal: u64,
    step: TraceStep,
    each: &mut impl FnMut(Dropped),
) {
    match step {
        TraceStep::LookAhead {
            time_ns, packet, ..
        } => {
            let decided = Decided::default();
            let packet = Inside {
                time_ns,
                packet,
                decided,
            };
            inside.insert(ordinal, packet);
        }
        TraceStep::Drop { reason } => {
            if let Some(packet) = inside.remove(&ordinal) {
                each(packet.dropped(book, ordinal, reason));
            }
        }
        TraceStep::PutOut { .. } => {
            inside.remove(&ordinal);
        }
        step => {
            if let Some(packet) = inside.get_mut(&ordinal) {
                packet.decided.take(step);
            }
        }
    }
}

impl Inside {
    fn dropped(self, book: &Book<'_>, ordinal: u64, reason: &'static str) -> Dropped {
        let Decided {
            element,
            function,
            entry,
            reason: decided,
            gathered,
        } = self.decided;
        // What is lost for want of room was nobody's decision, unless a function had none.
        let is_loss = DropReason::named(reason).is_none_or(DropReason::is_loss);
        let is_its = decided.is_some_and(|decided| decided.contains(&format!("({reason})")));
        let by_function = (is_its || !is_loss) && gathered.is_none();
        let function = function.or_else(|| book.only_function(element?));
        let function = function.filter(|_| by_function);
        let (function, entry) = match limit(reason) {
            Some(limit) => (Some(limit.function.clone()), Some(limit)),
            None => (function, entry),
        };
        Dropped {
            in_front_of: gathered.map_or(Vec::new(), |element| book.functions(element)),
            number: ordinal + 1,
            time_ns: self.time_ns,
            packet: self.packet,
            reason,
            entry: entry.filter(|_| function.is_some()),
            function,
        }
    }
}

/// A DPU's limit, which is none of the entries that its packets have met.
fn limit(reason: &str) -> Option<EntryLook> {
    let DropReason::Dash(why) = DropReason::named(reason)? else {
        return None;
    };
    why.is_limit().then(|| EntryLook {
        function: twinpath_nf::dash::NAME.into(),
        text: Some(format!("limit: {}", why.meaning())),
        ..EntryLook::default()
    })
}

impl Decided {
    /// The last function that a packet meets is that which drops it.
    fn take(&mut self, step: TraceStep) {
        match step {
            TraceStep::Meet(met) => {
                let reason = Some(met.decision);
                let (function, entry) = match met.found {
                    TableLookup::Rule(found) => {
                        let entry = found.rule.and_then(|rule| rule.entries.last().cloned());
                        (entry.as_ref().map(|entry| entry.function.clone()), entry)
                    }
                    TableLookup::Slot(slot) => {
                        let program = slot.programs.last();
                        (program.map(|program| program.function.clone()), slot.rule)
                    }
                    TableLookup::Dash(stages) => (None, StageLook::deciding(&stages)),
                    _ => (None, None),
                };
                *self = Self {
                    element: Some(met.element),
                    function,
                    entry,
                    reason,
                    gathered: None,
                };
            }
            TraceStep::Receive { slow_path, .. } | TraceStep::Release { slow_path, .. } => {
                let reason = Some(slow_path.outcome().to_owned());
                let (function, entry) = match slow_path {
                    SlowLook::Rules(run) => match run.functions.last() {
                        Some(last) => (Some(last.name.clone()), last.entries.last().cloned()),
                        None => (None, None),
                    },
                    SlowLook::State(run) => (run.function, run.rule),
                    SlowLook::Dash(run) => (
                        Some(twinpath_nf::dash::NAME.into()),
                        StageLook::deciding(&run.stages),
                    ),
                };
                *self = Self {
                    function,
                    entry,
                    reason,
                    ..Self::default()
                };
            }
            TraceStep::Gather { element } => {
                *self = Self {
                    gathered: Some(element),
                    ..Self::default()
                };
            }
            _ => {}
        }
    }
}
