//! The straight way through: plain packets that find all they need on the fast path.
//!
//! A batch is worked on in columns as far as can be, so that the processor overlaps what it does
//! for several packets. They walk in order of arrival all the same: one that needs anything else leaves the
//! lane for [the walk of any packet](super::FastPath::process), at its turn.

mod rules;
mod several;
mod state;

pub(super) use rules::RuleLane;
pub(super) use several::LongLane;
pub(super) use state::StateLane;

use super::{Departure, FastElement, FastPath, Via};
use several::Way;
use twinpath_coherence::StateStage;
use twinpath_core::Frame;

/// The lanes that there are.
#[derive(Copy, Clone)]
pub(super) enum Lane {
    /// Flow state alone.
    State,
    /// Rules alone.
    Rules,
    /// Both: the ways through, by direction.
    Several([Way; 2]),
}

impl FastPath {
    /// The chain's lane, if it has one.
    #[inline]
    pub(super) fn lane(&self) -> Option<Lane> {
        match self.elements.as_slice() {
            [FastElement::State(_)] => {
                let serves = self.sides.is_one_way() && self.serves_plain();
                serves.then_some(Lane::State)
            }
            [FastElement::Rules(_)] => Some(Lane::Rules),
            several => {
                let ways = Way::both(several).filter(|_| self.serves_plain());
                ways.map(Lane::Several)
            }
        }
    }

    /// Whether plain packets can meet flow state in a lane.
    fn serves_plain(&self) -> bool {
        let stage = self.stage();
        self.steering.are_connections() && stage.is_some_and(StateStage::serves_plain)
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
