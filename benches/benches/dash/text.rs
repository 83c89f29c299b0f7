//! Configurations of any size as SONiC writes them.

use std::fmt::Write;

use twinpath_core::wire::Address;
use twinpath_dash::samples::{Large, VIP, VM_VNI};

/// Objects in the order of their lines.
struct Lines(String);

impl Lines {
    fn new() -> Self {
        Self("[".into())
    }

    fn set(&mut self, key: &str, fields: &str) {
        let comma = if self.0.len() > 1 { "," } else { "" };
        write!(
            self.0,
            "{comma}\n{{\"DASH_{key}\": {{{fields}}}, \"OP\": \"SET\"}}"
        )
        .expect("a text");
    }

    fn finish(mut self) -> String {
        self.0 += "\n]\n";
        self.0
    }
}

/// What all ENIs share.
pub fn shared(sizes: &Large) -> String {
    let mut lines = Lines::new();
    lines.set(
        "APPLIANCE_TABLE:appliance",
        &format!(r#""sip": "{VIP}", "vm_vni": {VM_VNI}, "local_region_id": "100""#),
    );
    lines.set(
        "ROUTING_TYPE_TABLE:vnet_encap",
        r#""items": [{"action_name": "a", "action_type": "staticencap", "encap_type": "vxlan"}]"#,
    );
    for direction in ["in", "out"] {
        for stage in 1..=sizes.acl_stages {
            let group = format!("{direction}{stage}");
            lines.set(
                &format!("ACL_GROUP_TABLE:{group}"),
                r#""ip_version": "ipv4""#,
            );
            for number in 0..sizes.acl_rules {
                let key = format!("ACL_RULE_TABLE:{group}:{number}");
                lines.set(&key, &rule(sizes, number));
            }
        }
    }
    lines.finish()
}

/// All rules but the last deny something that is sent by nobody, so that all are looked at.
fn rule(sizes: &Large, number: u32) -> String {
    if number + 1 == sizes.acl_rules {
        return format!(r#""priority": {number}, "action": "allow", "terminating": "false""#);
    }
    let place = |at: u32| 0x3000_0000 + (number * sizes.acl_prefixes + at) * 512;
    let prefixes = (0..sizes.acl_prefixes).map(|at| format!("{}/24", v4(place(at))));
    let prefixes: Vec<_> = prefixes.collect();
    format!(
        r#""priority": {number}, "action": "deny", "terminating": "true", "protocol": "6,17", "src_addr": "{}""#,
        prefixes.join(",")
    )
}

/// An ENI with its network.
pub fn eni(sizes: &Large, number: u16) -> String {
    let mut lines = Lines::new();
    let vni = Large::vni(number);
    lines.set(
        &format!("VNET_TABLE:vnet-{number}"),
        &format!(r#""vni": {vni}"#),
    );
    let (mac, host) = (Large::mac(number), Large::host(number));
    lines.set(
        &format!("ENI_TABLE:eni-{number}"),
        &format!(
            r#""eni_id": "eni-{number}", "mac_address": "{mac}", "underlay_ip": "{host}", "admin_state": "enabled", "vnet": "vnet-{number}""#
        ),
    );
    lines.set(
        &format!("ROUTE_GROUP_TABLE:group-{number}"),
        r#""version": "1""#,
    );
    let group = format!(r#""group_id": "group-{number}""#);
    lines.set(&format!("ENI_ROUTE_TABLE:eni-{number}"), &group);
    for direction in ["in", "out"] {
        for stage in 1..=sizes.acl_stages {
            let key = format!(
                "ACL_{}_TABLE:eni-{number}:{stage}",
                direction.to_uppercase()
            );
            let bound = format!(r#""v4_acl_group_id": "{direction}{stage}""#);
            lines.set(&key, &bound);
        }
    }
    for at in 0..sizes.routes {
        let key = format!("ROUTE_TABLE:group-{number}:{}", route(at));
        let class = at % 16;
        let fields = format!(
            r#""action_type": "vnet", "vnet": "vnet-{number}", "metering_class_or": {class}"#
        );
        lines.set(&key, &fields);
    }
    for at in 0..sizes.mappings {
        let [_, b, c, d] = (at / 8).to_be_bytes();
        let key = format!("VNET_MAPPING_TABLE:vnet-{number}:{}", Large::mapped(at));
        let fields = format!(
            r#""routing_type": "vnet_encap", "underlay_ip": "222.{b}.{c}.{d}", "mac_address": "00:1b:6e:{b:02x}:{c:02x}:{d:02x}", "use_dst_vni": true"#
        );
        lines.set(&key, &fields);
    }
    lines.finish()
}

/// The first route covers all that has a mapping, half of the others lie among them.
fn route(number: u32) -> String {
    match number {
        0 => format!("{}/8", v4(0x0200_0000)),
        number => {
            let base = if number % 2 == 0 {
                0x0200_0000
            } else {
                0x5000_0000
            };
            format!("{}/27", v4(base + number / 2 * 64))
        }
    }
}

const fn v4(number: u32) -> Address {
    Address::from_v4(number.to_be_bytes())
}
