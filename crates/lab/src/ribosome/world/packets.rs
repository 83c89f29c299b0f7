//! Packets and headers: in, to the cores and back, out.

use super::super::functions::Whose;
use super::{Event, Testbed, UnderWay, instant};
use std::sync::atomic::Ordering;
use twinpath_core::split::{DepartingFrame, Left, Outgoing, Output, Sent, stretch};
use twinpath_core::wire::dissect;
use twinpath_core::{Frame, Ticket};
use twinpath_engine::{Agenda, Rate, Time};

/// Packets that are not split are as long.
const UNSPLIT_BYTES: u32 = 1500;

impl Testbed<'_> {
    /// Gets the next packet and puts its arrival on.
    pub(super) fn fetch(&mut self, agenda: &mut Agenda<Event>) {
        self.next = self.traffic.next_into(&mut self.buffer);
        match self.next {
            Some(incoming) => agenda.at(incoming.at, Event::Arrival),
            None => self.is_over = true,
        }
        self.fetched += 1;
    }

    pub(super) fn arrival(&mut self, agenda: &mut Agenda<Event>) {
        let Some(incoming) = self.next else { return };
        let now = agenda.now();
        if !self.is_measuring && self.fetched > self.warm_up {
            self.is_measuring = true;
            self.measures.begin(now, self.machines.len());
        }
        let flow = incoming.flow.unwrap_or_default();
        let counts = &mut self.measures.counts;
        counts.arrived += 1;
        counts.arrived_bytes += incoming.len as u64;
        counts.new_flows += u64::from(self.flows.insert(flow));
        self.measures.locality_in.packet(flow);
        match self.pools.take_filled(&self.buffer[..incoming.len]) {
            Some(frame) => self.enter(frame, flow, agenda),
            None => self.measures.counts.lost += 1,
        }
        self.fetch(agenda);
    }

    /// A packet meets the switch.
    fn enter(&mut self, mut frame: Frame, flow: u64, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        let hash = self.hash.hash([flow]);
        frame.set_ordinal(self.fetched);
        frame.set_timestamp(instant(now));
        let packet = UnderWay {
            flow,
            hash,
            arrived: now,
            returned: now,
        };
        self.under_way.insert(self.fetched, packet);
        let Ok(layout) = dissect(frame.bytes()) else {
            return self.lose(frame);
        };
        let sent = match self.place.stage(hash) {
            None => Sent::Whole(frame),
            Some(stage) => {
                let outgoing = Outgoing {
                    frame,
                    layout: &layout,
                    flow: hash,
                    has_state: false,
                };
                stage.send(outgoing, instant(now), &mut self.pools)
            }
        };
        match sent {
            Sent::Header(frame) => self.enter_cores(frame, flow, agenda),
            Sent::Whole(frame) => {
                self.measures.counts.whole += 1;
                self.enter_cores(frame, flow, agenda);
            }
            Sent::Refused(frame) => self.lose(frame),
        }
    }

    fn enter_cores(&mut self, frame: Frame, flow: u64, agenda: &mut Agenda<Event>) {
        let whose = self.functions.whose(self.hash_of_cores.hash([flow]));
        let bytes = frame.len() as u32 + self.tag(&frame);
        let counts = &mut self.measures.counts;
        counts.to_nf += 1;
        counts.to_nf_bytes += u64::from(bytes);
        match self
            .functions
            .cross(agenda.now() + self.pipeline, whose, bytes)
        {
            Ok(at) => agenda.at(at, Event::AtServer(whose, frame)),
            Err(_) => self.lose(frame),
        }
    }

    /// What says of a header where its payload is.
    fn tag(&self, frame: &Frame) -> u32 {
        match frame.metadata().parked_bytes {
            0 => 0,
            _ => self.tag_bytes,
        }
    }

    pub(super) fn at_server(&mut self, whose: Whose, frame: Frame, agenda: &mut Agenda<Event>) {
        match self.functions.work(agenda.now(), whose) {
            Ok(at) => agenda.at(at, Event::Done(whose, frame)),
            Err(_) => self.lose(frame),
        }
    }

    /// A core is done with a packet; functions see headers as long as their packets.
    pub(super) fn done(&mut self, whose: Whose, mut frame: Frame, agenda: &mut Agenda<Event>) {
        if frame.metadata().parked_bytes != 0 && !stretch(&mut frame) {
            return self.lose(frame);
        }
        let now = agenda.now();
        let Some(packet) = self.under_way.get(&frame.ordinal()) else {
            return self.lose(frame);
        };
        let flow = packet.flow;
        let mut out = std::mem::take(&mut self.frames);
        match self.functions.reframing(whose) {
            None => out.push(frame),
            Some(reframing) => {
                let wake = reframing.handle(flow, frame, instant(now), &mut self.pools, &mut out);
                if let Some(at) = wake {
                    agenda.at(Time::from_ns(at.0), Event::Wake(whose, flow));
                }
            }
        }
        self.send_back(whose, out, agenda);
    }

    pub(super) fn wake(&mut self, whose: Whose, flow: u64, agenda: &mut Agenda<Event>) {
        let mut out = std::mem::take(&mut self.frames);
        if let Some(reframing) = self.functions.reframing(whose) {
            reframing.wake(flow, instant(agenda.now()), &mut self.pools, &mut out);
        }
        self.send_back(whose, out, agenda);
    }

    fn send_back(&mut self, whose: Whose, mut out: Vec<Frame>, agenda: &mut Agenda<Event>) {
        for frame in out.drain(..) {
            let parked = u32::from(frame.metadata().parked_bytes);
            let bytes = frame.len() as u32 - parked + self.tag(&frame);
            if let Some(packet) = self.under_way.get(&frame.ordinal()) {
                self.measures.locality_nf.packet(packet.flow);
            }
            self.measures.counts.from_nf += 1;
            match self.functions.come_back(agenda.now(), whose, bytes) {
                Ok(at) => agenda.at(at + self.pipeline, Event::Back(frame)),
                Err(_) => self.lose(frame),
            }
        }
        self.frames = out;
    }

    /// A packet or header is back at the switch and leaves when it is whole.
    pub(super) fn back(&mut self, frame: Frame, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        let is_header = frame.metadata().parked_bytes != 0;
        let Some(packet) = self.under_way.get_mut(&frame.ordinal()) else {
            return self.lose(frame);
        };
        packet.returned = now;
        let (hash, ticket): (u64, Ticket) = (packet.hash, frame.ticket());
        let departing = DepartingFrame {
            frame,
            is_reply: false,
        };
        let Some(stage) = self.place.stage(hash) else {
            return self.depart(departing.frame, now);
        };
        if is_header {
            stage.came_back(ticket);
        }
        match stage.leave(departing, hash, instant(now), &mut self.pools) {
            Left::Now(departing) => self.depart(departing.frame, now),
            Left::Waits if is_header => {
                self.waiting += 1;
                let most = &mut self.measures.counts.headers_waiting;
                *most = self.waiting.max(*most);
            }
            Left::Waits => (),
            Left::Dropped(frame, _) => self.lose(frame),
            Left::Stale => self.measures.counts.lost += 1,
        }
    }

    /// What has become ready since leaves.
    pub(super) fn pass(&mut self, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        let mut ready = Vec::new();
        for stage in self.place.waiting() {
            while let Some(found) = stage.pass(instant(now)) {
                ready.push(found);
            }
        }
        for (at, output) in ready {
            match output {
                Output::Packet(departing, spare) => {
                    if let Some(header) = spare {
                        self.waiting = self.waiting.saturating_sub(1);
                        self.pools.give(header);
                    }
                    // A queue's port is on its way through time; what is ready now leaves now.
                    self.depart(departing.frame, Time::from_ns(at.0).max(now));
                }
                Output::Freed(frame) => self.pools.give(frame),
                Output::Lost(frame, _) => {
                    self.waiting = self.waiting.saturating_sub(1);
                    self.lose(frame);
                }
                Output::HeaderTooLong(header, payload) => {
                    self.pools.give(header);
                    self.lose(payload);
                }
            }
        }
    }

    fn depart(&mut self, frame: Frame, at: Time) {
        let measures = &mut self.measures;
        if let Some(packet) = self.under_way.remove(&frame.ordinal()) {
            let left = at + self.pipeline;
            measures.latency.record((left - packet.arrived).ns());
            measures.read.record((at - packet.returned).ns());
            measures.locality_out.packet(packet.flow);
            let last = self.last_out.entry(packet.flow).or_default();
            measures.counts.reordered += u64::from(frame.ordinal() < *last);
            *last = frame.ordinal().max(*last);
        }
        measures.counts.left += 1;
        measures.counts.left_bytes += frame.len() as u64;
        self.pools.give(frame);
    }

    fn lose(&mut self, frame: Frame) {
        self.under_way.remove(&frame.ordinal());
        self.measures.counts.lost += 1;
        self.pools.give(frame);
    }

    /// By the paper's clock.
    pub(super) fn seconds(&self, now: Time) -> f64 {
        let parameters = &self.setting.parameters;
        let began = match parameters.has_seconds() {
            true => parameters.time_s - super::SECONDS,
            false => 0.0,
        };
        began + now.s_f64() * 1e3 / parameters.second_ms
    }

    /// What is not split goes by the same port as requests.
    pub(super) fn unsplit(&mut self, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        let gbps = self.unsplit_gbps(now);
        let counts = &mut self.measures.counts;
        counts.unsplit += 1;
        match self.machines[0].cross(now, UNSPLIT_BYTES) {
            Ok(_) => {
                counts.unsplit_bytes += u64::from(UNSPLIT_BYTES);
                self.others
                    .fetch_add(UNSPLIT_BYTES.into(), Ordering::Relaxed);
            }
            Err(_) => counts.unsplit_lost += 1,
        }
        let gap = Rate::from_gbps(gbps.max(0.01)).time_of(UNSPLIT_BYTES.into());
        agenda.after(gap, Event::Unsplit);
    }

    pub(super) fn unsplit_gbps(&self, now: Time) -> f64 {
        self.seconds(now) * self.setting.parameters.unsplit_gbps_per_s
    }
}
