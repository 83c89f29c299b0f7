//! The figures of a report: which data, which axes, which words.

mod rules;

pub use rules::rules;
use std::ops::Range;

use super::axis::Axis;
use super::plot::{Figure, Ink, Layer, Mark, Side, Strip};
use super::{Bar, Latency, Percentiles, Sample, units};

/// Steps in time a figure resolves; more would be noise at its width.
const MAX_WINDOWS: usize = 120;
/// Most bars of a distribution that are drawn.
const MAX_BARS: usize = 200;

/// Latency of each path: what share of the path's packets lies in each bar.
/// `None` when nothing was measured.
pub fn latency(latency: &Latency) -> Option<Figure> {
    let fast = distribution(&latency.fast.histogram);
    let slow = distribution(&latency.slow.histogram);
    let edges = || fast.iter().chain(&slow);
    let low = edges().map(|bar| bar.from_ns).reduce(f64::min)?;
    let high = edges().map(|bar| bar.to_ns).reduce(f64::max)?;
    let highest = edges().map(|bar| bar.share).fold(0.0, f64::max);
    Some(Figure {
        // Room at the left for the label of an early median.
        x: Axis::latency(low / 1.8, high * 1.2),
        // Room above the curves for the marks' labels.
        y: Axis::amount(highest * 120.0),
        y_title: "% of the path's packets",
        layers: vec![
            distribution_layer(Ink::Slow, &slow),
            distribution_layer(Ink::Fast, &fast),
        ],
        marks: [
            marks(Ink::Fast, 0, &latency.fast),
            marks(Ink::Slow, 1, &latency.slow),
        ]
        .concat(),
        strips: latency_strips(&fast, &slow),
    })
}

/// Share of packets the fast path settled alone, over time. `None` without a
/// window that has packets.
pub fn hit_ratio(series: &[Sample]) -> Option<Figure> {
    let windows = windows(series);
    let end_ns = windows.last()?.end_ns;
    let busy = |window: &&Window| window.packets() > 0;
    windows.iter().find(busy)?;
    let strips = windows.iter().filter(busy).map(|window| {
        let share = units::percent(window.fast_share());
        window.strip(format!(
            "{share} of {} packets",
            units::short_count(window.packets())
        ))
    });
    Some(Figure {
        x: Axis::time(end_ns),
        y: Axis::share(),
        y_title: "fast path",
        layers: windows
            .chunk_by(|a, b| (a.packets() > 0) == (b.packets() > 0))
            .filter(|run| run[0].packets() > 0)
            .map(|run| Layer {
                ink: Ink::Fast,
                points: steps(run, Window::fast_share),
                base: Vec::new(),
            })
            .collect(),
        marks: Vec::new(),
        strips: strips.collect(),
    })
}

/// Packets per second that left, those that came by way of the slow path on top
/// of the others. `None` without a window.
pub fn throughput(series: &[Sample]) -> Option<Figure> {
    let windows = windows(series);
    let end_ns = windows.last()?.end_ns;
    let highest = windows.iter().map(Window::rate_out).fold(0.0, f64::max);
    let strips = windows.iter().map(|window| {
        let [fast, slow, dropped] = [window.out_fast, window.out_slow, window.drops]
            .map(|packets| units::short_count(window.per_second(packets) as u64));
        window.strip(format!("out {fast} fast · {slow} slow · dropped {dropped}"))
    });
    let fast = steps(&windows, |window| window.per_second(window.out_fast));
    let both = steps(&windows, Window::rate_out);
    Some(Figure {
        x: Axis::time(end_ns),
        y: Axis::amount(highest),
        y_title: "packets/s",
        layers: stacked([(Ink::Fast, fast), (Ink::Slow, both)]),
        marks: Vec::new(),
        strips: strips.collect(),
    })
}

/// Slots in use by state, stacked; each point is the most in its window.
/// `None` when no slot was ever in use.
pub fn slots(series: &[Sample]) -> Option<Figure> {
    let peaks = slot_peaks(series);
    let end_ns = peaks.last()?.end_ns;
    let highest = peaks.iter().map(SlotPeak::all).fold(0.0, f64::max);
    if highest == 0.0 {
        return None;
    }
    let active = slot_points(&peaks, |peak| peak.active);
    let incomplete = slot_points(&peaks, |peak| peak.active + peak.incomplete);
    let frozen = slot_points(&peaks, SlotPeak::all);
    Some(Figure {
        x: Axis::time(end_ns),
        y: Axis::amount(highest),
        y_title: "slots",
        layers: stacked([
            (Ink::Active, active),
            (Ink::Incomplete, incomplete),
            (Ink::Frozen, frozen),
        ]),
        marks: Vec::new(),
        strips: peaks.iter().map(SlotPeak::strip).collect(),
    })
}

/// Layers on top of each other, the lowest first; each curve is the sum of
/// those up to it. Where one adds nothing it is not drawn, and hides no other.
fn stacked<const N: usize>(curves: [(Ink, Vec<(f64, f64)>); N]) -> Vec<Layer> {
    let ground = curves[0].1.iter().map(|&(x, _)| (x, 0.0));
    let mut base: Vec<_> = ground.collect();
    let mut layers = Vec::new();
    for (ink, points) in curves {
        let stretches = stretches(&points, &base);
        layers.extend(stretches.into_iter().map(|stretch| Layer {
            ink,
            points: points[stretch.clone()].to_vec(),
            base: base[stretch].to_vec(),
        }));
        base = points;
    }
    layers
}

/// Where a curve is above its base, with a point on either side.
fn stretches(points: &[(f64, f64)], base: &[(f64, f64)]) -> Vec<Range<usize>> {
    let mut stretches: Vec<Range<usize>> = Vec::new();
    let above = points.iter().zip(base).enumerate();
    for (place, _) in above.filter(|(_, (point, below))| point.1 > below.1) {
        let (from, to) = (place.saturating_sub(1), (place + 2).min(points.len()));
        match stretches.last_mut().filter(|last| last.end > from) {
            Some(last) => last.end = to,
            None => stretches.push(from..to),
        }
    }
    stretches
}

/// A bar with both edges, as a share of its path's packets.
#[derive(Debug)]
struct Share {
    from_ns: f64,
    to_ns: f64,
    count: u64,
    share: f64,
}

/// The bars that can be drawn on a logarithmic axis, ascending.
fn distribution(bars: &[Bar]) -> Vec<Share> {
    let mut bars: Vec<Bar> = bars.iter().take(MAX_BARS).copied().collect();
    bars.sort_by_key(|bar| bar.upper_bound_ns);
    bars.dedup_by_key(|bar| bar.upper_bound_ns);
    let total = bars.iter().map(|bar| bar.count as f64).sum::<f64>();
    if total == 0.0 {
        return Vec::new();
    }
    let mut before_ns = None;
    let shares = bars.into_iter().map(|bar| {
        let to_ns = (bar.upper_bound_ns as f64).max(1.0);
        // Nothing tells the first bar's lower edge: a tenth of a decade.
        let from_ns = before_ns.replace(to_ns).unwrap_or((to_ns / 1.26).max(0.5));
        Share {
            from_ns,
            to_ns,
            count: bar.count,
            share: bar.count as f64 / total,
        }
    });
    shares.collect()
}

fn distribution_layer(ink: Ink, bars: &[Share]) -> Layer {
    let corners = |bar: &Share| {
        [
            (bar.from_ns, bar.share * 100.0),
            (bar.to_ns, bar.share * 100.0),
        ]
    };
    Layer {
        ink,
        points: bars.iter().flat_map(corners).collect(),
        base: Vec::new(),
    }
}

fn marks(ink: Ink, row: u32, percentiles: &Percentiles) -> Vec<Mark> {
    if percentiles.count == 0 {
        return Vec::new();
    }
    let marks = [
        ("p50", percentiles.p50_ns, Side::Left),
        ("p99", percentiles.p99_ns, Side::Right),
    ];
    let mark = |(label, value_ns, side): (&str, u64, Side)| Mark {
        ink,
        x: value_ns as f64,
        label: label.to_owned(),
        side,
        row,
    };
    marks.into_iter().map(mark).collect()
}

/// One strip per bar of either path, naming the packets of both.
fn latency_strips(fast: &[Share], slow: &[Share]) -> Vec<Strip> {
    let mut edges: Vec<f64> = fast
        .iter()
        .chain(slow)
        .flat_map(|bar| [bar.from_ns, bar.to_ns])
        .collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    let at = |bars: &[Share], ns: f64| {
        let bar = bars.iter().find(|bar| bar.from_ns <= ns && ns < bar.to_ns);
        bar.map_or(0, |bar| bar.count)
    };
    let strip = |pair: &[f64]| {
        let fast = units::short_count(at(fast, pair[0]));
        let slow = units::short_count(at(slow, pair[0]));
        let upto = units::duration(pair[1] as u64);
        Strip {
            from: pair[0],
            to: pair[1],
            text: format!("≤ {upto}: fast {fast} · slow {slow}"),
        }
    };
    edges.windows(2).map(strip).collect()
}

/// What happened between two samples.
#[derive(Debug)]
struct Window {
    start_ns: f64,
    end_ns: f64,
    fast: u64,
    slow: u64,
    out_fast: u64,
    out_slow: u64,
    drops: u64,
}

impl Window {
    fn between(from: &Sample, to: &Sample) -> Self {
        Self {
            start_ns: from.time_ns as f64,
            end_ns: to.time_ns as f64,
            fast: to.packets_fast.saturating_sub(from.packets_fast),
            slow: to.packets_slow.saturating_sub(from.packets_slow),
            out_fast: to.packets_out_fast.saturating_sub(from.packets_out_fast),
            out_slow: to.packets_out_slow.saturating_sub(from.packets_out_slow),
            drops: to.drops.saturating_sub(from.drops),
        }
    }

    fn packets(&self) -> u64 {
        self.fast.saturating_add(self.slow)
    }

    fn fast_share(&self) -> f64 {
        units::fraction(self.fast, self.packets())
    }

    fn per_second(&self, packets: u64) -> f64 {
        packets as f64 * 1e9 / (self.end_ns - self.start_ns).max(1.0)
    }

    fn rate_out(&self) -> f64 {
        self.per_second(self.out_fast.saturating_add(self.out_slow))
    }

    fn strip(&self, text: String) -> Strip {
        Strip {
            from: self.start_ns,
            to: self.end_ns,
            text: format!("{} · {text}", units::duration(self.end_ns as u64)),
        }
    }
}

/// The run cut into at most [`MAX_WINDOWS`] windows, from its start.
fn windows(series: &[Sample]) -> Vec<Window> {
    let samples = from_the_start(series);
    let last = samples.len() - 1;
    let every = last.div_ceil(MAX_WINDOWS).max(1);
    let cuts: Vec<usize> = (0..last).step_by(every).chain([last]).collect();
    let window = |pair: &[usize]| Window::between(&samples[pair[0]], &samples[pair[1]]);
    cuts.windows(2).map(window).collect()
}

/// The samples in ascending time, those out of order left out, with the start
/// before them: every total is zero at time zero.
fn from_the_start(series: &[Sample]) -> Vec<Sample> {
    let mut samples = vec![Sample::default()];
    let mut latest_ns = 0;
    for sample in series {
        if sample.time_ns > latest_ns {
            latest_ns = sample.time_ns;
            samples.push(*sample);
        }
    }
    samples
}

/// A value per window as a curve: each at its window's end, the first one also
/// at its start.
fn steps(windows: &[Window], value: impl Fn(&Window) -> f64) -> Vec<(f64, f64)> {
    let start = windows
        .first()
        .map(|window| (window.start_ns, value(window)));
    let ends = windows.iter().map(|window| (window.end_ns, value(window)));
    start.into_iter().chain(ends).collect()
}

/// The most slots in each state within a window.
#[derive(Debug)]
struct SlotPeak {
    start_ns: f64,
    end_ns: f64,
    active: f64,
    incomplete: f64,
    frozen: f64,
}

impl SlotPeak {
    fn of(before: &Sample, window: &[Sample]) -> Self {
        let most = |slots: fn(&Sample) -> u64| window.iter().map(slots).max().unwrap_or(0) as f64;
        Self {
            start_ns: before.time_ns as f64,
            end_ns: window.last().unwrap_or(before).time_ns as f64,
            active: most(|sample| sample.slots_active),
            incomplete: most(|sample| sample.slots_incomplete),
            frozen: most(|sample| sample.slots_frozen),
        }
    }

    fn all(&self) -> f64 {
        self.active + self.incomplete + self.frozen
    }

    fn strip(&self) -> Strip {
        let short = |slots: f64| units::short_count(slots as u64);
        let (active, incomplete, frozen) = (
            short(self.active),
            short(self.incomplete),
            short(self.frozen),
        );
        Strip {
            from: self.start_ns,
            to: self.end_ns,
            text: format!(
                "{} · active {active} · incomplete {incomplete} · frozen {frozen}",
                units::duration(self.end_ns as u64)
            ),
        }
    }
}

fn slot_peaks(series: &[Sample]) -> Vec<SlotPeak> {
    let samples = from_the_start(series);
    let every = (samples.len() - 1).div_ceil(MAX_WINDOWS).max(1);
    let (start, rest) = samples.split_at(1);
    let mut before = start[0];
    let peak = |window: &[Sample]| {
        SlotPeak::of(
            &std::mem::replace(&mut before, window[window.len() - 1]),
            window,
        )
    };
    rest.chunks(every).map(peak).collect()
}

fn slot_points(peaks: &[SlotPeak], height: impl Fn(&SlotPeak) -> f64) -> Vec<(f64, f64)> {
    let points = peaks.iter().map(|peak| (peak.end_ns, height(peak)));
    [(0.0, 0.0)].into_iter().chain(points).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::edge_report;
    use super::*;

    fn sample(time_ns: u64, fast: u64, slow: u64) -> Sample {
        Sample {
            time_ns,
            packets_in: fast + slow,
            packets_fast: fast,
            packets_slow: slow,
            packets_out_fast: fast,
            packets_out_slow: slow,
            slots_active: fast,
            ..Sample::default()
        }
    }

    #[test]
    fn nothing_to_show_is_no_figure() {
        assert!(latency(&Latency::default()).is_none());
        for series in [&[][..], &[Sample::default()]] {
            assert!(hit_ratio(series).is_none() && throughput(series).is_none());
            assert!(slots(series).is_none());
        }
        assert!(hit_ratio(&[sample(5, 0, 0)]).is_none());
    }

    #[test]
    fn one_sample_spans_the_run() {
        let figure = hit_ratio(&[sample(1_000, 3, 1)]).expect("one window");
        assert_eq!(figure.layers[0].points, [(0.0, 0.75), (1_000.0, 0.75)]);
    }

    #[test]
    fn a_pause_leaves_a_gap_in_the_hit_ratio() {
        let series = [sample(10, 5, 5), sample(20, 5, 5), sample(30, 15, 5)];
        let figure = hit_ratio(&series).expect("two runs");
        let curves: Vec<_> = figure
            .layers
            .iter()
            .map(|layer| &layer.points[..])
            .collect();
        assert_eq!(
            curves,
            [&[(0.0, 0.5), (10.0, 0.5)][..], &[(20.0, 1.0), (30.0, 1.0)]]
        );
        assert_eq!(figure.strips.len(), 2);
    }

    #[test]
    fn windows_cover_every_packet_once() {
        let series = edge_report().series;
        let windows = windows(&series);
        assert!((100..=MAX_WINDOWS).contains(&windows.len()));
        let total: u64 = windows.iter().map(Window::packets).sum();
        assert_eq!(total, series.last().unwrap().packets_in);
        assert!(
            windows
                .windows(2)
                .all(|pair| pair[0].end_ns == pair[1].start_ns)
        );
    }

    #[test]
    fn rates_are_per_second() {
        let figure = throughput(&[sample(500_000_000, 300, 100)]).expect("one window");
        assert_eq!(figure.layers[0].points[1].1, 600.0);
        assert_eq!(figure.layers[1].points[1].1, 800.0);
        assert_eq!(figure.layers[1].base, figure.layers[0].points);
    }

    /// What was dropped has not left.
    #[test]
    fn throughput_is_what_left() {
        let mut dropping = sample(500_000_000, 300, 100);
        (dropping.packets_out_fast, dropping.drops) = (50, 250);
        let figure = throughput(&[dropping]).expect("one window");
        assert_eq!(figure.layers[0].points[1].1, 100.0);
        assert_eq!(figure.layers[1].points[1].1, 300.0);
        assert!(
            figure.strips[0]
                .text
                .ends_with("out 100 fast · 200 slow · dropped 500")
        );
    }

    #[test]
    fn a_layer_hides_none_where_it_adds_nothing() {
        let slow = [0, 0, 0, 40, 40, 40, 40];
        let series = (1..)
            .zip(slow)
            .map(|(time, slow)| sample(time * 1000, time * 100, slow));
        let figure = throughput(&series.collect::<Vec<_>>()).expect("windows");
        let slow = figure.layers.iter().filter(|layer| layer.ink == Ink::Slow);
        let ends: Vec<_> = slow
            .map(|layer| (layer.points[0].0, layer.points[layer.points.len() - 1].0))
            .collect();
        assert_eq!(ends, [(3000.0, 5000.0)]);
    }

    #[test]
    fn a_path_without_packets_is_not_drawn() {
        let figure = throughput(&[sample(500_000_000, 0, 100)]).expect("one window");
        let inks: Vec<_> = figure.layers.iter().map(|layer| layer.ink).collect();
        assert_eq!(inks, [Ink::Slow]);
    }

    #[test]
    fn a_short_burst_of_slots_is_not_thinned_away() {
        let mut series: Vec<_> = (1..=600).map(|time| sample(time, 10, 0)).collect();
        series[301].slots_incomplete = 77;
        let peaks = slot_peaks(&series);
        assert!(peaks.len() <= MAX_WINDOWS);
        assert_eq!(
            peaks.iter().map(|peak| peak.incomplete).fold(0.0, f64::max),
            77.0
        );
    }

    #[test]
    fn a_distribution_adds_up_and_keeps_its_order() {
        let report = edge_report();
        let bars = distribution(&report.latency.fast.histogram);
        assert!((bars.iter().map(|bar| bar.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(bars.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
    }
}
