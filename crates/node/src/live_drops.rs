//! What a worker dropped so far, for the live display: its thread publishes, another reads.

use std::sync::atomic::{AtomicU64, Ordering};
use twinpath_core::{DropCounters, DropReason};

/// Drop counters that one thread writes and any may read, without locks. A reader may see some
/// reasons a batch ahead of others.
#[derive(Debug)]
pub struct LiveDrops([AtomicU64; DropReason::COUNT]);

impl Default for LiveDrops {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; DropReason::COUNT])
    }
}

impl LiveDrops {
    /// Lets others see these counters.
    pub fn publish(&self, drops: &DropCounters) {
        for (reason, count) in drops.nonzero() {
            self.0[reason.index()].store(count, Ordering::Relaxed);
        }
    }

    /// The counters as last published.
    pub fn read(&self) -> DropCounters {
        let mut drops = DropCounters::default();
        for reason in DropReason::all() {
            drops.add(reason, self.0[reason.index()].load(Ordering::Relaxed));
        }
        drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_read() {
        let (live, mut drops) = (LiveDrops::default(), DropCounters::default());
        for reason in DropReason::all() {
            drops.count(reason);
            live.publish(&drops);
            assert_eq!(live.read(), drops);
        }
    }
}
