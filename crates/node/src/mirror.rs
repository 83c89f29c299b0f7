//! Copies of packets for whoever wants to see them while a service runs: those that a port takes or
//! sends, those in front of an element of the chain, and those that are dropped.
//!
//! The threads of the data plane look at one number, once for each burst and at each drop: while
//! nobody wants anything, that is all. A copy goes into a ring of buffers that exist beforehand, never
//! waits and never allocates: what there is no room for is counted, as is what comes while the reader
//! takes some out.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use twinpath_core::split::copy_of;
use twinpath_core::{DropReason, Frame};

/// Copies that wait for their reader.
const COPIES: usize = 1024;

/// Readers at the same time.
pub const MOST_READERS: usize = 8;

/// Longest part of a packet that is copied.
pub const MOST_BYTES: usize = 9216;

/// Where packets are copied.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// At a port, in and out; at all of them without a number.
    Port(Option<u16>),
    /// In front of an element of the chain.
    Element(u8),
    /// Where they are dropped, by the fast path, a worker or a function.
    Drops,
}

impl Wanted {
    const fn bit(self) -> u8 {
        match self {
            Self::Port(_) => 1,
            Self::Element(_) => 2,
            Self::Drops => 4,
        }
    }
}

/// What becomes of a packet where it is copied.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A port has taken it.
    Received,
    /// A port is about to send it.
    Transmitted,
    /// An element of the chain is about to meet it.
    Meets(u8),
    /// It is dropped.
    Dropped(Drop),
}

/// How a packet is dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Drop {
    /// Why.
    pub reason: DropReason,
    /// Whether a worker does it; else the fast path.
    pub on_slow_path: bool,
    /// The element of the chain that decided, if one did.
    pub element: Option<u8>,
    /// The place of the function in its element, if it is known.
    pub function: Option<u8>,
}

/// A packet as it was.
#[derive(Clone, Debug)]
pub struct Copied {
    /// What became of it.
    pub event: Event,
    /// When it came, on the packet clock.
    pub at_ns: u64,
    /// The port that it came in by, or leaves by.
    pub port: u16,
    /// How long it was.
    pub length: usize,
    /// As much of it as was wanted.
    pub bytes: Vec<u8>,
}

impl Copied {
    fn empty(bytes: usize) -> Self {
        Self {
            event: Event::Received,
            at_ns: 0,
            port: 0,
            length: 0,
            bytes: Vec::with_capacity(bytes),
        }
    }
}

/// Copies in the order in which they were made.
struct Ring {
    copies: Vec<Copied>,
    count: usize,
}

/// Somebody who wants copies; none are made for it any more once it is dropped.
pub struct Reader {
    shared: Arc<Shared>,
    spare: Ring,
    mirror: Arc<Mirror>,
}

struct Shared {
    wanted: Wanted,
    bytes: usize,
    ring: Mutex<Ring>,
    shed: AtomicU64,
}

impl Shared {
    fn ring(&self) -> Ring {
        Ring {
            copies: (0..COPIES).map(|_| Copied::empty(self.bytes)).collect(),
            count: 0,
        }
    }

    fn wants(&self, event: Event, port: u16) -> bool {
        match (self.wanted, event) {
            (Wanted::Port(number), Event::Received | Event::Transmitted) => {
                number.is_none_or(|number| number == port)
            }
            (Wanted::Element(wanted), Event::Meets(element)) => wanted == element,
            (Wanted::Drops, Event::Dropped(_)) => true,
            _ => false,
        }
    }

    fn take(&self, event: Event, (at_ns, port): (u64, u16), packet: &[u8]) {
        let Ok(mut ring) = self.ring.try_lock() else {
            self.shed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let Ring { copies, count } = &mut *ring;
        let Some(copy) = copies.get_mut(*count) else {
            self.shed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        *count += 1;
        (copy.event, copy.at_ns, copy.port, copy.length) = (event, at_ns, port, packet.len());
        copy.bytes.clear();
        let copied = packet.len().min(self.bytes);
        copy.bytes.extend_from_slice(&packet[..copied]);
    }
}

impl Reader {
    /// The copies since the last call, in order.
    pub fn copies(&mut self) -> &[Copied] {
        self.spare.count = 0;
        // The data plane never holds this for longer than a copy takes.
        let mut ring = self
            .shared
            .ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *ring, &mut self.spare);
        drop(ring);
        &self.spare.copies[..self.spare.count]
    }

    /// Packets that were not copied, for want of room.
    pub fn shed(&self) -> u64 {
        self.shared.shed.load(Ordering::Relaxed)
    }
}

impl std::ops::Drop for Reader {
    fn drop(&mut self) {
        self.mirror.leave(&self.shared);
    }
}

/// Makes copies for readers.
#[derive(Default)]
pub struct Mirror {
    /// What somebody wants.
    wanted: AtomicU8,
    readers: RwLock<Vec<Arc<Shared>>>,
}

impl Mirror {
    /// Somebody wants copies, of so many bytes at most; `None` if too many others do.
    pub fn read(self: &Arc<Self>, wanted: Wanted, bytes: usize) -> Option<Reader> {
        let mut shared = Shared {
            wanted,
            bytes: bytes.min(MOST_BYTES),
            ring: Mutex::new(Ring {
                copies: Vec::new(),
                count: 0,
            }),
            shed: AtomicU64::new(0),
        };
        let spare = shared.ring();
        shared.ring = Mutex::new(shared.ring());
        let shared = Arc::new(shared);
        let mut readers = self.readers.write().unwrap_or_else(PoisonError::into_inner);
        if readers.len() >= MOST_READERS {
            return None;
        }
        readers.push(Arc::clone(&shared));
        self.tell_wanted(&readers);
        Some(Reader {
            shared,
            spare,
            mirror: Arc::clone(self),
        })
    }

    fn leave(&self, reader: &Arc<Shared>) {
        let mut readers = self.readers.write().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|other| !Arc::ptr_eq(other, reader));
        self.tell_wanted(&readers);
    }

    fn tell_wanted(&self, readers: &[Arc<Shared>]) {
        let all = readers.iter().fold(0, |all, one| all | one.wanted.bit());
        self.wanted.store(all, Ordering::Relaxed);
    }

    /// Whether somebody wants packets of ports.
    #[inline(always)]
    pub fn wants_ports(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) & Wanted::Port(None).bit() != 0
    }

    /// Whether somebody wants packets in front of elements.
    #[inline(always)]
    pub fn wants_elements(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) & Wanted::Element(0).bit() != 0
    }

    /// Whether somebody wants packets that are dropped.
    #[inline(always)]
    pub fn wants_drops(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) & Wanted::Drops.bit() != 0
    }

    /// A packet is about to meet an element.
    #[inline(always)]
    pub fn in_front(&self, element: u8, frame: &Frame) {
        if self.wants_elements() {
            self.copy(Event::Meets(element), frame);
        }
    }

    /// Copies a packet for whoever wants it.
    #[cold]
    pub fn copy(&self, event: Event, frame: &Frame) {
        let of = (frame.timestamp().0, frame.port());
        match frame.metadata().parked_bytes {
            0 => self.copy_bytes(event, of, frame.bytes()),
            _ => {
                let mut copy = Vec::new();
                copy_of(frame, &mut copy);
                self.copy_bytes(event, of, &copy);
            }
        }
    }

    /// The same of one whose buffer is in use again.
    #[cold]
    pub fn copy_bytes(&self, event: Event, of: (u64, u16), packet: &[u8]) {
        // Whoever joins or leaves holds it for a moment; then nothing is copied.
        let Ok(readers) = self.readers.try_read() else {
            return;
        };
        for reader in readers.iter().filter(|reader| reader.wants(event, of.1)) {
            reader.take(event, of, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::Pools;

    fn dropped(reason: DropReason) -> Event {
        Event::Dropped(Drop {
            reason,
            on_slow_path: false,
            element: None,
            function: None,
        })
    }

    #[test]
    fn each_reader_has_what_it_wants_and_nobody_else_is_asked() {
        let mirror = Arc::new(Mirror::default());
        assert!(!mirror.wants_ports() && !mirror.wants_drops() && !mirror.wants_elements());
        let mut port = mirror.read(Wanted::Port(Some(1)), 64).expect("room");
        let mut drops = mirror.read(Wanted::Drops, 4).expect("room");
        assert!(mirror.wants_ports() && mirror.wants_drops() && !mirror.wants_elements());
        let mut frame = Pools::new(1, 1).take_filled(&[7; 60]).expect("a buffer");
        for number in [0, 1] {
            frame.set_port(number);
            mirror.copy(Event::Received, &frame);
        }
        mirror.copy(dropped(DropReason::Denied), &frame);
        let copies = port.copies();
        assert_eq!((copies.len(), copies[0].port, copies[0].length), (1, 1, 60));
        let copies = drops.copies();
        assert_eq!(
            (copies.len(), copies[0].bytes.len(), copies[0].length),
            (1, 4, 60)
        );
        assert!(drops.copies().is_empty() && port.copies().is_empty());
        drop(port);
        assert!(!mirror.wants_ports() && mirror.wants_drops());
        drop(drops);
        assert!(!mirror.wants_drops());
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let mirror = Arc::new(Mirror::default());
        let mut reader = mirror.read(Wanted::Drops, 64).expect("room");
        for _ in 0..COPIES + 5 {
            mirror.copy_bytes(dropped(DropReason::Denied), (1, 2), &[0; 60]);
        }
        assert_eq!((reader.copies().len(), reader.shed()), (COPIES, 5));
        mirror.copy_bytes(dropped(DropReason::Denied), (1, 2), &[0; 60]);
        assert_eq!((reader.copies().len(), reader.shed()), (1, 5));
    }

    #[test]
    fn there_are_only_so_many_readers() {
        let mirror = Arc::new(Mirror::default());
        let read = || mirror.read(Wanted::Drops, 64);
        let mut readers: Vec<_> = (0..MOST_READERS).map(|_| read()).collect();
        assert!(readers.iter().all(Option::is_some) && read().is_none());
        readers.pop();
        assert!(read().is_some());
    }
}
