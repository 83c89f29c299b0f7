//! What happens to a host in the middle of its work: the process is killed, stopped, or finds no room
//! on its disk.

use super::middle::{Middle, cut_network};
use super::programs::{Server, WebServer, begin_fetch, succeed, succeeds_soon};
use super::raw::Injector;
use super::routed;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_netns::{Network, has_program, is_possible};

fn bump(driver: &str) -> String {
    format!(
        "[service]\nname = \"bump\"\nchain = [\"firewall\"]\nunparsed = \"forward\"\n\
         inside = [\"10.9.0.1\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"{driver}\" }}\n\
         outside = {{ device = \"outside\", driver = \"{driver}\" }}\n\
         [firewall]\ndefault = \"deny\"\nrules = [\n\
         {{ action = \"allow\", from = \"10.9.0.1\" }},\n{{ action = \"allow\", from = \"fd09::1\" }},\n\
         {{ action = \"allow\", protocol = \"icmp\" }},\n{{ action = \"allow\", protocol = \"icmp6\" }},\n]\n"
    )
}

fn can_run() -> bool {
    is_possible() && has_program("ping", "iputils-ping")
}

fn pings_soon(network: &Network, address: &str) -> bool {
    succeeds_soon(network, "client", "ping", &["-c1", "-W1", address])
}

/// Connections outlive a service that is killed, if another takes its place. It picks them up by what it
/// sees first, so what the server sends must be allowed, too: a client that waits for data says nothing.
#[test]
fn connections_outlive_a_process_that_is_killed() {
    if !can_run() || !has_program("nginx", "nginx") || !has_program("curl", "curl") {
        return;
    }
    for driver in super::DRIVERS {
        let network = cut_network();
        let web = "{ action = \"allow\", protocol = \"tcp\", from_port = 80 },\n]\n";
        let rules = bump(driver);
        let service = rules.trim_end().trim_end_matches(']').to_owned() + web;
        let middle = Middle::start(&network, &service);
        assert!(pings_soon(&network, "10.9.0.2"), "{driver}");
        let server = WebServer::start(&network, "server");
        // Slow enough to be under way when that happens.
        let loads = begin_fetch(&network, "client", "[fd09::2]", "16M");
        std::thread::sleep(Duration::from_secs(1));
        let middle = middle.killed_and_started(&network);
        assert!(pings_soon(&network, "10.9.0.2"), "{driver}: after");
        loads.comes_whole();
        server.is_fetched(&network, "client", "10.9.0.2");
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.totals, report.drops);
        assert!(
            report.totals.packets_out > 1000,
            "{driver}: {:?}",
            report.totals
        );
    }
}

/// What a process has changed at an interface that is killed is put back by the next one, whatever its driver.
#[test]
fn an_interface_is_as_it_was_before_a_process_that_was_killed() {
    if !can_run() || !has_program("ethtool", "ethtool") {
        return;
    }
    let network = cut_network();
    let takes_tags_off = || {
        let told = succeed(&network, "middle", "ethtool", &["-k", "inside"]);
        told.contains("rx-vlan-offload: on")
    };
    let state = tempfile::tempdir().expect("a folder");
    let folder = state.path().to_string_lossy().into_owned();
    let start = |driver| {
        let environment = [("STATE_DIRECTORY", folder.clone())];
        Middle::start_by(&network, &bump(driver), &[], &environment)
    };
    assert!(takes_tags_off());
    for next in super::DRIVERS {
        let killed = start("af_xdp");
        assert!(!takes_tags_off());
        killed.kill();
        assert!(!takes_tags_off());
        drop(start(next).stop());
        assert!(takes_tags_off(), "{next}");
    }
    let left = fs::read_dir(state.path()).expect("a folder").count();
    assert_eq!(left, 0, "nothing is to be put back any more");
}

/// A flood of datagrams from the client to the server for a time.
fn flood(network: &Network, time: Duration) -> u64 {
    const RATE: u64 = 30_000;
    let send = move || {
        let from = |port| Endpoint::v4([10, 9, 0, 1], port);
        let to = Endpoint::v4([10, 9, 0, 2], 9);
        let mut injector = Injector::open("eth0");
        let mut port = 0;
        injector.send_at(RATE, Instant::now() + time, || {
            port = (port + 1) % 1000;
            let packet = PacketBuilder::udp(from(20_000 + port), to).payload_len(20);
            packet.to_vec().expect("a packet")
        })
    };
    network.on("client", send).join().expect("no panic")
}

/// A process that the scheduler leaves out for five seconds loses what there is no room for, says so,
/// and goes on as before; memory stays what it was.
#[test]
fn a_process_that_stood_still_goes_on() {
    if !can_run() || !has_program("iperf3", "iperf3") {
        return;
    }
    for driver in super::DRIVERS {
        let network = cut_network();
        let middle = Middle::start(&network, &bump(driver));
        let _server = Server::start(&network, "server", "iperf3", &["-s"]);
        assert!(pings_soon(&network, "10.9.0.2"), "{driver}");
        flood(&network, Duration::from_millis(500));
        let before = middle.resident_bytes();
        middle.signal("-STOP");
        let sent = flood(&network, Duration::from_secs(5));
        middle.signal("-CONT");
        for address in ["10.9.0.2", "fd09::2"] {
            assert!(pings_soon(&network, address), "{driver}: {address}");
            let transfer = ["-c", address, "-n", "16M"];
            assert!(
                succeeds_soon(&network, "client", "iperf3", &transfer),
                "{driver}"
            );
        }
        let after = middle.resident_bytes();
        let report = middle.stop();
        println!(
            "{driver}: {sent} sent, {before} to {after} bytes, {:?}",
            report.ports
        );
        let missed: u64 = report.ports.iter().map(|port| port.receive_missed).sum();
        assert!(missed > 10_000, "{driver}: {missed} of {sent}");
        assert!(after < before + (32 << 20), "{driver}: {before} to {after}");
        assert_eq!(report.worker_restarts, [0], "{driver}");
    }
}

/// A service that is behind when it is told to end accounts for every frame that came: it has read it, or
/// the kernel had no room for it, or nobody read it.
#[test]
fn what_lies_unread_at_the_end_is_counted() {
    if !can_run() {
        return;
    }
    for shards in [1, 2] {
        let network = cut_network();
        let service = bump("af_packet") + &format!("[run]\nshards = {shards}\n");
        let middle = Middle::start(&network, &service);
        middle.signal("-STOP");
        let sent = flood(&network, Duration::from_secs(1));
        // Both are pending when it goes on.
        middle.signal("-INT");
        middle.signal("-CONT");
        let report = middle.ended();
        let inside = &report.ports[0];
        println!("{sent} sent, {inside:?}");
        let known = inside.received_packets + inside.lost();
        assert!(known >= sent, "{known} of {sent}: {inside:?}");
        assert!(inside.receive_unread > 0, "{inside:?}");
        let unread: u64 = report.ports.iter().map(|port| port.receive_unread).sum();
        assert_eq!(unread, report.port_losses.receive_unread);
    }
}

/// A gateway asks for its neighbours again, and its connections are there.
#[test]
fn neighbors_outlive_a_process_that_stood_still() {
    if !can_run() || !has_program("nginx", "nginx") || !has_program("curl", "curl") {
        return;
    }
    let network = routed::network();
    let middle = Middle::start(&network, &routed::service("af_packet"));
    assert!(pings_soon(&network, "198.51.100.1"));
    let _server = WebServer::start(&network, "server");
    let loads = begin_fetch(&network, "client", "198.51.100.1", "16M");
    std::thread::sleep(Duration::from_secs(1));
    middle.signal("-STOP");
    std::thread::sleep(Duration::from_secs(5));
    middle.signal("-CONT");
    loads.comes_whole();
    for address in routed::ANSWERING {
        assert!(pings_soon(&network, address), "{address}");
    }
    let neighbors = middle.stop().neighbors.expect("ports have addresses");
    assert_eq!(neighbors.lost(), 0, "{neighbors:?}");
}

/// A file system with room for next to nothing.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn make() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs"]);
        let mounted = mount.arg(folder.path()).status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "root may mount"
        );
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves no room at all.
    fn fill(&self) {
        let filled = fs::write(self.path().join("filler"), vec![1; 1 << 20]);
        assert!(filled.is_err(), "it is small");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// What is written to a full disk is lost, and told; packets do not notice.
#[test]
fn packets_pass_while_log_and_report_find_no_room() {
    if !can_run() || !has_program("mount", "mount") {
        return;
    }
    let network = cut_network();
    let disk = SmallDisk::make();
    let log = File::create(disk.path().join("log")).expect("there is room for its name");
    let report = disk.path().join("report");
    let report = report.to_string_lossy();
    let more = [
        "--log-format",
        "json",
        "--log-level",
        "debug",
        "--report",
        &report,
    ];
    let middle = Middle::start_telling(&network, &bump("af_packet"), &more, log.into());
    disk.fill();
    for turn in 0..3 {
        // Each outage is a line of the log.
        network.ip("server", "link set eth0 down");
        std::thread::sleep(Duration::from_millis(300));
        network.ip("server", "link set eth0 up");
        assert!(pings_soon(&network, "10.9.0.2"), "turn {turn}");
    }
    let said = middle.stopped();
    println!("{said:?}");
    // Neither killed by a signal nor by a panic: the report is not there, and that is an error.
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(!disk.path().join("report/report.html").exists());
}

/// A run whose output is lost says so, and does not succeed.
#[test]
fn a_capture_that_finds_no_room_is_an_error() {
    if !is_possible() {
        return;
    }
    let disk = SmallDisk::make();
    fs::write(
        disk.path().join("s.toml"),
        "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n\
         [traffic]\npackets = 100_000\nflows = 10\n",
    )
    .expect("there is room for that");
    for out in ["out.pcap", "out.pcapng", "out.pcap.gz"] {
        for execution in ["threads", "virtual"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_twinpath"));
            command.args(["run", "s.toml", "--no-report", "--execution", execution]);
            command.args(["--out", out]).current_dir(disk.path());
            let said = command.stdout(Stdio::null()).output().expect("it runs");
            let why = String::from_utf8_lossy(&said.stderr);
            assert_eq!(said.status.code(), Some(2), "{out}, {execution}: {why}");
            assert!(
                why.contains("space") && !why.contains("panicked"),
                "{out}: {why}"
            );
            let _ = fs::remove_file(disk.path().join(out));
        }
    }
}

/// An operator whose own disk is full hears so, and the service goes on.
#[test]
fn an_operators_full_disk_is_no_matter_of_the_services() {
    if !can_run() {
        return;
    }
    let network = cut_network();
    let middle = Middle::start(&network, &bump("af_packet"));
    assert!(pings_soon(&network, "10.9.0.2"));
    let disk = SmallDisk::make();
    disk.fill();
    let mut capture = Command::new(env!("CARGO_BIN_EXE_twinpath"));
    capture
        .args(["capture", "--port", "inside", "--out"])
        .arg(disk.path().join("c.pcapng"));
    capture.arg("--control").arg(middle.path("socket"));
    capture.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut capture = capture.spawn().expect("it starts");
    let has_ended = super::middle::wait_for(|| {
        succeed(
            &network,
            "client",
            "ping",
            &["-c20", "-i0.01", "-s1000", "10.9.0.2"],
        );
        capture.try_wait().is_ok_and(|end| end.is_some())
    });
    if !has_ended {
        capture.kill().expect("its own child");
    }
    let said = capture.wait_with_output().expect("its own child");
    let why = String::from_utf8_lossy(&said.stderr);
    assert!(has_ended && !why.contains("panicked"), "{why}");
    assert_eq!(said.status.code(), Some(2), "{why}");
    assert!(pings_soon(&network, "10.9.0.2"));
    drop(middle.stop());
}
