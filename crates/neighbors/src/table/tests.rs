use super::announcing::{MOST_ADDRESSES, PACE, ROUNDS};
use super::doubts::{INTERVAL, MOST_QUESTIONS};
use super::messages::{ALL_NODES, advertisement};
use super::*;
use crate::config::OwnAddress;
use proptest::prelude::*;
use std::time::Duration;

const NODE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const HOST: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 8]);

fn ip(text: &str) -> Address {
    text.parse::<std::net::IpAddr>().expect("an address").into()
}

struct Bench {
    neighbors: Neighbors,
    pools: Pools,
    now: Instant,
}

impl Bench {
    fn new(limits: Limits) -> Self {
        let own = |text, prefix_bits| OwnAddress {
            address: ip(text),
            prefix_bits,
        };
        let port = PortAddresses {
            mac: NODE,
            own: vec![own("10.0.0.1", 24), own("fd00::1", 64)],
            answered: vec![(ip("198.51.100.1"), ip("198.51.100.1"))],
            resolver: Resolver::Own,
        };
        Self {
            neighbors: Neighbors::new(vec![port], limits),
            pools: Pools::new(64, 1),
            now: Instant(1_000_000_000),
        }
    }

    fn leaves(&mut self, next: &str, mark: u8) -> Vec<Vec<u8>> {
        let mut out = Leaving::new();
        let frame = self.pools.take_filled(&[mark; 60]).expect("room");
        let (now, pools) = (self.now, &mut self.pools);
        self.neighbors
            .leaves(0, ip(next), frame, now, pools, &mut out);
        self.bytes(out)
    }

    fn arrived(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut out = Leaving::new();
        let (now, pools) = (self.now, &mut self.pools);
        assert!(self.neighbors.arrived(0, frame, now, pools, &mut out));
        self.bytes(out)
    }

    fn after(&mut self, time: Duration) -> Vec<Vec<u8>> {
        self.now = self.now + time;
        let mut out = Leaving::new();
        self.neighbors.advance(self.now, &mut self.pools, &mut out);
        self.bytes(out)
    }

    /// The marks of packets that nobody took.
    fn undelivered(&mut self) -> Vec<u8> {
        let frames: Vec<Frame> = self.neighbors.take_undelivered().collect();
        frames
            .into_iter()
            .map(|frame| {
                let mark = frame.bytes().last().copied();
                self.pools.give(frame);
                mark.expect("it is marked")
            })
            .collect()
    }

    fn bytes(&mut self, out: Leaving) -> Vec<Vec<u8>> {
        let give = |(port, frame): (u16, Frame)| {
            assert_eq!(port, 0);
            let bytes = frame.bytes().to_vec();
            self.pools.give(frame);
            bytes
        };
        out.into_iter().map(give).collect()
    }
}

fn answer(sender: &str, mac: MacAddress) -> Vec<u8> {
    match ip(sender).is_v4() {
        true => Arp {
            is_reply: true,
            sender_mac: mac,
            sender: ip(sender),
            target_mac: NODE,
            target: ip("10.0.0.1"),
        }
        .to_frame(NODE)
        .to_vec(),
        false => advertisement(mac, ip(sender), ip(sender), ip("fd00::1"), true),
    }
}

/// Found by an attacker: who sends its questions with a priority, in no VLAN, got no answers. In a VLAN it gets none.
#[test]
fn a_question_with_a_priority_is_answered() {
    let arp = Arp {
        is_reply: false,
        sender_mac: HOST,
        sender: ip("10.0.0.9"),
        target_mac: MacAddress([0; 6]),
        target: ip("10.0.0.1"),
    };
    let discovery = NeighborMessage {
        kind: Kind::Solicitation,
        source: ip("fd00::9"),
        destination: neighbor::solicited_node(ip("fd00::1")),
        target: ip("fd00::1"),
        link_address: Some(HOST),
    };
    let (solicitation, len) = discovery.to_frame(HOST, everybody(ip("fd00::1")));
    let arp = arp.to_frame(MacAddress([0xff; 6]));
    for question in [&arp[..], &solicitation[..len]] {
        let tagged = |number: u8| {
            let tag = [0x81, 0x00, 0x60, number];
            [&question[..12], &tag, &question[12..]].concat()
        };
        for (frame, is_answered) in [
            (question.to_vec(), true),
            (tagged(0), true),
            (tagged(7), false),
        ] {
            let mut bench = Bench::new(Limits::default());
            let (mut out, now) = (Leaving::new(), bench.now);
            let pools = &mut bench.pools;
            let is_done = bench.neighbors.arrived(0, &frame, now, pools, &mut out);
            assert_eq!(is_done, is_answered);
            assert_eq!(out.len(), usize::from(is_answered));
        }
    }
}

/// Whether a frame asks for an address, and of whom.
fn question(frame: &[u8]) -> Option<(Address, MacAddress)> {
    let to = MacAddress(*frame.first_chunk().expect("a frame"));
    match (Arp::of(frame), NeighborMessage::of(frame)) {
        (Some(arp), _) if !arp.is_reply => Some((arp.target, to)),
        (_, Some(message)) if message.kind == Kind::Solicitation => Some((message.target, to)),
        _ => None,
    }
}

#[test]
fn packets_wait_for_an_answer_and_go_in_order() {
    for next in ["10.0.0.9", "fd00::9"] {
        let mut bench = Bench::new(Limits::default());
        let asked = bench.leaves(next, 1);
        assert_eq!(question(&asked[0]), Some((ip(next), everybody(ip(next)))));
        assert!(asked.len() == 1 && bench.leaves(next, 2).is_empty());
        let went = bench.arrived(&answer(next, HOST));
        let marks: Vec<u8> = went.iter().map(|frame| frame[20]).collect();
        assert_eq!(marks, [1, 2]);
        assert!(
            went.iter()
                .all(|frame| frame[..6] == HOST.0 && frame[6..12] == NODE.0)
        );
        assert_eq!(bench.leaves(next, 3).len(), 1);
        let known: Vec<_> = bench.neighbors.list().collect();
        assert_eq!((known.len(), known[0].state), (1, State::Reachable));
    }
}

/// Who is known goes on to get packets, and all are asked once.
#[test]
fn behind_a_link_that_was_gone_all_are_asked_at_once() {
    for next in ["10.0.0.9", "fd00::9"] {
        let mut bench = Bench::new(Limits::default());
        bench.leaves(next, 1);
        bench.arrived(&answer(next, HOST));
        bench.neighbors.doubt(0);
        let went = bench.leaves(next, 2);
        assert_eq!(question(&went[0]), Some((ip(next), everybody(ip(next)))));
        assert!(went.len() == 2 && went[1][..6] == HOST.0);
        assert_eq!(bench.leaves(next, 3).len(), 1, "it was asked");
        bench.arrived(&answer(next, OTHER));
        let went = bench.leaves(next, 4);
        assert!(went.len() == 1 && went[0][..6] == OTHER.0);
        // Nobody answers: it is asked twice more, and given up.
        bench.neighbors.doubt(0);
        bench.leaves(next, 5);
        for left in [1, 1, 0] {
            assert_eq!(bench.after(Duration::from_secs(1)).len(), left);
        }
        assert_eq!(bench.neighbors.count(), 0);
    }
}

#[test]
fn no_more_are_asked_anew_at_a_time_than_a_cable_bears() {
    let mut bench = Bench::new(Limits::default());
    let hosts: Vec<String> = (2..202).map(|host| format!("10.0.0.{host}")).collect();
    for host in &hosts {
        bench.leaves(host, 1);
        bench.arrived(&answer(host, HOST));
    }
    bench.neighbors.doubt(0);
    let mut asked = Vec::new();
    for _ in 0..4 {
        let before = bench.neighbors.counters().questions;
        let went = hosts.iter().flat_map(|host| bench.leaves(host, 2));
        let packets = went.filter(|frame| question(frame).is_none()).count();
        assert_eq!(packets, hosts.len(), "none waits");
        asked.push(bench.neighbors.counters().questions - before);
        bench.now = bench.now + INTERVAL;
    }
    let most = u64::from(MOST_QUESTIONS);
    assert_eq!(asked, [most, most, most, 200 - 3 * most]);
}

#[test]
fn who_does_not_answer_is_asked_thrice_and_given_up() {
    for next in ["10.0.0.9", "fd00::9"] {
        let mut bench = Bench::new(Limits::default());
        bench.leaves(next, 1);
        for _ in 0..2 {
            let again = bench.after(Duration::from_secs(1));
            assert_eq!(
                question(&again[0]).map(|(target, _)| target),
                Some(ip(next))
            );
        }
        assert!(bench.after(Duration::from_secs(1)).is_empty());
        let counters = bench.neighbors.counters();
        assert_eq!(
            (
                counters.questions,
                counters.unanswered,
                counters.unanswered_drops
            ),
            (3, 1, 1)
        );
        assert_eq!(bench.neighbors.list().count(), 0);
        assert_eq!(bench.undelivered(), [1]);
        assert_eq!(bench.pools.small().available(), 64, "nothing is kept");
        assert_eq!(bench.neighbors.next_deadline(), None);
        assert_eq!(bench.leaves(next, 2).len(), 1, "it is asked anew");
    }
}

#[test]
fn a_neighbour_in_use_is_asked_now_and_then_and_replaced_when_it_is_gone() {
    let mut bench = Bench::new(Limits::default());
    bench.leaves("10.0.0.9", 1);
    bench.arrived(&answer("10.0.0.9", HOST));
    assert!(bench.after(Duration::from_secs(30)).is_empty());
    assert_eq!(
        bench.leaves("10.0.0.9", 2)[0][..6],
        HOST.0,
        "stale, but good"
    );
    let asked = bench.after(Duration::from_secs(5));
    assert_eq!(
        question(&asked[0]),
        Some((ip("10.0.0.9"), HOST)),
        "only it is asked"
    );
    assert_eq!(bench.leaves("10.0.0.9", 3)[0][..6], HOST.0);
    bench.arrived(&answer("10.0.0.9", HOST));
    assert_eq!(
        bench.neighbors.list().next().expect("known").state,
        State::Reachable
    );
    bench.after(Duration::from_secs(30));
    bench.leaves("10.0.0.9", 4);
    for _ in 0..4 {
        bench.after(Duration::from_secs(5));
    }
    assert_eq!(bench.neighbors.list().count(), 0);
    let asked = bench.leaves("10.0.0.9", 5);
    assert_eq!(
        question(&asked[0]),
        Some((ip("10.0.0.9"), MacAddress([0xff; 6])))
    );
    assert_eq!(bench.arrived(&answer("10.0.0.9", OTHER))[0][..6], OTHER.0);
}

/// Whoever claims a neighbour's address is believed, as one that takes over from another wants to
/// be; but all are asked at once, and the neighbour answers if it is still there.
/// RFC 4861 §4.4, §7.2.5: an answer to a question at a known MAC address need not tell that again.
#[test]
fn an_answer_without_a_mac_address_confirms_the_one_that_was_asked() {
    let bare = |is_solicited| {
        let answer = NeighborMessage {
            kind: Kind::Advertisement {
                is_router: false,
                is_solicited,
                overrides: false,
            },
            source: ip("fd00::9"),
            destination: ip("fd00::1"),
            target: ip("fd00::9"),
            link_address: None,
        };
        let (frame, len) = answer.to_frame(HOST, NODE);
        frame[..len].to_vec()
    };
    let mut bench = Bench::new(Limits::default());
    let state = |bench: &Bench| bench.neighbors.list().next().expect("it is there").state;
    bench.leaves("fd00::9", 1);
    assert!(bench.arrived(&bare(true)).is_empty());
    assert_eq!(state(&bench), State::Incomplete, "it is not known where");
    assert_eq!(bench.arrived(&answer("fd00::9", HOST)).len(), 1);
    for _ in 0..10 {
        bench.after(Duration::from_secs(30));
        assert_eq!(bench.leaves("fd00::9", 2)[0][..6], HOST.0);
        bench.arrived(&bare(true));
        assert_eq!(state(&bench), State::Delay, "nobody has asked");
        bench.after(Duration::from_secs(5));
        bench.arrived(&bare(false));
        assert_eq!(state(&bench), State::Probe, "it is no answer");
        bench.arrived(&bare(true));
        assert_eq!(state(&bench), State::Reachable);
    }
    assert_eq!(bench.neighbors.counters().unanswered, 0);
}

#[test]
fn whoever_is_replaced_is_asked_at_once() {
    let claim = Arp {
        is_reply: false,
        sender_mac: OTHER,
        sender: ip("10.0.0.9"),
        target_mac: MacAddress([0; 6]),
        target: ip("10.0.0.9"),
    };
    let claim = claim.to_frame(MacAddress([0xff; 6]));
    let mut bench = Bench::new(Limits::default());
    bench.leaves("10.0.0.9", 1);
    bench.arrived(&answer("10.0.0.9", HOST));
    let asked = bench.arrived(&claim);
    let everybody = MacAddress([0xff; 6]);
    assert_eq!(question(&asked[0]), Some((ip("10.0.0.9"), everybody)));
    assert_eq!(bench.leaves("10.0.0.9", 2)[0][..6], OTHER.0);
    for _ in 0..9 {
        assert!(bench.arrived(&claim).is_empty(), "no question for each");
        bench.after(Duration::from_millis(100));
    }
    let asked = bench.after(Duration::from_millis(100));
    assert_eq!(asked.len(), 1, "claims do not put the next question off");
    bench.arrived(&answer("10.0.0.9", HOST));
    assert_eq!(bench.leaves("10.0.0.9", 3)[0][..6], HOST.0);
}

#[test]
fn questions_about_own_addresses_are_answered() {
    let mut bench = Bench::new(Limits::default());
    for target in ["10.0.0.1", "198.51.100.1"] {
        let asks = Arp {
            is_reply: false,
            sender_mac: HOST,
            sender: ip("10.0.0.9"),
            target_mac: MacAddress([0; 6]),
            target: ip(target),
        };
        let answers = bench.arrived(&asks.to_frame(MacAddress([0xff; 6])));
        let said = Arp::of(&answers[0]).expect("an answer");
        assert_eq!(
            (said.is_reply, said.sender, said.sender_mac),
            (true, ip(target), NODE)
        );
        assert_eq!((said.target, said.target_mac), (ip("10.0.0.9"), HOST));
        let other = Arp {
            target: ip("10.0.0.77"),
            ..asks
        };
        assert!(
            bench
                .arrived(&other.to_frame(MacAddress([0xff; 6])))
                .is_empty()
        );
    }
    assert_eq!(
        bench.leaves("10.0.0.9", 1)[0][..6],
        HOST.0,
        "who asks is known"
    );
    for (source, link_address) in [("fd00::9", Some(HOST)), ("::", None)] {
        let asks = NeighborMessage {
            kind: Kind::Solicitation,
            source: ip(source),
            destination: neighbor::solicited_node(ip("fd00::1")),
            target: ip("fd00::1"),
            link_address,
        };
        let (frame, len) = asks.to_frame(HOST, everybody(ip("fd00::1")));
        let answers = bench.arrived(&frame[..len]);
        let said = NeighborMessage::of(&answers[0]).expect("a valid answer");
        assert_eq!(
            (said.target, said.link_address),
            (ip("fd00::1"), Some(NODE))
        );
        let to = if link_address.is_some() {
            ip("fd00::9")
        } else {
            ALL_NODES
        };
        assert_eq!(said.destination, to);
    }
}

#[test]
fn nobody_becomes_known_or_another_by_lying() {
    let mut bench = Bench::new(Limits::default());
    for liar in ["10.0.0.9", "fd00::9"] {
        assert!(bench.arrived(&answer(liar, OTHER)).is_empty());
        assert_eq!(bench.neighbors.list().count(), 0, "nobody had asked");
    }
    for own in ["10.0.0.1", "fd00::1", "198.51.100.1"] {
        bench.arrived(&answer(own, OTHER));
    }
    assert_eq!(bench.neighbors.counters().conflicts, 3);
    bench.leaves("10.0.0.9", 1);
    bench.arrived(&answer("10.0.0.9", MacAddress([0xff; 6])));
    bench.arrived(&answer("10.0.0.9", MacAddress([1, 0, 0x5e, 0, 0, 1])));
    assert_eq!(bench.neighbors.list().next().expect("asked for").mac, None);
}

#[test]
fn a_scan_is_bounded_and_leaves_neighbours_alone() {
    let limits = Limits {
        neighbors: 8,
        unresolved: 4,
        waiting_each: 2,
    };
    let mut bench = Bench::new(limits);
    bench.leaves("10.0.0.9", 1);
    bench.arrived(&answer("10.0.0.9", HOST));
    for scanned in 20..200 {
        for _ in 0..3 {
            bench.leaves(&format!("10.0.0.{scanned}"), 1);
        }
        assert_eq!(bench.leaves("10.0.0.9", 2)[0][..6], HOST.0);
    }
    let counters = bench.neighbors.counters();
    assert_eq!((counters.questions, counters.backlog_drops), (5, 4));
    assert_eq!(counters.unresolved_drops, 176 * 3);
    assert_eq!(bench.neighbors.list().count(), 5);
    bench.after(Duration::from_secs(1));
    bench.after(Duration::from_secs(1));
    bench.after(Duration::from_secs(1));
    bench.undelivered();
    assert_eq!(bench.pools.small().available(), 64);
}

/// Whoever scans from outside fills the places of one cable and one version, and there the oldest of
/// those that are not there gives way.
#[test]
fn who_is_there_is_found_while_a_network_is_scanned() {
    let limits = Limits {
        unresolved: 4,
        ..Limits::default()
    };
    let mut bench = Bench::new(limits);
    for scanned in 20..24 {
        bench.leaves(&format!("10.0.0.{scanned}"), 1);
        bench.after(Duration::from_millis(1));
    }
    assert_eq!(bench.leaves("fd00::9", 2).len(), 1, "the other version");
    assert_eq!(bench.leaves("10.0.0.9", 1).len(), 0, "each has its time");
    assert_eq!(bench.neighbors.counters().unresolved_drops, 1);
    bench.after(unresolved::LEAST_TIME);
    for (place, newcomer) in ["10.0.0.9", "10.0.0.10"].into_iter().enumerate() {
        assert_eq!(bench.leaves(newcomer, 3).len(), 1, "it is asked for");
        let gone = ip(&format!("10.0.0.{}", 20 + place));
        let known: Vec<Address> = bench.neighbors.list().map(|one| one.address).collect();
        assert!(known.len() == 5 && !known.contains(&gone), "{known:?}");
    }
    let went = bench.arrived(&answer("10.0.0.9", HOST));
    assert_eq!(went.len(), 1);
    assert_eq!(
        bench.leaves("10.0.0.11", 3).len(),
        1,
        "an answer makes room"
    );
    let counters = bench.neighbors.counters();
    assert_eq!((counters.unresolved_drops, counters.evictions), (3, 2));
    for _ in 0..3 {
        bench.after(Duration::from_secs(1));
    }
    assert_eq!(bench.neighbors.list().count(), 1);
    bench.undelivered();
    assert_eq!(bench.pools.small().available(), 64, "no buffer is lost");
}

#[test]
fn each_cable_has_places_of_its_own() {
    let limits = Limits {
        unresolved: 2,
        ..Limits::default()
    };
    let mut bench = Bench::new(limits);
    let port = bench.neighbors.ports()[0].clone();
    bench.neighbors = Neighbors::new(vec![port.clone(), port], limits);
    for scanned in 20..24 {
        bench.leaves(&format!("10.0.0.{scanned}"), 1);
    }
    let frame = bench.pools.take_filled(&[1; 60]).expect("room");
    let (now, pools, mut out) = (bench.now, &mut bench.pools, Leaving::new());
    let next = ip("10.0.0.9");
    bench.neighbors.leaves(1, next, frame, now, pools, &mut out);
    assert_eq!(out.len(), 1, "it is asked for");
    assert_eq!(bench.neighbors.counters().unresolved_drops, 2);
}

/// What looks like an answer, and answers no open question, may be of anybody: the neighbour is asked,
/// and what it says counts.
#[test]
fn an_answer_that_nobody_asked_for_takes_no_neighbour_away() {
    for host in ["10.0.0.9", "fd00::9"] {
        for stale in [false, true] {
            let mut bench = Bench::new(Limits::default());
            bench.leaves(host, 1);
            bench.arrived(&answer(host, HOST));
            if stale {
                bench.after(Duration::from_secs(30));
            }
            let asked = bench.arrived(&answer(host, OTHER));
            let all = everybody(ip(host));
            assert_eq!(asked.len(), 1, "{host}: all are asked");
            assert_eq!(question(&asked[0]), Some((ip(host), all)));
            bench.arrived(&answer(host, HOST));
            assert_eq!(bench.leaves(host, 2)[0][..6], HOST.0);
            let state = bench.neighbors.list().next().map(|one| one.state);
            assert_eq!(state, Some(State::Reachable));
        }
        // The same address proves nothing either.
        let mut bench = Bench::new(Limits::default());
        bench.leaves(host, 1);
        bench.arrived(&answer(host, HOST));
        bench.after(Duration::from_secs(30));
        bench.arrived(&answer(host, HOST));
        let state = bench.neighbors.list().next().map(|one| one.state);
        assert_eq!(state, Some(State::Stale));
    }
}

#[test]
fn a_full_table_forgets_who_is_idle() {
    let limits = Limits {
        neighbors: 4,
        ..Limits::default()
    };
    let mut bench = Bench::new(limits);
    for host in 10..30 {
        let next = format!("10.0.0.{host}");
        bench.leaves(&next, 1);
        assert_eq!(bench.arrived(&answer(&next, HOST)).len(), 1, "{next}");
        bench.leaves("10.0.0.10", 1);
    }
    assert_eq!(bench.neighbors.list().count(), 4);
    assert!(bench.neighbors.counters().evictions >= 16);
}

proptest! {
    /// Whatever comes, bounds hold, no buffer is lost, and a packet leaves to a MAC address that
    /// its neighbour has told.
    #[test]
    fn bounds_hold(events in prop::collection::vec((0..4u8, 0..12u8, 0..3u8), 1..300)) {
        let limits = Limits { neighbors: 6, unresolved: 3, waiting_each: 2 };
        let mut bench = Bench::new(limits);
        let mut told = std::collections::BTreeSet::new();
        for (what, host, mac) in events {
            let next = match host % 2 {
                0 => format!("10.0.0.{}", 20 + host),
                _ => format!("fd00::{}", 20 + host),
            };
            let from = MacAddress([2, 0, 0, 0, host, mac]);
            let went = match what {
                0 | 1 => bench.leaves(&next, host),
                2 => {
                    told.insert(from.0);
                    bench.arrived(&answer(&next, from))
                }
                _ => bench.after(Duration::from_millis(700 * u64::from(mac + 1))),
            };
            for frame in went.iter().filter(|frame| question(frame).is_none()) {
                prop_assert!(told.contains(&frame[..6]), "{frame:?}");
                prop_assert_eq!(frame[4], frame[20], "to the host that it is for");
            }
            let known: Vec<_> = bench.neighbors.list().collect();
            prop_assert!(known.len() <= 6);
            let without = known.iter().filter(|one| one.mac.is_none()).count();
            let of = |is_v4: bool| {
                let of_version = known.iter().filter(|one| one.address.is_v4() == is_v4);
                of_version.filter(|one| one.mac.is_none()).count()
            };
            prop_assert!(of(true) <= 3 && of(false) <= 3);
            prop_assert_eq!(without, bench.neighbors.unresolved.count());
            let waiting: usize = known.iter().map(|one| one.waiting).sum();
            bench.undelivered();
            prop_assert_eq!(bench.pools.small().available(), 64 - waiting);
        }
    }

    #[test]
    fn any_bytes_are_harmless(frame in prop::collection::vec(any::<u8>(), 0..120), kind in 0..3u8) {
        let mut bench = Bench::new(Limits::default());
        let mut frame = frame;
        if let Some(place) = frame.get_mut(12..14) {
            match kind {
                0 => place.copy_from_slice(&[8, 6]),
                1 => place.copy_from_slice(&[0x86, 0xdd]),
                _ => {}
            }
        }
        let mut out = Leaving::new();
        bench.neighbors.arrived(0, &frame, bench.now, &mut bench.pools, &mut out);
        bench.neighbors.arrived(7, &frame, bench.now, &mut bench.pools, &mut out);
    }
}

/// A port whose addresses the kernel has.
fn kernels() -> Bench {
    let mut bench = Bench::new(Limits::default());
    let port = PortAddresses {
        mac: NODE,
        own: Vec::new(),
        answered: vec![(ip("198.51.100.1"), ip("198.51.100.1"))],
        resolver: Resolver::Kernel,
    };
    bench.neighbors = Neighbors::new(vec![port], Limits::default());
    bench
}

impl Bench {
    fn questions(&mut self) -> Vec<(u16, Address)> {
        self.neighbors.take_questions().collect()
    }

    fn kernel_says(&mut self, address: &str, mac: Option<MacAddress>) -> Vec<Vec<u8>> {
        let mut out = Leaving::new();
        let (now, pools) = (self.now, &mut self.pools);
        self.neighbors
            .kernel_says(0, ip(address), mac, now, pools, &mut out);
        self.bytes(out)
    }
}

#[test]
fn the_kernel_is_asked_in_place_of_the_cable() {
    let mut bench = kernels();
    let next = (0, ip("10.0.0.9"));
    assert!(bench.leaves("10.0.0.9", 7).is_empty());
    assert_eq!(bench.questions(), [next]);
    // It is asked again while it says nothing.
    assert!(bench.after(Duration::from_secs(1)).is_empty());
    assert_eq!(bench.questions(), [next]);
    let released = bench.kernel_says("10.0.0.9", Some(HOST));
    assert_eq!(released.len(), 1);
    assert_eq!(released[0][..6], HOST.0);
    assert_eq!(bench.leaves("10.0.0.9", 8).len(), 1);
    assert_eq!(bench.questions(), []);
    // One that is used is asked for again, that the kernel asks it.
    bench.after(Duration::from_secs(31));
    assert_eq!(bench.leaves("10.0.0.9", 9).len(), 1);
    bench.after(Duration::from_secs(6));
    assert_eq!(bench.questions(), [next]);
    assert_eq!(bench.kernel_says("10.0.0.9", Some(OTHER)), [[0u8; 0]; 0]);
    assert_eq!(bench.leaves("10.0.0.9", 9)[0][..6], OTHER.0);
}

#[test]
fn what_the_kernel_does_not_find_is_dropped() {
    let mut bench = kernels();
    bench.leaves("10.0.0.9", 7);
    bench.kernel_says("10.0.0.9", None);
    assert_eq!(bench.neighbors.count(), 0);
    assert_eq!(bench.neighbors.counters().unanswered_drops, 1);
    assert_eq!(bench.undelivered(), [7]);
    // What nobody has asked for is not kept.
    bench.kernel_says("10.0.0.8", Some(HOST));
    assert_eq!(bench.neighbors.count(), 0);
}

#[test]
fn the_node_answers_for_what_the_chain_has_alone() {
    let mut bench = kernels();
    let question = |target: &str| Arp {
        is_reply: false,
        sender_mac: HOST,
        sender: ip("198.51.100.9"),
        target_mac: MacAddress([0; 6]),
        target: ip(target),
    };
    let frame = question("198.51.100.1").to_frame(MacAddress([0xff; 6]));
    let answers = bench.arrived(&frame);
    assert_eq!(answers.len(), 1);
    let frame = question("198.51.100.2").to_frame(MacAddress([0xff; 6]));
    let mut out = Leaving::new();
    let (now, pools) = (bench.now, &mut bench.pools);
    assert!(!bench.neighbors.arrived(0, &frame, now, pools, &mut out));
    assert!(out.is_empty());
}

/// The address that a frame announces to all.
fn announced(frame: &[u8]) -> Address {
    let to = MacAddress(*frame.first_chunk().expect("a frame"));
    match (Arp::of(frame), NeighborMessage::of(frame)) {
        (Some(arp), _) => {
            assert_eq!((arp.sender, arp.sender_mac), (arp.target, NODE));
            assert!(!arp.is_reply && to == MacAddress([0xff; 6]));
            arp.target
        }
        (_, Some(message)) => {
            let kind = Kind::Advertisement {
                is_router: true,
                is_solicited: false,
                overrides: true,
            };
            assert_eq!((message.kind, message.link_address), (kind, Some(NODE)));
            assert_eq!(to, neighbor::multicast_mac(ALL_NODES));
            message.target
        }
        _ => panic!("no announcement"),
    }
}

/// Its own addresses, and those that it answers for, each several times, and none at the same time as another.
#[test]
fn all_addresses_are_announced_one_after_the_other() {
    let mut bench = Bench::new(Limits::default());
    let answered = &mut bench.neighbors.ports[0].answered;
    answered.push((ip("fd01::5"), ip("fd01::6")));
    let own = [
        "10.0.0.1",
        "fd00::1",
        "fe80::ff:fe00:1",
        "198.51.100.1",
        "fd01::5",
        "fd01::6",
    ];
    assert!(bench.after(PACE).is_empty(), "nothing has begun");
    bench.neighbors.announce(0, bench.now);
    let mut told = Vec::new();
    while let Some(due) = bench.neighbors.next_deadline() {
        let frames = bench.after(due.since(bench.now));
        assert!(frames.len() <= 1, "{frames:?}");
        told.extend(frames.iter().map(|frame| announced(frame)));
    }
    let expected = [own.map(ip); ROUNDS as usize].concat();
    assert_eq!(told, expected);
    let counted = bench.neighbors.counters().announcements;
    assert_eq!(counted, told.len() as u64);
}

/// A port that answers for whole networks announces a part of them, at a bounded rate.
#[test]
fn many_addresses_are_no_burst() {
    let mut bench = Bench::new(Limits::default());
    bench.neighbors.ports[0].answered = vec![(ip("10.9.0.0"), ip("10.9.255.255"))];
    bench.neighbors.announce(0, bench.now);
    let (mut told, began) = (0, bench.now);
    while let Some(due) = bench.neighbors.next_deadline() {
        told += bench.after(due.since(bench.now)).len() as u32;
        assert!(bench.now.since(began) + PACE >= PACE * told, "{told}");
    }
    assert_eq!(u128::from(told), MOST_ADDRESSES * u128::from(ROUNDS));
}

#[test]
fn who_only_listens_announces_nothing() {
    let mut bench = Bench::new(Limits::default());
    let neighbors = Neighbors::new(bench.neighbors.ports().to_vec(), Limits::default());
    bench.neighbors = neighbors.only_listening();
    bench.neighbors.announce(0, bench.now);
    assert_eq!(bench.neighbors.next_deadline(), None);
}

/// No packet waits for a neighbour that somebody else knew; it is asked whether it is there.
#[test]
fn what_was_learnt_is_used_and_confirmed() {
    for next in ["10.0.0.9", "fd00::9"] {
        let mut bench = Bench::new(Limits::default());
        bench.neighbors.learn(0, ip(next), HOST);
        assert_eq!(bench.neighbors.next_deadline(), None, "nobody needs it");
        let went = bench.leaves(next, 1);
        assert_eq!((went.len(), &went[0][..6]), (1, &HOST.0[..]));
        assert_eq!(bench.neighbors.counters().waited, 0);
        let asked = bench.after(Duration::from_secs(5));
        assert_eq!(question(&asked[0]), Some((ip(next), HOST)));
        // It does not replace what is known.
        bench.arrived(&answer(next, OTHER));
        bench.neighbors.learn(0, ip(next), HOST);
        assert_eq!(bench.leaves(next, 2)[0][..6], OTHER.0);
    }
    let mut bench = Bench::new(Limits::default());
    for (address, mac) in [
        ("10.0.0.1", HOST),
        ("198.51.100.1", HOST),
        ("10.0.0.9", MacAddress([1; 6])),
    ] {
        bench.neighbors.learn(0, ip(address), mac);
    }
    assert_eq!(
        bench.neighbors.count(),
        0,
        "its own, and groups, are no neighbours"
    );
}
