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
//! [[without]]                     # combinations that are not run
//! flows = 1
//! input_gbps = 90
//!
//! [[figure]]
//! name = "recirculations"
//! x    = "input_gbps"
//! y    = ["recirculations"]       # with a line for each combination of the other parameters' values
//! where = { flows = [10, 100] }   # only these
//!
//! [[expect]]
//! of     = "recirculations"
//! source = "Fact 1"
//! along  = "input_gbps"
//! values = [[10, 9.0], [50, 1.0]] # or one number, or the name of a column
//! times  = 1.0                    # and how many times that
//! within = 0.05                   # or within_absolute; is = "below" or "above" makes it a bound
//! pick   = "largest"              # of all points, or "smallest": where a paper says "up to"; or their "mean"
//! input  = "loopback_gbps"        # what was put in that implies the value: then it is shown, not counted
//! cause  = "why"                  # a value is outside, if that is known
//! tested_by = "another-plan"      # which changes the cause and shows that the value moves
//!
//! [[ratio]]                       # another column: a value, divided by the value at another point
//! name = "more_than_alone"
//! of   = "output_gbps"
//! to   = { flows = 1 }            # the point that differs in this; inverse = true divides the other way
//! ```
//!
//! Parsing is checking: a [`Plan`] that exists can be run.

mod check;

use crate::error::{Misplaced, PlanError};
use crate::model::{Model, ParameterError};
use crate::number::number;
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
    without: Vec<Table>,
}

/// How the source of an expectation begins that says what must come of a changed cause.
pub(crate) const CAUSE: &str = "the cause:";

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
    /// The columns to draw, each with a line for each combination of the other parameters' values.
    pub y: Vec<String>,
    /// Only points with these parameters; a list is any of its values.
    #[serde(default, rename = "where")]
    pub only: Table,
    /// What the horizontal axis is called, instead of the parameter's name in words.
    #[serde(default)]
    pub x_words: String,
    /// What the vertical axis is called, instead of the column's name in words.
    #[serde(default)]
    pub y_words: String,
    /// The unit of the vertical axis.
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
    /// By logarithm if all values are above 0 and span two decades or more, else evenly.
    #[default]
    Auto,
    /// Evenly.
    Linear,
    /// By logarithm; on the vertical axis what is not above 0 is left out.
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
    /// What the values are multiplied by: how much below or above another column something must be.
    #[serde(default = "once")]
    pub times: f64,
    /// The parameter that a list of values goes along.
    pub along: Option<String>,
    /// Only points with these parameters; a list is any of its values.
    #[serde(default, rename = "where")]
    pub only: Table,
    /// Which of the points are judged.
    #[serde(default)]
    pub pick: Pick,
    /// How far off a value may be, as a share of the expected one.
    #[serde(default)]
    pub within: f64,
    /// How far off a value may be.
    #[serde(default)]
    pub within_absolute: f64,
    /// Why the value is shown and not counted: what was put in that implies it, so that it cannot fail, where
    /// else it is counted, or why it is not defined.
    #[serde(default)]
    pub input: String,
    /// Why a value that is outside is outside.
    #[serde(default)]
    pub cause: String,
    /// The plan that changes this cause and shows that the value moves: it has an expectation of the same
    /// column, with the same chain, whose source begins with `the cause:`.
    #[serde(default)]
    pub tested_by: String,
}

fn once() -> f64 {
    1.0
}

impl Expectation {
    /// Whether something that was put in implies the value.
    pub fn is_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Whether a paper says so. Else it is what theory, another program, a tested cause or this project
    /// says: also things that could fail, but no one's result that is redone.
    pub fn is_of_paper(&self) -> bool {
        self.source.starts_with("paper")
    }
}

/// Which of an expectation's points are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// All of them.
    #[default]
    Each,
    /// The one with the largest value: what a paper calls "up to".
    Largest,
    /// The one with the smallest.
    Smallest,
    /// None alone, but their mean: what a paper calls "on average".
    Mean,
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
    without: Vec<Spanned<Table>>,
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
        let mut points = product(&self.axes(quick));
        points.retain(|point| !self.without.iter().any(|without| matches(without, point)));
        points
    }

    /// Combinations of parameters that are not run.
    pub fn without(&self) -> &[Table] {
        &self.without
    }

    /// What the plan gives a parameter in a full run: one value, or several.
    pub fn values(&self, parameter: &str) -> &[Value] {
        self.parameters.get(parameter).map_or(&[], Vec::as_slice)
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

    /// Whether another plan runs the same: then it measures the same, whatever it expects or draws.
    pub fn runs_the_same(&self, other: &Self) -> bool {
        self.model.name() == other.model.name()
            && self.parameters == other.parameters
            && self.quick == other.quick
            && self.without == other.without
    }

    /// What this plan says must come of the cause that another one supposes for an expectation: of the
    /// same column, with the same chains. Numbers of expectations.
    pub fn tests_of(&self, other: &Self, expectation: &Expectation) -> Vec<usize> {
        let chains = other.chains(&expectation.only);
        let says = |of: &Expectation| {
            let own = self.chains(&of.only);
            of.source.starts_with(CAUSE)
                && !of.is_input()
                && self.measured_column(&of.of) == other.measured_column(&expectation.of)
                && of.of == expectation.of
                && chains.iter().all(|chain| own.contains(chain))
        };
        let all = self.expectations.iter().enumerate();
        all.filter(|(_, of)| says(of))
            .map(|(index, _)| index)
            .collect()
    }

    /// The chains that an expectation with this `where` is about.
    fn chains(&self, only: &Table) -> Vec<&Value> {
        let values = self.values("chain").iter();
        let wanted = only.get("chain").map(listed);
        values
            .filter(|value| wanted.as_ref().is_none_or(|wanted| wanted.contains(value)))
            .collect()
    }

    /// The column that the model measures, of a column that may be a ratio.
    fn measured_column<'a>(&'a self, name: &'a str) -> &'a str {
        let ratio = self.ratios.iter().find(|ratio| ratio.name == name);
        ratio.map_or(name, |ratio| &ratio.of)
    }

    /// What is wrong with a parameter, with its place in the plan's file.
    pub(crate) fn placed(&self, error: &ParameterError) -> PlanError {
        let file: Option<File> = toml::from_str(&self.text).ok();
        let tables = file.as_ref().map(|file| [&file.quick, &file.parameters]);
        let tables = tables.as_ref().map_or(&[][..], |tables| tables);
        let path = self.folder.join(format!("{}.toml", self.name));
        PlanError::at(
            check::misplaced(&self.text, tables, error),
            &self.text,
            &path,
        )
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
                check::each(model, parameters, &folder)?;
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
            without: self.without.iter().map(|w| w.get_ref().clone()).collect(),
        };
        self.without
            .iter()
            .try_for_each(|w| check::without(&plan, w))?;
        if checks == Checks::All {
            let tables = [&self.quick, &self.parameters];
            check::points(&plan, false, &tables)?;
            // Without parameters of its own a quick run has the same points.
            if !plan.quick.is_empty() {
                check::points(&plan, true, &tables)?;
            }
        }
        self.ratio.iter().try_for_each(|r| check::ratio(&plan, r))?;
        self.figure
            .iter()
            .try_for_each(|f| check::figure(&plan, f))?;
        self.expect
            .iter()
            .try_for_each(|e| check::expectation(&plan, e))?;
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

/// Whether a point has all these parameters' values; a list is any of its values.
pub(crate) fn matches(only: &Table, parameters: &Table) -> bool {
    only.iter().all(|(name, value)| {
        let found = parameters.get(name);
        let wanted = listed(value);
        found.is_some_and(|found| wanted.iter().any(|value| is_same(found, value)))
    })
}

/// Whether two values are one, however a number is written.
pub(crate) fn is_same(found: &Value, value: &Value) -> bool {
    match (number(found), number(value)) {
        (Some(found), Some(value)) => found == value,
        _ => found == value,
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
    fn what_is_expected_or_drawn_changes_nothing_that_runs() {
        let parse = |text: &str| Plan::parse(text, Path::new("plans/p.toml")).unwrap();
        let plan = parse(GOOD);
        let other = |from: &str, to: &str| parse(&GOOD.replacen(from, to, 1));
        assert!(plan.runs_the_same(&other("within = 0.1", "within = 0.2")));
        assert!(plan.runs_the_same(&other("name = \"a\"", "name = \"b\"")));
        for (from, to) in [("[10, 50]", "[10, 60]"), ("packets = 100", "packets = 200")] {
            assert!(!plan.runs_the_same(&other(from, to)), "{to}");
        }
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
    fn what_is_missing_or_found_in_a_run_is_told_with_its_place_too() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
        let text = "[plan]\ntitle = 't'\nfigure = 'f'\nmodel = 'two_paths'\n\n[parameters]\n\
                    testbed = 'testbeds/switchnic.toml'";
        let missing = Plan::parse(text, &folder.join("p.toml")).err();
        let missing = missing.expect("no rate").to_string();
        assert!(
            missing.contains("p.toml:6:1: input_gbps: missing"),
            "{missing}"
        );
        let plan = Plan::parse(GOOD, Path::new("plans/p.toml")).unwrap();
        let found = |field: &'static str| {
            let wrong = ParameterError::new(field, "is wrong");
            plan.placed(&wrong).to_string()
        };
        for (field, place) in [("flows", "p.toml:9:9"), ("packets", "p.toml:12:11")] {
            let told = found(field);
            let message = format!("{place}: {field}: is wrong");
            assert!(told.contains(&message), "{told}");
        }
        assert!(found("slots").contains("p.toml:7:1: slots: is wrong"));
    }

    /// A run of another column, or of another chain, says nothing of a cause.
    #[test]
    fn a_cause_is_tested_by_what_measures_the_same() {
        let plan = |chain: &str, of: &str, source: &str| {
            let text = format!(
                "[plan]\ntitle = 't'\nfigure = 'f'\nmodel = 'two_paths'\n[parameters]\n\
                 testbed = 'testbeds/switchnic.toml'\ninput_gbps = 1\nchain = {chain}\n\
                 [[expect]]\nof = '{of}'\nsource = '{source}'\nvalues = 1"
            );
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
            Plan::parse(&text, &folder.join("p.toml")).expect("a plan")
        };
        let supposed = plan("'reassembler'", "latency_us", "paper: 1");
        let tests = |test: &Plan| test.tests_of(&supposed, &supposed.expectations[0]).len();
        let (chain, cause) = ("'reassembler'", "the cause: 1");
        assert_eq!(tests(&plan(chain, "latency_us", cause)), 1);
        let both = "['load_balancer', 'reassembler']";
        assert_eq!(tests(&plan(both, "latency_us", cause)), 1);
        assert_eq!(tests(&plan(chain, "latency_us", "paper: 1")), 0);
        assert_eq!(tests(&plan(chain, "latency_p99_us", cause)), 0);
        assert_eq!(tests(&plan("'load_balancer'", "latency_us", cause)), 0);
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
