//! What the service manager is told (sd_notify(3)): when the service is ready, reloads and stops,
//! what is wrong with it, and that its threads go on. Without one nothing is told.

use sd_notify::NotifyState;
use std::time::{Duration, Instant};
use twinpath_node::health::{Health, Phase};

/// Tells the manager what the health of a run is.
pub struct Manager {
    phase: Phase,
    status: String,
    /// How often the watchdog wants to hear something, at the latest; twice as often it does.
    watchdog: Option<Duration>,
    next: Instant,
}

impl Manager {
    /// Nothing has been told yet.
    pub fn new() -> Self {
        Self {
            phase: Phase::Starting,
            status: String::new(),
            watchdog: sd_notify::watchdog_enabled(),
            next: Instant::now(),
        }
    }

    /// This is how the run is now.
    pub fn hears(&mut self, health: &Health) {
        self.tell_phase(health.phase);
        self.tell_status(health);
        self.feed_watchdog(health);
    }

    fn tell_phase(&mut self, phase: Phase) {
        if phase == self.phase {
            return;
        }
        self.phase = phase;
        match phase {
            Phase::Starting => {}
            Phase::Ready => tell(&[NotifyState::Ready]),
            Phase::Stopping => tell(&[NotifyState::Stopping]),
        }
    }

    fn tell_status(&mut self, health: &Health) {
        let status = match health.problems.is_empty() {
            true => health.phase.name().to_owned(),
            false => health.problems.join(", "),
        };
        if status != self.status {
            tell(&[NotifyState::Status(&status)]);
            self.status = status;
        }
    }

    /// One whose threads stand still is not helped by hearing nothing: it is ended and begins anew.
    fn feed_watchdog(&mut self, health: &Health) {
        let Some(time) = self.watchdog else { return };
        let now = Instant::now();
        if now >= self.next && !health.is_stuck {
            self.next = now + time / 3;
            tell(&[NotifyState::Watchdog]);
        }
    }
}

/// The service file is being read again.
pub fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// It has been.
pub fn reloaded() {
    tell(&[NotifyState::Ready]);
}

/// A manager that does not listen is no reason to stop.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager does not listen");
    }
}
