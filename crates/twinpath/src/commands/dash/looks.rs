//! `twinpath dash flows`, `enis`, `counters` and `meters`: a DPU that runs.

use crate::error::CommandError;
use crate::look::{Ends, look, unexpected, warn_of_cut, warn_of_more};
use crate::{Outcome, output};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use twinpath_control::flow_filter::FlowFilter;
use twinpath_control::look::{DashFlowView, DashQuery, Look, LookResult};
use twinpath_control::report::{Dash, EniFigures, units};
use twinpath_dash::counters::OTHER_CLASSES;
use twinpath_nf::duration::Human;

/// Which service is asked, and how the answer is told.
#[derive(clap::Args)]
pub struct Asked {
    /// The socket that the service was given with --control
    #[arg(long, value_name = "SOCKET", env = crate::look::CONTROL, hide_env = true)]
    control: PathBuf,
    /// Only this ENI
    #[arg(long, value_name = "ENI")]
    eni: Option<String>,
    /// At most so many; of flows never more than 20000, and where there are more a warning says so
    #[arg(long, value_name = "N")]
    most: Option<usize>,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Shows the flows of a running DPU
///
/// A line for each: whose it is, which way its opener goes, both ends, how far a TCP connection has come,
/// what is done to packets either way, and how long none has come. A TCP connection is "opened" once its
/// opener's segments were seen, "answered" once both ends' were, "ended" after a reset or the last
/// segments of both; any other flow is "open". What is asked for by address, port or ends is found as
/// packets come and as they leave: also by the external port of a NAT gateway, a backend or the addresses of
/// a private endpoint. The data plane is asked for a part at
/// a time, between two bursts. Exit code 1 if there is none.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath dash flows --control /run/dpu.sock --most 20",
    "twinpath dash flows --control /run/dpu.sock --eni blue-1 --flow 'tcp 10.0.0.0/16 *:443'",
    "twinpath dash flows --control /run/dpu.sock --address 203.0.113.1 --port 4000",
    "twinpath dash flows --control /run/dpu.sock --unused 30s --json | jq length",
))]
pub struct FlowArguments {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    ends: Ends,
    /// Only such flows, in either direction: a protocol and two ends, as
    /// "tcp 10.0.0.1:* 192.0.2.1:80"
    #[arg(long)]
    flow: Option<FlowFilter>,
    /// Only those without a packet for so long, such as 30s; not by how long ago they were opened, which is
    /// not kept
    #[arg(long, value_name = "TIME")]
    unused: Option<Human>,
}

/// Shows the ENIs of a running DPU: packets, flows and drops of each
#[derive(clap::Args)]
#[command(after_help = output::examples!("twinpath dash enis --control /run/dpu.sock"))]
pub struct EniArguments {
    #[command(flatten)]
    asked: Asked,
}

/// Shows what a running DPU has counted of each ENI, under SAI's names
///
/// Those that are 0 are left out, but for JSON. Dropped packets are told by reason besides; those of
/// no ENI come last, in JSON under the name "none".
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath dash counters --control /run/dpu.sock --eni blue-1",
))]
pub struct CounterArguments {
    #[command(flatten)]
    asked: Asked,
}

/// Shows the bytes that a running DPU has counted for each ENI and metering class
#[derive(clap::Args)]
#[command(after_help = output::examples!("twinpath dash meters --control /run/dpu.sock --json"))]
pub struct MeterArguments {
    #[command(flatten)]
    asked: Asked,
    /// Only this class, by its number; 0 is all those together that came when there were 4,094
    #[arg(long, value_parser = class)]
    class: Option<u32>,
}

impl Asked {
    /// What the DPU has counted, of the ENIs that are wanted.
    fn figures(&self) -> Result<Dash, CommandError> {
        let report = match look(&self.control, Look::Figures)? {
            LookResult::Figures(report) => *report,
            other => return Err(unexpected(other)),
        };
        let Some(mut dash) = report.dash else {
            return Err(CommandError::Declined("the service has no DPU".into()));
        };
        if let Some(wanted) = &self.eni {
            dash.enis.retain(|eni| eni.eni == *wanted);
            if dash.enis.is_empty() {
                return Err(CommandError::Declined(format!("no ENI {wanted:?}")));
            }
        }
        Ok(dash)
    }

    /// Lines, or values as JSON; none at all is a negative answer.
    fn tell<T: Serialize>(
        &self,
        mut rows: Vec<T>,
        head: Option<String>,
        line: impl Fn(&T) -> String,
    ) -> Result<Outcome, CommandError> {
        rows.truncate(self.most.unwrap_or(usize::MAX));
        let text = match self.json {
            true => serde_json::to_string_pretty(&rows)? + "\n",
            false => {
                let lines = rows.iter().map(line);
                let all = head.into_iter().chain(lines);
                all.map(|line| line.trim_end().to_owned() + "\n").collect()
            }
        };
        output::print(&text)?;
        Ok(match rows.is_empty() {
            true => Outcome::Bad,
            false => Outcome::Good,
        })
    }
}

/// Shows flows.
pub fn flows(arguments: &FlowArguments) -> Result<Outcome, CommandError> {
    let FlowArguments {
        asked,
        ends,
        flow,
        unused,
    } = arguments;
    let query = DashQuery {
        eni: asked.eni.clone(),
        address: ends.address,
        port: ends.port,
        flow: flow.clone(),
        least_unused_ns: unused.map_or(0, |time| time.duration().as_nanos() as u64),
        most: asked.most,
    };
    let part = match look(&asked.control, Look::DashFlows(query))? {
        LookResult::DashFlows(part) => part,
        other => return Err(unexpected(other)),
    };
    let (count, has_more) = (part.told.len(), part.has_more);
    let outcome = asked.tell(part.told, None, flow_line)?;
    if !asked.json {
        let more = if has_more { ", and there are more" } else { "" };
        let count = units::counted(count as u64, "flow");
        output::print(&format!("{count}{more}\n"))?;
    }
    warn_of_more(asked.most, has_more);
    warn_of_cut(part.is_cut);
    Ok(outcome)
}

fn flow_line(flow: &DashFlowView) -> String {
    let DashFlowView {
        eni,
        direction,
        protocol,
        source,
        destination,
        state,
        action,
        answers,
        unused_ns,
    } = flow;
    let protocol = match protocol {
        1 => "icmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        58 => "icmpv6".into(),
        number => format!("protocol {number}"),
    };
    let unused = units::duration(*unused_ns);
    format!(
        "{eni} {direction} {protocol} {source} -> {destination} {state}  unused for {unused}\n    there: {}\n    back:  {}",
        action.text, answers.text
    )
}

/// Shows ENIs.
pub fn enis(arguments: &EniArguments) -> Result<Outcome, CommandError> {
    let dash = arguments.asked.figures()?;
    let row = |cells: [String; 9]| {
        let [eni, rest @ ..] = cells;
        let rest: String = rest.iter().map(|cell| format!("{cell:>13}")).collect();
        format!("{eni:<20}{rest}")
    };
    let head = [
        "ENI",
        "outbound",
        "left",
        "inbound",
        "left",
        "flows",
        "opened",
        "resimulated",
        "dropped",
    ];
    let head = row(head.map(str::to_owned));
    arguments
        .asked
        .tell(dash.enis, Some(head), |eni: &EniFigures| {
            let counts = [
                eni.outbound.received_packets,
                eni.outbound.sent_packets,
                eni.inbound.received_packets,
                eni.inbound.sent_packets,
                eni.flows,
                eni.flows_created,
                eni.flows_resimulated,
                eni.dropped(),
            ];
            let mut cells: [String; 9] = Default::default();
            cells[0].clone_from(&eni.eni);
            for (cell, count) in cells[1..].iter_mut().zip(counts) {
                *cell = units::count(count);
            }
            row(cells)
        })
}

/// A metering class.
fn class(text: &str) -> Result<u32, String> {
    let expected = "expected the number of a metering class, such as 1 (routes, mappings and meter rules of the configuration give packets theirs)";
    text.parse().map_err(|_| expected.into())
}

/// What programs read in place of a name for packets of no ENI.
const NO_ENI: &str = "none";

/// An ENI's counters.
#[derive(Serialize)]
struct Counters {
    eni: String,
    #[serde(flatten)]
    sai: BTreeMap<String, u64>,
    /// Dropped packets by reason.
    drops: BTreeMap<String, u64>,
}

/// Shows counters.
pub fn counters(arguments: &CounterArguments) -> Result<Outcome, CommandError> {
    let dash = arguments.asked.figures()?;
    let enis = dash.enis.iter().map(|eni| Counters {
        eni: eni.eni.clone(),
        sai: eni.sai(),
        drops: eni.drops.clone(),
    });
    let mut all: Vec<_> = enis.collect();
    if arguments.asked.eni.is_none() {
        all.push(Counters {
            eni: NO_ENI.into(),
            sai: dash.sai(),
            drops: dash.drops,
        });
    }
    arguments.asked.tell(all, None, |one| {
        let counters = one.sai.iter().filter(|(_, count)| **count > 0);
        let counters = counters.map(|(name, count)| format!("\n    {name} {count}"));
        let drops = one.drops.iter();
        let drops = drops.map(|(reason, count)| format!("\n    dropped ({reason}) {count}"));
        let lines: String = counters.chain(drops).collect();
        match &*one.eni {
            NO_ENI => {
                let dropped = units::count(one.drops.values().sum());
                format!("packets of no ENI: {dropped} dropped{lines}")
            }
            eni => format!("{eni}{lines}"),
        }
    })
}

/// Bytes of an ENI's metering class.
#[derive(Serialize)]
struct Meter {
    eni: String,
    class: u32,
    outbound_bytes: u64,
    inbound_bytes: u64,
}

/// Shows meters.
pub fn meters(arguments: &MeterArguments) -> Result<Outcome, CommandError> {
    let dash = arguments.asked.figures()?;
    let mut meters = Vec::new();
    for eni in dash.enis {
        let wanted = |class| arguments.class.is_none_or(|wanted| wanted == class);
        for meter in eni.meters.iter().filter(|meter| wanted(meter.class)) {
            meters.push(Meter {
                eni: eni.eni.clone(),
                class: meter.class,
                outbound_bytes: meter.outbound_bytes,
                inbound_bytes: meter.inbound_bytes,
            });
        }
    }
    let line = |eni: &str, class: &str, out: &str, back: &str| {
        format!("{eni:<20}{class:>10}{out:>16}{back:>16}")
    };
    let head = line("ENI", "class", "bytes out", "bytes in");
    arguments.asked.tell(meters, Some(head), |meter| {
        line(
            &meter.eni,
            &match meter.class {
                OTHER_CLASSES => "others".into(),
                class => class.to_string(),
            },
            &units::count(meter.outbound_bytes),
            &units::count(meter.inbound_bytes),
        )
    })
}
