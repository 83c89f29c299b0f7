//! A load balancer's word that a connection's packets may go straight to where it sends them: an ICMP
//! redirect that says more than others do ("fast path ICMP flow redirection" of DASH).
//!
//! It comes by a tunnel to the ENI's machine, with the addresses of the connection as the balancer saw
//! them. Over IPv4 the packet that it is about follows the ICMP header (RFC 792), over IPv6 it is an
//! option (RFC 4861 §4.6.3, here with ports and a sequence number alone behind the header). Behind it
//! stand version, address family, kind and key of the tunnel, address and MAC address of the machine.
//!
//! It comes in NVGRE, with a key that says what it is about: packets that left without a tunnel, or in one.

use twinpath_core::wire::layout::{Fragment, Layout, Network};
use twinpath_core::wire::tunnel::Encapsulation;
use twinpath_core::wire::unicast::{check_host, check_station};
use twinpath_core::wire::{
    Address, Endpoint, MacAddress, fields, icmp, ipv6, protocol, verify_transport_checksum,
};

use super::action::{Action, Detour, Layer};
use super::arrival::Arrival;
use super::policy::Policies;
use crate::headers::Headers;
use crate::objects::Vni;
use crate::reason::Reason;

/// The key of NVGRE that redirects come with about packets that leave without a tunnel.
const PUBLIC_KEY: u32 = 253;
/// That of redirects about packets that leave in one.
const PRIVATE_KEY: u32 = 254;

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
    /// The tunnel for packets that left without one, if it is one that can be made.
    pub encapsulation: Option<Encapsulation>,
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
            1 => Some(Encapsulation::Nvgre),
            2 => Some(Encapsulation::Vxlan),
            // IP in IP, which packets in a tunnel are not asked about.
            3 => None,
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

    /// What the way was, before any redirect, of packets that this is done to.
    fn detour(&self, before: &Action) -> Detour {
        before.detour.unwrap_or(match before.layers[0] {
            Some(layer) => Detour {
                instead_of: layer.destination,
                adds_tunnel: false,
            },
            None => Detour {
                instead_of: self.sent.destination,
                adds_tunnel: true,
            },
        })
    }

    /// The header that is put around packets from now on. What they left in already stays, but for the
    /// host; those that left in none get what the redirect says, from where they came from until now.
    fn layer(&self, before: &Action, detour: Detour) -> Result<Layer, Reason> {
        match before.layers[0].filter(|_| !detour.adds_tunnel) {
            Some(layer) => Ok(Layer {
                destination: self.host,
                ..layer
            }),
            None => Ok(Layer {
                encapsulation: self.encapsulation.ok_or(Reason::Unsupported)?,
                key: self.key,
                source: self.sent.source,
                destination: self.host,
            }),
        }
    }
}

impl Policies<'_> {
    /// What is done to a connection's packets once a redirect has come that is about them, where this
    /// was done `before`.
    ///
    /// # Errors
    /// Whoever sent it may not move them; or it leads to no one host and machine, or back to where packets
    /// come from; or the host has an address of the other IP version.
    pub fn redirected(
        &self,
        redirect: &Redirect,
        arrival: &Arrival,
        before: &Action,
    ) -> Result<Action, Reason> {
        let detour = redirect.detour(before);
        self.may_move(arrival, detour)?;
        let layer = redirect.layer(before, detour)?;
        let is_unicast = check_host(redirect.host).is_ok() && check_station(redirect.mac).is_ok();
        let is_back = redirect.host == layer.source || Ok(redirect.host) == self.own_address();
        if !is_unicast || is_back {
            return Err(Reason::ForgedRedirect);
        }
        if layer.source.is_v4() != layer.destination.is_v4() {
            return Err(Reason::Unsupported);
        }
        if detour.adds_tunnel && !self.may_lead_to(layer.key) {
            return Err(Reason::UntrustedVni);
        }
        Ok(Action {
            layers: [Some(layer), before.layers[1]],
            destination_mac: Some(redirect.mac),
            detour: Some(detour),
            ..*before
        })
    }

    /// Whether a redirect that came like this may move packets. The key of its tunnel says which ones it
    /// is for. It comes from where they were sent, or from somebody whom the inbound rules for that key let in;
    /// where there are none for it, from anybody if the key is listed as trusted: who lists it says that
    /// load balancers alone send with it.
    fn may_move(&self, arrival: &Arrival, detour: Detour) -> Result<(), Reason> {
        let key = match detour.adds_tunnel {
            true => PUBLIC_KEY,
            false => PRIVATE_KEY,
        };
        if arrival.encapsulation != Encapsulation::Nvgre || arrival.key != key {
            return Err(Reason::FlowVni);
        }
        if !self.is_trusted(arrival) {
            return Err(Reason::UntrustedVni);
        }
        let is_platforms = self.lists(key) && !self.tables.is_network(key);
        let has_rules = Vni::new(key).is_some_and(|vni| self.eni.inbound.has(vni));
        match arrival.outer_source == detour.instead_of || is_platforms && !has_rules {
            true => Ok(()),
            false => self.admits(arrival),
        }
    }

    /// Whether a redirect may have packets leave with a key that it tells: one of those that are trusted, and
    /// of no tenant.
    fn may_lead_to(&self, key: u32) -> bool {
        (self.lists_none() || self.lists(key)) && !self.tables.is_network(key)
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
