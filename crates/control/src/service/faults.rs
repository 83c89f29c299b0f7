//! All that is wrong with a file, not only what is met first.
//!
//! A table that cannot be read is read again without what was wrong in it, until nothing is. So each
//! mistake is told at its own place. What may be wrong only because something else was, and is gone,
//! is not told: one mistake makes one error.

mod kinds;

use super::Misplaced;
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, ValueDeserializer};
use twinpath_nf::descriptor::ReadError;
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

    pub fn len(&self) -> usize {
        self.0.len()
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
    pub fn read<'i, T, E: Into<Misreads>>(
        &mut self,
        table: Spanned<DeValue<'i>>,
        read: impl Fn(ValueDeserializer<'i>) -> Result<T, E>,
    ) -> Option<T> {
        let before = self.0.len();
        let (value, _) = self.read_rest(table, read);
        value.filter(|_| self.0.len() == before)
    }

    /// Reads what of a table is right, and tells what is gone; nothing if the rest is not enough.
    pub fn read_rest<'i, T, E: Into<Misreads>>(
        &mut self,
        mut table: Spanned<DeValue<'i>>,
        read: impl Fn(ValueDeserializer<'i>) -> Result<T, E>,
    ) -> (Option<T>, Gone) {
        let mut gone = Gone::default();
        for _ in 0..MOST {
            let Misreads(errors) = match read(ValueDeserializer::from(table.clone())) {
                Ok(value) => return (Some(value), gone),
                Err(error) => error.into(),
            };
            // None of them follows from another.
            let place = |error: Misread| (error.span_in(&table), error);
            let errors: Vec<_> = errors.into_iter().map(place).collect();
            let whole = table.span();
            for (span, error) in &errors {
                if !gone.explains(error, span, *span == whole) {
                    self.push((span.clone(), error.message.clone()));
                }
            }
            let is_any_gone = errors.into_iter().fold(false, |is_any, (span, error)| {
                span != whole && gone.take(&mut table, span, error) || is_any
            });
            if !is_any_gone {
                break;
            }
        }
        (None, gone)
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

/// What was wrong in a table, and has been taken out.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Names of values.
    names: Vec<String>,
    /// Keys of the table itself that these were, or were below.
    keys: Vec<String>,
    /// Places of what was wrong otherwise.
    places: Vec<Range<usize>>,
    /// Words that were told to be wrong.
    words: Vec<String>,
}

impl Gone {
    /// Whether something is gone that a key of the table had.
    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|gone| gone == key)
    }

    /// Takes what is wrong out of a table; nothing if it is gone already.
    fn take(
        &mut self,
        table: &mut Spanned<DeValue<'_>>,
        span: Range<usize>,
        error: Misread,
    ) -> bool {
        let key = key_at(table.get_ref(), span.start);
        let name = take_out(table.get_mut(), span.start);
        let is_taken = name.is_some();
        if let Some(name) = name {
            self.add(name, key, span, error);
        }
        is_taken
    }

    fn add(&mut self, name: String, key: Option<String>, span: Range<usize>, error: Misread) {
        self.names.push(name);
        self.keys.extend(key);
        match error.word {
            Some(word) => self.words.push(word),
            None => self.places.push(span),
        }
    }

    /// Whether an error at this place may be there only because of what is gone.
    fn explains(&self, error: &Misread, span: &Range<usize>, is_whole: bool) -> bool {
        if let Some(missing) = error.missing() {
            let mut names = self.names.iter();
            return names.any(|name| name == missing || !did_you_mean(name, [missing]).is_empty());
        }
        let is_told = |word: &String| self.words.contains(word);
        let is_around =
            |gone: &Range<usize>| span.start <= gone.start && gone.end <= span.end && span != gone;
        let depends = is_whole || error.is_together;
        let lacks_entry = self.keys.iter().any(|key| error.is_about(key));
        error.word.as_ref().is_some_and(is_told)
            || depends && !self.places.is_empty()
            || self.places.iter().any(is_around)
            || lacks_entry
    }
}

/// Why a table cannot be read.
pub(super) struct Misread {
    place: Where,
    message: String,
    /// Whether values do not go together that are right by themselves.
    is_together: bool,
    /// A word that others may be wrong for, too.
    word: Option<String>,
}

/// All reasons that were found at once; at least one.
pub(super) struct Misreads(Vec<Misread>);

/// Where a table is wrong.
enum Where {
    /// In the text, if that is known.
    Span(Option<Range<usize>>),
    /// At a value, by the keys and numbers that lead to it.
    Keys(Vec<String>),
}

impl Misread {
    /// The name of the value that is missing, if one is.
    fn missing(&self) -> Option<&str> {
        let rest = self.message.strip_prefix("missing field `")?;
        rest.split('`').next()
    }

    /// Whether it is about a whole value of the table, and not an entry of it.
    fn is_about(&self, key: &str) -> bool {
        matches!(&self.place, Where::Keys(keys) if *keys == [key])
    }

    fn span_in(&self, table: &Spanned<DeValue<'_>>) -> Range<usize> {
        let span = match &self.place {
            Where::Span(span) => span.clone(),
            Where::Keys(keys) => span_of(keys, table.get_ref()),
        };
        span.unwrap_or_else(|| table.span())
    }
}

/// Where the last of nested keys is, or of what encloses it as far as that is there: that of a value
/// in a list, or of the key of another.
fn span_of(keys: &[String], values: &DeValue<'_>) -> Option<Range<usize>> {
    let (key, rest) = keys.split_first()?;
    let (span, value) = match values {
        DeValue::Table(table) => {
            let (name, value) = table.get_key_value(key.as_str())?;
            (name.span(), value)
        }
        DeValue::Array(list) => {
            let value = list.get(key.parse::<usize>().ok()?)?;
            (value.span(), value)
        }
        _ => return None,
    };
    span_of(rest, value.get_ref()).or(Some(span))
}

/// The key of a table that has a byte of the text, or whose value has.
fn key_at(table: &DeValue<'_>, at: usize) -> Option<String> {
    let mut keys = table.as_table()?.iter();
    let has = |(key, value): &(&Spanned<_>, &Spanned<DeValue<'_>>)| {
        key.span().contains(&at) || value.span().contains(&at)
    };
    keys.find(has).map(|(key, _)| key.get_ref().to_string())
}

impl From<toml::de::Error> for Misread {
    fn from(error: toml::de::Error) -> Self {
        Self {
            place: Where::Span(error.span()),
            message: in_words(error.message()),
            is_together: false,
            word: None,
        }
    }
}

impl From<toml::de::Error> for Misreads {
    fn from(error: toml::de::Error) -> Self {
        Self(vec![error.into()])
    }
}

impl From<ReadError> for Misreads {
    fn from(error: ReadError) -> Self {
        let one = match error {
            ReadError::Toml(error) => error.into(),
            ReadError::At { keys, word, source } => Misread {
                place: Where::Keys(keys),
                message: source.to_string(),
                is_together: true,
                word,
            },
            ReadError::Named { keys, source } => Misread {
                place: Where::Keys(keys),
                message: source.to_string(),
                is_together: false,
                word: None,
            },
            ReadError::Several(errors) => {
                let each = errors.into_iter().map(Self::from);
                return Self(each.flat_map(|Self(errors)| errors).collect());
            }
        };
        Self(vec![one])
    }
}

/// A message of the reader in the words of service files, with the name that may have been meant, if
/// one is similar.
pub(super) fn in_words(message: &str) -> String {
    let message = message.trim();
    if let Some(told) = kinds::in_words(message) {
        return told;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    match names.next().filter(|_| is_unknown) {
        Some(written) => {
            let known: Vec<&str> = names.collect();
            let meant = meant_by(written).filter(|meant| known.contains(meant));
            let meant = meant.map(|meant| format!("; did you mean {meant}?"));
            let meant = meant.unwrap_or_else(|| did_you_mean(written, known));
            format!("{message}{meant}")
        }
        None => message.to_owned(),
    }
}

/// What a word of other firewalls is called here.
fn meant_by(written: &str) -> Option<&'static str> {
    match written.to_lowercase().as_str() {
        "accept" | "permit" | "pass" => Some("allow"),
        "drop" | "reject" | "block" | "discard" => Some("deny"),
        _ => None,
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
