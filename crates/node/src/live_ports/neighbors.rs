//! What ports have to do with neighbours: who is learnt, asked, told and kept.

use super::{LivePorts, keep};
use crate::kept_neighbors::KeptNeighbor;
use crate::kernel::KernelNews;
use twinpath_classify::Prefix;
use twinpath_control::service::{PortAddress, PortDevice};
use twinpath_core::wire::layout::Network;
use twinpath_core::wire::{Address, MacAddress, dissect, fields, vlan};
use twinpath_core::{Adjacency, Frame, Pools};
use twinpath_neighbors::{OwnAddress, PortAddresses, Resolver};
use twinpath_nf::text::Text;
use twinpath_ports::Port;

impl LivePorts {
    /// What a former process knew of a neighbour, or the kernel, is a first answer where the node asks for
    /// neighbours itself.
    pub(super) fn learn(&mut self, known: &KeptNeighbor) {
        let is_there = |port: &Port| port.interface().index == known.interface;
        if let Some(port) = self.ports.iter().position(is_there)
            && self.neighbors.ports()[port].resolver == Resolver::Own
        {
            self.neighbors.learn(port as u16, known.address, known.mac);
        }
    }

    /// The next process is to know the neighbours that this one has asked for.
    pub(super) fn keep_neighbors(&mut self) {
        let (ports, neighbors) = (&self.ports, &self.neighbors);
        if let Some(kept) = &mut self.kept_neighbors {
            let known = neighbors.list().filter_map(|one| {
                Some(KeptNeighbor {
                    interface: ports[usize::from(one.port)].interface().index,
                    address: one.address,
                    mac: one.mac?,
                })
            });
            kept.keep(neighbors.version(), known);
        }
    }

    /// Of the frames behind the first so many, those that are about neighbours are taken out; `seen`
    /// is told of each.
    pub(super) fn take_neighbors(
        &mut self,
        first: usize,
        burst: &mut Vec<Frame>,
        pools: &mut Pools,
        seen: impl Fn(&mut Self, &Frame, &mut Pools),
    ) {
        keep(first, burst, pools, |frame, pools| {
            let (port, now, out) = (frame.port(), self.now, &mut self.leaving);
            let is_about = self.neighbors.arrived(port, frame.bytes(), now, pools, out);
            if is_about {
                seen(self, frame, pools);
            }
            !is_about
        });
    }

    /// Questions and answers go out at once: perhaps nothing else leaves for long.
    pub(super) fn speak_with_neighbors(&mut self, pools: &mut Pools) {
        self.neighbors.advance(self.now, pools, &mut self.leaving);
        self.speak_with_kernel(pools);
        if !self.leaving.is_empty() {
            self.transmit_leaving(pools);
            self.ports.iter_mut().for_each(|port| port.flush(pools));
        }
    }

    /// Hears what the kernel says, and asks it about neighbours.
    fn speak_with_kernel(&mut self, pools: &mut Pools) {
        let Some(kernel) = &self.kernel else {
            return;
        };
        while let Some(told) = kernel.hear() {
            match told {
                KernelNews::Addresses(addresses) => {
                    for port in &mut self.ports {
                        port.set_host(addresses.prefixes());
                    }
                    self.host = Some(addresses);
                }
                KernelNews::Neighbors(known) => {
                    for one in &*known {
                        if let Some(mac) = one.mac {
                            self.neighbors.learn(one.port, one.address, mac);
                        }
                    }
                }
                KernelNews::Neighbor(change) => {
                    let (port, address, mac) = (change.port, change.address, change.mac);
                    let (now, out) = (self.now, &mut self.leaving);
                    self.neighbors
                        .kernel_says(port, address, mac, now, pools, out);
                }
            }
        }
        kernel.ask(self.neighbors.take_questions());
    }

    pub(super) fn transmit_leaving(&mut self, pools: &mut Pools) {
        let mut leaving = std::mem::take(&mut self.leaving);
        for (port, frame) in leaving.drain(..) {
            self.transmit(port, frame, pools);
        }
        self.leaving = leaving;
    }

    /// A packet leaves for a neighbour whose address may have to be asked for first. Its VLAN tags were the
    /// other cable's: here it would be in a VLAN that nobody has let it into.
    pub(super) fn leaves_for(&mut self, adjacency: Adjacency, mut frame: Frame, pools: &mut Pools) {
        let Adjacency { port, gateway } = adjacency;
        let Some(next) = gateway.or_else(|| destination(&frame)) else {
            self.unsent += 1;
            return pools.give(frame);
        };
        // Both MAC addresses are written when the neighbour's is known.
        frame.pull_front(vlan::tags_len(frame.bytes()));
        let out = &mut self.leaving;
        self.neighbors
            .leaves(port, next, frame, self.now, pools, out);
        self.transmit_leaving(pools);
    }
}

/// The addresses that a port has, and who asks for its neighbours.
pub(super) fn addresses(device: &PortDevice, port: &Port, is_kernels: bool) -> PortAddresses {
    let own = |written: &Text<PortAddress>| OwnAddress {
        address: written.0.address,
        prefix_bits: written.0.prefix_bits,
    };
    let answered = |prefix: &Text<Prefix>| (prefix.0.network(), prefix.0.last());
    PortAddresses {
        mac: MacAddress(port.interface().mac),
        own: device.addresses.iter().map(own).collect(),
        answered: device.answers_for.iter().map(answered).collect(),
        resolver: match is_kernels && device.addresses.is_empty() {
            true => Resolver::Kernel,
            false => Resolver::Own,
        },
    }
}

/// Where a packet is for.
fn destination(frame: &Frame) -> Option<Address> {
    let layout = dissect(frame.bytes()).ok()?;
    (layout.network != Network::None).then(|| fields::destination_address(frame.bytes(), &layout))
}
