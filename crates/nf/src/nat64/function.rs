//! The translation at work.

use super::config::Config;
use super::datagram::{Datagram, Ends, Part as Fraction, Untranslatable};
use super::errors::{self, ErrorEnds};
use super::fragmenting::split;
use super::prefix::{Embedding, is_local};
use crate::icmp_errors::judge;
use crate::napt::core::{
    Datagram as DatagramName, Kind, Leg, Napt, Nature, Part, Slot, Stop, Way, flags_of, kind_of,
    nature,
};
use crate::router::{Cause, Errors};
use twinpath_core::wire::{Address, Endpoint, Network, dissect, fields, protocol};
use twinpath_core::{Direction, DropReason, Instant, Packet};
use twinpath_rulecache::{Answers, Hits, Obstacle, Recorded, RuleFunction, Verdict};

/// The longest frame that is written.
const FRAME_BYTES: usize = 16 * 1024;

/// Translation between IPv6 hosts and IPv4; see the [module](super).
pub struct Nat64 {
    napt: Napt,
    embedding: Embedding,
    is_well_known: bool,
    mtu: u16,
    lowest_mtu: u16,
    errors: Errors,
    /// What packets are written to.
    buffers: [Box<[u8]>; 2],
    fragment: Vec<u8>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    translated_out: u64,
    translated_in: u64,
    hairpinned: u64,
    errors_translated: u64,
    fragmented: u64,
    too_long: u64,
    untranslatable: u64,
}

/// Where a packet goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Course {
    /// Nowhere else than it says.
    Past,
    /// To an IPv4 host.
    Out(Address),
    /// To the external address with this number.
    In(u32),
    /// From inside to the external address with this number.
    Hairpin(u32, Address),
}

impl Nat64 {
    /// A translation without bindings; the seed is as for an [address translation](crate::napt::Napt::new).
    pub fn new(config: &Config, seed: u64) -> Self {
        let v4 = config.napt.first_external();
        let v6 = v4.map(|v4| config.embedding.embed(v4));
        Self {
            napt: Napt::new(&config.napt, seed),
            embedding: config.embedding,
            is_well_known: config.is_well_known(),
            mtu: config.mtu,
            lowest_mtu: config.lowest_mtu,
            errors: Errors::new(v4, v6, config.napt.errors_per_second),
            buffers: [(); 2].map(|()| vec![0; FRAME_BYTES].into_boxed_slice()),
            fragment: Vec::with_capacity(FRAME_BYTES),
            counters: Counters::default(),
        }
    }

    /// The packet's course, with the bits that decided it recorded.
    fn course(&self, packet: &mut Recorded<'_>) -> Course {
        let headers = packet.headers();
        packet.examined_source(128);
        packet.examined_destination(128);
        let external = |address| self.napt.sides.external_number(address);
        if headers.source.is_v4() {
            return external(headers.destination).map_or(Course::Past, Course::In);
        }
        let is_inside =
            packet.direction() == Direction::Original && self.napt.sides.is_inside(headers.source);
        match self.embedding.extract(headers.destination) {
            Some(v4) if is_inside => match external(v4) {
                Some(number) => Course::Hairpin(number, v4),
                None => Course::Out(v4),
            },
            _ => Course::Past,
        }
    }

    fn translate(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        kind: Kind,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        match course {
            Course::Past => Ok(()),
            Course::Out(v4) => self.send_out(packet, v4, kind, now, answers),
            Course::In(number) => self.let_in(packet, number, kind, now, answers),
            Course::Hairpin(number, v4) => self.send_back(packet, (number, v4), kind, now),
        }
    }

    fn send_out(
        &mut self,
        packet: &mut Recorded<'_>,
        v4: Address,
        kind: Kind,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        if self.is_well_known && is_local(v4) {
            return Err(self.drop_untranslatable());
        }
        let old = ends(packet);
        let remote = Endpoint::new(v4, old.destination.port);
        self.check_time_to_live(packet, now, answers)?;
        let flags = flags_of(packet, kind);
        let leg = self
            .napt
            .plan_out(packet, old.source, remote, kind, flags, now);
        let leg = leg.map_err(|stop| self.napt.stop(packet, stop))?;
        self.napt.check_room(packet, &[leg], now)?;
        self.napt
            .use_leg(packet, &leg, (old.source, kind), Way::Out, flags, now);
        let external = self.napt.external.endpoint(leg.slot);
        let new = of_kind(kind, external, remote, external.port);
        self.rewrite(packet.whole(), old, new, answers)?;
        self.counters.translated_out += 1;
        Ok(())
    }

    fn let_in(
        &mut self,
        packet: &mut Recorded<'_>,
        number: u32,
        kind: Kind,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        let old = ends(packet);
        self.check_time_to_live(packet, now, answers)?;
        let slot = Slot::new(number, kind, old.destination.port);
        let flags = flags_of(packet, kind);
        let leg = self
            .napt
            .plan_in(packet, slot, old.source, kind, flags, now);
        let leg = leg.map_err(|stop| self.napt.stop(packet, stop))?;
        self.check_length(packet, now, answers)?;
        self.napt.check_room(packet, &[leg], now)?;
        let internal = self.napt.internal(&leg);
        self.napt
            .use_leg(packet, &leg, (internal, kind), Way::In, flags, now);
        let remote = Endpoint::new(self.embedding.embed(old.source.address), old.source.port);
        let new = of_kind(kind, remote, internal, internal.port);
        self.rewrite(packet.whole(), old, new, answers)?;
        self.counters.translated_in += 1;
        Ok(())
    }

    /// From inside to the external endpoint of somebody inside: both have IPv6.
    fn send_back(
        &mut self,
        packet: &mut Recorded<'_>,
        (number, v4): (u32, Address),
        kind: Kind,
        now: Instant,
    ) -> Result<(), Verdict> {
        let old = ends(packet);
        let target = Endpoint::new(v4, old.destination.port);
        let slot = Slot::new(number, kind, target.port);
        let flags = flags_of(packet, kind);
        let first = self
            .napt
            .plan_out(packet, old.source, target, kind, flags, now);
        let first = first.map_err(|stop| self.napt.stop(packet, stop))?;
        let sender = self.napt.external.endpoint(first.slot);
        let second = match self.napt.plan_in(packet, slot, sender, kind, flags, now) {
            Ok(second) => Some(second),
            Err(Stop::Unsolicited) => None,
            Err(stop) => return Err(self.napt.stop(packet, stop)),
        };
        let legs = [first, second.unwrap_or(first)];
        let count = 1 + usize::from(second.is_some());
        self.napt.check_room(packet, &legs[..count], now)?;
        self.napt
            .use_leg(packet, &first, (old.source, kind), Way::Out, flags, now);
        let Some(second) = second else {
            return Err(self.napt.stop(packet, Stop::Unsolicited));
        };
        let receiver = self.napt.internal(&second);
        self.napt
            .use_leg(packet, &second, (receiver, kind), Way::In, flags, now);
        let shown = Endpoint::new(self.embedding.embed(sender.address), sender.port);
        packet.set_source(shown);
        packet.set_destination(receiver);
        packet.uncacheable(Obstacle::Undecided);
        self.counters.hairpinned += 1;
        Ok(())
    }

    /// An error about a packet of a session that is alive.
    fn translate_error(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        now: Instant,
    ) -> Result<(), Verdict> {
        let seen = packet.quote();
        if let Err(refusal) = judge(seen.bytes(), &seen.layout, false) {
            return Err(Verdict::Drop(refusal.reason()));
        }
        let ends = self
            .error_ends(packet, course, now)
            .map_err(|stop| match stop {
                Stop::Wait(entry) => Verdict::Wait(entry),
                _ => Verdict::Drop(DropReason::Denied),
            })?;
        let Some(ends) = ends else {
            return Err(self.drop_untranslatable());
        };
        let [buffer, _] = &mut self.buffers;
        let packet = packet.whole();
        let written = datagram_of(packet)
            .and_then(Datagram::forwarded)
            .and_then(|error| {
                let l3 = usize::from(packet.layout.l3);
                let out = buffer.get_mut(l3..).unwrap_or_default();
                errors::translate(&error, &ends, out)
            });
        let to_v4 = ends.new.source.address.is_v4();
        match written
            .ok()
            .filter(|bytes| put(packet, buffer, *bytes, to_v4))
        {
            Some(_) => {
                self.counters.errors_translated += 1;
                Ok(())
            }
            None => Err(self.drop_untranslatable()),
        }
    }

    /// Who an error is from and for, and whom the quoted packet was from and for. Errors between
    /// hosts inside have no counterpart.
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
                let Some(remote) = self.embedding.extract(quoted.source.address) else {
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
                let shown =
                    |end: Endpoint| Endpoint::new(self.embedding.embed(end.address), end.port);
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
        packet: &Recorded<'_>,
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
        self.napt.live_leg(packet, binding, remote, now)
    }

    /// A fragment: the first is translated as a whole packet, others as it was.
    fn translate_part(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        part: Part,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        let name = part.datagram;
        if let Course::Hairpin(..) = course {
            return Err(self.drop_untranslatable());
        }
        let Some(kind) = part.kind else {
            return self.follow(packet, course, &name, now, answers);
        };
        let result = self.translate(packet, course, kind, now, answers);
        match result {
            Ok(()) => {
                let addresses = (packet.headers().source, packet.headers().destination);
                self.napt.fragments.remember(name, addresses, now);
                self.let_go(addresses, &name, now, answers);
            }
            Err(Verdict::Drop(_)) => self.napt.fragments.held.give_up(&name, now),
            Err(_) => {}
        }
        result
    }

    fn follow(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        name: &DatagramName,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        let known = self.napt.fragments.addresses(name, now);
        let of_host = || match course {
            Course::Out(v4) => Some((self.napt.external.only_address(name.source)?, v4)),
            _ => None,
        };
        let Some((source, destination)) = known.or_else(of_host) else {
            let bytes = packet.quote().bytes();
            self.napt.fragments.held.keep(*name, bytes, now);
            return Err(Verdict::Consumed);
        };
        self.check_time_to_live(packet, now, answers)?;
        let bare = |address| Endpoint::new(address, 0);
        let new = Ends {
            source: bare(source),
            destination: bare(destination),
        };
        self.rewrite(packet.whole(), new, new, answers)?;
        self.count_translated(new);
        Ok(())
    }

    fn count_translated(&mut self, new: Ends) {
        match new.source.address.is_v4() {
            true => self.counters.translated_out += 1,
            false => self.counters.translated_in += 1,
        }
    }

    /// What came before the first of its datagram goes on behind it.
    fn let_go(
        &mut self,
        (source, destination): (Address, Address),
        name: &DatagramName,
        now: Instant,
        answers: &mut Answers<'_>,
    ) {
        let bare = |address| Endpoint::new(address, 0);
        let new = Ends {
            source: bare(source),
            destination: bare(destination),
        };
        let mut held = std::mem::take(&mut self.napt.fragments.held);
        held.release(name, now, |bytes| {
            let Ok(layout) = dissect(bytes) else {
                return;
            };
            let l3 = usize::from(layout.l3);
            let datagram = datagram_in(&bytes[l3..layout.end as usize], layout.network);
            let [buffer, _] = &mut self.buffers;
            let out = buffer.get_mut(l3..).unwrap_or_default();
            let to_v4 = source.is_v4();
            let written = datagram
                .and_then(Datagram::forwarded)
                .and_then(|part| match to_v4 {
                    true => part.write_v4(new, new, out),
                    false => part.write_v6(new, new, out),
                });
            let is_gone = written.is_ok_and(|length| {
                buffer[..l3].copy_from_slice(&bytes[..l3]);
                set_ether_type(&mut buffer[..l3], to_v4);
                answers.follow(&buffer[..l3 + length])
            });
            match (is_gone, to_v4) {
                (false, _) => self.counters.untranslatable += 1,
                (true, true) => self.counters.translated_out += 1,
                (true, false) => self.counters.translated_in += 1,
            }
        });
        self.napt.fragments.held = held;
    }

    /// Writes a packet anew, between other ends of the other version.
    fn rewrite(
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
        let Ok((length, part, may_fragment)) = written else {
            return Err(self.drop_untranslatable());
        };
        if !to_v4 && may_fragment && length > usize::from(self.lowest_mtu) {
            return self.fragment(packet, (length, part), new, answers);
        }
        match put(packet, buffer, length, to_v4) {
            true => Ok(()),
            false => Err(Verdict::Drop(DropReason::FrameTooLong)),
        }
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
            split(&whole, ends, self.lowest_mtu, out, |fragment| {
                frame.clear();
                frame.extend_from_slice(head);
                frame.extend_from_slice(fragment);
                match std::mem::take(&mut is_first) {
                    true => fill(packet, frame),
                    false => answers.follow(frame),
                };
            })
        });
        done.map_err(|_| self.drop_untranslatable())
    }

    /// A packet whose time to live ends here is dropped, and its sender told.
    fn check_time_to_live(
        &mut self,
        packet: &mut Recorded<'_>,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        let seen = packet.quote();
        if fields::ttl(seen.bytes(), &seen.layout) > 1 {
            return Ok(());
        }
        self.answer(packet, Cause::TimeToLive, now, answers);
        Err(Verdict::Drop(DropReason::TimeToLive))
    }

    /// A packet to a host inside that is too long and may not be fragmented is dropped, and its
    /// sender told (RFC 4787 REQ-13).
    fn check_length(
        &mut self,
        packet: &mut Recorded<'_>,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        let Ok(datagram) = datagram_of(packet.quote()) else {
            return Err(self.drop_untranslatable());
        };
        if datagram.may_fragment || datagram.bytes_v6() <= usize::from(self.mtu) {
            return Ok(());
        }
        self.counters.too_long += 1;
        let mtu = u32::from(self.mtu) - 20;
        self.answer(packet, Cause::TooLong { mtu }, now, answers);
        Err(Verdict::Drop(DropReason::FrameTooLong))
    }

    fn answer(
        &mut self,
        packet: &mut Recorded<'_>,
        cause: Cause,
        now: Instant,
        answers: &mut Answers<'_>,
    ) {
        if let Some(error) = self.errors.about(packet.quote(), cause, now)
            && answers.reply(error)
        {
            self.errors.sent += 1;
        }
    }

    fn drop_untranslatable(&mut self) -> Verdict {
        self.counters.untranslatable += 1;
        Verdict::Drop(DropReason::Denied)
    }
}

fn ends(packet: &mut Recorded<'_>) -> Ends {
    Ends {
        source: packet.source(),
        destination: packet.destination(),
    }
}

/// Both ends of a packet; those of an echo have its identifier.
fn of_kind(kind: Kind, mut source: Endpoint, mut destination: Endpoint, identifier: u16) -> Ends {
    if kind == Kind::Icmp {
        (source.port, destination.port) = (identifier, identifier);
    }
    Ends {
        source,
        destination,
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

fn datagram_of(packet: &Packet) -> Result<Datagram<'_>, Untranslatable> {
    let (layout, bytes) = (&packet.layout, packet.bytes());
    let bytes = bytes.get(usize::from(layout.l3)..layout.end as usize);
    datagram_in(bytes.unwrap_or(&[]), layout.network)
}

fn datagram_in(bytes: &[u8], network: Network) -> Result<Datagram<'_>, Untranslatable> {
    match network {
        Network::V4 => Datagram::of_v4(bytes),
        Network::V6 => Datagram::of_v6(bytes),
        Network::None => Err(Untranslatable::Header),
    }
}

/// Puts what was written behind the link header into the packet. Returns whether it fits.
fn put(packet: &mut Packet, buffer: &mut [u8], length: usize, to_v4: bool) -> bool {
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

/// What a link header announces is the last thing in it.
fn set_ether_type(link: &mut [u8], to_v4: bool) {
    let ether_type = match to_v4 {
        true => protocol::ETHER_IPV4,
        false => protocol::ETHER_IPV6,
    };
    if let Some(place) = link.last_chunk_mut() {
        *place = ether_type.to_be_bytes();
    }
}

impl RuleFunction for Nat64 {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn handle(
        &mut self,
        packet: &mut Recorded<'_>,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict {
        let nature = nature(packet);
        if matches!(nature, Nature::NotIp) {
            return Verdict::Forward;
        }
        let course = self.course(packet);
        if course == Course::Past {
            packet.depends_on(0, None);
            return Verdict::Forward;
        }
        let result = match nature {
            Nature::Ports(kind) => self.translate(packet, course, kind, now, answers),
            Nature::Error => self.translate_error(packet, course, now),
            Nature::Part(part) => self.translate_part(packet, course, part, now, answers),
            Nature::Fragment | Nature::Other | Nature::NotIp => Err(self.drop_untranslatable()),
        };
        packet.uncacheable(Obstacle::Undecided);
        let verdict = result.err().unwrap_or(Verdict::Forward);
        let is_exhausted = matches!(
            verdict,
            Verdict::Drop(DropReason::NoPort | DropReason::HostLimit | DropReason::FlowTableFull)
        );
        if is_exhausted && !matches!(course, Course::In(_)) {
            self.answer(packet, Cause::Prohibited, now, answers);
        }
        verdict
    }

    fn credit(&mut self, _entry: u32, _hits: &Hits) {}

    fn each_expired(&mut self, now: Instant, each: &mut dyn FnMut(u32)) {
        self.napt.each_expired(now, each);
    }

    fn forget(&mut self, entry: u32, now: Instant) {
        self.napt.forget(entry, now);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("translated_out", self.counters.translated_out);
        each("translated_in", self.counters.translated_in);
        each("hairpinned", self.counters.hairpinned);
        each("errors_translated", self.counters.errors_translated);
        each("fragmented", self.counters.fragmented);
        each("too_long", self.counters.too_long);
        each("untranslatable", self.counters.untranslatable);
        each("errors_sent", self.errors.sent);
        each("errors_limited", self.errors.limited);
        self.napt.table_counters(each);
    }
}
