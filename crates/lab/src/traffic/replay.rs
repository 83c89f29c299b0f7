//! A capture, as often as it is needed, faster or slower.

use super::Incoming;
use crate::model::ParameterError;
use std::path::Path;
use twinpath_engine::Time;
use twinpath_io::Trace;

/// Bytes of frames that are held in memory, at most.
const MOST_BYTES: usize = 1 << 30;

/// A capture in memory, replayed from its start when it has ended.
pub(super) struct Replay {
    trace: Trace,
    next: usize,
    /// Length of one round: from the first packet to the last, and a mean gap to the next round's first.
    round_ns: u64,
    rounds: u64,
    first_ns: u64,
    time_scale: f64,
    last: Time,
}

impl Replay {
    pub(super) fn load(path: &Path, time_scale: f64) -> Result<Self, ParameterError> {
        let wrong = |message: String| ParameterError::new("capture", message);
        let trace =
            Trace::load_at_most(path, MOST_BYTES).map_err(|error| wrong(error.to_string()))?;
        let times = || trace.iter().map(|frame| frame.timestamp_ns);
        let (Some(first_ns), Some(last_ns)) = (times().min(), times().max()) else {
            return Err(wrong(format!("{}: no packet", path.display())));
        };
        let gaps = (trace.len() as u64 - 1).max(1);
        let span_ns = last_ns - first_ns;
        Ok(Self {
            next: 0,
            round_ns: span_ns + (span_ns / gaps).max(1),
            rounds: 0,
            first_ns,
            time_scale,
            last: Time::ZERO,
            trace,
        })
    }

    pub(super) fn longest(&self) -> usize {
        let lengths = self.trace.iter().map(|frame| frame.frame.len());
        lengths.max().unwrap_or(0)
    }

    /// Packets that a capture has out of order come with the latest time before them.
    pub(super) fn next_into(&mut self, buffer: &mut [u8]) -> Option<Incoming> {
        if self.next == self.trace.len() {
            (self.next, self.rounds) = (0, self.rounds + 1);
        }
        let frame = self.trace.at(self.next)?;
        self.next += 1;
        let place = buffer.get_mut(..frame.frame.len())?;
        place.copy_from_slice(frame.frame);
        let since_ns = frame.timestamp_ns - self.first_ns + self.rounds * self.round_ns;
        self.last = self
            .last
            .max(Time::from_ns_f64(since_ns as f64 / self.time_scale));
        Some(Incoming {
            at: self.last,
            len: frame.frame.len(),
            flow: None,
        })
    }
}
