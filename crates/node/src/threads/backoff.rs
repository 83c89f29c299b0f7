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
        if before.elapsed() > UNSHARED {
            self.shared = WAITS;
        }
    }
}

/// Gives the processor to threads that wait for it: for no longer, in all, than it was kept.
#[derive(Default)]
pub(super) struct Way {
    /// Since the thread began.
    kept_until: Duration,
}

impl Way {
    /// Lets others in, unless what that took last has still to be made up for.
    pub fn give(&mut self, began: Instant) {
        let before = began.elapsed();
        if before >= self.kept_until {
            std::thread::yield_now();
            let after = began.elapsed();
            self.kept_until = after + (after - before);
        }
    }
}
