use super::*;
use crate::messages::kind;
use crate::testing::{
    address, attribute, ip, link, link_with_flags, message, neighbor, next_hop, number,
    own_address, path, read, route, route_head,
};
use proptest::prelude::*;
use std::collections::HashMap;

const LAN: u32 = 3;
const WAN: u32 = 4;
const MANAGEMENT: u32 = 5;

const CREATE: u16 = 0x600;
const REPLACE: u16 = 0x100;
const APPEND: u16 = 0xc00;

fn empty(most_routes: usize) -> View {
    View::new(Interest {
        ports: vec![Some("lan".into()), Some("wan".into())],
        table: 254,
        most_routes,
    })
}

fn hear(view: &mut View, datagram: &[u8]) {
    let (events, malformed) = read(datagram);
    assert_eq!(malformed, 0);
    events.into_iter().for_each(|event| view.hear(event));
}

/// Two ports and an interface that is none, all up.
fn view() -> View {
    let mut view = empty(100);
    for (index, name) in [(LAN, "lan"), (WAN, "wan"), (MANAGEMENT, "mgmt")] {
        hear(&mut view, &link(kind::NEW_LINK, index, name, true));
    }
    view
}

fn prefix(text: &str) -> Prefix {
    text.parse().expect(text)
}

fn target(view: &View, to: &str) -> Option<Target> {
    view.best(prefix(to)).map(|set| view.target(set))
}

fn way(port: u16, gateway: Option<&str>) -> Egress {
    Egress {
        port,
        gateway: gateway.map(ip),
        weight: 1,
    }
}

fn by(port: u16, gateway: &str) -> Option<Target> {
    Some(Target::Ports(vec![way(port, Some(gateway))]))
}

#[test]
fn a_route_comes_changes_and_goes() {
    let mut view = view();
    hear(
        &mut view,
        &route(
            kind::NEW_ROUTE,
            CREATE,
            "10.0.0.0/8",
            Some("192.0.2.1"),
            WAN,
        ),
    );
    assert_eq!(target(&view, "10.0.0.0/8"), by(1, "192.0.2.1"));
    assert_eq!(view.take_changed(9), [prefix("10.0.0.0/8")]);
    hear(
        &mut view,
        &route(
            kind::NEW_ROUTE,
            REPLACE,
            "10.0.0.0/8",
            Some("192.0.2.2"),
            WAN,
        ),
    );
    assert_eq!(target(&view, "10.0.0.0/8"), by(1, "192.0.2.2"));
    assert_eq!(view.route_count(), 1);
    hear(
        &mut view,
        &route(kind::DEL_ROUTE, 0, "10.0.0.0/8", Some("192.0.2.2"), WAN),
    );
    assert_eq!(target(&view, "10.0.0.0/8"), None);
    assert_eq!((view.changed_count(), view.route_count()), (1, 0));
}

#[test]
fn the_least_metric_counts_and_then_the_order() {
    let mut view = view();
    let with_metric = |kind, flags, via: &str, metric| {
        let attributes = [
            address(1, "10.0.0.0"),
            number(4, WAN),
            address(5, via),
            number(6, metric),
        ];
        message(
            kind,
            flags,
            0,
            &route_head("10.0.0.0/8", 1),
            &attributes.concat(),
        )
    };
    hear(
        &mut view,
        &with_metric(kind::NEW_ROUTE, CREATE, "192.0.2.1", 100),
    );
    hear(
        &mut view,
        &with_metric(kind::NEW_ROUTE, CREATE, "192.0.2.2", 10),
    );
    hear(
        &mut view,
        &with_metric(kind::NEW_ROUTE, APPEND, "192.0.2.3", 10),
    );
    assert_eq!(target(&view, "10.0.0.0/8"), by(1, "192.0.2.2"));
    hear(&mut view, &with_metric(kind::DEL_ROUTE, 0, "192.0.2.2", 10));
    assert_eq!(target(&view, "10.0.0.0/8"), by(1, "192.0.2.3"));
    hear(&mut view, &with_metric(kind::DEL_ROUTE, 0, "192.0.2.3", 10));
    assert_eq!(target(&view, "10.0.0.0/8"), by(1, "192.0.2.1"));
}

#[test]
fn routes_of_other_tables_are_none() {
    let mut view = view();
    let attributes = [address(1, "10.0.0.0"), number(4, WAN), number(15, 100)].concat();
    let head = route_head("10.0.0.0/8", 1);
    hear(
        &mut view,
        &message(kind::NEW_ROUTE, CREATE, 0, &head, &attributes),
    );
    assert_eq!(view.route_count(), 0);
}

#[test]
fn several_next_hops_lose_one() {
    let mut view = view();
    let paths = [
        path(0, 1, LAN, Some("fd00::1")),
        path(0, 1, WAN, Some("fd00::2")),
    ];
    let several = [address(1, "2001:db8::"), attribute(9, &paths.concat())].concat();
    let head = route_head("2001:db8::/32", 1);
    let one = |kind, via, interface| route(kind, APPEND, "2001:db8::/32", Some(via), interface);
    // The kernel tells of one, and then of both.
    hear(&mut view, &one(kind::NEW_ROUTE, "fd00::1", LAN));
    hear(
        &mut view,
        &message(kind::NEW_ROUTE, APPEND, 0, &head, &several),
    );
    let both = Target::Ports(vec![way(0, Some("fd00::1")), way(1, Some("fd00::2"))]);
    assert_eq!(target(&view, "2001:db8::/32"), Some(both));
    assert_eq!(view.route_count(), 1);
    hear(&mut view, &one(kind::DEL_ROUTE, "fd00::1", LAN));
    assert_eq!(target(&view, "2001:db8::/32"), by(1, "fd00::2"));
    hear(&mut view, &one(kind::DEL_ROUTE, "fd00::2", WAN));
    assert_eq!(view.route_count(), 0);
}

#[test]
fn networks_of_two_links_are_two_routes() {
    let mut view = view();
    for (interface, name) in [(LAN, 0), (WAN, 1)] {
        hear(
            &mut view,
            &route(kind::NEW_ROUTE, CREATE, "fd00::/64", None, interface),
        );
        let _ = name;
    }
    assert_eq!(view.route_count(), 2);
}

#[test]
fn interfaces_that_go_take_their_routes_along() {
    let mut view = view();
    hear(
        &mut view,
        &route(
            kind::NEW_ROUTE,
            CREATE,
            "10.0.0.0/8",
            Some("192.0.2.1"),
            WAN,
        ),
    );
    hear(
        &mut view,
        &route(
            kind::NEW_ROUTE,
            CREATE,
            "0.0.0.0/0",
            Some("192.168.0.1"),
            LAN,
        ),
    );
    view.take_changed(9);
    view.take_doubt();
    hear(&mut view, &link(kind::NEW_LINK, WAN, "wan", false));
    assert_eq!(view.take_changed(9), [prefix("10.0.0.0/8")]);
    assert_eq!(target(&view, "10.0.0.0/8"), None);
    assert!(view.take_doubt(), "the kernel says nothing of the route");
    assert_eq!(target(&view, "0.0.0.0/0"), by(0, "192.168.0.1"));
    hear(&mut view, &link(kind::NEW_LINK, WAN, "wan", true));
    assert_eq!(target(&view, "10.0.0.0/8"), by(1, "192.0.2.1"));
    hear(&mut view, &link(kind::DEL_LINK, WAN, "wan", true));
    assert_eq!(target(&view, "10.0.0.0/8"), None);
    // Another of the same name is the port, and has no routes.
    hear(&mut view, &link(kind::NEW_LINK, 9, "wan", true));
    assert_eq!(
        (view.interface_of(1), target(&view, "10.0.0.0/8")),
        (Some(9), None)
    );
}

/// A route by several next hops loses at once those whose links are gone.
#[test]
fn next_hops_go_with_their_links() {
    let mut view = view();
    let paths = [
        path(0, 1, LAN, Some("192.168.0.1")),
        path(0, 1, WAN, Some("192.0.2.1")),
    ];
    let attributes = [address(1, "10.0.0.0"), attribute(9, &paths.concat())].concat();
    let head = route_head("10.0.0.0/8", 1);
    hear(
        &mut view,
        &message(kind::NEW_ROUTE, CREATE, 0, &head, &attributes),
    );
    view.take_changed(9);
    /// Set up, without a link.
    const UP_ALONE: u32 = 1;
    hear(
        &mut view,
        &link_with_flags(kind::NEW_LINK, WAN, "wan", UP_ALONE),
    );
    assert_eq!(view.take_changed(9), [prefix("10.0.0.0/8")]);
    assert_eq!(target(&view, "10.0.0.0/8"), by(0, "192.168.0.1"));
    hear(
        &mut view,
        &link_with_flags(kind::NEW_LINK, LAN, "lan", UP_ALONE),
    );
    assert_eq!(target(&view, "10.0.0.0/8"), None);
    hear(&mut view, &link(kind::NEW_LINK, WAN, "wan", true));
    assert_eq!(target(&view, "10.0.0.0/8"), by(1, "192.0.2.1"));
}

#[test]
fn what_is_no_port_is_elsewhere() {
    let mut view = view();
    hear(
        &mut view,
        &route(
            kind::NEW_ROUTE,
            CREATE,
            "10.0.0.0/8",
            Some("172.16.0.1"),
            MANAGEMENT,
        ),
    );
    assert_eq!(target(&view, "10.0.0.0/8"), Some(Target::Elsewhere));
    // It becomes one when it is called so.
    hear(&mut view, &link(kind::DEL_LINK, WAN, "wan", true));
    view.take_changed(9);
    hear(&mut view, &link(kind::NEW_LINK, MANAGEMENT, "wan", true));
    assert_eq!(view.take_changed(9), [prefix("10.0.0.0/8")]);
    assert_eq!(target(&view, "10.0.0.0/8"), by(1, "172.16.0.1"));
}

#[test]
fn objects_say_where_routes_lead() {
    let mut view = view();
    let object = |id, via, interface| {
        next_hop(
            kind::NEW_NEXT_HOP,
            &[number(1, id), number(5, interface), address(6, via)],
        )
    };
    let entry = |id: u32| [&id.to_ne_bytes()[..], &[0; 4]].concat();
    let group = attribute(2, &[entry(1), entry(2)].concat());
    hear(&mut view, &object(1, "192.0.2.1", WAN));
    hear(&mut view, &object(2, "192.168.0.1", LAN));
    hear(
        &mut view,
        &next_hop(kind::NEW_NEXT_HOP, &[number(1, 3), group]),
    );
    let attributes = [address(1, "10.0.0.0"), number(30, 3)].concat();
    let head = route_head("10.0.0.0/8", 1);
    hear(
        &mut view,
        &message(kind::NEW_ROUTE, CREATE, 0, &head, &attributes),
    );
    let both = Target::Ports(vec![way(1, Some("192.0.2.1")), way(0, Some("192.168.0.1"))]);
    assert_eq!(target(&view, "10.0.0.0/8"), Some(both));
    view.take_changed(9);
    hear(&mut view, &object(1, "192.0.2.9", WAN));
    assert_eq!(view.changed_count(), 1, "a member is another");
    hear(&mut view, &next_hop(kind::DEL_NEXT_HOP, &[number(1, 3)]));
    assert_eq!(target(&view, "10.0.0.0/8"), None);
    assert!(view.take_doubt());
}

#[test]
fn own_addresses_are_those_of_all_interfaces() {
    let mut view = view();
    view.take_other_addresses();
    for (own, interface) in [
        ("192.0.2.2/24", WAN),
        ("10.255.0.1/32", 1),
        ("127.0.0.1/8", 1),
    ] {
        hear(&mut view, &own_address(kind::NEW_ADDRESS, own, interface));
    }
    assert!(view.take_other_addresses());
    let own: Vec<Address> = view.own_addresses().into_iter().collect();
    assert_eq!(own, [ip("10.255.0.1"), ip("192.0.2.2")]);
    assert_eq!(
        view.addresses_at(1).collect::<Vec<_>>(),
        [(ip("192.0.2.2"), 24)]
    );
    hear(
        &mut view,
        &own_address(kind::NEW_ADDRESS, "192.0.2.2/24", WAN),
    );
    assert!(!view.take_other_addresses(), "told again");
    hear(
        &mut view,
        &own_address(kind::DEL_ADDRESS, "192.0.2.2/24", WAN),
    );
    assert!(view.take_other_addresses());
}

#[test]
fn neighbors_are_known_at_ports() {
    let mut view = view();
    let (mac, other) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let told = |state, mac| neighbor(kind::NEW_NEIGHBOR, "192.0.2.1", WAN, state, mac);
    let change = |mac: Option<[u8; 6]>| NeighborChange {
        port: 1,
        address: ip("192.0.2.1"),
        mac: mac.map(MacAddress),
    };
    for (state, told_mac, expected) in [
        (1, None, vec![]),
        (2, Some(mac), vec![change(Some(mac))]),
        (4, Some(other), vec![change(Some(other))]),
        (0x20, None, vec![change(None)]),
    ] {
        hear(&mut view, &told(state, told_mac));
        assert_eq!(view.take_neighbor_changes(), expected, "{state}");
    }
    hear(&mut view, &told(2, Some(mac)));
    assert_eq!(view.neighbor(1, ip("192.0.2.1")), Some(MacAddress(mac)));
    hear(
        &mut view,
        &neighbor(kind::DEL_NEIGHBOR, "192.0.2.1", WAN, 2, Some(mac)),
    );
    assert_eq!(view.neighbor_count(), 0);
    hear(
        &mut view,
        &neighbor(kind::NEW_NEIGHBOR, "172.16.0.9", MANAGEMENT, 2, Some(mac)),
    );
    assert_eq!(view.neighbor_count(), 0, "no port");
}

#[test]
fn there_is_an_end_to_routes() {
    let mut view = empty(2);
    hear(&mut view, &link(kind::NEW_LINK, WAN, "wan", true));
    for network in 1..5 {
        let to = format!("10.{network}.0.0/16");
        hear(&mut view, &route(kind::NEW_ROUTE, CREATE, &to, None, WAN));
    }
    hear(
        &mut view,
        &route(kind::NEW_ROUTE, CREATE, "2001:db8::/32", None, WAN),
    );
    assert_eq!((view.route_count(), view.ignored_routes()), (3, 2));
    let gone = |network: &str| route(kind::DEL_ROUTE, 0, network, None, WAN);
    hear(&mut view, &gone("2001:db8::/32"));
    hear(&mut view, &gone("10.4.0.0/16"));
    assert_eq!((view.route_count(), view.ignored_routes()), (2, 1));
    assert!(!view.has_room_again(), "it has room where none is missing");
    hear(&mut view, &gone("10.1.0.0/16"));
    assert!(view.has_room_again());
    view.begin_round();
    assert!(!view.has_room_again(), "it is being asked for");
}

/// A route of the plain reference: prefix, metric, last byte of the gateway.
type Plain = (u8, u32, u8);

fn plain_message(kind: u16, flags: u16, (network, metric, gateway): Plain) -> Vec<u8> {
    let attributes = [
        address(1, &format!("10.{network}.0.0")),
        number(4, WAN),
        address(5, &format!("192.0.2.{gateway}")),
        number(6, metric),
    ];
    let head = route_head(&format!("10.{network}.0.0/16"), 1);
    message(kind, flags, 0, &head, &attributes.concat())
}

proptest! {
    /// Routes that are appended and removed in any order, and lists that are told again, against a
    /// list of all routes.
    #[test]
    fn the_best_route_is_that_of_a_plain_list(
        steps in prop::collection::vec((0..4u8, 0..3u8, 0..3u32, 1..4u8), 1..60)
    ) {
        let mut view = view();
        let mut plain: Vec<Plain> = Vec::new();
        for (what, network, metric, gateway) in steps {
            let one = (network, metric, gateway);
            match what {
                0 | 1 if !plain.contains(&one) => {
                    hear(&mut view, &plain_message(kind::NEW_ROUTE, APPEND, one));
                    plain.push(one);
                }
                2 if plain.contains(&one) => {
                    hear(&mut view, &plain_message(kind::DEL_ROUTE, 0, one));
                    plain.retain(|other| *other != one);
                }
                3 => {
                    // One goes without a word.
                    plain.retain(|other| *other != one);
                    view.begin_round();
                    for known in &plain {
                        hear(&mut view, &plain_message(kind::NEW_ROUTE, 2, *known));
                    }
                    view.end_list(List::RoutesV4);
                }
                _ => {}
            }
            let mut best: HashMap<u8, Plain> = HashMap::new();
            for one in &plain {
                let known = best.entry(one.0).or_insert(*one);
                if one.1 < known.1 {
                    *known = *one;
                }
            }
            for network in 0..3 {
                let expected = best.get(&network).map(|one| format!("192.0.2.{}", one.2));
                let to = format!("10.{network}.0.0/16");
                let expected = expected.and_then(|gateway| by(1, &gateway));
                prop_assert_eq!(target(&view, &to), expected);
            }
            prop_assert_eq!(view.route_count(), plain.len());
        }
    }
}
