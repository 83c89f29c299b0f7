//! Copies of packets that functions drop which share flow state.

use super::watched::newly_dropped;
use super::{SlowElement, Worker};
use crate::mirror::{self, Event, Mirror};
use std::sync::Arc;
use twinpath_core::split::copy_of;
use twinpath_core::{DropCounters, DropReason, Frame};
use twinpath_link::Header;

/// A packet in front of functions that may drop it; only while somebody wants to know.
pub(super) struct InFront {
    buffer: usize,
    of: (u64, u16),
    drops: DropCounters,
    bytes: Vec<u8>,
}

/// A packet is dropped here.
pub(super) fn dropped(reason: DropReason, element: Option<u8>, function: Option<u8>) -> Event {
    Event::Dropped(mirror::Drop {
        reason,
        on_slow_path: true,
        element,
        function,
    })
}

impl Worker {
    /// The same, with somebody who copies packets for whoever wants them.
    pub(crate) fn with_mirror(mut self, mirror: &Arc<Mirror>) -> Self {
        self.mirror = Arc::clone(mirror);
        self
    }

    /// Functions that share flow state are about to meet a packet.
    #[inline]
    pub(super) fn copy_in_front(&mut self, header: &Header, frame: &Frame) -> Option<InFront> {
        match self.mirror.wants_drops() && header.has_packet {
            true => self.copied_in_front(header, frame),
            false => None,
        }
    }

    #[cold]
    fn copied_in_front(&mut self, header: &Header, frame: &Frame) -> Option<InFront> {
        let element = self.elements.get_mut(usize::from(header.element))?;
        let SlowElement::Flows(flows) = element else {
            return None;
        };
        // What was dropped before is no matter of this packet; whoever follows it asks for itself.
        if self.watch.is_none() {
            flows.take_dropper_place();
        }
        let mut bytes = std::mem::take(&mut self.copied);
        copy_of(frame, &mut bytes);
        Some(InFront {
            buffer: frame.buffer(),
            of: (frame.timestamp().0, frame.port()),
            drops: flows.drops().clone(),
            bytes,
        })
    }

    /// They have met it: what is outgoing from `first` on came of it.
    #[cold]
    pub(super) fn mirror_drop(&mut self, copied: InFront, first: usize, header: &Header) {
        if let Some(event) = self.drop_of(&copied, first, header) {
            self.mirror.copy_bytes(event, copied.of, &copied.bytes);
        }
        // The next packet is copied there.
        self.copied = copied.bytes;
    }

    fn drop_of(&mut self, copied: &InFront, first: usize, header: &Header) -> Option<Event> {
        let element = self.elements.get_mut(usize::from(header.element))?;
        let SlowElement::Flows(flows) = element else {
            return None;
        };
        let mut outgoing = self.outgoing.get(first..)?.iter();
        let goes_back = outgoing.any(|one| {
            let frame = one.frame.as_ref();
            frame.is_some_and(|frame| frame.buffer() == copied.buffer)
        });
        let reason = newly_dropped(&copied.drops, flows.drops())?;
        let place = match self.watch.is_none() {
            true => flows.take_dropper_place(),
            false => None,
        };
        let event = dropped(reason, Some(header.element), place.map(|place| place as u8));
        (!goes_back).then_some(event)
    }
}
