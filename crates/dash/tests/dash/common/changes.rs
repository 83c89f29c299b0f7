//! Random changes of a random configuration: something in it is set otherwise, added or taken away.

use std::collections::BTreeMap;

use twinpath_core::wire::Address;
use twinpath_dash::headers::Direction;
use twinpath_dash::objects::*;
use twinpath_dash::samples::Objects;

use super::packets::{self, Dice};

/// Makes a change, and tells the keys of what changed. What is new is taken from another random
/// configuration.
pub fn change(dice: &mut Dice, objects: &mut Objects, enis: u8) -> Vec<Key> {
    let new = packets::configuration_over(dice, enis, packets::is_underlay_v4(objects));
    match dice.below(16) {
        0 | 1 => mapping(dice, objects, &new),
        2 => host_goes(dice, objects),
        3 | 4 => route(dice, objects, &new),
        5 => acl_rule(dice, objects, &new),
        6 => binding(dice, objects, &new),
        7 => tag(dice, objects, &new),
        8 => plain(dice, &mut objects.tunnels, &new.tunnels, Key::Tunnel),
        9 => plain(dice, &mut objects.port_maps, &new.port_maps, Key::PortMap),
        10 => plain(
            dice,
            &mut objects.routing_types,
            &new.routing_types,
            Key::RoutingType,
        ),
        11 => plain(
            dice,
            &mut objects.meter_policies,
            &new.meter_policies,
            Key::MeterPolicy,
        ),
        12 => eni(dice, objects, &new),
        13 => route_rule(dice, objects, &new),
        14 => plain(
            dice,
            &mut objects.pa_validation,
            &new.pa_validation,
            Key::PaValidation,
        ),
        _ => common(dice, objects, &new),
    }
}

fn some<T>(dice: &mut Dice, from: impl Iterator<Item = T>) -> Option<T> {
    let mut all: Vec<T> = from.collect();
    (!all.is_empty()).then(|| all.swap_remove(dice.below(all.len() as u64) as usize))
}

/// Sets or removes an entry of a table whose objects have nothing below them.
fn plain<K: Ord + Clone, V: Clone>(
    dice: &mut Dice,
    table: &mut BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
    key_of: fn(K) -> Key,
) -> Vec<Key> {
    if dice.one_in(3)
        && let Some(key) = some(dice, table.keys().cloned())
    {
        table.remove(&key);
        return vec![key_of(key)];
    }
    let Some((key, value)) = some(dice, new.iter()) else {
        return Vec::new();
    };
    table.insert(key.clone(), value.clone());
    vec![key_of(key.clone())]
}

fn mapping_key((vnet, address): (VnetName, Address)) -> Key {
    Key::VnetMapping(VnetMappingKey { vnet, address })
}

fn mapping(dice: &mut Dice, objects: &mut Objects, new: &Objects) -> Vec<Key> {
    plain(dice, &mut objects.mappings, &new.mappings, mapping_key)
}

/// One that rules may name does not go: they would wait for it.
fn tag(dice: &mut Dice, objects: &mut Objects, new: &Objects) -> Vec<Key> {
    let Some((name, tag)) = some(dice, new.tags.iter()) else {
        return Vec::new();
    };
    let mut tag = tag.clone();
    if dice.one_in(3) {
        tag.prefixes = PrefixList::default();
    }
    objects.tags.insert(name.clone(), tag);
    vec![Key::PrefixTag(name.clone())]
}

/// No mapping of a network leads to a host any more: its machines have gone to another one.
fn host_goes(dice: &mut Dice, objects: &mut Objects) -> Vec<Key> {
    let places = objects
        .mappings
        .iter()
        .map(|((vnet, _), mapping)| (vnet.clone(), mapping.underlay_ip));
    let Some((vnet, host)) = some(dice, places) else {
        return Vec::new();
    };
    let other = packets::physical(dice, packets::is_underlay_v4(objects));
    let mut changed = Vec::new();
    for (key, mapping) in &mut objects.mappings {
        if key.0 == vnet && mapping.underlay_ip == host {
            mapping.underlay_ip = other;
            changed.push(mapping_key(key.clone()));
        }
    }
    changed
}

fn route(dice: &mut Dice, objects: &mut Objects, new: &Objects) -> Vec<Key> {
    let Some(group) = some(dice, objects.route_groups.keys().cloned()) else {
        return Vec::new();
    };
    let routes = objects.route_groups.get_mut(&group).expect("there");
    let key = |prefix| {
        let group = group.clone();
        vec![Key::Route(RouteKey { group, prefix })]
    };
    if dice.one_in(3)
        && let Some((prefix, _)) = some(dice, routes.iter().cloned())
    {
        routes.retain(|(other, _)| *other != prefix);
        return key(prefix);
    }
    let Some((prefix, route)) = some(dice, new.route_groups.values().flatten().cloned()) else {
        return Vec::new();
    };
    routes.retain(|(other, _)| *other != prefix);
    routes.push((prefix, route));
    key(prefix)
}

fn acl_rule(dice: &mut Dice, objects: &mut Objects, new: &Objects) -> Vec<Key> {
    let Some(group) = some(dice, objects.acl_groups.keys().cloned()) else {
        return Vec::new();
    };
    let (_, rules) = objects.acl_groups.get_mut(&group).expect("there");
    let of_new = &new.acl_groups[&group].1;
    let rule = match some(dice, rules.keys().chain(of_new.keys()).cloned()) {
        Some(rule) => rule,
        None => return Vec::new(),
    };
    match of_new.get(&rule).filter(|_| dice.one_in(2)) {
        Some(new) => _ = rules.insert(rule.clone(), new.clone()),
        None => _ = rules.remove(&rule),
    }
    vec![Key::AclRule(AclRuleKey { group, rule })]
}

fn binding(dice: &mut Dice, objects: &mut Objects, new: &Objects) -> Vec<Key> {
    let keys = objects.bindings.keys().chain(new.bindings.keys());
    let Some(place) = some(dice, keys.cloned()) else {
        return Vec::new();
    };
    match new.bindings.get(&place) {
        Some(binding) => _ = objects.bindings.insert(place.clone(), binding.clone()),
        None => _ = objects.bindings.remove(&place),
    }
    let (eni, direction, stage) = place;
    let key = AclStageKey { eni, stage };
    vec![match direction {
        Direction::Outbound => Key::AclOut(key),
        Direction::Inbound => Key::AclIn(key),
    }]
}

fn eni(dice: &mut Dice, objects: &mut Objects, new: &Objects) -> Vec<Key> {
    let is_v4 = packets::is_underlay_v4(objects);
    let Some((id, eni)) = some(dice, objects.enis.iter_mut()) else {
        return Vec::new();
    };
    let other = &new.enis[id];
    match dice.below(8) {
        0 => eni.vnet = other.vnet.clone(),
        1 => eni.mode = other.mode,
        2 => eni.trusted_vnis = other.trusted_vnis.clone(),
        3 => {
            (eni.pl_underlay_sip, eni.pl_sip_encoding) =
                (other.pl_underlay_sip, other.pl_sip_encoding)
        }
        4 => match new.eni_routes.get(id) {
            Some(group) => {
                objects.eni_routes.insert(id.clone(), group.clone());
                return vec![Key::EniRoute(id.clone())];
            }
            None => eni.v4_meter_policy = other.v4_meter_policy.clone(),
        },
        // Its machine goes to another host, which may be a peer's.
        5 | 6 => eni.underlay_ip = Some(packets::host(is_v4, dice.below(6) as u8)),
        _ => {
            eni.admin_state = match eni.admin_state {
                AdminState::Enabled => AdminState::Disabled,
                AdminState::Disabled => AdminState::Enabled,
            }
        }
    }
    vec![Key::Eni(id.clone())]
}

fn route_rule(dice: &mut Dice, objects: &mut Objects, new: &Objects) -> Vec<Key> {
    let rules = &mut objects.route_rules;
    let gone = some(dice, rules.iter().map(|(key, _)| key.clone()));
    if dice.one_in(3)
        && let Some(gone) = gone
    {
        rules.retain(|(key, _)| *key != gone);
        return vec![Key::RouteRule(gone)];
    }
    let Some((key, rule)) = some(dice, new.route_rules.iter().cloned()) else {
        return Vec::new();
    };
    rules.retain(|(other, _)| *other != key);
    rules.push((key.clone(), rule));
    vec![Key::RouteRule(key)]
}

fn common(dice: &mut Dice, objects: &mut Objects, new: &Objects) -> Vec<Key> {
    let (Some(appliance), Some(other)) = (&mut objects.appliance, &new.appliance) else {
        return Vec::new();
    };
    if dice.one_in(2) {
        appliance.trusted_vnis = other.trusted_vnis.clone();
        return vec![Key::Appliance("appliance".into())];
    }
    let Some((name, vnet)) = some(dice, objects.vnets.iter_mut()) else {
        return Vec::new();
    };
    vnet.vni = packets::vni(1000 + dice.below(4) as u32);
    vec![Key::Vnet(name.clone())]
}
