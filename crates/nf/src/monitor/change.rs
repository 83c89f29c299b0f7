//! Another configuration, while packets flow.

use super::config::Config;
use super::flows::Flows;
use super::function::{MAX_ENDED, Monitor, OVERFLOW};
use twinpath_rulecache::{Affected, Concern, Reconfigure};

/// A configuration ready to take effect.
#[derive(Debug)]
pub struct NewMonitor {
    config: Config,
    /// Where flows are counted if they are told apart in another way than before.
    flows: Flows,
}

impl NewMonitor {
    /// Prepares a configuration; the seed is for [the same](Monitor::new) as the first one's.
    pub fn new(config: &Config, seed: u64) -> Self {
        Self {
            config: config.clone(),
            flows: Flows::new(config.flows.0, seed),
        }
    }
}

impl Reconfigure for Monitor {
    type New = NewMonitor;

    /// If flows are told apart as before, flows that found no room may find some now.
    fn affected_by(&self, new: &NewMonitor) -> Affected {
        match new.config.by == self.by {
            true => Affected::Rules(vec![Concern::entries(vec![OVERFLOW])]),
            false => Affected::Everything,
        }
    }

    fn apply(&mut self, new: &mut NewMonitor) {
        self.idle = new.config.idle.duration();
        if new.config.by == self.by {
            self.flows.set_limit(new.config.flows.0);
        } else {
            self.by = new.config.by;
            std::mem::swap(&mut self.flows, &mut new.flows);
            self.end_all(&new.flows);
        }
    }
}

impl Monitor {
    /// Ends flows that are counted no more. As many records as can wait are kept, so that packets
    /// need not wait for millions.
    fn end_all(&mut self, flows: &Flows) {
        flows
            .iter()
            .take(MAX_ENDED)
            .for_each(|record| self.keep_ended(*record));
        let others = flows.len().saturating_sub(MAX_ENDED) as u64;
        self.finished += others;
        self.lost += others;
    }
}
