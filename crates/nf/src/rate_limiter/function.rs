//! What the limiter does on the slow path.

use super::NAME;
use super::config::{Config, Excess};
use super::counters::Counters;
use super::meter::Meter;
use super::prefixes::{Kind, Shared};
use super::program::program;
use super::state::{FLAGS, State, any_waits, is_silent};
use std::any::Any;
use std::sync::Arc;
use twinpath_core::key::Role;
use twinpath_core::program::FastProgram;
use twinpath_core::{Direction, DropReason, Instant, Packet};
use twinpath_slowpath::buffer::Full;
use twinpath_slowpath::{Common, Eviction, Flow, NetworkFunction, Outbox, PacketBuffer};

/// The rate limiter; see the [module](super).
pub struct RateLimiter {
    config: Config,
    meter: Meter,
    buffer: PacketBuffer,
    /// Buckets of prefixes, those of all workers.
    buckets: Arc<Shared>,
    seed: u64,
    /// The configuration before had other buckets.
    had_others: bool,
    counters: Counters,
}

/// What becomes of a packet.
enum Conformance {
    /// It passes.
    Conforms,
    /// It is excess, and waits until then, if it may.
    Excess(Option<Instant>),
}

impl RateLimiter {
    /// A limiter that has seen no flow.
    pub fn new(config: &Config, seed: u64) -> Self {
        Self {
            config: config.clone(),
            meter: config.meter(),
            buffer: PacketBuffer::new(config.limits()),
            buckets: Arc::default(),
            seed,
            had_others: false,
            counters: Counters::default(),
        }
    }

    /// What has been seen and done so far.
    pub fn statistics(&self) -> &Counters {
        &self.counters
    }

    /// Of a packet whose bucket will be full in `with` units if it takes from it.
    fn judge(&self, packet: &Packet, with: u32, flow: &Flow<'_>) -> Conformance {
        let meter = &self.meter;
        let fits = packet.packet_bytes() <= meter.longest_packet;
        let missing = with.saturating_sub(meter.depth);
        if missing == 0 && fits && self.buffer.is_empty(*flow.handle, packet.direction) {
            return Conformance::Conforms;
        }
        let waits = self.config.excess == Excess::Delay && fits && missing <= meter.longest_delay;
        Conformance::Excess(waits.then(|| meter.after(flow.now, missing)))
    }

    fn limit(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        match self.kind() {
            None => self.limit_flow(packet, flow, out),
            Some(kind) => self.limit_prefix(packet, &kind, flow, out),
        }
    }

    /// Buckets of prefixes, if they are prefixes'.
    fn kind(&self) -> Option<Kind> {
        self.config.prefixes.map(|prefixes| Kind {
            prefixes,
            meter: self.meter,
            seed: self.seed,
        })
    }

    fn limit_flow(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let (way, now) = (packet.direction, self.meter.now(flow.now));
        let full_at = State(flow.words).full_at(way, flow.now, self.meter.full_ticks);
        let ahead = full_at.map_or(0, |full_at| later(full_at, now).wrapping_sub(now));
        let ahead = self.take(packet, ahead, flow, out);
        State(flow.words).set(way, now.wrapping_add(ahead), flow.now);
    }

    fn limit_prefix(
        &mut self,
        packet: Packet,
        kind: &Kind,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let (way, now) = (packet.direction, self.meter.units(flow.now));
        let (prefix, is_error) = (kind.prefixes.of(&packet), packet.role == Role::Error);
        let all = Arc::clone(&self.buckets);
        all.with(kind, |buckets| {
            let (full_at, is_own) = buckets.of(prefix, now);
            self.counters.crowded += u64::from(!is_own);
            // Another worker may be ahead.
            let ahead = full_at.saturating_sub(now).min(FARTHEST) as u32;
            *full_at = now + u64::from(self.take(packet, ahead, flow, out));
        });
        if !is_error {
            // Who opened the flow is remembered with it.
            State(flow.words).set(way, 0, flow.now);
        }
    }

    /// A packet takes from a bucket that would be full in `ahead` units, or does not; in how many it
    /// will be full then.
    fn take(
        &mut self,
        packet: Packet,
        ahead: u32,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) -> u32 {
        let with = ahead.wrapping_add(self.meter.cost(packet.packet_bytes()));
        match self.judge(&packet, with, flow) {
            Conformance::Conforms => {
                self.counters.conforming += 1;
                out.forward(packet);
                with
            }
            Conformance::Excess(Some(until)) => match self.wait(packet, until, flow, out) {
                true => with,
                false => ahead,
            },
            Conformance::Excess(None) => {
                self.counters.too_late += u64::from(self.config.excess == Excess::Delay);
                self.drop_excess(packet, out);
                ahead
            }
        }
    }

    /// Puts a packet in line. Returns whether there was room.
    fn wait(
        &mut self,
        packet: Packet,
        until: Instant,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) -> bool {
        let way = packet.direction;
        let last = self.buffer.line(*flow.handle, way).next_back();
        let until = last.map_or(until, |(_, last)| last.max(until));
        match self.buffer.hold(flow.handle, packet, until) {
            Ok(_) => {
                self.counters.delayed += 1;
                State(flow.words).set_waiting(way, true);
                return true;
            }
            Err((packet, Full::Flow)) => {
                self.counters.line_full += 1;
                self.drop_excess(packet, out);
            }
            Err((packet, Full::All)) => {
                self.counters.buffer_full += 1;
                out.drop(packet, DropReason::BufferFull);
            }
        }
        false
    }

    fn drop_excess(&mut self, packet: Packet, out: &mut Outbox<'_>) {
        self.counters.dropped += 1;
        out.drop(packet, DropReason::RateLimited);
    }

    /// Packets have left the lines of a flow.
    fn settle(&self, flow: &mut Flow<'_>) {
        for way in Direction::BOTH {
            let waits = !self.buffer.is_empty(*flow.handle, way);
            State(flow.words).set_waiting(way, waits);
        }
    }
}

/// Units that no bucket is away from full: those of a burst and of what may wait are fewer.
const FARTHEST: u64 = 1 << 31;

/// Of two times within half of all numbers the later one: [`Later`](twinpath_core::program::Operation).
const fn later(one: u32, other: u32) -> u32 {
    match (one.wrapping_sub(other) as i32) < 0 {
        true => other,
        false => one,
    }
}

impl NetworkFunction for RateLimiter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn program(&self) -> FastProgram {
        program(&self.config, &self.meter)
    }

    fn share(&mut self, name: &str, common: &Common) {
        if self.config.prefixes.is_some() {
            self.buckets = common.part(name);
        }
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let (is_limited, is_error) = (
            self.config.directions.include(packet.direction),
            packet.role == Role::Error,
        );
        // Whoever makes up an error chooses the flow that it is about, not the network that it is of.
        if is_limited && (!is_error || self.config.prefixes.is_some()) {
            return self.limit(packet, flow, out);
        }
        if !is_error {
            // Else the next packet of the other direction would be its opener's.
            State(flow.words).set(packet.direction, 0, flow.now);
        }
        self.counters.passed += 1;
        out.forward(packet);
    }

    fn deadline(&self, handle: u32) -> Instant {
        self.buffer.deadline(handle)
    }

    fn wake(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if *flow.handle == 0 {
            return;
        }
        while let Some(packet) = self.buffer.take_due(flow.handle, flow.now) {
            self.counters.released += 1;
            out.forward(packet);
        }
        self.settle(flow);
    }

    fn is_pending(&self, _words: &[u32], handle: u32) -> bool {
        handle != 0
    }

    fn is_expired(&self, words: &[u32], now: Instant) -> bool {
        let idle_ticks = self.config.idle_timeout.ticks();
        words[FLAGS] != 0 && !any_waits(words) && is_silent(words, now, idle_ticks)
    }

    fn eviction(&self, words: &[u32]) -> Option<Eviction> {
        (words[FLAGS] != 0).then_some(match any_waits(words) {
            true => Eviction::Never,
            false => Eviction::WhenFull,
        })
    }

    fn forget(&mut self, handle: u32) {
        self.counters.forgotten += self.buffer.forget(handle) as u64;
    }

    fn release(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        for way in Direction::BOTH {
            while let Some(packet) = self.buffer.take_first(flow.handle, way) {
                self.counters.released += 1;
                out.forward(packet);
            }
        }
        self.settle(flow);
    }

    fn kept_packets(&self) -> usize {
        self.buffer.load().packets
    }

    fn most_held_frames(&self) -> usize {
        match self.config.excess {
            Excess::Drop => 0,
            Excess::Delay => self.buffer.most_frames(),
        }
    }

    fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
        let Some(new) = (new as &mut dyn Any).downcast_mut::<Self>() else {
            return false;
        };
        self.had_others = self.meter != new.meter || self.config.prefixes != new.config.prefixes;
        std::mem::swap(&mut self.config, &mut new.config);
        std::mem::swap(&mut self.meter, &mut new.meter);
        self.buffer.set_limits(self.config.limits());
        true
    }

    /// Times of other buckets say nothing: those of this configuration are full.
    fn adapt(&mut self, words: &mut [u32], _handle: &mut u32) {
        if self.had_others {
            words.fill(0);
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.counters.each(each);
    }
}
