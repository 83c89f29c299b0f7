//! A memory server's link that others use, too: what they send counts with what is split.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use twinpath_core::wire::MacAddress;
use twinpath_core::{Frame, Instant, Pools, Ticket};
use twinpath_remote::payloads::{Losses, QueuePairStatus};
use twinpath_remote::{Handle, Output, PayloadMemory, Refusal, Requester};

/// A requester beside other traffic, whose octets a switch's counter of the port has as well.
pub(super) struct SharedLink {
    requester: Requester,
    others: Arc<AtomicU64>,
}

impl SharedLink {
    pub(super) fn new(requester: Requester, others: &Arc<AtomicU64>) -> Self {
        Self {
            requester,
            others: Arc::clone(others),
        }
    }
}

impl PayloadMemory for SharedLink {
    fn octets(&self) -> u64 {
        self.requester.octets() + self.others.load(Ordering::Relaxed)
    }

    fn queue_pairs(&self) -> u16 {
        self.requester.queue_pairs()
    }

    fn is_ready(&self, queue_pair: u16) -> bool {
        self.requester.is_ready(queue_pair)
    }

    fn write(
        &mut self,
        queue_pair: u16,
        payload: Frame,
        now: Instant,
        output: &mut Output,
    ) -> Result<Handle, (Frame, Refusal)> {
        self.requester.write(queue_pair, payload, now, output)
    }

    fn read(
        &mut self,
        handle: &Handle,
        header: Ticket,
        now: Instant,
        pools: &mut Pools,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        self.requester.read(handle, header, now, pools, output)
    }

    fn discard(&mut self, handle: &Handle) {
        self.requester.discard(handle);
    }

    fn receive(
        &mut self,
        frame: Frame,
        now: Instant,
        pools: &mut Pools,
        output: &mut Output,
    ) -> Option<Frame> {
        self.requester.receive(frame, now, pools, output)
    }

    fn poll(&mut self, now: Instant, pools: &mut Pools, output: &mut Output) {
        self.requester.poll(now, pools, output);
    }

    fn deadline(&self) -> Instant {
        self.requester.deadline()
    }

    fn protect(&mut self, protection: Duration) {
        self.requester.protect(protection);
    }

    fn is_up(&self) -> bool {
        self.requester.is_up()
    }

    fn losses(&self) -> Losses {
        self.requester.losses()
    }

    fn set_link(&mut self, mac: MacAddress, mtu: usize) {
        self.requester.set_link(mac, mtu);
    }

    fn named_counters(&self) -> Vec<(&'static str, u64)> {
        self.requester.named_counters()
    }

    fn queue_pair_figures(&self) -> Vec<QueuePairStatus> {
        self.requester.queue_pair_figures()
    }
}
