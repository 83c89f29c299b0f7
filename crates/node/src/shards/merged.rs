//! One sink for what leaves all shards.

use crate::departure::Departure;
use crate::sink::Sink;
use std::sync::{Mutex, MutexGuard, PoisonError};
use twinpath_control::report::PortLosses;
use twinpath_core::Instant;
use twinpath_io::CaptureError;

/// The sink, and how far each shard is.
pub struct Merged<S> {
    inner: Mutex<Inner<S>>,
}

struct Inner<S> {
    sink: S,
    watermarks: Vec<Instant>,
}

impl<S> Merged<S> {
    /// What leaves so many shards goes to this sink.
    pub fn new(sink: S, shards: u16) -> Self {
        let watermarks = vec![Instant::ZERO; shards.into()];
        Self {
            inner: Mutex::new(Inner { sink, watermarks }),
        }
    }

    /// One shard's end of it.
    pub fn end(&self, shard: u16) -> MergedEnd<'_, S> {
        MergedEnd {
            merged: self,
            shard: shard.into(),
        }
    }

    /// The sink.
    pub fn into_sink(self) -> S {
        let inner = self.inner.into_inner();
        inner.unwrap_or_else(PoisonError::into_inner).sink
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One shard's end of a sink.
pub struct MergedEnd<'a, S> {
    merged: &'a Merged<S>,
    shard: usize,
}

impl<S: Sink> Sink for MergedEnd<'_, S> {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        self.merged.lock().sink.packet(departure)
    }

    fn advance(&mut self, watermark: Instant) -> Result<(), CaptureError> {
        let mut inner = self.merged.lock();
        inner.watermarks[self.shard] = watermark;
        let slowest = inner.watermarks.iter().copied().min();
        inner.sink.advance(slowest.unwrap_or(Instant::NEVER))
    }

    fn losses(&self) -> PortLosses {
        self.merged.lock().sink.losses()
    }
}
