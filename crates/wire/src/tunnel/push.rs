use super::{
    Encapsulation, HAS_KEY, HAS_VNI, MAX_KEY, MIN_INNER_BYTES, NVGRE_HEADER_BYTES,
    TRANSPARENT_ETHERNET, VXLAN_HEADER_BYTES,
};
use crate::address::{Address, MacAddress};
use crate::build_error::BuildError;
use crate::bytes::put;
use crate::checksum;
use crate::ipv6::{self, Ipv6Repr};
use crate::{ethernet, ipv4, protocol, udp};

/// The headers of one layer, as far as they are the same for all packets of a flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outer {
    /// The sender on this link.
    pub source_mac: MacAddress,
    /// The receiver on this link.
    pub destination_mac: MacAddress,
    /// Where the tunnel begins; of the same IP version as where it ends.
    pub source: Address,
    /// Where it ends.
    pub destination: Address,
    /// Its kind.
    pub encapsulation: Encapsulation,
    /// VNI or virtual subnet, at most [`MAX_KEY`].
    pub key: u32,
    /// To which UDP port VXLAN goes; usually [`VXLAN_PORT`](super::VXLAN_PORT).
    pub vxlan_port: u16,
    /// Time to live, or hop limit.
    pub ttl: u8,
}

/// What each packet has of its own.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Varying {
    /// From which UDP port VXLAN is sent.
    pub source_port: u16,
    /// IPv6's flow label, below 2^20; NVGRE's flow number is chosen apart.
    pub flow_label: u32,
    /// NVGRE's flow number.
    pub flow: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Whether VXLAN over IPv6 has a UDP checksum, which covers all of the packet. Over IPv4 there
    /// is none (RFC 7348 §5), and over IPv6 a tunnel may do without (RFC 6935 §5).
    pub udp_checksum: bool,
}

impl Outer {
    /// Bytes in front of the inner frame.
    #[must_use]
    #[inline]
    pub const fn header_bytes(&self) -> usize {
        self.transport_at() + self.transport_bytes()
    }

    /// Bytes of an outer IP packet around an inner frame of so many.
    #[must_use]
    #[inline]
    pub const fn packet_bytes(&self, inner_bytes: usize) -> usize {
        self.header_bytes() - ethernet::HEADER_BYTES + inner_bytes
    }

    const fn transport_at(&self) -> usize {
        match self.source.is_v4() {
            true => ethernet::HEADER_BYTES + ipv4::HEADER_BYTES,
            false => ethernet::HEADER_BYTES + ipv6::HEADER_BYTES,
        }
    }

    const fn transport_bytes(&self) -> usize {
        match self.encapsulation {
            Encapsulation::Vxlan => udp::HEADER_BYTES + VXLAN_HEADER_BYTES,
            Encapsulation::Nvgre => NVGRE_HEADER_BYTES,
        }
    }

    /// Writes the headers: `frame` is as long as it will be, and the inner frame lies behind
    /// [`header_bytes`](Self::header_bytes) of room. An IPv4 header says "do not fragment", so that
    /// its identification may be 0 (RFC 6864 §4.1).
    ///
    /// # Errors
    /// [`BuildError::BufferTooSmall`] without room for an inner frame; [`BuildError::TooLong`];
    /// [`BuildError::FieldRange`] for keys above 24 bits and flow labels above 20;
    /// [`BuildError::Family`] if the addresses differ in version.
    #[inline(always)]
    pub fn emit(&self, varying: &Varying, frame: &mut [u8]) -> Result<(), BuildError> {
        if frame.len() < self.header_bytes() + MIN_INNER_BYTES {
            return Err(BuildError::BufferTooSmall);
        }
        if self.key > MAX_KEY {
            return Err(BuildError::FieldRange);
        }
        let payload_bytes = frame.len() - self.transport_at();
        let payload_bytes = u16::try_from(payload_bytes).map_err(|_| BuildError::TooLong)?;
        self.emit_lower(varying, payload_bytes, frame)?;
        match self.encapsulation {
            Encapsulation::Vxlan => self.emit_vxlan(varying, payload_bytes, frame),
            Encapsulation::Nvgre => self.emit_nvgre(varying, frame),
        }
        Ok(())
    }

    /// Ethernet and IP.
    #[inline(always)]
    fn emit_lower(
        &self,
        varying: &Varying,
        payload_bytes: u16,
        frame: &mut [u8],
    ) -> Result<(), BuildError> {
        let next = match self.encapsulation {
            Encapsulation::Vxlan => protocol::UDP,
            Encapsulation::Nvgre => protocol::GRE,
        };
        let is_v4 = self.source.is_v4();
        if is_v4 != self.destination.is_v4() {
            return Err(BuildError::Family);
        }
        let ether_type = match is_v4 {
            true => protocol::ETHER_IPV4,
            false => protocol::ETHER_IPV6,
        };
        put(frame, 0, self.destination_mac.0);
        put(frame, 6, self.source_mac.0);
        put(frame, ethernet::ETHER_TYPE_AT, ether_type.to_be_bytes());
        match is_v4 {
            true => self.emit_v4(next, varying, payload_bytes, frame),
            false => {
                let header = self.v6(next, varying, payload_bytes);
                header.emit(&mut frame[ethernet::HEADER_BYTES..])
            }
        }
    }

    /// Written in words, without options: this is on every packet's way.
    #[inline(always)]
    fn emit_v4(
        &self,
        next: u8,
        varying: &Varying,
        payload_bytes: u16,
        frame: &mut [u8],
    ) -> Result<(), BuildError> {
        let length = payload_bytes.checked_add(ipv4::HEADER_BYTES as u16);
        let length = length.ok_or(BuildError::TooLong)?;
        let first = 0x4500_0000 | u32::from(varying.traffic_class) << 16 | u32::from(length);
        let second = u32::from(ipv4::DONT_FRAGMENT);
        let third = u32::from(self.ttl) << 24 | u32::from(next) << 16;
        let (source, destination) = (self.source.word(3), self.destination.word(3));
        let words = [first, second, third, source, destination];
        let sum = words.iter().map(|word| u64::from(*word)).sum();
        let third = third | u32::from(checksum::finish(sum));
        let start = u128::from(first) << 96
            | u128::from(second) << 64
            | u128::from(third) << 32
            | u128::from(source);
        put(frame, ethernet::HEADER_BYTES, start.to_be_bytes());
        let at = ethernet::HEADER_BYTES + ipv4::DESTINATION_AT;
        put(frame, at, destination.to_be_bytes());
        Ok(())
    }

    const fn v6(&self, next_header: u8, varying: &Varying, payload_bytes: u16) -> Ipv6Repr {
        Ipv6Repr {
            source: self.source,
            destination: self.destination,
            next_header,
            hop_limit: self.ttl,
            traffic_class: varying.traffic_class,
            flow_label: varying.flow_label,
            payload_bytes,
        }
    }

    #[inline(always)]
    fn emit_vxlan(&self, varying: &Varying, payload_bytes: u16, frame: &mut [u8]) {
        let at = self.transport_at();
        let ports = u64::from(varying.source_port) << 48 | u64::from(self.vxlan_port) << 32;
        let udp = ports | u64::from(payload_bytes) << 16;
        let vxlan = u64::from(HAS_VNI) << 56 | u64::from(self.key) << 8;
        let headers = u128::from(udp) << 64 | u128::from(vxlan);
        put(frame, at, headers.to_be_bytes());
        if varying.udp_checksum && !self.source.is_v4() {
            let length = payload_bytes.into();
            let pseudo =
                checksum::pseudo_header(self.source, self.destination, protocol::UDP, length);
            let sum = checksum::finish_udp(pseudo + checksum::sum(&frame[at..]));
            put(frame, at + udp::CHECKSUM_AT, sum.to_be_bytes());
        }
    }

    fn emit_nvgre(&self, varying: &Varying, frame: &mut [u8]) {
        let start = u32::from(HAS_KEY) << 16 | u32::from(TRANSPARENT_ETHERNET);
        let key = self.key << 8 | u32::from(varying.flow);
        let header = u64::from(start) << 32 | u64::from(key);
        put(frame, self.transport_at(), header.to_be_bytes());
    }
}
