//! Memory servers: requests there, answers back.

use super::super::places::FIRST_PORT;
use super::{Event, Testbed, instant};
use twinpath_core::{Frame, Instant};
use twinpath_engine::{Agenda, Time};

/// A frame of RoCE that has a payload: longer than the longest without one, a READ request.
const LONGEST_WITHOUT: usize = 14 + 20 + 8 + 12 + 16 + 4;

/// Rounds of announcement, restoration and answer.
const ROUNDS: usize = 4;

impl Testbed<'_> {
    /// Both ends find each other before the first packet comes.
    pub(super) fn register(&mut self) {
        for _ in 0..ROUNDS {
            for number in 0..self.machines.len() {
                for frame in self.machines[number].register(None, &mut self.pools) {
                    self.receive(number, frame, Instant::ZERO);
                }
            }
            let Some(stage) = self.place.remote() else {
                return;
            };
            stage.poll(Instant::ZERO, &mut self.pools);
            let messages: Vec<_> = stage.messages().drain(..).collect();
            for (port, frame) in messages {
                let number = usize::from(port - FIRST_PORT);
                self.machines[number].register(Some(frame.bytes()), &mut self.pools);
                self.pools.give(frame);
            }
        }
    }

    /// A frame from a memory server meets the stage.
    fn receive(&mut self, server: usize, mut frame: Frame, now: Instant) {
        frame.set_port(FIRST_PORT + server as u16);
        if let Some(stage) = self.place.remote() {
            stage.receive(frame, now, &mut self.pools);
        }
    }

    /// Requests that the stage has put out set out for their servers.
    pub(super) fn send_messages(&mut self, agenda: &mut Agenda<Event>) {
        let now = agenda.now() + self.pipeline;
        let Some(stage) = self.place.remote() else {
            return;
        };
        let counts = &mut self.measures.counts;
        for (port, frame) in stage.messages().drain(..) {
            let (number, bytes) = (usize::from(port - FIRST_PORT), frame.len());
            let Ok(at) = self.machines[number].cross(now, bytes as u32) else {
                counts.link_lost += 1;
                self.pools.give(frame);
                continue;
            };
            counts.to_servers += 1;
            counts.to_servers_bytes += bytes as u64;
            counts.by_server[number] += bytes as u64;
            let payload = bytes.saturating_sub(LONGEST_WITHOUT);
            counts.payloads_to_servers += u64::from(payload > 0);
            counts.payload_bytes += payload as u64;
            agenda.at(at, Event::Request(number, frame));
        }
    }

    pub(super) fn request(&mut self, server: usize, frame: Frame, agenda: &mut Agenda<Event>) {
        match self.machines[server].take(agenda.now(), frame.bytes()) {
            Ok(at) => agenda.at(at, Event::Execute(server, frame)),
            Err(_) => {
                self.measures.counts.link_lost += 1;
                self.pools.give(frame);
            }
        }
    }

    pub(super) fn execute(&mut self, server: usize, frame: Frame, agenda: &mut Agenda<Event>) {
        let mut answers = std::mem::take(&mut self.answers);
        let (machine, now) = (&mut self.machines[server], agenda.now());
        let lost = machine.execute(now, frame.bytes(), &mut self.pools, &mut answers);
        self.measures.counts.link_lost += lost;
        self.pools.give(frame);
        for (at, frame) in answers.drain(..) {
            agenda.at(at, Event::Answer(server, frame));
        }
        self.answers = answers;
    }

    pub(super) fn answer(&mut self, server: usize, frame: Frame, agenda: &mut Agenda<Event>) {
        let counts = &mut self.measures.counts;
        counts.from_servers += 1;
        counts.from_servers_bytes += frame.len() as u64;
        let has_payload = frame.len() > LONGEST_WITHOUT;
        counts.payloads_from_servers += u64::from(has_payload);
        self.receive(server, frame, instant(agenda.now()));
    }

    pub(super) fn poll(&mut self, now: Time) {
        if let Some(stage) = self.place.remote() {
            stage.poll(instant(now), &mut self.pools);
        }
        if self.backs_off() && self.end.backed_off_at_s == 0.0 {
            self.note_back_off(now);
        }
    }

    fn note_back_off(&mut self, now: Time) {
        let Some(stage) = self.place.remote() else {
            return;
        };
        let first = stage.servers().into_iter().next();
        if first.is_some_and(|server| server.share_per_mille < 1000) {
            self.end.backed_off_at_s = self.seconds(now);
            self.end.unsplit_at_back_off_gbps = self.unsplit_gbps(now);
        }
    }
}
