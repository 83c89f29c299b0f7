//! How the functions of a run are configured, in the words of service files.
//!
//! Time-outs are shorter than the long silences with which a run ends: flows then make room for
//! others.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use twinpath_nf::files::Files;

/// After how long without a packet a translation's binding may end.
pub const BINDING_IDLE: Duration = Duration::from_secs(1);

/// What a translation gives out, and with its other configuration too.
pub const EXTERNAL: [[u8; 4]; 2] = [[198, 51, 100, 1], [198, 51, 100, 2]];

/// The network of clients over IPv6, of 48 bits.
pub const CLIENTS_V6: u128 = 0xfd00_0001_0002 << 80;

/// What a translation of prefixes has for it outside, and with its other configuration.
pub const EXTERNAL_V6: [u128; 2] = [0x3fff_0001_0001 << 80, 0x3fff_0001_0002 << 80];

/// Behind what servers of IPv4 are for clients over IPv6, of 96 bits.
pub const BEHIND_V6: u128 = 0x3fff_0064_0000 << 80;

/// A server over IPv6.
pub const SERVER_V6: u128 = 0x3fff_0002_0000 << 80 | 1;

/// What the inspector keeps out wherever it is in a packet.
pub const FORBIDDEN: &str = "attack";

/// The inspector's rules; with its other configuration the second one bans too.
pub fn inspector_rules(is_other: bool) -> String {
    let late = if is_other { "ban" } else { "alert" };
    format!("attack ban literal \"{FORBIDDEN}\"\nlate {late} regex \"tail.*harm\"\n")
}

/// The inspector's configuration; its rules are not in a file.
pub const INSPECTOR: &str = r#"
    rules = "in memory"
    ban_timeout = "2s"
    stream_timeout = "1s"
    streams = 4
"#;

const FIREWALL: &str = r#"
    default = "deny"
    rules = [
        { action = "deny", protocol = "tcp", to_port = 81 },
        { action = "allow", from = "10.0.0.0/8" },
        { action = "allow", from = "2001:db8::/32" },
        { action = "allow", protocol = "icmp" },
    ]
    timeouts = { tcp_established = "9s", tcp_transitory = "2s", tcp_closed = "1s", udp_unreplied = "1s", udp_replied = "2s" }
"#;

const REASSEMBLER: &str = r#"
    gap_timeout = "20us"
    idle_timeout = "2s"
    most_segments_per_flow = 6
    most_segments = 16
"#;

const LOAD_BALANCER: &str = r#"
    table_size = 251
    tcp_timeout = "9s"
    closing_timeout = "1s"
    udp_timeout = "1s"
    services = [
        { vip = "192.0.2.1:80", protocol = "tcp", backends = [
            { endpoint = "10.1.0.2:8080" },
            { endpoint = "10.1.0.3:8080", weight = 2 },
        ], changes = [
            { at = "100us", drain = "10.1.0.2:8080" },
            { at = "300us", remove = "10.1.0.2:8080" },
        ] },
        { vip = "192.0.2.1:80", protocol = "udp", backends = [
            { endpoint = "10.1.0.2:8080" },
            { endpoint = "10.1.0.3:8080" },
        ] },
    ]
"#;

const ACL: &str = r#"
    default = "allow"
    rules = [
        { action = "deny", from = "10.0.0.4/31" },
        { action = "deny", to = "10.0.0.9/32", protocol = "tcp" },
    ]
"#;

const NAPT: &str = r#"
    inside = ["10.0.0.0/8"]
    external = ["198.51.100.1"]
    ports = "1000-1063"
    timeouts = { tcp_established = "1s", tcp_transitory = "1s" }
"#;

const NPTV6: &str = r#"
    prefixes = [{ inside = "fd00:1:2::/48", external = "3fff:1:1::/48" }]
"#;

const NAT64: &str = r#"
    inside = ["fd00:1:2::/48"]
    external = ["198.51.100.1"]
    prefix = "3fff:64::/96"
    ports = "1000-1063"
    timeouts = { tcp_established = "1s", tcp_transitory = "1s" }
"#;

const ROUTER: &str = r#"
    no_route = "drop"
    next_hops = [
        { name = "uplink", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 1 },
        { name = "site", mac = "02:00:00:00:03:01", source_mac = "02:00:00:00:00:03", port = 0 },
    ]
    routes = [
        { to = "0.0.0.0/0", via = "uplink" },
        { to = "10.0.0.0/8", via = "site" },
        { to = "10.0.0.7/32", via = "discard" },
    ]
"#;

const MONITOR: &str = r#"
    by = "hosts"
    idle = "1s"
"#;

const RATE_LIMITER: &str = r#"
    rate_pps = 20_000
    burst_packets = 2
    excess = "delay"
    longest_delay = "100us"
    most_packets_per_flow = 6
    most_packets = 16
    idle_timeout = "2s"
"#;

const REFRAMER: &str = r#"
    window = "20us"
    batch = 3
    most_packets = 16
"#;

const KV_STORE: &str = r#"
    verify_checksums = "state"
"#;

const TELEMETRY: &str = r#"
    idle = "1s"
    active = "3s"
"#;

/// No flow is forgotten, there is room for all, and no rate is limited: then what becomes of a packet follows
/// from those that have left.
const DPU: &str = r#"
    config = ["usual.json", "unlimited.json", "other.json"]
    flows = 8192
    tcp_idle = "2h"
    tcp_transitory_idle = "2h"
    udp_idle = "2h"
    other_idle = "2h"
    mtu = 9100
"#;

/// Two virtual networks with machines in each; access lists, routes and mappings.
const DPU_USUAL: &str = include_str!("../../../../../examples/dpu.json");

/// Rates are judged as packets arrive, and some leave seconds later, behind those that have waited less.
const DPU_UNLIMITED: &str = r#"[
    {"DASH_QOS_TABLE:small": {"qos_id": "small", "bw": 0, "cps": 0, "flows": 100000}, "OP": "SET"}
]"#;

/// A port is closed that was open, a machine moves, a route leads nowhere.
const DPU_OTHER: &str = r#"[
    {"DASH_ACL_RULE_TABLE:out:3": {"priority": 5, "action": "deny", "terminating": true, "protocol": "6,17", "dst_port": "81"}, "OP": "SET"},
    {"DASH_VNET_MAPPING_TABLE:blue:10.0.0.2": {"routing_type": "vnet_encap", "underlay_ip": "20.0.1.99", "mac_address": "02:00:00:00:01:02", "use_dst_vni": true}, "OP": "SET"},
    {"DASH_ROUTE_TABLE:red-routes:10.0.0.0/16": {"routing_type": "drop"}, "OP": "SET"}
]"#;

/// The files that a DPU's configuration names.
#[derive(Copy, Clone, Debug)]
pub struct DpuFiles {
    /// Whether it has the other configuration.
    pub is_other: bool,
}

impl Files for DpuFiles {
    fn read(&self, path: &Path) -> io::Result<Arc<str>> {
        let name = path.file_name().and_then(|name| name.to_str());
        Ok(match (name, self.is_other) {
            (Some("usual.json"), _) => DPU_USUAL,
            (Some("unlimited.json"), _) => DPU_UNLIMITED,
            (_, true) => DPU_OTHER,
            (_, false) => "[]",
        }
        .into())
    }
}

/// The section of a function, or of its other configuration.
pub fn section(function: &str, is_other: bool) -> String {
    let (text, here, there) = match function {
        // Some connections have longer time-outs, and none is refused.
        "firewall" => (FIREWALL, "deny\", protocol", "allow\", protocol"),
        // It waits longer for what is missing.
        "reassembler" => (REASSEMBLER, "20us", "90us"),
        // It has another server instead of the second.
        "load_balancer" => (LOAD_BALANCER, "10.1.0.3", "10.1.0.4"),
        // Another host is denied.
        "acl" => (ACL, "10.0.0.4/31", "10.0.0.6/31"),
        // There is one more address.
        "napt" => (NAPT, "100.1\"", "100.1\", \"198.51.100.2\""),
        // The network has another prefix outside.
        "nptv6" => (NPTV6, "3fff:1:1::", "3fff:1:2::"),
        // There is one more address.
        "nat64" => (NAT64, "100.1\"", "100.1\", \"198.51.100.2\""),
        // The way out leads to another neighbour.
        "router" => (ROUTER, "02:00:00:00:01:01", "02:00:00:00:02:01"),
        // Flows are remembered for longer.
        "monitor" => (MONITOR, "1s", "3s"),
        // Twice the rate.
        "rate_limiter" => (RATE_LIMITER, "20_000", "40_000"),
        // It holds packets for longer.
        "reframer" => (REFRAMER, "20us", "50us"),
        // It does not look at checksums.
        "kv_store" => (KV_STORE, "state", "none"),
        // Records end later.
        "telemetry" => (TELEMETRY, "1s", "2s"),
        "dash" => (DPU, "", ""),
        _ => ("", "", ""),
    };
    let text = match is_other && !here.is_empty() {
        true => text.replace(here, there),
        false => text.to_owned(),
    };
    match is_other && function == "firewall" {
        true => text.replace("2s", "5s"),
        false => text,
    }
}
