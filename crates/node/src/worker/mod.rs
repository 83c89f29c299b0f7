//! One worker of the slow path.

mod command;
mod crash;
mod dash;
mod fragments;
mod mirrored;
mod outgoing;
mod rebuild;
mod rules;
mod time;
mod walk;
mod watched;

pub use command::{Progress, Replaced, WorkerAnswer, WorkerCommand};
pub use crash::Blueprint;
pub use dash::SlowDash;
pub use rebuild::{FunctionPlan, SlowPlan};
pub use time::{Moment, Time};

use crate::build_error::BuildError;
use crate::mirror::Mirror;
use crate::position::{ElementOrder, Position};
use crate::watch::{TraceStep, Watch};
use fragments::FragmentsAway;
use rebuild::{Rebuilt, Times, rebuild};
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use twinpath_coherence::SlowFlows;
use twinpath_coherence::slow::{LOOKED_AHEAD, Outgoing};
use twinpath_core::split::stretch;
use twinpath_core::{DropCounters, DropReason, Frame, Instant, Pools, Steering};
use twinpath_link::{Arrival, Header, Receiver, Sender, detach, peek};
use twinpath_rulecache::{Output, RuleFunction, SlowRules};
use twinpath_slowpath::{Common, NetworkFunction};

/// What a worker counts on its link.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames from the fast path that overtook others.
    pub reordered: u64,
    /// Frames from the fast path that never came.
    pub lost: u64,
    /// Messages to the fast path that found no buffer; the protocol repeats them.
    pub no_buffer: u64,
}

/// What an element of the chain has on the slow path.
pub enum SlowElement {
    /// Functions whose decisions are cached.
    Rules(Box<SlowRules>),
    /// Functions with flow state, and their flows.
    Flows(Box<SlowFlows>),
    /// A DPU.
    Dash(Box<SlowDash>),
}

impl SlowElement {
    fn touch(&mut self) {
        match self {
            Self::Rules(rules) => rules.touch(),
            Self::Flows(flows) => flows.touch(),
            // Its flows are on the fast path, if there is one.
            Self::Dash(_) => {}
        }
    }

    /// How many functions of the chain are in it.
    pub fn function_count(&self) -> usize {
        match self {
            Self::Rules(rules) => rules.functions().len(),
            Self::Flows(flows) => flows.chain().len(),
            Self::Dash(_) => 1,
        }
    }
}

/// A worker: the slow path's side of one queue pair. One thread owns it.
pub struct Worker {
    /// Makes elements that know nothing yet: at first, and after a crash.
    blueprint: Blueprint,
    /// What its functions have in common with those of other workers.
    common: Common,
    /// None while they cannot be made.
    elements: Vec<SlowElement>,
    /// Counts this worker's lives, from 1.
    epoch: u32,
    /// How many chains there were before this one.
    chain: u16,
    /// The elements could not be made again; they are tried from then on.
    retry_at: Option<Instant>,
    /// Packets pass all elements here, and never go back in between: everything is on the slow path.
    whole_walk: Option<WholeWalk>,
    arrivals: Receiver,
    /// Of what goes back.
    numbers: Sender,
    outgoing: Vec<Outgoing>,
    /// What has passed the last element; empty between frames.
    finished: Vec<Outgoing>,
    onward: VecDeque<(Position, Frame)>,
    fragments_away: FragmentsAway,
    outputs: Vec<Output>,
    /// When the run began.
    started: Instant,
    /// What the machine has told last.
    time: Time,
    /// When rules were last given a chance to do what is due.
    ticked: Instant,
    /// When the last frame was received, on the clock of the port: what functions make because of
    /// it is as old.
    received_ns: u64,
    /// Rules that were taken out for a change.
    rules_taken_out: usize,
    drops: DropCounters,
    counts: LinkCounters,
    /// Whoever follows packets.
    watch: Option<Watch>,
    /// Of followed packets that functions may have kept: their numbers, by the buffers they are in.
    kept: HashMap<usize, u64>,
    /// Who copies packets for whoever wants them.
    mirror: Arc<Mirror>,
    /// A packet that functions are about to meet, for them; kept to be used again.
    copied: Vec<u8>,
    /// The buffer of the packet of which they were just told that functions which make rules have
    /// met it.
    told: Option<usize>,
}

/// What a worker knows that packets pass all elements of a chain at.
#[derive(Clone, Debug)]
pub struct WholeWalk {
    /// How packets are assigned to flows.
    pub steering: Steering,
    /// In which order they pass the elements.
    pub order: ElementOrder,
}

/// Timers of rules are looked at so often.
const TICK: std::time::Duration = std::time::Duration::from_millis(1);

impl Worker {
    /// A worker for the elements of a chain that a blueprint makes. With a walk, packets pass all of
    /// them here.
    ///
    /// # Errors
    /// The elements cannot be made.
    pub fn new(blueprint: Blueprint, whole_walk: Option<WholeWalk>) -> Result<Self, BuildError> {
        Ok(Self {
            elements: blueprint()?,
            blueprint,
            common: Common::default(),
            epoch: 1,
            chain: 0,
            retry_at: None,
            whole_walk,
            arrivals: Receiver::default(),
            numbers: Sender::default(),
            outgoing: Vec::new(),
            finished: Vec::new(),
            onward: VecDeque::new(),
            fragments_away: FragmentsAway::default(),
            outputs: Vec::new(),
            started: Instant::ZERO,
            time: Time::default(),
            ticked: Instant::ZERO,
            received_ns: 0,
            rules_taken_out: 0,
            drops: DropCounters::default(),
            counts: LinkCounters::default(),
            watch: None,
            kept: HashMap::new(),
            mirror: Arc::default(),
            copied: Vec::new(),
            told: None,
        })
    }

    /// The same, whose functions count together with those of all workers that have this.
    pub fn with_common(mut self, common: &Common) -> Self {
        self.common = common.clone();
        self
    }

    /// The run begins at this packet time.
    pub fn start(&mut self, now: Instant) {
        (self.started, self.ticked) = (now, now);
        self.start_elements();
    }

    fn start_elements(&mut self) {
        for element in &mut self.elements {
            match element {
                SlowElement::Flows(flows) => {
                    flows.set_epoch(self.epoch);
                    flows.share(&self.common);
                    flows.start(self.started);
                }
                SlowElement::Rules(rules) => rules.start(self.started),
                SlowElement::Dash(_) => {}
            }
        }
        self.tell_time();
    }

    /// Takes the memory of all tables now, before packets could wait for it.
    pub fn touch(&mut self) {
        self.elements.iter_mut().for_each(SlowElement::touch);
    }

    /// The elements.
    pub fn elements(&self) -> &[SlowElement] {
        &self.elements
    }

    /// Flows of an element with these numbers follow to the present chain now, unless they have done so.
    pub fn catch_up(&mut self, element: usize, numbers: Range<usize>) {
        if let Some(SlowElement::Flows(flows)) = self.elements.get_mut(element) {
            flows.catch_up_among(numbers);
        }
    }

    /// Lets go of all packets that functions keep; those that go back are appended to `returns`.
    /// The state of all flows must be here.
    pub fn release(&mut self, now: Instant, pools: &mut Pools, returns: &mut Vec<Frame>) {
        self.with_flows(pools, returns, |flows, _, pools, outgoing| {
            flows.release(now, pools, outgoing);
        });
    }

    /// Takes another chain, made of the old one's elements and functions and new ones, and after a
    /// crash of what the blueprint makes. Nothing may be under way, and rules that changes concern
    /// must be gone. A function that panics as it takes what is new is a crash too: the new chain
    /// begins anew.
    ///
    /// # Errors
    /// They are not, packets wait for rules to go, or there is no old chain since a crash: nothing
    /// has changed, and the plans come back.
    pub fn replace(
        &mut self,
        plans: Vec<SlowPlan>,
        blueprint: Blueprint,
        walk: WholeWalk,
        now: Instant,
    ) -> Result<Replaced, Vec<SlowPlan>> {
        let is_ready = |rules: &SlowRules| rules.may_change() && !rules.is_waiting();
        if self.retry_at.is_some() || !self.rules().all(is_ready) {
            self.end_changes();
            return Err(plans);
        }
        self.blueprint = blueprint;
        self.whole_walk = self.whole_walk.take().map(|_| walk);
        let (drops, kept, rules) = (self.drops(), self.packets_kept(), self.rules_cached());
        let mut changed = Replaced {
            rules_gone: self.rules_taken_out + rules,
            ..Replaced::default()
        };
        if !self.guarded(|worker| changed = worker.rebuild(plans, now)) {
            // Whatever elements there still are, what they had counted and kept is told here.
            self.elements.clear();
            (self.drops, self.rules_taken_out) = (drops, 0);
            self.drops.add(DropReason::WorkerCrashed, kept as u64);
            self.begin_life(now);
        }
        changed.epoch = self.epoch;
        Ok(changed)
    }

    fn rebuild(&mut self, plans: Vec<SlowPlan>, now: Instant) -> Replaced {
        let started = self.started;
        let rules_before = self.rules_cached();
        let Rebuilt {
            elements,
            drops,
            left,
            to_free,
        } = rebuild(
            std::mem::take(&mut self.elements),
            plans,
            Times { started, now },
        );
        self.elements = elements;
        self.drops.absorb(&drops);
        for element in &mut self.elements {
            if let SlowElement::Flows(flows) = element {
                flows.set_epoch(self.epoch);
                flows.share(&self.common);
            }
        }
        self.tell_time();
        let rules_kept = self.rules_cached();
        Replaced {
            rules_gone: (std::mem::take(&mut self.rules_taken_out) + rules_before)
                .saturating_sub(rules_kept),
            rules_kept,
            left,
            to_free,
            ..Replaced::default()
        }
    }

    fn rules_cached(&self) -> usize {
        self.rules().map(|rules| rules.manager().rules()).sum()
    }

    /// The flows and functions of the elements with flow state.
    pub fn flows(&self) -> impl Iterator<Item = &SlowFlows> {
        self.elements.iter().filter_map(|element| match element {
            SlowElement::Flows(flows) => Some(flows.as_ref()),
            SlowElement::Rules(_) | SlowElement::Dash(_) => None,
        })
    }

    /// The elements whose decisions are cached, with their numbers in the chain.
    pub fn rules_by_element(&self) -> impl Iterator<Item = (u8, &SlowRules)> {
        let elements = (0..).zip(&self.elements);
        elements.filter_map(|(number, element)| match element {
            SlowElement::Rules(rules) => Some((number, rules.as_ref())),
            SlowElement::Flows(_) | SlowElement::Dash(_) => None,
        })
    }

    /// The element that has the function at a place of the chain, and its place in there.
    fn element_of(&self, place: usize) -> Option<(usize, usize)> {
        let mut within = place;
        for (number, element) in self.elements.iter().enumerate() {
            let count = element.function_count();
            if within < count {
                return Some((number, within));
            }
            within -= count;
        }
        None
    }

    /// The function at a place of the chain, if it makes rules.
    pub fn function(&self, place: usize) -> Option<&dyn RuleFunction> {
        let (element, within) = self.element_of(place)?;
        match &self.elements[element] {
            SlowElement::Rules(rules) => Some(&*rules.functions().get(within)?.function),
            SlowElement::Flows(_) | SlowElement::Dash(_) => None,
        }
    }

    /// The function at a place of the chain, if it shares flow state.
    pub fn flow_function(&self, place: usize) -> Option<&dyn NetworkFunction> {
        let (element, within) = self.element_of(place)?;
        match &self.elements[element] {
            SlowElement::Flows(flows) => Some(&*flows.chain().functions().get(within)?.function),
            SlowElement::Rules(_) | SlowElement::Dash(_) => None,
        }
    }

    /// The same of one that makes rules, for whoever takes something that packets do not meet.
    pub fn function_mut(&mut self, place: usize) -> Option<&mut (dyn RuleFunction + 'static)> {
        let (element, within) = self.element_of(place)?;
        match &mut self.elements[element] {
            SlowElement::Rules(rules) => rules.chain().function(within as u8),
            SlowElement::Flows(_) | SlowElement::Dash(_) => None,
        }
    }

    /// The function at a place of the chain, whatever it is.
    pub fn any_function_mut(&mut self, place: usize) -> Option<&mut dyn Any> {
        let (element, within) = self.element_of(place)?;
        match &mut self.elements[element] {
            SlowElement::Rules(rules) => {
                Some(rules.chain().function(within as u8)? as &mut dyn Any)
            }
            SlowElement::Flows(flows) => {
                Some(flows.chain_mut().function_mut(within)? as &mut dyn Any)
            }
            SlowElement::Dash(_) => None,
        }
    }

    /// The elements whose decisions are cached.
    pub fn rules(&self) -> impl Iterator<Item = &SlowRules> {
        self.elements.iter().filter_map(|element| match element {
            SlowElement::Rules(rules) => Some(rules.as_ref()),
            SlowElement::Flows(_) | SlowElement::Dash(_) => None,
        })
    }

    /// The next deadline of a function.
    fn next_deadline(&self) -> Moment {
        let deadlines = (0..).zip(&self.elements).map(|(element, one)| match one {
            SlowElement::Flows(flows) => Moment {
                at: flows.next_deadline(),
                element,
            },
            SlowElement::Rules(_) | SlowElement::Dash(_) => Moment::NEVER,
        });
        deadlines
            .filter(|deadline| deadline.at != Instant::NEVER)
            .min()
            .unwrap_or(Moment::NEVER)
    }

    /// How far this worker is: it has finished with all frames that it has received, but for packets
    /// that wait for rules to go.
    pub fn progress(&self) -> Progress {
        let waiting = || self.rules().filter_map(SlowRules::oldest_waiting);
        let since = waiting().map(|(ordinal, _)| ordinal).min();
        let oldest = waiting().map(|(_, at)| at).min();
        Progress {
            finished: self.arrivals.last(),
            waiting_since: since.unwrap_or(u64::MAX),
            oldest_waiting: oldest.unwrap_or(Instant::NEVER),
            passed: self.time.passed,
            next_deadline: self.next_deadline(),
        }
    }

    /// Everything this worker dropped.
    pub fn drops(&self) -> DropCounters {
        let mut drops = self.drops.clone();
        self.flows().for_each(|flows| drops.absorb(flows.drops()));
        drops
    }

    /// What happened on the link.
    pub fn link_counters(&self) -> &LinkCounters {
        &self.counts
    }

    /// Handles frames from the fast path one after the other, having looked ahead at all. Returns as
    /// [`Self::receive`].
    pub fn receive_burst(
        &mut self,
        frames: &mut Vec<Frame>,
        pools: &mut Pools,
        returns: &mut Vec<Frame>,
    ) {
        for burst in frames.chunks(LOOKED_AHEAD) {
            self.look_ahead(burst);
        }
        for frame in frames.drain(..) {
            self.receive(frame, pools, returns);
        }
    }

    /// What will be read of flows is fetched.
    fn look_ahead(&self, frames: &[Frame]) {
        frames.iter().for_each(Frame::prefetch_bookkeeping);
        for frame in frames {
            frame.prefetch_headroom();
            frame.prefetch_packet();
        }
        for (number, element) in (0..).zip(&self.elements) {
            if let SlowElement::Flows(flows) = element {
                let about = frames.iter().filter_map(peek);
                let here = about.filter(|(element, _)| *element == number);
                flows.look_ahead(here.map(|(_, key)| key));
            }
        }
    }

    /// Handles one frame from the fast path; frames for it are appended to `returns`, with the link
    /// header and their number. A function that panics is a
    /// [crash](Self::crash).
    pub fn receive(&mut self, mut frame: Frame, pools: &mut Pools, returns: &mut Vec<Frame>) {
        let Ok(header) = detach(&mut frame) else {
            return self.drop(frame, DropReason::BadLinkFrame, pools);
        };
        match self.arrivals.judge(header.sequence) {
            Arrival::InOrder { lost } => self.counts.lost += u64::from(lost),
            Arrival::Reordered => {
                self.counts.reordered += 1;
                self.drop_reordered(frame, pools);
                return pools.forget_dropped_headers();
            }
        }
        if header.chain != self.chain {
            self.drop_of_another_chain(frame, &header, pools);
            return pools.forget_dropped_headers();
        }
        if frame.metadata().parked_bytes != 0 && !self.take_header(&mut frame, pools) {
            self.drop(frame, DropReason::BadLinkFrame, pools);
            return pools.forget_dropped_headers();
        }
        self.received_ns = frame.received_ns();
        self.revive_if_due(header.timestamp);
        let at_work = header.has_packet.then(|| frame.ordinal());
        let watch = self.watch.as_ref();
        let followed = watch.and_then(|watch| watch.follows(frame.buffer()));
        let is_done = self.guarded(|worker| {
            worker.meet(&header, frame, pools);
            worker.walk_on(pools);
            worker.tick_rules(header.timestamp, pools);
        });
        if !is_done {
            self.count_crash(at_work);
            if let Some(ordinal) = followed {
                self.tell_of(ordinal, |_| TraceStep::drop(DropReason::WorkerCrashed));
            }
            self.begin_anew(header.timestamp, pools, returns);
        }
        self.put_on_the_link(pools, returns);
    }

    /// A header comes: functions work on it as if it was its packet, with zeros for the payload, and may
    /// keep it. Those that are dropped are told of. `false` if it is no header of a packet that fits its
    /// buffer.
    #[cold]
    fn take_header(&self, frame: &mut Frame, pools: &mut Pools) -> bool {
        pools.note_headers();
        stretch(frame)
    }

    fn drop(&mut self, frame: Frame, reason: DropReason, pools: &mut Pools) {
        self.drop_at(None, frame, reason, pools);
    }

    /// As [`Self::drop`], by an element.
    fn drop_at(
        &mut self,
        element: Option<u8>,
        frame: Frame,
        reason: DropReason,
        pools: &mut Pools,
    ) {
        if self.mirror.wants_drops() {
            self.mirror
                .copy(mirrored::dropped(reason, element, None), &frame);
        }
        self.tell(frame.buffer(), |_| TraceStep::drop(reason));
        self.drops.count(reason);
        pools.give(frame);
    }

    /// As on the fast path: what crossed a change is a message.
    #[cold]
    fn drop_of_another_chain(&mut self, frame: Frame, header: &Header, pools: &mut Pools) {
        match header.has_packet {
            true => self.drop(frame, DropReason::AnotherChain, pools),
            false => pools.give(frame),
        }
    }

    /// A packet whose payload waits counts as lost when that has waited in vain.
    fn drop_reordered(&mut self, frame: Frame, pools: &mut Pools) {
        if frame.metadata().parked_bytes == 0 {
            self.tell(frame.buffer(), |_| {
                TraceStep::drop(DropReason::LinkReordered)
            });
            self.drops.count(DropReason::LinkReordered);
        }
        pools.give(frame);
    }

    /// A frame meets the element that it is about.
    fn meet(&mut self, header: &Header, frame: Frame, pools: &mut Pools) {
        let (first, seen) = (self.outgoing.len(), self.see(header, &frame));
        let copied = self.copy_in_front(header, &frame);
        match self.elements.get_mut(usize::from(header.element)) {
            Some(SlowElement::Flows(flows)) => {
                flows.receive(header, frame, pools, &mut self.outgoing);
            }
            Some(SlowElement::Rules(_)) => self.meet_rules(header, frame, pools),
            Some(SlowElement::Dash(_)) => self.meet_dash(header, frame, pools),
            None => self.drop(frame, self.reason_for_no_element(), pools),
        }
        self.outgoing[first..]
            .iter_mut()
            .for_each(|outgoing| outgoing.header.element = header.element);
        if let Some(copied) = copied {
            self.mirror_drop(copied, first, header);
        }
        let notes = self.noted_drops(header.element);
        if let Some(seen) = seen {
            self.tell_met(&seen, header, &notes);
        }
        self.tell_released(header.element, &notes);
    }

    /// It is that late: deadlines come, and what is idle is forgotten.
    pub fn advance(&mut self, time: Time, pools: &mut Pools, returns: &mut Vec<Frame>) {
        self.time = time;
        let Time { passed, now } = time;
        self.tell_time();
        self.with_flows(pools, returns, |flows, element, pools, outgoing| {
            flows.advance(passed.at_element(element), pools, outgoing);
        });
        if self.rules().any(SlowRules::is_waiting) {
            self.help_waiting(now, pools, returns);
        }
    }

    /// The elements hear how late it is.
    fn tell_time(&mut self) {
        let passed = self.time.passed;
        for (element, one) in (0..).zip(&mut self.elements) {
            match one {
                SlowElement::Flows(flows) => flows.tell_time(passed.at_element(element)),
                SlowElement::Rules(rules) => rules.tell_time(passed.at_element(element)),
                SlowElement::Dash(dash) => dash.age(passed.at_element(element)),
            }
        }
    }

    /// Packets wait for rules to go, and no frame comes: what was asked for may be lost.
    #[cold]
    fn help_waiting(&mut self, now: Instant, pools: &mut Pools, returns: &mut Vec<Frame>) {
        if !self.guarded(|worker| worker.tick_rules(now, pools)) {
            self.count_crash(None);
            self.begin_anew(now, pools, returns);
        }
        self.put_on_the_link(pools, returns);
    }

    fn with_flows(
        &mut self,
        pools: &mut Pools,
        returns: &mut Vec<Frame>,
        act: impl Fn(&mut SlowFlows, u8, &mut Pools, &mut Vec<Outgoing>),
    ) {
        let is_done = self.guarded(|worker| worker.through_all_flows(pools, act));
        if !is_done {
            self.count_crash(None);
            self.begin_anew(self.time.now.max(self.ticked), pools, returns);
        }
        self.put_on_the_link(pools, returns);
    }

    fn through_all_flows(
        &mut self,
        pools: &mut Pools,
        act: impl Fn(&mut SlowFlows, u8, &mut Pools, &mut Vec<Outgoing>),
    ) {
        for number in 0..self.elements.len() as u8 {
            let first = self.outgoing.len();
            if let Some(SlowElement::Flows(flows)) = self.elements.get_mut(usize::from(number)) {
                act(flows, number, pools, &mut self.outgoing);
                self.outgoing[first..]
                    .iter_mut()
                    .for_each(|outgoing| outgoing.header.element = number);
            }
            let notes = self.noted_drops(number);
            self.tell_released(number, &notes);
            self.walk_on(pools);
        }
    }
}

#[cfg(test)]
mod tests;
