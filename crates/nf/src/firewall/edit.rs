//! Single changes of a list of rules.

use super::rule::{Rule, RuleTextError};
use crate::edit::{Edit, EditError};

/// Why a rule is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum RuleEditError {
    /// No rule.
    #[error("the rule cannot be read: {0}")]
    Unreadable(#[from] RuleTextError),
    /// A place that the list does not have.
    #[error("expected a number from 1 to {most}, found {number}")]
    Number {
        /// What was asked for.
        number: usize,
        /// The last one that there is, or may be.
        most: usize,
    },
    /// The list has no rules.
    #[error("there are no rules")]
    Empty,
    /// A rule that is not in the list.
    #[error("there is no rule {0:?}")]
    NotThere(String),
}

/// The rules after a single change.
///
/// # Errors
/// It cannot be made.
pub(crate) fn edited_rules(rules: &[Rule], edit: &Edit) -> Result<Vec<Rule>, EditError> {
    let edited = match edit {
        Edit::AddRule { rule, number } => with_rule(rules, rule, *number),
        Edit::DeleteRule { rule } => without_rule(rules, rule),
        other => return Err(EditError::Object(other.object())),
    };
    edited.map_err(EditError::of)
}

/// The rules with another one, which gets this number, counted from 1; it comes last without.
///
/// # Errors
/// The list has no such place, or the text is no rule.
fn with_rule(
    rules: &[Rule],
    text: &str,
    number: Option<usize>,
) -> Result<Vec<Rule>, RuleEditError> {
    let rule = text.parse()?;
    let most = rules.len() + 1;
    let number = number.unwrap_or(most);
    if !(1..=most).contains(&number) {
        return Err(RuleEditError::Number { number, most });
    }
    let mut rules = rules.to_vec();
    rules.insert(number - 1, rule);
    Ok(rules)
}

/// The rules without one that is named by its number, or as it is written; of several that are
/// the same the first.
///
/// # Errors
/// There is no such rule.
fn without_rule(rules: &[Rule], text: &str) -> Result<Vec<Rule>, RuleEditError> {
    let place = match text.trim().parse::<usize>() {
        Ok(_) if rules.is_empty() => return Err(RuleEditError::Empty),
        Ok(number) if (1..=rules.len()).contains(&number) => number - 1,
        Ok(number) => {
            let most = rules.len();
            return Err(RuleEditError::Number { number, most });
        }
        Err(_) => {
            let rule: Rule = text.parse()?;
            let place = rules.iter().position(|other| *other == rule);
            place.ok_or_else(|| RuleEditError::NotThere(rule.to_string()))?
        }
    };
    let mut rules = rules.to_vec();
    rules.remove(place);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<Rule> {
        let rule = |text: &&str| {
            text.parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"))
        };
        texts.iter().map(rule).collect()
    }

    const TEXTS: [&str; 4] = [
        "deny protocol tcp to_port 25",
        "allow protocol 47 from 10.0.0.0/8",
        "allow from 2001:db8::/32 from_port 1-1023,5000 to_port 80",
        "deny",
    ];

    #[test]
    fn rules_are_written_as_they_are_read() {
        let written: Vec<String> = rules(&TEXTS).iter().map(Rule::to_string).collect();
        assert_eq!(written, TEXTS);
        assert_eq!(rules(&["deny from any protocol any"]), rules(&["deny"]));
    }

    #[test]
    fn rules_are_put_in_and_taken_out() {
        let [one, two, three] = [TEXTS[0], TEXTS[1], TEXTS[2]];
        let list = rules(&[one, two]);
        assert_eq!(with_rule(&list, three, None), Ok(rules(&[one, two, three])));
        assert_eq!(
            with_rule(&list, three, Some(1)),
            Ok(rules(&[three, one, two]))
        );
        assert_eq!(without_rule(&list, "2"), Ok(rules(&[one])));
        assert_eq!(without_rule(&list, one), Ok(rules(&[two])));
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        let list = rules(&TEXTS);
        let added =
            |text: &str, number| with_rule(&list, text, number).expect_err(text).to_string();
        let deleted = |text: &str| without_rule(&list, text).expect_err(text).to_string();
        for (said, expected) in [
            (
                added("", None),
                "expected \"allow\" or \"deny\" first, found \"\"",
            ),
            (added("permit", None), "found \"permit\""),
            (
                added("deny tcp", None),
                "\"tcp\" is unknown: expected ingress, protocol, from, to, from_port or to_port",
            ),
            (
                added("deny proto tcp", None),
                "\"proto\" is unknown: expected ingress, protocol, from, to, from_port or to_port; did you mean protocol?",
            ),
            (
                added("deny to 10.0.0.1 to 10.0.0.2", None),
                "expected to at most once",
            ),
            (added("deny to", None), "expected a value behind \"to\""),
            (
                added("deny protocol 300", None),
                "a protocol number from 0 to 255, found \"300\"",
            ),
            (added("deny to_port 7-5", None), "ends before it begins"),
            (added("deny to 10.0.0.1/8", None), "write \"10.0.0.0/8\""),
            (
                added("deny protocol icmp to_port 5", None),
                "needs protocol",
            ),
            (
                added("deny", Some(6)),
                "expected a number from 1 to 5, found 6",
            ),
            (
                added("deny", Some(0)),
                "expected a number from 1 to 5, found 0",
            ),
            (deleted("5"), "expected a number from 1 to 4, found 5"),
            (
                deleted("deny to 10.0.0.1"),
                "there is no rule \"deny to 10.0.0.1/32\"",
            ),
            (
                without_rule(&[], "1").expect_err("none").to_string(),
                "there are no rules",
            ),
        ] {
            assert!(said.contains(expected), "{said}");
        }
    }
}
