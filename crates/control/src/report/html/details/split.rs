//! The cards about split packets and memory servers.

use super::super::super::{
    MemoryServerFigures, QueuePairFigures, SplitCounts, SplitFigures, units,
};
use super::{Row, bad, escape, note, row, table};

/// Most queue pairs of a server that get a line.
const MAX_QUEUE_PAIRS: usize = 16;

/// What became of the packets, and a card for each server.
pub fn cards(split: &SplitFigures) -> String {
    let counts = &split.counts;
    let packets = format!(
        "<div class=\"card\">\n<h2>Split packets</h2>\n{}<h3>Packets that travelled whole</h3>\n{}</div>\n",
        table(&packets(counts)),
        table(&whole(counts))
    );
    let servers = split.servers.iter().map(server);
    std::iter::once(packets).chain(servers).collect()
}

fn packets(c: &SplitCounts) -> Vec<Row<'_>> {
    vec![
        row("split", c.packets, "packets that left their payload behind"),
        row("bytes", c.bytes, "did not go to the slow path"),
        row("merged", c.merged, "left with their payload"),
        row("declined", c.declined, "a function dropped the packet"),
        bad(
            "missing",
            c.missing,
            "dropped, the header did not come back",
        ),
        bad(
            "payload lost",
            c.payload_lost,
            "dropped, it did not come back",
        ),
        bad(
            "payload gone",
            c.payload_gone,
            "dropped, others had its place",
        ),
        bad(
            "payload refused",
            c.payload_refused,
            "dropped, too many were asked for",
        ),
        bad(
            "payload late",
            c.payload_late,
            "dropped, too many packets waited for others",
        ),
        bad(
            "header too long",
            c.header_too_long,
            "dropped, it did not fit in front of its payload",
        ),
        row("stale", c.headers_stale, "headers whose slot was another's"),
        row(
            "dropped late",
            c.dropped_late,
            "of them, dropped by a function",
        ),
        row("doubled", c.headers_doubled, "headers that came twice"),
        row(
            "followers",
            c.followers,
            "whole, waited behind packets of their flow",
        ),
        row(
            "fragments alone",
            c.fragments_alone,
            "later ones, of datagrams that were not known",
        ),
        row("slots", c.most_slots, "in use at any time, at most"),
        row(
            "other frames",
            c.other_frames,
            "at ports of servers, and none of theirs",
        ),
        row("events lost", c.events_lost, "that nobody was told of"),
    ]
}

fn whole(c: &SplitCounts) -> Vec<Row<'_>> {
    vec![
        row("small", c.whole_small, "too short"),
        row(
            "unsuited",
            c.whole_unsuited,
            "fragments, neither TCP nor UDP, a time to live that ends",
        ),
        row("class", c.whole_class, "never split, as the service says"),
        row("chain", c.whole_chain, "a function needs payloads"),
        row("no buffer", c.whole_no_buffer, "for the header"),
        row("no slot", c.whole_no_slot, "for the header"),
        row("no server", c.whole_no_server, "takes payloads of the flow"),
        row("down", c.whole_down, "the flow's queue pair begins anew"),
        row("window", c.whole_window, "too many requests were under way"),
        row("no memory", c.whole_no_memory, "no room for the payload"),
        row("too long", c.whole_too_long, "for a packet to the server"),
    ]
}

fn server(server: &MemoryServerFigures) -> String {
    let state = match server.is_up {
        true => "up",
        false => "down",
    };
    let heading = escape(&format!("Memory server {}: {state}", server.name));
    let error = server.last_error_told();
    let error = error.map(|error| note(&format!("last error: {error}")));
    let share = note(&format!(
        "takes {:.1} % of its flows; its link carried {} in the direction that is the fuller",
        server.share_per_mille as f64 / 10.0,
        units::bit_rate(server.rate_bps as f64)
    ));
    let counters: Vec<Row<'_>> = server
        .counters
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| row(name, *count, ""))
        .collect();
    format!(
        "<div class=\"card\">\n<h2>{heading}</h2>\n{}{share}\n{}{}</div>\n",
        error.unwrap_or_default(),
        table(&counters),
        queue_pairs(&server.queue_pairs)
    )
}

fn queue_pairs(all: &[QueuePairFigures]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let line = |pair: &QueuePairFigures| {
        let state = match pair.is_up {
            true => "up",
            false => "down",
        };
        let error = match &pair.last_error {
            Some(error) => format!(", last: {error}"),
            None => String::new(),
        };
        note(&format!(
            "{}: {state}, {} written, {} of {} read, {} lives, {}{error}",
            pair.number,
            units::count(pair.writes),
            units::count(pair.payloads),
            units::count(pair.reads),
            units::count(pair.lives),
            units::counted(pair.errors, "error"),
        ))
    };
    let shown = all.iter().take(MAX_QUEUE_PAIRS).map(line);
    let more = all.len().saturating_sub(MAX_QUEUE_PAIRS);
    let rest = (more > 0).then(|| note(&format!("and {more} more, in report.json")));
    let lines: String = shown.chain(rest).collect();
    format!("<h3>Queue pairs</h3>\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::split;

    #[test]
    fn each_server_has_a_card() {
        let page = cards(&split());
        for part in [
            "<h2>Memory server memory-1: up</h2>",
            "<h2>Memory server memory &lt;2&gt;: up</h2>",
            "takes 37.5 % of its flows; its link carried 40",
            "last error: queue pair 1: the key does not fit",
            "0: up, 1,200,000 written, 1,099,999 of 1,100,000 read, 2 lives, 1 error",
            "1: down, ",
        ] {
            assert!(page.contains(part), "{part} is missing in\n{page}");
        }
        assert_eq!(page.matches("last error").count(), 1);
    }

    #[test]
    fn many_queue_pairs_are_summed_up() {
        let mut figures = split();
        let pair = figures.servers[0].queue_pairs[0].clone();
        figures.servers[0].queue_pairs = vec![pair; MAX_QUEUE_PAIRS + 5];
        assert!(cards(&figures).contains("and 5 more, in report.json"));
    }
}
