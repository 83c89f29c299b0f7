//! A memory server whose requests an RDMA card executes: RDMA's server end is somebody else's there. The card
//! is the kernel's own in software (`rdma_rxe`), which few kernels have: `cargo xtask verbs` starts a
//! virtual machine with it and runs these there.

use super::memory_server::{PAYLOADS, Server, Switch, counted};
use super::middle::{Middle, cut_network, wait_for};
use super::programs::{WebServer, succeeds_soon};
use super::split::{are_up, server, service_of};
use std::process::Command;
use twinpath_core::wire::Address;
use twinpath_netns::{Network, has_program, ip};

/// Where all is emulated, answers take as many times as long.
const SLOWNESS: u32 = 10;

/// Whether this machine's kernel has such a card; who starts it for that says so.
fn has_cards() -> bool {
    let has_cards = std::env::var_os("TWINPATH_RDMA").is_some();
    if !has_cards {
        println!("skipped: no RDMA card; `cargo xtask verbs` makes one");
    }
    has_cards
}

/// Makes the interface of a host a card's, in the namespace that the process is in: the kernel has cards
/// nowhere else.
fn make_card(network: &Network, host: &str, interface: &str, addresses: &[&str]) {
    network.ip(host, &format!("link set {interface} netns 1"));
    for address in addresses {
        ip(&format!("addr add {address} dev {interface} nodad"));
    }
    ip(&format!("link set {interface} mtu 4200 up"));
    let words = ["link", "add", &format!("rdma-{interface}"), "type", "rxe"];
    let mut command = Command::new("rdma");
    command.args(words).args(["netdev", interface]);
    let made = command.status().expect("rdma is there");
    assert!(made.success(), "rdma_rxe makes no card");
}

fn start(interface: &str, number: u16) -> Server {
    let command = Command::new(env!("CARGO_BIN_EXE_twinpath"));
    Server::start_by(command, interface, number, &[])
}

/// Payloads come as they were written, through requests that are spoiled on their way, and through a server
/// that ends and is started again, which is reached under the address that is said.
fn payloads_go_and_come(interface: &str, switch: Address, server: &str, end: &End) {
    let mut network = Network::new();
    network.cable("switch eth0", &format!("server {interface}"));
    network.ip("switch", "link set eth0 mtu 4200");
    make_card(&network, "server", interface, &[server]);
    let first = start(interface, 5);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cable.pcap");
    let (to_switch, from_test) = std::sync::mpsc::channel();
    let (to_test, from_switch) = std::sync::mpsc::channel();
    let thread = network.on("switch", move || {
        let mut switch = Switch::open_at(&path, 1, switch, SLOWNESS);
        switch.until("the card serves", Switch::is_ready);
        switch.rounds();
        assert!(switch.fates().0 > PAYLOADS * 9 / 10, "{:?}", switch.fates());
        switch.spoil_requests();
        to_test.send(()).expect("somebody waits");
        from_test.recv().expect("the server is gone");
        let (before, _) = switch.fates();
        switch.until("the second server is there", |switch| {
            switch.incarnations() == 2 && switch.is_ready()
        });
        switch.rounds();
        assert!(switch.fates().0 - before > PAYLOADS * 9 / 10);
    });
    let is_first_done = || from_switch.try_recv().is_ok() || thread.is_finished();
    assert!(wait_for(is_first_done), "the first server does not serve");
    match end {
        // What it has told the kernel stays, and hinders nobody.
        End::Kill => drop(first),
        End::Stop => has_served(&first.stop(), 10),
    }
    let second = start(interface, 5);
    let _ = to_switch.send(());
    thread.join().expect("payloads came as they were written");
    let (address, _) = server.split_once('/').expect("with its prefix");
    let said = second.stop();
    let announced = format!("at {address} on {interface}, by the card rdma-{interface}");
    assert!(said.contains(&announced), "{said}");
    has_served(&said, 4);
}

/// How the first server ends.
enum End {
    Kill,
    Stop,
}

fn has_served(said: &str, restores: u64) {
    assert!(counted(said, "restores") >= restores, "{said}");
    let packets = counted(said, "rcvd_pkts");
    assert!(packets > u64::from(PAYLOADS), "{said}");
}

#[test]
fn payloads_wait_in_a_cards_memory() {
    if has_cards() {
        let switch = Address::from_v4([169, 254, 0, 1]);
        payloads_go_and_come("card0", switch, "169.254.0.2/24", &End::Stop);
    }
}

#[test]
fn payloads_wait_in_a_cards_memory_over_v6() {
    if has_cards() {
        let mut octets = [0; 16];
        (octets[0], octets[15]) = (0xfd, 1);
        let switch = Address::from_v6(octets);
        payloads_go_and_come("card1", switch, "fd00::2/64", &End::Kill);
    }
}

/// The whole service, with a card at its other end.
#[test]
fn a_file_crosses_while_its_payloads_wait_in_a_cards_memory() {
    if !has_cards() || !has_program("curl", "curl") || !has_program("nginx", "nginx") {
        return;
    }
    let mut network = cut_network();
    network.cable("middle memory1", "memory-1 card2");
    network.ip("middle", "link set memory1 mtu 4200");
    make_card(&network, "memory-1", "card2", &["169.254.0.3/16"]);
    let card = start("card2", 1);
    let middle = Middle::start(&network, &service_of(1, &server(1)));
    let ping = ["-c1", "-W1", "10.9.0.2"];
    assert!(succeeds_soon(&network, "client", "ping", &ping));
    assert!(wait_for(|| are_up(&middle, 1)), "the card serves");
    let web = WebServer::start(&network, "server");
    web.is_sent(&network, "client", "10.9.0.2");
    web.is_sent(&network, "client", "[fd09::2]");
    let split = middle.stop().split.expect("with [split]");
    let (counts, server) = (split.counts, &split.servers[0]);
    println!("{counts:?}");
    assert!(counts.merged > 500, "{counts:?}");
    assert!(counts.lost() * 20 < counts.packets, "{counts:?}");
    assert!(
        server.is_up && server.counter("payloads") == counts.merged,
        "{server:?}"
    );
    let said = card.stop();
    assert!(counted(&said, "rcvd_pkts") > counts.merged, "{said}");
}
