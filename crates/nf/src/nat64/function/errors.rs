//! ICMP errors, about sessions that are alive.

use super::rewriting::{datagram_of, put};
use super::{Course, Nat64, ends, of_kind};
use crate::icmp_errors::{Refusal, judge};
use crate::napt::core::{Leg, Stop, kind_of, reason_of, rewrite_error};
use crate::nat64::datagram::Datagram;
use crate::nat64::ends::Ends;
use crate::nat64::errors::{self, ErrorEnds};
use crate::records::Kind;
use twinpath_core::wire::{Endpoint, fields};
use twinpath_core::{DropReason, Instant, Packet};
use twinpath_rulecache::{Recorded, Verdict};

impl Nat64 {
    /// Translates an error that is believed and about a session that is alive; others are dropped.
    pub(super) fn translate_error(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        now: Instant,
    ) -> Result<(), Verdict> {
        let result = self.try_translate_error(packet, course, now);
        match result {
            Ok(()) => self.counters.errors_translated += 1,
            Err(Verdict::Drop(_)) => self.counters.errors_dropped += 1,
            Err(_) => {}
        }
        result
    }

    fn try_translate_error(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        now: Instant,
    ) -> Result<(), Verdict> {
        let seen = packet.quote();
        if let Err(refusal) = judge(seen.bytes(), &seen.layout, false) {
            return Err(Verdict::Drop(self.refusals.count(refusal)));
        }
        let unknown = Verdict::Drop(reason_of(seen));
        if let Course::Hairpin(..) = course {
            let is_done = self.send_error_back(packet, now);
            let is_done = is_done.map_err(|stop| self.stopped(stop, unknown))?;
            return is_done.then_some(()).ok_or(unknown);
        }
        let ends = self.error_ends(packet, course, now);
        let ends = ends.map_err(|stop| self.stopped(stop, unknown))?;
        self.rewrite_error(packet.whole(), &ends.ok_or(unknown)?)
    }

    /// What becomes of an error that has found no session to go by.
    fn stopped(&mut self, stop: Stop, unknown: Verdict) -> Verdict {
        match stop {
            Stop::Wait(entry) => Verdict::Wait(entry),
            Stop::Quote => Verdict::Drop(self.refusals.count(Refusal::Window)),
            _ => unknown,
        }
    }

    /// Writes an error anew, as one of the other version.
    fn rewrite_error(&mut self, packet: &mut Packet, ends: &ErrorEnds) -> Result<(), Verdict> {
        let [buffer, _] = &mut self.buffers;
        let written = datagram_of(packet)
            .and_then(Datagram::forwarded)
            .and_then(|error| {
                let l3 = usize::from(packet.layout.l3);
                let out = buffer.get_mut(l3..).unwrap_or_default();
                errors::translate(&error, ends, out)
            });
        let bytes = written.map_err(|why| Verdict::Drop(why.reason()))?;
        let to_v4 = ends.new.source.address.is_v4();
        if !put(packet, buffer, bytes, to_v4) {
            return Err(Verdict::Drop(DropReason::FrameTooLong));
        }
        self.number(packet);
        Ok(())
    }

    /// An error about a packet between hosts inside: both know each other by external endpoints. Returns
    /// whether it is about sessions that are alive.
    fn send_error_back(&mut self, packet: &mut Recorded<'_>, now: Instant) -> Result<bool, Stop> {
        // Of an echo one identifier is left, which does not tell both ends.
        let quoted = quoted_ends(packet.quote()).filter(|(_, kind)| *kind != Kind::Icmp);
        let Some((quoted, kind)) = quoted else {
            return Ok(false);
        };
        let Some(sender) = self.settings.embedding.extract(quoted.source.address) else {
            return Ok(false);
        };
        let sender = Endpoint::new(sender, quoted.source.port);
        let Some(out) = self.leg_out(packet, quoted.destination, sender, kind, now)? else {
            return Ok(false);
        };
        let receiver = self.napt.external.endpoint(out.slot);
        let Some(inward) = self.leg_in(packet, sender, receiver, kind, now)? else {
            return Ok(false);
        };
        let shown = Endpoint::new(
            self.settings.embedding.embed(receiver.address),
            receiver.port,
        );
        let internal = self.napt.internal(&inward);
        Ok(rewrite_error(packet.whole(), Some(shown), Some(internal)).is_ok())
    }

    /// Who an error is from and for, and whom the quoted packet was from and for.
    fn error_ends(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        now: Instant,
    ) -> Result<Option<ErrorEnds>, Stop> {
        let old = ends(packet);
        let Some((quoted, kind)) = quoted_ends(packet.quote()) else {
            return Ok(None);
        };
        let bare = |address| Endpoint::new(address, 0);
        match course {
            Course::Out(v4) => {
                // The quoted packet came from behind the prefix to the host inside.
                let Some(remote) = self.settings.embedding.extract(quoted.source.address) else {
                    return Ok(None);
                };
                let remote = Endpoint::new(remote, quoted.source.port);
                let Some(leg) = self.leg_out(packet, quoted.destination, remote, kind, now)? else {
                    return Ok(None);
                };
                let external = self.napt.external.endpoint(leg.slot);
                Ok(Some(ErrorEnds {
                    new: Ends {
                        source: bare(external.address),
                        destination: bare(v4),
                    },
                    quoted,
                    new_quoted: of_kind(kind, remote, external, external.port),
                }))
            }
            Course::In(_) => {
                let remote = quoted.destination;
                let Some(leg) = self.leg_in(packet, quoted.source, remote, kind, now)? else {
                    return Ok(None);
                };
                let internal = self.napt.internal(&leg);
                let shown = |end: Endpoint| {
                    Endpoint::new(self.settings.embedding.embed(end.address), end.port)
                };
                Ok(Some(ErrorEnds {
                    new: Ends {
                        source: bare(shown(old.source).address),
                        destination: bare(internal.address),
                    },
                    quoted,
                    new_quoted: of_kind(kind, internal, shown(remote), internal.port),
                }))
            }
            Course::Past | Course::Hairpin(..) => Ok(None),
        }
    }

    /// The session of a host inside.
    fn leg_out(
        &mut self,
        packet: &Recorded<'_>,
        internal: Endpoint,
        remote: Endpoint,
        kind: Kind,
        now: Instant,
    ) -> Result<Option<Leg>, Stop> {
        let Some(binding) = self.napt.table.binding_of(internal, kind) else {
            return Ok(None);
        };
        let remote = self.napt.scope(remote, kind);
        self.napt.live_leg(packet, binding, remote, now)
    }

    /// The session of an external endpoint.
    fn leg_in(
        &mut self,
        packet: &mut Recorded<'_>,
        external: Endpoint,
        remote: Endpoint,
        kind: Kind,
        now: Instant,
    ) -> Result<Option<Leg>, Stop> {
        let slot = self.napt.external.slot(external, kind);
        let Some(binding) = slot.and_then(|slot| self.napt.external.binding(slot)) else {
            return Ok(None);
        };
        let remote = self.napt.scope(remote, kind);
        let leg = self.napt.live_leg(packet, binding, remote, now)?;
        let error = packet.quote();
        let sequence = fields::inner_tcp_sequence(error.bytes(), &error.layout);
        self.napt.of_what_was_sent(packet, sequence, leg)
    }
}

/// The ends of the packet that an error quotes.
fn quoted_ends(packet: &Packet) -> Option<(Ends, Kind)> {
    let (bytes, layout) = (packet.bytes(), &packet.layout);
    let ends = Ends {
        source: fields::inner_source(bytes, layout)?,
        destination: fields::inner_destination(bytes, layout)?,
    };
    Some((ends, kind_of(layout.inner?.protocol)?))
}
