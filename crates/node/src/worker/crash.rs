//! A worker's function panics: what the worker knew is lost, and it starts again.

use super::{SlowElement, Worker};
use crate::build_error::BuildError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use twinpath_coherence::slow::Outgoing;
use twinpath_core::pool::take_lost;
use twinpath_core::{DropCounters, DropReason, FlowKey, Frame, Instant, Pools};
use twinpath_link::{Header, Message};
use twinpath_rulecache::{Output, SlowRules};

/// Makes the elements of a worker that knows nothing yet.
pub type Blueprint = Arc<dyn Fn() -> Result<Vec<SlowElement>, BuildError> + Send + Sync>;

/// Elements that cannot be made, for want of a file that a function needs, are tried again after
/// this long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Worker {
    /// Counts this worker's lives, from 1. All that it gives back bears this number.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// How often this worker has crashed and begun anew.
    pub fn restarts(&self) -> u64 {
        u64::from(self.epoch - 1)
    }

    /// Loses all that it knows and every packet in its hands, as when a function panics, and starts
    /// again in the next epoch with empty tables. The link goes on, and what was counted stays
    /// counted.
    pub fn crash(&mut self, now: Instant, pools: &mut Pools, returns: &mut Vec<Frame>) {
        self.count_crash(None);
        self.begin_anew(now, pools, returns);
        self.put_on_the_link(pools, returns);
    }

    /// Lets functions do something. Returns false if they panicked: then nothing that they know
    /// can be relied on. What is kept over a crash is changed outside of this alone.
    pub(super) fn guarded(&mut self, act: impl FnOnce(&mut Self)) -> bool {
        catch_unwind(AssertUnwindSafe(|| act(self))).is_ok()
    }

    /// Counts the packets in its hands, that of the frame at work and those in a function's hands included.
    #[cold]
    pub(super) fn count_crash(&mut self, at_work: Option<u64>) {
        let mut in_hand: Vec<u64> = self
            .onward
            .iter()
            .map(|(_, frame)| frame.ordinal())
            .collect();
        let outgoing = self.outgoing.iter().chain(&self.finished);
        in_hand.extend(outgoing.filter_map(packet_of));
        in_hand.extend(self.outputs.iter().filter_map(|output| match output {
            Output::Depart(packet, _) | Output::Drop(packet, _) => Some(packet.frame.ordinal()),
            Output::Reply(_) | Output::Send(_) => None,
        }));
        let passing = self.flows().flat_map(|flows| flows.passing());
        in_hand.extend(passing.map(|packet| packet.frame.ordinal()));
        in_hand.extend(take_lost());
        in_hand.extend(at_work);
        in_hand.sort_unstable();
        in_hand.dedup();
        let lost = in_hand.len() + self.packets_kept();
        self.drops.add(DropReason::WorkerCrashed, lost as u64);
    }

    /// The run ends: packets that wait or are kept here are lost.
    #[cold]
    pub(super) fn count_left_inside(&mut self) {
        let inside = self.packets_kept() as u64;
        self.drops.add(DropReason::RunEnded, inside);
    }

    /// Packets that wait for rules to go, or that functions keep.
    pub(super) fn packets_kept(&self) -> usize {
        self.elements.iter().map(kept_in).sum()
    }

    /// Another life begins. The fast path is told at once if it may have rules of the last one.
    #[cold]
    pub(super) fn begin_anew(&mut self, now: Instant, pools: &mut Pools, returns: &mut Vec<Frame>) {
        let mut drops = DropCounters::default();
        self.flows().for_each(|flows| drops.absorb(flows.drops()));
        self.drops.absorb(&drops);
        // Frames go home when they are dropped.
        self.elements.clear();
        self.outgoing.clear();
        self.finished.clear();
        self.onward.clear();
        self.outputs.clear();
        self.begin_life(now);
        if self.rules().next().is_some() {
            self.tell_epoch(pools, returns);
        }
    }

    /// The next epoch, with elements that know nothing.
    #[cold]
    pub(super) fn begin_life(&mut self, now: Instant) {
        self.epoch += 1;
        self.retry_at = Some(now);
        self.revive_if_due(now);
    }

    /// Makes the elements again if that has failed before.
    #[inline]
    pub(super) fn revive_if_due(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.revive(now);
        }
    }

    #[cold]
    fn revive(&mut self, now: Instant) {
        let is_made = self.guarded(|worker| {
            if let Ok(elements) = (worker.blueprint)() {
                worker.elements = elements;
                worker.start_elements();
            }
        });
        let has_failed = !is_made || self.elements.is_empty();
        if has_failed {
            self.elements.clear();
        }
        self.retry_at = has_failed.then(|| now + RETRY_AFTER);
    }

    /// Why a frame finds no element.
    pub(super) fn reason_for_no_element(&self) -> DropReason {
        match self.retry_at {
            Some(_) => DropReason::WorkerCrashed,
            None => DropReason::BadLinkFrame,
        }
    }

    /// An empty message about rules: it says no more than which life this is.
    #[cold]
    pub(super) fn tell_epoch(&mut self, pools: &mut Pools, returns: &mut Vec<Frame>) {
        let Some(frame) = pools.take(0) else {
            // Every other frame says it too.
            return;
        };
        let mut header = Header::new(Message::RuleRequest, FlowKey::default());
        (header.epoch, header.chain) = (self.epoch, self.chain);
        self.send(frame, &header, pools, returns);
    }
}

/// The packet that goes out with a message, by its number; none for what a function made.
fn packet_of(outgoing: &Outgoing) -> Option<u64> {
    let frame = outgoing.frame.as_ref()?;
    let is_packet = outgoing.header.has_packet && !outgoing.header.is_reply;
    is_packet.then(|| frame.ordinal())
}

/// Packets that an element keeps; none where a function that has crashed cannot say it.
fn kept_in(element: &SlowElement) -> usize {
    match element {
        SlowElement::Rules(rules) => SlowRules::waiting(rules),
        SlowElement::Dash(_) => 0,
        SlowElement::Flows(flows) => {
            let chain = flows.chain();
            let kept = |place| catch_unwind(AssertUnwindSafe(|| chain.kept_by(place)));
            (0..chain.len()).filter_map(|place| kept(place).ok()).sum()
        }
    }
}
