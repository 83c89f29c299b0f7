//! Where buffers are, under traffic between hosts.

mod fallback;
mod offloads;
mod queues;

use crate::interface::Interface;
use crate::part::Part;
use crate::umem::{ENTRIES, SharedUmem, lock};
use crate::{Driver, Port, PortConfig, PortCounters, State, wait};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use twinpath_core::Pools;
use twinpath_core::wire::PacketBuilder;
use twinpath_netns::{Network, is_possible};

const CHUNKS: usize = ENTRIES as usize;
const LONG: Duration = Duration::from_secs(20);

fn config(device: &str, driver: Driver) -> PortConfig {
    PortConfig {
        device: device.to_owned(),
        driver,
        is_shared: false,
    }
}

fn network() -> Network {
    let mut network = Network::new();
    for (host, port) in [("left", "port0"), ("right", "port1")] {
        network.cable(&format!("middle {port}"), &format!("{host} eth0"));
    }
    network
}

/// The first cable, when it was deleted.
fn cable_again(network: &Network) {
    let to = network.namespace("left");
    let words = format!("link add port0 type veth peer name eth0 netns {to}");
    network.ip("middle", &words);
    network.ip("middle", "link set port0 up");
    network.ip("left", "link set eth0 up");
}

fn packet() -> Vec<u8> {
    let [from, to] = ["10.9.0.1:5", "10.9.0.2:9"].map(|end| end.parse().expect(end));
    let packet = PacketBuilder::udp(from, to).payload(b"carried");
    packet.to_vec().expect("short")
}

/// Sends from a host until it is told to stop; counts what it sent.
struct Sender {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Sender {
    fn begin(network: &Network, host: &str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = network.on(host, move || {
            let (mut pools, packet) = (Pools::new(64, 1), packet());
            let mut eth0 = Port::open(config("eth0", Driver::AfPacket)).expect("root may");
            while !over.load(Ordering::Relaxed) {
                for _ in 0..32 {
                    let frame = pools.take_filled(&packet).expect("room");
                    eth0.transmit(frame, &mut pools);
                }
                eth0.flush(&mut pools);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Self { is_over, thread }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic");
    }
}

/// Two ports in the middle.
struct Middle {
    ports: Vec<Port>,
    pools: Pools,
}

impl Middle {
    fn open() -> Self {
        let both =
            ["port0", "port1"].map(|device| (config(device, Driver::AfXdp), Part::default()));
        Self {
            ports: Port::open_together(both.into()).expect("root may"),
            pools: Pools::new(64, 1),
        }
    }

    /// Carries frames from the first port to the second until `is_over` says so of it.
    fn carry(&mut self, is_over: impl Fn(&mut Self) -> bool) -> bool {
        let (end, mut burst) = (Instant::now() + LONG, Vec::new());
        while !is_over(self) {
            if Instant::now() > end {
                return false;
            }
            wait(&self.ports, None, Duration::from_millis(1));
            self.ports[0].receive(&mut self.pools, &mut burst, 64);
            for frame in burst.drain(..) {
                self.ports[1].transmit(frame, &mut self.pools);
            }
            for port in &mut self.ports {
                port.flush(&mut self.pools);
                port.poll_state();
            }
        }
        true
    }

    /// Carries so many more.
    fn carries(&mut self, more: u64) -> bool {
        let wanted = self.ports[1].counters().transmitted_packets + more;
        self.carry(|middle| middle.ports[1].counters().transmitted_packets >= wanted)
    }

    fn sees(&mut self, state: State) -> bool {
        self.carry(|middle| middle.ports[0].state() == state)
    }
}

fn umem(port: &Port) -> SharedUmem {
    Arc::clone(port.part().umem().expect("it is by AF_XDP"))
}

/// All buffers are back but those that so many sockets have to receive into.
fn is_whole(umem: &SharedUmem, sockets: usize) -> bool {
    let (frames, free) = lock(umem).free_of();
    assert_eq!(frames, 4 * CHUNKS);
    free == frames - sockets * CHUNKS
}

fn copied(counters: &PortCounters) -> u64 {
    counters.receive_copied + counters.transmit_copied
}

/// An interface goes down, comes back, is deleted and made anew, always under traffic: no buffer is
/// missing, and nothing is ever copied.
#[test]
fn no_buffer_is_missing_when_an_interface_is_back() {
    if !is_possible() {
        return;
    }
    let network = Arc::new(network());
    let inside = Arc::clone(&network);
    let middle = network.on("middle", move || {
        let mut middle = Middle::open();
        let sender = Sender::begin(&inside, "left");
        assert!(middle.carries(500));
        inside.ip("middle", "link set port1 down");
        let refused = |middle: &mut Middle| middle.ports[1].counters().transmit_refused > 0;
        assert!(middle.carry(|middle| refused(middle) || middle.ports[1].state() == State::Down));
        inside.ip("middle", "link set port1 up");
        assert!(middle.carries(500));
        inside.ip("middle", "link set port0 down");
        assert!(middle.sees(State::Down));
        inside.ip("middle", "link set port0 up");
        assert!(middle.sees(State::Up) && middle.carries(500));
        inside.ip("middle", "link delete port0");
        assert!(middle.sees(State::Down));
        sender.end();
        let umem = umem(&middle.ports[0]);
        assert!(
            middle.carry(|_| is_whole(&umem, 1)),
            "{:?}",
            lock(&umem).free_of()
        );
        cable_again(&inside);
        assert!(middle.sees(State::Up));
        let sender = Sender::begin(&inside, "left");
        assert!(middle.carries(500));
        sender.end();
        assert!(
            middle.carry(|_| is_whole(&umem, 2)),
            "{:?}",
            lock(&umem).free_of()
        );
        for port in &middle.ports {
            assert_eq!(copied(&port.counters()), 0);
            assert_eq!(port.counters().receive_malformed, 0);
        }
    });
    middle.join().expect("no panic");
}

/// A node that keeps all frames gets copies, then none; what it gives back is received into again.
#[test]
fn packets_are_copied_when_few_buffers_are_left() {
    const OWN: usize = 300;
    if !is_possible() {
        return;
    }
    let network = Arc::new(network());
    let inside = Arc::clone(&network);
    let middle = network.on("middle", move || {
        let mut port = Port::open(config("port0", Driver::AfXdp)).expect("root may");
        let (mut pools, mut kept) = (Pools::new(OWN, 1), Vec::new());
        let sender = Sender::begin(&inside, "left");
        let end = Instant::now() + LONG;
        while port.counters().receive_no_buffer < 200 && Instant::now() < end {
            wait(std::slice::from_ref(&port), None, Duration::from_millis(1));
            port.receive(&mut pools, &mut kept, 64);
        }
        let counters = port.counters();
        assert!(counters.receive_no_buffer >= 200, "{counters:?}");
        assert_eq!(counters.receive_copied, OWN as u64);
        let lent = kept.len() - OWN;
        assert!(lent < CHUNKS && lent > CHUNKS / 2, "{lent}");
        let sent = kept.iter().filter(|frame| frame.bytes() == packet());
        assert!(sent.count() > lent);
        kept.drain(..).for_each(|frame| pools.give(frame));
        port.receive(&mut pools, &mut kept, 64);
        sender.end();
        // The kernel may have something to say, too: what came last is not in it yet.
        let umem = umem(&port);
        let mut is_whole = false;
        while !is_whole && Instant::now() < end {
            kept.clear();
            port.receive(&mut pools, &mut kept, 64);
            is_whole = kept.is_empty() && lock(&umem).free_of() == (2 * CHUNKS, CHUNKS);
        }
        assert!(is_whole, "{:?}", lock(&umem).free_of());
        assert_eq!(port.counters().receive_copied, OWN as u64, "no more");
        assert_eq!(pools.small().available(), OWN);
    });
    middle.join().expect("no panic");
}

/// The kernel has what is in no ring of a port that is closed until its queue is another socket's.
#[test]
fn a_port_that_is_opened_again_has_all_buffers() {
    if !is_possible() {
        return;
    }
    let network = network();
    let middle = network.on("middle", move || {
        let interface = Interface::of("port0").expect("it is there");
        let port = Port::open(config("port0", Driver::AfXdp)).expect("root may");
        let (umem, part) = (umem(&port), port.part().clone());
        drop(port);
        assert_eq!(lock(&umem).free_of(), (2 * CHUNKS, CHUNKS), "not yet");
        let open = || super::XdpPort::open(&interface, false, &part);
        let end = Instant::now() + LONG;
        // The kernel lets go of a queue a moment after its socket was closed.
        let again = loop {
            match open() {
                Ok(port) => break port,
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
        };
        assert!(again.is_some());
        assert_eq!(lock(&umem).free_of(), (2 * CHUNKS, CHUNKS));
    });
    middle.join().expect("no panic");
}
