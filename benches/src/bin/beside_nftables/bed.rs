//! Sender, middle and receiver: the hosts, the cables, and which core does what.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::process::Command;
use twinpath_netns::Network;

/// The core of sender and receiver, and that of the host in the middle.
pub const TRAFFIC_CORE: usize = 0;
pub const MIDDLE_CORE: usize = 1;

fn done(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output();
    let output = output.expect("util-linux is there");
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
}

/// Where flows go: nobody has such an address, and the receiver's interface drops what is for another
/// station at once, so that receiving costs little.
pub const SINK: &str = "198.18.0.1";
pub const SINK_MAC: &str = "02:00:00:00:00:99";

/// MAC addresses of the sender and of the interfaces in the middle.
pub const SENDER_MAC: &str = "02:00:00:01:00:02";
pub const INSIDE_MAC: &str = "02:00:00:01:00:01";
pub const OUTSIDE_MAC: &str = "02:00:00:02:00:01";

/// Whether there are two cores; if not, that is told.
pub fn has_two_cores() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        eprintln!("two cores are needed: one for the traffic, one for what forwards it");
    }
    cores >= 2
}

/// The calling thread, and what it starts, runs on one core.
pub fn run_on_core(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    // Where that is not permitted figures would mean something else.
    sched_setaffinity(None, &set).expect("the core is there");
    debug_assert!(sched_getaffinity(None).is_ok_and(|set| set.count() == 1));
}

/// Three hosts in a row.
pub fn make() -> Network {
    let mut network = Network::new();
    network.cable("sender eth0", "middle inside");
    network.cable("middle outside", "receiver eth0");
    for (host, interface, mac) in [
        ("sender", "eth0", SENDER_MAC),
        ("middle", "inside", INSIDE_MAC),
        ("middle", "outside", OUTSIDE_MAC),
        ("receiver", "eth0", "02:00:00:02:00:02"),
    ] {
        network.ip(host, &format!("link set {interface} address {mac}"));
    }
    for (host, address) in [
        ("sender", "10.1.0.2/24"),
        ("sender", "fd01::2/64"),
        ("receiver", "10.2.0.2/24"),
        ("receiver", "fd02::2/64"),
    ] {
        network.address(host, "eth0", address);
    }
    network.ip("sender", "route add default via 10.1.0.1");
    network.ip("sender", "route add default via fd01::1");
    network.ip("receiver", "route add 10.1.0.0/24 via 10.2.0.1");
    network.ip("receiver", "route add fd01::/64 via fd02::1");
    network
}

/// Whose core does what the drivers of the middle's interfaces do for packets that arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverCore {
    /// As a virtual cable has it: the core that the packets come from.
    Traffic,
    Middle,
}

/// The interfaces in the middle poll, as those of cards do: what the sender's kernel makes needs it. What
/// the network stack does for packets that arrive is done by the middle's core; what the driver does in
/// front of it, by the core that is said.
pub fn receive(network: &Network, driver: DriverCore) {
    for interface in ["inside", "outside"] {
        let device = format!("/sys/class/net/{interface}");
        in_shell(network, &format!("ethtool -K {interface} gro on"));
        let mask = 1 << MIDDLE_CORE;
        in_shell(
            network,
            &format!("echo {mask:x} > {device}/queues/rx-0/rps_cpus"),
        );
        if driver == DriverCore::Traffic {
            continue;
        }
        in_shell(network, &format!("echo 1 > {device}/threaded"));
        for thread in threads_named(&format!("napi/{interface}")) {
            done("taskset", &["-cp", &MIDDLE_CORE.to_string(), &thread]);
        }
    }
}

/// Threads of the kernel by the beginning of their names.
fn threads_named(prefix: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_meant = |process: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(process.path().join("comm"));
        name.is_ok_and(|name| name.starts_with(prefix))
    };
    let found = processes.filter(is_meant);
    let numbers = found.map(|process| process.file_name().to_string_lossy().into_owned());
    numbers.collect()
}

fn in_shell(network: &Network, words: &str) {
    let output = network.run("middle", "sh", &["-c", words]);
    assert!(output.status.success(), "{words}: {output:?}");
}

/// Frames that have reached the receiver's interface since it was made.
pub fn received(network: &Network) -> u64 {
    let read = || {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("eth0:"));
        let packets = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        packets.unwrap_or(0)
    };
    network.on("receiver", read).join().expect("no panic")
}
