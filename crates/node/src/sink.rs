//! Where packets go.

use crate::fast_path::Departure;
use crate::mtu::{Fit, Mtus};
use twinpath_control::report::PortLosses;
use twinpath_control::service::Service;
use twinpath_core::Instant;
use twinpath_core::adjacency::{Adjacencies, Adjacency, FIRST_ADJACENCY};
use twinpath_core::wire::fragment::pieces;
use twinpath_io::{CaptureError, FrameSink, OrderedCounters, OrderedWriter};

/// Takes packets that leave.
pub trait Sink {
    /// One packet, stamped with its time on the packet clock.
    ///
    /// # Errors
    /// It could not be written.
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError>;

    /// No packet older than this will come any more.
    ///
    /// # Errors
    /// What waited for it could not be written.
    fn advance(&mut self, _watermark: Instant) -> Result<(), CaptureError> {
        Ok(())
    }

    /// What was lost here so far.
    fn losses(&self) -> PortLosses {
        PortLosses::default()
    }
}

/// By which port a packet leaves.
#[derive(Clone, Debug)]
pub struct Egress {
    /// How many ports there are; 0 if nothing was said of ports.
    ports: u16,
    adjacencies: Adjacencies,
    /// Those that have been asked for, and more.
    known: Vec<Adjacency>,
    /// What the service says, and what counts.
    mtus: [Mtus; 2],
}

impl Egress {
    /// Where a service has these ports and neighbours.
    pub fn new(service: &Service) -> Self {
        Self {
            ports: service.ports.len() as u16,
            adjacencies: service.adjacencies.clone(),
            known: Vec::new(),
            mtus: std::array::from_fn(|_| Mtus::of(service)),
        }
    }

    /// Links of ports carry packets of so many bytes.
    pub fn set_links(&mut self, mtus: &[usize]) {
        let [said, counts] = &mut self.mtus;
        *counts = said.within(mtus);
    }

    /// Whether all packets may leave by any port.
    #[inline(always)]
    pub fn let_pass(&self, departure: &Departure) -> bool {
        self.mtus[1].let_pass(&departure.frame)
    }

    /// Whether a packet for whose way a function has chosen a port may leave by it.
    pub fn fit(&mut self, departure: &Departure) -> Fit {
        let is_routed = !departure.is_reply && departure.frame.metadata().egress.is_some();
        match self.of(departure).filter(|_| is_routed) {
            Some(port) if !self.let_pass(departure) => self.mtus[1].fit(&departure.frame, port),
            _ => Fit::Whole,
        }
    }

    /// Whom a packet leaves for, if a function has chosen that.
    pub fn adjacency(&mut self, departure: &Departure) -> Option<Adjacency> {
        if departure.is_reply {
            return None;
        }
        let chosen = departure.frame.metadata().egress?;
        let place = usize::from(chosen.checked_sub(FIRST_ADJACENCY)?);
        if place >= self.known.len() {
            self.known = self.adjacencies.all();
        }
        self.known.get(place).copied()
    }

    /// An answer leaves by the port that its request came in by, a packet by that which a function
    /// has chosen, or else by the other of two. `None` if there is no such port.
    pub fn of(&mut self, departure: &Departure) -> Option<u16> {
        let adjacent = self.adjacency(departure).map(|adjacency| adjacency.port);
        let ingress = departure.frame.port();
        let chosen = adjacent.or(departure.frame.metadata().egress);
        let port = match (self.ports, departure.is_reply, chosen) {
            (0 | 1, ..) => 0,
            (_, true, _) => ingress,
            (_, false, Some(chosen)) => chosen,
            (2, false, None) => 1 - ingress.min(1),
            _ => return None,
        };
        (port < self.ports.max(1)).then_some(port)
    }
}

/// Captures in the order of their timestamps, with the port of each packet.
pub struct CaptureSink<S: FrameSink> {
    writer: OrderedWriter<S>,
    egress: Egress,
    without_port: u64,
    /// A fragment that is written.
    fragment: Vec<u8>,
}

/// Bytes that may wait for older packets still on the slow path.
const WAITING_BYTES: usize = 256 << 20;

impl<S: FrameSink> CaptureSink<S> {
    /// Writes to one capture, or to one for each port.
    pub fn new(sink: S, egress: Egress) -> Self {
        Self {
            writer: OrderedWriter::new(sink, WAITING_BYTES),
            egress,
            without_port: 0,
            fragment: Vec::new(),
        }
    }

    fn write_fragments(&mut self, departure: &Departure, port: u16) -> Result<(), CaptureError> {
        let (at, bytes) = (departure.frame.timestamp().0, departure.frame.bytes());
        let Fit::Cut { layout, room } = self.egress.fit(departure) else {
            return self.writer.push_on(port.into(), at, 0, bytes);
        };
        for piece in pieces(bytes, &layout, room.into()).into_iter().flatten() {
            self.fragment.resize(piece.len(), 0);
            piece.write(&mut self.fragment);
            self.writer.push_on(port.into(), at, 0, &self.fragment)?;
        }
        Ok(())
    }

    /// Completes what was written.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish(self) -> Result<Written, CaptureError> {
        let (_, order) = self.writer.finish()?;
        Ok(Written {
            order,
            without_port: self.without_port,
        })
    }
}

/// What a capture that was written lacks.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Packets that could not be written in the order of time.
    pub order: OrderedCounters,
    /// Packets that are missing because they had no port to leave by.
    pub without_port: u64,
}

impl<S: FrameSink> Sink for CaptureSink<S> {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        let Some(port) = self.egress.of(departure) else {
            self.without_port += 1;
            return Ok(());
        };
        if !self.egress.let_pass(departure) {
            return self.write_fragments(departure, port);
        }
        let (at, bytes) = (departure.frame.timestamp().0, departure.frame.bytes());
        self.writer.push_on(port.into(), at, 0, bytes)
    }

    fn advance(&mut self, watermark: Instant) -> Result<(), CaptureError> {
        // Those of its very time leave in the order in which they come.
        self.writer.advance(watermark.0.saturating_add(1))
    }

    fn losses(&self) -> PortLosses {
        PortLosses {
            without_port: self.without_port,
            ..PortLosses::default()
        }
    }
}

/// Keeps packets in memory, in the order they left: for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collect(pub Vec<Vec<u8>>);

impl Sink for Collect {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        self.0.push(departure.frame.bytes().to_vec());
        Ok(())
    }
}
