//! Frames in the hands of whoever panics: unwinding drops them, and a packet among them is lost.

use super::Frame;
use std::cell::RefCell;

/// More are not remembered at a time: nobody has so many frames in his hands.
const MOST: usize = 1 << 16;

thread_local! {
    static LOST: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A frame is dropped by unwinding. What functions make has no number; nor has the very first packet.
#[cold]
pub(super) fn note(frame: &Frame) {
    // A thread that ends takes no notes.
    _ = LOST.try_with(|lost| match lost.try_borrow_mut() {
        Ok(mut lost) if frame.ordinal() != 0 && lost.len() < MOST => lost.push(frame.ordinal()),
        _ => {}
    });
}

/// The numbers, in the order of arrival, of frames that panics of this thread have dropped since this was asked
/// before.
pub fn take_lost() -> Vec<u64> {
    LOST.take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use std::panic::catch_unwind;

    #[test]
    fn what_a_panic_drops_is_told_once() {
        let mut pool = Pool::new(4, 64);
        let mut frames: Vec<_> = (0..3).map(|_| pool.take().expect("a buffer")).collect();
        (3..)
            .zip(&mut frames)
            .for_each(|(number, frame)| frame.set_ordinal(number));
        drop(frames.pop());
        assert!(take_lost().is_empty());
        let panicked = catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = frames;
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err());
        assert_eq!(take_lost(), [3, 4]);
        assert!(take_lost().is_empty());
    }
}
