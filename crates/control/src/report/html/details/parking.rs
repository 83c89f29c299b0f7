//! The card about parked payloads.

use super::super::super::Parking;
use super::{Row, bad, row, table};

/// What became of the packets, and what the queue did.
pub fn card(parking: &Parking) -> String {
    format!(
        "<div class=\"card\">\n<h2>Parked payloads</h2>\n{}<h3>Packets that crossed whole</h3>\n{}\
         <h3>The queue</h3>\n{}</div>\n",
        table(&payloads(parking)),
        table(&whole(parking)),
        table(&queue(parking))
    )
}

fn payloads(p: &Parking) -> Vec<Row<'_>> {
    vec![
        row("parked", p.parked, "packets that left their payload behind"),
        row("left", p.departed, "with their header"),
        row("declined", p.declined, "a function dropped the packet"),
        bad("missing", p.missing, "dropped, no header in time"),
        bad(
            "header too long",
            p.header_too_long,
            "dropped, it did not fit in front of its payload",
        ),
        bad("refused", p.refused, "dropped, no room for the payload"),
        row("stale", p.stale, "headers whose payload was gone"),
        row(
            "dropped late",
            p.dropped_late,
            "of them, dropped by a function",
        ),
    ]
}

fn whole(p: &Parking) -> Vec<Row<'_>> {
    vec![
        row("small", p.whole_small, "too little payload"),
        row(
            "unsuited",
            p.whole_unsuited,
            "fragments, neither TCP nor UDP, a time to live that ends",
        ),
        row("no room", p.whole_no_room, "in the queue, or no slot"),
        row("no buffer", p.whole_no_buffer, "for the header"),
        row(
            "followers",
            p.followers,
            "waited behind packets of their flow",
        ),
        bad(
            "followers refused",
            p.followers_refused,
            "dropped, no room to wait in",
        ),
        row(
            "fragments alone",
            p.fragments_alone,
            "later ones, of datagrams that were not known",
        ),
    ]
}

fn queue(p: &Parking) -> Vec<Row<'_>> {
    vec![
        row("recirculations", p.recirculations, "passes of payloads"),
        row("port passes", p.port_passes, "of them, to another port"),
        row("copies", p.copies, "to make the queue longer"),
        row(
            "target beyond buffer",
            p.target_beyond_buffer,
            "packets that came while the limit was too low",
        ),
        row("parked bytes", p.parked_bytes, "did not cross the link"),
        row("most bytes", p.most_queue_bytes, "at any time"),
        row("limit", p.limit_bytes, "bytes"),
    ]
}
