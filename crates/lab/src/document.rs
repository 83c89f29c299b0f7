//! All results on one page.

use crate::error::ExperimentError;
use crate::plan::{Expectation, Figure, Relation};
use crate::run::{self, Outcome};
use crate::testbed::Testbed;
use crate::verdict::Verdict;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Outside values of one expectation that are listed one by one, at most.
const MOST_LISTED: usize = 12;

/// Writes the page. Links go to the outcomes' folders as seen from the page's.
///
/// # Errors
/// The file cannot be written.
pub fn write(outcomes: &[Outcome], path: &Path) -> Result<(), ExperimentError> {
    run::write(
        path,
        &page(outcomes, path.parent().unwrap_or(Path::new("."))),
    )
}

/// The page's text.
pub(crate) fn page(outcomes: &[Outcome], base: &Path) -> String {
    let mut text = String::from(
        "# Reproduction\n\n\
         Written by `twinpath lab all`; every value here is printed again by it. \
         A value is *inside* if it is as near to the expected one as the plan's tolerance asks, or on the \
         right side of a bound. What is outside is listed with its cause. \
         The plans are in [`plans/`](plans), with the source of every expected value.\n\n\
         | plan | what | values | inside |\n|---|---|---|---|\n",
    );
    for outcome in outcomes {
        let (all, inside) = counts(&outcome.verdicts);
        let (name, figure) = (&outcome.plan.name, &outcome.plan.figure);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| [{name}](#{name}) | {figure} | {all} | {inside} |");
    }
    for outcome in outcomes {
        section(&mut text, outcome, base);
    }
    testbeds(&mut text, outcomes);
    text
}

/// Every number of the devices that plans name, with its evidence.
fn testbeds(text: &mut String, outcomes: &[Outcome]) {
    let mut all = BTreeMap::new();
    for outcome in outcomes {
        for name in outcome.plan.testbeds() {
            // A plan that was checked names files that can be read.
            if let Ok(testbed) = Testbed::load(&outcome.plan.folder.join(&name)) {
                all.insert(name, testbed);
            }
        }
    }
    if !all.is_empty() {
        text.push_str(
            "\n## Devices\n\n\
             The same numbers in all plans that name them. Sections are of the paper named with the testbed unless \
             another is. A value of a paper that a number was derived from is an input, and is called so above.\n",
        );
    }
    for (name, testbed) in all {
        let _ = writeln!(
            text,
            "\n### {} (`{name}`)\n\n| part | number | value | | why |\n|---|---|---|---|---|",
            testbed.name
        );
        for (part, number, constant) in testbed.rows() {
            let (value, evidence) = (constant.value(), constant.evidence());
            let (kind, why) = (evidence.kind(), evidence.text());
            let _ = writeln!(text, "| {part} | {number} | {value} | {kind} | {why} |");
        }
    }
}

fn counts<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> (usize, usize) {
    let mut counts = (0, 0);
    for verdict in verdicts {
        counts.0 += 1;
        counts.1 += usize::from(verdict.inside);
    }
    counts
}

fn section(text: &mut String, outcome: &Outcome, base: &Path) {
    let plan = &outcome.plan;
    let folder = outcome.folder.strip_prefix(base).unwrap_or(&outcome.folder);
    let folder = folder.display();
    let _ = writeln!(
        text,
        "\n## {}\n\n{}: {}.\n",
        plan.name, plan.figure, plan.title
    );
    if !plan.note.is_empty() {
        let _ = writeln!(text, "{}\n", plan.note.trim());
    }
    let _ = writeln!(
        text,
        "[points]({folder}/points.csv), [verdicts]({folder}/verdicts.csv), [plan]({folder}/plan.toml)\n"
    );
    for figure in &plan.figures {
        let Figure { name, title, .. } = figure;
        let _ = writeln!(text, "![{title}]({folder}/{name}.svg)");
    }
    if plan.expectations.is_empty() {
        return;
    }
    text.push_str("\n| measured | expected by | | values | inside | farthest off, or nearest to the bound |\n|---|---|---|---|---|---|\n");
    for (index, expectation) in plan.expectations.iter().enumerate() {
        expectation_row(text, expectation, &of(outcome, index));
    }
    for (index, expectation) in plan.expectations.iter().enumerate() {
        outside(text, expectation, &of(outcome, index));
    }
}

fn of(outcome: &Outcome, index: usize) -> Vec<&Verdict> {
    let verdicts = outcome.verdicts.iter();
    verdicts.filter(|v| v.expectation == index).collect()
}

fn expectation_row(text: &mut String, expectation: &Expectation, verdicts: &[&Verdict]) {
    let (all, inside) = counts(verdicts.iter().copied());
    let extreme = extreme(expectation.is, verdicts).map_or_else(String::new, told);
    let Expectation { of, source, is, .. } = expectation;
    let how = tolerance(expectation);
    let _ = writeln!(
        text,
        "| {of} | {source} | {}{how} | {all} | {inside} | {extreme} |",
        is.name()
    );
}

/// The value that is farthest from the expected one, or farthest on the wrong side of a bound.
fn extreme<'a>(is: Relation, verdicts: &[&'a Verdict]) -> Option<&'a Verdict> {
    let off = |verdict: &Verdict| match is {
        Relation::Near => verdict.deviation().abs(),
        Relation::Below => verdict.deviation(),
        Relation::Above => -verdict.deviation(),
    };
    let verdicts = verdicts.iter().copied();
    verdicts.max_by(|a, b| off(a).total_cmp(&off(b)))
}

fn told(verdict: &Verdict) -> String {
    let mut text = format!("{} for {}", short(verdict.ours), short(verdict.expected));
    if verdict.expected != 0.0 {
        let _ = write!(text, " ({:+.1} %)", verdict.deviation() * 100.0);
    }
    if !verdict.place.is_empty() {
        let _ = write!(text, " at {}", verdict.place);
    }
    text
}

fn tolerance(expectation: &Expectation) -> String {
    let mut parts = Vec::new();
    if expectation.within > 0.0 {
        parts.push(format!("{} %", short(expectation.within * 100.0)));
    }
    if expectation.within_absolute > 0.0 {
        parts.push(short(expectation.within_absolute));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!(", {}", parts.join(" + ")),
    }
}

fn outside(text: &mut String, expectation: &Expectation, verdicts: &[&Verdict]) {
    let outside: Vec<_> = verdicts.iter().filter(|v| !v.inside).collect();
    if outside.is_empty() {
        return;
    }
    let cause = match expectation.cause.is_empty() {
        true => "cause not found yet",
        false => expectation.cause.trim(),
    };
    let _ = writeln!(
        text,
        "\nOutside, {} by {}: {cause}\n",
        expectation.of, expectation.source
    );
    for verdict in outside.iter().take(MOST_LISTED) {
        let (ours, expected) = (short(verdict.ours), short(verdict.expected));
        let _ = writeln!(text, "- {}: {ours}, expected {expected}", verdict.place);
    }
    if outside.len() > MOST_LISTED {
        let _ = writeln!(text, "- and {} more", outside.len() - MOST_LISTED);
    }
}

/// Four significant digits or so.
fn short(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        return format!("{value:.1e}");
    }
    let digits = match value.abs() {
        large if large >= 1000.0 => 0,
        middle if middle >= 10.0 => 1,
        small if small >= 0.1 || small == 0.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.111, "0.11"),
            (0.0123, "0.0123"),
            (0.0000134, "1.3e-5"),
            (9.0, "9"),
            (20.04, "20"),
            (333.26, "333.3"),
            (13_281.4, "13281"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
