//! Where packets go.

use crate::fast_path::Departure;
use crate::udp_port::{SinkCounts, UdpSink};
use twinpath_core::Instant;
use twinpath_io::{CaptureError, CaptureWriter, OrderedWriter};

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
}

/// A capture file in the order of its timestamps.
pub struct CaptureSink(OrderedWriter<CaptureWriter>);

/// Bytes that may wait for older packets still on the cores.
const WAITING_BYTES: usize = 256 << 20;

impl CaptureSink {
    /// Writes to a file.
    pub fn new(writer: CaptureWriter) -> Self {
        Self(OrderedWriter::new(writer, WAITING_BYTES))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish(self) -> Result<(), CaptureError> {
        self.0.finish().map(drop)
    }
}

impl Sink for CaptureSink {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        self.0
            .push(departure.frame.timestamp().0, 0, departure.frame.bytes())
    }

    fn advance(&mut self, watermark: Instant) -> Result<(), CaptureError> {
        self.0.advance(watermark.0)
    }
}

/// One of the places where packets of a run can go.
#[expect(clippy::large_enum_variant, reason = "there is one per run")]
pub enum Exit {
    /// A capture file.
    Capture(CaptureSink),
    /// A socket.
    Udp(UdpSink),
    /// Nowhere: they are counted.
    Nowhere,
}

impl Exit {
    /// Completes a capture file; tells what became of frames that left through a socket.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn finish(self) -> Result<Option<SinkCounts>, CaptureError> {
        match self {
            Self::Capture(sink) => sink.finish().map(|()| None),
            Self::Udp(sink) => Ok(Some(sink.counts())),
            Self::Nowhere => Ok(None),
        }
    }
}

impl Sink for Exit {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        match self {
            Self::Capture(sink) => sink.packet(departure),
            Self::Udp(sink) => sink.packet(departure),
            Self::Nowhere => Ok(()),
        }
    }

    fn advance(&mut self, watermark: Instant) -> Result<(), CaptureError> {
        match self {
            Self::Capture(sink) => sink.advance(watermark),
            Self::Udp(sink) => sink.advance(watermark),
            Self::Nowhere => Ok(()),
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
