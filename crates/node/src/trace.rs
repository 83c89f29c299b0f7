//! One packet's walk through a service, as the walk itself tells it while a capture is run.
//!
//! The packet meets the state that all packets before it have left, under virtual time; those
//! behind it arrive while it is under way, as in any run.

mod book;
mod drops;

pub use drops::{Dropped, trace_drops};

use crate::arrivals::Arrivals;
use crate::exit::Exit;
use crate::observe::Observer;
use crate::source::Source;
use crate::virtual_time::{PACING, VirtualRun};
use crate::watch::{PacketLook, TraceStep};
use crate::wiring::{self, BuildError};
use book::Book;
use serde::Serialize;
use twinpath_control::live::Live;
use twinpath_control::service::Service;
use twinpath_io::CaptureError;

/// A packet's way through a service.
#[derive(Clone, Debug, Serialize)]
pub struct PacketTrace {
    /// The packet's number in the capture, counted from 1.
    pub number: u64,
    /// The functions of each element of the chain.
    pub elements: Vec<Vec<String>>,
    /// The names of the ports, in the order of their numbers.
    pub ports: Vec<String>,
    /// What happened to it, in order.
    pub steps: Vec<TraceStep>,
    /// What became of it.
    pub end: End,
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
    /// Whether it has been on the slow path.
    pub was_on_slow_path: bool,
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
    /// It is dropped in front of the fast path.
    #[error(
        "the packet does not enter: it is longer than the {} bytes that a buffer has, or functions keep all buffers",
        crate::source::BUFFER_BYTES
    )]
    NoBuffer,
    /// The packet is to come in by a port that the service does not name.
    #[error("the service names no port {name}: expected {}", one_of_ports(known))]
    NoPort {
        /// What was named.
        name: String,
        /// The ports of the service.
        known: Vec<String>,
    },
}

fn one_of_ports(known: &[String]) -> String {
    match known {
        [] => "no port, for the service names none".to_owned(),
        known => format!("one of its ports ({})", known.join(", ")),
    }
}

/// Traces one packet, given as bytes from Ethernet on, through a service that has seen no other. It comes in by
/// the port with this name, or where its source is.
///
/// # Errors
/// See [`TraceError`].
pub fn trace_bytes(
    service: &Service,
    bytes: &[u8],
    port: Option<&str>,
) -> Result<PacketTrace, TraceError> {
    let mut alone = twinpath_io::Trace::new();
    alone.push(0, bytes);
    let mut source = match port {
        Some(port) => Source::trace_at(alone, number_of_port(service, port)?),
        None => Source::trace_by_sources(alone, service),
    };
    trace_packet(service, &mut source, 1)
}

fn number_of_port(service: &Service, name: &str) -> Result<u16, TraceError> {
    let place = service.ports.iter().position(|port| port == name);
    place
        .map(|place| place as u16)
        .ok_or_else(|| TraceError::NoPort {
            name: name.to_owned(),
            known: service.ports.clone(),
        })
}

/// Traces the packet with this number, counted from 1, of a capture that is run.
///
/// # Errors
/// See [`TraceError`].
pub fn trace_packet(
    service: &Service,
    source: &mut Source,
    number: u64,
) -> Result<PacketTrace, TraceError> {
    let mut node = wiring::build(service, service.run.paths)?;
    let watch = node.watch(0..0);
    let book = Book::new(service, watch.elements());
    let (mut exit, mut observer) = (Exit::Nowhere, Observer::new(Live::hidden()));
    let round_trip = service.link.round_trip.duration();
    let causality = wiring::causality(service)?;
    let mut arrivals = Arrivals::new(source, causality, PACING).following(number, watch.clone());
    let mut steps = Vec::new();
    VirtualRun::new(&mut node, &mut exit, &mut observer, round_trip).follow(
        &mut arrivals,
        &watch,
        |step, node| steps.push(book.completed(step, node)),
    )?;
    let packets = arrivals.packets_read();
    if packets < number {
        return Err(TraceError::NoSuchPacket { number, packets });
    }
    let names = watch.elements().iter();
    Ok(PacketTrace {
        number,
        elements: names.map(|names| names.functions.clone()).collect(),
        ports: service.ports.clone(),
        end: end(&steps).ok_or(TraceError::NoBuffer)?,
        steps,
    })
}

/// What the steps come to; nothing if there are none.
fn end(steps: &[TraceStep]) -> Option<End> {
    let fate = match steps.last()? {
        TraceStep::PutOut { is_reply: true, .. } => "leaves as an answer to its sender".into(),
        TraceStep::PutOut { .. } if !has_entered(steps) => {
            "leaves as it came: it is no IP packet".into()
        }
        TraceStep::PutOut { .. } => "leaves".into(),
        TraceStep::Drop { reason } => format!("is dropped: {reason}"),
        TraceStep::Hold { .. } => "is held: what it waits for has not come".into(),
        TraceStep::Receive { slow_path, .. } if slow_path.outcome() == "answered" => {
            "is answered by a function".into()
        }
        _ => "is kept for the time being".into(),
    };
    let (packet, egress) = match steps.last()? {
        TraceStep::PutOut { packet, egress, .. } => (Some(packet.clone()), *egress),
        _ => (None, None),
    };
    let is_punt = |step: &TraceStep| matches!(step, TraceStep::Punt { .. });
    Some(End {
        fate,
        packet,
        egress,
        was_on_slow_path: steps.iter().any(is_punt),
    })
}

/// Whether a packet met any element.
fn has_entered(steps: &[TraceStep]) -> bool {
    let is_meeting = |step: &TraceStep| matches!(step, TraceStep::Meet(_));
    steps.iter().any(is_meeting)
}
