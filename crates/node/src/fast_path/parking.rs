//! Payloads that wait in a queue of the switch while their headers are on the slow path.
//!
//! A packet that is punted leaves its payload behind, if it is worth it and there is room. Its
//! header passes the rest of the chain alone, as if it were the packet, on whichever path; when it
//! has passed the last element it waits for its payload to come to the head of the queue. So at
//! each element packets are in the order that they would be in without parking, and a header that
//! is dropped anywhere frees its payload.

use super::{Departure, FastOutput, FastPath, Io, Via};
use crate::watch::{Step, Watch};
use std::time::Duration;
use twinpath_core::wire::dissect;
use twinpath_core::{DropReason, Frame, Instant, Pools};
use twinpath_link::{Header, Message};
use twinpath_parking::Stage;
use twinpath_parking::fast::{Left, Output, Parcel, Sent};
use twinpath_parking::split::{cut, stretch};

/// The queue, and how far its time has come.
pub(super) struct Parking {
    stage: Stage,
    now: Instant,
    /// Of [`FastPath::settle_departures`]; empty between calls.
    departing: Vec<Departure>,
}

impl FastPath {
    /// The same with a queue in which payloads wait.
    #[must_use]
    pub fn with_parking(self, stage: Stage) -> Self {
        let parking = Some(Box::new(Parking {
            stage,
            now: Instant::ZERO,
            departing: Vec::new(),
        }));
        Self { parking, ..self }
    }

    /// The queue in which payloads wait, if there is one.
    pub fn parking(&self) -> Option<&Stage> {
        self.parking.as_ref().map(|parking| &parking.stage)
    }

    /// Whether packets must not be lost for want of room in the queue (see
    /// [`Stage::set_lossless`]).
    pub(crate) fn set_lossless(&mut self, is_lossless: bool) {
        if let Some(parking) = &mut self.parking {
            parking.stage.set_lossless(is_lossless);
        }
    }

    /// How long a payload waits for its header each time that the slow path has it.
    pub(crate) fn header_timeout(&self) -> Duration {
        self.parking().map_or(Duration::ZERO, |stage| {
            stage.buffer().config().header_timeout
        })
    }

    /// Lets the queue in which payloads wait go on until something leaves, or until `until`.
    /// Returns when it left; call again until nothing does.
    #[inline]
    pub fn pass_parking(
        &mut self,
        until: Instant,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) -> Option<Instant> {
        let parking = self.parking.as_mut()?;
        loop {
            let Some((at, output)) = parking.stage.pass(until) else {
                if until != Instant::NEVER {
                    parking.now = parking.now.max(until);
                }
                return None;
            };
            parking.now = parking.now.max(at);
            let drops = &mut self.drops;
            if let Some(watch) = &self.watch {
                tell_of(&output, watch);
            }
            self.under_way.close(output.ordinal());
            match output {
                Output::Packet(parcel, spare) => {
                    out.departures.push(departure(parcel));
                    spare.into_iter().for_each(|frame| pools.give(frame));
                    return Some(at);
                }
                Output::Declined(frame) => pools.give(frame),
                Output::Missing(frame) => {
                    drops.count(DropReason::HeaderMissing);
                    pools.give(frame);
                }
                Output::HeaderTooLong(header, payload) => {
                    drops.count(DropReason::HeaderTooLong);
                    pools.give(header);
                    pools.give(payload);
                }
            }
        }
    }

    /// A frame for the slow path could not be sent: if it is a header, its payload need not wait.
    #[inline]
    pub fn header_dropped(&mut self, frame: &Frame) {
        if frame.metadata().parked_bytes != 0 {
            self.free_payload(frame);
        }
    }

    #[cold]
    fn free_payload(&mut self, frame: &Frame) {
        if let Some(parking) = &mut self.parking {
            parking.stage.dropped(frame.ticket(), parking.now);
        }
    }

    /// Sends a packet to the slow path, as a header if that can be.
    #[cold]
    pub(super) fn park(&mut self, frame: Frame, header: &Header, hash: u64, io: &mut Io<'_>) {
        if frame.metadata().parked_bytes != 0 {
            return self.send_again(frame, header, hash, io);
        }
        let (Some(parking), Ok(layout)) = (&mut self.parking, dissect(frame.bytes())) else {
            return self.send(frame, header, hash, io);
        };
        let (buffer, has_state) = (frame.buffer(), header.message != Message::Plain);
        let sent = parking
            .stage
            .send(frame, &layout, has_state, parking.now, io.pools);
        match sent {
            Sent::Header(frame) => {
                if let Some(watch) = &self.watch {
                    let bytes = frame.metadata().parked_bytes;
                    watch.part(buffer, &frame);
                    watch.tell(buffer, || Step::Park { bytes });
                }
                self.under_way.open(frame.ordinal(), frame.timestamp());
                self.send(frame, header, hash, io);
            }
            Sent::Whole(frame) => self.send(frame, header, hash, io),
            Sent::Refused(frame) => self.drop(frame, DropReason::ParkingFull, io),
        }
    }

    fn send_again(&mut self, mut frame: Frame, header: &Header, hash: u64, io: &mut Io<'_>) {
        if !cut(&mut frame) {
            return self.drop(frame, DropReason::BadLinkFrame, io);
        }
        if let Some(parking) = &mut self.parking {
            parking.stage.goes_again(frame.ticket(), parking.now);
        }
        self.send(frame, header, hash, io);
    }

    /// A header, or the news that one was dropped, is back. Returns whether it goes on.
    pub(super) fn take_header(&mut self, header: &Header, frame: &mut Frame) -> bool {
        if header.message == Message::Dropped || !stretch(frame) {
            self.header_dropped(frame);
            return false;
        }
        if let Some(parking) = &mut self.parking {
            parking.stage.came_back(frame.ticket());
        }
        true
    }

    /// It may be one of two of a header, the other of which goes on; its payload counts as lost
    /// when it has waited in vain.
    pub(super) fn drop_reordered(&mut self, frame: Frame, io: &mut Io<'_>) {
        if frame.metadata().parked_bytes == 0 {
            self.tell(&frame, |_| Step::drop(DropReason::LinkReordered));
            self.drops.count(DropReason::LinkReordered);
        }
        io.pools.give(frame);
    }

    /// Of what is about to leave from `first` on, only that leaves now which is whole and
    /// overtakes nobody.
    #[inline]
    pub(super) fn settle_departures(&mut self, first: usize, io: &mut Io<'_>) {
        if self.parking.is_some() {
            self.hold_back(first, io);
        }
    }

    fn hold_back(&mut self, first: usize, io: &mut Io<'_>) {
        let Some(mut parking) = self.parking.take() else {
            return;
        };
        let mut departing = std::mem::take(&mut parking.departing);
        departing.extend(io.out.departures.drain(first..));
        for Departure {
            frame, is_reply, ..
        } in departing.drain(..)
        {
            let hash = match parking.stage.asks_for_flow(&frame) {
                true => self.hash_of_departing(&frame),
                false => 0,
            };
            let (ordinal, at) = (frame.ordinal(), frame.timestamp());
            let (is_whole, buffer) = (frame.metadata().parked_bytes == 0, frame.buffer());
            let parcel = Parcel { frame, is_reply };
            let left = parking.stage.leave(parcel, hash, parking.now);
            if let (Some(watch), Left::Waits) = (&self.watch, &left) {
                watch.tell(buffer, || Step::HoldBack);
            }
            match left {
                Left::Now(parcel) => io.out.departures.push(departure(parcel)),
                // That of a header is open since its payload was parked.
                Left::Waits if is_whole => self.under_way.open(ordinal, at),
                Left::Waits | Left::Stale => (),
                Left::Refused(frame) => self.drop(frame, DropReason::ParkingFull, io),
            }
        }
        parking.departing = departing;
        self.parking = Some(parking);
    }

    fn hash_of_departing(&self, frame: &Frame) -> u64 {
        let layout = dissect(frame.bytes());
        layout.map_or(0, |layout| {
            let keyed = self.steering.key(frame.bytes(), &layout);
            keyed.unwrap_or_default().key.hash(self.steering.hash_key())
        })
    }
}

/// Something comes out of the queue.
#[cold]
fn tell_of(output: &Output, watch: &Watch) {
    let (frame, step) = match output {
        Output::Packet(parcel, spare) => {
            let has_joined = spare.is_some();
            (&parcel.frame, Step::PassParking { has_joined })
        }
        Output::Missing(payload) => (payload, Step::drop(DropReason::HeaderMissing)),
        Output::HeaderTooLong(_, payload) => (payload, Step::drop(DropReason::HeaderTooLong)),
        Output::Declined(_) => return,
    };
    watch.tell(frame.buffer(), || step);
}

fn departure(parcel: Parcel) -> Departure {
    let Parcel { frame, is_reply } = parcel;
    let via = match frame.metadata().was_on_slow_path {
        false => Via::Fast,
        true => Via::Slow,
    };
    Departure::new(frame, via, is_reply)
}
