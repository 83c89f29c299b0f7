//! Headers that have passed the chain find their payloads again.

use super::{Output, Record, Stage, State};
use crate::handle::Handle;
use crate::payloads::{Refusal, Returned};
use twinpath_core::split::{Left, Parcel, cut, join};
use twinpath_core::{DropReason, Frame, Instant, Metadata, Pools, Ticket};

impl Stage {
    /// Whether the flow's hash matters to what leaves now.
    #[must_use]
    pub fn asks_for_flow(&self, frame: &Frame) -> bool {
        frame.metadata().parked_bytes != 0 || self.departures.is_any()
    }

    /// A frame has passed the chain and is about to leave.
    pub fn leave(
        &mut self,
        mut parcel: Parcel,
        flow_hash: u64,
        now: Instant,
        pools: &mut Pools,
    ) -> Left {
        if parcel.frame.metadata().parked_bytes == 0 {
            return self.follow(parcel, flow_hash);
        }
        let ticket = parcel.frame.ticket();
        if !cut(&mut parcel.frame) {
            self.dropped(ticket);
            return Left::Stale;
        }
        match self.slots.find(ticket) {
            None => self.counters.headers_stale += 1,
            Some(record) if matches!(record.state, State::Waits(_)) => {
                self.counters.headers_doubled += 1;
            }
            Some(record) => {
                let (member, handle) = (usize::from(record.member), record.handle);
                return self.ask((ticket, parcel), (member, &handle), flow_hash, (now, pools));
            }
        }
        Left::Stale
    }

    /// Asks for the payload of a header.
    fn ask(
        &mut self,
        (ticket, header): (Ticket, Parcel),
        (member, handle): (usize, &Handle),
        flow_hash: u64,
        (now, pools): (Instant, &mut Pools),
    ) -> Left {
        let memory = &mut self.members[member].memory;
        if let Err(refusal) = memory.read(handle, ticket, now, pools, &mut self.output) {
            // If it is there, nobody will ask for it again.
            memory.discard(handle);
            self.slots.take(ticket);
            self.gather(member);
            return self.not_asked(header, refusal);
        }
        let is_first = !self.departures.is_any_before(flow_hash);
        let left = match self.came_at_once(ticket) {
            None => {
                let place = self.departures.push(flow_hash, header);
                if let Some(record) = self.slots.find(ticket) {
                    record.state = State::Waits(place);
                    self.waiting += 1;
                }
                Left::Waits
            }
            Some((record, payload)) => match self.merged(&record, header, payload) {
                Output::Packet(parcel, spare) if is_first => {
                    spare.into_iter().for_each(|frame| pools.give(frame));
                    Left::Now(parcel)
                }
                output => {
                    self.departures.follow(flow_hash, output);
                    Left::Waits
                }
            },
        };
        self.gather(member);
        left
    }

    fn not_asked(&mut self, header: Parcel, refusal: Refusal) -> Left {
        *match refusal {
            Refusal::Unknown | Refusal::QueuePair => &mut self.counters.payload_gone,
            _ => &mut self.counters.payload_refused,
        } += 1;
        Left::Dropped(header_alone(header).frame, DropReason::PayloadLost)
    }

    /// The payload, if it was at hand.
    fn came_at_once(&mut self, ticket: Ticket) -> Option<(Record, Frame)> {
        let last = self.output.payloads.last()?;
        let is_its = last.header == ticket && last.payload.is_ok();
        let returned = self.output.payloads.pop_if(|_| is_its)?;
        Some((self.slots.take(ticket)?, returned.payload.ok()?))
    }

    fn merged(&mut self, record: &Record, header: Parcel, mut payload: Frame) -> Output {
        let Parcel { frame, is_reply } = header;
        payload.set_received_ns(record.received_ns);
        payload.set_segment_bytes(record.segment_bytes);
        payload.set_ordinal(frame.ordinal());
        match join(frame, payload) {
            Ok((frame, spare)) => {
                self.counters.merged += 1;
                Output::Packet(Parcel { frame, is_reply }, Some(spare))
            }
            Err((header, payload)) => {
                self.counters.header_too_long += 1;
                Output::HeaderTooLong(header, payload)
            }
        }
    }

    /// A whole packet does not overtake those of its flow that wait.
    fn follow(&mut self, parcel: Parcel, flow_hash: u64) -> Left {
        if !self.departures.is_any_before(flow_hash) {
            return Left::Now(parcel);
        }
        let most = self.config.header_slots + self.config.followers;
        if self.departures.waiting() >= most && !self.is_lossless {
            self.counters.followers_refused += 1;
            return Left::Dropped(parcel.frame, DropReason::SplitFull);
        }
        self.counters.followers += 1;
        self.departures
            .follow(flow_hash, Output::Packet(parcel, None));
        Left::Waits
    }

    /// The next of what had waited and leaves, or is lost.
    pub fn pop(&mut self) -> Option<Output> {
        self.departures.pop()
    }

    /// A payload came, or will not come.
    pub(super) fn returned(&mut self, returned: Returned) {
        let Some(record) = self.slots.take(returned.header) else {
            // What is asked for keeps its slot, so this does not happen.
            return;
        };
        let State::Waits(place) = record.state else {
            return;
        };
        self.waiting -= 1;
        match returned.payload {
            Ok(payload) => {
                let Some(header) = self.departures.take(place) else {
                    return;
                };
                let output = self.merged(&record, header, payload);
                self.departures.settle(place, output);
            }
            Err(_) => {
                self.counters.payload_lost += 1;
                if let Some(header) = self.departures.take(place) {
                    let header = header_alone(header).frame;
                    let output = Output::Lost(header, DropReason::PayloadLost);
                    self.departures.settle(place, output);
                }
            }
        }
    }
}

/// No payload belongs to it any more.
fn header_alone(mut header: Parcel) -> Parcel {
    header.frame.set_metadata(Metadata {
        parked_bytes: 0,
        ..header.frame.metadata()
    });
    header
}
