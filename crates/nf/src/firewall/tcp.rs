//! TCP segments.

use twinpath_core::key::Role;
use twinpath_core::{DropReason, Packet};
use twinpath_slowpath::Flow;

use super::connection::{Connection, Phase};
use super::function::{Checked, Firewall};
use super::segment::Segment;
use super::tcp_state::{End, SegmentKind, TcpState, Transition, transition};
use super::window::{WindowVerdict, Windows};

impl Firewall {
    pub(super) fn segment(&mut self, packet: &Packet, flow: &mut Flow<'_>) -> Checked {
        let known = Connection::load(flow.words);
        let segment = Segment::of(packet);
        let state = known.map_or(TcpState::None, |connection| connection.state_at(&segment));
        let kind = known.map_or(segment.kind, |connection| connection.kind_of(&segment));
        let sender = known.map_or(End::Opener, |connection| {
            connection.sender(segment.direction)
        });
        if is_odd_part(packet, segment.kind) {
            return Err(DropReason::Fragment);
        }
        let leaves_gap = known.is_some_and(|connection| connection.windows.leaves_gap(&segment));
        if leaves_gap || changes_more_than_windows(state, segment.kind) {
            self.verify(packet)?;
        }
        match (transition(state, sender, kind), known) {
            (Transition::To(next), Some(connection)) => {
                self.proceed(connection, sender, next, &segment, flow)
            }
            (Transition::Open, _) => {
                self.open_tcp(packet, TcpState::SynSent, Windows::open(&segment), flow)
            }
            (Transition::PickUp, _) if self.pick_up => {
                self.pick_up_tcp(packet, known, &segment, flow)
            }
            (Transition::Ignore, _) => {
                self.counters.challenged += 1;
                Ok(())
            }
            (Transition::To(_) | Transition::PickUp | Transition::Invalid, _) => {
                Err(self.invalid())
            }
        }
    }

    /// A connection that is met in mid-stream: unknown so far, or of which the opener goes on
    /// after a SYN whose answer was not seen.
    fn pick_up_tcp(
        &mut self,
        packet: &Packet,
        known: Option<Connection>,
        segment: &Segment,
        flow: &mut Flow<'_>,
    ) -> Checked {
        let scale = known.map(|connection| connection.windows.scale_of_syn_before(segment));
        if scale == Some(None) {
            return self.out_of_window();
        }
        let windows = Windows::pick_up(segment, scale.flatten());
        match known {
            None => self.open_tcp(packet, TcpState::PickedUp, windows, flow)?,
            // It was counted when its SYN came, also for its host.
            Some(_) => {
                self.check_rules(packet)?;
                let state = TcpState::PickedUp;
                let timeout = self.tcp_timeout(state);
                Self::remember(packet, Phase::Tcp(state), timeout, windows, flow);
            }
        }
        self.counters.picked_up += 1;
        Ok(())
    }

    /// Goes on to the next state if the segment's numbers are believable.
    fn proceed(
        &mut self,
        mut connection: Connection,
        sender: End,
        next: TcpState,
        segment: &Segment,
        flow: &mut Flow<'_>,
    ) -> Checked {
        let state = connection.state_at(segment);
        let is_blind = state == TcpState::Answered
            && sender == End::Opener
            && segment.kind != SegmentKind::Reset
            && !connection.windows.hears_the_other_end(segment);
        let next = if is_blind { state } else { next };
        match connection.windows.judge(state, sender, segment) {
            WindowVerdict::Believed => {
                connection.phase = Phase::Tcp(next);
                connection.timeout = self.tcp_timeout(next);
                connection.last_seen = flow.now.ticks();
                connection.store(flow.words);
                Ok(())
            }
            WindowVerdict::Challenged => {
                self.counters.challenged += 1;
                Ok(())
            }
            WindowVerdict::Refused => {
                self.out_of_window()?;
                connection.last_seen = flow.now.ticks();
                connection.store(flow.words);
                Ok(())
            }
        }
    }

    fn out_of_window(&mut self) -> Checked {
        self.counters.out_of_window += 1;
        match self.liberal {
            true => Ok(()),
            false => Err(self.invalid()),
        }
    }

    fn tcp_timeout(&self, state: TcpState) -> u32 {
        match state {
            // One that is met in mid-stream may be old, and the end that it was met by may have said
            // its last for long.
            TcpState::Established | TcpState::Answered => self.timeouts.tcp_established.ticks(),
            TcpState::Closed => self.timeouts.tcp_closed.ticks(),
            state if state.is_half_open() => self.timeouts.tcp_half_open.ticks(),
            _ => self.timeouts.tcp_transitory.ticks(),
        }
    }

    fn open_tcp(
        &mut self,
        packet: &Packet,
        state: TcpState,
        windows: Windows,
        flow: &mut Flow<'_>,
    ) -> Checked {
        self.open(
            packet,
            Phase::Tcp(state),
            self.tcp_timeout(state),
            windows,
            flow,
        )
    }

    /// Refuses a packet whose checksum is wrong, where checksums are verified.
    pub(super) fn verify(&mut self, packet: &Packet) -> Checked {
        match !self.checksums.of_state() || packet.checksums_hold() {
            true => Ok(()),
            false => {
                self.counters.bad_checksums += 1;
                Err(DropReason::BadChecksum)
            }
        }
    }
}

/// Whether a packet is the first part of a segment that no TCP sends in parts: such as open or reset
/// a connection and have no room to be long.
fn is_odd_part(packet: &Packet, kind: SegmentKind) -> bool {
    let opens_or_resets = matches!(
        kind,
        SegmentKind::Syn | SegmentKind::SynAck | SegmentKind::Reset
    );
    packet.role == Role::Fragment && opens_or_resets
}

/// Whether a segment may do more to a connection than move its windows on. Data and
/// acknowledgements of an established one do not, unless they leave a gap; the others the fast path
/// forwards too.
const fn changes_more_than_windows(state: TcpState, kind: SegmentKind) -> bool {
    !matches!((state, kind), (TcpState::Established, SegmentKind::Ack))
}
