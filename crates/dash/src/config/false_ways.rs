//! Ways on which packets do not come where somebody wants them: objects that are right in themselves, and do
//! not fit each other.

use std::collections::{BTreeMap, HashMap};

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

use super::configuration::Configuration;
use super::tables::{EniTable, InboundMatch, RouteTable};
use super::warnings::Warnings;
use crate::objects::*;

impl Configuration {
    /// What does not fit together.
    pub(super) fn false_way_warnings(&self, warnings: &mut Warnings) {
        let networks = self.vnets.iter().map(|(name, it)| (it.vnet.vni, name));
        let networks: BTreeMap<_, _> = networks.collect();
        for (id, table) in self.enis.iter() {
            for (matched, rule) in table.route_rules.iter() {
                if let Some(message) = self.rule_in_vain(table, matched, rule, &networks) {
                    let key = Key::RouteRule(RouteRuleKey {
                        eni: id.clone(),
                        vni: matched.vni,
                        source: matched.source,
                        priority: matched.priority,
                    });
                    warnings.tell(key, "vni", message);
                }
            }
            self.gateway_warning(id, table, warnings);
        }
        self.host_warnings(warnings);
        self.own_address_warnings(warnings);
        self.balancer_warnings(warnings);
    }

    /// Why no packet meets an inbound rule, or other ones than it is written for.
    fn rule_in_vain(
        &self,
        table: &EniTable,
        matched: &InboundMatch,
        rule: &RouteRule,
        networks: &BTreeMap<Vni, &VnetName>,
    ) -> Option<String> {
        let appliance = self.appliance();
        if appliance.and_then(|it| it.vm_vni) == Some(matched.vni) {
            let message =
                "the appliance's vm_vni, with which packets are outbound: none meets this rule";
            return Some(message.into());
        }
        let network = self.vnets.get(&table.eni.vnet).map(|it| it.vnet.vni);
        // A peer's machines send with their own network's, or with that of the ENI's.
        if let (Some(named), Some(other)) = (&rule.vnet, networks.get(&matched.vni))
            && named != *other
            && network != Some(matched.vni)
        {
            let [named, other] = [named, other].map(|name| Key::Vnet(name.clone()));
            return Some(format!("that of {other}, where the rule is for {named}"));
        }
        let common = appliance.map_or(&[][..], |it| &it.trusted_vnis);
        let mut listed = common.iter().chain(&table.eni.trusted_vnis).peekable();
        // The ENI's own network has a warning of its own.
        let is_asked = rule.action == InboundAction::Decap && network != Some(matched.vni);
        let is_listed = listed.peek().is_none() || listed.any(|range| range.contains(matched.vni));
        (is_asked && table.is_enabled() && !is_listed).then(|| {
            "in no list of trusted VNIs: what comes with it and answers nothing is dropped (untrusted_vni)".into()
        })
    }

    /// A NAT gateway that hides nothing.
    fn gateway_warning(&self, id: &EniId, table: &EniTable, warnings: &mut Warnings) {
        let Some(nat) = &table.nat else { return };
        let Some(pool) = self.nat_pools.get(&nat.pool) else {
            return;
        };
        let is_v4 = pool.addresses.first().is_some_and(|first| first.is_v4());
        let routes = table.route_group.as_ref();
        let routes = routes.and_then(|group| self.route_groups.get(group));
        if !routes.is_some_and(|routes| routes.has_direct(is_v4)) {
            let version = if is_v4 { IpVersion::V4 } else { IpVersion::V6 };
            let message = format!(
                "its ENI has no direct route of {version}, by which alone packets pass the gateway"
            );
            warnings.tell(Key::EniNat(id.clone()), None, message);
        }
    }

    /// Mappings of an ENI's machine that lead elsewhere than the ENI says.
    fn host_warnings(&self, warnings: &mut Warnings) {
        let own = self.appliance().map(|appliance| appliance.sip);
        let mut by_network: BTreeMap<_, HashMap<_, _>> = BTreeMap::new();
        for (id, table) in self.enis.iter() {
            let by_mac = by_network.entry(&table.eni.vnet).or_default();
            by_mac.insert(table.eni.mac_address, (id, table));
        }
        for (name, by_mac) in by_network {
            let mappings = self.vnets.get(name).into_iter();
            for (address, mapping, mac) in mappings.flat_map(|network| network.parts()) {
                let Some((id, table)) = mac.and_then(|mac| by_mac.get(&mac)) else {
                    continue;
                };
                let Some(host) = table.eni.underlay_ip else {
                    continue;
                };
                // A machine's own interface is reached by way of its DPU, too; a floating NIC is the way itself.
                let by_dpu = own.filter(|_| table.eni.mode == EniMode::Vm);
                if [Some(host), by_dpu].contains(&Some(mapping.underlay_ip)) {
                    continue;
                }
                let vnet = name.clone();
                let key = Key::VnetMapping(VnetMappingKey { vnet, address });
                let eni = Key::Eni((*id).clone());
                let message = format!(
                    "{} is not where the machine with this MAC address is: {eni} has {host}",
                    mapping.underlay_ip
                );
                warnings.tell(key, "underlay_ip", message);
            }
        }
    }

    /// Where the DPU's own address is that of another.
    fn own_address_warnings(&self, warnings: &mut Warnings) {
        let Some(own) = self.appliance().map(|appliance| appliance.sip) else {
            return;
        };
        for (name, pool) in self.nat_pools.iter() {
            if pool.addresses.contains(&own) {
                let message = "the appliance's own address is among them: what would leave with it is dropped (own_address)";
                warnings.tell(Key::NatPool(name.clone()), "addresses", message);
            }
        }
        for (name, tunnel) in self.tunnels.iter() {
            if tunnel.endpoints.contains(&own) {
                let message =
                    "the appliance's own address is among them: packets would come back to it";
                warnings.tell(Key::Tunnel(name.clone()), "endpoints", message);
            }
        }
    }

    /// Virtual addresses to which nobody's packets come.
    fn balancer_warnings(&self, warnings: &mut Warnings) {
        let mut reached: BTreeMap<(&VnetName, Address), bool> = BTreeMap::new();
        let groups: Vec<_> = self.groups_of(self.enis.values()).collect();
        for key in self.load_balancers.keys() {
            let vip = (&key.vnet, key.vip);
            let is_reached = *reached.entry(vip).or_insert_with(|| {
                let mut groups = groups.iter();
                groups.any(|(_, table)| table.leads_to(vip.0, vip.1))
            });
            if !is_reached {
                let message = "no route of an ENI leads to this address in its network: nobody's packets are balanced";
                warnings.tell(Key::LoadBalancer(key.clone()), None, message);
            }
        }
    }
}

impl RouteTable {
    fn has_direct(&self, is_v4: bool) -> bool {
        let is_direct = |route: &Route| route.action == RouteAction::Direct;
        let mut routes = self.routes().iter();
        self.distinct().any(is_direct)
            && routes.any(|(prefix, route)| prefix.network().is_v4() == is_v4 && is_direct(route))
    }

    /// Whether a packet to an address comes to it in a network.
    fn leads_to(&self, vnet: &VnetName, address: Address) -> bool {
        let leads = |route: &Route| match &route.action {
            RouteAction::Vnet(to) => to == vnet,
            RouteAction::VnetDirect {
                vnet: to,
                overlay_ip,
            } => to == vnet && overlay_ip.is_none_or(|looked_up| looked_up == address),
            _ => false,
        };
        let longest = if address.is_v4() { 32 } else { 128 };
        let mut lengths = (0..=longest).rev();
        self.distinct().any(leads)
            && lengths
                .find_map(|length| self.routes().get(Prefix::covering(address, length)))
                .is_some_and(|route| leads(route))
    }
}

#[cfg(test)]
mod tests {
    use super::super::warnings::tests::{GOOD, warnings};

    fn rule(vni: u32, fields: &str) -> String {
        format!(
            r#"{{"DASH_ROUTE_RULE_TABLE:one:{vni}:30.0.0.0/24": {{"action_type": "decap"{fields}}}}}"#
        )
    }

    #[test]
    fn an_inbound_rule_that_no_packet_meets_is_told() {
        let key = "1 DASH_ROUTE_RULE_TABLE:one:2001:30.0.0.0/24";
        let told = format!(
            "{key}: vni: the appliance's vm_vni, with which packets are outbound: none meets this rule"
        );
        assert_eq!(warnings(&[GOOD, &rule(2001, "")]), [told]);
        let trusting = r#"{"DASH_APPLIANCE_TABLE:a": {"sip": "10.1.0.5", "vm_vni": 2001, "trusted_vnis_list": [1001, 7]}}"#;
        let told = "1 DASH_ROUTE_RULE_TABLE:one:8:30.0.0.0/24: vni: in no list of trusted VNIs: what comes with it and answers nothing is dropped (untrusted_vni)";
        assert_eq!(warnings(&[GOOD, trusting, &rule(8, "")]), [told]);
        assert_eq!(warnings(&[GOOD, trusting, &rule(7, "")]), [""; 0]);
        assert_eq!(warnings(&[GOOD, &rule(8, "")]), [""; 0]);
    }

    #[test]
    fn an_inbound_rule_with_a_third_networks_vni_is_told() {
        let networks =
            r#"{"DASH_VNET_TABLE:red": {"vni": 1002}, "DASH_VNET_TABLE:green": {"vni": 1003}}"#;
        let of_red = r#", "vnet": "red""#;
        let told = "1 DASH_ROUTE_RULE_TABLE:one:1003:30.0.0.0/24: vni: that of DASH_VNET_TABLE:green, where the rule is for DASH_VNET_TABLE:red";
        assert_eq!(warnings(&[GOOD, networks, &rule(1003, of_red)]), [told]);
        // Its own, that of the ENI's network, and one that no network has.
        for vni in [1002, 1001, 1010] {
            assert_eq!(warnings(&[GOOD, networks, &rule(vni, of_red)]), [""; 0]);
        }
    }

    #[test]
    fn a_mapping_that_leads_past_its_enis_machine_is_told() {
        let mapping = |host: &str, mac: &str| {
            format!(
                r#"{{"DASH_VNET_MAPPING_TABLE:blue:10.0.0.3": {{"routing_type": "vnet", "underlay_ip": "{host}", "mac_address": "02:00:00:00:00:{mac}"}},
                    "DASH_ROUTING_TYPE_TABLE:vnet": {{"items": [{{"action_name": "1", "action_type": "maprouting"}}]}}}}"#
            )
        };
        let told = "1 DASH_VNET_MAPPING_TABLE:blue:10.0.0.3: underlay_ip: 20.0.0.7 is not where the machine with this MAC address is: DASH_ENI_TABLE:one has 20.0.0.1";
        assert_eq!(warnings(&[GOOD, &mapping("20.0.0.7", "01")]), [told]);
        // Its host, the appliance before it, and another machine.
        for (host, mac) in [("20.0.0.1", "01"), ("10.1.0.5", "01"), ("20.0.0.7", "02")] {
            assert_eq!(warnings(&[GOOD, &mapping(host, mac)]), [""; 0], "{host}");
        }
        // Packets that came to a floating NIC would come to it again and again.
        let floating = GOOD.replace(
            r#""vnet": "blue", "un"#,
            r#""vnet": "blue", "eni_mode": "fnic", "un"#,
        );
        let told = told.replace("20.0.0.7", "10.1.0.5");
        let itself = mapping("10.1.0.5", "01");
        assert_eq!(warnings(&[&floating, &itself]), [told]);
    }

    #[test]
    fn a_nat_gateway_without_a_direct_route_is_told() {
        let gateway = r#"{"DASH_NAT_POOL_TABLE:p": {"addresses": "60.0.0.1", "ports": "1024-2047", "block_size": 64},
            "DASH_ENI_NAT_TABLE:one": {"pool": "p", "block": 0}}"#;
        let told = "1 DASH_ENI_NAT_TABLE:one: -: its ENI has no direct route of IPv4, by which alone packets pass the gateway";
        assert_eq!(warnings(&[GOOD, gateway]), [told]);
        let route = |prefix: &str| {
            format!(r#"{{"DASH_ROUTE_TABLE:g:{prefix}": {{"routing_type": "direct"}}}}"#)
        };
        assert_eq!(warnings(&[GOOD, gateway, &route("::/0")]), [told]);
        assert_eq!(warnings(&[GOOD, gateway, &route("0.0.0.0/0")]), [""; 0]);
    }

    #[test]
    fn the_appliances_own_address_is_nobody_elses() {
        let others = |address: &str| {
            format!(
                r#"{{"DASH_NAT_POOL_TABLE:p": {{"addresses": "{address}", "ports": "1024-2047", "block_size": 64}},
                    "DASH_TUNNEL_TABLE:t": {{"endpoints": "{address}", "encap_type": "vxlan", "vni": 7}}}}"#
            )
        };
        let told = warnings(&[GOOD, &others("10.1.0.5")]);
        for (object, field) in [
            ("NAT_POOL_TABLE:p", "addresses"),
            ("TUNNEL_TABLE:t", "endpoints"),
        ] {
            let start =
                format!("1 DASH_{object}: {field}: the appliance's own address is among them");
            assert!(told.iter().any(|one| one.starts_with(&start)), "{told:?}");
        }
        let told = warnings(&[GOOD, &others("10.1.0.6")]);
        assert!(
            !told.iter().any(|one| one.contains("own address")),
            "{told:?}"
        );
    }

    #[test]
    fn a_virtual_address_without_a_route_is_told() {
        let balancer = |vip: &str| {
            format!(
                r#"{{"DASH_LOAD_BALANCER_TABLE:blue:{vip}:tcp:80": {{"backends": "10.0.0.1:8080"}}}}"#
            )
        };
        let told = "1 DASH_LOAD_BALANCER_TABLE:blue:11.0.0.9:tcp:80: -: no route of an ENI leads to this address in its network: nobody's packets are balanced";
        assert_eq!(warnings(&[GOOD, &balancer("11.0.0.9")]), [told]);
        assert_eq!(warnings(&[GOOD, &balancer("10.0.0.9")]), [""; 0]);
        // A longer prefix leads elsewhere.
        let closer = r#"{"DASH_ROUTE_TABLE:g:10.0.0.0/28": {"routing_type": "drop"}}"#;
        let told = told.replace("11.0.0.9", "10.0.0.9");
        assert_eq!(warnings(&[GOOD, closer, &balancer("10.0.0.9")]), [told]);
    }
}
