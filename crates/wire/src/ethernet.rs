//! The Ethernet II header.

use crate::address::MacAddress;
use crate::build_error::BuildError;
use crate::bytes::header_mut;
use crate::malformed::Malformed;

/// Destination, source and EtherType.
pub const HEADER_BYTES: usize = 14;
/// Offset of the EtherType.
pub const ETHER_TYPE_AT: usize = 12;
/// The shortest frame on a wire, without its check sequence.
pub const MIN_FRAME_BYTES: usize = 60;

/// An Ethernet header that is there.
#[derive(Copy, Clone, Debug)]
pub struct EthernetView<'a> {
    header: &'a [u8; HEADER_BYTES],
    payload: &'a [u8],
}

impl<'a> EthernetView<'a> {
    /// Checks that the header is complete.
    ///
    /// # Errors
    /// [`Malformed::TruncatedEthernet`].
    pub fn new(frame: &'a [u8]) -> Result<Self, Malformed> {
        let (header, payload) = frame
            .split_first_chunk()
            .ok_or(Malformed::TruncatedEthernet)?;
        Ok(Self { header, payload })
    }

    /// Where the frame goes.
    #[must_use]
    pub const fn destination(&self) -> MacAddress {
        let [a, b, c, d, e, f, ..] = *self.header;
        MacAddress([a, b, c, d, e, f])
    }

    /// Where the frame comes from.
    #[must_use]
    pub const fn source(&self) -> MacAddress {
        let [.., a, b, c, d, e, f, _, _] = *self.header;
        MacAddress([a, b, c, d, e, f])
    }

    /// What follows; below 0x600 it is a length (IEEE 802.3).
    #[must_use]
    pub const fn ether_type(&self) -> u16 {
        u16::from_be_bytes([self.header[12], self.header[13]])
    }

    /// Everything after the header.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Says where a frame goes. Returns false if it has no room for that.
#[inline(always)]
pub fn set_destination(frame: &mut [u8], mac: MacAddress) -> bool {
    let place = frame.first_chunk_mut::<6>();
    place.map(|place| *place = mac.0).is_some()
}

/// Says where a frame comes from. Returns false if it has no room for that.
#[inline(always)]
pub fn set_source(frame: &mut [u8], mac: MacAddress) -> bool {
    let place = frame.get_mut(6..12);
    place.map(|place| place.copy_from_slice(&mac.0)).is_some()
}

/// A checked Ethernet header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EthernetRepr {
    /// Where the frame goes.
    pub destination: MacAddress,
    /// Where the frame comes from.
    pub source: MacAddress,
    /// What follows.
    pub ether_type: u16,
}

impl EthernetRepr {
    /// Reads every field of a view.
    #[must_use]
    pub const fn parse(view: &EthernetView<'_>) -> Self {
        Self {
            destination: view.destination(),
            source: view.source(),
            ether_type: view.ether_type(),
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
    /// [`BuildError::BufferTooSmall`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), BuildError> {
        let header: &mut [u8; HEADER_BYTES] = header_mut(out)?;
        header[..6].copy_from_slice(&self.destination.0);
        header[6..12].copy_from_slice(&self.source.0);
        header[12..].copy_from_slice(&self.ether_type.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let repr = EthernetRepr {
            destination: MacAddress([1, 2, 3, 4, 5, 6]),
            source: MacAddress([7, 8, 9, 10, 11, 12]),
            ether_type: 0x86dd,
        };
        let mut out = [0xee; 16];
        repr.emit(&mut out).unwrap();
        let view = EthernetView::new(&out).unwrap();
        assert_eq!(EthernetRepr::parse(&view), repr);
        assert_eq!(view.payload(), &[0xee, 0xee]);
        assert_eq!(out[12..14], [0x86, 0xdd]);
    }

    #[test]
    fn too_short() {
        assert_eq!(
            EthernetView::new(&[0; 13]).err(),
            Some(Malformed::TruncatedEthernet)
        );
        let repr = EthernetRepr {
            destination: MacAddress::ZERO,
            source: MacAddress::ZERO,
            ether_type: 0,
        };
        assert_eq!(repr.emit(&mut [0; 13]), Err(BuildError::BufferTooSmall));
    }
}
