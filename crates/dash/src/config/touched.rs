//! Which ENIs' packets may be treated otherwise after a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::configuration::Configuration;
use super::shared_map::SharedMap;
use super::tables::EniTable;
use crate::objects::*;

/// ENIs that a change touches: those whose flows may have been decided otherwise.
///
/// Limits of an ENI do not count: no flow holds anything of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    enis: BTreeSet<EniId>,
}

impl Touched {
    /// The ENIs; also those that are gone.
    pub fn enis(&self) -> impl Iterator<Item = &EniId> {
        self.enis.iter()
    }

    /// Whether an ENI is among them.
    #[must_use]
    pub fn contains(&self, eni: &EniId) -> bool {
        self.enis.contains(eni)
    }
}

/// The ENIs that differ between two configurations, in themselves or in what they refer to.
pub(super) fn touched_enis(old: &Configuration, new: &Configuration) -> Touched {
    let changes = Changes::between(old, new);
    let mut enis = changed(&old.enis, &new.enis);
    for (id, eni) in new.enis.iter() {
        if changes.touch(eni) {
            enis.insert(id.clone());
        }
    }
    Touched { enis }
}

/// The groups and networks that differ, in themselves or in what they refer to.
struct Changes {
    /// The DPU itself.
    all: bool,
    vnets: BTreeSet<VnetName>,
    route_groups: BTreeSet<RouteGroupId>,
    acl_groups: BTreeSet<AclGroupId>,
    meter_policies: BTreeSet<MeterPolicyId>,
    pa_validations: BTreeSet<Vni>,
    nat_pools: BTreeSet<NatPoolId>,
}

impl Changes {
    fn between(old: &Configuration, new: &Configuration) -> Self {
        let all = old.switch != new.switch || !changed(&old.appliances, &new.appliances).is_empty();
        let tunnels = changed(&old.tunnels, &new.tunnels);
        let types = changed(&old.routing_types, &new.routing_types);
        let maps = changed(&old.port_maps, &new.port_maps);
        let tags = changed(&old.tags, &new.tags);
        let mut vnets = changed(&old.vnets, &new.vnets);
        let balancers = changed(&old.load_balancers, &new.load_balancers);
        vnets.extend(balancers.into_iter().map(|key| key.vnet));
        if !(tunnels.is_empty() && types.is_empty() && maps.is_empty()) {
            let uses = |mapping: &VnetMapping| {
                types.contains(&mapping.routing_type)
                    || has(&tunnels, &mapping.tunnel)
                    || has(&maps, &mapping.port_map)
            };
            add(&mut vnets, &new.vnets, |vnet| vnet.distinct().any(uses));
        }
        let mut route_groups = changed(&old.route_groups, &new.route_groups);
        if !(vnets.is_empty() && tunnels.is_empty() && types.is_empty()) {
            add(&mut route_groups, &new.route_groups, |group| {
                group.distinct().any(|route| {
                    let vnet = route.action.vnet();
                    vnet.is_some_and(|vnet| vnets.contains(vnet))
                        || has(&tunnels, &route.tunnel)
                        || types.contains(&route.action.routing_type())
                })
            });
        }
        let mut acl_groups = changed(&old.acl_groups, &new.acl_groups);
        if !tags.is_empty() {
            add(&mut acl_groups, &new.acl_groups, |group| {
                let mut rules = group.rules().values();
                rules.any(|rule| rule.tags().any(|tag| tags.contains(tag)))
            });
        }
        Self {
            all,
            vnets,
            route_groups,
            acl_groups,
            meter_policies: changed(&old.meter_policies, &new.meter_policies),
            pa_validations: changed(&old.pa_validations, &new.pa_validations),
            nat_pools: changed(&old.nat_pools, &new.nat_pools),
        }
    }

    /// Whether something differs that an ENI refers to.
    fn touch(&self, table: &EniTable) -> bool {
        let eni = &table.eni;
        self.all
            || self.vnets.contains(&eni.vnet)
            || has(&self.meter_policies, &eni.v4_meter_policy)
            || has(&self.meter_policies, &eni.v6_meter_policy)
            || has(&self.route_groups, &table.route_group)
            || table
                .nat
                .as_ref()
                .is_some_and(|nat| self.nat_pools.contains(&nat.pool))
            || table
                .stages()
                .any(|stage| has(&self.acl_groups, &stage.v4) || has(&self.acl_groups, &stage.v6))
            || table.route_rules.iter().any(|(inbound, rule)| {
                has(&self.vnets, &rule.vnet) || self.pa_validations.contains(&inbound.vni)
            })
    }
}

fn has<K: Ord>(changed: &BTreeSet<K>, key: &Option<K>) -> bool {
    key.as_ref().is_some_and(|key| changed.contains(key))
}

/// Keys whose values are not the same ones.
fn changed<K: Ord + Clone, T>(
    old: &SharedMap<K, Arc<T>>,
    new: &SharedMap<K, Arc<T>>,
) -> BTreeSet<K> {
    let mut keys = BTreeSet::new();
    new.differences_by(old, Arc::ptr_eq, &mut |key, _, _| {
        keys.insert(key.clone());
    });
    keys
}

/// Adds the keys of values that use something that differs.
fn add<K: Ord + Clone, T>(
    keys: &mut BTreeSet<K>,
    map: &SharedMap<K, Arc<T>>,
    uses: impl Fn(&T) -> bool,
) {
    for (key, value) in map.iter() {
        if !keys.contains(key) && uses(value) {
            keys.insert(key.clone());
        }
    }
}
