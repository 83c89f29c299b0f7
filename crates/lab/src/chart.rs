//! Figures: lines with markers for what we measured, hollow points and dashes for what was expected.

mod series;
mod words;

use crate::error::ExperimentError;
use crate::plan::{Figure, Plan, Scale};
use crate::results::Results;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use series::Shown;

const WIDTH: i32 = 800;
/// The least height: a long legend makes a figure higher.
const HEIGHT: i32 = 400;
const LEGEND_WIDTH: i32 = 260;
/// Letters of a line of the legend.
const LETTERS: usize = 34;
/// From one line of the legend to the next, within an entry and between two.
const LINE: i32 = 15;
const BETWEEN_ENTRIES: i32 = 7;
const LEGEND_TOP: i32 = 45;
/// Half the size of a marker.
const MARKER: i32 = 4;
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
    /// Measured points, with a line through them.
    Line,
    /// Measured at places that have names.
    Bars,
    /// Expected values.
    Points,
    /// Bounds.
    Bound,
}

/// A marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Circle,
    Square,
    Triangle,
    Cross,
}

#[derive(Clone, Debug)]
struct Series {
    label: String,
    stroke: Stroke,
    colour: RGBColor,
    shape: Shape,
    points: Vec<(f64, f64)>,
}

pub(crate) type Drawn = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A figure as SVG.
pub(crate) fn draw(
    plan: &Plan,
    figure: &Figure,
    results: &Results,
) -> Result<String, ExperimentError> {
    let shown = Shown {
        plan,
        figure,
        results,
    };
    let series = shown.series();
    let axes = Axes::new(figure, shown.names(), &series);
    let series = axes.place(series);
    let height = HEIGHT.max(LEGEND_TOP + legend_height(&series) + BETWEEN_ENTRIES);
    let mut svg = String::new();
    let drawn = {
        let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw_on(&root, plan, (figure, &axes), &series)
    };
    drawn.map_err(|error| ExperimentError::Figure(error.to_string()))?;
    Ok(svg)
}

/// What a figure's coordinates mean.
struct Axes {
    x: Scale,
    y: Scale,
    /// Where nothing is on a horizontal axis that is divided by logarithm, if something is there.
    zero: Option<f64>,
    /// The values along the horizontal axis, if they are no numbers.
    names: Vec<String>,
}

impl Axes {
    fn new(figure: &Figure, names: Vec<String>, series: &[Series]) -> Self {
        let all = || series.iter().flat_map(|one| &one.points);
        let xs = || all().map(|(x, _)| *x);
        let x = match names.is_empty() {
            true => scale(figure.x_scale, xs().filter(|x| *x != 0.0)),
            false => Scale::Linear,
        };
        let least = xs().filter(|x| *x > 0.0).min_by(f64::total_cmp);
        let has_zero = x == Scale::Log && xs().any(|x| x == 0.0);
        let zero = least
            .filter(|_| has_zero)
            .map(|x| libm::log10(x).floor() - 1.0);
        Self {
            x,
            y: scale(figure.y_scale, all().map(|(_, y)| *y)),
            zero,
            names,
        }
    }

    /// The series in the figure's coordinates.
    fn place(&self, all: Vec<Series>) -> Vec<Series> {
        let bars = all.iter().filter(|one| one.stroke == Stroke::Bars).count();
        let bars = bars.max(1);
        let mut bar = 0;
        let placed = all.into_iter().map(|mut one| {
            bar += usize::from(one.stroke == Stroke::Bars);
            // What is expected of a bar follows it.
            let middle = (bar.max(1) as f64 - 0.5) / bars as f64 - 0.5;
            let points = one.points.into_iter().filter_map(|(x, y)| {
                let x = match self.names.is_empty() {
                    true => self.along(x)?,
                    false => x + middle * BARS,
                };
                Some((x, position(self.y, y)?))
            });
            one.points = points.collect();
            one
        });
        placed.filter(|one| !one.points.is_empty()).collect()
    }

    fn along(&self, x: f64) -> Option<f64> {
        match x == 0.0 {
            true => self.zero.or(position(self.x, x)),
            false => position(self.x, x),
        }
    }

    fn x_label(&self, value: f64) -> String {
        let is_at = |place: f64| (value - place).abs() < 1e-6;
        match (self.names.is_empty(), self.x) {
            (true, _) if self.zero.is_some_and(is_at) => "0".into(),
            (true, scale) => label_of(scale, value),
            (false, _) => {
                let is_whole = is_at(value.round()) && value > -0.5;
                let name = self.names.get(value.round().max(0.0) as usize);
                name.filter(|_| is_whole).cloned().unwrap_or_default()
            }
        }
    }
}

/// How an axis with these values is divided.
fn scale(asked: Scale, values: impl Iterator<Item = f64>) -> Scale {
    if asked != Scale::Auto {
        return asked;
    }
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    match low > 0.0 && high >= 100.0 * low {
        true => Scale::Log,
        false => Scale::Linear,
    }
}

/// The width of all bars at one place.
const BARS: f64 = 0.8;

/// Where a value is on an axis.
fn position(scale: Scale, value: f64) -> Option<f64> {
    match scale {
        Scale::Linear | Scale::Auto => Some(value),
        Scale::Log => (value > 0.0).then(|| libm::log10(value)),
    }
}

/// What a tick says.
fn label_of(scale: Scale, position: f64) -> String {
    match scale {
        Scale::Linear | Scale::Auto => tick(position),
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
    let (left, right) = root.split_horizontally(WIDTH - LEGEND_WIDTH);
    let (xs, ys) = ranges(axes, series);
    let title = match figure.title.is_empty() {
        true => &plan.title,
        false => &figure.title,
    };
    let mut chart = ChartBuilder::on(&left)
        .caption(title, ("sans-serif", FONT + 3))
        .margin(10)
        .x_label_area_size(45)
        .y_label_area_size(65)
        .build_cartesian_2d(xs, ys.clone())?;
    let x_labels = match axes.names.is_empty() {
        true => 11,
        false => 2 * axes.names.len() + 1,
    };
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .x_labels(x_labels)
        .x_label_formatter(&|value| axes.x_label(*value))
        .y_label_formatter(&|value| label_of(axes.y, *value))
        .x_desc(x_words(figure))
        .y_desc(y_words(figure))
        .label_style(("sans-serif", FONT))
        .draw()?;
    let bars = series
        .iter()
        .filter(|one| one.stroke == Stroke::Bars)
        .count();
    let half = BARS / bars.max(1) as f64 / 2.0;
    for one in series {
        draw_series(&mut chart, one, (half, ys.start))?;
    }
    legend(&right, series)?;
    root.present()?;
    Ok(())
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Bars are twice `half` wide and stand on `ground`.
fn draw_series(chart: &mut Chart<'_, '_>, one: &Series, (half, ground): (f64, f64)) -> Drawn {
    let style = one.colour.stroke_width(2);
    match one.stroke {
        Stroke::Line => {
            chart.draw_series(LineSeries::new(one.points.clone(), style))?;
            draw_markers(chart, one, one.colour.filled())?;
        }
        Stroke::Bars => {
            let bar = |(x, y): &(f64, f64)| {
                let corners = [(x - half, ground), (x + half, *y)];
                Rectangle::new(corners, one.colour.mix(0.6).filled())
            };
            chart.draw_series(one.points.iter().map(bar))?;
        }
        Stroke::Bound => {
            let dashes = DashedLineSeries::new(one.points.clone(), 6, 4, style);
            chart.draw_series(dashes)?;
            // One point makes no line.
            let dash = |point: &(f64, f64)| {
                EmptyElement::at(*point)
                    + PathElement::new([(-2 * MARKER, 0), (2 * MARKER, 0)], style)
            };
            chart.draw_series(one.points.iter().map(dash))?;
        }
        Stroke::Points => draw_markers(chart, one, style)?,
    }
    Ok(())
}

/// Expected values are larger than measured ones, so that both are seen where they fall together.
fn draw_markers(chart: &mut Chart<'_, '_>, one: &Series, style: ShapeStyle) -> Drawn {
    let size = match one.stroke {
        Stroke::Points => MARKER + 2,
        _ => MARKER,
    };
    let points = || one.points.iter().copied();
    match one.shape {
        Shape::Circle => {
            chart.draw_series(points().map(|point| Circle::new(point, size, style)))?;
        }
        Shape::Square => {
            let square = |point| {
                EmptyElement::at(point) + Rectangle::new([(-size, -size), (size, size)], style)
            };
            chart.draw_series(points().map(square))?;
        }
        Shape::Triangle => {
            chart.draw_series(points().map(|p| TriangleMarker::new(p, size + 1, style)))?;
        }
        Shape::Cross => {
            chart.draw_series(points().map(|point| Cross::new(point, size, style)))?;
        }
    }
    Ok(())
}

/// What the horizontal axis is called.
fn x_words(figure: &Figure) -> String {
    let (words, unit) = words::words(&figure.x);
    match figure.x_words.is_empty() {
        true => words::axis(&words, unit),
        false => figure.x_words.clone(),
    }
}

/// What the vertical axis is called: the column's words, or the figure's title if there are several.
fn y_words(figure: &Figure) -> String {
    let (words, unit) = match figure.y.as_slice() {
        [column] => words::words(column),
        _ => (figure.title.clone(), None),
    };
    let words = match figure.y_words.is_empty() {
        true => words,
        false => figure.y_words.clone(),
    };
    let given = Some(figure.unit.as_str()).filter(|unit| !unit.is_empty());
    words::axis(&words, given.or(unit))
}

type Span = std::ops::Range<f64>;
type Ends = (f64, f64);

/// What is shown of both axes. A linear vertical axis begins at 0.
fn ranges(axes: &Axes, series: &[Series]) -> (Span, Span) {
    let all = || series.iter().flat_map(|one| &one.points);
    let (x0, x1) = match axes.names.len() {
        0 => {
            let (low, high) = span(all().map(|(x, _)| *x));
            // Markers at the ends have room.
            let margin = (high - low) * 0.03;
            (low - margin, high + margin)
        }
        names => (-0.5, names as f64 - 0.5),
    };
    let (low, high) = span(all().map(|(_, y)| *y));
    let y = match axes.y {
        Scale::Log => low.floor()..high.ceil().max(low.floor() + 1.0),
        Scale::Linear | Scale::Auto => {
            let ends = all()
                .map(|(_, y)| *y)
                .fold((0.0, 0.0), |(low, high): Ends, y| (low.min(y), high.max(y)));
            ends.0 * 1.08..(ends.1 * 1.08).max(1e-9)
        }
    };
    (x0..x1, y)
}

/// How high the legend is.
fn legend_height(series: &[Series]) -> i32 {
    let lines = |one: &Series| words::wrapped(&one.label, LETTERS).len() as i32;
    series
        .iter()
        .map(|one| lines(one) * LINE + BETWEEN_ENTRIES)
        .sum()
}

fn legend(area: &DrawingArea<SVGBackend, Shift>, series: &[Series]) -> Drawn {
    let text = ("sans-serif", FONT).into_font().color(&BLACK);
    let text = text.pos(Pos::new(HPos::Left, VPos::Center));
    let mut y = LEGEND_TOP;
    for one in series {
        legend_mark(area, one, y)?;
        for line in words::wrapped(&one.label, LETTERS) {
            area.draw(&Text::new(line, (36, y), text.clone()))?;
            y += LINE;
        }
        y += BETWEEN_ENTRIES;
    }
    Ok(())
}

fn legend_mark(area: &DrawingArea<SVGBackend, Shift>, one: &Series, y: i32) -> Drawn {
    let style = one.colour.stroke_width(2);
    match one.stroke {
        Stroke::Line => {
            area.draw(&PathElement::new([(5, y), (29, y)], style))?;
            marker(area, (17, y), one.shape, one.colour.filled())?;
        }
        Stroke::Bars => {
            let corners = [(11, y - 6), (23, y + 6)];
            area.draw(&Rectangle::new(corners, one.colour.mix(0.6).filled()))?;
        }
        Stroke::Points => marker(area, (17, y), one.shape, style)?,
        Stroke::Bound => {
            area.draw(&PathElement::new([(5, y), (13, y)], style))?;
            area.draw(&PathElement::new([(20, y), (28, y)], style))?;
        }
    }
    Ok(())
}

fn marker(
    area: &DrawingArea<SVGBackend, Shift>,
    (x, y): (i32, i32),
    shape: Shape,
    style: ShapeStyle,
) -> Drawn {
    let corners = [(x - MARKER, y - MARKER), (x + MARKER, y + MARKER)];
    match shape {
        Shape::Circle => area.draw(&Circle::new((x, y), MARKER, style))?,
        Shape::Square => area.draw(&Rectangle::new(corners, style))?,
        Shape::Triangle => area.draw(&TriangleMarker::new((x, y), MARKER + 1, style))?,
        Shape::Cross => area.draw(&Cross::new((x, y), MARKER, style))?,
    }
    Ok(())
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
        // What is alone stands in the middle.
        false if low == high => (low - 1.0, high + 1.0),
        false => (0.0, 1.0),
    }
}

#[cfg(test)]
mod tests;
