//! A routing daemon announces routes, beside the service and behind it, and takes them back.

use super::{forwards_nothing, misses, reaches, service};
use crate::middle::{Middle, wait_for};
use crate::programs::{Server, WebServer, succeed};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use twinpath_netns::{Network, has_program, is_possible};

/// What the host `far` announces.
pub const ANNOUNCED: [&str; 2] = ["203.0.113.1", "2001:db8:f::1"];

/// A client at `middle`, and `far` behind another cable; both have a routing daemon.
pub fn network() -> Network {
    let mut network = Network::new();
    network.cable("middle lan", "client eth0");
    network.cable("middle wan", "far eth0");
    for (host, interface, addresses) in [
        ("client", "eth0", ["192.168.1.10/24", "fd01::10/64"]),
        ("middle", "lan", ["192.168.1.1/24", "fd01::1/64"]),
        ("middle", "wan", ["198.51.100.2/24", "2001:db8::2/64"]),
        ("far", "eth0", ["198.51.100.1/24", "2001:db8::1/64"]),
        ("far", "lo", ["203.0.113.1/32", "2001:db8:f::1/128"]),
    ] {
        for address in addresses {
            network.address(host, interface, address);
        }
    }
    network.ip("client", "route add default via 192.168.1.1");
    network.ip("client", "route add default via fd01::1");
    forwards_nothing(&network, "middle");
    network
}

/// BIRD on a host.
struct Bird {
    _process: Server,
    folder: TempDir,
}

impl Bird {
    fn start(network: &Network, host: &str, protocols: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "log \"{}\" all;\nprotocol device {{ scan time 1; }}\n\
             protocol kernel {{ ipv4 {{ import none; export where source ~ [RTS_OSPF, RTS_OSPF_IA, RTS_OSPF_EXT1, RTS_OSPF_EXT2, RTS_BGP]; }}; }}\n\
             protocol kernel {{ ipv6 {{ import none; export where source ~ [RTS_OSPF, RTS_OSPF_IA, RTS_OSPF_EXT1, RTS_OSPF_EXT2, RTS_BGP]; }}; }}\n\
             {protocols}",
            folder.path().join("log").display()
        );
        fs::write(folder.path().join("bird.conf"), text).expect("a file");
        let (configuration, socket) = (folder.path().join("bird.conf"), folder.path().join("ctl"));
        let arguments = [
            "-f",
            "-c",
            &configuration.to_string_lossy(),
            "-s",
            &socket.to_string_lossy(),
        ];
        let process = Server::start(network, host, "bird", &arguments);
        Self {
            _process: process,
            folder,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("ctl")
    }

    /// Says something to it, which it must understand.
    fn told(&self, network: &Network, host: &str, words: &str) -> String {
        let socket = self.socket();
        let mut arguments = vec!["-s", socket.to_str().expect("plain")];
        arguments.extend(words.split_whitespace());
        succeed(network, host, "birdc", &arguments)
    }
}

/// OSPF for both IP versions on an interface, with the host's own addresses beside.
fn ospf(router: u8, interface: &str, beside: &str) -> String {
    let area = |version: u8| {
        format!(
            "area 0 {{ interface \"{interface}\" {{ type broadcast; hello 1; dead 4; wait 2; }};\n\
             interface \"{beside}\" {{ stub yes; }}; }};\n# {version}\n"
        )
    };
    // The loopback has no address of a link, without which OSPFv3 does not have it.
    let (announced, export) = match beside {
        "lo" => (
            "protocol static announced { ipv6; route 2001:db8:f::1/128 via \"lo\"; }\n",
            "where source = RTS_STATIC",
        ),
        _ => ("", "none"),
    };
    format!(
        "router id 10.0.0.{router};\n\
         protocol ospf v2 four {{ ipv4 {{ import all; export none; }};\n{}}}\n\
         {announced}\
         protocol ospf v3 six {{ ipv6 {{ import all; export {export}; }};\n{}}}\n",
        area(4),
        area(6)
    )
}

/// OSPF speaks by multicast (224.0.0.5, ff02::5), which the kernel must get.
#[test]
fn ospf_announces_routes_that_packets_take() {
    let has_programs = || {
        let programs = [
            ("ping", "iputils-ping"),
            ("bird", "bird2"),
            ("nginx", "nginx"),
            ("curl", "curl"),
        ];
        programs
            .iter()
            .all(|(program, package)| has_program(program, package))
    };
    if !is_possible() || !has_programs() {
        return;
    }
    for driver in crate::DRIVERS {
        let network = network();
        let middle = Middle::start(&network, &service(driver, &[]));
        let own = Bird::start(&network, "middle", &ospf(2, "wan", "lan"));
        let far = Bird::start(&network, "far", &ospf(1, "eth0", "lo"));
        assert!(
            reaches(&network, "client", &ANNOUNCED),
            "{driver}: announced: {} {} {} {}",
            own.told(&network, "middle", "show ospf neighbors four"),
            own.told(&network, "middle", "show ospf neighbors six"),
            own.told(&network, "middle", "show route all"),
            succeed(&network, "middle", "ip", &["-6", "route"]),
        );
        let server = WebServer::start(&network, "far");
        for address in ["203.0.113.1", "[2001:db8:f::1]"] {
            server.is_fetched(&network, "client", address);
        }
        // The other way round a connection is opened from behind.
        assert!(reaches(&network, "far", &["192.168.1.10", "fd01::10"]));
        far.told(&network, "far", "disable all");
        assert!(
            misses(&network, "client", &ANNOUNCED),
            "{driver}: withdrawn"
        );
        far.told(&network, "far", "enable all");
        assert!(reaches(&network, "client", &ANNOUNCED), "{driver}: again");
        let report = middle.stop();
        let kernel = report.kernel.expect("the kernel is followed");
        println!("{driver}: {kernel:?} {:?} {:?}", report.fast, report.drops);
        let carried = |name: &str| {
            let port = report.ports.iter().find(|port| port.name == name);
            port.map_or(0, |port| port.transmitted_bytes)
        };
        assert!(carried("lan") > 128 << 20, "{driver}: {:?}", report.ports);
        // Acknowledgements, of which one may be for 64 KiB and more.
        assert!(carried("wan") > 16 << 10, "{driver}: {:?}", report.ports);
        assert!(kernel.changes >= 3, "{kernel:?}");
    }
}

/// BGP's connection is between the host itself and one behind it; a table of thousands of routes
/// becomes few changes.
#[test]
fn bgp_announces_thousands_of_routes() {
    let has_programs = has_program("ping", "iputils-ping") && has_program("bird", "bird2");
    if !is_possible() || !has_programs {
        return;
    }
    let network = network();
    let middle = Middle::start(&network, &service("af_packet", &[]));
    let session = |own: u32, other: u32, address: &str| {
        format!(
            "router id 10.0.0.{own};\nprotocol bgp peer {{ local as {own}; neighbor {address} as {other};\n\
             connect retry time 1; error wait time 1,2; ipv4 {{ import all; export all; }}; }}\n"
        )
    };
    let routes: String = (0..5000)
        .map(|number| {
            format!(
                "route 10.{}.{}.0/24 blackhole;\n",
                100 + number / 256,
                number % 256
            )
        })
        .collect();
    let routes =
        format!("protocol static many {{ ipv4;\nroute 203.0.113.1/32 blackhole;\n{routes}}}\n");
    let own = Bird::start(&network, "middle", &session(2, 1, "198.51.100.1"));
    let peer = session(1, 2, "198.51.100.2") + &routes;
    let far = Bird::start(&network, "far", &peer);
    network.ip("far", "route add 192.168.1.0/24 via 198.51.100.2");
    assert!(
        reaches(&network, "client", &["203.0.113.1"]),
        "{}",
        own.told(&network, "middle", "show protocols all peer")
    );
    let count = || {
        let list = network.run("middle", "ip", &["-4", "route"]).stdout;
        list.split(|byte| *byte == b'\n').count()
    };
    assert!(wait_for(|| count() > 5000), "{}", count());
    far.told(&network, "far", "disable many");
    assert!(misses(&network, "client", &["203.0.113.1"]));
    far.told(&network, "far", "enable many");
    assert!(reaches(&network, "client", &["203.0.113.1"]));
    let report = middle.stop();
    let kernel = report.kernel.expect("the kernel is followed");
    println!("{kernel:?} {:?} {:?}", report.fast, report.drops);
    assert!(kernel.changed_routes > 10_000, "{kernel:?}");
    assert!(kernel.changes < kernel.changed_routes / 20, "{kernel:?}");
}
