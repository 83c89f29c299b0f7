//! What is measured, and the row that tells it.

use super::locality::Locality;
use super::parameters::{Setting, System};
use crate::model::Column;
use twinpath_engine::Time;
use twinpath_engine::stats::Samples;

const fn column(name: &'static str, meaning: &'static str) -> Column {
    Column { name, meaning }
}

pub(super) const COLUMNS: [Column; 54] = [
    column("offered_gbps", "what came, without gaps and preambles"),
    column("offered_mpps", "packets that came, in millions a second"),
    column("output_gbps", "what left, without gaps and preambles"),
    column("output_wire_gbps", "the same with them"),
    column("output_mpps", "packets that left, in millions a second"),
    column("lost_share", "packets that were lost, of those that came"),
    column(
        "whole_share",
        "packets that the cores got whole, of those that came",
    ),
    column(
        "reordered_share",
        "packets that left after a later one of their flow, of those that left",
    ),
    column(
        "latency_us",
        "from arrival at the switch to departure, mean",
    ),
    column("latency_p50_us", "the same, median"),
    column("latency_p99_us", "the same, 99th percentile"),
    column("latency_max_us", "the same, maximum"),
    column(
        "read_us",
        "from a header's return until its packet is whole again, mean",
    ),
    column("read_p99_us", "the same, 99th percentile"),
    column(
        "nf_gbps",
        "what all servers with cores were sent, without gaps and preambles",
    ),
    column(
        "nf_mpps",
        "packets that they were sent, in millions a second",
    ),
    column(
        "nf_bits",
        "bits that they were sent, for each packet that came",
    ),
    column("nf_packets", "packets that they were sent, the same way"),
    column(
        "shared_bits",
        "bits that memory servers were sent and sent, for each packet that came, each way's half",
    ),
    column(
        "shared_packets",
        "packets with a payload to memory servers and from them, for each packet that came",
    ),
    column(
        "switch_rx",
        "packets that the switch received, for each that came",
    ),
    column("switch_tx", "packets that it sent, the same way"),
    column(
        "nf_rx",
        "packets that servers with cores received, the same way",
    ),
    column("nf_tx", "packets that they sent, the same way"),
    column(
        "rdma_rx",
        "packets that memory servers received, the same way",
    ),
    column("rdma_tx", "packets that they sent, the same way"),
    column(
        "rdma_payloads_rx",
        "of those received, the ones with a payload",
    ),
    column("rdma_payloads_tx", "of those sent, the ones with a payload"),
    column(
        "server1_gbps",
        "what the first memory server was sent of split packets",
    ),
    column("others_gbps", "the same of the other ones, mean"),
    column("fullest_gbps", "the same of the one that was sent most"),
    column(
        "payload_gbps",
        "payload that memory servers were sent, all together",
    ),
    column(
        "unsplit_gbps",
        "traffic that is not split to the first memory server",
    ),
    column(
        "unsplit_lost_share",
        "of that, what its port had no room for",
    ),
    column(
        "backed_off_at_s",
        "when the first memory server was left alone, by the paper's clock; 0 if never",
    ),
    column(
        "unsplit_at_back_off_gbps",
        "traffic that was not split to it then",
    ),
    column(
        "server1_share",
        "share of its flows that the first memory server takes in the end",
    ),
    column(
        "nf_ports",
        "ports that what the cores were sent fills, or their servers' buses",
    ),
    column("rdma_ports", "ports to memory servers that payloads fill"),
    column("loopback_ports_used", "ports whose queues payloads wait in"),
    column("dedicated_ports", "ports for nothing but network functions"),
    column(
        "headers_waiting",
        "headers that waited for their payloads, the most at a time",
    ),
    column("slots_used", "packets that were split, the most at a time"),
    column(
        "sram_kb",
        "payloads in the switch's memory, the most at a time",
    ),
    column("recirculations", "rounds of a payload in a queue, mean"),
    column(
        "run_nf",
        "packets of a flow in a row where the cores are done, mean",
    ),
    column("run_out", "the same of what leaves"),
    column("run_in", "the same of what comes"),
    column(
        "batch_nf",
        "packets of a flow among 32 in a row where the cores are done, mean",
    ),
    column("batch_out", "the same of what leaves"),
    column("batch_in", "the same of what comes"),
    column(
        "new_flows_mps",
        "flows that sent their first packet, millions a second",
    ),
    column(
        "link_lost_share",
        "frames to memory servers and from them that found no room",
    ),
    column("frames", "frames on all links, simulated"),
];

/// Counts from the end of the warm-up on.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) arrived: u64,
    pub(super) arrived_bytes: u64,
    pub(super) left: u64,
    pub(super) left_bytes: u64,
    pub(super) lost: u64,
    pub(super) whole: u64,
    pub(super) reordered: u64,
    pub(super) to_nf: u64,
    pub(super) to_nf_bytes: u64,
    pub(super) from_nf: u64,
    pub(super) to_servers: u64,
    pub(super) to_servers_bytes: u64,
    pub(super) payloads_to_servers: u64,
    pub(super) payload_bytes: u64,
    pub(super) from_servers: u64,
    pub(super) from_servers_bytes: u64,
    pub(super) payloads_from_servers: u64,
    pub(super) unsplit: u64,
    pub(super) unsplit_bytes: u64,
    pub(super) unsplit_lost: u64,
    pub(super) link_lost: u64,
    pub(super) new_flows: u64,
    pub(super) headers_waiting: u64,
    /// Bytes to each memory server.
    pub(super) by_server: Vec<u64>,
}

/// Measurements from the end of the warm-up on.
#[derive(Debug, Default)]
pub(super) struct Measures {
    begin: Time,
    pub(super) counts: Counts,
    pub(super) latency: Samples,
    pub(super) read: Samples,
    pub(super) locality_in: Locality,
    pub(super) locality_nf: Locality,
    pub(super) locality_out: Locality,
}

/// What a run has at its end besides its measures.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) now: Time,
    pub(super) backed_off_at_s: f64,
    pub(super) unsplit_at_back_off_gbps: f64,
    pub(super) server1_share: f64,
    pub(super) slots_used: f64,
    pub(super) sram_bytes: f64,
    pub(super) recirculations: f64,
}

impl Measures {
    /// The warm-up is over.
    pub(super) fn begin(&mut self, now: Time, servers: usize) {
        *self = Self {
            begin: now,
            counts: Counts {
                by_server: vec![0; servers],
                ..Counts::default()
            },
            ..Self::default()
        };
    }

    /// The columns.
    pub(super) fn row(&self, setting: &Setting, end: &End) -> Vec<f64> {
        let c = &self.counts;
        let seconds = (end.now - self.begin).s_f64().max(1e-12);
        let (gbps, mps) = (
            |bytes: u64| bytes as f64 * 8e-9 / seconds,
            |count: u64| count as f64 * 1e-6 / seconds,
        );
        let each = |count: u64| share(count as f64, c.arrived as f64);
        let us = |ns: f64| ns / 1e3;
        let wire = setting.testbed.switch.wire_bytes.value() as u64;
        let (latency, read) = (&self.latency, &self.read);
        let mut row = vec![
            gbps(c.arrived_bytes),
            mps(c.arrived),
            gbps(c.left_bytes),
            gbps(c.left_bytes + c.left * wire),
            mps(c.left),
            each(c.lost),
            each(c.whole),
            share(c.reordered as f64, c.left as f64),
            us(latency.mean()),
            us(latency.quantile(0.5) as f64),
            us(latency.quantile(0.99) as f64),
            us(latency.max() as f64),
            us(read.mean()),
            us(read.quantile(0.99) as f64),
            gbps(c.to_nf_bytes),
            mps(c.to_nf),
            each(c.to_nf_bytes * 8),
            each(c.to_nf),
            each((c.to_servers_bytes + c.from_servers_bytes) * 4),
            each(c.payloads_to_servers + c.payloads_from_servers),
            each(c.arrived + c.from_nf + c.from_servers),
            each(c.to_nf + c.to_servers + c.left),
            each(c.to_nf),
            each(c.from_nf),
            each(c.to_servers),
            each(c.from_servers),
            each(c.payloads_to_servers),
            each(c.payloads_from_servers),
        ];
        row.extend(self.server_columns(&gbps));
        row.extend([
            end.backed_off_at_s,
            end.unsplit_at_back_off_gbps,
            end.server1_share,
        ]);
        row.extend(self.ports(setting, seconds));
        row.extend([
            c.headers_waiting as f64,
            end.slots_used,
            end.sram_bytes / 1e3,
            end.recirculations,
            self.locality_nf.run(),
            self.locality_out.run(),
            self.locality_in.run(),
            self.locality_nf.batch(),
            self.locality_out.batch(),
            self.locality_in.batch(),
            mps(c.new_flows),
            share(
                c.link_lost as f64,
                (c.to_servers + c.from_servers + c.link_lost) as f64,
            ),
            (c.arrived + c.left + c.to_nf + c.from_nf + c.to_servers + c.from_servers) as f64,
        ]);
        row
    }

    fn server_columns(&self, gbps: &impl Fn(u64) -> f64) -> [f64; 6] {
        let c = &self.counts;
        let first = c.by_server.first().copied().unwrap_or(0);
        let others = c.by_server.len().saturating_sub(1).max(1) as f64;
        let all: u64 = c.by_server.iter().sum();
        [
            gbps(first),
            gbps(all - first) / others,
            gbps(c.by_server.iter().copied().max().unwrap_or(0)),
            gbps(c.payload_bytes),
            gbps(c.unsplit_bytes),
            share(c.unsplit_lost as f64, c.unsplit as f64),
        ]
    }

    /// How many ports of each kind what was measured fills.
    fn ports(&self, setting: &Setting, seconds: f64) -> [f64; 4] {
        let c = &self.counts;
        let wire = setting.testbed.switch.wire_bytes.value();
        let (bits, packets) = (
            (c.to_nf_bytes as f64 + c.to_nf as f64 * wire) * 8.0,
            c.to_nf as f64,
        );
        let by_link = bits / seconds / (setting.cores.port_gbps.value() * 1e9);
        let by_bus = packets / seconds / (setting.bus.capacity_mpps.value() * 1e6);
        let nf = by_link.max(by_bus).ceil();
        let payload = c.payload_bytes as f64 * 8.0 / seconds;
        let rdma = (payload / (setting.rdma.payload_gbps.value() * 1e9)).ceil();
        let loopback = match setting.parameters.system {
            System::Parking => setting.parameters.loopback_ports as f64,
            _ => 0.0,
        };
        [nf, rdma, loopback, nf + loopback]
    }
}

fn share(part: f64, whole: f64) -> f64 {
    match whole > 0.0 {
        true => part / whole,
        false => 0.0,
    }
}
