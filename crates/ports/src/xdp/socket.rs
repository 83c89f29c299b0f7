//! The socket of one queue, and its rings.

use super::rings::{Ring, Side};
use crate::counters::PortCounters;
use crate::descriptor_store::DescriptorStore;
use crate::interface::Interface;
use crate::sys;
use crate::umem::{CHUNK_BYTES, ENTRIES, HEADROOM, Inside, Umem};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};
use twinpath_core::pool::Borrower;
use twinpath_core::{Frame, Pools};

/// The page of each ring in the socket's file.
const RX_PAGE: u64 = 0;
const TX_PAGE: u64 = 0x8000_0000;
const FILL_PAGE: u64 = 0x1_0000_0000;
const COMPLETION_PAGE: u64 = 0x1_8000_0000;

/// Frames that a copying kernel sends in one go; absent in older kernels.
const MAX_TX_BUDGET: i32 = 9;
const TX_BUDGET: u32 = 256;

/// How often the kernel is asked to send what it left of a burst.
const KICKS: usize = 8;

/// A packet in the shared memory: `struct xdp_desc`.
#[repr(C)]
#[derive(Copy, Clone)]
struct Descriptor {
    address: u64,
    len: u32,
    options: u32,
}

pub struct Socket {
    socket: OwnedFd,
    /// As which it has buffers.
    borrower: Borrower,
    rx: Ring<Descriptor>,
    tx: Ring<Descriptor>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    is_zero_copy: bool,
    /// What was taken of rings and not looked at yet; empty between calls.
    packets: Vec<Descriptor>,
    sent: Vec<u64>,
}

/// Under which name a queue's socket is kept beyond the process.
fn name(interface: u32, queue: u32) -> String {
    format!("xdp-{interface}-{queue}-socket")
}

/// How long the kernel is waited for that has yet to send what a former process has left.
const SENDING: Duration = Duration::from_millis(200);
const SENDING_LOOK: Duration = Duration::from_millis(1);

impl Socket {
    /// Opens the socket of a queue, or goes on with one that was kept.
    pub fn open(
        interface: &Interface,
        queue: u32,
        borrower: Borrower,
        umem: &mut Umem,
        descriptor_store: &DescriptorStore,
    ) -> io::Result<Self> {
        let name = name(interface.index, queue);
        if umem.has_former(borrower)
            && let Some(socket) = descriptor_store.take(&name)
            && let Ok(socket) = Self::go_on(socket, borrower, umem)
        {
            return Ok(socket);
        }
        // Whoever has the queue keeps others from it.
        descriptor_store.forget(&name);
        let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        register(&socket, umem)?;
        make_rings(&socket)?;
        let _ = sys::set_option(&socket, libc::SOL_XDP, MAX_TX_BUDGET, TX_BUDGET);
        let mut own = Self::over(socket, borrower)?;
        own.is_zero_copy = bind(&own.socket, interface.index, queue)?;
        umem.is_bound(borrower);
        own.fill_up(umem);
        own.kick_receive();
        if umem.is_kept() {
            descriptor_store.keep(&name, &own.socket);
        }
        Ok(own)
    }

    /// Nobody keeps the socket of a queue any more.
    pub fn forget(interface: u32, queue: u32, descriptor_store: &DescriptorStore) {
        descriptor_store.forget(&name(interface, queue));
    }

    /// Goes on where a former process has left off: what has arrived is in the ring.
    fn go_on(socket: OwnedFd, borrower: Borrower, umem: &mut Umem) -> io::Result<Self> {
        if !sys::is_of_this_network(&socket) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut own = Self::over(socket, borrower)?;
        own.is_zero_copy = is_zero_copy(&own.socket);
        own.wait_until_sent()?;
        let before = own.inside();
        let seen = own.seen();
        let inside = match (before, own.inside()) {
            (Inside::None, Inside::None) => Inside::None,
            _ => Inside::Some,
        };
        if !umem.go_on(borrower, &seen, inside) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        own.take_back(umem);
        own.fill_up(umem);
        Ok(own)
    }

    /// Each packet that the kernel has taken comes back when it is sent.
    fn wait_until_sent(&self) -> io::Result<()> {
        let end = Instant::now() + SENDING;
        while self.tx.count_taken() != self.completion.count_put() {
            if Instant::now() > end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(SENDING_LOOK);
        }
        Ok(())
    }

    /// Whether the kernel has taken buffers that it has not received into yet.
    fn inside(&self) -> Inside {
        match self.fill.count_taken() == self.rx.count_put() {
            true => Inside::None,
            false => Inside::Some,
        }
    }

    /// Where the buffers are that are in the rings, in the order in which the kernel moves them.
    fn seen(&self) -> Vec<usize> {
        let address = |one: Descriptor| one.address;
        let sending = self.tx.waiting(Side::Producer).map(address);
        let sent = self.completion.waiting(Side::Consumer);
        let mut seen: Vec<_> = sending.chain(sent).collect();
        seen.extend(self.fill.waiting(Side::Producer));
        seen.extend(self.rx.waiting(Side::Consumer).map(address));
        seen.into_iter().map(|one| one as usize).collect()
    }

    /// Over a socket whose rings are made, wherever they are.
    fn over(socket: OwnedFd, borrower: Borrower) -> io::Result<Self> {
        let at = ring_offsets(&socket)?;
        Ok(Self {
            fill: Ring::map(&socket, FILL_PAGE, &at.fr, ENTRIES, Side::Producer)?,
            completion: Ring::map(&socket, COMPLETION_PAGE, &at.cr, ENTRIES, Side::Consumer)?,
            rx: Ring::map(&socket, RX_PAGE, &at.rx, ENTRIES, Side::Consumer)?,
            tx: Ring::map(&socket, TX_PAGE, &at.tx, ENTRIES, Side::Producer)?,
            socket,
            borrower,
            is_zero_copy: false,
            packets: Vec::new(),
            sent: Vec::new(),
        })
    }

    pub fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    pub const fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Receives up to `most` frames, appended to `burst`.
    pub fn receive(
        &mut self,
        umem: &mut Umem,
        pools: &mut Pools,
        burst: &mut Vec<Frame>,
        most: usize,
        counters: &mut PortCounters,
    ) {
        while self.packets.len() < most
            && let Some(packet) = self.rx.take()
        {
            umem.expect_back(packet.address);
            self.packets.push(packet);
        }
        if !self.packets.is_empty() {
            self.rx.release();
            for Descriptor { address, len, .. } in self.packets.drain(..) {
                let Some(frame) = umem.take_back(address, len, self.borrower) else {
                    counters.receive_malformed += 1;
                    continue;
                };
                counters.received(frame.len());
                match umem.received(frame, pools, counters) {
                    Some(frame) => burst.push(frame),
                    None => counters.receive_no_buffer += 1,
                }
            }
            self.fill_up(umem);
        }
        if self.fill.needs_wakeup() {
            self.kick_receive();
        }
    }

    /// Hands the kernel as many buffers to receive into as it should have.
    fn fill_up(&mut self, umem: &mut Umem) {
        let has = self.fill.count().wrapping_sub(self.rx.count());
        for _ in has..ENTRIES {
            let Some(address) = umem.lend_empty(self.borrower) else {
                break;
            };
            // There is room for all that the kernel should have.
            self.fill.put(address as u64);
        }
        self.fill.submit();
    }

    /// Queues a frame, as it lies if it is in the shared memory. False, and the frame is given back, if
    /// there is no room.
    pub fn transmit(
        &mut self,
        frame: Frame,
        umem: &mut Umem,
        pools: &mut Pools,
        counters: &mut PortCounters,
    ) -> bool {
        if !self.tx.has_room() {
            self.flush(umem);
        }
        if !self.tx.has_room() {
            pools.give(frame);
            return false;
        }
        let leaving = umem.leaving(frame, pools, counters).or_else(|frame| {
            self.flush(umem);
            umem.leaving(frame, pools, counters)
        });
        let frame = match leaving {
            Ok(frame) => frame,
            Err(frame) => {
                pools.give(frame);
                return false;
            }
        };
        let len = frame.len() as u32;
        let Some(address) = umem.lend(frame, self.borrower) else {
            return false;
        };
        self.tx.put(Descriptor {
            address: address as u64,
            len,
            options: 0,
        })
    }

    /// Has the kernel send what is queued, and takes back what was sent.
    pub fn flush(&mut self, umem: &mut Umem) {
        self.tx.submit();
        for _ in 0..KICKS {
            if self.tx.needs_wakeup() && !self.tx.is_drained() {
                self.kick_send();
            }
            self.take_back(umem);
            if !self.tx.needs_wakeup() || self.tx.is_drained() {
                break;
            }
        }
    }

    fn take_back(&mut self, umem: &mut Umem) {
        while let Some(address) = self.completion.take() {
            self.sent.push(address);
        }
        self.completion.release();
        for address in self.sent.drain(..) {
            umem.free(address, self.borrower);
        }
    }

    /// Whether it is on its queue still. To be asked once: the kernel says a single time that it is not.
    pub fn is_bound(&self) -> bool {
        let error = sys::option(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR, 0i32);
        !error.is_ok_and(|error| error == libc::ENETDOWN)
    }

    fn kick_send(&self) {
        // SAFETY: nothing is sent but what is in the ring. What the kernel cannot take now stays.
        unsafe {
            libc::sendto(
                self.descriptor(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            );
        }
    }

    fn kick_receive(&self) {
        // SAFETY: nothing is received but what comes to the ring.
        unsafe {
            libc::recvfrom(
                self.descriptor(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            );
        }
    }

    /// Frames that came while there was no room for them, since the start.
    pub fn missed(&self) -> u64 {
        let none = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        let counted = sys::option(&self.socket, libc::SOL_XDP, libc::XDP_STATISTICS, none);
        counted.map_or(0, |counted| counted.rx_dropped + counted.rx_ring_full)
    }

    /// Frames that lie in the ring.
    pub fn unread(&self) -> u32 {
        self.rx.count_put().wrapping_sub(self.rx.count())
    }
}

fn register(socket: &OwnedFd, umem: &Umem) -> io::Result<()> {
    let (addr, len) = umem.registered();
    let umem = libc::xdp_umem_reg {
        addr,
        len,
        chunk_size: CHUNK_BYTES as u32,
        headroom: HEADROOM as u32,
        flags: 0,
        tx_metadata_len: 0,
    };
    sys::set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, umem)
}

fn make_rings(socket: &OwnedFd) -> io::Result<()> {
    for ring in [
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
    ] {
        sys::set_option(socket, libc::SOL_XDP, ring, ENTRIES)?;
    }
    Ok(())
}

/// Where in the rings things are.
fn ring_offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: plain data, of which all zeros are a value.
    let none: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    sys::option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, none)
}

/// Whether the card writes to our memory, of a socket that is bound.
fn is_zero_copy(socket: &OwnedFd) -> bool {
    let options: io::Result<u32> = sys::option(socket, libc::SOL_XDP, libc::XDP_OPTIONS, 0);
    options.is_ok_and(|options| options & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Binds the socket to a queue. Returns whether the card writes to our memory.
fn bind(socket: &OwnedFd, interface: u32, queue: u32) -> io::Result<bool> {
    let bind = |mode: u16| {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP | mode,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        sys::bind(socket, address)
    };
    match bind(libc::XDP_ZEROCOPY) {
        Ok(()) => Ok(true),
        Err(_) => bind(libc::XDP_COPY).map(|()| false),
    }
}
