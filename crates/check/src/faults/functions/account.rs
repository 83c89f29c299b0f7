//! What an account of the [ledger](super::ledger) must be.

use super::blank::places_in_front;
use super::ledger::{DIRECTION_SHIFT, LAST, WORDS};
use twinpath_core::{Direction, Instant};

/// An account, computed from its definition alone.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Account(pub [u32; WORDS]);

impl Account {
    /// The account among the words of a whole chain: all others must be zero.
    pub fn among(words: &[u32]) -> Option<Self> {
        let first = places_in_front(words.len())?;
        let (own, others) = (first..first + WORDS, 0..words.len());
        let is_alone = others
            .filter(|place| !own.contains(place))
            .all(|place| words[place] == 0);
        let own = words[own.clone()].try_into().ok()?;
        is_alone.then_some(Self(own))
    }

    /// Whether nothing is known of the flow.
    pub fn is_nothing(self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Whether the flow has been silent for too long.
    pub fn is_expired(self, now: Instant, expiry_ticks: u32) -> bool {
        !self.is_nothing() && now.ticks().wrapping_sub(self.0[LAST]) > expiry_ticks
    }

    /// The flow ends.
    pub fn close(&mut self) {
        *self = Self::default();
    }

    /// A packet was heard of that is not entered yet.
    pub fn touch(&mut self, at: Instant) {
        self.0[LAST] = at.ticks();
    }

    /// The packet just entered came then; a closed account remembers nothing.
    pub fn touch_unless_nothing(&mut self, at: Instant) {
        if !self.is_nothing() {
            self.touch(at);
        }
    }

    /// A packet is entered.
    pub fn enter(&mut self, number: u32, direction: Direction) {
        let way = match direction {
            Direction::Original => 0,
            Direction::Reply => 1 << DIRECTION_SHIFT,
        };
        let [digest, count, last] = self.0;
        self.0 = [
            digest
                .wrapping_mul(31)
                .wrapping_add(number)
                .wrapping_add(way),
            count + 1,
            last,
        ];
    }
}
