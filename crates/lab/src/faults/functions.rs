//! The network functions under test, configured as users do, and traffic for them.

use super::ledger::{Ledger, Notes};
use super::scenario::{Functions, Scenario, Traffic};
use super::simulation::SetupError;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use twinpath_nf::firewall::Firewall;
use twinpath_nf::load_balancer::LoadBalancer;
use twinpath_nf::reassembler::Reassembler;
use twinpath_slowpath::{Chain, NetworkFunction};
use twinpath_traffic::TrafficConfig;
use twinpath_traffic::config::{FlowSize, Hosts, PacketSize, Service, SizeUnit, Tcp};

// Time-outs are shorter than the long silences with which a run ends: flows then make room for
// others.

const FIREWALL: &str = r#"
    default = "deny"
    rules = [
        { action = "deny", protocol = "tcp", to_port = 81 },
        { action = "allow", from = "10.0.0.0/8" },
        { action = "allow", protocol = "icmp" },
    ]

    [timeouts]
    tcp_established = "9s"
    tcp_transitory = "2s"
    tcp_closed = "1s"
    udp_unreplied = "1s"
    udp_replied = "2s"
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
    [[services]]
    vip = "192.0.2.1:80"
    protocol = "tcp"
    backends = [{ endpoint = "10.1.0.2:8080" }, { endpoint = "10.1.0.3:8080", weight = 2 }]
    changes = [{ at = "100us", drain = "10.1.0.2:8080" }, { at = "300us", remove = "10.1.0.2:8080" }]
    [[services]]
    vip = "192.0.2.1:80"
    protocol = "udp"
    backends = [{ endpoint = "10.1.0.2:8080" }, { endpoint = "10.1.0.3:8080" }]
"#;

/// The chain of a scenario, as each worker has one.
///
/// # Errors
/// A configuration is refused.
pub(super) fn chain(scenario: &Scenario, notes: &Notes) -> Result<Chain, SetupError> {
    Ok(Chain::new(match scenario.functions {
        Functions::Ledger => vec![ledger(&scenario.traffic, notes)],
        Functions::Firewall => vec![firewall()?],
        Functions::Reassembler => vec![reassembler()?],
        Functions::LoadBalancer => vec![load_balancer()?],
        Functions::ReassemblerAndFirewall => vec![reassembler()?, firewall()?],
        Functions::FirewallAndLoadBalancer => vec![firewall()?, load_balancer()?],
    }))
}

fn ledger(traffic: &Traffic, notes: &Notes) -> Box<dyn NetworkFunction> {
    let hold = Duration::from_nanos(traffic.hold_ns);
    Box::new(Ledger::new(hold, traffic.expiry_ticks, notes))
}

type Built = Result<Box<dyn NetworkFunction>, SetupError>;

fn firewall() -> Built {
    Ok(Box::new(Firewall::new(&toml::from_str(FIREWALL)?)))
}

fn reassembler() -> Built {
    Ok(Box::new(Reassembler::new(&toml::from_str(REASSEMBLER)?)))
}

fn load_balancer() -> Built {
    Ok(Box::new(LoadBalancer::new(&toml::from_str(LOAD_BALANCER)?)))
}

/// Generated traffic for functions that users run; its own times are not used.
pub(super) fn traffic(functions: Functions, traffic: &Traffic, seed: u64) -> TrafficConfig {
    TrafficConfig {
        packets: Some(traffic.packets.into()),
        flows: traffic.flows.into(),
        flow_size: FlowSize::Fixed {
            size: 4 + seed % 60,
            unit: SizeUnit::Packets,
        },
        packet_size: PacketSize::Imix {},
        tcp_share: [0.5, 1.0, 0.9][seed as usize % 3],
        tcp: Tcp {
            out_of_order_share: [0.0, 0.05, 0.2][seed as usize / 3 % 3],
            reset_share: 0.2,
            ..Tcp::default()
        },
        fragment_share: 0.05,
        icmp_error_share: 0.02,
        server_packets: !functions.is_balanced(),
        hosts: hosts(),
        ..TrafficConfig::default()
    }
}

fn hosts() -> Hosts {
    let service = |port| Service {
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        port,
        protocol: None,
    };
    Hosts {
        services: vec![service(80), service(80), service(80), service(81)],
        ..Hosts::default()
    }
}
