//! ICMP errors to hosts inside that get no port or session (RFC 5508 REQ-8, RFC 6888 REQ-11).
//! Whoever is outside hears nothing.

use super::super::config::Config;
use super::super::sides::Course;
use super::Napt;
use crate::icmp_messages::{Cause, Icmp};
use crate::rate_limit::RateLimit;
use twinpath_core::wire::Address;
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::{Answers, Recorded, Verdict};

/// Writes them, at most so many in a second.
#[derive(Debug)]
pub(in super::super) struct Exhaustion(Icmp);

impl Exhaustion {
    pub fn new(config: &Config, seed: u64) -> Self {
        let rate = config.errors_per_second;
        Self(Icmp::new(
            addresses(config),
            RateLimit::new(rate, rate, seed),
        ))
    }

    /// Another limit and other addresses; counts go on.
    pub fn configure(&mut self, config: &Config) {
        let rate = config.errors_per_second;
        self.0.configure(rate, rate);
        self.0.set_addresses(addresses(config));
    }

    pub fn sent(&self) -> u64 {
        self.0.errors_sent
    }

    pub fn limited(&self) -> u64 {
        self.0.limited
    }
}

/// The translation's own addresses: the first of those that hosts share.
fn addresses(config: &Config) -> [Option<Address>; 2] {
    let shared = &config.external[..config.shared];
    [true, false].map(|v4| {
        let mut own = shared.iter().filter(|address| address.is_v4() == v4);
        own.next().copied()
    })
}

impl Napt {
    /// Tells a host inside that what it sent was dropped for want of a port or session.
    pub(super) fn tell_of_exhaustion(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        verdict: Verdict,
        now: Instant,
        answers: &mut Answers<'_>,
    ) {
        let is_from_inside = matches!(course, Course::Out | Course::Hairpin(_) | Course::Across(_));
        let Verdict::Drop(
            DropReason::NoPort | DropReason::HostLimit | DropReason::SessionTableFull,
        ) = verdict
        else {
            return;
        };
        if !is_from_inside {
            return;
        }
        let errors = &mut self.exhaustion.0;
        errors.answer(packet, Cause::Prohibited, now, answers);
    }
}
