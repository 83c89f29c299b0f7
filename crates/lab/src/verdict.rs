//! Expected values beside ours.

use crate::error::ExperimentError;
use crate::number::number;
use crate::plan::{Expectation, Pick, Plan, Relation, Values, matches};
use crate::results::{Results, shown};
use std::path::Path;
use toml::Table;

/// One expected value, and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Which expectation of the plan this is of.
    pub expectation: usize,
    /// The point of the sweep.
    pub point: usize,
    /// The parameters that tell the point from others, as text.
    pub place: String,
    /// All parameters of the point.
    pub parameters: Table,
    /// The expected value.
    pub expected: f64,
    /// Ours.
    pub ours: f64,
    /// How far off it may be.
    pub tolerance: f64,
    /// Whether it is inside.
    pub inside: bool,
    /// Whether something that was put in implies it: then it does not count.
    pub is_input: bool,
}

/// What a value says of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It says nothing of one, or what runs has room in it.
    Had,
    /// Nothing: the fast path is software.
    Software,
    /// The tables of rules that it needs are not charged to its budget.
    RulesNotCharged,
}

impl Room {
    /// What is told beside a value.
    pub fn told(self) -> &'static str {
        match self {
            Self::Had => "",
            Self::Software => ", on software",
            Self::RulesNotCharged => ", rules not charged",
        }
    }
}

impl Verdict {
    /// What the value says of a switch's room.
    pub fn room(&self) -> Room {
        let is = |name: &str, value: &str| {
            let found = self.parameters.get(name).and_then(toml::Value::as_str);
            found == Some(value)
        };
        match (is("device", "software"), is("system", "rule_cache")) {
            (true, _) => Room::Software,
            (false, true) => Room::RulesNotCharged,
            (false, false) => Room::Had,
        }
    }

    /// Whether another value would be inside in the place of ours.
    pub(crate) fn would_be_inside(&self, is: Relation, ours: f64) -> bool {
        is_inside(is, ours, self.expected, self.tolerance)
    }

    /// How far ours is off, as a share of the expected value.
    pub fn deviation(&self) -> f64 {
        (self.ours - self.expected) / self.expected.abs().max(f64::MIN_POSITIVE)
    }
}

/// The verdicts of all expectations at all points that there are.
pub(crate) fn judge(plan: &Plan, results: &Results) -> Vec<Verdict> {
    let all = plan.expectations.iter().enumerate();
    all.flat_map(|(index, expectation)| {
        let points = results.rows.keys();
        let judged = points
            .filter_map(|point| judge_point(plan, results, (index, expectation), *point))
            .collect();
        picked(expectation, judged)
    })
    .collect()
}

/// Of the verdicts of all points the ones that count.
fn picked(expectation: &Expectation, verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let by_ours = |a: &Verdict, b: &Verdict| a.ours.total_cmp(&b.ours);
    let picked = match expectation.pick {
        Pick::Each => return verdicts,
        Pick::Largest => verdicts.into_iter().max_by(by_ours),
        Pick::Smallest => verdicts.into_iter().min_by(by_ours),
        Pick::Mean => mean(expectation.is, &verdicts),
    };
    picked.into_iter().collect()
}

/// One verdict for the mean of all.
fn mean(is: Relation, verdicts: &[Verdict]) -> Option<Verdict> {
    let first = verdicts.first()?;
    let mean = |of: fn(&Verdict) -> f64| {
        let sum: f64 = verdicts.iter().map(of).sum();
        sum / verdicts.len() as f64
    };
    let (ours, expected) = (mean(|v| v.ours), mean(|v| v.expected));
    let tolerance = mean(|v| v.tolerance);
    Some(Verdict {
        place: format!("the mean of {}", verdicts.len()),
        expected,
        ours,
        tolerance,
        inside: is_inside(is, ours, expected, tolerance),
        ..first.clone()
    })
}

fn judge_point(
    plan: &Plan,
    results: &Results,
    (index, expectation): (usize, &Expectation),
    point: usize,
) -> Option<Verdict> {
    let parameters = &results.points[point];
    if !matches(&expectation.only, parameters) {
        return None;
    }
    let expected = expected_at(plan, expectation, results, point)?;
    let ours = results.value(plan, &expectation.of, point)?;
    let tolerance = expectation.within * expected.abs() + expectation.within_absolute;
    let inside = is_inside(expectation.is, ours, expected, tolerance);
    Some(Verdict {
        expectation: index,
        point,
        place: place(plan, results.quick, parameters),
        parameters: parameters.clone(),
        expected,
        ours,
        tolerance,
        inside,
        is_input: expectation.is_input(),
    })
}

fn is_inside(is: Relation, ours: f64, expected: f64, tolerance: f64) -> bool {
    match is {
        Relation::Near => (ours - expected).abs() <= tolerance,
        Relation::Below => ours <= expected + tolerance,
        Relation::Above => ours >= expected - tolerance,
    }
}

pub(crate) fn expected_at(
    plan: &Plan,
    expectation: &Expectation,
    results: &Results,
    point: usize,
) -> Option<f64> {
    let value = match &expectation.values {
        Values::Number(value) => *value,
        Values::Column(column) => results.value(plan, column, point)?,
        Values::Along(pairs) => {
            let parameters = &results.points[point];
            let at = number(parameters.get(expectation.along.as_ref()?)?)?;
            pairs.iter().find(|(x, _)| *x == at)?.1
        }
    };
    Some(value * expectation.times)
}

/// The swept parameters of a point.
fn place(plan: &Plan, quick: bool, parameters: &Table) -> String {
    let swept = plan.swept(quick);
    let named = swept
        .iter()
        .map(|name| format!("{name} = {}", shown(&parameters[name])));
    named.collect::<Vec<_>>().join(", ")
}

/// Writes verdicts as a table.
pub(crate) fn write(plan: &Plan, verdicts: &[Verdict], path: &Path) -> Result<(), ExperimentError> {
    let at = ExperimentError::table(path);
    let mut writer = csv::Writer::from_path(path).map_err(&at)?;
    let header = [
        "of",
        "source",
        "is",
        "place",
        "expected",
        "ours",
        "tolerance",
        "inside",
        "is_input",
    ];
    writer.write_record(header).map_err(&at)?;
    for verdict in verdicts {
        let expectation = &plan.expectations[verdict.expectation];
        let record = [
            expectation.of.clone(),
            expectation.source.clone(),
            expectation.is.name().to_owned(),
            verdict.place.clone(),
            verdict.expected.to_string(),
            verdict.ours.to_string(),
            verdict.tolerance.to_string(),
            verdict.inside.to_string(),
            verdict.is_input.to_string(),
        ];
        writer.write_record(record).map_err(&at)?;
    }
    writer.flush().map_err(ExperimentError::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(ours: f64) -> Verdict {
        Verdict {
            expectation: 0,
            point: 0,
            place: String::new(),
            parameters: Table::new(),
            expected: 2.0,
            ours,
            tolerance: 0.0,
            inside: ours == 2.0,
            is_input: false,
        }
    }

    #[test]
    fn a_value_tells_what_it_says_of_a_switch() {
        let room = |text: &str| {
            let parameters = toml::from_str(text).expect("a table");
            let verdict = Verdict {
                parameters,
                ..verdict(2.0)
            };
            verdict.room()
        };
        assert_eq!(room("device = 'software'"), Room::Software);
        assert_eq!(room("system = 'rule_cache'"), Room::RulesNotCharged);
        assert_eq!(room("system = 'two_paths'"), Room::Had);
        assert_eq!(room(""), Room::Had);
    }

    #[test]
    fn up_to_is_about_one_of_the_points_and_on_average_about_all() {
        let expectation = |pick| Expectation {
            pick,
            ..toml::from_str("of = 'a'\nsource = 'b'\nvalues = 2.0").expect("an expectation")
        };
        let told = |pick, all: &[f64]| -> Vec<(f64, bool)> {
            let all = all.iter().copied().map(verdict).collect();
            let picked = picked(&expectation(pick), all).into_iter();
            picked.map(|v| (v.ours, v.inside)).collect()
        };
        let all = [1.0, 3.0, 2.0];
        assert_eq!(
            told(Pick::Each, &all),
            [(1.0, false), (3.0, false), (2.0, true)]
        );
        assert_eq!(told(Pick::Largest, &all), [(3.0, false)]);
        assert_eq!(told(Pick::Smallest, &all), [(1.0, false)]);
        assert_eq!(told(Pick::Mean, &all), [(2.0, true)]);
        assert!(told(Pick::Mean, &[]).is_empty() && told(Pick::Largest, &[]).is_empty());
    }
}
