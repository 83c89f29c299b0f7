//! Which datagrams fragments belong to.

use std::collections::HashMap;
use twinpath_core::wire::fragment::part;
use twinpath_core::wire::layout::{Fragment, Layout};
use twinpath_core::wire::{Address, fields};
use twinpath_core::{Keyed, Steering};

/// What fragments of one datagram have in common here.
type Name = (Address, Address, u32);

/// The ports and the protocol of each datagram whose first fragment has come.
#[derive(Default)]
pub struct Datagrams(HashMap<Name, ([u16; 2], u8)>);

impl Datagrams {
    /// The flow of a fragment; `None` if its datagram is not known.
    pub fn key(&mut self, steering: &Steering, frame: &[u8], layout: &Layout) -> Option<Keyed> {
        let (source, destination) = (
            fields::source(frame, layout),
            fields::destination(frame, layout),
        );
        let name = (
            source.address,
            destination.address,
            part(frame, layout)?.identification,
        );
        if layout.fragment == Fragment::First {
            let ports = [source.port, destination.port];
            self.0.insert(name, (ports, layout.protocol));
        }
        let &(ports, protocol) = self.0.get(&name)?;
        Some(steering.key_of_fragment(frame, layout, ports, protocol))
    }
}
