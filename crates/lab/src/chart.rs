//! Figures: lines for what we measured, hollow points and dashes for what was expected.

use crate::error::ExperimentError;
use crate::plan::{Expectation, Figure, Plan, Relation, Scale, Values};
use crate::results::{Results, number, shown};
use crate::verdict::{expected_at, matches};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use toml::{Table, Value};

const SIZE: (u32, u32) = (760, 400);
const LEGEND_WIDTH: i32 = 220;
const MOST_LETTERS: usize = 30;
pub(crate) const FONT: u32 = 13;
/// Colours that can be told apart, also by those who do not see red and green.
pub(crate) const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x33, 0x33, 0x33),
];
const GRID: RGBColor = RGBColor(0xE3, 0xE7, 0xED);

/// How something is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stroke {
    Line,
    Bars,
    Points,
    Dashes,
}

#[derive(Clone, Debug)]
struct Series {
    label: String,
    stroke: Stroke,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

pub(crate) type Drawn = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A figure as SVG.
pub(crate) fn draw(
    plan: &Plan,
    figure: &Figure,
    results: &Results,
) -> Result<String, ExperimentError> {
    let axes = Axes::new(figure, results);
    let series = axes.place(series(plan, figure, results));
    let mut svg = String::new();
    let drawn = {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw_on(&root, plan, (figure, &axes), &series)
    };
    drawn.map_err(|error| ExperimentError::Figure(error.to_string()))?;
    Ok(svg)
}

/// What a figure's coordinates mean.
struct Axes {
    x: Scale,
    y: Scale,
    /// The values along the horizontal axis, if they are no numbers.
    names: Vec<String>,
}

impl Axes {
    fn new(figure: &Figure, results: &Results) -> Self {
        let along = results.rows.keys();
        let along: Vec<&Value> = along
            .filter_map(|point| results.points[*point].get(&figure.x))
            .collect();
        let mut names: Vec<String> = Vec::new();
        if along.iter().any(|value| number(value).is_none()) {
            for name in along.into_iter().map(shown) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        Self {
            x: figure.x_scale,
            y: figure.y_scale,
            names,
        }
    }

    /// The series in the figure's coordinates.
    fn place(&self, all: Vec<Series>) -> Vec<Series> {
        let bars = all
            .iter()
            .filter(|one| one.stroke == Stroke::Bars)
            .count()
            .max(1);
        let mut bar = 0;
        let placed = all.into_iter().map(|mut one| {
            bar += usize::from(one.stroke == Stroke::Bars);
            // What is expected of a bar follows it.
            let middle = (bar.max(1) as f64 - 0.5) / bars as f64 - 0.5;
            let points = one.points.into_iter().filter_map(|(x, y)| {
                let x = match self.names.is_empty() {
                    true => position(self.x, x)?,
                    false => x + middle * BARS,
                };
                Some((x, position(self.y, y)?))
            });
            one.points = points.collect();
            one
        });
        placed.filter(|one| !one.points.is_empty()).collect()
    }

    fn x_label(&self, value: f64) -> String {
        match (self.names.is_empty(), self.x) {
            (true, scale) => label_of(scale, value),
            (false, _) => {
                let is_whole = (value - value.round()).abs() < 1e-6 && value > -0.5;
                let name = self.names.get(value.round().max(0.0) as usize);
                name.filter(|_| is_whole).cloned().unwrap_or_default()
            }
        }
    }
}

/// The width of all bars at one place.
const BARS: f64 = 0.8;

/// Where a value is on an axis.
fn position(scale: Scale, value: f64) -> Option<f64> {
    match scale {
        Scale::Linear => Some(value),
        Scale::Log => (value > 0.0).then(|| libm::log10(value)),
    }
}

/// What a tick says.
fn label_of(scale: Scale, position: f64) -> String {
    match scale {
        Scale::Linear => tick(position),
        Scale::Log if (position - position.round()).abs() < 1e-6 => match position.round() as i32 {
            small @ -2..=3 => tick(libm::pow(10.0, small.into())),
            power => format!("1e{power}"),
        },
        Scale::Log => String::new(),
    }
}

fn draw_on(
    root: &DrawingArea<SVGBackend, Shift>,
    plan: &Plan,
    (figure, axes): (&Figure, &Axes),
    series: &[Series],
) -> Drawn {
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 as i32 - LEGEND_WIDTH);
    let (xs, ys) = ranges(axes, series);
    let title = match figure.title.is_empty() {
        true => &plan.title,
        false => &figure.title,
    };
    let mut chart = ChartBuilder::on(&left)
        .caption(title, ("sans-serif", FONT + 3))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(xs, ys.clone())?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .x_labels(if axes.names.is_empty() {
            11
        } else {
            2 * axes.names.len() + 1
        })
        .x_label_formatter(&|value| axes.x_label(*value))
        .y_label_formatter(&|value| label_of(axes.y, *value))
        .x_desc(&figure.x)
        .y_desc(&figure.unit)
        .label_style(("sans-serif", FONT))
        .draw()?;
    let bars = series
        .iter()
        .filter(|one| one.stroke == Stroke::Bars)
        .count()
        .max(1);
    let half = BARS / bars as f64 / 2.0;
    for one in series {
        let style = one.colour.stroke_width(2);
        match one.stroke {
            Stroke::Line => {
                chart.draw_series(LineSeries::new(one.points.clone(), style))?;
            }
            Stroke::Bars => {
                let bar = |(x, y): &(f64, f64)| {
                    let corners = [(x - half, ys.start), (x + half, *y)];
                    Rectangle::new(corners, one.colour.mix(0.6).filled())
                };
                chart.draw_series(one.points.iter().map(bar))?;
            }
            Stroke::Dashes => {
                let dashes = DashedLineSeries::new(one.points.clone(), 6, 4, style);
                chart.draw_series(dashes)?;
            }
            Stroke::Points => {
                let circles = one.points.iter().map(|point| Circle::new(*point, 4, style));
                chart.draw_series(circles)?;
            }
        }
    }
    legend(&right, series)?;
    root.present()?;
    Ok(())
}

type Span = std::ops::Range<f64>;

/// What is shown of both axes. A linear vertical axis begins at 0.
fn ranges(axes: &Axes, series: &[Series]) -> (Span, Span) {
    let all = || series.iter().flat_map(|one| &one.points);
    let (x0, x1) = match axes.names.len() {
        0 => span(all().map(|(x, _)| *x)),
        names => (-0.5, names as f64 - 0.5),
    };
    let (low, high) = span(all().map(|(_, y)| *y));
    let y = match axes.y {
        Scale::Log => low.floor()..high.ceil().max(low.floor() + 1.0),
        Scale::Linear => low.min(0.0) * 1.08..(high.max(0.0) * 1.08).max(1e-9),
    };
    (x0..x1, y)
}

fn legend(area: &DrawingArea<SVGBackend, Shift>, series: &[Series]) -> Drawn {
    let text = ("sans-serif", FONT).into_font().color(&BLACK);
    let text = text.pos(Pos::new(HPos::Left, VPos::Center));
    for (row, one) in series.iter().enumerate() {
        let y = 45 + 20 * row as i32;
        let style = one.colour.stroke_width(2);
        match one.stroke {
            Stroke::Line => area.draw(&PathElement::new([(5, y), (29, y)], style))?,
            Stroke::Bars => {
                let corners = [(11, y - 6), (23, y + 6)];
                area.draw(&Rectangle::new(corners, one.colour.mix(0.6).filled()))?;
            }
            Stroke::Points => area.draw(&Circle::new((17, y), 4, style))?,
            Stroke::Dashes => {
                area.draw(&PathElement::new([(5, y), (13, y)], style))?;
                area.draw(&PathElement::new([(20, y), (28, y)], style))?;
            }
        }
        area.draw(&Text::new(shortened(&one.label), (36, y), text.clone()))?;
    }
    Ok(())
}

/// A label that fits beside the figure.
fn shortened(label: &str) -> String {
    match label.chars().count() > MOST_LETTERS {
        false => label.to_owned(),
        true => label.chars().take(MOST_LETTERS - 1).chain(['…']).collect(),
    }
}

/// A tick's value without the noise of its last digits.
fn tick(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    rounded.to_string()
}

fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    match low < high {
        true => (low, high),
        false if low == high => (low.min(0.0), high.max(1.0)),
        false => (0.0, 1.0),
    }
}

fn series(plan: &Plan, figure: &Figure, results: &Results) -> Vec<Series> {
    let groups = groups(figure, results);
    let mut all = Vec::new();
    let mut colours = COLOURS.into_iter().cycle();
    for column in &figure.y {
        for group in &groups {
            let Some(colour) = colours.next() else {
                continue;
            };
            let label = label(figure, column, group.as_ref());
            all.push(ours(
                plan,
                figure,
                results,
                column,
                group.as_ref(),
                (label, colour),
            ));
            all.extend(expected(
                plan,
                figure,
                results,
                column,
                group.as_ref(),
                colour,
            ));
        }
    }
    all.retain(|one| !one.points.is_empty());
    all.dedup_by(|later, earlier| later.stroke == Stroke::Dashes && later.points == earlier.points);
    all
}

/// The values of the parameter that gives a line each; one line for all without it.
fn groups(figure: &Figure, results: &Results) -> Vec<Option<Value>> {
    let Some(by) = &figure.by else {
        return vec![None];
    };
    let mut values: Vec<Value> = Vec::new();
    for point in results.rows.keys() {
        let value = results.points[*point].get(by);
        if let Some(value) = value.filter(|value| !values.contains(value)) {
            values.push(value.clone());
        }
    }
    values.into_iter().map(Some).collect()
}

fn label(figure: &Figure, column: &str, group: Option<&Value>) -> String {
    match (group, figure.y.len()) {
        (None, _) => column.to_owned(),
        (Some(value), 1) => format!("{} {}", figure.by.as_deref().unwrap_or(""), shown(value)),
        (Some(value), _) => format!("{column}, {}", shown(value)),
    }
}

fn is_in(figure: &Figure, point: &Table, group: Option<&Value>) -> bool {
    let found = figure.by.as_ref().and_then(|by| point.get(by));
    group.is_none_or(|group| found == Some(group))
}

fn ours(
    plan: &Plan,
    figure: &Figure,
    results: &Results,
    column: &str,
    group: Option<&Value>,
    (label, colour): (String, RGBColor),
) -> Series {
    let points = results.rows.keys().filter_map(|point| {
        let parameters = &results.points[*point];
        let y = results.value(plan, column, *point)?;
        is_in(figure, parameters, group).then_some((along(figure, results, *point)?, y))
    });
    let points: Vec<_> = points.collect();
    let is_by_name = results
        .points
        .iter()
        .any(|p| p.get(&figure.x).is_some_and(|x| number(x).is_none()));
    Series {
        label,
        stroke: if is_by_name {
            Stroke::Bars
        } else {
            Stroke::Line
        },
        colour,
        points,
    }
}

/// Where a point is along the horizontal axis: its value or, if it has a name there, its number among
/// the names.
fn along(figure: &Figure, results: &Results, point: usize) -> Option<f64> {
    let value = results.points[point].get(&figure.x)?;
    let by_name = || {
        let mut names: Vec<&Value> = Vec::new();
        for point in results.rows.keys() {
            let name = results.points[*point].get(&figure.x)?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
            .iter()
            .position(|name| *name == value)
            .map(|n| n as f64)
    };
    number(value).or_else(by_name)
}

/// What is expected of this column at the points of this line.
fn expected(
    plan: &Plan,
    figure: &Figure,
    results: &Results,
    column: &str,
    group: Option<&Value>,
    colour: RGBColor,
) -> Vec<Series> {
    let of_column = plan.expectations.iter().filter(|e| e.of == column);
    of_column
        .map(|expectation| {
            let points = results.rows.keys().filter_map(|point| {
                let parameters = &results.points[*point];
                let is_meant =
                    is_in(figure, parameters, group) && matches(&expectation.only, parameters);
                let x = along(figure, results, *point)?;
                let y = expected_at(plan, expectation, results, *point)?;
                is_meant.then_some((x, y))
            });
            Series {
                label: expectation_label(expectation),
                stroke: expectation_stroke(expectation),
                colour,
                points: points.collect(),
            }
        })
        .collect()
}

fn expectation_label(expectation: &Expectation) -> String {
    match expectation.is {
        Relation::Near => expectation.source.clone(),
        Relation::Below => format!("at most: {}", expectation.source),
        Relation::Above => format!("at least: {}", expectation.source),
    }
}

fn expectation_stroke(expectation: &Expectation) -> Stroke {
    match (expectation.is, &expectation.values) {
        (Relation::Near, Values::Along(_) | Values::Number(_)) => Stroke::Points,
        _ => Stroke::Dashes,
    }
}
