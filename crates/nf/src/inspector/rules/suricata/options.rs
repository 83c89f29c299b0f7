//! The options of a rule: `name:value;` and `name;`.

use super::Refusal;
use crate::inspector::error::{Expected, Problem};

/// One option.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleOption<'t> {
    pub name: &'t str,
    /// Without blanks around it; empty if there is none.
    pub value: &'t str,
    /// Where it stands on its line.
    pub at: usize,
}

/// The options between the parenthesis at `start` and the line's last.
pub(super) fn options(text: &str, start: usize) -> Result<Vec<RuleOption<'_>>, Refusal> {
    let unclosed = || {
        let problem = Problem::Expected(Expected::ClosingParenthesis);
        Refusal::new(text.len(), "(", problem)
    };
    let end = text
        .trim_end()
        .strip_suffix(')')
        .ok_or_else(unclosed)?
        .len();
    let mut found = Vec::new();
    let mut from = start + 1;
    while from < end {
        let length = length(&text[from..end]);
        let option = &text[from..from + length];
        let at = from + option.len() - option.trim_start().len();
        if !option.trim().is_empty() {
            let (name, value) = option.split_once(':').unwrap_or((option, ""));
            found.push(RuleOption {
                name: name.trim(),
                value: value.trim(),
                at,
            });
        }
        from += length + 1;
    }
    Ok(found)
}

/// Up to the semicolon that ends an option.
fn length(text: &str) -> usize {
    let (mut escaped, mut quoted) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => return at,
            _ => {}
        }
    }
    text.len()
}
