//! FRR as the routing daemon: zebra writes the kernel's routes, with identifiers of next hops.

use super::bird::{ANNOUNCED, network};
use super::{misses, reaches, service};
use crate::middle::Middle;
use crate::programs::{Server, succeed};
use std::fs;
use tempfile::TempDir;
use twinpath_netns::{Network, has_program, is_possible};

/// Where Debian's package has the daemons.
const DAEMONS: &str = "/usr/lib/frr";

/// FRR on a host: OSPF for both IP versions.
struct Frr {
    protocols: Vec<Server>,
    _zebra: Server,
    folder: TempDir,
}

impl Frr {
    fn start(network: &Network, host: &str, number: u8, interface: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // The daemons give up root.
        let path = folder.path().to_string_lossy();
        succeed(network, host, "chown", &["frr:frrvty", &path]);
        let zebra = daemon(network, host, &folder, "zebra", "");
        let mut frr = Self {
            protocols: Vec::new(),
            _zebra: zebra,
            folder,
        };
        frr.speak(network, host, number, interface);
        frr
    }

    /// Starts the protocols, which announce the host's own networks.
    fn speak(&mut self, network: &Network, host: &str, number: u8, interface: &str) {
        for (name, on_link, router) in [
            ("ospfd", "ip ospf", "ospf"),
            ("ospf6d", "ipv6 ospf6", "ospf6"),
        ] {
            let text = format!(
                "interface {interface}\n {on_link} area 0\n {on_link} hello-interval 1\n\
                 {on_link} dead-interval 4\n {on_link} network point-to-point\nrouter {router}\n {router} router-id 10.0.0.{number}\n\
                 redistribute connected\n"
            );
            let started = daemon(network, host, &self.folder, name, &text);
            self.protocols.push(started);
        }
    }

    /// What it says to some words.
    fn told(&self, network: &Network, host: &str, words: &str) -> String {
        let folder = self.folder.path().to_string_lossy().into_owned();
        let arguments = ["--vty_socket", &folder, "-c", words];
        succeed(network, host, "vtysh", &arguments)
    }
}

fn daemon(network: &Network, host: &str, folder: &TempDir, name: &str, text: &str) -> Server {
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    fs::write(path(&format!("{name}.conf")), text).expect("a file");
    let (own, pid, log) = (
        path(&format!("{name}.conf")),
        path(&format!("{name}.pid")),
        format!("file:{}", path(&format!("{name}.log"))),
    );
    let arguments = [
        "-f",
        &own,
        "-i",
        &pid,
        "-z",
        &path("zserv.api"),
        "--vty_socket",
        &path(""),
        "-P",
        "0",
        "--log",
        &log,
    ];
    Server::start(network, host, &format!("{DAEMONS}/{name}"), &arguments)
}

#[test]
fn routes_of_frr_are_followed() {
    let has_programs = has_program("ping", "iputils-ping")
        && has_program(&format!("{DAEMONS}/ospf6d"), "frr")
        && has_program("vtysh", "frr");
    if !is_possible() || !has_programs {
        return;
    }
    let network = network();
    let middle = Middle::start(&network, &service(crate::DRIVERS[0], &[]));
    let own = Frr::start(&network, "middle", 2, "wan");
    let mut far = Frr::start(&network, "far", 1, "eth0");
    assert!(
        reaches(&network, "client", &ANNOUNCED),
        "announced: {} {} {}",
        own.told(&network, "middle", "show ip ospf neighbor"),
        own.told(&network, "middle", "show ipv6 ospf6 neighbor"),
        succeed(&network, "middle", "ip", &["-6", "route"]),
    );
    assert!(reaches(&network, "far", &["192.168.1.10", "fd01::10"]));
    let routes = succeed(&network, "middle", "ip", &["route"]);
    assert!(routes.contains("203.0.113.1 nhid "), "{routes}");
    far.protocols.clear();
    assert!(misses(&network, "client", &ANNOUNCED), "withdrawn");
    far.speak(&network, "far", 1, "eth0");
    assert!(reaches(&network, "client", &ANNOUNCED), "again");
    let report = middle.stop();
    let kernel = report.kernel.expect("the kernel is followed");
    println!("{kernel:?} {:?} {:?}", report.fast, report.drops);
    assert!(kernel.changes >= 3, "{kernel:?}");
}
