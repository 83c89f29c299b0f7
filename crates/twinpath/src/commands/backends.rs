//! `twinpath backends`: the backends of a running service's load balancers.

use crate::error::CommandError;
use crate::look::{Service, look, unexpected};
use crate::{Outcome, output};
use twinpath_control::look::{Look, Seen};
use twinpath_control::report::units;

/// Shows the backends of load balancers in a running service
///
/// For each the connections that it has at the moment, and those that were opened to it since the start; those
/// that it took over from a backend that was taken out count where they were opened.
/// `twinpath change backend` drains one, takes it out or puts one in. Exit code 1 if there is none.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath backends --control /run/edge.sock",
    "twinpath backends --control /run/edge.sock --json | jq '.[] | select(.connections == 0).backend'",
))]
pub struct Arguments {
    #[command(flatten)]
    service: Service,
}

/// Shows them.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let service = &arguments.service;
    let backends = match look(&service.control, Look::Backends(service.query()))? {
        Seen::Backends(backends) => backends,
        other => return Err(unexpected(other)),
    };
    service.tell(&backends, "backends", |backend| {
        format!(
            "{} of {}  {}  {} connections, {} since the start",
            backend.backend,
            backend.service,
            backend.function,
            units::count(backend.connections),
            units::count(backend.opened)
        )
    })
}
