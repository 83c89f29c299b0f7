//! Tables of a configuration that are checked as they are read.
//!
//! `#[serde(try_from = "Raw")]` checks a table after it was read, and by then TOML no longer knows
//! where in a list it stood. Here the check is part of the reading, so that the message names the
//! table's own line.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Reads a table as `Raw` and makes it a `T`.
///
/// # Errors
/// What is wrong with the table, or why it makes no `T`.
pub(crate) fn table<'de, D, Raw, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    Raw: Deserialize<'de>,
    T: TryFrom<Raw, Error: fmt::Display>,
{
    deserializer.deserialize_map(Checked(PhantomData::<(Raw, T)>))
}

struct Checked<Raw, T>(PhantomData<(Raw, T)>);

impl<'de, Raw, T> Visitor<'de> for Checked<Raw, T>
where
    Raw: Deserialize<'de>,
    T: TryFrom<Raw, Error: fmt::Display>,
{
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let raw = Raw::deserialize(MapAccessDeserializer::new(map))?;
        T::try_from(raw).map_err(A::Error::custom)
    }
}
