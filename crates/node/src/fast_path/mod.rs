//! The fast path: from a batch of frames to frames that leave and frames for the slow path.
//!
//! A chain is made of *elements*: functions in a row whose decisions are cached as [rules], and
//! functions in a row whose flow state both paths share. A packet passes them one after the other,
//! each on the fast path if it can. What needs the workers at an element goes there, comes back, and
//! [goes on](FastPath::returned) with the next; so packets of a flow stay in order at each.

mod across;
mod dash;
mod fragments;
mod hints;
mod lane;
mod leaving;
mod look_ahead;
mod payloads;
mod questions;
mod replacement;
mod rules;
mod walk;
mod watched;

pub use across::Joints;
pub use dash::DashStage;
pub(crate) use dash::{MOST_HELD, done};
pub use leaving::EgressCheck;
pub use replacement::FastPlan;
use rules::RULES_HASH;
pub use rules::RuleStage;

use crate::admission::Admission;
use crate::departure::{Departure, Via};
use crate::egress::Egress;
use crate::mirror::{self, Event, Mirror};
use crate::position::{ElementOrder, Position};
use crate::under_way::UnderWay;
use crate::watch::{TraceStep, Watch};
use hints::HintTable;
use lane::Batch;
use payloads::Payloads;
use std::sync::Arc;
use twinpath_coherence::{Clock, CoherenceCounters, StateStage};
use twinpath_core::adjacency::shard_of;
use twinpath_core::wire::MacAddress;
use twinpath_core::wire::layout::Layout;
use twinpath_core::{
    DropCounters, DropReason, FlowKey, Fragments, Frame, Instant, Keyed, Pools, Steering,
};
use twinpath_link::{Arrival, Header, Message, Receiver, attach, carries_packet, detach};

/// Frames handled together: enough to hide the latency of memory, few enough to stay in cache.
pub const BATCH: usize = 32;

/// Most frames that are received together: while a batch walks the next one is fetched.
pub const BURST: usize = 4 * BATCH;

/// How many frames ahead of the one at work packets are fetched from memory. Whoever has the next
/// burst does well to fetch as many of its first.
pub const FETCHED_AHEAD: usize = 14;

/// What the fast path puts out: the caller's buffers.
#[derive(Debug, Default)]
pub struct FastOutput {
    /// Packets that leave, in order.
    pub departures: Vec<Departure>,
    /// Frames for the slow path, each with its worker; they carry the link header and still need
    /// their number.
    pub punts: Vec<(usize, Frame)>,
}

/// Packets and bytes seen.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Packets in.
    pub packets_in: u64,
    /// Bytes in.
    pub bytes_in: u64,
    /// Of them, packets that were not let into the chain: they passed by it, or were dropped in front of it.
    pub aside_packets: u64,
    /// Their bytes.
    pub aside_bytes: u64,
    /// Packets that went on in another shard, and that the slow path had not seen here.
    pub gone_across_packets: u64,
    /// Their bytes.
    pub gone_across_bytes: u64,
    /// Packets that came from another shard, and that the slow path had not seen there.
    pub come_across_packets: u64,
    /// Their bytes.
    pub come_across_bytes: u64,
    /// Packets that left without the slow path.
    pub fast_packets: u64,
    /// Their bytes.
    pub fast_bytes: u64,
    /// Packets handed to the slow path, each counted once.
    pub punted_packets: u64,
    /// Their bytes.
    pub punted_bytes: u64,
    /// Times that a packet was handed to the slow path again, at a later element of the chain.
    pub punted_again: u64,
    /// Packets that left after the workers.
    pub slow_packets: u64,
    /// Their bytes.
    pub slow_bytes: u64,
    /// Frames on the link that overtook others, dropped by either side's check of the fast path.
    pub link_reordered: u64,
    /// Frames missing on the link from the slow path.
    pub link_lost: u64,
    /// Write-backs or answers that had to wait for a buffer.
    pub no_own_buffer: u64,
}

impl PathCounters {
    /// Packets that entered the chain, and that the slow path has not seen.
    pub const fn settled_packets(&self) -> u64 {
        let entered = self.packets_in + self.come_across_packets;
        entered - self.gone_across_packets - self.aside_packets - self.punted_packets
    }

    /// Their bytes.
    pub const fn settled_bytes(&self) -> u64 {
        let entered = self.bytes_in + self.come_across_bytes;
        entered - self.gone_across_bytes - self.aside_bytes - self.punted_bytes
    }
}

/// What an element of the chain has on the fast path.
pub enum FastElement {
    /// Nothing: every packet goes to the slow path there.
    OnSlowPath,
    /// Cached rules.
    Rules(Box<RuleStage>),
    /// Flow state.
    State(Box<StateStage>),
    /// A DPU's flows.
    Dash(Box<DashStage>),
}

impl FastElement {
    /// Takes the memory of its tables now, before packets could wait for it.
    pub(crate) fn touch(&mut self) {
        match self {
            Self::OnSlowPath => {}
            Self::Rules(stage) => stage.table.touch(),
            Self::State(stage) => stage.touch(),
            Self::Dash(stage) => stage.dpu_mut().touch(),
        }
    }
}

/// What a packet's walk needs besides the fast path itself.
struct Io<'a> {
    clock: Clock,
    pools: &'a mut Pools,
    out: &'a mut FastOutput,
}

/// The fast path of a node: one thread owns it.
pub struct FastPath {
    steering: Steering,
    admission: Admission,
    /// How many chains there were before this one.
    chain: u16,
    elements: Vec<FastElement>,
    /// In which order packets pass them.
    order: ElementOrder,
    /// When the run began.
    started: Instant,
    /// What stages did that are gone.
    former: CoherenceCounters,
    returns: Vec<Receiver>,
    /// Each worker's life, as far as known.
    epochs: Vec<u32>,
    /// Packets at work; empty between calls.
    batch: Option<Box<Batch>>,
    hints: HintTable,
    /// Of the packet that a state stage has last sent to a worker.
    header: Header,
    drops: DropCounters,
    counts: PathCounters,
    /// By element: virtual reassembly in front of it, if it needs ports.
    fragments: Vec<Option<Box<Fragments>>>,
    /// Where payloads wait while their headers are on the slow path.
    payloads: Option<Box<Payloads>>,
    /// Where packets of other shards enter.
    joints: Joints,
    /// By which ports packets leave.
    egress: Egress,
    /// Who tells senders of packets that cannot be delivered, if somebody does.
    egress_check: Option<Box<EgressCheck>>,
    /// Packets of which not all leave; empty between calls.
    departing: Vec<Departure>,
    /// Which packets are inside.
    under_way: UnderWay,
    /// Whoever follows packets.
    watch: Option<Watch>,
    /// Who copies packets for whoever wants them.
    mirror: Arc<Mirror>,
    /// Whether nothing may be lost.
    is_lossless: bool,
}

impl FastPath {
    /// A fast path in front of `workers` workers, for a chain of these elements, which packets pass
    /// in this order. With nothing on
    /// the fast path at any of them it is the oracle.
    pub fn new(
        steering: Steering,
        admission: Admission,
        (elements, order): (Vec<FastElement>, ElementOrder),
        workers: usize,
    ) -> Self {
        Self {
            steering,
            admission,
            chain: 0,
            hints: HintTable::new(hinted_flows(&elements)),
            header: Header::new(Message::Plain, FlowKey::default()),
            elements,
            order,
            started: Instant::ZERO,
            former: CoherenceCounters::default(),
            returns: vec![Receiver::default(); workers.max(1)],
            epochs: vec![0; workers.max(1)],
            batch: Some(Box::default()),
            drops: DropCounters::default(),
            counts: PathCounters::default(),
            fragments: Vec::new(),
            payloads: None,
            joints: Joints::default(),
            egress: Egress::default(),
            egress_check: None,
            departing: Vec::new(),
            under_way: UnderWay::default(),
            watch: None,
            mirror: Arc::default(),
            is_lossless: false,
        }
    }

    /// The run begins at this packet time.
    pub fn start(&mut self, now: Instant) {
        self.started = now;
        self.stages_mut().for_each(|stage| stage.start(now));
    }

    /// Takes the memory of all tables now, before packets could wait for it (see
    /// [`ZeroedArray::touch`](twinpath_core::memory::ZeroedArray::touch)).
    pub fn touch(&mut self) {
        self.elements.iter_mut().for_each(FastElement::touch);
        self.hints.touch();
    }

    /// The elements of the chain, as they are here.
    pub fn elements(&self) -> &[FastElement] {
        &self.elements
    }

    /// The stages of flow state.
    pub fn stages(&self) -> impl Iterator<Item = &StateStage> {
        self.elements.iter().filter_map(|element| match element {
            FastElement::State(stage) => Some(stage.as_ref()),
            _ => None,
        })
    }

    /// The stage of flow state, if the chain has one here and no other.
    pub fn stage(&self) -> Option<&StateStage> {
        let mut stages = self.stages();
        stages.next().filter(|_| stages.next().is_none())
    }

    /// What the protocol of flow state did so far.
    pub fn coherence(&self) -> CoherenceCounters {
        let mut counters = self.former;
        self.stages()
            .for_each(|stage| counters.absorb(stage.counters()));
        counters
    }

    fn stages_mut(&mut self) -> impl Iterator<Item = &mut StateStage> {
        self.elements
            .iter_mut()
            .filter_map(|element| match element {
                FastElement::State(stage) => Some(stage.as_mut()),
                _ => None,
            })
    }

    fn stage_at(&mut self, element: u8) -> Option<&mut StateStage> {
        match self.elements.get_mut(usize::from(element))? {
            FastElement::State(stage) => Some(stage),
            _ => None,
        }
    }

    /// The stages of cached rules.
    pub fn rule_stages(&self) -> impl Iterator<Item = &RuleStage> {
        self.elements.iter().filter_map(|element| match element {
            FastElement::Rules(stage) => Some(stage.as_ref()),
            _ => None,
        })
    }

    /// Packets dropped here.
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Counts a drop that happened in front of the fast path or on its way to the slow path.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.drops.count(reason);
    }

    /// The run ends, and packets that are under way are lost.
    pub(crate) fn count_left_inside(&mut self) {
        let inside = self.under_way.waiting() as u64;
        self.drops.add(DropReason::RunEnded, inside);
    }

    /// The last life of a worker that was heard of; 0 if none was.
    pub fn epoch(&self, worker: usize) -> u32 {
        self.epochs[worker]
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.returns.len()
    }

    pub(crate) fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    pub(crate) fn under_way_mut(&mut self) -> &mut UnderWay {
        &mut self.under_way
    }

    /// Its packets are copied by this.
    #[must_use]
    pub fn with_mirror(self, mirror: &Arc<Mirror>) -> Self {
        Self {
            mirror: Arc::clone(mirror),
            ..self
        }
    }

    /// Who copies packets for whoever wants them.
    pub fn mirror(&self) -> &Arc<Mirror> {
        &self.mirror
    }

    /// How many chains there were before this one.
    pub const fn chain(&self) -> u16 {
        self.chain
    }

    /// The number of the chain that takes the place of this one.
    pub(crate) const fn next_chain(&self) -> u16 {
        self.chain.wrapping_add(1)
    }

    /// How packets are assigned to flows.
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// The link has no room for a frame. A message alone is no lost packet: the protocol sends it
    /// again.
    #[cold]
    pub(crate) fn refuse(&mut self, mut frame: Frame, pools: &mut Pools) {
        if carries_packet(&frame) {
            self.tell(&frame, |_| TraceStep::drop(DropReason::PuntRingFull));
            self.drops.count(DropReason::PuntRingFull);
            self.header_dropped(&frame);
            if let Ok(header) = detach(&mut frame) {
                if let Some(stage) = self.stage_at(header.element) {
                    stage.refused(&header);
                }
                if header.message == Message::Question
                    && let Some(stage) = self.dash_at(header.element)
                {
                    stage.lost(header.slot);
                }
                // What follows the link's header.
                if self.mirror.wants_drops() {
                    let event = dropped_here(DropReason::PuntRingFull, None);
                    self.mirror.copy(event, &frame);
                }
            }
        }
        pools.give(frame);
    }

    /// Packets and bytes.
    pub fn counters(&self) -> &PathCounters {
        &self.counts
    }

    /// Only packets with an IP header are let into the chain, and those have a flow.
    fn keyed(&self, frame: &Frame, layout: &Layout, element: u8) -> Keyed {
        let steering = self.steering.at(element);
        self.key_of_fragment(frame, layout, element)
            .or_else(|| steering.key(frame.bytes(), layout))
            .unwrap_or_default()
    }

    fn drop(&mut self, frame: Frame, reason: DropReason, io: &mut Io<'_>) {
        self.drop_at(None, frame, reason, io);
    }

    /// As [`Self::drop`], by an element.
    fn drop_at(&mut self, element: Option<u8>, frame: Frame, reason: DropReason, io: &mut Io<'_>) {
        if self.mirror.wants_drops() {
            self.mirror.copy(dropped_here(reason, element), &frame);
        }
        self.tell(&frame, |_| TraceStep::drop(reason));
        self.drops.count(reason);
        self.header_dropped(&frame);
        io.pools.give(frame);
    }

    #[inline]
    fn depart(&mut self, frame: Frame, is_reply: bool, io: &mut Io<'_>) {
        let counts = &mut self.counts;
        let (via, packets, bytes) = match frame.metadata().was_on_slow_path {
            false => (Via::Fast, &mut counts.fast_packets, &mut counts.fast_bytes),
            true => (Via::Slow, &mut counts.slow_packets, &mut counts.slow_bytes),
        };
        *packets += 1;
        *bytes += frame.len() as u64;
        io.out.departures.push(Departure::new(frame, via, is_reply));
    }

    /// The worker that owns the flow with this hash.
    #[inline]
    pub fn worker(&self, hash: u64) -> usize {
        ((hash >> 32 & 0xffff) as usize * self.returns.len()) >> 16
    }

    /// Hands a packet to the slow path, for the element at `position`.
    fn punt(
        &mut self,
        frame: Frame,
        mut header: Header,
        position: Position,
        hash: u64,
        io: &mut Io<'_>,
    ) {
        (header.chain, header.element) = (self.chain, position.element);
        self.tell(&frame, |watch| TraceStep::Punt {
            element: position.element,
            worker: self.worker(hash),
            message: watch.message(&header, &frame),
        });
        match frame.metadata().was_on_slow_path {
            false => {
                self.counts.punted_packets += 1;
                self.counts.punted_bytes += frame.len() as u64;
            }
            true => self.counts.punted_again += 1,
        }
        match self.keeps_payloads() {
            false => self.send(frame, &header, hash, io),
            true => self.send_header(frame, &header, hash, io),
        }
    }

    fn send(&mut self, mut frame: Frame, header: &Header, hash: u64, io: &mut Io<'_>) {
        if attach(&mut frame, header).is_err() {
            return self.drop(frame, DropReason::NoHeadroom, io);
        }
        io.out.punts.push((self.worker(hash), frame));
    }

    /// A frame that comes back from a worker: its message meets the element that it is about, its
    /// packet goes on.
    pub fn returned(
        &mut self,
        worker: usize,
        mut frame: Frame,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        let first = out.departures.len();
        let mut io = Io { clock, pools, out };
        let Ok(header) = detach(&mut frame) else {
            return self.drop(frame, DropReason::BadLinkFrame, &mut io);
        };
        match self.returns[worker].judge(header.sequence) {
            Arrival::InOrder { lost } => self.counts.link_lost += u64::from(lost),
            Arrival::Reordered => {
                self.counts.link_reordered += 1;
                return self.drop_reordered(frame, &mut io);
            }
        }
        if header.epoch != self.epochs[worker] {
            self.take_epoch(worker, header.epoch, &mut io);
        }
        if header.chain != self.chain {
            return self.drop_of_another_chain(frame, &header, &mut io);
        }
        self.take_return(worker, header, frame, &mut io);
        self.settle_departures(first, &mut io);
    }

    /// What crossed a change is about an element of another chain. Changes wait for packets, so
    /// it is a message, and messages are sent again.
    #[cold]
    fn drop_of_another_chain(&mut self, frame: Frame, header: &Header, io: &mut Io<'_>) {
        match header.has_packet {
            true => self.drop(frame, DropReason::AnotherChain, io),
            false => io.pools.give(frame),
        }
    }

    /// A worker is in this life, whatever has come back from it so far.
    pub fn hear_epoch(
        &mut self,
        worker: usize,
        epoch: u32,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        self.take_epoch(worker, epoch, &mut Io { clock, pools, out });
    }

    /// A worker speaks in another life than the last that was known. What it gives back from now
    /// on was decided without what it knew before.
    #[cold]
    fn take_epoch(&mut self, worker: usize, epoch: u32, io: &mut Io<'_>) {
        let known = self.epochs[worker];
        self.epochs[worker] = known.max(epoch);
        if epoch > known && known != 0 && worker == self.worker(RULES_HASH) {
            self.forget_rules(io);
        }
    }

    fn take_return(&mut self, worker: usize, header: Header, mut frame: Frame, io: &mut Io<'_>) {
        let clock = io.clock;
        if header.message == Message::RuleRequest {
            if header.epoch == self.epochs[worker] {
                self.rule_request(header.element, &frame, io);
            }
            io.pools.give(frame);
            return self.tick_rules(io);
        }
        if header.message == Message::Answer {
            let stage = self.dash_at(header.element);
            if !stage.is_some_and(|stage| stage.answered(header.slot, frame.bytes())) {
                self.drops.count(DropReason::BadLinkFrame);
            }
            return io.pools.give(frame);
        }
        if header.metadata.parked_bytes != 0 && !self.take_header(&header, &mut frame) {
            return io.pools.give(frame);
        }
        if header.has_packet {
            self.tell(&frame, |watch| TraceStep::Returned {
                message: watch.message(&header, &frame),
            });
        }
        let stage = self.stage_at(header.element);
        let answer = stage.and_then(|stage| stage.message(&header, clock));
        match header.has_packet {
            true => self.came_back(frame, &header, io),
            false => io.pools.give(frame),
        }
        self.release_waiting(header.element, io);
        if let Some(answer) = answer {
            self.send_own(answer, header.element, io);
        }
    }

    /// A packet that was on the slow path goes on behind its element.
    fn came_back(&mut self, frame: Frame, header: &Header, io: &mut Io<'_>) {
        let position = Position {
            element: header.element,
            direction: header.metadata.direction,
        };
        if self.dash_at(header.element).is_some() {
            return self.answered_packet(frame, header.slot, position, io);
        }
        if shard_of(frame.metadata().egress).is_some() {
            return self.leave_across(frame, io);
        }
        match header.is_reply && !header.metadata.is_answer {
            true => self.depart(frame, true, io),
            false => self.go_on(frame, position, io),
        }
    }

    /// Sends a message of an element's state stage on a frame of our own. Returns whether there was
    /// a buffer.
    fn send_own(&mut self, mut header: Header, element: u8, io: &mut Io<'_>) -> bool {
        let Some(frame) = io.pools.take(0) else {
            self.counts.no_own_buffer += 1;
            return false;
        };
        (header.chain, header.element) = (self.chain, element);
        let hash = header.key.hash(self.steering.hash_key());
        self.send(frame, &header, hash, io);
        true
    }

    /// Packets have come from other shards; they are drained.
    pub fn receive_across(
        &mut self,
        frames: &mut Vec<Frame>,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        let first = out.departures.len();
        let mut io = Io { clock, pools, out };
        for frame in frames.drain(..) {
            self.take_across(frame, &mut io);
        }
        self.settle_departures(first, &mut io);
    }

    /// Lets time pass for the timers of all elements.
    pub fn sweep(&mut self, clock: Clock, pools: &mut Pools, out: &mut FastOutput) {
        let first = out.departures.len();
        let mut io = Io { clock, pools, out };
        self.with_stages(|path, stage, element| {
            stage.sweep(clock, |header| {
                path.send_own(header.clone(), element, &mut io)
            });
            true
        });
        self.release_all_waiting(&mut io);
        self.tick_rules(&mut io);
        self.tick_dash(&mut io);
        self.settle_departures(first, &mut io);
    }

    /// Gives all state back to the slow path and reports all uses of rules, as at the end of a run.
    /// Returns false if it must be called again, when what is under way has come back: there were
    /// too few buffers, or packets waited for rules, or rules were used.
    pub fn give_all_back(&mut self, clock: Clock, pools: &mut Pools, out: &mut FastOutput) -> bool {
        let first = out.departures.len();
        let mut io = Io { clock, pools, out };
        let given = self.with_stages(|path, stage, element| {
            stage.give_all_back(clock, |header| {
                path.send_own(header.clone(), element, &mut io)
            })
        });
        let is_quiet = self.settle_all(&mut io);
        self.settle_departures(first, &mut io);
        is_quiet && given
    }

    /// Packets inside, and flows whose state is here.
    pub fn count_inside(&self) -> usize {
        let in_use = self.elements.iter().map(|element| match element {
            FastElement::State(stage) => stage.slots_in_use() as usize,
            _ => 0,
        });
        self.under_way.waiting() + in_use.sum::<usize>()
    }

    /// Lets the timers of rules go on, and reports all their uses. Returns whether nothing was left
    /// to do.
    fn settle_all(&mut self, io: &mut Io<'_>) -> bool {
        self.tick_rules(io);
        self.report_rules(io)
    }

    /// Reports all uses of rules, and goes on with what waits for them. Returns whether there was
    /// nothing of the kind.
    pub fn settle_rules(&mut self, clock: Clock, pools: &mut Pools, out: &mut FastOutput) -> bool {
        let first = out.departures.len();
        let mut io = Io { clock, pools, out };
        let is_quiet = self.settle_all(&mut io);
        self.settle_departures(first, &mut io);
        is_quiet
    }

    /// Gives the state of flows back to the slow path, some with each call, and takes no more: at most
    /// `most` messages. Returns whether all are home. [`Self::keep_flows`] ends it.
    pub fn bring_flows_home(
        &mut self,
        most: usize,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) -> bool {
        let mut io = Io { clock, pools, out };
        let first = io.out.punts.len();
        let are_home = self.with_stages(|path, stage, element| {
            let most = most.saturating_sub(io.out.punts.len() - first);
            stage.retire(clock, most, |header| {
                path.send_own(header.clone(), element, &mut io)
            })
        });
        self.release_all_waiting(&mut io);
        are_home
    }

    /// Flows may have their state here again.
    pub fn keep_flows(&mut self) {
        self.stages_mut().for_each(StateStage::resume);
    }

    /// Packets come in by interfaces with these MAC addresses.
    pub fn set_stations(&mut self, stations: &[MacAddress]) {
        self.admission.set_stations(stations);
    }

    /// A state stage sends messages on the fast path that it is part of: meanwhile it is out.
    /// Returns whether `act` returned true for all.
    fn with_stages(&mut self, mut act: impl FnMut(&mut Self, &mut StateStage, u8) -> bool) -> bool {
        let mut all = true;
        for place in 0..self.elements.len() {
            if !matches!(self.elements[place], FastElement::State(_)) {
                continue;
            }
            let mut element = std::mem::replace(&mut self.elements[place], FastElement::OnSlowPath);
            if let FastElement::State(stage) = &mut element {
                all &= act(self, stage, place as u8);
            }
            self.elements[place] = element;
        }
        all
    }
}

/// Flows that hints are kept for: what the largest table holds, each way.
fn hinted_flows(elements: &[FastElement]) -> usize {
    let flows = elements.iter().map(|element| match element {
        FastElement::OnSlowPath | FastElement::Dash(_) => 0,
        FastElement::Rules(stage) => stage.table.capacity(),
        FastElement::State(stage) => stage.slots(),
    });
    2 * flows.max().unwrap_or(0)
}

/// A packet is dropped on this path.
fn dropped_here(reason: DropReason, element: Option<u8>) -> Event {
    Event::Dropped(mirror::Drop {
        reason,
        on_slow_path: false,
        element,
        function: None,
    })
}
