//! Places for those who are served at the same time, each on a thread of its own: where there are no
//! more, whoever has been silent for longest makes one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many places, by the numbers of those who have them: later ones have higher numbers.
pub struct ClientSlots<S> {
    most: usize,
    present: Mutex<BTreeMap<u64, Present<S>>>,
}

/// Somebody who is being served.
struct Present<S> {
    stream: S,
    /// It has said what it wants.
    has_asked: bool,
}

/// What became of somebody who came.
#[derive(Debug, PartialEq, Eq)]
pub enum Entered<S> {
    /// There was room.
    WithRoom,
    /// In place of another, which is to be sent away.
    InPlaceOf(S),
    /// There is none: all have said what they want.
    Full,
}

impl<S> ClientSlots<S> {
    /// So many places, all free.
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            present: Mutex::new(BTreeMap::new()),
        }
    }

    /// Somebody has come. Where all places are taken, whoever came first of those that have not said what
    /// they want makes room.
    pub fn enter(&self, number: u64, stream: S) -> Entered<S> {
        let mut present = self.present();
        let mut gone = None;
        if present.len() >= self.most {
            let mut silent = present.iter().filter(|(_, one)| !one.has_asked);
            let oldest = silent.next().map(|(number, _)| *number);
            gone = oldest.and_then(|number| present.remove(&number));
            if gone.is_none() {
                return Entered::Full;
            }
        }
        let has_asked = false;
        present.insert(number, Present { stream, has_asked });
        match gone {
            Some(gone) => Entered::InPlaceOf(gone.stream),
            None => Entered::WithRoom,
        }
    }

    /// Somebody has said what it wants; false if its place was taken meanwhile.
    pub fn has_asked(&self, number: u64) -> bool {
        let mut present = self.present();
        let one = present.get_mut(&number);
        one.map(|one| one.has_asked = true).is_some()
    }

    /// Somebody has gone.
    pub fn leave(&self, number: u64) {
        self.present().remove(&number);
    }

    /// Whether nobody is being served.
    pub fn is_empty(&self) -> bool {
        self.present().is_empty()
    }

    /// Sees everybody, and whether they have said what they want.
    pub fn each(&self, mut see: impl FnMut(&S, bool)) {
        let present = self.present();
        present
            .values()
            .for_each(|one| see(&one.stream, one.has_asked));
    }

    fn present(&self) -> MutexGuard<'_, BTreeMap<u64, Present<S>>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_been_silent_for_longest_makes_room() {
        let places = ClientSlots::new(3);
        for number in 1..=3 {
            assert_eq!(places.enter(number, number), Entered::WithRoom);
        }
        assert!(places.has_asked(1));
        assert_eq!(places.enter(4, 4), Entered::InPlaceOf(2));
        assert!(!places.has_asked(2), "it was sent away");
        assert!(places.has_asked(3) && places.has_asked(4));
        assert_eq!(places.enter(5, 5), Entered::Full);
        places.leave(1);
        assert_eq!(places.enter(6, 6), Entered::WithRoom);
        for number in [3, 4, 6] {
            places.leave(number);
        }
        assert!(places.is_empty());
    }
}
