//! Bindings and sessions.

mod half_open;
mod hosts;

use super::config::{Config, MAX_SESSIONS, Timeouts};
use super::ports::{BlockChange, External, Slot};
use super::tcp::{NatDirection, Segment, Tcp};
use super::wheel::{Wheel, tick_of};
use crate::hosts::PrefixLength;
use crate::memory::slab_bytes;
use crate::records::{BindingEvent, BindingLog, BindingRecord, Kind};
use half_open::HalfOpen;
use hosts::{Host, Hosts};
use std::time::Duration;
use twinpath_core::wire::{Address, Endpoint, protocol};
use twinpath_core::{HashKey, Instant, NumberIndex};
use twinpath_rulecache::Hits;
use twinpath_slowpath::Slab;

/// What stands for an inside endpoint outside.
#[derive(Debug)]
pub(crate) struct Binding {
    pub internal: Endpoint,
    pub kind: Kind,
    pub slot: Slot,
    /// Its newest session; a binding without any is gone.
    pub sessions: u32,
    /// How many sessions it has.
    pub count: u32,
    /// How many of them are not known to have expired.
    pub live: u32,
    /// Of its host's bindings that are not known to be alive: the next one, and the one before.
    next_idle: u32,
    idle_before: u32,
}

/// With whom a binding speaks.
#[derive(Debug)]
pub(crate) struct Session {
    pub binding: u32,
    /// As much of the other end as filtering looks at.
    pub remote: Endpoint,
    pub tcp: Tcp,
    kind: Kind,
    last: Instant,
    /// The binding's next session, and the one before.
    pub next: u32,
    before: u32,
}

/// All bindings and sessions, found by number and by endpoint.
#[derive(Debug)]
pub(crate) struct Table {
    bindings: Slab<Binding>,
    by_internal: NumberIndex,
    hosts: Hosts,
    sessions: Slab<Session>,
    by_remote: NumberIndex,
    /// Of what both indices are by.
    hash_key: HashKey,
    timeouts: Timeouts,
    limit: usize,
    /// When sessions may have expired.
    wheel: Wheel,
    half_open: HalfOpen,
    /// Highest session number ever.
    highest: u32,
    /// The time, as far as it was told.
    now: Instant,
    pub log: BindingLog,
    pub bindings_created: u64,
    pub sessions_created: u64,
}

impl Table {
    pub fn new(config: &Config, seed: u64) -> Self {
        Self {
            bindings: Slab::new(MAX_SESSIONS),
            by_internal: NumberIndex::new(config.sessions),
            hosts: Hosts::new(config.per_host_v6_prefix, seed),
            sessions: Slab::new(MAX_SESSIONS),
            by_remote: NumberIndex::new(config.sessions),
            hash_key: HashKey::new(seed),
            timeouts: config.timeouts.clone(),
            limit: config.sessions,
            wheel: Wheel::new(),
            half_open: HalfOpen::new(config.external.len()),
            highest: 0,
            now: Instant::ZERO,
            log: BindingLog::default(),
            bindings_created: 0,
            sessions_created: 0,
        }
    }

    /// What so many sessions take, each with a binding and a host of its own.
    pub const fn bytes(sessions: usize) -> u64 {
        slab_bytes::<Binding>(sessions)
            + 2 * NumberIndex::bytes(sessions)
            + Hosts::bytes(sessions)
            + slab_bytes::<Session>(sessions)
            + Wheel::bytes(sessions)
            + HalfOpen::bytes(sessions)
    }

    /// Takes the memory of the indices now, before packets could wait for it.
    pub fn take_memory(&mut self) {
        self.by_internal.touch();
        self.by_remote.touch();
    }

    pub fn binding(&self, number: u32) -> Option<&Binding> {
        self.bindings.at(number)
    }

    pub fn session(&self, number: u32) -> Option<&Session> {
        self.sessions.at(number)
    }

    fn hash_of_binding(&self, kind: Kind, internal: Endpoint) -> u64 {
        self.hash(kind as u64, internal)
    }

    fn hash_of_session(&self, binding: u32, remote: Endpoint) -> u64 {
        self.hash(binding.into(), remote)
    }

    #[inline]
    fn hash(&self, number: u64, Endpoint { address, port }: Endpoint) -> u64 {
        let (high, low) = ((address.0 >> 64) as u64, address.0 as u64);
        self.hash_key.hash([number, high, low, port.into()])
    }

    pub fn binding_of(&self, internal: Endpoint, kind: Kind) -> Option<u32> {
        let hash = self.hash_of_binding(kind, internal);
        self.by_internal.find(hash, |number| {
            let binding = self.bindings.at(number);
            binding.is_some_and(|binding| binding.internal == internal && binding.kind == kind)
        })
    }

    pub fn session_of(&self, binding: u32, remote: Endpoint) -> Option<u32> {
        let hash = self.hash_of_session(binding, remote);
        self.by_remote.find(hash, |number| {
            let session = self.sessions.at(number);
            session.is_some_and(|session| session.remote == remote && session.binding == binding)
        })
    }

    /// All bindings, with their numbers.
    pub fn bindings(&self) -> impl Iterator<Item = (u32, &Binding)> {
        (1..self.bindings.bound() as u32)
            .filter_map(|number| Some((number, self.bindings.at(number)?)))
    }

    /// No binding's number is this large, or larger.
    pub fn binding_bound(&self) -> usize {
        self.bindings.bound()
    }

    /// The bindings of a host.
    pub fn host(&self, host: Address, kind: Kind) -> Host {
        self.hosts.of(kind, host)
    }

    /// How many sessions of a host are not known to have expired.
    pub fn sessions_of_host(&self, host: Address) -> u32 {
        let of_kind = |kind| self.hosts.of(kind, host).sessions;
        Kind::ALL.into_iter().map(of_kind).sum()
    }

    /// Of a host's bindings that are not known to be alive the one behind another.
    pub fn next_idle(&self, binding: u32) -> u32 {
        let binding = self.bindings.at(binding);
        binding.map_or(0, |binding| binding.next_idle)
    }

    /// The sessions of a binding, the newest first.
    pub fn sessions_of(&self, binding: u32) -> impl Iterator<Item = u32> {
        let newest = self.bindings.at(binding).map(|binding| binding.sessions);
        std::iter::successors(newest.filter(|&newest| newest != 0), |&session| {
            let next = self.sessions.at(session)?.next;
            (next != 0).then_some(next)
        })
    }

    pub fn binding_count(&self) -> usize {
        self.bindings.len()
    }

    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Whether so many more sessions have room.
    pub fn has_room(&self, sessions: usize) -> bool {
        self.sessions.len() + sessions <= self.limit
    }

    /// Whether a session has been idle for too long, as far as is known.
    pub fn is_expired(&self, number: u32, now: Instant) -> bool {
        let session = self.sessions.at(number);
        session.is_none_or(|session| self.end(session) <= tick_of(now))
    }

    /// The tick in which a session has expired if it is not used again: the first that begins
    /// later than its time-out.
    fn end(&self, session: &Session) -> u64 {
        let timeout = match session.kind {
            Kind::Tcp if session.tcp.is_established() => self.timeouts.tcp_established,
            Kind::Tcp => self.timeouts.tcp_transitory,
            Kind::Icmp => self.timeouts.icmp,
            Kind::Udp => self.timeouts.udp,
        };
        tick_of(session.last + timeout.duration()) + 1
    }

    /// How long a rule made from a session may be idle: no longer than any state that the session
    /// may come to allows.
    pub fn idle_of_rules(&self, kind: Kind) -> Duration {
        let timeout = match kind {
            Kind::Tcp => self.timeouts.tcp_transitory,
            Kind::Udp => self.timeouts.udp,
            Kind::Icmp => self.timeouts.icmp,
        };
        timeout.duration()
    }

    /// A new binding, which needs a session at once.
    pub fn bind(
        &mut self,
        internal: Endpoint,
        kind: Kind,
        slot: Slot,
        external: &mut External,
    ) -> Option<u32> {
        let binding = Binding {
            internal,
            kind,
            slot,
            sessions: 0,
            count: 0,
            live: 0,
            next_idle: 0,
            idle_before: 0,
        };
        let number = self.bindings.insert(binding).ok()?;
        let hash = self.hash_of_binding(kind, internal);
        if !self.by_internal.insert(hash, number) {
            self.bindings.remove(number);
            return None;
        }
        self.put_idle(number);
        external.bind(slot, number);
        self.bindings_created += 1;
        let at = self.now;
        match external.enter_block(slot, internal.address) {
            Some(given) => self.log.keep(|| block_event(given, external, at, true)),
            None if external.blocks().is_some() => {}
            None => {
                if let Some(binding) = self.bindings.at(number) {
                    self.log.keep(|| event(binding, external, at, true));
                }
            }
        }
        Some(number)
    }

    /// The session of a binding with the other end, made if it is not there.
    pub fn ensure_session(
        &mut self,
        binding: u32,
        remote: Endpoint,
        now: Instant,
        external: &mut External,
    ) -> Option<u32> {
        if let Some(known) = self.session_of(binding, remote) {
            return Some(known);
        }
        let known = self.bindings.at(binding)?;
        let next = known.sessions;
        let session = Session {
            binding,
            remote,
            tcp: Tcp::default(),
            kind: known.kind,
            last: now,
            next,
            before: 0,
        };
        let end = self.end(&session);
        let number = self.sessions.insert(session).ok()?;
        let hash = self.hash_of_session(binding, remote);
        if !self.by_remote.insert(hash, number) {
            self.sessions.remove(number);
            if next == 0 {
                self.unbind(binding, external);
            }
            return None;
        }
        if let Some(next) = self.sessions.at_mut(next) {
            next.before = number;
        }
        let known = self.bindings.at_mut(binding)?;
        known.sessions = number;
        known.count += 1;
        self.wheel.schedule(number, end);
        self.count_live(binding, 1, external);
        self.highest = self.highest.max(number);
        self.sessions_created += 1;
        Some(number)
    }

    /// So many sessions of a binding more, or less, are not known to have expired.
    fn count_live(&mut self, number: u32, change: i32, external: &mut External) {
        let Some(binding) = self.bindings.at_mut(number) else {
            return;
        };
        let was_live = binding.live > 0;
        binding.live = binding.live.saturating_add_signed(change);
        let is_live = binding.live > 0;
        let (host, kind, slot) = (binding.internal.address, binding.kind, binding.slot);
        let count = |host: &mut Host| host.sessions = host.sessions.saturating_add_signed(change);
        self.hosts.change(kind, host, count);
        if was_live == is_live {
            return;
        }
        external.take(slot, is_live);
        match is_live {
            true => self.take_idle(number),
            false => self.put_idle(number),
        }
        let change = i32::from(is_live) - i32::from(was_live);
        let count = |host: &mut Host| host.live = host.live.saturating_add_signed(change);
        self.hosts.change(kind, host, count);
    }

    /// A binding becomes the first of its host's that are not known to be alive.
    fn put_idle(&mut self, number: u32) {
        let Some(binding) = self.bindings.at(number) else {
            return;
        };
        let (host, kind) = (binding.internal.address, binding.kind);
        let mut next = 0;
        self.hosts.change(kind, host, |host| {
            next = std::mem::replace(&mut host.first_idle, number);
            host.idle += 1;
        });
        if let Some(binding) = self.bindings.at_mut(number) {
            (binding.next_idle, binding.idle_before) = (next, 0);
        }
        if let Some(next) = self.bindings.at_mut(next) {
            next.idle_before = number;
        }
    }

    /// A binding is no longer one of them.
    fn take_idle(&mut self, number: u32) {
        let Some(binding) = self.bindings.at_mut(number) else {
            return;
        };
        let (host, kind) = (binding.internal.address, binding.kind);
        let next = std::mem::take(&mut binding.next_idle);
        let before = std::mem::take(&mut binding.idle_before);
        if let Some(next) = self.bindings.at_mut(next) {
            next.idle_before = before;
        }
        if let Some(before) = self.bindings.at_mut(before) {
            before.next_idle = next;
        }
        self.hosts.change(kind, host, |host| {
            host.idle -= 1;
            if before == 0 {
                host.first_idle = next;
            }
        });
    }

    /// A packet used a session. Returns whether one like it would leave it as it is.
    pub fn touch(
        &mut self,
        number: u32,
        (way, segment): (NatDirection, Option<Segment>),
        now: Instant,
        external: &mut External,
    ) -> bool {
        let Some(session) = self.sessions.at_mut(number) else {
            return false;
        };
        session.last = session.last.max(now);
        let before = session.tcp;
        if let Some(segment) = segment {
            session.tcp = before.after(way, segment, now);
        }
        let after = session.tcp;
        if after.is_half_open() != before.is_half_open() {
            self.note_half_open(number, after.is_half_open());
        }
        let has_same_end = after.is_established() == before.is_established();
        if !has_same_end || !after.agrees_with(before) || self.wheel.is_aside(number) {
            self.put_back(number, external);
        }
        after.agrees_with(before)
    }

    /// Packets that rules handled used a session.
    pub fn credit(&mut self, number: u32, hits: &Hits, external: &mut External) {
        let Some(session) = self.sessions.at_mut(number) else {
            return;
        };
        session.last = session.last.max(hits.last);
        let was_established = session.tcp.is_established();
        if let Some(progress) = hits.progress {
            session.tcp.hear(progress, hits.last);
        }
        let has_same_end = session.tcp.is_established() == was_established;
        if !has_same_end || self.wheel.is_aside(number) {
            self.put_back(number, external);
        }
    }

    /// Puts a session where its end says: it may be another than before, and one that was set
    /// aside alive.
    fn put_back(&mut self, number: u32, external: &mut External) {
        let Some(session) = self.sessions.at(number) else {
            return;
        };
        let (binding, end) = (session.binding, self.end(session));
        let (was_aside, is_ahead) = (self.wheel.is_aside(number), self.wheel.is_ahead(end));
        match is_ahead {
            true => self.wheel.schedule(number, end),
            false => self.wheel.set_aside(number),
        }
        let change = i32::from(was_aside) - i32::from(!is_ahead);
        if change != 0 {
            self.count_live(binding, change, external);
        }
    }

    /// Sets aside all sessions that have expired, so that their ports count as free. Each is
    /// looked at once in a time-out, besides those who were used in the meantime.
    pub fn advance(&mut self, now: Instant, external: &mut External) {
        self.now = self.now.max(now);
        while self.advance_one(now, external) {}
    }

    /// Looks at one session that may have expired; false if there is none.
    fn advance_one(&mut self, now: Instant, external: &mut External) -> bool {
        let due = self.wheel.due(now);
        if let Some(number) = due {
            self.put_back(number, external);
        }
        due.is_some()
    }

    /// Ends a session, and its binding with the last one.
    pub fn remove(&mut self, number: u32, external: &mut External) {
        let Some(session) = self.sessions.remove(number) else {
            return;
        };
        let was_live = !self.wheel.is_aside(number);
        self.wheel.remove(number);
        self.half_open.remove(number);
        let hash = self.hash_of_session(session.binding, session.remote);
        self.by_remote.remove(hash, number);
        if let Some(next) = self.sessions.at_mut(session.next) {
            next.before = session.before;
        }
        if let Some(before) = self.sessions.at_mut(session.before) {
            before.next = session.next;
        } else if let Some(binding) = self.bindings.at_mut(session.binding) {
            binding.sessions = session.next;
        }
        if was_live {
            self.count_live(session.binding, -1, external);
        }
        if let Some(binding) = self.bindings.at_mut(session.binding) {
            binding.count -= 1;
        }
        let is_last = |binding: &Binding| binding.sessions == 0;
        if self.bindings.at(session.binding).is_some_and(is_last) {
            self.unbind(session.binding, external);
        }
    }

    /// A binding ends with all of its sessions, if there is one with this number.
    pub fn end_binding(&mut self, number: u32, external: &mut External) {
        let sessions: Vec<u32> = self.sessions_of(number).collect();
        for session in sessions {
            self.remove(session, external);
        }
        if self.binding(number).is_some() {
            self.unbind(number, external);
        }
    }

    fn unbind(&mut self, number: u32, external: &mut External) {
        self.take_idle(number);
        if let Some(binding) = self.bindings.remove(number) {
            let at = self.now;
            let hash = self.hash_of_binding(binding.kind, binding.internal);
            self.by_internal.remove(hash, number);
            external.bind(binding.slot, 0);
            match external.leave_block(binding.slot) {
                Some(back) => self.log.keep(|| block_event(back, external, at, false)),
                None if external.blocks().is_some() => {}
                None => self.log.keep(|| event(&binding, external, at, false)),
            }
        }
    }

    /// Protocols whose rules have other time-outs in another configuration.
    pub fn other_time_outs(&self, config: &Config) -> Vec<u8> {
        let (old, new) = (&self.timeouts, &config.timeouts);
        let mut protocols = Vec::new();
        if old.udp != new.udp {
            protocols.push(protocol::UDP);
        }
        if old.tcp_transitory != new.tcp_transitory {
            protocols.push(protocol::TCP);
        }
        if old.icmp != new.icmp {
            protocols.extend([protocol::ICMP, protocol::ICMP6]);
        }
        protocols
    }

    /// Other time-outs and another limit, for the sessions that there are too.
    pub fn configure(&mut self, config: &Config, external: &mut External) {
        self.limit = config.sessions;
        self.by_internal.make_room(config.sessions);
        self.by_remote.make_room(config.sessions);
        if self.hosts.v6_prefix() != config.per_host_v6_prefix {
            self.count_hosts_anew(config.per_host_v6_prefix);
        }
        if self.timeouts == config.timeouts {
            return;
        }
        self.timeouts = config.timeouts.clone();
        for number in 1..=self.highest {
            self.put_back(number, external);
        }
    }

    /// Something else counts as one host.
    fn count_hosts_anew(&mut self, v6_prefix: PrefixLength) {
        self.hosts.begin_anew(v6_prefix);
        for number in 1..self.bindings.bound() as u32 {
            let Some(binding) = self.bindings.at(number) else {
                continue;
            };
            let (host, kind, live) = (binding.internal.address, binding.kind, binding.live);
            self.hosts.change(kind, host, |host| {
                host.sessions += live;
                host.live += u32::from(live > 0);
            });
            if live == 0 {
                self.put_idle(number);
            }
        }
    }

    /// Ends the sessions of all bindings but some.
    pub fn retain(&mut self, stays: impl Fn(&Binding) -> bool, external: &mut External) {
        for number in 1..=self.highest {
            let session = self.sessions.at(number);
            let binding = session.and_then(|session| self.bindings.at(session.binding));
            if binding.is_some_and(|binding| !stays(binding)) {
                self.remove(number, external);
            }
        }
    }

    /// External addresses have other numbers: writes down which binding has which slot. All
    /// bindings have an address that stays.
    pub fn renumber(&mut self, moved: &[Option<u32>], external: &mut External) {
        for number in 1..self.bindings.bound() as u32 {
            if let Some(binding) = self.bindings.at_mut(number)
                && let Some(slot) = binding.slot.moved(moved)
            {
                binding.slot = slot;
                external.bind(slot, number);
                external.enter_block(slot, binding.internal.address);
                external.take(slot, binding.live > 0);
            }
        }
        self.sort_half_open(external.address_count());
    }

    /// Calls `each` with the numbers of expired sessions, at most `steps`, others with each call
    /// if there are more.
    pub fn each_expired(
        &mut self,
        steps: u32,
        now: Instant,
        external: &mut External,
        each: &mut dyn FnMut(u32),
    ) {
        for _ in 0..LOOKS * steps {
            if !self.advance_one(now, external) {
                break;
            }
        }
        let mut first = None;
        for _ in 0..steps {
            let Some(number) = self.wheel.next_aside() else {
                break;
            };
            if first == Some(number) {
                break;
            }
            first = first.or(Some(number));
            if self.is_expired(number, now) {
                each(number);
            }
        }
    }
}

/// Sessions that are looked at for each expired one that may be found.
const LOOKS: u32 = 8;

/// What becomes of a block of ports: its first one stands for a host, which has no port here.
fn block_event(
    change: BlockChange,
    external: &External,
    at: Instant,
    is_new: bool,
) -> BindingEvent {
    BindingEvent {
        binding: BindingRecord {
            kind: Kind::Tcp,
            internal: Endpoint::new(change.host, 0),
            external: external.first_of(change.block),
            sessions: 0,
        },
        at,
        is_new,
        last_port: Some(change.block.last),
    }
}

/// What becomes of a binding.
fn event(binding: &Binding, external: &External, at: Instant, is_new: bool) -> BindingEvent {
    BindingEvent {
        binding: BindingRecord {
            kind: binding.kind,
            internal: binding.internal,
            external: external.endpoint(binding.slot),
            sessions: binding.count,
        },
        at,
        is_new,
        last_port: None,
    }
}
