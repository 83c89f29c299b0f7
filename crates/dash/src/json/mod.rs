//! SONiC's JSON.
//!
//! A file is a list of changes, made in order:
//! ```json
//! [
//!     {"DASH_VNET_TABLE:Vnet1": {"vni": "1001"}, "OP": "SET"},
//!     {"DASH_ENI_TABLE:eni-1": {}, "OP": "DEL"}
//! ]
//! ```
//! Instead of the list there may be an object of what is set: `{"DASH_VNET_TABLE:Vnet1": {...}}`, or
//! with tables, as in SONiC's configuration database, `{"DASH_VNET_TABLE": {"Vnet1": {...}}}`.
//!
//! Values are read as the public files have them: numbers and booleans also as texts, words in lower
//! case, as protobuf has them or as its numbers, lists also as texts with commas, ranges as `8-10` or
//! `[8, 10]`. What is wrong is told for each field, with its line; an object with something wrong is
//! left out, and all others are read.

mod bare_routes;
mod decode;
mod fields;
mod ha;
mod keys;
mod lines;
mod problem;
mod switch_role;
mod tables;
#[cfg(test)]
mod tests;
mod value;

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;

use serde_json::value::RawValue;

pub use problem::{Problem, Wrong};

use crate::objects::{Change, Key, Object, Table};
use bare_routes::BareRoutes;
use fields::{Fields, no_object, shown_object};
use lines::Lines;
use problem::{Problems, did_you_mean, shown};
use value::{Member, Value};

/// What a file says.
#[derive(Debug, Default)]
pub struct Reading {
    /// Changes, in order, each with its line.
    pub changes: Vec<(Change, u32)>,
    /// What is wrong, or worth a look, in the order of lines.
    pub problems: Vec<Problem>,
    /// How many errors more there are.
    pub more_errors: usize,
    /// How many remarks more.
    pub more_remarks: usize,
}

impl Reading {
    /// Whether every object is read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.more_errors == 0 && self.problems.iter().all(Problem::is_remark)
    }
}

/// What some editors put in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a file. A file that is no JSON has one problem and no changes.
#[must_use]
pub fn read(bytes: &[u8]) -> Reading {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = &bytes[..error.valid_up_to()];
            let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count() as u32;
            return Reading::failed(line, Wrong::Encoding);
        }
    };
    let mut reader = Reader {
        lines: Lines::new(text),
        changes: Vec::new(),
        problems: Problems::default(),
        known: HashMap::new(),
        set_before: HashMap::new(),
        hashes: RandomState::new(),
        bare_routes: BareRoutes::default(),
    };
    match serde_json::from_str::<&RawValue>(text) {
        Ok(file) => reader.file(file),
        Err(error) => return Reading::failed(error.line() as u32, syntax_of_file(&error)),
    }
    let Reader {
        changes,
        mut problems,
        bare_routes,
        ..
    } = reader;
    problems.told.extend(bare_routes.remark());
    problems.told.sort_by_key(|problem| problem.line);
    Reading {
        changes,
        more_errors: problems.more_errors(),
        more_remarks: problems.more_remarks(),
        problems: problems.told,
    }
}

/// What a parser says, without the place, which is told apart.
fn syntax(error: &serde_json::Error) -> Wrong {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    Wrong::Syntax(text[..end].to_owned())
}

/// The same with the column, if there is one.
fn syntax_of_file(error: &serde_json::Error) -> Wrong {
    match (syntax(error), error.column()) {
        (Wrong::Syntax(text), column @ 1..) => Wrong::Syntax(format!("{text} at column {column}")),
        (wrong, _) => wrong,
    }
}

impl Reading {
    fn failed(line: u32, wrong: Wrong) -> Self {
        let problem = Problem {
            line: line.max(1),
            object: None,
            field: None,
            wrong,
        };
        Self {
            problems: vec![problem],
            ..Self::default()
        }
    }
}

/// What is done with an object.
#[derive(Copy, Clone)]
enum Operation {
    Set,
    Delete,
}

struct Reader<'a> {
    lines: Lines<'a>,
    changes: Vec<(Change, u32)>,
    problems: Problems,
    /// Objects that have been met in the same JSON object, and their lines.
    known: HashMap<Key, u32>,
    /// Objects that entries of a list have set and none has deleted, by their hashes, and their lines.
    set_before: HashMap<u64, u32>,
    hashes: RandomState,
    bare_routes: BareRoutes,
}

/// Tables of SONiC's DASH that are not supported, without `_TABLE` at the end.
pub const ABSENT_TABLES: [&str; 10] = [
    "DASH_ENI_PLACEMENT",
    "DASH_FLOW_DUMP_FILTER",
    "DASH_FLOW_SYNC_SESSION",
    "DASH_FLOW_SYNC_SESSION_STATE",
    "DASH_HA_GLOBAL_CONFIG",
    "DASH_HA_SCOPE_STATE",
    "DASH_HA_SET_STATE",
    "DASH_METER",
    "DASH_ROUTING_APPLIANCE",
    "DASH_BFD_PROBE_STATE",
];

impl<'a> Reader<'a> {
    fn file(&mut self, file: &'a RawValue) {
        match Value::of(file) {
            Ok(Value::List(entries)) => entries.into_iter().for_each(|entry| self.entry(entry)),
            // One entry alone.
            Ok(Value::Fields(pairs)) if pairs.0.iter().any(|(name, _)| name == "OP") => {
                self.entry(file);
            }
            Ok(Value::Fields(pairs)) => {
                let mut tables = HashMap::new();
                for (name, value) in pairs.0 {
                    let line = self.lines.of(value);
                    match tables.entry(name.clone()) {
                        Entry::Occupied(known) if !name.contains(':') => {
                            let first = *known.get();
                            self.wrong_object(&name, value, None, Wrong::Twice { first });
                        }
                        known => {
                            known.or_insert(line);
                            self.set_or_table(&name, value);
                        }
                    }
                }
            }
            Ok(_) => self.wrong(file, None, Wrong::Form),
            Err(error) => self.wrong(file, None, syntax(&error)),
        }
    }

    /// An entry of the list: an object or several, and what is done with them.
    fn entry(&mut self, entry: &'a RawValue) {
        let pairs = match Value::of(entry) {
            Ok(Value::Fields(pairs)) => pairs.0,
            Ok(_) => return self.wrong(entry, None, Wrong::Entry),
            Err(error) => return self.wrong(entry, None, syntax(&error)),
        };
        let (operations, objects): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|(name, _)| name == "OP");
        let operation = match *operations {
            [(_, value)] => match value.get() {
                "\"SET\"" => Operation::Set,
                "\"DEL\"" => Operation::Delete,
                other => {
                    let wrong = Wrong::Operation {
                        found: shown(other),
                    };
                    return self.wrong_operation(value, objects.first(), wrong);
                }
            },
            [] => return self.without_operation(entry, objects.first()),
            [(_, first), (_, second), ..] => {
                let first = self.lines.of(first);
                return self.wrong(second, Some("OP"), Wrong::Twice { first });
            }
        };
        if objects.is_empty() {
            self.wrong(entry, None, Wrong::Entry);
        }
        self.known.clear();
        let before = self.changes.len();
        for (name, value) in objects {
            self.object(operation, &name, value);
        }
        for (change, line) in &self.changes[before..] {
            let hash = self.hashes.hash_one(change.key());
            match change {
                Change::Set(_) => _ = self.set_before.insert(hash, *line),
                Change::Delete(_) => _ = self.set_before.remove(&hash),
            }
        }
    }

    /// An object is set that an earlier entry has set.
    fn told_of_another(&mut self, written: &str, key: &Key, line: u32) {
        let first = self.set_before.get(&self.hashes.hash_one(key));
        if let Some(first) = first {
            let text = format!("set in line {first}, too: this one counts, as it is later");
            self.problems.push(Problem {
                line,
                object: Some(shown_object(written)),
                field: None,
                wrong: Wrong::Remark(text),
            });
        }
    }

    /// An `OP` that says nothing of an entry's first object, if it has one.
    fn wrong_operation(&mut self, value: &RawValue, first: Option<&Member<'a>>, wrong: Wrong) {
        match first {
            Some((name, _)) => self.wrong_object(name, value, Some("OP"), wrong),
            None => self.wrong(value, Some("OP"), wrong),
        }
    }

    /// An entry that does not say what is done with its first object, if it has one.
    fn without_operation(&mut self, entry: &RawValue, first: Option<&Member<'a>>) {
        let expected = "\"SET\" or \"DEL\" beside the object";
        match first {
            Some((name, value)) => {
                self.wrong_object(name, value, Some("OP"), Wrong::Missing { expected });
            }
            None => self.wrong(entry, None, Wrong::Entry),
        }
    }

    /// A member of an object at the top: an object that is set, or a table of such.
    fn set_or_table(&mut self, name: &str, value: &'a RawValue) {
        if name.contains(':') {
            return self.object(Operation::Set, name, value);
        }
        let line = self.lines.of(value);
        if self.table(name, line).is_none() {
            return;
        }
        match Value::of(value) {
            Ok(Value::Fields(pairs)) => {
                for (key, value) in pairs.0 {
                    self.object(Operation::Set, &format!("{name}:{key}"), value);
                }
            }
            Ok(_) => self.wrong(value, Some(name), Wrong::Entry),
            Err(error) => self.wrong(value, Some(name), syntax(&error)),
        }
    }

    fn object(&mut self, operation: Operation, written: &str, value: &'a RawValue) {
        let line = self.lines.of(value);
        if written.chars().any(char::is_control) {
            self.problems.push(Problem {
                line,
                object: Some(written.escape_debug().to_string().into()),
                field: None,
                wrong: Wrong::Control,
            });
            return;
        }
        let Some((table, rest)) = self.table(written, line) else {
            return;
        };
        let mut remarks = Vec::new();
        let key = keys::key(table, rest, &mut remarks);
        let mut fields = Fields::new(written, line, &mut self.lines, &mut self.problems);
        for remark in remarks {
            fields.remark("key", remark);
        }
        let change = match (key, operation) {
            (Err(wrong), _) => {
                fields.wrong("key", wrong);
                None
            }
            (Ok(key), _) if self.known.contains_key(&key) => {
                let first = self.known[&key];
                fields.wrong("", Wrong::Twice { first });
                None
            }
            (Ok(key), Operation::Delete) => {
                self.known.insert(key.clone(), line);
                Some(Change::Delete(key))
            }
            (Ok(key), Operation::Set) => {
                self.known.insert(key.clone(), line);
                set(key, value, fields).map(Change::Set)
            }
        };
        if let Some(Change::Set(object)) = &change {
            self.told_of_another(written, &object.key(), line);
        }
        if table == Table::Route && change.is_some() && !rest.contains('/') {
            self.bare_routes.note(line, written);
        }
        self.changes.extend(change.map(|change| (change, line)));
    }

    /// The table of an object, and the rest of its key; what is not DASH's is told.
    fn table<'w>(&mut self, written: &'w str, line: u32) -> Option<(Table, &'w str)> {
        let (name, rest) = written.split_once(':').unwrap_or((written, ""));
        let known = |table: &&Table| {
            // Documents leave the end out here and there.
            table.name() == name || table.name().strip_suffix("_TABLE") == Some(name)
        };
        if let Some(table) = Table::ALL.iter().find(known) {
            return Some((*table, rest));
        }
        let is_absent = ABSENT_TABLES
            .iter()
            .any(|absent| name.strip_suffix("_TABLE").unwrap_or(name) == *absent);
        let wrong = if is_absent {
            Wrong::AbsentTable
        } else if name.starts_with("DASH_") || !name.ends_with(|c: char| c.is_ascii_uppercase()) {
            let names = Table::ALL.iter().map(|table| table.name());
            let meant = did_you_mean(name, names);
            Wrong::UnknownTable { meant }
        } else {
            Wrong::OtherTable
        };
        self.problems.push(Problem {
            line,
            object: Some(shown_object(written)),
            field: None,
            wrong,
        });
        None
    }

    fn wrong_object(&mut self, name: &str, value: &RawValue, field: Option<&str>, wrong: Wrong) {
        let line = self.lines.of(value);
        self.problems.push(Problem {
            line,
            object: Some(shown_object(&name.escape_debug().to_string())),
            field: field.map(Into::into),
            wrong,
        });
    }

    fn wrong(&mut self, value: &RawValue, field: Option<&str>, wrong: Wrong) {
        let line = self.lines.of(value);
        self.problems.push(Problem {
            line,
            object: None,
            field: field.map(Into::into),
            wrong,
        });
    }
}

/// Reads what is set.
fn set<'a>(key: Key, value: &'a RawValue, mut fields: Fields<'a, '_>) -> Option<Object> {
    match Value::of(value) {
        Ok(Value::Fields(pairs)) => fields.add(pairs),
        // As the document has it.
        Ok(Value::List(_)) if matches!(key, Key::RoutingType(_)) => {
            fields.add_list("items", value);
        }
        Ok(_) => {
            fields.wrong("", no_object(value));
            return None;
        }
        Err(error) => {
            fields.wrong("", syntax(&error));
            return None;
        }
    }
    let object = tables::object(key, &mut fields);
    let impossible = object.as_ref().and_then(Object::impossible);
    if let Some(impossible) = impossible {
        fields.wrong(
            impossible.field,
            Wrong::Impossible(impossible.why.into_owned()),
        );
    }
    let whole = fields.finish();
    object.filter(|_| whole)
}
