//! What the workers do with headers: they make them look like their packets, and tell which of them
//! they have dropped.

use super::{cut, stretch};
use crate::{Frame, Metadata, Ticket};

/// Headers that are on the slow path. Functions work on them as if they were packets: the frame is as
/// long as the whole packet, and what stands for what is parked has no meaning.
#[derive(Debug, Default)]
pub struct PendingHeaders(Vec<PendingHeader>);

/// What is remembered of a header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct PendingHeader {
    ticket: Ticket,
    parked_bytes: u16,
}

impl PendingHeaders {
    /// A frame has come. `false` if it is no header of a packet that fits its buffer.
    #[must_use]
    pub fn receive(&mut self, frame: &mut Frame) -> bool {
        let parked_bytes = frame.metadata().parked_bytes;
        if parked_bytes == 0 {
            return true;
        }
        let ticket = frame.ticket();
        let fits = stretch(frame);
        if fits {
            self.0.push(PendingHeader {
                ticket,
                parked_bytes,
            });
        }
        fits
    }

    /// A frame goes back: what it has in front of the parked bytes is the new header, however long.
    /// `false` if it is shorter than what is parked; then it counts as dropped.
    #[must_use]
    pub fn give_back(&mut self, frame: &mut Frame) -> bool {
        if frame.metadata().parked_bytes == 0 {
            return true;
        }
        let goes = cut(frame);
        if goes {
            let ticket = frame.ticket();
            self.0.retain(|header| header.ticket != ticket);
        }
        goes
    }

    /// Whether no header is here.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets a header that is here no more, if there is one, and turns an empty frame into the
    /// notice of that.
    pub fn dropped(&mut self, notice: &mut Frame) {
        let Some(header) = self.0.pop() else {
            return;
        };
        let PendingHeader {
            ticket,
            parked_bytes,
        } = header;
        notice.set_metadata(Metadata {
            parked_bytes,
            ..notice.metadata()
        });
        notice.set_ticket(ticket);
    }

    /// All are gone, and nobody tells the fast path: the workers have crashed.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
