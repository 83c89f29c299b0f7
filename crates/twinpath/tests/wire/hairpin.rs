//! Two hosts behind one translation reach each other by external addresses, also where they belong to two
//! shards.

use super::middle::Middle;
use super::programs::{WebServer, succeed, succeeds_soon};
use twinpath_core::wire::Address;
use twinpath_netns::{Network, has_program, is_possible};
use twinpath_nf::shard::HostShards;

/// Two homes and the world.
fn network() -> Network {
    let mut network = Network::new();
    for (port, host, address, gateway) in [
        ("home", "client", "192.168.1.10/24", "192.168.1.1"),
        ("shop", "neighbor", "192.168.2.10/24", "192.168.2.1"),
        ("world", "server", "198.51.100.1/24", "198.51.100.2"),
    ] {
        network.cable(&format!("middle {port}"), &format!("{host} eth0"));
        network.address(host, "eth0", address);
        network.ip(host, &format!("route add default via {gateway}"));
    }
    network
}

/// A seed with which the hosts inside belong to two shards, if there are two.
fn seed() -> u64 {
    let [client, neighbor] = [[192, 168, 1, 10], [192, 168, 2, 10]].map(Address::from_v4);
    let parts = |seed: &u64| {
        let hosts = HostShards::new(*seed, 2);
        hosts.of_host(client) != hosts.of_host(neighbor)
    };
    (0..).find(parts).expect("half of them do")
}

fn service(driver: &str, shards: u16) -> String {
    let seed = seed();
    format!(
        r#"[service]
name = "hairpin"
seed = {seed}
chain = ["firewall", "napt", "router"]
inside = ["192.168.0.0/16"]
inside_ports = ["home", "shop"]

[ports]
home = {{ device = "home", driver = "{driver}", addresses = ["192.168.1.1/24"] }}
shop = {{ device = "shop", driver = "{driver}", addresses = ["192.168.2.1/24"] }}
world = {{ device = "world", driver = "{driver}", addresses = ["198.51.100.2/24"], answers_for = ["198.51.100.7"] }}

[firewall]
default = "deny"
rules = [
    {{ action = "allow", from = "192.168.0.0/16" }},
    {{ action = "allow", protocol = "tcp", to = "192.168.2.10", to_port = 80 }},
]

[napt]
inside = ["192.168.0.0/16"]
external = ["198.51.100.7"]
forward = [{{ protocol = "tcp", external = "198.51.100.7:8080", to = "192.168.2.10:80" }}]

[run]
shards = {shards}

[rule_cache]
window = "10ms"
threshold = 1

[router]
address = "198.51.100.2"
addresses = ["192.168.1.1", "192.168.2.1"]
next_hops = [
    {{ name = "home", port = "home" }},
    {{ name = "shop", port = "shop" }},
    {{ name = "world", port = "world" }},
]
routes = [
    {{ to = "192.168.1.0/24", via = "home" }},
    {{ to = "192.168.2.0/24", via = "shop" }},
    {{ to = "198.51.100.0/24", via = "world" }},
]
"#
    )
}

const EXTERNAL: &str = "198.51.100.7:8080";

#[test]
fn hosts_inside_reach_each_other_by_external_addresses() {
    if !is_possible() || !has_program("nginx", "nginx") || !has_program("curl", "curl") {
        return;
    }
    for (driver, shards) in super::DRIVERS
        .into_iter()
        .flat_map(|one| [(one, 2), (one, 1)])
    {
        let network = network();
        let middle = Middle::start(&network, &service(driver, shards));
        let server = WebServer::start(&network, "neighbor");
        let url = |path: &str| format!("http://{EXTERNAL}/{path}");
        for host in ["client", "server", "neighbor"] {
            let who = ["-sS", "--max-time", "2", &url("who")];
            assert!(
                succeeds_soon(&network, host, "curl", &who),
                "{driver}, {shards} shards: {host}"
            );
            server.is_fetched(&network, host, EXTERNAL);
        }
        // Whoever is inside appears with the address outside, also to each other.
        for (host, seen) in [
            ("client", "198.51.100.7"),
            ("neighbor", "198.51.100.7"),
            ("server", "198.51.100.1"),
        ] {
            let from = ["-sS", "--max-time", "5", &url("from")];
            assert_eq!(
                succeed(&network, host, "curl", &from),
                seen,
                "{driver}, {shards} shards: {host}"
            );
        }
        let report = middle.stop();
        println!(
            "{driver}, {shards} shards: {:?} {:?}",
            report.fast, report.drops
        );
        assert!(report.fast.packets > 300, "{driver}: {:?}", report.fast);
        let crossed: u64 = report.shards.iter().map(|shard| shard.crossed).sum();
        assert_eq!(crossed > 100, shards > 1, "{driver}: {:?}", report.shards);
    }
}
