//! Chains of several functions, with packets that they act on: flow state, rules, both, and
//! translations of every kind. What reaches servers is answered.

use super::{answer, generate, run, service, traffic};
use std::time::Duration;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_io::Trace;

/// A chain, and packets for it.
pub struct Chain {
    pub functions: &'static [&'static str],
    pub service: Service,
    pub trace: Trace,
}

/// Addresses that a translation gives out.
pub const EXTERNAL: &str = "198.51.100.0/24";

const FUNCTIONS: [&[&str]; 8] = [
    &["acl", "firewall", "napt", "monitor"],
    &["firewall", "reassembler"],
    &["acl", "monitor"],
    &["load_balancer", "monitor"],
    &["firewall", "acl", "inspector"],
    &["acl", "nptv6", "router"],
    &["firewall", "nat64", "router"],
    &["acl", "napt", "router"],
];

const TABLES: &str = r#"
[fast_path]
hot_packets = 2
[rule_cache]
window = "2ms"
threshold = 1
[acl]
default = "allow"
rules = [{ action = "deny", from = "10.0.2.0/24" }, { action = "deny", from = "fd00:1:0:1::200/120" }]
[monitor]
by = "hosts"
[firewall]
default = "allow"
[reassembler]
gap_timeout = "1h"
idle_timeout = "2h"
[napt]
inside = ["10.0.0.0/8"]
external = ["198.51.100.1", "198.51.100.2"]
assignment = "preserve"
[nat64]
inside = ["fd00::/8"]
external = ["198.51.100.1", "198.51.100.2"]
assignment = "preserve"
[nptv6]
prefixes = [{ inside = "fd00:1::/48", external = "2001:db8:1::/48" }]
[router]
next_hops = [{ name = "up", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 1 }]
routes = [{ to = "0.0.0.0/0", via = "up" }, { to = "::/0", via = "up" }]
"#;

const BALANCER: &str = "[load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", \
     backends = [{ endpoint = \"192.0.2.1:80\" }, { endpoint = \"192.0.2.2:80\" }] }]\n";

/// All of them, each with about so many packets.
pub fn all(packets: usize) -> Vec<Chain> {
    let chains = FUNCTIONS.into_iter();
    chains
        .map(|functions| Chain::of(functions, packets))
        .collect()
}

impl Chain {
    fn of(functions: &'static [&'static str], packets: usize) -> Self {
        let service = service(&text(functions));
        let trace = conversation(&service, &requests(functions, packets / 2));
        Self {
            functions,
            service,
            trace,
        }
    }
}

fn text(functions: &[&str]) -> String {
    let rules = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/inspector.rules"
    );
    let inspector = format!("[inspector]\ndepth = 64\ngaps = \"inspect\"\nrules = {rules:?}\n");
    let service = format!("[service]\nchain = {functions:?}\n");
    let knows_inside = |name: &&str| ["acl", "monitor", "napt", "nat64", "nptv6"].contains(name);
    let inside = match functions.iter().any(knows_inside) {
        true => "inside = [\"10.0.0.0/8\", \"fd00::/8\"]\n",
        false => "",
    };
    service + inside + TABLES + BALANCER + &inspector
}

/// What clients send.
fn requests(functions: &[&str], packets: usize) -> Trace {
    let hosts = match functions[1] {
        _ if functions[0] == "load_balancer" => {
            "services = [{ address = \"10.255.0.1\", port = 80, protocol = \"tcp\" }]"
        }
        "nptv6" => "ipv6_share = 1.0, first_client_v6 = \"fd00:1:0:1::1\"",
        "nat64" => {
            "ipv6_share = 1.0, first_client_v6 = \"fd00:1::1\", first_server_v6 = \"64:ff9b::192.0.2.1\""
        }
        _ => "ipv6_share = 0.0",
    };
    let signatures = match functions.contains(&"inspector") {
        true => {
            "signatures = [{ text = \"card=4111-1111-1111-1111\", share = 0.02 }]\npacket_size = { kind = \"imix\" }\n"
        }
        false => "",
    };
    let text = format!(
        "packets = {packets}\n{signatures}flows = 40\nchurn_per_minute = 6000.0\nserver_packets = false\ntcp_share = 0.3\n\
         popularity = {{ distribution = \"zipf\", exponent = 0.99 }}\n\
         arrivals = {{ process = \"poisson\", rate_pps = 10000.0 }}\nhosts = {{ servers = 6, {hosts} }}\n"
    );
    generate(&traffic(&text), 5)
}

/// After so long servers answer.
const ANSWERED_AFTER: Duration = Duration::from_micros(500);

/// Requests, and answers to what the slow path alone makes of them.
fn conversation(service: &Service, requests: &Trace) -> Trace {
    let alone = run(service, requests, Paths::Slow, Execution::Virtual);
    let after = ANSWERED_AFTER.as_nanos() as u64;
    let answers = alone.packets.iter();
    let answers = answers.filter_map(|(at, packet)| Some((at + after, answer(packet)?)));
    let sent = requests.iter();
    let sent = sent.map(|frame| (frame.timestamp_ns, frame.frame.to_vec()));
    let mut all: Vec<_> = sent.chain(answers).collect();
    all.sort_by_key(|(at, _)| *at);
    let mut trace = Trace::new();
    all.iter().for_each(|(at, packet)| trace.push(*at, packet));
    trace
}
