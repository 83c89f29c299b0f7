//! What a packet is to the ledger.

use std::fmt;
use twinpath_core::wire::tcp::flags;

/// Kinds of packets that the ledger is given: how they are shown, and their flags beside ACK.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident, $text:literal, $flags:expr;)*) => {
        /// What a packet is.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
            /// Generated traffic for functions that users run.
            Generated,
        }

        impl Kind {
            /// What the ledger is given.
            pub(crate) const LEDGER: [Self; [$($text),*].len()] = [$(Self::$kind),*];

            const fn text_and_flags(self) -> (&'static str, u8) {
                match self {
                    $(Self::$kind => ($text, $flags),)*
                    Self::Generated => ("generated", 0),
                }
            }
        }
    };
}

kinds! {
    /// Entered and let out, by either path.
    Simple, "simple", 0;
    /// Complex or not as the value is.
    Picky, "picky", flags::CWR;
    /// Always complex.
    Complex, "complex", flags::SYN;
    /// Entered and dropped, by either path.
    Drop, "to drop", flags::FIN;
    /// Complex, entered and dropped.
    ComplexDrop, "complex, to drop", flags::SYN | flags::FIN;
    /// Goes back as a reply, by either path.
    Reply, "to answer", flags::ECE;
    /// Ends the flow, on either path.
    End, "last", flags::RST;
    /// Complex, and ends the flow.
    ComplexEnd, "complex, last", flags::SYN | flags::RST;
    /// Complex, and held by the slow path for a while.
    Hold, "to hold", flags::PSH;
    /// Cut off in the middle of a header.
    Malformed, "malformed", 0;
    /// No IP: belongs to no flow.
    NotIp, "no IP", 0;
}

impl Kind {
    /// The TCP flags that say so to the ledger.
    pub(crate) const fn flags(self) -> u8 {
        // ACK beside SYN would make the packet an answer, whose sender did not open the flow.
        match self.has(flags::SYN) {
            true => self.text_and_flags().1,
            false => self.text_and_flags().1 | flags::ACK,
        }
    }

    /// Whether the ledger drops it.
    pub(crate) const fn is_dropped(self) -> bool {
        self.has(flags::FIN)
    }

    /// Whether the ledger always wants it on the slow path.
    pub(crate) const fn is_complex(self) -> bool {
        self.has(flags::SYN | flags::PSH)
    }

    /// Whether it closes the account.
    pub(crate) const fn closes(self) -> bool {
        self.has(flags::RST)
    }

    const fn has(self, any: u8) -> bool {
        self.text_and_flags().1 & any != 0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text_and_flags().0)
    }
}
