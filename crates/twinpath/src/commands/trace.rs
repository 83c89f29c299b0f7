//! `twinpath trace`: one packet through every element and function, or all that are dropped.

mod drops;
mod text;

use crate::error::CommandError;
use crate::{Outcome, hex, output};
use std::path::PathBuf;
use twinpath_control::flow_filter::FlowFilter;
use twinpath_control::service::Service;
use twinpath_node::source::{Source, departures_in_words};
use twinpath_node::trace::{trace_bytes, trace_packet};

/// Follows one packet through every element and function of a service
///
/// The packet is given as bytes, and meets a service that has seen no other; or it is one of a
/// capture, and meets the state that all packets before it have left, under virtual time. What is
/// told comes from the run itself, step by step: the packet's headers and direction; at each element
/// the rule or slot that the fast path has for it and what is decided; what crosses the link with
/// it; on the slow path what each function examined, wrote and decided, and the rule that comes of it,
/// or why none does; where its payload waits; and what leaves. Rules of lists and routes are told with
/// their text and their line of the service file, an inspector's rules with that of their own file. A load
/// balancer tells which backend it chose, and why: by hashing, or by the flow's entry. Hashing depends on
/// the seed: a run on network interfaces draws one unless the file sets it, and tells which. Words of
/// flow state are told as they are; what their bits mean, `twinpath explain --programs` shows.
///
/// Of a DPU it is told which tables of which stages a packet meets, which entries are found, and what follows.
///
/// With --dropped all packets of a capture are told that the service drops: the reason, the function
/// and the rule or route that decided.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath trace examples/gateway.toml --in a.pcap --packet 1000",
    "twinpath trace examples/gateway.toml --in a.pcap --packet 1000 --json | jq .end",
    "twinpath trace examples/gateway.toml --dropped a.pcap --flow 'tcp 10.0.0.1:* 192.0.2.1:80'",
    "twinpath trace examples/dpu.toml --dash dpu0/*.json --in a.pcap --packet 7",
    "twinpath trace service.toml --hex 020000000005020000000001080045000030...",
))]
#[command(group(clap::ArgGroup::new("subject").required(true).args(["hex", "input", "dropped"])))]
pub struct Arguments {
    /// The service file
    service: PathBuf,
    /// The packet from its Ethernet header on, as hexadecimal digits; blanks and colons between
    /// bytes are ignored
    #[arg(long, value_name = "BYTES")]
    hex: Option<String>,
    /// The port that the packet comes in by: its name in the service file's [ports], or in ports of
    /// [service]. If absent, the one that its source is at, as inside, inside_ports and routes tell, else the
    /// first
    #[arg(long, value_name = "NAME", requires = "hex", conflicts_with_all = ["input", "dropped"])]
    port: Option<String>,
    /// Take the packet from this capture: pcap or pcapng, gzip too
    #[arg(long = "in", value_name = "CAPTURE", requires = "packet")]
    input: Option<PathBuf>,
    /// Which packet of the capture, counted from 1 without those that it marks as outbound
    #[arg(long, value_name = "N", requires = "input", conflicts_with_all = ["hex", "dropped"], value_parser = clap::value_parser!(u64).range(1..))]
    packet: Option<u64>,
    /// List all packets of this capture that are dropped
    #[arg(long, value_name = "CAPTURE")]
    dropped: Option<PathBuf>,
    /// Only those of such a flow, in either direction, a tunnel's or one inside: a protocol and two ends, as
    /// "tcp 10.0.0.1:* 192.0.2.1:80"
    #[arg(long, requires = "dropped", conflicts_with_all = ["hex", "input"])]
    flow: Option<FlowFilter>,
    /// A DPU's configuration, in place of what the service file's [dash] names: files in SONiC's JSON, of a
    /// folder all that end with .json
    #[arg(long, value_name = "CONFIG.json", num_args = 1..)]
    dash: Vec<PathBuf>,
    /// The seed of a run that drew one, in place of the service file's
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Interfaces of the capture may be no ports; packets that it says left did not come, and were skipped.
fn warn_of(source: &Source) {
    let unknown = source.unknown_interfaces();
    unknown.iter().for_each(output::warning);
    let words = departures_in_words(source.departures());
    words.iter().for_each(output::warning);
}

/// Traces.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let mut service = Service::load(&arguments.service)?;
    super::dash::replace_config(&arguments.dash, &mut service)?;
    service.seed = arguments.seed.unwrap_or(service.seed);
    if let Some(capture) = &arguments.dropped {
        return drops::execute(&service, capture, arguments.flow.as_ref(), arguments.json);
    }
    let trace = match (&arguments.hex, &arguments.input, arguments.packet) {
        (_, Some(path), Some(number)) => {
            let mut source = Source::capture(path, &service)?;
            let trace = trace_packet(&service, &mut source, number);
            warn_of(&source);
            trace
        }
        (hex, ..) => {
            let bytes = hex::bytes(hex.as_deref().unwrap_or_default())?;
            trace_bytes(&service, &bytes, arguments.port.as_deref())
        }
    };
    let trace = trace.map_err(|error| CommandError::from(error).placed(&service))?;
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&trace)? + "\n",
        false => text::TraceText(&trace).to_string(),
    };
    output::print(&text)?;
    Ok(Outcome::Good)
}
