//! Cutting a packet on its way, as a router does where the next link is too short for it.

use crate::bytes::put;
use crate::checksum;
use crate::ipv4::{self, Ipv4View};
use crate::kinds::Network;
use crate::layout::Layout;
use crate::options::{SplitOption, split_option};

/// Room for a link header, with tags and labels, and the longest IPv4 header.
const MAX_HEAD_BYTES: usize = 128;

/// In an option's first byte: fragments have it too.
const COPIED: u8 = 0x80;

const MORE_FRAGMENTS: u16 = 0x2000;

/// A fragment: its headers, link header included, and its data.
#[derive(Copy, Clone, Debug)]
pub struct Piece<'a> {
    head: [u8; MAX_HEAD_BYTES],
    head_bytes: usize,
    data: &'a [u8],
}

impl Piece<'_> {
    /// Bytes of the frame.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it has a header")]
    pub const fn len(&self) -> usize {
        self.head_bytes + self.data.len()
    }

    /// Writes the frame to the start of `out`; returns whether there was room.
    pub fn write(&self, out: &mut [u8]) -> bool {
        let Some((head, rest)) = out.split_at_mut_checked(self.head_bytes) else {
            return false;
        };
        let Some(data) = rest.get_mut(..self.data.len()) else {
            return false;
        };
        head.copy_from_slice(&self.head[..self.head_bytes]);
        data.copy_from_slice(self.data);
        true
    }
}

/// Whether routers may fragment a packet: it is IPv4, and its sender does not forbid it.
fn may_be_cut(frame: &[u8], layout: &Layout) -> bool {
    let l3 = usize::from(layout.l3);
    let packet = frame.get(l3..layout.end as usize).unwrap_or(&[]);
    layout.network == Network::V4
        && Ipv4View::new_quoted(packet).is_ok_and(|view| !view.dont_fragment())
}

/// The fragments of a packet for a link that carries IP packets of at most `mtu` bytes, in order
/// (RFC 791 §3.2). A packet may be a fragment itself. `None` for one that may not be cut: it is no
/// IPv4, its sender forbids it, not even 8 bytes of data would fit, or its data ends where no datagram
/// does.
#[must_use]
pub fn pieces<'a>(frame: &'a [u8], layout: &Layout, mtu: usize) -> Option<Pieces<'a>> {
    if !may_be_cut(frame, layout) {
        return None;
    }
    let (l3, end) = (usize::from(layout.l3), layout.end as usize);
    let header_bytes = Ipv4View::new_quoted(frame.get(l3..end)?)
        .ok()?
        .header_bytes();
    let (head, data) = frame.get(..end)?.split_at_checked(l3 + header_bytes)?;
    let room = mtu.checked_sub(header_bytes)? / 8 * 8;
    if room == 0 || head.len() > MAX_HEAD_BYTES {
        return None;
    }
    let place = u16::from_be_bytes(*head.get(l3 + ipv4::FRAGMENT_AT..)?.first_chunk()?);
    let offset = usize::from(place & ipv4::OFFSET_MASK) * 8;
    if offset + data.len() > usize::from(u16::MAX) {
        return None;
    }
    Some(Pieces {
        first_head: head,
        l3,
        data,
        room,
        place,
        done: 0,
    })
}

/// The fragments of a packet; see [`pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    /// The packet's headers.
    first_head: &'a [u8],
    l3: usize,
    data: &'a [u8],
    /// Bytes of data in each but the last.
    room: usize,
    /// Flags and fragment offset of the packet.
    place: u16,
    /// Bytes of data that are done.
    done: usize,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let rest = self.data.get(self.done..).filter(|rest| !rest.is_empty())?;
        let data = &rest[..rest.len().min(self.room)];
        let (mut head, head_bytes) = match self.done {
            0 => copied(self.first_head),
            _ => later_head(self.first_head, self.l3),
        };
        let more = match data.len() < rest.len() {
            true => MORE_FRAGMENTS,
            false => 0,
        };
        let place = self.place.wrapping_add((self.done / 8) as u16) | more;
        finish(&mut head[self.l3..head_bytes], data.len(), place);
        self.done += data.len();
        Some(Piece {
            head,
            head_bytes,
            data,
        })
    }
}

fn copied(head: &[u8]) -> ([u8; MAX_HEAD_BYTES], usize) {
    let mut copy = [0; MAX_HEAD_BYTES];
    copy[..head.len()].copy_from_slice(head);
    (copy, head.len())
}

/// The headers of a later fragment: with those options alone that say so.
fn later_head(first: &[u8], l3: usize) -> ([u8; MAX_HEAD_BYTES], usize) {
    let fixed = l3 + ipv4::HEADER_BYTES;
    let (mut head, _) = copied(&first[..fixed]);
    let (mut bytes, mut options) = (fixed, &first[fixed..]);
    while let SplitOption::One { kind, data, rest } = split_option(options) {
        let option = &options[..options.len() - rest.len()];
        if kind & COPIED != 0 && !data.is_empty() {
            head[bytes..bytes + option.len()].copy_from_slice(option);
            bytes += option.len();
        }
        options = rest;
    }
    let padded = l3 + (bytes - l3).next_multiple_of(4);
    head[l3] = 0x40 | ((padded - l3) / 4) as u8;
    (head, padded)
}

fn finish(header: &mut [u8], data_bytes: usize, place: u16) {
    let length = (header.len() + data_bytes) as u16;
    put(header, ipv4::TOTAL_LENGTH_AT, length.to_be_bytes());
    put(header, ipv4::FRAGMENT_AT, place.to_be_bytes());
    put(header, ipv4::CHECKSUM_AT, [0; 2]);
    let sum = checksum::checksum(header);
    put(header, ipv4::CHECKSUM_AT, sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
