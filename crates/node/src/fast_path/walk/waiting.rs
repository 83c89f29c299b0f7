//! Packets that wait for the state of their flow go on.

use crate::fast_path::lane::Shape;
use crate::fast_path::{FastPath, Io};
use crate::position::Position;
use twinpath_coherence::{Parsed, StateStage};
use twinpath_core::wire::dissect;
use twinpath_core::{DropReason, Frame};

impl FastPath {
    /// A packet waits in front of an element that has just met it.
    #[cold]
    pub(super) fn wait_for_state(&mut self, frame: Frame, element: u8, io: &mut Io<'_>) {
        let (ordinal, at) = (frame.ordinal(), frame.timestamp());
        let slot = self.header.slot;
        if let Some(stage) = self.stage_at(element) {
            stage.wait(slot, frame, io.clock);
            self.under_way.open(ordinal, at);
        }
        self.release_waiting(element, io);
    }

    /// Packets that waited for state that has come, or will not come, meet the element as if they
    /// arrived now, in order.
    #[inline]
    pub(in crate::fast_path) fn release_waiting(&mut self, element: u8, io: &mut Io<'_>) {
        while let Some(mut queue) = self.stage_at(element).and_then(StateStage::take_released) {
            for frame in queue.drain(..) {
                self.under_way.close(frame.ordinal());
                self.meet_again(frame, element, io);
            }
            if let Some(stage) = self.stage_at(element) {
                stage.give_queue(queue);
            }
        }
    }

    /// The same at all elements.
    pub(in crate::fast_path) fn release_all_waiting(&mut self, io: &mut Io<'_>) {
        for element in 0..self.elements.len() as u8 {
            self.release_waiting(element, io);
        }
    }

    fn meet_again(&mut self, mut frame: Frame, element: u8, io: &mut Io<'_>) {
        let direction = frame.metadata().direction;
        let position = Position { element, direction };
        let layout = match dissect(frame.bytes()) {
            Ok(layout) => layout,
            Err(malformed) => return self.drop(frame, DropReason::Malformed(malformed), io),
        };
        let parsed = Parsed {
            layout,
            ..Parsed::default()
        };
        let shape = Shape::Other(&parsed);
        let (decision, _) = self.meet(&mut frame, &shape, position, 0, io.clock);
        self.stop(decision, frame, &layout, position, io);
    }
}
