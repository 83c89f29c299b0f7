//! What happened, in words.

use crate::faults::scenario::Kind;
use crate::faults::world::{Contents, LineId};
use std::fmt;
use twinpath_coherence::fsm::Fsm;
use twinpath_core::wire::Endpoint;
use twinpath_link::Message;

/// What a frame says, short.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Brief {
    pub message: Message,
    pub flow: Option<usize>,
    pub generation: u32,
    pub packet: Option<u32>,
}

impl Brief {
    /// What a frame of this flow says.
    pub fn of(contents: &Contents, flow: Option<usize>) -> Self {
        Self {
            message: contents.message,
            flow,
            generation: contents.generation,
            packet: contents.packet,
        }
    }
}

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.name())?;
        if !matches!(self.message, Message::Plain | Message::Return) {
            write!(f, "({})", self.generation)?;
        }
        write!(f, " of {}", Flow(self.flow))?;
        match self.packet {
            Some(packet) => write!(f, " with packet {packet}"),
            None => f.write_str(" without a packet"),
        }
    }
}

struct Flow(Option<usize>);

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(flow) => write!(f, "flow {flow}"),
            None => f.write_str("no flow"),
        }
    }
}

/// A time in nanoseconds, shown in microseconds.
pub struct Microseconds(pub u64);

impl fmt::Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{:03}", self.0 / 1000, self.0 % 1000))
    }
}

/// One thing that happened.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Happened {
    Arrives {
        packet: u32,
        flow: Option<usize>,
        kind: Kind,
    },
    NoBuffer {
        packet: u32,
    },
    DroppedFast {
        packet: u32,
    },
    Leaves {
        packet: u32,
        is_fast: bool,
    },
    Sent {
        line: LineId,
        number: u32,
        says: Brief,
        due: u64,
        twice: bool,
    },
    Lost {
        line: LineId,
        number: u32,
        says: Brief,
    },
    Received {
        line: LineId,
        number: u32,
        says: Brief,
    },
    Overtaken {
        line: LineId,
        number: u32,
        says: Brief,
    },
    LostInCrash {
        line: LineId,
        number: u32,
        says: Brief,
    },
    Held {
        packet: u32,
    },
    Entered {
        packet: u32,
    },
    Forgotten {
        packet: u32,
    },
    Imported {
        flow: usize,
        generation: u32,
    },
    Slot {
        slot: usize,
        flow: usize,
        from: Fsm,
        to: Fsm,
        generation: u32,
    },
    Paused {
        worker: usize,
        until: u64,
    },
    Resumed {
        worker: usize,
    },
    Crashed {
        worker: usize,
        epoch: u32,
    },
    Woken {
        worker: usize,
    },
    Calm,
    LongSilence,
    Stops,
    Stopped,
    ChangeAsked,
    Commanded {
        worker: usize,
    },
    Changed,
    GivesUp,
    Sabotaged {
        line: LineId,
        how: &'static str,
    },
    Bound {
        internal: Endpoint,
        external: Option<Endpoint>,
    },
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Arrives { packet, flow, kind } => {
                write!(f, "packet {packet} of {} arrives ({kind})", Flow(flow))
            }
            Self::NoBuffer { packet } => write!(f, "no buffer for packet {packet}"),
            Self::DroppedFast { packet } => write!(f, "the fast path drops packet {packet}"),
            Self::Leaves {
                packet,
                is_fast: true,
            } => {
                write!(f, "packet {packet} leaves by the fast path")
            }
            Self::Leaves {
                packet,
                is_fast: false,
            } => {
                write!(f, "packet {packet} leaves after the workers")
            }
            Self::Sent {
                line,
                number,
                says,
                due,
                twice,
            } => {
                let twice = if twice { ", and once more" } else { "" };
                let due = Microseconds(due);
                write!(f, "frame {number} {line}: {says}; arrives at {due}{twice}")
            }
            Self::Lost { line, number, says } => {
                write!(f, "frame {number} {line}: {says}; it is lost")
            }
            Self::Received { line, number, says } => {
                write!(f, "frame {number} {line} is received: {says}")
            }
            Self::Overtaken { line, number, says } => {
                write!(f, "frame {number} {line} comes too late: {says}")
            }
            Self::LostInCrash { line, number, says } => {
                write!(f, "frame {number} {line} is lost in the crash: {says}")
            }
            Self::Held { packet } => write!(f, "the workers hold packet {packet}"),
            Self::Entered { packet } => write!(f, "the workers apply packet {packet}"),
            Self::Forgotten { packet } => write!(f, "the workers forget packet {packet}"),
            Self::Imported { flow, generation } => {
                write!(
                    f,
                    "the workers import generation {generation} of flow {flow}"
                )
            }
            Self::Slot {
                slot,
                flow,
                from,
                to,
                generation,
            } => write!(
                f,
                "slot {slot}: flow {flow}, {} -> {} (generation {generation})",
                from.name(),
                to.name()
            ),
            Self::Paused { worker, until } => {
                write!(f, "worker {worker} pauses until {}", Microseconds(until))
            }
            Self::Resumed { worker } => write!(f, "worker {worker} goes on"),
            Self::Crashed { worker, epoch } => {
                write!(
                    f,
                    "worker {worker} crashes and starts again as epoch {epoch}"
                )
            }
            Self::Woken { worker } => write!(f, "a deadline passes at worker {worker}"),
            Self::Calm => f.write_str("from here on nothing goes wrong any more"),
            Self::LongSilence => f.write_str("a long silence"),
            Self::Stops => f.write_str("the run is to end: the fast path gives everything back"),
            Self::Stopped => f.write_str("the run has ended"),
            Self::ChangeAsked => f.write_str("another chain is wanted"),
            Self::Commanded { worker } => write!(f, "worker {worker} does what it is told"),
            Self::Changed => f.write_str("the chain changes"),
            Self::GivesUp => f.write_str("the chain stays, and the fast path takes flows again"),
            Self::Sabotaged { line, how } => write!(f, "sabotage {line}: {how}"),
            Self::Bound {
                internal,
                external: Some(external),
            } => write!(f, "{internal} is {external} outside now"),
            Self::Bound { internal, .. } => write!(f, "{internal} is nobody outside now"),
        }
    }
}
