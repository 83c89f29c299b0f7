//! Neighbours that the kernel is told of, as it need not find them out itself.

use crate::event::Event;
use crate::messages;
use crate::requests::{remove_neighbor, set_neighbor};
use crate::socket::{Received, Socket};
use std::io;
use twinpath_core::wire::{Address, MacAddress};

/// Neighbours at an interface that the kernel knows from us, for good.
pub struct StaticNeighbors {
    socket: Socket,
    interface: u32,
    sequence: u32,
}

impl StaticNeighbors {
    /// Those at an interface, by its number; none yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(interface: u32) -> io::Result<Self> {
        Ok(Self {
            socket: Socket::open_for_answers()?,
            interface,
            sequence: 0,
        })
    }

    /// From now on the neighbour with this address is there.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set(&mut self, address: Address, mac: MacAddress) -> io::Result<()> {
        self.ask(|interface, sequence| set_neighbor(interface, address, mac, sequence))
    }

    /// The kernel knows nothing of the neighbour any more.
    ///
    /// # Errors
    /// What the kernel says, for one that it does not know.
    pub fn remove(&mut self, address: Address) -> io::Result<()> {
        self.ask(|interface, sequence| remove_neighbor(interface, address, sequence))
    }

    /// Asks for something; the kernel has answered when the question is sent.
    fn ask(&mut self, question: impl Fn(u32, u32) -> Vec<u8>) -> io::Result<()> {
        self.sequence += 1;
        let own = self.sequence;
        self.socket.send(&question(self.interface, own))?;
        let mut refused = None;
        while let Received::Datagram(bytes) = self.socket.receive()? {
            messages::read(bytes, &mut |event| match event {
                Event::Refused { sequence, errno } if sequence == own => refused = Some(errno),
                _ => {}
            });
        }
        refused.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }
}
