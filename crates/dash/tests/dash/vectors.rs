//! The test vectors of `vectors/dash`: SONiC's JSON and captures, made by an independent implementation.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use twinpath_core::Instant;
use twinpath_core::wire::tunnel::{Tunnel, VXLAN_PORT};
use twinpath_core::wire::{dissect, fields};
use twinpath_dash::config::Store;
use twinpath_dash::counters::EniCounters;
use twinpath_dash::samples::vectors::{
    Compare, capture, folder, names, settings as settings_of, steps, wanted_counters,
    wanted_device_drops,
};
use twinpath_dash::{Answer, Dpu, DpuStep, Files, Reason, Settings, Verdict, messages};

use crate::common::leaving::treat;

/// Room in front of frames.
const HEADROOM: usize = 160;

struct Device {
    store: Store,
    dpu: Dpu,
    /// Where policies judge, if not at once.
    elsewhere: Option<Dpu>,
}

impl Device {
    fn new(name: &str, is_apart: bool, flows: usize) -> Self {
        let others = Settings {
            flows,
            ..Settings::default()
        };
        let settings = settings_of(name, others);
        let whole = Dpu::new(settings.clone(), 1);
        let tables = Arc::new(whole.tables().clone());
        let (dpu, elsewhere) = match is_apart {
            true => {
                let fast = Dpu::with_policies_elsewhere(settings, tables, 1);
                (fast, Some(whole))
            }
            false => (whole, None),
        };
        Self {
            store: Store::default(),
            dpu,
            elsewhere,
        }
    }

    /// Puts a configuration in force. Returns what waits for others, or is wrong.
    fn configure(&mut self, config: &[u8]) -> Vec<String> {
        let mut files = Files::default();
        files.add_text("config.json".into(), config);
        let problems = files
            .problems
            .iter()
            .map(|(_, problem)| problem.to_string());
        let mut wrong: Vec<_> = problems.collect();
        let applied = self.store.apply(files.changes);
        wrong.extend(self.store.waiting().map(|(key, _)| key.to_string()));
        let snapshot = self.store.snapshot();
        let all = self.elsewhere.as_mut().unwrap_or(&mut self.dpu);
        all.update(&snapshot.configuration, &applied.changed);
        if let Some(policies) = &self.elsewhere {
            self.dpu.set_tables(Arc::new(policies.tables().clone()));
        }
        wrong
    }

    /// What leaves, be it the packet or what its sender is told.
    fn send(&mut self, time_ns: u64, packet: &[u8]) -> Result<Vec<u8>, Reason> {
        self.dpu.tick(Instant(time_ns));
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(packet);
        match self.process(&mut buffer, Instant(time_ns)) {
            Verdict::Forward(frame) => Ok(buffer[frame].to_vec()),
            Verdict::Drop(reason) => Err(reason),
            Verdict::TooLong(error) => Ok(error),
        }
    }

    /// What becomes of a packet. What policies are asked crosses as bytes, as between two paths.
    fn process(&mut self, buffer: &mut Vec<u8>, now: Instant) -> Verdict {
        let Some(policies) = &self.elsewhere else {
            return treat(&mut self.dpu, buffer, now);
        };
        let mut step = self.dpu.begin(buffer, HEADROOM, now);
        loop {
            match step {
                DpuStep::Done(verdict) => return verdict,
                DpuStep::Wait(key) => panic!("{key:?} was answered"),
                DpuStep::Ask(question) => {
                    let words = messages::arrival_words(&question.arrival);
                    let arrival = messages::read_arrival(&words).expect("an arrival");
                    let said = messages::answer_bytes(&policies.answer(&arrival));
                    let said = messages::read_answer(&said).expect("an answer");
                    self.dpu.no_longer_asked(&question.key);
                    let answer = Answer { question, said };
                    step = self.dpu.resume(buffer, HEADROOM, now, Some(&answer));
                }
            }
        }
    }

    /// Sends a step's packets. What leaves is what is expected, or else the first difference is told.
    fn step(&mut self, folder: &Path, compare: &Compare) -> Result<(), String> {
        let mut expected = capture(&folder.join("expected.pcap")).into_iter();
        let mut left = Vec::new();
        let mut dropped = Vec::new();
        let what = folder.display();
        for (number, (time_ns, packet)) in capture(&folder.join("in.pcap")).iter().enumerate() {
            match self.send(*time_ns, packet) {
                Ok(sent) => {
                    let wanted = expected.next().map(|(_, wanted)| wanted);
                    let wanted = wanted.ok_or(format!("{what}: packet {number} should be dropped"));
                    let counting = [&sent, &wanted?].map(|frame| hex(&compare.counting(frame)));
                    left.push(sent);
                    if counting[0] != counting[1] {
                        let [sent, wanted] = counting;
                        return Err(format!(
                            "{what}: packet {number}, after {dropped:?} were dropped:\n{sent}\nexpected\n{wanted}"
                        ));
                    }
                }
                Err(reason) => dropped.push((number, reason)),
            }
        }
        compare.check_all(left.iter().map(Vec::as_slice));
        match expected.count() {
            0 => Ok(()),
            _ => Err(format!(
                "{what}: more than wanted were dropped: {dropped:?}"
            )),
        }
    }

    fn check_counters(&self, eni: &str, wanted: &Value) -> Result<(), String> {
        let counters = self
            .dpu
            .counters(&eni.into())
            .ok_or(format!("no ENI {eni}"))?;
        let drops: serde_json::Map<_, _> = counters
            .drops
            .nonzero()
            .map(|(reason, count)| (reason.name().to_owned(), count.into()))
            .collect();
        let same = |counted: &Value, wanted: &Value, what: &str| match counted == wanted {
            true => Ok(()),
            false => Err(format!("{eni}: {what} {counted}, expected {wanted}")),
        };
        for (name, count) in wanted["counters"].as_object().into_iter().flatten() {
            same(&counted(counters, name).into(), count, name)?;
        }
        if wanted["drops"].is_object() {
            same(&drops.into(), &wanted["drops"], "drops")?;
        }
        for (class, bytes) in wanted["meters"].as_object().into_iter().flatten() {
            let counted = counters.meters.of(class.parse().expect("a class"));
            same(
                &Value::from(counted.to_vec()),
                bytes,
                &format!("class {class}"),
            )?;
        }
        Ok(())
    }
}

/// What an ENI has counted under one of SAI's names.
fn counted(counters: &EniCounters, name: &str) -> u64 {
    let [out, back] = [0, 1];
    let (received, sent) = (&counters.received, &counters.sent);
    let drops = |reasons: &[Reason]| -> u64 {
        let counts = reasons.iter().map(|reason| counters.drops.of(*reason));
        counts.sum()
    };
    match name {
        "RX_PACKETS" => received[out].packets + received[back].packets,
        "TX_PACKETS" => sent[out].packets + sent[back].packets,
        "OUTBOUND_RX_PACKETS" => received[out].packets,
        "OUTBOUND_TX_PACKETS" => sent[out].packets,
        "INBOUND_RX_PACKETS" => received[back].packets,
        "INBOUND_TX_PACKETS" => sent[back].packets,
        "FLOW_CREATED" => counters.flows_created,
        "FLOW_CREATE_FAILED" => drops(&[
            Reason::FlowLimit,
            Reason::ConnectionRate,
            Reason::FlowTableFull,
            Reason::FlowClash,
        ]),
        "FLOW_UPDATED_BY_RESIMULATION" => counters.flows_resimulated,
        "FLOW_DELETED" => counters.flows_removed + counters.flows_closed,
        "FLOW_AGED" => counters.flows_aged,
        "LB_FAST_PATH_ICMP_IN_PACKETS" => counters.redirects,
        "TOTAL_DROP_PACKETS" => counters.drops.total(),
        "FORWARDING_DROP_PACKETS" => drops(&[
            Reason::RouteMiss,
            Reason::MappingMiss,
            Reason::InboundRouteMiss,
            Reason::RouteGroupMiss,
            Reason::PortMapMiss,
            Reason::PortRangeMiss,
        ]),
        "PA_VALIDATION_FAIL_DROP_PACKETS" => drops(&[Reason::PaValidation]),
        "INBOUND_ROUTING_ENTRY_MISS_DROP_PACKETS" => drops(&[Reason::InboundRouteMiss]),
        "OUTBOUND_ROUTING_ENTRY_MISS_DROP_PACKETS" => drops(&[Reason::RouteMiss]),
        "OUTBOUND_ROUTING_GROUP_MISS_DROP_PACKETS" => drops(&[Reason::RouteGroupMiss]),
        "OUTBOUND_CA_PA_ENTRY_MISS_DROP_PACKETS" => drops(&[Reason::MappingMiss]),
        "OUTBOUND_PORT_MAP_MISS_DROP_PACKETS" => drops(&[Reason::PortMapMiss]),
        "OUTBOUND_PORT_MAP_PORT_RANGE_ENTRY_MISS_DROP_PACKETS" => drops(&[Reason::PortRangeMiss]),
        other => panic!("no counter {other}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    let words = bytes.chunks(2);
    let words: Vec<_> = words
        .map(|word| {
            word.iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        })
        .collect();
    words.join(" ")
}

fn run(name: &str) {
    for is_apart in [false, true] {
        let mut device = Device::new(name, is_apart, by_default());
        for step in steps(name) {
            assert_eq!(
                device.configure(&config(&step)),
                [""; 0],
                "{}",
                step.display()
            );
        }
        outcome(name, is_apart, by_default(), &configs(name)).expect("what the vector says");
    }
}

/// How many flows a device has room for that does not say.
fn by_default() -> usize {
    Settings::default().flows
}

/// Room for all flows of any vector: a device that is made thousands of times has no more.
const FEW: usize = 1024;

fn config(step: &Path) -> Vec<u8> {
    std::fs::read(step.join("config.json")).expect("a configuration")
}

/// What each step puts in force.
fn configs(name: &str) -> Vec<Vec<u8>> {
    steps(name).iter().map(|step| config(step)).collect()
}

/// What comes of a vector whose steps put these in force.
fn outcome(name: &str, is_apart: bool, flows: usize, configs: &[Vec<u8>]) -> Result<(), String> {
    let compare = Compare::read(&folder().join(name));
    let mut device = Device::new(name, is_apart, flows);
    for (step, config) in steps(name).iter().zip(configs) {
        device.configure(config);
        device.step(step, &compare)?;
    }
    let dropped: serde_json::Map<_, _> = device
        .dpu
        .drops()
        .nonzero()
        .map(|(reason, count)| (reason.name().to_owned(), count.into()))
        .collect();
    match wanted_device_drops(name) {
        Some(wanted) if wanted != Value::from(dropped.clone()) => {
            return Err(format!("dropped {dropped:?}, expected {wanted}"));
        }
        _ => {}
    }
    wanted_counters(name)
        .iter()
        .try_for_each(|(eni, wanted)| device.check_counters(eni, wanted))
}

/// What a vector over an underlay of IPv6 has behind its name.
const OVER_V6: &str = "_over_v6";

macro_rules! vectors {
    ($($name:ident)*) => {
        $(mod $name {
            #[test]
            fn over_v4() {
                super::run(stringify!($name));
            }

            #[test]
            fn over_v6() {
                super::run(&format!("{}{}", stringify!($name), super::OVER_V6));
            }
        })*

        #[test]
        fn every_vector_is_run() {
            let named = [$(stringify!($name)),*];
            for name in names() {
                let is_run = named.contains(&name.trim_end_matches(OVER_V6)) || name == "over_v6";
                assert!(is_run, "{name} is not run");
            }
        }
    };
}

vectors! {
    acl
    acl_changes
    acl_inbound
    admission
    counters
    dscp_pipe
    dscp_preserve
    dscp_uniform
    ends
    fast_path
    fast_path_answers
    fast_path_private_link
    fast_path_public
    fast_path_strangers
    floating_nic
    floating_nic_directions
    fragments
    inbound
    inner_vlan
    inner_vlan_passes
    limits
    load_balancer
    metering
    mid_connection
    mtu
    mtu_without_df
    nat_gateway
    nat_gateway_v6
    outer_vlan
    own_ends
    port_map_must_match
    private_link
    private_link_nsg
    private_link_nsg_answers
    private_link_redirect
    routes
    service_tunnel
    settings
    trusted_vni
    tunnel_endpoints
    tunnels
    udp_checksums
    vnet
    vxlan_port
    vxlan_source_ports
}

#[test]
fn over_v6() {
    run("over_v6");
}

/// VXLAN's own, and that of a vector.
const VXLAN_PORTS: [u16; 2] = [VXLAN_PORT, 4790];

/// The IP versions that packets have outside and inside, in a step's capture.
fn versions(step: &Path, name: &str) -> BTreeSet<[bool; 2]> {
    let packets = capture(&step.join(name)).into_iter();
    let of = |(_, packet): (u64, Vec<u8>)| {
        let is_v4 = |frame: &[u8]| {
            let layout = dissect(frame).expect("sound");
            fields::source_address(frame, &layout).is_v4()
        };
        let mut inner = &packet[..];
        while let Ok(layout) = dissect(inner)
            && let Some(tunnel) = VXLAN_PORTS
                .iter()
                .find_map(|port| Tunnel::read(inner, &layout, *port).ok())
        {
            inner = &inner[tunnel.inner()];
        }
        [is_v4(&packet), is_v4(inner)]
    };
    packets.map(of).collect()
}

/// Vectors of what takes IPv4 to IPv6: nothing else is asked of it.
const TO_V6: [&str; 7] = [
    "fast_path_private_link",
    "port_map_must_match",
    "private_link",
    "private_link_nsg",
    "private_link_nsg_answers",
    "private_link_redirect",
    "service_tunnel",
];

/// Each vector has packets that come and packets that leave, of both IP versions inside; where there are
/// counters, something counts; and each change in between has packets after it.
#[test]
fn no_vector_is_void() {
    let mut outside = BTreeSet::new();
    for name in names() {
        let [mut came, mut left] = [BTreeSet::new(), BTreeSet::new()];
        for step in steps(&name) {
            let now = versions(&step, "in.pcap");
            assert!(!now.is_empty(), "{}: nothing comes", step.display());
            came.extend(now);
            left.extend(versions(&step, "expected.pcap"));
        }
        let is_to_v6 = TO_V6.contains(&name.trim_end_matches(OVER_V6));
        for (packets, needed) in [(&came, true), (&left, false)] {
            let is_there = |is_v4| packets.iter().any(|[_, inside]| *inside == is_v4);
            let is_enough = is_there(needed) && (is_to_v6 || is_there(!needed));
            assert!(is_enough, "{name}: {packets:?}");
        }
        outside.extend(came.iter().chain(&left).copied());
        for (eni, counters) in wanted_counters(&name) {
            let kinds = ["drops", "meters", "counters"].map(|kind| &counters[kind]);
            // That nothing is dropped says something, too.
            let is_said = kinds.iter().any(|kind| kind.is_object());
            assert!(is_said, "{name}: nothing of {eni} is counted");
        }
    }
    assert_eq!(outside.len(), 4, "IPv4 and IPv6 in both");
}

/// Packets of a flow wait for what is asked about its first one, and leave in order behind it.
#[test]
fn packets_of_a_flow_wait_for_its_first() {
    let folder = folder().join("vnet");
    let mut device = Device::new("vnet", true, FEW);
    device.configure(&config(&folder));
    let (time_ns, packet) = capture(&folder.join("in.pcap")).swap_remove(0);
    let buffer = || {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&packet);
        buffer
    };
    let (mut first, mut second, now) = (buffer(), buffer(), Instant(time_ns));
    let DpuStep::Ask(question) = device.dpu.begin(&mut first, HEADROOM, now) else {
        panic!("policies judge the first packet of a flow");
    };
    let step = device.dpu.begin(&mut second, HEADROOM, now);
    assert_eq!(step, DpuStep::Wait(question.key));
    let counted = device.dpu.counters(&"eni1".into()).expect("an ENI").clone();
    assert_eq!(counted.received[0].packets, 2, "both have come");
    assert_eq!((counted.flow_misses, counted.flows_created), (0, 0));
    let policies = device.elsewhere.as_ref().expect("apart");
    let said = policies.answer(&question.arrival);
    device.dpu.no_longer_asked(&question.key);
    let answer = Answer { question, said };
    let step = device.dpu.resume(&mut first, HEADROOM, now, Some(&answer));
    assert!(
        matches!(step, DpuStep::Done(Verdict::Forward(_))),
        "{step:?}"
    );
    let step = device.dpu.resume(&mut second, HEADROOM, now, None);
    assert!(
        matches!(step, DpuStep::Done(Verdict::Forward(_))),
        "{step:?}"
    );
    let counted = device.dpu.counters(&"eni1".into()).expect("an ENI");
    assert_eq!((counted.flow_misses, counted.flow_hits), (1, 1));
    assert_eq!(counted.received[0].packets, 2, "none has come twice");
}

/// What is left out of a configuration.
#[derive(Copy, Clone, PartialEq, Eq)]
enum LeftOut<'c> {
    Object,
    Field(&'c str),
}

/// A configuration without one of its objects, or without a field of it.
fn without(config: &Value, number: usize, what: LeftOut<'_>) -> Vec<u8> {
    let mut items = config.as_array().expect("a list").clone();
    match what {
        LeftOut::Object => _ = items.remove(number),
        LeftOut::Field(field) => {
            let (_, fields) = object_in(&mut items[number]).expect("an object");
            fields.remove(field);
        }
    }
    Value::from(items).to_string().into_bytes()
}

/// The key of an item, and its fields if it sets some.
fn object_in(item: &mut Value) -> Option<(String, &mut serde_json::Map<String, Value>)> {
    let item = item
        .as_object_mut()?
        .iter_mut()
        .find(|(key, _)| *key != "OP")?;
    Some((item.0.clone(), item.1.as_object_mut()?))
}

/// Fields that change nothing of what packets meet, in any configuration.
const WITHOUT_EFFECT: &[&str] = &[
    "DASH_ACL_GROUP_TABLE guid",
    "DASH_APPLIANCE_TABLE local_region_id",
    "DASH_ENI_TABLE eni_id",
    "DASH_OUTBOUND_PORT_MAP_TABLE guid",
    "DASH_QOS_TABLE qos_id",
    "DASH_ROUTE_GROUP_TABLE guid",
    "DASH_ROUTE_GROUP_TABLE version",
    // Routes do what their own action says.
    "DASH_ROUTING_TYPE_TABLE:direct items",
    "DASH_ROUTING_TYPE_TABLE:drop items",
    "DASH_ROUTING_TYPE_TABLE:vnet_direct items",
    "DASH_VNET_TABLE guid",
];

/// Rules that a vector has beside those that its packets need: what is refused there would be without them.
const BESIDE: [&str; 7] = [
    "DASH_ACL_RULE_TABLE:open6:1",
    "DASH_ROUTE_RULE_TABLE:eni1:1001:100.0.0.0/24",
    "DASH_ROUTE_RULE_TABLE:eni1:1001:2001:db8:ca::6400:0/120",
    "DASH_ROUTE_RULE_TABLE:eni1:911:0.0.0.0/0",
    "DASH_ROUTE_RULE_TABLE:eni1:911:::/0",
    "DASH_ROUTE_RULE_TABLE:eni1:1003:0.0.0.0/0",
    "DASH_ROUTE_RULE_TABLE:eni1:1003:::/0",
];

/// Objects that each count for themselves: of the others it is enough that their fields do.
const RULES: [&str; 3] = [
    "DASH_ACL_RULE_TABLE",
    "DASH_ROUTE_RULE_TABLE",
    "DASH_METER_RULE_TABLE",
];

/// Nothing stands in a configuration for show: without any rule of a vector its packets or counters are
/// others, and without any field of any table those of some vector.
#[test]
fn whatever_is_configured_is_noticed() {
    let (mut fields, mut noticed) = (BTreeSet::new(), BTreeSet::new());
    let mut rules = Vec::new();
    for name in names() {
        let original = configs(&name);
        let is_noticed = |step: usize, config: Vec<u8>| {
            let mut configs = original.clone();
            configs[step] = config;
            let run = || outcome(&name, false, FEW, &configs).is_err();
            std::panic::catch_unwind(run).unwrap_or(true)
        };
        for (step, config) in original.iter().enumerate() {
            let config: Value = serde_json::from_slice(config).expect("JSON");
            let items = config.as_array().expect("a list");
            for (number, item) in items.iter().enumerate() {
                let mut item = item.clone();
                let Some((key, values)) = object_in(&mut item) else {
                    continue;
                };
                let table = key.split(':').next().unwrap_or_default();
                // Each routing type is another thing.
                let what = if table == "DASH_ROUTING_TYPE_TABLE" {
                    &*key
                } else {
                    table
                };
                for field in values.keys() {
                    let full = format!("{what} {field}");
                    fields.insert(full.clone());
                    if !noticed.contains(&full)
                        && is_noticed(step, without(&config, number, LeftOut::Field(field)))
                    {
                        noticed.insert(full);
                    }
                }
                let whole = without(&config, number, LeftOut::Object);
                let is_rule = RULES.contains(&table) && !BESIDE.contains(&&*key);
                if is_rule && !is_noticed(step, whole) {
                    rules.push(format!("{name}, step {}: {key}", step + 1));
                }
            }
        }
    }
    let unnoticed = fields.difference(&noticed).map(String::as_str);
    let unnoticed: Vec<_> = unnoticed
        .filter(|field| !WITHOUT_EFFECT.contains(field))
        .collect();
    assert!(
        unnoticed.is_empty() && rules.is_empty(),
        "{unnoticed:#?} {rules:#?}"
    );
    for field in WITHOUT_EFFECT {
        assert!(!noticed.contains(*field), "{field} has an effect");
    }
}
