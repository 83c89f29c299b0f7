//! Packets that are too long for IPv6 and may be fragmented (RFC 7915 §4).

use super::datagram::{Datagram, Part};
use super::ends::{Ends, Untranslatable};
use twinpath_core::wire::ipv6::{FRAGMENT_HEADER_BYTES, HEADER_BYTES};

/// Bytes of headers in front of a fragment's.
const HEADERS: usize = HEADER_BYTES + FRAGMENT_HEADER_BYTES;

/// Writes a packet whose upper part has been translated as fragments of at most `mtu` bytes, and
/// calls `each` with them, in order.
pub(super) fn split(
    datagram: &Datagram<'_>,
    ends: Ends,
    mtu: u16,
    out: &mut [u8],
    mut each: impl FnMut(&[u8]),
) -> Result<(), Untranslatable> {
    let room = (usize::from(mtu) - HEADERS) / 8 * 8;
    let pieces = datagram.upper.chunks(room);
    let last = pieces.len().saturating_sub(1);
    for (number, piece) in pieces.enumerate() {
        let behind = u32::try_from(number * room).map_err(|_| Untranslatable::TooLong)?;
        let part = Part {
            offset_bytes: datagram.part.offset_bytes + behind,
            more: number < last || datagram.part.more,
            identification: datagram.part.identification,
        };
        let fragment = Datagram {
            part,
            upper: piece,
            upper_bytes: piece.len(),
            ..*datagram
        };
        let place = out.get_mut(HEADERS..HEADERS + piece.len());
        place.ok_or(Untranslatable::TooLong)?.copy_from_slice(piece);
        let length = fragment.write_header(false, ends, piece.len(), out)?;
        each(&out[..length]);
    }
    Ok(())
}
