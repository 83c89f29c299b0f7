//! Address prefixes in configuration.

use serde::Deserialize;
use twinpath_classify::Prefix;

/// A prefix as it is written: `"10.0.0.0/8"`, `"2001:db8::/32"`, or a bare address.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PrefixText(pub Prefix);

/// A text that is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is {source}")]
pub struct NoPrefix {
    text: String,
    source: twinpath_classify::PrefixError,
}

impl TryFrom<String> for PrefixText {
    type Error = NoPrefix;

    fn try_from(text: String) -> Result<Self, NoPrefix> {
        text.parse()
            .map(Self)
            .map_err(|source| NoPrefix { text, source })
    }
}
