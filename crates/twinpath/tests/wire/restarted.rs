//! A service that begins anew under traffic, whose sockets a service manager keeps meanwhile: the next
//! process goes on where the former one has left off.
//!
//! The manager here does what systemd does with `FileDescriptorStoreMax`: it keeps descriptors that it
//! is sent, and hands them to the next process by their numbers.

use super::middle::{Middle, cut_network, wait_for};
use super::raw::{Injector, Listener};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use twinpath_control::report::Report;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_netns::{Network, has_program, is_possible};

type Kept = Arc<Mutex<Vec<(String, OwnedFd)>>>;

/// Keeps what a service sends it.
struct Manager {
    folder: TempDir,
    kept: Kept,
    is_over: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl Manager {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        let timeout = Some(Duration::from_millis(50));
        socket.set_read_timeout(timeout).expect("possible");
        let (kept, is_over) = (Kept::default(), Arc::new(AtomicBool::new(false)));
        let (keeps, ends) = (Arc::clone(&kept), Arc::clone(&is_over));
        let listening = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                hear(&socket, &keeps);
            }
        });
        Self {
            folder,
            kept,
            is_over,
            listening: Some(listening),
        }
    }

    fn names(&self) -> Vec<String> {
        let kept = self.kept.lock().expect("no panic");
        let mut names: Vec<_> = kept.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// Starts a service, which is handed what is kept.
    fn start_service(&self, network: &Network, service: &str) -> Middle {
        const FIRST: usize = 3;
        let kept = self.kept.lock().expect("no panic");
        let mut script = String::new();
        let mut inherited = Vec::new();
        for (at, (_, descriptor)) in kept.iter().enumerate() {
            // Where none of the numbers is that the service finds them at.
            let copy = fcntl_dupfd_cloexec(descriptor, 200).expect("a copy");
            fcntl_setfd(&copy, FdFlags::empty()).expect("possible");
            let number = copy.as_raw_fd();
            script += &format!("exec {}<&{number} {number}<&-; ", FIRST + at);
            inherited.push(copy);
        }
        script += "export LISTEN_PID=$$; exec \"$@\"";
        let names: Vec<_> = kept.iter().map(|(name, _)| name.as_str()).collect();
        let socket = self.folder.path().join("notify");
        let environment = [
            ("NOTIFY_SOCKET", socket.to_string_lossy().into_owned()),
            ("LISTEN_FDS", kept.len().to_string()),
            ("LISTEN_FDNAMES", names.join(":")),
        ];
        // Whoever is handed nothing hears nothing of it.
        let told = if kept.is_empty() { 1 } else { 3 };
        let launcher = ["bash", "-c", &script, "bash"].map(str::to_owned);
        drop(kept);
        Middle::start_by(network, service, &launcher, &environment[..told])
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.listening.take().map(JoinHandle::join);
    }
}

/// One message of a service.
fn hear(socket: &UnixDatagram, kept: &Kept) {
    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let Ok(received) = recvmsg(socket, &mut parts, &mut beside, flags) else {
        return;
    };
    let text = String::from_utf8_lossy(&bytes[..received.bytes]).into_owned();
    let says = |line: &str| text.lines().any(|one| one == line);
    let name = text.lines().find_map(|line| line.strip_prefix("FDNAME="));
    let mut kept = kept.lock().expect("no panic");
    if says("FDSTOREREMOVE=1") {
        kept.retain(|(other, _)| Some(other.as_str()) != name);
    }
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message
            && says("FDSTORE=1")
        {
            let name = name.expect("it has a name");
            assert!(says("FDPOLL=0"), "{text}");
            kept.extend(descriptors.map(|one| (name.to_owned(), one)));
        }
    }
}

/// Numbered datagrams from the client to the server.
struct Stream {
    sent: JoinHandle<u64>,
    received: JoinHandle<Vec<u64>>,
    count: Arc<AtomicU64>,
    is_sent: Arc<AtomicBool>,
    is_received: Arc<AtomicBool>,
}

const PORT: u16 = 9;

/// Where a stream begins and ends, and how fast it is.
#[derive(Copy, Clone)]
struct StreamEnds {
    /// A host and its interface.
    from: (&'static str, &'static str),
    to: (&'static str, &'static str),
    /// Packets a second: few enough that what arrives while a busy machine starts the service has room.
    rate: u64,
}

/// From host to host.
const CABLES: StreamEnds = StreamEnds {
    from: ("client", "eth0"),
    to: ("server", "eth0"),
    rate: 500,
};

/// From a program beside the service to another, by interfaces of which the kernel keeps 500 packets.
const TAPS: StreamEnds = StreamEnds {
    from: ("middle", "inside"),
    to: ("middle", "outside"),
    rate: 50,
};

impl Stream {
    fn begin(network: &Network, way: StreamEnds) -> Self {
        let [is_sent, is_received] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let count = Arc::new(AtomicU64::new(0));
        let (counts, ends) = (Arc::clone(&count), Arc::clone(&is_received));
        let (host, interface) = way.to;
        let received = network.on(host, move || {
            let (mut listener, mut numbers) = (Listener::open(interface), Vec::new());
            while !ends.load(Ordering::Relaxed) {
                listener.take(|frame| numbers.extend(number(frame)));
                counts.store(numbers.len() as u64, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(500));
            }
            numbers
        });
        let ends = Arc::clone(&is_sent);
        let (host, interface) = way.from;
        let sent = network.on(host, move || send(interface, way.rate, &ends));
        Self {
            sent,
            received,
            count,
            is_sent,
            is_received,
        }
    }

    /// Waits until so many more have arrived.
    fn goes_on(&self, more: u64) -> bool {
        let enough = self.count.load(Ordering::Relaxed) + more;
        wait_for(|| self.count.load(Ordering::Relaxed) >= enough)
    }

    /// Which of how many arrived, in their order.
    fn end(self) -> (u64, Vec<u64>) {
        self.is_sent.store(true, Ordering::Relaxed);
        let sent = self.sent.join().expect("no panic");
        // What is lost never comes.
        let end = Instant::now() + Duration::from_secs(3);
        while self.count.load(Ordering::Relaxed) < sent && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.is_received.store(true, Ordering::Relaxed);
        (sent, self.received.join().expect("no panic"))
    }
}

fn send(interface: &str, rate: u64, is_over: &AtomicBool) -> u64 {
    let [from, to] =
        [(1, 4000), (2, PORT)].map(|(host, port)| Endpoint::v4([10, 9, 0, host], port));
    let (mut injector, mut number) = (Injector::open(interface), 0u64);
    while !is_over.load(Ordering::Relaxed) {
        let end = Instant::now() + Duration::from_millis(100);
        injector.send_at(rate, end, || {
            let payload = number.to_be_bytes();
            number += 1;
            let packet = PacketBuilder::udp(from, to).payload(&payload);
            packet.to_vec().expect("a packet")
        });
    }
    number
}

/// The number of a datagram, if it is one of them.
fn number(frame: &[u8]) -> Option<u64> {
    let layout = dissect(frame).ok()?;
    let payload = fields::payload(frame, &layout);
    let is_ours = frame.get(36..38)? == PORT.to_be_bytes() && frame.get(23) == Some(&17);
    let bytes = payload.first_chunk().filter(|_| is_ours)?;
    Some(u64::from_be_bytes(*bytes))
}

fn service(driver: &str, shards: u16) -> String {
    format!(
        "[service]\nname = \"bump\"\nchain = [\"firewall\"]\nunparsed = \"forward\"\n\
         inside = [\"10.9.0.1\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n[run]\nshards = {shards}\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"{driver}\" }}\n\
         outside = {{ device = \"outside\", driver = \"{driver}\" }}\n\
         [firewall]\ndefault = \"allow\"\n"
    )
}

fn can_run() -> bool {
    is_possible() && has_program("bash", "bash")
}

/// Not a packet is lost, doubled or out of its order while one process ends and the next begins.
#[test]
fn a_restart_costs_no_packet() {
    if !can_run() {
        return;
    }
    for (driver, shards) in [("af_packet", 1), ("af_packet", 2), ("af_xdp", 1)] {
        let what = format!("{driver}, {shards} shards");
        let text = service(driver, shards);
        drop(restarts_lose_nothing(&what, &cut_network(), &text, CABLES));
    }
}

/// The same of interfaces that the service has made: they stay while nobody is there, with what
/// programs have sent to them.
#[test]
fn a_restart_costs_no_packet_of_programs_on_this_host() {
    if !can_run() {
        return;
    }
    let mut network = Network::new();
    network.host("middle");
    drop(restarts_lose_nothing(
        "tap",
        &network,
        &service("tap", 1),
        TAPS,
    ));
}

/// Returns what the last process tells.
fn restarts_lose_nothing(what: &str, network: &Network, text: &str, way: StreamEnds) -> Report {
    let manager = Manager::start();
    let mut middle = manager.start_service(network, text);
    let names = manager.names();
    assert!(names.len() >= 2, "{what}: {names:?}");
    for (host, interface) in [way.from, way.to] {
        network.ip(host, &format!("link set {interface} up"));
    }
    let stream = Stream::begin(network, way);
    let some = way.rate / 5;
    assert!(stream.goes_on(some), "{what}");
    for _ in 0..3 {
        assert!(middle.stopped().status.success(), "{what}");
        std::thread::sleep(Duration::from_millis(100));
        middle = manager.start_service(network, text);
        assert!(stream.goes_on(some), "{what}");
        assert_eq!(manager.names(), names, "{what}: kept once");
    }
    let (sent, numbers) = stream.end();
    let gaps = missing(&numbers);
    assert_eq!(numbers.len() as u64, sent, "{what}: {gaps:?}");
    assert!(numbers.is_sorted(), "{what}: out of order");
    middle.stop()
}

/// A gateway that asks for its neighbours knows them when it begins anew: none of the packets that have
/// waited in the sockets waits for an answer, of which most would be too many.
#[test]
fn neighbors_outlive_a_process() {
    if !can_run() {
        return;
    }
    for (driver, shards) in [("af_packet", 1), ("af_packet", 2), ("af_xdp", 1)] {
        let network = cut_network();
        // Packets are for the gateway.
        network.ip("middle", "link set inside address 02:00:00:00:00:02");
        let text = format!(
            "[service]\nname = \"gateway\"\nchain = [\"router\"]\n[run]\nshards = {shards}\n\
             [ports]\ninside = {{ device = \"inside\", driver = \"{driver}\", addresses = [\"10.9.0.253/24\"] }}\n\
             outside = {{ device = \"outside\", driver = \"{driver}\", addresses = [\"10.9.0.254/24\"] }}\n\
             [router]\naddress = \"10.9.0.254\"\n\
             next_hops = [{{ name = \"in\", port = \"inside\" }}, {{ name = \"out\", port = \"outside\" }}]\n\
             routes = [{{ to = \"10.9.0.1/32\", via = \"in\" }}, {{ to = \"10.9.0.2/32\", via = \"out\" }}]\n"
        );
        let what = format!("{driver}, {shards} shards");
        let report = restarts_lose_nothing(&what, &network, &text, CABLES);
        let neighbors = report.neighbors.expect("it has addresses");
        assert_eq!((neighbors.waited, neighbors.lost()), (0, 0), "{what}");
    }
}

/// Where numbers are missing: the ones around each gap.
fn missing(numbers: &[u64]) -> Vec<(u64, u64)> {
    let pairs = numbers.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.filter(|(one, next)| one + 1 != *next).collect()
}

/// A process that is killed takes along what was inside of it; what waited in the sockets comes.
#[test]
fn a_killed_process_costs_what_was_inside() {
    if !can_run() {
        return;
    }
    for driver in super::DRIVERS {
        let (network, manager) = (cut_network(), Manager::start());
        let text = service(driver, 1);
        let middle = manager.start_service(&network, &text);
        let stream = Stream::begin(&network, CABLES);
        assert!(stream.goes_on(100), "{driver}");
        middle.kill();
        std::thread::sleep(Duration::from_millis(200));
        let middle = manager.start_service(&network, &text);
        assert!(stream.goes_on(100), "{driver}");
        let (sent, numbers) = stream.end();
        let lost = sent - numbers.len() as u64;
        // A burst at most: far less than came in the time that nobody was there.
        assert!(lost <= 64, "{driver}: {lost} {:?}", missing(&numbers));
        assert!(numbers.is_sorted(), "{driver}: out of order");
        drop(middle.stop());
    }
}

/// Sockets of another service are given up, and its interfaces are free.
#[test]
fn what_another_service_does_not_take_is_given_up() {
    if !can_run() {
        return;
    }
    let (network, manager) = (cut_network(), Manager::start());
    let mut before: Vec<String> = Vec::new();
    for (driver, shards) in [
        ("af_xdp", 1),
        ("af_packet", 1),
        ("af_packet", 2),
        ("af_xdp", 1),
    ] {
        let middle = manager.start_service(&network, &service(driver, shards));
        let names = manager.names();
        assert!(names.iter().all(|name| !before.contains(name)), "{names:?}");
        let stream = Stream::begin(&network, CABLES);
        assert!(stream.goes_on(50), "{driver} {shards}");
        stream.end();
        drop(middle.stop());
        before = names;
    }
}

/// Nobody keeps anything: what comes meanwhile is lost, as the other tests would see.
#[test]
fn a_restart_without_a_manager_loses_packets() {
    if !can_run() {
        return;
    }
    let (network, text) = (cut_network(), service("af_packet", 1));
    let middle = Middle::start(&network, &text);
    let stream = Stream::begin(&network, CABLES);
    assert!(stream.goes_on(100));
    drop(middle.stop());
    std::thread::sleep(Duration::from_millis(100));
    let middle = Middle::start(&network, &text);
    assert!(stream.goes_on(100));
    let (sent, numbers) = stream.end();
    assert!(sent > numbers.len() as u64 + 10, "{sent}");
    drop(middle.stop());
}
