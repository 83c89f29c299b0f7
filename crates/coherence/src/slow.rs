//! The slow path's side: flows, the chain, and the answers to the fast path.

use crate::grant::{Grant, Import};
use crate::safeguards::All;
use std::ops::Range;
use twinpath_core::steering::opener;
use twinpath_core::wire::{Layout, dissect};
use twinpath_core::{
    Direction, DropCounters, DropReason, FlowKey, Frame, HashKey, Instant, Keyed, Named, Packet,
    Pools,
};
use twinpath_link::{Header, Message};
use twinpath_slowpath::chain::{Chain, ChainIo};
use twinpath_slowpath::migration::Before;
use twinpath_slowpath::store::Record;
use twinpath_slowpath::timers::{Deadline, Timers};
use twinpath_slowpath::{
    Common, Eviction, FlowId, FlowStore, Migration, NetworkFunction, NextFunction,
};

/// A frame on its way back to the fast path.
#[derive(Debug)]
pub struct Outgoing {
    /// What it says.
    pub header: Header,
    /// The packet, or an empty frame for a message alone. A message without one still needs a
    /// buffer.
    pub frame: Option<Frame>,
}

/// What the workers did.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowFlowsCounters {
    /// Packets handled.
    pub packets: u64,
    /// Flows made.
    pub flows_created: u64,
    /// Flows forgotten because they were worth nothing any more.
    pub flows_aged: u64,
    /// Flows that were half-open or over and gave their place to others.
    pub half_open_forgotten: u64,
    /// Values imported.
    pub imports: u64,
    /// Values imported that an earlier incarnation of the slow path had granted.
    pub rescued: u64,
    /// Duplicate write-backs that were not imported.
    pub duplicate_write_backs: u64,
    /// Pulls granted.
    pub grants: u64,
    /// Pulls declined because complex work was pending, or nothing was known of the flow and others needed
    /// the room.
    pub declines: u64,
    /// Recalls sent for flows that have long been silent.
    pub recalls: u64,
}

/// Flows looked at for ageing with each packet.
const AGED_PER_PACKET: usize = 2;

/// Flows looked at for ageing as time goes by, so that what is over is forgotten where no packet comes,
/// and how often.
const AGED_WITH_TIME: usize = 64;
const AGED_EVERY: std::time::Duration = std::time::Duration::from_millis(1);

/// Flows looked at for ageing before one more is made where there is no room.
const AGED_FOR_ROOM: usize = 16;

/// Of the flows that there may be, one in so many may be half-open unless said otherwise.
const HALF_OPEN_SHARE: usize = 4;

/// A flow that may not be forgotten and has been silent for this long is recalled, so that it can
/// be.
const RECALL_AFTER: std::time::Duration = std::time::Duration::from_secs(60);

/// One worker's flows and functions.
pub struct SlowFlows {
    store: FlowStore<Grant>,
    chain: Chain,
    timers: Timers,
    epoch: u32,
    /// Packets that are older have all been here: what was due by then is done, and what is idle by
    /// then is forgotten.
    clock: Instant,
    hash_key: HashKey,
    departing: Vec<Packet>,
    replies: Vec<Packet>,
    aged: Vec<FlowId>,
    /// When flows were last looked at because of the time.
    aged_at: Instant,
    /// Most flows that may be half-open.
    most_half_open: usize,
    /// Where more flows are known, none is granted of which nothing is known.
    most_unknown: usize,
    /// How flows follow that still have the state of the chain before; it is empty once all have.
    migration: Option<Migration>,
    /// Packets until more of them follow.
    rest: u32,
    drops: DropCounters,
    stats: SlowFlowsCounters,
}

/// While flows follow to another chain, some that are not asked for do with one packet in so many.
const FOLLOWING_EVERY: u32 = 16;

/// Flows that are looked ahead at together: as many reads as a processor has under way, and a few
/// more.
pub const LOOKED_AHEAD: usize = 32;

impl SlowFlows {
    /// Workers in their `epoch`-th incarnation (from 1), with room for `flows` flows.
    pub fn new(chain: Chain, flows: usize, epoch: u32, seed: u64) -> Self {
        let store = FlowStore::new(flows, chain.word_count(), chain.len());
        Self {
            store,
            chain,
            timers: Timers::default(),
            epoch,
            clock: Instant::ZERO,
            hash_key: HashKey::new(seed),
            departing: Vec::new(),
            replies: Vec::new(),
            aged: Vec::new(),
            aged_at: Instant::ZERO,
            most_half_open: (flows / HALF_OPEN_SHARE).max(1),
            most_unknown: flows / 2,
            migration: None,
            rest: 0,
            drops: DropCounters::default(),
            stats: SlowFlowsCounters::default(),
        }
    }

    /// Lets at most so many flows be half-open (see [`Eviction::HalfOpen`]): with more,
    /// those that have been silent for longest are forgotten. A quarter of all unless said.
    #[must_use]
    pub fn with_half_open(mut self, most: usize) -> Self {
        self.most_half_open = most.max(1);
        self
    }

    /// The run begins at this packet time.
    pub fn start(&mut self, now: Instant) {
        self.chain.start(now);
        self.clock = now;
    }

    /// Takes the memory of the flows' index now, before packets could wait for it (see
    /// [`ZeroedArray::touch`](twinpath_core::memory::ZeroedArray::touch)).
    pub fn touch(&mut self) {
        self.store.touch();
    }

    /// Frames about these flows come next, of which [`LOOKED_AHEAD`] are looked at: in columns, so
    /// that their reads of memory overlap.
    pub fn look_ahead(&self, flows: impl Iterator<Item = FlowKey>) {
        let (mut hashes, mut count) = ([0; LOOKED_AHEAD], 0);
        for (place, key) in hashes.iter_mut().zip(flows) {
            *place = key.hash(&self.hash_key);
            self.store.prefetch_index(*place);
            count += 1;
        }
        for &hash in &hashes[..count] {
            self.store.prefetch_flow(hash);
        }
    }

    /// What the workers did so far.
    pub fn counters(&self) -> &SlowFlowsCounters {
        &self.stats
    }

    /// Packets dropped so far.
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// The place in the chain of the function that was the last to drop a packet since this was
    /// asked before.
    pub fn take_dropper_place(&mut self) -> Option<usize> {
        self.chain.take_dropper_place()
    }

    /// The chain, for its counters.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The same, for whoever takes something of functions that packets do not meet.
    pub fn chain_mut(&mut self) -> &mut Chain {
        &mut self.chain
    }

    /// The time up to which packets have been here.
    pub fn clock(&self) -> Instant {
        self.clock
    }

    /// The flows, for checkers and reports.
    pub fn store(&self) -> &FlowStore<Grant> {
        &self.store
    }

    /// The state words of a flow, if it is known.
    pub fn words_of(&self, key: &FlowKey) -> Option<&[u32]> {
        let id = self.store.find(key, key.hash(&self.hash_key))?;
        Some(self.store.words(id))
    }

    /// Packets that are between functions, or that the last has let go of and that are not out yet: there are none
    /// but while a function runs.
    pub fn passing(&self) -> impl Iterator<Item = &Packet> {
        self.chain.passing().chain(&self.departing)
    }

    /// This incarnation's number.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Another incarnation's number, before the first frame.
    pub fn set_epoch(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// Lets go of all packets that functions keep, in order within each flow: the chain is about
    /// to change. All state must be the workers'.
    pub fn release(&mut self, now: Instant, pools: &mut Pools, out: &mut Vec<Outgoing>) {
        // What one function lets go of another may keep, but only once.
        for _ in 0..self.chain.len() {
            if self.chain.kept_packets() == 0 {
                return;
            }
            let keep = |id: &FlowId| self.store.keeps_handles(*id);
            let keeping: Vec<FlowId> = self.store.ids().filter(keep).collect();
            for id in keeping {
                self.release_one(id, now, pools, out);
            }
        }
    }

    fn release_one(
        &mut self,
        id: FlowId,
        now: Instant,
        pools: &mut Pools,
        out: &mut Vec<Outgoing>,
    ) {
        self.catch_up(id);
        let mut io = ChainIo {
            departing: &mut self.departing,
            replies: &mut self.replies,
            drops: &mut self.drops,
            pools,
        };
        let mut record = self.store.record(id);
        self.chain.expire(&mut record, now);
        self.chain.release(&mut record, now, &mut io);
        self.put_out_of(id, out);
        self.note_deadline(id);
        self.forget_if_worthless(id);
    }

    /// Functions take their parts of what they have in common with those of other workers.
    pub fn share(&mut self, common: &Common) {
        self.chain.share(common);
    }

    /// Becomes the workers of another chain, in a run that began at `started`: flows keep what the
    /// functions that stay know of them. All state must be the workers', and nothing under way.
    /// Returns the functions that are left.
    pub fn succeed(
        &mut self,
        successors: Vec<NextFunction>,
        started: Instant,
    ) -> Vec<Named<dyn NetworkFunction>> {
        while self.follow_on() {}
        let (migration, left) = self.chain.succeed(successors, started);
        self.store
            .reshape(self.chain.word_count(), self.chain.len());
        self.migration = Some(migration);
        left
    }

    /// Functions at these places take other configurations, which change nothing about flows that
    /// there are: wherever their state is, it stays there. Returns what is left.
    pub fn reconfigure(
        &mut self,
        functions: Vec<(usize, Named<dyn NetworkFunction>)>,
    ) -> Vec<Named<dyn NetworkFunction>> {
        let mut left = Vec::new();
        for (place, mut new) in functions {
            self.chain.reconfigure(place, &mut *new.function);
            left.push(new);
        }
        left
    }

    /// Brings a flow, and others beside it, to the present chain.
    #[inline]
    fn catch_up(&mut self, id: FlowId) {
        if let Some(migration) = &self.migration {
            let chain = &mut self.chain;
            self.store
                .move_chunk(id, |words, handles, new_words, new_handles| {
                    let before = Before { words, handles };
                    chain.migrate_flow(migration, before, new_words, new_handles);
                });
        }
    }

    /// Brings the flows with these numbers to the present chain.
    pub fn catch_up_among(&mut self, numbers: Range<usize>) {
        let flows: Vec<FlowId> = self.store.ids_among(numbers).collect();
        flows.into_iter().for_each(|id| self.catch_up(id));
    }

    /// Brings more flows to the present chain; false if all are there.
    #[cold]
    fn follow_on(&mut self) -> bool {
        let next = self.store.to_move();
        match next {
            Some(id) => self.catch_up(id),
            None => self.migration = None,
        }
        next.is_some()
    }

    /// While flows follow to another chain, each packet is an occasion.
    #[inline]
    fn follow_now_and_then(&mut self) {
        if self.migration.is_none() {
            return;
        }
        self.rest = self.rest.saturating_sub(1);
        if self.rest == 0 {
            self.rest = FOLLOWING_EVERY;
            self.follow_on();
        }
    }

    /// Handles one frame from the fast path. What goes back is appended to `out`.
    pub fn receive(
        &mut self,
        header: &Header,
        frame: Frame,
        pools: &mut Pools,
        out: &mut Vec<Outgoing>,
    ) {
        let hash = header.key.hash(&self.hash_key);
        let Some(id) = self.admit(header, hash, out) else {
            self.refuse(header, frame, pools, out);
            return;
        };
        self.catch_up(id);
        // What was due before this packet came is done before it.
        self.wake_up_to(header.timestamp, id, pools, out);
        let taken = self.take_message(header, id);
        let spare = match self.packet(header, frame, id, pools) {
            Ok(packet) => {
                self.run(packet, id, pools);
                None
            }
            Err(frame) => Some(frame),
        };
        let message = self.answer(header, id, taken);
        let spare = self.emit(header, message, id, spare, out);
        spare.into_iter().for_each(|frame| pools.give(frame));
        self.note_deadline(id);
        // The deadline of what a function keeps of a late packet may have passed.
        self.wake_up_to(self.clock, id, pools, out);
        if !self.forget_if_worthless(id) {
            self.note_eviction(id);
        }
        self.timers.settle(&self.store);
        self.age(out);
        self.follow_now_and_then();
    }

    /// The flow that a frame is about; a message without a packet makes no flow, unless it brings
    /// a value.
    fn admit(&mut self, header: &Header, hash: u64, out: &mut Vec<Outgoing>) -> Option<FlowId> {
        if !header.has_packet && header.message != Message::WriteBack {
            return self.store.find(&header.key, hash);
        }
        if let Some(known) = self.store.find(&header.key, hash) {
            return Some(known);
        }
        if self.store.is_full() {
            self.make_room(header.timestamp, out);
        }
        let id = self.store.find_or_insert(&header.key, hash)?;
        self.stats.flows_created += 1;
        Some(id)
    }

    /// Where there is no room for a flow, one that has expired by now gives its place, or one that is
    /// over, or a half-open one.
    #[cold]
    fn make_room(&mut self, now: Instant, out: &mut Vec<Outgoing>) {
        self.age_many(AGED_FOR_ROOM, now, out);
        if self.store.is_full() && !self.forget_oldest(Eviction::WhenFull) {
            self.forget_oldest(Eviction::HalfOpen);
        }
    }

    /// A flow has had a packet. If it is half-open, and one too many are, that which has been silent
    /// for longest is forgotten.
    fn note_eviction(&mut self, id: FlowId) {
        let record = self.store.record(id);
        let eviction = match record.tag.is_ours() {
            true => self.chain.eviction(&record),
            false => Eviction::Never,
        };
        self.store.set_eviction(id, eviction);
        if self.store.evictable(Eviction::HalfOpen) > self.most_half_open {
            self.forget_oldest(Eviction::HalfOpen);
        }
    }

    /// Forgets the one of these flows that has been silent for longest; false if that may not be.
    #[cold]
    fn forget_oldest(&mut self, eviction: Eviction) -> bool {
        let Some(id) = self.store.oldest_evictable(eviction) else {
            return false;
        };
        self.catch_up(id);
        self.store.set_eviction(id, Eviction::Never);
        let mut record = self.store.record(id);
        let may_go = record.tag.may_forget() && self.chain.eviction(&record) == eviction;
        if may_go {
            self.chain.end(&record, self.clock);
            self.chain.forget(&mut record);
            self.store.remove(id);
            self.stats.half_open_forgotten += 1;
        }
        may_go
    }

    /// No flow and no room for one. A frozen value must not be lost: without acknowledgement the
    /// fast path keeps it.
    fn refuse(
        &mut self,
        header: &Header,
        frame: Frame,
        pools: &mut Pools,
        out: &mut Vec<Outgoing>,
    ) {
        if header.has_packet {
            self.drops.count(DropReason::FlowTableFull);
        }
        if header.message == Message::Pull {
            out.push(Outgoing {
                header: self.reply_header(header, Message::Decline),
                frame: Some(pools.emptied(frame)),
            });
        } else {
            pools.give(frame);
        }
        self.age_many(64, self.clock, out);
    }

    /// The message's effect on the flow before its packet is applied.
    fn take_message(&mut self, header: &Header, id: FlowId) -> Option<Import> {
        let record = self.store.record(id);
        match header.message {
            Message::WriteBack => {
                let same_life = header.epoch == self.epoch;
                let import = record.tag.write_back(header.generation, same_life, &All);
                if import == Import::Take {
                    let count = record.words.len().min(header.words().len());
                    record.words.fill(0);
                    record.words[..count].copy_from_slice(&header.words()[..count]);
                    *record.initiator = header.initiator;
                    *record.last_seen = header.timestamp;
                    self.stats.imports += 1;
                    self.stats.rescued += u64::from(!same_life);
                } else {
                    self.stats.duplicate_write_backs += 1;
                }
                Some(import)
            }
            // Decided after the packet, whose work may be what is pending.
            Message::Pull => None,
            _ => {
                record.tag.plain();
                None
            }
        }
    }

    /// Parses a packet again on this side of the link, and finds its direction. Without a (sound)
    /// packet the empty frame comes back.
    fn packet(
        &mut self,
        header: &Header,
        frame: Frame,
        id: FlowId,
        pools: &mut Pools,
    ) -> Result<Packet, Frame> {
        if !header.has_packet {
            return Err(pools.emptied(frame));
        }
        let layout = match dissect(frame.bytes()) {
            Ok(layout) => layout,
            Err(malformed) => {
                self.drops.count(DropReason::Malformed(malformed));
                return Err(pools.emptied(frame));
            }
        };
        self.stats.packets += 1;
        let mut record = self.store.record(id);
        *record.last_seen = header.timestamp;
        self.chain.expire(&mut record, header.timestamp);
        if is_zero(&record) {
            *record.initiator = opener_of(header, &frame, &layout);
        }
        let direction = Direction::between(header.side, *record.initiator);
        Ok(Packet {
            frame,
            layout,
            direction,
            role: header.role,
            alias_row: header.alias_row,
        })
    }

    fn run(&mut self, packet: Packet, id: FlowId, pools: &mut Pools) {
        let now = packet.timestamp();
        let mut io = ChainIo {
            departing: &mut self.departing,
            replies: &mut self.replies,
            drops: &mut self.drops,
            pools,
        };
        self.chain
            .run(packet, &mut self.store.record(id), now, &mut io);
    }

    /// Functions have done something about a flow: they may want to be woken at another time.
    fn note_deadline(&mut self, flow: FlowId) {
        let incarnation = self.store.incarnation(flow);
        let record = self.store.record(flow);
        let at = self.chain.deadline(&record);
        if at == *record.deadline {
            return;
        }
        *record.deadline = at;
        if at != Instant::NEVER {
            let deadline = Deadline {
                at,
                flow,
                incarnation,
            };
            self.timers.add(deadline, &self.store);
        }
    }

    /// What to tell the fast path about the flow's state.
    fn answer(&mut self, header: &Header, id: FlowId, taken: Option<Import>) -> Message {
        if taken.is_some() {
            return Message::Acknowledge;
        }
        if header.message != Message::Pull {
            return Message::Return;
        }
        let is_worth = self.is_worth_granting(id);
        let record = self.store.record(id);
        let is_pending = self.chain.is_pending(&record);
        let granted = record.tag.pull(header.generation, is_pending || !is_worth);
        self.stats.grants += u64::from(granted);
        self.stats.declines += u64::from(!granted);
        if granted {
            Message::State
        } else {
            Message::Decline
        }
    }

    /// A flow whose state has been granted keeps its place here. One of which nothing is known, not even after
    /// its packet, takes none otherwise: it is granted as long as others do not need the room.
    fn is_worth_granting(&mut self, id: FlowId) -> bool {
        self.store.len() <= self.most_unknown || !is_zero(&self.store.record(id))
    }

    /// Puts out what the chain yielded. The message goes last, behind every packet of the flow
    /// that left before: on its own if the chain kept or dropped the packet, and then in the
    /// `spare` frame, if there is one. Masses of messages without packets can so be answered
    /// without a buffer of our own. A spare frame that is not used comes back.
    fn emit(
        &mut self,
        request: &Header,
        message: Message,
        id: FlowId,
        spare: Option<Frame>,
        out: &mut Vec<Outgoing>,
    ) -> Option<Frame> {
        let first = out.len();
        self.put_out(request.key, out);
        if message == Message::Return {
            return spare;
        }
        let mut header = self.reply_header(request, message);
        if message == Message::State {
            let record = self.store.record(id);
            header.set_words(record.words);
            header.initiator = *record.initiator;
        }
        let Some(last) = out[first..].last_mut() else {
            out.push(Outgoing {
                header,
                frame: spare,
            });
            return None;
        };
        (header.has_packet, header.is_reply, header.timestamp) =
            (true, last.header.is_reply, last.header.timestamp);
        last.header = header;
        spare
    }

    fn put_out_of(&mut self, id: FlowId, out: &mut Vec<Outgoing>) {
        let key = *self.store.view(id).0;
        self.put_out(key, out);
    }

    fn put_out(&mut self, key: FlowKey, out: &mut Vec<Outgoing>) {
        let epoch = self.epoch;
        let outgoing = |packet: Packet, is_reply| {
            let mut header = Header::new(Message::Return, key);
            (header.has_packet, header.is_reply, header.epoch) = (true, is_reply, epoch);
            header.timestamp = packet.timestamp();
            Outgoing {
                header,
                frame: Some(packet.frame),
            }
        };
        out.extend(
            self.departing
                .drain(..)
                .map(|packet| outgoing(packet, false)),
        );
        out.extend(self.replies.drain(..).map(|packet| outgoing(packet, true)));
    }

    fn reply_header(&self, request: &Header, message: Message) -> Header {
        let mut header = Header::new(message, request.key);
        (header.generation, header.slot) = (request.generation, request.slot);
        (header.epoch, header.timestamp) = (self.epoch, request.timestamp);
        header
    }

    /// No packet that is older than this will come any more: what is idle by then may be forgotten.
    pub fn tell_time(&mut self, passed: Instant) {
        self.clock = self.clock.max(passed);
    }

    /// [The same](Self::tell_time), and what is due by then happens, in order of the deadlines.
    /// Before a packet of its flow that is as late a deadline comes anyway.
    pub fn advance(&mut self, passed: Instant, pools: &mut Pools, out: &mut Vec<Outgoing>) {
        self.tell_time(passed);
        while let Some(deadline) = self.timers.first()
            && deadline.at <= self.clock
        {
            self.catch_up(deadline.flow);
            self.wake_up_to(deadline.at, deadline.flow, pools, out);
            self.forget_if_worthless(deadline.flow);
            self.timers.settle(&self.store);
        }
        if self.clock.since(self.aged_at) >= AGED_EVERY {
            self.aged_at = self.clock;
            self.age_many(AGED_WITH_TIME, self.clock, out);
        }
    }

    /// Deadlines of a flow come that are not after `now`, each as of its time.
    #[inline]
    fn wake_up_to(&mut self, now: Instant, id: FlowId, pools: &mut Pools, out: &mut Vec<Outgoing>) {
        loop {
            let at = *self.store.record(id).deadline;
            if at > now || at == Instant::NEVER {
                return;
            }
            self.wake(at, id, pools, out);
        }
    }

    #[cold]
    fn wake(&mut self, at: Instant, id: FlowId, pools: &mut Pools, out: &mut Vec<Outgoing>) {
        let mut io = ChainIo {
            departing: &mut self.departing,
            replies: &mut self.replies,
            drops: &mut self.drops,
            pools,
        };
        let mut record = self.store.record(id);
        *record.deadline = Instant::NEVER;
        // A flow whose state has been granted waits for nothing.
        if !record.tag.is_ours() {
            return;
        }
        self.chain.expire(&mut record, at);
        self.chain.wake(&mut record, at, &mut io);
        self.put_out_of(id, out);
        self.note_deadline(id);
        debug_assert!(
            *self.store.record(id).deadline > at,
            "a function wants to be woken before it sleeps"
        );
    }

    /// The next deadline; [`Instant::NEVER`] if there is none.
    pub fn next_deadline(&self) -> Instant {
        self.timers.next()
    }

    fn forget_if_worthless(&mut self, id: FlowId) -> bool {
        let record = self.store.record(id);
        let is_worthless = is_zero(&record) && record.tag.may_forget();
        if is_worthless {
            self.store.remove(id);
        }
        is_worthless
    }

    /// Looks at a few flows under the hand: expired ones are forgotten, silent ones that may not
    /// be are recalled.
    fn age(&mut self, out: &mut Vec<Outgoing>) {
        self.age_many(AGED_PER_PACKET, self.clock, out);
    }

    fn age_many(&mut self, count: usize, now: Instant, out: &mut Vec<Outgoing>) {
        let mut aged = std::mem::take(&mut self.aged);
        aged.clear();
        self.store.under_the_hand(count, &mut aged);
        for &id in &aged {
            self.age_one(id, now, out);
        }
        self.aged = aged;
    }

    fn age_one(&mut self, id: FlowId, now: Instant, out: &mut Vec<Outgoing>) {
        self.catch_up(id);
        let record = self.store.record(id);
        if let Some(generation) = record.tag.to_recall()
            && now.since(*record.last_seen) > RECALL_AFTER
        {
            *record.last_seen = now;
            self.recall(id, generation, out);
        }
        let mut record = self.store.record(id);
        if !record.tag.is_ours() {
            return;
        }
        // Ahead of the clock deadlines may have passed that nobody was woken for.
        if now > self.clock && self.chain.is_pending(&record) {
            return;
        }
        self.chain.expire(&mut record, now);
        self.stats.flows_aged += u64::from(self.forget_if_worthless(id));
    }

    fn recall(&mut self, id: FlowId, generation: u32, out: &mut Vec<Outgoing>) {
        let mut header = Header::new(Message::Recall, *self.store.view(id).0);
        (header.generation, header.epoch, header.timestamp) = (generation, self.epoch, self.clock);
        self.stats.recalls += 1;
        out.push(Outgoing {
            header,
            frame: None,
        });
    }
}

fn opener_of(header: &Header, frame: &Frame, layout: &Layout) -> twinpath_core::Side {
    let keyed = Keyed {
        key: header.key,
        side: header.side,
        role: header.role,
        alias_row: header.alias_row,
    };
    opener(frame.bytes(), layout, &keyed)
}

/// Whether nothing is known of a flow.
fn is_zero<T>(record: &Record<'_, T>) -> bool {
    record.words.iter().all(|&word| word == 0) && record.handles.iter().all(|&handle| handle == 0)
}
