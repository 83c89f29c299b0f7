//! The summary a run ends with on the terminal.

use super::{
    Dash, EniFigures, Execution, LargestFlows, MemoryServerFigures, Parking, PathTotals, Paths,
    Percentiles, PortFigures, Report, RuleCounters, SplitFigures, losses, ranked,
    restarts_in_words, units,
};
use std::collections::BTreeMap;

/// Functions and ports that get a line, counters in it, and drop reasons named.
const MAX_FUNCTIONS: usize = 6;
/// Of the largest flows so many get a line.
const MAX_LARGEST: usize = 5;
const MAX_PORTS: usize = 8;
const MAX_COUNTERS: usize = 4;
const MAX_REASONS: usize = 4;
/// Lines of counters with labels: one for each service of a balancer.
const MAX_LABELLED: usize = 4;
/// Reasons named why packets made no rule.
const MAX_OBSTACLES: usize = 2;
/// ENIs that get a line, and characters of their names there.
const MAX_ENIS: usize = 8;
const MAX_ENI_NAME: usize = 15;
/// Characters of a name before it is cut.
const MAX_NAME: usize = 40;

/// Counters by their names.
type Counters = BTreeMap<String, u64>;

/// The run in fewer than 50 lines of text, each below 120 columns for names of
/// ordinary length. Names are stripped of control characters.
pub fn summary(report: &Report) -> String {
    let mut lines = heading(report);
    lines.push(String::new());
    lines.extend(traffic(report));
    lines.push(String::new());
    lines.extend(latency(report));
    lines.push(String::new());
    lines.extend(protocol(report));
    lines.extend(rules(report));
    lines.extend(report.parking.iter().flat_map(parking));
    lines.extend(report.split.iter().flat_map(split));
    lines.extend(report.dash.iter().flat_map(dash));
    lines.push(line("drops", &drops(report)));
    lines.extend(lost(report));
    lines.extend(ports(report));
    lines.extend(functions(report));
    lines.extend(largest_flows(report));
    lines.push(line("buffers", &buffers(report)));
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// A name fit for a terminal: no control characters, not too long.
pub(crate) fn plain(name: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{FFFD}' } else { c };
    let mut text: String = name.chars().take(MAX_NAME).map(visible).collect();
    if name.chars().nth(MAX_NAME).is_some() {
        text.push('…');
    }
    text
}

/// The most frequent counters as `name 1,234, other 56 and 2 more`.
pub(crate) fn most_frequent(counters: &Counters, limit: usize) -> String {
    let mut ranked = ranked(counters);
    ranked.retain(|&(_, count)| count > 0);
    let named = ranked
        .iter()
        .take(limit)
        .map(|(name, n)| format!("{} {}", plain(name), units::count(*n)));
    let text = named.collect::<Vec<_>>().join(", ");
    match ranked.len().saturating_sub(limit) {
        0 if text.is_empty() => "none".to_owned(),
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

fn heading(report: &Report) -> Vec<String> {
    let run = &report.run;
    let paths = match run.paths {
        Paths::Both => "both paths",
        Paths::Slow => "slow path only",
    };
    let execution = match run.execution {
        Execution::Threads => "threads",
        Execution::Virtual => "virtual time",
    };
    let workers = units::counted(run.workers, "worker");
    vec![
        format!(
            "{}: {paths}, {execution}, {workers}, seed {}",
            plain(&run.service),
            run.seed
        ),
        format!(
            "{}: {} of capture in {}; {}, {} left",
            plain(&run.input),
            units::duration(run.duration_capture_ns),
            units::duration(run.duration_wall_ns),
            units::packet_rate(report.throughput.packets_per_second),
            units::bit_rate(report.throughput.bits_per_second)
        ),
    ]
}

fn traffic(report: &Report) -> Vec<String> {
    let totals = &report.totals;
    let row = |name: &str, packets: &str, share: &str, bytes: &str| {
        let row = format!("  {name:<10}{packets:>18}{share:>12}{bytes:>12}");
        row.trim_end().to_owned()
    };
    let total = |name, packets, bytes| row(name, &units::count(packets), "", &units::bytes(bytes));
    let path = |name, path: &PathTotals| {
        row(
            name,
            &units::count(path.packets),
            &units::percent(path.share),
            &units::bytes(path.bytes),
        )
    };
    let dropped = report.dropped();
    let share = |count| units::percent(units::fraction(count, totals.packets_in));
    let mut rows = vec![
        row("", "packets", "share", "bytes"),
        total("in", totals.packets_in, totals.bytes_in),
        path("fast", &report.fast),
        path("slow", &report.slow),
        row("dropped", &units::count(dropped), &share(dropped), ""),
    ];
    let lost = report.lost();
    if lost > 0 {
        let share = units::percent(report.lost_share());
        rows.push(row("LOST", &units::count(lost), &share, ""));
    }
    rows.push(total("out", totals.packets_out, totals.bytes_out));
    rows
}

/// What was lost for want of room or by a fault, by cause.
fn lost(report: &Report) -> Option<String> {
    let losses = losses(&report.drops, &report.port_losses);
    (report.lost() > 0).then(|| line("LOST", &most_frequent(&losses, MAX_REASONS)))
}

/// Each network interface, and what was asked and answered about neighbours.
fn ports(report: &Report) -> Vec<String> {
    let shown = report.ports.iter().take(MAX_PORTS);
    let mut lines: Vec<String> = shown.map(port).collect();
    if report.ports.len() > MAX_PORTS {
        let more = (report.ports.len() - MAX_PORTS) as u64;
        lines.push(line(
            "",
            &format!("and {}", units::counted(more, "more port")),
        ));
    }
    lines.extend(report.neighbors.map(|neighbors| {
        let told = [
            ("known", neighbors.known),
            ("questions", neighbors.questions),
            ("answers", neighbors.answers),
            ("unanswered", neighbors.unanswered),
            ("packets lost", neighbors.lost()),
        ];
        line("neighbours", &counts(&told))
    }));
    lines.extend(report.kernel.map(|kernel| {
        let told = [
            ("routes", kernel.routes),
            ("by no port", kernel.elsewhere),
            ("next hops", kernel.next_hops),
            ("changes", kernel.changes),
            ("routes changed", kernel.changed_routes),
            ("lists asked again", kernel.resyncs),
        ];
        line("kernel", &counts(&told))
    }));
    lines
}

fn port(port: &PortFigures) -> String {
    let way = |packets, bytes| format!("{} ({})", units::count(packets), units::bytes(bytes));
    let lost = match port.lost() {
        0 => String::new(),
        lost => format!(", LOST {}", units::count(lost)),
    };
    let state = if port.is_up { "" } else { ", is down" };
    let text = format!(
        "{} ({}, {}{state}): in {}, out {}{lost}",
        plain(&port.name),
        plain(&port.device),
        port.driver,
        way(port.received_packets, port.received_bytes),
        way(port.transmitted_packets, port.transmitted_bytes)
    );
    line("port", &text)
}

fn latency(report: &Report) -> Vec<String> {
    let row = |name: &str, cells: [String; 6]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
        format!("  {name:<10}{cells}")
    };
    let path = |name, p: &Percentiles| {
        let values = [p.p50_ns, p.p90_ns, p.p99_ns, p.p999_ns, p.max_ns, p.mean_ns];
        row(
            name,
            values.map(|value| {
                if p.count == 0 {
                    "-".to_owned()
                } else {
                    units::duration(value)
                }
            }),
        )
    };
    vec![
        row(
            "latency",
            ["p50", "p90", "p99", "p99.9", "max", "mean"].map(str::to_owned),
        ),
        path("fast", &report.latency.fast),
        path("slow", &report.latency.slow),
    ]
}

fn counts(pairs: &[(&str, u64)]) -> String {
    let texts = pairs
        .iter()
        .map(|(name, n)| format!("{name} {}", units::count(*n)));
    texts.collect::<Vec<_>>().join(", ")
}

fn protocol(report: &Report) -> Vec<String> {
    let c = &report.coherence;
    let link = [
        ("stale", c.stale_messages_ignored),
        ("reordered", c.reordered_frames),
        ("lost", c.lost_frames),
    ];
    let restarted = match restarts_in_words(&report.worker_restarts) {
        words if words.is_empty() => words,
        words => format!("; restarted: {words}"),
    };
    let mut lines = vec![line("link", &format!("{}{restarted}", counts(&link)))];
    lines.extend(scarce_flows(report));
    if report.shows_flow_state() {
        lines.extend(flow_state(report));
    }
    lines
}

/// The flows that the workers know, if there was not room for all.
fn scarce_flows(report: &Report) -> Option<String> {
    let flows = &report.flows;
    let parts = [
        ("known", flows.known),
        ("half-open", flows.half_open),
        ("half-open forgotten", flows.half_open_forgotten),
        ("crowded", flows.crowded),
    ];
    let is_scarce = flows.half_open_forgotten > 0 || flows.crowded > 0;
    is_scarce.then(|| line("flows", &counts(&parts)))
}

fn flow_state(report: &Report) -> Vec<String> {
    let c = &report.coherence;
    let slots = &report.slots;
    let pulls = [
        ("granted", c.pulls_granted),
        ("declined", c.pulls_declined),
        ("cancelled", c.cancellations),
        ("re-armed", c.rearms),
        ("timed out", c.incomplete_timeouts),
        ("refused", c.refused_pulls),
    ];
    let write_backs = [
        ("by idle time", c.ttl_write_backs),
        ("retried", c.write_back_retries),
        ("acknowledged", c.acknowledgements),
    ];
    let in_slots = [
        ("active", slots.active),
        ("incomplete", slots.incomplete),
        ("frozen", slots.frozen),
        ("free", slots.initial),
    ];
    let size = units::count(slots.capacity);
    let collisions = units::count(c.collisions);
    vec![
        line(
            "pulls",
            &format!("{}: {}", units::count(c.pulls), counts(&pulls)),
        ),
        line(
            "write-backs",
            &format!("{}: {}", units::count(c.write_backs), counts(&write_backs)),
        ),
        line(
            "slots",
            &format!("{size}: {}; collisions {collisions}", counts(&in_slots)),
        ),
    ]
}

/// Nothing for a chain that makes no rules.
fn rules(report: &Report) -> Vec<String> {
    if report.rules.is_empty() {
        return Vec::new();
    }
    let RuleCounters {
        table,
        obstacles,
        manager,
        ..
    } = &report.rules.total;
    let met = [
        ("hits", table.hits),
        ("misses", table.misses),
        ("guarded", table.guarded),
        ("held", table.held),
    ];
    let changes = [
        ("added", manager.added),
        ("replaced", manager.replaced),
        ("aged", manager.aged),
        ("invalidated", manager.invalidated),
        ("gone", manager.gone),
    ];
    let (active, capacity) = (units::count(table.active), units::count(table.capacity));
    let (ratio, met) = (units::percent(table.hit_ratio()), counts(&met));
    let none_made = most_frequent(obstacles, MAX_OBSTACLES);
    vec![
        line("rules", &format!("{active} of {capacity}: {ratio} {met}")),
        line(
            "rule cache",
            &format!("{}; no rule: {none_made}", counts(&changes)),
        ),
    ]
}

/// Most servers that get a line.
const MAX_SERVERS: usize = 4;

fn split(split: &SplitFigures) -> Vec<String> {
    let c = &split.counts;
    let ends = [
        ("merged", c.merged),
        ("declined", c.declined),
        ("without header", c.missing),
        (
            "without payload",
            sum(&[
                c.payload_lost,
                c.payload_gone,
                c.payload_refused,
                c.payload_late,
            ]),
        ),
    ];
    let whole = [
        ("small", c.whole_small),
        ("unsuited", c.whole_unsuited),
        ("class", c.whole_class),
        ("chain", c.whole_chain),
        ("too long", c.whole_too_long),
        ("no server", c.whole_no_server),
        ("queue pair down", c.whole_down),
        ("window full", c.whole_window),
        ("no memory", c.whole_no_memory),
        ("no slot", c.whole_no_slot),
        ("no buffer", c.whole_no_buffer),
    ];
    let whole: Vec<_> = whole.into_iter().filter(|(_, n)| *n > 0).collect();
    let whole = match whole.is_empty() {
        true => "none".to_owned(),
        false => counts(&whole),
    };
    let (packets, bytes) = (units::count(c.packets), units::bytes(c.bytes));
    let mut lines = vec![
        line("split", &format!("{packets} ({bytes}): {}", counts(&ends))),
        line("whole", &whole),
    ];
    lines.extend(split.servers.iter().take(MAX_SERVERS).map(memory_server));
    if split.servers.len() > MAX_SERVERS {
        let more = split.servers.len() - MAX_SERVERS;
        lines.push(line("memory", &format!("and {more} more servers")));
    }
    lines
}

/// What a file says may be anything.
fn sum(counts: &[u64]) -> u64 {
    counts
        .iter()
        .fold(0, |sum: u64, &count| sum.saturating_add(count))
}

fn memory_server(server: &MemoryServerFigures) -> String {
    let state = match (&server.last_error, server.is_up) {
        (_, true) => String::from("up"),
        (None, false) => String::from("down"),
        (Some(error), false) => format!("down, {error}"),
    };
    // Memory of the process itself gives back whatever it is asked for.
    let came_back = match server.queue_pairs.is_empty() {
        true => server.counter("reads"),
        false => server.counter("payloads"),
    };
    line(
        "memory",
        &format!(
            "{}: {state}; {} written, {} came back, {} lost",
            plain(&server.name),
            units::count(server.counter("writes")),
            units::count(came_back),
            units::count(server.lost())
        ),
    )
}

/// A table of a DPU's ENIs, those with most packets.
fn dash(dash: &Dash) -> Vec<String> {
    let row = |eni: &str, cells: [&str; 8]| {
        let [
            out,
            out_left,
            back,
            back_left,
            flows,
            resimulated,
            dropped,
            reason,
        ] = cells;
        let row = format!(
            "  {eni:<16}{out:>11}{out_left:>11}{back:>11}{back_left:>11}{flows:>9}{resimulated:>13}{dropped:>9}  {reason}"
        );
        row.trim_end().to_owned()
    };
    let head = [
        "outbound",
        "left",
        "inbound",
        "left",
        "opened",
        "resimulated",
        "dropped",
        "most for",
    ];
    let mut lines = vec![
        line(
            "DPU",
            &format!("{}; ENIs:", units::counted(dash.flows, "flow")),
        ),
        row("ENI", head),
    ];
    let mut enis: Vec<_> = dash.enis.iter().collect();
    let packets = |eni: &EniFigures| eni.outbound.received_packets + eni.inbound.received_packets;
    enis.sort_by_key(|eni| std::cmp::Reverse(packets(eni)));
    for eni in enis.iter().take(MAX_ENIS) {
        let counts = [
            eni.outbound.received_packets,
            eni.outbound.sent_packets,
            eni.inbound.received_packets,
            eni.inbound.sent_packets,
            eni.flows_created,
            eni.flows_resimulated,
            eni.dropped(),
        ];
        let mut cells: [String; 8] = Default::default();
        for (cell, count) in cells.iter_mut().zip(counts) {
            *cell = units::count(count);
        }
        let most = ranked(&eni.drops);
        cells[7] = most
            .first()
            .map_or_else(String::new, |(name, _)| plain(name));
        let name: String = plain(&eni.eni).chars().take(MAX_ENI_NAME).collect();
        lines.push(row(&name, cells.each_ref().map(String::as_str)));
    }
    if let Some(more) = enis.len().checked_sub(MAX_ENIS + 1) {
        lines.push(line("", &format!("and {} more ENIs", more + 1)));
    }
    lines
}

fn parking(parking: &Parking) -> [String; 2] {
    let ends = [
        ("left", parking.departed),
        ("declined", parking.declined),
        ("without header", parking.missing),
        ("gone round", parking.recirculations),
    ];
    let whole = [
        ("small", parking.whole_small),
        ("unsuited", parking.whole_unsuited),
        ("no room", parking.whole_no_room),
        ("no buffer", parking.whole_no_buffer),
    ];
    let (parked, kept) = (
        units::count(parking.parked),
        units::bytes(parking.parked_bytes),
    );
    let (most, limit) = (
        units::bytes(parking.most_queue_bytes),
        units::bytes(parking.limit_bytes),
    );
    [
        line("parked", &format!("{parked} ({kept}): {}", counts(&ends))),
        line(
            "whole",
            &format!("{}; queue at most {most} of {limit}", counts(&whole)),
        ),
    ]
}

fn drops(report: &Report) -> String {
    most_frequent(&report.drops, MAX_REASONS)
}

fn functions(report: &Report) -> Vec<String> {
    let functions = &report.functions;
    let shown = functions.iter().take(MAX_FUNCTIONS);
    let mut lines: Vec<String> = shown
        .map(|function| {
            let (_, counters) = with_labels(&function.counters);
            let counters = most_frequent(&counters, MAX_COUNTERS);
            line(
                "function",
                &format!("{}: {counters}", plain(&function.name)),
            )
        })
        .collect();
    let labelled = functions.iter().take(MAX_FUNCTIONS);
    let labelled =
        labelled.flat_map(|function| by_label(&function.name, &with_labels(&function.counters).0));
    lines.extend(first_lines(labelled.collect()));
    if functions.len() > MAX_FUNCTIONS {
        lines.push(line(
            "",
            &format!("and {} more functions", functions.len() - MAX_FUNCTIONS),
        ));
    }
    lines
}

/// Of each function that tells them the largest few.
fn largest_flows(report: &Report) -> Vec<String> {
    let of_function = |largest: &LargestFlows| {
        let told = format!("largest flows, by {}", plain(&largest.function));
        let flows = largest.flows.iter().take(MAX_LARGEST);
        let lines = flows.map(|flow| line("", &flow.text()));
        std::iter::once(line("flows", &told))
            .chain(lines)
            .collect::<Vec<_>>()
    };
    report.largest_flows.iter().flat_map(of_function).collect()
}

/// Counters with labels, and those without.
fn with_labels(counters: &Counters) -> (Counters, Counters) {
    let counters = counters.clone().into_iter();
    counters.partition(|(name, _)| name.contains('{'))
}

/// A line for all but the last of the labels of a function's counters: each has the counters by their last
/// label.
fn by_label(function: &str, counters: &Counters) -> Vec<String> {
    let mut groups: BTreeMap<String, Counters> = BTreeMap::new();
    for (name, count) in counters {
        let (name, labels) = name.split_once('{').unwrap_or((name, ""));
        let mut labels: Vec<&str> = labels.split('"').skip(1).step_by(2).collect();
        let last = labels.pop().unwrap_or_default().to_owned();
        labels.insert(0, name);
        let group = groups.entry(labels.join(" ")).or_default();
        group.insert(last, *count);
    }
    let told = |(group, counters): (String, Counters)| {
        let group: Vec<String> = group.split(' ').map(plain).collect();
        let counters = most_frequent(&counters, MAX_COUNTERS);
        let group = group.join(" ");
        line("", &format!("{} {group}: {counters}", plain(function)))
    };
    groups.into_iter().map(told).collect()
}

/// As many lines as there is room for, and how many are left.
fn first_lines(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > MAX_LABELLED {
        let more = lines.len() - (MAX_LABELLED - 1);
        lines.truncate(MAX_LABELLED - 1);
        lines.push(line("", &format!("and {more} more in the report")));
    }
    lines
}

fn buffers(report: &Report) -> String {
    let (rings, pool) = (&report.rings, &report.pool);
    format!(
        "rings of {}; pool of {}, at least {} free, exhausted {} times",
        units::count(rings.capacity_frames),
        units::count(pool.frames),
        units::count(pool.low_water_frames),
        units::count(pool.exhausted_events)
    )
}

fn line(name: &str, text: &str) -> String {
    format!("  {name:<12} {text}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{any_report, edge_report};
    use super::*;

    #[test]
    fn of_a_run() {
        insta::assert_snapshot!(summary(&edge_report()));
    }

    #[test]
    fn of_an_empty_run() {
        insta::assert_snapshot!(summary(&Report::default()));
    }

    #[test]
    fn of_a_run_without_flow_state() {
        let report = Report {
            rules: edge_report().rules,
            ..Report::default()
        };
        let text = summary(&report);
        assert!(text.contains("\n  rules        12,400 of 81,920: 96.0 % hits 9,600,000"));
        assert!(!text.contains("pulls") && !text.contains("slots"));
        assert!(text.contains("\n  link "));
    }

    /// Most of it may never have come in.
    #[test]
    fn what_was_lost_is_a_share_of_what_was_offered() {
        let mut report = Report::default();
        report.totals.packets_in = 25;
        report.port_losses.receive_missed = 75;
        report.port_losses.transmit_refused = 5;
        let text = summary(&report);
        let line = text.lines().find(|line| line.contains("LOST"));
        let line = line.expect("lost packets are told");
        assert!(line.contains("80 ") && line.contains("80.0 %"), "{line}");
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        let mut report = edge_report();
        report.run.service = "\u{1b}[2Jgone\n".repeat(9);
        let text = summary(&report);
        assert!(!text.contains('\u{1b}') && text.contains('…'));
    }

    #[test]
    fn many_functions_are_cut_and_counted() {
        let mut report = edge_report();
        report.functions = vec![report.functions[0].clone(); 100];
        let text = summary(&report);
        assert!(text.contains("and 94 more functions"));
        assert!(text.lines().count() < 50);
    }

    /// Of each ENI the reason is told for which most of its packets were dropped.
    #[test]
    fn a_dpu_is_told_by_its_enis() {
        let eni = EniFigures {
            eni: "blue-1".into(),
            drops: [("route_miss".to_owned(), 2), ("acl_inbound".to_owned(), 7)].into(),
            ..EniFigures::default()
        };
        let report = Report {
            dash: Some(Dash {
                flows: 5,
                enis: vec![eni],
                ..Dash::default()
            }),
            ..Report::default()
        };
        let text = summary(&report);
        assert!(text.contains("  DPU          5 flows; ENIs:\n"), "{text}");
        let mut lines = text.lines();
        let line = lines.find(|line| line.contains("blue-1")).expect("a line");
        assert!(line.ends_with("        9  acl_inbound"), "{line}");
    }

    #[test]
    fn a_port_that_is_down_is_told() {
        let port = |name: &str, is_up| PortFigures {
            name: name.into(),
            device: "eth0".into(),
            driver: "af_xdp".into(),
            is_up,
            ..PortFigures::default()
        };
        let report = Report {
            ports: vec![port("lan", true), port("wan", false)],
            ..Report::default()
        };
        let text = summary(&report);
        assert!(text.contains(" lan (eth0, af_xdp): in 0"), "{text}");
        assert!(
            text.contains(" wan (eth0, af_xdp, is down): in 0"),
            "{text}"
        );
    }

    /// Each service of a balancer has a line, with its backends.
    #[test]
    fn counters_with_labels_have_lines_of_their_own() {
        let mut report = edge_report();
        let counters = &mut report.functions[0].counters;
        for (service, backend, count) in [
            ("192.0.2.80:443/tcp", "10.1.0.1:8443", 588),
            ("192.0.2.80:443/tcp", "10.1.0.2:8443", 188),
            ("192.0.2.53:53/udp", "[2001:db8:1:2:3:4:5:6]:53", 7),
        ] {
            let name = format!("opened{{service=\"{service}\",backend=\"{backend}\"}}");
            counters.insert(name, count);
        }
        let text = summary(&report);
        let name = &report.functions[0].name;
        for line in [
            format!(
                "\n               {name} opened 192.0.2.80:443/tcp: 10.1.0.1:8443 588, 10.1.0.2:8443 188\n"
            ),
            format!(
                "\n               {name} opened 192.0.2.53:53/udp: [2001:db8:1:2:3:4:5:6]:53 7\n"
            ),
        ] {
            assert!(text.contains(&line), "{line}: {text}");
        }
        assert!(!text.contains('{'), "{text}");
    }

    proptest! {
        #[test]
        fn any_report_is_below_fifty_lines(report in any_report()) {
            let text = summary(&report);
            prop_assert!(text.lines().count() < 50);
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}
