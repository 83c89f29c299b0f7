//! From objects to tables: all of them, or what has changed.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use twinpath_classify::Prefix;
use twinpath_core::hash::{HashKey, seed_for};
use twinpath_core::wire::Address;
use twinpath_core::wire::tunnel::SourcePorts;

use super::acl::AclTable;
use super::eni::{EniEntry, Limits, NatBlock};
use super::epochs::MappingEpochs;
use super::inbound::InboundTable;
use super::macs::MacTable;
use super::meeting::{Common, Meeting};
use super::meters::MeterTable;
use super::numbers::{Numbers, Used};
use super::ranges::Ranges;
use super::routes::RouteTable;
use super::routing::{PortMapTable, RoutingEntry, TunnelEntry};
use super::services::Services;
use super::shared_mappings::SharedMappings;
use super::trusted::TrustedVnis;
use super::{ApplianceEntry, Changes, SERIAL_BITS, SwitchEntry, Tables};
use crate::headers::Direction;
use crate::objects::{
    AclGroupId, AclStage, AdminState, DirectionLookup, Eni, EniId, EniMode, IpVersion, Key,
    MAX_ENIS, MaskedBits, MeterPolicyId, PaValidation, RouteGroupId, TagName, Vnet, VnetMappingKey,
    Vni, VniRange,
};
use crate::source::ObjectSource;

/// Physical addresses that may send with a VNI.
#[derive(Clone, Default)]
pub(super) struct PaSources(HashMap<u32, (Ranges<u32>, Ranges<u128>)>);

impl PaSources {
    /// Whether an address may send with a VNI.
    pub fn includes(&self, vni: u32, source: Address) -> bool {
        self.0.get(&vni).is_some_and(|(v4, v6)| {
            1 == match source.is_v4() {
                true => v4.of(source.0 as u32),
                false => v6.of(source.0),
            }
        })
    }

    fn set(&mut self, vni: Vni, validation: Option<&PaValidation>) {
        let Some(validation) = validation else {
            self.0.remove(&vni.get());
            return;
        };
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for prefix in validation.prefixes.iter() {
            let (first, last) = (prefix.network(), prefix.last());
            match first.is_v4() {
                true => v4.push((first.0 as u32, last.0 as u32, 0u8, 1)),
                false => v6.push((first.0, last.0, 0u8, 1)),
            }
        }
        let ranges = (Ranges::best(&v4, 0), Ranges::best(&v6, 0));
        self.0.insert(vni.get(), ranges);
    }
}

/// What is to be compiled anew.
#[derive(Default)]
struct Stale {
    acl_groups: HashSet<AclGroupId>,
    tags: HashSet<TagName>,
    route_groups: HashSet<RouteGroupId>,
    /// Prefixes whose routes have changed.
    routes: HashMap<RouteGroupId, Vec<Prefix>>,
    meter_policies: HashSet<MeterPolicyId>,
    mappings: Vec<VnetMappingKey>,
    common: Common,
    enis: bool,
}

impl Stale {
    fn note(&mut self, key: &Key, source: &dyn ObjectSource, pa: &mut PaSources) {
        self.enis |= concerns_enis(key);
        match key {
            Key::AclGroup(group) => _ = self.acl_groups.insert(group.clone()),
            Key::AclRule(rule) => _ = self.acl_groups.insert(rule.group.clone()),
            Key::PrefixTag(tag) => _ = self.tags.insert(tag.clone()),
            Key::RouteGroup(group) => _ = self.route_groups.insert(group.clone()),
            Key::Route(route) => {
                let prefixes = self.routes.entry(route.group.clone()).or_default();
                prefixes.push(route.prefix);
            }
            Key::MeterPolicy(policy) => _ = self.meter_policies.insert(policy.clone()),
            Key::MeterRule(rule) => _ = self.meter_policies.insert(rule.policy.clone()),
            Key::VnetMapping(mapping) => self.mappings.push(mapping.clone()),
            Key::PaValidation(vni) => {
                pa.set(*vni, source.pa_validation(*vni));
                self.common.vnis.push(*vni);
            }
            Key::Vnet(vnet) => self.common.vnets.push(vnet.clone()),
            Key::LoadBalancer(balancer) => self.common.vnets.push(balancer.vnet.clone()),
            Key::Tunnel(tunnel) => self.common.tunnels.push(tunnel.clone()),
            Key::PortMap(map) => self.common.port_maps.push(map.clone()),
            Key::PortMapRange(range) => self.common.port_maps.push(range.map.clone()),
            Key::Switch(_) | Key::Appliance(_) | Key::RoutingType(_) => self.common.all = true,
            // What ENIs have for themselves, and what is told to switches.
            _ => {}
        }
    }
}

/// Whether ENIs have to be looked at: mappings are looked up by packets, and the tables of switches and
/// of high availability are none of theirs.
const fn concerns_enis(key: &Key) -> bool {
    !matches!(
        key,
        Key::VnetMapping(_)
            | Key::HaSet(_)
            | Key::HaScope(_)
            | Key::HaSetConfig(_)
            | Key::HaScopeConfig(_)
            | Key::Vip(_)
            | Key::Dpu(_)
            | Key::RemoteDpu(_)
            | Key::Vdpu(_)
            | Key::SwitchTunnel(_)
            | Key::SwitchVnet(_)
            | Key::EniForward(_)
    )
}

/// What all ENIs of an update have in common.
struct Round<'a> {
    source: &'a dyn ObjectSource,
    epoch: u32,
    meeting: Meeting,
    /// VNIs of networks, and those that the appliance lists, once somebody asks.
    others: OnceCell<TrustedVnis>,
}

impl Round<'_> {
    /// The VNIs that a floating NIC alone lists: its machine's packets are brought with them.
    fn machine_vnis(&self, object: &Eni) -> TrustedVnis {
        if object.mode == EniMode::Vm || object.trusted_vnis.is_empty() {
            return TrustedVnis::new(&[]);
        }
        let others = self.others.get_or_init(|| {
            let appliance = self.source.appliance();
            let mut others = appliance.map_or_else(Vec::new, |it| it.trusted_vnis.to_vec());
            let networks = &mut |vnet: &Vnet| others.push(VniRange::one(vnet.vni));
            self.source.vnets(networks);
            TrustedVnis::new(&others)
        });
        TrustedVnis::new(&object.trusted_vnis).without(others)
    }
}

impl Tables {
    /// Tables without anything. What hashes are keyed with follows from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            numbers: Numbers::default(),
            appliance: ApplianceEntry {
                sip: None,
                vm_vni: None,
                lookup: DirectionLookup::default(),
                trusted: TrustedVnis::new(&[]),
            },
            switch: SwitchEntry::default(),
            vnets: Vec::new(),
            tunnels: Vec::new(),
            port_maps: Vec::new(),
            services: Services::default(),
            spread: HashKey::new(seed_for(seed, "dash choices")),
            routing_types: [None; RoutingEntry::KINDS.len()],
            mappings: SharedMappings::new(seed_for(seed, "dash mappings")),
            mapping_epochs: MappingEpochs::new(seed),
            route_groups: HashMap::new(),
            acl_groups: HashMap::new(),
            meter_policies: HashMap::new(),
            enis: Vec::new(),
            eni_numbers: HashMap::new(),
            free_numbers: BTreeSet::new(),
            macs: MacTable::new(&[], seed),
            last_serial: 0,
            last_epoch: 0,
            pa_validation: PaSources::default(),
            vnis: HashSet::new(),
            refused_mappings: 0,
            refused_enis: 0,
            told_from: None,
            changes: Changes::default(),
        }
    }

    /// Compiles what depends on the objects with these keys, which were set, changed or deleted.
    /// Packets between two calls meet what the last one left: never a half of a change.
    pub fn update<'a>(
        &mut self,
        source: &dyn ObjectSource,
        changed: impl IntoIterator<Item = &'a Key>,
    ) {
        self.told_from = None;
        self.changes.begin();
        let mut stale = Stale::default();
        for key in changed {
            stale.note(key, source, &mut self.pa_validation);
        }
        for mapping in &stale.mappings {
            self.update_mapping(mapping, source);
        }
        if stale.enis {
            self.forget_stale(&stale, source);
            self.change_routes(&stale, source);
            let epoch = self.last_epoch.wrapping_add(1);
            self.update_enis(&Round {
                source,
                epoch,
                meeting: Meeting::of(&stale.common, &self.numbers, &self.mappings),
                others: OnceCell::new(),
            });
            self.last_epoch = epoch;
        }
        if self.numbers.is_crowded() {
            self.forget_names();
        }
        // A mapping may have given a name its first number.
        if self.numbers.take_new() || stale.enis {
            self.update_common(source);
        }
    }

    /// Forgets the numbers of names that nothing refers to any more.
    fn forget_names(&mut self) {
        let mut used = Used::default();
        self.mappings.note_used(&mut used);
        for routes in self.route_groups.values() {
            routes.note_used(&mut used);
        }
        for eni in self.enis.iter().flatten() {
            used.vnets.insert(eni.vnet);
            eni.inbound.note_used(&mut used);
        }
        self.numbers.retain(&used);
    }

    fn update_mapping(&mut self, key: &VnetMappingKey, source: &dyn ObjectSource) {
        let new = source.mapping(key);
        let vnet = match new {
            Some(_) => Some(self.numbers.vnets.of(&key.vnet)),
            None => self.numbers.vnets.get(&key.vnet),
        };
        let Some(vnet) = vnet else {
            return;
        };
        let old = self.mappings.lookup(vnet, key.address);
        let underlays = [
            old.map(|old| old.underlay),
            new.as_ref().map(|new| new.underlay_ip),
        ];
        let had = self.has_sources(vnet, underlays);
        match new {
            Some(mapping) => {
                let numbers = &mut self.numbers;
                let is_in = self.mappings.set(vnet, key.address, &mapping, numbers);
                self.refused_mappings += u64::from(!is_in);
            }
            None => self.mappings.remove(vnet, key.address),
        }
        let has = self.has_sources(vnet, underlays);
        let epochs = &mut self.mapping_epochs;
        epochs.grow(epochs.of_mapping(vnet, key.address));
        for ((underlay, had), has) in underlays.into_iter().zip(had).zip(has) {
            if let Some(underlay) = underlay
                && had != has
            {
                epochs.grow(epochs.of_source(vnet, underlay));
            }
        }
    }

    /// Which of these physical addresses are of a network.
    fn has_sources(&self, vnet: u32, sources: [Option<Address>; 2]) -> [bool; 2] {
        sources.map(|source| source.is_some_and(|it| self.mappings.has_source(vnet, it)))
    }

    /// What is compiled when it is next asked for.
    fn forget_stale(&mut self, stale: &Stale, source: &dyn ObjectSource) {
        self.acl_groups.retain(|group, _| {
            !stale.acl_groups.contains(group) && !names_any(group, &stale.tags, source)
        });
        self.route_groups
            .retain(|group, _| !stale.route_groups.contains(group));
        self.meter_policies
            .retain(|policy, _| !stale.meter_policies.contains(policy));
    }

    /// Tables of which few routes have changed are made of what they are; the others are compiled
    /// when they are next asked for.
    fn change_routes(&mut self, stale: &Stale, source: &dyn ObjectSource) {
        for (group, prefixes) in &stale.routes {
            let Some(known) = self.route_groups.remove(group) else {
                continue;
            };
            if let Some(table) = known.changed(group, prefixes, source, &mut self.numbers) {
                self.route_groups.insert(group.clone(), Arc::new(table));
            }
        }
    }

    /// Networks, tunnels, routing types and port maps: few, and small.
    fn update_common(&mut self, source: &dyn ObjectSource) {
        self.appliance = appliance(source);
        self.switch = switch(source);
        let numbers = &self.numbers;
        self.vnets = vec![None; numbers.vnets.end()];
        for (name, number) in numbers.vnets.iter() {
            let vni = source.vnet(name).map(|vnet| vnet.vni.get());
            self.vnets[number as usize] = vni;
        }
        self.vnis.clear();
        source.vnets(&mut |vnet| _ = self.vnis.insert(vnet.vni.get()));
        let nothing = vec![None; numbers.tunnels.end()];
        let tunnels = std::mem::replace(&mut self.tunnels, nothing);
        for (name, number) in numbers.tunnels.iter() {
            let known = tunnels.get(number as usize).and_then(Option::as_ref);
            let compiled = |tunnel| TunnelEntry::compile(tunnel, self.spread, known);
            self.tunnels[number as usize] = source.tunnel(name).and_then(compiled);
        }
        self.port_maps = vec![None; numbers.port_maps.end()];
        for (name, number) in numbers.port_maps.iter() {
            self.port_maps[number as usize] = PortMapTable::compile(name, source);
        }
        self.services = Services::compile(source, &self.numbers.vnets);
        for kind in RoutingEntry::KINDS {
            let actions = source.routing_type(kind);
            self.routing_types[RoutingEntry::place(kind)] = actions.map(RoutingEntry::compile);
        }
    }

    fn update_enis(&mut self, round: &Round<'_>) {
        let (source, mut present) = (round.source, BTreeSet::new());
        source.enis(&mut |id, _| _ = present.insert(id.clone()));
        for (number, eni) in (0..=u16::MAX).zip(&mut self.enis) {
            if let Some(gone) = eni.take_if(|eni| !present.contains(&eni.id)) {
                self.eni_numbers.remove(&gone.id);
                self.changes.note(number);
                self.free_numbers.insert(number);
            }
        }
        for id in &present {
            if let Some(object) = source.eni(id) {
                self.update_eni(id, object, round);
            }
        }
        self.drop_unused();
        let macs: Vec<_> = self.enis().map(|(number, eni)| (eni.mac, number)).collect();
        self.macs = MacTable::new(&macs, seed_for(self.seed, "dash macs"));
    }

    fn update_eni(&mut self, id: &EniId, object: &Eni, round: &Round<'_>) {
        let Some(number) = self.number_for(id) else {
            self.refused_enis += 1;
            return;
        };
        let place = usize::from(number);
        let known = self.enis[place].take();
        let rules = known.as_ref().map(|eni| &eni.inbound);
        let mut entry = self.compile_eni(id, object, round, rules);
        match &known {
            Some(old) => {
                entry.serial = old.serial;
                if entry.is_same_as(old) && !round.meeting.is_of(&entry) {
                    entry.epoch = old.epoch;
                }
            }
            None => {
                self.last_serial += 1;
                entry.serial = self.last_serial;
            }
        }
        let is_counted_anew = known
            .is_none_or(|old| (old.serial, old.limits.flows) != (entry.serial, entry.limits.flows));
        if is_counted_anew {
            self.changes.note(number);
        }
        self.enis[place] = Some(entry);
    }

    /// The number of an ENI that has one, or else the first free one.
    fn number_for(&mut self, id: &EniId) -> Option<u16> {
        if let Some(&number) = self.eni_numbers.get(id) {
            return Some(number);
        }
        if self.last_serial >> SERIAL_BITS != 0 {
            return None;
        }
        let free = self.free_numbers.pop_first();
        let number = free.or_else(|| self.next_number())?;
        self.eni_numbers.insert(id.clone(), number);
        Some(number)
    }

    /// A number that no ENI ever had.
    fn next_number(&mut self) -> Option<u16> {
        let place = self.enis.len();
        let number = u16::try_from(place).ok().filter(|_| place < MAX_ENIS)?;
        self.enis.push(None);
        Some(number)
    }

    fn compile_eni(
        &mut self,
        id: &EniId,
        object: &Eni,
        round: &Round<'_>,
        known: Option<&InboundTable>,
    ) -> EniEntry {
        let (source, epoch) = (round.source, round.epoch);
        let vnet = self.numbers.vnets.of(&object.vnet);
        let group = source.eni_route(id);
        EniEntry {
            id: id.clone(),
            serial: 0,
            epoch,
            mac: object.mac_address,
            underlay_ip: object.underlay_ip,
            is_enabled: object.admin_state == AdminState::Enabled,
            vnet,
            mode: object.mode,
            pl_underlay_sip: object.pl_underlay_sip,
            pl_sip_encoding: object.pl_sip_encoding.unwrap_or(MaskedBits::NONE),
            is_redirected: !object.disable_fast_path_icmp_flow_redirection,
            trusted: TrustedVnis::new(&object.trusted_vnis),
            machine_vnis: round.machine_vnis(object),
            limits: limits(object, source),
            routes: group.and_then(|group| self.routes(group, source)),
            nat: nat_block(id, source),
            inbound: InboundTable::compile(id, vnet, source, &mut self.numbers, known),
            acl: [Direction::Outbound, Direction::Inbound].map(|direction| {
                [IpVersion::V4, IpVersion::V6].map(|version| {
                    std::array::from_fn(|place| {
                        let stage = AclStage::new(place as u8 + 1)?;
                        let binding = source.acl_binding(id, direction, stage)?;
                        self.acl(binding.group(version)?, source)
                    })
                })
            }),
            meters: [IpVersion::V4, IpVersion::V6].map(|version| {
                let policy = object.meter_policy(version)?;
                self.meter(policy, source)
            }),
        }
    }

    fn routes(
        &mut self,
        group: &RouteGroupId,
        source: &dyn ObjectSource,
    ) -> Option<Arc<RouteTable>> {
        if let Some(table) = self.route_groups.get(group) {
            return Some(table.clone());
        }
        let table = RouteTable::compile(group, source, &mut self.numbers)?;
        let table = Arc::new(table);
        self.route_groups.insert(group.clone(), table.clone());
        Some(table)
    }

    fn acl(&mut self, group: &AclGroupId, source: &dyn ObjectSource) -> Option<Arc<AclTable>> {
        if let Some(table) = self.acl_groups.get(group) {
            return Some(table.clone());
        }
        // A list that is not there is one without rules.
        let table = AclTable::compile(group, source).unwrap_or_default();
        let table = Arc::new(table);
        self.acl_groups.insert(group.clone(), table.clone());
        Some(table)
    }

    fn meter(
        &mut self,
        policy: &MeterPolicyId,
        source: &dyn ObjectSource,
    ) -> Option<Arc<MeterTable>> {
        if let Some(table) = self.meter_policies.get(policy) {
            return Some(table.clone());
        }
        let table = Arc::new(MeterTable::compile(policy, source)?);
        self.meter_policies.insert(policy.clone(), table.clone());
        Some(table)
    }

    /// What no ENI has any more is not kept.
    fn drop_unused(&mut self) {
        self.acl_groups
            .retain(|_, table| Arc::strong_count(table) > 1);
        self.route_groups
            .retain(|_, table| Arc::strong_count(table) > 1);
        self.meter_policies
            .retain(|_, table| Arc::strong_count(table) > 1);
    }
}

/// Whether a rule of a group names one of these tags.
fn names_any(group: &AclGroupId, tags: &HashSet<TagName>, source: &dyn ObjectSource) -> bool {
    let mut names = false;
    if !tags.is_empty() {
        source.acl_rules(group, &mut |_, rule| {
            names |= rule.tags().any(|tag| tags.contains(tag));
        });
    }
    names
}

fn appliance(source: &dyn ObjectSource) -> ApplianceEntry {
    let appliance = source.appliance();
    ApplianceEntry {
        sip: appliance.map(|appliance| appliance.sip),
        vm_vni: appliance
            .and_then(|appliance| appliance.vm_vni)
            .map(Vni::get),
        lookup: appliance.map_or(DirectionLookup::default(), |appliance| {
            appliance.outbound_direction_lookup
        }),
        trusted: TrustedVnis::new(appliance.map_or(&[], |appliance| &*appliance.trusted_vnis)),
    }
}

fn switch(source: &dyn ObjectSource) -> SwitchEntry {
    let default = SwitchEntry::default();
    let Some(switch) = source.switch() else {
        return default;
    };
    let source_ports = match (switch.vxlan_source_port, switch.vxlan_source_port_bits) {
        (None, None) => default.source_ports,
        (base, bits) => SourcePorts {
            base: base.unwrap_or(0),
            bits: bits.unwrap_or(0),
        },
    };
    SwitchEntry {
        port: switch.vxlan_port.unwrap_or(default.port),
        source_ports,
        checks_source_port: switch.vxlan_security.unwrap_or(false),
    }
}

/// The block of an ENI's NAT gateway.
fn nat_block(eni: &EniId, source: &dyn ObjectSource) -> Option<NatBlock> {
    let nat = source.eni_nat(eni)?;
    let (address, ports) = source.nat_pool(&nat.pool)?.block(nat.block)?;
    Some(NatBlock { address, ports })
}

fn limits(eni: &Eni, source: &dyn ObjectSource) -> Limits {
    let qos = eni.qos.as_ref().and_then(|name| source.qos(name));
    qos.map_or(Limits::default(), |qos| Limits {
        bandwidth_kbps: qos.bandwidth_kbps,
        connections_per_second: qos.connections_per_second,
        flows: qos.flows,
    })
}
