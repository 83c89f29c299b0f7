//! A gateway with addresses of its own: it asks for its neighbours, answers for what it translates,
//! and routes.

use super::middle::{Middle, wait_for};
use super::programs::{WebServer, can_transfer, succeed, succeeds_soon};
use twinpath_control::report::json;
use twinpath_netns::{Network, has_program, is_possible};

/// A client at home, and a server in the world: `203.0.113.1` is behind the server's cable.
pub fn network() -> Network {
    let mut network = Network::new();
    network.cable("middle lan", "client eth0");
    network.cable("middle wan", "server eth0");
    network.address("client", "eth0", "192.168.1.10/24");
    network.address("client", "eth0", "fd01::10/64");
    network.address("server", "eth0", "198.51.100.1/24");
    network.address("server", "eth0", "2001:db8::1/64");
    network.address("server", "lo", "203.0.113.1/32");
    network.ip("client", "route add default via 192.168.1.1");
    network.ip("client", "route add default via fd01::1");
    network.ip("server", "route add 192.168.1.0/24 via 198.51.100.2");
    network.ip("server", "route add fd01::/64 via 2001:db8::2");
    network
}

pub fn service(driver: &str) -> String {
    format!(
        r#"[service]
name = "home"
chain = ["firewall", "napt", "router"]
inside = ["192.168.1.0/24", "fd01::/64"]
inside_ports = ["lan"]

[ports.lan]
device = "lan"
driver = "{driver}"
addresses = ["192.168.1.1/24", "fd01::1/64"]

[ports.wan]
device = "wan"
driver = "{driver}"
addresses = ["198.51.100.2/24", "2001:db8::2/64"]
answers_for = ["198.51.100.7"]

[firewall]
default = "deny"
rules = [
    {{ action = "allow", from = "192.168.1.0/24" }},
    {{ action = "allow", from = "fd01::/64" }},
]

[napt]
inside = ["192.168.1.0/24"]
external = ["198.51.100.7"]

[rule_cache]
window = "10ms"
threshold = 1

[router]
address = "198.51.100.2"
address6 = "2001:db8::2"
addresses = ["192.168.1.1", "fd01::1"]
next_hops = [
    {{ name = "home", port = "lan" }},
    {{ name = "cable", port = "wan" }},
    {{ name = "provider", port = "wan", address = "198.51.100.1" }},
]
routes = [
    {{ to = "192.168.1.0/24", via = "home" }},
    {{ to = "fd01::/64", via = "home" }},
    {{ to = "198.51.100.0/24", via = "cable" }},
    {{ to = "2001:db8::/64", via = "cable" }},
    {{ to = "0.0.0.0/0", via = "provider" }},
]
"#
    )
}

/// The same with links that carry less, whose hosts yet tell each other of segments of 1460 bytes.
fn narrow(lan: u16, wan: u16) -> Network {
    let network = network();
    for (host, ports, mtu) in [
        ("middle", "lan", lan),
        ("client", "eth0", lan),
        ("middle", "wan", wan),
        ("server", "eth0", wan),
    ] {
        network.ip(host, &format!("link set {ports} mtu {mtu}"));
    }
    network.ip("client", "route change default via 192.168.1.1 advmss 1460");
    network.ip("client", "-6 route change default via fd01::1 advmss 1440");
    network
}

/// Addresses that answer the client, and the last one its own gateway.
pub const ANSWERING: [&str; 4] = ["198.51.100.1", "203.0.113.1", "2001:db8::1", "192.168.1.1"];

pub fn pings(network: &Network, host: &str, address: &str) -> bool {
    let output = network.run(host, "ping", &["-c1", "-W1", address]);
    output.status.success()
}

/// RFC 1812 §5.2.7.1, RFC 4443 §3.1: through a translation and a firewall.
#[test]
fn who_sends_to_nobody_is_told() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver));
        let ping = ["-c1", "-W1", ANSWERING[0]];
        assert!(succeeds_soon(&network, "client", "ping", &ping));
        for (nobody, told) in [
            ("198.51.100.77", "Destination Host Unreachable"),
            ("2001:db8::77", "Address unreachable"),
        ] {
            let output = network.run("client", "ping", &["-c1", "-W8", nobody]);
            let heard = String::from_utf8_lossy(&output.stdout);
            assert!(heard.contains(told), "{driver}: {heard}");
        }
        let report = middle.stop();
        let neighbors = report.neighbors.expect("ports have addresses");
        assert_eq!(neighbors.unanswered_drops, 2, "{driver}");
        // For three seconds a neighbour is asked, which is nobody's time inside.
        let latency = [&report.latency.fast, &report.latency.slow];
        let longest = latency.map(|latency| latency.max_ns);
        assert!(longest.iter().all(|ns| *ns < 3_000_000_000), "{longest:?}");
    }
}

/// Behind a link that was gone, and at an interface that was made anew, may be another station. Nothing is
/// lost for long: where the neighbour was asked for only when it has been silent, that took half a minute.
#[test]
fn neighbors_behind_a_link_that_was_gone_are_asked_anew() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver));
        let ping = ["-c1", "-W1", ANSWERING[0]];
        assert!(succeeds_soon(&network, "client", "ping", &ping), "{driver}");
        let outages = |expected: u64, is_up: bool| {
            wait_for(|| wan(&middle).is_some_and(|wan| wan == (expected, is_up)))
        };
        network.ip("server", "link set eth0 down");
        assert!(outages(1, false), "{driver}");
        network.ip("server", "link set eth0 address 02:00:00:00:77:01");
        network.ip("server", "link set eth0 up");
        assert!(outages(1, true), "{driver}");
        answers_within(&network, &middle, driver);
        network.ip("middle", "link delete wan");
        assert!(outages(2, false), "{driver}");
        let end = network.namespace("server");
        let cable = format!("link add wan type veth peer name eth0 netns {end}");
        network.ip("middle", &cable);
        network.ip("middle", "link set wan up");
        network.ip("server", "link set eth0 up");
        network.address("server", "eth0", "198.51.100.1/24");
        assert!(outages(2, true), "{driver}");
        answers_within(&network, &middle, driver);
        middle.stop();
    }
}

/// How often the port outside was down, and whether it is up.
fn wan(middle: &Middle) -> Option<(u64, bool)> {
    let said = middle.asked(&["top", "--once", "--json"])?;
    let report = json::from_text(&said).ok()?;
    let wan = report.ports.into_iter().find(|port| port.name == "wan")?;
    Some((wan.outages, wan.is_up))
}

/// The server answers before anybody has found that its old MAC address is silent: a neighbour that does not
/// answer any more is counted.
fn answers_within(network: &Network, middle: &Middle, driver: &str) {
    let ping = ["-c1", "-W1", ANSWERING[0]];
    assert!(succeeds_soon(network, "client", "ping", &ping), "{driver}");
    let said = middle.asked(&["top", "--once", "--json"]);
    let report = json::from_text(&said.expect("it answers")).expect("a report");
    let neighbors = report.neighbors.expect("ports have addresses");
    assert_eq!(neighbors.unanswered, 0, "{driver}: {neighbors:?}");
}

#[test]
fn a_home_reaches_the_world_and_the_world_does_not_reach_it() {
    if !can_transfer() {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver));
        for address in ANSWERING {
            let ping = ["-c1", "-W1", address];
            let answers = succeeds_soon(&network, "client", "ping", &ping);
            assert!(answers, "{driver}: {address} does not answer");
        }
        let server = WebServer::start(&network, "server");
        for address in ["198.51.100.1", "203.0.113.1", "[2001:db8::1]"] {
            server.is_fetched(&network, "client", address);
            server.is_sent(&network, "client", address);
        }
        assert!(!pings(&network, "server", "192.168.1.10"));
        assert!(!pings(&network, "server", "fd01::10"));
        let report = middle.stop();
        let neighbors = report.neighbors.expect("ports have addresses");
        println!(
            "{driver}: {neighbors:?} {:?} {:?}",
            report.fast, report.drops
        );
        assert!(
            neighbors.known >= 3 && neighbors.answers >= 3,
            "{neighbors:?}"
        );
        assert_eq!(
            (neighbors.lost(), neighbors.conflicts),
            (0, 0),
            "{neighbors:?}"
        );
        assert!(report.drops["denied"] >= 2, "{:?}", report.drops);
        assert!(report.fast.share > 0.4, "{driver}: {:?}", report.fast);
    }
}

/// Hosts of IPv6 behind NAT64: frames that the kernel has put together become those of the other
/// version whole, either way.
#[test]
fn a_home_of_ipv6_loads_from_servers_of_ipv4() {
    if !can_transfer() {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let chain = r#"["firewall", "napt", "router"]"#;
        let nat64 = "[nat64]\ninside = [\"fd01::/64\"]\nexternal = [\"198.51.100.7\"]\n";
        let service = service(driver).replace(chain, r#"["firewall", "nat64", "router"]"#);
        let service = service.replace(
            "[napt]\ninside = [\"192.168.1.0/24\"]\nexternal = [\"198.51.100.7\"]\n",
            nat64,
        );
        let middle = Middle::start(&network, &service);
        let server = WebServer::start(&network, "server");
        server.is_fetched(&network, "client", "[64:ff9b::c633:6401]");
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.fast, report.drops);
        for reason in ["frame_too_long", "too_long"] {
            assert!(!report.drops.contains_key(reason), "{:?}", report.drops);
        }
        let long = report.totals.bytes_in / report.totals.packets_in.max(1);
        assert!(driver == "af_xdp" || long > 1500, "{long} bytes a frame");
    }
}

/// A server's segments, of which the kernel puts many in a frame, are too long for the cable at home:
/// it hears of that, through the translation, and sends shorter ones.
#[test]
fn servers_hear_what_the_cable_at_home_carries() {
    if !can_transfer() {
        return;
    }
    for driver in super::DRIVERS {
        let network = narrow(1300, 1500);
        let middle = Middle::start(&network, &service(driver));
        let server = WebServer::start(&network, "server");
        for address in ["198.51.100.1", "[2001:db8::1]"] {
            server.is_fetched(&network, "client", address);
        }
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.fast, report.drops);
        assert!(report.drops["too_long"] >= 2, "{:?}", report.drops);
        assert!(report.fast.share > 0.4, "{driver}: {:?}", report.fast);
    }
}

/// A client that sends longer packets than the cable outside carries is told how long they may be;
/// those that may be fragmented arrive.
#[test]
fn clients_hear_what_the_cable_outside_carries() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    for driver in super::DRIVERS {
        let network = narrow(1500, 1300);
        let middle = Middle::start(&network, &service(driver));
        assert!(succeeds_soon(
            &network,
            "client",
            "ping",
            &["-c1", "-W1", "198.51.100.1"]
        ));
        let told = network.run(
            "client",
            "ping",
            &["-c1", "-W1", "-Mdo", "-s1350", "198.51.100.1"],
        );
        let said = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(said.contains("mtu = 1300"), "{driver}: {said}");
        for (address, size) in [("198.51.100.1", "1350"), ("198.51.100.1", "4000")] {
            // The client knows by now, and would fragment them itself.
            network.ip("client", "route flush cache");
            let whole = ["-c1", "-W1", "-Mdont", "-s", size, address];
            succeed(&network, "client", "ping", &whole);
        }
        let first = network.run("client", "ping", &["-c1", "-W1", "-s1350", "2001:db8::1"]);
        assert!(!first.status.success(), "{driver}: it was too long");
        succeed(
            &network,
            "client",
            "ping",
            &["-c1", "-W1", "-s1350", "2001:db8::1"],
        );
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.fast, report.drops);
        assert!(report.drops["too_long"] >= 2, "{:?}", report.drops);
    }
}

/// Who does not answer is asked three times, whatever is sent there; others do not notice.
#[test]
fn who_is_not_there_costs_little() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    let network = network();
    let middle = Middle::start(&network, &service("af_packet"));
    assert!(succeeds_soon(
        &network,
        "client",
        "ping",
        &["-c1", "-W1", "198.51.100.1"]
    ));
    // Forty packets in a second to where nobody is.
    let nobody = ["-c40", "-i0.025", "-W1", "198.51.100.99"];
    assert!(!network.run("client", "ping", &nobody).status.success());
    assert!(wait_for(|| pings(&network, "client", "198.51.100.1")));
    let neighbors = middle.stop().neighbors.expect("ports have addresses");
    assert!(
        neighbors.backlog_drops > 0 && neighbors.questions < 12,
        "{neighbors:?}"
    );
}

/// A gateway that says nothing of MAC addresses takes what is for its interfaces, and leaves frames for
/// other stations of the cable alone.
#[test]
fn frames_for_other_stations_are_not_forwarded() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver));
        let ping = ["-c1", "-W1", "198.51.100.1"];
        assert!(succeeds_soon(&network, "client", "ping", &ping), "{driver}");
        let stranger = "neigh replace 192.168.1.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent";
        network.ip("client", stranger);
        assert!(!pings(&network, "client", "198.51.100.1"), "{driver}");
        let drops = middle.stop().drops;
        assert!(drops["other_station"] > 0, "{driver}: {drops:?}");
    }
}
