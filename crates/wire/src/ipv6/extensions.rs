use super::{HEADER_BYTES, Ipv6View};
use crate::address::Address;
use crate::build_error::BuildError;
use crate::bytes::{array_at, header_mut, u8_at, u16_at};
use crate::kinds::Fragment;
use crate::malformed::Malformed;
use crate::protocol;

/// The fragment extension header.
pub const FRAGMENT_HEADER_BYTES: usize = 8;
/// The most extension headers that are walked in one packet.
pub const MAX_EXTENSIONS: usize = 8;

/// Where a walk over extension headers ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Extensions {
    /// Number of the first header that is no extension; after a later fragment, of whatever its
    /// datagram goes on with.
    pub protocol: u8,
    /// Bytes of all extension headers.
    pub length: usize,
    /// Which part of a datagram this is.
    pub fragment: Fragment,
    /// What ties the datagram's fragments together, if there is a fragment header.
    pub identification: Option<u32>,
    /// Offset of a routing header from the end of the IPv6 header.
    pub routing: Option<usize>,
}

impl Extensions {
    /// Walks extension headers from the start of `bytes`: hop-by-hop (only first), routing,
    /// fragment (at most one), destination options, authentication and the rarer ones
    /// (see [`is_extension`]), at most [`MAX_EXTENSIONS`].
    ///
    /// # Errors
    /// [`Malformed::Ipv6Extensions`] if there are too many, one is out of place or one ends beyond
    /// `bytes`; [`Malformed::FragmentBounds`].
    #[inline]
    pub fn walk(first: u8, bytes: &[u8]) -> Result<Self, Malformed> {
        let start = Self {
            protocol: first,
            length: 0,
            fragment: Fragment::Whole,
            identification: None,
            routing: None,
        };
        if !is_extension(first) {
            return Ok(start);
        }
        start.walk_all(bytes)
    }

    fn walk_all(mut self, bytes: &[u8]) -> Result<Self, Malformed> {
        for _ in 0..MAX_EXTENSIONS {
            match self.protocol {
                protocol::HOP_BY_HOP if self.length > 0 => return Err(Malformed::Ipv6Extensions),
                protocol::FRAGMENT if self.identification.is_some() => {
                    return Err(Malformed::Ipv6Extensions);
                }
                protocol::FRAGMENT => {
                    let header = fragment_at(bytes, self.length)?;
                    self.fragment = Fragment::of(header.offset_bytes, header.more);
                    self.identification = Some(header.identification);
                }
                protocol::ROUTING => self.routing = Some(self.length),
                _ => {}
            }
            self.step(bytes)?;
            if self.fragment == Fragment::Later || !is_extension(self.protocol) {
                return Ok(self);
            }
        }
        Err(Malformed::Ipv6Extensions)
    }

    fn step(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let head: [u8; 2] = array_at(bytes, self.length).ok_or(Malformed::Ipv6Extensions)?;
        let units = usize::from(head[1]);
        self.length += match self.protocol {
            protocol::FRAGMENT => FRAGMENT_HEADER_BYTES,
            // Its fixed part alone is 12 bytes.
            protocol::AUTHENTICATION if units == 0 => return Err(Malformed::Ipv6Extensions),
            protocol::AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        self.protocol = head[0];
        if self.length > bytes.len() {
            Err(Malformed::Ipv6Extensions)
        } else {
            Ok(())
        }
    }
}

/// Whether this is one of the extension headers that are walked: all that IANA's registry has
/// (RFC 7045 §4), but for ESP, behind which nothing can be read.
#[must_use]
#[inline(always)]
pub const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION_OPTIONS
            | protocol::MOBILITY
            | protocol::HOST_IDENTITY
            | protocol::SHIM6
            | protocol::EXPERIMENT
            | protocol::OTHER_EXPERIMENT
    )
}

/// The fragment header among extension headers, and where it begins.
pub(super) fn fragment_header(first: u8, bytes: &[u8]) -> Option<(usize, FragmentRepr)> {
    let mut walk = Extensions {
        protocol: first,
        length: 0,
        fragment: Fragment::Whole,
        identification: None,
        routing: None,
    };
    for _ in 0..MAX_EXTENSIONS {
        match walk.protocol {
            protocol::FRAGMENT => {
                return Some((walk.length, fragment_at(bytes, walk.length).ok()?));
            }
            other if is_extension(other) => walk.step(bytes).ok()?,
            _ => return None,
        }
    }
    None
}

fn fragment_at(bytes: &[u8], at: usize) -> Result<FragmentRepr, Malformed> {
    let header: [u8; FRAGMENT_HEADER_BYTES] =
        array_at(bytes, at).ok_or(Malformed::Ipv6Extensions)?;
    let fragment = FragmentRepr::parse(&header);
    let data = bytes.len() - at - FRAGMENT_HEADER_BYTES;
    if fragment.offset_bytes as usize + data > usize::from(u16::MAX) {
        return Err(Malformed::FragmentBounds);
    }
    Ok(fragment)
}

/// The destination that the pseudo-header counts: the last address of a routing header that still
/// has segments left (RFC 8200 §8.1), otherwise `None`. `packet` starts at the IPv6 header.
#[must_use]
pub(crate) fn routed_destination(packet: &[u8]) -> Option<Address> {
    let view = Ipv6View::new_quoted(packet).ok()?;
    let at = HEADER_BYTES + view.extensions().ok()?.routing?;
    let units = usize::from(u8_at(packet, at + 1));
    let (kind, segments_left) = (u8_at(packet, at + 2), u8_at(packet, at + 3));
    if segments_left == 0 || units < 2 {
        return None;
    }
    let address_at = match kind {
        0 | 2 => at + (units + 1) * 8 - 16,
        4 => at + 8,
        _ => return None,
    };
    array_at(packet, address_at).map(Address::from_v6)
}

/// Whether the headers of a packet have a routing header of type 0 with segments left (RFC 5095).
pub(crate) fn has_segments_left(headers: &[u8]) -> bool {
    let routing = || {
        let view = Ipv6View::new_quoted(headers).ok()?;
        view.extensions().ok()?.routing
    };
    routing().is_some_and(|at| {
        let [kind, segments_left] = [2, 3].map(|byte| u8_at(headers, HEADER_BYTES + at + byte));
        kind == 0 && segments_left > 0
    })
}

/// A checked fragment header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FragmentRepr {
    /// What the fragmented part starts with.
    pub next_header: u8,
    /// Where this fragment's data belongs, in bytes; a multiple of 8, at most 65528.
    pub offset_bytes: u32,
    /// Whether another fragment follows.
    pub more: bool,
    /// What ties fragments of one datagram together.
    pub identification: u32,
}

impl FragmentRepr {
    /// Reads the header.
    #[must_use]
    pub fn parse(header: &[u8; FRAGMENT_HEADER_BYTES]) -> Self {
        let word = u16_at(header, 2);
        Self {
            next_header: header[0],
            offset_bytes: u32::from(word & 0xfff8),
            more: word & 1 != 0,
            identification: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        }
    }

    /// Writes the header to the start of `out`.
    ///
    /// # Errors
    /// [`BuildError::BufferTooSmall`], [`BuildError::FieldRange`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), BuildError> {
        if !self.offset_bytes.is_multiple_of(8) || self.offset_bytes > 65_528 {
            return Err(BuildError::FieldRange);
        }
        let header: &mut [u8; FRAGMENT_HEADER_BYTES] = header_mut(out)?;
        let word = self.offset_bytes as u16 | u16::from(self.more);
        header[0] = self.next_header;
        header[1] = 0;
        header[2..4].copy_from_slice(&word.to_be_bytes());
        header[4..].copy_from_slice(&self.identification.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv6::Ipv6Repr;

    #[test]
    fn fragment_header_round_trip() {
        let repr = FragmentRepr {
            next_header: 6,
            offset_bytes: 1448,
            more: true,
            identification: 0xdead_beef,
        };
        let mut out = [0xff; 8];
        repr.emit(&mut out).unwrap();
        assert_eq!(FragmentRepr::parse(&out), repr);
        let odd = FragmentRepr {
            offset_bytes: 1449,
            ..repr
        };
        assert_eq!(odd.emit(&mut out), Err(BuildError::FieldRange));
    }

    #[test]
    fn walks_every_extension() {
        let mut bytes = Vec::new();
        bytes.extend([protocol::DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0]);
        bytes.extend([protocol::ROUTING, 0, 1, 4, 0, 0, 0, 0]);
        bytes.extend([protocol::FRAGMENT, 0, 9, 0, 0, 0, 0, 0]);
        bytes.extend([protocol::AUTHENTICATION, 0, 0, 1, 0, 0, 0, 7]);
        bytes.extend([protocol::TCP, 2]);
        bytes.extend([0; 14]);
        let walked = Extensions::walk(protocol::HOP_BY_HOP, &bytes).unwrap();
        let expected = Extensions {
            protocol: protocol::TCP,
            length: 48,
            fragment: Fragment::First,
            identification: Some(7),
            routing: Some(16),
        };
        assert_eq!(walked, expected);
        for end in 0..48 {
            let cut = Extensions::walk(protocol::HOP_BY_HOP, &bytes[..end]);
            assert_eq!(cut, Err(Malformed::Ipv6Extensions), "{end}");
        }
    }

    #[test]
    fn a_later_fragment_ends_the_walk() {
        let bytes = [
            protocol::DESTINATION_OPTIONS,
            0,
            0,
            8,
            0,
            0,
            0,
            1,
            0xff,
            0xff,
        ];
        let walked = Extensions::walk(protocol::FRAGMENT, &bytes).unwrap();
        assert_eq!((walked.length, walked.fragment), (8, Fragment::Later));
        assert_eq!(walked.identification, Some(1));
        assert_eq!(walked.protocol, protocol::DESTINATION_OPTIONS);
    }

    #[test]
    fn limits_of_the_walk() {
        let options = |count: usize, last: u8| {
            let mut bytes = [protocol::DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0].repeat(count);
            bytes[count * 8 - 8] = last;
            Extensions::walk(protocol::DESTINATION_OPTIONS, &bytes)
        };
        assert_eq!(options(MAX_EXTENSIONS, 17).unwrap().length, 64);
        assert_eq!(
            options(MAX_EXTENSIONS + 1, 17),
            Err(Malformed::Ipv6Extensions)
        );
        assert_eq!(
            options(2, protocol::HOP_BY_HOP),
            Err(Malformed::Ipv6Extensions)
        );
        let twice = [
            protocol::FRAGMENT,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            17,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        assert_eq!(
            Extensions::walk(protocol::FRAGMENT, &twice),
            Err(Malformed::Ipv6Extensions)
        );
        let far = [17, 0, 0xff, 0xf8, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(
            Extensions::walk(protocol::FRAGMENT, &far),
            Err(Malformed::FragmentBounds)
        );
        assert!(Extensions::walk(protocol::FRAGMENT, &far[..15]).is_ok());
    }

    #[test]
    fn the_routed_destination_is_the_last_stop() {
        let (near, last) = ([0x11; 16], [0x22; 16]);
        let packet = |kind: u8, segments_left: u8, segments: [[u8; 16]; 2]| {
            let mut bytes = vec![0; 40];
            let head = Ipv6Repr {
                source: Address(1),
                destination: Address(2),
                next_header: protocol::ROUTING,
                hop_limit: 64,
                traffic_class: 0,
                flow_label: 0,
                payload_bytes: 40,
            };
            head.emit(&mut bytes).unwrap();
            bytes.extend([17, 4, kind, segments_left, 0, 0, 0, 0]);
            bytes.extend(segments.concat());
            bytes
        };
        let expected = Some(Address::from_v6(last));
        assert_eq!(routed_destination(&packet(0, 1, [near, last])), expected);
        assert_eq!(routed_destination(&packet(4, 1, [last, near])), expected);
        assert_eq!(routed_destination(&packet(4, 0, [last, near])), None);
        assert_eq!(routed_destination(&packet(9, 1, [near, last])), None);
    }
}
