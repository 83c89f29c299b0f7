//! The zero-loss test of the paper in small, with threads: connections that stay open while others come and
//! go at half of what ENIs may open, and policies change in between. Nothing is lost, none breaks, and each
//! packet goes where policies say now; so does that of a connection in whose middle they change.

use crate::common::inside::inside;
use crate::common::rows::tell_steps;
use crate::replacement::run_changing;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::tunnel::{Encapsulation, Outer, Tunnel, VXLAN_PORT, Varying};
use twinpath_core::wire::{Address, Endpoint, MacAddress, PacketBuilder, dissect, fields};
use twinpath_io::{CaptureReader, CaptureWriter, Next, Trace};
use twinpath_node::causality::Causality;
use twinpath_node::run::{RunStep, StepFigures, run_steps};
use twinpath_node::wiring::{causality, causality_of_hosts};

const VIP: Address = Address::from_v4([10, 1, 0, 5]);
const VM_VNI: u32 = 2001;
/// Each in a network of its own, with machines of the same address; peers of every other are IPv6.
const ENIS: u8 = 4;
const PEERS: u8 = 40;
/// Connections of an ENI that stay.
const BACKGROUND: u16 = 50;
/// Parts of the traffic, with a change of policy in front of each.
const STEPS: usize = 5;
/// Connections of an ENI that come and go in each part.
const SHORT: u16 = 400;
/// Between packets.
const GAP_NS: u64 = 10_000;
/// Half of what an ENI may open in a second is opened: eight packets of each ENI for each connection.
const RATE: u64 = 2 * 1_000_000_000 / (8 * ENIS as u64 * GAP_NS);

/// A connection from a machine.
#[derive(Copy, Clone)]
struct Connection {
    eni: u8,
    port: u16,
    peer: u8,
}

const fn is_v4(eni: u8) -> bool {
    eni.is_multiple_of(2)
}

fn machine(eni: u8) -> Address {
    match is_v4(eni) {
        true => Address::from_v4([10, 0, 0, 7]),
        false => Address(0xfd01 << 112 | 7),
    }
}

fn peer(eni: u8, number: u8) -> Address {
    match is_v4(eni) {
        true => Address::from_v4([10, 2, 0, number]),
        false => Address(0xfd02 << 112 | u128::from(number)),
    }
}

fn machine_host(eni: u8) -> Address {
    Address::from_v4([25, 1, 1, eni])
}

/// Where a peer is in a part: it moves with each.
fn peer_host(step: usize, number: u8) -> Address {
    Address::from_v4([100, 0, step as u8, number])
}

fn mac(eni: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 5, eni])
}

/// An object that is set; its fields are JSON.
fn item(table: &str, key: &str, fields: &str) -> String {
    format!(r#"{{"DASH_{table}_TABLE:{key}": {{{fields}}}, "OP": "SET"}}"#)
}

fn mappings(step: usize) -> Vec<String> {
    let ends = (0..ENIS).flat_map(|eni| (1..=PEERS).map(move |number| (eni, number)));
    ends.map(|(eni, number)| {
        let key = format!("net{eni}:{}", peer(eni, number));
        let host = peer_host(step, number);
        let fields = format!(r#""routing_type": "vnet_encap", "underlay_ip": "{host}""#);
        item("VNET_MAPPING", &key, &fields)
    })
    .collect()
}

/// Lists of both IP versions that allow what is sent, at priorities that change.
fn lists(step: usize) -> Vec<String> {
    let priority = step + 1;
    let rule = |key: &str, action: &str, ports: &str| {
        let fields = format!(
            r#""priority": {priority}, "action": "{action}", "terminating": true, "dst_port": "{ports}""#
        );
        item("ACL_RULE", key, &fields)
    };
    let of_list = |list| {
        [
            rule(&format!("{list}:closed"), "deny", "25"),
            rule(&format!("{list}:open"), "allow", "1-24,26-65535"),
        ]
    };
    ["list4", "list6"].map(of_list).concat()
}

/// An ENI with its network, its routes and its lists.
fn eni(number: u8) -> Vec<String> {
    let [name, net, group] = ["eni", "net", "group"].map(|kind| format!("{kind}{number}"));
    let (vni, mac, host) = (1000 + u32::from(number), mac(number), machine_host(number));
    let route = |prefix| {
        let fields = format!(r#""routing_type": "vnet", "vnet": "{net}""#);
        item("ROUTE", &format!("{group}:{prefix}"), &fields)
    };
    vec![
        item("VNET", &net, &format!(r#""vni": {vni}"#)),
        item(
            "ENI",
            &name,
            &format!(
                r#""eni_id": "{name}", "mac_address": "{mac}", "underlay_ip": "{host}",
                   "admin_state": "enabled", "vnet": "{net}", "qos": "half""#
            ),
        ),
        item("ROUTE_GROUP", &group, r#""guid": "routes""#),
        route("10.2.0.0/16"),
        route("fd02::/64"),
        item("ENI_ROUTE", &name, &format!(r#""group_id": "{group}""#)),
        item(
            "ACL_OUT",
            &format!("{name}:1"),
            r#""v4_acl_group_id": "list4", "v6_acl_group_id": "list6""#,
        ),
    ]
}

fn configuration() -> Vec<String> {
    let appliance = format!(r#""sip": "{VIP}", "vm_vni": {VM_VNI}"#);
    let qos = format!(r#""qos_id": "half", "bw": 0, "cps": {RATE}, "flows": 10000"#);
    let first = vec![
        item("APPLIANCE", "1", &appliance),
        item(
            "ROUTING_TYPE",
            "vnet_encap",
            r#""action_name": "a", "action_type": "staticencap", "encap_type": "vxlan""#,
        ),
        item("QOS", "half", &qos),
        item("ACL_GROUP", "list4", r#""ip_version": "ipv4""#),
        item("ACL_GROUP", "list6", r#""ip_version": "ipv6""#),
    ];
    let enis: Vec<_> = (0..ENIS).flat_map(eni).collect();
    [first, lists(0), enis, mappings(0)].concat()
}

/// What changes in front of a part: every peer moves, and every rule is another one.
fn change(step: usize) -> Vec<String> {
    [mappings(step), lists(step)].concat()
}

fn frame(connection: Connection, step: usize, is_answer: bool, tcp_flags: u8) -> Vec<u8> {
    let Connection {
        eni,
        port,
        peer: number,
    } = connection;
    let (own, far) = (
        Endpoint::new(machine(eni), port),
        Endpoint::new(peer(eni, number), 443),
    );
    let (station, host) = (MacAddress([2; 6]), peer_host(step, number));
    let (source, key, inner) = match is_answer {
        false => (
            machine_host(eni),
            VM_VNI,
            PacketBuilder::tcp(own, far).macs(mac(eni), station),
        ),
        true => (
            host,
            1000 + u32::from(eni),
            PacketBuilder::tcp(far, own).macs(station, mac(eni)),
        ),
    };
    let inner = inner.flags(tcp_flags).to_vec().expect("a packet");
    let outer = Outer {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source,
        destination: VIP,
        encapsulation: Encapsulation::Vxlan,
        key,
        vxlan_port: VXLAN_PORT,
        ttl: 64,
    };
    let mut frame = vec![0; outer.header_bytes()];
    frame.extend_from_slice(&inner);
    outer.emit(&Varying::default(), &mut frame).expect("sound");
    frame
}

/// Frames of a part, in order.
struct Traffic {
    writer: CaptureWriter,
    step: usize,
    time_ns: u64,
}

impl Traffic {
    fn write(&mut self, connection: Connection, is_answer: bool, tcp_flags: u8) {
        let bytes = frame(connection, self.step, is_answer, tcp_flags);
        self.time_ns += GAP_NS;
        self.writer.write(self.time_ns, &bytes).expect("a packet");
    }

    /// A segment and its answer of each.
    fn exchange(&mut self, connections: &[Connection], there: u8, back: u8) {
        for (is_answer, tcp_flags) in [(false, there), (true, back)] {
            for connection in connections {
                self.write(*connection, is_answer, tcp_flags);
            }
        }
    }

    fn part(&mut self) {
        let background = |number: u16| {
            [0; ENIS as usize].map({
                let mut eni = 0..ENIS;
                move |_| Connection {
                    eni: eni.next().expect("an ENI"),
                    port: 1 + number,
                    peer: 1 + (number % u16::from(PEERS)) as u8,
                }
            })
        };
        if self.step == 0 {
            for number in 0..BACKGROUND {
                self.exchange(&background(number), flags::SYN, flags::SYN | flags::ACK);
            }
        }
        for number in 0..SHORT {
            let port = 1_000 + self.step as u16 * SHORT + number;
            let peer = 1 + (number * 7 % u16::from(PEERS)) as u8;
            let short: Vec<_> = (0..ENIS)
                .map(|eni| Connection { eni, port, peer })
                .collect();
            self.exchange(&short, flags::SYN, flags::SYN | flags::ACK);
            self.exchange(&background(number % BACKGROUND), flags::ACK, flags::ACK);
            self.exchange(&short, flags::ACK, flags::ACK);
            self.exchange(&short, flags::FIN | flags::ACK, flags::FIN | flags::ACK);
        }
    }
}

fn steps(folder: &Path) -> Vec<RunStep> {
    let mut time_ns = 1_000_000_000;
    (0..STEPS)
        .map(|step| {
            let path = |what: &str| folder.join(format!("{step}-{what}"));
            let changes = if step == 0 {
                configuration()
            } else {
                change(step)
            };
            let config = path("config.json");
            let text = format!("[{}]", changes.join(",\n"));
            std::fs::write(&config, text).expect("a file");
            let input = path("in.pcap");
            let writer = CaptureWriter::create(&input).expect("a capture");
            let mut traffic = Traffic {
                writer,
                step,
                time_ns,
            };
            traffic.part();
            time_ns = traffic.time_ns;
            traffic.writer.finish().expect("a capture");
            RunStep {
                config: vec![config],
                input: Some(input),
                output: Some(path("out.pcap")),
            }
        })
        .collect()
}

fn frames(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let (mut frames, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while let Next::Frame(record) = reader.next_into(&mut buffer).expect("a packet") {
        frames.push(buffer[..record.captured_len].to_vec());
    }
    frames
}

/// What is inside, in order, by flow and direction; and where all of it went.
type Inner = BTreeMap<String, Vec<Vec<u8>>>;

fn inner_of(frame: &[u8]) -> &[u8] {
    let layout = dissect(frame).expect("sound");
    let tunnel = Tunnel::read(frame, &layout, VXLAN_PORT).expect("a tunnel");
    &frame[tunnel.inner()]
}

fn by_flow(frames: &[Vec<u8>]) -> Inner {
    let mut flows = Inner::new();
    for frame in frames {
        flows
            .entry(inside(frame))
            .or_default()
            .push(inner_of(frame).to_vec());
    }
    flows
}

/// Each packet has left once, in order, and for where its receiver is in this part.
fn check_part(step: usize, input: &Path, output: &Path) {
    let (came, left) = (frames(input), frames(output));
    assert_eq!(came.len(), left.len(), "part {step}");
    assert!(
        by_flow(&came) == by_flow(&left),
        "part {step}: others have left"
    );
    for frame in &left {
        let (layout, inner) = (dissect(frame).expect("sound"), inner_of(frame));
        let inside = dissect(inner).expect("sound");
        let receiver = fields::destination_address(inner, &inside);
        let is_out = (0..ENIS).all(|eni| receiver != machine(eni));
        let wanted = match is_out {
            true => peer_host(step, receiver.0 as u8),
            false => machine_host(fields::destination_mac(inner).0[5]),
        };
        assert_eq!(
            fields::destination_address(frame, &layout),
            wanted,
            "part {step}"
        );
    }
}

fn service(files: &[&Path]) -> Service {
    let text = format!(
        "service = {{ chain = [\"dash\"] }}\n[dash]\nconfig = {files:?}\nflows = 100_000\n[link]\nring_frames = 256\n"
    );
    let mut service = Service::parse(&text, Path::new("dpu.toml")).expect("a service");
    (service.run.paths, service.run.execution) = (Paths::Both, Execution::Threads);
    service
}

#[test]
fn nothing_is_lost_and_no_connection_breaks_with_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let steps = steps(folder.path());
    let mut figures: Vec<StepFigures> = Vec::new();
    let is_stopped = Arc::new(AtomicBool::new(false));
    run_steps(&service(&[]), &steps, &is_stopped, |_, step| {
        figures.push(step)
    })
    .expect("a run");
    for (number, step) in steps.iter().enumerate() {
        let [input, output] =
            [&step.input, &step.output].map(|path| path.as_deref().expect("a capture"));
        check_part(number, input, output);
        let figures = &figures[number];
        assert!(figures.waiting.is_empty(), "{:?}", figures.waiting);
        let fast = figures.fast_packets as f64 / figures.packets_in as f64;
        assert!(fast > 0.5, "part {number}: {fast} on the fast path");
    }
    tell_steps("made by hand", &figures);
    let dash = &figures.last().expect("parts").dash;
    assert!(dash.drops.is_empty(), "{:?}", dash.drops);
    assert_eq!(dash.enis.len(), usize::from(ENIS));
    let opened = u64::from(BACKGROUND) + u64::from(SHORT) * STEPS as u64;
    for eni in &dash.enis {
        assert!(eni.drops.is_empty(), "{}: {:?}", eni.eni, eni.drops);
        assert_eq!(
            (eni.flows_created, eni.flows_removed),
            (opened, 0),
            "{}",
            eni.eni
        );
        // Those that stay meet each change; those that are over are asked nothing.
        let met = u64::from(BACKGROUND) * (STEPS as u64 - 1);
        assert_eq!(eni.flows_resimulated, met, "{}", eni.eni);
    }
}

/// Of an outbound packet its flow, and the part in whose place its receiver was.
fn place_of(frame: &[u8]) -> Option<(String, u8)> {
    let layout = dissect(frame).expect("sound");
    let host = fields::destination_address(frame, &layout).octets4();
    (host[0] == 100).then(|| (inside(frame), host[2]))
}

/// All peers move while packets are under way: each connection's packets go to the old places, and from
/// one of them on to the new ones, and once the change is acknowledged none goes to an old place.
#[test]
fn connections_follow_a_change_in_their_middle() {
    let folder = tempfile::tempdir().expect("a folder");
    let steps = steps(folder.path());
    let [first, second] = [0, 1].map(|step: usize| steps[step].config[0].as_path());
    let (old, new) = (service(&[first]), service(&[first, second]));
    let input = steps[0].input.as_ref().expect("a capture");
    let came = Trace::load(input).expect("a capture");
    let count = came.len();
    let (left, before) = run_changing(&old, &new, came, count / 2);
    assert_eq!(left.len(), count, "none is lost");
    let mut places = BTreeMap::<String, Vec<u8>>::new();
    for (number, frame) in left.iter().enumerate() {
        if let Some((flow, place)) = place_of(frame) {
            assert!(
                number < before || place == 1,
                "an old place behind the change"
            );
            places.entry(flow).or_default().push(place);
        }
    }
    assert!(
        places.values().all(|places| places.is_sorted()),
        "back again"
    );
    let moved = places
        .values()
        .filter(|places| places.contains(&0) && places.contains(&1));
    // All that stay open are in their middle.
    assert!(moved.count() >= usize::from(BACKGROUND) * usize::from(ENIS));
}

/// Where both ends are made up an answer waits for the questions to its peer, in a capture for those to all, as
/// an address may be another's behind a gateway.
#[test]
fn answers_wait_for_questions_to_their_peer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.json");
    std::fs::write(&path, format!("[{}]", configuration().join(","))).expect("a file");
    let service = service(&[&path]);
    let sender = |causality: &Causality, eni, peer, is_answer| {
        let connection = Connection { eni, port: 1, peer };
        let bytes = frame(connection, 0, is_answer, flags::ACK);
        causality.sender(&bytes).expect("an ENI's")
    };
    for (made, waits_for_others) in [
        (causality_of_hosts(&service), false),
        (causality(&service), true),
    ] {
        let mut causality = made.expect("no files");
        for eni in [0, 1] {
            let question = sender(&causality, eni, 7, false);
            causality.enters(question, 3);
            let other = sender(&causality, eni, 8, true);
            assert_eq!(causality.is_due(other, 3), !waits_for_others);
            let answer = sender(&causality, eni, 7, true);
            assert!(!causality.is_due(answer, 3) && causality.is_due(answer, 4));
        }
        let of_another = sender(&causality, 2, 7, true);
        assert!(causality.is_due(of_another, 0), "of another ENI");
    }
}
