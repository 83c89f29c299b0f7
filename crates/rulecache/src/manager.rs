//! The workers' book of cached rules: which there are, which entries they came from, and what the
//! fast path still has to answer (SFCache §IV-B).
//!
//! The manager gives out the places of the fast path's table. A place is used again only when the
//! fast path has said that the rule before is gone, and by a higher generation. Requests that
//! remain unanswered are sent again; all answers may come twice or late.
//!
//! An entry is *free* when no rule came from it, on the fast path or on its way. A function may
//! change an entry only then. [`Manager::close`] takes out an entry's rules and admits no new ones
//! until [`Manager::open`].

mod ageing;
mod change;
mod config;
#[cfg(test)]
mod tests;

pub use config::{ManagerConfig, ManagerCounters, Offer};

use crate::function::Hits;
use crate::index::{Index, Link};
use crate::key::MatchKey;
use crate::message::{CacheMessage, NewRule, RuleId, RuleName, Uses};
use crate::reconfigure::Affected;
use crate::recorded::Dependents;
use crate::recording::EntryId;
use crate::synthesis::Rule;
use std::collections::{BTreeSet, HashMap, VecDeque};
use twinpath_core::Instant;

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Free,
    Adding,
    Installed,
    Clearing,
}

/// One place of the fast path's table.
#[derive(Default)]
struct Slot {
    stage: Stage,
    generation: u32,
    rule: Option<NewRule>,
    links: Box<[Link]>,
    /// See [`Rule::hides_ends`].
    hides_ends: bool,
    /// The uses that were credited.
    credited: Uses,
    /// Packets in this window of ageing so far, and in the last one (as offered, at first).
    packets: u64,
    hotness: u64,
    idle_windows: u8,
    /// The fast path was asked how the rule was used.
    is_queried: bool,
    /// When what is unanswered is asked again.
    retry: Instant,
}

/// A cached rule as the operator sees it.
#[derive(Copy, Clone, Debug)]
pub struct CachedRule<'a> {
    /// Its name.
    pub name: RuleName,
    /// Match and action.
    pub rule: &'a NewRule,
    /// Its uses as far as reported.
    pub uses: Uses,
    /// Whether the fast path has said that it arrived.
    pub is_installed: bool,
    links: &'a [Link],
}

impl CachedRule<'_> {
    /// The entries it came from.
    pub fn entries(&self) -> impl Iterator<Item = EntryId> + '_ {
        self.links.iter().map(|link| link.entry)
    }
}

struct Successor {
    place: RuleId,
    rule: Rule,
    hotness: u32,
}

/// The book of cached rules.
pub struct Manager {
    config: ManagerConfig,
    slots: Vec<Slot>,
    free: Vec<RuleId>,
    index: Index,
    /// Places by mask and value.
    by_match: HashMap<(MatchKey, MatchKey), RuleId>,
    /// Rules by mask, exact match aside.
    masks: HashMap<MatchKey, u32>,
    exact: usize,
    masked: usize,
    closed: BTreeSet<EntryId>,
    /// What is about to change, by the functions' places.
    changing: Vec<(u8, Affected)>,
    successors: Vec<Successor>,
    retries: VecDeque<(Instant, RuleName)>,
    candidate: usize,
    hand: u32,
    aged_until: Instant,
    /// Entries some of whose rules were reported, or are gone.
    news: VecDeque<EntryId>,
    counters: ManagerCounters,
}

impl Dependents for Manager {
    fn is_free(&self, entry: EntryId) -> bool {
        let waits = |successor: &Successor| successor.rule.dependencies.has(entry);
        !self.index.has(entry) && !self.successors.iter().any(waits)
    }
}

impl Manager {
    /// A book without rules.
    pub fn new(config: ManagerConfig) -> Self {
        let rules = config.exact + config.masked;
        Self {
            config,
            slots: Vec::new(),
            free: (0..rules as u32).rev().collect(),
            index: Index::default(),
            by_match: HashMap::new(),
            masks: HashMap::new(),
            exact: 0,
            masked: 0,
            closed: BTreeSet::new(),
            changing: Vec::new(),
            successors: Vec::new(),
            retries: VecDeque::new(),
            candidate: 0,
            hand: 0,
            aged_until: Instant::ZERO,
            news: VecDeque::new(),
            counters: ManagerCounters::default(),
        }
    }

    /// Counters so far.
    pub fn counters(&self) -> ManagerCounters {
        self.counters
    }

    /// Rules that have a place, those on their way in or out included.
    pub fn rules(&self) -> usize {
        self.exact + self.masked
    }

    /// The cached rules, by place.
    pub fn iter(&self) -> impl Iterator<Item = CachedRule<'_>> {
        (0..).zip(&self.slots).filter_map(|(id, place)| {
            Some(CachedRule {
                name: name_of(id, place),
                rule: place.rule.as_ref()?,
                uses: place.credited,
                is_installed: place.stage == Stage::Installed,
                links: &place.links,
            })
        })
    }

    /// A rule that has a place: it may be on the fast path.
    pub fn rule(&self, name: RuleName) -> Option<&NewRule> {
        let place = self.slots.get(name.id as usize)?;
        let is_current = place.generation == name.generation;
        place.rule.as_ref().filter(|_| is_current)
    }

    /// Offers a hot rule, made from the packet with key `original`.
    pub fn offer(
        &mut self,
        mut rule: Rule,
        original: &MatchKey,
        hotness: u32,
        now: Instant,
        out: &mut Vec<CacheMessage>,
    ) -> Offer {
        if let Some(refused) = self.refusal(&rule) {
            return refused;
        }
        if !self.has_mask_for(&rule) {
            self.counters.narrowed += 1;
            rule = rule.exact(original);
            if let Some(refused) = self.refusal(&rule) {
                return refused;
            }
        }
        let (used, limit) = match rule.is_exact() {
            true => (self.exact, self.config.exact),
            false => (self.masked, self.config.masked),
        };
        if used >= limit {
            return self.replace(rule, hotness, now, out);
        }
        match self.free.pop() {
            Some(id) => self.add(id, &rule, hotness, now, out),
            None => Offer::NoRoom,
        }
    }

    fn refusal(&mut self, rule: &Rule) -> Option<Offer> {
        if self.by_match.contains_key(&(rule.mask, rule.value)) {
            self.counters.known += 1;
            return Some(Offer::Known);
        }
        let dependencies = rule.dependencies.as_slice();
        let is_closed = self.is_changing(rule)
            || dependencies
                .iter()
                .any(|dependency| self.closed.contains(&dependency.entry));
        self.counters.closed += u64::from(is_closed);
        is_closed.then_some(Offer::Closed)
    }

    fn has_mask_for(&self, rule: &Rule) -> bool {
        let has_room = self.masks.len() < self.config.masks;
        rule.is_exact() || has_room || self.masks.contains_key(&rule.mask)
    }

    fn add(
        &mut self,
        id: RuleId,
        rule: &Rule,
        hotness: u32,
        now: Instant,
        out: &mut Vec<CacheMessage>,
    ) -> Offer {
        if self.slots.len() <= id as usize {
            self.slots.resize_with(id as usize + 1, Slot::default);
        }
        self.by_match.insert((rule.mask, rule.value), id);
        self.count_kind(&rule.mask, 1);
        let place = &mut self.slots[id as usize];
        *place = Slot {
            stage: Stage::Adding,
            generation: place.generation.wrapping_add(1),
            rule: Some(NewRule {
                mask: rule.mask,
                value: rule.value,
                action: rule.action,
                used: rule.used,
            }),
            links: self.index.add(id, &rule.dependencies),
            hides_ends: rule.hides_ends,
            hotness: hotness.into(),
            // The packet that it was made from, so that its first window counts as used whenever
            // the hand comes by.
            packets: 1,
            ..Slot::default()
        };
        self.counters.added += 1;
        self.send(id, now, out);
        Offer::Added(id)
    }

    fn count_kind(&mut self, mask: &MatchKey, more: i32) {
        if mask.is_of_a_flow() {
            self.exact = self.exact.saturating_add_signed(more as isize);
            return;
        }
        self.masked = self.masked.saturating_add_signed(more as isize);
        let count = self.masks.entry(*mask).or_default();
        *count = count.saturating_add_signed(more);
        if *count == 0 {
            self.masks.remove(mask);
        }
    }

    /// Finds a colder rule of the same kind that gives way.
    fn replace(
        &mut self,
        rule: Rule,
        hotness: u32,
        now: Instant,
        out: &mut Vec<CacheMessage>,
    ) -> Offer {
        let victim = self.coldest(rule.is_exact());
        let has_room = self.successors.len() < self.config.successors;
        let Some((id, _)) = victim.filter(|&(_, cold)| cold < u64::from(hotness) && has_room)
        else {
            self.counters.no_room += 1;
            return Offer::NoRoom;
        };
        self.counters.replaced += 1;
        self.successors.push(Successor {
            place: id,
            rule,
            hotness,
        });
        self.clear(id, now, out);
        Offer::Replaces(id)
    }

    /// Asks the fast path to take a rule out, unless it has been asked.
    pub fn clear(&mut self, id: RuleId, now: Instant, out: &mut Vec<CacheMessage>) {
        let place = &mut self.slots[id as usize];
        if matches!(place.stage, Stage::Adding | Stage::Installed) {
            place.stage = Stage::Clearing;
            self.send(id, now, out);
        }
    }

    /// Sends what a place waits to be answered, and notes when to send it again.
    fn send(&mut self, id: RuleId, now: Instant, out: &mut Vec<CacheMessage>) {
        let retry = now + self.config.retry;
        let place = &mut self.slots[id as usize];
        let name = name_of(id, place);
        match (place.stage, &place.rule) {
            (Stage::Adding, Some(rule)) => out.push(CacheMessage::Add(name, Box::new(*rule))),
            (Stage::Clearing, _) => out.push(CacheMessage::Clear(name)),
            _ => {}
        }
        if place.is_queried {
            out.push(CacheMessage::Query(name));
        }
        place.retry = retry;
        self.retries.push_back((retry, name));
    }

    /// Asks how the rules of an entry were used; [`Self::is_answered`] tells when all is credited.
    pub fn query(&mut self, entry: EntryId, now: Instant, out: &mut Vec<CacheMessage>) {
        let rules: Vec<RuleId> = self.index.rules(entry).collect();
        for id in rules {
            let place = &mut self.slots[id as usize];
            if !place.is_queried && place.stage != Stage::Clearing {
                place.is_queried = true;
                self.send(id, now, out);
            }
        }
    }

    /// Whether all rules of an entry have been reported since they were queried.
    pub fn is_answered(&self, entry: EntryId) -> bool {
        self.index
            .rules(entry)
            .all(|id| !self.slots[id as usize].is_queried)
    }

    /// Whether it is known how all rules of an entry were used up to now, or at least up to when they were
    /// queried: none is unanswered, or on its way out.
    pub fn is_told(&self, entry: EntryId) -> bool {
        self.index.rules(entry).all(|id| {
            let place = &self.slots[id as usize];
            !place.is_queried && place.stage != Stage::Clearing
        })
    }

    /// The next entry of which there is news: rules of it were reported, or are gone.
    pub fn next_news(&mut self) -> Option<EntryId> {
        self.news.pop_front()
    }

    /// Nobody waits for news.
    pub fn forget_news(&mut self) {
        self.news.clear();
    }

    /// Somebody begins to wait for an entry of which there may have been news.
    pub fn tell_of(&mut self, entry: EntryId) {
        self.news.push_back(entry);
    }

    /// Takes out all rules of an entry, and admits no new ones. Wait until the entry [is free](Dependents::is_free) before it changes.
    pub fn close(&mut self, entry: EntryId, now: Instant, out: &mut Vec<CacheMessage>) {
        self.closed.insert(entry);
        self.successors
            .retain(|successor| !successor.rule.dependencies.has(entry));
        let rules: Vec<RuleId> = self.index.rules(entry).collect();
        for id in rules {
            self.invalidate(id, now, out);
        }
    }

    /// Admits rules of an entry again.
    pub fn open(&mut self, entry: EntryId) {
        self.closed.remove(&entry);
    }

    fn invalidate(&mut self, id: RuleId, now: Instant, out: &mut Vec<CacheMessage>) {
        if self.slots[id as usize].stage != Stage::Clearing {
            self.counters.invalidated += 1;
        }
        self.clear(id, now, out);
    }

    /// Takes a message from the fast path. `credit` is called with every entry that a rule with
    /// newly reported uses came from.
    pub fn message(
        &mut self,
        message: &CacheMessage,
        now: Instant,
        credit: &mut dyn FnMut(EntryId, &Hits),
        out: &mut Vec<CacheMessage>,
    ) {
        let name = match message {
            CacheMessage::Installed(name)
            | CacheMessage::Gone(name, ..)
            | CacheMessage::Used(name, _) => *name,
            // Marks are answered by whoever knows what was sent before; the rest goes the other way.
            _ => return,
        };
        let Some(place) = self.current(name) else {
            self.counters.stale += 1;
            return;
        };
        match message {
            CacheMessage::Installed(_) if place.stage == Stage::Adding => {
                place.stage = Stage::Installed;
            }
            CacheMessage::Used(_, uses) => {
                let was_queried = std::mem::take(&mut place.is_queried);
                if was_queried {
                    let links = place.links.iter().map(|link| link.entry);
                    let entries: Vec<EntryId> = links.collect();
                    self.news.extend(entries);
                }
                self.credit(name.id, uses, credit);
            }
            CacheMessage::Gone(_, uses, _) => {
                self.counters.gone += u64::from(place.stage != Stage::Clearing);
                self.credit(name.id, uses, credit);
                self.give_back(name.id, now, out);
            }
            _ => {}
        }
    }

    fn current(&mut self, name: RuleName) -> Option<&mut Slot> {
        self.slots
            .get_mut(name.id as usize)
            .filter(|place| place.generation == name.generation && place.stage != Stage::Free)
    }

    fn credit(&mut self, id: RuleId, uses: &Uses, credit: &mut dyn FnMut(EntryId, &Hits)) {
        let place = &mut self.slots[id as usize];
        let packets = uses.packets.saturating_sub(place.credited.packets);
        if packets == 0 {
            return;
        }
        let hits = Hits {
            packets,
            bytes: uses.bytes.saturating_sub(place.credited.bytes),
            last: uses.last,
            progress: None,
        };
        place.credited = *uses;
        place.packets += packets;
        for link in &place.links {
            let progress = uses.progress.filter(|_| link.hears_progress);
            credit(link.entry, &Hits { progress, ..hits });
        }
    }

    /// A place is free; whoever waits for it gets it.
    fn give_back(&mut self, id: RuleId, now: Instant, out: &mut Vec<CacheMessage>) {
        let place = &mut self.slots[id as usize];
        place.stage = Stage::Free;
        place.is_queried = false;
        let (links, rule) = (std::mem::take(&mut place.links), place.rule.take());
        self.news.extend(links.iter().map(|link| link.entry));
        let places = &mut self.slots;
        self.index.remove(&links, |other, number, place| {
            places[other as usize].links[usize::from(number)].move_to(place);
        });
        if let Some(rule) = rule {
            self.by_match.remove(&(rule.mask, rule.value));
            self.count_kind(&rule.mask, -1);
        }
        self.free.push(id);
        let waiting = self
            .successors
            .iter()
            .position(|successor| successor.place == id);
        if let Some(waiting) = waiting {
            let Successor { rule, hotness, .. } = self.successors.swap_remove(waiting);
            self.succeed(rule, hotness, now, out);
        }
    }

    fn succeed(&mut self, rule: Rule, hotness: u32, now: Instant, out: &mut Vec<CacheMessage>) {
        let is_welcome = self.refusal(&rule).is_none() && self.has_mask_for(&rule);
        let id = if is_welcome { self.free.pop() } else { None };
        if let Some(id) = id {
            self.add(id, &rule, hotness, now, out);
        }
    }
}

fn name_of(id: RuleId, place: &Slot) -> RuleName {
    RuleName {
        id,
        generation: place.generation,
    }
}
