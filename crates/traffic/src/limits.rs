//! When a run ends.

use crate::config::TrafficConfig;

/// How far the run is, and how far it may go.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) packets_left: u64,
    end_ns: u64,
    pub(crate) now_ns: u64,
    /// The run is at its end, and only what is owed still comes.
    pub(crate) over: bool,
}

impl Limits {
    pub(crate) fn new(config: &TrafficConfig) -> Self {
        let end_ns = config
            .duration_ns
            .map(|length| config.start_ns.saturating_add(length));
        Self {
            packets_left: config.packets.unwrap_or(u64::MAX),
            end_ns: end_ns.unwrap_or(u64::MAX),
            now_ns: config.start_ns,
            over: false,
        }
    }

    /// The time of the next packet, which is in time; or the end of the run.
    pub(crate) fn advance(&mut self, next_ns: u64, owed: u64) {
        if next_ns < self.end_ns {
            self.now_ns = next_ns;
        } else {
            self.over = true;
            self.now_ns = self.now_ns.max(self.end_ns.saturating_sub(1));
        }
        self.over |= self.packets_left <= owed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(packets: Option<u64>, duration_ns: Option<u64>) -> Limits {
        let config = TrafficConfig {
            packets,
            duration_ns,
            start_ns: 100,
            ..Default::default()
        };
        Limits::new(&config)
    }

    #[test]
    fn time_ends_a_run_and_stands_still() {
        let mut limits = limits(None, Some(50));
        limits.advance(149, 0);
        assert!(!limits.over && limits.now_ns == 149);
        limits.advance(150, 0);
        assert!(limits.over && limits.now_ns == 149);
    }

    #[test]
    fn what_is_owed_comes_out_of_the_count() {
        let mut limits = limits(Some(3), None);
        limits.advance(100, 2);
        assert!(!limits.over);
        limits.packets_left = 2;
        limits.advance(101, 2);
        assert!(limits.over && limits.now_ns == 101);
    }
}
