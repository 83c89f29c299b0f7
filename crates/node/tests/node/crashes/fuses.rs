//! Fuses in other places: behind the functions of an element, behind one that keeps packets, and in
//! one that is woken for those that it keeps.

use super::{CACHE, Fuse, POISON, POISONED, SAYS, crash_on, poisoned, told_apart};
use crate::common::rows::tell;
use crate::common::service;
use std::collections::BTreeMap;
use std::mem::take;
use std::time::Duration;
use twinpath_control::report::Report;
use twinpath_control::service::{Execution, Instance, Paths, Service};
use twinpath_core::program::FastProgram;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_core::{Instant, Packet};
use twinpath_io::Trace;
use twinpath_nf::custom::custom;
use twinpath_nf::descriptor::{Form, Function};
use twinpath_node::wiring::elements;
use twinpath_rulecache::{Answers, Recorded, RuleFunction, Verdict};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox, Slab};

const EXECUTIONS: [Execution; 2] = [Execution::Virtual, Execution::Threads];
const BOTH_AND_SLOW: [Paths; 2] = [Paths::Both, Paths::Slow];

/// A fuse for an element of a form.
pub fn fuse(form: Form) -> Instance {
    Instance {
        name: "fuse".into(),
        config: custom(form, 0, move |_, _| {
            Ok(match form {
                Form::Flow => Function::flow(Fuse::default()),
                // A DPU has no other function beside it.
                Form::Rules | Form::Dash => Function::rules(Fuse::default()),
            })
        }),
    }
}

/// The service with one fuse, behind the functions of the element with this number.
pub fn behind(service: &Service, number: usize) -> Service {
    let mut chain = Vec::new();
    for (place, element) in elements(service).enumerate() {
        chain.extend_from_slice(element);
        if place == number {
            chain.push(fuse(element[0].form()));
        }
    }
    Service {
        chain,
        ..service.clone()
    }
}

/// Of packets that are told apart, which there are of each client, in order; poison aside.
fn numbers<'p>(packets: impl Iterator<Item = &'p [u8]>) -> BTreeMap<u8, Vec<u16>> {
    let mut numbers = BTreeMap::<u8, Vec<u16>>::new();
    for packet in packets.filter(|packet| !is_poison(packet)) {
        let layout = dissect(packet).expect("sound");
        let [client, high, low] = packet[usize::from(layout.payload)..][..3] else {
            unreachable!("a payload of three bytes");
        };
        let number = u16::from_be_bytes([high, low]);
        numbers.entry(client).or_default().push(number);
    }
    numbers
}

fn is_poison(packet: &[u8]) -> bool {
    let layout = dissect(packet).expect("sound");
    fields::destination(packet, &layout).port == POISON
}

/// Nothing but so much poison is lost, whatever left of it, and all of that is counted as what a
/// worker that crashed had in its hands; each client's packets leave in order.
fn assert_only_poison_is_lost(
    (left, report): &(Vec<Vec<u8>>, Report),
    trace: &Trace,
    poison: usize,
    what: &str,
) {
    let sent = numbers(trace.iter().map(|packet| packet.frame));
    let found = numbers(left.iter().map(Vec::as_slice));
    assert_eq!(sent, found, "{what}: {:?}", report.drops);
    let escaped = left.iter().filter(|packet| is_poison(packet)).count();
    let lost = (poison - escaped) as u64;
    let crashed = report.drops.get("worker_crashed").copied();
    assert_eq!(crashed, Some(lost), "{what}: {:?}", report.drops);
    let dropped: u64 = report.drops.values().sum();
    assert_eq!(dropped, lost, "{what}: {:?}", report.drops);
    let totals = &report.totals;
    assert_eq!(totals.packets_in, totals.packets_out + lost, "{what}");
}

fn restarts(report: &Report) -> u64 {
    report.worker_restarts.iter().sum()
}

const ACL: &str = "[acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"udp\", to_port = 53 }]\n";
const FIREWALL: &str = "[firewall]\ndefault = \"allow\"\n";
const NAPT: &str = "[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\n";

/// What is at the end of a chain is in the element of the firewall, or in one that makes rules.
const ONE_OR_TWO_ELEMENTS: [&[&str]; 2] = [&["firewall"], &["firewall", "acl"]];

/// A service with these functions.
fn chain_of(functions: &[&str]) -> Service {
    let mut text = format!("[service]\nchain = {functions:?}\n{CACHE}");
    for (name, table) in [("acl", ACL), ("firewall", FIREWALL), ("napt", NAPT)] {
        if functions.contains(&name) {
            text.push_str(table);
        }
    }
    service(&text)
}

/// Elements of both kinds, with a fuse behind each in turn: poison has passed all in front of it, on
/// this path or that. One restart for each, and all others go on.
#[test]
fn behind_each_of_several_elements() {
    let trace = told_apart(2000, 40);
    let at = [100, 101, 700, 1200, 1700];
    let poisoned = poisoned(&trace, &at);
    for functions in [
        ["acl", "firewall"].as_slice(),
        &["firewall", "acl"],
        &["firewall", "napt"],
        &["acl", "firewall", "napt"],
    ] {
        let service = chain_of(functions);
        for (number, _) in elements(&service).enumerate() {
            let fused = behind(&service, number);
            for (paths, execution) in ways() {
                let what = format!("{functions:?}, behind {number}: {paths:?}, {execution:?}");
                let outcome = crash_on(&fused, paths, &poisoned, execution);
                assert_eq!(restarts(&outcome.1), at.len() as u64, "{what}");
                assert_only_poison_is_lost(&outcome, &trace, at.len(), &what);
                if paths == Paths::Both {
                    assert_share(&outcome.1, &what);
                    tell(POISONED, &outcome.1);
                }
            }
        }
    }
}

/// Of flows that nothing has happened to, the fast path has most packets.
fn assert_share(report: &Report, what: &str) {
    let fast = report.fast;
    assert!(fast.share > 0.39, "{what}: {fast:?}");
}

fn ways() -> impl Iterator<Item = (Paths, Execution)> {
    BOTH_AND_SLOW
        .into_iter()
        .flat_map(|paths| EXECUTIONS.map(|execution| (paths, execution)))
}

/// So many packets of a flow go on together.
const TOGETHER: usize = 3;

/// A function that keeps poison of a flow until so much of it has come, and lets it go on together.
struct Gate {
    flows: Slab<Vec<Packet>>,
    kept: usize,
}

impl Gate {
    fn new() -> Self {
        Self {
            flows: Slab::new(8),
            kept: 0,
        }
    }

    fn open(&mut self, packets: Vec<Packet>, out: &mut Outbox<'_>) {
        self.kept -= packets.len();
        packets.into_iter().for_each(|packet| out.forward(packet));
    }
}

impl NetworkFunction for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn program(&self) -> FastProgram {
        NetworkFunction::program(&Fuse::default())
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if packet.destination().port != POISON {
            return out.forward(packet);
        }
        let mut packets = self.flows.remove(take(flow.handle)).unwrap_or_default();
        packets.push(packet);
        self.kept += 1;
        if packets.len() == TOGETHER {
            return self.open(packets, out);
        }
        *flow.handle = self.flows.insert(packets).unwrap_or_default();
    }

    fn is_pending(&self, _words: &[u32], handle: u32) -> bool {
        handle != 0
    }

    fn is_expired(&self, _words: &[u32], _now: Instant) -> bool {
        false
    }

    fn release(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if let Some(packets) = self.flows.remove(take(flow.handle)) {
            self.open(packets, out);
        }
    }

    fn kept_packets(&self) -> usize {
        self.kept
    }

    fn most_held_frames(&self) -> usize {
        8 * TOGETHER
    }

    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

/// A fuse that blows on poison with this number in its payload.
struct Spark(u8);

impl NetworkFunction for Spark {
    fn name(&self) -> &'static str {
        "spark"
    }

    fn program(&self) -> FastProgram {
        NetworkFunction::program(&Fuse::default())
    }

    fn handle(&mut self, packet: Packet, _flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let is_poison = packet.destination().port == POISON;
        assert!(
            !is_poison || packet.payload().first() != Some(&self.0),
            "{SAYS}"
        );
        out.forward(packet);
    }

    fn is_expired(&self, _words: &[u32], _now: Instant) -> bool {
        false
    }

    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

impl RuleFunction for Spark {
    fn name(&self) -> &'static str {
        "spark"
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        let is_poison = packet.destination().port == POISON;
        assert!(
            !is_poison || packet.payload().first() != Some(&self.0),
            "{SAYS}"
        );
        Verdict::Forward
    }
}

/// A function with flow state that `make` makes.
fn flow_function<F: NetworkFunction>(
    name: &str,
    make: impl Fn() -> F + Send + Sync + 'static,
) -> Instance {
    Instance {
        name: name.into(),
        config: custom(Form::Flow, 0, move |_, _| Ok(Function::flow(make()))),
    }
}

fn spark(form: Form, number: u8) -> Instance {
    match form {
        Form::Flow => flow_function("spark", move || Spark(number)),
        Form::Rules | Form::Dash => Instance {
            name: "spark".into(),
            config: custom(form, 0, move |_, _| Ok(Function::rules(Spark(number)))),
        },
    }
}

/// The service, which begins with a firewall, with a gate behind that and a spark at the end.
fn gated(service: &Service, number: u8) -> Service {
    let mut chain = service.chain.clone();
    let last = chain.last().expect("a firewall").form();
    chain.insert(1, flow_function("gate", Gate::new));
    chain.push(spark(last, number));
    Service {
        chain,
        ..service.clone()
    }
}

/// As much poison of one flow as goes on together, behind the packet at a place.
fn with_poison_of_one_flow(trace: &Trace, at: usize) -> Trace {
    let from = Endpoint::v4([10, 66, 0, 1], 1000);
    let to = Endpoint::v4([192, 0, 2, 66], POISON);
    let mut with = Trace::new();
    for (place, packet) in trace.iter().enumerate() {
        with.push(packet.timestamp_ns, packet.frame);
        for number in (0..TOGETHER as u8).filter(|_| place == at) {
            let poison = PacketBuilder::udp(from, to).payload(&[number]).to_vec();
            with.push(packet.timestamp_ns, &poison.expect("short"));
        }
    }
    with
}

/// Several packets go on together, and a function behind panics on the one with this number: in the
/// same element, or in the next one.
fn crash_behind_a_gate(number: u8) {
    let trace = told_apart(1000, 40);
    let poisoned = with_poison_of_one_flow(&trace, 400);
    for functions in ONE_OR_TWO_ELEMENTS {
        let gated = gated(&chain_of(functions), number);
        for (paths, execution) in ways() {
            let what = format!("{functions:?}, packet {number}: {paths:?}, {execution:?}");
            let outcome = crash_on(&gated, paths, &poisoned, execution);
            assert_eq!(restarts(&outcome.1), 1, "{what}");
            assert_only_poison_is_lost(&outcome, &trace, TOGETHER, &what);
            if paths == Paths::Both {
                assert_share(&outcome.1, &what);
                tell(POISONED, &outcome.1);
            }
        }
    }
}

/// What has left the element, or the chain, and is not out yet is lost with the worker.
#[test]
fn on_the_last_of_several_packets() {
    crash_behind_a_gate(2);
}

/// So is what was to follow, and the packet itself is not that of the frame at work.
#[test]
fn on_the_first_of_several_packets() {
    crash_behind_a_gate(0);
}

/// Some are in front and some behind.
#[test]
fn on_one_amid_several_packets() {
    crash_behind_a_gate(1);
}

/// Where the panic is when a deadline comes.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Wakes {
    /// Before the function has taken out what it keeps.
    AtOnce,
    /// With the packet in its hands.
    WithThePacket,
    /// In a function behind, which the packet goes on to.
    FuseBehind,
}

/// A function that keeps poison for a while.
struct Keeper {
    kept: Slab<Packet>,
    wakes: Wakes,
}

const KEPT_FOR: Duration = Duration::from_millis(1);

impl NetworkFunction for Keeper {
    fn name(&self) -> &'static str {
        "keeper"
    }

    fn program(&self) -> FastProgram {
        NetworkFunction::program(&Fuse::default())
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        match packet.destination().port == POISON {
            true => *flow.handle = self.kept.insert(packet).unwrap_or_default(),
            false => out.forward(packet),
        }
    }

    fn deadline(&self, handle: u32) -> Instant {
        let kept = self.kept.at(handle);
        kept.map_or(Instant::NEVER, |packet| packet.timestamp() + KEPT_FOR)
    }

    fn wake(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        assert!(self.wakes != Wakes::AtOnce, "{SAYS}");
        let packet = self.kept.remove(take(flow.handle));
        assert!(self.wakes != Wakes::WithThePacket, "{SAYS}");
        packet.into_iter().for_each(|packet| out.forward(packet));
    }

    fn is_pending(&self, _words: &[u32], handle: u32) -> bool {
        handle != 0
    }

    fn is_expired(&self, _words: &[u32], _now: Instant) -> bool {
        false
    }

    fn forget(&mut self, handle: u32) {
        self.kept.remove(handle);
    }

    fn kept_packets(&self) -> usize {
        self.kept.len()
    }

    fn most_held_frames(&self) -> usize {
        8
    }

    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

/// The service, which begins with a firewall, with a keeper behind that and a fuse at the end if that
/// is what is to blow.
fn keeping(service: &Service, wakes: Wakes) -> Service {
    let mut chain = service.chain.clone();
    let last = chain.last().expect("a firewall").form();
    let keeper = move || Keeper {
        kept: Slab::new(8),
        wakes,
    };
    chain.insert(1, flow_function("keeper", keeper));
    if wakes == Wakes::FuseBehind {
        chain.push(fuse(last));
    }
    Service {
        chain,
        ..service.clone()
    }
}

/// A deadline comes long before the run ends, and a function panics because of it: one restart, and
/// all that was kept until then is counted, that of another flow too.
fn crash_at_a_deadline(wakes: Wakes) {
    let trace = told_apart(1000, 40);
    for at in [[400].as_slice(), &[400, 401]] {
        let poisoned = poisoned(&trace, at);
        for functions in ONE_OR_TWO_ELEMENTS {
            let keeping = keeping(&chain_of(functions), wakes);
            for (paths, execution) in ways() {
                let what = format!("{functions:?}, {wakes:?} {at:?}: {paths:?}, {execution:?}");
                let outcome = crash_on(&keeping, paths, &poisoned, execution);
                // To the next element each goes by itself, over the fast path.
                let goes_alone = wakes == Wakes::FuseBehind
                    && paths == Paths::Both
                    && functions.contains(&"acl");
                let most = if goes_alone { at.len() as u64 } else { 1 };
                assert!((1..=most).contains(&restarts(&outcome.1)), "{what}");
                assert_only_poison_is_lost(&outcome, &trace, at.len(), &what);
                if paths == Paths::Both {
                    assert_share(&outcome.1, &what);
                    tell(POISONED, &outcome.1);
                }
            }
        }
    }
}

#[test]
fn as_a_deadline_comes() {
    crash_at_a_deadline(Wakes::AtOnce);
}

#[test]
fn with_the_packet_that_a_deadline_was_for() {
    crash_at_a_deadline(Wakes::WithThePacket);
}

#[test]
fn behind_a_function_whose_deadline_comes() {
    crash_at_a_deadline(Wakes::FuseBehind);
}
