//! Rewriting what nearly every packet is, TCP or UDP over IPv4, with one look at each header: all
//! changes of a checksum at once.
//!
//! A rule for one flow knows all that it rewrites beforehand, so that the changes of checksums
//! are summed up when the rule is stored ([`settle`]), in words that IPv4 leaves free:
//!
//! | word | bits from the top |
//! |---|---|
//! | 0 | free 32, changes of the checksums of the IP header and of the transport's 32 |
//! | 2 | source address 32, destination address 32 |
//! | 4 | as before, with the ports that the packet has if they are not rewritten, and [`SETTLED`] |

use super::{Action, ActionWords, decrements_in, written_in};
use crate::field::Field;
use crate::headers::{Headers, Macs, NewHeaders, changes_in, changes_to_word};
use crate::key::MatchKey;
use twinpath_core::wire::checksum::{Delta, KeptDelta};
use twinpath_core::wire::layout::{Layout, PlainEnds};

/// In word 4, where no field has its bit: the action knows the packets that it is for.
pub(super) const SETTLED: u64 = 1 << 15;

/// Whether the words are those of [`settle`].
#[inline(always)]
pub(crate) const fn is_settled(words: &ActionWords) -> bool {
    words[4] & SETTLED != 0
}

/// The words of an action for packets that agree with a value in the bits of a mask.
pub(crate) fn settle(action: &Action, mask: &MatchKey, value: &MatchKey) -> ActionWords {
    let mut words = action.pack();
    let is_plain = !value.is_v6() && !value.is_echo() && action.rewrites.again.is_none();
    if !is_plain || !mask.is_of_a_flow() {
        return words;
    }
    let [_, source, _, destination, ports, ..] = value.0;
    let old = PlainEnds {
        addresses: source << 32 | destination & 0xffff_ffff,
        ports: (ports >> 32) as u32,
    };
    let new = new_headers(&words, old);
    (words[0], words[2]) = (changes_to_word(new.changes), new.addresses);
    words[4] = u64::from(new.ports) << 32 | words[4] & 0xffff_ffff | SETTLED;
    words
}

/// The headers that an action which writes no field twice makes of those with these ends.
#[inline(always)]
fn new_headers(words: &ActionWords, old: PlainEnds) -> NewHeaders {
    let written = written_in(words);
    let pick = |field: Field, new: u64, old: u64| {
        if written.has(field) {
            new as u32
        } else {
            old as u32
        }
    };
    let (old_ports, new_ports) = (u64::from(old.ports), words[4] >> 32);
    let source = pick(Field::SourceAddress, words[1], old.addresses >> 32);
    let destination = pick(Field::DestinationAddress, words[3], old.addresses);
    let from = pick(Field::SourcePort, new_ports >> 16, old_ports >> 16);
    let to = pick(
        Field::DestinationPort,
        new_ports & 0xffff,
        old_ports & 0xffff,
    );
    let ports = from << 16 | to;
    let addresses = Delta::of32((old.addresses >> 32) as u32, source)
        + Delta::of32(old.addresses as u32, destination);
    let decrements = decrements_in(words);
    // Counting down changes a sum alike wherever it begins.
    let count_down = Delta::of16(u16::MAX, u16::MAX - u16::from_be_bytes([decrements, 0]));
    NewHeaders {
        addresses: u64::from(source) << 32 | u64::from(destination),
        ports,
        decrements,
        changes: [
            KeptDelta::of(addresses + count_down),
            KeptDelta::of(addresses + Delta::of32(old.ports, ports)),
        ],
    }
}

/// The headers that a settled action makes.
#[inline(always)]
fn settled_headers(words: &ActionWords) -> NewHeaders {
    NewHeaders {
        addresses: words[2],
        ports: (words[4] >> 32) as u32,
        decrements: decrements_in(words),
        changes: changes_in(words[0]),
    }
}

/// The MAC addresses that an action writes.
#[inline(always)]
pub(crate) fn macs_in(words: &ActionWords) -> Macs {
    let written = written_in(words);
    let mut macs = Macs::default();
    if written.has(Field::DestinationMac) {
        macs.written.add(Field::DestinationMac);
        macs.bytes[..6].copy_from_slice(&words[6].to_be_bytes()[..6]);
    }
    if written.has(Field::SourceMac) {
        macs.written.add(Field::SourceMac);
        macs.bytes[6..].copy_from_slice(&words[5].to_be_bytes()[..6]);
    }
    macs
}

/// Rewrites a packet of an action that is settled, or else writes no field twice; false, with nothing
/// changed, if its headers are not all there.
#[inline(always)]
pub(super) fn apply<const CHECKSUM_AT: usize>(
    words: &ActionWords,
    frame: &mut [u8],
    layout: &Layout,
) -> bool {
    let Some(headers) = Headers::of::<CHECKSUM_AT>(frame, layout) else {
        return false;
    };
    let new = match is_settled(words) {
        true => settled_headers(words),
        false => new_headers(words, headers.ends()),
    };
    macs_in(words).write(headers.macs);
    headers.write::<CHECKSUM_AT>(new);
    true
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Rewrites, apply_any, rewrites_of};
    use super::*;
    use crate::field::Fields;
    use crate::flows::{
        FlowOfLine, FlowTable, LineKey, counts_alone, new_headers as headers_of_line,
    };
    use proptest::prelude::*;
    use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, dissect, ipv4, tcp, udp};
    use twinpath_core::{Direction, Instant};

    proptest! {
        /// What this does is what the general way does, also to checksums that were wrong.
        #[test]
        fn agrees_with_the_general_way(
            is_udp: bool,
            has_options: bool,
            written in 0u16..1 << 12,
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
            let action = Action { rewrites, drop: None, idle: None, tells_progress: is_udp };
            let words = action.pack();
            let before = frame.clone();
            let mut general = frame.clone();
            apply_any(&words, &mut general, &layout);
            let done = match is_udp {
                true => apply::<{ udp::CHECKSUM_AT }>(&words, &mut frame, &layout),
                false => apply::<{ tcp::CHECKSUM_AT }>(&words, &mut frame, &layout),
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
            let mut table = FlowTable::<LineKey>::new(1, 1, 0);
            prop_assert!(table.insert(0, (&mask, &key), &settled, Instant(0)));
            let line = table.find(LineKey::of(&key.0).expect("IPv4")).expect("there");
            let (line, mut frame) = (table.line(line), before);
            // What counts packets alone is not to change them, wrong checksums included.
            prop_assert!(!counts_alone(line) || frame == general);
            let headers = match is_udp {
                true => Headers::of::<{ udp::CHECKSUM_AT }>(&mut frame, &layout),
                false => Headers::of::<{ tcp::CHECKSUM_AT }>(&mut frame, &layout),
            };
            let headers = headers.expect("all headers are there");
            if let Some(macs) = table.macs(line) {
                macs.write(headers.macs);
            }
            match is_udp {
                true => headers.write::<{ udp::CHECKSUM_AT }>(headers_of_line(line)),
                false => headers.write::<{ tcp::CHECKSUM_AT }>(headers_of_line(line)),
            }
            prop_assert_eq!(&frame, &general);
        }
    }
}
