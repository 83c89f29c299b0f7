//! RoCE packets against an independent implementation, and any bytes.

use proptest::prelude::*;
use twinpath_wire::roce::{
    Aeth, Header, Opcode, Path, Psn, Reth, RoceMalformed, RocePacket, Syndrome, icrc,
};
use twinpath_wire::{Address, MacAddress, dissect};

/// Names and frames that scapy has built: see `roce/vectors.py`.
fn vectors() -> Vec<(&'static str, Vec<u8>)> {
    let lines = include_str!("roce/vectors.txt").lines();
    let vector = |line: &'static str| {
        let (name, hex) = line.split_once(' ').expect("name and frame");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
        (name, (0..hex.len()).step_by(2).map(byte).collect())
    };
    lines.map(vector).collect()
}

fn path(source: Address, destination: Address) -> Path {
    Path {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source,
        destination,
        source_port: 0xc123,
    }
}

fn v4_path() -> Path {
    path(
        Address::from_v4([10, 0, 0, 1]),
        Address::from_v4([10, 0, 0, 2]),
    )
}

fn v6_path() -> Path {
    let end = |last: u128| Address(0xfd00 << 112 | last);
    path(end(1), end(2))
}

fn emitted(path: &Path, header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; path.frame_bytes(header, payload.len())];
    let front = path.front_bytes(header);
    frame[front..front + payload.len()].copy_from_slice(payload);
    path.emit(header, payload.len(), &mut frame).expect("sound");
    frame
}

#[test]
fn every_icrc_is_that_of_an_independent_implementation() {
    let vectors = vectors();
    assert!(vectors.len() > 100);
    for (name, frame) in &vectors {
        let layout = dissect(frame).unwrap();
        let end = layout.end as usize - 4;
        let expected = u32::from_le_bytes(frame[end..].try_into().unwrap());
        assert_eq!(icrc(frame, &layout, end), Some(expected), "{name}");
        assert!(RocePacket::read(frame, &layout).is_ok(), "{name}");
    }
}

#[test]
fn what_is_read_is_written_as_an_independent_implementation_does() {
    let mut written = 0;
    for (name, frame) in vectors() {
        let path = match name.split('_').next() {
            Some("v4") => v4_path(),
            Some("v6") => v6_path(),
            _ => continue,
        };
        if name.ends_with("congested") {
            continue;
        }
        let packet = RocePacket::read(&frame, &dissect(&frame).unwrap()).unwrap();
        let again = emitted(&path, &packet.header, packet.payload(&frame));
        assert_eq!(again, frame, "{name}");
        written += 1;
    }
    assert!(written > 40, "{written}");
}

#[test]
fn fields_are_where_an_independent_implementation_has_them() {
    let vectors = vectors();
    let packet = |wanted: &str| {
        let (_, frame) = vectors.iter().find(|(name, _)| *name == wanted).unwrap();
        RocePacket::read(frame, &dissect(frame).unwrap()).unwrap()
    };
    let read = packet("vlan_read_request").header;
    let base = Header::new(Opcode::READ_REQUEST, 0x12_3456, Psn::new(0xab_cdef));
    let reth = Some(Reth {
        address: 0x1122_3344_5566_7788,
        rkey: 0xcafe_0102,
        bytes: 4096,
    });
    let expected = Header {
        ack_request: true,
        reth,
        ..base
    };
    assert_eq!(read, expected);
    let nak = packet("v6_acknowledge_62").header.aeth;
    let expected = Aeth {
        syndrome: Syndrome::of(0x62),
        messages: 0x01_0203,
    };
    assert_eq!(nak, Some(expected));
    let both = packet("v4_write_only_immediate").header;
    assert_eq!(both.immediate, Some(0xa1a2_a3a4));
    assert!(both.reth.is_some_and(|reth| reth.bytes == 8));
    assert!(packet("v4_write_last").header.solicited);
}

fn any_header() -> impl Strategy<Value = Header> {
    let opcode = (6u8..=0x11).prop_map(Opcode);
    let numbers = (0u32..1 << 24, 0u32..1 << 24, 0u32..1 << 24);
    let words = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>());
    let rest = (any::<bool>(), any::<bool>(), any::<u16>(), any::<u8>());
    (opcode, numbers, words, rest).prop_map(|(opcode, numbers, words, rest)| {
        let (destination_qp, psn, messages) = numbers;
        let (address, rkey, bytes, immediate) = words;
        let (solicited, ack_request, partition, syndrome) = rest;
        let syndrome = Syndrome::of(syndrome);
        Header {
            solicited,
            ack_request,
            partition,
            reth: opcode.has_reth().then_some(Reth {
                address,
                rkey,
                bytes,
            }),
            aeth: opcode.has_aeth().then_some(Aeth { syndrome, messages }),
            immediate: opcode.has_immediate().then_some(immediate),
            ..Header::new(opcode, destination_qp, Psn::new(psn))
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(header in any_header(), payload in prop::collection::vec(any::<u8>(), 0..1500), is_v4: bool) {
        let path = if is_v4 { v4_path() } else { v6_path() };
        let frame = emitted(&path, &header, &payload);
        let packet = RocePacket::read(&frame, &dissect(&frame).unwrap()).unwrap();
        prop_assert_eq!(packet.header, header);
        prop_assert_eq!(packet.payload(&frame), &payload[..]);
        prop_assert_eq!(packet.pad_bytes, payload.len().wrapping_neg() & 3);
    }

    #[test]
    fn a_changed_bit_is_noticed(header in any_header(), payload in prop::collection::vec(any::<u8>(), 0..100), bit: prop::sample::Index, is_v4: bool) {
        let path = if is_v4 { v4_path() } else { v6_path() };
        let mut frame = emitted(&path, &header, &payload);
        let bth = path.front_bytes(&header) - header.opcode.header_bytes();
        // The IP addresses are covered, too; lengths and versions make another packet of it.
        let from = bth - 8 - if is_v4 { 8 } else { 32 };
        let bits = 8 * (frame.len() - from);
        let bit = bit.index(bits);
        let at = from + bit / 8;
        let is_masked = at == bth + 4 || (bth - 2..bth).contains(&at);
        frame[at] ^= 1 << (bit % 8);
        let read = dissect(&frame).ok().map(|layout| RocePacket::read(&frame, &layout));
        prop_assert_eq!(matches!(read, Some(Ok(_))), is_masked, "byte {}", at - from);
    }

    #[test]
    fn any_datagram_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), opcode in 0u8..0x20) {
        let header = Header::new(Opcode(0x20), 2, Psn::new(0));
        let path = v4_path();
        let mut frame = emitted(&path, &header, &bytes);
        frame[42] = opcode;
        let layout = dissect(&frame).unwrap();
        prop_assert!(RocePacket::read(&frame, &layout).is_err());
        // With the right ICRC it is refused for its lengths alone.
        let end = frame.len() - 4;
        let code = icrc(&frame, &layout, end).unwrap();
        frame[end..].copy_from_slice(&code.to_le_bytes());
        match RocePacket::read(&frame, &layout) {
            Ok(packet) => prop_assert!(packet.payload_at + packet.payload_bytes + packet.pad_bytes == end),
            Err(why) => prop_assert!(matches!(why, RoceMalformed::Truncated | RoceMalformed::Pad)),
        }
    }
}
