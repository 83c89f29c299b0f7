//! Two processes that come to want the same interface while both run: one of them has it.

use super::middle::{Middle, cut_network, wait_for};
use super::programs::succeeds_soon;
use super::watched::asked;
use twinpath_netns::{Network, has_program, is_possible};

/// The two processes' ports: of the first one is an interface that the second has, too, later on.
const FIRST: [&str; 2] = ["inside", "outside"];
const SECOND: [&str; 2] = ["third", "other"];

/// A bump in the wire that passes everything.
fn service(driver: &str, [inside, outside]: [&str; 2], port: u16) -> String {
    format!(
        "[service]\nname = \"bump\"\nchain = [\"monitor\"]\nunparsed = \"forward\"\n\
         [ports]\n{inside} = {{ device = \"{inside}\", driver = \"{driver}\" }}\n\
         {outside} = {{ device = \"{outside}\", driver = \"{driver}\" }}\n\
         [metrics]\nlisten = \"127.0.0.1:{port}\"\n"
    )
}

fn network() -> Network {
    let mut network = cut_network();
    for (host, port, last) in [("far", "other", 3), ("near", "third", 4)] {
        network.cable(&format!("middle {port}"), &format!("{host} eth0"));
        network.address(host, "eth0", &format!("10.9.0.{last}/24"));
    }
    network
}

/// An interface goes, and its name comes to be that of one that another process has: nothing passes there
/// twice, which is told, and when that process is killed the first has the interface.
#[test]
fn an_interface_that_comes_back_as_another_processs_is_left_to_it() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    for driver in super::DRIVERS {
        let network = network();
        let told = ["--log-format", "text"];
        let first = Middle::start_with(&network, &service(driver, FIRST, 9477), &told);
        let second = Middle::start(&network, &service(driver, SECOND, 9478));
        let reaches = |host, address| {
            let ping = network.run(host, "ping", &["-c1", "-W1", address]);
            ping.status.success()
        };
        assert!(wait_for(|| reaches("near", "10.9.0.3")), "{driver}");
        network.ip("middle", "link delete outside");
        network.ip("middle", "link property add dev other altname outside");
        let becomes = |part: &str| {
            let is_so = wait_for(|| asked(&network, "/healthz").contains(part));
            assert!(is_so, "{driver}: {part}: {}", asked(&network, "/healthz"));
        };
        becomes("port outside has an interface that another process has\n");
        assert!(!reaches("client", "10.9.0.3"), "{driver}: both have it");
        assert!(reaches("near", "10.9.0.3"), "{driver}");
        second.kill();
        becomes("200 OK");
        let ping = ["-c1", "-W1", "10.9.0.3"];
        assert!(succeeds_soon(&network, "client", "ping", &ping), "{driver}");
        let said = first.stopped();
        let log = String::from_utf8_lossy(&said.stderr);
        let expected = "outside was made anew, and another twinpath has it";
        assert_eq!(log.matches(expected).count(), 1, "{driver}: {log}");
    }
}
