//! The mechanism: what is parked, what waits for what, and who leaves.

use crate::config::{Config, ConfigError, Late, Order, Variant};
use crate::controller::{Controller, Reading};
use crate::counters::BufferCounters;
use crate::followers::Followers;
use crate::latency::Fit;
use crate::order::{Numbers, Partitions, Position, Turns};
use crate::queue::ByteQueue;
use crate::slots::{Awaited, Slots};
use twinpath_core::{Frame, Instant, Ticket};

/// The shortest packet on a wire: what an empty payload takes in a queue, in bytes.
pub const LEAST_WIRE_BYTES: u32 = 64;
/// Below the limit by this much is the longest that a controller holds a queue, in bytes.
const ROOM_BYTES: u64 = 2048;

/// Something that takes room in a queue.
pub trait Load {
    /// How much, in bytes.
    fn bytes(&self) -> u32;
}

impl Load for Frame {
    fn bytes(&self) -> u32 {
        (self.len() as u32).max(LEAST_WIRE_BYTES)
    }
}

/// A size alone, for who needs no bytes.
impl Load for u32 {
    fn bytes(&self) -> u32 {
        *self
    }
}

/// Parked payloads `P` and the headers `H` that came back for them.
#[derive(Debug)]
pub struct PayloadBuffer<P, H> {
    config: Config,
    queue: ByteQueue<Waiting<P>>,
    slots: Slots<H>,
    numbers: Numbers,
    controller: Option<Controller>,
    /// Bytes of payloads on their way from the queue's head to its tail: their room is kept.
    going_round_bytes: u64,
    /// Whole packets that must wait for others, where nothing goes round.
    followers: Followers<ParkedPayload<P>>,
    /// Most bytes in the queue when a whole packet joins that must wait for others.
    followers_limit_bytes: u64,
    counters: BufferCounters,
}

#[derive(Debug)]
enum Waiting<P> {
    Payload(ParkedPayload<P>),
    /// The place of a whole packet of the flow with this hash.
    Follower(u64),
    Copy,
}

/// A payload in the buffer. Between [`Dequeued::Again`] and [`PayloadBuffer::recirculated`] the device has it.
#[derive(Debug)]
pub struct ParkedPayload<P> {
    claim: Claim,
    parked_at: Instant,
    payload: P,
    passes: u32,
    is_joined: bool,
}

/// What a resident waits for.
#[derive(Copy, Clone, Debug)]
enum Claim {
    /// Its header.
    Header(Ticket),
    /// Its turn alone: it is whole.
    Turn(Position),
}

/// A packet that was not parked; its payload comes back.
#[derive(Debug)]
pub struct Refused<P> {
    /// The payload.
    pub payload: P,
    /// Why.
    pub refusal: Refusal,
}

/// Why a packet was not parked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The queue has no room for it.
    QueueFull,
    /// All slots are taken.
    NoSlot,
    /// Its partition has too many packets under way.
    WindowFull,
}

/// What the workers say of a packet.
#[derive(Debug)]
pub enum Answer<H> {
    /// Its new header.
    Header(H),
    /// It is dropped.
    Dropped,
}

/// What became of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// It waits for its payload.
    Kept,
    /// There was one already.
    Doubled,
    /// The payload is not there any more.
    Stale,
}

/// What becomes of a whole packet that is about to leave.
#[derive(Debug)]
pub enum Followed<P> {
    /// It leaves now.
    Leaves(P),
    /// It has joined the queue behind packets that it must not overtake.
    Waits,
    /// It would have to, but there is no room.
    Refused(P),
}

/// What came out of the queue.
#[derive(Debug)]
pub enum Dequeued<P, H> {
    /// A packet leaves: its payload and its own new header.
    Depart {
        /// What was parked.
        payload: P,
        /// What the workers made of its header.
        header: H,
        /// When it was parked.
        parked_at: Instant,
        /// How often it went round before.
        recirculations: u32,
    },
    /// A whole packet leaves, which had to wait for others.
    Whole(P),
    /// A payload must go round: through the port in loopback mode, then [`PayloadBuffer::recirculated`].
    Again(ParkedPayload<P>),
    /// A payload is given up.
    Ended {
        /// What was parked.
        payload: P,
        /// Why.
        end: End,
    },
    /// A copy, which has done its work.
    Copy,
}

/// Why a payload is given up.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The workers dropped the packet.
    Declined,
    /// No header in time.
    Expired,
    /// No header when it came out, and no second pass.
    Late,
}

/// What a payload at the head of the queue does.
enum Turn {
    Leave,
    Again,
    End(End),
}

impl<P: Load, H> PayloadBuffer<P, H> {
    /// An empty buffer.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let numbers = match config.order {
            Order::None => Numbers::None,
            Order::ByFlow { partitions, window } => {
                Numbers::AtArrival(Partitions::new(partitions, window))
            }
            Order::AsReturned => Numbers::AtReturn(Turns::default()),
        };
        let most_bytes = config.limit_bytes.saturating_sub(ROOM_BYTES);
        let controller = match &config.variant {
            Variant::Recirculation => None,
            Variant::Multicast(multicast) => Some(Controller::new(multicast.clone(), most_bytes)),
        };
        Ok(Self {
            queue: ByteQueue::new(),
            slots: Slots::new(config.slots),
            numbers,
            controller,
            going_round_bytes: 0,
            followers: Followers::new(),
            followers_limit_bytes: config.limit_bytes,
            counters: BufferCounters::default(),
            config,
        })
    }

    /// Parks the payload of a packet that arrives now. Its header goes to the slow path with the ticket.
    ///
    /// # Errors
    /// The payload comes back with the reason, which is counted.
    pub fn park(&mut self, payload: P, flow_hash: u64, now: Instant) -> Result<Ticket, Refused<P>> {
        let bytes = payload.bytes();
        match self.admit(bytes, flow_hash, now) {
            Ok(ticket) => {
                self.counters.parked += 1;
                self.fill(bytes, now);
                self.join(ParkedPayload {
                    claim: Claim::Header(ticket),
                    parked_at: now,
                    payload,
                    passes: 0,
                    is_joined: false,
                });
                Ok(ticket)
            }
            Err(refusal) => {
                *self.refusals(refusal) += 1;
                Err(Refused { payload, refusal })
            }
        }
    }

    /// A header came back from the slow path, and goes on: perhaps to other workers, perhaps only when
    /// others have passed. It is not lost, so its payload's timeout does not run.
    pub fn came_back(&mut self, ticket: Ticket) {
        if let Some(record) = self.slots.find(ticket)
            && matches!(record.awaited, Awaited::Away(_))
        {
            record.awaited = Awaited::Between;
        }
    }

    /// The header goes to the slow path again.
    pub fn goes_again(&mut self, ticket: Ticket, now: Instant) {
        if let Some(record) = self.slots.find(ticket)
            && matches!(record.awaited, Awaited::Between)
        {
            record.awaited = Awaited::Away(now);
        }
    }

    /// An answer of the slow path came back.
    pub fn answered(&mut self, ticket: Ticket, answer: Answer<H>, now: Instant) -> Received {
        self.answered_for(ticket, answer, 0, now)
    }

    /// The same for a packet of the flow with this hash, which matters where packets are numbered
    /// when their headers are back.
    pub fn answered_for(
        &mut self,
        ticket: Ticket,
        answer: Answer<H>,
        flow_hash: u64,
        now: Instant,
    ) -> Received {
        let Some(record) = self.slots.find(ticket) else {
            self.counters.headers_stale += 1;
            if let Some(parked_at) = self.slots.take_missed(ticket) {
                self.learn_latency(parked_at, now);
            }
            return Received::Stale;
        };
        if !matches!(record.awaited, Awaited::Away(_) | Awaited::Between) {
            self.counters.headers_doubled += 1;
            return Received::Doubled;
        }
        match answer {
            Answer::Header(header) => {
                record.awaited = Awaited::Here(header);
                if let Numbers::AtReturn(turns) = &mut self.numbers {
                    record.place = Some(turns.number(flow_hash));
                    record.flow_hash = flow_hash;
                }
            }
            Answer::Dropped => {
                record.awaited = Awaited::Declined;
                // Who comes after it need not wait until its payload is at the head.
                let place = record.place.take();
                self.pass(place);
            }
        }
        self.counters.headers += 1;
        self.learn_latency(self.slots.parked_at(ticket), now);
        Received::Kept
    }

    /// How much of the queue whole packets may take that must wait for others; as much as it holds
    /// unless said. In a replay that must lose nothing there is no bound but that they are no more than
    /// are under way.
    pub fn set_followers_limit(&mut self, bytes: u64) {
        self.followers_limit_bytes = bytes;
    }

    /// A whole packet is about to leave. Where packets are numbered when their headers are back, it
    /// must not overtake those of its flow whose headers are.
    pub fn wait_behind(&mut self, packet: P, flow_hash: u64, now: Instant) -> Followed<P> {
        let has_room = self.has_room_of(packet.bytes().into(), self.followers_limit_bytes);
        let place = match &mut self.numbers {
            Numbers::AtReturn(turns) if turns.is_any_before(flow_hash) => match has_room {
                true => Some(turns.number(flow_hash)),
                false => {
                    self.counters.followers_refused += 1;
                    return Followed::Refused(packet);
                }
            },
            _ => None,
        };
        let Some(place) = place else {
            return Followed::Leaves(packet);
        };
        self.counters.followers += 1;
        let parked_payload = ParkedPayload {
            claim: Claim::Turn(place),
            parked_at: now,
            payload: packet,
            passes: 0,
            is_joined: false,
        };
        match self.goes_round() {
            true => self.join(parked_payload),
            false => {
                let bytes = parked_payload.payload.bytes();
                self.queue.push(bytes, Waiting::Follower(flow_hash));
                self.followers.push(flow_hash, parked_payload);
            }
        }
        Followed::Waits
    }

    /// Whether a payload of this size could be parked now, as far as queue and slots go.
    ///
    /// # Errors
    /// Why not. It is not counted.
    pub fn check_room(&self, bytes: u32) -> Result<(), Refusal> {
        if !self.has_room(bytes.max(LEAST_WIRE_BYTES).into()) {
            return Err(Refusal::QueueFull);
        }
        match self.slots.is_full() {
            true => Err(Refusal::NoSlot),
            false => Ok(()),
        }
    }

    /// Counts that a packet was not parked because of this.
    pub fn count_refusal(&mut self, refusal: Refusal) {
        *self.refusals(refusal) += 1;
    }

    /// Whether flows keep their order by numbers that are given when headers are back.
    pub fn keeps_order(&self) -> bool {
        matches!(self.numbers, Numbers::AtReturn(_))
    }

    /// Whether a packet that is about to leave might have to [wait behind](Self::wait_behind) another.
    pub fn may_hold_back(&self) -> bool {
        matches!(&self.numbers, Numbers::AtReturn(turns) if turns.is_any())
    }

    /// When the next header timeout ends, if nothing comes before.
    pub fn next_expiry(&self) -> Option<Instant> {
        let waits_since = |parked_payload: &ParkedPayload<P>| match parked_payload.claim {
            Claim::Header(ticket) => self.slots.away_since(ticket),
            Claim::Turn(_) => None,
        };
        let oldest = self.parked_payloads().filter_map(waits_since).min()?;
        Some(oldest + self.config.header_timeout)
    }

    /// Whether a payload waits for a header that [came back](Self::came_back) and goes on: no time that
    /// passes here ends that.
    pub fn is_any_between(&self) -> bool {
        self.parked_payloads().any(|payload| match payload.claim {
            Claim::Header(ticket) => self.slots.is_between(ticket),
            Claim::Turn(_) => false,
        })
    }

    /// What waits in the queue, but for whole packets where nothing goes round.
    fn parked_payloads(&self) -> impl Iterator<Item = &ParkedPayload<P>> {
        self.queue.items().filter_map(|waiting| match waiting {
            Waiting::Payload(payload) => Some(payload),
            Waiting::Follower(_) | Waiting::Copy => None,
        })
    }

    /// Counts passes that were not worth making: `rounds` of the whole queue, in which nothing
    /// happened.
    pub fn went_round(&mut self, rounds: u64) {
        self.counters.recirculations += rounds * self.queue.packets() as u64;
    }

    /// Takes what is at the head of the queue, when the port is free to send it. Whatever it is, the
    /// port is busy with it for as long as [`Self::head_bytes`] said before.
    pub fn dequeue(&mut self, now: Instant) -> Option<Dequeued<P, H>> {
        let (bytes, waiting) = self.queue.pop()?;
        let mut parked_payload = match waiting {
            Waiting::Payload(parked_payload) => parked_payload,
            Waiting::Copy => return Some(Dequeued::Copy),
            Waiting::Follower(flow) => {
                let follower = self.followers.take_in_turn(flow);
                // Who has left early leaves its place.
                return Some(follower.map_or(Dequeued::Copy, |follower| self.leave(follower)));
            }
        };
        if let Some(before) = self.follower_before(&parked_payload) {
            self.queue.put_back(bytes, Waiting::Payload(parked_payload));
            return Some(self.leave(before));
        }
        Some(match self.turn(&mut parked_payload, now) {
            Turn::Leave => self.leave(parked_payload),
            Turn::End(end) => self.end(parked_payload, end),
            Turn::Again => {
                parked_payload.passes += 1;
                self.counters.recirculations += 1;
                self.going_round_bytes += u64::from(bytes);
                Dequeued::Again(parked_payload)
            }
        })
    }

    /// Where nothing goes round, a whole packet that came back before the header of a payload may be
    /// behind that in the queue, for it had to wait for others, too. It is taken out of its turn.
    fn follower_before(&mut self, parked_payload: &ParkedPayload<P>) -> Option<ParkedPayload<P>> {
        let Claim::Header(ticket) = parked_payload.claim else {
            return None;
        };
        if self.goes_round() || !self.keeps_order() {
            return None;
        }
        let record = self.slots.find(ticket)?;
        let (place, flow) = (record.place?, record.flow_hash);
        let is_before = |other: &ParkedPayload<P>| other.is_before(place);
        self.followers.take_early(flow, is_before)
    }

    /// A payload that had to go round is back at the tail. It always fits: its room was kept.
    pub fn recirculated(&mut self, parked_payload: ParkedPayload<P>) {
        self.going_round_bytes -= u64::from(parked_payload.payload.bytes());
        self.join(parked_payload);
    }

    /// Size of what is at the head of the queue, in bytes: how long the port will need for it.
    pub fn head_bytes(&self) -> Option<u32> {
        self.queue.head_bytes()
    }

    /// Bytes in the queue.
    pub fn queue_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Packets in the queue, copies included.
    pub fn queue_packets(&self) -> usize {
        self.queue.packets()
    }

    /// The queue now. A device hands it to [`PayloadBuffer::learn`] when its control logic would have it.
    pub fn reading(&self, now: Instant) -> Reading {
        Reading {
            at: now,
            bytes: self.queue.bytes(),
            enqueued_bytes: self.queue.enqueued_bytes(),
        }
    }

    /// A reading of the queue has reached the controller.
    pub fn learn(&mut self, reading: Reading) {
        if let Some(controller) = &mut self.controller {
            controller.learn(reading);
        }
    }

    /// Whether the buffer is large enough for the slow path's latency; `None` without a controller.
    pub fn fit(&self) -> Option<Fit> {
        self.controller.as_ref().map(Controller::fit)
    }

    /// What has been counted.
    pub fn counters(&self) -> &BufferCounters {
        &self.counters
    }

    /// How the buffer was made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn admit(&mut self, bytes: u32, flow_hash: u64, now: Instant) -> Result<Ticket, Refusal> {
        if !self.has_room(bytes.into()) {
            return Err(Refusal::QueueFull);
        }
        if self.slots.is_full() {
            return Err(Refusal::NoSlot);
        }
        // Numbers are given to parked packets alone, so a refused one leaves no gap.
        let place = match &mut self.numbers {
            Numbers::None | Numbers::AtReturn(_) => None,
            Numbers::AtArrival(partitions) => {
                Some(partitions.number(flow_hash).ok_or(Refusal::WindowFull)?)
            }
        };
        self.slots.take(place, now).ok_or(Refusal::NoSlot)
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.has_room_of(bytes, self.config.limit_bytes)
    }

    fn has_room_of(&self, bytes: u64, limit_bytes: u64) -> bool {
        self.queue.bytes() + self.going_round_bytes + bytes <= limit_bytes
    }

    fn refusals(&mut self, refusal: Refusal) -> &mut u64 {
        match refusal {
            Refusal::QueueFull => &mut self.counters.queue_full,
            Refusal::NoSlot => &mut self.counters.no_slot,
            Refusal::WindowFull => &mut self.counters.window_full,
        }
    }

    /// Puts copies in front of a packet of this size. Behind it they would not delay it.
    fn fill(&mut self, bytes: u32, now: Instant) {
        let Some(controller) = &self.controller else {
            return;
        };
        let wanted = controller.copies(bytes, self.queue.enqueued_bytes(), now);
        let allowed = wanted.min(controller.config().most_copies.into());
        let is_too_small = matches!(controller.fit(), Fit::TooSmall { .. });
        self.counters.copies_limited += u64::from(allowed < wanted);
        self.counters.target_beyond_buffer += u64::from(is_too_small);
        for _ in 0..allowed {
            // The packet itself must still fit.
            if !self.has_room(2 * u64::from(bytes)) {
                self.counters.copies_no_room += 1;
                break;
            }
            self.queue.push(bytes, Waiting::Copy);
            self.counters.copies += 1;
            self.counters.copy_bytes += u64::from(bytes);
        }
    }

    fn join(&mut self, parked_payload: ParkedPayload<P>) {
        self.queue.push(
            parked_payload.payload.bytes(),
            Waiting::Payload(parked_payload),
        );
    }

    fn turn(&mut self, parked_payload: &mut ParkedPayload<P>, now: Instant) -> Turn {
        let ticket = match parked_payload.claim {
            Claim::Header(ticket) => ticket,
            Claim::Turn(place) => return self.turn_of(place),
        };
        let Some(record) = self.slots.find(ticket) else {
            // A resident holds its slot until it ends, so this does not happen.
            return Turn::End(End::Expired);
        };
        match record.awaited {
            Awaited::Declined => Turn::End(End::Declined),
            Awaited::Away(since) => self.without_header(now >= since + self.config.header_timeout),
            Awaited::Between => self.without_header(false),
            Awaited::Here(_) if parked_payload.is_joined => Turn::Leave,
            Awaited::Here(_) => {
                let is_next = match record.place {
                    Some(place) => self.may_leave(place),
                    None => true,
                };
                match is_next {
                    true => self.joined(parked_payload),
                    false => self.not_next(),
                }
            }
        }
    }

    fn turn_of(&self, place: Position) -> Turn {
        match self.may_leave(place) {
            true => Turn::Leave,
            false => Turn::Again,
        }
    }

    /// Where nothing goes round, the queue's own order is that of each flow's headers.
    fn may_leave(&self, place: Position) -> bool {
        let keeps_order = matches!(self.numbers, Numbers::AtReturn(_)) && !self.goes_round();
        keeps_order || self.numbers.is_next(place)
    }

    fn without_header(&self, is_over: bool) -> Turn {
        match (is_over, self.goes_round()) {
            (true, _) => Turn::End(End::Expired),
            (false, true) => Turn::Again,
            (false, false) => Turn::End(End::Late),
        }
    }

    /// Its header is here, but a packet of its flow is still in the queue behind it.
    fn not_next(&self) -> Turn {
        match self.goes_round() {
            true => Turn::Again,
            // The one before it came out earlier and left or was given up: this does not happen.
            false => Turn::End(End::Late),
        }
    }

    fn goes_round(&self) -> bool {
        let controller = self.controller.as_ref();
        controller.is_none_or(|controller| controller.config().late == Late::Again)
    }

    fn joined(&mut self, parked_payload: &mut ParkedPayload<P>) -> Turn {
        // Who follows may be whole, and would not have to make the last pass.
        if let (Numbers::AtArrival(_), Claim::Header(ticket)) =
            (&self.numbers, parked_payload.claim)
        {
            let record = self.slots.find(ticket);
            let place = record.and_then(|record| record.place.take());
            self.pass(place);
        }
        if !self.config.slow_path_chooses_port {
            return Turn::Leave;
        }
        parked_payload.is_joined = true;
        self.counters.port_passes += 1;
        Turn::Again
    }

    fn leave(&mut self, parked_payload: ParkedPayload<P>) -> Dequeued<P, H> {
        let ticket = match parked_payload.claim {
            Claim::Header(ticket) => ticket,
            Claim::Turn(place) => {
                self.numbers.pass(place);
                return Dequeued::Whole(parked_payload.payload);
            }
        };
        let record = self.slots.release(ticket);
        self.pass(record.as_ref().and_then(|record| record.place));
        let Some(Awaited::Here(header)) = record.map(|record| record.awaited) else {
            // Only who has a header leaves.
            return self.counted_end(parked_payload.payload, End::Expired);
        };
        self.counters.departed += 1;
        Dequeued::Depart {
            payload: parked_payload.payload,
            header,
            parked_at: parked_payload.parked_at,
            recirculations: parked_payload.passes,
        }
    }

    fn end(&mut self, parked_payload: ParkedPayload<P>, end: End) -> Dequeued<P, H> {
        let record = match (parked_payload.claim, end) {
            (Claim::Turn(_), _) => None,
            (Claim::Header(ticket), End::Declined) => self.slots.release(ticket),
            (Claim::Header(ticket), End::Expired | End::Late) => self.slots.release_missed(ticket),
        };
        let place = record.and_then(|record| record.place);
        self.pass(place);
        self.counted_end(parked_payload.payload, end)
    }

    fn counted_end(&mut self, payload: P, end: End) -> Dequeued<P, H> {
        match end {
            End::Declined => self.counters.declined += 1,
            End::Expired => self.counters.expired += 1,
            End::Late => self.counters.late += 1,
        }
        Dequeued::Ended { payload, end }
    }

    fn pass(&mut self, place: Option<Position>) {
        if let Some(place) = place {
            self.numbers.pass(place);
        }
    }

    fn learn_latency(&mut self, parked_at: Instant, now: Instant) {
        if let Some(controller) = &mut self.controller {
            controller.header_took(now.since(parked_at));
        }
    }
}

impl<P> ParkedPayload<P> {
    /// Whether it is a whole packet that must leave before the one at this place.
    fn is_before(&self, place: Position) -> bool {
        matches!(self.claim, Claim::Turn(own) if own.is_before(place))
    }

    /// What is parked.
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// Whether it has its header, and makes the one pass more that takes it to its port.
    pub(crate) fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// Since when.
    pub fn parked_at(&self) -> Instant {
        self.parked_at
    }
}

#[cfg(test)]
mod tests;
