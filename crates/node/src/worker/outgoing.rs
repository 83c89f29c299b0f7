//! What a worker gives back goes onto the link.

use super::Worker;
use twinpath_coherence::slow::Outgoing;
use twinpath_core::pool::DroppedHeader;
use twinpath_core::split::cut;
use twinpath_core::{DropReason, FlowKey, Frame, Metadata, Pools};
use twinpath_link::{Header, Message, attach, number};

impl Worker {
    pub(super) fn put_on_the_link(&mut self, pools: &mut Pools, returns: &mut Vec<Frame>) {
        // In place: headers are long.
        for Outgoing { header, frame } in &mut self.outgoing {
            (header.epoch, header.chain) = (self.epoch, self.chain);
            let Some(mut frame) = frame.take().or_else(|| pools.take(0)) else {
                self.counts.no_buffer += 1;
                continue;
            };
            // Of a header goes what is in front of its payload, however long.
            let is_whole = frame.metadata().parked_bytes == 0;
            let refused = match is_whole || cut(&mut frame) {
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
        while let Some(dropped) = pools.take_dropped_header() {
            self.tell_of_dropped(dropped, pools, returns);
        }
    }

    /// A header's payload waits for nobody any more.
    #[cold]
    fn tell_of_dropped(
        &mut self,
        DroppedHeader {
            ticket,
            parked_bytes,
        }: DroppedHeader,
        pools: &mut Pools,
        returns: &mut Vec<Frame>,
    ) {
        let Some(mut notice) = pools.take(0) else {
            // It waits until it times out.
            self.counts.no_buffer += 1;
            return;
        };
        let mut header = Header::new(Message::Dropped, FlowKey::default());
        (header.epoch, header.chain) = (self.epoch, self.chain);
        notice.set_metadata(Metadata {
            parked_bytes,
            ..notice.metadata()
        });
        notice.set_ticket(ticket);
        self.send(notice, &header, pools, returns);
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
