//! An inspector that finds bytes of a capture.

use super::{FunctionText, Lacking};
use crate::expectation::{Evidence, Expectation};
use crate::profile::{Profile, Spanning};
use std::fmt::Write as _;

const NAME: &str = "inspector";
/// The file of rules beside the service file.
const RULES: &str = "derived.rules";

impl Profile {
    /// An inspector that raises alerts about some rare bytes, within packets and across borders of
    /// segments, and bans flows for others.
    ///
    /// # Errors
    /// A capture without payloads, or with such alone as have no bytes to tell them by.
    pub fn inspector(&self) -> Result<FunctionText, Lacking> {
        let signatures = &self.signatures;
        if signatures.are_none() {
            return Err(Lacking(
                "no payload with some different bytes to tell it by",
            ));
        }
        let literal = |bytes: &Vec<u8>| format!("literal \"{}\"", escaped(bytes));
        let mut rules = Rules::default();
        signatures
            .alerts
            .iter()
            .for_each(|bytes| rules.add("alert", &literal(bytes)));
        signatures
            .spanning
            .iter()
            .for_each(|span| rules.add("alert", &across(span)));
        signatures
            .bans
            .iter()
            .for_each(|bytes| rules.add("ban", &literal(bytes)));
        signatures
            .deep_bans
            .iter()
            .for_each(|deep| rules.add("ban", &followed(&deep.head, &deep.tail)));
        let alerts = (signatures.alerts.len() + signatures.spanning.len()) as u64;
        let expectations = [
            (alerts > 0).then(|| Expectation::counted(NAME, &["alerts"], alerts)),
            (!signatures.bans.is_empty()).then_some(Expectation {
                function: NAME,
                seen: Evidence::Dropped("banned"),
                at_least: 1,
            }),
        ];
        Ok(FunctionText {
            function: NAME,
            variant: "",
            table: format!("[inspector]\nrules = \"{RULES}\"\ngaps = \"inspect\"\n"),
            files: vec![(RULES, rules.text)],
            expectations: expectations.into_iter().flatten().collect(),
        })
    }
}

#[derive(Default)]
struct Rules {
    text: String,
    count: usize,
}

impl Rules {
    fn add(&mut self, action: &str, pattern: &str) {
        self.count += 1;
        _ = writeln!(self.text, "{action}-{} {action} {pattern}", self.count);
    }
}

/// Bytes as a literal and a regular expression alike read them.
fn escaped(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("\\x{byte:02x}"))
}

/// A literal if both parts adjoin, else an expression for whatever lies between.
fn across(span: &Spanning) -> String {
    match span.adjoin {
        true => format!(
            "literal \"{}{}\"",
            escaped(&span.before),
            escaped(&span.after)
        ),
        false => followed(&span.before, &span.after),
    }
}

/// Bytes that others follow sooner or later.
fn followed(head: &[u8], tail: &[u8]) -> String {
    let (head, tail) = (escaped(head), escaped(tail));
    format!("regex \"{head}[\\x00-\\xff]*{tail}\"")
}
