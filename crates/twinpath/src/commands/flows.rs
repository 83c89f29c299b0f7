//! `twinpath flows`: the flows that a running service knows.

use crate::error::CommandError;
use crate::look::{Ends, Service, look, time, unexpected};
use crate::{Outcome, output};
use twinpath_control::flow_filter::FlowFilter;
use twinpath_control::look::{FlowPath, FlowView, Look, LookResult, Query};
use twinpath_control::report::units;

/// Shows the flows that a running service knows
///
/// Of functions that share flow state: which path holds it, where the connection is in its life, and
/// how long no packet has come that counted. Of telemetry: packets, bytes and TCP flags, as of now. Of a DPU:
/// whose it is, which way it was opened, and what is done to its packets; `twinpath dash flows` tells more.
/// Of a monitor: packets, bytes and age of each flow, as far
/// as the fast path has reported. The data plane is asked for a part at a time, between two bursts,
/// and goes on with its packets. Exit code 1 if there is none.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath flows --control /run/gateway.sock --most 20",
    "twinpath flows --control /run/gateway.sock --address 10.0.0.7 --port 443",
    "twinpath flows --control /run/gateway.sock --flow 'tcp 10.0.0.0/8 192.0.2.1:80' --function firewall",
    "twinpath flows --control /run/gateway.sock --largest 10",
    "twinpath flows --control /run/gateway.sock --json | jq '[.[] | select(.path == \"fast\")] | length'",
))]
pub struct Arguments {
    #[command(flatten)]
    service: Service,
    #[command(flatten)]
    ends: Ends,
    /// Only such flows, in either direction: a protocol and two ends, as
    /// "tcp 10.0.0.1:* 192.0.2.1:80"
    #[arg(long)]
    flow: Option<FlowFilter>,
    /// The N flows that have most bytes, the largest first, where a function counts (telemetry, monitor)
    #[arg(long, value_name = "N", conflicts_with = "most")]
    largest: Option<usize>,
}

/// Shows them.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let Arguments {
        service,
        ends,
        flow,
        largest,
    } = arguments;
    let service = &Service {
        most: largest.or(service.most),
        ..service.clone()
    };
    let query = Query {
        largest: largest.is_some(),
        ..service.query_of(ends, flow.as_ref())
    };
    match look(&service.control, Look::Flows(query))? {
        LookResult::Flows(flows) => service.tell(&flows, ("flow", "function"), line),
        other => Err(unexpected(other)),
    }
}

fn line(flow: &FlowView) -> String {
    let mut parts = vec![format!(
        "{} {}",
        protocol(flow.protocol),
        flow.ends.join(" - ")
    )];
    parts.push(flow.functions.join(","));
    parts.extend(flow.path.map(|path| match path {
        FlowPath::Fast => "fast path".to_owned(),
        FlowPath::Slow => "slow path".to_owned(),
    }));
    let state = flow.state.iter();
    parts.extend(state.map(|(function, state)| match flow.state.len() {
        1 => state.clone(),
        _ => format!("{function}: {state}"),
    }));
    if let (Some(packets), Some(bytes)) = (flow.packets, flow.bytes) {
        let (packets, bytes) = (units::counted(packets, "packet"), units::bytes(bytes));
        parts.push(format!("{packets}, {bytes}"));
    }
    parts.extend(flow.age_ns.map(|age| format!("{} old", time(age))));
    let unused = flow.unused_ns;
    parts.extend(unused.map(|unused| format!("unused for {}", time(unused))));
    parts.join("  ")
}

/// Names that everybody knows.
fn protocol(number: u8) -> String {
    match number {
        1 => "icmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        58 => "icmpv6".into(),
        0 => "any".into(),
        number => format!("protocol {number}"),
    }
}
