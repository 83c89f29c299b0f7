//! Neighbours whose link was gone: behind a link that is there again may be another station. Whoever a packet
//! is for is asked at once then, and packets go on meanwhile to the MAC address that was right. Those that
//! no packet is for are not asked.

use super::Neighbors;
use crate::config::Resolver;
use std::time::Duration;
use twinpath_core::Instant;

/// Neighbours that are asked anew in [`INTERVAL`] at most: of the others their next packets ask.
pub(super) const MOST_QUESTIONS: u32 = 64;

/// How long that holds.
pub(super) const INTERVAL: Duration = Duration::from_millis(10);

/// How many neighbours were asked anew a short time ago.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// When the interval is over.
    until: Instant,
    questions: u32,
}

impl Doubts {
    /// Whether one more may be asked.
    fn take_turn(&mut self, now: Instant) -> bool {
        if now >= self.until {
            *self = Self {
                until: now + INTERVAL,
                questions: 0,
            };
        }
        let has_room = self.questions < MOST_QUESTIONS;
        self.questions += u32::from(has_room);
        has_room
    }
}

impl Neighbors {
    /// A port's link was gone and is there again, or the port is another interface now: the neighbours that
    /// the node asks for itself are asked anew when packets are for them. The kernel asks for its own.
    pub fn doubt(&mut self, port: u16) {
        let addresses = self.ports.get(usize::from(port));
        if addresses.is_none_or(|addresses| addresses.resolver == Resolver::Kernel) {
            return;
        }
        let all = self.entries.iter_mut().flatten();
        let there = all.filter(|entry| entry.port == port && entry.mac.is_some());
        there.for_each(|entry| entry.is_doubtful = true);
    }

    /// Whether a neighbour that a packet is for is to be asked anew now.
    pub(super) fn is_to_be_asked_anew(&mut self, number: u32, now: Instant) -> bool {
        let entry = self.entries[number as usize].as_mut();
        let Some(entry) = entry.filter(|entry| entry.is_doubtful) else {
            return false;
        };
        let may_ask = self.doubts.take_turn(now);
        entry.is_doubtful = !may_ask;
        may_ask
    }
}
