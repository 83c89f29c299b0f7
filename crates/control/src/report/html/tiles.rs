//! The headline figures at the top of the page.

use super::super::{Percentiles, Report, RuleTableCounters, SlotCounters, ranked, units};
use super::{escape, note};

/// The headline figures.
pub fn tiles(report: &Report) -> String {
    let mut tiles = vec![
        throughput_tile(report),
        share_tile(report),
        latency_tile(report),
        delivered_tile(report),
        drops_tile(report),
    ];
    tiles.extend(lost_tile(report));
    if !report.rules.is_empty() {
        tiles.push(rules_tile(&report.rules.total.table));
    }
    if report.shows_flow_state() {
        tiles.push(slots_tile(&report.slots));
    }
    format!("<section class=\"tiles\">\n{}</section>\n", tiles.concat())
}

fn tile(label: &str, value: &str, rest: &str) -> String {
    tile_of("tile", label, value, rest)
}

fn tile_of(class: &str, label: &str, value: &str, rest: &str) -> String {
    format!(
        "<div class=\"{class}\"><p class=\"label\">{label}</p><p class=\"value\">{value}</p>{rest}</div>\n"
    )
}

/// A number with its unit set smaller.
fn figure_text(text: &str) -> String {
    match text.rsplit_once(' ') {
        Some((number, unit)) => format!("{} <small>{}</small>", escape(number), escape(unit)),
        None => escape(text),
    }
}

fn throughput_tile(report: &Report) -> String {
    let rate = units::packet_rate(report.throughput.packets_per_second);
    let bits = units::bit_rate(report.throughput.bits_per_second);
    tile(
        "Throughput",
        &figure_text(&rate),
        &note(&format!("{bits} of what left, by the wall clock")),
    )
}

fn share_tile(report: &Report) -> String {
    let (fast, slow) = (report.fast.packets, report.slow.packets);
    let bar = bar(&[("fast", fast), ("slow", slow)]);
    let text = format!(
        "{} packets fast, {} slow",
        units::short_count(fast),
        units::short_count(slow)
    );
    let share = figure_text(&units::percent(report.fast.share));
    tile("Fast path share", &share, &(bar + &note(&text)))
}

fn latency_tile(report: &Report) -> String {
    let value = |class: &str, percentiles: &Percentiles| match percentiles.count {
        0 => format!("<span><i class=\"swatch {class}\"></i>–</span>"),
        _ => format!(
            "<span><i class=\"swatch {class}\"></i>{}</span>",
            figure_text(&units::duration(percentiles.p50_ns))
        ),
    };
    let latency = &report.latency;
    let values = format!(
        "<span class=\"pair\">{}{}</span>",
        value("fast", &latency.fast),
        value("slow", &latency.slow)
    );
    let tail = |p: &Percentiles| match p.count {
        0 => "–".to_owned(),
        _ => units::duration(p.p99_ns),
    };
    let text = format!(
        "p99: fast {}, slow {}",
        tail(&latency.fast),
        tail(&latency.slow)
    );
    tile("Median latency, fast and slow", &values, &note(&text))
}

fn delivered_tile(report: &Report) -> String {
    let totals = &report.totals;
    let text = format!(
        "of {} packets in; {} in, {} out",
        units::count(totals.packets_in),
        units::bytes(totals.bytes_in),
        units::bytes(totals.bytes_out)
    );
    tile(
        "Packets out",
        &units::count(totals.packets_out),
        &note(&text),
    )
}

fn drops_tile(report: &Report) -> String {
    let dropped = report.dropped();
    let text = match ranked(&report.drops).first() {
        Some(&(reason, count)) if count > 0 => format!(
            "{} of packets in; most by {reason}",
            units::percent(units::fraction(dropped, report.totals.packets_in))
        ),
        _ => "nothing was dropped".to_owned(),
    };
    tile("Packets dropped", &units::count(dropped), &note(&text))
}

/// Red, and only if there is loss.
fn lost_tile(report: &Report) -> Option<String> {
    let lost = report.lost();
    let text = format!(
        "{} of all that came, for want of room or by a fault",
        units::percent(report.lost_share())
    );
    let tile = || {
        tile_of(
            "tile bad",
            "Packets lost",
            &units::count(lost),
            &note(&text),
        )
    };
    (lost > 0).then(tile)
}

fn rules_tile(table: &RuleTableCounters) -> String {
    let others = table.looked_up().saturating_sub(table.hits);
    let bar = bar(&[("fast", table.hits), ("slow", others)]);
    let text = format!(
        "of {} look-ups; {} rules active of {} at the end",
        units::short_count(table.looked_up()),
        units::count(table.active),
        units::count(table.capacity)
    );
    let ratio = figure_text(&units::percent(table.hit_ratio()));
    tile("Rule hit ratio", &ratio, &(bar + &note(&text)))
}

fn slots_tile(slots: &SlotCounters) -> String {
    let used = slots
        .incomplete
        .saturating_add(slots.active)
        .saturating_add(slots.frozen);
    let bar = bar(&[
        ("active", slots.active),
        ("incomplete", slots.incomplete),
        ("frozen", slots.frozen),
        ("free", slots.capacity.saturating_sub(used)),
    ]);
    let text = format!(
        "of {} while the last packets came in: {} active, {} incomplete, {} frozen",
        units::count(slots.capacity),
        units::count(slots.active),
        units::count(slots.incomplete),
        units::count(slots.frozen)
    );
    tile("Slots in use", &units::count(used), &(bar + &note(&text)))
}

/// Parts of a whole side by side.
fn bar(parts: &[(&str, u64)]) -> String {
    let total: f64 = parts.iter().map(|(_, amount)| *amount as f64).sum();
    let part = |(class, amount): &(&str, u64)| {
        let width = if total == 0.0 {
            0.0
        } else {
            *amount as f64 * 100.0 / total
        };
        format!("<i class=\"{class}\" style=\"width:{width:.3}%\"></i>")
    };
    format!(
        "<div class=\"bar\">{}</div>",
        parts.iter().map(part).collect::<String>()
    )
}
