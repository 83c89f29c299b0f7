//! The IPv6 header and the extension headers that may stand before the transport header.

use crate::address::Address;
use crate::build_error::BuildError;
use crate::bytes::{array_at, header_mut};
use crate::malformed::Malformed;

mod extensions;

pub use extensions::{
    Extensions, FRAGMENT_HEADER_BYTES, FragmentRepr, MAX_EXTENSIONS, is_extension,
};
pub(crate) use extensions::{has_segments_left, routed_destination};

/// The header without extension headers.
pub const HEADER_BYTES: usize = 40;
/// Offset of the payload length within the header.
pub const PAYLOAD_LENGTH_AT: usize = 4;
/// Offset of the next header's number within the header.
pub const NEXT_HEADER_AT: usize = 6;
/// Offset of the hop limit within the header.
pub const HOP_LIMIT_AT: usize = 7;
/// Offset of the source address within the header.
pub const SOURCE_AT: usize = 8;
/// Offset of the destination address within the header.
pub const DESTINATION_AT: usize = 24;

/// An IPv6 header that is there.
#[derive(Copy, Clone, Debug)]
pub struct Ipv6View<'a> {
    header: &'a [u8; HEADER_BYTES],
    rest: &'a [u8],
}

impl<'a> Ipv6View<'a> {
    /// Checks version, addresses and length of a packet that must be there as a whole.
    ///
    /// # Errors
    /// As [`new_quoted`](Self::new_quoted), and [`Malformed::Ipv6PayloadLength`] if the payload is
    /// longer than `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let view = Self::new_quoted(bytes)?;
        if usize::from(view.payload_length()) > view.rest.len() {
            return Err(Malformed::Ipv6PayloadLength);
        }
        Ok(view)
    }

    /// Checks version and addresses only: the rest of a packet quoted in an ICMP error may be
    /// missing.
    ///
    /// # Errors
    /// [`Malformed::TruncatedIpv6`], [`Malformed::Ipv6Version`],
    /// [`Malformed::Ipv6MappedAddress`].
    #[inline]
    pub fn new_quoted(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = bytes.split_first_chunk().ok_or(Malformed::TruncatedIpv6)?;
        let view = Self { header, rest };
        if header[0] >> 4 != 6 {
            return Err(Malformed::Ipv6Version);
        }
        if view.source().is_v4() || view.destination().is_v4() {
            return Err(Malformed::Ipv6MappedAddress);
        }
        Ok(view)
    }

    /// Traffic class: code point and congestion notification.
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        self.header[0] << 4 | self.header[1] >> 4
    }

    /// Flow label, 20 bits.
    #[must_use]
    pub const fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.header[1] & 0x0f, self.header[2], self.header[3]])
    }

    /// Extension headers and payload in bytes.
    #[must_use]
    pub const fn payload_length(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    /// What follows this header.
    #[must_use]
    pub const fn next_header(&self) -> u8 {
        self.header[6]
    }

    /// Hop limit.
    #[must_use]
    pub const fn hop_limit(&self) -> u8 {
        self.header[7]
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Address {
        Address::from_v6(array_at(self.header, SOURCE_AT).unwrap_or_default())
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Address {
        Address::from_v6(array_at(self.header, DESTINATION_AT).unwrap_or_default())
    }

    /// Extension headers and payload, as far as the payload length says and bytes are there.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
            .get(..usize::from(self.payload_length()))
            .unwrap_or(self.rest)
    }

    /// The fragment header, with its offset from the start of this one; `None` if there is none
    /// that can be read.
    #[must_use]
    pub fn fragment_header(&self) -> Option<(usize, FragmentRepr)> {
        let (at, header) = extensions::fragment_header(self.next_header(), self.payload())?;
        Some((HEADER_BYTES + at, header))
    }

    /// Walks the extension headers.
    ///
    /// # Errors
    /// [`Malformed::Ipv6Extensions`], [`Malformed::FragmentBounds`].
    #[inline]
    pub fn extensions(&self) -> Result<Extensions, Malformed> {
        Extensions::walk(self.next_header(), self.payload())
    }
}

/// A checked IPv6 header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// Source address, IPv6.
    pub source: Address,
    /// Destination address, IPv6.
    pub destination: Address,
    /// What follows this header.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, below 2^20.
    pub flow_label: u32,
    /// Extension headers and payload in bytes.
    pub payload_bytes: u16,
}

impl Ipv6Repr {
    /// Reads every field of a view.
    #[must_use]
    pub fn parse(view: &Ipv6View<'_>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            payload_bytes: view.payload_length(),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the header to the start of `out`.
    ///
    /// # Errors
    /// [`BuildError::BufferTooSmall`], [`BuildError::FieldRange`], [`BuildError::Family`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), BuildError> {
        if self.source.is_v4() || self.destination.is_v4() {
            return Err(BuildError::Family);
        }
        if self.flow_label >> 20 != 0 {
            return Err(BuildError::FieldRange);
        }
        let header: &mut [u8; HEADER_BYTES] = header_mut(out)?;
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&self.payload_bytes.to_be_bytes());
        header[6] = self.next_header;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&self.source.octets16());
        header[24..].copy_from_slice(&self.destination.octets16());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repr() -> Ipv6Repr {
        Ipv6Repr {
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8::2".parse().unwrap(),
            next_header: 17,
            hop_limit: 63,
            traffic_class: 0xb8,
            flow_label: 0xabcde,
            payload_bytes: 2,
        }
    }

    #[test]
    fn round_trip() {
        let mut out = [0xee; 44];
        repr().emit(&mut out).unwrap();
        let view = Ipv6View::new(&out).unwrap();
        assert_eq!(Ipv6Repr::parse(&view), repr());
        assert_eq!(view.payload(), &[0xee, 0xee]);
        assert_eq!(out[..4], [0x6b, 0x8a, 0xbc, 0xde]);
    }

    #[test]
    fn each_check() {
        let mut good = [0; 42];
        repr().emit(&mut good).unwrap();
        assert_eq!(
            Ipv6View::new(&good[..39]).err(),
            Some(Malformed::TruncatedIpv6)
        );
        assert_eq!(
            Ipv6View::new(&good[..41]).err(),
            Some(Malformed::Ipv6PayloadLength)
        );
        let mut other = good;
        other[0] = 0x45;
        assert_eq!(Ipv6View::new(&other).err(), Some(Malformed::Ipv6Version));
        good[24..40].copy_from_slice(&Address::from_v4([1, 2, 3, 4]).octets16());
        assert_eq!(
            Ipv6View::new(&good).err(),
            Some(Malformed::Ipv6MappedAddress)
        );
    }

    #[test]
    fn refuses_to_emit_nonsense() {
        let mut out = [0; 40];
        let v4 = Address::from_v4([1, 2, 3, 4]);
        assert_eq!(
            Ipv6Repr {
                source: v4,
                ..repr()
            }
            .emit(&mut out),
            Err(BuildError::Family)
        );
        let wide = Ipv6Repr {
            flow_label: 1 << 20,
            ..repr()
        };
        assert_eq!(wide.emit(&mut out), Err(BuildError::FieldRange));
        assert_eq!(repr().emit(&mut out[..39]), Err(BuildError::BufferTooSmall));
    }
}
