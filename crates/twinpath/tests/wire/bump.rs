//! A bump in the wire: two hosts of one network do not notice the service between them, but for
//! what it denies.

use super::middle::{Middle, cut_network};
use super::programs::{Server, WebServer, succeed, succeeds_soon};
use serde_json::Value;
use twinpath_netns::{Network, has_program, is_possible};

/// Hosts inside may open connections, others may ping.
pub fn service(driver: &str) -> String {
    format!(
        "[service]\nname = \"bump\"\nchain = [\"firewall\", \"monitor\"]\nunparsed = \"forward\"\n\
         inside = [\"10.9.0.1\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n\
         [rule_cache]\nwindow = \"10ms\"\nthreshold = 1\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"{driver}\" }}\n\
         outside = {{ device = \"outside\", driver = \"{driver}\" }}\n\
         [firewall]\ndefault = \"deny\"\nrules = [\n\
         {{ action = \"allow\", from = \"10.9.0.1\" }},\n{{ action = \"allow\", from = \"fd09::1\" }},\n\
         {{ action = \"allow\", protocol = \"icmp\" }},\n{{ action = \"allow\", protocol = \"icmp6\" }},\n]\n"
    )
}

fn started(network: &Network, driver: &str) -> Middle {
    let middle = Middle::start(network, &service(driver));
    for address in ["10.9.0.2", "fd09::2"] {
        let ping = ["-c1", "-W1", address];
        assert!(
            succeeds_soon(network, "client", "ping", &ping),
            "{driver}: ping {address}"
        );
    }
    middle
}

#[test]
fn transfers_pass_in_both_directions_over_both_versions() {
    if !is_possible() || !has_program("ping", "iputils-ping") || !has_program("iperf3", "iperf3") {
        return;
    }
    for driver in super::DRIVERS {
        let network = cut_network();
        let middle = started(&network, driver);
        let _server = Server::start(&network, "server", "iperf3", &["-s"]);
        let ask = ["-c", "10.9.0.2", "-n", "1K"];
        assert!(
            succeeds_soon(&network, "client", "iperf3", &ask),
            "{driver}: nobody listens"
        );
        for address in ["10.9.0.2", "fd09::2"] {
            for way in [&["-n", "64M"][..], &["-n", "64M", "-R"]] {
                let arguments = [&["-c", address, "--json"], way].concat();
                succeed(&network, "client", "iperf3", &arguments);
            }
            for way in [&[][..], &["-R"]] {
                datagrams_arrive(&network, address, way);
            }
        }
        let report = middle.stop();
        println!(
            "{driver}: {:?}\n{:?}\n{:?}",
            report.ports, report.drops, report.fast
        );
        assert!(report.fast.share > 0.4, "{driver}: {:?}", report.fast);
        // A virtual cable copies; the node does not, from one port to the other.
        let mode = if driver == "af_xdp" { "copy" } else { "" };
        for port in &report.ports {
            let copied = (port.copied_received, port.copied_transmitted);
            assert_eq!((&port.mode[..], copied), (mode, (0, 0)), "{driver}");
        }
    }
}

/// Datagrams at a gentle rate, nearly all of which arrive. That all are lost is no error to iperf3.
fn datagrams_arrive(network: &Network, address: &str, way: &[&str]) {
    let gently = ["-c", address, "--json", "-u", "-b", "10M", "-t", "1"];
    let said = succeed(network, "client", "iperf3", &[&gently, way].concat());
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let received = &said["end"]["sum_received"];
    let bytes = received["bytes"].as_u64().expect("a count");
    let lost = received["lost_percent"].as_f64().expect("a share");
    assert!(
        bytes > 500_000 && lost < 5.0,
        "{address} {way:?}: {received}"
    );
}

/// The recipe's networks are halves of the cable's, so the host outside has addresses of the others.
#[test]
fn the_recipe_between_cables_lets_hosts_inside_open_connections_alone() {
    let programs = [("nginx", "nginx"), ("curl", "curl")];
    if !is_possible()
        || !programs
            .iter()
            .all(|(name, package)| has_program(name, package))
    {
        return;
    }
    let recipe = include_str!("../../../../docs/recipes/between-cables.toml");
    let recipe = recipe.replace("\"eth1\"", "\"inside\"");
    let recipe = recipe.replace("\"eth0\"", "\"outside\"");
    let network = cut_network();
    for address in ["10.9.0.200/24", "fd09:0:0:0:8000::2/64"] {
        network.address("server", "eth0", address);
    }
    let middle = Middle::start(&network, &recipe);
    let outside = WebServer::start(&network, "server");
    for address in ["10.9.0.200", "[fd09:0:0:0:8000::2]"] {
        outside.is_fetched(&network, "client", address);
    }
    drop(outside);
    let _inside = WebServer::start(&network, "client");
    for (from, to) in [
        ("10.9.0.200", "10.9.0.1"),
        ("fd09:0:0:0:8000::2", "[fd09::1]"),
    ] {
        let url = format!("http://{to}/file");
        let fetch = ["-sS", "--max-time", "2", "--interface", from, &url];
        let fetched = network.run("server", "curl", &fetch);
        assert!(!fetched.status.success(), "{fetched:?}");
    }
    let report = middle.stop();
    assert!(report.drops.get("denied") > Some(&1), "{:?}", report.drops);
}

#[test]
fn a_run_ends_after_its_time() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    let network = cut_network();
    let for_a_second = ["--for", "1s"];
    let mut middle = Middle::start_with(&network, &service("af_packet"), &for_a_second);
    assert!(middle.ends_by_itself());
}
