//! ICMP errors: each end must see the addresses that it knows, in the quoted packet too
//! (RFC 5508 §4). Only those that answer for themselves are let through: whole, of a type that
//! reports an error to a host, with sound checksums, addressed to whoever sent the quoted packet,
//! about a session that is alive.

use super::super::ports::Kind;
use super::super::sides::Course;
use super::Napt;
use super::nature::kind_of;
use super::plan::{Leg, Stop};
use twinpath_core::wire::ipv4::Ipv4View;
use twinpath_core::wire::{
    Endpoint, Fragment, Layout, Network, RewriteError, fields, icmp, rewrite, verify_ipv4_checksum,
    verify_transport_checksum,
};
use twinpath_core::{DropReason, Instant, Packet};
use twinpath_rulecache::{Recorded, Verdict};

/// The packet that an error quotes, as its receiver sent it.
#[derive(Copy, Clone, Debug)]
struct Quote {
    source: Endpoint,
    destination: Endpoint,
    kind: Kind,
}

impl Napt {
    /// Translates an error that has to be, or drops it.
    pub(super) fn translate_error(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        now: Instant,
    ) -> Verdict {
        if course == Course::Past {
            return Verdict::Forward;
        }
        match self.try_translate(packet, course, now) {
            Ok(true) => {
                self.counters.errors_translated += 1;
                Verdict::Forward
            }
            Err(Stop::Wait(entry)) => Verdict::Wait(entry),
            Ok(false) | Err(_) => {
                self.counters.errors_dropped += 1;
                Verdict::Drop(DropReason::Denied)
            }
        }
    }

    fn try_translate(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        now: Instant,
    ) -> Result<bool, Stop> {
        // Whoever is outside knows no host inside by its own address, so that nothing that one has
        // sent can be the cause of an error to it.
        let quote = match course {
            Course::Direct => None,
            _ => quoted(packet.quote()),
        };
        let Some(mut quote) = quote else {
            return Ok(false);
        };
        let out = match course {
            Course::Out | Course::Hairpin(_) => {
                let leg = self
                    .out_leg(packet, &quote, now)?
                    .ok_or(Stop::Unsolicited)?;
                let external = self.external.endpoint(leg.slot);
                quote.destination = external;
                Some(external)
            }
            Course::Past | Course::Direct | Course::In(_) => None,
        };
        let inward = match course {
            Course::In(_) | Course::Hairpin(_) => {
                let leg = self.in_leg(packet, &quote, now)?.ok_or(Stop::Unsolicited)?;
                let binding = leg.binding.and_then(|binding| self.table.binding(binding));
                Some(binding.ok_or(Stop::Unsolicited)?.internal)
            }
            Course::Past | Course::Direct | Course::Out => None,
        };
        Ok(rewrite_error(packet.whole(), out, inward).is_ok())
    }

    /// The session of the host inside that the quoted packet was for.
    fn out_leg(
        &mut self,
        packet: &Recorded<'_>,
        quote: &Quote,
        now: Instant,
    ) -> Result<Option<Leg>, Stop> {
        let Some(binding) = self.table.binding_of(quote.destination, quote.kind) else {
            return Ok(None);
        };
        let remote = self.scope(quote.source, quote.kind);
        self.live_leg(packet, binding, remote, now)
    }

    /// The session of the host inside that the quoted packet came from.
    fn in_leg(
        &mut self,
        packet: &Recorded<'_>,
        quote: &Quote,
        now: Instant,
    ) -> Result<Option<Leg>, Stop> {
        let slot = self.external.slot(quote.source, quote.kind);
        let Some(binding) = slot.and_then(|slot| self.external.binding(slot)) else {
            return Ok(None);
        };
        let remote = self.scope(quote.destination, quote.kind);
        self.live_leg(packet, binding, remote, now)
    }
}

/// The quoted packet of an error that may be believed.
fn quoted(packet: &Packet) -> Option<Quote> {
    let (bytes, layout) = (packet.bytes(), &packet.layout);
    let quote = Quote {
        source: fields::inner_source(bytes, layout)?,
        destination: fields::inner_destination(bytes, layout)?,
        kind: kind_of(layout.inner?.protocol)?,
    };
    let is_to_its_sender = quote.source.address == packet.destination().address;
    (is_sound(bytes, layout) && is_to_its_sender).then_some(quote)
}

/// Whether an error is whole and of a known type, and its checksums hold: its own, and that of the
/// quoted IPv4 header (RFC 5508 REQ-3). That of the quoted segment is not looked at (REQ-3 c).
fn is_sound(bytes: &[u8], layout: &Layout) -> bool {
    let is_for_hosts = |(kind, _)| match layout.network {
        Network::V4 => !matches!(kind, icmp::v4::REDIRECT | icmp::v4::SOURCE_QUENCH),
        _ => true,
    };
    layout.fragment == Fragment::Whole
        && fields::icmp_kind(bytes, layout).is_some_and(is_for_hosts)
        && verify_ipv4_checksum(bytes, layout)
        && verify_transport_checksum(bytes, layout)
        && has_sound_quote(bytes, layout)
}

fn has_sound_quote(bytes: &[u8], layout: &Layout) -> bool {
    let Some(inner) = layout.inner else {
        return false;
    };
    let quote = bytes.get(usize::from(inner.l3)..).unwrap_or(&[]);
    inner.network != Network::V4
        || Ipv4View::new_quoted(quote).is_ok_and(|view| view.verify_checksum().is_ok())
}

/// `out` is what stands for the sender's side, `inward` who the receiver is.
fn rewrite_error(
    packet: &mut Packet,
    out: Option<Endpoint>,
    inward: Option<Endpoint>,
) -> Result<(), RewriteError> {
    let layout = packet.layout;
    let bytes = packet.frame.bytes_mut();
    if let Some(external) = out {
        rewrite::set_inner_destination(bytes, &layout, external)?;
        rewrite::set_source(bytes, &layout, external)?;
    }
    if let Some(internal) = inward {
        rewrite::set_inner_source(bytes, &layout, internal)?;
        rewrite::set_destination(bytes, &layout, internal)?;
    }
    Ok(())
}
