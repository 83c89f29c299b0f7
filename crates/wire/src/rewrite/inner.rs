use super::mend::{mend, mend_transport, mend_udp, replace16};
use super::{RewriteError, check_family, check_length, set_address};
use crate::address::Endpoint;
use crate::checksum::Delta;
use crate::fields::{Side, inner_port_at};
use crate::layout::{Inner, Layout, Network};
use crate::{icmp, ipv4, ipv6, protocol, tcp, udp};

/// Sets the source of the packet that an ICMP error quotes. Mends the inner IP header checksum,
/// the inner transport checksum if it is quoted, and the outer ICMP checksum.
///
/// # Errors
/// [`RewriteError::NoInner`], [`RewriteError::Family`], [`RewriteError::ShortFrame`].
pub fn set_inner_source(
    frame: &mut [u8],
    layout: &Layout,
    new: Endpoint,
) -> Result<(), RewriteError> {
    set_inner_endpoint(frame, layout, Side::Source, new)
}

/// Sets the destination of the packet that an ICMP error quotes, as [`set_inner_source`] does its
/// source.
///
/// # Errors
/// As [`set_inner_source`].
pub fn set_inner_destination(
    frame: &mut [u8],
    layout: &Layout,
    new: Endpoint,
) -> Result<(), RewriteError> {
    set_inner_endpoint(frame, layout, Side::Destination, new)
}

fn set_inner_endpoint(
    frame: &mut [u8],
    layout: &Layout,
    side: Side,
    new: Endpoint,
) -> Result<(), RewriteError> {
    check_length(frame, layout)?;
    let inner = layout.inner.ok_or(RewriteError::NoInner)?;
    check_family(inner.network, new.address)?;
    let quote = frame
        .get(usize::from(inner.l3)..layout.end as usize)
        .unwrap_or(&[]);
    let routed = side == Side::Destination
        && inner.network == Network::V6
        && ipv6::routed_destination(quote).is_some();
    let address = set_address(frame, inner.network, inner.l3, side, new.address);
    let mut outer = address;
    if inner.network == Network::V4 {
        outer += mend(frame, usize::from(inner.l3) + ipv4::CHECKSUM_AT, address);
    }
    let port = match inner_port_at(frame, &inner, side) {
        Some(at) => replace16(frame, at, new.port),
        None => Delta::NONE,
    };
    outer += port;
    let pseudo = if routed { Delta::NONE } else { address };
    outer += mend_inner_transport(frame, layout, &inner, pseudo, port);
    mend_transport(frame, layout, outer);
    Ok(())
}

/// Mends the quoted transport checksum, if it is there, and tells how that changed the quote.
fn mend_inner_transport(
    frame: &mut [u8],
    layout: &Layout,
    inner: &Inner,
    pseudo: Delta,
    port: Delta,
) -> Delta {
    let l4 = usize::from(inner.l4);
    match (inner.protocol, inner.network) {
        (protocol::TCP, _) if l4 + tcp::CHECKSUM_AT + 2 <= layout.end as usize => {
            mend(frame, l4 + tcp::CHECKSUM_AT, pseudo + port)
        }
        (protocol::UDP, _) => mend_udp(frame, l4 + udp::CHECKSUM_AT, pseudo + port),
        (protocol::ICMP, Network::V4) => mend(frame, l4 + icmp::CHECKSUM_AT, port),
        (protocol::ICMP6, Network::V6) => mend(frame, l4 + icmp::CHECKSUM_AT, pseudo + port),
        _ => Delta::NONE,
    }
}
