//! A DPU in the node: what leaves with flows on the fast path is what the slow path alone makes of it,
//! over generated traffic of both IP versions, inside and outside of tunnels, whose configuration changes in
//! between.

use crate::common::inside::inside;
use crate::common::rows::{tell, tell_steps};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use twinpath_compare::blank_drawn;
use twinpath_control::live::Live;
use twinpath_control::report::Dash;
use twinpath_control::service::{Execution, Pace, Paths, Service, Shards};
use twinpath_core::wire::tunnel::{Tunnel, VXLAN_PORT};
use twinpath_core::wire::{Address, Fragment, dissect, fields};
use twinpath_io::{CaptureReader, CaptureWriter, Next};
use twinpath_node::Ports;
use twinpath_node::run::{RunStep, StepFigures, run_steps};
use twinpath_node::shards::Partition;
use twinpath_node::source::{Read, Source};

/// What changes in front of each part of the traffic.
const CHANGES: [&str; 6] = [
    "[]",
    // A port that was open is closed, for the ENIs of both networks.
    r#"[{"DASH_ACL_RULE_TABLE:out:3": {"priority": 5, "action": "deny", "terminating": true, "protocol": "6,17", "dst_port": "443"}, "OP": "SET"}]"#,
    // It is open again; a machine moves, an ENI is disabled.
    r#"[{"DASH_ACL_RULE_TABLE:out:3": {}, "OP": "DEL"},
        {"DASH_VNET_MAPPING_TABLE:blue:10.0.0.2": {"routing_type": "vnet_encap", "underlay_ip": "20.0.1.99", "mac_address": "02:00:00:00:01:02", "use_dst_vni": true}, "OP": "SET"},
        {"DASH_ENI_TABLE:red-3": {"eni_id": "red-3", "mac_address": "02:00:00:00:02:03", "vnet": "red", "underlay_ip": "20.0.2.3", "admin_state": "disabled", "qos": "small"}, "OP": "SET"}]"#,
    // Routes go, of one version, and come back as something else.
    r#"[{"DASH_ROUTE_TABLE:blue-routes:2001:db8:b::/64": {}, "OP": "DEL"},
        {"DASH_ROUTE_TABLE:red-routes:10.0.0.0/16": {"routing_type": "drop"}, "OP": "SET"}]"#,
    r#"[{"DASH_ROUTE_TABLE:blue-routes:2001:db8:b::/64": {"routing_type": "vnet", "vnet": "blue"}, "OP": "SET"},
        {"DASH_ROUTE_TABLE:red-routes:10.0.0.0/16": {"routing_type": "vnet", "vnet": "red"}, "OP": "SET"}]"#,
    // What was a machine is an address with two behind it; where a network was is the internet, and tenants
    // are behind blocks of one address.
    r#"[{"DASH_LOAD_BALANCER_TABLE:blue:10.0.0.2:tcp:80": {"backends": ["10.0.0.1:8080", "10.0.0.3:8080"]}, "OP": "SET"},
        {"DASH_ROUTE_TABLE:blue-routes:10.9.0.0/16": {"routing_type": "direct"}, "OP": "SET"},
        {"DASH_NAT_POOL_TABLE:internet": {"addresses": "203.0.113.1", "block_size": 16384}, "OP": "SET"},
        {"DASH_ENI_NAT_TABLE:blue-1": {"pool": "internet", "block": 0}, "OP": "SET"},
        {"DASH_ENI_NAT_TABLE:blue-2": {"pool": "internet", "block": 1}, "OP": "SET"},
        {"DASH_ENI_NAT_TABLE:blue-3": {"pool": "internet", "block": 2}, "OP": "SET"}]"#,
];

/// Packets of each part.
const PACKETS: usize = 6_000;

fn service() -> Service {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/dpu.toml");
    with_traffic(Service::load(&path).expect("the example"))
}

fn with_traffic(mut service: Service) -> Service {
    let traffic = service.traffic.as_mut().expect("it has traffic");
    traffic.packets = Some((PACKETS * CHANGES.len()) as u64);
    traffic.flows = 300;
    traffic.fragment_share = 0.02;
    service
}

/// The same configuration in an underlay of IPv6: hosts, the DPU, and who may send from where.
fn over_v6(configuration: &str) -> String {
    let places = [
        ("10.1.0.", "2001:db8:a1::"),
        ("20.0.0.0/16", "2001:db8:20::/48"),
        ("20.0.", "2001:db8:20::"),
        (":0.0.0.0/0:1", ":::/0:1"),
        ("101.1.2.3", "2001:db8:65::3"),
    ];
    let mut text = configuration.to_owned();
    for (v4, v6) in places {
        text = text.replace(v4, v6);
    }
    // What is left of an address's dots: `2001:db8:20::1.3`.
    for network in 1..=2 {
        let [dotted, colons] = [".", ":"].map(|dot| format!("2001:db8:20::{network}{dot}"));
        text = text.replace(&dotted, &colons);
    }
    text
}

/// The example's service in an underlay of IPv6.
fn service_over_v6(folder: &Path) -> Service {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for name in ["dpu.json", "dpu-v6.json"] {
        let text = std::fs::read_to_string(examples.join(name)).expect("the example");
        std::fs::write(folder.join(name), over_v6(&text)).expect("a file");
    }
    let text = std::fs::read_to_string(examples.join("dpu.toml")).expect("the example");
    let path = folder.join("dpu.toml");
    std::fs::write(&path, text).expect("a file");
    with_traffic(Service::load(&path).expect("the example"))
}

/// The traffic in parts, and what changes in front of each.
fn steps(service: &Service, folder: &Path) -> Vec<RunStep> {
    steps_of(service, &CHANGES.map(String::from), folder)
}

fn steps_of(service: &Service, changes: &[String], folder: &Path) -> Vec<RunStep> {
    let traffic = service.traffic.as_ref().expect("it has traffic");
    let mut source = Source::generator(traffic, service).expect("traffic");
    let mut steps = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        let (config, input) = (
            folder.join(format!("{number}.json")),
            folder.join(format!("{number}.pcap")),
        );
        std::fs::write(&config, change).expect("a file");
        let mut writer = CaptureWriter::create(&input).expect("a capture");
        for _ in 0..PACKETS {
            if let Read::Packet(at) = source.read().expect("traffic") {
                writer.write(at.0, source.bytes()).expect("a packet");
            }
        }
        writer.finish().expect("a capture");
        steps.push(RunStep {
            config: vec![config],
            input: Some(input),
            output: None,
        });
    }
    steps
}

/// What left of each flow and direction, in order, but for identifications that may have been drawn.
type Flows = BTreeMap<String, Vec<Vec<u8>>>;

fn flows(path: &Path) -> Flows {
    let mut flows = Flows::new();
    for mut frame in frames(path) {
        blank_drawn(&mut frame);
        flows.entry(inside(&frame)).or_default().push(frame);
    }
    flows
}

fn frames(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let (mut frames, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while let Next::Frame(record) = reader.next_into(&mut buffer).expect("a packet") {
        frames.push(buffer[..record.captured_len].to_vec());
    }
    frames
}

/// Of datagrams from the address that tenants share no two to one receiver have a number, which parts
/// have in common. Returns how many there are.
fn check_numbers(path: &Path, what: &str) -> usize {
    let shared = "203.0.113.1".parse::<Address>().expect("v4");
    let mut numbers = BTreeSet::new();
    for frame in frames(path) {
        let layout = dissect(&frame).expect("sound");
        let is_shared = fields::source_address(&frame, &layout) == shared;
        if is_shared && !fields::is_atomic(&frame, &layout) {
            let number = fields::identification(&frame, &layout);
            let to = fields::destination_address(&frame, &layout);
            let is_new = numbers.insert((to, layout.protocol, number));
            assert_eq!(
                is_new,
                layout.fragment != Fragment::Later,
                "{what}: {number:?}"
            );
        }
    }
    numbers.len()
}

/// Where packets come from.
const FROM: &str = "generated v4 and v6";
/// Where they do in an underlay of IPv6.
const FROM_V6: &str = "generated v4 and v6 over v6";

struct Run {
    figures: Vec<StepFigures>,
    left: Vec<Flows>,
}

fn run(service: &Service, steps: &[RunStep], folder: &Path, ways: (Paths, Execution)) -> Run {
    let mut service = service.clone();
    (service.run.paths, service.run.execution) = ways;
    let name = format!("{ways:?}").replace(|c: char| !c.is_alphanumeric(), "");
    let outputs = (0..steps.len()).map(|number| folder.join(format!("{name}{number}.pcap")));
    let outputs: Vec<PathBuf> = outputs.collect();
    let mut steps = steps.to_vec();
    for (step, output) in steps.iter_mut().zip(&outputs) {
        step.output = Some(output.clone());
    }
    let (mut figures, is_stopped) = (Vec::new(), Arc::new(AtomicBool::new(false)));
    run_steps(&service, &steps, &is_stopped, |_, step| figures.push(step)).expect("a run");
    let hidden = outputs.iter().map(|path| check_numbers(path, &name));
    let hidden: usize = hidden.sum();
    assert!(
        hidden > 20,
        "{name}: {hidden} datagrams are behind a shared address"
    );
    Run {
        figures,
        left: outputs.iter().map(|path| flows(path)).collect(),
    }
}

fn check_same(fast: &Run, slow: &Run, what: &str) {
    for (number, (fast, slow)) in fast.left.iter().zip(&slow.left).enumerate() {
        for (flow, packets) in slow {
            assert_eq!(
                fast.get(flow),
                Some(packets),
                "{what}: part {number}: {flow}"
            );
        }
        assert_eq!(fast.len(), slow.len(), "{what}: part {number}");
    }
    let (last_fast, last_slow) = (fast.figures.last(), slow.figures.last());
    let [fast, slow] = [last_fast, last_slow].map(|step| &step.expect("a step").dash);
    for (fast, slow) in fast.enis.iter().zip(&slow.enis) {
        assert_eq!(fast.eni, slow.eni);
        assert_eq!(fast.outbound, slow.outbound, "{what}: {}", fast.eni);
        assert_eq!(fast.inbound, slow.inbound, "{what}: {}", fast.eni);
        assert_eq!(fast.drops, slow.drops, "{what}: {}", fast.eni);
        assert_eq!(fast.meters, slow.meters, "{what}: {}", fast.eni);
    }
    assert_eq!(fast.drops, slow.drops, "{what}");
}

#[test]
fn both_paths_do_what_the_slow_path_does_while_policies_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service();
    let steps = steps(&service, folder.path());
    check_both_paths(FROM, &service, &steps, folder.path());
    check_came(&steps, true);
}

#[test]
fn both_paths_do_what_the_slow_path_does_over_v6() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service_over_v6(folder.path());
    let changes = CHANGES.map(over_v6);
    let steps = steps_of(&service, &changes, folder.path());
    check_both_paths(FROM_V6, &service, &steps, folder.path());
    check_came(&steps, false);
}

/// All came in tunnels of one IP version, with both inside.
fn check_came(steps: &[RunStep], is_v4: bool) {
    let mut came = [0; 2];
    for frame in steps
        .iter()
        .flat_map(|step| frames(step.input.as_ref().expect("packets")))
    {
        let layout = dissect(&frame).expect("sound");
        let tunnel = Tunnel::read(&frame, &layout, VXLAN_PORT).expect("a tunnel");
        let inner = &frame[tunnel.inner()];
        let [outside, inside] = [
            (&frame[..], layout),
            (inner, dissect(inner).expect("sound")),
        ]
        .map(|(frame, layout)| fields::source_address(frame, &layout).is_v4());
        assert_eq!(outside, is_v4);
        came[usize::from(inside)] += 1;
    }
    assert!(came.iter().all(|&count| count > PACKETS), "{came:?}");
}

fn check_both_paths(from: &str, service: &Service, steps: &[RunStep], folder: &Path) {
    let oracle = run(service, steps, folder, (Paths::Slow, Execution::Virtual));
    for execution in [Execution::Virtual, Execution::Threads] {
        let both = run(service, steps, folder, (Paths::Both, execution));
        check_same(&both, &oracle, &format!("{execution:?}"));
        tell_steps(from, &both.figures);
        for (number, step) in both.figures.iter().enumerate() {
            assert_eq!(step.packets_in, PACKETS as u64, "part {number}");
            let share = step.fast_packets as f64 / step.packets_in as f64;
            assert!(share > 0.5, "part {number}: {share} on the fast path");
            let out = step.packets_out as f64 / step.packets_in as f64;
            assert!(out > 0.3, "part {number}: {out} left");
        }
        let last = &both.figures.last().expect("a step").dash;
        let sum = |count: fn(&twinpath_control::report::EniFigures) -> u64| -> u64 {
            last.enis.iter().map(count).sum()
        };
        assert!(sum(|eni| eni.flows_resimulated) > 50, "flows judged anew");
        assert!(sum(|eni| eni.flows_removed) > 20, "flows that ended by it");
        for reason in ["acl_outbound", "route_miss", "route_drop", "eni_disabled"] {
            let of_reason = last.enis.iter().filter_map(|eni| eni.drops.get(reason));
            assert!(of_reason.sum::<u64>() > 0, "nothing dropped for {reason}");
        }
        for eni in &last.enis {
            assert!(eni.outbound.sent_packets > 100, "{eni:?}");
            assert!(eni.inbound.sent_packets > 20, "{eni:?}");
        }
    }
    let last = oracle.left.last().expect("a part");
    for (what, key) in [("hidden", " 203.0.113.1 "), ("balanced", ", 8080]")] {
        let of_kind = last.keys().filter(|flow| flow.contains(key)).count();
        assert!(of_kind > 3, "{of_kind} flows are {what}");
    }
    let versions = oracle.left.iter().flat_map(BTreeMap::keys);
    let [v6, v4]: [Vec<_>; 2] = {
        let (v6, v4) = versions.partition(|flow| flow.contains("2001:db8"));
        [v6, v4]
    };
    assert!(
        v4.len() > 50 && v6.len() > 20,
        "{} and {} flows",
        v4.len(),
        v6.len()
    );
    assert_eq!(
        oracle
            .figures
            .iter()
            .map(|step| step.fast_packets)
            .sum::<u64>(),
        0
    );
}

/// What a service over so many shards puts out, what its ENIs have counted, and how many packets the fast
/// path settled.
fn run_sharded(
    service: &Service,
    (shards, paths, execution): (u16, Paths, Execution),
    input: &Path,
    output: &Path,
) -> (Flows, Dash, u64) {
    let mut service = service.clone();
    (service.run.paths, service.run.execution) = (paths, execution);
    (service.run.shards, service.run.pace) = (Shards(shards), Some(Pace::Lossless));
    let ports = Ports {
        input: Some(input.to_path_buf()),
        output: Some(output.to_path_buf()),
        ..Ports::default()
    };
    let is_stopped = AtomicBool::new(false);
    let finished = twinpath_node::run(&service, &ports, Live::hidden(), &is_stopped);
    let report = finished.expect("a run").report;
    if paths == Paths::Both {
        tell(FROM, &report);
    }
    let (fast, dash) = (report.fast.packets, report.dash);
    let mut dash = dash.expect("a DPU");
    dash.enis.sort_by(|one, other| one.eni.cmp(&other.eni));
    (flows(output), dash, fast)
}

/// All packets of an ENI are one shard's, so its limits and counters are those of one DPU, and what leaves
/// is what one leaves.
#[test]
fn several_shards_are_one_dpu() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let service = service();
    let input = steps(&service, folder)[0].input.clone().expect("a capture");
    let output = folder.join("out.pcap");
    let alone = (1, Paths::Slow, Execution::Virtual);
    let (expected, counted, _) = run_sharded(&service, alone, &input, &output);
    assert!(expected.len() > 100, "{} flows", expected.len());
    for shards in [1, 2, 4] {
        for execution in [Execution::Virtual, Execution::Threads] {
            let what = format!("{shards} shards, {execution:?}");
            let ways = (shards, Paths::Both, execution);
            let (left, dash, fast) = run_sharded(&service, ways, &input, &output);
            assert!(fast > 0, "{what}: none on the fast path");
            assert!(left == expected, "{what}: others have left");
            assert_eq!(dash.drops, counted.drops, "{what}");
            assert_eq!(dash.enis.len(), counted.enis.len(), "{what}");
            for (eni, alone) in dash.enis.iter().zip(&counted.enis) {
                assert_eq!(eni.eni, alone.eni, "{what}");
                assert_eq!(eni.outbound, alone.outbound, "{what}: {}", eni.eni);
                assert_eq!(eni.inbound, alone.inbound, "{what}: {}", eni.eni);
                assert_eq!(eni.drops, alone.drops, "{what}: {}", eni.eni);
                assert_eq!(eni.meters, alone.meters, "{what}: {}", eni.eni);
            }
        }
    }
    let partition = Partition::of(&service, 4).expect("no files");
    let mut reader = CaptureReader::open(&input).expect("a capture");
    let (mut packets, mut buffer) = ([0; 4], vec![0; 1 << 16]);
    while let Next::Frame(record) = reader.next_into(&mut buffer).expect("a packet") {
        packets[usize::from(partition.shard(&buffer[..record.captured_len]))] += 1;
    }
    let used = packets.iter().filter(|&&count| count > 100).count();
    assert!(used >= 2, "{packets:?}");
}

/// Whoever stops a run in steps stops all of it: the step at work ends, and no other begins.
#[test]
fn a_signal_ends_the_run_and_not_the_step_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service();
    let steps = steps(&service, folder.path());
    for execution in [Execution::Virtual, Execution::Threads] {
        let mut service = service.clone();
        service.run.execution = execution;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let mut ran = Vec::new();
        run_steps(&service, &steps, &is_stopped, |number, figures| {
            ran.push((number, figures.packets_in));
            is_stopped.store(true, Ordering::Relaxed);
        })
        .expect("a run");
        assert_eq!(ran, [(1, PACKETS as u64)], "{execution:?}");
    }
}
