//! Where a fragment belongs in its datagram, and how packets are cut.

mod pieces;

pub use pieces::{Piece, Pieces, pieces};

use crate::bytes::put;
use crate::ipv4::{self, Ipv4View};
use crate::ipv6::{self, Ipv6View};
use crate::kinds::{Fragment, Network};
use crate::layout::Layout;
use crate::{checksum, protocol};

/// A part of a datagram.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What ties the parts together.
    pub identification: u32,
    /// Where its data belongs, in bytes.
    pub offset: u32,
    /// Bytes of data, whatever headers the first part begins with included.
    pub bytes: u32,
    /// Whether no other part is behind it.
    pub is_last: bool,
    /// Where its data begins in the frame.
    pub data_at: usize,
}

impl Part {
    /// Where what follows it belongs.
    #[must_use]
    pub const fn end(&self) -> u32 {
        self.offset + self.bytes
    }
}

/// Reads what a fragment says of itself; `None` if it is none.
#[must_use]
pub fn part(frame: &[u8], layout: &Layout) -> Option<Part> {
    if layout.fragment == Fragment::Whole {
        return None;
    }
    let (l3, end) = (usize::from(layout.l3), layout.end as usize);
    let datagram = frame.get(l3..end)?;
    match layout.network {
        Network::V4 => {
            let view = Ipv4View::new_quoted(datagram).ok()?;
            let bytes = datagram.len().checked_sub(view.header_bytes())?;
            Some(Part {
                identification: view.identification().into(),
                offset: view.fragment_offset_bytes(),
                bytes: bytes as u32,
                is_last: !view.more_fragments(),
                data_at: l3 + view.header_bytes(),
            })
        }
        Network::V6 => {
            let (at, header) = Ipv6View::new_quoted(datagram).ok()?.fragment_header()?;
            let data = at + ipv6::FRAGMENT_HEADER_BYTES;
            Some(Part {
                identification: header.identification,
                offset: header.offset_bytes,
                bytes: datagram.len().checked_sub(data)? as u32,
                is_last: !header.more,
                data_at: l3 + data,
            })
        }
        Network::None => None,
    }
}

/// Cuts a whole packet into fragments with at most so many bytes of data, as a router or its sender
/// does; for tests and traffic. `None` for what is no whole IP packet, has IPv4 options or IPv6
/// extension headers, or if less than 8 bytes would fit.
#[must_use]
pub fn cut(
    frame: &[u8],
    layout: &Layout,
    most: usize,
    identification: u32,
) -> Option<Vec<Vec<u8>>> {
    let (l3, l4, most) = (usize::from(layout.l3), usize::from(layout.l4), most / 8 * 8);
    let header_bytes = match layout.network {
        Network::V4 => ipv4::HEADER_BYTES,
        Network::V6 => ipv6::HEADER_BYTES,
        Network::None => return None,
    };
    if layout.fragment != Fragment::Whole || l4 - l3 != header_bytes || most == 0 {
        return None;
    }
    let (head, data) = (frame.get(..l4)?, frame.get(l4..layout.end as usize)?);
    let chunks = data.chunks(most).enumerate();
    let fragment = |(number, chunk): (usize, &[u8])| {
        let place = (number * most) as u16 | u16::from((number + 1) * most < data.len());
        let mut fragment = head.to_vec();
        match layout.network {
            Network::V4 => head_v4(
                &mut fragment[l3..],
                chunk.len(),
                place,
                identification as u16,
            ),
            _ => head_v6(&mut fragment, l3, chunk.len(), place, identification),
        }
        fragment.extend_from_slice(chunk);
        fragment
    };
    Some(chunks.map(fragment).collect())
}

/// `place` is an offset in bytes, whose lowest bit says that more follows.
fn head_v4(header: &mut [u8], bytes: usize, place: u16, identification: u16) {
    let flags = (place & 1) << 13 | place >> 3;
    let length = (header.len() + bytes) as u16;
    put(header, ipv4::TOTAL_LENGTH_AT, length.to_be_bytes());
    put(header, 4, identification.to_be_bytes());
    put(header, 6, flags.to_be_bytes());
    put(header, ipv4::CHECKSUM_AT, [0; 2]);
    let sum = checksum::checksum(header);
    put(header, ipv4::CHECKSUM_AT, sum.to_be_bytes());
}

fn head_v6(frame: &mut Vec<u8>, l3: usize, bytes: usize, place: u16, identification: u32) {
    let length = (ipv6::FRAGMENT_HEADER_BYTES + bytes) as u16;
    let next = frame[l3 + ipv6::NEXT_HEADER_AT];
    put(frame, l3 + ipv6::PAYLOAD_LENGTH_AT, length.to_be_bytes());
    put(frame, l3 + ipv6::NEXT_HEADER_AT, [protocol::FRAGMENT]);
    frame.extend_from_slice(&[next, 0]);
    frame.extend_from_slice(&place.to_be_bytes());
    frame.extend_from_slice(&identification.to_be_bytes());
}

#[cfg(test)]
mod tests;
