//! The cards about cached rules.

use super::super::super::{RuleCounters, RuleElement, Rules};
use super::{Row, bad, escape, row, table};

/// Most elements that get cards of their own.
const MAX_ELEMENTS: usize = 16;

/// The total, and each element if there are several; nothing for a chain that
/// makes no rules.
pub fn cards(rules: &Rules) -> String {
    match rules.elements.as_slice() {
        [] => String::new(),
        [only] => element_card(only),
        several => {
            let elements = several.iter().take(MAX_ELEMENTS).map(element_card);
            card("Rules: all elements", &rules.total) + &elements.collect::<String>()
        }
    }
}

fn element_card(element: &RuleElement) -> String {
    let names = format!("Rules: {}", element.functions.join(", "));
    card(&names, &element.counts)
}

fn card(title: &str, counts: &RuleCounters) -> String {
    let obstacles: Vec<Row<'_>> = counts
        .obstacles
        .iter()
        .take(super::MAX_ROWS)
        .map(|(name, &count)| row(name, count, ""))
        .collect();
    let made_none = match obstacles.is_empty() {
        true => String::new(),
        false => format!("<h3>Packets that made no rule</h3>\n{}", table(&obstacles)),
    };
    format!(
        "<div class=\"card\">\n<h2>{}</h2>\n<h3>On the fast path</h3>\n{}<h3>On the slow path</h3>\n{}{made_none}</div>\n",
        escape(title),
        table(&on_the_fast_path(counts)),
        table(&on_the_slow_path(counts)),
    )
}

fn on_the_fast_path(counts: &RuleCounters) -> Vec<Row<'_>> {
    let t = &counts.table;
    vec![
        row("capacity", t.capacity, "rules that the table can hold"),
        row("active", t.active, "at the end"),
        row("hits", t.hits, "packets that met a rule"),
        row("misses", t.misses, "packets without one"),
        row("guarded", t.guarded, "their time to live did not allow it"),
        row(
            "held",
            t.held,
            "packets that waited for a rule or a fragment",
        ),
        row(
            "held, then punted",
            t.held_then_punted,
            "of them, to the slow path after all",
        ),
        row("activated", t.activated, "rules that became active"),
        row(
            "demoted",
            t.demoted,
            "waited for a packet of their flow to return",
        ),
        row("idle", t.idle, "taken out by their idle time-out"),
        row(
            "hold full",
            t.hold_full,
            "taken out, too many packets waited",
        ),
        row("no room", t.no_room, "found no room"),
        row("marks repeated", t.marks_repeated, "no answer in time"),
        row(
            "fragments alone",
            t.fragments_alone,
            "not waited for, for want of room",
        ),
    ]
}

fn on_the_slow_path(counts: &RuleCounters) -> Vec<Row<'_>> {
    let (slow_path, selection, manager) = (&counts.slow_path, &counts.selection, &counts.manager);
    vec![
        row("packets", slow_path.packets, "that came to the slow path"),
        row(
            "waited",
            slow_path.waited,
            "until rules were gone or reported",
        ),
        bad(
            "overflowed",
            slow_path.overflowed,
            "dropped, too many waited",
        ),
        bad(
            "stuck",
            slow_path.stuck,
            "dropped, what they waited for was settled",
        ),
        row("cacheable", selection.cacheable, "packets that make a rule"),
        row("selected", selection.selected, "rules found hot"),
        row("added", manager.added, "rules sent to the fast path"),
        row("replaced", manager.replaced, "taken out for hotter ones"),
        row("aged", manager.aged, "taken out, nobody used them"),
        row(
            "invalidated",
            manager.invalidated,
            "taken out, their entry changed",
        ),
        row("gone", manager.gone, "the fast path took them out"),
        row("repeated", manager.repeated, "requests sent again"),
    ]
}
