//! What a worker gives back goes onto the link.

use super::Worker;
use twinpath_coherence::slow::Outgoing;
use twinpath_core::{DropReason, FlowKey, Frame, Pools};
use twinpath_link::{Header, Message, attach, number};
use twinpath_rulecache::SlowRules;

impl Worker {
    pub(super) fn put_on_the_link(&mut self, pools: &mut Pools, returns: &mut Vec<Frame>) {
        // In place: headers are long.
        for Outgoing { header, frame } in &mut self.outgoing {
            (header.epoch, header.chain) = (self.epoch, self.chain);
            let Some(mut frame) = frame.take().or_else(|| pools.take(0)) else {
                self.counts.no_buffer += 1;
                continue;
            };
            let refused = match self.pending.give_back(&mut frame) {
                true => attach(&mut frame, header)
                    .is_err()
                    .then_some(DropReason::NoHeadroom),
                false => Some(DropReason::BadLinkFrame),
            };
            if let Some(reason) = refused {
                self.drops.count(reason);
                pools.give(frame);
                continue;
            }
            number(&mut frame, self.numbers.number());
            returns.push(frame);
        }
        self.outgoing.clear();
        if !self.pending.is_empty() {
            self.tell_of_dropped(pools, returns);
        }
    }

    /// Headers that have not gone back were dropped, unless rules keep packets waiting: then it is
    /// told later.
    #[cold]
    fn tell_of_dropped(&mut self, pools: &mut Pools, returns: &mut Vec<Frame>) {
        if self.rules().any(SlowRules::is_waiting) {
            return;
        }
        while !self.pending.is_empty() {
            let Some(mut notice) = pools.take(0) else {
                // Their payloads wait until they time out.
                self.counts.no_buffer += 1;
                return self.pending.clear();
            };
            let mut header = Header::new(Message::Dropped, FlowKey::default());
            (header.epoch, header.chain) = (self.epoch, self.chain);
            self.pending.dropped(&mut notice);
            self.send(notice, &header, pools, returns);
        }
    }

    /// A message of the worker's own.
    pub(super) fn send(
        &mut self,
        mut frame: Frame,
        header: &Header,
        pools: &mut Pools,
        returns: &mut Vec<Frame>,
    ) {
        match attach(&mut frame, header) {
            Ok(()) => {
                number(&mut frame, self.numbers.number());
                returns.push(frame);
            }
            Err(_) => pools.give(frame),
        }
    }
}
