//! The straight way through: plain packets that find all they need on the fast path, in a chain of
//! one element.
//!
//! A batch is worked on in columns, so that the processor overlaps what it does for several
//! packets. They walk in order of arrival all the same: one that needs anything else leaves the
//! lane for [the walk of any packet](super::FastPath::process), at its turn.

mod rules;
mod state;

pub(super) use rules::RuleLane;
pub(super) use state::StateLane;

use super::{Departure, FastElement, FastPath, Via};
use twinpath_core::Frame;

/// The lanes that there are.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Lane {
    State,
    Rules,
}

impl FastPath {
    /// The chain's lane, if it has one.
    #[inline]
    pub(super) fn lane(&self) -> Option<Lane> {
        match self.elements.as_slice() {
            [FastElement::State(stage)] => {
                let serves = self.sides.is_one_way()
                    && self.steering.are_connections()
                    && stage.serves_plain();
                serves.then_some(Lane::State)
            }
            [FastElement::Rules(_)] => Some(Lane::Rules),
            _ => None,
        }
    }
}

/// A packet that has passed.
#[inline(always)]
fn forwarded(frame: Frame) -> Departure {
    Departure {
        frame,
        via: Via::Fast,
        is_reply: false,
    }
}
