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
use crate::watch::{TraceStep, Watch};
use std::time::Duration;
use twinpath_core::fragments::DatagramFlows;
use twinpath_core::key::one_way;
use twinpath_core::split::{
    DepartingFrame, Left, Outgoing, Output, PayloadStage, Sent, cut, stretch,
};
use twinpath_core::wire::layout::{Fragment, Plain};
use twinpath_core::wire::{Layout, MacAddress, dissect};
use twinpath_core::{DropReason, Frame, HashKey, Instant, Keyed, Pools};
use twinpath_link::{Header, Message};
use twinpath_parking::ParkingStage;
use twinpath_remote::SplitStage;

/// Where payloads wait, and how far its time has come.
pub(super) struct Payloads {
    stage: AnyStage,
    now: Instant,
    /// Whose the fragments are that leave.
    datagrams: DatagramFlows,
    /// Of [`FastPath::settle_departures`]; empty between calls.
    departing: Vec<Departure>,
}

enum AnyStage {
    /// In a queue of the switch.
    Parking(Box<ParkingStage>),
    /// In remote memory.
    Split(Box<SplitStage>),
}

impl AnyStage {
    /// What both do.
    fn any(&mut self) -> &mut dyn PayloadStage {
        match self {
            Self::Parking(stage) => stage.as_mut(),
            Self::Split(stage) => stage.as_mut(),
        }
    }

    const fn is_parking(&self) -> bool {
        matches!(self, Self::Parking(_))
    }
}

impl Payloads {
    fn new(stage: AnyStage, hash_key: HashKey) -> Box<Self> {
        Box::new(Self {
            stage,
            now: Instant::ZERO,
            datagrams: DatagramFlows::new(hash_key),
            departing: Vec::new(),
        })
    }
}

impl FastPath {
    /// The same with a queue in which payloads wait.
    #[must_use]
    pub fn with_parking(self, stage: ParkingStage) -> Self {
        self.with_payloads(AnyStage::Parking(Box::new(stage)))
    }

    /// The same with remote memory in which payloads wait.
    #[must_use]
    pub fn with_split(self, stage: SplitStage) -> Self {
        self.with_payloads(AnyStage::Split(Box::new(stage)))
    }

    fn with_payloads(self, stage: AnyStage) -> Self {
        let payloads = Some(Payloads::new(stage, *self.steering.hash_key()));
        Self { payloads, ..self }
    }

    /// The queue in which payloads wait, if there is one.
    pub fn parking(&self) -> Option<&ParkingStage> {
        match &self.payloads.as_ref()?.stage {
            AnyStage::Parking(stage) => Some(stage),
            AnyStage::Split(_) => None,
        }
    }

    /// The remote memory in which payloads wait, if there is some.
    pub fn split(&self) -> Option<&SplitStage> {
        match &self.payloads.as_ref()?.stage {
            AnyStage::Parking(_) => None,
            AnyStage::Split(stage) => Some(stage),
        }
    }

    /// The same, to change, at this time.
    pub(crate) fn split_at(&mut self, now: Instant) -> Option<&mut SplitStage> {
        let payloads = self.payloads.as_mut()?;
        match &mut payloads.stage {
            AnyStage::Parking(_) => None,
            AnyStage::Split(stage) => {
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

    /// Whether packets must not be lost for want of room where payloads wait.
    pub(crate) fn set_lossless(&mut self, is_lossless: bool) {
        self.is_lossless = is_lossless;
        if let Some(payloads) = &mut self.payloads {
            payloads.stage.any().set_lossless(is_lossless);
        }
    }

    /// Whether packets are split, where they can be.
    pub(crate) fn set_splitting(&mut self, splits: bool) {
        if let Some(stage) = self.split_at(Instant::ZERO) {
            stage.set_active(splits);
        }
    }

    /// Whether functions may ask if a packet's transport checksum holds.
    pub(crate) fn set_verifying(&mut self, verifies: bool) {
        if let Some(payloads) = &mut self.payloads {
            payloads.stage.any().set_verifying(verifies);
        }
    }

    /// How long a parked payload waits for its header each time that the slow path has it.
    pub(crate) fn header_timeout(&self) -> Duration {
        self.parking().map_or(Duration::ZERO, |stage| {
            stage.buffer().config().header_timeout
        })
    }

    /// The switch has these MAC addresses at its ports, those that lead to memory servers included, and their
    /// links carry IP packets of so many bytes.
    pub(crate) fn set_server_links(&mut self, macs: &[MacAddress], mtus: &[usize]) {
        if let Some(stage) = self.split_at(Instant::ZERO) {
            stage.set_links(macs, mtus);
        }
    }

    /// Whether headers of payloads in the queue are back, and wait on this path for something else.
    pub(crate) fn holds_headers(&self) -> bool {
        let stage = self.parking();
        stage.is_some_and(|stage| stage.buffer().is_any_between())
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
        self.payloads.as_ref().filter(|it| it.stage.is_parking())?;
        loop {
            let Some(at) = self.pass_payload(until, pools, out) else {
                if let Some(payloads) = &mut self.payloads
                    && until != Instant::NEVER
                {
                    payloads.now = payloads.now.max(until);
                }
                return None;
            };
            if let (at, true) = at {
                return Some(at);
            }
        }
    }

    /// What waited for payloads in remote memory and does so no more leaves, or is lost.
    pub(crate) fn pass_split(&mut self, pools: &mut Pools, out: &mut FastOutput) {
        let Some(AnyStage::Split(stage)) = self.payloads.as_mut().map(|it| &mut it.stage) else {
            return;
        };
        self.drops
            .add(DropReason::HeaderMissing, stage.take_given_up());
        while self.pass_payload(Instant::ZERO, pools, out).is_some() {}
    }

    /// The next thing comes out of where payloads wait. Returns when, and whether a packet leaves.
    fn pass_payload(
        &mut self,
        until: Instant,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) -> Option<(Instant, bool)> {
        let payloads = self.payloads.as_mut()?;
        let (at, output) = payloads.stage.any().pass(until)?;
        payloads.now = payloads.now.max(at);
        if let Some(watch) = &self.watch {
            tell_of(&output, payloads.stage.is_parking(), watch);
        }
        self.under_way.close(output.ordinal());
        let drops = &mut self.drops;
        match output {
            Output::Packet(departing, spare) => {
                out.departures.push(departure(departing));
                spare.into_iter().for_each(|frame| pools.give(frame));
                return Some((at, true));
            }
            Output::Freed(frame) => pools.give(frame),
            Output::Lost(frame, reason) => {
                drops.count(reason);
                pools.give(frame);
            }
            Output::HeaderTooLong(header, payload) => {
                drops.count(DropReason::HeaderTooLong);
                pools.give(header);
                pools.give(payload);
            }
        }
        Some((at, false))
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
            let now = payloads.now;
            payloads.stage.any().dropped(frame.ticket(), now);
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
        let (buffer, now, is_parked) = (frame.buffer(), payloads.now, payloads.stage.is_parking());
        let flow = match is_parked {
            true => hash,
            false => self.flow_of_split(&frame, &layout, hash),
        };
        let outgoing = Outgoing {
            frame,
            layout: &layout,
            flow,
            has_state: header.message != Message::Plain,
        };
        let sent = payloads.stage.any().send(outgoing, now, io.pools);
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
    fn flow_of_split(&self, frame: &Frame, layout: &Layout, hash: u64) -> u64 {
        match hash {
            RULES_HASH => {
                let keyed = self.steering.key(frame.bytes(), layout);
                keyed.unwrap_or_default().key.hash(self.steering.hash_key())
            }
            hash => hash,
        }
    }

    fn tell_of_header(&self, whole: usize, header: &Frame, is_parked: bool) {
        if let Some(watch) = &self.watch {
            let bytes = header.metadata().parked_bytes;
            watch.part(whole, header);
            watch.tell(whole, || match is_parked {
                true => TraceStep::Park { bytes },
                false => TraceStep::Split { bytes },
            });
        }
    }

    fn send_again(&mut self, mut frame: Frame, header: &Header, hash: u64, io: &mut Io<'_>) {
        if !cut(&mut frame) {
            return self.drop(frame, DropReason::BadLinkFrame, io);
        }
        if let Some(payloads) = &mut self.payloads {
            let now = payloads.now;
            payloads.stage.any().goes_again(frame.ticket(), now);
        }
        self.send(frame, header, hash, io);
    }

    /// A header, or the news that one was dropped, is back. Returns whether it goes on.
    pub(super) fn take_header(&mut self, header: &Header, frame: &mut Frame) -> bool {
        if header.message == Message::Dropped || !stretch(frame) {
            self.header_dropped(frame);
            return false;
        }
        if let Some(payloads) = &mut self.payloads {
            payloads.stage.any().came_back(frame.ticket());
        }
        true
    }

    /// It may be one of two of a header, the other of which goes on; its payload counts as lost
    /// when it has waited in vain.
    pub(super) fn drop_reordered(&mut self, frame: Frame, io: &mut Io<'_>) {
        if frame.metadata().parked_bytes == 0 {
            self.tell(&frame, |_| TraceStep::drop(DropReason::LinkReordered));
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
        let (are_inside, now) = (payloads.stage.is_parking(), payloads.now);
        let mut departing = std::mem::take(&mut payloads.departing);
        departing.extend(io.out.departures.drain(first..));
        for Departure {
            frame, is_reply, ..
        } in departing.drain(..)
        {
            let flow = self.flow_of_departing(&frame, &mut payloads);
            let (ordinal, at) = (frame.ordinal(), frame.timestamp());
            let (is_whole, buffer) = (frame.metadata().parked_bytes == 0, frame.buffer());
            let departing = DepartingFrame { frame, is_reply };
            let left = payloads.stage.any().leave(departing, flow, now, io.pools);
            if let Some(watch) = &self.watch {
                tell_of_leaving(buffer, &left, is_whole, watch);
            }
            match left {
                Left::Now(departing) => io.out.departures.push(departure(departing)),
                Left::Waits if is_whole || !are_inside => self.under_way.open(ordinal, at),
                Left::Waits | Left::Stale => (),
                Left::Dropped(frame, reason) => self.drop(frame, reason, io),
            }
        }
        payloads.departing = departing;
        self.payloads = Some(payloads);
    }

    /// What the flow and direction of a frame are known by that leaves now, where that matters. Those of
    /// a fragment are its datagram's.
    fn flow_of_departing(&self, frame: &Frame, payloads: &mut Payloads) -> u64 {
        let stage = payloads.stage.any();
        let asks = stage.asks_for_flow(frame);
        let may_be_fragment = || stage.may_hold_back() && Plain::of(frame.bytes()).is_none();
        if !asks && !may_be_fragment() {
            return 0;
        }
        let Ok(layout) = dissect(frame.bytes()) else {
            return 0;
        };
        let of_datagram = match layout.fragment {
            Fragment::Whole => None,
            _ => self.flow_of_datagram(frame, &layout, payloads),
        };
        let keyed = of_datagram.or_else(|| self.steering.key(frame.bytes(), &layout));
        let Keyed { key, side, .. } = keyed.unwrap_or_default();
        one_way(key.hash(self.steering.hash_key()), side)
    }

    fn flow_of_datagram(
        &self,
        frame: &Frame,
        layout: &Layout,
        payloads: &mut Payloads,
    ) -> Option<Keyed> {
        let Payloads {
            datagrams, stage, ..
        } = payloads;
        let keyed = datagrams.key(frame.bytes(), layout, &self.steering, frame.timestamp());
        if keyed.is_none() {
            stage.any().fragment_alone();
        }
        keyed
    }
}

/// Something comes out of where payloads wait.
#[cold]
fn tell_of(output: &Output, is_parking: bool, watch: &Watch) {
    let (buffer, step) = match output {
        Output::Packet(departing, spare) if is_parking => {
            let has_joined = spare.is_some();
            (
                departing.frame.buffer(),
                TraceStep::PassParking { has_joined },
            )
        }
        Output::Packet(departing, None) => {
            let step = TraceStep::Merge { has_payload: false };
            (departing.frame.buffer(), step)
        }
        Output::Packet(departing, Some(spare)) => {
            // The payload may have come in any buffer.
            watch.part(spare.buffer(), &departing.frame);
            (spare.buffer(), TraceStep::Merge { has_payload: true })
        }
        Output::Freed(_) => return,
        Output::Lost(frame, reason) => (frame.buffer(), TraceStep::drop(*reason)),
        Output::HeaderTooLong(header, payload) => {
            let told = if is_parking { payload } else { header };
            (told.buffer(), TraceStep::drop(DropReason::HeaderTooLong))
        }
    };
    watch.tell(buffer, || step);
}

/// What was in this buffer is about to leave.
#[cold]
fn tell_of_leaving(buffer: usize, left: &Left, is_whole: bool, watch: &Watch) {
    match left {
        Left::Waits => watch.tell(buffer, || TraceStep::HoldBack),
        Left::Now(departing) if !is_whole => {
            watch.part(buffer, &departing.frame);
            watch.tell(buffer, || TraceStep::Merge { has_payload: true });
        }
        _ => {}
    }
}

fn departure(departing: DepartingFrame) -> Departure {
    let DepartingFrame { frame, is_reply } = departing;
    let via = match frame.metadata().was_on_slow_path {
        false => Via::Fast,
        true => Via::Slow,
    };
    Departure::new(frame, via, is_reply)
}
