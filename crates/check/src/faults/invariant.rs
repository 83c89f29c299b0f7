//! What must hold after every step.

use std::fmt;

macro_rules! invariants {
    ($($invariant:ident: $prose:literal,)*) => {
        /// Something that must hold after every step.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Invariant {
            $(#[doc = $prose] $invariant,)*
        }

        impl Invariant {
            /// All of them.
            pub const ALL: [Self; [$(Self::$invariant),*].len()] = [$(Self::$invariant),*];

            /// What it says.
            pub const fn prose(self) -> &'static str {
                match self {
                    $(Self::$invariant => $prose,)*
                }
            }
        }
    };
}

invariants! {
    NothingBehind:
        "invariant 1: while a slot is ACTIVE, no PLAIN or PULL of its flow waits to be processed",
    OneTruth:
        "invariant 2: exactly one place may write a flow's value, and it holds everything applied so far, in order",
    OneImport: "invariant 3: the value of a generation is imported at most once",
    FreedAfterImport:
        "invariant 4: a FROZEN slot is freed only after its value was imported, an ACTIVE one never",
    OnceInOrder:
        "invariant 5: packets are applied once, in order of arrival, and leave in that order",
    FrozenStays: "invariant 6: a frozen value never changes",
    NoCrossTalk: "invariant 7: a message of one flow or generation never touches another",
    Progress:
        "invariant 8: timers act when they are due, and INCOMPLETE and FROZEN are left once nothing goes wrong any more",
    LinkChecked: "the link: overtaken frames are dropped and counted, missing ones counted",
    Conserved:
        "every packet has left, was dropped for a counted reason, was lost on the link or in a crash, or is held; every buffer comes home",
    Migration:
        "a change of the chain: no flow is at the fast path, no drop is forgotten, and pulls are numbered on",
    AsAlone:
        "rules: what has passed an element is what its functions alone would have made of it, once",
    InForce: "rules: no decision of an entry is applied after the entry has changed",
    AliveInUse:
        "rules: an entry ends only when its idle time-out has passed since its last use, and is not used after that",
    BooksAgree: "rules: the workers know every rule that packets meet, and in the end no other",
    Whole:
        "payloads: packets leave whole, byte for byte, and in the end every payload has come to one end",
    Watermark:
        "departures: no packet is under way that arrived before the watermark, which never goes back",
    KeptOut: "an inspector: nothing leaves that has whole what its rules forbid, unless its receiver has it",
    Remembered: "a key-value store: what is read was written, and not written over since",
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prose())
    }
}

/// An invariant that does not hold, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    but {}", self.invariant, self.what)
    }
}
