//! Tables that are changed piece by piece: they are what they would be if all were compiled anew, and
//! nothing of what is gone stays.

use crate::common::changes::change;
use crate::common::packets::{self, Dice, customer};
use proptest::prelude::*;
use twinpath_core::wire::Address;
use twinpath_dash::objects::*;
use twinpath_dash::samples::Objects;
use twinpath_dash::tables::{RouteKind, Tables};

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
