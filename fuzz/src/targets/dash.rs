//! Any frames to a DPU with two tenants of the same addresses, each frame a length and bytes: none
//! panics, what leaves is sound and goes with the VNI of its tenant, and all are counted.

use twinpath_core::Instant;
use twinpath_dash::samples::{Large, large};
use twinpath_dash::{Dpu, Settings, Verdict};
use twinpath_wire::tunnel::{Encapsulation, Outer, Tunnel, VXLAN_PORT, Varying};
use twinpath_wire::{MacAddress, dissect, fields};

const HEADROOM: usize = 128;

/// One input.
pub fn run(bytes: &[u8]) {
    let objects = large(&Large {
        enis: 2,
        acl_stages: 1,
        acl_rules: 3,
        acl_prefixes: 1,
        routes: 8,
        mappings: 8,
    });
    let settings = Settings {
        flows: 64,
        ..Settings::default()
    };
    let mut dpu = Dpu::new(settings, 1);
    dpu.update(&objects, &objects.keys());
    let (mut rest, mut sent, mut now) = (bytes, 0, 1);
    while let Some((&[choice, length], behind)) = rest.split_first_chunk() {
        let (inner, behind) = behind.split_at(behind.len().min(length.into()));
        rest = behind;
        now += u64::from(choice) << 28;
        let number = u16::from(choice & 1);
        let mut inner = inner.to_vec();
        if inner.len() >= 14 && choice & 8 == 0 {
            let at = if choice & 2 == 0 { 6 } else { 0 };
            inner[at..at + 6].copy_from_slice(&Large::mac(number).0);
        }
        let outer = Outer {
            source_mac: MacAddress([2; 6]),
            destination_mac: MacAddress([4; 6]),
            source: Large::host(number),
            destination: "221.0.0.1".parse().expect("an address"),
            encapsulation: match choice & 4 {
                0 => Encapsulation::Vxlan,
                _ => Encapsulation::Nvgre,
            },
            key: match choice & 2 {
                0 => 1,
                _ => Large::vni(u16::from(choice >> 4 & 1)),
            },
            vxlan_port: VXLAN_PORT,
            ttl: 64,
        };
        let mut buffer = vec![0; HEADROOM + outer.header_bytes()];
        buffer.extend_from_slice(&inner);
        if outer
            .emit(&Varying::default(), &mut buffer[HEADROOM..])
            .is_err()
        {
            buffer.truncate(HEADROOM);
            buffer.extend_from_slice(&inner);
        }
        sent += 1;
        if let Verdict::Forward(frame) = dpu.process(&mut buffer, HEADROOM, Instant(now)) {
            let frame = &buffer[frame];
            let layout = dissect(frame).expect("what leaves is sound");
            let tunnel = Tunnel::read(frame, &layout, VXLAN_PORT).expect("encapsulated");
            let inside = &frame[tunnel.inner()];
            let to = fields::destination_address(frame, &layout);
            let is_of = |number: u16| {
                let mac = Large::mac(number).0;
                inside[6..12] == mac && tunnel.key == Large::vni(number)
                    || inside[..6] == mac && tunnel.key == 1 && to == Large::host(number)
            };
            // Where its MAC address was written it is that tenant's.
            let is_its = match choice & 8 {
                0 => is_of(number),
                _ => is_of(0) || is_of(1),
            };
            assert!(is_its, "a packet of one tenant as another's");
        }
    }
    let counted: u64 = dpu
        .tables()
        .enis()
        .filter_map(|(_, eni)| dpu.counters(&eni.id))
        .map(|counters| {
            counters.drops.total() + counters.sent[0].packets + counters.sent[1].packets
        })
        .sum();
    assert_eq!(counted + dpu.drops().total(), sent);
}
