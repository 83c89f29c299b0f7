//! From one packet's recording to a rule for all packets like it (SFCache §III-D).
//!
//! The paper gathers, per rewritten field, the fields that decided its new value. That leaves no
//! trace of functions that only match. Here there is one set for everything that was decided,
//! verdict included: the bits of the packet, as it entered, that were examined. Two packets that
//! agree on them take the same way through the chain while the entries stay as they are, so a
//! rule made from one is right for the other; and where two rules overlap, both are right, hence
//! equal.

use crate::action::{Action, Rewrites};
use crate::key::MatchKey;
use crate::recording::{Dependencies, Obstacle, Recording};
use twinpath_core::{DropReason, Instant};

/// What an element of the chain does to all packets that agree with one in some bits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The bits that are compared; always with [`MatchKey::ALWAYS`].
    pub mask: MatchKey,
    /// What they must be; zero outside the mask.
    pub value: MatchKey,
    /// What is done.
    pub action: Action,
    /// The entries it came from.
    pub dependencies: Dependencies,
    /// When the packet arrived that it was made from: its first use.
    pub used: Instant,
    /// Whether addresses or ports were written that the action does not tell, because the packet
    /// was dropped after that.
    pub hides_ends: bool,
}

impl Rule {
    /// Whether the rule is for this packet.
    #[inline]
    pub fn matches(&self, key: &MatchKey) -> bool {
        key.matches(&self.mask, &self.value)
    }

    /// Whether the rule is one for the exact match.
    pub fn is_exact(&self) -> bool {
        self.mask.is_of_a_flow()
    }

    /// The same rule for fewer packets: those with all addresses and ports of `original`, a
    /// packet that it matches.
    #[must_use]
    pub fn exact(mut self, original: &MatchKey) -> Self {
        self.mask = self.mask.or(&MatchKey::EXACT);
        self.value = original.and(&self.mask);
        self
    }
}

/// The rule that a recording makes, of a packet that arrived at `now` and went on, or was dropped for
/// this reason.
///
/// # Errors
/// Why it makes none.
pub fn synthesise(
    recording: &Recording,
    drop: Option<DropReason>,
    now: Instant,
) -> Result<Rule, Obstacle> {
    if let Some(obstacle) = recording.obstacle() {
        return Err(obstacle);
    }
    let rewrites = match drop {
        None => *recording.rewrites(),
        // Of a dropped packet nothing is left to rewrite, but how far its time to live carried it
        // still decided.
        Some(_) => Rewrites {
            decrements: recording.rewrites().decrements,
            ..Rewrites::default()
        },
    };
    let dependencies = *recording.dependencies();
    Ok(Rule {
        mask: *recording.mask(),
        value: recording.original().and(recording.mask()),
        action: Action {
            rewrites,
            drop,
            idle: dependencies.idle(),
            tells_progress: dependencies.hear_progress(),
        },
        dependencies,
        used: now,
        hides_ends: drop.is_some() && recording.rewrites().writes_ends(),
    })
}
