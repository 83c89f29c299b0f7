//! The lines of a service file that its rules and routes are in.

use super::{FileText, Instance, Service};
use crate::text_place::TextPlace;
use std::collections::HashMap;
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use twinpath_nf::edit::Object;

/// Where each rule and route is written, by its function's name and the rule on one line, or the route
/// as [`RuleFunction::entry_towards`](twinpath_rulecache::RuleFunction::entry_towards) tells it. What an operator has added since is in no line.
#[derive(Clone, Debug, Default)]
pub struct RuleLines(HashMap<(String, String), usize>);

impl RuleLines {
    /// The lines of a service's file.
    pub fn of(service: &Service) -> Self {
        let FileText { text, .. } = &service.file;
        let mut lines = HashMap::new();
        let Ok(file) = DeTable::parse(text) else {
            return Self(lines);
        };
        for Instance { name, config } in &service.written_chain {
            for (object, key, prefix) in KINDS {
                let spans = spans(file.get_ref(), name, key);
                if spans.is_empty() || !config.has(object) {
                    continue;
                }
                // The first of two equal rules decides.
                for (rule, span) in config.listed(object).into_iter().zip(spans) {
                    let line = TextPlace::of(span.start, text).line;
                    let rule = format!("{prefix}{rule}");
                    lines.entry((name.to_string(), rule)).or_insert(line);
                }
            }
        }
        Self(lines)
    }

    /// The line of a rule.
    pub fn line(&self, function: &str, rule: &str) -> Option<usize> {
        let key = (function.to_owned(), rule.to_owned());
        self.0.get(&key).copied()
    }
}

/// What is written in lists: the key, and what is told in front of one.
const KINDS: [(Object, &str, &str); 2] = [
    (Object::Rule, "rules", ""),
    (Object::Route, "routes", "route "),
];

/// Where the entries of a list in a function's table are.
fn spans(file: &DeTable<'_>, function: &str, key: &str) -> Vec<Range<usize>> {
    let table = file
        .get(function)
        .and_then(|table| table.get_ref().as_table());
    let rules = table.and_then(|table| table.get(key));
    match rules.map(|rules| rules.get_ref()) {
        Some(DeValue::Array(rules)) => rules.iter().map(|rule| rule.span()).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use twinpath_nf::edit::Edit;

    #[test]
    fn rules_are_found_in_their_lines_also_after_changes() {
        let text = "[service]\nchain = [\"edge\"]\n\n[edge]\nfunction = \"acl\"\nrules = [\n\
            { action = \"deny\", to_port = 25 },\n\n{ action = \"deny\", to_port = 9 },\n]\n";
        let service = Service::parse(text, Path::new("x.toml")).expect("sound");
        let rule = "deny to_port 7".to_owned();
        let number = Some(1);
        let changed = service.edited(None, &Edit::AddRule { rule, number });
        for service in [service, changed.expect("possible")] {
            let lines = RuleLines::of(&service);
            assert_eq!(lines.line("edge", "deny to_port 25"), Some(7));
            assert_eq!(lines.line("edge", "deny to_port 9"), Some(9));
            assert_eq!(lines.line("edge", "deny to_port 7"), None);
            assert_eq!(lines.line("acl", "deny to_port 9"), None);
        }
    }
}
