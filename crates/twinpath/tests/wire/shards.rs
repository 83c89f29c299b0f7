//! A service over several shards between cables: each has its part of every interface, and hands over
//! what belongs to others.

use super::middle::{Middle, wait_for};
use super::programs::{WebServer, succeed, succeeds_soon};
use super::{kernel, routed};
use twinpath_control::report::{Report, ShardFigures};
use twinpath_netns::{Network, has_program, is_possible};

/// Hosts at home beside the first.
const HOSTS: std::ops::Range<u8> = 20..28;

fn over_shards(service: &str, shards: u16) -> String {
    format!("[run]\nshards = {shards}\n{service}")
}

fn network() -> Network {
    let network = routed::network();
    for host in HOSTS {
        network.address("client", "eth0", &format!("192.168.1.{host}/24"));
        network.address("client", "eth0", &format!("fd01::{host}/64"));
    }
    network
}

/// Every host at home opens connections to the server, over both versions.
fn all_fetch(network: &Network) {
    for host in HOSTS {
        for (from, to) in [
            (format!("192.168.1.{host}"), "203.0.113.1"),
            (format!("fd01::{host}"), "[2001:db8::1]"),
        ] {
            let url = format!("http://{to}/file");
            let fetch = ["-fsS", "--max-time", "30", "--interface", &from, &url];
            let arguments = [&fetch[..], &["-o", "/dev/null"]].concat();
            succeed(network, "client", "curl", &arguments);
        }
    }
}

/// What shards exchanged adds up, and nothing was lost between them.
fn have_shared(report: &Report, shards: u16) -> ShardFigures {
    assert_eq!(report.shards.len(), usize::from(shards));
    let mut sum = ShardFigures::default();
    report.shards.iter().for_each(|one| sum.add(one));
    let received: u64 = report.ports.iter().map(|port| port.received_packets).sum();
    assert_eq!(sum.lost(), 0, "{:?}", report.shards);
    assert!(sum.handed_over > 0, "{:?}", report.shards);
    assert!(sum.received_packets <= received, "{sum:?} {received}");
    assert_eq!(
        report.totals.packets_in, sum.received_packets,
        "none twice, none forgotten: {sum:?}"
    );
    sum
}

#[test]
fn hosts_at_home_reach_the_world_over_every_shard() {
    let programs = [
        ("ping", "iputils-ping"),
        ("nginx", "nginx"),
        ("curl", "curl"),
    ];
    let mut programs = programs.iter();
    if !is_possible() || !programs.all(|(program, package)| has_program(program, package)) {
        return;
    }
    for (driver, shards) in [("af_packet", 3), ("af_xdp", 2)] {
        let network = network();
        let service = over_shards(&routed::service(driver), shards);
        let middle = Middle::start(&network, &service);
        for address in routed::ANSWERING {
            let ping = ["-c1", "-W1", address];
            let answers = succeeds_soon(&network, "client", "ping", &ping);
            assert!(answers, "{driver}: {address} does not answer");
        }
        let server = WebServer::start(&network, "server");
        for address in ["198.51.100.1", "203.0.113.1", "[2001:db8::1]"] {
            server.is_fetched(&network, "client", address);
        }
        all_fetch(&network);
        is_operated(&network, &middle, &service);
        have_names(&middle, shards);
        assert!(!routed::pings(&network, "server", "192.168.1.10"));
        let report = middle.stop();
        println!(
            "{driver}: {:?} {:?} {:?}",
            report.shards, report.fast, report.drops
        );
        have_shared(&report, shards);
        let neighbors = report.neighbors.expect("ports have addresses");
        assert_eq!(
            (neighbors.lost(), neighbors.conflicts),
            (0, 0),
            "{neighbors:?}"
        );
        assert!(report.fast.share > 0.4, "{driver}: {:?}", report.fast);
    }
}

/// Whoever looks at the threads sees which is of what shard.
fn have_names(middle: &Middle, shards: u16) {
    let names = middle.thread_names();
    for shard in 0..shards {
        for name in [format!("fast path {shard}"), format!("worker {shard}.0")] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
    }
}

/// All shards answer an operator, and all change.
fn is_operated(network: &Network, middle: &Middle, service: &str) {
    let socket = middle.path("socket");
    let socket = socket.to_str().expect("plain");
    let ask = |arguments: &[&str]| {
        let arguments = [arguments, &["--control", socket]].concat();
        succeed(
            network,
            "middle",
            env!("CARGO_BIN_EXE_twinpath"),
            &arguments,
        )
    };
    let flows = ask(&["flows", "--function", "firewall"]);
    for host in HOSTS {
        let hosts = [format!("192.168.1.{host}:"), format!("fd01::{host}]:")];
        assert!(hosts.iter().all(|host| flows.contains(host)), "{flows}");
    }
    let bindings = ask(&["bindings"]);
    for host in HOSTS {
        assert!(
            bindings.contains(&format!("192.168.1.{host}:")),
            "{bindings}"
        );
    }
    // Nobody at home opens connections any more, by the whole file and back.
    let denying = service.replace("from = \"192.168.1.0/24\"", "from = \"192.168.9.0/24\"");
    let file = middle.path("service.toml");
    let apply = |text: &str| {
        std::fs::write(&file, text).expect("a file");
        ask(&["apply", file.to_str().expect("plain")]);
    };
    let fetches = |host: u8| {
        let from = format!("192.168.1.{host}");
        let url = "http://203.0.113.1/";
        let arguments = ["-sS", "--max-time", "1", "--interface", &from, url];
        network.run("client", "curl", &arguments).status.success()
    };
    apply(&denying);
    assert!(HOSTS.clone().all(|host| !fetches(host)), "all shards deny");
    apply(service);
    assert!(
        HOSTS.clone().all(|host| wait_for(|| fetches(host))),
        "all shards allow again"
    );
    // What would divide connections otherwise is refused.
    let other = service.replace(
        "external = [\"198.51.100.7\"]",
        "external = [\"198.51.100.8\"]",
    );
    std::fs::write(&file, other).expect("a file");
    let arguments = ["apply", file.to_str().expect("plain"), "--control", socket];
    let refused = network.run("middle", env!("CARGO_BIN_EXE_twinpath"), &arguments);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("other shards"),
        "{said}"
    );
}

/// The kernel's routes come to all shards, and so do its neighbours.
#[test]
fn the_kernels_routes_are_followed_by_all_shards() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    for driver in super::DRIVERS {
        let network = kernel::network();
        for host in HOSTS {
            network.address("client", "eth0", &format!("192.168.1.{host}/24"));
        }
        let service = over_shards(&kernel::service(driver, &[]), 2);
        let middle = Middle::start(&network, &service);
        network.ip("middle", "route add 203.0.113.0/24 via 198.51.100.1");
        let pings = |address: &str, host: u8| {
            let from = format!("192.168.1.{host}");
            let ping = ["-c1", "-W1", "-I", &from, address];
            succeeds_soon(&network, "client", "ping", &ping)
        };
        for address in ["198.51.100.1", "203.0.113.1"] {
            assert!(
                HOSTS.clone().all(|host| pings(address, host)),
                "{driver}: {address}"
            );
        }
        network.ip("middle", "route del 203.0.113.0/24");
        assert!(kernel::misses(&network, "client", &["203.0.113.1"]));
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.shards, report.kernel);
        have_shared(&report, 2);
        assert!(report.kernel.expect("it is followed").changes >= 2);
    }
}
