//! What the thread that follows the kernel and the one that exchanges packets tell each other.
//!
//! Neither waits for the other for long: both ways are bounded. A question that finds no room is
//! asked again a second later; what is to be told waits, and so the kernel's messages do.

use super::host::HostAddresses;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use twinpath_control::report::KernelFigures;
use twinpath_core::wire::Address;
use twinpath_kernel::NeighborChange;

/// Questions that may wait.
const QUESTIONS: usize = 1024;
/// What may wait to be heard.
const TOLD: usize = 4096;

/// Something that ports hear.
#[derive(Clone, Debug)]
pub enum Told {
    /// The addresses of the host are these.
    Addresses(Arc<HostAddresses>),
    /// What has become of a neighbour that was asked for.
    Neighbor(NeighborChange),
}

/// The ports' end.
pub struct Mailbox {
    questions: SyncSender<(u16, Address)>,
    told: Receiver<Told>,
    waker: UnixStream,
    figures: super::figures::Shared,
}

/// The end of who follows the kernel.
pub struct Desk {
    pub questions: Receiver<(u16, Address)>,
    told: SyncSender<Told>,
    waker: UnixStream,
}

/// Both ends.
///
/// # Errors
/// What the system says.
pub fn pair(figures: &super::figures::Shared) -> io::Result<(Mailbox, Desk)> {
    let (questions, asked) = sync_channel(QUESTIONS);
    let (told, heard) = sync_channel(TOLD);
    let (waker, woken) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let mailbox = Mailbox {
        questions,
        told: heard,
        waker,
        figures: figures.clone(),
    };
    let desk = Desk {
        questions: asked,
        told,
        waker: woken,
    };
    Ok((mailbox, desk))
}

impl Mailbox {
    /// Asks who has addresses at ports.
    pub fn ask(&self, questions: impl Iterator<Item = (u16, Address)>) {
        let mut has_asked = false;
        for question in questions {
            has_asked |= self.questions.try_send(question).is_ok();
        }
        if has_asked {
            // Where it is full, somebody has been woken already.
            let _ = (&self.waker).write(&[1]);
        }
    }

    /// The next thing that was told.
    pub fn hear(&self) -> Option<Told> {
        self.told.try_recv().ok()
    }

    /// What has been followed.
    pub fn figures(&self) -> KernelFigures {
        self.figures.get()
    }
}

impl Desk {
    /// Tells the ports; gives back what there is no room for now.
    pub fn tell(&self, what: Told) -> Option<Told> {
        match self.told.try_send(what) {
            Err(TrySendError::Full(what)) => Some(what),
            // Whoever is gone needs to hear nothing.
            Ok(()) | Err(TrySendError::Disconnected(_)) => None,
        }
    }

    /// What wakes us when there are questions.
    pub fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// We are awake.
    pub fn wake(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.waker).read(&mut bytes), Ok(len) if len == bytes.len()) {}
    }
}
