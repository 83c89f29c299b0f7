//! What the reassembler does on the slow path.

mod giving_up;
mod opening;

use super::NAME;
use super::config::{Config, Retransmissions, Urgent};
use super::counters::Counters;
use super::cut::clear_urgent;
use super::held::{Held, HeldFlow, Load};
use super::overlap::admit;
use super::program::program;
use super::segment::{Segment, ahead};
use super::state::{CLOSED, CONFIRMED, FLAGS, HOLDING, LAST_SEEN, State};
use std::any::Any;
use std::mem::swap;
use twinpath_core::key::Role;
use twinpath_core::program::FastProgram;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN, URG};
use twinpath_core::{Direction, DropReason, Instant, Packet};
use twinpath_slowpath::{Eviction, Flow, NetworkFunction, Outbox, Slab};

/// Empty buffers kept for the next connection that has to wait.
const SPARE_FLOWS: usize = 256;

/// How long a closed connection is remembered after its last packet: ten seconds.
const CLOSED_TICKS: u32 = 149;

/// The packet reassembler; see the [module](super).
pub struct Reassembler {
    pub(super) config: Config,
    idle_ticks: u32,
    pub(super) flows: Slab<HeldFlow>,
    spare: Vec<HeldFlow>,
    /// What is held in all.
    pub(super) held: Load,
    pub(super) counters: Counters,
}

impl Reassembler {
    /// A reassembler that knows no connection.
    pub fn new(config: &Config) -> Self {
        Self {
            idle_ticks: config.idle_timeout.ticks(),
            config: config.clone(),
            flows: Slab::new(most_flows(config)),
            spare: Vec::new(),
            held: Load::default(),
            counters: Counters::default(),
        }
    }

    /// What has been seen and done so far.
    pub fn statistics(&self) -> &Counters {
        &self.counters
    }

    /// Segments held at the moment.
    pub fn held_segments(&self) -> usize {
        self.held.segments
    }
}

/// More than segments may be held, so that there is always a place for one more.
const fn most_flows(config: &Config) -> usize {
    config.most_segments as usize + 1
}

impl NetworkFunction for Reassembler {
    fn name(&self) -> &'static str {
        NAME
    }

    fn program(&self) -> FastProgram {
        program(NAME, &self.config)
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if packet.role != Role::Member || !packet.is_tcp() {
            self.counters.passed += 1;
            return out.forward(packet);
        }
        if let Some(packet) = self.normalised(packet, out) {
            self.handle_segment(packet, flow, out);
        }
        let mut state = State(flow.words);
        if state.is_known() {
            state.set_last_seen(flow.now.ticks());
        }
        self.settle(flow, out);
    }

    fn deadline(&self, handle: u32) -> Instant {
        let gap_timeout = self.config.gap_timeout.duration();
        let held = self.flows.at(handle);
        held.map_or(Instant::NEVER, |held| held.deadline(gap_timeout))
    }

    fn wake(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.give_up_overdue(flow, out);
    }

    fn is_pending(&self, _words: &[u32], handle: u32) -> bool {
        handle != 0
    }

    fn is_expired(&self, words: &[u32], now: Instant) -> bool {
        // What is held leaves at its own time-out.
        let holding = words[FLAGS] & HOLDING != 0;
        let most_ticks = match words[FLAGS] & (CLOSED | CONFIRMED) {
            CONFIRMED => self.idle_ticks,
            0 => self.config.half_open_timeout.ticks(),
            _ => self.idle_ticks.min(CLOSED_TICKS),
        };
        words[FLAGS] != 0 && !holding && now.ticks_since(words[LAST_SEEN]) > most_ticks
    }

    fn eviction(&self, words: &[u32]) -> Option<Eviction> {
        (words[FLAGS] != 0).then_some(match words[FLAGS] & (CONFIRMED | HOLDING) {
            0 => Eviction::HalfOpen,
            // Its ends took part, or segments are kept.
            _ => Eviction::Never,
        })
    }

    /// What was let pass has not been delivered, so it is let pass again.
    fn refused_behind(&mut self, direction: Direction, flow: &mut Flow<'_>) {
        let mut state = State(flow.words);
        if state.is_tracked(direction) {
            state.set_incomplete(direction);
        }
    }

    fn forget(&mut self, handle: u32) {
        // The frames go home by themselves.
        let Some(held) = self.flows.remove(handle) else {
            return;
        };
        self.held.remove(held.load());
        self.counters.forgotten += held.load().segments as u64;
    }

    fn most_held_frames(&self) -> usize {
        // One more for the segment that makes a limit be noticed.
        most_flows(&self.config)
    }

    fn release(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.release_all(flow, out);
        self.settle(flow, out);
    }

    fn kept_packets(&self) -> usize {
        self.held.segments
    }

    fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
        let Some(new) = (new as &mut dyn Any).downcast_mut::<Self>() else {
            return false;
        };
        swap(&mut self.config, &mut new.config);
        swap(&mut self.idle_ticks, &mut new.idle_ticks);
        self.flows.set_limit(most_flows(&self.config));
        true
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.counters.each(each);
    }
}

impl Reassembler {
    fn handle_segment(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let segment = Segment::of(&packet);
        if segment.has(RST) {
            self.reset(packet, segment, flow, out);
        } else if segment.has(SYN) {
            self.open(packet, segment, flow, out);
        } else if !segment.has(ACK) {
            self.counters.without_ack += 1;
            out.drop(packet, DropReason::Unacceptable);
        } else if !State(flow.words).is_tracked(packet.direction) {
            self.pick_up(packet, segment, flow, out);
        } else {
            self.order(packet, segment, flow, out);
        }
    }

    /// Makes a segment one that all receivers understand alike; `None` if none takes it, or the
    /// service does not let it pass.
    fn normalised(&mut self, mut packet: Packet, out: &mut Outbox<'_>) -> Option<Packet> {
        if self.config.verify_checksums.of_state() && !packet.checksums_hold() {
            self.counters.bad_checksums += 1;
            out.drop(packet, DropReason::BadChecksum);
            return None;
        }
        if packet.tcp_flags() & URG != 0 {
            self.counters.urgent += 1;
            match self.config.urgent {
                Urgent::Inline => clear_urgent(&mut packet),
                Urgent::Drop => {
                    out.drop(packet, DropReason::Urgent);
                    return None;
                }
            }
        }
        Some(packet)
    }

    /// A segment of a direction whose next byte is known.
    fn order(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let (way, mut state) = (packet.direction, State(flow.words));
        let distance = ahead(segment.start, state.next(way));
        if distance.unsigned_abs() > self.config.window_bytes {
            return self.outside_window(packet, segment, flow, out);
        }
        if state.fin(way).is_some_and(|fin| segment.has_data_from(fin)) {
            self.counters.fins_taken_back += 1;
            state.take_back_fin(way);
        }
        state.confirm(way.other(), segment.acknowledged);
        if distance == 0 && state.is_opened(way) {
            state.confirm_another(way.other(), segment.acknowledged);
        }
        let next = state.next(way);
        if segment.is_bare() {
            self.counters.bare += 1;
            out.forward(packet);
        } else if ahead(segment.end, next) <= 0 {
            self.repeat(packet, segment, flow, out);
        } else {
            self.advance(packet, segment, flow, out);
        }
    }

    /// Everything in the segment has been delivered, as far as the numbers tell.
    pub(super) fn repeat(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let (way, mut state) = (packet.direction, State(flow.words));
        let next = state.next(way);
        if segment.has(FIN) && segment.end == next {
            state.set_finished(way);
        }
        self.counters.retransmissions += 1;
        if self.may_be_needed(way, segment.start, segment.payload_bytes, flow) {
            out.forward(packet);
        } else {
            out.drop(packet, DropReason::AlreadyDelivered);
        }
    }

    /// Whether data that was delivered, as far as the numbers tell, has to be delivered again.
    fn may_be_needed(&self, way: Direction, start: u32, bytes: u32, flow: &mut Flow<'_>) -> bool {
        let state = State(flow.words);
        let is_probe = bytes == 1 && ahead(start, state.next(way)) == -1;
        bytes == 0
            || is_probe
            || state.is_incomplete(way)
            || self.config.retransmissions == Retransmissions::Forward
    }

    /// Something in the segment is new.
    fn advance(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let next = State(flow.words).next(packet.direction);
        let new = Held::new(packet, segment.start, segment.end, flow.now);
        match ahead(segment.start, next) {
            1.. => self.wait(new, flow, out),
            0 => self.take_turn(new, flow, out),
            _ => self.part_with_old(new, next, flow, out),
        }
    }

    /// A segment that comes before its turn.
    fn wait(&mut self, new: Held, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let way = new.packet.direction;
        self.counters.held += 1;
        self.hold(new, flow, out);
        self.keep_within_limits(way, flow, out);
    }

    /// A segment whose turn it is.
    fn take_turn(&mut self, new: Held, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let way = new.packet.direction;
        self.counters.in_order += 1;
        if self.is_waiting(*flow.handle, way) {
            self.counters.gaps_closed += 1;
            self.hold(new, flow, out);
            self.release_run(way, flow, out);
        } else {
            deliver(new.packet, new.end, flow, out);
        }
    }

    /// A segment that begins with what was delivered before. That part leaves as a segment of its
    /// own, or is cut off if it is not needed.
    fn part_with_old(
        &mut self,
        mut new: Held,
        next: u32,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let (way, bytes) = (new.packet.direction, next.wrapping_sub(new.start));
        if !self.may_be_needed(way, new.start, bytes, flow) {
            return self.trim_old(new, next, flow, out);
        }
        match new.copy_from(next, out.pools()) {
            Some(rest) => {
                self.counters.split += 1;
                new.cut_back_to(next);
                out.forward(new.packet);
                self.take_turn(rest, flow, out);
            }
            None if State(flow.words).is_incomplete(way) => self.forward_whole(new, flow, out),
            None => self.trim_old(new, next, flow, out),
        }
    }

    fn trim_old(&mut self, mut new: Held, next: u32, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.counters.trimmed += 1;
        new.cut_front_to(next);
        self.take_turn(new, flow, out);
    }

    /// There is no buffer to split a segment: everything held makes way for all of it.
    fn forward_whole(&mut self, new: Held, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let way = new.packet.direction;
        self.counters.unsplit += 1;
        self.release_way(way, flow, out);
        let next = State(flow.words).next(way);
        let end = if ahead(new.end, next) > 0 {
            new.end
        } else {
            next
        };
        deliver(new.packet, end, flow, out);
    }

    /// Puts a segment among the held ones.
    fn hold(&mut self, new: Held, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let way = new.packet.direction;
        if self.flows.at(*flow.handle).is_none() {
            // There are more places for connections than segments may be held.
            *flow.handle = self
                .flows
                .insert(self.spare.pop().unwrap_or_default())
                .unwrap_or(0);
        }
        let Some(held) = self.flows.at_mut(*flow.handle) else {
            State(flow.words).set_incomplete(way);
            return deliver(new.packet, new.end, flow, out);
        };
        let buffer = held.way_mut(way);
        self.held.remove(buffer.load());
        admit(buffer, new, self.config.overlap, &mut self.counters, out);
        self.held.add(buffer.load());
        State(flow.words).set_holding(true);
    }

    fn is_waiting(&self, handle: u32, way: Direction) -> bool {
        self.flows
            .at(handle)
            .is_some_and(|held| !held.way(way).is_empty())
    }

    /// After every packet: a finished connection is closed, and buffers that are empty are given
    /// back.
    pub(super) fn settle(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let mut state = State(flow.words);
        if state.is_finished() && !state.is_closed() {
            self.counters.finished += 1;
            state.close();
            self.release_all(flow, out);
        }
        match self.flows.at(*flow.handle) {
            None => State(flow.words).set_holding(false),
            Some(held) if held.load().segments == 0 => self.give_back(flow),
            Some(_) => {}
        }
    }

    fn give_back(&mut self, flow: &mut Flow<'_>) {
        State(flow.words).set_holding(false);
        let held = self.flows.remove(std::mem::take(flow.handle));
        if self.spare.len() < SPARE_FLOWS {
            self.spare.extend(held);
        }
    }
}

/// Forwards a segment whose turn it is, and behind which nothing is held.
pub(super) fn deliver(packet: Packet, end: u32, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
    let mut state = State(flow.words);
    state.set_next(packet.direction, end);
    if packet.tcp_flags() & FIN != 0 {
        state.set_finished(packet.direction);
    }
    out.forward(packet);
}
