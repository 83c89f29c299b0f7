//! The translation at work.

mod errors;
mod parts;
mod rewriting;

use super::config::Config;
use super::ends::Ends;
use super::prefix::is_local;
use super::settings::Settings;
use crate::icmp_errors::Refusals;
use crate::icmp_messages::{Cause, Icmp};
use crate::napt::core::{
    Napt, NatDirection, Part, Slot, Stop, Translatable, flags_of, set_ends, translatable,
};
use crate::rate_limit::RateLimit;
use crate::records::{BindingEvents, Kind};
use rewriting::{datagram_of, is_announced, longest};
use twinpath_core::wire::{Address, Endpoint, fields};
use twinpath_core::{Direction, DropReason, Instant};
use twinpath_rulecache::{Answers, Hits, Obstacle, Recorded, RuleFunction, Verdict};

/// The longest frame that is written: one that the kernel has put together.
const FRAME_BYTES: usize = 65_536 + 128;

/// Translation between IPv6 hosts and IPv4; see the [module](super).
pub struct Nat64 {
    pub(super) napt: Napt,
    pub(super) settings: Settings,
    errors: Icmp,
    refusals: Refusals,
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
    errors_dropped: u64,
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
        let settings = Settings::of(config);
        let rate = settings.errors_per_second;
        Self {
            napt: Napt::new(&config.napt, seed),
            errors: Icmp::new(settings.errors_from, RateLimit::new(rate, rate, seed)),
            settings,
            refusals: Refusals::default(),
            buffers: [(); 2].map(|()| vec![0; FRAME_BYTES].into_boxed_slice()),
            fragment: Vec::with_capacity(FRAME_BYTES),
            counters: Counters::default(),
        }
    }

    pub(super) fn configure(&mut self, settings: Settings) {
        let rate = settings.errors_per_second;
        self.errors.configure(rate, rate);
        self.errors.set_addresses(settings.errors_from);
        self.settings = settings;
    }

    /// What became of its bindings.
    pub(super) fn end_all_bindings(&mut self, from: u32, most: u32) -> Option<u32> {
        self.napt.end_all(from, most)
    }

    pub(super) fn take_binding_events(&mut self, most: usize) -> BindingEvents {
        self.napt.table.log.take(most)
    }

    /// Its bindings and sessions.
    pub fn bindings(&self) -> &Napt {
        &self.napt
    }

    /// The packet's course, with the bits that decided it recorded. Errors are from whomever on the way
    /// inside: what they quote tells whom they are about.
    fn course(&self, packet: &mut Recorded<'_>, is_error: bool) -> Course {
        let headers = packet.headers();
        packet.examined_source(128);
        packet.examined_destination(128);
        let external = |address| self.napt.sides.external_number(address);
        if headers.source.is_v4() {
            return external(headers.destination).map_or(Course::Past, Course::In);
        }
        let is_inside = packet.direction() == Direction::Original
            && (is_error || self.napt.sides.is_inside(headers.source));
        match self.settings.embedding.extract(headers.destination) {
            Some(v4) if is_inside => match external(v4) {
                Some(number) => Course::Hairpin(number, v4),
                None => Course::Out(v4),
            },
            _ => Course::Past,
        }
    }

    /// Whether a packet between hosts inside is for one that belongs to another shard, which this one does
    /// not know.
    fn is_across(
        &self,
        packet: &mut Recorded<'_>,
        course: Course,
        translatable: &Translatable,
    ) -> bool {
        let (Course::Hairpin(_, v4), Some(others)) = (course, &self.napt.other_shards) else {
            return false;
        };
        match translatable {
            Translatable::Ports(kind)
            | Translatable::Part(Part {
                kind: Some(kind), ..
            }) => {
                let receiver = Endpoint::new(v4, packet.destination().port);
                others.of(receiver, kind.protocol()).is_some()
            }
            _ => false,
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
        if self.settings.is_well_known && is_local(v4) {
            return Err(self.drop_untranslatable(DropReason::UntranslatableAddress));
        }
        let old = ends(packet);
        let remote = Endpoint::new(v4, old.destination.port);
        self.check_time_to_live(packet, now, answers)?;
        let flags = flags_of(packet, kind);
        self.napt.check_marked(packet, flags)?;
        let leg = self
            .napt
            .plan_out(packet, old.source, remote, kind, flags, now);
        let leg = leg.map_err(|stop| self.napt.stop(packet, stop))?;
        self.napt.check_new(packet, &[leg])?;
        self.napt.check_room(packet, &[leg], now)?;
        self.napt.use_leg(
            packet,
            &leg,
            (old.source, kind),
            NatDirection::Out,
            flags,
            now,
        );
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
        self.napt.check_marked(packet, flags)?;
        let leg = self
            .napt
            .plan_in(packet, slot, old.source, kind, flags, now);
        let leg = leg.map_err(|stop| self.napt.stop(packet, stop))?;
        self.napt.check_new(packet, &[leg])?;
        self.check_length(packet, now, answers)?;
        self.napt.check_room(packet, &[leg], now)?;
        let internal = self.napt.internal(&leg);
        self.napt
            .use_leg(packet, &leg, (internal, kind), NatDirection::In, flags, now);
        let remote = Endpoint::new(
            self.settings.embedding.embed(old.source.address),
            old.source.port,
        );
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
        self.napt.check_marked(packet, flags)?;
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
        let legs = &legs[..1 + usize::from(second.is_some())];
        self.napt.check_new(packet, legs)?;
        self.napt.check_room(packet, legs, now)?;
        self.napt.use_leg(
            packet,
            &first,
            (old.source, kind),
            NatDirection::Out,
            flags,
            now,
        );
        let Some(second) = second else {
            return Err(self.napt.stop(packet, Stop::Unsolicited));
        };
        let receiver = self.napt.internal(&second);
        self.napt.use_leg(
            packet,
            &second,
            (receiver, kind),
            NatDirection::In,
            flags,
            now,
        );
        let shown = Endpoint::new(self.settings.embedding.embed(sender.address), sender.port);
        set_ends(packet, kind, shown, receiver);
        packet.uncacheable(Obstacle::Undecided);
        self.counters.hairpinned += 1;
        Ok(())
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
        self.errors.answer(packet, Cause::TimeToLive, now, answers);
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
        let quoted = packet.quote();
        let fits = datagram_of(quoted).map(|datagram| {
            let bytes = longest(quoted, datagram.bytes_v6());
            datagram.may_fragment || bytes <= usize::from(self.settings.mtu)
        });
        if fits.map_err(|why| self.drop_untranslatable(why.reason()))? {
            return Ok(());
        }
        self.counters.too_long += 1;
        let mtu = u32::from(self.settings.mtu) - 20;
        self.errors
            .answer(packet, Cause::TooLong { mtu }, now, answers);
        Err(Verdict::Drop(DropReason::TooLong))
    }

    fn drop_untranslatable(&mut self, reason: DropReason) -> Verdict {
        self.counters.untranslatable += 1;
        Verdict::Drop(reason)
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
        let translatable = translatable(packet);
        if matches!(translatable, Translatable::NotIp) {
            return Verdict::Forward;
        }
        let course = self.course(packet, matches!(translatable, Translatable::Error));
        if course == Course::Past {
            packet.depends_on(0, None);
            return Verdict::Forward;
        }
        if !is_announced(packet.quote()) {
            return self.drop_untranslatable(DropReason::Untranslatable);
        }
        if self.is_across(packet, course, &translatable) {
            packet.uncacheable(Obstacle::Undecided);
            return self.drop_untranslatable(DropReason::OtherShard);
        }
        let result = match translatable {
            Translatable::Ports(kind) => self.translate(packet, course, kind, now, answers),
            Translatable::Error => self.translate_error(packet, course, now),
            Translatable::Part(part) => self.translate_part(packet, course, part, now, answers),
            Translatable::Fragment => Err(self.drop_untranslatable(DropReason::Fragment)),
            Translatable::Other | Translatable::NotIp => {
                Err(self.drop_untranslatable(DropReason::UntranslatableProtocol))
            }
        };
        packet.uncacheable(Obstacle::Undecided);
        if matches!((course, &result), (Course::Hairpin(..), Ok(()))) {
            packet.goes_back();
        }
        let verdict = result.err().unwrap_or(Verdict::Forward);
        let is_exhausted = matches!(
            verdict,
            Verdict::Drop(
                DropReason::NoPort | DropReason::HostLimit | DropReason::SessionTableFull
            )
        );
        if is_exhausted && !matches!(course, Course::In(_)) {
            self.errors.answer(packet, Cause::Prohibited, now, answers);
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
        each("errors_dropped", self.counters.errors_dropped);
        self.refusals.report(each);
        each("fragmented", self.counters.fragmented);
        each("too_long", self.counters.too_long);
        each("untranslatable", self.counters.untranslatable);
        each("errors_sent", self.errors.errors_sent);
        each("errors_limited", self.errors.limited);
        self.napt.table_counters(each);
    }
}
