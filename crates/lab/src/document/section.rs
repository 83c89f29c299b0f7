//! What the page tells of one plan.

use super::{Counts, tested};
use crate::plan::{self, Expectation, Figure, Relation, Values};
use crate::results::{short, shown};
use crate::run::Outcome;
use crate::verdict::Verdict;
use std::fmt::Write;
use std::path::Path;

/// Values of one expectation that have a line each, at most; more are told together.
const MOST_LINES: usize = 6;
/// Values of a parameter that are listed, at most.
const MOST_VALUES: usize = 12;

pub(super) fn write(text: &mut String, outcome: &Outcome, (all, base): (&[Outcome], &Path)) {
    let plan = &outcome.plan;
    let (name, figure, title) = (&plan.name, &plan.figure, &plan.title);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n## {name}\n\n{figure}: {title}.\n");
    if !plan.note.is_empty() {
        let _ = writeln!(text, "{}\n", plan.note.trim());
    }
    let tests: Vec<String> = tested(all, name)
        .into_iter()
        .map(|name| format!("[{name}](#{name})"))
        .collect();
    if !tests.is_empty() {
        let _ = writeln!(
            text,
            "It tests a cause that is supposed in {}.\n",
            tests.join(", ")
        );
    }
    pictures(text, outcome, base);
    put_in(text, outcome);
    let (inputs, judged): (Vec<_>, Vec<_>) = (0..plan.expectations.len())
        .map(|index| (index, of(outcome, index)))
        .filter(|(_, verdicts)| !verdicts.is_empty())
        .partition(|(index, _)| plan.expectations[*index].is_input());
    if !inputs.is_empty() {
        text.push_str("\n**Put in and read back, counted elsewhere, or undefined**: shown, not counted:\n\n| measured | said by | said | ours | at | why it does not count |\n|---|---|---|---|---|---|\n");
        inputs
            .iter()
            .for_each(|(index, verdicts)| input_rows(text, &plan.expectations[*index], verdicts));
    }
    if !judged.is_empty() {
        text.push_str("\n**What could fail:**\n\n| measured | said by | said | passes | ours | at | |\n|---|---|---|---|---|---|---|\n");
        judged
            .iter()
            .for_each(|(index, verdicts)| judged_rows(text, &plan.expectations[*index], verdicts));
    }
    let outside = judged
        .iter()
        .filter(|(_, verdicts)| verdicts.iter().any(|verdict| !verdict.inside));
    let outside: Vec<_> = outside.collect();
    if !outside.is_empty() {
        text.push_str("\n**Why the rest differs:**\n\n");
        outside
            .iter()
            .for_each(|(index, _)| why(text, outcome, *index, all));
    }
}

fn pictures(text: &mut String, outcome: &Outcome, base: &Path) {
    let folder = outcome.folder.strip_prefix(base).unwrap_or(&outcome.folder);
    let folder = folder.display();
    let _ = writeln!(
        text,
        "[points]({folder}/points.csv), [verdicts]({folder}/verdicts.csv), [plan]({folder}/plan.toml)\n"
    );
    for figure in &outcome.plan.figures {
        let Figure { name, title, .. } = figure;
        let _ = writeln!(text, "![{title}]({folder}/{name}.svg)");
    }
}

/// The plan's settings, and what the model has to say of what runs.
fn put_in(text: &mut String, outcome: &Outcome) {
    let plan = &outcome.plan;
    let setting = |name: String| {
        let values = plan.values(&name);
        let listed: Vec<String> = values.iter().take(MOST_VALUES).map(shown).collect();
        match values.len() {
            1 => format!("`{name}` {}", listed[0]),
            _ => format!("`{name}` {{{}}}", listed.join(", ")),
        }
    };
    let settings: Vec<String> = plan.parameters(false).into_iter().map(setting).collect();
    let left_out: Vec<String> = plan.without().iter().map(together).collect();
    let without = match left_out.is_empty() {
        true => String::new(),
        false => format!(" Not run: {}.", left_out.join("; ")),
    };
    let _ = writeln!(text, "\n**Put in:** {}.{without}", settings.join("; "));
    let mut remarks = Vec::new();
    for point in plan.points(false) {
        for remark in plan.model.remarks(&point, &plan.folder) {
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
    }
    if !remarks.is_empty() {
        let _ = writeln!(text);
    }
    for remark in remarks {
        let _ = writeln!(text, "- {remark}");
    }
}

/// A combination of parameters that is left out; a list is any of its values.
fn together(without: &toml::Table) -> String {
    let told = |(name, value): (&String, &toml::Value)| match value {
        toml::Value::Array(values) => {
            let values: Vec<String> = values.iter().map(shown).collect();
            format!("`{name}` {{{}}}", values.join(", "))
        }
        value => format!("`{name}` {}", shown(value)),
    };
    let told: Vec<String> = without.iter().map(told).collect();
    told.join(" with ")
}

fn of(outcome: &Outcome, index: usize) -> Vec<&Verdict> {
    let verdicts = outcome.verdicts.iter();
    verdicts.filter(|v| v.expectation == index).collect()
}

fn input_rows(text: &mut String, expectation: &Expectation, verdicts: &[&Verdict]) {
    let Expectation {
        of, source, input, ..
    } = expectation;
    for verdict in verdicts.iter().take(MOST_LINES) {
        let (said, ours, off) = (short(verdict.expected), short(verdict.ours), off(verdict));
        let place = &verdict.place;
        let _ = writeln!(
            text,
            "| {of} | {source} | {said} | {ours}{off} | {place} | {input} |"
        );
    }
    if verdicts.len() > MOST_LINES {
        let more = verdicts.len() - MOST_LINES;
        let _ = writeln!(text, "| {of} | {source} | | | {more} more | {input} |");
    }
}

fn judged_rows(text: &mut String, expectation: &Expectation, verdicts: &[&Verdict]) {
    let Expectation { of, source, .. } = expectation;
    if verdicts.len() <= MOST_LINES {
        for verdict in verdicts {
            let (said, passes) = (short(verdict.expected), passes(expectation.is, verdict));
            let (ours, place) = (short(verdict.ours), &verdict.place);
            let off = off(verdict);
            let (how, room) = (how(verdict.inside), verdict.room().told());
            let _ = writeln!(
                text,
                "| {of} | {source} | {said} | {passes} | {ours}{off} | {place} | {how}{room} |"
            );
        }
        return;
    }
    let Counts { all, inside, .. } = Counts::of(verdicts.iter().copied());
    let Some(extreme) = extreme(expectation.is, verdicts) else {
        return;
    };
    let (said, passes) = (short(extreme.expected), passes(expectation.is, extreme));
    let (ours, off, place) = (short(extreme.ours), off(extreme), &extreme.place);
    let (how, room) = (how(inside == all), extreme.room().told());
    let _ = writeln!(
        text,
        "| {of} | {source} | {said} | {passes} | {ours}{off} | of {all} the nearest to failing, or the farthest off: {place} | {inside} of {all} {how}{room} |"
    );
}

fn how(inside: bool) -> &'static str {
    match inside {
        true => "inside",
        false => "**outside**",
    }
}

/// From where to where a value would be inside.
fn passes(is: Relation, verdict: &Verdict) -> String {
    let (low, high) = (
        verdict.expected - verdict.tolerance,
        verdict.expected + verdict.tolerance,
    );
    match is {
        Relation::Near if verdict.tolerance == 0.0 => format!("exactly {}", short(low)),
        Relation::Near => format!("{} to {}", short(low), short(high)),
        Relation::Below => format!("at most {}", short(high)),
        Relation::Above => format!("at least {}", short(low)),
    }
}

/// How far off it is, where that can be told as a share.
fn off(verdict: &Verdict) -> String {
    match verdict.expected == 0.0 {
        true => String::new(),
        false => format!(" ({:+.1} %)", verdict.deviation() * 100.0),
    }
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

/// A cause counts as known if a plan has changed it and all came of it that was expected.
fn why(text: &mut String, outcome: &Outcome, index: usize, all: &[Outcome]) {
    let expectation = &outcome.plan.expectations[index];
    let Expectation {
        of,
        source,
        tested_by,
        ..
    } = expectation;
    let words = expectation.cause.split_whitespace();
    let cause = words.collect::<Vec<_>>().join(" ");
    let named = all.iter().find(|outcome| outcome.plan.name == *tested_by);
    let test = named.map(|test| (test, test.plan.tests_of(&outcome.plan, expectation)));
    let told = match (cause.is_empty(), test) {
        (true, _) => "cause unknown.".to_owned(),
        (false, Some((test, tests))) if !tests.is_empty() => {
            let said = verdicts_of(test, &tests);
            let moved = said.iter().filter(|verdict| verdict.inside).count();
            if moved > 0 && !is_tested_there(outcome, index, (test, &said)) {
                let _ = writeln!(
                    text,
                    "- {of}, {source}: cause unknown. Supposed, and not tested where it is outside: {cause}"
                );
                return;
            }
            let tested = format!(
                "[{tested_by}](#{tested_by}), where {moved} of {} values moved as they should",
                said.len()
            );
            let part = explained(outcome, index, (test, &said));
            match (moved == said.len(), moved) {
                (true, _) => format!("{cause} Tested in {tested}.{part}"),
                (false, 0) => format!(
                    "cause unknown. It is not what was supposed: {cause} Tested in {tested}."
                ),
                (false, _) => format!("known in part. {cause} Tested in {tested}.{part}"),
            }
        }
        (false, _) => format!("cause unknown. Supposed, and tested by no run: {cause}"),
    };
    let _ = writeln!(text, "- {of}, {source}: {told}");
}

fn verdicts_of<'a>(test: &'a Outcome, expectations: &[usize]) -> Vec<&'a Verdict> {
    let all = test.verdicts.iter();
    all.filter(|verdict| expectations.contains(&verdict.expectation))
        .collect()
}

/// How many of the values that are outside a changed cause brings inside, if it is not all of them.
fn explained(outcome: &Outcome, index: usize, (test, said): (&Outcome, &[&Verdict])) -> String {
    let expectation = &outcome.plan.expectations[index];
    let common = swept_here(outcome, test);
    let mut outside = of(outcome, index);
    outside.retain(|verdict| !verdict.inside);
    let comes_inside = |verdict: &&&Verdict| {
        let mut there = at_the_same(verdict, said, &common).into_iter();
        there.any(|other| match expectation.values {
            // What is expected is another value of the same run.
            Values::Column(_) => other.inside,
            _ => verdict.would_be_inside(expectation.is, other.ours),
        })
    };
    let is_untested = |verdict: &&&Verdict| at_the_same(verdict, said, &common).is_empty();
    let reached = outside.iter().filter(comes_inside).count();
    let untested = outside.iter().filter(is_untested).count();
    let elsewhere = match untested {
        0 => String::new(),
        untested => format!(
            " Of those outside {untested} are where it was not tested: their cause is unknown."
        ),
    };
    match reached == outside.len() {
        true => String::new(),
        false => format!(
            " It explains the difference only in part: {reached} of {} outside come inside with it{}.{elsewhere}",
            outside.len(),
            nearest(&outside, said, &common)
        ),
    }
}

/// Whether a test has changed the cause where anything is outside.
fn is_tested_there(outcome: &Outcome, index: usize, (test, said): (&Outcome, &[&Verdict])) -> bool {
    let common = swept_here(outcome, test);
    let outside = of(outcome, index).into_iter();
    let mut outside = outside.filter(|verdict| !verdict.inside);
    outside.any(|verdict| !at_the_same(verdict, said, &common).is_empty())
}

/// The nearest that a changed cause brings ours to what is expected.
fn nearest(outside: &[&Verdict], said: &[&Verdict], common: &[String]) -> String {
    let pairs = outside.iter().flat_map(|verdict| {
        let there = at_the_same(verdict, said, common).into_iter();
        there.map(|other| (verdict.expected, other.ours))
    });
    let off = |(expected, ours): &(f64, f64)| (ours - expected).abs() / expected.abs().max(1e-12);
    let nearest = pairs.min_by(|a, b| off(a).total_cmp(&off(b)));
    nearest.map_or_else(String::new, |(expected, ours)| {
        format!(
            "; the nearest is {} where {} is said",
            short(ours),
            short(expected)
        )
    })
}

/// Parameters of which a plan has several values, and of which the test of its cause has one at least. A
/// plan that tests a cause itself changes one of these.
fn swept_here(outcome: &Outcome, test: &Outcome) -> Vec<String> {
    if outcome.plan.name == test.plan.name {
        return Vec::new();
    }
    let mut names = outcome.plan.swept(false);
    names.retain(|name| !test.plan.values(name).is_empty());
    names
}

/// What the test of a cause says at the same values of these parameters. What it says elsewhere explains
/// nothing here.
fn at_the_same<'a>(verdict: &Verdict, said: &[&'a Verdict], common: &[String]) -> Vec<&'a Verdict> {
    let is_same = |other: &&&Verdict| {
        let mut names = common.iter();
        names.all(|name| {
            let values = [&other.parameters, &verdict.parameters].map(|at| at.get(name));
            matches!(values, [Some(other), Some(ours)] if plan::is_same(other, ours))
        })
    };
    said.iter().filter(is_same).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(expected: f64, ours: f64, tolerance: f64) -> Verdict {
        Verdict {
            expectation: 0,
            point: 0,
            place: String::new(),
            parameters: toml::Table::new(),
            expected,
            ours,
            tolerance,
            inside: true,
            is_input: false,
        }
    }

    #[test]
    fn it_is_told_what_would_have_failed() {
        let verdict = verdict(10.0, 9.0, 1.5);
        for (is, told) in [
            (Relation::Near, "8.5 to 11.5"),
            (Relation::Below, "at most 11.5"),
            (Relation::Above, "at least 8.5"),
        ] {
            assert_eq!(passes(is, &verdict), told);
        }
        assert_eq!(off(&verdict), " (-10.0 %)");
    }

    #[test]
    fn a_cause_is_compared_where_nothing_else_differs() {
        let at = |ours: f64, place: &str| Verdict {
            parameters: toml::from_str(place).expect("a table"),
            ..verdict(10.0, ours, 0.5)
        };
        let (few, many) = (at(9.0, "flows = 1"), at(10.0, "flows = 2"));
        let (said, common) = ([&few, &many], ["flows".to_owned()]);
        let ours = |place: &str| -> Vec<f64> {
            let there = at_the_same(&at(5.0, place), &said, &common);
            there.iter().map(|verdict| verdict.ours).collect()
        };
        assert_eq!(ours("flows = 1"), [9.0]);
        assert_eq!(ours("flows = 2"), [10.0]);
        assert_eq!(ours("flows = 2.0"), [10.0]);
        assert!(ours("flows = 3").is_empty());
        let told = nearest(&[&at(5.0, "flows = 1")], &said, &common);
        assert_eq!(told, "; the nearest is 9 where 10 is said");
    }

    #[test]
    fn combinations_that_are_left_out_are_told() {
        let without = toml::from_str("flows = [1, 2]\nsystem = 'a'").expect("a table");
        assert_eq!(together(&without), "`flows` {1, 2} with `system` a");
    }

    #[test]
    fn the_nearest_to_a_bound_is_told() {
        let verdicts = [8.0, 9.5, 7.0].map(|ours| verdict(10.0, ours, 0.0));
        let verdicts: Vec<&Verdict> = verdicts.iter().collect();
        let ours = |is| extreme(is, &verdicts).map(|verdict| verdict.ours);
        assert_eq!(ours(Relation::Below), Some(9.5));
        assert_eq!(ours(Relation::Above), Some(7.0));
        assert_eq!(ours(Relation::Near), Some(7.0));
    }
}
