//! The gateway of the examples between cables, as its file is: access list, firewall, translation,
//! monitor and router.

use super::middle::{Middle, wait_for};
use super::programs::{Server, WebServer, succeed, succeeds_soon};
use super::shells::{ShellServer, has_shells};
use std::path::Path;
use twinpath_control::report::json;
use twinpath_netns::{Network, has_program, is_possible};

/// Addresses of a server in the world.
const WORLD: [&str; 2] = ["203.0.113.99", "2001:db8:99::99"];

/// An address as a URL has it.
fn in_url(address: &str) -> String {
    match address.contains(':') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    }
}

/// The hosts that the example's next hops are, by their MAC addresses: a site, the world behind an
/// uplink, and a peer.
fn network() -> Network {
    let mut network = Network::new();
    for (number, port, host) in [
        (1, "uplink", "world"),
        (2, "peer", "friend"),
        (3, "site", "client"),
    ] {
        network.cable(&format!("middle {port}"), &format!("{host} eth0"));
        let gateway = format!("02:00:00:00:00:0{number}");
        network.ip("middle", &format!("link set {port} address {gateway}"));
        network.ip(
            host,
            &format!("link set eth0 address 02:00:00:00:0{number}:01"),
        );
        // The router has no addresses on its cables in that file, so nobody is asked for it.
        for (own, router) in [
            (
                format!("169.254.{number}.2/24"),
                format!("169.254.{number}.1"),
            ),
            (format!("fd00:{number}::2/64"), format!("fd00:{number}::1")),
        ] {
            network.address(host, "eth0", &own);
            network.ip(
                host,
                &format!("neigh add {router} lladdr {gateway} dev eth0 nud permanent"),
            );
        }
    }
    for (host, addresses) in [
        (
            "client",
            &["10.0.0.7/32", "10.0.13.9/32", "2001:db8:10::7/128"][..],
        ),
        ("friend", &["192.0.2.80/32"]),
        (
            "world",
            &[
                "203.0.113.99/32",
                "203.0.113.9/32",
                "8.8.8.8/32",
                "2001:db8:99::99/128",
            ],
        ),
    ] {
        for address in addresses {
            network.address(host, "lo", address);
        }
    }
    network.ip("client", "route add default via 169.254.3.1 src 10.0.0.7");
    network.ip("friend", "route add default via 169.254.2.1 src 192.0.2.80");
    network.ip(
        "world",
        "route add default via 169.254.1.1 src 203.0.113.99",
    );
    for (host, number, own) in [
        ("client", 3, "2001:db8:10::7"),
        ("world", 1, "2001:db8:99::99"),
    ] {
        let default = format!("route add default via fd00:{number}::1 src {own}");
        network.ip(host, &default);
    }
    network
}

/// The example, with interfaces.
fn service(driver: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gateway.toml");
    let example = std::fs::read_to_string(path).expect("the example is there");
    let (before, traffic) = example
        .split_once("\n# Ten seconds of packets")
        .expect("traffic is last");
    assert!(traffic.contains("[traffic]"));
    let ports = ["site", "uplink", "peer"];
    let ports =
        ports.map(|port| format!("{port} = {{ device = \"{port}\", driver = \"{driver}\" }}\n"));
    format!("{before}\n[ports]\n{}", ports.concat())
}

#[test]
fn a_site_has_what_its_gateway_lets_through() {
    let has_programs = || {
        has_program("nginx", "nginx")
            && has_program("curl", "curl")
            && has_program("ping", "iputils-ping")
            && has_program("dig", "bind9-dnsutils")
            && has_program("dnsmasq", "dnsmasq-base")
            && has_program("traceroute", "traceroute")
    };
    if !is_possible() || !has_programs() {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver));
        let ping = ["-c1", "-W1", "203.0.113.99"];
        assert!(succeeds_soon(&network, "client", "ping", &ping), "{driver}");
        let ping = ["-c1", "-W1", WORLD[1]];
        assert!(succeeds_soon(&network, "client", "ping", &ping), "{driver}");
        let servers = ["world", "friend"].map(|host| WebServer::start(&network, host));
        for (server, address) in servers.iter().zip(["203.0.113.99", "192.0.2.80"]) {
            server.is_fetched(&network, "client", address);
            let url = format!("http://{address}/from");
            let seen = succeed(&network, "client", "curl", &["-sS", &url]);
            assert!(
                ["198.51.100.1", "198.51.100.2"].contains(&seen.as_str()),
                "{driver}: {seen}"
            );
        }
        let address = in_url(WORLD[1]);
        servers[0].is_fetched(&network, "client", &address);
        let url = format!("http://{address}/from");
        let seen = succeed(&network, "client", "curl", &["-sS", &url]);
        assert_eq!(seen, "2001:db8:10::7", "{driver}: nobody translates it");
        names_are_resolved(&network, driver);
        let said = succeed(
            &network,
            "client",
            "traceroute",
            &["-n", "-I", "-q1", "-m4", "8.8.8.8"],
        );
        assert!(said.contains("198.51.100.254"), "{driver}: {said}");
        nothing_else_passes(&network, driver);
        // Rules take half a second to come, in which a download may be over: this one is slow.
        let carries_its_share = || {
            servers[0].is_fetched_slowly(&network, "client", "203.0.113.99");
            fast_share(&middle) > 0.4
        };
        assert!(wait_for(carries_its_share), "{driver}");
        let report = middle.stop();
        println!(
            "{driver}: {:?} {:?} {:?}",
            report.fast, report.drops, report.functions
        );
        let ports = report.ports.iter();
        assert!(
            ports.clone().all(|port| port.transmitted_packets > 10),
            "{:?}",
            report.ports
        );
        assert!(report.drops["denied"] >= 4, "{:?}", report.drops);
    }
}

/// Servers behind an uplink that carries less than the site's cable, at a port that the list allows.
#[test]
fn a_site_works_with_servers_behind_its_gateway() {
    let has_programs = || {
        has_program("nginx", "nginx")
            && has_program("curl", "curl")
            && has_program("ping", "iputils-ping")
            && has_program("iperf3", "iperf3")
            && has_program("redis-server", "redis-server")
            && has_program("redis-cli", "redis-tools")
            && has_shells()
    };
    if !is_possible() || !has_programs() {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        network.ip("middle", "link set uplink mtu 1400");
        network.ip("world", "link set eth0 mtu 1400");
        // The client is told of longer segments all the same.
        for default in [
            "route change default via 169.254.1.1 src 203.0.113.99 advmss 1460",
            "-6 route change default via fd00:1::1 src 2001:db8:99::99 advmss 1440",
        ] {
            network.ip("world", default);
        }
        let middle = Middle::start(&network, &service(driver));
        for address in WORLD {
            let ping = ["-c1", "-W1", address];
            let answers = succeeds_soon(&network, "client", "ping", &ping);
            assert!(answers, "{driver}: {address}");
            let server = WebServer::start(&network, "world");
            server.is_fetched(&network, "client", &in_url(address));
            server.is_sent(&network, "client", &in_url(address));
            drop(server);
            segments_pass(&network, address);
            values_are_stored(&network, address);
            ShellServer::start(&network, "world", 443).is_used(&network, "client", address);
        }
        let report = middle.stop();
        assert!(report.drops["too_long"] >= 2, "{:?}", report.drops);
    }
}

/// TCP for a second in each direction.
fn segments_pass(network: &Network, address: &str) {
    let _server = Server::start(network, "world", "iperf3", &["-s", "-p", "443"]);
    for way in [&[][..], &["-R"]] {
        let words = [&["-c", address, "-p", "443", "-t1"], way].concat();
        let passes = succeeds_soon(network, "client", "iperf3", &words);
        assert!(passes, "{address} {way:?}");
    }
}

fn values_are_stored(network: &Network, address: &str) {
    let arguments = [
        "--protected-mode",
        "no",
        "--save",
        "",
        "--port",
        "443",
        "--bind",
        "0.0.0.0",
        "::",
    ];
    let _server = Server::start(network, "world", "redis-server", &arguments);
    let first = ["-h", address, "-p", "443"];
    let ping = [&first[..], &["ping"]].concat();
    let is_there = succeeds_soon(network, "client", "redis-cli", &ping);
    assert!(is_there, "{address}");
    let value = "value".repeat(10_000);
    let ask = |words: &[&str]| {
        let words = [&first[..], words].concat();
        succeed(network, "client", "redis-cli", &words)
    };
    assert_eq!(ask(&["set", "key", &value]), "OK\n", "{address}");
    assert_eq!(ask(&["get", "key"]).trim_end(), value, "{address}");
}

/// The fast path's share of packets so far.
fn fast_share(middle: &Middle) -> f64 {
    let said = middle.asked(&["top", "--once", "--json"]);
    let report = said.and_then(|said| json::from_text(&said).ok());
    report.map_or(0.0, |report| report.fast.share)
}

fn names_are_resolved(network: &Network, driver: &str) {
    let arguments = [
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
        "--user=root",
        "--pid-file=",
        "--address=/name.test/203.0.113.5",
    ];
    let _server = Server::start(network, "world", "dnsmasq", &arguments);
    let ask = ["@8.8.8.8", "+short", "+time=1", "+tries=5", "name.test"];
    assert!(succeeds_soon(network, "client", "dig", &ask), "{driver}");
    assert_eq!(
        succeed(network, "client", "dig", &ask),
        "203.0.113.5\n",
        "{driver}"
    );
}

/// What the access list denies, and what nobody inside has asked for.
fn nothing_else_passes(network: &Network, driver: &str) {
    let fetch = ["-sS", "-o", "/dev/null", "--max-time", "1"];
    for (host, more) in [
        (
            "client",
            &["--interface", "10.0.13.9", "http://203.0.113.99/who"][..],
        ), // in quarantine
        ("client", &["http://203.0.113.99:25/"]),   // mail
        ("client", &["http://203.0.113.9/who"]),    // a bad network
        ("client", &["http://203.0.113.99:8080/"]), // no rule for it
        ("world", &["http://10.0.0.7/"]),
        ("world", &["http://[2001:db8:10::7]/"]),
        ("client", &["http://[2001:db8:99::99]:8080/"]),
        ("friend", &["http://198.51.100.1/"]),
    ] {
        let said = network.run(host, "curl", &[&fetch[..], more].concat());
        const TIMED_OUT: i32 = 28;
        assert_eq!(
            said.status.code(),
            Some(TIMED_OUT),
            "{driver}: {more:?}: {said:?}"
        );
    }
}
