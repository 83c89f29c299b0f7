//! Many objects that want what one alone can have: none is tried in vain, and what they are told is so.

use proptest::prelude::*;
use proptest::sample::Index;

use super::tests::{
    block_of, delete, from_nowhere, in_batches, mac_of, read, set, three_enis, waiting,
};
use super::*;
use crate::objects::*;
use twinpath_core::wire::Address;

/// Whether a block is another's is looked up, however many ENIs have one.
#[test]
fn every_eni_may_have_a_block_and_all_may_change() {
    const ENIS: u16 = 60_000;
    let eni = |eni: u16| {
        let [high, low] = eni.to_be_bytes();
        format!(
            r#""DASH_ENI_TABLE:{eni}": {{"mac_address": "02:00:00:00:{high:02x}:{low:02x}", "vnet": "blue"}}"#
        )
    };
    let nats = |shift: u16| {
        let nats = (0..ENIS).map(|eni| {
            let block = (eni + shift) % ENIS;
            format!(r#""DASH_ENI_NAT_TABLE:{eni}": {{"pool": "p", "block": {block}}}"#)
        });
        format!("{{{}}}", nats.collect::<Vec<_>>().join(","))
    };
    let enis: Vec<_> = (0..ENIS).map(eni).collect();
    let pool = r#""DASH_NAT_POOL_TABLE:p": {"addresses": "203.0.113.1", "block_size": 1}"#;
    let vnet = r#""DASH_VNET_TABLE:blue": {"vni": 1}"#;
    let mut store = Store::default();
    set(
        &mut store,
        &format!("{{{vnet}, {pool}, {}}}", enis.join(",")),
    );
    for shift in [0, 1] {
        set(&mut store, &nats(shift));
        assert_eq!(store.unsettled(), [0; 2]);
        assert_eq!(block_of(&store, "7"), format!("p:{}", 7 + shift));
    }
}

/// Objects that cannot be together: each takes the place of the one that goes, and those behind it are
/// not tried for each of these.
#[test]
fn many_that_want_the_same_take_its_place_one_after_the_other() {
    const MANY: u16 = 20_000;
    let eni = |number: u16, mac: u16| {
        let [high, low] = mac.to_be_bytes();
        format!(
            r#""DASH_ENI_TABLE:{number:05}": {{"mac_address": "02:00:00:00:{high:02x}:{low:02x}", "vnet": "blue"}}"#
        )
    };
    let vnet = r#""DASH_VNET_TABLE:blue": {"vni": 1}"#;
    let nat =
        |number: u16| format!(r#""DASH_ENI_NAT_TABLE:{number:05}": {{"pool": "p", "block": 7}}"#);
    let pool = |name: &str, address: &str| {
        format!(r#""DASH_NAT_POOL_TABLE:{name}": {{"addresses": "203.0.113.1{address}"}}"#)
    };
    let port_map = r#""DASH_OUTBOUND_PORT_MAP_TABLE:m": {}"#;
    let range = |first: u16, last: u16| {
        format!(
            r#""DASH_OUTBOUND_PORT_MAP_RANGE_TABLE:m:{first}-{last}": {{"action": "skip_mapping"}}"#
        )
    };
    let each = |object: &dyn Fn(u16) -> String| -> Vec<_> { (0..MANY).map(object).collect() };
    let apart = [vnet.into(), pool("p", "")]
        .into_iter()
        .chain(each(&|number| eni(number, number)));
    let apart = apart.collect();
    for (before, all) in [
        (vec![vnet.into()], each(&|number| eni(number, 1))),
        (apart, each(&nat)),
        (vec![], each(&|number| pool(&format!("{number:05}"), ""))),
        // All have one address, and each has another that only its neighbor has.
        (
            vec![],
            each(&|number| {
                let [high, low] = (number / 2).to_be_bytes();
                pool(&format!("{number:05}"), &format!(",203.1.{high}.{low}"))
            }),
        ),
        (
            vec![port_map.into()],
            each(&|number| range(1 + number, 60_000)),
        ),
        (
            vec![port_map.into()],
            each(&|number| range(1, 60_000 - number)),
        ),
        (
            vec![port_map.into()],
            each(&|number| range(1 + number, 60_000 - number)),
        ),
    ] {
        let mut store = Store::default();
        set(&mut store, &format!("{{{}}}", before.join(",")));
        let before = store.snapshot();
        let text = format!("{{{}}}", all.join(","));
        set(&mut store, &text);
        assert_eq!(store.unsettled(), [usize::from(MANY) - 1, 0]);
        let keys: Vec<_> = read(&text).iter().map(Change::key).collect();
        let last = keys.last().expect("some").clone();
        let (all_but_last, _) = keys.split_at(keys.len() - 1);
        let gone = all_but_last.iter().cloned().map(Change::Delete).collect();
        store.apply(from_nowhere(gone));
        assert_eq!(store.unsettled(), [0; 2]);
        assert!(store.snapshot().configuration.contains(&last));
        store.apply(from_nowhere(vec![Change::Delete(last)]));
        assert_eq!(store.snapshot().configuration, before.configuration);
    }
}

/// An object that changes and keeps what others want has none of them tried.
#[test]
fn who_keeps_what_many_want_may_change_often() {
    const MANY: u32 = 20_000;
    let host = |number: u32| Address::from_v4((0x0a00_0000 + number).to_be_bytes());
    let eni = |name: u32, underlay: u32| {
        let underlay = host(underlay);
        let text = format!(
            r#"{{"DASH_ENI_TABLE:{name}": {{"mac_address": "02:00:00:00:00:01", "vnet": "blue", "underlay_ip": "{underlay}"}}}}"#
        );
        read(&text).remove(0)
    };
    let mut store = Store::default();
    set(&mut store, r#"{"DASH_VNET_TABLE:blue": {"vni": 1}}"#);
    store.apply(from_nowhere((0..MANY).map(|name| eni(name, 1)).collect()));
    store.apply(from_nowhere((0..MANY).map(|turn| eni(0, turn)).collect()));
    assert_eq!(store.waiting().count(), MANY as usize - 1);
    let snapshot = store.snapshot();
    let (_, first) = snapshot.configuration.enis.iter().next().expect("there");
    assert_eq!(first.eni.underlay_ip, Some(host(MANY - 1)));
}

/// Who waits is told who keeps it, also if that is another by now.
#[test]
fn who_waits_behind_others_is_told_who_is_first() {
    let mut store = three_enis();
    let eni = |name| {
        let mac = "02:00:00:00:00:01";
        format!(r#"{{"DASH_ENI_TABLE:{name}": {{"mac_address": "{mac}", "vnet": "blue"}}}}"#)
    };
    for name in ["d", "e", "f"] {
        set(&mut store, &eni(name));
    }
    let told = |name, by| {
        format!("DASH_ENI_TABLE:{name}: mac_address: DASH_ENI_TABLE:{by} has the same MAC address")
    };
    let all = [told("d", "a"), told("e", "a"), told("f", "a")];
    assert_eq!(waiting(&store), all);
    delete(&mut store, &["DASH_ENI_TABLE:a"]);
    assert_eq!(waiting(&store), [told("e", "d"), told("f", "d")]);
    delete(&mut store, &["DASH_ENI_TABLE:e", "DASH_ENI_TABLE:d"]);
    assert_eq!(waiting(&store), [""; 0]);
    assert_eq!(mac_of(&store, "f"), "02:00:00:00:00:01");
}

/// When one goes whose place many wait for, one of them comes, and nothing is copied of the others: they
/// are told who has the place when somebody asks.
#[test]
fn who_waits_behind_others_is_not_touched() {
    const MANY: u16 = 5_000;
    let eni = |number: u16| {
        let mac = "02:00:00:00:00:01";
        format!(r#""DASH_ENI_TABLE:{number:05}": {{"mac_address": "{mac}", "vnet": "blue"}}"#)
    };
    let enis: Vec<_> = (0..MANY).map(eni).collect();
    let mut store = Store::default();
    set(&mut store, r#"{"DASH_VNET_TABLE:blue": {"vni": 1}}"#);
    set(&mut store, &format!("{{{}}}", enis.join(",")));
    let before = store.clone();
    delete(&mut store, &["DASH_ENI_TABLE:00000"]);
    assert_eq!(store.unsettled(), [usize::from(MANY) - 2, 0]);
    let nobody = Key::Eni("none".into());
    let [(shared, all), _] = store.waiting_shared_with(&before, &nobody);
    assert!(all >= 15 && shared + 2 >= all, "{shared} of {all}");
    let told = waiting(&store);
    let last = "DASH_ENI_TABLE:04999: mac_address: DASH_ENI_TABLE:00001 has the same MAC address";
    assert_eq!(told.last().map(String::as_str), Some(last));
}

/// Some of the objects that few places have to do for.
fn in_each_others_way() -> Vec<Change> {
    let mut objects = vec![
        r#""DASH_VNET_TABLE:blue": {"vni": 1}"#.to_owned(),
        r#""DASH_OUTBOUND_PORT_MAP_TABLE:m": {}"#.to_owned(),
    ];
    for (first, last) in [
        (1, 9),
        (5, 5),
        (3, 12),
        (10, 11),
        (8, 20),
        (1, 30),
        (12, 13),
    ] {
        objects.push(format!(
            r#""DASH_OUTBOUND_PORT_MAP_RANGE_TABLE:m:{first}-{last}": {{"action": "skip_mapping"}}"#
        ));
    }
    for eni in ["a", "b", "c", "d"] {
        for number in 1..4 {
            objects.push(format!(
                r#""DASH_ENI_TABLE:{eni}": {{"mac_address": "02:00:00:00:00:0{number}", "vnet": "blue"}}"#
            ));
            let pool = if number == 1 { "q" } else { "p" };
            objects.push(format!(
                r#""DASH_ENI_NAT_TABLE:{eni}": {{"pool": "{pool}", "block": {number}}}"#
            ));
        }
    }
    for (pool, hosts, ports) in [
        ("p", "1,2", "1-100"),
        ("p", "3", "1-40"),
        ("q", "1", "50-150"),
        ("q", "2,3", "1-100"),
        ("r", "1,2,3", "90-200"),
        ("r", "4", "1-200"),
        ("s", "2,4", "40-60"),
        ("s", "4", "1-50"),
    ] {
        let addresses = hosts.split(',').map(|host| format!("203.0.113.{host}"));
        let addresses = addresses.collect::<Vec<_>>().join(",");
        objects.push(format!(
            r#""DASH_NAT_POOL_TABLE:{pool}": {{"addresses": "{addresses}", "ports": "{ports}", "block_size": 10}}"#
        ));
    }
    let objects = objects
        .iter()
        .flat_map(|object| read(&format!("{{{object}}}")));
    objects.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Nothing waits that could be in force, and who keeps it is in force, or to come.
    #[test]
    fn what_waits_has_a_reason(
        steps in prop::collection::vec((any::<Index>(), 0..4u8), 0..100),
        cuts in prop::collection::vec(any::<Index>(), 0..10),
    ) {
        let objects = in_each_others_way();
        let steps = steps.into_iter().map(|(which, way)| {
            let change = which.get(&objects);
            match way {
                0 => Change::Delete(change.key()),
                _ => change.clone(),
            }
        });
        let mut store = Store::default();
        for batch in in_batches(steps.collect(), &cuts) {
            store.apply(from_nowhere(batch));
            let snapshot = store.snapshot();
            for (key, waiting) in store.waiting() {
                let obstacles = store.obstacles(waiting);
                prop_assert!(!obstacles.is_empty(), "{}", key);
                for obstacle in obstacles {
                    let there = snapshot.configuration.contains(&obstacle.by);
                    prop_assert_eq!(there, obstacle.why != Why::Missing, "{}", key);
                }
                let mut again = store.clone();
                again.apply(from_nowhere(vec![Change::Set(waiting.object.clone())]));
                prop_assert_eq!(&again.snapshot().configuration, &snapshot.configuration, "{}", key);
            }
        }
        let keys = objects.iter().map(|change| Change::Delete(change.key()));
        store.apply(from_nowhere(keys.collect()));
        prop_assert_eq!(&store.snapshot().configuration, &Configuration::default());
        prop_assert_eq!(store.unsettled(), [0; 2]);
    }
}
