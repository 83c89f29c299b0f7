//! Figures of several systems side by side: a bar for each, with its name and its value.

use crate::chart::{COLOURS, Drawn, FONT};
use crate::error::ExperimentError;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// What is drawn.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What stands above.
    pub title: String,
    /// What values are in.
    pub unit: String,
    /// Names and values, which are not below 0, from top to bottom.
    pub bars: Vec<(String, f64)>,
}

const WIDTH: u32 = 900;
const ROW: i32 = 26;
const TITLE: i32 = 44;
const NAMES: i32 = 400;
const LONGEST: f64 = 400.0;

/// Bars as SVG.
///
/// # Errors
/// They cannot be drawn.
pub fn draw(bars: &Bars) -> Result<String, ExperimentError> {
    let mut svg = String::new();
    let height = TITLE + ROW * bars.bars.len() as i32 + 10;
    let drawn = {
        let size = (WIDTH, height.unsigned_abs());
        draw_on(
            &SVGBackend::with_string(&mut svg, size).into_drawing_area(),
            bars,
        )
    };
    drawn.map_err(|error| ExperimentError::Figure(error.to_string()))?;
    Ok(svg)
}

fn draw_on(area: &DrawingArea<SVGBackend, Shift>, bars: &Bars) -> Drawn {
    let text = |size, side| {
        let style = ("sans-serif", size).into_font().color(&BLACK);
        style.pos(Pos::new(side, VPos::Center))
    };
    area.fill(&WHITE)?;
    let title = format!("{}, {}", bars.title, bars.unit);
    area.draw(&Text::new(
        title,
        (10, TITLE / 2),
        text(FONT + 3, HPos::Left),
    ))?;
    let most = bars
        .bars
        .iter()
        .map(|(_, value)| *value)
        .fold(0.0, f64::max);
    let scale = LONGEST / most.max(f64::MIN_POSITIVE);
    for (row, (name, value)) in (0..).zip(&bars.bars) {
        let y = TITLE + ROW * row + ROW / 2;
        let end = NAMES + (value * scale) as i32;
        let colour = COLOURS[0].mix(0.6).filled();
        let corners = [(NAMES, y - ROW / 3), (end, y + ROW / 3)];
        area.draw(&Text::new(
            name.clone(),
            (NAMES - 8, y),
            text(FONT, HPos::Right),
        ))?;
        area.draw(&Rectangle::new(corners, colour))?;
        let value = format!("{value:.2}");
        area.draw(&Text::new(value, (end + 6, y), text(FONT, HPos::Left)))?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bars = [("one", 1.0), ("four", 4.0), ("none", 0.0)];
        let svg = draw(&Bars {
            title: "Rates".into(),
            unit: "Mpps".into(),
            bars: bars.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        })
        .expect("a figure");
        let document = roxmltree::Document::parse(&svg).expect("well-formed");
        let of = |tag: &str, name: &str| -> Vec<String> {
            let all = document.descendants().filter(|node| node.has_tag_name(tag));
            all.filter_map(|node| node.attribute(name).map(str::to_owned))
                .collect()
        };
        // The first one is the ground.
        assert_eq!(of("rect", "width")[1..], ["100", "400", "0"]);
        for text in ["Rates, Mpps", "four", "4.00"] {
            assert!(svg.contains(text), "{svg}");
        }
    }
}
