//! The translation at work.

mod across;
mod bare;
mod blocks;
pub(super) mod datagram;
mod entry_text;
mod exhaustion;
pub(crate) mod fragments;
mod half_open;
pub(crate) mod held;
pub(crate) mod icmp_errors;
mod limits;
pub(crate) mod plan;
pub(crate) mod translatable;

use super::config::{Config, Filtering};
use super::ports::{External, Slot};
use super::sides::{Course, Sides};
use super::table::Table;
use super::tcp::{NatDirection, Segment};
use crate::checksums::VerifyChecksums;
use crate::icmp_errors::Refusals;
use crate::records::Kind;
use crate::shard::OtherShards;
use exhaustion::Exhaustion;
use fragments::Fragments;
use plan::{Leg, Stop};
use translatable::{Translatable, kind_of, translatable};
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_core::wire::{Address, Endpoint};
use twinpath_core::{DropReason, Identifications, Instant};
use twinpath_rulecache::{Answers, EntryText, Hits, Obstacle, Recorded, RuleFunction, Verdict};

/// Entries of sessions have this bit; those without are [slots](Slot).
const SESSION: u32 = 1 << 31;

/// What passes untouched; sessions are numbered from 1.
const PAST: u32 = session_entry(0);

/// Sessions that one search for expired ones looks at.
const SWEEP: u32 = 32;

/// How often a packet may wait until a session that is over gives way: what seems to be so may have been
/// used by rules since.
const MOST_WAITS: u32 = 16;

/// The entry of a session.
pub(super) const fn session_entry(session: u32) -> u32 {
    SESSION | session
}

/// Network address and port translation; see the [module](super).
pub struct Napt {
    pub(crate) external: External,
    pub(crate) table: Table,
    pub(super) filtering: Filtering,
    pub(super) pick_up: bool,
    pub(super) checksums: VerifyChecksums,
    pub(super) ports_per_host: u32,
    pub(super) sessions_per_host: u32,
    pub(super) sessions_per_binding: u32,
    pub(crate) sides: Sides,
    pub(crate) other_shards: Option<OtherShards>,
    pub(super) exhaustion: Exhaustion,
    refusals: Refusals,
    pub(crate) fragments: Fragments,
    /// For what leaves from addresses that hosts share.
    pub(crate) identifications: Identifications,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    ports_exhausted: u64,
    host_ports_exhausted: u64,
    half_open_forgotten: u64,
    sessions_exhausted: u64,
    host_sessions_exhausted: u64,
    binding_sessions_exhausted: u64,
    unsolicited: u64,
    not_picked_up: u64,
    hairpinned: u64,
    errors_translated: u64,
    errors_dropped: u64,
    fragments_translated: u64,
    untranslatable: u64,
    bad_checksums: u64,
}

impl Napt {
    /// A translation without bindings. The seed decides which ports are tried first; without it
    /// outsiders cannot foresee them.
    pub fn new(config: &Config, seed: u64) -> Self {
        Self {
            external: External::new(config, seed),
            table: Table::new(config, seed),
            filtering: config.filtering,
            pick_up: config.pick_up,
            checksums: config.verify_checksums,
            ports_per_host: config.ports_per_host,
            sessions_per_host: config.sessions_per_host,
            sessions_per_binding: config.sessions_per_binding,
            exhaustion: Exhaustion::new(config, seed),
            refusals: Refusals::default(),
            sides: Sides::new(config),
            other_shards: config.other_shards.clone(),
            fragments: Fragments::new(seed),
            identifications: Identifications::new(config.identifications, seed),
            counters: Counters::default(),
        }
    }

    /// The external endpoint that stands for an inside one at the moment, of a protocol that has
    /// ports or echoes: for checkers.
    pub fn external_of(&self, internal: Endpoint, protocol: u8) -> Option<Endpoint> {
        let kind = kind_of(protocol)?;
        let binding = self.table.binding_of(internal, kind)?;
        let slot = self.table.binding(binding)?.slot;
        Some(self.external.endpoint(slot))
    }

    fn translate(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        kind: Kind,
        now: Instant,
    ) -> Verdict {
        let result = match course {
            Course::Past | Course::Direct => {
                packet.depends_on(PAST, None);
                Ok(())
            }
            Course::Out => self.send_out(packet, kind, now),
            Course::In(address) => self.let_in(packet, address, kind, now),
            Course::Hairpin(address) => self.send_back(packet, address, kind, now),
            Course::Across(_) => self.send_across(packet, kind, now),
        };
        match result {
            Ok(()) => Verdict::Forward,
            Err(verdict) => verdict,
        }
    }

    fn send_out(
        &mut self,
        packet: &mut Recorded<'_>,
        kind: Kind,
        now: Instant,
    ) -> Result<(), Verdict> {
        let internal = packet.source();
        let remote = self.remote(packet, kind, NatDirection::Out);
        let flags = flags_of(packet, kind);
        self.check_marked(packet, flags)?;
        let leg = self
            .plan_out(packet, internal, remote, kind, flags, now)
            .map_err(|stop| self.stop(packet, stop))?;
        self.check_new(packet, &[leg])?;
        self.check_room(packet, &[leg], now)?;
        self.use_leg(
            packet,
            &leg,
            (internal, kind),
            NatDirection::Out,
            flags,
            now,
        );
        packet.set_source(self.external.endpoint(leg.slot));
        self.number(packet, internal.address);
        Ok(())
    }

    fn let_in(
        &mut self,
        packet: &mut Recorded<'_>,
        address: u32,
        kind: Kind,
        now: Instant,
    ) -> Result<(), Verdict> {
        let slot = Slot::new(address, kind, packet.destination().port);
        if self.external.binding(slot).is_none() && self.external.forwarded(slot).is_none() {
            return Err(self.refuse(packet, slot));
        }
        let remote = self.remote(packet, kind, NatDirection::In);
        let flags = flags_of(packet, kind);
        let leg = match self.plan_in(packet, slot, remote, kind, flags, now) {
            // Whatever its checksum is: the rule that is made of it does not look at that either.
            Err(Stop::Unsolicited) => return Err(self.refuse(packet, slot)),
            planned => {
                self.check_marked(packet, flags)?;
                planned.map_err(|stop| self.stop(packet, stop))?
            }
        };
        self.check_new(packet, &[leg])?;
        self.check_room(packet, &[leg], now)?;
        let internal = self.internal(&leg);
        self.use_leg(packet, &leg, (internal, kind), NatDirection::In, flags, now);
        packet.set_destination(internal);
        Ok(())
    }

    /// From inside to the external endpoint of somebody inside. Whoever sends opens a session of
    /// its own, also where filtering lets nothing in yet: the other end may send then, and be let
    /// in (RFC 4787 REQ-9, RFC 5382 REQ-8).
    fn send_back(
        &mut self,
        packet: &mut Recorded<'_>,
        address: u32,
        kind: Kind,
        now: Instant,
    ) -> Result<(), Verdict> {
        let (internal, target) = (packet.source(), packet.destination());
        let slot = Slot::new(address, kind, target.port);
        let flags = flags_of(packet, kind);
        self.check_marked(packet, flags)?;
        let first = self
            .plan_out(packet, internal, target, kind, flags, now)
            .map_err(|stop| self.stop(packet, stop))?;
        let sender = self.external.endpoint(first.slot);
        let second = match self.plan_in(packet, slot, sender, kind, flags, now) {
            Ok(second) => Some(second),
            Err(Stop::Unsolicited) => None,
            Err(stop) => return Err(self.stop(packet, stop)),
        };
        let legs = [first, second.unwrap_or(first)];
        let legs = &legs[..1 + usize::from(second.is_some())];
        self.check_new(packet, legs)?;
        self.check_room(packet, legs, now)?;
        self.use_leg(
            packet,
            &first,
            (internal, kind),
            NatDirection::Out,
            flags,
            now,
        );
        let Some(second) = second else {
            if first.session.is_none() {
                // Its own external endpoint may be the one that it sends to.
                packet.uncacheable(Obstacle::StateChanged);
            }
            return Err(self.refuse(packet, slot));
        };
        let receiver = self.internal(&second);
        self.use_leg(
            packet,
            &second,
            (receiver, kind),
            NatDirection::In,
            flags,
            now,
        );
        set_ends(packet, kind, sender, receiver);
        self.number(packet, internal.address);
        self.counters.hairpinned += 1;
        Ok(())
    }

    /// What a host sends gets another identification where others have its address too.
    fn number(&mut self, packet: &mut Recorded<'_>, host: Address) {
        if self.external.shares_address(host) {
            packet.draw_identification(&mut self.identifications);
        }
    }

    /// The other end, of which as much is recorded as a session's scope has.
    fn remote(&self, packet: &mut Recorded<'_>, kind: Kind, way: NatDirection) -> Endpoint {
        let headers = packet.headers();
        let remote = match way {
            NatDirection::Out => Endpoint::new(headers.destination, headers.destination_port),
            NatDirection::In => Endpoint::new(headers.source, headers.source_port),
        };
        let whole = kind == Kind::Tcp || self.filtering == Filtering::AddressAndPortDependent;
        match (way, whole, self.filtering) {
            (NatDirection::Out, true, _) => _ = packet.destination(),
            (NatDirection::In, true, _) => _ = packet.source(),
            (_, _, Filtering::EndpointIndependent) => {}
            (NatDirection::Out, ..) => packet.examined_destination(128),
            (NatDirection::In, ..) => packet.examined_source(128),
        }
        remote
    }

    pub(crate) fn internal(&self, leg: &Leg) -> Endpoint {
        let binding = leg.binding.and_then(|binding| self.table.binding(binding));
        let internal = binding.map(|binding| binding.internal);
        // A leg inwards has a binding, or stands for somebody in any case.
        let internal = internal.or_else(|| self.external.forwarded(leg.slot));
        internal.unwrap_or_else(|| self.external.endpoint(leg.slot))
    }

    /// Drops what nobody asked for: while no binding or session comes into being at the slot, all
    /// packets like it are dropped.
    fn refuse(&mut self, packet: &mut Recorded<'_>, slot: Slot) -> Verdict {
        packet.depends_on(slot.0, None);
        self.counters.unsolicited += 1;
        Verdict::Drop(DropReason::Unsolicited)
    }

    pub(crate) fn stop(&mut self, packet: &mut Recorded<'_>, stop: Stop) -> Verdict {
        match stop {
            Stop::Wait(entry) => return Verdict::Wait(entry),
            Stop::Unsolicited => self.counters.unsolicited += 1,
            Stop::NotPickedUp => self.counters.not_picked_up += 1,
            Stop::NoPort => self.counters.ports_exhausted += 1,
            Stop::HostLimit => self.counters.host_ports_exhausted += 1,
            Stop::HostSessions => self.counters.host_sessions_exhausted += 1,
            Stop::BindingLimit => self.counters.binding_sessions_exhausted += 1,
            Stop::Quote => self.counters.errors_dropped += 1,
        }
        packet.uncacheable(Obstacle::Undecided);
        Verdict::Drop(stop.reason())
    }

    /// Drops a segment that opens or ends something, if its checksum is wrong: its receiver will not
    /// take it. This comes before it waits, so that no cached rule goes on its account.
    pub(crate) fn check_marked(
        &mut self,
        packet: &mut Recorded<'_>,
        flags: Option<u8>,
    ) -> Result<(), Verdict> {
        match flags.is_some_and(is_marked) {
            true => self.check_sum(packet),
            false => Ok(()),
        }
    }

    /// The same of a packet that opens a session.
    pub(crate) fn check_new(
        &mut self,
        packet: &mut Recorded<'_>,
        legs: &[Leg],
    ) -> Result<(), Verdict> {
        match legs.iter().any(|leg| leg.session.is_none()) {
            true => self.check_sum(packet),
            false => Ok(()),
        }
    }

    fn check_sum(&mut self, packet: &mut Recorded<'_>) -> Result<(), Verdict> {
        if !self.checksums.of_state() || packet.checksums_hold() {
            return Ok(());
        }
        self.counters.bad_checksums += 1;
        Err(Verdict::Drop(DropReason::BadChecksum))
    }

    /// Whether the sessions that the legs need have room; looks for expired ones if not, and then for
    /// half-open ones. Where rules outlive the sessions that are over, the packet waits for those of one.
    pub(crate) fn check_room(
        &mut self,
        packet: &mut Recorded<'_>,
        legs: &[Leg],
        now: Instant,
    ) -> Result<(), Verdict> {
        let new = legs.iter().filter(|leg| leg.session.is_none()).count();
        if new == 0 || self.table.has_room(new) {
            return Ok(());
        }
        let used = self.remove_expired(packet, legs, now);
        if self.table.has_room(new) {
            return Ok(());
        }
        let may_wait = packet.can_wait() && packet.waits() < MOST_WAITS;
        if let Some(session) = used.filter(|_| may_wait) {
            return Err(Verdict::Wait(session_entry(session)));
        }
        if self.forget_half_open(packet, legs, new)? {
            return Ok(());
        }
        self.counters.sessions_exhausted += 1;
        packet.uncacheable(Obstacle::Undecided);
        Err(Verdict::Drop(DropReason::SessionTableFull))
    }

    /// Removes sessions that have expired and are free, but for those of the legs. Returns one that has
    /// expired, as far as is known, and that rules still came from.
    fn remove_expired(&mut self, packet: &Recorded<'_>, legs: &[Leg], now: Instant) -> Option<u32> {
        let waited_for = packet.waited_for().filter(|entry| entry & SESSION != 0);
        let waited_for = waited_for.map(|entry| entry & !SESSION);
        let (mut expired, mut used) = (Vec::new(), None);
        let mut look = |number: u32| {
            let is_of_leg = legs.iter().any(|leg| leg.session == Some(number));
            match packet.is_free(session_entry(number)) {
                _ if is_of_leg => {}
                true => expired.push(number),
                false => used = used.or(Some(number)),
            }
        };
        let (table, external) = (&mut self.table, &mut self.external);
        // What it has waited for comes first, so that it waits for that until it is gone.
        let waited_for = waited_for.filter(|number| table.is_expired(*number, now));
        waited_for.into_iter().for_each(&mut look);
        table.each_expired(SWEEP, now, external, &mut look);
        for number in expired {
            self.table.remove(number, &mut self.external);
        }
        used
    }

    /// Makes what is missing of a leg, and notes its use.
    pub(crate) fn use_leg(
        &mut self,
        packet: &mut Recorded<'_>,
        leg: &Leg,
        (internal, kind): (Endpoint, Kind),
        way: NatDirection,
        flags: Option<u8>,
        now: Instant,
    ) {
        let (table, external) = (&mut self.table, &mut self.external);
        // There is room: a binding needs no more than its session does.
        let binding = leg
            .binding
            // Made for the other leg, if a host sends to its own forwarded port.
            .or_else(|| table.binding_of(internal, kind))
            .or_else(|| table.bind(internal, kind, leg.slot, external));
        let session = leg
            .session
            .or_else(|| table.ensure_session(binding?, leg.remote, now, external));
        let Some(session) = session else {
            return packet.uncacheable(Obstacle::Undecided);
        };
        let segment = flags.map(|flags| segment_of(packet, flags));
        let (entry, idle) = (session_entry(session), table.idle_of_rules(kind));
        let is_same = table.touch(session, (way, segment), now, external);
        if !is_same {
            packet.uncacheable(Obstacle::StateChanged);
        }
        match way {
            NatDirection::Out => packet.depends_on_sender(entry, Some(idle)),
            NatDirection::In => packet.depends_on(entry, Some(idle)),
        }
    }
}

/// What counts of a segment. One that opens or ends something makes no rule, so its numbers can be
/// looked at.
fn segment_of(packet: &mut Recorded<'_>, flags: u8) -> Segment {
    if !is_marked(flags) {
        return Segment::plain(flags, packet.progress());
    }
    packet.uncacheable(Obstacle::StateChanged);
    Segment::marked(flags, packet.quote())
}

/// Gives a packet between hosts inside its new ends. An echo has one identifier: a request bears its
/// sender's, by which the answer comes back, and whatever answers that of its receiver, who has asked
/// with it (RFC 5508 REQ-7). Rules do not tell one from the other.
pub(crate) fn set_ends(
    packet: &mut Recorded<'_>,
    kind: Kind,
    sender: Endpoint,
    receiver: Endpoint,
) {
    let asks = kind == Kind::Icmp && translatable::is_echo_request(packet.quote());
    packet.set_source(sender);
    packet.set_destination(receiver);
    if asks {
        packet.set_source(sender);
    }
}

/// Whether a segment with these flags opens or ends something.
const fn is_marked(flags: u8) -> bool {
    flags & (SYN | FIN | RST) != 0
}

/// The flags of a TCP segment that must not be missed; of one with SYN all that tell whether it
/// opens a connection.
pub(crate) fn flags_of(packet: &mut Recorded<'_>, kind: Kind) -> Option<u8> {
    if kind != Kind::Tcp {
        return None;
    }
    Some(match packet.tcp_flags(SYN | FIN | RST) {
        flags if flags & SYN == 0 => flags,
        _ => packet.tcp_flags(SYN | FIN | RST | ACK),
    })
}

impl Napt {
    /// Counters of bindings, sessions and fragments.
    pub(crate) fn table_counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("bindings", self.table.binding_count() as u64);
        each("sessions", self.table.session_count() as u64);
        each("bindings_created", self.table.bindings_created);
        each("sessions_created", self.table.sessions_created);
        each("ports_exhausted", self.counters.ports_exhausted);
        each("host_ports_exhausted", self.counters.host_ports_exhausted);
        each("half_open_forgotten", self.counters.half_open_forgotten);
        each("sessions_exhausted", self.counters.sessions_exhausted);
        each(
            "host_sessions_exhausted",
            self.counters.host_sessions_exhausted,
        );
        each(
            "binding_sessions_exhausted",
            self.counters.binding_sessions_exhausted,
        );
        each("unsolicited", self.counters.unsolicited);
        each("not_picked_up", self.counters.not_picked_up);
        each("packets_with_bad_checksum", self.counters.bad_checksums);
        each("fragments_held", self.fragments.held.kept);
        each("fragments_given_up", self.fragments.held.given_up);
    }
}

impl RuleFunction for Napt {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn take_memory(&mut self) {
        self.table.take_memory();
    }

    fn handle(
        &mut self,
        packet: &mut Recorded<'_>,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict {
        let translatable = translatable(packet);
        if matches!(translatable, Translatable::NotIp) {
            return Verdict::Forward;
        }
        let course = match self.sides.course(packet) {
            Course::Hairpin(address) => self
                .shard_across(packet, &translatable, now)
                .map_or(Course::Hairpin(address), Course::Across),
            other => other,
        };
        let verdict = match translatable {
            Translatable::Ports(kind) => self.translate(packet, course, kind, now),
            Translatable::Error => self.translate_error(packet, course, now),
            Translatable::Part(part) => self.translate_fragment(packet, course, part, now, answers),
            Translatable::Fragment => self.translate_bare(packet, course, DropReason::Fragment),
            Translatable::Other | Translatable::NotIp => {
                self.translate_bare(packet, course, DropReason::UntranslatableProtocol)
            }
        };
        match (course, verdict) {
            (Course::Hairpin(_), Verdict::Forward) => packet.goes_back(),
            (Course::Across(shard), Verdict::Forward) => packet.goes_on_in(shard),
            _ => {}
        }
        self.tell_of_exhaustion(packet, course, verdict, now, answers);
        verdict
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        match entry & SESSION {
            0 => self.counters.unsolicited += hits.packets,
            _ => self
                .table
                .credit(entry & !SESSION, hits, &mut self.external),
        }
    }

    fn each_expired(&mut self, now: Instant, each: &mut dyn FnMut(u32)) {
        let (table, external) = (&mut self.table, &mut self.external);
        table.each_expired(SWEEP, now, external, &mut |session| {
            each(session_entry(session))
        });
    }

    fn forget(&mut self, entry: u32, now: Instant) {
        let session = entry & !SESSION;
        if entry & SESSION != 0 && self.table.is_expired(session, now) {
            self.table.remove(session, &mut self.external);
        }
    }

    fn entry(&self, entry: u32) -> Option<EntryText> {
        self.told(entry).map(EntryText::other)
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.table_counters(each);
        self.block_counters(each);
        each("errors_sent", self.exhaustion.sent());
        each("errors_limited", self.exhaustion.limited());
        each("hairpinned", self.counters.hairpinned);
        each("errors_translated", self.counters.errors_translated);
        each("errors_dropped", self.counters.errors_dropped);
        self.refusals.report(each);
        each("fragments_translated", self.counters.fragments_translated);
        each("untranslatable", self.counters.untranslatable);
    }
}
