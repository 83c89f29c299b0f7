//! What a collector hears by IPFIX: flows and bindings as nfcapd reads them, and bindings as they are sent.

use crate::folder::{Folder, interrupt};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use twinpath_netns::has_program;

/// Flows that end soon, others that go on, and bindings that come and go; who counts flows, and how.
fn service(collector: u16, (counts, how): (&str, &str)) -> String {
    format!(
        "[service]\nname = \"gateway\"\nchain = [\"napt\", \"{counts}\"]\n\
         [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n\
         [{counts}]\n{how}\n\
         [rule_cache]\nwindow = \"50ms\"\nthreshold = 0\n\
         [ipfix]\ncollector = \"127.0.0.1:{collector}\"\nactive_timeout = \"1s\"\nobservation_domain = 42\n\
         [traffic]\nflows = 20\nchurn_per_minute = 2_000\narrivals = {{ process = \"poisson\", rate_pps = 3000.0 }}\n"
    )
}

fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    socket.local_addr().expect("it is bound").port()
}

const MONITOR: (&str, &str) = ("monitor", "idle = \"1s\"");
/// Records end for being old, too, and with the run.
const TELEMETRY: (&str, &str) = ("telemetry", "idle = \"1s\"\nactive = \"1s\"");

/// Runs the service for a while.
fn run(folder: &Folder, collector: u16, counting: (&str, &str)) {
    folder.write("gateway.toml", service(collector, counting).as_bytes());
    folder.succeed(&[
        "run",
        "gateway.toml",
        "--report",
        "r",
        "--quiet",
        "--for",
        "4s",
    ]);
}

#[test]
fn nfcapd_reads_the_flows() {
    nfcapd_reads_what_counts_tell(MONITOR);
}

#[test]
fn nfcapd_reads_the_records() {
    nfcapd_reads_what_counts_tell(TELEMETRY);
}

/// Every packet that left, behind the function that counts, is in one record, and bindings are what the
/// collector calls them.
fn nfcapd_reads_what_counts_tell(counting: (&str, &str)) {
    if !has_program("nfcapd", "nfdump") {
        return;
    }
    let (folder, port) = (Folder::new(), free_port());
    let flows = folder.path("flows");
    std::fs::create_dir(&flows).expect("a folder");
    let mut collector = Command::new("nfcapd");
    collector.args([
        "-b",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-t",
        "3600",
        "-w",
    ]);
    collector
        .arg(&flows)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut collector = Collector(collector.spawn().expect("it is there"));
    // It listens when somebody else cannot.
    let deadline = Instant::now() + Duration::from_secs(20);
    while UdpSocket::bind(("127.0.0.1", port)).is_ok() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    run(&folder, port, counting);
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&collector.0);
    collector.0.wait().expect("it ends");
    let text = dumped(&flows, "fmt:%pr %sa %da %pkt %byt");
    let mut packets = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, _, count, _] = words[..] {
            packets += count.parse::<u64>().unwrap_or_default();
        }
    }
    let report = folder.report("r");
    let counted = report.totals.packets_out;
    assert!(counted > 5_000, "{counted}");
    assert_eq!(packets, counted, "{:?}", report.ipfix);
    let told = report.ipfix.expect("there is a collector");
    let records = dumped(&flows, "json");
    let count = |line: &str| records.matches(line).count() as u64;
    let [begun, ended] = ["create", "delete"].map(|what| count(&format!("\"NAT44 BIB {what}\"")));
    assert!(begun > 100, "{begun} {ended}");
    assert_eq!(begun + ended, told.bindings, "{begun} {ended}");
    assert_eq!(count("\"src4_xlt_ip\" : \"198.51.100.1\""), told.bindings);
}

/// What the collector has written, as it tells it.
fn dumped(flows: &Path, format: &str) -> String {
    let mut read = Command::new("nfdump");
    let read = read.arg("-R").arg(flows).args(["-q", "-N", "-o", format]);
    let said = read.output().expect("it is there");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

struct Collector(Child);

/// A test that fails leaves nothing running.
impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A collector that keeps what it hears until it has been quiet for a while.
struct Listener {
    port: u16,
    listening: JoinHandle<Vec<Vec<u8>>>,
}

impl Listener {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket
            .set_read_timeout(Some(Duration::from_millis(300)))
            .expect("possible");
        let port = socket.local_addr().expect("it is bound").port();
        let listening = std::thread::spawn(move || {
            let (mut messages, mut bytes) = (Vec::new(), [0; 2048]);
            let (end, mut quiet) = (Instant::now() + Duration::from_secs(40), 0);
            while Instant::now() < end && quiet < 10 {
                match socket.recv(&mut bytes) {
                    Ok(count) => {
                        messages.push(bytes[..count].to_vec());
                        quiet = 0;
                    }
                    Err(_) if messages.is_empty() => {}
                    Err(_) => quiet += 1,
                }
            }
            messages
        });
        Self { port, listening }
    }

    fn messages(self) -> Vec<Vec<u8>> {
        self.listening.join().expect("no panic")
    }
}

/// How many bindings of IPv4 began (8) and ended (9) by some messages.
fn binding_events(messages: &[Vec<u8>]) -> BTreeMap<u8, u64> {
    let (mut events, mut templates) = (BTreeMap::new(), 0);
    for message in messages {
        assert_eq!(word(message, 0), 10, "the version");
        assert_eq!(&message[12..16], &42u32.to_be_bytes());
        let mut at = 16;
        while at < message.len() {
            let (set, length) = (word(message, at), usize::from(word(message, at + 2)));
            templates += usize::from(set == 2);
            if set == 258 {
                for record in message[at + 4..at + length].chunks(22) {
                    *events.entry(record[8]).or_default() += 1;
                    assert!(record[10] == 10, "a host inside: {record:?}");
                    assert_eq!(record[16..20], [198, 51, 100, 1]);
                }
            }
            at += length;
        }
    }
    assert!(templates >= 1);
    events
}

/// Also of those that go on when the run is over.
#[test]
fn bindings_are_logged_from_their_beginning_to_their_end() {
    let (folder, collector) = (Folder::new(), Listener::start());
    run(&folder, collector.port, MONITOR);
    let messages = collector.messages();
    let events = binding_events(&messages);
    let report = folder.report("r");
    let napt = report
        .functions
        .iter()
        .find(|one| one.name == "napt")
        .expect("it is there");
    let told = report.ipfix.expect("there is a collector");
    let created = napt.counters["bindings_created"];
    assert!(created > 0, "{napt:?}");
    assert_eq!(events[&8], created, "each is told: {events:?} {napt:?}");
    assert_eq!(events[&9], created, "and its end: {events:?} {napt:?}");
    assert_eq!(events.values().sum::<u64>(), told.bindings);
    assert_eq!((told.bindings_lost, told.messages_lost), (0, 0));
    assert_eq!(told.messages, messages.len() as u64);
}

/// Its bindings are over with it.
#[test]
fn bindings_of_a_translation_that_is_taken_out_end() {
    let (folder, collector) = (Folder::new(), Listener::start());
    let text = service(collector.port, MONITOR);
    folder.write("gateway.toml", text.as_bytes());
    let words = ["run", "gateway.toml", "--no-report", "--quiet", "--control"];
    let mut running = folder.start(&[&words[..], &["socket"]].concat());
    let deadline = Instant::now() + Duration::from_secs(60);
    let asked = ["bindings", "--control", "socket", "--function", "napt"];
    while folder.run(&asked).out.lines().count() < 5 {
        assert!(Instant::now() < deadline, "no bindings");
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = text.replace("\"napt\", ", "");
    let (before, behind) = text.split_once("[napt]").expect("it has one");
    let (_, behind) = behind.split_once("[monitor]").expect("it has one");
    let without = format!("{before}[monitor]{behind}");
    folder.write("gateway.toml", without.as_bytes());
    let said = folder.succeed(&["apply", "gateway.toml", "--control", "socket"]);
    assert!(said.out.contains("removed: napt"), "{said:?}");
    interrupt(&running);
    assert!(running.wait().expect("it ends").success());
    let events = binding_events(&collector.messages());
    assert!(events[&8] > 0, "{events:?}");
    assert_eq!(events.get(&9), Some(&events[&8]), "{events:?}");
}

fn word(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}
