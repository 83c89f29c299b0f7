use super::*;
use crate::address::{Address, MacAddress};
use crate::layout::dissect;

fn path() -> Path {
    Path {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source: Address::from_v4([10, 0, 0, 1]),
        destination: Address::from_v4([10, 0, 0, 2]),
        source_port: 50_000,
    }
}

fn write(bytes: u32) -> Header {
    Header {
        ack_request: true,
        reth: Some(Reth {
            address: 0x1000,
            rkey: 7,
            bytes,
        }),
        ..Header::new(Opcode::WRITE_ONLY, 0x12_3456, Psn::new(5))
    }
}

fn frame(header: &Header, payload: &[u8]) -> Vec<u8> {
    let path = path();
    let mut frame = vec![0xee; path.frame_bytes(header, payload.len())];
    let front = path.front_bytes(header);
    frame[front..front + payload.len()].copy_from_slice(payload);
    path.emit(header, payload.len(), &mut frame).unwrap();
    frame
}

fn read(frame: &[u8]) -> Result<RocePacket, RoceMalformed> {
    RocePacket::read(frame, &dissect(frame).unwrap())
}

#[test]
fn what_is_written_is_read() {
    let frame = frame(&write(5), b"hello");
    let packet = read(&frame).unwrap();
    assert_eq!(packet.header, write(5));
    assert_eq!(
        (packet.payload(&frame), packet.pad_bytes),
        (&b"hello"[..], 3)
    );
}

#[test]
fn every_change_is_noticed() {
    let good = frame(&write(5), b"hello");
    let bth = 14 + 20 + 8;
    for at in bth..good.len() {
        let mut frame = good.clone();
        frame[at] ^= 0x10;
        // Where switches mark congestion anybody may write.
        let is_masked = at == bth + 4;
        assert_eq!(read(&frame).is_ok(), is_masked, "byte {at}");
    }
}

#[test]
fn each_check() {
    let good = frame(&write(5), b"hello");
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        read(&frame).unwrap_err()
    };
    assert_eq!(with(36, 0), RoceMalformed::NotRoce);
    assert_eq!(with(39, 12 + 16 + 3 + 8), RoceMalformed::Truncated);
    assert_eq!(with(39, 10), RoceMalformed::Truncated);
    assert_eq!(with(43, 1), RoceMalformed::Version);
    assert_eq!(with(60, 1), RoceMalformed::Icrc);
    let mut acknowledgement = Header::new(Opcode::ACKNOWLEDGE, 2, Psn::new(0));
    acknowledgement.aeth = Some(Aeth {
        syndrome: Syndrome::ACK,
        messages: 1,
    });
    let mut frame = frame(&acknowledgement, b"");
    frame[43] = 0x10;
    assert_eq!(read(&frame), Err(RoceMalformed::Pad));
}

#[test]
fn refuses_to_emit_nonsense() {
    let (path, mut frame) = (path(), [0; 200]);
    let emit = |header: &Header, bytes: usize, frame: &mut [u8]| {
        let length = path.frame_bytes(header, bytes);
        path.emit(header, bytes, &mut frame[..length])
    };
    let bare = Header::new(Opcode::WRITE_ONLY, 2, Psn::new(0));
    assert_eq!(emit(&bare, 0, &mut frame), Err(BuildError::WrongKind));
    let large = Header {
        destination_qp: 1 << 24,
        ..write(0)
    };
    assert_eq!(emit(&large, 0, &mut frame), Err(BuildError::FieldRange));
    let short = path.emit(&write(1), 1, &mut frame[..77]);
    assert_eq!(short, Err(BuildError::BufferTooSmall));
    let mixed = Path {
        destination: Address(1),
        ..path
    };
    let length = mixed.frame_bytes(&write(0), 0);
    let refused = mixed.emit(&write(0), 0, &mut frame[..length]);
    assert_eq!(refused, Err(BuildError::Family));
}

#[test]
fn sequence_numbers_wrap() {
    let last = Psn::new(MAX_NUMBER);
    assert_eq!(last.plus(1), Psn::new(0));
    assert_eq!(Psn::new(0).previous(), last);
    assert_eq!(Psn::new(1).since(last), 2);
    assert_eq!(last.since(Psn::new(1)), -2);
    assert_eq!(Psn::new(1 << 23).since(Psn::new(0)), -(1 << 23));
}

#[test]
fn every_syndrome_is_its_byte() {
    for byte in 0..=u8::MAX {
        assert_eq!(Syndrome::of(byte).byte(), byte);
    }
    for why in Nak::ALL {
        assert_eq!(Syndrome::of(0x60 + why as u8), Syndrome::Nak(why));
    }
}
