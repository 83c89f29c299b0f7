//! `twinpath bindings`: what stands for inside endpoints in a running address translation.

use crate::error::CommandError;
use crate::look::{Ends, Service, look, unexpected};
use crate::{Outcome, output};
use twinpath_control::look::{Look, LookResult, Query};

/// Shows the bindings of address translations in a running service
///
/// For each the endpoint inside, what stands for it outside, and with how many others it speaks. An
/// address or port may be that of either side. `twinpath change binding delete` ends one. Exit code 1 if there
/// is none.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath bindings --control /run/gateway.sock --address 10.0.0.7",
    "twinpath bindings --control /run/gateway.sock --address 198.51.100.1 --port 40000    # who was it?",
))]
pub struct Arguments {
    #[command(flatten)]
    service: Service,
    #[command(flatten)]
    ends: Ends,
}

/// Shows them.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let Arguments { service, ends } = arguments;
    show(service, service.query_of(ends, None))
}

/// Shows those that are asked for.
pub fn show(service: &Service, query: Query) -> Result<Outcome, CommandError> {
    let bindings = match look(&service.control, Look::Bindings(query))? {
        LookResult::Bindings(bindings) => bindings,
        other => return Err(unexpected(other)),
    };
    service.tell(&bindings, ("binding", "translation"), |binding| {
        format!(
            "{} {} as {}  {}  sessions: {}",
            binding.protocol,
            binding.internal,
            binding.external,
            binding.function,
            binding.sessions
        )
    })
}
