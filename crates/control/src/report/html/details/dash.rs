//! The card of a DPU's ENIs.

use super::super::super::{Dash, EniFigures, units};
use super::{MAX_ROWS, escape, note};

/// A table with a line for each ENI, those with most packets first.
pub fn card(dash: &Dash) -> String {
    let mut enis: Vec<_> = dash.enis.iter().collect();
    let packets = |eni: &EniFigures| eni.outbound.received_packets + eni.inbound.received_packets;
    enis.sort_by_key(|eni| std::cmp::Reverse(packets(eni)));
    let rows: String = enis.iter().take(MAX_ROWS).map(|eni| row(eni)).collect();
    let rest = match enis.len().checked_sub(MAX_ROWS + 1) {
        Some(more) => note(&format!("and {} more ENIs, in report.json", more + 1)),
        None => String::new(),
    };
    let heads = [
        "ENI",
        "outbound",
        "left",
        "inbound",
        "left",
        "flows",
        "opened",
        "resimulated",
        "dropped",
        "most for",
    ];
    let heads: String = heads.map(|head| format!("<th>{head}</th>")).concat();
    format!(
        "<div class=\"card wide\">\n<h2>ENIs of the DPU</h2>\n<table>\n<thead><tr>{heads}</tr></thead>\n\
         <tbody>\n{rows}</tbody></table>\n{rest}</div>\n"
    )
}

fn row(eni: &EniFigures) -> String {
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
    let cells: String = counts
        .map(|count| format!("<td>{}</td>", units::count(count)))
        .concat();
    let most = eni.drops.iter().max_by_key(|(_, count)| **count);
    let most = most.map_or("", |(reason, _)| reason.as_str());
    let (name, most) = (escape(&eni.eni), escape(most));
    format!("<tr><td>{name}</td>{cells}<td>{most}</td></tr>\n")
}
