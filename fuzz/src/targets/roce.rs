//! Any datagram to RoCE's port, its ICRC made right: what is read lies inside the frame and is written
//! as it was.

use twinpath_wire::roce::{Header, Opcode, Path, Psn, RocePacket, icrc};
use twinpath_wire::{Address, MacAddress, dissect};

/// One input.
pub fn run(bytes: &[u8]) {
    let path = Path {
        source_mac: MacAddress([2; 6]),
        destination_mac: MacAddress([4; 6]),
        source: Address::from_v4([10, 0, 0, 1]),
        destination: Address::from_v4([10, 0, 0, 2]),
        source_port: 50_000,
    };
    // An opcode without anything behind the BTH, all of which is written over.
    let blank = Header::new(Opcode(0x7f), 2, Psn::new(0));
    let mut frame = vec![0; path.frame_bytes(&blank, bytes.len())];
    let sound = path.emit(&blank, bytes.len(), &mut frame);
    sound.expect("up to 4096 bytes");
    let (from, end) = (42, frame.len() - 4);
    let length = bytes.len().min(end - from);
    frame[from..from + length].copy_from_slice(&bytes[..length]);
    let layout = dissect(&frame).expect("headers are as they were written");
    let code = icrc(&frame, &layout, end).expect("all of it is there");
    frame[end..].copy_from_slice(&code.to_le_bytes());
    let Ok(packet) = RocePacket::read(&frame, &layout) else {
        return;
    };
    assert_eq!(
        packet.payload_at + packet.payload_bytes + packet.pad_bytes,
        end
    );
    let payload = packet.payload(&frame);
    let mut again = vec![0; path.frame_bytes(&packet.header, payload.len())];
    let front = path.front_bytes(&packet.header);
    again[front..front + payload.len()].copy_from_slice(payload);
    path.emit(&packet.header, payload.len(), &mut again)
        .expect("it was read");
    let layout = dissect(&again).expect("it was written");
    let reread = RocePacket::read(&again, &layout).expect("it was written");
    assert_eq!(
        (reread.header, reread.payload(&again)),
        (packet.header, payload)
    );
}
