//! One rule, one route, one backend, one address changes while packets flow: of what is cached only
//! that goes which came from it, and what leaves is the same as where everything is on the slow path and
//! the same change is made in front of the same packet.

use crate::common::changing::{
    RulesChanged, ServiceChange, run_changing, run_changing_told, run_replacing, settled,
};
use crate::common::rows::tell;
use crate::common::{
    Outcome, assert_same, assert_same_but_for_names, by_direction, generate, run, service, traffic,
};
use twinpath_classify::Prefix;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::fragment::cut;
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect, fields};
use twinpath_io::Trace;
use twinpath_nf::bindings::EndBindings;
use twinpath_nf::edit::Edit;
use twinpath_nf::records::Kind;
use twinpath_node::replacement::Replacement;

const HEAD: &str = "inside = [\"10.0.0.0/8\", \"fd00::/8\"]\n[rule_cache]\nwindow = \"20ms\"\nthreshold = 0\n\
    [link]\nround_trip = \"200us\"\nincomplete_timeout = \"2ms\"\n";
const ACL: &str = "[acl]\ndefault = \"allow\"\nrules = [\n\
    { action = \"deny\", protocol = \"udp\", to_port = 443 },\n\
    { action = \"allow\", protocol = \"tcp\", from = \"10.0.0.0/8\", to_port = 80 },\n\
    { action = \"allow\", protocol = \"tcp\", from = \"fd00::/8\", to_port = 80 } ]\n";
const ROUTER: &str = "[router]\nnext_hops = [\n\
    { name = \"uplink\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = 1 },\n\
    { name = \"lab\", mac = \"02:00:00:00:02:01\", source_mac = \"02:00:00:00:00:02\", port = 2 } ]\n\
    routes = [{ to = \"any\", via = \"uplink\" }, { to = \"192.0.2.4/30\", via = \"lab\" }]\n";
const FIREWALL: &str = "[firewall]\ndefault = \"allow\"\n";
const PACKETS: usize = 16_000;

/// A service of this chain with these tables.
fn made(chain: &[&str], tables: &str) -> Service {
    service(&format!("[service]\nchain = {chain:?}\n{HEAD}{tables}"))
}

/// Flows of both IP versions between hosts inside and eight servers.
fn packets() -> Trace {
    generate(
        &traffic(&format!(
            "packets = {PACKETS}\nflows = 120\nchurn_per_minute = 6000.0\ntcp_share = 0.6\nreply_share = 0.3\n\
             arrivals = {{ process = \"poisson\", rate_pps = 20000.0 }}\n\
             hosts = {{ clients = 40, servers = 8, server_ports = [80, 443], ipv6_share = 0.4,\n\
             first_client_v4 = \"10.0.0.1\", first_client_v6 = \"fd00::1\", first_server_v4 = \"192.0.2.1\", first_server_v6 = \"2001:db8::1\" }}\n"
        )),
        5,
    )
}

fn add_rule(rule: &str, number: usize) -> Edit {
    let rule = rule.to_owned();
    let number = Some(number);
    Edit::AddRule { rule, number }
}

fn delete_rule(number: usize) -> Edit {
    let rule = number.to_string();
    Edit::DeleteRule { rule }
}

fn set_route(to: &str, via: &str) -> Edit {
    let (to, via) = (to.to_owned(), via.to_owned());
    Edit::ReplaceRoute { to, via }
}

fn delete_route(to: &str) -> Edit {
    let to = to.to_owned();
    Edit::DeleteRoute { to }
}

/// The services that single changes make, one after the other, each so many packets later.
fn edited(first: &Service, edits: &[(&str, Edit)], packets: usize) -> Vec<ServiceChange> {
    let each = packets / (edits.len() + 1);
    let mut present = first.clone();
    let mut change = |(number, (function, edit)): (usize, &(&str, Edit))| {
        let edited = present.edited(Some(function), edit);
        present = edited.unwrap_or_else(|error| panic!("{error}"));
        ServiceChange {
            before: (number + 1) * each,
            to: present.clone(),
        }
    };
    edits.iter().enumerate().map(&mut change).collect()
}

/// Makes changes on both paths, in virtual time and on threads, and on the slow path alone. Returns what
/// left the slow path alone, and what each change did in virtual time.
fn compare(
    first: &Service,
    changes: &[ServiceChange],
    trace: &Trace,
    what: &str,
) -> (Outcome, Vec<RulesChanged>) {
    let expected = run_changing(first, changes, trace, Paths::Slow, Execution::Virtual);
    let unchanged = run(first, trace, Paths::Slow, Execution::Virtual);
    assert!(
        unchanged.packets != expected.packets,
        "{what}: the changes do nothing"
    );
    let mut told = Vec::new();
    for execution in [Execution::Threads, Execution::Virtual] {
        let what = format!("{what} {execution:?}");
        let found = run_changing_told(first, changes, trace, Paths::Both, execution);
        let flows = [&expected, &found.0].map(|outcome| by_direction(&outcome.flows));
        assert_same(&flows[0], &flows[1], &what);
        assert_eq!(expected.ports, found.0.ports, "{what}");
        assert_eq!(expected.report.drops, found.0.report.drops, "{what}");
        let share = found.0.report.fast.share;
        tell("generated", &found.0.report);
        println!(
            "{what}: {:.1} % on the fast path, {:?}",
            100.0 * share,
            found.1
        );
        assert!(share > 0.5, "{what}: the fast path did too little: {share}");
        told = found.1;
    }
    (expected, told)
}

/// Every change took out some rules, and left more. How many is not told by generated packets: flows
/// come and go, and of those that there are some are not cached yet, or no longer.
/// [`those_go_whose_flows_meet_the_entry`] has the numbers.
fn assert_most_stay(told: &[RulesChanged], changes: usize) {
    assert_eq!(told.len(), changes);
    for (
        number,
        RulesChanged {
            rules_gone,
            rules_kept,
        },
    ) in told.iter().enumerate()
    {
        assert!(
            *rules_gone > 0 && rules_gone < rules_kept,
            "{number}: {told:?}"
        );
    }
}

#[test]
fn rules_and_routes_change_one_by_one() {
    let edits = [
        ("acl", add_rule("deny from 10.0.0.4/30", 1)),
        (
            "acl",
            add_rule("deny protocol tcp to 2001:db8::2 to_port 80", 3),
        ),
        ("router", set_route("192.0.2.3/32", "lab")),
        ("router", set_route("2001:db8::4/126", "discard")),
        ("acl", delete_rule(1)),
        ("router", set_route("192.0.2.3/32", "discard")),
        ("router", delete_route("2001:db8::4/126")),
        (
            "acl",
            add_rule("allow protocol udp from fd00::/8 to_port 443", 1),
        ),
    ];
    let trace = packets();
    for chain in [
        &["acl", "monitor", "router"][..],
        &["acl", "firewall", "monitor", "router"],
    ] {
        let tables = format!("{ACL}{ROUTER}");
        let tables = match chain.contains(&"firewall") {
            true => tables + FIREWALL,
            false => tables,
        };
        let first = made(chain, &tables);
        let changes = edited(&first, &edits, PACKETS);
        let (_, told) = compare(&first, &changes, &trace, &format!("{chain:?}"));
        if chain.contains(&"firewall") {
            // Rules of the list alone are for many flows each.
            assert!(told.iter().all(|told| told.rules_kept > 0), "{told:?}");
        } else {
            assert_most_stay(&told, edits.len());
        }
    }
}

/// How many flows have an address within a prefix: of the source (0) or the destination (1).
fn count_within(flows: &[[Endpoint; 2]], end: usize, prefix: &str) -> usize {
    let within: Prefix = prefix.parse().expect(prefix);
    let meets = |flow: &&[Endpoint; 2]| within.includes(flow[end].address);
    flows.iter().filter(meets).count()
}

/// Of one rule and of one route exactly those cached rules go that came from flows which meet it.
#[test]
fn those_go_whose_flows_meet_the_entry() {
    const SENT: usize = 8_000;
    // The monitor looks at both ends, so each flow has a cached rule of its own. None is idle for long
    // enough to lose it.
    let head = HEAD.replace("threshold = 0\n", "threshold = 0\nidle_windows = 255\n");
    let first = service(&format!(
        "[service]\nchain = [\"acl\", \"monitor\", \"router\"]\n{head}{ACL}{ROUTER}"
    ));
    let flow = |number: u8| {
        let host = Endpoint::v4([10, 0, 0, number + 1], 5000);
        [host, Endpoint::v4([192, 0, 2, number % 8 + 1], 53)]
    };
    let flows: Vec<[Endpoint; 2]> = (0..40).map(flow).collect();
    let mut trace = Trace::new();
    for number in 0..SENT {
        let [host, server] = flows[number % flows.len()];
        let packet = PacketBuilder::udp(host, server).dont_fragment().to_vec();
        let at = 1_000_000_000 + number as u64 * 50_000;
        trace.push(at, &packet.expect("fits"));
    }
    let (hosts, network, server) = ("10.0.0.4/30", "192.0.2.4/30", "192.0.2.2/32");
    // Packets that are denied do not come to the monitor, but their rules have the whole source, for
    // bits are examined in steps of eight; and each source here has one flow.
    let denied = count_within(&flows, 0, hosts);
    let steps = [
        ("acl", add_rule(&format!("deny from {hosts}"), 1), denied),
        ("acl", delete_rule(1), denied),
        (
            "router",
            set_route(server, "lab"),
            count_within(&flows, 1, server),
        ),
        (
            "router",
            delete_route(network),
            count_within(&flows, 1, network),
        ),
    ];
    let expected = steps.each_ref().map(|&(_, _, rules_gone)| RulesChanged {
        rules_gone,
        rules_kept: flows.len() - rules_gone,
    });
    let gone = expected.map(|told| told.rules_gone);
    assert!(gone.iter().all(|&gone| gone > 1 && gone < flows.len()));
    let edits = steps.map(|(function, edit, _)| (function, edit));
    let changes = edited(&first, &edits, SENT);
    let (_, told) = compare(&first, &changes, &trace, "one entry each");
    assert_eq!(told, expected, "in virtual time");
    let (both, threads) = (Paths::Both, Execution::Threads);
    let (_, told) = run_changing_told(&first, &changes, &trace, both, threads);
    assert_eq!(told, expected, "on threads");
}

/// A rule that nothing cached came from takes nothing out.
#[test]
fn what_no_packet_meets_takes_no_rule_out() {
    let edits = [
        ("acl", add_rule("deny protocol 47", 1)),
        ("router", set_route("172.16.0.0/12", "lab")),
        (
            "acl",
            add_rule("deny protocol tcp from 10.0.0.0/8 to_port 80", 4),
        ),
        ("acl", add_rule("deny from 10.0.0.8/30", 1)),
    ];
    let first = made(&["acl", "monitor", "router"], &format!("{ACL}{ROUTER}"));
    let changes = edited(&first, &edits, PACKETS);
    let (_, told) = compare(&first, &changes, &packets(), "unmet");
    let gone: Vec<usize> = told.iter().map(|told| told.rules_gone).collect();
    assert_eq!(gone[..3], [0, 0, 0], "{told:?}");
    assert!(gone[3] > 0);
}

/// A file with one more route and one rule less changes just these, whatever else is written
/// differently; the former file takes it back.
#[test]
fn files_are_applied_entry_by_entry() {
    let chain = &["acl", "monitor", "router"];
    let tables = format!("{ACL}{ROUTER}");
    let first = made(chain, &tables);
    let other = tables
        .replace("{ to = \"any\", via = \"uplink\" }, { to = \"192.0.2.4/30\", via = \"lab\" }",
            "{ via = \"lab\", to = \"192.0.2.4/30\" }, { to = \"2001:db8::2/127\", via = \"lab\" }, { to = \"any\", via = \"uplink\" }")
        .replace("{ action = \"deny\", protocol = \"udp\", to_port = 443 },", "# nothing");
    let other = made(chain, &other);
    let changes = [(5_000, &other), (10_000, &first)].map(|(before, to)| ServiceChange {
        before,
        to: to.clone(),
    });
    let (_, told) = compare(&first, &changes, &packets(), "files");
    assert_most_stay(&told, 2);
}

/// Many changes at once are one change.
#[test]
fn several_functions_change_together() {
    let first = made(&["acl", "monitor", "router"], &format!("{ACL}{ROUTER}"));
    let mut other = first.clone();
    for (function, edit) in [
        ("acl", delete_rule(1)),
        ("acl", add_rule("deny to 192.0.2.1", 1)),
        ("router", set_route("2001:db8::1/128", "lab")),
        ("router", set_route("192.0.2.2/32", "lab")),
    ] {
        other = other.edited(Some(function), &edit).expect("possible");
    }
    let changes = [ServiceChange {
        before: 8_000,
        to: other,
    }];
    let (_, told) = compare(&first, &changes, &packets(), "together");
    assert_most_stay(&told, 1);
}

/// A firewall's rules are for connections that it does not know: those on the fast path stay there.
#[test]
fn rules_of_a_firewall_leave_connections_where_they_are() {
    let first = made_without_inside(&["firewall"], FIREWALL);
    let edits = [
        ("firewall", add_rule("deny from 10.0.0.0/29", 1)),
        (
            "firewall",
            add_rule("deny protocol tcp to 2001:db8::/126", 1),
        ),
        ("firewall", delete_rule(2)),
    ];
    let trace = packets();
    let changes = edited(&first, &edits, PACKETS);
    let (expected, _) = compare(&first, &changes, &trace, "firewall");
    assert!(expected.report.drops["denied"] > 0);
    let share = |changes: &[ServiceChange]| {
        run_changing(&first, changes, &trace, Paths::Both, Execution::Virtual)
            .report
            .fast
            .share
    };
    // As much as where nothing changes, but for what is denied, which is for the slow path.
    let (changed, unchanged) = (share(&changes), share(&[]));
    let denied = expected.report.drops["denied"] as f64 / PACKETS as f64;
    assert!(
        changed > unchanged - denied - 0.01,
        "{changed}, {unchanged}, {denied}"
    );
}

fn made_without_inside(chain: &[&str], tables: &str) -> Service {
    service(&format!("[service]\nchain = {chain:?}\n{tables}"))
}

/// Packets of clients of both IP versions to two services.
fn requests() -> Trace {
    generate(
        &traffic(&format!(
            "packets = {PACKETS}\nflows = 100\nchurn_per_minute = 6000.0\nserver_packets = false\n\
             arrivals = {{ process = \"poisson\", rate_pps = 20000.0 }}\n\
             hosts = {{ first_client_v4 = \"10.0.0.1\", first_client_v6 = \"fd00::1\", services = [\n\
             {{ address = \"198.18.0.1\", port = 80, protocol = \"tcp\" }}, {{ address = \"2001:db8:1::1\", port = 53, protocol = \"udp\" }} ] }}\n"
        )),
        7,
    )
}

const BALANCER: &str = "[load_balancer]\ntable_size = 251\nservices = [\n\
    { vip = \"198.18.0.1:80\", protocol = \"tcp\", backends = [{ endpoint = \"10.254.0.1:80\" }, { endpoint = \"10.254.0.2:80\" }, { endpoint = \"10.254.0.3:80\" }] },\n\
    { vip = \"[2001:db8:1::1]:53\", protocol = \"udp\", backends = [{ endpoint = \"[fd00:254::1]:53\" }, { endpoint = \"[fd00:254::2]:53\" }] } ]\n";

fn backends() -> [(&'static str, Edit); 5] {
    let v4 = || Some("198.18.0.1:80/tcp".to_owned());
    let v6 = || Some("[2001:db8:1::1]:53/udp".to_owned());
    let add = |service, endpoint: &str, weight| Edit::AddBackend {
        service,
        endpoint: endpoint.to_owned(),
        weight: Some(weight),
        mac: None,
    };
    let [drain, drain6] =
        [(v4(), "10.254.0.1:80"), (v6(), "[fd00:254::1]:53")].map(|(service, endpoint)| {
            Edit::DrainBackend {
                service,
                endpoint: endpoint.to_owned(),
            }
        });
    let remove = Edit::RemoveBackend {
        service: v6(),
        endpoint: "[fd00:254::1]:53".to_owned(),
    };
    [
        drain,
        drain6,
        add(v4(), "10.254.0.4:80", 3),
        remove,
        add(v4(), "10.254.0.1:80", 1),
    ]
    .map(|edit| ("load_balancer", edit))
}

#[test]
fn backends_change_one_by_one() {
    let trace = requests();
    let edits = backends();
    let first = made(
        &["acl", "load_balancer"],
        &format!("[acl]\ndefault = \"allow\"\n{BALANCER}"),
    );
    let changes = edited(&first, &edits, PACKETS);
    let (_, told) = compare(&first, &changes, &trace, "beside a list");
    // What is counted are rules of the list alone: connections are no rules, wherever they are.
    assert_eq!(told.len(), edits.len());
    for (number, told) in told.iter().enumerate() {
        assert_eq!(told.rules_gone, 0, "{number}: {told:?}");
        assert!(told.rules_kept > 0, "{number}: {told:?}");
    }
    let first = made_without_inside(&["load_balancer"], BALANCER);
    let changes = edited(&first, &edits, PACKETS);
    let (_, told) = compare(&first, &changes, &trace, "alone");
    let nothing = RulesChanged {
        rules_gone: 0,
        rules_kept: 0,
    };
    assert_eq!(told, [nothing; 5], "there are no cached rules");
}

/// The flows of an element that stays come home while those of another go, and are granted again.
#[test]
fn flow_state_apart_comes_back() {
    let tables = format!("{FIREWALL}[acl]\ndefault = \"allow\"\n{BALANCER}");
    let first = made(&["firewall", "acl", "load_balancer"], &tables);
    let changes = edited(&first, &backends()[2..3], PACKETS / 4);
    let early = changes[0].before;
    assert!(early <= PACKETS / 8, "{early}");
    let trace = requests();
    let run = |changes: &[ServiceChange], paths| {
        run_changing(&first, changes, &trace, paths, Execution::Virtual)
    };
    let [slow, both] = [Paths::Slow, Paths::Both].map(|paths| run(&changes, paths));
    assert_same(
        &by_direction(&slow.flows),
        &by_direction(&both.flows),
        "apart",
    );
    tell("generated", &both.report);
    let unchanged = run(&[], Paths::Both).report.fast.share;
    let changed = both.report.fast.share;
    println!("{changed}, unchanged {unchanged} on the fast path");
    assert!(changed > 0.9 * unchanged, "{changed}, {unchanged}");
}

/// Drained backends keep their connections, and those stay on the fast path.
#[test]
fn drained_backends_leave_connections_where_they_are() {
    let first = made_without_inside(&["load_balancer"], BALANCER);
    let changes = edited(&first, &backends()[..2], PACKETS);
    let trace = requests();
    let share = |changes: &[ServiceChange]| {
        run_changing(&first, changes, &trace, Paths::Both, Execution::Virtual)
            .report
            .fast
            .share
    };
    let (changed, unchanged) = (share(&changes), share(&[]));
    assert!(unchanged > 0.3, "{unchanged}");
    assert!(
        (changed - unchanged).abs() < 0.005,
        "{changed}, {unchanged}"
    );
}

/// Addresses, hosts inside and time-outs of a translation: rules of all others stay.
#[test]
fn a_translation_changes_in_parts() {
    let text = |more: &str, inside: &str| {
        format!(
            "[acl]\ndefault = \"allow\"\n[napt]\ninside = [{inside}]\nexternal = [\"198.51.100.1\", \"198.51.100.2\"{more}]\n"
        )
    };
    let inside = "\"10.0.0.0/27\", \"10.0.0.32/27\"";
    let chain = &["acl", "napt"];
    let first = made(chain, &text("", inside));
    let steps = [
        text("", "\"10.0.0.0/27\""),
        text("", inside),
        text("", inside) + "timeouts = { udp = \"2m\" }\n",
        text("", inside) + "ports = \"2000-65535\"\n",
    ];
    let changes: Vec<ServiceChange> = steps
        .iter()
        .zip(1..)
        .map(|(tables, number)| ServiceChange {
            before: number * 3_000,
            to: made(chain, tables),
        })
        .collect();
    let trace = generate(
        &traffic(&format!(
            "packets = {PACKETS}\nflows = 120\nserver_packets = false\ntcp_share = 0.5\n\
             arrivals = {{ process = \"poisson\", rate_pps = 20000.0 }}\nhosts = {{ clients = 60, first_client_v4 = \"10.0.0.1\" }}\n"
        )),
        5,
    );
    let expected = run_changing(&first, &changes, &trace, Paths::Slow, Execution::Virtual);
    let (found, told) =
        run_changing_told(&first, &changes, &trace, Paths::Both, Execution::Virtual);
    assert_same_but_for_names(&expected, &found, "198.51.100.0/24", "translation");
    tell("generated", &found.report);
    println!("{told:?}");
    assert!(
        told[0].rules_gone > 10 && told[0].rules_kept > 10,
        "hosts leave: {told:?}"
    );
    assert!(
        told[1].rules_gone > 0 && told[1].rules_kept > 10,
        "they have passed: {told:?}"
    );
    assert!(
        told[2].rules_gone > 10 && told[2].rules_kept > 10,
        "UDP's: {told:?}"
    );
    assert!(
        told[3].rules_gone > 0 && told[3].rules_kept > 10,
        "and back: {told:?}"
    );
    let added = made(chain, &text(", \"198.51.100.3\"", inside));
    let changes = [ServiceChange {
        before: 8_000,
        to: added,
    }];
    let told = run_changing_told(&first, &changes, &trace, Paths::Both, Execution::Virtual).1;
    assert_eq!(told[0].rules_gone, 0, "nobody has met it: {told:?}");
    assert!(told[0].rules_kept > 50);
}

/// One binding of many ends: its cached rules go and no others, and another begins.
#[test]
fn one_binding_ends() {
    const HOSTS: usize = 40;
    let table = "[acl]\ndefault = \"allow\"\n[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n";
    let first = made(&["acl", "napt"], table);
    let mut trace = Trace::new();
    for number in 0..4_000usize {
        let host = Endpoint::v4([10, 0, 0, (number % HOSTS) as u8 + 1], 5000);
        let packet = PacketBuilder::udp(host, Endpoint::v4([8, 8, 8, 8], 53)).dont_fragment();
        let at = 1_000_000_000 + number as u64 * 50_000;
        trace.push(at, &packet.to_vec().expect("fits"));
    }
    let internal = Endpoint::v4([10, 0, 0, 7], 5000);
    let run = |paths, execution| {
        let service = settled(&first, paths, execution);
        let which = EndBindings {
            internal,
            kind: Some(Kind::Udp),
        };
        let ends = service.chain[1]
            .config
            .end_bindings(which)
            .expect("a translation");
        let replacement = Replacement::of_function(&service, 1, ends);
        let replacement = replacement.unwrap_or_else(|error| panic!("{error}"));
        run_replacing(&first, vec![(3_000, replacement)], &trace, paths, execution)
    };
    let (expected, _) = run(Paths::Slow, Execution::Virtual);
    for execution in [Execution::Virtual, Execution::Threads] {
        let (found, told) = run(Paths::Both, execution);
        assert_same_but_for_names(&expected, &found, "198.51.100.0/24", "one binding");
        tell("made one by one", &found.report);
        println!("{told:?} {:?}", found.report.fast);
        assert_eq!(told[0].rules_gone, 1, "its own: {told:?}");
        assert_eq!(told[0].rules_kept, HOSTS - 1, "{told:?}");
        for outcome in [&expected, &found] {
            let napt = outcome
                .report
                .functions
                .iter()
                .find(|one| one.name == "napt");
            let created = napt.expect("it is in the chain").counters["bindings_created"];
            assert_eq!(created, HOSTS as u64 + 1, "one began anew");
        }
        assert!(found.report.fast.share > 0.5);
    }
}

/// Forwards of a translation come and go: what others send to them gets in from then on.
#[test]
fn forwards_change_one_by_one() {
    let table = "[acl]\ndefault = \"allow\"\n[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n";
    let first = made(&["acl", "napt"], table);
    let mut trace = Trace::new();
    for number in 0..6_000u64 {
        let host = Endpoint::v4([10, 0, 0, (number % 40) as u8 + 1], 5000);
        let client = Endpoint::v4([192, 0, 2, (number / 2 % 20) as u8 + 1], 7000);
        let packet = match number % 2 {
            0 => PacketBuilder::udp(host, Endpoint::v4([8, 8, 8, 8], 53)),
            _ => PacketBuilder::udp(client, Endpoint::v4([198, 51, 100, 1], 90)),
        };
        let bytes = packet.dont_fragment().to_vec().expect("fits");
        trace.push(1_000_000_000 + number * 50_000, &bytes);
    }
    let (protocol, external) = (Some("udp".to_owned()), "198.51.100.1:90".to_owned());
    let add = Edit::AddForward {
        protocol: protocol.clone(),
        external: external.clone(),
        to: "10.0.9.9:53".to_owned(),
    };
    let delete = Edit::DeleteForward { protocol, external };
    let changes = edited(&first, &[("napt", add), ("napt", delete)], 6_000);
    let expected = run_changing(&first, &changes, &trace, Paths::Slow, Execution::Virtual);
    let to_forward = |outcome: &Outcome| {
        let packets = outcome.packets.iter().map(|(_, packet)| packet);
        let is_forwarded = |packet: &&Vec<u8>| {
            let layout = dissect(packet).expect("what left is sound");
            fields::destination(packet, &layout) == Endpoint::v4([10, 0, 9, 9], 53)
        };
        packets.filter(is_forwarded).count()
    };
    // What it has let in goes on behind it, as that of any binding until it is idle.
    assert_eq!(
        to_forward(&expected),
        2_000,
        "half of what comes from then on"
    );
    assert_eq!(expected.report.drops["unsolicited"], 1_000);
    for execution in [Execution::Virtual, Execution::Threads] {
        let (found, told) = run_changing_told(&first, &changes, &trace, Paths::Both, execution);
        assert_same_but_for_names(&expected, &found, "198.51.100.0/24", "forwards");
        tell("made one by one", &found.report);
        assert_eq!(expected.report.drops, found.report.drops);
        println!("{told:?} {:?}", found.report.fast);
        let share = found.report.fast.share;
        assert!(share > 0.4 && told.len() == 2, "{share}: {told:?}");
    }
}

/// Translations to the other IP version, and of prefixes: with other addresses and prefixes packets get
/// those, on both paths.
#[test]
fn translations_of_ipv6_change() {
    let nat64 = |external: &str, more: &str| {
        format!("[nat64]\ninside = [\"fd00::/8\"]\nexternal = [\"{external}\"]\n{more}")
    };
    let nptv6 = |external: &str| {
        format!("[nptv6]\nprefixes = [{{ inside = \"fd00::/48\", external = \"{external}\" }}]\n")
    };
    let trace = generate(
        &traffic(&format!(
            "packets = {PACKETS}\nflows = 120\nserver_packets = false\ntcp_share = 0.5\n\
             arrivals = {{ process = \"poisson\", rate_pps = 20000.0 }}\n\
             hosts = {{ clients = 60, ipv6_share = 1.0, first_client_v6 = \"fd00::1\", first_server_v6 = \"64:ff9b::808:801\" }}\n"
        )),
        5,
    );
    let steps = |tables: Vec<String>, chain: &[&str]| -> Vec<ServiceChange> {
        let made = |(number, tables): (usize, &String)| ServiceChange {
            before: (number + 1) * 4_000,
            to: made(chain, tables),
        };
        tables.iter().enumerate().map(made).collect()
    };
    let chain = &["acl", "nat64"];
    let list = "[acl]\ndefault = \"allow\"\n";
    let text = |external: &str, more: &str| format!("{list}{}", nat64(external, more));
    let first = made(chain, &text("198.51.100.1", ""));
    let changes = steps(
        vec![
            text("198.51.100.77", ""),
            text("198.51.100.77", "ports = \"2000-65535\"\n"),
            text("198.51.100.77", "prefix = \"2001:db8:64::/96\"\n"),
        ],
        chain,
    );
    let expected = run_changing(&first, &changes, &trace, Paths::Slow, Execution::Virtual);
    let found = run_changing(&first, &changes, &trace, Paths::Both, Execution::Virtual);
    assert_same_but_for_names(&expected, &found, "198.51.100.0/24", "nat64");
    tell("generated v6", &found.report);
    let sources = |from: &str| {
        let from: Address = from.parse().expect(from);
        let source = |(_, packet): &(u64, Vec<u8>)| {
            let layout = dissect(packet).expect("sound");
            fields::source_address(packet, &layout) == from
        };
        found.packets.iter().filter(|packet| source(packet)).count()
    };
    // A quarter of the packets each; at the end none is translated, for none is to that prefix.
    for (address, least, most) in [
        ("198.51.100.1", 3_500, 4_000),
        ("198.51.100.77", 7_000, 8_000),
    ] {
        let count = sources(address);
        assert!(count >= least && count <= most, "{address}: {count}");
    }
    assert!(
        found.report.fast.share > 0.2,
        "those that pass: {:?}",
        found.report.fast
    );
    let chain = &["acl", "nptv6"];
    let first = made(chain, &format!("{list}{}", nptv6("2001:db8:1::/48")));
    let changes = steps(
        ["2001:db8:2::/48", "2001:db8:3::/48"]
            .map(|to| format!("{list}{}", nptv6(to)))
            .into(),
        chain,
    );
    compare(&first, &changes, &trace, "nptv6");
}

/// WorkerAction back what was changed leads to the same service.
#[test]
fn the_way_back_is_no_change() {
    let first = made(&["acl", "monitor", "router"], &format!("{ACL}{ROUTER}"));
    let there = first
        .edited(Some("acl"), &add_rule("deny", 1))
        .expect("possible");
    let back = there
        .edited(Some("acl"), &delete_rule(1))
        .expect("possible");
    let change = |from: &Service, to: &Service| Replacement::between(from, to).expect("possible");
    assert!(change(&first, &back).is_empty());
    assert!(!change(&first, &there).is_empty());
    assert_eq!(change(&there, &first).applied.changed, ["acl"]);
}

/// Fragments that wait for their first one in front of an element wait on while something else changes.
#[test]
fn fragments_wait_on_over_a_change_of_others() {
    const DATAGRAMS: u64 = 40;
    // No rule asks for ports, which an access list finds in the first fragment alone.
    let acl =
        "[acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", from = \"198.51.100.0/24\" }]\n";
    let first = made(&["acl", "firewall"], &format!("{acl}{FIREWALL}"));
    let mut trace = Trace::new();
    for number in 0..DATAGRAMS {
        let [from, to] = match number % 2 {
            0 => ["10.0.0.1:4000", "192.0.2.1:53"],
            _ => ["[fd00::1]:4000", "[2001:db8::1]:53"],
        };
        let [from, to] = [from, to].map(|end| end.parse().expect(end));
        let whole = PacketBuilder::udp(from, to).payload_len(1000).to_vec();
        let whole = whole.expect("short");
        let layout = dissect(&whole).expect("sound");
        let parts = cut(&whole, &layout, 400, number as u32).expect("long enough");
        assert_eq!(parts.len(), 3);
        for (place, part) in (0..).zip(parts.iter().rev()) {
            trace.push((3 * number + place) * 1_000_000, part);
        }
    }
    // Each before the second of the three parts.
    let rules = [add_rule("deny from 203.0.113.0/24", 1), delete_rule(1)];
    let mut present = first.clone();
    let mut change = |number: u64| {
        let edit = &rules[(number % 2) as usize];
        present = present.edited(Some("acl"), edit).expect("sound");
        ServiceChange {
            before: (3 * (number + 4) + 1) as usize,
            to: present.clone(),
        }
    };
    let changes: Vec<_> = (0..30).map(&mut change).collect();
    for paths in [Paths::Slow, Paths::Both] {
        let unchanged = run(&first, &trace, paths, Execution::Virtual);
        assert_eq!(unchanged.packets.len() as u64, 3 * DATAGRAMS);
        let changed = run_changing(&first, &changes, &trace, paths, Execution::Virtual);
        assert_same(&unchanged.flows, &changed.flows, "fragments");
        assert!(
            changed.report.drops.is_empty(),
            "{:?}",
            changed.report.drops
        );
    }
}
