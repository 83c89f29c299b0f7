//! What a translation tells of its bindings, whichever it is.

use crate::records::{BindingRecord, Page};
use std::fmt;
use std::str::FromStr;
use twinpath_core::wire::Endpoint;

/// A function that has bindings: an endpoint inside has one outside for as long as it is used.
pub trait Bindings {
    /// What there is, in words, a line for each.
    fn told(&self) -> Vec<String>;

    /// The bindings with these numbers, and where others begin.
    fn page(&self, from: u32, most: u32) -> Page<BindingRecord>;

    /// Whether there are such bindings.
    fn has(&self, which: EndBindings) -> bool;
}

/// The bindings of an inside endpoint that are to end: all of them, or that of one kind.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EndBindings {
    /// The inside endpoint.
    pub internal: Endpoint,
    /// The kind.
    pub kind: Option<Kind>,
}

/// What has ports of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// TCP.
    Tcp = 0,
    /// UDP.
    Udp = 1,
    /// Echoes, whose identifiers are as ports.
    Icmp = 2,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Icmp];
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        })
    }
}

/// A word that is no kind.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not tcp, udp or icmp")]
pub struct KindError;

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|kind| kind.to_string() == text).ok_or(KindError)
    }
}
