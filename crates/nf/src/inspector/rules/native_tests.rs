//! The rules file, well and badly written.

use proptest::prelude::*;

use super::*;
use crate::inspector::error::Expected;

fn problem(text: &str) -> (u32, u32, Problem) {
    let error = first_error(text);
    (error.line, error.column, error.problem)
}

fn first_error(text: &str) -> RulesError {
    let mistakes = Rules::parse(text, "test.rules").unwrap_err();
    mistakes.told()[0].clone()
}

fn expected(text: &str) -> (u32, Expected) {
    match problem(text) {
        (1, column, Problem::Expected(expected)) => (column, expected),
        other => panic!("{text}: {other:?}"),
    }
}

fn sought(rules: &Rules, index: usize) -> Sought {
    rules.patterns().nth(index).expect("a pattern").1.clone()
}

#[test]
fn a_file_is_read_line_by_line() {
    let text = "# rules\n\n  sql-union ban literal \"UNION\\x20SELECT\" nocase # old\r\n\
                shell\tban regex \"/bin/(ba)?sh -[ic]\"\n\
                all alert regex \"[^a-z]+[0-9]\" nocase";
    let rules = Rules::parse(text, "test.rules").unwrap();
    assert_eq!(rules.len(), 3);
    let rule = |index| rules.rule(index).unwrap();
    assert_eq!(
        (rule(0).name(), rule(0).action(), rule(0).line()),
        ("sql-union", Action::Ban, 3)
    );
    let [union, shell, all] = [0, 1, 2].map(|index| sought(&rules, index));
    assert_eq!(*union.pattern(), Pattern::Literal(b"UNION SELECT".to_vec()));
    assert!(union.is_nocase() && !shell.is_nocase());
    assert_eq!(
        *shell.pattern(),
        Pattern::Regex("/bin/(ba)?sh -[ic]".to_owned())
    );
    assert!(matches!(shell.gate(), GateLiterals::AnyOf(literals) if literals.len() == 4));
    assert_eq!(
        (rule(2).action(), all.gate()),
        (Action::Alert, &GateLiterals::Always)
    );
    assert!(rules.rule(3).is_none());
}

#[test]
fn a_rule_may_have_several_items() {
    let text = "magic alert literal \"MZ\" startswith and literal \"program\" offset=64 depth=256 nocase \
                and literal \"mode\" distance=-2 within=9 and byte_test \"2,>,0x100,4,little\" \
                and not literal \"x\" distance=6 within=20 # and so on";
    let rules = Rules::parse(text, "test.rules").unwrap();
    let items = rules.items_of(0);
    let places: Vec<_> = items
        .iter()
        .map(|item| (item.begins, item.ends, item.chain))
        .collect();
    assert_eq!(
        places,
        [
            (true, true, 0),
            (true, false, 1),
            (false, false, 1),
            (false, false, 1),
            (false, true, 1)
        ]
    );
    assert_eq!(items[0].place.depth, Some(2));
    assert_eq!(
        (items[1].place.offset, items[1].place.depth),
        (64, Some(256))
    );
    assert_eq!(
        (items[2].place.distance, items[2].place.within),
        (-2, Some(9))
    );
    assert!(items[4].negated && !items[3].negated);
    assert!(rules.rule_of_one(0).is_none());
    assert_eq!(rules.first_patterns().count(), 2);
}

/// A line that is Suricata's but for its action is not taken for one in the inspector's own words.
#[test]
fn a_misspelt_action_of_suricata_is_told() {
    let said = |text: &str| first_error(text).to_string();
    let told = said("alrt tcp any any -> any any (content:\"ab\"; sid:1;)");
    let expected = "test.rules:1:1: expected the action alert, drop, reject or pass in front of a rule in Suricata's words, found \"alrt\"; did you mean alert?";
    assert!(told.contains(expected), "{told}");
    let told = said("x forbid regex \"a -> (b)\"");
    assert!(told.contains("the action 'ban' or 'alert'"), "{told}");
}

#[test]
fn what_is_missing_is_named_and_located() {
    assert_eq!(expected("na/me ban literal \"ab\""), (1, Expected::Name));
    assert_eq!(expected("name"), (5, Expected::Action));
    assert_eq!(expected("name drop literal \"ab\""), (6, Expected::Action));
    assert_eq!(expected("name ban text \"ab\""), (10, Expected::Kind));
    assert_eq!(expected("name ban literal ab"), (18, Expected::Pattern));
    assert_eq!(
        expected("name ban literal \"ab"),
        (21, Expected::ClosingQuote)
    );
    assert_eq!(
        expected("name ban literal \"ab\"nocase"),
        (22, Expected::Space)
    );
    assert_eq!(
        expected("name ban literal \"é\\q\""),
        (20, Expected::Escape)
    );
    assert_eq!(
        expected("name ban literal \"ab\" caseless"),
        (23, Expected::Option)
    );
    assert_eq!(
        expected("name ban literal \"ab\" depth=x"),
        (23, Expected::Number)
    );
    assert_eq!(
        expected("name ban literal \"ab\" and "),
        (27, Expected::Kind)
    );
    for wrong in ["4,?,1,0", "4,>,1", "9,>,1,0", "4,>,1,0,bitmask 0xf"] {
        assert_eq!(
            expected(&format!(
                "name ban literal \"ab\" and byte_test \"{wrong}\""
            )),
            (38, Expected::ByteTest)
        );
    }
    assert_eq!(
        expected("name ban literal \"ab\" and byte_jump \"4,0,from_end\""),
        (38, Expected::ByteJump)
    );
    assert_eq!(
        expected("name ban byte_test \"4,>,1,0\" nocase"),
        (30, Expected::End)
    );
}

#[test]
fn what_cannot_be_is_refused_at_its_place() {
    let long = "x".repeat(MAX_PATTERN_BYTES + 1);
    let cases = [
        (
            "a ban literal \"xy\"\na ban literal \"z\"",
            2,
            1,
            "another name",
        ),
        ("a ban literal \"\"", 1, 16, "at least one byte"),
        ("a ban literal \"xy\" nocase nocase", 1, 27, "already set"),
        ("a ban literal \"xy\" depth=9 depth=9", 1, 28, "already set"),
        (
            "a ban literal \"xyz\" depth=2",
            1,
            16,
            "longer than its depth",
        ),
        (
            "a ban regex \"ab^c\"",
            1,
            16,
            "cannot be told along a stream",
        ),
        ("a ban regex \"ab(c\"", 1, 16, "unclosed group"),
        ("a ban regex \"\\pLabc\"", 1, 14, "patterns match bytes"),
        ("a ban regex \"x*\"", 1, 14, "empty string"),
        ("a ban regex \"xy+\" offset=3", 1, 14, "no place for it"),
        ("a ban regex \"^xy+\"", 1, 14, "cannot be told along"),
        (
            "a ban regex \"xyz\" depth=2",
            1,
            14,
            "longer than its depth",
        ),
        (
            "a ban literal \"ab\" and not literal \"b\" within=3 and literal \"c\" distance=1",
            1,
            62,
            "behind a negated item",
        ),
        (
            "a ban literal \"ab\" and literal \"c\" distance=-2",
            1,
            33,
            "in front of the item before it",
        ),
        (
            &format!("a ban literal \"{long}\""),
            1,
            16,
            "262144 bytes together",
        ),
    ];
    for (text, line, column, message) in cases {
        let error = first_error(text);
        let shown = &error.to_string()[..error.to_string().len().min(300)];
        assert_eq!((error.line, error.column), (line, column), "{shown}");
        assert!(
            shown.starts_with(&format!("test.rules:{line}:{column}: ")),
            "{shown}"
        );
        assert!(shown.contains(message), "{shown}");
    }
}

/// Each mistake is told at its line, and what follows from none.
#[test]
fn all_mistakes_of_a_file_are_told() {
    let text =
        "a ban literal \"ab\"\nb drop literal \"ab\"\n\na ban literal \"x\"\nc ban regex \"(\"\n";
    let error = Rules::parse(text, "test.rules").unwrap_err();
    let places = error.told().iter().map(|error| (error.line, error.column));
    assert_eq!(places.collect::<Vec<_>>(), [(2, 3), (4, 1), (5, 14)]);
    let shown = error.to_string();
    assert!(
        shown.contains("\n  test.rules:4:1: a rule named 'a'"),
        "{shown}"
    );
    let many = "what\n".repeat(100);
    let error = Rules::parse(&many, "test.rules").unwrap_err();
    assert_eq!((error.told().len(), error.untold()), (64, 36));
    let line = |n: usize| format!("r{n} ban literal \"ab{n}\"\n");
    let too_many: String = (0..MAX_RULES + 9).map(line).collect();
    let error = Rules::parse(&too_many, "test.rules").unwrap_err();
    assert_eq!((error.told().len(), error.untold()), (1, 0));
}

#[test]
fn a_byte_order_mark_is_no_rule() {
    let rules = Rules::parse("\u{feff}a ban literal \"ab\"\n", "test.rules").unwrap();
    assert_eq!(rules.rule(0).unwrap().name(), "a");
    assert_eq!(problem("\u{feff}a ban text \"ab\"").1, 7);
}

#[test]
fn there_is_a_limit_on_rules() {
    let line = |n: usize| format!("r{n} ban literal \"ab{n}\"\n");
    let text: String = (0..MAX_RULES).map(line).collect();
    assert_eq!(Rules::parse(&text, "test.rules").unwrap().len(), MAX_RULES);
    let more = text + &line(MAX_RULES);
    assert!(matches!(problem(&more), (4097, 1, Problem::TooManyRules)));
}

#[test]
fn a_caseless_pattern_has_the_gate_of_the_cased_one() {
    let rules = Rules::parse("a ban regex \"union\\s+select\" nocase", "test.rules").unwrap();
    let sought = sought(&rules, 0);
    let GateLiterals::AnyOf(literals) = sought.gate() else {
        panic!()
    };
    assert!(
        literals.iter().all(|literal| literal.starts_with(b"union")),
        "{literals:?}"
    );
}

proptest! {
    #[test]
    fn nonsense_is_an_error_and_never_a_panic(text in "([a-c] (ban|alert) (literal|regex) )?[\"\\\\x0-9a-f(|)*é# =and]{0,40}\n?.{0,40}") {
        let mistakes = Rules::parse(&text, "t").err();
        for error in mistakes.iter().flat_map(|mistakes| mistakes.told()) {
            let line = text.lines().nth(error.line as usize - 1).unwrap();
            prop_assert!(error.column as usize <= line.chars().count() + 1, "{error}");
        }
    }

    #[test]
    fn escaped_bytes_are_read_back(bytes in prop::collection::vec(any::<u8>(), 1..40)) {
        let escaped: String = bytes.iter().map(|b| format!("\\x{b:02x}")).collect();
        let rules = Rules::parse(&format!("a ban literal \"{escaped}\""), "t").unwrap();
        let sought = sought(&rules, 0);
        prop_assert_eq!(sought.pattern(), &Pattern::Literal(bytes));
    }
}
