//! The network functions under test, configured as users do, and traffic for them.

use super::draw::Draw;
use super::elements::{self, Element};
use super::gate::Changes;
use super::ledger::{Blank, Ledger, Notes};
use super::scenario::{Functions, Scenario, Traffic};
use super::simulation::SetupError;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use twinpath_control::operator::Applied;
use twinpath_nf::firewall::Firewall;
use twinpath_nf::inspector::{DeepMatcher, Inspector, Rules};
use twinpath_nf::kv_store::{self, KvStore};
use twinpath_nf::load_balancer::LoadBalancer;
use twinpath_nf::reassembler::Reassembler;
use twinpath_node::replacement::{CorePlan, FastPlan, FunctionPlan, Replacement};
use twinpath_node::worker::Blueprint;
use twinpath_slowpath::{Chain, NetworkFunction, NextFunction};
use twinpath_traffic::TrafficConfig;
use twinpath_traffic::config::{
    FlowSize, Hosts, KeyValue, PacketSize, Service, Signature, SizeUnit, Tcp,
};

// Time-outs are shorter than the long silences with which a run ends: flows then make room for
// others.

const FIREWALL: &str = r#"
    default = "deny"
    rules = [
        { action = "deny", protocol = "tcp", to_port = 81 },
        { action = "allow", from = "10.0.0.0/8" },
        { action = "allow", from = "2001:db8::/32" },
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

const INSPECTOR_RULES: &str = "attack ban literal \"attack\"\nlate alert regex \"tail.*harm\"\n";

const INSPECTOR: &str = r#"
    rules = "in memory"
    ban_timeout = "2s"
    stream_timeout = "1s"
    streams = 4
"#;

/// One of the chains of a scenario, which become each other.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Variant {
    form: Form,
    /// Counts the elements with rules: others come, and gates go on or are new ones.
    gates: u32,
    /// The functions are configured another way.
    is_other: bool,
}

/// What stands around the ledger; real functions only change their order.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
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
            gates: draw.below(6) as u32,
        }
    }

    /// Whether the elements with rules stay as they are.
    pub fn keeps_tables_of(self, former: Self) -> bool {
        self.gates / 2 == former.gates / 2
    }

    fn keeps_gates_of(self, former: Self) -> bool {
        self.keeps_tables_of(former) || self.gates % 2 == former.gates % 2
    }

    /// After how many ticks a ledger's flow expires.
    pub fn expiry_ticks(self, traffic: &Traffic) -> u32 {
        traffic.expiry_ticks << u32::from(self.is_other)
    }

    /// What the element with flow state is made of.
    pub fn state(self) -> (Form, bool) {
        (self.form, self.is_other)
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
fn successors(
    scenario: &Scenario,
    former: Variant,
    next: Variant,
    notes: &Notes,
) -> Result<Vec<NextFunction>, SetupError> {
    let names: Vec<_> = list(scenario, former, notes)?
        .iter()
        .map(|function| function.name())
        .collect();
    let follow = |function: Box<dyn NetworkFunction>| {
        let place = names.iter().position(|&name| name == function.name());
        match place.filter(|_| function.name() != "blank") {
            Some(place) if former.is_other == next.is_other => NextFunction::Same(place),
            Some(place) => NextFunction::Reconfigured(place, function.into()),
            None => NextFunction::New(function.into()),
        }
    };
    let functions = list(scenario, next, notes)?;
    Ok(functions.into_iter().map(follow).collect())
}

/// Who hears what functions do, and the seed.
pub(super) type Handles<'a> = (&'a Notes, &'a Changes, u64);

/// What makes a worker's elements.
pub(super) fn blueprint(scenario: &Scenario, variant: Variant, handles: Handles<'_>) -> Blueprint {
    let (scenario, notes, changes) = (
        scenario.clone(),
        Arc::clone(handles.0),
        Arc::clone(handles.1),
    );
    let seed = handles.2;
    // A configuration that was taken once is taken again.
    Arc::new(move || {
        Ok(elements::cores(&scenario, variant, (&notes, &changes, seed)).unwrap_or_default())
    })
}

/// One of a scenario's chains becomes another, as production would plan it.
///
/// # Errors
/// A configuration is refused.
pub(super) fn replacement(
    scenario: &Scenario,
    former: Variant,
    next: Variant,
    handles: Handles<'_>,
) -> Result<Replacement, SetupError> {
    let (notes, changes, seed) = handles;
    let chain = chain(scenario, next, notes)?;
    let changes_state = scenario.elements.have_state() && former.state() != next.state();
    let mut fast = Vec::new();
    let mut cores: Vec<Vec<CorePlan>> = Vec::new();
    cores.resize_with(scenario.resources.workers, Vec::new);
    for (number, element) in scenario.elements.list().iter().enumerate() {
        let is_kept = match element {
            Element::State => !changes_state,
            Element::Rules(_) => next.keeps_tables_of(former),
        };
        if is_kept {
            fast.push(FastPlan::Keep(number));
            cores
                .iter_mut()
                .for_each(|plans| plans.push(CorePlan::Keep(number)));
            continue;
        }
        fast.push(FastPlan::New(elements::fast_element(
            scenario, element, &chain, seed,
        )?));
        for plans in &mut cores {
            plans.push(match element {
                Element::State => {
                    CorePlan::Flows(number, successors(scenario, former, next, notes)?)
                }
                Element::Rules(gates) => {
                    let keeps = next.keeps_gates_of(former);
                    let functions = (0..).zip(*gates).map(|(place, &gate)| match keeps {
                        true => FunctionPlan::Keep {
                            element: number,
                            place,
                            change: None,
                        },
                        false => FunctionPlan::New(elements::gate(scenario, gate, changes).into()),
                    });
                    let rules = elements::rule_cores(scenario, Vec::new());
                    CorePlan::Rules(Box::new(rules), functions.collect())
                }
            });
        }
    }
    Ok(Replacement {
        sides: scenario.elements.sides(),
        steering: chain.steering(seed)?,
        fast,
        cores,
        blueprint: blueprint(scenario, next, handles),
        brings_flows_home: changes_state,
        releases_packets: changes_state && must_release(scenario, former, next),
        pools: None,
        applied: Applied::default(),
        old_elements: 1,
        has_other_sides: false,
    })
}

/// Whether functions have to let go of what they keep before a change.
fn must_release(scenario: &Scenario, former: Variant, next: Variant) -> bool {
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
        Functions::ReassemblerAndInspector => vec![reassembler(other)?, inspector()?],
        Functions::KvStore => vec![kv_store()],
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

fn kv_store() -> Box<dyn NetworkFunction> {
    Box::new(KvStore::new(&kv_store::Config::default()))
}

fn inspector() -> Built {
    let rules = Rules::parse(INSPECTOR_RULES, "rules of the simulation")?;
    let config = toml::from_str(INSPECTOR)?;
    let matcher = DeepMatcher::new(&rules)?;
    Ok(Box::new(Inspector::new(&config, &rules, matcher)))
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
        hosts: Hosts {
            // There are no balanced services over IPv6 here.
            ipv6_share: [0.0, 0.3, 1.0][seed as usize / 9 % 3]
                * f64::from(u8::from(!functions.is_balanced())),
            ..hosts()
        },
        signatures: [("attack", 0), ("harmless", 0), ("tail attack", 3)]
            .map(|(text, offset)| Signature {
                text: text.to_owned(),
                offset,
                share: 0.05,
            })
            .to_vec(),
        kv: (functions == Functions::KvStore).then(|| KeyValue {
            share: 1.0,
            get_share: 0.5,
            keys: traffic.flows.into(),
            ..KeyValue::default()
        }),
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
