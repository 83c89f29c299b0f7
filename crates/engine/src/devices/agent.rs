//! A control-plane agent: it installs entries, a few at a time and late.

use super::{QueueFull, Server, Through};
use crate::time::Time;

/// Installs one entry after the other.
#[derive(Clone, Debug)]
pub struct Agent {
    entry_time: Time,
    latency: Time,
    backlog: u64,
    server: Server,
    installed: u64,
    refused: u64,
}

impl Agent {
    /// An agent of so many entries a second, each operational `latency` after its turn, with room
    /// for `backlog` requests.
    pub fn new(entries_per_s: f64, latency: Time, backlog: u64) -> Self {
        Self {
            entry_time: Time::from_ns_f64(1e9 / entries_per_s),
            latency,
            backlog,
            server: Server::default(),
            installed: 0,
            refused: 0,
        }
    }

    /// When an entry requested now is operational.
    ///
    /// # Errors
    /// The backlog is full.
    pub fn install(&mut self, now: Time) -> Through {
        if self.server.wait(now).0 / self.entry_time.0.max(1) >= self.backlog {
            self.refused += 1;
            return Err(QueueFull);
        }
        self.installed += 1;
        Ok(self.server.serve(now, self.entry_time) + self.latency)
    }

    /// Entries accepted.
    pub fn installed(&self) -> u64 {
        self.installed
    }

    /// Requests refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_wait_for_the_agent() {
        let mut agent = Agent::new(1e6, Time::from_ns(500), 2);
        let times = [(); 3].map(|()| agent.install(Time::ZERO).map(Time::ns));
        assert_eq!(times, [Ok(1500), Ok(2500), Err(QueueFull)]);
        assert_eq!((agent.installed(), agent.refused()), (2, 1));
    }
}
