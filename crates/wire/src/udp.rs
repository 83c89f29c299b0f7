//! The UDP header.

use crate::build_error::BuildError;
use crate::bytes::header_mut;
use crate::malformed::Malformed;

/// Ports, length and checksum.
pub const HEADER_BYTES: usize = 8;
/// Offset of the length within the header.
pub const LENGTH_AT: usize = 4;
/// Offset of the checksum within the header.
pub const CHECKSUM_AT: usize = 6;

/// A UDP header that is there, with its datagram.
#[derive(Copy, Clone, Debug)]
pub struct UdpView<'a> {
    header: &'a [u8; HEADER_BYTES],
    rest: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Checks the header of a whole datagram; `bytes` is the IP payload.
    ///
    /// # Errors
    /// [`Malformed::TruncatedUdp`], or [`Malformed::UdpLength`] below 8 or beyond `bytes`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let view = Self::new_partial(bytes)?;
        if usize::from(view.length()) > bytes.len() {
            return Err(Malformed::UdpLength);
        }
        Ok(view)
    }

    /// Checks the header of a first fragment or a quoted packet, whose data may be cut short.
    ///
    /// # Errors
    /// [`Malformed::TruncatedUdp`], or [`Malformed::UdpLength`] below 8.
    pub fn new_partial(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = bytes.split_first_chunk().ok_or(Malformed::TruncatedUdp)?;
        let view = Self { header, rest };
        if usize::from(view.length()) < HEADER_BYTES {
            return Err(Malformed::UdpLength);
        }
        Ok(view)
    }

    /// Source port.
    #[must_use]
    pub const fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }

    /// Destination port.
    #[must_use]
    pub const fn destination_port(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// Header and payload in bytes.
    #[must_use]
    pub const fn length(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    /// The checksum; zero means there is none.
    #[must_use]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    /// The payload as far as the length says and bytes are there.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        let length = usize::from(self.length()).saturating_sub(HEADER_BYTES);
        self.rest.get(..length).unwrap_or(self.rest)
    }
}

/// A checked UDP header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct UdpRepr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Payload in bytes, at most 65527.
    pub payload_bytes: u16,
}

impl UdpRepr {
    /// Reads every field of a view but the checksum.
    #[must_use]
    pub const fn parse(view: &UdpView<'_>) -> Self {
        Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload_bytes: view.length().saturating_sub(HEADER_BYTES as u16),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the header, with no checksum, to the start of `out`. The checksum is filled in by
    /// [`refresh_checksums`](crate::rewrite::refresh_checksums) when the payload is there.
    ///
    /// # Errors
    /// [`BuildError::BufferTooSmall`]; [`BuildError::TooLong`] if the length does not fit.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), BuildError> {
        let length = self
            .payload_bytes
            .checked_add(HEADER_BYTES as u16)
            .ok_or(BuildError::TooLong)?;
        let header: &mut [u8; HEADER_BYTES] = header_mut(out)?;
        header[..2].copy_from_slice(&self.source_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6..].fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPR: UdpRepr = UdpRepr {
        source_port: 53,
        destination_port: 40_000,
        payload_bytes: 2,
    };

    #[test]
    fn round_trip() {
        let mut out = [0xee; 12];
        REPR.emit(&mut out).unwrap();
        assert_eq!(out[..8], [0, 53, 0x9c, 0x40, 0, 10, 0, 0]);
        let view = UdpView::new(&out).unwrap();
        assert_eq!(UdpRepr::parse(&view), REPR);
        assert_eq!(view.payload(), &[0xee, 0xee]);
        assert_eq!(view.checksum(), 0);
    }

    #[test]
    fn refuses_wrong_lengths() {
        let mut out = [0; 10];
        REPR.emit(&mut out).unwrap();
        assert_eq!(UdpView::new(&out[..7]).err(), Some(Malformed::TruncatedUdp));
        assert_eq!(UdpView::new(&out[..9]).err(), Some(Malformed::UdpLength));
        assert_eq!(UdpView::new_partial(&out[..9]).unwrap().payload().len(), 1);
        out[5] = 7;
        assert_eq!(UdpView::new(&out).err(), Some(Malformed::UdpLength));
        let long = UdpRepr {
            payload_bytes: 65_528,
            ..REPR
        };
        assert_eq!(long.emit(&mut out), Err(BuildError::TooLong));
    }
}
