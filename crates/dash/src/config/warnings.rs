//! Configurations that are right in each object, and in which packets will not go where somebody wants.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use twinpath_core::wire::Address;

use super::configuration::Configuration;
use super::tables::{EniTable, VnetTable};
use crate::objects::*;
use crate::source::ObjectSource;

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

/// Warnings, those that say the same in one.
#[derive(Default)]
struct Warnings {
    told: Vec<Warning>,
    places: HashMap<(Table, Option<&'static str>, String), usize>,
}

impl Warnings {
    fn tell(
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
        }
        self.mapping_warnings(&mut warnings);
        warnings.told
    }

    /// None, or more than one. What a switch alone has needs none.
    fn appliance_warnings(&self, warnings: &mut Warnings) {
        let mut appliances = self.appliances.keys();
        match appliances.next() {
            None if self.vnets.is_empty() && self.enis.is_empty() => {}
            None => warnings.tell_of_all(
                "no DASH_APPLIANCE_TABLE: without its sip every packet is dropped (vip_miss)",
            ),
            Some(first) => {
                let first = Key::Appliance(first.clone());
                let message = format!("has no effect: {first} counts, the first by name");
                appliances.for_each(|other| {
                    warnings.tell(Key::Appliance(other.clone()), None, message.clone());
                });
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

    /// Mappings of Private Link that give an address nothing of the service's.
    fn mapping_warnings(&self, warnings: &mut Warnings) {
        let without_encoding = self.vnets_without_encoding();
        for (name, table) in self.vnets.iter() {
            let needs_source = without_encoding.contains(name);
            table.warnings(name, needs_source, warnings);
        }
    }

    /// Networks that ENIs without bits for the source send to.
    fn vnets_without_encoding(&self) -> BTreeSet<&VnetName> {
        let enis = self.enis.values();
        let enis = enis.filter(|table| has_no_bits(table.eni.pl_sip_encoding));
        let groups: BTreeSet<_> = enis
            .filter_map(|table| table.route_group.as_ref())
            .collect();
        let groups = groups.into_iter();
        let groups = groups.filter_map(|group| self.route_groups.get(group));
        let routes = groups.flat_map(|table| table.distinct());
        routes.filter_map(|route| route.action.vnet()).collect()
    }
}

impl EniTable {
    /// What keeps an ENI's packets from passing.
    fn warnings(&self, id: &EniId, own: Option<Address>, warnings: &mut Warnings) {
        let key = || Key::Eni(id.clone());
        if self.eni.admin_state == AdminState::Disabled {
            let message = "not enabled: all its packets are dropped";
            warnings.tell(key(), "admin_state", message);
        }
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

impl VnetTable {
    fn warnings(&self, name: &VnetName, needs_source: bool, warnings: &mut Warnings) {
        let lacks = |mapping: &VnetMapping| {
            let link = mapping.private_link?;
            let source = needs_source && has_no_bits(Some(link.overlay_sip));
            let destination = has_no_bits(Some(link.overlay_dip));
            (source || destination).then_some([source, destination])
        };
        if !self.distinct().any(|mapping| lacks(mapping).is_some()) {
            return;
        }
        for (address, mapping, _) in self.parts() {
            let [source, destination] = lacks(mapping).unwrap_or_default();
            let vnet = name.clone();
            let key = Key::VnetMapping(VnetMappingKey { vnet, address });
            if destination {
                let message =
                    "not given: the inner destination is the machine's IPv4 address in an IPv6 one";
                warnings.tell(key.clone(), "overlay_dip_prefix", message);
            }
            if source {
                let message = "not given, and an ENI that sends there has no pl_sip_encoding: the inner source is its IPv4 address in an IPv6 one";
                warnings.tell(key, "overlay_sip_prefix", message);
            }
        }
    }
}

fn has_no_bits(bits: Option<MaskedBits>) -> bool {
    bits.is_none_or(|bits| bits.mask() == 0)
}

#[cfg(test)]
mod tests {
    use super::super::{Origin, Store};
    use super::*;
    use crate::json;

    /// A configuration that works: everything is there once.
    const GOOD: &str = r#"{
        "DASH_APPLIANCE_TABLE:a": {"sip": "10.1.0.5", "vm_vni": 2001},
        "DASH_ROUTING_TYPE_TABLE:privatelink": {"items": [
            {"action_name": "1", "action_type": "4_to_6"},
            {"action_name": "2", "action_type": "staticencap", "encap_type": "nvgre", "vni": 100}]},
        "DASH_VNET_TABLE:blue": {"vni": 1001},
        "DASH_ENI_TABLE:one": {"mac_address": "02:00:00:00:00:01", "vnet": "blue", "admin_state": "enabled", "pl_underlay_sip": "10.1.0.5"},
        "DASH_ROUTE_GROUP_TABLE:g": {},
        "DASH_ENI_ROUTE_TABLE:one": {"group_id": "g"},
        "DASH_ROUTE_TABLE:g:10.0.0.0/8": {"routing_type": "vnet", "vnet": "blue"},
        "DASH_VNET_MAPPING_TABLE:blue:10.0.0.1": {"routing_type": "privatelink", "underlay_ip": "20.0.0.9", "overlay_sip_prefix": "fd40::/ffff::", "overlay_dip_prefix": "2603::1/ffff::ffff"},
        "DASH_ROUTE_RULE_TABLE:one:1001:20.0.0.0/24": {"action_type": "decap"}
    }"#;

    /// What is told after all of these are set one after the other.
    fn warnings(texts: &[&str]) -> Vec<String> {
        let mut store = Store::default();
        for text in texts {
            let reading = json::read(text.as_bytes());
            assert_eq!(reading.problems, []);
            let changes = reading.changes.into_iter();
            store.apply(changes.map(|(change, _)| (change, Origin::default())));
        }
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
        let eni = r#"{"DASH_ENI_TABLE:one": {"mac_address": "02:00:00:00:00:01", "vnet": "blue", "admin_state": "enabled", "pl_underlay_sip": "10.1.0.9"}}"#;
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
        let encoding = r#"{"DASH_ENI_TABLE:one": {"mac_address": "02:00:00:00:00:01", "vnet": "blue", "admin_state": "enabled", "pl_sip_encoding": "fd40::1/ffff::ffff"}}"#;
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
}
