//! The obvious classifier: read the rules one after the other. What tests compare with.

use super::{Headers, Rule};

/// The index of the first rule that matches.
#[must_use]
pub fn first_match(rules: &[Rule], headers: &Headers) -> Option<usize> {
    rules.iter().position(|rule| rule.matches(headers))
}
