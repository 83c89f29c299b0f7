//! What a person reads of an experiment.

use std::fmt::Write;
use twinpath_core::counted;
use twinpath_lab::model::Model;
use twinpath_lab::reproduction::Stale;
use twinpath_lab::run::Outcome;
use twinpath_lab::verdict::Verdict;

/// One line for each expectation, and one for each value outside.
pub fn outcome(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let folder = outcome.folder.display();
    // Writing to a string cannot fail.
    let points = counted(outcome.points as u64, "point");
    let mut text = format!("{}: {points}, in {folder}\n", plan.figure);
    text.push_str(&cancelled(outcome));
    for (index, expectation) in plan.expectations.iter().enumerate() {
        let of = |verdict: &&Verdict| verdict.expectation == index;
        let verdicts: Vec<_> = outcome.verdicts.iter().filter(of).collect();
        let outside: Vec<_> = verdicts.iter().filter(|verdict| !verdict.inside).collect();
        let (all, inside) = (verdicts.len(), verdicts.len() - outside.len());
        let (of, is, source) = (&expectation.of, expectation.is.name(), &expectation.source);
        let counted = match expectation.is_input() {
            true => format!("input: {}", expectation.input),
            false => judged(inside, all, outcome.missing > 0),
        };
        let _ = writeln!(text, "  {of:<20} {is:<5} {source:<40} {counted}");
        if expectation.is_input() {
            continue;
        }
        for verdict in &outside {
            let (ours, expected) = (verdict.ours, verdict.expected);
            let _ = writeln!(
                text,
                "    outside at {}: {ours:.4}, expected {expected:.4}",
                verdict.place
            );
        }
        if !outside.is_empty() && !expectation.cause.is_empty() {
            let _ = writeln!(text, "    because: {}", expectation.cause.trim());
        }
    }
    text
}

/// What was not run, if the run was to stop, and what stayed because of that.
fn cancelled(outcome: &Outcome) -> String {
    if outcome.missing == 0 {
        return String::new();
    }
    let missing = counted(outcome.missing as u64, "point");
    let spared = outcome.spared.as_deref().map_or(String::new(), |whole| {
        format!("; the whole result in {} stays as it was", whole.display())
    });
    format!("  cancelled: {missing} not run{spared}\n")
}

/// Of a part of the points nothing is said for good: the largest value may be still to come.
fn judged(inside: usize, all: usize, is_part: bool) -> String {
    match (all, is_part) {
        (0, true) => "not judged: none of its points was run".to_owned(),
        (_, true) => format!("{inside} of {all} inside so far"),
        (_, false) => format!("{inside} of {all} inside"),
    }
}

/// What was measured, a line for each point.
pub fn table(outcome: &Outcome) -> String {
    let widths = outcome
        .table
        .iter()
        .fold(Vec::new(), |widths: Vec<usize>, line| {
            let lengths = line.iter().map(|cell| cell.chars().count());
            let before = widths.into_iter().chain(std::iter::repeat(0));
            lengths
                .zip(before)
                .map(|(a, b): (usize, usize)| a.max(b))
                .collect::<Vec<_>>()
        });
    let mut text = String::new();
    for line in &outcome.table {
        let cells = line.iter().zip(&widths);
        let cells = cells.map(|(cell, &width)| format!("{cell:>width$}"));
        let _ = writeln!(text, "  {}", cells.collect::<Vec<_>>().join("  "));
    }
    text
}

/// Whether the page is current, and if not, why.
pub fn stale(stale: &[Stale]) -> String {
    let mut text = String::new();
    for why in stale {
        let _ = writeln!(text, "{why}");
    }
    text + match stale.is_empty() {
        true => "REPRODUCTION.md is current\n",
        false => {
            "REPRODUCTION.md is not current: run `twinpath lab all`, or with --only the plans above\n"
        }
    }
}

/// What a model measures.
pub fn model(model: &dyn Model) -> String {
    let mut text = format!("{} measures\n", model.name());
    for column in model.columns() {
        let _ = writeln!(text, "  {:<26} {}", column.name, column.meaning);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_part_of_the_points_says_is_no_verdict() {
        assert_eq!(judged(1, 3, false), "1 of 3 inside");
        assert_eq!(judged(1, 3, true), "1 of 3 inside so far");
        assert_eq!(judged(0, 0, true), "not judged: none of its points was run");
    }
}
