//! The IPv4 header with its options.

use crate::address::Address;
use crate::build_error::BuildError;
use crate::bytes::header_mut;
use crate::checksum;
use crate::kinds::Fragment;
use crate::malformed::Malformed;
use crate::options::{OptionBytes, SplitOption, split_option};

/// The header without options.
pub const HEADER_BYTES: usize = 20;
/// Offset of the total length within the header.
pub const TOTAL_LENGTH_AT: usize = 2;
/// Offset of the time to live within the header.
pub const TTL_AT: usize = 8;
/// Offset of the identification within the header.
pub const IDENTIFICATION_AT: usize = 4;
/// Offset of flags and fragment offset within the header.
pub const FRAGMENT_AT: usize = 6;
/// Offset of the protocol within the header.
pub const PROTOCOL_AT: usize = 9;
/// Offset of the header checksum within the header.
pub const CHECKSUM_AT: usize = 10;
/// Offset of the source address within the header.
pub const SOURCE_AT: usize = 12;
/// Offset of the destination address within the header.
pub const DESTINATION_AT: usize = 16;

/// In the word at [`FRAGMENT_AT`]: no router may fragment the packet.
pub const DONT_FRAGMENT: u16 = 0x4000;
pub(crate) const MORE_FRAGMENTS: u16 = 0x2000;
pub(crate) const OFFSET_MASK: u16 = 0x1fff;

/// An IPv4 header that is there, options included.
#[derive(Copy, Clone, Debug)]
pub struct Ipv4View<'a> {
    header: &'a [u8; HEADER_BYTES],
    bytes: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// Checks version and lengths of a packet that must be there as a whole.
    ///
    /// # Errors
    /// As [`new_quoted`](Self::new_quoted), and [`Malformed::Ipv4TotalLength`] if the total length
    /// is longer than `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let view = Self::new_quoted(bytes)?;
        if usize::from(view.total_length()) > bytes.len() {
            return Err(Malformed::Ipv4TotalLength);
        }
        Ok(view)
    }

    /// Checks version and header length only: the rest of a packet quoted in an ICMP error may be
    /// missing.
    ///
    /// # Errors
    /// [`Malformed::TruncatedIpv4`], [`Malformed::Ipv4Version`], [`Malformed::Ipv4HeaderLength`];
    /// [`Malformed::Ipv4TotalLength`] if the total length is shorter than the header.
    #[inline]
    pub fn new_quoted(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.first_chunk().ok_or(Malformed::TruncatedIpv4)?;
        let view = Self { header, bytes };
        if header[0] >> 4 != 4 {
            return Err(Malformed::Ipv4Version);
        }
        if view.header_bytes() < HEADER_BYTES {
            return Err(Malformed::Ipv4HeaderLength);
        }
        if view.header_bytes() > bytes.len() {
            return Err(Malformed::TruncatedIpv4);
        }
        if usize::from(view.total_length()) < view.header_bytes() {
            return Err(Malformed::Ipv4TotalLength);
        }
        Ok(view)
    }

    /// Header and options in bytes, 20 to 60.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        (self.header[0] & 0x0f) as usize * 4
    }

    /// Differentiated services code point, 0 to 63.
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        self.header[1] >> 2
    }

    /// Explicit congestion notification, 0 to 3.
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.header[1] & 3
    }

    /// Header, options and payload in bytes.
    #[must_use]
    pub const fn total_length(&self) -> u16 {
        self.word(2)
    }

    /// What ties fragments of one datagram together.
    #[must_use]
    pub const fn identification(&self) -> u16 {
        self.word(4)
    }

    /// Whether routers may not fragment this packet.
    #[must_use]
    pub const fn dont_fragment(&self) -> bool {
        self.word(6) & DONT_FRAGMENT != 0
    }

    /// Whether another fragment follows.
    #[must_use]
    pub const fn more_fragments(&self) -> bool {
        self.word(6) & MORE_FRAGMENTS != 0
    }

    /// Where this fragment's data belongs in the datagram, in bytes.
    #[must_use]
    pub const fn fragment_offset_bytes(&self) -> u32 {
        (self.word(6) & OFFSET_MASK) as u32 * 8
    }

    /// Which part of a datagram this is.
    #[must_use]
    pub const fn fragment(&self) -> Fragment {
        Fragment::of(self.fragment_offset_bytes(), self.more_fragments())
    }

    /// Time to live.
    #[must_use]
    pub const fn ttl(&self) -> u8 {
        self.header[8]
    }

    /// IP protocol number of the payload.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// The header checksum as sent.
    #[must_use]
    pub const fn checksum(&self) -> u16 {
        self.word(10)
    }

    /// Source address.
    #[must_use]
    pub const fn source(&self) -> Address {
        let [.., a, b, c, d, _, _, _, _] = *self.header;
        Address::from_v4([a, b, c, d])
    }

    /// Destination address.
    #[must_use]
    pub const fn destination(&self) -> Address {
        let [.., a, b, c, d] = *self.header;
        Address::from_v4([a, b, c, d])
    }

    /// The options' bytes, padding included.
    #[must_use]
    pub fn option_bytes(&self) -> &'a [u8] {
        self.bytes
            .get(HEADER_BYTES..self.header_bytes())
            .unwrap_or(&[])
    }

    /// The options one by one.
    #[must_use]
    pub fn options(&self) -> Ipv4Options<'a> {
        Ipv4Options {
            rest: self.option_bytes(),
        }
    }

    /// The payload: as far as the total length says and bytes are there.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        let end = usize::from(self.total_length()).min(self.bytes.len());
        self.bytes.get(self.header_bytes()..end).unwrap_or(&[])
    }

    const fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }
}

/// One IPv4 option.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// Copied flag, class and number.
    pub kind: u8,
    /// What follows kind and length; empty for a no-operation (kind 1).
    pub data: &'a [u8],
}

/// Walks IPv4 options up to the end of the list. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Ipv4Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Ipv4Options<'a> {
    type Item = Result<Ipv4Option<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (item, rest) = match split_option(self.rest) {
            SplitOption::End => (None, &[][..]),
            SplitOption::Malformed => (Some(Err(Malformed::Ipv4Options)), &[][..]),
            SplitOption::One { kind, data, rest } => (Some(Ok(Ipv4Option { kind, data })), rest),
        };
        self.rest = rest;
        item
    }
}

/// Whether the options of a header say by which hosts the packet is to go, loosely or strictly.
pub(crate) fn has_source_route(header: &[u8]) -> bool {
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let rest = header.get(HEADER_BYTES..).unwrap_or(&[]);
    let mut options = Ipv4Options { rest };
    options.any(|option| {
        matches!(
            option,
            Ok(Ipv4Option {
                kind: LOOSE | STRICT,
                ..
            })
        )
    })
}

/// A checked IPv4 header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// Source address, IPv4.
    pub source: Address,
    /// Destination address, IPv4.
    pub destination: Address,
    /// IP protocol number of the payload.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Explicit congestion notification, 0 to 3.
    pub ecn: u8,
    /// What ties fragments of one datagram together.
    pub identification: u16,
    /// Whether routers may not fragment this packet.
    pub dont_fragment: bool,
    /// Whether another fragment follows.
    pub more_fragments: bool,
    /// Where this fragment's data belongs in the datagram, in bytes; a multiple of 8, at most
    /// 65528.
    pub fragment_offset_bytes: u32,
    /// The options.
    pub options: OptionBytes,
    /// The payload in bytes; with the header at most 65535.
    pub payload_bytes: u16,
}

impl Ipv4Repr {
    /// Reads every field of a view but the checksum.
    ///
    /// # Errors
    /// [`Malformed::Ipv4Options`] if the options do not parse.
    pub fn parse(view: &Ipv4View<'_>) -> Result<Self, Malformed> {
        for option in view.options() {
            option?;
        }
        let options = OptionBytes::from_slice(view.option_bytes());
        Ok(Self {
            source: view.source(),
            destination: view.destination(),
            protocol: view.protocol(),
            ttl: view.ttl(),
            dscp: view.dscp(),
            ecn: view.ecn(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset_bytes: view.fragment_offset_bytes(),
            options: options.map_err(|_| Malformed::Ipv4Options)?,
            payload_bytes: view
                .total_length()
                .saturating_sub(view.header_bytes() as u16),
        })
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.options.length()
    }

    /// Writes header and options with a valid header checksum to the start of `out`.
    ///
    /// # Errors
    /// [`BuildError::BufferTooSmall`], [`BuildError::TooLong`], [`BuildError::FieldRange`],
    /// [`BuildError::Family`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), BuildError> {
        let total = self.check()?;
        let length = self.header_bytes();
        let bytes = out.get_mut(..length).ok_or(BuildError::BufferTooSmall)?;
        let header: &mut [u8; HEADER_BYTES] = header_mut(bytes)?;
        header[0] = 0x40 | (length / 4) as u8;
        header[1] = self.dscp << 2 | self.ecn;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[4..6].copy_from_slice(&self.identification.to_be_bytes());
        header[6..8].copy_from_slice(&self.fragment_word().to_be_bytes());
        header[8] = self.ttl;
        header[9] = self.protocol;
        header[10..12].fill(0);
        header[12..16].copy_from_slice(&self.source.octets4());
        header[16..].copy_from_slice(&self.destination.octets4());
        bytes[HEADER_BYTES..].copy_from_slice(self.options.as_slice());
        let checksum = checksum::checksum(bytes);
        crate::bytes::put(bytes, CHECKSUM_AT, checksum.to_be_bytes());
        Ok(())
    }

    fn check(&self) -> Result<u16, BuildError> {
        if !self.source.is_v4() || !self.destination.is_v4() {
            return Err(BuildError::Family);
        }
        let offset = self.fragment_offset_bytes;
        if self.dscp > 63 || self.ecn > 3 || offset > 65_528 || !offset.is_multiple_of(8) {
            return Err(BuildError::FieldRange);
        }
        let total = self.header_bytes() + usize::from(self.payload_bytes);
        u16::try_from(total).map_err(|_| BuildError::TooLong)
    }

    const fn fragment_word(&self) -> u16 {
        let mut word = (self.fragment_offset_bytes / 8) as u16;
        if self.dont_fragment {
            word |= DONT_FRAGMENT;
        }
        if self.more_fragments {
            word |= MORE_FRAGMENTS;
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repr() -> Ipv4Repr {
        Ipv4Repr {
            source: Address::from_v4([10, 0, 0, 1]),
            destination: Address::from_v4([192, 168, 1, 254]),
            protocol: 17,
            ttl: 3,
            dscp: 46,
            ecn: 1,
            identification: 0xbeef,
            dont_fragment: false,
            more_fragments: true,
            fragment_offset_bytes: 65_512,
            options: OptionBytes::from_slice(&[1, 7, 3, 4, 0]).unwrap(),
            payload_bytes: 2,
        }
    }

    #[test]
    fn round_trip() {
        let mut out = [0xee; 32];
        repr().emit(&mut out).unwrap();
        let view = Ipv4View::new(&out).unwrap();
        assert_eq!(view.header_bytes(), 28);
        assert_eq!(view.fragment(), Fragment::Later);
        assert_eq!(view.payload(), &[0xee, 0xee]);
        assert_eq!(checksum::checksum(&out[..28]), 0);
        assert_eq!(Ipv4Repr::parse(&view), Ok(repr()));
    }

    #[test]
    fn options_one_by_one() {
        let mut out = [0; 32];
        repr().emit(&mut out).unwrap();
        let options: Vec<_> = Ipv4View::new(&out).unwrap().options().collect();
        let expected = [
            Ipv4Option { kind: 1, data: &[] },
            Ipv4Option {
                kind: 7,
                data: &[4][..],
            },
        ];
        assert_eq!(options, expected.map(Ok));
    }

    #[test]
    fn bad_options_end_the_walk() {
        for options in [
            &[7, 1, 0, 0][..],
            &[7, 0, 1, 1],
            &[1, 1, 1, 7],
            &[1, 7, 4, 0],
        ] {
            let mut walk = Ipv4Options { rest: options };
            assert!(
                walk.any(|option| option == Err(Malformed::Ipv4Options)),
                "{options:?}"
            );
            assert_eq!(walk.next(), None);
        }
    }

    #[test]
    fn each_check() {
        let mut good = [0; 30];
        repr().emit(&mut good).unwrap();
        let with = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            Ipv4View::new(&bytes).err()
        };
        assert_eq!(with(0, 0x67), Some(Malformed::Ipv4Version));
        assert_eq!(with(0, 0x44), Some(Malformed::Ipv4HeaderLength));
        assert_eq!(with(0, 0x48), Some(Malformed::TruncatedIpv4));
        assert_eq!(with(3, 31), Some(Malformed::Ipv4TotalLength));
        assert_eq!(with(3, 27), Some(Malformed::Ipv4TotalLength));
        assert_eq!(
            Ipv4View::new(&good[..19]).err(),
            Some(Malformed::TruncatedIpv4)
        );
        assert_eq!(
            Ipv4View::new(&good[..29]).err(),
            Some(Malformed::Ipv4TotalLength)
        );
        assert!(Ipv4View::new_quoted(&good[..28]).is_ok());
    }

    #[test]
    fn refuses_to_emit_nonsense() {
        let mut out = [0; 60];
        let v6 = Address(1);
        assert_eq!(
            Ipv4Repr {
                source: v6,
                ..repr()
            }
            .emit(&mut out),
            Err(BuildError::Family)
        );
        assert_eq!(
            Ipv4Repr { dscp: 64, ..repr() }.emit(&mut out),
            Err(BuildError::FieldRange)
        );
        let odd = Ipv4Repr {
            fragment_offset_bytes: 4,
            ..repr()
        };
        assert_eq!(odd.emit(&mut out), Err(BuildError::FieldRange));
        let long = Ipv4Repr {
            payload_bytes: 65_508,
            ..repr()
        };
        assert_eq!(long.emit(&mut out), Err(BuildError::TooLong));
        assert_eq!(repr().emit(&mut out[..27]), Err(BuildError::BufferTooSmall));
    }
}
