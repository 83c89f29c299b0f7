//! The invariant CRC: over all of a packet that no router changes (Annex A17 §A17.3.2).

use crc32fast::Hasher;

use super::BTH_BYTES;
use crate::bytes::array_at;
use crate::kinds::Network;
use crate::layout::Layout;
use crate::{ipv4, ipv6, udp};

/// The ICRC at the end of a packet.
pub const ICRC_BYTES: usize = 4;

/// The CRC of eight bytes of ones, which stand for InfiniBand's local header.
const OF_LOCAL_HEADER: u32 = 0x2144_df1c;

/// An IPv4 header with options, UDP's, and the BTH.
const MAX_MASKED_BYTES: usize = 60 + udp::HEADER_BYTES + BTH_BYTES;

/// Byte of the BTH that switches mark congestion in.
const CONGESTION_AT: usize = 4;

/// The ICRC of a RoCE packet whose own ICRC begins at `end`; `None` if there are not as many bytes, or
/// more headers in front of UDP's than IPv4's with options.
///
/// What a router may change counts as ones: type of service, time to live and header checksum, or
/// traffic class, flow label and hop limit; UDP's checksum; and where switches mark congestion.
#[must_use]
pub fn icrc(frame: &[u8], layout: &Layout, end: usize) -> Option<u32> {
    let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
    let udp_at = l4.checked_sub(l3)?;
    let masked_bytes = udp_at + udp::HEADER_BYTES + BTH_BYTES;
    let mut masked = [0; MAX_MASKED_BYTES];
    let masked = masked.get_mut(..masked_bytes)?;
    let packet = frame.get(l3..end)?;
    let (headers, rest) = packet.split_at_checked(masked_bytes)?;
    masked.copy_from_slice(headers);
    mask(masked, layout.network, udp_at);
    let mut hasher = Hasher::new_with_initial(OF_LOCAL_HEADER);
    hasher.update(masked);
    hasher.update(rest);
    Some(hasher.finalize())
}

fn mask(headers: &mut [u8], network: Network, udp_at: usize) {
    match network {
        Network::V6 => {
            headers[0] |= 0x0f;
            headers[1..4].fill(0xff);
            headers[ipv6::HOP_LIMIT_AT] = 0xff;
        }
        Network::V4 | Network::None => {
            headers[1] = 0xff;
            headers[ipv4::TTL_AT] = 0xff;
            headers[ipv4::CHECKSUM_AT..ipv4::CHECKSUM_AT + 2].fill(0xff);
        }
    }
    let checksum_at = udp_at + udp::CHECKSUM_AT;
    headers[checksum_at..checksum_at + 2].fill(0xff);
    headers[udp_at + udp::HEADER_BYTES + CONGESTION_AT] = 0xff;
}

/// The ICRC that a frame has at an offset.
pub(super) fn at(frame: &[u8], at: usize) -> Option<u32> {
    array_at(frame, at).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_header_is_eight_bytes_of_ones() {
        assert_eq!(crc32fast::hash(&[0xff; 8]), OF_LOCAL_HEADER);
    }
}
