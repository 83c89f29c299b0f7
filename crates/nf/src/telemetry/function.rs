//! What telemetry does on the slow path.

use super::program::program;
use super::state::{
    FIRST, FLAGS, KNOWN, LAST, MOST_BYTES, bytes, flags_at, packets, record, units, units_of,
    units_since,
};
use super::{Config, NAME};
use crate::largest_flows::LargestFlows;
use crate::monitor::MAX_ENDED;
use crate::records::FlowRecord;
use std::any::Any;
use std::collections::VecDeque;
use twinpath_core::key::Role;
use twinpath_core::program::FastProgram;
use twinpath_core::{FlowKey, Instant, Packet, Side};
use twinpath_slowpath::{Eviction, Flow, NetworkFunction, Outbox};

/// Telemetry; see the [module](super).
pub struct Telemetry {
    config: Config,
    ended: VecDeque<FlowRecord>,
    largest: LargestFlows,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    started: u64,
    ended: u64,
    lost: u64,
    packets: u64,
    bytes: u64,
    errors: u64,
}

impl Telemetry {
    /// One that has seen no flow.
    pub fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            ended: VecDeque::new(),
            largest: LargestFlows::new(config.top.0),
            counters: Counters::default(),
        }
    }

    /// Takes the record that ended first.
    pub fn take_ended(&mut self) -> Option<FlowRecord> {
        self.ended.pop_front()
    }

    /// The largest of the flows whose records have ended.
    pub fn largest(&self) -> &LargestFlows {
        &self.largest
    }

    /// Whether a packet of a flow with a record begins another one.
    fn is_over(&self, packet: &Packet, flow: &Flow<'_>) -> bool {
        units_since(flow.words[FIRST], flow.now) > units_of(self.config.active.duration())
            || flow.words[bytes(packet.direction)] > MOST_BYTES
    }

    fn end(&mut self, record: FlowRecord) {
        self.largest.add(&record);
        self.counters.ended += 1;
        for sent in record.sent {
            self.counters.packets += sent.packets;
            self.counters.bytes += sent.bytes;
        }
        if self.ended.len() == MAX_ENDED {
            self.ended.pop_front();
            self.counters.lost += 1;
        }
        self.ended.push_back(record);
    }

    fn begin(&mut self, flow: &mut Flow<'_>) {
        self.counters.started += 1;
        flow.words.fill(0);
        flow.words[FLAGS] = KNOWN;
        flow.words[FIRST] = units(flow.now);
        flow.words[LAST] = units(flow.now);
    }

    fn count(packet: &Packet, flow: &mut Flow<'_>) {
        let way = packet.direction;
        flow.words[FLAGS] |= u32::from(packet.tcp_flags()) << flags_at(way);
        let is_later = units_since(flow.words[LAST], flow.now) > 0;
        if is_later {
            flow.words[LAST] = units(flow.now);
        }
        flow.words[packets(way)] = flow.words[packets(way)].wrapping_add(1);
        flow.words[bytes(way)] = flow.words[bytes(way)].wrapping_add(packet.packet_bytes());
    }
}

impl NetworkFunction for Telemetry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn program(&self) -> FastProgram {
        program(&self.config)
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if packet.role == Role::Error {
            self.counters.errors += 1;
            return out.forward(packet);
        }
        let is_known = flow.words[FLAGS] & KNOWN != 0;
        if is_known && self.is_over(&packet, flow) {
            self.ended(flow.key, *flow.initiator, flow.words, flow.now);
            self.begin(flow);
        } else if !is_known {
            self.begin(flow);
        }
        Self::count(&packet, flow);
        out.forward(packet);
    }

    fn is_expired(&self, words: &[u32], now: Instant) -> bool {
        let idle = units_of(self.config.idle.duration());
        words[FLAGS] != 0 && units_since(words[LAST], now) > idle
    }

    fn eviction(&self, words: &[u32]) -> Option<Eviction> {
        (words[FLAGS] != 0).then_some(Eviction::WhenFull)
    }

    fn ended(&mut self, key: &FlowKey, initiator: Side, words: &[u32], now: Instant) {
        if let Some(record) = record(key, initiator, words, now) {
            self.end(record);
        }
    }

    fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
        let Some(new) = (new as &mut dyn Any).downcast_mut::<Self>() else {
            return false;
        };
        std::mem::swap(&mut self.config, &mut new.config);
        true
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("records_started", self.counters.started);
        each("records_ended", self.counters.ended);
        each("records_lost", self.counters.lost);
        each("ended_packets", self.counters.packets);
        each("ended_bytes", self.counters.bytes);
        each("errors", self.counters.errors);
    }
}
