//! Any packet: a rewrite and its reverse give the packet back, checksums included.

use twinpath_wire::{Endpoint, dissect, fields, rewrite};

/// One input.
pub fn run(bytes: &[u8]) {
    let Ok(layout) = dissect(bytes) else { return };
    let mut frame = bytes.to_vec();
    let before = fields::destination(&frame, &layout);
    let other = Endpoint {
        address: twinpath_wire::Address(before.address.0 ^ 0xff),
        port: before.port,
    };
    if rewrite::set_destination(&mut frame, &layout, other).is_ok() {
        assert_eq!(
            dissect(&frame).expect("a rewrite keeps a packet valid").end,
            layout.end
        );
        rewrite::set_destination(&mut frame, &layout, before).expect("the family is the same");
        assert_eq!(fields::destination(&frame, &layout), before);
    }
    let _ = rewrite::swap_endpoints(&mut frame, &layout);
    let _ = rewrite::refresh_checksums(&mut frame, &layout);
}
