//! Runs services over packets and compares what comes out, flow by flow.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub mod across;
pub mod acting;
pub mod burners;
pub mod chains;
pub mod changing;
pub mod conversing;
pub mod derived;
pub mod headers_only;
pub mod inside;
pub mod memory_servers;
pub mod racing;
pub mod rows;
pub mod sharded;
pub mod talk;
pub mod trial;
pub mod world;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
pub use twinpath_captures::captures;
use twinpath_compare::{Comparison, Options, Renaming, blank_drawn};
use twinpath_control::live::Live;
use twinpath_control::report::Report;
use twinpath_control::service::{Execution, Instance, Pace, Paths, Service, Ways};
use twinpath_core::key::Role;
use twinpath_core::wire::{Endpoint, dissect, fields, rewrite};
use twinpath_core::{FlowKey, Instant, Keyed, Pools, Side, Steering};
use twinpath_io::{CaptureError, CaptureReader, Next, Trace};
use twinpath_node::causality::{Causality, Scope};
use twinpath_node::command::no_commands;
use twinpath_node::observe::Observer;
use twinpath_node::run::drive;
use twinpath_node::sink::Sink;
use twinpath_node::source::Source;
use twinpath_node::virtual_time::VirtualRun;
use twinpath_node::{Departure, Limits, Node, Ports, build};
use twinpath_traffic::{Generator, TrafficConfig};

/// Packets by flow, in order; what is no IP has no flow.
pub type Flows = BTreeMap<Option<FlowKey>, Vec<Vec<u8>>>;

/// The same, each direction of a flow for itself, and ICMP errors about it.
pub type OneWayFlows = BTreeMap<Option<(FlowKey, Side, Role)>, Vec<Vec<u8>>>;

/// What a run gave.
pub struct Outcome {
    /// What left, with its time.
    pub packets: Vec<(u64, Vec<u8>)>,
    /// By flow, without identifications that a translation of the chain may have drawn.
    pub flows: Flows,
    /// How many packets left by each port, or by none that a function named.
    pub ports: BTreeMap<Option<u16>, u64>,
    pub report: Report,
}

/// Reads a service from text.
pub fn service(text: &str) -> Service {
    Service::parse(text, Path::new("test.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// Variants of the fast path that the oracle must not see a difference in.
#[derive(Copy, Clone, Debug)]
pub enum Variant {
    Plain,
    FewSlots,
    OneWay,
    ShortLife,
    EagerPulls,
    Asic,
}

pub const VARIANTS: [Variant; 5] = [
    Variant::Plain,
    Variant::FewSlots,
    Variant::OneWay,
    Variant::ShortLife,
    Variant::EagerPulls,
];

pub fn vary(service: &Service, variant: Variant) -> Service {
    let mut service = service.clone();
    let fast = &mut service.fast_path;
    fast.sweep_slots = 256;
    match variant {
        Variant::Plain => {}
        Variant::FewSlots => fast.slots = 64,
        Variant::OneWay => fast.ways = Some(Ways(1)),
        Variant::ShortLife => fast.time_to_live = "1ms".parse().expect("a duration"),
        Variant::EagerPulls => (fast.hot_packets, fast.rearms) = (1, 255),
        Variant::Asic => fast.ways = Some(Ways(1)),
    }
    service
}

/// Runs a service over packets in memory.
pub fn run(service: &Service, trace: &Trace, paths: Paths, execution: Execution) -> Outcome {
    let mut sink = Leaving::default();
    let report = run_into(&mut sink, service, trace, paths, execution);
    Outcome {
        flows: undrawn_flows(service, packets_of(&sink)),
        packets: sink.packets,
        ports: sink.ports,
        report,
    }
}

/// The same on both paths, in virtual time, while packets do not wait for what caused them.
pub fn run_without_causality(service: &Service, trace: &Trace) -> Outcome {
    let mut sink = Leaving::default();
    let service = lossless(service, Paths::Both, Execution::Virtual);
    let mut node = built(&service);
    let mut observer = Observer::new(Live::hidden());
    let round_trip = service.link.round_trip.duration();
    VirtualRun::new(&mut node, &mut sink, &mut observer, round_trip)
        .run(
            &mut Source::trace(copy(trace)),
            Causality::new(Scope::Nothing),
        )
        .expect("memory never fails");
    Outcome {
        flows: undrawn_flows(&service, packets_of(&sink)),
        packets: sink.packets,
        ports: sink.ports,
        report: reported(observer, &node),
    }
}

/// A packet with its ends swapped. Its sender numbers it itself: the number of what it answers may have
/// been drawn.
pub fn answer(packet: &[u8]) -> Option<Vec<u8>> {
    let layout = dissect(packet).ok()?;
    let (source, destination) = (
        fields::source(packet, &layout),
        fields::destination(packet, &layout),
    );
    let mut answer = packet.to_vec();
    rewrite::set_source(&mut answer, &layout, destination).ok()?;
    rewrite::set_destination(&mut answer, &layout, source).ok()?;
    blank_drawn(&mut answer);
    Some(answer)
}

#[derive(Default)]
pub struct Leaving {
    pub packets: Vec<(u64, Vec<u8>)>,
    pub ports: BTreeMap<Option<u16>, u64>,
    /// Nothing older may leave any more.
    watermark: Instant,
}

impl Sink for Leaving {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        let frame = &departure.frame;
        let is_late = frame.timestamp() < self.watermark;
        assert!(!is_late, "a capture would not be in order");
        *self.ports.entry(frame.metadata().egress).or_default() += 1;
        let at = frame.timestamp().0;
        self.packets.push((at, frame.bytes().to_vec()));
        Ok(())
    }

    fn advance(&mut self, watermark: Instant) -> Result<(), CaptureError> {
        self.watermark = self.watermark.max(watermark);
        Ok(())
    }
}

/// Runs a service over packets in memory on both paths and on threads, with so many buffers for
/// packets that arrive.
pub fn run_with_buffers(service: &Service, trace: &Trace, buffers: usize) -> Outcome {
    let service = lossless(service, Paths::Both, Execution::Threads);
    let mut node = built(&service);
    *node.machine.pools() = Pools::new(buffers, buffers);
    let mut sink = Leaving::default();
    let report = drive_into(&mut sink, &service, trace, node);
    Outcome {
        flows: undrawn_flows(&service, packets_of(&sink)),
        packets: sink.packets,
        ports: sink.ports,
        report,
    }
}

fn run_into(
    sink: &mut impl Sink,
    service: &Service,
    trace: &Trace,
    paths: Paths,
    execution: Execution,
) -> Report {
    let service = lossless(service, paths, execution);
    let node = built(&service);
    drive_into(sink, &service, trace, node)
}

fn drive_into(sink: &mut impl Sink, service: &Service, trace: &Trace, mut node: Node) -> Report {
    let mut observer = Observer::new(Live::hidden());
    let mut source = Source::trace(copy(trace));
    let ports = Ports {
        input: Some(PathBuf::from("memory")),
        ..Ports::default()
    };
    drive(
        service,
        &ports,
        &mut node,
        &mut source,
        sink,
        &mut observer,
        &no_commands(),
        &AtomicBool::new(false),
    )
    .expect("memory never fails");
    reported(observer, &node)
}

fn packets_of(sink: &Leaving) -> Vec<Vec<u8>> {
    sink.packets
        .iter()
        .map(|(_, packet)| packet.clone())
        .collect()
}

pub fn lossless(service: &Service, paths: Paths, execution: Execution) -> Service {
    let mut service = service.clone();
    (service.run.paths, service.run.execution, service.run.pace) =
        (paths, execution, Some(Pace::Lossless));
    service
}

fn built(service: &Service) -> Node {
    let mut node = build(service, service.run.paths).unwrap_or_else(|error| panic!("{error}"));
    node.machine.set_limits(Limits {
        ring_frames: service.link.ring_frames,
        is_lossless: true,
        is_replay: false,
    });
    node
}

pub fn reported(observer: Observer, node: &Node) -> Report {
    let mut report = Report::default();
    observer.finish(0, 0, &node.machine, &node.workers, &mut report);
    report
}

pub fn copy(trace: &Trace) -> Trace {
    let mut copy = Trace::new();
    trace
        .iter()
        .for_each(|frame| copy.push(frame.timestamp_ns, frame.frame));
    copy
}

pub fn by_flow(packets: Vec<Vec<u8>>) -> Flows {
    grouped(packets, |keyed| keyed.key)
}

/// Packets that a service put out, by flow, without identifications that it may have drawn: each path
/// draws from numbers of its own.
pub fn undrawn_flows(service: &Service, mut packets: Vec<Vec<u8>>) -> Flows {
    if draws(service) {
        packets.iter_mut().for_each(|packet| blank_drawn(packet));
    }
    by_flow(packets)
}

/// Whether a function of a chain draws identifications.
pub fn draws(service: &Service) -> bool {
    let names = |instance: &Instance| instance.config.descriptor().name;
    let mut chain = service.chain.iter().map(names);
    chain.any(|name| matches!(name, "napt" | "nat64"))
}

pub fn by_direction(flows: &Flows) -> OneWayFlows {
    let packets = flows.values().flatten().cloned();
    grouped(packets, |keyed| (keyed.key, keyed.side, keyed.role))
}

fn grouped<K: Ord>(
    packets: impl IntoIterator<Item = Vec<u8>>,
    name: impl Fn(Keyed) -> K,
) -> BTreeMap<Option<K>, Vec<Vec<u8>>> {
    let steering = Steering::new(0);
    let mut flows = BTreeMap::<_, Vec<Vec<u8>>>::new();
    for packet in packets {
        let layout = dissect(&packet).ok();
        let keyed = layout.and_then(|layout| steering.key(&packet, &layout));
        flows.entry(keyed.map(&name)).or_default().push(packet);
    }
    flows
}

/// Fails with the first difference, told as a person would want it.
pub fn assert_same<K: Ord + Debug>(
    expected: &BTreeMap<Option<K>, Vec<Vec<u8>>>,
    found: &BTreeMap<Option<K>, Vec<Vec<u8>>>,
    what: &str,
) {
    for (key, packets) in expected {
        let name = key
            .as_ref()
            .map_or("no flow".into(), |key| format!("{key:?}"));
        let others = found.get(key).unwrap_or_else(|| {
            panic!("{what}: flow {name} is missing ({} packets)", packets.len())
        });
        for (index, (packet, other)) in packets.iter().zip(others).enumerate() {
            assert_eq!(
                packet,
                other,
                "{what}: flow {name}: packet {index} of {}",
                packets.len()
            );
        }
        assert_eq!(
            packets.len(),
            others.len(),
            "{what}: flow {name}: number of packets"
        );
    }
    let extra: Vec<_> = found
        .keys()
        .filter(|key| !expected.contains_key(*key))
        .collect();
    assert!(
        extra.is_empty(),
        "{what}: flows that should not be there: {extra:?}"
    );
}

/// Longer than packets may be late, and shorter than any binding lives without them: where a silence
/// takes as long in one of two runs and is a little shorter in the other, it is one for one of these
/// in both or in none.
const SILENCES_MS: [u64; 3] = [500, 350, 700];

/// Fails with the first difference, up to a renaming of ports at these external prefixes, which are
/// parted by spaces.
pub fn assert_same_but_for_names(expected: &Outcome, found: &Outcome, external: &str, what: &str) {
    let compared = |silence_ms| {
        let prefixes = external
            .split(' ')
            .map(|prefix| prefix.parse().expect("a prefix"));
        let renaming = Renaming::of(prefixes.collect());
        let comparison = Comparison::new(Options {
            renaming: Some(renaming.with_binding_idle(Duration::from_millis(silence_ms))),
            ..Options::default()
        });
        let (a, b) = (&expected.packets, &found.packets);
        comparison.compare(
            a.iter().map(|(at, packet)| (*at, packet.as_slice())),
            b.iter().map(|(at, packet)| (*at, packet.as_slice())),
        )
    };
    let [first, others @ ..] = SILENCES_MS;
    if let Err(difference) = compared(first)
        && others.into_iter().all(|silence| compared(silence).is_err())
    {
        panic!(
            "{what}: {}",
            difference.between("slow path alone", "both paths")
        );
    }
}

/// A capture's frames up to its end or to the place where it is cut off.
pub fn load(path: &Path) -> Trace {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let mut buffer = vec![0; 1 << 18];
    let mut trace = Trace::new();
    while let Ok(Next::Frame(record)) = reader.next_into(&mut buffer) {
        trace.push(record.timestamp_ns, &buffer[..record.captured_len]);
    }
    trace
}

/// Generated packets.
pub fn generate(config: &TrafficConfig, seed: u64) -> Trace {
    let mut generator = Generator::new(config, seed).unwrap_or_else(|error| panic!("{error}"));
    let mut buffer = vec![0; generator.frame_bytes_max()];
    let mut trace = Trace::new();
    while let Some(packet) = generator.next_into(&mut buffer) {
        trace.push(packet.timestamp_ns, &buffer[..packet.len]);
    }
    trace
}

/// Traffic from a table of the service file's kind.
pub fn traffic(text: &str) -> TrafficConfig {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// TCP and some UDP, fragments and ICMP errors, with signatures planted.
pub fn tcp_traffic(out_of_order: f64, packets: u64) -> Trace {
    generate(&tcp_config(out_of_order, packets), 7)
}

const ARRIVALS: &str = "arrivals = { process = \"constant\", rate_pps = 1000.0 }\n";

/// The same, with what `examples/inspector.toml` plants, ten times as often: what its rules find. A
/// part of it is for the service of a balancer.
pub fn inspected_traffic(out_of_order: f64, packets: u64) -> Trace {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/inspector.toml");
    let example = Service::load(Path::new(example)).unwrap_or_else(|error| panic!("{error}"));
    let mut signatures = example.traffic.expect("it has traffic").signatures;
    signatures
        .iter_mut()
        .for_each(|planted| planted.share *= 10.0);
    let balanced =
        "hosts = { services = [{ address = \"10.255.0.1\", port = 80, protocol = \"tcp\" }] }\n";
    let config = TrafficConfig {
        signatures,
        hosts: traffic(&format!("{ARRIVALS}{balanced}")).hosts,
        ..tcp_config(out_of_order, packets)
    };
    generate(&config, 7)
}

fn tcp_config(out_of_order: f64, packets: u64) -> TrafficConfig {
    traffic(&format!(
        "packets = {packets}\nflows = 200\nchurn_per_minute = 60000.0\npopularity = {{ distribution = \"zipf\", exponent = 0.99 }}\n\
         arrivals = {{ process = \"poisson\", rate_pps = 200000.0 }}\npacket_size = {{ kind = \"imix\" }}\ntcp_share = 0.9\n\
         fragment_share = 0.01\nicmp_error_share = 0.005\ntcp = {{ out_of_order_share = {out_of_order} }}\n\
         signatures = [{{ text = \"GET /etc/passwd\", share = 0.002 }}]\n"
    ))
}

/// Whole connections to the balanced service, as they pass a balancer: the servers' packets come
/// from the backend that the slow path alone has chosen for their client.
pub fn balanced_traffic(balancer: &str, packets: u64) -> Trace {
    balanced_traffic_of(balancer, packets, "")
}

/// The same of traffic with more said about it.
pub fn balanced_traffic_of(balancer: &str, packets: u64, more: &str) -> Trace {
    let all = generate(
        &traffic(&format!(
            "{more}packets = {packets}\nflows = 300\nchurn_per_minute = 30000.0\narrivals = {{ process = \"constant\", rate_pps = 100000.0 }}\n\
             hosts = {{ services = [{{ address = \"10.255.0.1\", port = 80, protocol = \"tcp\" }}] }}\n"
        )),
        11,
    );
    let backends = chosen_backends(balancer, &all);
    let mut trace = Trace::new();
    for frame in all.iter() {
        let mut packet = frame.frame.to_vec();
        let layout = dissect(&packet).expect("generated");
        if let Some(&backend) = backends.get(&fields::destination(&packet, &layout)) {
            rewrite::set_source(&mut packet, &layout, backend).expect("both are IPv4");
        }
        trace.push(frame.timestamp_ns, &packet);
    }
    trace
}

/// The backend of each client.
fn chosen_backends(balancer: &str, all: &Trace) -> HashMap<Endpoint, Endpoint> {
    let mut requests = Trace::new();
    let vip: Endpoint = "10.255.0.1:80".parse().expect("an endpoint");
    let ends = |packet: &[u8]| {
        dissect(packet)
            .map(|layout| {
                (
                    fields::source(packet, &layout),
                    fields::destination(packet, &layout),
                )
            })
            .expect("valid")
    };
    all.iter()
        .filter(|frame| ends(frame.frame).1 == vip)
        .for_each(|frame| requests.push(frame.timestamp_ns, frame.frame));
    let service = service(&format!(
        "[service]\nchain = [\"load_balancer\"]\n{balancer}"
    ));
    let balanced = run(&service, &requests, Paths::Slow, Execution::Virtual);
    balanced
        .flows
        .into_values()
        .flatten()
        .map(|packet| ends(&packet))
        .collect()
}
