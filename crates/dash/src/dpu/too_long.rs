//! What the sender of a packet that does not fit is told.

use twinpath_core::Instant;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::layout::{Fragment, Network};
use twinpath_core::wire::tunnel::{Outer, Varying};
use twinpath_core::wire::{PacketBuilder, ethernet, fields};

use super::Dpu;
use crate::pipeline::{Action, OuterTags, Received, sent_bytes};

/// How many errors an ENI's packets cause in a second.
const ERRORS_PER_SECOND: u64 = 100;
/// How many of them at once, as time at that rate.
const BURST_NS: u64 = 100_000_000;
/// The least MTU that every IPv6 link has (RFC 8200 §5).
const LEAST_MTU_V6: usize = 1280;

impl Dpu {
    /// An ICMP error to the sender of an inner packet, by the tunnel that it came by: "packet too
    /// big", or "fragmentation needed", also if a router might fragment it: nothing does here. It says what
    /// would have fitted.
    pub(super) fn too_long(
        &mut self,
        inside: &[u8],
        received: &Received,
        action: &Action,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let (arrival, inner) = (&received.arrival, &received.inner);
        let l3 = usize::from(inner.l3);
        // Nobody is told of errors, nor of parts that say nothing of their whole.
        if inner.inner.is_some() || inner.fragment == Fragment::Later {
            return None;
        }
        let around = sent_bytes(inner, action, inside.len()) + l3 - inside.len();
        let mtu = self.settings.mtu.checked_sub(around)?;
        if inner.network == Network::V6 && mtu < LEAST_MTU_V6 {
            return None;
        }
        let state = self.enis.get_mut(usize::from(arrival.eni))?;
        // What comes from others takes nothing from what the machine is told.
        let errors = &mut state.errors[received.arrival.way as usize];
        if !errors.take(1, ERRORS_PER_SECOND, BURST_NS, now) {
            return None;
        }
        let kind = IcmpError::PacketTooBig {
            mtu: u32::try_from(mtu).ok()?,
        };
        let stations = [fields::destination_mac(inside), fields::source_mac(inside)];
        let error = PacketBuilder::icmp_error(kind, inside).macs(stations[0], stations[1]);
        let mut error = error.to_vec().ok()?;
        // The machine's tags.
        let tags = inside.get(ethernet::ETHER_TYPE_AT..l3.checked_sub(2)?)?;
        error.splice(
            ethernet::ETHER_TYPE_AT..ethernet::ETHER_TYPE_AT,
            tags.iter().copied(),
        );
        self.by_the_same_tunnel(received, &error)
    }

    fn by_the_same_tunnel(&self, received: &Received, inner: &[u8]) -> Option<Vec<u8>> {
        let arrival = &received.arrival;
        let [own, sender] = received.stations;
        let switch = self.tables.switch();
        let outer = Outer {
            source_mac: self.settings.underlay_mac.unwrap_or(own),
            destination_mac: self.settings.next_hop_mac.unwrap_or(sender),
            source: self.tables.appliance().sip?,
            destination: arrival.outer_source,
            encapsulation: arrival.encapsulation,
            key: arrival.key,
            vxlan_port: switch.port,
            ttl: self.settings.ttl,
        };
        let varying = Varying {
            source_port: switch.source_ports.port(arrival.entropy),
            flow_label: arrival.entropy & 0xf_ffff,
            flow: 0,
            traffic_class: received.outer_class & !3,
            udp_checksum: self.settings.udp_checksum_v6,
        };
        let room = OuterTags::MOST_BYTES;
        let mut frame = vec![0; room + outer.header_bytes()];
        frame.extend_from_slice(inner);
        outer.emit(&varying, &mut frame[room..]).ok()?;
        let front = received.outer_tags.put(&mut frame, room)?;
        frame.drain(..front);
        Some(frame)
    }
}
