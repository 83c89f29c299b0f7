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

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_netns::{Network, is_possible};

    #[test]
    fn the_kernel_knows_them_until_they_are_removed() {
        if !is_possible() {
            return;
        }
        let mut network = Network::new();
        network.cable("server eth0", "switch eth0");
        let known = |network: &Network| {
            let shown = network.run("server", "ip", &["neigh", "show", "nud", "permanent"]);
            String::from_utf8_lossy(&shown.stdout).into_owned()
        };
        let index = network.run("server", "cat", &["/sys/class/net/eth0/ifindex"]);
        let index = String::from_utf8_lossy(&index.stdout);
        let index: u32 = index.trim().parse().expect("a number");
        let mac = MacAddress([2, 0, 0, 0, 0, 9]);
        let mut v6 = [0; 16];
        (v6[0], v6[15]) = (0xfd, 9);
        let addresses = [Address::from_v4([10, 0, 0, 9]), Address::from_v6(v6)];
        let asked = network.on("server", move || {
            let mut neighbors = StaticNeighbors::new(index).expect("a socket");
            for address in addresses {
                neighbors
                    .set(address, MacAddress([2; 6]))
                    .expect("root may");
                // Who says something else is right.
                neighbors.set(address, mac).expect("root may");
            }
            neighbors
        });
        let mut neighbors = asked.join().expect("the kernel took them");
        let told = known(&network);
        for line in [
            "10.0.0.9 dev eth0 lladdr 02:00:00:00:00:09",
            "fd00::9 dev eth0 lladdr 02:00:00:00:00:09",
        ] {
            assert!(told.contains(line), "{told}");
        }
        addresses
            .into_iter()
            .for_each(|address| neighbors.remove(address).expect("it is known"));
        assert_eq!(known(&network), "");
        let error = neighbors
            .remove(addresses[0])
            .expect_err("it is not known any more");
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    }
}
