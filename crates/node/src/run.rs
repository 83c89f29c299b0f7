//! One run of a service, from packets in to report out.

use crate::arrivals::Tempo;
use crate::causality::{Causality, Scope};
use crate::command::{Commands, no_commands};
use crate::exit::{Exit, Guarded, Told};
use crate::health::{OnHealth, Pulse, Vigil};
use crate::ipfix::Exporter;
use crate::kernel::{Following, KernelError};
use crate::live_ports::{LivePorts, Privilege};
use crate::machine::Limits;
use crate::mirror::Mirror;
use crate::observe::{Observer, Together, pool_figures};
use crate::operator::{Access, ListenError, Operator, Reload, export_rest};
use crate::shards::{self, ShardRun};
use crate::sink::{Sink, Written};
use crate::source::Source;
use crate::threads::{self, PacketIo};
use crate::udp_port::{SinkCounters, UdpPort, UdpSink};
use crate::virtual_time::VirtualRun;
use crate::wiring::{self, BuildError, Node, build};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant as WallClock};
use twinpath_control::live::Live;
use twinpath_control::report::{self, Report};
use twinpath_control::service::{Execution, Pace, Paths, Service};
use twinpath_core::DropReason;
use twinpath_io::{CaptureError, PortPattern, Trace, is_standard};

/// Where packets come from and go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The capture to replay, `-` for standard input; if absent, the service's traffic is generated.
    pub input: Option<PathBuf>,
    /// The capture to write, `-` for standard output.
    pub output: Option<PathBuf>,
    /// A UDP address to serve: datagrams come from it and answers leave through it, in place of
    /// the other two.
    pub listen: Option<SocketAddr>,
    /// A local socket at which an operator is answered; only on threads.
    pub control: Option<PathBuf>,
    /// The group whose members are answered there beside the user and the superuser.
    pub control_group: Option<u32>,
}

/// Ports that are ready for packets.
pub struct OpenPorts {
    /// Where packets come from.
    pub source: Source,
    /// The same packets once more for each shard but the first.
    pub others: Vec<Source>,
    /// The UDP address that is served, if one is.
    pub local_address: Option<SocketAddr>,
    /// Whoever may want the service file to be read again.
    pub reload: Option<Reload>,
    /// Whoever wants to know how the run is.
    pub on_health: Option<OnHealth>,
    udp: Option<UdpSink>,
    /// The service's network interfaces: then `source` has nothing.
    live: Option<LivePorts>,
    /// Whoever follows the kernel's routes, if they are wanted.
    kernel: Option<Following>,
    /// What is probably not meant so, in words.
    pub warnings: Vec<String>,
}

impl OpenPorts {
    /// Whether packets come from network interfaces.
    pub const fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// What it takes to open interfaces again that go and come back.
    pub fn privileges(&self) -> Vec<Privilege> {
        self.live
            .as_ref()
            .map_or_else(Vec::new, LivePorts::privileges)
    }
}

impl Ports {
    /// Opens what packets come from; the capture to write is made when the run begins.
    ///
    /// # Errors
    /// There is no capture, no traffic or no such address.
    pub fn open(&self, service: &Service) -> Result<OpenPorts, RunError> {
        let paths = [&self.input, &self.output].into_iter().flatten();
        for path in paths.filter(|path| PortPattern::of(path).is_some()) {
            if service.ports.is_empty() {
                return Err(RunError::NoPorts(path.clone()));
            }
        }
        if let Some(what) = self.not_for_shards(service) {
            return Err(RunError::Shards(what));
        }
        if let Some(address) = self.listen {
            return listen(address);
        }
        if self.are_live(service) {
            return live(service);
        }
        if wiring::follows_kernel(service) {
            return Err(KernelError::NoPorts.into());
        }
        let source = self.source(service)?;
        let others = (1..service.run.shards.0).map(|_| self.source(service));
        Ok(OpenPorts {
            source,
            others: others.collect::<Result<_, _>>()?,
            local_address: None,
            reload: None,
            on_health: None,
            udp: None,
            live: None,
            kernel: None,
            warnings: Vec::new(),
        })
    }

    fn source(&self, service: &Service) -> Result<Source, RunError> {
        match (&self.input, &service.traffic) {
            (Some(path), _) => Ok(Source::capture(path, service)?),
            (None, Some(traffic)) => Ok(Source::generator(traffic, service)?),
            (None, None) => Err(RunError::NoPackets),
        }
    }

    /// What a service with several shards cannot have yet, of what is asked for.
    fn not_for_shards(&self, service: &Service) -> Option<&'static str> {
        if service.run.shards.0 == 1 {
            return None;
        }
        let is_piped = self.input.as_deref().is_some_and(is_standard);
        [
            (self.listen.is_some(), "a socket to listen at"),
            (self.are_live(service), "network interfaces"),
            (is_piped, "standard input"),
            (self.control.is_some(), "a control socket"),
            (self.metrics(service).is_some(), "metrics"),
            (service.ipfix.collector.is_some(), "an IPFIX collector"),
        ]
        .into_iter()
        .find_map(|(is_asked, what)| is_asked.then_some(what))
    }

    /// Where figures are told, if they are: not of a replay, whose service may be running elsewhere
    /// on this host.
    fn metrics(&self, service: &Service) -> Option<SocketAddr> {
        let listen = service.metrics.listen;
        listen.filter(|_| self.is_in_real_time(service))
    }

    /// Whether packets come when they come, and not from a capture or in virtual time.
    fn is_in_real_time(&self, service: &Service) -> bool {
        service.run.execution == Execution::Threads && self.input.is_none()
    }

    /// Whether packets come from the service's network interfaces: it has some, and nobody says
    /// otherwise.
    pub fn are_live(&self, service: &Service) -> bool {
        let is_told = self.input.is_some() || self.output.is_some() || self.listen.is_some();
        !service.devices.is_empty() && !is_told
    }
}

fn live(service: &Service) -> Result<OpenPorts, RunError> {
    if service.run.execution == Execution::Virtual {
        return Err(RunError::LiveInVirtualTime);
    }
    // Links come first: an interface that a driver makes is there when the kernel is asked.
    let mut ports = LivePorts::open(service)?;
    let kernel = Following::open(service)?.map(|(following, mailbox)| {
        ports.hear(mailbox);
        following
    });
    Ok(OpenPorts {
        source: Source::trace(Trace::default()),
        others: Vec::new(),
        local_address: None,
        reload: None,
        on_health: None,
        udp: None,
        warnings: ports.warnings(),
        live: Some(ports),
        kernel,
    })
}

fn listen(address: SocketAddr) -> Result<OpenPorts, RunError> {
    let port = UdpPort::bind(address).map_err(|source| RunError::Listen { address, source })?;
    let local_address = Some(port.local_address());
    let (feed, sink) = port.split();
    Ok(OpenPorts {
        source: Source::new(feed),
        others: Vec::new(),
        local_address,
        reload: None,
        on_health: None,
        udp: Some(sink),
        live: None,
        kernel: None,
        warnings: Vec::new(),
    })
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
    /// The address to serve cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The address for figures cannot be had.
    #[error("cannot listen for [metrics] on {address}: {source}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// A collector cannot be sent to.
    #[error("cannot send to the collector in [ipfix]: {0}")]
    Ipfix(std::io::Error),
    /// Nobody can look after the run.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The operator's socket cannot be had.
    #[error("cannot listen for the operator at {}: {source}", path.display())]
    Control {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file for each port, of which there are none.
    #[error(
        "{}: the service names no ports, expected ports = [...] in its [service]", .0.display()
    )]
    NoPorts(PathBuf),
    /// An interface cannot be opened.
    #[error(transparent)]
    Port(#[from] twinpath_ports::OpenError),
    /// The kernel's routes cannot be had.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Interfaces have no virtual time.
    #[error("packets of network interfaces come in real time: expected execution = \"threads\"")]
    LiveInVirtualTime,
    /// Something that only one shard can have.
    #[error("[run] shards: {0} cannot be had with several shards yet: expected shards = 1")]
    Shards(&'static str),
    /// No packets.
    #[error(
        "nothing to run: give a capture with --in, or describe traffic in the service file's [traffic]"
    )]
    NoPackets,
}

/// Traffic that is further behind its time is told of.
const MUCH_BEHIND: Duration = Duration::from_millis(500);

/// What a run leaves behind.
#[derive(Debug)]
pub struct Finished {
    /// The figures.
    pub report: Report,
    /// That the capture ended in the middle of a packet, if it did.
    pub truncated: Option<String>,
    /// What became of frames that left through a UDP address, if one was served.
    pub udp: Option<SinkCounters>,
    /// What the capture that was written lacks.
    pub written: Written,
    /// Whether all that came in had come to its end; if not, what was inside is lost.
    pub has_drained: bool,
    /// How far live traffic was behind its time, at most.
    pub behind: Duration,
    /// Whether packets did not say by which port of the node they came in, so that their sources told.
    pub has_guessed_ports: bool,
    /// Why packets could not be written any more: then the run has ended early. All figures are of
    /// what ran.
    pub failure: Option<CaptureError>,
    /// Packets that have left, and were not written for that reason.
    pub unwritten: u64,
    /// What ports lost, in words.
    pub ports_lost: Vec<String>,
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
    run_opened(service, ports, ports.open(service)?, live, is_stopped)
}

/// As [`run()`], on ports that are open already.
///
/// # Errors
/// See [`RunError`].
pub fn run_opened(
    service: &Service,
    ports: &Ports,
    mut opened: OpenPorts,
    live: Live,
    is_stopped: &AtomicBool,
) -> Result<Finished, RunError> {
    let mut kernel = opened.kernel.take();
    let learned = kernel.as_mut().map(|kernel| kernel.service(service));
    let service = learned.as_ref().unwrap_or(service);
    let began = WallClock::now();
    let exit = match (opened.udp.take(), &ports.output) {
        (Some(sink), _) => Exit::Udp(sink),
        (None, Some(path)) => Exit::capture(path, service)?,
        (None, None) => Exit::Nowhere,
    };
    let mut exit = Guarded::new(exit);
    let stops = exit.has_failed();
    opened.source = opened.source.until(Arc::clone(&stops));
    if !opened.others.is_empty() {
        return run_shards(service, ports, opened, (exit, began), live, is_stopped);
    }
    let mut node = build(service, service.run.paths)?;
    let pulse = Arc::new(Pulse::new(node.workers.len(), live_names(&opened, service)));
    let mut observer = Observer::new(live).with_pulse(&pulse);
    let vigil = look_after(service, ports, pulse, opened.on_health.take())?;
    let watched = (node.machine.mirror(), vigil.as_ref());
    let (operator, commands) = attend(service, ports, watched, (opened.reload.take(), kernel))?;
    let packet_time = match &mut opened.live {
        Some(packets) => drive_live(
            service,
            &mut node,
            packets,
            &mut observer,
            &commands,
            is_stopped,
        )?,
        None => drive(
            service,
            ports,
            &mut node,
            &mut opened.source,
            &mut exit,
            &mut observer,
            &commands,
            is_stopped,
        )?,
    };
    // Whoever still waits for an answer hears that there is none.
    drop(commands);
    let (control, exporter) = operator.map(Operator::finish).unzip();
    let exported = exporter.flatten().map(|mut exporter| {
        export_rest(&mut exporter, service, &mut node.workers);
        exporter.counters()
    });
    observer.lost_at_ports(match &opened.live {
        Some(live) => live.losses(),
        None => exit.losses(),
    });
    let ran = Ran {
        packet_time,
        began,
        nodes: vec![&mut node],
        sources: vec![&opened.source],
        observer,
        exit,
    };
    let mut finished = ran.finish(service, ports);
    if let Some(live) = &opened.live {
        finished.ports_lost = live.losses_in_words();
        live.figures_into(&mut finished.report);
    }
    finished.report.ipfix = exported;
    finished.report.control = control.filter(|_| ports.control.is_some());
    finished.report.warnings = finished.warnings();
    Ok(finished)
}

/// The same with several shards.
fn run_shards(
    service: &Service,
    ports: &Ports,
    opened: OpenPorts,
    (mut exit, began): (Guarded<Exit>, WallClock),
    live: Live,
    is_stopped: &AtomicBool,
) -> Result<Finished, RunError> {
    let stops = exit.has_failed();
    let others = opened.others.into_iter();
    let others = others.map(|source| source.until(Arc::clone(&stops)));
    let sources = std::iter::once(opened.source).chain(others).collect();
    let sources = shards::parts(service, sources)?;
    let together = Together::new(service.run.shards.0);
    let mut live = Some(live);
    let mut all = Vec::new();
    for ((shard, service, node), source) in shards::nodes(service)?.into_iter().zip(sources) {
        let live = live.take().unwrap_or_else(Live::hidden);
        all.push(ShardRun {
            observer: Observer::new(live).of_shard(shard.number, &together),
            shard,
            service,
            node,
            source,
        });
    }
    let packet_time;
    (packet_time, exit) = shards::drive_all(ports, &mut all, exit, is_stopped)?;
    let (mut nodes, mut sources, mut observers) = (Vec::new(), Vec::new(), Vec::new());
    for one in &mut all {
        nodes.push(&mut one.node);
        sources.push(&one.source);
        observers.push(std::mem::replace(
            &mut one.observer,
            Observer::new(Live::hidden()),
        ));
    }
    let mut observers = observers.into_iter();
    let mut observer = observers
        .next()
        .unwrap_or_else(|| Observer::new(Live::hidden()));
    observers.for_each(|other| observer.absorb(&other));
    observer.lost_at_ports(exit.losses());
    let ran = Ran {
        packet_time,
        began,
        nodes,
        sources,
        observer,
        exit,
    };
    let mut finished = ran.finish(service, ports);
    finished.report.warnings = finished.warnings();
    Ok(finished)
}

/// What a run was, of one shard or several, when it is over.
struct Ran<'a> {
    packet_time: Duration,
    began: WallClock,
    nodes: Vec<&'a mut Node>,
    sources: Vec<&'a Source>,
    observer: Observer,
    exit: Guarded<Exit>,
}

impl Ran<'_> {
    fn finish(mut self, service: &Service, ports: &Ports) -> Finished {
        let (exit, failure, unwritten) = self.exit.into_parts();
        let (told, failure) = match (exit.finish(), failure) {
            (Ok(told), failure) => (told, failure),
            (Err(error), failure) => (Told::default(), Some(failure.unwrap_or(error))),
        };
        let Told { udp, written } = told;
        let mut report = Report {
            schema: report::SCHEMA.to_owned(),
            ..Report::default()
        };
        describe(service, ports, &mut report);
        for node in &mut self.nodes {
            pool_figures(node.machine.pools(), &mut report);
        }
        let nodes = self.nodes.iter();
        let nodes: Vec<_> = nodes.map(|node| (&node.machine, &*node.workers)).collect();
        self.observer.finish_all(
            self.packet_time.as_nanos() as u64,
            self.began.elapsed().as_nanos() as u64,
            &nodes,
            &mut report,
        );
        let mut sources = self.sources.iter();
        Finished {
            report,
            truncated: sources
                .clone()
                .find_map(|source| source.truncated())
                .map(ToString::to_string),
            udp,
            written,
            has_drained: nodes.iter().all(|(machine, _)| machine.has_drained()),
            behind: sources
                .clone()
                .map(|source| source.behind())
                .max()
                .unwrap_or_default(),
            has_guessed_ports: sources.any(|source| source.has_guessed_ports()),
            failure,
            unwritten,
            ports_lost: Vec::new(),
        }
    }
}

impl Finished {
    /// What went otherwise than was asked for, in words.
    fn warnings(&self) -> Vec<String> {
        let Written { order } = self.written;
        let no_egress = DropReason::NoEgress.name();
        let without_port = self.report.drops.get(no_egress).copied().unwrap_or(0);
        let SinkCounters {
            unsendable,
            refused,
            ..
        } = self.udp.unwrap_or_default();
        let (behind, truncated) = (self.behind, self.truncated.as_deref());
        let slots = &self.report.slots_at_end;
        let unsettled = slots.incomplete + slots.frozen;
        let troubles = self.report.control.and_then(|control| control.troubles());
        [
            (
                !self.has_drained,
                "the run ended while packets were inside: they did not come to rest in time, and are lost"
                    .to_owned(),
            ),
            (
                behind > MUCH_BEHIND,
                format!("the traffic fell {behind:.1?} behind its time: less was offered than the file says"),
            ),
            (
                self.has_guessed_ports,
                "the capture does not say by which ports packets came in: their source addresses told, which anybody can forge".to_owned(),
            ),
            (
                unsettled > 0,
                format!("{unsettled} slots still waited for the workers when the run was over: what they hold of their flows is lost"),
            ),
            (
                truncated.is_some(),
                format!("{}; all packets before were run", truncated.unwrap_or_default()),
            ),
            (
                !order.is_in_order(),
                format!("the capture is not in order: {order}"),
            ),
            (
                without_port > 0,
                format!("{without_port} packets left by no port that the service names; they were not written"),
            ),
            (
                unsendable > 0,
                format!("{unsendable} packets left that were no answers to a client; they were not sent"),
            ),
            (
                refused > 0,
                format!("{refused} answers were lost: the system did not take them"),
            ),
            (
                self.failure.is_some(),
                format!(
                    "the run ended early, because packets could not be written any more: {}; {} that left were not written",
                    self.failure.as_ref().map_or(String::new(), ToString::to_string),
                    self.unwritten
                ),
            ),
            (
                troubles.is_some(),
                format!("clients of the control socket: {}", troubles.unwrap_or_default()),
            ),
        ]
        .into_iter()
        .filter_map(|(is_so, words)| is_so.then_some(words))
        .chain(self.ports_lost.iter().cloned())
        .collect()
    }
}

/// The names of ports that are network interfaces.
fn live_names<'a>(opened: &OpenPorts, service: &'a Service) -> &'a [String] {
    match opened.is_live() {
        true => &service.ports,
        false => &[],
    }
}

/// Somebody who looks after the run, if anybody wants to know.
fn look_after(
    service: &Service,
    ports: &Ports,
    pulse: Arc<Pulse>,
    tell: Option<OnHealth>,
) -> Result<Option<Vigil>, RunError> {
    if tell.is_none() && ports.metrics(service).is_none() {
        return Ok(None);
    }
    let tell = tell.unwrap_or_else(|| Box::new(|_| {}));
    let vigil = Vigil::begin(pulse, tell).map_err(RunError::Thread)?;
    Ok(Some(vigil))
}

/// Somebody to hear the operator, if there is a way to be heard.
fn attend(
    service: &Service,
    ports: &Ports,
    (mirror, vigil): (&Arc<Mirror>, Option<&Vigil>),
    (reload, kernel): (Option<Reload>, Option<Following>),
) -> Result<(Option<Operator>, Commands), RunError> {
    let path = ports.control.as_deref();
    let metrics = ports.metrics(service);
    let exporter = match ports.is_in_real_time(service) {
        true => Exporter::open(&service.ipfix).map_err(RunError::Ipfix)?,
        false => None,
    };
    let is_asked = path.is_some() || reload.is_some() || metrics.is_some() || kernel.is_some();
    if !is_asked && exporter.is_none() {
        return Ok((None, no_commands()));
    }
    let mut access = Access {
        socket: path.map(|path| (path, ports.control_group)),
        reload,
        kernel,
        mirror: Arc::clone(mirror),
        exporter,
        ..Access::default()
    };
    access.metrics = metrics.zip(vigil.map(Vigil::known));
    describe(service, ports, &mut access.report);
    let listening = Operator::listen(access, service);
    let (operator, commands) = listening.map_err(|error| match error {
        ListenError::Socket(source) => RunError::Control {
            path: path.unwrap_or(Path::new("")).to_owned(),
            source,
        },
        ListenError::Metrics(address, source) => RunError::Metrics { address, source },
    })?;
    Ok((Some(operator), commands))
}

/// Runs a built node in the way the service asks for. Returns how much packet time passed.
///
/// # Errors
/// Packets cannot be read or written.
#[expect(clippy::too_many_arguments, reason = "each is another party of a run")]
pub fn drive<S: Sink>(
    service: &Service,
    ports: &Ports,
    node: &mut Node,
    source: &mut Source,
    sink: &mut S,
    observer: &mut Observer,
    commands: &Commands,
    is_stopped: &AtomicBool,
) -> Result<Duration, RunError> {
    let round_trip = service.link.round_trip.duration();
    let tempo = tempo(service, ports);
    let causality = match (ports.listen, &ports.input) {
        // Who is at the other end of a socket waits for answers by itself.
        (Some(_), _) => Causality::new(Scope::Nothing),
        (None, Some(_)) => wiring::causality(service)?,
        (None, None) => wiring::causality_of_hosts(service)?,
    };
    let is_virtual = service.run.execution == Execution::Virtual;
    node.machine.set_limits(Limits {
        ring_frames: service.link.ring_frames,
        is_lossless: is_virtual || tempo.is_lossless,
        is_replay: !is_virtual && tempo.is_lossless,
    });
    Ok(match is_virtual {
        true => VirtualRun::new(node, sink, observer, round_trip)
            .hearing(commands)
            .run(source, causality)?,
        false => threads::run(
            node, source, causality, sink, observer, tempo, commands, is_stopped,
        )?,
    })
}

/// As [`drive`], on network interfaces.
///
/// # Errors
/// Packets cannot be exchanged.
fn drive_live(
    service: &Service,
    node: &mut Node,
    packets: &mut LivePorts,
    observer: &mut Observer,
    commands: &Commands,
    is_stopped: &AtomicBool,
) -> Result<Duration, RunError> {
    node.machine.set_limits(Limits {
        ring_frames: service.link.ring_frames,
        is_lossless: false,
        is_replay: false,
    });
    let tempo = Tempo {
        is_lossless: false,
        is_paced: true,
        most_ahead: None,
    };
    let passed = threads::run_on(node, packets, observer, tempo, commands, is_stopped)?;
    Ok(passed)
}

/// Captures are replayed without loss and as fast as possible; generated traffic comes at its own
/// pace and is dropped at full rings, unless the service says otherwise. What a socket delivers is
/// due at once.
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
        is_paced: is_live && ports.listen.is_none(),
        most_ahead: (!is_live).then_some(service.link.round_trip.duration()),
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
    run.input = input_name(service, ports);
    run.workers = u64::from(service.run.shards.0) * service.slow_path.workers as u64;
    run.series_clock = report::Clock::Capture;
    report.rings.capacity_frames = service.link.ring_frames as u64;
}

fn input_name(service: &Service, ports: &Ports) -> String {
    if let Some(address) = ports.listen {
        return format!("udp {address}");
    }
    if ports.are_live(service) {
        return "network interfaces".into();
    }
    if ports.input.as_deref().is_some_and(is_standard) {
        return "standard input".into();
    }
    let file_name = ports.input.as_deref().and_then(Path::file_name);
    file_name.map_or("generated traffic".into(), |name| {
        name.to_string_lossy().into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::departure::{Departure, Via};
    use twinpath_core::{Instant, Pools};

    fn finished() -> Finished {
        Finished {
            report: Report::default(),
            truncated: None,
            udp: None,
            written: Written::default(),
            has_drained: true,
            behind: MUCH_BEHIND,
            has_guessed_ports: false,
            failure: None,
            unwritten: 0,
            ports_lost: Vec::new(),
        }
    }

    #[test]
    fn a_run_that_went_as_it_should_warns_of_nothing() {
        assert_eq!(finished().warnings(), Vec::<String>::new());
    }

    #[test]
    fn packets_that_were_inside_at_the_end_are_told_of() {
        let told = Finished {
            has_drained: false,
            ..finished()
        }
        .warnings();
        assert!(
            told.len() == 1 && told[0].contains("packets were inside"),
            "{told:?}"
        );
    }

    /// A packet leaves that is older than what has been written.
    #[test]
    fn a_capture_that_is_not_in_order_is_told_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";
        let service = Service::parse(text, Path::new("late.toml")).expect("sound");
        let exit = Exit::capture(&folder.path().join("late.pcap"), &service);
        let mut exit = exit.expect("a file");
        for at in [10, 20, 5] {
            let mut frame = Pools::new(1, 1).take_filled(&[0; 60]).expect("a buffer");
            frame.set_timestamp(Instant(at));
            let departure = Departure::new(frame, Via::Slow, false);
            exit.packet(&departure).expect("written");
            exit.advance(Instant(at)).expect("written");
        }
        let written = exit.finish().expect("written").written;
        assert_eq!(written.order.out_of_order, 1);
        let told = Finished {
            written,
            ..finished()
        }
        .warnings();
        assert!(
            told.len() == 1 && told[0].contains("1 written late"),
            "{told:?}"
        );
    }

    #[test]
    fn traffic_that_fell_behind_is_told_of() {
        let told = Finished {
            behind: MUCH_BEHIND + Duration::from_millis(400),
            ..finished()
        }
        .warnings();
        assert!(
            told.len() == 1 && told[0].contains("behind its time"),
            "{told:?}"
        );
    }
}
