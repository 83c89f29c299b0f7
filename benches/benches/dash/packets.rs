//! Packets of connections, as machines send them, and how long a DPU takes for each.

use std::hint::black_box;
use std::time::Instant;

use twinpath_benches::table::ns_each;
use twinpath_core::wire::tunnel::Varying;
use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder};
use twinpath_dash::samples::Large;
use twinpath_dash::{Dpu, Verdict};

/// Room in front of frames.
pub const HEADROOM: usize = 64;
/// Packets between two looks at the clock.
pub const PART: usize = 512;
/// Packets of a burst.
const BURST: usize = 32;

/// Connections of the machines of so many ENIs to so many peers of each one's network.
#[derive(Copy, Clone)]
pub struct Traffic {
    /// ENIs, of which each has each so-manieth connection.
    pub enis: u16,
    /// Peers with a mapping.
    pub peers: u32,
}

impl Traffic {
    /// The headers of a connection: there are 50,000 ports for each machine.
    pub fn segment(self, flow: usize, tcp_flags: u8) -> Vec<u8> {
        let (machine, port) = ((flow / 50_000) as u32, (flow % 50_000) as u16);
        let peer = Large::mapped((flow as u32).wrapping_mul(2_654_435_761) % self.peers);
        let inner = PacketBuilder::tcp(
            Endpoint::new(Large::machine(machine), 10_000 + port),
            Endpoint::new(peer, 443),
        );
        let number = (flow % usize::from(self.enis)) as u16;
        let inner = inner
            .flags(tcp_flags)
            .payload_len(64 - 54)
            .macs(Large::mac(number), MacAddress([2; 6]));
        let inner = inner.to_vec().expect("a packet");
        let varying = Varying {
            source_port: 50_000,
            ..Varying::default()
        };
        let frame = Large::outbound(number, &inner, &varying);
        [vec![0; HEADROOM], frame].concat()
    }

    /// Median nanoseconds for a packet of each of these connections, all of which must be forwarded. Packets
    /// are made for each part anew, outside of what is measured: they are changed in their places.
    pub fn each(self, dpu: &mut Dpu, flows: impl Iterator<Item = usize>, tcp_flags: u8) -> f64 {
        let mut times = Vec::new();
        let mut now = 1;
        let mut flows = flows.peekable();
        while flows.peek().is_some() {
            let mut part: Vec<Vec<u8>> = flows
                .by_ref()
                .take(PART)
                .map(|flow| self.segment(flow, tcp_flags))
                .collect();
            let started = Instant::now();
            for burst in part.chunks_mut(BURST) {
                now += 1;
                let now = twinpath_core::Instant(now);
                dpu.process_burst(burst, HEADROOM, now, |_, verdict| {
                    assert!(matches!(black_box(verdict), Verdict::Forward(_)));
                });
            }
            times.push(ns_each(started.elapsed(), part.len()));
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    /// One packet, which must be forwarded.
    pub fn one(self, dpu: &mut Dpu, mut packet: Vec<u8>, now: twinpath_core::Instant) {
        let verdict = dpu.process(&mut packet, HEADROOM, now);
        assert!(matches!(verdict, Verdict::Forward(_)));
    }
}

/// Connections in an order in which neighbours are far apart.
pub fn scattered(count: usize) -> impl Iterator<Item = usize> + Clone {
    (0..count).map(move |at| (at as u64 * 2_654_435_761 % count as u64) as usize)
}
