//! How many flows each ENI has, close together: a change that gives all ENIs another part of the table of
//! flows looks at all of them, while packets wait.

use super::{Dpu, EniState};
use crate::tables::Tables;

/// Numbers of flows.
#[derive(Debug, Default)]
pub(super) struct FlowCounts {
    /// Of each ENI, by its number; none where no ENI has that.
    of_enis: Vec<Option<u32>>,
    /// How many an ENI may have for sure.
    part: u32,
    /// How many flows ENIs may open that have fewer than that.
    unused: usize,
}

impl FlowCounts {
    /// How many an ENI has.
    #[inline]
    pub fn of(&self, number: u16) -> u32 {
        let count = self.of_enis.get(usize::from(number));
        count.copied().flatten().unwrap_or(0)
    }

    /// How many an ENI may have for sure.
    #[inline]
    pub const fn part(&self) -> u32 {
        self.part
    }

    /// How many flows ENIs may open that have fewer than their parts.
    #[inline]
    pub const fn unused(&self) -> usize {
        self.unused
    }

    /// An ENI has a flow more.
    #[inline]
    pub fn add(&mut self, number: u16) {
        if let Some(Some(count)) = self.of_enis.get_mut(usize::from(number)) {
            self.unused -= usize::from(*count < self.part);
            *count += 1;
        }
    }

    /// An ENI has a flow less.
    #[inline]
    pub fn take(&mut self, number: u16) {
        if let Some(Some(count @ 1..)) = self.of_enis.get_mut(usize::from(number)) {
            *count -= 1;
            self.unused += usize::from(*count < self.part);
        }
    }

    /// Another ENI has a number, without flows, or none has it any more.
    pub fn set(&mut self, number: u16, is_there: bool) {
        let place = usize::from(number);
        if self.of_enis.len() <= place {
            self.of_enis.resize(place + 1, None);
        }
        let part = self.part;
        let old = self.of_enis[place].map_or(0, |count| part.saturating_sub(count));
        let new = if is_there { part } else { 0 };
        self.of_enis[place] = is_there.then_some(0);
        self.unused = self.unused - old as usize + new as usize;
    }

    /// An ENI may have so many for sure.
    pub fn set_part(&mut self, part: u32) {
        if self.part == part {
            return;
        }
        self.part = part;
        let counts = self.of_enis.iter().flatten();
        self.unused = counts
            .map(|count| part.saturating_sub(*count) as usize)
            .sum();
    }
}

impl Dpu {
    /// Each ENI has counters of its own. Looks at those alone that the last change was about, if it is known.
    pub(super) fn count_enis(&mut self) {
        let tables = self.tables.clone();
        let changes = tables.changes();
        match changes.since(&self.counted) {
            Some(enis) => enis.iter().for_each(|&eni| self.count_eni(eni, &tables)),
            None => (0..=u16::MAX)
                .take(tables.places().max(self.enis.len()))
                .for_each(|eni| self.count_eni(eni, &tables)),
        }
        self.counted = changes.version().clone();
        self.flow_counts.set_part(self.own_part());
        self.learn_new_limits();
    }

    /// What is kept of an ENI is of that which has its number.
    fn count_eni(&mut self, number: u16, tables: &Tables) {
        let (place, eni) = (usize::from(number), tables.eni(number));
        if self.enis.len() <= place {
            self.enis.resize_with(place + 1, EniState::default);
        }
        let serial = eni.map_or(0, |eni| eni.serial);
        let state = &mut self.enis[place];
        if state.serial != serial {
            *state = EniState {
                serial,
                ..EniState::default()
            };
            self.flow_counts.set(number, eni.is_some());
        }
        if let Some(eni) = eni {
            self.set_limit(number, eni.limits.flows);
        }
    }

    /// How many flows an ENI may have for sure.
    fn own_part(&self) -> u32 {
        let part = self.settings.flows / 4 / self.enis_here();
        u32::try_from(part).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every step by itself comes to what a look at all comes to.
    #[test]
    fn what_is_unused_is_the_sum_over_all() {
        let mut counts = FlowCounts::default();
        let (mut had_unused, mut had_more) = (false, false);
        let check = |counts: &FlowCounts| {
            let all = counts.of_enis.iter().flatten();
            let unused = all.map(|count| counts.part.saturating_sub(*count) as usize);
            assert_eq!(counts.unused, unused.sum::<usize>());
        };
        for step in 0..2000_u32 {
            let number = (step * 7 % 11) as u16;
            match step % 13 {
                0 => counts.set(number, true),
                1 => counts.set_part(step % 5),
                2 => counts.set(number, step % 3 == 0),
                3..6 => counts.take(number),
                _ => counts.add(number),
            }
            check(&counts);
            had_unused |= counts.unused > 0;
            had_more |= (0..11).any(|number| counts.of(number) > counts.part());
        }
        assert!(had_unused && had_more);
    }
}
