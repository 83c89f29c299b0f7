//! Payloads that wait, in a queue of the switch or in remote memory, while their headers are on the
//! slow path.
//!
//! A packet that is punted leaves its payload behind, if it is worth it and there is room. Its
//! header passes the rest of the chain alone, as if it were the packet, on whichever path; when it
//! has passed the last element it waits for its payload: to come to the head of the queue
//! ([`twinpath_parking`]), or from where it was written to ([`twinpath_remote`]). So at
//! each element packets are in the order that they would be in if they were whole, and a header that
//! is dropped anywhere frees its payload.

use super::rules::RULES_HASH;
use super::{Departure, FastOutput, FastPath, Io, Via};
use crate::watch::{Step, Watch};
use std::time::Duration;
use twinpath_core::split::{Left, Parcel, Sent, cut, stretch};
use twinpath_core::wire::{Layout, MacAddress, dissect};
use twinpath_core::{DropReason, Frame, Instant, Pools, Ticket};
use twinpath_link::{Header, Message};
use twinpath_parking::Stage as ParkingStage;
use twinpath_parking::fast::Output as FromQueue;
use twinpath_remote::Stage as SplitStage;
use twinpath_remote::fast::Output as FromMemory;

/// Where payloads wait, and how far its time has come.
pub(super) struct Payloads {
    stage: Stage,
    now: Instant,
    /// Of [`FastPath::settle_departures`]; empty between calls.
    departing: Vec<Departure>,
}

enum Stage {
    /// In a queue of the switch.
    Parking(Box<ParkingStage>),
    /// In remote memory.
    Split(Box<SplitStage>),
}

impl Payloads {
    fn new(stage: Stage) -> Box<Self> {
        Box::new(Self {
            stage,
            now: Instant::ZERO,
            departing: Vec::new(),
        })
    }

    fn dropped(&mut self, ticket: Ticket) {
        match &mut self.stage {
            Stage::Parking(stage) => stage.dropped(ticket, self.now),
            Stage::Split(stage) => stage.dropped(ticket),
        }
    }

    fn asks_for_flow(&self, frame: &Frame) -> bool {
        match &self.stage {
            Stage::Parking(stage) => stage.asks_for_flow(frame),
            Stage::Split(stage) => stage.asks_for_flow(frame),
        }
    }

    fn leave(&mut self, parcel: Parcel, hash: u64, pools: &mut Pools) -> Left {
        match &mut self.stage {
            Stage::Parking(stage) => stage.leave(parcel, hash, self.now),
            Stage::Split(stage) => stage.leave(parcel, hash, self.now, pools),
        }
    }
}

impl FastPath {
    /// The same with a queue in which payloads wait.
    #[must_use]
    pub fn with_parking(self, stage: ParkingStage) -> Self {
        let payloads = Some(Payloads::new(Stage::Parking(Box::new(stage))));
        Self { payloads, ..self }
    }

    /// The same with remote memory in which payloads wait.
    #[must_use]
    pub fn with_split(self, stage: SplitStage) -> Self {
        let payloads = Some(Payloads::new(Stage::Split(Box::new(stage))));
        Self { payloads, ..self }
    }

    /// The queue in which payloads wait, if there is one.
    pub fn parking(&self) -> Option<&ParkingStage> {
        match &self.payloads.as_ref()?.stage {
            Stage::Parking(stage) => Some(stage),
            Stage::Split(_) => None,
        }
    }

    /// The remote memory in which payloads wait, if there is some.
    pub fn split(&self) -> Option<&SplitStage> {
        match &self.payloads.as_ref()?.stage {
            Stage::Parking(_) => None,
            Stage::Split(stage) => Some(stage),
        }
    }

    /// The same, to change, at this time.
    pub(crate) fn split_at(&mut self, now: Instant) -> Option<&mut SplitStage> {
        let payloads = self.payloads.as_mut()?;
        match &mut payloads.stage {
            Stage::Parking(_) => None,
            Stage::Split(stage) => {
                payloads.now = payloads.now.max(now);
                Some(stage)
            }
        }
    }

    /// Whether payloads may wait anywhere.
    #[inline]
    pub(crate) const fn keeps_payloads(&self) -> bool {
        self.payloads.is_some()
    }

    /// Whether packets must not be lost for want of room where payloads wait (see
    /// [`ParkingStage::set_lossless`] and [`SplitStage::set_lossless`]).
    pub(crate) fn set_lossless(&mut self, is_lossless: bool) {
        self.is_lossless = is_lossless;
        match self.payloads.as_mut().map(|payloads| &mut payloads.stage) {
            Some(Stage::Parking(stage)) => stage.set_lossless(is_lossless),
            Some(Stage::Split(stage)) => stage.set_lossless(is_lossless),
            None => {}
        }
    }

    /// Whether packets are split, where they can be.
    pub(crate) fn set_splitting(&mut self, splits: bool) {
        if let Some(stage) = self.split_at(Instant::ZERO) {
            stage.set_active(splits);
        }
    }

    /// How long a parked payload waits for its header each time that the slow path has it.
    pub(crate) fn header_timeout(&self) -> Duration {
        self.parking().map_or(Duration::ZERO, |stage| {
            stage.buffer().config().header_timeout
        })
    }

    /// The switch has these MAC addresses at its ports, those that lead to memory servers included.
    pub(crate) fn set_server_stations(&mut self, macs: &[MacAddress]) {
        if let Some(stage) = self.split_at(Instant::ZERO) {
            stage.set_stations(macs);
        }
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
        let payloads = self.payloads.as_mut()?;
        let Stage::Parking(stage) = &mut payloads.stage else {
            return None;
        };
        loop {
            let Some((at, output)) = stage.pass(until) else {
                if until != Instant::NEVER {
                    payloads.now = payloads.now.max(until);
                }
                return None;
            };
            payloads.now = payloads.now.max(at);
            let drops = &mut self.drops;
            if let Some(watch) = &self.watch {
                tell_of(&output, watch);
            }
            self.under_way.close(output.ordinal());
            match output {
                FromQueue::Packet(parcel, spare) => {
                    out.departures.push(departure(parcel));
                    spare.into_iter().for_each(|frame| pools.give(frame));
                    return Some(at);
                }
                FromQueue::Declined(frame) => pools.give(frame),
                FromQueue::Missing(frame) => {
                    drops.count(DropReason::HeaderMissing);
                    pools.give(frame);
                }
                FromQueue::HeaderTooLong(header, payload) => {
                    drops.count(DropReason::HeaderTooLong);
                    pools.give(header);
                    pools.give(payload);
                }
            }
        }
    }

    /// What waited for payloads in remote memory and does so no more leaves, or is lost.
    pub(crate) fn pass_split(&mut self, pools: &mut Pools, out: &mut FastOutput) {
        let Some(payloads) = &mut self.payloads else {
            return;
        };
        let Stage::Split(stage) = &mut payloads.stage else {
            return;
        };
        let (drops, under_way) = (&mut self.drops, &mut self.under_way);
        drops.add(DropReason::HeaderMissing, stage.take_given_up());
        while let Some(output) = stage.pop() {
            if let Some(watch) = &self.watch {
                tell_of_merged(&output, watch);
            }
            under_way.close(output.ordinal());
            match output {
                FromMemory::Packet(parcel, spare) => {
                    out.departures.push(departure(parcel));
                    spare.into_iter().for_each(|frame| pools.give(frame));
                }
                FromMemory::Lost(header, reason) => {
                    drops.count(reason);
                    pools.give(header);
                }
                FromMemory::HeaderTooLong(header, payload) => {
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
        if let Some(payloads) = &mut self.payloads {
            payloads.dropped(frame.ticket());
        }
    }

    /// Sends a packet to the slow path, as a header if that can be.
    #[cold]
    pub(super) fn send_header(
        &mut self,
        frame: Frame,
        header: &Header,
        hash: u64,
        io: &mut Io<'_>,
    ) {
        if frame.metadata().parked_bytes != 0 {
            return self.send_again(frame, header, hash, io);
        }
        let (Some(mut payloads), Ok(layout)) = (self.payloads.take(), dissect(frame.bytes()))
        else {
            return self.send(frame, header, hash, io);
        };
        let (buffer, now, pools) = (frame.buffer(), payloads.now, &mut *io.pools);
        let (sent, is_parked) = match &mut payloads.stage {
            Stage::Parking(stage) => {
                let has_state = header.message != Message::Plain;
                (stage.send(frame, &layout, has_state, now, pools), true)
            }
            Stage::Split(stage) => {
                let flow = self.hash_of_split(&frame, &layout, hash);
                (stage.send(frame, &layout, flow, now, pools), false)
            }
        };
        self.payloads = Some(payloads);
        match sent {
            Sent::Header(frame) => {
                self.tell_of_header(buffer, &frame, is_parked);
                if is_parked {
                    // Its payload is inside until it comes out of the queue.
                    self.under_way.open(frame.ordinal(), frame.timestamp());
                }
                self.send(frame, header, hash, io);
            }
            Sent::Whole(frame) => self.send(frame, header, hash, io),
            Sent::Refused(frame) => self.drop(frame, DropReason::ParkingFull, io),
        }
    }

    /// What tells a flow's server and queue pair: its own hash, also where an element's packets all go
    /// to one worker.
    fn hash_of_split(&self, frame: &Frame, layout: &Layout, hash: u64) -> u64 {
        match hash {
            RULES_HASH => self.hash_of(frame, layout),
            hash => hash,
        }
    }

    fn tell_of_header(&self, whole: usize, header: &Frame, is_parked: bool) {
        if let Some(watch) = &self.watch {
            let bytes = header.metadata().parked_bytes;
            watch.part(whole, header);
            watch.tell(whole, || match is_parked {
                true => Step::Park { bytes },
                false => Step::Split { bytes },
            });
        }
    }

    fn send_again(&mut self, mut frame: Frame, header: &Header, hash: u64, io: &mut Io<'_>) {
        if !cut(&mut frame) {
            return self.drop(frame, DropReason::BadLinkFrame, io);
        }
        if let Some(payloads) = &mut self.payloads {
            match &mut payloads.stage {
                Stage::Parking(stage) => stage.goes_again(frame.ticket(), payloads.now),
                Stage::Split(stage) => stage.goes_again(frame.ticket(), payloads.now),
            }
        }
        self.send(frame, header, hash, io);
    }

    /// A header, or the news that one was dropped, is back. Returns whether it goes on.
    pub(super) fn take_header(&mut self, header: &Header, frame: &mut Frame) -> bool {
        if header.message == Message::Dropped || !stretch(frame) {
            self.header_dropped(frame);
            return false;
        }
        match self.payloads.as_mut().map(|payloads| &mut payloads.stage) {
            Some(Stage::Parking(stage)) => stage.came_back(frame.ticket()),
            Some(Stage::Split(stage)) => stage.came_back(frame.ticket()),
            None => {}
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
        if self.payloads.is_some() {
            self.hold_back(first, io);
        }
    }

    fn hold_back(&mut self, first: usize, io: &mut Io<'_>) {
        let Some(mut payloads) = self.payloads.take() else {
            return;
        };
        // Those of headers are inside since they were parked.
        let are_inside = matches!(payloads.stage, Stage::Parking(_));
        let mut departing = std::mem::take(&mut payloads.departing);
        departing.extend(io.out.departures.drain(first..));
        for Departure {
            frame, is_reply, ..
        } in departing.drain(..)
        {
            let hash = match payloads.asks_for_flow(&frame) {
                true => self.hash_of_departing(&frame),
                false => 0,
            };
            let (ordinal, at) = (frame.ordinal(), frame.timestamp());
            let (is_whole, buffer) = (frame.metadata().parked_bytes == 0, frame.buffer());
            let left = payloads.leave(Parcel { frame, is_reply }, hash, io.pools);
            if let Some(watch) = &self.watch {
                tell_of_leaving(buffer, &left, is_whole, watch);
            }
            match left {
                Left::Now(parcel) => io.out.departures.push(departure(parcel)),
                Left::Waits if is_whole || !are_inside => self.under_way.open(ordinal, at),
                Left::Waits | Left::Stale => (),
                Left::Dropped(frame, reason) => self.drop(frame, reason, io),
            }
        }
        payloads.departing = departing;
        self.payloads = Some(payloads);
    }

    fn hash_of_departing(&self, frame: &Frame) -> u64 {
        let layout = dissect(frame.bytes());
        layout.map_or(0, |layout| self.hash_of(frame, &layout))
    }

    fn hash_of(&self, frame: &Frame, layout: &Layout) -> u64 {
        let keyed = self.steering.key(frame.bytes(), layout);
        keyed.unwrap_or_default().key.hash(self.steering.hash_key())
    }
}

/// Something comes out of the queue.
#[cold]
fn tell_of(output: &FromQueue, watch: &Watch) {
    let (frame, step) = match output {
        FromQueue::Packet(parcel, spare) => {
            let has_joined = spare.is_some();
            (&parcel.frame, Step::PassParking { has_joined })
        }
        FromQueue::Missing(payload) => (payload, Step::drop(DropReason::HeaderMissing)),
        FromQueue::HeaderTooLong(_, payload) => (payload, Step::drop(DropReason::HeaderTooLong)),
        FromQueue::Declined(_) => return,
    };
    watch.tell(frame.buffer(), || step);
}

/// A packet is whole again, or will not be.
#[cold]
fn tell_of_merged(output: &FromMemory, watch: &Watch) {
    let (buffer, step) = match output {
        FromMemory::Packet(parcel, None) => {
            let step = Step::Merge { has_payload: false };
            (parcel.frame.buffer(), step)
        }
        FromMemory::Packet(parcel, Some(spare)) => {
            // The payload may have come in any buffer.
            watch.part(spare.buffer(), &parcel.frame);
            (spare.buffer(), Step::Merge { has_payload: true })
        }
        FromMemory::Lost(header, reason) => (header.buffer(), Step::drop(*reason)),
        FromMemory::HeaderTooLong(header, _) => {
            (header.buffer(), Step::drop(DropReason::HeaderTooLong))
        }
    };
    watch.tell(buffer, || step);
}

/// What was in this buffer is about to leave.
#[cold]
fn tell_of_leaving(buffer: usize, left: &Left, is_whole: bool, watch: &Watch) {
    match left {
        Left::Waits => watch.tell(buffer, || Step::HoldBack),
        Left::Now(parcel) if !is_whole => {
            watch.part(buffer, &parcel.frame);
            watch.tell(buffer, || Step::Merge { has_payload: true });
        }
        _ => {}
    }
}

fn departure(parcel: Parcel) -> Departure {
    let Parcel { frame, is_reply } = parcel;
    let via = match frame.metadata().was_on_slow_path {
        false => Via::Fast,
        true => Via::Slow,
    };
    Departure::new(frame, via, is_reply)
}
