//! All results on one page.

mod section;
mod settings;

use crate::error::ExperimentError;
use crate::plan::Expectation;
use crate::run::{self, Outcome};
use crate::testbed::Testbed;
use crate::verdict::{Room, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

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

const HEAD: &str = "# Reproduction\n\n\
    Written by `twinpath lab all`; every value here is printed again by it. Each figure and table of a paper is a plan in \
    [`plans/`](plans), with the source of every expected value. For each plan this page has:\n\n\
    - **put in**: its settings, and remarks on what runs. A value of a paper that a number of the devices was derived \
    from, or that a setting implies, is shown as put in: it cannot fail, so it is not counted. Nor is one that is counted \
    elsewhere, or that has no value that runs of any length and seed agree on.\n\
    - **what could fail**: the paper's value, from where to where ours passes, ours, and whether it is *inside*. A trend \
    passes if it is as large as the paper says, or, where it gives no size, larger than what chance makes.\n\
    - **why the rest differs**: a cause that another plan has tested by changing it and measuring the same column of the \
    same chain, whether that explains the difference or only a part of it, or that it is unknown.\n\n\
    The tables count apart what a paper *says* was measured; the same where ours has *software* for the paper's switch, \
    because our budget of a switch's ASIC refuses the program, so that it claims nothing about a switch; and what else must \
    hold: its theorems, arithmetic, an independent simulation, what a mechanism promises, what must come of a changed cause, \
    aims of this project. All can fail; only the first is a paper's result that is redone.\n\n\
    A value beside which stands *rules not charged* is of a cache of rules, whose tables are as large as the testbed says \
    and are not charged to that budget.\n\n";

/// The page's text.
pub(crate) fn page(outcomes: &[Outcome], base: &Path) -> String {
    let mut text = String::from(HEAD);
    let (of_tests, of_papers): (Vec<&Outcome>, Vec<&Outcome>) = outcomes
        .iter()
        .partition(|outcome| !tested(outcomes, &outcome.plan.name).is_empty());
    text.push_str("## Figures and tables\n\n");
    index(&mut text, &of_papers);
    if !of_tests.is_empty() {
        text.push_str("\n## Causes that were tested\n\nWhat happens to a value that is outside when the suspected cause is changed.\n\n");
        index(&mut text, &of_tests);
    }
    for outcome in of_papers.iter().chain(&of_tests) {
        section::write(&mut text, outcome, (outcomes, base));
    }
    settings::write(&mut text, outcomes);
    testbeds(&mut text, outcomes);
    text
}

/// The plans of which this one tests a cause.
fn tested<'a>(outcomes: &'a [Outcome], name: &str) -> Vec<&'a str> {
    let of = |outcome: &&Outcome| {
        let mut expectations = outcome.plan.expectations.iter();
        expectations.any(|expectation| expectation.tested_by == name) && outcome.plan.name != name
    };
    let plans = outcomes.iter().filter(of);
    plans.map(|outcome| outcome.plan.name.as_str()).collect()
}

/// A line for each plan, and one for all of them.
fn index(text: &mut String, outcomes: &[&Outcome]) {
    text.push_str(
        "| plan | what | paper's values | inside | on software | inside | others | inside | put in |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let mut sums = [Counts::default(); 3];
    for outcome in outcomes {
        let (name, figure) = (&outcome.plan.name, &outcome.plan.figure);
        let counts = Kind::ALL.map(|kind| outcome.counts(kind));
        index_line(text, &format!("[{name}](#{name}) | {figure}"), counts);
        for (sum, counts) in sums.iter_mut().zip(counts) {
            sum.add(counts);
        }
    }
    index_line(text, "all |", sums);
}

fn index_line(text: &mut String, what: &str, counts: [Counts; 3]) {
    let inputs: usize = counts.iter().map(|counts| counts.inputs).sum();
    let counts = counts.map(|Counts { all, inside, .. }| format!("{all} | {inside}"));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| {what} | {} | {inputs} |", counts.join(" | "));
}

/// What kinds of values are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A paper says that it was measured.
    OfPaper,
    /// The same, where ours has software for the paper's switch.
    OnSoftware,
    /// Whatever else must hold.
    Other,
}

impl Kind {
    const ALL: [Self; 3] = [Self::OfPaper, Self::OnSoftware, Self::Other];

    fn of(expectation: &Expectation, verdict: &Verdict) -> Self {
        match (expectation.is_of_paper(), verdict.room()) {
            (false, _) => Self::Other,
            (true, Room::Software) => Self::OnSoftware,
            (true, _) => Self::OfPaper,
        }
    }
}

/// How many values count, how many of these are inside, and how many were put in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) all: usize,
    pub(crate) inside: usize,
    pub(crate) inputs: usize,
}

impl Counts {
    pub(crate) fn of<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Self {
        let mut counts = Self::default();
        for verdict in verdicts {
            counts.inputs += usize::from(verdict.is_input);
            counts.all += usize::from(!verdict.is_input);
            counts.inside += usize::from(!verdict.is_input && verdict.inside);
        }
        counts
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.inside += other.inside;
        self.inputs += other.inputs;
    }
}

impl Outcome {
    /// What is counted of one kind of values.
    pub(crate) fn counts(&self, kind: Kind) -> Counts {
        let expectations = &self.plan.expectations;
        let is_of =
            |verdict: &&Verdict| Kind::of(&expectations[verdict.expectation], verdict) == kind;
        Counts::of(self.verdicts.iter().filter(is_of))
    }
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
             another is. A value of a paper that a number was derived from is put in, and is called so above.\n",
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
