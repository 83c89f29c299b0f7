//! Where packets of a run can go.

use crate::fast_path::Departure;
use crate::sink::{CaptureSink, Egress, Sink, Written};
use crate::udp_port::{SinkCounters, UdpSink};
use std::path::Path;
use twinpath_core::Instant;
use twinpath_io::{CaptureError, CaptureWriter, PortFiles, PortPattern};

/// One of the places where packets of a run can go.
pub enum Exit {
    /// A capture file.
    Capture(CaptureSink<CaptureWriter>),
    /// A capture file for each port.
    Captures(CaptureSink<PortFiles>),
    /// A socket.
    Udp(UdpSink),
    /// Nowhere: they are counted.
    Nowhere,
}

/// What is told of packets that have left.
#[derive(Debug, Default)]
pub struct Told {
    /// What became of frames that left through a socket, if one was served.
    pub udp: Option<SinkCounters>,
    /// What a capture lacks, if one was written.
    pub written: Written,
}

impl Exit {
    /// Packets go to a capture file, or to one for each port if there is `{port}` in its path.
    ///
    /// # Errors
    /// It cannot be made, or the service names no ports that would be in such a path.
    pub fn capture(path: &Path, ports: &[String]) -> Result<Self, CaptureError> {
        let egress = Egress::new(ports.len());
        Ok(match PortPattern::of(path) {
            Some(pattern) => Self::Captures(CaptureSink::new(
                PortFiles::create(&pattern, ports)?,
                egress,
            )),
            None if ports.is_empty() => {
                Self::Capture(CaptureSink::new(CaptureWriter::create(path)?, egress))
            }
            None => {
                let writer = CaptureWriter::with_interfaces(path, ports)?;
                Self::Capture(CaptureSink::new(writer, egress))
            }
        })
    }

    /// Completes capture files, and tells what became of packets.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn finish(self) -> Result<Told, CaptureError> {
        let (written, udp) = match self {
            Self::Capture(sink) => (sink.finish()?, None),
            Self::Captures(sink) => (sink.finish()?, None),
            Self::Udp(sink) => (Written::default(), Some(sink.counters())),
            Self::Nowhere => (Written::default(), None),
        };
        Ok(Told { udp, written })
    }
}

impl Sink for Exit {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        match self {
            Self::Capture(sink) => sink.packet(departure),
            Self::Captures(sink) => sink.packet(departure),
            Self::Udp(sink) => sink.packet(departure),
            Self::Nowhere => Ok(()),
        }
    }

    fn advance(&mut self, watermark: Instant) -> Result<(), CaptureError> {
        match self {
            Self::Capture(sink) => sink.advance(watermark),
            Self::Captures(sink) => sink.advance(watermark),
            Self::Udp(sink) => sink.advance(watermark),
            Self::Nowhere => Ok(()),
        }
    }
}
