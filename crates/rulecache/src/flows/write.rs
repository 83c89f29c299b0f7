//! Rewrites packets.

use super::{Line, Macs, checksum_changes, decrements};
use crate::headers::Headers;
use twinpath_core::wire::{ipv4, udp};

/// Rewrites a packet as a line of the table says.
#[inline(always)]
pub(crate) fn write_line<const CHECKSUM_AT: usize>(
    line: &Line,
    macs: Option<&Macs>,
    headers: Headers<'_>,
) {
    let Headers {
        macs: frame_macs,
        ip,
        transport,
    } = headers;
    if let Some(macs) = macs {
        macs.write(frame_macs);
    }
    ip[ipv4::SOURCE_AT..ipv4::SOURCE_AT + 8].copy_from_slice(&line[2].to_be_bytes());
    ip[ipv4::TTL_AT] = ip[ipv4::TTL_AT].saturating_sub(decrements(line));
    transport[..4].copy_from_slice(&((line[3] >> 32) as u32).to_be_bytes());
    let [header, segment] = checksum_changes(line);
    if let Some(checksum) = ip[ipv4::CHECKSUM_AT..].first_chunk_mut() {
        header.mend(checksum);
    }
    if let Some(checksum) = transport[CHECKSUM_AT..].first_chunk_mut() {
        match CHECKSUM_AT {
            udp::CHECKSUM_AT => segment.mend_udp(checksum),
            _ => segment.mend(checksum),
        }
    }
}
