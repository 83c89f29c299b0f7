//! The fast path: from a batch of frames to frames that leave and frames for the cores.

use twinpath_coherence::fast::header as punt_header;
use twinpath_coherence::{Clock, Decision, Parsed, StateStage};
use twinpath_core::wire::dissect;
use twinpath_core::wire::layout::dissect_plain;
use twinpath_core::{DropCounters, DropReason, Frame, Instant, Pools, Steering};
use twinpath_fastpath::state_table::NO_SLOT;
use twinpath_link::{Arrival, Header, Message, Receiver, attach, detach};

/// Frames handled together: enough to hide the latency of memory, few enough to stay in cache.
pub const BATCH: usize = 32;

/// Which path a packet that leaves has taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// It never saw the cores.
    Fast,
    /// It came back from the cores.
    Slow,
}

/// A packet that leaves.
#[derive(Debug)]
pub struct Departure {
    /// The packet.
    pub frame: Frame,
    /// The path it took.
    pub via: Via,
    /// Whether it goes back to the sender of the request it answers.
    pub is_reply: bool,
}

/// What the fast path puts out: the caller's buffers.
#[derive(Debug, Default)]
pub struct FastOutput {
    /// Packets that leave, in order.
    pub departures: Vec<Departure>,
    /// Frames for the cores, each with its worker; they carry the link header and still need
    /// their number.
    pub punts: Vec<(usize, Frame)>,
}

/// Packets and bytes seen.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets in.
    pub packets_in: u64,
    /// Bytes in.
    pub bytes_in: u64,
    /// Packets that left without the cores.
    pub fast_packets: u64,
    /// Their bytes.
    pub fast_bytes: u64,
    /// Packets handed to the cores.
    pub punted_packets: u64,
    /// Their bytes.
    pub punted_bytes: u64,
    /// Packets that left after the cores.
    pub slow_packets: u64,
    /// Their bytes.
    pub slow_bytes: u64,
    /// Frames on the link that overtook others, dropped by either side's check of the fast path.
    pub link_reordered: u64,
    /// Frames missing on the link from the cores.
    pub link_lost: u64,
    /// Write-backs or answers that had to wait for a buffer.
    pub no_own_buffer: u64,
}

/// What is known of a frame before it is decided about.
#[derive(Copy, Clone, Default)]
struct Prepared {
    parsed: Parsed,
    /// Whether the frame belongs to a flow: otherwise nothing else is known.
    has_flow: bool,
}

/// The fast path of a node: one thread owns it.
pub struct FastPath {
    steering: Steering,
    stage: Option<StateStage>,
    returns: Vec<Receiver>,
    /// One for each frame of a batch; kept so that nothing is moved about.
    prepared: Vec<Prepared>,
    drops: DropCounters,
    counts: Counts,
}

impl FastPath {
    /// A fast path in front of `workers` workers. Without a state stage every packet goes to the
    /// cores: the oracle.
    pub fn new(steering: Steering, stage: Option<StateStage>, workers: usize) -> Self {
        Self {
            steering,
            stage,
            returns: vec![Receiver::default(); workers.max(1)],
            prepared: vec![Prepared::default(); BATCH],
            drops: DropCounters::default(),
            counts: Counts::default(),
        }
    }

    /// The run begins at this packet time.
    pub fn start(&mut self, now: Instant) {
        if let Some(stage) = &mut self.stage {
            stage.start(now);
        }
    }

    /// The state stage, unless this is the oracle.
    pub fn stage(&self) -> Option<&StateStage> {
        self.stage.as_ref()
    }

    /// Packets dropped here.
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Counts a drop that happened in front of the fast path or on its way to the cores.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.drops.count(reason);
    }

    /// Packets and bytes.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The packets' walk, for a batch of at most [`BATCH`] frames, which is emptied.
    ///
    /// Parse and hash all, fetching tags; fetch all slots; then decide and apply one by one, in
    /// order of arrival.
    #[inline]
    pub fn process(
        &mut self,
        batch: &mut Vec<Frame>,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        self.parse_and_steer(batch);
        self.prefetch_slots(batch.len());
        let prepared = std::mem::take(&mut self.prepared);
        for (frame, prepared) in batch.drain(..).zip(&prepared) {
            match prepared.has_flow {
                true => self.decide(frame, &prepared.parsed, clock, pools, out),
                false => self.without_flow(frame, pools, out),
            }
        }
        self.prepared = prepared;
    }

    #[inline]
    fn parse_and_steer(&mut self, batch: &[Frame]) {
        if self.prepared.len() < batch.len() {
            self.prepared.resize(batch.len(), Prepared::default());
        }
        let mut bytes_in = 0;
        for (index, (frame, prepared)) in batch.iter().zip(&mut self.prepared).enumerate() {
            if let Some(ahead) = batch.get(index + 4) {
                ahead.prefetch();
            }
            bytes_in += frame.len() as u64;
            prepared.has_flow = parse_plain(&self.steering, frame, &mut prepared.parsed)
                || parse(&self.steering, frame, &mut prepared.parsed);
            if let Some(stage) = &self.stage
                && prepared.has_flow
            {
                stage.prefetch_tags(prepared.parsed.hash);
            }
        }
        self.counts.packets_in += batch.len() as u64;
        self.counts.bytes_in += bytes_in;
    }

    #[inline]
    fn prefetch_slots(&mut self, frames: usize) {
        let Some(stage) = &self.stage else { return };
        for prepared in self.prepared.iter_mut().take(frames) {
            if prepared.has_flow {
                prepared.parsed.suspect = stage.prefetch_slot(prepared.parsed.hash);
            }
        }
    }

    #[inline]
    fn decide(
        &mut self,
        mut frame: Frame,
        prepared: &Parsed,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        let decision = match &mut self.stage {
            Some(stage) => stage.packet(&mut frame, prepared, clock),
            None => Decision::Punt(punt_header(Message::Plain, &frame, &prepared.keyed)),
        };
        match decision {
            Decision::Exit { is_reply } => self.depart(frame, Via::Fast, is_reply, out),
            Decision::Drop(reason) => {
                self.drops.count(reason);
                pools.give(frame);
            }
            Decision::Punt(header) => self.punt(frame, &header, prepared.hash, pools, out),
        }
    }

    /// Frames that are no IP pass; malformed ones are dropped.
    #[cold]
    fn without_flow(&mut self, frame: Frame, pools: &mut Pools, out: &mut FastOutput) {
        match dissect(frame.bytes()) {
            Ok(_) => self.depart(frame, Via::Fast, false, out),
            Err(malformed) => {
                self.drops.count(DropReason::Malformed(malformed));
                pools.give(frame);
            }
        }
    }

    #[inline]
    fn depart(&mut self, frame: Frame, via: Via, is_reply: bool, out: &mut FastOutput) {
        let (packets, bytes) = match via {
            Via::Fast => (&mut self.counts.fast_packets, &mut self.counts.fast_bytes),
            Via::Slow => (&mut self.counts.slow_packets, &mut self.counts.slow_bytes),
        };
        *packets += 1;
        *bytes += frame.len() as u64;
        out.departures.push(Departure {
            frame,
            via,
            is_reply,
        });
    }

    /// The worker that owns the flow with this hash.
    #[inline]
    pub fn worker(&self, hash: u64) -> usize {
        ((hash >> 32 & 0xffff) as usize * self.returns.len()) >> 16
    }

    fn punt(
        &mut self,
        mut frame: Frame,
        header: &Header,
        hash: u64,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        let bytes = frame.len() as u64;
        if attach(&mut frame, header).is_err() {
            self.drops.count(DropReason::BadLinkFrame);
            pools.give(frame);
            return;
        }
        if header.has_packet {
            self.counts.punted_packets += 1;
            self.counts.punted_bytes += bytes;
        }
        out.punts.push((self.worker(hash), frame));
    }

    /// A frame that comes back from a worker: its message meets the state stage, its packet
    /// leaves.
    pub fn returned(
        &mut self,
        worker: usize,
        mut frame: Frame,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        let Ok(header) = detach(&mut frame) else {
            self.drops.count(DropReason::BadLinkFrame);
            return pools.give(frame);
        };
        match self.returns[worker].judge(header.sequence) {
            Arrival::InOrder { lost } => self.counts.link_lost += u64::from(lost),
            Arrival::Reordered => {
                self.counts.link_reordered += 1;
                self.drops.count(DropReason::LinkReordered);
                return pools.give(frame);
            }
        }
        let answer = self
            .stage
            .as_mut()
            .and_then(|stage| stage.message(&header, clock));
        if header.has_packet {
            self.depart(frame, Via::Slow, header.is_reply, out);
        } else {
            pools.give(frame);
        }
        if let Some(answer) = answer {
            self.send_own(&answer, pools, out);
        }
    }

    /// Sends a message on a frame of our own. Returns whether there was a buffer.
    fn send_own(&mut self, header: &Header, pools: &mut Pools, out: &mut FastOutput) -> bool {
        let Some(frame) = pools.take(0) else {
            self.counts.no_own_buffer += 1;
            return false;
        };
        let hash = header.key.hash(self.steering.seed());
        self.punt(frame, header, hash, pools, out);
        true
    }

    /// Lets time pass for the state stage's timers.
    pub fn sweep(&mut self, clock: Clock, pools: &mut Pools, out: &mut FastOutput) {
        let Some(mut stage) = self.stage.take() else {
            return;
        };
        stage.sweep(clock, |header| self.send_own(header, pools, out));
        self.stage = Some(stage);
    }

    /// Gives all state back to the cores, as at the end of a run. Returns false if there were too
    /// few buffers and it must be called again.
    pub fn give_all_back(&mut self, clock: Clock, pools: &mut Pools, out: &mut FastOutput) -> bool {
        let Some(mut stage) = self.stage.take() else {
            return true;
        };
        let done = stage.give_all_back(clock, |header| self.send_own(header, pools, out));
        self.stage = Some(stage);
        done
    }
}

/// [`parse`] for plain frames; false for others. What is known of their layout makes steering them
/// short, where both are compiled together.
#[inline(always)]
fn parse_plain(steering: &Steering, frame: &Frame, parsed: &mut Parsed) -> bool {
    let bytes = frame.bytes();
    let Some(layout) = dissect_plain(bytes) else {
        return false;
    };
    let Some(keyed) = steering.plain_key(bytes, &layout) else {
        return false;
    };
    // One by one: together they would be put together elsewhere and moved here.
    parsed.layout = layout;
    parsed.keyed = keyed;
    parsed.hash = keyed.key.hash(steering.seed());
    parsed.suspect = NO_SLOT;
    true
}

/// Finds the flow of a frame; false if it has none.
#[inline(never)]
fn parse(steering: &Steering, frame: &Frame, parsed: &mut Parsed) -> bool {
    let Ok(layout) = dissect(frame.bytes()) else {
        return false;
    };
    let Some(keyed) = steering.key(frame.bytes(), &layout) else {
        return false;
    };
    *parsed = Parsed {
        layout,
        keyed,
        hash: keyed.key.hash(steering.seed()),
        suspect: NO_SLOT,
    };
    true
}
