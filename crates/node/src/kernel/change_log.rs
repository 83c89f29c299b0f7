//! What the log hears of the kernel's changes: however many there are, a line a second at most.

use std::time::Duration;

/// The least time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Changes that the log has not been told of.
#[derive(Debug, Default)]
pub(super) struct Summary {
    changes: u64,
    routes: u64,
    longest_pause: Duration,
    /// When it may be told.
    next: Duration,
}

impl Summary {
    /// One more change, in which so many routes are others; packets waited for it so long.
    pub fn add(&mut self, routes: u64, pause: Duration) {
        self.changes += 1;
        self.routes += routes;
        self.longest_pause = self.longest_pause.max(pause);
    }

    /// Tells the log, if there is something to tell and it has not been told for a while.
    pub fn tell(&mut self, now: Duration) {
        let Some(told) = self.take(now) else {
            return;
        };
        let (changes, routes) = (told.changes, told.routes);
        let longest_pause_us = told.longest_pause.as_micros() as u64;
        tracing::info!(
            changes,
            routes,
            longest_pause_us,
            "the kernel's routes changed"
        );
    }

    fn take(&mut self, now: Duration) -> Option<Self> {
        if self.changes == 0 || now < self.next {
            return None;
        }
        let next = now + INTERVAL;
        let empty = Self {
            next,
            ..Self::default()
        };
        Some(std::mem::replace(self, empty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_changes_are_a_line_a_second() {
        let mut summary = Summary::default();
        let (mut lines, mut changes, mut routes) = (0, 0, 0);
        for tick in 0..=200 {
            let now = Duration::from_millis(50 * tick);
            if tick < 180 {
                summary.add(3, Duration::from_millis(tick));
            }
            if let Some(told) = summary.take(now) {
                lines += 1;
                changes += told.changes;
                routes += told.routes;
            }
        }
        assert_eq!((lines, changes, routes), (10, 180, 540));
        assert!(
            summary.take(Duration::MAX).is_none(),
            "nothing is told twice"
        );
    }
}
