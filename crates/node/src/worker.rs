//! One worker of the slow path.

use twinpath_coherence::Cores;
use twinpath_coherence::slow::Outgoing;
use twinpath_core::{DropCounters, DropReason, Frame, Instant, Pools};
use twinpath_link::{Arrival, Receiver, attach, detach};

/// What a worker counts on its link.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Frames from the fast path that overtook others.
    pub reordered: u64,
    /// Frames from the fast path that never came.
    pub lost: u64,
    /// Messages to the fast path that found no buffer; the protocol repeats them.
    pub no_buffer: u64,
}

/// A worker: the cores' side of one queue pair. One thread owns it.
pub struct Worker {
    cores: Cores,
    arrivals: Receiver,
    outgoing: Vec<Outgoing>,
    drops: DropCounters,
    counts: LinkCounts,
}

impl Worker {
    /// A worker around its flows and functions.
    pub fn new(cores: Cores) -> Self {
        Self {
            cores,
            arrivals: Receiver::default(),
            outgoing: Vec::new(),
            drops: DropCounters::default(),
            counts: LinkCounts::default(),
        }
    }

    /// The run begins at this packet time.
    pub fn start(&mut self, now: Instant) {
        self.cores.start(now);
    }

    /// The flows and functions.
    pub fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Takes the worker's flows and functions away, as a crash does, and gives it new ones. The
    /// link goes on, and what was counted stays counted.
    pub fn restart(&mut self, cores: Cores) {
        self.drops.absorb(self.cores.drops());
        self.cores = cores;
    }

    /// Everything this worker dropped.
    pub fn drops(&self) -> DropCounters {
        let mut drops = self.drops.clone();
        drops.absorb(self.cores.drops());
        drops
    }

    /// What happened on the link.
    pub fn link_counts(&self) -> &LinkCounts {
        &self.counts
    }

    /// Handles one frame from the fast path; frames for it are appended to `returns`. They carry
    /// the link header and still need their number.
    pub fn receive(&mut self, mut frame: Frame, pools: &mut Pools, returns: &mut Vec<Frame>) {
        let Ok(header) = detach(&mut frame) else {
            self.drops.count(DropReason::BadLinkFrame);
            return pools.give(frame);
        };
        match self.arrivals.judge(header.sequence) {
            Arrival::InOrder { lost } => self.counts.lost += u64::from(lost),
            Arrival::Reordered => {
                self.counts.reordered += 1;
                self.drops.count(DropReason::LinkReordered);
                return pools.give(frame);
            }
        }
        self.cores
            .receive(&header, frame, pools, &mut self.outgoing);
        self.put_on_the_link(pools, returns);
    }

    /// Lets the packet clock reach `now`.
    pub fn advance(&mut self, now: Instant, pools: &mut Pools, returns: &mut Vec<Frame>) {
        self.cores.advance(now, pools, &mut self.outgoing);
        self.put_on_the_link(pools, returns);
    }

    fn put_on_the_link(&mut self, pools: &mut Pools, returns: &mut Vec<Frame>) {
        for Outgoing { header, frame } in self.outgoing.drain(..) {
            let Some(mut frame) = frame.or_else(|| pools.take(0)) else {
                self.counts.no_buffer += 1;
                continue;
            };
            if attach(&mut frame, &header).is_ok() {
                returns.push(frame);
            } else {
                self.drops.count(DropReason::BadLinkFrame);
                pools.give(frame);
            }
        }
    }
}
