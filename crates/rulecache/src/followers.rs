//! Packets that a function has kept, and lets go behind another one: the fragments that came before
//! the first of their datagram.

use twinpath_core::wire::dissect;
use twinpath_core::{Frame, Packet, Pools};

/// Of a packet of which it is not known yet where it goes on.
pub(crate) const NO_STEP: usize = usize::MAX;

/// A packet that goes on behind another one, from a step of the chain on.
#[derive(Debug)]
pub struct Follower {
    /// How many functions are behind it.
    pub step: usize,
    /// The packet.
    pub frame: Frame,
}

impl Follower {
    /// It goes on from a step, and is as old as the packet that it follows, for which functions have
    /// chosen this egress so far.
    pub(crate) fn goes_on(&mut self, step: usize, leader: &Packet, egress: Option<u16>) {
        let frame = &mut self.frame;
        self.step = step;
        frame.set_timestamp(leader.timestamp());
        frame.set_port(leader.frame.port());
        frame.set_ordinal(leader.frame.ordinal());
        let mut metadata = leader.frame.metadata();
        metadata.parked_bytes = 0;
        metadata.egress = egress.or(metadata.egress);
        frame.set_metadata(metadata);
    }

    /// The packet, on the way of the one that it follows; `None` if it is none.
    pub fn packet(self, leader: &Packet, pools: &mut Pools) -> Option<(usize, Packet)> {
        let Ok(layout) = dissect(self.frame.bytes()) else {
            pools.give(self.frame);
            return None;
        };
        let packet = Packet {
            layout,
            frame: self.frame,
            direction: leader.direction,
            role: leader.role,
            alias_row: leader.alias_row,
        };
        Some((self.step, packet))
    }
}

/// The packets behind one.
pub(crate) fn packets(
    followers: Vec<Follower>,
    leader: &Packet,
    pools: &mut Pools,
) -> Vec<(usize, Packet)> {
    let followers = followers.into_iter();
    let packets = followers.filter_map(|follower| follower.packet(leader, pools));
    packets.collect()
}
