//! Any packets, through whole chains on both paths: nothing panics, what came and what functions made of
//! their own has left or is counted as dropped, and the slow path alone gives the same packets of each
//! flow and direction, in the same order.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use twinpath_compare::blank_drawn;
use twinpath_control::live::Live;
use twinpath_control::report::Report;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::key::Role;
use twinpath_core::wire::dissect;
use twinpath_core::{FlowKey, Side, Steering};
use twinpath_io::Trace;
use twinpath_node::command::no_commands;
use twinpath_node::observe::Observer;
use twinpath_node::run::drive;
use twinpath_node::sink::Collect;
use twinpath_node::source::Source;
use twinpath_node::{Node, Ports, build};

/// Flow state that both paths share.
const SHARED: &str = "[service]\nchain = [\"firewall\", \"reassembler\", \"load_balancer\"]\n\
    [fast_path]\nslots = 8\nhot_packets = 1\n[slow_path]\nflows = 64\n[link]\nring_frames = 16\n[firewall]\ndefault = \"allow\"\n\
    [load_balancer]\nservices = [{ vip = \"10.0.0.1:80\", protocol = \"tcp\", backends = [{ endpoint = \"10.0.0.2:8080\" }] }]\n";

/// Decisions that are cached as rules.
const CACHED: &str = "[service]\nchain = [\"acl\", \"napt\", \"monitor\", \"router\"]\n[link]\nring_frames = 16\n\
    [rule_cache]\nexact = 4\nmasked = 4\nmasks = 2\nheld = 4\nwindow = \"1ms\"\nthreshold = 0\n\
    [acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"udp\", to_port = 53 }]\n\
    [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\nsessions = 64\n[monitor]\nflows = 16\n\
    [router]\naddress = \"192.0.2.9\"\nmost_routes = 16\nnext_hops = [{ name = \"a\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = 1 }]\n\
    routes = [{ to = \"0.0.0.0/0\", via = \"a\" }]\n";

/// Frames of the input: two bytes of time, one of length, then the frame behind an Ethernet and
/// IPv4 start that saves the fuzzer from finding those first.
fn frames(mut bytes: &[u8]) -> Trace {
    let mut trace = Trace::new();
    let mut now = 0u64;
    while let [first, second, len, rest @ ..] = bytes {
        let (frame, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        now += u64::from(u16::from_be_bytes([*first, *second])) * 1000;
        let mut full = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        full.extend_from_slice(frame);
        trace.push(now, &full);
        bytes = rest;
    }
    trace
}

/// Packets in order, by flow and direction; those without a flow are one.
type Left = BTreeMap<Option<(FlowKey, Side, Role)>, Vec<Vec<u8>>>;

fn by_direction(packets: Vec<Vec<u8>>) -> Left {
    let steering = Steering::new(0);
    let mut left = Left::new();
    for packet in packets {
        let layout = dissect(&packet).ok();
        let keyed = layout.and_then(|layout| steering.key(&packet, &layout));
        let flow = keyed.map(|keyed| (keyed.key, keyed.side, keyed.role));
        left.entry(flow).or_default().push(packet);
    }
    left
}

fn outcome(service: &Service, bytes: &[u8], paths: Paths) -> Left {
    let mut service = service.clone();
    service.run.paths = paths;
    service.run.execution = Execution::Virtual;
    let mut node = build(&service, paths).expect("a valid service");
    let mut sink = Collect::default();
    let mut observer = Observer::new(Live::hidden());
    let mut source = Source::trace(frames(bytes));
    // As of a capture: packets wait for what caused them.
    let ports = Ports {
        input: Some("fuzz".into()),
        ..Ports::default()
    };
    drive(
        &service,
        &ports,
        &mut node,
        &mut source,
        &mut sink,
        &mut observer,
        &no_commands(),
        &AtomicBool::new(false),
    )
    .expect("memory never fails");
    assert!(node.machine.has_drained(), "something is still inside");
    assert_counted(observer, &node);
    // Each path draws identifications of its own.
    if service
        .chain
        .iter()
        .any(|one| one.config.translation().is_some())
    {
        sink.0.iter_mut().for_each(|packet| blank_drawn(packet));
    }
    by_direction(sink.0)
}

/// Counters of packets that functions make: ICMP errors, and the second parts of segments that a reassembler
/// splits. An echo that is answered leaves as its answer.
const MADE: [&str; 2] = ["errors_sent", "split"];

/// What came, and what functions made, has left or is among the drops of the machine and the workers.
fn assert_counted(observer: Observer, node: &Node) {
    let mut report = Report::default();
    observer.finish(0, 0, &node.machine, &node.workers, &mut report);
    let counters = report
        .functions
        .iter()
        .flat_map(|function| &function.counters);
    let made = counters.filter(|(name, _)| MADE.contains(&name.as_str()));
    let made: u64 = made.map(|(_, count)| count).sum();
    let came = report.totals.packets_in + made;
    let gone = report.totals.packets_out + report.dropped();
    assert_eq!(came, gone, "{made} made, drops {:?}", report.drops);
}

// The first byte chooses the service.
/// One input.
pub fn run(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let text = if choice & 1 == 0 { SHARED } else { CACHED };
    let service = Service::parse(text, Path::new("fuzz.toml")).expect("a valid service");
    assert_eq!(
        outcome(&service, bytes, Paths::Both),
        outcome(&service, bytes, Paths::Slow)
    );
}
