//! The network functions under test, configured as users do, and traffic for them.

use super::draw::Draw;
use super::ledger::{Blank, Ledger, Notes};
use super::scenario::{Functions, Scenario, Traffic};
use super::simulation::SetupError;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use twinpath_nf::firewall::Firewall;
use twinpath_nf::load_balancer::LoadBalancer;
use twinpath_nf::reassembler::Reassembler;
use twinpath_slowpath::{Chain, NetworkFunction, Successor};
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

/// One of the chains of a scenario, which become each other.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Variant {
    form: Form,
    /// The functions are configured another way.
    is_other: bool,
}

/// What stands around the ledger; real functions only change their order.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Usual,
    BlankInFront,
    BlankBehind,
}

impl Variant {
    pub fn drawn(draw: &mut Draw) -> Self {
        Self {
            form: draw.pick(&[Form::Usual, Form::BlankInFront, Form::BlankBehind]),
            is_other: draw.flip(),
        }
    }

    /// After how many ticks a ledger's flow expires.
    pub fn expiry_ticks(self, traffic: &Traffic) -> u32 {
        traffic.expiry_ticks << u32::from(self.is_other)
    }

    /// Whether the order is another than usual, or the ledger has others beside it.
    pub fn is_unusual(self) -> bool {
        self.form != Form::Usual
    }
}

/// The chain of a scenario, as each worker has one.
///
/// # Errors
/// A configuration is refused.
pub(super) fn chain(
    scenario: &Scenario,
    variant: Variant,
    notes: &Notes,
) -> Result<Chain, SetupError> {
    Ok(Chain::new(list(scenario, variant, notes)?))
}

/// What becomes of the functions of one chain in another, as production decides it.
///
/// # Errors
/// A configuration is refused.
pub(super) fn successors(
    scenario: &Scenario,
    former: Variant,
    next: Variant,
    notes: &Notes,
) -> Result<Vec<Successor>, SetupError> {
    let names: Vec<_> = list(scenario, former, notes)?
        .iter()
        .map(|function| function.name())
        .collect();
    let follow = |function: Box<dyn NetworkFunction>| {
        let place = names.iter().position(|&name| name == function.name());
        match place.filter(|_| function.name() != "blank") {
            Some(place) if former.is_other == next.is_other => Successor::Same(place),
            Some(place) => Successor::Reconfigured(place, function.into()),
            None => Successor::New(function.into()),
        }
    };
    let functions = list(scenario, next, notes)?;
    Ok(functions.into_iter().map(follow).collect())
}

/// Whether functions have to let go of what they keep before a change.
pub(super) fn must_release(scenario: &Scenario, former: Variant, next: Variant) -> bool {
    let is_other = former.is_other != next.is_other;
    let is_alone = match scenario.functions {
        Functions::Ledger => former.form == next.form,
        _ => former.is_unusual() == next.is_unusual(),
    };
    !is_alone || (is_other && scenario.functions.is_balanced())
}

type List = Vec<Box<dyn NetworkFunction>>;

fn list(scenario: &Scenario, variant: Variant, notes: &Notes) -> Result<List, SetupError> {
    let other = variant.is_other;
    let mut functions = match scenario.functions {
        Functions::Ledger => return Ok(around_ledger(scenario, variant, notes)),
        Functions::Gates => Vec::new(),
        Functions::Firewall => vec![firewall(other)?],
        Functions::Reassembler => vec![reassembler(other)?],
        Functions::LoadBalancer => vec![load_balancer(other)?],
        Functions::ReassemblerAndFirewall => vec![reassembler(other)?, firewall(other)?],
        Functions::FirewallAndLoadBalancer => vec![firewall(other)?, load_balancer(other)?],
    };
    if variant.is_unusual() {
        functions.reverse();
    }
    Ok(functions)
}

fn around_ledger(scenario: &Scenario, variant: Variant, notes: &Notes) -> List {
    let traffic = &scenario.traffic;
    let hold = Duration::from_nanos(traffic.hold_ns);
    let ledger = Box::new(Ledger::new(hold, variant.expiry_ticks(traffic), notes));
    match variant.form {
        Form::Usual => vec![ledger],
        Form::BlankInFront => vec![Box::new(Blank::IN_FRONT), ledger],
        Form::BlankBehind => vec![ledger, Box::new(Blank::BEHIND)],
    }
}

type Built = Result<Box<dyn NetworkFunction>, SetupError>;

/// The other firewall has longer time-outs for some connections, and refuses none.
fn firewall(is_other: bool) -> Built {
    let text = match is_other {
        true => &FIREWALL
            .replace("\"deny\", protocol", "\"allow\", protocol")
            .replace("2s", "5s"),
        false => FIREWALL,
    };
    Ok(Box::new(Firewall::new(&toml::from_str(text)?)))
}

/// The other reassembler waits longer for what is missing.
fn reassembler(is_other: bool) -> Built {
    let text = match is_other {
        true => &REASSEMBLER.replace("20us", "90us"),
        false => REASSEMBLER,
    };
    Ok(Box::new(Reassembler::new(&toml::from_str(text)?)))
}

/// The other balancer has another server instead of the second.
fn load_balancer(is_other: bool) -> Built {
    let text = match is_other {
        true => &LOAD_BALANCER.replace("10.1.0.3", "10.1.0.4"),
        false => LOAD_BALANCER,
    };
    Ok(Box::new(LoadBalancer::new(&toml::from_str(text)?)))
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
