//! Three web servers behind one address: one is drained and one is killed while clients load from all,
//! and whoever has to do with neither notices nothing.

use super::middle::{Middle, wait_for};
use super::programs::{Download, WebServer, begin_fetch, succeed, succeeds_soon};
use twinpath_control::look::BackendView;
use twinpath_netns::{Network, has_program, is_possible};

const SERVERS: [&str; 3] = ["one", "two", "three"];
const ENDPOINTS: [&str; 3] = ["10.1.1.2:80", "10.1.2.2:80", "10.1.3.2:80"];
const ENDPOINTS6: [&str; 3] = ["[fd01:1::2]:80", "[fd01:2::2]:80", "[fd01:3::2]:80"];
const SERVICE: &str = "10.3.0.80";
const SERVICE6: &str = "fd03::80";

fn network() -> Network {
    let mut network = Network::new();
    network.cable("middle clients", "client eth0");
    network.address("client", "eth0", "10.3.0.2/24");
    network.address("client", "eth0", "fd03::2/64");
    for (number, server) in (1..).zip(SERVERS) {
        network.cable(&format!("middle {server}"), &format!("{server} eth0"));
        network.address(server, "eth0", &format!("10.1.{number}.2/24"));
        network.ip(server, &format!("route add default via 10.1.{number}.1"));
        network.address(server, "eth0", &format!("fd01:{number}::2/64"));
        network.ip(server, &format!("route add default via fd01:{number}::1"));
    }
    network
}

fn service(driver: &str) -> String {
    let port = |(number, name)| {
        format!(
            "{name} = {{ device = \"{name}\", driver = \"{driver}\", addresses = [\"10.1.{number}.1/24\", \"fd01:{number}::1/64\"] }}\n"
        )
    };
    let route = |(number, name)| {
        format!(
            "{{ to = \"10.1.{number}.0/24\", via = \"{name}\" }},\n\
             {{ to = \"fd01:{number}::/64\", via = \"{name}\" }},"
        )
    };
    let numbered = || (1..).zip(SERVERS);
    let ports: String = numbered().map(port).collect();
    let routes: String = numbered().map(route).collect();
    let hops: String = SERVERS
        .map(|name| format!("{{ name = \"{name}\", port = \"{name}\" }},"))
        .concat();
    let backends = |ends: [&str; 3]| {
        ends.map(|end| format!("{{ endpoint = \"{end}\" }},"))
            .concat()
    };
    let [backends, backends6] = [ENDPOINTS, ENDPOINTS6].map(backends);
    format!(
        r#"[service]
name = "balanced"
chain = ["load_balancer", "router"]

[ports]
clients = {{ device = "clients", driver = "{driver}", addresses = ["10.3.0.1/24", "fd03::1/64"], answers_for = ["{SERVICE}", "{SERVICE6}"] }}
{ports}
[[load_balancer.services]]
vip = "{SERVICE}:80"
protocol = "tcp"
backends = [{backends}]

[[load_balancer.services]]
vip = "[{SERVICE6}]:80"
protocol = "tcp"
backends = [{backends6}]

[router]
address = "10.3.0.1"
address6 = "fd03::1"
next_hops = [{{ name = "clients", port = "clients" }}, {hops}]
routes = [
    {{ to = "10.3.0.0/24", via = "clients" }},
    {{ to = "fd03::/64", via = "clients" }},
    {routes}
]
"#
    )
}

/// Connections that each backend was given.
fn given(middle: &Middle) -> [u64; 3] {
    let said = middle.asked(&["backends", "--json"]).expect("it answers");
    let views: Vec<BackendView> = serde_json::from_str(&said).expect("JSON");
    ENDPOINTS.map(|endpoint| {
        let view = views.iter().find(|view| view.backend == endpoint);
        view.map_or(0, |view| view.opened)
    })
}

fn change(middle: &Middle, what: &str, endpoint: &str) {
    let service = match endpoint.starts_with('[') {
        true => format!("[{SERVICE6}]:80/tcp"),
        false => format!("{SERVICE}:80/tcp"),
    };
    let words = ["change", "backend", what, endpoint, "--service", &service];
    assert!(middle.asked(&words).is_some(), "{words:?}");
}

/// Who answers new clients of an address.
fn who_answers(network: &Network, address: &str) -> Vec<String> {
    let who = format!("http://{address}/who");
    let ask = |_| succeed(network, "client", "curl", &["-sS", "--max-time", "5", &who]);
    (0..20).map(ask).collect()
}

/// Begins downloads until each server has some. Returns them, and how many each has.
fn downloads_from_all(network: &Network, middle: &Middle) -> (Vec<Download>, [u64; 3]) {
    let before = given(middle);
    let each = || {
        let now = given(middle);
        [0, 1, 2].map(|server| now[server] - before[server])
    };
    let mut downloads = Vec::new();
    // Who is given the next is drawn.
    while downloads.len() < 9 || each().contains(&0) {
        assert!(downloads.len() < 90, "each server has some: {:?}", each());
        let begun = begin_fetch(network, "client", SERVICE, "6M");
        assert!(wait_for(|| begun.len() > 0), "its server serves");
        downloads.push(begun);
    }
    (downloads, each())
}

#[test]
fn who_loads_from_others_does_not_notice() {
    if !is_possible() || !has_program("nginx", "nginx") || !has_program("curl", "curl") {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver));
        let servers = SERVERS.map(|server| WebServer::start(&network, server));
        let who = format!("http://{SERVICE}/who");
        let ask = ["-sS", "--max-time", "2", &who];
        assert!(
            wait_for(|| succeeds_soon(&network, "client", "curl", &ask)),
            "{driver}"
        );
        let (downloads, each) = downloads_from_all(&network, &middle);
        change(&middle, "drain", ENDPOINTS[1]);
        let answering = who_answers(&network, SERVICE);
        assert!(
            !answering.contains(&"two".to_owned()),
            "{driver}: {answering:?}"
        );
        let [_one, _two, three] = servers;
        assert!(
            downloads.iter().all(|one| one.len() < 64 << 20),
            "{driver}: they are still under way"
        );
        drop(three);
        change(&middle, "remove", ENDPOINTS[2]);
        assert!(
            who_answers(&network, SERVICE)
                .iter()
                .all(|who| who == "one"),
            "{driver}"
        );
        let came: Vec<bool> = downloads.into_iter().map(Download::came).collect();
        let failed = came.iter().filter(|came| !**came).count() as u64;
        assert_eq!(
            failed, each[2],
            "{driver}: {came:?}, {each:?} of {ENDPOINTS:?}"
        );
        let report = middle.stop();
        println!("{driver}: {each:?} {:?} {:?}", report.fast, report.drops);
        assert!(report.fast.share > 0.4, "{driver}: {:?}", report.fast);
    }
}

/// Clients of IPv6 are served by all three over IPv6, and load what is there.
#[test]
fn an_address_of_ipv6_stands_for_three_servers() {
    if !is_possible() || !has_program("nginx", "nginx") || !has_program("curl", "curl") {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver));
        let [web, _two, _three] = SERVERS.map(|server| WebServer::start(&network, server));
        let address = format!("[{SERVICE6}]");
        let ask = ["-sS", "--max-time", "2", &format!("http://{address}/who")];
        assert!(succeeds_soon(&network, "client", "curl", &ask), "{driver}");
        // Who is given the next is drawn.
        let mut answering = Vec::new();
        let is_there = |answering: &[String], server| answering.iter().any(|who| who == server);
        while !SERVERS.iter().all(|server| is_there(&answering, server)) {
            assert!(answering.len() < 200, "{driver}: {answering:?}");
            answering.extend(who_answers(&network, &address));
        }
        change(&middle, "drain", ENDPOINTS6[1]);
        let answering = who_answers(&network, &address);
        assert!(
            !answering.contains(&"two".to_owned()),
            "{driver}: {answering:?}"
        );
        for _ in 0..3 {
            web.is_fetched(&network, "client", &address);
        }
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.fast, report.drops);
        assert!(report.fast.share > 0.4, "{driver}: {:?}", report.fast);
    }
}
