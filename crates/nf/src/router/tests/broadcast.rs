//! Packets to all hosts of a network.

use super::*;

/// One network is on a cable, one is behind a gateway.
const CABLE: &str = r#"
    address = "192.0.2.1"
    next_hops = [
        { name = "lab", port = 1 },
        { name = "up", address = "198.51.100.9", port = 2 },
    ]
    routes = [{ to = "10.1.0.0/24", via = "lab" }, { to = "10.2.0.0/24", via = "up" },
              { to = "10.3.0.0/31", via = "lab" }, { to = "10.4.0.9/32", via = "lab" },
              { to = "10.5.0.0/24", via = "lab" }, { to = "10.5.0.255/32", via = "up" },
              { to = "10.6.0.0/24", via = "lab" }, { to = "10.6.0.0/24", via = "up" },
              { to = "240.0.0.0/4", via = "up" }, { to = "2001:db8::/64", via = "lab" }]
"#;

/// RFC 1812 §5.3.5.1, §5.3.5.2, §4.2.3.1; RFC 2644; RFC 3021.
#[test]
fn packets_to_all_hosts_of_a_network_are_dropped_on_both_paths() {
    for rules in [0, 8] {
        let mut bench = bench(CABLE, rules);
        for (to, is_broadcast) in [
            ("10.1.0.255", true),
            ("10.1.0.0", true),
            ("255.255.255.255", true),
            ("10.1.0.254", false),
            ("10.2.0.255", false),
            ("10.3.0.0", false),
            ("10.3.0.1", false),
            ("10.4.0.9", false),
            ("10.5.0.0", true),
            ("10.5.0.255", false),
            ("10.6.0.255", false),
            ("255.255.255.254", false),
            ("2001:db8::", false),
            ("2001:db8::ffff:ffff:ffff:ffff", false),
        ] {
            let before = bench.hits;
            for _ in 0..3 {
                let outcome = send(&mut bench, to, 64);
                assert!(outcome.replies.is_empty(), "nobody is told");
                match is_broadcast {
                    true => assert_eq!(outcome.packet, Err(DropReason::Broadcast), "{to}"),
                    false => assert!(outcome.packet.is_ok(), "{to}"),
                }
            }
            assert_eq!(bench.hits > before, rules > 0, "{to}");
        }
        bench.tell_all();
        assert_eq!(bench.counter(0, "broadcasts"), 12);
    }
}

/// Networks of the ports are on cables whatever routes there are.
#[test]
fn networks_of_ports_have_broadcasts_too() {
    let mut config: Config = toml::from_str(TWO).expect("valid");
    config.networks = vec!["10.1.7.0/24".parse().expect("a prefix")];
    let router = Router::new(&config, Path::new("."), 1).expect("routes");
    let mut bench = Bench::cached(vec![Box::new(router)], 8);
    for (to, expected) in [
        ("10.1.7.255", Some(DropReason::Broadcast)),
        ("10.1.7.0", Some(DropReason::Broadcast)),
        ("10.1.7.8", None),
        ("10.1.8.255", None),
    ] {
        assert_eq!(send(&mut bench, to, 64).packet.err(), expected, "{to}");
    }
}

/// A network comes to a cable and goes while rules for its packets are cached.
#[test]
fn broadcasts_follow_routes() {
    let mut bench = bench(CABLE, 8);
    let prefix = |text: &str| text.parse::<Prefix>().expect(text);
    let mut config: Config = toml::from_str(CABLE).expect("valid");
    for (to, via, is_broadcast) in [
        ("10.1.0.0/24", "up", false),
        ("10.1.0.0/24", "lab", true),
        ("10.1.0.255/32", "up", false),
        ("10.1.0.0/25", "lab", false),
    ] {
        let former = config.clone();
        config = former.with_route(prefix(to), via).expect("a next hop");
        change(&mut bench, &former, &config);
        for _ in 0..3 {
            let is_dropped = send(&mut bench, "10.1.0.255", 64).packet.is_err();
            assert_eq!(is_dropped, is_broadcast, "{to} via {via}");
        }
    }
    assert_eq!(
        send(&mut bench, "10.1.0.127", 64).packet,
        Err(DropReason::Broadcast)
    );
    let former = config.clone();
    config = former
        .without_route(prefix("10.1.0.255/32"))
        .expect("there");
    change(&mut bench, &former, &config);
    assert_eq!(
        send(&mut bench, "10.1.0.255", 64).packet,
        Err(DropReason::Broadcast)
    );
}

/// Also where the network stands in a file, and a route to its address comes and goes beside that.
#[test]
fn broadcasts_of_networks_in_a_file_stay() {
    let name = format!("twinpath-broadcast-{}.txt", std::process::id());
    let folder = std::env::temp_dir();
    std::fs::write(folder.join(&name), "10.9.0.0/24 lab\n").expect("written");
    let mut config: Config =
        toml::from_str(&format!("routes_file = '{name}'\n{CABLE}")).expect("valid");
    config
        .read_file(&folder, &crate::files::Disk)
        .expect("sound");
    std::fs::remove_file(folder.join(&name)).expect("there");
    let to = "10.9.0.255/32".parse().expect("a prefix");
    let more = config.with_route(to, "up").expect("a next hop");
    let router = Router::new(&config, &folder, 1).expect("routes");
    let mut bench = Bench::cached(vec![Box::new(router)], 8);
    for (former, next, is_broadcast) in [
        (&config, &config, true),
        (&config, &more, false),
        (&more, &config, true),
    ] {
        change(&mut bench, former, next);
        let is_dropped = send(&mut bench, "10.9.0.255", 64).packet.is_err();
        assert_eq!(is_dropped, is_broadcast);
    }
}
