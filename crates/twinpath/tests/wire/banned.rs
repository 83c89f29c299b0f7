//! An inspector bans a connection that carries what is forbidden, and no other.

use super::middle::{Middle, cut_network};
use super::programs::{WebServer, begin_fetch, succeeds_soon};
use twinpath_netns::{has_program, is_possible};

fn service(driver: &str) -> String {
    format!(
        "[service]\nname = \"inspector\"\nchain = [\"firewall\", \"reassembler\", \"inspector\"]\n\
         unparsed = \"forward\"\ninside = [\"10.9.0.1\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"{driver}\" }}\n\
         outside = {{ device = \"outside\", driver = \"{driver}\" }}\n\
         [firewall]\ndefault = \"deny\"\nrules = [\n\
         {{ action = \"allow\", from = \"10.9.0.1\" }},\n{{ action = \"allow\", from = \"fd09::1\" }},\n\
         {{ action = \"allow\", protocol = \"icmp6\" }},\n]\n\
         [inspector]\nrules = \"rules\"\n"
    )
}

const RULES: &str = "words ban literal \"forbidden words\" nocase\n";

#[test]
fn what_is_forbidden_ends_its_connection_alone() {
    if !is_possible() || !has_program("nginx", "nginx") || !has_program("curl", "curl") {
        return;
    }
    for driver in super::DRIVERS {
        let network = cut_network();
        let middle = Middle::start_beside(&network, &service(driver), &[("rules", RULES)]);
        let server = WebServer::start(&network, "server");
        for (turn, address) in (1..).zip(["10.9.0.2", "[fd09::2]"]) {
            let url = format!("http://{address}/who");
            let plain = ["-sS", "--max-time", "5", "-H", "X: allowed words", &url];
            assert!(
                succeeds_soon(&network, "client", "curl", &plain),
                "{driver}: {address}"
            );
            let other = begin_fetch(&network, "client", address, "30M");
            let forbidden = ["-sS", "--max-time", "2", "-H", "X: Forbidden Words", &url];
            let said = network.run("client", "curl", &forbidden);
            assert_eq!(
                said.status.code(),
                Some(TIMED_OUT),
                "{driver}: {address}: {said:?}"
            );
            other.comes_whole();
            server.is_fetched(&network, "client", address);
            let bans = bans(&middle);
            assert_eq!(bans, turn, "{driver}: {address}");
        }
        let report = middle.stop();
        println!("{driver}: {:?} {:?}", report.fast, report.drops);
        // What the client sent again, too.
        assert!(report.drops["banned"] >= 2, "{:?}", report.drops);
    }
}

/// How curl says that.
const TIMED_OUT: i32 = 28;

/// Flows that were banned so far.
fn bans(middle: &Middle) -> u64 {
    let metrics = middle
        .asked(&["top", "--once", "--json"])
        .expect("it answers");
    let report: twinpath_control::report::Report = serde_json::from_str(&metrics).expect("JSON");
    let inspector = report
        .functions
        .iter()
        .find(|function| function.name == "inspector");
    inspector.map_or(0, |function| function.counters["bans"])
}
