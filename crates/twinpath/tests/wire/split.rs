//! Payloads wait on two memory servers while a file crosses the service between: it comes as it was,
//! also while one of the servers is killed and started again.

use super::memory_server::{Server as MemoryServer, tshark};
use super::middle::{Middle, cut_network, wait_for};
use super::programs::{Server, WebServer, begin_fetch, succeed, succeeds_soon};
use std::path::Path;
use twinpath_control::report::{MemoryServerFigures, SplitFigures, json};
use twinpath_core::wire::dissect;
use twinpath_core::wire::roce::{RoceMalformed, RocePacket};
use twinpath_io::{CaptureReader, Next};
use twinpath_netns::{Network, has_program, is_possible};

/// Hosts beside the first client that may send.
const HOSTS: std::ops::Range<u8> = 32..40;

/// What a run with these many shards is like, and what is said of the first server beside the rest.
fn service_with(shards: u16, of_first: &str) -> String {
    service_of(shards, &(server(1) + of_first + &server(2)))
}

/// A memory server with this number, at an interface that is called after it.
pub fn server(number: u8) -> String {
    server_from(number, "169.254.0.1/16")
}

/// The same, from this address.
fn server_from(number: u8, own_address: &str) -> String {
    format!(
        "[[split.servers]]\nname = \"memory-{number}\"\nnumber = {number}\ndevice = \"memory{number}\"\n\
             driver = \"af_packet\"\nown_address = \"{own_address}\"\n"
    )
}

/// A firewall between cables whose payloads wait on servers.
pub fn service_of(shards: u16, servers: &str) -> String {
    format!(
        "[service]\nname = \"split\"\nchain = [\"firewall\"]\nunparsed = \"forward\"\n\
         inside = [\"10.9.0.1\", \"10.9.0.32/29\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n\
         [run]\npaths = \"slow\"\nshards = {shards}\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"af_xdp\" }}\n\
         outside = {{ device = \"outside\", driver = \"af_xdp\" }}\n\
         [firewall]\ndefault = \"deny\"\nrules = [\n\
         {{ action = \"allow\", from = \"10.9.0.1\" }},\n\
         {{ action = \"allow\", from = \"10.9.0.32/29\" }},\n{{ action = \"allow\", from = \"fd09::1\" }},\n\
         {{ action = \"allow\", protocol = \"icmp6\" }},\n]\n\
         [split]\nqueue_pairs = 4\nread_timeout = \"500ms\"\n{servers}"
    )
}

fn service(shards: u16) -> String {
    service_with(shards, "")
}

/// The middle, and a cable to each memory server that carries longer packets than the others.
fn network() -> Network {
    let mut network = cut_network();
    for number in [1, 2] {
        let (port, host) = (format!("memory{number}"), format!("memory-{number}"));
        network.cable(&format!("middle {port}"), &format!("{host} eth0"));
        network.ip("middle", &format!("link set {port} mtu 2000"));
        network.ip(&host, "link set eth0 mtu 2000");
    }
    network
}

/// Packets of the cable to a server that are looked at.
const RECORDED: usize = 3000;

/// Records what the service exchanges with a server, if there are programs for it.
fn record(network: &Network, interface: &str, capture: &Path) -> Option<Server> {
    let is_there = has_program("tcpdump", "tcpdump") && has_program("tshark", "tshark");
    is_there.then(|| {
        let (count, file) = (RECORDED.to_string(), capture.to_string_lossy());
        let arguments = ["-i", interface, "-Z", "root", "-c", &count, "-w", &file];
        Server::start(network, "middle", "tcpdump", &arguments)
    })
}

/// What was recorded is RoCE to tshark, but for a few announcements, and nothing of it is malformed. Its ICRCs,
/// which tshark does not look at, hold.
fn assert_is_roce(capture: &Path, ip: &str) {
    let roce = tshark(capture, &format!("infiniband && {ip}"));
    assert!(roce > RECORDED * 9 / 10, "{roce}");
    let bad = tshark(capture, "_ws.malformed || _ws.unreassembled || icmp");
    assert_eq!(bad, 0);
    let mut reader = CaptureReader::open(capture).expect("a capture");
    let (mut sound, mut buffer) = (0, vec![0; 1 << 16]);
    while let Next::Frame(record) = reader.next_into(&mut buffer).expect("sound") {
        let frame = &buffer[..record.captured_len];
        match dissect(frame).map(|layout| RocePacket::read(frame, &layout)) {
            Ok(Ok(_)) => sound += 1,
            Ok(Err(RoceMalformed::NotRoce)) | Err(_) => {}
            Ok(Err(why)) => panic!("{why}"),
        }
    }
    assert_eq!(sound, roce);
}

/// What the service tells of its memory servers, if it answers.
fn told(middle: &Middle) -> Option<SplitFigures> {
    let said = middle.asked(&["top", "--once", "--json"])?;
    json::from_text(&said).ok()?.split
}

/// Whether so many servers take payloads, as figures say.
pub fn are_up(middle: &Middle, servers: usize) -> bool {
    told(middle).is_some_and(|split| split.servers_up() == servers)
}

/// How many payloads have gone to the first server.
fn written(middle: &Middle) -> u64 {
    let split = told(middle).expect("it answers, with [split]");
    split.servers[0].counter("writes")
}

#[test]
fn a_file_crosses_while_its_payloads_wait_on_servers() {
    if !is_possible() || !has_program("curl", "curl") || !has_program("nginx", "nginx") {
        return;
    }
    let network = network();
    let first = MemoryServer::start(&network, "memory-1", 1);
    // RoCE goes over IPv4 to one, and over IPv6 to the other.
    let command = network.command("memory-2", env!("CARGO_BIN_EXE_twinpath"));
    let second = MemoryServer::start_by(command, "eth0", 2, &["--address", "fd0a::2"]);
    let servers = server(1) + &server_from(2, "fd0a::1/64");
    let middle = Middle::start(&network, &service_of(1, &servers));
    let ping = ["-c1", "-W1", "10.9.0.2"];
    assert!(succeeds_soon(&network, "client", "ping", &ping));
    let web = WebServer::start(&network, "server");
    assert!(wait_for(|| are_up(&middle, 2)), "both servers are there");
    let folder = tempfile::tempdir().expect("a folder");
    let cables = [("memory1", "ip"), ("memory2", "ipv6")];
    let recorders = cables.map(|(interface, ip)| {
        let capture = folder.path().join(interface);
        let recorder = record(&network, interface, &capture);
        (recorder, capture, ip)
    });
    web.is_fetched(&network, "client", "10.9.0.2");
    // One dies while the next file is under way, and comes back.
    let download = begin_fetch(&network, "client", "[fd09::2]", "20M");
    assert!(wait_for(|| download.len() > 1 << 20));
    drop(first);
    download.comes_whole();
    // Whose flows have their payloads on the other one notices nothing: it takes some of its own.
    let is_noticed = || {
        web.is_fetched(&network, "client", "10.9.0.2");
        are_up(&middle, 1)
    };
    assert!(wait_for(is_noticed), "it is noticed");
    let first = MemoryServer::start(&network, "memory-1", 1);
    assert!(wait_for(|| are_up(&middle, 2)), "it is there again");
    // Which server a connection's payloads go to is drawn.
    let before = written(&middle);
    let is_used = || {
        web.is_fetched(&network, "client", "10.9.0.2");
        written(&middle) > before
    };
    assert!(wait_for(is_used), "it is used again");
    let report = middle.stop();
    let split = report.split.expect("with [split]");
    println!("{split:#?}\n{:?}", report.drops);
    let counts = split.counts;
    assert!(counts.merged > 20_000, "{counts:?}");
    assert_eq!(
        counts.packets,
        counts.merged + counts.declined + counts.lost()
    );
    for server in &split.servers {
        assert!(
            server.is_up && server.counter("payloads") > 1000,
            "{server:?}"
        );
    }
    let lost = &split.servers[0];
    assert!(
        lost.queue_pairs.iter().any(|pair| pair.lives > 1),
        "{lost:?}"
    );
    for (recorder, capture, ip) in recorders {
        if recorder.is_some() {
            assert_is_roce(&capture, ip);
        }
    }
    for server in [first, second] {
        let said = server.stop();
        assert!(said.contains("writes"), "{said}");
    }
}

/// What the switch's end of a link does not carry goes on whole, though the server could take it.
#[test]
fn a_link_that_is_shorter_here_than_there_loses_nothing() {
    if !is_possible() || !has_program("curl", "curl") || !has_program("nginx", "nginx") {
        return;
    }
    let network = network();
    for number in [1, 2] {
        network.ip("middle", &format!("link set memory{number} mtu 1300"));
    }
    let start = |number: u16| MemoryServer::start(&network, &format!("memory-{number}"), number);
    let _servers = [1, 2].map(start);
    let middle = Middle::start(&network, &service(1));
    assert!(wait_for(|| are_up(&middle, 2)), "both servers are there");
    let web = WebServer::start(&network, "server");
    web.is_sent(&network, "client", "10.9.0.2");
    web.is_sent(&network, "client", "[fd09::2]");
    let counts = middle.stop().split.expect("with [split]").counts;
    println!("{counts:?}");
    assert!(counts.whole_too_long > 100, "{counts:?}");
    assert_eq!(counts.lost(), 0, "{counts:?}");
}

/// Whether payloads of both shards have waited on every server: each has its half of the queue pairs.
fn all_shards_use(split: &SplitFigures) -> bool {
    let used = |server: &MemoryServerFigures, shard: u16| {
        let pairs = server.queue_pairs.iter();
        let own = pairs.filter(|pair| pair.number % 2 == shard);
        own.map(|pair| pair.payloads).sum::<u64>() > 100
    };
    let mut servers = split.servers.iter();
    servers.all(|server| (0..2).all(|shard| used(server, shard)))
}

/// Each shard has queue pairs of its own at every server. What a server sends comes by one queue, and
/// goes to whose it is.
#[test]
fn several_shards_share_memory_servers() {
    if !is_possible() || !has_program("curl", "curl") || !has_program("nginx", "nginx") {
        return;
    }
    let network = network();
    for host in HOSTS {
        network.address("client", "eth0", &format!("10.9.0.{host}/24"));
    }
    let servers =
        [1, 2].map(|number| MemoryServer::start(&network, &format!("memory-{number}"), number));
    let middle = Middle::start(&network, &service(2));
    let ping = ["-c1", "-W1", "10.9.0.2"];
    assert!(succeeds_soon(&network, "client", "ping", &ping));
    let web = WebServer::start(&network, "server");
    assert!(wait_for(|| are_up(&middle, 2)), "both servers are there");
    let fetch = |host: u8| {
        let from = format!("10.9.0.{host}");
        let fetch = ["-sS", "--max-time", "60", "--interface", &from];
        let fetch = [&fetch[..], &["http://10.9.0.2/file", "-o", "/dev/null"]].concat();
        succeed(&network, "client", "curl", &fetch);
    };
    HOSTS.for_each(&fetch);
    // Which shard and which server a connection falls to is drawn at the start.
    let mut others = HOSTS.cycle().take(8 * HOSTS.len());
    while !told(&middle).is_some_and(|split| all_shards_use(&split)) {
        fetch(others.next().expect("all shards use all servers"));
    }
    web.is_fetched(&network, "client", "10.9.0.2");
    web.is_fetched(&network, "client", "[fd09::2]");
    let report = middle.stop();
    let split = report.split.expect("with [split]");
    println!("{split:#?}\n{:?}\n{:?}", report.drops, report.shards);
    let counts = split.counts;
    assert!(counts.merged > 10_000, "{counts:?}");
    assert_eq!(
        counts.packets,
        counts.merged + counts.declined + counts.lost()
    );
    assert!(counts.lost() < counts.merged / 100, "{counts:?}");
    for server in &split.servers {
        let numbers: Vec<_> = server.queue_pairs.iter().map(|pair| pair.number).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
    assert!(all_shards_use(&split), "{split:?}");
    let handed_over = report
        .shards
        .iter()
        .map(|one| one.server_frames_handed_over);
    assert!(handed_over.sum::<u64>() > 100, "{:?}", report.shards);
    for server in servers {
        let said = server.stop();
        assert!(said.contains("writes"), "{said}");
    }
}

/// One server is another than the service names, the other one dies: the log says which server and which of
/// its queue pairs, and files go on, unsplit.
#[test]
fn errors_of_servers_are_in_the_log() {
    if !is_possible() || !has_program("curl", "curl") || !has_program("nginx", "nginx") {
        return;
    }
    let network = network();
    let _first = MemoryServer::start(&network, "memory-1", 1);
    let second = MemoryServer::start(&network, "memory-2", 2);
    let service = service_with(1, "address = \"169.254.77.77\"\n");
    let middle = Middle::start_with(&network, &service, &["--log-format", "text"]);
    let ping = ["-c1", "-W1", "10.9.0.2"];
    assert!(succeeds_soon(&network, "client", "ping", &ping));
    let web = WebServer::start(&network, "server");
    assert!(
        wait_for(|| are_up(&middle, 1)),
        "the second server is there"
    );
    web.is_fetched(&network, "client", "10.9.0.2");
    drop(second);
    // Each of its queue pairs is noticed by what is written there.
    let is_noticed = || {
        web.is_sent(&network, "client", "10.9.0.2");
        are_up(&middle, 0)
    };
    assert!(wait_for(is_noticed), "it is noticed");
    let before = told(&middle).expect("it answers").counts;
    web.is_fetched(&network, "client", "[fd09::2]");
    let after = told(&middle).expect("it answers").counts;
    println!("{before:?}\n{after:?}");
    assert_eq!(after.packets, before.packets, "nothing is split any more");
    let whole = after.whole_no_server - before.whole_no_server;
    assert!(whole > 1000, "{after:?}");
    let said = middle.stopped();
    assert!(said.status.success(), "{said:?}");
    let log = String::from_utf8_lossy(&said.stderr);
    let errors = |what: &str| {
        let lines = log.lines().filter(|line| line.contains(what));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let refused =
        errors("memory server memory-1: its announcement is of no use to queue pairs 0 to 3: ");
    assert!(refused[0].contains(", and the service expects 169.254.77.77"));
    assert_eq!(refused.len(), 1, "it is told once: {log}");
    let died = errors("memory server memory-2: queue pair ");
    let died: Vec<_> = died
        .iter()
        .filter(|line| line.contains(" is down: "))
        .collect();
    assert!(died[0].contains("the server does not answer"), "{log}");
    for line in [&refused[0], died[0]] {
        assert!(
            line.contains("ERROR") && line.ends_with("; packets go on unsplit"),
            "{line}"
        );
    }
}
