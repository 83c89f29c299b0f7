//! Hosts that put their packets into tunnels themselves, at their default offloads: what they leave to a card
//! is about the packet inside.

use super::middle::{Middle, cut_network};
use super::programs::{Server, succeed, succeeds_soon};
use twinpath_netns::{Network, has_program, is_possible};

/// Everything may pass, and its checksums are looked at.
fn service(driver: &str) -> String {
    format!(
        "[service]\nname = \"bump\"\nchain = [\"firewall\"]\nunparsed = \"forward\"\n\
         inside = [\"10.9.0.1\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"{driver}\" }}\n\
         outside = {{ device = \"outside\", driver = \"{driver}\" }}\n\
         [firewall]\ndefault = \"allow\"\n"
    )
}

/// A tunnel between both hosts; nothing if this kernel has none.
fn put_up_tunnel(network: &Network) -> Option<()> {
    for (host, own, other) in [("client", 1, 2), ("server", 2, 1)] {
        let remote = format!("10.9.0.{other}");
        let words = [
            "link", "add", "tunnel", "type", "vxlan", "id", "7", "dstport", "4789", "remote",
            &remote, "dev", "eth0",
        ];
        if !network.run(host, "ip", &words).status.success() {
            let message = "this kernel has no VXLAN";
            assert!(std::env::var_os("CI").is_none(), "{message}");
            println!("skipped: {message}");
            return None;
        }
        network.address(host, "tunnel", &format!("10.77.0.{own}/24"));
        network.address(host, "tunnel", &format!("fd77::{own}/64"));
        network.ip(host, "link set tunnel up");
    }
    Some(())
}

#[test]
fn long_segments_of_connections_in_tunnels_arrive() {
    if !is_possible() || !has_program("ping", "iputils-ping") || !has_program("iperf3", "iperf3") {
        return;
    }
    for driver in super::DRIVERS {
        let network = cut_network();
        if put_up_tunnel(&network).is_none() {
            return;
        }
        let middle = Middle::start(&network, &service(driver));
        let _server = Server::start(&network, "server", "iperf3", &["-s"]);
        for to in ["10.77.0.2", "fd77::2"] {
            let asked = ["-c1", "-W1", to];
            assert!(
                succeeds_soon(&network, "client", "ping", &asked),
                "{driver}"
            );
            // Both ways, as many bytes as take a moment, and minutes where segments are lost.
            for way in [&[][..], &["-R"]] {
                let transfer = ["-c", to, "-n", "20M", "--connect-timeout", "5000"];
                succeed(
                    &network,
                    "client",
                    "timeout",
                    &[&["20", "iperf3"][..], &transfer, way].concat(),
                );
            }
        }
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.fast, report.drops);
        let damaged = report.drops.get("bad_checksum").copied().unwrap_or(0);
        assert_eq!(damaged, 0, "{driver}: {:?}", report.drops);
    }
}
