//! Payloads in the switch's own memory, as PayloadPark has them: of each packet as many bytes as a few
//! stages can hold (Ribosome §2: 160, or 352 of a packet that goes round once).
//!
//! A place that is in use is passed over, and the packet travels whole.

use twinpath_core::split::{
    DepartingFrame, Left, Outgoing, Output, PayloadStage, Sent, cut, cut_at, join, split,
};
use twinpath_core::{DropReason, Frame, Instant, Pools, Ticket};
use twinpath_remote::HeaderSlots;

/// The memory.
pub(super) struct Sram {
    payload_bytes: usize,
    /// Packets with less payload travel whole.
    least_bytes: usize,
    slots: HeaderSlots<Frame>,
    bytes: u64,
    most_bytes: u64,
}

impl Sram {
    pub(super) fn new(payload_bytes: usize, slots: usize) -> Self {
        /// What PayloadPark's smallest payload is: all of what it parks without going round.
        const LEAST: usize = 160;
        Self {
            payload_bytes,
            least_bytes: payload_bytes.min(LEAST),
            slots: HeaderSlots::new(slots),
            bytes: 0,
            most_bytes: 0,
        }
    }

    /// Most bytes of payloads that were there at any time.
    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }
}

impl PayloadStage for Sram {
    fn set_lossless(&mut self, _is_lossless: bool) {}

    fn set_verifying(&mut self, _verifies: bool) {}

    fn send(&mut self, outgoing: Outgoing<'_>, _now: Instant, pools: &mut Pools) -> Sent {
        let Outgoing { frame, layout, .. } = outgoing;
        let Ok(header_bytes) = cut_at(frame.bytes(), layout, self.least_bytes) else {
            return Sent::Whole(frame);
        };
        if !self.slots.seek(|_| false) {
            return Sent::Whole(frame);
        }
        // Which bytes of the payload stay is the same to the cores.
        let at = frame
            .len()
            .saturating_sub(self.payload_bytes)
            .max(header_bytes);
        match split(frame, layout, at, false, pools) {
            Ok((mut header, payload)) => {
                self.bytes += payload.len() as u64;
                self.most_bytes = self.most_bytes.max(self.bytes);
                header.set_ticket(self.slots.put(payload).0);
                Sent::Header(header)
            }
            Err(frame) => Sent::Whole(frame),
        }
    }

    fn came_back(&mut self, _ticket: Ticket) {}

    fn goes_again(&mut self, _ticket: Ticket, _now: Instant) {}

    fn dropped(&mut self, ticket: Ticket, _now: Instant) {
        if let Some(payload) = self.slots.take(ticket) {
            self.bytes -= payload.len() as u64;
        }
    }

    fn may_hold_back(&self) -> bool {
        false
    }

    fn fragment_alone(&mut self) {}

    fn asks_for_flow(&self, _frame: &Frame) -> bool {
        false
    }

    fn leave(
        &mut self,
        mut departing: DepartingFrame,
        _flow: u64,
        _now: Instant,
        pools: &mut Pools,
    ) -> Left {
        if departing.frame.metadata().parked_bytes == 0 {
            return Left::Now(departing);
        }
        let payload = self.slots.take(departing.frame.ticket());
        let Some(payload) = payload.filter(|_| cut(&mut departing.frame)) else {
            return Left::Dropped(departing.frame, DropReason::PayloadLost);
        };
        self.bytes -= payload.len() as u64;
        match join(departing.frame, payload) {
            Ok((frame, spare)) => {
                pools.give(spare);
                Left::Now(DepartingFrame { frame, ..departing })
            }
            Err((header, _)) => Left::Dropped(header, DropReason::PayloadLost),
        }
    }

    fn pass(&mut self, _until: Instant) -> Option<(Instant, Output)> {
        None
    }
}
