//! What there is in a run of what can run out.

use crate::faults::draw::Draw;

/// More frames than are ever under way.
pub const PLENTY: usize = 4096;

/// Buffers of which a worker always finds one.
const ENOUGH_FOR_WORKERS: usize = 64;

/// How much there is of what can run out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Workers, each with its own pair of queues.
    pub workers: usize,
    /// Flows that each worker may know.
    pub flows: usize,
    /// Packet buffers of the fast path.
    pub buffers: usize,
    /// Packet buffers of each worker.
    pub worker_buffers: usize,
    /// Frames that may be under way to each worker.
    pub ring_frames: usize,
    /// Whether what has no room there waits instead of being dropped.
    pub is_lossless: bool,
}

impl Resources {
    /// Nothing runs out, and there is one worker.
    pub(super) const PLENTY: Self = Self {
        workers: 1,
        flows: 256,
        buffers: 512,
        worker_buffers: ENOUGH_FOR_WORKERS,
        ring_frames: PLENTY,
        is_lossless: false,
    };

    /// Plenty, or little of something.
    pub(super) fn drawn(draw: &mut Draw, flows: u32) -> Self {
        let flows = u64::from(flows);
        let few_flows = draw.between(1, flows) as usize;
        let flows = if draw.one_in(6) { few_flows } else { 256 };
        let ring_frames = scarce(draw, 4, 10, PLENTY);
        Self {
            workers: draw.between(1, 3) as usize,
            flows,
            buffers: scarce(draw, 2, 16, 512),
            worker_buffers: scarce(draw, 1, 4, ENOUGH_FOR_WORKERS),
            ring_frames,
            is_lossless: draw.one_in(4),
        }
    }

    /// Whether a worker may find no buffer.
    pub(crate) const fn has_few_worker_buffers(&self) -> bool {
        self.worker_buffers < ENOUGH_FOR_WORKERS
    }
}

fn scarce(draw: &mut Draw, least: u64, most: u64, plenty: usize) -> usize {
    let few = draw.between(least, most) as usize;
    if draw.one_in(6) { few } else { plenty }
}
