//! What an operator can set.

use crate::fsm::Backoff;
use std::time::Duration;

/// Settings of the mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Slots of the state table.
    pub slots: usize,
    /// Slots per bucket: 1 models an ASIC, up to 8 in software.
    pub ways: usize,
    /// Packets per sketch window that make a flow worth a slot.
    pub hot_packets: u16,
    /// Window of the sketch.
    pub sketch_window: Duration,
    /// Counters per row of the sketch.
    pub sketch_width: usize,
    /// Idle time after which a slot is written back (packet clock).
    pub time_to_live: Duration,
    /// How long a pull may go unanswered (link clock).
    pub incomplete_timeout: Duration,
    /// How long a write-back may go unacknowledged before it is sent again (link clock).
    pub write_back_timeout: Duration,
    /// How often a cancelled pull is repeated at once (see [`Backoff`]).
    pub rearms: u8,
    /// Packets that may wait for the state of their flow, of all flows together; with 0 none does.
    pub waiting: usize,
    /// Slots looked at for timers after each batch.
    pub sweep_slots: usize,
}

impl Config {
    /// How eagerly cancelled pulls are repeated.
    pub const fn backoff(&self) -> Backoff {
        Backoff {
            rearms: self.rearms,
            waits: self.waiting > 0,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            slots: 32_768,
            ways: 8,
            hot_packets: 2,
            sketch_window: Duration::from_millis(100),
            sketch_width: 16_384,
            time_to_live: Duration::from_secs(1),
            incomplete_timeout: Duration::from_millis(1),
            write_back_timeout: Duration::from_millis(1),
            rearms: 4,
            waiting: 1024,
            sweep_slots: 64,
        }
    }
}
