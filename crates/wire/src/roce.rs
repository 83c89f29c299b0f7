//! RoCEv2: RDMA's messages in UDP datagrams (InfiniBand Architecture Specification, Annex A17).
//!
//! ```text
//! | Ethernet | IPv4 or IPv6 | UDP to 4791 | BTH 12 | RETH 16 | AETH 4 | immediate 4 | payload | pad 0..3 | ICRC 4 |
//! ```
//! Which of the headers behind the BTH are there follows from the [`Opcode`]. [`RocePacket::read`]
//! takes a frame apart and checks its ICRC; [`Path::emit`] writes everything around a payload that
//! lies in its place already, so that none is copied. What is known here is the part of RDMA that
//! remote memory needs (reliable connections: WRITE, READ, their answers); of other opcodes the BTH
//! alone is read, and all behind it is payload.

mod icrc;
mod path;

pub use icrc::{ICRC_BYTES, icrc};
pub use path::Path;

use thiserror::Error;

use crate::build_error::BuildError;
use crate::bytes::{u8_at, u16_at, u32_at, u64_at};
use crate::fields::{self, transport_end};
use crate::kinds::{Fragment, Transport};
use crate::layout::Layout;
use crate::udp;

/// The UDP port that says so.
pub const PORT: u16 = 4791;
/// The base transport header.
pub const BTH_BYTES: usize = 12;
/// The RDMA extended transport header: where to write or read.
pub const RETH_BYTES: usize = 16;
/// The acknowledgement's extended transport header.
pub const AETH_BYTES: usize = 4;
/// Immediate data.
pub const IMMEDIATE_BYTES: usize = 4;
/// The partition that everybody is a full member of.
pub const DEFAULT_PARTITION: u16 = 0xffff;
/// Queue pair numbers and packet sequence numbers have as many bits.
pub const NUMBER_BITS: u32 = 24;
/// The largest of them.
pub const MAX_NUMBER: u32 = (1 << NUMBER_BITS) - 1;

const SOLICITED: u8 = 0x80;
/// The path is the one that it has been since the start: what cards say that have no other, and expect.
const MIGRATED: u8 = 0x40;
const PAD_SHIFT: u32 = 4;
const VERSION_MASK: u8 = 0x0f;
const ACK_REQUEST: u8 = 0x80;

/// What a packet is, as its first byte has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

impl Opcode {
    /// The first part of a WRITE.
    pub const WRITE_FIRST: Self = Self(0x06);
    /// A part of a WRITE between the first and the last.
    pub const WRITE_MIDDLE: Self = Self(0x07);
    /// The last part of a WRITE.
    pub const WRITE_LAST: Self = Self(0x08);
    /// The same, with four bytes for the receiver's program.
    pub const WRITE_LAST_IMMEDIATE: Self = Self(0x09);
    /// A WRITE in one packet.
    pub const WRITE_ONLY: Self = Self(0x0a);
    /// The same, with four bytes for the receiver's program.
    pub const WRITE_ONLY_IMMEDIATE: Self = Self(0x0b);
    /// A READ.
    pub const READ_REQUEST: Self = Self(0x0c);
    /// The first part of what a READ asked for.
    pub const READ_RESPONSE_FIRST: Self = Self(0x0d);
    /// A part of it between the first and the last.
    pub const READ_RESPONSE_MIDDLE: Self = Self(0x0e);
    /// The last part of it.
    pub const READ_RESPONSE_LAST: Self = Self(0x0f);
    /// All that a READ asked for.
    pub const READ_RESPONSE_ONLY: Self = Self(0x10);
    /// An acknowledgement, or that there is none.
    pub const ACKNOWLEDGE: Self = Self(0x11);

    /// Whether a RETH follows.
    #[must_use]
    pub const fn has_reth(self) -> bool {
        matches!(
            self,
            Self::WRITE_FIRST | Self::WRITE_ONLY | Self::WRITE_ONLY_IMMEDIATE | Self::READ_REQUEST
        )
    }

    /// Whether an AETH follows.
    #[must_use]
    pub const fn has_aeth(self) -> bool {
        matches!(
            self,
            Self::READ_RESPONSE_FIRST
                | Self::READ_RESPONSE_LAST
                | Self::READ_RESPONSE_ONLY
                | Self::ACKNOWLEDGE
        )
    }

    /// Whether immediate data follow.
    #[must_use]
    pub const fn has_immediate(self) -> bool {
        matches!(
            self,
            Self::WRITE_LAST_IMMEDIATE | Self::WRITE_ONLY_IMMEDIATE
        )
    }

    /// The BTH and what follows from the opcode, in bytes.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        BTH_BYTES
            + RETH_BYTES * self.has_reth() as usize
            + AETH_BYTES * self.has_aeth() as usize
            + IMMEDIATE_BYTES * self.has_immediate() as usize
    }
}

/// A packet sequence number: 24 bits, after whose end it begins again.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The lowest 24 bits.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number & MAX_NUMBER)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The number so many packets later.
    #[must_use]
    pub const fn plus(self, packets: u32) -> Self {
        Self::new(self.0.wrapping_add(packets))
    }

    /// The one before.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }

    /// How many packets this is behind `other`, negative if it is before: half of all numbers are.
    #[must_use]
    pub const fn since(self, other: Self) -> i32 {
        let shift = 32 - NUMBER_BITS;
        ((self.0.wrapping_sub(other.0) << shift) as i32) >> shift
    }
}

/// Which remote memory a request is about.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Where it begins.
    pub address: u64,
    /// The key that allows it.
    pub rkey: u32,
    /// How much of it.
    pub bytes: u32,
}

/// How a request went.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// Whether and why not.
    pub syndrome: Syndrome,
    /// How many messages the responder has finished, modulo 2^24.
    pub messages: u32,
}

/// Whether a request is acknowledged, and why not.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// It is. The five bits are credits, which WRITE and READ do not need.
    Ack(u8),
    /// The receiver is not ready; the five bits are a code for how long it will not be.
    NotReady(u8),
    /// It is not.
    Nak(Nak),
    /// Reserved.
    Reserved(u8),
}

/// Why a request is not acknowledged.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Nak {
    /// Packets are missing in front of it.
    Sequence = 0,
    /// It makes no sense: opcode, order of parts, lengths, too many READs.
    InvalidRequest = 1,
    /// It is about memory that it must not touch.
    RemoteAccess = 2,
    /// The responder could not do it.
    RemoteOperation = 3,
    /// Of reliable datagrams, which nobody has.
    InvalidDatagram = 4,
}

impl Nak {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Sequence,
        Self::InvalidRequest,
        Self::RemoteAccess,
        Self::RemoteOperation,
        Self::InvalidDatagram,
    ];
}

impl Syndrome {
    /// An acknowledgement without credits.
    pub const ACK: Self = Self::Ack(0x1f);

    /// Reads the byte.
    #[must_use]
    pub const fn of(byte: u8) -> Self {
        let code = byte & 0x1f;
        match (byte >> 5, code) {
            (0, _) => Self::Ack(code),
            (1, _) => Self::NotReady(code),
            (3, 0) => Self::Nak(Nak::Sequence),
            (3, 1) => Self::Nak(Nak::InvalidRequest),
            (3, 2) => Self::Nak(Nak::RemoteAccess),
            (3, 3) => Self::Nak(Nak::RemoteOperation),
            (3, 4) => Self::Nak(Nak::InvalidDatagram),
            _ => Self::Reserved(byte),
        }
    }

    /// The byte.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Ack(credits) => credits & 0x1f,
            Self::NotReady(timer) => 0x20 | timer & 0x1f,
            Self::Nak(why) => 0x60 | why as u8,
            Self::Reserved(byte) => byte,
        }
    }
}

/// All headers behind UDP's.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the packet is.
    pub opcode: Opcode,
    /// Whether the receiver's program is to be woken.
    pub solicited: bool,
    /// Whether the sender waits for an acknowledgement.
    pub ack_request: bool,
    /// The partition.
    pub partition: u16,
    /// The receiver's queue pair.
    pub destination_qp: u32,
    /// The packet's number.
    pub psn: Psn,
    /// There if the opcode says so.
    pub reth: Option<Reth>,
    /// There if the opcode says so.
    pub aeth: Option<Aeth>,
    /// There if the opcode says so.
    pub immediate: Option<u32>,
}

impl Header {
    /// A header of the default partition, without anything behind the BTH.
    #[must_use]
    pub const fn new(opcode: Opcode, destination_qp: u32, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            ack_request: false,
            partition: DEFAULT_PARTITION,
            destination_qp,
            psn,
            reth: None,
            aeth: None,
            immediate: None,
        }
    }

    /// Reads the headers at the start of a datagram, which must be as long as its opcode says.
    fn parse(datagram: &[u8]) -> Self {
        let opcode = Opcode(u8_at(datagram, 0));
        let flags = u8_at(datagram, 1);
        let reth_at = BTH_BYTES;
        let aeth_at = reth_at + RETH_BYTES * usize::from(opcode.has_reth());
        let immediate_at = aeth_at + AETH_BYTES * usize::from(opcode.has_aeth());
        Self {
            opcode,
            solicited: flags & SOLICITED != 0,
            ack_request: u8_at(datagram, 8) & ACK_REQUEST != 0,
            partition: u16_at(datagram, 2),
            destination_qp: u32_at(datagram, 4) & MAX_NUMBER,
            psn: Psn::new(u32_at(datagram, 8)),
            reth: opcode.has_reth().then(|| Reth {
                address: u64_at(datagram, reth_at),
                rkey: u32_at(datagram, reth_at + 8),
                bytes: u32_at(datagram, reth_at + 12),
            }),
            aeth: opcode.has_aeth().then(|| Aeth {
                syndrome: Syndrome::of(u8_at(datagram, aeth_at)),
                messages: u32_at(datagram, aeth_at) & MAX_NUMBER,
            }),
            immediate: opcode
                .has_immediate()
                .then(|| u32_at(datagram, immediate_at)),
        }
    }

    /// Whether what is there is what the opcode says, and numbers fit.
    fn check(&self) -> Result<(), BuildError> {
        let is_whole = self.reth.is_some() == self.opcode.has_reth()
            && self.aeth.is_some() == self.opcode.has_aeth()
            && self.immediate.is_some() == self.opcode.has_immediate();
        let messages = self.aeth.map_or(0, |aeth| aeth.messages);
        match (is_whole, self.destination_qp.max(messages) <= MAX_NUMBER) {
            (false, _) => Err(BuildError::WrongKind),
            (_, false) => Err(BuildError::FieldRange),
            _ => Ok(()),
        }
    }

    /// Writes the headers into bytes that are as long as the opcode says.
    fn write(&self, pad: usize, out: &mut [u8]) {
        let (bth, rest) = out.split_at_mut(BTH_BYTES);
        let ack_request = u32::from(self.ack_request) << 31;
        bth[0] = self.opcode.0;
        bth[1] = u8::from(self.solicited) << 7 | MIGRATED | (pad as u8) << PAD_SHIFT;
        bth[2..4].copy_from_slice(&self.partition.to_be_bytes());
        bth[4..8].copy_from_slice(&self.destination_qp.to_be_bytes());
        bth[8..].copy_from_slice(&(ack_request | self.psn.number()).to_be_bytes());
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            rest[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(reth) = self.reth {
            put(&reth.address.to_be_bytes());
            put(&reth.rkey.to_be_bytes());
            put(&reth.bytes.to_be_bytes());
        }
        if let Some(aeth) = self.aeth {
            let syndrome = u32::from(aeth.syndrome.byte()) << NUMBER_BITS;
            put(&(syndrome | aeth.messages).to_be_bytes());
        }
        if let Some(immediate) = self.immediate {
            put(&immediate.to_be_bytes());
        }
    }
}

/// Why a frame is no RoCE packet that anybody should act on.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum RoceMalformed {
    /// Not a whole UDP datagram to port 4791.
    #[error("not a RoCE packet")]
    NotRoce,
    /// The datagram is shorter than the headers that its opcode says, with the ICRC.
    #[error("datagram shorter than its RoCE headers")]
    Truncated,
    /// A transport header version other than 0.
    #[error("unknown transport header version")]
    Version,
    /// More pad than payload.
    #[error("more pad than payload")]
    Pad,
    /// The ICRC does not hold: the packet was changed on its way.
    #[error("ICRC does not hold")]
    Icrc,
}

/// A RoCE packet whose ICRC holds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RocePacket {
    /// Its headers.
    pub header: Header,
    /// Where in its frame the payload begins.
    pub payload_at: usize,
    /// The payload in bytes, without pad.
    pub payload_bytes: usize,
    /// How many bytes of pad follow it.
    pub pad_bytes: usize,
}

impl RocePacket {
    /// Takes a frame apart that was dissected.
    ///
    /// # Errors
    /// It is no RoCE packet, or was changed on its way.
    pub fn read(frame: &[u8], layout: &Layout) -> Result<Self, RoceMalformed> {
        if !is_roce(frame, layout) {
            return Err(RoceMalformed::NotRoce);
        }
        let (at, end) = (usize::from(layout.payload), transport_end(frame, layout));
        let end = end
            .checked_sub(ICRC_BYTES)
            .ok_or(RoceMalformed::Truncated)?;
        let datagram = frame.get(at..end).ok_or(RoceMalformed::Truncated)?;
        let header_bytes = Opcode(u8_at(datagram, 0)).header_bytes();
        let behind = datagram.len().checked_sub(header_bytes);
        let behind = behind.ok_or(RoceMalformed::Truncated)?;
        let flags = u8_at(datagram, 1);
        if flags & VERSION_MASK != 0 {
            return Err(RoceMalformed::Version);
        }
        let pad_bytes = usize::from(flags >> PAD_SHIFT & 3);
        let payload_bytes = behind.checked_sub(pad_bytes).ok_or(RoceMalformed::Pad)?;
        if icrc(frame, layout, end) != icrc::at(frame, end) {
            return Err(RoceMalformed::Icrc);
        }
        Ok(Self {
            header: Header::parse(datagram),
            payload_at: at + header_bytes,
            payload_bytes,
            pad_bytes,
        })
    }

    /// The payload in the frame that this was read from.
    #[must_use]
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let end = self.payload_at + self.payload_bytes;
        frame.get(self.payload_at..end).unwrap_or(&[])
    }
}

/// Whether a frame is a whole UDP datagram to RoCE's port.
#[must_use]
#[inline]
pub fn is_roce(frame: &[u8], layout: &Layout) -> bool {
    layout.transport == Transport::Udp
        && layout.fragment == Fragment::Whole
        && fields::destination_port(frame, layout) == PORT
}

/// How many bytes of pad a payload needs.
#[must_use]
pub const fn pad_bytes(payload_bytes: usize) -> usize {
    payload_bytes.wrapping_neg() & 3
}

const _: () = assert!(udp::HEADER_BYTES + BTH_BYTES == 20);

#[cfg(test)]
mod tests;
