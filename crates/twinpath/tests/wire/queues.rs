//! Interfaces that get more receive queues while a service has them.

use super::bump;
use super::middle::Middle;
use super::programs::succeeds_soon;
use std::fs::File;
use std::process::Stdio;
use twinpath_netns::{Network, has_program, is_possible};

const MOST_QUEUES: u32 = 4;
const NEAR_ENDS: [&str; 2] = ["middle inside", "middle outside"];
const FAR_ENDS: [&str; 2] = ["client eth0", "server eth0"];

/// Hosts that answer at the server, so many that every queue has packets of some.
const HOSTS: std::ops::Range<u8> = 100..124;

fn network() -> Network {
    let mut network = Network::new();
    for (near, far) in NEAR_ENDS.iter().zip(FAR_ENDS) {
        network.cable_of_queues(near, far, MOST_QUEUES);
    }
    network.address("client", "eth0", "10.9.0.1/24");
    for host in HOSTS {
        network.address("server", "eth0", &format!("10.9.0.{host}/24"));
    }
    network
}

fn all_answer(network: &Network) -> bool {
    HOSTS.into_iter().all(|host| {
        let ping = ["-c1", "-W1", &format!("10.9.0.{host}")];
        succeeds_soon(network, "client", "ping", &ping)
    })
}

/// Packets of all queues pass, over one shard and two, and the log says what has happened.
#[test]
fn queues_that_come_later_are_served() {
    let programs = [("ping", "iputils-ping"), ("ethtool", "ethtool")];
    let mut programs = programs.iter();
    if !is_possible() || !programs.all(|(program, package)| has_program(program, package)) {
        return;
    }
    for shards in [1, 2] {
        let network = network();
        // The middle never has fewer queues than the far ends send by.
        network.use_queues(&FAR_ENDS, 1);
        network.use_queues(&NEAR_ENDS, 1);
        let said = tempfile::NamedTempFile::new().expect("a file");
        let to = File::create(said.path()).expect("it is ours");
        let service = format!("[run]\nshards = {shards}\n{}", bump::service("af_xdp"));
        let more = ["--log-format", "text", "--report", "report"];
        let middle = Middle::start_telling(&network, &service, &more, Stdio::from(to));
        assert!(all_answer(&network), "{shards} shards, one queue");
        network.use_queues(&NEAR_ENDS, MOST_QUEUES);
        network.use_queues(&FAR_ENDS, MOST_QUEUES);
        assert!(
            all_answer(&network),
            "{shards} shards, {MOST_QUEUES} queues"
        );
        let report = middle.stop();
        assert!(report.ports.iter().all(|port| port.mode == "copy"));
        let said = std::fs::read_to_string(said.path()).expect("a log");
        for port in ["inside", "outside"] {
            let told = format!("{port} has {MOST_QUEUES} receive queues instead of 1");
            assert_eq!(said.matches(&told).count(), 1, "{shards} shards: {said}");
        }
    }
}
