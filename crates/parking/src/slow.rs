//! What the cores do with a header: they give it to a function as if it were the packet.

use crate::messages::{NoTag, Parked, Tag};
use crate::split::stretch;
use twinpath_core::Frame;

/// Why the cores cannot use a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VisitError {
    /// It has no tag.
    #[error(transparent)]
    NoTag(#[from] NoTag),
    /// It is no header, or its packet would be longer than a buffer.
    #[error("not the header of a packet that fits a buffer")]
    NoHeader,
}

/// What the cores remember of a frame while the function has it.
#[must_use = "a frame goes back with its tag"]
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Visitor(Option<Parked>);

impl Visitor {
    /// Takes the tag off. The frame then is as long as the whole packet, with zeros for what is
    /// parked: functions that work on headers alone need not know.
    ///
    /// # Errors
    /// The frame is none of ours.
    pub fn welcome(frame: &mut Frame) -> Result<Self, VisitError> {
        match Tag::detach(frame)? {
            Tag::Whole => Ok(Self(None)),
            Tag::Header(parked) if stretch(frame, parked.payload_bytes) => Ok(Self(Some(parked))),
            Tag::Header(_) | Tag::Dropped(_) => Err(VisitError::NoHeader),
        }
    }

    /// Makes a frame that the function passed on ready for the way back: what it has in front of
    /// the parked bytes is the new header, however long. Returns whether that could be done; a
    /// frame shorter than what is parked, or without room for a tag, could not have left anyway.
    #[must_use]
    pub fn farewell(self, frame: &mut Frame) -> bool {
        let Some(parked) = self.0 else {
            return Tag::Whole.attach(frame);
        };
        let header_bytes = frame.len().checked_sub(parked.payload_bytes as usize);
        header_bytes.is_some_and(|bytes| frame.set_len(bytes)) && Tag::Header(parked).attach(frame)
    }

    /// Makes the notice that a function has dropped the packet out of its frame. `false` if nobody
    /// waits for one, because nothing was parked.
    #[must_use]
    pub fn decline(self, frame: &mut Frame) -> bool {
        let Some(parked) = self.0 else {
            return false;
        };
        frame.set_len(0) && Tag::Dropped(parked).attach(frame)
    }
}
