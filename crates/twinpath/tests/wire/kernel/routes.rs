//! Routes come, go and change.

use super::{misses, network, pings, reaches, service};
use crate::middle::{Middle, wait_for};
use crate::programs::succeed;
use twinpath_netns::is_possible;

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
            assert!(pings(&network, "client", itself), "{driver}: {itself}");
        }
        drop(middle.stop());
    }
}
