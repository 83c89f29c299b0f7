//! What must not overtake what came before it, although several cores work on that.

use std::collections::VecDeque;

/// Frames inside a device in order of arrival: packets, which are done in any order, and others that
/// wait until all before them are.
#[derive(Debug)]
pub(super) struct Barrier<F> {
    inside: VecDeque<Inside<F>>,
    first: u64,
}

#[derive(Debug)]
enum Inside<F> {
    Working,
    Done,
    Waiting(F),
}

impl<F> Default for Barrier<F> {
    fn default() -> Self {
        Self {
            inside: VecDeque::new(),
            first: 0,
        }
    }
}

impl<F> Barrier<F> {
    /// A packet arrives; it is done when its ticket is given back.
    pub(super) fn enter(&mut self) -> u64 {
        self.inside.push_back(Inside::Working);
        self.first + self.inside.len() as u64 - 1
    }

    /// A packet is done.
    pub(super) fn done(&mut self, ticket: u64) {
        let index = ticket.checked_sub(self.first);
        if let Some(place) = index.and_then(|index| self.inside.get_mut(index as usize)) {
            *place = Inside::Done;
        }
    }

    /// Something arrives that must wait.
    pub(super) fn wait(&mut self, what: F) {
        self.inside.push_back(Inside::Waiting(what));
    }

    /// The next that has waited for all before it.
    pub(super) fn next_free(&mut self) -> Option<F> {
        while let Some(first) = self.inside.front() {
            if matches!(first, Inside::Working) {
                return None;
            }
            let first = self.inside.pop_front();
            self.first += 1;
            if let Some(Inside::Waiting(what)) = first {
                return Some(what);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_leaves_behind_all_before_it() {
        let mut barrier = Barrier::default();
        let [a, b] = [(); 2].map(|()| barrier.enter());
        barrier.wait('x');
        let c = barrier.enter();
        barrier.wait('y');
        barrier.done(b);
        barrier.done(c);
        assert_eq!(barrier.next_free(), None);
        barrier.done(a);
        assert_eq!(
            [(); 3].map(|()| barrier.next_free()),
            [Some('x'), Some('y'), None]
        );
        assert_eq!(barrier.enter(), 5);
        barrier.wait('z');
        assert_eq!(barrier.next_free(), None);
        barrier.done(5);
        assert_eq!(barrier.next_free(), Some('z'));
    }
}
