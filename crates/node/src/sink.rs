//! Where packets go.

use crate::departure::Departure;
use twinpath_control::report::PortLosses;
use twinpath_core::Instant;
use twinpath_core::wire::dissect;
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

/// Captures in the order of their timestamps, with the port of each packet.
pub struct CaptureSink<S: FrameSink> {
    writer: OrderedWriter<S>,
    /// A fragment that is written.
    fragment: Vec<u8>,
}

/// Bytes that may wait for older packets still on the slow path.
const WAITING_BYTES: usize = 256 << 20;

impl<S: FrameSink> CaptureSink<S> {
    /// Writes to one capture, or to one for each port.
    pub fn new(sink: S) -> Self {
        Self {
            writer: OrderedWriter::new(sink, WAITING_BYTES),
            fragment: Vec::new(),
        }
    }

    #[cold]
    fn write_fragments(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        let (at, bytes) = (departure.frame.timestamp().0, departure.frame.bytes());
        let layout = dissect(bytes).ok();
        let pieces = layout.and_then(|layout| pieces(bytes, &layout, departure.room.into()));
        for piece in pieces.into_iter().flatten() {
            self.fragment.resize(piece.len(), 0);
            piece.write(&mut self.fragment);
            self.writer
                .push_on(departure.port.into(), at, 0, &self.fragment)?;
        }
        Ok(())
    }

    /// Completes what was written.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish(self) -> Result<CaptureLosses, CaptureError> {
        let (_, order) = self.writer.finish()?;
        Ok(CaptureLosses { order })
    }
}

/// What a capture that was written lacks.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureLosses {
    /// Packets that could not be written in the order of time.
    pub order: OrderedCounters,
}

impl<S: FrameSink> Sink for CaptureSink<S> {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        if departure.room != 0 {
            return self.write_fragments(departure);
        }
        let (at, bytes) = (departure.frame.timestamp().0, departure.frame.bytes());
        self.writer.push_on(departure.port.into(), at, 0, bytes)
    }

    fn advance(&mut self, watermark: Instant) -> Result<(), CaptureError> {
        // Those of its very time leave in the order in which they come.
        self.writer.advance(watermark.0.saturating_add(1))
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
