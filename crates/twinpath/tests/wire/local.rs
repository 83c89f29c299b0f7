//! Programs on the service's own host, behind an interface that it makes for them.

use super::bump;
use super::middle::Middle;
use super::programs::{WebServer, can_transfer};
use twinpath_netns::Network;

/// A cable from the service's host to a server; the interface `inside` is still to be made.
fn network() -> Network {
    let mut network = Network::new();
    network.cable("middle outside", "server eth0");
    network.address("server", "eth0", "10.9.0.2/24");
    network.address("server", "eth0", "fd09::2/64");
    network
}

#[test]
fn local_programs_reach_the_world_by_a_tap_interface() {
    if !can_transfer() {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let inside = format!("\"inside\", driver = \"{driver}\"");
        let service = bump::service(driver).replace(&inside, "\"inside\", driver = \"tap\"");
        let middle = Middle::start(&network, &service);
        network.address("middle", "inside", "10.9.0.1/24");
        network.address("middle", "inside", "fd09::1/64");
        network.ip("middle", "link set inside up");
        let web = WebServer::start(&network, "server");
        for address in ["10.9.0.2", "[fd09::2]"] {
            web.exchanges(&network, "middle", address);
        }
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.fast, report.drops);
        let tap = report.ports.iter().find(|port| port.driver == "tap");
        let tap = tap.expect("a port that the service has made");
        // Two files each way.
        let (came, left) = (tap.received_bytes, tap.transmitted_bytes);
        assert!(came > 2 << 20 && left > 128 << 20, "{driver}: {tap:?}");
        assert!(report.fast.share > 0.4, "{driver}: {:?}", report.fast);
    }
}
