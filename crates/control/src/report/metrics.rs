//! The figures of a [`Report`] in Prometheus' text format (version 0.0.4): what `/metrics` says is
//! what `report.json` would say at that moment.
//!
//! Counts of one kind are one metric with a label: `twinpath_drops_total{reason="denied"}`. The values
//! of such labels are the field names of `report.json`.
//!
//! | metric | labels | what it is |
//! |---|---|---|
//! | `twinpath_info` | `service`, `paths`, `version` | always 1 |
//! | `twinpath_uptime_seconds` | | since packets could come |
//! | `twinpath_received_packets_total`, `twinpath_received_bytes_total` | | `totals.packets_in`, `totals.bytes_in` |
//! | `twinpath_transmitted_packets_total`, `twinpath_transmitted_bytes_total` | | `totals.packets_out`, `totals.bytes_out` |
//! | `twinpath_path_packets_total`, `twinpath_path_bytes_total` | `path` | `fast`, `slow` |
//! | `twinpath_drops_total` | `reason` | `drops`; see [drop reasons](drop-reasons.md) |
//! | `twinpath_port_up` | `port`, `device`, `driver` | 1, or 0 while the interface is down or gone |
//! | `twinpath_port_rx_packets_total`, `twinpath_port_rx_bytes_total`, `twinpath_port_tx_packets_total`, `twinpath_port_tx_bytes_total` | `port` | `ports[]` |
//! | `twinpath_port_rx_drops_total`, `twinpath_port_tx_drops_total` | `port`, `reason` | `ports[].receive_*`, `ports[].transmit_*` |
//! | `twinpath_port_rx_copied_total`, `twinpath_port_tx_copied_total` | `port` | `ports[].copied_received`, `ports[].copied_transmitted` |
//! | `twinpath_port_zero_copy` | `port` | 1 if `ports[].mode` is `zero_copy`, or 0; of AF_XDP ports only |
//! | `twinpath_port_outages_total` | `port` | `ports[].outages` |
//! | `twinpath_port_losses_total` | `reason` | `port_losses` |
//! | `twinpath_slots`, `twinpath_slots_capacity` | `state` | `slots` |
//! | `twinpath_flows` | `state` | `flows.known`, `flows.half_open` |
//! | `twinpath_flows_lost_total` | `reason` | `flows.half_open_forgotten`, `flows.crowded` |
//! | `twinpath_coherence_events_total` | `event` | `coherence` |
//! | `twinpath_worker_restarts_total` | `worker` | `worker_restarts` |
//! | `twinpath_rules_active`, `twinpath_rules_capacity` | `element`, `functions` | `rules.elements[].counts.table` |
//! | `twinpath_rule_table_events_total`, `twinpath_rule_slow_path_packets_total`, `twinpath_rule_manager_events_total`, `twinpath_rule_selection_events_total` | `element`, `event` | `rules.elements[].counts` |
//! | `twinpath_rule_obstacles_total` | `element`, `reason` | packets that made no rule |
//! | `twinpath_parking_events_total`, `twinpath_parking_bytes_total`, `twinpath_parking_queue_bytes` | `event`, `bytes` | `parking` |
//! | `twinpath_split_events_total`, `twinpath_split_bytes_total`, `twinpath_split_slots` | `event` | `split` |
//! | `twinpath_memory_server_up`, `twinpath_memory_server_share`, `twinpath_memory_server_link_bps`, `twinpath_memory_server_events_total` | `server`, `event` | `split.servers[]` |
//! | `twinpath_queue_pair_up`, `twinpath_queue_pair_events_total` | `server`, `queue_pair`, `event` | `split.servers[].queue_pairs[]` |
//! | `twinpath_dpu_flows`, `twinpath_dpu_drops_total` | `reason` | `dash.flows`, `dash.drops`: packets of no ENI |
//! | `twinpath_eni_flows`, `twinpath_eni_flow_events_total` | `eni`, `event` | `dash.enis[]` |
//! | `twinpath_eni_packets_total`, `twinpath_eni_bytes_total` | `eni`, `direction`, `event` | `dash.enis[].outbound`, `inbound`; meters are told by `twinpath dash meters` alone, as an ENI may have thousands |
//! | `twinpath_eni_drops_total` | `eni`, `reason` | `dash.enis[].drops` |
//! | `twinpath_latency_seconds` | `path`, `quantile` | `latency` |
//! | `twinpath_latency_seconds_sum`, `twinpath_latency_seconds_count` | `path` | the same: of how many packets, and their sum |
//! | `twinpath_function_value` | `function`, `value`; of what a balancer counts for each backend also `service`, `backend` | the counters of each function; some of them stand for what there is at the moment |
//! | `twinpath_ring_capacity_frames` | | `rings` |
//! | `twinpath_pool_frames`, `twinpath_pool_low_water_frames`, `twinpath_pool_exhausted_total` | | `pool` |
//! | `twinpath_neighbors`, `twinpath_neighbor_events_total` | `event` | `neighbors` |
//! | `twinpath_kernel_routes`, `twinpath_kernel_ignored_routes` | | `kernel.routes`, `kernel.ignored_routes` |
//! | `twinpath_shard_packets_total` | `shard`, `event` | `shards[]` |
//! | `twinpath_control_events_total` | `event` | `control` |
//! | `twinpath_ipfix_events_total` | `event` | `ipfix` |

use std::fmt::{Display, Write};

use serde::Serialize;
use serde_json::Value;

use super::{
    Dash, DirectionFigures, MemoryServerFigures, Percentiles, PortFigures, Report, RuleElement,
    SplitCounts,
};

/// What an HTTP answer with this text says that it is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The figures as text.
pub fn metrics(report: &Report) -> String {
    let mut page = Page::default();
    run(report, &mut page);
    totals(report, &mut page);
    ports(report, &mut page);
    state(report, &mut page);
    rules(&report.rules.elements, &mut page);
    parking(report, &mut page);
    if let Some(split) = &report.split {
        split_packets(&split.counts, &mut page);
        memory_servers(&split.servers, &mut page);
    }
    if let Some(dash) = &report.dash {
        dpu(dash, &mut page);
    }
    latency(report, &mut page);
    functions(report, &mut page);
    memory(report, &mut page);
    operators(report, &mut page);
    page.0
}

fn run(report: &Report, page: &mut Page) {
    let paths = serde_json::to_value(report.run.paths).unwrap_or_default();
    let labels = [
        ("service", report.run.service.as_str()),
        ("paths", paths.as_str().unwrap_or_default()),
        ("version", env!("CARGO_PKG_VERSION")),
    ];
    page.gauge("info", "The service that runs").put(&labels, 1);
    let uptime = seconds(report.run.duration_wall_ns);
    page.gauge("uptime_seconds", "Since packets could come")
        .put(&[], uptime);
}

fn totals(report: &Report, page: &mut Page) {
    let totals = &report.totals;
    let all = [
        ("received_packets_total", totals.packets_in),
        ("received_bytes_total", totals.bytes_in),
        ("transmitted_packets_total", totals.packets_out),
        ("transmitted_bytes_total", totals.bytes_out),
    ];
    for (name, count) in all {
        page.counter(name, "Of the service as a whole")
            .put(&[], count);
    }
    let both = [("fast", &report.fast), ("slow", &report.slow)];
    let mut packets = page.counter(
        "path_packets_total",
        "Packets by the path that settled them",
    );
    for (path, of_path) in both {
        packets.put(&[("path", path)], of_path.packets);
    }
    let mut bytes = page.counter("path_bytes_total", "Bytes of those packets as they arrived");
    for (path, of_path) in both {
        bytes.put(&[("path", path)], of_path.bytes);
    }
    let mut drops = page.counter("drops_total", "Packets dropped, by reason");
    for (reason, count) in &report.drops {
        drops.put(&[("reason", reason)], count);
    }
    let losses = "Packets lost at all ports together, by reason";
    let mut lost = page.counter("port_losses_total", losses);
    for (reason, count) in report.port_losses.by_name() {
        lost.put(&[("reason", &reason)], count);
    }
}

/// What is counted of a port: the metric, what it means, and the count.
type PortCount = (&'static str, &'static str, fn(&PortFigures) -> u64);

const PORT_COUNTS: [PortCount; 7] = [
    ("port_rx_packets_total", "Frames that came", |port| {
        port.received_packets
    }),
    ("port_rx_bytes_total", "Bytes that came", |port| {
        port.received_bytes
    }),
    ("port_tx_packets_total", "Frames that left", |port| {
        port.transmitted_packets
    }),
    ("port_tx_bytes_total", "Bytes that left", |port| {
        port.transmitted_bytes
    }),
    ("port_rx_copied_total", "Frames copied once more", |port| {
        port.copied_received
    }),
    (
        "port_tx_copied_total",
        "Frames copied to send them",
        |port| port.copied_transmitted,
    ),
    ("port_outages_total", "How often it went down", |port| {
        port.outages
    }),
];

fn ports(report: &Report, page: &mut Page) {
    if report.ports.is_empty() {
        return;
    }
    let mut up = page.gauge("port_up", "Whether packets come and go");
    for port in &report.ports {
        let labels = [
            ("port", port.name.as_str()),
            ("device", &port.device),
            ("driver", &port.driver),
        ];
        up.put(&labels, u8::from(port.is_up));
    }
    let by_xdp = |port: &&PortFigures| !port.mode.is_empty();
    let mut zero_copy = page.gauge("port_zero_copy", "Whether the card writes to our memory");
    for port in report.ports.iter().filter(by_xdp) {
        let is_zero_copy = u8::from(port.mode == "zero_copy");
        zero_copy.put(&[("port", &port.name)], is_zero_copy);
    }
    for (name, help, count) in PORT_COUNTS {
        let mut counts = page.counter(name, help);
        for port in &report.ports {
            counts.put(&[("port", &port.name)], count(port));
        }
    }
    let help = "Packets that a shard exchanged with the network and with others";
    let mut shards = page.counter("shard_packets_total", help);
    for (number, shard) in report.shards.iter().enumerate() {
        shards.put_fields(&[("shard", &number_of(number))], "event", shard);
    }
    port_drops(report, "rx", "receive_", page);
    port_drops(report, "tx", "transmit_", page);
}

/// The reasons are the fields whose names begin so.
fn port_drops(report: &Report, way: &str, prefix: &str, page: &mut Page) {
    let name = format!("port_{way}_drops_total");
    let mut drops = page.counter(&name, "Frames that were lost at the port");
    for port in &report.ports {
        for (field, count) in fields(port) {
            if let Some(reason) = field.strip_prefix(prefix) {
                drops.put(&[("port", &port.name), ("reason", reason)], count);
            }
        }
    }
}

fn state(report: &Report, page: &mut Page) {
    let slots = &report.slots;
    page.gauge("slots_capacity", "Slots of the fast path's state tables")
        .put(&[], slots.capacity);
    let mut by_state = page.gauge("slots", "Slots of the fast path's state tables, by state");
    for (state, count) in fields(slots) {
        if state != "capacity" {
            by_state.put(&[("state", &state)], count);
        }
    }
    let flows = &report.flows;
    let mut known = page.gauge("flows", "Flows that the workers know");
    known.put(&[("state", "known")], flows.known);
    known.put(&[("state", "half_open")], flows.half_open);
    let help = "Flows that were forgotten or turned away for want of room";
    let mut lost = page.counter("flows_lost_total", help);
    lost.put(
        &[("reason", "half_open_forgotten")],
        flows.half_open_forgotten,
    );
    lost.put(&[("reason", "crowded")], flows.crowded);
    let help = "Events of the protocol between the paths";
    page.counter("coherence_events_total", help)
        .put_fields(&[], "event", &report.coherence);
    let help = "How often a worker crashed and began anew";
    let mut restarts = page.counter("worker_restarts_total", help);
    for (worker, count) in report.worker_restarts.iter().enumerate() {
        restarts.put(&[("worker", &worker.to_string())], count);
    }
}

fn rules(elements: &[RuleElement], page: &mut Page) {
    let numbered = || {
        (0..)
            .zip(elements)
            .map(|(number, one)| (number_of(number), one))
    };
    let mut active = page.gauge("rules_active", "Cached rules that packets meet");
    for (number, element) in numbered() {
        let functions = element.functions.join(",");
        let labels = [("element", number.as_str()), ("functions", &functions)];
        active.put(&labels, element.counts.table.active);
    }
    let mut capacity = page.gauge("rules_capacity", "Cached rules that there is room for");
    for (number, element) in numbered() {
        let functions = element.functions.join(",");
        let labels = [("element", number.as_str()), ("functions", &functions)];
        capacity.put(&labels, element.counts.table.capacity);
    }
    let help = "What packets met at the table of cached rules, and what became of rules";
    let mut table = page.counter("rule_table_events_total", help);
    for (number, element) in numbered() {
        let counted = fields(&element.counts.table);
        for (event, count) in counted.filter(|(name, _)| name != "active" && name != "capacity") {
            table.put(&[("element", &number), ("event", &event)], count);
        }
    }
    let help = "Packets that the functions met on the slow path";
    let mut slow = page.counter("rule_slow_path_packets_total", help);
    for (number, element) in numbered() {
        slow.put_fields(&[("element", &number)], "event", &element.counts.slow_path);
    }
    let mut selection = page.counter("rule_selection_events_total", "What became worth a rule");
    for (number, element) in numbered() {
        selection.put_fields(&[("element", &number)], "event", &element.counts.selection);
    }
    let mut manager = page.counter("rule_manager_events_total", "What became of rules");
    for (number, element) in numbered() {
        manager.put_fields(&[("element", &number)], "event", &element.counts.manager);
    }
    let mut obstacles = page.counter("rule_obstacles_total", "Packets that made no rule");
    for (number, element) in numbered() {
        for (reason, count) in &element.counts.obstacles {
            obstacles.put(&[("element", &number), ("reason", reason)], count);
        }
    }
}

fn dpu(dash: &Dash, page: &mut Page) {
    let flows = "Flows of all ENIs";
    page.gauge("dpu_flows", flows).put(&[], dash.flows);
    let mut drops = page.counter("dpu_drops_total", "Dropped packets of no ENI");
    for (reason, count) in &dash.drops {
        drops.put(&[("reason", reason)], count);
    }
    let mut flows = page.gauge("eni_flows", "Flows of an ENI");
    for eni in &dash.enis {
        flows.put(&[("eni", &eni.eni)], eni.flows);
    }
    let mut events = page.counter("eni_flow_events_total", "What became of an ENI's flows");
    for eni in &dash.enis {
        for (event, count) in [
            ("hits", eni.flow_hits),
            ("misses", eni.flow_misses),
            ("created", eni.flows_created),
            ("removed", eni.flows_removed),
            ("closed", eni.flows_closed),
            ("aged", eni.flows_aged),
            ("resimulated", eni.flows_resimulated),
            ("redirected", eni.flows_redirected),
        ] {
            events.put(&[("eni", &eni.eni), ("event", event)], count);
        }
    }
    let packets: EniCount = |way| [way.received_packets, way.sent_packets];
    eni_ways(
        dash,
        "eni_packets_total",
        "Packets of an ENI",
        packets,
        page,
    );
    let bytes: EniCount = |way| [way.received_bytes, way.sent_bytes];
    let help = "Bytes of an ENI's inner frames";
    eni_ways(dash, "eni_bytes_total", help, bytes, page);
    let mut drops = page.counter("eni_drops_total", "Dropped packets of an ENI");
    for eni in &dash.enis {
        for (reason, count) in &eni.drops {
            drops.put(&[("eni", &eni.eni), ("reason", reason)], count);
        }
    }
}

/// What came and what left.
type EniCount = fn(&DirectionFigures) -> [u64; 2];

fn eni_ways(dash: &Dash, name: &str, help: &str, of: EniCount, page: &mut Page) {
    let mut counts = page.counter(name, help);
    for eni in &dash.enis {
        for (direction, way) in [("outbound", &eni.outbound), ("inbound", &eni.inbound)] {
            for (event, count) in ["received", "sent"].into_iter().zip(of(way)) {
                let labels = [
                    ("eni", &*eni.eni),
                    ("direction", direction),
                    ("event", event),
                ];
                counts.put(&labels, count);
            }
        }
    }
}

fn number_of(element: usize) -> String {
    element.to_string()
}

/// Fields of parking that are bytes at the moment.
const QUEUE_BYTES: [&str; 2] = ["most_queue_bytes", "limit_bytes"];

fn parking(report: &Report, page: &mut Page) {
    let Some(parking) = &report.parking else {
        return;
    };
    let help = "What became of packets whose payloads wait";
    let mut events = page.counter("parking_events_total", help);
    let is_event = |name: &str| name != "parked_bytes" && !QUEUE_BYTES.contains(&name);
    for (event, count) in fields(parking).filter(|(name, _)| is_event(name)) {
        events.put(&[("event", &event)], count);
    }
    let help = "Bytes that did not cross the link";
    page.counter("parking_bytes_total", help)
        .put(&[], parking.parked_bytes);
    let mut queue = page.gauge("parking_queue_bytes", "The queue of payloads");
    queue.put(&[("bytes", "most")], parking.most_queue_bytes);
    queue.put(&[("bytes", "limit")], parking.limit_bytes);
}

fn split_packets(counts: &SplitCounts, page: &mut Page) {
    let help = "What became of packets whose payloads wait in remote memory";
    let mut events = page.counter("split_events_total", help);
    let is_event = |name: &str| name != "bytes" && name != "most_slots";
    for (event, count) in fields(counts).filter(|(name, _)| is_event(name)) {
        events.put(&[("event", &event)], count);
    }
    let help = "Bytes that did not go to the slow path";
    page.counter("split_bytes_total", help)
        .put(&[], counts.bytes);
    let help = "Most header slots in use at any time";
    page.gauge("split_slots", help).put(&[], counts.most_slots);
}

fn memory_servers(servers: &[MemoryServerFigures], page: &mut Page) {
    let mut up = page.gauge("memory_server_up", "Whether it takes payloads");
    for server in servers {
        up.put(&[("server", &server.name)], u8::from(server.is_up));
    }
    let help = "The share of its flows that it takes, in thousandths";
    let mut share = page.gauge("memory_server_share", help);
    for server in servers {
        share.put(&[("server", &server.name)], server.share_per_mille);
    }
    let help = "What its link carried when it was last looked at";
    let mut rate = page.gauge("memory_server_link_bps", help);
    for server in servers {
        rate.put(&[("server", &server.name)], server.rate_bps);
    }
    let mut events = page.counter("memory_server_events_total", "What happened at it");
    for server in servers {
        for (event, count) in &server.counters {
            events.put(&[("server", &server.name), ("event", event)], *count);
        }
    }
    queue_pairs(servers, page);
}

fn queue_pairs(servers: &[MemoryServerFigures], page: &mut Page) {
    let all = || {
        servers.iter().flat_map(|server| {
            let pairs = server.queue_pairs.iter();
            pairs.map(|pair| (&*server.name, pair.number.to_string(), pair))
        })
    };
    let mut up = page.gauge("queue_pair_up", "Whether it takes payloads");
    for (server, number, pair) in all() {
        let labels = [("server", server), ("queue_pair", &*number)];
        up.put(&labels, u8::from(pair.is_up));
    }
    let mut events = page.counter("queue_pair_events_total", "What happened at it");
    for (server, number, pair) in all() {
        let counts = [
            ("writes", pair.writes),
            ("reads", pair.reads),
            ("payloads", pair.payloads),
            ("lives", pair.lives),
            ("errors", pair.errors),
        ];
        for (event, count) in counts {
            let labels = [
                ("server", server),
                ("queue_pair", &*number),
                ("event", event),
            ];
            events.put(&labels, count);
        }
    }
}

fn latency(report: &Report, page: &mut Page) {
    let both = [
        ("fast", &report.latency.fast),
        ("slow", &report.latency.slow),
    ];
    let help = "From arrival to leaving, by path, since the start";
    let mut summary = page.family("latency_seconds", "summary", help);
    for (path, latency) in both {
        for (quantile, ns) in quantiles(latency) {
            let labels = [("path", path), ("quantile", quantile)];
            summary.put(&labels, seconds(ns));
        }
        let sum = seconds(latency.mean_ns) * latency.count as f64;
        summary.put_with("_sum", &[("path", path)], sum);
        summary.put_with("_count", &[("path", path)], latency.count);
    }
}

fn quantiles(latency: &Percentiles) -> [(&'static str, u64); 6] {
    [
        ("0", latency.min_ns),
        ("0.5", latency.p50_ns),
        ("0.9", latency.p90_ns),
        ("0.99", latency.p99_ns),
        ("0.999", latency.p999_ns),
        ("1", latency.max_ns),
    ]
}

fn functions(report: &Report, page: &mut Page) {
    let help = "Counters of the functions, and what they have at the moment";
    let mut values = page.family("function_value", "untyped", help);
    for function in &report.functions {
        for (name, value) in &function.counters {
            let (name, of) = labelled(name);
            let labels = [("function", &*function.name), ("value", name)];
            values.put(&[&labels[..], &of].concat(), value);
        }
    }
}

/// A counter's name without its labels (`name{label="of",label="of"}`), and these.
fn labelled(name: &str) -> (&str, Vec<(&str, &str)>) {
    let Some((name, labels)) = name.split_once('{') else {
        return (name, Vec::new());
    };
    let labels = labels.trim_end_matches("\"}").split("\",");
    let labels = labels.filter_map(|label| label.split_once("=\""));
    (name, labels.collect())
}

fn memory(report: &Report, page: &mut Page) {
    let (rings, pool) = (&report.rings, &report.pool);
    page.gauge("ring_capacity_frames", "Frames that one ring holds")
        .put(&[], rings.capacity_frames);
    page.gauge("pool_frames", "Buffers for packets that arrive")
        .put(&[], pool.frames);
    page.gauge("pool_low_water_frames", "Fewest that were free")
        .put(&[], pool.low_water_frames);
    page.counter("pool_exhausted_total", "How often none was free")
        .put(&[], pool.exhausted_events);
}

fn operators(report: &Report, page: &mut Page) {
    if let Some(neighbors) = &report.neighbors {
        page.gauge("neighbors", "Neighbours that are known, or asked for")
            .put(&[], neighbors.known);
        let help = "What was asked and answered about neighbours, and lost to it";
        let mut events = page.counter("neighbor_events_total", help);
        for (event, count) in fields(neighbors).filter(|(name, _)| name != "known") {
            events.put(&[("event", &event)], count);
        }
    }
    if let Some(kernel) = &report.kernel {
        page.gauge("kernel_routes", "Routes that the router has of the kernel")
            .put(&[], kernel.routes);
        let help = "Routes of the kernel that there is no room for";
        page.gauge("kernel_ignored_routes", help)
            .put(&[], kernel.ignored_routes);
    }
    if let Some(ipfix) = &report.ipfix {
        page.counter("ipfix_events_total", "What a collector was told")
            .put_fields(&[], "event", ipfix);
    }
    if let Some(control) = &report.control {
        page.counter("control_events_total", "Clients of the control socket")
            .put_fields(&[], "event", control);
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The whole numbers of a plain struct, by the names that they have in `report.json`.
fn fields(counts: &impl Serialize) -> std::vec::IntoIter<(String, u64)> {
    let members = match serde_json::to_value(counts) {
        Ok(Value::Object(members)) => members,
        _ => serde_json::Map::new(),
    };
    let numbers = members.into_iter();
    let numbers = numbers.filter_map(|(name, value)| Some((name, value.as_u64()?)));
    numbers.collect::<Vec<_>>().into_iter()
}

/// The text so far.
#[derive(Default)]
struct Page(String);

impl Page {
    fn counter(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    fn gauge(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    fn family(&mut self, name: &str, kind: &'static str, help: &str) -> Family<'_> {
        let name = format!("twinpath_{name}");
        Family {
            header: Some(format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")),
            name,
            text: &mut self.0,
        }
    }
}

/// A metric; its header is written with its first sample.
struct Family<'a> {
    header: Option<String>,
    name: String,
    text: &'a mut String,
}

impl Family<'_> {
    fn put(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.put_with("", labels, value);
    }

    /// Every whole number of a plain struct, the field's name being one more label.
    fn put_fields(&mut self, labels: &[(&str, &str)], label: &str, counts: &impl Serialize) {
        for (name, count) in fields(counts) {
            let labels = [labels, &[(label, name.as_str())]].concat();
            self.put(&labels, count);
        }
    }

    fn put_with(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        if let Some(header) = self.header.take() {
            self.text.push_str(&header);
        }
        // Writing to a text cannot fail.
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (place, (label, of)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escaped(of));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }
}

/// A label's value, in which three characters have another meaning.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::testing::edge_report;
    use super::super::{
        ControlCounters, EniFigures, ExportCounters, KernelFigures, NeighborFigures, Parking,
        PortLosses, QueuePairFigures, SplitFigures,
    };
    use super::*;

    fn full_report() -> Report {
        let port = PortFigures {
            name: "outside".into(),
            device: "eth0".into(),
            driver: "af_xdp".into(),
            mode: "copy".into(),
            is_up: true,
            copied_received: 4714,
            copied_transmitted: 4715,
            received_packets: 4711,
            receive_missed: 4712,
            transmit_refused: 4713,
            ..PortFigures::default()
        };
        Report {
            dash: Some(Dash {
                flows: 831,
                drops: [("vip_miss".to_owned(), 832)].into(),
                enis: vec![EniFigures {
                    eni: "eni1".into(),
                    flows: 833,
                    drops: [("route_miss".to_owned(), 834)].into(),
                    ..EniFigures::default()
                }],
            }),
            parking: Some(Parking {
                parked: 815,
                limit_bytes: 816,
                ..Parking::default()
            }),
            split: Some(SplitFigures {
                counts: SplitCounts {
                    packets: 821,
                    most_slots: 822,
                    ..SplitCounts::default()
                },
                servers: vec![MemoryServerFigures {
                    name: "m1".into(),
                    is_up: true,
                    share_per_mille: 823,
                    rate_bps: 824,
                    last_error: None,
                    last_error_age_ms: None,
                    counters: [("writes".to_owned(), 825)].into(),
                    queue_pairs: vec![QueuePairFigures {
                        reads: 826,
                        ..QueuePairFigures::default()
                    }],
                }],
            }),
            control: Some(ControlCounters {
                answered: 817,
                ..ControlCounters::default()
            }),
            ipfix: Some(ExportCounters {
                messages: 820,
                ..ExportCounters::default()
            }),
            ports: vec![port],
            neighbors: Some(NeighborFigures {
                known: 818,
                conflicts: 819,
                ..NeighborFigures::default()
            }),
            kernel: Some(KernelFigures {
                routes: 820,
                ignored_routes: 821,
                ..KernelFigures::default()
            }),
            port_losses: PortLosses {
                receive_missed: 4712,
                ..PortLosses::default()
            },
            ..edge_report()
        }
    }

    /// All whole numbers in a value, but for those of the parts that are left out.
    fn numbers(name: &str, value: &Value, into: &mut BTreeSet<u64>) {
        match value {
            _ if ["run", "series", "latency", "slots_at_end"].contains(&name) => {}
            // Its elements are told, one by one.
            _ if name == "total" => {}
            Value::Object(members) => members
                .iter()
                .for_each(|(name, value)| numbers(name, value, into)),
            Value::Array(all) => all.iter().for_each(|value| numbers("", value, into)),
            _ => into.extend(value.as_u64()),
        }
    }

    #[test]
    fn whatever_is_counted_is_told() {
        let report = full_report();
        let mut counted = BTreeSet::new();
        let written = serde_json::to_value(&report).expect("plain data");
        numbers("", &written, &mut counted);
        let text = metrics(&report);
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let told: BTreeSet<u64> = samples
            .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
            .collect();
        let silent: Vec<_> = counted.difference(&told).collect();
        assert!(silent.is_empty(), "{silent:?}");
        assert!(told.len() > 60);
    }

    #[test]
    fn ports_have_the_names_that_engineers_expect() {
        let text = metrics(&full_report());
        for line in [
            "twinpath_port_rx_packets_total{port=\"outside\"} 4711\n",
            "twinpath_port_rx_drops_total{port=\"outside\",reason=\"missed\"} 4712\n",
            "twinpath_port_up{port=\"outside\",device=\"eth0\",driver=\"af_xdp\"} 1\n",
            "twinpath_port_zero_copy{port=\"outside\"} 0\n",
            "twinpath_port_tx_copied_total{port=\"outside\"} 4715\n",
            "twinpath_drops_total{reason=\"firewall_denied\"} 31204\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn labels_of_counters_are_labels_of_metrics() {
        let mut report = full_report();
        let counter = "opened{service=\"192.0.2.53:53/udp\",backend=\"[2001:db8::1]:53\"}";
        let balancer = &mut report.functions[3];
        balancer.counters.insert(counter.to_owned(), 4716);
        let text = metrics(&report);
        let sample = "twinpath_function_value{function=\"load_balancer\",value=\"opened\",\
                      service=\"192.0.2.53:53/udp\",backend=\"[2001:db8::1]:53\"} 4716\n";
        assert!(text.contains(sample), "{text}");
    }

    /// Whoever divides the one by the other has the same labels at both.
    #[test]
    fn rules_and_their_room_have_the_same_labels() {
        let text = metrics(&full_report());
        let labels = |name: &str| -> Vec<&str> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(name));
            lines.filter_map(|line| line.split(' ').next()).collect()
        };
        let active = labels("twinpath_rules_active{");
        assert!(active.len() > 1, "{text}");
        assert_eq!(active, labels("twinpath_rules_capacity{"));
    }

    #[test]
    fn every_metric_is_described_here_and_told_once() {
        let text = metrics(&full_report());
        let names = |prefix: &str| -> Vec<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
            let names = lines.filter_map(|line| Some(line.split(' ').next()?.to_owned()));
            names.collect()
        };
        let told = names("# TYPE ");
        let distinct: BTreeSet<_> = told.iter().collect();
        assert_eq!(distinct.len(), told.len(), "{told:?}");
        for name in told {
            let row = format!("`{name}`");
            assert!(include_str!("metrics.rs").contains(&row), "{name}");
        }
    }

    #[test]
    fn labels_cannot_break_out() {
        let mut report = Report::default();
        report.run.service = "a\"b\\c\nd".into();
        assert!(metrics(&report).contains("service=\"a\\\"b\\\\c\\nd\","));
    }
}
