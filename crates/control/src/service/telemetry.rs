//! How a running service is watched from outside. It listens on nothing and sends nothing unless
//! the file says so.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::net::SocketAddr;
use std::time::Duration;
use twinpath_nf::duration::Human;

/// `[metrics]`
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// The address, with its TCP port, at which `/metrics` and `/healthz` are answered over HTTP,
    /// such as `"127.0.0.1:9477"`. Whoever can reach it may read all figures; it has no other
    /// protection. A replay of a capture does not listen.
    #[schemars(with = "Option<String>")]
    #[serde(deserialize_with = "socket_address")]
    pub listen: Option<SocketAddr>,
}

/// `[ipfix]`
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ipfix {
    /// The collector, by its address and UDP port, such as `"192.0.2.9:4739"`. It is told of the
    /// flows of `monitor` functions and the records of `telemetry` functions when they end (RFC 7011), and
    /// of the bindings of translations when they begin and end (RFC 8158): where hosts are given `blocks` of
    /// ports as they need them, of each block in place of its bindings. A replay of a capture tells
    /// nobody.
    #[schemars(with = "Option<String>")]
    #[serde(deserialize_with = "socket_address")]
    pub collector: Option<SocketAddr>,
    /// Flows that go on are told so often, each time what they sent since.
    pub active_timeout: Human,
    /// What the collector tells this service from others by.
    pub observation_domain: u32,
}

fn socket_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    let wrong = |_| {
        D::Error::custom(format_args!(
            "{text:?}: expected an IP address and a port, such as \"127.0.0.1:9477\" or \"[::1]:9477\""
        ))
    };
    text.parse().map(Some).map_err(wrong)
}

impl Default for Ipfix {
    fn default() -> Self {
        Self {
            collector: None,
            active_timeout: Human(Duration::from_secs(60)),
            observation_domain: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_told_with_what_was_expected() {
        let read = |listen: &str| toml::from_str::<Metrics>(&format!("listen = \"{listen}\""));
        for sound in ["127.0.0.1:9477", "[::1]:9477"] {
            let metrics = read(sound).expect(sound);
            assert_eq!(metrics.listen, sound.parse().ok());
        }
        for wrong in ["localhost:9477", "127.0.0.1:99999", "127.0.0.1"] {
            let told = read(wrong).expect_err(wrong).to_string();
            assert!(told.contains("expected an IP address and a port"), "{told}");
        }
    }
}
