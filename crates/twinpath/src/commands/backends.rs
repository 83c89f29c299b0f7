//! `twinpath backends`: the backends of a running service's load balancers.

use crate::error::CommandError;
use crate::look::{Service, look, unexpected};
use crate::{Outcome, output};
use twinpath_control::look::{BackendView, Look, LookResult};
use twinpath_control::report::units;

/// Shows the backends of load balancers in a running service
///
/// For each the connections that it has at the moment, of which those that are over count until their time-out,
/// and those that were opened to it since it was put in, at the start or by a change; those that it took over from a
/// backend that was taken out count where they were opened.
/// `twinpath change backend` drains one, takes it out or puts one in: it takes `backend`, `service`, `weight` and
/// `mac` as they are in JSON. Exit code 1 if there is none.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath backends --control /run/edge.sock",
    "twinpath backends --control /run/edge.sock --json | jq '.[] | select(.connections == 0).backend'",
    "idle=$(twinpath backends --control /run/edge.sock --json | jq -r 'first(.[] | select(.is_drained and .connections == 0)) | .backend + \" --service \" + .service')",
    "twinpath change backend remove $idle --control /run/edge.sock",
))]
pub struct Arguments {
    #[command(flatten)]
    service: Service,
}

/// Shows them.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let service = &arguments.service;
    let backends = match look(&service.control, Look::Backends(service.query()))? {
        LookResult::Backends(backends) => backends,
        other => return Err(unexpected(other)),
    };
    service.tell(&backends, ("backend", "load balancer"), |backend| {
        format!(
            "{} of {}  {}  {}, {} since it was put in",
            described(backend),
            backend.service,
            backend.function,
            units::counted(backend.connections, "connection"),
            units::count(backend.opened)
        )
    })
}

/// A backend as `twinpath change backend list` shows it.
fn described(backend: &BackendView) -> String {
    let weight = match backend.weight {
        1 => String::new(),
        weight => format!(" weight {weight}"),
    };
    let mac = backend.mac.as_ref();
    let mac = mac.map_or_else(String::new, |mac| format!(" mac {mac}"));
    let drained = if backend.is_drained { " drained" } else { "" };
    format!("{}{weight}{mac}{drained}", backend.backend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_told_with_what_is_said_of_it() {
        let mut backend = BackendView {
            function: "load_balancer".into(),
            service: "192.0.2.1:80/tcp".into(),
            backend: "10.1.0.2:80".into(),
            weight: 1,
            mac: None,
            is_drained: false,
            opened: 0,
            connections: 0,
        };
        assert_eq!(described(&backend), "10.1.0.2:80");
        backend.weight = 3;
        backend.mac = Some("02:00:00:00:00:07".into());
        backend.is_drained = true;
        let all = "10.1.0.2:80 weight 3 mac 02:00:00:00:00:07 drained";
        assert_eq!(described(&backend), all);
    }
}
