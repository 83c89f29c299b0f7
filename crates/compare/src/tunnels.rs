//! Packets in tunnels: where the innermost one begins, and the headers around it without what does not
//! count.

use crate::options::{Inner, OuterField};
use std::ops::Range;
use twinpath_core::wire::tunnel::{Encapsulation, Tunnel, VXLAN_PORT};
use twinpath_core::wire::{Layout, Network, dissect, fields};

/// Most headers that are taken off.
const MOST_LAYERS: usize = 8;

/// Blanks what does not count of the headers around a packet. Returns where the innermost one begins, 0 if
/// it is in no tunnel.
pub(crate) fn open(inner: &Inner, frame: &mut [u8]) -> usize {
    let mut at = 0;
    for layer in 0..MOST_LAYERS {
        let rest = frame.get(at..).unwrap_or_default();
        let Some((layout, tunnel)) = tunnel(rest, inner.vxlan_port) else {
            break;
        };
        let outer = frame.get_mut(at..).unwrap_or_default();
        for field in &inner.ignore {
            blank(*field, outer, &layout, tunnel.encapsulation);
        }
        if layer == 0 && layout.network != Network::None {
            let destination = fields::destination_address(outer, &layout);
            if inner.endpoints.contains(&destination) {
                blank_destination(outer, &layout, tunnel.encapsulation);
            }
        }
        at += tunnel.inner().start;
    }
    at
}

/// Where the innermost packet begins.
pub(crate) fn inner_at(inner: &Inner, frame: &[u8]) -> usize {
    let mut at = 0;
    for _ in 0..MOST_LAYERS {
        match tunnel(frame.get(at..).unwrap_or_default(), inner.vxlan_port) {
            Some((_, tunnel)) => at += tunnel.inner().start,
            None => break,
        }
    }
    at
}

fn tunnel(frame: &[u8], vxlan_port: Option<u16>) -> Option<(Layout, Tunnel)> {
    let layout = dissect(frame).ok()?;
    let mut ports = [Some(VXLAN_PORT), vxlan_port].into_iter().flatten();
    let tunnel = ports.find_map(|port| Tunnel::read(frame, &layout, port).ok())?;
    Some((layout, tunnel))
}

/// The destination, and the checksums that cover it.
fn blank_destination(outer: &mut [u8], layout: &Layout, encapsulation: Encapsulation) {
    let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
    match layout.network {
        Network::V4 => {
            zero(outer, l3 + 16..l3 + 20);
            zero(outer, l3 + V4_CHECKSUM..l3 + V4_CHECKSUM + 2);
        }
        _ => zero(outer, l3 + 24..l3 + 40),
    }
    if layout.network == Network::V6 && encapsulation == Encapsulation::Vxlan {
        zero(outer, l4 + 6..l4 + 8);
    }
}

/// Offset of the checksum in an IPv4 header.
const V4_CHECKSUM: usize = 10;

fn blank(field: OuterField, outer: &mut [u8], layout: &Layout, encapsulation: Encapsulation) {
    let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
    let is_v4 = layout.network == Network::V4;
    let mut at = |range| zero(outer, range);
    match (field, is_v4) {
        (OuterField::Macs, _) => at(0..12),
        (OuterField::Ttl, true) => at(l3 + 8..l3 + 9),
        (OuterField::Ttl, false) => at(l3 + 7..l3 + 8),
        (OuterField::Id, true) => at(l3 + 4..l3 + 8),
        (OuterField::FlowLabel, false) => at(l3 + 1..l3 + 4),
        (OuterField::SourcePort, _) if encapsulation == Encapsulation::Vxlan => {
            at(l4..l4 + 2);
            at(l4 + 6..l4 + 8);
        }
        _ => {}
    }
    if is_v4 && matches!(field, OuterField::Ttl | OuterField::Id) {
        at(l3 + V4_CHECKSUM..l3 + V4_CHECKSUM + 2);
    }
}

fn zero(bytes: &mut [u8], range: Range<usize>) {
    if let Some(place) = bytes.get_mut(range) {
        place.fill(0);
    }
}
