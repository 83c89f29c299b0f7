//! The rules file, well and badly written.

use proptest::prelude::*;

use super::*;

fn problem(text: &str) -> (u32, u32, Problem) {
    let error = Rules::parse(text, "test.rules").unwrap_err();
    (error.line, error.column, error.problem)
}

fn expected(text: &str) -> (u32, Expected) {
    match problem(text) {
        (1, column, Problem::Expected(expected)) => (column, expected),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_file_is_read_line_by_line() {
    let text = "# rules\n\n  sql-union ban literal \"UNION\\x20SELECT\" nocase # old\r\n\
                shell\tban regex \"/bin/(ba)?sh -[ic]\"\n\
                card alert regex \"[0-9]{16}\" gate=\"card=\"\n\
                all alert regex \"[a-z]+[0-9]\" gate=always nocase";
    let rules = Rules::parse(text, "test.rules").unwrap();
    assert_eq!(rules.len(), 4);
    let rule = |index| rules.rule(index).unwrap();
    assert_eq!(
        (rule(0).name(), rule(0).action(), rule(0).line()),
        ("sql-union", Action::Ban, 3)
    );
    assert_eq!(
        *rule(0).pattern(),
        Pattern::Literal(b"UNION SELECT".to_vec())
    );
    assert!(rule(0).is_nocase() && !rule(1).is_nocase());
    assert_eq!(
        *rule(1).pattern(),
        Pattern::Regex("/bin/(ba)?sh -[ic]".to_owned())
    );
    assert!(matches!(rule(1).gate(), GateLiterals::AnyOf(literals) if literals.len() == 4));
    assert_eq!(
        *rule(2).gate(),
        GateLiterals::AnyOf(vec![b"card=".to_vec()])
    );
    assert_eq!(
        (rule(3).action(), rule(3).gate()),
        (Action::Alert, &GateLiterals::Always)
    );
    assert!(rules.rule(4).is_none());
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
        expected("name ban regex \"ab\" gate=ab"),
        (26, Expected::Gate)
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
        ("a ban literal \"x\"", 1, 16, "expected at least 2"),
        ("a ban literal \"xy\" nocase nocase", 1, 27, "already set"),
        (
            "a ban regex \"xy\" gate=always gate=always",
            1,
            30,
            "already set",
        ),
        ("a ban literal \"xy\" gate=always", 1, 20, "its own gate"),
        ("a ban regex \"x+\"", 1, 14, "gate=always"),
        ("a ban regex \"ab^c\"", 1, 16, "no meaning here"),
        ("a ban regex \"ab(c\"", 1, 16, "unclosed group"),
        ("a ban regex \"\\pLabc\"", 1, 14, "patterns match bytes"),
        ("a ban regex \"x*\" gate=always", 1, 14, "empty string"),
        (
            "a ban regex \"x+\" gate=\"x\"",
            1,
            24,
            "expected at least 2",
        ),
        (
            &format!("a ban literal \"{long}\""),
            1,
            16,
            "65536 bytes together",
        ),
    ];
    for (text, line, column, message) in cases {
        let error = Rules::parse(text, "test.rules").unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{error}");
        assert!(
            error
                .to_string()
                .starts_with(&format!("test.rules:{line}:{column}: ")),
            "{error}"
        );
        assert!(error.to_string().contains(message), "{error}");
    }
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
    let GateLiterals::AnyOf(literals) = rules.rule(0).unwrap().gate() else {
        panic!()
    };
    assert!(
        literals.iter().all(|literal| literal.starts_with(b"union")),
        "{literals:?}"
    );
}

proptest! {
    #[test]
    fn nonsense_is_an_error_and_never_a_panic(text in "([a-c] (ban|alert) (literal|regex) )?[\"\\\\x0-9a-f(|)*é# =gate]{0,40}\n?.{0,40}") {
        if let Err(error) = Rules::parse(&text, "t") {
            let line = text.lines().nth(error.line as usize - 1).unwrap();
            prop_assert!(error.column as usize <= line.chars().count() + 1, "{error}");
        }
    }

    #[test]
    fn escaped_bytes_are_read_back(bytes in prop::collection::vec(any::<u8>(), 2..40)) {
        let escaped: String = bytes.iter().map(|b| format!("\\x{b:02x}")).collect();
        let rules = Rules::parse(&format!("a ban literal \"{escaped}\""), "t").unwrap();
        prop_assert_eq!(rules.rule(0).unwrap().pattern(), &Pattern::Literal(bytes));
    }
}
