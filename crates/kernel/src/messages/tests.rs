use super::*;
use crate::testing::{
    address as address_attribute, attribute, done, link as link_message, link_with_flags, message,
    neighbor as neighbor_message, next_hop as object_message, number, one, own_address, path, read,
    route as route_message, route_head,
};
use proptest::prelude::*;

fn hop(interface: u32, gateway: Option<&str>) -> Hop {
    Hop {
        interface,
        gateway: gateway.map(|text| text.parse().expect(text)),
        ..NOWHERE
    }
}

fn the_route(datagram: &[u8]) -> Route {
    match one(datagram) {
        Event::Route(route, _) | Event::RouteGone(route) => route,
        other => panic!("{other:?}"),
    }
}

/// What `ip -4 route add 203.0.113.0/24 via 198.51.100.1 metric 7` made a kernel tell (6.18).
const RECORDED: [u8; 60] = [
    0x3c, 0, 0, 0, 0x18, 0, 0, 0x06, 0x5a, 0, 0, 0, 0x2c, 0x0b, 0, 0, // header
    2, 24, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0, // struct rtmsg
    8, 0, 15, 0, 254, 0, 0, 0, // table
    8, 0, 1, 0, 203, 0, 113, 0, // destination
    8, 0, 5, 0, 198, 51, 100, 1, // gateway
    8, 0, 4, 0, 3, 0, 0, 0, // interface
];

#[test]
fn a_recorded_route_is_read() {
    let route = the_route(&RECORDED);
    assert_eq!(route.prefix.to_string(), "203.0.113.0/24");
    assert_eq!(route.hops, [hop(3, Some("198.51.100.1"))]);
    assert_eq!((route.table, route.metric, route.object), (254, 0, None));
    for (flags, placement) in [
        (0x600u16, Placement::First),
        (0x100, Placement::Replace),
        (0xc00, Placement::Last),
        (0x002, Placement::Last),
    ] {
        let mut bytes = RECORDED;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        assert!(matches!(one(&bytes), Event::Route(_, told) if told == placement));
    }
}

#[test]
fn routes_of_all_kinds_are_read() {
    for (number, kind) in [
        (6, Kind::Blackhole),
        (7, Kind::Unreachable),
        (8, Kind::Prohibit),
        (9, Kind::Throw),
    ] {
        let head = route_head("10.0.0.0/8", number);
        let attributes = [address_attribute(1, "10.0.0.0"), number_of_metric(9)].concat();
        let route = the_route(&message(kind::NEW_ROUTE, 0, 0, &head, &attributes));
        assert_eq!((route.kind, route.metric), (kind, 9));
    }
    // A default route has no destination.
    let head = route_head("::/0", 1);
    let by = [number(4, 5), address_attribute(5, "fe80::1")].concat();
    let route = the_route(&message(kind::DEL_ROUTE, 0, 0, &head, &by));
    assert_eq!(route.prefix, "::/0".parse().expect("a prefix"));
    assert_eq!(route.hops, [hop(5, Some("fe80::1"))]);
    // By a neighbour of the other version, from a table with a large number.
    let via = [&10u16.to_ne_bytes()[..], &ip6("2001:db8::1")].concat();
    let by = [
        address_attribute(1, "10.0.0.0"),
        attribute(18, &via),
        number(4, 5),
        number(15, 1000),
    ];
    let head = route_head("10.0.0.0/8", 1);
    let route = the_route(&message(kind::NEW_ROUTE, 0, 0, &head, &by.concat()));
    assert_eq!(route.hops, [hop(5, Some("2001:db8::1"))]);
    assert_eq!(route.table, 1000);
}

fn number_of_metric(metric: u32) -> Vec<u8> {
    number(6, metric)
}

fn ip6(text: &str) -> [u8; 16] {
    crate::testing::ip(text).octets16()
}

#[test]
fn several_next_hops_are_read() {
    let paths = [path(0, 1, 3, Some("198.51.100.1")), path(1, 4, 4, None)];
    let attributes = [
        address_attribute(1, "10.0.0.0"),
        attribute(9, &paths.concat()),
    ]
    .concat();
    let head = route_head("10.0.0.0/8", 1);
    let route = the_route(&message(kind::NEW_ROUTE, 0, 0, &head, &attributes));
    let dead = Hop {
        weight: 4,
        is_dead: true,
        ..hop(4, None)
    };
    assert_eq!(route.hops, [hop(3, Some("198.51.100.1")), dead]);
    let many: Vec<u8> = (0..200).flat_map(|_| path(0, 1, 3, None)).collect();
    let attributes = [address_attribute(1, "10.0.0.0"), attribute(9, &many)].concat();
    let route = the_route(&message(kind::NEW_ROUTE, 0, 0, &head, &attributes));
    assert_eq!(route.hops.len(), MOST_HOPS);
}

#[test]
fn what_is_no_route_of_ours_is_passed_over() {
    let by = [address_attribute(1, "10.0.0.0"), number(4, 5)].concat();
    let plain = route_head("10.0.0.0/8", 1);
    let with = |at: usize, value: u8| {
        let mut head = plain.clone();
        head[at] = value;
        message(kind::NEW_ROUTE, 0, 0, &head, &by)
    };
    // Of MPLS, from a source, by type of service, a local one, a multicast one, a cached one.
    for (at, value) in [(0, 28), (2, 64), (3, 8), (7, 2), (7, 5), (9, 2)] {
        assert_eq!(read(&with(at, value)), (vec![], 0), "{at}: {value}");
    }
}

#[test]
fn links_addresses_and_neighbors_are_read() {
    let Event::Link(link) = one(&link_message(kind::NEW_LINK, 3, "wan", true)) else {
        panic!("a link");
    };
    assert_eq!(
        (link.index, &*link.name, link.mtu, link.is_up),
        (3, "wan", 1500, true)
    );
    // Set up; and besides, running, or with its link there.
    for (flags, expected) in [
        (1, false),
        (0x1_0040, false),
        (0x41, true),
        (0x1_0001, true),
    ] {
        let Event::Link(link) = one(&link_with_flags(kind::NEW_LINK, 3, "wan", flags)) else {
            panic!("a link");
        };
        assert_eq!(link.is_up, expected, "{flags:x}");
    }
    let gone = one(&link_message(kind::DEL_LINK, 3, "wan", true));
    assert_eq!(gone, Event::LinkGone(3));
    // A bridge's word of its port is none of the link.
    let mut of_bridge = link_message(kind::NEW_LINK, 3, "wan", true);
    of_bridge[16] = 7;
    assert_eq!(read(&of_bridge), (vec![], 0));
    let Event::Address(own) = one(&own_address(kind::NEW_ADDRESS, "192.0.2.1/24", 3)) else {
        panic!("an address");
    };
    assert_eq!(
        (own.interface, own.prefix_bits, own.is_valid),
        (3, 24, true)
    );
    let mac = [2, 0, 0, 0, 0, 9];
    for (state, known) in [
        (2, true),
        (4, true),
        (0x80, true),
        (1, false),
        (0x20, false),
    ] {
        let told = one(&neighbor_message(
            kind::NEW_NEIGHBOR,
            "fe80::9",
            3,
            state,
            Some(mac),
        ));
        let Event::Neighbor(neighbor) = told else {
            panic!("a neighbour");
        };
        assert_eq!(neighbor.mac, known.then_some(MacAddress(mac)), "{state}");
        assert_eq!(neighbor.has_failed, state == 0x20);
    }
}

#[test]
fn next_hop_objects_are_read() {
    let hop_message = [
        number(1, 7),
        number(5, 3),
        address_attribute(6, "192.0.2.9"),
    ];
    let Event::NextHop(object) = one(&object_message(kind::NEW_NEXT_HOP, &hop_message)) else {
        panic!("an object");
    };
    assert_eq!(object.is, ObjectKind::Hop(hop(3, Some("192.0.2.9"))));
    let entry = |id: u32, weight: u8| {
        let mut bytes = id.to_ne_bytes().to_vec();
        bytes.extend([weight - 1, 0, 0, 0]);
        bytes
    };
    let members = [entry(7, 1), entry(8, 3)].concat();
    let group = [number(1, 9), attribute(2, &members)];
    let Event::NextHop(object) = one(&object_message(kind::NEW_NEXT_HOP, &group)) else {
        panic!("an object");
    };
    assert_eq!(object.is, ObjectKind::Group(vec![(7, 1), (8, 3)]));
    let gone = one(&object_message(kind::DEL_NEXT_HOP, &[number(1, 9)]));
    assert_eq!(gone, Event::NextHopGone(9));
}

#[test]
fn ends_and_refusals_are_read() {
    let end = Event::Done {
        sequence: 5,
        was_interrupted: true,
    };
    assert_eq!(one(&done(5, 0x10)), end);
    let refused = message(kind::ERROR, 0, 6, &(-95i32).to_ne_bytes(), &[0; 16]);
    let event = Event::Refused {
        sequence: 6,
        errno: 95,
    };
    assert_eq!(one(&refused), event);
    let done_well = message(kind::ERROR, 0, 6, &[0; 4], &[0; 16]);
    assert_eq!(read(&done_well), (vec![], 0));
}

#[test]
fn a_datagram_has_several_messages() {
    let both = [
        link_message(kind::NEW_LINK, 3, "wan", true),
        route_message(kind::NEW_ROUTE, 0, "10.0.0.0/8", None, 3),
    ];
    assert_eq!(read(&both.concat()).0.len(), 2);
    // One that is cut ends it.
    let cut = both.concat();
    let (events, malformed) = read(&cut[..cut.len() - 8]);
    assert_eq!((events.len(), malformed), (1, 1));
}

fn all_messages() -> Vec<Vec<u8>> {
    vec![
        RECORDED.to_vec(),
        link_message(kind::NEW_LINK, 3, "wan", true),
        own_address(kind::NEW_ADDRESS, "2001:db8::1/64", 3),
        neighbor_message(kind::NEW_NEIGHBOR, "fe80::9", 3, 2, Some([2; 6])),
        object_message(kind::NEW_NEXT_HOP, &[number(1, 9), attribute(2, &[1; 16])]),
        message(
            kind::NEW_ROUTE,
            0,
            0,
            &route_head("10.0.0.0/8", 1),
            &attribute(
                9,
                &[path(0, 1, 3, Some("10.0.0.1")), path(0, 2, 4, None)].concat(),
            ),
        ),
        done(3, 0),
    ]
}

proptest! {
    /// Whatever bytes come, they are read to their end.
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes);
    }

    /// So are messages of which some bytes are others, or that end early.
    #[test]
    fn broken_messages_are_read(
        which in 0..7usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = all_messages()[which].clone();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let len = end.index(bytes.len() + 1);
        read(&bytes);
        read(&bytes[..len]);
    }
}
