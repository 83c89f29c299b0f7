//! Suricata's words, well and badly written, and what is said of them.

use crate::inspector::rules::item::{Compare, Encoding, ItemBounds, ItemKind};
use crate::inspector::rules::{Action, Pattern, Rules, Variables};

fn read(text: &str) -> Rules {
    let pairs = [
        ("HOME_NET", "[10.0.0.0/8,!10.1.0.0/16]"),
        ("PORTS", "[80,8000:8010]"),
    ];
    let variables: Variables = pairs
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    Rules::parse_with(text, "x.rules", &variables).expect("each rule is taken or left out")
}

/// What a rule with these options is left out for, if it is.
fn left_out(options: &str) -> Option<String> {
    let rules = read(&format!("alert tcp any any -> any any ({options} sid:1;)"));
    assert_eq!(rules.len() + rules.left_out().len(), 1, "{options}");
    let left = rules.left_out().first();
    left.map(|left| {
        assert!(
            left.error.to_string().starts_with("x.rules:1:"),
            "{}",
            left.error
        );
        left.keyword.clone()
    })
}

#[test]
fn a_rule_is_items_at_places() {
    let rules = read(
        "alert tcp $HOME_NET any -> any $PORTS (msg:\"a \\; b\"; flow:to_server,established; \
         content:\"GET |2f 0a|\"; depth:6; nocase; content:!\"x\\\"y\"; offset:3; depth:20; \
         content:\"end\"; distance:1; within:10; byte_test:2,!>=,0x10,1,relative,little; \
         byte_jump:1,3,relative,multiplier 2,align; isdataat:4,relative; reference:url,a.b; sid:77; rev:3;)\n\
         drop udp any any <> any 53 (content:\"abc\"; startswith; endswith;)\n",
    );
    assert!(rules.left_out().is_empty(), "{:?}", rules.left_out());
    let [first, second] = [0, 1].map(|index| rules.rule(index).expect("two rules"));
    assert_eq!(
        (first.name(), first.action(), first.line()),
        ("77", Action::Alert, 1)
    );
    assert_eq!(
        (second.name(), second.action(), second.line()),
        ("line-2", Action::Ban, 2)
    );
    let items = rules.items_of(0);
    let of = |index: usize| match &items[index].kind {
        ItemKind::Pattern(sought) => match sought.pattern() {
            Pattern::Literal(bytes) => (bytes.clone(), sought.is_nocase()),
            Pattern::Regex(_) => panic!("a literal"),
        },
        _ => panic!("a pattern"),
    };
    assert_eq!(of(0), (b"GET /\n".to_vec(), true));
    assert_eq!(
        items[0].place,
        ItemBounds {
            depth: Some(6),
            ..ItemBounds::ANYWHERE
        }
    );
    assert_eq!(of(1), (b"end".to_vec(), false));
    let ItemKind::Test(_) = items[2].kind else {
        panic!("behind the content: {items:?}")
    };
    // What must not be there has nothing behind it.
    assert_eq!(of(5), (b"x\"y".to_vec(), false));
    assert!(items[5].negated && items[5].begins && items[5].ends && !items[5].place.ends_with);
}

/// A rule goes on behind a `\\` at the end of a line; lines and columns are the file's.
#[test]
fn a_rule_may_go_on_in_the_next_line() {
    let text = "alert tcp any any -> any any \\\n  (content:\"ab\"; \\\r\n  sid:1;)\n\
                # drop tcp any any -> any any (content:\"x\"; \\\n  sid:9;)\n\
                alert tcp any any -> any any ( \\\n content:\"ab\"; what; sid:2;)\n\
                own ban literal \"cd\" # drop no more \\\n\
                alert ban literal \"ef\" # nor here -> \\\n\
                drop tcp any any -> any any (content:\"yz\"; sid:3;)";
    let rules = read(text);
    let told: Vec<_> = rules
        .iter()
        .map(|(_, rule)| (rule.name(), rule.line()))
        .collect();
    assert_eq!(told, [("1", 2), ("own", 8), ("alert", 9), ("3", 10)]);
    let left: Vec<_> = rules.left_out().iter().map(|left| &left.error).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!((left[0].line, left[0].column), (7, 16));
    // The file ends before the rule does.
    let rules = read("alert tcp any any -> any any (content:\"ab\"; \\");
    assert_eq!((rules.len(), rules.left_out().len()), (0, 1));
    let rules = read("# drop what is a remark \\\na ban literal \"ab\"");
    assert_eq!(rules.len(), 1);
    // What stands behind a rule that is commented out is one.
    let old = "drop tcp any any -> any any (content:\"x\"; \\";
    let rule = "drop tcp any any -> any any (content:\"ab\"; sid:1;)";
    let rules = read(&format!("# {old}\n{rule}"));
    assert_eq!((rules.len(), rules.left_out().len()), (1, 0));
}

#[test]
fn numbers_are_read_as_written() {
    let rules = read(
        "alert tcp any any -> any any (content:\"ab\"; byte_test:2,!>=,0x10,1,relative,little; \
         byte_jump:4,2,relative,string,hex,post_offset 3; sid:1;)",
    );
    let items = rules.items_of(0);
    let (ItemKind::Test(test), ItemKind::Jump(jump)) = (&items[1].kind, &items[2].kind) else {
        panic!("{items:?} {:?}", rules.left_out());
    };
    assert_eq!((test.number.offset, test.number.bytes), (1, 2));
    assert_eq!(
        (test.number.encoding, test.compare, test.with),
        (Encoding::Little, Compare::AtLeast, 16)
    );
    assert!(test.inverted);
    assert_eq!((jump.number.encoding, jump.after), (Encoding::Text(16), 3));
}

/// Where a pattern can be at one place alone, a number's place behind it is known.
#[test]
fn numbers_at_fixed_places_are_behind_patterns_at_fixed_places() {
    let cases = [
        ("content:\"AB\"; startswith; byte_test:2,>,9,6;", 4),
        ("content:\"AB\"; offset:3; depth:2; byte_test:2,>,9,6;", 1),
        (
            "content:\"AB\"; startswith; content:\"C\"; distance:1; within:1; byte_test:1,>,9,4;",
            0,
        ),
    ];
    for (options, offset) in cases {
        let rules = read(&format!("alert tcp any any -> any any ({options} sid:1;)"));
        assert!(rules.left_out().is_empty(), "{:?}", rules.left_out());
        let last = rules.items_of(0).last().expect("a number");
        let ItemKind::Test(test) = &last.kind else {
            panic!("{last:?}");
        };
        assert_eq!(
            (test.number.offset, last.begins),
            (offset, false),
            "{options}"
        );
    }
}

/// An expression that is relative to a literal is one with it.
#[test]
fn relative_expressions_are_fused() {
    let rules = read(
        "alert tcp any any -> any any (content:\"User\"; nocase; content:\"=\"; distance:0; within:3; \
         pcre:\"/^[a-z]{2}\\d/Ri\"; content:\"!\"; distance:0; sid:1;)",
    );
    assert!(rules.left_out().is_empty(), "{:?}", rules.left_out());
    let items = rules.items_of(0);
    let ItemKind::Pattern(sought) = &items[0].kind else {
        panic!("{items:?}")
    };
    let expected = "(?i:\\x55\\x73\\x65\\x72)[\\x00-\\xff]{0,2}(?-i:\\x3d)(?i:[a-z]{2}\\d)";
    assert_eq!(sought.pattern(), &Pattern::Regex(expected.into()));
    assert_eq!((items.len(), items[1].begins), (2, false));
}

#[test]
fn sizes_are_those_of_payloads() {
    let cases: [(&str, [bool; 5]); 8] = [
        ("8", [false, false, true, false, false]),
        ("!8", [true, true, false, true, true]),
        ("<8", [true, true, false, false, false]),
        ("<=8", [true, true, true, false, false]),
        (">8", [false, false, false, true, true]),
        (">=8", [false, false, true, true, true]),
        ("7<>9", [false, false, true, false, false]),
        ("!7-9", [true, true, false, true, true]),
    ];
    for (text, expected) in cases {
        let sizes = super::numbers::sizes(text).expect("sizes");
        assert_eq!(
            [1, 7, 8, 9, 1400].map(|n| sizes.have(n)),
            expected,
            "{text}"
        );
    }
    let rules = read(
        "alert udp any any -> any any (dsize:<10; content:\"a\"; sid:1;)\n\
         alert tcp-pkt any any -> any any (content:\"a\"; sid:2;)\n\
         alert tcp any any -> any any (content:\"a\"; sid:3;)\n",
    );
    let by_packet = [0, 1, 2].map(|rule| rules.is_by_packet(rule));
    assert_eq!(by_packet, [true, true, false]);
}

#[test]
fn what_is_left_out_is_named() {
    let cases = [
        ("content:\"a\"; http_uri;", "http_uri"),
        ("content:\"a\"; flowbits:set,x;", "flowbits"),
        ("http.uri; content:\"a\";", "http.uri"),
        ("content:\"a\"; byte_test:1,>,x,0,relative;", "byte_test"),
        ("content:\"a\"; byte_test:1,>,2,-1,relative;", "distance"),
        ("msg:\"x\";", "nothing to look for"),
        ("dsize:0;", "dsize"),
        ("dsize:x; content:\"a\";", "dsize"),
        ("dsize:5<>6; content:\"a\";", "dsize"),
        ("dsize:5; dsize:6;", "dsize"),
        (
            "content:\"a\"; content:!\"b\"; within:4; content:\"c\"; distance:0;",
            "negation",
        ),
        ("content:\"ab\"; content:\"c\"; distance:-3;", "distance"),
        (
            "content:\"ab\"; content:\"c\"; distance:-1; within:1;",
            "content",
        ),
        ("content:\"a\"; depth:x;", "depth"),
        ("content:\"abc\"; depth:2;", "content"),
        ("content:\"a|0|\";", "content"),
        ("pcre:\"/^a+/\";", "pcre"),
        ("pcre:\"/^a$/\";", "pcre"),
        ("pcre:\"/^a/m\";", "pcre"),
        ("pcre:\"/(a\\b|c)/\";", "pcre"),
        ("pcre:!\"/a\\b/\"; content:\"c\";", "negation"),
        ("pcre:\"/a(?=b)/\";", "pcre"),
        ("pcre:\"/ab/U\";", "pcre/U"),
        (
            "content:\"a\"; flow:not_established;",
            "flow:not_established",
        ),
        ("content:\"a\"; isdataat:x;", "isdataat"),
    ];
    for (options, keyword) in cases {
        assert_eq!(left_out(options).as_deref(), Some(keyword), "{options}");
    }
    let said = [
        "pcre:\"/^CMD\\s/\";",
        "pcre:\"/a+$/\";",
        "pcre:\"/^a$/D\";",
        "pcre:\"/\\bab\\B.*\\bc\\b/\";",
        "content:\"a\"; byte_test:1,>,2,0;",
        "content:\"a\"; depth:4; byte_test:1,>,2,5;",
        "content:\"ab\"; startswith; byte_test:1,>,2,1;",
        "byte_jump:1,4; content:\"x\"; distance:0; within:1;",
        "content:!\"SSH-\"; depth:4;",
        "pcre:!\"/a/\";",
        "isdataat:10; isdataat:!20;",
        "dsize:!9;",
        "dsize:4<>8; content:\"a\";",
    ];
    for options in said {
        assert_eq!(left_out(options), None, "{options}");
    }
    let headers = [
        ("alert http any any -> any any", "protocol http"),
        ("pass tcp any any -> any any", "pass"),
        ("alert tcp $NOBODY any -> any any", "$NOBODY"),
        ("alert tcp any 99999 -> any any", "header"),
        ("alert tcp any -> any any", "header"),
    ];
    for (header, keyword) in headers {
        let rules = read(&format!("{header} (content:\"a\"; sid:1;)"));
        assert_eq!(rules.left_out()[0].keyword, keyword, "{header}");
    }
    let rules = read(
        "alert tcp any any -> any any (content:\"a\"; http_uri; sid:1;)\n\
         alert tcp any any -> any any (content:\"a\"; http_uri; sid:2;)\n\
         alert tcp any any -> any any (content:\"a\"; sid:3;)\n\
         word ban literal \"b\"\n\
         alert tcp any any -> any any (content:\"a\"; flowbits:set,x; sid:4;)\n",
    );
    let summary = rules.summary().expect("some are left out").to_string();
    let mut lines = summary.lines();
    let first = lines.next().expect("a line");
    assert_eq!(first, "3 of 5 rules are left out (http_uri 2, flowbits 1):");
    for (line, place) in lines.zip(["x.rules:1:", "x.rules:2:", "x.rules:5:"]) {
        assert!(line.trim_start().starts_with(place), "{summary}");
    }
    assert_eq!(summary.lines().count(), 4);
    let many = "alert tcp any any -> any any (content:\"a\"; http_uri; sid:1;)\n".repeat(104);
    let summary = read(&many).summary().expect("all are left out").to_string();
    assert!(summary.ends_with("\n  and 4 more"), "{summary}");
    assert!(read("word ban literal \"b\"\n").summary().is_none());
}

#[test]
fn nonsense_is_left_out_and_never_a_panic() {
    let pieces = [
        "content:",
        "\"",
        "|",
        "4",
        ";",
        "!",
        "\\",
        "(",
        ")",
        "pcre:\"/",
        "/R",
        "within:",
        "é",
        ",",
        "byte_test:4,>",
    ];
    let mut state = 1u64;
    for _ in 0..3000 {
        let mut text = "alert tcp any any -> any any (".to_owned();
        for _ in 0..12 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            text += pieces[(state >> 33) as usize % pieces.len()];
        }
        let rules = read(&text);
        assert!(rules.len() + rules.left_out().len() <= 1);
    }
}

/// Rules for payloads as they are written again and again: nearly all are said whole. Before, a rule
/// was one literal or one expression.
#[test]
fn most_plain_rules_are_said_whole() {
    let forms = [
        "content:\"CMD\";",
        "content:\"CMD\"; nocase;",
        "content:\"CMD\"; depth:3;",
        "content:\"CMD\"; offset:4; depth:20;",
        "content:\"CMD\"; content:\"arg\"; distance:0;",
        "content:\"CMD\"; content:\"arg\"; distance:1; within:20;",
        "content:\"CMD\"; content:\"arg\";",
        "content:\"CMD\"; content:!\"safe\";",
        "content:\"CMD\"; content:!\"|0a|\"; within:100;",
        "content:\"CMD\"; startswith; content:\"|00 00|\"; distance:4; within:2;",
        "content:\"CMD\"; byte_test:4,>,1000,0,relative;",
        "content:\"CMD\"; byte_jump:2,0,relative; content:\"x\"; within:1;",
        "content:\"CMD\"; isdataat:100,relative; content:!\"|0a|\"; within:100;",
        "content:\"CMD\"; pcre:\"/^\\s+[^\\n]{30}/R\";",
        "pcre:\"/CMD\\s+(a|b)/i\";",
        "content:\"CMD\"; pcre:\"/CMD[0-9]+x/\";",
        "content:\"CMD\"; endswith;",
        "content:\"CMD\"; pcre:\"/^CMD\\s/m\";",
        "content:\"CMD\"; byte_test:4,>,1000,8;",
        "content:\"CMD\"; dsize:>100;",
    ];
    let said = forms.iter().filter(|form| left_out(form).is_none()).count();
    assert_eq!((said, forms.len()), (19, 20));
    let one = |form: &&&str| form.matches("content").count() + form.matches("pcre").count() == 1;
    let plain = forms
        .iter()
        .filter(one)
        .filter(|form| form.matches(';').count() == 1);
    assert_eq!(
        plain.count(),
        2,
        "as many could be said before, and one with nocase"
    );
}
