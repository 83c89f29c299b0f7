//! What is inside of tunnels: one outer flow carries packets of many, between which no order is owed.

use std::collections::BTreeMap;
use twinpath_core::wire::tunnel::{Tunnel, VXLAN_PORT};
use twinpath_core::wire::{Fragment, dissect, fields};

/// Names the flow and direction of the innermost packet; its MAC addresses tell whose it is.
pub fn inside(frame: &[u8]) -> String {
    let mut inner = frame;
    while let Ok(layout) = dissect(inner)
        && let Ok(tunnel) = Tunnel::read(inner, &layout, VXLAN_PORT)
    {
        inner = &inner[tunnel.inner()];
    }
    let Ok(layout) = dissect(inner) else {
        return "no packet".into();
    };
    let from = fields::source_address(inner, &layout);
    let to = fields::destination_address(inner, &layout);
    // Of fragments ports are in the first alone.
    let ports = match layout.fragment {
        Fragment::Whole => [
            fields::source_port(inner, &layout),
            fields::destination_port(inner, &layout),
        ],
        _ => [0; 2],
    };
    let macs = &inner[..12];
    format!("{macs:?} {} {from} {to} {ports:?}", layout.protocol)
}

/// Packets in order, by what is inside and by what is around that: fragments have no ports inside.
pub fn by_inside<'a>(
    packets: impl IntoIterator<Item = &'a Vec<u8>>,
) -> BTreeMap<Option<String>, Vec<Vec<u8>>> {
    let mut flows = BTreeMap::<_, Vec<Vec<u8>>>::new();
    for packet in packets {
        let around = dissect(packet).map(|layout| {
            let [from, to] = [fields::source, fields::destination].map(|of| of(packet, &layout));
            format!("{from} {to}")
        });
        let key = format!("{} in {around:?}", inside(packet));
        flows.entry(Some(key)).or_default().push(packet.clone());
    }
    flows
}
