//! What a run did, as plain data, and how it is told: [`summary()`] for the
//! terminal, [`json`] for programs, [`html`] for people.
//!
//! [`Report`] holds counts; whoever runs a service fills them in and calls
//! [`Report::settle`], which derives shares and throughput. Counters are totals
//! over the whole run. The meaning and unit of every field of `report.json` is
//! in the table of [`json`].

mod axis;
mod control;
mod counts;
mod dash;
mod escape;
mod export;
mod figures;
pub mod html;
pub mod json;
mod kernel;
mod largest;
mod latency;
pub mod metrics;
mod neighbors;
mod parking;
mod plot;
mod ports;
mod rules;
mod series;
mod split;
pub mod summary;
#[cfg(test)]
pub(crate) mod testing;
pub mod units;

use counts::counts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize, Serializer};
use twinpath_core::DropReason;

pub use control::ControlCounters;
pub use dash::{Dash, DirectionFigures, EniFigures, MeterFigures};
pub use export::ExportCounters;
pub use kernel::KernelFigures;
pub use largest::{LargeFlow, LargestFlows};
pub use latency::{LatencyRecorder, MAX_LATENCY_NS};
pub use neighbors::NeighborFigures;
pub use parking::Parking;
pub use ports::{PortFigures, PortLosses, ShardFigures};
pub use rules::{
    RuleCounters, RuleElement, RuleManagerCounters, RuleSelectionCounters, RuleTableCounters,
    Rules, SlowRuleCounters,
};
pub use series::{MAX_SAMPLES, Series};
pub use split::{MemoryServerFigures, QueuePairFigures, SplitCounts, SplitFigures};
pub use summary::summary;

/// The version of the format; readers refuse any other.
pub const SCHEMA: &str = "twinpath-report/1";
/// Name of the report for programs in the report's directory.
pub const JSON_FILE: &str = "report.json";
/// Name of the report for people in the report's directory.
pub const HTML_FILE: &str = "report.html";

/// Everything a run has to tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of the format, always [`SCHEMA`].
    pub schema: String,
    /// What was run, and for how long.
    pub run: RunInfo,
    /// What went otherwise than was asked for, in words.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Packets and bytes into the service and out of it.
    pub totals: Totals,
    /// What the fast path settled alone.
    pub fast: PathTotals,
    /// What the workers saw.
    pub slow: PathTotals,
    /// Dropped packets by reason.
    pub drops: BTreeMap<String, u64>,
    /// Events of the coherence protocol (SwitchNIC §4).
    pub coherence: Coherence,
    /// The flows that the workers know.
    #[serde(default)]
    pub flows: Flows,
    /// How often each worker crashed and began anew.
    #[serde(default)]
    pub worker_restarts: Vec<u64>,
    /// Slots of the fast path's state table while the last packets came in.
    pub slots: SlotCounters,
    /// The same when the run was over, and the workers had what they could have back.
    #[serde(default)]
    pub slots_at_end: SlotCounters,
    /// Cached rules (SFCache §III).
    #[serde(default)]
    pub rules: Rules,
    /// Payloads that waited on the fast path's side (TurboSwitch §III); absent if none may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parking: Option<Parking>,
    /// Packets whose payloads waited in remote memory (Ribosome §3.1); absent if none may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitFigures>,
    /// What a DPU counted, for each ENI; absent if the service is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dash: Option<Dash>,
    /// Time from a packet's arrival to its leaving, by path.
    pub latency: Latency,
    /// Rates over the whole run, by the wall clock.
    pub throughput: Throughput,
    /// Counters of each network function, in chain order.
    pub functions: Vec<FunctionCounters>,
    /// The largest flows, of each function that tells them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub largest_flows: Vec<LargestFlows>,
    /// The rings between the paths.
    pub rings: Rings,
    /// The frame pools.
    pub pool: Pool,
    /// What operators asked at the control socket; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlCounters>,
    /// What a collector was told by IPFIX; absent if the service names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipfix: Option<ExportCounters>,
    /// What network interfaces counted, by port; empty if packets came from elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortFigures>,
    /// What was asked and answered about neighbours; absent if no port has an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbors: Option<NeighborFigures>,
    /// What was followed of the kernel's routes; absent if they are the service file's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelFigures>,
    /// What each shard exchanged with the network and with the others; empty with one shard, or if
    /// packets came from elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardFigures>,
    /// What was lost there; absent if nothing was.
    #[serde(default, skip_serializing_if = "PortLosses::is_none")]
    pub port_losses: PortLosses,
    /// How the run went over time; at most [`MAX_SAMPLES`], ascending.
    pub series: Vec<Sample>,
}

/// What was run, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Name of the service.
    pub service: String,
    /// Which paths packets could take.
    pub paths: Paths,
    /// How the paths were run.
    pub execution: Execution,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Where packets came from: a capture's file name or a generator's name.
    pub input: String,
    /// Workers on the slow path.
    pub workers: u64,
    /// From the first packet's timestamp to the last's, ns.
    pub duration_capture_ns: u64,
    /// From the first packet read to the last one written, wall clock, ns.
    pub duration_wall_ns: u64,
    /// The clock that `series[].time_ns` counts on.
    pub series_clock: Clock,
}

/// Which paths packets could take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Paths {
    /// The fast path and the workers.
    #[default]
    Both,
    /// The slow path alone: the oracle.
    Slow,
}

/// How the paths were run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// Each path on threads of its own.
    #[default]
    Threads,
    /// All in one thread under virtual time.
    Virtual,
}

/// The clock of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Time since the run began.
    #[default]
    Wall,
    /// The packets' timestamps, since the first of them.
    Capture,
}

/// Packets and bytes into the service and out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Packets that arrived.
    pub packets_in: u64,
    /// Bytes that arrived, link-layer header included.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Bytes that left.
    pub bytes_out: u64,
}

/// One path's part of the traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathTotals {
    /// Packets this path settled (forwarded, answered or dropped). One that
    /// went to the slow path counts there only.
    pub packets: u64,
    /// Bytes of those packets as they arrived.
    pub bytes: u64,
    /// Packets of this path as a fraction of both paths' packets, 0 to 1.
    #[serde(serialize_with = "finite")]
    pub share: f64,
}

counts! {
    /// Events of the coherence protocol, all counted since the start.
    Coherence {
        /// State asked for: slots taken, re-arms included.
        pulls,
        /// Pulls the workers answered with the state.
        pulls_granted,
        /// Pulls the workers declined, complex work being pending.
        pulls_declined,
        /// Pulls given up because another packet of the flow overtook the answer.
        cancellations,
        /// Cancelled pulls sent again at once with a new generation.
        rearms,
        /// Pulls given up because no answer came in time.
        incomplete_timeouts,
        /// Pulls given up because the ring was full.
        refused_pulls,
        /// Packets that waited on the fast path for the state of their flow.
        waited,
        /// Of them, those for which it did not come, and that went to the slow path.
        waited_then_punted,
        /// States sent back to the slow path, retries not included.
        write_backs,
        /// Write-backs sent again because no acknowledgement came in time.
        write_back_retries,
        /// Of the write-backs, those of idle flows.
        ttl_write_backs,
        /// Acknowledgements that freed a slot.
        acknowledgements,
        /// Messages of an older generation or another state, rightly ignored.
        stale_messages_ignored,
        /// Packets sent to the slow path because other flows held their bucket.
        collisions,
        /// Frames of the link that came out of order and were dropped.
        reordered_frames,
        /// Frames of the link that never came.
        lost_frames,
    }
}

counts! {
    /// The flows that the workers know, all workers together.
    Flows {
        /// Tables that they are in: at each worker one for each element of the chain with flow state. A
        /// connection that passes several elements is a flow in each.
        #[serde(default)]
        tables,
        /// Known at the end of the run.
        known,
        /// Half-open at the end of the run.
        half_open,
        /// Half-open ones that were forgotten for want of room.
        half_open_forgotten,
        /// Turned away because too many others fell on the same place of the index.
        crowded,
    }
}

counts! {
    /// Slots of the fast path's state table by state.
    SlotCounters {
        /// All slots.
        capacity,
        /// Free.
        initial,
        /// Waiting for the slow path's answer to a pull.
        incomplete,
        /// Holding the flow's state.
        active,
        /// Waiting for the acknowledgement of a write-back.
        frozen,
    }
}

/// Latency by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Packets the fast path settled.
    pub fast: Percentiles,
    /// Packets that went to the slow path.
    pub slow: Percentiles,
}

/// A distribution of latencies, each value within 1 %. All zero when empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Packets measured.
    pub count: u64,
    /// Shortest, ns.
    pub min_ns: u64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 90th percentile, ns.
    pub p90_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// 99.9th percentile, ns.
    pub p999_ns: u64,
    /// Longest, ns.
    pub max_ns: u64,
    /// Mean, ns.
    pub mean_ns: u64,
    /// The distribution, ascending, ten bars a decade.
    pub histogram: Vec<Bar>,
}

/// One bar of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar {
    /// Longest latency the bar holds, ns; the bar before it holds the shorter.
    pub upper_bound_ns: u64,
    /// Packets in the bar.
    pub count: u64,
}

/// Rates over the whole run, by the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Packets that left per second.
    #[serde(serialize_with = "finite")]
    pub packets_per_second: f64,
    /// Bits that left per second.
    #[serde(serialize_with = "finite")]
    pub bits_per_second: f64,
}

/// Counters of one network function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCounters {
    /// The function's name in the service file.
    pub name: String,
    /// Its counters by name.
    pub counters: BTreeMap<String, u64>,
}

/// The rings between the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// Frames one ring holds.
    pub capacity_frames: u64,
}

counts! {
    /// The frame pools.
    Pool {
        /// Frames in all pools.
        frames,
        /// Fewest frames that were free at any time.
        low_water_frames,
        /// Times no frame was free.
        exhausted_events,
    }
}

/// The run at one moment. Packets and drops are totals since the start, slots
/// and rules are as they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When, ns since the start on the clock `run.series_clock` names.
    pub time_ns: u64,
    /// Packets that arrived so far.
    pub packets_in: u64,
    /// Of them, settled by the fast path.
    pub packets_fast: u64,
    /// Of them, sent to the slow path.
    pub packets_slow: u64,
    /// Packets that left so far and had not been on the slow path.
    #[serde(default)]
    pub packets_out_fast: u64,
    /// Packets that left so far and had been there, or were made there.
    #[serde(default)]
    pub packets_out_slow: u64,
    /// Packets dropped so far, for any reason.
    pub drops: u64,
    /// Slots waiting for the answer to a pull.
    pub slots_incomplete: u64,
    /// Slots holding a flow's state.
    pub slots_active: u64,
    /// Slots waiting for the acknowledgement of a write-back.
    pub slots_frozen: u64,
    /// Cached rules that packets meet.
    #[serde(default)]
    pub rules_active: u64,
}

/// Why a report could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file or directory could not be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The text is not JSON or lacks a field.
    #[error("not a report: {0}")]
    Json(#[from] serde_json::Error),
    /// The report is of another version.
    #[error("the report's schema is `{found}`, this program reads `{SCHEMA}`")]
    Schema {
        /// The version found.
        found: String,
    },
    /// The file is larger than any report.
    #[error("the report is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// A figure could not be drawn.
    #[error("a figure could not be drawn: {0}")]
    Plot(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ReportError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::File { path, source }
    }
}

impl Default for Report {
    fn default() -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            warnings: Vec::new(),
            run: RunInfo::default(),
            totals: Totals::default(),
            fast: PathTotals::default(),
            slow: PathTotals::default(),
            drops: BTreeMap::new(),
            coherence: Coherence::default(),
            flows: Flows::default(),
            worker_restarts: Vec::new(),
            slots: SlotCounters::default(),
            slots_at_end: SlotCounters::default(),
            rules: Rules::default(),
            parking: None,
            split: None,
            dash: None,
            latency: Latency::default(),
            throughput: Throughput::default(),
            functions: Vec::new(),
            largest_flows: Vec::new(),
            rings: Rings::default(),
            pool: Pool::default(),
            control: None,
            ipfix: None,
            ports: Vec::new(),
            neighbors: None,
            kernel: None,
            shards: Vec::new(),
            port_losses: PortLosses::default(),
            series: Vec::new(),
        }
    }
}

impl Report {
    /// Adds what another shard knows of ports, neighbours and the kernel, which is all that is there
    /// if nothing was known before.
    pub fn add_ports(&mut self, other: &Self) {
        match self.ports.is_empty() {
            true => self.ports.clone_from(&other.ports),
            false => self
                .ports
                .iter_mut()
                .zip(&other.ports)
                .for_each(|(own, more)| own.add(more)),
        }
        if let Some(more) = &other.neighbors {
            self.neighbors.get_or_insert_default().add(more);
        }
        if let Some(more) = &other.kernel {
            // All follow the same kernel; each leaves frames to it.
            let own = self.kernel.get_or_insert_default();
            let host_packets = own.host_packets + more.host_packets;
            *own = KernelFigures {
                host_packets,
                ..*more
            };
        }
        self.shards.extend_from_slice(&other.shards);
    }

    /// Derives what follows from the counts: each path's share, the throughput.
    pub fn settle(&mut self) {
        let both = self.fast.packets.saturating_add(self.slow.packets);
        self.fast.share = units::fraction(self.fast.packets, both);
        self.slow.share = units::fraction(self.slow.packets, both);
        let per_second = |amount| units::fraction(amount, self.run.duration_wall_ns) * 1e9;
        self.throughput = Throughput {
            packets_per_second: per_second(self.totals.packets_out),
            bits_per_second: per_second(self.totals.bytes_out) * 8.0,
        };
    }

    /// Whether flow state is worth showing: not if the chain makes rules and
    /// shares none, nor if it is a DPU.
    pub fn shows_flow_state(&self) -> bool {
        self.rules.is_empty() && self.dash.is_none() || self.slots.capacity > 0
    }

    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        total_drops(&self.drops)
    }

    /// Packets lost for want of room or by a fault, at ports too; the other drops are decisions.
    pub fn lost(&self) -> u64 {
        total_drops(&losses(&self.drops, &self.port_losses))
    }

    /// The share of these of all packets that there were, what ports lost before it came in included.
    pub fn lost_share(&self) -> f64 {
        let offered = self.totals.packets_in + self.port_losses.before_coming_in();
        units::fraction(self.lost(), offered)
    }

    /// Checks before a run that a report can be written into a directory, which is made if it is
    /// missing. What is there stays as it is.
    ///
    /// # Errors
    /// [`ReportError::File`] names what cannot be made or written.
    pub fn check_folder(directory: &Path) -> Result<(), ReportError> {
        fs::create_dir_all(directory).map_err(ReportError::file(directory))?;
        for name in [JSON_FILE, HTML_FILE] {
            let path = directory.join(name);
            let is_new = !path.exists();
            let opened = fs::OpenOptions::new().append(true).create(true).open(&path);
            opened.map_err(ReportError::file(&path))?;
            if is_new {
                fs::remove_file(&path).map_err(ReportError::file(&path))?;
            }
        }
        Ok(())
    }

    /// Writes `report.json` and `report.html` into a directory, which is made
    /// if it is missing.
    ///
    /// # Errors
    /// [`ReportError::File`] names the file that could not be written.
    pub fn write_to(&self, directory: &Path) -> Result<(), ReportError> {
        fs::create_dir_all(directory).map_err(ReportError::file(directory))?;
        json::write(self, &directory.join(JSON_FILE))?;
        html::write(self, &directory.join(HTML_FILE))
    }
}

/// All drops, whatever the reason.
pub(crate) fn total_drops(drops: &BTreeMap<String, u64>) -> u64 {
    drops.values().copied().fold(0, u64::saturating_add)
}

/// The drops that are losses, and what ports lost.
pub(crate) fn losses(
    drops: &BTreeMap<String, u64>,
    at_ports: &PortLosses,
) -> BTreeMap<String, u64> {
    let mut losses = drops.clone();
    losses.retain(|reason, _| is_loss(reason));
    losses.extend(at_ports.by_name());
    losses
}

/// Whether packets dropped for this reason were lost for want of room or by a fault.
pub(crate) fn is_loss(reason: &str) -> bool {
    DropReason::named(reason).is_some_and(DropReason::is_loss)
}

/// All restarts.
pub(crate) fn total_restarts(restarts: &[u64]) -> u64 {
    restarts.iter().copied().fold(0, u64::saturating_add)
}

/// Which workers crashed how often; empty if none did.
pub(crate) fn restarts_in_words(restarts: &[u64]) -> String {
    let crashed = restarts.iter().enumerate().filter(|&(_, &times)| times > 0);
    let words = crashed.map(|(worker, &times)| format!("worker {worker} {}×", units::count(times)));
    words.collect::<Vec<_>>().join(", ")
}

/// Drops with the most frequent reason first.
pub(crate) fn ranked(counters: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let mut ranked: Vec<_> = counters
        .iter()
        .map(|(name, &n)| (name.as_str(), n))
        .collect();
    ranked.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    ranked
}

/// JSON has no infinity and no NaN: both become 0, so that what was written can
/// be read.
fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(if value.is_finite() { *value } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_derives_shares_and_rates() {
        let mut report = Report::default();
        report.fast.packets = 750;
        report.slow.packets = 250;
        (report.totals.packets_in, report.totals.packets_out) = (2000, 1000);
        (report.totals.bytes_in, report.totals.bytes_out) = (128_000, 64_000);
        report.run.duration_wall_ns = 500_000;
        report.settle();
        assert_eq!((report.fast.share, report.slow.share), (0.75, 0.25));
        assert_eq!(report.throughput.packets_per_second, 2e6);
        assert_eq!(report.throughput.bits_per_second, 1.024e9);
    }

    #[test]
    fn settling_an_empty_run_divides_by_nothing() {
        let mut report = Report::default();
        report.settle();
        assert_eq!(report, Report::default());
    }

    #[test]
    fn both_files_are_written() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let nested = directory.path().join("a/b");
        let report = testing::edge_report();
        report.write_to(&nested).expect("written");
        assert_eq!(json::read(&nested.join(JSON_FILE)).expect("read"), report);
        let page = fs::read_to_string(nested.join(HTML_FILE)).expect("read");
        assert_eq!(page, html::render(&report).expect("drawn"));
    }

    #[test]
    fn an_unwritable_place_is_named() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let error = Report::default()
            .write_to(file.path())
            .expect_err("a file is no directory");
        assert!(
            error
                .to_string()
                .contains(&file.path().display().to_string())
        );
    }
}
