//! Configurations that are right in each object, and in which packets will not go where somebody wants.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use twinpath_core::wire::Address;

use super::configuration::Configuration;
use super::tables::{EniTable, RouteTable, VnetTable};
use crate::objects::*;

/// Something worth a look, of one object or of many alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The field that it is about; none if it is about the object.
    pub field: Option<&'static str>,
    /// What is to be seen, and what follows.
    pub message: String,
    /// How many objects it is about; none if it is about the whole.
    pub objects: usize,
    /// The first of them.
    pub examples: Vec<Key>,
}

impl Warning {
    /// How many objects are named.
    pub const NAMED: usize = 2;
}

/// In a line, with the objects that are named.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, key) in self.examples.iter().enumerate() {
            let before = if number > 0 { ", " } else { "" };
            write!(f, "{before}{key}")?;
        }
        match self.objects.saturating_sub(self.examples.len()) {
            0 => {}
            more => write!(f, " and {more} more")?,
        }
        if !self.examples.is_empty() {
            f.write_str(": ")?;
        }
        if let Some(field) = self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Warnings, those that say the same in one.
#[derive(Default)]
pub(super) struct Warnings {
    told: Vec<Warning>,
    places: HashMap<(Table, Option<&'static str>, String), usize>,
}

impl Warnings {
    pub fn tell(
        &mut self,
        key: Key,
        field: impl Into<Option<&'static str>>,
        message: impl Into<String>,
    ) {
        let (field, message) = (field.into(), message.into());
        let place = self.places.entry((key.table(), field, message.clone()));
        let place = *place.or_insert(self.told.len());
        if place == self.told.len() {
            self.told.push(Warning {
                field,
                message,
                objects: 0,
                examples: Vec::new(),
            });
        }
        let warning = &mut self.told[place];
        warning.objects += 1;
        if warning.examples.len() < Warning::NAMED {
            warning.examples.push(key);
        }
    }

    /// All of them, in the order in which they were told.
    pub fn into_list(self) -> Vec<Warning> {
        self.told
    }

    /// Something about the whole.
    fn tell_of_all(&mut self, message: &str) {
        self.told.push(Warning {
            field: None,
            message: message.into(),
            objects: 0,
            examples: Vec::new(),
        });
    }
}

impl Configuration {
    /// What is worth a look, equal things in one. Looks at everything once.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Warnings::default();
        self.appliance_warnings(&mut warnings);
        self.vni_warnings(&mut warnings);
        let own = self.appliance().map(|appliance| appliance.sip);
        for (id, table) in self.enis.iter() {
            table.warnings(id, own, &mut warnings);
            self.trust_warning(id, table, &mut warnings);
        }
        self.false_way_warnings(&mut warnings);
        self.list_warnings(&mut warnings);
        self.one_version_warnings(&mut warnings);
        self.shadow_warnings(&mut warnings);
        self.routing_type_warnings(&mut warnings);
        self.route_warnings(&mut warnings);
        self.idle_field_warnings(&mut warnings);
        self.high_availability_warnings(&mut warnings);
        self.mapping_warnings(&mut warnings);
        warnings.into_list()
    }

    /// None, more than one, or one that takes no packet for a machine's. What a switch alone has needs none.
    fn appliance_warnings(&self, warnings: &mut Warnings) {
        let mut appliances = self.appliances.keys();
        match appliances.next() {
            None if self.vnets.is_empty() && self.enis.is_empty() => {}
            None => warnings.tell_of_all(
                "no DASH_APPLIANCE_TABLE: without its sip every packet is dropped (vip_miss)",
            ),
            Some(first) => {
                let first = Key::Appliance(first.clone());
                self.direction_warning(&first, warnings);
                let message = format!("has no effect: {first} counts, the first by name");
                appliances.for_each(|other| {
                    warnings.tell(Key::Appliance(other.clone()), None, message.clone());
                });
            }
        }
    }

    /// Machines of floating NICs may send with other VNIs.
    fn direction_warning(&self, appliance: &Key, warnings: &mut Warnings) {
        let mut enis = self.enis.values();
        let needs_vni = enis.any(|table| table.is_enabled() && table.eni.mode == EniMode::Vm);
        if needs_vni && self.appliance().is_some_and(|one| one.vm_vni.is_none()) {
            let message = "missing, so that no packet is outbound: what machines send counts as inbound, and is dropped";
            warnings.tell(appliance.clone(), "vm_vni", message);
        }
    }

    /// Actions that are not what is done: mappings and routes say it by what they are.
    fn routing_type_warnings(&self, warnings: &mut Warnings) {
        for (kind, actions) in self.routing_types.iter() {
            let mut tell = |message: &str| {
                warnings.tell(Key::RoutingType(*kind), "items", message);
            };
            let is_for_endpoints = *kind == RoutingType::PrivateLink;
            match (is_for_endpoints, actions.has(ActionType::FourToSix)) {
                (true, false) => tell(
                    "without 4_to_6: packets get the IPv6 addresses of their mappings all the same",
                ),
                (false, true) if *kind != RoutingType::ServiceTunnel => {
                    tell("4_to_6 has no effect but for private endpoints and service tunnels");
                }
                _ => {}
            }
            let is_of_routes = matches!(kind, RoutingType::Direct | RoutingType::VnetDirect);
            for (action, name) in [
                (ActionType::Drop, "drop"),
                (ActionType::StaticEncap, "staticencap"),
            ] {
                if is_of_routes && actions.has(action) {
                    tell(&format!(
                        "{name} has no effect here: routes do what their action_type says"
                    ));
                }
            }
            if *kind == RoutingType::Vnet && actions.has(ActionType::Drop) {
                tell(
                    "drop has no effect on routes, which do what their action_type says, but on mappings of this type",
                );
            }
        }
    }

    fn vni_warnings(&self, warnings: &mut Warnings) {
        let vm_vni = self.appliance().and_then(|appliance| appliance.vm_vni);
        let mut first_with: BTreeMap<Vni, &VnetName> = BTreeMap::new();
        for (name, table) in self.vnets.iter() {
            let (key, vni) = (Key::Vnet(name.clone()), table.vnet.vni);
            if vm_vni == Some(vni) {
                let message = "the appliance's vm_vni, with which packets are outbound: none of this network's come in";
                warnings.tell(key.clone(), "vni", message);
            }
            let first = *first_with.entry(vni).or_insert(name);
            if first != name {
                let first = Key::Vnet(first.clone());
                let message = format!("{first} has it, too: packets do not tell whose they are");
                warnings.tell(key, "vni", message);
            }
        }
    }

    /// Lists of VNIs, of the appliance's or the ENI's own, without that of the ENI's network, though an
    /// inbound rule lets packets in that come with it.
    fn trust_warning(&self, id: &EniId, table: &EniTable, warnings: &mut Warnings) {
        let common = self.appliance().map(|appliance| &appliance.trusted_vnis);
        let listed = || {
            let own = table.eni.trusted_vnis.iter();
            common.into_iter().flatten().chain(own)
        };
        let Some(network) = self.vnets.get(&table.eni.vnet) else {
            return;
        };
        let vni = network.vnet.vni;
        let is_trusted = listed().any(|range| range.contains(vni));
        if table.is_enabled() && listed().next().is_some() && !is_trusted && table.lets_in(vni) {
            let message = "without the VNI of the ENI's own network: what comes with that and answers nothing is dropped (untrusted_vni)";
            warnings.tell(Key::Eni(id.clone()), "trusted_vnis_list", message);
        }
    }

    /// Access lists that are asked and say nothing.
    fn list_warnings(&self, warnings: &mut Warnings) {
        let stages = self.enis.values().flat_map(|table| table.stages());
        let groups = stages.flat_map(|stage| stage.v4.iter().chain(&stage.v6));
        for id in groups.collect::<BTreeSet<_>>() {
            let group = self.acl_groups.get(id);
            if group.is_some_and(|table| table.rules().is_empty()) {
                let message =
                    "bound, and without rules: it denies all, unless empty_acl_denies is false";
                warnings.tell(Key::AclGroup(id.clone()), None, message);
            }
        }
    }

    /// Routes to an address that is nowhere.
    fn route_warnings(&self, warnings: &mut Warnings) {
        for (group, table) in self.groups_of(self.enis.values()) {
            if !table.distinct().any(|route| self.leads_nowhere(route)) {
                continue;
            }
            let routes = table.routes().iter();
            for (prefix, _) in routes.filter(|(_, route)| self.leads_nowhere(route)) {
                let group = group.clone();
                let key = Key::Route(RouteKey { group, prefix });
                let message = "its network has no mapping of it: what is sent there is dropped (mapping_miss)";
                warnings.tell(key, "overlay_ip", message);
            }
        }
    }

    fn leads_nowhere(&self, route: &Route) -> bool {
        let RouteAction::VnetDirect { vnet, overlay_ip } = &route.action else {
            return false;
        };
        let network = self.vnets.get(vnet);
        overlay_ip
            .is_some_and(|address| network.is_none_or(|table| table.mapping(address).is_none()))
    }

    /// Mappings of Private Link that give an address nothing of the service's, and those to hosts of
    /// the other IP version.
    fn mapping_warnings(&self, warnings: &mut Warnings) {
        let without_encoding = self.vnets_without_encoding();
        let sources = self.sources();
        for (name, table) in self.vnets.iter() {
            let needs_source = without_encoding.contains(name);
            table.warnings(name, needs_source, &sources, warnings);
        }
    }

    /// Networks that ENIs without bits for the source send to.
    fn vnets_without_encoding(&self) -> BTreeSet<&VnetName> {
        let enis = self.enis.values();
        let enis = enis.filter(|table| has_no_bits(table.eni.pl_sip_encoding));
        let routes = self.groups_of(enis);
        let routes = routes.flat_map(|(_, table)| table.distinct());
        routes.filter_map(|route| route.action.vnet()).collect()
    }

    /// The groups of routes that ENIs follow.
    pub(super) fn groups_of<'c>(
        &'c self,
        enis: impl Iterator<Item = &'c Arc<EniTable>>,
    ) -> impl Iterator<Item = (&'c RouteGroupId, &'c Arc<RouteTable>)> {
        let groups: BTreeSet<_> = enis
            .filter_map(|table| table.route_group.as_ref())
            .collect();
        let groups = groups.into_iter();
        groups.filter_map(|group| Some((group, self.route_groups.get(group)?)))
    }

    fn sources(&self) -> Sources {
        let own = self.appliance().map(|appliance| appliance.sip);
        let enis = self.enis.values();
        let of_enis = enis.filter_map(|table| table.eni.pl_underlay_sip);
        let routes = self.groups_of(self.enis.values());
        let routes = routes.flat_map(|(_, table)| table.distinct());
        let of_routes = routes.filter_map(|route| route.underlay_sip);
        let all = own.into_iter().chain(of_enis).chain(of_routes);
        Sources {
            own: own.map(IpVersion::of),
            of_private_link: all.map(IpVersion::of).collect(),
        }
    }
}

/// IP versions of outer sources.
struct Sources {
    /// The appliance's; none if there is no appliance.
    own: Option<IpVersion>,
    /// Those that packets of Private Link may have: an ENI's or a route's as well.
    of_private_link: BTreeSet<IpVersion>,
}

impl Sources {
    /// Whether no packet can be sent to where a mapping leads. A port map may lead elsewhere.
    fn never_reach(&self, mapping: &VnetMapping) -> bool {
        let version = IpVersion::of(mapping.underlay_ip);
        match (self.own, mapping.private_link) {
            (None, _) => false,
            (Some(_), Some(_)) => {
                mapping.port_map.is_none() && !self.of_private_link.contains(&version)
            }
            (Some(own), None) => own != version,
        }
    }
}

impl EniTable {
    pub(super) fn is_enabled(&self) -> bool {
        self.eni.admin_state == AdminState::Enabled
    }

    /// Whether an inbound rule lets packets in that come with a VNI.
    fn lets_in(&self, vni: Vni) -> bool {
        let mut rules = self.route_rules.iter();
        rules.any(|(key, rule)| key.vni == vni && rule.action == InboundAction::Decap)
    }

    /// A machine without a host to which its packets can be sent. Those to a floating NIC may have
    /// another way.
    fn host_warning(&self, id: &EniId, own: Option<Address>, warnings: &mut Warnings) {
        if !self.is_enabled() || self.eni.mode == EniMode::FloatingNic {
            return;
        }
        let is_of_other = |host: Address| own.is_some_and(|own| own.is_v4() != host.is_v4());
        let message = match self.eni.underlay_ip {
            None => "not given: all its packets are dropped (unsupported_action)",
            Some(host) if is_of_other(host) => {
                "of another IP version than the appliance's sip: all its packets are dropped (unsupported_action)"
            }
            Some(_) => return,
        };
        warnings.tell(Key::Eni(id.clone()), "underlay_ip", message);
    }

    /// What keeps an ENI's packets from passing.
    fn warnings(&self, id: &EniId, own: Option<Address>, warnings: &mut Warnings) {
        let key = || Key::Eni(id.clone());
        if !self.is_enabled() {
            let message = "not enabled: all its packets are dropped";
            warnings.tell(key(), "admin_state", message);
        }
        self.host_warning(id, own, warnings);
        if self.route_group.is_none() {
            let message = "no DASH_ENI_ROUTE_TABLE: what it sends is dropped";
            warnings.tell(key(), None, message);
        }
        if self.route_rules.is_empty() {
            let message = "no DASH_ROUTE_RULE_TABLE: nothing that others begin reaches it";
            warnings.tell(key(), None, message);
        }
        if let (Some(source), Some(own)) = (self.eni.pl_underlay_sip, own)
            && source != own
        {
            let message = format!(
                "{source} is not the appliance's address, {own}: answers that are sent to it are dropped (vip_miss)"
            );
            warnings.tell(key(), "pl_underlay_sip", message);
        }
    }
}

/// What a mapping lacks.
#[derive(Default, PartialEq, Eq)]
struct Lacks {
    /// Bits of the inner destination.
    destination: bool,
    /// Bits of the inner source.
    source: bool,
    /// A host that can be sent to.
    host: bool,
}

impl VnetTable {
    fn warnings(
        &self,
        name: &VnetName,
        needs_source: bool,
        sources: &Sources,
        warnings: &mut Warnings,
    ) {
        let lacks = |mapping: &VnetMapping| {
            let link = mapping.private_link;
            let lacks_bits = |bits: MaskedBits| has_no_bits(Some(bits));
            Lacks {
                destination: link.is_some_and(|link| lacks_bits(link.overlay_dip)),
                source: needs_source && link.is_some_and(|link| lacks_bits(link.overlay_sip)),
                host: sources.never_reach(mapping),
            }
        };
        let nothing = Lacks::default();
        if self.distinct().all(|mapping| lacks(mapping) == nothing) {
            return;
        }
        for (address, mapping, _) in self.parts() {
            let lacks = lacks(mapping);
            if lacks == nothing {
                continue;
            }
            let vnet = name.clone();
            let key = Key::VnetMapping(VnetMappingKey { vnet, address });
            if lacks.destination {
                let message =
                    "not given: the inner destination is the machine's IPv4 address in an IPv6 one";
                warnings.tell(key.clone(), "overlay_dip_prefix", message);
            }
            if lacks.source {
                let message = "not given, and an ENI that sends there has no pl_sip_encoding: the inner source is its IPv4 address in an IPv6 one";
                warnings.tell(key.clone(), "overlay_sip_prefix", message);
            }
            if lacks.host {
                let message = "of another IP version than the appliance's sip: what is sent there is dropped (unsupported_action)";
                warnings.tell(key, "underlay_ip", message);
            }
        }
    }
}

fn has_no_bits(bits: Option<MaskedBits>) -> bool {
    bits.is_none_or(|bits| bits.mask() == 0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Origin, Store};
    use super::*;
    use crate::json;

    /// A configuration that works: everything is there once.
    pub const GOOD: &str = r#"{
        "DASH_APPLIANCE_TABLE:a": {"sip": "10.1.0.5", "vm_vni": 2001},
        "DASH_ROUTING_TYPE_TABLE:privatelink": {"items": [
            {"action_name": "1", "action_type": "4_to_6"},
            {"action_name": "2", "action_type": "staticencap", "encap_type": "nvgre", "vni": 100}]},
        "DASH_VNET_TABLE:blue": {"vni": 1001},
        "DASH_ENI_TABLE:one": {"mac_address": "02:00:00:00:00:01", "vnet": "blue", "underlay_ip": "20.0.0.1", "admin_state": "enabled", "pl_underlay_sip": "10.1.0.5"},
        "DASH_ROUTE_GROUP_TABLE:g": {},
        "DASH_ENI_ROUTE_TABLE:one": {"group_id": "g"},
        "DASH_ROUTE_TABLE:g:10.0.0.0/8": {"routing_type": "vnet", "vnet": "blue"},
        "DASH_VNET_MAPPING_TABLE:blue:10.0.0.1": {"routing_type": "privatelink", "underlay_ip": "20.0.0.9", "overlay_sip_prefix": "fd40::/ffff::", "overlay_dip_prefix": "2603::1/ffff::ffff"},
        "DASH_ROUTE_RULE_TABLE:one:1001:20.0.0.0/24": {"action_type": "decap"}
    }"#;

    /// A store to which all of these are applied, one after the other.
    pub fn applied(texts: &[&str]) -> Store {
        let mut store = Store::default();
        for text in texts {
            let reading = json::read(text.as_bytes());
            assert_eq!(reading.problems, []);
            let changes = reading.changes.into_iter();
            store.apply(changes.map(|(change, _)| (change, Origin::default())));
        }
        store
    }

    /// What is told after all of these are set one after the other.
    pub fn warnings(texts: &[&str]) -> Vec<String> {
        let store = applied(texts);
        assert_eq!(store.unsettled(), [0; 2]);
        let warnings = store.snapshot().configuration.warnings();
        let told = warnings.into_iter().map(|warning| {
            let examples: Vec<_> = warning.examples.iter().map(Key::to_string).collect();
            let field = warning.field.unwrap_or("-");
            let (objects, message) = (warning.objects, warning.message);
            format!("{objects} {}: {field}: {message}", examples.join(","))
        });
        told.collect()
    }

    #[test]
    fn what_works_is_not_warned_of() {
        assert_eq!(warnings(&[GOOD]), [""; 0]);
        assert_eq!(warnings(&["{}"]), [""; 0]);
    }

    #[test]
    fn an_appliance_that_is_not_there_or_does_not_count_is_told() {
        let gone = r#"[{"DASH_APPLIANCE_TABLE:a": {}, "OP": "DEL"}]"#;
        let told =
            "0 : -: no DASH_APPLIANCE_TABLE: without its sip every packet is dropped (vip_miss)";
        assert_eq!(warnings(&[GOOD, gone]), [told]);
        let more = r#"{"DASH_APPLIANCE_TABLE:b": {"sip": "10.1.0.6"}, "DASH_APPLIANCE_TABLE:c": {"sip": "10.1.0.7"}}"#;
        let told = "2 DASH_APPLIANCE_TABLE:b,DASH_APPLIANCE_TABLE:c: -: has no effect: DASH_APPLIANCE_TABLE:a counts, the first by name";
        assert_eq!(warnings(&[GOOD, more]), [told]);
    }

    #[test]
    fn enis_whose_packets_do_not_pass_are_told_in_one_line_with_two_examples() {
        let enis = (2..=4).map(|eni| {
            format!(
                r#""DASH_ENI_TABLE:{eni}": {{"mac_address": "02:00:00:00:00:0{eni}", "vnet": "blue"}}"#
            )
        });
        let enis: Vec<_> = enis.collect();
        let named = "3 DASH_ENI_TABLE:2,DASH_ENI_TABLE:3";
        let expected = [
            "admin_state: not enabled: all its packets are dropped",
            "-: no DASH_ENI_ROUTE_TABLE: what it sends is dropped",
            "-: no DASH_ROUTE_RULE_TABLE: nothing that others begin reaches it",
        ];
        assert_eq!(
            warnings(&[GOOD, &format!("{{{}}}", enis.join(","))]),
            expected.map(|told| format!("{named}: {told}"))
        );
    }

    #[test]
    fn a_private_link_source_that_is_not_the_appliances_is_told() {
        let eni = r#"{"DASH_ENI_TABLE:one": {"mac_address": "02:00:00:00:00:01", "vnet": "blue", "underlay_ip": "20.0.0.1", "admin_state": "enabled", "pl_underlay_sip": "10.1.0.9"}}"#;
        let told = "1 DASH_ENI_TABLE:one: pl_underlay_sip: 10.1.0.9 is not the appliance's address, 10.1.0.5: answers that are sent to it are dropped (vip_miss)";
        assert_eq!(warnings(&[GOOD, eni]), [told]);
    }

    #[test]
    fn mappings_of_private_link_without_their_addresses_are_told() {
        let mapping = |fields: &str| {
            format!(
                r#"{{"DASH_VNET_MAPPING_TABLE:blue:10.0.0.2": {{"routing_type": "privatelink", "underlay_ip": "20.0.0.9", {fields}}}}}"#
            )
        };
        let sip = mapping(r#""overlay_sip_prefix": "fd40::/ffff::""#);
        let told = warnings(&[GOOD, &sip]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with(
                "1 DASH_VNET_MAPPING_TABLE:blue:10.0.0.2: overlay_dip_prefix: not given"
            )
        );
        let dip = mapping(r#""overlay_dip_prefix": "2603::1/ffff::ffff""#);
        let told = warnings(&[GOOD, &dip]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with(
                "1 DASH_VNET_MAPPING_TABLE:blue:10.0.0.2: overlay_sip_prefix: not given"
            )
        );
        // The ENI may have what the mapping has not.
        let encoding = r#"{"DASH_ENI_TABLE:one": {"mac_address": "02:00:00:00:00:01", "vnet": "blue", "underlay_ip": "20.0.0.1", "admin_state": "enabled", "pl_sip_encoding": "fd40::1/ffff::ffff"}}"#;
        assert_eq!(warnings(&[GOOD, &dip, encoding]), [""; 0]);
    }

    #[test]
    fn a_vni_that_two_networks_or_machines_have_is_told() {
        let vnets =
            r#"{"DASH_VNET_TABLE:green": {"vni": 2001}, "DASH_VNET_TABLE:red": {"vni": 1001}}"#;
        assert_eq!(
            warnings(&[GOOD, vnets]),
            [
                "1 DASH_VNET_TABLE:green: vni: the appliance's vm_vni, with which packets are outbound: none of this network's come in",
                "1 DASH_VNET_TABLE:red: vni: DASH_VNET_TABLE:blue has it, too: packets do not tell whose they are",
            ]
        );
    }

    /// The ENI of the good configuration with these fields.
    fn eni(fields: &str) -> String {
        format!(
            r#"{{"DASH_ENI_TABLE:one": {{"mac_address": "02:00:00:00:00:01", "vnet": "blue", {fields}}}}}"#
        )
    }

    const OF_OTHER_VERSION: &str = "1 DASH_ENI_TABLE:one: underlay_ip: of another IP version than the appliance's sip: all its packets are dropped (unsupported_action)";

    #[test]
    fn an_eni_without_a_host_to_send_to_is_told() {
        let told = "1 DASH_ENI_TABLE:one: underlay_ip: not given: all its packets are dropped (unsupported_action)";
        assert_eq!(
            warnings(&[GOOD, &eni(r#""admin_state": "enabled""#)]),
            [told]
        );
        let of_v6 = eni(r#""admin_state": "enabled", "underlay_ip": "2001:db8::1""#);
        assert_eq!(warnings(&[GOOD, &of_v6]), [OF_OTHER_VERSION]);
        // One that is not enabled needs none, and a floating NIC's packets may have another way.
        let disabled = warnings(&[GOOD, &eni(r#""admin_state": "disabled""#)]);
        assert!(
            disabled.len() == 1 && disabled[0].contains("not enabled"),
            "{disabled:?}"
        );
        let floating = eni(r#""admin_state": "enabled", "eni_mode": "fnic""#);
        assert_eq!(warnings(&[GOOD, &floating]), [""; 0]);
    }

    #[test]
    fn mappings_to_hosts_of_the_other_ip_version_are_told() {
        let vnet_type = r#"{"DASH_ROUTING_TYPE_TABLE:vnet_encap": {"items": [{"action_name": "1", "action_type": "staticencap", "encap_type": "vxlan"}]}}"#;
        let mapping = |last: u8, host: &str, fields: &str| {
            format!(
                r#"{{"DASH_VNET_MAPPING_TABLE:blue:10.0.0.{last}": {{"underlay_ip": "{host}", {fields}}}}}"#
            )
        };
        let plain = r#""routing_type": "vnet_encap""#;
        let link = r#""routing_type": "privatelink", "overlay_sip_prefix": "fd40::/ffff::", "overlay_dip_prefix": "2603::1/ffff::ffff""#;
        let all = [
            GOOD,
            vnet_type,
            &mapping(2, "20.0.0.9", plain),
            &mapping(3, "2001:db8::9", plain),
            &mapping(4, "2001:db8::9", link),
        ];
        let told = "2 DASH_VNET_MAPPING_TABLE:blue:10.0.0.3,DASH_VNET_MAPPING_TABLE:blue:10.0.0.4: underlay_ip: of another IP version than the appliance's sip: what is sent there is dropped (unsupported_action)";
        assert_eq!(warnings(&all), [told]);
        // A route may have a source of that version for Private Link.
        let route = r#"{"DASH_ROUTE_TABLE:g:10.0.0.4/32": {"routing_type": "vnet", "vnet": "blue", "underlay_sip": "2001:db8::5"}}"#;
        let told = warnings(&[&all[..], &[route]].concat());
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("1 DASH_VNET_MAPPING_TABLE:blue:10.0.0.3: underlay_ip: "));
    }

    #[test]
    fn a_list_of_vnis_without_that_of_the_enis_network_is_told() {
        let told = "1 DASH_ENI_TABLE:one: trusted_vnis_list: without the VNI of the ENI's own network: what comes with that and answers nothing is dropped (untrusted_vni)";
        let appliance = r#"{"DASH_APPLIANCE_TABLE:a": {"sip": "10.1.0.5", "vm_vni": 2001, "trusted_vnis_list": [100]}}"#;
        assert_eq!(warnings(&[GOOD, appliance]), [told]);
        let fields = |vni: u32| {
            eni(&format!(
                r#""admin_state": "enabled", "underlay_ip": "20.0.0.1", "trusted_vnis_list": [{vni}]"#
            ))
        };
        assert_eq!(warnings(&[GOOD, &fields(100)]), [told]);
        // One of the two lists is enough.
        assert_eq!(warnings(&[GOOD, appliance, &fields(1001)]), [""; 0]);
        // Without an inbound rule for it the VNI changes nothing.
        let rule = r#"[{"DASH_ROUTE_RULE_TABLE:one:1001:20.0.0.0/24": {}, "OP": "DEL"},
            {"DASH_ROUTE_RULE_TABLE:one:100:20.0.0.0/24": {"action_type": "decap"}, "OP": "SET"}]"#;
        assert_eq!(warnings(&[GOOD, appliance, rule]), [""; 0]);
    }

    #[test]
    fn an_appliance_without_the_vni_of_machines_is_told() {
        let told = "1 DASH_APPLIANCE_TABLE:a: vm_vni: missing, so that no packet is outbound: what machines send counts as inbound, and is dropped";
        let appliance = r#"{"DASH_APPLIANCE_TABLE:a": {"sip": "10.1.0.5"}}"#;
        assert_eq!(warnings(&[GOOD, appliance]), [told]);
        let nobody = eni(r#""admin_state": "disabled", "underlay_ip": "20.0.0.1""#);
        let told = warnings(&[GOOD, appliance, &nobody]);
        assert!(!told.iter().any(|one| one.contains("vm_vni")), "{told:?}");
    }

    #[test]
    fn actions_that_are_not_what_is_done_are_told() {
        let kind = r#"{"DASH_ROUTING_TYPE_TABLE:privatelink": {"items": [
            {"action_name": "2", "action_type": "staticencap", "encap_type": "nvgre", "vni": 100}]}}"#;
        let told = "1 DASH_ROUTING_TYPE_TABLE:privatelink: items: without 4_to_6: packets get the IPv6 addresses of their mappings all the same";
        assert_eq!(warnings(&[GOOD, kind]), [told]);
        let others = r#"{
            "DASH_ROUTING_TYPE_TABLE:direct": {"items": [{"action_name": "1", "action_type": "drop"}]},
            "DASH_ROUTING_TYPE_TABLE:vnet": {"items": [{"action_name": "1", "action_type": "drop"}]},
            "DASH_ROUTING_TYPE_TABLE:vnet_encap": {"items": [
                {"action_name": "1", "action_type": "4_to_6"},
                {"action_name": "2", "action_type": "staticencap", "encap_type": "vxlan"}]}}"#;
        let mut told = warnings(&[GOOD, others]);
        told.sort();
        let direct = "1 DASH_ROUTING_TYPE_TABLE:direct: items: drop has no effect here: routes do what their action_type says";
        let vnet = "1 DASH_ROUTING_TYPE_TABLE:vnet: items: drop has no effect on routes, which do what their action_type says, but on mappings of this type";
        let encap = "1 DASH_ROUTING_TYPE_TABLE:vnet_encap: items: 4_to_6 has no effect but for private endpoints and service tunnels";
        assert_eq!(told, [direct, vnet, encap]);
    }

    #[test]
    fn an_access_list_that_is_bound_without_rules_is_told() {
        let lists = r#"{
            "DASH_ACL_GROUP_TABLE:empty": {"ip_version": "ipv4"},
            "DASH_ACL_GROUP_TABLE:idle": {"ip_version": "ipv4"},
            "DASH_ACL_GROUP_TABLE:full": {"ip_version": "ipv4"},
            "DASH_ACL_RULE_TABLE:full:1": {"priority": 1, "action": "allow", "terminating": true},
            "DASH_ACL_IN_TABLE:one:1": {"v4_acl_group_id": "full"},
            "DASH_ACL_IN_TABLE:one:2": {"v4_acl_group_id": "empty"},
            "DASH_ACL_OUT_TABLE:one:1": {"v4_acl_group_id": "empty"}}"#;
        let told = "1 DASH_ACL_GROUP_TABLE:empty: -: bound, and without rules: it denies all, unless empty_acl_denies is false";
        assert_eq!(warnings(&[GOOD, lists]), [told]);
    }

    #[test]
    fn routes_to_an_address_without_a_mapping_are_told() {
        let routes = |group: &str| {
            format!(
                r#"{{
                "DASH_ROUTE_GROUP_TABLE:{group}": {{}},
                "DASH_ROUTE_TABLE:{group}:10.1.0.0/16": {{"routing_type": "vnet_direct", "vnet": "blue", "overlay_ip": "10.0.0.77"}},
                "DASH_ROUTE_TABLE:{group}:10.2.0.0/16": {{"routing_type": "vnet_direct", "vnet": "blue", "overlay_ip": "10.0.0.77"}},
                "DASH_ROUTE_TABLE:{group}:10.3.0.0/16": {{"routing_type": "vnet_direct", "vnet": "blue", "overlay_ip": "10.0.0.1"}}}}"#
            )
        };
        let told = "2 DASH_ROUTE_TABLE:g:10.1.0.0/16,DASH_ROUTE_TABLE:g:10.2.0.0/16: overlay_ip: its network has no mapping of it: what is sent there is dropped (mapping_miss)";
        assert_eq!(warnings(&[GOOD, &routes("g")]), [told]);
        // Nobody follows these.
        assert_eq!(warnings(&[GOOD, &routes("h")]), [""; 0]);
    }
}
