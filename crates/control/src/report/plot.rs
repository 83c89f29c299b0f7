//! Draws a figure as SVG: filled layers over two axes, and strips that tell
//! their values when a pointer is over them, without a script.
//!
//! Colours are those of light mode. The page's style sheet gives each of them
//! another value in dark mode, by attribute (`[fill="#2563EB"]`).

use std::fmt::Write;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::ReportError;
use super::axis::Axis;
use super::escape::escape;

/// Size of a figure in CSS pixels.
const SIZE: (u32, u32) = (450, 250);
/// Drawing units per pixel: the backend rounds to whole units, so finer ones
/// make smooth curves.
const SCALE: u32 = 4;
/// Size of all text. The backend divides sizes by 1.24 before it writes them.
const FONT: u32 = 13;
const BACKEND_FONT: u32 = 16;
/// Room for a mark's label, and between two rows of them, also where a narrow
/// screen has larger letters.
const LABEL_WIDTH: i32 = 36;
const LABEL_HEIGHT: i32 = 18;
const LINE_WIDTH: u32 = 7;
const AREA_OPACITY: f64 = 0.3;
const TEXT: RGBColor = RGBColor(0x5B, 0x64, 0x72);
const GRID: RGBColor = RGBColor(0xE3, 0xE7, 0xED);

/// A colour that means the same thing in every figure, table and tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Fast,
    Slow,
    Active,
    Incomplete,
    Frozen,
}

impl Ink {
    fn color(self) -> RGBColor {
        match self {
            Self::Fast => RGBColor(0x25, 0x63, 0xEB),
            Self::Slow => RGBColor(0xEA, 0x73, 0x17),
            Self::Active => RGBColor(0x0D, 0x94, 0x88),
            Self::Incomplete => RGBColor(0xE0, 0xA8, 0x00),
            Self::Frozen => RGBColor(0x7C, 0x3A, 0xED),
        }
    }
}

/// A line and the area below it.
#[derive(Debug)]
pub struct Layer {
    pub ink: Ink,
    pub points: Vec<(f64, f64)>,
    /// Where the area ends below; empty for the axis.
    pub base: Vec<(f64, f64)>,
}

/// A labelled vertical line.
#[derive(Clone, Debug)]
pub struct Mark {
    pub ink: Ink,
    pub x: f64,
    pub label: String,
    pub side: Side,
    /// Row of the label, counted from the top, so that two do not collide.
    pub row: u32,
}

/// The side of its line that a label stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    /// This side, or the other where a label would stand beyond the end of the axis.
    fn within(self, x: i32, columns: &Range<i32>) -> Self {
        let room = LABEL_WIDTH * SCALE as i32;
        match self {
            Self::Right if x + room > columns.end => Self::Left,
            Self::Left if x - room < columns.start => Self::Right,
            side => side,
        }
    }
}

/// A range of the horizontal axis and what is to be said of it.
#[derive(Debug)]
pub struct Strip {
    pub from: f64,
    pub to: f64,
    pub text: String,
}

/// What is to be drawn, back to front.
#[derive(Debug)]
pub struct Figure {
    pub x: Axis,
    pub y: Axis,
    /// What the vertical axis measures.
    pub y_title: &'static str,
    pub layers: Vec<Layer>,
    pub marks: Vec<Mark>,
    pub strips: Vec<Strip>,
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

impl Figure {
    /// The figure as an `<svg>` element.
    ///
    /// # Errors
    /// [`ReportError::Plot`], though drawing into memory gives no cause.
    pub fn draw(&self) -> Result<String, ReportError> {
        let mut svg = String::new();
        let size = (SIZE.0 * SCALE, SIZE.1 * SCALE);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let overlay = self
            .draw_on(&root)
            .map_err(|error| ReportError::Plot(Box::new(error)))?;
        drop(root);
        Ok(with_overlay(svg, &overlay))
    }

    /// Draws the chart and returns the elements that lie above it.
    fn draw_on(
        &self,
        root: &DrawingArea<SVGBackend, Shift>,
    ) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
        let mut chart = ChartBuilder::on(root)
            .margin_top(32 * SCALE)
            .margin_right(16 * SCALE)
            .x_label_area_size(26 * SCALE)
            .y_label_area_size(52 * SCALE)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        draw_mesh(&mut chart)?;
        self.layers
            .iter()
            .try_for_each(|layer| draw_layer(&mut chart, layer))?;
        root.present()?;
        Ok(self.overlay(&chart))
    }

    fn overlay(&self, chart: &Chart) -> String {
        let (_, rows) = chart.plotting_area().get_pixel_range();
        let column = |x: f64| chart.backend_coord(&(x, 0.0)).0;
        let mut out = String::new();
        push_text(
            &mut out,
            "axis-title",
            (4 * SCALE as i32, 13 * SCALE as i32),
            "start",
            self.y_title,
        );
        let (columns, _) = chart.plotting_area().get_pixel_range();
        for mark in &self.marks {
            let x = column(mark.x);
            push_mark(&mut out, mark, x, &columns, (rows.start, rows.end));
        }
        for strip in &self.strips {
            push_strip(
                &mut out,
                strip,
                (column(strip.from), column(strip.to)),
                (rows.start, rows.end),
            );
        }
        out
    }
}

fn draw_mesh(chart: &mut Chart) -> Drawn {
    let text = ("sans-serif", BACKEND_FONT * SCALE)
        .into_font()
        .color(&TEXT);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID.stroke_width(SCALE))
        .light_line_style(TRANSPARENT)
        .axis_style(GRID.stroke_width(SCALE))
        .x_labels(16)
        .y_labels(16)
        .x_label_style(text.clone())
        .y_label_style(text)
        .set_all_tick_mark_size(4 * SCALE)
        .draw()
}

fn draw_layer(chart: &mut Chart, layer: &Layer) -> Drawn {
    let (Some(first), Some(last)) = (layer.points.first(), layer.points.last()) else {
        return Ok(());
    };
    let color = layer.ink.color();
    let mut outline = layer.points.clone();
    match layer.base.is_empty() {
        true => outline.extend([(last.0, 0.0), (first.0, 0.0)]),
        false => outline.extend(layer.base.iter().rev()),
    }
    chart.draw_series([Polygon::new(outline, color.mix(AREA_OPACITY))])?;
    let line = color.stroke_width(LINE_WIDTH);
    chart.draw_series([PathElement::new(layer.points.clone(), line)])?;
    Ok(())
}

fn push_mark(
    out: &mut String,
    mark: &Mark,
    x: i32,
    columns: &Range<i32>,
    (top, bottom): (i32, i32),
) {
    let RGBColor(red, green, blue) = mark.ink.color();
    let color = format!("#{red:02X}{green:02X}{blue:02X}");
    let _ = writeln!(
        out,
        r##"<line class="mark" stroke="{color}" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>"##,
    );
    let side = mark.side.within(x, columns);
    // A label on the other side leaves the row to the one that belongs there.
    let row = mark.row as i32 + if side == mark.side { 0 } else { 2 };
    let y = top + (12 + LABEL_HEIGHT * row) * SCALE as i32;
    let gap = 4 * SCALE as i32;
    let (x, anchor) = match side {
        Side::Left => (x - gap, "end"),
        Side::Right => (x + gap, "start"),
    };
    let _ = write!(out, r#"<g fill="{color}">"#);
    push_text(out, "mark-label", (x, y), anchor, &mark.label);
    out.push_str("</g>\n");
}

fn push_strip(out: &mut String, strip: &Strip, (from, to): (i32, i32), (top, bottom): (i32, i32)) {
    let (width, height) = ((to - from).max(1), bottom - top);
    let middle = from + width / 2;
    let _ = write!(
        out,
        r#"<g class="strip"><rect x="{from}" y="{top}" width="{width}" height="{height}"/><line x1="{middle}" x2="{middle}" y1="{top}" y2="{bottom}"/>"#,
    );
    let right = ((SIZE.0 - 16) * SCALE) as i32;
    push_text(
        out,
        "reading",
        (right, 13 * SCALE as i32),
        "end",
        &strip.text,
    );
    out.push_str("</g>\n");
}

fn push_text(out: &mut String, class: &str, (x, y): (i32, i32), anchor: &str, text: &str) {
    let size = FONT * SCALE;
    let text = escape(text);
    let _ = write!(
        out,
        r#"<text class="{class}" x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}">{text}</text>"#,
    );
}

/// Puts elements before the end of a finished `<svg>`.
fn with_overlay(mut svg: String, overlay: &str) -> String {
    let end = svg.rfind("</svg>").unwrap_or(svg.len());
    svg.insert_str(end, overlay);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(points: Vec<(f64, f64)>) -> Figure {
        Figure {
            x: Axis::time(4e9),
            y: Axis::share(),
            y_title: "share",
            layers: vec![Layer {
                ink: Ink::Fast,
                points,
                base: Vec::new(),
            }],
            marks: vec![Mark {
                ink: Ink::Slow,
                x: 1e9,
                label: "p50".to_owned(),
                side: Side::Left,
                row: 0,
            }],
            strips: vec![Strip {
                from: 0.0,
                to: 4e9,
                text: "a < b".to_owned(),
            }],
        }
    }

    fn elements<'a>(document: &'a roxmltree::Document, tag: &str) -> Vec<roxmltree::Node<'a, 'a>> {
        document
            .descendants()
            .filter(|node| node.has_tag_name(tag))
            .collect()
    }

    /// The one line in the layer's colour.
    fn curve<'a>(document: &'a roxmltree::Document) -> roxmltree::Node<'a, 'a> {
        let mut lines = elements(document, "polyline").into_iter();
        let found = lines.find(|line| line.attribute("stroke") == Some("#2563EB"));
        found.expect("a line in the layer's colour")
    }

    #[test]
    fn a_figure_has_its_curve_ticks_mark_and_strip() {
        let svg = figure(vec![(0.0, 0.0), (2e9, 1.0), (4e9, 0.5)])
            .draw()
            .unwrap();
        let document = roxmltree::Document::parse(&svg).expect("well-formed");
        let texts: Vec<_> = elements(&document, "text")
            .iter()
            .filter_map(|t| t.text())
            .map(str::trim)
            .collect();
        for expected in ["50 %", "100 %", "2 s", "4 s", "share", "p50", "a < b"] {
            assert!(texts.contains(&expected), "{expected} not in {texts:?}");
        }
        assert_eq!(elements(&document, "polygon").len(), 1);
        assert_eq!(curve(&document).attribute("fill"), Some("none"));
    }

    #[test]
    fn the_curve_is_where_its_values_are() {
        let svg = figure(vec![(0.0, 0.0), (2e9, 1.0), (4e9, 0.5)])
            .draw()
            .unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let points: Vec<(i32, i32)> = curve(&document)
            .attribute("points")
            .expect("a curve has points")
            .split_whitespace()
            .filter_map(|pair| pair.split_once(','))
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect();
        assert_eq!(points.len(), 3);
        assert!(
            (points[1].0 * 2 - points[0].0 - points[2].0).abs() <= 1,
            "2 s is in the middle"
        );
        assert!(
            (points[2].1 * 2 - points[0].1 - points[1].1).abs() <= 1,
            "50 % is in the middle"
        );
    }

    #[test]
    fn labels_stay_within_the_figure() {
        let columns = 100..1000;
        let side = |side: Side, x| format!("{:?}", side.within(x, &columns));
        assert_eq!(side(Side::Right, 990), "Left");
        assert_eq!(side(Side::Left, 110), "Right");
        assert_eq!(side(Side::Right, 500), "Right");
        assert_eq!(side(Side::Left, 500), "Left");
    }

    #[test]
    fn an_empty_layer_is_no_error() {
        let svg = figure(Vec::new()).draw().unwrap();
        assert!(!svg.contains("<polygon"));
    }
}
