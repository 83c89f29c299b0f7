//! The card about packets that took turns.

use super::super::super::Turns;
use super::{bad, row, table};

/// Who waited, and what it took.
pub fn card(turns: &Turns) -> String {
    let rows = [
        row(
            "waited",
            turns.waited,
            "packets, until one from the other end had passed",
        ),
        bad("overflowed", turns.overflowed, "dropped, too many waited"),
        row(
            "probes",
            turns.probes,
            "asked the cores who is still to come",
        ),
    ];
    format!(
        "<div class=\"card\">\n<h2>Packets that crossed</h2>\n{}</div>\n",
        table(&rows)
    )
}
