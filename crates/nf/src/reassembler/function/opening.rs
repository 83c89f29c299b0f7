//! How connections begin and end: SYN, RST, and segments of connections that lived before.
//!
//! A segment is believed where its receiver believes it, after RFC 5961: a RST ends a connection
//! where it is the very next byte's, a SYN on a living connection begins nothing. What says that the
//! receiver did begin anew is its SYN with ACK, which in turn begins nothing where nobody has sent a SYN:
//! whoever could make it do so would put all that follows in front of what was delivered.

use super::{Reassembler, ahead};
use crate::reassembler::segment::Segment;
use crate::reassembler::state::State;
use twinpath_core::wire::tcp::flags::{ACK, FIN};
use twinpath_core::{Direction, DropReason, Packet};
use twinpath_slowpath::{Flow, Outbox};

const fn other(way: Direction) -> Direction {
    match way {
        Direction::Original => Direction::Reply,
        Direction::Reply => Direction::Original,
    }
}

impl Reassembler {
    /// A RST that its receiver believes ends the connection, after everything that was held.
    pub(super) fn reset(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let (way, mut state) = (packet.direction, State(flow.words));
        if !state.is_known() || state.is_closed() {
            self.counters.stray += 1;
        } else if is_believed(way, segment, &state) {
            self.counters.reset += 1;
            state.close();
            self.release_all(flow, out);
        } else if self.is_outside(way, segment, &state) {
            self.counters.outside_window += 1;
            return out.drop(packet, DropReason::Unacceptable);
        } else {
            self.counters.challenged += 1;
        }
        out.forward(packet);
    }

    /// Whether a segment is far from what its receiver, as is known for sure, expects.
    fn is_outside(&self, way: Direction, segment: Segment, state: &State<'_>) -> bool {
        let distance = ahead(segment.start, state.next(way)).unsigned_abs();
        state.is_opened(way) && distance > self.config.window_bytes
    }

    /// A SYN starts a direction, or starts it over.
    pub(super) fn open(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        if segment.has(ACK) {
            self.open_answer(packet.direction, segment, flow, out);
        } else {
            self.open_first(packet.direction, segment, flow, out);
        }
        out.forward(packet);
    }

    /// A SYN without ACK.
    fn open_first(
        &mut self,
        way: Direction,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let state = State(flow.words);
        if state.is_closed() {
            self.start_over(flow, out);
        } else if !state.is_tracked(way) {
            // The direction begins.
        } else if state.was_opened_by(way, segment.start, self.config.window_bytes) {
            self.counters.repeated_opens += 1;
            return;
        } else if state.is_tracked(other(way)) {
            self.counters.challenged += 1;
            return State(flow.words).ask_anew(way);
        } else {
            // Either of the two may be the one that is answered.
            self.start_over(flow, out);
            State(flow.words).ask_anew(way);
        }
        self.counters.opened += 1;
        State(flow.words).open(way, segment.start, segment.end);
    }

    /// A SYN with ACK, from the end that decides whether there is a new connection: it also says
    /// where the other direction begins.
    fn open_answer(
        &mut self,
        way: Direction,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let window_bytes = self.config.window_bytes;
        let (asked, state) = (other(way), State(flow.words));
        let behind = ahead(state.next(asked), segment.acknowledged);
        let lives = state.is_tracked(way) && !state.is_closed();
        let is_asked = state.is_tracked(asked) && (0..=window_bytes as i32).contains(&behind);
        if lives && is_asked && state.was_opened_by(way, segment.start, window_bytes) {
            self.counters.repeated_opens += 1;
            return;
        }
        let contradicts = state.is_tracked(way) || state.is_tracked(asked) && !is_asked;
        let may_begin = state.is_closed() || state.may_be_answered_anew(asked);
        if contradicts && !may_begin {
            self.counters.challenged += 1;
            return;
        }
        if state.is_tracked(way) || state.is_closed() {
            self.start_over(flow, out);
        }
        let mut state = State(flow.words);
        if !state.is_tracked(asked) {
            state.assume();
        }
        // Data that came with the SYN may not have been taken.
        if !state.is_tracked(asked) || state.next(asked) != segment.acknowledged {
            self.release_way(asked, flow, out);
            state = State(flow.words);
            state.open(
                asked,
                segment.acknowledged.wrapping_sub(1),
                segment.acknowledged,
            );
        }
        self.counters.opened += 1;
        state.open(way, segment.start, segment.end);
    }

    /// The addresses and ports are used for a new connection.
    fn start_over(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.counters.reused += 1;
        self.release_all(flow, out);
        State(flow.words).clear();
    }

    /// The first segment of a direction whose SYN was not seen.
    pub(super) fn pick_up(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let (way, mut state) = (packet.direction, State(flow.words));
        if !state.is_known() && (segment.is_bare() || segment.has(FIN)) {
            self.counters.stray += 1;
            return out.forward(packet);
        }
        self.counters.picked_up += 1;
        state.pick_up(way, segment.end);
        state.confirm(other(way), segment.acknowledged);
        if segment.has(FIN) {
            state.set_finished(way);
        }
        out.forward(packet);
    }
}

/// Whether the receiver of a RST ends its connection (RFC 5961 §3.2): it is the next byte's, or it
/// answers a SYN and acknowledges it (RFC 9293 §3.10.7.3).
fn is_believed(way: Direction, segment: Segment, state: &State<'_>) -> bool {
    if state.is_tracked(way) {
        return segment.start == state.next(way);
    }
    segment.has(ACK) && segment.acknowledged == state.next(other(way))
}
