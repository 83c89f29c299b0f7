//! Kinds of values, as service files call them.

/// What a reader says of a value of the wrong kind, in words that say what was expected; nothing if
/// it says something else.
pub(super) fn in_words(message: &str) -> Option<String> {
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let expected = expected_kind(expected);
    Some(format!("expected {expected}, found {}", found_kind(found)))
}

/// What was expected.
fn expected_kind(kind: &str) -> String {
    let kind = kind.trim();
    let Some(number) = kind.strip_prefix("a nonzero ") else {
        return match kind {
            "a sequence" => "a list in [ ]".into(),
            "a map" | "a table" => "a table: { ... }".into(),
            "a string" | "string" | "a borrowed string" => "a text in quotes".into(),
            "string or table" => "a text in quotes, or a table".into(),
            "a boolean" => "true or false".into(),
            "f64" | "f32" => "a number".into(),
            _ if kind.starts_with("struct ") => "a table: { ... }".into(),
            _ => whole_number(kind, 0).unwrap_or_else(|| kind.to_owned()),
        };
    };
    whole_number(number, 1).unwrap_or_else(|| "at least 1".into())
}

/// Whole numbers of a kind, from the least.
fn whole_number(kind: &str, least: u64) -> Option<String> {
    let most: u64 = match kind {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        "u64" | "usize" => return Some(format!("a whole number, at least {least}")),
        "i64" | "i32" => return Some("a whole number".into()),
        _ => return None,
    };
    Some(format!("a whole number from {least} to {most}"))
}

/// What was found there.
fn found_kind(found: &str) -> String {
    let text = found.strip_prefix("string ");
    let value = text.or_else(|| found.split('`').nth(1));
    match (found, value) {
        ("map", _) => "a table".into(),
        ("sequence", _) => "a list".into(),
        (_, Some(value)) => value.into(),
        _ => found.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_called_as_in_the_manual() {
        for (message, told) in [
            (
                "invalid type: integer `7`, expected a sequence",
                "expected a list in [ ], found 7",
            ),
            (
                "invalid type: string \"many\", expected u64",
                "expected a whole number, at least 0, found \"many\"",
            ),
            (
                "invalid value: integer `0`, expected a nonzero u32",
                "expected a whole number from 1 to 4294967295, found 0",
            ),
            (
                "invalid value: integer `-1`, expected u16",
                "expected a whole number from 0 to 65535, found -1",
            ),
            (
                "invalid type: sequence, expected a string",
                "expected a text in quotes, found a list",
            ),
            (
                "invalid type: floating point `1.5`, expected usize",
                "expected a whole number, at least 0, found 1.5",
            ),
        ] {
            assert_eq!(in_words(message).as_deref(), Some(told));
        }
        assert_eq!(in_words("unknown field `x`"), None);
    }
}
