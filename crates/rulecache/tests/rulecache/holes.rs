//! One test for each way in which rules as the paper makes them would be wrong.

use crate::common::direct::{Direct, WINDOW};
use crate::common::functions::*;
use crate::common::observed::Outcome;
use std::time::Duration;
use twinpath_classify::acl::Rule;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect, verify_transport_checksum};
use twinpath_core::{Decision, Direction, DropReason, Pools};
use twinpath_rulecache::{
    Affected, CacheMessage, Concern, Effect, Field, MatchKey, Recorded, RuleFunction, Sides,
    Verdict,
};

fn end(text: &str) -> Endpoint {
    text.parse().expect("an endpoint")
}

fn tcp(from: &str, to: &str) -> PacketBuilder<'static> {
    PacketBuilder::tcp(end(from), end(to)).payload_len(20)
}

fn udp(from: &str, to: &str) -> PacketBuilder<'static> {
    PacketBuilder::udp(end(from), end(to)).payload_len(20)
}

fn denied() -> Outcome {
    Outcome::Dropped(DropReason::Denied)
}

/// A firewall that permits leaves no rewritten field behind; what it looked at counts all the
/// same.
#[test]
fn match_only_function() {
    let mut direct = Direct::new(vec![Box::new(Firewall::new(0)), Box::new(Router::new())]);
    let permitted = udp("10.0.0.1:40000", "192.0.2.60:80");
    direct.cache(&permitted);
    assert!(direct.send(&permitted).0, "the rule is met");
    // To the same network by route, but the firewall denies UDP to its upper half.
    let other = udp("10.0.0.1:40000", "192.0.2.200:80");
    assert_eq!(direct.send(&other), (false, denied()));
}

/// A field that was overwritten says nothing about the packet; and what was decided by it later
/// came from what was written, not from what it had been.
#[test]
fn constant_rewrite_then_match() {
    let constant = end("10.0.0.1:40000");
    let blocked = Address::from_v4([10, 0, 0, 7]);
    let functions = || -> Vec<Box<dyn RuleFunction>> {
        let rewrite = Box::new(ConstantSource(constant));
        vec![rewrite, Box::new(BlockSource(blocked))]
    };
    let mut direct = Direct::with_sides(Sides::ONE_WAY, functions());
    direct.cache(&udp("10.0.0.2:1000", "192.0.2.1:80"));
    // Not even a source that the block is about matters: it is overwritten first.
    let (is_hit, outcome) = direct.send(&udp("10.0.0.7:7777", "192.0.2.9:443"));
    assert!(is_hit, "no bit of the source is in the mask");
    let Outcome::Left { bytes, .. } = outcome else {
        panic!("forwarded")
    };
    let expected = PacketBuilder::udp(constant, end("192.0.2.9:443")).payload_len(20);
    assert_eq!(bytes, expected.to_vec().expect("fits"));
    // A packet that the rewrite does not apply to keeps its source, and its own rule.
    let (is_hit, _) = direct.send(&udp("[fd00::7]:1", "[2001:db8::1]:1"));
    assert!(!is_hit);
}

/// A higher rule that did not match is why the lower one decided: its bits are in the mask.
#[test]
fn higher_priority_near_miss() {
    let mut direct = Direct::with_sides(Sides::ONE_WAY, vec![Box::new(Firewall::new(0))]);
    let permitted = tcp("10.0.0.1:39000", "192.0.2.1:443");
    direct.cache(&permitted);
    assert!(direct.send(&permitted).0);
    assert!(
        direct.send(&tcp("10.0.0.1:39001", "192.0.2.1:443")).0,
        "ports are free"
    );
    let (is_hit, outcome) = direct.send(&tcp("10.0.0.2:39000", "192.0.2.1:443"));
    assert_eq!((is_hit, outcome), (false, denied()));
}

/// A packet whose time to live would end in the chain meets no rule, whatever the rule does.
#[test]
fn time_to_live() {
    for later in [true, false] {
        let mut functions: Vec<Box<dyn RuleFunction>> =
            vec![Box::new(Router::new()), Box::new(Router::new())];
        if later {
            functions.push(Box::new(Firewall::new(0)));
        }
        let mut direct = Direct::with_sides(Sides::ONE_WAY, functions);
        // Denied by the firewall, if there is one, after two routers.
        let packet = |ttl| tcp("10.0.0.2:39000", "192.0.2.1:443").ttl(ttl);
        direct.cache(&packet(64));
        for ttl in [255, 64, 3, 2, 1] {
            let is_hit = direct.send(&packet(ttl)).0;
            assert_eq!(is_hit, ttl > 2, "time to live {ttl}");
        }
        assert_eq!(direct.replies, 2, "those that end are answered");
        if !later {
            let (_, outcome) = direct.send(&packet(9));
            let Outcome::Left { bytes, egress } = outcome else {
                panic!("forwarded")
            };
            assert_eq!((bytes[22], egress), (7, Some(1)));
        }
    }
}

/// Fragments never meet a rule. Packets with options do: were they with the slow path, those behind them
/// would pass them.
#[test]
fn fragment() {
    let mut direct = Direct::new(vec![Box::new(Firewall::new(0))]);
    let plain = udp("10.0.0.1:40000", "192.0.2.60:80");
    direct.cache(&plain);
    assert!(direct.send(&plain).0);
    for odd in [plain.fragment(0, true), plain.fragment(8, false)] {
        assert!(!direct.send(&odd).0);
    }
    assert!(direct.send(&plain.ipv4_options(&[1; 4])).0);
}

/// All flows share a default route; all the hot ones are cached. (That Algorithm 1 as printed
/// caches one of them is shown beside the selection.)
#[test]
fn shared_default_route() {
    let functions: Vec<Box<dyn RuleFunction>> =
        vec![Box::new(Translation::new(8)), Box::new(Router::new())];
    let mut direct = Direct::new(functions);
    let flows: Vec<_> = (0..6)
        .map(|flow| tcp(&format!("10.0.0.1:{}", 1000 + flow), "8.8.8.8:443"))
        .collect();
    for _ in 0..2 {
        flows.iter().for_each(|flow| _ = direct.send(flow));
        direct.wait(WINDOW);
    }
    assert!(flows.iter().all(|flow| direct.send(flow).0));
}

/// When an entry changes, the rules that came from it are gone before the change is made.
#[test]
fn invalidation() {
    let mut direct = Direct::new(vec![Box::new(Firewall::new(0)), Box::new(Router::new())]);
    let packet = tcp("10.0.0.1:40000", "192.0.2.1:80");
    direct.cache(&packet);
    assert!(direct.send(&packet).0);
    let mut out = Vec::new();
    let affected = Affected::Rules(vec![Concern::entries(vec![0])]);
    direct.delayed = Some(Vec::new());
    direct.slow.take_out(0, affected, direct.now, &mut out);
    direct.outputs(out);
    assert!(!direct.slow.may_change(), "the rule is still out there");
    assert!(direct.send(&packet).0);
    direct.deliver_delayed();
    assert!(direct.slow.may_change());
    assert_eq!(direct.table.active(), 0);
    for (place, function) in direct.slow.chain().functions_mut() {
        if place == 0 {
            let mut firewall = Firewall::new(0);
            firewall.insert_first(Rule::ANY, true);
            *function = Box::new(firewall);
        }
    }
    direct.slow.end_changes();
    assert_eq!(direct.send(&packet), (false, denied()));
    assert_eq!(direct.cache(&packet), denied());
    assert_eq!(direct.send(&packet), (true, denied()), "cached again");
}

/// That a port is not in use is a reason, too: a packet dropped for it must not stay dropped.
#[test]
fn invalidation_by_what_comes_into_being() {
    let mut direct = Direct::new(vec![Box::new(Translation::new(1))]);
    let inbound = tcp("192.0.2.1:443", "198.51.100.1:50000");
    assert_eq!(direct.cache(&inbound), denied());
    assert_eq!(direct.send(&inbound), (true, denied()));
    let (_, outcome) = direct.send(&tcp("10.0.0.1:1000", "192.0.2.1:443"));
    assert!(matches!(outcome, Outcome::Left { .. }));
    let (is_hit, outcome) = direct.send(&inbound);
    assert!(!is_hit && matches!(outcome, Outcome::Left { .. }));
}

/// Use on the fast path keeps an entry alive; without use it ends when it would have.
#[test]
fn hits_keep_entries_alive() {
    let mut direct = Direct::new(vec![Box::new(Translation::new(1))]);
    let (first, other) = (
        tcp("10.0.0.1:1000", "192.0.2.1:80"),
        tcp("10.0.0.2:1000", "192.0.2.1:80"),
    );
    direct.cache(&first);
    for _ in 0..10 {
        direct.wait(IDLE / 2);
        assert!(direct.send(&first).0, "the rule is used all along");
    }
    // The workers have not seen a packet for long. Somebody else wants the only port.
    let full = Outcome::Dropped(DropReason::FlowTableFull);
    assert_eq!(direct.send(&other), (false, full), "it is in use");
    assert!(direct.send(&first).0, "and the rule has not suffered");
    direct.wait(IDLE + Duration::from_nanos(1));
    let (_, outcome) = direct.send(&other);
    assert!(matches!(outcome, Outcome::Left { .. }), "it has ended");
    assert!(!direct.send(&first).0, "and the rule with it");
}

/// Rules for packets that go one way through the chain are not for those that go the other.
#[test]
fn direction_ambiguity() {
    let mut direct = Direct::new(vec![Box::new(Firewall::new(0))]);
    let packet = tcp("10.0.0.1:40000", "192.0.2.1:80");
    direct.cache(&packet);
    let bytes = packet.to_vec().expect("fits");
    let layout = dissect(&bytes).expect("well formed");
    let key = |direction| MatchKey::of(&bytes, &layout, 1, direction).expect("plain");
    assert!(direct.table.find(&key(Direction::Original)).is_some());
    assert_eq!(direct.table.find(&key(Direction::Reply)), None);
}

/// A rule is used only when every packet sent to the slow path before has come back.
#[test]
fn promotion_order() {
    let mut direct = Direct::new(vec![Box::new(Router::new())]);
    let packet = |number: usize| tcp("10.0.0.1:40000", "192.0.2.1:80").payload_len(number);
    direct.send(&packet(1));
    direct.wait(WINDOW);
    // Packet 2 makes the rule; packet 3 is still on its way to the slow path when it arrives.
    direct.delayed = Some(Vec::new());
    direct.send(&packet(2));
    let third = packet(3).to_vec().expect("fits");
    let mut punted = direct.frame(&third, 1);
    punted.direction = Default::default();
    let add = direct.delayed.take().expect("collected");
    let mut effects = Vec::new();
    for message in &add {
        direct.table.message(message, &mut effects);
    }
    direct.table.tick(direct.now, direct.now, &mut effects);
    let mark = effects.iter().find_map(|effect| match effect {
        Effect::Send(CacheMessage::Mark(mark, _)) => Some(*mark),
        _ => None,
    });
    // Packets 4 and 5 must not overtake packet 3.
    for number in [4, 5] {
        assert!(!direct.send(&packet(number)).0);
    }
    assert_eq!(direct.table.held(), 2);
    direct.punt(punted);
    direct.departed.clear();
    let mut effects = Vec::new();
    let wrong = mark.expect("due").wrapping_add(1);
    direct
        .table
        .message(&CacheMessage::Marked(wrong), &mut effects);
    direct.table.tick(direct.now, direct.now, &mut effects);
    assert!(effects.is_empty(), "the answer to another mark");
    let marked = CacheMessage::Marked(mark.expect("due"));
    direct.table.message(&marked, &mut effects);
    direct.table.tick(direct.now, direct.now, &mut effects);
    let lengths: Vec<usize> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Release(held, _) => Some(held.frame.len()),
            Effect::Send(_) => None,
        })
        .collect();
    assert_eq!(lengths, [54 + 4, 54 + 5], "they leave in order");
    assert!(direct.send(&packet(6)).0);
}

/// While functions are about to be replaced all their rules can be taken out, and nobody meets one.
#[test]
fn nothing_is_left_of_old_functions() {
    let mut direct = Direct::new(vec![Box::new(Router::new())]);
    let packet = tcp("10.0.0.1:40000", "192.0.2.1:80");
    direct.cache(&packet);
    assert!(direct.send(&packet).0);
    let mut out = Vec::new();
    let all = Affected::Everything;
    direct.slow.take_out(0, all, direct.now, &mut out);
    direct.outputs(out);
    assert!(direct.slow.may_change());
    assert_eq!(direct.slow.manager().rules(), 0);
    assert_eq!(direct.table.active(), 0);
    assert!(!direct.send(&packet).0);
}

/// A checksum that nobody computes so is mended as often by a rule as by the chain.
#[test]
fn rewritten_twice() {
    let (one, two) = (end("10.0.0.1:40000"), end("10.0.0.2:40000"));
    let functions = |last| -> Vec<Box<dyn RuleFunction>> {
        vec![
            Box::new(ConstantSource(one)),
            Box::new(ConstantSource(last)),
        ]
    };
    for last in [one, two] {
        let mut direct = Direct::with_sides(Sides::ONE_WAY, functions(last));
        direct.cache(&tcp("10.0.0.9:1", "192.0.2.1:80"));
        let mut bytes = PacketBuilder::tcp(last, end("192.0.2.1:80"))
            .to_vec()
            .expect("fits");
        let layout = dissect(&bytes).expect("well formed");
        assert!(verify_transport_checksum(&bytes, &layout));
        let at = usize::from(layout.l4) + 16;
        bytes[at..at + 2].fill(0xff);
        let mut expected = bytes.clone();
        if last == two {
            expected[at..at + 2].fill(0);
        }
        let frame = direct.frame(&bytes, 1);
        let left = |bytes| Outcome::Left {
            bytes,
            egress: None,
        };
        assert_eq!(direct.punt(frame), left(expected.clone()));
        assert_eq!(direct.send_bytes(&bytes, 1), (true, left(expected)));
    }
}

/// A function that waits for what is settled already is found out.
#[test]
fn waiting_for_nothing() {
    struct Stuck;
    impl RuleFunction for Stuck {
        fn name(&self) -> &'static str {
            "stuck"
        }
        fn handle(
            &mut self,
            packet: &mut Recorded<'_>,
            _: twinpath_core::Instant,
            _: &mut twinpath_rulecache::Answers<'_>,
        ) -> Verdict {
            assert!(packet.is_free(0));
            Verdict::Wait(0)
        }
    }
    let mut direct = Direct::new(vec![Box::new(Stuck)]);
    let (_, outcome) = direct.send(&tcp("10.0.0.1:1", "10.0.0.2:2"));
    assert_eq!(outcome, Outcome::Dropped(DropReason::InvalidState));
    assert_eq!(direct.slow.counters().stuck, 1);
}

/// Packets that waited for a rule which is taken out meanwhile go to the slow path at once, before
/// others of their flow, although other rules still wait.
#[test]
fn a_rule_cleared_while_packets_wait_for_it() {
    let mut direct = Direct::new(vec![Box::new(Translation::new(8))]);
    let flows = [1000, 2000].map(|port| tcp(&format!("10.0.0.1:{port}"), "192.0.2.1:80"));
    flows.iter().for_each(|flow| _ = direct.send(flow));
    direct.wait(WINDOW);
    direct.delayed = Some(Vec::new());
    flows.iter().for_each(|flow| _ = direct.send(flow));
    let mut effects = Vec::new();
    let mut names = Vec::new();
    for message in direct.delayed.take().expect("collected") {
        direct.table.message(&message, &mut effects);
        if let CacheMessage::Add(name, _) = message {
            names.push(name);
        }
    }
    // The first rule was alone when it came; both wait once its promotion is over.
    direct.table.tick(direct.now, direct.now, &mut effects);
    assert_eq!(names.len(), 2);
    assert!(!direct.send(&flows[0]).0);
    assert_eq!(direct.table.held(), 1);
    effects.clear();
    direct
        .table
        .message(&CacheMessage::Clear(names[0]), &mut effects);
    let punted = |effect: &Effect| matches!(effect, Effect::Release(_, Decision::Punt));
    assert_eq!(effects.iter().filter(|effect| punted(effect)).count(), 1);
    assert_eq!(direct.table.held(), 0);
}

/// A packet that waits at the worker holds up no connection but its own: a rule for many flows, one of which
/// is its flow, is taken out, and what was held for it goes on at once.
#[test]
fn a_rule_for_many_flows_waits_for_none_of_their_packets() {
    /// Datagrams to port 53 have an entry; what opens a connection waits until it is free.
    struct Opening;
    impl RuleFunction for Opening {
        fn name(&self) -> &'static str {
            "opening"
        }
        fn handle(
            &mut self,
            packet: &mut Recorded<'_>,
            _: twinpath_core::Instant,
            _: &mut twinpath_rulecache::Answers<'_>,
        ) -> Verdict {
            if packet.bits(Field::DestinationPort, 0xffff) == 53 {
                packet.depends_on(0, None);
            } else if packet.tcp_flags(flags::SYN) != 0 && !packet.is_free(0) {
                return Verdict::Wait(0);
            }
            Verdict::Forward
        }
    }
    let mut direct = Direct::with_sides(Sides::ONE_WAY, vec![Box::new(Opening)]);
    direct.cache(&udp("10.0.0.9:9", "192.0.2.1:53"));
    let other = tcp("10.0.0.2:2000", "192.0.2.1:80").flags(flags::ACK);
    assert!(!direct.send(&other).0);
    direct.delayed = Some(Vec::new());
    let opening = tcp("10.0.0.1:1000", "192.0.2.1:80").flags(flags::SYN);
    let bytes = opening.to_vec().expect("fits");
    let (packet, mut out) = (direct.frame(&bytes, 1), Vec::new());
    direct.slow.packet(packet, &mut direct.pools, &mut out);
    direct.outputs(out);
    assert_eq!(direct.slow.waiting(), 1);

    direct.wait(WINDOW);
    assert!(!direct.send(&other).0, "its rule is made");
    let (others, add) = {
        let sent = direct.delayed.take().expect("collected");
        let is_add = |message: &CacheMessage| matches!(message, CacheMessage::Add(..));
        sent.into_iter()
            .partition::<Vec<_>, _>(|message| !is_add(message))
    };
    assert_eq!(add.len(), 1);
    let mut effects = Vec::new();
    direct.table.message(&add[0], &mut effects);
    assert!(!direct.send(&other).0);
    assert_eq!(direct.table.held(), 1);
    direct.tick();
    assert_eq!(direct.table.held(), 0, "nobody waits any more");
    assert_eq!(direct.slow.waiting(), 1, "but who opens a connection");

    direct.delayed = Some(others);
    direct.deliver_delayed();
    assert_eq!(direct.slow.waiting(), 0);
}

/// Packets wait behind the first of their flow as it came to the chain, whatever functions before
/// the one that has it wait have made of its addresses; and however many wait, all go in order,
/// with little stack.
#[test]
fn thousands_wait_behind_the_first_of_their_flow() {
    let run = std::thread::Builder::new().stack_size(256 << 10);
    let run = run.spawn(|| {
        let count = 4000u16;
        // Replies pass the functions in reverse: another source first, then the binding.
        let other_source = Box::new(ConstantSource(end("10.0.0.9:9")));
        let mut direct = Direct::new(vec![Box::new(Translation::new(8)), other_source]);
        direct.pools = Pools::new(usize::from(count) + 64, 1);
        direct.send(&udp("10.0.0.1:40000", "192.0.2.1:80"));
        direct.cache(&udp("192.0.2.1:80", "198.51.100.1:50000"));
        assert!(direct.table.active() > 0, "a rule came from the binding");
        direct.wait(IDLE * 2);
        direct.delayed = Some(Vec::new());
        direct.departed.clear();
        for number in 0..count {
            let number = number.to_be_bytes();
            let packet = udp("192.0.2.1:80", "198.51.100.1:50000").payload(&number);
            let bytes = packet.to_vec().expect("fits");
            let (packet, mut out) = (direct.frame(&bytes, 1), Vec::new());
            direct.slow.packet(packet, &mut direct.pools, &mut out);
            direct.outputs(out);
        }
        assert_eq!(direct.slow.waiting(), usize::from(count));
        direct.deliver_delayed();
        assert_eq!(direct.slow.waiting(), 0);
        assert_eq!(direct.departed.len(), usize::from(count));
    });
    run.expect("a thread").join().expect("no panic");
}
