//! The fields of an object.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::decode::{Decode, List};
use super::lines::Lines;
use super::problem::{Problem, Problems, Wrong, did_you_mean, shown};
use super::value::{Pairs, Value};

/// The fields of an object that are still to be read, and what is wrong with those that were.
pub(super) struct Fields<'a, 'f> {
    /// How the object is written.
    object: &'f str,
    line: u32,
    fields: Vec<Field<'a>>,
    /// Names that were asked for.
    known: Vec<&'static str>,
    /// Names that must be there and are not, each with the place of what is told of it.
    missing: Vec<(&'static str, usize)>,
    lines: &'f mut Lines<'a>,
    problems: &'f mut Problems,
    failed: bool,
    /// There are more fields than are read, which is told.
    has_too_many: bool,
    /// Not all that the object may have was asked for.
    given_up: bool,
    /// The table has fields that are not asked for.
    others_pass: bool,
}

struct Field<'a> {
    name: Cow<'a, str>,
    value: &'a RawValue,
    read: bool,
}

/// More fields than any object has.
const MOST_FIELDS: usize = 64;

/// Fields that SONiC's protobuf has inside another, and files beside it.
const INSIDE: [&str; 2] = ["vnet_direct", "service_tunnel"];

/// The items of a field that has one of these names, none if it is not there.
pub(super) fn list<T: Decode>(fields: &mut Fields<'_, '_>, names: &[&'static str]) -> Vec<T> {
    let list: Option<List<T>> = fields.one_of(names);
    list.map_or_else(Vec::new, |list| list.0)
}

impl<'a, 'f> Fields<'a, 'f> {
    /// The fields of an object that begins on this line.
    pub fn new(
        object: &'f str,
        line: u32,
        lines: &'f mut Lines<'a>,
        problems: &'f mut Problems,
    ) -> Self {
        Self {
            object,
            line,
            fields: Vec::new(),
            known: Vec::new(),
            missing: Vec::new(),
            lines,
            problems,
            failed: false,
            has_too_many: false,
            given_up: false,
            others_pass: false,
        }
    }

    /// Adds what is under the object.
    pub fn add(&mut self, pairs: Pairs<'a>) {
        for (name, value) in pairs.0 {
            match INSIDE.contains(&&*name) {
                true => self.add_inside(&name, value),
                false => self.add_field(name, value),
            }
        }
    }

    /// Adds a list that stands in the place of the object, as its field of this name.
    pub fn add_list(&mut self, name: &'static str, list: &'a RawValue) {
        self.add_field(name.into(), list);
    }

    /// Adds the fields inside a field.
    fn add_inside(&mut self, name: &str, value: &'a RawValue) {
        match Value::of(value) {
            Ok(Value::Fields(inside)) => {
                for (name, value) in inside.0 {
                    self.add_field(name, value);
                }
            }
            Ok(Value::Null) => {}
            _ => self.wrong_value(value, name, no_object(value)),
        }
    }

    fn add_field(&mut self, name: Cow<'a, str>, value: &'a RawValue) {
        if let Some(known) = self.fields.iter().find(|field| field.name == name) {
            let first = self.lines.of(known.value);
            let line = self.lines.of(value);
            self.wrong_at(line, &shown(&name), Wrong::Twice { first });
            return;
        }
        if self.fields.len() == MOST_FIELDS {
            if !self.has_too_many {
                self.wrong("", Wrong::TooManyFields { most: MOST_FIELDS });
            }
            self.has_too_many = true;
            return;
        }
        self.fields.push(Field {
            name,
            value,
            read: false,
        });
    }

    /// A field that may be absent.
    pub fn optional<T: Decode>(&mut self, name: &'static str) -> Option<T> {
        self.one_of(&[name])
    }

    /// A field that may be absent, and that has had several names; the first is today's.
    pub fn one_of<T: Decode>(&mut self, names: &[&'static str]) -> Option<T> {
        let mut found = None;
        for &name in names {
            let value = self.read(name);
            found = found.or(value);
        }
        found
    }

    /// A field that must be there.
    pub fn required<T: Decode>(&mut self, name: &'static str) -> Option<T> {
        self.required_of(&[name])
    }

    /// A field that must be there, and that has had several names; the first is today's.
    pub fn required_of<T: Decode>(&mut self, names: &[&'static str]) -> Option<T> {
        let problems = self.problems.count();
        let found = self.one_of(names);
        if found.is_none() && self.problems.count() == problems {
            let expected = T::EXPECTED;
            self.missing.push((names[0], self.problems.told.len()));
            self.wrong(names[0], Wrong::Missing { expected });
        }
        found
    }

    /// Fields that are told and mean nothing here.
    pub fn without_effect(&mut self, names: &[&'static str], why: &'static str) {
        for &name in names {
            self.known.push(name);
            let field = self.fields.iter_mut().find(|field| field.name == name);
            let Some(field) = field else { continue };
            field.read = true;
            let value = field.value;
            let said = !matches!(
                value.get(),
                "null" | "\"\"" | "0" | "\"0\"" | "false" | "\"false\"" | "[]"
            );
            if said {
                let line = self.lines.of(value);
                self.told(line, name, Wrong::NoEffect(why));
            }
        }
    }

    fn read<T: Decode>(&mut self, name: &'static str) -> Option<T> {
        self.known.push(name);
        let mut fields = self.fields.iter_mut();
        let field = fields.find(|field| field.name == name && !field.read)?;
        field.read = true;
        let raw = field.value;
        let value = match Value::of(raw) {
            Ok(value) if T::is_absent(&value) => return None,
            Ok(value) => value,
            Err(error) => {
                self.wrong_value(raw, name, Wrong::Syntax(error.to_string()));
                return None;
            }
        };
        let mut remarks = Vec::new();
        let decoded = T::decode(&value, &mut remarks);
        for remark in remarks {
            let line = self.lines.of(raw);
            self.told(line, name, remark);
        }
        decoded
            .map_err(|fault| self.wrong_value(raw, name, fault.about::<T>(raw.get())))
            .ok()
    }

    fn wrong_value(&mut self, raw: &RawValue, name: &str, wrong: Wrong) {
        let line = self.lines.of(raw);
        self.wrong_at(line, name, wrong);
    }

    /// Something is wrong with a field, or with the object if the name is empty.
    pub fn wrong(&mut self, name: &str, wrong: Wrong) {
        self.wrong_at(self.line, name, wrong);
    }

    fn wrong_at(&mut self, line: u32, name: &str, wrong: Wrong) {
        self.failed = true;
        self.told(line, name, wrong);
    }

    /// Something is worth a look.
    pub fn remark(&mut self, name: &str, wrong: Wrong) {
        self.told(self.line, name, wrong);
    }

    fn told(&mut self, line: u32, name: &str, wrong: Wrong) {
        self.problems.push(Problem {
            line,
            object: Some(shown_object(self.object)),
            field: (!name.is_empty()).then(|| name.into()),
            wrong,
        });
    }

    /// Something is wrong that says which other fields there are.
    pub fn give_up<T>(&mut self, found: Option<T>) -> Option<T> {
        self.given_up |= found.is_none();
        found
    }

    /// The table has fields for other purposes, too.
    pub fn pass_others(&mut self) {
        self.others_pass = true;
    }

    /// A field with a list of objects, each with fields of its own; the inner value is `None` if
    /// something is wrong with one.
    pub fn items<T>(
        &mut self,
        name: &'static str,
        read: fn(&mut Fields<'a, '_>) -> Option<T>,
    ) -> Option<Option<Vec<T>>> {
        self.known.push(name);
        let field = self.fields.iter_mut().find(|field| field.name == name)?;
        field.read = true;
        let raw = field.value;
        let Ok(Value::List(items)) = Value::of(raw) else {
            let wrong = Wrong::Value {
                found: shown(raw.get()),
                expected: "a list of objects",
                meant: String::new(),
            };
            self.wrong_value(raw, name, wrong);
            return Some(None);
        };
        let items: Vec<_> = items.into_iter().map(|raw| self.item(raw, read)).collect();
        Some(items.into_iter().collect())
    }

    fn item<T>(
        &mut self,
        raw: &'a RawValue,
        read: fn(&mut Fields<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        let line = self.lines.of(raw);
        let mut fields = Fields::new(self.object, line, self.lines, self.problems);
        let item = match Value::of(raw) {
            Ok(Value::Fields(pairs)) => {
                fields.add(pairs);
                read(&mut fields)
            }
            _ => {
                fields.wrong("items", no_object(raw));
                None
            }
        };
        let whole = fields.finish();
        self.failed |= !whole;
        item.filter(|_| whole)
    }

    /// A field that must be there is not missing if one is there whose name nobody asked for and that is
    /// like its own: that is told in its place.
    fn tell_misspelt(&mut self) {
        for (name, place) in std::mem::take(&mut self.missing) {
            let mut unread = self.fields.iter_mut().filter(|field| !field.read);
            let found = unread.find_map(|field| {
                let meant = did_you_mean(&field.name, [name]);
                (!meant.is_empty()).then_some((field, meant))
            });
            let Some((field, meant)) = found else {
                continue;
            };
            // What is beyond what is told has no place.
            let problem = self.problems.told.get_mut(place);
            let is_told = |problem: &&mut Problem| matches!(problem.wrong, Wrong::Missing { .. });
            let Some(problem) = problem.filter(is_told) else {
                continue;
            };
            field.read = true;
            problem.line = self.lines.of(field.value);
            problem.field = Some(shown(&field.name).into());
            problem.wrong = Wrong::UnknownField { meant };
        }
    }

    /// Names what nobody asked for; whether all is well.
    pub fn finish(mut self) -> bool {
        self.tell_misspelt();
        if self.given_up || self.others_pass {
            return !self.failed && !self.given_up;
        }
        let unread = std::mem::take(&mut self.fields);
        for field in unread.into_iter().filter(|field| !field.read) {
            let meant = did_you_mean(&field.name, self.known.iter().copied());
            let line = self.lines.of(field.value);
            self.wrong_at(line, &shown(&field.name), Wrong::UnknownField { meant });
        }
        !self.failed
    }
}

/// What is wrong with a value that is not an object.
pub(super) fn no_object(value: &RawValue) -> Wrong {
    Wrong::Value {
        found: shown(value.get()),
        expected: "an object of fields",
        meant: String::new(),
    }
}

/// How an object is told.
pub(super) fn shown_object(written: &str) -> Box<str> {
    const MOST_CHARACTERS: usize = 200;
    match written.char_indices().nth(MOST_CHARACTERS) {
        None => written.into(),
        Some((end, _)) => format!("{}…", &written[..end]).into(),
    }
}
