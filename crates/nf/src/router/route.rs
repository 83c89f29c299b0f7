//! A route as it is configured.

use super::numbers::DISCARD_NAME;
use crate::checked;
use crate::text::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::Address;

/// All hosts on a cable (RFC 1812 §5.3.5.1).
pub(super) const LIMITED: Address = Address::from_v4([255; 4]);

/// Where packets to a prefix go.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(with = "WrittenRoute")]
pub(super) struct Route {
    pub to: Text<Prefix>,
    pub via: String,
}

impl<'de> Deserialize<'de> for Route {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        checked::table::<D, WrittenRoute, Self>(deserializer)
    }
}

/// Where packets to a prefix go.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Route")]
struct WrittenRoute {
    /// The prefix.
    to: Text<Prefix>,
    /// The name of a next hop, or `"discard"` for packets that go nowhere.
    via: String,
}

impl TryFrom<WrittenRoute> for Route {
    type Error = GroupRoute;

    fn try_from(WrittenRoute { to, via }: WrittenRoute) -> Result<Self, GroupRoute> {
        check_destination(to.0, via == DISCARD_NAME).map(|()| Self { to, via })
    }
}

/// A route to a group, or to all hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is {kind}, which is not routed: expected a prefix outside 224.0.0.0/4, 255.255.255.255/32 and ff00::/8, or \"discard\" as the next hop",
    kind = if .0.network() == LIMITED { "broadcast" } else { "multicast" }
)]
pub struct GroupRoute(Prefix);

/// Checks that packets to a prefix may be sent somewhere, if they are.
///
/// # Errors
/// No router sends packets to groups, or to all hosts on a cable.
pub(super) fn check_destination(to: Prefix, is_discard: bool) -> Result<(), GroupRoute> {
    let network = to.network();
    let is_group = match to.versions() {
        Versions::V4 => {
            to.length() >= 4 && network.octets4()[0] >> 4 == 0xe || to == LIMITED.into()
        }
        Versions::V6 => to.length() >= 8 && network.octets16()[0] == 0xff,
        Versions::Both => false,
    };
    match is_group && !is_discard {
        true => Err(GroupRoute(to)),
        false => Ok(()),
    }
}
