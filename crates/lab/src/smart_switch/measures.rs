//! What is measured of a box.

use super::dpu::Memory;
use super::parameters::Setting;
use crate::model::Column;
use std::ops::Range;
use twinpath_engine::Time;
use twinpath_engine::stats::Samples;

const fn column(name: &'static str, meaning: &'static str) -> Column {
    Column { name, meaning }
}

pub(super) const COLUMNS: [Column; 19] = [
    column("output_mpps", "packets that left, millions a second"),
    column(
        "output_gbps",
        "their frames, with tunnels and checksums, without what a wire needs besides",
    ),
    column("lost_share", "packets that were lost, of those that came"),
    column(
        "latency_us",
        "mean time of a packet of a known flow in the box",
    ),
    column("latency_p99_us", "99th percentile of the same"),
    column(
        "connections_m_per_s",
        "connections whose last packet left, millions a second",
    ),
    column(
        "failed_share",
        "connections that lost a packet, of those that began",
    ),
    column(
        "judged_share",
        "packets that policies judged, of those that came",
    ),
    column(
        "busiest_share",
        "packets of the DPU that got most, as a multiple of an even share",
    ),
    column(
        "even_mpps",
        "arithmetic: what leaves if only the DPUs that are full lose packets, millions a second",
    ),
    column("policy_mb", "a DPU's configuration and compiled tables, MB"),
    column("flow_bytes", "a flow in a DPU's table, bytes"),
    column(
        "memory_share",
        "configuration, tables and all flows that a DPU must hold, of its memory",
    ),
    column("flows_m", "flows for which a DPU has memory, millions"),
    column("power_w", "power of the box under load"),
    column(
        "mpps_per_kw",
        "packets that left, millions a second, for each kW",
    ),
    column("mpps_per_ru", "the same for each rack unit"),
    column(
        "packet_ns",
        "what a packet of a known flow takes a pipeline, or a core",
    ),
    column(
        "connection_ns",
        "what a connection that is opened takes a core",
    ),
];

/// Counts of a run; packets count where they arrive after the warm-up.
#[derive(Debug, Default)]
pub(super) struct Measures {
    pub(super) begin: Time,
    pub(super) end: Time,
    pub(super) came: u64,
    pub(super) lost: u64,
    pub(super) judged: u64,
    /// Packets that left between begin and end, whenever they came, and their bytes.
    left: u64,
    left_bytes: u64,
    latency_ns: Samples,
    pub(super) begun: u64,
    pub(super) failed: u64,
    done: u64,
    /// Packets that each DPU got.
    pub(super) steered: Vec<u64>,
}

/// Ethernet's checksum.
const CHECKSUM_BYTES: u64 = 4;

impl Measures {
    pub(super) fn new(counted: Range<Time>, dpus: usize) -> Self {
        Self {
            begin: counted.start,
            end: counted.end,
            steered: vec![0; dpus],
            ..Self::default()
        }
    }

    pub(super) fn counts(&self, at: Time) -> bool {
        (self.begin..self.end).contains(&at)
    }

    /// A packet that came at one time leaves at another.
    pub(super) fn leave(&mut self, (came, left): (Time, Time), bytes: u32, was_judged: bool) {
        if self.counts(left) {
            self.left += 1;
            self.left_bytes += u64::from(bytes) + CHECKSUM_BYTES;
        }
        if self.counts(came) && !was_judged {
            self.latency_ns.record((left - came).ns());
        }
    }

    /// The last packet of a connection leaves.
    pub(super) fn finish(&mut self, at: Time) {
        self.done += u64::from(self.counts(at));
    }

    pub(super) fn row(&self, setting: &Setting, memory: Memory) -> Vec<f64> {
        let seconds = (self.end - self.begin).s_f64();
        let per_s = |count: u64| count as f64 / seconds / 1e6;
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let dpus = f64::from(setting.parameters.dpus);
        let busiest = self.steered.iter().max().copied().unwrap_or_default();
        let all: u64 = self.steered.iter().sum();
        let mpps = per_s(self.left);
        let room = setting.dpu.memory_gb.value() * f64::from(1 << 30);
        let flows = setting.dpu.flows.value();
        let power = setting.dpu.box_w.value() + dpus * setting.dpu.device_w.value();
        vec![
            mpps,
            8e-9 * self.left_bytes as f64 / seconds,
            share(self.lost, self.came),
            self.latency_ns.mean() / 1e3,
            self.latency_ns.quantile(0.99) as f64 / 1e3,
            per_s(self.done),
            share(self.failed, self.begun),
            share(self.judged, self.came),
            share(busiest, all) * dpus,
            self.even_mpps(setting),
            memory.policy_bytes / 1e6,
            memory.flow_bytes,
            (memory.policy_bytes + flows * memory.flow_bytes) / room,
            (room - memory.policy_bytes).max(0.0) / memory.flow_bytes / 1e6,
            power,
            mpps / (power / 1e3),
            mpps / setting.dpu.rack_units.value(),
            setting.packet_ns(),
            setting.connection_ns(),
        ]
    }

    /// What came to each DPU, up to what it takes.
    fn even_mpps(&self, setting: &Setting) -> f64 {
        let seconds = (self.end - self.begin).s_f64();
        let most = setting.most_packets_per_s() * seconds;
        let each = self.steered.iter().map(|count| (*count as f64).min(most));
        each.sum::<f64>() / seconds / 1e6
    }
}
