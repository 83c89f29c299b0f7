//! Configurations of a box: what SONiC writes for each DPU and for the switch in front, as JSON, and what the
//! production reader makes of it.
//!
//! Each ENI has a network of its own, ten access lists in a row for each direction's five stages, routes and
//! mappings. All machines have the same address: tenants' addresses are their own business.

use super::parameters::Setting;
use crate::model::ParameterError;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_dash::Files;
use twinpath_dash::config::{Applied, Snapshot, Store};

/// The address of all DPUs, to which hosts send.
pub(super) const VIP: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 5);
/// The VNI of packets from machines.
pub(super) const VM_VNI: u32 = 9001;
/// The address of every machine.
pub(super) const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Access lists of an ENI, half of them for each direction.
const LISTS: u32 = 10;

/// The VNI of an ENI's network.
pub(super) fn vni(eni: u32) -> u32 {
    10_000 + eni
}

/// The MAC address of an ENI.
pub(super) fn mac(eni: u32) -> MacAddress {
    let [_, _, high, low] = eni.to_be_bytes();
    MacAddress([0x02, 0, 0, 0x01, high, low])
}

/// The address in the underlay of the host that an ENI's machine is on.
pub(super) fn host(eni: u32) -> Ipv4Addr {
    let [_, _, high, low] = eni.to_be_bytes();
    Ipv4Addr::new(20, 0, high, low)
}

/// The address of whom a machine speaks with.
pub(super) fn peer(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 128, 0, 0)) + number)
}

/// The address in the underlay of the host that this one is on.
pub(super) fn peer_host(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(20, 64, 0, 0)) + number)
}

/// The MAC address of whom a machine speaks with.
pub(super) fn peer_mac(number: u32) -> MacAddress {
    let [_, b, c, d] = number.to_be_bytes();
    MacAddress([0x02, 0, 0x02, b, c, d])
}

/// The address of a DPU, as the switch knows it.
pub(super) fn dpu_address(dpu: u16) -> Address {
    let [high, low] = dpu.to_be_bytes();
    Address::from_v4([18, high, low, 1])
}

/// Reads a text as SONiC's, which must be whole.
pub(super) fn read(text: &str) -> Result<(Applied, Arc<Snapshot>), ParameterError> {
    let mut files = Files::default();
    files.add_text("configuration.json".into(), text.as_bytes());
    let mut store = Store::default();
    let refused = files
        .problems
        .first()
        .map(|(_, problem)| problem.to_string());
    let applied = store.apply(files.changes);
    let waiting = store
        .waiting()
        .next()
        .map(|(key, _)| format!("{key} waits"));
    match refused.or(waiting) {
        Some(message) => Err(ParameterError {
            field: None,
            message,
        }),
        None => Ok((applied, store.snapshot())),
    }
}

/// Objects, one a line.
struct Objects(String);

impl Objects {
    fn new() -> Self {
        Self(String::from("[\n"))
    }

    fn set(&mut self, key: std::fmt::Arguments<'_>, fields: std::fmt::Arguments<'_>) {
        let comma = if self.0.len() > 2 { ",\n" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(
            self.0,
            "{comma}{{\"DASH_{key}\":{{{fields}}},\"OP\":\"SET\"}}"
        );
    }

    fn end(mut self) -> String {
        self.0.push_str("\n]\n");
        self.0
    }
}

/// What SONiC writes for a DPU.
pub(super) fn of_dpu(setting: &Setting, dpu: u16) -> String {
    let mut objects = Objects::new();
    let last = vni(setting.parameters.enis);
    objects.set(
        format_args!("APPLIANCE_TABLE:box"),
        format_args!("\"sip\":\"{VIP}\",\"vm_vni\":{VM_VNI},\"local_region_id\":1,\"trusted_vnis_list\":[[{},{last}]]", vni(0)),
    );
    objects.set(
        format_args!("ROUTING_TYPE_TABLE:vnet"),
        format_args!("\"action_name\":\"look\",\"action_type\":\"maprouting\""),
    );
    objects.set(
        format_args!("ROUTING_TYPE_TABLE:vnet_encap"),
        format_args!(
            "\"action_name\":\"tunnel\",\"action_type\":\"staticencap\",\"encap_type\":\"vxlan\""
        ),
    );
    for eni in setting.enis_of(dpu) {
        add_eni(&mut objects, eni);
        add_routes(&mut objects, setting, eni);
        add_mappings(&mut objects, setting, eni);
        add_lists(&mut objects, setting, eni);
    }
    objects.end()
}

fn add_eni(objects: &mut Objects, eni: u32) {
    let (mac, host, vni) = (mac(eni), host(eni), vni(eni));
    objects.set(
        format_args!("VNET_TABLE:net{eni}"),
        format_args!("\"vni\":{vni}"),
    );
    objects.set(
        format_args!("ENI_TABLE:eni{eni}"),
        format_args!(
            "\"eni_id\":\"eni{eni}\",\"mac_address\":\"{mac}\",\"vnet\":\"net{eni}\",\"underlay_ip\":\"{host}\",\"admin_state\":\"enabled\""
        ),
    );
    objects.set(
        format_args!("ROUTE_RULE_TABLE:eni{eni}:{vni}:20.64.0.0/10:0"),
        format_args!("\"action_type\":\"decap\",\"vnet\":\"net{eni}\",\"pa_validation\":true"),
    );
}

/// One route leads to all peers; others, none beside another, lead where nobody is.
fn add_routes(objects: &mut Objects, setting: &Setting, eni: u32) {
    objects.set(
        format_args!("ROUTE_GROUP_TABLE:group{eni}"),
        format_args!("\"guid\":\"group{eni}\""),
    );
    objects.set(
        format_args!("ENI_ROUTE_TABLE:eni{eni}"),
        format_args!("\"group_id\":\"group{eni}\""),
    );
    let fields = || format!("\"routing_type\":\"vnet\",\"vnet\":\"net{eni}\"");
    objects.set(
        format_args!("ROUTE_TABLE:group{eni}:10.128.0.0/9"),
        format_args!("{}", fields()),
    );
    for number in 1..setting.parameters.routes / setting.parameters.enis {
        let network = Ipv4Addr::from(0x6000_0000 + number * 64);
        objects.set(
            format_args!("ROUTE_TABLE:group{eni}:{network}/27"),
            format_args!("{}", fields()),
        );
    }
}

fn add_mappings(objects: &mut Objects, setting: &Setting, eni: u32) {
    for number in 0..setting.mappings_of_eni() {
        let (peer, host, mac) = (peer(number), peer_host(number), peer_mac(number));
        objects.set(
            format_args!("VNET_MAPPING_TABLE:net{eni}:{peer}"),
            format_args!(
                "\"routing_type\":\"vnet_encap\",\"underlay_ip\":\"{host}\",\"mac_address\":\"{mac}\",\"use_dst_vni\":true"
            ),
        );
    }
}

/// Each rule of a list but the last denies what nobody sends, so that all are looked at.
fn add_lists(objects: &mut Objects, setting: &Setting, eni: u32) {
    let rules = setting.parameters.acl_rules / (setting.parameters.enis * LISTS);
    for list in 0..LISTS.min(rules * LISTS) {
        let name = format!("list{eni}-{list}");
        objects.set(
            format_args!("ACL_GROUP_TABLE:{name}"),
            format_args!("\"ip_version\":\"ipv4\""),
        );
        for rule in 1..rules {
            let network = Ipv4Addr::from(0x3000_0000 + (list * rules + rule) * 512);
            objects.set(
                format_args!("ACL_RULE_TABLE:{name}:{rule}"),
                format_args!(
                    "\"priority\":{rule},\"action\":\"deny\",\"terminating\":true,\"protocol\":\"6,17\",\"src_addr\":\"{network}/24\""
                ),
            );
        }
        objects.set(
            format_args!("ACL_RULE_TABLE:{name}:{rules}"),
            format_args!("\"priority\":{rules},\"action\":\"allow\",\"terminating\":false"),
        );
        let (direction, stage) = (if list % 2 == 0 { "OUT" } else { "IN" }, list / 2 + 1);
        objects.set(
            format_args!("ACL_{direction}_TABLE:eni{eni}:{stage}"),
            format_args!("\"v4_acl_group_id\":\"{name}\""),
        );
    }
}

/// What SONiC writes for the switch: on which DPU each ENI is.
pub(super) fn of_switch(setting: &Setting) -> String {
    let dpus = setting.parameters.dpus;
    let listed = |each: &mut dyn Iterator<Item = String>| each.collect::<Vec<_>>().join(",\n");
    let own = listed(&mut (0..dpus).map(|dpu| {
        let address = dpu_address(dpu);
        format!("\"dpu{dpu}\":{{\"dpu_id\":\"{dpu}\",\"pa_ipv4\":\"{address}\",\"state\":\"up\"}}")
    }));
    let virtual_dpus = listed(
        &mut (0..dpus).map(|dpu| format!("\"vdpu{dpu}\":{{\"main_dpu_ids\":\"dpu{dpu}\"}}")),
    );
    let enis = listed(&mut (0..setting.parameters.enis).map(|eni| {
        let (mac, dpu) = (mac(eni), setting.dpu_of(eni));
        format!("\"net{eni}:{mac}\":{{\"vdpu_ids\":\"vdpu{dpu}\",\"primary_vdpu\":\"vdpu{dpu}\"}}")
    }));
    format!(
        "{{\"VIP_TABLE\":{{\"{VIP}\":{{}}}},\n\"DPU\":{{{own}}},\n\"VDPU\":{{{virtual_dpus}}},\n\"DASH_ENI_FORWARD_TABLE\":{{{enis}}}}}\n"
    )
}
