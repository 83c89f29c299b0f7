//! A load balancer's word that a connection's packets may go straight to where it sends them: an ICMP
//! redirect that says more than others do ("fast path ICMP flow redirection" of DASH).
//!
//! It comes by a tunnel to the ENI's machine, with the addresses of the connection as the balancer saw
//! them. Over IPv4 the packet that it is about follows the ICMP header (RFC 792), over IPv6 it is an
//! option (RFC 4861 §4.6.3, here with ports and a sequence number alone behind the header). Behind it
//! stand version, address family, kind and key of the tunnel, address and MAC address of the machine.

use twinpath_core::wire::layout::{Fragment, Layout, Network};
use twinpath_core::wire::tunnel::Encapsulation;
use twinpath_core::wire::unicast::{check_host, check_station};
use twinpath_core::wire::{
    Address, Endpoint, MacAddress, fields, icmp, ipv6, protocol, verify_transport_checksum,
};

use super::action::{Detour, Layer};
use crate::headers::Headers;
use crate::reason::Reason;

/// Bytes of an ICMPv6 redirect before its options: header, target, destination.
const V6_OPTIONS_AT: usize = 40;
/// Bytes of the option before the packet's header.
const OPTION_HEADER_BYTES: usize = 8;
/// Ports and sequence number.
const TRANSPORT_BYTES: usize = 8;

/// What a redirect says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The packet that it is about, as the balancer saw it.
    pub sent: Headers,
    /// The tunnel.
    pub encapsulation: Encapsulation,
    /// Its VNI or virtual subnet.
    pub key: u32,
    /// The host that carries the machine.
    pub host: Address,
    /// The machine's MAC address.
    pub mac: MacAddress,
}

impl Redirect {
    /// Reads one from an inner frame; `None` if it is anything else, also a redirect that says
    /// nothing of tunnels.
    #[must_use]
    pub fn read(frame: &[u8], layout: &Layout) -> Option<Self> {
        let kind = *frame.get(usize::from(layout.l4))?;
        let (about, details_at) = match (layout.network, layout.protocol, kind) {
            _ if layout.fragment != Fragment::Whole => return None,
            (Network::V4, protocol::ICMP, icmp::v4::REDIRECT) => v4(frame, layout)?,
            (Network::V6, protocol::ICMP6, icmp::v6::REDIRECT) => v6(frame, layout)?,
            _ => return None,
        };
        if !verify_transport_checksum(frame, layout) {
            return None;
        }
        let mut details = Bytes(frame.get(details_at..layout.end as usize)?);
        let _version = details.u32()?;
        let family = details.u16()?;
        let encapsulation = match details.u16()? {
            1 => Encapsulation::Nvgre,
            2 => Encapsulation::Vxlan,
            _ => return None,
        };
        let key = details.u32()?;
        let host = match family {
            2 => Address::from_v4(details.take()?),
            // Whatever the sender's system calls it.
            10 | 23 | 24 | 28 | 30 => Address::from_v6(details.take()?),
            _ => return None,
        };
        Some(Self {
            sent: about,
            encapsulation,
            // All of GRE's key may be meant, of which the last byte is no part of the subnet.
            key: if key >> 24 == 0 { key } else { key >> 8 },
            host,
            mac: MacAddress(details.take()?),
        })
    }

    /// The way that it tells, for packets that policies send with this header.
    ///
    /// # Errors
    /// It leads to no one host and machine, or back to the DPU; or the host has an address of the other
    /// IP version.
    pub fn detour(&self, instead_of: Layer) -> Result<Detour, Reason> {
        let is_unicast = check_host(self.host).is_ok() && check_station(self.mac).is_ok();
        if !is_unicast || self.host == instead_of.source {
            return Err(Reason::ForgedRedirect);
        }
        if self.host.is_v4() != instead_of.source.is_v4() {
            return Err(Reason::Unsupported);
        }
        Ok(Detour {
            instead_of,
            layer: Layer {
                encapsulation: self.encapsulation,
                key: self.key,
                source: instead_of.source,
                destination: self.host,
            },
            destination_mac: self.mac,
        })
    }
}

/// The packet that an IPv4 redirect quotes, and where what follows it begins.
fn v4(frame: &[u8], layout: &Layout) -> Option<(Headers, usize)> {
    let quote = layout.inner?;
    let source = fields::inner_source(frame, layout)?;
    let destination = fields::inner_destination(frame, layout)?;
    let headers = tcp_between(quote.protocol, source, destination)?;
    Some((headers, usize::from(quote.l4) + TRANSPORT_BYTES))
}

/// The packet in the option of an IPv6 redirect, and where what follows it begins.
fn v6(frame: &[u8], layout: &Layout) -> Option<(Headers, usize)> {
    const REDIRECTED_HEADER: u8 = 4;
    let option_at = usize::from(layout.l4) + V6_OPTIONS_AT;
    let option = frame.get(option_at..layout.end as usize)?;
    let mut header = Bytes(option.get(OPTION_HEADER_BYTES..)?);
    if *option.first()? != REDIRECTED_HEADER || header.0.first()? >> 4 != 6 {
        return None;
    }
    let _until_next_header: [u8; 6] = header.take()?;
    let [next, _hop_limit] = header.take()?;
    let [source, destination] = [header.take()?, header.take()?].map(Address::from_v6);
    let [source_port, destination_port] = [header.u16()?, header.u16()?];
    let headers = tcp_between(
        next,
        Endpoint::new(source, source_port),
        Endpoint::new(destination, destination_port),
    )?;
    let bytes = OPTION_HEADER_BYTES + ipv6::HEADER_BYTES + TRANSPORT_BYTES;
    Some((headers, option_at + bytes))
}

/// Connections alone are moved.
fn tcp_between(number: u8, source: Endpoint, destination: Endpoint) -> Option<Headers> {
    (number == protocol::TCP).then_some(Headers {
        source: source.address,
        destination: destination.address,
        ports: Some([source.port, destination.port]),
        protocol: number,
    })
}

/// What is left of bytes that are read from their beginning.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }
}
