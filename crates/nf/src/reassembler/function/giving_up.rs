//! Releasing what is held: because its turn has come, or because waiting has an end.

use super::{Reassembler, deliver};
use crate::reassembler::held::Held;
use crate::reassembler::segment::{Segment, ahead};
use crate::reassembler::state::State;
use twinpath_core::wire::tcp::flags::FIN;
use twinpath_core::{Direction, DropReason, Packet};
use twinpath_slowpath::{Flow, Outbox};

/// While more than one in so many of the segments that may be held is, half-open flows hold none.
const HALF_OPEN_SHARE: u32 = 4;

impl Reassembler {
    /// Releases held segments as long as each starts where the one before ended. A FIN behind which
    /// something is held was none, and the byte that has its number may come.
    pub(super) fn release_run(
        &mut self,
        way: Direction,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        while let Some(mut held) = self.pop_at(State(flow.words).next(way), way, *flow.handle) {
            self.counters.released += 1;
            held.packet.frame.set_timestamp(flow.now);
            let is_beaten = held.fin().is_some() && self.is_waiting(*flow.handle, way);
            deliver(held.packet, held.end, flow, out);
            if is_beaten {
                self.counters.fins_taken_back += 1;
                State(flow.words).take_back_fin(way);
            }
        }
    }

    fn pop_at(&mut self, next: u32, way: Direction, handle: u32) -> Option<Held> {
        let held = self.flows.at_mut(handle)?.way_mut(way).pop_at(next)?;
        self.held.remove(held.load());
        Some(held)
    }

    /// Gives up the first gap: what comes after it leaves, up to the next gap. Returns whether
    /// there was any.
    fn give_up_gap(&mut self, way: Direction, flow: &mut Flow<'_>, out: &mut Outbox<'_>) -> bool {
        let Some(first) = self
            .flows
            .at(*flow.handle)
            .and_then(|held| held.way(way).first_start())
        else {
            return false;
        };
        let mut state = State(flow.words);
        state.set_next(way, first);
        state.set_incomplete(way);
        self.release_run(way, flow, out);
        true
    }

    /// Releases everything that a direction holds, in order.
    pub(super) fn release_way(
        &mut self,
        way: Direction,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        while self.give_up_gap(way, flow, out) {}
    }

    /// Releases everything that is held of the connection.
    pub(super) fn release_all(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        Direction::BOTH
            .into_iter()
            .for_each(|way| self.release_way(way, flow, out));
    }

    /// Gives up those gaps behind which a segment has waited long enough.
    pub(super) fn give_up_overdue(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if *flow.handle == 0 {
            return;
        }
        for way in Direction::BOTH {
            while self.is_overdue(way, flow) && self.give_up_gap(way, flow, out) {
                self.counters.gaps_timed_out += 1;
            }
        }
        self.settle(flow, out);
    }

    fn is_overdue(&mut self, way: Direction, flow: &Flow<'_>) -> bool {
        let gap_timeout = self.config.gap_timeout.duration();
        self.flows
            .at_mut(*flow.handle)
            .is_some_and(|held| held.way_mut(way).is_overdue(flow.now, gap_timeout))
    }

    /// Gives up all gaps of a direction if the segment that it just held was one too many.
    pub(super) fn keep_within_limits(
        &mut self,
        way: Direction,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let Some(held) = self.flows.at(*flow.handle) else {
            return;
        };
        let (mine, all) = (held.load(), self.held);
        // Half-open flows are the first to go without.
        let share = match State(flow.words).is_confirmed() {
            true => 1,
            false => HALF_OPEN_SHARE,
        };
        let most = |all: u32| all.div_ceil(share) as usize;
        let within = mine.segments <= self.config.most_segments_per_flow as usize
            && mine.bytes <= self.config.most_bytes_per_flow as usize
            && all.segments <= most(self.config.most_segments)
            && all.long_segments <= most(self.config.most_long_segments);
        if !within {
            self.counters.limits_reached += 1;
            self.release_way(way, flow, out);
        }
    }

    /// A segment outside the window: no receiver takes it, unless the numbers that are known are
    /// wrong, as those of a direction whose SYN was not seen may be.
    pub(super) fn outside_window(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let state = State(flow.words);
        // Where a gap was given up, what lies far behind may be what was missing.
        let is_behind = ahead(segment.end, state.next(packet.direction)) <= 0;
        if state.is_opened(packet.direction) && state.is_incomplete(packet.direction) && is_behind {
            return self.repeat(packet, segment, flow, out);
        }
        if state.is_opened(packet.direction) {
            self.counters.outside_window += 1;
            return out.drop(packet, DropReason::Unacceptable);
        }
        self.resynchronise(packet, segment, flow, out);
    }

    fn resynchronise(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let way = packet.direction;
        self.counters.resynchronised += 1;
        self.release_way(way, flow, out);
        let mut state = State(flow.words);
        state.pick_up(way, segment.end);
        if segment.has(FIN) {
            state.set_finished(way);
        }
        out.forward(packet);
    }
}
