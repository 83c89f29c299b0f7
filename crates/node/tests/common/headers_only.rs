//! Services whose workers see headers alone, wherever payloads wait, and packets for them.

use super::acting::{assert_all_acted, assert_share};
use super::rows::tell;
use super::{Flows, Outcome, balanced_traffic_of, generate, run, service, traffic};
use twinpath_control::report::Report;
use twinpath_control::service::{Execution, Paths};
use twinpath_io::Trace;

pub const BALANCED: &str = "[load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [\
    { endpoint = \"10.254.0.1:8080\" }, { endpoint = \"10.254.0.2:8080\", weight = 3 }] }]\n";
pub const FIREWALL: &str = "[firewall]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"udp\", to_port = \"53\" }]\n";

/// Chains of rules, alone and beside flow state; several packets are under way at any time.
pub const GATEWAY: &str = r#"
[acl]
default = "allow"
rules = [
    { action = "deny", protocol = "udp", to_port = "137-139" },
    { action = "deny", from = "10.0.0.0/29", protocol = "udp" },
]
[napt]
inside = ["10.0.0.0/8", "192.168.0.0/16"]
external = ["198.51.100.1", "198.51.100.2"]
timeouts = { udp = "1s", tcp_transitory = "1s", tcp_established = "2s", icmp = "1s" }
[router]
address = "192.0.2.254"
address6 = "2001:db8::254"
next_hops = [
    { name = "uplink", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 1 },
    { name = "lab", mac = "02:00:00:00:02:01", source_mac = "02:00:00:00:00:02", port = 7 },
]
routes = [
    { to = "0.0.0.0/0", via = "uplink" },
    { to = "::/0", via = "uplink" },
    { to = "10.0.0.0/8", via = "lab" },
]
[rule_cache]
window = "100ms"
threshold = 0
[link]
round_trip = "200us"
incomplete_timeout = "10ms"
"#;

/// The same where rules are cached while [`crossing_traffic`] lasts, and the list denies some of its clients.
pub fn caching_gateway() -> String {
    let clients = "{ action = \"deny\", from = \"10.0.2.0/23\" },\n    { action = \"deny\", from = \"10.0.0.0/29\"";
    let caching = GATEWAY.replacen("window = \"100ms\"", "window = \"5ms\"", 1);
    caching.replacen("{ action = \"deny\", from = \"10.0.0.0/29\"", clients, 1)
}

pub const EVERYWHERE: [(Paths, Execution); 4] = [
    (Paths::Both, Execution::Virtual),
    (Paths::Both, Execution::Threads),
    (Paths::Slow, Execution::Virtual),
    (Paths::Slow, Execution::Threads),
];

/// Packets of many flows both ways, with fragments and ICMP errors.
pub fn crossing_traffic() -> Trace {
    generate(
        &traffic(
            "packets = 6000\nflows = 200\nchurn_per_minute = 60000.0\npopularity = { distribution = \"zipf\", exponent = 0.99 }\n\
             arrivals = { process = \"poisson\", rate_pps = 100000.0 }\npacket_size = { kind = \"imix\" }\nreply_share = 0.5\n\
             fragment_share = 0.01\nicmp_error_share = 0.005\n",
        ),
        3,
    )
}

pub fn balancer() -> String {
    format!("[service]\nchain = [\"load_balancer\"]\n{BALANCED}")
}

pub fn firewall() -> String {
    format!("[service]\nchain = [\"firewall\"]\n{FIREWALL}")
}

/// Clients and servers of the balanced service, with payloads.
pub fn conversations() -> Trace {
    balanced_traffic_of(BALANCED, 4_000, "packet_size = { kind = \"imix\" }\n")
}

/// Every packet, with how often it is there.
pub fn multiset(flows: &Flows) -> Vec<(String, Vec<&[u8]>)> {
    flows
        .iter()
        .map(|(key, packets)| {
            let mut packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
            packets.sort_unstable();
            (format!("{key:?}"), packets)
        })
        .collect()
}

/// Runs a service with a table more, which says where payloads wait.
pub fn with_mode(text: &str, mode: &str, trace: &Trace, run_as: (Paths, Execution)) -> Outcome {
    let service = service(&format!("{text}{mode}"));
    run(&service, trace, run_as.0, run_as.1)
}

/// What workers that see whole packets put out, without the fast path; every function acts.
pub fn expected(text: &str, trace: &Trace) -> Outcome {
    let service = service(text);
    let expected = run(&service, trace, Paths::Slow, Execution::Virtual);
    assert_all_acted(&service, &expected, text);
    expected
}

/// Where there is a fast path it settled this share, at least.
pub fn assert_settled(found: &Outcome, run_as: (Paths, Execution), least_share: f64) {
    if matches!(run_as.0, Paths::Both) {
        tell("generated", &found.report);
        assert_share(found, least_share, &format!("{run_as:?}"));
    }
}

/// How many payloads waited.
pub fn kept(outcome: &Outcome) -> u64 {
    payloads_elsewhere(&outcome.report)
}

/// The same of a report.
pub fn payloads_elsewhere(report: &Report) -> u64 {
    let parked = report.parking.map_or(0, |parking| parking.parked);
    parked
        + report
            .split
            .as_ref()
            .map_or(0, |split| split.counts.packets)
}

/// Every packet came to one end, functions answered so many of those that they dropped, no payload still
/// waits, and of those that were split none was lost.
pub fn assert_counted(outcome: &Outcome, answered: u64, what: &str) {
    let report = &outcome.report;
    let mut twice = 0;
    if let Some(parking) = report.parking {
        let ended = parking.departed + parking.declined + parking.missing + parking.header_too_long;
        assert_eq!(parking.parked, ended, "{what}: a payload still waits");
        twice = parking.dropped_late;
    }
    if let Some(split) = &report.split {
        let counts = split.counts;
        assert_eq!(counts.packets, counts.ended(), "{what}: {counts:?}");
        let lost = (counts.lost(), counts.dropped_late);
        assert_eq!(lost, (0, 0), "{what}: {counts:?}");
    }
    let (came, left) = (report.totals.packets_in, report.totals.packets_out);
    assert_eq!(
        came + answered + twice,
        left + report.dropped(),
        "{what}: {:?}",
        report.drops
    );
}
