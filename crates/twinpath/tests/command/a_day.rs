//! Twenty-four hours of short connections in virtual time: what has ended is forgotten, so tables and
//! memory stay as they were after the first hours.

use crate::folder::Folder;
use std::fs;
use std::process::Child;
use std::time::Duration;

/// Far fewer sessions, slots and flows than there are connections in a day.
const SERVICE: &str = r#"
[service]
name = "day"
chain = ["firewall", "napt", "load_balancer", "monitor"]
inside = ["10.0.0.0/8"]

[firewall]
default = "deny"
rules = [{ action = "allow", from = "10.0.0.0/8" }]

[napt]
inside = ["10.0.0.0/8"]
external = ["198.51.100.0/29"]
sessions = 50_000

[[load_balancer.services]]
vip = "203.0.113.80:80"
protocol = "tcp"
backends = [{ endpoint = "203.0.113.1:80" }, { endpoint = "203.0.113.2:80" }]

[slow_path]
flows = 65_536

# Windows as long as the pauses between a connection's packets, which are seconds here.
[fast_path]
slots = 4096
sweep_slots = 8
sketch_window = "20s"
sketch_width = 4096
time_to_live = "30s"

[rule_cache]
window = "20s"
threshold = 1

[run]
execution = "virtual"

[traffic]
duration_ns = 86_400_000_000_000
arrivals = { process = "poisson", rate_pps = 45.0 }
flows = 100
churn_per_minute = 60
flow_size = { kind = "fixed", size = 2, unit = "packets" }
tcp_share = 0.5
packet_size = { kind = "fixed", frame_bytes = 100 }

[traffic.hosts]
services = [
    { address = "203.0.113.80", port = 80, protocol = "tcp" },
    { address = "203.0.113.99", port = 443, protocol = "tcp" },
    { address = "203.0.113.53", port = 53, protocol = "udp" },
    { address = "203.0.113.99", port = 443, protocol = "udp" },
]
"#;

/// What memory may grow by between the first quarter of the run and its end.
const GROWTH: u64 = 16 << 20;

/// A process's memory at the moment, in bytes; `None` if it is gone.
fn resident_bytes(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

/// Memory, again and again until a process ends.
fn curve(child: &mut Child) -> Vec<u64> {
    let mut curve = Vec::new();
    while child.try_wait().expect("its own child").is_none() {
        curve.extend(resident_bytes(child));
        std::thread::sleep(Duration::from_millis(50));
    }
    curve
}

#[test]
fn a_day_of_short_connections_leaves_nothing_behind() {
    let folder = Folder::with("day.toml", SERVICE);
    let mut child = folder.start(&["run", "day.toml", "--report", "r", "--quiet"]);
    let curve = curve(&mut child);
    assert!(child.wait().expect("its own child").success());
    let report = folder.report("r");
    let settled = curve[curve.len() / 4];
    let most = curve[curve.len() / 4..].iter().max().copied().unwrap_or(0);
    println!(
        "{} looks, {settled} to {most} bytes, {:?} {:?} {:?} {:?} {:?}",
        curve.len(),
        report.totals,
        report.flows,
        report.drops,
        report.functions,
        report.slots,
    );
    assert!(most < settled + GROWTH, "{settled} grew to {most}");
    let counter = |function: &str, counter: &str| {
        let function = report.functions.iter().find(|one| one.name == function);
        function.expect("it is in the chain").counters[counter]
    };
    // Twelve times as many as there is room for.
    assert!(counter("napt", "sessions_created") > 600_000);
    assert!(counter("load_balancer", "new_connections") > 100_000);
    assert!(counter("monitor", "flows_ended") > 600_000);
    assert!(counter("napt", "sessions") < 10_000 && counter("monitor", "flows") < 20_000);
    assert!(report.flows.known < 20_000, "{:?}", report.flows);
    assert!(
        report.coherence.write_backs > 100_000,
        "{:?}",
        report.coherence
    );
    // Nothing was turned away for want of room.
    let dropped: u64 = report.drops.values().sum();
    assert!(
        dropped * 100 < report.totals.packets_in,
        "{:?}",
        report.drops
    );
    for exhausted in [
        "sessions_exhausted",
        "ports_exhausted",
        "host_ports_exhausted",
    ] {
        assert_eq!(counter("napt", exhausted), 0, "{exhausted}");
    }
}
