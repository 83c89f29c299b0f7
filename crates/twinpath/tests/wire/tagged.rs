//! Hosts in a VLAN: tagged frames cross a service between two cables with their tags.

use super::middle::{Middle, wait_for};
use super::programs::{WebServer, can_transfer, succeed, succeeds_soon};
use super::raw::{Injector, Listener};
use super::routed;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, dissect, fields, vlan};
use twinpath_core::{Frame, Pools};
use twinpath_netns::{Network, has_program, is_possible};
use twinpath_ports::offload::put_tag;
use twinpath_ports::{Driver, Port, PortConfig, wait};

/// The tag of VLAN 7.
const TAG: [u8; 4] = [0x81, 0x00, 0, 7];

/// A host's interface `eth0` in a VLAN of its cable, `wire`, for kernels that have none: what programs send has
/// a tag on the cable, and what has another tag there, or none, is not for them.
struct VlanInterface {
    is_over: Arc<AtomicBool>,
    tagging: Option<JoinHandle<[u64; 2]>>,
}

impl VlanInterface {
    fn make(network: &Network, host: &str, last: u8) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let tagging = network.on(host, move || tag_until(&ends));
        let is_there = || network.run(host, "ip", &["link", "show", "eth0"]).status;
        assert!(wait_for(|| is_there().success()), "{host}");
        network.address(host, "eth0", &format!("10.9.0.{last}/24"));
        network.address(host, "eth0", &format!("fd09::{last}/64"));
        network.ip(host, "link set eth0 up");
        let tagging = Some(tagging);
        Self { is_over, tagging }
    }

    /// How many frames got a tag, and how many lost it.
    fn end(mut self) -> [u64; 2] {
        self.is_over.store(true, Ordering::Relaxed);
        let tagging = self.tagging.take().expect("it has begun");
        tagging.join().expect("no panic")
    }
}

impl Drop for VlanInterface {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn port(device: &str, driver: Driver) -> Port {
    let config = PortConfig {
        device: device.to_owned(),
        driver,
        is_shared: true,
    };
    Port::open(config).expect("root may open it")
}

fn tag_until(is_over: &AtomicBool) -> [u64; 2] {
    let mut ports = [port("eth0", Driver::Tap), port("wire", Driver::AfPacket)];
    let mut pools = Pools::new(1024, 64);
    let mut counts = [0; 2];
    while !is_over.load(Ordering::Relaxed) {
        wait(&ports, None, Duration::from_millis(10));
        for from in [0, 1] {
            let mut burst = Vec::new();
            ports[from].receive(&mut pools, &mut burst, 64);
            for mut frame in burst {
                let is_ours = match from {
                    0 => put_tag(&mut frame, TAG),
                    _ => take_tag(&mut frame),
                };
                match is_ours {
                    true => ports[1 - from].transmit(frame, &mut pools),
                    false => pools.give(frame),
                }
                counts[from] += u64::from(is_ours);
            }
            ports[1 - from].flush(&mut pools);
        }
    }
    counts
}

/// Takes the VLAN's tag off a frame. Returns whether it had that.
fn take_tag(frame: &mut Frame) -> bool {
    let bytes = frame.bytes_mut();
    let has_tag = bytes.get(12..16) == Some(&TAG);
    if has_tag {
        bytes.copy_within(0..12, TAG.len());
    }
    has_tag && frame.pull_front(TAG.len())
}

/// Hosts inside may open connections.
fn service(driver: &str) -> String {
    format!(
        "[service]\nname = \"tagged\"\nchain = [\"firewall\", \"monitor\"]\nunparsed = \"forward\"\n\
         inside = [\"10.9.0.1\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n\
         [rule_cache]\nwindow = \"10ms\"\nthreshold = 1\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"{driver}\" }}\n\
         outside = {{ device = \"outside\", driver = \"{driver}\" }}\n\
         [firewall]\ndefault = \"deny\"\nrules = [\n\
         {{ action = \"allow\", from = \"10.9.0.1\" }},\n{{ action = \"allow\", from = \"fd09::1\" }},\n\
         {{ action = \"allow\", protocol = \"icmp6\" }},\n]\n"
    )
}

/// Web servers are reached over both versions, and what a service decides it decides behind tags.
#[test]
fn transfers_of_a_vlan_pass_with_their_tags() {
    if !can_transfer() {
        return;
    }
    for driver in super::DRIVERS {
        let mut network = Network::new();
        network.cable("middle inside", "client wire");
        network.cable("middle outside", "server wire");
        let client = VlanInterface::make(&network, "client", 1);
        let server = VlanInterface::make(&network, "server", 2);
        let middle = Middle::start(&network, &service(driver));
        let web = WebServer::start(&network, "server");
        for address in ["10.9.0.2", "[fd09::2]"] {
            web.exchanges(&network, "client", address);
        }
        let back = network.run("server", "ping", &["-c1", "-W1", "10.9.0.1"]);
        assert!(!back.status.success(), "{driver}: nobody outside may ask");
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.fast, report.drops);
        for [tagged, untagged] in [client.end(), server.end()] {
            assert!(tagged > 500 && untagged > 500, "{tagged} {untagged}");
        }
        assert!(report.drops["denied"] >= 1, "{driver}: {:?}", report.drops);
        assert!(report.fast.share > 0.4, "{driver}: {:?}", report.fast);
    }
}

/// The ports that tests send datagrams to: with no tag, with one, and with two.
const DESTINATIONS: [u16; 3] = [7000, 7001, 7002];

/// Somebody at one cable of a router gets into no VLAN of another: what is routed has no tags.
#[test]
fn a_router_carries_no_tags_to_another_cable() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    for driver in super::DRIVERS {
        let network = routed::network();
        let middle = Middle::start(&network, &routed::service(driver));
        let ping = ["-c1", "-W1", "198.51.100.1"];
        assert!(succeeds_soon(&network, "client", "ping", &ping));
        let said = succeed(&network, "middle", "cat", &["/sys/class/net/lan/address"]);
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let received = network.on("server", move || arrivals_until(&ends));
        let router: MacAddress = said.trim().parse().expect("a MAC address");
        let sent = network.on("client", move || send_tagged(router));
        sent.join().expect("no panic");
        let wanted = DESTINATIONS.len() as u64;
        let report = middle.stop();
        assert!(report.totals.packets_out > wanted, "{driver}");
        is_over.store(true, Ordering::Relaxed);
        let arrived = received.join().expect("no panic");
        let expected = DESTINATIONS.map(|port| (port, 0));
        assert_eq!(arrived, expected, "{driver}");
    }
}

/// A datagram of each kind by a router.
fn send_tagged(router: MacAddress) {
    let from = Endpoint::v4([192, 168, 1, 10], 4000);
    let mut injector = Injector::open("eth0");
    for (tags, port) in DESTINATIONS.into_iter().enumerate() {
        let to = Endpoint::v4([198, 51, 100, 1], port);
        let packet = PacketBuilder::udp(from, to).macs(MacAddress([2; 6]), router);
        let mut frame = packet.to_vec().expect("short");
        for _ in 0..tags {
            frame.splice(12..12, TAG);
        }
        injector.send_together(std::iter::once(frame));
    }
}

/// Which of these datagrams arrive, each once, and how long their tags are.
fn arrivals_until(is_over: &AtomicBool) -> Vec<(u16, usize)> {
    let (mut listener, mut arrived) = (Listener::open("eth0"), BTreeMap::new());
    let mut is_last = false;
    while !is_last {
        is_last = is_over.load(Ordering::Relaxed);
        listener.take(|frame| {
            let layout = dissect(frame).unwrap_or_default();
            let port = fields::destination_port(frame, &layout);
            if DESTINATIONS.contains(&port) {
                arrived.insert(port, vlan::tags_len(frame));
            }
        });
        std::thread::sleep(Duration::from_millis(1));
    }
    arrived.into_iter().collect()
}
