//! One run of a service, from packets in to report out.

use crate::observe::{Observer, pool_figures};
use crate::sink::{CaptureSink, Discard, Sink};
use crate::source::Source;
use crate::threads::{self, Tempo};
use crate::virtual_time::VirtualRun;
use crate::wiring::{BuildError, Node, build};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant as WallClock};
use twinpath_control::live::Live;
use twinpath_control::report::{self, Report};
use twinpath_control::service::{Execution, Pace, Paths, Service};
use twinpath_io::{CaptureError, CaptureWriter};

/// Where packets come from and go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The capture to replay; if absent, the service's traffic is generated.
    pub input: Option<PathBuf>,
    /// The capture to write.
    pub output: Option<PathBuf>,
}

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The node cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Packets cannot be read or written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The traffic cannot be generated.
    #[error(transparent)]
    Traffic(#[from] twinpath_traffic::TrafficError),
    /// No packets.
    #[error(
        "nothing to run: give a capture with --in, or describe traffic in the service file's [traffic]"
    )]
    NoPackets,
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct Finished {
    /// The figures.
    pub report: Report,
    /// That the capture ended in the middle of a packet, if it did.
    pub truncated: Option<String>,
}

/// Runs a service to its end, or until `is_stopped` becomes true.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    service: &Service,
    ports: &Ports,
    live: Live,
    is_stopped: &AtomicBool,
) -> Result<Finished, RunError> {
    let mut source = open(service, ports)?;
    let mut node = build(service, service.run.paths)?;
    let mut observer = Observer::new(live);
    let began = WallClock::now();
    let packet_time = match &ports.output {
        Some(path) => {
            let mut sink = CaptureSink::new(CaptureWriter::create(path)?);
            let packet_time = drive(
                service,
                ports,
                &mut node,
                &mut source,
                &mut sink,
                &mut observer,
                is_stopped,
            )?;
            sink.finish()?;
            packet_time
        }
        None => drive(
            service,
            ports,
            &mut node,
            &mut source,
            &mut Discard,
            &mut observer,
            is_stopped,
        )?,
    };
    let mut report = Report {
        schema: report::SCHEMA.to_owned(),
        ..Report::default()
    };
    describe(service, ports, &mut report);
    pool_figures(&mut node.pools, &mut report);
    observer.finish(
        packet_time.as_nanos() as u64,
        began.elapsed().as_nanos() as u64,
        &node.fast_path,
        &node.workers,
        &mut report,
    );
    Ok(Finished {
        report,
        truncated: source.truncated().map(ToString::to_string),
    })
}

fn open(service: &Service, ports: &Ports) -> Result<Source, RunError> {
    match (&ports.input, &service.traffic) {
        (Some(path), _) => Ok(Source::capture(path)?),
        (None, Some(traffic)) => Ok(Source::generator(traffic, service.seed)?),
        (None, None) => Err(RunError::NoPackets),
    }
}

/// Runs a built node in the way the service asks for. Returns how much packet time passed.
///
/// # Errors
/// Packets cannot be read or written.
pub fn drive<S: Sink>(
    service: &Service,
    ports: &Ports,
    node: &mut Node,
    source: &mut Source,
    sink: &mut S,
    observer: &mut Observer,
    is_stopped: &AtomicBool,
) -> Result<Duration, CaptureError> {
    let round_trip = service.link.round_trip.duration();
    match service.run.execution {
        Execution::Virtual => VirtualRun::new(node, sink, observer, round_trip).run(source),
        Execution::Threads => threads::run(
            node,
            source,
            sink,
            observer,
            tempo(service, ports),
            is_stopped,
        ),
    }
}

/// Captures are replayed without loss and as fast as possible; generated traffic comes at its own
/// pace and is dropped at full rings, unless the service says otherwise.
fn tempo(service: &Service, ports: &Ports) -> Tempo {
    let is_replay = ports.input.is_some();
    let pace = service.run.pace.unwrap_or(if is_replay {
        Pace::Lossless
    } else {
        Pace::Live
    });
    let is_live = pace == Pace::Live;
    Tempo {
        is_lossless: !is_live,
        is_paced: is_live,
        round_trip: if is_live {
            Duration::ZERO
        } else {
            service.link.round_trip.duration()
        },
        ring_frames: service.link.ring_frames,
    }
}

fn describe(service: &Service, ports: &Ports, report: &mut Report) {
    let run = &mut report.run;
    run.service.clone_from(&service.name);
    run.paths = match service.run.paths {
        Paths::Both => report::Paths::Both,
        Paths::Slow => report::Paths::Slow,
    };
    run.execution = match service.run.execution {
        Execution::Threads => report::Execution::Threads,
        Execution::Virtual => report::Execution::Virtual,
    };
    run.seed = service.seed;
    run.input = ports
        .input
        .as_deref()
        .and_then(Path::file_name)
        .map_or("generated traffic".into(), |name| {
            name.to_string_lossy().into_owned()
        });
    run.workers = service.slow_path.workers as u64;
    run.series_clock = report::Clock::Capture;
    report.rings.capacity_frames = service.link.ring_frames as u64;
}
