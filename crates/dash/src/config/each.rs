//! All objects of a configuration, one after the other.

use super::configuration::Configuration;
use super::tables::{EniTable, InboundMatch};
use crate::objects::*;

impl Configuration {
    /// Calls `each` with every object in force, what others refer to before them.
    pub fn for_each(&self, each: &mut dyn FnMut(Object)) {
        self.plain_objects(each);
        self.groups(each);
        for (id, table) in self.enis.iter() {
            table.for_each(id, each);
        }
    }

    fn plain_objects(&self, each: &mut dyn FnMut(Object)) {
        if self.switch != Switch::default() {
            each(Object::Switch(SwitchKey, self.switch));
        }
        self.each_plain(each);
        for (key, value) in self.vnets.iter() {
            each(Object::Vnet(key.clone(), value.vnet.clone()));
        }
    }

    fn groups(&self, each: &mut dyn FnMut(Object)) {
        for (map, table) in self.port_maps.iter() {
            each(Object::PortMap(map.clone(), table.map.clone()));
            for (&ports, range) in table.ranges.iter() {
                let key = PortMapRangeKey {
                    map: map.clone(),
                    ports,
                };
                each(Object::PortMapRange(key, *range));
            }
        }
        for (policy, table) in self.meter_policies.iter() {
            each(Object::MeterPolicy(policy.clone(), table.policy.clone()));
            for (&rule, value) in table.rules.iter() {
                let policy = policy.clone();
                each(Object::MeterRule(
                    MeterRuleKey { policy, rule },
                    value.clone(),
                ));
            }
        }
        for (group, table) in self.acl_groups.iter() {
            each(Object::AclGroup(group.clone(), table.group.clone()));
            for (rule, value) in table.rules.iter() {
                let key = AclRuleKey {
                    group: group.clone(),
                    rule: rule.clone(),
                };
                each(Object::AclRule(key, (**value).clone()));
            }
        }
        for (group, table) in self.route_groups.iter() {
            each(Object::RouteGroup(group.clone(), table.group.clone()));
            for (prefix, route) in table.routes().iter() {
                let group = group.clone();
                each(Object::Route(RouteKey { group, prefix }, (**route).clone()));
            }
        }
        for (vnet, table) in self.vnets.iter() {
            for (address, mapping) in table.mappings() {
                let vnet = vnet.clone();
                each(Object::VnetMapping(
                    VnetMappingKey { vnet, address },
                    mapping,
                ));
            }
        }
    }

    /// The objects that differ from those of another configuration, or are in one of them alone.
    #[must_use]
    pub fn changed_since(&self, other: &Self) -> Vec<Key> {
        let mut changed = Vec::new();
        self.for_each(&mut |object| {
            let key = object.key();
            if other.get(&key) != Some(object) {
                changed.push(key);
            }
        });
        other.for_each(&mut |object| {
            let key = object.key();
            if !self.contains(&key) {
                changed.push(key);
            }
        });
        changed
    }

    /// How many objects of a table are in force.
    #[must_use]
    pub fn count(&self, table: Table) -> usize {
        let stages = |stages: fn(&EniTable) -> &[AclBinding]| {
            let bound = |binding: &&AclBinding| **binding != AclBinding::default();
            let enis = self.enis.values();
            enis.map(|eni| stages(eni).iter().filter(bound).count())
                .sum()
        };
        match table {
            Table::Switch => usize::from(self.switch != Switch::default()),
            Table::Vnet => self.vnets.len(),
            Table::PortMap => self.port_maps.len(),
            Table::PortMapRange => sum(self.port_maps.values(), |map| map.ranges.len()),
            Table::MeterPolicy => self.meter_policies.len(),
            Table::MeterRule => sum(self.meter_policies.values(), |policy| policy.rules.len()),
            Table::AclGroup => self.acl_groups.len(),
            Table::AclRule => sum(self.acl_groups.values(), |group| group.rules.len()),
            Table::RouteGroup => self.route_groups.len(),
            Table::Route => sum(self.route_groups.values(), |group| group.routes().len()),
            Table::VnetMapping => sum(self.vnets.values(), |vnet| {
                let (v4, v6) = vnet.len_by_version();
                v4 + v6
            }),
            Table::Eni => self.enis.len(),
            Table::EniRoute => sum(self.enis.values(), |eni| {
                usize::from(eni.route_group.is_some())
            }),
            Table::EniNat => sum(self.enis.values(), |eni| usize::from(eni.nat.is_some())),
            Table::RouteRule => sum(self.enis.values(), |eni| eni.route_rules.len()),
            Table::AclIn => stages(|eni| &eni.acl_in),
            Table::AclOut => stages(|eni| &eni.acl_out),
            plain => self.count_plain(plain),
        }
    }
}

fn sum<'t, T: 't>(tables: impl Iterator<Item = &'t T>, count: impl Fn(&T) -> usize) -> usize {
    tables.map(count).sum()
}

impl EniTable {
    fn for_each(&self, id: &EniId, each: &mut dyn FnMut(Object)) {
        each(Object::Eni(id.clone(), self.eni.clone()));
        if let Some(group) = self.route_group.clone() {
            each(Object::EniRoute(id.clone(), EniRoute { group }));
        }
        if let Some(nat) = self.nat.clone() {
            each(Object::EniNat(id.clone(), nat));
        }
        for (inbound, rule) in self.route_rules.iter() {
            each(Object::RouteRule(inbound.of(id), rule.clone()));
        }
        for number in 1..=AclStage::COUNT as u8 {
            let Some(stage) = AclStage::new(number) else {
                continue;
            };
            let key = || AclStageKey {
                eni: id.clone(),
                stage,
            };
            let none = AclBinding::default();
            let (inbound, outbound) = (&self.acl_in[stage.index()], &self.acl_out[stage.index()]);
            if *inbound != none {
                each(Object::AclIn(key(), inbound.clone()));
            }
            if *outbound != none {
                each(Object::AclOut(key(), outbound.clone()));
            }
        }
    }
}

impl InboundMatch {
    /// The key of the rule of an ENI that matches this.
    fn of(&self, eni: &EniId) -> RouteRuleKey {
        RouteRuleKey {
            eni: eni.clone(),
            vni: self.vni,
            source: self.source,
            priority: self.priority,
        }
    }
}
