//! What the thread that follows the kernel and the one that exchanges packets tell each other.
//!
//! Neither waits for the other for long: both ways are bounded. A question that finds no room is
//! asked again a second later; what is to be told waits, and so the kernel's messages do.

use super::host::HostAddresses;
use std::collections::VecDeque;
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
pub enum KernelNews {
    /// The addresses of the host are these.
    Addresses(Arc<HostAddresses>),
    /// These neighbours are known at the start.
    Neighbors(Arc<[NeighborChange]>),
    /// What has become of a neighbour that was asked for, or told.
    Neighbor(NeighborChange),
}

/// The ports' end, of one shard.
pub struct Mailbox {
    questions: SyncSender<(u16, Address)>,
    told: Receiver<KernelNews>,
    waker: UnixStream,
    figures: super::figures::Shared,
}

/// The end of who follows the kernel.
pub struct FollowerEnd {
    pub questions: Receiver<(u16, Address)>,
    listeners: Vec<Listener>,
    waker: UnixStream,
}

/// Who is told, and what there was no room for.
struct Listener {
    told: SyncSender<KernelNews>,
    untold: VecDeque<KernelNews>,
}

/// Both ends, for the ports of so many shards.
///
/// # Errors
/// What the system says.
pub fn ends(
    figures: &super::figures::Shared,
    shards: u16,
) -> io::Result<(Vec<Mailbox>, FollowerEnd)> {
    let (questions, asked) = sync_channel(QUESTIONS);
    let (waker, woken) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let (mut mailboxes, mut listeners) = (Vec::new(), Vec::new());
    for _ in 0..shards {
        let (told, heard) = sync_channel(TOLD);
        mailboxes.push(Mailbox {
            questions: questions.clone(),
            told: heard,
            waker: waker.try_clone()?,
            figures: figures.clone(),
        });
        listeners.push(Listener {
            told,
            untold: VecDeque::new(),
        });
    }
    let end = FollowerEnd {
        questions: asked,
        listeners,
        waker: woken,
    };
    Ok((mailboxes, end))
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
    pub fn hear(&self) -> Option<KernelNews> {
        self.told.try_recv().ok()
    }

    /// What has been followed.
    pub fn figures(&self) -> KernelFigures {
        self.figures.get()
    }
}

impl Listener {
    fn hear(&mut self) {
        while let Some(what) = self.untold.pop_front() {
            match self.told.try_send(what) {
                Ok(()) => {}
                Err(TrySendError::Full(what)) => return self.untold.push_front(what),
                // Whoever is gone needs to hear nothing.
                Err(TrySendError::Disconnected(_)) => return self.untold.clear(),
            }
        }
    }
}

impl FollowerEnd {
    /// All ports are to hear this.
    pub fn tell(&mut self, what: &KernelNews) {
        for listener in &mut self.listeners {
            listener.untold.push_back(what.clone());
        }
    }

    /// Tells what there is room for; returns whether all has been told.
    pub fn deliver(&mut self) -> bool {
        self.listeners.iter_mut().for_each(Listener::hear);
        self.listeners.iter().all(|one| one.untold.is_empty())
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
