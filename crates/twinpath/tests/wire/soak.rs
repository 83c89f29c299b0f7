//! Under load memory must not grow: for seconds, or for hours where somebody has them. `cargo xtask record soak
//! MINUTES` runs it, and keeps its figures and a picture.

mod page;

use super::middle::{Middle, wait_for};
use super::programs::{Server, succeeds_soon};
use super::raw::Injector;
use super::routed;
use page::Look;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use twinpath_control::report::json;
use twinpath_core::wire::{Endpoint, PacketBuilder, tcp};
use twinpath_netns::{Network, has_program, is_possible};

/// How many minutes it takes, if somebody wants more than a few seconds.
const MINUTES: &str = "TWINPATH_SOAK_MINUTES";
const FEW_SECONDS: f64 = 8.0;

/// The MAC address of the gateway at home.
const GATEWAY: &str = "02:00:00:00:0a:01";

/// How often memory is looked at, if there is time for it.
const LOOKS: u32 = 60;

/// What memory may grow by after a quarter of the time, and for each flow that is known by then and was not
/// before: until there are as many as there may be, tables fill.
const GROWTH: u64 = 16 << 20;
const FLOW_GROWTH: u64 = 512;

/// The folder to which figures and the picture are written, if somebody wants them.
const OUT: &str = "TWINPATH_MEASURED_OUT";

/// Packets of flows that nobody has seen before, ten thousand a second, of which none is answered, and
/// transfers of another host beside them, through firewall, translation and router.
#[test]
fn soak() {
    if !is_possible() || !has_program("ping", "iputils-ping") || !has_program("iperf3", "iperf3") {
        return;
    }
    let minutes = std::env::var(MINUTES)
        .ok()
        .and_then(|minutes| minutes.parse::<f64>().ok());
    let seconds = minutes.map_or(FEW_SECONDS, |minutes| 60.0 * minutes);
    let time = Duration::from_secs_f64(seconds);
    let count = LOOKS.min(seconds.ceil() as u32).max(4);
    let network = routed::network();
    network.ip("middle", &format!("link set lan address {GATEWAY}"));
    let middle = Middle::start(&network, &routed::service("af_packet"));
    let ping = ["-c1", "-W1", "198.51.100.1"];
    assert!(succeeds_soon(&network, "client", "ping", &ping));
    let is_over = Arc::new(AtomicBool::new(false));
    let churning = churn(&network, &is_over);
    let _server = Server::start(&network, "server", "iperf3", &["-s"]);
    let (began, mut looks) = (Instant::now(), Vec::new());
    for number in 1..=count {
        let end = began + time * number / count;
        while Instant::now() < end {
            let transfer = ["-c", "198.51.100.1", "-n", "64M"];
            assert!(succeeds_soon(&network, "client", "iperf3", &transfer));
            std::thread::sleep(Duration::from_millis(200));
        }
        let look = look_at(&middle, began);
        println!("{look:?}");
        looks.push(look);
    }
    is_over.store(true, Ordering::Relaxed);
    let sent = churning.join().expect("no panic");
    assert!(wait_for(|| network
        .run("client", "ping", &ping)
        .status
        .success()));
    let report = middle.stop();
    println!(
        "{sent} new flows, {:?}, {:?}, {:?}",
        report.totals, report.flows, report.drops
    );
    if let Some(folder) = std::env::var_os(OUT) {
        page::write(&PathBuf::from(folder), &looks, sent, &report);
    }
    let settled = looks[looks.len() / 4];
    for later in &looks[looks.len() / 4..] {
        let room = GROWTH + FLOW_GROWTH * later.flows.saturating_sub(settled.flows);
        let most = settled.resident_bytes + room;
        assert!(later.resident_bytes < most, "{settled:?} grew to {later:?}");
    }
    assert_eq!(report.worker_restarts, [0]);
}

/// What the service says of itself, and the system of it.
fn look_at(middle: &Middle, began: Instant) -> Look {
    let said = middle.asked(&["top", "--once", "--json", "--every", "200ms"]);
    let report = json::from_text(&said.expect("it answers")).expect("a report");
    Look {
        seconds: began.elapsed().as_secs(),
        resident_bytes: middle.resident_bytes(),
        packets_in: report.totals.packets_in,
        packets_out: report.totals.packets_out,
        dropped: report.drops.values().sum(),
        flows: report.flows.known,
    }
}

/// SYNs and datagrams from hosts beside the client, each of another connection, until it is over. Datagrams are
/// so few that their sessions, which give way to no others, leave room; SYNs are as many as there may be.
fn churn(network: &Network, is_over: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    const RATE: u64 = 10_000;
    let is_over = Arc::clone(is_over);
    network.on("client", move || {
        let macs = ["02:00:00:00:0c:01", GATEWAY];
        let [own, gateway] = macs.map(|mac| mac.parse().expect("a MAC address"));
        let mut injector = Injector::open("eth0");
        let (mut number, mut sent) = (0u32, 0);
        while !is_over.load(Ordering::Relaxed) {
            let end = Instant::now() + Duration::from_secs(1);
            sent += injector.send_at(RATE, end, || {
                number = number.wrapping_add(1);
                let (from, to) = connection(number);
                let packet = match number % 5 {
                    0 => PacketBuilder::udp(from, to).payload_len(20),
                    _ => PacketBuilder::tcp(from, to).flags(tcp::flags::SYN),
                };
                packet.macs(own, gateway).to_vec().expect("a packet")
            });
        }
        sent
    })
}

/// The ends of a connection: one of 64 hosts, and who does not answer.
fn connection(number: u32) -> (Endpoint, Endpoint) {
    let host = 32 + (number % 64) as u8;
    let from = Endpoint::v4([192, 168, 1, host], 10_000 + (number % 20_000) as u16);
    let [_, a, b, c] = (number / 20_000).to_be_bytes();
    (from, Endpoint::v4([203, a, b, c], 80))
}
