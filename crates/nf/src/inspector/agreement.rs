//! The inspector as a function: both paths agree, and bans fall where they should.

use super::{Config, DeepMatcher, Inspector, Rules};
use crate::two_paths::Path;
use proptest::prelude::*;
use twinpath_core::{DropReason, Instant};
use twinpath_wire::{Endpoint, PacketBuilder, dissect, fragment};

const RULES: &str = "ban-literal ban literal \"FORBIDDEN\"\n\
    ban-regex ban regex \"evil[0-9]{2,4}\"\n\
    watch alert literal \"LOOKATME\"\n";

fn function_of(config: &str, rules: &str) -> Inspector<DeepMatcher> {
    let config: Config = toml::from_str(config).expect("valid");
    let rules = Rules::parse(rules, "test.rules").expect("valid");
    let matcher = DeepMatcher::new(&rules).expect("small");
    Inspector::new(&config, &rules, matcher)
}

fn paths() -> [Path<Inspector<DeepMatcher>>; 2] {
    paths_of("rules = \"unused\"")
}

fn paths_of(config: &str) -> [Path<Inspector<DeepMatcher>>; 2] {
    [
        Path::slow(function_of(config, RULES), Instant(1)),
        Path::both(function_of(config, RULES), Instant(1)),
    ]
}

/// What both ends have sent so far.
#[derive(Clone, Default)]
struct Talk {
    sent: [u32; 2],
    v6: bool,
}

impl Talk {
    /// The next segment of a connection that nobody has seen begin.
    fn segment(&mut self, payload: &[u8], answers: bool) -> Vec<u8> {
        let sequence = self.sent[usize::from(answers)];
        self.sent[usize::from(answers)] += payload.len() as u32;
        self.at(sequence, payload, answers)
    }

    fn at(&self, sequence: u32, payload: &[u8], answers: bool) -> Vec<u8> {
        let acknowledged = self.sent[usize::from(!answers)].wrapping_add(BASE);
        let (from, to) = self.ends(answers);
        PacketBuilder::tcp(from, to)
            .flags(0x10)
            .seq(sequence.wrapping_add(BASE))
            .ack(acknowledged)
            .payload(payload)
            .to_vec()
            .expect("valid")
    }

    /// A segment without data.
    fn with_flags(&self, flags: u8, answers: bool) -> Vec<u8> {
        let (from, to) = self.ends(answers);
        let [own, other] = [answers, !answers].map(|one| self.sent[usize::from(one)]);
        let segment = PacketBuilder::tcp(from, to).flags(flags);
        let segment = segment
            .seq(own.wrapping_add(BASE))
            .ack(other.wrapping_add(BASE));
        segment.to_vec().expect("valid")
    }

    fn datagram(&self, payload: &[u8], answers: bool) -> Vec<u8> {
        let (from, to) = self.ends(answers);
        let builder = PacketBuilder::udp(from, to).payload(payload);
        builder.to_vec().expect("valid")
    }

    /// Where a packet comes from and goes to.
    fn ends(&self, answers: bool) -> (Endpoint, Endpoint) {
        let ends = match self.v6 {
            false => ["10.0.0.1:4000", "10.0.0.2:80"],
            true => ["[2001:db8::1]:4000", "[2001:db8::2]:80"],
        };
        let [client, server]: [Endpoint; 2] = ends.map(|end| end.parse().expect("valid"));
        match answers {
            true => (server, client),
            false => (client, server),
        }
    }
}

/// Sequence numbers wrap soon.
const BASE: u32 = u32::MAX - 20;

/// Whether the last of some packets is dropped, for its flow is banned.
fn is_banned(path: &mut Path<Inspector<DeepMatcher>>, packets: &[Vec<u8>]) -> bool {
    let fates: Vec<_> = packets
        .iter()
        .map(|packet| path.process(packet, Instant(1)))
        .collect();
    fates
        .last()
        .is_some_and(|fate| fate.drops == [(DropReason::Banned, 1)])
}

/// The ends open a connection.
fn both_begin(path: &mut Path<Inspector<DeepMatcher>>, talk: &mut Talk) {
    for (flags, answers) in [(2, false), (0x12, true), (0x10, false)] {
        let mut segment = talk.with_flags(flags, answers);
        if flags & 2 != 0 {
            // It stands in front of the first byte.
            let layout = dissect(&segment).expect("valid");
            let at = usize::from(layout.l4) + 4;
            let number = BASE.wrapping_sub(1).to_be_bytes();
            segment[at..at + 4].copy_from_slice(&number);
        }
        assert_eq!(path.process(&segment, Instant(1)).onward.len(), 1);
    }
}

/// The connection is one whose ends have heard each other.
fn both_take_part(path: &mut Path<Inspector<DeepMatcher>>, talk: &mut Talk) {
    let segments = [talk.segment(b"x", false), talk.segment(b"", true)];
    for segment in segments {
        assert_eq!(path.process(&segment, Instant(1)).onward.len(), 1);
    }
}

fn segments(talk: &mut Talk, payloads: &[&[u8]]) -> Vec<Vec<u8>> {
    let segments = payloads.iter().map(|payload| talk.segment(payload, false));
    segments.collect()
}

#[test]
fn what_is_banned_and_what_is_not() {
    let long = [b'x'; 100];
    let late: Vec<u8> = [&long[..], b"FORBIDDEN"].concat();
    let cases: [(&[&[u8]], bool); 11] = [
        (&[b"harmless"], false),
        (&[b"a FORBIDDEN word"], true),
        (&[b"a FORBIDDEN word", b"harmless"], true),
        (&[b"it ends in FORB", b"IDDEN"], true),
        (&[b"it ends in FORB", b"idden", b"IDDEN"], false),
        (&[b"evil", b"1", b"2"], true),
        (&[b"LOOKATME"], false),
        (&[&late], true),
        (&[b"F", b"ORBIDDEN"], true),
        (
            &[b"F", b"O", b"R", b"B", b"I", b"D", b"D", b"E", b"N"],
            true,
        ),
        (&[b"FOR", b"BID", b"DE", b"N"], true),
    ];
    for (payloads, expected) in cases {
        for v6 in [false, true] {
            for mut path in paths() {
                let mut talk = Talk {
                    v6,
                    ..Talk::default()
                };
                let packets = segments(&mut talk, payloads);
                assert_eq!(is_banned(&mut path, &packets), expected, "{payloads:?}");
            }
        }
    }
}

/// Datagrams have no order, so each is a stream of its own.
#[test]
fn datagrams_are_inspected_one_by_one() {
    let late: Vec<u8> = [&[b'x'; 100][..], b"FORBIDDEN"].concat();
    let cases: [(&[&[u8]], bool); 5] = [
        (&[b"harmless"], false),
        (&[b"a FORBIDDEN word"], true),
        (&[&late], true),
        (&[b"it ends in FORB", b"IDDEN"], false),
        (&[b"LOOKATME"], false),
    ];
    for (payloads, expected) in cases {
        for mut path in paths() {
            let talk = Talk::default();
            let packets = payloads.iter().map(|payload| talk.datagram(payload, false));
            let packets: Vec<_> = packets.collect();
            assert_eq!(is_banned(&mut path, &packets), expected, "{payloads:?}");
        }
    }
}

/// What opens with a stream, on both paths: the first segment is for the workers, whatever it is.
#[test]
fn rules_that_begin_with_a_stream() {
    let rules = [
        "drop tcp any any -> any any (content:!\"SSH-\"; depth:4; sid:1;)",
        "drop tcp any any -> any any (content:\"word\"; byte_test:1,=,0x2a,0; sid:2;)",
        "drop tcp any any -> any any (pcre:\"/\\bcat\\b/\"; sid:3;)",
        "drop tcp any any -> any any (dsize:9; content:\"size\"; startswith; sid:4;)",
        "drop udp any any -> any any (byte_test:1,=,0x2a,0; sid:5;)",
    ];
    let cases: [(usize, &[&[u8]], bool); 12] = [
        (0, &[b"SSH-2.0", b"and on"], false),
        (0, &[b"S", b"S", b"H", b"-"], false),
        (0, &[b"S", b"S", b"L", b"-"], true),
        (1, &[b"*", b"and", b"a word"], true),
        (1, &[b"+", b"and", b"a word"], false),
        (2, &[b"a tom", b"cat "], false),
        (2, &[b"a ", b"cat", b"."], true),
        (2, &[b"a ", b"cat", b"s"], false),
        (3, &[b"x", b"size here"], true),
        (3, &[b"x", b"size her", b"e"], false),
        (3, &[b"x", b"a size...", b"y"], false),
        (4, &[b"*", b"*"], false),
    ];
    for (rule, payloads, expected) in cases {
        let build = || function_of("rules = \"unused\"", rules[rule]);
        for mut path in [
            Path::slow(build(), Instant(1)),
            Path::both(build(), Instant(1)),
        ] {
            let mut talk = Talk::default();
            both_begin(&mut path, &mut talk);
            let packets = segments(&mut talk, payloads);
            assert_eq!(
                is_banned(&mut path, &packets),
                expected,
                "{rule} {payloads:?}"
            );
        }
    }
    for first in [b"*", b"+"] {
        let build = || function_of("rules = \"unused\"", rules[4]);
        for mut path in [
            Path::slow(build(), Instant(1)),
            Path::both(build(), Instant(1)),
        ] {
            let packet = Talk::default().datagram(first, false);
            assert_eq!(is_banned(&mut path, &[packet]), first == b"*");
        }
    }
}

/// A receiver does not take it, and anyone can send it.
#[test]
fn a_datagram_with_a_bad_checksum_bans_nobody() {
    for mut path in paths() {
        let mut packet = Talk::default().datagram(b"a FORBIDDEN word", false);
        let last = packet.len() - 1;
        packet[last] ^= 1;
        packet[last - 4] ^= 1;
        let fate = path.process(&packet, Instant(1));
        assert!(fate.onward.len() == 1 || fate.drops == [(DropReason::BadChecksum, 1)]);
        let good = Talk::default().datagram(b"harmless", false);
        assert_eq!(path.process(&good, Instant(1)).onward.len(), 1);
    }
}

fn cut(packet: &[u8]) -> Vec<Vec<u8>> {
    let layout = dissect(packet).expect("valid");
    fragment::cut(packet, &layout, 24, 7).expect("whole")
}

/// How many of some packets pass.
fn passed(path: &mut Path<Inspector<DeepMatcher>>, packets: &[Vec<u8>]) -> usize {
    let fates = packets
        .iter()
        .map(|packet| path.process(packet, Instant(1)));
    fates.map(|fate| fate.onward.len()).sum()
}

/// Whoever cuts a segment or a datagram evades nothing.
#[test]
fn fragments_do_not_pass_unless_they_may() {
    let settings = [
        "",
        "gaps = \"ban\"",
        "gaps = \"inspect\"",
        "fragments = \"forward\"",
    ];
    for (number, setting) in settings.into_iter().enumerate() {
        for v6 in [false, true] {
            for mut path in paths_of(&format!("rules = \"unused\"\n{setting}")) {
                let mut talk = Talk {
                    v6,
                    ..Talk::default()
                };
                let text = b"some text and a FORBIDDEN word";
                for whole in [talk.segment(text, false), talk.datagram(text, true)] {
                    let parts = cut(&whole);
                    let count = parts.len() as u64;
                    let drops = path.process(&parts[0], Instant(1)).drops;
                    let rest = passed(&mut path, &parts[1..]) as u64;
                    match number {
                        0 | 1 => assert_eq!((drops, rest), (vec![(DropReason::Fragment, 1)], 0)),
                        _ => assert_eq!((drops, rest), (vec![], count - 1)),
                    }
                }
                let counted = ["fragments", "uninspected"].map(|name| path.counter(name));
                assert_eq!([counted[0] > 0, counted[1] > 0], [number < 2, number >= 2]);
            }
        }
    }
}

/// The first one tells whether a rule for certain ports is for a datagram.
#[test]
fn fragments_that_no_rule_is_for_pass() {
    let rules = "alert udp any any -> any 80 (content:\"x\"; sid:1;)\n\
        alert tcp any any -> 10.0.0.0/24 any (content:\"x\"; sid:2;)\n";
    let mut path = Path::slow(function_of("rules = \"unused\"", rules), Instant(1));
    let mut talk = Talk::default();
    let text = [b'.'; 60];
    let asked = cut(&talk.datagram(&text, false));
    assert_eq!(passed(&mut path, &asked[..1]), 0);
    let answer = cut(&talk.datagram(&text, true));
    assert_eq!(passed(&mut path, &answer), answer.len());
    let segment = cut(&talk.segment(&text, false));
    assert_eq!(passed(&mut path, &segment), 0);
    talk.v6 = true;
    let elsewhere = cut(&talk.segment(&text, false));
    assert_eq!(passed(&mut path, &elsewhere), elsewhere.len());
}

/// Bytes count once, however often they are sent, and a keep-alive is none.
#[test]
fn bytes_sent_again_are_not_new() {
    for mut path in paths() {
        let mut talk = Talk::default();
        let mut packets = segments(&mut talk, &[b"it ends in FOR"]);
        packets.push(talk.at(0, b"it ends in FOR", false));
        packets.push(talk.at(13, b"x", false));
        packets.push(talk.at(10, b" FORBID", false));
        packets.push(talk.at(17, b"DEN", false));
        assert!(is_banned(&mut path, &packets));
        assert_eq!(path.counter("repeated"), 2);
    }
}

/// Without what is before it a segment waits for its sender to try again; what is acknowledged
/// although it never came by is passed over.
#[test]
fn segments_beyond_a_gap_are_dropped() {
    for mut path in paths() {
        let mut talk = Talk::default();
        let start = segments(&mut talk, &[b"it ends in FORB"]);
        let ahead = talk.at(20, b" word", false);
        let fates: Vec<_> = [&start[0], &ahead]
            .map(|packet| path.process(packet, Instant(1)).drops)
            .to_vec();
        assert_eq!(fates, [vec![], vec![(DropReason::OutOfOrder, 1)]]);
        let missing = talk.at(15, b"IDDEN", false);
        assert!(is_banned(&mut path, &[missing]));
    }
    for mut path in paths() {
        let mut talk = Talk::default();
        let start = segments(&mut talk, &[b"it ends in FORB"]);
        let ahead = talk.at(20, b" word", false);
        assert!(!is_banned(&mut path, &[start[0].clone(), ahead.clone()]));
        talk.sent[0] = 25;
        let answer = talk.segment(b"", true);
        assert_eq!(path.process(&answer, Instant(1)).onward.len(), 1);
        assert_eq!(path.counter("unseen_bytes"), 10);
        let next = talk.at(25, b"IDDEN", false);
        assert_eq!(path.process(&next, Instant(1)).onward.len(), 1);
        // What was passed over may be anything.
        let late = talk.at(15, b"IDDEN", false);
        let fate = path.process(&late, Instant(1));
        assert_eq!(fate.drops, [(DropReason::OutOfOrder, 1)]);
    }
}

#[test]
fn gaps_may_ban_or_be_passed_over() {
    for mut path in paths_of("rules = \"unused\"\ngaps = \"ban\"") {
        let mut talk = Talk::default();
        let mut packets = segments(&mut talk, &[b"harmless"]);
        packets.push(talk.at(9, b"word", false));
        assert!(is_banned(&mut path, &packets));
    }
    for mut path in paths_of("rules = \"unused\"\ngaps = \"inspect\"") {
        let mut talk = Talk::default();
        let mut packets = segments(&mut talk, &[b"it ends in FORB"]);
        packets.push(talk.at(20, b" word", false));
        packets.push(talk.at(15, b"IDDEN", false));
        assert!(!is_banned(&mut path, &packets));
        assert_eq!((path.counter("gaps"), path.counter("late")), (1, 1));
        let whole = talk.at(2, b"FORBIDDEN", false);
        assert!(
            is_banned(&mut path, &[whole]),
            "late bytes are looked at apart"
        );
    }
}

/// What comes behind the depth passes on the fast path.
#[test]
fn inspection_ends_at_its_depth() {
    for (number, mut path) in paths_of("rules = \"unused\"\ndepth = 100")
        .into_iter()
        .enumerate()
    {
        let mut talk = Talk::default();
        both_take_part(&mut path, &mut talk);
        let long = [b'x'; 94];
        let packets = segments(&mut talk, &[&long, b" FORBIDDEN", &[b'y'; 1000]]);
        assert!(!is_banned(&mut path, &packets));
        assert_eq!(path.simple, number as u64);
        // The first byte passed without.
        assert_eq!(path.counter("deep_bytes"), 99);
    }
    for mut path in paths_of("rules = \"unused\"\ndepth = 100") {
        let mut talk = Talk::default();
        let packets = segments(&mut talk, &[&[b'x'; 91], b"FORBIDDEN"]);
        assert!(is_banned(&mut path, &packets));
    }
}

/// Where there is no room to remember what is half seen, the packet has to come again.
#[test]
fn nothing_half_seen_is_forgotten_for_want_of_room() {
    for mut path in paths_of("rules = \"unused\"\nstreams = 1") {
        let (mut one, mut other) = (
            Talk::default(),
            Talk {
                v6: true,
                ..Talk::default()
            },
        );
        let halves = [&mut one, &mut other].map(|talk| talk.segment(b"FORB", false));
        assert_eq!(path.process(&halves[0], Instant(1)).onward.len(), 1);
        let full = [(DropReason::StreamTableFull, 1)];
        assert_eq!(path.process(&halves[1], Instant(1)).drops, full);
        assert!(is_banned(&mut path, &[one.segment(b"IDDEN", false)]));
        assert_eq!(path.process(&halves[1], Instant(1)).onward.len(), 1);
        assert!(is_banned(&mut path, &[other.segment(b"IDDEN", false)]));
    }
}

/// Half-open connections take a quarter of the places, whoever opened them; those whose ends were both
/// heard take all.
#[test]
fn half_open_connections_take_few_places() {
    let ends = |number: u16| {
        let client = Endpoint::v4([10, 0, 0, 1], 5000 + number);
        (client, Endpoint::v4([10, 0, 0, 2], 80))
    };
    let segment = |(from, to), sequence, payload: &[u8]| {
        let segment = PacketBuilder::tcp(from, to).flags(0x10).seq(sequence);
        segment.payload(payload).to_vec().expect("valid")
    };
    for mut path in paths_of("rules = \"unused\"\nstreams = 8") {
        let mut drops = |packet: Vec<u8>| path.process(&packet, Instant(1)).drops;
        let full = [(DropReason::StreamTableFull, 1)];
        let dropped = (0..8).filter(|&number| drops(segment(ends(number), 0, b"FORB")) == full);
        assert_eq!(dropped.count(), 6);
        for number in 10..16 {
            let (client, server) = ends(number);
            assert_eq!(drops(segment((client, server), 0, b"x")), []);
            assert_eq!(drops(segment((server, client), 0, b"")), []);
            assert_eq!(drops(segment((client, server), 1, b"FORB")), [], "{number}");
        }
    }
}

/// So many of each host's, and as many again when some are gone.
#[test]
fn a_host_has_so_many_half_seen_streams() {
    for mut path in paths_of("rules = \"unused\"\nstreams_per_host = 2") {
        let half = |host: u8, port: u16, sequence: u32, text: &[u8]| {
            let (from, to) = (
                Endpoint::v4([10, 0, 0, host], port),
                Endpoint::v4([10, 0, 9, 9], 80),
            );
            let segment = PacketBuilder::tcp(from, to).flags(0x10).seq(sequence);
            segment.payload(text).to_vec().expect("valid")
        };
        let mut drops = |packet: Vec<u8>| path.process(&packet, Instant(1)).drops;
        let limited = [(DropReason::HostLimit, 1)];
        assert_eq!(drops(half(1, 5001, 0, b"FORB")), []);
        assert_eq!(drops(half(1, 5002, 0, b"FORB")), []);
        assert_eq!(drops(half(1, 5003, 0, b"FORB")), limited);
        assert_eq!(drops(half(2, 5003, 0, b"FORB")), [], "another host");
        assert_eq!(drops(half(1, 5001, 4, b"EAR")), [], "nothing is half seen");
        assert_eq!(drops(half(1, 5003, 0, b"FORB")), []);
        assert_eq!(drops(half(1, 5001, 7, b"FORB")), limited);
        assert_eq!(path.counter("streams_over_host_limit"), 2);
    }
}

/// `^` and `$` are about the stream, however it is cut.
#[test]
fn expressions_may_have_a_place() {
    let rules = "begins ban regex \"^GE[TX] /x\"\nends ban regex \"a[0-9]+z$\"\n\
        alert tcp any any -> any any (content:\"MZ\"; startswith; byte_test:1,>,5,4; sid:1;)\n";
    let cases: [(&[u8], bool); 7] = [
        (b"GEX /x", true),
        (b"GET /y", false),
        (b" GET /x", false),
        (b"text a123z", true),
        (b"text a123z ", false),
        (b"MZ..\x01", false),
        (b"MZ..\x09", false),
    ];
    for (stream, is_found) in cases {
        for size in 1..=stream.len() {
            let path = || function_of("rules = \"unused\"", rules);
            for mut path in [
                Path::slow(path(), Instant(1)),
                Path::both(path(), Instant(1)),
            ] {
                let mut talk = Talk::default();
                both_begin(&mut path, &mut talk);
                let parts: Vec<&[u8]> = stream.chunks(size).collect();
                let mut packets = segments(&mut talk, &parts);
                packets.push(talk.with_flags(0x11, false));
                let banned = is_banned(&mut path, &packets);
                assert_eq!(banned, is_found, "{stream:?} in {size}");
                let is_alert = stream == b"MZ..\x09";
                assert_eq!(path.counter("alerts"), u64::from(is_alert), "{stream:?}");
            }
        }
    }
}

#[test]
fn a_ban_ends_after_silence() {
    for mut path in paths() {
        let mut talk = Talk::default();
        let packets = segments(&mut talk, &[b"FORBIDDEN"]);
        assert!(is_banned(&mut path, &packets));
        let later = Instant(400_000_000_000);
        let harmless = talk.segment(b"harmless", false);
        assert_eq!(path.process(&harmless, later).onward.len(), 1);
    }
}

/// What was half seen under the same rules is found; under others, bytes count from the change on.
#[test]
fn other_rules_begin_with_the_next_byte() {
    let renamed = RULES.replace("ban-literal ", "other-name ");
    let more = format!("{RULES}more ban literal \"harm less\"\n");
    let cases = [(RULES, true), (&renamed, true), (&more, false)];
    for (rules, is_found) in cases {
        for mut path in paths() {
            let mut talk = Talk::default();
            let half = segments(&mut talk, &[b"it ends in FORB"]);
            assert!(!is_banned(&mut path, &half));
            path.reconfigure(function_of("rules = \"unused\"\nstreams = 7", rules));
            let rest = segments(&mut talk, &[b"IDDEN"]);
            assert_eq!(is_banned(&mut path, &rest), is_found, "{rules}");
            let again = segments(&mut talk, &[b"FORB", b"IDDEN"]);
            assert!(is_banned(&mut path, &again), "it goes on");
        }
    }
}

/// Who was banned stays so, for the new time.
#[test]
fn bans_outlive_the_rules_that_made_them() {
    for mut path in paths() {
        let mut talk = Talk::default();
        let packets = segments(&mut talk, &[b"FORBIDDEN"]);
        assert!(is_banned(&mut path, &packets));
        let bans = path.counter("bans");
        path.reconfigure(function_of(
            "rules = \"unused\"\nban_timeout = \"10s\"",
            "# none",
        ));
        let harmless = segments(&mut talk, &[b"harmless"]);
        assert!(is_banned(&mut path, &harmless));
        assert_eq!(path.counter("bans"), bans);
        let later = Instant(12_000_000_000);
        let fate = path.process(&talk.segment(b"FORBIDDEN", false), later);
        assert_eq!(fate.onward.len(), 1);
    }
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "FORB",
        "IDDEN",
        "evil",
        "1",
        "23",
        "LOOK",
        "ATME",
        "x",
        " ",
        "harmless text ",
        "FORBIDDE",
        "evil9",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes())
}

/// One packet: what becomes of its number, its flags, and its payload.
#[derive(Clone, Debug)]
struct Event {
    payload: Vec<u8>,
    answers: bool,
    is_datagram: bool,
    offset: i32,
    flags: u8,
    acknowledged: i32,
    seconds: u64,
}

fn event() -> impl Strategy<Value = Event> {
    let offset = prop_oneof![8 => Just(0), 2 => -30..30, 1 => any::<i32>()];
    let flags = prop_oneof![20 => Just(0x10u8), 1 => Just(0x11), 1 => Just(2), 1 => Just(0x12), 1 => Just(0x14), 1 => any::<u8>()];
    let acknowledged = prop_oneof![6 => Just(0), 1 => -20..60];
    let kinds = (any::<bool>(), prop::bool::weighted(0.2));
    let seconds = prop_oneof![6 => Just(0), 1 => 0u64..400];
    (payload(), kinds, offset, flags, acknowledged, seconds).prop_map(
        |(payload, (answers, is_datagram), offset, flags, acknowledged, seconds)| Event {
            payload,
            answers,
            is_datagram,
            offset,
            flags,
            acknowledged,
            seconds,
        },
    )
}

proptest! {
    /// Whatever segments come, in whatever order: what the fast path lets pass uninspected is what the
    /// workers would let pass, and the words are the same.
    #[test]
    fn both_paths_agree(
        events in prop::collection::vec(event(), 1..60),
        gaps in prop::sample::select(vec!["drop", "ban", "inspect"]),
        depth in prop::sample::select(vec![64, 100, 200, 1 << 20]),
    ) {
        let mut paths = paths_of(&format!("rules = \"unused\"\ngaps = \"{gaps}\"\ndepth = {depth}\nstreams = 2"));
        let (mut now, mut talk) = (1, Talk::default());
        for event in events {
            now += event.seconds * 1_000_000_000;
            let packet = match event.is_datagram {
                true => talk.datagram(&event.payload, event.answers),
                false => {
                    let way = usize::from(event.answers);
                    let sequence = talk.sent[way].wrapping_add_signed(event.offset).wrapping_add(BASE);
                    let acknowledged = talk.sent[1 - way].wrapping_add_signed(event.acknowledged).wrapping_add(BASE);
                    talk.sent[way] += event.payload.len() as u32;
                    let (from, to) = talk.ends(event.answers);
                    PacketBuilder::tcp(from, to)
                        .flags(event.flags).seq(sequence).ack(acknowledged)
                        .payload(&event.payload).to_vec().expect("valid")
                }
            };
            let (slow, both) = (paths[0].process(&packet, Instant(now)), paths[1].process(&packet, Instant(now)));
            prop_assert_eq!(slow, both);
        }
    }
}
