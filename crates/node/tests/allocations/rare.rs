//! What is seldom allocates nothing either: tags, fragments in any order, ICMP errors, segments out of
//! order. Two things make lists by design, and those are counted:
//!
//! - fragments that a translation has kept, because the first of their datagram came later, go on in
//!   lists that are made when it comes,
//! - an ICMP error about a TCP segment waits at a translation until rules have told what they saw of the
//!   connection, in the books of what waits.

use super::{BETWEEN_ROUNDS, Bench, DATA, FLOWS, Handling, Kind, ends, ways};
use allocation_counter::measure;
use twinpath_control::live::Live;
use twinpath_control::report::Report;
use twinpath_core::wire::fragment::cut;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{Endpoint, Fragment, Network, PacketBuilder, dissect};
use twinpath_node::BATCH;
use twinpath_node::observe::Observer;

/// Until a translation remembers as many datagrams in fragments as it ever does: in each round there are
/// two of each conversation.
const WARM_ROUNDS: usize = 100;
const ROUNDS: usize = 40;

/// Lists for the fragments of a datagram that a translation has kept: of what the function lets go, of
/// what goes on behind the first one, and of the packets that they are.
const LISTS_OF_KEPT: u64 = 3;

/// Allocations for a packet that waits for rules: itself, its places in six trees by which it is found, and
/// a list or two for each of the two rules that tell, and for whoever waits for them.
const MOST_OF_WAITING: u64 = 20;

/// Bytes of a datagram's data in each fragment but the last.
const PART: usize = 256;

/// The sequence number of either end's SYN.
const FIRST: u32 = 1000;

/// Packets that come together.
type Burst = Vec<Vec<u8>>;

/// Whom a packet is from, and for whom.
type Ends = (Endpoint, Endpoint);

/// What is seldom.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Rare {
    /// Datagrams behind a VLAN tag.
    Tagged,
    /// Datagrams in three fragments, in order.
    Parts,
    /// The same, the last one first.
    PartsInDisorder,
    /// The same in order, each with a whole datagram of its flow right behind it.
    WholeBehindParts,
    /// ICMP errors of either end about datagrams of the other.
    Errors,
    /// ICMP errors of either end about segments of the other that are under way.
    ErrorsAboutSegments,
    /// Segments of which the second comes before the first.
    SegmentsInDisorder,
}

/// How many packets are something seldom.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RarePackets {
    tagged: usize,
    parts: usize,
    errors: usize,
}

impl RarePackets {
    /// A packet is seen.
    pub fn note(&mut self, packet: &[u8]) {
        let Ok(layout) = dissect(packet) else {
            return;
        };
        self.tagged += usize::from(layout.l3 > 14);
        self.parts += usize::from(layout.fragment != Fragment::Whole);
        self.errors += usize::from(layout.inner.is_some());
    }

    fn since(self, before: Self) -> Self {
        Self {
            tagged: self.tagged - before.tagged,
            parts: self.parts - before.parts,
            errors: self.errors - before.errors,
        }
    }
}

/// A round of traffic: what all conversations say in it.
#[derive(Copy, Clone)]
struct Round<'a> {
    chain: &'a [&'a str],
    is_v6: bool,
    number: usize,
}

impl Round<'_> {
    /// Bursts, one after the other: between them nothing is under way.
    fn bursts(self, rare: Rare) -> Vec<Burst> {
        let whole = || self.of_both(|_, _, ends| vec![datagram(ends)]);
        let parts = |place, flow, ends| in_parts(ends, self.identification(place, flow));
        match rare {
            Rare::Tagged => self.of_both(|_, _, ends| vec![tagged(ends)]),
            Rare::Parts => [whole(), self.of_both(parts)].concat(),
            Rare::PartsInDisorder => {
                let mixed = |place, flow, ends| mixed(parts(place, flow, ends), flow);
                [whole(), self.of_both(mixed)].concat()
            }
            Rare::WholeBehindParts => {
                let both =
                    |place, flow, ends| [parts(place, flow, ends), vec![datagram(ends)]].concat();
                [whole(), self.of_both(both)].concat()
            }
            Rare::Errors => {
                let errors = |_, _, ends| vec![error(&datagram(turned(ends)))];
                [whole(), self.of_both(errors)].concat()
            }
            Rare::ErrorsAboutSegments | Rare::SegmentsInDisorder if self.number == 0 => {
                self.of_both(|place, _, ends| vec![opening(place, ends)])
            }
            Rare::ErrorsAboutSegments => self.segments_with_errors(),
            Rare::SegmentsInDisorder => self.segments_in_disorder(),
        }
    }

    /// What the ends at a place of all conversations send: 0 for those that ask, 1 for those that answer.
    fn of_place(self, place: usize, packets: impl Fn(usize, Ends) -> Burst) -> Burst {
        let conversations = ends(self.chain, self.is_v6).enumerate();
        conversations
            .flat_map(|(flow, ends)| packets(flow, ends[place]))
            .collect()
    }

    /// A burst of those that ask, and one of those that answer.
    fn of_both(self, packets: impl Fn(usize, usize, Ends) -> Burst) -> Vec<Burst> {
        let of_place = |place| self.of_place(place, |flow, ends| packets(place, flow, ends));
        vec![of_place(0), of_place(1)]
    }

    /// Another for each datagram, as senders number them.
    fn identification(self, place: usize, flow: usize) -> u32 {
        ((self.number * usize::from(FLOWS) + flow) * 2 + place) as u32
    }

    /// The segment of this number that the end at a place sends in a round, in which each sends so many.
    /// Whoever answers has all of the round's questions.
    fn segment(self, place: usize, (from, to): Ends, (number, in_round): (u32, u32)) -> Vec<u8> {
        let before = FIRST + 1 + DATA * in_round * (self.number as u32 - 1);
        let heard = before + DATA * in_round * place as u32;
        let segment = PacketBuilder::tcp(from, to).flags(flags::ACK | flags::PSH);
        let segment = segment.seq(before + DATA * number).ack(heard);
        let segment = segment.payload(&[b'.'; DATA as usize]).to_vec();
        segment.expect("short")
    }

    /// Each end sends two segments, and gets an error about the second before the other end has
    /// answered.
    fn segments_with_errors(self) -> Vec<Burst> {
        let of_end = |place| {
            let sent = |number| {
                self.of_place(place, |_, ends| {
                    vec![self.segment(place, ends, (number, 2))]
                })
            };
            let errors = self.of_place(1 - place, |_, ends| {
                vec![error(&self.segment(place, turned(ends), (1, 2)))]
            });
            [sent(0), sent(1), errors]
        };
        [of_end(0), of_end(1)].concat()
    }

    /// Each end sends four segments, the second of them first.
    fn segments_in_disorder(self) -> Vec<Burst> {
        let bursts: [&[u32]; 3] = [&[1, 0], &[2], &[3]];
        let of_end = |place| {
            bursts.map(|numbers| {
                self.of_place(place, |_, ends| {
                    let numbers = numbers.iter();
                    let segments = numbers.map(|&number| self.segment(place, ends, (number, 4)));
                    segments.collect()
                })
            })
        };
        [of_end(0), of_end(1)].concat()
    }
}

fn turned((from, to): Ends) -> Ends {
    (to, from)
}

fn datagram((from, to): Ends) -> Vec<u8> {
    let datagram = PacketBuilder::udp(from, to).payload_len(100);
    datagram.to_vec().expect("short")
}

fn tagged((from, to): Ends) -> Vec<u8> {
    let datagram = PacketBuilder::udp(from, to).vlan(7).payload_len(100);
    datagram.to_vec().expect("short")
}

/// The first fragment of a datagram, one from its middle, and the last.
fn in_parts((from, to): Ends, identification: u32) -> Burst {
    let whole = PacketBuilder::udp(from, to).payload_len(600).to_vec();
    let whole = whole.expect("short");
    let layout = dissect(&whole).expect("a packet");
    let parts = cut(&whole, &layout, PART, identification).expect("long enough");
    assert_eq!(parts.len(), 3, "first, middle, last");
    parts
}

/// The last one of three first, and the first one second or last.
fn mixed(parts: Burst, flow: usize) -> Burst {
    let order = match flow % 2 {
        0 => [2, 0, 1],
        _ => [2, 1, 0],
    };
    order.map(|part| parts[part].clone()).to_vec()
}

/// That the port of a packet's receiver is closed: from the receiver, to its sender.
fn error(about: &[u8]) -> Vec<u8> {
    let layout = dissect(about).expect("a packet");
    let code = match layout.network {
        Network::V4 => 3,
        _ => 4,
    };
    let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code }, about);
    error.to_vec().expect("short")
}

/// The SYN of an end, or its answer.
fn opening(place: usize, (from, to): Ends) -> Vec<u8> {
    let segment = PacketBuilder::tcp(from, to).seq(FIRST);
    let segment = match place {
        0 => segment.flags(flags::SYN),
        _ => segment.flags(flags::SYN | flags::ACK).ack(FIRST + 1),
    };
    segment.to_vec().expect("short")
}

impl Bench {
    /// The same with bursts between which all arrives that is under way.
    fn bursts(&mut self, rounds: &[Vec<Burst>]) {
        for bursts in rounds {
            self.now = self.now + BETWEEN_ROUNDS;
            let bursts = bursts.iter().flat_map(|burst| burst.chunks(BATCH));
            bursts.for_each(|burst| self.send(burst));
        }
    }

    /// What a function has counted so far.
    fn counted(&self, function: &str, counter: &str) -> u64 {
        let mut report = Report::default();
        let observer = Observer::new(Live::hidden());
        let (machine, workers) = (&self.node.machine, &self.node.workers);
        observer.finish(0, 0, machine, workers, &mut report);
        let functions = report.functions.iter();
        let own = functions.filter(|one| one.name == function);
        own.filter_map(|one| one.counters.get(counter)).sum()
    }
}

/// Counters that tell that a function of the chain has had to do with what is seldom.
fn telling(rare: Rare) -> &'static [(&'static str, &'static str)] {
    match rare {
        Rare::Tagged => &[],
        Rare::Parts | Rare::WholeBehindParts => &[
            ("napt", "fragments_translated"),
            ("nat64", "translated_out"),
            ("nat64", "translated_in"),
        ],
        Rare::PartsInDisorder => &[
            ("napt", "fragments_translated"),
            ("napt", "fragments_held"),
            ("nat64", "fragments_held"),
        ],
        Rare::Errors | Rare::ErrorsAboutSegments => &[
            ("firewall", "icmp_errors_related"),
            ("load_balancer", "errors_translated"),
            ("napt", "errors_translated"),
            ("nat64", "errors_translated"),
        ],
        Rare::SegmentsInDisorder => &[("reassembler", "held"), ("reassembler", "released")],
    }
}

/// How many allocations there may be in the rounds that are counted.
fn most(chain: &[&str], rare: Rare, way: Handling) -> u64 {
    // In each round every end of a conversation does once what is seldom.
    let of_one_end = u64::from(FLOWS) * ROUNDS as u64;
    let has = |name: &str| chain.contains(&name);
    match (rare, way) {
        // What comes from inside is translated without its ports: hosts have one external address here.
        (Rare::PartsInDisorder, _) if has("napt") || has("nat64") => LISTS_OF_KEPT * of_one_end,
        // What comes from outside quotes a segment of a host, and nobody may guess its number.
        (Rare::ErrorsAboutSegments, Handling::Fast) if has("napt") => MOST_OF_WAITING * of_one_end,
        _ => 0,
    }
}

fn assert_frugal(chain: &[&str], is_v6: bool, rare: Rare, rounds: &[Vec<Burst>], way: Handling) {
    let what = format!("{chain:?} {rare:?} {way:?}, IPv6: {is_v6}");
    let (first, rest) = rounds.split_at(WARM_ROUNDS);
    let mut bench = Bench::new(chain, way, Kind::Datagrams);
    let cold = measure(|| bench.bursts(first));
    let before = (bench.left, bench.seen);
    let warm = measure(|| bench.bursts(rest));
    let left = [0, 1].map(|via| bench.left[via] - before.0[via]);
    let seen = bench.seen.since(before.1);
    println!(
        "{what}: {} allocations cold, {} warm; {left:?} left, {seen:?}",
        cold.count_total, warm.count_total
    );
    let (mut sent, mut all) = (RarePackets::default(), 0);
    for packet in rest.iter().flatten().flatten() {
        sent.note(packet);
        all += 1;
    }
    assert_eq!(left[0] + left[1], all, "{what}: {left:?}");
    assert_eq!(seen, sent, "{what}: what left, and what came");
    // On both paths what is no whole datagram or segment is the slow path's, and the fast path has others.
    let is_for_workers = !matches!(rare, Rare::Tagged | Rare::SegmentsInDisorder);
    match way {
        Handling::Fast if is_for_workers => assert!(left[0] > 0 && left[1] > 0, "{what}: {left:?}"),
        Handling::Fast if rare == Rare::Tagged => assert_eq!(left[1], 0, "{what}"),
        Handling::Fast => assert!(left[0] > 0, "{what}: {left:?}"),
        Handling::Punted | Handling::Slow => assert_eq!(left[0], 0, "{what}"),
    }
    for (function, counter) in telling(rare) {
        if chain.contains(function) {
            let count = bench.counted(function, counter);
            assert!(count > 0, "{what}: {function} has not counted {counter}");
        }
    }
    let (count, most) = (warm.count_total, most(chain, rare, way));
    assert!(count <= most, "{what}: {count} warm, at most {most}");
}

const V4: &[bool] = &[false];
const V6: &[bool] = &[true];
const BOTH: &[bool] = &[false, true];

/// A chain, and whether packets are IPv6, or those from inside are.
type Case = (&'static [&'static str], &'static [bool]);

fn assert_each_frugal(rare: Rare, cases: &[Case]) {
    for &(chain, versions) in cases {
        for &is_v6 in versions {
            let round = |number| {
                let round = Round {
                    chain,
                    is_v6,
                    number,
                };
                round.bursts(rare)
            };
            let rounds: Vec<_> = (0..WARM_ROUNDS + ROUNDS).map(round).collect();
            for &way in ways(chain, Kind::Datagrams) {
                assert_frugal(chain, is_v6, rare, &rounds, way);
            }
        }
    }
}

/// Chains for datagrams: flow state that needs the ports of fragments, rules, translations of every kind.
const FOR_DATAGRAMS: [Case; 8] = [
    (&["acl", "firewall", "napt", "router"], V4),
    (&["acl", "napt", "router"], V4),
    (&["acl", "firewall", "monitor"], BOTH),
    (&["acl", "firewall", "nptv6", "router"], V6),
    (&["acl", "monitor", "router"], BOTH),
    (&["nat64", "router"], V6),
    (&["load_balancer"], BOTH),
    (&["telemetry"], BOTH),
];

/// Those for segments.
const FOR_SEGMENTS: [Case; 6] = [
    (&["acl", "firewall", "napt", "router"], V4),
    (&["acl", "napt", "router"], V4),
    (&["acl", "firewall", "nptv6", "router"], V6),
    (&["nat64", "router"], V6),
    (&["load_balancer"], V4),
    (&["firewall", "reassembler"], BOTH),
];

#[test]
fn no_packet_behind_a_tag_allocates() {
    assert_each_frugal(Rare::Tagged, &FOR_DATAGRAMS);
}

#[test]
fn no_fragment_allocates() {
    assert_each_frugal(Rare::Parts, &FOR_DATAGRAMS);
}

/// In front of flow state they are held as they are, frame by frame; where a translation comes first it
/// keeps copies, in memory that it uses again, and lets them go in lists that it does not.
#[test]
fn fragments_in_disorder_allocate_where_a_translation_keeps_them() {
    assert_each_frugal(Rare::PartsInDisorder, &FOR_DATAGRAMS);
}

/// Each element with rules has a queue for each flow with fragments on the slow path, as long as they are
/// there; then another flow's packets wait in it.
#[test]
fn no_packet_behind_a_fragment_allocates() {
    assert_each_frugal(Rare::WholeBehindParts, &FOR_DATAGRAMS);
}

#[test]
fn no_icmp_error_about_a_datagram_allocates() {
    assert_each_frugal(Rare::Errors, &FOR_DATAGRAMS);
}

/// At a translation they wait where rules may have seen the segment, which is on both paths alone.
#[test]
fn icmp_errors_about_segments_allocate_where_they_wait() {
    assert_each_frugal(Rare::ErrorsAboutSegments, &FOR_SEGMENTS);
}

#[test]
fn no_segment_out_of_order_allocates() {
    assert_each_frugal(Rare::SegmentsInDisorder, &FOR_SEGMENTS);
    let inspected: Case = (&["firewall", "reassembler", "inspector"], V4);
    assert_each_frugal(Rare::SegmentsInDisorder, &[inspected]);
}
