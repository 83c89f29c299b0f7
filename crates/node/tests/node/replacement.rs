//! A chain is replaced while packets flow: nothing is lost or overtaken, and once the change is
//! acknowledged no packet meets an old decision.

use crate::common::rows::tell;
use crate::common::{
    OneWayFlows, by_direction, by_flow, generate, reported, run, service, traffic, undrawn_flows,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::live::Live;
use twinpath_control::service::{Execution, Pace, Paths, Service};
use twinpath_core::Instant;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_io::{CaptureError, Trace};
use twinpath_node::command::{ChangeResult, Command, Commands};
use twinpath_node::machine::WorkerCommand;
use twinpath_node::observe::Observer;
use twinpath_node::replacement::{ReplaceError, Replacement};
use twinpath_node::run::drive;
use twinpath_node::sink::Sink;
use twinpath_node::source::Source;
use twinpath_node::{Departure, Node, Output, Ports, Via, build};

const CACHE: &str = "[rule_cache]\nwindow = \"20ms\"\nthreshold = 0\n";
const NAPT: &str = "[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n";
const GAP: &str = "[reassembler]\ngap_timeout = \"20ms\"\n";
const MONITOR: &str = "[monitor]\nby = \"hosts\"\n";

/// A chain with a list that denies some of the hosts.
fn text(chain: &[&str], denied: &str) -> String {
    let mut text = format!("[service]\nchain = {chain:?}\n{CACHE}");
    for (name, table) in [("napt", NAPT), ("monitor", MONITOR)] {
        if chain.contains(&name) {
            text.push_str(table);
        }
    }
    text + &format!(
        "[acl]\ndefault = \"allow\"\nrules = [{{ action = \"deny\", from = \"{denied}\" }}]\n"
    )
}

fn packets(count: u64) -> Trace {
    generate(
        &traffic(&format!(
            "packets = {count}\nflows = 100\nchurn_per_minute = 600.0\n\
             arrivals = {{ process = \"poisson\", rate_pps = 20000.0 }}\ntcp_share = 0.5\nserver_packets = false\n"
        )),
        3,
    )
}

/// Keeps what leaves; asks for the change when so many have left, and remembers how many had left
/// when it was acknowledged.
struct Changing {
    left: Vec<Vec<u8>>,
    /// Of each, whether it went without the slow path.
    is_fast: Vec<bool>,
    at: usize,
    commands: mpsc::Sender<Command>,
    change: Option<Box<Replacement>>,
    answer: Option<mpsc::Receiver<ChangeResult>>,
    acknowledged: Option<usize>,
}

impl Sink for Changing {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        if let Some(answer) = &self.answer
            && let Ok(replaced) = answer.try_recv()
        {
            assert!(replaced.is_ok(), "no packet waits here");
            (self.answer, self.acknowledged) = (None, Some(self.left.len()));
        }
        if self.left.len() == self.at {
            let (sender, receiver) = mpsc::channel();
            let change = self.change.take().expect("asked for once");
            let sent = self.commands.send(Command::Replace(change, sender));
            assert!(sent.is_ok(), "the run goes on");
            self.answer = Some(receiver);
        }
        self.is_fast.push(departure.via == Via::Fast);
        self.left.push(departure.frame.bytes().to_vec());
        Ok(())
    }
}

/// Runs one service that becomes another when so many packets have left. Returns what left, and
/// how much of it before the change was acknowledged. The fast path must have done its part before it and
/// after.
pub fn run_changing(
    old: &Service,
    new: &Service,
    trace: Trace,
    at: usize,
) -> (Vec<Vec<u8>>, usize) {
    let sink = run_on(Execution::Threads, old, new, trace, at);
    let before = sink.acknowledged.expect("the change is acknowledged");
    let (old, new) = sink.is_fast.split_at(before);
    for (when, is_fast) in [("before", old), ("after", new)] {
        let share = is_fast.iter().filter(|fast| **fast).count() as f64 / is_fast.len() as f64;
        println!("{:.1} % on the fast path {when} the change", 100.0 * share);
        assert!(share > 0.4, "{share} on the fast path {when} the change");
    }
    (sink.left, before)
}

fn run_on(execution: Execution, old: &Service, new: &Service, trace: Trace, at: usize) -> Changing {
    let mut node = build(old, Paths::Both).expect("sound");
    let (commands, received): (_, Commands) = mpsc::channel();
    let change = Replacement::between(old, new).expect("the chain alone differs");
    let mut sink = Changing {
        left: Vec::new(),
        is_fast: Vec::new(),
        at,
        commands,
        change: Some(Box::new(change)),
        answer: None,
        acknowledged: None,
    };
    let (ports, mut source) = (Ports::default(), Source::trace(trace));
    let mut observer = Observer::new(Live::hidden());
    let mut old = old.clone();
    (old.run.execution, old.run.pace) = (execution, Some(Pace::Lossless));
    let stopped = AtomicBool::new(false);
    let (source, sink_) = (&mut source, &mut sink);
    let run = drive(
        &old,
        &ports,
        &mut node,
        source,
        sink_,
        &mut observer,
        &received,
        &stopped,
    );
    run.expect("memory never fails");
    tell("generated", &reported(observer, &node));
    sink
}

/// What leaves a service alone.
fn alone(service: &Service, trace: &Trace) -> OneWayFlows {
    by_direction(&run(service, trace, Paths::Slow, Execution::Virtual).flows)
}

/// Every flow's packets are first as in the old service, then as in the new one, in order, and
/// none is missing in between.
fn assert_changes_once(old: &OneWayFlows, new: &OneWayFlows, found: &OneWayFlows) {
    let none = Vec::new();
    let (mut only_old, mut only_new) = (0, 0);
    for key in old.keys().chain(new.keys()) {
        let of = |flows: &OneWayFlows| flows.get(key).unwrap_or(&none).clone();
        let (before, after, found) = (of(old), of(new), of(found));
        match (before.is_empty(), after.is_empty()) {
            (false, false) => {
                assert_eq!(before, after, "the list alone differs");
                assert_eq!(found, before, "{key:?}");
            }
            (false, true) => {
                only_old += found.len();
                assert!(before.starts_with(&found), "{key:?}");
            }
            _ => {
                only_new += found.len();
                assert!(after.ends_with(&found), "{key:?}");
            }
        }
    }
    assert!(only_old > 0 && only_new > 0, "{only_old}, {only_new}");
}

#[test]
fn a_list_changes_in_mid_traffic() {
    for chain in [&["acl"][..], &["acl", "napt", "monitor"]] {
        let old = service(&text(chain, "10.0.0.0/25"));
        let new = service(&text(chain, "10.0.0.128/25"));
        let trace = packets(12_000);
        let (left, before) = run_changing(&old, &new, crate::common::copy(&trace), 3_000);
        let (old, new) = (alone(&old, &trace), alone(&new, &trace));
        if chain.len() == 1 {
            assert_changes_once(&old, &new, &by_direction(&by_flow(left.clone())));
        }
        let late = by_direction(&by_flow(left[before..].to_vec()));
        let is_allowed = |key| new.contains_key(key) || chain.len() > 1;
        assert!(late.keys().all(is_allowed), "an old decision was applied");
        assert!(before < left.len() - 1_000, "the change came in time");
    }
}

/// An element that stays keeps its rules and counts; one that is made anew has to count for a
/// window before it caches again.
#[test]
fn an_element_that_stays_keeps_its_rules() {
    const AT: usize = 6_500;
    let cache = "[rule_cache]\nwindow = \"100ms\"\nthreshold = 2\n";
    let text = |chain: &[&str], denied| text(chain, denied).replace(CACHE, cache);
    let old = service(&text(&["acl", "monitor"], "192.0.2.0/24"));
    let slow_after = |new: &Service| {
        let sink = run_on(Execution::Virtual, &old, new, packets(12_000), AT);
        let after = &sink.is_fast[AT + 1..AT + 1_000];
        after.iter().filter(|&&is_fast| !is_fast).count()
    };
    let stays = slow_after(&old);
    let swaps = slow_after(&service(&text(&["monitor", "acl"], "192.0.2.0/24")));
    println!("of 999 packets after a change on the slow path: {stays}, {swaps}");
    assert!(stays < 100 && swaps > 900);
}

/// An address translation keeps its bindings when a function beside it changes or joins.
#[test]
fn what_stays_goes_on_with_what_it_knows() {
    let trace = packets(8_000);
    let old = service(&text(&["acl", "napt"], "192.0.2.0/24"));
    let new = service(&text(&["monitor", "acl", "napt"], "192.0.2.0/25"));
    let (left, _) = run_changing(&old, &new, crate::common::copy(&trace), 3_000);
    let left = by_direction(&undrawn_flows(&old, left));
    assert_eq!(left, alone(&old, &trace));
}

/// Connections stay where they are when a backend joins; new ones use it.
#[test]
fn a_backend_joins() {
    let text = |backends: &str| {
        format!(
            "[service]\nchain = [\"acl\", \"load_balancer\"]\n{CACHE}[acl]\ndefault = \"allow\"\n\
             [load_balancer]\nservices = [{{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [{backends}] }}]\n"
        )
    };
    let one = "{ endpoint = \"10.254.0.1:8080\" }";
    let two = format!("{one}, {{ endpoint = \"10.254.0.2:8080\", weight = 50 }}");
    let (old, new) = (service(&text(one)), service(&text(&two)));
    let trace = generate(
        &traffic(
            "packets = 12000\nflows = 100\nchurn_per_minute = 6000.0\n\
             arrivals = { process = \"poisson\", rate_pps = 20000.0 }\nserver_packets = false\n\
             hosts = { services = [{ address = \"10.255.0.1\", port = 80, protocol = \"tcp\" }] }\n",
        ),
        5,
    );
    let (left, _) = run_changing(&old, &new, trace, 3_000);
    assert_eq!(left.len(), 12_000);
    let mut backends: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for packet in &left {
        let layout = dissect(packet).expect("generated");
        let client = fields::source(packet, &layout);
        let backend = fields::destination(packet, &layout);
        backends.entry(client).or_default().insert(backend);
    }
    assert!(backends.values().all(|backends| backends.len() == 1));
    let used: BTreeSet<_> = backends.values().flatten().collect();
    assert_eq!(used.len(), 2, "the newcomer has connections");
}

#[test]
fn what_cannot_change_is_refused() {
    let old =
        "[service]\nchain = [\"firewall\", \"acl\"]\n[firewall]\ndefault = \"allow\"\n[acl]\n";
    let refusal = |new: &str| {
        let (old, new) = (service(old), service(new));
        match Replacement::between(&old, &new) {
            Ok(_) => panic!("it is refused"),
            Err(error) => error,
        }
    };
    let slots = refusal(&format!("{old}[fast_path]\nslots = 7\n"));
    assert!(matches!(slots, ReplaceError::Settings("fast_path")));
    let seed = refusal(&old.replacen("[service]", "[service]\nseed = 9", 1));
    assert!(matches!(seed, ReplaceError::Seed));
}

/// What a file says may have changed although its name has not.
#[test]
fn routes_in_a_file_are_read_again() {
    let folder = std::env::temp_dir().join(format!("twinpath-routes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = "[service]\nchain = [\"router\"]\n[router]\nroutes_file = \"routes\"\n\
        next_hops = [{ name = \"up\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = 1 }]\n";
    let parse = |routes: &str| {
        std::fs::write(folder.join("routes"), routes).expect("a file");
        Service::parse(text, &folder.join("edge.toml"))
    };
    let one = parse("0.0.0.0/0 up\n").expect("sound");
    let same = parse("# the same\n0.0.0.0/0 up\n").expect("sound");
    let other = parse("0.0.0.0/0 up\n10.0.0.0/8 discard\n").expect("sound");
    let change = |to: &Service| Replacement::between(&one, to);
    assert!(change(&same).expect("sound").is_empty());
    assert_eq!(change(&other).expect("sound").applied.changed, ["router"]);
    let refused = parse("0.0.0.0/0 nobody\n")
        .expect_err("nobody is no next hop")
        .to_string();
    assert!(
        refused.contains("routes:1: \"nobody\" is no next hop"),
        "{refused}"
    );
    std::fs::remove_dir_all(&folder).expect("ours");
}

/// Services are compared by what they say, not by how it is written.
#[test]
fn the_same_in_other_words_is_no_change() {
    let one = "[service]\nchain = [\"acl\", \"napt\", \"firewall\", \"load_balancer\"]\n\
        [acl]\ndefault = \"deny\"\nrules = [{ action = \"allow\", from = \"any\", to_port = \"80\" }]\n\
        [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\ntimeouts = { udp = \"2m\" }\n\
        [firewall]\ntimeouts = { icmp = \"30s\" }\n\
        [load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [{ endpoint = \"10.254.0.1:80\" }] }]\n\
        [fast_path]\ntime_to_live = \"1s\"\n";
    let same = "# in other words\n[fast_path]\ntime_to_live = \"1000ms\"\n[firewall]\n\
        [[load_balancer.services]]\nprotocol = \"tcp\"\nvip = \"10.255.0.1:80\"\nreturn = \"through\"\nbackends = [{ weight = 1, endpoint = \"10.254.0.1:80\" }]\n\
        [napt]\nexternal = [\"198.51.100.1\"]\nports = \"1024-65535\"\ntimeouts.udp = \"120s\"\ninside = [\"10.0.0.0/8\"]\n\
        [[acl.rules]]\nto_port = 80\naction = \"allow\"\n\
        [service]\nchain = [\"acl\", \"napt\", \"firewall\", \"load_balancer\"]\nseed = 0\n";
    let [one, same] = [one, same].map(service);
    let change = Replacement::between(&one, &same).expect("the same");
    assert!(change.is_empty());
    assert_eq!(change.applied.changed, [""; 0]);
    assert_eq!(change.applied.kept.len(), 4);
}

/// A segment waits on the slow path for one that is missing, and its time comes while a change is on
/// its way. What functions let go of walks the chain that there is: so workers are told of the change
/// when they have done what was due, and of no later time until the fast path has changed, too.
#[test]
fn nothing_is_let_go_of_while_workers_change() {
    let old = service(&(text(&["reassembler", "acl"], "10.0.0.9") + GAP));
    let new = service(&(text(&["reassembler", "acl"], "10.0.0.8") + GAP));
    let mut node = build(&old, Paths::Both).expect("sound");
    let (started, mut out) = (Instant(1_000_000_000), Output::default());
    node.machine.start(started);
    node.workers[0].start(started);
    let at = |ms| {
        let now = started + Duration::from_millis(ms);
        Clock {
            packet: now,
            link: now,
        }
    };
    let segments = [(100, flags::SYN), (201, flags::ACK)];
    for (ms, (sequence, flags)) in (0..).zip(segments) {
        let ends = [
            Endpoint::v4([10, 0, 0, 1], 1000),
            Endpoint::v4([192, 0, 2, 1], 80),
        ];
        let segment = PacketBuilder::tcp(ends[0], ends[1])
            .seq(sequence)
            .flags(flags);
        let bytes = segment.payload_len(10).to_vec().expect("a packet");
        let mut frame = node.machine.pools().take_filled(&bytes).expect("a buffer");
        frame.set_timestamp(at(ms).packet);
        node.machine.receive(&mut vec![frame], at(ms), &mut out);
        cross(&mut node, at(ms), &mut out);
    }
    let due = node.workers[0].progress().next_deadline;
    assert!(
        due.at > at(1).packet && due.at < at(50).packet,
        "it is kept: {due:?}"
    );

    let change = Replacement::between(&old, &new).expect("the list alone differs");
    assert!(node.machine.change(Box::new(change)).is_ok());
    let mut told = None;
    for ms in 50..60 {
        cross(&mut node, at(ms), &mut out);
        node.machine.advance(at(ms), &mut out);
        let replaces = |(_, command): &(usize, WorkerCommand)| {
            matches!(command, WorkerCommand::Replace { .. })
        };
        if out.commands.iter().any(replaces) {
            let told_until = node.machine.time();
            assert!(node.workers[0].progress().next_deadline > told_until.passed);
            told = Some(told_until);
            break;
        }
        execute_commands(&mut node, at(ms), &mut out);
    }
    let told = told.expect("the segment has left, and the change goes on");
    node.machine.advance(at(500), &mut out);
    assert_eq!(node.machine.time(), told, "time stands still meanwhile");
    execute_commands(&mut node, at(500), &mut out);
    node.machine.advance(at(501), &mut out);
    assert!(node.machine.time().passed > told.passed, "and goes on");
}

/// All that is on its way arrives, there and back.
fn cross(node: &mut Node, clock: Clock, out: &mut Output) {
    let mut returns = Vec::new();
    let time = node.machine.time();
    loop {
        let (worker, pools) = (&mut node.workers[0], &mut node.worker_pools[0]);
        for (_, frame) in std::mem::take(&mut out.frames) {
            worker.receive(frame, pools, &mut returns);
        }
        worker.advance(time, pools, &mut returns);
        let progress = worker.progress();
        node.machine.returned(0, &mut returns, clock, out);
        node.machine.progress(0, progress, out);
        for departure in std::mem::take(&mut out.departures) {
            node.machine.pools().give(departure.frame);
        }
        if out.frames.is_empty() {
            return;
        }
    }
}

/// The worker does what it is told.
fn execute_commands(node: &mut Node, clock: Clock, out: &mut Output) {
    for (_, command) in std::mem::take(&mut out.commands) {
        let (worker, pools) = (&mut node.workers[0], &mut node.worker_pools[0]);
        let mut returns = Vec::new();
        let answer = worker.execute(command, pools, &mut returns);
        let progress = worker.progress();
        node.machine.returned(0, &mut returns, clock, out);
        node.machine.progress(0, progress, out);
        node.machine.answered(0, answer, clock, out);
    }
}
