//! What the switch does with frames: split, park, take headers back, join.

use crate::config::{Config, ConfigError, Small};
use crate::controller::Reading;
use crate::lot::{Answer, Dequeued, End, Lot, Received, Refusal, Resident};
use crate::messages::{Parked, Tag};
use crate::split::{header_bytes, join, split};
use crate::stats::Stats;
use twinpath_core::wire::Layout;
use twinpath_core::{Frame, Instant, Pool};

/// A parking queue of frames.
#[derive(Debug)]
pub struct Stage {
    lot: Lot<Frame, Frame>,
    counts: StageCounts,
}

/// What a stage counts beside its [`Lot`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct StageCounts {
    /// Packets that went to the cores whole.
    pub whole: u64,
    /// Packets without a buffer for their header.
    pub no_buffer: u64,
    /// Packets whose new header was too long for the room in front of their payload.
    pub header_too_long: u64,
    /// Frames from the cores that have no tag.
    pub bad_tag: u64,
}

/// What becomes of a packet that arrives.
#[derive(Debug)]
pub enum Sent {
    /// This frame goes to the cores: a header or a whole packet, with its tag.
    ToCores(Frame),
    /// The packet is dropped. The frame is for its pool; it may lack its header.
    Refused(Frame, NotSent),
}

/// Why a packet was not sent to the cores.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// The lot had no place.
    Lot(Refusal),
    /// The pool had no buffer for the header.
    NoBuffer,
}

/// What becomes of a frame from the cores.
#[derive(Debug)]
pub enum Returned {
    /// It was a header, which waits for its payload or is gone.
    Taken(Received),
    /// A whole packet leaves.
    Depart(Frame),
    /// There is nothing in it to keep. The frame is for its pool.
    Useless(Frame),
}

/// What came out of the queue.
#[derive(Debug)]
pub enum Output {
    /// A packet leaves; the second frame, which held the header, is for its pool.
    Depart(Frame, Frame),
    /// A payload goes through the loopback port, then to [`Stage::recirculated`].
    Again(Resident<Frame>),
    /// A payload is given up. The frame is for its pool.
    Ended(Frame, End),
    /// The new header did not fit in front of the payload. The frames are for their pool.
    HeaderTooLong(Frame, Frame),
    /// A copy: nothing.
    Copy,
}

impl Stage {
    /// An empty stage.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self {
            lot: Lot::new(config)?,
            counts: StageCounts::default(),
        })
    }

    /// A packet arrives: its header, or all of it, goes to the cores.
    pub fn packet(
        &mut self,
        frame: Frame,
        layout: &Layout,
        flow_hash: u64,
        now: Instant,
        pool: &mut Pool,
    ) -> Sent {
        let at = header_bytes(frame.bytes(), layout);
        let least = self.lot.config().least_payload_bytes as usize;
        let is_small = frame.len() - at < least;
        match (is_small, self.lot.config().small) {
            (false, _) => self.park(frame, at, flow_hash, now, pool),
            (true, Small::Token) => {
                self.counts.whole += 1;
                let all = frame.len();
                self.park(frame, all, flow_hash, now, pool)
            }
            (true, Small::Bypass) => self.bypass(frame),
        }
    }

    /// A frame from the cores is back.
    pub fn returned(&mut self, mut frame: Frame, now: Instant) -> Returned {
        let Ok(tag) = Tag::detach(&mut frame) else {
            self.counts.bad_tag += 1;
            return Returned::Useless(frame);
        };
        match tag {
            Tag::Whole => Returned::Depart(frame),
            Tag::Header(parked) => {
                let answer = Answer::Header(frame);
                Returned::Taken(self.lot.answered(parked.ticket, answer, now))
            }
            Tag::Dropped(parked) => {
                self.lot.answered(parked.ticket, Answer::Dropped, now);
                Returned::Useless(frame)
            }
        }
    }

    /// Takes what is at the head of the queue, when the port is free to send it.
    pub fn dequeue(&mut self, now: Instant) -> Option<Output> {
        Some(match self.lot.dequeue(now)? {
            Dequeued::Copy => Output::Copy,
            Dequeued::Again(resident) => Output::Again(resident),
            Dequeued::Ended { payload, end } => Output::Ended(payload, end),
            Dequeued::Depart {
                payload, header, ..
            } => match join(header, payload) {
                Ok((packet, spare)) => Output::Depart(packet, spare),
                Err((header, payload)) => {
                    self.counts.header_too_long += 1;
                    Output::HeaderTooLong(header, payload)
                }
            },
        })
    }

    /// A payload that had to go round is back.
    pub fn recirculated(&mut self, resident: Resident<Frame>) {
        self.lot.recirculated(resident);
    }

    /// See [`Lot::head_bytes`].
    pub fn head_bytes(&self) -> Option<u32> {
        self.lot.head_bytes()
    }

    /// See [`Lot::reading`].
    pub fn reading(&self, now: Instant) -> Reading {
        self.lot.reading(now)
    }

    /// See [`Lot::learn`].
    pub fn learn(&mut self, reading: Reading) {
        self.lot.learn(reading);
    }

    /// What the lot has counted.
    pub fn stats(&self) -> &Stats {
        self.lot.stats()
    }

    /// What the stage itself has counted.
    pub fn counts(&self) -> &StageCounts {
        &self.counts
    }

    fn park(
        &mut self,
        frame: Frame,
        at: usize,
        flow_hash: u64,
        now: Instant,
        pool: &mut Pool,
    ) -> Sent {
        let (mut header, payload) = match split(frame, at, pool) {
            Ok(parts) => parts,
            Err(frame) => return self.no_buffer(frame),
        };
        let payload_bytes = payload.len() as u32;
        match self.lot.park(payload, flow_hash, now) {
            Ok(ticket) => {
                let parked = Parked {
                    ticket,
                    payload_bytes,
                };
                // A header from the pool has all its headroom; a failure would only expire.
                let _ = Tag::Header(parked).attach(&mut header);
                Sent::ToCores(header)
            }
            Err(refused) => {
                pool.give(header);
                Sent::Refused(refused.payload, NotSent::Lot(refused.refusal))
            }
        }
    }

    fn bypass(&mut self, mut frame: Frame) -> Sent {
        if !Tag::Whole.attach(&mut frame) {
            return self.no_buffer(frame);
        }
        self.counts.whole += 1;
        Sent::ToCores(frame)
    }

    fn no_buffer(&mut self, frame: Frame) -> Sent {
        self.counts.no_buffer += 1;
        Sent::Refused(frame, NotSent::NoBuffer)
    }
}
