//! Plans: one figure of a paper, or one question, in a file.
//!
//! ```toml
//! [plan]
//! title  = "Recirculation without order"
//! figure = "TurboSwitch Fig. 4"
//! model  = "turboswitch"
//!
//! [parameters]                    # of the model; a list is a sweep
//! input_gbps = [10, 50, 90]
//!
//! [quick]                         # instead of these, for a quick run
//! packets = 20_000
//!
//! [[figure]]
//! name = "recirculations"
//! x    = "input_gbps"
//! y    = ["recirculations"]       # by = "flows" gives a line for each number of flows
//!
//! [[expect]]
//! of     = "recirculations"
//! source = "Fact 1"
//! along  = "input_gbps"
//! values = [[10, 9.0], [50, 1.0]] # or one number, or the name of a column
//! within = 0.05                   # or within_absolute; is = "below" or "above" makes it a bound
//!
//! [[ratio]]                       # another column: a value, divided by the value at another point
//! name = "more_than_alone"
//! of   = "output_gbps"
//! to   = { flows = 1 }            # the point that differs in this; inverse = true divides the other way
//! ```
//!
//! Parsing is checking: a [`Plan`] that exists can be run.

use crate::error::{Misplaced, PlanError};
use crate::model::Model;
use crate::registry;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Spanned, Table, Value};

/// Most points of one plan.
pub const MAX_POINTS: usize = 100_000;

/// A plan, read and checked.
#[derive(Clone)]
pub struct Plan {
    /// The file's name without its ending.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// Which figure it redoes, or what question it asks.
    pub figure: String,
    /// What a reader should know beside the values.
    pub note: String,
    /// What runs.
    pub model: &'static dyn Model,
    /// Columns that compare points.
    pub ratios: Vec<Ratio>,
    /// What is drawn.
    pub figures: Vec<Figure>,
    /// What is expected.
    pub expectations: Vec<Expectation>,
    /// The file's text.
    pub text: String,
    /// What files that it names are seen from.
    pub folder: PathBuf,
    parameters: Axes,
    quick: Axes,
}

/// The values of each parameter, by name; what was given alone is a list of one.
type Axes = BTreeMap<String, Vec<Value>>;

/// A figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its file's name without the ending.
    pub name: String,
    /// Its title; the plan's if empty.
    #[serde(default)]
    pub title: String,
    /// The parameter along the horizontal axis.
    pub x: String,
    /// The columns to draw.
    pub y: Vec<String>,
    /// A parameter with a line for each of its values.
    pub by: Option<String>,
    /// What the vertical axis measures.
    #[serde(default)]
    pub unit: String,
    /// How the horizontal axis is divided.
    #[serde(default)]
    pub x_scale: Scale,
    /// How the vertical one is.
    #[serde(default)]
    pub y_scale: Scale,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By logarithm; what is not above 0 is left out.
    Log,
}

/// A column whose value is another column's, divided by that column's value at another point.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Its name.
    pub name: String,
    /// The column.
    pub of: String,
    /// Where the other point differs from this one.
    pub to: Table,
    /// Whether the other point's value is divided by this one's.
    #[serde(default)]
    pub inverse: bool,
}

/// Values that are expected, or bounds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The column.
    pub of: String,
    /// Who says so.
    pub source: String,
    /// Near the values, or a bound.
    #[serde(default)]
    pub is: Relation,
    /// The values.
    pub values: Values,
    /// The parameter that a list of values goes along.
    pub along: Option<String>,
    /// Only points with these parameters.
    #[serde(default, rename = "where")]
    pub only: Table,
    /// How far off a value may be, as a share of the expected one.
    #[serde(default)]
    pub within: f64,
    /// How far off a value may be.
    #[serde(default)]
    pub within_absolute: f64,
    /// Why a value that is outside is outside, once that was found.
    #[serde(default)]
    pub cause: String,
}

/// How a value lies to an expected one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Within the tolerance of it.
    #[default]
    Near,
    /// Not above it by more than the tolerance.
    Below,
    /// Not below it by more than the tolerance.
    Above,
}

impl Relation {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Below => "below",
            Self::Above => "above",
        }
    }
}

/// Expected values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Values {
    /// The same everywhere.
    Number(f64),
    /// Another column's value at the same point.
    Column(String),
    /// Pairs of a parameter's value and what is expected there.
    Along(Vec<(f64, f64)>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    plan: Head,
    #[serde(default)]
    parameters: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    quick: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    ratio: Vec<Spanned<Ratio>>,
    #[serde(default)]
    figure: Vec<Spanned<Figure>>,
    #[serde(default)]
    expect: Vec<Spanned<Expectation>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    title: String,
    figure: String,
    model: Spanned<String>,
    #[serde(default)]
    note: String,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong: the message names file, line and field.
    pub fn load(path: &Path) -> Result<Self, PlanError> {
        let text = PlanError::read(path)?;
        Self::parse(&text, path)
    }

    /// Reads a plan's text; `path` gives its name, and is for messages.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, PlanError> {
        let file: File =
            toml::from_str(text).map_err(|error| PlanError::of_toml(&error, text, path))?;
        file.into_plan(path, text, Checks::All)
            .map_err(|misplaced| PlanError::at(misplaced, text, path))
    }

    /// Reads a plan that was run, beside its results. Files that its parameters name are not looked for:
    /// they are elsewhere.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn recall(path: &Path) -> Result<Self, PlanError> {
        let text = PlanError::read(path)?;
        let file: File =
            toml::from_str(&text).map_err(|error| PlanError::of_toml(&error, &text, path))?;
        file.into_plan(path, &text, Checks::Names)
            .map_err(|misplaced| PlanError::at(misplaced, &text, path))
    }

    /// Every point of the sweep, in order: the last parameter by name changes fastest.
    pub fn points(&self, quick: bool) -> Vec<Table> {
        product(&self.axes(quick))
    }

    /// The parameters that the plan gives, by name.
    pub fn parameters(&self, quick: bool) -> Vec<String> {
        self.axes(quick).into_keys().collect()
    }

    /// Of these, the ones that have several values.
    pub fn swept(&self, quick: bool) -> Vec<String> {
        let axes = self.axes(quick).into_iter();
        let swept = axes.filter(|(_, values)| values.len() > 1);
        swept.map(|(name, _)| name).collect()
    }

    /// The files of devices that it names, as it names them.
    pub fn testbeds(&self) -> Vec<String> {
        let named = self.parameters.get("testbed").into_iter().flatten();
        named
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect()
    }

    fn axes(&self, quick: bool) -> Axes {
        let mut axes = self.parameters.clone();
        if quick {
            axes.extend(self.quick.clone());
        }
        axes
    }
}

/// What is checked of a plan.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Checks {
    All,
    /// All but parameters.
    Names,
}

impl File {
    fn into_plan(self, path: &Path, text: &str, checks: Checks) -> Result<Plan, Misplaced> {
        let name = path.file_stem().unwrap_or_default();
        let folder = path.parent().unwrap_or(Path::new(".")).to_path_buf();
        let model = registry::find(self.plan.model.get_ref())
            .ok_or_else(|| (self.plan.model.span(), unknown_model()))?;
        for parameters in [&self.parameters, &self.quick] {
            if checks == Checks::All {
                check_each(model, parameters, &folder)?;
            }
        }
        let plan = Plan {
            name: name.to_string_lossy().into_owned(),
            title: self.plan.title,
            figure: self.plan.figure,
            note: self.plan.note,
            model,
            ratios: self.ratio.iter().map(|r| r.get_ref().clone()).collect(),
            figures: self.figure.iter().map(|f| f.get_ref().clone()).collect(),
            expectations: self.expect.iter().map(|e| e.get_ref().clone()).collect(),
            text: text.to_owned(),
            folder,
            parameters: axes(&self.parameters),
            quick: axes(&self.quick),
        };
        if checks == Checks::All {
            let tables = [&self.quick, &self.parameters];
            check_points(&plan, false, &tables)?;
            // Without parameters of its own a quick run has the same points.
            if !plan.quick.is_empty() {
                check_points(&plan, true, &tables)?;
            }
        }
        self.ratio.iter().try_for_each(|r| check_ratio(&plan, r))?;
        self.figure
            .iter()
            .try_for_each(|f| check_figure(&plan, f))?;
        self.expect
            .iter()
            .try_for_each(|e| check_expectation(&plan, e))?;
        Ok(plan)
    }
}

fn unknown_model() -> String {
    let names: Vec<_> = registry::MODELS.iter().map(|model| model.name()).collect();
    format!("there is no such model; there are: {}", names.join(", "))
}

fn listed(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    }
}

fn axes(parameters: &BTreeMap<String, Spanned<Value>>) -> Axes {
    parameters
        .iter()
        .map(|(name, value)| (name.clone(), listed(value.get_ref())))
        .collect()
}

/// Each value of each parameter alone: so the one at fault is known.
fn check_each(
    model: &dyn Model,
    parameters: &BTreeMap<String, Spanned<Value>>,
    folder: &Path,
) -> Result<(), Misplaced> {
    for (name, value) in parameters {
        let values = listed(value.get_ref());
        if values.is_empty() {
            return Err((value.span(), format!("{name}: a sweep over nothing")));
        }
        for each in values {
            let alone = Table::from_iter([(name.clone(), each)]);
            let checked = model.check(&alone, folder);
            // Others may be needed to make it right; then the whole point is checked below.
            if let Err(error) = checked
                && error.field.is_none_or(|field| field == name)
            {
                return Err((value.span(), format!("{name}: {error}")));
            }
        }
    }
    Ok(())
}

fn check_points(
    plan: &Plan,
    quick: bool,
    tables: &[&BTreeMap<String, Spanned<Value>>],
) -> Result<(), Misplaced> {
    let sizes = plan.axes(quick).into_values().map(|values| values.len());
    let points = sizes.fold(1usize, usize::saturating_mul);
    if points > MAX_POINTS {
        let message = format!("a sweep of {points} points; {MAX_POINTS} are the most");
        return Err((0..0, message));
    }
    for point in plan.points(quick) {
        let Err(error) = plan.model.check(&point, &plan.folder) else {
            continue;
        };
        let field = error.field.unwrap_or_default();
        let span = tables.iter().find_map(|table| table.get(field));
        let span = span.map_or(0..0, Spanned::span);
        return Err((span, format!("{field}: {error}")));
    }
    Ok(())
}

fn check_ratio(plan: &Plan, ratio: &Spanned<Ratio>) -> Result<(), Misplaced> {
    let found = ratio.get_ref();
    let at = |message: String| (ratio.span(), message);
    let measures = plan.model.columns().iter().map(|column| column.name);
    let mut taken = measures.chain(plan.ratios.iter().map(|r| r.name.as_str()));
    if taken.by_ref().filter(|name| *name == found.name).count() != 1 {
        return Err(at(format!("name: there is another {}", found.name)));
    }
    measured(plan, &found.of).map_err(|e| at(format!("of: {e}")))?;
    for (name, value) in &found.to {
        parameter(plan, name).map_err(|e| at(format!("to: {e}")))?;
        let values = plan.parameters.get(name);
        if !values.is_some_and(|values| values.contains(value)) {
            return Err(at(format!("to: {name} is nowhere {value}")));
        }
    }
    match found.to.is_empty() {
        true => Err(at("to: expected a parameter and its value".into())),
        false => Ok(()),
    }
}

fn check_figure(plan: &Plan, figure: &Spanned<Figure>) -> Result<(), Misplaced> {
    let found = figure.get_ref();
    let at = |message: String| (figure.span(), message);
    parameter(plan, &found.x).map_err(|e| at(format!("x: {e}")))?;
    for y in &found.y {
        column(plan, y).map_err(|e| at(format!("y: {e}")))?;
    }
    if let Some(by) = &found.by {
        parameter(plan, by).map_err(|e| at(format!("by: {e}")))?;
    }
    match found
        .name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-')
    {
        true => Ok(()),
        false => Err(at("name: letters, digits and - only".into())),
    }
}

fn check_expectation(plan: &Plan, expect: &Spanned<Expectation>) -> Result<(), Misplaced> {
    let found = expect.get_ref();
    let at = |message: String| (expect.span(), message);
    column(plan, &found.of).map_err(|e| at(format!("of: {e}")))?;
    match (&found.values, &found.along) {
        (Values::Column(name), _) => column(plan, name).map_err(|e| at(format!("values: {e}")))?,
        (Values::Along(_), None) => return Err(at("along: a list of values needs it".into())),
        (Values::Along(_), Some(along)) => {
            parameter(plan, along).map_err(|e| at(format!("along: {e}")))?;
        }
        (Values::Number(_), _) => (),
    }
    for name in found.only.keys() {
        parameter(plan, name).map_err(|e| at(format!("where: {e}")))?;
    }
    let tolerances = [found.within, found.within_absolute];
    match tolerances.iter().all(|t| t.is_finite() && *t >= 0.0) {
        true => Ok(()),
        false => Err(at("within: a tolerance is not negative".into())),
    }
}

fn parameter(plan: &Plan, name: &str) -> Result<(), String> {
    match plan.parameters.contains_key(name) {
        true => Ok(()),
        false => Err(format!("{name} is not among the plan's parameters")),
    }
}

fn column(plan: &Plan, name: &str) -> Result<(), String> {
    match plan.ratios.iter().any(|ratio| ratio.name == name) {
        true => Ok(()),
        false => measured(plan, name),
    }
}

fn measured(plan: &Plan, name: &str) -> Result<(), String> {
    let mut names = plan.model.columns().iter().map(|column| column.name);
    match names.any(|column| column == name) {
        true => Ok(()),
        false => Err(format!("{} does not measure {name}", plan.model.name())),
    }
}

fn product(axes: &Axes) -> Vec<Table> {
    axes.iter()
        .fold(vec![Table::new()], |points, (name, values)| {
            let with = |point: &Table, value: &Value| {
                let mut point = point.clone();
                point.insert(name.clone(), value.clone());
                point
            };
            points
                .iter()
                .flat_map(|point| values.iter().map(move |value| with(point, value)))
                .collect()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[plan]
title = "t"
figure = "f"
model = "turboswitch"

[parameters]
input_gbps = [10, 50]
flows = [1, 10, 100]

[quick]
packets = 100

[[figure]]
name = "a"
x = "input_gbps"
y = ["recirculations"]

[[expect]]
of = "recirculations"
source = "Fact 1"
values = "fact1"
within = 0.1
"#;

    fn error(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from));
        let text = GOOD.replacen(from, to, 1);
        let parsed = Plan::parse(&text, Path::new("plans/p.toml"));
        parsed.err().expect("this is wrong").to_string()
    }

    #[test]
    fn points_are_all_combinations() {
        let plan = Plan::parse(GOOD, Path::new("plans/p.toml")).unwrap();
        let points = plan.points(false);
        assert_eq!((plan.name.as_str(), points.len()), ("p", 6));
        assert_eq!(points[1]["flows"], Value::from(1));
        assert_eq!(points[1]["input_gbps"], Value::from(50));
        assert_eq!(plan.points(true)[0]["packets"], Value::from(100));
    }

    #[test]
    fn mistakes_are_told_with_file_line_and_field() {
        for (from, to, place, told) in [
            ("[10, 50]", "[10, \"x\"]", "p.toml:8:14", "input_gbps"),
            ("[10, 50]", "[10, -5]", "p.toml:8:14", "input_gbps"),
            ("[10, 50]", "[]", "p.toml:8:14", "nothing"),
            ("flows =", "flowz =", "p.toml:9:9", "flowz"),
            ("packets =", "pakets =", "p.toml:12:10", "pakets"),
            ("\"turboswitch\"", "\"turbo\"", "p.toml:5:9", "turboswitch"),
            (
                "x = \"input_gbps\"",
                "x = \"input\"",
                "p.toml:14",
                "x: input",
            ),
            ("[\"recirculations\"]", "[\"n\"]", "p.toml:14", "y: "),
            ("of = \"recirculations\"", "of = \"n\"", "p.toml:19", "of: "),
            ("\"fact1\"", "\"fact9\"", "p.toml:19", "values: "),
            ("\"fact1\"", "[[1, 2]]", "p.toml:19", "along: "),
            ("within = 0.1", "within = -0.1", "p.toml:19", "within: "),
            ("within = 0.1", "wihtin = 0.1", "p.toml:23", "wihtin"),
            ("title = \"t\"", "title = 3", "p.toml:3:9", "string"),
            (
                "[[figure]]",
                "[[ratio]]\nname = \"r\"\nof = \"n\"\nto = { flows = 1 }\n[[figure]]",
                "p.toml:14",
                "of: ",
            ),
            (
                "[[figure]]",
                "[[ratio]]\nname = \"r\"\nof = \"queue_kb\"\nto = { flows = 3 }\n[[figure]]",
                "p.toml:14",
                "flows is nowhere 3",
            ),
            (
                "[[figure]]",
                "[[ratio]]\nname = \"queue_kb\"\nof = \"queue_kb\"\nto = { flows = 1 }\n[[figure]]",
                "p.toml:14",
                "another",
            ),
        ] {
            let message = error(from, to);
            assert!(
                message.contains(place) && message.contains(told),
                "{message}"
            );
        }
    }

    #[test]
    fn parameters_that_do_not_go_together_are_told_too() {
        let message = error(
            "flows =",
            "variant = \"multicast\"\ntarget_bytes = 900_000\nflows =",
        );
        assert!(
            message.contains("p.toml:10:16") && message.contains("target_bytes"),
            "{message}"
        );
    }
}
