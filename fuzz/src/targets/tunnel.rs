//! Any bytes as the inside of a VXLAN or NVGRE packet, and any frame translated to the other IP version:
//! what is read lies inside, what is written reads back, and what is refused stays as it was.

use twinpath_wire::translate::{MOST_GROWTH, translate};
use twinpath_wire::tunnel::{Encapsulation, Outer, Tunnel, VXLAN_PORT, Varying, ecn, entropy};
use twinpath_wire::{Address, MacAddress, dissect};

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((&choice, inner)) = bytes.split_first() else {
        return;
    };
    if let Ok(layout) = dissect(inner) {
        let _ = entropy(inner, &layout);
        if let Ok(tunnel) = Tunnel::read(inner, &layout, VXLAN_PORT) {
            assert!(
                inner
                    .get(tunnel.inner())
                    .is_some_and(|inside| inside.len() >= 14)
            );
        }
        let ends = match choice & 4 {
            0 => [Address(0xfd00 << 112 | 1), Address(0xfd00 << 112 | 2)],
            _ => [
                Address::from_v4([10, 0, 0, 1]),
                Address::from_v4([10, 0, 0, 2]),
            ],
        };
        let mut buffer = vec![0xee; MOST_GROWTH];
        buffer.extend_from_slice(inner);
        match translate(&mut buffer, MOST_GROWTH, &layout, ends[0], ends[1]) {
            Ok(start) => assert!(dissect(&buffer[start..]).is_ok()),
            Err(_) => assert_eq!(&buffer[MOST_GROWTH..], inner),
        }
        let mut marked = inner.to_vec();
        ecn::set_traffic_class(&mut marked, &layout, bytes[0]);
        assert!(dissect(&marked).is_ok());
    }
    if inner.len() < 14 {
        return;
    }
    let address = |last| match choice & 2 {
        0 => Address::from_v4([10, 0, 0, last]),
        _ => Address(0xfd00 << 112 | u128::from(last)),
    };
    let outer = Outer {
        source_mac: MacAddress([2; 6]),
        destination_mac: MacAddress([4; 6]),
        source: address(1),
        destination: address(2),
        encapsulation: match choice & 1 {
            0 => Encapsulation::Vxlan,
            _ => Encapsulation::Nvgre,
        },
        key: u32::from(choice) << 12,
        vxlan_port: VXLAN_PORT,
        ttl: 64,
    };
    let mut frame = vec![0; outer.header_bytes()];
    frame.extend_from_slice(inner);
    let varying = Varying {
        udp_checksum: true,
        ..Varying::default()
    };
    outer.emit(&varying, &mut frame).expect("up to 4096 bytes");
    let layout = dissect(&frame).expect("it was written");
    let tunnel = Tunnel::read(&frame, &layout, VXLAN_PORT).expect("it was written");
    assert_eq!((tunnel.key, &frame[tunnel.inner()]), (outer.key, inner));
}
