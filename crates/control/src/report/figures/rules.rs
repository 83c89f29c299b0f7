//! Cached rules over time.

use super::super::plot::{Figure, Ink, Layer, Strip};
use super::{Axis, MAX_WINDOWS, Sample, from_the_start, units};

/// Rules that packets met, over time; each point is the most in its window.
/// `None` when there never was one.
pub fn rules(series: &[Sample]) -> Option<Figure> {
    let peaks = peaks(series);
    let (end_ns, _) = *peaks.last()?;
    let highest = peaks.iter().map(|&(_, active)| active).max()?;
    if highest == 0 {
        return None;
    }
    let points = peaks
        .iter()
        .map(|&(time_ns, active)| (time_ns as f64, active as f64));
    Some(Figure {
        x: Axis::time(end_ns as f64),
        y: Axis::amount(highest as f64),
        y_title: "rules",
        layers: vec![Layer {
            ink: Ink::Active,
            points: [(0.0, 0.0)].into_iter().chain(points).collect(),
            base: Vec::new(),
        }],
        marks: Vec::new(),
        strips: strips(&peaks),
    })
}

/// The end of each window, ns, and the most active rules in it.
fn peaks(series: &[Sample]) -> Vec<(u64, u64)> {
    let samples = from_the_start(series);
    let every = (samples.len() - 1).div_ceil(MAX_WINDOWS).max(1);
    let peak = |window: &[Sample]| {
        let active = window.iter().map(|sample| sample.rules_active).max();
        (window[window.len() - 1].time_ns, active.unwrap_or(0))
    };
    samples[1..].chunks(every).map(peak).collect()
}

fn strips(peaks: &[(u64, u64)]) -> Vec<Strip> {
    let mut from = 0.0;
    let strip = |&(end_ns, active): &(u64, u64)| Strip {
        from: std::mem::replace(&mut from, end_ns as f64),
        to: end_ns as f64,
        text: format!(
            "{} · {} rules active",
            units::duration(end_ns),
            units::short_count(active)
        ),
    };
    peaks.iter().map(strip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time_ns: u64, rules_active: u64) -> Sample {
        Sample {
            time_ns,
            rules_active,
            ..Sample::default()
        }
    }

    #[test]
    fn without_rules_there_is_no_figure() {
        assert!(rules(&[]).is_none() && rules(&[sample(5, 0)]).is_none());
    }

    #[test]
    fn a_short_peak_is_not_thinned_away() {
        let mut series: Vec<_> = (1..=600).map(|time| sample(time, 4)).collect();
        series[300].rules_active = 90;
        let figure = rules(&series).expect("rules");
        let points = &figure.layers[0].points;
        assert!(points.len() <= MAX_WINDOWS + 1);
        assert_eq!(points.iter().filter(|&&(_, y)| y == 90.0).count(), 1);
    }
}
