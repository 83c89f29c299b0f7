//! Rewriting one end of what nearly every packet is, TCP or UDP over IPv4, with one look at each
//! header.

use crate::address::Endpoint;
use crate::checksum::Delta;
use crate::fields::Side;
use crate::layout::{Layout, Network, Transport};
use crate::{ipv4, tcp, udp};

/// Sets source or destination; false, with nothing changed, if the packet is another kind.
#[inline(always)]
pub(super) fn set_endpoint(frame: &mut [u8], layout: &Layout, side: Side, new: Endpoint) -> bool {
    if layout.network != Network::V4 {
        return false;
    }
    match layout.transport {
        Transport::Tcp => set::<{ tcp::CHECKSUM_AT }>(frame, layout, side, new, Delta::apply),
        Transport::Udp => set::<{ udp::CHECKSUM_AT }>(frame, layout, side, new, Delta::apply_udp),
        _ => false,
    }
}

/// An IP header without options.
const IP_BYTES: usize = ipv4::HEADER_BYTES;

#[inline(always)]
fn set<const CHECKSUM_AT: usize>(
    frame: &mut [u8],
    layout: &Layout,
    side: Side,
    new: Endpoint,
    apply: impl FnOnce(Delta, u16) -> u16,
) -> bool {
    let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
    let Some((before, transport)) = frame.split_at_mut_checked(l4) else {
        return false;
    };
    let Some(ip) = before
        .get_mut(l3..)
        .and_then(|ip| ip.first_chunk_mut::<IP_BYTES>())
    else {
        return false;
    };
    let Some(transport) = transport.get_mut(..CHECKSUM_AT + 2) else {
        return false;
    };
    let address = replace32(ip, side.address_at(Network::V4), new.address.word(3));
    mend(ip, ipv4::CHECKSUM_AT, |checksum| address.apply(checksum));
    let port = replace16(transport, side.port_at(), new.port);
    mend(transport, CHECKSUM_AT, |checksum| {
        apply(address + port, checksum)
    });
    true
}

#[inline(always)]
fn replace16(bytes: &mut [u8], at: usize, new: u16) -> Delta {
    let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
    Delta::of16(old, new)
}

#[inline(always)]
fn replace32(bytes: &mut [u8], at: usize, new: u32) -> Delta {
    let old = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    bytes[at..at + 4].copy_from_slice(&new.to_be_bytes());
    Delta::of32(old, new)
}

#[inline(always)]
fn mend(bytes: &mut [u8], at: usize, change: impl FnOnce(u16) -> u16) {
    let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    bytes[at..at + 2].copy_from_slice(&change(old).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::PacketBuilder;
    use crate::layout::dissect;
    use crate::rewrite::set_any_endpoint;
    use proptest::prelude::*;

    proptest! {
        /// What this does is what the general way does, also to checksums that were wrong.
        #[test]
        fn agrees_with_the_general_way(
            udp in any::<bool>(),
            source in any::<bool>(),
            new in any::<([u8; 4], u16)>(),
            same in any::<(bool, bool)>(),
            checksums in any::<[Option<u16>; 2]>(),
        ) {
            let (from, to) = (Endpoint::v4([10, 0, 0, 1], 4000), Endpoint::v4([10, 0, 0, 2], 80));
            let builder = match udp {
                true => PacketBuilder::udp(from, to),
                false => PacketBuilder::tcp(from, to),
            };
            let mut frame = builder.payload_len(9).to_vec().unwrap();
            let layout = dissect(&frame).unwrap();
            let transport = if udp { udp::CHECKSUM_AT } else { tcp::CHECKSUM_AT };
            let places = [usize::from(layout.l3) + ipv4::CHECKSUM_AT, usize::from(layout.l4) + transport];
            for (at, checksum) in places.into_iter().zip(checksums) {
                if let Some(checksum) = checksum {
                    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
                }
            }
            let (side, old) = if source { (Side::Source, from) } else { (Side::Destination, to) };
            let mut new = Endpoint::v4(new.0, new.1);
            if same.0 { new.address = old.address; }
            if same.1 { new.port = old.port; }
            let mut general = frame.clone();
            set_any_endpoint(&mut general, &layout, side, new);
            prop_assert!(set_endpoint(&mut frame, &layout, side, new));
            prop_assert_eq!(frame, general);
        }
    }
}
