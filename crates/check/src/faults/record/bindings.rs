//! A translation's bindings: which was in force when, and who used it.

use crate::faults::functions::BINDING_IDLE;
use std::ops::RangeInclusive;
use twinpath_core::wire::Endpoint;
use twinpath_core::{Direction, Instant};

/// An external endpoint that stands, or stood, for one inside.
#[derive(Copy, Clone, Debug)]
struct Binding {
    pair: Pair,
    /// The turn in which it began.
    since: u64,
    /// The turn from which on the fast path has no rules of a life before that in which it began:
    /// they may drop what is for it.
    known_since: u64,
    /// The turn in which it ended.
    ended: u64,
    /// Until this turn there may be rules of it: longer if the workers have crashed.
    in_rules: u64,
    /// The last use that was seen.
    last_use: Option<Instant>,
    /// It ended for being idle, no later than this.
    found_idle: Option<Instant>,
}

/// Who has which external endpoint.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub internal: Endpoint,
    pub external: Endpoint,
}

impl Pair {
    /// The pair of the end that a packet of this direction had and the one that it has.
    pub const fn between(before: Endpoint, after: Endpoint, direction: Direction) -> Self {
        let (internal, external) = match direction {
            Direction::Original => (before, after),
            Direction::Reply => (after, before),
        };
        Self { internal, external }
    }

    /// What a packet of this direction has before it is translated.
    pub const fn before(self, direction: Direction) -> Endpoint {
        match direction {
            Direction::Original => self.internal,
            Direction::Reply => self.external,
        }
    }

    /// What it has afterwards.
    pub const fn after(self, direction: Direction) -> Endpoint {
        match direction {
            Direction::Original => self.external,
            Direction::Reply => self.internal,
        }
    }
}

/// Why bindings may have ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// They were idle, by this time at most.
    Idle { now: Instant },
    /// The workers have crashed.
    Crash,
    /// The chain has changed.
    Change,
}

/// All bindings so far.
#[derive(Default)]
pub struct Bindings {
    inside: Vec<Endpoint>,
    all: Vec<Binding>,
}

impl Bindings {
    /// Packets come from this endpoint.
    pub fn admit(&mut self, internal: Endpoint) {
        if !self.inside.contains(&internal) {
            self.inside.push(internal);
        }
    }

    /// Compares what the translation has with what it had. Returns what has changed, and appends
    /// what is wrong with that to `faults`.
    pub fn follow(
        &mut self,
        bound: impl Fn(Endpoint) -> Option<Endpoint>,
        (turn, why): (u64, Why),
        faults: &mut Vec<String>,
    ) -> Vec<(Endpoint, Option<Endpoint>)> {
        let mut changed = Vec::new();
        for &internal in &self.inside {
            let external = bound(internal);
            let mut known = self.all.iter_mut().rev();
            let known = known.find(|one| one.pair.internal == internal && one.ended == u64::MAX);
            if known.as_ref().map(|known| known.pair.external) == external {
                continue;
            }
            changed.push((internal, external));
            faults.extend(known.and_then(|known| known.end(turn, why)));
            if let Some(external) = external {
                self.all
                    .push(Binding::new(Pair { internal, external }, turn));
            }
        }
        changed
    }

    /// Whether there may be decisions of a binding in some of these turns.
    pub fn is_in_force(&self, pair: Pair, turns: &RangeInclusive<u64>) -> bool {
        let mut all = self.all.iter();
        all.any(|one| one.pair == pair && one.is_in_force(turns))
    }

    /// The bindings of which there may be decisions in some of these turns.
    pub fn in_force(&self, turns: RangeInclusive<u64>) -> impl Iterator<Item = Pair> {
        let all = self.all.iter();
        all.filter(move |one| one.is_in_force(&turns))
            .map(|one| one.pair)
    }

    /// Whether an external endpoint stood for somebody in all of these turns.
    pub fn is_bound(&self, external: Endpoint, turns: &RangeInclusive<u64>) -> bool {
        self.all.iter().any(|one| {
            let is_known = one.known_since < *turns.start();
            one.pair.external == external && is_known && one.ended > *turns.end()
        })
    }

    /// Tables are gone whose last reports may have been lost on the link.
    pub fn uses_may_be_lost(&mut self) {
        self.all.iter_mut().for_each(|one| one.last_use = None);
    }

    /// The fast path has heard that the workers have crashed, or has new tables: there are no rules
    /// of bindings that have ended.
    pub fn former_rules_are_gone(&mut self, turn: u64) {
        for one in &mut self.all {
            one.known_since = one.known_since.min(turn);
        }
        let has_ended = |one: &&mut Binding| one.ended != u64::MAX && one.in_rules == u64::MAX;
        let former = self.all.iter_mut().filter(has_ended);
        former.for_each(|one| one.in_rules = turn);
    }

    /// A packet of this time has used a binding. Says what is wrong with that.
    pub fn uses(&mut self, pair: Pair, at: Instant) -> Result<(), String> {
        let Some(one) = self.all.iter_mut().rfind(|one| one.pair == pair) else {
            return Ok(());
        };
        one.last_use = one.last_use.max(Some(at));
        match one.found_idle {
            Some(now) if !is_over(now, at) => Err(format!(
                "{pair:?} is used at {at:?}, but at {now:?} it was found idle"
            )),
            _ => Ok(()),
        }
    }

    /// Since when a binding has been idle too long for a use at this time, as far as uses were
    /// seen: the last of them.
    pub fn idle_since(&self, pair: Pair, at: Instant) -> Option<Instant> {
        let one = self.all.iter().rfind(|one| one.pair == pair)?;
        one.last_use.filter(|&last| is_over(at, last))
    }
}

impl Binding {
    fn new(pair: Pair, turn: u64) -> Self {
        Self {
            pair,
            since: turn,
            known_since: u64::MAX,
            ended: u64::MAX,
            in_rules: u64::MAX,
            last_use: None,
            found_idle: None,
        }
    }

    fn is_in_force(&self, turns: &RangeInclusive<u64>) -> bool {
        self.since <= *turns.end() && self.in_rules >= *turns.start()
    }

    /// It ends. Says what is wrong with that.
    fn end(&mut self, turn: u64, why: Why) -> Option<String> {
        self.ended = turn;
        if why != Why::Crash {
            self.in_rules = turn;
        }
        let Why::Idle { now } = why else {
            return None;
        };
        self.found_idle = Some(now);
        let last = self.last_use.filter(|&last| !is_over(now, last))?;
        let pair = self.pair;
        Some(format!(
            "{pair:?} ends for being idle at {now:?}, but was used at {last:?}"
        ))
    }
}

/// Whether a last use is longer ago than the idle time-out.
fn is_over(now: Instant, last: Instant) -> bool {
    now.since(last) > BINDING_IDLE
}
