//! Payloads wait on memory servers, over RoCEv2, under virtual time: what leaves is what leaves workers
//! that see whole packets, but for what is lost with a frame or a server; that is counted, and bounded.

use crate::common::acting::assert_share;
use crate::common::derived::profiled;
use crate::common::headers_only::{FIREWALL, GATEWAY, caching_gateway, crossing_traffic};
use crate::common::memory_servers::{Act, Remote, run_with_servers, servers, service_with_servers};
use crate::common::rows::tell;
use crate::common::trial::Trial;
use crate::common::{Flows, Outcome, assert_same, by_direction, generate, run, service, traffic};
use std::time::Duration;
use twinpath_control::report::{SplitCounts, SplitFigures};
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};
use twinpath_io::Trace;
use twinpath_remote::simulated::{Faults, Tally};

/// Of all packets the fast path settles this share, whatever happens to payloads.
const LEAST_SHARE: f64 = 0.37;

const CHAIN: &str = "[service]\nchain = [\"acl\", \"firewall\", \"napt\", \"monitor\", \"router\"]\ninside = [\"10.0.0.0/8\"]\n";

/// Rules are cached while [`crossing_traffic`] lasts.
fn text() -> String {
    let gateway = GATEWAY.replacen("window = \"100ms\"", "window = \"5ms\"", 1);
    format!("{CHAIN}{FIREWALL}{gateway}")
}

fn split_service(split: &str, is_v4: bool) -> Service {
    let servers = servers(is_v4);
    let split = format!("[split]\nqueue_pairs = 4\n{split}{servers}");
    service_with_servers(&text(), &split)
}

fn expected(trace: &Trace) -> Outcome {
    run(&service(&text()), trace, Paths::Slow, Execution::Virtual)
}

fn figures(outcome: &Outcome) -> &SplitFigures {
    outcome
        .report
        .split
        .as_ref()
        .expect("a service with [split]")
}

fn counts(outcome: &Outcome) -> SplitCounts {
    figures(outcome).counts
}

/// Of each flow and direction those that left are some of those that were to leave, in their order. How
/// many are missing.
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
    let all =
        |flows: &crate::common::OneWayFlows| flows.values().map(Vec::len).sum::<usize>() as u64;
    all(&expected) - all(&found)
}

/// Whatever was lost is counted, once.
fn assert_counted(expected: &Outcome, found: &Outcome, what: &str) {
    let counts = counts(found);
    let ended = counts.merged + counts.declined + counts.lost();
    assert_eq!(counts.packets, ended, "{what}: {counts:?}");
    let lost = missing(&expected.flows, &found.flows, what);
    let drops = &found.report.drops;
    let of = |reason: &str| drops.get(reason).copied().unwrap_or_default();
    let told = of("payload_lost") + of("header_missing") + of("header_too_long");
    assert_eq!(
        (lost, counts.lost()),
        (told, told),
        "{what}: {counts:?} {drops:?}"
    );
}

#[test]
fn without_faults_nothing_is_lost() {
    let trace = crossing_traffic();
    let expected = expected(&trace);
    for is_v4 in [true, false] {
        for paths in [Paths::Both, Paths::Slow] {
            let what = format!("{is_v4} {paths:?}");
            let remote = Remote {
                is_v4,
                ..Remote::SOUND
            };
            let service = split_service("threshold_bytes = 100\n", is_v4);
            let (found, tally) = run_with_servers(&service, &trace, paths, &remote);
            assert_same(
                &by_direction(&expected.flows),
                &by_direction(&found.flows),
                &what,
            );
            assert_counted(&expected, &found, &what);
            if paths == Paths::Both {
                assert_share(&found, LEAST_SHARE, &what);
                tell("generated", &found.report);
            }
            let split = figures(&found);
            println!("{what}: {:?}", split.counts);
            assert!(split.counts.merged > 300 && split.counts.lost() == 0);
            assert_eq!(split.servers_up(), 2);
            for server in &split.servers {
                let writes: u64 = server.queue_pairs.iter().map(|pair| pair.writes).sum();
                assert!(
                    writes > 0 && writes == server.counter("writes"),
                    "{server:?}"
                );
                assert!(server.queue_pairs.iter().all(|pair| pair.is_up));
                assert_eq!(server.last_error, None);
            }
            let written = [tally.of("responder_writes"), split.counts.packets];
            assert_eq!((written[0], tally.of("server_restores")), (written[1], 8));
        }
    }
}

/// The same where rules are cached while packets come: what the fast path settles needs no server.
#[test]
fn beside_cached_rules_nothing_is_lost() {
    let trace = crossing_traffic();
    let text = format!("{CHAIN}{FIREWALL}{}", caching_gateway());
    let expected = run(&service(&text), &trace, Paths::Slow, Execution::Virtual);
    for is_v4 in [true, false] {
        let what = format!("cached rules {is_v4}");
        let split = format!(
            "[split]\nqueue_pairs = 4\nthreshold_bytes = 100\n{}",
            servers(is_v4)
        );
        let remote = Remote {
            is_v4,
            ..Remote::SOUND
        };
        let service = service_with_servers(&text, &split);
        let (found, _) = run_with_servers(&service, &trace, Paths::Both, &remote);
        assert_same(
            &by_direction(&expected.flows),
            &by_direction(&found.flows),
            &what,
        );
        assert_counted(&expected, &found, &what);
        let split = counts(&found);
        println!("{what}: {split:?}, {:?}", found.report.fast);
        assert!(split.merged > 0 && split.lost() == 0, "{what}: {split:?}");
        assert_share(&found, LEAST_SHARE, &what);
        tell("generated", &found.report);
    }
}

/// Rings, windows and memory that are far too small: what has no room travels whole, or waits.
#[test]
fn tiny_rings_and_windows_lose_nothing() {
    let trace = crossing_traffic();
    let expected = expected(&trace);
    let tiny = [
        ("header_slots = 4\n", 1 << 20),
        ("ring_payloads = 2\n", 1 << 20),
        ("requests = 4\n", 1 << 20),
        ("", 4 * 4160),
    ];
    let mut sum = SplitCounts::default();
    for (split, memory_bytes) in tiny {
        for paths in [Paths::Both, Paths::Slow] {
            let what = format!("{split} {paths:?}");
            let remote = Remote {
                memory_bytes,
                ..Remote::SOUND
            };
            let service = split_service(split, true);
            let (found, _) = run_with_servers(&service, &trace, paths, &remote);
            let split = counts(&found);
            println!("{what}: {split:?}");
            assert_counted(&expected, &found, &what);
            if paths == Paths::Both {
                assert_share(&found, LEAST_SHARE, &what);
                tell("generated", &found.report);
            }
            assert_eq!(split.lost(), 0, "{what}: {split:?}");
            assert!(split.merged > 100, "{what}: {split:?}");
            sum.add(&split);
        }
    }
    assert!(sum.whole_no_slot > 0 && sum.whole_no_memory > 0 && sum.whole_window > 0);
    assert!(sum.followers > 0);
}

/// The same where places are given to others at once, as in the paper: overtaken payloads and slots are
/// lost, and never merged.
#[test]
fn what_is_overtaken_is_counted() {
    let trace = crossing_traffic();
    let expected = expected(&trace);
    let mut sum = SplitCounts::default();
    for split in ["header_slots = 2\n", "ring_payloads = 1\n"] {
        let remote = Remote {
            is_lossless: false,
            ..Remote::SOUND
        };
        let service = split_service(&format!("header_timeout = \"0s\"\n{split}"), true);
        let (found, _) = run_with_servers(&service, &trace, Paths::Slow, &remote);
        println!("{split}: {:?}", counts(&found));
        assert_counted(&expected, &found, split);
        sum.add(&counts(&found));
    }
    assert!(sum.missing > 0 && sum.payload_gone > 0 && sum.merged > 100);
}

/// The same of each capture, through a firewall and through a gateway that are derived from it: with room, with
/// few slots, and with little room on servers.
#[test]
fn captures_survive_whatever_happens_on_the_links() {
    let (mut sum, mut seen) = (SplitCounts::default(), Tally::default());
    let (mut fast, mut translated, mut seeds) = (0, 0, 0..);
    let firewall = |capture| Trial::of_chain(capture, &["firewall"], None);
    let gateway = |capture| Trial::of_chain(capture, &["acl", "firewall", "napt", "router"], None);
    let captures = profiled().iter();
    let trials =
        captures.flat_map(|capture| [(capture, firewall(capture)), (capture, gateway(capture))]);
    for (capture, trial) in trials {
        if trial.functions().next().is_none() {
            continue;
        }
        let chain: Vec<_> = trial.functions().collect();
        translated += usize::from(chain.contains(&"napt"));
        let (plain, trace) = (trial.service(), without_silences(trial.trace()));
        let expected = run(&plain, &trace, Paths::Slow, Execution::Virtual);
        for room in ["", "header_slots = 8\n", "ring_payloads = 8\n"] {
            let remote = faulty(seeds.next().unwrap_or_default());
            let split = format!("threshold_bytes = 64\nread_timeout = \"20ms\"\n{room}");
            let service = Service {
                split: split_service(&split, remote.is_v4).split,
                ..plain.clone()
            };
            let (found, tally) = run_with_servers(&service, &trace, Paths::Both, &remote);
            let what = format!("{} {chain:?} {room}", capture.name);
            println!("{what}: {:?}", counts(&found));
            assert_counted(&expected, &found, &what);
            tell(&capture.name, &found.report);
            fast += found.report.fast.packets;
            sum.add(&counts(&found));
            seen.add(&tally);
        }
    }
    if !profiled().is_empty() {
        assert!(fast > 30_000 && sum.merged > 3_000, "{fast}, {sum:?}");
        assert!(translated > 10, "{translated}");
        assert!(sum.payload_lost > 0 && sum.whole_no_slot > 0, "{sum:?}");
        seen.expect_some(&[
            "frames_lost",
            "frames_doubled",
            "frames_late",
            "frames_damaged",
            "crashes",
        ]);
    }
}

/// The same packets, with no silence that is longer than this: servers are heard a thousand times a second.
fn without_silences(trace: &Trace) -> Trace {
    const LONGEST: u64 = 20_000_000;
    let mut hurried = Trace::new();
    let (mut before, mut now) = (None, 0);
    for packet in trace.iter() {
        let gap = before.map_or(packet.timestamp_ns, |before| {
            packet.timestamp_ns.saturating_sub(before).min(LONGEST)
        });
        (before, now) = (Some(packet.timestamp_ns), now + gap);
        hurried.push_on(packet.interface, now, packet.frame);
    }
    hurried
}

/// Servers and links on which anything happens that this seed draws.
fn faulty(seed: u64) -> Remote {
    Remote {
        seed,
        faults: Faults {
            has_few_buffers: false,
            ..Faults::drawn(seed)
        },
        is_v4: !seed.is_multiple_of(3),
        ..Remote::SOUND
    }
}

/// Frames to servers and back are lost, doubled, late and damaged, servers die, memory fails, and
/// somebody on the links sends NAKs of every kind: never a wrong payload.
#[test]
fn whatever_happens_on_the_links_no_payload_is_a_wrong_one() {
    let trace = crossing_traffic();
    let expected = expected(&trace);
    let (mut sum, mut seen) = (SplitCounts::default(), Tally::default());
    for seed in 0..96 {
        let what = format!("seed {seed}");
        let remote = faulty(seed);
        let split = match seed % 4 {
            0 => "header_slots = 8\nrequests = 12\nread_timeout = \"20ms\"\n",
            1 => "ring_payloads = 8\nread_timeout = \"2ms\"\n",
            2 => {
                "read_timeout = \"20ms\"\nback_off = { mode = \"proportional\", threshold_bps = 50000000, interval = \"5ms\" }\n"
            }
            _ => "threshold_bytes = 64\n",
        };
        let paths = [Paths::Both, Paths::Slow][seed as usize / 4 % 2];
        let service = split_service(split, remote.is_v4);
        let (found, tally) = run_with_servers(&service, &trace, paths, &remote);
        assert_counted(&expected, &found, &what);
        if paths == Paths::Both {
            assert_share(&found, LEAST_SHARE, &what);
            tell("generated", &found.report);
        }
        let split = figures(&found);
        println!("{what}: {:?}", split.counts);
        sum.add(&split.counts);
        seen.add(&tally);
        for server in &split.servers {
            server
                .counters
                .iter()
                .for_each(|(name, count)| seen.add_to(name, *count));
        }
    }
    println!("{sum:?}");
    assert!(sum.merged > 10_000 && sum.payload_lost > 0 && sum.whole_down > 0);
    seen.expect_some(&[
        "frames_lost",
        "frames_doubled",
        "frames_late",
        "frames_damaged",
        "crashes",
        "failures",
        "forged_answers",
        "forged_requests",
        "frames_moved",
        "frames_rewritten",
        "lost_mismatch",
        "naks_sequence",
        "naks_not_ready",
        "naks_invalid",
        "naks_access",
        "naks_operation",
        "bad_icrc",
        "incarnations",
        "lives",
    ]);
}

/// Links that carry more than they may: servers are left alone and used again, and no packet is lost by it, or
/// leaves in front of one that it was behind.
#[test]
fn busy_links_are_left_alone_and_used_again() {
    let trace = crossing_traffic();
    let expected = expected(&trace);
    let run = |back_off: &str, paths| {
        let service = split_service(back_off, true);
        let (found, _) = run_with_servers(&service, &trace, paths, &Remote::SOUND);
        assert_counted(&expected, &found, back_off);
        assert_eq!(counts(&found).lost(), 0, "{back_off}");
        found
    };
    let of_each = |outcome: &Outcome, counter: &str| {
        let servers = figures(outcome).servers.iter();
        let counts = servers.map(|server| server.counter(counter));
        counts.collect::<Vec<_>>()
    };
    let sum = |outcome: &Outcome, counter: &str| of_each(outcome, counter).iter().sum::<u64>();
    // A part of what the links carry, which is less where most packets never see the slow path.
    for (paths, threshold_bps) in [(Paths::Both, 2_000_000), (Paths::Slow, 8_000_000)] {
        let free = run("", paths);
        assert_eq!(sum(&free, "back_offs"), 0);
        for mode in ["on_off", "proportional"] {
            let back_off = format!(
                "back_off = {{ mode = \"{mode}\", threshold_bps = {threshold_bps}, interval = \"10ms\" }}\n"
            );
            let found = run(&back_off, paths);
            if paths == Paths::Both {
                assert_share(&found, LEAST_SHARE, mode);
                tell("generated", &found.report);
            }
            let (cuts, writes) = (sum(&found, "back_offs"), sum(&found, "writes"));
            println!(
                "{mode} {paths:?}: {cuts} cuts, {writes} writes, {:?}",
                counts(&found)
            );
            assert!(cuts > 4, "{mode}: {cuts}");
            let [before, after] = [&free, &found].map(|run| of_each(run, "writes"));
            assert_ne!(before, after, "{mode}: flows have moved");
            for server in &figures(&found).servers {
                assert!(server.counter("writes") > 40, "{mode}: {server:?}");
            }
            // One server always stays in the first mode; in the other all together take less.
            if mode == "proportional" {
                assert!(writes < sum(&free, "writes"), "{writes}");
                assert!(counts(&found).whole_no_server > 20);
            }
        }
    }
}

/// A server dies, and is started again much later: what is lost then is lost within a moment, packets go
/// on, and payloads go to the server again when it is back.
#[test]
fn a_server_that_dies_costs_a_moment() {
    let trace = generate(
        &traffic(
            "packets = 20000\nflows = 100\narrivals = { process = \"constant\", rate_pps = 50000.0 }\npacket_size = { kind = \"fixed\", frame_bytes = 600 }\n",
        ),
        3,
    );
    let expected = expected(&trace);
    // With a card's times, and with those for servers in software: well within the paper's second.
    const QUICK: &str = "read_timeout = \"20ms\"\n";
    let on_off = format!("{QUICK}back_off = {{ mode = \"on_off\" }}\n");
    for (split, revived, within) in [(QUICK, 250, 30), (on_off.as_str(), 250, 30), ("", 350, 230)] {
        let killed = Duration::from_millis(100);
        let [revived, within] = [revived, within].map(Duration::from_millis);
        let remote = Remote {
            acts: vec![(killed, Act::Kill(0)), (revived, Act::Revive(0))],
            ..Remote::SOUND
        };
        let service = split_service(split, true);
        let (found, tally) = run_with_servers(&service, &trace, Paths::Slow, &remote);
        assert_counted(&expected, &found, split);
        let split = figures(&found);
        println!("{:?}", split.counts);
        assert_eq!(tally.of("crashes"), 1);
        // At most what that time and the window let through.
        let lost = split.counts.lost();
        assert!(lost > 0 && lost < 1500, "{lost}");
        assert_lost_only_between(&trace, &found, killed, within);
        assert!(split.servers.iter().all(|server| server.is_up));
        let error = split.servers[0].last_error.as_deref().unwrap_or_default();
        assert!(
            error.contains("queue pair") && error.contains("does not answer"),
            "{error}"
        );
        // Both lives of the server, and of each queue pair.
        assert_eq!(split.servers[0].counter("incarnations"), 2);
        assert!(
            split.servers[0]
                .queue_pairs
                .iter()
                .all(|pair| pair.lives == 2)
        );
    }
}

/// Packets are constant in rate and none is dropped by functions, so each window of time has as many that
/// leave as come, but for one.
fn assert_lost_only_between(trace: &Trace, found: &Outcome, from: Duration, within: Duration) {
    const WINDOW_NS: u64 = 10_000_000;
    let began = trace.iter().next().expect("packets").timestamp_ns;
    let window = |at: u64| ((at - began) / WINDOW_NS) as usize;
    let windows = window(trace.iter().last().expect("packets").timestamp_ns) + 2;
    let mut left = vec![0u64; windows];
    found
        .packets
        .iter()
        .for_each(|(at, _)| left[window(*at).min(windows - 1)] += 1);
    let usual = WINDOW_NS * 50_000 / 1_000_000_000;
    let first = window(began + from.as_nanos() as u64);
    let last = window(began + (from + within).as_nanos() as u64);
    let short = |number: &usize| left[*number] + usual / 10 < usual;
    let short: Vec<_> = (1..windows - 2).filter(short).collect();
    let is_inside = |number: &usize| (first..=last).contains(number);
    assert!(short.iter().all(is_inside), "{short:?}: {left:?}");
}

/// What is wrong with the only server.
struct Wrong {
    what: &'static str,
    /// What a service says of it beside the rest.
    said: &'static str,
    acts: Vec<(Duration, Act)>,
    /// What its last error says; `#` stands for a queue pair.
    error: &'static str,
    /// The most packets that it costs.
    most_lost: u64,
}

/// Each error says whom it is about: the queue pair, or those that wait in vain, of the server that has it.
/// Packets go on unsplit and are counted, all but a few.
#[test]
fn an_error_names_server_and_queue_pair() {
    // Nobody is told of as silent before three seconds have passed.
    let trace = generate(
        &traffic(
            "packets = 80000\nflows = 100\narrivals = { process = \"constant\", rate_pps = 20000.0 }\npacket_size = { kind = \"fixed\", frame_bytes = 600 }\n",
        ),
        3,
    );
    let expected = expected(&trace);
    let soon = Duration::from_millis(100);
    let wrong = [
        Wrong {
            what: "a wrong address",
            said: "address = \"10.9.1.77\"\n",
            acts: Vec::new(),
            error: "its announcement is of no use to queue pairs 0 to 3: it is at 10.9.",
            most_lost: 0,
        },
        Wrong {
            what: "nobody there",
            said: "",
            acts: vec![(Duration::ZERO, Act::Kill(0))],
            error: "it has not announced itself to queue pairs 0 to 3: expected a memory server",
            most_lost: 0,
        },
        Wrong {
            what: "a server that dies",
            said: "",
            acts: vec![(soon, Act::Kill(0))],
            error: "queue pair # is down: the server does not answer",
            most_lost: 450,
        },
        Wrong {
            what: "a key that does not fit",
            said: "",
            acts: vec![(soon, Act::Withdraw(0))],
            error: "queue pair # is down: the key or the address does not fit the server's memory",
            most_lost: 100,
        },
    ];
    for wrong in wrong {
        one_wrong_server(&wrong, &trace, &expected);
    }
}

fn one_wrong_server(wrong: &Wrong, trace: &Trace, expected: &Outcome) {
    let what = wrong.what;
    let servers = servers(true);
    let (server, _) = servers[1..].split_once("[[").expect("two servers");
    // What comes within that time may be lost.
    let times = "read_timeout = \"20ms\"\n";
    let split = format!("[split]\nqueue_pairs = 4\n{times}[{server}{}", wrong.said);
    let service = service_with_servers(&text(), &split);
    let remote = Remote {
        acts: wrong.acts.clone(),
        ..Remote::SOUND
    };
    let (found, _) = run_with_servers(&service, trace, Paths::Slow, &remote);
    assert_counted(expected, &found, what);
    let [server] = &figures(&found).servers[..] else {
        panic!("one server");
    };
    let counts = counts(&found);
    println!("{what}: {counts:?}\n{:?}", server.last_error);
    assert_eq!(server.name, "memory-1");
    let error = server.last_error.as_deref().unwrap_or_default();
    let told = (0..4).map(|number| wrong.error.replace('#', &number.to_string()));
    let is_told = told.into_iter().any(|told| error.starts_with(&told));
    assert!(is_told, "{what}: {error:?}");
    assert!(counts.lost() <= wrong.most_lost, "{what}: {counts:?}");
    let whole = counts.whole_no_server + counts.whole_down;
    assert!(whole > 50_000, "{what}: {counts:?}");
    assert_eq!(
        whole + counts.whole_small + counts.packets,
        80_000,
        "{what}"
    );
}

/// Nobody at the other end, or somebody else: packets go on unsplit, and an error says whom it is
/// about.
#[test]
fn without_servers_packets_go_on_whole() {
    let trace = crossing_traffic();
    let expected = expected(&trace);
    let dead = Remote {
        acts: vec![
            (Duration::ZERO, Act::Kill(0)),
            (Duration::ZERO, Act::Kill(1)),
        ],
        ..Remote::SOUND
    };
    let service = split_service("", true);
    let (found, _) = run_with_servers(&service, &trace, Paths::Slow, &dead);
    assert_same(
        &by_direction(&expected.flows),
        &by_direction(&found.flows),
        "no server",
    );
    let split = figures(&found);
    assert_eq!((split.counts.packets, split.servers_up()), (0, 0));
    assert!(split.counts.whole_no_server > 0);

    let elsewhere = servers(true).replace(
        "device = \"eth1\"",
        "address = \"10.9.1.77\"\ndevice = \"eth1\"",
    );
    let split = format!("[split]\nqueue_pairs = 4\n{elsewhere}");
    let service = service_with_servers(&text(), &split);
    let (found, _) = run_with_servers(&service, &trace, Paths::Slow, &Remote::SOUND);
    assert_counted(&expected, &found, "another address");
    let split = figures(&found);
    assert_eq!(
        (split.servers[0].is_up, split.servers[1].is_up),
        (false, true)
    );
    let error = split.servers[0].last_error.as_deref().unwrap_or_default();
    assert!(
        error.contains(", and the service expects 10.9.1.77"),
        "{error}"
    );
    assert!(
        split.counts.merged > 100,
        "the other server takes all flows"
    );
}

/// Who sends what in [`nobody_waits_but_for_their_own_flow`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Sent {
    /// Long packets of a flow, whose payloads go to servers.
    Long,
    /// A datagram of the same flow in two fragments, which go whole.
    Fragment,
    /// What the other end sends.
    Acknowledgement,
    /// Another flow between the same hosts.
    Other,
}

/// Packets with their numbers in front of their payloads, a hundred microseconds between those of a kind.
fn two_ways() -> (Trace, Vec<Sent>) {
    let end = |text: &str| text.parse::<Endpoint>().expect("an endpoint");
    let (near, far) = (end("10.0.0.1:1000"), end("192.0.2.1:80"));
    let (mut trace, mut kinds) = (Trace::new(), Vec::new());
    let mut send = |micros: u64, kind: Sent, builder: PacketBuilder<'_>, bytes: usize| {
        let mut payload = vec![0; bytes];
        payload[..4].copy_from_slice(&(kinds.len() as u32).to_be_bytes());
        let packet = builder.payload(&payload).to_vec().expect("it fits");
        trace.push(1_000_000_000 + 1000 * micros, &packet);
        kinds.push(kind);
    };
    for round in 0..700u64 {
        let at = 100 * round;
        let flow = || PacketBuilder::udp(near, far).identification(round as u32);
        send(at, Sent::Long, flow(), 600);
        if round % 5 == 0 {
            send(at + 10, Sent::Fragment, flow().fragment(0, true), 16);
            send(at + 20, Sent::Fragment, flow().fragment(24, false), 16);
        }
        let back = PacketBuilder::udp(far, near);
        send(at + 30, Sent::Acknowledgement, back, 4);
        let other = PacketBuilder::udp(end("10.0.0.1:1001"), far);
        send(at + 60, Sent::Other, other, 4);
    }
    (trace, kinds)
}

/// The number that a packet has in front of its payload.
fn number(packet: &[u8]) -> usize {
    let layout = dissect(packet).expect("a packet");
    let payload = &packet[usize::from(layout.payload)..];
    u32::from_be_bytes(*payload.first_chunk().expect("a number")) as usize
}

/// Both servers die, so that payloads of a flow come late or not at all. Its own packets wait for them,
/// fragments too; what the other end sends, and other flows, wait for nothing.
#[test]
fn nobody_waits_but_for_their_own_flow() {
    let (trace, kinds) = two_ways();
    let died = Duration::from_millis(40);
    let remote = Remote {
        acts: vec![(died, Act::Kill(0)), (died, Act::Kill(1))],
        is_causal: false,
        ..Remote::SOUND
    };
    let text = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";
    let split = format!("[split]\nqueue_pairs = 4\n{}", servers(true));
    let service = service_with_servers(text, &split);
    let (found, _) = run_with_servers(&service, &trace, Paths::Slow, &remote);
    println!("{:?}", counts(&found));
    // What was under way is lost, and the rest travels whole as soon as nothing comes.
    assert!(counts(&found).payload_lost > 5 && counts(&found).followers > 10);
    assert!(counts(&found).whole_window > 100);
    let left: Vec<usize> = found
        .packets
        .iter()
        .map(|(_, packet)| number(packet))
        .collect();
    let of = |wanted: &[Sent]| {
        let left = left.iter().copied();
        left.filter(|&number| wanted.contains(&kinds[number]))
            .collect::<Vec<_>>()
    };
    for kinds in [
        &[Sent::Long, Sent::Fragment][..],
        &[Sent::Acknowledgement],
        &[Sent::Other],
    ] {
        let numbers = of(kinds);
        assert!(numbers.is_sorted(), "{kinds:?} are out of order");
    }
    // Among those that wait for nothing the order is that of arrival.
    let free = of(&[Sent::Acknowledgement, Sent::Other]);
    let waited = free.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert_eq!((waited, free.len()), (0, 1400));
    assert_eq!(of(&[Sent::Fragment]).len(), 280, "nothing whole is lost");
}
