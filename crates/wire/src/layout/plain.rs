use super::{Fragment, Layout, MAX_FRAME_BYTES, Network, Transport};
use crate::bytes::{u16_at, u32_at};
use crate::{ethernet, ipv4, protocol, tcp, udp};

/// The fast path: untagged IPv4 without options or fragments, with TCP or UDP. `None` means "look
/// closer", not that anything is wrong.
#[inline(always)]
pub(super) fn plain_ipv4(frame: &[u8]) -> Option<Layout> {
    if frame.len() > MAX_FRAME_BYTES {
        return None;
    }
    let head: &[u8; PLAIN_L4 + udp::HEADER_BYTES] = frame.first_chunk()?;
    // EtherType, version and header length in one comparison.
    let start = u32_at(head, 12);
    let end = ethernet::HEADER_BYTES + usize::from(u16_at(head, 16));
    if start & 0xffff_ff00 != 0x0800_4500 || end > frame.len() {
        return None;
    }
    // Fragment offset, "more fragments" and protocol in another.
    let kind = u32_at(head, 20);
    match kind & 0x3fff_00ff {
        PLAIN_TCP => plain_tcp(frame, end),
        PLAIN_UDP => plain_udp(head, end),
        _ => None,
    }
}

const PLAIN_L4: usize = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES;
const PLAIN_TCP: u32 = protocol::TCP as u32;
const PLAIN_UDP: u32 = protocol::UDP as u32;

#[inline(always)]
fn plain_tcp(frame: &[u8], end: usize) -> Option<Layout> {
    let header_bytes = usize::from(*frame.get(PLAIN_L4 + 12)? >> 4) * 4;
    let payload = PLAIN_L4 + header_bytes;
    let fits = header_bytes >= tcp::HEADER_BYTES && payload <= end;
    fits.then(|| plain_layout(Transport::Tcp, protocol::TCP, payload, end))
}

#[inline(always)]
fn plain_udp(head: &[u8; PLAIN_L4 + udp::HEADER_BYTES], end: usize) -> Option<Layout> {
    let length = usize::from(u16_at(head, 38));
    let fits = length >= udp::HEADER_BYTES && PLAIN_L4 + length <= end;
    fits.then(|| plain_layout(Transport::Udp, protocol::UDP, head.len(), end))
}

#[inline(always)]
const fn plain_layout(transport: Transport, protocol: u8, payload: usize, end: usize) -> Layout {
    Layout {
        l3: ethernet::HEADER_BYTES as u16,
        l4: PLAIN_L4 as u16,
        payload: payload as u16,
        end: end as u32,
        network: Network::V4,
        transport,
        protocol,
        fragment: Fragment::Whole,
        inner: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::Endpoint;
    use crate::build::PacketBuilder;
    use crate::layout::walk::dissect_any;

    fn frame(udp: bool, payload: usize) -> Vec<u8> {
        let (source, destination) = (Endpoint::v4([1; 4], 1), Endpoint::v4([2; 4], 2));
        let builder = match udp {
            true => PacketBuilder::udp(source, destination),
            false => PacketBuilder::tcp(source, destination),
        };
        builder.payload_len(payload).padded().to_vec().unwrap()
    }

    #[test]
    fn takes_what_it_is_for() {
        assert!(plain_ipv4(&frame(true, 0)).is_some());
        assert!(plain_ipv4(&frame(false, 1400)).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// Whatever the fast path answers, the general path answers too.
        #[test]
        fn agrees_with_the_general_path(
            udp in any::<bool>(),
            payload in 0..30usize,
            damage in proptest::collection::vec((12..56usize, any::<u8>()), 0..3),
            length in 0..120usize,
        ) {
            let mut frame = frame(udp, payload);
            for (at, value) in damage {
                frame[at] = value;
            }
            frame.truncate(length);
            if let Some(layout) = plain_ipv4(&frame) {
                prop_assert_eq!(dissect_any(&frame), Ok(layout));
            }
        }
    }
}
