//! Where everything is on the slow path, which packets come behind fragments that are on their way to the
//! next element by the fast path.

use twinpath_core::Instant;
use twinpath_core::wire::{Layout, fields};

/// Pairs of hosts that are told apart.
const PLACES: usize = 1024;

/// When the last packet arrived that was given back between two elements, by hosts: those that come behind
/// it are given back, too, until it has come to its end. Hosts that share a place take a longer way, and
/// wait for nobody.
pub(super) struct FragmentsAway(Box<[Instant; PLACES]>);

impl Default for FragmentsAway {
    fn default() -> Self {
        Self(Box::new([Instant::ZERO; PLACES]))
    }
}

impl FragmentsAway {
    /// A packet is given back that arrived then.
    pub fn note(&mut self, packet: &[u8], layout: &Layout, at: Instant) {
        let last = &mut self.0[place(packet, layout)];
        *last = at.max(*last);
    }

    /// Whether a packet comes behind one that may be under way; all that are older than `passed` are not.
    pub fn are_before(&self, packet: &[u8], layout: &Layout, passed: Instant) -> bool {
        let last = self.0[place(packet, layout)];
        last != Instant::ZERO && last >= passed
    }
}

/// The same for all packets from one host to another.
fn place(packet: &[u8], layout: &Layout) -> usize {
    let source = fields::source_address(packet, layout).0;
    let destination = fields::destination_address(packet, layout).0;
    let mixed = source.wrapping_mul(3) ^ destination.rotate_left(17);
    let folded = (mixed >> 64) as u64 ^ mixed as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};

    #[test]
    fn packets_are_behind_those_of_their_hosts_until_these_have_passed() {
        let packet = |last| {
            let from = Endpoint::v4([10, 0, 0, 1], 1000);
            let to = Endpoint::v4([192, 0, 2, last], 53);
            PacketBuilder::udp(from, to).to_vec().expect("short")
        };
        let (one, other) = (packet(1), packet(2));
        let layout = dissect(&one).expect("a sound packet");
        let mut away = FragmentsAway::default();
        assert!(!away.are_before(&one, &layout, Instant::ZERO));
        away.note(&one, &layout, Instant(50));
        assert!(away.are_before(&one, &layout, Instant(50)));
        assert!(!away.are_before(&one, &layout, Instant(51)));
        assert!(!away.are_before(&other, &layout, Instant(50)));
    }
}
