//! ICMP errors: each end must see the addresses that it knows, in the quoted packet too
//! (RFC 5508 §4). Only those are let through that are [believed](judge), whole, and about a
//! session that is alive.

use super::super::sides::Course;
use super::plan::{Leg, Stop, must_be_told};
use super::translatable::kind_of;
use super::{Napt, session_entry};
use crate::icmp_errors::{Refusal, judge};
use crate::records::Kind;
use twinpath_core::wire::{Endpoint, Fragment, RewriteError, fields, rewrite};
use twinpath_core::{Direction, DropReason, Instant, Packet};
use twinpath_rulecache::{Recorded, Verdict};

/// The packet that an error quotes, as its receiver sent it.
#[derive(Copy, Clone, Debug)]
pub(super) struct Quote {
    pub source: Endpoint,
    destination: Endpoint,
    pub kind: Kind,
    /// Of a TCP segment.
    sequence: Option<u32>,
}

impl Napt {
    /// Translates an error that has to be, or drops it.
    pub(super) fn translate_error(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        now: Instant,
    ) -> Verdict {
        let course = match course {
            Course::Past => match self.is_about_inside(packet, now) {
                Ok(true) => Course::Out,
                Err(Stop::Wait(entry)) => return Verdict::Wait(entry),
                Ok(false) | Err(_) => return Verdict::Forward,
            },
            other => other,
        };
        let seen = packet.quote();
        if let Err(refusal) = judge(seen.bytes(), &seen.layout, false) {
            self.counters.errors_dropped += 1;
            return Verdict::Drop(self.refusals.count(refusal));
        }
        match self.try_translate(packet, course, now) {
            Ok(true) => {
                self.counters.errors_translated += 1;
                Verdict::Forward
            }
            Err(Stop::Wait(entry)) => Verdict::Wait(entry),
            Err(Stop::Quote) => {
                self.counters.errors_dropped += 1;
                Verdict::Drop(self.refusals.count(Refusal::Window))
            }
            Ok(false) | Err(_) => {
                self.counters.errors_dropped += 1;
                Verdict::Drop(reason_of(packet.quote()))
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
            Course::Out | Course::Hairpin(_) | Course::Across(_) => {
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
            Course::Past | Course::Direct | Course::Out | Course::Across(_) => None,
        };
        let is_done = rewrite_error(packet.whole(), out, inward).is_ok();
        if is_done && out.is_some() {
            packet.draw_identification(&mut self.identifications);
        }
        Ok(is_done)
    }

    /// Whether an error from inside, of a router with an address of its own, quotes what was
    /// translated for a host inside: whoever is outside must not see that host's address. Only for a
    /// session that is alive was anything translated; a packet that came to the host's own address
    /// was not. Where the error cannot wait for rules that may have used a session, what it answers
    /// has passed here just now: had that been of the session, it would be known to be alive.
    fn is_about_inside(&mut self, packet: &mut Recorded<'_>, now: Instant) -> Result<bool, Stop> {
        let is_from_inside = packet.direction() == Direction::Original;
        let Some(quote) = quoted(packet.quote()).filter(|_| is_from_inside) else {
            return Ok(false);
        };
        match self.out_leg(packet, &quote, now) {
            Err(Stop::Wait(_)) if !packet.can_wait() => Ok(false),
            leg => Ok(leg?.is_some()),
        }
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
        let leg = self.live_leg(packet, binding, remote, now)?;
        self.of_what_was_sent(packet, quote.sequence, leg)
    }

    /// The session, if its host can have sent the quoted segment (RFC 5927 §4.1); first, cached rules have to
    /// tell of the last segments that they translated. They stay, for an error changes nothing. An error that is about a segment of the other end is
    /// not asked, nor is one that cannot wait: what that answers has passed here just now.
    pub(crate) fn of_what_was_sent(
        &self,
        packet: &Recorded<'_>,
        sequence: Option<u32>,
        leg: Option<Leg>,
    ) -> Result<Option<Leg>, Stop> {
        let number = leg.and_then(|leg| leg.session);
        let session = number.and_then(|number| self.table.session(number));
        let (Some(number), Some(session), Some(sequence)) = (number, session, sequence) else {
            return Ok(leg);
        };
        if session.tcp.depends_on_last_segment() {
            match must_be_told(packet, session_entry(number)) {
                Err(_) if !packet.can_wait() => return Ok(leg),
                told => told?,
            }
        }
        match session.tcp.can_have_sent(sequence) {
            true => Ok(leg),
            false => Err(Stop::Quote),
        }
    }
}

/// Why an error is dropped that is believed and has found no session.
pub(crate) fn reason_of(error: &Packet) -> DropReason {
    match error.layout.fragment {
        Fragment::Whole => DropReason::IcmpSession,
        Fragment::First | Fragment::Later => DropReason::Fragment,
    }
}

/// The quoted packet, if the error is whole and ports can be told.
pub(super) fn quoted(packet: &Packet) -> Option<Quote> {
    let (bytes, layout) = (packet.bytes(), &packet.layout);
    let quote = Quote {
        source: fields::inner_source(bytes, layout)?,
        destination: fields::inner_destination(bytes, layout)?,
        kind: kind_of(layout.inner?.protocol)?,
        sequence: fields::inner_tcp_sequence(bytes, layout),
    };
    (layout.fragment == Fragment::Whole).then_some(quote)
}

/// `out` is what stands for the sender's side, `inward` who the receiver is.
pub(crate) fn rewrite_error(
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
