//! Which datagram a fragment is of.

use crate::ids;
use twinpath_core::wire::{Address, Fragment, Layout, fields};

/// What ties the fragments of a datagram together.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Datagram {
    source: Address,
    destination: Address,
    identification: u32,
}

impl Datagram {
    /// The datagram that a packet is a fragment of.
    pub fn of(frame: &[u8], layout: &Layout) -> Option<Self> {
        if layout.fragment == Fragment::Whole {
            return None;
        }
        Some(Self {
            source: fields::source_address(frame, layout),
            destination: fields::destination_address(frame, layout),
            identification: ids::identification(frame, layout)?,
        })
    }
}
