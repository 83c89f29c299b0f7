//! pcapng as it is written: one section, Ethernet interfaces with nanoseconds, enhanced packets.

use pcap_parser::{BOM_MAGIC, EPB_MAGIC, IDB_MAGIC, OptionCode, SHB_MAGIC};

use super::little_endian;
use crate::MAX_WRITTEN_FRAME_BYTES;
use crate::link_type::LINK_TYPE_ETHERNET;

/// Type, length, and length again at the end.
const BLOCK_BYTES: usize = 12;
const PACKET_HEAD_BYTES: usize = 28;
const NANOSECONDS: u8 = 9;

/// The section header: version 1.0, of unknown length.
pub(crate) fn section_header() -> [u8; 28] {
    little_endian([SHB_MAGIC, 28, BOM_MAGIC, 1, u32::MAX, u32::MAX, 28])
}

/// The description of the section's next interface.
pub(crate) fn interface_description(name: Option<&str>) -> Vec<u8> {
    let mut body =
        little_endian::<2, 8>([LINK_TYPE_ETHERNET, MAX_WRITTEN_FRAME_BYTES as u32]).to_vec();
    if let Some(name) = name {
        put_option(&mut body, OptionCode::IfName, name.as_bytes());
    }
    put_option(&mut body, OptionCode::IfTsresol, &[NANOSECONDS]);
    put_option(&mut body, OptionCode::EndOfOpt, &[]);
    block(IDB_MAGIC, &body)
}

pub(crate) fn put_option(body: &mut Vec<u8>, code: OptionCode, value: &[u8]) {
    body.extend(code.0.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

pub(crate) fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (BLOCK_BYTES + body.len()) as u32;
    let head: [u8; 8] = little_endian([kind, length]);
    [&head[..], body, &length.to_le_bytes()].concat()
}

/// What stands before a packet of `len` bytes.
pub(super) fn packet_head(interface: u32, timestamp_ns: u64, len: u32) -> [u8; PACKET_HEAD_BYTES] {
    little_endian([
        EPB_MAGIC,
        packet_block_bytes(len),
        interface,
        (timestamp_ns >> 32) as u32,
        timestamp_ns as u32,
        len,
        len,
    ])
}

/// What stands behind a packet of `len` bytes: padding, and the block's length again.
pub(super) fn packet_tail(len: u32) -> (&'static [u8], [u8; 4]) {
    (
        &[0; 3][..padding_bytes(len)],
        packet_block_bytes(len).to_le_bytes(),
    )
}

fn packet_block_bytes(len: u32) -> u32 {
    (PACKET_HEAD_BYTES + 4 + padding_bytes(len)) as u32 + len
}

/// Blocks are padded to a multiple of four bytes.
pub(crate) fn padding_bytes(len: u32) -> usize {
    (len.next_multiple_of(4) - len) as usize
}
