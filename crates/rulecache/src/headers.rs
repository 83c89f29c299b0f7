//! The headers of what nearly every packet is, TCP or UDP over IPv4, to be rewritten.

use crate::field::{Field, Fields};
use crate::progress::TcpProgress;
use twinpath_core::wire::checksum::{Delta, KeptDelta};
use twinpath_core::wire::layout::{Layout, PlainEnds};
use twinpath_core::wire::{ipv4, tcp, udp};

/// The headers of a packet.
pub(crate) struct Headers<'a> {
    /// The destination's and the source's.
    pub macs: &'a mut [u8; 12],
    /// IPv4's, without options.
    pub ip: &'a mut [u8; ipv4::HEADER_BYTES],
    /// Up to its checksum.
    pub transport: &'a mut [u8],
}

impl<'a> Headers<'a> {
    /// `None` if they are not all there.
    #[inline(always)]
    pub fn of<const CHECKSUM_AT: usize>(frame: &'a mut [u8], layout: &Layout) -> Option<Self> {
        let (ethernet, packet) = frame.split_at_mut_checked(usize::from(layout.l3))?;
        let (ip, behind) = packet.split_first_chunk_mut::<{ ipv4::HEADER_BYTES }>()?;
        let options = layout
            .l4
            .wrapping_sub(layout.l3)
            .checked_sub(ipv4::HEADER_BYTES as u16)?;
        let transport = behind.split_at_mut_checked(options.into())?.1;
        Some(Self {
            macs: ethernet.first_chunk_mut::<12>()?,
            ip,
            transport: transport.get_mut(..CHECKSUM_AT + 2)?,
        })
    }

    /// Time to live.
    #[inline(always)]
    pub fn ttl(&self) -> u8 {
        self.ip[ipv4::TTL_AT]
    }

    /// Whether a router may fragment the packet (DF is 0).
    #[inline(always)]
    pub fn may_fragment(&self) -> bool {
        self.ip[ipv4::FRAGMENT_AT] & ipv4::DONT_FRAGMENT.to_be_bytes()[0] == 0
    }

    /// Gives the packet another identification.
    #[inline(always)]
    pub fn number(&mut self, identification: u16) {
        let place = ipv4::IDENTIFICATION_AT;
        if let Some(bytes) = self.ip[place..].first_chunk_mut::<2>() {
            let change = Delta::of16(u16::from_be_bytes(*bytes), identification);
            *bytes = identification.to_be_bytes();
            if let Some(checksum) = self.ip[ipv4::CHECKSUM_AT..].first_chunk_mut::<2>() {
                *checksum = change.apply(u16::from_be_bytes(*checksum)).to_be_bytes();
            }
        }
    }

    /// Addresses and ports.
    #[inline(always)]
    pub fn ends(&self) -> PlainEnds {
        let addresses = self.ip[ipv4::SOURCE_AT..].first_chunk();
        let ports = self.transport.first_chunk();
        PlainEnds {
            addresses: addresses.map_or(0, |bytes| u64::from_be_bytes(*bytes)),
            ports: ports.map_or(0, |bytes| u32::from_be_bytes(*bytes)),
        }
    }

    /// Of a TCP segment how far it says that the connection is.
    #[inline(always)]
    pub fn progress(&self) -> TcpProgress {
        let numbers = self.transport[tcp::SEQUENCE_AT..].first_chunk();
        TcpProgress::from_word(numbers.map_or(0, |bytes| u64::from_be_bytes(*bytes)))
    }

    /// Rewrites the packet, but for its MAC addresses.
    #[inline(always)]
    pub fn write<const CHECKSUM_AT: usize>(self, new: NewHeaders) {
        let Self { ip, transport, .. } = self;
        ip[ipv4::SOURCE_AT..ipv4::SOURCE_AT + 8].copy_from_slice(&new.addresses.to_be_bytes());
        ip[ipv4::TTL_AT] = ip[ipv4::TTL_AT].saturating_sub(new.decrements);
        transport[..4].copy_from_slice(&new.ports.to_be_bytes());
        let [header, segment] = new.changes;
        if let Some(checksum) = ip[ipv4::CHECKSUM_AT..].first_chunk_mut() {
            header.mend(checksum);
        }
        if let Some(checksum) = transport[CHECKSUM_AT..].first_chunk_mut() {
            match CHECKSUM_AT {
                udp::CHECKSUM_AT => segment.mend_udp(checksum),
                _ => segment.mend(checksum),
            }
        }
    }
}

/// What headers become.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewHeaders {
    /// Source address and destination address.
    pub addresses: u64,
    /// Source port and destination port.
    pub ports: u32,
    /// The time to live is less by so much.
    pub decrements: u8,
    /// What that does to the checksums of the IP header and of the transport's.
    pub changes: [KeptDelta; 2],
}

/// Changes of both checksums that lie in the lower half of a word.
#[inline(always)]
pub(crate) const fn changes_in(word: u64) -> [KeptDelta; 2] {
    [
        KeptDelta::from_bits((word >> 16) as u16),
        KeptDelta::from_bits(word as u16),
    ]
}

/// The same as the lower half of a word.
pub(crate) fn changes_to_word(changes: [KeptDelta; 2]) -> u64 {
    let [header, transport] = changes.map(|change| u64::from(change.bits()));
    header << 16 | transport
}

/// New MAC addresses.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Macs {
    /// Which of them are written.
    pub written: Fields,
    /// The destination's, and the source's, as they lie in a frame.
    pub bytes: [u8; 12],
}

impl Macs {
    /// Writes them to the start of a frame.
    #[inline(always)]
    pub fn write(&self, frame: &mut [u8; 12]) {
        if self.written.has(Field::DestinationMac) {
            frame[..6].copy_from_slice(&self.bytes[..6]);
        }
        if self.written.has(Field::SourceMac) {
            frame[6..].copy_from_slice(&self.bytes[6..]);
        }
    }
}
