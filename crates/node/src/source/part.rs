//! A shard's packets of a source that each shard reads by itself.

use super::{Read, Source};
use crate::shards::CurrentPartition;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use twinpath_core::Instant;
use twinpath_io::CaptureError;
use twinpath_nf::shard::Shard;

/// How far each shard has read, on the packet clock: none runs far ahead of another, so that what
/// leaves can be put in the order of time with little memory.
#[derive(Clone, Debug)]
pub struct Clocks(Arc<[AtomicU64]>);

impl Clocks {
    /// Nobody has read anything.
    pub fn new(shards: u16) -> Self {
        Self((0..shards).map(|_| AtomicU64::new(0)).collect())
    }

    fn slowest(&self) -> Instant {
        let clocks = self.0.iter().map(|clock| clock.load(Ordering::Relaxed));
        Instant(clocks.min().unwrap_or(u64::MAX))
    }
}

/// How far a shard may be ahead of another.
const MOST_AHEAD: Duration = Duration::from_millis(100);

/// Which packets of a source a shard takes.
pub struct Part {
    partition: CurrentPartition,
    shard: Shard,
    clocks: Option<Clocks>,
    /// A packet of the shard is in the source's buffer, and waits for shards that are behind.
    waiting: Option<Instant>,
}

impl Part {
    /// Those of one shard; with clocks none is far ahead of another.
    pub fn new(partition: CurrentPartition, shard: Shard, clocks: Option<Clocks>) -> Self {
        Self {
            partition,
            shard,
            clocks,
            waiting: None,
        }
    }

    /// The next packet of the shard.
    pub(crate) fn read(&mut self, source: &mut Source) -> Result<Read, CaptureError> {
        if let Some(at) = self.waiting {
            return Ok(self.or_wait(at));
        }
        loop {
            match source.read_feed()? {
                Read::Packet(at) => {
                    self.has_read(at);
                    if self.partition.get().shard(source.bytes()) == self.shard.number {
                        return Ok(self.or_wait(at));
                    }
                }
                // Told once.
                Read::TooLong if self.shard.number != 0 => {}
                Read::End => {
                    self.has_read(Instant::NEVER);
                    return Ok(Read::End);
                }
                other => return Ok(other),
            }
        }
    }

    fn has_read(&self, at: Instant) {
        if let Some(Clocks(clocks)) = &self.clocks {
            clocks[usize::from(self.shard.number)].store(at.0, Ordering::Relaxed);
        }
    }

    /// The packet that has just been read, unless other shards are too far behind.
    fn or_wait(&mut self, at: Instant) -> Read {
        let is_ahead = |clocks: &Clocks| at > clocks.slowest() + MOST_AHEAD;
        if self.clocks.as_ref().is_some_and(is_ahead) {
            self.waiting = Some(at);
            return Read::Nothing;
        }
        self.waiting = None;
        Read::Packet(at)
    }
}

impl Drop for Part {
    /// Nobody waits for a shard whose run is over.
    fn drop(&mut self) {
        self.has_read(Instant::NEVER);
    }
}
