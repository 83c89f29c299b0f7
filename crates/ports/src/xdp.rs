//! AF_XDP: packets come from the driver of an interface, past the kernel's network stack.
//!
//! A [program](crate::program) on the interface hands each packet to the socket of the queue that it came
//! by. Each queue has a socket with memory of its own, of which one half is for packets that come
//! and the other for packets that leave. Zero copy is taken where the driver has it, else the kernel
//! copies. Between that memory and buffers of the pool packets are copied, too: a burst's cost on the
//! way in is a copy of what is in the cache already.
//!
//! The kernel tells nothing of offloads here. Frames that are to be cut are cut by
//! [`segments`]; checksums of packets from a virtual cable are
//! [completed](crate::offload::complete_if_partial).

mod flood;
mod rings;
mod socket;

use crate::counters::PortCounters;
use crate::interface::Interface;
use crate::offload::{Oversized, complete_if_partial, segments};
use crate::part::Part;
use crate::program::{HostPrefix, Program};
pub use flood::Flood;

use socket::Socket;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twinpath_core::{Frame, Pools};

/// The queues of an interface that are a part's.
pub struct XdpPort {
    /// At least one.
    sockets: Vec<Socket>,
    program: Arc<Mutex<Program>>,
    mtu: usize,
    /// Whether checksums may be half made.
    is_virtual: bool,
    /// The queue that is asked first, in turn.
    next: usize,
    cut: Vec<Frame>,
}

/// How packets get from the driver to us and back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Copying {
    /// The card writes to our memory.
    Zero,
    /// The kernel copies.
    Kernel,
}

impl XdpPort {
    /// Opens a socket on every queue that is the part's; nothing if none is. The first part puts the
    /// program on the interface, which is there until all parts are closed. Where this host shares
    /// the interface, its own packets go to it.
    ///
    /// # Errors
    /// It is not permitted (CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF), the driver has no XDP, the
    /// interface has a program already, or its packets are longer than a buffer.
    pub fn open(interface: &Interface, is_shared: bool, part: &Part) -> io::Result<Option<Self>> {
        let opened = Self::open_queues(interface, is_shared, part);
        if opened.is_err() {
            // Another try begins with nothing that was kept.
            Self::forget(interface, part);
        }
        opened
    }

    fn open_queues(
        interface: &Interface,
        is_shared: bool,
        part: &Part,
    ) -> io::Result<Option<Self>> {
        let queues: Vec<_> = part.queues(interface.queues).collect();
        if queues.is_empty() {
            return Ok(None);
        }
        let load = || Program::load(interface.queues, is_shared);
        let program = part.program(interface, load)?;
        let mut sockets = Vec::new();
        for queue in queues {
            let socket = Socket::open(interface, queue, part.keeper())?;
            lock(&program).steer(queue, socket.descriptor())?;
            sockets.push(socket);
        }
        lock(&program).attach(interface.index, part.keeper())?;
        Ok(Some(Self {
            sockets,
            program,
            mtu: interface.mtu,
            is_virtual: interface.driver == "veth",
            next: 0,
            cut: Vec::new(),
        }))
    }

    /// Nobody keeps it any more: its interface is gone.
    pub fn forget(interface: &Interface, part: &Part) {
        for queue in part.queues(interface.queues) {
            Socket::forget(interface.index, queue, part.keeper());
        }
        Program::forget(interface.index, part.keeper());
    }

    /// Whether the card or the kernel copies: of all queues, the worst.
    pub fn copying(&self) -> Copying {
        match self.sockets.iter().all(Socket::is_zero_copy) {
            true => Copying::Zero,
            false => Copying::Kernel,
        }
    }

    /// What is waited for: one descriptor a queue.
    pub fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.sockets.iter().map(Socket::descriptor)
    }

    /// Packets to these prefixes are this host's, or not, where it shares the interface.
    ///
    /// # Errors
    /// There are too many.
    pub fn set_host(&mut self, prefixes: &BTreeSet<HostPrefix>) -> io::Result<()> {
        lock(&self.program).set_prefixes(prefixes)
    }

    /// The interface has another MTU.
    pub fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    /// Receives up to `most` frames, appended to `burst`: queue after queue, another first each time.
    pub fn receive(
        &mut self,
        pools: &mut Pools,
        burst: &mut Vec<Frame>,
        most: usize,
        counters: &mut PortCounters,
    ) {
        let (first, queues) = (burst.len(), self.sockets.len());
        for turn in 0..queues {
            let rest = most - (burst.len() - first);
            let socket = &mut self.sockets[(self.next + turn) % queues];
            socket.receive(pools, burst, rest, counters);
        }
        self.next = (self.next + 1) % queues;
        if self.is_virtual {
            let new = burst[first..].iter_mut();
            new.for_each(|frame| complete_if_partial(frame.bytes_mut()));
        }
    }

    /// Queues a frame that leaves; it is sent by [`Self::flush`].
    pub fn transmit(&mut self, frame: Frame, pools: &mut Pools, counters: &mut PortCounters) {
        match segments(frame, self.mtu, pools, &mut self.cut) {
            Ok(()) => {}
            Err(Oversized::Frame) => counters.transmit_too_long += 1,
            Err(Oversized::NoBuffer) => counters.transmit_refused += 1,
        }
        // One queue of this part for all keeps the order of every flow.
        for frame in self.cut.drain(..) {
            match self.sockets[0].transmit(frame.bytes()) {
                true => counters.transmitted(frame.len()),
                false => counters.transmit_refused += 1,
            }
            pools.give(frame);
        }
    }

    /// Has the kernel send what is queued.
    pub fn flush(&mut self) {
        self.sockets[0].flush();
    }

    /// Frames that came while there was no room for them, since the start.
    pub fn missed(&self) -> u64 {
        self.sockets.iter().map(Socket::missed).sum()
    }
}

/// Whoever panicked has left it as it was.
fn lock(program: &Mutex<Program>) -> MutexGuard<'_, Program> {
    program.lock().unwrap_or_else(PoisonError::into_inner)
}
