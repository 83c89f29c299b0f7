//! Waiting that is quick at first and polite later: other threads may need the processor.

use std::time::{Duration, Instant};

/// So many looks in vain follow each other at once.
const QUICK: u32 = 64;
/// Up to so many, other threads may have the processor in between; then it is time to sleep.
const POLITE: u32 = 256;
/// Where no other thread needs the processor it comes back sooner than this.
const UNSHARED: Duration = Duration::from_micros(50);
/// So many waits later it is found out anew whether others need it.
const WAITS: u32 = 1000;

/// How long a thread has waited for something to do.
///
/// Whoever gives a processor away that another thread needs has it back after that one's whole turn, which
/// is milliseconds; whoever sleeps is let in when it wakes. So where others need the processor a thread
/// sleeps at once.
#[derive(Default)]
pub(super) struct Backoff {
    /// In vain, since there was something to do.
    looks: u32,
    /// Waits until it is found out anew whether others need the processor; 0 if they did not.
    shared: u32,
}

impl Backoff {
    /// There is something to do.
    pub fn end(&mut self) {
        if self.looks >= QUICK {
            self.shared = self.shared.saturating_sub(1);
        }
        self.looks = 0;
    }

    /// Waits a little; longer waits are `sleep`'s.
    pub fn wait_or(&mut self, sleep: impl FnOnce()) {
        self.looks = self.looks.saturating_add(1);
        match self.looks {
            0..QUICK => std::hint::spin_loop(),
            QUICK..POLITE if self.shared == 0 => self.let_others_in(),
            _ => sleep(),
        }
    }

    /// Waits a little.
    pub fn wait(&mut self) {
        self.wait_or(|| std::thread::sleep(Duration::from_micros(20)));
    }

    fn let_others_in(&mut self) {
        let before = Instant::now();
        std::thread::yield_now();
        self.came_back(before.elapsed());
    }

    /// The processor was away for so long.
    fn came_back(&mut self, after: Duration) {
        if after > UNSHARED {
            self.shared = WAITS;
        }
    }
}

/// Gives the processor to threads that wait for it: for no longer, in all, than it was kept.
#[derive(Default)]
pub(super) struct FairYield {
    /// Since the thread began.
    kept_until: Duration,
}

impl FairYield {
    /// Lets others in, unless what that took last has still to be made up for.
    pub fn give(&mut self, began: Instant) {
        let before = began.elapsed();
        if before >= self.kept_until {
            std::thread::yield_now();
            self.came_back(before, began.elapsed());
        }
    }

    /// The processor was given away at one time, and came back at another.
    fn came_back(&mut self, before: Duration, after: Duration) {
        self.kept_until = after + (after - before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a wait of so many looks sleeps.
    fn sleeps(backoff: &mut Backoff, looks: u32) -> u32 {
        let mut count = 0;
        (0..looks).for_each(|_| backoff.wait_or(|| count += 1));
        backoff.end();
        count
    }

    #[test]
    fn who_shares_a_processor_sleeps_at_once() {
        let mut backoff = Backoff::default();
        backoff.came_back(2 * UNSHARED);
        for _ in 0..WAITS {
            assert_eq!(sleeps(&mut backoff, POLITE), POLITE - QUICK + 1);
        }
        assert_eq!(backoff.shared, 0, "it is found out anew");
        backoff.came_back(UNSHARED / 2);
        assert_eq!(backoff.shared, 0, "nobody needs it");
        // Short waits tell nothing.
        backoff.came_back(2 * UNSHARED);
        assert_eq!(sleeps(&mut backoff, QUICK - 1), 0);
        assert_eq!(backoff.shared, WAITS);
    }

    #[test]
    fn a_processor_is_kept_for_as_long_as_it_was_away() {
        let ms = Duration::from_millis;
        let mut way = FairYield::default();
        way.came_back(ms(10), ms(14));
        assert_eq!(way.kept_until, ms(18));
        way.give(Instant::now());
        assert_eq!(way.kept_until, ms(18), "it is not given away before");
    }
}
