//! Whoever looks after a run, and whoever hears its operator.

use super::{Ports, RunError};
use crate::command::{Commands, no_commands};
use crate::health::{HealthMonitor, Heartbeat, OnHealth};
use crate::ipfix::Exporter;
use crate::kernel::KernelFollower;
use crate::mirror::Mirror;
use crate::operator::{Access, ListenError, Operator, Reload};
use crate::shards::CurrentPartition;
use std::path::Path;
use std::sync::Arc;
use twinpath_control::report::{self, Report};
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_io::is_standard;

/// Somebody who looks after the run, if anybody wants to know.
pub fn monitor_health(
    service: &Service,
    ports: &Ports,
    heartbeats: Vec<Arc<Heartbeat>>,
    tell: Option<OnHealth>,
) -> Result<Option<HealthMonitor>, RunError> {
    if tell.is_none() && ports.metrics(service).is_none() {
        return Ok(None);
    }
    let tell = tell.unwrap_or_else(|| Box::new(|_| {}));
    let health_monitor = HealthMonitor::begin(heartbeats, tell).map_err(RunError::Thread)?;
    Ok(Some(health_monitor))
}

/// What an operator can get at of a run.
pub struct RunHandles<'a> {
    /// Who copies packets.
    pub mirror: &'a Arc<Mirror>,
    /// Who knows how the run is.
    pub health_monitor: Option<&'a HealthMonitor>,
    /// Whoever wants the service file to be read again.
    pub reload: Option<Reload>,
    /// Whoever follows the kernel.
    pub kernel: Option<KernelFollower>,
    /// Which shard packets belong to, if there are several.
    pub partition: Option<CurrentPartition>,
}

/// Somebody to hear the operator, if there is a way to be heard.
pub fn attend(
    service: &Service,
    ports: &Ports,
    handles: RunHandles<'_>,
) -> Result<(Option<Operator>, Vec<Commands>), RunError> {
    let RunHandles {
        mirror,
        health_monitor,
        reload,
        kernel,
        partition,
    } = handles;
    let path = ports.control.as_deref();
    let metrics = ports.metrics(service);
    let exporter = match ports.is_in_real_time(service) {
        true => Exporter::open(&service.ipfix).map_err(RunError::Ipfix)?,
        false => None,
    };
    let is_asked = path.is_some() || reload.is_some() || metrics.is_some() || kernel.is_some();
    if !is_asked && exporter.is_none() {
        let shards = 0..service.run.shards.0;
        return Ok((None, shards.map(|_| no_commands()).collect()));
    }
    let mut access = Access {
        socket: path.map(|path| (path, ports.control_group)),
        reload,
        kernel,
        mirror: Arc::clone(mirror),
        exporter,
        partition,
        ..Access::default()
    };
    access.metrics = metrics.zip(health_monitor.map(HealthMonitor::known));
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

/// What is run, as a report tells.
pub fn describe(service: &Service, ports: &Ports, report: &mut Report) {
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
