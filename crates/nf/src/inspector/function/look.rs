//! Looks at bytes: all of them, with all rules.

use super::{Inspector, Streams};
use crate::inspector::config::Gaps;
use crate::inspector::deep::StreamMatcher;
use crate::inspector::gate::GateOutcome;
use crate::inspector::rule_set::RuleSet;
use crate::inspector::rules::{Action, Rule, RuleIndex};
use crate::inspector::state::{CONFIRMED, STREAMING, State, done};
use crate::inspector::tracker::{Chunk, Hit, Progress, Tracker};
use std::ops::Range;
use twinpath_core::program::WINDOW_BYTES;
use twinpath_core::{Direction, DropReason, Packet};
use twinpath_slowpath::{Flow, Outbox};

/// How many bytes a matcher reads before what it found is looked at.
const BLOCK_BYTES: usize = 1024;

/// Which part of a packet is looked at.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// Bytes in front that were seen before.
    pub skipped: usize,
    /// Where those behind them are in their stream.
    pub position: u32,
    /// The stream ends with them.
    pub is_last: bool,
}

/// Whether a stream ends with the bytes that are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    GoesOn,
    /// There is a FIN.
    PerhapsHere,
    /// They are all that there is.
    Apart,
}

impl Ends {
    const fn of(piece: Piece) -> Self {
        match piece.is_last {
            true => Self::PerhapsHere,
            false => Self::GoesOn,
        }
    }
}

impl<M: StreamMatcher> Inspector<M> {
    /// Whether all of a payload lies in the window, and nothing begins in it.
    pub(super) fn is_clean(&self, payload: &[u8]) -> bool {
        payload.len() <= WINDOW_BYTES && self.gate.inspect(payload) == GateOutcome::None
    }

    /// Nothing is half seen of a direction.
    pub(super) fn forget_way(&mut self, way: Direction, flow: &mut Flow<'_>) {
        let Some(mut streams) = self.streams.remove(std::mem::take(flow.handle)) else {
            return;
        };
        streams.forget(way);
        // There was room for it, so there is.
        let _ = self.remember(streams, flow);
    }

    /// Looks at the new bytes of a stream. Should there be no room to remember what is half seen,
    /// the stream stays where it was.
    pub(super) fn look_at_stream(
        &mut self,
        packet: Packet,
        piece: Piece,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let (way, payload) = (packet.direction, packet.payload());
        State(flow.words).end_at(way, self.config.depth.bytes());
        let is_first = piece.position == 0 && self.knows_beginnings;
        let is_plain = piece.skipped == 0 && !piece.is_last && !is_first && self.is_clean(payload);
        if *flow.handle == 0 && (is_plain || payload.is_empty()) {
            return out.forward(packet);
        }
        let new = piece.skipped..payload.len();
        let streams = self.streams.remove(std::mem::take(flow.handle));
        let mut streams = streams.or_else(|| self.spare.pop()).unwrap_or_default();
        self.scan(&packet, new, piece.position, Ends::of(piece), &mut streams);
        self.keep_those_for(&packet, Some(false));
        if self.rules.any_by_packet(&packet) {
            let of_stream = self.matched.clone();
            self.scan_apart(&packet);
            self.keep_those_for(&packet, Some(true));
            of_stream
                .iter()
                .for_each(|rule| _ = self.matched.insert(rule));
        }
        if let Some(rule) = self.banning_rule(&packet) {
            self.recycle(streams);
            State(flow.words).set_position(way, piece.position);
            return self.ban(packet, Some(rule), flow, out);
        }
        if State(flow.words).has(done(way)) {
            streams.forget(way);
        }
        match self.remember(streams, flow) {
            Err(reason) if self.config.gaps != Gaps::Inspect => {
                State(flow.words).set_position(way, piece.position);
                out.refuse(packet, reason);
            }
            _ => out.forward(packet),
        }
    }

    /// Looks at a payload that nothing comes before or after.
    pub(super) fn look_apart(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.scan_apart(&packet);
        self.keep_those_for(&packet, None);
        if !self.matched.is_empty() && !packet.is_tcp() && !packet.checksums_hold() {
            // Its receiver does not take it either.
            self.counters.bad_checksums += 1;
            return out.drop(packet, DropReason::BadChecksum);
        }
        match self.banning_rule(&packet) {
            Some(rule) => self.ban(packet, Some(rule), flow, out),
            None => out.forward(packet),
        }
    }

    /// The rule by which a payload that nothing comes before or after bans its flow.
    pub(super) fn forbids_apart(&mut self, packet: &Packet) -> Option<RuleIndex> {
        self.scan_apart(packet);
        self.keep_those_for(packet, None);
        self.banning_rule(packet)
    }

    fn scan_apart(&mut self, packet: &Packet) {
        let mut streams = self.spare.pop().unwrap_or_default();
        let all = 0..packet.payload().len();
        self.scan(packet, all, 0, Ends::Apart, &mut streams);
        self.recycle(streams);
    }

    /// Reads bytes of a payload, as far as the direction is to be inspected.
    fn scan(
        &mut self,
        packet: &Packet,
        new: Range<usize>,
        position: u32,
        ends: Ends,
        streams: &mut Streams<M::State>,
    ) {
        let most = self.config.depth.bytes().saturating_sub(position) as usize;
        let bytes = packet.payload().get(new).unwrap_or(&[]);
        let bytes = &bytes[..bytes.len().min(most)];
        self.matched.clear();
        self.is_apart = ends == Ends::Apart;
        self.counters.deep_scans += 1;
        self.counters.deep_bytes += bytes.len() as u64;
        let way = packet.direction.index();
        let (state, progress) = (&mut streams.states[way], &mut streams.progress[way]);
        let mut done = 0;
        loop {
            let block = &bytes[done..bytes.len().min(done + BLOCK_BYTES)];
            let start = position + done as u32;
            done += block.len();
            let is_end = done == bytes.len();
            let chunk = Chunk {
                start,
                bytes: block,
                is_last: ends == Ends::Apart && is_end,
            };
            self.scan_block(packet, chunk, state, progress);
            if is_end {
                break;
            }
        }
        if ends == Ends::PerhapsHere {
            self.judge_end(packet, position + done as u32, progress);
        }
    }

    /// What is known if a stream ends here. Whoever sent the FIN may not be its sender, so that what is half
    /// seen stays so.
    fn judge_end(&mut self, packet: &Packet, end: u32, progress: &Progress) {
        let mut copy = progress.clone();
        let chunk = Chunk {
            start: end,
            bytes: &[],
            is_last: true,
        };
        self.hits.clear();
        self.track(packet, chunk, &mut copy);
    }

    fn scan_block(
        &mut self,
        packet: &Packet,
        chunk: Chunk<'_>,
        state: &mut M::State,
        progress: &mut Progress,
    ) {
        let Self {
            matcher,
            matched,
            hits,
            alone,
            rules,
            is_apart,
            counters,
            ..
        } = self;
        let is_of_stream = packet.is_tcp() && !*is_apart;
        let is_looked_for = |item| !is_of_stream || !rules.is_by_packet(rules.rule_of(item));
        hits.clear();
        let scanned = matcher.scan(state, chunk.bytes, |item, end| {
            match alone.get(usize::from(item)) {
                Some(Some(rule)) => _ = matched.insert(*rule),
                _ if !is_looked_for(item) => {}
                _ => hits.push(Hit {
                    end: chunk.start + end,
                    item,
                }),
            }
        });
        counters.failed_scans += u64::from(scanned.is_err());
        hits.sort_unstable();
        self.track(packet, chunk, progress);
    }

    /// What follows from hits for rules of several items, and for those that begin with a stream.
    fn track(&mut self, packet: &Packet, chunk: Chunk<'_>, progress: &mut Progress) {
        let Self {
            matched,
            hits,
            rules,
            is_apart,
            counters,
            ..
        } = self;
        let begins = chunk.start == 0 && !rules.openers().is_empty();
        if hits.is_empty() && progress.is_idle() && !begins {
            return;
        }
        let is_of_stream = packet.is_tcp() && !*is_apart;
        let tracker = Tracker {
            rules,
            progress,
            chunk,
            is_wanted: &|index| {
                let is_for = rules.rule(index).is_some_and(|rule| rule.is_for(packet));
                is_for && !(is_of_stream && rules.is_by_packet(index))
            },
            met: &mut |rule| _ = matched.insert(rule),
            forgotten: &mut counters.forgotten_places,
        };
        tracker.run(hits);
    }

    /// Of the rules that were met, those that are for packets like this one, and if `by_packet` says so
    /// about packets alone, or about streams.
    fn keep_those_for(&mut self, packet: &Packet, by_packet: Option<bool>) {
        if self.matched.is_empty() {
            return;
        }
        let mut kept = RuleSet::new();
        for index in self.matched.iter() {
            let rule = self.rules.rule(index);
            let is_of_kind = by_packet.is_none_or(|kind| kind == self.rules.is_by_packet(index));
            if is_of_kind && rule.is_some_and(|rule| rule.is_for(packet)) {
                kept.insert(index);
            }
        }
        self.matched = kept;
    }

    /// The rule by which what was looked at bans its flow: the one that the fast path would say, where it
    /// sees one in the window, else the first. If there is none, the alerts are counted.
    fn banning_rule(&mut self, packet: &Packet) -> Option<RuleIndex> {
        if self.matched.is_empty() {
            return None;
        }
        let bans = |index: &RuleIndex| {
            let action = self.rules.rule(*index).map(Rule::action);
            action == Some(Action::Ban)
        };
        let Some(first) = self.matched.iter().find(bans) else {
            self.count_alerts();
            return None;
        };
        let seen = self.gate.banning_rule(packet.payload());
        let seen = seen.filter(|rule| self.matched.iter().any(|met| met == *rule));
        Some(seen.unwrap_or(first))
    }

    fn count_alerts(&mut self) {
        let matched = std::mem::take(&mut self.matched);
        for rule in matched.iter() {
            self.counters.alerts += 1;
            self.count_met(rule);
        }
        self.matched = matched;
    }

    /// Keeps where the streams stand while something may be half seen.
    fn remember(
        &mut self,
        mut streams: Box<Streams<M::State>>,
        flow: &mut Flow<'_>,
    ) -> Result<(), DropReason> {
        let mut state = State(flow.words);
        state.unset(STREAMING);
        let is_idle = streams.progress.iter().all(Progress::is_idle);
        if is_idle && streams.states.iter().all(|one| self.matcher.is_idle(one)) {
            self.recycle(streams);
            return Ok(());
        }
        let room = self.take_place(&mut streams, flow);
        let inserted = match room {
            Ok(()) => self.streams.insert(streams),
            Err(_) => Err(streams),
        };
        match inserted {
            Ok(handle) => {
                *flow.handle = handle;
                State(flow.words).set(STREAMING);
                Ok(())
            }
            Err(streams) => {
                self.counters.forgotten_streams += 1;
                self.recycle(streams);
                Err(room.err().unwrap_or(DropReason::StreamTableFull))
            }
        }
    }

    /// A flow that had no place yet takes one, if there is one for it: half-open flows take a quarter
    /// of the places at most, and each host as many as it may.
    fn take_place(
        &mut self,
        streams: &mut Streams<M::State>,
        flow: &mut Flow<'_>,
    ) -> Result<(), DropReason> {
        if streams.has_place {
            return Ok(());
        }
        let most = self.config.streams as usize;
        let most = match State(flow.words).has(CONFIRMED) {
            true => most,
            false => most.div_ceil(HALF_OPEN_SHARE),
        };
        if self.streams.len() >= most {
            return Err(DropReason::StreamTableFull);
        }
        if let Some(limit) = &self.host_limit {
            let host = flow.key.end(*flow.initiator).address;
            let counted = self.hosts.open(host, limit);
            self.counters.streams_over_host_limit += u64::from(counted.is_none());
            streams.host = counted.ok_or(DropReason::HostLimit)?;
        }
        streams.has_place = true;
        Ok(())
    }
}

/// Of the streams that there may be, one in so many may be of half-open flows.
const HALF_OPEN_SHARE: usize = 4;
