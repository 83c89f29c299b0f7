//! What a place for payloads does, whatever is behind it: a [server](crate::Requester) over RoCE, or
//! [memory of this process](crate::Store).

use crate::handle::Handle;
use crate::header_slots::HeaderSlot;
use thiserror::Error;
use twinpath_core::{Frame, Instant, Pools};

/// A place where payloads wait.
///
/// All calls return at once. Frames that are to be sent, and payloads that are back, are appended to
/// an [`Output`]. Whoever owns it gives it every frame that comes from the server, and calls
/// [`poll`](Self::poll) behind each burst and at the [deadline](Self::deadline).
pub trait PayloadMemory {
    /// Which queue pairs may be written to. Packets of one class use one, so that they stay in order.
    fn queue_pairs(&self) -> u16;

    /// Whether a queue pair takes payloads now.
    fn is_ready(&self, queue_pair: u16) -> bool;

    /// Writes a payload, which is all of the frame.
    ///
    /// # Errors
    /// The payload comes back as it was: its packet has to travel whole.
    fn write(
        &mut self,
        queue_pair: u16,
        payload: Frame,
        now: Instant,
        output: &mut Output,
    ) -> Result<Handle, (Frame, Refusal)>;

    /// Reads a payload, for a header that waits. It, or that it is lost, will be in an [`Output`]: of one
    /// queue pair those that are not lost in the order in which they were asked for.
    ///
    /// # Errors
    /// There is no such payload, or no room; nothing will come. An unread payload stays where it is.
    fn read(
        &mut self,
        handle: &Handle,
        header: HeaderSlot,
        now: Instant,
        pools: &mut Pools,
        output: &mut Output,
    ) -> Result<(), Refusal>;

    /// Nobody will read a payload: the function has dropped its packet.
    fn discard(&mut self, handle: &Handle);

    /// Takes a frame that came from the server's side; what is not for this comes back.
    fn receive(
        &mut self,
        frame: Frame,
        now: Instant,
        pools: &mut Pools,
        output: &mut Output,
    ) -> Option<Frame>;

    /// Does what time and new room ask for.
    fn poll(&mut self, now: Instant, pools: &mut Pools, output: &mut Output);

    /// When [`poll`](Self::poll) is to be called at the latest.
    fn deadline(&self) -> Instant;
}

/// What comes out of a place for payloads.
#[derive(Debug, Default)]
pub struct Output {
    /// To be sent to the server.
    pub frames: Vec<Frame>,
    /// Payloads that were asked for.
    pub payloads: Vec<Returned>,
}

/// What became of a payload that was asked for.
#[derive(Debug)]
pub struct Returned {
    /// Whose it is.
    pub header: HeaderSlot,
    /// The payload, which is all of the frame; there is headroom for its headers.
    pub payload: Result<Frame, Lost>,
}

/// Why a payload is not taken or cannot be read.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There is no such queue pair.
    #[error("no such queue pair")]
    QueuePair,
    /// The queue pair has no life at this moment.
    #[error("the queue pair is being restored")]
    Down,
    /// Longer than a packet of RDMA.
    #[error("payload longer than the path's MTU")]
    TooLong,
    /// As many requests are under way as may be.
    #[error("too many requests are under way")]
    Window,
    /// The memory is full of payloads that are being read.
    #[error("no room in remote memory")]
    Memory,
    /// The frame has no room for headers.
    #[error("no room for headers in front of the payload")]
    Headroom,
    /// A handle that was never given out like this, or whose payload is gone: overtaken, lost with its
    /// server, or read already.
    #[error("no such payload")]
    Unknown,
}

/// Why a payload does not come back.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum Lost {
    /// It did not reach the server.
    #[error("the payload was lost on its way to the server")]
    Write,
    /// The server did not answer in time.
    #[error("the payload did not come in time")]
    Timeout,
    /// What came is not what was written.
    #[error("what came is not what was written")]
    Mismatch,
    /// The server has lost all that it had.
    #[error("the server has begun anew")]
    Server,
}
