//! Tables that are changed piece by piece: they are what they would be if all were compiled anew, and
//! nothing of what is gone stays.

use crate::common::changes::change;
use crate::common::packets::{self, Dice, customer};
use proptest::prelude::*;
use twinpath_core::wire::Address;
use twinpath_dash::config::{Origin, Store};
use twinpath_dash::objects::*;
use twinpath_dash::samples::Objects;
use twinpath_dash::tables::{EniEntry, RouteKind, Tables};

const ENIS: u8 = 4;

fn compiled(objects: &Objects) -> Tables {
    let mut tables = Tables::new(1);
    tables.update(objects, &objects.keys());
    tables
}

/// What an address's route comes to, without numbers that differ between tables.
fn way(tables: &Tables, number: u16, address: Address) -> Option<String> {
    let route = tables.eni(number)?.routes.as_ref()?.lookup(address)?;
    let (vnet, action) = match route.action {
        RouteKind::Vnet { vnet, overlay_ip } => (tables.vni(vnet), format!("{overlay_ip:?}")),
        other => (None, format!("{other:?}")),
    };
    let tunnel = route.tunnel.map(|number| tables.tunnel(number));
    Some(format!(
        "{vnet:?} {action} {tunnel:?} {:?} {:?}",
        route.underlay_sip, route.metering
    ))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn routes_are_what_all_together_would_be(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let mut objects = packets::configuration(&mut dice, ENIS);
        let mut tables = compiled(&objects);
        for _ in 0..40 {
            let changed = change(&mut dice, &mut objects, ENIS);
            tables.update(&objects, &changed);
        }
        let anew = compiled(&objects);
        for number in 0..ENIS {
            let id = packets::eni_id(number);
            let [one, other] = [&tables, &anew].map(|tables| tables.eni_number(&id).expect("there"));
            let [routes, routes_anew] = [(&tables, one), (&anew, other)].map(|(tables, number)| {
                tables.eni(number).and_then(|eni| eni.routes.as_ref()).map(|routes| routes.len())
            });
            prop_assert_eq!(routes, routes_anew);
            for _ in 0..60 {
                let is_v4 = !dice.one_in(3);
                let address = match dice.one_in(4) {
                    true => packets::physical(&mut dice, packets::is_underlay_v4(&objects)),
                    false => customer(&mut dice, is_v4),
                };
                prop_assert_eq!(way(&tables, one, address), way(&anew, other, address));
            }
        }
    }
}

/// Names that come and go leave nothing behind.
#[test]
fn names_that_are_gone_have_no_numbers() {
    let mut dice = Dice(5);
    let mut objects = packets::configuration(&mut dice, ENIS);
    let mut tables = compiled(&objects);
    let before = tables.memory_use().names;
    let (_, mapping) = objects.mappings.first_key_value().expect("some");
    let mapping = VnetMapping {
        routing_type: RoutingType::VnetEncap,
        private_link: None,
        ..mapping.clone()
    };
    for number in 0..5_000u32 {
        let (vnet, tunnel) = (format!("passing{number}"), format!("via{number}"));
        let vnet = VnetName::from(&*vnet);
        let address = Address::from_v4(number.to_be_bytes());
        let (key, group) = ((vnet.clone(), address), RouteGroupId::from("group0"));
        let new = VnetMapping {
            tunnel: Some(TunnelName::from(&*tunnel)),
            ..mapping.clone()
        };
        let prefix = address.into();
        let route = Route {
            action: RouteAction::Vnet(vnet.clone()),
            underlay_sip: None,
            tunnel: None,
            metering: MeterBits::default(),
        };
        let changed = [
            Key::VnetMapping(VnetMappingKey {
                vnet: vnet.clone(),
                address,
            }),
            Key::Route(RouteKey {
                group: group.clone(),
                prefix,
            }),
        ];
        let routes = objects.route_groups.get_mut(&group).expect("there");
        routes.push((prefix, route));
        objects.mappings.insert(key.clone(), new);
        tables.update(&objects, &changed);
        objects.route_groups.get_mut(&group).expect("there").pop();
        objects.mappings.remove(&key);
        tables.update(&objects, &changed);
        // One that never was there has none.
        let nobody = Key::VnetMapping(VnetMappingKey {
            vnet: VnetName::from(&*format!("nobody{number}")),
            address,
        });
        tables.update(&objects, [&nobody]);
        assert!(tables.memory_use().names <= before + 400);
    }
}

/// As many ENIs as there may be come and go, again and again, without a look at all others for each.
#[test]
fn enis_that_come_have_the_numbers_of_those_that_went() {
    let mut objects = packets::configuration(&mut Dice(5), 1);
    let (_, eni) = objects.enis.pop_first().expect("one");
    let mut tables = Tables::new(1);
    for round in 0..6 {
        let name = |number| EniId::from(&*format!("{round}/{number}"));
        let all = (0..MAX_ENIS).map(|number| (name(number), eni.clone()));
        objects.enis = all.collect();
        tables.update(&objects, [&Key::Eni(name(0))]);
        assert_eq!(tables.eni_count(), MAX_ENIS);
        let numbered = |(number, entry): (u16, &EniEntry)| {
            number < u16::MAX && tables.eni_number(&entry.id) == Some(number)
        };
        assert!(tables.enis().all(numbered));
        assert_eq!(tables.refused(), (0, 0));
    }
}

/// Two tenants, each with a network, an ENI, routes by a tunnel, a load balancer, and whom it hears.
const TENANTS: &str = r#"{
    "DASH_APPLIANCE_TABLE:a": {"sip": "10.1.0.5", "vm_vni": 2001},
    "DASH_ROUTING_TYPE_TABLE:vnet_encap": {"items": [{"action_name": "1", "action_type": "staticencap", "encap_type": "vxlan"}]},
    "DASH_VNET_TABLE:blue": {"vni": 1}, "DASH_VNET_TABLE:red": {"vni": 2}, "DASH_VNET_TABLE:gray": {"vni": 3},
    "DASH_TUNNEL_TABLE:tb": {"endpoints": "40.0.0.1", "encap_type": "vxlan", "vni": 7},
    "DASH_TUNNEL_TABLE:tr": {"endpoints": "40.0.0.2", "encap_type": "vxlan", "vni": 8},
    "DASH_TUNNEL_TABLE:free": {"endpoints": "40.0.0.3", "encap_type": "vxlan", "vni": 9},
    "DASH_OUTBOUND_PORT_MAP_TABLE:free": {},
    "DASH_ENI_TABLE:blue": {"mac_address": "02:00:00:00:00:01", "vnet": "blue", "underlay_ip": "20.0.0.1"},
    "DASH_ENI_TABLE:red": {"mac_address": "02:00:00:00:00:02", "vnet": "red", "underlay_ip": "20.0.0.2"},
    "DASH_ROUTE_GROUP_TABLE:blue": {}, "DASH_ROUTE_GROUP_TABLE:red": {},
    "DASH_ROUTE_TABLE:blue:10.0.0.0/8": {"routing_type": "vnet", "vnet": "blue", "tunnel": "tb"},
    "DASH_ROUTE_TABLE:red:10.0.0.0/8": {"routing_type": "vnet", "vnet": "red", "tunnel": "tr"},
    "DASH_ENI_ROUTE_TABLE:blue": {"group_id": "blue"}, "DASH_ENI_ROUTE_TABLE:red": {"group_id": "red"},
    "DASH_ROUTE_RULE_TABLE:blue:1:20.0.0.0/8": {"action_type": "decap"},
    "DASH_ROUTE_RULE_TABLE:red:2:20.0.0.0/8": {"action_type": "decap"},
    "DASH_PA_VALIDATION_TABLE:1": {"prefixes": "20.0.0.0/8"},
    "DASH_VNET_MAPPING_TABLE:blue:10.0.0.1": {"routing_type": "vnet_encap", "underlay_ip": "20.0.0.1"},
    "DASH_LOAD_BALANCER_TABLE:blue:10.0.0.9:tcp:80": {"backends": "10.0.0.1:80"},
    "DASH_PREFIX_TAG_TABLE:blue": {"ip_version": "ipv4", "prefix_list": "10.0.0.0/8"},
    "DASH_PREFIX_TAG_TABLE:free": {"ip_version": "ipv4", "prefix_list": "10.0.0.0/8"},
    "DASH_ACL_GROUP_TABLE:blue": {"ip_version": "ipv4"}, "DASH_ACL_GROUP_TABLE:red": {"ip_version": "ipv4"},
    "DASH_ACL_RULE_TABLE:blue:1": {"priority": 1, "action": "allow", "src_tag": "blue"},
    "DASH_ACL_RULE_TABLE:red:1": {"priority": 1, "action": "allow", "src_addr": "10.0.0.0/8"},
    "DASH_ACL_IN_TABLE:blue:1": {"v4_acl_group_id": "blue"}, "DASH_ACL_IN_TABLE:red:1": {"v4_acl_group_id": "red"}
}"#;

/// A change of what one tenant's packets meet has none of another's judged again.
#[test]
fn a_tenants_change_leaves_other_tenants_flows_as_they_are() {
    let reading = twinpath_dash::json::read(TENANTS.as_bytes());
    assert_eq!(reading.problems, []);
    let changes: Vec<_> = reading
        .changes
        .into_iter()
        .map(|(change, _)| change)
        .collect();
    let keys: Vec<Key> = changes.iter().map(Change::key).collect();
    let mut store = Store::default();
    store.apply(
        changes
            .into_iter()
            .map(|change| (change, Origin::default())),
    );
    let waiting: Vec<_> = store
        .waiting()
        .map(|(key, why)| format!("{key}: {}", store.why(why)))
        .collect();
    assert_eq!(waiting, [""; 0]);
    let snapshot = store.snapshot();
    let configuration = &snapshot.configuration;
    let mut tables = Tables::new(1);
    tables.update(configuration, &keys);
    let epochs = |tables: &Tables| {
        ["blue", "red"].map(|eni| {
            let number = tables.eni_number(&eni.into()).expect("there");
            tables.eni(number).expect("there").epoch
        })
    };
    let (mut both, mut blue, mut neither) = (0, 0, 0);
    for key in &keys {
        let before = epochs(&tables);
        tables.update(configuration, [key]);
        let after = epochs(&tables);
        let grew = [0, 1].map(|at| after[at] > before[at]);
        let name = key.to_string();
        let expected = match key {
            Key::Appliance(_) => [true; 2],
            Key::PrefixTag(_)
            | Key::Vnet(_)
            | Key::Tunnel(_)
            | Key::LoadBalancer(_)
            | Key::PaValidation(_) => {
                let of = |names: [&str; 3]| names.iter().any(|end| name.contains(end));
                [
                    of(["blue", ":tb", "VALIDATION_TABLE:1"]),
                    of([":red", ":tr", "no other"]),
                ]
            }
            _ => continue,
        };
        assert_eq!(grew, expected, "{name}");
        match expected {
            [true, true] => both += 1,
            [true, false] => blue += 1,
            [false, false] => neither += 1,
            [false, true] => {}
        }
    }
    assert_eq!([both, blue, neither], [1, 5, 3]);
}
