//! One run of a service, from packets in to report out.

mod drive;
mod finished;
mod operate;
pub mod shards;
pub mod steps;

pub use drive::{drive, drive_live};
pub use finished::Finished;
pub use steps::{RunStep, StepError, StepFigures, run_steps};

use crate::command::no_commands;
use crate::counted::largest_flows;
use crate::exit::{Exit, Guarded};
use crate::health::{Heartbeat, OnHealth};
use crate::ipfix::Exporter;
use crate::kernel::{KernelError, KernelFollower};
use crate::live_ports::{self, LivePorts, Privilege};
use crate::observe::{Observer, ShardSnapshots};
use crate::operator::{Operator, Reload, export_rest};
use crate::shards::{CurrentPartition, Handoff};
use crate::sink::Sink;
use crate::source::{Source, Tunnels};
use crate::threads::PacketIo;
use crate::udp_port::{UdpPort, UdpSink};
use crate::wiring::{self, BuildError};
use finished::Ran;
use operate::{RunHandles, attend, monitor_health};
use shards::{Ends, ShardRun};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant as WallClock};
use twinpath_control::live::Live;
use twinpath_control::report::{ControlCounters, ExportCounters, LargestFlows};
use twinpath_control::service::{Execution, Service};
use twinpath_io::{CaptureError, PortPattern, is_piped};
use twinpath_ports::DescriptorStore;

/// Where packets come from and go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The capture to replay, `-` for standard input; if absent, the service's traffic is generated. Of a
    /// pipe packets are taken as they come.
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
    /// Where packets of each shard come from.
    ends: Vec<Ends>,
    /// Which shard packets belong to, if there are several.
    partition: Option<CurrentPartition>,
    /// The UDP address that is served, if one is.
    pub local_address: Option<SocketAddr>,
    /// Whoever may want the service file to be read again.
    pub reload: Option<Reload>,
    /// Whoever wants to know how the run is.
    pub on_health: Option<OnHealth>,
    udp: Option<UdpSink>,
    /// Whoever follows the kernel's routes, if they are wanted.
    kernel: Option<KernelFollower>,
    /// What is probably not meant so, in words.
    pub warnings: Vec<String>,
}

impl OpenPorts {
    fn new(ends: Vec<Ends>) -> Self {
        Self {
            ends,
            partition: None,
            local_address: None,
            reload: None,
            on_health: None,
            udp: None,
            kernel: None,
            warnings: Vec::new(),
        }
    }

    fn live(&self) -> impl Iterator<Item = &LivePorts> {
        self.ends.iter().filter_map(Ends::live)
    }

    /// Whether packets come from network interfaces.
    pub fn is_live(&self) -> bool {
        self.live().next().is_some()
    }

    /// What it takes to open interfaces again that go and come back.
    pub fn privileges(&self) -> Vec<Privilege> {
        self.live()
            .next()
            .map_or_else(Vec::new, LivePorts::privileges)
    }

    /// The same, but no packet any more once `is_stopped` is true; interfaces are not asked.
    #[must_use]
    pub fn until(self, is_stopped: &Arc<AtomicBool>) -> Self {
        self.with_sources(|source| source.until(Arc::clone(is_stopped)))
    }

    /// The same; `begin` is called when the first shard asks for its first packet.
    #[must_use]
    pub fn beginning(self, begin: impl FnOnce() + Send + 'static) -> Self {
        let mut begin = Some(begin);
        self.with_sources(|source| match begin.take() {
            Some(begin) => source.beginning(begin),
            None => source,
        })
    }

    fn with_sources(mut self, mut change: impl FnMut(Source) -> Source) -> Self {
        let change = |ends| match ends {
            Ends::Source(source) => Ends::Source(Box::new(change(*source))),
            live @ Ends::Live(_) => live,
        };
        self.ends = self.ends.into_iter().map(change).collect();
        self
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
        if let Some(cpu) = wiring::forbidden_cpu(service) {
            return Err(RunError::Cpu(cpu));
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
        let crowded = shards::crowded(service);
        let sources = (0..service.run.shards.0).map(|_| self.source(service));
        let mut sources = sources.collect::<Result<Vec<_>, _>>()?;
        let partition = partition(service)?;
        if let Some(partition) = &partition {
            sources = shards::parts(service, sources, partition);
        }
        let ends = sources.into_iter().map(Box::new).map(Ends::Source);
        Ok(OpenPorts {
            partition,
            warnings: without_servers(service)
                .into_iter()
                .chain(crowded)
                .chain(self.misfit(service))
                .collect(),
            ..OpenPorts::new(ends.collect())
        })
    }

    fn source(&self, service: &Service) -> Result<Source, RunError> {
        match (&self.input, &service.traffic) {
            (Some(path), _) => Ok(Source::capture(path, service)?),
            (None, Some(traffic)) => Ok(Source::generator(traffic, service)?),
            (None, None) => Err(RunError::NoPackets),
        }
    }

    /// What is told of generated packets that a DPU's ENIs cannot send so.
    fn misfit(&self, service: &Service) -> Option<String> {
        match self.input {
            Some(_) => None,
            None => Tunnels::warning(service),
        }
    }

    /// What a service with several shards cannot have yet, of what is asked for.
    fn not_for_shards(&self, service: &Service) -> Option<&'static str> {
        if service.run.shards.0 == 1 {
            return None;
        }
        let is_piped = self.input.as_deref().is_some_and(is_piped);
        [
            (self.listen.is_some(), "a socket to listen at"),
            (is_piped, "standard input, or another pipe,"),
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

/// Packets come from elsewhere than network interfaces, by which memory servers are reached.
fn without_servers(service: &Service) -> Option<String> {
    let servers = service.split.as_ref()?.servers().count();
    (servers > 0).then(|| {
        "[[split.servers]] are reached by network interfaces, and these packets come from elsewhere: all travel whole".into()
    })
}

fn live(service: &Service) -> Result<OpenPorts, RunError> {
    if service.run.execution == Execution::Virtual {
        return Err(RunError::LiveInVirtualTime);
    }
    // Links come first: an interface that a driver makes is there when the kernel is asked.
    let descriptor_store = DescriptorStore::manager().map_err(RunError::Kept)?;
    let mut ports = LivePorts::open(service, &Arc::new(descriptor_store))?;
    let shards = service.run.shards.0;
    let partition = partition(service)?;
    if let Some(partition) = &partition {
        let ring_frames = wiring::handoff_frames(shards);
        let ends = Handoff::all(partition, shards, ring_frames).map_err(RunError::Handoff)?;
        for (ports, end) in ports.iter_mut().zip(ends) {
            ports.share(end);
        }
    }
    let mut following = None;
    if let Some((kernel, mailboxes)) = KernelFollower::open(service)? {
        for (ports, mailbox) in ports.iter_mut().zip(mailboxes) {
            ports.hear(mailbox);
        }
        following = Some(kernel);
    }
    let mut warnings = ports[0].warnings(service);
    warnings.extend(shards::crowded(service));
    let ends = ports.into_iter().map(Box::new).map(Ends::Live);
    Ok(OpenPorts {
        partition,
        warnings,
        kernel: following,
        ..OpenPorts::new(ends.collect())
    })
}

fn listen(address: SocketAddr) -> Result<OpenPorts, RunError> {
    let port = UdpPort::bind(address).map_err(|source| RunError::Listen { address, source })?;
    let local_address = Some(port.local_address());
    let (feed, sink) = port.split();
    let source = Box::new(Source::new(feed));
    Ok(OpenPorts {
        local_address,
        udp: Some(sink),
        ..OpenPorts::new(vec![Ends::Source(source)])
    })
}

/// Which shard packets belong to, if there are several.
fn partition(service: &Service) -> Result<Option<CurrentPartition>, RunError> {
    match service.run.shards.0 {
        1 => Ok(None),
        shards => Ok(Some(CurrentPartition::of(service, shards)?)),
    }
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
    /// Shards cannot hand packets over.
    #[error("cannot make what shards hand packets over by: {0}")]
    Handoff(std::io::Error),
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
    /// What was kept of a former process cannot be had.
    #[error("cannot take the sockets that the service manager has kept (LISTEN_FDS): {0}")]
    Kept(std::io::Error),
    /// The kernel's routes cannot be had.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Interfaces have no virtual time.
    #[error("packets of network interfaces come in real time: expected execution = \"threads\"")]
    LiveInVirtualTime,
    /// A thread cannot be where it should stay.
    #[error("[run] cpus: this process may not run on processor {0}, or there is none")]
    Cpu(u16),
    /// Something that only one shard can have.
    #[error("[run] shards: {0} cannot be had with several shards yet: expected shards = 1")]
    Shards(&'static str),
    /// No packets.
    #[error(
        "nothing to run: give a capture with --in or a socket with --listen, or name interfaces in the service file's [ports] or traffic in [traffic]"
    )]
    NoPackets,
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
        (None, Some(path)) => Exit::capture_once_read(path, service, is_stopped)?,
        (None, None) => Exit::Nowhere,
    };
    let mut exit = Guarded::new(exit);
    let names = live_names(&opened, service);
    let nodes = shards::nodes(service)?;
    let heartbeats = nodes
        .iter()
        .map(|(_, _, node)| Heartbeat::new(node.workers.len(), names));
    let heartbeats: Vec<_> = heartbeats.map(Arc::new).collect();
    if let Some(kernel) = &mut kernel {
        kernel.show(&heartbeats[0]);
    }
    let health_monitor =
        monitor_health(service, ports, heartbeats.clone(), opened.on_health.take())?;
    let handles = RunHandles {
        mirror: nodes[0].2.machine.mirror(),
        health_monitor: health_monitor.as_ref(),
        reload: opened.reload.take(),
        kernel,
        partition: opened.partition.clone(),
    };
    let (operator, commands) = attend(service, ports, handles)?;
    let ends = opened.until(&exit.has_failed()).ends;
    let observers = observers(live, &heartbeats);
    let parties = nodes.into_iter().zip(ends).zip(observers).zip(commands);
    let shard = |((((shard, service, node), ends), observer), commands)| ShardRun {
        shard,
        service,
        node,
        ends,
        observer,
        commands,
    };
    let mut all: Vec<_> = parties.map(shard).collect();
    let packet_time;
    (packet_time, exit) = shards::drive_all(ports, &mut all, exit, is_stopped)?;
    let (control, exporter) = end_operation(operator, &mut all);
    let largest_flows = largest_of(&mut all);
    let mut finished = finish(service, ports, &mut all, (packet_time, began), exit);
    // Behind the figures: bindings end with this.
    let exported = exporter.map(|exporter| export_all(exporter, &mut all));
    (finished.report.control, finished.report.ipfix) = (control, exported);
    finished.report.largest_flows = largest_flows;
    if ports.control.is_none() {
        finished.report.control = None;
    }
    finished.report.warnings = finished.warnings();
    Ok(finished)
}

/// Whoever watches the shards: the first shows what is seen of all.
fn observers(live: Live, heartbeats: &[Arc<Heartbeat>]) -> Vec<Observer> {
    let snapshots = ShardSnapshots::new(heartbeats.len() as u16);
    let mut live = Some(live);
    let observer = |(number, heartbeat)| {
        let live = live.take().unwrap_or_else(Live::hidden);
        let observer = Observer::new(live).with_heartbeat(heartbeat);
        match heartbeats.len() {
            1 => observer,
            _ => observer.of_shard(number, &snapshots),
        }
    };
    (0..).zip(heartbeats).map(observer).collect()
}

/// The operator is no longer heard. Who tells a collector has more to tell.
fn end_operation(
    operator: Option<Operator>,
    shards: &mut [ShardRun],
) -> (Option<ControlCounters>, Option<Exporter>) {
    for shard in &mut *shards {
        // Whoever still waits for an answer hears that there is none.
        shard.commands = no_commands();
    }
    let (control, exporter) = operator.map(Operator::finish).unzip();
    (control, exporter.flatten())
}

/// A collector is told the rest.
fn export_all(mut exporter: Exporter, shards: &mut [ShardRun]) -> ExportCounters {
    for shard in shards {
        export_rest(&mut exporter, &shard.service, &mut shard.node);
    }
    exporter.counters()
}

/// The largest flows of all shards.
fn largest_of(shards: &mut [ShardRun]) -> Vec<LargestFlows> {
    let Some(service) = shards.first().map(|first| first.service.clone()) else {
        return Vec::new();
    };
    let nodes = shards.iter_mut().map(|shard| &mut shard.node);
    largest_flows(&service, &mut nodes.collect::<Vec<_>>())
}

fn finish(
    service: &Service,
    ports: &Ports,
    shards: &mut [ShardRun],
    (packet_time, began): (Duration, WallClock),
    exit: Guarded<Exit>,
) -> Finished {
    let mut observer = Observer::new(Live::hidden());
    let (mut nodes, mut sources, mut live) = (Vec::new(), Vec::new(), Vec::new());
    let mut losses = exit.losses();
    for (number, one) in shards.iter_mut().enumerate() {
        let hidden = Observer::new(Live::hidden());
        let own = std::mem::replace(&mut one.observer, hidden);
        match number {
            0 => observer = own,
            _ => observer.absorb(&own),
        }
        nodes.push(&mut one.node);
        match &one.ends {
            Ends::Source(source) => sources.push(&**source),
            Ends::Live(ports) => {
                losses.add(&ports.losses());
                live.push(&**ports);
            }
        }
    }
    observer.lost_at_ports(losses);
    let ran = Ran {
        packet_time,
        began,
        nodes,
        sources,
        observer,
        exit,
    };
    let mut finished = ran.finish(service, ports);
    for ports in &live {
        ports.figures_into(&mut finished.report);
    }
    finished.ports_lost = live_ports::losses_in_words(&finished.report);
    finished
}

/// The names of ports that are network interfaces.
fn live_names<'a>(opened: &OpenPorts, service: &'a Service) -> &'a [String] {
    match opened.is_live() {
        true => &service.ports,
        false => &[],
    }
}
