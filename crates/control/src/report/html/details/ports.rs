//! The cards of network interfaces and of neighbours.

use super::super::super::{NeighborFigures, PortFigures, Report};
use super::{Row, bad, escape, row, table};

/// A card for each interface, and one for what was asked and answered about neighbours.
pub(super) fn cards(report: &Report) -> String {
    let ports = report.ports.iter().map(port_card);
    let neighbors = report.neighbors.iter().map(neighbors_card);
    ports.chain(neighbors).collect()
}

fn card(heading: &str, rows: &[Row<'_>]) -> String {
    let heading = escape(heading);
    format!(
        "<div class=\"card\">\n<h2>{heading}</h2>\n{}</div>\n",
        table(rows)
    )
}

fn port_card(port: &PortFigures) -> String {
    let heading = format!("Port {}: {}, {}", port.name, port.device, port.driver);
    let rows = [
        row("received", port.received_packets, "frames that came"),
        row("received bytes", port.received_bytes, ""),
        bad("missed", port.receive_missed, "the kernel had no room"),
        bad("no buffer", port.receive_no_buffer, "the node had no room"),
        bad("too long", port.receive_too_long, "longer than a buffer"),
        bad(
            "malformed",
            port.receive_malformed,
            "what the kernel told cannot be",
        ),
        row("transmitted", port.transmitted_packets, "frames that left"),
        row("transmitted bytes", port.transmitted_bytes, ""),
        bad(
            "refused",
            port.transmit_refused,
            "the kernel did not take them",
        ),
        bad(
            "beyond the MTU",
            port.transmit_too_long,
            "longer than the cable carries",
        ),
        bad("outages", port.outages, "times the interface went down"),
    ];
    card(&heading, &rows)
}

fn neighbors_card(neighbors: &NeighborFigures) -> String {
    let rows = [
        row("known", neighbors.known, "neighbours, or asked for"),
        row("questions", neighbors.questions, "that the node asked"),
        row("answers", neighbors.answers, "to questions of others"),
        row(
            "unanswered",
            neighbors.unanswered,
            "neighbours, or not any more",
        ),
        bad(
            "lost unanswered",
            neighbors.unanswered_drops,
            "packets that waited in vain",
        ),
        bad(
            "pushed out",
            neighbors.backlog_drops,
            "packets, by later ones",
        ),
        bad(
            "too many asked",
            neighbors.unresolved_drops,
            "packets for yet others",
        ),
        bad(
            "no address",
            neighbors.no_address_drops,
            "packets where none is to ask from",
        ),
        bad(
            "conflicts",
            neighbors.conflicts,
            "claims of the node's own addresses",
        ),
        row("evictions", neighbors.evictions, "made room for others"),
    ];
    card("Neighbours", &rows)
}
