//! Identifications of IP packets, which functions give out: read and blanked.

use twinpath_core::wire::checksum::Delta;
use twinpath_core::wire::ipv4::{self, Ipv4View};
use twinpath_core::wire::ipv6::{self, Ipv6View};
use twinpath_core::wire::{Layout, Network, dissect, fields, icmp, protocol};

/// Offset of the identification in an IPv4 header.
const V4_AT: usize = 4;
/// Offset of the identification in an IPv6 fragment header.
const V6_AT: usize = 4;

/// The identification of a packet; `None` if it has none.
pub(crate) fn identification(frame: &[u8], layout: &Layout) -> Option<u32> {
    let datagram = frame.get(usize::from(layout.l3)..)?;
    match layout.network {
        Network::V4 => Some(Ipv4View::new_quoted(datagram).ok()?.identification().into()),
        Network::V6 => {
            Ipv6View::new_quoted(datagram)
                .ok()?
                .extensions()
                .ok()?
                .identification
        }
        Network::None => None,
    }
}

/// Makes the identifications zero, of the packet and of the one that it quotes, and mends the
/// checksums.
pub(crate) fn blank(frame: &mut [u8], layout: &Layout) {
    blank_one(frame, layout.network, usize::from(layout.l3));
    let Some(inner) = layout.inner else {
        return;
    };
    let quoted = blank_one(frame, inner.network, usize::from(inner.l3));
    let checksum_at = usize::from(layout.l4) + icmp::CHECKSUM_AT;
    replace16(frame, checksum_at, |checksum| quoted.apply(checksum));
}

/// Whether a translation may have drawn the identification of a packet: it is IPv4, and not atomic
/// (RFC 6864).
pub(crate) fn may_be_drawn(frame: &[u8], layout: &Layout) -> bool {
    layout.network == Network::V4 && !fields::is_atomic(frame, layout)
}

/// The same of the packet that one quotes.
pub(crate) fn quoted_may_be_drawn(frame: &[u8], layout: &Layout) -> bool {
    let quoted = layout.inner.filter(|inner| inner.network == Network::V4);
    quoted.is_some_and(|inner| {
        let datagram = frame.get(usize::from(inner.l3)..).unwrap_or_default();
        let view = Ipv4View::new_quoted(datagram);
        view.is_ok_and(|view| !view.dont_fragment() || view.more_fragments())
    })
}

/// Makes the identification of the packet that one quotes zero; that is IPv4.
pub(crate) fn blank_quoted(frame: &mut [u8], layout: &Layout) {
    if let Some(inner) = layout.inner {
        blank_v4(frame, usize::from(inner.l3));
    }
}

/// Makes identifications zero that a translation may have drawn, of the packet and of the one that
/// it quotes: for who compares the packets of one path with those of another.
pub fn blank_drawn(frame: &mut [u8]) {
    let Ok(layout) = dissect(frame) else {
        return;
    };
    if may_be_drawn(frame, &layout) {
        blank_v4(frame, usize::from(layout.l3));
    }
    if quoted_may_be_drawn(frame, &layout) {
        blank_quoted(frame, &layout);
    }
}

/// Of the IP header at `l3`; tells what that does to a checksum that covers this header.
fn blank_one(frame: &mut [u8], network: Network, l3: usize) -> Delta {
    match network {
        Network::V4 => blank_v4(frame, l3),
        Network::V6 => blank_v6(frame, l3),
        Network::None => Delta::NONE,
    }
}

/// With its own checksum mended, the header has the same sum as before.
fn blank_v4(frame: &mut [u8], l3: usize) -> Delta {
    let (old, _) = replace16(frame, l3 + V4_AT, |_| 0);
    let change = Delta::of16(old, 0);
    replace16(frame, l3 + ipv4::CHECKSUM_AT, |checksum| {
        change.apply(checksum)
    });
    Delta::NONE
}

fn blank_v6(frame: &mut [u8], l3: usize) -> Delta {
    let Some(at) = fragment_header_at(frame, l3) else {
        return Delta::NONE;
    };
    let halves = [at + V6_AT, at + V6_AT + 2];
    halves.into_iter().fold(Delta::NONE, |sum, half| {
        let (old, _) = replace16(frame, half, |_| 0);
        sum + Delta::of16(old, 0)
    })
}

/// Offset of the fragment header behind the IPv6 header at `l3`.
fn fragment_header_at(frame: &[u8], l3: usize) -> Option<usize> {
    const NEXT_HEADER_AT: usize = 6;
    let mut next = *frame.get(l3 + NEXT_HEADER_AT)?;
    let mut at = l3 + ipv6::HEADER_BYTES;
    while next != protocol::FRAGMENT {
        if !ipv6::is_extension(next) {
            return None;
        }
        let &[following, units] = frame.get(at..at + 2)?.first_chunk()?;
        at += match next {
            protocol::AUTHENTICATION => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        next = following;
    }
    Some(at)
}

/// Changes a number in place, if it is there; tells the old one and the new one.
fn replace16(frame: &mut [u8], at: usize, change: impl Fn(u16) -> u16) -> (u16, u16) {
    let Some(bytes) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) else {
        return (0, 0);
    };
    let old = u16::from_be_bytes(*bytes);
    let new = change(old);
    *bytes = new.to_be_bytes();
    (old, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::build::Extension;
    use twinpath_core::wire::icmp::IcmpError;
    use twinpath_core::wire::{
        Endpoint, PacketBuilder, dissect, verify_ipv4_checksum, verify_transport_checksum,
    };

    fn udp(v4: bool) -> PacketBuilder<'static> {
        let ends = match v4 {
            true => ["10.0.0.1:40000", "10.0.0.2:80"],
            false => ["[2001:db8::1]:40000", "[2001:db8::2]:80"],
        };
        let [source, destination]: [Endpoint; 2] = ends.map(|text| text.parse().unwrap());
        PacketBuilder::udp(source, destination)
    }

    fn blanked(packet: PacketBuilder<'_>) -> Vec<u8> {
        let mut frame = packet.to_vec().unwrap();
        let layout = dissect(&frame).unwrap();
        blank(&mut frame, &layout);
        assert!(verify_ipv4_checksum(&frame, &layout));
        assert!(verify_transport_checksum(&frame, &layout));
        frame
    }

    #[test]
    fn packets_that_differ_by_it_alone_become_equal() {
        let options = |id| {
            udp(false)
                .ipv6_extension(Extension::HopByHop, 2)
                .identification(id)
        };
        let packets: [fn(u32) -> PacketBuilder<'static>; 4] = [
            |id| udp(true).payload_len(20).identification(id),
            |id| {
                udp(true)
                    .fragment(8, true)
                    .payload_len(16)
                    .identification(id)
            },
            |id| {
                udp(false)
                    .fragment(0, true)
                    .payload_len(16)
                    .identification(id)
            },
            |id| {
                udp(false)
                    .fragment(8, false)
                    .payload_len(16)
                    .identification(id)
            },
        ];
        for packet in packets {
            assert_eq!(blanked(packet(0x1234)), blanked(packet(7)));
            assert_eq!(blanked(packet(0x1234)), packet(0).to_vec().unwrap());
        }
        for packet in [options(1), options(1).fragment(8, true).payload_len(8)] {
            assert_eq!(blanked(packet), packet.identification(0).to_vec().unwrap());
        }
    }

    #[test]
    fn so_do_errors_about_them() {
        for v4 in [true, false] {
            let error = |id| {
                let quoted = udp(v4).fragment(0, true).payload_len(16).identification(id);
                let quoted = quoted.to_vec().unwrap();
                blanked(PacketBuilder::icmp_error(
                    IcmpError::TimeExceeded { code: 1 },
                    &quoted,
                ))
            };
            assert_eq!(error(0xabcd), error(1));
        }
    }

    #[test]
    fn it_is_read_where_there_is_one() {
        let read = |packet: PacketBuilder<'_>| {
            let frame = packet.to_vec().unwrap();
            identification(&frame, &dissect(&frame).unwrap())
        };
        assert_eq!(read(udp(true).identification(9)), Some(9));
        assert_eq!(read(udp(false).identification(9)), None);
        let fragment = udp(false).fragment(8, true).payload_len(8);
        assert_eq!(read(fragment.identification(70_000)), Some(70_000));
    }
}
