//! Rewriting what nearly every packet is, TCP or UDP over IPv4, with one look at each header: all
//! changes of a checksum at once.
//!
//! A rule for one flow knows all that it rewrites beforehand, so that the changes of checksums
//! are summed up when the rule is stored ([`settle`]), in lanes that IPv4 leaves free:
//!
//! | lane | bits from the top |
//! |---|---|
//! | 0 | change of the IP header's checksum 32, of the transport's 32 |
//! | 2 | source address 32, destination address 32 |
//! | 4 | as before, with the ports that the packet has if they are not rewritten, and [`SETTLED`] |

use super::{Action, ActionLanes, decrements_in, written_in};
use crate::field::Field;
use crate::headers::Headers;
use crate::key::MatchKey;
use twinpath_core::wire::checksum::Delta;
use twinpath_core::wire::ipv4;
use twinpath_core::wire::layout::Layout;
use twinpath_core::wire::udp;

/// In lane 4, where no field has its bit: the action knows the packets that it is for.
pub(super) const SETTLED: u64 = 1 << 15;

/// Whether the lanes are those of [`settle`].
#[inline(always)]
pub(crate) const fn is_settled(lanes: &ActionLanes) -> bool {
    lanes[4] & SETTLED != 0
}

/// The lanes of an action for packets that agree with a value in the bits of a mask.
pub(crate) fn settle(action: &Action, mask: &MatchKey, value: &MatchKey) -> ActionLanes {
    let mut lanes = action.pack();
    let is_plain = !value.is_v6() && !value.is_echo() && action.rewrites.again.is_none();
    if !is_plain || !mask.is_of_a_flow() {
        return lanes;
    }
    let written = action.rewrites.written;
    let pick = |field: Field, new: u64, old: u64| if written.has(field) { new } else { old };
    let old = &value.0;
    let source = pick(Field::SourceAddress, lanes[1], old[1]) as u32;
    let destination = pick(Field::DestinationAddress, lanes[3], old[3]) as u32;
    let from = pick(Field::SourcePort, lanes[4], old[4]) >> 48;
    let to = pick(Field::DestinationPort, lanes[4], old[4]) >> 32 & 0xffff;
    let addresses = Delta::of32(old[1] as u32, source) + Delta::of32(old[3] as u32, destination);
    let ports = Delta::of16((old[4] >> 48) as u16, from as u16)
        + Delta::of16((old[4] >> 32) as u16, to as u16);
    // Counting down changes a sum alike wherever it begins.
    let count_down = Delta::of16(
        u16::MAX,
        u16::MAX - u16::from_be_bytes([decrements_in(&lanes), 0]),
    );
    let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    lanes[0] = pair((addresses + count_down).sum(), (addresses + ports).sum());
    lanes[2] = pair(source, destination);
    lanes[4] = from << 48 | to << 32 | lanes[4] & 0xffff_ffff | SETTLED;
    lanes
}

/// Rewrites a packet of an action that is settled; false, with nothing changed, if its headers
/// are not all there.
#[inline(always)]
pub(super) fn apply_settled<const CHECKSUM_AT: usize>(
    lanes: &ActionLanes,
    frame: &mut [u8],
    layout: &Layout,
) -> bool {
    let Some(headers) = Headers::of::<CHECKSUM_AT>(frame, layout) else {
        return false;
    };
    set_macs(lanes, headers.macs);
    let (ip, transport) = (headers.ip, headers.transport);
    ip[ipv4::SOURCE_AT..ipv4::SOURCE_AT + 8].copy_from_slice(&lanes[2].to_be_bytes());
    ip[ipv4::TTL_AT] = ip[ipv4::TTL_AT].saturating_sub(decrements_in(lanes));
    transport[..4].copy_from_slice(&((lanes[4] >> 32) as u32).to_be_bytes());
    let header = Delta::from_sum((lanes[0] >> 32) as u32);
    mend(ip, ipv4::CHECKSUM_AT, |checksum| header.apply(checksum));
    mend_transport::<CHECKSUM_AT>(transport, Delta::from_sum(lanes[0] as u32));
    true
}

#[inline(always)]
fn mend_transport<const CHECKSUM_AT: usize>(transport: &mut [u8], change: Delta) {
    mend(transport, CHECKSUM_AT, |checksum| match CHECKSUM_AT {
        udp::CHECKSUM_AT => change.apply_udp(checksum),
        _ => change.apply(checksum),
    });
}

/// Rewrites a packet of an action that writes no field twice; false, with nothing changed, if its
/// headers are not all there.
#[inline(always)]
pub(super) fn apply<const CHECKSUM_AT: usize>(
    lanes: &ActionLanes,
    frame: &mut [u8],
    layout: &Layout,
) -> bool {
    let Some(headers) = Headers::of::<CHECKSUM_AT>(frame, layout) else {
        return false;
    };
    set_macs(lanes, headers.macs);
    let (ip, transport) = (headers.ip, headers.transport);
    let addresses = set_addresses(lanes, ip);
    let ports = set_ports(lanes, transport);
    let header = addresses + count_down(lanes, ip);
    mend(ip, ipv4::CHECKSUM_AT, |checksum| header.apply(checksum));
    mend_transport::<CHECKSUM_AT>(transport, addresses + ports);
    true
}

#[inline(always)]
fn set_macs(lanes: &ActionLanes, macs: &mut [u8; 12]) {
    let written = written_in(lanes);
    if written.has(Field::DestinationMac) {
        macs[..6].copy_from_slice(&lanes[6].to_be_bytes()[..6]);
    }
    if written.has(Field::SourceMac) {
        macs[6..].copy_from_slice(&lanes[5].to_be_bytes()[..6]);
    }
}

#[inline(always)]
fn set_addresses(lanes: &ActionLanes, ip: &mut [u8; ipv4::HEADER_BYTES]) -> Delta {
    let written = written_in(lanes);
    let mut delta = Delta::NONE;
    if written.has(Field::SourceAddress) {
        delta += replace32::<{ ipv4::SOURCE_AT }>(ip, lanes[1] as u32);
    }
    if written.has(Field::DestinationAddress) {
        delta += replace32::<{ ipv4::DESTINATION_AT }>(ip, lanes[3] as u32);
    }
    delta
}

#[inline(always)]
fn set_ports(lanes: &ActionLanes, transport: &mut [u8]) -> Delta {
    let written = written_in(lanes);
    let mut delta = Delta::NONE;
    if written.has(Field::SourcePort) {
        delta += replace16(transport, 0, (lanes[4] >> 48) as u16);
    }
    if written.has(Field::DestinationPort) {
        delta += replace16(transport, 2, (lanes[4] >> 32) as u16);
    }
    delta
}

#[inline(always)]
fn count_down(lanes: &ActionLanes, ip: &mut [u8; ipv4::HEADER_BYTES]) -> Delta {
    let [ttl, protocol] = [ip[ipv4::TTL_AT], ip[ipv4::TTL_AT + 1]];
    let ttl = ttl.saturating_sub(decrements_in(lanes));
    replace16(ip, ipv4::TTL_AT, u16::from_be_bytes([ttl, protocol]))
}

#[inline(always)]
fn mend(bytes: &mut [u8], at: usize, mended: impl FnOnce(u16) -> u16) {
    let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    bytes[at..at + 2].copy_from_slice(&mended(old).to_be_bytes());
}

#[inline(always)]
fn replace16(bytes: &mut [u8], at: usize, new: u16) -> Delta {
    let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
    Delta::of16(old, new)
}

#[inline(always)]
fn replace32<const AT: usize>(ip: &mut [u8; ipv4::HEADER_BYTES], new: u32) -> Delta {
    let old = u32::from_be_bytes([ip[AT], ip[AT + 1], ip[AT + 2], ip[AT + 3]]);
    ip[AT..AT + 4].copy_from_slice(&new.to_be_bytes());
    Delta::of32(old, new)
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Fate, Rewrites, apply_any, rewrites_of};
    use super::*;
    use crate::field::Fields;
    use crate::flows::{FlowTable, LineKey, write_line};
    use proptest::prelude::*;
    use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, dissect, tcp};
    use twinpath_core::{Direction, Instant};

    proptest! {
        /// What this does is what the general way does, also to checksums that were wrong.
        #[test]
        fn agrees_with_the_general_way(
            is_udp: bool,
            has_options: bool,
            written in 0u16..1 << 10,
            new: ([u8; 4], u16, [u8; 4], u16, [u8; 6], [u8; 6]),
            same in prop::array::uniform4(any::<bool>()),
            decrements in 0u8..3,
            checksums: [Option<u16>; 2],
            ffff: [bool; 2],
        ) {
            let (from, to) = (Endpoint::v4([10, 0, 0, 1], 4000), Endpoint::v4([10, 0, 0, 2], 80));
            let builder = match is_udp {
                true => PacketBuilder::udp(from, to),
                false => PacketBuilder::tcp(from, to),
            };
            let builder = match has_options {
                true => builder.ipv4_options(&[1, 1, 1, 0]),
                false => builder,
            };
            let mut frame = builder.payload_len(9).to_vec().expect("fits");
            let layout = dissect(&frame).expect("well formed");
            let at = if is_udp { udp::CHECKSUM_AT } else { tcp::CHECKSUM_AT };
            let places = [usize::from(layout.l3) + ipv4::CHECKSUM_AT, usize::from(layout.l4) + at];
            for ((at, checksum), ffff) in places.into_iter().zip(checksums).zip(ffff) {
                if let Some(checksum) = checksum {
                    let checksum = if ffff { 0xffff } else { checksum };
                    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
                }
            }
            let (mut source, mut destination) = (Endpoint::v4(new.0, new.1), Endpoint::v4(new.2, new.3));
            if same[0] { source.address = from.address; }
            if same[1] { source.port = from.port; }
            if same[2] { destination.address = to.address; }
            if same[3] { destination.port = to.port; }
            let rewrites = Rewrites {
                written: Fields::from_bits(written),
                source,
                destination,
                source_mac: MacAddress(new.4),
                destination_mac: MacAddress(new.5),
                decrements,
                ..Rewrites::default()
            };
            let action = Action { rewrites, fate: Fate::Forward, idle: None };
            let lanes = action.pack();
            let before = frame.clone();
            let mut general = frame.clone();
            apply_any(&lanes, &mut general, &layout);
            let done = match is_udp {
                true => apply::<{ udp::CHECKSUM_AT }>(&lanes, &mut frame, &layout),
                false => apply::<{ tcp::CHECKSUM_AT }>(&lanes, &mut frame, &layout),
            };
            prop_assert!(done);
            prop_assert_eq!(&frame, &general);
            let mask = MatchKey::EXACT;
            let key = MatchKey::of(&before, &layout, 0, Direction::Original).expect("plain").and(&mask);
            let settled = settle(&action, &mask, &key);
            prop_assert!(is_settled(&settled));
            prop_assert_eq!(rewrites_of(&settled).egress(), rewrites.egress());
            let mut frame = before.clone();
            super::super::apply(&settled, &mut frame, &layout);
            prop_assert_eq!(&frame, &general);
            let mut frame = before.clone();
            apply_any(&settled, &mut frame, &layout);
            prop_assert_eq!(&frame, &general);
            let mut table = FlowTable::new(1, 1, 0);
            prop_assert!(table.insert(0, (&mask, &key), &settled, Instant(0)));
            let line = table.find(LineKey::of(&key.0).expect("IPv4")).expect("there");
            let (line, mut frame) = (table.line(line), before);
            match is_udp {
                true => Headers::of::<{ udp::CHECKSUM_AT }>(&mut frame, &layout)
                    .map(|headers| write_line::<{ udp::CHECKSUM_AT }>(line, table.macs(line), headers)),
                false => Headers::of::<{ tcp::CHECKSUM_AT }>(&mut frame, &layout)
                    .map(|headers| write_line::<{ tcp::CHECKSUM_AT }>(line, table.macs(line), headers)),
            }
            .expect("all headers are there");
            prop_assert_eq!(&frame, &general);
        }
    }
}
