//! The TCP header with its options.

use crate::build_error::BuildError;
use crate::bytes::{header_mut, u16_at, u32_at};
use crate::malformed::Malformed;
use crate::options::{MAX_OPTION_BYTES, OptionBytes, SplitOption, split_option};

/// The header without options.
pub const HEADER_BYTES: usize = 20;
/// Offset of the sequence number within the header.
pub const SEQUENCE_AT: usize = 4;
/// Offset of the acknowledgement number within the header.
pub const ACKNOWLEDGEMENT_AT: usize = 8;
/// Offset of the flags within the header.
pub const FLAGS_AT: usize = 13;
/// Offset of the window within the header.
pub const WINDOW_AT: usize = 14;
/// Offset of the checksum within the header.
pub const CHECKSUM_AT: usize = 16;

/// The eight flags of a TCP header.
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push data to the receiver.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// Congestion was experienced.
    pub const ECE: u8 = 0x40;
    /// The congestion window was reduced.
    pub const CWR: u8 = 0x80;
}

/// A TCP header that is there, options included.
#[derive(Copy, Clone, Debug)]
pub struct TcpView<'a> {
    header: &'a [u8; HEADER_BYTES],
    bytes: &'a [u8],
}

impl<'a> TcpView<'a> {
    /// Checks the lengths; `bytes` is the IP payload.
    ///
    /// # Errors
    /// [`Malformed::TruncatedTcp`], [`Malformed::TcpHeaderLength`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.first_chunk().ok_or(Malformed::TruncatedTcp)?;
        let view = Self { header, bytes };
        if view.header_bytes() < HEADER_BYTES || view.header_bytes() > bytes.len() {
            return Err(Malformed::TcpHeaderLength);
        }
        Ok(view)
    }

    /// Header and options in bytes, 20 to 60.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        (self.header[12] >> 4) as usize * 4
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

    /// Sequence number of the first payload byte, or of the SYN.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        u32_at(self.header, SEQUENCE_AT)
    }

    /// The next byte expected from the other side; counts with [`flags::ACK`].
    #[must_use]
    pub fn acknowledgement(&self) -> u32 {
        u32_at(self.header, ACKNOWLEDGEMENT_AT)
    }

    /// The flags, see [`flags`].
    #[must_use]
    pub const fn flags(&self) -> u8 {
        self.header[13]
    }

    /// Receive window, not scaled.
    #[must_use]
    pub const fn window(&self) -> u16 {
        u16::from_be_bytes([self.header[14], self.header[15]])
    }

    /// The checksum as sent.
    #[must_use]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[16], self.header[17]])
    }

    /// Urgent pointer; counts with [`flags::URG`].
    #[must_use]
    pub const fn urgent(&self) -> u16 {
        u16::from_be_bytes([self.header[18], self.header[19]])
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
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions {
            rest: self.option_bytes(),
        }
    }

    /// Everything after the options.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header_bytes()..).unwrap_or(&[])
    }
}

/// One TCP option.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Padding between options.
    NoOperation,
    /// Largest segment the sender takes, in bytes.
    MaximumSegmentSize(u16),
    /// Shift of the sender's window.
    WindowScale(u8),
    /// The sender understands selective acknowledgements.
    SackPermitted,
    /// Selective acknowledgement: pairs of 32-bit edges, at most four.
    Sack(&'a [u8]),
    /// The sender's clock and the echo of the other side's.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The last clock seen from the other side.
        echo: u32,
    },
    /// Any other option.
    Other {
        /// Its number.
        kind: u8,
        /// What follows kind and length.
        data: &'a [u8],
    },
}

impl<'a> TcpOption<'a> {
    fn parse(kind: u8, data: &'a [u8]) -> Result<Self, Malformed> {
        let option = match (kind, data.len()) {
            (1, 0) => Self::NoOperation,
            (2, 2) => Self::MaximumSegmentSize(u16_at(data, 0)),
            (3, 1) => Self::WindowScale(data[0]),
            (4, 0) => Self::SackPermitted,
            (5, 8 | 16 | 24 | 32) => Self::Sack(data),
            (8, 8) => Self::Timestamps {
                value: u32_at(data, 0),
                echo: u32_at(data, 4),
            },
            (2..=5 | 8, _) => return Err(Malformed::TcpOptions),
            _ => Self::Other { kind, data },
        };
        Ok(option)
    }

    /// Writes the option to the start of `out` and returns its length.
    fn emit(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        match *self {
            Self::NoOperation => emit_bytes(out, &[1]),
            Self::MaximumSegmentSize(bytes) => emit_option(out, 2, &bytes.to_be_bytes()),
            Self::WindowScale(shift) => emit_option(out, 3, &[shift]),
            Self::SackPermitted => emit_option(out, 4, &[]),
            Self::Sack(edges) => emit_option(out, 5, edges),
            Self::Timestamps { value, echo } => {
                let both = u64::from(value) << 32 | u64::from(echo);
                emit_option(out, 8, &both.to_be_bytes())
            }
            Self::Other { kind, data } => emit_option(out, kind, data),
        }
    }
}

fn emit_option(out: &mut [u8], kind: u8, data: &[u8]) -> Result<usize, BuildError> {
    let length = u8::try_from(data.len() + 2).map_err(|_| BuildError::OptionsTooLong)?;
    let head = emit_bytes(out, &[kind, length])?;
    Ok(head + emit_bytes(&mut out[head..], data)?)
}

fn emit_bytes(out: &mut [u8], bytes: &[u8]) -> Result<usize, BuildError> {
    let slot = out
        .get_mut(..bytes.len())
        .ok_or(BuildError::OptionsTooLong)?;
    slot.copy_from_slice(bytes);
    Ok(bytes.len())
}

/// Walks TCP options up to the end of the list. Ends after the first error.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    rest: &'a [u8],
}

impl<'a> TcpOptions<'a> {
    /// Walks options that are not in a view; `bytes` start at the first option.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (item, rest) = match split_option(self.rest) {
            SplitOption::End => (None, &[][..]),
            SplitOption::Malformed => (Some(Err(Malformed::TcpOptions)), &[][..]),
            SplitOption::One { kind, data, rest } => (Some(TcpOption::parse(kind, data)), rest),
        };
        self.rest = match item {
            Some(Ok(_)) => rest,
            _ => &[],
        };
        item
    }
}

/// A checked TCP header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TcpRepr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// The flags, see [`flags`].
    pub flags: u8,
    /// Receive window.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// The options.
    pub options: OptionBytes,
}

impl TcpRepr {
    /// Reads every field of a view but the checksum.
    ///
    /// # Errors
    /// [`Malformed::TcpOptions`] if the options do not parse.
    pub fn parse(view: &TcpView<'_>) -> Result<Self, Malformed> {
        for option in view.options() {
            option?;
        }
        let options = OptionBytes::from_slice(view.option_bytes());
        Ok(Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            sequence: view.sequence(),
            acknowledgement: view.acknowledgement(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: options.map_err(|_| Malformed::TcpOptions)?,
        })
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.options.length()
    }

    /// Writes header and options, with a zero checksum, to the start of `out`. The checksum is
    /// filled in by [`refresh_checksums`](crate::rewrite::refresh_checksums) when the payload is
    /// there.
    ///
    /// # Errors
    /// [`BuildError::BufferTooSmall`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), BuildError> {
        let length = self.header_bytes();
        let bytes = out.get_mut(..length).ok_or(BuildError::BufferTooSmall)?;
        let header: &mut [u8; HEADER_BYTES] = header_mut(bytes)?;
        header[..2].copy_from_slice(&self.source_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        header[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        header[8..12].copy_from_slice(&self.acknowledgement.to_be_bytes());
        header[12] = (length / 4) as u8 * 16;
        header[13] = self.flags;
        header[14..16].copy_from_slice(&self.window.to_be_bytes());
        header[16..18].fill(0);
        header[18..].copy_from_slice(&self.urgent.to_be_bytes());
        bytes[HEADER_BYTES..].copy_from_slice(self.options.as_slice());
        Ok(())
    }
}

/// Writes options one after the other and pads them.
///
/// # Errors
/// [`BuildError::OptionsTooLong`] above 40 bytes.
pub fn encode_options(options: &[TcpOption<'_>]) -> Result<OptionBytes, BuildError> {
    let mut bytes = [0; MAX_OPTION_BYTES];
    let mut used = 0;
    for option in options {
        used += option.emit(bytes.get_mut(used..).unwrap_or(&mut []))?;
    }
    OptionBytes::from_slice(&bytes[..used])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: [TcpOption<'static>; 6] = [
        TcpOption::MaximumSegmentSize(1460),
        TcpOption::SackPermitted,
        TcpOption::Timestamps {
            value: 0x0102_0304,
            echo: 0x0506_0708,
        },
        TcpOption::NoOperation,
        TcpOption::WindowScale(7),
        TcpOption::Other {
            kind: 254,
            data: &[9, 8, 7],
        },
    ];

    fn repr() -> TcpRepr {
        TcpRepr {
            source_port: 40_000,
            destination_port: 80,
            sequence: 0xfeed_f00d,
            acknowledgement: 0x0bad_cafe,
            flags: flags::SYN | flags::ECE,
            window: 0x1234,
            urgent: 0x5678,
            options: encode_options(&OPTIONS).unwrap(),
        }
    }

    #[test]
    fn round_trip() {
        let mut out = [0xee; 50];
        repr().emit(&mut out).unwrap();
        let view = TcpView::new(&out).unwrap();
        assert_eq!(view.header_bytes(), 48);
        assert_eq!(view.payload(), &[0xee, 0xee]);
        assert_eq!(view.checksum(), 0);
        assert_eq!(TcpRepr::parse(&view), Ok(repr()));
        assert!(view.options().eq(OPTIONS.map(Ok)));
    }

    #[test]
    fn selective_acknowledgement() {
        let edges: Vec<u8> = (0..16).collect();
        let bytes = encode_options(&[TcpOption::Sack(&edges)]).unwrap();
        let options: Vec<_> = TcpOptions::new(bytes.as_slice()).collect();
        assert_eq!(options, [Ok(TcpOption::Sack(&edges))]);
    }

    #[test]
    fn bad_options_end_the_walk() {
        let bad: [&[u8]; 6] = [
            &[2, 3, 0, 0],
            &[3, 2],
            &[8, 10, 0, 0],
            &[5, 4, 0, 0],
            &[7, 1, 0, 0],
            &[9],
        ];
        for options in bad {
            let mut walk = TcpOptions::new(options);
            assert_eq!(walk.next(), Some(Err(Malformed::TcpOptions)), "{options:?}");
            assert_eq!(walk.next(), None);
        }
        let ended: Vec<_> = TcpOptions::new(&[1, 0, 7, 1]).collect();
        assert_eq!(ended, [Ok(TcpOption::NoOperation)]);
    }

    #[test]
    fn each_check() {
        let mut out = [0; 48];
        repr().emit(&mut out).unwrap();
        assert_eq!(
            TcpView::new(&out[..19]).err(),
            Some(Malformed::TruncatedTcp)
        );
        assert_eq!(
            TcpView::new(&out[..47]).err(),
            Some(Malformed::TcpHeaderLength)
        );
        out[12] = 0x40;
        assert_eq!(TcpView::new(&out).err(), Some(Malformed::TcpHeaderLength));
    }

    #[test]
    fn refuses_to_emit_nonsense() {
        let too_many = [TcpOption::Timestamps { value: 0, echo: 0 }; 5];
        assert_eq!(encode_options(&too_many), Err(BuildError::OptionsTooLong));
        let too_long = [TcpOption::Other {
            kind: 254,
            data: &[0; 254],
        }];
        assert_eq!(encode_options(&too_long), Err(BuildError::OptionsTooLong));
        assert_eq!(repr().emit(&mut [0; 47]), Err(BuildError::BufferTooSmall));
    }
}
