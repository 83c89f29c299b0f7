//! The store against what it promises, on few names and in any order.

use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use super::*;
use crate::json;
use crate::objects::*;
use twinpath_core::wire::Address;

/// A configuration with every kind of reference.
const WHOLE: &str = r#"{
    "DASH_APPLIANCE_TABLE:a": {"sip": "10.1.0.5", "vm_vni": 2001},
    "DASH_ROUTING_TYPE_TABLE:vnet_encap": {"action_name": "1", "action_type": "staticencap", "encap_type": "vxlan"},
    "DASH_ROUTING_TYPE_TABLE:privatelink": {"items": [
        {"action_name": "1", "action_type": "4_to_6"},
        {"action_name": "2", "action_type": "staticencap", "encap_type": "nvgre", "vni": 100}]},
    "DASH_VNET_TABLE:blue": {"vni": 1001},
    "DASH_VNET_TABLE:red": {"vni": 1002},
    "DASH_TUNNEL_TABLE:far": {"endpoints": ["40.0.0.1", "40.0.0.2"], "encap_type": "vxlan", "vni": 100},
    "DASH_OUTBOUND_PORT_MAP_TABLE:ports": {},
    "DASH_OUTBOUND_PORT_MAP_RANGE_TABLE:ports:80-90": {"action": "map_private_link_service", "backend_ip": "60.0.0.1", "backend_port_base": 4000},
    "DASH_OUTBOUND_PORT_MAP_RANGE_TABLE:ports:91-99": {"action": "skip_mapping"},
    "DASH_QOS_TABLE:slow": {"bw": 1000, "cps": 10, "flows": 100},
    "DASH_METER_POLICY_TABLE:meter": {"ip_version": "ipv4"},
    "DASH_METER_RULE_TABLE:meter:1": {"priority": 1, "ip_prefix": "10.0.0.0/8", "metering_class": 7},
    "DASH_PREFIX_TAG_TABLE:office": {"ip_version": "ipv4", "prefix_list": "10.0.0.0/8,192.0.2.0/24"},
    "DASH_ACL_GROUP_TABLE:in": {"ip_version": "ipv4"},
    "DASH_ACL_RULE_TABLE:in:1": {"priority": 1, "action": "allow", "terminating": true, "src_tag": "office"},
    "DASH_ACL_RULE_TABLE:in:2": {"priority": 2, "action": "deny", "terminating": true, "dst_addr": "10.1.0.0/16"},
    "DASH_ACL_GROUP_TABLE:in6": {"ip_version": "ipv6"},
    "DASH_ACL_RULE_TABLE:in6:1": {"priority": 1, "action": "allow", "terminating": true, "src_addr": "2001:db8::/32"},
    "DASH_ROUTE_GROUP_TABLE:routes": {},
    "DASH_ROUTE_TABLE:routes:10.0.0.0/8": {"routing_type": "vnet", "vnet": "blue"},
    "DASH_ROUTE_TABLE:routes:10.1.0.0/16": {"routing_type": "vnet", "vnet": "red"},
    "DASH_ROUTE_TABLE:routes:0.0.0.0/0": {"routing_type": "direct", "tunnel": "far"},
    "DASH_ROUTE_TABLE:routes:2001:db8::/32": {"routing_type": "drop"},
    "DASH_VNET_MAPPING_TABLE:blue:10.0.0.1": {"routing_type": "vnet_encap", "underlay_ip": "20.0.0.1", "mac_address": "02:00:00:00:00:01"},
    "DASH_VNET_MAPPING_TABLE:blue:10.0.0.2": {"routing_type": "vnet_encap", "underlay_ip": "20.0.0.1", "mac_address": "02:00:00:00:00:02"},
    "DASH_VNET_MAPPING_TABLE:red:10.1.0.1": {"routing_type": "privatelink", "underlay_ip": "20.0.0.9", "overlay_sip_prefix": "fd40::/ffff::", "overlay_dip_prefix": "2603::1/ffff::ffff", "port_map": "ports", "tunnel": "far"},
    "DASH_PA_VALIDATION_TABLE:1001": {"prefixes": "20.0.0.0/24"},
    "DASH_ENI_TABLE:one": {"mac_address": "00:1A:C5:00:00:01", "vnet": "blue", "admin_state": "enabled", "qos": "slow", "v4_meter_policy_id": "meter"},
    "DASH_ENI_TABLE:two": {"mac_address": "00:1A:C5:00:00:02", "vnet": "red", "admin_state": "enabled"},
    "DASH_ENI_ROUTE_TABLE:one": {"group_id": "routes"},
    "DASH_NAT_POOL_TABLE:internet": {"addresses": "203.0.113.1", "ports": "1000-1099", "block_size": 50},
    "DASH_ENI_NAT_TABLE:one": {"pool": "internet", "block": 0},
    "DASH_ROUTE_RULE_TABLE:one:1001:20.0.0.0/24": {"action_type": "decap", "vnet": "blue", "pa_validation": true},
    "DASH_ROUTE_RULE_TABLE:two:1002:20.0.0.0/24:5": {"action_type": "decap", "vnet": "red"},
    "DASH_ACL_IN_TABLE:one:1": {"v4_acl_group_id": "in", "v6_acl_group_id": "in6"},
    "DASH_ACL_OUT_TABLE:two:3": {"v4_acl_group_id": "in"},
    "SWITCH_TABLE:switch": {"vxlan_port": 4789}
}"#;

pub(super) fn read(text: &str) -> Vec<Change> {
    let reading = json::read(text.as_bytes());
    assert_eq!(reading.problems, []);
    reading
        .changes
        .into_iter()
        .map(|(change, _)| change)
        .collect()
}

fn whole() -> Vec<Change> {
    read(WHOLE)
}

pub(super) fn from_nowhere(changes: Vec<Change>) -> Vec<(Change, Origin)> {
    let changes = changes.into_iter();
    changes.map(|change| (change, Origin::default())).collect()
}

pub(super) fn set(store: &mut Store, text: &str) -> Applied {
    store.apply(from_nowhere(read(text)))
}

pub(super) fn delete(store: &mut Store, keys: &[&str]) -> Applied {
    let entries: Vec<_> = keys
        .iter()
        .map(|key| format!(r#"{{"{key}": {{}}, "OP": "DEL"}}"#))
        .collect();
    set(store, &format!("[{}]", entries.join(",")))
}

fn store_of(changes: Vec<Change>) -> Store {
    let mut store = Store::default();
    store.apply(from_nowhere(changes));
    store
}

pub(super) fn waiting(store: &Store) -> Vec<String> {
    let waiting = store.waiting();
    waiting
        .map(|(key, waiting)| format!("{key}: {}", store.why(waiting)))
        .collect()
}

fn leaving(store: &Store) -> Vec<String> {
    store.leaving().map(|(key, _)| key.to_string()).collect()
}

fn touched(applied: &Applied) -> Vec<&str> {
    applied.touched.enis().map(EniId::as_str).collect()
}

/// Nothing refers to what is not there.
fn assert_complete(configuration: &Configuration) {
    configuration.for_each(&mut |object| {
        object.references(&mut |field, to| {
            assert!(
                configuration.contains(&to),
                "{}: {field} {to}",
                object.key()
            );
        });
    });
}

#[test]
fn everything_that_belongs_together_is_in_force() {
    let store = store_of(whole());
    assert_eq!(waiting(&store), [""; 0]);
    let snapshot = store.snapshot();
    let configuration = &snapshot.configuration;
    assert_complete(configuration);
    let mut objects = 0;
    configuration.for_each(&mut |object| {
        objects += 1;
        assert_eq!(configuration.get(&object.key()), Some(object));
    });
    assert_eq!(objects, whole().len());
    let counted: usize = Table::ALL
        .iter()
        .map(|table| configuration.count(*table))
        .sum();
    assert_eq!(counted, objects);
}

#[test]
fn an_object_waits_for_what_it_refers_to_and_says_so() {
    let mut store = Store::default();
    let eni = r#"{"DASH_ENI_TABLE:one": {"mac_address": "00:1A:C5:00:00:01", "vnet": "blue", "qos": "slow"}}"#;
    set(&mut store, eni);
    let expected = [
        "DASH_ENI_TABLE:one: vnet: waits for DASH_VNET_TABLE:blue, which is not there; qos: waits for DASH_QOS_TABLE:slow, which is not there",
    ];
    assert_eq!(waiting(&store), expected);
    set(&mut store, r#"{"DASH_VNET_TABLE:blue": {"vni": 1}}"#);
    let expected = ["DASH_ENI_TABLE:one: qos: waits for DASH_QOS_TABLE:slow, which is not there"];
    assert_eq!(waiting(&store), expected);
    let applied = set(&mut store, r#"{"DASH_QOS_TABLE:slow": {}}"#);
    assert_eq!(waiting(&store), [""; 0]);
    assert_eq!(touched(&applied), ["one"]);
}

#[test]
fn what_is_referred_to_leaves_when_nothing_refers_to_it() {
    let mut store = store_of(whole());
    let before = store.snapshot();
    delete(
        &mut store,
        &["DASH_VNET_TABLE:red", "DASH_TUNNEL_TABLE:far"],
    );
    assert_eq!(
        leaving(&store),
        ["DASH_VNET_TABLE:red", "DASH_TUNNEL_TABLE:far"]
    );
    assert_eq!(store.snapshot().configuration, before.configuration);
    let red = Key::Vnet("red".into());
    let referring = store.referring([&red], 2);
    assert_eq!(
        format!("{:?}", referring[&red]),
        "[DASH_ROUTE_TABLE:routes:10.1.0.0/16, DASH_VNET_MAPPING_TABLE:red:10.1.0.1]"
    );
    delete(
        &mut store,
        &[
            "DASH_ROUTE_TABLE:routes:10.1.0.0/16",
            "DASH_ROUTE_TABLE:routes:0.0.0.0/0",
            "DASH_VNET_MAPPING_TABLE:red:10.1.0.1",
            "DASH_ROUTE_RULE_TABLE:two:1002:20.0.0.0/24:5",
        ],
    );
    assert_eq!(leaving(&store), ["DASH_VNET_TABLE:red"]);
    // The binding of the ENI holds the ENI, and the ENI the network.
    delete(&mut store, &["DASH_ENI_TABLE:two"]);
    assert_eq!(
        leaving(&store),
        ["DASH_VNET_TABLE:red", "DASH_ENI_TABLE:two"]
    );
    delete(&mut store, &["DASH_ACL_OUT_TABLE:two:3"]);
    assert_eq!(leaving(&store), [""; 0]);
    let snapshot = store.snapshot();
    assert!(!snapshot.configuration.vnets.contains(&"red".into()));
    assert_complete(&snapshot.configuration);
}

#[test]
fn what_leaves_takes_no_new_references_and_may_be_wanted_again() {
    let mut store = store_of(whole());
    delete(&mut store, &["DASH_VNET_TABLE:red"]);
    let route =
        r#"{"DASH_ROUTE_TABLE:routes:10.2.0.0/16": {"routing_type": "vnet", "vnet": "red"}}"#;
    set(&mut store, route);
    let expected = "DASH_ROUTE_TABLE:routes:10.2.0.0/16: vnet: waits for DASH_VNET_TABLE:red, which is being deleted";
    assert_eq!(waiting(&store), [expected]);
    // Who refers to it already may change otherwise.
    let eni = r#"{"DASH_ENI_TABLE:two": {"mac_address": "00:1A:C5:00:00:02", "vnet": "red", "admin_state": "disabled"}}"#;
    set(&mut store, eni);
    let snapshot = store.snapshot();
    let two = snapshot.configuration.enis.get(&"two".into()).unwrap();
    assert_eq!(two.eni.admin_state, AdminState::Disabled);
    set(&mut store, r#"{"DASH_VNET_TABLE:red": {"vni": 1002}}"#);
    assert_eq!((waiting(&store), leaving(&store)), (vec![], vec![]));
}

#[test]
fn a_group_of_rules_takes_them_with_it_once_no_stage_asks_it() {
    let mut store = store_of(whole());
    delete(
        &mut store,
        &["DASH_ACL_GROUP_TABLE:in", "DASH_PREFIX_TAG_TABLE:office"],
    );
    assert_eq!(leaving(&store).len(), 2);
    let unbind = ["DASH_ACL_IN_TABLE:one:1", "DASH_ACL_OUT_TABLE:two:3"];
    let applied = delete(&mut store, &unbind);
    assert_eq!(leaving(&store), [""; 0]);
    assert_eq!(touched(&applied), ["one", "two"]);
    let snapshot = store.snapshot();
    assert_eq!(snapshot.configuration.count(Table::AclRule), 1);
    assert_eq!(snapshot.configuration.count(Table::PrefixTag), 0);
}

#[test]
fn a_version_that_cannot_be_leaves_the_one_in_force() {
    let mut store = store_of(whole());
    let before = store.snapshot();
    let eni = r#"{"DASH_ENI_TABLE:two": {"mac_address": "00:1A:C5:00:00:01", "vnet": "red"}}"#;
    set(&mut store, eni);
    let group = r#"{"DASH_ACL_GROUP_TABLE:in": {"ip_version": "ipv6"}}"#;
    set(&mut store, group);
    let rule = r#"{"DASH_ACL_RULE_TABLE:in:2": {"action": "deny", "src_addr": "2001:db8::/32"}}"#;
    set(&mut store, rule);
    let ports = r#"{"DASH_OUTBOUND_PORT_MAP_RANGE_TABLE:ports:85-95": {"action": "skip_mapping"}}"#;
    set(&mut store, ports);
    let expected = [
        "DASH_OUTBOUND_PORT_MAP_RANGE_TABLE:ports:85-95: key: DASH_OUTBOUND_PORT_MAP_RANGE_TABLE:ports:80-90 has some of the same ports",
        "DASH_ACL_GROUP_TABLE:in: ip_version: DASH_ACL_RULE_TABLE:in:1 is of the other IP version",
        "DASH_ACL_RULE_TABLE:in:2: src_addr: DASH_ACL_GROUP_TABLE:in is of the other IP version",
        "DASH_ENI_TABLE:two: mac_address: DASH_ENI_TABLE:one has the same MAC address",
    ];
    assert_eq!(waiting(&store), expected);
    assert!(
        store
            .waiting()
            .all(|(_, waiting)| store.obstacles(waiting)[0].refuses())
    );
    assert_eq!(store.snapshot().configuration, before.configuration);
    // What stood in its way gives way.
    let one = r#"{"DASH_ENI_TABLE:one": {"mac_address": "00:1A:C5:00:00:03", "vnet": "blue"}}"#;
    set(&mut store, one);
    assert_eq!(waiting(&store).len(), 3);
    let snapshot = store.snapshot();
    let two = snapshot.configuration.enis.get(&"two".into()).unwrap();
    assert_eq!(two.eni.mac_address.to_string(), "00:1a:c5:00:00:01");
}

#[test]
fn only_enis_that_a_change_concerns_are_touched() {
    let mut store = store_of(whole());
    let first = store.snapshot();
    for (text, enis) in [
        // Equal objects are no change.
        (r#"{"DASH_VNET_TABLE:blue": {"vni": 1001}}"#, &[][..]),
        (r#"{"DASH_VNET_TABLE:blue": {"vni": 1003}}"#, &["one"]),
        // A mapping of a network that one's routes lead to, and that two is in.
        (
            r#"{"DASH_VNET_MAPPING_TABLE:red:10.1.0.7": {"routing_type": "vnet_encap", "underlay_ip": "20.0.0.1"}}"#,
            &["one", "two"],
        ),
        (
            r#"{"DASH_ROUTE_TABLE:routes:10.3.0.0/16": {"routing_type": "drop"}}"#,
            &["one"],
        ),
        (
            r#"{"DASH_PREFIX_TAG_TABLE:office": {"ip_version": "ipv4"}}"#,
            &["one", "two"],
        ),
        (
            r#"{"DASH_ACL_RULE_TABLE:in6:2": {"action": "deny"}}"#,
            &["one"],
        ),
        (r#"{"DASH_QOS_TABLE:slow": {"bw": 5}}"#, &[]),
        (
            r#"{"DASH_METER_RULE_TABLE:meter:2": {"ip_prefix": "11.0.0.0/8", "metering_class": 8}}"#,
            &["one"],
        ),
        (
            r#"{"DASH_PA_VALIDATION_TABLE:1002": {"prefixes": "20.0.0.0/24"}}"#,
            &["two"],
        ),
        (
            r#"{"DASH_TUNNEL_TABLE:far": {"endpoints": ["40.0.0.1"], "encap_type": "vxlan", "vni": 100}}"#,
            &["one", "two"],
        ),
        (
            r#"{"DASH_APPLIANCE_TABLE:a": {"sip": "10.1.0.6", "vm_vni": 2001}}"#,
            &["one", "two"],
        ),
    ] {
        let applied = set(&mut store, text);
        assert_eq!(touched(&applied), enis, "{text}");
    }
    let last = store.snapshot();
    assert_eq!((first.epoch, last.epoch), (1, 11));
}

#[test]
fn groups_that_did_not_change_are_the_same_ones() {
    let mut store = store_of(whole());
    let before = store.snapshot();
    set(
        &mut store,
        r#"{"DASH_ROUTE_TABLE:routes:10.3.0.0/16": {"routing_type": "drop"}}"#,
    );
    let mut changes = whole();
    changes.retain(|change| !change.key().to_string().contains("10.1.0.0/16"));
    let applied = store.replace(from_nowhere(changes));
    assert_eq!(touched(&applied), ["one"]);
    let mut changed: Vec<_> = applied.changed.iter().map(Key::to_string).collect();
    changed.sort();
    let expected = [
        "DASH_ROUTE_TABLE:routes:10.1.0.0/16",
        "DASH_ROUTE_TABLE:routes:10.3.0.0/16",
    ];
    assert_eq!(changed, expected);
    let after = store.snapshot();
    assert_eq!(applied.epoch, 3);
    let same = |name: &str| {
        let group =
            |snapshot: &Snapshot| snapshot.configuration.acl_groups.get(&name.into()).cloned();
        std::sync::Arc::ptr_eq(&group(&before).unwrap(), &group(&after).unwrap())
    };
    assert!(same("in") && same("in6"));
    assert_eq!(after.configuration.count(Table::Route), 3);
}

#[test]
fn what_waits_has_a_limit() {
    let mut store = Store::new(Limits {
        waiting: 1,
        ..Limits::default()
    });
    let route =
        |prefix| format!(r#"{{"DASH_ROUTE_TABLE:routes:{prefix}": {{"routing_type": "drop"}}}}"#);
    assert_eq!(set(&mut store, &route("10.0.0.0/8")).dropped, 0);
    assert_eq!(set(&mut store, &route("11.0.0.0/8")).dropped, 1);
    // A newer version of what waits is not one more.
    assert_eq!(set(&mut store, &route("10.0.0.0/8")).dropped, 0);
    assert_eq!(store.waiting().count(), 1);
}

/// Batches of changes, cut anywhere.
pub(super) fn in_batches(changes: Vec<Change>, cuts: &[Index]) -> Vec<Vec<Change>> {
    let mut ends: Vec<_> = cuts
        .iter()
        .map(|cut| cut.index(changes.len() + 1))
        .collect();
    ends.sort_unstable();
    let mut batches = Vec::new();
    let mut rest = changes;
    for end in ends.into_iter().rev() {
        batches.push(rest.split_off(end));
    }
    batches.push(rest);
    batches.reverse();
    batches
}

fn applied(batches: Vec<Vec<Change>>) -> Store {
    let mut store = Store::default();
    for batch in batches {
        store.apply(from_nowhere(batch));
        assert_complete(&store.snapshot().configuration);
    }
    store
}

/// The greatest part of the objects in which nothing refers to what is not there.
fn greatest_part(changes: &[Change]) -> Configuration {
    let mut objects: Vec<_> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Set(object) => Some(object.clone()),
            Change::Delete(_) => None,
        })
        .collect();
    loop {
        let keys: std::collections::HashSet<_> = objects.iter().map(Object::key).collect();
        let all = objects.len();
        objects.retain(|object| {
            let mut there = true;
            object.references(&mut |_, to| there &= keys.contains(&to));
            there
        });
        if objects.len() == all {
            break;
        }
    }
    objects.sort_by_key(Object::table);
    let mut configuration = Configuration::default();
    objects
        .into_iter()
        .for_each(|object| configuration.set(object));
    configuration
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever part of it comes, in whatever order and batches: what is in force is the greatest
    /// part that is complete, and what is left out waits.
    #[test]
    fn order_makes_no_difference(
        changes in subsequence(whole(), 0..=whole().len()).prop_shuffle(),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let all = changes.len();
        let expected = greatest_part(&changes);
        let store = applied(in_batches(changes, &cuts));
        prop_assert_eq!(&store.snapshot().configuration, &expected);
        let mut in_force = 0;
        expected.for_each(&mut |_| in_force += 1);
        prop_assert_eq!(store.waiting().count() + in_force, all);
    }

    /// Whatever is deleted, in whatever order: what is left when all deletions are through is what
    /// was never deleted.
    #[test]
    fn deletions_in_any_order_end_alike(
        gone in subsequence(whole(), 0..=whole().len()).prop_shuffle(),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let mut store = store_of(whole());
        let keys: Vec<_> = gone.iter().map(Change::key).collect();
        let deletions = keys.iter().cloned().map(Change::Delete).collect();
        for batch in in_batches(deletions, &cuts) {
            store.apply(from_nowhere(batch));
            assert_complete(&store.snapshot().configuration);
        }
        let snapshot = store.snapshot();
        let held: Vec<_> = store.leaving().map(|(key, _)| key.clone()).collect();
        let referring = store.referring(&keys, 1);
        for key in &keys {
            // A deleted object is gone, or something in force refers to it.
            let there = snapshot.configuration.contains(key);
            prop_assert_eq!(there, held.contains(key), "{}", key);
            prop_assert_eq!(there, !referring[key].is_empty(), "{}", key);
        }
        let mut left = whole();
        left.retain(|change| !keys.contains(&change.key()) || held.contains(&change.key()));
        // A group takes rules with it that nobody deleted.
        left.retain(|change| match change.key() {
            Key::AclRule(rule) => snapshot.configuration.acl_groups.contains(&rule.group),
            _ => true,
        });
        prop_assert_eq!(&snapshot.configuration, &greatest_part(&left));
    }

    /// Sets and deletions of anything, again and again: nothing is ever half there, counts stay
    /// right, and a snapshot stays what it was.
    #[test]
    fn histories_keep_it_complete(
        steps in prop::collection::vec((any::<Index>(), any::<bool>()), 0..200),
        cuts in prop::collection::vec(any::<Index>(), 0..20),
    ) {
        let objects = whole();
        let steps = steps.into_iter().map(|(which, set)| {
            let change = which.get(&objects);
            match set {
                true => change.clone(),
                false => Change::Delete(change.key()),
            }
        });
        let mut store = Store::default();
        let mut before = (store.snapshot(), Configuration::default());
        for batch in in_batches(steps.collect(), &cuts) {
            let applied = store.apply(from_nowhere(batch));
            prop_assert_eq!(&before.0.configuration, &before.1);
            let snapshot = store.snapshot();
            // All that differs is told.
            for key in snapshot.configuration.changed_since(&before.1) {
                prop_assert!(applied.changed.contains(&key), "{}", key);
            }
            assert_complete(&snapshot.configuration);
            let mut deep = Vec::new();
            snapshot.configuration.for_each(&mut |object| deep.push(Change::Set(object)));
            before = (snapshot, store_of(deep).snapshot().configuration.clone());
        }
        // What is in force is what it would be had it come at once.
        prop_assert_eq!(&before.0.configuration, &before.1);
        // And everything else can go.
        let keys = objects.iter().map(|change| Change::Delete(change.key()));
        store.apply(from_nowhere(keys.collect()));
        prop_assert_eq!(&store.snapshot().configuration, &Configuration::default());
        prop_assert_eq!(store.waiting().count() + store.leaving().count(), 0);
    }
}

pub(super) fn mac_of(store: &Store, eni: &str) -> String {
    let snapshot = store.snapshot();
    let table = snapshot.configuration.enis.get(&eni.into()).expect("there");
    table.eni.mac_address.to_string()
}

/// Three ENIs with the MAC addresses that end with 1, 2 and 3.
pub(super) fn three_enis() -> Store {
    let mut store = Store::default();
    set(
        &mut store,
        r#"{
        "DASH_VNET_TABLE:blue": {"vni": 1001},
        "DASH_ENI_TABLE:a": {"mac_address": "02:00:00:00:00:01", "vnet": "blue"},
        "DASH_ENI_TABLE:b": {"mac_address": "02:00:00:00:00:02", "vnet": "blue"},
        "DASH_ENI_TABLE:c": {"mac_address": "02:00:00:00:00:03", "vnet": "blue"}
    }"#,
    );
    store
}

#[test]
fn enis_exchange_their_mac_addresses() {
    let mut store = three_enis();
    set(
        &mut store,
        r#"{
        "DASH_ENI_TABLE:a": {"mac_address": "02:00:00:00:00:02", "vnet": "blue"},
        "DASH_ENI_TABLE:b": {"mac_address": "02:00:00:00:00:01", "vnet": "blue"}
    }"#,
    );
    assert_eq!(store.waiting().count(), 0);
    assert_eq!(mac_of(&store, "a"), "02:00:00:00:00:02");
    assert_eq!(mac_of(&store, "b"), "02:00:00:00:00:01");
    // All three, the last of which waits for its network.
    set(
        &mut store,
        r#"{
        "DASH_ENI_TABLE:a": {"mac_address": "02:00:00:00:00:01", "vnet": "blue"},
        "DASH_ENI_TABLE:b": {"mac_address": "02:00:00:00:00:03", "vnet": "blue"},
        "DASH_ENI_TABLE:c": {"mac_address": "02:00:00:00:00:02", "vnet": "red"}
    }"#,
    );
    assert_eq!(store.waiting().count(), 3);
    assert_eq!(mac_of(&store, "a"), "02:00:00:00:00:02");
    set(&mut store, r#"{"DASH_VNET_TABLE:red": {"vni": 1002}}"#);
    assert_eq!(store.waiting().count(), 0);
    for (eni, last) in [("a", '1'), ("b", '3'), ("c", '2')] {
        assert!(mac_of(&store, eni).ends_with(last));
    }
    // Each still has its own.
    set(
        &mut store,
        r#"{"DASH_ENI_TABLE:d": {"mac_address": "02:00:00:00:00:01", "vnet": "blue"}}"#,
    );
    let (_, waiting) = store.waiting().next().expect("refused");
    assert_eq!(store.obstacles(waiting)[0].by, Key::Eni("a".into()));
}

#[test]
fn an_exchange_waits_for_what_has_gone_meanwhile() {
    let mut store = three_enis();
    set(&mut store, r#"{"DASH_VNET_TABLE:red": {"vni": 1002}}"#);
    set(
        &mut store,
        r#"{"DASH_ENI_TABLE:a": {"mac_address": "02:00:00:00:00:02", "vnet": "red"}}"#,
    );
    delete(&mut store, &["DASH_VNET_TABLE:red"]);
    let b = r#"{"DASH_ENI_TABLE:b": {"mac_address": "02:00:00:00:00:01", "vnet": "blue"}}"#;
    set(&mut store, b);
    assert_eq!(store.waiting().count(), 2);
    assert_eq!(mac_of(&store, "a"), "02:00:00:00:00:01");
    set(&mut store, r#"{"DASH_VNET_TABLE:red": {"vni": 1003}}"#);
    assert_eq!(store.waiting().count(), 0);
    assert_eq!(mac_of(&store, "a"), "02:00:00:00:00:02");
}

/// Two pools of an address each, and ENIs that have the blocks 0, 1 and 2 of the first.
fn three_gateways() -> Store {
    let mut store = three_enis();
    set(
        &mut store,
        r#"{
        "DASH_NAT_POOL_TABLE:p": {"addresses": "203.0.113.1", "ports": "1000-1299", "block_size": 100},
        "DASH_NAT_POOL_TABLE:q": {"addresses": "203.0.113.2", "ports": "1000-1299", "block_size": 100},
        "DASH_ENI_NAT_TABLE:a": {"pool": "p", "block": 0},
        "DASH_ENI_NAT_TABLE:b": {"pool": "p", "block": 1},
        "DASH_ENI_NAT_TABLE:c": {"pool": "p", "block": 2}
    }"#,
    );
    assert_eq!(store.unsettled(), [0; 2]);
    store
}

/// The block that an ENI has, with its pool.
pub(super) fn block_of(store: &Store, eni: &str) -> String {
    let snapshot = store.snapshot();
    let table = snapshot.configuration.enis.get(&eni.into()).expect("there");
    let nat = table.nat.as_ref().expect("a block");
    format!("{}:{}", nat.pool, nat.block)
}

/// A batch is judged by what is there when all of it is.
#[test]
fn enis_exchange_their_blocks_of_ports() {
    let mut store = three_gateways();
    let nat = |eni: &str, block: u32| {
        format!(r#""DASH_ENI_NAT_TABLE:{eni}": {{"pool": "p", "block": {block}}}"#)
    };
    let batch = |all: [(&str, u32); 3]| {
        let all = all.map(|(eni, block)| nat(eni, block));
        format!("{{{}}}", all.join(","))
    };
    let blocks = |store: &Store| ["a", "b", "c"].map(|eni| block_of(store, eni));
    set(&mut store, &batch([("a", 1), ("b", 0), ("c", 2)]));
    assert_eq!(waiting(&store), [""; 0]);
    assert_eq!(blocks(&store), ["p:1", "p:0", "p:2"]);
    set(&mut store, &batch([("a", 2), ("b", 1), ("c", 0)]));
    assert_eq!(waiting(&store), [""; 0]);
    assert_eq!(blocks(&store), ["p:2", "p:1", "p:0"]);
    // Two want the same: one of them is refused, and nobody has what another has.
    set(&mut store, &batch([("a", 1), ("b", 0), ("c", 1)]));
    assert_eq!(waiting(&store).len(), 1, "{:?}", waiting(&store));
    let mut had = blocks(&store);
    had.sort();
    had.windows(2).for_each(|two| assert_ne!(two[0], two[1]));
}

#[test]
fn pools_exchange_their_addresses() {
    let mut store = three_gateways();
    let pool = |name, addresses| {
        format!(
            r#""DASH_NAT_POOL_TABLE:{name}": {{"addresses": "{addresses}", "ports": "1000-1299", "block_size": 100}}"#
        )
    };
    let addresses = |store: &Store, pool: &str| {
        let snapshot = store.snapshot();
        let pool = snapshot
            .configuration
            .nat_pools
            .get(&pool.into())
            .expect("there");
        pool.addresses.to_vec()
    };
    let ip = |text: &str| -> Address { text.parse().expect("an address") };
    let both = [pool("p", "203.0.113.2"), pool("q", "203.0.113.1")];
    set(&mut store, &format!("{{{}}}", both.join(",")));
    assert_eq!(waiting(&store), [""; 0]);
    assert_eq!(addresses(&store, "p"), [ip("203.0.113.2")]);
    assert_eq!(addresses(&store, "q"), [ip("203.0.113.1")]);
    // One that takes from two others, both of which get something else.
    set(&mut store, &format!("{{{}}}", pool("r", "203.0.113.3")));
    let all = [
        pool("p", "203.0.113.1,203.0.113.3"),
        pool("q", "203.0.113.2"),
        pool("r", "203.0.113.4"),
    ];
    set(&mut store, &format!("{{{}}}", all.join(",")));
    assert_eq!(waiting(&store), [""; 0]);
    assert_eq!(addresses(&store, "p").len(), 2);
    // One of them takes what somebody keeps.
    let both = [
        pool("p", "203.0.113.2,203.0.113.4"),
        pool("q", "203.0.113.1"),
    ];
    set(&mut store, &format!("{{{}}}", both.join(",")));
    assert_eq!(waiting(&store).len(), 2, "{:?}", waiting(&store));
    assert_eq!(addresses(&store, "q"), [ip("203.0.113.2")]);
    // Until that one lets go of it.
    set(&mut store, &format!("{{{}}}", pool("r", "203.0.113.3")));
    assert_eq!(waiting(&store), [""; 0]);
    assert_eq!(addresses(&store, "q"), [ip("203.0.113.1")]);
}

/// An address goes to another pool, and the ENI behind it goes with it: none of the three can be first.
#[test]
fn an_address_and_its_eni_go_to_another_pool() {
    let mut store = three_enis();
    let pool = |name, addresses| {
        format!(
            r#""DASH_NAT_POOL_TABLE:{name}": {{"addresses": "{addresses}", "ports": "1000-1099", "block_size": 100}}"#
        )
    };
    let (p, q) = (
        pool("p", "203.0.113.1,203.0.113.2"),
        pool("q", "203.0.113.3"),
    );
    set(
        &mut store,
        &format!(r#"{{{p}, {q}, "DASH_ENI_NAT_TABLE:a": {{"pool": "p", "block": 1}}}}"#),
    );
    let (p, q) = (
        pool("p", "203.0.113.1"),
        pool("q", "203.0.113.2,203.0.113.3"),
    );
    set(
        &mut store,
        &format!(r#"{{{p}, {q}, "DASH_ENI_NAT_TABLE:a": {{"pool": "q", "block": 1}}}}"#),
    );
    assert_eq!(waiting(&store), [""; 0]);
    assert_eq!(block_of(&store, "a"), "q:1");
}

/// Whoever stands behind an address is sent to as its mapping says, so there must be one.
#[test]
fn a_backend_without_a_mapping_is_waited_for() {
    let mut store = store_of(whole());
    set(
        &mut store,
        r#"{"DASH_LOAD_BALANCER_TABLE:blue:10.0.0.9:tcp:80": {"backends": ["10.0.0.1:80", "10.0.0.5:80"]}}"#,
    );
    let expected = "DASH_LOAD_BALANCER_TABLE:blue:10.0.0.9:tcp:80: backends: waits for DASH_VNET_MAPPING_TABLE:blue:10.0.0.5, which is not there";
    assert_eq!(waiting(&store), [expected]);
    set(
        &mut store,
        r#"{"DASH_VNET_MAPPING_TABLE:blue:10.0.0.5": {"routing_type": "vnet_encap", "underlay_ip": "20.0.0.5"}}"#,
    );
    assert_eq!(waiting(&store), [""; 0]);
    // And it stays for as long as somebody is sent there.
    delete(&mut store, &["DASH_VNET_MAPPING_TABLE:blue:10.0.0.5"]);
    assert_eq!(leaving(&store), ["DASH_VNET_MAPPING_TABLE:blue:10.0.0.5"]);
    delete(
        &mut store,
        &["DASH_LOAD_BALANCER_TABLE:blue:10.0.0.9:tcp:80"],
    );
    assert_eq!(store.unsettled(), [0; 2]);
}

/// However many objects wait, a change of one copies a piece of them, not all.
#[test]
fn a_change_copies_little_of_what_waits() {
    let route = |number: usize| {
        let (high, low) = (number / 256, number % 256);
        format!(r#""DASH_ROUTE_TABLE:nowhere:10.{high}.{low}.0/24": {{"routing_type": "direct"}}"#)
    };
    let routes: Vec<String> = (0..5_000).map(route).collect();
    let mut store = Store::default();
    set(&mut store, &format!("{{{}}}", routes.join(",")));
    assert_eq!(store.unsettled(), [5_000, 0]);
    let mut next = store.clone();
    set(&mut next, &format!("{{{}}}", route(5_000)));
    assert_eq!(next.unsettled(), [5_001, 0]);
    let group = Key::RouteGroup("nowhere".into());
    for (shared, all) in next.waiting_shared_with(&store, &group) {
        assert!(all >= 20 && shared + 2 >= all, "{shared} of {all}");
    }
    set(&mut next, r#"{"DASH_ROUTE_GROUP_TABLE:nowhere": {}}"#);
    assert_eq!((next.unsettled(), store.unsettled()), ([0; 2], [5_000, 0]));
}

/// Who writes a configuration is told of all that is missing in it at once.
#[test]
fn all_that_an_object_waits_for_is_told() {
    let mut store = Store::default();
    set(
        &mut store,
        r#"{"DASH_ENI_TABLE:e": {"mac_address": "02:00:00:00:00:01", "vnet": "red", "qos": "q", "v4_meter_policy_id": "m"}}"#,
    );
    let told = "DASH_ENI_TABLE:e: vnet: waits for DASH_VNET_TABLE:red, which is not there; qos: waits for DASH_QOS_TABLE:q, which is not there; v4_meter_policy_id: waits for DASH_METER_POLICY_TABLE:m, which is not there";
    assert_eq!(waiting(&store), [told]);
    // Also when the first of them has come, or another goes.
    set(&mut store, r#"{"DASH_VNET_TABLE:red": {"vni": 7}}"#);
    set(
        &mut store,
        r#"{"DASH_METER_POLICY_TABLE:m": {"ip_version": "ipv4"}}"#,
    );
    let told = "DASH_ENI_TABLE:e: qos: waits for DASH_QOS_TABLE:q, which is not there";
    assert_eq!(waiting(&store), [told]);
    delete(&mut store, &["DASH_VNET_TABLE:red"]);
    let told = "DASH_ENI_TABLE:e: vnet: waits for DASH_VNET_TABLE:red, which is not there; qos: waits for DASH_QOS_TABLE:q, which is not there";
    assert_eq!(waiting(&store), [told]);
}

/// What is missing a hundred times is told a few times.
#[test]
fn of_many_obstacles_few_are_told() {
    let mut store = store_of(whole());
    let tags: Vec<String> = (0..100).map(|number| format!("\"t{number}\"")).collect();
    let tags = tags.join(",");
    set(
        &mut store,
        &format!(
            r#"{{"DASH_ACL_RULE_TABLE:in:many": {{"priority": 1, "action": "allow", "src_tag": [{tags}, "t0"]}}}}"#
        ),
    );
    let told = waiting(&store);
    assert_eq!(told.len(), 1);
    let told: Vec<_> = told[0].split("; ").collect();
    assert_eq!((told.len(), told[8]), (9, "and 92 more"));
}

/// No external endpoint is ever two ENIs'.
#[test]
fn nobody_gets_anothers_external_ports() {
    let mut store = store_of(whole());
    let before = store.snapshot();
    for refused in [
        r#"{"DASH_ENI_NAT_TABLE:two": {"pool": "internet", "block": 0}}"#,
        r#"{"DASH_NAT_POOL_TABLE:same": {"addresses": "203.0.113.1,203.0.113.2", "ports": "1099-2000", "block_size": 100}}"#,
        r#"{"DASH_NAT_POOL_TABLE:internet": {"addresses": "203.0.113.1", "ports": "1000-1099", "block_size": 101}}"#,
    ] {
        let problems = json::read(refused.as_bytes()).problems;
        if problems.is_empty() {
            set(&mut store, refused);
        }
    }
    let expected = [
        "DASH_NAT_POOL_TABLE:same: addresses: DASH_NAT_POOL_TABLE:internet has some of the same ports",
        "DASH_ENI_NAT_TABLE:two: block: DASH_ENI_NAT_TABLE:one has the same block",
    ];
    assert_eq!(waiting(&store), expected);
    assert_eq!(store.snapshot().configuration, before.configuration);
    // A block that another gives back is had, and the pool may not lose it then.
    let applied = set(
        &mut store,
        r#"{"DASH_ENI_NAT_TABLE:one": {"pool": "internet", "block": 1}}"#,
    );
    assert_eq!(touched(&applied), ["one", "two"]);
    assert_eq!(waiting(&store).len(), 1);
    set(
        &mut store,
        r#"{"DASH_NAT_POOL_TABLE:internet": {"addresses": "203.0.113.1", "ports": "1000-1099", "block_size": 60}}"#,
    );
    let gone = "DASH_NAT_POOL_TABLE:internet: block_size: DASH_ENI_NAT_TABLE:one has a block that would be gone";
    assert!(
        waiting(&store).contains(&gone.to_owned()),
        "{:?}",
        waiting(&store)
    );
    // Its ENI cannot go before it.
    delete(&mut store, &["DASH_ENI_TABLE:two"]);
    assert_eq!(leaving(&store), ["DASH_ENI_TABLE:two"]);
}

/// No ENI is left out in silence.
#[test]
fn an_eni_too_many_is_refused_by_name_and_gets_the_place_of_one_that_goes() {
    let mut store = Store::new(Limits {
        enis: 2,
        ..Limits::default()
    });
    let eni = |name: &str, mac: u32| {
        format!(
            r#""DASH_ENI_TABLE:{name}": {{"mac_address": "02:00:00:00:00:{mac:02x}", "vnet": "blue"}}"#
        )
    };
    let enis: Vec<_> = ["a", "b", "c", "d"].into_iter().zip(1..).collect();
    let all: Vec<_> = enis.iter().map(|(name, mac)| eni(name, *mac)).collect();
    let all = all.join(",");
    set(
        &mut store,
        &format!(r#"{{"DASH_VNET_TABLE:blue": {{"vni": 1}}, {all}}}"#),
    );
    let told = |name| {
        format!(
            "DASH_ENI_TABLE:{name}: key: no more than 2 ENIs are served: waits until one is deleted"
        )
    };
    assert_eq!(waiting(&store), [told("c"), told("d")]);
    // One that is there may change.
    set(&mut store, &format!("{{{}}}", eni("a", 9)));
    assert_eq!(mac_of(&store, "a"), "02:00:00:00:00:09");
    delete(&mut store, &["DASH_ENI_TABLE:b"]);
    assert_eq!(waiting(&store), [told("d")]);
    delete(&mut store, &["DASH_ENI_TABLE:d", "DASH_ENI_TABLE:a"]);
    assert_eq!(store.unsettled(), [0; 2]);
    assert_eq!(store.snapshot().configuration.enis.len(), 1);
    let most = Obstacle::no_room(&"x".into(), MAX_ENIS).to_string();
    assert!(most.contains("no more than 65,535 ENIs"), "{most}");
}

/// The two configurations, one after the other, end as the second alone.
fn assert_ends_as_the_second(first: &str, second: &str) {
    let mut store = Store::default();
    set(&mut store, first);
    assert_eq!(waiting(&store), [""; 0], "{first}");
    set(&mut store, second);
    assert_eq!(waiting(&store), [""; 0], "{second}");
    let fresh = store_of(read(second));
    assert_eq!(waiting(&fresh), [""; 0]);
    assert_eq!(
        store.snapshot().configuration,
        fresh.snapshot().configuration
    );
}

#[test]
fn a_group_a_tag_rules_and_stages_change_their_ip_version_together() {
    let batch = |version: u8, prefix: &str| {
        let text = r#"{
            "DASH_VNET_TABLE:blue": {"vni": 1},
            "DASH_ENI_TABLE:a": {"mac_address": "02:00:00:00:00:01", "vnet": "blue"},
            "DASH_PREFIX_TAG_TABLE:tag": {"ip_version": "ipv@", "prefix_list": "%"},
            "DASH_ACL_GROUP_TABLE:g": {"ip_version": "ipv@"},
            "DASH_ACL_RULE_TABLE:g:1": {"priority": 1, "action": "deny", "src_addr": "%"},
            "DASH_ACL_RULE_TABLE:g:2": {"priority": 2, "action": "deny", "dst_addr": "%"},
            "DASH_ACL_RULE_TABLE:g:3": {"priority": 3, "action": "deny", "src_tag": "tag"},
            "DASH_ACL_RULE_TABLE:g:4": {"priority": 4, "action": "deny"},
            "DASH_ACL_IN_TABLE:a:1": {"v@_acl_group_id": "g"},
            "DASH_ACL_OUT_TABLE:a:5": {"v@_acl_group_id": "g"}
        }"#;
        text.replace("%", prefix).replace('@', &version.to_string())
    };
    let (v4, v6) = (batch(4, "10.0.0.0/8"), batch(6, "fd00::/8"));
    assert_ends_as_the_second(&v4, &v6);
    assert_ends_as_the_second(&v6, &v4);
}

#[test]
fn a_meter_policy_its_rules_and_enis_change_their_ip_version_together() {
    let batch = |version: u8, prefix: &str| {
        let text = r#"{
            "DASH_VNET_TABLE:blue": {"vni": 1},
            "DASH_METER_POLICY_TABLE:m": {"ip_version": "ipv@"},
            "DASH_METER_RULE_TABLE:m:1": {"priority": 1, "ip_prefix": "%", "metering_class": 7},
            "DASH_METER_RULE_TABLE:m:2": {"priority": 2, "ip_prefix": "%", "metering_class": 8},
            "DASH_ENI_TABLE:a": {"mac_address": "02:00:00:00:00:01", "vnet": "blue", "v@_meter_policy_id": "m"}
        }"#;
        text.replace("%", prefix).replace('@', &version.to_string())
    };
    let (v4, v6) = (batch(4, "10.0.0.0/8"), batch(6, "fd00::/8"));
    assert_ends_as_the_second(&v4, &v6);
    assert_ends_as_the_second(&v6, &v4);
}

#[test]
fn a_rule_that_stays_keeps_its_group_from_another_ip_version() {
    let mut store = Store::default();
    set(
        &mut store,
        r#"{
        "DASH_ACL_GROUP_TABLE:g": {"ip_version": "ipv4"},
        "DASH_ACL_RULE_TABLE:g:1": {"action": "deny", "src_addr": "10.0.0.0/8"},
        "DASH_ACL_RULE_TABLE:g:2": {"action": "deny", "src_addr": "11.0.0.0/8"}
    }"#,
    );
    set(
        &mut store,
        r#"{
        "DASH_ACL_GROUP_TABLE:g": {"ip_version": "ipv6"},
        "DASH_ACL_RULE_TABLE:g:1": {"action": "deny", "src_addr": "fd00::/8"}
    }"#,
    );
    let expected = [
        "DASH_ACL_GROUP_TABLE:g: ip_version: DASH_ACL_RULE_TABLE:g:2 is of the other IP version",
        "DASH_ACL_RULE_TABLE:g:1: src_addr: DASH_ACL_GROUP_TABLE:g is of the other IP version",
    ];
    assert_eq!(waiting(&store), expected);
    // It may change later, or be deleted.
    let mut other = store.clone();
    set(
        &mut other,
        r#"{"DASH_ACL_RULE_TABLE:g:2": {"action": "deny", "src_addr": "fd01::/16"}}"#,
    );
    delete(&mut store, &["DASH_ACL_RULE_TABLE:g:2"]);
    for store in [store, other] {
        assert_eq!(store.unsettled(), [0; 2]);
        let snapshot = store.snapshot();
        let group = snapshot.configuration.acl_groups.get(&"g".into());
        assert_eq!(group.unwrap().group.ip_version, IpVersion::V6);
    }
}

/// A rule that has tags alone stays as it is while its group and its tags change.
#[test]
fn a_tag_and_a_group_that_share_a_rule_wait_for_each_other_or_for_the_rule_to_go() {
    let text = |tag: u8, group: u8| {
        let net = if tag == 4 { "10.0.0.0/8" } else { "fd00::/8" };
        format!(
            r#"{{"DASH_PREFIX_TAG_TABLE:t": {{"ip_version": "ipv{tag}", "prefix_list": "{net}"}},
            "DASH_ACL_GROUP_TABLE:g": {{"ip_version": "ipv{group}"}}"#
        )
    };
    let rule = r#""DASH_ACL_RULE_TABLE:g:1": {"action": "deny", "src_tag": "t"}"#;
    let v4 = format!("{}, {rule}}}", text(4, 4));
    assert_ends_as_the_second(&v4, &format!("{}, {rule}}}", text(6, 6)));
    for (tag, group) in [(6, 4), (4, 6)] {
        let mut store = Store::default();
        set(&mut store, &v4);
        set(&mut store, &format!("{}}}", text(tag, group)));
        assert_eq!(waiting(&store).len(), 1);
        let mut changed = store.clone();
        set(
            &mut changed,
            r#"{"DASH_ACL_RULE_TABLE:g:1": {"action": "deny"}}"#,
        );
        delete(&mut store, &["DASH_ACL_RULE_TABLE:g:1"]);
        assert_eq!([store.unsettled(), changed.unsettled()], [[0; 2]; 2]);
    }
}

/// All of many rules and ENIs change together, without being looked at once for each of the others.
#[test]
fn many_objects_change_together_in_little_time() {
    let rules = |version: u8, net: &str| {
        let rules = (0..3_000).map(|rule| {
            format!(r#""DASH_ACL_RULE_TABLE:g:{rule}": {{"action": "deny", "src_addr": "{net}"}}"#)
        });
        let rules: Vec<_> = rules.collect();
        let rules = rules.join(",");
        format!(r#"{{"DASH_ACL_GROUP_TABLE:g": {{"ip_version": "ipv{version}"}}, {rules}}}"#)
    };
    assert_ends_as_the_second(&rules(4, "10.0.0.0/8"), &rules(6, "fd00::/8"));
    let enis = |shift: u16| {
        let enis = (0..1_000).map(|eni| {
            let [high, low] = ((eni + shift) % 1_000).to_be_bytes();
            format!(
                r#""DASH_ENI_TABLE:{eni}": {{"mac_address": "02:00:00:00:{high:02x}:{low:02x}", "vnet": "blue"}}"#
            )
        });
        let enis: Vec<_> = enis.collect();
        format!(
            r#"{{"DASH_VNET_TABLE:blue": {{"vni": 1}}, {}}}"#,
            enis.join(",")
        )
    };
    assert_ends_as_the_second(&enis(0), &enis(1));
}

/// Each wants what the next one has, and the last keeps it: none may change, which is found out once for all.
#[test]
fn a_long_chain_that_leads_nowhere_is_walked_once() {
    const ENIS: u16 = 20_000;
    let enis = |count: u16, shift: u16| {
        let enis = (0..count).map(|eni| {
            let [high, low] = (eni + shift).to_be_bytes();
            format!(
                r#""DASH_ENI_TABLE:{eni:05}": {{"mac_address": "02:00:00:00:{high:02x}:{low:02x}", "vnet": "blue"}}"#
            )
        });
        let enis: Vec<_> = enis.collect();
        let enis = enis.join(",");
        format!(r#"{{"DASH_VNET_TABLE:blue": {{"vni": 1}}, {enis}}}"#)
    };
    let mut store = Store::default();
    set(&mut store, &enis(ENIS, 0));
    set(&mut store, &enis(ENIS - 1, 1));
    assert_eq!(store.waiting().count(), usize::from(ENIS) - 1);
    delete(&mut store, &[&format!("DASH_ENI_TABLE:{:05}", ENIS - 1)]);
    assert_eq!(store.unsettled(), [0; 2]);
}
