//! Packets that come, and what leaves.

use super::super::switch::{clock, instant};
use super::{Event, Testbed};
use twinpath_core::Frame;
use twinpath_engine::{Agenda, Time};
use twinpath_node::{Departure, Via};

impl Testbed<'_> {
    /// Gets the next packet and puts its arrival on.
    pub(super) fn fetch(&mut self, agenda: &mut Agenda<Event>) {
        self.next = self.traffic.next_into(&mut self.buffer);
        let Some(incoming) = self.next else {
            self.is_over = true;
            return;
        };
        let at = self.arrival_time(incoming.at);
        self.fetched += 1;
        if self.fetched == self.warm_up {
            self.offset = (incoming.at, at);
        }
        agenda.at(at, Event::Arrival);
    }

    fn arrival_time(&self, planned: Time) -> Time {
        let (from, to) = self.offset;
        let slower = match self.fetched >= self.warm_up {
            true => 1.0,
            false => self.slow_start,
        };
        let since = (planned - from).0 as f64 * slower / self.rate;
        to + Time(since as u64)
    }

    pub(super) fn arrival(&mut self, agenda: &mut Agenda<Event>) {
        let Some(incoming) = self.next else { return };
        let now = agenda.now();
        self.last = now;
        if !self.is_measuring && self.fetched > self.warm_up {
            self.is_measuring = true;
            let end = self.end(now);
            self.measures.begin(&end);
        }
        self.measures.arrived += 1;
        self.measures.arrived_bytes += incoming.len as u64;
        let bytes = &self.buffer[..incoming.len];
        let Some(mut frame) = self.node.machine.pools().take_filled(bytes) else {
            self.measures.lost += 1;
            return self.fetch(agenda);
        };
        frame.set_timestamp(instant(now));
        frame.set_received_ns(now.ns());
        if let Some(change) = self
            .change
            .as_mut()
            .filter(|_| self.node.machine.room() == 0)
        {
            change.wait(frame);
            return self.fetch(agenda);
        }
        let fast_before = self.measures.fast;
        self.enter(frame, agenda);
        if let Some(flow) = incoming.flow.filter(|_| self.watches_flows) {
            self.measures.flows.insert(flow);
            if self.measures.fast > fast_before {
                self.measures.by_rules.insert(flow);
            }
        }
        self.fetch(agenda);
    }

    /// A packet meets the machine.
    pub(super) fn enter(&mut self, frame: Frame, agenda: &mut Agenda<Event>) {
        let clock = clock(agenda.now());
        self.batch.push(frame);
        let (machine, out) = (&mut self.node.machine, &mut self.output);
        machine.receive(&mut self.batch, clock, out);
        machine.advance(clock, out);
        self.put_out(agenda);
    }

    pub(super) fn depart(&mut self, departure: Departure, agenda: &mut Agenda<Event>) {
        (self.tap)(&departure);
        let now = agenda.now();
        let is_fast = departure.via == Via::Fast;
        if let (false, Some(store)) = (is_fast, &mut self.store) {
            let payload = (departure.frame.len() as u32).saturating_sub(store.header_bytes);
            let read = store.read.send(now, payload).unwrap_or(now) + store.latency;
            return agenda.at(read, Event::Joined(read, departure.frame));
        }
        // Slow packets end with their return to the switch (SwitchNIC §6).
        let end = if is_fast { now + self.pipeline } else { now };
        self.left(departure.frame, is_fast, end);
    }

    pub(super) fn left(&mut self, frame: Frame, is_fast: bool, end: Time) {
        let latency = end.since(Time::from_ns(frame.received_ns()));
        self.measures.departed(frame.len(), is_fast, latency);
        self.node.machine.pools().give(frame);
    }
}
