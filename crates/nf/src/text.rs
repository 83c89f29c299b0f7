//! Values that configuration writes as text.

use serde::{Deserialize, Deserializer, de};
use std::fmt::Display;
use std::str::FromStr;

/// A value that is written as a string: a prefix such as `"10.0.0.0/8"`, an address, a MAC address.
/// What cannot be read is refused with what was written and what is wrong with it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<T>(pub T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map(Self)
            .map_err(|source| de::Error::custom(format_args!("{text:?} is {source}")))
    }
}

/// The value itself, for fields that hold it bare.
pub(crate) fn parsed<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    Text::deserialize(deserializer).map(|Text(value)| value)
}
