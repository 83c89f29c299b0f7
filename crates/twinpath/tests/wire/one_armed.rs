//! A router with one cable, to a switch that hosts of two networks are at: what comes in by the port
//! leaves by it.

use super::middle::Middle;
use super::programs::{WebServer, can_transfer, succeeds_soon};
use super::routed::pings;
use twinpath_netns::Network;

/// A client and a server in networks of their own, and `middle`, all at one switch.
fn network() -> Network {
    let mut network = Network::new();
    network.host("switch");
    network.ip("switch", "link add bridge type bridge");
    network.ip("switch", "link set bridge up");
    for (host, interface) in [("middle", "wire"), ("client", "eth0"), ("server", "eth0")] {
        network.cable(&format!("switch to-{host}"), &format!("{host} {interface}"));
        network.ip("switch", &format!("link set to-{host} master bridge"));
    }
    for (host, own, other) in [("client", 1, 2), ("server", 2, 1)] {
        network.address(host, "eth0", &format!("10.{own}.0.10/24"));
        network.address(host, "eth0", &format!("fd0{own}::10/64"));
        let way = format!("route add 10.{other}.0.0/24 via 10.{own}.0.1");
        network.ip(host, &way);
        let way = format!("route add fd0{other}::/64 via fd0{own}::1");
        network.ip(host, &way);
    }
    network
}

fn service(driver: &str) -> String {
    format!(
        r#"[service]
name = "arm"
chain = ["firewall", "router"]
inside = ["10.1.0.0/24", "fd01::/64"]

[ports.wire]
device = "wire"
driver = "{driver}"
addresses = ["10.1.0.1/24", "10.2.0.1/24", "fd01::1/64", "fd02::1/64"]

[firewall]
default = "deny"
rules = [
    {{ action = "allow", from = "10.1.0.0/24" }},
    {{ action = "allow", from = "fd01::/64" }},
]

[rule_cache]
window = "10ms"
threshold = 1

[router]
address = "10.1.0.1"
address6 = "fd01::1"
addresses = ["10.2.0.1", "fd02::1"]
next_hops = [{{ name = "cable", port = "wire" }}]
routes = [
    {{ to = "10.1.0.0/24", via = "cable" }},
    {{ to = "10.2.0.0/24", via = "cable" }},
    {{ to = "fd01::/64", via = "cable" }},
    {{ to = "fd02::/64", via = "cable" }},
]
"#
    )
}

#[test]
fn two_networks_meet_at_one_port() {
    if !can_transfer() {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver));
        for address in ["10.1.0.1", "10.2.0.10", "fd02::10"] {
            let ping = ["-c1", "-W1", address];
            let answers = succeeds_soon(&network, "client", "ping", &ping);
            assert!(answers, "{driver}: {address} does not answer");
        }
        let server = WebServer::start(&network, "server");
        for address in ["10.2.0.10", "[fd02::10]"] {
            server.is_fetched(&network, "client", address);
        }
        for address in ["10.1.0.10", "fd01::10"] {
            assert!(!pings(&network, "server", address), "{driver}: {address}");
        }
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.fast, report.drops);
        let port = &report.ports[0];
        assert!(port.transmitted_bytes > 128 << 20, "{driver}: {port:?}");
        assert!(report.drops["denied"] >= 2, "{:?}", report.drops);
        assert!(report.fast.share > 0.4, "{driver}: {:?}", report.fast);
    }
}
