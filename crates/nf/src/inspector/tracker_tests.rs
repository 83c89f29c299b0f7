//! The tracker against a search that has the whole stream before it.

use super::deep::DeepMatcher;
use super::deep::StreamMatcher;
use super::rules::{Item, ItemKind, Pattern, RuleIndex, Rules};
use super::tracker::{Chunk, Hit, Progress, Tracker};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The rules that are met along a stream in chunks.
fn met(rules: &Rules, chunks: &[&[u8]]) -> BTreeSet<RuleIndex> {
    let matcher = DeepMatcher::new(rules).expect("small");
    let (mut state, mut progress) = (Default::default(), Progress::default());
    let (mut found, mut start, mut forgotten) = (BTreeSet::new(), 0, 0);
    for (number, chunk) in chunks.iter().enumerate() {
        let mut hits = Vec::new();
        let heard = |item, end| {
            hits.push(Hit {
                end: start + end,
                item,
            });
        };
        StreamMatcher::scan(&matcher, &mut state, chunk, heard).expect("never fails");
        hits.sort_unstable();
        let tracker = Tracker {
            rules,
            progress: &mut progress,
            chunk: Chunk {
                start,
                bytes: chunk,
                is_last: number + 1 == chunks.len(),
            },
            is_wanted: &|_| true,
            met: &mut |rule| _ = found.insert(rule),
            forgotten: &mut forgotten,
        };
        tracker.run(&hits);
        start += chunk.len() as u32;
    }
    assert!(progress.is_idle());
    assert_eq!(forgotten, 0);
    found
}

/// Where a literal occurs: begin and end.
fn occurrences<'a>(item: &'a Item, stream: &'a [u8]) -> impl Iterator<Item = (i64, i64)> + 'a {
    let ItemKind::Pattern(sought) = &item.kind else {
        panic!("a pattern")
    };
    let Pattern::Literal(bytes) = sought.pattern() else {
        panic!("a literal")
    };
    let found = stream.windows(bytes.len()).enumerate();
    let found = found.filter(move |(_, part)| *part == &bytes[..]);
    found.map(move |(at, _)| (at as i64, (at + bytes.len()) as i64))
}

/// After how many bytes it is known that an item and those relative to it are there, behind `cursor`.
fn known(items: &[Item], cursor: i64, stream: &[u8]) -> Option<i64> {
    let Some((item, rest)) = items.split_first() else {
        return Some(0);
    };
    let (place, n) = (item.place, stream.len() as i64);
    let is_there = |(begin, end): &(i64, i64)| match item.begins {
        true => {
            let depth = place.depth.map(|depth| i64::from(place.offset + depth));
            *begin >= i64::from(place.offset) && depth.is_none_or(|last| *end <= last)
        }
        false => {
            let within = place.within.map(|within| cursor + i64::from(within));
            begin - cursor >= i64::from(place.distance) && within.is_none_or(|last| *end <= last)
        }
    };
    match &item.kind {
        ItemKind::Test(test) => {
            let begin = usize::try_from(cursor + i64::from(test.number.offset)).ok()?;
            let end = begin + test.number.bytes as usize;
            let value = test.number.read(stream.get(begin..end)?)?;
            test.holds(value).then_some(())?;
            Some(known(rest, cursor, stream)?.max(end as i64))
        }
        ItemKind::DataAt(more) => {
            let enough = cursor + i64::from(*more);
            (enough <= n).then_some(())?;
            Some(known(rest, cursor, stream)?.max(enough))
        }
        _ if item.negated => {
            if occurrences(item, stream).any(|one| is_there(&one)) {
                return None;
            }
            let last = place.within.map_or(n, |within| cursor + i64::from(within));
            Some(last.min(n).max(known(rest, cursor, stream)?))
        }
        _ => occurrences(item, stream)
            .filter(is_there)
            .filter(|(_, end)| !place.ends_with || *end == n)
            .filter_map(|(_, end)| Some(known(rest, end, stream)?.max(end)))
            .min(),
    }
}

/// Whether a rule is met along a stream, by its definition.
fn is_met(items: &[Item], stream: &[u8]) -> bool {
    let n = stream.len() as i64;
    let chains: Vec<&[Item]> = items
        .chunk_by(|one, other| one.chain == other.chain)
        .collect();
    let positive = chains
        .iter()
        .filter(|chain| !(chain[0].begins && chain[0].negated));
    let known: Option<Vec<i64>> = positive.map(|chain| known(chain, 0, stream)).collect();
    // A rule of nothing but what must not be there waits until it can no longer come.
    let waits = |chain: &&[Item]| chain[0].place.depth.is_none();
    let Some(mut met_at) = known.map(|all| match all.into_iter().max() {
        Some(last) => last,
        None if chains.iter().any(waits) => n,
        None => 0,
    }) else {
        return false;
    };
    if n == 0 {
        return false;
    }
    let negative = || {
        chains
            .iter()
            .filter(|chain| chain[0].begins && chain[0].negated)
    };
    for chain in negative() {
        let place = chain[0].place;
        let last = place.depth.map(|depth| i64::from(place.offset + depth));
        met_at = met_at.max(last.unwrap_or(0)).min(n);
    }
    !negative().any(|chain| {
        let place = chain[0].place;
        let last = place
            .depth
            .map_or(n, |depth| i64::from(place.offset + depth));
        let mut found = occurrences(&chain[0], stream);
        found.any(|(begin, end)| begin >= i64::from(place.offset) && end <= last && end <= met_at)
    })
}

fn item() -> impl Strategy<Value = String> {
    let absolute =
        (0..6u32, prop::option::of(3..12u32), any::<bool>()).prop_map(|(offset, depth, ends)| {
            let depth = depth.map_or(String::new(), |depth| format!(" depth={depth}"));
            let ends = if ends { " endswith" } else { "" };
            (format!(" offset={offset}{depth}"), ends)
        });
    let relative = (-1..4i32, prop::option::of(3..9u32), any::<bool>()).prop_map(
        |(distance, within, ends)| {
            let within = within.map_or(String::new(), |within| format!(" within={within}"));
            let ends = if ends { " endswith" } else { "" };
            (format!(" distance={distance}{within}"), ends)
        },
    );
    let place = prop_oneof![
        2 => Just((String::new(), "")),
        1 => absolute,
        3 => relative,
    ];
    let literal = ("[ab]{1,3}", place, prop::bool::weighted(0.25)).prop_map(
        |(text, (place, ends), negated)| match negated {
            true => format!("not literal \"{text}\"{place}"),
            false => format!("literal \"{text}\"{place}{ends}"),
        },
    );
    let test = (
        0..4i32,
        prop::sample::select(vec!["<", ">", "=", "&"]),
        95..100u32,
    )
        .prop_map(|(offset, compare, with)| format!("byte_test \"1,{compare},{with},{offset}\""));
    prop_oneof![5 => literal, 1 => test]
}

/// A rule that is taken, of several items.
fn rule() -> impl Strategy<Value = Rules> {
    let items = prop::collection::vec(item(), 1..4);
    let first = prop_oneof![
        4 => "[ab]{1,2}".prop_map(|first| format!("literal \"{first}\"")),
        1 => item(),
    ];
    (first, items).prop_filter_map("not taken", |(first, items)| {
        let text = format!("r alert {first} and {}", items.join(" and "));
        Rules::parse(&text, "t").ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// However a stream is cut, a rule is met if it is by its definition.
    #[test]
    fn rules_are_met_as_they_are_defined(
        rules in rule(),
        stream in "[abc]{0,24}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let stream = stream.as_bytes();
        let chunks = super::deep::tests::chunks(stream, &cuts);
        let expected = is_met(rules.items_of(0), stream);
        prop_assert_eq!(met(&rules, &chunks).contains(&0), expected, "{:?}", chunks);
    }
}

/// What Suricata's rules often ask for: a long line.
#[test]
fn conditions_in_a_row_hold_together() {
    let cases: [(&[u8], bool); 5] = [
        (b"USER aaaaaaaaaa", true),
        (b"USER aaaaaaaa\na", false),
        // So many bytes behind it, as in Suricata; once it asked for one more.
        (b"USER aaaaaaaaa", true),
        (b"USER aaaaaaaa", false),
        (b"USER aaaaaaa\nUSER bbbbbbbbbbb", true),
    ];
    let text = "alert tcp any any -> any any (content:\"USER \"; isdataat:9,relative; \
                content:!\"|0a|\"; within:9; sid:1;)";
    let rules = Rules::parse(text, "t").expect("a rule");
    assert_eq!(rules.len(), 1, "{:?}", rules.left_out());
    for (stream, expected) in cases {
        for size in 1..=stream.len() {
            let chunks: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(met(&rules, &chunks).contains(&0), expected, "{chunks:?}");
        }
    }
}

/// Whether rules are met along a stream, however it is cut.
fn check(cases: &[(&str, &[u8], bool)]) {
    for (text, stream, expected) in cases {
        let rules = match text.contains(';') {
            true => format!("alert tcp any any -> any any ({text} sid:1;)"),
            false => format!("r alert {text}"),
        };
        let rules = Rules::parse(&rules, "t").expect("a rule");
        assert_eq!(rules.len(), 1, "{:?}", rules.left_out());
        for size in 1..=stream.len() {
            let chunks: Vec<&[u8]> = stream.chunks(size).collect();
            let is_met = met(&rules, &chunks).contains(&0);
            assert_eq!(is_met, *expected, "{text} {chunks:?}");
        }
    }
}

#[test]
fn words_begin_and_end() {
    check(&[
        (r#"regex "\bcat\b""#, b"a cat.", true),
        (r#"regex "\bcat\b""#, b"cat", true),
        (r#"regex "\bcat\b""#, b"concat", false),
        (r#"regex "\bcat\b""#, b"a catalogue", false),
        (r#"regex "\bcat\b""#, b"tomcat cat_ cat7 cat!", true),
        (r#"regex "cat\B""#, b"a cat", false),
        (r#"regex "cat\B""#, b"a cats", true),
        (r#"regex "\Bcat""#, b"cat", false),
        (r#"regex "\Bcat""#, b"a tomcat", true),
        (r#"regex "a\b.\bb""#, b"a-b", true),
        (r#"regex "a\b.\bb""#, b"axb", false),
        (
            r#"pcre:"/\bcat\b/i"; content:"dog"; within:5;"#,
            b"a CAT, dog",
            true,
        ),
        (
            r#"pcre:"/\bcat\b/i"; content:"dog"; within:5;"#,
            b"a CATdog",
            false,
        ),
        (r#"pcre:"/^cat\b/"; "#, b"cat food", true),
        (r#"pcre:"/^cat\b/"; "#, b"a cat", false),
    ]);
}

#[test]
fn numbers_from_the_beginning_on() {
    check(&[
        ("byte_test:2,>,256,1;", b"x\x01\x01", true),
        ("byte_test:2,>,256,1;", b"x\x01\x00y", false),
        ("byte_test:2,>,256,1;", b"x\x01", false),
        (
            r#"content:"end"; byte_test:1,=,7,0;"#,
            b"\x07 and the end",
            true,
        ),
        (
            r#"content:"end"; byte_test:1,=,7,0;"#,
            b"\x08 and the end",
            false,
        ),
        (
            r#"content:"b"; byte_test:1,=,97,0; content:"c"; distance:0; within:1;"#,
            b"abxbc",
            true,
        ),
        (
            r#"content:"b"; byte_test:1,=,97,0; content:"c"; distance:0; within:1;"#,
            b"abxc",
            false,
        ),
        (
            r#"byte_jump:1,0; content:"c"; distance:0; within:1;"#,
            b"\x02xxc",
            true,
        ),
        (
            r#"byte_jump:1,0; content:"c"; distance:0; within:1;"#,
            b"\x02xc",
            false,
        ),
        // Nothing is relative to a number, so both are looked for from the beginning.
        (
            r#"byte_test "1,>,95,1" and literal "a" distance=0"#,
            b"aa",
            true,
        ),
        (
            r#"byte_test "1,>,95,2" and literal "b" distance=0 within=3"#,
            b"baa",
            true,
        ),
        (
            r#"not literal "b" distance=0 within=3 and byte_test "1,>,95,2""#,
            b"aba",
            false,
        ),
        (
            r#"byte_test:1,>,95,2,relative; content:"b"; within:1;"#,
            b"baa",
            true,
        ),
        ("isdataat:3;", b"abcd", true),
        ("isdataat:3;", b"abc", false),
        ("isdataat:3,relative;", b"abc", true),
        ("isdataat:!3;", b"abc", true),
        ("isdataat:!3;", b"abcd", false),
        (r#"content:"a"; isdataat:!3,relative;"#, b"xabc", true),
        (r#"content:"a"; isdataat:!3,relative;"#, b"xabcd", false),
        (r#"content:"a"; isdataat:!1,relative;"#, b"xa", true),
    ]);
}

/// In Suricata's words what `within` counts begins where `distance` puts a content; in the inspector's own
/// it begins with the end of the item before.
#[test]
fn within_counts_from_distance() {
    check(&[
        (
            r#"content:"CMD"; content:"|00 00|"; distance:4; within:2;"#,
            b"CMDabcd\0\0",
            true,
        ),
        (
            r#"content:"CMD"; content:"|00 00|"; within:2; distance:4;"#,
            b"CMDabcde\0\0",
            false,
        ),
        (
            r#"content:"CMD"; content:"zz"; distance:4; within:7;"#,
            b"CMDabcdefgzz",
            true,
        ),
        (
            r#"content:"CMD"; content:!"zz"; distance:4; within:7;"#,
            b"CMDabcdefgzz",
            false,
        ),
        (
            r#"literal "CMD" and literal "zz" distance=4 within=7"#,
            b"CMDabcdefgzz",
            false,
        ),
        (
            r#"literal "CMD" and literal "zz" distance=4 within=11"#,
            b"CMDabcdefgzz",
            true,
        ),
    ]);
}

#[test]
fn what_must_not_be_there_alone() {
    check(&[
        (r#"content:!"SSH-"; depth:4;"#, b"HTTP/1.1 200", true),
        (r#"content:!"SSH-"; depth:4;"#, b"SSH-2.0", false),
        (r#"content:!"SSH-"; depth:4;"#, b"SS", true),
        (r#"not literal "SSH-" startswith"#, b" SSH-2.0", true),
        (r#"content:!"end";"#, b"no such word", true),
        (r#"content:!"end";"#, b"in the end.", false),
        (r#"content:!"a"; content:!"b"; depth:2;"#, b"cca", false),
        (r#"content:!"a"; content:!"b"; depth:2;"#, b"ccb", true),
        (r#"pcre:!"/x[0-9]/";"#, b"x9", false),
        (r#"pcre:!"/x[0-9]/";"#, b"xx", true),
    ]);
}

#[test]
fn jumps_and_what_must_follow() {
    let cases: [(&str, &[u8], bool); 7] = [
        (
            "literal \"a\" and byte_jump \"1,0\" and literal \"b\" distance=0 within=1",
            b"xa\x02ccb",
            true,
        ),
        (
            "literal \"a\" and byte_jump \"1,0\" and literal \"b\" distance=0 within=1",
            b"xa\x02cb",
            false,
        ),
        (
            "literal \"a\" and byte_jump \"1,0,multiplier 2,align\" and literal \"b\" within=1",
            b"a\x01ccccb",
            true,
        ),
        (
            "literal \"a\" and byte_test \"2,>,256,0\" and byte_test \"1,=,9,2\"",
            b"xxa\x01\x01\x09",
            true,
        ),
        (
            "literal \"a\" and byte_test \"1,=,9,2\" and byte_test \"2,>,256,0\"",
            b"xxa\x01\x01\x09",
            true,
        ),
        (
            "literal \"L=\" and byte_test \"3,>,99,0,string,dec\"",
            b"L=120;",
            true,
        ),
        (
            "literal \"L=\" and byte_test \"3,>,99,0,string,dec\"",
            b"L=12;",
            false,
        ),
    ];
    check(&cases);
}
