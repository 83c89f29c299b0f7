//! Which bytes of a packet are new to its stream, and what becomes of packets whose bytes are not
//! the next.

use super::Inspector;
use super::look::Piece;
use crate::inspector::config::Gaps;
use crate::inspector::deep::StreamMatcher;
use crate::inspector::state::{
    CLOSED, CONFIRMED, DATAGRAMS, STREAMING, State, asked_anew, done, finished, gap, missing,
    picked_up, tracked,
};
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_core::{Direction, DropReason, Packet};
use twinpath_slowpath::{Flow, Outbox};

/// How far behind the last byte of the other end an acknowledgement may be that shows that both ends
/// take part: a guess hits that once in 65,536 times.
const HEARD_BYTES: i32 = 65_535;

/// What the inspector reads of a segment's headers.
#[derive(Clone, Copy)]
struct Segment {
    way: Direction,
    /// The number of its first byte.
    first: u32,
    bytes: u32,
    acknowledged: u32,
    flags: u8,
}

impl Segment {
    fn of(packet: &Packet) -> Self {
        let flags = packet.tcp_flags();
        let opens = u32::from(flags & SYN != 0);
        Self {
            way: packet.direction,
            first: packet.tcp_sequence().wrapping_add(opens),
            bytes: packet.layout.payload_bytes() as u32,
            acknowledged: packet.tcp_acknowledgement(),
            flags,
        }
    }

    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The number after its last byte.
    const fn end(&self) -> u32 {
        self.first.wrapping_add(self.bytes)
    }
}

/// How far `a` lies ahead of `b` in sequence space, which wraps; negative if it lies behind.
const fn ahead(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

const fn other(way: Direction) -> Direction {
    match way {
        Direction::Original => Direction::Reply,
        Direction::Reply => Direction::Original,
    }
}

impl<M: StreamMatcher> Inspector<M> {
    /// A TCP segment.
    pub(super) fn segment(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let segment = Segment::of(&packet);
        if State(flow.words).is_known() {
            State(flow.words).set_last_seen(flow.now.ticks());
        }
        if segment.has(RST) {
            reset(segment, flow);
            return out.forward(packet);
        }
        match segment.has(SYN) {
            true => self.open(segment, flow),
            false => confirm(segment, flow),
        }
        if segment.has(ACK) {
            self.acknowledge(other(segment.way), segment.acknowledged, flow);
        }
        let is_tracked = State(flow.words).has(tracked(segment.way));
        match segment.bytes > 0 || segment.has(FIN) && is_tracked {
            true => self.data(packet, segment, flow, out),
            false => {
                self.counters.half_seen += u64::from(State(flow.words).has(STREAMING));
                out.forward(packet);
            }
        }
    }

    /// A SYN begins a direction where its receiver believes it, as the reassembler sees it.
    fn open(&mut self, segment: Segment, flow: &mut Flow<'_>) {
        let (way, asked, state) = (segment.way, other(segment.way), State(flow.words));
        let lives = state.has(tracked(way)) && !state.has(CLOSED);
        if lives && state.first(way) == segment.first {
            return;
        }
        let is_known = state.has(tracked(asked)) && !state.has(CLOSED);
        match segment.has(ACK) {
            true if contradicts(segment, &state) => return,
            // Its receiver may take it, and say so.
            false if is_known => return State(flow.words).set(asked_anew(way)),
            _ => {}
        }
        if state.has(tracked(way)) || state.has(CLOSED) {
            self.start_over(flow);
        }
        let mut state = State(flow.words);
        if lives && !segment.has(ACK) {
            // Either of the two may be the one that is answered.
            state.set(asked_anew(way));
        }
        let is_heard = state.has(tracked(asked));
        if segment.has(ACK) && !(is_heard && state.next(asked) == segment.acknowledged) {
            if !is_heard {
                state.assume();
            }
            self.begin(asked, segment.acknowledged, flow);
        }
        self.begin(way, segment.first, flow);
        State(flow.words).set_last_seen(flow.now.ticks());
    }

    /// The ends' addresses and ports are a new connection's.
    fn start_over(&mut self, flow: &mut Flow<'_>) {
        let streams = self.streams.remove(std::mem::take(flow.handle));
        streams
            .into_iter()
            .for_each(|streams| self.recycle(streams));
        flow.words.fill(0);
    }

    /// A direction begins with a byte of this number.
    fn begin(&mut self, way: Direction, first: u32, flow: &mut Flow<'_>) {
        State(flow.words).start(way, first);
        self.forget_way(way, flow);
    }

    /// The receiver has bytes that never came by: nothing will be known of them.
    fn acknowledge(&mut self, way: Direction, number: u32, flow: &mut Flow<'_>) {
        let mut state = State(flow.words);
        if ahead(number, state.first(way)) >= 0 {
            state.unset(picked_up(way));
        }
        if state.has(finished(way)) && number == state.next(way).wrapping_add(1) {
            // Its receiver has taken the FIN: no byte will come.
            return self.forget_way(way, flow);
        }
        if !state.has(missing(way)) || ahead(number, state.next(way)) <= 0 {
            return;
        }
        self.pass_over(way, number, flow);
    }

    /// Bytes before this one are not inspected: what follows is a stream that begins here, unless all
    /// is taken as it comes.
    fn pass_over(&mut self, way: Direction, number: u32, flow: &mut Flow<'_>) {
        let mut state = State(flow.words);
        self.counters.gaps += 1;
        self.counters.unseen_bytes += u64::from(number.wrapping_sub(state.next(way)));
        match self.config.gaps {
            Gaps::Inspect => {
                state.set_next(way, number);
                state.end_at(way, self.config.depth.bytes());
            }
            Gaps::Drop | Gaps::Ban => state.start(way, number),
        }
        state.set(gap(way));
        self.forget_way(way, flow);
    }

    /// A segment with data, or the last one.
    fn data(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let way = segment.way;
        let mut state = State(flow.words);
        state.set_last_seen(flow.now.ticks());
        if !state.has(tracked(way)) {
            state.pick_up(way, segment.first);
        }
        if self.is_unseen(segment, flow) {
            return self.come_late(packet, segment, flow, out);
        }
        if State(flow.words).has(done(way)) {
            return out.forward(packet);
        }
        let state = State(flow.words);
        let distance = ahead(segment.first, state.next(way));
        let old = distance.unsigned_abs();
        match distance {
            1.. => self.beyond_gap(packet, segment, flow, out),
            0 => self.next(packet, segment, 0, flow, out),
            _ if segment.bytes == 0 => out.forward(packet),
            _ if old >= segment.bytes => {
                self.counters.repeated += 1;
                out.forward(packet)
            }
            _ => self.next(packet, segment, old, flow, out),
        }
    }

    /// A segment whose turn it is, but for `old` bytes in front that were seen before.
    fn next(
        &mut self,
        packet: Packet,
        segment: Segment,
        old: u32,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let (way, mut state) = (segment.way, State(flow.words));
        if segment.bytes > old {
            // A FIN in front of them was none.
            state.unset(finished(way));
        }
        let is_last = segment.has(FIN) && !state.has(finished(way));
        let piece = Piece {
            skipped: old as usize,
            position: state.position(way),
            is_last,
        };
        state.unset(missing(way));
        state.set_next(way, segment.end());
        if is_last {
            state.finish(way);
        }
        self.look_at_stream(packet, piece, flow, out);
    }

    /// Whether some of a segment's bytes lie where bytes were passed over, or in front of where the
    /// direction was picked up: nobody has inspected them, though they are behind the next one.
    fn is_unseen(&self, segment: Segment, flow: &mut Flow<'_>) -> bool {
        let (way, state) = (segment.way, State(flow.words));
        let is_before = |number| segment.bytes > 0 && ahead(segment.first, number) < 0;
        if state.has(picked_up(way)) && is_before(state.first(way)) {
            return true;
        }
        let passed_over = match self.config.gaps {
            Gaps::Inspect => state.next(way),
            Gaps::Drop | Gaps::Ban => state.first(way),
        };
        state.has(gap(way)) && !state.has(done(way)) && is_before(passed_over)
    }

    /// Bytes that were passed over come after all.
    fn come_late(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        self.counters.late += 1;
        let (next, is_done) = {
            let state = State(flow.words);
            (state.next(segment.way), state.has(done(segment.way)))
        };
        if self.config.gaps != Gaps::Inspect {
            // Whoever needs them has no use for what came behind them either.
            out.drop(packet, DropReason::OutOfOrder);
        } else if is_done || ahead(segment.end(), next) <= 0 {
            self.look_apart(packet, flow, out);
        } else if let Some(rule) = self.forbids_apart(&packet) {
            self.ban(packet, Some(rule), flow, out);
        } else {
            let old = next.wrapping_sub(segment.first);
            self.next(packet, segment, old, flow, out);
        }
    }

    /// Bytes in front of a segment are missing.
    fn beyond_gap(
        &mut self,
        packet: Packet,
        segment: Segment,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let way = segment.way;
        self.counters.out_of_order += 1;
        match self.config.gaps {
            Gaps::Drop => {
                State(flow.words).set(missing(way));
                out.refuse(packet, DropReason::OutOfOrder);
            }
            Gaps::Ban => self.ban(packet, None, flow, out),
            Gaps::Inspect => {
                self.pass_over(way, segment.first, flow);
                match State(flow.words).has(done(way)) {
                    true => out.forward(packet),
                    false => self.next(packet, segment, 0, flow, out),
                }
            }
        }
    }

    /// A packet that is no TCP: its payload is a stream of its own.
    pub(super) fn datagram(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let (way, bytes) = (packet.direction, packet.layout.payload_bytes() as u32);
        let mut state = State(flow.words);
        if state.has(done(way)) {
            state.set_last_seen(flow.now.ticks());
            return out.forward(packet);
        }
        if bytes == 0 || self.is_clean(packet.payload()) {
            return out.forward(packet);
        }
        state.set(DATAGRAMS | tracked(way));
        if state.has(tracked(other(way))) {
            state.confirm();
        }
        let next = state.next(way).saturating_add(bytes);
        state.set_next(way, next);
        state.end_at(way, self.config.depth.bytes());
        state.set_last_seen(flow.now.ticks());
        self.look_apart(packet, flow, out);
    }
}

/// Both ends take part once one of them acknowledges what the other has sent: of a direction that was
/// picked up nobody knows how much that is.
fn confirm(segment: Segment, flow: &mut Flow<'_>) {
    let (asked, mut state) = (other(segment.way), State(flow.words));
    if !segment.has(ACK) || !state.has(tracked(asked)) {
        return;
    }
    let behind = ahead(state.next(asked), segment.acknowledged);
    if state.has(picked_up(asked)) || (0..=HEARD_BYTES).contains(&behind) {
        return state.confirm();
    }
    let is_next = state.has(tracked(segment.way)) && segment.first == state.next(segment.way);
    if is_next && !state.has(CONFIRMED | picked_up(segment.way) | missing(asked)) {
        // The answer to its SYN that it has taken is another than the one that was seen.
        state.start(asked, segment.acknowledged);
        state.confirm();
    }
}

/// Whether a SYN with ACK is of no connection that could be: another one lives, and nobody has sent a SYN
/// that this could be the answer to.
fn contradicts(segment: Segment, state: &State<'_>) -> bool {
    let (way, asked) = (segment.way, other(segment.way));
    let sent = ahead(state.next(asked), state.first(asked));
    let taken = ahead(segment.acknowledged, state.first(asked));
    let is_asked = (0..=sent).contains(&taken);
    let is_another = state.has(tracked(way)) || state.has(tracked(asked)) && !is_asked;
    is_another && !state.has(CLOSED) && !state.may_be_answered_anew(asked)
}

/// A RST ends the connection where its receiver believes it (RFC 5961 §3.2).
fn reset(segment: Segment, flow: &mut Flow<'_>) {
    let (way, mut state) = (segment.way, State(flow.words));
    let is_believed = match state.has(tracked(way)) {
        true => segment.first == state.next(way),
        false => segment.has(ACK) && segment.acknowledged == state.next(other(way)),
    };
    if state.is_known() && is_believed {
        state.set(CLOSED);
    }
}
