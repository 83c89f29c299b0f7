//! The slow path's side of an element: runs packets through the chain, makes rules of them, and keeps
//! the order when a packet has to wait.
//!
//! A packet waits when it needs an entry to change or end that cached rules came from: the fast
//! path is asked how they were used, and if that does not settle it, they are taken out. Until
//! then packets of its flow and direction wait behind it, and others pass. So do marks that are about
//! them: they promise that everything before them has been sent out.

use crate::chain::{Awaits, RuleChain};
use crate::followers::{self, Follower};
use crate::function::{Answers, RuleFunction, Verdict};
use crate::key::MatchKey;
use crate::manager::{Manager, ManagerConfig};
use crate::message::{CacheMessage, NewRule, RuleName};
use crate::pending::{Flow, Pending, Progress, Suspended, Ticket};
use crate::probe::{NoProbe, Probe};
use crate::reconfigure::{Affected, Reconfiguration, ReconfigureError};
use crate::recorded::{Dependents, Waited};
use crate::recording::{EntryId, Obstacle, Recording};
use crate::selection::{Selection, SelectionConfig};
use crate::sides::Sides;
use crate::synthesis::synthesise;
use twinpath_core::fragments::DatagramFlows;
use twinpath_core::wire::layout::Fragment;
use twinpath_core::{DropReason, Frame, HashKey, Instant, Keyed, Named, Packet, Pools, Steering};

/// Configuration of the slow path's side.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SlowRulesConfig {
    /// Whether rules are made at all.
    pub caching: bool,
    /// Packets that may wait for the fast path, and for others of their flow; more are dropped.
    pub waiting: usize,
    /// Which rules are hot.
    pub selection: SelectionConfig,
    /// How many rules there may be.
    pub manager: ManagerConfig,
}

impl Default for SlowRulesConfig {
    fn default() -> Self {
        let manager = ManagerConfig::default();
        Self {
            caching: true,
            waiting: 4096,
            selection: SelectionConfig::for_rules(manager.exact + manager.masked),
            manager,
        }
    }
}

/// What the workers send out, in this order.
#[derive(Debug)]
pub enum Output {
    /// A packet leaves the element, by this port if a function said so.
    Depart(Packet, Option<u16>),
    /// A packet is dropped.
    Drop(Packet, DropReason),
    /// A packet that a function made.
    Reply(Frame),
    /// A message to the fast path.
    Send(CacheMessage),
}

/// Counters of the slow path's side.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowRulesCounters {
    /// Packets that came.
    pub packets: u64,
    /// Packets that made no rule, by [`Obstacle`].
    pub obstacles: [u64; Obstacle::ALL.len()],
    /// Packets that had to wait for the fast path.
    pub waited: u64,
    /// Packets dropped because too many waited behind one.
    pub overflowed: u64,
    /// Packets dropped because their function waits for what is settled already.
    pub stuck: u64,
}

/// What a packet on its way through the chain has to do with cached rules.
struct RulesOfEntries<'a> {
    manager: &'a Manager,
    selection: &'a Selection,
    waited: Waited,
}

impl Dependents for RulesOfEntries<'_> {
    fn is_free(&self, entry: EntryId) -> bool {
        self.manager.is_free(entry)
    }

    fn waited(&self) -> Waited {
        self.waited
    }

    #[inline]
    fn expect(&self, entry: EntryId) {
        self.selection.prefetch(entry);
    }
}

/// The slow path's side of one element of a chain.
pub struct SlowRules {
    config: SlowRulesConfig,
    sides: Sides,
    /// Tells flows by addresses and ports alone.
    steering: Steering,
    /// The flows of datagrams whose first fragments have come.
    datagrams: DatagramFlows,
    chain: RuleChain,
    /// Of the packet that is on its way.
    recording: Recording,
    selection: Selection,
    manager: Manager,
    pending: Pending,
    /// The arrival of the last packet that was taken up.
    clock: Instant,
    /// Packets that are older have all been taken up.
    passed: Instant,
    counters: SlowRulesCounters,
    replies: Vec<Frame>,
    messages: Vec<CacheMessage>,
}

impl SlowRules {
    /// An element of these functions.
    pub fn new(
        config: SlowRulesConfig,
        sides: Sides,
        functions: Vec<Box<dyn RuleFunction>>,
    ) -> Self {
        Self {
            config,
            sides,
            steering: Steering::default(),
            datagrams: DatagramFlows::new(HashKey::new(config.selection.seed)),
            chain: RuleChain::new(functions),
            recording: Recording::new(None),
            selection: Selection::new(config.selection),
            manager: Manager::new(config.manager),
            pending: Pending::default(),
            clock: Instant::ZERO,
            passed: Instant::ZERO,
            counters: SlowRulesCounters::default(),
            replies: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// The same, of whose functions so many at the end decide last.
    #[must_use]
    pub fn with_last(self, last: usize) -> Self {
        let chain = self.chain.with_last(last);
        Self { chain, ..self }
    }

    /// Takes the memory of the selection's counts and of functions' tables now, before packets could wait
    /// for it (see [`ZeroedArray::touch`](twinpath_core::memory::ZeroedArray::touch)).
    pub fn touch(&mut self) {
        self.selection.touch();
        let functions = self.chain.functions_mut();
        functions.for_each(|(_, function)| function.take_memory());
    }

    /// Counters so far.
    pub fn counters(&self) -> SlowRulesCounters {
        self.counters
    }

    /// The book of cached rules.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// The selection.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// The functions; change entries of theirs only when [no rule](Self::may_change) came from
    /// them.
    pub fn chain(&mut self) -> &mut RuleChain {
        &mut self.chain
    }

    /// Tells the functions that the run begins.
    pub fn start(&mut self, now: Instant) {
        self.chain
            .functions_mut()
            .for_each(|(_, function)| function.start(now));
    }

    /// The functions, in order.
    pub fn functions(&self) -> &[Named<dyn RuleFunction>] {
        self.chain.functions()
    }

    /// Takes other functions, before the first packet or after the last: those so far are returned,
    /// to go on elsewhere. No packet may [wait](Self::is_waiting).
    pub fn exchange_functions(
        &mut self,
        functions: Vec<Named<dyn RuleFunction>>,
    ) -> Vec<Named<dyn RuleFunction>> {
        self.chain.exchange(functions)
    }

    /// The arrival of the last packet that was taken up.
    pub fn clock(&self) -> Instant {
        self.clock
    }

    /// Whether a packet waits for the fast path.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Packets that wait for the fast path, or behind one that does.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Of the packets that wait, the smallest number in the order of arrival, and the earliest time.
    pub fn oldest_waiting(&self) -> Option<(u64, Instant)> {
        self.pending.oldest()
    }

    /// Takes a packet that was punted.
    pub fn packet(&mut self, packet: Packet, pools: &mut Pools, out: &mut Vec<Output>) {
        self.packet_probed(packet, pools, out, &mut NoProbe);
    }

    /// The same with a probe; of a packet that must wait, no more than that is seen.
    pub fn packet_probed<P: Probe + ?Sized>(
        &mut self,
        packet: Packet,
        pools: &mut Pools,
        out: &mut Vec<Output>,
        probe: &mut P,
    ) {
        self.counters.packets += 1;
        let (at, key) = (packet.timestamp(), self.key_of(&packet));
        // Where nothing waits it matters to those alone that will.
        let flow = match (self.pending.is_empty(), key) {
            (true, Some(_)) => None,
            _ => Some(self.flow_of(&packet, key.as_ref())),
        };
        let Some(flow) = flow.filter(|flow| self.pending.concerns(flow)) else {
            self.begin(packet, key, flow, None, pools, out, probe);
            return self.resume(at, pools, out);
        };
        if self.pending.len() < self.config.waiting {
            self.pending.wait_behind(flow, packet);
        } else {
            self.counters.overflowed += 1;
            out.push(Output::Drop(packet, DropReason::RuleBacklogFull));
        }
    }

    /// Takes a message from the fast path at `now`.
    pub fn message(
        &mut self,
        message: &CacheMessage,
        now: Instant,
        pools: &mut Pools,
        out: &mut Vec<Output>,
    ) {
        match message {
            CacheMessage::Mark(mark, rule) => self.mark(*mark, *rule, now, out),
            CacheMessage::FlowMark(mark, flow) => {
                self.pending.mark(*mark, &flow.flow_key());
                self.answer_marks(out);
            }
            _ => self.report(message, now, pools, out),
        }
    }

    /// What the fast path tells of its rules.
    fn report(
        &mut self,
        message: &CacheMessage,
        now: Instant,
        pools: &mut Pools,
        out: &mut Vec<Output>,
    ) {
        let chain = &mut self.chain;
        let mut credit = |entry: EntryId, hits: &_| {
            if let Some(function) = chain.function(entry.function) {
                function.credit(entry.entry, hits);
            }
        };
        self.manager
            .message(message, now, &mut credit, &mut self.messages);
        self.send(out);
        self.resume(now, pools, out);
    }

    /// A rule may become active once no packet of its flow waits here. One for many flows does not wait for
    /// that, or packets of all would wait for those of one: it goes, and is made again.
    fn mark(&mut self, mark: u32, name: RuleName, now: Instant, out: &mut Vec<Output>) {
        let Some(NewRule { mask, value, .. }) = self.manager.rule(name) else {
            return out.push(Output::Send(CacheMessage::Clear(name)));
        };
        if self.pending.is_empty() {
            return out.push(Output::Send(CacheMessage::Marked(mark)));
        }
        if mask.is_of_a_flow() {
            self.pending.mark(mark, &value.flow_key());
            return self.answer_marks(out);
        }
        match self.pending.has_of_rule(mask, value) {
            true => self.manager.clear(name.id, now, &mut self.messages),
            false => out.push(Output::Send(CacheMessage::Marked(mark))),
        }
        self.send(out);
    }

    fn answer_marks(&mut self, out: &mut Vec<Output>) {
        while let Some(mark) = self.pending.free_mark() {
            out.push(Output::Send(CacheMessage::Marked(mark)));
        }
    }

    /// No packet that is older than this will come any more, and none waits: entries that are idle
    /// by then may end.
    pub fn tell_time(&mut self, passed: Instant) {
        self.passed = self.passed.max(passed);
    }

    /// Lets time pass; call it now and then, also when no packets come.
    pub fn tick(&mut self, now: Instant, pools: &mut Pools, out: &mut Vec<Output>) {
        self.manager.tick(now, &mut self.messages);
        self.forget_expired();
        self.send(out);
        self.resume(now, pools, out);
    }

    fn forget_expired(&mut self) {
        let (now, mut expired) = (self.passed, Vec::new());
        for (place, function) in self.chain.functions_mut() {
            function.each_expired(now, &mut |entry| expired.push(entry));
            for entry in expired.drain(..) {
                let function_entry = EntryId {
                    function: place,
                    entry,
                };
                if self.manager.is_free(function_entry) {
                    function.forget(entry, now);
                }
            }
        }
    }

    /// Begins to change the configuration of the function at a place: takes out the rules that the
    /// change concerns, and admits no others like them until it is
    /// [over](Self::end_changes). Several functions may change together. Returns how many rules go.
    ///
    /// # Errors
    /// There is no such function; then nothing has begun.
    pub fn begin_change(
        &mut self,
        place: u8,
        change: &Reconfiguration,
        now: Instant,
        out: &mut Vec<Output>,
    ) -> Result<usize, ReconfigureError> {
        let function = self.chain.function(place);
        let function = function.ok_or(ReconfigureError::NoFunction(place))?;
        let affected = change.affected(function)?;
        Ok(self.take_out(place, affected, now, out))
    }

    /// The same for a change that is made by hand, through [`Self::chain`].
    pub fn take_out(
        &mut self,
        place: u8,
        affected: Affected,
        now: Instant,
        out: &mut Vec<Output>,
    ) -> usize {
        let messages = &mut self.messages;
        let going = self.manager.begin_change(place, affected, now, messages);
        self.send(out);
        going
    }

    /// Whether the rules that changes concern are gone.
    pub fn may_change(&self) -> bool {
        self.manager.may_change()
    }

    /// Makes a change that was begun; all that it concerns [is gone](Self::may_change).
    ///
    /// # Errors
    /// There is no such function; nothing has changed.
    pub fn finish_change(
        &mut self,
        place: u8,
        change: &mut Reconfiguration,
    ) -> Result<(), ReconfigureError> {
        debug_assert!(self.may_change(), "rules are still out there");
        let function = self.chain.function(place);
        change.apply(function.ok_or(ReconfigureError::NoFunction(place))?)
    }

    /// All changes have been made that were begun, or will not be: rules are admitted again.
    pub fn end_changes(&mut self) {
        self.manager.end_change();
    }

    fn send(&mut self, out: &mut Vec<Output>) {
        out.extend(self.messages.drain(..).map(Output::Send));
    }

    /// A packet as rules see it, as it comes to the chain.
    fn key_of(&self, packet: &Packet) -> Option<MatchKey> {
        let ingress = packet.frame.port();
        let direction = self.sides.key_direction(packet);
        MatchKey::of(packet.bytes(), &packet.layout, ingress, direction)
    }

    /// A packet's flow and direction, as it comes to the chain with this key. An ICMP error is of the
    /// flow that it is about.
    fn flow_of(&mut self, packet: &Packet, key: Option<&MatchKey>) -> Flow {
        if let Some(key) = key {
            return key.flow_key();
        }
        let (bytes, layout) = (packet.bytes(), &packet.layout);
        let keyed = match layout.fragment {
            Fragment::Whole => self.steering.key(bytes, layout),
            _ => self.flow_of_fragment(packet),
        };
        keyed.map_or_else(Flow::default, |keyed| (keyed.key, keyed.side))
    }

    /// The flow of its datagram; where that is not known, all those between two hosts are of one.
    fn flow_of_fragment(&mut self, packet: &Packet) -> Option<Keyed> {
        let (bytes, layout, now) = (packet.bytes(), &packet.layout, packet.timestamp());
        let keyed = self.datagrams.key(bytes, layout, &self.steering, now);
        keyed.or_else(|| self.steering.key(bytes, layout))
    }

    /// A packet meets the chain; one that has waited has a ticket. Returns whether it is gone, or
    /// else waits.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is another party of a packet"
    )]
    fn begin<P: Probe + ?Sized>(
        &mut self,
        mut packet: Packet,
        key: Option<MatchKey>,
        flow: Option<Flow>,
        ticket: Option<Ticket>,
        pools: &mut Pools,
        out: &mut Vec<Output>,
        probe: &mut P,
    ) -> bool {
        self.clock = self.clock.max(packet.timestamp());
        self.recording.begin(key);
        self.sides.tell(&mut packet, &mut self.recording);
        probe.begins(&packet, &self.recording);
        let start = Start {
            step: 0,
            settled: None,
            waited: Waited::default(),
            flow,
            ticket,
        };
        self.run(packet, Vec::new(), start, pools, out, probe)
    }

    /// Takes a packet on that had to wait; when it is gone, those behind it go.
    fn go_on(
        &mut self,
        progress: Progress,
        news: EntryStatus,
        (flow, ticket): (Flow, Ticket),
        pools: &mut Pools,
        out: &mut Vec<Output>,
    ) {
        self.recording = progress.recording;
        let Progress {
            packet,
            step,
            followers,
            waits: times,
            ..
        } = progress;
        let entry = news.is_told.then_some(news.entry);
        let start = Start {
            step,
            settled: news.is_free.then_some(news.entry),
            waited: Waited { entry, times },
            flow: Some(flow),
            ticket: Some(ticket),
        };
        let mut is_gone = self.run(packet, followers, start, pools, out, &mut NoProbe);
        let mut last = ticket;
        while is_gone && let Some((next, packet)) = self.pending.gone(&flow, last) {
            let (key, ticket) = (self.key_of(&packet), Some(next));
            is_gone = self.begin(packet, key, Some(flow), ticket, pools, out, &mut NoProbe);
            last = next;
        }
    }

    /// Takes a packet through the chain. Returns whether it is gone, or else waits.
    fn run<P: Probe + ?Sized>(
        &mut self,
        mut packet: Packet,
        mut followers: Vec<Follower>,
        start: Start,
        pools: &mut Pools,
        out: &mut Vec<Output>,
        probe: &mut P,
    ) -> bool {
        let recording = &mut self.recording;
        let mut answers = Answers::new(&mut self.replies, pools);
        let dependents = RulesOfEntries {
            manager: &self.manager,
            selection: &self.selection,
            waited: start.waited,
        };
        let dependents: &dyn Dependents = match self.config.caching {
            true => &dependents,
            false => &self.manager,
        };
        let verdict = self.chain.run_probed(
            &mut packet,
            recording,
            start.step,
            dependents,
            &mut answers,
            probe,
        );
        answers.hand_over_followers(&mut followers);
        drop(answers);
        out.extend(self.replies.drain(..).map(Output::Reply));
        if let Verdict::Wait(Awaits { step, entry }) = verdict {
            let progress = Progress {
                packet,
                recording: self.recording,
                step,
                followers,
                waits: start.waited.times + 1,
            };
            return self.wait(progress, entry, start, pools, out);
        }
        let followers = match followers.is_empty() {
            true => Vec::new(),
            false => followers::packets(followers, &packet, pools),
        };
        self.finish(packet, verdict, pools, out, probe);
        if !followers.is_empty() {
            self.follow(followers, pools, out);
        }
        true
    }

    /// A packet is through the chain.
    fn finish<P: Probe + ?Sized>(
        &mut self,
        packet: Packet,
        verdict: Verdict<Awaits>,
        pools: &mut Pools,
        out: &mut Vec<Output>,
        probe: &mut P,
    ) {
        let at = packet.timestamp();
        match verdict {
            Verdict::Drop(reason) => {
                self.consider(Some(reason), at, out, probe);
                out.push(Output::Drop(packet, reason));
            }
            Verdict::Consumed => {
                self.consider(None, at, out, probe);
                pools.give(packet.frame);
            }
            _ => {
                out.push(Output::Depart(packet, self.recording.rewrites().egress()));
                self.consider(None, at, out, probe);
            }
        }
    }

    /// What functions let go behind a packet meets those that are still to come.
    #[cold]
    fn follow(
        &mut self,
        followers: Vec<(usize, Packet)>,
        pools: &mut Pools,
        out: &mut Vec<Output>,
    ) {
        for (step, packet) in followers {
            let key = self.key_of(&packet);
            let start = Start {
                step,
                settled: None,
                waited: Waited::default(),
                flow: Some(self.flow_of(&packet, key.as_ref())),
                ticket: None,
            };
            // It makes no rule: nobody knows what it looked like when it came.
            self.recording.begin(None);
            self.run(packet, Vec::new(), start, pools, out, &mut NoProbe);
        }
    }

    /// Counts the entries of a packet that goes on or is dropped, and offers its rule if it is hot.
    fn consider<P: Probe + ?Sized>(
        &mut self,
        drop: Option<DropReason>,
        at: Instant,
        out: &mut Vec<Output>,
        probe: &mut P,
    ) {
        let recording = &self.recording;
        probe.ends(recording, drop, at);
        if !self.config.caching {
            return;
        }
        if let Some(obstacle) = recording.obstacle() {
            self.counters.obstacles[obstacle as usize] += 1;
        }
        if let Some(hotness) = self.selection.packet(recording, at) {
            self.offer(hotness, drop, at, out, probe);
        }
    }

    #[inline(never)]
    fn offer<P: Probe + ?Sized>(
        &mut self,
        hotness: u32,
        drop: Option<DropReason>,
        at: Instant,
        out: &mut Vec<Output>,
        probe: &mut P,
    ) {
        if let Ok(rule) = synthesise(&self.recording, drop, at) {
            let original = self.recording.original();
            let offer = self
                .manager
                .offer(rule, original, hotness, at, &mut self.messages);
            probe.selected(hotness, offer);
            self.send(out);
        }
    }

    /// A packet cannot go on while rules came from this entry. Returns whether it is gone for good:
    /// dropped.
    #[cold]
    fn wait(
        &mut self,
        mut progress: Progress,
        entry: EntryId,
        start: Start,
        pools: &mut Pools,
        out: &mut Vec<Output>,
    ) -> bool {
        let is_stuck = start.settled == Some(entry) && self.manager.is_free(entry);
        let is_full = start.ticket.is_none() && self.pending.len() >= self.config.waiting;
        if is_stuck || is_full {
            let (count, reason) = match is_stuck {
                true => (&mut self.counters.stuck, DropReason::InvalidState),
                false => (&mut self.counters.overflowed, DropReason::RuleBacklogFull),
            };
            *count += 1;
            let Progress {
                packet, followers, ..
            } = progress;
            let followers = followers::packets(followers, &packet, pools);
            out.push(Output::Drop(packet, reason));
            self.follow(followers, pools, out);
            return true;
        }
        self.counters.waited += 1;
        let flow = start.flow;
        let flow = flow.unwrap_or_else(|| progress.recording.original().flow_key());
        // What it met before may be changed by the time it goes on.
        progress.recording.obstruct(Obstacle::StateChanged);
        self.manager.query(entry, self.clock, &mut self.messages);
        self.send(out);
        let suspended = Box::new(Suspended {
            progress,
            entry,
            is_closing: false,
        });
        self.pending.suspend(flow, start.ticket, suspended);
        // Its rules may be going already, or be reported.
        self.manager.tell_of(entry);
        false
    }

    /// Goes on with what waits for entries of which there is news, as far as it goes.
    fn resume(&mut self, now: Instant, pools: &mut Pools, out: &mut Vec<Output>) {
        if self.pending.is_empty() {
            self.manager.forget_news();
            return;
        }
        while let Some(entry) = self.manager.next_news() {
            for ticket in self.pending.waiting_for(entry) {
                self.try_again(ticket, now, pools, out);
            }
        }
        self.answer_marks(out);
    }

    /// Lets a packet try again if what it waits for has come.
    fn try_again(
        &mut self,
        ticket: Ticket,
        now: Instant,
        pools: &mut Pools,
        out: &mut Vec<Output>,
    ) {
        let Some((flow, suspended)) = self.pending.take(ticket) else {
            return;
        };
        let entry = suspended.entry;
        let is_free = self.manager.is_free(entry);
        let is_told = self.manager.is_told(entry);
        let news = EntryStatus {
            entry,
            is_free,
            is_told,
        };
        if is_free {
            self.go_on(suspended.progress, news, (flow, ticket), pools, out);
            if !self.pending.is_closing(entry) {
                self.manager.open(entry);
            }
            return;
        }
        if suspended.is_closing || !self.manager.is_answered(entry) {
            return self.pending.suspend(flow, Some(ticket), suspended);
        }
        let Progress { step, .. } = suspended.progress;
        self.go_on(suspended.progress, news, (flow, ticket), pools, out);
        self.close_if_it_waits(ticket, (entry, step), now, out);
    }

    /// A packet that still waits for an entry whose rules have been reported: they are taken out.
    fn close_if_it_waits(
        &mut self,
        ticket: Ticket,
        (entry, step): (EntryId, usize),
        now: Instant,
        out: &mut Vec<Output>,
    ) {
        let Some((flow, mut suspended)) = self.pending.take(ticket) else {
            return;
        };
        if suspended.entry == entry && suspended.progress.step == step {
            suspended.is_closing = true;
            self.manager.close(entry, now, &mut self.messages);
            self.send(out);
            if self.manager.is_free(entry) {
                self.manager.tell_of(entry);
            }
        }
        self.pending.suspend(flow, Some(ticket), suspended);
    }
}

/// What is known of an entry that a packet waits for.
#[derive(Copy, Clone)]
struct EntryStatus {
    entry: EntryId,
    /// No rule came from it.
    is_free: bool,
    /// All its rules have told how they were used.
    is_told: bool,
}

/// Where a packet begins its way through the chain.
#[derive(Copy, Clone)]
struct Start {
    step: usize,
    /// The entry that it has waited for, if that is free now.
    settled: Option<EntryId>,
    waited: Waited,
    /// Its flow as it came to the chain: functions before a step may rewrite its addresses. None if it
    /// follows from the key that it came with.
    flow: Option<Flow>,
    /// If it has waited.
    ticket: Option<Ticket>,
}
