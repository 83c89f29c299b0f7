//! What is in force: all objects, those that belong together in one table.

use std::sync::Arc;

use super::shared_map::{SharedMap, adopt};
use super::tables::{
    AclTable, EniTable, InboundMatch, MeterTable, PortMapTable, RouteTable, VnetTable,
};
use crate::objects::*;
use twinpath_core::wire::Address;

/// All objects in force. A copy shares everything; what an object is kept in is one [`Arc`] for
/// each group, network or ENI, so whoever builds something from a group can tell by
/// [`Arc::ptr_eq`] whether it has changed.
///
/// Nothing in it refers to what is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// How the switch speaks VXLAN.
    pub switch: Switch,
    /// The DPU itself; one, as a rule.
    pub appliances: SharedMap<ApplianceId, Arc<Appliance>>,
    /// What routes and mappings of a kind do.
    pub routing_types: SharedMap<RoutingType, Arc<RoutingActions>>,
    /// Virtual networks with their mappings.
    pub vnets: SharedMap<VnetName, Arc<VnetTable>>,
    /// Tunnels.
    pub tunnels: SharedMap<TunnelName, Arc<Tunnel>>,
    /// Port maps with their ranges.
    pub port_maps: SharedMap<PortMapId, Arc<PortMapTable>>,
    /// Limits.
    pub qos: SharedMap<QosName, Arc<Qos>>,
    /// Meter policies with their rules.
    pub meter_policies: SharedMap<MeterPolicyId, Arc<MeterTable>>,
    /// Named lists of prefixes.
    pub tags: SharedMap<TagName, Arc<PrefixTag>>,
    /// Groups of access control rules with these.
    pub acl_groups: SharedMap<AclGroupId, Arc<AclTable>>,
    /// Route groups with their routes.
    pub route_groups: SharedMap<RouteGroupId, Arc<RouteTable>>,
    /// Addresses of networks behind which others stand.
    pub load_balancers: SharedMap<LoadBalancerKey, Arc<LoadBalancer>>,
    /// External addresses and ports.
    pub nat_pools: SharedMap<NatPoolId, Arc<NatPool>>,
    /// Physical addresses that may send, by VNI.
    pub pa_validations: SharedMap<Vni, Arc<PaValidation>>,
    /// ENIs with what each has for itself.
    pub enis: SharedMap<EniId, Arc<EniTable>>,
    /// Which ENIs have a block of a pool: one at most, except while some exchange theirs.
    nat_blocks: SharedMap<(EniNat, EniId), ()>,
    /// Sets of DPUs, as a DPU is told.
    pub ha_sets: SharedMap<HaSetId, Arc<HaSet>>,
    /// Roles, as a DPU is told.
    pub ha_scopes: SharedMap<HaScopeId, Arc<HaScope>>,
    /// Sets of DPUs, as a switch is told.
    pub ha_set_configs: SharedMap<HaSetId, Arc<HaSetConfig>>,
    /// Roles, as a switch is told.
    pub ha_scope_configs: SharedMap<HaScopeConfigKey, Arc<HaScopeConfig>>,
    /// A switch's addresses that hosts send to.
    pub vips: SharedMap<Address, Arc<Vip>>,
    /// A switch's DPUs.
    pub dpus: SharedMap<DpuId, Arc<Dpu>>,
    /// Other switches' DPUs.
    pub remote_dpus: SharedMap<DpuId, Arc<RemoteDpu>>,
    /// Virtual DPUs.
    pub vdpus: SharedMap<VdpuId, Arc<Vdpu>>,
    /// A switch's tunnels.
    pub switch_tunnels: SharedMap<SwitchTunnelName, Arc<SwitchTunnel>>,
    /// A switch's networks.
    pub switch_vnets: SharedMap<SwitchVnetName, Arc<SwitchVnet>>,
    /// Which DPUs ENIs are on.
    pub eni_forwards: SharedMap<EniForwardKey, Arc<EniForward>>,
}

/// What is done alike with all tables whose objects have nothing below them.
macro_rules! plain_tables {
    ($($Table:ident $field:ident)*) => {
        impl Configuration {
            fn contains_plain(&self, key: &Key) -> bool {
                match key {
                    $(Key::$Table(key) => self.$field.contains(key),)*
                    other => self.get(other).is_some(),
                }
            }

            fn get_plain(&self, key: &Key) -> Option<Object> {
                match key {
                    $(Key::$Table(key) => {
                        let value = self.$field.get(key)?;
                        Some(Object::$Table(key.clone(), (**value).clone()))
                    })*
                    _ => None,
                }
            }

            fn set_plain(&mut self, object: Object) {
                match object {
                    $(Object::$Table(key, value) => {
                        self.$field.insert(key, Arc::new(value));
                    })*
                    _ => {}
                }
            }

            fn remove_plain(&mut self, key: &Key) {
                match key {
                    $(Key::$Table(key) => drop(self.$field.remove(key)),)*
                    _ => {}
                }
            }

            pub(super) fn each_plain(&self, each: &mut dyn FnMut(Object)) {
                $(for (key, value) in self.$field.iter() {
                    each(Object::$Table(key.clone(), (**value).clone()));
                })*
            }

            pub(super) fn count_plain(&self, table: Table) -> usize {
                match table {
                    $(Table::$Table => self.$field.len(),)*
                    _ => 0,
                }
            }

            pub(super) fn adopt_plain(&mut self, other: &Self) {
                $(adopt(&mut self.$field, &other.$field);)*
            }
        }
    };
}

plain_tables! {
    Appliance appliances
    RoutingType routing_types
    Tunnel tunnels
    Qos qos
    PrefixTag tags
    LoadBalancer load_balancers
    NatPool nat_pools
    PaValidation pa_validations
    HaSet ha_sets
    HaScope ha_scopes
    HaSetConfig ha_set_configs
    HaScopeConfig ha_scope_configs
    Vip vips
    Dpu dpus
    RemoteDpu remote_dpus
    Vdpu vdpus
    SwitchTunnel switch_tunnels
    SwitchVnet switch_vnets
    EniForward eni_forwards
}

/// A group to be changed; a copy of it if others hold it, too.
fn group<'m, K: Ord + Clone, T: Clone>(
    map: &'m mut SharedMap<K, Arc<T>>,
    key: &K,
) -> Option<&'m mut T> {
    map.get_mut(key).map(Arc::make_mut)
}

/// Puts what a group itself says in place, and keeps its entries.
fn set_head<K: Ord + Clone, T: Clone, H>(
    map: &mut SharedMap<K, Arc<T>>,
    key: K,
    head: H,
    place: fn(&mut T) -> &mut H,
    new: fn(H) -> T,
) {
    match group(map, &key) {
        Some(table) => *place(table) = head,
        None => {
            map.insert(key, Arc::new(new(head)));
        }
    }
}

impl Configuration {
    /// The DPU itself: of several the first by name.
    #[must_use]
    pub fn appliance(&self) -> Option<&Appliance> {
        let mut appliances = self.appliances.values();
        appliances.next().map(|appliance| &**appliance)
    }

    /// Whether an object is in force.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        match key {
            Key::Vnet(key) => self.vnets.contains(key),
            Key::PortMap(key) => self.port_maps.contains(key),
            Key::MeterPolicy(key) => self.meter_policies.contains(key),
            Key::AclGroup(key) => self.acl_groups.contains(key),
            Key::RouteGroup(key) => self.route_groups.contains(key),
            Key::Eni(key) => self.enis.contains(key),
            other => self.contains_plain(other),
        }
    }

    /// An object in force.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Object> {
        let key = key.clone();
        Some(match key {
            Key::Switch(key) => {
                let set = self.switch != Switch::default();
                return set.then_some(Object::Switch(key, self.switch));
            }
            Key::Vnet(key) => {
                let value = self.vnets.get(&key)?.vnet.clone();
                Object::Vnet(key, value)
            }
            Key::PortMap(key) => {
                let value = self.port_maps.get(&key)?.map.clone();
                Object::PortMap(key, value)
            }
            Key::PortMapRange(key) => {
                let value = *self.port_maps.get(&key.map)?.ranges.get(&key.ports)?;
                Object::PortMapRange(key, value)
            }
            Key::MeterPolicy(key) => {
                let value = self.meter_policies.get(&key)?.policy.clone();
                Object::MeterPolicy(key, value)
            }
            Key::MeterRule(key) => {
                let policy = self.meter_policies.get(&key.policy)?;
                let value = policy.rules.get(&key.rule)?.clone();
                Object::MeterRule(key, value)
            }
            Key::AclGroup(key) => {
                let value = self.acl_groups.get(&key)?.group.clone();
                Object::AclGroup(key, value)
            }
            Key::AclRule(key) => {
                let rules = &self.acl_groups.get(&key.group)?.rules;
                let value = (**rules.get(&key.rule)?).clone();
                Object::AclRule(key, value)
            }
            Key::RouteGroup(key) => {
                let value = self.route_groups.get(&key)?.group.clone();
                Object::RouteGroup(key, value)
            }
            Key::Route(key) => {
                let routes = self.route_groups.get(&key.group)?.routes();
                let value = (**routes.get(key.prefix)?).clone();
                Object::Route(key, value)
            }
            Key::VnetMapping(key) => {
                let value = self.vnets.get(&key.vnet)?.mapping(key.address)?;
                Object::VnetMapping(key, value)
            }
            Key::Eni(key) => {
                let value = self.enis.get(&key)?.eni.clone();
                Object::Eni(key, value)
            }
            Key::EniRoute(key) => {
                let group = self.enis.get(&key)?.route_group.clone()?;
                Object::EniRoute(key, EniRoute { group })
            }
            Key::EniNat(key) => {
                let nat = self.enis.get(&key)?.nat.clone()?;
                Object::EniNat(key, nat)
            }
            Key::RouteRule(key) => {
                let rules = &self.enis.get(&key.eni)?.route_rules;
                let value = rules.get(&InboundMatch::from(&key))?.clone();
                Object::RouteRule(key, value)
            }
            Key::AclIn(key) => {
                let binding = &self.enis.get(&key.eni)?.acl_in[key.stage.index()];
                let value = bound(binding)?;
                Object::AclIn(key, value)
            }
            Key::AclOut(key) => {
                let binding = &self.enis.get(&key.eni)?.acl_out[key.stage.index()];
                let value = bound(binding)?;
                Object::AclOut(key, value)
            }
            other => return self.get_plain(&other),
        })
    }

    /// Puts an object in force whose references are; one whose are not has no effect.
    pub(super) fn set(&mut self, object: Object) {
        match object {
            Object::Switch(_, switch) => self.switch.update(switch),
            Object::Vnet(key, value) => set_head(
                &mut self.vnets,
                key,
                value,
                |table| &mut table.vnet,
                VnetTable::new,
            ),
            Object::PortMap(key, value) => set_head(
                &mut self.port_maps,
                key,
                value,
                |table| &mut table.map,
                |map| PortMapTable {
                    map,
                    ranges: SharedMap::default(),
                },
            ),
            Object::PortMapRange(key, value) => {
                if let Some(map) = group(&mut self.port_maps, &key.map) {
                    map.ranges.insert(key.ports, value);
                }
            }
            Object::MeterPolicy(key, value) => set_head(
                &mut self.meter_policies,
                key,
                value,
                |table| &mut table.policy,
                |policy| MeterTable {
                    policy,
                    rules: SharedMap::default(),
                },
            ),
            Object::MeterRule(key, value) => {
                if let Some(policy) = group(&mut self.meter_policies, &key.policy) {
                    policy.rules.insert(key.rule, value);
                }
            }
            Object::AclGroup(key, value) => set_head(
                &mut self.acl_groups,
                key,
                value,
                |table| &mut table.group,
                |group| AclTable {
                    group,
                    rules: SharedMap::default(),
                },
            ),
            Object::AclRule(key, value) => {
                if let Some(table) = group(&mut self.acl_groups, &key.group) {
                    table.rules.insert(key.rule, Arc::new(value));
                }
            }
            Object::RouteGroup(key, value) => set_head(
                &mut self.route_groups,
                key,
                value,
                |table| &mut table.group,
                RouteTable::new,
            ),
            Object::Route(key, value) => {
                if let Some(table) = group(&mut self.route_groups, &key.group) {
                    table.insert(key.prefix, value);
                }
            }
            Object::VnetMapping(key, value) => {
                if let Some(table) = group(&mut self.vnets, &key.vnet) {
                    table.insert(key.address, value);
                }
            }
            Object::Eni(key, value) => set_head(
                &mut self.enis,
                key,
                value,
                |table| &mut table.eni,
                EniTable::new,
            ),
            Object::EniRoute(key, value) => {
                if let Some(table) = group(&mut self.enis, &key) {
                    table.route_group = Some(value.group);
                }
            }
            Object::EniNat(key, value) => self.set_nat(&key, Some(value)),
            Object::RouteRule(key, value) => {
                if let Some(table) = group(&mut self.enis, &key.eni) {
                    table.route_rules.insert(InboundMatch::from(&key), value);
                }
            }
            Object::AclIn(key, value) => {
                if let Some(table) = group(&mut self.enis, &key.eni) {
                    table.acl_in[key.stage.index()] = value;
                }
            }
            Object::AclOut(key, value) => {
                if let Some(table) = group(&mut self.enis, &key.eni) {
                    table.acl_out[key.stage.index()] = value;
                }
            }
            other => self.set_plain(other),
        }
    }

    /// Takes an object out of force, and with a group all that is in it; nothing if it is not.
    pub(super) fn remove(&mut self, key: &Key) {
        match key {
            Key::Switch(_) => self.switch = Switch::default(),
            Key::Vnet(key) => drop(self.vnets.remove(key)),
            Key::PortMap(key) => drop(self.port_maps.remove(key)),
            Key::PortMapRange(key) => {
                if let Some(map) = group(&mut self.port_maps, &key.map) {
                    map.ranges.remove(&key.ports);
                }
            }
            Key::MeterPolicy(key) => drop(self.meter_policies.remove(key)),
            Key::MeterRule(key) => {
                if let Some(policy) = group(&mut self.meter_policies, &key.policy) {
                    policy.rules.remove(&key.rule);
                }
            }
            Key::AclGroup(key) => drop(self.acl_groups.remove(key)),
            Key::AclRule(key) => {
                if let Some(table) = group(&mut self.acl_groups, &key.group) {
                    table.rules.remove(&key.rule);
                }
            }
            Key::RouteGroup(key) => drop(self.route_groups.remove(key)),
            Key::Route(key) => {
                if let Some(table) = group(&mut self.route_groups, &key.group) {
                    table.remove(key.prefix);
                }
            }
            Key::VnetMapping(key) => {
                if let Some(table) = group(&mut self.vnets, &key.vnet) {
                    table.remove(key.address);
                }
            }
            Key::Eni(key) => {
                let gone = self.enis.remove(key);
                if let Some(nat) = gone.and_then(|table| table.nat.clone()) {
                    self.nat_blocks.remove(&(nat, key.clone()));
                }
            }
            Key::EniRoute(key) => {
                if let Some(table) = group(&mut self.enis, key) {
                    table.route_group = None;
                }
            }
            Key::EniNat(key) => self.set_nat(key, None),
            Key::RouteRule(key) => {
                if let Some(table) = group(&mut self.enis, &key.eni) {
                    table.route_rules.remove(&InboundMatch::from(key));
                }
            }
            Key::AclIn(key) => {
                if let Some(table) = group(&mut self.enis, &key.eni) {
                    table.acl_in[key.stage.index()] = AclBinding::default();
                }
            }
            Key::AclOut(key) => {
                if let Some(table) = group(&mut self.enis, &key.eni) {
                    table.acl_out[key.stage.index()] = AclBinding::default();
                }
            }
            other => self.remove_plain(other),
        }
    }

    /// Gives an ENI a NAT gateway, or takes the one that it has.
    fn set_nat(&mut self, eni: &EniId, nat: Option<EniNat>) {
        let Some(table) = group(&mut self.enis, eni) else {
            return;
        };
        if let Some(old) = std::mem::replace(&mut table.nat, nat.clone()) {
            self.nat_blocks.remove(&(old, eni.clone()));
        }
        if let Some(new) = nat {
            self.nat_blocks.insert((new, eni.clone()), ());
        }
    }

    /// The ENIs that have a block of a pool, which is one at most, except while some exchange theirs.
    pub(super) fn enis_with_block<'c>(
        &'c self,
        nat: &'c EniNat,
    ) -> impl Iterator<Item = &'c EniId> + 'c {
        let first = (nat.clone(), EniId::from(""));
        let from = self.nat_blocks.iter_from(&first).map(|(key, ())| key);
        let of_block = from.take_while(move |(other, _)| other == nat);
        of_block.map(|(_, eni)| eni)
    }

    /// The pool in which an external endpoint is.
    pub(super) fn pool_with(&self, address: Address, port: u16) -> Option<&NatPoolId> {
        let mut pools = self.nat_pools.iter();
        let pool = pools.find(|(_, pool)| pool.includes(address, port))?;
        Some(pool.0)
    }

    /// The range of a port map in which a port is.
    pub(super) fn range_with(&self, map: &PortMapId, port: u16) -> Option<PortRange> {
        let (ranges, one) = (&self.port_maps.get(map)?.ranges, PortRange::one(port));
        let around = ranges.neighbors(&one).into_iter().flatten();
        let mut ranges = around.map(|(ports, _)| ports).chain(ranges.get_key(&one));
        let with_it = ranges.find(|ports| ports.first() <= port && port <= ports.last());
        with_it.copied()
    }
}

/// A binding of a stage that has one.
fn bound(binding: &AclBinding) -> Option<AclBinding> {
    (*binding != AclBinding::default()).then(|| binding.clone())
}

impl From<&RouteRuleKey> for InboundMatch {
    fn from(key: &RouteRuleKey) -> Self {
        Self {
            vni: key.vni,
            priority: key.priority,
            source: key.source,
        }
    }
}

impl Switch {
    /// What an update does not say stays as it was.
    fn update(&mut self, new: Self) {
        self.vxlan_port = new.vxlan_port.or(self.vxlan_port);
        self.vxlan_source_port = new.vxlan_source_port.or(self.vxlan_source_port);
        self.vxlan_source_port_bits = new.vxlan_source_port_bits.or(self.vxlan_source_port_bits);
        self.vxlan_security = new.vxlan_security.or(self.vxlan_security);
    }
}
