//! Routes of the kernel's, and next hops that share them, whether decisions are cached or not.

use super::super::config::NextHop;
use super::*;
use std::sync::Arc;

fn hop(name: &str, port: u16) -> NextHop {
    NextHop {
        name: name.into(),
        port,
        reached: Reached::ByAddress {
            gateway: None,
            egress: 64 + port,
        },
    }
}

fn group(members: &[&str]) -> NextHopGroup {
    let members = members.iter().map(|name| ((*name).to_owned(), 1));
    NextHopGroup {
        name: "shared".into(),
        members: members.collect(),
    }
}

/// A configuration in its first state; routes lead to `a`, to all of a group, and nowhere.
fn learned(members: &[&str]) -> Config {
    let file: Config = toml::from_str("routes = \"kernel\"\n").expect("valid");
    let prefix = |text: &str| text.parse::<Prefix>().expect(text);
    let via = |name: &str| Some(Learned::Via(name.into()));
    let routes = KernelRoutes::default().with(vec![
        (prefix("10.0.0.0/8"), via("a")),
        (prefix("10.1.0.0/16"), via("shared")),
        (prefix("10.2.0.0/16"), Some(Learned::Unreachable)),
        (prefix("10.3.0.0/16"), Some(Learned::Prohibited)),
        (prefix("10.4.0.0/16"), Some(Learned::NoRoute)),
        (prefix("10.5.0.0/16"), Some(Learned::Discard)),
        (prefix("10.6.0.0/16"), via("no next hop of this name")),
    ]);
    file.learning(learning(members, routes))
}

fn learning(members: &[&str], routes: KernelRoutes) -> Learning {
    Learning {
        next_hops: vec![hop("a", 1), hop("b", 2), hop("c", 3)],
        groups: vec![group(members)],
        addresses: vec![address("192.0.2.1")],
        error_addresses: [Some(address("192.0.2.1")), None],
        networks: Vec::new(),
        routes,
    }
}

fn bench(config: &Config, rules: usize) -> Bench {
    let router = Router::new(config, Path::new("."), 7).expect("room");
    Bench::cached(vec![Box::new(router) as Box<dyn RuleFunction>], rules)
}

/// By which next hops packets to hosts of the shared route leave.
fn shared(bench: &mut Bench) -> Vec<u16> {
    let host = |last: u8| format!("10.1.0.{last}");
    let mut hops = Vec::new();
    for last in 1..60 {
        let first = send(bench, &host(last), 64).packet.expect("leaves").1;
        let again = send(bench, &host(last), 64).packet.expect("leaves").1;
        assert_eq!(first, again, "a pair keeps its next hop");
        hops.push(first.expect("an egress") - 64);
    }
    hops
}

#[test]
fn next_hops_share_a_route_alike_on_both_paths() {
    let config = learned(&["a", "b", "c"]);
    let (mut plain, mut cached) = (bench(&config, 0), bench(&config, 400));
    let hops = shared(&mut plain);
    assert_eq!(hops, shared(&mut cached));
    assert!(cached.hits >= 59, "{}", cached.hits);
    for port in 1..4 {
        assert!(
            hops.iter().filter(|hop| **hop == port).count() > 8,
            "{hops:?}"
        );
    }
    cached.tell_all();
    assert_eq!(cached.counter(0, "forwarded"), 118);
}

#[test]
fn what_leads_nowhere_is_told_by_kind() {
    for rules in [0, 8] {
        let mut bench = bench(&learned(&["a"]), rules);
        for (to, answers) in [
            ("10.2.0.1", 1),
            ("10.3.0.1", 1),
            ("10.4.0.1", 1),
            ("10.5.0.1", 0),
            ("10.6.0.1", 0),
        ] {
            let outcome = send(&mut bench, to, 64);
            assert_eq!(outcome.packet, Err(DropReason::NoRoute), "{to}");
            assert_eq!(outcome.replies.len(), answers, "{to}");
        }
        bench.tell_all();
        let names = ["unreachable", "prohibited", "no_route", "discarded"];
        assert_eq!(names.map(|name| bench.counter(0, name)), [1, 1, 1, 2]);
    }
}

#[test]
fn a_member_that_goes_takes_its_pairs_alone() {
    for rules in [0, 400] {
        let before = learned(&["a", "b", "c"]);
        let mut bench = bench(&before, rules);
        let old = shared(&mut bench);
        let routes = before.kernel_routes().expect("known").clone();
        let after = before.learning(learning(&["a", "c"], routes));
        let changes = after.changes_from(&before).expect("one by one");
        assert_eq!(changes, [RouteChange::SetGroup(group(&["a", "c"]))]);
        bench.reconfigure::<Router>(0, NewRoutes::Changes(changes, Box::new(after)));
        for (old, new) in old.into_iter().zip(shared(&mut bench)) {
            assert!(new != 2 && (old == new || old == 2), "{old} {new}");
        }
    }
}

#[test]
fn a_route_that_changes_is_followed_and_others_stay_cached() {
    let before = learned(&["a"]);
    let mut bench = bench(&before, 8);
    let port = |bench: &mut Bench, to: &str| send(bench, to, 64).packet.map(|packet| packet.1);
    assert_eq!(port(&mut bench, "10.9.0.1"), Ok(Some(65)));
    assert_eq!(port(&mut bench, "10.1.0.1"), Ok(Some(65)));
    let rules = bench.rules();
    let changed = "10.9.0.0/16".parse::<Prefix>().expect("a prefix");
    let routes = before.kernel_routes().expect("known");
    let routes = routes.with(vec![(changed, Some(Learned::Via(Arc::from("b"))))]);
    let after = before.learning(learning(&["a"], routes.clone()));
    let changes = after.changes_from(&before).expect("one by one");
    assert_eq!(changes.len(), 1);
    bench.reconfigure::<Router>(0, NewRoutes::Changes(changes, Box::new(after.clone())));
    assert!(bench.rules() < rules && bench.rules() > 0);
    assert_eq!(port(&mut bench, "10.9.0.1"), Ok(Some(66)));
    // It goes, and so does the one to nowhere that stood for it.
    let routes = routes.with(vec![(changed, None)]);
    let gone = after.learning(learning(&["a"], routes));
    let changes = gone.changes_from(&after).expect("one by one");
    assert_eq!(changes, [RouteChange::RemoveRoute(changed)]);
    bench.reconfigure::<Router>(0, NewRoutes::Changes(changes, Box::new(gone.clone())));
    assert_eq!(port(&mut bench, "10.9.0.1"), Ok(Some(65)));
    assert_eq!(gone.changes_from(&before), None, "a state was left out");
}

#[test]
fn what_no_router_forwards_to_stays_so_when_the_kernels_route_goes() {
    let before = learned(&["a"]);
    let local = "169.254.0.0/16".parse::<Prefix>().expect("a prefix");
    let routes = before.kernel_routes().expect("known");
    let there = routes.with(vec![(local, Some(Learned::Via(Arc::from("a"))))]);
    let with = before.learning(learning(&["a"], there.clone()));
    let gone = there.with(vec![(local, None)]);
    let without = with.learning(learning(&["a"], gone));
    let changes = without.changes_from(&with).expect("one by one");
    assert_eq!(changes, [RouteChange::SetRoute(local, None)]);
}

#[test]
fn the_kernels_routes_are_not_edited_here() {
    use crate::edit::Edit;
    let edit = Edit::DeleteRoute {
        to: "10.0.0.0/8".into(),
    };
    let error = learned(&["a"]).after(&edit).expect_err("the kernel's");
    assert!(error.to_string().contains("ip route"), "{error}");
    let routes: Vec<String> = learned(&["a"]).routes().collect();
    assert_eq!(routes[0], "10.0.0.0/8 via a");
    assert!(routes.contains(&"10.3.0.0/16 is prohibited".to_owned()));
}
