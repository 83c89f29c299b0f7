//! AF_XDP: packets come from the driver of an interface, past the kernel's network stack.
//!
//! A [program](crate::program) on the interface hands each packet to the socket of the queue that it came
//! by. Zero copy is taken where the driver has it, else the kernel copies. Between sockets and node
//! nothing is copied: frames lie in [memory](umem) that the kernel sees.
//!
//! The kernel tells nothing of offloads here. Frames that are to be cut are cut by
//! [`segments`]; checksums of packets that may not have been on a wire are
//! [completed](crate::offload::complete_if_partial); the interface is told to leave VLAN tags in frames,
//! and where they are beside them all the same the program puts them back, if it can.

mod flood;
mod rings;
mod socket;
#[cfg(test)]
mod tests;

use crate::counters::PortCounters;
use crate::descriptor_store::DescriptorStore;
use crate::interface::Interface;
use crate::offload::{Oversized, complete_if_partial, segments};
use crate::part::Part;
use crate::program::{HostPrefix, Program};
use crate::umem::{self, SharedUmem, Umem, lock};
pub use flood::Flood;

use socket::Socket;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use twinpath_core::pool::Borrower;
use twinpath_core::{Frame, Pools};

/// The queues of an interface that are a part's.
pub struct XdpPort {
    /// At least one.
    sockets: Vec<Socket>,
    umem: SharedUmem,
    /// As which its sockets have buffers.
    borrowers: Vec<Borrower>,
    program: Arc<Mutex<Program>>,
    mtu: usize,
    /// Whether checksums may be half made.
    has_partial_checksums: bool,
    /// Whether VLAN tags that are beside frames stay there.
    may_lose_tags: bool,
    /// The queue that is asked first, in turn.
    next: usize,
    /// What leaves, until some are handed to the socket.
    leaving: Vec<Frame>,
}

/// Frames that are handed to the socket at once.
const MOST_LEAVING: usize = 64;
/// The longest MTU for which a packet with its link header fits a chunk.
const MOST_MTU: usize = 3600;

/// How packets get from the driver to us and back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Copying {
    /// The card writes to our memory.
    Zero,
    /// The kernel copies.
    Kernel,
}

impl Copying {
    /// As reports say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero_copy",
            Self::Kernel => "copy",
        }
    }
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
        check_mtu(interface.mtu)?;
        let load = || Program::load(interface.most_queues, is_shared);
        let program = part.program(interface, load)?;
        let places: Vec<_> = part.places(interface).collect();
        let (umem, borrowers) = umem::enter(part.umem(), &places, part.descriptor_store())?;
        let mut port = Self {
            sockets: Vec::new(),
            umem,
            borrowers,
            program,
            mtu: interface.mtu,
            has_partial_checksums: true,
            may_lose_tags: false,
            next: 0,
            leaving: Vec::new(),
        };
        port.open_sockets(interface, &queues, part.descriptor_store())?;
        port.attach(interface, part.descriptor_store())?;
        Ok(Some(port))
    }

    fn attach(
        &mut self,
        interface: &Interface,
        descriptor_store: &DescriptorStore,
    ) -> io::Result<()> {
        let mut program = lock(&self.program);
        program.attach(interface, descriptor_store)?;
        // A card's driver hands over what was on the wire.
        self.has_partial_checksums = !(interface.is_hardware && program.is_in_driver());
        self.may_lose_tags = match interface.is_hardware {
            true => program.strips_tags(),
            false => !program.puts_tags_back(),
        };
        Ok(())
    }

    fn open_sockets(
        &mut self,
        interface: &Interface,
        queues: &[u32],
        descriptor_store: &DescriptorStore,
    ) -> io::Result<()> {
        let umem = &mut lock(&self.umem);
        for (&queue, &borrower) in queues.iter().zip(&self.borrowers) {
            let socket = Socket::open(interface, queue, borrower, umem, descriptor_store)?;
            lock(&self.program).steer(queue, socket.descriptor())?;
            self.sockets.push(socket);
        }
        Ok(())
    }

    /// Nobody keeps it any more: its interface is gone.
    pub fn forget(interface: &Interface, part: &Part) {
        Self::forget_sockets(interface, part);
        Program::forget(interface.index, part.descriptor_store());
    }

    /// Nobody keeps its sockets any more: the interface has other queues.
    pub fn forget_sockets(interface: &Interface, part: &Part) {
        for queue in part.queues(interface.queues) {
            Socket::forget(interface.index, queue, part.descriptor_store());
        }
    }

    /// Whether VLAN tags that the interface hands over beside a frame are lost.
    pub const fn may_lose_tags(&self) -> bool {
        self.may_lose_tags
    }

    /// Whether the card or the kernel copies: of all queues, the worst.
    pub fn copying(&self) -> Copying {
        match self.sockets.iter().all(Socket::is_zero_copy) {
            true => Copying::Zero,
            false => Copying::Kernel,
        }
    }

    /// Whether all its sockets are on the interface still: the kernel takes them off one that leaves its
    /// network.
    pub fn is_bound(&self) -> bool {
        self.sockets.iter().all(Socket::is_bound)
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
        let umem = &mut lock(&self.umem);
        for turn in 0..queues {
            let rest = most - (burst.len() - first);
            let socket = &mut self.sockets[(self.next + turn) % queues];
            socket.receive(umem, pools, burst, rest, counters);
        }
        self.next = (self.next + 1) % queues;
        if self.has_partial_checksums {
            let new = burst[first..].iter_mut();
            new.for_each(|frame| complete_if_partial(frame.bytes_mut()));
        }
    }

    /// Queues a frame that leaves; it is sent by [`Self::flush`].
    pub fn transmit(&mut self, frame: Frame, pools: &mut Pools, counters: &mut PortCounters) {
        match segments(frame, self.mtu, pools, &mut self.leaving) {
            Ok(()) => {}
            Err(Oversized::Frame) => counters.transmit_too_long += 1,
            Err(Oversized::NoBuffer) => counters.transmit_refused += 1,
        }
        if self.leaving.len() >= MOST_LEAVING {
            let umem = &mut lock(&self.umem);
            hand_over(
                &mut self.leaving,
                &mut self.sockets[0],
                umem,
                pools,
                counters,
            );
        }
    }

    /// Has the kernel send what is queued.
    pub fn flush(&mut self, pools: &mut Pools, counters: &mut PortCounters) {
        let umem = &mut lock(&self.umem);
        // One queue of this part for all keeps the order of every flow.
        let socket = &mut self.sockets[0];
        hand_over(&mut self.leaving, socket, umem, pools, counters);
        socket.flush(umem);
    }

    /// Frames that came while there was no room for them, since the start.
    pub fn missed(&self) -> u64 {
        self.sockets.iter().map(Socket::missed).sum()
    }

    /// Frames that lie in the rings of its queues.
    pub fn unread(&self) -> u64 {
        let each = self.sockets.iter();
        each.map(|socket| u64::from(socket.unread())).sum()
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        self.sockets.clear();
        let mut umem = lock(&self.umem);
        self.borrowers.iter().for_each(|&one| umem.left(one));
    }
}

fn hand_over(
    frames: &mut Vec<Frame>,
    socket: &mut Socket,
    umem: &mut Umem,
    pools: &mut Pools,
    counters: &mut PortCounters,
) {
    for frame in frames.drain(..) {
        let bytes = frame.len();
        match socket.transmit(frame, umem, pools, counters) {
            true => counters.transmitted(bytes),
            false => counters.transmit_refused += 1,
        }
    }
}

fn check_mtu(mtu: usize) -> io::Result<()> {
    match mtu {
        0..=MOST_MTU => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("an MTU of {mtu}: AF_XDP takes packets of up to {MOST_MTU} bytes"),
        )),
    }
}
