//! What the switch does with frames: split, park, take headers back, join, in the time of a port
//! that runs in a circle.

use crate::buffer::{Answer, Dequeued, End, Followed, Load, PayloadBuffer, Received, Refusal};
use crate::config::{Config, ConfigError};
use crate::port::{Port, PortConfig};
use twinpath_core::split::{
    DepartingFrame, Left, Outgoing, Output, PayloadStage, Sent, Unfit, cut, cut_at, join, split,
};
use twinpath_core::wire::Layout;
use twinpath_core::{DropReason, Frame, Instant, Pools, Ticket};

/// A parking queue of frames, and the port that it belongs to.
#[derive(Debug)]
pub struct ParkingStage {
    buffer: PayloadBuffer<DepartingFrame, DepartingFrame>,
    port: Port,
    /// Whether somebody may ask for checksums.
    verifies: bool,
    counts: StageCounters,
}

/// What a stage counts beside its [`PayloadBuffer`]. Packets that went to the slow path whole are in one of the
/// first five.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct StageCounters {
    /// Whole: too little payload.
    pub small: u64,
    /// Whole: no TCP or UDP packet in one piece, or one whose time to live ends.
    pub unsuited: u64,
    /// Whole: no buffer for the header.
    pub no_buffer: u64,
    /// Whole: the queue or the slots had no room.
    pub no_room: u64,
    /// Whole: the frame has flow state with it, and the queue no room, where packets are dropped.
    pub with_state: u64,
    /// Dropped: the queue or the slots had no room.
    pub refused: u64,
    /// Bytes that were parked instead of going to the slow path.
    pub parked_bytes: u64,
    /// Packets whose new header was too long for the room in front of their payload.
    pub header_too_long: u64,
    /// Headers whose packets the workers or the fast path had dropped, after the payload was given up.
    pub dropped_late: u64,
    /// Most bytes that were ever in the queue.
    pub most_queue_bytes: u64,
    /// Later fragments that left while nothing was known of their datagrams, and so of their flows.
    pub fragments_alone: u64,
}

impl StageCounters {
    /// Packets that went to the slow path whole.
    pub fn whole(&self) -> u64 {
        self.small + self.unsuited + self.no_buffer + self.no_room + self.with_state
    }
}

impl Load for DepartingFrame {
    fn bytes(&self) -> u32 {
        Load::bytes(&self.frame)
    }
}

impl ParkingStage {
    /// An empty stage.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: Config, port: PortConfig) -> Result<Self, ConfigError> {
        let mut stage = Self {
            buffer: PayloadBuffer::new(config)?,
            port: Port::new(port),
            verifies: true,
            counts: StageCounters::default(),
        };
        stage.set_lossless(false);
        Ok(stage)
    }

    fn park(
        &mut self,
        frame: Frame,
        layout: &Layout,
        at: usize,
        now: Instant,
        pools: &mut Pools,
    ) -> Sent {
        let (mut header, payload) = match split(frame, layout, at, self.verifies, pools) {
            Ok(parts) => parts,
            Err(frame) => {
                self.counts.no_buffer += 1;
                return Sent::Whole(frame);
            }
        };
        let bytes = payload.len() as u64;
        let departing = DepartingFrame {
            frame: payload,
            is_reply: false,
        };
        self.port.begins(&mut self.buffer, now);
        match self.buffer.park(departing, 0, now) {
            Ok(ticket) => {
                header.set_ticket(ticket);
                self.counts.parked_bytes += bytes;
                self.note_queue();
                Sent::Header(header)
            }
            Err(refused) => {
                // There was room, so this does not happen.
                pools.give(header);
                self.counts.refused += 1;
                Sent::Refused(refused.payload.frame)
            }
        }
    }

    fn without_room(&mut self, frame: Frame, refusal: Refusal, has_state: bool) -> Sent {
        self.buffer.count_refusal(refusal);
        match (self.port.config().drops_overflow, has_state) {
            (false, _) => self.counts.no_room += 1,
            (true, true) => self.counts.with_state += 1,
            (true, false) => {
                self.counts.refused += 1;
                return Sent::Refused(frame);
            }
        }
        Sent::Whole(frame)
    }

    fn follow(&mut self, departing: DepartingFrame, flow_hash: u64, now: Instant) -> Left {
        self.port.begins(&mut self.buffer, now);
        match self.buffer.wait_behind(departing, flow_hash, now) {
            Followed::Leaves(departing) => Left::Now(departing),
            Followed::Waits => {
                self.note_queue();
                Left::Waits
            }
            Followed::Refused(departing) => Left::Dropped(departing.frame, DropReason::ParkingFull),
        }
    }

    fn note_queue(&mut self) {
        let most = &mut self.counts.most_queue_bytes;
        *most = self.buffer.queue_bytes().max(*most);
    }

    fn output(&mut self, dequeued: Dequeued<DepartingFrame, DepartingFrame>) -> Option<Output> {
        Some(match dequeued {
            // The port keeps these to itself.
            Dequeued::Copy | Dequeued::Again(_) => return None,
            Dequeued::Whole(departing) => Output::Packet(departing, None),
            Dequeued::Ended { payload, end } => match end {
                End::Declined => Output::Freed(payload.frame),
                End::Expired | End::Late => Output::Lost(payload.frame, DropReason::HeaderMissing),
            },
            Dequeued::Depart {
                payload, header, ..
            } => self.joined(header, payload.frame),
        })
    }

    fn joined(&mut self, header: DepartingFrame, payload: Frame) -> Output {
        let DepartingFrame { frame, is_reply } = header;
        match join(frame, payload) {
            Ok((frame, spare)) => Output::Packet(DepartingFrame { frame, is_reply }, Some(spare)),
            Err((header, payload)) => {
                self.counts.header_too_long += 1;
                Output::HeaderTooLong(header, payload)
            }
        }
    }

    /// Whether nothing waits here.
    pub fn is_empty(&self) -> bool {
        self.buffer.head_bytes().is_none()
    }

    /// See [`PayloadBuffer`].
    pub fn buffer(&self) -> &PayloadBuffer<DepartingFrame, DepartingFrame> {
        &self.buffer
    }

    /// What the stage itself has counted.
    pub fn counters(&self) -> &StageCounters {
        &self.counts
    }
}

impl PayloadStage for ParkingStage {
    /// Where nothing may be lost packets that must follow others are never dropped for want of room (see
    /// [`PayloadBuffer::set_followers_limit`]). Else they take as much again as payloads may, where
    /// what has no room crosses whole, and then are dropped.
    fn set_lossless(&mut self, is_lossless: bool) {
        let limit_bytes = self.buffer.config().limit_bytes;
        let most = match (is_lossless, self.port.config().drops_overflow) {
            (true, _) => u64::MAX,
            (false, true) => limit_bytes,
            (false, false) => 2 * limit_bytes,
        };
        self.buffer.set_followers_limit(most);
    }

    fn set_verifying(&mut self, verifies: bool) {
        self.verifies = verifies;
    }

    fn send(&mut self, outgoing: Outgoing<'_>, now: Instant, pools: &mut Pools) -> Sent {
        let Outgoing {
            frame,
            layout,
            has_state,
            ..
        } = outgoing;
        let least_bytes = self.buffer.config().least_payload_bytes as usize;
        let at = match cut_at(frame.bytes(), layout, least_bytes) {
            Ok(at) => at,
            Err(unfit) => {
                *match unfit {
                    Unfit::Unsuited => &mut self.counts.unsuited,
                    Unfit::Small => &mut self.counts.small,
                } += 1;
                return Sent::Whole(frame);
            }
        };
        if let Err(refusal) = self.buffer.check_room((frame.len() - at) as u32) {
            return self.without_room(frame, refusal, has_state);
        }
        self.park(frame, layout, at, now, pools)
    }

    fn came_back(&mut self, ticket: Ticket) {
        self.buffer.came_back(ticket);
    }

    fn goes_again(&mut self, ticket: Ticket, now: Instant) {
        self.buffer.goes_again(ticket, now);
    }

    fn dropped(&mut self, ticket: Ticket, now: Instant) {
        let received = self.buffer.answered(ticket, Answer::Dropped, now);
        self.counts.dropped_late += u64::from(received == Received::Stale);
    }

    fn may_hold_back(&self) -> bool {
        self.buffer.keeps_order()
    }

    fn fragment_alone(&mut self) {
        self.counts.fragments_alone += 1;
    }

    fn asks_for_flow(&self, frame: &Frame) -> bool {
        let is_header = frame.metadata().parked_bytes != 0;
        is_header && self.buffer.keeps_order() || self.buffer.may_hold_back()
    }

    fn leave(
        &mut self,
        mut departing: DepartingFrame,
        flow: u64,
        now: Instant,
        _pools: &mut Pools,
    ) -> Left {
        if departing.frame.metadata().parked_bytes == 0 {
            return self.follow(departing, flow, now);
        }
        let ticket = departing.frame.ticket();
        if !cut(&mut departing.frame) {
            self.dropped(ticket, now);
            return Left::Stale;
        }
        let answer = Answer::Header(departing);
        match self.buffer.answered_for(ticket, answer, flow, now) {
            Received::Kept => Left::Waits,
            Received::Doubled | Received::Stale => Left::Stale,
        }
    }

    /// Lets the port go on, to the next thing that leaves or ends, or to `until`.
    fn pass(&mut self, until: Instant) -> Option<(Instant, Output)> {
        let (at, dequeued) = self.port.pass(&mut self.buffer, until)?;
        Some((at, self.output(dequeued)?))
    }
}
