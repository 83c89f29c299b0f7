//! Encapsulated frames, and packets translated between IP versions, against an independent
//! implementation, and any bytes.

use proptest::prelude::*;
use twinpath_wire::translate::{MOST_GROWTH, Untranslatable, translate};
use twinpath_wire::tunnel::{
    Encapsulation, MAX_KEY, Outer, SourcePorts, Tunnel, TunnelMalformed, VXLAN_PORT, Varying, ecn,
    entropy, entropy_of,
};
use twinpath_wire::{
    Address, BuildError, Endpoint, MacAddress, PacketBuilder, dissect, fields,
    verify_ipv4_checksum, verify_transport_checksum,
};

/// Names and frames that scapy has built: see `tunnel/vectors.py`.
fn vectors() -> Vec<(&'static str, [Vec<u8>; 2])> {
    let bytes = |hex: &str| {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
        (0..hex.len()).step_by(2).map(byte).collect()
    };
    let lines = include_str!("tunnel/vectors.txt").lines();
    let vector = |line: &'static str| {
        let mut parts = line.split(' ');
        let name = parts.next().expect("a name");
        let mut frame = || bytes(parts.next().expect("a frame"));
        (name, [frame(), frame()])
    };
    lines.map(vector).collect()
}

fn outer(is_v4: bool, encapsulation: Encapsulation, key: u32) -> Outer {
    let address = |text: &str| text.parse().expect("an address");
    let (source, destination) = match is_v4 {
        true => (address("10.1.0.5"), address("101.1.2.3")),
        false => (address("fd00::1"), address("2601:12:7a:1::1234")),
    };
    Outer {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source,
        destination,
        encapsulation,
        key,
        vxlan_port: VXLAN_PORT,
        ttl: 64,
    }
}

const VARYING: Varying = Varying {
    source_port: 0xc123,
    flow_label: 0x12345,
    flow: 0,
    traffic_class: 0xb9,
    udp_checksum: true,
};

fn emitted(outer: &Outer, varying: &Varying, inner: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xee; outer.header_bytes()];
    frame.extend_from_slice(inner);
    outer.emit(varying, &mut frame).expect("sound");
    frame
}

/// What a vector's name says of its layers, from the inside out.
fn layers(name: &str) -> Vec<(Outer, Varying)> {
    let is_v4 = name.contains("_v4_");
    let vxlan = (outer(is_v4, Encapsulation::Vxlan, 0xab_cdef), VARYING);
    let flow = if is_v4 { 0 } else { 0x5a };
    let nvgre = (
        outer(is_v4, Encapsulation::Nvgre, 100),
        Varying { flow, ..VARYING },
    );
    match name.split('_').next() {
        Some("vxlan") => vec![vxlan],
        Some("nvgre") => vec![nvgre],
        _ => vec![nvgre, vxlan],
    }
}

#[test]
fn every_header_is_that_of_an_independent_implementation() {
    let vectors = vectors();
    assert!(vectors.len() > 100);
    for (name, [inner, expected]) in &vectors {
        if name.starts_with("translate") {
            continue;
        }
        let mut frame = inner.clone();
        for (outer, varying) in layers(name) {
            frame = emitted(&outer, &varying, &frame);
        }
        assert_eq!(&frame, expected, "{name}");
        let mut rest = &expected[..];
        for (outer, varying) in layers(name).iter().rev() {
            let layout = dissect(rest).expect("sound");
            assert!(
                verify_ipv4_checksum(rest, &layout) && verify_transport_checksum(rest, &layout)
            );
            let tunnel = Tunnel::read(rest, &layout, VXLAN_PORT).expect("a tunnel");
            assert_eq!(tunnel.encapsulation, outer.encapsulation, "{name}");
            let flow = match outer.encapsulation {
                Encapsulation::Vxlan => 0,
                Encapsulation::Nvgre => varying.flow,
            };
            assert_eq!((tunnel.key, tunnel.flow), (outer.key, flow), "{name}");
            rest = &rest[tunnel.inner()];
        }
        assert_eq!(rest, inner, "{name}");
    }
}

/// A frame behind room for a longer header.
fn with_room(frame: &[u8]) -> Vec<u8> {
    [&[0xee; MOST_GROWTH][..], frame].concat()
}

fn ends(frame: &[u8]) -> [Address; 2] {
    let layout = dissect(frame).expect("sound");
    [
        fields::source_address(frame, &layout),
        fields::destination_address(frame, &layout),
    ]
}

fn translated(
    frame: &[u8],
    [source, destination]: [Address; 2],
) -> Result<Vec<u8>, Untranslatable> {
    let mut buffer = with_room(frame);
    let layout = dissect(frame).expect("sound");
    let start = translate(&mut buffer, MOST_GROWTH, &layout, source, destination)?;
    Ok(buffer[start..].to_vec())
}

#[test]
fn every_translation_is_that_of_an_independent_implementation() {
    for (name, [v4, v6]) in vectors() {
        if !name.starts_with("translate") {
            continue;
        }
        assert_eq!(
            translated(&v4, ends(&v6)).as_ref(),
            Ok(&v6),
            "{name} to IPv6"
        );
        assert_eq!(
            translated(&v6, ends(&v4)).as_ref(),
            Ok(&v4),
            "{name} to IPv4"
        );
    }
}

#[test]
fn what_has_no_counterpart_is_left_as_it_is() {
    let v6 = [Address(0xfd00 << 112 | 1), Address(0xfd00 << 112 | 2)];
    let v4 = [1, 2].map(|last| Address::from_v4([10, 0, 0, last]));
    let end = |address: Address| Endpoint::new(address, 7);
    let udp = PacketBuilder::udp(end(v4[0]), end(v4[1])).to_vec().unwrap();
    assert_eq!(translated(&udp, v4), Err(Untranslatable::Family));
    assert_eq!(
        translated(&udp, [v6[0], v4[1]]),
        Err(Untranslatable::Family)
    );
    let quoted = PacketBuilder::udp(end(v4[1]), end(v4[0])).to_vec().unwrap();
    let kind = twinpath_wire::icmp::IcmpError::PacketTooBig { mtu: 1400 };
    let error = PacketBuilder::icmp_error(kind, &quoted).to_vec().unwrap();
    assert_eq!(translated(&error, v6), Err(Untranslatable::Icmp));
    let labels: &[u8] = &[0x88, 0x47, 0, 1, 1, 64];
    let labelled = PacketBuilder::udp(end(v4[0]), end(v4[1]))
        .link(labels)
        .to_vec()
        .unwrap();
    assert_eq!(translated(&labelled, v6), Err(Untranslatable::Family));
    let mut close = udp.clone();
    let layout = dissect(&udp).unwrap();
    let result = translate(&mut close, 0, &layout, v6[0], v6[1]);
    assert_eq!((result, close), (Err(Untranslatable::Room), udp));
}

/// What follows would be taken for an extension header.
#[test]
fn protocols_with_numbers_of_extension_headers_stay_in_ipv4() {
    let v6 = [Address(0xfd00 << 112 | 1), Address(0xfd00 << 112 | 2)];
    let v4 = [1, 2].map(|last| Address::from_v4([10, 0, 0, last]));
    for protocol in 0..=u8::MAX {
        let packet = PacketBuilder::raw(protocol, v4[0], v4[1]).payload(&[0xff; 40]);
        let Ok(frame) = packet.to_vec() else {
            continue;
        };
        match translated(&frame, v6) {
            Ok(six) => assert!(dissect(&six).is_ok(), "{protocol}"),
            Err(why) => assert!(
                matches!(why, Untranslatable::Protocol | Untranslatable::Icmp),
                "{protocol}"
            ),
        }
    }
}

#[test]
fn a_datagram_without_a_checksum_gets_one_in_ipv6() {
    let v6 = [Address(0xfd00 << 112 | 1), Address(0xfd00 << 112 | 2)];
    let end = |last| Endpoint::v4([10, 0, 0, last], 7);
    let mut udp = PacketBuilder::udp(end(1), end(2))
        .payload(b"odd")
        .to_vec()
        .unwrap();
    let at = 14 + 20 + 6;
    udp[at..at + 2].fill(0);
    let six = translated(&udp, v6).expect("a whole datagram");
    assert!(verify_transport_checksum(&six, &dissect(&six).unwrap()));
}

#[test]
fn nonsense_is_not_written() {
    let outer = outer(true, Encapsulation::Vxlan, 5);
    let mut frame = vec![0; outer.header_bytes() + 14];
    assert_eq!(outer.emit(&VARYING, &mut frame), Ok(()));
    assert_eq!(
        outer.emit(&VARYING, &mut frame[1..]),
        Err(BuildError::BufferTooSmall)
    );
    let key = Outer {
        key: MAX_KEY + 1,
        ..outer
    };
    assert_eq!(key.emit(&VARYING, &mut frame), Err(BuildError::FieldRange));
    let mixed = Outer {
        destination: Address(1),
        ..outer
    };
    assert_eq!(mixed.emit(&VARYING, &mut frame), Err(BuildError::Family));
    let mut long = vec![0; 65_536 + 14];
    assert_eq!(outer.emit(&VARYING, &mut long), Err(BuildError::TooLong));
}

#[test]
fn what_is_no_tunnel_is_told_apart() {
    let inner = [0; 14];
    let read = |frame: &[u8]| Tunnel::read(frame, &dissect(frame).unwrap(), VXLAN_PORT).err();
    let vxlan = emitted(&outer(true, Encapsulation::Vxlan, 5), &VARYING, &inner);
    assert_eq!(read(&vxlan), None);
    let other_port = Outer {
        vxlan_port: 8472,
        ..outer(true, Encapsulation::Vxlan, 5)
    };
    let elsewhere = emitted(&other_port, &VARYING, &inner);
    assert_eq!(read(&elsewhere), Some(TunnelMalformed::NotTunnel));
    let mut without_vni = vxlan.clone();
    without_vni[42] = 0;
    assert_eq!(read(&without_vni), Some(TunnelMalformed::Flags));
    without_vni[42] = 0xff;
    assert_eq!(read(&without_vni), None, "reserved bits do not matter");
    let nvgre = emitted(&outer(true, Encapsulation::Nvgre, 5), &VARYING, &inner);
    for (at, value, expected) in [
        (34, 0x00, TunnelMalformed::Flags),
        (34, 0xa0, TunnelMalformed::Flags),
        (34, 0x30, TunnelMalformed::Flags),
        (35, 0x01, TunnelMalformed::Flags),
        (36, 0x08, TunnelMalformed::NotTunnel),
    ] {
        let mut changed = nvgre.clone();
        changed[at] = value;
        assert_eq!(read(&changed), Some(expected), "byte {at}");
    }
    let mut fragment = nvgre;
    fragment[20..22].copy_from_slice(&0x2000u16.to_be_bytes());
    assert_eq!(read(&fragment), Some(TunnelMalformed::Fragment));
}

#[test]
fn source_ports_keep_to_their_range() {
    let ports = SourcePorts {
        base: 5120,
        bits: 7,
    };
    for entropy in [0, 1, 0x1234_5678, u32::MAX] {
        assert!((5120..5248).contains(&ports.port(entropy)));
        assert!(SourcePorts::default().port(entropy) >= 49_152);
    }
    let all = SourcePorts { base: 7, bits: 16 };
    assert_eq!(all.port(0xfffe_0000), 0xfffe);
    assert_eq!(SourcePorts { base: 7, bits: 0 }.port(u32::MAX), 7);
}

#[test]
fn flows_are_spread() {
    let mut places = [0u32; 64];
    for flow in 0..6400u16 {
        let source = Endpoint::v4([10, 0, (flow >> 8) as u8, flow as u8], 1000);
        let frame = PacketBuilder::udp(source, Endpoint::v4([10, 9, 9, 9], 53));
        let frame = frame.to_vec().unwrap();
        let layout = dissect(&frame).unwrap();
        let number = entropy(&frame, &layout);
        let addresses = [source.address, Address::from_v4([10, 9, 9, 9])];
        assert_eq!(number, entropy_of(addresses, [1000, 53], 17));
        places[(number >> 26) as usize] += 1;
    }
    assert!(
        places.iter().all(|count| (50..160).contains(count)),
        "{places:?}"
    );
}

#[test]
fn traffic_classes_are_written_and_read() {
    for source in ["10.0.0.1:1", "[fd00::1]:1"] {
        let source: Endpoint = source.parse().unwrap();
        let mut frame = PacketBuilder::udp(source, source).to_vec().unwrap();
        let layout = dissect(&frame).unwrap();
        let before = frame.clone();
        for class in [0xff, 0x01, 0xb9, 0] {
            ecn::set_traffic_class(&mut frame, &layout, class);
            assert_eq!(ecn::traffic_class(&frame, &layout), class);
            assert!(verify_ipv4_checksum(&frame, &layout));
        }
        assert_eq!(frame, before);
    }
}

proptest! {
    /// Any bytes behind sound outer headers: what is read lies inside, and reads back as written.
    #[test]
    fn any_inner_bytes(
        is_v4 in any::<bool>(),
        is_vxlan in any::<bool>(),
        key in 0..=MAX_KEY,
        inner in prop::collection::vec(any::<u8>(), 14..200),
        cut in 0usize..60,
        damage in prop::option::of((0usize..90, any::<u8>())),
    ) {
        let kind = if is_vxlan { Encapsulation::Vxlan } else { Encapsulation::Nvgre };
        let mut frame = emitted(&outer(is_v4, kind, key), &VARYING, &inner);
        let whole = dissect(&frame).unwrap();
        let tunnel = Tunnel::read(&frame, &whole, VXLAN_PORT).expect("sound");
        prop_assert_eq!(tunnel.key, key);
        prop_assert_eq!(&frame[tunnel.inner()], &inner[..]);
        if let Some((at, value)) = damage {
            let at = at.min(frame.len() - 1);
            frame[at] = value;
        }
        frame.truncate(frame.len() - cut.min(frame.len()));
        if let Ok(layout) = dissect(&frame)
            && let Ok(tunnel) = Tunnel::read(&frame, &layout, VXLAN_PORT)
        {
            prop_assert!(frame.get(tunnel.inner()).is_some_and(|inner| inner.len() >= 14));
        }
    }

    /// There and back is where it was, but for what IPv6 does not have.
    #[test]
    fn there_and_back(
        ports in any::<[u16; 2]>(),
        ttl in 1u8..,
        dscp in 0u8..64,
        payload in prop::collection::vec(any::<u8>(), 0..100),
        is_tcp in any::<bool>(),
        addresses in any::<[u64; 4]>(),
    ) {
        let (source, destination) = (
            Endpoint::v4([10, 0, 0, 1], ports[0]),
            Endpoint::v4([10, 0, 0, 2], ports[1]),
        );
        let packet = match is_tcp {
            true => PacketBuilder::tcp(source, destination),
            false => PacketBuilder::udp(source, destination),
        };
        let frame = packet.ttl(ttl).dscp(dscp).payload(&payload).to_vec().unwrap();
        let [a, b, c, d] = addresses.map(|number| u128::from(number | 1 << 63));
        let v6 = [Address(a << 64 | b), Address(c << 64 | d)];
        let six = translated(&frame, v6).expect("translatable");
        let layout = dissect(&six).unwrap();
        prop_assert!(verify_transport_checksum(&six, &layout));
        prop_assert_eq!(ends(&six), v6);
        prop_assert_eq!(fields::source_port(&six, &layout), ports[0]);
        prop_assert_eq!(translated(&six, ends(&frame)).expect("translatable"), frame);
    }

    /// Whatever a frame is, translating it neither panics nor writes outside.
    #[test]
    fn any_frame_is_translated_or_left(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        version in 0u8..3,
    ) {
        let mut frame = bytes;
        let start: &[u8] = match version {
            0 => &[0x08, 0x00, 0x45],
            1 => &[0x86, 0xdd, 0x60],
            _ => &[0x81, 0x00, 0x00],
        };
        if frame.len() > 15 {
            frame[12..15].copy_from_slice(start);
        }
        let Ok(layout) = dissect(&frame) else {
            return Ok(());
        };
        let v6 = [Address(0xfd00 << 112 | 1), Address(0xfd00 << 112 | 2)];
        let v4 = [1, 2].map(|last| Address::from_v4([10, 0, 0, last]));
        for ends in [v4, v6] {
            let mut buffer = with_room(&frame);
            let result = translate(&mut buffer, MOST_GROWTH, &layout, ends[0], ends[1]);
            match result {
                Ok(start) => {
                    let translated = dissect(&buffer[start..]);
                    prop_assert!(translated.is_ok(), "{:?}", translated);
                }
                Err(_) => prop_assert_eq!(&buffer[MOST_GROWTH..], &frame[..]),
            }
        }
    }
}
