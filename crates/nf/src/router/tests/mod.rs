mod broadcast;
mod icmp;
mod kernel;

use super::*;
use crate::two_caches::{Bench, Outcome};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use twinpath_classify::Prefix;
use twinpath_core::wire::icmp::{IcmpError, IcmpMessage, IcmpView};
use twinpath_core::wire::{Address, Endpoint, MacAddress, PacketBuilder, dissect, fields};
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::RuleFunction;

const TWO: &str = r#"
    address = "192.0.2.1"
    address6 = "2001:db8:ffff::1"
    errors_per_second = 2
    next_hops = [
        { name = "a", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 1 },
        { name = "b", mac = "02:00:00:00:02:01", source_mac = "02:00:00:00:00:02", port = 2 },
    ]
    routes = [{ to = "10.0.0.0/8", via = "a" }, { to = "10.1.0.0/16", via = "b" },
              { to = "2001:db8::/32", via = "b" }, { to = "10.2.0.0/16", via = "discard" }]
"#;

fn router(text: &str) -> Router {
    let config: Config = toml::from_str(text).expect("a valid configuration");
    Router::new(&config, Path::new("."), 1).expect("routes")
}

fn bench(text: &str, rules: usize) -> Bench {
    let function: Box<dyn RuleFunction> = Box::new(router(text));
    Bench::cached(vec![function], rules)
}

fn udp(to: Address) -> PacketBuilder<'static> {
    let from = match to.is_v4() {
        true => Endpoint::v4([172, 16, 0, 1], 5),
        false => "[2001:db8:9::1]:5".parse().expect("v6"),
    };
    PacketBuilder::udp(from, Endpoint::new(to, 53))
}

fn address(text: &str) -> Address {
    text.parse().expect(text)
}

fn send(bench: &mut Bench, to: &str, ttl: u8) -> Outcome {
    let frame = udp(address(to)).ttl(ttl).payload_len(20).to_vec();
    bench.process(&frame.expect("fits"), 0, Instant(1))
}

#[test]
fn the_longest_prefix_decides() {
    for rules in [0, 8] {
        let mut bench = bench(TWO, rules);
        for (to, port, last) in [
            ("10.9.0.1", 1, 1),
            ("10.1.0.1", 2, 2),
            ("2001:db8::7", 2, 2),
        ] {
            for ttl in [64, 9, 2] {
                let outcome = send(&mut bench, to, ttl);
                let (bytes, layout) = outcome.departed();
                assert_eq!(outcome.packet.expect("leaves").1, Some(port));
                assert_eq!(fields::ttl(&bytes, &layout), ttl - 1);
                assert_eq!(
                    fields::source_mac(&bytes),
                    MacAddress([2, 0, 0, 0, 0, last])
                );
                assert_eq!(
                    fields::destination_mac(&bytes),
                    MacAddress([2, 0, 0, 0, last, 1])
                );
            }
        }
        bench.tell_all();
        assert_eq!(bench.counter(0, "forwarded"), 9);
        let sent: Vec<u64> = bench
            .function::<Router>(0)
            .next_hops()
            .map(|hop| hop.1)
            .collect();
        assert_eq!(sent, [3, 6]);
        assert_eq!(bench.hits, if rules > 0 { 6 } else { 0 });
    }
}

#[test]
fn the_end_of_life_is_answered_and_never_cached() {
    let mut bench = bench(TWO, 8);
    for (to, from) in [
        ("10.1.0.1", "192.0.2.1"),
        ("2001:db8::7", "2001:db8:ffff::1"),
    ] {
        send(&mut bench, to, 64);
        let outcome = send(&mut bench, to, 1);
        assert_eq!(outcome.packet, Err(DropReason::TimeToLive));
        let [error] = &outcome.replies[..] else {
            panic!("one answer")
        };
        let layout = dissect(error).expect("well formed");
        assert_eq!(fields::source(error, &layout).address, address(from));
        assert_eq!(
            fields::inner_destination(error, &layout)
                .expect("quoted")
                .address,
            address(to)
        );
        let icmp = IcmpView::new(&error[layout.l4.into()..]).expect("complete");
        let expected = IcmpMessage::Error(IcmpError::TimeExceeded { code: 0 });
        assert_eq!(icmp.message(layout.network), expected);
    }
    assert!(
        send(&mut bench, "10.1.0.1", 0).replies.is_empty(),
        "too many in a second"
    );
    let counted = ["expired", "errors_sent", "answers_limited"].map(|name| bench.counter(0, name));
    assert_eq!(counted, [3, 2, 1]);
}

#[test]
fn no_route_is_answered_or_not() {
    let mut unreachable = bench(TWO, 8);
    let mut silent = bench(&format!("no_route = 'drop'\n{TWO}"), 8);
    for _ in 0..2 {
        let outcome = send(&mut unreachable, "11.0.0.1", 64);
        assert_eq!(outcome.packet, Err(DropReason::NoRoute));
        assert_eq!(outcome.replies.len(), 1);
        let outcome = send(&mut silent, "11.0.0.1", 64);
        assert_eq!(
            (outcome.packet, outcome.replies.len()),
            (Err(DropReason::NoRoute), 0)
        );
    }
    assert_eq!((unreachable.hits, silent.hits), (0, 1));
    silent.tell_all();
    assert_eq!(silent.counter(0, "no_route"), 2);
}

#[test]
fn some_packets_go_nowhere_and_are_not_answered() {
    let mut bench = bench(&TWO.replace("10.0.0.0/8", "0.0.0.0/0"), 8);
    for to in ["10.2.0.1", "224.0.0.1", "255.255.255.254", "127.0.0.1"] {
        let outcome = send(&mut bench, to, 64);
        assert_eq!(
            (outcome.packet, outcome.replies.len()),
            (Err(DropReason::NoRoute), 0),
            "{to}"
        );
    }
    assert_eq!(bench.counter(0, "discarded"), 4);
    let offending = udp(address("10.9.0.1")).to_vec().expect("fits");
    let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 1 }, &offending).ttl(1);
    let outcome = bench.process(&error.to_vec().expect("fits"), 0, Instant(1));
    assert_eq!(outcome.packet, Err(DropReason::TimeToLive));
    let later = udp(address("10.9.0.1"))
        .ttl(1)
        .payload_len(64)
        .fragment(64, false);
    let outcome = bench.process(&later.to_vec().expect("fits"), 0, Instant(1));
    assert_eq!(outcome.packet, Err(DropReason::TimeToLive));
    assert_eq!(bench.counter(0, "errors_sent"), 0);
}

/// An entry is told as the route that leads to it, which depends on whom a packet is for.
#[test]
fn routes_are_told_by_their_prefixes() {
    let router = router(TWO);
    let told = |to: &str| {
        let to = address(to);
        let entry = router.table.lookup(to).unwrap_or(super::numbers::NO_ROUTE);
        router.entry_towards(entry, to).expect("it is told").text
    };
    for (to, expected) in [
        ("10.9.0.1", "route 10.0.0.0/8 via a"),
        ("10.1.0.1", "route 10.1.0.0/16 via b"),
        ("2001:db8::1", "route 2001:db8::/32 via b"),
        ("10.2.3.4", "route 10.2.0.0/16 via discard"),
        ("127.0.0.1", "route 127.0.0.0/8 via discard"),
        (
            "192.0.2.1",
            "route 192.0.2.1/32: an address of the router itself",
        ),
        ("11.0.0.1", "no route"),
    ] {
        assert_eq!(told(to), expected);
    }
    let elsewhere = router.entry_towards(0, address("11.0.0.1"));
    assert_eq!(elsewhere.expect("told").text, "next hop a");
}

#[test]
fn routes_come_from_a_file_too() {
    let folder = std::env::temp_dir();
    let name = format!("twinpath-routes-{}.txt", std::process::id());
    let text = format!("{TWO}\nroutes_file = '{name}'");
    let config: Config = toml::from_str(&text).expect("valid");
    let path = folder.join(&name);
    std::fs::write(&path, "# a comment\n11.0.0.0/8 b # another\n\n").expect("written");
    let function: Box<dyn RuleFunction> =
        Box::new(Router::new(&config, &folder, 1).expect("routes"));
    let outcome = send(&mut Bench::plain(vec![function]), "11.0.0.1", 9);
    assert_eq!(outcome.packet.expect("leaves").1, Some(2));
    for (line, expected) in [
        (
            "11.0.0.0/8",
            "txt:1: expected a prefix and the name of a next hop",
        ),
        ("11.0.0.0/8 c", "\"c\" is no next hop"),
        ("# one\n239.0.0.0/8 a", "txt:2: 239.0.0.0/8 is multicast"),
        ("11.0.0.1/8 a", "meant was perhaps 11.0.0.0/8"),
        (
            "11.0.0.0/8\n12.0.0.0/8 a\n13.0.0.0/8 c",
            "txt:3: \"c\" is no next hop",
        ),
    ] {
        std::fs::write(&path, line).expect("written");
        let error = Router::new(&config, &folder, 1)
            .err()
            .expect("wrong")
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::remove_file(&path).expect("there");
    let error = Router::new(&config, &folder, 1)
        .err()
        .expect("gone")
        .to_string();
    assert!(error.contains("cannot read routes"), "{error}");
}

#[test]
fn a_wrong_configuration_says_what_was_expected() {
    for (from, to, expected) in [
        (
            "via = \"a\"",
            "via = \"z\"",
            "goes via \"z\", which is no next hop",
        ),
        ("name = \"b\"", "name = \"a\"", "the name is taken"),
        ("10.0.0.0/8", "10.0.0.0/40", "its length 40 is more than 32"),
        ("\"192.0.2.1\"", "\"2001:db8::1\"", "is not IPv4"),
        (
            "\"192.0.2.1\"",
            "\"255.255.255.255\"",
            "is the broadcast address",
        ),
        ("\"192.0.2.1\"", "\"224.0.0.5\"", "is a multicast address"),
        ("\"192.0.2.1\"", "\"127.0.0.1\"", "is a loopback address"),
        (
            "10.0.0.0/8",
            "224.0.0.0/4",
            "224.0.0.0/4 is multicast, which is not routed",
        ),
        (
            "10.0.0.0/8",
            "255.255.255.255/32",
            "255.255.255.255/32 is broadcast, which is not routed",
        ),
        (
            "10.0.0.0/8",
            "ff02::/16",
            "ff02::/16 is multicast, which is not routed",
        ),
        (
            "mac = \"02:00:00:00:01:01\"",
            "mac = \"ff:ff:ff:ff:ff:ff\"",
            "the MAC address of a group of stations",
        ),
        ("02:00:00:00:01:01", "02:00", "\"02:00\" is"),
        (
            "port = 1",
            "port = 64",
            "port 64: expected a number below 64",
        ),
    ] {
        let message = toml::from_str::<Config>(&TWO.replacen(from, to, 1))
            .expect_err(to)
            .to_string();
        assert!(message.contains(expected), "{message}");
    }
}

/// The longest of all prefixes that cover an address, read one by one.
fn reference(routes: &BTreeMap<(u128, u8), (Prefix, Option<u32>)>, to: Address) -> Option<u16> {
    let covering = routes.values().filter(|(prefix, _)| prefix.includes(to));
    let (_, hop) = covering.max_by_key(|(prefix, _)| prefix.length())?;
    hop.map(|hop| hop as u16 + 1)
}

fn any_prefix() -> impl Strategy<Value = Prefix> {
    (
        0u8..4,
        0u8..4,
        prop::sample::select(vec![0u8, 7, 8, 15, 16, 17, 24, 30, 32]),
        any::<bool>(),
    )
        .prop_map(|(second, last, length, v4)| match v4 {
            true => Prefix::covering(Address::from_v4([10, second, 0, last]), length),
            false => Prefix::covering(
                Address(0x2001_0db8 << 96 | u128::from(second) << 80 | u128::from(last)),
                (length * 4).min(128),
            ),
        })
}

fn any_destination() -> impl Strategy<Value = Address> {
    (0u8..5, 0u8..5, any::<bool>()).prop_map(|(second, last, v4)| match v4 {
        true => Address::from_v4([10, second, 0, last]),
        false => Address(0x2001_0db8 << 96 | u128::from(second) << 80 | u128::from(last)),
    })
}

#[derive(Clone, Debug)]
enum Step {
    Send(Address, u8),
    Set(Prefix, Option<u32>),
    Remove(Prefix),
    Swap,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any_destination(), 1u8..4).prop_map(|(to, ttl)| Step::Send(to, ttl)),
        2 => (any_prefix(), prop::option::of(0u32..2)).prop_map(|(to, via)| Step::Set(to, via)),
        1 => any_prefix().prop_map(Step::Remove),
        1 => Just(Step::Swap),
    ]
}

/// Whether packets to an address are for all hosts of a network that the first next hop leads to.
fn is_broadcast(routes: &BTreeMap<(u128, u8), (Prefix, Option<u32>)>, to: Address) -> bool {
    let is_network = |(prefix, hop): &&(Prefix, Option<u32>)| {
        *hop == Some(0) && to.is_v4() && (1..=30).contains(&prefix.length())
    };
    let is_own = routes.contains_key(&(to.0, 32));
    let mut networks = routes.values().filter(is_network);
    !is_own && networks.any(|(prefix, _)| prefix.network() == to || prefix.last() == to)
}

proptest! {
    #[test]
    fn routes_as_all_prefixes_read_one_by_one(
        steps in prop::collection::vec(any_step(), 1..80),
        is_cable in any::<bool>(),
    ) {
        let text = TWO.replace("address = \"192.0.2.1\"", "").replace("address6 = \"2001:db8:ffff::1\"", "");
        let text = &text[..text.find("routes").expect("there")];
        let macs = "mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", ";
        let text = &if is_cable { text.replace(macs, "") } else { text.to_owned() };
        let mut bench = bench(text, 6);
        let mut config: Config = toml::from_str(text).expect("valid");
        let mut routes = BTreeMap::new();
        let mut is_swapped = false;
        for step in steps {
            let former = config.clone();
            match step {
                Step::Send(to, ttl) => {
                    let frame = udp(to).ttl(ttl).to_vec().expect("fits");
                    let outcome = bench.process(&frame, 0, Instant(1));
                    let expected = match reference(&routes, to) {
                        _ if is_cable && is_broadcast(&routes, to) => Err(DropReason::Broadcast),
                        None => Err(DropReason::NoRoute),
                        Some(_) if ttl == 1 => Err(DropReason::TimeToLive),
                        // A neighbour on the cable has a number, which is not the port's.
                        Some(1) if is_cable => Ok(Some(0)),
                        Some(port) => Ok(Some(if is_swapped && port == 1 { 7 } else { port })),
                    };
                    prop_assert_eq!(outcome.packet.map(|(_, port)| port), expected);
                    continue;
                }
                Step::Set(to, via) => {
                    routes.insert((to.network().0, to.length()), (to, via));
                    let via = via.map_or("discard", |hop| ["a", "b"][hop as usize]);
                    config = config.with_route(to, via).expect("a next hop");
                }
                Step::Remove(to) => {
                    let is_there = routes.remove(&(to.network().0, to.length())).is_some();
                    match config.without_route(to) {
                        Ok(without) => config = without,
                        Err(error) => prop_assert!(!is_there, "{}", error),
                    }
                }
                Step::Swap => {
                    is_swapped = true;
                    config.next_hops[0].port = 7;
                }
            };
            change(&mut bench, &former, &config);
        }
    }
}

/// Makes a router another one, change by change.
fn change(bench: &mut Bench, former: &Config, config: &Config) {
    let changes = config.changes_from(former).expect("few");
    let new = NewRoutes::Changes(changes, Box::new(config.clone()));
    bench.reconfigure::<Router>(0, new);
}

/// How packets to two networks leave.
fn ports(bench: &mut Bench) -> [Option<u16>; 2] {
    ["10.0.0.1", "10.1.0.1"].map(|text| {
        let frame = udp(text.parse().expect(text)).to_vec().expect("fits");
        let outcome = bench.process(&frame, 0, Instant(1));
        outcome.packet.ok().and_then(|(_, port)| port)
    })
}

fn with_routes(routes: &str) -> String {
    let text = &TWO[..TWO.find("routes").expect("there")];
    format!("{text}\nroutes = [{routes}]")
}

#[test]
fn another_router_takes_over_with_the_counts() {
    let mut bench = bench(&with_routes("{ to = '10.0.0.0/8', via = 'a' }"), 6);
    for _ in 0..2 {
        assert_eq!(ports(&mut bench), [Some(1), Some(1)]);
    }
    let text = with_routes("{ to = '10.0.0.0/16', via = 'b' }, { to = '10.1.0.0/16', via = 'a' }");
    let config = toml::from_str(&text).expect("valid");
    let router = Router::new(&config, Path::new(""), 1).expect("few");
    bench.reconfigure::<Router>(0, NewRoutes::Whole(Box::new(router)));
    assert_eq!(bench.counter(0, "forwarded"), 4);
    for _ in 0..2 {
        assert_eq!(ports(&mut bench), [Some(2), Some(1)]);
    }
    bench.tell_all();
    assert_eq!(bench.counter(0, "forwarded"), 8);
    let sent: Vec<u64> = bench
        .function::<Router>(0)
        .next_hops()
        .map(|(_, packets, _)| packets)
        .collect();
    assert_eq!(sent, [6, 2]);
}

/// Only rules go that came from what covered a prefix, and that packets to it meet.
#[test]
fn a_change_of_one_route_leaves_others_alone() {
    let config = |routes: &str| toml::from_str::<Config>(&with_routes(routes)).expect("valid");
    let before = config("{ to = '10.0.0.0/16', via = 'a' }, { to = '10.1.0.0/16', via = 'a' }");
    let mut bench = bench(
        &with_routes("{ to = '10.0.0.0/16', via = 'a' }, { to = '10.1.0.0/16', via = 'a' }"),
        6,
    );
    for _ in 0..2 {
        assert_eq!(ports(&mut bench), [Some(1), Some(1)]);
    }
    assert_eq!(bench.rules(), 2);
    let other = config("{ to = '10.1.0.0/16', via = 'a' }, { to = '10.0.0.0/16', via = 'b' }");
    change(&mut bench, &before, &other);
    assert_eq!(bench.rules(), 1);
    assert_eq!(ports(&mut bench), [Some(2), Some(1)]);
    let covered = config(
        "{ to = '10.0.0.0/8', via = 'b' }, { to = '10.1.0.0/16', via = 'a' }, { to = '10.0.0.0/16', via = 'b' }",
    );
    change(&mut bench, &other, &covered);
    assert_eq!(bench.rules(), 2, "nobody went by the shorter one");
    let gone = config("{ to = '10.0.0.0/8', via = 'b' }, { to = '10.0.0.0/16', via = 'b' }");
    change(&mut bench, &covered, &gone);
    assert_eq!((bench.rules(), ports(&mut bench)), (1, [Some(2), Some(2)]));
}

/// What routers forward nowhere goes there again when its route is gone.
#[test]
fn next_hops_come_and_go_and_routes_to_nowhere_come_back() {
    let hop = |name: &str, port: u16| {
        format!(
            "{{ name = '{name}', mac = '02:00:00:00:00:0{port}', source_mac = '02:00:00:00:00:01', port = {port} }}"
        )
    };
    let config = |hops: &[String], routes: &str| -> Config {
        let text = format!(
            "no_route = 'drop'\nnext_hops = [{}]\nroutes = [{routes}]",
            hops.join(",")
        );
        toml::from_str(&text).expect("valid")
    };
    let first = config(
        &[hop("a", 1)],
        "{ to = '127.0.0.0/8', via = 'a' }, { to = 'any', via = 'a' }",
    );
    let mut bench = Bench::cached(
        vec![Box::new(
            Router::new(&first, Path::new(""), 1).expect("few"),
        )],
        8,
    );
    let port =
        |bench: &mut Bench, to: &str| send(bench, to, 9).packet.ok().and_then(|(_, port)| port);
    assert_eq!(
        [port(&mut bench, "127.0.0.1"), port(&mut bench, "8.8.8.8")],
        [Some(1); 2]
    );
    let second = config(
        &[hop("b", 2), hop("c", 3)],
        "{ to = '0.0.0.0/0', via = 'b' }, { to = '::/0', via = 'c' }",
    );
    change(&mut bench, &first, &second);
    assert_eq!(port(&mut bench, "127.0.0.1"), None);
    assert_eq!(
        [port(&mut bench, "8.8.8.8"), port(&mut bench, "2001:db8::1")],
        [Some(2), Some(3)]
    );
    assert_eq!(bench.function::<Router>(0).next_hop("a"), None);
    change(&mut bench, &second, &first);
    assert_eq!(
        [
            port(&mut bench, "127.0.0.1"),
            port(&mut bench, "2001:db8::1")
        ],
        [Some(1); 2]
    );
    bench.tell_all();
    assert_eq!(bench.counter(0, "forwarded"), 6);
}

#[test]
fn routers_are_built_anew_where_much_changes() {
    let config = |most: usize, count: u32| -> Config {
        let routes: Vec<_> = (0..count)
            .map(|net| {
                format!(
                    "{{ to = '10.{}.{}.0/24', via = 'a' }}",
                    net / 250,
                    net % 250
                )
            })
            .collect();
        toml::from_str(&format!(
            "most_routes = {most}\n{}",
            with_routes(&routes.join(","))
        ))
        .expect("valid")
    };
    let changes =
        |one: &Config, other: &Config| other.changes_from(one).map(|changes| changes.len());
    assert_eq!(changes(&config(2000, 10), &config(2000, 11)), Some(1));
    assert_eq!(
        changes(&config(2000, 10), &config(2001, 10)),
        None,
        "another limit"
    );
    assert_eq!(
        changes(&config(2000, 10), &config(2000, 1500)),
        None,
        "many"
    );
    assert_eq!(
        changes(&config(20, 10), &config(20, 16)),
        None,
        "too many, as is told when it is built"
    );
    assert_eq!(changes(&config(20, 11), &config(20, 11)), Some(0));
    let mut other = config(20, 11);
    other.addresses = vec![address("192.0.2.9")];
    assert_eq!(
        changes(&config(20, 11), &other),
        None,
        "other own addresses"
    );
}

/// Files of routes are compared by what they say.
#[test]
fn files_of_routes_are_compared_route_by_route() {
    let folder =
        std::env::temp_dir().join(format!("twinpath-route-changes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let read = |text: &str, own: &str| {
        std::fs::write(folder.join("routes"), text).expect("a file");
        let text = format!("routes_file = 'routes'\n{}", with_routes(own));
        let mut config: Config = toml::from_str(&text).expect("valid");
        let read = config.read_file(&folder, &crate::files::Disk);
        read.expect("a sound file");
        config
    };
    let one = read("10.0.0.0/8 a\n10.1.0.0/16 b\n", "");
    let same = read("# the same\n10.0.0.0/8   a\n10.1.0.0/16 b\n", "");
    let other = read("10.0.0.0/8 a\n10.2.0.0/16 b\n", "");
    let more = one
        .with_route("10.3.0.0/16".parse().expect("a prefix"), "b")
        .expect("a next hop");
    let hidden = one
        .with_route("10.1.0.0/16".parse().expect("a prefix"), "a")
        .expect("a next hop");
    let shorter = one
        .without_route("10.1.0.0/16".parse().expect("a prefix"))
        .expect("there");
    std::fs::remove_dir_all(&folder).expect("ours");
    assert_eq!(one, same);
    let prefix = |text: &str| text.parse::<Prefix>().expect(text);
    let set = |text: &str, via: &str| RouteChange::SetRoute(prefix(text), Some(via.into()));
    let removed = |text: &str| RouteChange::RemoveRoute(prefix(text));
    let changes = |to: &Config| to.changes_from(&one).expect("few");
    assert_eq!(
        changes(&other),
        [removed("10.1.0.0/16"), set("10.2.0.0/16", "b")]
    );
    assert_eq!(changes(&more), [set("10.3.0.0/16", "b")]);
    assert_eq!(
        changes(&hidden),
        [set("10.1.0.0/16", "a")],
        "in the file, too"
    );
    assert_eq!(changes(&shorter), [removed("10.1.0.0/16")]);
}
