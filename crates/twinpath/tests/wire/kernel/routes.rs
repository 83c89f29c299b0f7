//! Routes come, go and change.

use super::{misses, network, pings, reaches, service};
use crate::middle::{Middle, wait_for};
use crate::programs::succeed;
use crate::raw::{Injector, Listener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, dissect, fields};
use twinpath_netns::{Network, is_possible};

/// What is behind the server.
const BEHIND: [&str; 2] = ["203.0.113.1", "2001:db8:f::1"];

#[test]
fn routes_are_followed() {
    if !is_possible() {
        return;
    }
    for driver in crate::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver, &[]));
        let near = ["198.51.100.1", "2001:db8::1"];
        assert!(reaches(&network, "client", &near), "{driver}");
        // The host itself answers, and speaks.
        let itself = ["192.168.1.1", "fd01::1", "198.51.100.2"];
        assert!(reaches(&network, "client", &itself), "{driver}: itself");
        assert!(reaches(&network, "middle", &near), "{driver}: from itself");
        assert!(!pings(&network, "client", BEHIND[0]), "{driver}: no route");
        network.ip("middle", "route add 203.0.113.0/24 via 198.51.100.1");
        network.ip("middle", "route add 2001:db8:f::/64 via 2001:db8::1");
        assert!(reaches(&network, "client", &BEHIND), "{driver}: added");
        network.ip("middle", "route add blackhole 203.0.113.1/32");
        network.ip("middle", "route replace unreachable 2001:db8:f::/64");
        assert!(misses(&network, "client", &BEHIND), "{driver}: nowhere");
        network.ip("middle", "route del 203.0.113.1/32");
        network.ip("middle", "route del unreachable 2001:db8:f::/64");
        network.ip(
            "middle",
            "route add 2001:db8::/32 via 2001:db8::1 metric 2000",
        );
        assert!(reaches(&network, "client", &BEHIND), "{driver}: back");
        network.ip("middle", "route del 203.0.113.0/24");
        network.ip("middle", "route del 2001:db8::/32");
        assert!(misses(&network, "client", &BEHIND), "{driver}: gone");
        let report = middle.stop();
        let kernel = report.kernel.expect("the kernel is followed");
        println!("{driver}: {kernel:?} {:?} {:?}", report.fast, report.drops);
        assert!(kernel.routes >= 4 && kernel.changes >= 4, "{kernel:?}");
        assert_eq!((kernel.overruns, kernel.malformed), (0, 0));
        let transmitted: u64 = report
            .ports
            .iter()
            .map(|port| port.transmitted_packets)
            .sum();
        assert!(transmitted >= 12, "{driver}: carried {transmitted}");
    }
}

/// A kernel that forwards as well has a copy of everything with AF_PACKET, and each packet arrives twice; but
/// not where what arrives is the node's alone. What is for the host itself it gets in any case.
#[test]
fn a_kernel_that_forwards_does_not_see_what_is_the_nodes() {
    if !is_possible() {
        return;
    }
    for (driver, arrives_twice) in [("af_packet", true), ("auto", false), ("af_xdp", false)] {
        let network = network();
        for setting in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            succeed(&network, "middle", "sysctl", &["-q", "-w", setting]);
        }
        let middle = Middle::start(&network, &service(driver, &[]));
        for (near, itself) in [("198.51.100.1", "192.168.1.1"), ("2001:db8::1", "fd01::1")] {
            assert!(wait_for(|| pings(&network, "client", near)), "{driver}");
            let said = succeed(&network, "client", "ping", &["-c3", "-i0.2", near]);
            assert_eq!(said.contains("DUP!"), arrives_twice, "{driver}: {said}");
            assert!(
                wait_for(|| pings(&network, "client", itself)),
                "{driver}: {itself}"
            );
        }
        drop(middle.stop());
    }
}

/// Ports of datagrams with no tag, with a tag that has a priority alone, and with two of them.
const PRIORITIES: [u16; 3] = [7000, 7001, 7002];

/// To the kernel a frame whose tags have a priority alone is one without tags: where it forwards, or such
/// a frame is for the host, it gets none that is the node's.
#[test]
fn frames_of_a_priority_alone_do_not_go_round_the_node() {
    if !is_possible() {
        return;
    }
    for (driver, arrives_twice) in [("af_packet", true), ("auto", false), ("af_xdp", false)] {
        let network = network();
        succeed(
            &network,
            "middle",
            "sysctl",
            &["-q", "-w", "net.ipv4.ip_forward=1"],
        );
        let middle = Middle::start(&network, &service(driver, &[]));
        assert!(
            wait_for(|| pings(&network, "client", "198.51.100.1")),
            "{driver}"
        );
        let said = succeed(&network, "client", "ip", &["neigh", "show", "192.168.1.1"]);
        let mac = said
            .split_whitespace()
            .skip_while(|word| *word != "lladdr")
            .nth(1);
        let mac: MacAddress = mac.expect("pinged").parse().expect("a MAC address");
        let arrived = arrivals(&network, mac);
        for (tags, port) in PRIORITIES.into_iter().enumerate() {
            let count = arrived.iter().filter(|other| **other == port).count();
            let most = if arrives_twice { 2 } else { 1 };
            assert!(count <= most, "{driver}: {tags} tags: {count} times");
            assert!(
                tags > 1 || count == most,
                "{driver}: {tags} tags: {count} times"
            );
        }
        drop(middle.stop());
    }
}

/// The ports of datagrams that arrive at the server, of one of each kind that the client sends by a router.
fn arrivals(network: &Network, router: MacAddress) -> Vec<u16> {
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let received = network.on("server", move || {
        let (mut listener, mut ports) = (Listener::open("eth0"), Vec::new());
        while !ends.load(Ordering::Relaxed) {
            listener.take(|frame| {
                let layout = dissect(frame).unwrap_or_default();
                let port = fields::destination_port(frame, &layout);
                ports.extend(PRIORITIES.contains(&port).then_some(port));
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        ports
    });
    let sent = network.on("client", move || {
        let from = Endpoint::v4([192, 168, 1, 10], 4000);
        for (tags, port) in PRIORITIES.into_iter().enumerate() {
            let to = Endpoint::v4([198, 51, 100, 1], port);
            let packet = PacketBuilder::udp(from, to).macs(MacAddress([2; 6]), router);
            let mut frame = packet.to_vec().expect("short");
            for _ in 0..tags {
                frame.splice(12..12, [0x81, 0, 0, 0]);
            }
            let mut one = Some(frame);
            let mut injector = Injector::open("eth0");
            let end = Instant::now() + Duration::from_millis(20);
            injector.send_at(60, end, || one.take().expect("one in so short a time"));
        }
    });
    sent.join().expect("no panic");
    std::thread::sleep(Duration::from_millis(500));
    is_over.store(true, Ordering::Relaxed);
    received.join().expect("no panic")
}
