//! Packets pass elements of the chain on the worker, one after the other: everything is on the slow
//! path.

use super::Worker;
use crate::position::{ElementOrder, Position};
use twinpath_coherence::slow::Outgoing;
use twinpath_core::adjacency::shard_of;
use twinpath_core::wire::{Fragment, Layout, dissect};
use twinpath_core::{DropReason, Frame, Keyed, Pools};
use twinpath_link::{Header, Message};

impl Worker {
    /// Where everything is on the slow path, packets meet the next elements here.
    pub(super) fn walk_on(&mut self, pools: &mut Pools) {
        let Some(order) = self.whole_walk.as_ref().map(|walk| walk.order) else {
            return;
        };
        let goes_on = |outgoing| onward(outgoing, order).is_some();
        if !self.outgoing.iter().any(goes_on) {
            return;
        }
        loop {
            self.part(order);
            let Some((place, frame)) = self.onward.pop_front() else {
                break;
            };
            self.go_on(place, frame, pools);
        }
        // All that was outgoing has been parted.
        std::mem::swap(&mut self.finished, &mut self.outgoing);
    }

    /// Parts packets that go on here from what leaves.
    fn part(&mut self, order: ElementOrder) {
        for outgoing in self.outgoing.drain(..) {
            match (onward(&outgoing, order), outgoing.frame) {
                (Some(place), Some(frame)) => self.onward.push_back((place, frame)),
                (_, frame) => self.finished.push(Outgoing { frame, ..outgoing }),
            }
        }
    }

    /// A packet meets the element at a place.
    fn go_on(&mut self, place: Position, frame: Frame, pools: &mut Pools) {
        let layout = match dissect(frame.bytes()) {
            Ok(layout) => layout,
            Err(malformed) => {
                return self.drop(frame, DropReason::Malformed(malformed), pools);
            }
        };
        if !frame.metadata().is_answer
            && self.goes_by_the_fast_path(&frame, &layout)
            && let Some(before) = self.place_before(place)
        {
            return self.give_back(before, frame, &layout);
        }
        self.mirror.in_front(place.element, &frame);
        let steering = self
            .whole_walk
            .as_ref()
            .map(|walk| walk.steering.at(place.element));
        let keyed = steering.and_then(|steering| steering.key(frame.bytes(), &layout));
        let keyed = keyed.unwrap_or_default();
        let mut header = Header::of_packet(Message::Plain, &frame, &keyed);
        (header.element, header.metadata) = (place.element, frame.metadata());
        self.meet(&header, frame, pools);
    }

    fn place_before(&self, place: Position) -> Option<Position> {
        self.whole_walk.as_ref()?.order.before(place)
    }

    /// Whether a packet is a fragment, or comes behind one: then it would overtake it here.
    fn goes_by_the_fast_path(&self, frame: &Frame, layout: &Layout) -> bool {
        let (away, passed) = (&self.fragments_away, self.time.passed.at);
        layout.fragment != Fragment::Whole || away.are_before(frame.bytes(), layout, passed)
    }

    /// A fragment goes on at the fast path, where it finds its flow in front of the next element.
    fn give_back(&mut self, before: Position, frame: Frame, layout: &Layout) {
        self.fragments_away
            .note(frame.bytes(), layout, frame.timestamp());
        let mut header = Header::of_packet(Message::Return, &frame, &Keyed::default());
        (header.element, header.metadata) = (before.element, frame.metadata());
        let frame = Some(frame);
        self.finished.push(Outgoing { header, frame });
    }
}

/// The element that a packet goes on with, if it is one that goes on.
fn onward(outgoing: &Outgoing, order: ElementOrder) -> Option<Position> {
    let header = &outgoing.header;
    let metadata = outgoing.frame.as_ref()?.metadata();
    let place = Position {
        element: header.element,
        direction: metadata.direction,
    };
    if shard_of(metadata.egress).is_some() {
        return None;
    }
    match (header.has_packet, metadata.is_answer) {
        (true, true) => order.back(place),
        (true, false) if !header.is_reply => order.next(place),
        _ => None,
    }
}
