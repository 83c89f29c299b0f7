//! Where packets of a run can go.

use crate::departure::Departure;
use crate::sink::{CaptureLosses, CaptureSink, Sink};
use crate::udp_port::{SinkCounters, UdpSink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use twinpath_control::report::PortLosses;
use twinpath_control::service::Service;
use twinpath_core::Instant;
use twinpath_io::{
    CaptureError, CaptureWriter, PortFiles, PortPattern, is_named_pipe, open_once_read,
};

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
pub struct ExitFigures {
    /// What became of frames that left through a socket, if one was served.
    pub udp: Option<SinkCounters>,
    /// What a capture lacks, if one was written.
    pub written: CaptureLosses,
}

impl Exit {
    /// As [`Self::capture`]. A named pipe is written once somebody reads it; if `is_stopped` becomes true before,
    /// nothing is written. What cannot be made whoever reads is told before that.
    ///
    /// # Errors
    /// As [`Self::capture`].
    pub fn capture_once_read(
        path: &Path,
        service: &Service,
        is_stopped: &AtomicBool,
    ) -> Result<Self, CaptureError> {
        let paths = match PortPattern::of(path) {
            Some(pattern) => pattern.paths(&service.ports)?,
            None => vec![path.to_owned()],
        };
        let (pipes, files): (Vec<_>, Vec<_>) =
            paths.into_iter().partition(|path| is_named_pipe(path));
        if !pipes.is_empty() {
            files.iter().try_for_each(|file| check_folder(file))?;
        }
        // They stay open until the writers have opened them, too.
        let mut read = Vec::new();
        for path in pipes {
            match open_once_read(&path, is_stopped) {
                Ok(Some(pipe)) => read.push(pipe),
                Ok(None) => return Ok(Self::Nowhere),
                Err(source) => return Err(CaptureError::Create { path, source }),
            }
        }
        Self::capture(path, service)
    }

    /// Packets go to a capture file, or to one for each port if there is `{port}` in its path.
    ///
    /// # Errors
    /// It cannot be made, or the service names no ports that would be in such a path.
    pub fn capture(path: &Path, service: &Service) -> Result<Self, CaptureError> {
        let ports = &service.ports;
        Ok(match PortPattern::of(path) {
            Some(pattern) => Self::Captures(CaptureSink::new(PortFiles::create(&pattern, ports)?)),
            None if ports.is_empty() => {
                Self::Capture(CaptureSink::new(CaptureWriter::create(path)?))
            }
            None => {
                let writer = CaptureWriter::with_interfaces(path, ports)?;
                Self::Capture(CaptureSink::new(writer))
            }
        })
    }

    /// Completes capture files, and tells what became of packets.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn finish(self) -> Result<ExitFigures, CaptureError> {
        let (written, udp) = match self {
            Self::Capture(sink) => (sink.finish()?, None),
            Self::Captures(sink) => (sink.finish()?, None),
            Self::Udp(sink) => (CaptureLosses::default(), Some(sink.counters())),
            Self::Nowhere => (CaptureLosses::default(), None),
        };
        Ok(ExitFigures { udp, written })
    }
}

/// Whether a file can be made in its folder turns out when it is made; that the folder is not there is known
/// before.
fn check_folder(file: &Path) -> Result<(), CaptureError> {
    let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
    let found = folder.map_or(Ok(()), |folder| std::fs::metadata(folder).map(drop));
    found.map_err(|source| CaptureError::Create {
        path: file.to_owned(),
        source,
    })
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

    fn losses(&self) -> PortLosses {
        match self {
            Self::Capture(sink) => sink.losses(),
            Self::Captures(sink) => sink.losses(),
            Self::Udp(sink) => sink.losses(),
            Self::Nowhere => PortLosses::default(),
        }
    }
}

/// A sink that takes no more once it has failed; whoever hands packets in can stop then, and all else
/// goes on to its end.
pub struct Guarded<S> {
    sink: S,
    failure: Option<CaptureError>,
    has_failed: Arc<AtomicBool>,
    unwritten: u64,
}

impl<S> Guarded<S> {
    /// A sink that takes everything so far.
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            failure: None,
            has_failed: Arc::default(),
            unwritten: 0,
        }
    }

    /// Becomes true when it has failed.
    pub fn has_failed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_failed)
    }

    /// The sink; why it takes no more, if it does not, and how many packets it has not taken.
    pub fn into_parts(self) -> (S, Option<CaptureError>, u64) {
        (self.sink, self.failure, self.unwritten)
    }

    fn guard(&mut self, act: impl FnOnce(&mut S) -> Result<(), CaptureError>) {
        if self.failure.is_none()
            && let Err(error) = act(&mut self.sink)
        {
            self.failure = Some(error);
            self.has_failed.store(true, Ordering::Relaxed);
        }
    }
}

impl<S: Sink> Sink for Guarded<S> {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        self.guard(|sink| sink.packet(departure));
        self.unwritten += u64::from(self.failure.is_some());
        Ok(())
    }

    fn advance(&mut self, watermark: Instant) -> Result<(), CaptureError> {
        self.guard(|sink| sink.advance(watermark));
        Ok(())
    }

    fn losses(&self) -> PortLosses {
        self.sink.losses()
    }
}
