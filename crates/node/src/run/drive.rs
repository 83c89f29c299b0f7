//! How a shard's node is driven: on threads or in virtual time, from wherever its packets come.

use super::{Ports, RunError};
use crate::arrivals::Pacing;
use crate::causality::{Causality, Scope};
use crate::command::Commands;
use crate::live_ports::LivePorts;
use crate::machine::Limits;
use crate::observe::Observer;
use crate::sink::Sink;
use crate::source::Source;
use crate::threads;
use crate::virtual_time::VirtualRun;
use crate::wiring::{self, Node};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use twinpath_control::service::{Execution, Pace, Service};

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
    let pacing = pacing(service, ports);
    let causality = match (ports.listen, &ports.input) {
        // Who is at the other end of a socket waits for answers by itself.
        (Some(_), _) => Causality::new(Scope::Nothing),
        (None, Some(_)) => wiring::causality(service)?,
        (None, None) => wiring::causality_of_hosts(service)?,
    };
    let is_virtual = service.run.execution == Execution::Virtual;
    node.machine.set_limits(Limits {
        ring_frames: service.link.ring_frames,
        is_lossless: is_virtual || pacing.is_lossless,
        is_replay: !is_virtual && pacing.is_lossless,
    });
    Ok(match is_virtual {
        true => VirtualRun::new(node, sink, observer, round_trip)
            .hearing(commands)
            .run(source, causality)?,
        false => threads::run(
            node, source, causality, sink, observer, pacing, commands, is_stopped,
        )?,
    })
}

/// As [`drive`], on network interfaces.
///
/// # Errors
/// Packets cannot be exchanged.
pub fn drive_live(
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
    let pacing = Pacing {
        is_lossless: false,
        is_paced: true,
        most_ahead: None,
    };
    let passed = threads::run_on(node, packets, observer, pacing, commands, is_stopped)?;
    Ok(passed)
}

/// Captures are replayed without loss and as fast as possible; generated traffic comes at its own
/// pace and is dropped at full rings, unless the service says otherwise. What a socket delivers is
/// due at once.
fn pacing(service: &Service, ports: &Ports) -> Pacing {
    let is_replay = ports.input.is_some();
    let pace = service.run.pace.unwrap_or(if is_replay {
        Pace::Lossless
    } else {
        Pace::Live
    });
    let is_live = pace == Pace::Live;
    Pacing {
        is_lossless: !is_live,
        is_paced: is_live && ports.listen.is_none(),
        most_ahead: (!is_live).then_some(service.link.round_trip.duration()),
    }
}
