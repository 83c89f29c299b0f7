//! What is counted, and the columns that come of it.

use super::control_plane::Counts as Written;
use super::parameters::Setting;
use crate::model::Column;
use std::collections::BTreeSet;
use twinpath_engine::Time;
use twinpath_engine::devices::{Draw, Power};
use twinpath_engine::stats::Samples;

const fn column(name: &'static str, meaning: &'static str) -> Column {
    Column { name, meaning }
}

pub(super) const COLUMNS: [Column; 37] = [
    column("offered_gbps", "what came, on the wire"),
    column("offered_mpps", "packets that came, in millions a second"),
    column("output_gbps", "what left, on the wire"),
    column("output_mpps", "packets that left, in millions a second"),
    column(
        "lost_share",
        "packets that were lost at a full port, ring or pool",
    ),
    column("fast_share", "packets that left without the slow path"),
    column(
        "latency_us",
        "from arrival at the switch to the end of processing, mean",
    ),
    column("latency_p50_us", "the same, median"),
    column("latency_p99_us", "the same, 99th percentile"),
    column("latency_max_us", "the same, maximum"),
    column(
        "fast_latency_us",
        "the same of packets that left without the slow path, mean",
    ),
    column(
        "slow_latency_us",
        "the same of packets that went to the slow path, mean",
    ),
    column("slow_latency_p99_us", "the same, 99th percentile"),
    column("busy_share", "time that the cores worked"),
    column("power_w", "of ports in use, devices and cores"),
    column("gbps_per_w", "energy efficiency: what left for each watt"),
    column("states", "flows whose state is at the switch in the end"),
    column("pulls_per_s", "states asked for"),
    column(
        "cancelled_share",
        "of these, the ones that another packet cancelled",
    ),
    column("collision_share", "packets of hot flows that found no slot"),
    column(
        "write_backs_per_s",
        "states given back because of a complex packet",
    ),
    column("rules", "rules that packets meet in the end"),
    column("rules_mean", "the same, mean over time"),
    column("rules_selected", "rules that workers asked for"),
    column("rules_per_s", "the same a second"),
    column("table_entries", "table entries of the rules in the end"),
    column(
        "entries_per_s",
        "table entries written for new rules a second",
    ),
    column(
        "requests_refused",
        "requests for which the control plane had no room",
    ),
    column("flows_seen", "flows that sent a packet"),
    column(
        "flows_by_rules",
        "of these, the ones of which a packet met a rule",
    ),
    column(
        "efficiency",
        "cache efficiency: flows by rules for each rule selected (SFCache §V-E)",
    ),
    column(
        "selected_share",
        "rules selected for each flow (SFCache §V-E)",
    ),
    column(
        "most_gbps_by_insertions",
        "input at which the control plane would be busy all the time (SFCache §V-F)",
    ),
    column(
        "most_gbps_by_rules",
        "input at which the tables would be full (SFCache §V-F)",
    ),
    column(
        "closed_form",
        "what a full table of one way holds of uniform flows: (1 - exp(-x)) / x of x flows a slot",
    ),
    column(
        "interruption_us",
        "time in which no packet was taken, while the chain was replaced",
    ),
    column("waited_packets", "packets that waited for it"),
];

/// Counters that the node has at some time.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) pulls: u64,
    pub(super) cancelled: u64,
    pub(super) collisions: u64,
    pub(super) write_backs: u64,
    pub(super) states: u64,
    pub(super) rules: u64,
    pub(super) selected: u64,
}

/// Measurements from the end of the warm-up on.
#[derive(Default)]
pub(super) struct Measures {
    begin: Time,
    first: Node,
    first_written: Written,
    first_busy: Time,
    pub(super) arrived: u64,
    pub(super) arrived_bytes: u64,
    pub(super) left: u64,
    pub(super) left_bytes: u64,
    pub(super) fast: u64,
    pub(super) lost: u64,
    latency: Samples,
    fast_latency: Samples,
    slow_latency: Samples,
    rules_sum: u64,
    rules_readings: u64,
    pub(super) flows: BTreeSet<u64>,
    pub(super) by_rules: BTreeSet<u64>,
}

/// What a run has at its end besides its measures.
pub(super) struct End {
    pub(super) now: Time,
    pub(super) node: Node,
    pub(super) written: Written,
    pub(super) busy: Time,
    pub(super) cores: usize,
    /// How long packets waited for a change of the chain, and how many.
    pub(super) change: (Time, u64),
}

impl Measures {
    /// The warm-up is over.
    pub(super) fn begin(&mut self, at: &End) {
        *self = Self {
            begin: at.now,
            first: at.node,
            first_written: at.written,
            first_busy: at.busy,
            ..Self::default()
        };
    }

    pub(super) fn departed(&mut self, bytes: usize, is_fast: bool, latency: Time) {
        self.left += 1;
        self.left_bytes += bytes as u64;
        self.latency.record(latency.ns());
        match is_fast {
            true => {
                self.fast += 1;
                self.fast_latency.record(latency.ns());
            }
            false => self.slow_latency.record(latency.ns()),
        }
    }

    pub(super) fn rules(&mut self, active: usize) {
        self.rules_sum += active as u64;
        self.rules_readings += 1;
    }

    pub(super) fn lost_share(&self) -> f64 {
        self.lost as f64 / self.arrived.max(1) as f64
    }

    /// The columns.
    pub(super) fn row(&self, setting: &Setting, end: &End) -> Vec<f64> {
        let seconds = (end.now - self.begin).s_f64().max(1e-12);
        let wire_bytes = setting.testbed.switch.wire_bytes.value();
        let gbps = |packets: u64, bytes: u64| {
            (bytes as f64 + packets as f64 * wire_bytes) * 8e-9 / seconds
        };
        let (input, output) = (
            gbps(self.arrived, self.arrived_bytes),
            gbps(self.left, self.left_bytes),
        );
        let us = |ns: f64| ns / 1e3;
        let watts = watts(setting, output);
        let per = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let mut row = vec![
            input,
            self.arrived as f64 / seconds / 1e6,
            output,
            self.left as f64 / seconds / 1e6,
            self.lost_share(),
            per(self.fast, self.left),
            us(self.latency.mean()),
            us(self.latency.quantile(0.5) as f64),
            us(self.latency.quantile(0.99) as f64),
            us(self.latency.max() as f64),
            us(self.fast_latency.mean()),
            us(self.slow_latency.mean()),
            us(self.slow_latency.quantile(0.99) as f64),
            (end.busy - self.first_busy).s_f64() / seconds / end.cores as f64,
            watts,
            output / watts,
        ];
        row.extend(self.node_columns(end, seconds));
        row.extend(self.rule_columns(setting, end, (seconds, input)));
        let parameters = &setting.parameters;
        let load = parameters.traffic.flows as f64 / parameters.slots as f64;
        let (interruption, waited) = end.change;
        row.push((1.0 - libm::exp(-load)) / load);
        row.extend([interruption.us_f64(), waited as f64]);
        row
    }

    fn node_columns(&self, end: &End, seconds: f64) -> [f64; 5] {
        let (first, node) = (&self.first, &end.node);
        let pulls = (node.pulls - first.pulls) as f64;
        [
            node.states as f64,
            pulls / seconds,
            (node.cancelled - first.cancelled) as f64 / pulls.max(1.0),
            (node.collisions - first.collisions) as f64 / self.arrived.max(1) as f64,
            (node.write_backs - first.write_backs) as f64 / seconds,
        ]
    }

    fn rule_columns(
        &self,
        setting: &Setting,
        end: &End,
        (seconds, input): (f64, f64),
    ) -> [f64; 13] {
        let selected = (end.node.selected - self.first.selected) as f64;
        let agent = setting.agent();
        let of_agent = |value: fn(&crate::testbed::AgentPreset) -> f64| agent.map_or(0.0, value);
        let per_rule = of_agent(|agent| agent.entries_per_rule.value());
        let added = (end.written.added - self.first_written.added) as f64;
        let entries_per_s = added * per_rule / seconds;
        let mean = self.rules_sum as f64 / self.rules_readings.max(1) as f64;
        let most = |of: f64, used: f64| match used > 0.0 {
            true => input * of / used,
            false => 0.0,
        };
        let flows = self.flows.len() as f64;
        [
            end.node.rules as f64,
            mean,
            selected,
            selected / seconds,
            end.node.rules as f64 * per_rule,
            entries_per_s,
            (end.written.refused - self.first_written.refused) as f64,
            flows,
            self.by_rules.len() as f64,
            self.by_rules.len() as f64 / selected.max(1.0),
            selected / flows.max(1.0),
            most(of_agent(|agent| agent.entries_per_s.value()), entries_per_s),
            most(of_agent(|agent| agent.entries.value()), mean),
        ]
    }
}

/// Ports that packets come and go by, ports to the devices, the devices and their cores.
fn watts(setting: &Setting, output_gbps: f64) -> f64 {
    let (switch, preset) = (&setting.testbed.switch, setting.preset());
    let port_w = switch.port_w.value();
    let edge = (output_gbps / switch.port_gbps.value()).ceil().max(1.0) as u32;
    let ports = Draw {
        idle_w: 0.0,
        load_w: 0.0,
        port_w,
    };
    let device = Draw {
        idle_w: preset.device_w.value() + preset.core_w.value() * setting.cores as f64,
        load_w: 0.0,
        port_w,
    };
    let mut power =
        Power::default()
            .with(1, ports, edge, 0.0)
            .with(setting.devices as u32, device, 1, 0.0);
    if let Some(store) = setting.store() {
        let stores = (output_gbps / store.port_gbps.value()).ceil().max(1.0) as u32;
        let each = Draw {
            idle_w: store.device_w.value(),
            load_w: 0.0,
            port_w,
        };
        power = power.with(stores, each, 1, 0.0);
    }
    power.total_w()
}
