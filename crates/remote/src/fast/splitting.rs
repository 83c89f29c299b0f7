//! Packets leave their payloads behind, and headers that do not come back.

use super::{Counters, Record, SplitStage, State};
use crate::payloads::Refusal;
use twinpath_core::split::{Outgoing, Sent, Unfit, cut_at, join, split};
use twinpath_core::wire::Layout;
use twinpath_core::{Frame, Instant, Metadata, Pools, Ticket};

/// What counts a packet that travels whole.
type Whole = fn(&mut Counters) -> &mut u64;

impl SplitStage {
    /// A packet goes to the slow path: its payload stays behind if that can be.
    pub(super) fn split_off(
        &mut self,
        outgoing: Outgoing<'_>,
        now: Instant,
        pools: &mut Pools,
    ) -> Sent {
        let Outgoing {
            frame,
            layout,
            flow,
            ..
        } = outgoing;
        match self.place(frame.bytes(), layout, flow, now) {
            Ok(place) => self.split(frame, layout, place, now, pools),
            Err(whole) => {
                *whole(&mut self.counters) += 1;
                Sent::Whole(frame)
            }
        }
    }

    /// Where a packet is cut, and which server and queue pair takes its payload; else what counts
    /// it.
    fn place(
        &mut self,
        frame: &[u8],
        layout: &Layout,
        flow: u64,
        now: Instant,
    ) -> Result<(usize, usize, u16), Whole> {
        if !self.is_active {
            return Err(|counters| &mut counters.whole_chain);
        }
        let least_bytes = self.config.least_payload_bytes;
        let at = match cut_at(frame, layout, least_bytes) {
            Ok(at) => at,
            Err(Unfit::Unsuited) => return Err(|counters| &mut counters.whole_unsuited),
            Err(Unfit::Small) => return Err(|counters| &mut counters.whole_small),
        };
        if frame.len() < self.config.threshold_bytes {
            return Err(|counters| &mut counters.whole_small);
        }
        let mut never = self.config.never.iter();
        if never.any(|class| class.contains(frame, layout)) {
            return Err(|counters| &mut counters.whole_class);
        }
        let Some(member) = self.back_off.server(flow) else {
            return Err(|counters| &mut counters.whole_no_server);
        };
        let memory = &self.members[member].memory;
        // A product instead of a division; the parts of the flows are other bits.
        let queue_pair = (((flow >> 32) * u64::from(memory.queue_pairs())) >> 32) as u16;
        if !memory.is_ready(queue_pair) {
            return Err(|counters| &mut counters.whole_down);
        }
        let protection = self.protection();
        let may_lose = |record: &Record| match record.state {
            State::Away(since) => now.since(since) >= protection,
            State::Between | State::Waits(_) => false,
        };
        match self.slots.seek(may_lose) {
            true => Ok((at, member, queue_pair)),
            false => Err(|counters| &mut counters.whole_no_slot),
        }
    }

    fn split(
        &mut self,
        frame: Frame,
        layout: &Layout,
        (at, member, queue_pair): (usize, usize, u16),
        now: Instant,
        pools: &mut Pools,
    ) -> Sent {
        let (mut header, payload) = match split(frame, layout, at, self.verifies, pools) {
            Ok(parts) => parts,
            Err(frame) => {
                self.counters.whole_no_buffer += 1;
                return Sent::Whole(frame);
            }
        };
        let memory = &mut self.members[member].memory;
        let bytes = payload.len() as u64;
        let written = memory.write(queue_pair, payload, now, &mut self.output);
        let handle = match written {
            Ok(handle) => handle,
            Err((payload, refusal)) => return self.not_written(header, payload, refusal, pools),
        };
        let record = Record {
            member: member as u16,
            handle,
            state: State::Away(now),
            received_ns: header.received_ns(),
            segment_bytes: header.segment_bytes(),
        };
        let (ticket, overtaken) = self.slots.put(record);
        if let Some(record) = overtaken {
            self.lose(&record);
        }
        header.set_ticket(ticket);
        self.counters.packets += 1;
        self.counters.bytes += bytes;
        self.counters.most_slots = self.counters.most_slots.max(self.slots.used() as u64);
        self.gather(member);
        Sent::Header(header)
    }

    /// The packet is whole again.
    fn not_written(
        &mut self,
        mut header: Frame,
        payload: Frame,
        refusal: Refusal,
        pools: &mut Pools,
    ) -> Sent {
        *match refusal {
            Refusal::QueuePair | Refusal::Down => &mut self.counters.whole_down,
            Refusal::TooLong => &mut self.counters.whole_too_long,
            Refusal::Window => &mut self.counters.whole_window,
            Refusal::Memory | Refusal::Headroom | Refusal::Unknown => {
                &mut self.counters.whole_no_memory
            }
        } += 1;
        header.set_metadata(Metadata {
            parked_bytes: 0,
            ..header.metadata()
        });
        match join(header, payload) {
            Ok((frame, spare)) => {
                pools.give(spare);
                Sent::Whole(frame)
            }
            // It was in front of it a moment ago, so this does not happen.
            Err((header, _)) => Sent::Refused(header),
        }
    }

    /// A packet whose header has not come back loses its slot.
    fn lose(&mut self, record: &Record) {
        self.members[usize::from(record.member)]
            .memory
            .discard(&record.handle);
        self.counters.missing += 1;
        self.given_up += 1;
    }

    /// How many packets were given up since this was called last, because their headers did not come
    /// back.
    pub fn take_given_up(&mut self) -> u64 {
        std::mem::take(&mut self.given_up)
    }

    /// Nothing is under way any more, on either path: headers that are not back are lost.
    pub fn release_lost(&mut self) {
        let is_lost = |record: &Record| !matches!(record.state, State::Waits(_));
        let lost: Vec<_> = self.slots.take_all(is_lost).collect();
        lost.iter().for_each(|record| self.lose(record));
    }

    /// Headers that are on their way, which [`Self::release_lost`] would give up.
    #[must_use]
    pub const fn headers_away(&self) -> usize {
        self.slots.used() - self.waiting
    }

    /// The packet of a header was dropped somewhere.
    pub(super) fn free(&mut self, ticket: Ticket) {
        let state = self.slots.find(ticket).map(|record| record.state);
        match state {
            None => {
                self.counters.headers_stale += 1;
                self.counters.dropped_late += 1;
            }
            // The other of two is on its way out.
            Some(State::Waits(_)) => {
                self.counters.headers_doubled += 1;
                self.counters.dropped_late += 1;
            }
            Some(State::Away(_) | State::Between) => {
                self.counters.declined += 1;
                if let Some(record) = self.slots.take(ticket) {
                    let member = &mut self.members[usize::from(record.member)];
                    member.memory.discard(&record.handle);
                }
            }
        }
    }
}
