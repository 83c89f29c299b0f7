//! A flow whose packets follow each other faster than workers answer comes to the fast path all the
//! same: packets wait there for the state of their flow, and the slow path alone puts out the same.

use crate::common::rows::tell;
use crate::common::{Outcome, assert_same, run, run_without_causality, service};
use twinpath_control::report::Coherence;
use twinpath_control::service::{Execution, Paths, Service, Waiting};
use twinpath_core::wire::{Address, Endpoint, PacketBuilder};
use twinpath_io::Trace;

/// Workers answer after 2 ms, in which each flow sends 20 packets.
const TABLES: &str = r#"
[link]
round_trip = "2ms"
[acl]
default = "allow"
[rule_cache]
window = "20ms"
threshold = 2
held = 200
[firewall]
default = "allow"
[load_balancer]
services = [
    { vip = "192.0.2.1:53", protocol = "udp", backends = [{ endpoint = "192.0.2.11:53" }, { endpoint = "192.0.2.12:53" }] },
    { vip = "[2001:db8::1]:53", protocol = "udp", backends = [{ endpoint = "[2001:db8::11]:53" }, { endpoint = "[2001:db8::12]:53" }] },
]
"#;
const BETWEEN_NS: u64 = 100_000;
const PACKETS: u64 = 2_000;

fn chain(names: &[&str]) -> Service {
    service(&format!("[service]\nchain = {names:?}\n{TABLES}"))
}

fn balanced(waiting: Option<usize>) -> Service {
    let mut service = chain(&["firewall", "load_balancer"]);
    service.fast_path.waiting = waiting.map(Waiting);
    service
}

/// Hosts of both versions that send without a pause.
fn steady(hosts: u16) -> Trace {
    let mut trace = Trace::default();
    for number in 0..PACKETS {
        for host in 0..hosts {
            let [from, to] = match host % 2 {
                0 => [format!("10.0.0.{host}"), "192.0.2.1".into()],
                _ => [format!("2001:db8:1::{host}"), "2001:db8::1".into()],
            }
            .map(|text| text.parse::<Address>().expect("an address"));
            let packet =
                PacketBuilder::udp(Endpoint::new(from, 1024 + host), Endpoint::new(to, 53));
            let payload = number.to_be_bytes();
            let bytes = packet.payload(&payload).to_vec().expect("short");
            let at = 1_000_000_000 + number * BETWEEN_NS + u64::from(host) * 1_000;
            trace.push(at, &bytes);
        }
    }
    trace
}

fn check(service: &Service, trace: &Trace, what: &str) -> (f64, Coherence) {
    let alone = run(service, trace, Paths::Slow, Execution::Virtual);
    let Outcome { flows, report, .. } = run_without_causality(service, trace);
    assert_same(&alone.flows, &flows, what);
    tell("flows that never pause", &report);
    println!(
        "{what}: share {:.3}, {:?}",
        report.fast.share, report.coherence
    );
    (report.fast.share, report.coherence)
}

#[test]
fn flows_that_never_pause_come_to_the_fast_path() {
    let trace = steady(6);
    let (share, coherence) = check(&balanced(None), &trace, "packets wait");
    assert!(share > 0.95, "{share}");
    assert!(coherence.waited > 6 && coherence.waited_then_punted == 0);
}

/// What the test above is about: without room to wait such flows stay on the slow path.
#[test]
fn where_none_may_wait_they_stay_on_the_slow_path() {
    let (share, coherence) = check(&balanced(Some(0)), &steady(6), "none waits");
    assert!(share < 0.05, "{share}");
    assert!(coherence.cancellations > 100 && coherence.waited == 0);
}

/// Too little room is no loss: what cannot wait goes to the slow path, in order.
#[test]
fn where_few_may_wait_all_the_others_go_on() {
    for waiting in [1, 2, 7, 40, 79] {
        let what = format!("at most {waiting} wait");
        let (_, coherence) = check(&balanced(Some(waiting)), &steady(6), &what);
        assert!(coherence.waited_then_punted > 0, "{what}");
    }
}

/// Rules become active, too, although of all packets that they match together more are under way than
/// may be held.
#[test]
fn rules_that_match_too_many_packets_together_become_active_one_by_one() {
    let service = chain(&["acl", "monitor"]);
    let trace = steady(60);
    let alone = run(&service, &trace, Paths::Slow, Execution::Virtual);
    let Outcome { flows, report, .. } = run_without_causality(&service, &trace);
    assert_same(&alone.flows, &flows, "many rules");
    tell("flows that never pause", &report);
    let table = &report.rules.total.table;
    println!("share {:.3}, {table:?}", report.fast.share);
    assert!(report.fast.share > 0.5, "{}", report.fast.share);
    assert_eq!(table.hold_full, 0);
    assert!(table.held_then_punted > 0, "they were never too many");
}
