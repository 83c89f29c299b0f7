//! What does not come to a collector, in words: at once, and then now and then while there is more of it.

use std::time::{Duration, Instant as WallClock};
use twinpath_control::report::ExportCounters;

/// So often it is told at most.
const INTERVAL: Duration = Duration::from_secs(60);

/// What was told of losses.
#[derive(Debug, Default)]
pub struct Losses {
    told: Option<String>,
    at: Option<WallClock>,
}

impl Losses {
    /// What is to be told now of what was lost since the start, if more was than when it was told last. `why` is
    /// what the system said of a message that it did not take.
    pub fn due(
        &mut self,
        counters: &ExportCounters,
        why: Option<&str>,
        now: WallClock,
    ) -> Option<String> {
        let is_soon = |at: WallClock| now.saturating_duration_since(at) < INTERVAL;
        if self.at.is_some_and(is_soon) {
            return None;
        }
        let lost = counters.losses();
        if lost == self.told {
            return None;
        }
        (self.told, self.at) = (lost.clone(), Some(now));
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        lost.map(|lost| lost + &why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_with_their_counts_once_in_a_while() {
        let (mut losses, start) = (Losses::default(), WallClock::now());
        let lost = |messages_lost, bindings_lost| ExportCounters {
            messages_lost,
            bindings_lost,
            ..ExportCounters::default()
        };
        let mut due = |counters, seconds| {
            losses.due(
                &counters,
                Some("no route"),
                start + Duration::from_secs(seconds),
            )
        };
        assert_eq!(due(lost(0, 0), 0), None);
        let one = "[ipfix] the collector does not hear all; lost since the start: 1 message that the system did not take (no route)";
        assert_eq!(due(lost(1, 0), 1).as_deref(), Some(one));
        assert_eq!(due(lost(7, 0), 2), None, "not so soon");
        let both = due(lost(8, 2), 61).expect("there are more");
        let expected = "8 messages that the system did not take, and 2 events of bindings, of which too many waited (no route)";
        assert!(both.ends_with(expected), "{both}");
        assert_eq!(due(lost(8, 2), 200), None, "no more than before");
        assert!(due(lost(8, 3), 201).is_some());
    }
}
