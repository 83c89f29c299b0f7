//! The configuration, checked while it is read.

use crate::checksums::VerifyChecksums;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use twinpath_wire::kv;

/// A key-value store's configuration.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The UDP port whose datagrams are requests, for whatever address, IPv4 or IPv6.
    #[schemars(range(min = 1))]
    pub(super) port: Port,
    /// Which checksums are verified: with `"state"` those of datagrams to the port, before they
    /// store or delete anything.
    pub(super) verify_checksums: VerifyChecksums,
}

impl Config {
    /// The UDP port whose datagrams are requests.
    pub const fn port(&self) -> u16 {
        self.port.0
    }
}

/// A UDP port that is not 0.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "u16")]
pub(super) struct Port(u16);

impl Default for Port {
    fn default() -> Self {
        Self(kv::DEFAULT_PORT)
    }
}

/// A port of 0.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
#[error("port 0 is no port: expected 1 to 65535")]
pub struct PortZero;

impl TryFrom<u16> for Port {
    type Error = PortZero;

    fn try_from(port: u16) -> Result<Self, PortZero> {
        if port == 0 {
            Err(PortZero)
        } else {
            Ok(Self(port))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_there_is_is_read() {
        assert_eq!(
            toml::from_str::<Config>("").map(|config| config.port()),
            Ok(kv::DEFAULT_PORT)
        );
        assert_eq!(
            toml::from_str::<Config>("port = 11211").map(|config| config.port()),
            Ok(11211)
        );
        let lax = toml::from_str::<Config>("verify_checksums = \"none\"").expect("valid");
        assert!(Config::default().verify_checksums.of_state() && !lax.verify_checksums.of_state());
        for (text, expected) in [
            ("port = 0", "port 0 is no port"),
            ("port = 70000", "expected u16"),
            ("ports = 1", "unknown field `ports`"),
        ] {
            let message = toml::from_str::<Config>(text).expect_err(text).to_string();
            assert!(
                message.contains("line 1") && message.contains(expected),
                "{message}"
            );
        }
    }
}
