//! Functions that share flow state change while packets flow: what leaves is the same as where
//! everything is on the slow path and the same change is made in front of the same packet.

use crate::common::acting::{Settled, decisions};
use crate::common::changing::{ServiceChange, run_changing};
use crate::common::derived::{counted, profiled};
use crate::common::rows::tell;
use crate::common::{
    Outcome, VARIANTS, Variant, assert_same, balanced_traffic, by_direction, generate, run,
    service, tcp_traffic, traffic, vary,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_io::Trace;
use twinpath_node::replacement::Replacement;

const FIREWALL: &str = "[firewall]\ndefault = \"allow\"\n";
const WATCHFUL: &str = "[firewall]\ndefault = \"allow\"\nrules = [\n\
    { action = \"deny\", protocol = \"udp\" }, { action = \"deny\", protocol = \"tcp\", from = \"10.0.0.0/27\" }]\n\
    timeouts = { tcp_established = \"300ms\", tcp_transitory = \"200ms\", udp_unreplied = \"100ms\" }\n";
const STRICT: &str = "[firewall]\npick_up = false\nrules = [{ action = \"allow\", protocol = \"tcp\", from = \"10.0.0.0/8\" }]\n\
    timeouts = { tcp_established = \"500ms\" }\n";
const REASSEMBLER: &str = "[reassembler]\ngap_timeout = \"20ms\"\n";
const IMPATIENT: &str = "[reassembler]\ngap_timeout = \"1ms\"\nretransmissions = \"drop\"\n\
    most_bytes_per_flow = 600\nmost_segments = 20000\nidle_timeout = \"10s\"\n";

fn inspector(rules: &str) -> String {
    format!("[inspector]\ngaps = \"inspect\"\nrules = {rules:?}\n")
}

/// Two inspectors: what one bans at once the other has to search for.
fn inspectors() -> [String; 2] {
    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules");
    ["shallow", "deep"].map(|name| inspector(&format!("{FOLDER}/{name}.rules")))
}

fn balancer(backends: &str) -> String {
    format!(
        "[load_balancer]\ntable_size = 251\nservices = [{{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [{backends}] }}]\n"
    )
}

const TWO: &str = "{ endpoint = \"10.254.0.1:8080\" }, { endpoint = \"10.254.0.2:8080\" }";
const DRAINED: &str =
    "{ endpoint = \"10.254.0.1:8080\", drained = true }, { endpoint = \"10.254.0.2:8080\" }";
const OTHERS: &str = "{ endpoint = \"10.254.0.3:8080\" }, { endpoint = \"10.254.0.2:8080\" }";

/// A service of this chain with these tables; the tables that are not in the chain are left out.
fn text(chain: &[&str], tables: &[&str]) -> String {
    let mut text = format!("[service]\nchain = {chain:?}\n");
    let is_in = |table: &str| {
        chain
            .iter()
            .any(|name| table.contains(&format!("[{name}]")))
    };
    let settings = |table: &str| table.contains("[slow_path]") || table.contains("[rule_cache]");
    for table in tables {
        if is_in(table) || settings(table) {
            text.push_str(table);
        }
    }
    text
}

fn made(chain: &[&str], tables: &[&str]) -> Service {
    service(&text(chain, tables))
}

/// What a comparison has shown.
struct Compared {
    /// What left the slow path alone.
    slow: Outcome,
    /// The share of packets that stayed on the fast path in the last run.
    share: f64,
    /// What stayed there in all runs.
    settled: Settled,
}

/// Where packets come from that are in no capture.
const GENERATED: &str = "generated";

/// Compares a service that changes on both paths with one on the slow path alone.
fn compare_as(
    first: &Service,
    changes: &[ServiceChange],
    trace: &Trace,
    variants: &[Variant],
    (from, what): (&str, &str),
) -> Compared {
    let expected = run_changing(first, changes, trace, Paths::Slow, Execution::Virtual);
    assert_nothing_lost(&expected, what);
    let (mut share, mut settled) = (0.0, Settled::default());
    for &variant in variants {
        for execution in [Execution::Virtual, Execution::Threads] {
            let what = format!("{what} {variant:?} {execution:?}");
            let changes: Vec<_> = changes
                .iter()
                .map(|change| ServiceChange {
                    before: change.before,
                    to: vary(&change.to, variant),
                })
                .collect();
            let found = run_changing(
                &vary(first, variant),
                &changes,
                trace,
                Paths::Both,
                execution,
            );
            assert_same(
                &by_direction(&expected.flows),
                &by_direction(&found.flows),
                &what,
            );
            assert_eq!(expected.report.drops, found.report.drops, "{what}");
            println!(
                "{what}: {:.1} % on the fast path",
                100.0 * found.report.fast.share
            );
            tell(from, &found.report);
            share = found.report.fast.share;
            settled.add(&found.report);
        }
    }
    Compared {
        slow: expected,
        share,
        settled,
    }
}

/// The same of all variants of the fast path, which settled this share of all packets together. Returns what
/// left the slow path alone.
fn compare_all(
    first: &Service,
    changes: &[ServiceChange],
    trace: &Trace,
    (what, least): (&str, f64),
) -> Outcome {
    let compared = compare_as(first, changes, trace, &VARIANTS, (GENERATED, what));
    compared.settled.assert_share(least, what);
    compared.slow
}

/// What a function counted of a service that changes so often, and no more, on the slow path alone.
fn counted_until(
    first: &Service,
    changes: &[ServiceChange],
    trace: &Trace,
    (function, counter): (&str, &str),
) -> u64 {
    let outcome = run_changing(first, changes, trace, Paths::Slow, Execution::Virtual);
    counted(&outcome, function, &[counter])
}

/// Whatever came in has left or is counted; a reassembler may make two packets of one.
fn assert_nothing_lost(outcome: &Outcome, what: &str) {
    let (totals, drops) = (&outcome.report.totals, &outcome.report.drops);
    let gone = totals.packets_out + drops.values().sum::<u64>();
    assert!(
        gone >= totals.packets_in,
        "{what}: {gone} of {}",
        totals.packets_in
    );
}

fn compare(first: &Service, changes: &[ServiceChange], trace: &Trace, what: &str) -> Outcome {
    let compared = compare_as(first, changes, trace, &[Variant::Plain], (GENERATED, what));
    let share = compared.share;
    assert!(share > 0.1, "{what}: the fast path did too little: {share}");
    compared.slow
}

fn packets_of(outcome: &Outcome) -> usize {
    outcome.flows.values().map(Vec::len).sum()
}

#[test]
fn a_firewall_takes_other_rules() {
    let trace = tcp_traffic(0.02, 20_000);
    let [open, watchful, strict] =
        [FIREWALL, WATCHFUL, STRICT].map(|table| made(&["firewall"], &[table]));
    let change = |before, to: &Service| ServiceChange {
        before,
        to: to.clone(),
    };
    let changes = [change(8_000, &watchful), change(14_000, &strict)];
    let left = packets_of(&compare(&open, &changes, &trace, "firewall"));
    let open = packets_of(&run(&open, &trace, Paths::Slow, Execution::Virtual));
    let strict = packets_of(&run(&strict, &trace, Paths::Slow, Execution::Virtual));
    assert!(left < open && left > strict, "{strict} < {left} < {open}");
}

/// Connections that were allowed go on, although the rules would not allow them any more.
#[test]
fn established_connections_outlive_a_change_of_rules() {
    let trace = generate(
        &traffic(
            "packets = 8000\nflows = 50\narrivals = { process = \"constant\", rate_pps = 100000.0 }\ntcp_share = 1.0\n",
        ),
        3,
    );
    let open = made(&["firewall"], &[FIREWALL]);
    let closed = made(&["firewall"], &["[firewall]\ndefault = \"deny\"\n"]);
    let change = [ServiceChange {
        before: 4_000,
        to: closed,
    }];
    let outcome = compare(&open, &change, &trace, "closed");
    let all = packets_of(&run(&open, &trace, Paths::Slow, Execution::Virtual));
    assert_eq!(packets_of(&outcome), all);
    let opened = outcome.report.functions[0].counters["connections_opened"];
    assert!(opened >= 50, "counters go on: {opened}");
}

/// Connections expire on both paths after the same silence, whatever was configured when.
#[test]
fn time_outs_change() {
    let trace = stretched(&tcp_traffic(0.0, 12_000), 50);
    let patient = made(&["firewall"], &[FIREWALL]);
    let hasty = "[firewall]\ndefault = \"allow\"\npick_up = false\n\
        timeouts = { tcp_established = \"100ms\", udp_unreplied = \"100ms\", udp_replied = \"100ms\" }\n";
    let hasty = made(&["firewall"], &[hasty]);
    let changes = [
        ServiceChange {
            before: 2_000,
            to: hasty.clone(),
        },
        ServiceChange {
            before: 7_000,
            to: patient.clone(),
        },
        ServiceChange {
            before: 10_000,
            to: hasty,
        },
    ];
    let outcome = compare_all(&patient, &changes, &trace, ("time-outs", 0.4));
    assert!(outcome.report.drops["invalid_state"] > 100);
}

#[test]
fn functions_join_leave_and_change_places() {
    let tables = [FIREWALL, REASSEMBLER, &inspectors()[0]];
    let chains: [&[&str]; 7] = [
        &["reassembler"],
        &["firewall", "reassembler"],
        &["reassembler", "firewall"],
        &["inspector", "reassembler", "firewall"],
        &["reassembler", "inspector"],
        &["inspector"],
        &["reassembler", "inspector"],
    ];
    let trace = tcp_traffic(0.1, 21_000);
    let later = chains[1..].iter().zip(1..);
    let changes: Vec<_> = later
        .map(|(chain, number)| ServiceChange {
            before: 3_000 * number,
            to: made(chain, &tables),
        })
        .collect();
    let first = made(chains[0], &tables);
    let outcome = compare_all(&first, &changes, &trace, ("chains", 0.3));
    let released = outcome.report.functions[0].counters["released"];
    assert!(released > 0, "segments were held");
}

/// What is held stays where it is if only the reassembler's own settings change.
#[test]
fn a_reassembler_takes_other_limits() {
    let trace = tcp_traffic(0.2, 12_000);
    let [patient, impatient] = [REASSEMBLER, IMPATIENT]
        .map(|table| made(&["firewall", "reassembler"], &[FIREWALL, table]));
    let changes = [
        ServiceChange {
            before: 4_000,
            to: impatient,
        },
        ServiceChange {
            before: 8_000,
            to: patient.clone(),
        },
    ];
    let outcome = compare_all(&patient, &changes, &trace, ("limits", 0.25));
    let count = |name: &str| outcome.report.functions[1].counters[name];
    assert!(count("limits_reached") > 0 && count("gaps_closed") > 0);
}

#[test]
fn an_inspector_takes_other_rules() {
    let [some, others] = inspectors();
    let trace = tcp_traffic(0.05, 16_000);
    let chain = &["reassembler", "inspector"];
    let [some, others] = [some, others].map(|rules| made(chain, &[REASSEMBLER, &rules]));
    let changes = [
        ServiceChange {
            before: 5_000,
            to: others.clone(),
        },
        ServiceChange {
            before: 11_000,
            to: some.clone(),
        },
    ];
    let outcome = compare_all(&some, &changes, &trace, ("patterns", 0.31));
    let count = |name: &str| outcome.report.functions[1].counters[name];
    assert!(count("bans") > 0);
}

/// The rules file has other rules under the same name.
#[test]
fn a_rules_file_is_read_again() {
    let folder = std::env::temp_dir().join(format!("twinpath-inspector-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file: PathBuf = folder.join("rules");
    let text = text(&["inspector"], &[&inspector("rules")]);
    let parse = |content: &str| {
        std::fs::write(&file, content).expect("a file");
        Service::parse(&text, &folder.join("edge.toml")).expect("sound")
    };
    let one = parse("a ban literal \"GET /etc/passwd\"\n");
    let same = parse("a ban literal \"GET /etc/passwd\"\n");
    let other = parse("a ban literal \"something else\"\n");
    std::fs::remove_dir_all(&folder).expect("ours");
    let applied = |to: &Service| Replacement::between(&one, to).expect("sound").applied;
    assert_eq!(applied(&same).kept, ["inspector"]);
    assert_eq!(applied(&other).changed, ["inspector"]);
    let trace = tcp_traffic(0.0, 8_000);
    let banned = |outcome: &Outcome| outcome.report.drops["banned"];
    let change = [ServiceChange {
        before: 4_000,
        to: other,
    }];
    let some = banned(&compare(&one, &change, &trace, "file"));
    let all = banned(&run(&one, &trace, Paths::Slow, Execution::Virtual));
    assert!(some > 0 && some < all, "{some} of {all}");
}

#[test]
fn backends_are_drained_removed_and_added() {
    for chain in [
        &["load_balancer"][..],
        &["firewall", "load_balancer"],
        &["load_balancer", "reassembler"],
    ] {
        let with = |backends| made(chain, &[FIREWALL, REASSEMBLER, &balancer(backends)]);
        let trace = balanced_traffic(&balancer(TWO), 12_000);
        let changes = [
            ServiceChange {
                before: 3_000,
                to: with(DRAINED),
            },
            ServiceChange {
                before: 6_000,
                to: with(OTHERS),
            },
            ServiceChange {
                before: 9_000,
                to: with(TWO),
            },
        ];
        let compared = compare_as(
            &with(TWO),
            &changes,
            &trace,
            &VARIANTS,
            (GENERATED, &format!("{chain:?}")),
        );
        assert!(compared.share > 0.1, "{}", compared.share);
        let functions = &compared.slow.report.functions;
        let balancer = functions.iter().find(|one| one.name == "load_balancer");
        let count = |name: &str| balancer.expect("there").counters[name];
        assert!(count("reassigned") > 0 && count("new_connections") > 100);
    }
}

/// What has passed a chain without a balancer is balanced once there is one.
#[test]
fn a_balancer_joins_and_leaves() {
    let trace = balanced_traffic(&balancer(TWO), 9_000);
    let tables = [FIREWALL, &balancer(TWO)];
    let without = made(&["firewall"], &tables);
    let with = made(&["firewall", "load_balancer"], &tables);
    let changes = [
        ServiceChange {
            before: 3_000,
            to: with,
        },
        ServiceChange {
            before: 6_000,
            to: without.clone(),
        },
    ];
    compare(&without, &changes, &trace, "joins");
    let counter = ("load_balancer", "new_connections");
    let balanced = counted_until(&without, &changes[..1], &trace, counter);
    assert!(balanced > 0, "nothing was balanced");
}

#[test]
fn keys_keep_their_values() {
    let trace = generate(
        &traffic(
            "packets = 12000\nflows = 10\nkv = { share = 1.0, get_share = 0.8, keys = 200 }\narrivals = { process = \"constant\", rate_pps = 100000.0 }\n",
        ),
        5,
    );
    let store = service("[service]\nchain = [\"kv_store\"]\n");
    let elsewhere = service("[service]\nchain = [\"kv_store\"]\n[kv_store]\nport = 9999\n");
    let beside =
        service("[service]\nchain = [\"acl\", \"kv_store\"]\n[acl]\ndefault = \"allow\"\n");
    let changes = [elsewhere, store.clone(), beside];
    let changes: Vec<_> = changes
        .into_iter()
        .zip([4_000, 4_500, 9_000])
        .map(|(to, before)| ServiceChange { before, to })
        .collect();
    let found = compare(&store, &changes, &trace, "keys");
    let count = |name: &str| found.report.functions[1].counters[name];
    assert!(count("hits") * 10 > count("gets") * 9, "values were kept");
}

#[test]
fn several_workers_change_together() {
    let workers = "[slow_path]\nworkers = 3\n";
    let trace = tcp_traffic(0.05, 12_000);
    let first = made(&["firewall"], &[FIREWALL, workers]);
    let changes = [
        ServiceChange {
            before: 4_000,
            to: made(
                &["firewall", "reassembler"],
                &[WATCHFUL, REASSEMBLER, workers],
            ),
        },
        ServiceChange {
            before: 8_000,
            to: made(&["reassembler"], &[REASSEMBLER, workers]),
        },
    ];
    let outcome = compare(&first, &changes, &trace, "workers");
    assert!(counted(&outcome, "reassembler", &["held"]) > 0);
    let counter = ("firewall", "connections_opened");
    assert!(counted_until(&first, &changes[..1], &trace, counter) > 0);
}

/// Elements with rules come and go around functions that share flow state, and those that stay
/// keep what they know.
#[test]
fn beside_elements_with_rules() {
    const CACHE: &str = "[rule_cache]\nwindow = \"20ms\"\nthreshold = 0\n";
    const ACL: &str = "[acl]\ndefault = \"allow\"\n";
    let tables = [FIREWALL, REASSEMBLER, ACL, CACHE];
    let chains: [&[&str]; 6] = [
        &["acl"],
        &["acl", "firewall"],
        &["firewall", "acl"],
        &["monitor", "firewall", "reassembler", "acl"],
        &["reassembler", "acl"],
        &["acl", "monitor"],
    ];
    let trace = tcp_traffic(0.05, 18_000);
    let later = chains[1..].iter().zip(1..);
    let changes: Vec<_> = later
        .map(|(chain, number)| ServiceChange {
            before: 3_000 * number,
            to: made(chain, &tables),
        })
        .collect();
    let first = made(chains[0], &tables);
    compare(&first, &changes, &trace, "elements");
    // Up to the last chain in which all of them are.
    for counter in [
        ("firewall", "connections_opened"),
        ("reassembler", "in_order"),
        ("monitor", "packets"),
        ("acl", "allowed"),
    ] {
        let count = counted_until(&first, &changes[..3], &trace, counter);
        assert!(count > 0, "{counter:?}");
    }
}

/// What functions are told to do follows from each capture.
#[test]
fn on_captures() {
    const CHAINS: [&[&str]; 3] = [
        &["firewall", "reassembler"],
        &["reassembler", "firewall"],
        &["inspector", "reassembler"],
    ];
    let (mut acted, mut shares) = (BTreeMap::new(), Vec::new());
    for capture in profiled() {
        let made = |chain: &[&str]| {
            let functions = capture.functions_of(chain);
            capture.service("changing", &capture.profile.service_of(functions))
        };
        let [first, second, third] = CHAINS.map(made);
        let change = |before, to: &Service| ServiceChange {
            before,
            to: to.clone(),
        };
        let part = capture.trace.len() / 3;
        let changes = [change(part, &second), change(2 * part, &third)];
        let variants = [Variant::Plain];
        let Compared { slow, share, .. } = compare_as(
            &first,
            &changes,
            &capture.trace,
            &variants,
            (&capture.name, &capture.name),
        );
        for instance in &third.chain {
            let name = instance.config.descriptor().name;
            *acted.entry(name).or_insert(0) += decisions(&third, &slow, &instance.name);
        }
        shares.push(share);
    }
    let share = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    println!("{acted:?}, {:.1} % on the fast path", 100.0 * share);
    assert!(shares.is_empty() || share > 0.2, "{shares:?}");
    assert!(shares.is_empty() || acted.len() == 2, "{acted:?}");
    assert!(acted.values().all(|count| *count > 100), "{acted:?}");
}

/// The same packets over more time: connections may expire on the way.
fn stretched(trace: &Trace, factor: u64) -> Trace {
    let mut slow = Trace::new();
    let first = trace.at(0).map_or(0, |frame| frame.timestamp_ns);
    for frame in trace.iter() {
        let elapsed = frame.timestamp_ns - first;
        slow.push(first + factor * elapsed, frame.frame);
    }
    slow
}

/// Chains drawn at random, one after the other.
#[test]
fn any_chain_becomes_any_other() {
    let [some, others] = inspectors();
    let pick = |draw: &mut u64, of: u64| {
        *draw = draw
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (*draw >> 33) % of
    };
    let any = |draw: &mut u64| {
        let mut chain = vec!["firewall", "reassembler", "inspector", "load_balancer"];
        for place in (1..chain.len()).rev() {
            chain.swap(place, pick(draw, place as u64 + 1) as usize);
        }
        chain.truncate(1 + pick(draw, 4) as usize);
        let balancers = [TWO, DRAINED, OTHERS].map(balancer);
        let place = |name| chain.iter().position(|other| *other == name);
        // What it drops must not be refused behind it.
        let is_patient = place("firewall") > place("reassembler");
        let reassembler = match pick(draw, 2) {
            1 if !is_patient => IMPATIENT,
            _ => REASSEMBLER,
        };
        let tables = [
            [FIREWALL, WATCHFUL, STRICT][pick(draw, 3) as usize],
            reassembler,
            [&some, &others][pick(draw, 2) as usize],
            &balancers[pick(draw, 3) as usize],
        ];
        made(&chain, &tables)
    };
    let traces = [
        tcp_traffic(0.1, 6_000),
        balanced_traffic(&balancer(TWO), 6_000),
        stretched(&tcp_traffic(0.1, 6_000), 50),
        stretched(&balanced_traffic(&balancer(TWO), 6_000), 25),
    ];
    let (mut acted, mut settled) = (BTreeMap::new(), Settled::default());
    for seed in 0..24 {
        let mut draw = seed;
        let first = any(&mut draw);
        let changes: Vec<_> = (1..5)
            .map(|number| ServiceChange {
                before: number * 1_200,
                to: any(&mut draw),
            })
            .collect();
        let trace = &traces[seed as usize % traces.len()];
        let variant = VARIANTS[seed as usize % VARIANTS.len()];
        let compared = compare_as(
            &first,
            &changes,
            trace,
            &[variant],
            (GENERATED, &format!("seed {seed}")),
        );
        settled.absorb(&compared.settled);
        let alone = run(&first, trace, Paths::Slow, Execution::Virtual);
        for instance in &first.chain {
            let count = decisions(&first, &alone, &instance.name);
            *acted.entry(instance.name.to_string()).or_insert(0) += count;
        }
    }
    println!("{acted:?}");
    settled.assert_share(0.11, "any chains");
    assert!(acted.values().any(|count| *count > 0), "{acted:?}");
}

/// A list comes to stand around a balancer, and goes: connections stay where they are.
#[test]
fn a_balancer_keeps_its_connections_beside_cached_rules() {
    let tables = [
        &balancer(TWO),
        &balancer(OTHERS),
        "[acl]\ndefault = \"allow\"\n",
    ];
    let chains = [
        made(&["load_balancer"], &[tables[0]]),
        made(&["acl", "load_balancer"], &[tables[0], tables[2]]),
        made(&["load_balancer", "acl"], &[tables[1], tables[2]]),
        made(&["load_balancer"], &[tables[0]]),
    ];
    let changes = (1..).zip(&chains[1..]).map(|(number, to)| ServiceChange {
        before: number * 1_500,
        to: to.clone(),
    });
    let changes: Vec<_> = changes.collect();
    let trace = balanced_traffic(&balancer(TWO), 6_000);
    let outcome = compare_all(
        &chains[0],
        &changes,
        &trace,
        ("a list comes and goes", 0.08),
    );
    assert!(counted(&outcome, "load_balancer", &["new_connections"]) > 0);
}

/// Functions that share flow state are parted by a list and come together again: the first of them
/// keeps its flows, and so does each that stays in an element.
#[test]
fn functions_are_parted_and_joined() {
    let two = balancer(TWO);
    let tables = [FIREWALL, &two, "[acl]\ndefault = \"allow\"\n"];
    let chain = |chain: &[&str]| made(chain, &tables);
    let first = chain(&["firewall", "load_balancer"]);
    let parted = chain(&["firewall", "acl", "load_balancer"]);
    let joined = chain(&["acl", "firewall", "load_balancer"]);
    let applied = Replacement::between(&first, &parted)
        .expect("sound")
        .applied;
    assert_eq!(
        (applied.kept, applied.new, applied.anew),
        (
            vec!["firewall".into()],
            vec!["acl".into()],
            vec!["load_balancer".into()]
        )
    );
    let applied = Replacement::between(&parted, &chain(&["load_balancer", "acl", "firewall"]));
    let applied = applied.expect("sound").applied;
    assert_eq!(
        applied.kept,
        ["load_balancer", "acl", "firewall"],
        "each takes its flows along"
    );
    let trace = balanced_traffic(&two, 6_000);
    let to = [
        parted,
        joined,
        first.clone(),
        chain(&["load_balancer", "acl", "firewall"]),
    ];
    let changes: Vec<_> = (1..)
        .zip(to)
        .map(|(number, to)| ServiceChange {
            before: number * 1_200,
            to,
        })
        .collect();
    let outcome = compare_all(&first, &changes, &trace, ("parted and joined", 0.04));
    assert!(counted(&outcome, "load_balancer", &["new_connections"]) > 0);
}
