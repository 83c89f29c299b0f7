//! Axes with round ticks: amounts, shares, time, and latency on a logarithm.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// Most steps between the ticks of a linear axis.
const STEPS: f64 = 6.0;
/// Units of time and the amount from which each is used, ns.
const TIME_UNITS: [(&str, f64, f64); 7] = [
    ("ns", 1.0, 0.0),
    ("µs", 1e3, 1e3),
    ("ms", 1e6, 1e6),
    ("s", 1e9, 1e9),
    ("min", 60e9, 600e9),
    ("h", 3600e9, 18_000e9),
    ("d", 86_400e9, 345_600e9),
];
const AMOUNT_UNITS: [(&str, f64, f64); 7] = [
    ("", 1.0, 0.0),
    ("k", 1e3, 1e3),
    ("M", 1e6, 1e6),
    ("G", 1e9, 1e9),
    ("T", 1e12, 1e12),
    ("P", 1e15, 1e15),
    ("E", 1e18, 1e18),
];

/// One axis: a range, how values lie on it, and labelled ticks.
#[derive(Clone, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to at least `high`, in thousands, millions and so on.
    pub fn amount(high: f64) -> Self {
        let mut axis = Self::linear(high, &AMOUNT_UNITS);
        // Room above the highest value, up to the next tick.
        let step = axis.ticks.get(1).map_or(axis.high, |(value, _)| *value);
        let steps = (axis.high / step).ceil();
        if steps * step > axis.ticks.last().map_or(0.0, |(value, _)| *value) {
            axis = Self::linear(steps * step, &AMOUNT_UNITS);
        }
        axis
    }

    /// From 0 to `high_ns`, in the unit that suits.
    pub fn time(high_ns: f64) -> Self {
        Self::linear(high_ns, &TIME_UNITS)
    }

    /// A share of one, 0 to 100 %.
    pub fn share() -> Self {
        let ticks =
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|value| (value, format!("{} %", value * 100.0)));
        Self {
            low: 0.0,
            high: 1.0,
            logarithmic: false,
            ticks: ticks.into(),
        }
    }

    /// Latency from `low_ns` (above zero) to `high_ns`, logarithmic.
    pub fn latency(low_ns: f64, high_ns: f64) -> Self {
        let low = low_ns.max(1.0);
        let high = high_ns.max(low * 1.1);
        let decades = (high / low).log10();
        let within: &[f64] = if decades < 2.5 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let every = (decades / 7.0).ceil().max(1.0) as usize;
        let exponents = (low.log10().floor() as i32..=high.log10().ceil() as i32).step_by(every);
        let values =
            exponents.flat_map(|exponent| within.iter().map(move |m| m * 10f64.powi(exponent)));
        let ticks = values.filter(|value| (low..=high).contains(value));
        Self {
            low,
            high,
            logarithmic: true,
            ticks: ticks.map(|value| (value, latency_label(value))).collect(),
        }
    }

    fn linear(high: f64, units: &[(&str, f64, f64)]) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let (unit, factor, _) = *units
            .iter()
            .rfind(|(_, _, from)| high >= *from)
            .unwrap_or(&units[0]);
        let step = round_step(high / factor);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let count = (high / factor / step * (1.0 + 1e-9)).floor() as u32;
        let ticks = (0..=count).map(|index| {
            let value = f64::from(index) * step;
            let label = match index {
                0 => "0".to_owned(),
                _ => format!("{value:.decimals$} {unit}").trim_end().to_owned(),
            };
            (value * factor, label)
        });
        Self {
            low: 0.0,
            high,
            logarithmic: false,
            ticks: ticks.collect(),
        }
    }

    /// Where a value lies, 0 at the low end and 1 at the high end.
    fn position(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that needs at most
/// [`STEPS`] of them.
fn round_step(high: f64) -> f64 {
    let least = high / STEPS;
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|multiple| multiple * power);
    steps
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(steps[3])
}

fn latency_label(value_ns: f64) -> String {
    let steps = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
    let (unit, factor) = *steps
        .iter()
        .find(|(_, f)| value_ns >= *f)
        .unwrap_or(&steps[3]);
    format!("{} {unit}", (value_ns / factor).round())
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.position(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let values = self.ticks.iter().map(|(value, _)| *value);
        values.take(hint.max_num_points()).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(tick, _)| tick == value);
        tick.map(|(_, label)| label.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn amounts_end_on_a_tick() {
        assert_eq!(
            labels(&Axis::amount(9.3e6)),
            ["0", "2 M", "4 M", "6 M", "8 M", "10 M"]
        );
        assert_eq!(
            labels(&Axis::amount(3.0)),
            ["0", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0"]
        );
        assert_eq!(
            labels(&Axis::amount(0.0)),
            ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
    }

    #[test]
    fn times_choose_their_unit() {
        assert_eq!(
            labels(&Axis::time(11.95e9)),
            ["0", "2 s", "4 s", "6 s", "8 s", "10 s"]
        );
        assert_eq!(labels(&Axis::time(1.31e9)), ["0", "0.5 s", "1.0 s"]);
        assert_eq!(
            labels(&Axis::time(3000e9)),
            ["0", "10 min", "20 min", "30 min", "40 min", "50 min"]
        );
    }

    #[test]
    fn latencies_have_one_tick_a_decade_or_three() {
        assert_eq!(
            labels(&Axis::latency(30.0, 4e6)),
            ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]
        );
        assert_eq!(
            labels(&Axis::latency(30.0, 600.0)),
            ["50 ns", "100 ns", "200 ns", "500 ns"]
        );
    }

    #[test]
    fn a_logarithm_puts_equal_ratios_at_equal_distances() {
        let axis = Axis::latency(10.0, 1000.0);
        assert_eq!(axis.map(&10.0, (0, 200)), 0);
        assert_eq!(axis.map(&100.0, (0, 200)), 100);
        assert_eq!(axis.map(&1000.0, (0, 200)), 200);
    }

    proptest! {
        #[test]
        fn ticks_are_few_ascending_and_within(high in 0.0f64..2e19, low in 1.0f64..1e12) {
            for axis in [Axis::amount(high), Axis::time(high), Axis::latency(low, low + high)] {
                let values: Vec<f64> = axis.ticks.iter().map(|(value, _)| *value).collect();
                prop_assert!(values.len() <= 2 * STEPS as usize);
                prop_assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(values.iter().all(|v| *v >= axis.low && *v <= axis.high * 1.001));
                prop_assert!((0..=100).contains(&axis.map(&high, (0, 100))));
            }
        }
    }
}
