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
    /// How cancelled pulls are repeated.
    pub backoff: Backoff,
    /// Slots looked at for timers after each batch.
    pub sweep_slots: usize,
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
            backoff: Backoff { rearms: 4 },
            sweep_slots: 64,
        }
    }
}
