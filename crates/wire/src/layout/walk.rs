use super::plain::plain_v6;
use super::{
    Fragment, Inner, Layout, MAX_FRAME_BYTES, MIN_INNER_TRANSPORT_BYTES, Network, Transport,
};
use crate::icmp::{self, IcmpView};
use crate::ipv4::Ipv4View;
use crate::ipv6::{self, Ipv6View};
use crate::link::Link;
use crate::malformed::Malformed;
use crate::tcp::TcpView;
use crate::udp::UdpView;
use crate::{protocol, udp};

/// Whatever the quickest path did not take: TCP and UDP over IPv6, tagged or not, then the general path.
#[inline(never)]
pub(super) fn dissect_any(frame: &[u8]) -> Result<Layout, Malformed> {
    plain_v6(frame).map_or_else(|| walk(frame), Ok)
}

/// The general path: every frame, step by step.
#[inline(never)]
pub(super) fn walk(frame: &[u8]) -> Result<Layout, Malformed> {
    if frame.len() > MAX_FRAME_BYTES {
        return Err(Malformed::Oversized);
    }
    let Link { network, l3, end } = Link::of(frame)?;
    let frame = frame.get(..end).unwrap_or(frame);
    match network {
        Network::V4 => dissect_ipv4(frame, l3),
        Network::V6 => dissect_ipv6(frame, l3),
        Network::None => Ok(not_ip(frame, l3)),
    }
}

fn not_ip(frame: &[u8], l3: usize) -> Layout {
    Layout {
        l3: l3 as u16,
        l4: l3 as u16,
        payload: l3 as u16,
        end: frame.len() as u32,
        network: Network::None,
        transport: Transport::None,
        protocol: 0,
        fragment: Fragment::Whole,
        inner: None,
    }
}

fn dissect_ipv4(frame: &[u8], l3: usize) -> Result<Layout, Malformed> {
    let view = Ipv4View::new(frame.get(l3..).unwrap_or(&[]))?;
    let data = view.total_length() as usize - view.header_bytes();
    if view.fragment_offset_bytes() as usize + data > usize::from(u16::MAX) {
        return Err(Malformed::FragmentBounds);
    }
    let mut datagram = Datagram {
        network: Network::V4,
        protocol: view.protocol(),
        fragment: view.fragment(),
        l3,
        l4: l3 + view.header_bytes(),
        end: l3 + usize::from(view.total_length()),
    };
    datagram.pass_authentication(frame)?;
    datagram.layout(frame)
}

fn dissect_ipv6(frame: &[u8], l3: usize) -> Result<Layout, Malformed> {
    let view = Ipv6View::new(frame.get(l3..).unwrap_or(&[]))?;
    let extensions = view.extensions()?;
    let datagram = Datagram {
        network: Network::V6,
        protocol: extensions.protocol,
        fragment: extensions.fragment,
        l3,
        l4: l3 + ipv6::HEADER_BYTES + extensions.length,
        end: l3 + ipv6::HEADER_BYTES + usize::from(view.payload_length()),
    };
    datagram.layout(frame)
}

/// What both IP versions hand to the transport layer.
struct Datagram {
    network: Network,
    protocol: u8,
    fragment: Fragment,
    l3: usize,
    l4: usize,
    end: usize,
}

impl Datagram {
    /// An authentication header over IPv4 hides nothing, no more than over IPv6 (RFC 4302). A second one
    /// is for whoever asks for the protocol.
    #[inline(always)]
    fn pass_authentication(&mut self, frame: &[u8]) -> Result<(), Malformed> {
        const SHORTEST_BYTES: usize = 12;
        if self.protocol != protocol::AUTHENTICATION || self.fragment == Fragment::Later {
            return Ok(());
        }
        let header = frame.get(self.l4..self.end).unwrap_or(&[]);
        let [next, units, ..] = *header else {
            return Err(Malformed::Ipv4Authentication);
        };
        let bytes = (usize::from(units) + 2) * 4;
        if bytes < SHORTEST_BYTES || bytes > header.len() {
            return Err(Malformed::Ipv4Authentication);
        }
        (self.protocol, self.l4) = (next, self.l4 + bytes);
        Ok(())
    }

    #[inline(always)]
    fn layout(&self, frame: &[u8]) -> Result<Layout, Malformed> {
        let bytes = frame.get(self.l4..self.end).unwrap_or(&[]);
        let (transport, header_bytes) = self.transport(bytes)?;
        let payload = self.l4 + header_bytes;
        let inner = match transport {
            Transport::Icmp | Transport::Icmp6 => self.inner(bytes, payload),
            _ => None,
        };
        Ok(Layout {
            l3: self.l3 as u16,
            l4: self.l4 as u16,
            payload: payload as u16,
            end: self.end as u32,
            network: self.network,
            transport,
            protocol: self.protocol,
            fragment: self.fragment,
            inner,
        })
    }

    /// The transport header and its length.
    fn transport(&self, bytes: &[u8]) -> Result<(Transport, usize), Malformed> {
        if self.fragment == Fragment::Later {
            return Ok((Transport::None, 0));
        }
        match (self.protocol, self.network) {
            (protocol::TCP, _) => Ok((Transport::Tcp, TcpView::new(bytes)?.header_bytes())),
            (protocol::UDP, _) => self.udp(bytes),
            (protocol::ICMP, Network::V4) => icmp_header(bytes, Transport::Icmp),
            (protocol::ICMP6, Network::V6) => icmp_header(bytes, Transport::Icmp6),
            _ => Ok((Transport::Other, 0)),
        }
    }

    fn udp(&self, bytes: &[u8]) -> Result<(Transport, usize), Malformed> {
        match self.fragment {
            Fragment::Whole => UdpView::new(bytes)?,
            // The length counts the datagram, of which this is only a part.
            _ => UdpView::new_partial(bytes)?,
        };
        Ok((Transport::Udp, udp::HEADER_BYTES))
    }

    /// The packet that an ICMP error quotes, if enough of it is there; `message` starts at the
    /// ICMP header, the quote at `l3`.
    #[inline(never)]
    fn inner(&self, message: &[u8], l3: usize) -> Option<Inner> {
        if !icmp::is_error(self.network, *message.first()?) {
            return None;
        }
        let quoted = message.get(icmp::HEADER_BYTES..)?;
        let (protocol, header_bytes) = match self.network {
            Network::V4 => quoted_ipv4(quoted)?,
            Network::V6 => quoted_ipv6(quoted)?,
            Network::None => return None,
        };
        if quoted.len() < header_bytes + MIN_INNER_TRANSPORT_BYTES {
            return None;
        }
        let l4 = u16::try_from(l3 + header_bytes).ok()?;
        Some(Inner {
            l3: l3 as u16,
            l4,
            network: self.network,
            protocol,
        })
    }
}

fn icmp_header(bytes: &[u8], transport: Transport) -> Result<(Transport, usize), Malformed> {
    IcmpView::new(bytes)?;
    Ok((transport, icmp::HEADER_BYTES))
}

fn quoted_ipv4(quoted: &[u8]) -> Option<(u8, usize)> {
    let view = Ipv4View::new_quoted(quoted).ok()?;
    let has_transport = view.fragment() != Fragment::Later;
    has_transport.then_some((view.protocol(), view.header_bytes()))
}

fn quoted_ipv6(quoted: &[u8]) -> Option<(u8, usize)> {
    let view = Ipv6View::new_quoted(quoted).ok()?;
    let extensions = view.extensions().ok()?;
    let has_transport = extensions.fragment != Fragment::Later;
    has_transport.then_some((extensions.protocol, ipv6::HEADER_BYTES + extensions.length))
}

#[cfg(test)]
mod tests;
