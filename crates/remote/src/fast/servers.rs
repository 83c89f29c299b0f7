//! The servers' end: frames from them, time, and what is known of them.

use super::{
    LOOK_INTERVAL, LOSSES_INTERVAL, MOST_EVENTS, MOST_EVENTS_EACH, Member, ServerEvent,
    ServerFigures, SplitStage,
};
use crate::back_off;
use crate::payloads::{self, Event};
use twinpath_core::{Frame, Instant, Pools};

/// How often a server's share of the flows was cut, beside its own counters.
pub const BACK_OFFS: &str = "back_offs";

impl SplitStage {
    /// A frame came by a port that leads to servers.
    pub fn receive(&mut self, frame: Frame, now: Instant, pools: &mut Pools) {
        let port = Some(frame.port());
        let mut rest = Some(frame);
        for number in 0..self.members.len() {
            let member = &mut self.members[number];
            if member.port != port {
                continue;
            }
            let Some(frame) = rest.take() else { break };
            rest = member.memory.receive(frame, now, pools, &mut self.output);
            self.gather(number);
        }
        if let Some(frame) = rest {
            self.counters.other_frames += 1;
            pools.give(frame);
        }
        self.note_who_is_up();
    }

    /// Does what time and new room ask for.
    pub fn poll(&mut self, now: Instant, pools: &mut Pools) {
        self.polled = now;
        for number in 0..self.members.len() {
            let memory = &mut self.members[number].memory;
            memory.poll(now, pools, &mut self.output);
            self.gather(number);
        }
        if self.has_servers() {
            self.note_who_is_up();
            self.look(now);
        }
    }

    pub(super) fn has_servers(&self) -> bool {
        self.members.iter().any(|member| member.port.is_some())
    }

    /// Links are looked at, and what was lost.
    fn look(&mut self, now: Instant) {
        if now >= self.back_off.deadline() {
            for (number, member) in self.members.iter_mut().enumerate() {
                self.back_off.carried(number, member.memory.octets());
                let fastest_read = member.memory.take_fastest_read();
                self.back_off.took(number, fastest_read);
            }
            self.back_off.update(now);
        }
        if now >= self.next_look {
            self.next_look = now + LOOK_INTERVAL;
            for number in 0..self.members.len() {
                self.members[number].events_left = MOST_EVENTS_EACH;
                self.tell_losses(number, now);
            }
        }
    }

    /// What was lost is told at once, and then again now and then while more is.
    fn tell_losses(&mut self, number: usize, now: Instant) {
        let member = &mut self.members[number];
        let losses = member.memory.losses();
        let more = losses.since(member.losses);
        let is_told = |at: Instant| now < at + LOSSES_INTERVAL;
        if more.total() > 0 && !member.losses_told.is_some_and(is_told) {
            (member.losses, member.losses_told) = (losses, Some(now));
            self.note(number, Event::Lost(more));
        }
    }

    pub(super) fn note_who_is_up(&mut self) {
        for (number, member) in self.members.iter().enumerate() {
            self.back_off.set_up(number, member.memory.is_up());
        }
    }

    /// When [`Self::poll`] is to be called at the latest.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let memories = self.members.iter().map(|member| member.memory.deadline());
        let own = match self.has_servers() {
            true => self.back_off.deadline().min(self.next_look),
            false => Instant::NEVER,
        };
        memories.chain([own]).min().unwrap_or(Instant::NEVER)
    }

    /// Frames for servers, each by its port.
    pub fn messages(&mut self) -> &mut Vec<(u16, Frame)> {
        &mut self.messages
    }

    /// Takes what a member has put out.
    #[inline]
    pub(super) fn gather(&mut self, number: usize) {
        if !self.output.is_empty() {
            self.gather_all(number);
        }
    }

    fn gather_all(&mut self, number: usize) {
        let payloads::Output {
            mut frames,
            mut payloads,
            mut events,
        } = std::mem::take(&mut self.output);
        let port = self.members[number].port.unwrap_or_default();
        self.messages
            .extend(frames.drain(..).map(|frame| (port, frame)));
        payloads
            .drain(..)
            .for_each(|returned| self.returned(returned));
        events.drain(..).for_each(|event| self.note(number, event));
        self.output = payloads::Output {
            frames,
            payloads,
            events,
        };
    }

    fn note(&mut self, server: usize, event: Event) {
        let member = &mut self.members[server];
        let is_up = member.memory.is_up();
        let leaves_whole = match event {
            Event::AnnouncementRefused(..) | Event::Silent(..) => !is_up,
            Event::Down(..) => true,
            _ => false,
        };
        if leaves_whole || matches!(event, Event::Gone(_)) {
            member.last_error = Some((event, self.polled));
        }
        if let Event::AnnouncementRefused(..) = event {
            // What is said again and again is told once, and by several in turns now and then.
            let is_told = |&(told, at): &(Event, Instant)| {
                told == event || self.polled < at + LOSSES_INTERVAL
            };
            if member.told_refusal.as_ref().is_some_and(is_told) {
                return;
            }
            member.told_refusal = Some((event, self.polled));
        }
        if member.events_left == 0 || self.events.len() >= MOST_EVENTS {
            self.counters.events_lost += 1;
            return;
        }
        member.events_left -= 1;
        self.events.push_back(ServerEvent {
            server,
            event,
            leaves_whole,
        });
    }

    /// What is known of each server.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerFigures> {
        let figures = |(number, member): (usize, &Member)| ServerFigures {
            name: member.name.clone(),
            is_up: member.memory.is_up(),
            share_per_mille: match member.memory.is_up() {
                true => u64::from(self.back_off.share(number)) * 1000 / u64::from(back_off::WHOLE),
                false => 0,
            },
            rate_bps: self.back_off.rate_bps(number),
            last_error: member.last_error.map(|(event, _)| event.to_string()),
            last_error_age: member.last_error.map(|(_, at)| self.polled.since(at)),
            counters: self.counters_of(number),
            queue_pairs: member.memory.queue_pair_figures(),
        };
        self.members.iter().enumerate().map(figures).collect()
    }

    /// What was counted of a server: its own counters, and how often its share of the flows was cut.
    fn counters_of(&self, server: usize) -> Vec<(&'static str, u64)> {
        let mut counters = self.members[server].memory.named_counters();
        counters.push((BACK_OFFS, self.back_off.cuts(server)));
        counters
    }

    /// The name of a server.
    #[must_use]
    pub fn name(&self, server: usize) -> &str {
        self.members.get(server).map_or("", |member| &member.name)
    }

    /// What happened at servers since this was called last.
    pub fn take_server_events(&mut self) -> impl Iterator<Item = ServerEvent> {
        self.events.drain(..)
    }
}
