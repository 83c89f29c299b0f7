//! Whoever tries to get something past an inspector: streams in pieces, out of order, sent again, with
//! segments that no receiver takes. What reaches the receiver, as a simple model of one takes it, never
//! has what is forbidden, and a flow is banned if and only if its receiver would have got that.

use crate::common::acting::assert_share;
use crate::common::rows::tell;
use crate::common::talk::{self, Ends, Sent, Talk};
use crate::common::{assert_same, by_direction, run, service};
use proptest::prelude::*;
use std::fmt::Write as _;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN, URG};

const WORD: &[u8] = b"FORBIDDEN";

/// Where both ends have talked before, the fast path settles this share of a connection's packets.
const LEAST_SHARE: f64 = 0.5;

fn contains(stream: &[u8]) -> bool {
    stream.windows(WORD.len()).any(|part| part == WORD)
}

fn inspecting(chain: &[&str], settings: &str) -> Service {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/evasions.rules");
    let mut text = format!("[service]\nchain = {chain:?}\n{settings}");
    let _ = writeln!(text, "[inspector]\nrules = {rules:?}");
    service(&text)
}

/// Runs a connection through a chain on both paths and on the slow path alone. Returns whether it was
/// banned; what the receiver gets never has the word.
fn is_banned(service: &Service, talk: &Talk, what: &str) -> bool {
    let [slow, both] = [Paths::Slow, Paths::Both]
        .map(|paths| run(service, &talk.trace, paths, Execution::Virtual));
    assert_same(&by_direction(&slow.flows), &by_direction(&both.flows), what);
    tell("generated talk", &both.report);
    if talk.ends.have_talked || talk.goes_on {
        assert_share(&both, LEAST_SHARE, what);
    }
    let left = both.packets.iter().map(|(_, packet)| packet.as_slice());
    let received = talk.received(left);
    assert!(
        !contains(&received),
        "{what}: {:?}",
        String::from_utf8_lossy(&received)
    );
    let drops = |outcome: &crate::common::Outcome| outcome.report.drops.contains_key("banned");
    assert_eq!(drops(&slow), drops(&both), "{what}");
    drops(&both)
}

/// A connection that evades is banned, whoever evades, over both IP versions, in chains in which
/// answers meet the inspector where they would otherwise meet it first.
fn catches(what: &str, evade: impl Fn(&mut Talk)) {
    let firewall = "[firewall]\ndefault = \"allow\"\n";
    let services = [
        inspecting(&["reassembler", "inspector"], ""),
        inspecting(&["firewall", "reassembler", "inspector"], firewall),
        // Answers meet the second one first, behind the firewall that both need.
        inspecting(
            &["firewall", "reassembler", "inspector", "second"],
            &format!("{firewall}[second]\nfunction = \"reassembler\"\n"),
        ),
    ];
    for ends in Ends::ALL {
        for service in &services {
            let mut talk = Talk::new(ends);
            evade(&mut talk);
            let what = format!("{what}, {ends:?}");
            assert!(is_banned(service, &talk, &what), "{what}: not banned");
        }
    }
}

#[test]
fn in_small_segments() {
    for size in 1..=3 {
        catches(&format!("segments of {size}"), |talk| {
            let text = b"a FORBIDDEN word";
            for (number, part) in text.chunks(size).enumerate() {
                talk.send(&Sent::data((number * size) as i64, part));
            }
        });
    }
}

#[test]
fn split_anywhere() {
    for place in 1..WORD.len() {
        catches(&format!("split behind {place}"), |talk| {
            talk.send(&Sent::data(
                0,
                &[b"a harmless text and ", &WORD[..place]].concat(),
            ));
            talk.send(&Sent::data(20 + place as i64, &WORD[place..]));
        });
    }
}

/// The gap is given up before it closes, so what was behind it has to come again.
#[test]
fn with_a_gap_that_stays_open() {
    catches("a gap of 700 ms", |talk| {
        talk.send(&Sent::data(0, b"a harmless text "));
        talk.send(&Sent::data(20, b"IDDEN"));
        talk.wait_ms(700);
        talk.send(&Sent::data(16, b"FORB"));
        talk.send(&Sent::data(20, b"IDDEN"));
    });
}

#[test]
fn under_a_decoy_with_a_bad_checksum() {
    catches("a decoy in order", |talk| {
        talk.send(&Sent::data(0, b"some text FO"));
        talk.send(&Sent::data(12, b"xxxxxxx").broken());
        talk.send(&Sent::data(12, b"RBIDDEN"));
    });
    catches("a decoy ahead", |talk| {
        talk.send(&Sent::data(15, b"xxxx").broken());
        talk.send(&Sent::data(15, b"DDEN"));
        talk.send(&Sent::data(0, b"some text FORBI"));
    });
}

/// A receiver may leave the urgent byte in its place or take it out: with the mark taken off it is
/// part of the stream for all.
#[test]
fn around_an_urgent_byte() {
    catches("an urgent byte of the word", |talk| {
        talk.send(&Sent::data(0, b"FORB"));
        talk.send(&Sent::data(4, b"IDDEN").with(URG));
    });
    let service = inspecting(
        &["reassembler", "inspector"],
        "[reassembler]\nurgent = \"drop\"\n",
    );
    for ends in Ends::ALL {
        let mut talk = Talk::new(ends);
        talk.send(&Sent::data(0, b"FORB"));
        talk.send(&Sent::data(4, b"!IDDEN").with(URG));
        assert!(!is_banned(&service, &talk, "urgent data kept out"));
        talk.send(&Sent::data(4, b"IDDEN"));
        assert!(is_banned(&service, &talk, "sent again"));
    }
}

/// That the receiver of these tests puts fragments together.
#[test]
fn in_fragments_that_may_pass() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/evasions.rules");
    let service = service(&format!(
        "[service]\nchain = [\"reassembler\", \"inspector\"]\n\
         [inspector]\nrules = {rules:?}\nfragments = \"forward\"\n"
    ));
    for ends in Ends::ALL {
        let mut talk = Talk::new(ends);
        talk.send_in_fragments(&Sent::data(0, b"some text and a FORBIDDEN word"), 24, true);
        let outcome = run(&service, &talk.trace, Paths::Both, Execution::Virtual);
        let left = outcome.packets.iter().map(|(_, packet)| packet.as_slice());
        assert!(contains(&talk.received(left)), "{ends:?}");
        if ends.have_talked {
            assert_share(&outcome, LEAST_SHARE, &format!("fragments, {ends:?}"));
        }
    }
}

/// Of a fragment no checksum tells whether its receiver takes it: so it does not get there, and the
/// sender has to send it whole.
#[test]
fn in_fragments() {
    let service = inspecting(&["reassembler", "inspector"], "");
    let gathering = inspecting(
        &["firewall", "reassembler", "inspector"],
        "[firewall]\ndefault = \"allow\"\n",
    );
    for (ends, service) in Ends::ALL
        .into_iter()
        .flat_map(|ends| [(ends, &service), (ends, &gathering)])
    {
        for is_reversed in [false, true] {
            let mut talk = Talk::new(ends);
            let sent = Sent::data(0, b"some text and a FORBIDDEN word");
            talk.send_in_fragments(&sent, 24, is_reversed);
            talk.send_in_fragments(&sent.clone().broken(), 24, is_reversed);
            let what = format!("{ends:?}, reversed {is_reversed}");
            assert!(!is_banned(service, &talk, &what), "{what}");
            let outcome = run(service, &talk.trace, Paths::Both, Execution::Virtual);
            assert!(outcome.report.drops.contains_key("fragment"), "{what}");
            talk.send(&sent);
            assert!(is_banned(service, &talk, &what), "{what}: sent whole");
        }
    }
}

#[test]
fn out_of_order() {
    catches("three segments in reverse", |talk| {
        talk.send(&Sent::data(6, b"DEN"));
        talk.send(&Sent::data(3, b"BID"));
        talk.send(&Sent::data(0, b"FOR"));
    });
}

/// A FIN that its receiver never gets, or that somebody else has sent, takes the number of a byte: what is
/// half seen in front of it stays so, and no byte is hidden by it or moved.
#[test]
fn around_a_fin_that_never_arrives() {
    let fin = |offset| Sent::data(offset, b"").with(FIN);
    let games: [(&str, Vec<Sent>); 6] = [
        (
            "between two halves",
            vec![Sent::data(0, b"FORB"), fin(4), Sent::data(4, b"IDDEN")],
        ),
        (
            "over a byte by itself",
            vec![
                Sent::data(0, b"FORB"),
                fin(4),
                Sent::data(4, b"I"),
                Sent::data(5, b"DDEN"),
            ],
        ),
        (
            "in front of all of it again",
            vec![Sent::data(0, b"FORB"), fin(4), Sent::data(0, WORD)],
        ),
        (
            "ahead, in the place of a byte that comes later",
            vec![fin(6), Sent::data(4, b"IDDEN"), Sent::data(0, b"FORB")],
        ),
        (
            "with data ahead",
            vec![
                Sent::data(4, b"ID").with(FIN),
                Sent::data(6, b"DEN"),
                Sent::data(0, b"FORB"),
            ],
        ),
        (
            "with data, in the place of a byte that waits",
            vec![
                Sent::data(6, b"DEN"),
                Sent::data(4, b"ID").with(FIN),
                Sent::data(0, b"FORB"),
            ],
        ),
    ];
    let firewall = "[firewall]\ndefault = \"allow\"\n[reassembler]\n";
    let services = ["first", "last"].map(|wins| {
        let settings = format!("{firewall}overlap = \"{wins}\"\nretransmissions = \"drop\"\n");
        inspecting(&["firewall", "reassembler", "inspector"], &settings)
    });
    for (what, game) in &games {
        catches(what, |talk| {
            talk.fins_get_lost = true;
            game.iter().for_each(|sent| talk.send(sent));
        });
        for (ends, service) in all_ends(Ends::ALL, &services) {
            let mut talk = Talk::new(ends);
            talk.fins_get_lost = true;
            game.iter().for_each(|sent| talk.send(sent));
            assert!(is_banned(service, &talk, what), "{what}, {ends:?}");
        }
    }
}

#[test]
fn around_bytes_sent_again() {
    catches("a retransmission in the middle", |talk| {
        talk.send(&Sent::data(0, b"a text: FOR"));
        talk.send(&Sent::data(0, b"a text: FOR"));
        talk.send(&Sent::data(11, b"BIDDEN"));
    });
    catches("a keep-alive in the middle", |talk| {
        talk.send(&Sent::data(0, b"a text: FOR"));
        talk.send(&Sent::data(10, b"x"));
        talk.send(&Sent::data(11, b"BIDDEN"));
    });
    catches("a segment of old and new bytes", |talk| {
        talk.send(&Sent::data(0, b"a text: FOR"));
        talk.send(&Sent::data(4, b"xx: xxxBIDDEN"));
    });
}

#[test]
fn behind_a_reset_or_a_new_beginning_that_nobody_believes() {
    let far = 1 << 30;
    let decoys = [
        ("a RST far away", Sent::data(far, b"").with(RST)),
        ("a RST nearby", Sent::data(1000, b"").with(RST)),
        (
            "a RST with a bad checksum",
            Sent::data(4, b"").with(RST).broken(),
        ),
        ("a segment far away", Sent::data(far, b"xxxx")),
        (
            "a FIN with a bad checksum",
            Sent::data(4, b"").with(FIN).broken(),
        ),
        (
            "a SYN nearby",
            Sent {
                flags: SYN,
                ..Sent::data(100, b"")
            },
        ),
        (
            "a SYN with ACK nearby",
            Sent {
                flags: SYN | ACK,
                ..Sent::data(15, b"")
            },
        ),
        (
            "a SYN with ACK far away",
            Sent {
                flags: SYN | ACK,
                ..Sent::data(far, b"")
            },
        ),
        (
            "data without ACK",
            Sent {
                flags: 0,
                ..Sent::data(4, b"xxxxx")
            },
        ),
    ];
    for (what, decoy) in decoys {
        catches(what, |talk| {
            talk.send(&Sent::data(0, b"FORB"));
            talk.send(&decoy);
            talk.send(&Sent::data(6, b"DEN"));
            talk.send(&Sent::data(4, b"ID"));
        });
    }
}

/// What the firewall refuses was not delivered, whichever way it goes, so the genuine segment is not
/// dropped as one that was.
#[test]
fn what_a_firewall_refuses_is_not_delivered() {
    let text = "[service]\nchain = [\"firewall\", \"reassembler\"]\n[firewall]\ndefault = \"allow\"\n\
                [reassembler]\nretransmissions = \"drop\"\n";
    let service = service(text);
    for ends in Ends::ALL {
        let mut talk = Talk::new(ends);
        talk.send(&Sent::data(0, b"good"));
        // It acknowledges what was never sent.
        talk.send_acknowledging(&Sent::data(4, b"evil"), 1 << 20);
        talk.send(&Sent::data(4, b"fine"));
        for paths in [Paths::Slow, Paths::Both] {
            let outcome = run(&service, &talk.trace, paths, Execution::Virtual);
            if ends.have_talked && matches!(paths, Paths::Both) {
                assert_share(&outcome, LEAST_SHARE, &format!("refused, {ends:?}"));
            }
            let left = outcome.packets.iter().map(|(_, packet)| packet.as_slice());
            assert_eq!(talk.received(left), b"goodfine", "{ends:?}");
            assert!(
                outcome.report.drops.contains_key("invalid_state"),
                "{ends:?}"
            );
        }
    }
}

/// A later segment comes first, and then the bytes in front of it: nobody has seen those, so they do
/// not pass for a repetition, however much has been inspected behind them.
#[test]
fn in_front_of_where_a_stream_is_picked_up() {
    let tail = vec![b'.'; 200];
    type Segments<'a> = &'a [(i64, &'a [u8])];
    let cases: [(&str, Segments<'_>); 4] = [
        ("all in front", &[(9, b" harmless"), (0, b"FORBIDDEN")]),
        ("around the place", &[(4, b"IDDEN"), (0, b"FORB")]),
        ("over the place", &[(4, b"IDDEN"), (0, b"FORBID")]),
        (
            "in front of the depth",
            &[(9, &tail), (209, b"."), (0, b"FORBIDDEN")],
        ),
    ];
    let services = ["", "retransmissions = \"drop\"\n"].map(|settings| {
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/evasions.rules");
        service(&format!(
            "[service]\nchain = [\"reassembler\", \"inspector\"]\n[reassembler]\n{settings}\
             [inspector]\nrules = {rules:?}\ndepth = 100\n"
        ))
    });
    for (what, sent) in cases {
        for (ends, service) in all_ends(Ends::strangers(), &services) {
            let mut talk = Talk::in_the_middle(ends);
            for (offset, payload) in sent {
                talk.send(&Sent::data(*offset, payload));
            }
            talk.go_on(9);
            let what = format!("{what}, {ends:?}");
            assert!(!is_banned(service, &talk, &what), "{what}");
            let outcome = run(service, &talk.trace, Paths::Both, Execution::Virtual);
            assert!(outcome.report.drops.contains_key("out_of_order"), "{what}");
        }
    }
}

/// What the other end has acknowledged it has: bytes sent again from in front of there pass.
#[test]
fn a_stream_that_is_picked_up_goes_on() {
    let services = [inspecting(&["reassembler", "inspector"], "")];
    for (ends, service) in all_ends(Ends::strangers(), &services) {
        let mut talk = Talk::in_the_middle(ends);
        talk.send(&Sent::data(9, b"harmless"));
        talk.answer(17);
        talk.send(&Sent::data(0, b"sent over harmless"));
        talk.go_on(18);
        talk.send(&Sent::data(18, b" FORB"));
        assert!(!is_banned(service, &talk, "picked up"), "{ends:?}");
        let outcome = run(service, &talk.trace, Paths::Both, Execution::Virtual);
        assert_eq!(outcome.report.drops.get("out_of_order"), None, "{ends:?}");
        talk.send(&Sent::data(23, b"IDDEN"));
        assert!(is_banned(service, &talk, "a word behind"), "{ends:?}");
    }
}

fn all_ends(
    ends: impl IntoIterator<Item = Ends>,
    services: &[Service],
) -> impl Iterator<Item = (Ends, &Service)> {
    let ends = ends.into_iter();
    ends.flat_map(move |ends| services.iter().map(move |service| (ends, service)))
}

/// An established connection may be silent for long.
#[test]
fn after_a_long_silence() {
    catches("59 minutes in the middle", |talk| {
        talk.send(&Sent::data(0, b"FORB"));
        talk.wait_ms(59 * 60_000);
        talk.send(&Sent::data(4, b"IDDEN"));
    });
    catches("a keep-alive each half an hour", |talk| {
        talk.send(&Sent::data(0, b"FORB"));
        for _ in 0..4 {
            talk.wait_ms(30 * 60_000);
            talk.answer(4);
        }
        talk.send(&Sent::data(4, b"IDDEN"));
    });
}

/// A packet that is dropped for want of room, though the reassembler in front let it pass, comes again.
#[test]
fn what_an_inspector_has_no_room_for_comes_again() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/evasions.rules");
    let service = service(&format!(
        "[service]\nchain = [\"reassembler\", \"inspector\"]\n\
         [reassembler]\nretransmissions = \"drop\"\n[inspector]\nrules = {rules:?}\nstreams = 1\n"
    ));
    let [one, other] = [Ends::ALL[0], Ends::ALL[2]];
    for paths in [Paths::Slow, Paths::Both] {
        let (mut first, mut second) = (Talk::new(one), Talk::new(other));
        first.send(&Sent::data(0, b"a FORB"));
        second.wait_ms(20);
        second.send(&Sent::data(0, b"a FORB"));
        first.wait_ms(40);
        first.send(&Sent::data(6, b"EARANCE"));
        second.wait_ms(40);
        second.send(&Sent::data(0, b"a FORB"));
        second.send(&Sent::data(6, b"EAR"));
        let trace = talk::together(&[&first, &second]);
        let outcome = run(&service, &trace, paths, Execution::Virtual);
        let left = || outcome.packets.iter().map(|(_, packet)| packet.as_slice());
        assert_eq!(first.received(left()), b"a FORBEARANCE", "{paths:?}");
        assert_eq!(second.received(left()), b"a FORBEAR", "{paths:?}");
        assert_eq!(outcome.report.drops.get("stream_table_full"), Some(&1));
    }
}

/// What a firewall behind refuses has been inspected, and what is sent in its place is a repetition.
#[test]
fn a_chain_that_cannot_keep_order_is_refused() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/evasions.rules");
    let refusal = |chain: &str, more: &str| {
        let text = format!("[service]\nchain = [{chain}]\n[inspector]\nrules = {rules:?}\n{more}");
        let read = Service::parse(&text, std::path::Path::new("s.toml"));
        read.err().map(|error| error.to_string())
    };
    let cases = [
        (
            "\"inspector\"",
            "",
            ":2:10: inspector looks for what spans segments",
        ),
        (
            "\"inspector\", \"reassembler\"",
            "",
            "here reassembler is behind it",
        ),
        (
            "\"reassembler\", \"monitor\", \"inspector\"",
            "",
            "answers meet inspector before reassembler",
        ),
        (
            "\"reassembler\", \"firewall\"",
            "[firewall]\n[reassembler]\nretransmissions = \"drop\"\n",
            ":2:10: reassembler drops what it let pass before",
        ),
        (
            "\"reassembler\", \"inspector\", \"firewall\"",
            "[firewall]\n",
            "looks at each byte once",
        ),
    ];
    for (chain, more, expected) in cases {
        let message = refusal(chain, more).unwrap_or_default();
        assert!(message.contains(expected), "{chain}: {message}");
    }
    let taken = [
        ("\"reassembler\", \"inspector\"", ""),
        ("\"inspector\"", "gaps = \"inspect\"\n"),
        (
            "\"reassembler\", \"monitor\", \"inspector\", \"monitor-2\", \"second\"",
            "[second]\nfunction = \"reassembler\"\n[monitor-2]\nfunction = \"monitor\"\n",
        ),
        (
            "\"firewall\", \"reassembler\"",
            "[firewall]\n[reassembler]\nretransmissions = \"drop\"\n",
        ),
    ];
    for (chain, more) in taken {
        assert_eq!(refusal(chain, more), None, "{chain}");
    }
}

/// A piece of a stream: how long it is, what becomes of it.
#[derive(Clone, Debug)]
struct Part {
    bytes: usize,
    game: Game,
    /// It is sent so many places later.
    late: usize,
}

#[derive(Copy, Clone, Debug)]
enum Game {
    None,
    Urgent,
    Twice,
    /// With the bytes before it.
    Longer(u8),
    /// Other bytes at its place, which nobody takes.
    Decoy,
    /// Other bytes at its place, behind it.
    Overwrite,
    KeepAlive,
    FarRst,
    NearRst,
    BrokenRst,
    BrokenFin,
    /// Its receiver never gets it.
    LostFin,
    FarData,
    OtherSyn,
}

fn game() -> impl Strategy<Value = Game> {
    prop_oneof![
        8 => Just(Game::None),
        1 => Just(Game::Urgent),
        1 => Just(Game::Twice),
        1 => (1..9u8).prop_map(Game::Longer),
        1 => Just(Game::Decoy),
        1 => Just(Game::Overwrite),
        1 => Just(Game::KeepAlive),
        1 => Just(Game::FarRst),
        1 => Just(Game::NearRst),
        1 => Just(Game::BrokenRst),
        1 => Just(Game::BrokenFin),
        1 => Just(Game::LostFin),
        1 => Just(Game::FarData),
        1 => Just(Game::OtherSyn),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    let bytes = prop_oneof![4 => 1..4usize, 2 => 4..30usize, 1 => 60..200usize];
    let late = prop_oneof![4 => Just(0), 1 => 1..5usize];
    (bytes, game(), late).prop_map(|(bytes, game, late)| Part { bytes, game, late })
}

/// What is sent for a part at an offset of the stream.
fn segments(part: &Part, offset: usize, stream: &[u8]) -> Vec<Sent> {
    let end = (offset + part.bytes).min(stream.len());
    let at = offset as i64;
    let plain = Sent::data(at, &stream[offset..end]);
    let other = vec![b'x'; end - offset];
    let far = 1 << 30;
    match part.game {
        Game::None => vec![plain],
        Game::Urgent => vec![plain.with(URG)],
        Game::Twice => vec![plain.clone(), plain],
        Game::Longer(more) => {
            let from = offset.saturating_sub(usize::from(more));
            vec![Sent::data(from as i64, &stream[from..end])]
        }
        Game::Decoy => vec![Sent::data(at, &other).broken(), plain],
        Game::Overwrite => vec![plain, Sent::data(at, &other)],
        Game::KeepAlive => vec![Sent::data(at - 1, b"x"), plain],
        Game::FarRst => vec![Sent::data(far, b"").with(RST), plain],
        Game::NearRst => vec![Sent::data(at + 5000, b"").with(RST), plain],
        Game::BrokenRst => vec![Sent::data(at, b"").with(RST).broken(), plain],
        Game::BrokenFin => vec![Sent::data(at, b"").with(FIN).broken(), plain],
        Game::LostFin => vec![Sent::data(at, b"").with(FIN), plain],
        Game::FarData => vec![Sent::data(far, b"xxx"), plain],
        Game::OtherSyn => {
            let syn = Sent {
                flags: SYN,
                ..Sent::data(at + 50, b"")
            };
            vec![syn, plain]
        }
    }
}

/// Segments in the order in which they are sent.
fn sent(parts: &[Part], stream: &[u8]) -> Vec<Sent> {
    let (mut offset, mut order) = (0, Vec::new());
    for (number, part) in parts.iter().enumerate() {
        if offset >= stream.len() {
            break;
        }
        for one in segments(part, offset, stream) {
            order.push((number + part.late, one));
        }
        offset += part.bytes;
    }
    order.sort_by_key(|(place, _)| *place);
    order.into_iter().map(|(_, sent)| sent).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_flow_is_banned_if_its_receiver_would_get_the_word(
        parts in prop::collection::vec(part(), 1..30),
        word_at in prop::option::of(0..120usize),
        ends in prop::sample::select(Ends::ALL.to_vec()),
        ends_with_fin in any::<bool>(),
    ) {
        let mut stream = vec![b'.'; 160];
        if let Some(at) = word_at {
            stream[at..at + WORD.len()].copy_from_slice(WORD);
        }
        let mut talk = Talk::new(ends);
        talk.fins_get_lost = true;
        for sent in sent(&parts, &stream) {
            talk.send(&sent);
        }
        if ends_with_fin {
            talk.send(&Sent::data(stream.len() as i64, b"").with(FIN));
        }
        let untouched = talk.received(talk.trace.iter().map(|frame| frame.frame));
        let service = inspecting(&["reassembler", "inspector"], "");
        prop_assert_eq!(is_banned(&service, &talk, "any games"), contains(&untouched));
    }
}
