//! This host's kernel is the control plane: its addresses, routes and neighbours, as they change.

mod bird;
mod faults;
mod frr;
mod routes;

use super::middle::wait_for;
use super::programs::succeed;
use super::routed::pings;
use twinpath_netns::Network;

/// A client and a server, each in a network with `middle`, whose addresses its kernel has. Behind the
/// server are 203.0.113.1 and 2001:db8:f::1, which `middle` has no route to. Its kernel forwards nothing.
pub fn network() -> Network {
    let mut network = Network::new();
    network.cable("middle lan", "client eth0");
    network.cable("middle wan", "server eth0");
    for (host, interface, addresses) in [
        ("client", "eth0", ["192.168.1.10/24", "fd01::10/64"]),
        ("middle", "lan", ["192.168.1.1/24", "fd01::1/64"]),
        ("middle", "wan", ["198.51.100.2/24", "2001:db8::2/64"]),
        ("server", "eth0", ["198.51.100.1/24", "2001:db8::1/64"]),
        ("server", "lo", ["203.0.113.1/32", "2001:db8:f::1/128"]),
    ] {
        for address in addresses {
            network.address(host, interface, address);
        }
    }
    network.ip("client", "route add default via 192.168.1.1");
    network.ip("client", "route add default via fd01::1");
    network.ip("server", "route add 192.168.0.0/16 via 198.51.100.2");
    network.ip("server", "route add fd01::/16 via 2001:db8::2");
    forwards_nothing(&network, "middle");
    network
}

/// A host's kernel does not forward what the service forwards, and takes routes from no host.
fn forwards_nothing(network: &Network, host: &str) {
    let settings = ["net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0"];
    let advertised = ["lan", "wan"].map(|name| format!("net.ipv6.conf.{name}.accept_ra=0"));
    for setting in settings
        .into_iter()
        .chain(advertised.iter().map(String::as_str))
    {
        succeed(network, host, "sysctl", &["-q", "-w", setting]);
    }
}

/// A router with the kernel's routes, whose ports are the interfaces `lan`, `wan` and more.
pub fn service(driver: &str, more_ports: &[&str]) -> String {
    let ports = ["lan", "wan"].iter().chain(more_ports);
    let ports =
        ports.map(|port| format!("{port} = {{ device = \"{port}\", driver = \"{driver}\" }}\n"));
    let ports: String = ports.collect();
    format!(
        "[service]\nname = \"kernel\"\nchain = [\"monitor\", \"router\"]\n\
         [rule_cache]\nwindow = \"10ms\"\nthreshold = 1\n\
         [ports]\n{ports}\n[router]\nroutes = \"kernel\"\n"
    )
}

/// Whether pings to all addresses succeed in the end.
fn reaches(network: &Network, host: &str, addresses: &[&str]) -> bool {
    let mut addresses = addresses.iter();
    addresses.all(|address| wait_for(|| pings(network, host, address)))
}

/// Whether none of them does in the end.
pub fn misses(network: &Network, host: &str, addresses: &[&str]) -> bool {
    let mut addresses = addresses.iter();
    addresses.all(|address| wait_for(|| !pings(network, host, address)))
}
