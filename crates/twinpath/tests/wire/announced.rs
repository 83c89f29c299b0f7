//! Whom addresses belong to is told unasked, and neighbours that the kernel knows are not asked for.

use super::kernel;
use super::middle::{Middle, wait_for};
use super::programs::succeed;
use super::raw::{Injector, Listener};
use super::routed::pings;
use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder};
use twinpath_netns::{Network, is_possible};

/// Its own, and what it answers for: of a translation, say, or a service.
const ADDRESSES: [&str; 4] = ["192.0.2.1", "192.0.2.77", "fd02::1", "fd02::77"];

/// Who had them before.
const FORMER: &str = "02:00:00:00:00:99";

fn service(driver: &str) -> String {
    format!(
        "[service]\nname = \"announced\"\nchain = [\"router\"]\n\
         [ports]\nlan = {{ device = \"lan\", driver = \"{driver}\", addresses = [\"192.0.2.1/24\", \"fd02::1/64\"], \
         answers_for = [\"192.0.2.77\", \"fd02::77\"] }}\n\
         [router]\naddress = \"192.0.2.1\"\naddress6 = \"fd02::1\"\n\
         next_hops = [{{ name = \"lan\", port = \"lan\" }}]\n\
         routes = [{{ to = \"192.0.2.0/24\", via = \"lan\" }}, {{ to = \"fd02::/64\", via = \"lan\" }}]\n"
    )
}

/// Their neighbour, which does not ask: what it knows is old, and it sends nothing there.
fn network() -> Network {
    let mut network = Network::new();
    network.cable("middle lan", "host eth0");
    network.address("host", "eth0", "192.0.2.10/24");
    network.address("host", "eth0", "fd02::10/64");
    network
}

fn knows_the_former(network: &Network) {
    for address in ADDRESSES {
        let words = format!("neigh replace {address} lladdr {FORMER} dev eth0 nud stale");
        network.ip("host", &words);
    }
}

fn mac_of(network: &Network, host: &str, interface: &str) -> String {
    let path = format!("/sys/class/net/{interface}/address");
    succeed(network, host, "cat", &[&path]).trim().to_owned()
}

/// Whether the host comes to know a station for all addresses.
fn learns(network: &Network, mac: &str) -> bool {
    let knows = |address: &str| {
        let said = succeed(
            network,
            "host",
            "ip",
            &["neigh", "show", address, "dev", "eth0"],
        );
        said.contains(mac)
    };
    wait_for(|| ADDRESSES.into_iter().all(knows))
}

#[test]
fn neighbors_learn_of_addresses_without_asking() {
    if !is_possible() {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let mac = mac_of(&network, "middle", "lan");
        knows_the_former(&network);
        let middle = Middle::start(&network, &service(driver));
        assert!(learns(&network, &mac), "{driver}: at the start");
        // The host forgets when its cable has no other end, and learns wrong things when it is back.
        network.ip("middle", "link set lan down");
        let is_down = |host: &str, interface: &str| {
            let path = format!("/sys/class/net/{interface}/operstate");
            succeed(&network, host, "cat", &[&path]).trim() != "up"
        };
        assert!(wait_for(|| is_down("host", "eth0")), "{driver}");
        // So that it is seen that it was down.
        assert!(wait_for(|| {
            middle
                .asked(&["counters"])
                .is_some_and(|told| !told.is_empty())
        }));
        std::thread::sleep(std::time::Duration::from_millis(300));
        network.ip("middle", "link set lan up");
        assert!(wait_for(|| !is_down("host", "eth0")), "{driver}");
        knows_the_former(&network);
        assert!(learns(&network, &mac), "{driver}: up again");
        // Another process takes over.
        knows_the_former(&network);
        let middle = middle.killed_and_started(&network);
        assert!(learns(&network, &mac), "{driver}: another process");
        let neighbors = middle.stop().neighbors.expect("it has addresses");
        assert!(neighbors.announcements >= 4, "{driver}: {neighbors:?}");
        // By itself it has not been asked.
        assert_eq!(neighbors.answers, 0, "{driver}: {neighbors:?}");
    }
}

/// Packets in one burst, more than may wait for a neighbour.
const BURST: u16 = 60;

/// Sends a burst from the client, and counts what comes to the server.
fn carries_a_burst(network: &Network, to: &str) -> u16 {
    let gateway = mac_of(network, "middle", "lan");
    let gateway = MacAddress(octets(&gateway));
    let to = format!("{to}:7");
    let listener = network.on("server", move || {
        let (mut listener, mut seen) = (Listener::open("eth0"), 0);
        wait_for(|| {
            listener.take(|frame| seen += u16::from(frame.ends_with(b"burst")));
            seen == BURST
        });
        seen
    });
    let injector = network.on("client", move || {
        let mut injector = Injector::open("eth0");
        let from: Endpoint = "192.168.1.10:7".parse().expect("one");
        let to: Endpoint = to.parse().expect("one");
        let frames = (0..BURST).map(|_| {
            PacketBuilder::udp(from, to)
                .macs(MacAddress([2, 0, 0, 0, 0, 7]), gateway)
                .payload(b"burst")
                .to_vec()
                .expect("short")
        });
        injector.send_together(frames);
    });
    injector.join().expect("it sends");
    listener.join().expect("it listens")
}

fn octets(mac: &str) -> [u8; 6] {
    let octets: Vec<u8> = mac
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16).expect("an octet"))
        .collect();
    octets.try_into().expect("six")
}

/// Also the first packets, and each time that it is started.
#[test]
fn no_packet_waits_for_a_neighbor_that_the_kernel_knows() {
    if !is_possible() {
        return;
    }
    for driver in super::DRIVERS {
        let network = kernel::network();
        for neighbor in ["198.51.100.1", "192.168.1.10"] {
            assert!(wait_for(|| pings(&network, "middle", neighbor)));
        }
        let middle = Middle::start(&network, &kernel::service(driver, &[]));
        assert_eq!(carries_a_burst(&network, "198.51.100.1"), BURST, "{driver}");
        let middle = middle.killed_and_started(&network);
        assert_eq!(carries_a_burst(&network, "198.51.100.1"), BURST, "{driver}");
        let neighbors = middle.stop().neighbors.expect("the kernel has addresses");
        let waited = (neighbors.waited, neighbors.lost());
        assert_eq!(waited, (0, 0), "{driver}: {neighbors:?}");
    }
}

/// Where the node asks for neighbours itself, what the kernel knows is a first answer: it is used although
/// the server says nothing.
#[test]
fn what_the_kernel_knows_is_a_first_answer() {
    if !is_possible() {
        return;
    }
    for driver in super::DRIVERS {
        let mut network = Network::new();
        network.cable("middle lan", "client eth0");
        network.cable("middle wan", "server eth0");
        network.address("client", "eth0", "192.168.1.10/24");
        let server = mac_of(&network, "server", "eth0");
        network.ip("server", "link set eth0 arp off");
        let words = format!("neigh replace 198.51.100.1 lladdr {server} dev wan nud stale");
        network.ip("middle", &words);
        let text = format!(
            "[service]\nname = \"own\"\nchain = [\"router\"]\n\
             [ports]\nlan = {{ device = \"lan\", driver = \"{driver}\", addresses = [\"192.168.1.1/24\"] }}\n\
             wan = {{ device = \"wan\", driver = \"{driver}\", addresses = [\"198.51.100.2/24\"] }}\n\
             [router]\naddress = \"198.51.100.2\"\n\
             next_hops = [{{ name = \"lan\", port = \"lan\" }}, {{ name = \"wan\", port = \"wan\" }}]\n\
             routes = [{{ to = \"192.168.1.0/24\", via = \"lan\" }}, {{ to = \"198.51.100.0/24\", via = \"wan\" }}]\n"
        );
        let middle = Middle::start(&network, &text);
        assert_eq!(carries_a_burst(&network, "198.51.100.1"), BURST, "{driver}");
        let neighbors = middle.stop().neighbors.expect("it has addresses");
        assert_eq!(neighbors.waited, 0, "{driver}: {neighbors:?}");
    }
}
