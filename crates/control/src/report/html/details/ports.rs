//! The cards of network interfaces and of neighbours.

use super::super::super::{KernelFigures, NeighborFigures, PortFigures, Report, ShardFigures};
use super::{Row, bad, escape, row, table};

/// A card for each interface and each shard, one for what was asked and answered about neighbours, and one for what was
/// followed of the kernel.
pub(super) fn cards(report: &Report) -> String {
    let ports = report.ports.iter().map(port_card);
    let neighbors = report.neighbors.iter().map(neighbors_card);
    let kernel = report.kernel.iter().map(kernel_card);
    let shards = report.shards.iter().enumerate();
    let shards = shards.map(|(number, shard)| shard_card(number, shard));
    ports.chain(shards).chain(neighbors).chain(kernel).collect()
}

fn card(heading: &str, rows: &[Row<'_>]) -> String {
    let heading = escape(heading);
    format!(
        "<div class=\"card\">\n<h2>{heading}</h2>\n{}</div>\n",
        table(rows)
    )
}

fn port_card(port: &PortFigures) -> String {
    let mut heading = format!("Port {}: {}, {}", port.name, port.device, port.driver);
    if !port.mode.is_empty() {
        heading = format!("{heading}, {}", port.mode);
    }
    let rows = [
        row("received", port.received_packets, "frames that came"),
        row("received bytes", port.received_bytes, ""),
        bad("missed", port.receive_missed, "the kernel had no room"),
        bad("unread", port.receive_unread, "when the run ended"),
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
        row("copied in", port.copied_received, "few buffers were left"),
        row(
            "copied out",
            port.copied_transmitted,
            "they lay where AF_XDP does not send from",
        ),
        bad("outages", port.outages, "times the interface went down"),
    ];
    card(&heading, &rows)
}

fn shard_card(number: usize, shard: &ShardFigures) -> String {
    let rows = [
        row("received", shard.received_packets, "by queues of its own"),
        row(
            "handed over",
            shard.handed_over,
            "to the shards whose they are",
        ),
        row(
            "left elsewhere",
            shard.left_elsewhere,
            "by queues of other shards",
        ),
        row(
            "crossed",
            shard.crossed,
            "between hosts inside of two shards",
        ),
        bad("ring full", shard.ring_full, "another shard was behind"),
        bad("no buffer", shard.no_buffer, "for what others handed over"),
        bad(
            "left behind",
            shard.left_behind,
            "handed over when the run ended",
        ),
        row(
            "of servers",
            shard.server_frames_handed_over,
            "frames of memory servers, handed over",
        ),
        row(
            "of servers lost",
            shard.server_frames_lost,
            "asked for again",
        ),
    ];
    card(&format!("Shard {number}"), &rows)
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
        row("waited", neighbors.waited, "packets, for an answer"),
        row(
            "announcements",
            neighbors.announcements,
            "of addresses, unasked",
        ),
    ];
    card("Neighbours", &rows)
}

fn kernel_card(kernel: &KernelFigures) -> String {
    let rows = [
        row("routes", kernel.routes, "that the kernel has"),
        row("by no port", kernel.elsewhere, "whose packets are dropped"),
        row("next hops", kernel.next_hops, "that routes lead to"),
        row("groups", kernel.groups, "next hops that share flows"),
        row("neighbours", kernel.neighbors, "that the kernel knows"),
        row("changes", kernel.changes, "that were made of the chain"),
        row("changed routes", kernel.changed_routes, "in those"),
        row(
            "longest pause",
            kernel.longest_pause_ns,
            "nanoseconds that packets waited for one",
        ),
        row("asked again", kernel.resyncs, "times for all there is"),
        bad("overruns", kernel.overruns, "times messages were lost"),
        bad(
            "ignored",
            kernel.ignored_routes,
            "routes that there was no room for",
        ),
        row("to the host", kernel.host_packets, "left to the kernel"),
    ];
    card("Kernel", &rows)
}
