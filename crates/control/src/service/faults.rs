//! All that is wrong with a file, not only what is met first.
//!
//! A table that cannot be read is read again without what was wrong in it, until nothing is. So each
//! mistake is told at its own place. What is missing only because it was wrong is not told.

use super::Misplaced;
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, ValueDeserializer};
use twinpath_nf::similar::did_you_mean;

/// Most mistakes that are told.
const MOST: usize = 64;

/// What is wrong with a file, in the order of its places.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Misplaced>);

impl Faults {
    pub fn push(&mut self, fault: Misplaced) {
        self.0.push(fault);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What came out right.
    pub fn take<T>(&mut self, result: Result<T, Misplaced>) -> Option<T> {
        result.map_err(|fault| self.push(fault)).ok()
    }

    /// One mistake at each place, at least one.
    pub fn in_order(mut self) -> Vec<Misplaced> {
        self.0.sort_by_key(|(span, _)| span.start);
        self.0.dedup_by_key(|(span, _)| span.start);
        self.0.truncate(MOST);
        self.0
    }

    /// Reads a table; nothing if anything in it is wrong.
    pub fn read<'i, T, E: Into<Misread>>(
        &mut self,
        table: Spanned<DeValue<'i>>,
        read: impl Fn(ValueDeserializer<'i>) -> Result<T, E>,
    ) -> Option<T> {
        let before = self.0.len();
        let value = self.read_rest(table, read);
        value.filter(|_| self.0.len() == before)
    }

    /// Reads what of a table is right; nothing if that is not enough.
    pub fn read_rest<'i, T, E: Into<Misread>>(
        &mut self,
        mut table: Spanned<DeValue<'i>>,
        read: impl Fn(ValueDeserializer<'i>) -> Result<T, E>,
    ) -> Option<T> {
        let mut gone: Vec<String> = Vec::new();
        for _ in 0..MOST {
            let error: Misread = match read(ValueDeserializer::from(table.clone())) {
                Ok(value) => return Some(value),
                Err(error) => error.into(),
            };
            if gone.iter().any(|name| error.is_missing(name)) {
                return None;
            }
            let span = error.span_in(&table);
            self.push((span.clone(), error.message));
            gone.push(take_out(table.get_mut(), span.start)?);
        }
        None
    }

    /// Reads a table of settings, with its place; the inner option is empty if it is absent.
    pub fn settings<T: DeserializeOwned>(
        &mut self,
        tables: &mut DeTable<'_>,
        name: &str,
    ) -> Option<Option<Spanned<T>>> {
        let Some(table) = tables.remove(name) else {
            return Some(None);
        };
        let span = table.span();
        let read = self.read(table, T::deserialize);
        read.map(|settings| Some(Spanned::new(span, settings)))
    }

    /// The same; what is absent has its defaults.
    pub fn settings_or_default<T: DeserializeOwned + Default>(
        &mut self,
        tables: &mut DeTable<'_>,
        name: &str,
    ) -> Option<T> {
        let settings = self.settings(tables, name)?;
        Some(settings.map(Spanned::into_inner).unwrap_or_default())
    }
}

/// Why a table cannot be read.
pub(super) struct Misread {
    /// Where; if that is not known, at this key of the table, in this entry of a list.
    place: Result<Range<usize>, Option<(&'static str, Option<usize>)>>,
    message: String,
}

impl Misread {
    /// Whether it is that a value of this name is missing.
    fn is_missing(&self, name: &str) -> bool {
        self.message.starts_with(&format!("missing field `{name}`"))
    }

    fn span_in(&self, table: &Spanned<DeValue<'_>>) -> Range<usize> {
        let place = match &self.place {
            Ok(span) => return span.clone(),
            Err(place) => place.and_then(|(key, entry)| span_of(table, key, entry)),
        };
        place.unwrap_or_else(|| table.span())
    }
}

/// The place of a key of a table, or of an entry of the list that it has.
fn span_of(table: &Spanned<DeValue<'_>>, key: &str, entry: Option<usize>) -> Option<Range<usize>> {
    let (key, value) = table.get_ref().as_table()?.get_key_value(key)?;
    let entry = entry.and_then(|entry| value.get_ref().as_array()?.get(entry));
    Some(entry.map_or_else(|| key.span(), Spanned::span))
}

impl From<toml::de::Error> for Misread {
    fn from(error: toml::de::Error) -> Self {
        Self {
            place: error.span().ok_or(None),
            message: in_words(error.message()),
        }
    }
}

impl From<twinpath_nf::descriptor::ReadError> for Misread {
    fn from(error: twinpath_nf::descriptor::ReadError) -> Self {
        use twinpath_nf::descriptor::ReadError;
        match error {
            ReadError::Toml(error) => error.into(),
            ReadError::Named { key, source } => Self {
                place: Err(Some((key, None))),
                message: source.to_string(),
            },
            ReadError::Entry { key, entry, source } => Self {
                place: Err(Some((key, Some(entry)))),
                message: source.to_string(),
            },
        }
    }
}

/// A message of the reader with the name that may have been meant, if one is similar.
pub(super) fn in_words(message: &str) -> String {
    let message = message.trim();
    let mut names = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    match names.next().filter(|_| is_unknown) {
        Some(written) => format!("{message}{}", did_you_mean(written, names)),
        None => message.to_owned(),
    }
}

/// Takes the smallest part with a name or place of its own out that has a byte of the text, and tells
/// its name, if it has one.
fn take_out(value: &mut DeValue<'_>, at: usize) -> Option<String> {
    match value {
        DeValue::Table(table) => take_out_of_table(table, at),
        DeValue::Array(array) => take_out_of_array(array, at),
        _ => None,
    }
}

fn take_out_of_table(table: &mut DeTable<'_>, at: usize) -> Option<String> {
    let mut found = None;
    for (key, value) in table.iter_mut() {
        let (is_key, is_value) = (key.span().contains(&at), value.span().contains(&at));
        // The place of a table with a header of its own is its header alone.
        match take_out(value.get_mut(), at).filter(|_| !is_key) {
            Some(inner) => return Some(inner),
            None if is_key || is_value => found = Some(key.get_ref().to_string()),
            None => {}
        }
    }
    let name = found?;
    table.remove(name.as_str());
    Some(name)
}

fn take_out_of_array(array: &mut DeArray<'_>, at: usize) -> Option<String> {
    let mut found = None;
    for (place, value) in array.iter_mut().enumerate() {
        let is_here = value.span().contains(&at);
        match take_out(value.get_mut(), at) {
            Some(inner) => return Some(inner),
            None if is_here => found = Some(place),
            None => {}
        }
    }
    let found = found?;
    let mut kept = DeArray::new();
    for (place, value) in array.iter().enumerate() {
        if place != found {
            kept.push(value.clone());
        }
    }
    *array = kept;
    Some(String::new())
}
