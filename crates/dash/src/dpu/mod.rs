//! A DPU: tables, flows, counters and limits, and one packet's walk through them.
//!
//! [`Dpu::process`] is the walk. It reads no clock and asks no one: time is an argument, and what is
//! dropped comes back with a reason that has been counted.

mod actions;
mod asking;
mod burst;
mod errors;
mod flow_counts;
mod flows;
mod icmp;
mod known;
mod limit;
mod numbering;
mod ports;
mod redirect;
mod story;
mod sweep;
mod too_long;

use std::ops::Range;
use std::sync::Arc;

use twinpath_core::hash::seed_for;
use twinpath_core::wire::Address;
use twinpath_core::{Identifications, Instant, Share};

use crate::counters::{Drops, EniCounters};
use crate::flows::{Deadlines, EntryKey, EntryNumber, FlowTable, Fragments, IdleTicks, Rate};
use crate::headers::Direction;
use crate::objects::{EniId, Key};
use crate::pipeline::{
    Action, Applied, ApplyContext, Peeled, Received, Template, Unreceived, apply, apply_template,
    sent_bytes,
};
use crate::reason::Reason;
use crate::settings::Settings;
use crate::source::ObjectSource;
use crate::tables::{EniEntry, Limits, Tables, Version};

pub use asking::{Answer, DpuStep, Question, WaitingDatagrams};
pub use flows::FlowView;

use actions::Actions;
use asking::PolicyPlace;
use burst::Burst;
use errors::Translation;
use flow_counts::FlowCounts;

/// How long a machine may open connections faster than its limit, as time at that limit.
const CONNECTION_BURST_NS: u64 = 100_000_000;

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves: these bytes of its buffer.
    Forward(Range<usize>),
    /// It is dropped.
    Drop(Reason),
    /// It is dropped, for it would be longer than the link carries, and its sender is told by this
    /// frame, which goes back to where it came from.
    TooLong(Vec<u8>),
}

/// What is kept of an ENI beside its tables.
#[derive(Clone, Debug, Default)]
struct EniState {
    /// Of which ENI: another one may have its number later.
    serial: u32,
    counters: EniCounters,
    /// Of one with a limit of flows.
    deadlines: Option<Deadlines>,
    /// Whether flows that were there before the limit are still looked for.
    is_learning: bool,
    connections: Rate,
    bandwidth: Rate,
    /// By direction.
    errors: [Rate; 2],
    /// By direction.
    fragments: [Fragments; 2],
}

/// A DPU.
pub struct Dpu {
    settings: Settings,
    idle: IdleTicks,
    /// How long an ENI may send more than its bandwidth.
    burst_ns: u64,
    tables: Arc<Tables>,
    /// Where policies judge.
    judge: PolicyPlace,
    flows: FlowTable,
    actions: Actions,
    enis: Vec<EniState>,
    /// How many flows ENIs have.
    flow_counts: FlowCounts,
    /// The tables whose ENIs were counted last.
    counted: Version,
    /// Places of the table of flows that were looked at for ENIs that got a limit.
    learned: usize,
    /// Numbers of these ENIs.
    learning: Vec<u16>,
    /// Whether one of them is new.
    is_limit_new: bool,
    drops: Drops,
    /// What is drawn for packets behind NAT gateways.
    identifications: Identifications,
    aged: Vec<EntryNumber>,
    /// When the table of flows was last swept.
    swept_until: Instant,
    /// What the sender of the packet in hand is told.
    error: Option<Vec<u8>>,
    /// Packets that come next.
    burst: Burst,
}

/// Why a packet does not leave now.
enum Stop {
    /// It is dropped.
    Drop(Reason),
    /// Policies have to judge it first.
    Ask(Box<Question>),
    /// It waits for what they say about another packet of this key.
    Wait(EntryKey),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Self::Drop(reason)
    }
}

/// How a packet is treated.
struct Treatment {
    action: Treated,
    /// Where its bytes are counted.
    bucket: u16,
}

/// By what.
enum Treated {
    /// The action of its flow, by number.
    Flow(u32),
    /// An action of its own: there is no flow.
    Once(Box<Action>),
    /// An ICMP error about a packet that was changed.
    Error(Box<Translation>),
}

impl Dpu {
    /// A DPU without any source. What hashes are keyed with follows from the seed.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self::with_tables(settings, Arc::new(Tables::new(seed)), seed)
    }

    /// A DPU with these tables, which others may share.
    #[must_use]
    pub fn with_tables(settings: Settings, tables: Arc<Tables>, seed: u64) -> Self {
        let mut dpu = Self {
            idle: IdleTicks::new(&settings.idle),
            burst_ns: u64::try_from(settings.burst.as_nanos()).unwrap_or(u64::MAX),
            tables,
            judge: PolicyPlace::Here,
            flows: FlowTable::new(settings.flows, seed_for(seed, "dash flows")),
            actions: Actions::new(settings.flows, seed_for(seed, "dash actions")),
            enis: Vec::new(),
            flow_counts: FlowCounts::default(),
            counted: Version::default(),
            learned: usize::MAX,
            learning: Vec::new(),
            is_limit_new: false,
            drops: Drops::default(),
            identifications: identifications(&settings, seed),
            aged: Vec::new(),
            swept_until: Instant::ZERO,
            error: None,
            burst: Burst::default(),
            settings,
        };
        dpu.count_enis();
        dpu
    }

    /// Packets meet other tables from now on, which were made from those that there are by
    /// [`Tables::update`]. Flows stay, and are judged anew when their next packet comes.
    pub fn set_tables(&mut self, tables: Arc<Tables>) {
        self.tables = tables;
        self.count_enis();
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The tables.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// What is counted of packets of no ENI.
    #[must_use]
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }

    /// What is counted of an ENI's packets.
    #[must_use]
    pub fn counters(&self, eni: &EniId) -> Option<&EniCounters> {
        let number = self.tables.eni_number(eni)?;
        Some(&self.enis.get(usize::from(number))?.counters)
    }

    /// Objects with these keys were set, changed or deleted: the next packet meets what holds now.
    /// Flows stay, and are judged anew when their next packet comes.
    pub fn update<'a>(
        &mut self,
        source: &dyn ObjectSource,
        changed: impl IntoIterator<Item = &'a Key>,
    ) {
        Arc::make_mut(&mut self.tables).update(source, changed);
        self.count_enis();
    }

    /// Takes a frame that begins at `start` of its buffer and ends where that does. Headers grow into
    /// what is in front: 128 bytes are enough for two tunnels.
    pub fn process(&mut self, buffer: &mut [u8], start: usize, now: Instant) -> Verdict {
        let step = self.begin(buffer, start, now);
        self.verdict(step)
    }

    /// What became of a packet whose policies are here.
    fn verdict(&mut self, step: DpuStep) -> Verdict {
        match step {
            DpuStep::Done(verdict) => verdict,
            // Who has its policies elsewhere asks.
            DpuStep::Ask(_) | DpuStep::Wait(_) => self.dropped(Reason::Unresolved, None),
        }
    }

    fn finish(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        received: &mut Result<Received, Unreceived>,
        hash: Option<u64>,
        now: Instant,
    ) -> DpuStep {
        let received = match received {
            Ok(received) => received,
            Err((reason, None)) => return DpuStep::Done(self.dropped(*reason, None)),
            Err((reason, Some((way, eni, bytes)))) => {
                if let Some(state) = self.enis.get_mut(usize::from(*eni)) {
                    state.counters.receive(*way, *bytes);
                }
                return DpuStep::Done(self.dropped(*reason, Some(*eni)));
            }
        };
        let inside = received.tunnel.inner().len();
        match self.admit(received, inside, now) {
            Ok(()) => self.go_on(buffer, start, received, hash, now),
            Err(reason) => DpuStep::Done(self.dropped(reason, Some(received.arrival.eni))),
        }
    }

    /// A packet that was admitted goes on, as far as it comes.
    fn go_on(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        received: &mut Received,
        hash: Option<u64>,
        now: Instant,
    ) -> DpuStep {
        let number = received.arrival.eni;
        match self.pass(buffer, start, received, hash, now) {
            Ok(frame) => DpuStep::Done(Verdict::Forward(frame)),
            Err(Stop::Drop(reason)) => {
                let verdict = self.dropped(reason, Some(number));
                DpuStep::Done(self.error.take().map_or(verdict, Verdict::TooLong))
            }
            Err(Stop::Ask(question)) => {
                self.asks(&question.key, inside(buffer, start, received), received);
                DpuStep::Ask(*question)
            }
            Err(Stop::Wait(key)) => {
                self.waits(&key, inside(buffer, start, received), received);
                DpuStep::Wait(key)
            }
        }
    }

    fn dropped(&mut self, reason: Reason, eni: Option<u16>) -> Verdict {
        let state = eni.and_then(|number| self.enis.get_mut(usize::from(number)));
        match state {
            Some(state) => state.counters.drops.count(reason),
            None => self.drops.count(reason),
        }
        Verdict::Drop(reason)
    }

    fn pass(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        received: &mut Received,
        hash: Option<u64>,
        now: Instant,
    ) -> Result<Range<usize>, Stop> {
        let inside = inside(buffer, start, received);
        let treatment = self.treatment(inside, received, hash, now)?;
        let before = inside.len();
        if received.arrival.direction == Direction::Inbound {
            self.charge(received, before, now)?;
        }
        let applied = match &treatment.action {
            Treated::Flow(number) => self.do_flow(buffer, start, received, *number, now)?,
            Treated::Once(action) => self.act(buffer, start, received, action, now)?,
            Treated::Error(error) => {
                error.requote(inside_mut(buffer, start, received), &received.inner)?;
                self.act(buffer, start, received, &error.action, now)?
            }
        };
        let way = received.arrival.way;
        let state = &mut self.enis[usize::from(received.arrival.eni)];
        state.counters.send(way, applied.inner_bytes);
        // What the machine sees is what it pays for.
        let bytes = match way {
            Direction::Outbound => before,
            Direction::Inbound => applied.inner_bytes,
        };
        state.counters.meters.count(treatment.bucket, way, bytes);
        Ok(applied.frame)
    }

    /// Does what is done to packets of a flow.
    #[inline]
    fn do_flow(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        received: &Received,
        number: u32,
        now: Instant,
    ) -> Result<Applied, Reason> {
        let fits = |template: &&Template| {
            received.outer_tags.is_empty()
                && template.sent_bytes(received.tunnel.inner().len()) <= self.settings.mtu
        };
        match self.actions.template(number).filter(fits) {
            Some(template) => {
                let peeled = Peeled::of(received);
                apply_template(buffer, start, &peeled, template, &self.context())
            }
            None => {
                let action = *self.actions.get(number).ok_or(Reason::NoFlow)?;
                self.act(buffer, start, received, &action, now)
            }
        }
    }

    /// Does what an action says.
    #[inline(never)]
    fn act(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        received: &Received,
        action: &Action,
        now: Instant,
    ) -> Result<Applied, Reason> {
        let inside = inside(buffer, start, received);
        if sent_bytes(&received.inner, action, inside.len()) > self.settings.mtu {
            self.error = self.too_long(inside, received, action, now);
            return Err(Reason::TooLong);
        }
        if action.hides_source() {
            self.number(inside_mut(buffer, start, received), received, action, now);
        }
        apply(buffer, start, received, action, &self.context())
    }

    fn context(&self) -> ApplyContext<'_> {
        ApplyContext {
            settings: &self.settings,
            switch: self.tables.switch(),
        }
    }

    /// What a packet of an ENI meets whether its flow is known or not.
    fn admit(&mut self, received: &Received, bytes: usize, now: Instant) -> Result<(), Reason> {
        let arrival = &received.arrival;
        let eni = self.tables.eni(arrival.eni).ok_or(Reason::EniMiss)?;
        let is_spoofed = self.is_spoofed(eni, arrival.direction, arrival.outer_source);
        let state = &mut self.enis[usize::from(arrival.eni)];
        state.counters.receive(received.arrival.way, bytes);
        if !eni.is_enabled {
            return Err(Reason::EniDisabled);
        }
        if is_spoofed {
            return Err(Reason::SpoofedSource);
        }
        // What others send counts when it is let in: nobody else can use up what a machine may get.
        match arrival.direction {
            Direction::Outbound => self.charge(received, bytes, now),
            Direction::Inbound => Ok(()),
        }
    }

    /// Counts a packet among those that its ENI's bandwidth is for.
    fn charge(&mut self, received: &Received, bytes: usize, now: Instant) -> Result<(), Reason> {
        let number = received.arrival.eni;
        let eni = self.tables.eni(number).ok_or(Reason::EniMiss)?;
        let passes = self.has_bandwidth(number, eni.limits, bytes, now);
        passes.then_some(()).ok_or(Reason::Bandwidth)
    }

    /// Whether an ENI with these limits may send or get so many bytes now, which then count.
    #[inline]
    fn has_bandwidth(&mut self, number: u16, limits: Limits, bytes: usize, now: Instant) -> bool {
        let per_second = u64::from(limits.bandwidth_kbps) * 125;
        let rate = &mut self.enis[usize::from(number)].bandwidth;
        rate.take(bytes as u64, per_second, self.burst_ns, now)
    }

    /// Whether a packet that says it is the machine's comes from another host than the machine's.
    #[inline]
    fn is_spoofed(&self, eni: &EniEntry, direction: Direction, outer_source: Address) -> bool {
        let is_elsewhere = eni.underlay_ip.is_some_and(|host| host != outer_source);
        let checks = self.settings.check_outbound_source;
        checks && direction == Direction::Outbound && is_elsewhere
    }
}

/// The inner frame of a packet that begins at `start` of its buffer.
fn inside<'a>(buffer: &'a [u8], start: usize, received: &Received) -> &'a [u8] {
    let inner = received.tunnel.inner();
    let inside = buffer.get(start + inner.start..start + inner.end);
    inside.unwrap_or(&[])
}

fn inside_mut<'a>(buffer: &'a mut [u8], start: usize, received: &Received) -> &'a mut [u8] {
    let inner = received.tunnel.inner();
    let inside = buffer.get_mut(start + inner.start..start + inner.end);
    inside.unwrap_or_default()
}

/// Those that no other shard draws.
fn identifications(settings: &Settings, seed: u64) -> Identifications {
    let shards = u16::try_from(settings.shards).unwrap_or(u16::MAX);
    let share = Share::of(settings.shard, shards);
    Identifications::new(share, seed_for(seed, "dash identifications"))
}
