//! Classic pcap as it is written: nanoseconds and Ethernet.

use super::little_endian;
use crate::MAX_WRITTEN_FRAME_BYTES;
use crate::link_type::LINK_TYPE_ETHERNET;

const NANOSECOND_MAGIC: u32 = 0xa1b2_3c4d;
const NS_PER_S: u64 = 1_000_000_000;

/// What stands before the first record.
pub(super) fn file_header() -> [u8; 24] {
    let version = 2 | 4 << 16;
    let snap_len = MAX_WRITTEN_FRAME_BYTES as u32;
    little_endian([
        NANOSECOND_MAGIC,
        version,
        0,
        0,
        snap_len,
        LINK_TYPE_ETHERNET,
    ])
}

/// What stands before a frame of `len` bytes; none if its time is too late for 32 bits of seconds.
pub(super) fn record_header(timestamp_ns: u64, len: u32) -> Option<[u8; 16]> {
    let seconds = u32::try_from(timestamp_ns / NS_PER_S).ok()?;
    let nanoseconds = (timestamp_ns % NS_PER_S) as u32;
    Some(little_endian([seconds, nanoseconds, len, len]))
}
