//! What a packet is to the ledger.

use std::fmt;
use twinpath_core::wire::tcp::flags;

/// What a packet is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Entered and let out, by either path.
    Simple,
    /// Complex or not as the value is.
    Picky,
    /// Always complex.
    Complex,
    /// Entered and dropped, by either path.
    Drop,
    /// Complex, entered and dropped.
    ComplexDrop,
    /// Goes back as a reply, by either path.
    Reply,
    /// Ends the flow, on either path.
    End,
    /// Complex, and ends the flow.
    ComplexEnd,
    /// Complex, and held by the slow path for a while.
    Hold,
    /// Cut off in the middle of a header.
    Malformed,
    /// No IP: belongs to no flow.
    NotIp,
    /// Generated traffic for functions that users run.
    Generated,
}

impl Kind {
    /// What the ledger is given.
    pub(crate) const LEDGER: [Self; 11] = [
        Self::Simple,
        Self::Picky,
        Self::Complex,
        Self::Drop,
        Self::ComplexDrop,
        Self::Reply,
        Self::End,
        Self::ComplexEnd,
        Self::Hold,
        Self::Malformed,
        Self::NotIp,
    ];

    /// The TCP flags that say so to the ledger.
    pub(crate) const fn flags(self) -> u8 {
        let more = match self {
            Self::Picky => flags::CWR,
            Self::Complex => flags::SYN,
            Self::Drop => flags::FIN,
            Self::ComplexDrop => flags::SYN | flags::FIN,
            Self::Reply => flags::ECE,
            Self::End => flags::RST,
            Self::ComplexEnd => flags::SYN | flags::RST,
            Self::Hold => flags::PSH,
            _ => flags::ACK,
        };
        // ACK beside SYN would make the packet an answer, whose sender did not open the flow.
        if more & flags::SYN == 0 {
            more | flags::ACK
        } else {
            more
        }
    }

    /// Whether the ledger drops it.
    pub(crate) const fn is_dropped(self) -> bool {
        matches!(self, Self::Drop | Self::ComplexDrop)
    }

    /// Whether the ledger always wants it on the slow path.
    pub(crate) const fn is_complex(self) -> bool {
        self.flags() & (flags::SYN | flags::PSH) != 0
    }

    /// Whether it closes the account.
    pub(crate) const fn closes(self) -> bool {
        matches!(self, Self::End | Self::ComplexEnd)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Simple => "simple",
            Self::Picky => "picky",
            Self::Complex => "complex",
            Self::Drop => "to drop",
            Self::ComplexDrop => "complex, to drop",
            Self::Reply => "to answer",
            Self::End => "last",
            Self::ComplexEnd => "complex, last",
            Self::Hold => "to hold",
            Self::Malformed => "malformed",
            Self::NotIp => "no IP",
            Self::Generated => "generated",
        })
    }
}
