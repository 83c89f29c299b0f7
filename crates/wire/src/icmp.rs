//! The ICMP header of both IP versions: eight bytes, of which the last four depend on the type.

use crate::address::Address;
use crate::build_error::BuildError;
use crate::bytes::header_mut;
use crate::kinds::Network;
use crate::malformed::Malformed;

/// Type, code, checksum, and four bytes whose meaning depends on the type.
pub const HEADER_BYTES: usize = 8;
/// Offset of the checksum within the header.
pub const CHECKSUM_AT: usize = 2;
/// Offset of an echo's identifier within the header.
pub const IDENTIFIER_AT: usize = 4;

/// Types of ICMP for IPv4.
pub mod v4 {
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench.
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Code of [`UNREACHABLE`]: fragmentation needed, with the next hop's MTU.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
}

/// Types of ICMP for IPv6.
pub mod v6 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 129;
    /// Neighbour discovery's redirect.
    pub const REDIRECT: u8 = 137;
}

/// Whether a message of this type is an echo request or reply.
#[must_use]
#[inline(always)]
pub const fn is_echo(network: Network, kind: u8) -> bool {
    match network {
        Network::V4 => matches!(kind, v4::ECHO_REQUEST | v4::ECHO_REPLY),
        Network::V6 => matches!(kind, v6::ECHO_REQUEST | v6::ECHO_REPLY),
        Network::None => false,
    }
}

/// Whether a message of this type reports an error and quotes the packet that caused it right
/// after the header. (IPv6's redirect carries its packet in an option and is not one of them.)
#[must_use]
#[inline(always)]
pub const fn is_error(network: Network, kind: u8) -> bool {
    match network {
        Network::V4 => matches!(
            kind,
            v4::UNREACHABLE
                | v4::SOURCE_QUENCH
                | v4::REDIRECT
                | v4::TIME_EXCEEDED
                | v4::PARAMETER_PROBLEM
        ),
        Network::V6 => matches!(
            kind,
            v6::UNREACHABLE | v6::PACKET_TOO_BIG | v6::TIME_EXCEEDED | v6::PARAMETER_PROBLEM
        ),
        Network::None => false,
    }
}

/// Whether an [error](is_error) of this type has a code that some standard gives a meaning to: of
/// ICMP RFC 792, 1122 and 1812, of ICMPv6 RFC 4443, 6554, 7112, 8754 and 8883.
#[must_use]
pub const fn has_meaning(network: Network, kind: u8, code: u8) -> bool {
    let last = match (network, kind) {
        (Network::V4, v4::UNREACHABLE) => 15,
        (Network::V4, v4::REDIRECT) => 3,
        (Network::V4, v4::TIME_EXCEEDED) | (Network::V6, v6::TIME_EXCEEDED) => 1,
        (Network::V4, v4::PARAMETER_PROBLEM) => 2,
        (Network::V6, v6::UNREACHABLE) => 8,
        (Network::V6, v6::PARAMETER_PROBLEM) => 10,
        _ => 0,
    };
    code <= last
}

/// An ICMP header that is there.
#[derive(Copy, Clone, Debug)]
pub struct IcmpView<'a> {
    header: &'a [u8; HEADER_BYTES],
    payload: &'a [u8],
}

impl<'a> IcmpView<'a> {
    /// Checks that the header is complete; `bytes` is the IP payload.
    ///
    /// # Errors
    /// [`Malformed::TruncatedIcmp`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, payload) = bytes.split_first_chunk().ok_or(Malformed::TruncatedIcmp)?;
        Ok(Self { header, payload })
    }

    /// Message type.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        self.header[0]
    }

    /// Code within the type.
    #[must_use]
    pub const fn code(&self) -> u8 {
        self.header[1]
    }

    /// The checksum as sent.
    #[must_use]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// The four bytes after the checksum.
    #[must_use]
    pub const fn rest(&self) -> [u8; 4] {
        [
            self.header[4],
            self.header[5],
            self.header[6],
            self.header[7],
        ]
    }

    /// What the type says, read for one IP version.
    #[must_use]
    pub const fn message(&self, network: Network) -> IcmpMessage {
        IcmpMessage::parse(network, self.kind(), self.code(), self.rest())
    }

    /// Everything after the header: an echo's data or an error's quoted packet.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An ICMP header in the words both IP versions share.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum IcmpMessage {
    /// Echo request or reply.
    Echo {
        /// Whether it is the reply.
        reply: bool,
        /// What ties replies to the program that asked.
        identifier: u16,
        /// Number of the request.
        sequence: u16,
    },
    /// An error about a packet, which it quotes.
    Error(IcmpError),
    /// Any other message, as it stands.
    Other {
        /// Message type.
        kind: u8,
        /// Code within the type.
        code: u8,
        /// The four bytes after the checksum.
        rest: [u8; 4],
    },
}

/// The errors that quote the offending packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// The destination cannot be reached; the code says why.
    Unreachable {
        /// Code within the type.
        code: u8,
    },
    /// The packet does not fit the next link. IPv4 sends it as unreachable, code 4, with 16 bits
    /// of MTU.
    PacketTooBig {
        /// The next link's MTU in bytes.
        mtu: u32,
    },
    /// The packet lived too long (code 0) or was not reassembled in time (code 1).
    TimeExceeded {
        /// Code within the type.
        code: u8,
    },
    /// A field of the header is wrong.
    ParameterProblem {
        /// Code within the type.
        code: u8,
        /// Offset of the field in bytes; IPv4 has 8 bits for it.
        pointer: u32,
    },
    /// Send slower (IPv4 only, out of use).
    SourceQuench,
    /// There is a better way (IPv4 only).
    Redirect {
        /// Code within the type.
        code: u8,
        /// The better router, an IPv4 address.
        gateway: Address,
    },
}

/// Type, code and the four bytes after the checksum.
type Parts = (u8, u8, [u8; 4]);

impl IcmpMessage {
    const fn parse(network: Network, kind: u8, code: u8, rest: [u8; 4]) -> Self {
        if is_echo(network, kind) && code == 0 {
            return Self::Echo {
                reply: matches!(kind, v4::ECHO_REPLY | v6::ECHO_REPLY),
                identifier: u16::from_be_bytes([rest[0], rest[1]]),
                sequence: u16::from_be_bytes([rest[2], rest[3]]),
            };
        }
        let error = match network {
            Network::V4 => IcmpError::parse_v4(kind, code, rest),
            Network::V6 => IcmpError::parse_v6(kind, code, rest),
            Network::None => None,
        };
        match error {
            Some(error) => Self::Error(error),
            None => Self::Other { kind, code, rest },
        }
    }

    fn parts(self, network: Network) -> Result<Parts, BuildError> {
        match self {
            Self::Echo {
                reply,
                identifier,
                sequence,
            } => {
                let ([a, b], [c, d]) = (identifier.to_be_bytes(), sequence.to_be_bytes());
                Ok((echo_kind(network, reply)?, 0, [a, b, c, d]))
            }
            Self::Error(error) => error.parts(network),
            Self::Other { kind, code, rest } => Ok((kind, code, rest)),
        }
    }
}

const fn echo_kind(network: Network, reply: bool) -> Result<u8, BuildError> {
    match (network, reply) {
        (Network::V4, false) => Ok(v4::ECHO_REQUEST),
        (Network::V4, true) => Ok(v4::ECHO_REPLY),
        (Network::V6, false) => Ok(v6::ECHO_REQUEST),
        (Network::V6, true) => Ok(v6::ECHO_REPLY),
        (Network::None, _) => Err(BuildError::Family),
    }
}

impl IcmpError {
    // A field that the type leaves unused must be zero to be read as one of ours, so that every
    // message emits as it was read.
    const fn parse_v4(kind: u8, code: u8, rest: [u8; 4]) -> Option<Self> {
        let error = match (kind, code, rest) {
            (v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED, [0, 0, a, b]) => Self::PacketTooBig {
                mtu: u16::from_be_bytes([a, b]) as u32,
            },
            (v4::UNREACHABLE, _, [0, 0, 0, 0]) => Self::Unreachable { code },
            (v4::TIME_EXCEEDED, _, [0, 0, 0, 0]) => Self::TimeExceeded { code },
            (v4::PARAMETER_PROBLEM, _, [pointer, 0, 0, 0]) => Self::ParameterProblem {
                code,
                pointer: pointer as u32,
            },
            (v4::SOURCE_QUENCH, 0, [0, 0, 0, 0]) => Self::SourceQuench,
            (v4::REDIRECT, _, gateway) => Self::Redirect {
                code,
                gateway: Address::from_v4(gateway),
            },
            _ => return None,
        };
        Some(error)
    }

    const fn parse_v6(kind: u8, code: u8, rest: [u8; 4]) -> Option<Self> {
        let number = u32::from_be_bytes(rest);
        let error = match (kind, code, number) {
            (v6::UNREACHABLE, _, 0) => Self::Unreachable { code },
            (v6::PACKET_TOO_BIG, 0, mtu) => Self::PacketTooBig { mtu },
            (v6::TIME_EXCEEDED, _, 0) => Self::TimeExceeded { code },
            (v6::PARAMETER_PROBLEM, _, pointer) => Self::ParameterProblem { code, pointer },
            _ => return None,
        };
        Some(error)
    }

    fn parts(self, network: Network) -> Result<Parts, BuildError> {
        match network {
            Network::V4 => self.parts_v4(),
            Network::V6 => self.parts_v6(),
            Network::None => Err(BuildError::Family),
        }
    }

    fn parts_v4(self) -> Result<Parts, BuildError> {
        Ok(match self {
            Self::Unreachable { code } => (v4::UNREACHABLE, code, [0; 4]),
            Self::PacketTooBig { mtu } => {
                let [a, b] = u16::try_from(mtu)
                    .map_err(|_| BuildError::FieldRange)?
                    .to_be_bytes();
                (v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED, [0, 0, a, b])
            }
            Self::TimeExceeded { code } => (v4::TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem { code, pointer } => {
                let pointer = u8::try_from(pointer).map_err(|_| BuildError::FieldRange)?;
                (v4::PARAMETER_PROBLEM, code, [pointer, 0, 0, 0])
            }
            Self::SourceQuench => (v4::SOURCE_QUENCH, 0, [0; 4]),
            Self::Redirect { gateway, .. } if !gateway.is_v4() => return Err(BuildError::Family),
            Self::Redirect { code, gateway } => (v4::REDIRECT, code, gateway.octets4()),
        })
    }

    fn parts_v6(self) -> Result<Parts, BuildError> {
        Ok(match self {
            Self::Unreachable { code } => (v6::UNREACHABLE, code, [0; 4]),
            Self::PacketTooBig { mtu } => (v6::PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
            Self::TimeExceeded { code } => (v6::TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem { code, pointer } => {
                (v6::PARAMETER_PROBLEM, code, pointer.to_be_bytes())
            }
            Self::SourceQuench | Self::Redirect { .. } => return Err(BuildError::Family),
        })
    }
}

/// A checked ICMP header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IcmpRepr {
    /// Which IP version it travels in.
    pub network: Network,
    /// What it says.
    pub message: IcmpMessage,
}

impl IcmpRepr {
    /// Reads a view for one IP version.
    #[must_use]
    pub const fn parse(view: &IcmpView<'_>, network: Network) -> Self {
        Self {
            network,
            message: view.message(network),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the header, with a zero checksum, to the start of `out`. The checksum is filled in
    /// by [`refresh_checksums`](crate::rewrite::refresh_checksums) when the payload is there.
    ///
    /// # Errors
    /// [`BuildError::BufferTooSmall`]; [`BuildError::Family`] for a message this IP version does
    /// not have; [`BuildError::FieldRange`] for a number it has no room for.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), BuildError> {
        let (kind, code, rest) = self.message.parts(self.network)?;
        let header: &mut [u8; HEADER_BYTES] = header_mut(out)?;
        header[0] = kind;
        header[1] = code;
        header[2..4].fill(0);
        header[4..].copy_from_slice(&rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(network: Network, message: IcmpMessage) -> [u8; 8] {
        let repr = IcmpRepr { network, message };
        let mut out = [0xee; 8];
        repr.emit(&mut out).unwrap();
        assert_eq!(
            IcmpRepr::parse(&IcmpView::new(&out).unwrap(), network),
            repr
        );
        out
    }

    #[test]
    fn messages_of_both_versions_round_trip() {
        for network in [Network::V4, Network::V6] {
            for reply in [false, true] {
                round_trip(
                    network,
                    IcmpMessage::Echo {
                        reply,
                        identifier: 0xabcd,
                        sequence: 7,
                    },
                );
            }
            for error in [
                IcmpError::Unreachable { code: 1 },
                IcmpError::PacketTooBig { mtu: 1400 },
                IcmpError::TimeExceeded { code: 0 },
                IcmpError::ParameterProblem {
                    code: 1,
                    pointer: 40,
                },
            ] {
                round_trip(network, IcmpMessage::Error(error));
            }
        }
    }

    #[test]
    fn messages_of_ipv4_only() {
        let gateway = Address::from_v4([10, 0, 0, 254]);
        let redirect = IcmpError::Redirect { code: 1, gateway };
        let out = round_trip(Network::V4, IcmpMessage::Error(redirect));
        assert_eq!(out, [5, 1, 0, 0, 10, 0, 0, 254]);
        round_trip(Network::V4, IcmpMessage::Error(IcmpError::SourceQuench));
        for error in [redirect, IcmpError::SourceQuench] {
            let repr = IcmpRepr {
                network: Network::V6,
                message: IcmpMessage::Error(error),
            };
            assert_eq!(repr.emit(&mut [0; 8]), Err(BuildError::Family));
        }
    }

    #[test]
    fn too_big_is_an_unreachable_in_ipv4() {
        let message = IcmpMessage::Error(IcmpError::PacketTooBig { mtu: 0x0578 });
        assert_eq!(
            round_trip(Network::V4, message),
            [3, 4, 0, 0, 0, 0, 5, 0x78]
        );
        assert_eq!(
            round_trip(Network::V6, message),
            [2, 0, 0, 0, 0, 0, 5, 0x78]
        );
        let huge = IcmpMessage::Error(IcmpError::PacketTooBig { mtu: 65_536 });
        let repr = IcmpRepr {
            network: Network::V4,
            message: huge,
        };
        assert_eq!(repr.emit(&mut [0; 8]), Err(BuildError::FieldRange));
    }

    /// Whatever the header, it emits as it was read.
    #[test]
    fn every_type_and_code_emits_as_read() {
        for network in [Network::V4, Network::V6] {
            for (kind, code) in (0..=255).flat_map(|kind| (0..=5).map(move |code| (kind, code))) {
                for rest in [[0; 4], [1, 2, 3, 4], [0, 0, 5, 6], [7, 0, 0, 0]] {
                    let mut header = [kind, code, 0, 0, 0, 0, 0, 0];
                    header[4..].copy_from_slice(&rest);
                    let repr = IcmpRepr::parse(&IcmpView::new(&header).unwrap(), network);
                    let mut out = [0; 8];
                    repr.emit(&mut out).unwrap();
                    assert_eq!(out, header, "{repr:?}");
                }
            }
        }
    }

    #[test]
    fn too_short() {
        assert_eq!(IcmpView::new(&[0; 7]).err(), Some(Malformed::TruncatedIcmp));
    }

    #[test]
    fn errors_and_echoes_do_not_overlap() {
        for network in [Network::None, Network::V4, Network::V6] {
            let both = (0..=255).filter(|&kind| is_echo(network, kind) && is_error(network, kind));
            assert_eq!(both.count(), 0);
        }
        assert!(is_error(Network::V6, v6::PARAMETER_PROBLEM) && !is_error(Network::V6, 137));
    }
}
