//! How many flows an ENI with a limit has: as many as are not over, swept or not.

use twinpath_core::Instant;

use super::Dpu;
use crate::flows::{Deadlines, EntryNumber, State};

/// Ticks that are added to others, so that the sum is not taken for an earlier one.
const FARTHEST: u32 = 1 << 30;

impl Dpu {
    /// How many flows an ENI has, of which those that are over end if there are not less than `limit`.
    pub(super) fn flows_below(&mut self, limit: u32, number: u16, now: Instant) -> u32 {
        while self.flows_of(number) >= limit
            && let Some(place) = self.next_due(number, now)
        {
            let Some(tick) = self.earliest_end(place, number) else {
                continue;
            };
            let (entry, key) = (self.flows.get(place), self.flows.key(place));
            match self.is_over(&entry, key.protocol(), now) {
                true => self.end(place, |counters| counters.flows_aged += 1),
                false => {
                    let next = now.ticks().wrapping_add(1);
                    self.push_deadline(number, later(tick, next), place);
                }
            }
        }
        self.flows_of(number)
    }

    fn next_due(&mut self, number: u16, now: Instant) -> Option<EntryNumber> {
        let state = self.enis.get_mut(usize::from(number))?;
        state.deadlines.as_mut()?.pop(now.ticks())
    }

    /// The first tick at which the flow is over that has its forward entry at a place, if no packet
    /// comes, or an earlier one; nothing if it is none of the ENI's.
    fn earliest_end(&self, place: EntryNumber, number: u16) -> Option<u32> {
        let entry = self.flows.forward_at(place)?;
        let key = self.flows.key(place);
        let serial = self.enis.get(usize::from(number))?.serial;
        if key.serial() != serial {
            return None;
        }
        let idle = self.idle.of(key.protocol(), State::of(entry.state));
        let idle = idle.min(FARTHEST);
        let seen = later(entry.last_seen, self.flows.get(entry.peer).last_seen);
        Some(seen.wrapping_add(idle).wrapping_add(1))
    }

    fn push_deadline(&mut self, number: u16, tick: u32, place: EntryNumber) {
        let state = self.enis.get_mut(usize::from(number));
        if let Some(deadlines) = state.and_then(|state| state.deadlines.as_mut()) {
            deadlines.push(tick, place);
        }
    }

    /// A flow is new, has moved, or is over earlier than it would have been.
    #[inline]
    pub(super) fn keep_deadline(&mut self, forward: EntryNumber) {
        let number = self.flows.get(forward).eni;
        let state = self.enis.get(usize::from(number));
        if state.is_some_and(|state| state.deadlines.is_some()) {
            self.keep_deadline_of(number, forward);
        }
    }

    #[inline(never)]
    fn keep_deadline_of(&mut self, number: u16, forward: EntryNumber) {
        if let Some(tick) = self.earliest_end(forward, number) {
            self.push_deadline(number, tick, forward);
        }
        let state = &mut self.enis[usize::from(number)];
        let flows = state.flows;
        if let Some(mut deadlines) = state.deadlines.take_if(|all| all.are_stale(flows)) {
            deadlines.renew(|place| self.earliest_end(place, number));
            self.enis[usize::from(number)].deadlines = Some(deadlines);
        }
    }

    /// Entries have made room for one that was inserted.
    #[inline]
    pub(super) fn keep_moved(&mut self) {
        while let Some(place) = self.flows.next_moved() {
            if self.flows.forward_at(place).is_some() {
                self.keep_deadline(place);
            }
        }
    }

    /// ENIs may have limits now that had none, whose flows are looked for, or none any more.
    pub(super) fn set_limits(&mut self) {
        let mut is_any_new = false;
        for (number, eni) in self.tables.enis() {
            let state = &mut self.enis[usize::from(number)];
            match (eni.limits.flows, &state.deadlines) {
                (0, _) => state.deadlines = None,
                (_, Some(_)) => {}
                (_, None) => {
                    state.deadlines = Some(Deadlines::default());
                    is_any_new |= state.flows > 0;
                }
            }
        }
        if is_any_new {
            let forward: Vec<EntryNumber> = self.flows.iter().collect();
            forward
                .into_iter()
                .for_each(|place| self.keep_deadline(place));
        }
    }
}

/// The later of two times in ticks that are not far apart.
pub(super) const fn later(one: u32, other: u32) -> u32 {
    match (one.wrapping_sub(other) as i32) < 0 {
        true => other,
        false => one,
    }
}
