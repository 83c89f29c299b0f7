//! How a running service is watched from outside. It listens on nothing and sends nothing unless
//! the file says so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// `[metrics]`
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// The address, with its TCP port, at which `/metrics` and `/healthz` are answered over HTTP,
    /// such as `"127.0.0.1:9477"`. Whoever can reach it may read all figures; it has no other
    /// protection. A replay of a capture does not listen.
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
}
