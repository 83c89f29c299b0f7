//! Values as they are written: each knows where it is.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A value of a field.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    /// As it is written.
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Vec<&'a RawValue>),
    Fields(Pairs<'a>),
}

impl<'a> Value<'a> {
    /// Reads a value, but not what is inside a list or an object.
    pub fn of(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let text = raw.get();
        Ok(match text.as_bytes().first() {
            Some(b'"') => Self::Text(serde_json::from_str::<Name<'a>>(text)?.0),
            Some(b'[') => Self::List(serde_json::from_str(text)?),
            Some(b'{') => Self::Fields(serde_json::from_str(text)?),
            Some(b't' | b'f') => Self::Bool(serde_json::from_str(text)?),
            Some(b'n') => Self::Null,
            _ => Self::Number(text),
        })
    }
}

/// A name and what is under it.
pub(super) type Member<'a> = (Cow<'a, str>, &'a RawValue);

/// The pairs of an object, in order, with those whose names are the same.
#[derive(Debug, Default)]
pub(super) struct Pairs<'a>(pub Vec<Member<'a>>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor)
    }
}

/// A text that is copied only if it has escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(NameVisitor)
    }
}
