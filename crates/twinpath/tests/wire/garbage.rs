//! A cable full of garbage: frames that were sound once, and have been cut, lengthened and overwritten
//! since. What is sound passes again afterwards, nothing has crashed, and nothing has grown.

use super::bump;
use super::middle::{Middle, cut_network};
use super::programs::{WebServer, can_transfer, succeeds_soon};
use super::raw::Injector;
use super::routed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use twinpath_captures::captures;
use twinpath_io::Trace;
use twinpath_netns::{Network, has_program, is_possible};
use twinpath_traffic::random::{Random, RandomSource};
use twinpath_traffic::{Generator, TrafficConfig};

/// How many seconds of garbage there are for each service and driver, if somebody wants more.
const SECONDS: &str = "TWINPATH_GARBAGE_SECONDS";

/// Packets a second.
const RATE: u64 = 20_000;

/// What memory may grow by once all kinds of garbage have been seen.
const GROWTH: u64 = 32 << 20;

/// All that looks into packets, and a rule for what garbage may carry.
fn bump(driver: &str) -> String {
    format!(
        "[service]\nname = \"bump\"\nchain = [\"firewall\", \"reassembler\", \"inspector\", \"monitor\"]\n\
         unparsed = \"forward\"\ninside = [\"10.9.0.1\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n\
         source_check = \"loose\"\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"{driver}\" }}\n\
         outside = {{ device = \"outside\", driver = \"{driver}\" }}\n\
         [firewall]\ndefault = \"allow\"\n[inspector]\nrules = \"rules\"\n"
    )
}

const RULES: &str = "word ban literal \"forbidden words\"\n";

fn time() -> Duration {
    let written = std::env::var(SECONDS).ok();
    let seconds = written.and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

/// Sound frames of many kinds: those of real captures, where they are, and generated ones.
fn sound_frames() -> Vec<Vec<u8>> {
    const FROM_EACH: usize = 200;
    let mut frames = Vec::new();
    for path in captures() {
        let Ok(trace) = Trace::load(&path) else {
            continue;
        };
        let short = trace.iter().filter(|packet| packet.frame.len() <= 1514);
        frames.extend(short.take(FROM_EACH).map(|packet| packet.frame.to_vec()));
    }
    let config = TrafficConfig {
        packets: Some(1000),
        fragment_share: 0.1,
        icmp_error_share: 0.05,
        tcp_share: 0.5,
        ..TrafficConfig::default()
    };
    let mut generator = Generator::new(&config, 7).expect("a valid configuration");
    let mut buffer = vec![0; 2048];
    while let Some(packet) = generator.next_into(&mut buffer) {
        frames.push(buffer[..packet.len].to_vec());
    }
    frames
}

/// What Linux takes as a frame at least.
const SHORTEST: usize = 15;

/// A frame that was sound.
fn spoil(frame: &[u8], random: &mut Random) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(SHORTEST), 0);
    let mut below = |most: usize| random.below(most as u64) as usize;
    for _ in 0..=below(4) {
        let len = frame.len();
        match below(8) {
            // Within the headers, where it matters most.
            0..=3 => {
                let place = below(len.min(80));
                frame[place] = below(256) as u8;
            }
            4 => {
                let place = below(len);
                frame[place] ^= 1 << below(8);
            }
            5 => frame.truncate(14 + below(len - 14 + 1)),
            6 => {
                let more = below(200);
                frame.extend((0..more).map(|at| at as u8));
                frame.truncate(1514);
            }
            _ => {
                let (from, to) = (14 + below(len.min(64) - 14 + 1), below(len));
                let part = frame[from.min(len)..].to_vec();
                frame.truncate(to.max(14));
                frame.extend(part);
                frame.truncate(1514);
            }
        }
        frame.resize(frame.len().max(SHORTEST), 0);
    }
    frame
}

/// The MAC addresses of a gateway's interfaces, towards the client and the server: three of four frames
/// are for them.
const STATIONS: [[u8; 6]; 2] = [[2, 0, 0, 0, 10, 1], [2, 0, 0, 0, 10, 2]];

/// Hosts that send garbage, each of which will tell how many frames there were.
type Senders = Vec<JoinHandle<u64>>;

/// Both hosts send garbage for a time. Tells how many frames there were.
fn rubbish(network: &Network, time: Duration, seed: u64) -> u64 {
    sent(begin_rubbish(network, time, seed, RATE))
}

fn sent(senders: Senders) -> u64 {
    let sent = senders
        .into_iter()
        .map(|sender| sender.join().expect("no panic"));
    sent.sum()
}

/// Both hosts begin to send garbage for a time, so many frames a second together.
fn begin_rubbish(network: &Network, time: Duration, seed: u64, rate: u64) -> Senders {
    let sound = sound_frames();
    let hosts = ["client", "server"].into_iter().zip(STATIONS).zip(seed..);
    hosts
        .map(|((host, station), seed)| {
            let sound = sound.clone();
            network.on(host, move || {
                let mut random = Random::stream(seed, 0);
                let mut injector = Injector::open("eth0");
                let end = Instant::now() + time;
                injector.send_at(rate / 2, end, || {
                    let place = random.below(sound.len() as u64) as usize;
                    let mut frame = spoil(&sound[place], &mut random);
                    if random.below(4) > 0 {
                        frame[..6].copy_from_slice(&station);
                    }
                    frame
                })
            })
        })
        .collect()
}

fn survives(network: &Network, middle: Middle, addresses: &[&str], label: &str) {
    let pings = || {
        // Garbage may have claimed a neighbour's address.
        for host in ["client", "server"] {
            network.ip(host, "neigh flush all");
            network.ip(host, "-6 neigh flush all");
        }
        for address in addresses {
            let ping = ["-c1", "-W1", address];
            assert!(
                succeeds_soon(network, "client", "ping", &ping),
                "{label}: {address}"
            );
        }
    };
    pings();
    let first = rubbish(network, time() / 3, 1);
    let before = middle.resident_bytes();
    let sent = first + rubbish(network, time(), 77);
    pings();
    let after = middle.resident_bytes();
    let report = middle.stop();
    println!(
        "{label}: {sent} sent, {before} to {after} bytes, {:?}",
        report.drops
    );
    assert!(
        after < before + GROWTH,
        "{label}: {before} to {after} bytes"
    );
    assert!(sent > 10_000, "{label}: {sent}");
    assert!(
        report.worker_restarts.iter().all(|restarts| *restarts == 0),
        "{label}: {report:?}"
    );
    let dropped: u64 = report.drops.values().sum();
    let came: u64 = report.ports.iter().map(|port| port.received_packets).sum();
    assert!(came + report.ports.iter().map(|port| port.lost()).sum::<u64>() > sent / 2);
    let totals = report.totals;
    // Packets never come from nowhere: nothing of this is answered with an error, fragments that are put
    // together make fewer, and a reassembler counts the segments that it makes two of.
    let splits = report.functions.iter();
    let splits = splits.filter_map(|function| function.counters.get("split"));
    let made: u64 = splits.sum();
    assert!(totals.packets_in <= came, "{label}: {totals:?} {came}");
    assert!(
        totals.packets_out + dropped <= totals.packets_in + made,
        "{label}: {dropped} {made} {totals:?}"
    );
    assert!(dropped > 0, "{label}");
}

#[test]
fn a_bump_outlives_garbage() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    for driver in super::DRIVERS {
        let network = cut_network();
        let middle = Middle::start_beside(&network, &bump(driver), &[("rules", RULES)]);
        survives(&network, middle, &["10.9.0.2", "fd09::2"], driver);
    }
}

#[test]
fn a_gateway_outlives_garbage() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    for driver in super::DRIVERS {
        let network = routed::network();
        for (port, station) in ["lan", "wan"].iter().zip(STATIONS) {
            let mac = station.map(|byte| format!("{byte:02x}")).join(":");
            network.ip("middle", &format!("link set {port} address {mac}"));
        }
        let middle = Middle::start(&network, &routed::service(driver));
        survives(&network, middle, &routed::ANSWERING, driver);
    }
}

/// Packets a second that no host has sent here yet: each sends what it can.
const FULL_RATE: u64 = 1_000_000;

/// Nobody on the cables believes garbage about where others are.
fn pin_neighbors(network: &Network) {
    let mac = |host: &str| {
        let path = "/sys/class/net/eth0/address";
        let said = network.run(host, "cat", &[path]).stdout;
        String::from_utf8_lossy(&said).trim().to_owned()
    };
    for (host, other, last) in [("client", "server", 2), ("server", "client", 1)] {
        let mac = mac(other);
        for address in [format!("10.9.0.{last}"), format!("fd09::{last}")] {
            let words = format!("neigh replace {address} lladdr {mac} dev eth0 nud permanent");
            network.ip(host, &words);
        }
    }
}

/// While both hosts send as much garbage as they can, files come and go through the same ports as they were.
/// What is dropped is counted by its reason, and memory does not grow.
#[test]
fn transfers_pass_beside_garbage() {
    if !can_transfer() {
        return;
    }
    for driver in super::DRIVERS {
        let network = cut_network();
        pin_neighbors(&network);
        let chain = "[\"firewall\", \"reassembler\", \"inspector\", \"monitor\"]";
        let service = bump::service(driver).replace("[\"firewall\", \"monitor\"]", chain);
        // So few flows that all tables are as large as they become before memory is looked at.
        let few = "[inspector]\nrules = \"rules\"\n[slow_path]\nflows = 32_768\n[monitor]\nflows = 10_000\n";
        let service = service + few;
        let middle = Middle::start_beside(&network, &service, &[("rules", RULES)]);
        let web = WebServer::start(&network, "server");
        let ping = ["-c1", "-W1", "10.9.0.2"];
        assert!(succeeds_soon(&network, "client", "ping", &ping), "{driver}");
        let first = rubbish(&network, time() / 3, 1);
        let before = middle.resident_bytes();
        let senders = begin_rubbish(&network, time(), 77, FULL_RATE);
        let mut transfers = 0;
        while transfers == 0 || senders.iter().any(|sender| !sender.is_finished()) {
            for address in ["10.9.0.2", "[fd09::2]"] {
                web.is_sent(&network, "client", address);
                transfers += 1;
            }
        }
        let sent = first + sent(senders);
        let after = middle.resident_bytes();
        web.is_fetched(&network, "client", "10.9.0.2");
        let report = middle.stop();
        println!(
            "{driver}: {sent} sent, {transfers} transfers, {before} to {after} bytes, {:?}\n{:?}",
            report.drops, report.ports
        );
        assert!(
            after < before + GROWTH,
            "{driver}: {before} to {after} bytes"
        );
        assert!(sent > 20_000, "{driver}: {sent}");
        for reason in [
            "denied",
            "bad_checksum",
            "truncated_ipv4",
            "ipv4_total_length",
        ] {
            let count = report.drops.get(reason).copied().unwrap_or_default();
            assert!(count > 100, "{driver}: {reason} {count}");
        }
        let came: u64 = report.ports.iter().map(|port| port.received_packets).sum();
        let dropped: u64 = report.drops.values().sum();
        assert!(
            dropped > sent / 8 && dropped < came,
            "{driver}: {dropped} of {came}"
        );
        assert!(report.worker_restarts.iter().all(|restarts| *restarts == 0));
    }
}

/// The same garbage every time.
#[test]
fn garbage_follows_from_its_seed() {
    let sound = sound_frames();
    let spoiled = |seed| {
        let mut random = Random::stream(seed, 0);
        let each = sound.iter().map(|frame| spoil(frame, &mut random));
        each.collect::<Vec<_>>()
    };
    let frames = spoiled(1);
    assert!(frames == spoiled(1) && frames != spoiled(2));
    assert!(
        frames
            .iter()
            .all(|frame| (SHORTEST..=1514).contains(&frame.len()))
    );
}
