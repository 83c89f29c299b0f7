//! A rate limiter on both paths against the slow path alone: what passes, what is dropped, and when
//! what was delayed leaves; over captures and generated traffic of both IP versions, beside other
//! functions, and where packets are split; and other functions that hold or see every packet, on memory
//! servers with faults.

use crate::common::acting::Settled;
use crate::common::derived::counted;
use crate::common::headers_only::{BALANCED, EVERYWHERE, FIREWALL, conversations};
use crate::common::memory_servers::{Act, Remote, run_with_servers, servers, service_with_servers};
use crate::common::rows::tell;
use crate::common::{
    Flows, OneWayFlows, Outcome, VARIANTS, assert_same, by_direction, captures, generate, load,
    run, service, traffic, vary,
};
use std::collections::BTreeMap;
use std::time::Duration;
use twinpath_control::service::{Execution, Paths};
use twinpath_core::wire::dissect;
use twinpath_io::Trace;
use twinpath_remote::simulated::Faults;

/// Limits that some flows of most traffic exceed.
const LIMITS: [&str; 4] = [
    "rate_pps = 100\nburst_packets = 4\n",
    "rate_bps = 400_000\nburst_bytes = 6000\ndirections = \"from_opener\"\n",
    "rate_pps = 300\nburst_packets = 3\nexcess = \"delay\"\nlongest_delay = \"30ms\"\n",
    "rate_bps = 2_000_000\nburst_bytes = 3000\nexcess = \"delay\"\nmost_packets_per_flow = 9\n",
];

fn alone(limit: &str) -> String {
    format!(
        "[service]\nchain = [\"rate_limiter\"]\n[slow_path]\nworkers = 2\n[rate_limiter]\n{limit}"
    )
}

/// When each packet of a flow and direction leaves.
fn times(outcome: &Outcome) -> BTreeMap<Vec<u8>, Vec<u64>> {
    let mut times = BTreeMap::<_, Vec<u64>>::new();
    for (at, packet) in &outcome.packets {
        times.entry(packet.clone()).or_default().push(*at);
    }
    times
}

fn assert_agrees(expected: &Outcome, found: &Outcome, what: &str) {
    let [one, other] = [expected, found].map(|outcome| by_direction(&outcome.flows));
    assert_same(&one, &other, what);
    assert_eq!(expected.report.drops, found.report.drops, "{what}");
}

fn limited(outcome: &Outcome) -> u64 {
    let drops = outcome.report.drops.get("rate_limited");
    drops.copied().unwrap_or_default()
}

/// What a counter of the slow path's part says.
fn counter(outcome: &Outcome, name: &str) -> u64 {
    counted(outcome, "rate_limiter", &[name])
}

/// Crowded flows of both IP versions, with answers, fragments and errors.
fn crowded(ipv6_share: f64) -> Trace {
    generate(
        &traffic(&format!(
            "packets = 2500\nflows = 40\nchurn_per_minute = 6000.0\npopularity = {{ distribution = \"zipf\", exponent = 0.99 }}\n\
             arrivals = {{ process = \"poisson\", rate_pps = 20000.0 }}\npacket_size = {{ kind = \"imix\" }}\nreply_share = 0.4\n\
             tcp_share = 0.5\nfragment_share = 0.01\nicmp_error_share = 0.005\nhosts = {{ servers = 6, ipv6_share = {ipv6_share} }}\n"
        )),
        9,
    )
}

#[test]
fn generated_traffic_of_both_versions() {
    for (ipv6_share, limit) in [0.0, 0.5, 1.0]
        .into_iter()
        .flat_map(|share| LIMITS.map(|limit| (share, limit)))
    {
        let (trace, service) = (crowded(ipv6_share), service(&alone(limit)));
        let expected = run(&service, &trace, Paths::Slow, Execution::Virtual);
        assert!(
            limited(&expected) > 100,
            "{limit}: {:?}",
            expected.report.drops
        );
        let delays = limit.contains("delay");
        assert_eq!(counter(&expected, "released") > 100, delays, "{limit}");
        let variants = VARIANTS.iter().filter(|_| ipv6_share == 0.5);
        for &variant in variants {
            let what = format!("{limit} {variant:?}");
            let found = run(
                &vary(&service, variant),
                &trace,
                Paths::Both,
                Execution::Virtual,
            );
            assert_agrees(&expected, &found, &what);
            tell("generated v4 and v6", &found.report);
            assert_eq!(times(&expected), times(&found), "{what}");
            let share = found.report.fast.share;
            assert!(delays || share > 0.3, "{what}: {share}");
        }
        for (paths, execution) in EVERYWHERE {
            let found = run(&service, &trace, paths, execution);
            assert_agrees(
                &expected,
                &found,
                &format!("{limit} {paths:?} {execution:?}"),
            );
            if paths == Paths::Both {
                tell("generated v4 and v6", &found.report);
            }
        }
    }
}

#[test]
fn captures_on_both_paths() {
    let (mut dropped, mut delayed, mut settled) = (0, 0, Settled::default());
    for path in captures() {
        let trace = load(&path);
        for limit in LIMITS {
            let what = format!("{} {limit}", path.display());
            let service = service(&alone(limit));
            let expected = run(&service, &trace, Paths::Slow, Execution::Virtual);
            let found = run(&service, &trace, Paths::Both, Execution::Virtual);
            assert_agrees(&expected, &found, &what);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            tell(&name, &found.report);
            assert_eq!(times(&expected), times(&found), "{what}");
            dropped += limited(&found);
            delayed += counter(&found, "delayed");
            settled.add(&found.report);
        }
    }
    assert!(
        captures().is_empty() || (dropped > 100 && delayed > 100),
        "{dropped} {delayed}"
    );
    if !captures().is_empty() {
        settled.assert_share(0.56, "captures");
    }
}

/// In front of others, behind them and between, also where cached rules are beside it.
#[test]
fn beside_other_functions() {
    let trace = conversations();
    // Rules are cached while the packets come.
    let cache = "[rule_cache]\nwindow = \"2ms\"\nthreshold = 0\n";
    let tables = format!("{cache}{FIREWALL}{BALANCED}[acl]\ndefault = \"allow\"\n[rate_limiter]\n");
    let chains = [
        "\"rate_limiter\", \"load_balancer\"",
        "\"firewall\", \"rate_limiter\", \"load_balancer\"",
        "\"acl\", \"rate_limiter\"",
        "\"rate_limiter\", \"acl\", \"load_balancer\"",
    ];
    let (mut dropped, mut delayed) = (0, 0);
    for chain in chains {
        let mut settled = Settled::default();
        for limit in LIMITS {
            let inside = match chain.contains("acl") {
                true => "inside = [\"10.0.0.0/8\"]\n",
                false => "",
            };
            let text = format!("[service]\nchain = [{chain}]\n{inside}{tables}{limit}");
            let service = service(&text);
            let expected = run(&service, &trace, Paths::Slow, Execution::Virtual);
            dropped += limited(&expected);
            delayed += counter(&expected, "delayed");
            for (paths, execution) in EVERYWHERE {
                let what = format!("{chain} {limit} {paths:?} {execution:?}");
                let found = run(&service, &trace, paths, execution);
                assert_agrees(&expected, &found, &what);
                if paths == Paths::Both {
                    tell("generated", &found.report);
                    settled.add(&found.report);
                }
            }
        }
        settled.assert_share(0.38, chain);
    }
    println!("{dropped} dropped, {delayed} delayed");
    assert!(dropped > 0 && delayed > 0);
}

const SPLITS: [&str; 3] = [
    "[split]\nthreshold_bytes = 60\n",
    "[split]\nheader_slots = 3\n",
    "[split]\nstore = { payloads = 2 }\n",
];

/// Headers wait in line while payloads wait in memory: nothing is lost, and the order stays.
#[test]
fn headers_that_are_delayed_find_their_payloads() {
    let trace = conversations();
    for limit in LIMITS {
        let text = format!(
            "[service]\nchain = [\"rate_limiter\", \"load_balancer\"]\n{BALANCED}[rate_limiter]\n{limit}"
        );
        let expected = run(&service(&text), &trace, Paths::Slow, Execution::Virtual);
        for split in SPLITS {
            for (paths, execution) in EVERYWHERE {
                let what = format!("{limit} {split} {paths:?} {execution:?}");
                let found = run(
                    &service(&format!("{text}{split}")),
                    &trace,
                    paths,
                    execution,
                );
                assert_agrees(&expected, &found, &what);
                if paths == Paths::Both {
                    tell("generated", &found.report);
                }
                let counts = found.report.split.as_ref().expect("it splits").counts;
                println!("{what}: {counts:?}");
                assert_eq!((counts.lost(), counts.dropped_late), (0, 0), "{what}");
                assert_eq!(counts.packets, counts.merged + counts.declined, "{what}");
                assert!(counts.merged > 100, "{what}");
            }
        }
    }
}

/// Of each flow and direction those that left are some of those that were to leave, in their order.
fn missing(expected: &Flows, found: &Flows, what: &str) -> u64 {
    let (expected, found) = (by_direction(expected), by_direction(found));
    for (key, packets) in &found {
        let mut rest = expected.get(key).into_iter().flatten();
        for packet in packets {
            assert!(
                rest.any(|other| other == packet),
                "{what}: a packet of {key:?} is another, or out of order"
            );
        }
    }
    let all = |flows: &OneWayFlows| flows.values().map(Vec::len).sum::<usize>() as u64;
    all(&expected) - all(&found)
}

/// Of a service whose packets are split onto memory servers with faults, one of which dies in
/// mid-traffic: what it lost there of a trace. Never a wrong payload, never another order, and what is
/// lost is counted.
fn lost_with_faults(text: &str, trace: &Trace, seed: u64) -> u64 {
    let faults = Faults {
        lost: 50,
        doubled: 50,
        late: 20,
        damaged: 50,
        ..Faults::NONE
    };
    let expected = run(&service(text), trace, Paths::Slow, Execution::Virtual);
    let mut lost = 0;
    for is_v4 in [true, false] {
        let what = format!("{text} {is_v4}");
        let split = format!(
            "[split]\nqueue_pairs = 4\nheader_timeout = \"500ms\"\n{}",
            servers(is_v4)
        );
        let remote = Remote {
            seed,
            faults,
            is_v4,
            acts: vec![
                (Duration::from_millis(10), Act::Kill(0)),
                (Duration::from_millis(25), Act::Revive(0)),
            ],
            ..Remote::SOUND
        };
        let (found, _) = run_with_servers(
            &service_with_servers(text, &split),
            trace,
            Paths::Slow,
            &remote,
        );
        let counts = found.report.split.as_ref().expect("it splits").counts;
        let gone = missing(&expected.flows, &found.flows, &what);
        println!("{what}: {counts:?} {gone}");
        assert_eq!(
            gone,
            counts.lost() + counts.dropped_late,
            "{what}: {:?}",
            found.report.drops
        );
        assert!(counts.merged > 100, "{what}");
        lost += counts.lost();
    }
    lost
}

#[test]
fn order_holds_through_memory_servers_with_faults() {
    let trace = conversations();
    let lost = (1..).zip(LIMITS).map(|(seed, limit)| {
        let chain = "[service]\nchain = [\"rate_limiter\", \"load_balancer\"]\n";
        let text = format!("{chain}{BALANCED}[rate_limiter]\n{limit}");
        lost_with_faults(&text, &trace, seed)
    });
    assert!(lost.sum::<u64>() > 0, "nothing was at stake");
}

/// The same of a function that holds every packet, and of one that looks at every one.
#[test]
fn others_that_see_every_packet_lose_nothing_else_to_faults() {
    let trace = conversations();
    let chains = [
        ("reframer", ""),
        ("reframer", "[reframer]\nwindow = \"10ms\"\nbatch = 100\n"),
        ("telemetry", "[telemetry]\nidle = \"1s\"\n"),
    ];
    let lost = (11..).zip(chains).map(|(seed, (function, table))| {
        let chain = format!("[service]\nchain = [\"{function}\", \"load_balancer\"]\n");
        lost_with_faults(&format!("{chain}{BALANCED}{table}"), &trace, seed)
    });
    assert!(lost.sum::<u64>() > 0, "nothing was at stake");
}

/// Where slots are others' sooner than what is held leaves, the late header is a counted drop, and
/// no payload meets another packet's header.
#[test]
fn a_slot_that_was_overtaken_while_its_header_was_held_is_noticed() {
    let trace = conversations();
    let text = format!(
        "[service]\nchain = [\"rate_limiter\"]\n[rate_limiter]\n{}[run]\npace = \"live\"\n",
        "rate_pps = 300\nburst_packets = 2\nexcess = \"delay\"\nlongest_delay = \"100ms\"\n"
    );
    let expected = run(&service(&text), &trace, Paths::Slow, Execution::Virtual);
    let split = format!("{text}[split]\nheader_slots = 8\nheader_timeout = \"1ms\"\n");
    let (found, _) =
        crate::common::memory_servers::run_lossy(&service(&split), &trace, Paths::Slow);
    let counts = found.report.split.as_ref().expect("it splits").counts;
    println!("{counts:?} {:?}", found.report.drops);
    let gone = missing(&expected.flows, &found.flows, "overtaken");
    assert!(counts.lost() > 10, "{counts:?}");
    assert_eq!(
        gone,
        counts.lost() + counts.dropped_late,
        "{:?}",
        found.report.drops
    );
}

/// Whatever interval one looks at, no flow and direction had more than its burst and its rate; and
/// what was delayed left as soon as it could.
#[test]
fn what_is_delayed_leaves_at_the_rate() {
    let (rate, burst) = (300, 3);
    let trace = crowded(0.5);
    let service = service(&alone(LIMITS[2]));
    let outcome = run(&service, &trace, Paths::Both, Execution::Virtual);
    let mut leaving = BTreeMap::<_, Vec<u64>>::new();
    let steering = twinpath_core::Steering::new(0);
    for (at, packet) in &outcome.packets {
        let layout = dissect(packet).expect("generated");
        let keyed = steering.key(packet, &layout).expect("IP");
        if keyed.role == twinpath_core::key::Role::Member {
            leaving
                .entry((keyed.key, keyed.side))
                .or_default()
                .push(*at);
        }
    }
    let mut busy = 0;
    for (key, times) in &leaving {
        for (first, at) in times.iter().enumerate() {
            for (last, until) in times.iter().enumerate().skip(first + burst) {
                let had = (last - first + 1) as u64;
                let may = burst as u64 + (until - at) * rate / 1_000_000_000;
                // Fragments of the flow, which are counted with it, are none of these.
                assert!(
                    had <= may + 1,
                    "{key:?}: {had} packets in {} ns",
                    until - at
                );
            }
        }
        let apart = times.windows(2).map(|pair| pair[1] - pair[0]);
        busy += apart
            .filter(|apart| (3_333_333..3_334_400).contains(apart))
            .count();
    }
    assert!(busy > 100, "{busy} packets left just when they could");
}

/// Limits of networks that crowded traffic exceeds.
const NETWORKS: [&str; 4] = [
    "per = \"source\"\nv4_prefix_bits = 16\nv6_prefix_bits = 48\nrate_pps = 2000\nburst_packets = 20\n",
    "per = \"destination\"\nmost_prefixes = 4\nrate_bps = 5_000_000\nburst_bytes = 6000\n",
    "per = \"source\"\nrate_pps = 200\nburst_packets = 3\nexcess = \"delay\"\nlongest_delay = \"30ms\"\n",
    "per = \"destination\"\nv4_prefix_bits = 8\nrate_bps = 8_000_000\nburst_bytes = 9000\nexcess = \"delay\"\ndirections = \"from_opener\"\n",
];

fn one_worker(limit: &str) -> String {
    alone(limit).replace("workers = 2", "workers = 1")
}

/// All packets are on the slow path, where one worker takes them in the order in which they came; split
/// or not, what passes and when what waits leaves is the same.
#[test]
fn buckets_of_networks() {
    for (ipv6_share, limit) in [0.0, 0.5]
        .into_iter()
        .flat_map(|share| NETWORKS.map(|limit| (share, limit)))
    {
        let (trace, text) = (crowded(ipv6_share), one_worker(limit));
        let expected = run(&service(&text), &trace, Paths::Slow, Execution::Virtual);
        let drops = &expected.report.drops;
        assert!(limited(&expected) > 10, "{limit}: {drops:?}");
        assert!(counter(&expected, "conforming") > 10, "{limit}");
        let delays = limit.contains("delay");
        assert_eq!(counter(&expected, "released") > 100, delays, "{limit}");
        let found = run(&service(&text), &trace, Paths::Both, Execution::Virtual);
        assert_agrees(&expected, &found, limit);
        assert_eq!(times(&expected), times(&found), "{limit}");
        for (paths, execution) in EVERYWHERE {
            for split in ["", SPLITS[0], SPLITS[2]] {
                let what = format!("{limit} {split} {paths:?} {execution:?}");
                let split_text = format!("{text}{split}");
                let found = run(&service(&split_text), &trace, paths, execution);
                assert_agrees(&expected, &found, &what);
                if paths == Paths::Both {
                    tell("generated v4 and v6", &found.report);
                }
                assert_eq!(found.report.fast.share, 0.0, "{what}");
                if let Some(split) = &found.report.split {
                    assert_eq!(split.counts.lost(), 0, "{what}: {:?}", split.counts);
                    // Where there is room for two payloads, those of held headers keep it for long.
                    assert!(split.counts.merged > 10, "{what}: {:?}", split.counts);
                }
            }
        }
    }
}

/// Whatever flows and workers there are, no network gets more than its burst and its rate.
#[test]
fn no_network_gets_more_than_its_rate() {
    let (rate, burst) = (2000, 20);
    let trace = crowded(0.5);
    for workers in [1, 3] {
        let text = one_worker(NETWORKS[0]).replace("workers = 1", &format!("workers = {workers}"));
        let found = run(&service(&text), &trace, Paths::Both, Execution::Virtual);
        let mut leaving = BTreeMap::<_, Vec<u64>>::new();
        for (at, packet) in &found.packets {
            let layout = dissect(packet).expect("generated");
            if layout.inner.is_some() {
                continue;
            }
            let source = twinpath_core::wire::fields::source_address(packet, &layout);
            let bits = if source.is_v4() { 16 } else { 80 };
            leaving.entry(source.0 >> bits).or_default().push(*at);
        }
        assert!(leaving.len() > 2, "{} networks", leaving.len());
        for times in leaving.values() {
            for (first, at) in times.iter().enumerate() {
                for (last, until) in times.iter().enumerate().skip(first + burst) {
                    let may = burst as u64 + (until - at) * rate / 1_000_000_000 + 1;
                    assert!((last - first) as u64 <= may, "{workers} workers");
                }
            }
        }
    }
}
