//! What a figure shows: a line for each column and each combination of the other parameters' values,
//! and what is expected of it.

use super::words::words;
use super::{COLOURS, Series, Shape, Stroke};
use crate::number::number;
use crate::plan::{Expectation, Figure, Plan, Relation, Values, matches};
use crate::results::{Results, shown};
use crate::verdict::expected_at;
use plotters::style::RGBColor;
use toml::{Table, Value};

/// A plan's figure and its results.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) plan: &'a Plan,
    pub(super) figure: &'a Figure,
    pub(super) results: &'a Results,
}

/// One combination of the parameters that are swept, without the one along the axis.
type Group = Table;

impl Shown<'_> {
    /// Everything that is drawn.
    pub(super) fn series(&self) -> Vec<Series> {
        let groups = self.groups();
        let mut all = Vec::new();
        let mut number = 0;
        for column in &self.figure.y {
            for group in &groups {
                let look = look(number);
                number += 1;
                let measured = self.measured(column, group, look);
                if measured.points.is_empty() {
                    continue;
                }
                all.push(measured);
                all.extend(self.expected(column, (group, groups.len()), look));
            }
        }
        all.dedup_by(|later, earlier| {
            later.stroke == Stroke::Bound && later.points == earlier.points
        });
        all
    }

    /// The numbers of the points that the figure shows.
    fn points(&self) -> impl Iterator<Item = usize> {
        let rows = self.results.rows.keys().copied();
        rows.filter(|point| matches(&self.figure.only, &self.results.points[*point]))
    }

    /// The combinations that there are, in the order of the sweep.
    fn groups(&self) -> Vec<Group> {
        let swept = self.plan.swept(self.results.quick);
        let others: Vec<&String> = swept
            .iter()
            .filter(|name| **name != self.figure.x)
            .collect();
        let mut groups: Vec<Group> = Vec::new();
        for point in self.points() {
            let parameters = &self.results.points[point];
            let named = others
                .iter()
                .map(|name| ((*name).clone(), parameters[*name].clone()));
            let group = named.collect();
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    /// The values along the horizontal axis, if they are no numbers.
    pub(super) fn names(&self) -> Vec<String> {
        let along: Vec<&Value> = self
            .points()
            .filter_map(|point| self.results.points[point].get(&self.figure.x))
            .collect();
        let mut names: Vec<String> = Vec::new();
        if along.iter().any(|value| number(value).is_none()) {
            for name in along.into_iter().map(shown) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// Where a point is along the horizontal axis: its value or, if it has a name there, its number
    /// among the names.
    fn along(&self, point: usize) -> Option<f64> {
        let value = self.results.points[point].get(&self.figure.x)?;
        let by_name = || {
            let name = shown(value);
            let place = self.names().iter().position(|other| *other == name);
            place.map(|place| place as f64)
        };
        number(value).or_else(by_name)
    }

    fn measured(&self, column: &str, group: &Group, (colour, shape): Look) -> Series {
        let points = self.points().filter_map(|point| {
            let y = self.results.value(self.plan, column, point)?;
            let is_meant = matches(group, &self.results.points[point]);
            is_meant.then_some((self.along(point)?, y))
        });
        let mut points: Vec<_> = points.collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Series {
            label: self.label(column, group),
            stroke: match self.names().is_empty() {
                true => Stroke::Line,
                false => Stroke::Bars,
            },
            colour,
            shape,
            points,
        }
    }

    fn label(&self, column: &str, group: &Group) -> String {
        let mut parts: Vec<String> = Vec::new();
        if self.figure.y.len() > 1 || group.is_empty() {
            parts.push(words(column).0);
        }
        parts.extend(group.iter().map(|(name, value)| told(name, value)));
        parts.join(", ")
    }

    /// What is expected of this column at the points of this line, of which there are so many.
    fn expected(&self, column: &str, (group, groups): (&Group, usize), look: Look) -> Vec<Series> {
        let of_column = self.plan.expectations.iter().filter(|e| e.of == column);
        let drawn = of_column.map(|expectation| {
            let points = self.points().filter_map(|point| {
                let parameters = &self.results.points[point];
                let is_meant = matches(group, parameters) && matches(&expectation.only, parameters);
                let y = expected_at(self.plan, expectation, self.results, point)?;
                is_meant.then_some((self.along(point)?, y))
            });
            let mut label = expectation_label(expectation);
            if groups > 1 && !group.keys().any(|name| expectation.only.contains_key(name)) {
                let of = group.iter().map(|(name, value)| told(name, value));
                label = format!("{label} ({})", of.collect::<Vec<_>>().join(", "));
            }
            Series {
                label,
                stroke: expectation_stroke(expectation),
                colour: look.0,
                shape: look.1,
                points: points.collect(),
            }
        });
        drawn.filter(|one| !one.points.is_empty()).collect()
    }
}

type Look = (RGBColor, Shape);

/// What tells a line from the others: a colour, and when those are used up, another marker.
fn look(number: usize) -> Look {
    let shapes = [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Cross];
    let shape = shapes[(number / COLOURS.len()) % shapes.len()];
    (COLOURS[number % COLOURS.len()], shape)
}

/// A parameter's value in words: a name tells itself.
fn told(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.replace('_', " "),
        value => {
            let (words, unit) = words(name);
            let unit = unit.map_or(String::new(), |unit| format!(" {unit}"));
            format!("{words} {}{unit}", shown(value))
        }
    }
}

fn expectation_label(expectation: &Expectation) -> String {
    let source = &expectation.source;
    let source = match expectation.is_input() {
        true => format!("put in: {source}"),
        false => source.clone(),
    };
    match expectation.is {
        Relation::Near => source,
        Relation::Below => format!("at most: {source}"),
        Relation::Above => format!("at least: {source}"),
    }
}

fn expectation_stroke(expectation: &Expectation) -> Stroke {
    match (expectation.is, &expectation.values) {
        (Relation::Near, Values::Along(_) | Values::Number(_)) => Stroke::Points,
        _ => Stroke::Bound,
    }
}
