//! Headers that have passed the chain find their payloads again.

use super::departures::{Before, DepartureNumber};
use super::{Record, SplitStage, State};
use crate::handle::Handle;
use crate::payloads::{Refusal, Returned};
use twinpath_core::split::{DepartingFrame, Left, Output, cut, join};
use twinpath_core::{DropReason, Frame, Instant, Metadata, Pools, Ticket};

impl SplitStage {
    /// A header has passed the chain: its payload is asked for.
    pub(super) fn rebuild(
        &mut self,
        mut departing: DepartingFrame,
        flow: u64,
        now: Instant,
        pools: &mut Pools,
    ) -> Left {
        let ticket = departing.frame.ticket();
        if !cut(&mut departing.frame) {
            self.free(ticket);
            return Left::Stale;
        }
        match self.slots.find(ticket) {
            None => self.counters.headers_stale += 1,
            Some(record) if matches!(record.state, State::Waits(_)) => {
                self.counters.headers_doubled += 1;
            }
            Some(record) => {
                let (member, handle) = (usize::from(record.member), record.handle);
                return self.ask((ticket, departing), (member, &handle), flow, (now, pools));
            }
        }
        Left::Stale
    }

    /// Asks for the payload of a header.
    fn ask(
        &mut self,
        (ticket, header): (Ticket, DepartingFrame),
        (member, handle): (usize, &Handle),
        flow: u64,
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
        let is_first = self.departures.before(flow) == Before::Nobody;
        let left = match self.came_at_once(ticket) {
            None => {
                let place = self.departures.push(flow, header);
                if let Some(record) = self.slots.find(ticket) {
                    record.state = State::Waits(place);
                    self.waiting += 1;
                }
                Left::Waits
            }
            Some((record, payload)) => match self.merged(&record, header, payload) {
                Output::Packet(departing, spare) if is_first => {
                    spare.into_iter().for_each(|frame| pools.give(frame));
                    Left::Now(departing)
                }
                output => {
                    self.departures.push_ready(flow, output);
                    self.bound(flow);
                    Left::Waits
                }
            },
        };
        self.gather(member);
        left
    }

    fn not_asked(&mut self, header: DepartingFrame, refusal: Refusal) -> Left {
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

    fn merged(&mut self, record: &Record, header: DepartingFrame, mut payload: Frame) -> Output {
        let DepartingFrame { frame, is_reply } = header;
        payload.set_received_ns(record.received_ns);
        payload.set_segment_bytes(record.segment_bytes);
        payload.set_ordinal(frame.ordinal());
        match join(frame, payload) {
            Ok((frame, spare)) => {
                self.counters.merged += 1;
                Output::Packet(DepartingFrame { frame, is_reply }, Some(spare))
            }
            Err((header, payload)) => {
                self.counters.header_too_long += 1;
                Output::HeaderTooLong(header, payload)
            }
        }
    }

    /// A whole packet does not overtake those of its flow that wait.
    pub(super) fn follow(&mut self, departing: DepartingFrame, flow: u64) -> Left {
        let before = self.departures.before(flow);
        if before == Before::Nobody {
            return Left::Now(departing);
        }
        self.counters.followers += u64::from(before == Before::Waiting);
        self.departures
            .push_ready(flow, Output::Packet(departing, None));
        self.bound(flow);
        Left::Waits
    }

    /// Where too many packets wait for others, those that are waited for in this flow are lost: what is
    /// whole never is.
    fn bound(&mut self, flow: u64) {
        while self.departures.held() > self.config.followers
            && !self.is_lossless
            && let Some((place, header)) = self.departures.take_first(flow)
        {
            self.slots.take(header.frame.ticket());
            self.waiting -= 1;
            self.counters.payload_late += 1;
            self.lost(place, header);
        }
    }

    fn lost(&mut self, place: DepartureNumber, header: DepartingFrame) {
        let header = header_alone(header).frame;
        let output = Output::Lost(header, DropReason::PayloadLost);
        self.departures.settle(place, output);
    }

    /// A payload came, or will not come.
    pub(super) fn returned(&mut self, returned: Returned) {
        let Some(record) = self.slots.take(returned.header) else {
            // It came too late: others waited for it.
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
                let flow = self.departures.settle(place, output);
                self.bound(flow);
            }
            Err(_) => {
                self.counters.payload_lost += 1;
                if let Some(header) = self.departures.take(place) {
                    self.lost(place, header);
                }
            }
        }
    }
}

/// No payload belongs to it any more.
fn header_alone(mut header: DepartingFrame) -> DepartingFrame {
    header.frame.set_metadata(Metadata {
        parked_bytes: 0,
        ..header.frame.metadata()
    });
    header
}
