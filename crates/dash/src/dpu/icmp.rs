//! What an ICMP message is to flows: a question opens one, its answers belong to it, and all else is none's.

use twinpath_core::wire::fields;
use twinpath_core::wire::icmp::{is_error, v4, v6};
use twinpath_core::wire::layout::{Layout, Network};

use crate::reason::Reason;

/// What a message is that is no error.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum IcmpRole {
    /// An echo request.
    Question,
    /// An echo reply.
    Answer,
    /// Neither: policies judge it by itself.
    Other,
}

impl IcmpRole {
    /// That of a message which quotes no packet that can be read; `None` for what is no ICMP.
    ///
    /// # Errors
    /// It would have to quote one.
    pub fn of(inside: &[u8], layout: &Layout) -> Result<Option<Self>, Reason> {
        let Some((kind, _)) = fields::icmp_kind(inside, layout) else {
            return Ok(None);
        };
        let is_v4 = layout.network == Network::V4;
        match (is_v4, kind) {
            (true, v4::ECHO_REQUEST) | (false, v6::ECHO_REQUEST) => Ok(Some(Self::Question)),
            (true, v4::ECHO_REPLY) | (false, v6::ECHO_REPLY) => Ok(Some(Self::Answer)),
            (true, v4::REDIRECT) => Err(Reason::IcmpError),
            _ if is_error(layout.network, kind) => Err(Reason::IcmpError),
            _ => Ok(Some(Self::Other)),
        }
    }

    /// Whether such messages go the way of a flow in the direction that opened it, or in the other.
    pub const fn goes(self, is_forward: bool) -> bool {
        matches!(
            (self, is_forward),
            (Self::Question, true) | (Self::Answer, false)
        )
    }
}
