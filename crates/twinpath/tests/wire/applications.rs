//! What people use a network for: names, keys and values, shells, routes, and a long file.

use super::middle::{Middle, cut_network};
use super::programs::{Server, WebServer, succeed, succeeds_soon};
use super::routed;
use super::shells::{ShellServer, has_shells};
use twinpath_netns::{Network, has_program, is_possible};

/// Hosts inside may open connections, and nobody else.
fn service(driver: &str) -> String {
    format!(
        "[service]\nname = \"bump\"\nchain = [\"firewall\", \"reassembler\", \"monitor\"]\n\
         unparsed = \"forward\"\ninside = [\"10.9.0.1\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"{driver}\" }}\n\
         outside = {{ device = \"outside\", driver = \"{driver}\" }}\n\
         [firewall]\ndefault = \"deny\"\nrules = [\n\
         {{ action = \"allow\", from = \"10.9.0.1\" }},\n{{ action = \"allow\", from = \"fd09::1\" }},\n\
         {{ action = \"allow\", protocol = \"icmp6\" }},\n]\n"
    )
}

const SERVER: [&str; 2] = ["10.9.0.2", "fd09::2"];

/// A client and a server with a service of each driver between them, in turns.
fn between(mut each: impl FnMut(&Network)) {
    for driver in super::DRIVERS {
        let network = cut_network();
        let middle = Middle::start(&network, &service(driver));
        each(&network);
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.fast, report.drops);
        assert_eq!(report.worker_restarts, [0], "{driver}");
        assert!(report.totals.packets_out > 0, "{driver}");
    }
}

#[test]
fn names_are_resolved() {
    if !is_possible()
        || !has_program("dig", "bind9-dnsutils")
        || !has_program("dnsmasq", "dnsmasq-base")
    {
        return;
    }
    let long = "x".repeat(200);
    let text = [format!(
        "--txt-record=long.test,{}",
        [long.as_str(); 6].join(",")
    )];
    let mut arguments = vec![
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
    ];
    arguments.extend([
        "--user=root",
        "--pid-file=",
        "--address=/name.test/203.0.113.5",
    ]);
    arguments.push(&text[0]);
    between(|network| {
        let _server = Server::start(network, "server", "dnsmasq", &arguments);
        for server in SERVER {
            let at = format!("@{server}");
            for way in ["+notcp", "+tcp"] {
                let ask = [&at, "+short", "+time=2", "+tries=5", way, "name.test"];
                assert!(
                    succeeds_soon(network, "client", "dig", &ask),
                    "{server} {way}"
                );
                let said = succeed(network, "client", "dig", &ask);
                assert_eq!(said, "203.0.113.5\n", "{server} {way}");
            }
            // Longer than the path carries in a packet: it comes in fragments, or again by TCP.
            for room in ["+bufsize=4096", "+bufsize=512"] {
                let ask = [
                    &at,
                    "+short",
                    "+time=2",
                    "+tries=5",
                    room,
                    "TXT",
                    "long.test",
                ];
                let said = succeed(network, "client", "dig", &ask);
                assert_eq!(
                    said.matches(long.as_str()).count(),
                    6,
                    "{server} {room}: {said}"
                );
            }
        }
    });
}

#[test]
fn keys_and_values_are_stored() {
    if !is_possible()
        || !has_program("redis-server", "redis-server")
        || !has_program("redis-benchmark", "redis-tools")
    {
        return;
    }
    between(|network| {
        let arguments = [
            "--protected-mode",
            "no",
            "--save",
            "",
            "--bind",
            "0.0.0.0",
            "::",
        ];
        let _server = Server::start(network, "server", "redis-server", &arguments);
        for server in SERVER {
            let ask = |words: &[&str]| {
                succeed(
                    network,
                    "client",
                    "redis-cli",
                    &[&["-h", server], words].concat(),
                )
            };
            let ping = ["-h", server, "ping"];
            assert!(
                succeeds_soon(network, "client", "redis-cli", &ping),
                "{server}"
            );
            let value = "value".repeat(10_000);
            assert_eq!(ask(&["set", "key", &value]), "OK\n");
            assert_eq!(ask(&["get", "key"]).trim_end(), value);
            let many = [
                "-h", server, "-n", "20000", "-P", "16", "-r", "1000", "-t", "set,get", "--csv",
            ];
            let said = succeed(network, "client", "redis-benchmark", &many);
            assert!(said.contains("\"GET\""), "{said}");
            let keys: u32 = ask(&["dbsize"]).trim().parse().expect("a number");
            assert!(keys > 900, "{keys}");
            ask(&["flushall"]);
        }
    });
}

#[test]
fn shells_are_opened() {
    if !is_possible() || !has_shells() {
        return;
    }
    between(|network| {
        let server = ShellServer::start(network, "server", 22);
        for address in SERVER {
            server.is_used(network, "client", address);
        }
    });
}

#[test]
fn a_gibibyte_comes_as_it_is() {
    if !is_possible() || !has_program("nginx", "nginx") || !has_program("curl", "curl") {
        return;
    }
    let mut addresses = ["10.9.0.2", "[fd09::2]"].into_iter();
    between(|network| {
        let server = WebServer::start(network, "server");
        let address = addresses.next().expect("one for each driver");
        server.is_fetched_at_length(network, "client", address);
    });
}

/// Routers on the way are found, also through a translation.
#[test]
fn routes_are_traced() {
    if !is_possible()
        || !has_program("traceroute", "traceroute")
        || !has_program("ping", "iputils-ping")
    {
        return;
    }
    for driver in super::DRIVERS {
        let network = routed::network();
        let middle = Middle::start(&network, &routed::service(driver));
        for address in ["198.51.100.1", "2001:db8::1"] {
            let ping = ["-c1", "-W1", address];
            assert!(
                succeeds_soon(&network, "client", "ping", &ping),
                "{driver}: {address}"
            );
        }
        for (version, to, router) in [
            ("-4", "203.0.113.1", "198.51.100.2"),
            ("-6", "2001:db8::1", "2001:db8::2"),
        ] {
            for way in [&["-U"][..], &["-I"], &["-T", "-p", "80"]] {
                let first = [version, "-n", "-q2", "-w2", "-m4"];
                let words = [&first[..], way, &[to]].concat();
                let said = succeed(&network, "client", "traceroute", &words);
                let hops: Vec<&str> = said.lines().skip(1).collect();
                let expected = [router, to];
                assert_eq!(hops.len(), 2, "{driver} {way:?}: {said}");
                for (hop, who) in hops.iter().zip(expected) {
                    assert!(hop.contains(who), "{driver} {way:?}: {who} in {said}");
                }
            }
        }
        drop(middle.stop());
    }
}
