//! Ports as a cable: what hosts send to each other arrives, over every driver, with the offloads that
//! interfaces have by default.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use twinpath_core::Pools;
use twinpath_core::wire::{MacAddress, PacketBuilder, dissect, fields};
use twinpath_netns::{Network, is_possible};
use twinpath_ports::interface::Interface;
use twinpath_ports::{Driver, Flood, Part, Port, PortConfig, PortCounters, State, wait};

/// Two hosts, and one between them with a port to each.
mod away;

fn network() -> Network {
    let mut network = Network::new();
    for (host, port, last) in [("left", "port0", 1), ("right", "port1", 2)] {
        network.cable(&format!("middle {port}"), &format!("{host} eth0"));
        network.address(host, "eth0", &format!("10.9.0.{last}/24"));
        network.address(host, "eth0", &format!("fd09::{last}/64"));
    }
    network
}

/// Sends what comes in at either port out of the other until it is stopped.
struct Forwarder {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<Observed>,
}

#[derive(Default)]
struct Observed {
    counters: [PortCounters; 2],
    states: Vec<(usize, State)>,
    /// The longest frame.
    longest: usize,
}

fn port(device: &str, driver: Driver) -> Port {
    let device = device.to_owned();
    let is_shared = false;
    Port::open(PortConfig {
        device,
        driver,
        is_shared,
    })
    .expect("root may open it")
}

/// Both ports, opened together or one after the other.
fn ports(drivers: [Driver; 2], is_together: bool) -> [Port; 2] {
    let devices = ["port0", "port1"];
    if !is_together {
        return std::array::from_fn(|number| port(devices[number], drivers[number]));
    }
    let config = |(device, driver)| {
        let config = PortConfig {
            device: str::to_owned(device),
            driver,
            is_shared: false,
        };
        (config, Part::default())
    };
    let configs = devices.into_iter().zip(drivers).map(config).collect();
    let ports = Port::open_together(configs).expect("root may open them");
    ports
        .try_into()
        .unwrap_or_else(|_| panic!("as many as were asked for"))
}

fn forwarder(network: &Network, drivers: [Driver; 2]) -> Forwarder {
    forwarder_of(network, drivers, true)
}

fn forwarder_of(network: &Network, drivers: [Driver; 2], is_together: bool) -> Forwarder {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&is_stopped);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let thread = network.on("middle", move || {
        let mut ports = ports(drivers, is_together);
        ready.send(()).expect("somebody waits");
        forward(&mut ports, &stopped)
    });
    is_ready.recv().expect("ports are open");
    Forwarder { is_stopped, thread }
}

fn forward(ports: &mut [Port; 2], is_stopped: &AtomicBool) -> Observed {
    let mut pools = Pools::new(8192, 256);
    let (mut seen, mut burst) = (Observed::default(), Vec::new());
    let mut next_look = Instant::now();
    while !is_stopped.load(Ordering::Relaxed) {
        for from in 0..2 {
            ports[from].receive(&mut pools, &mut burst, 64);
            for frame in burst.drain(..) {
                seen.longest = seen.longest.max(frame.len());
                ports[1 - from].transmit(frame, &mut pools);
            }
            ports[1 - from].flush(&mut pools);
        }
        wait(&ports[..], None, Duration::from_millis(1));
        if Instant::now() > next_look {
            next_look = Instant::now() + Duration::from_millis(20);
            for (number, port) in ports.iter_mut().enumerate() {
                seen.states
                    .extend(port.poll_state().map(|state| (number, state)));
            }
        }
    }
    seen.counters = [ports[0].counters(), ports[1].counters()];
    seen
}

impl Forwarder {
    fn stop(self) -> Observed {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

const BYTES: usize = 8 << 20;

fn content(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

/// A host takes a connection and sends back what comes; the other compares.
fn exchange(network: &Network, server: &'static str) {
    let address: SocketAddr = server.parse().expect("an address");
    let (ready, is_ready) = std::sync::mpsc::channel();
    let host = network.on("right", move || {
        let listener = TcpListener::bind(address).expect("its own address");
        ready.send(()).expect("somebody waits");
        let (mut client, _) = listener.accept().expect("a connection");
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).expect("all of it");
        client.write_all(&bytes).expect("back");
    });
    is_ready.recv().expect("it listens");
    let other = network.on("left", move || {
        let timeout = Duration::from_secs(20);
        let mut stream = TcpStream::connect_timeout(&address, timeout).expect("the cable works");
        stream.set_read_timeout(Some(timeout)).expect("a time-out");
        let sent = content(BYTES);
        stream.write_all(&sent).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("open");
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("all of it");
        assert!(
            back == sent,
            "{} bytes came back of {}",
            back.len(),
            sent.len()
        );
    });
    other.join().expect("same bytes");
    host.join().expect("served");
}

/// Datagrams of many sizes, fragmented ones too, go there and back.
fn datagrams(network: &Network, left: &'static str, right: &'static str) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let sizes = [0, 1, 17, 18, 46, 47, 1000, 1472, 1473, 4000];
    let host = network.on("right", move || {
        let socket = UdpSocket::bind(right).expect("its own address");
        ready.send(()).expect("somebody waits");
        let mut buffer = [0; 9000];
        for _ in sizes {
            let (len, from) = socket.recv_from(&mut buffer).expect("a datagram");
            socket.send_to(&buffer[..len], from).expect("sent");
        }
    });
    is_ready.recv().expect("it is bound");
    let other = network.on("left", move || {
        let socket = UdpSocket::bind(left).expect("its own address");
        let timeout = Some(Duration::from_secs(10));
        socket.set_read_timeout(timeout).expect("a time-out");
        let mut buffer = [0; 9000];
        for size in sizes {
            let sent = content(size);
            socket.send_to(&sent, right).expect("sent");
            let len = socket.recv(&mut buffer).expect("an answer");
            assert!(buffer[..len] == sent[..], "{size} bytes");
        }
    });
    other.join().expect("same bytes");
    host.join().expect("served");
}

fn works(drivers: [Driver; 2]) -> Observed {
    works_with(drivers, true)
}

fn works_with(drivers: [Driver; 2], is_together: bool) -> Observed {
    let network = network();
    let forwarder = forwarder_of(&network, drivers, is_together);
    exchange(&network, "10.9.0.2:5001");
    exchange(&network, "[fd09::2]:5001");
    datagrams(&network, "10.9.0.1:4000", "10.9.0.2:4000");
    datagrams(&network, "[fd09::1]:4000", "[fd09::2]:4000");
    let seen = forwarder.stop();
    for counters in &seen.counters {
        assert!(counters.received_bytes > 2 * BYTES as u64, "{counters:?}");
        assert!(
            counters.transmitted_bytes > 2 * BYTES as u64,
            "{counters:?}"
        );
        assert_eq!(counters.receive_malformed, 0, "{counters:?}");
        assert_eq!(counters.transmit_too_long, 0, "{counters:?}");
        assert_eq!(counters.outages, 0, "{counters:?}");
    }
    seen
}

#[test]
fn af_packet_carries_long_frames_whole() {
    if is_possible() {
        let seen = works([Driver::AfPacket; 2]);
        assert!(seen.longest > 10_000, "{}", seen.longest);
    }
}

#[test]
fn af_xdp_carries_everything() {
    if is_possible() {
        let seen = works([Driver::AfXdp; 2]);
        assert!(seen.longest < 1600, "{}", seen.longest);
    }
}

/// Between AF_XDP ports that were opened together a frame leaves as it came; else it is copied once.
#[test]
fn af_xdp_ports_that_are_opened_together_copy_nothing() {
    if !is_possible() {
        return;
    }
    for is_together in [true, false] {
        let seen = works_with([Driver::AfXdp; 2], is_together);
        for counters in &seen.counters {
            let copied = match is_together {
                true => 0,
                false => counters.transmitted_packets,
            };
            assert_eq!(counters.receive_copied, 0, "{counters:?}");
            assert_eq!(counters.transmit_copied, copied, "{counters:?}");
        }
    }
}

#[test]
fn long_frames_are_cut_between_two_kinds_of_port() {
    if is_possible() {
        works([Driver::AfPacket, Driver::AfXdp]);
    }
}

/// The kernel takes tags off what it hands to AF_PACKET; they are back in the frame.
#[test]
fn tags_stay() {
    if !is_possible() {
        return;
    }
    for driver in [Driver::AfPacket, Driver::AfXdp] {
        let network = network();
        let forwarder = forwarder(&network, [driver; 2]);
        let end = |text: &str| text.parse().expect("an endpoint");
        let tagged = PacketBuilder::udp(end("10.9.7.1:5"), end("10.9.7.2:6"))
            .vlan(7)
            .payload(b"tagged")
            .to_vec()
            .expect("short");
        let sent = tagged.clone();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let host = network.on("right", move || {
            let mut eth0 = port("eth0", Driver::AfPacket);
            ready.send(()).expect("somebody waits");
            received(&mut eth0, &tagged)
        });
        is_ready.recv().expect("its port is open");
        let other = network.on("left", move || {
            let mut pools = Pools::new(64, 1);
            let mut eth0 = port("eth0", Driver::AfPacket);
            eth0.transmit(pools.take_filled(&sent).expect("room"), &mut pools);
            eth0.flush(&mut pools);
            eth0.counters().transmitted_packets
        });
        assert_eq!(other.join().expect("sent"), 1);
        assert!(host.join().expect("received"), "{driver:?}");
        forwarder.stop();
    }
}

/// Whether a frame arrives within ten seconds.
fn received(port: &mut Port, wanted: &[u8]) -> bool {
    let mut pools = Pools::new(256, 1);
    let mut burst = Vec::new();
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        wait(std::slice::from_ref(port), None, Duration::from_millis(10));
        port.receive(&mut pools, &mut burst, 64);
        if burst.drain(..).any(|frame| frame.bytes() == wanted) {
            return true;
        }
    }
    false
}

/// An interface goes down, comes back, is deleted and made anew: the port is told, and works again.
#[test]
fn an_interface_that_is_not_there_is_told_with_its_name() {
    let device = "no-such-if".to_owned();
    let opened = Port::open(PortConfig {
        device,
        driver: Driver::Auto,
        is_shared: false,
    });
    let error = opened.err().expect("there is none").to_string();
    assert!(error.contains("interface no-such-if"), "{error}");
}

/// So many parts of the port, which share its interface with others or not.
fn parts_of_port0(many: u16, is_shared: bool) -> Vec<Port> {
    let open = |part| {
        let config = PortConfig {
            device: "port0".into(),
            driver: Driver::AfPacket,
            is_shared,
        };
        Port::open_part(config, part).expect("root may open it")
    };
    Part::all(many).into_iter().map(open).collect()
}

/// All packets between two hosts come to one part, in both directions, and each packet to one only;
/// the parts of a port are as good as the port when its interface comes back.
#[test]
fn parts_divide_what_comes_by_hosts() {
    if !is_possible() {
        return;
    }
    const PARTS: u16 = 3;
    const HOSTS: u8 = 60;
    let network = network();
    for round in 0..2 {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let middle = network.on("middle", move || {
            let mut parts = parts_of_port0(PARTS, false);
            assert!(
                parts
                    .iter()
                    .enumerate()
                    .all(|(number, part)| part.owner() == number as u16)
            );
            ready.send(()).expect("somebody waits");
            received_by_parts(&mut parts, usize::from(HOSTS) * 6)
        });
        is_ready.recv().expect("its ports are open");
        let sender = network.on("left", || {
            let mut pools = Pools::new(1024, 1);
            let mut eth0 = port("eth0", Driver::AfPacket);
            for frame in frames_of(HOSTS) {
                eth0.transmit(pools.take_filled(&frame).expect("room"), &mut pools);
                eth0.flush(&mut pools);
            }
        });
        sender.join().expect("sent");
        let parts = middle.join().expect("received");
        assert!(parts.iter().all(|part| !part.is_empty()), "{parts:?}");
        for host in (0..HOSTS).flat_map(|host| [(4, host), (6, host)]) {
            let having = parts.iter().filter(|part| part.contains_key(&host));
            let counts: Vec<_> = having.map(|part| part[&host]).collect();
            assert_eq!(counts, [3], "round {round}, host {host:?}");
        }
        network.ip("middle", "link set port0 down");
        network.ip("middle", "link set port0 up");
    }
}

/// Of each host, over both versions: a packet to another, one back, and a later fragment.
fn frames_of(hosts: u8) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for host in 0..hosts {
        for (from, to) in [
            (format!("10.1.{host}.7:{host}"), "192.0.2.1:9"),
            (format!("[fd09::{host:x}:7]:{host}"), "[2001:db8::1]:9"),
        ] {
            let (from, to) = (from.parse().expect("one"), to.parse().expect("one"));
            let payload = [host];
            let there = PacketBuilder::udp(from, to).payload(&payload);
            frames.push(there.to_vec().expect("short"));
            let later = there.fragment(64, false);
            frames.push(later.to_vec().expect("short"));
            let back = PacketBuilder::udp(to, from).payload(&payload);
            frames.push(back.to_vec().expect("short"));
        }
    }
    frames
}

/// A version of IP, and a host's number.
type Host = (u8, u8);

/// How many frames each part has received of each host, until there are so many in all.
fn received_by_parts(parts: &mut [Port], wanted: usize) -> Vec<BTreeMap<Host, usize>> {
    let mut pools = Pools::new(1024, 1);
    let mut seen = vec![BTreeMap::new(); parts.len()];
    let (mut count, mut burst) = (0, Vec::new());
    let end = Instant::now() + Duration::from_secs(20);
    while count < wanted && Instant::now() < end {
        wait(parts, None, Duration::from_millis(10));
        for (part, seen) in parts.iter_mut().zip(&mut seen) {
            part.receive(&mut pools, &mut burst, 64);
            for frame in burst.drain(..) {
                let bytes = frame.bytes();
                let host = match bytes[12..14] {
                    [0x08, 0x00] if bytes[26] == 10 => (4, bytes[28]),
                    [0x08, 0x00] if bytes[30] == 10 => (4, bytes[32]),
                    [0x86, 0xdd] if bytes[22..24] == [0xfd, 0x09] => (6, bytes[35]),
                    [0x86, 0xdd] if bytes[38..40] == [0xfd, 0x09] => (6, bytes[51]),
                    _ => continue,
                };
                *seen.entry(host).or_insert(0) += 1;
                count += 1;
                pools.give(frame);
            }
        }
    }
    seen
}

/// What the host itself sends out of an interface is not taken for something that came in, however many
/// parts its port has.
#[test]
fn what_the_host_sends_itself_does_not_come_in() {
    if !is_possible() {
        return;
    }
    let network = network();
    network.address("middle", "port0", "10.9.0.9/24");
    for many in [1, 3] {
        let seen = network.on("middle", move || {
            let mut parts = parts_of_port0(many, true);
            let own = parts[0].interface().mac;
            let sender = UdpSocket::bind("10.9.0.9:0").expect("its address");
            let (mut pools, mut burst) = (Pools::new(1024, 1), Vec::new());
            let (mut others, mut owns) = (0, 0);
            let end = Instant::now() + Duration::from_secs(20);
            // Nobody listens there: each datagram is answered by ICMP.
            while others < 3 && Instant::now() < end {
                let _ = sender.send_to(b"anything", "10.9.0.1:9");
                wait(&parts, None, Duration::from_millis(10));
                for part in &mut parts {
                    part.receive(&mut pools, &mut burst, 64);
                }
                for frame in burst.drain(..) {
                    *match frame.bytes()[6..12] == own {
                        true => &mut owns,
                        false => &mut others,
                    } += 1;
                    pools.give(frame);
                }
            }
            (others, owns)
        });
        let (others, owns) = seen.join().expect("received");
        assert!(others >= 3, "{many} parts: {others}");
        assert_eq!(owns, 0, "{many} parts");
    }
}

/// What lies in a port's socket when it stops receiving is counted, and nothing comes in behind it.
#[test]
fn what_nobody_has_read_is_counted() {
    const FRAMES: usize = 300;
    if !is_possible() {
        return;
    }
    for driver in [Driver::AfPacket, Driver::AfXdp] {
        let network = network();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (sent, are_sent) = std::sync::mpsc::channel();
        let middle = network.on("middle", move || {
            let mut port = port("port0", driver);
            ready.send(()).expect("somebody waits");
            are_sent.recv().expect("they are sent");
            let (mut pools, mut burst) = (Pools::new(1024, 1), Vec::new());
            port.receive(&mut pools, &mut burst, 64);
            port.stop_receiving();
            ready.send(()).expect("somebody waits");
            are_sent.recv().expect("more are sent");
            let counted = port.counters();
            let mut left = Vec::new();
            while left.len() < 2 * FRAMES {
                let before = left.len();
                port.receive(&mut pools, &mut left, 64);
                if left.len() == before {
                    break;
                }
            }
            (counted, left.len() as u64)
        });
        for _ in 0..2 {
            is_ready.recv().expect("the port is open");
            let sending = network.on("left", || send_many(FRAMES));
            sending.join().expect("sent");
            sent.send(()).expect("somebody waits");
        }
        let (counted, left) = middle.join().expect("no panic");
        assert_eq!(counted.received_packets, 64, "{driver:?}: {counted:?}");
        assert!(counted.receive_unread >= FRAMES as u64 - 64, "{counted:?}");
        assert_eq!(counted.lost(), counted.receive_unread, "{counted:?}");
        if driver == Driver::AfPacket {
            // AF_XDP's ring takes more until it is closed.
            assert_eq!(left, counted.receive_unread);
        }
    }
}

/// So many frames from the host that the thread is on.
fn send_many(count: usize) {
    let (from, to) = ("10.9.0.1:1", "10.9.0.2:9");
    let packet = PacketBuilder::udp(from.parse().expect(from), to.parse().expect(to));
    send(&packet.payload_len(18).to_vec().expect("a packet"), count);
}

/// A frame so many times.
fn send(frame: &[u8], count: usize) {
    let (mut eth0, mut pools) = (port("eth0", Driver::AfPacket), Pools::new(64, 0));
    for _ in 0..count {
        eth0.transmit(pools.take_filled(frame).expect("room"), &mut pools);
        eth0.flush(&mut pools);
    }
}

/// A card, and a macvlan as well, keeps frames back that are for groups which nobody has joined, unless it
/// is asked for everything.
#[test]
fn frames_for_others_come() {
    if !is_possible() {
        return;
    }
    let network = network();
    network.ip(
        "middle",
        "link add link port0 name card type macvlan mode bridge",
    );
    network.ip("middle", "link set card up");
    let group = MacAddress([0x33, 0x33, 0xff, 0, 0, 1]);
    for driver in [Driver::AfPacket, Driver::AfXdp] {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let taking = network.on("middle", move || {
            let mut port = port("card", driver);
            ready.send(()).expect("somebody waits");
            hears(&mut port, group)
        });
        is_ready.recv().expect("the port is open");
        speak_until(&network, group, || taking.is_finished());
        assert!(taking.join().expect("no panic"), "{driver:?}");
    }
}

/// Sends frames for a station, one after the other, until somebody has heard enough.
fn speak_until(network: &Network, station: MacAddress, is_over: impl Fn() -> bool) {
    while !is_over() {
        let sending = network.on("left", move || {
            let ends = ["10.9.0.1:1", "10.9.0.2:9"].map(|end| end.parse().expect(end));
            let packet = PacketBuilder::udp(ends[0], ends[1]).macs(MacAddress([2; 6]), station);
            send(&packet.to_vec().expect("a packet"), 1);
        });
        sending.join().expect("sent");
    }
}

/// Whether a frame for a station comes, of those that others go on to send.
fn hears(port: &mut Port, station: MacAddress) -> bool {
    let (mut pools, mut burst) = (Pools::new(1024, 0), Vec::new());
    let end = Instant::now() + Duration::from_secs(5);
    let mut is_heard = false;
    while !is_heard && Instant::now() < end {
        wait(std::slice::from_ref(port), None, Duration::from_millis(10));
        port.receive(&mut pools, &mut burst, 64);
        for frame in burst.drain(..) {
            is_heard |= frame.bytes().starts_with(&station.0);
            pools.give(frame);
        }
    }
    is_heard
}

/// Frames that the kernel makes are those that were asked for, each of some flow.
#[test]
fn a_flood_is_of_many_flows() {
    const FRAMES: u32 = 128;
    if !is_possible() {
        return;
    }
    let network = network();
    let (from, to) = ("10.9.0.1:0", "10.9.0.2:0");
    let packet = PacketBuilder::udp(from.parse().expect(from), to.parse().expect(to));
    let frame = packet.payload_len(18).to_vec().expect("a packet");
    let (ready, is_ready) = std::sync::mpsc::channel();
    let taking = network.on("middle", move || {
        let mut port = port("port0", Driver::AfXdp);
        let (mut pools, mut burst) = (Pools::new(1024, 0), Vec::new());
        ready.send(()).expect("somebody waits");
        let end = Instant::now() + Duration::from_secs(20);
        let mut sources = std::collections::BTreeSet::new();
        let mut count = 0;
        while count < FRAMES && Instant::now() < end {
            wait(std::slice::from_ref(&port), None, Duration::from_millis(10));
            port.receive(&mut pools, &mut burst, 64);
            for frame in burst.drain(..) {
                let layout = dissect(frame.bytes()).expect("sound");
                if fields::destination(frame.bytes(), &layout).port == 9 {
                    sources.insert(fields::source(frame.bytes(), &layout).port);
                    count += 1;
                }
                pools.give(frame);
            }
        }
        (count, sources)
    });
    is_ready.recv().expect("the port is open");
    let sending = network.on("left", move || {
        let interface = Interface::of("eth0").expect("it is there");
        let mut flood = Flood::new(interface.index, &frame).expect("root may");
        (0..2).for_each(|_| flood.send(FRAMES / 2).expect("it is up"));
    });
    sending.join().expect("no panic");
    let (count, sources) = taking.join().expect("no panic");
    assert_eq!(count, FRAMES);
    assert!(sources.len() > 64 && sources.iter().all(|port| (0x1000..0x2000).contains(port)));
    assert!(Flood::new(1, &[0; 20]).is_err(), "it has no headers");
}
