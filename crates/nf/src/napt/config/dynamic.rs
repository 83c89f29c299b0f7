//! Blocks of ports that hosts get when they need them.

use super::{Block, PortsText};
use crate::hosts::PrefixLength;

/// How blocks are given out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dynamic {
    pub ports: PortsText,
    /// Ports of a block.
    pub size: u16,
    /// Most blocks of a host.
    pub per_host: u32,
    /// What counts as one host.
    pub v6_prefix: PrefixLength,
}

impl Dynamic {
    /// Blocks at one address.
    pub fn per_address(&self) -> u16 {
        (self.ports.count() / u32::from(self.size)) as u16
    }

    /// The place of the block that has a port.
    pub(in crate::napt) fn place(&self, port: u16) -> Option<u16> {
        let place = port.checked_sub(self.ports.first)? / self.size;
        (place < self.per_address()).then_some(place)
    }

    pub(in crate::napt) fn block(&self, address: u32, place: u16) -> Block {
        let first = self.ports.first + place * self.size;
        Block {
            address,
            first,
            last: first + (self.size - 1),
        }
    }
}
