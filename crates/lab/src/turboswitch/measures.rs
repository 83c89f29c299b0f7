//! What is measured, and the row that tells it.

use super::parameters::Parameters;
use crate::model::Column;
use twinpath_engine::Time;
use twinpath_engine::stats::Samples;
use twinpath_parking::{BufferCounters, Fit, facts};

const fn column(name: &'static str, meaning: &'static str) -> Column {
    Column { name, meaning }
}

/// In the order of [`row`]. A kilobyte is 1000 bytes, as in the paper.
pub(crate) const COLUMNS: [Column; 32] = [
    column("output_gbps", "what left"),
    column(
        "refused_share",
        "packets that were not parked, of those that arrived",
    ),
    column(
        "late_share",
        "payloads that came out before their header and were given up, of those parked",
    ),
    column(
        "expired_share",
        "payloads given up after their time-out, of those parked",
    ),
    column(
        "reordered_share",
        "packets that left after a later one of their flow, of those that left",
    ),
    column("recirculations", "rounds of one packet, mean"),
    column("recirculations_p99", "99th percentile"),
    column("recirculations_deviation", "standard deviation"),
    column(
        "queue_kb",
        "queue once an arriving packet and its copies have joined it, mean",
    ),
    column("queue_p99_kb", "99th percentile"),
    column("queue_deviation_kb", "standard deviation"),
    column("queue_min_kb", "the shortest"),
    column("queue_max_kb", "the longest"),
    column(
        "queue_packets",
        "the same in packets, copies included, mean",
    ),
    column("queue_packets_p99", "99th percentile"),
    column("queue_packets_deviation", "standard deviation"),
    column(
        "latency_us",
        "from arrival until the last bit has left, mean",
    ),
    column("latency_deviation_us", "standard deviation"),
    column("latency_min_us", "the shortest"),
    column("latency_median_us", "median"),
    column("latency_p99_us", "99th percentile"),
    column("latency_max_us", "the longest"),
    column("pass_us", "what a queue of the mean length takes to drain"),
    column("port_busy_share", "time that the port sends"),
    column("copies", "copies for each packet, mean"),
    column("target_kb", "where the controller holds the queue, mean"),
    column(
        "beyond_buffer_share",
        "arrivals at which the controller says that the buffer is too small",
    ),
    column("fact1", "recirculations by Fact 1"),
    column("fact2_kb", "least mean queue by Fact 2"),
    column("theorem1_kb", "most queue by Theorem 1"),
    column("corollary1_us", "most latency by Corollary 1"),
    column("events", "events simulated"),
];

/// Measurements after the warm-up.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    pub(crate) busy: Time,
    began: Option<Time>,
    duration: Time,
    before: BufferCounters,
    counted: BufferCounters,
    out_bytes: u64,
    reordered: u64,
    recirculations: Samples,
    queue_bytes: Samples,
    queue_packets: Samples,
    latency_ps: Samples,
    target_bytes: Samples,
    beyond_buffer: u64,
    events: u64,
}

impl Measures {
    /// The warm-up is over.
    pub(crate) fn begin(&mut self, stats: &BufferCounters, now: Time) {
        self.began = Some(now);
        self.before = *stats;
        self.busy = Time::ZERO;
    }

    /// The last packet has arrived.
    pub(crate) fn end(&mut self, stats: &BufferCounters, now: Time, events: u64) {
        self.duration = now - self.began.unwrap_or(now);
        self.counted = *stats;
        self.events = events;
    }

    pub(crate) fn arrival(&mut self, (bytes, packets): (u64, u64), fit: Option<Fit>) {
        if self.began.is_none() {
            return;
        }
        self.queue_bytes.record(bytes);
        self.queue_packets.record(packets);
        if let Some(fit) = fit {
            self.target_bytes.record(fit.target_bytes());
            self.beyond_buffer += u64::from(matches!(fit, Fit::TooSmall { .. }));
        }
    }

    pub(crate) fn departure(
        &mut self,
        bytes: u32,
        latency: Time,
        recirculations: u32,
        is_in_order: bool,
    ) {
        if self.began.is_none() {
            return;
        }
        self.out_bytes += u64::from(bytes);
        self.reordered += u64::from(!is_in_order);
        self.recirculations.record(recirculations.into());
        self.latency_ps.record(latency.0);
    }

    fn count(&self, of: impl Fn(&BufferCounters) -> u64) -> f64 {
        (of(&self.counted) - of(&self.before)) as f64
    }
}

/// All measurements, in the order of [`COLUMNS`].
pub(crate) fn row(parameters: &Parameters, measures: &Measures) -> [f64; COLUMNS.len()] {
    let m = measures;
    let parked = m.count(|stats| stats.parked);
    let refused = m.count(BufferCounters::refused);
    let arrivals = m.queue_bytes.count() as f64;
    let seconds = m.duration.s_f64();
    let (queue, packets, latency) = (&m.queue_bytes, &m.queue_packets, &m.latency_ps);
    let (kb, us) = (|bytes: f64| bytes / 1e3, |ps: f64| ps / 1e6);
    let (input, loopback) = (parameters.input_gbps * 1e9, parameters.loopback().bps_f64());
    let (cores_ns, switch_ns) = (parameters.mean_cores_us() * 1e3, parameters.switch_us * 1e3);
    [
        share(m.out_bytes as f64 * 8e-9, seconds),
        share(refused, arrivals),
        share(m.count(|stats| stats.late), parked),
        share(m.count(|stats| stats.expired), parked),
        share(m.reordered as f64, m.recirculations.count() as f64),
        m.recirculations.mean(),
        m.recirculations.quantile(0.99) as f64,
        m.recirculations.deviation(),
        kb(queue.mean()),
        kb(queue.quantile(0.99) as f64),
        kb(queue.deviation()),
        kb(queue.min() as f64),
        kb(queue.max() as f64),
        packets.mean(),
        packets.quantile(0.99) as f64,
        packets.deviation(),
        us(latency.mean()),
        us(latency.deviation()),
        us(latency.min() as f64),
        us(latency.quantile(0.5) as f64),
        us(latency.quantile(0.99) as f64),
        us(latency.max() as f64),
        queue.mean() * 8e6 / loopback,
        share(m.busy.s_f64(), seconds),
        share(m.count(|stats| stats.copies), parked),
        kb(m.target_bytes.mean()),
        share(m.beyond_buffer as f64, arrivals),
        facts::recirculations(input, loopback),
        kb(facts::least_queue_bytes(
            input, loopback, cores_ns, switch_ns,
        )),
        kb(facts::most_queue_bytes(loopback, cores_ns)),
        facts::most_latency_ns(cores_ns) / 1e3,
        m.events as f64,
    ]
}

fn share(part: f64, whole: f64) -> f64 {
    match whole > 0.0 {
        true => part / whole,
        false => 0.0,
    }
}
