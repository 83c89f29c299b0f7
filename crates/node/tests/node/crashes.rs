//! Functions that panic: their worker begins anew, what it had in its hands is counted, and flows
//! that have nothing to do with it go on as if nothing had happened.

mod fuses;

use crate::common::rows::tell;
use crate::common::world::{Mishaps, World};
use crate::common::{
    Flows, assert_same, by_flow, copy, generate, run, service, tcp_traffic, traffic,
};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, mpsc};
use twinpath_control::live::Live;
use twinpath_control::report::Report;
use twinpath_control::service::{Execution, Instance, Pace, Paths, Service};
use twinpath_core::program::{Exit, FastProgram, Step};
use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, dissect, fields};
use twinpath_core::{FlowKey, HashKey, Instant, Packet, Steering};
use twinpath_io::{CaptureError, Trace};
use twinpath_nf::custom::custom;
use twinpath_nf::descriptor::{Form, Function};
use twinpath_node::command::{ChangeResult, Command, no_commands};
use twinpath_node::machine::{ChangeRefusal, Replacement};
use twinpath_node::observe::Observer;
use twinpath_node::run::drive;
use twinpath_node::sink::Sink;
use twinpath_node::source::Source;
use twinpath_node::wiring::elements;
use twinpath_node::{Departure, Node, Ports, build};
use twinpath_rulecache::{
    Affected, Answers, Reconfiguration, Reconfigure, Recorded, RuleFunction, Verdict,
};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};

/// Packets to this port blow the fuse.
const POISON: u16 = 4444;
const SAYS: &str = "the fuse blows";
/// Where packets go that meet a fuse that has taken a change.
const CHANGED: MacAddress = MacAddress([0x02, 0, 0, 0, 0x44, 0x44]);

/// A function that panics, for real, on poison, and does nothing to any other packet. Once it has, it
/// cannot say what it keeps either.
#[derive(Default)]
struct Fuse {
    has_blown: bool,
    /// Since a change it writes [`CHANGED`] into packets that it lets through.
    is_changed: bool,
}

impl NetworkFunction for Fuse {
    fn name(&self) -> &'static str {
        "fuse"
    }

    fn program(&self) -> FastProgram {
        let (when, then) = (Vec::new(), Vec::new());
        let step = Step {
            name: "pass",
            when,
            then,
            exit: Exit::Continue,
        };
        FastProgram {
            name: "fuse".into(),
            steps: vec![step],
            ..FastProgram::default()
        }
    }

    fn handle(&mut self, packet: Packet, _flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.has_blown = packet.destination().port == POISON;
        assert!(!self.has_blown, "{SAYS}");
        out.forward(packet);
    }

    fn kept_packets(&self) -> usize {
        assert!(!self.has_blown, "{SAYS}");
        0
    }

    fn is_expired(&self, _words: &[u32], _now: Instant) -> bool {
        false
    }

    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

impl RuleFunction for Fuse {
    fn name(&self) -> &'static str {
        "fuse"
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        assert_ne!(packet.destination().port, POISON, "{SAYS}");
        if self.is_changed {
            packet.set_destination_mac(CHANGED);
        }
        Verdict::Forward
    }
}

/// The service with a fuse in front of each element.
fn fused(service: &Service) -> Service {
    let mut chain = Vec::new();
    for element in elements(service) {
        chain.push(fuses::fuse(element[0].form()));
        chain.extend_from_slice(element);
    }
    Service {
        chain,
        ..service.clone()
    }
}

#[derive(Default)]
struct Left(Vec<Vec<u8>>);

impl Sink for Left {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        self.0.push(departure.frame.bytes().to_vec());
        Ok(())
    }
}

/// Runs packets, some of which are poison, through a node with a fuse in front of each element.
fn crash(service: &Service, trace: &Trace, execution: Execution) -> (Vec<Vec<u8>>, Report) {
    crash_on(&fused(service), Paths::Both, trace, execution)
}

/// The same of a service that has its fuses already, on these paths.
fn crash_on(
    service: &Service,
    paths: Paths,
    trace: &Trace,
    execution: Execution,
) -> (Vec<Vec<u8>>, Report) {
    blow_quietly();
    let mut service = service.clone();
    (service.run.execution, service.run.pace) = (execution, Some(Pace::Lossless));
    let mut node = build(&service, paths).expect("a sound service");
    let (mut sink, mut observer) = (Left::default(), Observer::new(Live::hidden()));
    let ports = Ports {
        input: Some(PathBuf::from("memory")),
        ..Ports::default()
    };
    drive(
        &service,
        &ports,
        &mut node,
        &mut Source::trace(copy(trace)),
        &mut sink,
        &mut observer,
        &no_commands(),
        &AtomicBool::new(false),
    )
    .expect("memory never fails");
    let mut report = Report::default();
    observer.finish(0, 0, &node.machine, &node.workers, &mut report);
    let missing = node.machine.pools().small().frames() - node.machine.pools().small().available();
    assert_eq!(missing, 0, "buffers that have not come home");
    (sink.0, report)
}

/// Fuses blow without a word, other panics do not.
fn blow_quietly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let says = info.payload().downcast_ref::<String>();
            if !says.is_some_and(|says| says.contains(SAYS)) {
                usual(info);
            }
        }));
    });
}

/// Poison of one client.
fn poison(client: u8) -> Vec<u8> {
    let from = Endpoint::v4([10, 66, 0, client], 1000);
    let to = Endpoint::v4([192, 0, 2, 66], POISON);
    PacketBuilder::udp(from, to).to_vec().expect("short")
}

/// The trace with poison behind some of its packets.
fn poisoned(trace: &Trace, at: &[usize]) -> Trace {
    let mut with = Trace::new();
    for (number, packet) in trace.iter().enumerate() {
        with.push(packet.timestamp_ns, packet.frame);
        if let Some(client) = at.iter().position(|&place| place == number) {
            with.push(packet.timestamp_ns, &poison(client as u8));
        }
    }
    with
}

/// A packet's flow and the worker that it belongs to.
fn steered(service: &Service, workers: &Node, packet: &[u8]) -> Option<(FlowKey, usize)> {
    let steering = Steering::new(service.seed);
    let layout = dissect(packet).ok()?;
    let key = steering.key(packet, &layout)?.key;
    let worker = workers
        .machine
        .path()
        .worker(key.hash(&HashKey::new(service.seed)));
    Some((key, worker))
}

/// Flows of which a worker that crashed had seen packets before, and would again.
fn affected(service: &Service, trace: &Trace, at: &[usize]) -> BTreeSet<FlowKey> {
    let node = build(service, Paths::Both).expect("sound");
    let of = |packet: &[u8]| steered(service, &node, packet);
    let packets: Vec<_> = trace.iter().map(|packet| of(packet.frame)).collect();
    let mut affected = BTreeSet::new();
    for (client, &place) in at.iter().enumerate() {
        let (_, crashed) = of(&poison(client as u8)).expect("it has a flow");
        let on = |packets: &[Option<(FlowKey, usize)>]| -> BTreeSet<FlowKey> {
            let on_it = packets
                .iter()
                .flatten()
                .filter(|(_, worker)| *worker == crashed);
            on_it.map(|(key, _)| *key).collect()
        };
        affected.extend(on(&packets[..=place]).intersection(&on(&packets[place + 1..])));
    }
    affected
}

fn without(flows: &Flows, some: &BTreeSet<FlowKey>) -> Flows {
    let is_other = |key: &Option<FlowKey>| key.is_none_or(|key| !some.contains(&key));
    let others = flows.iter().filter(|(key, _)| is_other(key));
    others
        .map(|(key, packets)| (*key, packets.clone()))
        .collect()
}

/// Where packets come from of which some make a function panic.
const POISONED: &str = "generated, some of it poison";

/// Flows that were not on a worker that crashed are the oracle's; the others lose packets at most,
/// and none is unaccounted for: of one element, with fuses in front of it and behind it.
fn goes_on(text: &str, trace: &Trace, at: &[usize]) {
    let service = service(text);
    let expected = run(&service, trace, Paths::Slow, Execution::Virtual);
    let (affected, poisoned) = (affected(&service, trace, at), poisoned(trace, at));
    let (in_front, behind) = (fused(&service), fuses::behind(&service, 0));
    let (virtual_time, threads) = (Execution::Virtual, Execution::Threads);
    for (place, fused, paths, execution) in [
        ("in front", &in_front, Paths::Both, virtual_time),
        ("in front", &in_front, Paths::Both, threads),
        ("behind", &behind, Paths::Both, virtual_time),
        ("behind", &behind, Paths::Both, threads),
        ("behind", &behind, Paths::Slow, virtual_time),
        ("behind", &behind, Paths::Slow, threads),
    ] {
        let what = format!("{place}, {paths:?}, {execution:?}: {text}");
        let (left, report) = crash_on(fused, paths, &poisoned, execution);
        if paths == Paths::Both {
            assert!(report.fast.share > 0.5, "{what}: {:?}", report.fast);
            tell(POISONED, &report);
        }
        let found = by_flow(left);
        assert_same(
            &without(&expected.flows, &affected),
            &without(&found, &affected),
            &what,
        );
        let mut unharmed = 0;
        for key in &affected {
            let (all, seen) = (&expected.flows[&Some(*key)], found.get(&Some(*key)));
            let seen = seen.map_or(&[][..], Vec::as_slice);
            unharmed += usize::from(seen == all.as_slice());
            assert!(
                seen.iter().all(|packet| all.contains(packet)),
                "{what}: {key:?}"
            );
        }
        let restarts: u64 = report.worker_restarts.iter().sum();
        let crashed = report.drops["worker_crashed"];
        println!(
            "{what}\n{restarts} restarts {:?}, {crashed} packets in their hands; {unharmed} of {} flows that were on them unharmed",
            report.worker_restarts,
            affected.len()
        );
        assert_eq!(restarts, at.len() as u64, "{what}");
        assert!(crashed >= at.len() as u64, "{what}");
        let lost: u64 = report.drops.values().sum();
        assert_eq!(
            report.totals.packets_in,
            report.totals.packets_out + lost,
            "{what}: {:?}",
            report.drops
        );
        assert!(
            unharmed > 0 || affected.is_empty(),
            "{what}: no flow went on"
        );
    }
}

#[test]
fn flow_state_on_several_workers() {
    let workers = "[slow_path]\nworkers = 3\n";
    let fast = "[fast_path]\nhot_packets = 1\n";
    let trace = tcp_traffic(0.05, 10_000);
    let at = [100, 101, 2500, 2501, 2502, 6000, 9000];
    goes_on(
        &format!(
            "[service]\nchain = [\"firewall\"]\n{workers}{fast}[firewall]\ndefault = \"allow\"\n"
        ),
        &trace,
        &at,
    );
    goes_on(
        &format!(
            "[service]\nchain = [\"firewall\", \"reassembler\"]\n{workers}{fast}[firewall]\ndefault = \"allow\"\n"
        ),
        &trace,
        &at,
    );
}

const CACHE: &str = "[rule_cache]\nwindow = \"5ms\"\nthreshold = 0\n";

/// Functions without a memory of their own: whatever crashes, only poison is lost.
#[test]
fn rules() {
    let text = format!(
        "[service]\nchain = [\"acl\", \"router\"]\n{CACHE}\
         [acl]\ndefault = \"allow\"\nrules = [{{ action = \"deny\", protocol = \"udp\", to_port = 53 }}]\n\
         [router]\naddress = \"192.0.2.254\"\n\
         next_hops = [{{ name = \"up\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = 1 }}]\n\
         routes = [{{ to = \"0.0.0.0/0\", via = \"up\" }}]\n"
    );
    let config = traffic(
        "packets = 10000\nflows = 100\narrivals = { process = \"constant\", rate_pps = 100000.0 }\n",
    );
    let trace = generate(&config, 3);
    let at = [50, 51, 3000, 3001, 3400, 9000];
    let service = service(&text);
    let expected = run(&service, &trace, Paths::Slow, Execution::Virtual);
    for execution in [Execution::Virtual, Execution::Threads] {
        let (left, report) = crash(&service, &poisoned(&trace, &at), execution);
        assert_same(&expected.flows, &by_flow(left), &format!("{execution:?}"));
        assert_eq!(report.worker_restarts, [at.len() as u64]);
        assert_eq!(report.drops["worker_crashed"], at.len() as u64);
        println!("{execution:?}: {:?}", report.rules.total);
        tell(POISONED, &report);
        assert!(report.fast.share > 0.3, "{}", report.fast.share);
    }
}

/// Packets of clients whose payload says whose they are, and which.
fn told_apart(packets: u16, clients: u8) -> Trace {
    let mut trace = Trace::new();
    for number in 0..packets {
        // In a scattered order, so that flows begin all the time.
        let client = (u32::from(number) * 7919 % (1 + u32::from(number) / 8)) as u8 % clients;
        let from = Endpoint::v4([10, 0, 0, client], 2000);
        let to = Endpoint::v4([203, 0, 113, 5], 80);
        let [high, low] = number.to_be_bytes();
        let payload = vec![client, high, low];
        let packet = PacketBuilder::udp(from, to).payload(&payload).to_vec();
        trace.push(
            1_000_000_000 + u64::from(number) * 20_000,
            &packet.expect("short"),
        );
    }
    trace
}

/// A translation that crashed gives ports out again that cached rules still know: they go before
/// anybody else gets them.
#[test]
fn ports_are_never_shared_with_rules_of_a_former_life() {
    let text = format!(
        "[service]\nchain = [\"napt\"]\n{CACHE}\
         [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\nports = \"1024-1071\"\nsessions = 64\n"
    );
    let trace = told_apart(6000, 40);
    let at: Vec<usize> = (0..20).map(|crash| 150 + crash * 290).collect();
    for execution in [Execution::Virtual, Execution::Threads] {
        let (left, report) = crash(&service(&text), &poisoned(&trace, &at), execution);
        assert_eq!(report.worker_restarts, [at.len() as u64]);
        assert_eq!(
            left.len() as u64 + report.drops["worker_crashed"],
            report.totals.packets_in
        );
        assert!(report.fast.share > 0.2, "{}", report.fast.share);
        // Who had each port last, and since which life of the worker: none gets it back in that.
        let mut owners: BTreeMap<u16, (u8, usize)> = BTreeMap::new();
        let mut last: BTreeMap<u8, u16> = BTreeMap::new();
        let mut reused = 0;
        for packet in &left {
            let layout = dissect(packet).expect("sound");
            let port = fields::source(packet, &layout).port;
            let [client, high, low] = packet[usize::from(layout.payload)..][..3] else {
                unreachable!("a payload of three bytes");
            };
            let number = u16::from_be_bytes([high, low]);
            let before = last.insert(client, number);
            assert!(
                before < Some(number),
                "{execution:?}: client {client}: {number} after {before:?}"
            );
            let life = at.partition_point(|&crash| crash < number.into());
            let owner = owners.entry(port).or_insert((client, 0));
            if owner.0 != client {
                assert!(
                    owner.1 < life,
                    "{execution:?}: port {port} goes to and fro in life {life}"
                );
                *owner = (client, life);
                reused += 1;
            }
        }
        println!("{execution:?}: {reused} times a port had another owner");
        assert!(reused > 0, "nothing was tried");
    }
}

/// A worker that crashes before it has taken out what a change concerns knows of no rules any more,
/// and the fast path has not heard of that: none of them may serve the new chain.
#[test]
fn a_change_leaves_no_rule_of_a_former_life() {
    let list = |rule: &str| {
        service(&format!(
            "[service]\nchain = [\"acl\"]\n[acl]\ndefault = \"allow\"\nrules = [{rule}]\n\
             [rule_cache]\nwindow = \"5ms\"\nthreshold = 0\nidle_windows = 255\n"
        ))
    };
    let (before, after) = (list(""), list("{ action = \"deny\", to_port = 53 }"));
    let [from, to] = ["10.0.0.1:4000", "192.0.2.1:53"].map(|end| end.parse().expect("an endpoint"));
    let packet = PacketBuilder::udp(from, to).to_vec().expect("fits");
    let mut trace = Trace::new();
    (0..40).for_each(|number| trace.push(number * 1_000_000, &packet));
    for crashes in [false, true] {
        let mut world = World::new(&before, Paths::Both, Mishaps::default());
        world.run(&trace);
        assert!(world.node.machine.path().counters().fast_packets > 10);
        let replacement = Replacement::between(&before, &after).expect("a good service");
        world.change(replacement, crashes);
        let left = world.order.len();
        world.run(&trace);
        assert_eq!(world.order.len(), left, "crashes: {crashes}");
    }
}

/// When a function blows that is to change.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Blows {
    /// As it is asked what the change concerns.
    WhenAsked,
    /// As it takes the change.
    WhenChanged,
}

/// A change in which a function blows, once: the same change is taken when it comes again.
struct BlowsOnce {
    when: Blows,
    has_blown: Cell<bool>,
}

impl BlowsOnce {
    fn blow(&self, when: Blows) {
        let is_due = self.when == when && !self.has_blown.replace(true);
        assert!(!is_due, "{SAYS}");
    }
}

impl Reconfigure for Fuse {
    type New = BlowsOnce;

    fn affected_by(&self, new: &BlowsOnce) -> Affected {
        new.blow(Blows::WhenAsked);
        Affected::Everything
    }

    fn apply(&mut self, new: &mut BlowsOnce) {
        new.blow(Blows::WhenChanged);
        self.is_changed = true;
    }
}

/// A function with flow state that panics when it begins, once.
struct Starter {
    has_blown: Arc<AtomicBool>,
}

impl NetworkFunction for Starter {
    fn name(&self) -> &'static str {
        "starter"
    }

    fn program(&self) -> FastProgram {
        NetworkFunction::program(&Fuse::default())
    }

    fn start(&mut self, _now: Instant) {
        assert!(self.has_blown.swap(true, Ordering::Relaxed), "{SAYS}");
    }

    fn handle(&mut self, packet: Packet, _flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        out.forward(packet);
    }

    fn is_expired(&self, _words: &[u32], _now: Instant) -> bool {
        false
    }

    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

/// Keeps what leaves, and asks for a change when half of the packets have left; for one that was
/// refused again when as many are left to come as have come since.
struct AskingForChange {
    left: Left,
    /// Asks when so many have left.
    at: usize,
    commands: mpsc::Sender<Command>,
    change: Option<Box<Replacement>>,
    answers: (mpsc::Sender<ChangeResult>, mpsc::Receiver<ChangeResult>),
    /// What became of it each time.
    became: Vec<Became>,
}

/// What became of a change: how many cached rules went, or why it was not made.
type Became = Result<usize, ChangeRefusal>;

impl AskingForChange {
    fn ask(&mut self) {
        if self.left.0.len() < self.at {
            return;
        }
        if let Some(change) = self.change.take() {
            let command = Command::Replace(change, self.answers.0.clone());
            assert!(self.commands.send(command).is_ok(), "the run goes on");
        }
    }

    /// Hears what became of it.
    fn hear(&mut self) {
        let Ok(replaced) = self.answers.1.try_recv() else {
            return;
        };
        self.became.push(match replaced {
            Ok(changed) => Ok(changed.rules_gone),
            Err((change, why)) => {
                assert!(!change.is_empty(), "there still is something to change");
                (self.change, self.at) = (Some(change), self.at + self.at / 2);
                Err(why)
            }
        });
    }
}

impl Sink for AskingForChange {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        self.hear();
        self.ask();
        self.left.packet(departure)
    }
}

/// Runs packets through a service, which is to change on the way. Returns what left, what became of
/// the change each time that it was asked for, and the report.
fn crash_in_change(
    service: &Service,
    change: Replacement,
    trace: &Trace,
    execution: Execution,
) -> (Vec<Vec<u8>>, Vec<Became>, Report) {
    blow_quietly();
    let mut service = service.clone();
    (service.run.execution, service.run.pace) = (execution, Some(Pace::Lossless));
    let mut node = build(&service, Paths::Both).expect("a sound service");
    let (commands, received) = mpsc::channel();
    let mut sink = AskingForChange {
        left: Left::default(),
        at: trace.len() / 2,
        commands,
        change: Some(Box::new(change)),
        answers: mpsc::channel(),
        became: Vec::new(),
    };
    let mut observer = Observer::new(Live::hidden());
    drive(
        &service,
        &Ports::default(),
        &mut node,
        &mut Source::trace(copy(trace)),
        &mut sink,
        &mut observer,
        &received,
        &AtomicBool::new(false),
    )
    .expect("memory never fails");
    let mut report = Report::default();
    observer.finish(0, 0, &node.machine, &node.workers, &mut report);
    sink.hear();
    (sink.left.0, sink.became, report)
}

/// A function that panics as it is changed, or is asked what that concerns, takes nothing but what
/// its worker knew with it: no packet is lost, and the fast path has its share again. A change that
/// was refused for it is made when it is asked for again.
#[test]
fn a_function_that_panics_in_a_change_of_its_rules() {
    // Few packets are ahead of those that have left, so that many come after each change.
    let service = service(&format!(
        "[service]\nchain = [\"acl\"]\n{CACHE}[acl]\ndefault = \"allow\"\n[link]\nring_frames = 256\n"
    ));
    let fused = fused(&service);
    let trace = told_apart(6000, 40);
    for execution in [Execution::Virtual, Execution::Threads] {
        for when in [Blows::WhenAsked, Blows::WhenChanged] {
            let what = format!("{execution:?} {when:?}");
            let has_blown = Cell::new(false);
            let change = Reconfiguration::of::<Fuse>(BlowsOnce { when, has_blown });
            let change = Replacement::of_function(&fused, 0, change).expect("a good service");
            let (left, became, report) = crash_in_change(&fused, change, &trace, execution);
            assert_eq!(left.len(), trace.len(), "{what}: {:?}", report.drops);
            assert_eq!(report.worker_restarts, [1], "{what}");
            match (when, became.as_slice()) {
                (Blows::WhenAsked, [Err(ChangeRefusal::Crashed), Ok(gone)]) => {
                    assert!(*gone > 0, "{what}");
                    meet_the_change(&left, &what);
                }
                (Blows::WhenChanged, [Ok(gone)]) => assert!(*gone > 0, "{what}"),
                (_, became) => panic!("{what}: {became:?}"),
            }
            assert!(report.fast.share > 0.3, "{what}: {}", report.fast.share);
        }
    }
}

/// From some packet on, behind three quarters of them, all have met a fuse that is changed.
fn meet_the_change(left: &[Vec<u8>], what: &str) {
    let is_changed = |packet: &Vec<u8>| packet.starts_with(&CHANGED.0);
    let first = left.iter().position(is_changed);
    let first = first.unwrap_or_else(|| panic!("{what}: no packet has met the change"));
    assert!(
        first >= left.len() * 3 / 4,
        "{what}: it was refused until then: {first}"
    );
    assert!(left[first..].iter().all(is_changed), "{what}");
}

/// The same where functions share flow state: a new one panics as it begins, on one of three
/// workers.
#[test]
fn a_function_that_panics_as_it_begins() {
    let service = service(
        "[service]\nchain = [\"firewall\"]\n[slow_path]\nworkers = 3\n\
         [fast_path]\nhot_packets = 1\n[firewall]\ndefault = \"allow\"\n",
    );
    let trace = told_apart(3000, 40);
    for execution in [Execution::Virtual, Execution::Threads] {
        let has_blown = Arc::new(AtomicBool::new(false));
        let starter = custom(Form::Flow, 0, move |_, _| {
            let has_blown = Arc::clone(&has_blown);
            Ok(Function::flow(Starter { has_blown }))
        });
        let mut after = service.clone();
        after.chain.push(Instance {
            name: "starter".into(),
            config: starter,
        });
        let change = Replacement::between(&service, &after).expect("a good service");
        let (left, became, report) = crash_in_change(&service, change, &trace, execution);
        assert!(matches!(became[..], [Ok(_)]), "{execution:?}: {became:?}");
        assert_eq!(left.len(), trace.len(), "{execution:?}: {:?}", report.drops);
        assert_eq!(
            report.worker_restarts.iter().sum::<u64>(),
            1,
            "{execution:?}"
        );
        let fast = report.fast;
        assert!(fast.share > 0.6, "{execution:?}: {fast:?}");
    }
}
