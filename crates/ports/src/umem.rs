//! The memory that sockets share with the kernel: a pool of frames, of which the kernel has some.
//!
//! All AF_XDP ports of one thread have one. Each socket registers the same memory for itself, so that one
//! card may write to it while the kernel copies for another, and an interface that goes takes nothing
//! along. What a socket has received is a frame as it lies, with headroom in front; what leaves by any
//! of the sockets is handed to the kernel as it lies, and is free when the kernel has sent it.
//!
//! A chunk is a page, as every driver takes it:
//! ```text
//! | bookkeeping of the frame 64 | headroom 256 | packet, up to 3776 |
//! ```
//! The kernel leaves as much room in front of a packet by itself as a frame's headroom is; bookkeeping lies
//! in what it is told to leave besides.
//!
//! Who has a buffer is always known: this process, or one of the [places](QueueHolder). A socket has
//! [`ENTRIES`] buffers to receive into, and for each that it hands over it gets another at once. If the
//! node keeps so many frames that few are left, packets are copied to buffers of the node, so frames that
//! are made there always find one to leave in. Buffers of a socket that is closed come back when the kernel
//! has certainly let go of them: another socket has been bound to its queue, or its interface is gone.

use crate::counters::PortCounters;
use crate::descriptor_store::DescriptorStore;
use crate::interface::Interface;
use crate::sys;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twinpath_core::memory_file::MemoryFile;
use twinpath_core::pool::{Borrower, OVERHEAD};
use twinpath_core::{Frame, Pool, Pools};

/// Entries of each ring, and buffers that the kernel has to receive into.
pub const ENTRIES: u32 = 4096;

/// Whoever panicked has left it as it was.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all ports of a thread have.
pub type SharedUmem = Arc<Mutex<Umem>>;

/// A chunk: what every driver takes.
pub const CHUNK_BYTES: usize = 4096;

/// What the kernel leaves in front of a packet by itself, and what it is told to leave besides.
const KERNEL_HEADROOM: usize = 256;
pub const HEADROOM: usize = OVERHEAD - KERNEL_HEADROOM;

/// What is in the memory, and where: a process with another number does not go on with it.
const LAYOUT: u32 = 1;

/// A queue that packets come by.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// The port, of those that share the memory.
    pub port: usize,
    /// The number of its interface.
    pub interface: u32,
    /// The queue's number.
    pub number: u32,
}

/// Who receives by a queue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Holder {
    /// Nobody, and the kernel has no buffer of it.
    Nobody,
    /// A socket of a former process, which may be gone on with.
    Former,
    /// A socket.
    Socket,
    /// A socket was closed; the kernel may not have let go of its buffers yet.
    Closed,
}

struct QueueHolder {
    queue: Queue,
    holder: Holder,
}

pub struct Umem {
    pool: Pool,
    places: Vec<QueueHolder>,
    /// Buffers that are left for frames of the node's that leave.
    reserve: usize,
    file: OwnedFd,
    /// Under which name it is kept; none if it is not.
    name: Option<String>,
    /// Of which thread.
    shard: u16,
}

impl Umem {
    /// Memory for these queues of so many ports; that of a former process with the same queues, if it
    /// is kept.
    pub fn open(
        queues: &[Queue],
        ports: usize,
        shard: u16,
        descriptor_store: &DescriptorStore,
    ) -> io::Result<Self> {
        let name = name(queues, shard);
        let len = file_bytes(queues.len(), ports);
        let kept = descriptor_store.take(&name);
        let kept = kept.and_then(|file| MemoryFile::of(file, len).ok());
        let (memory, holder) = match kept {
            Some(memory) => (memory, Holder::Former),
            None => {
                descriptor_store.forget(&name);
                let memory = MemoryFile::new(len)?;
                descriptor_store.keep(&name, memory.descriptor());
                (memory, Holder::Nobody)
            }
        };
        let mut umem = Self::over(memory, queues, ports, holder)?;
        (umem.name, umem.shard) = (Some(name), shard);
        Ok(umem)
    }

    /// Memory for one port alone, which nobody keeps.
    pub fn alone(queues: &[Queue]) -> io::Result<Self> {
        let memory = MemoryFile::new(file_bytes(queues.len(), 1))?;
        Self::over(memory, queues, 1, Holder::Nobody)
    }

    fn over(
        memory: MemoryFile,
        queues: &[Queue],
        ports: usize,
        holder: Holder,
    ) -> io::Result<Self> {
        let place = |&queue| QueueHolder { queue, holder };
        Ok(Self {
            file: memory.descriptor().try_clone()?,
            pool: Pool::in_file(memory, CHUNK_BYTES),
            places: queues.iter().map(place).collect(),
            reserve: ports * ENTRIES as usize / 4,
            name: None,
            shard: 0,
        })
    }

    /// Whether another process may go on with it.
    pub const fn is_kept(&self) -> bool {
        self.name.is_some()
    }

    /// A port is about to open sockets on these queues. `None` if it had others, or if the kernel may
    /// still write to buffers of its former interface.
    pub fn enter(
        &mut self,
        queues: &[Queue],
        descriptor_store: &DescriptorStore,
    ) -> Option<Vec<Borrower>> {
        self.settle();
        let places = queues.iter().map(|queue| self.place_of(queue));
        let places = places.collect::<Option<Vec<_>>>()?;
        let before = self.name.is_some().then(|| self.names_now());
        for (&place, queue) in places.iter().zip(queues) {
            self.places[place].queue = *queue;
        }
        if before.is_some_and(|before| before != self.names_now()) {
            self.keep_as(self.names_now(), descriptor_store);
        }
        Some(places.into_iter().map(borrower).collect())
    }

    fn place_of(&self, wanted: &Queue) -> Option<usize> {
        let is_it = |place: &QueueHolder| {
            let QueueHolder { queue, holder } = place;
            let is_same = (queue.port, queue.number) == (wanted.port, wanted.number);
            let may_enter = match holder {
                Holder::Nobody => true,
                Holder::Former | Holder::Closed => queue.interface == wanted.interface,
                Holder::Socket => false,
            };
            is_same && may_enter
        };
        self.places.iter().position(is_it)
    }

    fn names_now(&self) -> String {
        let queues: Vec<_> = self.places.iter().map(|place| place.queue).collect();
        name(&queues, self.shard)
    }

    fn keep_as(&mut self, name: String, descriptor_store: &DescriptorStore) {
        if let Some(former) = self.name.replace(name.clone()) {
            descriptor_store.forget(&former);
        }
        descriptor_store.keep(&name, &self.file);
    }

    /// Whether a socket of a former process may be gone on with.
    pub fn has_former(&self, borrower: Borrower) -> bool {
        self.holder(borrower) == Holder::Former
    }

    fn holder(&self, borrower: Borrower) -> Holder {
        let place = self.places.get(usize::from(borrower.get()) - 1);
        place.map_or(Holder::Nobody, |place| place.holder)
    }

    fn set_holder(&mut self, borrower: Borrower, holder: Holder) {
        if let Some(place) = self.places.get_mut(usize::from(borrower.get()) - 1) {
            place.holder = holder;
        }
    }

    /// A socket goes on that a former process has left: of its buffers the kernel has those at these
    /// places, and `inside` besides, or some. Returns whether that can be.
    pub fn go_on(&mut self, borrower: Borrower, seen: &[usize], inside: Inside) -> bool {
        let mut seen: Vec<_> = seen.iter().map(|&one| self.pool.number_at(one)).collect();
        seen.sort_unstable();
        seen.dedup();
        let is_seen = |number: usize| seen.binary_search(&number).is_ok();
        let lent = self.pool.numbers_lent(borrower);
        if lent.filter(|&number| is_seen(number)).count() != seen.len() {
            return false;
        }
        if inside == Inside::None {
            // The former process was killed between two steps.
            self.pool.reclaim(borrower, |number| !is_seen(number));
        }
        self.set_holder(borrower, Holder::Socket);
        true
    }

    /// A new socket is bound to a queue, which no other is any more: what that had is free.
    pub fn is_bound(&mut self, borrower: Borrower) {
        self.pool.reclaim(borrower, |_| true);
        self.set_holder(borrower, Holder::Socket);
    }

    /// A socket is closed, or was not opened.
    pub fn left(&mut self, borrower: Borrower) {
        self.set_holder(borrower, Holder::Closed);
    }

    /// Buffers of sockets whose interfaces are gone come back.
    pub fn settle(&mut self) {
        for place in 0..self.places.len() {
            let QueueHolder { queue, holder } = self.places[place];
            if holder == Holder::Closed && is_gone(queue.interface) {
                self.pool.reclaim(borrower(place), |_| true);
                self.places[place].holder = Holder::Nobody;
            }
        }
    }

    /// What a socket registers: where the memory begins, and its length in bytes.
    pub fn registered(&self) -> (u64, u64) {
        let (start, bytes) = self.pool.buffers();
        (start.as_ptr() as u64, bytes as u64)
    }

    /// A buffer for a socket to receive into.
    pub fn lend_empty(&mut self, to: Borrower) -> Option<usize> {
        let frame = self.pool.take()?;
        self.pool.lend(frame, to).ok()
    }

    /// A frame of this memory goes to a socket, as it lies.
    pub fn lend(&mut self, frame: Frame, to: Borrower) -> Option<usize> {
        self.pool.lend(frame, to).ok()
    }

    /// A socket is about to give back what is at this place.
    pub fn expect_back(&self, place: u64) {
        self.pool.expect_back(place as usize);
    }

    /// A socket gives back a buffer with a packet; `None` if it had none there.
    pub fn take_back(&mut self, place: u64, bytes: u32, from: Borrower) -> Option<Frame> {
        self.pool.take_back(place as usize, bytes as usize, from)
    }

    /// A socket gives back a buffer that nobody wants anything of.
    pub fn free(&mut self, place: u64, from: Borrower) {
        if let Some(frame) = self.take_back(place, 0, from) {
            self.pool.give(frame);
        }
    }

    /// A packet for the node: as it lies, or in a buffer of the node's if few are left here.
    pub fn received(
        &mut self,
        frame: Frame,
        pools: &mut Pools,
        counters: &mut PortCounters,
    ) -> Option<Frame> {
        if self.pool.has_more_than(self.reserve) {
            return Some(frame);
        }
        let copy = pools.take_filled(frame.bytes());
        counters.receive_copied += u64::from(copy.is_some());
        self.pool.give(frame);
        copy
    }

    /// A frame that leaves, in this memory: itself, or a copy.
    ///
    /// # Errors
    /// No buffer is free for a copy, or the frame is longer than one.
    pub fn leaving(
        &mut self,
        frame: Frame,
        pools: &mut Pools,
        counters: &mut PortCounters,
    ) -> Result<Frame, Frame> {
        if self.pool.owns(&frame) {
            return Ok(frame);
        }
        match self.pool.take_filled(frame.bytes()) {
            Some(copy) => {
                counters.transmit_copied += 1;
                pools.give(frame);
                Ok(copy)
            }
            None => Err(frame),
        }
    }

    /// Buffers, and those of them that neither the node nor the kernel has.
    #[cfg(test)]
    pub fn free_of(&mut self) -> (usize, usize) {
        (self.pool.frames(), self.pool.available())
    }
}

/// How many buffers the kernel has that are in no ring.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Inside {
    /// None.
    None,
    /// Some, as a card has that writes to them.
    Some,
}

/// Sockets on these queues, in the memory of all ports if they have their places there, else in one of
/// their own.
pub fn enter(
    shared: Option<&SharedUmem>,
    queues: &[Queue],
    descriptor_store: &DescriptorStore,
) -> io::Result<(SharedUmem, Vec<Borrower>)> {
    if let Some(umem) = shared
        && let Some(borrowers) = lock(umem).enter(queues, descriptor_store)
    {
        return Ok((Arc::clone(umem), borrowers));
    }
    let umem = Umem::alone(queues)?;
    let borrowers = (0..queues.len()).map(borrower).collect();
    Ok((Arc::new(Mutex::new(umem)), borrowers))
}

fn borrower(place: usize) -> Borrower {
    // More queues than that no interface has.
    let number = u16::try_from(place + 1).unwrap_or(u16::MAX);
    Borrower::new(number).unwrap_or(Borrower::MIN)
}

/// Each queue has its buffers to receive into, and each port as many for what is in the node and what
/// the kernel has yet to send.
fn file_bytes(queues: usize, ports: usize) -> usize {
    Pool::file_bytes((queues + ports) * ENTRIES as usize, CHUNK_BYTES)
}

/// The name says what the memory is good for.
fn name(queues: &[Queue], shard: u16) -> String {
    let mut hasher = DefaultHasher::new();
    (LAYOUT, queues, sys::network()).hash(&mut hasher);
    format!("xdp-{shard}-{:016x}-memory", hasher.finish())
}

/// Whether an interface is gone, and the kernel has let go of all that was its.
fn is_gone(interface: u32) -> bool {
    let is_gone = !sys::has_interface(interface);
    if is_gone {
        // Whoever asks a driver something waits until changes of interfaces are done that are under way.
        let _ = Interface::of("lo");
    }
    is_gone
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loopback's number, and one that no interface has.
    const THERE: u32 = 1;
    const GONE: u32 = u32::MAX / 2;
    const CHUNKS: usize = ENTRIES as usize;

    fn queue(port: usize, interface: u32) -> Queue {
        Queue {
            port,
            interface,
            number: 0,
        }
    }

    fn memory(ports: usize) -> (MemoryFile, MemoryFile) {
        let len = file_bytes(ports, ports);
        let memory = MemoryFile::new(len).expect("memory");
        let copy = memory.descriptor().try_clone().expect("a copy");
        (memory, MemoryFile::of(copy, len).expect("as long"))
    }

    fn umem(queues: &[Queue]) -> Umem {
        let (memory, _) = memory(queues.len());
        Umem::over(memory, queues, queues.len(), Holder::Nobody).expect("memory")
    }

    /// Lends so many buffers, and returns where they are.
    fn lend(umem: &mut Umem, to: Borrower, count: usize) -> Vec<usize> {
        let lent = (0..count).map(|_| umem.lend_empty(to));
        lent.map(|one| one.expect("some are free")).collect()
    }

    fn descriptor_store() -> DescriptorStore {
        DescriptorStore::nobody()
    }

    #[test]
    fn buffers_of_an_interface_that_is_gone_come_back() {
        let mut umem = umem(&[queue(0, GONE), queue(1, THERE)]);
        let entered = umem.enter(&[queue(0, GONE)], &descriptor_store());
        let gone = entered.expect("its place")[0];
        umem.is_bound(gone);
        lend(&mut umem, gone, 100);
        umem.settle();
        assert_eq!(umem.free_of(), (4 * CHUNKS, 4 * CHUNKS - 100), "it is open");
        umem.left(gone);
        umem.settle();
        assert_eq!(umem.free_of(), (4 * CHUNKS, 4 * CHUNKS));
        assert!(
            umem.enter(&[queue(0, THERE)], &descriptor_store())
                .is_some()
        );
    }

    #[test]
    fn buffers_are_not_free_while_the_kernel_may_write_to_them() {
        let mut umem = umem(&[queue(0, THERE)]);
        let entered = umem.enter(&[queue(0, THERE)], &descriptor_store());
        let there = entered.expect("its place")[0];
        umem.is_bound(there);
        lend(&mut umem, there, 100);
        umem.left(there);
        umem.settle();
        let some_are_out = (2 * CHUNKS, 2 * CHUNKS - 100);
        assert_eq!(umem.free_of(), some_are_out);
        assert!(
            umem.enter(&[queue(0, GONE)], &descriptor_store()).is_none(),
            "the former interface is still there"
        );
        assert!(
            umem.enter(&[queue(0, THERE)], &descriptor_store())
                .is_some()
        );
        assert_eq!(umem.free_of(), some_are_out, "another may be bound");
        umem.is_bound(there);
        assert_eq!(umem.free_of(), (2 * CHUNKS, 2 * CHUNKS), "none is");
    }

    #[test]
    fn a_port_with_other_queues_has_memory_of_its_own() {
        let shared = Arc::new(Mutex::new(umem(&[queue(0, THERE)])));
        let more = [queue(0, THERE), queue(0, THERE)].map(|one| Queue { number: 1, ..one });
        let (own, borrowers) = enter(Some(&shared), &more, &descriptor_store()).expect("memory");
        assert!(!Arc::ptr_eq(&own, &shared) && borrowers.len() == 2);
        let (same, _) =
            enter(Some(&shared), &[queue(0, THERE)], &descriptor_store()).expect("memory");
        assert!(Arc::ptr_eq(&same, &shared));
    }

    #[test]
    fn what_a_killed_process_had_between_two_steps_is_free() {
        let (memory, same) = memory(1);
        let queues = [queue(0, THERE)];
        let mut former = Umem::over(memory, &queues, 1, Holder::Nobody).expect("memory");
        let own = borrower(0);
        let lent = lend(&mut former, own, 10);
        let kept = std::iter::from_fn(|| former.pool.take()).take(5);
        std::mem::forget(kept.collect::<Vec<_>>());
        std::mem::forget(former);
        let mut next = Umem::over(same, &queues, 1, Holder::Former).expect("memory");
        assert!(next.has_former(own));
        let unknown = lent.iter().max().expect("some") + 64 * CHUNK_BYTES;
        assert!(!next.go_on(own, &[lent[0], unknown], Inside::None));
        assert!(next.go_on(own, &lent[..7], Inside::Some));
        assert_eq!(next.free_of().1, 2 * CHUNKS - 10, "a card may have three");
        assert!(next.go_on(own, &lent[..7], Inside::None));
        assert_eq!(next.free_of().1, 2 * CHUNKS - 7);
        let frame = next.take_back(lent[6] as u64, 60, own).expect("lent");
        assert_eq!(frame.len(), 60);
        assert!(next.take_back(lent[7] as u64, 60, own).is_none(), "free");
    }

    #[test]
    fn names_tell_queues_interfaces_and_threads_apart() {
        let one = name(&[queue(0, THERE)], 0);
        assert_eq!(one, name(&[queue(0, THERE)], 0));
        let others = [
            name(&[queue(0, THERE)], 1),
            name(&[queue(0, GONE)], 0),
            name(&[queue(1, THERE)], 0),
            name(&[queue(0, THERE); 2], 0),
        ];
        assert!(others.iter().all(|other| *other != one));
    }
}
