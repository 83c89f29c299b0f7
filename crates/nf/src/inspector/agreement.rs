//! The inspector as a function: both paths agree, and bans fall where they should.

use super::{Config, DeepMatcher, Inspector, Rules};
use crate::two_paths::Path;
use proptest::prelude::*;
use twinpath_core::{DropReason, Instant};
use twinpath_wire::{Endpoint, PacketBuilder};

const RULES: &str = "ban-literal ban literal \"FORBIDDEN\"\n\
    ban-regex ban regex \"evil[0-9]{2,4}\"\n\
    watch alert literal \"LOOKATME\"\n";

fn function() -> Inspector<DeepMatcher> {
    function_of("rules = \"unused\"", RULES)
}

fn function_of(config: &str, rules: &str) -> Inspector<DeepMatcher> {
    let config: Config = toml::from_str(config).expect("valid");
    let rules = Rules::parse(rules, "test.rules").expect("valid");
    let matcher = DeepMatcher::new(&rules).expect("small");
    Inspector::new(&config, &rules, matcher)
}

fn paths() -> [Path<Inspector<DeepMatcher>>; 2] {
    [
        Path::slow(function(), Instant(1)),
        Path::both(function(), Instant(1)),
    ]
}

fn packet(payload: &[u8], answers: bool) -> Vec<u8> {
    let (client, server): (Endpoint, Endpoint) = (
        "10.0.0.1:4000".parse().expect("valid"),
        "10.0.0.2:80".parse().expect("valid"),
    );
    let (from, to) = if answers {
        (server, client)
    } else {
        (client, server)
    };
    PacketBuilder::tcp(from, to)
        .flags(0x10)
        .payload(payload)
        .to_vec()
        .expect("valid")
}

fn is_banned(path: &mut Path<Inspector<DeepMatcher>>, payloads: &[&[u8]]) -> bool {
    let fates: Vec<_> = payloads
        .iter()
        .map(|payload| path.process(&packet(payload, false), Instant(1)))
        .collect();
    fates
        .last()
        .is_some_and(|fate| fate.drops == [(DropReason::Banned, 1)])
}

#[test]
fn what_is_banned_and_what_is_not() {
    let long = [b'x'; 100];
    let late: Vec<u8> = [&long[..], b"FORBIDDEN"].concat();
    let cases: [(&[&[u8]], bool); 8] = [
        (&[b"harmless"], false),
        (&[b"a FORBIDDEN word"], true),
        (&[b"a FORBIDDEN word", b"harmless"], true),
        (&[b"it ends in FORB", b"IDDEN"], true),
        (&[b"it ends in FORB", b"idden", b"IDDEN"], false),
        (&[b"evil", b"1", b"2"], true),
        (&[b"LOOKATME"], false),
        // Shallow inspection sees the first 64 bytes only.
        (&[&late], false),
    ];
    for (payloads, expected) in cases {
        for mut path in paths() {
            assert_eq!(is_banned(&mut path, payloads), expected, "{payloads:?}");
        }
    }
}

#[test]
fn a_ban_ends_after_silence() {
    for mut path in paths() {
        assert!(is_banned(&mut path, &[b"FORBIDDEN"]));
        let later = Instant(400_000_000_000);
        assert_eq!(
            path.process(&packet(b"harmless", false), later)
                .onward
                .len(),
            1
        );
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
            assert!(!is_banned(&mut path, &[b"it ends in FORB"]));
            path.reconfigure(function_of("rules = \"unused\"\nstreams = 7", rules));
            assert_eq!(is_banned(&mut path, &[b"IDDEN"]), is_found, "{rules}");
            assert!(is_banned(&mut path, &[b"FORB", b"IDDEN"]), "it goes on");
        }
    }
}

/// Who was banned stays so, for the new time.
#[test]
fn bans_outlive_the_rules_that_made_them() {
    for mut path in paths() {
        assert!(is_banned(&mut path, &[b"FORBIDDEN"]));
        path.reconfigure(function_of(
            "rules = \"unused\"\nban_timeout = \"10s\"",
            "# none",
        ));
        assert!(is_banned(&mut path, &[b"harmless"]));
        assert_eq!(
            path.counter("deep_bans") + path.counter("shallow_bans"),
            u64::from(path.simple == 0)
        );
        let later = Instant(12_000_000_000);
        let fate = path.process(&packet(b"FORBIDDEN", false), later);
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

proptest! {
    #[test]
    fn both_paths_agree(packets in prop::collection::vec((payload(), any::<bool>(), 0u64..90), 1..60)) {
        let mut paths = paths();
        let mut now = 1;
        for (payload, answers, seconds) in packets {
            now += seconds * 1_000_000_000;
            let packet = packet(&payload, answers);
            let (slow, both) = (paths[0].process(&packet, Instant(now)), paths[1].process(&packet, Instant(now)));
            prop_assert_eq!(slow, both);
        }
    }
}
