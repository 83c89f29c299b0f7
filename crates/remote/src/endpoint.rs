//! The server's end of RDMA, whoever is there: the [`Responder`](crate::Responder) in software, or a
//! network card.

use std::error::Error;
use twinpath_core::wire::roce::{Path, Psn};
use twinpath_core::{Frame, Pools};

/// Who executes requests.
pub trait Endpoint {
    /// A queue pair begins a new life: from then on it executes the requests of the peer's queue pair `peer`,
    /// the first of which has the number `psn`, and none of its former life. Returns the number that requests
    /// are to go to.
    ///
    /// # Errors
    /// Why it cannot; who asked for it will ask again.
    fn restore(&mut self, index: u16, path: Path, peer: u32, psn: Psn) -> Result<u32, BoxedError>;

    /// Takes a frame if it is RoCE's, and says whether it was.
    fn receive(&mut self, frame: &[u8]) -> bool;

    /// Sends up to `most` answers, as long as there are buffers, appended to `out`.
    fn transmit(&mut self, pools: &mut Pools, out: &mut Vec<Frame>, most: usize);

    /// Whether [`Self::transmit`] has something to send.
    fn has_answers(&self) -> bool;
}

/// Why a queue pair cannot begin a life.
pub type BoxedError = Box<dyn Error + Send + Sync>;
