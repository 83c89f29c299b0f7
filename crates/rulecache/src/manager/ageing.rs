//! What the manager does as time passes, and which rules give way.

use super::{Manager, Stage};
use crate::message::{CacheMessage, NewRule, RuleId};
use twinpath_core::Instant;

/// How many rules are looked at to find a cold one.
const CANDIDATES: usize = 32;
/// How many places are looked at to find those rules.
const MOST_LOOKED_AT: usize = 1024;

impl Manager {
    /// Lets time pass: sends again what was not answered, and takes out what nobody uses.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<CacheMessage>) {
        while let Some(&(retry, name)) = self.retries.front()
            && retry <= now
        {
            self.retries.pop_front();
            let place = self.current(name).filter(|place| place.retry == retry);
            let is_open =
                place.is_some_and(|place| place.stage != Stage::Installed || place.is_queried);
            if is_open {
                self.counters.repeated += 1;
                self.send(name.id, now, out);
            }
        }
        self.age(now, out);
    }

    /// A hand moves over the places once in a window.
    fn age(&mut self, now: Instant, out: &mut Vec<CacheMessage>) {
        let places = self.slots.len() as u128;
        let window = self.config.window.as_nanos().max(1);
        let elapsed = now.since(self.aged_until).as_nanos().min(window);
        let due = (places * elapsed / window) as usize;
        if due == 0 && places > 0 {
            return;
        }
        self.aged_until = now;
        for _ in 0..due {
            self.hand = (self.hand + 1) % places as u32;
            self.age_place(self.hand, now, out);
        }
    }

    fn age_place(&mut self, id: RuleId, now: Instant, out: &mut Vec<CacheMessage>) {
        let place = &mut self.slots[id as usize];
        if place.stage != Stage::Installed {
            return;
        }
        place.idle_windows = match place.packets {
            0 => place.idle_windows.saturating_add(1),
            _ => 0,
        };
        place.hotness = std::mem::take(&mut place.packets);
        if place.idle_windows >= self.config.idle_windows {
            self.counters.aged += 1;
            self.clear(id, now, out);
        }
    }

    /// The coldest of some installed rules, and how cold it is.
    pub(super) fn coldest(&mut self, exact: bool) -> Option<(RuleId, u64)> {
        let count = self.slots.len();
        let start = self.candidate;
        self.candidate = start.wrapping_add(CANDIDATES);
        (0..count.min(MOST_LOOKED_AT))
            .map(|step| start.wrapping_add(step) % count)
            .filter(|&id| {
                let place = &self.slots[id];
                let is_of_kind = |rule: &NewRule| rule.mask.is_of_a_flow() == exact;
                place.stage == Stage::Installed && place.rule.as_ref().is_some_and(is_of_kind)
            })
            .take(CANDIDATES)
            .map(|id| {
                (
                    id as RuleId,
                    self.slots[id].hotness.max(self.slots[id].packets),
                )
            })
            .min_by_key(|&(_, hotness)| hotness)
    }
}
