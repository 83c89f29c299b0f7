use super::*;
use crate::replacement::Replacement;
use std::path::Path;
use twinpath_kernel::event::{OwnAddress, Placement};
use twinpath_kernel::view::Interest;
use twinpath_kernel::{Event, Hop, Kind, Link, Route};

const LAN: u32 = 3;
const WAN: u32 = 4;
const MANAGEMENT: u32 = 5;

fn service(more: &str) -> Service {
    let text = format!(
        "[service]\nchain = [\"router\"]\n[ports]\nlan = {{ device = \"lan\" }}\nwan = {{ device = \"wan\" }}\n\
         [router]\nroutes = \"kernel\"\n{more}"
    );
    Service::parse(&text, Path::new("kernel.toml")).unwrap_or_else(|error| panic!("{error}"))
}

fn ip(text: &str) -> Address {
    text.parse().expect(text)
}

fn view() -> View {
    let mut view = View::new(Interest {
        ports: vec![Some("lan".into()), Some("wan".into())],
        table: 254,
        most_routes: 1000,
    });
    for (index, name) in [(LAN, "lan"), (WAN, "wan"), (MANAGEMENT, "mgmt")] {
        view.hear(Event::Link(Link {
            index,
            name: name.into(),
            mtu: 1500,
            is_up: true,
        }));
    }
    for (interface, text, prefix_bits) in [
        (LAN, "192.168.1.1", 24),
        (WAN, "198.51.100.2", 24),
        (WAN, "fe80::1", 64),
        (1, "10.255.0.1", 32),
    ] {
        view.hear(Event::Address(OwnAddress {
            interface,
            address: ip(text),
            prefix_bits,
            is_valid: true,
        }));
    }
    view
}

fn hop(interface: u32, gateway: Option<&str>) -> Hop {
    Hop {
        interface,
        gateway: gateway.map(ip),
        weight: 1,
        is_dead: false,
        is_encapsulated: false,
    }
}

fn route(to: &str, kind: Kind, hops: &[Hop]) -> Route {
    Route {
        table: 254,
        prefix: to.parse().expect(to),
        metric: 0,
        kind,
        hops: hops.to_vec(),
        object: None,
    }
}

/// An importer with the service that it has made.
struct Bench {
    importer: RouteImporter,
    view: View,
    service: Service,
}

impl Bench {
    fn new() -> Self {
        let service = service("");
        let mut bench = Self {
            importer: RouteImporter::new(&service).expect("the kernel's"),
            view: view(),
            service,
        };
        bench.import();
        bench
    }

    fn import(&mut self) -> usize {
        let prefixes = self.view.take_changed(usize::MAX);
        let imported = self.importer.import(&self.service, &self.view, prefixes);
        self.service = imported.service;
        imported.changed
    }

    /// The kernel says so; returns how many routes are others.
    fn hear(&mut self, to: &str, kind: Kind, hops: &[Hop]) -> usize {
        let event = Event::Route(route(to, kind, hops), Placement::Replace);
        self.view.hear(event);
        self.import()
    }

    fn config(&self) -> &router::Config {
        self.service.chain[0].config.of().expect("a router")
    }

    fn routes(&self) -> Vec<String> {
        self.config().routes().collect()
    }

    fn hops(&self) -> Vec<String> {
        let hops = self.config().next_hops().iter();
        hops.map(|hop| hop.name.clone()).collect()
    }
}

#[test]
fn routes_are_named_by_where_they_lead() {
    let mut bench = Bench::new();
    bench.hear("192.168.1.0/24", Kind::Unicast, &[hop(LAN, None)]);
    bench.hear(
        "0.0.0.0/0",
        Kind::Unicast,
        &[hop(WAN, Some("198.51.100.1"))],
    );
    bench.hear("10.1.0.0/16", Kind::Blackhole, &[]);
    bench.hear("10.2.0.0/16", Kind::Unreachable, &[]);
    bench.hear("10.3.0.0/16", Kind::Throw, &[]);
    bench.hear("10.4.0.0/16", Kind::Unicast, &[hop(MANAGEMENT, None)]);
    bench.hear("2001:db8::/32", Kind::Unicast, &[hop(WAN, Some("fe80::9"))]);
    // Of a link, and a group: no routes.
    bench.hear("fe80::/64", Kind::Unicast, &[hop(WAN, None)]);
    bench.hear("224.0.0.0/4", Kind::Unicast, &[hop(WAN, None)]);
    bench.hear("ff00::/8", Kind::Unicast, &[hop(WAN, None)]);
    let expected = [
        "2001:db8::/32 via fe80::9 at wan",
        "0.0.0.0/0 via 198.51.100.1 at wan",
        "10.1.0.0/16 via discard",
        "10.2.0.0/16 is unreachable",
        "10.3.0.0/16 has no route",
        "10.4.0.0/16 via an interface that is no port",
        "192.168.1.0/24 via lan",
    ];
    let mut routes = bench.routes();
    routes.sort();
    let mut sorted = expected.map(str::to_owned).to_vec();
    sorted.sort();
    assert_eq!(routes, sorted);
    assert_eq!(
        bench.hops(),
        ["198.51.100.1 at wan", "fe80::9 at wan", "lan"]
    );
    assert_eq!(bench.importer.counts(), [7, 3, 0, 1]);
}

#[test]
fn a_route_that_comes_back_is_no_change() {
    let mut bench = Bench::new();
    let by = [hop(WAN, Some("198.51.100.1"))];
    assert_eq!(bench.hear("10.0.0.0/8", Kind::Unicast, &by), 1);
    let before = bench.service.chain.clone();
    bench
        .view
        .hear(Event::RouteGone(route("10.0.0.0/8", Kind::Unicast, &by)));
    bench.view.hear(Event::Route(
        route("10.0.0.0/8", Kind::Unicast, &by),
        Placement::First,
    ));
    assert_eq!(bench.import(), 0);
    assert_eq!(before.len(), bench.service.chain.len());
}

#[test]
fn next_hops_go_with_their_last_route() {
    let mut bench = Bench::new();
    let several = [
        hop(WAN, Some("198.51.100.1")),
        hop(LAN, Some("192.168.1.9")),
    ];
    bench.hear("10.0.0.0/8", Kind::Unicast, &several);
    let reversed = [several[1], several[0]];
    bench.hear("10.0.0.0/16", Kind::Unicast, &reversed);
    assert_eq!(bench.importer.counts(), [2, 2, 1, 0], "one group");
    bench.hear("10.0.0.0/8", Kind::Unicast, &several[..1]);
    assert_eq!(bench.importer.counts(), [2, 2, 1, 0]);
    bench.view.hear(Event::RouteGone(route(
        "10.0.0.0/16",
        Kind::Unicast,
        &reversed,
    )));
    bench.import();
    assert_eq!(bench.importer.counts(), [1, 1, 0, 0]);
    assert_eq!(bench.hops(), ["198.51.100.1 at wan"]);
}

#[test]
fn a_state_is_made_of_the_one_before() {
    let mut bench = Bench::new();
    bench.hear(
        "10.0.0.0/8",
        Kind::Unicast,
        &[hop(WAN, Some("198.51.100.1"))],
    );
    let (before, former) = (bench.config().clone(), bench.service.clone());
    bench.hear(
        "10.0.0.0/8",
        Kind::Unicast,
        &[hop(LAN, Some("192.168.1.9"))],
    );
    let changes = bench.config().changes_from(&before).expect("few");
    assert_eq!(changes.len(), 3, "{changes:?}");
    let replacement = Replacement::between(&former, &bench.service).expect("possible");
    assert!(!replacement.is_empty());
    // One that has been left out is no matter of single changes.
    bench.hear("10.1.0.0/16", Kind::Blackhole, &[]);
    assert_eq!(bench.config().changes_from(&before), None);
}

#[test]
fn the_host_gives_addresses() {
    let bench = Bench::new();
    let own: Vec<Address> = bench.config().own_addresses().collect();
    for address in ["192.168.1.1", "198.51.100.2", "10.255.0.1"] {
        assert!(own.contains(&ip(address)), "{address}");
    }
    // Errors are told from the first port's, and not from one of a link.
    let errors = bench.config().own_error_addresses();
    assert_eq!(errors, [Some(ip("192.168.1.1")), None]);
}

#[test]
fn a_file_that_is_read_again_goes_on_with_what_is_known() {
    let mut bench = Bench::new();
    bench.hear(
        "10.0.0.0/8",
        Kind::Unicast,
        &[hop(WAN, Some("198.51.100.1"))],
    );
    let mut same = service("");
    same.adopt_adjacencies(&bench.service).expect("room");
    assert!(same.chain[0] == bench.service.chain[0], "nothing differs");
    let mut other = service("no_route = \"drop\"\n");
    other.adopt_adjacencies(&bench.service).expect("room");
    let config: &router::Config = other.chain[0].config.of().expect("a router");
    assert_eq!(config.routes().collect::<Vec<_>>(), bench.routes());
    // From the kernel's routes to others is another start.
    let table = service("kernel_table = 100\n");
    let replaced = Replacement::between(&bench.service, &table);
    let error = replaced.err().expect("another table");
    assert!(error.to_string().contains("kernel_table"), "{error}");
}
