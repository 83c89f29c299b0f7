//! What leaves a node.

use twinpath_core::Frame;

/// Which path a packet that leaves has taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// It never saw the workers.
    Fast,
    /// It came back from the slow path.
    Slow,
}

/// A packet that leaves.
#[derive(Debug)]
pub struct Departure {
    /// The packet.
    pub frame: Frame,
    /// The path it took.
    pub via: Via,
    /// Whether it goes back to the sender of the request it answers.
    pub is_reply: bool,
    /// The port that it leaves by.
    pub port: u16,
    /// It leaves in fragments whose IP packets are of at most so many bytes; 0 if as it is.
    pub room: u16,
}

impl Departure {
    /// A packet that has passed the chain. Its port is [chosen](crate::FastPath::choose_ports) when it
    /// leaves.
    #[inline(always)]
    pub(crate) const fn new(frame: Frame, via: Via, is_reply: bool) -> Self {
        Self {
            frame,
            via,
            is_reply,
            port: 0,
            room: 0,
        }
    }
}
