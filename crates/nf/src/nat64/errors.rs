//! ICMP errors, with the packets that they quote.

use super::datagram::Datagram;
use super::ends::{Ends, Untranslatable};
use super::icmp::{Message, error_to_v4, error_to_v6};
use twinpath_core::wire::checksum::{finish, pseudo_header, sum};
use twinpath_core::wire::{icmp, ipv4, ipv6, protocol};

/// The longest error of each version (RFC 1812 §4.3.2.3, RFC 4443 §2.4 c).
const LONGEST: [usize; 2] = [576, 1280];

/// The ends of an error and of the packet that it quotes, before and after.
#[derive(Copy, Clone, Debug)]
pub(super) struct ErrorEnds {
    pub new: Ends,
    pub quoted: Ends,
    pub new_quoted: Ends,
}

/// Writes an error as one of the other version. Returns its bytes.
pub(super) fn translate(
    error: &Datagram<'_>,
    ends: &ErrorEnds,
    out: &mut [u8],
) -> Result<usize, Untranslatable> {
    let to_v4 = ends.new.source.address.is_v4();
    let (header, rest) = error
        .upper
        .split_first_chunk::<{ icmp::HEADER_BYTES }>()
        .ok_or(Untranslatable::Message)?;
    let message = Message {
        kind: header[0],
        code: header[1],
        rest: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
    };
    let (new, ip_bytes, longest) = match to_v4 {
        true => (error_to_v4(message), ipv4::HEADER_BYTES, LONGEST[0]),
        false => (error_to_v6(message), ipv6::HEADER_BYTES, LONGEST[1]),
    };
    let new = new.ok_or(Untranslatable::Message)?;
    let place = out
        .get_mut(ip_bytes..longest)
        .ok_or(Untranslatable::TooLong)?;
    let (head, body) = place.split_at_mut(icmp::HEADER_BYTES);
    let body_bytes = quote(rest, to_v4, ends, body)?;
    head[..4].copy_from_slice(&[new.kind, new.code, 0, 0]);
    head[4..].copy_from_slice(&new.rest.to_be_bytes());
    let message_bytes = icmp::HEADER_BYTES + body_bytes;
    let message = place
        .get_mut(..message_bytes)
        .ok_or(Untranslatable::TooLong)?;
    let pseudo = match to_v4 {
        true => 0,
        false => {
            let (source, destination) = (ends.new.source.address, ends.new.destination.address);
            pseudo_header(source, destination, protocol::ICMP6, message_bytes as u32)
        }
    };
    let checksum = finish(sum(message) + pseudo);
    message[icmp::CHECKSUM_AT..icmp::CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
    error.write_header(to_v4, ends.new, message_bytes, out)
}

/// Writes the quoted packet, as much of it as has room.
fn quote(
    quoted: &[u8],
    to_v4: bool,
    ends: &ErrorEnds,
    out: &mut [u8],
) -> Result<usize, Untranslatable> {
    let mut datagram = match to_v4 {
        true => Datagram::of_v6(quoted)?,
        false => Datagram::of_v4(quoted)?,
    };
    // A header of IPv6 and one of a fragment.
    let room = out
        .len()
        .saturating_sub(ipv6::HEADER_BYTES + ipv6::FRAGMENT_HEADER_BYTES);
    datagram.upper = &datagram.upper[..datagram.upper.len().min(room)];
    match to_v4 {
        true => datagram.write_v4(ends.quoted, ends.new_quoted, out),
        false => datagram.write_v6(ends.quoted, ends.new_quoted, out),
    }
}
