//! Payloads wait in remote memory while the workers see headers: what leaves is what leaves workers
//! that see whole packets, byte for byte and in order per flow. With memory of the process itself; with
//! [servers](split_servers.rs) it takes a link.

mod common;

use common::headers_only::{
    BALANCED, EVERYWHERE, FIREWALL, GATEWAY, balancer, conversations, crossing_traffic, firewall,
};
use common::{
    Outcome, assert_same, by_direction, captures, generate, load, run, service, tcp_traffic,
    traffic,
};
use twinpath_control::report::SplitCounts;
use twinpath_control::service::{Execution, Paths};
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_io::Trace;

/// Every packet that can be, few slots, and flows that share lists.
const MODES: [&str; 3] = [
    "[split]\nthreshold_bytes = 60\n",
    "[split]\nheader_slots = 3\npartitions = 2\n",
    "[split]\nstore = { payloads = 2 }\nheader_timeout = \"0s\"\n",
];

fn counts(outcome: &Outcome) -> SplitCounts {
    let split = outcome.report.split.as_ref();
    split.expect("a service with [split]").counts
}

/// Every packet came to one end, and nothing that was split was lost.
fn assert_counted(outcome: &Outcome, what: &str) {
    let (report, counts) = (&outcome.report, counts(outcome));
    let ended = counts.merged + counts.declined + counts.lost();
    assert_eq!(counts.packets, ended, "{what}: {counts:?}");
    assert_eq!(
        (counts.lost(), counts.dropped_late),
        (0, 0),
        "{what}: {counts:?}"
    );
    let (came, left) = (report.totals.packets_in, report.totals.packets_out);
    assert_eq!(came, left + report.dropped(), "{what}: {:?}", report.drops);
}

fn with_split(text: &str, split: &str, trace: &Trace, run_as: (Paths, Execution)) -> Outcome {
    let split = service(&format!("{text}{split}"));
    run(&split, trace, run_as.0, run_as.1)
}

fn compare(text: &str, split: &str, trace: &Trace, runs: &[(Paths, Execution)]) {
    let expected = run(&service(text), trace, Paths::Slow, Execution::Virtual);
    for &run_as in runs {
        let what = format!("{text} {split} {run_as:?}");
        let found = with_split(text, split, trace, run_as);
        println!("{split} {run_as:?}: {:?}", counts(&found));
        assert_same(
            &by_direction(&expected.flows),
            &by_direction(&found.flows),
            &what,
        );
        assert_eq!(expected.ports, found.ports, "{what}");
        assert_counted(&found, &what);
        assert!(counts(&found).merged > 0, "{what}: nothing was split");
    }
}

#[test]
fn load_balancer() {
    let trace = conversations();
    compare(&balancer(), MODES[0], &trace, &EVERYWHERE);
    let others = MODES[1..].iter();
    others.for_each(|mode| compare(&balancer(), mode, &trace, &EVERYWHERE[..2]));
}

#[test]
fn firewall_with_reordering_fragments_and_errors() {
    let trace = tcp_traffic(0.02, 6_000);
    compare(&firewall(), MODES[0], &trace, &EVERYWHERE);
    let others = MODES[1..].iter();
    others.for_each(|mode| compare(&firewall(), mode, &trace, &EVERYWHERE[..2]));
}

#[test]
fn firewall_and_load_balancer_with_several_workers() {
    let text = format!(
        "[service]\nchain = [\"firewall\", \"load_balancer\"]\n[slow_path]\nworkers = 3\n{FIREWALL}{BALANCED}"
    );
    compare(&text, MODES[0], &conversations(), &EVERYWHERE);
}

/// Functions with rules and functions with flow state, both ways: headers go to the slow path for one
/// element after the other.
#[test]
fn chains_of_rules() {
    let trace = crossing_traffic();
    let chains = [
        "\"acl\", \"napt\", \"router\"",
        "\"acl\", \"firewall\", \"napt\", \"monitor\", \"router\"",
    ];
    for chain in chains {
        let text =
            format!("[service]\nchain = [{chain}]\ninside = [\"10.0.0.0/8\"]\n{FIREWALL}{GATEWAY}");
        for mode in MODES {
            compare(&text, mode, &trace, &EVERYWHERE);
        }
    }
}

#[test]
fn captures_on_both_paths() {
    let text =
        format!("[service]\nchain = [\"firewall\", \"load_balancer\"]\n{FIREWALL}{BALANCED}");
    let mut merged = 0;
    for path in captures() {
        let trace = load(&path);
        let expected = run(&service(&text), &trace, Paths::Slow, Execution::Virtual);
        let runs = match trace.len() {
            0..3000 => &EVERYWHERE[..],
            _ => &[EVERYWHERE[0], EVERYWHERE[2]],
        };
        for &run_as in runs {
            let what = format!("{} {run_as:?}", path.display());
            let found = with_split(&text, MODES[0], &trace, run_as);
            assert_same(&expected.flows, &found.flows, &what);
            assert_eq!(found.report.drops, expected.report.drops, "{what}");
            assert_counted(&found, &what);
            merged += counts(&found).merged;
        }
    }
    assert!(captures().is_empty() || merged > 1000, "{merged}");
}

/// Both IP versions, behind a tag and without.
#[test]
fn classes_that_are_never_split() {
    let mut trace = Trace::new();
    for number in 0..400u16 {
        let (from, to) = match number % 2 {
            0 => (
                Endpoint::v4([10, 0, 0, 9], 4000 + number % 50),
                Endpoint::v4([192, 0, 2, 1], 443),
            ),
            _ => (
                "[2001:db8::9]:5004".parse().expect("an endpoint"),
                "[2001:db8::1]:443".parse().expect("an endpoint"),
            ),
        };
        let payload: Vec<u8> = (0..600).map(|byte| (byte + number) as u8).collect();
        let mut builder = PacketBuilder::udp(from, to);
        if number % 3 == 0 {
            builder = builder.vlan(7);
        }
        let packet = builder.payload(&payload).to_vec().expect("fits");
        trace.push(1_000_000_000 + u64::from(number) * 100_000, &packet);
    }
    let text = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";
    let split = "[split]\nnever = [{ protocol = \"udp\", ports = \"5000-5010\" }]\n";
    compare(text, split, &trace, &EVERYWHERE);
    let found = with_split(text, split, &trace, EVERYWHERE[2]);
    let counts = counts(&found);
    assert_eq!((counts.whole_class, counts.packets), (200, 200));
}

#[test]
fn a_chain_that_needs_payloads_sees_whole_packets() {
    let text =
        "[service]\nchain = [\"firewall\", \"reassembler\"]\n[firewall]\ndefault = \"allow\"\n";
    let trace = tcp_traffic(0.02, 3_000);
    let expected = run(&service(text), &trace, Paths::Slow, Execution::Virtual);
    for run_as in EVERYWHERE {
        let found = with_split(text, MODES[0], &trace, run_as);
        assert_same(&expected.flows, &found.flows, "whole packets");
        let counts = counts(&found);
        assert_eq!((counts.packets, counts.whole()), (0, counts.whole_chain));
        assert!(counts.whole_chain > 0);
    }
}

/// Overload: rings overflow, headers are dropped in front of the link, and their payloads are free again.
#[test]
fn headers_that_find_no_room_on_the_link_free_their_payloads() {
    let text = format!(
        "{}[link]\nring_frames = 4\nround_trip = \"2ms\"\n[run]\npace = \"live\"\n",
        firewall()
    );
    let trace = generate(
        &traffic(
            "packets = 3000\nflows = 200\narrivals = { process = \"constant\", rate_pps = 1000000.0 }\npacket_size = { kind = \"fixed\", frame_bytes = 800 }\n",
        ),
        3,
    );
    let service = service(&format!("{text}[split]\nheader_slots = 64\n"));
    let (outcome, _) = common::memory_servers::run_lossy(&service, &trace, Paths::Slow);
    let counts = counts(&outcome);
    println!("{counts:?} {:?}", outcome.report.drops);
    assert!(outcome.report.drops["punt_ring_full"] > 1000);
    assert!(counts.declined > 0 && counts.lost() == 0);
    assert_eq!(counts.packets, counts.merged + counts.declined);
}
