//! Between whom RoCE packets go, and how one is written.

use super::{Header, ICRC_BYTES, PORT, icrc, pad_bytes};
use crate::address::{Address, MacAddress};
use crate::build_error::BuildError;
use crate::ethernet::{self, EthernetRepr};
use crate::ipv4::{self, Ipv4Repr};
use crate::ipv6::{self, Ipv6Repr};
use crate::kinds::{Fragment, Network, Transport};
use crate::layout::Layout;
use crate::options::OptionBytes;
use crate::protocol;
use crate::udp::{self, UdpRepr};

/// From whom to whom packets go: everything in front of the BTH that stays the same.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The sender on this link.
    pub source_mac: MacAddress,
    /// The receiver on this link.
    pub destination_mac: MacAddress,
    /// The sender; of the same IP version as the receiver.
    pub source: Address,
    /// The receiver.
    pub destination: Address,
    /// The UDP port of the sender, by which networks spread flows.
    pub source_port: u16,
}

const TTL: u8 = 64;

impl Path {
    /// Bytes in front of a payload.
    #[must_use]
    #[inline]
    pub const fn front_bytes(&self, header: &Header) -> usize {
        self.udp_at() + udp::HEADER_BYTES + header.opcode.header_bytes()
    }

    /// Bytes of a whole frame.
    #[must_use]
    #[inline]
    pub const fn frame_bytes(&self, header: &Header, payload_bytes: usize) -> usize {
        self.front_bytes(header) + payload_bytes + pad_bytes(payload_bytes) + ICRC_BYTES
    }

    const fn udp_at(&self) -> usize {
        match self.source.is_v4() {
            true => ethernet::HEADER_BYTES + ipv4::HEADER_BYTES,
            false => ethernet::HEADER_BYTES + ipv6::HEADER_BYTES,
        }
    }

    /// Writes all of a frame that is not its payload: `frame` is [as long](Self::frame_bytes) as it
    /// will be, and the payload lies [in its place](Self::front_bytes). UDP has no checksum, as the
    /// ICRC is a better one.
    ///
    /// # Errors
    /// [`BuildError::BufferTooSmall`] if it is not as long; [`BuildError::WrongKind`] if the header has
    /// not what its opcode says; [`BuildError::FieldRange`] for numbers above 24 bits;
    /// [`BuildError::TooLong`]; [`BuildError::Family`] if the addresses differ in version.
    pub fn emit(
        &self,
        header: &Header,
        payload_bytes: usize,
        frame: &mut [u8],
    ) -> Result<(), BuildError> {
        header.check()?;
        if frame.len() != self.frame_bytes(header, payload_bytes) {
            return Err(BuildError::BufferTooSmall);
        }
        let udp_at = self.udp_at();
        self.emit_lower(frame.len() - udp_at, frame)?;
        let front = self.front_bytes(header);
        header.write(
            pad_bytes(payload_bytes),
            &mut frame[udp_at + udp::HEADER_BYTES..front],
        );
        let end = frame.len() - ICRC_BYTES;
        frame[front + payload_bytes..end].fill(0);
        let code = icrc(frame, &self.layout(frame.len()), end).unwrap_or(0);
        frame[end..].copy_from_slice(&code.to_le_bytes());
        Ok(())
    }

    /// Ethernet, IP and UDP.
    fn emit_lower(&self, datagram_bytes: usize, frame: &mut [u8]) -> Result<(), BuildError> {
        let is_v4 = self.source.is_v4();
        let ether_type = match is_v4 {
            true => protocol::ETHER_IPV4,
            false => protocol::ETHER_IPV6,
        };
        let ethernet = EthernetRepr {
            destination: self.destination_mac,
            source: self.source_mac,
            ether_type,
        };
        ethernet.emit(frame)?;
        let payload_bytes = u16::try_from(datagram_bytes).map_err(|_| BuildError::TooLong)?;
        let ip = &mut frame[ethernet::HEADER_BYTES..];
        match is_v4 {
            true => self.v4(payload_bytes).emit(ip)?,
            false => self.v6(payload_bytes).emit(ip)?,
        }
        let udp = UdpRepr {
            source_port: self.source_port,
            destination_port: PORT,
            payload_bytes: payload_bytes - udp::HEADER_BYTES as u16,
        };
        udp.emit(&mut frame[self.udp_at()..])
    }

    const fn v4(&self, payload_bytes: u16) -> Ipv4Repr {
        Ipv4Repr {
            source: self.source,
            destination: self.destination,
            protocol: protocol::UDP,
            ttl: TTL,
            dscp: 0,
            ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset_bytes: 0,
            options: OptionBytes::EMPTY,
            payload_bytes,
        }
    }

    const fn v6(&self, payload_bytes: u16) -> Ipv6Repr {
        Ipv6Repr {
            source: self.source,
            destination: self.destination,
            next_header: protocol::UDP,
            hop_limit: TTL,
            traffic_class: 0,
            flow_label: 0,
            payload_bytes,
        }
    }

    /// Where everything is in a frame of so many bytes.
    fn layout(&self, frame_bytes: usize) -> Layout {
        let l4 = self.udp_at();
        Layout {
            l3: ethernet::HEADER_BYTES as u16,
            l4: l4 as u16,
            payload: (l4 + udp::HEADER_BYTES) as u16,
            end: frame_bytes as u32,
            network: match self.source.is_v4() {
                true => Network::V4,
                false => Network::V6,
            },
            transport: Transport::Udp,
            protocol: protocol::UDP,
            fragment: Fragment::Whole,
            inner: None,
        }
    }

    /// The way back, to the port that RoCE listens on from the same source port.
    #[must_use]
    pub const fn back(&self) -> Self {
        Self {
            source_mac: self.destination_mac,
            destination_mac: self.source_mac,
            source: self.destination,
            destination: self.source,
            source_port: self.source_port,
        }
    }
}
