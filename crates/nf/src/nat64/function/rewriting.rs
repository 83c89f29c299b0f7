//! A packet becomes one of the other version, or several.

use super::Nat64;
use crate::nat64::datagram::{Datagram, Part as Fraction};
use crate::nat64::ends::{Ends, Untranslatable};
use crate::nat64::fragmenting::split;
use twinpath_core::wire::{Network, dissect, protocol};
use twinpath_core::{DropReason, Packet};
use twinpath_rulecache::{Answers, Verdict};

impl Nat64 {
    /// Writes a packet anew, between other ends of the other version.
    pub(super) fn rewrite(
        &mut self,
        packet: &mut Packet,
        old: Ends,
        new: Ends,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        let to_v4 = new.source.address.is_v4();
        let l3 = usize::from(packet.layout.l3);
        let [buffer, _] = &mut self.buffers;
        let out = buffer.get_mut(l3..).unwrap_or_default();
        let written = datagram_of(packet)
            .and_then(Datagram::forwarded)
            .and_then(|datagram| {
                let length = match to_v4 {
                    true => datagram.write_v4(old, new, out)?,
                    false => datagram.write_v6(old, new, out)?,
                };
                Ok((length, datagram.part, datagram.may_fragment))
            });
        let (length, part, may_fragment) = match written {
            Ok(written) => written,
            Err(why) => return Err(self.drop_untranslatable(why.reason())),
        };
        let is_long = longest(packet, length) > usize::from(self.settings.lowest_mtu);
        if !to_v4 && may_fragment && is_long {
            return self.fragment(packet, (length, part), new, answers);
        }
        if !put(packet, buffer, length, to_v4) {
            return Err(Verdict::Drop(DropReason::FrameTooLong));
        }
        self.number(packet);
        Ok(())
    }

    /// What leaves as IPv4 gets an identification of its own, unless it is atomic: hosts inside
    /// share the address.
    pub(super) fn number(&mut self, packet: &mut Packet) {
        let layout = packet.layout;
        let numbers = &mut self.napt.identifications;
        numbers.number(packet.frame.bytes_mut(), &layout);
    }

    /// The packet becomes the first of the fragments of what was written; the others follow it.
    fn fragment(
        &mut self,
        packet: &mut Packet,
        (length, part): (usize, Fraction),
        ends: Ends,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        self.counters.fragmented += 1;
        let l3 = usize::from(packet.layout.l3);
        let [buffer, other] = &mut self.buffers;
        let (head, out) = other.split_at_mut(l3);
        head.copy_from_slice(&packet.bytes()[..l3]);
        set_ether_type(head, false);
        let (frame, mut is_first) = (&mut self.fragment, true);
        let whole = Datagram::of_v6(&buffer[l3..l3 + length]);
        let done = whole.and_then(|whole| {
            let whole = Datagram { part, ..whole };
            split(&whole, ends, self.settings.lowest_mtu, out, |fragment| {
                frame.clear();
                frame.extend_from_slice(head);
                frame.extend_from_slice(fragment);
                match std::mem::take(&mut is_first) {
                    true => fill(packet, frame),
                    false => answers.release(frame),
                };
            })
        });
        done.map_err(|why| self.drop_untranslatable(why.reason()))
    }
}

/// How long the longest packet will be of one that is translated to so many bytes, as the kernel or a
/// card may cut it into segments.
pub(super) fn longest(packet: &Packet, bytes: usize) -> usize {
    let layout = &packet.layout;
    let payload = layout.end as usize - usize::from(layout.payload);
    match usize::from(packet.frame.segment_bytes()) {
        0 => bytes,
        segment => bytes - payload.saturating_sub(segment).min(bytes),
    }
}

pub(super) fn datagram_of(packet: &Packet) -> Result<Datagram<'_>, Untranslatable> {
    let (layout, bytes) = (&packet.layout, packet.bytes());
    let bytes = bytes.get(usize::from(layout.l3)..layout.end as usize);
    datagram_in(bytes.unwrap_or(&[]), layout.network)
}

pub(super) fn datagram_in(bytes: &[u8], network: Network) -> Result<Datagram<'_>, Untranslatable> {
    match network {
        Network::V4 => Datagram::of_v4(bytes),
        Network::V6 => Datagram::of_v6(bytes),
        Network::None => Err(Untranslatable::Header),
    }
}

/// Puts what was written behind the link header into the packet. Returns whether it fits.
pub(super) fn put(packet: &mut Packet, buffer: &mut [u8], length: usize, to_v4: bool) -> bool {
    let l3 = usize::from(packet.layout.l3);
    buffer[..l3].copy_from_slice(&packet.bytes()[..l3]);
    set_ether_type(&mut buffer[..l3], to_v4);
    fill(packet, &buffer[..l3 + length])
}

/// The packet becomes another one.
fn fill(packet: &mut Packet, bytes: &[u8]) -> bool {
    let Ok(layout) = dissect(bytes) else {
        return false;
    };
    let is_done = packet.frame.set_len(bytes.len());
    if is_done {
        packet.frame.bytes_mut().copy_from_slice(bytes);
        packet.layout = layout;
    }
    is_done
}

/// Whether the link header ends with the EtherType of an IP version: sessions and labels announce
/// theirs in another way.
pub(super) fn is_announced(packet: &Packet) -> bool {
    let link = packet.bytes().get(..usize::from(packet.layout.l3));
    let announced = link
        .and_then(<[u8]>::last_chunk)
        .copied()
        .map(u16::from_be_bytes);
    matches!(announced, Some(protocol::ETHER_IPV4 | protocol::ETHER_IPV6))
}

/// What a link header announces is the last thing in it.
pub(super) fn set_ether_type(link: &mut [u8], to_v4: bool) {
    let ether_type = match to_v4 {
        true => protocol::ETHER_IPV4,
        false => protocol::ETHER_IPV6,
    };
    if let Some(place) = link.last_chunk_mut() {
        *place = ether_type.to_be_bytes();
    }
}
