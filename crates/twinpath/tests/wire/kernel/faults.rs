//! What happens to interfaces, neighbours and addresses while packets flow.

use super::{misses, network, pings, reaches, service};
use crate::middle::{Middle, wait_for};
use crate::programs::succeed;
use twinpath_control::report::json;
use twinpath_netns::{Network, has_program, is_possible};

fn can_run() -> bool {
    is_possible() && has_program("ping", "iputils-ping")
}

/// Somewhere behind the server, which it takes two routes to.
const BEHIND: [&str; 2] = ["203.0.113.1", "2001:db8:f::1"];

fn add_routes(network: &Network) {
    network.ip("middle", "route replace 203.0.113.0/24 via 198.51.100.1");
    network.ip("middle", "route replace 2001:db8:f::/64 via 2001:db8::1");
}

/// The other end of a cable goes down: the interface stays set up, and the kernel keeps its routes. It is a worse
/// route's turn, and again the better one's when the link is back.
#[test]
fn a_link_that_is_gone_takes_its_routes_along() {
    if !can_run() {
        return;
    }
    for driver in crate::DRIVERS {
        let mut network = network();
        network.cable("middle wan2", "server eth1");
        network.address("middle", "wan2", "198.51.101.2/24");
        network.address("server", "eth1", "198.51.101.1/24");
        let to = "route add 203.0.113.0/24 via";
        network.ip("middle", &format!("{to} 198.51.101.1 metric 10"));
        network.ip("middle", &format!("{to} 198.51.100.1 metric 50"));
        let middle = Middle::start(&network, &service(driver, &["wan2"]));
        let far = &BEHIND[..1];
        for link in ["up", "down", "up"] {
            network.ip("server", &format!("link set eth1 {link}"));
            let is_so = wait_for(|| {
                let before = sent_by(&middle, "wan2");
                reaches(&network, "client", far)
                    && (sent_by(&middle, "wan2") > before) == (link == "up")
            });
            assert!(is_so, "{driver}: {link}");
        }
        middle.stop();
    }
}

/// How many packets have left by a port so far.
fn sent_by(middle: &Middle, port: &str) -> u64 {
    let words = ["top", "--once", "--json"];
    let text = middle.asked(&words).expect("it answers");
    let report = json::from_text(&text).expect("a report");
    let ports = report.ports.iter().find(|one| one.name == port);
    ports.map_or(0, |port| port.transmitted_packets)
}

#[test]
fn an_interface_goes_down_and_up_and_is_deleted() {
    if !can_run() {
        return;
    }
    for driver in crate::DRIVERS {
        let network = network();
        add_routes(&network);
        let middle = Middle::start(&network, &service(driver, &[]));
        assert!(reaches(&network, "client", &BEHIND), "{driver}: first");
        network.ip("middle", "link set wan down");
        assert!(misses(&network, "client", &BEHIND), "{driver}: down");
        network.ip("middle", "link set wan up");
        // Addresses of IPv6 go with the link.
        network.ip("middle", "address replace 2001:db8::2/64 dev wan nodad");
        // The kernel itself has forgotten these routes.
        add_routes(&network);
        assert!(reaches(&network, "client", &BEHIND), "{driver}: up");
        network.ip("middle", "link delete wan");
        assert!(misses(&network, "client", &BEHIND), "{driver}: deleted");
        let end = network.namespace("server");
        network.ip(
            "middle",
            &format!("link add wan type veth peer name eth0 netns {end}"),
        );
        for (host, interface, addresses) in [
            ("middle", "wan", ["198.51.100.2/24", "2001:db8::2/64"]),
            ("server", "eth0", ["198.51.100.1/24", "2001:db8::1/64"]),
        ] {
            network.ip(host, &format!("link set {interface} up"));
            for address in addresses {
                network.address(host, interface, address);
            }
        }
        network.ip("server", "route add 192.168.0.0/16 via 198.51.100.2");
        network.ip("server", "route add fd01::/16 via 2001:db8::2");
        add_routes(&network);
        assert!(reaches(&network, "client", &BEHIND), "{driver}: made anew");
        let report = middle.stop();
        let kernel = report.kernel.expect("the kernel is followed");
        println!("{driver}: {kernel:?} {:?}", report.drops);
        assert!(kernel.resyncs >= 1, "{kernel:?}");
    }
}

/// The kernel tells of no route of IPv4 that goes with its link, but for the list that is asked for.
#[test]
fn routes_that_go_without_a_word_give_way_to_others() {
    if !can_run() {
        return;
    }
    let mut network = network();
    network.cable("middle spare", "server eth1");
    network.address("middle", "spare", "192.0.2.2/24");
    network.address("server", "eth1", "192.0.2.1/24");
    network.ip("middle", "route add 203.0.113.0/24 via 198.51.100.1");
    network.ip(
        "middle",
        "route add 203.0.113.0/24 via 192.0.2.1 metric 100",
    );
    let middle = Middle::start(&network, &service("af_packet", &["spare"]));
    assert!(reaches(&network, "client", &BEHIND[..1]));
    network.ip("middle", "link set wan down");
    network.ip("server", "route replace 192.168.0.0/16 via 192.0.2.2");
    assert!(reaches(&network, "client", &BEHIND[..1]));
    let report = middle.stop();
    let spare = report.ports.iter().find(|port| port.name == "spare");
    assert!(spare.is_some_and(|port| port.transmitted_packets > 0));
}

#[test]
fn an_mtu_changes() {
    if !can_run() {
        return;
    }
    for driver in crate::DRIVERS {
        let network = network();
        add_routes(&network);
        let middle = Middle::start(&network, &service(driver, &[]));
        assert!(reaches(&network, "client", &BEHIND), "{driver}");
        for (host, interface) in [("middle", "wan"), ("server", "eth0")] {
            network.ip(host, &format!("link set {interface} mtu 1300"));
        }
        let told = || {
            let ping = ["-c1", "-W1", "-Mdo", "-s1350", BEHIND[0]];
            let said = network.run("client", "ping", &ping).stdout;
            String::from_utf8_lossy(&said).contains("mtu = 1300")
        };
        assert!(wait_for(told), "{driver}");
        assert!(middle.stop().drops["too_long"] >= 1, "{driver}");
    }
}

#[test]
fn addresses_come_and_go() {
    if !can_run() {
        return;
    }
    for driver in crate::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver, &[]));
        assert!(reaches(&network, "client", &["192.168.1.1"]), "{driver}");
        network.ip("client", "address add 10.77.0.9/24 dev eth0");
        network.ip("server", "route add 10.77.0.0/24 via 198.51.100.2");
        network.ip("middle", "address add 10.77.0.1/24 dev lan");
        network.ip(
            "client",
            "route add 198.51.100.0/24 via 10.77.0.1 src 10.77.0.9",
        );
        assert!(
            reaches(&network, "client", &["10.77.0.1", "198.51.100.1"]),
            "{driver}"
        );
        network.ip("middle", "address del 10.77.0.1/24 dev lan");
        assert!(misses(&network, "client", &["198.51.100.1"]), "{driver}");
        drop(middle.stop());
    }
}

/// A neighbour gets another MAC address, which the kernel hears of; one that is not there costs nobody
/// else anything.
#[test]
fn neighbors_are_the_kernels() {
    if !can_run() {
        return;
    }
    for driver in crate::DRIVERS {
        let network = network();
        add_routes(&network);
        let middle = Middle::start(&network, &service(driver, &[]));
        assert!(reaches(&network, "client", &BEHIND), "{driver}");
        assert!(
            !pings(&network, "client", "198.51.100.99"),
            "{driver}: nobody"
        );
        network.ip("server", "link set eth0 address 02:00:00:00:00:77");
        network.ip(
            "middle",
            "neigh replace 198.51.100.1 lladdr 02:00:00:00:00:77 dev wan nud reachable",
        );
        assert!(
            reaches(&network, "client", &BEHIND[..1]),
            "{driver}: another card"
        );
        // A wrong one that somebody has written down is taken, too.
        network.ip(
            "middle",
            "neigh replace 198.51.100.1 lladdr 02:00:00:00:00:66 dev wan nud permanent",
        );
        assert!(
            misses(&network, "client", &BEHIND[..1]),
            "{driver}: written down"
        );
        network.ip("middle", "neigh del 198.51.100.1 dev wan");
        assert!(
            reaches(&network, "client", &BEHIND[..1]),
            "{driver}: asked again"
        );
        let report = middle.stop();
        let neighbors = report.neighbors.expect("the kernel's");
        println!("{driver}: {neighbors:?}");
        assert!(
            neighbors.questions >= 3 && neighbors.conflicts == 0,
            "{neighbors:?}"
        );
    }
}

/// Two ways to one network share the pairs of hosts; each pair keeps its own, and has the other when
/// one is gone. A route of IPv4 goes by a neighbour of IPv6.
#[test]
fn next_hops_share_flows() {
    if !can_run() {
        return;
    }
    let mut network = network();
    network.cable("middle spare", "server eth1");
    network.address("middle", "spare", "192.0.2.2/24");
    network.address("server", "eth1", "192.0.2.1/24");
    for last in 2..18 {
        network.ip("server", &format!("address add 203.0.113.{last}/32 dev lo"));
    }
    let both = "nexthop via 198.51.100.1 nexthop via 192.0.2.1";
    network.ip("middle", &format!("route add 203.0.113.0/24 {both}"));
    let middle = Middle::start(&network, &service("af_packet", &["spare"]));
    let all: Vec<String> = (1..18).map(|last| format!("203.0.113.{last}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert!(reaches(&network, "client", &all));
    // As next hop objects.
    network.ip("middle", "nexthop add id 1 via 198.51.100.1 dev wan");
    network.ip("middle", "nexthop add id 2 via inet6 2001:db8::1 dev wan");
    network.ip("middle", "nexthop add id 3 group 1/2");
    network.ip("middle", "route replace 203.0.113.0/24 nhid 3");
    assert!(reaches(&network, "client", &all[..4]), "objects");
    network.ip("middle", "route del 203.0.113.0/24");
    network.ip(
        "middle",
        "route add 203.0.113.0/24 via inet6 2001:db8::1 dev wan",
    );
    assert!(reaches(&network, "client", &all[..4]), "by IPv6");
    network.ip("middle", &format!("route replace 203.0.113.0/24 {both}"));
    network.ip("middle", "link set wan down");
    network.ip("server", "route replace 192.168.0.0/16 via 192.0.2.2");
    assert!(reaches(&network, "client", &all), "one is gone");
    let report = middle.stop();
    let carried = |name: &str| {
        let port = report.ports.iter().find(|port| port.name == name);
        port.map_or(0, |port| port.transmitted_packets)
    };
    println!("{:?} {:?}", report.kernel, report.ports);
    assert!(carried("spare") >= 20 && carried("wan") >= 8);
}

/// Routes by an interface that is no port lead nowhere, and a longer one counts more.
#[test]
fn what_is_behind_no_port_is_not_forwarded() {
    if !can_run() {
        return;
    }
    let mut network = network();
    network.cable("middle mgmt", "admin eth0");
    network.address("middle", "mgmt", "172.16.0.1/24");
    network.address("admin", "eth0", "172.16.0.2/24");
    add_routes(&network);
    let middle = Middle::start(&network, &service("af_packet", &[]));
    assert!(reaches(&network, "client", &BEHIND));
    assert!(!pings(&network, "client", "172.16.0.2"));
    network.ip("middle", "route add 203.0.113.1/32 via 172.16.0.2");
    assert!(misses(&network, "client", &BEHIND[..1]));
    // The host itself is in that network, too.
    succeed(&network, "middle", "ping", &["-c1", "-W1", "172.16.0.2"]);
    let kernel = middle.stop().kernel.expect("the kernel is followed");
    assert_eq!(kernel.elsewhere, 2, "{kernel:?}");
}
