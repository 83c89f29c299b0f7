//! Figures: lines for what we measured, hollow points and dashes for what was expected.

use crate::error::ExperimentError;
use crate::plan::{Expectation, Figure, Plan, Relation, Values};
use crate::results::{Results, number, shown};
use crate::verdict::{expected_at, matches, measured};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use toml::{Table, Value};

const SIZE: (u32, u32) = (760, 400);
const LEGEND_WIDTH: i32 = 220;
const MOST_LETTERS: usize = 30;
const FONT: u32 = 13;
/// Colours that can be told apart, also by those who do not see red and green.
const COLOURS: [RGBColor; 7] = [
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

type Drawn = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A figure as SVG.
pub(crate) fn draw(
    plan: &Plan,
    figure: &Figure,
    results: &Results,
) -> Result<String, ExperimentError> {
    let series = series(plan, figure, results);
    let mut svg = String::new();
    let drawn = {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw_on(&root, plan, figure, &series)
    };
    drawn.map_err(|error| ExperimentError::Figure(error.to_string()))?;
    Ok(svg)
}

fn draw_on(
    root: &DrawingArea<SVGBackend, Shift>,
    plan: &Plan,
    figure: &Figure,
    series: &[Series],
) -> Drawn {
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 as i32 - LEGEND_WIDTH);
    let all = || series.iter().flat_map(|one| &one.points);
    let (x0, x1) = span(all().map(|(x, _)| *x));
    let top = all().map(|(_, y)| *y).fold(0.0, f64::max);
    let title = match figure.title.is_empty() {
        true => &plan.title,
        false => &figure.title,
    };
    let mut chart = ChartBuilder::on(&left)
        .caption(title, ("sans-serif", FONT + 3))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(x0..x1, 0.0..(top * 1.08).max(1e-9))?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|value| tick(*value))
        .y_label_formatter(&|value| tick(*value))
        .x_desc(&figure.x)
        .y_desc(&figure.unit)
        .label_style(("sans-serif", FONT))
        .draw()?;
    for one in series {
        let style = one.colour.stroke_width(2);
        match one.stroke {
            Stroke::Line => {
                chart.draw_series(LineSeries::new(one.points.clone(), style))?;
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

fn legend(area: &DrawingArea<SVGBackend, Shift>, series: &[Series]) -> Drawn {
    let text = ("sans-serif", FONT).into_font().color(&BLACK);
    let text = text.pos(Pos::new(HPos::Left, VPos::Center));
    for (row, one) in series.iter().enumerate() {
        let y = 45 + 20 * row as i32;
        let style = one.colour.stroke_width(2);
        match one.stroke {
            Stroke::Line => area.draw(&PathElement::new([(5, y), (29, y)], style))?,
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
        false => (0.0, high.max(1.0)),
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
    let in_group = results
        .rows
        .iter()
        .map(|(point, row)| (&results.points[*point], row));
    let points = in_group
        .filter(|(point, _)| is_in(figure, point, group))
        .filter_map(|(point, row)| {
            Some((number(point.get(&figure.x)?)?, measured(plan, column, row)?))
        });
    Series {
        label,
        stroke: Stroke::Line,
        colour,
        points: points.collect(),
    }
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
            let points = results.rows.iter().filter_map(|(point, row)| {
                let parameters = &results.points[*point];
                let is_meant =
                    is_in(figure, parameters, group) && matches(&expectation.only, parameters);
                let x = number(parameters.get(&figure.x)?)?;
                let y = expected_at(plan, expectation, parameters, row)?;
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
