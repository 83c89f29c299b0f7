//! The monitor at work.

use super::config::{By, Config};
use super::flows::Flows;
use crate::records::{Count, FlowRecord, Page};
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_core::wire::{Address, Endpoint, Fragment, Network};
use twinpath_core::{FlowKey, Instant, Side};
use twinpath_rulecache::{Answers, Hits, Recorded, RuleFunction, Verdict};

/// Most records of ended flows that wait to be taken.
pub const MAX_ENDED: usize = 65_536;

/// Packets that found no room for their flow. A flow's own entries are twice its number, and one
/// more for its high end.
pub(super) const OVERFLOW: u32 = 0;

/// How many flows one search for idle ones looks at.
const SWEEP: u32 = 32;

/// A traffic monitor; see the [module](super).
#[derive(Debug)]
pub struct Monitor {
    pub(super) by: By,
    pub(super) idle: Duration,
    pub(super) flows: Flows,
    ended: VecDeque<FlowRecord>,
    total: Count,
    overflow: Count,
    started: u64,
    pub(super) finished: u64,
    pub(super) lost: u64,
    not_ip: u64,
}

impl Monitor {
    /// A monitor that has seen nothing yet; the seed keeps outsiders from choosing flows that are
    /// slow to find.
    pub fn new(config: &Config, seed: u64) -> Self {
        Self {
            by: config.by,
            idle: config.idle.duration(),
            flows: Flows::new(config.flows.0, seed),
            ended: VecDeque::new(),
            total: Count::default(),
            overflow: Count::default(),
            started: 0,
            finished: 0,
            lost: 0,
            not_ip: 0,
        }
    }

    /// The flows at the moment, in no order that means anything.
    pub fn flows(&self) -> impl Iterator<Item = &FlowRecord> {
        self.flows.iter()
    }

    /// The flows with these numbers, and where others begin.
    pub fn page(&self, from: u32, most: u32) -> Page<FlowRecord> {
        Page::of(from, most, self.flows.bound(), |number| {
            self.flows.at(number)
        })
    }

    /// All packets, those of ended flows and without room included.
    pub fn total(&self) -> Count {
        self.total
    }

    /// Takes the record of a flow that has ended, the oldest first.
    pub fn take_ended(&mut self) -> Option<FlowRecord> {
        self.ended.pop_front()
    }

    fn name_of(&self, packet: &mut Recorded<'_>) -> (FlowKey, Side) {
        match self.by {
            By::Connection => connection(packet),
            By::Hosts => {
                let headers = packet.headers();
                packet.examined_source(128);
                packet.examined_destination(128);
                FlowKey::fragments(headers.source, headers.destination, 0)
            }
            By::Source => {
                packet.examined_source(128);
                FlowKey::fragments(packet.headers().source, Address::UNSPECIFIED_V6, 0)
            }
            By::Destination => {
                packet.examined_destination(128);
                let (key, _) =
                    FlowKey::fragments(packet.headers().destination, Address::UNSPECIFIED_V6, 0);
                (key, Side::Low)
            }
        }
    }

    fn number(&mut self, key: FlowKey, now: Instant) -> Option<u32> {
        if let Some(number) = self.flows.find(&key) {
            return Some(number);
        }
        let number = self.flows.add(key, now)?;
        self.started += 1;
        Some(number)
    }

    fn count(&mut self, entry: u32, count: Count, last: Instant) {
        self.total.add(count.packets, count.bytes);
        match entry {
            OVERFLOW => self.overflow.add(count.packets, count.bytes),
            _ => {
                let sender = Side::from_bit(entry & 1 != 0);
                self.flows.count(entry / 2, sender, count, last);
            }
        }
    }

    pub(super) fn keep_ended(&mut self, record: FlowRecord) {
        self.finished += 1;
        if self.ended.len() == MAX_ENDED {
            self.ended.pop_front();
            self.lost += 1;
        }
        self.ended.push_back(record);
    }
}

/// Both endpoints and the protocol. Fragments count as having no ports.
fn connection(packet: &mut Recorded<'_>) -> (FlowKey, Side) {
    let protocol = packet.protocol();
    let (mut source, mut destination) = (packet.source(), packet.destination());
    if !packet.is_plain() && packet.quote().layout.fragment != Fragment::Whole {
        source = Endpoint::new(source.address, 0);
        destination = Endpoint::new(destination.address, 0);
    }
    FlowKey::connection(source, destination, protocol)
}

fn is_ip(packet: &mut Recorded<'_>) -> bool {
    packet.is_plain() || packet.quote().layout.network != Network::None
}

impl RuleFunction for Monitor {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn take_memory(&mut self) {
        self.flows.take_memory();
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, now: Instant, _: &mut Answers<'_>) -> Verdict {
        if !is_ip(packet) {
            self.not_ip += 1;
            return Verdict::Forward;
        }
        let (key, sender) = self.name_of(packet);
        let entry = match self.number(key, now) {
            Some(number) => number * 2 + sender as u32,
            None => OVERFLOW,
        };
        // No decision comes from the entry; rules name it so that their packets are credited to it.
        packet.depends_on(entry, None);
        self.flows.hold(entry / 2);
        let bytes = packet.frame_bytes() as u64;
        self.count(entry, Count { packets: 1, bytes }, now);
        Verdict::Forward
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        let Hits {
            packets,
            bytes,
            last,
            ..
        } = *hits;
        self.count(entry, Count { packets, bytes }, last);
    }

    fn each_expired(&mut self, now: Instant, each: &mut dyn FnMut(u32)) {
        self.flows.each_idle(SWEEP, self.idle, now, &mut |number| {
            each(number * 2);
            each(number * 2 + 1);
        });
    }

    fn forget(&mut self, entry: u32, now: Instant) {
        let sender = Side::from_bit(entry & 1 != 0);
        if let Some(record) = self.flows.release(entry / 2, sender, self.idle, now) {
            self.keep_ended(record);
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("packets", self.total.packets);
        each("bytes", self.total.bytes);
        each("flows", self.flows.len() as u64);
        each("flows_started", self.started);
        each("flows_ended", self.finished);
        each("overflow_packets", self.overflow.packets);
        each("overflow_bytes", self.overflow.bytes);
        each("records_lost", self.lost);
        each("not_ip", self.not_ip);
    }
}
