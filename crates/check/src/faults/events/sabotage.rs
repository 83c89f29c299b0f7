//! What no link may do: to show that every invariant can fail.
//!
//! Production code stays as it is. The simulated link forges, replays or steals frames in ways
//! that neither loss nor delay nor detected reordering amounts to, the driver of a change does not
//! wait for what it must wait for, or the fast path is built without a part.

use crate::faults::draw::{self, Draw};
use crate::faults::invariant::Invariant;
use crate::faults::world::LineId;
use twinpath_core::Frame;

macro_rules! sabotages {
    ($($sabotage:ident, $name:literal, breaks $invariant:ident: $prose:literal;)*) => {
        /// One way to break the protocol from outside.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum Sabotage {
            $(#[doc = $prose] $sabotage,)*
        }

        impl Sabotage {
            /// Each with the invariant that it must break.
            pub const ALL: [(Self, Invariant); [$(Self::$sabotage),*].len()] =
                [$((Self::$sabotage, Invariant::$invariant)),*];

            /// The name by which the command asks for it, and what it does.
            pub const fn name_and_prose(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$sabotage => ($name, $prose),)*
                }
            }
        }
    };
}

sabotages! {
    UnnoticedReordering, "unnoticed-reordering", breaks NothingBehind:
        "Frames overtake each other, and their numbers do not tell";
    CorruptedState, "corrupted-state", breaks OneTruth:
        "A word of the state is changed on its way to the fast path";
    ReplayFromFormerLife, "replay-from-former-life", breaks OneImport:
        "Old write-backs are sent again, as if other workers had granted their value";
    ForgedAcknowledgement, "forged-acknowledgement", breaks FreedAfterImport:
        "A write-back is lost and acknowledged nevertheless";
    Replay, "replay", breaks OnceInOrder:
        "Old write-backs are sent again";
    CorruptedWriteBack, "corrupted-write-back", breaks FrozenStays:
        "A word of the state is changed on its way to the slow path";
    StaleGeneration, "stale-generation", breaks NoCrossTalk:
        "The answer to an old pull is given for one to the present one";
    SwallowedAcknowledgements, "swallowed-acknowledgements", breaks Progress:
        "No acknowledgement ever arrives";
    WrongNumbers, "wrong-numbers", breaks LinkChecked:
        "Frames bear wrong numbers";
    StolenPackets, "stolen-packets", breaks Conserved:
        "Packets are taken off their frames";
    HastyChange, "hasty-change", breaks Migration:
        "The chain is changed before all flows are home";
    HastyProgress, "hasty-progress", breaks Watermark:
        "The machine is told that workers are further than they are";
    ChangedRules, "changed-rules", breaks AsAlone:
        "Rules are changed on their way to the fast path";
    WrongBindings, "wrong-bindings", breaks InForce:
        "Rules are sent with the ports of other bindings";
    ForgottenUses, "forgotten-uses", breaks AliveInUse:
        "How often rules were used is forgotten on the way to the slow path";
    ForgedRemoval, "forged-removal", breaks BooksAgree:
        "A request to take a rule out is lost, and answered nevertheless";
    HastyMarks, "hasty-marks", breaks OnceInOrder:
        "Marks are answered before all in front of them has come back";
    SwallowedRemovals, "swallowed-removals", breaks Progress:
        "Nobody ever hears that a rule is gone";
    HiddenCrashes, "hidden-crashes", breaks BooksAgree:
        "All that workers say bears the epoch of their first life";
    SwappedTickets, "swapped-tickets", breaks Whole:
        "Of two headers on their way back one is lost, and the other bears its ticket";
    ForbiddenPayloads, "forbidden-payloads", breaks KeptOut:
        "What an inspector forbids is written into packets on their way back from it";
    ChangedValues, "changed-values", breaks Remembered:
        "A store's values are changed on their way to the fast path";
}

impl Sabotage {
    /// Whether frames are numbered only when they are received.
    pub(crate) const fn hides_order(self) -> bool {
        matches!(
            self,
            Self::UnnoticedReordering | Self::ReplayFromFormerLife | Self::Replay
        )
    }

    /// Whether old write-backs are sent again.
    pub(crate) const fn replays(self) -> bool {
        matches!(self, Self::ReplayFromFormerLife | Self::Replay)
    }
}

/// Who does it.
pub struct Saboteur {
    pub sabotage: Sabotage,
    draw: Draw,
    /// An old write-back.
    pub memory: Option<(LineId, Frame)>,
    /// What named the payload of a header that is lost.
    pub ticket: Option<[u8; 8]>,
}

impl Saboteur {
    /// Who breaks the protocol in the run of this seed.
    pub fn new(sabotage: Sabotage, seed: u64) -> Self {
        Self {
            sabotage,
            draw: Draw::new(seed, draw::SABOTAGE),
            memory: None,
            ticket: None,
        }
    }

    /// Whether it is time to strike.
    pub fn strikes(&mut self, one_in: u64) -> bool {
        self.draw.one_in(one_in)
    }
}
