//! `twinpath counters`: how often rules and next hops decided in a running service.

use crate::error::CommandError;
use crate::look::{Service, look, unexpected};
use crate::{Outcome, output};
use twinpath_control::look::{CounterView, Look, LookResult};
use twinpath_control::report::units;

/// Shows how often rules of access lists, firewalls and inspectors, and next hops of routers, decided in a running service
///
/// Packets count whichever path they took, those that a cached rule handled as far as the fast path has
/// reported them. Rules of a firewall are asked about packets of connections that are not known: those that
/// open one, and those that are denied. Of a rule of an inspector those are told that it has let pass as an
/// alert, or begun to ban a flow with on the slow path. The rules come in order, the default behind them. Of an ENI
/// it is told what came and what left either way, and what was dropped by reason; `twinpath dash counters`
/// has SAI's names for it. Exit code 1 if no function counts.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath counters --control /run/border.sock --function acl",
    "twinpath counters --control /run/border.sock --json | jq '.[] | select(.packets == 0).text'    # dead rules",
))]
pub struct Arguments {
    #[command(flatten)]
    service: Service,
}

/// Shows them.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let service = &arguments.service;
    match look(&service.control, Look::Counters(service.query()))? {
        LookResult::Counters(counters) => service.tell(&counters, ("counter", "function"), line),
        other => Err(unexpected(other)),
    }
}

fn line(counter: &CounterView) -> String {
    let number = counter
        .rule
        .map_or_else(String::new, |rule| format!(" rule {rule}"));
    let packets = units::count(counter.packets);
    let bytes = counter
        .bytes
        .map_or_else(String::new, |bytes| format!(", {}", units::bytes(bytes)));
    let CounterView { function, text, .. } = counter;
    format!("{packets:>12} packets{bytes}  {function}{number}: {text}")
}
