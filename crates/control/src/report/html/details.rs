//! The cards below the figures: every counter of the report, in words.

mod dash;
mod parking;
mod ports;
mod rules;
mod split;

use std::fmt::Write;

use super::super::{
    Coherence, FunctionCounters, LargeFlow, LargestFlows, Report, is_loss, ranked, total_restarts,
    units,
};
use super::{escape, note};

/// Most reasons, functions and counters that get a line; the rest are summed
/// up or counted.
const MAX_ROWS: usize = 40;

/// Drops, the coherence protocol, rings and pool, and each function's counters.
pub fn detail_cards(report: &Report) -> String {
    let mut cards = drops_card(report);
    cards.push_str(&rules::cards(&report.rules));
    cards.extend(report.dash.iter().map(dash::card));
    cards.extend(report.parking.iter().map(parking::card));
    cards.extend(report.split.iter().map(split::cards));
    if report.shows_flow_state() {
        cards.push_str(&coherence_cards(&report.coherence));
    }
    cards.push_str(&link_card(report));
    cards.push_str(&ports::cards(report));
    cards.push_str(&resources_card(report));
    report
        .largest_flows
        .iter()
        .for_each(|largest| cards.push_str(&largest_card(largest)));
    let functions = &report.functions;
    functions
        .iter()
        .take(MAX_ROWS)
        .for_each(|function| cards.push_str(&function_card(function)));
    if functions.len() > MAX_ROWS {
        let rest = note(&format!(
            "and {} more functions, in report.json",
            functions.len() - MAX_ROWS
        ));
        let _ = writeln!(cards, "<div class=\"card\">{rest}</div>");
    }
    cards
}

fn largest_card(largest: &LargestFlows) -> String {
    let line = |flow: &LargeFlow| format!("<li>{}</li>\n", escape(&flow.text()));
    let flows: String = largest.flows.iter().take(MAX_ROWS).map(line).collect();
    format!(
        "<div class=\"card\">\n<h2>Largest flows: {}</h2>\n<ol>\n{flows}</ol>\n</div>\n",
        escape(&largest.function)
    )
}

fn drops_card(report: &Report) -> String {
    let total = report.dropped();
    let mut ranked = ranked(&report.drops);
    ranked.retain(|&(_, count)| count > 0);
    let most = ranked.first().map_or(1, |&(_, count)| count);
    let rest: u64 = ranked
        .iter()
        .skip(MAX_ROWS)
        .fold(0, |sum, (_, count)| sum.saturating_add(*count));
    let mut rows: String = ranked
        .iter()
        .take(MAX_ROWS)
        .map(|&(reason, count)| drop_row(reason, count, most, total))
        .collect();
    if rest > 0 {
        rows.push_str(&drop_row("all other reasons", rest, most.max(rest), total));
    }
    if rows.is_empty() {
        rows.push_str("<p class=\"empty\">Nothing was dropped.</p>\n");
    }
    format!("<div class=\"card\">\n<h2>Drops by reason</h2>\n{rows}</div>\n")
}

fn drop_row(reason: &str, count: u64, most: u64, total: u64) -> String {
    let width = units::fraction(count, most) * 100.0;
    let class = if is_loss(reason) { "drop bad" } else { "drop" };
    format!(
        "<div class=\"{class}\"><span>{}</span><span class=\"track\"><i style=\"width:{width:.2}%\"></i></span>\
         <span>{}<small>{}</small></span></div>\n",
        // Words end at underscores, where there is no room for all of them.
        escape(reason).replace('_', "_<wbr/>"),
        units::count(count),
        escape(&units::percent(units::fraction(count, total)))
    )
}

/// A line of a table of counters; `bad` when any count at all is bad news.
struct Row<'a> {
    name: &'a str,
    count: u64,
    why: &'a str,
    bad: bool,
}

fn row<'a>(name: &'a str, count: u64, why: &'a str) -> Row<'a> {
    Row {
        name,
        count,
        why,
        bad: false,
    }
}

fn bad<'a>(name: &'a str, count: u64, why: &'a str) -> Row<'a> {
    Row {
        name,
        count,
        why,
        bad: true,
    }
}

fn table(rows: &[Row]) -> String {
    let line = |row: &Row| {
        let class = match (row.count, row.bad) {
            (0, _) => "zero",
            (_, true) => "bad",
            _ => "",
        };
        let why = match row.why {
            "" => String::new(),
            why => format!("<td class=\"why\">{}</td>", escape(why)),
        };
        let name = escape(row.name);
        format!(
            "<tr class=\"{class}\"><td>{name}</td>{why}<td>{}</td></tr>\n",
            units::count(row.count)
        )
    };
    format!(
        "<table><tbody>\n{}</tbody></table>\n",
        rows.iter().map(line).collect::<String>()
    )
}

fn resources_card(report: &Report) -> String {
    let (rings, pool) = (&report.rings, &report.pool);
    let rows = [
        row(
            "ring capacity",
            rings.capacity_frames,
            "frames one ring between the paths holds",
        ),
        row("pool frames", pool.frames, "frames in all pools"),
        row(
            "pool low water",
            pool.low_water_frames,
            "fewest frames free at any time",
        ),
        bad(
            "pool exhausted",
            pool.exhausted_events,
            "times no frame was free",
        ),
    ];
    format!(
        "<div class=\"card\">\n<h2>Rings and frame pool</h2>\n{}</div>\n",
        table(&rows)
    )
}

fn coherence_cards(c: &Coherence) -> String {
    let pulls = [
        row("pulls", c.pulls, "state asked for, re-arms included"),
        row("granted", c.pulls_granted, "answered with the state"),
        row(
            "declined",
            c.pulls_declined,
            "complex work was pending at the slow path",
        ),
        row(
            "cancellations",
            c.cancellations,
            "another packet of the flow overtook the answer",
        ),
        row(
            "re-arms",
            c.rearms,
            "sent again at once with a new generation",
        ),
        row("timed out", c.incomplete_timeouts, "no answer came in time"),
        row("refused", c.refused_pulls, "the ring was full"),
        row(
            "waited",
            c.waited,
            "packets that waited for the state of their flow",
        ),
        row(
            "waited, then punted",
            c.waited_then_punted,
            "of them, those that went to the slow path",
        ),
        row(
            "collisions",
            c.collisions,
            "packets to the slow path, other flows held their bucket",
        ),
    ];
    let write_backs = [
        row(
            "write-backs",
            c.write_backs,
            "states sent back to the slow path",
        ),
        row(
            "by idle time",
            c.ttl_write_backs,
            "of them, flows that had gone quiet",
        ),
        row(
            "retries",
            c.write_back_retries,
            "sent again, no acknowledgement in time",
        ),
        row("acknowledgements", c.acknowledgements, "slots freed"),
    ];
    format!(
        "<div class=\"card\">\n<h2>Coherence: pulls</h2>\n{}</div>\n\
         <div class=\"card\">\n<h2>Coherence: write-backs</h2>\n{}</div>\n",
        table(&pulls),
        table(&write_backs)
    )
}

fn link_card(report: &Report) -> String {
    let c = &report.coherence;
    let link = [
        row(
            "stale messages",
            c.stale_messages_ignored,
            "of an older generation, rightly ignored",
        ),
        bad(
            "reordered frames",
            c.reordered_frames,
            "came out of order and were dropped",
        ),
        bad("lost frames", c.lost_frames, "never came"),
        bad(
            "worker restarts",
            total_restarts(&report.worker_restarts),
            "a worker crashed and began anew",
        ),
    ];
    format!(
        "<div class=\"card\">\n<h2>Link and workers</h2>\n{}</div>\n",
        table(&link)
    )
}

fn function_card(function: &FunctionCounters) -> String {
    let counters = &function.counters;
    let rows: Vec<Row> = counters
        .iter()
        .take(MAX_ROWS)
        .map(|(name, &count)| row(name, count, ""))
        .collect();
    let more = match counters.len().saturating_sub(MAX_ROWS) {
        0 => String::new(),
        more => note(&format!("and {more} more counters, in report.json")),
    };
    let name = escape(&function.name);
    format!(
        "<div class=\"card\">\n<h2>Function: {name}</h2>\n{}{more}</div>\n",
        table(&rows)
    )
}
