//! Any bytes: dissection never panics, and what it finds lies inside the frame; nor does reading what
//! is about neighbours.

use twinpath_core::Steering;
use twinpath_core::steering::opener;
use twinpath_wire::arp::Arp;
use twinpath_wire::neighbor::NeighborMessage;
use twinpath_wire::{dissect, fields, kv};

/// One input.
pub fn run(bytes: &[u8]) {
    let _ = (Arp::of(bytes), NeighborMessage::of(bytes));
    let Ok(layout) = dissect(bytes) else { return };
    assert!(layout.end as usize <= bytes.len());
    assert!(layout.l3 <= layout.l4 && layout.l4 <= layout.payload);
    let payload = fields::payload(bytes, &layout);
    let _ = kv::KvView::new(payload);
    for steering in [
        Steering::new(1),
        Steering::new(1).with_kv_port(kv::DEFAULT_PORT),
    ] {
        if let Some(keyed) = steering.key(bytes, &layout) {
            opener(bytes, &layout, &keyed);
        }
    }
}
