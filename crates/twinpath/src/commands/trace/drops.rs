//! All packets of a capture that a service drops.

use super::text::entry;
use super::warn_of;
use crate::error::CommandError;
use crate::{Outcome, output};
use std::fmt::Write;
use std::path::Path;
use twinpath_control::flow_filter::FlowFilter;
use twinpath_control::report::units;
use twinpath_control::service::Service;
use twinpath_node::source::Source;
use twinpath_node::trace::{Dropped, trace_drops};

/// Lists them.
pub fn execute(
    service: &Service,
    capture: &Path,
    flow: Option<&FlowFilter>,
    is_json: bool,
) -> Result<Outcome, CommandError> {
    let mut source = Source::capture(capture, service)?;
    let mut dropped = Vec::new();
    let packets = trace_drops(service, &mut source, |one| {
        if flow.is_none_or(|flow| is_of(&one, flow)) {
            dropped.push(one);
        }
    });
    warn_of(&source);
    let packets = packets.map_err(|error| CommandError::from(error).placed(service))?;
    let text = match is_json {
        true => serde_json::to_string_pretty(&dropped)? + "\n",
        false => told(&dropped, packets),
    };
    output::print(&text)?;
    Ok(Outcome::Good)
}

/// A packet in a tunnel is of the flow outside and of that inside.
fn is_of(dropped: &Dropped, flow: &FlowFilter) -> bool {
    let mut ends = dropped.packet.ends.iter();
    ends.any(|(protocol, source, destination)| flow.includes(*protocol, *source, *destination))
}

fn told(dropped: &[Dropped], packets: u64) -> String {
    let mut text = String::new();
    let start_ns = dropped.first().map_or(0, |first| first.time_ns);
    for one in dropped {
        let time = units::duration(one.time_ns - start_ns.min(one.time_ns));
        let headers: Vec<&str> = one
            .packet
            .headers
            .iter()
            .skip(1)
            .map(String::as_str)
            .collect();
        let headers = match headers.is_empty() {
            true => "no headers".into(),
            false => headers.join("; "),
        };
        // Writing to a string never fails.
        let _ = writeln!(
            text,
            "packet {} (+{time}): {headers}",
            units::count(one.number)
        );
        let by = match (&one.function, &one.entry) {
            (_, Some(decided)) => format!("by {}", entry(decided)),
            (Some(function), None) => format!("by {function}"),
            (None, None) if !one.in_front_of.is_empty() => {
                format!("in front of {}", one.in_front_of.join(", "))
            }
            (None, None) => "before any function, or between them".into(),
        };
        let _ = writeln!(text, "    {} {by}", one.reason);
    }
    let count = units::count(dropped.len() as u64);
    let packets = units::counted(packets, "packet");
    let _ = writeln!(text, "{count} of {packets}");
    text
}
