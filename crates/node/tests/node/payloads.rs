//! Payloads wait in a queue of the switch or in memory of this process while the workers see headers:
//! what leaves is what leaves workers that see whole packets, byte for byte and in order per flow and
//! direction, and every packet comes to one end. What each place does of its own is tested in
//! [parking](parking.rs) and [split](split.rs).

use crate::common::acting::decisions;
use crate::common::derived::profiled;
use crate::common::headers_only::{
    BALANCED, EVERYWHERE, FIREWALL, assert_counted, assert_settled, balancer, caching_gateway,
    conversations, crossing_traffic, expected, firewall, kept, with_mode,
};
use crate::common::rows::tell;
use crate::common::{Outcome, assert_same, by_direction, run, service, tcp_traffic};
use std::collections::BTreeMap;
use twinpath_control::service::{Execution, Paths};
use twinpath_io::Trace;

/// The usual way of each place, which runs everywhere, and others, which run in virtual time.
const MODES: [(&str, &[&str]); 2] = [
    (
        "[parking]\n",
        &[
            "[parking]\nport_pass = true\n",
            "[parking]\nmode = \"multicast\"\n",
            "[parking]\nmode = \"multicast\"\nmulticast = { target_bytes = 20000, most_copies = 8 }\n",
        ],
    ),
    // Every packet that can be, few slots, and places that are given to others at once.
    (
        "[split]\nthreshold_bytes = 60\n",
        &[
            "[split]\nheader_slots = 3\n",
            "[split]\nstore = { payloads = 2 }\nheader_timeout = \"0s\"\n",
        ],
    ),
];

/// Wherever payloads wait, the fast path settles this share.
const LEAST_SHARE: f64 = 0.4;

type Run = (Paths, Execution);

fn compare(text: &str, mode: &str, trace: &Trace, expected: &Outcome, runs: &[Run]) {
    for &run_as in runs {
        let what = format!("{text} {mode} {run_as:?}");
        let found = with_mode(text, mode, trace, run_as);
        assert_same(
            &by_direction(&expected.flows),
            &by_direction(&found.flows),
            &what,
        );
        assert_eq!(expected.ports, found.ports, "{what}");
        assert_counted(&found, 0, &what);
        assert!(kept(&found) > 0, "{what}: no payload waited");
        assert_settled(&found, run_as, LEAST_SHARE);
    }
}

fn compare_all(text: &str, trace: &Trace) {
    let expected = expected(text, trace);
    for (usual, others) in MODES {
        compare(text, usual, trace, &expected, &EVERYWHERE);
        for mode in others {
            compare(text, mode, trace, &expected, &EVERYWHERE[..2]);
        }
    }
}

#[test]
fn load_balancer() {
    compare_all(&balancer(), &conversations());
}

#[test]
fn firewall_with_reordering_fragments_and_errors() {
    compare_all(&firewall(), &tcp_traffic(0.02, 6_000));
}

#[test]
fn firewall_and_load_balancer_with_several_workers() {
    let text = format!(
        "[service]\nchain = [\"firewall\", \"load_balancer\"]\n[slow_path]\nworkers = 3\n{FIREWALL}{BALANCED}"
    );
    let trace = conversations();
    let expected = expected(&text, &trace);
    for (usual, _) in MODES {
        compare(&text, usual, &trace, &expected, &EVERYWHERE);
    }
}

/// Functions with rules and functions with flow state, both ways: payloads wait while their headers are on
/// the slow path for one element after the other. In front of each they may have to wait for others, far
/// longer than the header timeout that payloads have with the slow path.
#[test]
fn chains_of_rules() {
    let (trace, gateway) = (crossing_traffic(), caching_gateway());
    let chains = [
        "\"acl\", \"napt\", \"router\"",
        "\"acl\", \"firewall\", \"napt\", \"monitor\", \"router\"",
    ];
    let (split, others) = MODES[1];
    let modes = ["[parking]\nheader_timeout = \"1ms\"\n", split];
    for chain in chains {
        let text =
            format!("[service]\nchain = [{chain}]\ninside = [\"10.0.0.0/8\"]\n{FIREWALL}{gateway}");
        let expected = expected(&text, &trace);
        for mode in modes.iter().chain(others) {
            compare(&text, mode, &trace, &expected, &EVERYWHERE);
        }
    }
}

#[test]
fn captures_on_both_paths() {
    let (mut waited, mut on_fast_path) = ([0; MODES.len()], [0; MODES.len()]);
    let mut acted = BTreeMap::new();
    for capture in profiled() {
        let functions = capture.functions_of(&["firewall", "load_balancer"]);
        // Answers of the servers that are balanced, if there are any.
        let trace = capture.met_by(functions.last().expect("a firewall has something to do"));
        let text = capture.profile.service_of(functions).text;
        let balanced = service(&text);
        let expected = run(&balanced, &trace, Paths::Slow, Execution::Virtual);
        for instance in &balanced.chain {
            let name = instance.config.descriptor().name;
            *acted.entry(name).or_insert(0) += decisions(&balanced, &expected, &instance.name);
        }
        // Threads that wait for each other take long; short captures will do for them.
        let runs = match trace.len() {
            0..3000 => &EVERYWHERE[..],
            _ => &[EVERYWHERE[0], EVERYWHERE[2]],
        };
        for (place, (mode, _)) in MODES.iter().enumerate() {
            for &run_as in runs {
                let what = format!("{} {mode} {run_as:?}", capture.name);
                let found = with_mode(&text, mode, &trace, run_as);
                assert_same(
                    &by_direction(&expected.flows),
                    &by_direction(&found.flows),
                    &what,
                );
                assert_eq!(found.report.drops, expected.report.drops, "{what}");
                assert_counted(&found, 0, &what);
                waited[place] += kept(&found);
                on_fast_path[place] += found.report.fast.packets;
                if run_as.0 == Paths::Both {
                    tell(&capture.name, &found.report);
                }
            }
        }
    }
    println!("{acted:?}, {waited:?} payloads waited, {on_fast_path:?} packets on the fast path");
    let least = match profiled().is_empty() {
        true => 0,
        false => 1000,
    };
    let functions = ["firewall", "load_balancer"].map(|name| acted.get(name).copied());
    let counts = functions.into_iter().flatten();
    let all = counts.chain(waited).chain(on_fast_path);
    assert!(all.into_iter().all(|count| count >= least));
    assert!(profiled().is_empty() || acted.len() == 2, "{acted:?}");
}
