//! Bindings and sessions.

use super::config::{Config, MAX_SESSIONS, Timeouts};
use super::ports::{External, Kind, Slot};
use super::tcp::{Tcp, Way};
use crate::seeded::{Seed, SeededMap};
use std::time::Duration;
use twinpath_core::Instant;
use twinpath_core::wire::Endpoint;
use twinpath_slowpath::Slab;

/// What stands for an inside endpoint outside.
#[derive(Debug)]
pub(super) struct Binding {
    pub internal: Endpoint,
    pub kind: Kind,
    pub slot: Slot,
    /// Its newest session; a binding without any is gone.
    pub sessions: u32,
}

/// With whom a binding speaks.
#[derive(Debug)]
pub(super) struct Session {
    pub binding: u32,
    /// As much of the other end as filtering looks at.
    pub remote: Endpoint,
    pub tcp: Tcp,
    last: Instant,
    /// The binding's next session, and the one before.
    pub next: u32,
    before: u32,
}

/// All bindings and sessions, found by number and by endpoint.
#[derive(Debug)]
pub(super) struct Table {
    bindings: Slab<Binding>,
    by_internal: SeededMap<(Kind, Endpoint), u32>,
    sessions: Slab<Session>,
    by_remote: SeededMap<(u32, Endpoint), u32>,
    timeouts: Timeouts,
    limit: usize,
    /// Highest session number ever, and where the search for idle ones goes on.
    highest: u32,
    hand: u32,
    pub bindings_created: u64,
    pub sessions_created: u64,
}

impl Table {
    pub fn new(config: &Config, seed: u64) -> Self {
        Self {
            bindings: Slab::new(MAX_SESSIONS),
            by_internal: SeededMap::with_hasher(Seed(seed)),
            sessions: Slab::new(MAX_SESSIONS),
            by_remote: SeededMap::with_hasher(Seed(seed)),
            timeouts: config.timeouts.clone(),
            limit: config.sessions,
            highest: 0,
            hand: 0,
            bindings_created: 0,
            sessions_created: 0,
        }
    }

    pub fn binding(&self, number: u32) -> Option<&Binding> {
        self.bindings.at(number)
    }

    pub fn session(&self, number: u32) -> Option<&Session> {
        self.sessions.at(number)
    }

    pub fn binding_of(&self, internal: Endpoint, kind: Kind) -> Option<u32> {
        self.by_internal.get(&(kind, internal)).copied()
    }

    pub fn session_of(&self, binding: u32, remote: Endpoint) -> Option<u32> {
        self.by_remote.get(&(binding, remote)).copied()
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
        session.is_none_or(|session| now.since(session.last) > self.timeout(session))
    }

    fn timeout(&self, session: &Session) -> Duration {
        let kind = self
            .bindings
            .at(session.binding)
            .map(|binding| binding.kind);
        let timeout = match kind {
            Some(Kind::Tcp) if session.tcp.is_established() => self.timeouts.tcp_established,
            Some(Kind::Tcp) => self.timeouts.tcp_transitory,
            Some(Kind::Icmp) => self.timeouts.icmp,
            _ => self.timeouts.udp,
        };
        timeout.duration()
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
        };
        let number = self.bindings.insert(binding).ok()?;
        self.by_internal.insert((kind, internal), number);
        external.bind(slot, number);
        self.bindings_created += 1;
        Some(number)
    }

    /// The session of a binding with the other end, made if it is not there.
    pub fn ensure_session(&mut self, binding: u32, remote: Endpoint) -> Option<u32> {
        if let Some(known) = self.session_of(binding, remote) {
            return Some(known);
        }
        let next = self.bindings.at(binding)?.sessions;
        let session = Session {
            binding,
            remote,
            tcp: Tcp::default(),
            last: Instant::ZERO,
            next,
            before: 0,
        };
        let number = self.sessions.insert(session).ok()?;
        if let Some(next) = self.sessions.at_mut(next) {
            next.before = number;
        }
        self.bindings.at_mut(binding)?.sessions = number;
        self.by_remote.insert((binding, remote), number);
        self.highest = self.highest.max(number);
        self.sessions_created += 1;
        Some(number)
    }

    /// A packet used a session. Returns whether one like it would leave it as it is.
    pub fn touch(&mut self, number: u32, way: Way, flags: Option<u8>, now: Instant) -> bool {
        let Some(session) = self.sessions.at_mut(number) else {
            return false;
        };
        session.last = session.last.max(now);
        let after = flags.map_or(session.tcp, |flags| session.tcp.after(way, flags));
        let is_same = after == session.tcp;
        session.tcp = after;
        is_same
    }

    /// Packets that rules handled used a session.
    pub fn credit(&mut self, number: u32, last: Instant) {
        if let Some(session) = self.sessions.at_mut(number) {
            session.last = session.last.max(last);
        }
    }

    /// Ends a session, and its binding with the last one.
    pub fn remove(&mut self, number: u32, external: &mut External) {
        let Some(session) = self.sessions.remove(number) else {
            return;
        };
        self.by_remote.remove(&(session.binding, session.remote));
        if let Some(next) = self.sessions.at_mut(session.next) {
            next.before = session.before;
        }
        if let Some(before) = self.sessions.at_mut(session.before) {
            before.next = session.next;
        } else if let Some(binding) = self.bindings.at_mut(session.binding) {
            binding.sessions = session.next;
        }
        let is_last = |binding: &Binding| binding.sessions == 0;
        if self.bindings.at(session.binding).is_some_and(is_last)
            && let Some(binding) = self.bindings.remove(session.binding)
        {
            self.by_internal.remove(&(binding.kind, binding.internal));
            external.bind(binding.slot, 0);
        }
    }

    /// Other time-outs and another limit, for the sessions that there are too.
    pub fn configure(&mut self, config: &Config) {
        self.timeouts = config.timeouts.clone();
        self.limit = config.sessions;
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
        for &number in self.by_internal.values() {
            if let Some(binding) = self.bindings.at_mut(number)
                && let Some(slot) = binding.slot.moved(moved)
            {
                binding.slot = slot;
                external.bind(slot, number);
            }
        }
    }

    /// Looks at the next `steps` numbers, and calls `each` with those of expired sessions.
    pub fn each_expired(&mut self, steps: u32, now: Instant, each: &mut dyn FnMut(u32)) {
        for _ in 0..steps.min(self.highest) {
            self.hand = self.hand % self.highest + 1;
            if self.sessions.at(self.hand).is_some() && self.is_expired(self.hand, now) {
                each(self.hand);
            }
        }
    }
}
