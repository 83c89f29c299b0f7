//! The mechanism: what is parked, what waits for what, and who leaves.

use crate::config::{Config, ConfigError, Late, Order, Variant};
use crate::controller::{Controller, Reading};
use crate::latency::Fit;
use crate::order::Partitions;
use crate::queue::ByteQueue;
use crate::slots::{Awaited, Slots};
use crate::stats::Stats;
use crate::ticket::Ticket;
use twinpath_core::{Frame, Instant};

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
pub struct Lot<P, H> {
    config: Config,
    queue: ByteQueue<Waiting<P>>,
    slots: Slots<H>,
    order: Option<Partitions>,
    controller: Option<Controller>,
    /// Bytes of payloads on their way from the queue's head to its tail: their room is kept.
    going_round_bytes: u64,
    stats: Stats,
}

#[derive(Debug)]
enum Waiting<P> {
    Payload(Resident<P>),
    Copy,
}

/// A payload in the lot. Between [`Dequeued::Again`] and [`Lot::recirculated`] the device has it.
#[derive(Debug)]
pub struct Resident<P> {
    ticket: Ticket,
    payload: P,
    passes: u32,
    is_joined: bool,
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

/// What the cores say of a packet.
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

/// What came out of the queue.
#[derive(Debug)]
pub enum Dequeued<P, H> {
    /// A packet leaves: its payload and its own new header.
    Depart {
        /// What was parked.
        payload: P,
        /// What the cores made of its header.
        header: H,
        /// When it was parked.
        parked_at: Instant,
        /// How often it went round before.
        recirculations: u32,
    },
    /// A payload must go round: through the port in loopback mode, then [`Lot::recirculated`].
    Again(Resident<P>),
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
    /// The cores dropped the packet.
    Declined,
    /// No header within the patience.
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

impl<P: Load, H> Lot<P, H> {
    /// An empty lot.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let order = match config.order {
            Order::None => None,
            Order::ByFlow { partitions, window } => Some(Partitions::new(partitions, window)),
        };
        let most_bytes = config.limit_bytes.saturating_sub(ROOM_BYTES);
        let controller = match &config.variant {
            Variant::Recirculation => None,
            Variant::Multicast(multicast) => Some(Controller::new(multicast.clone(), most_bytes)),
        };
        Ok(Self {
            queue: ByteQueue::new(),
            slots: Slots::new(config.slots),
            order,
            controller,
            going_round_bytes: 0,
            stats: Stats::default(),
            config,
        })
    }

    /// Parks the payload of a packet that arrives now. Its header goes to the cores with the ticket.
    ///
    /// # Errors
    /// The payload comes back with the reason, which is counted.
    pub fn park(&mut self, payload: P, flow_hash: u64, now: Instant) -> Result<Ticket, Refused<P>> {
        let bytes = payload.bytes();
        match self.admit(bytes, flow_hash, now) {
            Ok(ticket) => {
                self.stats.parked += 1;
                self.fill(bytes, now);
                self.join(Resident {
                    ticket,
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

    /// An answer of the cores came back.
    pub fn answered(&mut self, ticket: Ticket, answer: Answer<H>, now: Instant) -> Received {
        let Some(record) = self.slots.find(ticket) else {
            self.stats.headers_stale += 1;
            if self.slots.take_missed(ticket) {
                self.learn_latency(ticket, now);
            }
            return Received::Stale;
        };
        if !matches!(record.awaited, Awaited::Away) {
            self.stats.headers_doubled += 1;
            return Received::Doubled;
        }
        match answer {
            Answer::Header(header) => record.awaited = Awaited::Here(header),
            Answer::Dropped => {
                record.awaited = Awaited::Declined;
                // Who comes after it need not wait until its payload is at the head.
                let place = record.place.take();
                self.pass(place);
            }
        }
        self.stats.headers += 1;
        self.learn_latency(ticket, now);
        Received::Kept
    }

    /// Takes what is at the head of the queue, when the port is free to send it. Whatever it is, the
    /// port is busy with it for as long as [`Self::head_bytes`] said before.
    pub fn dequeue(&mut self, now: Instant) -> Option<Dequeued<P, H>> {
        let (bytes, waiting) = self.queue.pop()?;
        let Waiting::Payload(mut resident) = waiting else {
            return Some(Dequeued::Copy);
        };
        Some(match self.turn(&mut resident, now) {
            Turn::Leave => self.leave(resident),
            Turn::End(end) => self.end(resident, end),
            Turn::Again => {
                resident.passes += 1;
                self.stats.recirculations += 1;
                self.going_round_bytes += u64::from(bytes);
                Dequeued::Again(resident)
            }
        })
    }

    /// A payload that had to go round is back at the tail. It always fits: its room was kept.
    pub fn recirculated(&mut self, resident: Resident<P>) {
        self.going_round_bytes -= u64::from(resident.payload.bytes());
        self.join(resident);
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

    /// The queue now. A device hands it to [`Lot::learn`] when its control logic would have it.
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

    /// Whether the buffer is large enough for the cores' latency; `None` without a controller.
    pub fn fit(&self) -> Option<Fit> {
        self.controller.as_ref().map(Controller::fit)
    }

    /// What has been counted.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How the lot was made.
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
        let place = match &mut self.order {
            None => None,
            Some(order) => Some(order.number(flow_hash).ok_or(Refusal::WindowFull)?),
        };
        self.slots.take(place, now).ok_or(Refusal::NoSlot)
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.queue.bytes() + self.going_round_bytes + bytes <= self.config.limit_bytes
    }

    fn refusals(&mut self, refusal: Refusal) -> &mut u64 {
        match refusal {
            Refusal::QueueFull => &mut self.stats.queue_full,
            Refusal::NoSlot => &mut self.stats.no_slot,
            Refusal::WindowFull => &mut self.stats.window_full,
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
        self.stats.copies_limited += u64::from(allowed < wanted);
        self.stats.target_beyond_buffer += u64::from(is_too_small);
        for _ in 0..allowed {
            // The packet itself must still fit.
            if !self.has_room(2 * u64::from(bytes)) {
                self.stats.copies_no_room += 1;
                break;
            }
            self.queue.push(bytes, Waiting::Copy);
            self.stats.copies += 1;
            self.stats.copy_bytes += u64::from(bytes);
        }
    }

    fn join(&mut self, resident: Resident<P>) {
        self.queue
            .push(resident.payload.bytes(), Waiting::Payload(resident));
    }

    fn turn(&mut self, resident: &mut Resident<P>, now: Instant) -> Turn {
        let Some(record) = self.slots.find(resident.ticket) else {
            // A resident holds its slot until it ends, so this does not happen.
            return Turn::End(End::Expired);
        };
        match record.awaited {
            Awaited::Declined => Turn::End(End::Declined),
            Awaited::Away => self.without_header(resident.ticket, now),
            Awaited::Here(_) if resident.is_joined => Turn::Leave,
            Awaited::Here(_) => {
                let place = record.place;
                let is_next = match (&self.order, place) {
                    (Some(order), Some(place)) => order.is_next(place),
                    _ => true,
                };
                match is_next {
                    true => self.joined(resident),
                    false => self.not_next(),
                }
            }
        }
    }

    fn without_header(&self, ticket: Ticket, now: Instant) -> Turn {
        if now.since(ticket.parked_at) >= self.config.patience {
            return Turn::End(End::Expired);
        }
        match self.goes_round() {
            true => Turn::Again,
            false => Turn::End(End::Late),
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

    fn joined(&mut self, resident: &mut Resident<P>) -> Turn {
        let record = self.slots.find(resident.ticket);
        let place = record.and_then(|record| record.place.take());
        self.pass(place);
        if !self.config.cores_choose_port {
            return Turn::Leave;
        }
        resident.is_joined = true;
        self.stats.port_passes += 1;
        Turn::Again
    }

    fn leave(&mut self, resident: Resident<P>) -> Dequeued<P, H> {
        let record = self.slots.release(resident.ticket);
        let Some(Awaited::Here(header)) = record.map(|record| record.awaited) else {
            // Only who has a header leaves.
            return self.counted_end(resident.payload, End::Expired);
        };
        self.stats.departed += 1;
        Dequeued::Depart {
            payload: resident.payload,
            header,
            parked_at: resident.ticket.parked_at,
            recirculations: resident.passes,
        }
    }

    fn end(&mut self, resident: Resident<P>, end: End) -> Dequeued<P, H> {
        let record = match end {
            End::Declined => self.slots.release(resident.ticket),
            End::Expired | End::Late => self.slots.release_missed(resident.ticket),
        };
        let place = record.and_then(|record| record.place);
        self.pass(place);
        self.counted_end(resident.payload, end)
    }

    fn counted_end(&mut self, payload: P, end: End) -> Dequeued<P, H> {
        match end {
            End::Declined => self.stats.declined += 1,
            End::Expired => self.stats.expired += 1,
            End::Late => self.stats.late += 1,
        }
        Dequeued::Ended { payload, end }
    }

    fn pass(&mut self, place: Option<crate::order::Place>) {
        if let (Some(order), Some(place)) = (&mut self.order, place) {
            order.pass(place);
        }
    }

    fn learn_latency(&mut self, ticket: Ticket, now: Instant) {
        if let Some(controller) = &mut self.controller {
            controller.header_took(now.since(ticket.parked_at));
        }
    }
}

#[cfg(test)]
mod tests;
