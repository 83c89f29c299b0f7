//! A shard's packets of a source that each shard reads by itself.

use super::{Read, Source};
use crate::shards::{Across, Crossing, CurrentPartition};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use twinpath_core::{Frame, Instant, Pools};
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
    joined: Option<Joined>,
}

/// What a shard has to do with others whose packets go on in it.
struct Joined {
    across: Across,
    /// Packets of the source that were read; all at its end.
    read: u64,
    /// Of them, those of the shard before so many have entered.
    entered: u64,
    awaits: Awaits,
    /// Whether all that has entered so far is through.
    is_settled: bool,
}

/// What comes before the next packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Awaits {
    Nothing,
    /// A packet of another shard, with so many before it, which may cross to this one.
    Other {
        shard: u16,
        before: u64,
    },
    /// What has entered, and what has crossed by then.
    Settled,
}

impl Part {
    /// Those of one shard; with clocks none is far ahead of another, and with an end of what goes across
    /// packets of other shards may go on here.
    pub fn new(
        partition: CurrentPartition,
        shard: Shard,
        clocks: Option<Clocks>,
        across: Option<Across>,
    ) -> Self {
        Self {
            partition,
            shard,
            clocks,
            waiting: None,
            joined: across.map(Joined::new),
        }
    }

    /// The next packet of the shard.
    pub(crate) fn read(&mut self, source: &mut Source) -> Result<Read, CaptureError> {
        if let Some(at) = self.waiting {
            return Ok(self.or_wait(at));
        }
        if self.joined.as_mut().is_some_and(Joined::waits) {
            return Ok(Read::Nothing);
        }
        if self.joined.as_ref().is_some_and(Joined::has_read_all) {
            return Ok(self.end());
        }
        loop {
            match source.read_feed()? {
                Read::Packet(at) => {
                    self.has_read(at);
                    let partition = self.partition.get();
                    let owner = partition.shard(source.bytes());
                    let is_own = owner == self.shard.number;
                    let waits = self.joined.as_mut().is_some_and(|joined| {
                        let crossing = partition.crossing(source.bytes());
                        joined.has_read(owner, is_own, crossing, self.shard.number)
                    });
                    if is_own {
                        return Ok(self.or_wait(at));
                    }
                    if waits {
                        return Ok(Read::Nothing);
                    }
                }
                // Told once.
                Read::TooLong if self.shard.number != 0 => {}
                Read::End => {
                    self.has_read(Instant::NEVER);
                    return Ok(self.end());
                }
                other => return Ok(other),
            }
        }
    }

    /// The source has no more.
    fn end(&mut self) -> Read {
        match self.joined.as_mut().is_none_or(Joined::is_over) {
            true => Read::End,
            false => Read::Nothing,
        }
    }

    /// The shard says whether all that has entered it is through.
    pub(crate) fn settle(&mut self, is_settled: bool) {
        if let Some(joined) = &mut self.joined {
            joined.is_settled = is_settled;
            if is_settled {
                joined.across.tell_through(joined.entered);
            }
        }
    }

    /// A packet goes on in another shard. Returns whether that still takes some.
    pub(crate) fn send_across(&self, shard: u16, frame: &Frame) -> bool {
        let joined = self.joined.as_ref();
        joined.is_some_and(|joined| joined.across.send(shard, frame, joined.read))
    }

    /// When the first of the packets came that have crossed and may enter.
    pub(crate) fn first_across(&self) -> Option<Instant> {
        let joined = self.joined.as_ref()?;
        joined
            .across
            .first(joined.read)
            .filter(|_| joined.is_settled)
    }

    /// Takes packets that have crossed and may enter.
    pub(crate) fn take_across(&mut self, most: usize, pools: &mut Pools, frames: &mut Vec<Frame>) {
        if let Some(joined) = self.joined.as_mut().filter(|joined| joined.is_settled) {
            let first = frames.len();
            joined.across.take(joined.read, most, pools, frames);
            joined.is_settled = frames.len() == first;
        }
    }

    fn has_read(&mut self, at: Instant) {
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

impl Joined {
    fn new(across: Across) -> Self {
        Self {
            across,
            read: 0,
            entered: 0,
            awaits: Awaits::Nothing,
            is_settled: false,
        }
    }

    /// Whether the next packet has to wait. What was read before has entered.
    fn waits(&mut self) -> bool {
        if self.entered != self.read {
            self.entered = self.read;
            self.is_settled = false;
        }
        if let Awaits::Other { shard, before } = self.awaits
            && self.across.is_through(shard, before)
        {
            self.awaits = Awaits::Settled;
        }
        if self.awaits == Awaits::Settled && self.is_at_rest() {
            self.awaits = Awaits::Nothing;
        }
        self.awaits != Awaits::Nothing
    }

    /// Whether all that entered is through, and all that crossed has entered.
    fn is_at_rest(&self) -> bool {
        self.is_settled && self.across.first(self.read).is_none()
    }

    /// A packet was read. Returns whether the next has to wait.
    fn has_read(&mut self, owner: u16, is_own: bool, crossing: Crossing, own: u16) -> bool {
        let before = self.read;
        self.read += 1;
        self.entered = match is_own {
            true => before,
            false => self.read,
        };
        self.awaits = match crossing {
            Crossing::None => Awaits::Nothing,
            _ if is_own => Awaits::Settled,
            Crossing::To(shard) if shard != own => Awaits::Nothing,
            Crossing::To(_) | Crossing::ToSome => Awaits::Other {
                shard: owner,
                before,
            },
        };
        self.awaits != Awaits::Nothing
    }

    fn has_read_all(&self) -> bool {
        self.read == u64::MAX
    }

    /// The source has no more: whether nothing can cross to this shard either.
    fn is_over(&mut self) -> bool {
        (self.read, self.entered) = (u64::MAX, u64::MAX);
        self.across.are_through(u64::MAX - 1) && self.is_at_rest()
    }
}

impl Drop for Part {
    /// Nobody waits for a shard whose run is over.
    fn drop(&mut self) {
        self.has_read(Instant::NEVER);
        if let Some(joined) = &self.joined {
            joined.across.tell_through(u64::MAX);
        }
    }
}
