use super::{Fragment, Layout, MAX_FRAME_BYTES, Network, Transport};
use crate::bytes::{u16_at, u32_at};
use crate::{ipv4, protocol, tcp, udp};

/// The fast path: IPv4 without options or fragments at offset `L3`, with TCP or UDP. It is for the
/// caller to know that Ethernet and its tags end there; the EtherType is looked at here. `None`
/// means "look closer", not that anything is wrong.
#[inline(always)]
pub(super) fn plain_ipv4<const L3: usize>(frame: &[u8]) -> Option<Layout> {
    let l4 = L3 + ipv4::HEADER_BYTES;
    if frame.len() < l4 + udp::HEADER_BYTES || frame.len() > MAX_FRAME_BYTES {
        return None;
    }
    // EtherType, version and header length in one comparison.
    let start = u32_at(frame, L3 - 2);
    let end = L3 + usize::from(u16_at(frame, L3 + ipv4::TOTAL_LENGTH_AT));
    if start & 0xffff_ff00 != 0x0800_4500 || end > frame.len() {
        return None;
    }
    // Fragment offset, "more fragments" and protocol in another.
    let kind = u32_at(frame, L3 + FRAGMENT_AT) & 0x3fff_00ff;
    let (transport, header_bytes) = match kind {
        PLAIN_TCP => (Transport::Tcp, tcp_header_bytes(frame, l4)?),
        PLAIN_UDP => (Transport::Udp, udp_header_bytes(frame, l4, end)?),
        _ => return None,
    };
    let payload = l4 + header_bytes;
    let layout = Layout {
        l3: L3 as u16,
        l4: l4 as u16,
        payload: payload as u16,
        end: end as u32,
        network: Network::V4,
        transport,
        protocol: kind as u8,
        fragment: Fragment::Whole,
        inner: None,
    };
    (payload <= end).then_some(layout)
}

/// Offset of flags and fragment offset within the IPv4 header; TTL and protocol follow.
const FRAGMENT_AT: usize = 6;
const PLAIN_TCP: u32 = protocol::TCP as u32;
const PLAIN_UDP: u32 = protocol::UDP as u32;

#[inline(always)]
fn tcp_header_bytes(frame: &[u8], l4: usize) -> Option<usize> {
    let header_bytes = usize::from(*frame.get(l4 + 12)? >> 4) * 4;
    (header_bytes >= tcp::HEADER_BYTES).then_some(header_bytes)
}

#[inline(always)]
fn udp_header_bytes(frame: &[u8], l4: usize, end: usize) -> Option<usize> {
    let length = usize::from(u16_at(frame, l4 + udp::LENGTH_AT));
    (length >= udp::HEADER_BYTES && l4 + length <= end).then_some(udp::HEADER_BYTES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::Endpoint;
    use crate::build::PacketBuilder;
    use crate::layout::walk::walk;
    use crate::{ethernet, vlan};

    const UNTAGGED: usize = ethernet::HEADER_BYTES;
    const TAGGED: usize = UNTAGGED + vlan::TAG_BYTES;

    fn frame(udp: bool, tagged: bool, payload: usize) -> Vec<u8> {
        let (source, destination) = (Endpoint::v4([1; 4], 1), Endpoint::v4([2; 4], 2));
        let builder = match udp {
            true => PacketBuilder::udp(source, destination),
            false => PacketBuilder::tcp(source, destination),
        };
        let builder = builder.payload_len(payload).padded();
        let builder = if tagged { builder.vlan(7) } else { builder };
        builder.to_vec().unwrap()
    }

    #[test]
    fn takes_what_it_is_for() {
        for udp in [true, false] {
            assert!(plain_ipv4::<UNTAGGED>(&frame(udp, false, 0)).is_some());
            assert!(plain_ipv4::<TAGGED>(&frame(udp, true, 1400)).is_some());
            assert!(plain_ipv4::<UNTAGGED>(&frame(udp, true, 0)).is_none());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// Whatever the fast path answers, the general path answers too.
        #[test]
        fn agrees_with_the_general_path(
            udp in any::<bool>(),
            tagged in any::<bool>(),
            payload in 0..30usize,
            damage in proptest::collection::vec((14..58usize, any::<u8>()), 0..3),
            length in 0..120usize,
        ) {
            let mut frame = frame(udp, tagged, payload);
            for (at, value) in damage {
                frame[at] = value;
            }
            frame.truncate(length);
            let plain = match tagged {
                true => plain_ipv4::<TAGGED>(&frame),
                false => plain_ipv4::<UNTAGGED>(&frame),
            };
            if let Some(layout) = plain {
                prop_assert_eq!(walk(&frame), Ok(layout));
            }
        }
    }
}
