//! What stands between Ethernet's addresses and the IP packet: VLAN tags, and behind them perhaps
//! an MPLS label stack (RFC 3032), a PPPoE session (RFC 2516), or LLC and SNAP (RFC 1042).

use crate::bytes::{array_at, put, u16_at};
use crate::kinds::{Network, Unparsed};
use crate::malformed::Malformed;
use crate::{ethernet, protocol, vlan};

/// The most VLAN tags that are followed.
pub const MAX_VLAN_TAGS: usize = 4;
/// The most MPLS labels that are followed.
pub const MAX_MPLS_LABELS: usize = 8;

/// Bytes of an MPLS label stack entry.
const LABEL_BYTES: usize = 4;
/// Bytes of the PPPoE header and of PPP's protocol number behind it.
const SESSION_BYTES: usize = 8;
/// Where the PPPoE header has the length of what is behind it.
const SESSION_LENGTH_AT: usize = 4;
/// Version 1, type 1, session data.
const SESSION_START: [u8; 2] = [0x11, 0x00];
/// PPP's number of IPv4.
const PPP_IPV4: u16 = 0x0021;
/// PPP's number of IPv6.
const PPP_IPV6: u16 = 0x0057;
/// LLC for SNAP, unnumbered information, and the organisation of EtherTypes.
const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// Where the IP packet lies in a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its version; none if there is no IP packet.
    pub network: Network,
    /// Its first byte; what stands behind the tags if there is none.
    pub l3: usize,
    /// The end of all that may belong to it.
    pub end: usize,
}

impl Link {
    /// Walks to the IP packet of a frame.
    pub fn of(frame: &[u8]) -> Result<Self, Malformed> {
        let (ether_type, at) = behind_tags(frame)?;
        let found = match ether_type {
            protocol::ETHER_MPLS | protocol::ETHER_MPLS_UPSTREAM => behind_labels(frame, at),
            protocol::ETHER_PPPOE_SESSION => in_session(frame, at),
            0..=protocol::MAX_LLC_BYTES => behind_snap(frame, at, ether_type.into()),
            _ => Self::announced(ether_type, at, frame.len()),
        };
        Ok(found.unwrap_or(Self {
            network: Network::None,
            l3: at,
            end: frame.len(),
        }))
    }

    /// An IP packet that an EtherType announces.
    fn announced(ether_type: u16, l3: usize, end: usize) -> Option<Self> {
        let network = match ether_type {
            protocol::ETHER_IPV4 => Network::V4,
            protocol::ETHER_IPV6 => Network::V6,
            _ => return None,
        };
        Some(Self { network, l3, end })
    }
}

/// The EtherType behind all tags, and what it announces.
fn behind_tags(frame: &[u8]) -> Result<(u16, usize), Malformed> {
    let header: [u8; 2] =
        array_at(frame, ethernet::ETHER_TYPE_AT).ok_or(Malformed::TruncatedEthernet)?;
    let mut ether_type = u16::from_be_bytes(header);
    let mut at = ethernet::HEADER_BYTES;
    for _ in 0..MAX_VLAN_TAGS {
        if !protocol::is_vlan(ether_type) {
            break;
        }
        let tag: [u8; vlan::TAG_BYTES] = array_at(frame, at).ok_or(Malformed::TruncatedVlan)?;
        ether_type = u16::from_be_bytes([tag[2], tag[3]]);
        at += vlan::TAG_BYTES;
    }
    match protocol::is_vlan(ether_type) {
        true => Err(Malformed::TooManyVlanTags),
        false => Ok((ether_type, at)),
    }
}

/// A label stack does not say what it carries: the first four bits of an IP packet do.
fn behind_labels(frame: &[u8], mut at: usize) -> Option<Link> {
    for _ in 0..MAX_MPLS_LABELS {
        let [_, _, flags, _]: [u8; LABEL_BYTES] = array_at(frame, at)?;
        at += LABEL_BYTES;
        if flags & 1 != 0 {
            let network = match frame.get(at)? >> 4 {
                4 => Network::V4,
                6 => Network::V6,
                _ => return None,
            };
            let end = frame.len();
            return Some(Link {
                network,
                l3: at,
                end,
            });
        }
    }
    None
}

fn in_session(frame: &[u8], at: usize) -> Option<Link> {
    let header: [u8; SESSION_BYTES] = array_at(frame, at)?;
    let [version, code, _, _, high, low, ppp @ ..] = header;
    let network = match u16::from_be_bytes(ppp) {
        PPP_IPV4 => Network::V4,
        PPP_IPV6 => Network::V6,
        _ => return None,
    };
    let (l3, length) = (at + SESSION_BYTES, u16::from_be_bytes([high, low]));
    let end = l3 - 2 + usize::from(length);
    let is_sound = [version, code] == SESSION_START && (l3..=frame.len()).contains(&end);
    is_sound.then_some(Link { network, l3, end })
}

fn behind_snap(frame: &[u8], at: usize, length: usize) -> Option<Link> {
    let header: [u8; 8] = array_at(frame, at)?;
    let [snap @ .., high, low] = header;
    let (l3, end) = (at + header.len(), at + length);
    let is_sound = snap == SNAP && (l3..=frame.len()).contains(&end);
    is_sound
        .then(|| Link::announced(u16::from_be_bytes([high, low]), l3, end))
        .flatten()
}

/// Whether the IP packet of a frame stands behind MPLS labels.
pub(crate) fn has_labels(frame: &[u8]) -> bool {
    let labels = [protocol::ETHER_MPLS, protocol::ETHER_MPLS_UPSTREAM];
    behind_tags(frame).is_ok_and(|(ether_type, _)| labels.contains(&ether_type))
}

/// The datagram of a frame ends somewhere else now: lengths in front of it say so.
pub(crate) fn set_end(frame: &mut [u8], end: usize) {
    let Ok((ether_type, at)) = behind_tags(frame) else {
        return;
    };
    let (length_at, from) = match ether_type {
        protocol::ETHER_PPPOE_SESSION => (at + SESSION_LENGTH_AT, at + SESSION_BYTES - 2),
        0..=protocol::MAX_LLC_BYTES => (at - 2, at),
        _ => return,
    };
    let length = u16::try_from(end.saturating_sub(from)).unwrap_or(u16::MAX);
    put(frame, length_at, length.to_be_bytes());
}

/// What stands behind the tags of a frame without an IP packet at `at`, by its EtherType.
pub(crate) fn unparsed(frame: &[u8], at: usize) -> Unparsed {
    match u16_at(frame, at.wrapping_sub(2)) {
        0..protocol::MIN_ETHER_TYPE => Unparsed::Llc,
        protocol::ETHER_ARP => Unparsed::Arp,
        protocol::ETHER_MPLS | protocol::ETHER_MPLS_UPSTREAM => Unparsed::Mpls,
        protocol::ETHER_PPPOE_DISCOVERY | protocol::ETHER_PPPOE_SESSION => Unparsed::Pppoe,
        _ => Unparsed::EtherType,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with this behind its MAC addresses.
    fn frame(parts: &[&[u8]]) -> Vec<u8> {
        [&[0; 12][..], &parts.concat()].concat()
    }

    fn found(parts: &[&[u8]]) -> Option<(Network, usize, usize)> {
        let link = Link::of(&frame(parts)).expect("tags are whole");
        (link.network != Network::None).then_some((link.network, link.l3, link.end))
    }

    const LABEL: [u8; 4] = [0, 1, 0x00, 64];
    const LAST: [u8; 4] = [0, 2, 0x01, 64];

    #[test]
    fn labels_are_followed_to_the_last() {
        for (first, network) in [(0x45, Network::V4), (0x60, Network::V6)] {
            for upstream in [0x47, 0x48] {
                for labels in 0..MAX_MPLS_LABELS {
                    let stack = LABEL.repeat(labels);
                    let parts: [&[u8]; 4] = [&[0x88, upstream], &stack, &LAST, &[first]];
                    let l3 = 14 + 4 * (labels + 1);
                    assert_eq!(found(&parts), Some((network, l3, l3 + 1)));
                }
            }
        }
        let tagged: [&[u8]; 4] = [&[0x91, 0x00, 0, 5], &[0x88, 0x47], &LAST, &[0x45]];
        assert_eq!(found(&tagged), Some((Network::V4, 22, 23)));
        let too_many = LABEL.repeat(MAX_MPLS_LABELS);
        let none: [&[&[u8]]; 4] = [
            &[&[0x88, 0x47], &too_many, &LAST, &[0x45]],
            &[&[0x88, 0x47], &LAST, &[0x00]],
            &[&[0x88, 0x47], &LAST],
            &[&[0x88, 0x47], &[0, 0, 1]],
        ];
        none.into_iter()
            .for_each(|parts| assert_eq!(found(parts), None));
    }

    #[test]
    fn sessions_end_where_they_say() {
        let session = |start: [u8; 2], length: u8, ppp: u8| {
            let header = [0x88, 0x64, start[0], start[1], 0, 7, 0, length, 0, ppp];
            found(&[&header, &[0; 30]])
        };
        assert_eq!(session([0x11, 0], 30, 0x21), Some((Network::V4, 22, 50)));
        assert_eq!(session([0x11, 0], 2, 0x57), Some((Network::V6, 22, 22)));
        assert_eq!(session([0x11, 0], 33, 0x21), None, "beyond the frame");
        assert_eq!(session([0x11, 0], 1, 0x21), None, "no protocol");
        assert_eq!(session([0x11, 0xa7], 30, 0x21), None, "a session's end");
        assert_eq!(session([0x21, 0], 30, 0x21), None, "another version");
        assert_eq!(session([0x11, 0], 30, 0x3d), None, "neither version of IP");
    }

    #[test]
    fn snap_announces_ether_types() {
        let snap = |length: u8, llc: [u8; 6], ether_type: u16| {
            found(&[&[0, length], &llc, &ether_type.to_be_bytes(), &[0; 30]])
        };
        assert_eq!(snap(28, SNAP, 0x0800), Some((Network::V4, 22, 42)));
        assert_eq!(snap(8, SNAP, 0x86dd), Some((Network::V6, 22, 22)));
        assert_eq!(snap(7, SNAP, 0x0800), None, "no room for its header");
        assert_eq!(snap(39, SNAP, 0x0800), None, "beyond the frame");
        assert_eq!(snap(28, SNAP, 0x0806), None, "no IP");
        let other = [0xaa, 0xaa, 0x03, 0, 0, 0x0c];
        assert_eq!(snap(28, other, 0x0800), None, "numbers of somebody else");
    }

    #[test]
    fn lengths_follow_the_datagram() {
        let session: [&[u8]; 2] = [
            &[0x81, 0, 0, 5, 0x88, 0x64, 0x11, 0, 0, 7, 0, 30, 0, 0x21],
            &[0; 28],
        ];
        let llc: [&[u8]; 4] = [&[0, 36], &SNAP, &[0x08, 0x00], &[0; 28]];
        for parts in [&session[..], &llc] {
            let mut frame = frame(parts);
            let before = Link::of(&frame).expect("whole");
            assert_eq!(before.end, frame.len());
            set_end(&mut frame, before.end - 5);
            let end = before.end - 5;
            assert_eq!(Link::of(&frame), Ok(Link { end, ..before }));
        }
        let mut plain = frame(&[&[0x08, 0x00], &[0; 28]]);
        let before = plain.clone();
        set_end(&mut plain, 20);
        assert_eq!(plain, before, "nothing in front says how long it is");
    }

    #[test]
    fn what_is_no_ip_is_told_apart() {
        for (ether_type, kind) in [
            (0x0806, Unparsed::Arp),
            (0x0026, Unparsed::Llc),
            (0x05ff, Unparsed::Llc),
            (0x8847, Unparsed::Mpls),
            (0x8863, Unparsed::Pppoe),
            (0x8864, Unparsed::Pppoe),
            (0x88cc, Unparsed::EtherType),
        ] {
            let frame = frame(&[&u16::to_be_bytes(ether_type), &[0; 40]]);
            let link = Link::of(&frame).expect("whole");
            assert_eq!(link.network, Network::None);
            assert_eq!(unparsed(&frame, link.l3), kind, "{ether_type:#x}");
        }
    }
}
