//! A service over several shards puts out what one node does with everything on the slow path: over
//! captures and generated traffic, byte for byte per flow; behind a translation up to a renaming of
//! the ports that it gives out.

use crate::common::acting::{Settled, decisions};
use crate::common::derived::{Capture, answered_through, by_entry, profiled};
use crate::common::headers_only::{crossing_traffic, firewall};
use crate::common::memory_servers::{Remote, run_with_servers, servers, service_with_servers};
use crate::common::rows::tell;
use crate::common::sharded::{run_shards, spread};
use crate::common::trial::assert_rules_settle;
use crate::common::{
    Flows, Outcome, assert_same, assert_same_but_for_names, balanced_traffic, by_direction,
    generate, run, service, tcp_traffic, traffic,
};
use std::collections::{BTreeMap, BTreeSet};
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_io::Trace;
use twinpath_nf::shard::Shard;
use twinpath_node::shards::{Partition, share};

const COUNTS: [u16; 3] = [1, 2, 4];

/// Where packets come from that are in no capture.
const GENERATED: &str = "generated";

/// What a comparison has shown.
struct Compared {
    /// What one node with everything on the slow path did.
    slow: Outcome,
    /// The least share of the fast path in any run.
    share: f64,
    /// What it settled in all runs.
    settled: Settled,
    /// Runs in which two shards, at least, had packets.
    shared: usize,
}

/// Both paths of so many shards put out what the slow path of one node does, and each shard has had
/// its part.
fn compare(from: &str, service: &Service, trace: &Trace, is_spread: bool) -> Compared {
    let chain: Vec<_> = service.chain.iter().map(|one| &*one.name).collect();
    let slow = run(service, trace, Paths::Slow, Execution::Virtual);
    let expected = by_direction(&slow.flows);
    let (mut share, mut settled, mut shared) = (1.0f64, Settled::default(), 0);
    for shards in COUNTS {
        for execution in [Execution::Virtual, Execution::Threads] {
            let named = format!("{from}, {chain:?}, {shards} shards, {execution:?}");
            let spread = run_shards(&spread(service, shards, execution), trace);
            assert_same(&expected, &by_direction(&spread.outcome.flows), &named);
            let arrived: u64 = spread.arrived.iter().sum();
            assert_eq!(arrived, trace.len() as u64, "{named}: none twice");
            if is_spread {
                let least = trace.len() as u64 / u64::from(shards) / 4;
                let have_all = spread.arrived.iter().all(|&count| count >= least);
                assert!(have_all, "{named}: {:?}", spread.arrived);
            }
            for functions in [&slow.report.functions, &spread.outcome.report.functions] {
                let acted = functions
                    .iter()
                    .all(|one| one.counters.values().any(|&n| n > 0));
                assert!(acted || !is_spread, "{named}: {functions:?}");
            }
            println!("{named}: {:?}", spread.arrived);
            tell(from, &spread.outcome.report);
            share = share.min(spread.outcome.report.fast.share);
            settled.add(&spread.outcome.report);
            let used = spread.arrived.iter().filter(|&&count| count > 0);
            shared += usize::from(used.count() >= 2);
        }
    }
    Compared {
        slow,
        share,
        settled,
        shared,
    }
}

#[test]
fn flow_state_over_generated_traffic() {
    let text = "[service]\nchain = [\"firewall\", \"reassembler\"]\n\
        [firewall]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"udp\", to_port = \"0-30000\" }]\n";
    let Compared { share, .. } =
        compare(GENERATED, &service(text), &tcp_traffic(0.05, 20_000), true);
    assert!(share > 0.2, "{share}");
}

#[test]
fn a_balancer_whose_servers_answer() {
    let balancer = "[load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [\
        { endpoint = \"10.254.0.1:8080\" }, { endpoint = \"10.254.0.2:8080\", weight = 3 }] }]\n";
    let text = format!("[service]\nchain = [\"load_balancer\"]\n{balancer}");
    let trace = balanced_traffic(balancer, 10_000);
    let Compared { share, .. } = compare(GENERATED, &service(&text), &trace, true);
    assert!(share > 0.2, "{share}");
}

/// A store answers each key's requests in order.
#[test]
fn a_store_by_its_keys() {
    let stored = service("[service]\nchain = [\"kv_store\"]\n");
    let trace = generate(
        &traffic(
            "packets = 10000\nflows = 10\nkv = { share = 1.0, get_share = 0.8, keys = 200 }\narrivals = { process = \"constant\", rate_pps = 100000.0 }\n",
        ),
        3,
    );
    let slow = run(&stored, &trace, Paths::Slow, Execution::Virtual);
    for shards in COUNTS {
        let both = run_shards(&spread(&stored, shards, Execution::Threads), &trace);
        let named = format!("{shards} shards");
        assert_same(&by_entry(&slow), &by_entry(&both.outcome), &named);
        assert!(
            both.arrived.iter().all(|&count| count > 1000),
            "{:?}",
            both.arrived
        );
        let report = both.outcome.report;
        tell("generated keys and values", &report);
        assert!(report.fast.share > 0.2, "{named}: {}", report.fast.share);
    }
}

/// Fragments and errors have the shard of the connection that they belong to, over both versions.
#[test]
fn rules_and_flow_state_over_both_versions() {
    let text = "[service]\nchain = [\"acl\", \"firewall\", \"monitor\"]\ninside = [\"10.0.0.0/9\", \"fd00::/16\"]\n\
        [acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"tcp\", to_port = 23 }]\n\
        [firewall]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"udp\", to_port = \"0-9000\" }]\n\
        [fast_path]\nhot_packets = 1\n[rule_cache]\nwindow = \"1ms\"\nthreshold = 0\nidle_windows = 255\n";
    let trace = generate(
        &traffic(
            "packets = 20000\nflows = 300\nhosts = { ipv6_share = 0.4 }\nfragment_share = 0.02\nicmp_error_share = 0.01\n\
             tcp_share = 0.7\narrivals = { process = \"constant\", rate_pps = 100000.0 }\n",
        ),
        5,
    );
    let Compared { share, .. } = compare(GENERATED, &service(text), &trace, true);
    assert!(share > 0.2, "{share}");
}

#[test]
fn chains_over_captures() {
    let chain = ["acl", "firewall", "reassembler", "router"];
    let (mut acted, mut settled, mut shared) = (BTreeMap::new(), Settled::default(), 0);
    for capture in profiled().iter().filter(|one| one.trace.len() <= 5000) {
        let functions = capture.functions_of(&chain);
        let derived = capture.profile.service_of(functions);
        let service = capture.service("shards", &derived);
        let compared = compare(&capture.name, &service, &capture.trace, false);
        for instance in &service.chain {
            let name = instance.config.descriptor().name;
            *acted.entry(name).or_insert(0) += decisions(&service, &compared.slow, &instance.name);
        }
        settled.absorb(&compared.settled);
        shared += compared.shared;
    }
    println!("{acted:?}, {shared} runs over several shards");
    if !profiled().is_empty() {
        assert!(shared > 0 && !acted.is_empty());
        settled.assert_share(0.38, "captures");
    }
    assert!(acted.values().all(|count| *count > 0), "{acted:?}");
}

/// What the servers of a capture answer to what a translation over so many shards sends them.
fn answered(service: &Service, trace: &Trace, shards: u16) -> Trace {
    let partition = Partition::of(service, shards).expect("no files");
    let mut all = Vec::new();
    for shard in Shard::all(shards) {
        let mut own = Trace::new();
        let frames = trace
            .iter()
            .filter(|frame| partition.shard(frame.frame) == shard.number);
        frames.for_each(|frame| own.push(frame.timestamp_ns, frame.frame));
        let answered = answered_through(&share(service, shard).expect("enough"), &own);
        for frame in answered.iter() {
            let found = partition.shard(frame.frame);
            assert_eq!(found, shard.number, "an answer belongs to whom it answers");
            all.push((frame.timestamp_ns, frame.frame.to_vec()));
        }
    }
    all.sort_by_key(|(at, _)| *at);
    let mut merged = Trace::new();
    all.iter().for_each(|(at, packet)| merged.push(*at, packet));
    merged
}

/// The capture behind its derived translation, over several shards, is what one node makes of it but
/// for the ports that were given out; and both paths are what the slow path alone is.
fn translate(capture: &Capture, service: &Service) -> Translated {
    let fresh = &capture.profile.fresh;
    let external = format!("{} {}", fresh.v4, fresh.v6);
    let one = run(
        service,
        &answered(service, &capture.trace, 1),
        Paths::Slow,
        Execution::Virtual,
    );
    let mut translated = Translated::default();
    for shards in [2, 4] {
        let trace = answered(service, &capture.trace, shards);
        let mut spread_service = spread(service, shards, Execution::Threads);
        let both = run_shards(&spread_service, &trace);
        spread_service.run.paths = Paths::Slow;
        let slow = run_shards(&spread_service, &trace);
        let named = format!("{} over {shards} shards", capture.name);
        let (expected, found) = (
            by_direction(&slow.outcome.flows),
            by_direction(&both.outcome.flows),
        );
        assert_same(&expected, &found, &named);
        assert_same_but_for_names(&one, &both.outcome, &external, &named);
        translated.is_renamed |= by_direction(&one.flows) != found;
        translated.is_asked |= assert_rules_settle(capture, &both.outcome);
        println!("{named}: {:?}", both.arrived);
        tell(&capture.name, &both.outcome.report);
    }
    translated
}

/// What was seen of a capture behind its translation.
#[derive(Default)]
struct Translated {
    /// Ports are others than those of one node.
    is_renamed: bool,
    /// A share was asked of the fast path.
    is_asked: bool,
}

#[test]
fn translations_over_captures() {
    let (mut renamed, mut asked) = (0, 0);
    for capture in profiled().iter().filter(|one| one.trace.len() <= 5000) {
        let Ok(function) = capture.profile.napt() else {
            continue;
        };
        let derived = capture.profile.service_of(vec![function]);
        let service = capture.service("translated by shards", &derived);
        let translated = translate(capture, &service);
        renamed += usize::from(translated.is_renamed);
        asked += usize::from(translated.is_asked);
    }
    println!("{renamed} captures had other ports, of {asked} a share was asked");
    assert!(profiled().is_empty() || renamed >= 3 && asked >= 5);
}

/// A host inside asks a balanced service through a translation: what a server answers comes to the shard
/// that has the host's binding and the connection.
#[test]
fn answers_to_translated_clients_of_a_balancer_come_to_their_shards() {
    let text = "[service]\nchain = [\"napt\", \"load_balancer\"]\ninside = [\"10.0.0.0/8\"]\n\
        [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\nports = \"2000-9999\"\n\
        [load_balancer]\nservices = [{ vip = \"198.51.100.1:80\", protocol = \"tcp\", backends = [{ endpoint = \"198.51.100.9:8080\" }] }]\n";
    let partition = Partition::of(&service(text), 8).expect("no files");
    let shard = |from: Endpoint, port| {
        let packet = PacketBuilder::tcp(from, Endpoint::v4([192, 0, 2, 1], port));
        partition.shard(&packet.to_vec().expect("short"))
    };
    let mut met = BTreeSet::new();
    for port in 2000..10_000 {
        // Whoever answers, the port's owner is one.
        let owner = shard(Endpoint::v4([8, 8, 8, 8], 53), port);
        let answered = shard(Endpoint::v4([198, 51, 100, 9], 8080), port);
        assert_eq!(answered, owner, "port {port}");
        met.insert(owner);
    }
    assert_eq!(met.len(), 8, "all shards have ports");
}

/// Payloads wait in memory of each shard.
#[test]
fn split_packets() {
    let text = format!("{}[split]\n", firewall());
    let (service, trace) = (service(&text), crossing_traffic());
    compare(GENERATED, &service, &trace, true);
    for shards in COUNTS {
        let mut service = spread(&service, shards, Execution::Threads);
        service.run.paths = Paths::Slow;
        let split = run_shards(&service, &trace).outcome.report.split;
        let counts = split.expect("with [split]").counts;
        assert!(counts.merged > 1000 && counts.lost() == 0, "{counts:?}");
    }
}

/// They wait on memory servers that all shards use: each has queue pairs of its own there, of which the
/// servers have four, and what leaves is what one node with everything on the slow path puts out.
#[test]
fn memory_servers_are_requested_from_by_every_shard() {
    let trace = crossing_traffic();
    let expected = run(
        &service(&firewall()),
        &trace,
        Paths::Slow,
        Execution::Virtual,
    );
    let split = format!("[split]\nqueue_pairs = 4\n{}", servers(true));
    for shards in [1, 2, 4] {
        let whole = spread(
            &service_with_servers(&firewall(), &split),
            shards,
            Execution::Virtual,
        );
        let partition = Partition::of(&whole, shards).expect("no files");
        for paths in [Paths::Both, Paths::Slow] {
            let mut flows = Flows::default();
            for shard in Shard::all(shards) {
                let mut own = Trace::new();
                let is_own = |bytes: &[u8]| partition.shard(bytes) == shard.number;
                let frames = trace.iter().filter(|frame| is_own(frame.frame));
                frames.for_each(|frame| own.push(frame.timestamp_ns, frame.frame));
                let service = share(&whole, shard).expect("enough");
                let (found, _) = run_with_servers(&service, &own, paths, &Remote::SOUND);
                flows.extend(found.flows);
                let split = found.report.split.expect("with [split]");
                let counts = split.counts;
                assert!(counts.merged > 20 && counts.lost() == 0, "{counts:?}");
                // Before queue pairs begin their lives.
                assert!(counts.whole_down < 30, "{counts:?}");
                for server in &split.servers {
                    let up = server.queue_pairs.iter().filter(|pair| pair.is_up);
                    let numbers: Vec<_> = up.map(|pair| pair.number).collect();
                    let own = (shard.number..4).step_by(shards.into());
                    assert_eq!(numbers, own.collect::<Vec<_>>(), "{shard:?}");
                    assert!(server.counter("payloads") > 0, "{shard:?}");
                }
            }
            let named = format!("{shards} shards, {paths:?}");
            assert_same(
                &by_direction(&expected.flows),
                &by_direction(&flows),
                &named,
            );
        }
    }
}
