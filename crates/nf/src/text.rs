//! Values that configuration writes as text.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;
use twinpath_classify::Prefix;
use twinpath_core::wire::{Address, MacAddress};

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

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// What is written as a string, and what it is called then.
pub trait Titled {
    /// A word or two.
    const TITLE: &'static str;
}

impl Titled for Prefix {
    const TITLE: &'static str = "prefix";
}

impl Titled for Address {
    const TITLE: &'static str = "address";
}

impl Titled for MacAddress {
    const TITLE: &'static str = "MAC address";
}

impl<T: Titled> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::TITLE.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "title": T::TITLE })
    }
}
